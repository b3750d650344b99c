"""HDF5 files of rows: found, opened, and looked at before their rows are read."""

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import h5py

from streamrf.errors import (
    CorruptFileError,
    DataError,
    DatasetNotFoundError,
    ParameterError,
    ShapeError,
)
from streamrf.jit.threads import n_granted
from streamrf.sources.base import Store
from streamrf.sources.fingerprints import FINGERPRINT_ROWS, fingerprints
from streamrf.sources.hdf5_chunks import held_bytes
from streamrf.sources.hdf5_columns import Column, Picked, Plain, SeveralTargets, Turned, as_pixels
from streamrf.sources.hdf5_filters import register
from streamrf.sources.hdf5_groups import column_of
from streamrf.sources.hdf5_layouts import is_of_numpy
from streamrf.sources.hdf5_names import (
    MAX_SHOWN,
    cell_named,
    entries_of,
    listed_names,
    turned_of,
)
from streamrf.sources.hdf5_trust import (
    check_complete,
    check_origins,
    check_sparse,
    open_to_read,
    origins,
)
from streamrf.sources.labels import HEAD_ROWS, is_one_hot
from streamrf.sources.packing import as_text
from streamrf.sources.paths import check_unpacked, decoding, own_name, raise_missing
from streamrf.sources.validation import (
    as_matrix,
    as_targets,
    check_rank,
    check_roles,
    check_targets_shape,
    check_weights_shape,
    how_to_name,
    matrix_dtype,
    target_shape,
)
from streamrf.storage import HDF5_SIGNATURE

MAX_LISTED = 40  # datasets in a message
INDEX = "names of columns"


class Names(NamedTuple):
    """Names of the datasets; several targets are a tuple, or a text with commas in it."""

    x: str
    y: str | tuple[str, ...] | None
    weights: str | None


class Trust(NamedTuple):
    """What a file is allowed, and what its rows are."""

    sparse: bool = False  # to claim rows that it does not store
    external: bool = False  # to send its readers to files in other folders
    pixels: bool = False  # to have pixels as rows, also without targets


class Datasets(NamedTuple):
    """Open datasets, or groups that are read as such."""

    x: Column
    y: Column | None
    weights: Column | None

    @property
    def parts(self) -> list[h5py.Dataset]:
        """All datasets that are read along with rows."""
        return [part for column in self if column is not None for part in column.parts]


@dataclass(frozen=True)
class File:
    """What is known of a file without opening it."""

    path: str  # absolute, because a worker may run in another folder
    name: str  # the path as the user gave it
    first: int
    n_rows: int
    n_features: int
    row_shape: tuple[int, ...]
    stored_shape: tuple[int, ...]  # of all numbers
    chunk_rows: int
    cache_bytes: int  # of the library
    cache_slots: int
    ahead_bytes: int  # of rows read or decompressed ahead of their use, or kept for the next block
    keys: tuple[str, ...]  # `fingerprints`
    n_entries: int | None  # that are kept of sparse rows
    columns: tuple[str, ...] | None  # their names
    target: tuple[bool, tuple[int, ...]] | None  # strings?, shape of one target
    is_one_hot: bool  # whether the first targets are
    targets: tuple[str, ...]  # their names, where they are in several datasets
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


def where_of(name: str, dataset: str | tuple[str, ...] | None) -> str:
    shown = ",".join(dataset) if isinstance(dataset, tuple) else dataset
    return f"{name}, dataset {shown!r}"


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
            return open_to_read(path, **cache)
        except FileNotFoundError:
            raise_missing(name, path)
        except OSError:
            check_unpacked(path, name)
            raise


@contextmanager
def browsed(name: str) -> Iterator[h5py.File]:
    """Yield a file that is open; whatever is wrong with it is an error that names it."""
    with opened(os.path.abspath(name), name) as file, decoding(name):
        yield file


def inspect(name: str, names: Names, first: int, trust: Trust) -> File:
    """Return what is known of a file before its rows are read; `first` is its first row's index."""
    path = os.path.abspath(name)
    with opened(path, name) as handle, decoding(name):
        found = datasets(handle, name, names, trust.pixels)
        index = _index_of(handle, name, names.x)
        others: dict[Any, dict[str, str]] = {}
        told: list[str] = []
        for column, key in ((index, INDEX), *zip(found, names, strict=True)):
            if column is not None and key is not None:
                others[key], doubts = trusted(column, path, where_of(name, key), trust)
                told += doubts
        cache_bytes, cache_slots = cache_of(found)
        where = where_of(name, names.x)
        all_others = [file for found in others.values() for file in found]
        n_rows = len(found.x)
        head = as_matrix(found.x.read(0, min(n_rows, FINGERPRINT_ROWS), where), where)
        return File(
            path=path,
            name=name,
            first=first,
            n_rows=n_rows,
            n_features=head.shape[1],
            row_shape=found.x.shape[1:],
            chunk_rows=found.x.chunk_rows,
            cache_bytes=cache_bytes,
            cache_slots=cache_slots,
            ahead_bytes=sum(held_bytes(dataset, n_granted()) for dataset in found.parts)
            + sum(column.held_bytes for column in found if column is not None),
            keys=tuple(fingerprints(head, own_name(path))),
            n_entries=found.x.n_entries,
            stored_shape=found.x.grids[0].shape,
            columns=None if index is None else _names_in(index, head.shape[1], f"{name}, {INDEX}"),
            target=None if found.y is None else (found.y.is_text, target_shape(found.y.shape)),
            targets=found.y.names if isinstance(found.y, SeveralTargets) else (),
            is_one_hot=found.y is not None and _is_one_hot(found.y, where_of(name, names.y)),
            origins=tuple(others[names.x]),
            others=tuple(dict.fromkeys(all_others)),
            parts=tuple(dict.fromkeys(filter(os.path.exists, all_others))),
            lacking=next(iter(told), ""),
        )


