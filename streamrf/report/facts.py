"""What models and statistics hold, as figures and in words."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from streamrf.display import Parametrized
from streamrf.models import Model
from streamrf.preprocessing import COLUMNWISE, Encoder, Moments, named_columns, precision_of
from streamrf.solving import SQUARED
from streamrf.sources import Columns, Ledger
from streamrf.statistics import Statistics

MAX_IMPORTANT = 5  # columns shown to a person
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
        "block_weights": weights_of(model),
        **of_loss(model),
        "alphas": [list(tried) for tried in model.history],
        "has_deviations": model.posterior is not None,
        "has_probabilities": model.probabilities is not None,
        "n_rows": model.n_rows,
        "notes": list(model.notes),
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
        "n_rows_too_long": statistics.n_too_long,
        "unfair_columns": statistics.unfair_columns.tolist(),
        "column_names": [] if statistics.moments is None else list(statistics.moments.names),
        "stores": _stores(statistics.ledger),
    }


def of_moments(moments: Moments) -> dict[str, Any]:
    """Return the figures of moments of columns."""
    return {
        "n_rows": moments.n_rows,
        "n_features": moments.n_features,
        "mean": moments.mean.tolist(),
        "deviation": moments.deviation.tolist(),
        "unfair_columns": moments.unfair_columns().tolist(),
        "column_names": list(moments.names),
    }


def moments_summary(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the figures of moments in words."""
    yield "rows", f"{figures['n_rows']:,} of {figures['n_features']:,} columns"
    for name in ("mean", "deviation"):
        yield name, _few(f"{value:.6g}" for value in figures[name])
    if figures["unfair_columns"]:
        yield "unfair", _unfair(figures)


def _unfair(figures: dict[str, Any]) -> str:
    which = named_columns(figures["unfair_columns"], tuple(figures["column_names"]))
    return f"{which}: ten times wider than in the rows looked at first"


def of_targets(labels: np.ndarray | None, n_targets: int = 0) -> dict[str, Any]:
    """Return the figures of what is predicted: labels, or a number of values."""
    return {
        "labels": None if labels is None else labels.tolist(),
        "n_targets": n_targets if labels is None else None,
    }


def weights_of(model: Model | None) -> list[float] | None:
    """Return the weights of the blocks that a model was solved with."""
    return None if model is None or model.block_weights is None else model.block_weights.tolist()


def of_held_out(model: Model | None) -> dict[str, Any]:
    """Return what the penalty errs by on rows held out: a share of rows of classes, or squares.

    None for what it has no figure of; and the root for one target.
    """
    found = dict.fromkeys(("error_held_out", "mse_held_out", "rmse_held_out"))
    if model is None or not model.history:
        return found
    own = min(model.history, key=lambda tried: abs(tried[0] - float(model.alpha)))[1]
    if model.labels is not None:
        return found | {"error_held_out": own}
    root = float(np.sqrt(own)) if len(model.intercept) == 1 else None
    return found | {"mse_held_out": own, "rmse_held_out": root}


def least_explained(
    figures: Sequence[dict[str, Any]], n_targets: int
) -> list[tuple[str, dict[str, Any]]]:
    """Return the figures of so many targets, those of the least R2, in the order of all.

    Each with its name, or its place from 1 on where it has none.
    """
    order = np.argsort([one["r2"] for one in figures], kind="stable")[:n_targets]
    return [(str(figures[k].get("target", k + 1)), figures[k]) for k in sorted(order.tolist())]


def error_words(error: float, n_targets: int | None) -> tuple[str, str]:
    """Return the name and the text of an error on rows held out, as `evaluate` gives errors.

    Parameters
    ----------
    error : share of rows, or mean of squares
    n_targets : None of classes. Of several, which have no root in common, it is shown as it is
    """
    if n_targets is None:
        return "error", f"{100 * error:.2f} %"
    return ("RMSE", f"{np.sqrt(error):.6g}") if n_targets == 1 else ("MSE", f"{error:.4g}")


