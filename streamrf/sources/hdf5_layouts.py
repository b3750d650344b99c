"""Tables in HDF5 files: which columns they have, and where these are stored.

A layout is how some library stores a table (PyTables, "HDF5 file format"; pandas, `HDFStore`; vaex;
AnnData). A new one is a function and a row of `_LAYOUTS`.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from streamrf.errors import CorruptFileError, ShapeError
from streamrf.sources.hdf5_groups import column_of, encoding_of
from streamrf.sources.packing import as_text
from streamrf.sources.plain_pickles import unpickled

MAX_COLUMNS = 100_000  # of a table; what claims more is damaged, or rows of numbers
_PICKLED_NONE = ("N.", "\x80\x02N.")  # as PyTables keeps it
_SCALE_ALONE = "This is a netCDF dimension but not a netCDF variable"


class Cell(NamedTuple):
    """Where a column of a table is stored.

    Attributes
    ----------
    item : path of a dataset, or of a group that `column_of` knows, as it was found: not as a file
        that a link leads to calls it
    fields : of its records, each inside the one before
    place : of several values of a row, or None
    kind : "datetime64[ns]" and the like, or "bool", where numbers stand for these; "pickled" where
        values are Python objects, "repeated" where several columns have the name, "empty" where
        there are no rows; else ""
    levels : path of the dataset of categories that integers number, from the group that the item
        is in, or ""
    missing : text that stands for a missing one, or None
    mask : field that says which values are missing, or ""
    """

    item: str
    fields: tuple[str, ...] = ()
    place: int | None = None
    kind: str = ""
    levels: str = ""
    missing: str | None = None
    mask: str = ""

    @property
    def array(self) -> str | None:
        """Name of the dataset or field of several values a row that this is a place of, or None."""
        if self.place is None:
            return None
        return ".".join(self.fields) or self.item.rpartition("/")[2]

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the column out of rows of the item, masked where a field or text says so."""
        found = self._values(values, self.fields)
        is_missing = np.zeros(0, bool)
        if self.mask:
            is_missing = self._values(values, (self.mask,))
        elif self.missing is not None and found.dtype.kind in "SO":
            is_missing = found.astype(object) == self.missing.encode()
        return np.ma.array(found, mask=is_missing) if is_missing.any() else found

    def _values(self, values: NDArray[Any], fields: tuple[str, ...]) -> NDArray[Any]:
        for field in fields:
            values = values[field]
        if self.place is None:
            return values if values.ndim == 1 else values.reshape(len(values))
        return values.reshape(len(values), math.prod(values.shape[1:]))[:, self.place]

    def within(self, path: str) -> "Cell":
        """Return the place as seen from where `path` leads to what it is in."""
        return self._replace(item=f"{path}/{self.item}".strip("/"))


Cells = dict[str, Cell]  # by the names of columns


def cells_of(item: Any, path: str = "") -> Cells | None:
    """Return the columns of what is a table; None of another dataset or group, or of nothing.

    Their places are as seen from where `path` leads to it.
    """
    return _first(_LAYOUTS, item, path)


def _first(layouts: Iterable["_Layout"], item: Any, path: str) -> Cells | None:
    cells = next((cells for layout in layouts if (cells := layout(item)) is not None), None)
    return None if cells is None else _within(cells, path)


def _within(cells: Cells, path: str) -> Cells:
    return {name: cell.within(path) for name, cell in cells.items()} if path else cells


def index_of(item: Any) -> tuple[str, ...]:
    """Return columns that are levels of an index of pandas, which are left out unless named.

    xarray writes an index without a name as the axis "index" of netCDF.
    """
    group = item.parent if isinstance(item, h5py.Dataset) else item
    levels, axis = _names(unpickled(group.attrs.get("levels"))), group.get("index")
    if isinstance(axis, h5py.Dataset) and as_text(axis.attrs.get("NAME")) == "index":
        levels.append("index")
    return tuple(levels)


