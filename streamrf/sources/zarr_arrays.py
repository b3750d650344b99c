"""Zarr stores, of version 2 or 3, read by chunks."""

import math
import os
from collections.abc import Iterator
from typing import Any

from streamrf.errors import DatasetNotFoundError, MissingPackageError, ShapeError
from streamrf.sources.base import Arrays
from streamrf.sources.hdf5_trust import (
    MIN_STORED,
    SMALL_BYTES,
    check_there,
    not_stored,
    warn_of_lacking,
)
from streamrf.sources.paths import absolute, decoding
from streamrf.sources.store_folders import stored_files
from streamrf.sources.stored import LazyMatrix, MatrixSource
from streamrf.sources.validation import how_to_name

Name = str | None


class ZarrMatrix(LazyMatrix):
    """Arrays of a zarr group; or a store that is one array, without targets.

    Attributes
    ----------
    lacking : a sentence, if chunks of rows are not there
    """

    def __init__(
        self, name: str, x: Name, y: Name, weights: Name, allow_sparse: bool = False
    ) -> None:
        self._path = absolute(name)
        self._names = (x, y, weights)
        super().__init__(name)
        X = self._arrays.X
        self.lacking = ""
        if not allow_sparse:
            self.lacking = _checked(X, os.path.join(self._path, X.path), name)
        self._chunk_rows = X.chunks[0]
        self._row_bytes = X.dtype.itemsize * self.n_features

    @property
    def files(self) -> list[str]:
        """The folder."""
        return [self._path]

    @property
    def version(self) -> str:
        """None: the time of a folder is not that of the chunks in it."""
        return ""

    @property
    def buffer_bytes(self) -> int:
        """The chunks of some rows, all columns: as they were stored, unpacked, and joined."""
        return int(2.5 * self._chunk_rows * self._row_bytes)

    def chunk(self, row: int) -> tuple[int, int]:
        """Return the bounds of the chunks with a row."""
        start = row - row % self._chunk_rows
        return start, min(start + self._chunk_rows, self.n_rows)

    def read(self, start: int, stop: int) -> Arrays:
        """Return some rows; ChangedFileError where the store is gone, which zarr reads as zeros."""
        found = super().read(start, stop)
        check_there([self._path], self.where)
        return found

    def _open(self) -> Arrays:
        try:
            import zarr
        except ImportError as error:
            raise MissingPackageError(
                f"{self.where} is read by zarr, which is not installed: pip install "
                "'streamrf[zarr]'"
            ) from error
        with decoding(self.where):
            return self._of(zarr.open(self._path, mode="r"))

    def _of(self, store: Any) -> Arrays:
        from zarr import Array

        x, y, weights = self._names
        if isinstance(store, Array):
            if y is not None or weights is not None:
                raise ShapeError(
                    f"{self.where} is one array, without {y or weights!r}; keep X and y in a group"
                )
            return Arrays(store, None, None)
        wanted = {"x": x or "X", "y": y, "weights": weights}
        return Arrays(*(self._array(store, name, role) for role, name in wanted.items()))

    def _array(self, store: Any, name: Name, role: str) -> Any:
        if name is None:
            return None
        if name not in store or not hasattr(store[name], "chunks"):
            raise DatasetNotFoundError(
                f"{self.where} has no array {name!r}; it has {sorted(store.array_keys())}; "
                + how_to_name(role)
            )
        return store[name]


def _checked(array: Any, folder: str, where: str) -> str:
    """Return a sentence if chunks of rows are not there, else "".

    They hold nothing but the fill value, or are lost. Raise CorruptFileError if a large array
    stores less than a thousandth of them.
    """
    pieces = zip(array.shape, getattr(array, "shards", None) or array.chunks, strict=True)
    n_pieces = math.prod(-(-n // c) for n, c in pieces)
    n_files = sum(1 for _ in _chunk_files(folder))  # of which there may be millions
    n_bytes = math.prod(array.shape) * array.dtype.itemsize
    if n_bytes > SMALL_BYTES and n_files < MIN_STORED * n_pieces:
        stored = sum(map(os.path.getsize, _chunk_files(folder)))
        raise not_stored(where, array.shape[0], n_bytes, stored)
    if n_files >= n_pieces:
        return ""
    return (
        f"{where}: {n_pieces - n_files:,} of {n_pieces:,} chunks of rows are not there and are read"
        f" as the fill value, {array.fill_value}: so zarr keeps chunks of nothing else, and so "
        "looks a copy that is not whole; allow_sparse=True (--allow-sparse) if it is"
    )


def _chunk_files(folder: str) -> Iterator[str]:
    """Yield the files of an array but those that tell of it."""
    for file in stored_files(folder):
        name = os.path.basename(file)
        if not name.startswith(".z") and name != "zarr.json":
            yield file


def open_zarr(
    names: list[str], x: Name, y: Name, weights: Name, allow_sparse: bool = False
) -> MatrixSource:
    """Return the rows of zarr stores; `allow_sparse` as of `open_source`."""
    stores = [ZarrMatrix(name, x, y, weights, allow_sparse) for name in names]
    warn_of_lacking(store.lacking for store in stores)
    return MatrixSource(stores, {"x": x, "y": y, "weights": weights})