def _is_one_hot(y: Column, where: str) -> bool:
    """Return whether the first targets are classes that are written one-hot."""
    is_matrix = len(y.shape) == 2 and y.shape[1] > 1 and not y.is_text
    is_matrix = is_matrix and not isinstance(y, SeveralTargets)  # which have names
    return is_matrix and is_one_hot(y.read(0, min(len(y), HEAD_ROWS), where))


def trusted(
    column: Column, path: str, where: str, trust: Trust
) -> tuple[dict[str, str], list[str]]:
    """Return the `origins` of a column of the file `path`, unless it is not allowed what it claims.

    Raises
    ------
    CorruptFileError
        If it is not.
    """
    others: dict[str, str] = {}
    told: list[str] = []
    for dataset in (*column.parts, *column.others):
        inside, doubts = origins(dataset, path, "" if trust.sparse else where)
        if not trust.external:
            check_origins(inside, path, where)
        if not trust.sparse:
            check_sparse(dataset, inside, where)
            check_complete(inside, where)
        others |= inside
        told += doubts
    return others, told


def datasets(file: h5py.File, name: str, names: Names, pixels: bool = False) -> Datasets:
    """Return the datasets of a file, their shapes and dtypes checked; see `as_pixels`."""
    with decoding(name):
        rows = _dataset(file, name, names.x, "x")
        others = (
            None if wanted is None else _dataset(file, name, wanted, role)
            for wanted, role in ((names.y, "y"), (names.weights, "weights"))
        )
        found = Datasets(rows, *others)
    x, y, weights = (where_of(name, dataset) for dataset in names)
    matrix_dtype(found.x.dtype, x)
    check_rank(found.x.shape, x)
    found = Datasets(*as_pixels(*found, pixels))
    targets = found.y.columns if isinstance(found.y, SeveralTargets) else (found.y,)
    for part in (*targets, found.weights):
        if isinstance(part, Picked) and part.parts == found.x.parts:
            raise ParameterError(
                f"{name}: a column of {names.x!r} is target or weight, and would be in X, too; "
                "open_source takes it out of X, as the command line does"
            )
    if isinstance(found.y, SeveralTargets):
        check_roles(found.y.paths, names.weights, name)
    if found.y is not None:
        _check_not_turned(found.x, found.y, names, name)
        check_targets_shape(found.y.shape, len(found.x), y)
        if not found.y.is_text:
            matrix_dtype(found.y.dtype, y)
    if found.weights is not None:
        check_weights_shape(found.weights.shape, len(found.x), weights)
        matrix_dtype(found.weights.dtype, weights)
    return found


def _check_not_turned(x: Column, y: Column, names: Names, where: str) -> None:
    """Raise ShapeError where the last axis is that of rows, of X or of both."""
    n_rows = max(y.shape, default=0)
    is_turned = x.shape[-1] == n_rows and all(n in (1, n_rows) for n in y.shape)
    is_turned = is_turned or (len(y.shape) > 1 and x.shape[1:] == y.shape)  # places of a grid
    if not is_turned or len(x) in (n_rows, len(y)):
        return
    turned = "" if len(y) == n_rows else ".T"
    raise ShapeError(
        f"{where}: {names.x!r} has shape {x.shape} and {names.y!r} {y.shape}, as MATLAB, Julia and "
        f"Fortran write arrays whose rows come first; they are read so by x='{names.x}.T', "
        f"y='{names.y}{turned}' (--x {names.x}.T --y {names.y}{turned})"
    )


