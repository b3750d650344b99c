"""The command line: words to calls."""

import sys
from typing import Annotated

import typer

from streamrf.cli.base import Answer, Json, answering, app, main
from streamrf.cli.demonstration import demonstrate
from streamrf.cli.fitting import fit
from streamrf.cli.inspection import info
from streamrf.cli.prediction import predict
from streamrf.cli.scoring import evaluate

__all__ = ["app", "main"]


def demo(
    folder: Annotated[
        str | None,
        typer.Option(help="Where the files go; a new temporary folder by default."),
    ] = None,
    as_json: Json = False,
) -> Answer:
    """Train and evaluate on the digits that come with scikit-learn."""
    return demonstrate(folder, fit, evaluate, as_json)


for _command in (fit, evaluate, predict, info, demo):
    app.command()(answering(_command))


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
