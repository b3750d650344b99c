"""What all commands share: options, the answer, progress, output files, exit statuses."""

import contextlib
import functools
import glob
import inspect
import io
import json
import logging
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text
from sklearn.base import BaseEstimator

from streamrf.errors import (
    Interruption,
    MemoryBudgetError,
    ParameterError,
    StorageError,
    StreamrfError,
)
from streamrf.models import ErrorCorrectingCodes, OneVsRest
from streamrf.solving import check_alpha
from streamrf.storage import reason
from streamrf.training import parse_bytes

P = ParamSpec("P")
T = TypeVar("T")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # an error we did not foresee keeps its plain traceback
)

ON_BAD_ROWS = ("raise", "skip")
CODES: dict[str, type[OneVsRest] | type[ErrorCorrectingCodes]] = {
    "one-vs-rest": OneVsRest,
    "error-correcting": ErrorCorrectingCodes,
}

SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}  # of a unit

Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...",
        help="HDF5 files, read one after the other; a quoted pattern such as 'day*.h5' stands for "
        "the files it matches.",
        show_default=False,
    ),
]
StatisticsFile = Annotated[
    str, typer.Argument(metavar="STATS", help="Statistics file.", show_default=False)
]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="Model file that fit wrote.")]
X = Annotated[str, typer.Option("--x", help="Dataset of rows.", rich_help_panel="Data")]
Y = Annotated[str, typer.Option("--y", help="Dataset of targets.", rich_help_panel="Data")]
Weights = Annotated[
    str | None, typer.Option(help="Dataset of sample weights.", rich_help_panel="Data")
]
OnBadRows = Annotated[
    str,
    typer.Option(
        metavar="|".join(ON_BAD_ROWS),
        help="What to do with rows that hold NaN or infinity.",
        rich_help_panel="Data",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads that compute; all by default.", rich_help_panel="Run"),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Scheduler of a Dask cluster whose workers do it, such as tcp://host:8786.",
        rich_help_panel="Cluster",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, help="Worker processes to start here, which do it.", rich_help_panel="Cluster"
    ),
]
TlsCa = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Authority of a tls:// scheduler.", rich_help_panel="Cluster"
    ),
]
TlsCert = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Certificate to show it.", rich_help_panel="Cluster"),
]
TlsKey = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Key of the certificate.", rich_help_panel="Cluster"),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Such as '2 GiB'; four fifths of what is free.",
        rich_help_panel="Run",
        show_default=False,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        min=0, help="Seed of all that is random; 0.", rich_help_panel="Run", show_default=False
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel="Output")
]


def main() -> None:
    """Run the command line and exit with its status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name need not be text
    app(prog_name="streamrf")


@dataclass(frozen=True)
class Answer:
    """What a command has found.

    Parameters
    ----------
    figures : what `--json` prints
    lines : what a person reads
    as_json : which of them to print
    """

    figures: dict[str, Any]
    lines: list[str]
    as_json: bool


def answering(command: Callable[P, Answer]) -> Callable[P, None]:
    """Make a command print its answer, and end with one line and a status where it cannot."""

    @functools.wraps(command)
    def answered(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            _show(command(*args, **kwargs))
        except StreamrfError as error:
            _end(1, str(error))
        except Interruption as stop:
            _end(128 + stop.number, str(stop))
        except KeyboardInterrupt as interrupt:
            _end(130, str(interrupt) or "interrupted; nothing was written")
        except OSError as error:
            _end(1, f"{error.filename}: {reason(error)}" if error.filename else str(error))

    return answered


def say(message: str) -> None:
    """Tell something on standard error, as one line, above a bar that is there."""
    print(f"streamrf: {' '.join(message.splitlines())}", file=sys.stderr)  # which the bar replaces


@contextlib.contextmanager
def telling() -> Iterator[None]:
    """Tell what the library logs."""
    handler = _Teller()
    logger = logging.getLogger("streamrf")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


class _Teller(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warning = "warning: " if record.levelno >= logging.WARNING else ""
        say(warning + record.getMessage())


def _end(status: int, message: str) -> NoReturn:
    say(message)
    raise typer.Exit(status)


def _show(answer: Answer) -> None:
    """Print an answer, whole or not at all."""
    if answer.as_json:
        text = json.dumps(_finite(answer.figures), allow_nan=False)
    else:
        text = "\n".join(answer.lines)
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader has left, as `head` does; the work itself is done
        _drop_output()
    except OSError as error:
        _drop_output()
        raise StorageError(f"cannot write to standard output: {reason(error)}") from error


def _drop_output() -> None:
    """Send what standard output still holds nowhere, or Python fails once more at its exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _finite(value: Any) -> Any:
    """Give the value with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def aligned(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Give lines of two columns."""
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    return [f"{name:<{width}}  {text}".rstrip() for name, text in rows]


