"""The end of a pass: the penalty chosen and probabilities fitted on rows held out; the solve."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from streamrf.encoding import as_columns
from streamrf.errors import StreamrfError
from streamrf.models import ErrorCorrectingCodes, Model, OneVsRest, Probabilities
from streamrf.solving import RELATIVE_ALPHAS
from streamrf.sources import as_labels, find_labels
from streamrf.statistics import Statistics
from streamrf.training.holdout import Rows
from streamrf.training.passes import Pass

Codes = OneVsRest | ErrorCorrectingCodes

MIN_HELD = 10
FALLBACK_ALPHA = 1e-3  # relative; where too few rows are held out to choose one
SCORED_ROWS = 1024


def finish(
    pass_: Pass,
    alpha: float | NDArray[np.float64] | str = "auto",
    codes: Codes | None = None,
    random_state: int = 0,
    *,
    prune: int | None = None,
    uncertainty: bool = False,
    overwrite: bool = False,
    keep: Callable[[Statistics], None] | None = None,
) -> tuple[Model, Statistics]:
    """Choose the penalty, join the rows held out, and solve on all rows.

    Parameters
    ----------
    pass_ : used up
    alpha : float or (n_outputs,) floats, or "auto": the best of `RELATIVE_ALPHAS` on the rows
        held out, which also fit the probabilities of classes
    prune : features that the model keeps, see `Statistics.prune`; None means all. With "auto" the
        rows held out have no say in which, so that they choose the penalty fairly: first one to
        prune with, then one for the features kept.
    codes, random_state, uncertainty, overwrite : see `Statistics.solve`
    keep : called with the statistics of all rows before the solve, which may fail or overwrite them

    Returns
    -------
    Model, and the Statistics of all features
    """
    is_auto = isinstance(alpha, str) and alpha == "auto"
    try:
        found = _choose(pass_, codes, random_state, prune) if is_auto else _Choice()
    except StreamrfError:
        if keep is not None:
            keep(pass_.join())
        raise
    statistics = pass_.join()
    if keep is not None:
        keep(statistics)
    if is_auto:
        scale = statistics.alpha_scale()
        scale = scale if scale > 0 else 1.0  # 0: features that never vary
        alpha = FALLBACK_ALPHA * scale if found.alpha is None else found.alpha
    kept = statistics
    if found.columns is not None:
        kept = statistics.select(np.flatnonzero(np.isin(statistics.columns, found.columns)))
    elif prune is not None:
        mean = float(np.mean(np.asarray(alpha, dtype=np.float64)))
        kept = statistics.prune(prune, mean, codes, random_state=random_state)
    model = kept.solve(
        alpha, codes, uncertainty=uncertainty, overwrite=overwrite, random_state=random_state
    )
    if is_auto and model.book is not None:
        model = replace(model, probabilities=found.probabilities)
    return replace(model, history=found.history), statistics


@dataclass(frozen=True)
class _Choice:
    """What the rows held out have chosen; nothing where there were too few."""

    alpha: float | None = None
    columns: NDArray[np.int64] | None = None
    probabilities: Probabilities = field(default_factory=Probabilities.default)
    history: tuple[tuple[float, float], ...] = ()


def _choose(pass_: Pass, codes: Codes | None, random_state: int, prune: int | None) -> _Choice:
    """Choose a penalty, and features to keep if they are fewer, by the rows held out."""
    held, kept = pass_.held, pass_.finished()
    trials = _trials(kept, held, codes, random_state)
    if not trials:
        return _Choice()
    columns = None
    if prune is not None:
        alpha = float(best(trials).model.alpha)
        kept = kept.prune(prune, alpha, codes, random_state=random_state)
        columns = kept.columns
        trials = _trials(kept, held, codes, random_state)
    leader = best(trials).model
    found = _Choice(
        float(leader.alpha),
        columns,
        history=tuple((trial.model.alpha, trial.figure) for trial in trials),
    )
    if leader.book is None:
        return found
    return replace(found, probabilities=fitted_probabilities(leader, held))


def _trials(
    statistics: Statistics, held: list[Rows], codes: Codes | None, random_state: int
) -> list["Trial"]:
    """Return how every penalty does on the rows held out; nothing where they are too few."""
    labels = statistics.labels
    n_held = sum(len(rows.X) for rows in held)
    enough = min(n_held, statistics.n_rows) >= MIN_HELD
    if not enough or (labels is not None and len(labels) < 2):
        return []
    problem = statistics.problem(codes, random_state)
    alphas = (RELATIVE_ALPHAS * problem.alpha_scale).tolist()
    if not alphas[-1] > 0:
        return []
    return searched(problem.models, alphas, held)


@dataclass(frozen=True)
class Trial:
    """How a penalty did on rows held out.

    Parameters
    ----------
    model : of the rows not held out
    figure : share of wrong labels, or mean squared error, on the rows held out
    mse : mean squared error of the outputs there
    """

    model: Model
    figure: float
    mse: float


def tried(models: Sequence[Model], held: list[Rows]) -> list[Trial]:
    """Try models of one encoder and one code on the rows held out.

    The rows are encoded once for all models, which takes longer than all else.
    """
    wrong, squares = np.zeros(len(models)), np.zeros(len(models))
    total = 0.0
    for part, Z in _encoded(models, held):
        weights = _weights(part)
        total += weights.sum()
        for i, model in enumerate(models):
            outputs = Z @ model.coef.T + model.intercept
            if model.book is None:
                truth = as_columns(part.y)
            else:
                index, unknown = find_labels(model.labels, as_labels(part.y))
                found = model.book.scores(outputs).argmax(axis=1)
                wrong[i] += weights @ ((found != index) | unknown)
                truth = model.book.matrix[index]
            squares[i] += weights @ np.square(outputs - truth).mean(axis=1)
    total = total or 1.0
    figures = squares if models and models[0].book is None else wrong
    columns = zip(models, figures / total, squares / total, strict=True)
    return [Trial(model, float(figure), float(mse)) for model, figure, mse in columns]


def searched(
    solve: Callable[[Sequence[float]], list[Model]], alphas: Sequence[float], held: list[Rows]
) -> list[Trial]:
    """Try every second penalty, then those beside the best.

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


def fitted_probabilities(model: Model, held: list[Rows]) -> Probabilities:
    """Fit probabilities to a model's scores on rows it was not trained on.

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
    return Probabilities.fit(scores / model.book.margin, index, weights)


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
