"""Files at URLs: what patterns mean, names without secrets, errors that name the file."""

import email.utils
import functools
import glob
import io
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from streamrf.errors import (
    CorruptFileError,
    MissingPackageError,
    ParameterError,
    SourceNotFoundError,
    first_line,
)
from streamrf.sources.arrow_types import arrow
from streamrf.sources.store_folders import check_no_table, tables_above

_PLAIN = (  # protocols whose names of files may hold ? and #; of others these end it
    *("abfs", "abfss", "az", "file", "gcs", "gs", "hdfs", "local", "memory", "s3", "s3a"),
    *("sftp", "smb", "ssh", "tar", "zip"),
)
_HTTP = ("http", "https")
_STATES = ("ETag", "etag", "md5Hash", "Content-MD5", "LastModified", "mtime", "Last-Modified")
_ASK_SECONDS = 10.0  # for an answer on the state of a file
_FRESH_SECONDS = 120.0  # of a time of writing, which may be that of the answer
_NO_RANGES = "its server has no ranges of bytes"
_LINKS = re.compile("::(?=[a-z][a-z0-9]*::|[a-z][a-z0-9]*://)")  # between archives and caches


def is_url(name: str) -> bool:
    """Return whether a name is a URL, such as memory://a.csv, rather than a path."""
    return "://" in name


def check_no_urls(names: Iterable[str]) -> None:
    """Raise ParameterError for files of a format that is read from disks alone."""
    for name in filter(is_url, names):
        raise ParameterError(
            f"{bare(name)} is a URL: CSV, Parquet, Arrow and libsvm files are read from URLs, by "
            "the endings of their names, and the files of a folder by a pattern, such as "
            "'s3://bucket/rows/*.csv'; download others"
        )


def bare(name: str) -> str:
    """Return a name without the secrets of a URL: a password, a token, a signature.

    Examples
    --------
    >>> bare("https://me:secret@host/a.csv.gz?key=1#top"), bare("https://token@host/a.csv")
    ('https://host/a.csv.gz', 'https://host/a.csv')
    >>> bare("what?.csv"), bare("s3://me/what#1?.csv")
    ('what?.csv', 's3://me/what#1?.csv')
    """
    return "::".join(map(_bare, _LINKS.split(name))) if is_url(name) else name


def _bare(link: str) -> str:
    """Return the bare URL of one link of a chain of archives and caches."""
    protocol, sign, rest = link.partition("://")
    if not sign or protocol == "github":  # whose "me:it@" is organisation and repository
        return link
    password = re.match("([^/:@?#]*):[^/?#]*@", rest)
    if password is None and protocol not in _PLAIN:  # one with a sign that should be in code
        password = re.match(r"([^/:@?#]*):(?!\d*(?:[/?#]|$)).*@", rest)
    if password is not None:
        rest = f"{password[1]}@{rest[password.end() :]}"
    if protocol in _HTTP:  # of which a token may be the name of the user
        rest = re.sub("^[^/@?#]*@", "", rest)
    return f"{protocol}://{_named(protocol, rest)}"


def _named(protocol: str, rest: str) -> str:
    """Return what names a file, without a signature."""
    end = r"\?\w+=" if protocol in _PLAIN else "[#?]"
    return re.split(end, rest, maxsplit=1)[0]


def inner(name: str) -> str:
    """Return the bare URL of a file within archives and caches; another name as it is.

    Examples
    --------
    >>> inner("zip://rows.csv::file:///all.zip"), inner("simplecache::https://h/a.csv?key=1")
    ('zip://rows.csv', 'https://h/a.csv')
    """
    if not is_url(name):
        return name
    return bare(next((link for link in name.split("::") if "://" in link), name))


