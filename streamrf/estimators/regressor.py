"""The regressor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from streamrf.estimators.base import RandomFeatureEstimator, Rows, Values
from streamrf.estimators.settings import compared
from streamrf.features import FeatureMap
from streamrf.preprocessing import Warp
from streamrf.solving import SQUARED, BlockWeights
from streamrf.sources import Source, are_names
from streamrf.training import WARP_ROUNDS


class RandomFeatureRegressor(RegressorMixin, RandomFeatureEstimator):
    """Ridge regression on random features, learnt in one pass.

    Parameters
    ----------
    features, n_components, kernels, budget, prune, block_weights, normalize, warp, warp_rounds,
    scale_like, precision, on_bad_rows, memory_limit, n_threads, verbose, random_state : see
        `RandomFeatureClassifier`
    alpha : as there, or (n_targets,) floats, one penalty for each target. "auto" takes one for all,
        by errors relative to the variances of targets; where some have far more noise than others,
        ``statistics_.path().best_alphas()`` gives each its own
    uncertainty : keep the covariance of the coefficients, for ``predict(X, return_std=True)``; the
        model is then as large as the statistics

    Attributes
    ----------
    n_features_in_, features_, alpha_, coef_, intercept_, columns_, feature_importances_, model_,
    statistics_ : see `RandomFeatureClassifier`; an output is a target

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(2000, 3))
    >>> y = np.sin(3 * X[:, 0]) * X[:, 1]
    >>> features = srf.StructuredFourier(srf.Gaussian(gamma=1.0), n_components=256)
    >>> reg = srf.RandomFeatureRegressor(features, random_state=0).fit(X[:1500], y[:1500])
    >>> bool(reg.score(X[1500:], y[1500:]) > 0.99)
    True
    """

    _regression = True
    codes = class_weight = None
    loss, max_passes = SQUARED, 1

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
        normalize: str | None = "auto",
        warp: Warp | str | None = "auto",
        warp_rounds: int = WARP_ROUNDS,
        scale_like: Any = None,
        precision: str = "exact",
        uncertainty: bool = False,
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
        self.normalize = normalize
        self.warp = warp
        self.warp_rounds = warp_rounds
        self.scale_like = scale_like
        self.precision = precision
        self.uncertainty = uncertainty
        self.on_bad_rows = on_bad_rows
        self.memory_limit = memory_limit
        self.n_threads = n_threads
        self.verbose = verbose
        self.random_state = random_state

    def predict(self, X: Rows, return_std: bool = False, **options: Any) -> Any:
        """Return the value of each row of an array or source, see `Model.predict`.

        With `return_std` return the standard deviations of new targets as well, noise included;
        it needs ``uncertainty=True``.
        """
        return self.model_.predict(self._rows(X), return_std=return_std, **options)

    def score(self, X: Rows, y: Values = None, sample_weight: Values = None) -> float:
        """Return the coefficient of determination R2 on a source, or on arrays X and y."""
        if isinstance(X, Source) or are_names(X, y):
            return self.evaluate(X, y, weights=sample_weight)["r2"]
        return super().score(X, *compared(X, y, sample_weight, self._target_names))

    def partial_fit(self, X: Rows, y: Values = None, sample_weight: Values = None) -> Self:
        """Add rows, y (n_rows,) or (n_rows, n_targets); see `RandomFeatureClassifier`."""
        return self._partial_fit(X, y, None, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
