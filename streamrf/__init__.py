"""Kernel machines on data larger than memory, trained by reading it once."""

from streamrf.codes import ErrorCorrectingCodes, OneVsRest
from streamrf.estimators import RandomFeatureClassifier, RandomFeatureRegressor
from streamrf.features import Craft, Fastfood, RandomFourier, RandomMaclaurin, StructuredFourier
from streamrf.kernels import Cauchy, Gaussian, Laplacian, Polynomial
from streamrf.model import Model, load_model
from streamrf.sources import ArraySource, HDF5Source, IteratorSource
from streamrf.statistics import Statistics, load_statistics
from streamrf.training import accumulate

__version__ = "0.1.0"

__all__ = [
    "ArraySource",
    "Cauchy",
    "Craft",
    "ErrorCorrectingCodes",
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
    "accumulate",
    "load_model",
    "load_statistics",
]
