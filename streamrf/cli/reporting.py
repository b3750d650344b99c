"""`streamrf report`: one page about a model, its statistics, or both."""

import os
import time
from typing import Annotated, Any

import typer

from streamrf import report as reports
from streamrf import storage
from streamrf.cli.base import (
    ON_BAD_ROWS,
    Answer,
    Bar,
    Json,
    OnBadRows,
    Threads,
    Weights,
    X,
    Y,
    aligned,
    pick_word,
    say,
    shown_bytes,
    writing,
    wrong,
)
from streamrf.jit.threads import computing
from streamrf.models import load_model
from streamrf.sources import HDF5Source
from streamrf.statistics import load_statistics

LOADERS = {"model": load_model, "statistics": load_statistics}


def report(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL|STATS...",
            help="Model file, statistics file, or both of one fit.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="HTML", help="Page to write.", rich_help_panel="Output"
        ),
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="HDF5 file, or quoted pattern, of rows not trained on; may be given again.",
            rich_help_panel="Data",
        ),
    ] = None,
    x: X = "X",
    y: Y = "y",
    weights: Weights = None,
    on_bad_rows: OnBadRows = "raise",
    threads: Threads = None,
    as_json: Json = False,
) -> Answer:
    """Write a page on a model or statistics: errors, penalties, spectrum, widths, rows."""
    pick_word(ON_BAD_ROWS, on_bad_rows, "--on-bad-rows")
    began = time.perf_counter()
    with writing({"--output": output}, [*files, *(data or [])]):
        reports.check_drawing()
        given = _load(files)
        source = HDF5Source(data, x=x, y=y, weights=weights) if data else None
        with computing(threads), Bar(None if source is None else source.n_rows) as bar:
            figures = reports.write(
                output,
                **given,
                data=source,
                title=" and ".join(os.path.basename(file) for file in files),
                stage=bar.stage,
                on_bad_rows=on_bad_rows,
                progress=bar.advance,
            )
    if source is not None and figures["error"] is not None:
        n_skipped = source.n_rows - figures["error"]["n_rows"]
        if n_skipped:
            say(f"warning: {n_skipped:,} rows were left out, because they hold NaN or infinity")
    figures |= {
        "output": output,
        "bytes": os.path.getsize(output),
        "parts": figures["seconds"],
        "seconds": time.perf_counter() - began,
    }
    story = [
        ("written", f"{output}, {shown_bytes(figures['bytes'])}"),
        ("time", f"{figures['seconds']:.1f} s"),
    ]
    return Answer(figures, aligned(story), as_json)


def _load(files: list[str]) -> dict[str, Any]:
    """Load at most one file of each kind."""
    given: dict[str, Any] = {}
    for file in files:
        kind = storage.read_kind(file)
        if kind in given:
            raise wrong("MODEL|STATS", f"{file} is a second file of {kind}; give one of each")
        # A file of another kind, such as a checkpoint, is refused by the loader.
        given[kind if kind in LOADERS else "model"] = LOADERS.get(kind, load_model)(file)
    return given
