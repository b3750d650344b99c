"""The state of a pass on disk: when it is written, and whether one found belongs to the job.

A checkpoint holds what a pass has added up so far and how many rows it has read, so that the same
call goes on where the last one ended, however that one ended. It is written between two blocks, to
a file of its own that then takes the old one's place, so a kill at any moment leaves a whole one.
"""

import logging
import os
import signal
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import Any, Generic, TypeVar

from streamrf import storage
from streamrf.display import brief, printable
from streamrf.engine.base import StateStore, Summary, Update
from streamrf.engine.samples import Samples, are_known
from streamrf.errors import (
    ChangedFileError,
    CheckpointError,
    FormatError,
    Interruption,
    StorageError,
)
from streamrf.sources import Block, Source, Store
from streamrf.storage import Fields, digest, loading

KIND = "checkpoint"
SHARE = 0.02  # of the time that writing may take
SIGNALS = (signal.SIGINT, signal.SIGTERM)
MAX_SHOWN = 60  # characters of a setting in a message
CURE = "Go on with the same settings, or give this job a checkpoint file of its own"

logger = logging.getLogger("streamrf")


class State(Summary):
    """A summary that can be written down between two blocks."""

    @abstractmethod
    def to_tree(self) -> dict:
        """Return the state as a tree."""


S = TypeVar("S", bound=State)


