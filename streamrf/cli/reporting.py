"""`streamrf report`: one page about a model, its statistics, or both."""

import os
import time
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from streamrf import report as reports
from streamrf import storage
from streamrf.cli.base import Answer, aligned, warn_skipped
from streamrf.cli.files import writing, written
from streamrf.cli.groups import Threads, WeightedRowOptions
from streamrf.cli.options import misused, option, wrong
from streamrf.display import format_time, showing
from streamrf.jit.threads import computing
from streamrf.models import load_model
from streamrf.sources import check_each_once
from streamrf.statistics import load_statistics

PAGE_ENDINGS = (".html", ".htm")
LOADERS = {"model": load_model, "statistics": load_statistics}


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Rows to evaluate on."""

    panel: ClassVar = "Data"
    data: list[str] | None = option(
        "File of rows not trained on, or quoted pattern; may be given again."
    )


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
    data: DataOptions,
    rows: WeightedRowOptions,
    threads: Threads = None,
) -> Answer:
    """Write a page on a model or statistics: errors, penalties, spectrum, widths, rows."""
    began = time.perf_counter()
    if rows.given and not data.data:
        raise misused(rows.given[0], "is for rows to evaluate on; give --data, or leave it out")
    inputs = [*files, *(data.data or [])]
    with writing({"--output": output}, inputs, start=b"<!doctype html>") as check:
        reports.check_drawing()
        given = _load(files)
        encoder = next((item.encoder for item in given.values()), None)
        source = rows.source(data.data, encoder) if data.data else None
        if source is not None:
            check(source)
            check_each_once(source)
        ending = os.path.splitext(output)[1].lower()
        if ending not in ("", *PAGE_ENDINGS):
            raise wrong("--output", f"{output} ends in {ending}; a report is HTML: name it .html")
        with computing(threads), showing(None if source is None else source.n_rows) as bar:
            figures = reports.write(
                output,
                **given,
                data=source,
                names=[os.path.basename(file) for file in files],
                stage=bar.stage,
                on_bad_rows=rows.on_bad_rows,
                progress=bar.advance,
            )
    if source is not None and figures["error"] is not None:
        warn_skipped(source.n_rows - figures["error"]["n_rows"])
    figures |= {
        "output": output,
        "bytes": os.path.getsize(output),
        "parts": figures["seconds"],
        "seconds": time.perf_counter() - began,
    }
    summary = [("written", written(output)), ("time", format_time(figures["seconds"]))]
    return Answer(figures, aligned(summary))


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
