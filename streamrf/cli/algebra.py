"""`streamrf stats`: statistics files added to, and taken from, each other."""

import os
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from streamrf.cli.base import Answer, aligned
from streamrf.cli.files import check_room, writing, written
from streamrf.cli.groups import MemoryLimit, StatisticsFile
from streamrf.cli.options import parameter, wrong
from streamrf.display import format_bytes, format_time
from streamrf.errors import DataError, MergeError
from streamrf.report import facts
from streamrf.statistics import Statistics, load_statistics
from streamrf.training import INTERPRETER_BYTES, check_memory

Output = Annotated[
    str, parameter("Statistics file to write.", "Output", "--output", "-o", metavar="OUT")
]


def merge(
    statistics: Annotated[
        list[str],
        typer.Argument(
            metavar="STATS", help="Statistics files of one map (fit --like).", show_default=False
        ),
    ],
    output: Output,
    memory_limit: MemoryLimit = None,
) -> Answer:
    """Add statistics files of different rows: the sums of one pass over all of them.

    Two of them are in memory at a time.
    """
    if len(statistics) < 2:
        raise wrong("STATS", "give two files or more")
    return _combined(statistics, 1, output, memory_limit)


def subtract(
    statistics: StatisticsFile,
    removed: Annotated[
        str,
        typer.Argument(
            metavar="REMOVED",
            help="Statistics file of some of the rows, of the same map.",
            show_default=False,
        ),
    ],
    output: Output,
    memory_limit: MemoryLimit = None,
) -> Answer:
    """Take rows out of a statistics file: the sums of a pass that never saw them."""
    return _combined([statistics, removed], -1, output, memory_limit)


def _combined(paths: list[str], sign: int, output: str, memory_limit: str | None) -> Answer:
    began = time.perf_counter()
    with writing({"--output": output}, paths, "statistics"):
        sizes = [os.path.getsize(path) for path in paths if os.path.isfile(path)]
        largest = max(sizes, default=0)
        check_memory(
            f"holding two statistics of {format_bytes(largest)} each",
            INTERPRETER_BYTES + 2 * largest,
            memory_limit,
        )
        check_room(output, largest, smaller="")
        first, *others = paths
        total = load_statistics(first)
        n_rows = [total.n_rows]
        for path in others:
            other = load_statistics(path)
            n_rows.append(other.n_rows)
            total = _joined(total, other, sign, path)
            del other  # before the next one is read
        total.save(output)
    figures = {
        "statistics": paths,
        "n_rows_each": n_rows,
        "n_rows": total.n_rows,
        "n_rows_skipped": total.n_skipped,
        "n_components": total.encoder.n_components,
        "labels": facts.of_targets(total.labels)["labels"],
        "output": output,
        "seconds": time.perf_counter() - began,
    }
    return Answer(figures, aligned(_summary(figures, sign)))


def _joined(total: Statistics, other: Statistics, sign: int, path: str) -> Statistics:
    """Add a file's sums to the total, or subtract them; an error names the file."""
    try:
        return total.absorb(other, sign)
    except (MergeError, DataError) as error:
        done = "added" if sign > 0 else "removed"
        raise type(error)(f"{path} cannot be {done}: {error}") from error


def _summary(figures: dict[str, Any], sign: int) -> Iterator[tuple[str, str]]:
    words = ["read"] + ["added" if sign > 0 else "removed"] * (len(figures["statistics"]) - 1)
    for word, path, n_rows in zip(
        words, figures["statistics"], figures["n_rows_each"], strict=True
    ):
        yield word, f"{n_rows:,} rows of {path}"
    yield "rows", f"{figures['n_rows']:,}"
    yield "features", f"{figures['n_components']:,}"
    if figures["labels"] is not None:
        yield "classes", f"{len(figures['labels']):,}"
    yield "time", format_time(figures["seconds"])
    yield "written", written(figures["output"])
