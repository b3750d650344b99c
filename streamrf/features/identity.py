"""The columns themselves, with their squares and products: exact features of few kernels."""

import numpy as np
from numpy.random import Generator

from streamrf.errors import ParameterError
from streamrf.features.base import FeatureMap, check_kernel
from streamrf.jit.arrays import F32, F64
from streamrf.kernels import Columnwise, DotProductKernel, Kernel, Linear
from streamrf.storage import Fields

MAX_DEGREE = 2  # of products; powers of single columns have no bound


class Identity(FeatureMap):
    """The monomials of a kernel ``sum_n a_n <x, y>^n``, each scaled so that it is exact.

    Of `Linear` these are the columns themselves: a plain ridge, such as a linear probe of
    embeddings. Nothing is drawn.

    Parameters
    ----------
    kernel : `Linear`, which None means; a dot-product kernel of degree 2 at most, such as
        ``Polynomial(2)``, for squares and products of columns too, ``d (d + 3) / 2 + 1`` features
        of d columns; or ``Columnwise(Polynomial(k))``, for powers of columns without products,
        ``d k + 1`` features. A series without a constant has one less

    Attributes
    ----------
    n_components : int, known once fitted
    kernel_ : the exact kernel

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> X = np.array([[1.0, 2.0], [3.0, -1.0]])
    >>> srf.Identity().fit_transform(X)
    array([[ 1.,  2.],
           [ 3., -1.]], dtype=float32)
    >>> squares = srf.Columnwise(srf.DotProduct([0, 1, 1]))
    >>> srf.Identity(squares).fit_transform(X)
    array([[ 1.,  2.,  1.,  4.],
           [ 3., -1.,  9.,  1.]], dtype=float32)
    """

    default_kernel = Linear

    def __init__(self, kernel: DotProductKernel | Columnwise | None = None) -> None:
        self.kernel = kernel

    @property
    def n_components(self) -> int:  # type: ignore[override] # a setting of other maps
        """Width of the features; AttributeError before the map is fitted."""
        return self.n_components_

    def width_for(self, n_features: int) -> int:
        return _width(Linear() if self.kernel is None else self.kernel, n_features)

    def check_width(self) -> None:
        self.width_for(1)

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        self.kernel_ = Linear() if self.kernel is None else self.kernel
        self.n_components_ = _width(self.kernel_, n_features)

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        width = _width(check_kernel(fitted, Kernel), n_features)
        fitted.integer("n_components_", minimum=width, maximum=width)

    def map_lanes(self, x: F32, out: F32) -> None:
        d, first = x.shape[1], 0
        series = np.sqrt(_series(self.kernel_)).astype(np.float32)
        if series[0]:
            by_column = isinstance(self.kernel_, Columnwise)
            out[:, 0] = series[0] * np.float32(np.sqrt(d if by_column else 1))
            first = 1
        power = x
        for degree, root in enumerate(series[1:], start=1):
            power = x if degree == 1 else power * x
            if root:
                np.multiply(power, root, out=out[:, first : first + d])
                first += d
        if _has_products(self.kernel_):
            scaled = x * (series[2] * np.float32(np.sqrt(2)))
            for j in range(d - 1):
                last = first + d - 1 - j
                np.multiply(scaled[:, j : j + 1], x[:, j + 1 :], out=out[:, first:last])
                first = last


def _series(kernel: Kernel) -> F64:
    """Return the coefficients of the monomials; ParameterError where they are too many."""
    if isinstance(kernel, Columnwise):
        kernel.check_settings()
        return kernel.series()
    if isinstance(kernel, DotProductKernel):
        kernel.check_settings()
        series = kernel.series(MAX_DEGREE + 2)
        if len(series) <= MAX_DEGREE + 1:
            return series
    raise ParameterError(
        "Identity takes Linear, dot-product kernels of degree 2 at most, such as Polynomial(2), "
        f"and Columnwise of any degree, got {kernel!r}; RandomMaclaurin takes others"
    )


def _has_products(kernel: Kernel) -> bool:
    series = _series(kernel)
    return isinstance(kernel, DotProductKernel) and len(series) > 2 and series[2] > 0


def _width(kernel: Kernel, d: int) -> int:
    """Return how many monomials there are of d columns."""
    series = _series(kernel)
    n_products = d * (d - 1) // 2 if _has_products(kernel) else 0
    return int(series[0] > 0) + d * int(np.count_nonzero(series[1:])) + n_products
