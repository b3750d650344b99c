"""Files that commands write, and memory that they need, checked before the work."""

import contextlib
import glob
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import h5py

from streamrf.display import format_bytes
from streamrf.errors import (
    CheckpointError,
    Interruption,
    ParameterError,
    StorageError,
    StreamrfError,
)
from streamrf.sources import Source, has_signature, is_file_of, is_url, path_of
from streamrf.storage import identity, is_saved, missing_folder

PREDICTED = {"y", "scores", "probabilities", "deviations", "labels"}  # datasets of predictions
_KINDS = {"--model": "model", "--statistics": "statistics"}


@contextlib.contextmanager
def writing(
    outputs: Mapping[str, str | None], inputs: Iterable[str], kind: str = "", start: bytes = b""
) -> Iterator[Callable[[Source], None]]:
    """Check outputs before the work; if it ends early, add to its error what was written.

    Yields a function that raises ParameterError if an output is a file that a source reads.

    Parameters
    ----------
    outputs : paths by their options
    inputs : paths and patterns of files that must not be overwritten, and folders of such
    kind : of the saved file that --output is; "" of predictions and reports
    start : of these, first bytes of such a file, where it has any
    """
    named = {option: path for option, path in outputs.items() if path is not None}
    inputs = [path_of(name) for name in inputs]
    taken = {found: "is read from" for name in inputs for found in _files(name)}
    for option, path in named.items():
        if not path:
            raise ParameterError(f"{option} '' is empty; expected the name of a file")
        if path.endswith(os.sep):
            raise ParameterError(
                f"{option} {path} is the name of a folder; expected that of a file"
            )
        target = os.path.realpath(path)
        _check_output(f"{option} {path}", target)
        if target in taken:
            raise ParameterError(f"{option} {path} {taken[target]} too; choose another name")
        taken[target] = "is written to"
        around = next((name for name in inputs if is_file_of(target, name)), None)
        if around is not None and not os.path.lexists(target):
            raise ParameterError(
                f"{option} {path} would be one of the files read from {around} the next time; "
                "choose another folder"
            )
        if option != "--checkpoint":  # which is looked at when it is opened
            _check_replaced(f"{option} {path}", target, _KINDS.get(option, kind), start)
    before = {path: identity(path) for path in named.values()}

    def check(source: Source) -> None:
        read = {os.path.realpath(file) for file in source.files if not is_url(file)}
        for option, path in named.items():
            target = os.path.realpath(path)
            if not read.isdisjoint([target, *map(str, Path(target).parents)]):  # a zarr store
                raise ParameterError(f"{option} {path} is read from too; choose another name")

    try:
        yield check
    except (Interruption, CheckpointError):
        # The first says itself what was written. The second comes before anything is: a checkpoint
        # that is new by then is that of another run.
        raise
    except (KeyboardInterrupt, StreamrfError) as end:
        written = [path for path in before if identity(path) != before[path]]
        verb = "were" if len(written) > 1 else "was"
        outcome = f"{' and '.join(written) or 'nothing'} {verb} written"
        if isinstance(end, KeyboardInterrupt):
            raise KeyboardInterrupt(f"interrupted; {outcome}") from None
        if written:
            raise type(end)(f"{end}; {outcome}") from end
        raise


def _files(pattern: str) -> list[str]:
    """Return the files that a path or pattern stands for, links followed."""
    return [os.path.realpath(found) for found in [pattern, *glob.glob(pattern, recursive=True)]]


def _check_output(what: str, target: str) -> None:
    folder = os.path.dirname(target)
    if "://" in what:  # which may hold a password
        raise ParameterError(f"{what.split()[0]}: a URL is not written to; give a file's name")
    if target.startswith("/proc/"):  # a pipe that /dev/stdout leads to
        raise ParameterError(f"{what} is no regular file; choose another name")
    if not os.path.isdir(folder):
        raise ParameterError(f"{what}: {missing_folder(folder)}")
    if len(os.fsencode(os.path.basename(target))) > os.pathconf(folder, "PC_NAME_MAX"):
        raise ParameterError(f"{what} is longer than names of files are; choose another name")
    if os.path.lexists(target) and not os.path.isfile(target):
        raise ParameterError(f"{what} exists and is no regular file; choose another name")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(f"{what}: no right to write in the folder {folder}; choose another")


def _check_replaced(what: str, target: str, kind: str, start: bytes) -> None:
    """Raise ParameterError where an output would replace what is not of its kind, as data are."""
    if not os.path.isfile(target) or not os.path.getsize(target):
        return
    try:
        is_alike = _is_alike(target, kind, start)
    except PermissionError as error:
        raise ParameterError(
            f"{what} exists and cannot be read, so it is not replaced: choose another name"
        ) from error
    if not is_alike:
        like = f"a {kind} file of streamrf" if kind else "what this command writes there"
        raise ParameterError(
            f"{what} exists and is not {like}, so it is not replaced: choose another name, or "
            "delete it first"
        )


def _is_alike(path: str, kind: str, start: bytes) -> bool:
    """Return whether a file is of a kind, or of none and begins so."""
    if kind:
        return is_saved(path, kind)
    with open(path, "rb") as file:
        head = file.read(1 << 12)
    begins = head.lower().startswith(start.lower()) if start else b"\0" not in head
    return begins and not is_saved(path) and not (has_signature(path) and _is_other(path))


def _is_other(path: str) -> bool:
    """Return whether an HDF5 file has datasets that predictions have not, or is damaged."""
    try:
        with h5py.File(path, "r") as file:
            return not {*file} <= PREDICTED
    except OSError:
        return True


def check_room(
    path: str | os.PathLike, n_bytes: int, smaller: str = " or lower --components"
) -> None:
    """Raise StorageError if the disk has no room for a file; `smaller` says how to need less."""
    free = shutil.disk_usage(os.path.dirname(os.path.realpath(path))).free
    if free < n_bytes:
        raise StorageError(
            f"{path} will need {format_bytes(n_bytes)} and its disk has {format_bytes(free)} free; "
            f"make room or choose another folder{smaller}"
        )


def written(path: str) -> str:
    """Return the name and size of a file."""
    return f"{path}, {format_bytes(os.path.getsize(path))}"
