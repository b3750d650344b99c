"""Tables in HDF5 files: records, frames of pandas, and columns that are each a dataset."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from streamrf.errors import ChangedFileError, CorruptFileError, DataError, DatasetNotFoundError
from streamrf.jit.threads import n_granted
from streamrf.sources.arrow_types import arrow
from streamrf.sources.hdf5_chunks import Bands, library_bytes, read_rows, steps
from streamrf.sources.hdf5_columns import Column, readers
from streamrf.sources.hdf5_files import Trust, browsed, cache_of, opened, trusted
from streamrf.sources.hdf5_groups import column_of
from streamrf.sources.hdf5_layouts import (
    Cell,
    Cells,
    cells_of,
    index_of,
    matrix_cells,
    width_of,
)
from streamrf.sources.hdf5_names import (
    cell_named,
    item_of,
    tables_of,
)
from streamrf.sources.hdf5_trust import check_there, warn_of_lacking
from streamrf.sources.paths import decoding, own_name
from streamrf.sources.seekable import Ranges
from streamrf.sources.tables import Table

_UNREAD = ("pickled", "repeated", "empty")  # kinds of cells without values
_NAT = np.iinfo(np.int64).min  # what stands for a missing date


class HDF5Table(Table):
    """A table of an HDF5 file.

    Parameters
    ----------
    path : of the file
    table : where it is in the file; "" for columns that are in no group
    more : names of columns elsewhere in the file, of as many rows: datasets, or ``TABLE/COLUMN``
    trust : what the file is allowed

    Raises
    ------
    DatasetNotFoundError
        No such table.
    CorruptFileError
        A damaged file, columns of several lengths, or what the file is not allowed.
    """

    def __init__(self, path: str, table: str, more: Sequence[str], trust: Trust) -> None:
        self.name, self._given, self._path = own_name(path), path, os.path.abspath(path)
        self.where = f"{path}, table {table or '/'!r}"
        with browsed(path) as file:
            self._cells = cells_in(file, table, self.where)
            self.index = tuple(n for n in index_of(item_of(file, table)) if n in self._cells)
            for name in more:
                if (cell := cell_named(file, name)) is not None:
                    self._cells[name] = cell
            columns: dict[str, Column | None] = {}
            for cell in self._cells.values():
                if cell.kind not in _UNREAD and cell.item not in columns:
                    columns[cell.item] = column_of(file.get(cell.item), self.where, True, True)
            typed = ((n, _type_of(file, c, columns.get(c.item))) for n, c in self._cells.items())
            self.types = dict(typed)
            found = {item: column for item, column in columns.items() if column is not None}
            lengths = {item: len(column) for item, column in found.items()}
            if any(cell.kind == "empty" for cell in self._cells.values()):
                lengths = {}
            self.n_rows = next(iter(lengths.values()), 0)
            if odd := [item for item, n in lengths.items() if n != self.n_rows]:
                raise CorruptFileError(
                    f"{self.where}: {odd[0]!r} has {lengths[odd[0]]:,} rows, and others have "
                    f"{self.n_rows:,}; all columns must have as many"
                )
            self._others: dict[str, str] = {}
            told: list[str] = []
            for item, column in found.items():
                others, doubts = trusted(column, self._path, f"{path}, dataset {item!r}", trust)
                self._others |= others
                told += doubts
            self._cache = cache_of(found.values())
            self._chunk_rows = max((column.chunk_rows for column in found.values()), default=1)
            self._held_bytes = sum(map(_held_bytes, found.values()))
        warn_of_lacking(told)

    @property
    def files(self) -> list[str]:
        """The file, and those that its rows are really in."""
        return [self._path, *self._others]

    @property
    def buffer_bytes(self) -> int:
        """Chunks of all columns."""
        return self._held_bytes

    def type_name(self, name: str) -> str:
        """Return the type of a column in words."""
        if self._cells[name].kind == "repeated":
            return "of several columns of one name, of which one can be read"
        if self._cells[name].kind == "pickled":
            return 'Python objects (pandas pickles text; to_hdf(format="table") does not)'
        return super().type_name(name)

    def chunk(self, row: int) -> tuple[int, int]:
        """Return the bounds of the longest chunk with a row."""
        start = row - row % self._chunk_rows
        return start, min(start + self._chunk_rows, self.n_rows)

    def read(
        self, ranges: Ranges, types: dict[str, Any], block_rows: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield the rows of ascending ranges."""
        cells = [self._cells[name] for name in types]
        items = list(dict.fromkeys(cell.item for cell in cells))
        wheres = [f"{self._given}, dataset {item!r}" for item in items]
        size, slots = self._cache
        with (
            opened(self._path, self._given, rdcc_nbytes=size, rdcc_nslots=slots) as file,
            decoding(self._given),
        ):
            columns = [column_of(file.get(item), item, True, True) for item in items]
            if any(column is None or len(column) < self.n_rows for column in columns):
                raise ChangedFileError(
                    f"{self.where} has fewer rows or columns than when it was opened; open it "
                    "again when its writer has ended"
                )
            levels = {cell: _levels_of(file, cell, self.where) for cell in cells}
            with readers(columns, ranges, wheres) as found:
                for start, stop in ranges:
                    for low, high in steps(start, stop, self._chunk_rows, block_rows):
                        rows = {
                            item: reader.read(low, high)
                            for item, reader in zip(items, found, strict=True)
                            if reader is not None
                        }
                        check_there(self._others, self.where)
                        yield low, self._table(rows, levels, types, low)

    def _table(
        self, rows: dict[str, NDArray[Any]], levels: dict[Cell, Any], names: Iterable[str], low: int
    ) -> Any:
        """Return columns as an Arrow table, of rows of their items from the row `low` on."""
        found = {}
        for name in names:
            cell = self._cells[name]
            values = cell.of(rows[cell.item])
            where = f"{self.where}, column {name!r}, rows {low} to {low + len(values) - 1}"
            found[name] = _as_arrow(values, cell, levels[cell], where)
        return arrow().table(found)


