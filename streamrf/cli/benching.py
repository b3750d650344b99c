"""`streamrf bench` and `streamrf warmup`: what this machine gives, and kernels ready before use."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console

from streamrf.cli.base import Answer, Json, Threads, aligned, pick, shown_bytes, wrong
from streamrf.features import Craft, FeatureMap, RandomMaclaurin, StructuredFourier
from streamrf.kernels import Gaussian, Polynomial
from streamrf.sources import HDF5Source
from streamrf.training import benchmark, warm_up

ROWS, COMPONENTS, UP_FACTOR, PAIRS = 20_000, 4096, 8, 5


def _maclaurin(n_components: int) -> FeatureMap:
    return RandomMaclaurin(Polynomial(degree=7, coef0=1.0), n_components, h01=True)


def _craft(n_components: int) -> FeatureMap:
    return Craft(_maclaurin(UP_FACTOR * n_components), n_components)


def _fourier(n_components: int) -> FeatureMap:
    return StructuredFourier(Gaussian(gamma="median"), n_components)


MAPS = {"maclaurin": _maclaurin, "craft-maclaurin": _craft, "structured-fourier": _fourier}


def bench(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA...",
            help="HDF5 files to read; without, made rows like those of images.",
            show_default=False,
        ),
    ] = None,
    x: Annotated[str, typer.Option("--x", help="Dataset of rows.")] = "X",
    y: Annotated[str, typer.Option("--y", help="Dataset of labels.")] = "y",
    test_x: Annotated[
        str | None,
        typer.Option("--test-x", help="Dataset of rows to tell the error on.", show_default=False),
    ] = None,
    test_y: Annotated[
        str | None, typer.Option("--test-y", help="Dataset of their labels.", show_default=False)
    ] = None,
    map_: Annotated[
        str, typer.Option("--map", metavar="|".join(MAPS), help="Feature map, of usual settings.")
    ] = "maclaurin",
    components: Annotated[
        int, typer.Option(min=1, help="Width of the features.", show_default=True)
    ] = COMPONENTS,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help=f"Rows of a pass; all there are, or {ROWS:,} made ones."),
    ] = None,
    pairs: Annotated[
        int, typer.Option(min=1, help="Passes, each with a bare product after it.")
    ] = PAIRS,
    threads: Threads = None,
    as_json: Json = False,
) -> Answer:
    """Time passes over rows beside the bare product, the floor of what they cost."""
    features = pick(MAPS, map_, "--map")(components)
    if (test_x is None) != (test_y is None):
        raise wrong("--test-x", "goes with --test-y; give both or none")
    with _rows(data, (x, y), (test_x, test_y), rows) as (source, test):
        window = None if rows is None else (0, rows)
        if rows is not None and rows > source.n_rows:
            raise wrong("--rows", f"{source.where} has {source.n_rows:,}")
        found = benchmark.measure(
            source,
            features,
            test=test,
            n_pairs=pairs,
            rows=window,
            n_threads=threads,
            normalize="l2",
        )
    figures = {"map": map_, **found, **benchmark.circumstances(), "made_rows": not data}
    if threads is not None:
        figures["threads"] = min(threads, figures["threads"])
    return Answer(figures, aligned(_story(figures)), as_json)


@contextlib.contextmanager
def _rows(
    data: list[str] | None,
    names: tuple[str, str],
    test_names: tuple[str | None, str | None],
    rows: int | None,
) -> Iterator[tuple[HDF5Source, HDF5Source | None]]:
    """Give the rows to add up, and those to tell the error on."""
    if data:
        test_x, test_y = test_names
        test = None if test_x is None else HDF5Source(data, x=test_x, y=test_y)
        yield HDF5Source(data, x=names[0], y=names[1]), test
        return
    with tempfile.TemporaryDirectory(prefix="streamrf-bench-") as folder:
        path = os.path.join(folder, "rows.h5")
        benchmark.write_rows(path, ROWS if rows is None else rows)
        yield HDF5Source(path), HDF5Source(path, x="test/X", y="test/y")


def _story(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "processor", f"{figures['processor']}, {figures['threads']} threads"
    width, n_features = figures["n_components"], figures["n_features"]
    yield "rows", f"{figures['n_rows']:,} of {n_features:,} values, {width:,} features"
    yield "pass", f"{_median(figures['pass_seconds'])}, {figures['rows_per_second']:,.0f} rows/s"
    yield "product", f"{_median(figures['ssfrk_seconds'])}, ssfrk alone"
    low, high = min(figures["ratios"]), max(figures["ratios"])
    yield "ratio", f"{figures['ratio']:.2f} ({low:.2f} to {high:.2f})"
    for name, seconds in figures["seconds"].items():
        if name != "pass":
            yield f"  {name}", f"{seconds:.2f} s" + ("  (beside the rest)" * (name == "read"))
    if "error" in figures:
        yield "error", f"{100 * figures['error']:.2f} %, with a fixed penalty"
    yield "memory", f"{shown_bytes(figures['peak_bytes'])} at most"


def _median(seconds: list[float]) -> str:
    return f"{sorted(seconds)[len(seconds) // 2]:.2f} s"


def warmup(as_json: Json = False) -> Answer:
    """Compile all kernels now and keep them on disk, so that no later run has to."""
    console = Console(stderr=True)
    began = time.perf_counter()
    with console.status("compiling") as status:
        place = warm_up(lambda what: status.update(f"compiling: {what}"))
    seconds = time.perf_counter() - began
    n_bytes = sum(file.stat().st_size for file in place.iterdir())
    figures = {"seconds": seconds, "cache": str(place), "cache_bytes": n_bytes}
    story = [
        ("time", f"{seconds:.1f} s"),
        ("kernels", f"{place}, {shown_bytes(n_bytes)}; NUMBA_CACHE_DIR chooses another folder"),
    ]
    return Answer(figures, aligned(story), as_json)
