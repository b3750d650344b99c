"""What runs on the workers and, to find those that are paused or asleep, on the scheduler."""

import os
import platform
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from streamrf.display import peak_bytes
from streamrf.engine.base import Reading, S, StateStore, Update
from streamrf.engine.local import LocalRunner
from streamrf.engine.options import Worker
from streamrf.errors import ChangedFileError, StreamrfError
from streamrf.jit.threads import computing
from streamrf.sources import Block

T = TypeVar("T")

BITS_OF = ("streamrf", "numba", "numpy", "scipy")  # packages that the bits of features depend on
BUSY = {"ready", "constrained", "executing", "long-running", "flight", "cancelled", "resumed"}
OVERDUE = 2.0  # seconds that messages wait, where Dask sends every few milliseconds
_one_shard = threading.Lock()  # a worker of many threads computes one shard at a time, with all


class ShardTask(ABC, Generic[T]):
    """What every worker holds: all that a shard needs but its range. Picklable."""

    @abstractmethod
    def summarise(self, start: int, stop: int, n_threads: int) -> T:
        """Return the summary of the rows ``[start, stop)``, the same whenever it is asked for."""


@dataclass(frozen=True)
class FoldTask(ShardTask[Any], Generic[S]):
    """Add up the rows of a shard, or take the sums that an earlier run has kept."""

    reading: Reading
    zero: S
    update: Update[S]
    store: StateStore[S]

    def summarise(self, start: int, stop: int, n_threads: int) -> Any:
        """Return the sealed sums."""
        check_sizes(self.reading.sizes)
        part = self.store.load(start, stop)
        if part is None:
            runner = LocalRunner(n_threads)
            reading = self.reading.part(start, stop)
            part = runner.fold(reading, self.zero.fresh(), self.update, StateStore())
            self.store.save(start, stop, part)
        return part.sealed()


@dataclass(frozen=True)
class MapTask(ShardTask[list], Generic[T]):
    """Apply a function to the blocks of a shard."""

    reading: Reading
    function: Callable[[Block], T]

    def summarise(self, start: int, stop: int, n_threads: int) -> list[T]:
        """Return the results of the blocks in order."""
        check_sizes(self.reading.sizes)
        return list(LocalRunner(n_threads).map(self.reading.part(start, stop), self.function, 0))


def summarise(task: ShardTask[T], start: int, stop: int) -> T:
    """Summarise a shard with all threads of the worker, while no other shard computes here.

    An error of ours goes without its causes: Dask would send one that it cannot pickle, such as
    those of network clients, as a plain Exception with the text of it.
    """
    from distributed import get_worker

    with _one_shard:
        try:
            return task.summarise(start, stop, get_worker().state.nthreads)
        except StreamrfError as error:
            error.__cause__ = error.__context__ = None
            raise


def check_sizes(sizes: tuple[tuple[str, int], ...]) -> None:
    """Raise ChangedFileError for a file that has another size here."""
    for file, size in sizes:
        if os.path.isfile(file) and (found := os.path.getsize(file)) != size:
            raise ChangedFileError(
                f"{file} has {found:,} bytes on the worker {platform.node()} and {size:,} where"
                " the run began: put the same file there"
            )


def merge(a: Any, b: Any) -> Any:
    """Add two summaries; neither is changed, because either may be needed again."""
    with computing(1):
        return a + b


def describe(dask_worker: Any) -> Worker:
    """Return the figures of this worker."""
    limit = dask_worker.memory_manager.memory_limit
    return Worker(dask_worker.state.nthreads, limit, peak_bytes(), versions())


def versions() -> tuple[tuple[str, str], ...]:
    """Return the versions here of the packages that the bits of features depend on."""
    return tuple((name, sys.modules[name].__version__) for name in BITS_OF)


def executing(dask_worker: Any) -> list:
    """Return the keys of the tasks that this worker computes."""
    return [task.key for task in dask_worker.state.executing]


@dataclass(frozen=True)
class Situation:
    """How far a worker is with a run."""

    busy: bool  # it computes for the run, is about to, or reads what it needs
    undelivered: tuple[str, list] | None  # why it could not read what keys of tasks wait for
    paused: bool = False  # it must begin nothing


def situation(run: str, dask_worker: Any) -> Situation:
    """Return how far this worker is with a run; wake its stream to the scheduler."""
    wake([getattr(dask_worker, "batched_stream", None)])
    states = {task.state for task in dask_worker.state.tasks.values() if run in str(task.key)}
    paused = dask_worker.status.name == "paused"
    return Situation(not BUSY.isdisjoint(states), _undelivered(run, dask_worker), paused)


def _undelivered(run: str, dask_worker: Any) -> tuple[str, list] | None:
    """Return why what tasks wait for could not be read, such as a missing module, and their keys.

    Dask keeps that to itself, and the tasks would wait for ever.
    """
    for task in dask_worker.state.tasks.values():
        waiting = [one.key for one in task.dependents if one.state == "waiting"]
        if task.state == "error" and waiting and run in str(task.key):
            return task.exception_text, waiting
    return None


def processing_at_paused(run: str, dask_scheduler: Any) -> dict[str, list]:
    """Return the keys of a run's tasks at workers that are paused, by their addresses."""
    return {
        address: keys
        for address, worker in dask_scheduler.workers.items()
        if worker.status.name == "paused"
        and (keys := [task.key for task in worker.processing if run in str(task.key)])
    }


def wake(streams: Iterable[Any]) -> None:
    """Have streams of Dask send the messages that have waited for seconds.

    Timers wake them; but one that is set while the machine's clock is ahead, as it was for a moment
    on a virtual machine, comes hours later.
    """
    for stream in streams:
        buffer, deadline = (getattr(stream, name, None) for name in ("buffer", "next_deadline"))
        if not buffer or not isinstance(deadline, float | int) or not hasattr(stream, "waker"):
            continue
        if time.time() > deadline + OVERDUE:
            stream.waker.set()


def wake_scheduler(dask_scheduler: Any) -> None:
    """Wake the streams of the scheduler to clients and workers."""
    for name in ("client_comms", "stream_comms"):
        wake(getattr(dask_scheduler, name, {}).values())
