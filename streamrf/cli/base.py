"""The program: commands, their answers, messages and exit statuses."""

import contextlib
import functools
import inspect
import io
import json
import logging
import math
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from streamrf.cli.help import MAX_SHOWN, Group, HelpAll
from streamrf.cli.options import flattened, option_of
from streamrf.display import printable
from streamrf.errors import (
    Interruption,
    StorageError,
    StreamrfError,
    StreamrfWarning,
    first_line,
)
from streamrf.storage import reason

LOADING = "_raw_object_cache_"  # beginning of the names of what LLVM calls in llvmlite
SOON = 0.05  # seconds

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,  # an unforeseen error keeps its plain traceback
)

Handler = Callable[[int, Any], Any]  # of a signal

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel="Output")
]

WRITERS = {"statistics": "streamrf fit --statistics", "a model": "streamrf fit or solve --model"}


def main() -> None:
    """Run the command line and exit with its status."""
    with _interrupted_by(_stop, signal.default_int_handler):
        _open_streams()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a file's name need not be text
        try:
            app(prog_name="streamrf")
        except OSError as error:  # of the help or the version; commands have their own
            _drop_output()
            say(_unprinted(error))
            sys.exit(1)


def _stop(number: int, frame: Any) -> NoReturn:
    """End at Ctrl-C before a command has begun or after its end, without a traceback."""
    with contextlib.suppress(OSError):
        os.write(2, b"streamrf: interrupted\n")  # not by print, which may be at work
    sys.exit(128 + number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but a moment later where LLVM asks for code that is being loaded.

    It has no way to pass an exception on: the code would be missing, and its use ends the process.
    """
    inner = frame
    while inner is not None:
        if inner.f_code.co_name.startswith(LOADING):
            again = threading.Timer(SOON, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        inner = inner.f_back
    signal.default_int_handler(number, frame)


@contextlib.contextmanager
def _interrupted_by(handler: Handler, before: Handler) -> Iterator[None]:
    """Let Ctrl-C call `handler`, unless it calls something else than `before` now."""
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not before:
        yield
        return
    try:
        signal.signal(signal.SIGINT, handler)
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _open_streams() -> None:
    """Open standard streams that were closed, or a data file would take their numbers.

    What is written to standard output then fails, as it does where it is full; messages are lost.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, flags)
            os.dup2(nowhere, number)
            if nowhere != number:
                os.close(nowhere)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


@dataclass(frozen=True)
class Answer:
    """What a command has found.

    Parameters
    ----------
    figures : what `--json` prints
    lines : what a person reads
    is_data : whether the lines are rows for another program, printed as they are
    """

    figures: dict[str, Any]
    lines: list[str]
    is_data: bool = False


def answering(command: Callable[..., Answer]) -> Callable[..., None]:
    """Return the command as Typer takes it: it prints its answer, and an error as one line."""
    command = flattened(command)

    @functools.wraps(command)
    def answered(as_json: bool, help_all: bool = False, **given: Any) -> None:
        try:
            with _interrupted_by(_interrupt, _stop), _log_shown():
                _print(command(**given), as_json)
        except StreamrfError as error:
            _end(1, advice_for(signature.parameters, str(error)))
        except Interruption as stop:
            _end(128 + stop.number, str(stop))
        except KeyboardInterrupt as interrupt:
            _end(130, str(interrupt) or "interrupted; nothing was written")
        except ImportError as error:
            if not isinstance(error.__cause__, KeyboardInterrupt):
                raise
            _end(130, "interrupted")  # while a compiled module was imported
        except MemoryError as error:
            _end(1, f"out of memory: {str(error) or 'none is left'}; free some, or ask for less")
        except OSError as error:
            _end(1, _failure(error))
        except Exception as error:  # what unpickling raises may be of any kind
            if not _is_of_numba(error, "caching.py"):
                raise
            _end(1, _damaged_cache(error))

    signature = inspect.signature(command)
    own = {"as_json": Json}
    if len(signature.parameters) > MAX_SHOWN:
        own["help_all"] = HelpAll
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in own.items()
    ]
    answered.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *more], return_annotation=None
    )
    return answered


