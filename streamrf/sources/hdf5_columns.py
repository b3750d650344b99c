"""What rows, targets and weights of an HDF5 file are read as, block by block."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from streamrf.errors import BadRowError, ShapeError
from streamrf.jit.threads import n_granted
from streamrf.sources.hdf5_chunks import RowReader, read_rows, read_slices
from streamrf.sources.seekable import Ranges
from streamrf.sources.validation import warn_of_rounded

Fetch = Callable[[int, int, int], NDArray[Any]]  # entries of a part, from one to another


class Grid(NamedTuple):
    """Shape of a dataset, that of its chunks or None, bytes of a number; the first axis is rows."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...] | None
    itemsize: int

    @classmethod
    def of(cls, dataset: h5py.Dataset) -> "Grid":
        """Return that of a dataset whose first axis is that of rows."""
        return cls(dataset.shape, dataset.chunks, dataset.dtype.itemsize)


class Column(ABC):
    """Rows of numbers, targets or weights of an open file.

    Attributes
    ----------
    shape, dtype : of all rows
    parts : the datasets that are read along with rows
    others : those that are read at once
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    parts: tuple[h5py.Dataset, ...]
    others: tuple[h5py.Dataset, ...] = ()

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def is_text(self) -> bool:
        """Whether these are strings."""
        return self.dtype.kind == "U"

    @property
    def n_entries(self) -> int | None:
        """Entries that are kept of sparse rows; None of others."""
        return None

    @property
    def held_bytes(self) -> int:
        """Bytes that are kept from one block to the next."""
        return 0

    @property
    def grids(self) -> "list[Grid]":
        """How the datasets that are read along with rows lie in chunks."""
        return [Grid.of(part) for part in self.parts]

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk."""
        return self.grids[0].chunks[0] if self.grids[0].chunks else 1

    def ranges_of(self, ranges: Ranges) -> list[Ranges]:
        """Return what is read of each part for ranges of rows."""
        return [ranges] * len(self.parts)

    @abstractmethod
    def joined(self, low: int, high: int, fetch: Fetch, where: str) -> Any:
        """Return the rows ``[low, high)`` of what is fetched of the parts."""

    def read(self, low: int, high: int, where: str) -> Any:
        """Return some rows as the library reads them."""

        def fetch(part: int, start: int, stop: int) -> NDArray[Any]:
            return read_rows(self.parts[part], start, stop, where)

        return self.joined(low, high, fetch, where)


