"""Penalties and decoders chosen on rows held out of the sums."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import SolveError
from streamrf.jit.arrays import F32, Floats, Indices
from streamrf.jit.lanes import LANES
from streamrf.jit.threads import on_single_blas_threads
from streamrf.models import Model
from streamrf.preprocessing import Encoder, as_columns
from streamrf.solving.path import target_shares
from streamrf.sources import Rows, as_labels, find_labels

Answers = list[tuple[Rows, Floats]]  # rows held out, each part with a model's outputs

SCORED_ROWS = 1024  # a multiple of 16, the lanes of a group
MULTIPLIED_GROUPS = 8  # of their lanes, by a thread at a time, so that they stay in its cache
GREATER = 1e4  # of the greatest penalty, how far a search may go on
SHALLOW = 1.5  # times the error of the best, up to which another valley may be the better one
FLAT = 1e-4  # of an error, by which trials may differ because of how they were solved
KEPT_BYTES = 128 << 20  # of features held out; a pass holds as much in blocks that it has let go


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
    """

    model: Model
    figure: float
    mse: float
    squares: Floats = field(default_factory=lambda: np.empty(0))
    losses: Floats = field(default_factory=lambda: np.empty(0))


def _squares(outputs: Floats, truth: Floats) -> Floats:
    """Return the squared errors."""
    return np.square(outputs - truth)


class HeldOut:
    """Rows held out that weigh, and their features, encoded once as far as `KEPT_BYTES` reach.

    Parameters
    ----------
    rows : as they came; those whose weights a pass rounds to 0 are left out here too
    encoder : of all features that models have some of
    n_distinct : of the rows, those that are no copies of others; None means all
    """

    def __init__(self, rows: Sequence[Rows], encoder: Encoder, n_distinct: int | None = None):
        self._encoder = encoder
        self._parts: list[Rows] = []
        self._places: list[slice] = []  # of the parts of each of the rows given, if all weigh
        for some in rows:
            weighing, first = _weighing(some, encoder), len(self._parts)
            starts = range(0, len(weighing.X), SCORED_ROWS)
            self._parts += [weighing.where(slice(i, i + SCORED_ROWS)) for i in starts]
            is_whole = len(weighing.X) == len(some.X)
            self._places.append(slice(first, len(self._parts) if is_whole else first))
        self._kept: list[F32] = []
        n_rows = sum(len(part.X) for part in self._parts)
        self.n_rows = n_rows if n_distinct is None else min(n_rows, n_distinct)

    @property
    def mapped(self) -> list[list[F32]]:
        """What is kept of the features of each of the rows given, for `Encoder.encode`."""
        return [self._kept[place] for place in self._places]

    def products(self, encoder: Encoder, coef: Floats) -> Iterator[tuple[Rows, Floats]]:
        """Yield a few rows at a time with ``Z coef^T``, Z the scaled features of a model's encoder.

        Parameters
        ----------
        coef : (n_outputs, n_components)
        """
        order = np.argsort(self._encoder.columns)
        index = order[np.searchsorted(self._encoder.columns, encoder.columns, sorter=order)]
        is_all = np.array_equal(index, np.arange(self._encoder.n_components))
        calibration = encoder.calibration
        coef = coef / calibration.step  # of features as they are, which are not scaled
        offset = coef @ calibration.shift
        for number, part in enumerate(self._parts):
            z = self._features(number)
            out = np.empty((len(z) * LANES, len(coef)))
            multiply = partial(_multiply, z, None if is_all else index, coef, offset, out)
            starts = range(0, len(z), MULTIPLIED_GROUPS)
            on_single_blas_threads(multiply, [slice(i, i + MULTIPLIED_GROUPS) for i in starts])
            yield part, out[: len(part.X)]

    def answers(self, model: Model) -> Answers:
        """Return the rows, in parts, each with a model's outputs (n, n_outputs)."""
        found = self.products(model.encoder, model.coef)
        return [(part, products + model.intercept) for part, products in found]

    @cached_property
    def shares(self) -> Floats:
        """What squared errors of each target count times here, (n_targets,)."""
        y = np.concatenate([as_columns(part.y) for part in self._parts])
        size = np.maximum(np.abs(y).max(axis=0), np.finfo(np.float64).tiny)
        return target_shares((y / size).std(axis=0) * size)

    @property
    def is_of_one_class(self) -> bool:
        """Whether all labels are the same."""
        labels = [np.unique(as_labels(part.y)) for part in self._parts]
        return len(np.unique(np.concatenate(labels))) < 2 if labels else True

    def _features(self, number: int) -> F32:
        if number < len(self._kept):
            return self._kept[number]
        z = self._encoder.mapped(self._parts[number].X)
        if number == len(self._kept) and sum(z.nbytes for z in self._kept) + z.nbytes <= KEPT_BYTES:
            self._kept.append(z)
        return z