class Checkpoint(StateStore[S]):
    """The file that holds the state of one pass over one source.

    Parameters
    ----------
    path : file of the checkpoint
    every : seconds between two writings, stretched so that writing takes at most `SHARE` of the
        time; 0: after every block
    job : tree of all settings that the sums depend on
    source : what is read
    start : index of the first row read
    cures : what to do where a setting of a name, such as "source/y", differs from the file's

    Attributes
    ----------
    n_done : rows read and added up
    n_resumed : rows of these that an earlier run read
    """

    def __init__(
        self,
        path: str | os.PathLike,
        every: float,
        job: dict,
        source: Source,
        start: int = 0,
        cures: Mapping[str, str] | None = None,
    ):
        self.path = os.fspath(path)
        self.n_done = self.n_resumed = 0
        self._every = every
        self._job = job
        self._cures = cures or {}
        self._start = start
        self._where = source.where
        self._versions = source.versions
        self._stores = source.stores
        self._samples = Samples()
        self._earlier_versions: list[str] = []
        self._earlier_stores: list[Store] = []
        self._found: tuple[int, int] | None = None  # the file that was read

    @property
    def stop(self) -> int:
        """Index of the first row that is not counted yet."""
        return self._start + self.n_done

    def read(self) -> Fields | None:
        """Return the state that an earlier run left, or None where there is none.

        Raises
        ------
        CheckpointError
            If it is the state of another job; the message names what differs.
        FormatError
            If the file is no checkpoint, or damaged.
        """
        if not os.path.exists(self.path):  # also a link whose target is not there yet
            _check_folder(self.path)
            return None
        self._found = storage.identity(self.path)
        try:
            fields = Fields(storage.read(self.path, KIND), self.path)
        except FormatError as error:
            is_other = os.path.getsize(self.path) and not storage.is_saved(self.path, KIND)
            if is_other:  # which must not be lost
                raise
            raise FormatError(f"{error}; without it the run starts from its beginning") from error
        with loading(self.path):
            job, stores, state = fields.tree("job"), fields.tree("stores"), fields.tree("state")
            self.n_done = self.n_resumed = fields.integer("n_done", minimum=0)
            fields.end()
            if stores.is_tree("samples"):  # files of earlier versions have none
                self._earlier_versions = stores.texts("versions")
                self._samples = Samples.from_tree(stores.tree("samples"))
            self._earlier_stores = _as_stores(stores)
        differences = _differences("", job.rest(), self._job)
        if differences:
            shown = "; ".join([*differences.values()][:3]) + "; ..." * (len(differences) > 3)
            cures = [cure for name, cure in self._cures.items() if name in differences]
            raise CheckpointError(
                f"the checkpoint {self.path} is of another job: {shown}. {[*cures, CURE][0]}"
            )
        return state

    def _check_stores(self, earlier: list[Store]) -> None:
        """Raise CheckpointError unless the stores counted are the first ones, and as long."""
        if not self.n_done:  # what is kept is the calibration
            self._check_begin(earlier)
        place = 0
        for i, old in enumerate(earlier):
            if place >= self.stop:
                return
            new = self._stores[i] if i < len(self._stores) else None
            wrong = _changed(old, new, self.stop - place)
            if wrong:
                raise CheckpointError(
                    f"the checkpoint {self.path} has counted {self.n_done:,} rows that are not the "
                    f"first of {self._where} now: {wrong}. Read what was read before, with new "
                    "rows at the end only, or give this job a checkpoint file of its own"
                )
            place += self.stop if old.n_rows is None else old.n_rows

    def check_rows(self, source: Source) -> None:
        """Raise CheckpointError if the rows counted are not the first of the source any more.

        `source` reads the columns of tables as they were read then. Its stores are compared, and
        samples of the rows.
        """
        self._stores = source.stores
        self._check_stores(self._earlier_stores)
        is_same = are_known(self._versions) and self._earlier_versions == self._versions
        row = None if is_same or not source.seekable else self._samples.changed(source)
        if row is not None:
            raise CheckpointError(
                f"the checkpoint {self.path} has counted rows of {self._where} that have been "
                f"written again since: row {row:,} is not what it was. Sum them anew, by a "
                "checkpoint file of their own"
            )
        if self.n_done:  # or it is the first file of a spill folder
            n_done = f"{self.n_done:,}"
            logger.info("%s: goes on after the %s rows counted already", self.path, n_done)

    def check_unchanged(self) -> None:
        """Raise CheckpointError if another run has written the file since it was read."""
        if storage.identity(self.path) != self._found:
            raise CheckpointError(
                f"another run has written the checkpoint {self.path} since this one began; run "
                "the same again to go on from there, or give this run a file of its own"
            )

    def count(self, block: Block) -> None:
        """Take note of a block that was added up."""
        self.n_done += block.span
        self._samples.add(block)

    def _check_begin(self, earlier: list[Store]) -> None:
        """Raise CheckpointError if the stores calibrated on are not the first ones any more."""
        for old, new in zip(earlier, self._stores, strict=False):
            wrong = _changed(old, new, 0)
            if wrong:
                raise CheckpointError(
                    f"{self.path} was calibrated on other rows: {wrong}. Give this job a file or a "
                    "spill folder of its own"
                )

    def write_first(self, state: Callable[[], dict]) -> None:
        """Write the state of a new pass, unless an earlier run has."""
        if not os.path.exists(self.path):
            self.write(state())

    def write(self, state: dict) -> None:
        """Write the state."""
        stores = {
            "keys": [store.key for store in self._stores],
            "names": [store.where for store in self._stores],
            "n_rows": [store.n_rows for store in self._stores],
            "versions": self._versions,
            "samples": self._samples.to_tree(),
        }
        tree = {"job": self._job, "stores": stores, "n_done": self.n_done, "state": state}
        storage.write(self.path, KIND, tree)

    def guarding(self, summary: S, update: Update[S]) -> "CheckpointWriter[S]":
        """Return the context in which `summary` is updated and written."""
        return CheckpointWriter(self, summary, update, self._every)


