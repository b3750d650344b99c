"""Rows of Dask arrays, computed chunk by chunk."""

import sys
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from streamrf.errors import DataError, EmptySourceError, ParameterError, ShapeError
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
from streamrf.sources.validation import as_matrix, as_targets, check_rank, weight_column


class DaskArraySource(Source):
    """Rows of Dask arrays.

    Blocks are computed one after the other, in the thread that reads; the arrays are never held
    whole. On a cluster the arrays' graph goes along once and each worker computes the rows of its
    shards by itself, so they must not be persisted there.

    Parameters
    ----------
    X : dask.array.Array of shape (n_rows, ...), numbers; rank above 2 is flattened row by row
    y : dask.array.Array or array of shape (n_rows,) or (n_rows, n_targets), or None
    weights : dask.array.Array or array of shape (n_rows,), or None

    Raises
    ------
    ShapeError
        Chunks of unknown size, a wrong rank, or y or weights of another length.
    EmptySourceError
        No rows.

    Notes
    -----
    The ledger key is the `fingerprint` of the rows, for which the first chunk is computed.
    """

    seekable = True

    def __init__(self, X: Any, y: Any = None, weights: Any = None):
        self.where = "X"
        if not is_dask_array(X):
            raise ParameterError(f"X is a {type(X).__name__}; expected a dask.array.Array")
        for name, array in (("X", X), ("y", y), ("weights", weights)):
            _check_known(name, array)
            _check_not_persisted(name, array)
        check_rank(X.shape, "X")
        self.n_rows: int = X.shape[0]
        self.n_features = int(np.prod(X.shape[1:]))
        if not self.n_rows:
            raise EmptySourceError(f"X: 0 rows (shape={X.shape}); expected at least 1")
        for name, array in (("y", y), ("weights", weights)):
            if array is not None and len(array) != self.n_rows:
                raise ShapeError(f"{name} has {len(array)} rows and X has {self.n_rows}")
        self._arrays = (X, y, weights)
        self._borders = [0, *accumulate(X.chunks[0])]
        self.has_targets = y is not None
        self.has_weights = weights is not None
        head = slice(0, min(self.n_rows, FINGERPRINT_ROWS))
        self._key = fingerprint(as_matrix(_computed(X[head]), "X"))

    @property
    def stores(self) -> list[Store]:
        """The array."""
        return [Store(self._key, self.where, self.n_rows)]

    @property
    def settings(self) -> dict[str, str | None]:
        """Fingerprints of targets and weights."""
        head = slice(0, min(self.n_rows, FINGERPRINT_ROWS))
        y, weights = (a if a is None else _computed(a[head]) for a in self._arrays[1:])
        return {"y": column_fingerprint(y), "weights": column_fingerprint(weights)}

    def blocks(
        self, start: int = 0, stop: int | None = None, *, block_rows: int = 4096
    ) -> Iterator[Block]:
        """Give the rows ``[start, stop)`` in order, at most a chunk and `block_rows` at a time."""
        start, end = check_window(self.n_rows, start, stop, block_rows)
        return self._read([(start, self.n_rows if end is None else end)], block_rows)

    def split(self, parts: int) -> list[tuple[int, int]]:
        """Cut all rows into at most `parts` ranges of about one length, where chunks end."""
        borders = np.array(self._borders)
        return even_ranges(
            self.n_rows, parts, border=lambda row: int(borders[np.abs(borders - row).argmin()])
        )

    def sample(self, n_rows: int) -> Block:
        """Give about `n_rows` rows, the same each time, in 8 stretches spread over all.

        The block's `kept` holds the places of the rows.
        """
        borders = np.array(self._borders)
        stretches = even_stretches(
            self.n_rows,
            n_rows,
            border_before=lambda row: int(borders[borders.searchsorted(row, "right") - 1]),
        )
        return join_sample(self._read(stretches, n_rows), self.n_rows, self.where)

    def _read(self, ranges: list[tuple[int, int]], block_rows: int) -> Iterator[Block]:
        for start, stop in ranges:
            for low, high in self._pieces(start, stop):
                X, y, weights = self._chunk(low, high)
                for first in range(low, high, block_rows):
                    rows = slice(first - low, min(first + block_rows, high) - low)
                    yield Block(
                        X=as_matrix(X[rows], self.where),
                        y=None if y is None else y[rows],
                        weights=None if weights is None else weights[rows],
                        position=first,
                        key=self._key,
                        row=first,
                        span=rows.stop - rows.start,
                        kept=None,
                        where=self.where,
                    )

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut rows where chunks of X end."""
        inside = [border for border in self._borders if start < border < stop]
        bounds = [start, *inside, stop]
        yield from pairwise(bounds)

    def _chunk(self, low: int, high: int) -> tuple[np.ndarray, Any, Any]:
        X, y, weights = self._arrays
        X = _computed(X[low:high])
        y, weights = (None if a is None else _computed(a[low:high]) for a in (y, weights))
        if len(X) != high - low:
            raise DataError(f"X, rows {low} to {high - 1}: the chunks gave shape {X.shape}")
        y = None if y is None else as_targets(y, high - low, "y")
        weights = None if weights is None else weight_column(weights, high - low, "weights")
        return X, y, weights


def is_dask_array(X: Any) -> bool:
    """Tell whether X is a Dask array, without importing Dask."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(X, dask.Array)


def _computed(array: Any) -> np.ndarray:
    """Give the numbers of an array, computed in this thread."""
    if is_dask_array(array):
        array = array.compute(scheduler="synchronous")
    return np.asarray(array)


def _check_known(name: str, array: Any) -> None:
    if is_dask_array(array) and any(np.isnan(size) for size in array.shape):
        raise ShapeError(
            f"{name} has chunks of unknown size (shape {array.shape}); learn them first: "
            f"{name}.compute_chunk_sizes(), or of a dataframe: df.to_dask_array(lengths=True)"
        )


def _check_not_persisted(name: str, array: Any) -> None:
    """Refuse chunks that are results on a cluster, which a worker's own thread cannot compute."""
    distributed = sys.modules.get("distributed")
    if distributed is None or not is_dask_array(array):
        return
    graph = array.__dask_graph__()
    if any(isinstance(task, distributed.Future) for task in graph.values()):
        raise ParameterError(
            f"{name} is persisted on a cluster; give the array as it was before persist()"
        )
