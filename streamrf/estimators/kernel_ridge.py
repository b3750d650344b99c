"""Exact kernel ridge regression of few rows."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, validate_data

from streamrf.errors import (
    DataError,
    ParameterError,
    ShapeError,
    check_readable,
    check_undated,
    warn,
)
from streamrf.estimators.batches import whole
from streamrf.estimators.fitted_rows import check_weights, merged, warn_of_lost, weighing_sample
from streamrf.estimators.settings import (
    checked_labels,
    checked_rows,
    checked_weights,
    compared,
    keep_columns,
    rows_alone,
)
from streamrf.features import RAW_DTYPES, Identity
from streamrf.jit.arrays import Array, Floats
from streamrf.kernels import Gaussian, Kernel
from streamrf.models import CodeBook, KernelExpansion, OneVsRest, check_codes
from streamrf.preprocessing import Encoder, as_columns, check_spread
from streamrf.solving import Dual, check_alpha
from streamrf.sources import (
    ArraySource,
    Block,
    Source,
    are_names,
    as_known,
    as_labels,
    as_source,
    check_each_once,
    check_rows,
    in_order,
    is_for_source,
    is_lazy,
    named,
    names_of,
)
from streamrf.training import warn_of_far_columns

N_ROWS = 4096  # of which a matrix of kernel values takes 128 MiB


class _KernelRidge(BaseEstimator):
    """What both share."""

    model_: KernelExpansion
    _metric: Callable[..., float]  # of targets, predictions and weights
    _target_names: tuple[str, ...] | None = None  # of y, where it was a table

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        alpha: float | str = "auto",
        n_rows: int = N_ROWS,
        normalize: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.n_rows = n_rows
        self.normalize = normalize

    def _sample(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> tuple[Block, Source]:
        """Return the rows to fit, and where they are from."""
        n_rows, given = self.n_rows, None
        if not isinstance(n_rows, int | np.integer) or n_rows is True or n_rows < 1:
            raise ParameterError(f"n_rows must be an integer above 0, got {n_rows!r}")
        if is_for_source(X, y):
            source = as_source(X, y, sample_weight)
            check_each_once(source)
            if y is not None and not are_names(X, y) and source.known_targets is not None:
                given, weights = source.known_targets
                given = given if weights is None else given[weights > 0]
            keep_columns(self, source)
        else:
            self._target_names = names_of(y, "y")
            X, y = self._checked(X, y)
            given = y
            if sample_weight is not None:
                sample_weight = checked_weights(sample_weight, len(X))
                given = y[sample_weight > 0]
            names = getattr(self, "feature_names_in_", None)
            source = named(ArraySource(X, y, sample_weight), names, self._target_names)
        if not source.has_targets:
            raise DataError(f"{source.where} has no targets to fit to; name the dataset: y=")
        if isinstance(source, ArraySource) or not is_lazy(X):
            check_weights(source)
        if not is_classifier(self):
            source = source.of_values()
        if n_rows == N_ROWS < (source.n_rows or 0):
            warn(
                f"{source.where}: {n_rows:,} of {source.n_rows:,} rows are fitted, spread over all;"
                " n_rows= takes more, with memory for its square, and random features take all"
            )
        block = weighing_sample(source, n_rows)
        if given is not None and is_classifier(self) and len(block.X) < len(given):
            warn_of_lost(as_labels(given), as_labels(block.y))
        if not len(block.X):
            raise DataError(f"{source.where} has no rows to fit, or all their weights are zero")
        return block, source

    def _checked(self, X: Any, y: Any) -> tuple[Array, Array]:
        check_readable(y, "y")
        check_undated(y, "y")
        return validate_data(
            self, as_known(X), y, dtype=RAW_DTYPES, multi_output=True, y_numeric=True
        )

    def _solve(
        self, block: Block, source: Source, targets: Floats, labels: Any, book: CodeBook | None
    ) -> Self:
        """Learn scales, kernel, penalty and coefficients."""
        kernel = Gaussian("median") if self.kernel is None else self.kernel
        if not isinstance(kernel, Kernel):
            raise ParameterError(f"kernel must be a kernel such as Gaussian(), got {kernel!r}")
        if isinstance(self.alpha, str) and self.alpha != "auto":
            raise ParameterError(f"alpha must be a number or 'auto', got {self.alpha!r}")
        check_spread(targets.min(axis=0), targets.max(axis=0))
        encoder = Encoder.calibrate(Identity(), block, normalize=self.normalize)
        warn_of_far_columns(encoder, block.X)
        rows = encoder.preprocessing.apply(block.X)
        self.kernel_ = kernel.learn(rows)
        self.kernel_.check_settings()
        weights = np.ones(len(rows)) if block.weights is None else block.weights
        constant = np.where(targets.min(axis=0) == targets.max(axis=0), targets[0], 0.0)
        rows, targets, weights = merged(rows, targets - constant, weights)  # a mean is rounded
        chosen = isinstance(self.alpha, str)
        if chosen and len(rows) == 1 < len(block.X):
            raise DataError(
                f"the {len(block.X):,} rows are all equal, so that nothing can be learnt of them, "
                "and no penalty be chosen; check the columns, or give alpha as a number"
            )
        dual = Dual(self.kernel_(rows), targets, weights)
        self.alpha_ = dual.best_alpha(book is None) if chosen else check_alpha(self.alpha)
        self.dual_coef_, intercept = dual.solve(self.alpha_)
        self.intercept_ = intercept + constant
        self.X_fit_ = rows
        function = self.kernel_.expansion(rows, self.dual_coef_)
        encoder = encoder.of_source(source)
        self.model_ = KernelExpansion(encoder, function, self.intercept_, labels, book)
        return self

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of classes, R2 of values, on a source, a table, or arrays X and y.

        A source is read once. DataError if it has no targets, ShapeError for others than fitted.
        """
        check_is_fitted(self)
        if not (isinstance(X, Source) or are_names(X, y)):
            y, weights = compared(X, y, sample_weight, self._target_names)
            return float(self._metric(y, self.predict(X), sample_weight=weights))
        source = as_source(X, y, sample_weight)
        if not source.has_targets:
            raise DataError(f"{source.where} has no targets to compare with; name the dataset: y=")
        found = []
        rows = self.model_.reading(source)[0].source
        for block in in_order(rows, self.model_.encoder.target_names).blocks():
            check_rows(block, "raise")
            found.append((block.y, self._answer(self.model_.scores(block.X)), block.weights))
        n = slice(None if source.has_weights else 2)
        y, predicted, *given = map(np.concatenate, [*zip(*found, strict=True)][n])
        if y.size != predicted.size:
            n_given, n_known = (array.size // len(y) for array in (y, predicted))
            raise ShapeError(f"rows have {n_given} targets, the model {n_known}")
        return float(self._metric(y, predicted, sample_weight=given[0] if given else None))

    def predict(self, X: Any) -> Array:
        """Return the labels (n,) or values (n,) or (n, n_targets) of rows of an array or Source."""
        return self._answer(self._scores(X))

    @abstractmethod
    def _answer(self, scores: Floats) -> Array:
        """Return what is predicted of rows by their scores."""

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        if not (is_lazy(X) or self.model_.encoder.is_of_table):
            X = rows_alone(self, X)
        return self.model_.all_scores(X)


class KernelRidgeRegressor(RegressorMixin, _KernelRidge):
    """Kernel ridge regression with the exact kernel, where rows are few.

    ``f(x) = b + sum_i a_i K(x_i, x)`` over the rows fitted, with the least squared error plus alpha
    times the squared norm of f; the intercept b is not penalised. `RandomFeatureRegressor` is the
    same for any number of rows, with features in place of the kernel.

    Parameters
    ----------
    kernel : any kernel of streamrf; None means ``Gaussian("median")``
    alpha : float, as in `sklearn.kernel_ridge.KernelRidge`, or "auto": of 21 penalties the one of
        least squared error on rows left out one by one
    n_rows : of more rows that weigh than these, as many are fitted, spread over all (the first of
        an iterator, which is used up if some of its first rows weigh nothing). Memory and time
        grow with its square and cube
    normalize : scaling of rows, see `RandomFeatureClassifier`

    Attributes
    ----------
    kernel_ : with every setting a number
    alpha_ : float
    X_fit_ : (n, n_features) float32, the rows fitted, scaled, each once
    dual_coef_ : (n, n_outputs) float64, a
    intercept_ : (n_outputs,) float64, b
    model_ : KernelExpansion
    n_features_in_ : int

    Notes
    -----
    A prediction takes n kernel values; with `Intersection` log n operations a column
    (`IntersectionExpansion`). The estimator is kept by pickle.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> X = np.linspace(0, 3, 100)[:, None]
    >>> model = srf.KernelRidgeRegressor(srf.Gaussian(2.0)).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[0.5], [1.5]]).round(3)
    array([0.479, 0.997])
    """

    _metric = staticmethod(r2_score)
    score = _KernelRidge.score  # the mixin's reads a source twice

    @whole
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (n, n_features), y (n,) or (n, n_targets); or a Source or table with both."""
        block, source = self._sample(X, y, sample_weight)
        self._is_flat = np.ndim(block.y) == 1
        return self._solve(block, source, as_columns(block.y), None, None)

    def _answer(self, scores: Floats) -> Floats:
        return scores[:, 0] if self._is_flat else scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class KernelRidgeClassifier(ClassifierMixin, _KernelRidge):
    """Kernel ridge regression of class codes with the exact kernel, where rows are few.

    See `KernelRidgeRegressor`; `RandomFeatureClassifier` is the same for any number of rows, with
    features in place of the kernel.

    Parameters
    ----------
    kernel, alpha, n_rows, normalize : see `KernelRidgeRegressor`
    codes : `OneVsRest()` (None) or `ErrorCorrectingCodes(n_bits)`, decoded to the nearest codeword

    Attributes
    ----------
    classes_ : (n_classes,) sorted labels
    kernel_, alpha_, X_fit_, dual_coef_, intercept_, model_, n_features_in_ : see there

    Examples
    --------
    >>> import streamrf as srf
    >>> counts = [[4, 0], [3, 1], [0, 5], [1, 4]]
    >>> clf = srf.KernelRidgeClassifier(srf.Intersection(), alpha=0.1)
    >>> clf.fit(counts, ["a", "a", "b", "b"]).predict([[9, 2], [1, 3]]).tolist()
    ['a', 'b']
    """

    _metric = staticmethod(accuracy_score)
    score = _KernelRidge.score  # see above

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        alpha: float | str = "auto",
        codes: Any = None,
        n_rows: int = N_ROWS,
        normalize: str | None = None,
    ) -> None:
        super().__init__(kernel, alpha=alpha, n_rows=n_rows, normalize=normalize)
        self.codes = codes

    @whole
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X (n, n_features) of labels y (n,); or a Source or table with both."""
        codes = OneVsRest() if self.codes is None else self.codes
        check_codes(codes)
        if codes.decode != "euclidean":
            raise ParameterError(
                f"codes: decode={codes.decode!r} is learnt from sums of features, which an exact "
                "kernel has not; use decode='euclidean'"
            )
        block, source = self._sample(X, y, sample_weight)
        self.classes_, index = np.unique(as_labels(block.y), return_inverse=True)
        book = codes.book(len(self.classes_))
        return self._solve(block, source, book.matrix[index], self.classes_, book)

    def _checked(self, X: Any, y: Any) -> tuple[Array, Array]:
        X = checked_rows(self, X, y, ensure_min_samples=2)
        labels = checked_labels(y, len(X))
        assert_all_finite(labels, input_name="y")
        return X, labels

    def _answer(self, scores: Floats) -> Array:
        labels: Array = self.classes_[scores.argmax(axis=1)]
        return labels

    def decision_function(self, X: Any) -> Floats:
        """Return scores by class, (n, n_classes); of two classes (n,), above 0 for the second."""
        scores = self._scores(X)
        return (scores[:, 1] - scores[:, 0]) / 2 if scores.shape[1] == 2 else scores
