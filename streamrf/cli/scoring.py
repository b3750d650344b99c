"""`streamrf evaluate`: the errors of a model on rows with targets."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from dask.utils import format_time

from streamrf.cli.base import Answer, aligned, warn_skipped
from streamrf.cli.groups import ClusterOptions, Data, ModelFile, Threads, WeightedRowOptions
from streamrf.cli.progress import working
from streamrf.models import load_model

MAX_CONFUSIONS = 3  # shown to a person; --json has the whole matrix


def evaluate(
    model: ModelFile,
    data: Data,
    rows: WeightedRowOptions,
    *,
    threads: Threads = None,
    cluster: ClusterOptions,
) -> Answer:
    """Report the errors of a model on files of rows with targets."""
    began = time.perf_counter()
    trained = load_model(model)
    source = rows.source(data, trained.encoder.table)
    with working(cluster, threads, source.n_rows) as (client, bar):
        bar.stage("evaluating")
        report = trained.evaluate(
            source, engine=client, on_bad_rows=rows.on_bad_rows, progress=bar.advance
        )
    seconds = time.perf_counter() - began
    n_skipped = source.n_rows - report["n_rows"]
    warn_skipped(n_skipped)
    figures = report | {
        "n_rows_skipped": n_skipped,
        "model": model,
        "seconds": seconds,
        "rows_per_second": report["n_rows"] / seconds,
    }
    return Answer(figures, aligned(_summary(figures, source.where)))


def _summary(figures: dict[str, Any], where: str) -> Iterator[tuple[str, str]]:
    yield "rows", f"{figures['n_rows']:,} ({where})"
    if "error" in figures:
        yield "error", f"{100 * figures['error']:.2f} %"
        if figures["error"] > 0:
            yield "mostly", ", ".join(_confusions(figures))
    else:
        yield "RMSE", f"{figures['rmse']:.6g}"
        yield "MAE", f"{figures['mae']:.6g}"
        yield "R2", f"{figures['r2']:.4f}"
    yield "time", f"{format_time(figures['seconds'])}, {figures['rows_per_second']:,.0f} rows/s"


def _confusions(figures: dict[str, Any]) -> Iterator[str]:
    """Return the most frequent mistakes in words."""
    wrong = np.array(figures["confusion_matrix"])
    np.fill_diagonal(wrong, 0)
    labels = figures["labels"]
    for index in np.argsort(-wrong, axis=None, kind="stable")[:MAX_CONFUSIONS]:
        true, taken = np.unravel_index(index, wrong.shape)
        if wrong[true, taken]:
            yield f"{labels[true]} taken for {labels[taken]} ({wrong[true, taken]:g})"
