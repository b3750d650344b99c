"""Files that paths, patterns and URLs mean, and how their bytes are read."""

import codecs
import difflib
import fnmatch
import glob
import logging
import os
import re
import stat
import urllib.parse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from streamrf.errors import (
    CorruptFileError,
    DataError,
    SourceNotFoundError,
    StorageError,
    StreamrfError,
    check_kind,
    check_path,
    first_line,
)
from streamrf.sources.arrow_types import arrow
from streamrf.sources.store_folders import check_no_loops, check_no_table, is_store, tables_above
from streamrf.sources.urls import bare, is_url, matches_of, open_url

logger = logging.getLogger("streamrf")

Paths = str | bytes | os.PathLike[Any] | Iterable[str | bytes | os.PathLike[Any]]

PACKED = {  # by first bytes; Zstandard may begin with a frame to skip
    "gzip": re.compile(rb"\x1f\x8b"),
    "Zstandard": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
    "bzip2": re.compile(rb"BZh[1-9](1AY&SY|\x17\x72\x45\x38\x50\x90)"),
}
PACKED_ENDINGS = {".gz": "gzip", ".zst": "Zstandard", ".bz2": "bzip2"}
HEAD = 16  # bytes that tell
MAX_NEAR = 5  # names shown in place of one that is missing
_KINDS = {  # of what is no file of rows
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def expand(path: Paths) -> list[str]:
    """Return the files that paths and patterns mean."""
    if isinstance(path, str | bytes | os.PathLike):
        entries = [path]
    else:
        check_kind("path", path, Iterable, "a path, a pattern or a list of these")
        entries = list(path)
    for entry in entries:
        check_path(entry)
    if not entries:
        raise SourceNotFoundError("no files were given; expected a path, a pattern or a list")
    return [name for entry in entries for name in _matches(path_of(os.fsdecode(entry)))]


def path_of(name: str) -> str:
    """Return a name with the folder of the user in place of "~"; of a URL of this machine its path.

    Examples
    --------
    >>> path_of("file:///data/a.csv"), path_of("memory://a.csv")
    ('/data/a.csv', 'memory://a.csv')
    """
    for protocol in ("file://", "local://"):
        if name.startswith(protocol):
            return name.removeprefix(protocol)
    return os.path.expanduser(name)


def _matches(name: str) -> list[str]:
    if not name:
        raise SourceNotFoundError("the path '' is empty; expected the name of a file")
    if is_url(name):
        return matches_of(name)
    if os.path.isfile(name):  # first: a file's name may hold brackets
        return [name]
    if os.path.isdir(name):
        pattern = os.path.join(name, "*.h5")
        raise SourceNotFoundError(f"{name!r} is a folder; expected HDF5 files, such as {pattern!r}")
    if not glob.has_magic(name):
        raise_missing(name, os.path.abspath(name))
    for folder in glob.glob(name.partition("**")[0] or ".") if "**" in name else ():
        check_no_loops(folder)
    _check_folders(name)
    matches = sorted(glob.glob(name, recursive=True))
    found = [match for match in matches if os.path.isfile(match) or is_store(match)]
    _check_left_out(name, sorted({*matches}.difference(found)))
    for folder in tables_above(found):
        check_no_table(folder)
    if not found:
        raise SourceNotFoundError(
            f"no file matches {name!r} (looked for {os.path.abspath(name)!r})"
        )
    return found


def _check_folders(pattern: str) -> None:
    """Raise StorageError for a folder that a pattern leads to, and that cannot be looked into.

    `glob` passes over it, and its files would be left out without a word.
    """
    parts = pattern.split("/")
    if parts[-1] == "**":  # which matches what lies in folders, too
        parts.append("*")
    for place in range(1, len(parts)):
        lists = glob.has_magic(parts[place]) or parts[place - 1] == "**"
        needed = os.X_OK | (os.R_OK if lists else 0)
        if not (lists or glob.has_magic("/".join(parts[:place]))):
            continue
        for folder in glob.iglob("/".join(parts[:place]) or "/", recursive=True):
            if os.path.isdir(folder) and not os.access(folder, needed):
                raise denied(f"the folder {folder!r}")


def _check_left_out(pattern: str, matches: list[str]) -> None:
    """Raise SourceNotFoundError for what a pattern matches, and cannot be read as a file.

    Folders match by chance, those of a pattern without an ending: they are told, unless the pattern
    leads into them too.
    """
    for match in matches:
        if not os.path.isdir(match):
            raise_missing(match, os.path.abspath(match))
    folders = [match for match in matches if os.listdir(match)]  # others hold no rows
    last = os.path.basename(pattern)
    ending = os.path.splitext(last)[1]
    if folders and ending and not glob.has_magic(ending):
        raise SourceNotFoundError(
            f"{folders[0]!r}, which {pattern!r} matches, is a folder; name folders one by one, or "
            f"match the files within: {os.path.join(folders[0], '*')!r}"
        )
    if folders and "**" not in last:
        logger.warning(
            "%r also matches %s, which %s not read; name the files within, or all with **",
            pattern,
            f"the folder {folders[0]!r}" if len(folders) == 1 else f"{len(folders):,} folders",
            "is" if len(folders) == 1 else "are",
        )


def stand_ins(pattern: str, name: str) -> tuple[str, ...] | None:
    """Return the texts that the wildcards of a pattern stand for in a name; None if in none.

    Examples
    --------
    >>> stand_ins("day*_[XY].npy", "day12_X.npy"), stand_ins("X.npy", "X.npy")
    (('12', 'X'), ())
    >>> stand_ins("day*_[XY].npy", "day12_Z.npy"), stand_ins("*.npy", "a/X.npy")
    (None, None)
    """
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*?|\?|\[!?\]?[^\]]*\])", pattern)
    for i, part in enumerate(parts):
        wild = words.get(part) or _one_of(part) if i % 2 else ""
        parts[i] = f"({wild})" if wild else re.escape(part)
    match = re.fullmatch("".join(parts), name, re.DOTALL)
    return None if match is None else match.groups()


