"""Which scaling, kernel, setting and width suit some rows: successive halving on rows held out.

It tries the library's own maps by the library's own sums, so what wins is what a pass would train.
Rounds are planned by `planned_seconds`, not by the clock, so the same rows and seed give the same
winner on every machine (design/0009-tournament.md).
"""

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import replace

import numpy as np

from streamrf.display import expect
from streamrf.preprocessing import COLUMNWISE, WARPS
from streamrf.training import warping
from streamrf.training.candidates import Candidate, crossed
from streamrf.training.foresight import CHOOSING
from streamrf.training.judging import FLOPS, HELD_SHARE, Judge, Trial
from streamrf.training.ranking import (
    USUAL_GAIN,
    beyond_noise,
    gain_of_doubling,
    is_better,
    is_rough,
    joined,
    of_columns,
    order_of,
    proven,
    spread,
    warps_of,
    wide_enough,
)
from streamrf.training.settings import BUDGET_SECONDS, WARP_ROUNDS

SPLITS, RIVALS = 3, 4  # the best that noise may have put first are tried on other rows and draws
ALL_SPLITS = int(1 / HELD_SHARE)  # in which every row is held out once
REGRESSION_NOISE = 0.02  # of a mean squared error
NEAR, MAX_FINALISTS = 1.1, 4  # times the least error, and kernels, for a second look

WIDTHS = (512, 1024, 2048, 4096, 8192)  # to choose from
ROWS_A_FEATURE = 1  # that a chosen width wants at least
PASS_SECONDS = 120.0  # of the pass, on one core, that a chosen width may take

FEW_WARPS = 2  # for which there must be time, if need be with fewer features: both kinds of one
WARP_SHARE = 0.3  # of the budget, for warps
WARP_HOPE = 1.5  # times the best error; no warp of a kernel that errs more is tried


