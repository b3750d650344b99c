"""Sources of one store or many, each of which can be read from any row on."""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np

from streamrf.errors import EmptySourceError, ShapeError
from streamrf.sources.base import Arrays, Block, Store
from streamrf.sources.derived import names_of
from streamrf.sources.fingerprints import FINGERPRINT_ROWS, column_fingerprint, fingerprints
from streamrf.sources.labels import HEAD_ROWS, is_one_hot, places_of_ones
from streamrf.sources.paths import decoding, own_name, version
from streamrf.sources.seekable import Ranges, SeekableSource
from streamrf.sources.sparse import is_scipy_sparse, sparse_or_dense, total_entries
from streamrf.sources.validation import (
    as_matrix,
    check_no_grid,
    check_rank,
    check_targets_shape,
    check_weights_shape,
    matrix_dtype,
    targets_and_weights,
)


class Stored(ABC):
    """One store: holds paths and bounds, never an open file.

    Attributes
    ----------
    where : the store, for messages
    name : what tells it from stores that begin with the same rows, all equal
    n_rows : its rows
    """

    where: str
    name: str
    n_rows: int

    @property
    def files(self) -> list[str]:
        """Absolute paths or URLs of the files, or the folder, that it is read from."""
        return []

    @property
    def version(self) -> str:
        """What changes when a file of it is written to; empty where that is not known."""
        return ", ".join(map(version, self.files))

    @property
    def buffer_bytes(self) -> int:
        """Bytes held while reading, in addition to what is yielded."""
        return 0

    def chunk(self, row: int) -> tuple[int, int]:
        """Return the bounds of the piece that has to be read for a row."""
        return row, row + 1


class Matrix(Stored):
    """A store of numbers.

    Attributes
    ----------
    n_features : its columns
    row_shape : as of a `Source`
    has_targets, has_weights : whether `read` returns them
    """

    n_features: int
    has_targets: bool
    has_weights: bool
    row_shape: tuple[int, ...] = ()

    @property
    def n_entries(self) -> int | None:
        """Entries that are kept of a sparse store; None of a dense one."""
        return None

    @property
    def is_one_hot(self) -> bool:
        """Whether the first targets are classes that a file has written one-hot."""
        return False

    @abstractmethod
    def read(self, start: int, stop: int) -> Arrays:
        """Return some rows: X of any dtype or sparse, y and weights as they are or None."""

    @property
    def keys(self) -> list[str]:
        """`fingerprints`, the last of which is the ledger key."""
        X = as_matrix(self.read(0, min(FINGERPRINT_ROWS, self.n_rows)).X, self.where)
        return fingerprints(X, self.name)


class LazyMatrix(Matrix):
    """Arrays of a file, opened when they are first read, and anew in another process.

    Parameters
    ----------
    name : path as the user gave it

    Raises
    ------
    ShapeError, DataError
        X, y or weights of a wrong rank, length or dtype.
    """

    def __init__(self, name: str) -> None:
        self.where = name
        self.name = own_name(name)
        self._held: Arrays | None = None
        X, y, weights = self._arrays
        check_rank(X.shape, name)
        matrix_dtype(X.dtype, name)
        self.n_rows = X.shape[0]
        self.row_shape = X.shape[1:]
        self.n_features = math.prod(self.row_shape)
        self.has_targets, self.has_weights = y is not None, weights is not None
        if y is not None:
            check_no_grid(X.shape, y, name)
            check_targets_shape(y.shape, self.n_rows, f"{name}, y")
        if weights is not None:
            check_weights_shape(weights.shape, self.n_rows, f"{name}, weights")

    @abstractmethod
    def _open(self) -> Arrays:
        """Return the arrays, which have a shape, a dtype and slices of rows."""

    @property
    def _arrays(self) -> Arrays:
        if self._held is None:
            self._held = self._open()
        return self._held

    @property
    def n_entries(self) -> int | None:
        X = self._arrays.X
        return int(X.nnz) if is_scipy_sparse(X) else None

    @property
    def is_one_hot(self) -> bool:
        y = self._arrays.y
        if y is None or len(y.shape) != 2 or not self.files:  # of others users say what they are
            return False
        with decoding(self.where):
            return is_one_hot(np.asarray(y[:HEAD_ROWS]))

    def read(self, start: int, stop: int) -> Arrays:
        """Return some rows."""
        with decoding(f"{self.where}, rows {start} to {stop - 1},"):
            X, y, weights = self._arrays.take(slice(start, stop))
        if is_scipy_sparse(X):
            X = sparse_or_dense(X, matrix_dtype(X.dtype, self.where))
        return Arrays(X, y, weights)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_held": None}


class GivenMatrix(LazyMatrix):
    """A matrix that is there, or is lazy itself, with arrays of targets and weights or None."""

    def __init__(self, X: Any, y: Any, weights: Any) -> None:
        n = X.shape[0] if X.ndim else 0
        self._given = Arrays(X, *targets_and_weights(y, weights, n))
        self._target_names = names_of(y, "y")
        super().__init__("X")
        self.name = "X"  # of no file

    def _open(self) -> Arrays:
        return self._given

    def source(self) -> "MatrixSource":
        """Return the source of its rows."""
        _, y, weights = self._given
        settings = {"y": column_fingerprint(y), "weights": column_fingerprint(weights)}
        source = MatrixSource([self], settings)
        source.target_names = self._target_names
        return source


