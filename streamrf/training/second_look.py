"""A second look, at more rows than a tournament had, for a pass of many more still.

Few rows teach narrow and smooth features as well as wide and rough ones, many do not: so errors are
measured after a quarter and after all of the rows of this look, and foreseen for the rows of the
pass, by as much as they still fall (design/0037-second-look.md).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from streamrf.display import begin
from streamrf.sources import Block, Source, check_rows
from streamrf.training.candidates import Candidate
from streamrf.training.foresight import CHOOSING
from streamrf.training.judging import Judge, Trial
from streamrf.training.memory import look_rows
from streamrf.training.ranking import TIE, order_of, proven, wide_enough
from streamrf.training.tournament import Tournament

MAX_ROWS = 160_000
MAX_BYTES = 64 << 20  # of the rows, as eight bytes a number
ROW_SHARE = 0.2  # of the rows of the pass, that it may have
MIN_MORE, MIN_FOUND = 2.0, 1.5  # times the rows of the peek, to be read and to be good
TIME_SHARE = 0.25  # of the seconds of the widest pass that is possible
MIN_GAIN = 0.01  # relative; the rows are worth the time of a pass of any width that is possible
NARROW = 1024  # features, that finalists of other kinds are compared with
RIVAL_SHARE = 0.25  # of the time left, that another kernel may take
FIRST_PART = 4  # one row in so many is fitted first


def more_rows(
    source: Source, n_rows: int | None, on_bad_rows: str, memory_limit: int | str | None = None
) -> Callable[[Block], Block | None]:
    """Return what reads the rows of a second look, next to a peek of good rows that weigh.

    It returns None where the source cannot seek, or the pass is of too few rows, `n_rows`, or too
    few of those read are good and weigh, or memory has no room for enough of them.
    """

    def read(peek: Block) -> Block | None:
        n_peeked, n_targets = len(peek.X), math.prod(np.shape(peek.y)[1:])
        n_wanted = min(
            MAX_ROWS,
            MAX_BYTES // (8 * (source.n_features + n_targets - 1)),
            int(ROW_SHARE * (n_rows or 0)),
            look_rows(n_peeked, source.n_features, n_targets, memory_limit),
        )
        if not source.seekable or n_wanted < MIN_MORE * n_peeked:
            return None
        rows = check_rows(source.sample(n_wanted), on_bad_rows)[0]
        n_found = len(rows.X) if rows.weights is None else np.count_nonzero(rows.weights)
        return rows if n_found >= MIN_FOUND * n_peeked else None

    return read


def looked_again(
    tournament: Tournament,
    winner: Trial,
    judge_again: Callable[[], Judge | None],
    n_rows: int,
    widths: Sequence[int],
    budget: float | None,
) -> tuple[Judge, Trial, int] | None:
    """Return the judge of more rows, who is best by these, and its width; None without a look.

    Parameters
    ----------
    tournament, winner : of fewer rows
    judge_again : reads more rows, or returns None
    n_rows : of the pass
    widths : to choose from, in order
    budget : planned seconds of the tournament and this look, None for a share of the pass
    """
    left = TIME_SHARE * tournament.judge.row_seconds(winner.candidate, widths[-1], n_rows)
    if budget is not None:
        left = min(left, budget - tournament.judge.spent)
    judge = judge_again() if left > 0 else None
    if judge is None:
        return None
    begin(CHOOSING, "", left)
    look = SecondLook(judge, n_rows, widths, left, tournament.doubling)
    found = look.winner(tournament.finalists(winner.candidate))
    if found is None:
        return None
    judge.foresee(*found, n_rows)
    return judge, *found


class SecondLook:
    """The choice among finalists, of their width and of their setting, for a pass of many rows.

    Parameters
    ----------
    judge : more rows than those of the tournament
    n_rows : of the pass
    widths : to choose from, in order
    budget : planned seconds
    doubling : by what share an error of a smooth kernel fell with a doubling of the width
    """

    def __init__(
        self, judge: Judge, n_rows: int, widths: Sequence[int], budget: float, doubling: float
    ) -> None:
        self._judge = judge
        self._n_rows = n_rows
        self._widths = list(widths)
        self._left = budget
        self._doubling = doubling
        self._known: dict[tuple[Candidate, int], Trial] = {}

    def winner(self, finalists: Sequence[Candidate]) -> tuple[Trial, int] | None:
        """Return the best of finalists, as it was measured, and the width that it is for.

        None where not even the first can be tried for what the budget is, or none can be computed.
        """
        narrow = min(NARROW, self._widths[-1])
        first = self._look(finalists[0], narrow)
        if first is None:
            return None
        others = [c for c in finalists[1:] if self._planned(c, narrow) <= RIVAL_SHARE * self._left]
        looks = order_of([first, *self._looks(others, narrow)])
        if not np.isfinite(looks[0].error):
            return None
        leader = proven(looks, self._widths[-1], self._doubling)[0].candidate
        width = self._width(leader, self._widths)
        best = self._climbed(leader, self._affordable(leader, width))
        if best != leader:
            width = self._width(best, [w for w in self._widths if w >= width])
        tried = [trial for trial in self._judge.trials if trial.candidate == best]
        tried = [trial for trial in tried if np.isfinite(trial.error)]
        return max(tried, key=lambda t: (t.width <= width, t.width, t.n_rows)), width

    def _width(self, candidate: Candidate, widths: list[int]) -> int:
        """Return the least of widths that is wide enough for the pass."""
        widths = [w for w in widths if w <= candidate.kind.max_width] or widths[:1]
        looks: list[Trial] = []
        for width in widths:
            look = self._look(candidate, width)
            if look is None or not np.isfinite(look.error):
                break
            looks.append(look)
        return wide_enough(looks, widths, self._judge.regression, MIN_GAIN)

    def _climbed(self, candidate: Candidate, width: int) -> Candidate:
        """Return the candidate, or one with another setting, as long as neighbours err less."""
        best = self._look(candidate, width)
        while best is not None:
            rivals = self._looks(best.candidate.neighbours(), width)
            if not rivals or rivals[0].error >= (1 - TIE) * best.error:  # 0 and 0 are no gain
                return best.candidate
            best = rivals[0]
        return candidate

    def _affordable(self, candidate: Candidate, width: int) -> int:
        """Return a width at which there is time for the neighbours of a candidate."""
        while width > self._widths[0] and 2 * self._planned(candidate, width) > self._left:
            width //= 2
        return width

    def _looks(self, candidates: Iterable[Candidate], width: int) -> list[Trial]:
        """Return what is foreseen of those that there is time for, the best first."""
        looks = [self._look(candidate, width) for candidate in candidates]
        return order_of([look for look in looks if look is not None])

    def _look(self, candidate: Candidate, width: int) -> Trial | None:
        """Return a trial with the errors foreseen for the pass; None where there is no time."""
        judge, planned = self._judge, self._planned(candidate, width)
        if planned > self._left:
            return None
        if (candidate, width) not in self._known:
            self._left -= planned
            few, many = (
                judge.try_(candidate, width, n, judge.n_held)
                for n in (judge.n_fitted // FIRST_PART, judge.n_fitted)
            )
            self._known[candidate, width] = foreseen(few, many, self._n_rows)
        return self._known[candidate, width]

    def _planned(self, candidate: Candidate, width: int) -> float:
        """Return about the seconds of a look, 0 where it has been taken."""
        if (candidate, width) in self._known:
            return 0.0
        judge, plain = self._judge, replace(candidate, warp=None)
        few = judge.planned(plain, width, judge.n_fitted // FIRST_PART)
        return few + judge.planned(candidate, width, judge.n_fitted)


def foreseen(few: Trial, many: Trial, n_rows: int) -> Trial:
    """Return the trial with more rows as it would be with `n_rows`, by what fewer rows had.

    What rows still take off an error falls as one over their root. Nothing is foreseen where more
    rows erred more.
    """
    if n_rows <= many.n_rows or not np.isfinite([few.error, many.error]).all():
        return many
    to_come = many.n_rows**-0.5 - n_rows**-0.5
    share = to_come / (few.n_rows**-0.5 - many.n_rows**-0.5)
    error, mse = (
        max(0.0, b - share * max(0.0, a - b))
        for a, b in ((few.error, many.error), (few.mse, many.mse))
    )
    losses = many.losses - share * (few.losses - many.losses)
    return replace(many, error=error, mse=mse, losses=losses)
