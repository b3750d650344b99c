"""A pass cut into shards that workers add up; sums that travel without the map's arrays."""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamrf import engine, storage
from streamrf.errors import FormatError, StorageError
from streamrf.sources import Source
from streamrf.statistics import ExactGram, GramSum, packed_size
from streamrf.storage import digest, reason
from streamrf.training import memory
from streamrf.training.holdout import MOST_BYTES, Holdout

logger = logging.getLogger("streamrf")

KIND = "shard"
FIRST = "start.checkpoint"
SAFE_SHARE = 0.6  # of a worker's memory, above which Dask may spill
DASK_BYTES = 100 << 20  # distributed itself, in a worker
# Totals that a worker holds beside those of the shard it adds up: two that are merged, the sum of
# them, and one on its way.
SPARE_TOTALS = 4


@dataclass(frozen=True)
class EncoderName:
    """Stands for the encoder in sums that travel: its fingerprints."""

    digests: dict[str, str]


@dataclass(frozen=True)
class Part:
    """What some shards add up to: a commutative monoid as `Statistics` is.

    Parameters
    ----------
    statistics : with an `EncoderName` for the encoder
    holdouts : the rows held out, one holdout a shard
    """

    statistics: Any
    holdouts: tuple[Holdout, ...]

    @classmethod
    def of(cls, pass_: Any) -> "Part":
        """Take what a pass has added up, which is then not used any more."""
        statistics = pass_.finished()
        name = EncoderName(statistics.encoder.digests)
        held = () if pass_.holdout is None else (pass_.holdout,)
        return cls(replace(statistics, encoder=name), held)

    def __add__(self, other: "Part") -> "Part":
        return Part(self.statistics + other.statistics, self.holdouts + other.holdouts)


@dataclass(frozen=True)
class PassJob(engine.Job[Part]):
    """Add up the rows of a shard.

    Parameters
    ----------
    source : with targets
    pass_ : a `Pass` without rows
    block_rows, on_bad_rows : see `streamrf.engine.stream`
    spill : None, or the file of each finished shard, without ``-start-stop.h5``
    """

    source: Source
    pass_: Any
    block_rows: int
    on_bad_rows: str
    spill: str | None

    def summarise(self, start: int, stop: int, n_threads: int) -> Part:
        """Add up the rows, or take the sums that an earlier run has spilled."""
        if self.spill is None:
            return Part.of(self._added(start, stop, n_threads))
        path = f"{self.spill}-{start}-{stop}.h5"
        pass_ = self._spilled(path)
        if pass_ is None:
            pass_ = self._added(start, stop, n_threads)
            storage.write(path, KIND, pass_.to_tree())
        return Part.of(pass_)

    def _added(self, start, stop, n_threads):
        return engine.fold(
            self.source,
            self.pass_.copy(),
            type(self.pass_).update,
            n_threads=n_threads,
            start=start,
            stop=stop,
            block_rows=self.block_rows,
            on_bad_rows=self.on_bad_rows,
        )

    def _spilled(self, path):
        """Give the pass in a file; None where there is no whole one, which is then made again."""
        if not os.path.lexists(path):
            return None
        try:
            return type(self.pass_).from_tree(storage.read(path, KIND))
        except FormatError:
            return None


def first_file(spill: str | os.PathLike) -> str:
    """Give the file in a spill folder, made if need be, that holds map and calibration."""
    folder = os.path.abspath(spill)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the spill folder {folder}: {reason(error)}") from error
    return os.path.join(folder, FIRST)


@dataclass(frozen=True)
class Outlook:
    """What a run on a cluster is going to hold, told before it starts.

    Parameters
    ----------
    workers : by address
    shards : ranges of rows
    block_rows : rows of a block
    worker_bytes : estimate of the peak resident memory of a worker
    """

    workers: dict[str, engine.Worker]
    shards: list[tuple[int, int]]
    block_rows: int
    worker_bytes: int

    def __str__(self) -> str:
        limits = [worker.memory_limit for worker in self.workers.values()]
        least = min((limit for limit in limits if limit), default=None)
        return (
            f"{len(self.shards):,} shards on {len(self.workers):,} workers, each of which will use "
            f"up to {memory.shown(self.worker_bytes)}"
            + (f" of {memory.shown(least)}" if least else "")
        )


