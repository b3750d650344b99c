"""The exact kernels: the specification that every feature map is tested against."""

from streamrf.kernels.base import Kernel
from streamrf.kernels.dot_product import (
    MOST_TERMS,
    ArcCosine,
    Composed,
    DotProduct,
    DotProductKernel,
    Exponential,
    Polynomial,
    VovkInfinite,
    VovkReal,
)
from streamrf.kernels.shift_invariant import Cauchy, Gaussian, Laplacian, ShiftInvariantKernel

__all__ = [
    "MOST_TERMS",
    "TABLE",
    "ArcCosine",
    "Cauchy",
    "Composed",
    "DotProduct",
    "DotProductKernel",
    "Exponential",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Polynomial",
    "ShiftInvariantKernel",
    "VovkInfinite",
    "VovkReal",
]

TABLE = {
    cls.__name__: cls
    for cls in (
        Polynomial,
        Exponential,
        VovkReal,
        VovkInfinite,
        DotProduct,
        ArcCosine,
        Composed,
        Gaussian,
        Laplacian,
        Cauchy,
    )
}
