"""What the estimators share: fitting arrays as well as sources."""

import os
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from streamrf.engine import RunOptions
from streamrf.errors import ParameterError
from streamrf.features import RAW_DTYPES, FeatureMap
from streamrf.jit.threads import computing
from streamrf.models import Model
from streamrf.solving import SQUARED
from streamrf.sources import (
    ArraySource,
    IteratorSource,
    Source,
    as_source,
    is_dask_array,
    is_mixed,
)
from streamrf.statistics import Statistics
from streamrf.training import (
    HeldRows,
    Job,
    Pass,
    Settings,
    begin,
    check_job,
    finish,
    is_auto_decode,
    peek_rows,
    refine_job,
)

if TYPE_CHECKING:
    from distributed import Client

Rows = Source | ArrayLike
Values = ArrayLike | None  # targets, weights or labels


class RandomFeatureEstimator(BaseEstimator):
    """What the classifier and the regressor share; see there."""

    _regression: bool
    codes: Any
    class_weight: Any
    loss: str
    max_passes: int
    uncertainty: bool
    _pass: Pass
    _waiting: list[Any] | None  # batches before the map is drawn, then None
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
        """Learn in one pass, or of another loss than the squared one in up to `max_passes`.

        Parameters
        ----------
        X : Source with targets, array, Dask array (n_rows, n_features), or table; see `open_source`
        y : (n_rows,) labels, or (n_rows,) or (n_rows, n_targets) values; None with a Source
        sample_weight : (n_rows,) or None; None with a Source, which brings its own
        engine, parts, spill : a `distributed.Client` whose workers do it, see `accumulate`

        Returns
        -------
        self
        """
        if isinstance(X, Source) or is_dask_array(X) or is_mixed(X):
            source = as_source(X, y, sample_weight)
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = source.n_features
        else:
            source = ArraySource(*self._checked(X, y, sample_weight, reset=True))
        job = self._job(source, engine=engine, parts=parts, spill=spill)
        pass_ = begin(job)
        check_job(job, pass_, self.loss, self.max_passes)
        self._pass = job.fold(pass_, self.prune, self.block_weights)
        held = HeldRows.of(self._pass)
        self._solved = None
        self._solve(self._pass)
        model, statistics = self._answer()
        self._solved = refine_job(job, model, held, self.loss, self.max_passes), statistics
        del self._pass
        self.__dict__.pop("_waiting", None)
        return self

    def _partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: Values, sample_weight: Values
    ) -> Self:
        """Add a batch."""
        first = not hasattr(self, "_waiting")
        batch = self._checked(X, y, sample_weight, reset=first)
        if first:
            if self.loss != SQUARED:
                raise ParameterError(
                    f"loss={self.loss!r} is for fit, which reads the rows again; partial_fit sees "
                    "each batch once, so leave loss out"
                )
            if self.class_weight == "balanced":
                raise ParameterError("class_weight='balanced' is for fit; give partial_fit a dict")
            self._waiting, self._classes = [], classes
        self._solved = None
        if self._waiting is None:
            source = IteratorSource([batch], position=self._rows_seen, key=self._stream_key)
            self._job(source, classes).fold(self._pass, self.prune, self.block_weights)
            self._rows_seen += len(batch[0])
            return self
        self._job(IteratorSource([batch]), self._classes)  # raises for settings that do not fit
        self._waiting.append(tuple(None if part is None else np.array(part) for part in batch))
        if self._n_waiting >= peek_rows(self.n_features_in_):
            self._begin_stream()
        return self

    @property
    def _n_waiting(self) -> int:
        return sum(len(batch[0]) for batch in self._waiting or ())

    def _begin_stream(self) -> None:
        """Draw the map for the batches that wait, and add them."""
        source = IteratorSource(self._waiting)
        self._stream_key = source.sample(1).key
        job = self._job(source, self._classes)
        self._pass = job.fold(begin(job), self.prune, self.block_weights)
        self._rows_seen, self._waiting = self._n_waiting, None

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

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of each column in the squared gradients that taught the warp, (n_features,)."""
        warp = self.model_.encoder.preprocessing.warp
        if warp is None:
            raise AttributeError(
                "importances come from the warp, and this model has none; warp='diagonal' learns it"
            )
        return warp.importances

    def _job(self, source: Source, classes: Any = None, **run: Any) -> Job:
        """Return the pass over a source that the parameters describe."""
        settings = Settings(
            features="auto" if self.features is None else self.features,
            normalize=self.normalize,
            warp=self.warp,
            warp_rounds=self.warp_rounds,
            scale_like=self.scale_like,
            codes=self.codes,
            classes=classes,
            class_weight=self.class_weight,
            task="regression" if self._regression else "classification",
            precision=self.precision,
            on_bad_rows=self.on_bad_rows,
            hold_out=isinstance(self.alpha, str) or is_auto_decode(self.codes),
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
            if self._waiting is not None:
                self._begin_stream()
            self._solve(self._pass.fresh())
        assert self._solved is not None
        return self._solved

    def _rows(self, X: Rows) -> Any:
        if isinstance(X, Source) or is_dask_array(X) or self.model_.encoder.table is not None:
            return X  # a table is read by the names of its columns
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
