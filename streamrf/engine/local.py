"""The runner of one process: one thread reads ahead, the others compute."""

from collections.abc import Callable, Iterator

from streamrf.engine.base import Progress, R, Reading, Runner, S, StateStore, Update
from streamrf.jit.threads import computing
from streamrf.sources import Block


class LocalRunner(Runner):
    """Threads of this process.

    Parameters
    ----------
    n_threads : threads that compute; None means all
    progress : called with the number of rows done after each block
    """

    def __init__(self, n_threads: int | None = None, progress: Progress | None = None):
        self._n_threads = n_threads
        self._progress = progress

    def fold(self, reading: Reading, zero: S, update: Update[S], store: StateStore[S]) -> S:
        """Add block by block."""
        for block in reading.blocks(self._progress, self._n_threads):
            with computing(self._n_threads):
                update(zero, block)
        return zero

    def map(self, reading: Reading, function: Callable[[Block], R], row_bytes: int) -> Iterator[R]:
        """Yield the result of each block while the next one is read."""
        for block in reading.blocks(self._progress, self._n_threads):
            with computing(self._n_threads):
                result = function(block)
            yield result

    @property
    def memory_limits(self) -> None:
        """Return None: there are no workers."""
        return None
