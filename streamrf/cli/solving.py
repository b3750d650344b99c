"""`streamrf solve`: models out of a statistics file, without the data."""

import csv
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.base import BaseEstimator

from streamrf.cli.base import (
    CODES,
    Answer,
    Json,
    MemoryLimit,
    Seed,
    StatisticsFile,
    Threads,
    aligned,
    check_memory,
    pick_word,
    read_codes,
    read_penalty,
    writing,
    wrong,
)
from streamrf.errors import ParameterError
from streamrf.jit.threads import computing
from streamrf.models import DECODINGS, Model
from streamrf.solving import CrossValidation, Path
from streamrf.statistics import Statistics, load_statistics

CRITERIA = {
    "folds": "cross-validation",
    "gcv": "generalised cross-validation",
    "evidence": "log evidence",
}


@dataclass(frozen=True)
class Table:
    """What the sums tell of each penalty.

    Parameters
    ----------
    alphas : (n_alphas,) float64
    path : what all rows tell, or None where nobody asks
    folds : errors on folds left out, or None where there are none
    """

    alphas: np.ndarray
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
        """Give the best penalty, or that of each output."""
        if criterion == "folds":
            assert self.folds is not None
            return self.folds.best_alphas() if per_output else self.folds.best_alpha()
        assert self.path is not None
        return self.path.best_alphas(criterion) if per_output else self.path.best_alpha(criterion)


def _option(panel: str, text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=False, **more)


def solve(
    statistics: StatisticsFile,
    alpha: Annotated[
        str,
        _option(
            "Penalty",
            "Ridge penalty, or the best of several; auto: the best of nine decades.",
            metavar="auto|NUMBER,...",
        ),
    ] = "auto",
    criterion: Annotated[
        str | None,
        _option(
            "Penalty",
            "What the best is best by; folds where the statistics keep them, else gcv.",
            metavar="|".join(CRITERIA),
        ),
    ] = None,
    per_output: Annotated[
        bool, _option("Penalty", "The best for each target or bit by itself.", "--per-output")
    ] = False,
    path: Annotated[
        bool,
        _option("Penalty", "Tell of each penalty what the sums know: a table.", "--path"),
    ] = False,
    components: Annotated[
        int | None, _option("Features", "Keep this many, those that lower the loss most; all.")
    ] = None,
    codes: Annotated[
        str | None, _option("Targets", "Target codes; one-vs-rest.", metavar="|".join(CODES))
    ] = None,
    bits: Annotated[int | None, _option("Targets", "Bits of error-correcting codes.")] = None,
    decode: Annotated[
        str | None,
        _option("Targets", "How outputs name a class; euclidean.", metavar="|".join(DECODINGS)),
    ] = None,
    classes: Annotated[
        str | None,
        _option("Targets", "Choose among these classes only.", metavar="LABEL,..."),
    ] = None,
    uncertainty: Annotated[
        bool,
        _option(
            "Targets",
            "Keep what the deviations of values take; the model is then as large as the sums.",
            "--uncertainty",
        ),
    ] = False,
    memory_limit: MemoryLimit = None,
    threads: Threads = None,
    seed: Seed = 0,
    model: Annotated[str | None, _option("Output", "Model file to write.", metavar="OUT")] = None,
    as_json: Json = False,
) -> Answer:
    """Make a model of a statistics file, for any penalty and code; no data are read."""
    if model is None and not path:
        raise wrong("--model", "give --model, --path or both, or nothing comes of it")
    if model is None and (classes is not None or uncertainty):
        option = "--uncertainty" if uncertainty else "--classes"
        raise wrong(option, "is for a model; give --model, or leave it out")
    alphas = _penalties(alpha)
    if per_output and alphas is not None and len(alphas) == 1:
        raise wrong("--per-output", "chooses among penalties; give several, or auto")
    if criterion is not None:
        pick_word(CRITERIA, criterion, "--criterion")
    target_codes = read_codes(codes, False, n_bits=bits, decode=decode)

    began = time.perf_counter()
    with writing({"--model": model}, [statistics]), computing(threads):
        sums = load_statistics(statistics)
        criterion = _criterion(criterion, sums, statistics)
        is_chosen = alphas is None or len(alphas) > 1
        _check_memory(sums, is_chosen or path, uncertainty, memory_limit)
        if components is not None:
            fixed = None if alphas is None or is_chosen else alphas[0]
            sums = sums.prune(components, fixed, target_codes, random_state=seed)
        table = trained = None
        if is_chosen or path:
            table = _table(sums, alphas, target_codes, seed, path, criterion)
        if model is not None:
            chosen = alphas[0] if alphas else 1.0
            if table is not None and is_chosen:
                chosen = table.best(criterion, per_output)
            trained = sums.solve(chosen, target_codes, uncertainty=uncertainty, random_state=seed)
            trained = _among(trained, classes)
            trained.save(model)
    figures = _figures(sums, trained, table) | {
        "criterion": criterion if is_chosen else None,
        "statistics": statistics,
        "model": model,
        "seconds": time.perf_counter() - began,
    }
    return Answer(figures, _story(figures, path), as_json)


