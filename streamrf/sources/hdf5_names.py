"""What names in an HDF5 file mean: datasets, tables, and columns of these."""

import fnmatch
import logging
import os
from collections.abc import Container, Iterable
from typing import Any, NamedTuple

import h5py

from streamrf.errors import ParameterError
from streamrf.sources.hdf5_groups import encoding_of, sparse_shape
from streamrf.sources.hdf5_layouts import (
    Cell,
    Cells,
    cells_of,
    children,
    is_of_numpy,
    matrix_cells,
    pandas_type,
    told_cells,
    width_of,
)

logger = logging.getLogger("streamrf")

MAX_SHOWN = 6  # names in a listing


class Entry(NamedTuple):
    """What X, targets or weights may be.

    Attributes
    ----------
    part : the dataset, or one of those of a group
    shape : of all, None of an empty dataset
    kind : "", "sparse", "categories" or "table"
    columns : names of those of a table
    """

    part: h5py.Dataset
    shape: tuple[int, ...] | None
    kind: str = ""
    columns: tuple[str, ...] = ()


def entries_of(file: h5py.File) -> dict[str, Entry]:
    """Return what X, targets and weights of a file may be, by name."""
    found: dict[str, Entry] = {}

    def visit(key: str | bytes, item: Any) -> None:
        name = os.fsdecode(key)  # of bytes where it is no UTF-8
        if _is_inside(name, found):
            return
        if (entry := _entry_of(item)) is not None:
            found[name] = entry
        elif isinstance(item, h5py.Dataset) and is_of_numpy(item):
            found[name] = Entry(item, item.shape)

    file.visititems(visit)
    return found


def tables_of(file: h5py.File) -> dict[str, Cells]:
    """Return the tables of a file by name, each as of `whole_cells`."""
    found: dict[str, Cells] = {}

    def visit(key: str | bytes, item: Any) -> None:
        name = os.fsdecode(key)
        if "" in found or _is_inside(name, found):
            return
        if (cells := whole_cells(item, name)) is not None:
            found[name] = cells

    visit("", file)
    file.visititems(visit)
    return found


def whole_cells(item: Any, path: str = "") -> Cells | None:
    """Return the columns of what may be taken for a table without naming columns, or None.

    `path` as of `cells_of`.

    Loose columns beside rows of numbers may not: X is one of these, and others are targets.
    """
    is_loose = isinstance(item, h5py.Group) and not encoding_of(item) and not pandas_type(item)
    if is_loose and any(width_of(child) > 1 for _, child in children(item)):
        return told_cells(item, path) or None
    return cells_of(item, path) or None


def tell_columns_beside(file: h5py.File, rows: str, known: list[str], where: str) -> None:
    """Log which columns are left out that a group has beside a dataset of rows, none of `known`."""
    group = rows.strip("/").rpartition("/")[0]
    paths = {f"{group}/{name}".strip("/"): item for name, item in children(item_of(file, group))}
    shape = _shape(file[rows]) or ()  # of sparse rows, which are a group, none
    beside = [path for path, item in paths.items() if shape and _shape(item) == shape[:1]]
    left = [path for path in beside if path not in {name.strip("/") for name in known}]
    if left:
        shown = ", ".join(left[:MAX_SHOWN]) + (", ..." if len(left) > MAX_SHOWN else "")
        logger.info(
            "%s: X is the dataset %r; columns beside it are left out: %s; name what is to be X: x= "
            "(--x)",
            *(where, rows, shown),
        )


def listed_names(wanted: str | Iterable[str] | None) -> list[str]:
    """Return names in a list, or in a text with commas between them."""
    if isinstance(wanted, str):
        wanted = wanted.split(",")
    return [str(entry).strip() for entry in wanted or ()]


def _shape(item: Any) -> tuple[int, ...] | None:
    return item.shape if isinstance(item, h5py.Dataset) else None


