"""Files of predictions, filled by blocks of rows in order: HDF5, CSV, Parquet, Arrow, NumPy."""

import contextlib
import csv
import io
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import h5py
import numpy as np

from streamrf.errors import ParameterError
from streamrf.storage import HDF5_SIGNATURE, Datasets

GROUP_ROWS, GROUP_BYTES = 65_536, 64 << 20  # of a row group or batch, or one block

Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Field:
    """What is written of each row, one number or label or several.

    Parameters
    ----------
    name : of a dataset
    dtype : of its entries
    columns : names of the columns of a table
    is_flat : whether values are (n,), and not (n, len(columns))
    """

    name: str
    dtype: np.dtype
    columns: tuple[str, ...]
    is_flat: bool

    def shape(self, n_rows: int) -> tuple[int, ...]:
        """Return the shape of all values."""
        return (n_rows,) if self.is_flat else (n_rows, len(self.columns))

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the columns of some rows."""
        return [values] if self.is_flat else list(values.T)


class Output(ABC):
    """A file of rows.

    Parameters
    ----------
    file : empty
    fields : what is known of each row
    n_rows : all rows
    labels : of the columns by class, or None

    Attributes
    ----------
    text_bytes : of a value that is written as text, at most
    start : first bytes of such a file; none of text
    """

    text_bytes: ClassVar[int] = 0
    start: ClassVar[bytes] = b""

    def __init__(
        self,
        file: io.BufferedIOBase,
        fields: Sequence[Field],
        n_rows: int,
        labels: np.ndarray | None,
    ) -> None:
        self._file: Any = file
        self._fields = fields
        self._begin(n_rows, labels)

    @abstractmethod
    def _begin(self, n_rows: int, labels: np.ndarray | None) -> None:
        """Write what is before the rows."""

    @abstractmethod
    def put(self, row: int, values: Values) -> None:
        """Write the next rows, from `row` on."""

    def end(self) -> None:  # noqa: B027 - most files end with their rows
        """Write what is after the rows."""

    def abandon(self) -> None:  # noqa: B027 - most hold nothing
        """Let go of the file, which stays unfinished; raises nothing."""

    def _columns(self, values: Values) -> list[np.ndarray]:
        return [column for field in self._fields for column in field.split(values[field.name])]

    @property
    def _names(self) -> list[str]:
        return unique_names([name for field in self._fields for name in field.columns])


class HDF5Output(Output):
    """A dataset of each field, and one of the labels."""

    start = HDF5_SIGNATURE

    def _begin(self, n_rows: int, labels: np.ndarray | None) -> None:
        stored = {field.name: _storable_dtype(field.dtype, labels) for field in self._fields}
        shapes = {field.name: (field.shape(n_rows), stored[field.name]) for field in self._fields}
        if labels is not None and len(self._fields) > 1:
            shapes["labels"] = (labels.shape, _storable(labels).dtype)
        self._datasets = Datasets(self._file, shapes)
        if "labels" in shapes:
            self._datasets.put("labels", 0, _storable(labels))

    def put(self, row: int, values: Values) -> None:
        for name, part in values.items():
            self._datasets.put(name, row, _storable(part))


class _Lines:
    r"""Text whose lines end in "\n", of a writer of lines that end in "\r\n".

    The writer quotes what the ends of its lines are made of (before Python 3.13 nothing else), and
    a "\r" without quotes ends a line for who reads it.
    """

    def __init__(self, text: io.TextIOBase) -> None:
        self._text = text

    def write(self, line: str) -> int:
        return self._text.write(line.removesuffix("\r\n") + "\n")


class CSVOutput(Output):
    """A line of names, then one of each row."""

    delimiter = ","
    text_bytes = 25  # of a float64 and what parts it from the next

    def _begin(self, n_rows: int, labels: np.ndarray | None) -> None:
        self._text = io.TextIOWrapper(self._file, encoding="utf-8", newline="")
        self._writer = csv.writer(_Lines(self._text), delimiter=self.delimiter)
        self._writer.writerow(self._names)

    def put(self, row: int, values: Values) -> None:
        columns = [column.tolist() for column in self._columns(values)]
        self._writer.writerows(zip(*columns, strict=True))

    def end(self) -> None:
        self._text.flush()
        self._text.detach()

    def abandon(self) -> None:
        with contextlib.suppress(OSError):  # of a full disk
            self._text.detach()


class TSVOutput(CSVOutput):
    """The same with tabs."""

    delimiter = "\t"


class ArrowOutput(Output):
    """An Arrow (Feather) file."""

    start = b"ARROW1"

    def _begin(self, n_rows: int, labels: np.ndarray | None) -> None:
        empty = {field.name: np.empty(field.shape(0), field.dtype) for field in self._fields}
        schema = self._table(empty).schema
        self._writer = self._opened(schema)
        self._waiting: list[Any] = []

    def _opened(self, schema: Any) -> Any:
        import pyarrow as pa  # not at the start of every program

        return pa.ipc.new_file(self._file, schema)

    def _table(self, values: Values) -> Any:
        import pyarrow as pa

        return pa.table(dict(zip(self._names, map(pa.array, self._columns(values)), strict=True)))

    def put(self, row: int, values: Values) -> None:
        table = self._table(values)
        n_rows = sum(map(len, [*self._waiting, table]))
        row_bytes = table.nbytes / max(1, len(table))
        if n_rows > GROUP_ROWS or n_rows * row_bytes > GROUP_BYTES:
            self._flush()
        self._waiting.append(table)

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks())
            self._waiting = []

    def end(self) -> None:
        self._flush()
        self._writer.close()

    def abandon(self) -> None:
        with contextlib.suppress(Exception):  # what is wrong with the file has been told
            self._writer.close()


class ParquetOutput(ArrowOutput):
    """A Parquet file."""

    start = b"PAR1"

    def _opened(self, schema: Any) -> Any:
        from pyarrow import parquet

        return parquet.ParquetWriter(self._file, schema)

    def abandon(self) -> None:
        super().abandon()
        self._writer.is_open = False  # or, where that failed, it is closed once more and prints


class NpyOutput(Output):
    """An array of the labels or values; with more fields, a structured array of them by name."""

    start = b"\x93NUMPY"

    def _begin(self, n_rows: int, labels: np.ndarray | None) -> None:
        first = self._fields[0]
        self._dtype, shape = first.dtype, first.shape(n_rows)
        if len(self._fields) > 1:
            parts = [(field.name, field.dtype, field.shape(0)[1:]) for field in self._fields]
            self._dtype, shape = np.dtype(parts), (n_rows,)
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(self._file, header | {"shape": shape})

    def put(self, row: int, values: Values) -> None:
        if len(self._fields) == 1:
            rows = np.ascontiguousarray(values[self._fields[0].name], dtype=self._dtype)
        else:
            rows = np.empty(len(values[self._fields[0].name]), dtype=self._dtype)
            for field in self._fields:
                rows[field.name] = values[field.name]
        self._file.write(rows.tobytes())


# By the endings of files.
_OUTPUTS: dict[tuple[str, ...], type[Output]] = {
    (".h5", ".hdf5", ".hdf", ""): HDF5Output,
    (".csv",): CSVOutput,
    (".tsv", ".tab"): TSVOutput,
    (".parquet", ".pq"): ParquetOutput,
    (".arrow", ".feather", ".ipc"): ArrowOutput,
    (".npy",): NpyOutput,
}


def unique_names(names: Sequence[str]) -> list[str]:
    """Return names of columns, none twice: later ones give way.

    Examples
    --------
    >>> unique_names(["v", "deviation of v", "deviation of v"])
    ['v', 'deviation of v', 'deviation of v_']
    """
    found: dict[str, None] = {}  # in their order
    for name in names:
        while name in found:
            name += "_"
        found[name] = None
    return [*found]


def output_class(path: str) -> type[Output]:
    """Return what writes a file, by the ending of its name; ParameterError if nothing does."""
    ending = os.path.splitext(path.lower())[1]
    for endings, kind in _OUTPUTS.items():
        if ending in endings:
            return kind
    hdf5, *others = (", ".join(filter(None, endings)) for endings in _OUTPUTS)
    raise ParameterError(
        f"--output {path}: predictions are not written in the format of this ending; use {hdf5} or "
        f"none (HDF5), {', '.join(others)}"
    )


def _storable_dtype(dtype: np.dtype, labels: np.ndarray | None) -> np.dtype:
    return dtype if dtype.kind != "U" or labels is None else _storable(labels).dtype


def _storable(labels: Any) -> np.ndarray:
    """Return labels as HDF5 stores them: strings as UTF-8 of fixed width."""
    if labels.dtype.kind != "U":
        return labels
    words = [word.encode("utf-8", "surrogatepass") for word in labels.ravel().tolist()]
    return np.array(words, dtype=h5py.string_dtype("utf-8", max(1, *map(len, words), 1)))
