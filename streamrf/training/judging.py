"""How candidates are judged: fitted to some rows of a peek, measured on rows held out."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from streamrf.display import advance, foresee, watching
from streamrf.errors import DataError, ParameterError
from streamrf.features import FeatureMap
from streamrf.jit.arrays import Array, Floats
from streamrf.jit.threads import computing
from streamrf.preprocessing import Moments, Warp
from streamrf.solving import Trial as Penalised
from streamrf.sources import Rows
from streamrf.training import warping
from streamrf.training.candidates import Candidate, Recipe, ScaledRows
from streamrf.training.copies import Copies
from streamrf.training.foresight import CHOOSING, READING, foresee_solving, n_factors
from streamrf.training.kind import Shape, Wanted

HELD_SHARE, MAX_HELD = 0.25, 20_000  # of the rows, and rows at most
FEW = 500  # rows; if the first so many are of one class, a row of each class is put before them
FLOPS = 1.0e11  # a second, of one core
OUTPUT_FLOPS = 1.5e10  # a second, of outputs: coefficients and scores, in double precision
KNOWN_OUTPUTS = 32  # that the rates were measured with at most
WARP_FLOPS = 30  # of a root of a matrix, and products, over the cube of its columns


@dataclass(frozen=True)
class Trial:
    """How a candidate did on the rows held out.

    Parameters
    ----------
    candidate, width, n_rows : what was tried, and the rows it was fitted on
    error, mse : share of wrong labels or mean squared error; mean squared error of the outputs
    alpha : the best penalty
    seconds : planned
    losses : (2, n_held) float64, the shares of each row held out in `error` and in `mse`
    slowness : seconds of its rows, those measured over those planned
    hides : whether discriminants of the same outputs tell classes that the largest one does not
    """

    candidate: Candidate
    width: int
    n_rows: int
    error: float
    mse: float
    alpha: float
    seconds: float
    losses: Floats = field(default_factory=lambda: np.empty((2, 0)), repr=False, compare=False)
    slowness: float = field(default=np.nan, compare=False)
    hides: bool = False


class Judge:
    """Rows to fit and rows held out, on which candidates are tried.

    Copies of a row are on one side, but for a group of them at each end of the rows held out; not
    where the rows held out would all be of one class.

    Parameters
    ----------
    X, y, weights : rows (n, d), labels or values, and weights or None
    regression : whether y holds values
    seed : of the order of the rows, the pairs and the maps
    moments : of all rows, where columns are to be scaled by them
    shape : of the images that rows are, or None
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        weights: Array | None = None,
        *,
        regression: bool,
        seed: int = 0,
        moments: Moments | None = None,
        shape: Shape | None = None,
    ) -> None:
        rng, copies = np.random.default_rng(seed), Copies.of(X, y)
        order = rng.permutation(len(X)) if copies is None else copies.shuffled(X, rng)
        self.n_fitted = len(X) - min(int(HELD_SHARE * len(X)), MAX_HELD)
        if not regression:
            held = np.asarray(y)[order[self.n_fitted :]]
            if copies is not None and (held == held[:1]).all():  # a class of few distinct rows
                order = rng.permutation(len(X))
            order = _told_apart(order, np.asarray(y), min(FEW, self.n_fitted))
        self.y = np.asarray(y)[order]
        self.weights = None if weights is None else weights[order]
        self.scaled = ScaledRows(X[order], self.n_fitted, np.random.default_rng(seed), moments)
        self.regression = regression
        self.seed = seed
        self._shape = shape
        self._n_outputs = math.prod(self.y.shape[1:]) if regression else len(np.unique(self.y))
        self.trials: list[Trial] = []
        self._known: dict[tuple[Candidate, int, int, int, int], Trial] = {}
        self._warps: dict[tuple[str | None, Recipe, int], Warp | None] = {}
        self.spent = 0.0  # planned seconds of trials
        self.fault: DataError | ParameterError | None = None  # of the first that was not computed
        self._width = 0  # of the features that a solve was foreseen for
        self._by_discriminants = False

    @property
    def n_held(self) -> int:
        """Rows held out."""
        return len(self.y) - self.n_fitted

    def feature_map(
        self, candidate: Candidate, width: int, seed: int, split: int = 0
    ) -> FeatureMap:
        """Return the unfitted map of a candidate, for rows of its scaling and warp."""
        warp = self.warp(candidate.normalize, candidate.warp, split)
        unit = self.scaled.unit(candidate.normalize, candidate.kernel, warp)
        n_features = self.scaled.n_features
        return candidate.kind.make(
            Wanted(candidate.setting, unit, n_features, width, seed, self._shape)
        )

    def warp(self, normalize: str | None, recipe: Recipe | None, split: int = 0) -> Warp | None:
        """Return the warp of scaled rows that the fitted rows of a split teach."""
        if recipe is None:
            return None
        key = (normalize, recipe, split)
        if key not in self._warps:
            fitted, held = self._rows(self.scaled.rows(normalize), split)
            self._warps[key] = warping.learn(
                recipe, fitted, held, regression=self.regression, seed=self.seed + split
            )
        return self._warps[key]

    @cached_property
    def has_effects(self) -> bool:
        """Whether a warp may begin with what columns of the first split explain alone."""
        if self.scaled.n_features > warping.MAX_FULL:
            return False
        fitted, _ = self._rows(self.scaled.rows(None), 0, warping.MAX_ROWS)
        varies = bool((fitted.X.max(axis=0) > fitted.X.min(axis=0)).all())
        with computing(1), np.errstate(over="ignore", invalid="ignore"):  # as in learning a warp
            return varies and bool(warping.explained(fitted, self.regression).any())

    def _rows(
        self, X: Array, split: int, n_rows: int | None = None, n_held: int | None = None
    ) -> tuple[Rows, Rows]:
        """Return the first of the rows fitted, and of those held out, in a split."""
        order = np.roll(np.arange(len(X)), split * self.n_held)
        parts = order[: self.n_fitted][:n_rows], order[self.n_fitted :][:n_held]
        weights = [None if self.weights is None else self.weights[part] for part in parts]
        fitted, held = (Rows(X[i], self.y[i], w, i, i) for i, w in zip(parts, weights, strict=True))
        return fitted, held

    def try_(
        self, candidate: Candidate, width: int, n_rows: int, n_held: int, split: int = 0
    ) -> Trial:
        """Fit some rows and measure on those held out, with the best penalty.

        Another `split` holds other rows out and draws another map. A candidate that cannot be
        computed, such as one without a scaling of rows that overflow, has an infinite error.
        """
        n_rows = min(n_rows, self.n_fitted)
        key = (candidate, width, n_rows, min(n_held, self.n_held), split)
        if key in self._known:
            return self._known[key]
        seconds, found = self.planned(candidate, width, n_rows), None
        with watching() as measured:
            try:
                found = self._attempt(candidate, width, n_rows, n_held, split)
            except (DataError, ParameterError) as error:
                self.fault = self.fault or error
        slowness = measured.get("rows", np.nan) / self.row_seconds(candidate, width, n_rows)
        trial = Trial(candidate, width, n_rows, np.inf, np.inf, np.nan, seconds, slowness=slowness)
        if found is not None:
            hides = bool(found.others)
            if hides and self._by_discriminants:
                found = found.others[0]
            alpha = float(np.mean(found.model.alpha))
            trial = replace(
                trial,
                error=found.figure,
                mse=found.mse,
                alpha=alpha,
                losses=np.stack([found.losses, found.squares]),
                hides=hides,
            )
        self.spent += seconds
        advance(seconds, CHOOSING)
        self.trials.append(trial)
        self._known[key] = trial
        return trial

    def judge_by_discriminants(self) -> None:
        """Try all anew, by discriminants where they tell classes that the largest output hides."""
        self._by_discriminants, self.spent = True, 0.0
        self._known.clear()
        self.trials.clear()

    def _attempt(
        self, candidate: Candidate, width: int, n_rows: int, n_held: int, split: int
    ) -> Penalised | None:
        warp = self.warp(candidate.normalize, candidate.warp, split)
        rows = self.scaled.rows(candidate.normalize, warp)
        fitted, held = self._rows(rows, split, n_rows, n_held)
        map_ = self.feature_map(candidate, width, self.seed + split, split)
        return warping.attempt(map_, fitted, held, self.regression, self.seed)[1]

    def foresee(self, trial: Trial, width: int, n_rows: int) -> None:
        """Tell the run around what a pass with the candidate of a trial will take."""
        if not np.isfinite(trial.slowness):
            return
        foresee(READING, trial.slowness * self.row_seconds(trial.candidate, width, n_rows))
        if self._width != width:
            foresee_solving(width, n_factors(chooses=True, width=width))
            self._width = width

    def row_seconds(self, candidate: Candidate, width: int, n_rows: int) -> float:
        """Return the planned seconds of rows alone, without those of factors."""
        d = self.scaled.n_features
        of_none = planned_seconds(candidate, width, 0, d)
        return planned_seconds(candidate, width, n_rows, d) - of_none

    def planned(self, candidate: Candidate, width: int, n_rows: int, split: int = 0) -> float:
        """Return about the seconds of a trial, and of learning its warp where that is to come."""
        n_rows, d = min(n_rows, self.n_fitted), self.scaled.n_features
        seconds = planned_seconds(candidate, width, n_rows, d, self._n_outputs)
        recipe = candidate.warp
        if recipe is not None and (candidate.normalize, recipe, split) not in self._warps:
            teacher = Candidate(None, "laplacian", recipe.setting)  # its features are dense too
            rows = min(self.n_fitted, warping.MAX_ROWS)
            each = planned_seconds(teacher, warping.width(rows), rows, d, self._n_outputs)
            each += WARP_FLOPS * d**3 / FLOPS
            seconds += recipe.n_rounds * each
        return seconds


def planned_seconds(
    candidate: Candidate, width: int, n_rows: int, n_features: int, n_outputs: int = 1
) -> float:
    """Return about what a trial takes on two cores: features, Gram, six factors, many outputs.

    The rates were measured on two cores of Zen 5 (pendigits and MNIST, 256 to 2,048 features).
    """
    kind = candidate.kind
    width = kind.width_of(width, n_features)
    gram = n_rows * width**2 / 6e10
    maps = 8e-9 * kind.cost * n_rows * (width + n_features)
    maps += n_rows * kind.dense(width, n_features) / 2.5e10
    n_more, n_held = max(0, n_outputs - KNOWN_OUTPUTS), HELD_SHARE * n_rows
    outputs = 12 * n_more * (width**2 + n_held * (width + n_outputs)) / OUTPUT_FLOPS
    return 0.05 + gram + maps + outputs + (8 * width**3 + kind.once(width, n_features)) / FLOPS


def _told_apart(order: Array, y: Array, n: int) -> Array:
    """Return the order of rows, changed where the first n are of one class."""
    if (y[order[:n]] != y[order[0]]).any():
        return order
    first = np.sort(np.unique(y[order], return_index=True)[1])
    return np.concatenate((order[first], np.delete(order, first)))
