"""Zarr stores, of version 2 or 3, read by chunks."""

import base64
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest
from itertools import product
from operator import lt
from stat import S_ISDIR
from typing import Any, NamedTuple

import numpy as np

from streamrf.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    MissingPackageError,
    ShapeError,
)
from streamrf.sources.base import Arrays
from streamrf.sources.hdf5_trust import (
    MIN_STORED,
    SMALL_BYTES,
    check_there,
    not_stored,
    warn_of_lacking,
)
from streamrf.sources.packing import NUMBERS, Attributes, Packing
from streamrf.sources.paths import absolute, decoding
from streamrf.sources.store_folders import stored_files
from streamrf.sources.stored import LazyMatrix, MatrixSource
from streamrf.sources.validation import how_to_name

Name = str | None

N_LOOKED_AT = 3  # chunks of targets or weights, whether these are in an order
LOOKED_AT_ROWS = 4096  # of each
ZARR_BYTES = 60 << 20  # zarr and its threads once chunks were read, measured
_CHANGED_BYTES = 16  # that an entry takes while it is unpacked: its product, and the result
_BLOSC_BYTES = 16  # of a header, whose last four are the length of all
_CHUNK = re.compile(r"(c[./\\])?\d+([./\\]\d+)*")  # of any version and separator


class ZarrMatrix(LazyMatrix):
    """Arrays of a zarr group; or a store that is one array, without targets.

    Attributes
    ----------
    lacking : a sentence, if chunks of rows, targets or weights are not there
    """

    def __init__(
        self, name: str, x: Name, y: Name, weights: Name, allow_sparse: bool = False
    ) -> None:
        self._path = absolute(name)
        self._names = (x, y, weights)
        super().__init__(name)
        X = self._arrays.X
        self.lacking = ""
        for role, array in self._arrays._asdict().items():
            if array is not None and not allow_sparse:
                where = name if role == "X" else f"{name}, array {array.path!r}"
                told = _checked(array, os.path.join(self._path, array.path), where, role != "X")
                self.lacking = self.lacking or told
        self._packings = [
            None if array is None else _packing(array, name) for array in self._arrays
        ]
        self._chunk_rows = X.chunks[0]
        changed = 0 if self._packings[0] is None else _CHANGED_BYTES
        self._row_bytes = (X.dtype.itemsize + changed) * self.n_features

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
        """What zarr holds, and the chunks of some rows: as stored, unpacked, and joined."""
        return ZARR_BYTES + int(2.5 * self._chunk_rows * self._row_bytes)

    def chunk(self, row: int) -> tuple[int, int]:
        """Return the bounds of the chunks with a row."""
        start = row - row % self._chunk_rows
        return start, min(start + self._chunk_rows, self.n_rows)

    def read(self, start: int, stop: int) -> Arrays:
        """Return some rows, numbers that are packed as what they are.

        ChangedFileError where the store is gone, which zarr reads as zeros.
        """
        for array in self._arrays:
            if array is not None:
                _check_whole(array, os.path.join(self._path, array.path), start, stop, self.where)
        found = super().read(start, stop)
        check_there([self._path], self.where)
        return Arrays(*map(_unpacked, found, self._packings))

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


def is_packed(array: Any) -> bool:
    """Return whether attributes change the numbers of an array."""
    return _attributes_of(array).are_of_packed


def _packing(array: Any, where: str) -> Packing | None:
    """Return what becomes of the numbers of an array; None where they are as they are stored."""
    told = _attributes_of(array)
    return Packing(told, where, keeps_integers=True) if told.are_of_packed else None


def _attributes_of(array: Any) -> Attributes:
    """Return what is told of an array; xarray writes its `_FillValue` as its own in version 2."""
    told = dict(array.attrs)
    if array.metadata.zarr_format == 2 and "_ARRAY_DIMENSIONS" in told:
        told["_FillValue"] = array.fill_value
    numbers = {name: _as_numbers(told[name], array.dtype) for name in NUMBERS & told.keys()}
    found = {name: value for name, value in numbers.items() if value is not None}
    return Attributes(array.dtype, found | {"_Unsigned": told.get("_Unsigned")})


