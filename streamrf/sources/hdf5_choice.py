"""What X is in an HDF5 file: a dataset, or a table and its columns."""

import contextlib
import fnmatch
import logging
import math
import os
import re
from typing import Any

import h5py

from streamrf.errors import DataError
from streamrf.sources.hdf5 import HDF5Source
from streamrf.sources.hdf5_files import Trust, browsed
from streamrf.sources.hdf5_groups import column_of
from streamrf.sources.hdf5_layouts import cells_of, is_of_numpy, width_of
from streamrf.sources.hdf5_names import (
    cell_named,
    columns_named,
    entries_of,
    has_all,
    item_of,
    listed_names,
    tables_of,
    tell_columns_beside,
    turned_of,
    whole_cells,
)
from streamrf.sources.hdf5_tables import HDF5Table, cells_in
from streamrf.sources.table_roles import Wanted
from streamrf.sources.tables import TableSource
from streamrf.sources.validation import one_name
from streamrf.storage import is_saved

logger = logging.getLogger("streamrf")

NO_ROWS = re.compile(r"(.*/)?(y|w|(class|label|target|weight)(es|s)?)", re.I)  # names of no X


def open_hdf5(
    names: list[str], x: Any, y: Any, weights: Any, width: int | None = None, **trust: bool
) -> HDF5Source | TableSource:
    """Return the rows of HDF5 files: of datasets, or where X or targets are columns of tables.

    Parameters
    ----------
    names, x, y, weights, trust : see `open_source`
    width : see `open_files`
    """
    for name in names:
        with contextlib.suppress(OSError):  # which opening it tells
            if os.path.isfile(name) and is_saved(name):
                raise DataError(
                    f"{name} is a file that streamrf has saved, of no rows; give files of data "
                    "(streamrf info tells what it is)"
                )
    table, x = _choice(names[0], x, y, weights, width) if names else (None, "X")
    if table is None:
        where = names[0] if names else "X"
        weights = one_name(weights, "weights", where)
        return HDF5Source(names, x, y, weights, **trust)
    allowed = Trust(trust["allow_sparse"], trust["allow_external"])
    y, weights = _local(table, y), _local(table, weights)
    more = [*(y or ()), *(weights or ())]
    return TableSource([HDF5Table(name, table, more, allowed) for name in names], x, y, weights)


def _choice(
    path: str, x: Wanted, y: Wanted, weights: Wanted, width: int | None
) -> tuple[str | None, Any]:
    """Return what x, or its absence, means in a file: a table and its columns; or a dataset.

    Without x it is "X" or, if there is none, what `_by_targets` returns.
    """
    targets, others = listed_names(y), listed_names(weights)
    with browsed(path) as file:
        entries = listed_names(x)
        if x is None or len(entries) == 1 or (isinstance(x, str) and x in file):
            name = "X" if x is None else x if isinstance(x, str) else entries[0]
            if (item := item_of(file, name)) is not None:
                table = name.strip("/")
                if x is not None and _is_loose(file, table):
                    table, _, column = table.rpartition("/")
                    return table, [column]
                is_part = any(
                    entry.strip("/").startswith(f"{table}/") for entry in (*targets, *others)
                )
                is_table = whole_cells(item) is not None or (is_part and width_of(item) > 1)
                return (table, None) if is_table else (None, name)
            if turned_of(file, name) is not None:
                return None, name
            if x is None:
                found = _by_targets(file, targets, width)
                if width is None and targets and found[0] is None and found[1] in file:
                    tell_columns_beside(file, found[1], [*targets, *others], path)
                return found
        owner = _table_of(file, [entry.removeprefix("-") for entry in entries])
        if owner is None:
            return None, entries[0]
        names = _local(owner, entries) or []
        cells = cells_in(file, owner, f"{path}, table {owner or '/'!r}")
        return owner, columns_named(item_of(file, owner), cells, names) or None


