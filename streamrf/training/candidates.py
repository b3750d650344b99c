"""What a selection chooses from: scalings of rows and kernels with their settings."""

import itertools
from dataclasses import dataclass, replace

import numpy as np

from streamrf.features import (
    Craft,
    FeatureMap,
    PiecewiseLinear,
    RandomFourier,
    RandomMaclaurin,
    StructuredFourier,
)
from streamrf.jit.arrays import Array, Floats, Indices
from streamrf.kernels import ArcCosine, DotProductKernel, Gaussian, Laplacian, Polynomial
from streamrf.preprocessing import Moments, Preprocessing, Warp

SCALINGS = ("standard", "asinh", "l2", None)  # "max" is None where gamma is relative
PAIRS = 2000  # of rows, whose median distance is the unit of gamma
UP_FACTOR = 8  # of compact maps
ARC_COSINE_TOLERANCE = 0.01  # of its series: of order 0 it ends slowly; polynomials have an end

# The settings of each kernel that the first round tries: gamma in units of 1 / median (squared)
# distance of the scaled rows; the degree; the bins of a column. The arc-cosine kernel is tried on
# rows of unit length.
FIRST = {
    "gaussian": (1 / 16, 1 / 4, 1, 4),
    "laplacian": (1 / 8, 1 / 2),
    "polynomial": (2, 4, 7),
    "linear": (1,),
    "piecewise-linear": (32,),
}
EVERY = {
    "gaussian": tuple(2.0**k for k in range(-6, 4)),
    "laplacian": tuple(2.0**k for k in range(-5, 3)),
    "polynomial": (2, 3, 4, 5, 7, 9),
    "linear": (1,),
    "piecewise-linear": (8, 32),
}
KERNELS = {"gaussian": Gaussian, "laplacian": Laplacian}  # that a warp is learnt with


@dataclass(frozen=True)
class Recipe:
    """How a warp is learnt.

    Parameters
    ----------
    kind : "diagonal" or "full"
    kernel, setting : of the ridge whose gradients are taken: one of `KERNELS`, and its gamma in
        units of 1 / median (squared) distance of the rows as they are warped so far
    n_rounds : how often a warp is learnt from the rows warped so far
    """

    kind: str
    kernel: str = "gaussian"
    setting: float = 1.0
    n_rounds: int = 1


@dataclass(frozen=True)
class Candidate:
    """A scaling, a kernel and perhaps a warp.

    Parameters
    ----------
    normalize : one of `SCALINGS`
    kernel : "gaussian", "laplacian", "polynomial", "arc-cosine", "linear", or "piecewise-linear",
        which is a map and not a kernel
    setting : gamma in units of 1 / median (squared) distance; the degree; the order; the bins
    warp : of the scaled rows, or None
    """

    normalize: str | None
    kernel: str
    setting: float
    warp: Recipe | None = None

    @property
    def cost(self) -> float:
        """Seconds of featurising, relative to a structured Gaussian."""
        return {"linear": 0.5, "piecewise-linear": 0.5, "gaussian": 1.0, "laplacian": 2.0}.get(
            self.kernel, 8.0
        )

    def neighbours(self) -> list["Candidate"]:
        """Return the candidates next to it: half and twice the gamma, a degree more and less."""
        match self.kernel:
            case "gaussian" | "laplacian":
                settings = [self.setting / 2, self.setting * 2]
            case "polynomial":
                settings = [d for d in (self.setting - 1, self.setting + 1) if 2 <= d <= 9]
            case _:
                settings = []
        return [replace(self, setting=setting) for setting in settings]

    def __str__(self) -> str:
        number = f"{self.setting:g}"
        named = {"polynomial": f" of degree {number}", "arc-cosine": f" of order {number}"}
        named |= dict.fromkeys(("gaussian", "laplacian"), f", gamma {number} / median distance")
        warp = "" if self.warp is None else f", {self.warp.kind} warp"
        return f"{self.normalize or 'none'}, {self.kernel}{named.get(self.kernel, '')}{warp}"


