"""The scikit-learn face: estimators that fit arrays as well as sources."""

import os
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from streamrf.engine import RunOptions
from streamrf.features import RAW_DTYPES, FeatureMap
from streamrf.jit.threads import computing
from streamrf.models import ErrorCorrectingCodes, Model, OneVsRest
from streamrf.solving import BlockWeights
from streamrf.sources import ArraySource, IteratorSource, Source, as_source, is_dask_array
from streamrf.statistics import Statistics
from streamrf.training import Job, Pass, Settings, begin, finish

if TYPE_CHECKING:
    from distributed import Client

Rows = Source | ArrayLike
Values = ArrayLike | None  # targets, weights or labels


class _RandomFeatureEstimator(BaseEstimator):
    """What the classifier and the regressor share; see there."""

    _regression: bool
    codes: Any
    uncertainty: bool
    _pass: Pass
    _solved: tuple[Model, Statistics] | None

    def fit(
        self,
        X: Rows,
        y: Values = None,
        sample_weight: Values = None,
        *,
        engine: "Client | None" = None,
        parts: int | None = None,
        spill: str | os.PathLike | None = None,
    ) -> Self:
        """Learn in one pass.

        Parameters
        ----------
        X : Source with targets, or array or Dask array (n_rows, n_features)
        y : (n_rows,) labels, or (n_rows,) or (n_rows, n_targets) values; None with a Source
        sample_weight : (n_rows,) or None; None with a Source, which brings its own
        engine, parts, spill : a `distributed.Client` whose workers do it, see `accumulate`

        Returns
        -------
        self
        """
        if isinstance(X, Source) or is_dask_array(X):
            source = as_source(X, y, sample_weight)
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = source.n_features
        else:
            source = ArraySource(*self._checked(X, y, sample_weight, reset=True))
        job = self._job(source, engine=engine, parts=parts, spill=spill)
        self._pass = job.fold(begin(job), self.prune, self.block_weights)
        self._solved = None
        self._solve(self._pass)
        del self._pass
        return self

    def _partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: Values, sample_weight: Values
    ) -> Self:
        """Add a batch."""
        first = not hasattr(self, "_pass")
        batch = self._checked(X, y, sample_weight, reset=first)
        if first:
            source = IteratorSource([batch])
            self._pass = begin(self._job(source, classes))
            self._rows_seen = 0
            self._stream_key = None
        else:
            source = IteratorSource([batch], position=self._rows_seen, key=self._stream_key)
        if self._stream_key is None:
            self._stream_key = source.sample(1).key
        self._job(source, classes).fold(self._pass, self.prune, self.block_weights)
        self._rows_seen += len(batch[0])
        self._solved = None
        return self

    def predict(self, X: Rows, **options: Any) -> Any:
        """Return the label or value of each row of an array or source, see `Model.predict`."""
        return self.model_.predict(self._rows(X), **options)

    def evaluate(self, X: Rows, y: Values = None, **options: Any) -> dict[str, Any]:
        """Return all figures of `Model.evaluate` on a source, or on arrays X and y."""
        return self.model_.evaluate(self._rows(X), y, **options)

    def save(self, path: str | os.PathLike) -> None:
        """Write the model to an HDF5 file; `streamrf.load_model` reads it."""
        self.model_.save(path)

    @property
    def model_(self) -> Model:
        """The trained model."""
        return self._answer()[0]

    @property
    def statistics_(self) -> Statistics:
        """The statistics of the rows seen, all features of the map."""
        return self._answer()[1]

    @property
    def alpha_(self) -> float:
        """The penalty that was used."""
        return self.model_.alpha

    @property
    def features_(self) -> FeatureMap:
        """The fitted feature map."""
        return self.model_.encoder.features

    @property
    def columns_(self) -> np.ndarray:
        """Places in the map of the features that the model keeps, int64."""
        return self.model_.encoder.columns

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients of the features `columns_`, float64 (n_outputs, n_kept)."""
        return self.model_.coef / self.model_.encoder.calibration.step

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, float64 (n_outputs,)."""
        return self.model_.intercept - self.coef_ @ self.model_.encoder.calibration.shift

    def _job(self, source: Source, classes: Any = None, **run: Any) -> Job:
        """Return the pass over a source that the parameters describe."""
        settings = Settings(
            features="auto" if self.features is None else self.features,
            normalize=self.normalize,
            codes=self.codes,
            classes=classes,
            regression=self._regression,
            precision=self.precision,
            on_bad_rows=self.on_bad_rows,
            hold_out=isinstance(self.alpha, str),
            random_state=self.random_state,
        )
        options = RunOptions(memory_limit=self.memory_limit, n_threads=self.n_threads, **run)
        return Job.of(source, settings, options)

    def _solve(self, pass_: Pass) -> None:
        names = ("prune", "block_weights", "uncertainty")
        options = {name: getattr(self, name) for name in names}
        with computing(self.n_threads):
            self._solved = finish(pass_, self.alpha, self.codes, **options)

    def _answer(self) -> tuple[Model, Statistics]:
        check_is_fitted(self, "n_features_in_")
        if self._solved is None:
            self._solve(self._pass.fresh())
        assert self._solved is not None
        return self._solved

    def _rows(self, X: Rows) -> Any:
        if isinstance(X, Source) or is_dask_array(X):
            return X
        return validate_data(self, X, dtype=RAW_DTYPES, reset=False)

    def _checked(self, X: Rows, y: Values, sample_weight: Values, reset: bool) -> Any:
        """Return X, y and weights as scikit-learn's conventions want them checked."""
        X, y = validate_data(
            self,
            X,
            y,
            dtype=RAW_DTYPES,
            multi_output=self._regression,
            y_numeric=self._regression,
            reset=reset,
        )
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        return X, y, sample_weight