def cells_in(file: h5py.File, table: str, where: str) -> Cells:
    """Return the columns of a table; DatasetNotFoundError where it is none."""
    item = item_of(file, table)
    cells = cells_of(item, table)
    if cells is None and width_of(item) > 1:
        return matrix_cells(item, table)
    if not cells:
        raise DatasetNotFoundError(
            f"{where} is not there, or has no columns; the file has the tables {[*tables_of(file)]}"
        )
    return cells


def _held_bytes(column: Column) -> int:
    """Return the bytes that reading a column keeps."""
    n_bytes = column.held_bytes
    for part in column.parts:
        bands = Bands.of(part, n_granted())
        if bands is not None:
            n_bytes += bands.held_bytes
        elif part.chunks is not None:
            n_bytes += library_bytes(part) + cache_of([column])[0]
    return n_bytes


def _levels_of(file: h5py.File, cell: Cell, where: str) -> Any:
    """Return the categories of a column as an Arrow array, or None."""
    if not cell.levels:
        return None
    item, link = file[cell.item], file.get(cell.item, getlink=True)
    if isinstance(link, h5py.SoftLink):
        item = item.parent[link.path]
    found = item.parent.get(cell.levels)
    if not isinstance(found, h5py.Dataset) or "values" not in (found.dtype.names or ()):
        raise CorruptFileError(f"{where} lacks the categories {cell.levels!r}; write it again")
    values = read_rows(found, 0, len(found), where)["values"]
    return _as_arrow(values, Cell(cell.levels), None, where)


def _type_of(file: h5py.File, cell: Cell, column: Column | None) -> Any:
    """Return the Arrow type of a column, that of bytes for what is none of a table's."""
    pa = arrow()
    if column is None or cell.kind in _UNREAD:
        return pa.null() if cell.kind == "empty" else pa.binary()
    if cell.levels:
        return _as_arrow(
            np.empty(0, np.int8), cell, _levels_of(file, cell, column.parts[0].name), ""
        ).type
    dtype = cell.of(np.empty((0, *column.shape[1:]), column.dtype)).dtype
    if dtype.kind in "biufSU" or h5py.check_string_dtype(dtype) is not None:
        return _as_arrow(np.empty(0, dtype), cell, None, "").type
    return pa.binary()


def _as_arrow(values: NDArray[Any], cell: Cell, levels: Any, where: str) -> Any:
    """Return values of a column, some of which may be masked, as an Arrow array."""
    pa = arrow()
    mask = np.ma.getmaskarray(values) if np.ma.isMaskedArray(values) else None
    values = np.ma.getdata(values)
    if cell.levels:
        codes = values.astype(np.int32)
        if len(codes) and int(codes.max()) >= len(levels):
            raise CorruptFileError(f"{where}: a category has no name; write the file again")
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), levels)
    if cell.kind == "bool":
        return pa.array(values.astype(bool), mask=mask)
    if cell.kind:
        word, _, unit = cell.kind[:-1].partition("[")
        ticks = values.astype(np.int64)
        if unit not in ("s", "ms", "us", "ns"):  # which Arrow has no other of
            unit, ticks = "s", ticks.view(cell.kind).astype(f"{word}[s]").view(np.int64)
        type_ = pa.timestamp(unit) if word == "datetime64" else pa.duration(unit)
        is_missing = ticks == _NAT if mask is None else mask | (ticks == _NAT)
        return pa.array(ticks, pa.int64(), mask=is_missing).cast(type_)
    if values.dtype.kind in "biuf":
        dtype = values.dtype.newbyteorder("=")
        if dtype.kind == "f" and dtype.itemsize not in (4, 8):
            dtype = np.dtype(np.float32 if dtype.itemsize < 4 else np.float64)
        return pa.array(np.ascontiguousarray(values, dtype), mask=mask)
    if values.dtype.kind == "U":
        return pa.array(values, pa.string(), mask=mask)
    texts = values.astype(object)
    try:
        return pa.array(texts, pa.binary(), mask=mask).cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(f"{where} holds strings that are not UTF-8 text ({error})") from error
