"""The feature maps. A new map is a file here and its name, imported and in `__all__`.

That makes it public, readable from files, and a word of ``streamrf fit --map``; a row of
tests/cases.py holds it to the laws.
"""

import inspect
from typing import Any

from streamrf.errors import ParameterError
from streamrf.features.additive import AdditiveFourier, AdditiveSampler, SkewedFourier
from streamrf.features.base import RAW_DTYPES, FeatureMap, clone_with_seed, panel_bytes, panels
from streamrf.features.bounds import (
    fourier_width,
    hoeffding_width,
    maclaurin_width,
    products_width,
)
from streamrf.features.code import attach_code, check_names, check_ready
from streamrf.features.concatenate import Concatenate
from streamrf.features.convolution import Convolution
from streamrf.features.craft import Craft
from streamrf.features.fourier import Fastfood, FourierMap, RandomFourier, StructuredFourier
from streamrf.features.gated import TreeGated
from streamrf.features.identity import Identity
from streamrf.features.maclaurin import MEASURES, PROJECTIONS, RandomMaclaurin
from streamrf.features.nystroem import LANDMARKS, Nystroem
from streamrf.features.own import CallableMap, OwnMap, TransformerMap
from streamrf.features.piecewise import PiecewiseLinear
from streamrf.features.seeds import as_random_state
from streamrf.features.skeleton import SkeletonFeatures
from streamrf.features.taylor import TaylorSketch
from streamrf.features.tensor import TensorSketch
from streamrf.features.tree import TreeSketch
from streamrf.kernels import TABLE as KERNELS
from streamrf.kernels import (
    AdditiveKernel,
    DotProductKernel,
    ExpAdditive,
    Gaussian,
    Kernel,
    Layer,
    Linear,
    ShiftInvariantKernel,
    SkewedChi2,
)

__all__ = [
    "DESCRIBED",
    "LANDMARKS",
    "MEASURES",
    "PROJECTIONS",
    "RAW_DTYPES",
    "TABLE",
    "AdditiveFourier",
    "AdditiveSampler",
    "CallableMap",
    "Concatenate",
    "Convolution",
    "Craft",
    "Fastfood",
    "FeatureMap",
    "FourierMap",
    "Identity",
    "Nystroem",
    "OwnMap",
    "PiecewiseLinear",
    "RandomFourier",
    "RandomMaclaurin",
    "SkeletonFeatures",
    "SkewedFourier",
    "StructuredFourier",
    "TaylorSketch",
    "TensorSketch",
    "TransformerMap",
    "TreeGated",
    "TreeSketch",
    "as_random_state",
    "attach_code",
    "check_map",
    "check_names",
    "check_ready",
    "clone_with_seed",
    "fourier_width",
    "hoeffding_width",
    "maclaurin_width",
    "panel_bytes",
    "panels",
    "products_width",
    "usual_map",
]

# The closed table of maps by name: all but the abstract classes.
TABLE: dict[str, type[FeatureMap]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, FeatureMap) and not inspect.isabstract(value)
}

# What a described map may hold: maps inside maps, and kernels.
DESCRIBED = {**TABLE, **KERNELS}

# The fast map of a kernel: that of the first class which the kernel is of.
_USUAL: dict[Any, type[FeatureMap]] = {
    Linear: Identity,
    Gaussian: StructuredFourier,
    ShiftInvariantKernel: RandomFourier,
    AdditiveKernel: AdditiveSampler,
    ExpAdditive: AdditiveFourier,
    SkewedChi2: SkewedFourier,
    Layer: SkeletonFeatures,
    DotProductKernel: RandomMaclaurin,
    Kernel: Nystroem,
}


def usual_map(kind: type[Kernel]) -> type[FeatureMap]:
    """Return the map to take of a class of kernels where none is named."""
    return next(make for base, make in _USUAL.items() if issubclass(kind, base))


def check_map(features: object) -> None:
    """Raise ParameterError unless it is a feature map."""
    if isinstance(features, Kernel):
        make = usual_map(type(features)).__name__
        raise ParameterError(
            f"features must be a feature map, got the kernel {features!r}; take "
            f"{make}({features!r})"
        )
    if not isinstance(features, FeatureMap):
        raise ParameterError(
            f"features must be a feature map such as RandomMaclaurin(), got {features!r}; "
            "CallableMap(function, n_components) and TransformerMap(transformer) make maps"
        )