def wrong(option: str, message: str) -> typer.BadParameter:
    """Give the error of wrong usage of an option (exit status 2)."""
    return typer.BadParameter(message, param_hint=option)


def pick(table: Mapping[str, T], word: str, option: str) -> T:
    """Look a word up in the table of an option's choices."""
    if word not in table:
        raise wrong(option, f"{word!r} is not one of {', '.join(table)}")
    return table[word]


def pick_word(words: Iterable[str], word: str, option: str) -> str:
    """Check that a word is one of an option's choices."""
    return pick({word: word for word in words}, word, option)


class Bar:
    """Progress on standard error: rows done, rows a second, time left; silent if no terminal.

    Parameters
    ----------
    n_rows : rows to come, None where unknown
    """

    def __init__(self, n_rows: int | None):
        self._progress = Progress(
            SpinnerColumn("line"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            _Pace(Column(no_wrap=True)),
            console=Console(stderr=True),
            transient=True,
            refresh_per_second=4,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._progress.add_task("", total=n_rows)

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def stage(self, description: str) -> None:
        """Name what is going on."""
        self._progress.update(self._task, description=description)

    def advance(self, n_rows: int) -> None:
        """Count rows as done."""
        self._progress.update(self._task, advance=n_rows)


class _Pace(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(pace(task.completed, task.total, task.speed, task.time_remaining))


def pace(done: float, total: float | None, speed: float | None, left: float | None) -> str:
    """Tell how far a pass is.

    Examples
    --------
    >>> pace(1200, 6000, 800.0, 6.0), pace(1200, None, None, None)
    ('1,200 of 6,000 rows, 800 rows/s, 0:06 left', '1,200 rows')
    """
    parts = [f"{done:,.0f} rows" if total is None else f"{done:,.0f} of {total:,.0f} rows"]
    if speed is not None:
        parts.append(f"{speed:,.0f} rows/s")
    if left is not None:
        hours, seconds = divmod(math.ceil(left), 3600)
        minutes, seconds = divmod(seconds, 60)
        parts.append((f"{hours}:{minutes:02}" if hours else f"{minutes}") + f":{seconds:02} left")
    return ", ".join(parts)


@contextlib.contextmanager
def writing(outputs: Mapping[str, str | None], inputs: Iterable[str]) -> Iterator[None]:
    """Refuse outputs that could not be written before the work; tell what was, if it ends early.

    Parameters
    ----------
    outputs : paths by their options
    inputs : paths and patterns of files that must not be overwritten
    """
    named = {option: path for option, path in outputs.items() if path is not None}
    taken = {found: "is read from" for name in inputs for found in _files(name)}
    for option, path in named.items():
        place = os.path.realpath(path)
        _check_output(f"{option} {path}", place)
        if place in taken:
            raise ParameterError(f"{option} {path} {taken[place]} too; choose another name")
        taken[place] = "is written to"
    before = {path: _identity(path) for path in named.values()}
    try:
        yield
    except Interruption:  # it says itself what was written
        raise
    except (KeyboardInterrupt, StreamrfError) as end:
        written = [path for path in before if _identity(path) != before[path]]
        told = f"{' and '.join(written) or 'nothing'} was written"
        if isinstance(end, KeyboardInterrupt):
            raise KeyboardInterrupt(f"interrupted; {told}") from None
        if written:
            raise type(end)(f"{end}; {told}") from end
        raise


def _files(pattern: str) -> list[str]:
    """Give the files that a path or pattern stands for, links followed."""
    name = os.path.expanduser(pattern)
    return [os.path.realpath(found) for found in [name, *glob.glob(name, recursive=True)]]


def _check_output(what: str, place: str) -> None:
    folder = os.path.dirname(place)
    if not os.path.isdir(folder):
        raise ParameterError(f"{what}: there is no folder {folder}; make it first")
    if os.path.lexists(place) and not os.path.isfile(place):
        raise ParameterError(f"{what} exists and is no regular file; choose another name")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(f"{what}: no right to write in the folder {folder}; choose another")


def check_room(path: str, n_bytes: int, smaller: str = " or lower --components") -> None:
    """Refuse a file that its disk has no room for; `smaller` tells how to need less."""
    free = shutil.disk_usage(os.path.dirname(os.path.realpath(path))).free
    if free < n_bytes:
        raise StorageError(
            f"{path} will need {shown_bytes(n_bytes)} and its disk has {shown_bytes(free)} free; "
            f"make room or choose another folder{smaller}"
        )


def check_memory(what: str, n_bytes: float, memory_limit: str | None) -> None:
    """Refuse work that needs more memory than there is."""
    limit = parse_bytes(memory_limit)
    if n_bytes > limit:
        raise MemoryBudgetError(
            f"{what} takes about {shown_bytes(n_bytes)}, above the memory limit of "
            f"{shown_bytes(limit)}; free memory or raise --memory-limit"
        )


def shown_bytes(n_bytes: float) -> str:
    """Give a size in words.

    Examples
    --------
    >>> shown_bytes(900), shown_bytes(2_500_000)
    ('900 bytes', '2.4 MiB')
    """
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.0f} bytes" if unit == "bytes" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.1f} TiB"


def _identity(path: str) -> tuple[int, int] | None:
    """Give what changes when a file is replaced."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def read_seconds(text: str, option: str) -> float:
    """Read a time.

    Examples
    --------
    >>> read_seconds("300s", "--every"), read_seconds("1.5 h", "--every"), read_seconds("0", "")
    (300.0, 5400.0, 0.0)
    """
    match = re.fullmatch(r"(\d+\.?\d*) *([a-z]*)", text.strip())
    if not match or match[2] not in SECONDS:
        raise wrong(option, f"{text!r} is no time such as 300s, 5m or 1h")
    return float(match[1]) * SECONDS[match[2]]


def read_rows(text: str | None, option: str) -> tuple[int, int | None] | None:
    """Read a range of rows.

    Examples
    --------
    >>> read_rows("100:200", "--rows"), read_rows("5000:", "--rows"), read_rows(None, "--rows")
    ((100, 200), (5000, None), None)
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d*):(\d*)", text.strip())
    if not match:
        raise wrong(option, f"{text!r} is no range of rows such as 0:15000 or 15000:")
    return int(match[1] or 0), int(match[2]) if match[2] else None


def read_penalty(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        alpha = float(text)
    except ValueError:
        raise wrong("--alpha", f"{text!r} is neither auto nor a number") from None
    check_alpha(alpha)  # now, not after the pass
    return alpha


def read_codes(word: str | None, regression: bool, **settings: Any) -> BaseEstimator | None:
    if word is None and not any(settings.values()):
        return None
    if regression:
        given = {"codes": word, **settings}
        options = [option_of(name) for name, value in given.items() if value is not None]
        raise wrong(
            ", ".join(options), "target codes are for classes; leave them out with --regression"
        )
    word = word or "one-vs-rest"
    kind = pick(CODES, word, "--codes")
    if settings["decode"] is not None:
        pick_word(kind.decodings, settings["decode"], "--decode")
    return made(kind, f"--codes {word}", settings)


def made(make: Callable[..., T], words: str, settings: dict[str, Any]) -> T:
    """Construct with the settings that were given; wrong usage where they are not its own."""
    given = {name: value for name, value in settings.items() if value is not None}
    takes = inspect.signature(make).parameters
    for name in given:
        if name not in takes:
            raise wrong(option_of(name), f"is no setting of {words}; leave it out")
    for name, parameter in takes.items():
        if parameter.default is parameter.empty and name not in given:
            raise wrong(option_of(name), f"{words} needs {option_of(name)}")
    return make(**given)


def option_of(name: str) -> str:
    """Give the option that sets an argument."""
    return "--" + name.removeprefix("n_").replace("_", "-")