def _table_of(file: h5py.File, entries: list[str]) -> str | None:
    """Return the table that names or patterns of columns are of by their paths, or the only one."""
    entry, path = entries[0], entries[0].strip("/")
    group = path.rpartition("/")[0]
    if has_all(cells_of(item_of(file, group)) or {}, _local(group, entries) or []):
        return group
    while path:
        item = file.get(path)
        if cells_of(item) is not None or width_of(item) > 1:
            return path
        path = path.rpartition("/")[0]
    tables = tables_of(file)
    found = [table for table, cells in tables.items() if fnmatch.filter(cells, entry)]
    if not found and fnmatch.filter(cells_of(file) or (), entry):
        return ""  # columns in no group, beside a dataset of several
    found = found or [*tables]
    return found[0] if len(found) == 1 else None


def _by_targets(file: h5py.File, targets: list[str], width: int | None) -> tuple[str | None, Any]:
    """Return what X is where nothing is called so.

    The only table with the targets; or the only one, or dataset of several columns, with as many
    rows as they have; without targets the only one of all. Of several, what `_of_width` leaves.
    """
    tables = tables_of(file)
    near, tables_left = [], []
    for table, cells in tables.items():
        names = _local(table, targets) or []
        if table not in targets and not {*cells} <= {*names}:  # there is something to learn from
            tables_left.append(table)
            near += [table] if names and {*names} <= {*cells} else []
    if near:
        return (near[0], None) if len(near) == 1 else (None, "X")
    places = [cell_named(file, name) for name in targets]
    lengths = {_length(file[cell.item]) for cell in places if cell is not None}
    lengths |= {len(item) for name in targets if width_of(item := item_of(file, name)) > 1}
    found: list[tuple[str | None, Any]] = [(table, None) for table in tables_left]
    for name, entry in entries_of(file).items():
        is_matrix = math.prod((entry.shape or (0, 0))[1:]) > 1
        if is_matrix and entry.kind in ("", "sparse") and name not in targets:
            found.append((None, name))
    if lengths:  # else the targets are to be told of
        found = [one for one in found if _length(item_of(file, one[0] or one[1] or "")) in lengths]
    if len(found) > 1 and width is not None:
        found = _of_width(file, found, width)
    return found[0] if len(found) == 1 else (None, "X")


def _of_width(
    file: h5py.File, found: list[tuple[str | None, Any]], width: int
) -> list[tuple[str | None, Any]]:
    """Return the datasets of numbers of so many columns, or bands, of those with the most rows.

    Not those that are called as targets and weights are.
    """
    entries, most = entries_of(file), 0
    left: list[tuple[float, str]] = []
    for table, name in found:
        n_rows = _length(item_of(file, table or name or "")) or 0
        most = max(most, n_rows)
        is_other = table is not None or NO_ROWS.fullmatch(name)
        entry = None if is_other else entries.get(name)
        if entry is not None and entry.part.dtype.kind in "biuf":
            sizes = (entry.shape or ())[1:]
            is_of_bands = len(sizes) > 1 and sizes[-1] == width  # of which any number is enough
            if is_of_bands or math.prod(sizes) == width:
                left.append((math.inf if is_of_bands else n_rows, name))
    left = [one for one in left if one[0] >= most]
    if len(left) == 1:
        told = "%s: X is the dataset %r, the only one of %s columns; another: x= (--x)"
        logger.info(told, os.path.basename(file.filename), left[0][1], f"{width:,}")
    return [(None, name) for _, name in left]


def _is_loose(file: h5py.File, name: str) -> bool:
    """Return whether a dataset of one axis is a column of the table that its group is."""
    item = item_of(file, name)
    is_column = isinstance(item, h5py.Dataset) and len(item.shape or ()) == 1
    if not is_column or not is_of_numpy(item) or item.dtype.names is not None:
        return False
    group, _, column = name.rpartition("/")
    return column in (cells_of(item_of(file, group)) or ())


def _length(item: Any) -> int | None:
    """Return the rows of a dataset or table, None of what has none."""
    if cells := cells_of(item):
        item = item_of(item, next(iter(cells.values())).item)
    column = column_of(item, "")
    return None if column is None or not column.shape else len(column)


def _local(table: str, wanted: Wanted) -> Any:
    """Return names of columns without the path of their table; None of none, or the table."""
    names = []
    for entry in listed_names(wanted):
        sign = "-" if entry.startswith("-") else ""
        name = entry.removeprefix("-").strip("/")
        if name != table:
            names.append(sign + name.removeprefix(f"{table}/"))
    return names or None
