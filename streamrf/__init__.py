"""Kernel machines on data larger than memory, trained by reading it once."""

from streamrf.codes import ErrorCorrectingCodes, OneVsRest
from streamrf.estimators import RandomFeatureClassifier, RandomFeatureRegressor
from streamrf.features import (
    Craft,
    Fastfood,
    RandomFourier,
    RandomMaclaurin,
    StructuredFourier,
    TensorSketch,
    TreeSketch,
)
from streamrf.kernels import (
    ArcCosine,
    Cauchy,
    Composed,
    DotProduct,
    Exponential,
    Gaussian,
    Laplacian,
    Polynomial,
    VovkInfinite,
    VovkReal,
)
from streamrf.model import Model, load_model
from streamrf.sources import ArraySource, DaskArraySource, HDF5Source, IteratorSource
from streamrf.statistics import Statistics, load_statistics
from streamrf.training import accumulate

__version__ = "0.1.0"

__all__ = [
    "ArcCosine",
    "ArraySource",
    "Cauchy",
    "Composed",
    "Craft",
    "DaskArraySource",
    "DotProduct",
    "ErrorCorrectingCodes",
    "Exponential",
    "Fastfood",
    "Gaussian",
    "HDF5Source",
    "IteratorSource",
    "Laplacian",
    "Model",
    "OneVsRest",
    "Polynomial",
    "RandomFeatureClassifier",
    "RandomFeatureRegressor",
    "RandomFourier",
    "RandomMaclaurin",
    "Statistics",
    "StructuredFourier",
    "TensorSketch",
    "TreeSketch",
    "VovkInfinite",
    "VovkReal",
    "accumulate",
    "load_model",
    "load_statistics",
]
