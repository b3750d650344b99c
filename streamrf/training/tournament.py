"""Which scaling, kernel, setting and width suit some rows: successive halving on rows held out.

It tries the library's own maps by the library's own sums, so what wins is what a pass would train.
Rounds are planned by `planned_seconds`, not by the clock, so the same rows and seed give the same
winner on every machine (design/0009-tournament.md).
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from streamrf.engine import fold
from streamrf.errors import SolveError
from streamrf.features import FeatureMap
from streamrf.jit.arrays import Array
from streamrf.preprocessing import CALIBRATION_ROWS, Encoder, Moments
from streamrf.solving import RELATIVE_ALPHAS, best, searched
from streamrf.sources import ArraySource, Rows
from streamrf.statistics import (
    ClassSums,
    ExactGram,
    Ledger,
    Statistics,
    Sums,
    TargetSums,
    ValueSums,
)
from streamrf.training.candidates import (
    EVERY,
    FIRST,
    SCALINGS,
    Candidate,
    ScaledRows,
    crossed,
    feature_map,
)
from streamrf.training.passes import Pass

HELD_SHARE = 0.25
SPLITS, RIVALS = 3, 4  # the best that noise may have put first are tried on other rows and draws
REGRESSION_NOISE = 0.02  # of a mean squared error
TIE = 0.005  # relative; errors no farther apart are alike, and the cheaper wins

WIDTHS = (512, 1024, 2048, 4096, 8192)  # to choose from
MIN_GAIN = 0.05  # relative; a width that gains less than this over the one before is not worth it
FADING = 0.8  # of the gain of one doubling of the width, that of the next
ROWS_A_FEATURE = 2  # that a chosen width wants at least
PASS_SECONDS = 60.0  # of the pass, on one core, that a chosen width may take

FLOPS = 1.0e11  # a second, of one core


@dataclass(frozen=True)
class Trial:
    """How a candidate did on the rows held out.

    Parameters
    ----------
    candidate, width, n_rows : what was tried, and the rows it was fitted on
    error, mse : share of wrong labels or mean squared error; mean squared error of the outputs
    alpha : the best penalty
    seconds : planned
    """

    candidate: Candidate
    width: int
    n_rows: int
    error: float
    mse: float
    alpha: float
    seconds: float


class Judge:
    """Rows to fit and rows held out, on which candidates are tried.

    Parameters
    ----------
    X, y, weights : rows (n, d), labels or values, and weights or None
    regression : whether y holds values
    seed : of the order of the rows, the pairs and the maps
    moments : of all rows, where columns are to be scaled by them
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
    ) -> None:
        order = np.random.default_rng(seed).permutation(len(X))
        self.y = np.asarray(y)[order]
        self.weights = None if weights is None else weights[order]
        self.n_fitted = len(X) - int(HELD_SHARE * len(X))
        self.scaled = ScaledRows(X[order], self.n_fitted, np.random.default_rng(seed), moments)
        self.regression = regression
        self.seed = seed
        self.trials: list[Trial] = []

    @property
    def n_held(self) -> int:
        """Rows held out."""
        return len(self.y) - self.n_fitted

    def feature_map(self, candidate: Candidate, width: int, seed: int) -> FeatureMap:
        """Return the unfitted map of a candidate, for rows of its scaling."""
        return feature_map(candidate, self.scaled, width, seed)

    def try_(
        self, candidate: Candidate, width: int, n_rows: int, n_held: int, split: int = 0
    ) -> Trial:
        """Fit some rows and measure on those held out, with the best penalty.

        Another `split` holds other rows out and draws another map.
        """
        n_rows, n_held = min(n_rows, self.n_fitted), min(n_held, self.n_held)
        X = self.scaled.rows(candidate.normalize)
        order = np.roll(np.arange(len(X)), split * self.n_held)
        fitted, held = order[:n_rows], order[self.n_fitted :][:n_held]
        weights = [None if self.weights is None else self.weights[i] for i in (fitted, held)]
        source = ArraySource(X[fitted], self.y[fitted], weights[0])
        map_ = self.feature_map(candidate, width, self.seed + split)
        seconds = planned_seconds(candidate, width, n_rows, self.scaled.n_features)
        trial = Trial(candidate, width, n_rows, np.inf, np.inf, np.nan, seconds)
        try:
            statistics = summed(source, map_, self.regression, self.seed)
            problem = statistics.problem(random_state=self.seed)
            alphas = (RELATIVE_ALPHAS * (problem.alpha_scale or 1.0)).tolist()
            rows = Rows(X[held], self.y[held], weights[1], held, held)
            found = searched(problem.models, alphas, [rows])
        except SolveError:
            found = []
        if found:
            leader = best(found)
            alpha = float(np.mean(leader.model.alpha))
            trial = replace(trial, error=leader.figure, mse=leader.mse, alpha=alpha)
        self.trials.append(trial)
        return trial


