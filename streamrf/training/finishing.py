"""The end of a pass: choose the penalty on the rows held out, join them, solve."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import StreamrfError
from streamrf.models import ErrorCorrectingCodes, Model, OneVsRest, Probabilities
from streamrf.solving import RELATIVE_ALPHAS, Trial, fitted_probabilities, safest, searched
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
        alpha = float(safest(trials).model.alpha)
        kept = kept.prune(prune, alpha, codes, random_state=random_state)
        columns = kept.columns
        trials = _trials(kept, held, codes, random_state)
    leader = safest(trials).model
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
) -> list[Trial]:
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