class CheckpointWriter(Generic[S]):
    """While entered: writes between blocks, at the end, and when the process is asked to stop.

    SIGINT (Ctrl-C) and SIGTERM wait for the end of the block in progress; then a last checkpoint is
    written and `Interruption` raised. A second SIGINT does not wait. Signals can only be caught in
    the main thread; elsewhere they do what they always do. Where a file cannot be written (a full
    disk), the last one stays, a warning is logged and the pass goes on.
    """

    def __init__(self, checkpoint: Checkpoint[S], subject: S, update: Update[S], every: float):
        self._checkpoint = checkpoint
        self._subject = subject
        self._update = update
        self._every = every
        self._next = 0.0
        self._whole = True  # whether the subject is between two blocks
        self._written = checkpoint.n_done
        self._signal: int | None = None
        self._handlers: dict[int, Any] = {}
        self._lock = ExitStack()

    def __enter__(self) -> Update[S]:
        if not self._lock.enter_context(storage.alone(self._checkpoint.path)):
            raise CheckpointError(
                f"another run is writing the checkpoint {self._checkpoint.path}; wait for its end, "
                "or give this run a file of its own"
            )
        try:
            self._checkpoint.check_unchanged()
        except CheckpointError:
            self._lock.close()
            raise
        self._next = time.monotonic() + self._every
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                handler = signal.getsignal(number)
                if handler not in (signal.SIG_IGN, None):
                    self._handlers[number] = handler
                    signal.signal(number, self._stop)
        return self._step

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        with self._lock:
            if error is None:
                self._write()
                self._leave()
            elif _spares_earlier_rows(error) and self._whole and self._write():
                path, written = self._checkpoint.path, f"{self._written:,}"
                logger.warning("%s holds the %s rows before the error", path, written)

    def _step(self, subject: S, block: Block) -> None:
        """Update, then do what is due between two blocks."""
        self._whole = False
        self._update(subject, block)
        self._checkpoint.count(block)
        self._whole = True
        if self._signal is not None:
            self._write()
            self._leave()
        if time.monotonic() >= self._next:
            self._write()

    def _write(self) -> bool:
        """Write the state if it is new; return whether the file holds it."""
        if self._written == self._checkpoint.n_done:
            return self._written > 0
        began = time.monotonic()
        try:
            self._checkpoint.write(self._subject.to_tree())
            self._written = self._checkpoint.n_done
        except StorageError as error:
            logger.warning("%s; the pass goes on without this checkpoint", error)
        now = time.monotonic()
        wait = max(self._every, (now - began) / SHARE) if self._every else 0.0
        self._next = now + wait
        return self._written == self._checkpoint.n_done

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Take note of a signal."""
        if self._signal is not None and number == signal.SIGINT:
            raise Interruption(f"stopped at once; {self._held()}", number)
        self._signal = number

    def _leave(self) -> None:
        if self._signal is not None:
            message = f"stopped after {self._checkpoint.n_done:,} rows; {self._held()}"
            raise Interruption(message, self._signal)

    def _held(self) -> str:
        if not self._written:
            return "no checkpoint was written"
        return (
            f"{self._checkpoint.path} holds {self._written:,} rows: run the same again to go on "
            "from there"
        )


def _spares_earlier_rows(error: BaseException) -> bool:
    """Return whether the rows counted before an error are right: not where files changed."""
    return isinstance(error, Exception) and not isinstance(error, ChangedFileError | MemoryError)


def _check_folder(path: str) -> None:
    """Raise StorageError where no file can be written."""
    folder = os.path.dirname(os.path.realpath(path))
    if not os.access(folder, os.W_OK | os.X_OK):
        what = "no right to write in" if os.path.isdir(folder) else "there is no"
        raise StorageError(f"cannot write the checkpoint {path}: {what} folder {folder}")


def _as_stores(fields: Fields) -> list[Store]:
    keys = fields.texts("keys")
    names = fields.texts("names", len(keys))
    counts = fields.counts("n_rows", len(keys))
    fields.end()
    return [Store(*store) for store in zip(keys, names, counts, strict=True)]


def _changed(old: Store, new: Store | None, n_counted: int) -> str:
    """Return what is wrong with a store of which `n_counted` rows are counted, "" for nothing."""
    if new is None:
        return f"{brief(old.where)} is missing"
    if old.key not in (new.key, *new.earlier):
        return f"where {brief(old.where)} was, {new.where} begins with other rows"
    if old.n_rows is None or new.n_rows is None or new.n_rows == old.n_rows:
        return ""
    if new.n_rows < min(old.n_rows, n_counted):
        return f"{new.where} had {old.n_rows:,} rows and has {new.n_rows:,}"
    if old.n_rows < n_counted:
        return (
            f"{new.where} had {old.n_rows:,} rows and has {new.n_rows:,}, but rows after it are "
            "counted already"
        )
    return ""


def _differences(name: str, old: Any, new: Any) -> dict[str, str]:
    """Return in words what differs between two jobs, by the names of the settings."""
    if isinstance(old, dict) and isinstance(new, dict) and old.get("class") == new.get("class"):
        found: dict[str, str] = {}
        for key in dict.fromkeys([*old, *new]):
            inner = name if key == "params" else f"{name}/{key}".lstrip("/")
            found |= _differences(inner, old.get(key), new.get(key))
        return found
    if digest(old) == digest(new):
        return {}
    return {name: f"{brief(name)} was {_shown(old)} and is {_shown(new)}"}


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return brief(str(value.get("class", "given")))
    text = printable(" ".join(repr(value).split()))
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."