def _has_probabilities(estimator: "_RandomFeatureEstimator") -> bool:
    """Return whether probabilities are, or are going to be, fitted."""
    solved = getattr(estimator, "_solved", None)
    if isinstance(estimator.alpha, str) or (solved and solved[0].probabilities is not None):
        return True
    raise AttributeError(
        "predict_proba needs rows that were not trained on: alpha='auto' holds some out, and "
        "fit_probabilities(X, y) takes them after fit"
    )


class RandomFeatureClassifier(ClassifierMixin, _RandomFeatureEstimator):
    """Ridge regression of class codes on random features, learnt in one pass.

    Parameters
    ----------
    features : a feature map, unfitted, or "auto": scaling, kernel, map and width are chosen from a
        peek at the rows (`streamrf.select`)
    alpha : float, as in `sklearn.linear_model.Ridge`, or "auto": the best of a grid on rows held
        out by a hash of their position, which then join the others
    prune : features that the model keeps, the most useful after the pass (`Statistics.prune`); None
        means all
    block_weights : numbers, or "auto" (with ``alpha="auto"`` too), see `Statistics.solve`
    codes : `OneVsRest()` (None) or `ErrorCorrectingCodes(n_bits)`
    normalize : None, "l2" (rows to unit length), "l1" (to sum 1), "max" (one constant), "standard"
        (columns) or "asinh" (of standardised columns); "auto": with the features, None before a map
    precision : "exact" (features rounded to integers, sums without error), "coarse" or "float64"
    on_bad_rows : "raise" or "skip" rows with NaN or infinity; arrays are always checked
    memory_limit, n_threads : see `RunOptions`
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : (n_classes,) sorted labels
    n_features_in_ : int
    model_, statistics_, features_, columns_, alpha_, coef_, intercept_
    """

    _regression = False
    uncertainty = False

    def __init__(
        self,
        features: FeatureMap | str | None = "auto",
        *,
        alpha: float | NDArray[np.float64] | str = "auto",
        prune: int | None = None,
        block_weights: BlockWeights | None = None,
        codes: OneVsRest | ErrorCorrectingCodes | None = None,
        normalize: str | None = "auto",
        precision: str = "exact",
        on_bad_rows: str = "raise",
        memory_limit: int | str | None = None,
        n_threads: int | None = None,
        random_state: Any = None,
    ):
        self.features = features
        self.alpha = alpha
        self.prune = prune
        self.block_weights = block_weights
        self.codes = codes
        self.normalize = normalize
        self.precision = precision
        self.on_bad_rows = on_bad_rows
        self.memory_limit = memory_limit
        self.n_threads = n_threads
        self.random_state = random_state

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: Values = None, sample_weight: Values = None
    ) -> Self:
        """Add a batch of rows; the first batch calibrates, so it should be a fair sample.

        Coefficients are solved for when they are next asked for.

        Parameters
        ----------
        X : array (n_rows, n_features)
        y : (n_rows,) labels, or (n_rows,) or (n_rows, n_targets) values
        classes : all labels that will appear, or None: labels may also appear as they come
        sample_weight : (n_rows,) or None; given always or never

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, classes, sample_weight)

    def decision_function(self, X: Rows) -> NDArray[np.float64]:
        """Return scores by class, float64 (n, n_classes); (n,) for two, above 0 the second."""
        return self.model_.decision_function(self._rows(X))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Rows, **options: Any) -> NDArray[np.float64]:
        """Return the probability of each class, float64 (n, n_classes), rows adding up to 1.

        Fitted with ``alpha="auto"`` on the rows held out, or by `fit_probabilities`. The most
        probable class is the one that `predict` returns.
        """
        return self.model_.predict_proba(self._rows(X), **options)

    def fit_probabilities(self, X: Rows, y: Values = None) -> Self:
        """Fit the probabilities on rows that were not trained on.

        Parameters
        ----------
        X : Source with labels, or array (n_rows, n_features)
        y : (n_rows,) labels; None with a Source

        Returns
        -------
        self
        """
        model = self.model_.fit_probabilities(self._rows(X), y)
        self._solved = (model, self.statistics_)
        return self

    def score(self, X: Rows, y: Values = None, sample_weight: Values = None) -> float:
        """Return the accuracy on a source, or on arrays X and y."""
        if isinstance(X, Source):
            return self.evaluate(X)["accuracy"]
        return super().score(X, y, sample_weight)

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels, sorted."""
        return self.model_.labels

    def _checked(self, X: Rows, y: Values, sample_weight: Values, reset: bool) -> Any:
        X, y, sample_weight = super()._checked(X, y, sample_weight, reset)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return X, y, sample_weight