def matches_of(name: str) -> list[str]:
    """Return the files that a URL means, or a pattern of such; SourceNotFoundError if none."""
    if not glob.has_magic(inner(name)):
        return [name]
    with _reaching(name):
        import fsspec

        filesystem, path = fsspec.core.url_to_fs(name)
        if filesystem.isfile(path):  # first: a file's name may hold brackets
            return [name]
        found = filesystem.glob(path, detail=True)
    folders = sorted(match for match, of in found.items() if of.get("type") == "directory")
    matches = sorted(found.keys() - folders)
    if folders and "**" not in path:
        raise SourceNotFoundError(
            f"{folders[0]!r}, which {bare(name)!r} matches, is a folder; match the files within"
        )
    for folder in tables_above(matches):
        check_no_table(folder, partial(_logs, filesystem))
    if not matches:
        raise SourceNotFoundError(f"no file matches {bare(name)!r}")
    if path not in name:  # spelt in another way than its filesystem has it
        return [filesystem.unstrip_protocol(match) for match in matches]
    return [name.replace(path, match, 1) for match in matches]  # host and archive stay


def _logs(filesystem: Any, pattern: str) -> list[str]:
    try:
        return list(filesystem.glob(pattern))
    except Exception:  # of a server that does not list what is not there
        return []


def open_url(url: str, name: str) -> Any:
    """Open the file at a URL, called `name` in messages, for reading, as pyarrow's files are."""
    with _reaching(name):
        import fsspec

        opened = fsspec.open(url, "rb", **_options(url))
        file = _Remote(opened, bare(name))
    file.check_ranges()
    return arrow().PythonFile(file, mode="r")


def state_at(url: str, is_settled: bool = False) -> str:
    """Return what a server tells of the state of a file; "" if nothing, or if it cannot be asked.

    It is the entity tag, whether weak or strong, else a checksum, else the time of writing. What is
    read from caches and archives is not asked for.

    Parameters
    ----------
    url : of the file
    is_settled : whether a time counts only if it cannot be that of the answer
    """
    if "::" in url:
        return ""
    with suppress(Exception):
        import fsspec

        filesystem, path = fsspec.core.url_to_fs(url, **_options(url))
        filesystem.invalidate_cache(path)
        if filesystem.async_impl:
            told = fsspec.asyn.sync(filesystem.loop, filesystem._info, path, timeout=_ASK_SECONDS)
        else:
            told = filesystem.info(path)
        key = next((key for key in _STATES if told.get(key)), None)
        if key == "Last-Modified" and is_settled:
            written = email.utils.parsedate_to_datetime(told[key]).timestamp()
            key = None if time.time() - written < _FRESH_SECONDS else key
        if key is not None:  # servers that compress tell another tag of the same
            return str(told[key]).removeprefix("W/").strip('"').removesuffix("-gzip")
    return ""


def _options(url: str) -> dict[str, Any]:
    """Return what a URL is opened with beside the user's own configuration of fsspec."""
    linked = {link.partition("://")[0] for link in _LINKS.split(url)}
    protocols = [protocol for protocol in _HTTP if protocol in linked]
    checks = _checks() if protocols else None
    if checks is None:
        return {}
    from fsspec.config import conf

    client: dict[str, Any] = {}
    for protocol in _HTTP:
        client |= conf.get(protocol, {}).get("client_kwargs") or {}
    client["trace_configs"] = [*(client.get("trace_configs") or []), checks]
    return {protocol: {"client_kwargs": client} for protocol in protocols}


@functools.cache  # one for all, as fsspec keeps one connection for all files with the same options
def _checks() -> Any:
    """Return what lets aiohttp refuse another part of a file than was asked for; None without it.

    fsspec takes what a server sends.
    """
    try:
        import aiohttp
    except ImportError:  # which fsspec tells
        return None

    async def check(session: Any, context: Any, request: Any) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
        sent = re.match(r"bytes (\d+)-(\d+)/", request.response.headers.get("Content-Range", ""))
        if not asked or not sent or request.response.status != HTTPStatus.PARTIAL_CONTENT:
            return
        if int(sent[1]) != int(asked[1]) or int(sent[2]) > int(asked[2] or sent[2]):
            raise OSError(f"its server sent other bytes than those asked for, {sent[0]!r}")

    checks = aiohttp.TraceConfig()
    checks.on_request_end.append(check)
    return checks