S = TypeVar("S", bound=Stored)


class StoredSource(SeekableSource, Generic[S]):
    """Rows of stores, one after the other."""

    def __init__(
        self, stores: Sequence[S], settings: dict[str, str | None], where: str | None = None
    ) -> None:
        self._list = [store for store in stores if store.n_rows]
        self._settings = settings
        wheres = [store.where for store in stores]
        several = f"{len(stores)} stores, {wheres[0]} to {wheres[-1]}"
        self.where = where or (wheres[0] if len(stores) == 1 else several)
        if not self._list:
            raise EmptySourceError(f"{self.where}: 0 rows; expected at least 1")
        self._borders = [0, *accumulate(store.n_rows for store in self._list)]
        self.n_rows = self._borders[-1]
        self._keys = [self._keys_of(store) for store in self._list]

    @property
    def stores(self) -> list[Store]:
        """The stores that have rows."""
        keyed = zip(self._list, self._keys, strict=True)
        return [Store.of(keys, store.where, store.n_rows) for store, keys in keyed]

    @property
    def files(self) -> list[str]:
        """Those of all stores."""
        return [file for store in self._list for file in store.files]

    @property
    def versions(self) -> list[str]:
        """Sizes of the files, and when they were last written to."""
        return [store.version for store in self._list]

    @property
    def buffer_bytes(self) -> int:
        """What the reading of one store holds."""
        return max(store.buffer_bytes for store in self._list)

    @property
    def settings(self) -> dict[str, str | None]:
        """Names of columns or datasets."""
        return self._settings

    @abstractmethod
    def _keys_of(self, store: S) -> list[str]:
        """Return the `fingerprints` of a store."""

    @abstractmethod
    def _blocks(
        self, store: S, ranges: Ranges, block_rows: int, first: int, key: str
    ) -> Iterator[Block]:
        """Yield the blocks of ascending ranges of a store, whose first row is the row `first`."""

    def _inside(self, ranges: Ranges) -> Iterator[tuple[int, S, Ranges]]:
        """Yield the first row of each store that is to be read, the store, and its ranges."""
        for first, store in zip(self._borders, self._list, strict=False):
            inside = [
                (max(start - first, 0), min(stop - first, store.n_rows))
                for start, stop in ranges
                if start < first + store.n_rows and stop > first
            ]
            if inside:
                yield first, store, inside

    def _read(self, ranges: Ranges, block_rows: int) -> Iterator[Block]:
        keys = dict(zip(self._borders, self._keys, strict=False))
        for first, store, inside in self._inside(ranges):
            yield from self._blocks(store, inside, block_rows, first, keys[first][-1])

    def _chunk(self, row: int) -> tuple[int, int]:
        index = bisect_right(self._borders, row) - 1
        first, store = self._borders[index], self._list[index]
        start, stop = store.chunk(row - first)
        return first + start, first + min(stop, store.n_rows)


class MatrixSource(StoredSource[Matrix]):
    """Rows of stores of numbers: `.npy` and `.npz` files, libsvm text, zarr; see `open_source`.

    Raises
    ------
    ShapeError
        Stores of different width, or of which only some have targets or weights.
    EmptySourceError
        No rows.
    """

    def __init__(self, stores: Sequence[Matrix], settings: dict[str, str | None]) -> None:
        first = stores[0]
        for store in stores:
            if store.n_features != first.n_features:
                raise ShapeError(
                    f"{store.where} has {store.n_features} features but {first.where} has"
                    f" {first.n_features}; all must have the same columns"
                )
        self.n_features, self.row_shape = first.n_features, first.row_shape
        self.has_targets = first.has_targets
        self.has_weights = first.has_weights
        self._is_one_hot = all(store.is_one_hot for store in stores if store.n_rows)
        super().__init__(stores, settings)

    @property
    def n_entries(self) -> int | None:
        return total_entries(self._list)

    def _keys_of(self, store: Matrix) -> list[str]:
        return store.keys

    def _blocks(
        self, store: Matrix, ranges: Ranges, block_rows: int, first: int, key: str
    ) -> Iterator[Block]:
        for start, stop in ranges:
            for low, high in _pieces(store, start, stop, block_rows):
                X, y, weights = store.read(low, high)
                wheres = f"{store.where}, y", store.where
                y, weights = targets_and_weights(y, weights, high - low, *wheres)
                if self._is_one_hot:
                    y = places_of_ones(y, wheres[0], low)
                arrays = Arrays(as_matrix(X, store.where), y, weights)
                for row in range(low, high, block_rows):
                    part = arrays.take(slice(row - low, row - low + block_rows))
                    n_rows = len(part.X)
                    yield Block(*part, first + row, key, row, n_rows, None, store.where)


def _pieces(store: Stored, start: int, stop: int, block_rows: int) -> Iterator[tuple[int, int]]:
    """Cut rows at chunk borders, into whole chunks where several fit a block."""
    low = start
    while low < stop:
        high = stop
        if low + block_rows < stop:
            high = min(max(store.chunk(low)[1], store.chunk(low + block_rows)[0]), stop)
        yield low, high
        low = high
