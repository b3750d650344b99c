"""Text of libsvm (svmlight): a label, then "index:value" of all entries that are not zero."""

import io
import logging
import re
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from streamrf.errors import DataError, EmptySourceError, ParameterError, ShapeError
from streamrf.sources.base import Arrays
from streamrf.sources.paths import absolute, ended, open_bytes, own_name
from streamrf.sources.sparse import sparse_or_dense
from streamrf.sources.stored import Matrix, MatrixSource
from streamrf.sources.urls import bare

logger = logging.getLogger("streamrf")

CHUNK_BYTES = 2 << 20
MAX_INDEX = 2**31 - 2  # scikit-learn counts columns in 32 bits
_RANGE = re.compile(r"(?:([01])-)?(\d{1,10})")  # of indices, or a number of columns
_LINE = re.compile(rb"\s*([^\s#]+)(?:\s+qid:\d+)?((?:\s+\d{1,19}:[^\s:#]+)*)\s*(?:#.*)?")


class LibsvmMatrix(Matrix):
    """A file of libsvm text; rows of up to 4,096 columns are made dense a block at a time.

    One look through the file finds where lines begin, the largest index, and whether indices begin
    at 0 or, as usual, at 1.

    Parameters
    ----------
    name : path or URL
    y : None for rows without targets; else targets are the labels
    """

    has_weights = False

    def __init__(self, name: str, y: str | None) -> None:
        self.where = bare(name)
        self.name = own_name(name)
        self.has_targets = y is not None
        self._path = absolute(name)
        self._offsets, self._rows = [0], [0]
        self.n_rows = self.max_index = self._n_entries = 0
        self.is_zero_based, self._has_floats = False, False
        with open_bytes(self._path, name) as file:
            left = b""
            while data := file.read(CHUNK_BYTES):
                piece, end, left = (left + data).rpartition(b"\n")
                self._index(piece, len(piece + end))
            self._index(left, len(left))
        if not self.n_rows:
            raise EmptySourceError(f"{name}: 0 rows; expected at least 1")
        self.n_features = self.max_index + self.is_zero_based

    @property
    def n_entries(self) -> int | None:
        return self._n_entries

    @property
    def files(self) -> list[str]:
        """The file."""
        return [self._path]

    def chunk(self, row: int) -> tuple[int, int]:
        """Return the bounds of the piece of text with a row."""
        index = bisect_right(self._rows, row) - 1
        return self._rows[index], self._rows[index + 1]

    def read(self, start: int, stop: int) -> Arrays:
        """Return some rows, float64."""
        from sklearn.datasets import load_svmlight_file  # a fifth of a second, for these files only

        first = bisect_right(self._rows, start) - 1
        last = bisect_right(self._rows, stop - 1)
        with open_bytes(self._path, self.where) as file:
            file.seek(self._offsets[first])
            text = file.read(self._offsets[last] - self._offsets[first])
        if len(text) < self._offsets[last] - self._offsets[first]:
            raise ended(self.where)
        try:
            rows, labels = load_svmlight_file(
                io.BytesIO(text), n_features=self.n_features, zero_based=self.is_zero_based
            )
        except (ValueError, OverflowError) as error:
            raise self._error(text, self._rows[first], error) from error
        wanted = slice(start - self._rows[first], stop - self._rows[first])
        y = labels[wanted] if self._has_floats else labels[wanted].astype(np.int64)
        X = sparse_or_dense(rows[wanted], np.float64)
        return Arrays(X, y if self.has_targets else None, None)

    def _error(self, text: bytes, row: int, error: Exception) -> DataError:
        """Return what is wrong with the first bad row of text that begins with the row `row`."""
        for place, line in enumerate(_lines(text), row):
            match = _LINE.fullmatch(line)
            if match is not None and (wrong := _wrong(match[2].split())):
                return DataError(f"{self.where}, row {place}: {wrong}")
        return DataError(f"{self.where}: rows from {row} on cannot be read ({error})")

    def _index(self, piece: bytes, length: int) -> None:
        """Count the lines of a piece and look at their indices."""
        for line in _lines(piece):
            match = _LINE.fullmatch(line)
            if match is None or not _is_number(match[1]):
                shown = line[:60].decode("latin-1")
                raise DataError(
                    f"{self.where}, row {self.n_rows}: {shown!r} is no line of libsvm text;"
                    " expected a label and then entries such as 3:0.5"
                )
            self.n_rows += 1
            label = float(match[1])
            self._has_floats |= not label.is_integer() or abs(label) >= 2**53
            if entries := match[2].split():
                self._n_entries += len(entries)
                self.max_index = max(self.max_index, int(entries[-1].partition(b":")[0]))
                self.is_zero_based |= int(entries[0].partition(b":")[0]) == 0
        if length:
            self._offsets.append(self._offsets[-1] + length)
            self._rows.append(self.n_rows)


