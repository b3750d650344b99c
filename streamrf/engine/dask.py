"""The runner of a Dask cluster. The caller brings a `distributed.Client`."""

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from streamrf.engine.base import Progress, R, Reading, Runner, S, StateStore, Update
from streamrf.engine.options import Outlook, Worker
from streamrf.engine.shards import cut
from streamrf.engine.tasks import Shard, map_in_order, map_reduce, workers
from streamrf.engine.worker import FoldTask, MapTask, ShardTask
from streamrf.sources import Block

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("streamrf")


class DaskRunner(Runner):
    """The workers of a Dask cluster.

    Parameters
    ----------
    client : of the cluster
    parts : shards of rows; None means what suits rows and workers
    progress : called with the number of rows of each shard done
    outlook : called before the first read
    """

    def __init__(
        self,
        client: "Client",
        parts: int | None = None,
        progress: Progress | None = None,
        outlook: Callable[[Outlook], None] | None = None,
    ):
        self._client = client
        self._parts = parts
        self._progress = progress
        self._outlook = outlook

    @cached_property
    def _workers(self) -> dict[str, Worker]:
        return workers(self._client)

    @property
    def memory_limits(self) -> dict[str, int]:
        """Bytes that each worker may use, where limited, by its address."""
        limits = {name: worker.memory_limit for name, worker in self._workers.items()}
        return {name: limit for name, limit in limits.items() if limit}

    def fold(self, reading: Reading, zero: S, update: Update[S], store: StateStore[S]) -> S:
        """Add up shards and merge them where they lie; `store` keeps finished ones."""
        shards = self._shards(reading, 0)
        n_kept = sum(store.has(start, stop) for start, stop in shards)
        if n_kept:
            logger.info("%d of %d shards are done already, and not read again", n_kept, len(shards))
        task = FoldTask(_sized(reading), zero, update, store)
        if not zero.is_ordered:
            zero.absorb(map_reduce(self._client, task, shards, self._progress))
            return zero
        for part in map_in_order(self._client, task, shards, self._progress):
            zero.absorb(part)
        return zero

    def map(self, reading: Reading, function: Callable[[Block], R], row_bytes: int) -> Iterator[R]:
        """Yield the results of the blocks of each shard."""
        shards = self._shards(reading, row_bytes)
        task: ShardTask[list[R]] = MapTask(_sized(reading), function)
        for results in map_in_order(self._client, task, shards, self._progress):
            yield from results

    def _shards(self, reading: Reading, row_bytes: int) -> list[Shard]:
        """Return the ranges of rows, and report what is to come."""
        window = reading.start, reading.stop
        shards = cut(reading.source, window, self._parts, self._workers, row_bytes)
        outlook = Outlook(self._workers, shards, reading.block_rows, reading.worker_bytes)
        if reading.worker_bytes:  # there is an estimate
            logger.info("%s", outlook)
        if self._outlook is not None:
            self._outlook(outlook)
        return shards


def _sized(reading: Reading) -> Reading:
    """Return the reading with the sizes of the files here."""
    files = [file for file in reading.source.files if os.path.isfile(file)]
    return replace(reading, sizes=tuple((file, os.path.getsize(file)) for file in files))
