"""The public names of the package."""

from streamrf import features
from streamrf.engine import RunOptions
from streamrf.estimators import RandomFeatureClassifier, RandomFeatureRegressor
from streamrf.features import *  # noqa: F403 (its `__all__`: the maps)
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
from streamrf.models import ErrorCorrectingCodes, Model, OneVsRest, load_model
from streamrf.sources import ArraySource, DaskArraySource, HDF5Source, IteratorSource
from streamrf.statistics import Statistics, load_statistics
from streamrf.training import Settings, accumulate

__all__ = [
    "ArcCosine",
    "ArraySource",
    "Cauchy",
    "Composed",
    "DaskArraySource",
    "DotProduct",
    "ErrorCorrectingCodes",
    "Exponential",
    "Gaussian",
    "HDF5Source",
    "IteratorSource",
    "Laplacian",
    "Model",
    "OneVsRest",
    "Polynomial",
    "RandomFeatureClassifier",
    "RandomFeatureRegressor",
    "RunOptions",
    "Settings",
    "Statistics",
    "VovkInfinite",
    "VovkReal",
    "accumulate",
    "load_model",
    "load_statistics",
]
__all__ += features.__all__
