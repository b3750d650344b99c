"""How a run is carried out, apart from what it computes."""

import os
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from streamrf.display import format_bytes
from streamrf.errors import ParameterError, check_flag, check_kind, check_options

if TYPE_CHECKING:  # not imported by `import streamrf`, but by who makes a client
    from distributed import Client

CHECKPOINT_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run is carried out. No option changes a result.

    Parameters
    ----------
    engine : None (threads of this process), or a `distributed.Client`: the workers of its cluster
        read the rows, from where the source says, and add them up, each with all of its threads
    parts : shards of rows, one task each, on a cluster; None means what suits rows and workers
    spill : folder that the workers of a cluster share. Each shard's sums are kept there, and the
        same call goes on from those if the run was lost. Delete it when the result is safe.
    checkpoint : file that keeps the state of the pass. The same call goes on from it after the last
        row counted, whether the pass was killed, was interrupted, or had ended and the source has
        grown; the sums are those of a pass never interrupted, to the last bit (on rounded
        features). Map and calibration come from the file. An iterator must yield the rows counted
        once more; they are passed over. In the main thread, Ctrl-C and SIGTERM wait for the block
        in progress, write a last checkpoint and raise `KeyboardInterrupt`. What happens is logged
        by the logger "streamrf".
    checkpoint_every : seconds between two writings, stretched so that writing takes at most 2 % of
        the time; 0 writes after every block
    memory_limit : bytes or a string such as "2 GiB"; None means four fifths of what is free
    n_threads : threads that compute; None means all
    verbose : whether stages, rows, rate, memory and the time left are shown, on standard error or
        in the notebook; without a terminal as a line for each stage, then one every 30 s
    progress : called with the number of rows done after each block, or shard of a cluster
    outlook : called with an `Outlook` before a cluster begins

    Raises
    ------
    ParameterError
        If an option is not what it should be, or two contradict each other.

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.RunOptions(memory_limit="2 GiB", n_threads=1).n_threads
    1
    """

    engine: "Client | None" = field(default=None, metadata={"help": "Cluster that does it."})
    parts: int | None = field(
        default=None, metadata={"help": "Shards of rows, one task each (default: what suits)."}
    )
    spill: str | os.PathLike | None = field(
        default=None,
        metadata={
            "help": "Folder that the workers share: finished shards are kept there, and the same "
            "command goes on from them if the scheduler was lost."
        },
    )
    checkpoint: str | os.PathLike | None = field(
        default=None,
        metadata={
            "help": "File that keeps the state of the pass: the same command goes on from it after "
            "a kill, an interruption, or when the data have grown."
        },
    )
    checkpoint_every: float = field(
        default=CHECKPOINT_SECONDS,
        metadata={
            "help": "Time between two writings of it, longer where they would take over 2 % of "
            "the time (default: 300s); 0: after every block."
        },
    )
    memory_limit: int | str | None = field(
        default=None, metadata={"help": "Memory of this process (default: 4/5 of what is free)."}
    )
    n_threads: int | None = field(
        default=None, metadata={"help": "Threads that compute (default: all)."}
    )
    verbose: bool = False
    progress: Callable[[int], None] | None = None
    outlook: Callable[["Outlook"], None] | None = None

    @classmethod
    def of(cls, options: dict[str, Any], known: Iterable[str] | None = None) -> "RunOptions":
        """Return the options that keyword arguments stand for; ParameterError for others.

        `known` are the names of those that mean something here; None means all.
        """
        check_options(options, known or {field.name for field in fields(cls)})
        return cls(**options)

    def __post_init__(self) -> None:
        check_flag("verbose", self.verbose)
        if self.engine is not None:
            _check_client(self.engine)
        for name in ("checkpoint", "spill"):
            path = getattr(self, name)
            if not isinstance(path, str | bytes | os.PathLike | None):
                raise ParameterError(f"{name} must be a path, got {path!r}")
        for name in ("progress", "outlook"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise ParameterError(f"{name} must be a function, got {function!r}")
        for name in ("parts", "spill"):
            if self.engine is None and getattr(self, name) is not None:
                raise ParameterError(
                    f"{name} is for a cluster: give engine=, a distributed.Client, or leave {name} "
                    "out"
                )
        for name in ("parts", "n_threads"):
            count = getattr(self, name)
            if count is not None and not (isinstance(count, Integral) and int(count) > 0):
                raise ParameterError(f"{name} must be an integer of at least 1, got {count!r}")
        if self.checkpoint is not None and self.spill is not None:
            raise ParameterError("checkpoint and spill do the same; give one of them")
        if self.checkpoint is not None and self.engine is not None:
            raise ParameterError(
                "checkpoint is for a pass of one process; for one on a cluster give spill=, a "
                "folder that the workers share"
            )
        seconds = self.checkpoint_every
        if not (isinstance(seconds, Real) and 0 <= float(seconds) < threading.TIMEOUT_MAX):
            raise ParameterError(f"checkpoint_every must be seconds, at least 0, got {seconds!r}")


def check_run(run: object) -> None:
    """Raise ParameterError unless options of a run are whole, or None."""
    check_kind("run", run, RunOptions | None, "RunOptions or None")


def _check_client(engine: object) -> None:
    """Raise ParameterError unless `engine` is a synchronous client."""
    distributed = sys.modules.get("distributed")  # imported already, if there is a client
    if distributed is None or not isinstance(engine, distributed.Client):
        raise ParameterError(
            f"engine must be None or a distributed.Client, got {type(engine).__name__}"
        )
    if engine.asynchronous:
        raise ParameterError("engine is an asynchronous client; make it with asynchronous=False")


@dataclass(frozen=True)
class Worker:
    """A worker process.

    Parameters
    ----------
    n_threads : threads it computes with
    memory_limit : bytes it may use, None without a limit
    peak_bytes : most bytes it has had in use
    versions : names and versions of the packages that features depend on
    """

    n_threads: int
    memory_limit: int | None
    peak_bytes: int
    versions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Outlook:
    """What a run on a cluster is going to hold, known before it starts.

    Parameters
    ----------
    workers : by address
    shards : ranges of rows
    block_rows : rows of a block
    worker_bytes : estimate of the peak resident memory of a worker, 0 where there is none
    """

    workers: dict[str, Worker]
    shards: list[tuple[int, int]]
    block_rows: int
    worker_bytes: int

    def __str__(self) -> str:
        limits = [worker.memory_limit for worker in self.workers.values() if worker.memory_limit]
        of_limit = f" of {format_bytes(min(limits))}" if limits else ""
        n_shards, n_workers = len(self.shards), len(self.workers)
        return (
            f"{n_shards:,} shard{'s' * (n_shards != 1)} on {n_workers:,} worker"
            f"{'s, each of which' if n_workers != 1 else ', which'} will use up to "
            f"{format_bytes(self.worker_bytes)}{of_limit}"
        )