class _Remote:
    """A file of fsspec, whose errors name it."""

    def __init__(self, opened: Any, name: str) -> None:
        self._opened = opened  # or an archive around the file would be closed
        self._file = opened.open()
        self._name = name

    def __getattr__(self, key: str) -> Any:
        return getattr(self._file, key)

    def check_ranges(self) -> None:
        """Raise CorruptFileError where bytes come one after the other, so that none come again.

        fsspec knows no size then, nor for empty files.
        """
        if getattr(self._file, "size", 0) is None:
            size = self._tried(self._opened.fs.size, self._opened.path)
            self.close()
            if size == 0:
                self._file = io.BytesIO()
                return
            raise self._unread(_NO_RANGES)

    def close(self) -> None:
        """Close it; what it raises then is of no row, which are read."""
        with suppress(Exception):
            self._file.close()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, all that are asked for where the length is known."""
        length = getattr(self._file, "size", None)
        left = length - self._file.tell() if isinstance(length, int) else 0
        asked = left if size is None or size < 0 else min(size, left)
        data: bytes = self._tried(self._file.read, size)
        if len(data) < asked:
            raise CorruptFileError(
                f"{self._name} cannot be read: its server sent {len(data):,} of {asked:,} bytes"
                " that there were at first; the file has changed: read it again"
            )
        return data

    def seek(self, *where: int) -> int:
        """Go to a place; `where` as of any file."""
        return self._tried(self._file.seek, *where)

    def _tried(self, method: Callable[..., Any], *given: int) -> Any:
        try:
            return method(*given)
        except Exception as error:
            is_whole = "range" in str(error) or "seek" in str(error)
            why = _NO_RANGES if is_whole else _said(error)
            why = "its server sent nothing for minutes" if isinstance(error, TimeoutError) else why
            raise self._unread(why) from None  # whose text may hold what is secret in a URL

    def _unread(self, why: str) -> CorruptFileError:
        return CorruptFileError(
            f"{self._name} cannot be read: {why}; download it, and read the file"
        )


@contextmanager
def _reaching(name: str) -> Iterator[None]:
    """Raise our errors, which name the file, for those of fsspec and its file systems.

    Not as their causes: tracebacks would show what is secret in a URL.
    """
    try:
        yield
    except ImportError as error:
        cure = ": pip install 'streamrf[http]'" if name.startswith("http") else ""
        raise MissingPackageError(f"{bare(name)} cannot be opened: {_said(error)}{cure}") from error
    except FileNotFoundError as error:
        cause: BaseException | None = error  # of a server that cannot be reached, or fails
        while isinstance(cause, FileNotFoundError):  # one within another where a URL has a query
            cause = cause.__cause__
        if cause is None or getattr(cause, "status", None) == HTTPStatus.NOT_FOUND:
            raise SourceNotFoundError(f"there is no file {bare(name)}") from None
        raise SourceNotFoundError(f"{bare(name)} cannot be reached: {_said(cause)}") from None
    except ValueError as error:  # of a protocol that it does not know
        raise ParameterError(f"{bare(name)} cannot be opened: {_said(error)}") from None
    except Exception as error:  # of a network
        raise CorruptFileError(
            f"{bare(name)} cannot be reached: {_said(error)}; check address and connection"
        ) from None


def _said(error: BaseException) -> str:
    """Return the first line of another library's error, with the bare names of URLs in it."""
    if type(error).__name__ == "TooManyRedirects":  # of aiohttp, whose text does not say it
        return "its server redirects without an end"
    text = re.sub(r"\w+://\S+", lambda url: bare(url[0]), first_line(error))
    return re.sub(r"\?\w+=\S*", "", text)
