"""The feature maps. A new map is a file here and a name in `TABLE`."""

from streamrf.features.base import FeatureMap
from streamrf.features.craft import Craft
from streamrf.features.fourier import Fastfood, RandomFourier, StructuredFourier
from streamrf.features.maclaurin import RandomMaclaurin
from streamrf.features.tensor import TensorSketch
from streamrf.features.tree import TreeSketch
from streamrf.kernels import TABLE as KERNELS

TABLE = {
    cls.__name__: cls
    for cls in (
        RandomMaclaurin,
        Craft,
        TensorSketch,
        TreeSketch,
        RandomFourier,
        StructuredFourier,
        Fastfood,
    )
}

# What a described map may hold: maps inside maps, and kernels.
DESCRIBED = {**TABLE, **KERNELS}

__all__ = ["DESCRIBED", "TABLE", "FeatureMap", *TABLE]
