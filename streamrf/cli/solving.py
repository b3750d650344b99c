"""`streamrf solve`: models out of a statistics file, without the data."""

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typer import BadParameter

from streamrf.cli.base import Answer, aligned
from streamrf.cli.files import writing
from streamrf.cli.groups import (
    BlockOptions,
    CodeOptions,
    MemoryLimit,
    ModelOutput,
    Seed,
    StatisticsFile,
    Threads,
    read_penalty,
    words_of,
)
from streamrf.cli.options import misused, option, wrong
from streamrf.display import format_bytes, format_time
from streamrf.errors import ParameterError, warn
from streamrf.jit.threads import computing
from streamrf.models import Codes, Model
from streamrf.report import facts
from streamrf.solving import N_ALPHAS, CrossValidation, Path, penalty_finding
from streamrf.statistics import RidgeProblem, Statistics, load_statistics, rounding_note
from streamrf.training import SolvePlan, bit_bytes, check_memory, held_bytes

CRITERIA = {
    "folds": "cross-validation",
    "gcv": "generalised cross-validation",
    "evidence": "log evidence",
}
BEST = {"gcv": min, "log_evidence": max, "mse": min}  # by columns of the table


@dataclass(frozen=True)
class Table:
    """What the sums say of each penalty.

    Parameters
    ----------
    alphas : (n_alphas,) float64
    path : of all rows, or None where nobody asks
    folds : errors on folds left out, or None where there are none
    """

    alphas: NDArray[np.float64]
    path: Path | None
    folds: CrossValidation | None

    @property
    def figures(self) -> list[dict[str, float]]:
        """A row for each penalty."""
        columns: dict[str, Any] = {"alpha": self.alphas}
        if self.path is not None:
            columns |= {
                "dof": self.path.dof,
                "gcv": self.path.gcv,
                "log_evidence": self.path.log_evidence,
            }
        if self.folds is not None:
            columns |= {"mse": self.folds.mse, "standard_error": self.folds.standard_error}
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def best(self, criterion: str, per_output: bool) -> Any:
        """Return the best penalty, or that of each output."""
        if criterion == "folds":
            assert self.folds is not None
            return self.folds.best_alphas() if per_output else self.folds.best_alpha()
        assert self.path is not None
        return self.path.best_alphas(criterion) if per_output else self.path.best_alpha(criterion)


def _penalties(text: str) -> list[float] | None:
    """Return penalties, None for auto.

    Examples
    --------
    >>> _penalties("0.1,1"), _penalties("auto")
    ([0.1, 1.0], None)
    """
    words = [word.strip() for word in text.split(",")]
    if words == ["auto"]:
        return None
    if "auto" in words:
        raise BadParameter("auto stands alone; give it, or numbers")
    return [float(read_penalty(word)) for word in words]


@dataclass(frozen=True, kw_only=True)
class PenaltyOptions:
    """Penalties, and how the best is chosen."""

    panel: ClassVar = "Penalty"
    alpha: list[float] | None = option(
        "Ridge penalty, or several of which the best is taken; auto: the best of 13 decades.",
        default="auto",
        metavar="auto|NUMBER,...",
        read=_penalties,
    )
    criterion: str | None = option(
        "How the best is chosen (default: folds where the statistics keep them, else gcv).",
        words=CRITERIA,
    )
    per_output: bool = option(
        "The best for each target or bit by itself.", "--per-output", default=False
    )
    path: bool = option("Show what the sums say of each penalty: a table.", "--path", default=False)

    @property
    def is_choice(self) -> bool:
        """Whether there are several penalties."""
        return self.alpha is None or len(self.alpha) > 1

    @property
    def has_table(self) -> bool:
        """Whether a table of penalties is made, to choose from or to show."""
        return self.is_choice or self.path

    @property
    def fixed(self) -> float | None:
        """The only penalty, None where there are several."""
        return None if self.alpha is None or self.is_choice else self.alpha[0]


@dataclass(frozen=True, kw_only=True)
class WidthOptions:
    """Features of the model."""

    panel: ClassVar = "Features"
    components: int | None = option(
        "Features to keep, those that lower the loss most (default: all)."
    )


@dataclass(frozen=True, kw_only=True)
class ModelOptions(CodeOptions, BlockOptions):
    """What the model predicts."""

    classes: str | None = option("Choose among these classes only.", metavar="LABEL,...")
    uncertainty: bool = option(
        "Keep what the deviations of values take; the model is then as large as the sums.",
        "--uncertainty",
        default=False,
    )


