"""One pass over rows that arrive once: what is at hand and the rest, cut into blocks."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sized
from typing import Any, Protocol, Self, TypeVar


class Part(Protocol):
    """Rows that came together."""

    @property
    def X(self) -> Sized: ...

    def take(self, rows: slice) -> Self:
        """Return some of the rows."""


P = TypeVar("P", bound=Part)


class Stream:
    """One pass: the rows pulled already, and the generator of the rest."""

    def __init__(self, rest: Generator[Any, None, None]) -> None:
        self.head: deque[Any] = deque()
        self._rest = rest

    def pull(self, n_rows: int) -> None:
        """Read until `n_rows` rows are at hand or the stream ends."""
        held = sum(len(rows.X) for rows in self.head)
        while held < n_rows:
            rows = next(self._rest, None)
            if rows is None:
                break
            self.head.append(rows)
            held += len(rows.X)

    def drain(self) -> Iterator[Any]:
        """All rows in order, forgetting each as it is given."""
        while self.head:
            yield self.head.popleft()
        yield from self._rest

    def close(self) -> None:
        self.head.clear()
        self._rest.close()


def windowed(items: Iterable[P], start: int, stop: int | None) -> Iterator[P]:
    """Yield the rows ``[start, stop)``; reads no item after `stop`."""
    first = 0
    for rows in items:
        n = len(rows.X)
        low, high = max(start - first, 0), n if stop is None else min(stop - first, n)
        if low < high:
            yield rows.take(slice(low, high))
        first += n
        if stop is not None and first >= stop:
            return


def grouped(items: Iterable[P], block_rows: int) -> Iterator[list[P]]:
    """Yield the parts of the same rows, `block_rows` at a time."""
    parts: list[P] = []
    held = 0
    for rows in items:
        low = 0
        while low < len(rows.X):
            high = min(low + block_rows - held, len(rows.X))
            parts.append(rows.take(slice(low, high)))
            held += high - low
            low = high
            if held == block_rows:
                yield parts
                parts, held = [], 0
    if parts:
        yield parts
