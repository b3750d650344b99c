"""HDF5 files of rows: found, opened, and looked at before their rows are read."""

import math
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import h5py

from streamrf.errors import DatasetNotFoundError, ShapeError
from streamrf.jit.threads import n_granted
from streamrf.sources.base import Store
from streamrf.sources.fingerprints import FINGERPRINT_ROWS, fingerprints
from streamrf.sources.hdf5_chunks import Bands, read_rows
from streamrf.sources.hdf5_filters import register
from streamrf.sources.hdf5_trust import check_complete, check_origins, check_sparse, origins
from streamrf.sources.paths import check_unpacked, decoding, own_name, raise_missing
from streamrf.sources.validation import (
    as_matrix,
    check_rank,
    check_targets_shape,
    check_weights_shape,
    how_to_name,
    matrix_dtype,
    target_shape,
)
from streamrf.storage import HDF5_SIGNATURE


class Names(NamedTuple):
    """Names of the datasets."""

    x: str
    y: str | None
    weights: str | None


class Trust(NamedTuple):
    """What a file is allowed."""

    sparse: bool = False  # to claim rows that it does not store
    external: bool = False  # to send its readers to files in other folders


class Datasets(NamedTuple):
    """Open datasets."""

    x: h5py.Dataset
    y: h5py.Dataset | None
    weights: h5py.Dataset | None


@dataclass(frozen=True)
class File:
    """What is known of a file without opening it."""

    path: str  # absolute, because a worker may run in another folder
    name: str  # the path as the user gave it
    first: int
    n_rows: int
    n_features: int
    row_shape: tuple[int, ...]
    chunk_rows: int
    cache_bytes: int  # of the library
    cache_slots: int
    ahead_bytes: int  # of rows decompressed ahead of their use
    keys: tuple[str, ...]  # `fingerprints`
    target: tuple[bool, tuple[int, ...]] | None  # strings?, shape of one target
    origins: tuple[str, ...] = ()  # other files that the rows are really in
    others: tuple[str, ...] = ()  # and those that targets and weights are in
    parts: tuple[str, ...] = ()  # of these, those that were there
    lacking: str = ""  # a sentence, if chunks were never written

    def where(self, dataset: str | None) -> str:
        """Return a dataset in words, with the files that its rows are really in."""
        more = f", and {len(self.origins) - 1} others" if len(self.origins) > 1 else ""
        inside = f" (rows of {self.origins[-1]}{more})" if self.origins else ""
        return where_of(self.name, dataset) + inside

    def store(self, dataset: str) -> Store:
        """Return the store of a dataset."""
        return Store.of(self.keys, self.where(dataset), self.n_rows)

    @property
    def stop(self) -> int:
        return self.first + self.n_rows


def where_of(name: str, dataset: str | None) -> str:
    return f"{name}, dataset {dataset!r}"


def has_signature(path: str) -> bool:
    """Return whether a file is HDF5, perhaps a damaged one; True if it cannot be looked at.

    The signature is at byte 0, 512, 1024, 2048 and so on (HDF5 File Format Specification, II.A).
    `h5py.is_hdf5` would take a file that another program writes for none.
    """
    try:
        with open(path, "rb") as file:
            place, size = 0, os.fstat(file.fileno()).st_size
            while place < size:
                file.seek(place)
                if file.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE:
                    return True
                place = 2 * place or 512
    except OSError:  # which opening it tells
        return True
    return False


def opened(path: str, name: str, **cache: Any) -> h5py.File:
    """Open a file for reading, by the common filters too."""
    register()
    with decoding(name, "cannot be opened as an HDF5 file"):
        try:
            return h5py.File(path, "r", **cache)
        except FileNotFoundError:
            raise_missing(name, path)
        except OSError:
            check_unpacked(path, name)
            raise


