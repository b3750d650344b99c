"""Penalties that the sums alone speak for, where rows held out say too little."""

import numpy as np

from streamrf.errors import StreamrfError
from streamrf.models import ErrorCorrectingCodes, OneVsRest
from streamrf.solving import RELATIVE_ALPHAS, is_low_rank
from streamrf.statistics import Statistics

Codes = OneVsRest | ErrorCorrectingCodes

MAX_TRACED = 4096  # features of which they are asked, of many rows: a full matrix is held
MIN_EVIDENT = 1e-6  # relative, the least that the evidence may take; a factor in float32 has it
FALLBACK_ALPHA = 1e-3  # relative; where too few rows are held out, and the sums have no evidence


def is_traced(statistics: Statistics) -> bool:
    """Return whether the evidence takes little time and memory."""
    width = statistics.encoder.n_components
    return width <= MAX_TRACED or is_low_rank(statistics.sums.n_weighted, width)


def evident_alpha(statistics: Statistics, codes: Codes | None, random_state: int) -> float:
    """Return the penalty of greatest evidence, which needs no rows; a guess where there is none."""
    scale = statistics.alpha_scale() or 1.0  # 0: features that never vary
    alphas = statistics.alpha_grid()
    if not is_traced(statistics):
        return FALLBACK_ALPHA * scale
    try:
        path = statistics.path(
            alphas[alphas >= MIN_EVIDENT * scale], codes, random_state=random_state
        )
        return float(path.best_alpha("evidence"))
    except StreamrfError:
        return FALLBACK_ALPHA * scale


def freeing(statistics: Statistics, alpha: float, codes: Codes | None, random_state: int) -> float:
    """Return the least penalty above one that leaves degrees of freedom to learn the noise from.

    Of few rows without noise the rows held out choose one that leaves none. The greatest tried
    where none does, as of two rows.
    """
    ratio = RELATIVE_ALPHAS[1] / RELATIVE_ALPHAS[0]
    alphas = alpha * ratio ** np.arange(1, 2 * len(RELATIVE_ALPHAS))
    path = statistics.path(alphas, codes, random_state=random_state)
    return float(path.alphas[path.n_rows - path.dof >= 1].min(initial=alphas[-1]))