def summed(source: ArraySource, map_: FeatureMap, regression: bool, seed: int) -> Statistics:
    """Return the statistics of a few rows."""
    sample = source.sample(CALIBRATION_ROWS)
    encoder = Encoder.calibrate(map_, sample, regression=regression, random_state=seed)
    targets: TargetSums = ClassSums.zero(encoder.n_components)
    if regression:
        n_targets = len(encoder.calibration.target_shift)
        targets = ValueSums.zero(encoder.n_components, n_targets, encoder.calibration.exact)
    sums = Sums(ExactGram(encoder.n_components), targets)
    return fold(source, Pass(Statistics(encoder, sums, Ledger())), Pass.update).finished()


def order_of(trials: Iterable[Trial]) -> list[Trial]:
    """Return trials from the best on; of those alike the cheaper first, then the least squares."""
    left = sorted(trials, key=lambda trial: (trial.error, trial.mse))
    if not left:
        return []
    near = [trial for trial in left if trial.error <= left[0].error * (1 + TIE)]
    near.sort(key=lambda trial: (trial.candidate.cost, trial.mse))
    return near + left[len(near) :]


def planned_seconds(candidate: Candidate, width: int, n_rows: int, n_features: int) -> float:
    """Return about what a trial takes on two cores: features, Gram and six factors.

    The rates were measured on two cores of Zen 5 (pendigits and MNIST, 256 to 2,048 features).
    """
    if candidate.kernel == "linear":
        width = n_features + 1
    gram = n_rows * width**2 / 6e10
    maps = 8e-9 * candidate.cost * n_rows * (width + n_features)
    if candidate.kernel == "laplacian":  # a dense projection
        maps += n_rows * width * n_features / 2.5e10
    return 0.05 + gram + maps + 8 * width**3 / FLOPS


