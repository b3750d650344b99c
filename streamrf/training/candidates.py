"""What a selection chooses from: scalings of rows and kernels with their settings."""

import itertools
from dataclasses import dataclass, replace

import numpy as np

from streamrf.features import Craft, FeatureMap, RandomFourier, RandomMaclaurin, StructuredFourier
from streamrf.jit.arrays import Array, Floats
from streamrf.kernels import ArcCosine, Gaussian, Laplacian, Polynomial
from streamrf.preprocessing import Moments, Preprocessing

SCALINGS = ("standard", "asinh", "l2", None)  # "max" is None where gamma is relative
PAIRS = 2000  # of rows, whose median distance is the unit of gamma
UP_FACTOR = 8  # of compact maps
ARC_COSINE_TOLERANCE = 0.01  # of its series: of order 0 it ends slowly; polynomials have an end

# The settings of each kernel that the first round tries: gamma in units of 1 / median (squared)
# distance of the scaled rows; the degree. The arc-cosine kernel is tried on rows of unit length.
FIRST = {
    "gaussian": (1 / 16, 1 / 4, 1, 4),
    "laplacian": (1 / 8, 1 / 2),
    "polynomial": (2, 4, 7),
    "linear": (1,),
}
EVERY = {
    "gaussian": tuple(2.0**k for k in range(-6, 4)),
    "laplacian": tuple(2.0**k for k in range(-5, 3)),
    "polynomial": (2, 3, 4, 5, 7, 9),
    "linear": (1,),
}


@dataclass(frozen=True)
class Candidate:
    """A scaling and a kernel.

    Parameters
    ----------
    normalize : one of `SCALINGS`
    kernel : "gaussian", "laplacian", "polynomial", "arc-cosine" or "linear"
    setting : gamma in units of 1 / median (squared) distance; the degree; the order
    """

    normalize: str | None
    kernel: str
    setting: float

    @property
    def cost(self) -> float:
        """Seconds of featurising, relative to a structured Gaussian."""
        return {"linear": 0.5, "gaussian": 1.0, "laplacian": 2.0}.get(self.kernel, 8.0)

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
        return f"{self.normalize or 'none'}, {self.kernel}{named.get(self.kernel, '')}"


def crossed(
    settings: dict[str, tuple[float, ...]], scalings: tuple[str | None, ...] = SCALINGS
) -> list[Candidate]:
    """Return every setting under every scaling."""
    found = [
        Candidate(scaling, kernel, float(setting))
        for kernel, values in settings.items()
        for scaling, setting in itertools.product(scalings, values)
    ]
    if "l2" in scalings:
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
        self._units: dict[tuple[str | None, str], float] = {}

    @property
    def n_features(self) -> int:
        """Width of a row."""
        return self._X.shape[1]

    def rows(self, normalize: str | None) -> Array:
        """Return all rows scaled, float32."""
        if normalize not in self._rows:
            scaling = Preprocessing.learn(normalize, self._X[: self._n_learnt], self._moments)
            self._rows[normalize] = scaling.apply(self._X)
        return self._rows[normalize]

    def unit(self, normalize: str | None, kernel: str) -> float:
        """Return what a relative gamma is multiplied by."""
        key = (normalize, kernel)
        if key not in self._units:
            X = self.rows(normalize)[: self._n_learnt]
            size = _size(X[self._pairs[0]], X[self._pairs[1]], kernel)
            self._units[key] = 1 / size if size > 0 else 1.0
        return self._units[key]


def _size(X: Floats, Y: Floats, kernel: str) -> float:
    """Return what distances or norms of rows are measured in."""
    match kernel:
        case "gaussian":
            return float(np.median(np.square(X - Y).sum(axis=1)))
        case "laplacian":
            return float(np.median(np.abs(X - Y).sum(axis=1)))
        case _:
            return float(np.square(X).sum(axis=1).mean())


def feature_map(candidate: Candidate, scaled: ScaledRows, width: int, seed: int) -> FeatureMap:
    """Return the unfitted map of a candidate, for rows of its scaling."""
    unit = scaled.unit(candidate.normalize, candidate.kernel)
    setting = candidate.setting
    match candidate.kernel:
        case "gaussian":
            return StructuredFourier(Gaussian(gamma=setting * unit), width, random_state=seed)
        case "laplacian":
            return RandomFourier(Laplacian(gamma=setting * unit), width, random_state=seed)
        case "linear":
            kernel = Polynomial(degree=1, gamma=unit)
            return RandomMaclaurin(kernel, scaled.n_features + 1, h01=True, random_state=seed)
        case "polynomial":
            exact = Polynomial(degree=int(setting), gamma=unit)
        case _:
            exact = ArcCosine(order=int(setting))
    up = RandomMaclaurin(exact, UP_FACTOR * width, tolerance=ARC_COSINE_TOLERANCE)
    return Craft(up, width, random_state=seed)
