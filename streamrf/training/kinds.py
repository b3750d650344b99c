"""What a selection can try, a row for each kind: a kernel with its map, or a map by itself."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from streamrf.features import (
    AdditiveFourier,
    AdditiveSampler,
    Concatenate,
    Convolution,
    Craft,
    FeatureMap,
    Nystroem,
    PiecewiseLinear,
    RandomFourier,
    RandomMaclaurin,
    SkeletonFeatures,
    SkewedFourier,
    StructuredFourier,
    TaylorSketch,
    TreeGated,
)
from streamrf.jit.arrays import Floats
from streamrf.kernels import (
    AdditiveKernel,
    ArcCosine,
    BaseSpace,
    Cauchy,
    Chi2,
    DotProductKernel,
    ExpAdditive,
    ExpChi2,
    ExpHellinger,
    ExpJensenShannon,
    Gaussian,
    Hellinger,
    Intersection,
    JensenShannon,
    Laplacian,
    Layer,
    Polynomial,
    ShiftInvariantKernel,
    Skeleton,
    SkewedChi2,
)
from streamrf.preprocessing import COLUMNWISE
from streamrf.sources import SparseRows
from streamrf.training.kind import Kind, Shape, Wanted

NONNEGATIVE = (None, "l1", "l2", "max")  # scalings that keep rows without negative entries so
UP_FACTOR = 8  # of compact maps
ARC_COSINE_TOLERANCE = 0.01  # of its series: of order 0 it ends slowly; polynomials have an end
STEPS = 2  # samples of a spectrum
CELLS = 3  # of an image, along each side
WINDOW, STRIDE = 5, 2  # of the layers of a skeleton, on images
LANDMARK_FLOPS = 3 * 20 * 4096 * 2  # of k-means, over landmarks times columns
EIGEN_FLOPS = 60  # of a root of a matrix, over the cube of its columns
GAMMA = ", gamma {} / median distance"


def _distance(x: Floats, y: Floats) -> np.floating:
    return np.median(np.sqrt(np.square(x - y).sum(axis=1)))


def _halves(setting: float) -> Sequence[float]:
    return (setting / 2, setting * 2)


def _within(least: int, most: int) -> Callable[[float], Sequence[float]]:
    """Return a function that returns the integers next to one, within bounds."""
    return lambda setting: [s for s in (setting - 1, setting + 1) if least <= s <= most]


def _fourier(kernel: type[ShiftInvariantKernel]) -> Callable[[Wanted], FeatureMap]:
    return lambda wanted: RandomFourier(
        kernel(gamma=wanted.gamma), wanted.width, random_state=wanted.seed
    )


def _compact(kernel: Callable[[Wanted], DotProductKernel]) -> Callable[[Wanted], FeatureMap]:
    def make(wanted: Wanted) -> FeatureMap:
        n_up = UP_FACTOR * wanted.width
        up = RandomMaclaurin(kernel(wanted), n_up, tolerance=ARC_COSINE_TOLERANCE)
        return Craft(up, wanted.width, random_state=wanted.seed)

    return make


def _polynomial(wanted: Wanted) -> DotProductKernel:
    return Polynomial(degree=int(wanted.setting), gamma=wanted.unit)


def _linear(wanted: Wanted) -> FeatureMap:
    kernel = Polynomial(degree=1, gamma=wanted.unit)
    width = wanted.n_features + 1
    return RandomMaclaurin(kernel, width, h01=True, random_state=wanted.seed)


def _gaussian(wanted: Wanted) -> FeatureMap:
    kernel = Gaussian(gamma=wanted.gamma)
    return StructuredFourier(kernel, wanted.width, random_state=wanted.seed)


def _gaussian_piecewise(wanted: Wanted) -> FeatureMap:
    half = wanted.width // 2
    gaussian = _gaussian(replace(wanted, width=wanted.width - half))
    return Concatenate([gaussian, PiecewiseLinear(half)]) if half else gaussian


def _convolution(wanted: Wanted) -> FeatureMap:
    assert wanted.shape is not None
    window = min(int(wanted.setting), min(wanted.shape[:2]) - CELLS + 1)
    return Convolution(
        n_components=wanted.width,
        shape=wanted.shape,
        window=window,
        cells=CELLS,
        random_state=wanted.seed,
    )


def _skeleton(wanted: Wanted) -> FeatureMap:
    layer: Layer = BaseSpace(shape=wanted.shape, gamma="median")
    window = None if wanted.shape is None else WINDOW
    for _ in range(int(wanted.setting) - 1):
        layer = Skeleton("relu", layer, window=window, stride=STRIDE)
    return SkeletonFeatures(Skeleton("exponential", layer), wanted.width, random_state=wanted.seed)


def _of_windows(width: int, d: int) -> int:
    """Return multiplications of features of windows, in blocks of 128 at least."""
    return 24 * d * max(128, width // CELLS**2)


def _half(shape: Shape) -> int:
    """Return the greatest odd number within half of the shorter side, at least 3."""
    return max(3, (min(shape[:2]) // 2 - 1) | 1)


def _negative(X: Any, shape: Shape | None) -> str:
    """Return the objection of kernels of histograms to rows with negative entries."""
    values, columns = (X.entries if isinstance(X, SparseRows) else (np.ravel(X), None))[:2]
    place = int(np.argmin(values)) if len(values) else 0
    if not len(values) or values[place] >= 0:
        return ""
    column = place % X.shape[1] if columns is None else columns[place]
    what = f"takes no negative entries, and column {column} has {values[place]:.4g}"
    return f"{what}; leave it out"


def _no_image(X: Any, shape: Shape | None) -> str:
    """Return the objection of maps of images to rows that are none."""
    if shape is not None:
        return ""
    return (
        f"is for images, and {X.shape[1]:,} columns are no square of pixels, of one number or "
        "three each; name the shape, features=Convolution(shape=...), or leave it out"
    )


_of_histograms = partial(
    Kind,
    scalings=(None, "l2", "l1"),  # the first where few rows or columns leave nothing to try
    may_have=NONNEGATIVE,
    objection=_negative,
    takes_negative=False,
)


def _additive(kernel: AdditiveKernel) -> Kind:
    """Return the row of an additive kernel, whose map has a width of its own."""
    n_each = 1 if isinstance(kernel, Hellinger) else 2 * STEPS - 1
    return _of_histograms(
        make=lambda wanted: AdditiveSampler(kernel, sample_steps=int(wanted.setting)),
        first=(STEPS,),
        every=(STEPS,),
        cost=0.75,
        width_of=lambda width, d: n_each * d,
        leads=False,
    )


def _exponential(kernel: type[ExpAdditive]) -> Kind:
    """Return the row of the exponential of an additive kernel's distance."""
    k = kernel().additive()
    return _of_histograms(
        make=lambda wanted: AdditiveFourier(
            kernel(wanted.gamma), wanted.width, sample_steps=STEPS, random_state=wanted.seed
        ),
        first=(1 / 4, 1, 4),
        every=tuple(2.0**n for n in range(-5, 5)),
        label=GAMMA,
        near=_halves,
        size=lambda x, y: np.median((x + y - 2 * k.function(x, y)).sum(axis=1)),
        cost=3.0,
    )


