"""What models and statistics hold, as figures and in words."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from streamrf.models import Model
from streamrf.preprocessing import Encoder
from streamrf.sources import Columns
from streamrf.statistics import Ledger, Statistics

MAX_COLUMNS = 40  # columns of a table shown to a person
MAX_SHOWN = 10  # labels, stores or ranges shown to a person; the figures have them all


def of_model(model: Model) -> dict[str, Any]:
    """Return the figures of a model."""
    codes = None
    if model.book is not None:
        codes = {
            "n_bits": model.book.n_bits,
            "minimum_distance": model.book.minimum_distance,
            "decode": model.book.decode,
        }
    return {
        **_encoder(model.encoder),
        **of_targets(model.labels, len(model.intercept)),
        "codes": codes,
        "alpha": model.alpha if np.ndim(model.alpha) == 0 else model.alpha.tolist(),
        "alphas": [list(tried) for tried in model.history],
        "has_deviations": model.posterior is not None,
        "has_probabilities": model.probabilities is not None,
        "n_rows": model.n_rows,
    }


def of_statistics(statistics: Statistics) -> dict[str, Any]:
    """Return the figures of statistics."""
    return {
        **_encoder(statistics.encoder),
        **of_targets(statistics.labels, len(statistics.class_sums)),
        "n_folds": statistics.n_folds,
        "is_scaled": statistics.is_scaled,
        "weight": float(statistics.weight),
        "n_rows": statistics.n_rows,
        "n_rows_skipped": statistics.n_skipped,
        "n_values_unseen": statistics.n_unseen,
        "n_entries_clipped": statistics.n_clipped,
        "stores": _stores(statistics.ledger),
    }


def of_targets(labels: np.ndarray | None, n_targets: int = 0) -> dict[str, Any]:
    """Return the figures of what is predicted: labels, or a number of values."""
    return {
        "labels": None if labels is None else labels.tolist(),
        "n_targets": n_targets if labels is None else None,
    }


def targets_line(figures: dict[str, Any]) -> tuple[str, str]:
    """Return the line on what is predicted, as `summary`."""
    if figures["labels"] is None:
        return "targets", f"{figures['n_targets']:,}"
    return "classes", f"{len(figures['labels']):,}"


def _encoder(encoder: Encoder) -> dict[str, Any]:
    return {
        "map": _settings(encoder.features),
        "kernel": _settings(encoder.features.kernel_),
        "n_features": encoder.n_features,
        "n_components": encoder.n_components,
        "normalize": encoder.preprocessing.normalize,
        "precision": "exact" if encoder.calibration.exact else "float64",
        "tried": encoder.tried,
        "columns": None if encoder.table is None else of_columns(encoder.table),
    }


def of_columns(columns: Columns) -> dict[str, Any]:
    """Return the figures of what became of the columns of a table."""
    return {
        "columns": [
            column.to_tree() | {"becomes": column.words, "n_columns": len(column.outputs)}
            for column in columns.columns
        ],
        "targets": list(columns.targets),
        "weights": columns.weights,
    }


def columns_lines(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return what became of the columns, a line each, as `summary`."""
    for column in figures["columns"][:MAX_COLUMNS]:
        yield f"column {column['name']}", column["becomes"]
    if len(figures["columns"]) > MAX_COLUMNS:
        yield "", f"and {len(figures['columns']) - MAX_COLUMNS:,} more columns"


def _settings(value: Any) -> Any:
    """Return an object as its class and settings, with those of the objects inside it."""
    if not isinstance(value, BaseEstimator):
        return value
    params = value.get_params(deep=False)
    return {"class": type(value).__name__} | {k: _settings(v) for k, v in params.items()}


def _stores(ledger: Ledger) -> list[dict[str, Any]]:
    return [
        {"name": ledger.names[key], "key": key, "ranges": ranges.tolist()}
        for key, ranges in ledger.ranges.items()
    ]


def summary(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the figures in words: names and texts."""
    yield "map", f"{called(figures['map'])}"
    yield "rows", f"{figures['n_rows']:,} of {figures['n_features']:,} columns"
    yield "features", f"{figures['n_components']:,}, {figures['precision']} sums"
    yield "normalize", figures["normalize"] or "none"
    if figures["tried"] is not None:
        names, errors = figures["tried"]["candidate"], figures["tried"]["error"]
        yield "chosen", f"{names[0]}; of {len(names)} tried, error held out {errors[0]:.4g}"
    if figures["columns"] is not None:
        yield from columns_lines(figures["columns"])
    name, text = targets_line(figures)
    yield name, text + (f": {_few(map(str, figures['labels']))}" if figures["labels"] else "")
    if "alpha" in figures:
        if figures["codes"] is not None:
            shown = "{n_bits:,} bits, {minimum_distance} apart at least, {decode}"
            yield "codes", shown.format(**figures["codes"])
        yield "alpha", _alphas(figures["alpha"])
        yield "predicts", _predicts(figures)
        return
    if figures["n_folds"]:
        yield "folds", f"{figures['n_folds']:,}"
    if figures["is_scaled"]:
        yield "scaled", "rows count with factors: exact to rounding only"
    yield "skipped", f"{figures['n_rows_skipped']:,} rows with NaN or infinity"
    if figures["n_values_unseen"]:
        yield "unseen", f"{figures['n_values_unseen']:,} values unlike the rows looked at before"
    yield "clipped", f"{figures['n_entries_clipped']:,} entries"
    for store in figures["stores"]:
        rows = _few(f"{start:,} to {stop - 1:,}" for start, stop in store["ranges"])
        yield "counted", f"rows {rows} of {store['name']}"


def _alphas(alpha: float | list[float]) -> str:
    """Return one penalty, or those of all outputs, in words."""
    if isinstance(alpha, float):
        return f"{alpha:.6g}"
    return _few(f"{one:.6g}" for one in alpha) + ", one for each output"


def _predicts(figures: dict[str, Any]) -> str:
    """Return what a model predicts of a row, in words."""
    if figures["labels"] is None:
        return "values and deviations" if figures["has_deviations"] else "values"
    return (
        "labels, scores and probabilities" if figures["has_probabilities"] else "labels and scores"
    )


def called(settings: Any) -> str:
    """Return the settings of an object as one would call it."""
    if not isinstance(settings, dict):
        return repr(settings)
    given = {k: v for k, v in settings.items() if k != "class" and v is not None}
    return f"{settings['class']}({', '.join(f'{k}={called(v)}' for k, v in given.items())})"


def _few(all_words: Iterable[str]) -> str:
    words = list(all_words)
    more = [f"and {len(words) - MAX_SHOWN:,} more"] if len(words) > MAX_SHOWN else []
    return ", ".join(words[:MAX_SHOWN] + more)
