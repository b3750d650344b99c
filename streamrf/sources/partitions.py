"""Columns that the names of folders hold, as in `year=2024/part.parquet` (Hive's layout)."""

import glob
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from streamrf.sources.columns import arrow
from streamrf.sources.seekable import Ranges
from streamrf.sources.tables import Table

NULL = "__HIVE_DEFAULT_PARTITION__"  # what stands for a missing value

Folders = dict[str, dict[str, str | None]]  # values of a file, by the names of columns


class PartitionedTable(Table):
    """A file's table with columns that are constant in it; those of the file itself come first.

    Parameters
    ----------
    table : of the file
    folders : of all files
    name : of the file
    """

    def __init__(self, table: Table, folders: Folders, name: str) -> None:
        self.where, self.name, self.is_text = table.where, table.name, table.is_text
        self.n_rows = table.n_rows
        self._table = table
        pa = arrow()
        own = {key: text for key, text in folders[name].items() if key not in table.types}
        self._constants: dict[str, Any] = {}
        self.types, self.levels = dict(table.types), {}
        for key, text in own.items():
            texts = {values.get(key) for values in folders.values()}
            is_integer = all(value is None or _is_integer(value) for value in texts)
            self.types[key] = pa.int64() if is_integer else pa.string()
            self._constants[key] = int(text) if is_integer and text is not None else text
            if not is_integer:
                self.levels[key] = sorted(filter(None, texts)) + [None] * (None in texts)

    @property
    def version(self) -> str:
        """That of the file."""
        return self._table.version

    @property
    def buffer_bytes(self) -> int:
        """What the file needs."""
        return self._table.buffer_bytes

    def chunk(self, row: int) -> tuple[int, int]:
        """Return the bounds of the file's piece with a row."""
        return self._table.chunk(row)

    def read(
        self, ranges: Ranges, types: dict[str, Any], block_rows: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield the file's rows with the columns of its folders."""
        pa = arrow()
        own = {name: type_ for name, type_ in types.items() if name not in self._constants}
        first = next(iter(self._table.types.items()))
        for row, table in self._table.read(ranges, own or dict([first]), block_rows):
            for name in types.keys() - own.keys():
                value = pa.scalar(self._constants[name], self.types[name])
                table = table.append_column(name, pa.repeat(value, len(table)))
            yield row, table.select(list(types))


def folders_of(entry: str, name: str) -> dict[str, str | None]:
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
