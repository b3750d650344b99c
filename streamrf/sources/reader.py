"""Read the next blocks while the current one is computed."""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from streamrf.display import stage
from streamrf.errors import ParameterError
from streamrf.jit.threads import grant

T = TypeVar("T")

_END: Any = object()


def read_ahead(
    blocks: Iterator[T], depth: int = 1, n_threads: int | None = None
) -> Generator[T, None, None]:
    """Yield the items of `blocks`, read in one background thread up to `depth` items ahead.

    At most ``depth + 1`` items are alive: the one in use, and `depth` read or being read. The
    thread starts at the first item and has ended when the generator ends, is closed or is dropped;
    `blocks` is closed then. Errors of `blocks` are raised here, with their own traceback.

    Parameters
    ----------
    blocks : iterator, run in the thread alone until it is closed
    depth : items to read ahead; 0 reads each when it is asked for, without a thread
    n_threads : threads that may help it to decompress; None means as many as Numba has

    Raises
    ------
    ParameterError
        A depth below 0.

    Examples
    --------
    >>> list(read_ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    if depth < 0:
        raise ParameterError(f"depth={depth}; expected at least 0")
    return _read_ahead(blocks, depth, n_threads) if depth else _read_here(blocks, n_threads)


def _read_here(blocks: Iterator[T], n_threads: int | None) -> Generator[T, None, None]:
    context = copy_context()
    try:
        while (block := _waited(partial(context.run, _read, blocks, n_threads))) is not _END:
            yield block
            del block
    finally:
        if isinstance(blocks, Generator):
            blocks.close()


def _read_ahead(blocks: Iterator[T], depth: int, n_threads: int | None) -> Generator[T, None, None]:
    # An executor, not a bare thread: at the interpreter's exit it ends its idle thread by itself,
    # where a thread waiting on a queue would hang a script that left this generator half read.
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="streamrf-reader")

    def submitted() -> Future[Any]:
        return executor.submit(copy_context().run, _read, blocks, n_threads)

    try:
        ahead: deque[Future[Any]] = deque(submitted() for _ in range(depth))
        while (block := _waited(ahead.popleft().result)) is not _END:
            ahead.append(submitted())
            yield block
            del block  # or this item would live on while the next is waited for
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
        if isinstance(blocks, Generator):
            _close(blocks)


def _close(blocks: Generator) -> None:
    """Close a generator that the thread may still be in.

    It is where an interrupt came while the thread started: the executor does not know of it then.
    """
    while True:
        try:
            blocks.close()
            return
        except ValueError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # from within the generator
        time.sleep(0.001)


def _read(blocks: Iterator[Any], n_threads: int | None) -> Any:
    grant(n_threads)
    with stage("read"):
        return next(blocks, _END)


def _waited(block: Callable[[], Any]) -> Any:
    with stage("wait"):
        return block()
