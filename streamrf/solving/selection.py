"""Penalties and decoders chosen on rows held out of the sums."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import SolveError
from streamrf.jit.arrays import Floats
from streamrf.models import Model
from streamrf.preprocessing import as_columns
from streamrf.sources import Rows, as_labels, find_labels

SCORED_ROWS = 1024


@dataclass(frozen=True)
class Trial:
    """How a penalty did on rows held out.

    Parameters
    ----------
    model : of the rows not held out
    figure : share of wrong labels, or mean squared error, on the rows held out
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


def tried(
    models: Sequence[Model], held: list[Rows], measure: Callable[..., Floats] = _squares
) -> list[Trial]:
    """Try models of one encoder and one code on the rows held out.

    The rows are encoded once for all models, which takes longer than all else. Another `measure` of
    outputs and truth, each (n, n_outputs), takes the place of the squared error.
    """
    parts: list[Floats] = [np.empty((2, len(models), 0))]
    total = 0.0
    for part, Z in _encoded(models, held):
        weights = _weights(part)
        total += weights.sum()
        rows = np.empty((2, len(models), len(weights)))  # squares and losses
        for i, model in enumerate(models):
            outputs = Z @ model.coef.T + model.intercept
            if model.book is None:
                truth = as_columns(part.y)
            else:
                index, unknown = find_labels(model.labels, as_labels(part.y))
                found = model.book.scores(outputs).argmax(axis=1)
                rows[1, i] = weights * ((found != index) | unknown)
                truth = model.book.matrix[index]
            rows[0, i] = weights * measure(outputs, truth).mean(axis=1)
            if model.book is None:
                rows[1, i] = rows[0, i]
        parts.append(rows)
    squares, losses = np.concatenate(parts, axis=2) / (total or 1.0)
    sums = [rows.sum(axis=1) for rows in (losses, squares)]
    figures, mses = (np.where(np.isnan(sum_), np.inf, sum_) for sum_ in sums)  # infinite outputs
    columns = zip(models, figures, mses, squares, losses, strict=True)
    return [Trial(model, float(figure), float(mse), *rows) for model, figure, mse, *rows in columns]


def searched(
    solve: Callable[[Sequence[float]], list[Model]], alphas: Sequence[float], held: list[Rows]
) -> list[Trial]:
    """Try every second penalty, then those next to the best.

    It ends where trying all would, unless the error has a valley narrower than that, for two thirds
    of the factorisations. Going downhill from the middle would take half, but rows of little signal
    have valleys at both ends: it was led to ever smaller penalties where 0.1 was best.

    Parameters
    ----------
    solve : returns the models of some penalties, but for those that do not factor
    alphas : ascending
    held : rows held out

    Returns
    -------
    list of Trial, by ascending penalty; empty if nothing factors
    """
    trials = tried(solve(alphas[1::2]), held)
    index = alphas.index(best(trials).model.alpha) if trials else len(alphas) - 1
    neighbours = [alphas[i] for i in (index - 1, index + 1) if i < len(alphas)]
    trials += tried(solve(neighbours), held)
    return sorted(trials, key=lambda trial: trial.model.alpha)


def best(trials: Sequence[Trial]) -> Trial:
    """Return the trial of least error, and of these the one of least squared error."""
    return min(trials, key=lambda trial: (trial.figure, trial.mse, trial.model.alpha))


def safest(trials: Sequence[Trial]) -> Trial:
    """Return the surest of the trials that the rows held out cannot tell from the best.

    Those whose paired differences of errors from the best's are within a standard error on average.
    For values the one of the greatest penalty: where errors have heavy tails, small penalties gain
    nothing that can be measured on most rows, and miss others by far (california_housing, 512
    features: RMSE 73,900 by the least error held out, 56,000 so). For classes the one of the least
    squared error, which sees more than counts of few.
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
        return bool(apart.sum() <= np.sqrt(len(apart)) * apart.std())

    alike = filter(is_alike, trials)
    if is_values:
        return max(alike, key=lambda trial: trial.model.alpha)
    return min(alike, key=lambda trial: (trial.mse, trial.figure))


def held_scores(model: Model, held: list[Rows]) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Return scores (n, n_classes), indices of true classes (n,) and weights of rows held out.

    Rows of classes that the model does not know, or had no rows of, are left out.
    """
    assert model.book is not None
    parts = []
    for part, Z in _encoded([model], held):
        index, unknown = find_labels(model.labels, as_labels(part.y))
        scores = model.book.scores(Z @ model.coef.T + model.intercept)
        known = ~unknown & ~model.book.is_absent[index]
        parts.append((scores[known], index[known], _weights(part)[known]))
    scores, index, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    return scores, index, weights


def _encoded(models: Sequence[Model], held: list[Rows]) -> Iterator[tuple[Rows, np.ndarray]]:
    """Yield the rows held, few at a time, with their features."""
    if not models:
        return
    encoder = models[0].encoder
    for rows in held:
        for start in range(0, len(rows.X), SCORED_ROWS):
            part = rows.where(slice(start, start + SCORED_ROWS))
            Z = np.empty((len(part.X), encoder.n_components))
            encoder.scale(part.X, Z)
            yield part, Z


def _weights(rows: Rows) -> NDArray[np.float64]:
    return np.ones(len(rows.X)) if rows.weights is None else rows.weights
