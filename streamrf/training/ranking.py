"""Which of some trials is best, and which go on."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from streamrf.solving import is_above
from streamrf.training.candidates import Candidate
from streamrf.training.judging import Trial

TIE = 0.005  # relative; errors no farther apart are alike, and the cheaper wins
FADING = 0.8  # of the gain of one doubling of the width, that of the next
USUAL_GAIN = 0.2  # of the first doubling of the width, where there is no time to measure it
MIN_GAIN = 0.05  # relative; a width that the widest beats by less than this is wide enough
WARPED = 2  # candidates that warps are tried for
FAR_LESS = 0.5  # times the error of others
CLEAR = 5.0  # standard errors by which errors alone tell
NOISE = (0.0, 1.0)  # standard errors that a gain must exceed, in errors and in squares


def order_of(trials: Iterable[Trial]) -> list[Trial]:
    """Return trials from the best on; of those alike the cheaper first, then the least squares."""
    left = sorted(trials, key=lambda trial: (trial.error, trial.mse))
    if not left:
        return []
    near = [trial for trial in left if trial.error <= left[0].error * (1 + TIE)]
    near.sort(key=lambda trial: (trial.candidate.kind.cost, trial.mse))
    return near + left[len(near) :]


def proven(
    ranked: list[Trial], width: int | None = None, doubling: float = USUAL_GAIN
) -> list[Trial]:
    """Return trials with rough kinds first only if they gain by more than noise.

    Piecewise-linear functions are rough and along the columns' axes, and gain less by width than a
    smooth kernel: so they must win by what the smooth one may still gain up to the width of the
    pass, where one is given, if a doubling gains as much as that. Where they did not, a smooth
    kernel had the lower error on other rows (cod_rna, ijcnn1).
    """
    smooth = [trial for trial in ranked if not is_rough(trial)]
    if not smooth or not is_rough(ranked[0]):
        return ranked
    n_doublings = np.log2(max(1.0, (width or 0) / smooth[0].width))
    left = np.prod(1 - doubling * FADING ** np.arange(np.ceil(n_doublings)))
    if ranked[0].error <= left * smooth[0].error and is_better(ranked[0], smooth[0]):
        return ranked
    return [*smooth, *filter(is_rough, ranked)]


def beyond_noise(ranked: list[Trial]) -> list[Trial]:
    """Return trials with those by ranks first only if the best of them gains by more than noise.

    Of distances within columns nothing is left then, and few rows held out may not show it.
    """
    others = [trial for trial in ranked if trial.candidate.normalize != "quantile"]
    if not others or others[0] is ranked[0] or is_better(ranked[0], others[0]):
        return ranked
    return others + [trial for trial in ranked if trial.candidate.normalize == "quantile"]


def wide_enough(
    trials: Sequence[Trial], widths: Sequence[int], regression: bool, min_gain: float = MIN_GAIN
) -> int:
    """Return the least of widths that the widest one beats by less than `min_gain`.

    Gains are measured as far as trials of the first widths go, all doublings at once, and foreseen
    beyond.
    """
    n = max(1, len(trials))
    doubling = USUAL_GAIN * FADING if n == 1 else gain_of_doubling(trials, regression)
    foreseen = 1 - doubling * FADING ** (n / 2 * (n > 1) + np.arange(len(widths) - n))
    for i, width in enumerate(widths):
        left = np.prod(foreseen[max(0, i + 1 - n) :])
        if i < n - 1:
            left *= 1 - _gain(trials[i], trials[-1], regression)
        if 1 - left < min_gain:
            return width
    return widths[-1]


def gain_of_doubling(trials: Sequence[Trial], regression: bool) -> float:
    """Return by what share an error falls with each doubling of the width, over all trials."""
    return 1 - (1 - _gain(trials[0], trials[-1], regression)) ** (1 / (len(trials) - 1))


def _gain(before: Trial, now: Trial, regression: bool) -> float:
    """Return by what share a width has less error, or squared error, than a narrower one."""
    pairs = [(before.error, now.error)]
    if not regression:  # errors are counts of few; squares see more
        pairs.append((before.mse, now.mse))
    return max(1 - b / a if a > 0 else 0.0 for a, b in pairs)


def of_columns(ranked: list[Trial]) -> list[Trial]:
    """Return trials without those of rows of one length, unless these err far less.

    For columns of different units, of which such rows hide those in small ones.
    """
    others = [trial for trial in ranked if trial.candidate.normalize != "l2"]
    if not others or min(trial.error for trial in ranked) < FAR_LESS * others[0].error:
        return ranked
    return others


def is_rough(trial: Trial) -> bool:
    """Return whether a trial is of functions with steps or kinks."""
    return trial.candidate.kind.is_rough


def joined(a: Trial, b: Trial, n: int) -> Trial:
    """Return `a`, a mean of n trials, with `b` joined to it."""
    error, mse = ((n * x + y) / (n + 1) for x, y in ((a.error, b.error), (a.mse, b.mse)))
    losses = np.concatenate([n * a.losses, b.losses], axis=1) / (n + 1)
    return replace(a, error=error, mse=mse, losses=losses)


def is_better(a: Trial, b: Trial) -> bool:
    """Return whether `a` errs less than `b` on the same rows, by more than noise.

    The errors of classes are counts of few; that squares fall too tells a gain from luck, as the
    warp tried is the best of several. Where far fewer are wrong that is clear without: squares are
    those of the penalty with the fewest errors.
    """
    if not np.isfinite(a.error) or not np.isfinite(b.error):
        return bool(a.error < b.error)
    gains = b.losses - a.losses  # of errors and of squares
    return all(map(is_above, gains, NOISE)) or is_above(gains[0], CLEAR)


def spread(ranked: list[Trial], n_kept: int) -> list[Candidate]:
    """Return the best candidates, at most `n_kept` of a kind and two of a kind and scaling."""
    kept: list[Candidate] = []
    for trial in ranked:
        mine = trial.candidate
        same = [candidate for candidate in kept if candidate.kernel == mine.kernel]
        alike = [candidate for candidate in same if candidate.normalize == mine.normalize]
        if len(kept) < n_kept and len(same) < mine.kind.n_kept and len(alike) < 2:
            kept.append(mine)
    return kept


def warps_of(
    ranked: list[Trial], kinds: tuple[str, ...], n_rounds: int, any_kernel: bool
) -> list[Candidate]:
    """Return warped candidates of the best with a shift-invariant kernel, or of any kernel."""
    leaders: list[Candidate] = []
    for mine in (trial.candidate for trial in ranked):
        fresh = all((c.normalize, c.kernel) != (mine.normalize, mine.kernel) for c in leaders)
        if fresh and (any_kernel or mine.kind.teaches) and len(leaders) < WARPED:
            leaders.append(mine)
    return [leader.warped(kind, n_rounds) for leader in leaders for kind in kinds]