def cell_named(file: h5py.File, wanted: str) -> Cell | None:
    """Return where a column is that is not named as one of the table in use; None if nowhere.

    It is a dataset of one column, a table of one, or ``TABLE/COLUMN``, where one table alone has
    the column without its path; of a dataset of numbers a place on its other axes.
    """
    wanted = wanted.strip("/")
    item = file.get(wanted) if wanted else None
    cells = cells_of(item, wanted)
    if cells is not None:
        return next(iter(cells.values())) if len(cells) == 1 else None
    if item is not None:
        return Cell(wanted) if width_of(item) == 1 else None
    table, _, name = wanted.rpartition("/")
    item = item_of(file, table)
    cells = cells_of(item, table)
    if cells is None and name.isdecimal() and width_of(item) > 1:
        cells = matrix_cells(item, table)
    found = None if cells is None else cells.get(name)
    if found is not None or table:
        return found
    owners = [cells[name] for cells in tables_of(file).values() if name in cells]
    return owners[0] if len(owners) == 1 else None


def has_all(cells: Cells, names: list[str]) -> bool:
    """Return whether a table has a column for each of some names and patterns."""
    arrays = {cell.array for cell in cells.values()}
    return all(n in cells or n in arrays or fnmatch.filter(cells, n) for n in names)


def columns_named(item: Any, cells: Cells, names: list[str]) -> list[str]:
    """Return the columns of a table that names mean, or names after "-", which leave them out.

    A dataset or field of several values a row is all its columns. Such datasets beside columns are
    in no table by themselves, so where names only leave out, they leave these out too.
    """
    places: dict[str | None, list[str]] = {}
    for column, cell in cells.items():
        places.setdefault(cell.array, []).append(column)
    found = []
    for name in names:
        sign = "-" if name.startswith("-") and name not in cells else ""
        bare = name.removeprefix(sign)
        several = [] if bare in cells else places.get(bare, [])
        if several and isinstance(item, h5py.Group) and len(several) < width_of(item.get(bare)):
            raise ParameterError(
                f"columns of {bare!r} are called as other datasets there are, such as "
                f"'{bare}_0'; name those that are meant, or rename one of the datasets"
            )
        found += [sign + column for column in several or [bare]]
    is_loose = isinstance(item, h5py.Group) and whole_cells(item) is None
    if is_loose and all(name.startswith("-") for name in found):
        found += [f"-{name}" for name, cell in cells.items() if cell.array is not None]
    return found


def item_of(whole: Any, name: str) -> Any:
    """Return what a name means in a file or an item of one, which may be itself, or None."""
    return whole.get(name.strip("/")) if name.strip("/") else whole


def turned_of(file: h5py.File, wanted: str) -> h5py.Dataset | None:
    """Return the dataset that ``NAME.T`` means with its axes turned, or None."""
    item = file.get(wanted.removesuffix(".T")) if wanted.endswith(".T") else None
    return item if isinstance(item, h5py.Dataset) and len(item.shape or ()) > 1 else None


def _entry_of(item: Any) -> Entry | None:
    """Return what a group, or a dataset of records, is as X or targets; None of others."""
    if isinstance(item, h5py.Dataset):
        cells = told_cells(item)
        return None if cells is None else Entry(item, item.shape, "table", tuple(cells))
    encoding = encoding_of(item)
    if encoding in ("csr_matrix", "csc_matrix"):
        name, kind = "data", "sparse"
    elif encoding == "categorical":
        name, kind = "codes", "categories"
    else:
        name, kind = "values", ""
    part = item.get(name)
    if isinstance(part, h5py.Dataset) and (kind or encoding.startswith("nullable-")):
        return Entry(part, sparse_shape(item) if kind == "sparse" else part.shape, kind)
    cells = told_cells(item)
    if not cells:
        return None
    part = _dataset_of(item_of(item, next(iter(cells.values())).item))
    return Entry(part, part.shape, "table", tuple(cells))


def _dataset_of(item: Any) -> h5py.Dataset:
    """Return a dataset, or the values of a group that is a column."""
    return item if isinstance(item, h5py.Dataset) else item["data"]


def _is_inside(name: str, items: Container[str]) -> bool:
    """Return whether a path leads into one of some groups, or into an index of PyTables."""
    parts = name.split("/")
    above = ("/".join(parts[:n]) for n in range(1, len(parts)))
    return any(part.startswith("_i_") for part in parts) or any(path in items for path in above)