def _one_of(part: str) -> str:
    """Return the expression of a character among those in brackets."""
    whole = fnmatch.translate(part)  # in a group, up to the end of the text
    return whole[len("(?s:") : whole.rindex(")")]


def raise_missing(name: str, path: str) -> NoReturn:
    """Raise the error that says what is at an absolute path, where no file can be read."""
    if os.path.lexists(path):
        raise SourceNotFoundError(f"{name!r} is {_kind(path)}; expected a file")
    folder, base = os.path.split(path)
    if not os.path.isdir(folder):
        raise SourceNotFoundError(f"there is no file {name!r}: no folder {folder!r}")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise denied(f"the folder {folder!r}")
    raise SourceNotFoundError(f"there is no file {name!r} in {folder!r}; {_near(base, folder)}")


def _near(base: str, folder: str) -> str:
    """Return in words what a folder has in place of a name."""
    names, end = sorted(os.listdir(folder)), os.path.splitext(base)[1]
    stems = {name.removesuffix(end): name for name in names}  # the same end makes none alike
    near = difflib.get_close_matches(base.removesuffix(end), stems, n=MAX_NEAR)
    if near:
        return f"near names there: {[stems[stem] for stem in near]}"
    of_kind = [name for name in names if end and name.endswith(end)]
    more = f" and {len(of_kind) - MAX_NEAR:,} more" if len(of_kind) > MAX_NEAR else ""
    return f"it has {of_kind[:MAX_NEAR]}{more}" if of_kind else "no name there is like it"


def _kind(path: str) -> str:
    """Return what something that is no file is."""
    if os.path.islink(path) and not os.path.exists(path):
        return f"a link to {os.readlink(path)!r}, which is not there"
    return _KINDS.get(stat.S_IFMT(os.stat(path).st_mode), "no regular file")