def _dataset(file: h5py.File, name: str, wanted: str | tuple[str, ...], role: str) -> Column:
    """Return what a name means: a dataset, or of AnnData a column of observations, too."""
    if isinstance(wanted, tuple):
        if len({one.strip("/").removesuffix(".T") for one in wanted}) < len(wanted):
            raise ParameterError(
                f"{name}: targets {list(wanted)} name one dataset twice; name each once"
            )
        return SeveralTargets({one: _dataset(file, name, one, role) for one in wanted}, name)
    place, item = where_of(name, wanted), file.get(wanted)
    if item is None and role == "y" and len(several := [*filter(None, listed_names(wanted))]) > 1:
        return _dataset(file, name, tuple(several), role)
    if item is None and (turned := turned_of(file, wanted)) is not None:
        column = column_of(turned, place, role != "x")
        return Turned(column if isinstance(column, Plain) else Plain(turned))
    if item is None and role != "x" and _is_annotated(file):
        item = file.get(f"obs/{wanted}")
    if isinstance(item, h5py.Dataset) and item.shape is None:
        raise ShapeError(f"{place} is empty, without a shape; expected rows")
    if isinstance(item, h5py.Dataset) and not is_of_numpy(item):
        raise DataError(
            f"{place} has values of a type that NumPy lacks, as times of HDF5 (PyTables' Time64Col)"
            " are; write them as numbers, or leave it out"
        )
    found = None if item is None else column_of(item, place, role != "x")
    if found is None and role != "x":
        found = _picked(file, wanted, place)
    if found is not None and found.dtype.names is None:
        return found
    shapes = {key: entry.shape for key, entry in entries_of(file).items()}
    shown, n_more = dict([*shapes.items()][:MAX_LISTED]), len(shapes) - MAX_LISTED
    have = f"{list(shown)} of shapes {list(shown.values())}" if shapes else "no dataset"
    have += f" and {n_more:,} more" if n_more > 0 else ""
    have += f"; {how_to_name(role)}"
    if found is not None:
        raise ShapeError(
            f"{place} is a table of the columns {list(found.dtype.names or ())[:MAX_SHOWN]}; "
            "open_source reads its columns, as the command line does"
        )
    if item is None:
        raise DatasetNotFoundError(f"{name} has no dataset {wanted!r}; it has {have}")
    raise ShapeError(f"{name}: {wanted!r} is a group, not a dataset; it has {have}")


def _picked(file: h5py.File, wanted: str, where: str) -> Column | None:
    """Return the column that `cell_named` finds, of plain values."""
    cell = cell_named(file, wanted)
    column = None if cell is None else column_of(file.get(cell.item), where, True)
    if cell is None or column is None:
        return None
    if cell.kind or cell.levels:
        raise ShapeError(f"{where} is no column of numbers or text; expected these")
    return Picked(column, cell.of)


def _is_annotated(file: h5py.File) -> bool:
    """Return whether a file is one of AnnData, which has a table of rows and one of columns."""
    return as_text(file.attrs.get("encoding-type")) == "anndata" or {"X", "obs", "var"} <= {*file}


def _index_of(file: h5py.File, name: str, x: str) -> Column | None:
    """Return the names of the columns that AnnData keeps, or None."""
    folder = {"X": "var", "layers": "var", "raw": "raw/var"}.get(x.strip("/").split("/")[0])
    table = None if folder is None or not _is_annotated(file) else file.get(folder)
    if not isinstance(table, h5py.Group) or not (key := as_text(table.attrs.get("_index"))):
        return None
    where = f"{where_of(name, folder)}, {key!r}"
    found = column_of(table.get(key), where)
    if found is None or len(found.shape) != 1 or not found.is_text:
        raise CorruptFileError(f"{where} is to hold the names of columns, and is no column of text")
    return found


def _names_in(index: Column, n_features: int, where: str) -> tuple[str, ...]:
    """Return the names of columns, each of which has one of its own, or raise DataError."""
    names = as_targets(index.read(0, len(index), where), len(index), where).tolist()
    if len(names) != n_features:
        raise DataError(f"{where}: {len(names):,} names of {n_features:,} columns")
    repeated = next((one for one, n in Counter(names).items() if n > 1 or not one), None)
    if repeated is not None:
        raise DataError(
            f"{where}: {Counter(names)[repeated]:,} columns are called {repeated!r}, and are known "
            "by name; make names unique: adata.var_names_make_unique()"
        )
    return tuple(names)


def cache_of(columns: Iterable[Column | None]) -> tuple[int, int]:
    """Return the bytes and slots of a cache that holds one row of chunks of each dataset."""
    n_bytes = 1 << 20  # HDF5's default before version 2
    slots = 521  # HDF5's default
    for grid in (grid for column in columns if column is not None for grid in column.grids):
        if grid.chunks is not None:
            sizes = zip(grid.shape[1:], grid.chunks[1:], strict=True)
            counts = [-(-size // chunk) for size, chunk in sizes]  # chunks side by side
            n_bytes = max(n_bytes, math.prod(counts) * math.prod(grid.chunks) * grid.itemsize)
            # HDF5 gives each axis of the chunk grid its own bits of the hash: with as many slots as
            # the bits reach, chunks side by side never push each other out.
            slots = max(slots, math.prod(1 << count.bit_length() for count in counts) + 1)
    return n_bytes, slots
