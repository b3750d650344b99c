"""Files that appear whole or not at all, and the system's errors in our words."""

import contextlib
import errno
import fcntl
import glob
import io
import os
import re
import secrets
import stat
from collections.abc import Iterator

from streamrf.errors import FormatError, SourceNotFoundError, StorageError, StreamrfError
from streamrf.storage.base import Path

_LEFT = re.compile(r"\.[0-9a-f]{12}\.tmp\Z")


@contextlib.contextmanager
def replacing(path: Path, n_bytes: int, elsewhere: str = "") -> Iterator[io.BufferedWriter]:
    """Open a new file of `n_bytes` that replaces `path` when the block ends without an error.

    Errors of the system become ours; `elsewhere` is what a full disk leaves to do besides.
    """
    try:
        with _replaced(path) as file:
            yield file
    except StreamrfError:  # two of them are OSError too
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = f"make room for {n_bytes:,} bytes{elsewhere}; " if full else ""
        if full and _takes_no_more(path):
            advice = f"its disk has room for bytes but for no more files: delete some{elsewhere}; "
        raise StorageError(
            f"cannot write {os.fspath(path)}: {reason(error)}; {advice}any earlier file there is "
            "unchanged"
        ) from error


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[io.BufferedWriter]:
    """Open a new file that replaces `path`, with the system's errors."""
    if _holds_null(path):
        raise StorageError(f"cannot write {os.fspath(path)!r}: a file's name holds no null byte")
    target = os.path.realpath(path)  # a link stays, its target is replaced
    folder, name = os.path.split(target)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise StorageError(f"cannot write {os.fspath(path)}: it exists and is no regular file")
    if not os.path.lexists(folder):
        raise StorageError(f"cannot write {os.fspath(path)}: {missing_folder(folder)}")
    _sweep(folder, name)
    with _temporary(folder, name) as file:
        try:
            with contextlib.suppress(OSError):  # what was private stays so
                os.fchmod(file.fileno(), stat.S_IMODE(os.stat(target).st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, target)  # still locked, or it could be swept away before
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(file.name)
            raise
    # The new file is whole and in its place; some file systems cannot sync a folder.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def missing_folder(folder: str) -> str:
    """Return what to do about a folder that is not there."""
    if f"{os.sep}~" in folder:
        return "~ is not expanded here; write $HOME (os.path.expanduser) in its place"
    return f"there is no folder {folder}; make it first"


def _takes_no_more(path: Path) -> bool:
    """Return whether the disk of a file counts files and has as many as it can."""
    with contextlib.suppress(OSError):
        disk = os.statvfs(os.path.dirname(os.path.realpath(path)))
        return disk.f_files > 0 and disk.f_favail == 0 and disk.f_bavail > 0
    return False


def _holds_null(path: Path) -> bool:
    """Return whether the system would refuse a path before it looked for it."""
    return b"\0" in os.fsencode(path)


def _temporary(folder: str, name: str) -> io.BufferedWriter:
    """Return a new file, with a lock that says that its writer lives."""
    while True:
        path = os.path.join(folder, f".{_shortened(name)}.{secrets.token_hex(6)}.tmp")
        file = open(path, "xb")  # noqa: SIM115 - the caller closes it
        with contextlib.suppress(OSError):  # some file systems have no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(path):  # or it was swept away before it had its lock
            return file
        file.close()


def _shortened(name: str) -> str:
    """Return the name, cut to leave room for an ending: names have at most 255 bytes."""
    return os.fsdecode(os.fsencode(name)[:200])


@contextlib.contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Yield whether no other holds the lock of a path, which ends with the context or the process.

    It is that of a hidden file next to the path, deleted at the end; one that a killed process left
    behind locks nothing. True where a file system has no locks.
    """
    folder, name = os.path.split(os.path.realpath(path))
    lock = os.path.join(folder, f".{_shortened(name)}.lock")
    with contextlib.ExitStack() as stack:
        while True:
            try:
                file = stack.enter_context(open(lock, "ab", opener=_open_itself))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            except OSError:
                break
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(file.fileno()), os.stat(lock)):
                    break  # else its holder has just deleted it
        try:
            yield True
        finally:
            with contextlib.suppress(OSError):
                os.unlink(lock)


def _open_itself(path: str, flags: int) -> int:
    """Open no link that somebody else has put there, and wait for no pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def identity(path: Path) -> tuple[int, int] | None:
    """Return what changes when a file is replaced; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _sweep(folder: str, name: str) -> None:
    """Delete what killed writers of the same file have left; a living one holds a lock."""
    pattern = f".{glob.escape(_shortened(name))}.*.tmp"
    for path in glob.glob(os.path.join(glob.escape(folder), pattern)):
        if not _LEFT.search(path):
            continue
        with contextlib.suppress(OSError), open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """Open a regular file to read, with our errors for the system's."""
    name = os.fspath(path)
    if _holds_null(path):
        raise SourceNotFoundError(f"there is no file {name!r}, as names hold no null byte")
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for a writer
            raise FormatError(f"{name} is no regular file; give a file that streamrf has saved")
        with open(path, "rb") as file:
            yield file
    except StreamrfError:  # two of them are OSError too
        raise
    except FileNotFoundError as error:
        if "://" in name:  # which may hold a password
            raise SourceNotFoundError(
                "a URL names no file of this machine; download it, and give the file"
            ) from error
        raise SourceNotFoundError(
            f"there is no file {name or repr(name)}; check the path"
        ) from error
    except OSError as error:
        raise StorageError(f"cannot read {name}: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Return what the system says, without the number and the temporary file's name."""
    return os.strerror(error.errno) if error.errno else str(error)