def told_cells(item: Any, path: str = "") -> Cells | None:
    """Return the columns of what says that it is a table, or None of others; see `cells_of`."""
    return _first(_TOLD, item, path)


def matrix_cells(dataset: h5py.Dataset, path: str) -> Cells:
    """Return the columns of a dataset of numbers, whose names are their places."""
    _checked(width_of(dataset), path)
    return {str(j): Cell(path, place=j) for j in range(width_of(dataset))}


def _shown(item: Any) -> str:
    return os.fsdecode(item.name).strip("/")


def children(group: h5py.Group) -> Iterator[tuple[str, Any]]:
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
    if not is_of_numpy(item) or item.dtype.names is None:
        return None
    told = {key: item.attrs.get(key) for key in item.attrs if key.endswith(("_kind", "_dtype"))}
    is_pandas = "index_kind" in told
    stored = item.id.get_type()
    cells: Cells = {}
    masks = _masks_of(item.dtype)
    for position, field in enumerate(item.dtype.names):
        if (is_pandas and field == "index") or field in masks.values():
            continue
        is_bits = stored.get_member_type(position).get_class() == h5py.h5t.BITFIELD
        kind = _time_of(as_text(told.get(f"{field}_dtype"))) or ("bool" if is_bits else "")
        levels, missing = "", None
        if is_pandas:
            if as_text(item.attrs.get(f"{field}_meta")) == "category":
                levels = f"meta/{field}/meta/table"
            missing = _missing_text(item, field)
        base = Cell("", (), None, kind, levels, missing, masks.get(field, ""))
        names = _names(unpickled(told.get(f"{field}_kind")))
        _add(cells, _of_field(base, (field,), item.dtype[field], field, names))
    return _ordered(cells, _order_of(item.parent)) if is_pandas else cells


def _masks_of(dtype: np.dtype[Any]) -> dict[str, str]:
    """Return the fields that say which values of others are missing, as astropy writes them."""
    names = dtype.names or ()
    pairs = ((name, f"{name}.mask") for name in names if f"{name}.mask" in names)
    return {
        name: mask
        for name, mask in pairs
        if dtype[mask].base.kind == "b" and dtype[mask].shape == dtype[name].shape
    }


def _missing_text(table: h5py.Dataset, field: str) -> str | None:
    """Return the text that pandas writes for missing ones of a field, None if none is.

    Since version 3.1 it is told for each field, and before for the table: "nan" unless another.
    """
    attributes = table.parent.attrs
    is_level = bool(attributes.get("mi_level_nan_rep")) and field in index_of(table)
    if is_level or attributes.get("data_col_nan_rep"):
        told = table.attrs.get(f"{field}_nan_rep")
        return None if told is None or as_text(told) in _PICKLED_NONE else as_text(told)
    told = attributes.get("nan_rep")
    is_told = told is not None and as_text(told) not in _PICKLED_NONE
    return as_text(told) if is_told else "nan"


def is_of_numpy(dataset: h5py.Dataset) -> bool:
    """Return whether NumPy has the type of values, or of records: it has none of HDF5's times."""
    try:
        return dataset.dtype is not None
    except TypeError:
        return False


def _add(cells: Cells, more: Iterable[tuple[str, Cell]]) -> None:
    """Add columns; those of one name are none that can be told apart."""
    for name, cell in more:
        cells[name] = cell._replace(kind="repeated") if name in cells else cell


def _ordered(cells: Cells, names: Iterable[str]) -> Cells:
    """Return columns in the order of names, those that are not among these last."""
    return {name: cells[name] for name in dict.fromkeys((*names, *cells)) if name in cells}


def _order_of(group: h5py.Group) -> list[str]:
    """Return the names of columns as the frame had them that pandas wrote as a table."""
    axes = unpickled(group.attrs.get("non_index_axes"))
    is_known = isinstance(axes, list) and len(axes) == 1 and isinstance(axes[0], tuple)
    return _names(axes[0][-1]) if is_known and axes[0] else []


