"""Kernel machines on data larger than memory, trained by reading it once.

Estimators, as in scikit-learn
    RandomFeatureClassifier, RandomFeatureRegressor, cross_val_score; with exact kernels, where rows
    are few: KernelRidgeClassifier, KernelRidgeRegressor
Rows
    open_source, HDF5Source, ArraySource, DaskArraySource, IteratorSource, TableSource,
    MatrixSource; deformed_mnist, Deformation: rows that are made as they are read
One pass, and what can be asked of its sums
    accumulate, Statistics, load_statistics, Settings, RunOptions, StreamrfWarning
A few passes more, for another loss
    refine
Without labels
    RandomFeaturePCA, RandomFeatureKMeans, PrincipalComponents, mmd, TwoSample, Unlabelled
Columns
    moments, Moments, load_moments, Warp
Models
    Model, load_model; codes of the classes: OneVsRest, ErrorCorrectingCodes
Choosing scaling, kernel and width
    select, Selection
Feature maps
    StructuredFourier, RandomFourier, Fastfood, RandomMaclaurin, TensorSketch, TaylorSketch,
    TreeSketch, Craft, Concatenate, AdditiveSampler, AdditiveFourier, SkewedFourier, Nystroem,
    Identity, Convolution, SkeletonFeatures, PiecewiseLinear, TreeGated; of your own code:
    CallableMap, TransformerMap
Kernels
    Gaussian, Laplacian, Cauchy, Linear, Polynomial, Exponential, ArcCosine, VovkReal,
    VovkInfinite, DotProduct, Columnwise, Composed, KernelSum, FeatureProduct, Intersection, Chi2,
    JensenShannon, Hellinger, ExpChi2, ExpJensenShannon, ExpHellinger, SkewedChi2, BaseSpace,
    Skeleton, Convolved

Each has its own help: ``help(streamrf.HDF5Source)``. The command ``streamrf`` does the same.
"""

import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the names of `_PUBLIC`, for type checkers
    from streamrf.engine import RunOptions as RunOptions
    from streamrf.errors import StreamrfWarning as StreamrfWarning
    from streamrf.estimators import KernelRidgeClassifier as KernelRidgeClassifier
    from streamrf.estimators import KernelRidgeRegressor as KernelRidgeRegressor
    from streamrf.estimators import RandomFeatureClassifier as RandomFeatureClassifier
    from streamrf.estimators import RandomFeatureKMeans as RandomFeatureKMeans
    from streamrf.estimators import RandomFeaturePCA as RandomFeaturePCA
    from streamrf.estimators import RandomFeatureRegressor as RandomFeatureRegressor
    from streamrf.estimators import cross_val_score as cross_val_score
    from streamrf.features import *  # noqa: F403
    from streamrf.kernels import *  # type: ignore[assignment]  # noqa: F403
    from streamrf.models import ErrorCorrectingCodes as ErrorCorrectingCodes
    from streamrf.models import Model as Model
    from streamrf.models import OneVsRest as OneVsRest
    from streamrf.models import PrincipalComponents as PrincipalComponents
    from streamrf.preprocessing import Moments as Moments
    from streamrf.preprocessing import Warp as Warp
    from streamrf.sources import ArraySource as ArraySource
    from streamrf.sources import DaskArraySource as DaskArraySource
    from streamrf.sources import Deformation as Deformation
    from streamrf.sources import HDF5Source as HDF5Source
    from streamrf.sources import IteratorSource as IteratorSource
    from streamrf.sources import MatrixSource as MatrixSource
    from streamrf.sources import TableSource as TableSource
    from streamrf.sources import Unlabelled as Unlabelled
    from streamrf.sources import deformed_mnist as deformed_mnist
    from streamrf.sources import open_source as open_source
    from streamrf.statistics import Statistics as Statistics
    from streamrf.statistics import TwoSample as TwoSample
    from streamrf.statistics import load_statistics as load_statistics
    from streamrf.statistics import mmd as mmd
    from streamrf.training import Selection as Selection
    from streamrf.training import Settings as Settings
    from streamrf.training import accumulate as accumulate
    from streamrf.training import load_moments as load_moments
    from streamrf.training import moments as moments
    from streamrf.training import refine as refine
    from streamrf.training import select as select