def absolute(name: str) -> str:
    """Return a path that holds in any folder, because a worker may run in another; a URL as is."""
    return name if is_url(name) else os.path.abspath(name)


def own_name(name: str) -> str:
    """Return the name of a file without its folders: of a link that of the file it leads to.

    Examples
    --------
    >>> own_name("data/a.zarr/"), own_name("https://host/a%20b.csv?key=1")
    ('a.zarr', 'a b.csv')
    """
    path = urllib.parse.unquote(bare(name)) if is_url(name) else os.path.realpath(name)
    return os.path.basename(path)


def open_bytes(path: str, name: str) -> Any:
    """Open a file or URL, called `name` in messages, for reading, as pyarrow's files are.

    SourceNotFoundError if there is none, MissingPackageError if the URL's filesystem is missing.
    """
    if not is_url(path):
        if not os.path.isfile(path):  # opening a pipe would wait for a writer
            raise_missing(name, path)
        try:
            return arrow().OSFile(os.fsencode(path))  # a name need not be text
        except FileNotFoundError:
            raise_missing(name, path)
        except PermissionError as error:
            raise denied(name) from error
    return open_url(path, name)


def packed_by(head: bytes) -> str | None:
    """Return what has compressed a file with these first bytes, `HEAD` or more, or None."""
    return next((word for word, first in PACKED.items() if first.match(head)), None)


def packed_text(head: bytes, name: str) -> str | None:
    """Return what has compressed a file of text, by its first bytes, or None.

    By the end of its name where they are neither of text nor known.
    """
    known = packed_by(head)
    try:  # they may end within a character
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head[:HEAD])
    except UnicodeDecodeError:
        text = ""
    is_text = bool(text) and all(c.isprintable() or c in "\t\r\n" for c in text)
    return known if known or is_text else PACKED_ENDINGS.get(os.path.splitext(name)[1].lower())


def check_unpacked(path: str, name: str) -> None:
    """Raise DataError for a file, called `name`, that gzip, Zstandard or bzip2 has compressed."""
    try:
        with open(path, "rb") as file:
            packed = packed_by(file.read(HEAD))
    except OSError:  # which opening it tells
        return
    if packed is not None:
        raise DataError(
            f"{name} is compressed by {packed}, and of such files only CSV is read: unpack it first"
        )


@contextmanager
def decoding(where: str, wrong: str = "cannot be read") -> Iterator[None]:
    """Raise CorruptFileError for whatever another library raises of bytes that it cannot read."""
    try:
        yield
    except StreamrfError:
        raise
    except BlockingIOError as error:  # the file may be well, and so below
        raise StorageError(
            f"{where} cannot be read: another program is writing it; wait for its end"
        ) from error
    except PermissionError as error:
        raise denied(where) from error
    except Exception as error:
        raise CorruptFileError(
            f"{where} {wrong} ({first_line(error)}); it is of another format, damaged or"
            " truncated: copy or write it again, or wait if a program is writing it"
        ) from error


def ended(where: str) -> CorruptFileError:
    """Return the error of a file that is shorter than when it was opened."""
    return CorruptFileError(f"{where} ends before the rows asked for; the file has changed")


def denied(where: str) -> StorageError:
    """Return the error of a file that belongs to another."""
    return StorageError(f"{where} cannot be read: permission denied; ask its owner for the right")


def version(path: str) -> str:
    """Return what changes when a file is written to; of a URL nothing."""
    if is_url(path):
        return ""
    state = os.stat(path)
    return f"{state.st_size} {state.st_mtime_ns}"


def is_paths(data: Any) -> bool:
    """Return whether data is a path, or a list of paths."""
    entries = data if isinstance(data, list | tuple) else [data]
    return all(isinstance(entry, str | os.PathLike) for entry in entries)
