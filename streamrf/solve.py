"""Sums to coefficients: ridge regression by packed Cholesky factors.

Everything here is in units of the rounded features: for a row with root r, features q and target t,
the model minimises ``sum (r b + <v, q> - t)^2 + alpha sum (v_j / step_j)^2`` over b and v; the
intercept b is not penalised. The coefficient of the feature itself is ``v_j / step_j``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real

import numpy as np
from scipy.linalg import lapack

from streamrf.errors import ParameterError, SolveError
from streamrf.jit import packed


@dataclass(frozen=True)
class Normal:
    """The normal equations.

    Parameters
    ----------
    gram : packed float64, ``sum q q^T``
    feature_sums : (n_components,) float64, ``sum r q``
    weight : float, ``sum r^2``
    moments : (n_outputs, n_components) float64, ``sum t q``
    totals : (n_outputs,) float64, ``sum r t``
    step : (n_components,) float64, size of one unit of each rounded feature; where rows carry
        weights, times the root of their unit, so that alpha means what it does for plain weights
    """

    gram: np.ndarray
    feature_sums: np.ndarray
    weight: float
    moments: np.ndarray
    totals: np.ndarray
    step: np.ndarray

    def centred(self, out: np.ndarray | None = None) -> np.ndarray:
        """Give the packed Gram of the centred features in their own units."""
        out = np.empty_like(self.gram) if out is None else out
        packed.centred(self.gram, self.feature_sums, self.weight, self.step, out)
        return out

    def mean_diagonal(self) -> float:
        """Give the mean squared norm of a centred feature: what a relative alpha is relative to."""
        diagonal = np.empty(len(self.step))
        packed.diagonal(self.gram, diagonal)
        diagonal = (diagonal - self.feature_sums**2 / self.weight) * self.step**2
        return float(diagonal.mean())

    def ridge(self, alpha: float, work: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Solve for one penalty.

        Parameters
        ----------
        alpha : penalty on the squared coefficients of the features in their own units
        work : packed float64 to factor in, or None

        Returns
        -------
        v : (n_outputs, n_components), coefficients of the rounded features
        b : (n_outputs,), intercepts: the model is ``b r + <v, q>``

        Raises
        ------
        SolveError
            If the penalised Gram is not positive definite in float64.
        """
        check_alpha(alpha)
        solution = self._solved(alpha, work)
        if solution is None:
            safe = self._safe_alpha(alpha)
            raise SolveError(
                f"alpha={alpha:.3g} is too small: the Gram of {len(self.step)} features is "
                f"singular to working precision; alpha={safe:.3g} factors, so use that, a larger "
                "one, or alpha='auto'"
            )
        return solution

    def path(self, alphas) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
        """Give (alpha, v, b) for each penalty; one that does not factor is left out."""
        work = np.empty_like(self.gram)
        for alpha in alphas:
            check_alpha(alpha)
            solution = self._solved(alpha, work)
            if solution is not None:
                yield alpha, *solution

    def _solved(self, alpha, work):
        """Give v and b, or None where the penalised Gram does not factor."""
        factor = self._factor(alpha, self.centred(work))
        if factor is None:
            return None
        moments = self.moments - np.outer(self.totals / self.weight, self.feature_sums)
        rhs = np.asfortranarray((moments * self.step).T)
        solution, _ = lapack.dpftrs(
            len(self.step), factor, rhs, transr="N", uplo="L", overwrite_b=1
        )
        v = np.ascontiguousarray(solution.T) * self.step
        b = (self.totals - v @ self.feature_sums) / self.weight
        return v, b

    def _factor(self, alpha, work):
        """Give the packed Cholesky factor of ``work + alpha I`` in the same memory, or None."""
        n = len(self.step)
        packed.add_diagonal(work, np.full(n, float(alpha)))
        factor, info = lapack.dpftrf(n, work, transr="N", uplo="L", overwrite_a=1)
        return None if info else factor

    def _safe_alpha(self, alpha):
        """Try greater penalties, decade by decade, until one factors."""
        scale = self.mean_diagonal()
        if not scale > 0:  # features that never vary
            return 1.0
        work = np.empty_like(self.gram)
        trial = max(float(alpha) * 10, 1e-14 * scale)
        while trial < scale:
            trial = float(f"{trial:.2e}")  # as the message will show it
            if self._factor(trial, self.centred(work)) is not None:
                return trial
            trial *= 10
        return scale


def check_alpha(alpha) -> None:
    """Refuse a penalty that is not a number of at least 0."""
    if not isinstance(alpha, Real) or isinstance(alpha, bool) or not 0 <= float(alpha) < np.inf:
        raise ParameterError(f"alpha must be 'auto' or a number of at least 0, got {alpha!r}")


# Relative to the mean squared norm of a centred feature. The best on the papers' data lie between
# 1e-7 and 1e-3.
RELATIVE_ALPHAS = 10.0 ** np.arange(-8, 1)
