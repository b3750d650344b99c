"""The classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from streamrf.estimators.base import RandomFeatureEstimator, Rows, Values
from streamrf.estimators.settings import compared
from streamrf.features import FeatureMap
from streamrf.models import ErrorCorrectingCodes, OneVsRest
from streamrf.preprocessing import Warp
from streamrf.solving import SQUARED, BlockWeights
from streamrf.sources import ClassWeight, Source, are_names, check_listed
from streamrf.training import WARP_ROUNDS


def _has_probabilities(estimator: Any) -> bool:
    """Return True where probabilities are, or are going to be, fitted; else raise the reason."""
    solved = getattr(estimator, "_solved", None)
    if isinstance(estimator.alpha, str) or (solved and solved[0].probabilities is not None):
        return True
    raise AttributeError(
        "predict_proba needs rows that were not trained on: alpha='auto' holds some out, and "
        "fit_probabilities(X, y) takes them after fit"
    )


class RandomFeatureClassifier(ClassifierMixin, RandomFeatureEstimator):
    """Ridge regression of class codes on random features, learnt in one pass.

    With ``loss="squared_hinge"`` or "logistic" it is a support vector machine or logistic
    regression, one against the rest, for a few passes more.

    Parameters
    ----------
    features : a feature map, unfitted, or "auto": scaling, kernel, map and width are chosen from a
        peek at the rows (`streamrf.select`)
    n_components : width of features="auto"; None means that it is chosen too. A map has its own
    kernels : names of what features="auto" chooses from, see `streamrf.select`; None: the default
    budget : planned seconds of that choice; None: 24, or a quarter of the pass if that is more
    alpha : float, as in `sklearn.linear_model.Ridge`, or "auto": the best of a grid on rows held
        out by a hash, copies of a row together, which then join the others
    prune : features that the model keeps, the most useful after the pass (`Statistics.prune`); None
        means all
    block_weights : numbers, or "auto" (with ``alpha="auto"`` too), see `Statistics.solve`
    codes : `OneVsRest()` or `ErrorCorrectingCodes(n_bits)`; None: one against the rest, decoded by
        discriminants where rows held out clearly err less by them (up to 100 classes)
    loss : "squared", which one pass solves; "squared_hinge" or "logistic": refined by Newton steps,
        each one more pass over rows that can be read again (`streamrf.refine`). The penalty is
        chosen anew at each
    max_passes : passes at most, the first included; only the squared loss ends with it
    class_weight : dict of labels to weights, "balanced" (by the shares in arrays and in HDF5
        files of up to 8 million rows, else in a peek), or None
    normalize : None, "l2" (rows to unit length), "l1" (to sum 1), "max" (one constant), "standard"
        (columns), "asinh" (of standardised columns) or "quantile" (normal scores of ranks in the
        columns); "auto": with the features, None before a map
    warp : None, "diagonal" (weights of columns) or "full" (a matrix), learnt from gradients on a
        peek at the rows, or a `Warp`; "auto": taken where it helps, None before a map
    warp_rounds : how often at least the warp is learnt from the rows warped so far
    scale_like : moments of all rows (`streamrf.moments`), or their file, to scale columns by
    precision : "exact" (features rounded to integers, sums without error), "coarse" or "float64"
    on_bad_rows : "raise" or "skip" rows with NaN or infinity in `fit` and `partial_fit`
    memory_limit, n_threads, verbose : see `RunOptions`
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : (n_classes,) sorted labels
    n_features_in_ : int, columns of a row
    features_ : the fitted map
    alpha_ : penalty that was taken
    coef_, intercept_ : of the features that are kept, float64 (n_outputs, n_kept) and (n_outputs,)
    columns_ : (n_kept,) int64, places in the map of the features that are kept
    feature_importances_ : (n_features_in_,) share of each column in what a warp was learnt from;
        only with a warp
    model_, statistics_ : the `Model`, which predicts, and the `Statistics` of the rows seen

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import streamrf as srf
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = srf.RandomFeatureClassifier(random_state=0).fit(X[:1200], y[:1200])
    >>> bool(clf.score(X[1200:], y[1200:]) > 0.95)
    True

    Another kernel is that of another map:

    >>> features = srf.StructuredFourier(srf.Gaussian(gamma="median"), n_components=512)
    >>> clf = srf.RandomFeatureClassifier(features, normalize="l2", random_state=0)
    >>> bool(clf.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > 0.9)
    True
    """

    _regression = False
    uncertainty = False

    def __init__(
        self,
        features: FeatureMap | str | None = "auto",
        *,
        n_components: int | None = None,
        kernels: str | Sequence[str] | None = None,
        budget: float | None = None,
        alpha: float | NDArray[np.float64] | str = "auto",
        prune: int | None = None,
        block_weights: BlockWeights | None = None,
        codes: OneVsRest | ErrorCorrectingCodes | None = None,
        loss: str = SQUARED,
        max_passes: int = 5,
        class_weight: ClassWeight | None = None,
        normalize: str | None = "auto",
        warp: Warp | str | None = "auto",
        warp_rounds: int = WARP_ROUNDS,
        scale_like: Any = None,
        precision: str = "exact",
        on_bad_rows: str = "raise",
        memory_limit: int | str | None = None,
        n_threads: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ):
        self.features = features
        self.n_components = n_components
        self.kernels = kernels
        self.budget = budget
        self.alpha = alpha
        self.prune = prune
        self.block_weights = block_weights
        self.codes = codes
        self.loss = loss
        self.max_passes = max_passes
        self.class_weight = class_weight
        self.normalize = normalize
        self.warp = warp
        self.warp_rounds = warp_rounds
        self.scale_like = scale_like
        self.precision = precision
        self.on_bad_rows = on_bad_rows
        self.memory_limit = memory_limit
        self.n_threads = n_threads
        self.verbose = verbose
        self.random_state = random_state

    def partial_fit(
        self, X: Rows, y: Values = None, classes: Values = None, sample_weight: Values = None
    ) -> Self:
        """Add a batch of rows, also to those of `fit`.

        The first rows, up to 20,000 or 64 MiB, wait until the map is drawn for them; a prediction
        or an attribute asked for earlier draws it for the rows so far. They should be a fair sample
        of the stream. Coefficients are solved for when they are next asked for.

        A call that raises, or is interrupted, adds none of its rows: it can be given again after
        the cure. Meanwhile it holds the sums twice, as a solve does.

        A source, or a table with categories, dates or holes, does not wait: map, scales and levels
        are learnt from its first rows. Begin with one that has all levels; values of others count
        as none, and are warned of.

        Parameters
        ----------
        X : array (n_rows, n_features); Source with targets, or table
        y : (n_rows,) labels; None with a Source
        classes : all labels that will appear, the same at every call, or None: labels may also
            appear as they come
        sample_weight : (n_rows,) or None; given always or never
        """
        check_listed(classes, "classes")
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
        """
        model = self.model_.fit_probabilities(self._rows(X), y)
        self._solved = (model, self._answer()[1])
        return self

    def score(self, X: Rows, y: Values = None, sample_weight: Values = None) -> float:
        """Return the accuracy on a source, or on arrays X and y."""
        if isinstance(X, Source) or are_names(X, y):
            return self.evaluate(X, y, weights=sample_weight)["accuracy"]
        return super().score(X, *compared(X, y, sample_weight))

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels, sorted."""
        return self.model_.labels
