"""The exact kernels: the specification that every feature map is tested against.

A new kernel is a class in a file here and its name, imported and in `__all__`, which makes it
public; it has its word in `streamrf.cli` and a row in tests/cases.py.
"""

import inspect

from streamrf.kernels.additive import (
    AdditiveKernel,
    Chi2,
    ExpAdditive,
    ExpChi2,
    ExpHellinger,
    ExpJensenShannon,
    Hellinger,
    Intersection,
    JensenShannon,
    SkewedChi2,
)
from streamrf.kernels.arc_cosine import ArcCosine
from streamrf.kernels.base import Kernel
from streamrf.kernels.composed import Columnwise, Composed, KernelSum, check_weights
from streamrf.kernels.convolved import Convolved, patches_of
from streamrf.kernels.dot_product import (
    MAX_TERMS,
    DotProduct,
    DotProductKernel,
    Exponential,
    Linear,
    Polynomial,
    VovkInfinite,
    VovkReal,
)
from streamrf.kernels.grids import Lengths
from streamrf.kernels.own import FeatureProduct, codes_of, name_of, not_held
from streamrf.kernels.shift_invariant import Cauchy, Gaussian, Laplacian, ShiftInvariantKernel
from streamrf.kernels.skeleton import BaseSpace, Layer, Skeleton

__all__ = [
    "MAX_TERMS",
    "TABLE",
    "AdditiveKernel",
    "ArcCosine",
    "BaseSpace",
    "Cauchy",
    "Chi2",
    "Columnwise",
    "Composed",
    "Convolved",
    "DotProduct",
    "DotProductKernel",
    "ExpAdditive",
    "ExpChi2",
    "ExpHellinger",
    "ExpJensenShannon",
    "Exponential",
    "FeatureProduct",
    "Gaussian",
    "Hellinger",
    "Intersection",
    "JensenShannon",
    "Kernel",
    "KernelSum",
    "Laplacian",
    "Layer",
    "Lengths",
    "Linear",
    "Polynomial",
    "ShiftInvariantKernel",
    "Skeleton",
    "SkewedChi2",
    "VovkInfinite",
    "VovkReal",
    "check_weights",
    "codes_of",
    "name_of",
    "not_held",
    "patches_of",
]

# The closed table of kernels by name: all but the abstract classes.
TABLE: dict[str, type[Kernel]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, Kernel) and not inspect.isabstract(value)
}
