"""Kernels of other kernels: a dot-product kernel of its values, or by column; weighted sums."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamrf.errors import ParameterError, check_kind
from streamrf.jit.dense import inner_products
from streamrf.kernels.base import Kernel, rows_of
from streamrf.kernels.dot_product import MAX_TERMS, DotProductKernel, Floats


class Composed(Kernel):
    """``K(x, y) = f(inner(x, y))``, where f is the function of the dot-product kernel `outer`.

    Parameters
    ----------
    outer : a dot-product kernel
    inner : any kernel

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.Composed(srf.Exponential(), srf.Gaussian(0.5))([[0.0]], [[0.0], [2.0]]).round(3)
    array([[2.718, 1.145]])
    """

    def __init__(self, outer: DotProductKernel, inner: Kernel) -> None:
        self.outer = outer
        self.inner = inner

    def check_settings(self) -> None:
        self._check_parts()
        super().check_settings()

    def _check_parts(self) -> None:
        check_kind("outer", self.outer, DotProductKernel, "a dot-product kernel")
        check_kind("inner", self.inner, Kernel, "a kernel")

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        self.check_settings()
        for rows in (X,) if Y is None else (X, Y):
            self.check_domain(self.inner.diagonal(rows_of(rows)))
        return self.outer.function(self.inner(X, Y))

    @property
    def radius(self) -> float:
        """That of the outer series."""
        return self.outer.radius

    def check_domain(self, squares: Floats) -> None:
        """Raise BadRowError if ``inner(x, x)`` is outside the domain of the outer kernel."""
        self.outer.check_domain(squares, self.inner)

    def learn(self, sample: NDArray[Any] | None) -> Self:
        self._check_parts()
        return type(self)(self.outer.learn(sample), self.inner.learn(sample))

    def diagonal(self, X: NDArray[Any]) -> Floats:
        self.check_settings()
        squares = self.inner.diagonal(X)
        self.check_domain(squares)
        return self.outer.function(squares)


class Columnwise(Kernel):
    """``K(x, y) = sum_j f(x_j y_j)``, where f is the function of the dot-product kernel `outer`.

    Columns do not act together: of ``Polynomial(2)`` it has the squares without the products.

    Parameters
    ----------
    outer : a dot-product kernel whose series ends

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.Columnwise(srf.Polynomial(2))([[1.0, 2.0]], [[3.0, -1.0]])
    array([[17.]])
    """

    def __init__(self, outer: DotProductKernel) -> None:
        self.outer = outer

    def check_settings(self) -> None:
        if not isinstance(self.outer, DotProductKernel):
            raise ParameterError(f"outer must be a dot-product kernel, got {self.outer!r}")
        self.series()

    def series(self) -> Floats:
        """Return the coefficients of the powers of each column; ParameterError if they go on."""
        series = self.outer.series(MAX_TERMS + 1)
        if len(series) > MAX_TERMS:
            raise ParameterError(f"the series of {self.outer!r} has no end; Polynomial's has one")
        return series

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        self.check_settings()
        rows = rows_of(X)
        others = rows if Y is None else rows_of(Y)
        found = np.zeros((len(rows), len(others)))
        for n, a in enumerate(self.series()):
            if a:
                found += inner_products(a * rows**n, others**n)
        return found


class KernelSum(Kernel):
    """``K(x, y) = sum_i weights[i] kernels[i](x, y)``.

    Parameters
    ----------
    kernels : list of kernels, one or more
    weights : (n_kernels,) numbers, none below 0 and not all 0; None means 1 for each

    Examples
    --------
    >>> import streamrf as srf
    >>> kernel = srf.KernelSum([srf.Gaussian(0.5), srf.Polynomial(2)], weights=[0.9, 0.1])
    >>> kernel([[0.0]], [[0.0], [2.0]]).round(3)
    array([[1.   , 0.222]])
    """

    def __init__(self, kernels: Sequence[Kernel], weights: ArrayLike | None = None) -> None:
        self.kernels = kernels
        self.weights = weights

    def check_settings(self) -> None:
        kernels = self._checked()
        check_weights("weights", self.weights, len(kernels))
        for kernel in kernels:
            kernel.check_settings()

    def _checked(self) -> Sequence[Kernel]:
        """Return the kernels; raise ParameterError if they are none."""
        kernels = self.kernels
        right = isinstance(kernels, list | tuple) and len(kernels) > 0
        if not right or not all(isinstance(kernel, Kernel) for kernel in kernels):
            raise ParameterError(f"kernels must be a list of kernels, got {kernels!r}")
        return kernels

    def _sum(self, terms: list[Floats]) -> Floats:
        weights = check_weights("weights", self.weights, len(self.kernels))
        return np.asarray(sum(w * term for w, term in zip(weights, terms, strict=True)))

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        self.check_settings()
        return self._sum([kernel(X, Y) for kernel in self.kernels])

    def learn(self, sample: NDArray[Any] | None) -> Self:
        return type(self)([kernel.learn(sample) for kernel in self._checked()], self.weights)

    def diagonal(self, X: NDArray[Any]) -> Floats:
        self.check_settings()
        return self._sum([kernel.diagonal(X) for kernel in self.kernels])


def check_weights(name: str, weights: ArrayLike | None, length: int) -> Floats:
    """Return weights as float64 (length,), ones for None; raise ParameterError for wrong ones."""
    if weights is None:
        return np.ones(length)
    try:
        found = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    right = found.shape == (length,) and np.isfinite(found).all() and (found >= 0).all()
    if not right or not found.any():
        raise ParameterError(
            f"{name} must be {length} numbers, none below 0 and not all 0, got {weights!r}"
        )
    return found