__version__ = "0.2.0"

# The public names by their room; of maps and kernels all that their closed tables name.
_PUBLIC = {
    "engine": ("RunOptions",),
    "estimators": (
        *("RandomFeatureClassifier", "RandomFeatureRegressor"),
        *("KernelRidgeClassifier", "KernelRidgeRegressor"),
        *("RandomFeatureKMeans", "RandomFeaturePCA", "cross_val_score"),
    ),
    "errors": ("StreamrfWarning",),
    "models": ("ErrorCorrectingCodes", "Model", "OneVsRest", "PrincipalComponents"),
    "preprocessing": ("Moments", "Warp"),
    "sources": (
        "ArraySource",
        "DaskArraySource",
        "Deformation",
        "HDF5Source",
        "IteratorSource",
        "MatrixSource",
        "TableSource",
        "Unlabelled",
        "deformed_mnist",
        "open_source",
    ),
    "statistics": ("Statistics", "TwoSample", "load_statistics", "mmd"),
    "training": (
        *("Selection", "Settings", "accumulate", "select"),
        *("load_moments", "moments", "refine"),
    ),
}
_TABLES = ("kernels", "features")


def load_model(
    path: str | os.PathLike, features: Any = None, *, estimator: bool = True
) -> "Model | RandomFeatureClassifier | RandomFeatureRegressor":
    """Read a model file.

    Parameters
    ----------
    path : file to read
    features : the code of a `CallableMap` or `TransformerMap`, which files name and do not hold:
        the function, the fitted transformer, or the map of either; of several a list in their
        order. It must answer as what was trained with. Without it a model shows what it is, and
        raises an error where it is to predict
    estimator : False returns the `Model` of an estimator, which predicts and scores too, and
        imports no scikit-learn: a new process predicts in half the time

    Returns
    -------
    The estimator that was saved, with its settings but without its statistics, so that
    `partial_fit` cannot go on; or the `Model`, where one was saved, as `streamrf fit` does.

    Raises
    ------
    FormatError
        A file that holds no model.
    ParameterError
        Other code than that of the training, or code for a file that needs none.

    Examples
    --------
    >>> import tempfile
    >>> import streamrf as srf
    >>> clf = srf.RandomFeatureClassifier(srf.TreeSketch(n_components=8), alpha=0.1)
    >>> clf = clf.fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clf.save(f"{folder}/model.h5")
    ...     again = srf.load_model(f"{folder}/model.h5")
    >>> again.classes_, again.score([[0.0], [2.0]], [0, 1])
    (array([0, 1]), 1.0)
    """
    model = _room("models").load_model(path, features)
    is_alone = model.estimator is None or not estimator
    return model if is_alone else _room("estimators").as_saved(model, path, features)


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is: scikit-learn and SciPy take over a second (PEP 562)."""
    if name == "__all__":
        if sys._getframe(1).f_globals.get("__name__") == "pydoc":
            raise AttributeError(name)  # or help(streamrf) prints the help of every class
        public = ["load_model", *(name for names in _PUBLIC.values() for name in names)]
        return sorted([*public, *(name for room in _TABLES for name in _room(room).TABLE)])
    if name.startswith("__"):
        raise AttributeError(f"module 'streamrf' has no attribute {name!r}")
    for room, names in _PUBLIC.items():
        if name in names:
            return _kept(name, getattr(_room(room), name))
    try:
        return _room(name)
    except ModuleNotFoundError as error:
        if error.name != f"streamrf.{name}":
            raise
    for room in _TABLES:
        if name in _room(room).TABLE:
            return _kept(name, _room(room).TABLE[name])
    raise AttributeError(f"module 'streamrf' has no attribute {name!r}")


def _room(name: str) -> Any:
    was_on = gc.isenabled()
    gc.disable()  # looking through what the imports make, which stays, takes a fifth of their time
    try:
        return importlib.import_module(f"streamrf.{name}")
    finally:
        if was_on:
            gc.enable()


def _kept(name: str, value: Any) -> Any:
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    own = (name for name in globals() if name.startswith("__"))
    return sorted({*own, *__getattr__("__all__")})
