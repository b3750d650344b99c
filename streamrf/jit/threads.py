"""Thread counts and the compute lock.

Numba threads and BLAS threads take turns, each with the same count. Products that must not depend
on the count have threads of their own, which are kept for the next product. One thread of the
process computes at a time: Numba's ``workqueue`` layer aborts when entered from two threads.
"""

import functools
import gc
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any

import numba
import numpy as np
import threadpoolctl

Task = Callable[[Any], object]  # a function of one task
Each = Callable[[Task, Iterable[Any]], None]  # calls one for every task
SPIN = ("GOMP_SPINCOUNT", "1000")  # looks at a barrier before a thread sleeps: what GNU OpenMP
# itself takes where there are more threads than cores, which other programs it cannot know of
_lock: Any = threading.RLock()
_blas: int | None = None  # threads that BLAS was set to by who holds the lock
_granted: ContextVar[int | None] = ContextVar("streamrf_threads", default=None)


@functools.cache
def _controller() -> threadpoolctl.ThreadpoolController:
    return threadpoolctl.ThreadpoolController()


@numba.njit(cache=True)
def _nothing() -> None: ...


@functools.cache
def load_numba() -> None:
    """Let Numba load what it does at its first call, which takes half of a first prediction.

    Without the collector of garbage, which finds none, a fifth of that is spared. Threads that wait
    for one whose core another program has are to sleep soon, so that it gets theirs.
    """
    was_on = gc.isenabled()
    gc.disable()
    is_set = SPIN[0] in os.environ or "OMP_WAIT_POLICY" in os.environ
    if not is_set:  # for the moment in which the library is loaded and reads it
        os.environ[SPIN[0]] = SPIN[1]
    try:
        _nothing()
        numba.get_num_threads()  # starts them
    finally:
        if not is_set:
            os.environ.pop(SPIN[0], None)
        if was_on:
            gc.enable()


def grant(n_threads: int | None) -> None:
    """Set how many threads may help to read in this context; None means as many as Numba has."""
    _granted.set(n_threads)


def n_granted() -> int:
    """Return how many threads may help to read in this context."""
    limit = numba.config.NUMBA_NUM_THREADS
    return max(1, min(_granted.get() or limit, limit))


@contextmanager
def computing(n_threads: int | None = None) -> Iterator[int]:
    """Hold the compute lock with Numba and BLAS set to `n_threads` (None: as many as Numba has).

    Yields the thread count; restores both on leaving.
    """
    with _lock:
        load_numba()
        before = numba.get_num_threads()
        count = n_threads or before
        count = max(1, min(count, numba.config.NUMBA_NUM_THREADS))
        if count == before == _blas:  # set by a block around; to ask again takes 0.2 ms
            yield count
            return
        numba.set_num_threads(count)
        try:
            with _limited(count):
                yield count
        finally:
            numba.set_num_threads(before)


@contextmanager
def _limited(n_threads: int) -> Iterator[None]:
    """Set the threads of BLAS; the lock is held."""
    global _blas
    before, _blas = _blas, n_threads
    try:
        with _controller().limit(limits=n_threads, user_api="blas"):
            yield
    finally:
        _blas = before


@contextmanager
def featurising() -> Iterator[None]:
    """Hold the compute lock, with no warning where a feature overflows.

    Compiled loops never warn, so neither do the others; the rounding raises for what overflowed.
    """
    with computing(), np.errstate(over="ignore", invalid="ignore"):
        yield


@contextmanager
def single_blas_threads() -> Iterator[Each]:
    """Hold the compute lock with a pool of threads, each with one BLAS thread.

    A product computed by one thread on a fixed shape has the same bits whatever the thread count.
    Yields ``each(function, tasks)``, which calls ``function(task)`` for every task and returns when
    all are done. The threads work in the caller's context (`numpy.errstate`).
    """
    with computing() as count, _limited(1):
        if count == 1:
            yield one_by_one
            return
        pool = _pool(count)

        def each(function: Task, tasks: Iterable[Any]) -> None:
            queue = iter(list(tasks))  # one for all threads: whoever is free takes the next
            futures = [
                pool.submit(copy_context().run, one_by_one, function, queue) for _ in range(count)
            ]
            try:
                wait(futures)
            finally:  # none runs on when the first to fail is raised, nor after Ctrl-C
                list(queue)  # so that nobody takes more
                wait(futures)
            for future in futures:
                future.result()

        yield each


@functools.lru_cache(maxsize=1)
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Keep the threads: to start them takes as long as the tasks of a narrow panel."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="streamrf")


class _Forked:
    """Takes the lock's place where the threads of the parent are lost."""

    def __enter__(self) -> None:
        raise RuntimeError(
            "this process was forked from one that has computed already, and GNU OpenMP cannot go "
            "on in it; start processes by 'spawn' or 'forkserver' "
            "(multiprocessing.set_start_method), or joblib's 'loky', or fork before the first use"
        )

    def __exit__(self, *error: object) -> None: ...


def _after_fork() -> None:
    """Begin anew: a child has none of its parent's threads, one of which may hold the lock."""
    global _blas, _lock
    _pool.cache_clear()
    _blas = None
    try:
        layer = numba.threading_layer()
    except ValueError:  # none was started
        layer = ""
    _lock = _Forked() if layer == "omp" else threading.RLock()  # omp would end the process


if os.name == "posix":
    os.register_at_fork(after_in_child=_after_fork)


def one_by_one(function: Task, tasks: Iterable[Any]) -> None:
    """Call ``function(task)`` for every task, on the thread that calls."""
    for task in tasks:
        function(task)


def on_single_blas_threads(function: Task, tasks: Iterable[Any]) -> None:
    """Call ``function(task)`` for every task, see `single_blas_threads`."""
    with single_blas_threads() as each:
        each(function, tasks)
