"""Kernels of the dot product of two rows, and their Maclaurin series."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import scipy
from numpy.polynomial.polynomial import polyval
from numpy.typing import ArrayLike, NDArray

from streamrf.errors import BadRowError, DataError, ParameterError
from streamrf.jit.dense import inner_products
from streamrf.kernels.base import Kernel, distance_sample, is_finite, rows_of

MAX_TERMS = 1000  # of an infinite series
MAX_LOSS = 0.01  # share of the kernel that a cut series may miss at a row longer than the sample's
UNIT_SLACK = 1e-5  # of float32 rows of unit length: <x, x> overshoots 1

Floats = NDArray[np.float64]


class DotProductKernel(Kernel):
    """A kernel ``f(<x, y>)`` whose Maclaurin series has no negative coefficient.

    Rows must lie where the series converges: ``<x, x> < radius``, or ``<= radius`` if `closed`.
    """

    closed = False

    @property
    def radius(self) -> float:
        """Radius of convergence of the series."""
        return np.inf

    @abstractmethod
    def function(self, t: Floats) -> Floats:
        """Return ``f(t)``, float64."""

    @abstractmethod
    def series(self, n_terms: int) -> Floats:
        """Return the coefficients ``a_0, a_1, ...``, float64; fewer than `n_terms` if it ends."""

    def check_settings(self) -> None:
        self.series(2)
        super().check_settings()

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        self.check_settings()
        rows = rows_of(X)
        others = rows if Y is None else rows_of(Y)
        self.check_domain(np.square(rows).sum(axis=1))
        self.check_domain(np.square(others).sum(axis=1))
        return self.function(inner_products(rows, others))

    def diagonal(self, X: NDArray[Any]) -> Floats:
        self.check_settings()
        squares = np.square(X, dtype=np.float64).sum(axis=1)
        self.check_domain(squares)
        return self.function(squares)

    def check_domain(self, squares: Floats, inner: Kernel | None = None) -> None:
        """Raise BadRowError if rows are outside the domain, naming the scale or gamma that fits.

        Parameters
        ----------
        squares : ``<x, x>`` of the rows, of any shape; ``inner(x, x)`` where one is given
        inner : kernel that this one is composed with
        """
        radius = self.radius
        greatest = float(np.max(squares, initial=0.0))
        if greatest < radius or (self.closed and greatest <= radius * (1 + UNIT_SLACK)):
            return
        square = "<x, x>" if inner is None else f"K(x, x) by {inner!r}"
        if not np.isfinite(greatest):
            raise BadRowError(
                f"a row x has {square} = {greatest}, so {self!r} has no value there: rows are not "
                "finite or too large; scale them (normalize='l2', 'max' or 'standard')"
            )
        raise BadRowError(
            f"a row x has {square} = {greatest:.4g}, but {self!r} takes "
            f"{'rows with <x, x>' if inner is None else 'values'} "
            f"{'up to' if self.closed else 'below'} {radius:.4g}: {self._cure(greatest, inner)}"
        )

    def _cure(self, greatest: float, inner: Kernel | None = None) -> str:
        """What brings rows whose greatest ``<x, x>`` is `greatest` well into the domain."""
        cures = []
        if inner is None:
            cures.append(f"scale rows by {0.99 * np.sqrt(self.radius / greatest):.3g} or less")
            if self.radius > 1 or self.closed:
                cures.append("use normalize='l2'")
        if "gamma" in self.get_params(deep=False):
            gamma = 0.98 * self.get_params(deep=False)["gamma"] * self.radius / greatest
            cures.append(f"set gamma to {gamma:.3g} or less")
        return ", or ".join(cures) or "scale rows down, or take another inner kernel"

    def maclaurin(self, bound: float = 1.0, tolerance: float = 1e-4) -> Floats:
        """Return the coefficients ``a_0, ..., a_N`` of ``f(t) = sum_n a_n t^n``, float64.

        A finite series is returned whole, an infinite one cut where its tail on ``|t| <= bound`` is
        within ``tolerance * f(bound)``.

        Raises
        ------
        ParameterError
            If that needs more than `MAX_TERMS` terms.
        """
        series = self.series(MAX_TERMS + 1)
        if len(series) <= MAX_TERMS:
            return series
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.cumsum(series * float(bound) ** np.arange(len(series)))
            whole = float(self.function(np.array(bound)))
            enough = sums >= (1 - tolerance) * whole
        if not np.isfinite(whole) or not enough.any():
            reached = f"comes within {1 - sums[-1] / whole:.1g} of it" if whole < np.inf else ""
            cure = "scale the rows down"
            if self.radius < np.inf and not self.closed:
                cure = self._cure(bound)
            raise ParameterError(
                f"{self!r} is {whole:.3g} at <x, x> = {bound:.4g}, and its series of {MAX_TERMS} "
                f"terms {reached or 'overflows'}: {cure}, or raise the tolerance, got {tolerance!r}"
            )
        return series[: int(np.argmax(enough)) + 1]

    def longest(self, series: Floats, bound: float, tolerance: float = 1e-4) -> float:
        """Return the greatest ``<x, x>`` at which a series cut by `maclaurin` is still right.

        There it misses a hundredth of the kernel, or ten tolerances if that is more; infinity for a
        series that is not cut.
        """
        if len(self.series(len(series) + 1)) <= len(series):
            return np.inf
        loss = min(max(MAX_LOSS, 10 * tolerance), 0.5)

        def misses(t: float) -> bool:
            with np.errstate(all="ignore"):
                whole = float(self.function(np.array(t)))
                return not polyval(t, series) >= (1 - loss) * whole  # NaN: too long by far

        low, high = bound, 2 * bound
        while high < self.radius and not misses(high):
            low, high = high, 2 * high
        high = min(high, self.radius)
        if high == self.radius and self.closed and not misses(high):
            return np.inf
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (low, middle) if misses(middle) else (middle, high)
        return low * (1 + UNIT_SLACK)


class Polynomial(DotProductKernel):
    """``K(x, y) = (gamma <x, y> + coef0)^degree``.

    Parameters
    ----------
    degree : int, at least 1
    gamma : float, positive
    coef0 : float, not negative

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.Polynomial(degree=2)([[1.0, 0.0]], [[1.0, 1.0], [0.0, 1.0]])
    array([[4., 1.]])
    """

    def __init__(self, degree: int = 3, gamma: float = 1.0, coef0: float = 1.0) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def function(self, t: Floats) -> Floats:
        return (self.gamma * t + self.coef0) ** self.degree

    def series(self, n_terms: int) -> Floats:
        """Return ``a_n = binom(degree, n) gamma^n coef0^(degree - n)`` for n up to the degree."""
        _check_degree(self.degree)
        _check_gamma(self.gamma)
        if not (is_finite(self.coef0) and self.coef0 >= 0):
            raise ParameterError(
                f"coef0 must not be negative, got {self.coef0!r}: the series would have negative "
                "coefficients, and the kernel is not positive definite"
            )
        n = np.arange(min(int(self.degree) + 1, n_terms))
        powers = float(self.gamma) ** n * float(self.coef0) ** (self.degree - n)
        return scipy.special.comb(self.degree, n) * powers


class Linear(DotProductKernel):
    """``K(x, y) = <x, y>``.

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.Linear()([[1.0, 2.0]], [[3.0, -1.0]])
    array([[1.]])
    """

    def function(self, t: Floats) -> Floats:
        return t

    def series(self, n_terms: int) -> Floats:
        """Return 0 and 1."""
        return np.array([0.0, 1.0])[:n_terms]


class Exponential(DotProductKernel):
    """``K(x, y) = exp(<x, y> / sigma^2)``.

    Parameters
    ----------
    sigma : float, positive, or "mean_distance": the mean Euclidean distance between rows of a
        sample, after Kar and Karnick, AISTATS 2012, section 6

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.Exponential(sigma=2.0)([[1.0]], [[0.0], [4.0]]).round(3)
    array([[1.   , 2.718]])
    """

    def __init__(self, sigma: float | str = 1.0) -> None:
        self.sigma = sigma

    def learn(self, sample: NDArray[Any] | None) -> Self:
        if not isinstance(self.sigma, str):
            return self
        if self.sigma != "mean_distance":
            raise ParameterError(f"sigma must be positive or 'mean_distance', got {self.sigma!r}")
        if sample is None:
            raise ParameterError("sigma='mean_distance' is learnt from rows, and none were given")
        return type(self)(mean_distance(sample))

    def check_settings(self) -> None:
        _ = self._square
        super().check_settings()

    def function(self, t: Floats) -> Floats:
        return np.exp(t / self._square)

    def series(self, n_terms: int) -> Floats:
        """Return ``a_n = 1 / (sigma^(2n) n!)``."""
        with np.errstate(over="ignore"):
            return np.cumprod(np.append(1.0, 1 / (self._square * np.arange(1.0, n_terms))))

    @property
    def _square(self) -> float:
        if isinstance(self.sigma, str) and self.sigma == "mean_distance":
            raise ParameterError(f"sigma={self.sigma!r} is learnt from rows: call learn(X) first")
        if not (is_finite(self.sigma) and float(self.sigma) > 0):
            raise ParameterError(f"sigma must be positive or 'mean_distance', got {self.sigma!r}")
        return float(self.sigma) ** 2


class VovkReal(DotProductKernel):
    """``K(x, y) = sum_(n < degree) t^n = (1 - t^degree) / (1 - t)``, with ``t = gamma <x, y>``.

    Parameters
    ----------
    degree : int, at least 1
    gamma : float, positive

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.VovkReal(degree=3)([[1.0]], [[0.0], [2.0]])
    array([[1., 7.]])
    """

    def __init__(self, degree: int = 3, gamma: float = 1.0) -> None:
        self.degree = degree
        self.gamma = gamma

    def function(self, t: Floats) -> Floats:
        # no closed form, which has a pole at gamma t = 1
        return np.asarray(polyval(t, self.series(self.degree)), dtype=np.float64)

    def series(self, n_terms: int) -> Floats:
        """Return ``a_n = gamma^n`` for n below the degree."""
        _check_degree(self.degree)
        _check_gamma(self.gamma)
        return np.power(float(self.gamma), np.arange(min(int(self.degree), n_terms)))


class VovkInfinite(DotProductKernel):
    """``K(x, y) = 1 / (1 - gamma <x, y>)`` for rows with ``<x, x> < 1 / gamma``.

    Parameters
    ----------
    gamma : float, positive; below 1 for rows of unit length

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.VovkInfinite(gamma=0.5)([[1.0]], [[0.0], [1.0]])
    array([[1., 2.]])
    """

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = gamma

    @property
    def radius(self) -> float:
        """The series converges for ``|t| < 1 / gamma``."""
        _check_gamma(self.gamma)
        return 1 / float(self.gamma)

    def function(self, t: Floats) -> Floats:
        return 1 / (1 - self.gamma * t)

    def series(self, n_terms: int) -> Floats:
        """Return ``a_n = gamma^n``."""
        _check_gamma(self.gamma)
        with np.errstate(over="ignore"):
            return np.power(float(self.gamma), np.arange(n_terms))


class DotProduct(DotProductKernel):
    """``K(x, y) = sum_n coefficients[n] <x, y>^n``.

    Parameters
    ----------
    coefficients : (n_terms,) numbers, none negative, not all zero

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.DotProduct([1.0, 0.0, 0.5])([[1.0]], [[1.0], [2.0]])
    array([[1.5, 3. ]])
    """

    def __init__(self, coefficients: ArrayLike = (1.0, 1.0)) -> None:
        self.coefficients = coefficients

    def function(self, t: Floats) -> Floats:
        return np.asarray(polyval(t, self.series(MAX_TERMS)), dtype=np.float64)

    def series(self, n_terms: int) -> Floats:
        try:
            series = np.asarray(self.coefficients, dtype=np.float64)
        except (TypeError, ValueError):  # no numbers
            series = np.empty(0)
        finite = series.ndim == 1 and np.isfinite(series).all()
        if not finite or not (series >= 0).all() or not series.any() or len(series) > MAX_TERMS:
            raise ParameterError(
                f"coefficients must be at most {MAX_TERMS} numbers, none negative and not all "
                f"zero, got {self.coefficients!r}"
            )
        return series[:n_terms]


def mean_distance(sample: NDArray[Any]) -> float:
    """Return the mean Euclidean distance between rows of a sample."""
    rows = distance_sample(sample)
    distance = float(scipy.spatial.distance.pdist(rows).mean()) if len(rows) > 1 else 0.0
    if not distance > 0:
        raise DataError(
            f"the mean distance of the {len(rows)} sample rows is 0, so sigma='mean_distance' "
            "cannot be learnt from them: give more rows, or sigma as a number"
        )
    return distance


def _check_degree(degree: Any) -> None:
    if not is_finite(degree) or int(degree) != degree or degree < 1:
        raise ParameterError(f"degree must be an integer above 0, got {degree!r}")


def _check_gamma(gamma: Any) -> None:
    if isinstance(gamma, str):
        raise ParameterError(
            f"gamma of a dot-product kernel must be a positive number, got {gamma!r}: only the "
            "Gaussian, Laplacian and Cauchy kernels learn theirs from rows"
        )
    if not (is_finite(gamma) and gamma > 0):
        raise ParameterError(f"gamma must be positive, got {gamma!r}")
