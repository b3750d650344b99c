"""Kernel principal components of features: a linear map of raw rows, applied in a stream."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from streamrf.errors import StreamrfWarning
from streamrf.jit.arrays import Array, Floats, Mask
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
        """Return the components with `whiten`: what they transform has variances of 1.

        Those whose variance cannot be told from none, because the rounding of the features or of
        the eigenvalues has as much, become 0; a StreamrfWarning says how many.
        """
        n_unmeasured = len(self.components) - int(self._is_measured.sum())
        if n_unmeasured:
            advice = self.encoder.calibration.advice()
            warnings.warn(
                f"{n_unmeasured:,} of {len(self.components):,} components have no more variance "
                "than rounding has, and become 0 when whitened; ask for fewer"
                + (f"; {advice}" if advice else ""),
                StreamrfWarning,
                stacklevel=2,
            )
        return replace(self, whiten=True)

    @cached_property
    def _is_measured(self) -> Mask:
        """Whether the rows vary along a component by more than the rounding makes them, (k,)."""
        largest = self.explained_variance.max(initial=0.0)
        floor = self.components.shape[1] * np.finfo(np.float64).eps * largest
        rounding = np.square(self.components) @ self.encoder.calibration.noise
        return self.explained_variance > np.maximum(floor, 2 * rounding)

    def _scores(self, X: Array) -> Floats:
        calibration = self.encoder.calibration
        axes = self.components
        if self.whiten:
            variances = np.where(self._is_measured, self.explained_variance, np.inf)
            axes = axes / np.sqrt(variances)[:, np.newaxis]
        intercept = axes @ (calibration.shift - self.mean)
        return self.encoder.linear(X, axes * calibration.step, intercept)

    def transform(self, source: Rows, **options: Any) -> Floats:
        """Return the coordinates of each row of a source or array, float64 (n_rows, k).

        `options` are those of `scored`, which yields them block by block.
        """
        return np.concatenate([scores for _, scores in self.scored(source, **options)])
