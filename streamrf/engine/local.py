"""The engine of one process: one thread reads ahead, the others compute."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from streamrf.errors import EmptySourceError
from streamrf.jit.threads import computing
from streamrf.sources import Block, Source, check_rows, read_ahead

S = TypeVar("S")
Progress = Callable[[int], None]


def stream(
    source: Source,
    *,
    start: int = 0,
    stop: int | None = None,
    block_rows: int = 4096,
    on_bad_rows: str = "raise",
    progress: Progress | None = None,
) -> Iterator[Block]:
    """Give the checked blocks of a source, read one ahead of their use.

    Parameters
    ----------
    source : read once
    start, stop : rows, ``[start, stop)``
    block_rows : about how many rows a block has
    on_bad_rows : "raise" or "skip" rows with NaN or infinity
    progress : called with the number of rows done after each block

    Raises
    ------
    EmptySourceError
        If there are no rows at all.
    """

    def checked():
        for block in source.blocks(start, stop, block_rows=block_rows):
            yield check_rows(block, on_bad_rows)[0]

    found = False
    for block in read_ahead(checked()):
        found = True
        yield block
        if progress is not None:
            progress(block.span)
    if not found and start == 0:
        raise EmptySourceError(f"{source.where} has no rows")


def fold(
    source: Source,
    summary: S,
    update: Callable[[S, Block], None],
    *,
    n_threads: int | None = None,
    **options,
) -> S:
    """Add a source's rows into `summary`, in place, block by block.

    Parameters
    ----------
    source : read once
    summary : changed by `update`
    update : ``update(summary, block)``
    n_threads : threads that compute; None means all
    options : see `stream`

    Returns
    -------
    `summary`
    """
    for block in stream(source, **options):
        with computing(n_threads):
            update(summary, block)
    return summary