def advice_for(parameters: Iterable[str], message: str) -> str:
    """Return a message in words of the command line.

    Advice, ", or do this (--option)", on options that are not there is left out, and that on
    functions of the library, with what writes a file of the kind wanted in its place; a setting
    that the message begins with goes by its option.

    Examples
    --------
    >>> text = "row 3 is bad; mend it, or leave it out (--on-bad-rows skip)"
    >>> advice_for(["on_bad_rows"], text) == text, advice_for(["output"], text)
    (True, 'row 3 is bad; mend it')
    >>> advice_for(["gamma"], "gamma must be positive, got 0.0")
    '--gamma must be positive, got 0.0'
    """
    known = set(map(option_of, parameters))
    setting = re.match(r"([a-z_]+)(?= must be )", message)
    if setting and (option := option_of(setting[1])) in known:
        message = option + message[setting.end() :]
    wanted = re.search(r", not (statistics|a model); load it with", message)
    instead = f"; give the file of {WRITERS[wanted[1]]}" if wanted else ""
    message = re.sub(r"; load it with streamrf\.\w+$", instead, message)

    def kept(advice: re.Match[str]) -> str:
        return advice[0] if advice[1] in known else ""

    return re.sub(r", or [^;:()]*\((--[a-z-]+)[^)]*\)", kept, message)


def say(message: str) -> None:
    """Print one line on standard error, above a progress bar that is there, which replaces it."""
    with contextlib.suppress(OSError):  # nobody reads it, or its disk is full: the work goes on
        print(f"streamrf: {printable(' '.join(message.splitlines()))}", file=sys.stderr)


def warn_skipped(n_rows: int) -> None:
    """Print how many rows were left out, if any."""
    if n_rows:
        say(
            f"warning: {n_rows:,} rows were left out: they hold NaN, infinity, values beyond 1e150 "
            "or negative weights"
        )


@contextlib.contextmanager
def _log_shown() -> Iterator[None]:
    """Print what the library logs and warns of."""
    handler = _LogHandler()
    logger = logging.getLogger("streamrf")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, StreamrfWarning):
            say(f"warning: {message}")
        else:
            shown(message, category, *where, **more)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", StreamrfWarning)
            shown, warnings.showwarning = warnings.showwarning, show
            yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


class _LogHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warning = "warning: " if record.levelno >= logging.WARNING else ""
        say(warning + record.getMessage())


def _end(status: int, message: str) -> NoReturn:
    say(message)
    raise typer.Exit(status)


def _failure(error: OSError) -> str:
    """Return what the system could not do, in words; it names no file where a folder is gone."""
    if error.filename:
        return f"{error.filename}: {reason(error)}"
    if _is_of_numba(error):
        return (
            f"compiled loops could not be kept on disk: {reason(error)}; free about 50 MiB, or "
            "set NUMBA_CACHE_DIR to a folder that has as much"
        )
    try:
        os.getcwd()
    except FileNotFoundError:
        return "the folder that this runs in has been deleted; change to another"
    return f"a file could not be read or written: {reason(error)}"


def _is_of_numba(error: BaseException, module: str = "") -> bool:
    """Return whether an error came through Numba, or one of its modules."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = f"{os.sep}numba{os.sep}"
    return any(inside in frame.filename and frame.filename.endswith(module) for frame in frames)


def _damaged_cache(error: Exception) -> str:
    """Return what to do about files of compiled loops that a crash of the machine has torn."""
    folder = sys.modules["streamrf.jit.lanes"].load.stats.cache_path  # which Numba came from
    return (
        f"the compiled loops on disk are damaged ({first_line(error)}): delete the folder "
        f"{folder}, or set NUMBA_CACHE_DIR to another"
    )


def _print(answer: Answer, as_json: bool) -> None:
    """Print an answer, whole or not at all."""
    if as_json:
        text = json.dumps(_finite(answer.figures), allow_nan=False)
    else:
        text = "\n".join(answer.lines if answer.is_data else map(printable, answer.lines))
    if answer.is_data and not as_json and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as files are, and standard input, anywhere
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader has left, as `head` does; the work itself is done
        _drop_output()
    except OSError as error:
        _drop_output()
        raise StorageError(_unprinted(error)) from error


def _unprinted(error: OSError) -> str:
    return f"cannot write to standard output: {reason(error)}"


def _drop_output() -> None:
    """Send what standard output still holds nowhere, or Python fails once more at its exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _finite(value: Any) -> Any:
    """Return the value with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def aligned(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return lines of two columns."""
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    return [f"{name:<{width}}  {text}".rstrip() for name, text in rows]
