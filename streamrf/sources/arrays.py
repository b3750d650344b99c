"""Rows of arrays in memory, or mapped into it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamrf.errors import EmptySourceError
from streamrf.sources.base import Arrays, Block, Store
from streamrf.sources.derived import names_of
from streamrf.sources.fingerprints import FINGERPRINT_ROWS, column_fingerprint, fingerprints
from streamrf.sources.seekable import Ranges, SeekableSource, cut
from streamrf.sources.validation import (
    as_matrix,
    as_numbers,
    check_no_grid,
    check_rank,
    targets_and_weights,
)


class ArraySource(SeekableSource):
    """Rows of arrays.

    Blocks are views if X is C-contiguous and of a dtype of `Block`; otherwise they are converted a
    block at a time, so a memory-mapped array is never read whole.

    Parameters
    ----------
    X : array-like of shape (n_rows, ...), numbers; rank above 2 is flattened row by row
    y : array-like of shape (n_rows,) or (n_rows, n_targets), or None
    weights : array-like of shape (n_rows,), or None

    Raises
    ------
    ShapeError
        Ragged rows, a wrong rank, a dtype without numbers, or y or weights of another length.
    DataError
        A sparse matrix, or objects that are neither numbers nor, in y, strings.
    EmptySourceError
        No rows.

    Notes
    -----
    The ledger key is the `fingerprint` of the rows. Two arrays whose first 64 rows are the same,
    all blank for example, count as one store.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> source = srf.ArraySource(np.eye(3), y=[0, 1, 1])
    >>> source.n_rows, source.n_features, source.has_targets
    (3, 3, True)
    """

    def __init__(
        self, X: ArrayLike, y: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> None:
        self.where = "X"
        self.names, self.target_names = names_of(X, "X"), names_of(y, "y")
        X = as_numbers(X, "X")
        check_rank(X.shape, "X")
        self.n_rows = len(X)
        self.row_shape = X.shape[1:]
        self.n_features = int(np.prod(self.row_shape))
        if not self.n_rows:
            raise EmptySourceError(
                f"X: 0 sample(s) (shape={X.shape}) while a minimum of 1 is required."
            )
        self._arrays = Arrays(X, *targets_and_weights(y, weights, self.n_rows))
        check_no_grid(X.shape, self._arrays.y, "X")
        self.has_targets = y is not None
        self.has_weights = weights is not None
        self._keys = fingerprints(as_matrix(X[:FINGERPRINT_ROWS], "X"))

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._arrays if array is not None)

    @property
    def stores(self) -> list[Store]:
        """The array."""
        return [Store.of(self._keys, self.where, self.n_rows)]

    @property
    def settings(self) -> dict[str, str | None]:
        """Fingerprints of targets and weights."""
        _, y, weights = self._arrays
        return {"y": column_fingerprint(y), "weights": column_fingerprint(weights)}

    @property
    def known_targets(self) -> tuple[NDArray[Any], NDArray[np.float64] | None] | None:
        """Those of the arrays."""
        _, y, weights = self._arrays
        return None if y is None else (y, weights)

    def _read(self, ranges: Ranges, block_rows: int) -> Iterator[Block]:
        for start, stop in ranges:
            arrays = self._arrays.take(slice(start, stop))
            yield from cut(arrays, start, block_rows, self._keys[-1], self.where)

    def _chunk(self, row: int) -> tuple[int, int]:
        return row, row + 1
