"""What a selection chooses from: scalings of rows and kernels with their settings."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from streamrf.jit.arrays import Array, Floats, Indices
from streamrf.preprocessing import Moments, Preprocessing, Warp, has_heavy_columns, variances
from streamrf.sources import SparseRows
from streamrf.training.images import shape_of
from streamrf.training.kernel_names import DEFAULT
from streamrf.training.kind import Kind, Shape
from streamrf.training.kinds import KINDS
from streamrf.training.odd_columns import hardly_seen
from streamrf.training.settings import AUTO

PAIRS = 2000  # of rows, whose median distance is the unit of gamma
MAX_UNITS = 100  # columns of different units
MIN_RANKED = 2000  # rows; of fewer, those held out would often choose ranks by chance
OUTLYING = 2.0  # times the deviation of the rows learnt from, that of all rows with a wrong entry


@dataclass(frozen=True)
class Recipe:
    """How a warp is learnt.

    Parameters
    ----------
    kind : "diagonal" or "full"
    kernel, setting : of the ridge whose gradients are taken: one of `TEACHERS`, and its gamma in
        units of 1 / median (squared) distance of the rows as they are warped so far
    n_rounds : how often at least a warp is learnt from the rows warped so far
    from_effects : whether the first ridge is of columns that count by what each explains alone
    """

    kind: str
    kernel: str = "gaussian"
    setting: float = 1.0
    n_rounds: int = 1
    from_effects: bool = False


@dataclass(frozen=True)
class Candidate:
    """A scaling, a kernel and perhaps a warp.

    Parameters
    ----------
    normalize : scaling of the rows
    kernel : a name of `KINDS`, of a kernel or of a map that has none
    setting : gamma in units of 1 / median (squared) distance, the degree, the order, see `Kind`
    warp : of the scaled rows, or None
    """

    normalize: str | None
    kernel: str
    setting: float
    warp: Recipe | None = None

    @property
    def kind(self) -> Kind:
        """The row of `KINDS`."""
        return KINDS[self.kernel]

    def neighbours(self) -> list["Candidate"]:
        """Return the candidates next to it: half and twice the gamma, a degree more and less."""
        return [replace(self, setting=setting) for setting in self.kind.near(self.setting)]

    def warped(self, kind: str, n_rounds: int) -> "Candidate":
        """Return the candidate with a warp, learnt with its kernel, or a Gaussian."""
        recipe = Recipe(kind, n_rounds=n_rounds)
        if self.kind.teaches:
            recipe = replace(recipe, kernel=self.kernel, setting=self.setting)
        return replace(self, warp=recipe)

    def __str__(self) -> str:
        setting = self.kind.label.format(f"{self.setting:g}")
        warp = "" if self.warp is None else f", {self.warp.kind} warp"
        if self.warp is not None and self.warp.from_effects:
            warp += " from single columns"
        return f"{self.normalize or 'none'}, {self.kernel}{setting}{warp}"


def crossed(
    kernels: Sequence[str] = DEFAULT,
    normalize: str | None = AUTO,
    *,
    every: bool = False,
    by_ranks: bool = False,
    shape: Shape | None = None,
) -> list[Candidate]:
    """Return the settings of the first round, or `every` one, under every scaling.

    Parameters
    ----------
    kernels : names of `KINDS`
    normalize : a scaling, under which kinds that do not go with it are left out, or "auto"
    every : settings of a full grid
    by_ranks : whether "auto" tries "quantile" too, which heavy tails ask for
    shape : of the images that rows are, or None
    """
    found = [
        Candidate(scaling, name, float(setting))
        for name, kind in ((name, KINDS[name]) for name in kernels)
        for scaling, setting in itertools.product(
            kind.under(normalize), kind.every if every else kind.begin(shape)
        )
    ]
    if normalize != AUTO or by_ranks:
        return found
    return [candidate for candidate in found if candidate.normalize != "quantile"]


class ScaledRows:
    """Rows under every scaling, learnt from the first of them, and the unit of each gamma.

    Where the others make a column much wider, scales are learnt from all rows, as a pass does: one
    wrong entry may make a column vanish under the scaling that does best without it.

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
        self._n_scaled = len(X) if _has_outliers(X, n_learnt) else n_learnt
        self._moments = moments
        self._pairs = rng.integers(0, n_learnt, (2, PAIRS))
        self._rows: dict[str | None, Array] = {}
        self._units: dict[tuple[str | None, str, Warp | None], float] = {}

    @property
    def n_features(self) -> int:
        """Width of a row."""
        return self._X.shape[1]

    @property
    def asks_for_ranks(self) -> bool:
        """See the function."""
        return asks_for_ranks(self._X)

    @cached_property
    def has_units(self) -> bool:
        """See the function."""
        return has_units(self._X)

    def rows(self, normalize: str | None, warp: Warp | None = None) -> Array:
        """Return all rows scaled, and warped, float32."""
        if normalize not in self._rows:
            scaling = Preprocessing.learn(
                normalize, self._X[: self._n_scaled], moments=self._moments
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


def asks_for_ranks(X: Array) -> bool:
    """Return whether "quantile" is worth a try: of many rows with heavy tails, but no images."""
    return len(X) >= MIN_RANKED and shape_of(X) is None and has_heavy_columns(X)


def has_units(X: Array) -> bool:
    """Return whether columns are of units so different that rows of one length hide half of them.

    Of at most `MAX_UNITS` columns: more are words, spectra or the like, of one unit.
    """
    if isinstance(X, SparseRows) or not 1 < X.shape[1] <= MAX_UNITS or shape_of(X) is not None:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.sqrt(variances(X))
    return bool(hardly_seen(spread, spread > 0))


def _has_outliers(X: Array, n_learnt: int) -> bool:
    """Return whether rows beyond the first make the deviation of a column much greater."""
    if isinstance(X, SparseRows):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        part, whole = (np.sqrt(variances(some)) for some in (X[:n_learnt], X))
        return bool(((part > 0) & (whole > OUTLYING * part)).any())


def gamma_unit(X: Floats, kernel: str, pairs: Indices) -> float:
    """Return 1 over the size of pairs (2, n) of rows: of most, their median distance.

    It is 0 or infinite, which no kernel takes, where float32 cannot hold it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        size = KINDS[kernel].size(X[pairs[0]], X[pairs[1]])
        return float(1 / size) if size > 0 else 1.0