def _as_numbers(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return an attribute as an array of numbers, integers in a dtype that holds them; else None.

    zarr writes NaN and Infinity as text, and xarray floats in base 64 in version 3.
    """
    if value in ("NaN", "Infinity", "-Infinity"):
        return np.array([float(value)])
    if isinstance(value, str):
        try:
            return np.frombuffer(base64.b64decode(value, validate=True), "<f8")
        except ValueError:
            return None
    try:
        found = np.ravel(value)
    except ValueError:  # lists of different lengths
        return None
    if found.dtype.kind == "i" and dtype.kind == "i" and (found == found.astype(dtype)).all():
        return found.astype(dtype)
    return found if found.dtype.kind in "iuf" else None


def _unpacked(values: Any, packing: Packing | None) -> Any:
    return values if packing is None else packing.decoded(np.asarray(values))


def _check_whole(array: Any, folder: str, start: int, stop: int, where: str) -> None:
    """Raise CorruptFileError for a file of a chunk or shard of rows that is not whole.

    Those that are not there are told by `_checked`. An empty shard, a link that leads to nothing,
    and what lies beyond the end of a shard whose index is at its start are read as if they were not
    there, and Blosc reads on in whatever is in memory where a chunk ends before its header says.
    Other codecs fail by themselves.
    """
    head = _Head.of(array)
    rows, *others = getattr(array, "shards", None) or array.chunks
    columns = (range(-(-n // c)) for n, c in zip(array.shape[1:], others, strict=True))
    for place in product(range(start // rows, -(-stop // rows)), *columns):
        key = array.metadata.encode_chunk_key(place)
        if fault := _fault(os.path.join(folder, key), head):
            name = f"{array.path}/{key}".strip("/")
            raise CorruptFileError(
                f"{where}: the chunk {name} {fault}; it is damaged, or was not copied whole: copy "
                "or write it again"
            )


class _Head(NamedTuple):
    """What some bytes of the file of a chunk or shard tell of its length.

    Parameters
    ----------
    n_bytes : how many these are; 0 where they tell nothing
    length : returns what they say
    is_last : whether they are the last ones, after as many bytes as they say
    """

    n_bytes: int
    length: Callable[[bytes], int]
    is_last: bool = False

    @classmethod
    def of(cls, array: Any) -> "_Head":
        """Return that of the chunks or shards of an array."""
        shards = getattr(array, "shards", None)
        if shards is not None:
            (sharding,) = array.metadata.codecs
            sizes = zip(shards, sharding.chunk_shape, strict=True)  # of chunks or shards in it
            n_chunks = math.prod(shard // chunk for shard, chunk in sizes)
            return cls._of_index(sharding, n_chunks)
        last = [*array.filters, *array.compressors][-1:]
        if _names(last) not in (["Blosc"], ["BloscCodec"]):
            return cls(0, len)
        return cls(_BLOSC_BYTES, lambda header: int.from_bytes(header[12:], "little"))

    @classmethod
    def _of_index(cls, sharding: Any, n_chunks: int) -> "_Head":
        is_last = sharding.index_location.value == "end"
        codecs = _names(sharding.index_codecs)
        # A checksum tells of an index that is lost; others than these lay it out in other ways.
        if codecs != ["BytesCodec"] and (is_last or codecs != ["BytesCodec", "Crc32cCodec"]):
            return cls(0, len)
        order = sharding.index_codecs[0].endian
        kind = np.dtype("u8").newbyteorder(">" if order and order.value == "big" else "<")
        return cls(n_chunks * 2 * kind.itemsize, lambda index: _end_of(index, kind), is_last)


def _names(codecs: Iterable[Any]) -> list[str]:
    return [type(codec).__name__ for codec in codecs]


def _end_of(index: bytes, kind: np.dtype[Any]) -> int:
    """Return where the last chunk of a shard ends, by its index of offsets and lengths."""
    entries = np.frombuffer(index, kind).reshape(-1, 2)
    stored = entries[(entries != np.iinfo("u8").max).all(axis=1)].astype(np.float64)
    return int(stored.sum(axis=1).max(initial=0))  # exact up to 9 petabytes


def _fault(path: str, head: _Head) -> str:
    """Return what is wrong with the file of a chunk, "" if nothing is or it is not there.

    It is empty, or shorter than its head says, or no file.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        is_link = os.path.islink(path)
        return f"is a link to {os.readlink(path)!r}, which is not there" if is_link else ""
    if S_ISDIR(status.st_mode):
        return "is a folder"
    if status.st_size < max(1, head.n_bytes):
        return "ends early"
    if not head.n_bytes:
        return ""
    left = status.st_size - head.n_bytes if head.is_last else status.st_size
    with open(path, "rb") as file:
        file.seek(left if head.is_last else 0)
        n_bytes = head.length(file.read(head.n_bytes))
    return "ends early" if left < n_bytes or (head.is_last and left > n_bytes) else ""


def _checked(array: Any, folder: str, where: str, may_be_sorted: bool) -> str:
    """Return a sentence if chunks of rows are not there, else "".

    They hold nothing but the fill value, or are lost. Raise CorruptFileError if a large array
    stores less than a thousandth of them.

    Parameters
    ----------
    may_be_sorted : whether nothing is to be said where chunks of one value are to be expected
    """
    shape = getattr(array, "shards", None) or array.chunks
    grid = [-(-n // c) for n, c in zip(array.shape, shape, strict=True)]
    n_pieces, n_bytes = math.prod(grid), math.prod(array.shape) * array.dtype.itemsize
    n_files = sum(1 for _ in _chunk_files(array, folder, grid))  # of which there may be millions
    is_large = n_bytes > SMALL_BYTES and not may_be_sorted
    if is_large and n_files < MIN_STORED * n_pieces:
        stored = sum(os.path.getsize(file) for file, _ in _chunk_files(array, folder, grid))
        raise not_stored(where, array.shape[0], n_bytes, stored)
    if n_files >= n_pieces:
        return ""
    if may_be_sorted and n_files:
        chunks = nsmallest(
            N_LOOKED_AT, {indices[0] for _, indices in _chunk_files(array, folder, grid)}
        )
        with decoding(where):
            if not any(_is_mixed(array, chunk * shape[0], shape[0]) for chunk in chunks):
                return ""
    return (
        f"{where}: {n_pieces - n_files:,} of {n_pieces:,} chunks of rows are not there and are read"
        f" as the fill value, {array.fill_value}: so zarr keeps chunks of nothing else, and so "
        "looks a copy that is not whole; allow_sparse=True (--allow-sparse) if it is"
    )


def _is_mixed(array: Any, start: int, n_rows: int) -> bool:
    """Return whether a chunk of targets is in no order, so that none is of one value by chance.

    Neither ascending nor descending, and with values that come again, or hardly any twice.
    """
    found = array[start : start + min(n_rows, LOOKED_AT_ROWS)]
    for column in np.reshape(found, (len(found), -1)).T:
        column = column[column == column]  # without those that are missing
        is_new = column[1:] != column[:-1]
        n_runs, n_values = 1 + np.count_nonzero(is_new), len(np.unique(column))
        is_sorted = (column[1:] >= column[:-1]).all() or (column[1:] <= column[:-1]).all()
        if not is_sorted and (n_runs > n_values or 2 * n_runs > len(column)):
            return True
    return False


def _chunk_files(array: Any, folder: str, grid: list[int]) -> Iterator[tuple[str, list[int]]]:
    """Yield the files of the chunks of an array, each with its indices in the grid of chunks.

    Others tell of the array, or are left by who copied it, or are of another version.
    """
    for file in stored_files(folder):
        name = file[len(folder) :].lstrip(os.sep)
        if _CHUNK.fullmatch(name):
            indices = [int(number) for number in re.findall(r"\d+", name)]
            is_inside = len(indices) == len(grid) and all(map(lt, indices, grid))
            if is_inside and array.metadata.encode_chunk_key(tuple(indices)) == name:
                yield file, indices


def open_zarr(
    names: list[str], x: Name, y: Name, weights: Name, allow_sparse: bool = False
) -> MatrixSource:
    """Return the rows of zarr stores; `allow_sparse` as of `open_source`."""
    stores = [ZarrMatrix(name, x, y, weights, allow_sparse) for name in names]
    warn_of_lacking(store.lacking for store in stores)
    return MatrixSource(stores, {"x": x, "y": y, "weights": weights})
