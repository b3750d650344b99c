"""Compilation, which only the first run of a machine does: it is told, and left out of rates."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from numba.core import config
from numba.core.event import Event, Listener, install_listener

from streamrf.display.stages import Run

MIN_SECONDS = 2.0  # that a run must have compiled for, to be remembered
HINT = (
    "streamrf: compiling, once on this machine, which takes up to a minute; verbose=True shows what"
    " a run does, and streamrf warmup compiles beforehand"
)


class _Watch(Listener):
    """Counts the seconds of compilation, and tells the run of it.

    Parameters
    ----------
    run : told
    before : seconds that the last run which compiled took for it, or None
    hints : whether the first compilation on a machine is told on standard error
    """

    def __init__(self, run: Run, before: float | None, hints: bool):
        self._run = run
        self._before = before
        self._hints = hints
        self._depth, self._began = 0, 0.0
        self.seconds = 0.0

    def on_start(self, event: Event) -> None:
        self._depth += 1
        if self._depth == 1:
            self._began = time.monotonic()
            if self._before is None:
                self._run.note = "compiling, once on this machine"
            else:
                self._run.note = f"compiling; it took {self._before:.0f} s last time"
            if self._hints and self._before is None and sys.stderr is not None:
                self._hints = False
                with suppress(OSError, ValueError):  # nobody reads it: the work goes on
                    print(HINT, file=sys.stderr, flush=True)

    def on_end(self, event: Event) -> None:
        self._depth -= 1
        if self._depth == 0:
            seconds = time.monotonic() - self._began
            self.seconds += seconds
            self._run.pause(seconds)
            self._run.note = ""


@contextmanager
def compilation_told(run: Run, hints: bool = False) -> Iterator[None]:
    """Tell the run while kernels compile, and keep how long that took next to Numba's cache."""
    file = _memory()
    watch = _Watch(run, _read(file), hints)
    try:
        with install_listener("numba:compile", watch):
            yield
    finally:
        if watch.seconds > MIN_SECONDS and file is not None:
            with suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"{watch.seconds:.1f}\n")


def _memory() -> Path | None:
    """Return the file that keeps the seconds; None for a user without a home."""
    try:
        folder = Path(config.CACHE_DIR) if config.CACHE_DIR else Path.home() / ".cache"
    except RuntimeError:  # as in containers
        return None
    return folder / "streamrf-compile-seconds"


def _read(file: Path | None) -> float | None:
    try:
        return None if file is None else float(file.read_text())
    except (OSError, ValueError):
        return None
