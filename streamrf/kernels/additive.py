"""Additive kernels of rows without negative entries (histograms, counts), and exponentials of them.

Vedaldi and Zisserman, Efficient Additive Kernels via Explicit Feature Maps, PAMI 2012.
"""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from streamrf.errors import BadRowError, DataError, ParameterError
from streamrf.kernels.base import Kernel, distance_sample, is_finite, rows_of

Floats = NDArray[np.float64]

INTERVALS = np.arange(1, 76) * 0.02  # of sampling, to choose from
RATIOS = (np.arange(200) + 0.5) / 200  # of two entries, over which an interval is measured
MEDIAN_ROWS = 300  # a matrix of an additive kernel takes a pass for each column


class AdditiveKernel(Kernel):
    """``K(x, y) = sum_j k(x_j, y_j)`` with ``k(x, y) = sqrt(x y) kappa(log x - log y)``.

    Entries must not be negative, and ``k(x, x) = x``. The spectrum is the density whose Fourier
    transform kappa is; `AdditiveSampler` samples it.
    """

    @abstractmethod
    def function(self, x: Floats, y: Floats) -> Floats:
        """Return ``k(x, y)``, elementwise."""

    @abstractmethod
    def spectrum(self, frequencies: Floats) -> Floats:
        """Return the spectrum at some frequencies, elementwise."""

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        rows = self._checked(X)
        others = rows if Y is None else self._checked(Y)
        K = np.zeros((len(rows), len(others)))
        for j in np.flatnonzero(rows.any(axis=0) & others.any(axis=0)):
            K += self.function(rows[:, j, np.newaxis], others[:, j])
        return K

    def diagonal(self, X: NDArray[Any]) -> Floats:
        return self._checked(X).sum(axis=1)

    def _checked(self, X: ArrayLike) -> Floats:
        rows = rows_of(X)
        self.check_domain(rows)
        return rows

    def check_domain(self, entries: NDArray[Any]) -> None:
        """Raise BadRowError if an entry is negative."""
        _check_nonnegative(entries, self)

    def amplitudes(self, n_steps: int, interval: float) -> Floats:
        """Return ``sqrt(L s(0))``, then ``sqrt(2 L s(j L))`` for j below `n_steps`.

        They are the factors of the waves ``cos(j L log x)`` and ``sin``; s is the spectrum, L the
        interval.
        """
        samples = np.arange(n_steps, dtype=np.float64)
        factors = np.where(samples == 0, interval, 2 * interval)
        return np.sqrt(factors * self.spectrum(samples * interval))

    def best_interval(self, n_steps: int) -> float:
        """Return the interval, of `INTERVALS`, with the least mean squared error.

        The mean is over pairs of entries that are uniform on the unit square, where the ratio of
        the less to the greater is uniform.
        """
        exact = self.function(RATIOS, np.ones_like(RATIOS))
        phases = np.outer(np.log(RATIOS), np.arange(n_steps))
        errors = [
            np.sqrt(RATIOS) * (np.cos(L * phases) @ self.amplitudes(n_steps, L) ** 2) - exact
            for L in INTERVALS
        ]
        return float(INTERVALS[np.argmin(np.square(errors).mean(axis=1))])


class Intersection(AdditiveKernel):
    """``K(x, y) = sum_j min(x_j, y_j)``."""

    def function(self, x: Floats, y: Floats) -> Floats:
        return np.minimum(x, y)

    def spectrum(self, frequencies: Floats) -> Floats:
        """Return ``(2/pi) / (1 + 4 l^2)``."""
        return 2 / np.pi / (1 + 4 * frequencies**2)

    def expansion(self, rows: NDArray[Any], coef: Floats) -> "IntersectionExpansion":
        """Return the function ``f(x) = sum_i coef_i K(rows_i, x)``, see `IntersectionExpansion`."""
        return IntersectionExpansion(self, rows, coef)