def solve(
    statistics: StatisticsFile,
    penalty: PenaltyOptions,
    width: WidthOptions,
    options: ModelOptions,
    memory_limit: MemoryLimit = None,
    threads: Threads = None,
    seed: Seed = 0,
    model: ModelOutput = None,
) -> Answer:
    """Make a model of a statistics file, for any penalty and code; no data are read."""
    _check(penalty, options, model)
    codes = options.made()
    began = time.perf_counter()
    with writing({"--model": model}, [statistics]), computing(threads):
        sums = _loaded(statistics, memory_limit)
        criterion = _criterion(penalty.criterion, sums, statistics)
        plan = _planned(sums, width.components, penalty, options, codes, criterion)
        plan.check(memory_limit)
        if width.components is not None:
            sums = sums.prune(width.components, penalty.fixed, codes, random_state=seed)
        table = trained = None
        problem = sums.problem(codes, seed, options.class_weight)
        problem = _weighted(problem, options, penalty.fixed)
        if penalty.has_table:
            table = _table(problem, penalty, criterion)
        if model is not None:
            chosen: Any = penalty.fixed
            if table is not None and penalty.is_choice:
                chosen = table.best(criterion, penalty.per_output)
            trained = problem.solve(chosen, uncertainty=options.uncertainty)
            tried = () if table is None else table.alphas
            note = rounding_note(sums, trained, tried)
            if note is None and penalty.is_choice and not penalty.per_output:
                note = penalty_finding(float(chosen), tried)
            if note is not None:
                warn(note)
            trained = _restricted(trained, options.classes)
            trained.save(model)
    figures = _figures(sums, trained, table) | {
        "criterion": criterion if penalty.is_choice else None,
        "statistics": statistics,
        "model": model,
        "seconds": time.perf_counter() - began,
    }
    columns = ["", *_columns(figures["alphas"])] if penalty.path else []
    return Answer(figures, aligned(_summary(figures)) + columns)


def _check(penalty: PenaltyOptions, options: ModelOptions, model: str | None) -> None:
    """Raise the error of wrong usage if options do not go together."""
    if model is None and not penalty.path:
        raise wrong("--model", "give --model, --path or both, or nothing comes of it")
    given = {
        "--uncertainty": options.uncertainty,
        "--classes": options.classes,
        "--class-weight": options.class_weight,
        "--decode": options.decode,
        "--criterion": penalty.criterion,
        "--per-output": penalty.per_output,
    }
    for name in (name for name, value in given.items() if value and model is None):
        raise misused(name, "is for a model; give --model, or leave it out")
    for name, value in (("--per-output", penalty.per_output), ("--criterion", penalty.criterion)):
        if value and not penalty.is_choice:
            raise misused(name, "chooses among penalties; give several, or auto")


def _criterion(word: str | None, sums: Statistics, where: str) -> str:
    """Return what the best penalty is best by."""
    if word == "folds" and not sums.n_folds:
        raise ParameterError(
            f"{where} keeps no folds to leave out; use --criterion gcv, or make statistics by "
            "fit --folds 5"
        )
    return word or ("folds" if sums.n_folds else "gcv")


def _loaded(path: str, memory_limit: str | None) -> Statistics:
    """Return the statistics in a file, if it fits."""
    if os.path.isfile(path):  # else loading tells
        size, held = os.path.getsize(path), held_bytes(memory_limit)
        python = f" beside {format_bytes(held)} of Python" if held else ""
        what = f"holding statistics of {format_bytes(size)}{python}"
        check_memory(what, held + size, memory_limit)
    return load_statistics(path)


def _planned(
    sums: Statistics,
    n_kept: int | None,
    penalty: PenaltyOptions,
    options: ModelOptions,
    codes: Codes,
    criterion: str,
) -> SolvePlan:
    """Return what a solve will take."""
    n_outputs, book, n_left_out = len(sums.sums.targets.sums), 0, 0
    if sums.labels is not None:
        n_outputs = getattr(codes, "n_bits", n_outputs)
        book = bit_bytes(codes, True) * n_outputs * max(n_outputs, len(sums.labels))
    traces = penalty.has_table or isinstance(options.block_weights, str)
    if traces and sums.n_folds and (penalty.path or criterion == "folds"):
        n_left_out = N_ALPHAS if penalty.alpha is None else len(penalty.alpha)
    return SolvePlan(
        n_components=sums.sums.n_components,
        n_kept=n_kept,
        n_outputs=n_outputs,
        book_bytes=book,
        n_folds=sums.n_folds or 0,
        n_left_out=n_left_out,
        is_fixed=penalty.fixed is not None,
        traces=traces,
        uncertainty=options.uncertainty,
    )


