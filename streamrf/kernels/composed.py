"""Dot-product kernels of the values of another kernel."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamrf.errors import ParameterError
from streamrf.kernels.base import Kernel
from streamrf.kernels.dot_product import DotProductKernel, Floats


class Composed(Kernel):
    """``K(x, y) = f(inner(x, y))``, where f is the function of the dot-product kernel `outer`.

    Parameters
    ----------
    outer : a dot-product kernel
    inner : any kernel
    """

    def __init__(self, outer: DotProductKernel, inner: Kernel) -> None:
        self.outer = outer
        self.inner = inner

    def check_settings(self) -> None:
        if not isinstance(self.outer, DotProductKernel) or not isinstance(self.inner, Kernel):
            raise ParameterError(
                f"a dot-product kernel of a kernel, got {self.outer!r} of {self.inner!r}"
            )
        super().check_settings()

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        self.check_settings()
        for rows in (X,) if Y is None else (X, Y):
            self.check_domain(self.inner.diagonal(np.asarray(rows)))
        return self.outer.function(self.inner(X, Y))

    def check_domain(self, squares: Floats) -> None:
        """Raise BadRowError if ``inner(x, x)`` is outside the domain of the outer kernel."""
        self.outer.check_domain(squares, self.inner)

    def learn(self, sample: NDArray[Any] | None) -> Self:
        return type(self)(self.outer.learn(sample), self.inner.learn(sample))

    def diagonal(self, X: NDArray[Any]) -> Floats:
        self.check_settings()
        squares = self.inner.diagonal(X)
        self.check_domain(squares)
        return self.outer.function(squares)