class RandomFeatureRegressor(RegressorMixin, _RandomFeatureEstimator):
    """Ridge regression on random features, learnt in one pass.

    Parameters
    ----------
    features, prune, block_weights, normalize, precision, on_bad_rows, memory_limit, n_threads,
    random_state : see `RandomFeatureClassifier`
    alpha : as there, or (n_targets,) floats, one penalty for each target
    uncertainty : keep the covariance of the coefficients, for ``predict(X, return_std=True)``; the
        model is then as large as the statistics

    Attributes
    ----------
    n_features_in_ : int
    model_, statistics_, features_, columns_, alpha_, coef_, intercept_
    """

    _regression = True
    codes = None

    def __init__(
        self,
        features: FeatureMap | str | None = "auto",
        *,
        alpha: float | NDArray[np.float64] | str = "auto",
        prune: int | None = None,
        block_weights: BlockWeights | None = None,
        normalize: str | None = "auto",
        precision: str = "exact",
        uncertainty: bool = False,
        on_bad_rows: str = "raise",
        memory_limit: int | str | None = None,
        n_threads: int | None = None,
        random_state: Any = None,
    ):
        self.features = features
        self.alpha = alpha
        self.prune = prune
        self.block_weights = block_weights
        self.normalize = normalize
        self.precision = precision
        self.uncertainty = uncertainty
        self.on_bad_rows = on_bad_rows
        self.memory_limit = memory_limit
        self.n_threads = n_threads
        self.random_state = random_state

    def predict(self, X: Rows, return_std: bool = False, **options: Any) -> Any:
        """Return the value of each row of an array or source, see `Model.predict`.

        With `return_std` return the standard deviations of new targets as well, noise included;
        it needs ``uncertainty=True``.
        """
        return self.model_.predict(self._rows(X), return_std=return_std, **options)

    def score(self, X: Rows, y: Values = None, sample_weight: Values = None) -> float:
        """Return the coefficient of determination R2 on a source, or on arrays X and y."""
        if isinstance(X, Source):
            return self.evaluate(X)["r2"]
        return super().score(X, y, sample_weight)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: Values = None) -> Self:
        """Add a batch of rows, see `RandomFeatureClassifier.partial_fit`."""
        return self._partial_fit(X, y, None, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