def _of_field(
    base: Cell, fields: tuple[str, ...], dtype: np.dtype[Any], name: str, names: list[str]
) -> list[tuple[str, Cell]]:
    """Return the columns of a field: of several values, or of fields of its own, one for each."""
    if dtype.names is not None:
        nested = (
            _of_field(base, (*fields, inner), dtype[inner], f"{name}.{inner}", [])
            for inner in dtype.names
        )
        return [one for found in nested for one in found]
    if dtype.subdtype is None:
        return [(name, base._replace(fields=fields))]
    n = _checked(math.prod(dtype.shape), name)
    if len(names) != n:
        names = [f"{name}_{j}" for j in range(n)]
    return [(one, base._replace(fields=fields, place=j)) for j, one in enumerate(names)]


def _checked(n_columns: int, item: str) -> int:
    """Return a number of columns, or raise ShapeError for one that no table has."""
    if n_columns > MAX_COLUMNS:
        raise ShapeError(
            f"{item!r} has {n_columns:,} columns, and a table may have {MAX_COLUMNS:,}; name a "
            "dataset of rows: x= (--x)"
        )
    return n_columns


def _pandas_table(item: Any) -> Cells | None:
    """Columns of a frame or series that pandas wrote with `format="table"`."""
    if not isinstance(item, h5py.Group) or not pandas_type(item).endswith("_table"):
        return None
    cells = _records(item.get("table"))
    return None if cells is None else _within(cells, "table")


def _pandas_fixed(item: Any) -> Cells | None:
    """Columns of a frame or series that pandas wrote with `format="fixed"`, its default."""
    if not isinstance(item, h5py.Group) or pandas_type(item) not in ("frame", "series"):
        return None
    if pandas_type(item) == "series":
        values = item.get("values")
        name = as_text(item.attrs.get("name")) or _shown(item).rpartition("/")[2]
        return None if values is None else {name: Cell("values", kind=_kind_of(values))}
    found: Cells = {}
    for block in range(int(item.attrs.get("nblocks", 0))):
        path = f"block{block}_values"
        values, items = item.get(path), item.get(f"block{block}_items")
        if not isinstance(values, h5py.Dataset):
            raise CorruptFileError(
                f"{_shown(item)!r} is a frame of pandas without its block {block}; write it again"
            )
        names, kind = _items(items), _kind_of(values)
        has_places = kind not in ("pickled", "empty")
        n_columns = _checked(width_of(values), _shown(values)) if has_places else len(names)
        if len(names) != n_columns:
            names = [f"block{block}_{j}" for j in range(n_columns)]
        cells = (Cell(path, place=j if has_places else None, kind=kind) for j in range(n_columns))
        _add(found, zip(names, cells, strict=True))
    return _ordered(found, _items(item.get("axis0")))


def _vaex(item: Any) -> Cells | None:
    """Columns of a table that vaex wrote."""
    columns = item.get("columns") if isinstance(item, h5py.Group) else None
    if not isinstance(columns, h5py.Group) or as_text(item.attrs.get("type")) != "table":
        return None
    found = {
        n: Cell(f"columns/{n}", kind=_time_of(as_text(group["data"].attrs.get("dtype"))))
        for n, group in children(columns)
        if "data" in group
    }
    order = as_text(columns.attrs.get("column_order")).split(",")
    return {n: found[n] for n in dict.fromkeys((*order, *found)) if n in found}


def _frame(item: Any) -> Cells | None:
    """Columns of a data frame of AnnData, such as its `obs`."""
    if not isinstance(item, h5py.Group) or encoding_of(item) != "dataframe":
        return None
    index = as_text(item.attrs.get("_index"))
    order = [as_text(name) for name in np.ravel(item.attrs.get("column-order", ())).tolist()]
    names = [*(name for name in order if name in item), *item]
    names = [name for name in dict.fromkeys(names) if name != index]
    return {n: Cell(n) for n in names if column_of(item[n], n) is not None}


