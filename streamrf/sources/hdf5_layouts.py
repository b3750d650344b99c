"""Tables in HDF5 files: which columns they have, and where these are stored.

A layout is how some library stores a table (PyTables, "HDF5 file format"; pandas, `HDFStore`; vaex;
AnnData). A new one is a function and a row of `_LAYOUTS`.
"""

import io
import math
import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from streamrf.errors import CorruptFileError
from streamrf.sources.hdf5_groups import as_text, column_of, encoding_of, sparse_shape

MAX_SHOWN = 6  # names of columns in a listing
_SCALE_ALONE = "This is a netCDF dimension but not a netCDF variable"


class Cell(NamedTuple):
    """Where a column of a table is stored.

    Attributes
    ----------
    item : path of a dataset, or of a group that `column_of` knows
    fields : of its records, each inside the one before
    place : of several values of a row, or None
    kind : "datetime64[ns]" and the like, or "bool", where numbers stand for these; "pickled" where
        values are Python objects; else ""
    levels : path of the dataset of categories that integers number, or ""
    missing : text that stands for a missing one, or None
    """

    item: str
    fields: tuple[str, ...] = ()
    place: int | None = None
    kind: str = ""
    levels: str = ""
    missing: str | None = None

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the column out of rows of the item."""
        for field in self.fields:
            values = values[field]
        if self.place is None:
            return values if values.ndim == 1 else values.reshape(len(values))
        return values.reshape(len(values), math.prod(values.shape[1:]))[:, self.place]


Cells = dict[str, Cell]  # by the names of columns


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


def cells_of(item: Any) -> Cells | None:
    """Return the columns of what is a table, or None of another dataset or group."""
    return next((cells for layout in _LAYOUTS if (cells := layout(item)) is not None), None)


def index_of(item: Any) -> tuple[str, ...]:
    """Return the columns that pandas keeps the levels of an index as; it leaves out others."""
    group = item.parent if isinstance(item, h5py.Dataset) else item
    return tuple(_names(_unpickled(group.attrs.get("levels"))))


def matrix_cells(dataset: h5py.Dataset) -> Cells:
    """Return the columns of a dataset of numbers, whose names are their places."""
    path = _path(dataset)
    return {str(j): Cell(path, place=j) for j in range(math.prod(dataset.shape[1:]))}


def entries_of(file: h5py.File) -> dict[str, Entry]:
    """Return what X, targets and weights of a file may be, by name."""
    found: dict[str, Entry] = {}
    groups: list[str] = []

    def visit(key: str | bytes, item: Any) -> None:
        name = os.fsdecode(key)  # of bytes where it is no UTF-8
        if any(name.startswith(group) for group in groups):
            return
        is_group = isinstance(item, h5py.Group)
        if name.rpartition("/")[2].startswith("_i_"):  # an index of PyTables
            groups.append(f"{name}/")
        elif (entry := _entry_of(item)) is not None:
            found[name] = entry
            groups.extend([f"{name}/"] * is_group)
        elif not is_group:
            found[name] = Entry(item, item.shape)

    file.visititems(visit)
    return found


def tables_of(file: h5py.File) -> dict[str, Cells]:
    """Return the tables of a file by name, each as of `whole_cells`."""
    found: dict[str, Cells] = {}

    def visit(key: str | bytes, item: Any) -> None:
        name = os.fsdecode(key)
        if any(not table or name.startswith(f"{table}/") for table in found):
            return
        if name.rpartition("/")[2].startswith("_i_") or "/_i_" in name:
            return
        if (cells := whole_cells(item)) is not None:
            found[name] = cells

    visit("", file)
    file.visititems(visit)
    return found


def whole_cells(item: Any) -> Cells | None:
    """Return the columns of what may be taken for a table without naming columns, or None.

    Loose columns beside rows of numbers may not: X is one of these, and others are targets.
    """
    cells = cells_of(item)
    is_loose = isinstance(item, h5py.Group) and not encoding_of(item) and not _pandas_type(item)
    if is_loose and any(width_of(child) > 1 for _, child in _children(item)):
        return None
    return cells or None


def _entry_of(item: Any) -> Entry | None:
    """Return what a group, or a dataset of records, is as X or targets; None of others."""
    if isinstance(item, h5py.Dataset):
        cells = _records(item)
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
    for layout in (_pandas_table, _pandas_fixed, _vaex):
        if cells := layout(item):
            part = _dataset_of(item.file[next(iter(cells.values())).item])
            return Entry(part, part.shape, "table", tuple(cells))
    return None


def _dataset_of(item: Any) -> h5py.Dataset:
    """Return a dataset, or the values of a group that is a column."""
    return item if isinstance(item, h5py.Dataset) else item["data"]


def _path(item: Any) -> str:
    return os.fsdecode(item.name).strip("/")


def _children(group: h5py.Group) -> Iterator[tuple[str, Any]]:
    """Yield what is in a group, by name; links that lead nowhere are left out."""
    for key in group:
        name = os.fsdecode(key)
        item = group.get(key)
        if item is not None:
            yield name, item


def _records(item: Any) -> Cells | None:
    """Columns of a dataset of records, also as PyTables and pandas (`format="table"`) write it."""
    if not isinstance(item, h5py.Dataset) or item.shape is None or item.ndim != 1:
        return None
    if item.dtype.names is None:
        return None
    told = {key: item.attrs.get(key) for key in item.attrs if key.endswith(("_kind", "_dtype"))}
    is_pandas = "index_kind" in told
    stored = item.id.get_type()
    cells: Cells = {}
    for position, field in enumerate(item.dtype.names):
        if is_pandas and field == "index":
            continue
        is_bits = stored.get_member_type(position).get_class() == h5py.h5t.BITFIELD
        kind = _time_of(as_text(told.get(f"{field}_dtype"))) or ("bool" if is_bits else "")
        levels, missing = "", None
        if is_pandas:
            if as_text(item.attrs.get(f"{field}_meta")) == "category":
                levels = _path(item.parent) + f"/meta/{field}/meta/table"
            missing = as_text(item.parent.attrs.get("nan_rep")) or None
        base = Cell(_path(item), kind=kind, levels=levels, missing=missing)
        names = _names(_unpickled(told.get(f"{field}_kind")))
        cells |= _of_field(base, (field,), item.dtype[field], field, names)
    return cells


def _of_field(
    base: Cell, fields: tuple[str, ...], dtype: np.dtype[Any], name: str, names: list[str]
) -> Cells:
    """Return the columns of a field: of several values, or of fields of its own, one for each."""
    if dtype.names is not None:
        found: Cells = {}
        for inner in dtype.names:
            found |= _of_field(base, (*fields, inner), dtype[inner], f"{name}.{inner}", [])
        return found
    if dtype.subdtype is None:
        return {name: base._replace(fields=fields)}
    n = math.prod(dtype.shape)
    if len(names) != n:
        names = [f"{name}_{j}" for j in range(n)]
    return {one: base._replace(fields=fields, place=j) for j, one in enumerate(names)}


def _pandas_table(item: Any) -> Cells | None:
    """Columns of a frame or series that pandas wrote with `format="table"`."""
    if not isinstance(item, h5py.Group) or not _pandas_type(item).endswith("_table"):
        return None
    return _records(item.get("table"))


def _pandas_fixed(item: Any) -> Cells | None:
    """Columns of a frame or series that pandas wrote with `format="fixed"`, its default."""
    if not isinstance(item, h5py.Group) or _pandas_type(item) not in ("frame", "series"):
        return None
    if _pandas_type(item) == "series":
        values = item.get("values")
        name = as_text(item.attrs.get("name")) or _path(item).rpartition("/")[2]
        return None if values is None else {name: Cell(_path(values), kind=_kind_of(values))}
    found: Cells = {}
    for block in range(int(item.attrs.get("nblocks", 0))):
        values, items = item.get(f"block{block}_values"), item.get(f"block{block}_items")
        if not isinstance(values, h5py.Dataset):
            raise CorruptFileError(
                f"{_path(item)!r} is a frame of pandas that lacks its block {block}; write it again"
            )
        names = _items(items)
        kind = _kind_of(values)
        n_columns = len(names) if kind == "pickled" else math.prod(values.shape[1:])
        if len(names) != n_columns:
            names = [f"block{block}_{j}" for j in range(n_columns)]
        for place, name in enumerate(names):
            found[name] = Cell(_path(values), place=None if kind == "pickled" else place, kind=kind)
    order = [name for name in _items(item.get("axis0")) if name in found]
    return {name: found[name] for name in dict.fromkeys((*order, *found))}


def _vaex(item: Any) -> Cells | None:
    """Columns of a table that vaex wrote."""
    columns = item.get("columns") if isinstance(item, h5py.Group) else None
    if not isinstance(columns, h5py.Group) or as_text(item.attrs.get("type")) != "table":
        return None
    inside = {name: Cell(_path(group)) for name, group in _children(columns) if "data" in group}
    order = as_text(columns.attrs.get("column_order")).split(",")
    return {n: inside[n] for n in dict.fromkeys((*order, *inside)) if n in inside}


def _frame(item: Any) -> Cells | None:
    """Columns of a data frame of AnnData, such as its `obs`."""
    if not isinstance(item, h5py.Group) or encoding_of(item) != "dataframe":
        return None
    index = as_text(item.attrs.get("_index"))
    order = [as_text(name) for name in np.ravel(item.attrs.get("column-order", ())).tolist()]
    names = [*(name for name in order if name in item), *item]
    names = [name for name in dict.fromkeys(names) if name != index]
    return {n: Cell(_path(item[n])) for n in names if column_of(item[n], n) is not None}


def _loose(item: Any) -> Cells | None:
    """Columns that are each a dataset of a group; of several lengths those of the most frequent.

    One of two axes is a column for each place of the second.
    """
    if not isinstance(item, h5py.Group) or encoding_of(item) or _pandas_type(item):
        return None
    inside = [(name, child) for name, child in _children(item) if _is_column(child)]
    lengths = Counter(len(child) for _, child in inside if width_of(child) == 1).most_common(2)
    if not lengths or lengths[0][1] < 2 or (lengths[1:] and lengths[0][1] == lengths[1][1]):
        return None
    found: Cells = {}
    for name, child in inside:
        if len(child) == lengths[0][0]:
            kind = "bool" if child.id.get_type().get_class() == h5py.h5t.BITFIELD else ""
            base, n = Cell(_path(child), kind=kind), width_of(child)
            found |= {name: base} if n == 1 else {}
            found |= {f"{name}_{j}": base._replace(place=j) for j in range(n) if n > 1}
    return found


_LAYOUTS: tuple[Callable[[Any], Cells | None], ...] = (
    _records,
    _pandas_table,
    _pandas_fixed,
    _vaex,
    _frame,
    _loose,
)


def _is_column(item: Any) -> bool:
    """Return whether a dataset may be a loose column, and is no empty axis of netCDF."""
    if not isinstance(item, h5py.Dataset) or not 1 <= len(item.shape or ()) <= 2:
        return False
    is_value = item.dtype.kind in "biuf" or h5py.check_string_dtype(item.dtype) is not None
    return is_value and not as_text(item.attrs.get("NAME")).startswith(_SCALE_ALONE)


def _pandas_type(group: h5py.Group) -> str:
    return as_text(group.attrs.get("pandas_type"))


def _kind_of(values: h5py.Dataset) -> str:
    """Return what the numbers of a block of pandas stand for."""
    if values.id.get_type().get_class() == h5py.h5t.BITFIELD:
        return "bool"
    if as_text(values.attrs.get("CLASS")) == "VLARRAY":
        return "pickled"
    return _time_of(as_text(values.attrs.get("value_type")))


def _time_of(text: str) -> str:
    """Return a dtype of dates or durations with its unit, "" of others."""
    if not text.startswith(("datetime64", "timedelta64")):
        return "bool" if text == "bool" else ""
    return text.split(",")[0].rstrip("]") + "]" if "[" in text else f"{text}[ns]"


def _items(dataset: Any) -> list[str]:
    """Return names that pandas keeps in a dataset; none where they are pickled, or of levels."""
    if not isinstance(dataset, h5py.Dataset) or as_text(dataset.attrs.get("CLASS")) == "VLARRAY":
        return []
    return _names(np.ravel(dataset[()]).tolist())


def _names(values: Any) -> list[str]:
    """Return a list of names as texts; of what is no list none."""
    if not isinstance(values, list):
        return []
    return [v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in values]


class _Plain(pickle.Unpickler):
    """What makes lists, texts and numbers of pickles, and nothing of any class."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is asked for")