def open_libsvm(
    names: list[str], x: str | None, y: str | None, weights: str | None
) -> MatrixSource:
    """Return the rows of libsvm files.

    Parameters
    ----------
    x : number of columns, by default the largest index; or the first and last index, as ``0-4`` or
        ``1-5``, where the first is otherwise 0 if a row has that index, and else 1
    """
    if weights is not None:
        raise ParameterError(f"{names[0]}: libsvm text has no weights; leave weights= out")
    first, n_columns = _columns(x, names[0])
    stores = [LibsvmMatrix(name, y) for name in names]
    has_zero = any(store.is_zero_based for store in stores)
    if has_zero and first == 1:
        raise ShapeError(f"{names[0]}: an entry has index 0, below those of x={x!r} (--x)")
    is_zero_based = has_zero or first == 0
    largest = max(store.max_index for store in stores)
    width = largest + is_zero_based
    if n_columns is not None and n_columns < width:
        begin = " that begin at 0" if is_zero_based else ""
        raise ShapeError(
            f"{names[0]}: an entry has index {largest}, above the {n_columns} columns of x={begin}"
        )
    if first is None and n_columns is not None and not has_zero and largest < n_columns:
        logger.warning(
            "%s: no entry has index 0 or %s, which would show where indices begin; they are taken "
            "to begin at 1. Settle it by x='1-%s' or x='0-%s' (--x)",
            *(names[0], n_columns, n_columns, n_columns - 1),
        )
    for store in stores:
        store.is_zero_based = is_zero_based
        store.n_features = width if n_columns is None else n_columns
    return MatrixSource(stores, {"x": x, "y": y, "weights": weights})


def _columns(x: str | None, name: str) -> tuple[int | None, int | None]:
    """Return the first index and the number of columns that x says, None where it says nothing."""
    if x is None:
        return None, None
    match = _RANGE.fullmatch(str(x))
    if match is None or (match[1] is not None and int(match[2]) < int(match[1])):
        raise ParameterError(
            f"{name}: x={x!r} is no number of columns, as libsvm text needs, nor the first and last"
            " index, as 0-4 or 1-5"
        )
    first = None if match[1] is None else int(match[1])
    return first, int(match[2]) if first is None else int(match[2]) - first + 1


def _lines(text: bytes) -> Iterator[bytes]:
    """Yield the lines with rows."""
    for line in text.split(b"\n"):
        if line.strip() and not line.lstrip().startswith(b"#"):
            yield line


def _wrong(entries: list[bytes]) -> str:
    """Return in words what is wrong with the entries of a row, "" for nothing."""
    last = -1
    for entry in entries:
        digits, _, value = entry.partition(b":")
        index = int(digits)
        if index > MAX_INDEX:
            return f"index {index:,} is beyond {MAX_INDEX:,}, the greatest there may be"
        if index <= last:
            return (
                f"index {index} comes after {last}; indices of a row ascend, each once: sort them"
            )
        try:
            float(value)
        except ValueError:
            return f"{value[:60].decode('latin-1')!r}, the value of index {index}, is no number"
        last = index
    return ""


def _is_number(text: bytes) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False
