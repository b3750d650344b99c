"""`streamrf evaluate`: the errors of a model on rows with targets."""

import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np

from streamrf.cli.base import Answer, aligned, warn_skipped
from streamrf.cli.groups import (
    ClusterOptions,
    Data,
    ModelFile,
    PassRows,
    Threads,
)
from streamrf.cli.options import parameter
from streamrf.cli.progress import working
from streamrf.display import format_time
from streamrf.models import load_model
from streamrf.report import facts

MAX_CONFUSIONS = 3  # shown to a person; --json has the whole matrix
MAX_TARGETS = 10


def evaluate(
    model: ModelFile,
    data: Data,
    rows: PassRows,
    *,
    return_std: Annotated[
        bool,
        parameter(
            "Count values within their intervals too; needs a model with --uncertainty.",
            "Run",
            "--return-std",
        ),
    ] = False,
    threads: Threads = None,
    cluster: ClusterOptions,
) -> Answer:
    """Report the errors of a model on files of rows with targets."""
    began = time.perf_counter()
    trained = load_model(model)
    source = rows.source(data, trained.encoder)
    start, stop = rows.window(source)
    with working(cluster, threads, stop - start) as (client, bar):
        bar.stage("evaluating")
        report = trained.evaluate(
            source,
            return_std=return_std,
            start=start,
            stop=stop,
            engine=client,
            on_bad_rows=rows.on_bad_rows,
            progress=bar.advance,
        )
    seconds = time.perf_counter() - began
    n_skipped = stop - start - report["n_rows"]
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
    if figures["n_rows_trained_on"]:
        seen = f"{figures['n_rows_trained_on']:,} of these rows were trained on"
        yield "warning", f"{seen}, so the figures are too good; give others"
    if "error" in figures:
        balanced = f"{100 * figures['balanced_error']:.2f} % balanced over the classes"
        yield "error", f"{100 * figures['error']:.2f} %, {balanced}"
        if figures["auc"] is not None:
            yield "AUC", f"{figures['auc']:.4f}"
        if figures["log_loss"] is not None:
            calibration = f"calibration error {100 * figures['calibration_error']:.2f} %"
            yield "log loss", f"{figures['log_loss']:.4f}, {calibration}"
        if figures["error"] > 0:
            yield "mostly", ", ".join(_confusions(figures))
    else:
        yield "RMSE", f"{figures['rmse']:.6g}"
        yield "MAE", f"{figures['mae']:.6g}"
        yield "R2", f"{figures['r2']:.4f}"
        yield from _by_target(figures.get("by_target", ()))
        if "coverage" in figures:
            shares = [f"{100 * share:.1f}" for share in figures["coverage"].values()]
            levels = [f"{100 * float(level):g}" for level in figures["coverage"]]
            yield "coverage", f"{', '.join(shares)} % by intervals of {', '.join(levels)} %"
    yield "time", f"{format_time(figures['seconds'])}, {figures['rows_per_second']:,.0f} rows/s"


def _by_target(figures: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the figures of each target, of many those that are explained least."""
    for name, one in facts.least_explained(figures, MAX_TARGETS):
        what = name if "target" in one else f"target {name}"
        yield f"  {what}", f"RMSE {one['rmse']:.6g}, MAE {one['mae']:.6g}, R2 {one['r2']:.4f}"
    if len(figures) > MAX_TARGETS:
        yield "  ...", f"of {len(figures):,} targets those of the least R2; all: --json"


def _confusions(figures: dict[str, Any]) -> Iterator[str]:
    """Return the most frequent mistakes in words."""
    wrong = np.array(figures["confusion_matrix"])
    np.fill_diagonal(wrong, 0)
    labels = figures["labels"]
    cells = np.argwhere(wrong)  # few of all where classes are thousands
    order = np.argsort(-wrong[tuple(cells.T)], kind="stable")
    for true, taken in cells[order[:MAX_CONFUSIONS]]:
        yield f"{labels[true]} taken for {labels[taken]} ({wrong[true, taken]:g})"