def _unpickled(value: Any) -> Any:
    """Return what PyTables has pickled in an attribute, None if that is not only plain values."""
    if not isinstance(value, bytes):
        return None
    try:
        return _Plain(io.BytesIO(value)).load()
    except Exception:  # any that a crafted one raises
        return None


def cell_named(file: h5py.File, wanted: str) -> Cell | None:
    """Return where a column is that is not named as one of the table in use; None if nowhere.

    It is a dataset of one column, a table of one, or ``TABLE/COLUMN``; of a dataset of numbers a
    place on its other axes.
    """
    wanted = wanted.strip("/")
    item = file.get(wanted) if wanted else None
    cells = None if item is None else cells_of(item)
    if cells is not None:
        return next(iter(cells.values())) if len(cells) == 1 else None
    if item is not None:
        return Cell(wanted) if width_of(item) == 1 else None
    table, _, name = wanted.rpartition("/")
    item = file.get(table) if table else file
    cells = None if item is None else cells_of(item)
    if cells is None and name.isdecimal() and width_of(item) > 1:
        cells = matrix_cells(item)
    return None if cells is None else cells.get(name)


def turned_of(file: h5py.File, wanted: str) -> h5py.Dataset | None:
    """Return the dataset that ``NAME.T`` means with its axes turned, or None."""
    item = file.get(wanted.removesuffix(".T")) if wanted.endswith(".T") else None
    return item if isinstance(item, h5py.Dataset) and len(item.shape or ()) > 1 else None


def width_of(item: Any) -> int:
    """Return the numbers of a row of a dataset, 1 of others."""
    return math.prod((item.shape or (0, 0))[1:]) if isinstance(item, h5py.Dataset) else 1
