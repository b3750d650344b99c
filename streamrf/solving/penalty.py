"""Penalties and decoders chosen on rows held out of the sums."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from streamrf.errors import SolveError
from streamrf.jit.arrays import Floats
from streamrf.models import Model
from streamrf.preprocessing import as_columns
from streamrf.solving.held_out import Answers, HeldOut, weights_of
from streamrf.sources import as_labels, find_labels

GREATER = 1e4  # of the greatest penalty, how far a search may go on
SHALLOW = 1.5  # times the error of the best, up to which another valley may be the better one
FLAT = 1e-4  # of an error, by which trials may differ because of how they were solved
MAX_ANSWERS = 1 << 19  # bytes of the outputs of a trial that are kept
CLEARLY = 2.0  # standard errors, by which another decoder than the first must err less


@dataclass(frozen=True)
class Trial:
    """How a penalty did on rows held out.

    Parameters
    ----------
    model : of the rows not held out
    figure : share of wrong labels, or mean squared error, on the rows held out; several targets
        count alike, whatever their units: see `HeldOut.shares`
    mse : mean squared error of the outputs there
    squares : (n_held,) float64, the weighted share of each row in it
    losses : (n_held,) float64, the weighted share of each row in `figure`
    others : trials of the same outputs by other decoders, see `HeldOut`
    answers : the rows with the outputs; empty where these are many
    """

    model: Model
    figure: float
    mse: float
    squares: Floats = field(default_factory=lambda: np.empty(0))
    losses: Floats = field(default_factory=lambda: np.empty(0))
    others: tuple["Trial", ...] = ()
    answers: Answers = field(default_factory=list)


def _squares(outputs: Floats, truth: Floats) -> Floats:
    """Return the squared errors."""
    return np.square(outputs - truth)


def tried(
    models: Sequence[Model], held: HeldOut, measure: Callable[..., Floats] = _squares
) -> list[Trial]:
    """Try models of one encoder and one code on the rows held out, by each decoder.

    Another `measure` of outputs and truth, each (n, n_outputs), takes the place of the squared
    error.
    """
    if not models:
        return []
    readings = [held.readings(model) for model in models]
    shape = (1 + len(readings[0]), len(models))  # squares, and the losses of each reading
    parts: list[Floats] = [np.empty((*shape, 0))]
    answers: list[Answers] = [[] for _ in models]
    is_kept = held.n_all * models[0].coef[:, 0].nbytes <= MAX_ANSWERS
    total = 0.0
    for part, found in held.products(models[0].encoder, [model.coef for model in models]):
        weights = weights_of(part)
        total += weights.sum()
        rows = np.empty((*shape, len(weights)))
        for i, (model, outputs) in enumerate(zip(models, found, strict=True)):
            outputs += model.intercept
            if is_kept:
                answers[i].append((part, outputs.copy()))  # alone
            shares: Floats | float = 1.0
            if model.book is None:
                truth, shares = as_columns(part.y), held.shares
            else:
                index, unknown = find_labels(model.labels, as_labels(part.y))
                for k, one in enumerate(readings[i], 1):
                    assert one.book is not None
                    chosen = one.book.scores(outputs).argmax(axis=1)
                    rows[k, i] = weights * ((chosen != index) | unknown)
                truth = model.book.matrix[index]
            rows[0, i] = weights * (shares * measure(outputs, truth)).mean(axis=1)
            if model.book is None:
                rows[1, i] = rows[0, i]
        parts.append(rows)
    squares, *losses = np.concatenate(parts, axis=2) / (total or 1.0)
    trials = []
    for i, models_read in enumerate(readings):
        first, *others = (
            Trial(model, _sum(own[i]), _sum(squares[i]), squares[i], own[i], answers=answers[i])
            for model, own in zip(models_read, losses, strict=True)
        )
        trials.append(replace(first, others=tuple(others)))
    return trials


def _sum(shares: Floats) -> float:
    """Return the sum, infinite of infinite outputs."""
    found = float(shares.sum())
    return np.inf if np.isnan(found) else found


class _Tries:
    """Trials of penalties by their indices, each once.

    Parameters
    ----------
    solve : returns the models of some penalties, but for those that do not factor
    alphas : ascending, in one ratio; indices beyond go on up to `GREATER` times the last
    held : rows held out
    """

    def __init__(
        self,
        solve: Callable[[Sequence[float]], list[Model]],
        alphas: Sequence[float],
        held: HeldOut,
    ) -> None:
        last, ratio = alphas[-1], alphas[-1] / alphas[-2]
        n_more = int(np.log(GREATER) / np.log(ratio) + 0.5)
        self._alphas = [*alphas, *(last * ratio**k for k in range(1, n_more + 1))]
        self._solve, self._held = solve, held
        self._seen: set[int] = set()
        self.trials: list[Trial] = []

    @property
    def last(self) -> int:
        """Index of the greatest penalty that may be tried."""
        return len(self._alphas) - 1

    def add(self, indices: Iterable[int]) -> bool:
        """Try those that are new; return whether there were any."""
        within = [i for i in dict.fromkeys(indices) if i in range(len(self._alphas))]
        new = [i for i in within if i not in self._seen]
        self._seen.update(new)
        self.trials += tried(self._solve([self._alphas[i] for i in new]), self._held)
        return bool(new)

    def index(self, trial: Trial) -> int:
        """Return the index of the penalty of a trial."""
        return place(trial.model.alpha, self._alphas)

    def walk(self, stride: int, pick: Callable[[Sequence[Trial]], Trial]) -> None:
        """Try what lies at a stride from the trial picked, until that is known on both sides."""
        while self.trials:
            centre = self.index(pick(self.trials))
            if not self.add((centre - stride, centre + stride)):
                return

    def ascending(self) -> list[Trial]:
        """Return the trials by ascending penalty."""
        return sorted(self.trials, key=lambda trial: trial.model.alpha)


def searched(
    solve: Callable[[Sequence[float]], list[Model]],
    alphas: Sequence[float],
    held: HeldOut,
    stride: int = 2,
    finest: int = 1,
) -> list[Trial]:
    """Try every so many penalties, then those next to the best at half the stride, and so on.

    It ends where trying all would, unless the error has a valley narrower than that. Going downhill
    from the middle would try fewer, but rows of little signal have valleys at both ends: it was led
    to ever smaller penalties where 0.1 was best. Where the greatest is the best, it goes on: fewer
    noisy rows than features want a penalty of many times the mean square of a feature.

    Parameters
    ----------
    solve, alphas, held : see `_Tries`
    stride, finest : between the penalties tried first, and last; powers of 2

    Returns
    -------
    list of Trial, by ascending penalty; empty if nothing factors
    """
    tries = _Tries(solve, alphas, held)
    tries.add(range(stride // 2, len(alphas), stride))
    while stride > finest:
        tries.walk(stride, best)  # beyond the greatest, if that is the best
        stride //= 2
        index = tries.index(best(tries.trials)) if tries.trials else len(alphas)
        tries.add((index - stride, index + stride))
    return tries.ascending()


def place(alpha: float, alphas: Sequence[float]) -> int:
    """Return the index of a penalty among ascending ones in one ratio, also beyond their end."""
    return round(np.log(alpha / alphas[0]) / np.log(alphas[1] / alphas[0]))


def valleys(trials: Sequence[Trial]) -> list[Trial]:
    """Return trials of ascending penalties whose squared error is below both neighbours'.

    The least first; those above `SHALLOW` times it are left out. Of neighbours that err alike but
    for `FLAT`, the greatest penalty counts: below the least eigenvalue all penalties are one.
    """
    found: list[Trial] = []
    for one in trials:
        if found and abs(one.mse - found[-1].mse) <= FLAT * one.mse:
            found.pop()
        found.append(one)
    errors = np.array([np.inf, *(trial.mse for trial in found), np.inf])
    is_low = (errors[1:-1] <= errors[:-2]) & (errors[1:-1] <= errors[2:])
    low = sorted(
        (trial for trial, is_one in zip(found, is_low, strict=True) if is_one),
        key=lambda trial: trial.mse,
    )
    return [trial for trial in low if trial.mse <= SHALLOW * low[0].mse]


def downhill(
    solve: Callable[[Sequence[float]], list[Model]],
    alphas: Sequence[float],
    held: HeldOut,
    starts: Sequence[int],
) -> list[Trial]:
    """Try penalties around the best of some, until those next to it have been tried.

    And those next to the surest, which is the one that is taken. `solve`, `alphas` and `held` are
    those of `searched`; empty if no start factors.

    Parameters
    ----------
    starts : indices, of the greatest that may be tried where they are beyond it; the first is tried
        first, so that its factor may serve the others
    """
    tries = _Tries(solve, alphas, held)
    tries.add(min(start, tries.last) for start in starts)
    tries.walk(1, best)
    tries.walk(1, safest)
    return tries.ascending()


def n_tried(n_alphas: int, stride: int) -> int:
    """Return how many of the penalties `searched` tries, if none beyond is better."""
    return len(range(stride // 2, n_alphas, stride)) + 2 * (stride.bit_length() - 1)


def best(trials: Sequence[Trial]) -> Trial:
    """Return the trial of least error, and of these the one of least squared error."""
    return min(trials, key=lambda trial: (trial.figure, trial.mse, trial.model.alpha))


def is_above(differences: Floats, n_errors: float = 1.0) -> bool:
    """Return whether the mean of paired differences is above 0 by more than standard errors."""
    scaled = differences / (np.abs(differences).max() or 1.0)  # squares do not overflow or vanish
    return bool(scaled.sum() > n_errors * np.sqrt(len(scaled)) * scaled.std())


def alike(trials: Sequence[Trial], n_errors: float = 1.0) -> list[Trial]:
    """Return the trials that the rows held out cannot tell from the best.

    Those whose paired differences of errors from the best's are within so many standard errors.
    """
    leader = best(trials)
    is_values = leader.model.book is None
    if is_values and not np.isfinite(leader.figure):
        raise SolveError(
            "the squared errors on the rows held out overflow; scale the rows (normalize=) and the "
            "targets, or give alpha as a number"
        )

    def is_alike(trial: Trial) -> bool:
        apart = trial.squares - leader.squares if is_values else trial.losses - leader.losses
        return not is_above(apart, n_errors)

    return [trial for trial in trials if is_alike(trial)]


def safest(trials: Sequence[Trial]) -> Trial:
    """Return the surest of the trials that the rows held out cannot tell from the best.

    For values the one of the greatest penalty: where errors have heavy tails, small penalties gain
    nothing that can be measured on most rows, and miss others by far (california_housing, 512
    features: RMSE 73,900 by the least error held out, 56,000 so). For classes the one of the least
    squared error, which sees more than counts of few.
    """
    found = alike(trials)
    if found[0].model.book is None:
        return max(found, key=lambda trial: trial.model.alpha)
    return min(found, key=lambda trial: (trial.mse, trial.figure))


def read_best(
    leader: Trial, trials: Sequence[Trial], share: float = 1.0
) -> tuple[Trial, list[Trial]]:
    """Return the leader, or the surest trial by another decoder that clearly errs less.

    With at most a `share` of its errors; and all trials by that decoder. The largest output of
    least squares may never be that of a class which lies between others (Hastie, Tibshirani and
    Friedman, 2009, section 4.2); discriminants tell it, and where there is none they are as good as
    the largest output, or a little worse.
    """
    found = leader, list(trials)
    for others in zip(*(trial.others for trial in trials), strict=True):
        rival = safest(others)
        is_clear = is_above(found[0].losses - rival.losses, CLEARLY)
        if is_clear and rival.figure <= share * found[0].figure:
            found = rival, list(others)
    return found
