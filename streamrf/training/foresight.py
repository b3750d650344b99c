"""What the stages of a run are going to take, in seconds, and how far they are."""

import time
from dataclasses import replace

import numpy as np

from streamrf.display import advance, foresee, now
from streamrf.engine import RunOptions
from streamrf.jit import cholesky, packed
from streamrf.jit.threads import computing
from streamrf.solving import RELATIVE_ALPHAS, n_tried

STRIDE = 4  # in the penalties, between those tried first: 1.7 decades
MIN_GUESSED = 4096  # features of which a part tells where to search; of fewer, factors cost little
MAX_PART = 4096  # of these, unless that is less than an eighth
N_GUESSED = 2  # factors of all features from there, and steps that take as long as one
SAMPLE_WIDTH = 768  # of a factor that tells the rate; it takes some thousandths of a second
SAMPLE_SECONDS, MIN_SAMPLES = 0.05, 4
GROWTH = 2.8  # power of the width: wider ones, by LAPACK or our own, have a better rate
READING, SOLVING, CHOOSING = "reading", "solving", "choosing features"


def foresee_solving(width: int, n_factors: float, n_held: float = 0.0) -> None:
    """Tell the run around how long factors of this width will take, by the rate of a narrow one.

    The rows held out are summed after the pass, at its rate, and scored, which takes about as long.
    """
    if now() is not None:
        sample = min(width, SAMPLE_WIDTH)
        seconds = n_factors * _factor_seconds(sample) * (width / sample) ** GROWTH
        foresee(SOLVING, seconds, 2 * n_held)


def held_units(of_factors: float) -> float:
    """Return what the rows held out count for in the solving that begins, next to its factors.

    Parameters
    ----------
    of_factors : what all factors of the stage count for
    """
    run = now()
    seconds = None if run is None else run.foreseen(SOLVING)
    if run is None or not seconds:
        return 0.0
    of_rows = run.row_seconds(SOLVING) / 2  # the scores are told by the factors' trials
    return of_factors * of_rows / (seconds - of_rows) if seconds > of_rows else 0.0


def n_factors(chooses: bool, width: int) -> float:
    """Return the factors of all features that `finish` takes."""
    among_all = n_tried(len(RELATIVE_ALPHAS), STRIDE)
    tried = among_all + 1 / 8  # half of the features once
    if width >= MIN_GUESSED:
        tried = N_GUESSED + among_all * (part_width(width) / width) ** 3
    return 1.0 + (tried if chooses else 0.0)


def part_width(width: int) -> int:
    """Return how many features tell where to search: a quarter, 4,096 or an eighth."""
    return max(min(width // 4, MAX_PART), width // 8)


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
            cholesky.factor(work, n)
            seconds.append(time.perf_counter() - began)
    return min(seconds) / n_threads


def counted(run: RunOptions) -> RunOptions:
    """Return the options such that rows done count for the run that is shown, too."""

    def progress(n_rows: int) -> None:
        advance(n_rows, READING)
        if run.progress is not None:
            run.progress(n_rows)

    return replace(run, progress=progress)