class Plain(Column):
    """A dataset."""

    def __init__(self, dataset: h5py.Dataset) -> None:
        self.parts = (dataset,)
        self.shape, self.dtype = dataset.shape, dataset.dtype

    @property
    def is_text(self) -> bool:
        """Whether these are strings."""
        return h5py.check_string_dtype(self.dtype) is not None

    def decoded(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return what rows mean that are read as they are stored."""
        return stored

    def joined(self, low: int, high: int, fetch: Fetch, where: str) -> Any:
        """Return the rows."""
        return self.decoded(fetch(0, low, high))


class Turned(Column):
    """A dataset whose last axis is that of rows, as languages write it that store columns first.

    It is read by the library: in rows, its chunks lie side by side.

    Parameters
    ----------
    column : the dataset as it is
    """

    def __init__(self, column: Plain) -> None:
        self.parts, self.others, self._column = (), column.parts, column
        self.shape, self.dtype = column.shape[::-1], column.dtype

    @property
    def is_text(self) -> bool:
        """Whether these are strings."""
        return self._column.is_text

    @property
    def grids(self) -> list[Grid]:
        """That of the dataset with its axes turned."""
        shape, chunks, itemsize = Grid.of(self.others[0])
        return [Grid(shape[::-1], chunks and chunks[::-1], itemsize)]

    def joined(self, low: int, high: int, fetch: Fetch, where: str) -> NDArray[Any]:
        """Return the rows, whose axes are in the opposite order, too."""
        stored = read_slices(self.others[0], (..., slice(low, high)), low, high, where)
        return self._column.decoded(stored).T


class Picked(Column):
    """One column out of the rows of another.

    Parameters
    ----------
    column : the other
    pick : what returns the one, of rows
    """

    def __init__(self, column: Column, pick: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        self.parts, self.others = column.parts, column.others
        self._column, self._pick = column, pick
        picked = pick(np.empty((0, *column.shape[1:]), column.dtype))
        self.shape, self.dtype = (len(column), *picked.shape[1:]), picked.dtype

    @property
    def is_text(self) -> bool:
        """Whether these are strings."""
        return self.dtype.kind == "U" or h5py.check_string_dtype(self.dtype) is not None

    def joined(self, low: int, high: int, fetch: Fetch, where: str) -> NDArray[Any]:
        """Return the column, of which no value may be missing."""
        found = self._pick(self._column.joined(low, high, fetch, where))
        check_labels(np.ma.getmaskarray(found), low, where)
        return np.ma.getdata(found)


class SeveralTargets(Column):
    """Targets in several datasets of one column each.

    Parameters
    ----------
    columns : by their paths
    where : what they are called in messages

    Attributes
    ----------
    paths, columns : of each
    names : the last parts of their paths, where these are different, as of other files or groups

    Raises
    ------
    ShapeError
        For one of text, of more columns or of another length.
    """

    def __init__(self, columns: Mapping[str, Column], where: str) -> None:
        self.paths, self.columns = tuple(columns), tuple(columns.values())
        self.names = _last_parts(columns)
        n_rows = self.columns[0].shape[:1]
        for name, column in columns.items():
            one_column = (*n_rows, *[1] * (len(column.shape) - 1))
            if column.is_text or not n_rows or column.shape != one_column:
                kind = "text" if column.is_text else f"shape {column.shape}"
                raise ShapeError(
                    f"{where}: {name!r} is of {kind}; several targets are a dataset each of "
                    "numbers, of shape (n_rows,), or one dataset with a column for each"
                )
        self.parts = tuple(part for column in self.columns for part in column.parts)
        self.others = tuple(part for column in self.columns for part in column.others)
        self.shape = (len(self.columns[0]), len(columns))
        self.dtype = np.result_type(*(column.dtype for column in self.columns))

    @property
    def held_bytes(self) -> int:
        """Of all of them."""
        return sum(column.held_bytes for column in self.columns)

    def ranges_of(self, ranges: Ranges) -> list[Ranges]:
        """Return what is read of the parts of each."""
        return [part for column in self.columns for part in column.ranges_of(ranges)]

    def joined(self, low: int, high: int, fetch: Fetch, where: str) -> NDArray[Any]:
        """Return the rows, a column for each."""
        found, first = [], 0
        for column in self.columns:

            def fetch_of(part: int, start: int, stop: int, first: int = first) -> NDArray[Any]:
                return fetch(first + part, start, stop)

            values = column.joined(low, high, fetch_of, where).reshape(high - low)
            if self.dtype.kind == "f":
                warn_of_rounded(values, where)
            found.append(values)
            first += len(column.parts)
        return np.ma.stack(found, axis=1) if any(map(np.ma.isMA, found)) else np.stack(found, 1)


def _last_parts(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the last parts of paths, or all of them where two have the same.

    Examples
    --------
    >>> _last_parts(["train/wind", "/rain.T"]), _last_parts(["a/wind", "b/wind"])
    (('wind', 'rain'), ('a/wind', 'b/wind'))
    """
    plain = [path.strip("/").removesuffix(".T") for path in paths]
    last = [path.rpartition("/")[2] for path in plain]
    return tuple(last if len(set(last)) == len(last) else plain)


def check_labels(is_missing: NDArray[np.bool_], low: int, where: str) -> None:
    """Raise BadRowError for a label that is missing."""
    if is_missing.any():
        raise BadRowError(
            f"{where}, row {low + int(is_missing.argmax())}: the target is missing, and a missing "
            "label can be neither filled in nor skipped; take such rows out"
        )


class Pixels(Column):
    """Places on the first axes of a dataset, each a row: pixels of images, or steps of series.

    Parameters
    ----------
    column : the dataset
    n_axes : how many axes, two or more
    """

    def __init__(self, column: "Plain | Turned", n_axes: int) -> None:
        self.parts, self.others, self._column = column.parts, column.others, column
        self.dtype = column.dtype
        self._across = math.prod(column.shape[1:n_axes])
        self.shape = (column.shape[0] * self._across, *column.shape[n_axes:])
        self._held: tuple[int, int, Any] = (0, 0, None)  # lines read last, and their rows

    @property
    def is_text(self) -> bool:
        """Whether these are strings."""
        return self._column.is_text

    @property
    def held_bytes(self) -> int:
        """Two lines, as a block may end in the first and begin in the second."""
        return 2 * self._across * math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def grids(self) -> list[Grid]:
        """Those of the dataset."""
        return self._column.grids

    @property
    def chunk_rows(self) -> int:
        """Rows of the lines of a chunk."""
        return self._column.chunk_rows * self._across

    def ranges_of(self, ranges: Ranges) -> list[Ranges]:
        """Return the lines that have the rows."""
        return [[self._lines(*bounds) for bounds in ranges]] * len(self.parts)

    def joined(self, low: int, high: int, fetch: Fetch, where: str) -> Any:
        """Return the rows; a line that several blocks have is kept until the next is read."""
        first, last = self._lines(low, high)
        if not self._held[0] <= first <= last <= self._held[1]:
            self._held = (0, 0, None)  # so that only one is there at a time
            lines = self._column.joined(first, last, fetch, where)
            self._held = first, last, lines.reshape(-1, *self.shape[1:])
        first, _, rows = self._held
        return rows[low - first * self._across : high - first * self._across]

    def _lines(self, low: int, high: int) -> tuple[int, int]:
        return low // self._across, -(-high // self._across)


class ColumnReader:
    """Rows of a column, read in ascending order by the readers of its parts.

    Parameters
    ----------
    column, ranges, where, pool, n_threads : see `RowReader`
    """

    def __init__(
        self, column: Column, ranges: Ranges, where: str, pool: Executor, n_threads: int
    ) -> None:
        self._column, self._where = column, where
        self._readers = [
            RowReader(part, inside, where, pool, n_threads)
            for part, inside in zip(column.parts, column.ranges_of(ranges), strict=True)
        ]

    def read(self, low: int, high: int) -> Any:
        """Return the rows ``[low, high)`` of a range, or raise CorruptFileError."""
        return self._column.joined(low, high, self._fetch, self._where)

    def _fetch(self, part: int, start: int, stop: int) -> NDArray[Any]:
        return self._readers[part].read(start, stop)


def as_pixels(
    x: Column, y: Column | None, weights: Column | None, is_grid: bool = False
) -> tuple[Column, Column | None, Column | None]:
    """Return columns with pixels as rows, where they are grids of these; else as they are.

    So they are where y has an entry for each place on all axes of X but the last.

    Parameters
    ----------
    x : of two axes at least
    is_grid : whether they are taken for grids without y
    """
    grid = x.shape[:-1]
    is_grid = is_grid or (y is not None and y.shape == grid and not isinstance(y, SeveralTargets))
    if not is_grid or len(grid) < 2 or 0 in grid or not isinstance(x, Plain | Turned):
        return x, y, weights

    def changed(column: Column | None) -> Column | None:
        if isinstance(column, Plain | Turned) and column.shape == grid:
            return Pixels(column, len(grid))
        return column

    return Pixels(x, len(grid)), changed(y), changed(weights)


@contextmanager
def readers(
    columns: Iterable[Column | None], ranges: Ranges, wheres: list[str]
) -> Iterator[list[ColumnReader | None]]:
    """Yield what reads the rows of columns, see `RowReader`; its threads end with it."""
    n_threads = n_granted()
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="streamrf-chunks")
    try:
        yield [
            None if column is None else ColumnReader(column, ranges, where, pool, n_threads)
            for column, where in zip(columns, wheres, strict=True)
        ]
    finally:
        pool.shutdown(cancel_futures=True)