_GAUSSIAN = Kind(
    make=_gaussian,
    first=(1 / 16, 1 / 4, 1, 4),
    every=tuple(2.0**k for k in range(-6, 4)),
    label=GAMMA,
    near=_halves,
    size=lambda x, y: np.median(np.square(x - y).sum(axis=1)),
    cost=1.0,
    teaches=Gaussian,
)
_POLYNOMIAL = Kind(
    make=_compact(_polynomial),
    first=(2, 4, 7),
    every=(2, 3, 4, 5, 7, 9),
    label=" of degree {}",
    near=_within(2, 9),
)

# By the words of `kernels=` and --kernels, in the order in which they are tried.
KINDS: dict[str, Kind] = {
    "gaussian": _GAUSSIAN,
    "laplacian": Kind(
        make=_fourier(Laplacian),
        first=(1 / 8, 1 / 2),
        every=tuple(2.0**k for k in range(-5, 3)),
        label=GAMMA,
        near=_halves,
        size=lambda x, y: np.median(np.abs(x - y).sum(axis=1)),
        cost=2.0,
        dense=lambda width, d: width * d,
        teaches=Laplacian,
    ),
    "polynomial": _POLYNOMIAL,
    "linear": Kind(make=_linear, first=(1,), every=(1,), cost=0.5, width_of=lambda width, d: d + 1),
    "piecewise-linear": Kind(
        make=lambda wanted: PiecewiseLinear(wanted.width, max_bins=int(wanted.setting)),
        first=(32,),
        every=(8, 32),
        cost=0.5,
        scalings=(None, "asinh", "quantile"),  # linear ones of columns change nothing
        is_rough=True,
        n_kept=1,
    ),
    "gaussian-piecewise": replace(
        _GAUSSIAN,
        make=_gaussian_piecewise,
        first=(1 / 16, 1 / 4, 1),
        cost=0.9,
        scalings=COLUMNWISE,
        teaches=None,
        n_kept=2,
    ),
    "arc-cosine": Kind(
        make=_compact(lambda wanted: ArcCosine(order=int(wanted.setting))),
        first=(0, 1),
        every=(0, 1),
        label=" of order {}",
        scalings=("l2",),
        may_have=("l2",),
    ),
    "cauchy": Kind(
        make=_fourier(Cauchy),
        first=(1 / 4, 1),
        every=tuple(2.0**k for k in range(-4, 4)),
        label=GAMMA,
        near=_halves,
        size=_distance,
        cost=2.0,
        dense=lambda width, d: width * d,
    ),
    "chi2": _additive(Chi2()),
    "intersection": _additive(Intersection()),
    "jensen-shannon": _additive(JensenShannon()),
    "hellinger": _additive(Hellinger()),
    "exp-chi2": _exponential(ExpChi2),
    "exp-jensen-shannon": _exponential(ExpJensenShannon),
    "exp-hellinger": _exponential(ExpHellinger),
    "skewed-chi2": _of_histograms(
        make=lambda wanted: SkewedFourier(
            SkewedChi2(wanted.setting / wanted.unit), wanted.width, random_state=wanted.seed
        ),
        first=(1 / 8, 1 / 2, 2),
        every=tuple(2.0**k for k in range(-5, 4)),
        label=", skewedness {} median distances",
        near=_halves,
        size=_distance,
        cost=3.0,
        dense=lambda width, d: width * d,
    ),
    "nystroem": replace(
        _GAUSSIAN,
        make=lambda wanted: Nystroem(
            Gaussian(gamma=wanted.gamma), wanted.width, random_state=wanted.seed
        ),
        cost=4.0,
        dense=lambda width, d: 4 * width * (width + d),
        once=lambda width, d: LANDMARK_FLOPS * width * d + EIGEN_FLOPS * width**3,
        max_width=2048,  # landmarks are of 4,096 rows
        teaches=None,
    ),
    "taylor-sketch": replace(
        _POLYNOMIAL,
        make=lambda wanted: TaylorSketch(
            _polynomial(wanted), wanted.width, random_state=wanted.seed
        ),
        cost=4.0,
    ),
    "tree-gated": Kind(
        make=lambda wanted: TreeGated(
            wanted.width, depth=int(wanted.setting), random_state=wanted.seed
        ),
        first=(3,),
        every=(2, 3, 4, 5),
        label=" of depth {}",
        near=_within(1, 8),
        cost=1.5,
    ),
    "skeleton": Kind(
        make=_skeleton,
        first=(1, 2),
        every=(1, 2, 3, 4),
        label=" of {} layers",
        near=_within(1, 4),
        cost=1.5,
    ),
    "convolution": Kind(
        make=_convolution,
        first=(7,),
        every=(3, 5, 7, 9),
        label=", windows of {}",
        near=lambda setting: [s for s in (setting - 2, setting + 2) if 3 <= s <= 9],
        cost=12.0,
        dense=_of_windows,
        scalings=(None,),
        limit=_half,
        objection=_no_image,
    ),
}
TEACHERS = {name: kind.teaches for name, kind in KINDS.items() if kind.teaches is not None}