def _penalties(text: str) -> list[float] | None:
    """Read penalties, None for auto.

    Examples
    --------
    >>> _penalties("0.1,1"), _penalties("auto")
    ([0.1, 1.0], None)
    """
    words = [word.strip() for word in text.split(",")]
    if words == ["auto"]:
        return None
    if "auto" in words:
        raise wrong("--alpha", "auto stands alone; give it, or numbers")
    return [float(read_penalty(word)) for word in words]


def _criterion(word: str | None, sums: Statistics, where: str) -> str:
    """Give what the best penalty is best by."""
    if word == "folds" and not sums.n_folds:
        raise ParameterError(
            f"{where} keeps no folds to leave out; use --criterion gcv, or make statistics by "
            "fit --folds 5"
        )
    return word or ("folds" if sums.n_folds else "gcv")


def _check_memory(
    sums: Statistics, several: bool, uncertainty: bool, memory_limit: str | None
) -> None:
    """Refuse a solve that would outgrow the memory beside the sums, which are loaded by now."""
    width = sums.sums.n_components
    packed = 4 * width * (width + 1)
    n_bytes = packed * (2 if uncertainty else 1)
    if several:  # full matrices beside packed ones
        n_bytes = max(n_bytes, packed + 8 * width**2)
        if sums.n_folds:
            n_bytes = 3 * packed + 2 * 8 * width**2
    check_memory(f"a solve of {width:,} features", n_bytes, memory_limit)


def _table(
    sums: Statistics,
    alphas: list[float] | None,
    codes: BaseEstimator | None,
    seed: int,
    whole: bool,
    criterion: str,
) -> Table:
    """Ask the sums about penalties: all there is to know, or what the criterion needs."""
    table = sums.alpha_grid() if alphas is None else np.array(alphas)
    traced = folds = None
    if whole or criterion != "folds":
        traced = sums.path(table, codes, random_state=seed)
    if sums.n_folds and (whole or criterion == "folds"):
        folds = sums.cross_validate(table, codes, random_state=seed)
    return Table(table, traced, folds)


def _among(trained: Model, text: str | None) -> Model:
    """Give the model of some classes, told by their words."""
    if text is None:
        return trained
    if trained.labels is None:
        raise ParameterError("--classes is for classes; these statistics hold target values")
    known = {str(label): label for label in trained.labels.tolist()}
    words = next(csv.reader([text], skipinitialspace=True))
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
        "labels": None if labels is None else labels.tolist(),
        "n_targets": len(sums.class_sums) if sums.labels is None else None,
        "n_outputs": None if trained is None else len(trained.intercept),
        "alpha": chosen,
        "alphas": [] if table is None else table.figures,
    }


def _story(figures: dict[str, Any], path: bool) -> list[str]:
    """Tell the figures to a person."""
    table = ["", *_columns(figures["alphas"])] if path else []
    return aligned(_summary(figures)) + table


def _summary(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "rows", f"{figures['n_rows']:,} of {figures['n_features']:,} columns, summed before"
    yield "features", f"{figures['n_components']:,}"
    if figures["labels"] is None:
        yield "targets", f"{figures['n_targets']:,}"
    else:
        yield "classes", f"{len(figures['labels']):,}"
    if figures["alpha"] is not None:
        alpha = figures["alpha"]
        told = f"{alpha:.3g}" if isinstance(alpha, float) else ", ".join(f"{a:.3g}" for a in alpha)
        if figures["criterion"] is not None:
            told += f", the best of {len(figures['alphas'])} by {CRITERIA[figures['criterion']]}"
        yield "alpha", told
    yield "time", f"{figures['seconds']:.1f} s"
    if figures["model"] is not None:
        yield "written", figures["model"]


def _columns(rows: list[dict[str, float]]) -> list[str]:
    """Give a table of numbers, its columns under their names."""
    names = [name.replace("_", " ") for name in rows[0]]
    cells = [[_shown(value) for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    return [
        "  ".join(word.rjust(width) for word, width in zip(line, widths, strict=True))
        for line in [names, *cells]
    ]


def _shown(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else "-"