def _weighted(problem: RidgeProblem, options: ModelOptions, alpha: float | None) -> RidgeProblem:
    """Return the problem with the weights asked for; of a penalty to be chosen, 1 is the most."""
    weights = options.block_weights
    found = problem.weighted(weights, 1.0 if alpha is None else alpha)
    if isinstance(weights, str) and alpha is None and found.block_weights is not None:
        found = problem.weighted(found.block_weights / found.block_weights.max())
    return found


def _table(problem: RidgeProblem, penalty: PenaltyOptions, criterion: str) -> Table:
    """Ask the sums about penalties: all there is to know, or what the criterion needs."""
    table = problem.normal().alpha_grid() if penalty.alpha is None else np.array(penalty.alpha)
    traced = folds = None
    if penalty.path or criterion != "folds":
        traced = problem.path(table)
    if problem.sums.n_folds and (penalty.path or criterion == "folds"):
        folds = problem.cross_validate(table)
    return Table(table, traced, folds)


def _restricted(trained: Model, text: str | None) -> Model:
    """Return the model of some classes, named by their words."""
    if text is None:
        return trained
    if trained.labels is None:
        raise ParameterError("--classes is for classes; these statistics hold target values")
    known = {str(label): label for label in trained.labels.tolist()}
    words = words_of(text)
    if len(set(words)) < 2:
        raise ParameterError(f"--classes: a choice takes two classes or more, got {text!r}")
    for word in words:
        if word not in known:
            raise ParameterError(f"--classes: there is no class {word!r}; there are {list(known)}")
    return trained.restrict_classes([known[word] for word in words])


def _figures(sums: Statistics, trained: Model | None, table: Table | None) -> dict[str, Any]:
    labels = sums.labels if trained is None else trained.labels
    chosen = None
    if trained is not None:
        alpha = trained.alpha
        chosen = alpha if np.ndim(alpha) == 0 else np.asarray(alpha).tolist()
    return {
        "n_rows": sums.n_rows,
        "n_features": sums.encoder.n_features,
        "n_components": sums.encoder.n_components,
        "n_folds": sums.n_folds,
        **facts.of_targets(labels, len(sums.class_sums)),
        "n_outputs": None if trained is None else len(trained.intercept),
        "alpha": chosen,
        "block_weights": facts.weights_of(trained),
        "alphas": [] if table is None else table.figures,
    }


def _summary(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "rows", f"{figures['n_rows']:,} of {figures['n_features']:,} columns, summed before"
    yield "features", f"{figures['n_components']:,}"
    yield facts.targets_line(figures)
    if figures["alpha"] is not None:
        alpha = figures["alpha"]
        text = f"{alpha:.3g}" if isinstance(alpha, float) else ", ".join(f"{a:.3g}" for a in alpha)
        if figures["criterion"] is not None:
            text += f", the best of {len(figures['alphas'])} by {CRITERIA[figures['criterion']]}"
        yield "alpha", text
    if figures["block_weights"] is not None:
        yield facts.weights_line(figures)
    yield "time", format_time(figures["seconds"])
    if figures["model"] is not None:
        yield "written", figures["model"]


def _columns(rows: list[dict[str, float]]) -> list[str]:
    """Return a table of numbers, its columns under their names, the best of a column marked."""
    columns = []
    for name in rows[0]:
        values = [row[name] for row in rows]
        cells = [name.replace("_", " "), *map(_shown, values)]
        if name in BEST:
            finite = [value for value in values if math.isfinite(value)]
            best = BEST[name](finite, default=math.nan)
            cells = [cells[0] + " ", *(
                cell + ("*" if value == best else " ")
                for cell, value in zip(cells[1:], values, strict=True)
            )]  # fmt: skip
        width = max(map(len, cells))
        columns.append([cell.rjust(width) for cell in cells])
    lines = ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]
    return [*lines, "", "* the best by this column"]


def _shown(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else "-"
