"""What the runners share: which rows to read, what adds them up, and where that is kept."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from streamrf.errors import EmptySourceError, ParameterError
from streamrf.sources import Block, Source, check_rows, read_ahead

R = TypeVar("R")
S = TypeVar("S", bound="Summary")
Update = Callable[[S, Block], None]
Progress = Callable[[int], None]
BLOCK_ROWS = 4096  # of a block of wide rows, of which more measured no faster
# Of narrow ones. What a block costs besides its rows, and threads that wait for the next loop to
# begin, took a tenth of a pass and a fifth of predictions by 512 features, in blocks of 4,096 rows.
BLOCK_BYTES, MAX_ROWS = 24 << 20, 32_768


def usual_rows(row_bytes: int) -> int:
    """Return how many rows a block has, by the bytes that one takes with all made of it."""
    return min(MAX_ROWS, max(BLOCK_ROWS, BLOCK_BYTES // row_bytes))


def window(source: Source, rows: tuple[int, int | None] | None) -> tuple[int, int | None]:
    """Return the first row to read and the one to stop before (None: unknown)."""
    start, stop = (0, None) if rows is None else rows
    if source.n_rows is not None:
        stop = source.n_rows if stop is None else min(stop, source.n_rows)
    if start < 0 or (stop is not None and start >= stop):
        known = "an unknown number" if source.n_rows is None else source.n_rows
        raise ParameterError(
            f"rows={rows} are no rows of {source.where}, which has {known}; give (start, stop) "
            "with 0 <= start < stop"
        )
    return start, stop


@dataclass(frozen=True)
class Reading:
    """Rows of a source and how to read them.

    Parameters
    ----------
    source : read once
    start, stop : rows ``[start, stop)``; a stop of None means to the end
    block_rows : about how many rows a block has
    on_bad_rows : "raise" or "skip" rows with NaN or infinity
    worker_bytes : memory that a worker of a cluster is going to need for it, 0 if unknown
    sizes : names and bytes of files, which a worker's are to have too
    """

    source: Source
    start: int = 0
    stop: int | None = None
    block_rows: int = BLOCK_ROWS
    on_bad_rows: str = "raise"
    worker_bytes: int = 0
    sizes: tuple[tuple[str, int], ...] = ()

    def part(self, start: int, stop: int) -> "Reading":
        """Return the reading of some rows, read in the same way."""
        return replace(self, start=start, stop=stop)

    @property
    def _is_one_block(self) -> bool:
        """Whether so few rows are to be read that none are left to read ahead."""
        stop = self.source.n_rows if self.stop is None else self.stop
        return stop is not None and stop - self.start <= self.block_rows

    def blocks(
        self, progress: Progress | None = None, n_threads: int | None = None
    ) -> Iterator[Block]:
        """Yield the checked blocks, read one ahead of their use where there are several.

        An iterator may be bound to the thread that made it, so it is read in this one.

        Parameters
        ----------
        progress : called with the number of rows done after each block
        n_threads : threads that may help to decompress; None means all

        Raises
        ------
        EmptySourceError
            If there are no rows at all.
        """

        def checked() -> Iterator[Block]:
            source, size = self.source, self.block_rows
            for block in source.blocks(self.start, self.stop, block_rows=size):
                yield check_rows(block, self.on_bad_rows)[0]

        found = False
        is_read_here = self._is_one_block or not self.source.is_rereadable
        for block in read_ahead(checked(), 0 if is_read_here else 1, n_threads):
            found = True
            yield block
            if progress is not None:
                progress(block.span)
        if not found and self.start == 0 and self.stop != 0:
            raise EmptySourceError(f"{self.source.where} has no rows")


class Addable(Protocol):
    """What travels between workers: a commutative monoid."""

    def __add__(self, other: Any, /) -> Any: ...


@dataclass(frozen=True)
class SideBySide:
    """What several summaries of the same rows have added up."""

    parts: tuple[Any, ...]  # each to be added to

    def __add__(self, other: "SideBySide") -> "SideBySide":
        return SideBySide(tuple(a + b for a, b in zip(self.parts, other.parts, strict=True)))


class Summary(ABC):
    """What rows are added up into.

    Attributes
    ----------
    is_ordered : whether the sums depend on their order, as those of floats do; shards are then
        absorbed one by one in the order of the rows, and not merged on the workers
    """

    is_ordered: ClassVar[bool] = False

    @abstractmethod
    def fresh(self) -> Self:
        """Return a summary that goes on from here by itself: each shard begins with one."""

    @abstractmethod
    def sealed(self) -> Addable:
        """Return what has been added up, to be sent and merged; the summary is then used up."""

    @abstractmethod
    def absorb(self, total: Any) -> None:
        """Go on from the merged sums of other rows."""


class StateStore(Generic[S]):
    """Where a fold keeps what it has added up, so that it can go on. This one keeps nothing."""

    def guarding(self, summary: S, update: Update[S]) -> AbstractContextManager[Update[S]]:
        """Return a context whose value updates `summary` and writes it between two blocks."""
        return nullcontext(update)

    def load(self, start: int, stop: int) -> S | None:
        """Return the summary of a shard that an earlier run finished, or None."""
        return None

    def has(self, start: int, stop: int) -> bool:
        """Return whether a shard seems to be kept, as far as is seen from here."""
        return False

    def save(self, start: int, stop: int, summary: S) -> None:
        """Keep the summary of a finished shard."""


class Runner(ABC):
    """A way to carry out a fold: in this process, or on a cluster."""

    @abstractmethod
    def fold(self, reading: Reading, zero: S, update: Update[S], store: StateStore[S]) -> S:
        """Add the rows into `zero`, in place, and return it; `store` keeps finished shards."""

    @abstractmethod
    def map(self, reading: Reading, function: Callable[[Block], R], row_bytes: int) -> Iterator[R]:
        """Yield ``function(block)`` of every block, in order; few wait at a time.

        `row_bytes` is the size of the result of a row.
        """

    @property
    @abstractmethod
    def memory_limits(self) -> dict[str, int] | None:
        """Bytes that each worker of a cluster may use, where limited, by its address.

        None in this process.
        """