def crossed(
    settings: dict[str, tuple[float, ...]], scalings: tuple[str | None, ...] = SCALINGS
) -> list[Candidate]:
    """Return every setting under every scaling, next to polynomials arc-cosine kernels too.

    Piecewise-linear functions are the same under all scalings of columns, so one is tried.
    """
    found = [
        Candidate(scaling, kernel, float(setting))
        for kernel, values in settings.items()
        for scaling, setting in itertools.product(
            scalings[-1:] if kernel == "piecewise-linear" else scalings, values
        )
    ]
    if "l2" in scalings and "polynomial" in settings:
        found += [Candidate("l2", "arc-cosine", float(order)) for order in (0, 1)]
    return found


class ScaledRows:
    """Rows under every scaling, learnt from the first of them, and the unit of each gamma.

    Parameters
    ----------
    X : (n, d)
    n_learnt : rows from the start that scales and distances are of
    rng : chooses the pairs of rows whose distances are measured
    moments : of all rows, where columns are to be scaled by them
    """

    def __init__(
        self, X: Array, n_learnt: int, rng: np.random.Generator, moments: Moments | None = None
    ) -> None:
        self._X = X
        self._n_learnt = n_learnt
        self._moments = moments
        self._pairs = rng.integers(0, n_learnt, (2, PAIRS))
        self._rows: dict[str | None, Array] = {}
        self._units: dict[tuple[str | None, str, Warp | None], float] = {}

    @property
    def n_features(self) -> int:
        """Width of a row."""
        return self._X.shape[1]

    def rows(self, normalize: str | None, warp: Warp | None = None) -> Array:
        """Return all rows scaled, and warped, float32."""
        if normalize not in self._rows:
            scaling = Preprocessing.learn(
                normalize, self._X[: self._n_learnt], moments=self._moments
            )
            self._rows[normalize] = scaling.apply(self._X)
        X = self._rows[normalize]
        return X if warp is None else Preprocessing.learn(None, X, warp).apply(X)

    def unit(self, normalize: str | None, kernel: str, warp: Warp | None = None) -> float:
        """Return what a relative gamma is multiplied by."""
        key = (normalize, kernel, warp)
        if key not in self._units:
            X = self.rows(normalize, warp)[: self._n_learnt]
            self._units[key] = gamma_unit(X, kernel, self._pairs)
        return self._units[key]


def gamma_unit(X: Floats, kernel: str, pairs: Indices) -> float:
    """Return 1 over the median distance of pairs (2, n) of rows, or over the mean squared norm."""
    distances = {"gaussian": np.square, "laplacian": np.abs}
    if kernel in distances:
        size = np.median(distances[kernel](X[pairs[0]] - X[pairs[1]]).sum(axis=1))
    else:
        size = np.square(X[pairs[0]]).sum(axis=1).mean()
    return float(1 / size) if size > 0 else 1.0


def feature_map(
    candidate: Candidate, unit: float, n_features: int, width: int, seed: int
) -> FeatureMap:
    """Return the unfitted map of a candidate, its gamma in a unit."""
    setting = candidate.setting
    exact: DotProductKernel
    match candidate.kernel:
        case "gaussian":
            return StructuredFourier(Gaussian(gamma=setting * unit), width, random_state=seed)
        case "laplacian":
            return RandomFourier(Laplacian(gamma=setting * unit), width, random_state=seed)
        case "linear":
            kernel = Polynomial(degree=1, gamma=unit)
            return RandomMaclaurin(kernel, n_features + 1, h01=True, random_state=seed)
        case "piecewise-linear":
            return PiecewiseLinear(width, max_bins=int(setting))
        case "polynomial":
            exact = Polynomial(degree=int(setting), gamma=unit)
        case _:
            exact = ArcCosine(order=int(setting))
    up = RandomMaclaurin(exact, UP_FACTOR * width, tolerance=ARC_COSINE_TOLERANCE)
    return Craft(up, width, random_state=seed)
