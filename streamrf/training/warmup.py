"""Compile every kernel before it is needed; Numba keeps them on disk."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from streamrf.features import (
    RAW_DTYPES,
    AdditiveFourier,
    AdditiveSampler,
    Concatenate,
    Convolution,
    Craft,
    Fastfood,
    FeatureMap,
    Nystroem,
    PiecewiseLinear,
    RandomFourier,
    RandomMaclaurin,
    SkeletonFeatures,
    SkewedFourier,
    StructuredFourier,
    TaylorSketch,
    TensorSketch,
    TreeGated,
    TreeSketch,
)
from streamrf.jit import cholesky, lanes, lzf, packed, symmetric
from streamrf.kernels import BaseSpace, Polynomial, Skeleton
from streamrf.models import ErrorCorrectingCodes
from streamrf.preprocessing import WARPS
from streamrf.sources import ArraySource, IteratorSource
from streamrf.training.accumulation import accumulate, begin
from streamrf.training.finishing import finish
from streamrf.training.job import Job
from streamrf.training.settings import Settings

N_ROWS, N_FEATURES, N_COMPONENTS, N_CLASSES = 120, 8, 32, 10


def warm_up(progress: Callable[[str], None] | None = None) -> Path:
    """Fit and use a tiny model with every map, dtype of rows, precision and kind of target.

    Parameters
    ----------
    progress : called with the name of what is being compiled

    Returns
    -------
    the folder of the compiled kernels; ``NUMBA_CACHE_DIR`` chooses another
    """
    for what, work in _uses():
        if progress is not None:
            progress(what)
        work()
    return Path(lanes.load.stats.cache_path)


def _uses() -> Iterator[tuple[str, Callable[[], object]]]:
    """Return fits that differ from one of a classifier of float32 rows, and what follows a fit."""
    maps = _maps()
    for features in maps:
        yield type(features).__name__, partial(_fit, features)
    default = partial(_fit, maps[0])
    for dtype in RAW_DTYPES:
        yield f"{np.dtype(dtype).name} rows", partial(default, dtype)
    yield "ranks", partial(default, normalize="quantile")
    yield "weights", partial(default, weighted=True)
    yield "float64 precision", partial(default, precision="float64")
    yield "coarse precision", partial(default, precision="coarse")
    yield "32-bit totals", partial(default, totals="int32")
    yield "32-bit totals, coarse", partial(default, totals="int32", precision="coarse")
    yield "values", partial(default, regression=True)
    codes = ErrorCorrectingCodes(6)
    for warp in WARPS:
        yield f"{warp} warp", partial(default, warp=warp)
    yield "codes", partial(default, codes=codes, classes=np.arange(N_CLASSES))
    yield "what follows a fit", partial(_use, maps[0])
    for dtype in (np.float64, np.float32):
        yield f"{np.dtype(dtype).name} factors", partial(_factor, dtype)
    for totals in (np.float64, np.int32):
        yield f"{np.dtype(totals).name} sums of wide maps", partial(_share_factors, totals)
    chunk = np.frombuffer(bytes(2), np.uint8)
    yield "chunks of LZF", partial(lzf.expand, chunk, np.empty(1, np.uint8))


def _maps() -> list[FeatureMap]:
    """Return one map for every kernel that maps are made of."""
    width, cubic = N_COMPONENTS, Polynomial(degree=3, coef0=1.0)
    maclaurin = RandomMaclaurin(cubic, width, h01=True)
    spaces = [BaseSpace(kind) for kind in ("gaussian", "sphere", "categorical")]
    return [
        maclaurin,
        RandomMaclaurin(cubic, width, projection="rademacher"),
        RandomMaclaurin(cubic, width, projection="permuted"),
        RandomMaclaurin(cubic, width, projection="complex"),
        Craft(RandomMaclaurin(cubic, 2 * width), width),
        TensorSketch(cubic, width),
        TaylorSketch(cubic, width),
        TreeSketch(cubic, width),
        RandomMaclaurin(cubic, width, inner=RandomFourier(n_components=width, paired=False)),
        RandomFourier(n_components=width),
        StructuredFourier(n_components=width),
        Fastfood(n_components=width),
        AdditiveSampler(),
        AdditiveFourier(n_components=width),
        SkewedFourier(n_components=width),
        Nystroem(n_components=width),
        PiecewiseLinear(width),
        TreeGated(width),
        SkeletonFeatures(Skeleton(inputs=spaces), width),
        Convolution(n_components=width, window=3),
        Concatenate([RandomFourier(n_components=width), maclaurin]),
    ]


def _fit(
    features: FeatureMap, dtype: type = np.float32, weighted: bool = False, **options: Any
) -> None:
    X, y = _rows(dtype)
    options = {"normalize": "l2", "hold_out": True, "random_state": 0, **options}
    settings = Settings(features=features, **options)
    if settings.regression:
        y = y.astype(np.float64)
    block = (X, y, np.ones(N_ROWS)) if weighted else (X, y)
    job = Job.of(IteratorSource([block]), settings)
    model, _ = finish(job.fold(begin(job)), "auto", settings.codes)
    model.predict(X)


def _use(features: FeatureMap) -> None:
    """Transform rows, prune sums, and solve them for many penalties."""
    X, y = _rows()
    features.fit_transform(X)
    found = accumulate(ArraySource(X, y), features, random_state=0)
    pruned = found.prune(N_COMPONENTS // 2)  # along a path of penalties
    pruned.solve(1.0)


def _factor(dtype: type) -> None:
    n = cholesky.MIN_COLUMNS[np.dtype(dtype).itemsize]
    identity: np.ndarray = np.zeros(n * (n + 1) // 2, dtype)
    packed.add_diagonal(identity, np.ones(n))
    cholesky.factor(identity, n)
    cholesky.solve(identity, np.ones((n, 1), dtype))


def _share_factors(dtype: type) -> None:
    """Do what the search for a penalty does where a factor serves several."""
    gram: np.ndarray = np.ones(3, dtype)
    symmetric.product(gram, np.ones((2, 1)))
    packed.centred(gram, np.ones(2), 1.0, np.ones(2), np.empty(3, np.float32))


def _rows(dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X: np.ndarray = rng.integers(1, 5, (N_ROWS, N_FEATURES)).astype(dtype)
    return X, rng.integers(0, N_CLASSES, N_ROWS)
