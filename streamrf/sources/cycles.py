"""Places of dates in the year, in the week and in the day, as sines and cosines."""

import datetime
import functools
import math

import numpy as np
from numpy.typing import NDArray

CYCLES = {"year": 366, "week": 7 * 1440, "day": 1440}  # steps of a turn: days, minutes, minutes
DAYS = {"year": 365.0, "week": 7.0, "day": 1.0}  # of a turn
MOST = 0.9  # of a turn, that dates must have seen
ENDS = 0.01  # of the rows at each end


def seen_in(days: NDArray[np.float64]) -> tuple[str, ...]:
    """Return the cycles of which days, whole or with times, show most of a turn.

    A wave of which rows show a small part is but another count of days to them, and far away later.
    A hundredth of the days at each end, as wrong ones are, does not count.
    """
    if not len(days):
        return ()
    has_time = bool((days % 1 != 0).any())
    span = np.subtract(*np.quantile(days, (1 - ENDS, ENDS))) + (not has_time)
    seen = [cycle for cycle in CYCLES if span >= MOST * (1 - 2 * ENDS) * DAYS[cycle]]
    return tuple(cycle for cycle in seen if has_time or cycle != "day")


@functools.cache
def _turn(n_steps: int) -> NDArray[np.float64]:
    """Sines and cosines of a turn: by the C library, because NumPy's depend on the place."""
    angles = [2 * math.pi * step / n_steps for step in range(n_steps)]
    return np.array([(math.sin(angle), math.cos(angle)) for angle in angles])


def waves(days: NDArray[np.float64], cycle: str) -> NDArray[np.float64]:
    """Return the sine and cosine of the place in a cycle, (n, 2); NaN where days are not finite."""
    finite = np.isfinite(days)
    minutes = np.floor(np.where(finite, days, 0.0) * 1440 + 1e-6).astype(np.int64)
    steps = minutes
    if cycle == "year":
        dates = (minutes // 1440).astype("datetime64[D]")
        steps = (dates - dates.astype("datetime64[Y]")).astype(np.int64)
    elif cycle == "week":
        steps = minutes + datetime.date(1970, 1, 1).weekday() * 1440  # from Monday on
    turn = _turn(CYCLES[cycle])[steps % CYCLES[cycle]]
    return np.where(finite[:, np.newaxis], turn, np.nan)
