"""`streamrf bench` and `streamrf warmup`: what this machine gives, and kernels ready before use."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from streamrf.cli.base import Answer, aligned
from streamrf.cli.groups import TargetRowOptions, Threads
from streamrf.cli.options import misused, option, wrong
from streamrf.display import format_bytes, format_time
from streamrf.sources import HDF5Source, SeekableSource, open_files
from streamrf.training import benchmark, warm_up

ROWS, COMPONENTS, PAIRS = 20_000, 4096, 5


MAPS = {
    "maclaurin": benchmark.maclaurin,
    "craft-maclaurin": benchmark.craft,
    "structured-fourier": benchmark.structured_fourier,
}


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What is measured."""

    test_x: str | None = option("Dataset of rows to report the error on.", "--test-x")
    test_y: str | None = option("Dataset of their labels.", "--test-y")
    map_: str = option(
        "Feature map, of default settings.",
        "--map",
        default="maclaurin",
        words=MAPS,
        show_default=True,
    )
    components: int = option("Width of the features.", default=COMPONENTS, min=1, show_default=True)
    rows: int | None = option(f"Rows of a pass; all there are, or {ROWS:,} made ones.", min=1)
    pairs: int = option(
        "Passes, each with a bare product after it.", default=PAIRS, min=1, show_default=True
    )


def bench(
    names: TargetRowOptions,
    options: BenchOptions,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA...",
            help="Files to read; without, made rows like those of images.",
            show_default=False,
        ),
    ] = None,
    threads: Threads = None,
) -> Answer:
    """Time passes over rows next to the bare product, the floor of what they cost."""
    if (options.test_x is None) != (options.test_y is None):
        raise misused("--test-x", "goes with --test-y; give both or none")
    with _sources(data, names, options) as (source, test):
        if options.rows is not None and options.rows > source.n_rows:
            raise wrong("--rows", f"{source.where} has {source.n_rows:,}")
        _check_width(options, source)
        found = benchmark.measure(
            source,
            MAPS[options.map_](options.components),
            test=test,
            n_pairs=options.pairs,
            rows=None if options.rows is None else (0, options.rows),
            n_threads=threads,
            normalize="l2",
        )
    figures = {"map": options.map_, **found, **benchmark.circumstances(), "made_rows": not data}
    if threads is not None:
        figures["threads"] = min(threads, figures["threads"])
    return Answer(figures, aligned(_summary(figures)))


def _check_width(options: BenchOptions, source: SeekableSource) -> None:
    """Refuse fewer features than the exact terms of a Maclaurin map take."""
    drawn = benchmark.UP_FACTOR if options.map_ == "craft-maclaurin" else 1
    least = -(-(source.n_features + 2) // drawn)
    if options.map_ != "structured-fourier" and options.components < least:
        raise wrong(
            "--components",
            f"{options.map_} takes at least {least:,} for rows of {source.n_features:,} values, "
            f"got {options.components:,}",
        )


@contextlib.contextmanager
def _sources(
    data: list[str] | None, names: TargetRowOptions, options: BenchOptions
) -> Iterator[tuple[SeekableSource, SeekableSource | None]]:
    """Return the rows to add up, and those to report the error on."""
    if data:
        test = None
        if options.test_x is not None:
            test = open_files(data, x=options.test_x, y=options.test_y, **names.trust())
        yield open_files(data, x=names.x, y=names.y or "y", **names.trust()), test
        return
    with tempfile.TemporaryDirectory(prefix="streamrf-bench-") as folder:
        path = os.path.join(folder, "rows.h5")
        benchmark.write_rows(path, ROWS if options.rows is None else options.rows)
        yield HDF5Source(path), HDF5Source(path, x="test/X", y="test/y")


def _summary(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "processor", f"{figures['processor']}, {figures['threads']} threads"
    width, n_features = figures["n_components"], figures["n_features"]
    yield "rows", f"{figures['n_rows']:,} of {n_features:,} values, {width:,} features"
    yield "pass", f"{_median(figures['pass_seconds'])}, {figures['rows_per_second']:,.0f} rows/s"
    yield "product", f"{_median(figures['ssfrk_seconds'])}, ssfrk alone"
    rates = (f"{name} {rate:,.0f}" for name, rate in figures["product_rates"].items())
    yield "rates", f"{'; '.join(rates)} GFLOP/s"
    low, high = min(figures["ratios"]), max(figures["ratios"])
    yield "ratio", f"{figures['ratio']:.2f} ({low:.2f} to {high:.2f})"
    for name, seconds in figures["seconds"].items():
        if name != "pass":
            yield f"  {name}", format_time(seconds) + "  (next to the rest)" * (name == "read")
    if "error" in figures:
        yield "error", f"{100 * figures['error']:.2f} %, with a fixed penalty"
    yield "memory", f"{format_bytes(figures['peak_bytes'])} at most"


def _median(seconds: list[float]) -> str:
    return format_time(sorted(seconds)[len(seconds) // 2])


def warmup() -> Answer:
    """Compile the kernels of fits and predictions now and keep them on disk for later runs."""
    from rich.console import Console  # not at the start of every command

    console = Console(stderr=True)
    began = time.perf_counter()
    with console.status("compiling") as status:
        folder = warm_up(lambda what: status.update(f"compiling: {what}"))
    seconds = time.perf_counter() - began
    n_bytes = sum(file.stat().st_size for file in folder.iterdir())
    figures = {"seconds": seconds, "cache": str(folder), "cache_bytes": n_bytes}
    summary = [
        ("time", format_time(seconds)),
        ("kernels", f"{folder}, {format_bytes(n_bytes)}; NUMBA_CACHE_DIR chooses another folder"),
    ]
    return Answer(figures, aligned(summary))
