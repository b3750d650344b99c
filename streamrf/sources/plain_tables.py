"""Tables of plain Python and NumPy: dicts of columns, arrays of records, rows that are dicts."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamrf.errors import DataError
from streamrf.sources.arrow_types import arrow


def is_plain(X: Any) -> bool:
    """Return whether X is a table of plain Python and NumPy, see `as_frame`."""
    return is_of_records(X) or is_of_rows(X) or _is_of_columns(X)


def is_of_records(X: Any) -> bool:
    """Return whether X is an array of records, also a masked one or one of `np.recarray`."""
    return isinstance(X, np.ndarray) and X.dtype.names is not None and X.ndim == 1


def is_of_rows(X: Any) -> bool:
    """Return whether X is a list of rows that are dicts, and not of tables that are dicts."""
    return isinstance(X, list) and len(X) > 0 and _is_of_columns(X[0]) and _is_row(X[0])


def as_frame(X: Any, where: str = "X") -> Any:
    """Return the Arrow table of what is one in plain Python and NumPy, or X itself.

    Those are a dict of columns, by their names, an array of records, and a list of rows that are
    dicts. A column of several numbers a row is one of lists. Masked entries are missing, and so are
    keys that rows do not have.
    """
    if is_of_rows(X):
        if odd := [row for row in X if not isinstance(row, Mapping)]:
            odd_name = type(odd[0]).__name__
            raise DataError(f"{where} is a list of dicts and of others, such as a {odd_name}")
        names = dict.fromkeys(name for row in X for name in row)
        columns = {name: [row.get(name) for row in X] for name in names}
    elif is_of_records(X):
        columns = {name: X[name] for name in X.dtype.names}
    elif _is_of_columns(X):
        if X and _is_row(X):
            raise DataError(f"{where} is a dict of one row; give lists of such rows")
        columns = X
    else:
        return X
    pa = arrow()
    found = [column_of(columns[name], f"{where}: column {name!r}") for name in columns]
    try:
        return pa.table(found, names=list(map(str, columns)))
    except (pa.ArrowException, ValueError) as error:
        told = " ".join(str(error).split())
        kind = type(X).__name__
        raise DataError(f"{where} is a {kind} that is no table of columns ({told})") from error


def _is_of_columns(X: Any) -> bool:
    """Return whether X maps names to columns, and is no matrix, file or set of arrays that does."""
    library = type(X).__module__.partition(".")[0]
    is_other = hasattr(X, "shape") or library in ("h5py", "xarray", "zarr")
    return isinstance(X, Mapping) and not is_other


def _is_row(row: dict[Any, Any]) -> bool:
    """Return whether some value is one, and not those of a column."""
    return any(
        isinstance(value, str | bytes)
        or not hasattr(value, "__len__")
        or getattr(value, "shape", None) == ()
        for value in row.values()
    )


def column_of(values: Any, where: str) -> Any:
    """Return a column of any library as Arrow's; what pandas takes for missing is missing.

    DataError for what is none.
    """
    pa = arrow()
    try:
        return _column(values)
    except (pa.ArrowException, LookupError, OverflowError, TypeError, ValueError) as error:
        told = " ".join(str(error).split())
        raise DataError(f"{where} is no column of a table ({told})") from error


def _column(values: Any) -> Any:
    pa = arrow()
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    is_pandas = type(values).__module__.partition(".")[0] == "pandas"
    if not is_pandas and hasattr(values, "__arrow_c_stream__") and getattr(values, "ndim", 1) == 1:
        return pa.chunked_array(values)
    if isinstance(values, list | tuple):
        objects = np.empty(len(values), dtype=object)
        for place, value in enumerate(values):
            objects[place] = value
        return pa.array(objects, from_pandas=True)
    if not isinstance(values, np.ndarray):
        if is_pandas and values.ndim == 1 and not isinstance(values.dtype, np.dtype):
            return pa.array(values, from_pandas=True)
        values = np.asarray(values)
    if values.dtype.kind == "O":
        return pa.array(values, from_pandas=True)
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    values = np.asarray(values)
    if values.dtype.kind == "S":
        values = np.strings.decode(values, "utf-8")
    if values.dtype.kind == "U":
        values = values.astype(object)  # of which Arrow cuts no text at a NUL
    elif not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if values.ndim < 2:
        return pa.array(values, mask=mask)
    width = int(np.prod(values.shape[1:]))
    flat = pa.array(values.reshape(-1), mask=None if mask is None else mask.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, width)