def run(
    client: Any,
    source: Source,
    pass_: Any,
    *,
    n_outputs: int,
    window: tuple[int, int | None] = (0, None),
    on_bad_rows: str = "raise",
    parts: int | None = None,
    spill: str | os.PathLike | None = None,
    progress: Callable[[int], None] | None = None,
    outlook: Callable[[Outlook], None] | None = None,
) -> None:
    """Add a source's rows into a pass on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
    source : re-readable, where the workers are too
    pass_ : a `Pass` without rows
    n_outputs : classes, bits or targets, for the memory
    window : rows ``[start, stop)``
    on_bad_rows, progress : see `streamrf.engine.stream`
    parts : shards, None for what suits rows and workers; the sums are the same
    spill : folder that the workers share, or None; there finished shards are kept
    outlook : called before the first read

    Raises
    ------
    MemoryBudgetError
        If the sums do not fit a worker's memory.
    """
    client = engine.as_client(client)
    workers = engine.workers(client)
    shards = engine.cut(source, window, parts, workers)
    plan = _plan(source, pass_, workers, n_outputs)
    ahead = Outlook(workers, shards, plan.block_rows, plan.total_bytes)
    logger.info("%s", ahead)
    if outlook is not None:
        outlook(ahead)
    name = None
    if spill is not None:
        name = os.path.join(os.path.abspath(spill), _name(source, pass_, on_bad_rows))
    job = PassJob(source, pass_, plan.block_rows, on_bad_rows, name)
    total = engine.map_reduce(client, job, shards, progress)
    pass_.absorb(total.statistics, total.holdouts)


def _plan(source, pass_, workers, n_outputs) -> memory.Plan:
    encoder = pass_.statistics.encoder
    limits = [worker.memory_limit for worker in workers.values() if worker.memory_limit]
    return worker_plan(
        encoder.n_components,
        encoder.n_features,
        n_outputs,
        gram=pass_.statistics.sums.gram_class,
        n_folds=pass_.statistics.n_folds,
        held_bytes=0 if pass_.holdout is None else MOST_BYTES,
        other_bytes=encoder.n_bytes + source.buffer_bytes,
        memory_limit=min(limits, default=None),
    )


def worker_plan(
    n_components: int,
    n_features: int,
    n_outputs: int,
    *,
    gram: type[GramSum] = ExactGram,
    n_folds: int = 0,
    held_bytes: int = 0,
    other_bytes: int = 0,
    memory_limit: int | None = None,
) -> memory.Plan:
    """Choose the block size of a worker, and say what it is going to hold.

    Parameters
    ----------
    n_components, n_features, n_outputs, gram, n_folds, held_bytes, other_bytes : see
        `streamrf.training.memory.plan`
    memory_limit : bytes of the worker, of which `SAFE_SHARE` are used; None means no limit

    Raises
    ------
    MemoryBudgetError
        If even the smallest block does not fit.
    """
    total = np.dtype(gram.dtype).itemsize * packed_size(n_components) + 8 * n_components * n_outputs
    return memory.plan(
        n_components,
        n_features,
        n_outputs,
        gram=gram,
        in_place=True,
        n_folds=n_folds,
        held_bytes=held_bytes + SPARE_TOTALS * max(n_folds, 1) * total + DASK_BYTES,
        other_bytes=other_bytes,
        memory_limit=None if memory_limit is None else int(SAFE_SHARE * memory_limit),
    )


def _name(source, pass_, on_bad_rows) -> str:
    """Give the beginning of the names of files that hold shards of one job."""
    holdout = pass_.holdout
    job = {
        "encoder": pass_.statistics.encoder.digests,
        "targets": type(pass_.statistics.sums.targets).__name__,
        "folds": pass_.statistics.n_folds,
        "stores": [store.key for store in source.stores],
        "versions": source.versions,
        "settings": source.settings,
        "on_bad_rows": on_bad_rows,
        "holdout": None if holdout is None else [holdout.limit, holdout.share],
    }
    return f"shard-{digest(job)[:16]}"
