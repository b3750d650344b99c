"""The feature maps. A new map is a file here and its name, imported and in `__all__`.

That makes it public, readable from files, and a word of ``streamrf fit --map``; a row of
tests/cases.py holds it to the laws.
"""

from streamrf.features.base import FeatureMap
from streamrf.features.craft import Craft
from streamrf.features.fourier import Fastfood, RandomFourier, StructuredFourier
from streamrf.features.maclaurin import RandomMaclaurin
from streamrf.features.tensor import TensorSketch
from streamrf.features.tree import TreeSketch
from streamrf.kernels import TABLE as KERNELS

__all__ = [
    "Craft",
    "Fastfood",
    "RandomFourier",
    "RandomMaclaurin",
    "StructuredFourier",
    "TensorSketch",
    "TreeSketch",
]

# The closed table of maps by name. Its names stand in `__all__`, where type checkers read them.
TABLE: dict[str, type[FeatureMap]] = {name: globals()[name] for name in __all__}

# What a described map may hold: maps inside maps, and kernels.
DESCRIBED = {**TABLE, **KERNELS}
