"""xarray's DataArrays in memory or in a file, which is read a few rows at a time."""

import sys
from typing import Any

import numpy as np

from streamrf.errors import EmptySourceError
from streamrf.sources.base import Arrays
from streamrf.sources.dask_array import DaskArraySource
from streamrf.sources.derived import names_of
from streamrf.sources.seekable import SeekableSource
from streamrf.sources.stored import GivenMatrix


class XarrayMatrix(GivenMatrix):
    """A DataArray, whose first dimension is the rows, with arrays of targets and weights."""

    def __init__(self, X: Any, y: Any, weights: Any) -> None:
        if X.ndim and not X.shape[0]:
            raise EmptySourceError(f"X: 0 rows (shape={X.shape}); expected at least 1")
        super().__init__(X, y, weights)
        pieces = X.encoding.get("preferred_chunks", {})  # of its file
        self._chunk_rows = int(pieces.get(X.dims[0], 1))

    @property
    def buffer_bytes(self) -> int:
        """A chunk of the file, all columns."""
        return self._chunk_rows * self.n_features * self._given.X.dtype.itemsize

    def chunk(self, row: int) -> tuple[int, int]:
        """Return the bounds of the chunk of the file with a row."""
        start = row - row % self._chunk_rows
        return start, min(start + self._chunk_rows, self.n_rows)

    def read(self, start: int, stop: int) -> Arrays:
        X, y, weights = super().read(start, stop)
        return Arrays(np.asarray(X), y, weights)


def is_xarray(X: Any) -> bool:
    """Return whether X is a DataArray, without importing xarray."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(X, xarray.DataArray)


def open_xarray(X: Any, y: Any, weights: Any) -> SeekableSource:
    """Return the rows of a DataArray, in memory, in a file, or of Dask arrays."""
    is_here = X.chunks is None
    source: SeekableSource
    source = (
        XarrayMatrix(X, y, weights).source() if is_here else DaskArraySource(X.data, y, weights)
    )
    source.names = names_of(X, "X")
    return source