class Tournament:
    """Successive halving: narrow and short first, at the width of the pass last.

    Parameters
    ----------
    judge : rows
    budget : planned seconds
    scalings : to choose from
    fits : whether the memory of the pass has room for a width
    """

    def __init__(
        self,
        judge: Judge,
        budget: float = 20.0,
        scalings: tuple[str | None, ...] = SCALINGS,
        fits: Callable[[int], bool] = lambda width: True,
    ) -> None:
        self.judge = judge
        self.scalings = scalings
        self._fits = fits
        self._left = budget

    def winner(self, width: int | None = None, n_rows: int | None = None) -> tuple[Trial, int]:
        """Return the best trial, and the width that it is for.

        Parameters
        ----------
        width : of the features in the end; None means the least of `WIDTHS` that is worth it
        n_rows : rows of the pass, None where unknown
        """
        judge = self.judge
        ranked = self._round(crossed(FIRST, self.scalings), min(256, width or 256), 2000, 2000)
        ranked = self._round(_spread(ranked, 10), min(512, width or 512), 6000, judge.n_held, 2)
        n_total = n_rows or len(judge.y)
        chosen = width or self._width(ranked[0].candidate, n_total)
        tried_at = self._affordable(ranked[0].candidate, chosen)
        ranked = self._round(_spread(ranked, 5), tried_at, judge.n_fitted, judge.n_held, 1)
        return self._final(ranked), chosen

    def _round(
        self, field: list[Candidate], width: int, n_rows: int, n_held: int, n_tops: int = 0
    ) -> list[Trial]:
        """Return the trials of a field and of neighbours of the best `n_tops`, the best first."""
        tried: dict[Candidate, Trial] = {}
        queue = list(field)
        while queue:
            candidate = queue.pop(0)
            if candidate not in tried and self._spends(candidate, width, n_rows, not tried):
                tried[candidate] = self.judge.try_(candidate, width, n_rows, n_held)
            if not queue:
                tops = order_of(tried.values())[:n_tops]
                queue = [c for t in tops for c in t.candidate.neighbours() if c not in tried]
                queue = [c for c in queue if self._affords(c, width, n_rows)]
        return order_of(tried.values())

    def _planned(self, candidate: Candidate, width: int, n_rows: int) -> float:
        n_rows = min(n_rows, self.judge.n_fitted)
        return planned_seconds(candidate, width, n_rows, self.judge.scaled.n_features)

    def _affords(self, candidate: Candidate, width: int, n_rows: int) -> bool:
        return self._planned(candidate, width, n_rows) <= self._left

    def _spends(self, candidate: Candidate, width: int, n_rows: int, must: bool = False) -> bool:
        """Take a trial from the budget; return whether there was enough, or it `must` be had."""
        if not must and not self._affords(candidate, width, n_rows):
            return False
        self._left -= self._planned(candidate, width, n_rows)
        return True

    def _affordable(self, candidate: Candidate, width: int) -> int:
        """Return the width of the last round: that of the pass, or less where time is short."""
        while width > 512 and 4 * self._planned(candidate, width, self.judge.n_fitted) > self._left:
            width //= 2
        return width

    def _width(self, candidate: Candidate, n_rows: int) -> int:
        """Return the least width whose gain to the next, measured or foreseen, is too small."""
        judge, gain = self.judge, None
        before: Trial | None = None
        for width, wider in itertools.pairwise(WIDTHS):
            seconds = n_rows * wider**2 / FLOPS + wider**3 / FLOPS
            short = ROWS_A_FEATURE * wider > n_rows or seconds > PASS_SECONDS
            if short or not self._fits(wider):
                return width
            if wider <= WIDTHS[2] and self._spends(candidate, wider, judge.n_fitted):
                if before is None:
                    before = judge.try_(candidate, width, judge.n_fitted, judge.n_held)
                now = judge.try_(candidate, wider, judge.n_fitted, judge.n_held)
                measured = 1 - now.error / before.error if before.error > 0 else 0.0
                if not judge.regression:  # errors are counts of few; squares see more
                    measured = max(measured, 1 - now.mse / before.mse)
                gain, before = measured, now
            else:
                gain = (gain or 0.0) * FADING
            if gain < MIN_GAIN:
                return width
        return WIDTHS[-1]

    def _final(self, ranked: list[Trial]) -> Trial:
        """Return the best of those that the rows held out cannot tell apart, by other splits."""
        judge = self.judge
        error = ranked[0].error
        noise = REGRESSION_NOISE * error
        if not judge.regression:
            noise = np.sqrt(max(error, 1 / judge.n_held) * (1 - min(error, 1)) / judge.n_held)
        rivals = [trial for trial in ranked if trial.error <= error + noise][:RIVALS]
        for split in range(1, SPLITS if len(rivals) > 1 else 1):
            n_paid = sum(self._spends(t.candidate, t.width, t.n_rows) for t in rivals)
            if n_paid < len(rivals):
                break
            again = [
                judge.try_(t.candidate, t.width, t.n_rows, judge.n_held, split) for t in rivals
            ]
            rivals = [_mean(a, b, split) for a, b in zip(rivals, again, strict=True)]
        return order_of(rivals)[0]


def _mean(a: Trial, b: Trial, n: int) -> Trial:
    """Return `a`, a mean of n trials, with `b` joined to it."""
    error, mse = ((n * x + y) / (n + 1) for x, y in ((a.error, b.error), (a.mse, b.mse)))
    return replace(a, error=error, mse=mse)


def _spread(ranked: list[Trial], n_kept: int) -> list[Candidate]:
    """Return the best candidates, at most four of a kernel and two of a kernel and scaling."""
    kept: list[Candidate] = []
    for trial in ranked:
        mine = trial.candidate
        same = [candidate for candidate in kept if candidate.kernel == mine.kernel]
        alike = [candidate for candidate in same if candidate.normalize == mine.normalize]
        if len(kept) < n_kept and len(same) < 4 and len(alike) < 2:
            kept.append(mine)
    return kept


def grid(judge: Judge, width: int) -> Trial:
    """Return the best of everything at one width on all rows, for studies."""
    trials = [judge.try_(c, width, judge.n_fitted, judge.n_held) for c in crossed(EVERY)]
    return order_of(trials)[0]
