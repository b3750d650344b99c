"""Folders of files of rows, and folders that are one file or a table."""

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NoReturn

from streamrf.errors import DataError, SourceNotFoundError, StorageError
from streamrf.storage import reason

PARQUET = (".parquet", ".pq")
STORE_FILES = ("zarr.json", ".zgroup", ".zarray")  # of which a zarr store has one


def listed(folder: str) -> list[str]:
    """Return all files in a folder and the folders in it, sorted; not those of "_" or "." names.

    Links to folders are followed, each folder once. A folder of rows, a zarr store, is one file.
    """
    found, seen = [], set()
    for path, folders, files in os.walk(folder, onerror=_raise_unread, followlinks=True):
        check_no_table(path)
        real = os.path.realpath(path)
        if real in seen or (path != folder and is_store(path)):
            found += [] if real in seen else [path]
            folders.clear()
        else:
            folders[:] = sorted(name for name in folders if name[0] not in "._")
            found += [os.path.join(path, name) for name in files if name[0] not in "._"]
        seen.add(real)
    for table in tables_above(found):
        check_no_table(table)
    return sorted(found)


def stored_files(folder: str) -> Iterator[str]:
    """Yield the files of a zarr store but those it is writing, which are renamed at their end."""
    for place, _, files in os.walk(folder):
        yield from (os.path.join(place, file) for file in files if not file.endswith(".partial"))


def check_no_table(folder: str, matching: Callable[[str], Sequence[str]] = glob.glob) -> None:
    """Raise DataError for a Delta Lake or Iceberg table, whose removed files lie there still.

    Parameters
    ----------
    folder : where a table may be
    matching : returns the files that a pattern matches, in the filesystem of the folder
    """
    tables = {"_delta_log": ("Delta Lake", "*.json"), "metadata": ("Iceberg", "*.metadata.json")}
    for name, (kind, logs) in tables.items():
        if matching(os.path.join(glob.escape(folder), name, logs)):
            raise DataError(
                f"{folder!r} is a table of {kind}, in whose folder the files of removed rows lie "
                f"too; give the list of its files, as the library of {kind} has it, or export it"
            )


def check_no_loops(folder: str, above: tuple[str, ...] = ()) -> None:
    """Raise SourceNotFoundError for a link in a folder that leads back to one above it.

    `glob` would follow it until the name is too long, and two of them for ever.
    """
    real = os.path.realpath(folder)
    if real in above:
        raise SourceNotFoundError(
            f"the link {folder.rstrip('/')!r} leads back to a folder above it, so patterns with ** "
            "never end; give the folder itself, in which each is read once, or remove the link"
        )
    with suppress(PermissionError), os.scandir(folder) as entries:  # told where a pattern leads in
        for entry in entries:
            if entry.is_dir() and not entry.name.startswith("."):
                check_no_loops(entry.path, (*above, real))


def tables_above(files: list[str]) -> list[str]:
    """Return the folders that may be the tables that files of Parquet are of."""
    found = set()
    for folder in {os.path.dirname(file) for file in files if file.lower().endswith(PARQUET)}:
        found.add(folder or ".")
        while "=" in os.path.basename(folder) or os.path.basename(folder) == "data":
            folder = os.path.dirname(folder)
            found.add(folder or ".")
    return sorted(found)


def is_store(path: str) -> bool:
    """Return whether a folder is a zarr store."""
    is_named = any(os.path.exists(os.path.join(path, name)) for name in STORE_FILES)
    return os.path.isdir(path) and (is_named or path.lower().rstrip("/").endswith(".zarr"))


def _raise_unread(error: OSError) -> NoReturn:
    """Raise for a folder that cannot be listed, whose files would be left out without a word."""
    raise StorageError(f"the folder {error.filename!r} cannot be read: {reason(error)}") from error