def of_loss(model: Model | None) -> dict[str, Any]:
    """Return the loss that a model minimises, and the passes that it took."""
    if model is None or model.refinement is None:
        return {"loss": None if model is None else SQUARED, "n_passes": 1}
    return {"loss": model.refinement.loss, "n_passes": 1 + len(model.refinement.objectives)}


def loss_lines(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the line on a loss other than the squared one, as `summary`."""
    if figures["n_passes"] > 1:
        yield "loss", f"{figures['loss'].replace('_', ' ')}, by {figures['n_passes']} passes"


def weights_line(figures: dict[str, Any]) -> tuple[str, str]:
    """Return the line on weights of blocks, as `summary`."""
    return "blocks", "weights " + _few(f"{weight:.3g}" for weight in figures["block_weights"])


def targets_line(figures: dict[str, Any]) -> tuple[str, str]:
    """Return the line on what is predicted, as `summary`."""
    if figures["labels"] is None:
        return "targets", f"{figures['n_targets']:,}"
    return "classes", f"{len(figures['labels']):,}"


def _encoder(encoder: Encoder) -> dict[str, Any]:
    warp = encoder.preprocessing.warp
    return {
        "map": _settings(encoder.features),
        "kernel": _settings(encoder.features.kernel_),
        "n_features": encoder.n_features,
        "n_components": encoder.n_components,
        "normalize": encoder.preprocessing.normalize,
        "warp": None if warp is None else warp.kind,
        "feature_importances": None if warp is None else warp.importances.tolist(),
        "precision": precision_of(encoder.calibration),
        "tried": encoder.tried,
        "columns": None if encoder.table is None else of_columns(encoder.table),
        "target_names": list(encoder.target_names),
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


def candidate_words(name: str) -> str:
    """Return a candidate's name, scaling first, as one reads it where nothing stands above it."""
    return name if not name.startswith("none, ") else f"no scaling, {name[6:]}"


def choice_words(sums: Statistics, width: int, like: str | None) -> str:
    """Return in words what was chosen of what, or earlier, or named."""
    tried = sums.encoder.tried
    name = type(sums.encoder.features).__name__
    if tried is not None:
        name = candidate_words(tried["candidate"][0])
    if like is not None:
        return f"{width:,}, as in {like}: {name}"
    if tried is None:
        return f"{width:,}, {name}"
    return f"{width:,}, chosen of {len(tried['candidate'])}: {name}"


def of_table(columns: Columns | None) -> dict[str, list[str]]:
    """Return which columns of a table had missing values, and which are dates, as figures."""
    learnt = () if columns is None else columns.columns
    return {
        "columns_filled": [column.name for column in learnt if column.has_indicator],
        "columns_of_dates": [column.name for column in learnt if column.kind == "date"],
    }


def column_lines(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return what became of missing values of a table and of dates, if there were, as `summary`."""
    if names := figures["columns_filled"]:
        yield "filled", f"missing values of {_few(map(repr, names))}; a column each says where"
    if names := figures["columns_of_dates"]:
        later = "of later days than those of these rows the model knows nothing"
        yield "dates", f"{_few(map(repr, names))}: {later}; --x can leave columns out"


def _settings(value: Any) -> Any:
    """Return an object as its class and settings, with those of the objects inside it."""
    if isinstance(value, list | tuple):
        return [_settings(v) for v in value]
    if not isinstance(value, Parametrized):
        return value
    params = value.get_params(deep=False) | getattr(value, "code_names", {})
    return {"class": type(value).__name__} | {k: _settings(v) for k, v in params.items()}


def _stores(ledger: Ledger) -> list[dict[str, Any]]:
    return [
        {"name": ledger.names[key], "key": key, "ranges": ranges.tolist()}
        for key, ranges in ledger.ranges.items()
    ]


def summary(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the figures in words: names and texts."""
    yield "map", called(_without_kernels(figures["map"]))
    yield "kernel", called(figures["kernel"])
    yield "rows", f"{figures['n_rows']:,} of {figures['n_features']:,} columns"
    yield "features", f"{figures['n_components']:,}, {figures['precision']} sums"
    yield "normalize", figures["normalize"] or "none"
    if figures["warp"] is not None:
        how = "" if figures["normalize"] in COLUMNWISE else " (columns are not scaled one by one)"
        yield "warp", f"{figures['warp']}; most important{how}: {_columns(figures)}"
    if figures["tried"] is not None:
        names, errors = figures["tried"]["candidate"], figures["tried"]["error"]
        error = " ".join(error_words(errors[0], figures["n_targets"]))
        yield (
            "chosen",
            f"{candidate_words(names[0])}; of {len(names)} tried, {error} on rows held out",
        )
    if figures["columns"] is not None:
        yield from columns_lines(figures["columns"])
    name, text = targets_line(figures)
    known = figures["labels"] or figures["target_names"]
    yield name, text + (f": {_few(map(str, known))}" if known else "")
    if "alpha" in figures:
        if figures["codes"] is not None:
            shown = "{n_bits:,} bits, {minimum_distance} apart at least, {decode}"
            if figures["codes"]["n_bits"] == 1:
                shown = "1 bit, {decode}"
            yield "codes", shown.format(**figures["codes"])
        yield "alpha", _alphas(figures["alpha"])
        yield from loss_lines(figures)
        if figures["block_weights"] is not None:
            yield weights_line(figures)
        yield "predicts", _predicts(figures)
        yield from (("note", note) for note in figures["notes"])
        return
    if figures["n_folds"]:
        yield "folds", f"{figures['n_folds']:,}"
    if figures["is_scaled"]:
        yield "scaled", "rows count with factors: exact to rounding only"
    yield "skipped", f"{figures['n_rows_skipped']:,} rows with NaN or infinity"
    if figures["n_values_unseen"]:
        yield "unseen", f"{figures['n_values_unseen']:,} values unlike the rows looked at before"
    yield "clipped", f"{figures['n_entries_clipped']:,} entries"
    if figures["n_rows_too_long"]:
        yield "too long", f"{figures['n_rows_too_long']:,} rows, for the series of the kernel"
    if figures["unfair_columns"]:
        yield "unfair", _unfair(figures)
    for store in figures["stores"]:
        rows = _few(f"{start:,} to {stop - 1:,}" for start, stop in store["ranges"])
        yield "counted", f"rows {rows} of {store['name']}"


def _columns(figures: dict[str, Any]) -> str:
    """Return the columns of the greatest importance in words; of a table, those that it has."""
    shares = np.asarray(figures["feature_importances"])
    names = [f"column {i}" for i in range(len(shares))]
    if figures["columns"] is not None:
        columns = figures["columns"]["columns"]
        names = [column["name"] for column in columns]
        parts = np.split(shares, np.cumsum([column["n_columns"] for column in columns])[:-1])
        shares = np.array([part.sum() for part in parts])
    order = np.argsort(-shares, kind="stable")
    return _few(f"{names[i]} {shares[i]:.1%}" for i in order[:MAX_IMPORTANT].tolist())


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


def _without_kernels(settings: Any) -> Any:
    """Return the settings of a map without those of its kernels, which may be yet to be learnt."""
    if isinstance(settings, list):
        return [_without_kernels(v) for v in settings]
    if not isinstance(settings, dict):
        return settings
    return {k: _without_kernels(v) for k, v in settings.items() if k != "kernel"}


def called(settings: Any) -> str:
    """Return the settings of an object as one would call it."""
    if isinstance(settings, list):
        return f"[{', '.join(map(called, settings))}]"
    if not isinstance(settings, dict):
        return f"{settings:.4g}" if isinstance(settings, float) else repr(settings)
    given = {k: v for k, v in settings.items() if k != "class" and v is not None}
    return f"{settings['class']}({', '.join(f'{k}={called(v)}' for k, v in given.items())})"


def _few(all_words: Iterable[str]) -> str:
    words = list(all_words)
    more = [f"and {len(words) - MAX_SHOWN:,} more"] if len(words) > MAX_SHOWN else []
    return ", ".join(words[:MAX_SHOWN] + more)
