"""`streamrf fit`: one pass over HDF5 files."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import typer
from dask.utils import format_time
from sklearn.base import BaseEstimator

from streamrf import engine
from streamrf.cli.base import Answer, aligned, log_shown, say, warn_skipped
from streamrf.cli.files import check_room, writing
from streamrf.cli.groups import (
    ClusterOptions,
    CodeOptions,
    Data,
    MemoryLimit,
    ModelOutput,
    Seed,
    Threads,
    WeightedRowOptions,
    read_penalty,
    read_rows,
    read_seconds,
)
from streamrf.cli.maps import FeatureOptions
from streamrf.cli.options import option, wrong
from streamrf.cli.progress import Bar, working
from streamrf.errors import ClusterError, StreamrfError
from streamrf.models import Model
from streamrf.report import facts
from streamrf.sources import HDF5Source
from streamrf.statistics import TOTALS, Statistics, packed_size
from streamrf.timing import peak_bytes
from streamrf.training import Outlook, Pass, begin, run

Regression = Annotated[
    bool,
    typer.Option(
        "--regression",
        help="Targets are values, not classes.",
        rich_help_panel="Targets",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class PassRows(WeightedRowOptions):
    """The rows of a pass."""

    rows: tuple[int, int | None] | None = option(
        "Only these rows, counted from 0; all by default.", metavar="START:STOP", read=read_rows
    )

    def n_rows(self, source: HDF5Source) -> int:
        """Return the number of rows to read."""
        start, stop = self.rows or (0, None)
        stop = source.n_rows if stop is None else min(stop, source.n_rows)
        return max(0, stop - start)


@dataclass(frozen=True, kw_only=True)
class SumOptions:
    """How rows are summed, and sums are solved."""

    panel: ClassVar = "Targets"
    prune: int | None = option(
        "Features that the model keeps, the most useful after the pass; all.", metavar="N"
    )
    alpha: float | str = option(
        "Ridge penalty; auto: best on rows held out of the pass.",
        default="auto",
        metavar="auto|NUMBER",
        read=read_penalty,
    )
    folds: int | None = option(
        "Folds to keep the sums in, so that solve can cross-validate; none. Each takes as much "
        "memory as the sums.",
        metavar="K",
    )
    totals: str | None = option(
        "Numbers of the sums; float64. int32: half the memory, up to about two million rows.",
        words=TOTALS,
    )


@dataclass(frozen=True, kw_only=True)
class PassOptions:
    """How the pass runs."""

    panel: ClassVar = "Run"
    checkpoint: str | None = option(
        "File that keeps the state of the pass: the same command goes on from it after a kill, an "
        "interruption, or when the data have grown.",
        metavar="FILE",
    )
    checkpoint_every: float = option(
        "Time between two writings of it, longer where they would take over 2 % of the time; "
        "300s. 0: after every block.",
        default="300s",
        metavar="TIME",
        read=read_seconds,
    )
    memory_limit: MemoryLimit = None
    threads: Threads = None
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class ShardOptions(ClusterOptions):
    """The cluster, and how rows are shared out."""

    parts: int | None = option("Shards of rows, one task each; what suits.", min=1)
    spill: str | None = option(
        "Folder that the workers share: finished shards are kept there, and the same command goes "
        "on from them if the scheduler was lost.",
        metavar="FOLDER",
    )


@dataclass(frozen=True, kw_only=True)
class FitOutput:
    """Files to write."""

    panel: ClassVar = "Output"
    model: ModelOutput = None
    statistics: str | None = option("Statistics file to write.", metavar="OUT")


def fit(
    data: Data,
    rows: PassRows,
    features: FeatureOptions,
    *,
    regression: Regression = False,
    codes: CodeOptions,
    sums: SumOptions,
    options: PassOptions,
    cluster: ShardOptions,
    output: FitOutput,
) -> Answer:
    """Train on HDF5 files in one pass; write a model, its statistics, or both."""
    _check(sums, cluster, output)
    target_codes = codes.made(regression)
    settings = features.settings() | {
        "codes": target_codes,
        "regression": regression,
        "folds": sums.folds,
        "totals": sums.totals,
        "hold_out": output.model is not None and sums.alpha == "auto",
        "random_state": options.seed,
    }
    began = time.perf_counter()
    inputs = data if features.like is None else [*data, features.like]
    outputs = {
        "--model": output.model,
        "--statistics": output.statistics,
        "--checkpoint": options.checkpoint,
    }
    with writing(outputs, inputs), log_shown():
        source = rows.source(data)
        settings["like"] = features.earlier(regression)
        with working(cluster, options.threads, rows.n_rows(source)) as (client, bar):
            pass_, figures = _train(
                source, settings, rows, sums, options, cluster, output, client, bar
            )
            bar.stage("solving")
            trained, summed = _finish(pass_, sums, target_codes, options.seed, output)
            figures["cluster"] = _cluster_figures(figures.pop("outlook"), client)
    _warn(summed)
    n_read = summed.n_rows + summed.n_skipped - figures["n_rows_resumed"]
    figures = _figures(trained, summed) | {
        **figures,
        "model": output.model,
        "statistics": output.statistics,
        "checkpoint": options.checkpoint,
        "seconds": time.perf_counter() - began,
        "rows_per_second": n_read / figures["pass_seconds"],
        "peak_memory_bytes": peak_bytes(),
    }
    return Answer(figures, aligned(_summary(figures, source.where, summed)))


def _check(sums: SumOptions, cluster: ShardOptions, output: FitOutput) -> None:
    """Raise the error of wrong usage if options do not go together."""
    if output.model is None and output.statistics is None:
        raise wrong("--model", "give --model, --statistics or both, or the pass is for nothing")
    if output.model is None and sums.prune is not None:
        raise wrong("--prune", "is for a model; give --model, or --components to solve")
    for name, value in (("--parts", cluster.parts), ("--spill", cluster.spill)):
        if value is not None and cluster.address().is_here:
            raise wrong(name, "is for a cluster; give --scheduler or --workers, or leave it out")


def _train(
    source: HDF5Source,
    settings: dict[str, Any],
    rows: PassRows,
    sums: SumOptions,
    options: PassOptions,
    cluster: ShardOptions,
    output: FitOutput,
    client: Any,
    bar: Bar,
) -> tuple[Pass, dict[str, Any]]:
    """Run the pass; return it and figures of it."""
    outlooks: list[Outlook] = []
    bar.stage("calibrating")
    pass_ = begin(
        source,
        rows=rows.rows,
        on_bad_rows=rows.on_bad_rows,
        checkpoint=options.checkpoint,
        checkpoint_every=options.checkpoint_every,
        spill=cluster.spill,
        memory_limit=options.memory_limit,
        **settings,
    )
    for path in (output.statistics, options.checkpoint):
        if path is not None:
            check_room(path, _gram_bytes(pass_.statistics))
    n_resumed = 0 if pass_.keeper is None else pass_.keeper.n_resumed
    bar.advance(n_resumed)
    bar.stage("reading")
    began = time.perf_counter()
    run(
        source,
        pass_,
        codes=settings["codes"],
        rows=rows.rows,
        on_bad_rows=rows.on_bad_rows,
        prune=sums.prune,
        memory_limit=options.memory_limit,
        n_threads=options.threads,
        progress=bar.advance,
        engine=client,
        parts=cluster.parts,
        spill=cluster.spill,
        outlook=outlooks.append,
    )
    return pass_, {
        "n_rows_held_out": 0 if pass_.holdout is None else pass_.holdout.n_rows,
        "n_rows_resumed": n_resumed,
        "pass_seconds": time.perf_counter() - began,
        "outlook": next(iter(outlooks), None),
    }


def _cluster_figures(outlook: Outlook | None, client: Any) -> dict[str, Any] | None:
    """Return what the workers were to hold and have held; None without a cluster."""
    if outlook is None:
        return None
    workers = outlook.workers.values()
    peaks = []
    with contextlib.suppress(ClusterError):  # what was asked for is written by now
        peaks = [worker.peak_bytes for worker in engine.workers(client).values()]
    return {
        "workers": len(workers),
        "threads": sum(worker.n_threads for worker in workers),
        "shards": len(outlook.shards),
        "worker_memory_bytes_planned": outlook.worker_bytes,
        "worker_memory_bytes_peak": max(peaks, default=None),
    }


def _gram_bytes(statistics: Statistics) -> int:
    """Return what the Grams take in a file, which is nearly all of it."""
    number_bytes = np.dtype(statistics.sums.gram_class.dtype).itemsize
    size = number_bytes * packed_size(statistics.encoder.n_components)
    return size * max(1, statistics.n_folds)


def _finish(
    pass_: Pass, options: SumOptions, codes: BaseEstimator | None, seed: int, output: FitOutput
) -> tuple[Model | None, Statistics]:
    """Solve where a model is wanted, and write; the sums are kept even if there is no solution."""
    alpha, prune = options.alpha, options.prune
    if alpha != "auto" or output.model is None:
        sums = pass_.join()
        if output.statistics is not None:
            sums.save(output.statistics)
        if output.model is None:
            return None, sums
        kept = sums if prune is None else sums.prune(prune, float(alpha), codes, random_state=seed)
        # in place of a Gram that nobody asks for again; what holds sums in folds has none to give
        trained = kept.solve(alpha, codes, overwrite=not sums.n_folds, random_state=seed)
        trained.save(output.model)
        return trained, sums
    try:
        trained, sums = pass_.finish(alpha, codes, seed, prune=prune)
    except StreamrfError:
        if output.statistics is not None:
            pass_.join().save(output.statistics)
        raise
    trained.save(output.model)
    if output.statistics is not None:
        sums.save(output.statistics)
    return trained, sums


def _warn(sums: Statistics) -> None:
    """Print what was left out or clipped on the way, and what that means."""
    warn_skipped(sums.n_skipped)
    if sums.n_clipped:
        share = 100 * sums.n_clipped / (sums.n_rows * sums.encoder.n_components)
        say(
            f"warning: {sums.n_clipped:,} entries of features ({share:.2g} %) were clipped: some "
            "rows are unlike the rows looked at before the pass; scale the rows (--normalize), "
            "shuffle the file, or calibrate on a fair sample and give its statistics by --like"
        )


def _figures(trained: Model | None, sums: Statistics) -> dict[str, Any]:
    return {
        "n_rows": sums.n_rows,
        "n_rows_skipped": sums.n_skipped,
        "n_entries_clipped": sums.n_clipped,
        "n_features": sums.encoder.n_features,
        "n_components": sums.encoder.n_components,
        "n_components_kept": None if trained is None else trained.encoder.n_components,
        "n_folds": sums.n_folds,
        **facts.of_targets(sums.labels, len(sums.class_sums)),
        "alpha": None if trained is None else trained.alpha,
        "alphas": [] if trained is None else [list(tried) for tried in trained.history],
    }


def _summary(figures: dict[str, Any], where: str, sums: Statistics) -> Iterator[tuple[str, str]]:
    yield "rows", f"{figures['n_rows']:,} of {figures['n_features']:,} columns ({where})"
    drawn, kept = figures["n_components"], figures["n_components_kept"]
    pruned = "" if kept in (None, drawn) else f", pruned to {kept:,}"
    yield "features", f"{drawn:,}, {type(sums.encoder.features).__name__}{pruned}"
    yield facts.targets_line(figures)
    if figures["alpha"] is not None:
        chosen = ""
        if figures["alphas"]:
            best = min(figure for _, figure in figures["alphas"])
            n_held = f"{figures['n_rows_held_out']:,} rows held out"
            error = f"error {100 * best:.2f} %" if sums.labels is not None else f"MSE {best:.4g}"
            chosen = f", the best of {len(figures['alphas'])} on {n_held}: {error}"
        yield "alpha", f"{figures['alpha']:.3g}{chosen}"
    yield (
        "time",
        f"{format_time(figures['seconds'])}; the pass {format_time(figures['pass_seconds'])}, "
        f"{figures['rows_per_second']:,.0f} rows/s",
    )
    yield "written", ", ".join(path for path in (figures["model"], figures["statistics"]) if path)
