"""Scaling, kernel, setting and width of the features, chosen from a peek at the rows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamrf.display import Card, begin
from streamrf.errors import DataError, ParameterError, warn
from streamrf.features import FeatureMap, FourierMap, StructuredFourier
from streamrf.kernels import Gaussian
from streamrf.preprocessing import WARPS, Moments, Warp
from streamrf.sources import Block, SparseRows
from streamrf.training.candidates import Candidate, Recipe, asks_for_ranks, crossed
from streamrf.training.decoding import takes_discriminants
from streamrf.training.foresight import CHOOSING
from streamrf.training.images import image_shape
from streamrf.training.judging import Judge, Trial
from streamrf.training.kernel_names import OF_IMAGES, for_rows, names_of
from streamrf.training.kind import Shape
from streamrf.training.kinds import TEACHERS
from streamrf.training.peeking import MIN_PEEK_ROWS, weighing, weighs
from streamrf.training.second_look import looked_again
from streamrf.training.settings import AUTO, BUDGET_SECONDS, WARP_ROUNDS, Settings
from streamrf.training.tournament import WIDTHS, Tournament, possible_widths
from streamrf.training.warping import MAX_FULL

FEW_ROWS = 500  # fewer must speak clearly against it


@dataclass(frozen=True, repr=False)
class Selection(Card):
    """What was chosen, and what was tried on the way.

    Parameters
    ----------
    features : the feature map, unfitted
    normalize : scaling of rows before it
    warp : of the scaled rows, or None
    trials : all that were tried, in order; empty where rows were too few
    winner : the best trial, or None
    n_held : rows held out that errors were measured on
    n_components : width of the features
    n_targets : values of a row, whose errors are mean squares; None of classes, whose errors are
        shares of wrong labels
    why : reason that nothing was tried, else empty
    by_discriminants : whether errors count classes by discriminants, as the largest output hides
        some, see `OneVsRest`
    """

    features: FeatureMap
    normalize: str | None
    warp: Warp | None = None
    trials: tuple[Trial, ...] = ()
    winner: Trial | None = None
    n_held: int = 0
    n_components: int = 0
    n_targets: int | None = None
    why: str = ""
    by_discriminants: bool = False

    @property
    def regression(self) -> bool:
        """Whether values are predicted."""
        return self.n_targets is not None

    @property
    def decode(self) -> str | None:
        """How outputs name the classes that errors count; None of values."""
        if self.regression:
            return None
        return "discriminant" if self.by_discriminants else "euclidean"

    def card(self) -> dict[str, str]:
        """Return what a prompt shows: the choice, its error, and the best of those beaten."""
        chosen = {
            "features": " ".join(repr(self.features).split()),
            "normalize": str(self.normalize),
        }
        if self.warp is not None:
            chosen["warp"] = self.warp.kind
        if self.decode == "discriminant":
            chosen["decode"] = self.decode
        table = self.table()
        tried = zip(table["candidate"], table["error"], strict=True)
        lines = [f"{name} {error:.4g}" for name, error in tried]
        if lines:
            chosen |= {"error": lines[0], "tried": f"{len(lines):,}"}
        if lines[1:]:
            chosen["runners-up"] = ", ".join(lines[1:4])
        return chosen

    def table(self) -> dict[str, list]:
        """Return a row for each candidate with the most rows it was tried, the winner first.

        Columns by name: "candidate", "n_components", "n_rows" and "error".
        """
        last: dict[Candidate, Trial] = {}
        for trial in self.trials:
            known = last.get(trial.candidate)
            if known is None or (trial.n_rows, trial.width) >= (known.n_rows, known.width):
                last[trial.candidate] = trial
        if self.winner is not None:
            last[self.winner.candidate] = self.winner
        ranked = [trial for trial in last.values() if np.isfinite(trial.error)]
        ranked.sort(key=lambda t: (t is not self.winner, -t.n_rows, -t.width, t.error))
        return {
            "candidate": [str(trial.candidate) for trial in ranked],
            "n_components": [trial.width for trial in ranked],
            "n_rows": [trial.n_rows for trial in ranked],
            "error": [float(trial.error) for trial in ranked],
        }


def choose(
    sample: Block,
    n_rows: int | None,
    settings: Settings,
    *,
    more: Callable[[Block], Block | None] = lambda peek: None,
    fits: Callable[[int], bool] = lambda width: True,
    moments: Moments | None = None,
    row_shape: tuple[int, ...] = (),
) -> Selection:
    """Return the selection of a sample of rows, for a pass of features="auto".

    `n_rows` are those of the pass, None where unknown. `fits` says whether memory has room for a
    width; `moments` are of all rows, where columns are to be scaled by them. Rows of weight 0 do
    not count. Where rows are too few to choose by, it is a Gaussian of the median distance, or the
    first kernel that is named; where they are few, unless others do clearly better on rows held
    out. `row_shape` is that of a row as it is stored, see `Source`.
    """
    n_components, normalize, kernels = settings.n_components, settings.normalize, settings.kernels
    warp, warp_rounds, regression = settings.warping, settings.warp_rounds, settings.regression
    assert not isinstance(warp, Warp)  # which settings refuse without a map
    seed = int(np.random.default_rng(_seed(settings.random_state)).integers(2**31))
    sample = weighing(sample)
    if isinstance(sample.X, SparseRows):
        sample = replace(sample, X=sample.X.dense())
    if len(sample.X) == 1:
        few = "one sample row is too few to choose features by"
        raise DataError(f"{sample.where}: {few}; give more, or name a map: features= (--map)")
    if (sample.X[:1] == sample.X).all():
        raise DataError(
            f"{sample.where}: the {len(sample.X):,} sample rows are all equal, so no features can "
            "be chosen by them; check the columns, or name a map: features= (--map)"
        )
    y = np.asarray(sample.y)
    n_targets = math.prod(y.shape[1:]) if regression else None
    is_learnable = weighs(sample) and (regression or len(np.unique(y)) > 1)
    why = _why_not(sample, y, is_learnable)
    if why and kernels is None:
        scaling = "standard" if normalize == AUTO else normalize
        width = n_components or WIDTHS[0]
        gaussian = StructuredFourier(Gaussian(gamma="median"), width)
        kind = None if warp == AUTO else warp
        warped = learnt(gaussian, sample, scaling, kind, warp_rounds, regression, seed, moments)
        return Selection(
            gaussian, scaling, warped, n_components=width, n_targets=n_targets, why=why
        )
    _check_warp(warp, sample.X.shape[1])
    shape = image_shape(sample.X, row_shape, must=OF_IMAGES in names_of(kernels))
    field = _field(kernels, normalize, sample, shape)
    if kernels is None:
        field = [c for c in field if _has_room(c, sample.X.shape[1], n_components, fits)]
    budget = settings.budget
    if budget is None:
        width = n_components or WIDTHS[2]
        budget = max(BUDGET_SECONDS, (n_rows or len(y)) * width**2 / 1e11 / 4)

    def judge_of(rows: Block) -> Judge:
        return Judge(
            rows.X,
            np.asarray(rows.y),
            rows.weights,
            regression=regression,
            seed=seed,
            moments=moments,
            shape=shape,
        )

    judge = judge_of(sample)
    trials = judge.trials
    winner, width, best = None, n_components or WIDTHS[0], _middle(field)
    by_discriminants = False
    if not why:
        usual = None
        if len(y) < FEW_ROWS:
            usual = _with_warp(_usual(field, kernels, normalize), warp, warp_rounds)

        def hold_tournament() -> tuple[Tournament, Trial, int]:
            begin(CHOOSING, "", budget)
            tournament = Tournament(
                judge, budget, field, fits, warp=warp, warp_rounds=warp_rounds, usual=usual
            )
            return tournament, *tournament.winner(n_components, n_rows)

        tournament, winner, width = hold_tournament()
        if winner.hides and takes_discriminants(settings.codes):  # at its full width too
            judge.judge_by_discriminants()
            tournament, winner, width = hold_tournament()
            by_discriminants = winner.hides

        def judge_again() -> Judge | None:
            rows = more(sample)
            if rows is None:
                return None
            second = judge_of(weighing(rows))
            if by_discriminants:
                second.judge_by_discriminants()
            return second

        if n_rows is not None:
            widths = possible_widths(n_rows, fits) if n_components is None else [n_components]
            again = looked_again(tournament, winner, judge_again, n_rows, widths, settings.budget)
            if again is not None:
                judge, winner, width = again
                trials = [*trials, *judge.trials]
                by_discriminants = by_discriminants and winner.hides
        best = winner.candidate
    elif is_learnable:
        best = _with_warp(best, warp, warp_rounds)
    features = judge.feature_map(best, width, seed)
    return Selection(
        features,
        best.normalize,
        judge.warp(best.normalize, best.warp),
        tuple(trials),
        winner,
        judge.n_held if winner is not None else 0,
        features.width_for(sample.X.shape[1]) or width,
        n_targets,
        why,
        by_discriminants,
    )


def _why_not(sample: Block, y: np.ndarray, is_learnable: bool) -> str:
    """Return why rows are none to choose by, empty if they are; warn if others may be."""
    if len(y) < MIN_PEEK_ROWS:
        return "too few rows to choose by"
    if is_learnable:
        return ""
    why = f"rows of one class, {y.tolist()[0]!r}" if weighs(sample) else "rows of no weight"
    warn(
        f"{sample.where}: the {len(y):,} rows looked at before the pass are {why}, so no "
        "features can be compared on them, and those of no choice are taken; shuffle the rows"
    )
    return why


def _field(
    kernels: str | Sequence[str] | None,
    normalize: str | None,
    sample: Block,
    shape: Shape | None,
) -> list[Candidate]:
    """Return the candidates of the first round; raise ParameterError if rows are none for them."""
    names = for_rows(kernels, sample.X, shape, sample.where)
    field = crossed(names, normalize, by_ranks=asks_for_ranks(sample.X), shape=shape)
    if not field:
        raise ParameterError(
            f"kernels (--kernels): {', '.join(names)} cannot be tried with normalize={normalize!r}"
        )
    return field


def _has_room(
    candidate: Candidate, n_features: int, n_components: int | None, fits: Callable[[int], bool]
) -> bool:
    """Return whether the width that follows from the columns, if any, is within what is allowed."""
    width = candidate.kind.width_of(1, n_features)
    return width == 1 or (fits(width) and (n_components is None or width <= n_components))


def _with_warp(candidate: Candidate, warp: str | None, n_rounds: int) -> Candidate:
    """Return a candidate with the kind of warp that is asked for, if one is."""
    if warp not in WARPS:
        return candidate
    return candidate.warped(str(warp), n_rounds)


def _usual(
    field: list[Candidate], kernels: str | Sequence[str] | None, normalize: str | None
) -> Candidate:
    """Return what is taken unless rows speak clearly against it: a Gaussian, if none is named."""
    if kernels is not None:
        return _middle(field)
    return Candidate("standard" if normalize == AUTO else normalize, "gaussian", 1.0)


def _middle(field: list[Candidate]) -> Candidate:
    """Return the first kernel of a field under its first scaling, the middle of its settings."""
    first = field[0]
    same = [c for c in field if (c.kernel, c.normalize) == (first.kernel, first.normalize)]
    return same[len(same) // 2]


def learnt(
    features: FeatureMap,
    sample: Block,
    normalize: str | None,
    kind: str | None,
    n_rounds: int = WARP_ROUNDS,
    regression: bool = False,
    random_state: Any = None,
    moments: Moments | None = None,
) -> Warp | None:
    """Return a warp for a map, learnt from a sample of rows; None where they teach nothing.

    The ridge is one of the map's kernel if it is a Gaussian or Laplacian, else one of a Gaussian of
    the median distance.
    """
    sample = weighing(sample)
    if kind is None or (not regression and len(np.unique(np.asarray(sample.y))) < 2):
        return None
    if not weighs(sample):
        warn(f"{sample.where}: no row looked at before the pass weighs, so no warp can be learnt")
        return None
    _check_warp(kind, sample.X.shape[1])
    begin("learning the warp")
    seed = int(np.random.default_rng(_seed(random_state)).integers(2**31))
    judge = Judge(
        sample.X, sample.y, sample.weights, regression=regression, seed=seed, moments=moments
    )
    recipe = Recipe(kind, n_rounds=n_rounds)
    kernel = getattr(features, "kernel", None)
    if kernel is None and isinstance(features, FourierMap):
        kernel = Gaussian()
    for name, known in TEACHERS.items():
        if isinstance(kernel, known):
            gamma = kernel.learn(judge.scaled.rows(normalize)).checked_gamma
            setting = gamma / judge.scaled.unit(normalize, name)
            recipe = Recipe(kind, name, setting, n_rounds)
    return judge.warp(normalize, recipe)


def _check_warp(kind: str | None, n_features: int) -> None:
    """Raise ParameterError for a matrix of too many columns."""
    if kind == "full" and n_features > MAX_FULL:
        raise ParameterError(
            f"warp='full' is for at most {MAX_FULL:,} columns, and the rows have {n_features:,}; "
            "use warp='diagonal'"
        )


def _seed(random_state: Any) -> Any:
    """Return what seeds a generator: an integer drawn from a RandomState, which goes on."""
    if isinstance(random_state, np.random.RandomState):
        return random_state.randint(2**31)
    return random_state