class IntersectionExpansion:
    """``f(x) = sum_i coef_i sum_j min(rows_ij, x_j)``, exactly, in O(log m) a column of x.

    ``f(x) = sum_j h_j(x_j)``, where h_j is linear between the sorted values v of column j: ``h_j(t)
    = sum_{v_i <= t} coef_i v_i + t sum_{v_i > t} coef_i``. Both sums are kept for every value, and
    one search finds them. Takes 16 n_outputs bytes for each value that is in a column.

    Parameters
    ----------
    kernel : checks that no entry is negative
    rows : (m, n_features)
    coef : (m, n_outputs) float64

    Notes
    -----
    Maji, Berg and Malik, Classification Using Intersection Kernel Support Vector Machines Is
    Efficient, CVPR 2008.
    """

    def __init__(self, kernel: Intersection, rows: NDArray[Any], coef: Floats) -> None:
        self._kernel = kernel
        self._n_outputs = coef.shape[1]
        kernel.check_domain(rows)
        self._columns = [_sums_of(column, coef) for column in np.asarray(rows, np.float64).T]

    def __call__(self, X: ArrayLike) -> Floats:
        """Return f of each row, float64 (n_rows, n_outputs)."""
        rows = rows_of(X)
        self._kernel.check_domain(rows)
        found = np.zeros((len(rows), self._n_outputs))
        for x, (values, below, above) in zip(rows.T, self._columns, strict=True):
            place = np.searchsorted(values, x, side="right")
            found += below[place] + x[:, np.newaxis] * above[place]
        return found