def _multiply(
    z: F32, index: Indices | None, coef: Floats, offset: Floats, out: Floats, groups: slice
) -> None:
    """``out = z[index]^T coef^T - offset`` of groups of lanes, in float64; without an index of all.

    Parameters
    ----------
    z : (n_groups, width, 16)
    coef : (n_outputs, n_components)
    out : (16 n_groups, n_outputs)
    """
    some = z[groups] if index is None else np.take(z[groups], index, axis=1)
    columns = np.array(some.transpose(1, 0, 2), dtype=np.float64, order="C")
    rows = slice(LANES * groups.start, LANES * (groups.start + len(some)))
    np.subtract((coef @ columns.reshape(coef.shape[1], -1)).T, offset, out=out[rows])


def tried(
    models: Sequence[Model], held: HeldOut, measure: Callable[..., Floats] = _squares
) -> list[Trial]:
    """Try models of one encoder and one code on the rows held out.

    Another `measure` of outputs and truth, each (n, n_outputs), takes the place of the squared
    error.
    """
    if not models:
        return []
    parts: list[Floats] = [np.empty((2, len(models), 0))]
    total = 0.0
    coef = np.concatenate([model.coef for model in models])
    for part, products in held.products(models[0].encoder, coef):
        weights = weights_of(part)
        total += weights.sum()
        rows = np.empty((2, len(models), len(weights)))  # squares and losses
        found = np.split(products, len(models), axis=1)
        for i, (model, outputs) in enumerate(zip(models, found, strict=True)):
            outputs += model.intercept
            shares: Floats | float = 1.0
            if model.book is None:
                truth, shares = as_columns(part.y), held.shares
            else:
                index, unknown = find_labels(model.labels, as_labels(part.y))
                chosen = model.book.scores(outputs).argmax(axis=1)
                rows[1, i] = weights * ((chosen != index) | unknown)
                truth = model.book.matrix[index]
            rows[0, i] = weights * (shares * measure(outputs, truth)).mean(axis=1)
            if model.book is None:
                rows[1, i] = rows[0, i]
        parts.append(rows)
    squares, losses = np.concatenate(parts, axis=2) / (total or 1.0)
    sums = [rows.sum(axis=1) for rows in (losses, squares)]
    figures, mses = (np.where(np.isnan(sum_), np.inf, sum_) for sum_ in sums)  # infinite outputs
    columns = zip(models, figures, mses, squares, losses, strict=True)
    return [Trial(model, float(figure), float(mse), *rows) for model, figure, mse, *rows in columns]


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

    The least first; those above `SHALLOW` times it are left out. Of the decoders of a code, which
    share their squared errors, the best one counts; of neighbours that err alike but for `FLAT`,
    the greatest penalty: below the least eigenvalue all penalties are one.
    """
    of_alpha: dict[float, list[Trial]] = {}
    for trial in trials:
        of_alpha.setdefault(trial.model.alpha, []).append(trial)
    found: list[Trial] = []
    for one in (best(some) for some in of_alpha.values()):
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
    starts : indices; the first is tried first, so that its factor may serve the others
    """
    tries = _Tries(solve, alphas, held)
    tries.add(starts)
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


def held_scores(model: Model, answers: Answers) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Return scores (n, n_classes), indices of true classes (n,) and weights of rows held out.

    Rows of classes that the model does not know, or had no rows of, are left out.
    """
    assert model.book is not None
    parts = []
    for part, outputs in answers:
        index, unknown = find_labels(model.labels, as_labels(part.y))
        scores = model.book.scores(outputs)
        known = ~unknown & ~model.book.is_absent[index]
        parts.append((scores[known], index[known], weights_of(part)[known]))
    scores, index, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    return scores, index, weights


def _weighing(rows: Rows, encoder: Encoder) -> Rows:
    if rows.weights is None:
        return rows
    return rows.where(encoder.calibration.roots(rows.weights, len(rows.X)) > 0)


def weights_of(rows: Rows) -> NDArray[np.float64]:
    """Return the weights of rows, 1 where they carry none, (n,)."""
    return np.ones(len(rows.X)) if rows.weights is None else rows.weights
