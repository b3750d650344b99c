"""CSV files, plain or compressed, read in pieces of some thousand rows."""

import contextlib
import logging
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from streamrf.display import brief
from streamrf.errors import BadRowError, CorruptFileError, DataError, EmptySourceError
from streamrf.sources.arrow_types import arrow, kind_of
from streamrf.sources.csv_bytes import Decompressed, Lines
from streamrf.sources.csv_labels import check_labels, codes_of, hexadecimal
from streamrf.sources.derived import check_names
from streamrf.sources.doubts import is_number
from streamrf.sources.paths import (
    absolute,
    decoding,
    ended,
    open_bytes,
    own_name,
    packed_text,
)
from streamrf.sources.seekable import Ranges
from streamrf.sources.tables import Table
from streamrf.sources.urls import bare

logger = logging.getLogger("streamrf")

CHUNK_BYTES = 1 << 20  # of a piece, for every CHUNK_COLUMNS columns, so that it has many rows
CHUNK_COLUMNS = 1000
HEAD_BYTES = 1 << 20  # that the first line is looked for in at once
MAX_SEEN = 8  # pieces that types are guessed from, spread over the file
_COMPRESSIONS = {"gzip": "gzip", "Zstandard": "zstd", "bzip2": "bz2"}  # as Arrow calls them
NOT_UTF8 = "not UTF-8; convert the file, as by iconv -f LATIN1 -t UTF-8"
_BOM = b"\xef\xbb\xbf"
_CLOCK = r"\d\d:\d\d:\d\d"
_TIME = re.compile(rf"\d{{4}}-\d\d-\d\d[ T]{_CLOCK}\.\d{{1,6}}$")  # with a fraction
_TIME_OF_DAY = re.compile(rf"{_CLOCK}(\.\d{{1,9}})?$")
# The first line, and more of them where a field in quotes has line ends. Nothing is tried twice.
_QUOTED = re.compile(rb'(?<![^,;\t|])"(?:[^"]|"")*+"(?=[,;\t|\r\n]|\Z)')  # a field
_FIRST = re.compile(rb"(?:%b|[^\n])*+\n?" % _QUOTED.pattern)


class NamesAloneError(EmptySourceError):
    """A file `where` with `names` of columns and no rows yet."""

    def __init__(self, where: str, names: Sequence[str]) -> None:
        super().__init__(
            f"{where}: 0 rows below the names of columns; expected 1 or more, each ended by a line "
            "feed"
        )
        self.names = set(names)


