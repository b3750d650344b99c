"""Rows of Dask arrays, computed chunk by chunk."""

import sys
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from streamrf.errors import (
    DataError,
    EmptySourceError,
    ParameterError,
    ShapeError,
    check_readable,
)
from streamrf.sources.base import Arrays, Block, Store
from streamrf.sources.derived import names_of
from streamrf.sources.fingerprints import FINGERPRINT_ROWS, column_fingerprint, fingerprints
from streamrf.sources.seekable import Ranges, SeekableSource, cut
from streamrf.sources.validation import (
    as_matrix,
    check_no_grid,
    check_rank,
    targets_and_weights,
)


class DaskArraySource(SeekableSource):
    """Rows of Dask arrays.

    Blocks are computed one after the other, in the thread that reads; the arrays are never held
    whole. On a cluster the arrays' graph is sent once and each worker computes the rows of its
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
    DataError
        Masked entries; those of a chunk are found when it is read.
    EmptySourceError
        No rows.

    Notes
    -----
    The ledger key is the `fingerprint` of the rows, for which the first chunk is computed.

    Examples
    --------
    >>> import dask.array as da
    >>> import streamrf as srf
    >>> source = srf.DaskArraySource(da.ones((6, 2), chunks=(3, 2)), y=da.arange(6, chunks=3))
    >>> source.n_rows, source.n_features
    (6, 2)
    """

    def __init__(self, X: Any, y: Any = None, weights: Any = None) -> None:
        self.where = "X"
        if not is_dask_array(X):
            raise ParameterError(f"X is a {type(X).__name__}; expected a dask.array.Array")
        for name, array in (("X", X), ("y", y), ("weights", weights)):
            _check_known(name, array)
            check_not_persisted(name, array)
            check_readable(array, name)
        y, weights = (
            array if is_dask_array(array) else in_memory(array, name)
            for name, array in (("y", y), ("weights", weights))
        )
        check_rank(X.shape, "X")
        self.target_names = names_of(y, "y")
        self.n_rows = X.shape[0]
        self.row_shape = X.shape[1:]
        self.n_features = int(np.prod(self.row_shape))
        if not self.n_rows:
            raise EmptySourceError(f"X: 0 rows (shape={X.shape}); expected at least 1")
        for name, array in (("y", y), ("weights", weights)):
            if array is None:
                continue
            if not np.ndim(array):
                raise ShapeError(f"{name} is {array!r}; expected an array, one entry a row")
            if len(array) != self.n_rows:
                raise ShapeError(f"{name} has {len(array)} rows and X has {self.n_rows}")
        check_no_grid(X.shape, y, "X")
        self._arrays = Arrays(X, y, weights)
        self._borders = [0, *accumulate(X.chunks[0])]
        self.has_targets = y is not None
        self.has_weights = weights is not None
        self._keys = fingerprints(as_matrix(_computed(X[:FINGERPRINT_ROWS], "X"), "X"))

    @property
    def stores(self) -> list[Store]:
        """The array."""
        return [Store.of(self._keys, self.where, self.n_rows)]

    @property
    def buffer_bytes(self) -> int:
        """The chunks of some rows, all columns, and what they are computed from."""
        return 2 * max(self._arrays.X.chunks[0]) * self._arrays.X.dtype.itemsize * self.n_features

    @property
    def settings(self) -> dict[str, str | None]:
        """Fingerprints of targets and weights."""
        head = self._arrays.take(slice(0, FINGERPRINT_ROWS))
        return {
            "y": column_fingerprint(_computed(head.y, "y")),
            "weights": column_fingerprint(_computed(head.weights, "weights")),
        }

    def _read(self, ranges: Ranges, block_rows: int) -> Iterator[Block]:
        for start, stop in ranges:
            inside = [border for border in self._borders if start < border < stop]
            for low, high in pairwise([start, *inside, stop]):
                yield from cut(self._rows(low, high), low, block_rows, self._keys[-1], self.where)

    def _chunk(self, row: int) -> tuple[int, int]:
        index = bisect_right(self._borders, row)
        return self._borders[index - 1], self._borders[index]

    def _rows(self, low: int, high: int) -> Arrays:
        parts = self._arrays.take(slice(low, high))
        X, y, weights = map(_computed, parts, parts._fields)
        if len(X) != high - low:
            raise DataError(f"X, rows {low} to {high - 1}: the chunks gave shape {X.shape}")
        return Arrays(X, *targets_and_weights(y, weights, high - low))


def is_dask_array(X: Any) -> bool:
    """Return whether X is a Dask array, without importing Dask."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(X, dask.Array)


def _computed(array: Any, name: str) -> Any:
    """Compute an array in this thread; None of None. Raise DataError for masked entries."""
    if is_dask_array(array):
        array = computed(array, name)
    check_readable(array, name)
    return None if array is None else np.asarray(array)


def _check_known(name: str, array: Any) -> None:
    if is_dask_array(array) and any(np.isnan(size) for size in array.shape):
        raise ShapeError(
            f"{name} has chunks of unknown size (shape {array.shape}); learn them first: "
            f"{name}.compute_chunk_sizes(), or of a dataframe: df.to_dask_array(lengths=True)"
        )


def check_not_persisted(name: str, data: Any) -> None:
    """Raise if parts are results on a cluster, which a worker's own thread cannot compute.

    Parameters
    ----------
    data : an array or data frame of Dask; nothing is said of others
    """
    distributed = sys.modules.get("distributed")
    if distributed is None or not hasattr(data, "__dask_graph__"):
        return
    graph = dict(data.__dask_graph__())
    needed = {key for task in graph.values() for key in getattr(task, "dependencies", ())}
    if needed <= graph.keys() and not any(
        isinstance(task, distributed.Future) for task in graph.values()
    ):
        return
    raise ParameterError(
        f"{name} is persisted on a cluster, or made of results there; give it as it was before "
        "persist(), map() or submit(): for example made of dask.delayed(load)(path)"
    )


def in_memory(values: Any, name: str) -> Any:
    """Return targets or weights computed, if Dask has them, frames too; others as they are."""
    if not hasattr(values, "__dask_graph__") or values.__dask_graph__() is None:  # as of xarray
        return values
    check_not_persisted(name, values)
    return computed(values, name)


def computed(data: Any, name: str) -> Any:
    """Compute an array or data frame of Dask in this thread."""
    try:
        return data.compute(scheduler="synchronous")
    except RuntimeError as error:
        if "P2P" not in str(error):
            raise
        raise DataError(
            f"{name} is shuffled from worker to worker, which a thread alone cannot compute; make "
            "it with dask.config.set({'dataframe.shuffle.method': 'tasks', 'array.rechunk.method': "
            "'tasks'}), or write it to files first"
        ) from error
