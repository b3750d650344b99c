"""`fold`: add a source's rows into a summary, in this process or on the workers of a cluster."""

from collections.abc import Callable, Generator

from streamrf.engine.base import R, Reading, Runner, S, StateStore, Update
from streamrf.engine.dask import DaskRunner
from streamrf.engine.local import LocalRunner
from streamrf.engine.options import RunOptions
from streamrf.sources import Block, Source


def runner(run: RunOptions) -> Runner:
    """Return the runner of the options."""
    if run.engine is None:
        return LocalRunner(run.n_threads, run.progress)
    return DaskRunner(run.engine, run.parts, run.progress, run.outlook)


def fold(
    source: Source | Reading,
    zero: S,
    update: Update[S],
    run: RunOptions | None = None,
    store: StateStore[S] | None = None,
) -> S:
    """Add a source's rows into a summary.

    The result is the same, to the last byte where the sums are exact, for any runner, number of
    threads, shards and blocks.

    Parameters
    ----------
    source : read once, or some rows of it
    zero : where to begin, changed in place
    update : ``update(summary, block)``
    run : how to do it; None means in this process
    store : where the state is kept while it runs; None means nowhere

    Returns
    -------
    `zero`

    Raises
    ------
    StreamrfError
        Bad rows, no rows, a cluster that fails.
    """
    reading = source if isinstance(source, Reading) else Reading(source)
    return runner(run or RunOptions()).fold(reading, zero, update, store or StateStore())


def map_blocks(
    source: Source | Reading,
    function: Callable[[Block], R],
    run: RunOptions | None = None,
    row_bytes: int = 0,
) -> Generator[R, None, None]:
    """Yield ``function(block)`` of every block of a source, in order.

    Parameters
    ----------
    source, run : see `fold`
    function : picklable for a cluster
    row_bytes : size of the result of a row, which bounds the shards of a cluster
    """
    reading = source if isinstance(source, Reading) else Reading(source)
    yield from runner(run or RunOptions()).map(reading, function, row_bytes)
