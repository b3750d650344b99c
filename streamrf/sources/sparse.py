"""Rows of many columns that are mostly zero, dense only where and while they are looked at."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from streamrf.errors import DataError
from streamrf.jit.arrays import I64
from streamrf.storage import Fields

MAX_DENSE = 4096  # columns up to which sparse rows are made dense when they are read
PIECE_BYTES = 16 << 20  # of rows or columns that are dense at a time


class SparseRows:
    """Rows as SciPy's CSR, with the little of an array's face that blocks of rows need.

    Parameters
    ----------
    csr : (n, n_features), finite or not; dtype as of `Block`
    """

    def __init__(self, csr: "scipy.sparse.csr_array") -> None:
        self._csr = csr

    @classmethod
    def joined(cls, parts: Sequence["SparseRows"]) -> "SparseRows":
        """Return the rows of all parts, one part after the other."""
        return cls(scipy.sparse.vstack([part._csr for part in parts], format="csr"))

    @property
    def shape(self) -> tuple[int, int]:
        return self._csr.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._csr.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of an entry, dense."""
        return int(self._csr.dtype.itemsize)

    def __len__(self) -> int:
        return int(self._csr.shape[0])

    def __getitem__(self, rows: slice | NDArray[Any]) -> "SparseRows":
        return SparseRows(self._csr[rows])

    def taken(self, columns: NDArray[Any]) -> "SparseRows":
        """Return some columns in an order."""
        csr = self._csr[:, columns]
        csr.sort_indices()
        return SparseRows(csr)

    @property
    def entries(self) -> tuple[NDArray[Any], I64, I64]:
        """Values, columns (ascending within a row), and where the entries of rows begin and end."""
        csr = self._csr
        return csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)

    @property
    def data(self) -> NDArray[Any]:
        """The entries that are kept, row by row."""
        return self._csr.data

    def are_all(self, claim: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Return whether a claim is true of all entries of each row, (n,)."""
        row = np.repeat(np.arange(len(self)), np.diff(self._csr.indptr))
        counts = np.bincount(row[~claim(self.data)], minlength=len(self))
        return counts == 0

    def dense(self) -> NDArray[Any]:
        """Return the rows as an array."""
        return self._csr.toarray()

    def tolist(self) -> list[Any]:
        """Return the columns and values of the entries of each row."""
        cut = self._csr.indptr[1:-1]
        pairs = zip(np.split(self._csr.indices, cut), np.split(self.data, cut), strict=True)
        return [(columns.tolist(), values.tolist()) for columns, values in pairs]

    def by_columns(self, function: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
        """Return ``function`` of all columns, (n, k) to (..., k), of some columns at a time."""
        n, d = self.shape
        width = max(2, PIECE_BYTES // max(1, n * self.itemsize))
        csc, parts = self._csr.tocsc(), []
        for first in range(0, d, width):
            start = max(0, min(first, d - 2))  # NumPy adds up a single column in another order
            dense = csc[:, start : first + width].toarray(order="C")
            parts.append(function(dense)[..., first - start :])
        return np.concatenate(parts, axis=-1)

    def to_tree(self) -> dict[str, Any]:
        """Return the rows as a tree."""
        values, columns, ends = self.entries
        return {"values": values, "columns": columns, "ends": ends[1:]}

    @classmethod
    def from_tree(cls, fields: Fields, shape: tuple[int, int]) -> "SparseRows":
        """Return what `to_tree` described, rows of a shape."""
        values = fields.array("values", "iuf", (None,))
        n = len(values)
        columns = fields.indices("columns", np.int64, (n,), shape[1])
        ends = fields.indices("ends", np.int64, (shape[0],), n + 1)
        fields.end()
        starts = np.concatenate(([0], ends))
        if (np.diff(starts) < 0).any() or starts[-1] != n:
            raise fields.wrong("ends", "are not those of the values in order")
        return cls(scipy.sparse.csr_array((values, columns, starts), shape=shape))


Numbers = NDArray[Any] | SparseRows


def as_csr(X: Any, where: str) -> Any:
    """Return a SciPy matrix in the format CSR; raise DataError for entries outside of it.

    SciPy checks no indices, and code in C writes where they say.
    """
    if X.format in ("csr", "csc", "bsr"):
        try:
            X.check_format(full_check=True)
        except ValueError as error:
            raise DataError(
                f"{where} is a sparse matrix with entries outside of it ({error}); write it again"
            ) from error
    return X.tocsr()


def is_scipy_sparse(X: Any) -> bool:
    """Return whether these are SciPy's sparse rows, which nobody has who has not imported it."""
    return "scipy.sparse" in sys.modules and scipy.sparse.issparse(X)


def sparse_or_dense(X: Any, dtype: Any) -> Numbers:
    """Return rows of a SciPy matrix, dense up to `MAX_DENSE` columns.

    Parameters
    ----------
    X : sparse, of any format
    dtype : of the result
    """
    if X.shape[1] <= MAX_DENSE:
        return np.ascontiguousarray(X.toarray(), dtype=dtype)
    csr = scipy.sparse.csr_array(X, dtype=dtype)
    csr.sum_duplicates()
    return SparseRows(csr)


def total_entries(parts: Sequence[Any]) -> int | None:
    """Return the entries kept in all files or stores, by their `n_entries`; None of dense ones."""
    return None if parts[0].n_entries is None else sum(part.n_entries or 0 for part in parts)


def values_of_sparse(n_entries: int, n_rows: int) -> int:
    """Return how many numbers a sparse row holds, of so many entries in all rows."""
    return 1 + 2 * -(-n_entries // max(1, n_rows))


def dense_pieces(X: Numbers) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield slices of rows with the rows, as arrays: all at once where they are dense."""
    if not isinstance(X, SparseRows):
        yield slice(0, len(X)), X
        return
    step = max(16, PIECE_BYTES // (X.itemsize * X.shape[1]) // 16 * 16)  # whole groups of lanes
    for start in range(0, len(X), step):
        rows = slice(start, min(start + step, len(X)))
        yield rows, X[rows].dense()


def by_columns(X: Numbers, function: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
    """Return ``function(X)``, of each column by itself, with the same bits for sparse rows."""
    return X.by_columns(function) if isinstance(X, SparseRows) else function(X)


def columns_of(X: Numbers, columns: Sequence[int] | NDArray[Any]) -> Numbers:
    """Return some columns in an order."""
    places = np.asarray(columns)
    return X.taken(places) if isinstance(X, SparseRows) else np.ascontiguousarray(X[:, places])


def stacked(parts: Sequence[Numbers]) -> Numbers:
    """Return the rows of all parts, one part after the other."""
    sparse = [part for part in parts if isinstance(part, SparseRows)]
    if not sparse:
        return np.concatenate(parts)  # type: ignore[arg-type] # of which none is sparse
    assert len(sparse) == len(parts), "rows of two kinds"
    return SparseRows.joined(sparse)
