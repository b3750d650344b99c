"""The errors that streamrf raises on purpose, and checks of arguments that raise them.

Every error that streamrf raises on purpose derives from `StreamrfError` and also from the builtin
that a caller would expect, so ``except ValueError`` keeps working.
"""

import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

TEXTS = "(?i:str|large_string|utf8|categor|enum|dictionary|(large_)?binary)"  # dtypes of tables


class StreamrfError(Exception):
    """A mistake in the data, the arguments or a file; the message is one sentence for the user."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # KeyError would print the repr


class ParameterError(StreamrfError, ValueError):
    """A setting that is not valid."""


class DataError(StreamrfError, ValueError):
    """Rows that cannot be used."""


class ShapeError(DataError):
    """Wrong rank, width or length."""


class BadRowError(DataError):
    """A row with NaN or infinity, or outside the kernel's domain."""


class EmptySourceError(DataError):
    """A source without rows."""


class ChangedFileError(DataError):
    """A file that was written to while its rows were read."""


class UnknownLabelError(DataError):
    """A label that the code book or the model does not know."""


class SourceNotFoundError(StreamrfError, FileNotFoundError):
    """A path or pattern that matches no file."""


class DatasetNotFoundError(StreamrfError, KeyError):
    """An HDF5 file without the dataset asked for."""


class CorruptFileError(StreamrfError, OSError):
    """A file that cannot be read to its end."""


class StorageError(StreamrfError, OSError):
    """A model or statistics file that cannot be written or read: a full disk, no permission."""


class ConsumedError(StreamrfError, RuntimeError):
    """A second pass over an iterator that can be read once."""


class MemoryBudgetError(StreamrfError, MemoryError):
    """A run that would need more memory than its budget."""


class MergeError(StreamrfError, ValueError):
    """Two summaries that must not be added or subtracted."""


class FormatError(StreamrfError, ValueError):
    """A model or statistics file that is damaged, or not of the kind or version expected."""


class CheckpointError(StreamrfError, ValueError):
    """A checkpoint of another job than the one that continues."""


class ClusterError(StreamrfError, RuntimeError):
    """A Dask cluster that was lost, has no workers or cannot do the work."""


class MissingPackageError(StreamrfError, ImportError):
    """An optional package that is not installed."""


class SolveError(StreamrfError, np.linalg.LinAlgError):
    """A system that could not be factored."""


class Interruption(KeyboardInterrupt):
    """A pass with a checkpoint stopped by a signal `number`; the message says how to continue."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


class StreamrfWarning(UserWarning):
    """Rows that make a result worse than it could be; the message names their share and a cure."""


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Raise ParameterError unless an argument is one of the choices; no array is."""
    known = tuple(choices)
    if isinstance(value, np.ndarray) or value not in known:
        as_word = isinstance(value, str) and value.lower() == "none" and None in known
        cure = "; in Python None is written without quotes" if as_word else ""
        raise ParameterError(f"{name} must be one of {known}, got {value!r}{cure}")


def check_flag(name: str, value: Any) -> None:
    """Raise ParameterError unless an argument is True or False; None is False."""
    is_flag = isinstance(value, bool | np.bool_ | int | np.integer) and value in (0, 1)
    if not is_flag and value is not None:
        raise ParameterError(f"{name} must be True or False, got {value!r}")


def check_kind(name: str, value: Any, kind: Any, expected: str) -> None:
    """Raise ParameterError unless an argument is of a class, or of one of a union."""
    if not isinstance(value, kind):
        raise ParameterError(f"{name} must be {expected}, got {value!r}")


def check_path(path: Any, name: str = "path") -> None:
    """Raise ParameterError for what names no file."""
    check_kind(name, path, str | bytes | os.PathLike, "the name of a file")


def check_options(options: Iterable[str], known: Iterable[str]) -> None:
    """Raise ParameterError for a keyword argument that is not among those known."""
    names = sorted(known)
    for name in options:
        if name not in names:
            raise ParameterError(f"there is no option {name!r}; the options are {', '.join(names)}")


