"""`fold`: add a source's rows into a summary, in this process or on the workers of a cluster."""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace

from streamrf.engine.base import R, Reading, Runner, S, StateStore, Update
from streamrf.engine.dask import DaskRunner
from streamrf.engine.local import LocalRunner
from streamrf.engine.options import RunOptions
from streamrf.errors import ChangedFileError, CorruptFileError, DataError
from streamrf.sources import Block, Source, bare, is_url, state_at, stored_files, version

MAX_ASKED = 8  # files at URLs whose servers are asked, before and after
N_ASKED = 4  # times, where the answer is another: several servers may each have a tag of their own


def runner(run: RunOptions) -> Runner:
    """Return the runner of the options."""
    if run.engine is None:
        return LocalRunner(run.n_threads, run.progress)
    return DaskRunner(run.engine, run.parts, run.progress, run.outlook)


@contextmanager
def _unchanged(source: Source) -> Iterator[None]:
    """Raise ChangedFileError at the end if a file of a source was written to meanwhile.

    Also where its rows could then not be read, or did not fit. Sizes and times of writing are
    compared, here and not on workers, and of the first few URLs what their servers tell, unless
    they could not be read. A file that is taken away is no matter: who has opened it reads on, and
    others raise. Of a folder the files are counted: rows of those that are taken away are read as
    zeros.
    """
    left_out = {*[file for file in source.files if is_url(file)][MAX_ASKED:]}
    before = {file: _state(file, True) for file in source.files if file not in left_out}
    n_before = {folder: _n_files(folder) for folder in source.files if os.path.isdir(folder)}
    try:
        yield
    except (CorruptFileError, DataError) as error:
        _check(before, n_before, error)
        raise
    _check(before, n_before)


def _check(
    before: dict[str, str], n_before: dict[str, int], cause: Exception | None = None
) -> None:
    """Raise ChangedFileError if a file has another state than before, or a folder fewer files."""
    for folder, n_files in n_before.items():
        n_lost = n_files - _n_files(folder)
        if n_lost > 0:
            raise ChangedFileError(
                f"{folder} has lost {n_lost:,} of its {n_files:,} files while it was read, and "
                "their rows may have been read as zeros, so what was made of them is not kept; put "
                "them back and run again"
            ) from cause
    for file, state in before.items():
        if cause is not None and is_url(file):  # whose server may not answer any more
            continue
        n_asked = N_ASKED if is_url(file) else 1
        if state and all(_state(file) not in (state, "") for _ in range(n_asked)):
            raise ChangedFileError(
                f"{bare(file)} was written to while it was read, so its rows changed and what was "
                "made of them is not kept; run again when its writer has ended, or read a copy"
            ) from cause


def _n_files(folder: str) -> int:
    """Return how many files there are in a folder and those in it; 0 where it is not there."""
    return sum(1 for _ in stored_files(folder))


def _state(file: str, is_settled: bool = False) -> str:
    """Return its version; "" of folders, whose time says nothing of the files in them, and of what
    is not there."""
    if is_url(file):
        return state_at(file, is_settled)
    try:
        return version(file) if os.path.isfile(file) else ""
    except OSError:  # taken away in between
        return ""


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
        Bad rows, no rows, a file that is written to meanwhile, a cluster that fails.
    """
    reading = source if isinstance(source, Reading) else Reading(source)
    store = store or StateStore()
    with store.guarding(zero, update) as guarded, _unchanged(reading.source):
        return runner(run or RunOptions()).fold(reading, zero, guarded, store)


def map_blocks(
    source: Source | Reading,
    function: Callable[[Block], R],
    run: RunOptions | None = None,
    row_bytes: int = 0,
) -> Generator[R, None, None]:
    """Yield ``function(block)`` of every block of a source, in order; of none for no rows.

    Parameters
    ----------
    source, run : see `fold`
    function : picklable for a cluster
    row_bytes : size of the result of a row, which bounds the shards of a cluster

    Raises
    ------
    StreamrfError
        As `fold`; of a file that is written to meanwhile after the last block.
    """
    reading = source if isinstance(source, Reading) else Reading(source)
    with _unchanged(reading.source):
        is_empty = True
        for found in runner(run or RunOptions()).map(reading, function, row_bytes):
            is_empty = False
            yield found
        if is_empty:  # an empty range, whose results have their shapes too
            yield function(replace(reading.source.sample(1).take(slice(0)), span=0))
