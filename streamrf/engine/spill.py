"""A folder that the workers of a cluster share: a file for each finished shard."""

import glob
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamrf import storage
from streamrf.engine.base import StateStore, Update
from streamrf.engine.checkpoint import S
from streamrf.errors import FormatError, Interruption, StorageError

SHARD = "shard"
FIRST = "start.checkpoint"


class ShardFolder(StateStore[S]):
    """A folder that the workers share: a file for each finished shard.

    Parameters
    ----------
    prefix : path of the files, without ``-start-stop.h5``
    read : rebuilds a summary from its tree
    """

    def __init__(self, prefix: str, read: Callable[[dict], S]):
        self._prefix = prefix
        self._read = read

    def load(self, start: int, stop: int) -> S | None:
        """Return the summary in a shard's file; None where there is no whole one."""
        path = self._path(start, stop)
        if not os.path.lexists(path):
            return None
        try:
            return self._read(storage.read(path, SHARD))
        except FormatError:
            return None

    def has(self, start: int, stop: int) -> bool:
        """Return whether there is a shard's file, whole or not, in the folder as it is here."""
        return os.path.lexists(self._path(start, stop))

    def save(self, start: int, stop: int, summary: S) -> None:
        """Write a shard's file."""
        storage.write(self._path(start, stop), SHARD, summary.to_tree())

    @contextmanager
    def guarding(self, summary: S, update: Update[S]) -> Iterator[Update[S]]:
        """Return a context that says of Ctrl-C how to go on; workers may finish shards after it."""
        try:
            yield update
        except KeyboardInterrupt as stop:
            n_shards = len(glob.glob(glob.escape(self._prefix) + "-*.h5"))
            held = f"{n_shards:,} finished {'shard' if n_shards == 1 else 'shards'} so far"
            state = "keeps the map, and no shard is finished yet"
            if n_shards:
                state = f"holds {held}: run the same again to go on from there"
            folder = os.path.dirname(self._prefix)
            raise Interruption(f"stopped; {folder} {state}", signal.SIGINT) from stop

    def _path(self, start: int, stop: int) -> str:
        return f"{self._prefix}-{start}-{stop}.h5"


def first_file(spill: str | os.PathLike) -> str:
    """Return the file in a spill folder, made if need be, that holds map and calibration."""
    folder = os.path.abspath(spill)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot make the spill folder {folder}: {storage.reason(error)}"
        ) from error
    return os.path.join(folder, FIRST)
