"""Tables in memory: pandas, polars, Arrow and whatever exports Arrow; Dask data frames."""

import copy
import os
import sys
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from typing import Any, Protocol, runtime_checkable

import numpy as np

from streamrf.errors import (
    DataError,
    MissingPackageError,
    ParameterError,
    ShapeError,
    check_readable,
    check_undated,
)
from streamrf.sources.arrow_types import INDEX, arrow, index_of, kind_of
from streamrf.sources.dask_array import check_not_persisted, computed, in_memory
from streamrf.sources.derived import check_names, names_of, target_places
from streamrf.sources.paths import is_paths
from streamrf.sources.plain_tables import column_of, is_of_rows, is_plain
from streamrf.sources.seekable import Ranges
from streamrf.sources.sparse import is_scipy_sparse
from streamrf.sources.table_parts import detached, in_one_chunk
from streamrf.sources.tables import Table, TableSource
from streamrf.sources.validation import warn_of_rounded

WITHOUT_ROWS = {  # classes of queries, files and streams, and what to give in their place
    ("anndata", "AnnData"): "the path of its file to open_source, or X.X and labels of X.obs",
    ("netCDF4", "Dataset"): "the path of its file to open_source, or X['NAME'][:]",
    ("polars", "LazyFrame"): "X.collect(), or the names of the files that it reads",
    ("pyarrow", "FileSystemDataset"): "the names of its files, X.files",
    ("pyarrow", "InMemoryDataset"): "X.to_table()",
    ("pyarrow", "UnionDataset"): "its parts, one by one",
    ("pyarrow", "RecordBatchReader"): "X.read_all()",
    ("xarray", "Dataset"): "one of its arrays, X['NAME'], or the table X.to_dataframe()",
}


@runtime_checkable
class Frame(Protocol):
    """A table of any library that exports Arrow (pandas, polars, pyarrow, DuckDB)."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


class FrameTable(Table):
    """A table in memory.

    Parameters
    ----------
    frame : what exports Arrow
    extra : more columns by their roles, arrays or tables of as many rows: targets and weights
    where : the table, for messages; None means its class
    first : a table that this one continues, with `extra` of the same roles, which get its names

    Attributes
    ----------
    names : lists of the columns that `extra` became, by roles; other than those of the first frame
    given : the names that these had, by roles; none where they came without
    left_out : columns that are called as those of `extra` of the first table
    """

    left_out: tuple[str, ...] = ()

    def __init__(
        self,
        frame: Frame,
        extra: dict[str, Any] | None = None,
        where: str | None = None,
        first: "FrameTable | None" = None,
    ) -> None:
        self.name = type(frame).__name__
        self.where = where or self.name
        table = _table(frame, self.where)
        self.names: dict[str, list[str]] = {}
        self.given: dict[str, tuple[str, ...]] = {}
        if first is not None:
            self.titles = first.titles
            taken = [name for names in first.names.values() for name in names]
            self.left_out = tuple(name for name in taken if name in table.schema.names)
            table = table.select([name for name in table.schema.names if name not in taken])
        for role, values in (extra or {}).items():
            told = f"{where}, {role}" if where else role
            values = in_memory(values, role)
            check_column(values, told)
            if len(values) != len(table):
                raise ShapeError(f"{told} has {len(values)} rows but X has {len(table)}")
            more, is_named = _columns_of(role, values)
            self.given[role] = (*more.schema.names,) if is_named else ()
            if first is not None:
                if len(more.schema.names) != len(first.names[role]):
                    n_here, n_first = len(more.schema.names), len(first.names[role])
                    raise ShapeError(f"{told} has {n_here} columns but the first {n_first}")
                places = target_places(first.given[role], self.given[role], told)
                more = more if places is None else more.select(places)
            self.names[role] = []
            wanted = more.schema.names if first is None else first.names[role]
            for name, column in zip(wanted, more.columns, strict=True):
                own = name
                while own in table.schema.names:
                    own += "_"
                if own != name:
                    self.titles = self.titles | {own: name}
                self.names[role].append(own)
                table = table.append_column(own, column)
            self.unnamed += () if is_named else (*self.names[role],)
        self._table = in_one_chunk(table)
        self.n_rows = len(table)
        self.types = dict(zip(table.schema.names, table.schema.types, strict=True))
        self.index = index_of(table.schema)

    def head(self, stop: int) -> "FrameTable":
        """Return the table of the rows before one."""
        part = copy.copy(self)
        part._table = self._table.slice(0, stop)
        part.n_rows = len(part._table)
        return part

    def detached(self) -> "FrameTable":
        """Return the table in memory of its own."""
        copied = copy.copy(self)
        copied._table = in_one_chunk(detached(self._table))
        return copied

    def read(
        self, ranges: Ranges, types: dict[str, Any], block_rows: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield views of the rows of ascending ranges."""
        for start, stop in ranges:
            yield start, self._table.select(list(types)).slice(start, stop - start)