def _loose(item: Any) -> Cells | None:
    """Columns that are each a dataset of a group; of several lengths those of the most frequent.

    One of two axes is a column for each place of the second.
    """
    if not isinstance(item, h5py.Group) or encoding_of(item) or pandas_type(item):
        return None
    columns = [(name, child) for name, child in children(item) if _is_column(child)]
    lengths = Counter(len(child) for _, child in columns if width_of(child) == 1).most_common(2)
    if not lengths or lengths[0][1] < 2 or (lengths[1:] and lengths[0][1] == lengths[1][1]):
        return None
    found: Cells = {}
    for name, child in columns:
        if len(child) == lengths[0][0]:
            kind = "bool" if child.id.get_type().get_class() == h5py.h5t.BITFIELD else ""
            base, n = Cell(name, kind=kind), width_of(child)
            found |= {name: base} if n == 1 else {}
            found |= {f"{name}_{j}": base._replace(place=j) for j in range(n) if n > 1}
    return found


_Layout = Callable[[Any], Cells | None]
_TOLD: tuple[_Layout, ...] = (_records, _pandas_table, _pandas_fixed, _vaex)  # shown as tables
_LAYOUTS: tuple[_Layout, ...] = (*_TOLD, _frame, _loose)


def _is_column(item: Any) -> bool:
    """Return whether a dataset may be a loose column, and is no empty axis of netCDF."""
    is_dataset = isinstance(item, h5py.Dataset) and is_of_numpy(item)
    if not is_dataset or not 1 <= len(item.shape or ()) <= 2:
        return False
    is_value = item.dtype.kind in "biuf" or h5py.check_string_dtype(item.dtype) is not None
    is_value = is_value and width_of(item) <= MAX_COLUMNS
    return is_value and not as_text(item.attrs.get("NAME")).startswith(_SCALE_ALONE)


def pandas_type(group: h5py.Group) -> str:
    """Return what pandas says that a group is, "" if it says nothing."""
    return as_text(group.attrs.get("pandas_type"))


def _kind_of(values: h5py.Dataset) -> str:
    """Return what the numbers of a block of pandas stand for."""
    if "shape" in values.attrs:  # of one without rows, in whose place there is a number
        return "empty"
    if values.id.get_type().get_class() == h5py.h5t.BITFIELD:
        return "bool"
    if as_text(values.attrs.get("CLASS")) == "VLARRAY":
        return "pickled"
    return _time_of(as_text(values.attrs.get("value_type")))


def _time_of(text: str) -> str:
    """Return a dtype of dates or durations with its unit, "" of others."""
    if not text.startswith(("datetime64", "timedelta64")):
        return "bool" if text == "bool" else ""
    if text in ("timedelta64[M]", "timedelta64[Y]"):
        return ""  # of no length in seconds
    return text.split(",")[0].rstrip("]") + "]" if "[" in text else f"{text}[ns]"


def _items(dataset: Any) -> list[str]:
    """Return names that pandas keeps in a dataset; none where they are pickled, or of levels."""
    if not isinstance(dataset, h5py.Dataset) or as_text(dataset.attrs.get("CLASS")) == "VLARRAY":
        return []
    return _names(np.ravel(dataset[()]).tolist())


def _names(values: Any) -> list[str]:
    """Return a list of names as texts; none of what is no list of texts and numbers."""
    if not isinstance(values, list) or not all(isinstance(v, _NAMES) for v in values):
        return []
    return [v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in values]


_NAMES = (str, bytes, int, float)


def width_of(item: Any) -> int:
    """Return the numbers of a row of a dataset, 1 of others."""
    return math.prod((item.shape or (0, 0))[1:]) if isinstance(item, h5py.Dataset) else 1