class CSVTable(Table):
    """A CSV file: comma, semicolon, tab or bar between fields, double quotes, UTF-8.

    One look through the file finds where lines end and what types suit the columns, so that any row
    can be read; a compressed file is decompressed from its beginning each time. Where all fields of
    the first line are numbers it is a row, and the columns are called "0", "1" and so on.

    An empty field is a missing value. NA, null, NaN and the like are so in columns of numbers,
    dates and booleans, but are levels in columns of text: NA may be Namibia.

    Parameters
    ----------
    name : path or URL
    where : what messages call it; None means by its name
    has_names : whether the first line has names; None means by what is there
    """

    is_text = True

    def __init__(self, name: str, where: str | None = None, has_names: bool | None = None) -> None:
        self.where = where or bare(name)
        self.name = own_name(name)
        self._path = absolute(name)
        with open_bytes(self._path, self.where) as file:
            head = file.read(HEAD_BYTES)
        packed = packed_text(head, bare(name))
        self._compression = None if packed is None else _COMPRESSIONS[packed]
        if self._compression or not _holds_line(head):
            head = self._head()
        n_marks = len(_BOM) * head.startswith(_BOM)
        first = self._line(head[n_marks:])
        tab = ".tsv" in self.name.lower() or ".tab" in self.name.lower()
        unquoted = _QUOTED.sub(b"", first).decode("latin-1")
        self._delimiter = "\t" if tab else max(",;\t|", key=unquoted.count)
        line = first.rstrip(b"\r\n") + b"\n"
        with decoding(f"{self.where}, names of columns,"):
            fields = self._fields(line)
        counted = [str(place) for place in range(len(fields))]
        is_row = fields != counted and all(is_number(field) for field in fields)
        is_row = is_row if has_names is None else not has_names
        if has_names is None and not is_row:
            self._warn_of_row(fields, counted)
        self._names = counted if is_row else fields
        check_names(self._names, self.where)
        self._piece_bytes = CHUNK_BYTES * max(1, len(fields) // CHUNK_COLUMNS)
        self._offsets, self._rows = [0 if is_row else n_marks + len(first)], [0]
        seen = self._index()
        self.n_rows = self._rows[-1]
        self._warn_of_empty_lines()
        if not self.n_rows:
            raise NamesAloneError(self.where, self._names)
        self.types = self._guessed(seen)
        self.codes = codes_of(self._parsed, seen, self.types)
        if self._names[0] == "" and arrow().types.is_integer(self.types[""]):
            self.index = ("",)  # as pandas writes it

    @property
    def files(self) -> list[str]:
        """The file."""
        return [self._path]

    @property
    def buffer_bytes(self) -> int:
        """Bytes of a piece of the file, of a MiB or more, and of what becomes of it."""
        return 8 * int(max(np.diff(self._offsets), default=0))

    def _warn_of_row(self, fields: list[str], counted: list[str]) -> None:
        """Log that the first line is taken for names though it has numbers and what may be none."""
        from pyarrow import csv

        numbers = [field for field in fields if field not in csv.ConvertOptions().null_values]
        if numbers and numbers != counted[: len(numbers)] and all(map(is_number, numbers)):
            message = (
                "%s: the first line, %s, is taken for names; if it is a row, put names above it"
            )
            logger.warning(message, self.where, brief(",".join(fields)))

    def _warn_of_empty_lines(self) -> None:
        """Log that empty lines are no rows, where some libraries write missing values so."""
        if self._n_between and len(self._names) == 1:
            logger.warning(
                '%s: empty lines before rows (%s) are no rows here; write missing values as ""',
                self.where,
                f"{self._n_between:,}",
            )

    def missing_words(self, name: str, values: Any) -> list[str]:
        """Return NA, null and the like among labels: nobody knows whether they are any."""
        from pyarrow import csv

        words = arrow().array(csv.ConvertOptions().null_values, values.type)
        return values.filter(arrow().compute.is_in(values, words)).to_pylist()

    def chunk(self, row: int) -> tuple[int, int]:
        """Return the bounds of the piece with a row; a compressed file is one."""
        if self._compression:
            return 0, self.n_rows
        index = bisect_right(self._rows, row) - 1
        return self._rows[index], self._rows[index + 1]

    def read(
        self, ranges: Ranges, types: dict[str, Any], block_rows: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield the rows of ascending ranges piece by piece, each piece parsed once."""
        types = {name: self._readable(name, type_) for name, type_ in types.items()}
        place, held, table = 0, -1, None
        with self._opened() as file:
            for start, stop in ranges:
                index = bisect_right(self._rows, start) - 1
                while index < len(self._rows) - 1 and self._rows[index] < stop:
                    first, end = self._rows[index], self._rows[index + 1]
                    if index != held:
                        begin, finish = self._offsets[index], self._offsets[index + 1]
                        self._skip(file, place, begin)
                        data, place, held = file.read(finish - begin), finish, index
                        if len(data) < finish - begin:
                            raise ended(self.where)
                        table = self._table(data, first, types)
                        check_labels(self._parsed, data, first, types, self.where)
                        if len(table) != end - first:
                            also = " lines end in a carriage return alone," * (b"\r" in data)
                            raise CorruptFileError(
                                f"{self.where}, rows {first} to {end - 1}: {len(table)} rows were"
                                f" read where {end - first} lines end; a quote is not closed there,"
                                f"{also} or the file has changed"
                            )
                    assert table is not None
                    low, high = max(start, first), min(stop, end)
                    yield low, table.slice(low - first, high - low)
                    index += 1

    def _readable(self, name: str, type_: Any) -> Any:
        """Return the type to read a column as: that of its text for times of day and with a zone.

        Arrow reads times with a zone as UTC, and refuses them for a type without one.
        """
        types, guessed = arrow().types, self.types.get(name)
        if guessed is not None and types.is_timestamp(type_) and types.is_timestamp(guessed):
            return arrow().timestamp("ns" if guessed.unit == "ns" else "us", guessed.tz)
        is_time = guessed is not None and types.is_time(guessed)
        return guessed if is_time and types.is_floating(type_) else type_

    def _opened(self) -> Any:
        """Open the file for reading decompressed bytes."""
        file = open_bytes(self._path, self.where)
        return file if not self._compression else Decompressed(file, self._compression, self.where)

    def _skip(self, file: Any, place: int, target: int) -> None:
        if not self._compression:
            file.seek(target)
            return
        while place < target:
            data = file.read(min(CHUNK_BYTES, target - place))
            if not data:
                raise ended(self.where)
            place += len(data)

    def _head(self) -> bytes:
        """Return the first `HEAD_BYTES` of text, or more of them that hold the first line."""
        head = b""
        with self._opened() as file:
            while data := file.read(max(HEAD_BYTES, len(head))):
                head += data
                if _holds_line(head):
                    break
        return head

    def _line(self, head: bytes) -> bytes:
        """Return the first line, with its end, and those that its fields in quotes go on in."""
        match = _FIRST.match(head)
        assert match is not None  # it may be empty
        first = match[0]
        if not head:
            raise EmptySourceError(
                f"{self.where} is empty; expected names of columns, and rows below them"
            )
        if not first.strip():
            raise EmptySourceError(f"{self.where} begins with an empty line; expected names")
        if b"\0" in first:
            raise DataError(f"{self.where} has null bytes, as UTF-16 does: convert to UTF-8")
        if b"\r" in _QUOTED.sub(b"", first).strip(b"\r\n"):
            raise DataError(
                f"{self.where} has a carriage return within its first line; convert lines that end "
                r"in one alone, as by tr '\r' '\n'"
            )
        return first

    def _fields(self, line: bytes) -> list[str]:
        """Return the fields of the first line."""
        try:
            names: list[str] = self._parsed(line, None).column_names
            return names
        except UnicodeDecodeError as error:
            raise DataError(f"{self.where}: names of columns are {NOT_UTF8}") from error
        except arrow().ArrowInvalid as error:
            if not line.count(b'"') % 2:
                raise
            raise DataError(
                f"{self.where}: a quote in the first line is not closed; close it, or double it if "
                "it is part of a name"
            ) from error

    def _guessed(self, seen: list[tuple[int, bytes]]) -> dict[str, Any]:
        """Return the types that suit pieces of the file, each with its first row."""
        text = b"".join(piece for _, piece in seen)
        try:
            table = self._table(text, 0, {})
        except DataError:
            for row, piece in seen:  # the first row that is wrong, by its number in the file
                self._table(piece, row, {})
            raise
        found = dict(zip(table.column_names, table.schema.types, strict=True))
        for name, type_ in found.items():
            if arrow().types.is_binary(type_):
                raise DataError(f"{self.where}: column {name!r} is {NOT_UTF8}")
        codes = hexadecimal(self._parsed, text, found)
        found |= {name: self._timed(table.column(name), name, text) for name in found}
        return found | dict.fromkeys(codes, arrow().string())

    def _timed(self, values: Any, name: str, text: bytes) -> Any:
        """Return a type for times that Arrow takes for others, if all rows in `text` are such.

        Arrow reads fractions of a second as nanoseconds, which a timestamp holds of the years 1678
        to 2261 alone, and takes times of other years, and those of day with fractions, for text.
        """
        pa, type_ = arrow(), values.type
        first = values.drop_null()[:1].to_pylist() if pa.types.is_string(type_) else []
        if pa.types.is_timestamp(type_) and type_.unit == "ns":
            wanted = pa.timestamp("us", type_.tz)
        elif any(map(_TIME_OF_DAY.match, first)):
            wanted = pa.time64("ns")
        elif any(map(_TIME.match, first)):
            wanted = pa.timestamp("us")
        else:
            return type_
        with contextlib.suppress(pa.ArrowInvalid):
            self._parsed(text, {name: wanted})
            return wanted
        return type_

    def _index(self) -> list[tuple[int, bytes]]:
        """Find the offsets and rows where pieces begin; return some pieces from all over."""
        seen: list[tuple[int, bytes]] = []
        stride, n_pieces = 1, 0
        lines = Lines(self._offsets[0], self._delimiter)
        with self._opened() as file:
            self._skip(file, 0, self._offsets[0])
            left = b""
            while True:
                data = file.read(self._piece_bytes)
                ends = lines.ends(data) if data else len(left)
                if lines.is_broken or (lines.is_open and not data):
                    raise CorruptFileError(
                        f"{self.where}, row {lines.n_rows}: a quote there begins a field that "
                        "nothing ends; close it, or double it and quote the field if it is part of "
                        "the text; if the file was cut off, copy it again"
                    )
                if data and not ends:  # a line longer than a piece
                    left += data
                    continue
                piece, left = (left + data[:ends], data[ends:]) if data else (left, b"")
                if piece:
                    n_rows = lines.n_rows if data else lines.finish(len(piece))
                    self._offsets.append(self._offsets[-1] + len(piece))
                    self._rows.append(n_rows)
                    if n_pieces % stride == 0:
                        seen.append((self._rows[-2], piece))
                    n_pieces += 1
                    if len(seen) > MAX_SEEN:
                        seen, stride = seen[::2], 2 * stride
                if not data:
                    self._n_between = lines.n_between
                    return seen

    def _table(self, data: bytes, row: int, types: dict[str, Any]) -> Any:
        """Parse whole lines, the first of which is a row; `types` are of the columns wanted."""
        pa = arrow()
        try:
            return self._parsed(data, types)
        except pa.ArrowInvalid as error:
            raise self._blame(str(error), row, types) from error
        except KeyError as error:  # as pyarrow raises for a column that is not there
            raise CorruptFileError(f"{self.where}: {error}; the file has changed") from error

    def _parsed(self, data: bytes, types: dict[str, Any] | None) -> Any:
        """Parse lines; with types None the first has the names."""
        pa = arrow()
        from pyarrow import csv

        table = csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(
                use_threads=False,  # or errors would not name the row
                block_size=len(data) + 1,
                column_names=None if types is None else self._names,
            ),
            csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            csv.ConvertOptions(
                column_types=types,
                include_columns=list(types) if types else None,
            ),
        )
        return table if types is None else _without_empty(table)

    def _blame(self, message: str, row: int, types: dict[str, Any]) -> Exception:
        """Return the error of a row that cannot be read, out of pyarrow's message."""
        number = re.search(r"Row #(\d+): ", message)
        where = f"{self.where}, row {row + int(number[1]) - 1}" if number else self.where
        if fields := re.search(r"Expected (\d+) columns, got (\d+)", message):
            is_spaced = len(self._names) == 1 and " " in self._names[0].strip()
            cure = "put commas between its columns" if is_spaced else "mend the row"
            return DataError(
                f"{where} has {fields[2]} fields but the first line {fields[1]}; quote fields that"
                f" hold {self._delimiter!r}, or {cure}"
            )
        if value := re.search(r"CSV column #(\d+): .*: (invalid .*)", message, re.S):
            name = self._names[int(value[1])]
            kind = kind_of(types[name]) if name in types else None
            return BadRowError(
                f"{where}: column {name!r} has {' '.join(value[2].split())}; expected"
                f" {'UTF-8 text' if kind in (None, 'category') else f'a {kind}'}: clean the data"
            )
        return DataError(f"{where} cannot be read as CSV ({' '.join(message.split())})")


def _holds_line(head: bytes) -> bool:
    """Return whether the first line ends within the head of a text."""
    match = _FIRST.match(head)  # it may be empty
    return match is not None and (match.end() < len(head) or head.endswith(b"\n"))


def _without_empty(table: Any) -> Any:
    """Return a table with null in place of empty text."""
    pa = arrow()
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            values = table.column(place)
            is_empty = pa.compute.equal(values, "")
            if pa.compute.any(is_empty).as_py():
                values = pa.compute.if_else(is_empty, pa.scalar(None, field.type), values)
                table = table.set_column(place, field, values)
    return table
