"""What the stages of a run are going to take, in seconds, before they have begun."""

import time

import numpy as np

from streamrf.display import foresee, now
from streamrf.jit import lapack, packed
from streamrf.jit.threads import computing
from streamrf.solving import RELATIVE_ALPHAS, n_tried

STRIDE = 4  # in the penalties, between those tried first: 1.7 decades
SAMPLE_WIDTH = 768  # of a factor that tells the rate; it takes some thousandths of a second
SAMPLE_SECONDS, MIN_SAMPLES = 0.05, 4
READING, SOLVING, CHOOSING = "reading", "solving", "choosing features"


def foresee_solving(width: int, n_factors: float) -> None:
    """Tell the run around how long factors of this width will take, by the rate of a narrow one."""
    if now() is not None:
        sample = min(width, SAMPLE_WIDTH)
        foresee(SOLVING, n_factors * _factor_seconds(sample) * (width / sample) ** 3)


def held_units(n_rows: int, of_factors: float) -> float:
    """Return what rows held out, at the rate of those just read, count for next to factors.

    Parameters
    ----------
    n_rows : rows that are going to be summed once the factors have chosen
    of_factors : what all factors of the stage count for; what is foreseen is corrected
    """
    run = now()
    seconds = None if run is None else run.foreseen(SOLVING)
    if run is None or not seconds or run.stage_now.name != READING or not run.stage_now.speed:
        return 0.0
    more = n_rows / run.stage_now.speed
    run.foresee(SOLVING, seconds + 2 * more)  # they are scored too, which takes about as long
    return of_factors * more / seconds


def n_factors(chooses: bool) -> float:
    """Return the factors of all features that `finish` takes."""
    tried = n_tried(len(RELATIVE_ALPHAS), STRIDE)
    return 1.0 + (tried + 1 / 8 if chooses else 0)  # half of the features once


def _factor_seconds(n: int) -> float:
    """Return the seconds of a Cholesky factor of order n, by the least of some on one thread.

    Two threads wait for each other, and on a busy machine for others: one factor tells nothing.
    """
    seconds: list[float] = []
    with computing() as n_threads, computing(1):
        while len(seconds) < MIN_SAMPLES or sum(seconds) < SAMPLE_SECONDS:
            work = np.full(n * (n + 1) // 2, 1e-6)
            packed.add_diagonal(work, np.ones(n))
            began = time.perf_counter()
            lapack.factor(work, n)
            seconds.append(time.perf_counter() - began)
    return min(seconds) / n_threads
