"""Columns that the names of folders hold, as in `year=2024/part.parquet` (Hive's layout)."""

import glob
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from streamrf.errors import DataError
from streamrf.sources.arrow_types import arrow
from streamrf.sources.seekable import Ranges
from streamrf.sources.tables import Table

NULL = "__HIVE_DEFAULT_PARTITION__"  # what stands for a missing value

Values = dict[str, str | None]  # of a file, by the names of columns
Folders = dict[str, Values]  # by the names of files
Levels = list[str | None] | None  # of a column of texts; None of one of integers


class PartitionedTable(Table):
    """A file's table with columns that are constant in it; those of the file itself come first.

    Parameters
    ----------
    table : of the file
    values : what the folders of the file say
    levels : see `levels_of`
    """

    def __init__(self, table: Table, values: Values, levels: dict[str, Levels]) -> None:
        self.where, self.name, self.is_text = table.where, table.name, table.is_text
        self.n_rows, self.codes = table.n_rows, table.codes
        self._table = table
        pa = arrow()
        self._constants: dict[str, Any] = {}
        self.types, self.levels, self.index = dict(table.types), {}, table.index
        for key, text in values.items():
            if key in table.types:
                continue
            found = levels[key]
            self.types[key] = pa.int64() if found is None else pa.string()
            self._constants[key] = int(text) if found is None and text is not None else text
            if found is not None:
                self.levels[key] = found

    @property
    def files(self) -> list[str]:
        """The file."""
        return self._table.files

    def can_be(self, name: str, kind: str) -> bool:
        """Return what the file says; what folders say is text, also where all are integers."""
        return kind == "category" if name in self._constants else self._table.can_be(name, kind)

    @property
    def buffer_bytes(self) -> int:
        """What the file needs."""
        return self._table.buffer_bytes

    def missing_words(self, name: str, values: Any) -> list[str]:
        """Return those of the file; names of folders have a word of their own for it."""
        return [] if name in self._constants else self._table.missing_words(name, values)

    def chunk(self, row: int) -> tuple[int, int]:
        """Return the bounds of the file's piece with a row."""
        return self._table.chunk(row)

    def read(
        self, ranges: Ranges, types: dict[str, Any], block_rows: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield the file's rows with the columns of its folders."""
        pa = arrow()
        own = {name: type_ for name, type_ in types.items() if name not in self._constants}
        first = {next(iter(self._table.types)): pa.string()}
        for row, table in self._table.read(ranges, own or first, block_rows):
            for name in types.keys() - own.keys():
                value = pa.scalar(self._constants[name], self.types[name])
                table = table.append_column(name, pa.repeat(value, len(table)))
            yield row, table.select(list(types))


def partitioned(found: list[tuple[str, Table]], folders: Folders) -> list[Table]:
    """Return the tables of files, by their names, with the columns of their folders.

    DataError if some files have a column of their own called so, and others have none: a model may
    ask for it, whatever is chosen here.
    """
    levels = levels_of(folders)
    for key in sorted(levels):
        own = [table.where for name, table in found if key in table.types and key in folders[name]]
        others = [table.where for _, table in found if key not in table.types]
        if own and others:
            raise DataError(
                f"{own[0]} has a column {key!r} beside the one that its folder is named by, and "
                f"{others[0]} has none, so that it is not told which is meant; write all files "
                "with it, or without"
            )
    return [PartitionedTable(table, folders[name], levels) for name, table in found]


def levels_of(folders: Folders) -> dict[str, Levels]:
    """Return the columns that folders hold, and of those of texts what all files say."""
    found: dict[str, Levels] = {}
    for key in {key for values in folders.values() for key in values}:
        texts = {values.get(key) for values in folders.values()}
        known = {text for text in texts if text is not None}
        is_integer = all(map(_is_integer, known))
        found[key] = None if is_integer else [*sorted(known), *([None] if None in texts else [])]
    return found


def folders_of(entry: str, name: str) -> Values:
    """Return what the folders of a file say, below a folder or pattern that was given.

    Examples
    --------
    >>> folders_of("rows/*/*.csv", "rows/year=2024/city=S%C3%A3o/part.csv")
    {'year': '2024', 'city': 'São'}
    >>> folders_of("year=2024/part.csv", "year=2024/part.csv")
    {}
    """
    root = entry
    while glob.has_magic(root):
        root = os.path.dirname(root)
    if root == name:
        return {}
    parts = os.path.dirname(os.path.relpath(name, root or ".")).split(os.sep)
    pairs = [part.partition("=")[::2] for part in parts if "=" in part]
    return {unquote(key): None if text == NULL else unquote(text) for key, text in pairs if key}


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) < 19
