"""A run as people see it: a line that moves in a terminal or notebook, or lines from time to time.

Without a terminal there is a line for each stage and one every 30 seconds, from the tenth second
on: a log shows what a long run does, and a short one leaves no trace.
"""

import html
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from streamrf.display.compiling import compilation_told
from streamrf.display.stages import Run, following, now

QUIET_SECONDS, EVERY_SECONDS = 10.0, 30.0
WAKE_SECONDS = 0.2


@contextmanager
def showing(n_rows: int | None = None, expected: Sequence[str] = ()) -> Iterator[Run]:
    """Return a run that is shown on standard error, or beneath the cell of a notebook."""
    with shown(Run(n_rows, expected)) as run:
        yield run


@contextmanager
def shown(run: Run, shows: bool = True) -> Iterator[Run]:
    """Show the run, and let what happens inside tell it; inside of another one that goes on."""
    around = now()
    if around is not None:
        yield around
        return
    if not shows:
        with compilation_told(run, hints=True):
            yield run
        return
    display = _in_notebook(run) or (_moving(run) if _has_terminal() else _Lines(run))
    with compilation_told(run), following(run), display:
        yield run


def _has_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _moving(run: Run) -> AbstractContextManager[Any]:
    """Return a line with a spinner and a bar, drawn again by a thread of Rich."""
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    spinner = Spinner("line")

    def drawn() -> Table:
        share = run.share()
        bar = ProgressBar(1.0, share or 0.0, width=12, pulse=share is None)
        row = Table.grid(padding=(0, 1))
        row.add_row(spinner, bar, Text(run.line(), no_wrap=True, overflow="ellipsis"))
        return row

    console = Console(stderr=True)
    return Live(get_renderable=drawn, console=console, refresh_per_second=4, transient=True)


class _Lines:
    """A thread that prints lines on standard error."""

    def __init__(self, run: Run):
        self._run = run
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._print, name="streamrf progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join()

    def _print(self) -> None:
        due = quiet = time.monotonic() + QUIET_SECONDS
        stage, note = None, ""  # told last; a note is told once
        while not self._ends.wait(WAKE_SECONDS):
            now, run = time.monotonic(), self._run
            is_new = run.stage_now is not stage or run.note not in ("", note)
            if now >= quiet and (is_new or now >= due):
                stage, note, due = run.stage_now, run.note or note, now + EVERY_SECONDS
                with suppress(OSError, ValueError):  # nobody reads it: the work goes on
                    print(f"streamrf: {self._run.line()}", file=sys.stderr, flush=True)


def _in_notebook(run: Run) -> AbstractContextManager[Any] | None:
    """Return a line of text beneath the cell, or None outside of a notebook."""
    ipython = sys.modules.get("IPython")  # imported already, if this is one
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return _Cell(run, ipython)


class _Cell:
    """A line of text that a notebook shows and draws again."""

    def __init__(self, run: Run, ipython: Any):
        self._run = run
        self._display = ipython.display
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="streamrf progress", daemon=True)
        self._handle: Any = None

    def __enter__(self) -> None:
        self._handle = self._display.display(self._text(), display_id=True)
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join()
        seconds = self._run.now - self._run.began
        self._handle.update(self._text(f"done in {seconds:.1f} s"))

    def _draw(self) -> None:
        while not self._ends.wait(0.5):
            with suppress(Exception):  # a notebook that has gone stops no work
                self._handle.update(self._text())

    def _text(self, line: str = "") -> Any:
        return self._display.HTML(f"<pre>{html.escape(line or self._run.line())}</pre>")
