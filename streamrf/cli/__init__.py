"""The command line: words to calls."""
# ruff: noqa: E402

import gc
import signal
import threading

gc.disable()  # looking through what the imports make, which stays, would take a tenth of the start
_interrupting = signal.getsignal(signal.SIGINT)
_is_interruptible = (
    threading.current_thread() is threading.main_thread()
    and _interrupting is signal.default_int_handler
)
if _is_interruptible:  # Ctrl-C ends the imports, which take a second, without their traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from streamrf.cli.surroundings import check_surroundings

check_surroundings()

import sys
from typing import Annotated

import typer

from streamrf.cli.algebra import merge, subtract
from streamrf.cli.base import answering, app, main
from streamrf.cli.benching import bench, warmup
from streamrf.cli.demonstration import demo
from streamrf.cli.fitting import fit
from streamrf.cli.help import Command, Group
from streamrf.cli.inspection import info, statistics_info
from streamrf.cli.measuring import measure
from streamrf.cli.prediction import predict
from streamrf.cli.reporting import report
from streamrf.cli.scoring import evaluate
from streamrf.cli.selecting import choose
from streamrf.cli.solving import solve

if _is_interruptible:
    signal.signal(signal.SIGINT, _interrupting)
gc.freeze()
gc.enable()

__all__ = ["app", "main"]


for _command in (fit, evaluate, predict, info, solve, report, demo, bench, warmup):
    app.command(cls=Command)(answering(_command))

app.command("select", cls=Command)(answering(choose))
app.command("moments", cls=Command)(answering(measure))

_stats = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Add statistics files, subtract them, look inside.",
)
_stats.command("merge", cls=Command)(answering(merge))
_stats.command("subtract", cls=Command)(answering(subtract))
_stats.command("info", cls=Command)(answering(statistics_info))
app.add_typer(_stats, name="stats")


def _print_version(asked: bool) -> None:
    if asked:
        # The package's __init__ lies above this floor, but it is loaded by now.
        print(f"streamrf {sys.modules['streamrf'].__version__}")
        raise typer.Exit


@app.callback()
def _streamrf(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Train kernel machines on data larger than memory, in one exact pass."""