class DaskFrameTable(Table):
    """A Dask data frame; each partition is computed when it is read, in the thread that reads.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame; the lengths of its partitions are computed
    """

    def __init__(self, frame: Any) -> None:
        self.where = self.name = "DataFrame"
        self._frame = frame
        check_not_persisted("X", frame)
        lengths = computed(frame.map_partitions(len), "X")
        self._borders = [0, *accumulate(int(length) for length in lengths)]
        self.n_rows = self._borders[-1]
        filled = int(np.argmax(lengths))
        first = _table(self._partition(filled), self.where)
        self.types = dict(zip(first.schema.names, first.schema.types, strict=True))

    def chunk(self, row: int) -> tuple[int, int]:
        """Return the bounds of the partition with a row."""
        index = bisect_right(self._borders, row)
        return self._borders[index - 1], self._borders[index]

    def read(
        self, ranges: Ranges, types: dict[str, Any], block_rows: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield the rows of ascending ranges partition by partition, each computed once."""
        held, table = -1, None
        for start, stop in ranges:
            row = start
            while row < stop:
                index = bisect_right(self._borders, row) - 1
                if index != held:
                    frame = self._partition(index)
                    held, table = index, _table(frame[list(types)], self.where)
                assert table is not None
                first, end = self._borders[index], min(self._borders[index + 1], stop)
                yield row, table.slice(row - first, end - row)
                row = end

    def _partition(self, index: int) -> Any:
        return computed(self._frame.get_partition(index), "X")


def is_frame(X: Any) -> bool:
    """Return whether X is a table in memory, or a Dask data frame; DataError for others."""
    name = type(X).__name__
    if cure := WITHOUT_ROWS.get((_library(X), name)):
        raise DataError(f"X is a {name}, which is no table of rows in memory; give {cure}")
    return is_dask_frame(X) or (isinstance(X, Frame) and len(X.shape) == 2)


def is_table(X: Any) -> bool:
    """Return whether X is a table in memory, not of Dask and no array with labels of xarray."""
    return is_frame(X) and not is_dask_frame(X) and _library(X) != "xarray"


def check_no_frame(X: Any, reader: str) -> None:
    """Raise DataError for a table where columns are told by place; `reader` reads them by name."""
    if is_frame(X):
        raise DataError(
            f"X is a {type(X).__name__}, whose columns are not looked up by name here; give it to "
            f"{reader}, or its numbers as an array"
        )


def is_stream(X: Any) -> bool:
    """Return whether X can only be iterated over, as iterators and loaders of batches can."""
    of_arrays = ("__getitem__", "__array__", "shape", "__arrow_c_stream__")
    return isinstance(X, Iterator) or (
        hasattr(X, "__iter__") and not any(hasattr(X, name) for name in of_arrays)
    )


def is_tabular(X: Any) -> bool:
    """Return whether X is a table in memory, of a library or of plain Python and NumPy."""
    return is_plain(X) or is_table(X)


def is_of_blocks(X: Any) -> bool:
    """Return whether X gives blocks of rows: a stream, a function or a list of tables."""
    if isinstance(X, list):
        first = X[0] if X and not is_of_rows(X) else None
        first = first[0] if isinstance(first, tuple) and first else first
        return is_tabular(first)
    return is_stream(X) or (callable(X) and not isinstance(X, type))


def check_at_hand(X: Any) -> None:
    """Raise ParameterError for a path, or what gives rows as they come."""
    if isinstance(X, str | bytes | os.PathLike):
        raise ParameterError(f"X is the path {X!r}; use open_source({X!r}, y=...)")
    if is_plain(X) or (isinstance(X, list) and X and is_plain(X[0])):
        raise ParameterError(
            f"X is a {type(X).__name__} with names of columns; use open_source(X, y=...)"
        )
    if not isinstance(X, list) and is_of_blocks(X):
        raise ParameterError(
            f"X is a {type(X).__name__}; use open_source(X), or, of tables, open_source(X, y=...)"
        )


def is_mixed(X: Any) -> bool:
    """Return whether X is a table with holes or other columns than plain numbers; or of Dask.

    Raise DataError where some column is neither a number nor one that tables may have.
    """
    if not is_frame(X) or is_dask_frame(X):
        return is_dask_frame(X)
    names_of(X, type(X).__name__)  # raises for columns of one name
    try:
        columns = arrow().table(X).columns
    except MissingPackageError:
        return False
    except (NotImplementedError, ValueError, TypeError, OverflowError):
        values = np.asarray(X)
        if values.dtype.kind in "biuf" and not np.isnan(values).any():
            return False
        _table(X, type(X).__name__)  # raises what is wrong
        raise
    temporal = arrow().types.is_temporal  # durations are numbers, of seconds
    return any(
        c.null_count
        or temporal(c.type)
        or kind_of(c.type) not in ("number", "boolean")
        or _has_nan(c)
        for c in columns
    )


def _has_nan(column: Any) -> bool:
    """Return whether an Arrow column has NaN, which is missing in tables, as null is."""
    if not arrow().types.is_floating(column.type):
        return False
    parts = (part.to_numpy(zero_copy_only=False) for part in column.chunks)
    return any(np.isnan(part).any() for part in parts)


def is_dask_frame(X: Any) -> bool:
    """Return whether X is a Dask data frame, without importing Dask."""
    frames = sys.modules.get("dask.dataframe")
    return frames is not None and isinstance(X, frames.DataFrame)


def as_known(X: Any) -> Any:
    """Return a table in memory, but of Dask, as one whose names scikit-learn knows; or X itself.

    DataError for masked entries, whose mask scikit-learn drops, and ShapeError for dates and
    durations, see `check_undated`; ParameterError for paths and streams; integers that it rounds
    are told.
    """
    check_at_hand(X)
    check_readable(X, "X")
    check_undated(X, "X")
    if isinstance(X, np.ndarray):
        warn_of_rounded(X, "X")
    known = ("pandas", "polars", "dask", "dask_expr", "xarray")
    if not is_frame(X) or _library(X) in known:
        return X
    table = _table(X, type(X).__name__)
    return table.drop_columns([*index_of(table.schema)])


def _library(X: Any) -> str:
    """Return the package that an object's class is of."""
    return type(X).__module__.partition(".")[0]


def check_column(values: Any, where: str) -> None:
    """Raise DataError for what has not a value for each row."""
    shape = getattr(values, "shape", None)
    is_other = isinstance(values, str | bytes | dict | set | frozenset) or is_scipy_sparse(values)
    if is_other or not hasattr(values, "__len__") or shape == () or 0 in (shape or ())[1:]:
        raise DataError(f"{where} must be a value for each row, got a {type(values).__name__}")


def _columns_of(role: str, values: Any) -> tuple[Any, bool]:
    """Return targets or weights as an Arrow table, and whether they have names of their own."""
    names: tuple[str, ...] | None = None
    is_labelled = _library(values) == "xarray"  # whose arrays Arrow does not know
    if isinstance(values, Frame) and len(values.shape) == 2:
        names = names_of(values, role)
        if names and not is_labelled:
            return _table(values, role), True
        values = np.asarray(values)
    elif is_labelled:
        values = np.asarray(values)
    if getattr(values, "ndim", 1) != 2:
        columns = {role: values}
    elif names:
        columns = dict(zip(names, values.T, strict=True))
    elif values.shape[1] == 1:
        columns = {role: values[:, 0]}
    else:
        columns = {f"{role}{i}": column for i, column in enumerate(values.T)}
    for name, column in columns.items():
        if isinstance(column, np.ndarray):
            columns[name] = column_of(column, role)
    return _table(columns, role), names is not None


def _table(frame: Any, where: str) -> Any:
    """Return an Arrow table, without the index that pandas' tables have."""
    pa = arrow()
    is_pandas = _library(frame) == "pandas"
    try:
        made = partial(pa.Table.from_pandas, preserve_index=False) if is_pandas else pa.table
        is_table = isinstance(frame, pa.Table)  # which the way by a stream spoils: empty chunks
        table = in_one_chunk(frame) if is_table else made(frame)
    except (pa.ArrowInvalid, TypeError, NotImplementedError) as error:
        raise DataError(
            f"{where} has a column of several types, or of one that Arrow lacks"
            f" ({' '.join(str(error).split())}); convert it to numbers or strings"
        ) from error
    except UnicodeEncodeError as error:
        raise DataError(
            f"{where} has a column of strings that are not UTF-8 text ({error}); mend them:"
            " .str.encode('utf-8', 'replace').str.decode('utf-8')"
        ) from error
    except OverflowError as error:
        raise DataError(
            f"{where} has a column of integers that 64 bits do not hold ({error}); convert it to"
            " floats or strings"
        ) from error
    except ValueError as error:  # as pandas raises for columns of one name
        raise DataError(f"{where} is no table ({' '.join(str(error).split())})") from error
    names = table.schema.names
    check_names(names, where)
    return table.select([name for name in names if not name.startswith(INDEX)])


def open_frame(frame: Any, x: Any, y: Any, weights: Any) -> TableSource:
    """Return the rows of a table in memory; y and weights are columns of it, or arrays."""
    if is_dask_frame(frame):
        if not all(values is None or is_paths(values) for values in (y, weights)):
            raise ParameterError(
                "y and weights of a Dask data frame are columns of it: assign them, as in"
                " frame.assign(y=series), and give their names"
            )
        return TableSource([DaskFrameTable(frame)], x, y, weights)
    roles = {"y": y, "weights": weights}
    for role, values in roles.items():
        if values is not None and not hasattr(values, "__len__"):
            raise ParameterError(
                f"{role} must be the name of a column, a text, or a value for each row, got "
                f"{values!r}"
            )
    are_names = {role: is_named(frame, values) for role, values in roles.items()}
    table = FrameTable(frame, {role: roles[role] for role in roles if not are_names[role]})
    names = [roles[role] if are_names[role] else table.names[role] for role in roles]
    return TableSource([table], x, *names)


def is_named(frame: Any, values: Any) -> bool:
    """Return whether y or weights are names of columns, or None; and not a label for each row."""
    if not isinstance(values, list | tuple) or len(values) != frame.shape[0]:
        return values is None or is_paths(values)
    return is_paths(values) and {*values} <= {*(names_of(frame, "X") or ())}
