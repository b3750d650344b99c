"""Rows of a stream of text, CSV or JSON lines, kept in a file so that they can be read again."""

import csv
import errno
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from streamrf.errors import DataError, EmptySourceError, StorageError
from streamrf.sources.csv_files import CSVTable
from streamrf.sources.tables import TableSource
from streamrf.storage import reason

WHERE = "standard input"


def open_text(stream: Iterable[str], path: str, x: str | None = None) -> TableSource:
    """Return the rows of a stream.

    Parameters
    ----------
    stream : lines of CSV, with or without names of columns; or of JSON, objects with values by the
        names of columns, or arrays of numbers
    path : file to keep them in as CSV, which is there as long as the source is
    x : columns, see `open_source`

    Raises
    ------
    DataError
        A line that is not JSON where the first one is, or CSV that cannot be read.
    EmptySourceError
        No rows.
    StorageError
        A stream that is longer than the limit of files, or than the room on the disk.
    """
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            nested = _write(iter(stream), file)
    except UnicodeError as error:
        raise DataError(
            f"{WHERE} is not UTF-8 text; convert it, or unpack it if it is compressed"
        ) from error
    except OSError as error:
        if error.errno not in (errno.EFBIG, errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageError(
            f"{WHERE} does not fit into a temporary file in {os.path.dirname(path)}: "
            f"{reason(error)}; raise the limit (ulimit -f), make room or set TMPDIR to a folder "
            "with room, or give the rows as a file"
        ) from error
    table = CSVTable(path, WHERE) if nested is None else JSONTable(path, nested)
    return TableSource([table], x)


Nested = dict[str, tuple[int, Any]]  # rows and entries that are objects or arrays, by their columns


class JSONTable(CSVTable):
    """Lines of JSON that were written as CSV.

    Parameters
    ----------
    path : of the CSV file
    nested : the first object or array of each column that has one
    """

    def __init__(self, path: str, nested: Nested) -> None:
        super().__init__(path, WHERE, has_names=True)
        self._nested = nested

    def check_wanted(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._nested:
                row, entry = self._nested[name]
                raise DataError(f"{WHERE}, row {row}: {name!r} is {entry!r}; expected one value")


def _write(lines: Iterator[str], file: TextIO) -> Nested | None:
    """Write lines as CSV; return what is nested in those of JSON, None of others."""
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise EmptySourceError(f"{WHERE} has no rows; expected CSV, or JSON, one object a line")
    if first.lstrip()[0] in "{[":
        return _write_json(_objects(first, (line for line in lines if line.strip())), file)
    file.write(first if first.endswith("\n") else first + "\n")
    file.writelines(lines)
    return None


def _objects(first: str, others: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the objects of lines; arrays, all of one length, by the indices of their entries."""
    length = None
    for row, line in enumerate([first, *others]):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{WHERE}, row {row}: {line[:60]!r} is no JSON ({error}); expected an object a line"
            ) from error
        if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
            raise DataError(
                f"{WHERE}, row {row} is an array of objects; expected one object a line, as "
                "jq -c '.[]' writes them"
            )
        if row and isinstance(value, list) != (length is not None):
            what, before = ("an array", "objects") if length is None else ("an object", "arrays")
            raise DataError(f"{WHERE}, row {row} is {what}, and rows before are {before}")
        if isinstance(value, list):
            length = len(value) if length is None else length
            if len(value) != length:
                raise DataError(
                    f"{WHERE}, row {row} has {len(value)} entries, but rows before have {length}; "
                    "write null for a missing value"
                )
            for place, entry in enumerate(value):
                if isinstance(entry, dict | list):
                    raise DataError(
                        f"{WHERE}, row {row}: entry {place} is {entry!r}; expected one value"
                    )
            value = {str(place): entry for place, entry in enumerate(value)}
        if not isinstance(value, dict) or not value:
            raise DataError(f"{WHERE}, row {row}: {line[:60]!r} is no JSON object with columns")
        yield value


def _write_json(objects: Iterable[dict[str, Any]], file: TextIO) -> Nested:
    """Write objects as CSV; an entry that is not there, or null, is a missing value.

    Objects and arrays within them are texts, in columns that no model may have; return the first.
    Columns are in the order in which their names first come, or in that of the names where these
    are "0", "1" and so on.
    """
    rows = list(objects)
    names = list(dict.fromkeys(name for row in rows for name in row))
    counted = [str(place) for place in range(len(names))]
    if set(names) == set(counted):
        names = counted
    # texts with either of these are quoted, and all names, which may hold what could separate
    csv.writer(file, lineterminator="\r\n", quoting=csv.QUOTE_ALL).writerow(names)
    writer = csv.writer(file, lineterminator="\r\n")
    nested: Nested = {}
    for number, row in enumerate(rows):
        writer.writerow([_text(row.get(name)) for name in names])
        for name, entry in row.items():
            if isinstance(entry, dict | list):
                nested.setdefault(name, (number, entry))
    return nested


def _text(value: Any) -> Any:
    if isinstance(value, bool | dict | list):
        return json.dumps(value)
    return "" if value is None else value
