"""Passes in steps: begun with any options, and given rows in chosen blocks."""

from streamrf.engine import Reading, RunOptions, fold
from streamrf.training import Job, Pass
from streamrf.training import begin as begin_job
from streamrf.training.settings import split_options


def job_of(source, features=None, **options) -> Job:
    """The job of a source and the options of `accumulate`."""
    settings, run = split_options({"features": features, **options})
    return Job.of(source, settings, run)


def begin(source, features=None, **options) -> Pass:
    """A pass, calibrated or restored."""
    return begin_job(job_of(source, features, **options))


def add(
    source, pass_, *, start=0, stop=None, block_rows=4096, on_bad_rows="raise", n_threads=None
) -> Pass:
    """The pass with the rows of the source added, in blocks of the size asked for."""
    reading = Reading(source, start, stop, block_rows, on_bad_rows)
    return fold(reading, pass_, Pass.update, RunOptions(n_threads=n_threads))
