"""`streamrf evaluate`: the errors of a model on rows with targets."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamrf.cli.base import (
    ON_BAD_ROWS,
    Answer,
    Bar,
    Data,
    Json,
    ModelFile,
    OnBadRows,
    Scheduler,
    Threads,
    TlsCa,
    TlsCert,
    TlsKey,
    Weights,
    Workers,
    X,
    Y,
    aligned,
    pick_word,
    say,
)
from streamrf.engine import ClusterAddress, connected
from streamrf.jit.threads import computing
from streamrf.models import load_model
from streamrf.sources import HDF5Source

MOST_CONFUSIONS = 3  # told to a person; --json has the whole matrix


def evaluate(
    model: ModelFile,
    data: Data,
    x: X = "X",
    y: Y = "y",
    weights: Weights = None,
    on_bad_rows: OnBadRows = "raise",
    threads: Threads = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    as_json: Json = False,
) -> Answer:
    """Give the errors of a model on HDF5 files with targets."""
    pick_word(ON_BAD_ROWS, on_bad_rows, "--on-bad-rows")
    place = ClusterAddress(scheduler, workers, tls_ca, tls_cert, tls_key)
    began = time.perf_counter()
    trained = load_model(model)
    source = HDF5Source(data, x=x, y=y, weights=weights)
    with (
        connected(place, threads) as client,
        computing(threads),
        Bar(source.n_rows) as bar,
    ):
        bar.stage("evaluating")
        report = trained.evaluate(
            source, engine=client, on_bad_rows=on_bad_rows, progress=bar.advance
        )
    seconds = time.perf_counter() - began
    n_skipped = source.n_rows - report["n_rows"]
    if n_skipped:
        say(f"warning: {n_skipped:,} rows were left out, because they hold NaN or infinity")
    figures = report | {
        "n_rows_skipped": n_skipped,
        "model": model,
        "seconds": seconds,
        "rows_per_second": report["n_rows"] / seconds,
    }
    return Answer(figures, aligned(_story(figures, source.where)), as_json)


def _story(figures: dict[str, Any], where: str) -> Iterator[tuple[str, str]]:
    """Tell the figures to a person."""
    yield "rows", f"{figures['n_rows']:,} ({where})"
    if "error" in figures:
        yield "error", f"{100 * figures['error']:.2f} %"
        if figures["error"] > 0:
            yield "mostly", ", ".join(_confusions(figures))
    else:
        yield "RMSE", f"{figures['rmse']:.6g}"
        yield "MAE", f"{figures['mae']:.6g}"
        yield "R2", f"{figures['r2']:.4f}"
    yield "time", f"{figures['seconds']:.1f} s, {figures['rows_per_second']:,.0f} rows/s"


def _confusions(figures: dict[str, Any]) -> Iterator[str]:
    """Tell the most frequent mistakes."""
    wrong = np.array(figures["confusion_matrix"])
    np.fill_diagonal(wrong, 0)
    labels = figures["labels"]
    for place in np.argsort(-wrong, axis=None, kind="stable")[:MOST_CONFUSIONS]:
        true, taken = np.unravel_index(place, wrong.shape)
        if wrong[true, taken]:
            yield f"{labels[true]} taken for {labels[taken]} ({wrong[true, taken]:g})"