class Tournament:
    """Successive halving: narrow and short first, at the width of the pass last, then warps.

    Parameters
    ----------
    judge : rows
    budget : planned seconds
    field : candidates of the first round, `crossed`; None means the default ones
    fits : whether the memory of the pass has room for a width
    warp : None; one of `WARPS`, which is taken; "auto": each tried, and taken where it helps
    warp_rounds : least rounds of learning a warp
    usual : of few rows, the candidate to take where another is not clearly better; "full" warps,
        which have as many numbers as such rows, are then left out of "auto"
    """

    def __init__(
        self,
        judge: Judge,
        budget: float = BUDGET_SECONDS,
        field: Sequence[Candidate] | None = None,
        fits: Callable[[int], bool] = lambda width: True,
        *,
        warp: str | None = None,
        warp_rounds: int = WARP_ROUNDS,
        usual: Candidate | None = None,
    ) -> None:
        self.judge = judge
        self._field = crossed() if field is None else list(field)
        self._fits = fits
        self._warp = warp
        self._warp_rounds = warp_rounds
        self._usual = usual
        self._kept = 0.0 if warp is None else WARP_SHARE * budget
        self._left = budget - self._kept
        self._budget = budget
        self.doubling = USUAL_GAIN  # of the width of a smooth kernel, as far as it was measured
        self._goal: tuple[int, int] | None = None  # width and rows of the pass, where known
        self._ahead: list[tuple[int, int, int]] = []  # about how many trials, their width and rows

    def winner(self, width: int | None = None, n_rows: int | None = None) -> tuple[Trial, int]:
        """Return the best trial, and the width that it is for.

        Parameters
        ----------
        width : of the features in the end; None means the least of `WIDTHS` that is wide enough
        n_rows : rows of the pass, None where unknown
        """
        judge = self.judge
        n_total = n_rows or len(judge.y)
        widths = possible_widths(n_total, self._fits) if width is None else [width]
        second, last = (16, min(512, width or 512), 6000), (12, width or WIDTHS[1], judge.n_fitted)
        self._ahead = [second, last]
        cut = of_columns if judge.scaled.has_units else list
        ranked = cut(self._round(self._field, min(256, width or 256), 2000, 2000))
        if judge.fault is not None and not np.isfinite(ranked[0].error):
            raise judge.fault
        self._ahead = [last]
        ranked = self._round(spread(ranked, 12), min(512, width or 512), 6000, judge.n_held, 2)
        ranked = cut(ranked)
        self._give_up_warps(ranked)
        leader = next((t for t in proven(ranked) if t.candidate.kind.leads), ranked[0]).candidate
        chosen = width or self._width(leader, widths)
        if n_rows is not None:  # narrower and shorter trials say too little of the pass
            self._goal = (chosen, n_rows)
            self._foresee([trial for trial in ranked if trial.candidate == leader])
        tried_at = self._affordable(leader, chosen)
        self._ahead = [(4, tried_at, judge.n_fitted)]  # on other splits
        ranked = self._round(spread(ranked, 5), tried_at, judge.n_fitted, judge.n_held, 1)
        ranked = proven(ranked, chosen, self.doubling)
        rivals = order_of(self._over_splits(self._rivals(ranked)))
        best = proven(rivals, chosen, self.doubling)[0]
        if width is None:
            if best.candidate != leader:
                chosen = self._wider(best.candidate, chosen, widths)
            chosen = min(chosen, best.candidate.kind.max_width)
        final = self._warped(ranked, best)
        if width is None and final.candidate != best.candidate:
            kept = self.judge.planned(final.candidate, WIDTHS[2], self.judge.n_fitted)
            self._left -= kept
            before, chosen = chosen, self._wider(final.candidate, chosen, widths)
            self._left += kept
            plain = self._overtaking(final) if self._warp == "auto" else None
            if plain is not None:
                return plain, self._wider(plain.candidate, before, widths)
        return self._surer(final), chosen

    def finalists(self, winner: Candidate) -> list[Candidate]:
        """Return the winner, the same without a warp, and the best of other smooth kernels near.

        With a warp where one was asked for.
        """
        must_warp, found = self._warp in WARPS, [winner]
        if winner.warp is not None and not must_warp:
            found.append(replace(winner, warp=None))
        tried = [trial for trial in self.judge.trials if trial.n_rows == self.judge.n_fitted]
        own = min((t.error for t in tried if t.candidate == winner), default=np.inf)
        for trial in order_of(t for t in tried if (t.candidate.warp is not None) == must_warp):
            is_new = trial.candidate.kernel not in {candidate.kernel for candidate in found}
            if is_new and trial.error <= NEAR * own and not is_rough(trial):
                found.append(trial.candidate)
        return found[:MAX_FINALISTS]

    def _give_up_warps(self, ranked: list[Trial]) -> None:
        """Leave their share to the rest if no kernel that a warp is learnt with comes near.

        Or not even with a warp: where many columns say nothing, it is far behind without.
        """
        if self._warp != "auto":
            return
        best, judge = ranked[0], self.judge
        for teacher in [trial for trial in ranked if trial.candidate.kind.teaches][:1]:
            warped = teacher.candidate.warped("diagonal", self._warp_rounds)
            planned = judge.planned(warped, best.width, best.n_rows)
            if _is_near(teacher, best):
                return
            if planned <= self._kept:
                self._kept -= planned
                if _is_near(judge.try_(warped, best.width, best.n_rows, judge.n_held), best):
                    return
        self._warp, self._left, self._kept = None, self._left + self._kept, 0.0

    def _warped(self, ranked: list[Trial], best: Trial) -> Trial:
        """Return the best of the last round, or what beats it with a warp by more than noise."""
        if self._warp is None:
            return best
        self._left, is_auto = self._left + self._kept, self._warp == "auto"
        field = warps_of(ranked, self._kinds(), self._warp_rounds, any_kernel=not is_auto)
        if is_auto:
            field += self._more_warps(ranked, field)
        width, n_rows, plain = best.width, best.n_rows, None
        pair = [best.candidate, *field[:1]]  # always compared on another split, too
        while is_auto and width > WIDTHS[0] and self._of_warps(field, width, best) > self._left:
            width //= 2
        if width == best.width:
            plain = next(trial for trial in ranked if trial.candidate == best.candidate)
        elif field and self._spends(best.candidate, width, n_rows):
            plain = self.judge.try_(best.candidate, width, n_rows, self.judge.n_held)
        if plain is None:
            return best
        kept = sum(self.judge.planned(candidate, width, n_rows, 1) for candidate in pair)
        self._left -= kept
        rivals = [plain] if is_auto else []
        warped = self._round(field, width, n_rows, self.judge.n_held, 1, not is_auto, rivals)
        self._left += kept
        if not warped:
            return best
        plain, leader = self._over_splits([plain, beyond_noise(warped)[0]])
        return leader if not is_auto or is_better(leader, plain) else best

    def _of_warps(self, field: list[Candidate], width: int, best: Trial) -> float:
        """Return the planned seconds of a few warps, and of a comparison with the best without."""
        planned, n_rows = self.judge.planned, best.n_rows
        plain = planned(best.candidate, width, n_rows) if width < best.width else 0.0
        on_other = sum(planned(c, width, n_rows, 1) for c in (best.candidate, *field[:1]))
        return plain + on_other + sum(planned(c, width, n_rows) for c in field[:FEW_WARPS])

    def _more_warps(self, ranked: list[Trial], field: list[Candidate]) -> list[Candidate]:
        """Return warps of a Gaussian that sees columns alike, and diagonal ones by another start.

        Before any warp the kernels that err least may be those that see least: nearly linear ones,
        which teach nothing of what is not linear.
        """
        known = [c for c in self._field if c.kernel == "gaussian" and c.normalize in COLUMNWISE]
        order = [trial.candidate.normalize for trial in ranked]
        known.sort(key=lambda c: order.index(c.normalize) if c.normalize in order else len(order))
        usual = [replace(c, setting=1.0) for c in known[:1]]
        more = [c.warped(kind, self._warp_rounds) for c in usual for kind in self._kinds()]
        if self.judge.has_effects:
            more += [
                replace(c, warp=replace(c.warp, from_effects=True))
                for c in (*more, *field)
                if c.warp is not None and c.warp.kind == "diagonal"
            ]
        return [candidate for candidate in more if candidate not in field]

    def _surer(self, final: Trial) -> Trial:
        """Return the usual candidate's trial, where there is one, unless another is better."""
        if self._usual is None or final.candidate == self._usual:
            return final
        judge, pair = self.judge, []
        for candidate in (self._usual, final.candidate):
            size = candidate, final.width, judge.n_fitted, judge.n_held
            pair.append(judge.try_(*size))
            for split in range(1, ALL_SPLITS):
                pair[-1] = joined(pair[-1], judge.try_(*size, split), split)
        usual, other = pair
        return final if is_better(other, usual) else usual

    def _overtaking(self, warped: Trial) -> Trial | None:
        """Return a trial without the warp that errs less where the warp was tried with more width.

        Few features gain most by a warp, and many may lose.
        """
        own = [trial for trial in self.judge.trials if trial.candidate == warped.candidate]
        widest = max(own, key=lambda trial: trial.width)
        assert widest.candidate.warp is not None
        plain = replace(widest.candidate, setting=widest.candidate.warp.setting, warp=None)
        size = widest.width, widest.n_rows
        if widest.width <= warped.width or not self._spends(plain, *size):
            return None
        trial = self.judge.try_(plain, *size, self.judge.n_held)
        return trial if trial.error < widest.error else None

    def _kinds(self) -> tuple[str, ...]:
        """Return the kinds of warps to try."""
        if self._warp != "auto":
            return (str(self._warp),)
        if self._usual is not None:
            return WARPS[:1]
        return WARPS if self.judge.scaled.n_features <= warping.MAX_FULL else WARPS[:1]

    def _round(
        self,
        field: list[Candidate],
        width: int,
        n_rows: int,
        n_held: int,
        n_tops: int = 0,
        must: bool = True,
        rivals: Sequence[Trial] = (),
    ) -> list[Trial]:
        """Return the trials of a field and of neighbours of the best `n_tops`, the best first.

        One of the field at least where it `must` be. `rivals` have been tried at this width, and
        may win after all.
        """
        tried: dict[Candidate, Trial] = {}
        queue = list(field)
        self._tell(queue, width, n_rows)
        while queue:
            candidate = queue.pop(0)
            if candidate not in tried and self._spends(
                candidate, width, n_rows, must and not tried
            ):
                tried[candidate] = self.judge.try_(candidate, width, n_rows, n_held)
                self._foresee([*rivals, *tried.values()])
            if not queue:
                tops = order_of(tried.values())[:n_tops]
                queue = [c for t in tops for c in t.candidate.neighbours() if c not in tried]
                queue = [c for c in queue if self._affords(c, width, n_rows)]
        return order_of(tried.values())

    def _foresee(self, trials: Sequence[Trial]) -> None:
        """Tell the run around what the pass will take with the best so far, where it is known."""
        if self._goal is not None:
            self.judge.foresee(order_of(trials)[0], *self._goal)

    def _tell(self, field: list[Candidate], width: int, n_rows: int) -> None:
        """Tell the run around how much is to be tried, about."""
        judge = self.judge
        planned = sum(judge.planned(candidate, width, n_rows) for candidate in field)
        for n, *size in self._ahead:
            planned += n * max((judge.planned(candidate, *size) for candidate in field), default=0)
        expect(min(self._budget, judge.spent + planned), CHOOSING)

    def _affords(self, candidate: Candidate, width: int, n_rows: int) -> bool:
        return self.judge.planned(candidate, width, n_rows) <= self._left

    def _spends(self, candidate: Candidate, width: int, n_rows: int, must: bool = False) -> bool:
        """Take a trial from the budget; return whether there was enough, or it `must` be had."""
        if not must and not self._affords(candidate, width, n_rows):
            return False
        self._left -= self.judge.planned(candidate, width, n_rows)
        return True

    def _affordable(self, candidate: Candidate, width: int) -> int:
        """Return the width of the last round: that of the pass, or less where time is short."""
        while (
            width > 512
            and 4 * self.judge.planned(candidate, width, self.judge.n_fitted) > self._left
        ):
            width //= 2
        return width

    def _width(self, candidate: Candidate, widths: list[int]) -> int:
        """Return the least of widths that is wide enough, see `wide_enough`."""
        judge = self.judge
        trials: list[Trial] = []
        for width in widths:
            if width > WIDTHS[2] or not self._spends(candidate, width, judge.n_fitted):
                break
            trials.append(judge.try_(candidate, width, judge.n_fitted, judge.n_held))
        if len(trials) > 1 and not is_rough(trials[0]):
            self.doubling = max(0.0, gain_of_doubling(trials, judge.regression))
        return wide_enough(trials, widths, judge.regression)

    def _wider(self, candidate: Candidate, width: int, widths: list[int]) -> int:
        """Return a width or a wider one, sought again with another candidate where time allows."""
        left = [wider for wider in widths if wider >= width]
        is_measured = left[1:] and left[1] <= WIDTHS[2]
        if is_measured and self._affords(candidate, left[1], self.judge.n_fitted):
            return self._width(candidate, left)
        return width

    def _rivals(self, ranked: list[Trial]) -> list[Trial]:
        """Return the best and those that the rows held out cannot tell from it."""
        judge, error = self.judge, ranked[0].error
        noise = REGRESSION_NOISE * error
        if not judge.regression:
            noise = np.sqrt(max(error, 1 / judge.n_held) * (1 - min(error, 1)) / judge.n_held)
        return [trial for trial in ranked if trial.error <= error + noise][:RIVALS]

    def _over_splits(self, rivals: list[Trial]) -> list[Trial]:
        """Return the means of trials over all splits, where there are several to compare."""
        judge, means = self.judge, rivals
        for split in range(1, SPLITS if len(rivals) > 1 else 1):
            planned = [judge.planned(t.candidate, t.width, t.n_rows, split) for t in rivals]
            if sum(planned) > self._left:
                break
            self._left -= sum(planned)
            again = [
                judge.try_(t.candidate, t.width, t.n_rows, judge.n_held, split) for t in rivals
            ]
            means = [joined(a, b, split) for a, b in zip(means, again, strict=True)]
        return means


def possible_widths(n_rows: int, fits: Callable[[int], bool]) -> list[int]:
    """Return the widths that the rows, a pass of `PASS_SECONDS` and the memory allow."""
    possible = list(WIDTHS[:1])
    for width in WIDTHS[1:]:
        seconds = n_rows * width**2 / FLOPS + width**3 / FLOPS
        if ROWS_A_FEATURE * width > n_rows or seconds > PASS_SECONDS or not fits(width):
            break
        possible.append(width)
    return possible


def _is_near(trial: Trial, best: Trial) -> bool:
    return trial.error <= WARP_HOPE * best.error


def grid(judge: Judge, width: int, kept: MutableMapping[str, Trial] | None = None) -> Trial:
    """Return the best of everything at one width on all rows, for studies.

    Parameters
    ----------
    kept : trials known already, by the texts of candidates; those made here are added
    """
    kept = {} if kept is None else kept
    field = crossed(every=True, by_ranks=judge.scaled.asks_for_ranks)
    for candidate in field:
        if str(candidate) not in kept:
            trial = judge.try_(candidate, width, judge.n_fitted, judge.n_held)
            kept[str(candidate)] = trial
    return order_of([kept[str(candidate)] for candidate in field])[0]
