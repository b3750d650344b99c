"""Rows of arrays in memory, or mapped into it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamrf.errors import EmptySourceError
from streamrf.sources.base import (
    FINGERPRINT_ROWS,
    Block,
    Source,
    Store,
    check_window,
    column_fingerprint,
    even_ranges,
    even_stretches,
    fingerprint,
    join_sample,
)
from streamrf.sources.validation import as_matrix, as_numbers, as_targets, check_rank, weight_column


class ArraySource(Source):
    """Rows of arrays.

    Blocks are views wherever X is C-contiguous and of a dtype that rows travel in; otherwise they
    are converted a block at a time, so a memory-mapped array is never read whole.

    Parameters
    ----------
    X : array-like of shape (n_rows, ...), numbers; rank above 2 is flattened row by row
    y : array-like of shape (n_rows,) or (n_rows, n_targets), or None
    weights : array-like of shape (n_rows,), or None

    Raises
    ------
    ShapeError, DataError
        As `as_matrix`, `as_targets` and `weight_column` tell.
    EmptySourceError
        No rows.

    Notes
    -----
    The ledger key is the `fingerprint` of the rows. Two arrays whose first 64 rows are the same,
    all blank for example, count as one store.
    """

    seekable = True

    def __init__(self, X: Any, y: Any = None, weights: Any = None):
        self.where = "X"
        self._X = as_numbers(X, "X")
        check_rank(self._X.shape, "X")
        self.n_rows: int = len(self._X)
        self.n_features = int(np.prod(self._X.shape[1:]))
        if not self.n_rows:
            raise EmptySourceError(
                f"X: 0 sample(s) (shape={self._X.shape}) while a minimum of 1 is required."
            )
        self._y = None if y is None else as_targets(y, self.n_rows, "y")
        self._weights = None if weights is None else weight_column(weights, self.n_rows, "weights")
        self.has_targets = y is not None
        self.has_weights = weights is not None
        self._key = fingerprint(as_matrix(self._X[:FINGERPRINT_ROWS], "X"))

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self._X, self._y, self._weights)
        return sum(array.nbytes for array in arrays if array is not None)

    @property
    def stores(self) -> list[Store]:
        """The array."""
        return [Store(self._key, self.where, self.n_rows)]

    @property
    def settings(self) -> dict[str, str | None]:
        """Fingerprints of targets and weights."""
        return {"y": column_fingerprint(self._y), "weights": column_fingerprint(self._weights)}

    def blocks(
        self, start: int = 0, stop: int | None = None, *, block_rows: int = 4096
    ) -> Iterator[Block]:
        """Give the rows ``[start, stop)`` in order, `block_rows` at a time."""
        start, end = check_window(self.n_rows, start, stop, block_rows)
        return self._read([(start, self.n_rows if end is None else end)], block_rows)

    def split(self, parts: int) -> list[tuple[int, int]]:
        """Cut all rows into at most `parts` ranges of about one length."""
        return even_ranges(self.n_rows, parts, border=lambda row: row)

    def sample(self, n_rows: int) -> Block:
        """Give about `n_rows` rows, the same each time, in 8 stretches spread over all.

        The block's `kept` holds the places of the rows.
        """
        stretches = even_stretches(self.n_rows, n_rows, border_before=lambda row: row)
        return join_sample(self._read(stretches, n_rows), self.n_rows, self.where)

    def _read(self, ranges: list[tuple[int, int]], block_rows: int) -> Iterator[Block]:
        for start, stop in ranges:
            for low in range(start, stop, block_rows):
                rows = slice(low, min(low + block_rows, stop))
                yield Block(
                    X=as_matrix(self._X[rows], self.where),
                    y=None if self._y is None else self._y[rows],
                    weights=None if self._weights is None else self._weights[rows],
                    position=low,
                    key=self._key,
                    row=low,
                    span=rows.stop - low,
                    kept=None,
                    where=self.where,
                )
