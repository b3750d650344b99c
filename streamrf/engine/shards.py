"""Ranges of rows for the workers of a cluster."""

import pickle

from streamrf.engine.options import Worker
from streamrf.errors import ConsumedError, ParameterError
from streamrf.sources import Source

SHARDS_A_WORKER = 8
# Of a shard, for each thread: one thread makes and merges its sums, for as long as it would take to
# add some hundred rows.
MIN_ROWS = 30_000
MAX_ARRAY_BYTES = 256 << 20  # of arrays in memory, which every worker gets a copy of
ROWS_BYTES = 32 << 20  # of the results of a shard, where they are kept by row


def default_parts(n_rows: int, n_workers: int, n_threads: int = 1) -> int:
    """Return a number of shards: enough to even out workers, few enough to be worth their sums.

    It is a multiple of the workers, so that none waits for others with a last shard.

    Parameters
    ----------
    n_rows, n_workers : to share
    n_threads : of a worker

    Examples
    --------
    >>> default_parts(60_000, 2), default_parts(60_000, 1, 2), default_parts(10**9, 100, 16)
    (2, 1, 800)
    """
    n_workers = max(1, n_workers)
    most = n_rows // (MIN_ROWS * n_threads * n_workers)
    return n_workers * max(1, min(SHARDS_A_WORKER, most))


def cut(
    source: Source,
    window: tuple[int, int | None],
    parts: int | None,
    on: dict[str, Worker],
    row_bytes: int = 0,
) -> list[tuple[int, int]]:
    """Return the ranges of rows of the shards.

    Parameters
    ----------
    source : re-readable
    window : rows ``[start, stop)``
    parts : shards wanted; None means what suits rows and workers
    on : workers to share the shards, by address
    row_bytes : bytes of the result of a row, where results are kept by row

    Raises
    ------
    ConsumedError
        A source that is read from its first row on only.
    ParameterError
        Fewer than one part, or arrays too large to send.
    """
    if not source.seekable or source.n_rows is None:
        raise ConsumedError(
            f"{source.where} can be read from its first row on alone, and workers each read shards "
            "of the rows by themselves; write them to HDF5 files, or leave out the cluster"
        )
    n_bytes = _bytes_sent(source)
    if n_bytes > MAX_ARRAY_BYTES:
        raise ParameterError(
            f"{source.where} holds {n_bytes >> 20} MiB in memory, which every worker would get a "
            f"copy of, and {MAX_ARRAY_BYTES >> 20} MiB are the most; write the rows to HDF5 files "
            "where the workers can read them, or leave out the cluster"
        )
    start, stop = window
    stop = source.n_rows if stop is None else min(stop, source.n_rows)
    n_rows = max(stop - start, 1)
    if parts is None:
        n_threads = max((worker.n_threads for worker in on.values()), default=1)
        parts = default_parts(n_rows, len(on), n_threads)
        parts = max(parts, -(-n_rows * row_bytes // ROWS_BYTES))
    of_all = -(-parts * source.n_rows // n_rows)
    ranges = [(max(low, start), min(high, stop)) for low, high in source.split(of_all)]
    return [(low, high) for low, high in ranges if low < high]


def _bytes_sent(source: Source) -> int:
    """Return the bytes of a source on its way to a worker, without a copy of its arrays."""
    arrays: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(source, protocol=5, buffer_callback=arrays.append)
    return len(rest) + sum(array.raw().nbytes for array in arrays)