def _sums_of(column: Floats, coef: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the values of a column, sorted, and the sums of coefficients up to and above each.

    Those "up to" are multiplied by the values; both are (n_values + 1, n_outputs).
    """
    values, place = np.unique(column, return_inverse=True)
    parts = np.zeros((len(values), coef.shape[1]))
    np.add.at(parts, place, coef)
    zero = np.zeros((1, coef.shape[1]))
    below = np.cumsum(np.concatenate([zero, parts * values[:, np.newaxis]]), axis=0)
    above = np.cumsum(np.concatenate([zero, parts[::-1]]), axis=0)[::-1]
    return values, below, above


class Chi2(AdditiveKernel):
    """``K(x, y) = sum_j 2 x_j y_j / (x_j + y_j)``."""

    def function(self, x: Floats, y: Floats) -> Floats:
        total = x + y
        return 2 * x * y / np.where(total > 0, total, 1.0)

    def spectrum(self, frequencies: Floats) -> Floats:
        """Return ``sech(pi l)``."""
        return _sech(frequencies)


class JensenShannon(AdditiveKernel):
    """``K(x, y) = sum_j (x_j log2((x_j + y_j) / x_j) + y_j log2((x_j + y_j) / y_j)) / 2``."""

    def function(self, x: Floats, y: Floats) -> Floats:
        total = x + y
        divergence: Floats = scipy.special.rel_entr(x, total) + scipy.special.rel_entr(y, total)
        return -divergence / (2 * np.log(2))

    def spectrum(self, frequencies: Floats) -> Floats:
        """Return ``(2 / log 4) sech(pi l) / (1 + 4 l^2)``."""
        return 2 / np.log(4) * _sech(frequencies) / (1 + 4 * frequencies**2)


class Hellinger(AdditiveKernel):
    """``K(x, y) = sum_j sqrt(x_j y_j)``, whose map is the root of the row, exactly."""

    def function(self, x: Floats, y: Floats) -> Floats:
        return np.sqrt(x * y)

    def spectrum(self, frequencies: Floats) -> Floats:
        """Return infinity at 0 and 0 elsewhere: all weight is at frequency 0."""
        return np.where(frequencies == 0, np.inf, 0.0)

    def amplitudes(self, n_steps: int, interval: float) -> Floats:
        """Return 1, the factor of the root, whatever the steps."""
        return np.ones(1)

    def best_interval(self, n_steps: int) -> float:
        """Return 1; one sample has none."""
        return 1.0


class ExpAdditive(Kernel):
    """``K(x, y) = exp(-gamma sum_j (k(x_j, x_j) + k(y_j, y_j) - 2 k(x_j, y_j)))``, k additive.

    Parameters
    ----------
    gamma : float, positive, or "median", learnt from rows: 1 / median of that distance over pairs
        of rows that differ, of at most 300 rows

    Notes
    -----
    Vempati, Vedaldi, Zisserman and Jawahar, Generalized RBF Feature Maps, BMVC 2010.
    """

    def __init__(self, gamma: float | str = 1.0) -> None:
        self.gamma = gamma

    @abstractmethod
    def additive(self) -> AdditiveKernel:
        """Return the kernel k."""

    def learn(self, sample: NDArray[Any] | None) -> Self:
        if not isinstance(self.gamma, str) or self.gamma != "median":
            return self
        if sample is None:
            raise ParameterError("gamma='median' is learnt from rows, and none were given")
        rows = distance_sample(sample)
        rows = rows[:: -(-len(rows) // MEDIAN_ROWS)]
        distances = self._distances(rows, rows)[np.triu_indices(len(rows), 1)]
        distances = distances[distances > 0]
        if not distances.size:
            raise DataError(
                f"the {len(rows)} sample rows are all equal, so gamma='median' cannot be learnt "
                "from them: give more rows, or gamma as a number"
            )
        return type(self)(float(1 / np.median(distances)))

    @property
    def checked_gamma(self) -> float:
        """Gamma as a number; raises ParameterError if it is none."""
        if not is_finite(self.gamma) or not float(self.gamma) > 0:
            raise ParameterError(
                f"gamma must be a positive number, or 'median' and learn(X) first, got "
                f"{self.gamma!r}"
            )
        return float(self.gamma)

    def check_settings(self) -> None:
        _ = self.checked_gamma

    def _distances(self, X: ArrayLike, Y: ArrayLike) -> Floats:
        k, X, Y = self.additive(), rows_of(X), rows_of(Y)
        return k.diagonal(X)[:, np.newaxis] + k.diagonal(Y) - 2 * k(X, Y)

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        return np.exp(-self.checked_gamma * self._distances(X, X if Y is None else Y))

    def diagonal(self, X: NDArray[Any]) -> Floats:
        return np.ones(len(X))


class ExpChi2(ExpAdditive):
    """``K(x, y) = exp(-gamma sum_j (x_j - y_j)^2 / (x_j + y_j))``.

    Parameters
    ----------
    gamma : see `ExpAdditive`
    """

    def additive(self) -> AdditiveKernel:
        return Chi2()


class ExpJensenShannon(ExpAdditive):
    """``K(x, y) = exp(-gamma sum_j (x_j + y_j - 2 k(x_j, y_j)))``, k of `JensenShannon`.

    Parameters
    ----------
    gamma : see `ExpAdditive`
    """

    def additive(self) -> AdditiveKernel:
        return JensenShannon()


class ExpHellinger(ExpAdditive):
    """``K(x, y) = exp(-gamma sum_j (sqrt(x_j) - sqrt(y_j))^2)``.

    Parameters
    ----------
    gamma : see `ExpAdditive`
    """

    def additive(self) -> AdditiveKernel:
        return Hellinger()


class SkewedChi2(Kernel):
    """``K(x, y) = prod_j 2 sqrt((x_j + c) (y_j + c)) / (x_j + y_j + 2 c)``.

    It is ``prod_j sech((log(x_j + c) - log(y_j + c)) / 2)``: shift-invariant in the logarithms.

    Parameters
    ----------
    skewedness : float, c, positive; entries must not be below 0

    Notes
    -----
    Li, Ionescu and Sminchisescu, Random Fourier Approximations for Skewed Multiplicative Histogram
    Kernels, DAGM 2010.

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.SkewedChi2(1.0)([[0.0, 3.0]], [[3.0, 3.0], [0.0, 0.0]])
    array([[0.8, 0.8]])
    """

    def __init__(self, skewedness: float = 1.0) -> None:
        self.skewedness = skewedness

    def check_settings(self) -> None:
        is_number = not isinstance(self.skewedness, bool) and is_finite(self.skewedness)
        if not is_number or not float(self.skewedness) > 0:
            raise ParameterError(f"skewedness must be a positive number, got {self.skewedness!r}")

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        rows = self._logs(X)
        others = rows if Y is None else self._logs(Y)
        K = np.ones((len(rows), len(others)))
        for j in range(rows.shape[1]):
            K /= np.cosh((rows[:, j, np.newaxis] - others[:, j]) / 2)
        return K

    def _logs(self, X: ArrayLike) -> Floats:
        self.check_settings()
        rows = rows_of(X)
        self.check_domain(rows)
        return np.log(rows + float(self.skewedness))

    def check_domain(self, entries: NDArray[Any]) -> None:
        """Raise BadRowError if an entry is negative."""
        _check_nonnegative(entries, self)

    def diagonal(self, X: NDArray[Any]) -> Floats:
        return np.ones(len(X))

    def frequencies(self, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        """Draw entries of density ``sech(pi w)``, whose waves of the logarithms have this mean."""
        return np.log(np.tan(np.pi / 2 * rng.uniform(size=shape))) / np.pi


def _check_nonnegative(entries: NDArray[Any], kernel: Kernel) -> None:
    """Raise BadRowError if an entry is negative."""
    least = entries.min(initial=0.0)
    if least < 0:
        raise BadRowError(
            f"a row has the entry {least:.4g}, but {kernel!r} takes no negative ones: use "
            "normalize='l1', 'max' or None, and shift or leave out columns that are negative"
        )


def _sech(frequencies: Floats) -> Floats:
    """Return ``sech(pi l)``; of great l, where cosh overflows, by its leading term."""
    waves = np.pi * np.abs(frequencies)
    return 2 * np.exp(-waves) / (1 + np.exp(-2 * waves))