def check_readable(values: Any, where: str) -> None:
    """Raise DataError for entries that NumPy would not see.

    Those of a masked array, whose mask it would drop, of what h5py had open and is closed, and of a
    dataset without a shape.
    """
    if type(values).__module__.startswith("h5py."):
        dataset = getattr(values, "_dset", values)  # of views such as `dataset.astype("f4")`
        if hasattr(dataset, "id") and not dataset.id.valid:
            raise DataError(f"{where} is of an HDF5 file that is closed; open it again")
        if getattr(dataset, "shape", ()) is None:
            raise DataError(f"{where} is an empty HDF5 dataset, which has no shape")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise DataError(
            f"{where} is an array with {np.ma.count_masked(values):,} masked entries; leave"
            " their rows out, or fill them: .filled(value)"
        )


def check_undated(X: Any, where: str) -> None:
    """Raise ShapeError for dates and durations, which others make numbers of, of missing ones too.

    In arrays, of objects too, in lists, and in columns of tables: pandas, Dask, polars, Arrow.
    """
    told = "expected numbers (bool, integer or float)"
    for name, dtype, column in _columns(X):
        if dtype := _date(dtype, column):
            raise ShapeError(f"{where}: column {name!r} has dtype {dtype}; {told}")
    is_table = hasattr(X, "columns")
    if isinstance(X, list | tuple) or (_is_objects(X) and not is_table):
        try:
            X = np.asarray(X)
        except ValueError:  # ragged, which others tell
            return
    if dtype := _date(getattr(X, "dtype", None), X):
        raise ShapeError(f"{where} has dtype {dtype}; {told}")


def check_no_text(X: Any, where: str) -> None:
    """Raise DataError for a table with texts or categories, of which NumPy may make numbers."""
    for name, dtype, column in _columns(X):
        is_text = re.match(TEXTS, str(dtype)) is not None
        if is_text or (column is not None and any(isinstance(v, str | bytes) for v in column.flat)):
            raise DataError(
                f"{where}: column {name!r} has dtype {dtype}, and arrays and blocks are of "
                "numbers; give tables, whole or in blocks, to open_source(X, y=...), or turn them "
                "into numbers"
            )


def _is_objects(X: Any) -> bool:
    """Return whether this is an array of objects of another library than NumPy."""
    return str(getattr(X, "dtype", "")) == "object" and not isinstance(X, np.ndarray)


def _columns(X: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the name, dtype and values of each column of a table, of values those of objects."""
    if len(getattr(X, "shape", ())) != 2:
        return
    if hasattr(X, "dtypes"):
        dtypes, names = list(X.dtypes), list(X.columns)
    else:
        schema = getattr(X, "schema", None)
        dtypes, names = getattr(schema, "types", []), getattr(schema, "names", [])
    for place, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
        is_object = str(dtype) == "object" and hasattr(X, "iloc")
        yield name, dtype, np.asarray(X.iloc[:, place]) if is_object else None


def _date(dtype: Any, values: Any) -> str:
    """Return the dtype if it is one of dates or durations, or that of objects that are; else ""."""
    is_date = getattr(dtype, "kind", "") in ("m", "M") or getattr(dtype, "is_temporal", bool)()
    if is_date or re.match("timestamp|date|time|duration", str(dtype)):
        return str(dtype)
    if str(dtype) != "object" or not isinstance(values, np.ndarray):
        return ""
    kinds, dates = {type(value) for value in values.flat}, (np.datetime64, np.timedelta64)
    return next((kind.__name__ for kind in kinds if issubclass(kind, dates)), "")


def warn(message: str) -> None:
    """Issue a `StreamrfWarning` at the line that called the library."""
    here, level, frame = os.path.dirname(__file__) + os.sep, 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, StreamrfWarning, stacklevel=level)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its class where it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]
