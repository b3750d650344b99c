"""Kernels of the difference of two rows, and the frequencies that they are means over."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from streamrf.errors import DataError, ParameterError
from streamrf.kernels.base import Kernel, distance_sample, is_finite, rows_of

GAMMA_RULE = "gamma must be a positive number, 'scale' or 'median', got {!r}"


class ShiftInvariantKernel(Kernel):
    """A kernel ``k(gamma, x - y)`` with ``k(gamma, 0) = 1``: the mean of ``cos(<omega, x - y>)``.

    Parameters
    ----------
    gamma : float, positive, or how to learn it from rows; the kernel then stays the same when rows
        are scaled. "scale" and "median" mean ``spread^-power``, with the spread and the power of
        the kernel. "scale" takes the spread of a typical row from the standard deviation of all
        entries, "median" the median over pairs of rows that differ, of at most 1,000 rows
    """

    power = 1.0  # of the spread in 1/gamma
    order = 2  # the spread sums |x_j - y_j|^order

    def __init__(self, gamma: float | str = 1.0) -> None:
        self.gamma = gamma

    @abstractmethod
    def frequencies(self, rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        """Draw rows omega, float64 (n, n_features), with ``E[cos(<omega, x - y>)] = K(x, y)``."""

    def learn(self, sample: NDArray[Any] | None) -> Self:
        if not isinstance(self.gamma, str):
            return self
        if self.gamma not in ("scale", "median"):
            raise ParameterError(GAMMA_RULE.format(self.gamma))
        if sample is None:
            raise ParameterError(f"gamma={self.gamma!r} is learnt from rows, and none were given")
        spread = (entry_spread if self.gamma == "scale" else median_spread)(sample, self.order)
        return type(self)(spread**-self.power)

    @property
    def checked_gamma(self) -> float:
        """Gamma as a number; raises ParameterError if it is none."""
        if isinstance(self.gamma, str) and self.gamma in ("scale", "median"):
            raise ParameterError(f"gamma={self.gamma!r} is learnt from rows: call learn(X) first")
        if not is_finite(self.gamma) or not float(self.gamma) > 0:
            raise ParameterError(GAMMA_RULE.format(self.gamma))
        return float(self.gamma)

    def check_settings(self) -> None:
        super().check_settings()
        _ = self.checked_gamma

    def diagonal(self, X: NDArray[Any]) -> NDArray[np.float64]:
        return np.ones(len(X))


class Gaussian(ShiftInvariantKernel):
    """``K(x, y) = exp(-gamma |x - y|^2)``.

    Parameters
    ----------
    gamma : float, positive, "scale" (1 / (n_features * variance of all entries), as scikit-learn's
        SVC) or "median" (1 / median squared distance), the last two learnt from rows

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.Gaussian(gamma=0.5)([[0.0]], [[0.0], [2.0]]).round(3)
    array([[1.   , 0.135]])
    """

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray[np.float64]:
        return np.exp(-self.checked_gamma * _distances(X, Y, "sqeuclidean"))

    def frequencies(self, rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        # normal entries of variance 2 gamma
        return rng.standard_normal(shape) * np.sqrt(2 * self.checked_gamma)


class Laplacian(ShiftInvariantKernel):
    """``K(x, y) = exp(-gamma |x - y|_1)``.

    Parameters
    ----------
    gamma : float, positive, "scale" (1 / (n_features * standard deviation of all entries)) or
        "median" (1 / median 1-norm distance), the last two learnt from rows

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.Laplacian(gamma=0.5)([[0.0]], [[0.0], [2.0]]).round(3)
    array([[1.   , 0.368]])
    """

    order = 1

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray[np.float64]:
        return np.exp(-self.checked_gamma * _distances(X, Y, "cityblock"))

    def frequencies(self, rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        return rng.standard_cauchy(shape) * self.checked_gamma


class Cauchy(ShiftInvariantKernel):
    """``K(x, y) = prod_j 1 / (1 + gamma^2 (x_j - y_j)^2)``.

    Parameters
    ----------
    gamma : float, positive, "scale" (1 / sqrt(n_features * variance of all entries)) or "median"
        (1 / median distance), the last two learnt from rows

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.Cauchy(gamma=1.0)([[0.0]], [[0.0], [1.0], [3.0]])
    array([[1. , 0.5, 0.1]])
    """

    power = 0.5

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray[np.float64]:
        columns = [np.ascontiguousarray(rows.T) * self.checked_gamma for rows in _centred(X, Y)]
        K = np.ones([rows.shape[1] for rows in columns])
        for x, y in zip(*columns, strict=True):
            K /= 1 + np.square(np.subtract.outer(x, y))
        return K

    def frequencies(self, rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        return rng.laplace(scale=self.checked_gamma, size=shape)


def entry_spread(sample: NDArray[Any], order: int) -> float:
    """Return ``n_features * (standard deviation of all entries)^order``; 1 if all are equal."""
    deviation = float(np.std(sample, dtype=np.float64))
    return sample.shape[1] * deviation**order if deviation > 0 else 1.0


def median_spread(sample: NDArray[Any], order: int) -> float:
    """Return the median of ``sum_j |x_j - y_j|^order`` over pairs of rows that differ."""
    rows = distance_sample(sample)
    spreads = scipy.spatial.distance.pdist(rows, "sqeuclidean" if order == 2 else "cityblock")
    spreads = spreads[spreads > 0]
    if not spreads.size:
        raise DataError(
            f"the {len(rows)} sample rows are all equal in single precision, so "
            "gamma='median' cannot be learnt from them: give more rows, gamma as a number, or a "
            "scaling (normalize, --normalize)"
        )
    return float(np.median(spreads))


def _distances(X: ArrayLike, Y: ArrayLike | None, metric: str) -> NDArray[np.float64]:
    return scipy.spatial.distance.cdist(*_centred(X, Y), metric)


def _centred(X: ArrayLike, Y: ArrayLike | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """X and Y (None: X) as float64 minus the mean of X, which keeps digits of rows far from 0."""
    rows = rows_of(X)
    mean = rows.mean(axis=0)
    centred = rows - mean
    return centred, centred if Y is None else rows_of(Y) - mean
