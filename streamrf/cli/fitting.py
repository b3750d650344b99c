"""`streamrf fit`: one pass over files of data."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from streamrf import engine
from streamrf.cli.base import Answer, aligned, warn_skipped
from streamrf.cli.files import check_room, writing
from streamrf.cli.groups import (
    BlockOptions,
    ClusterOptions,
    CodeOptions,
    Data,
    MemoryLimit,
    ModelOutput,
    PassRows,
    Seed,
    Threads,
    read_penalty,
    read_seconds,
)
from streamrf.cli.maps import FeatureOptions
from streamrf.cli.options import misused, option, option_from, option_of, wrong
from streamrf.cli.progress import working
from streamrf.display import format_time, peak_bytes
from streamrf.engine import Outlook, RunOptions
from streamrf.errors import ClusterError, warn
from streamrf.models import Model
from streamrf.report import facts
from streamrf.solving import LOSSES, SQUARED
from streamrf.statistics import TOTALS, Statistics, packed_size, rounding_note
from streamrf.storage import tree_bytes
from streamrf.training import (
    READING,
    SOLVING,
    TASKS,
    HeldRows,
    Job,
    Pass,
    Settings,
    begin,
    check_job,
    finish,
    foresee_finish,
    is_auto_decode,
    of_loss,
    refine_job,
)

MAX_PASSES = 5


@dataclass(frozen=True, kw_only=True)
class RegressionOption:
    """Values or classes."""

    task: str = option_from(Settings, "task", words=TASKS)
    regression: bool = option_from(Settings, "regression", "--regression")

    @property
    def is_of_values(self) -> bool:
        """Whether the targets are said to be values."""
        return self.regression or self.task == "regression"


@dataclass(frozen=True, kw_only=True)
class TargetOptions(CodeOptions, BlockOptions, RegressionOption):
    """What is learnt, and how sums are kept and solved."""

    prune: int | None = option(
        "Features that the model keeps, the most useful after the pass (default: all).", metavar="N"
    )
    alpha: float | str | None = option(
        "Ridge penalty; auto (default): the best on rows held out of the pass.",
        metavar="auto|NUMBER",
        read=read_penalty,
    )
    loss: str = option(
        "Loss to minimise (default: squared, which one pass solves); the others take a pass more "
        "for each Newton step.",
        default=SQUARED,
        words=(SQUARED, *LOSSES),
    )
    max_passes: int | None = option("Passes at most, the first included (default: 5).", min=1)
    folds: int | None = option_from(Settings, "folds", metavar="K")
    totals: str | None = option_from(Settings, "totals", words=TOTALS)

    @property
    def penalty(self) -> float | str:
        """The ridge penalty, or "auto"."""
        return "auto" if self.alpha is None else self.alpha

    @property
    def n_passes(self) -> int:
        """Passes at most, the first included."""
        return 1 if self.loss == SQUARED else self.max_passes or MAX_PASSES


@dataclass(frozen=True, kw_only=True)
class PassOptions:
    """How the pass runs."""

    panel: ClassVar = "Run"
    checkpoint: str | None = option_from(RunOptions, "checkpoint", metavar="FILE")
    checkpoint_every: float | None = option_from(
        RunOptions, "checkpoint_every", default=None, metavar="TIME", read=read_seconds
    )
    memory_limit: MemoryLimit = None
    threads: Threads = None
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class ShardOptions(ClusterOptions):
    """The cluster, and how rows are shared out."""

    parts: int | None = option_from(RunOptions, "parts", min=1)
    spill: str | None = option_from(RunOptions, "spill", metavar="FOLDER")


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
    targets: TargetOptions,
    options: PassOptions,
    cluster: ShardOptions,
    output: FitOutput,
) -> Answer:
    """Train on files of data in one pass; write a model, its statistics, or both."""
    _check(targets, options, cluster, output)
    codes = targets.made(targets.is_of_values)
    codes = of_loss(codes, targets.loss) if features.like is None else codes
    settings = Settings(
        **features.settings(),
        codes=codes,
        class_weight=targets.class_weight,
        task=targets.task,
        regression=targets.regression,
        on_bad_rows=rows.on_bad_rows,
        hold_out=output.model is not None and (targets.penalty == "auto" or is_auto_decode(codes)),
        folds=targets.folds,
        totals=targets.totals,
        rows=rows.rows,
        random_state=options.seed,
    )
    began = time.perf_counter()
    inputs = [*data, *(file for file in (features.like, features.scale_like) if file)]
    outputs = {
        "--model": output.model,
        "--statistics": output.statistics,
        "--checkpoint": options.checkpoint,
    }
    with writing(outputs, inputs) as check:
        source = rows.source(data)
        check(source)
        settings = replace(settings, like=features.earlier(targets.is_of_values))
        expected = (READING, SOLVING) if output.model is not None else (READING,)
        n_rows = rows.n_rows(source) * targets.n_passes
        with working(cluster, options.threads, n_rows, expected) as (client, _):
            outlooks: list[Outlook] = []
            run = RunOptions(
                engine=client,
                parts=cluster.parts,
                spill=cluster.spill,
                checkpoint=options.checkpoint,
                checkpoint_every=_every(options),
                memory_limit=options.memory_limit,
                n_threads=options.threads,
                outlook=outlooks.append,
            )
            solves = output.model is not None
            job = replace(Job.of(source, settings, run), loss=targets.loss, solves=solves)
            pass_, figures = _train(job, targets, output)
            trained, sums = _finish(job, pass_, targets, output)
            figures["cluster"] = _cluster_figures(outlooks, client)
    _warn(sums, trained, targets.alpha)
    n_read = sums.n_rows + sums.n_skipped - figures["n_rows_resumed"]
    figures |= {
        **_figures(trained, sums),
        "model": output.model,
        "statistics": output.statistics,
        "checkpoint": options.checkpoint,
        "seconds": time.perf_counter() - began,
        "rows_per_second": n_read / figures["pass_seconds"],
        "peak_memory_bytes": peak_bytes(),
    }
    return Answer(figures, aligned(_summary(figures, source.where, sums, features.like)))


def _every(options: PassOptions) -> float:
    """Return the seconds between two checkpoints."""
    given = options.checkpoint_every
    return RunOptions.checkpoint_every if given is None else given


def _check(
    targets: TargetOptions, options: PassOptions, cluster: ShardOptions, output: FitOutput
) -> None:
    """Raise the error of wrong usage if options do not go together."""
    of_model = ("alpha", "codes", "bits", "decode", "block_weights")
    if output.model is None and output.statistics is None:
        is_for_model = any(getattr(targets, name) is not None for name in (*of_model, "prune"))
        alone = is_for_model or targets.loss != SQUARED  # statistics alone would be refused
        what = "--model" if alone else "--model, --statistics or both"
        raise wrong("--model", f"give {what}, or the pass is for nothing")
    for name in of_model:
        if output.model is None and getattr(targets, name) is not None:
            raise misused(option_of(name), "is for a model; give --model, or give it to solve")
    if targets.folds is not None and output.statistics is None and targets.block_weights != "auto":
        raise misused("--folds", "are kept in statistics; give --statistics, or leave it out")
    if output.model is None and targets.loss != SQUARED:
        raise misused("--loss", "is for a model; give --model, or leave it out")
    if output.model is None and targets.prune is not None:
        raise misused("--prune", "is for a model; give --model, or --components to solve")
    if targets.block_weights is not None and targets.prune is not None:
        raise misused(
            "--block-weights", "is for a model that is not pruned; leave it or --prune out"
        )
    if targets.max_passes is not None and targets.loss == SQUARED:
        raise misused("--max-passes", f"is for --loss {' or '.join(LOSSES)}; leave it out")
    if targets.max_passes == 1:
        raise wrong("--max-passes", f"--loss {targets.loss} takes 2 passes or more, got 1")
    if options.checkpoint_every is not None and options.checkpoint is None:
        raise misused("--checkpoint-every", "is for --checkpoint; give it, or leave both out")
    for name, value in (("--parts", cluster.parts), ("--spill", cluster.spill)):
        if value is not None and cluster.address().is_here:
            raise misused(name, "is for a cluster; give --scheduler or --workers, or leave it out")


def _train(job: Job, targets: TargetOptions, output: FitOutput) -> tuple[Pass, dict[str, Any]]:
    """Run the pass; return it and its figures."""
    pass_ = begin(job)
    check_job(job, pass_, targets.n_passes)
    for path in (output.statistics, job.run.checkpoint):
        if path is not None:
            check_room(path, _file_bytes(pass_))
    n_resumed = 0 if job.checkpoint is None else job.checkpoint.n_resumed
    foresee_finish(pass_, targets.penalty, job.source.n_rows)
    began = time.perf_counter()
    job.fold(pass_, targets.prune, targets.block_weights)
    return pass_, {
        "n_rows_held_out": 0 if pass_.holdout is None else pass_.holdout.n_rows,
        "n_rows_resumed": n_resumed,
        "pass_seconds": time.perf_counter() - began,
    }


def _cluster_figures(outlooks: list[Outlook], client: Any) -> dict[str, Any] | None:
    """Return what the workers were to hold and have held; None without a cluster."""
    if not outlooks:
        return None
    outlook = outlooks[0]
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


def _file_bytes(pass_: Pass) -> int:
    """Return about what the statistics will take in a file: Grams, sums of targets, the map."""
    statistics = pass_.statistics
    encoder, n_folds = statistics.encoder, max(1, statistics.n_folds)
    number_bytes = np.dtype(statistics.sums.gram_class.dtype).itemsize
    gram = number_bytes * packed_size(encoder.n_components)
    n_targets = max(1, len(pass_.peeked), len(encoder.calibration.target_shift))
    targets = 8 * n_targets * encoder.n_components
    return n_folds * (gram + targets) + tree_bytes(encoder.to_tree())


def _finish(
    job: Job, pass_: Pass, targets: TargetOptions, output: FitOutput
) -> tuple[Model | None, Statistics]:
    """Solve where a model is wanted, and write; the sums are kept even if there is no solution."""
    settings, held = job.settings, HeldRows.of(pass_)

    def keep(sums: Statistics) -> None:
        if output.statistics is not None:
            sums.save(output.statistics)

    if output.model is None:
        sums = pass_.join()
        keep(sums)
        return None, sums
    # The solve may take the place of a Gram that nobody asks for again; folds have none to give.
    overwrite = targets.penalty != "auto" and not pass_.statistics.n_folds
    trained, sums = finish(
        pass_,
        targets.penalty,
        settings.codes,
        settings.random_state,
        prune=targets.prune,
        block_weights=targets.block_weights,
        overwrite=overwrite,
        keep=keep,
    )
    trained = refine_job(job, trained, held, targets.n_passes)
    trained.save(output.model)
    return trained, sums


def _warn(sums: Statistics, trained: Model | None, named: float | str | None) -> None:
    """Print what was left out, or rounded too coarsely for a penalty that is named.

    Rows held out choose one by errors that include the rounding: it is told beside it alone.
    """
    warn_skipped(sums.n_skipped)
    if trained is None or named is None or isinstance(named, str):
        return
    if (note := rounding_note(sums, trained)) is not None:
        warn(note)


def _figures(trained: Model | None, sums: Statistics) -> dict[str, Any]:
    return {
        "n_rows": sums.n_rows,
        "n_rows_skipped": sums.n_skipped,
        "n_values_unseen": sums.n_unseen,
        "n_entries_clipped": sums.n_clipped,
        "n_rows_too_long": sums.n_too_long,
        "unfair_columns": sums.unfair_columns.tolist(),
        **facts.of_table(sums.encoder.table),
        "n_features": sums.encoder.n_features,
        "n_components": sums.encoder.n_components,
        "n_components_kept": None if trained is None else trained.encoder.n_components,
        "n_folds": sums.n_folds,
        **facts.of_targets(sums.labels, len(sums.class_sums)),
        "alpha": None if trained is None else trained.alpha,
        "rounding_alpha": None if trained is None else sums.rounding_alpha,
        "rounding_binds": trained is not None and rounding_note(sums, trained) is not None,
        "block_weights": facts.weights_of(trained),
        **facts.of_loss(trained),
        "decode": None if trained is None or trained.book is None else trained.book.decode,
        "alphas": [] if trained is None else [list(tried) for tried in trained.history],
        **facts.of_held_out(trained),
        "notes": [] if trained is None else list(trained.notes),
    }


def _summary(
    figures: dict[str, Any], where: str, sums: Statistics, like: str | None
) -> Iterator[tuple[str, str]]:
    yield "rows", f"{figures['n_rows']:,} of {figures['n_features']:,} columns ({where})"
    yield from facts.column_lines(figures)
    drawn, kept = figures["n_components"], figures["n_components_kept"]
    pruned = "" if kept in (None, drawn) else f", pruned to {kept:,}"
    yield "features", f"{facts.choice_words(sums, drawn, like)}{pruned}"
    yield facts.targets_line(figures)
    if figures["alpha"] is not None:
        chosen = ""
        if figures["alphas"]:
            n_held = f"{figures['n_rows_held_out']:,} rows held out"
            own = figures["mse_held_out" if figures["labels"] is None else "error_held_out"]
            error = " ".join(facts.error_words(own, figures["n_targets"]))
            chosen = f", chosen among {len(figures['alphas'])} on {n_held}: {error}"
        yield "alpha", f"{figures['alpha']:.3g}{chosen}"
        if chosen and figures["rounding_binds"]:
            more = f"amounts to a penalty of {figures['rounding_alpha']:.3g}, which is more"
            yield "rounding", f"{more}; {sums.encoder.calibration.advice()}"
    yield from facts.loss_lines(figures)
    if figures["decode"] not in (None, "euclidean"):
        yield "decode", figures["decode"]
    if figures["block_weights"] is not None:
        yield facts.weights_line(figures)
    yield from (("note", note) for note in figures["notes"])
    yield (
        "time",
        f"{format_time(figures['seconds'])}; the pass {format_time(figures['pass_seconds'])}, "
        f"{figures['rows_per_second']:,.0f} rows/s",
    )
    yield "written", ", ".join(path for path in (figures["model"], figures["statistics"]) if path)