def inspect(name: str, names: Names, first: int, trust: Trust) -> File:
    """Return what is known of a file before its rows are read; `first` is its first row's index."""
    path = os.path.abspath(name)
    with opened(path, name) as handle, decoding(name):
        found = datasets(handle, name, names)
        others: dict[str, dict[str, str]] = {}
        told: list[str] = []
        for dataset, key in zip(found, names, strict=True):
            if dataset is not None and key is not None:
                place = where_of(name, key)
                others[key], doubts = origins(dataset, path, "" if trust.sparse else place)
                if not trust.external:
                    check_origins(others[key], path, place)
                if not trust.sparse:
                    check_sparse(dataset, others[key], place)
                    check_complete(others[key], place)
                told += doubts
        chunk_rows, cache_bytes, cache_slots = _chunk_layout(found)
        banded = [Bands.of(dataset, n_granted()) for dataset in found if dataset is not None]
        where = where_of(name, names.x)
        all_others = [file for found in others.values() for file in found]
        n_rows = len(found.x)
        head = as_matrix(read_rows(found.x, 0, min(n_rows, FINGERPRINT_ROWS), where), where)
        return File(
            path=path,
            name=name,
            first=first,
            n_rows=n_rows,
            n_features=head.shape[1],
            row_shape=found.x.shape[1:],
            chunk_rows=chunk_rows,
            cache_bytes=cache_bytes,
            cache_slots=cache_slots,
            ahead_bytes=sum(bands.held_bytes for bands in banded if bands is not None),
            keys=tuple(fingerprints(head, own_name(path))),
            target=None if found.y is None else (_is_text(found.y), target_shape(found.y.shape)),
            origins=tuple(others[names.x]),
            others=tuple(dict.fromkeys(all_others)),
            parts=tuple(dict.fromkeys(filter(os.path.exists, all_others))),
            lacking=next(iter(told), ""),
        )


def datasets(file: h5py.File, name: str, names: Names) -> Datasets:
    """Return the datasets of a file, their shapes and dtypes checked."""
    with decoding(name):
        wanted = names._asdict()
        found = Datasets(*(n and _dataset(file, name, n, role) for role, n in wanted.items()))
    x, y, weights = (where_of(name, dataset) for dataset in names)
    matrix_dtype(found.x.dtype, x)
    check_rank(found.x.shape, x)
    if found.y is not None:
        check_targets_shape(found.y.shape, len(found.x), y)
        if not _is_text(found.y):
            matrix_dtype(found.y.dtype, y)
    if found.weights is not None:
        check_weights_shape(found.weights.shape, len(found.x), weights)
        matrix_dtype(found.weights.dtype, weights)
    return found


def _is_text(dataset: h5py.Dataset) -> bool:
    return h5py.check_string_dtype(dataset.dtype) is not None


def _dataset(file: h5py.File, name: str, wanted: str, role: str) -> h5py.Dataset:
    found = file.get(wanted)
    if isinstance(found, h5py.Dataset):
        if found.shape is None:
            raise ShapeError(f"{where_of(name, wanted)} is empty, without a shape; expected rows")
        return found
    shapes: dict[str, tuple[int, ...]] = {}

    def visit(path: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            shapes[path] = item.shape

    file.visititems(visit)
    have = f"{list(shapes)} of shapes {list(shapes.values())}" if shapes else "no dataset"
    have += f"; {how_to_name(role)}"
    if found is None:
        raise DatasetNotFoundError(f"{name} has no dataset {wanted!r}; it has {have}")
    raise ShapeError(f"{name}: {wanted!r} is a group, not a dataset; it has {have}")


def _chunk_layout(found: Datasets) -> tuple[int, int, int]:
    """Rows of a chunk of X, and the bytes and slots of a cache that holds one row of chunks."""
    n_bytes = 1 << 20  # HDF5's default before version 2
    slots = 521  # HDF5's default
    for dataset in found:
        if dataset is not None and dataset.chunks is not None:
            sizes = zip(dataset.shape[1:], dataset.chunks[1:], strict=True)
            grid = [-(-size // chunk) for size, chunk in sizes]  # chunks side by side
            chunk_bytes = math.prod(dataset.chunks) * dataset.dtype.itemsize
            n_bytes = max(n_bytes, math.prod(grid) * chunk_bytes)
            # HDF5 gives each axis of the chunk grid its own bits of the hash: with as many slots as
            # the bits reach, chunks side by side never push each other out.
            slots = max(slots, math.prod(1 << count.bit_length() for count in grid) + 1)
    return (found.x.chunks[0] if found.x.chunks else 1), n_bytes, slots
