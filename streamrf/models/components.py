"""Kernel principal components of features: a linear map of raw rows, applied in a stream."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamrf.jit.arrays import Array, Floats
from streamrf.models.prediction import Rows, Scorer
from streamrf.preprocessing import Encoder


@dataclass(frozen=True)
class PrincipalComponents(Scorer):
    """Principal components of features, which are those of the kernel: kernel PCA.

    Parameters
    ----------
    encoder : raw rows to features
    components : (k, n_components) float64, orthonormal axes in the features' own units
    explained_variance : (k,) float64, variances of the rows along them, descending
    explained_variance_ratio : (k,) float64, their shares of the variance of all features
    mean : (n_components,) float64, of the features in their own units
    whiten : whether `transform` divides by the deviations
    """

    encoder: Encoder
    components: Floats
    explained_variance: Floats
    explained_variance_ratio: Floats
    mean: Floats
    whiten: bool = False

    def __post_init__(self) -> None:
        self.encoder.check_coef(self.components, self.explained_variance)

    @property
    def n_scores(self) -> int:
        return len(self.components)

    def whitened(self) -> "PrincipalComponents":
        """Return the components with `whiten`: what they transform has variances of 1."""
        return replace(self, whiten=True)

    def _scores(self, X: Array) -> Floats:
        calibration = self.encoder.calibration
        axes = self.components
        if self.whiten:  # directions without variance stay as they are, as in scikit-learn
            smallest = np.finfo(np.float64).eps
            deviations = np.sqrt(np.maximum(self.explained_variance, 0.0))
            axes = axes / np.maximum(deviations, smallest)[:, np.newaxis]
        intercept = axes @ (calibration.shift - self.mean)
        return self.encoder.linear(X, axes * calibration.step, intercept)

    def transform(self, source: Rows, **options: Any) -> Floats:
        """Return the coordinates of each row of a source or array, float64 (n_rows, k).

        `options` are those of `scored`, which yields them block by block.
        """
        return np.concatenate([scores for _, scores in self.scored(source, **options)])
