"""The end of a pass: choose the penalty on the rows held out, join them, solve."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import ParameterError, StreamrfError
from streamrf.models import ErrorCorrectingCodes, Model, OneVsRest, Probabilities
from streamrf.solving import (
    RELATIVE_ALPHAS,
    BlockWeights,
    Trial,
    fitted_probabilities,
    safest,
    searched,
)
from streamrf.sources import Rows
from streamrf.statistics import Statistics
from streamrf.training.passes import Pass

Codes = OneVsRest | ErrorCorrectingCodes

MIN_HELD = 10
FALLBACK_ALPHA = 1e-3  # relative; where too few rows are held out to choose one


def finish(
    pass_: Pass,
    alpha: float | NDArray[np.float64] | str = "auto",
    codes: Codes | None = None,
    random_state: int = 0,
    *,
    prune: int | None = None,
    block_weights: BlockWeights | None = None,
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
    block_weights : see `Statistics.solve`; with "auto" for both, they are chosen on the rows held
        out, and then the penalty. Not with `prune`
    codes, random_state, uncertainty, overwrite : see `Statistics.solve`
    keep : called with the statistics of all rows before the solve, which may fail or overwrite them

    Returns
    -------
    Model, and the Statistics of all features
    """
    if prune is not None and block_weights is not None:
        raise ParameterError(
            "prune= and block_weights= do not go together: prune the statistics, then solve them "
            "with weights"
        )
    is_auto = isinstance(alpha, str) and alpha == "auto"
    found = _Choice(block_weights=block_weights)
    try:
        if is_auto:
            found = _choose(pass_, codes, random_state, prune, found)
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
        alpha,
        codes,
        block_weights=found.block_weights,
        uncertainty=uncertainty,
        overwrite=overwrite,
        random_state=random_state,
    )
    if is_auto and model.book is not None:
        model = replace(model, probabilities=found.probabilities)
    return replace(model, history=found.history), statistics


@dataclass(frozen=True)
class _Choice:
    """What the rows held out have chosen; nothing where there were too few."""

    alpha: float | None = None
    block_weights: BlockWeights | None = None
    columns: NDArray[np.int64] | None = None
    probabilities: Probabilities = field(default_factory=Probabilities.default)
    history: tuple[tuple[float, float], ...] = ()


def _choose(
    pass_: Pass, codes: Codes | None, random_state: int, prune: int | None, given: _Choice
) -> _Choice:
    """Choose a penalty, and weights or features to keep if asked for, by the rows held out."""
    held, kept = pass_.held, pass_.finished()
    weights = given.block_weights
    if isinstance(weights, str) and _is_enough(kept, held):
        problem = kept.problem(codes, random_state)
        weights = np.array(problem.weighted(weights, held=pass_.held_sums()).block_weights)
        weights /= weights.max()
    trials = _trials(kept, held, codes, random_state, weights)
    if not trials:
        return given
    columns = None
    if prune is not None:
        alpha = float(safest(trials).model.alpha)
        kept = kept.prune(prune, alpha, codes, random_state=random_state)
        columns = kept.columns
        trials = _trials(kept, held, codes, random_state, weights)
    leader = safest(trials).model
    found = _Choice(
        float(leader.alpha),
        weights,
        columns,
        history=tuple((trial.model.alpha, trial.figure) for trial in trials),
    )
    if leader.book is None:
        return found
    return replace(found, probabilities=fitted_probabilities(leader, held))


def _is_enough(statistics: Statistics, held: list[Rows]) -> bool:
    """Return whether there are rows, and classes, to choose by."""
    labels = statistics.labels
    n_held = sum(len(rows.X) for rows in held)
    enough = min(n_held, statistics.n_rows) >= MIN_HELD
    return enough and (labels is None or len(labels) > 1)


def _trials(
    statistics: Statistics,
    held: list[Rows],
    codes: Codes | None,
    random_state: int,
    block_weights: BlockWeights | None,
) -> list[Trial]:
    """Return how every penalty does on the rows held out; nothing where they are too few."""
    if not _is_enough(statistics, held):
        return []
    problem = statistics.problem(codes, random_state).weighted(block_weights)
    alphas = (RELATIVE_ALPHAS * problem.alpha_scale).tolist()
    if not alphas[-1] > 0:
        return []
    return searched(problem.models, alphas, held)
