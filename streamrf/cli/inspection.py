"""`streamrf info`: what a file holds."""

import os
from collections.abc import Iterator
from typing import Annotated, Any

import h5py
import hdf5plugin  # noqa: F401  registers the common filters
import numpy as np
import typer
from sklearn.base import BaseEstimator

from streamrf import storage
from streamrf.cli.base import Answer, Json, StatisticsFile, aligned, shown_bytes
from streamrf.encoder import Encoder
from streamrf.errors import CorruptFileError, FormatError
from streamrf.ledger import Ledger
from streamrf.model import Model, load_model
from streamrf.statistics import Statistics, load_statistics

MOST_SHOWN = 10  # labels, stores or ranges told to a person; --json has them all


def info(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Model, statistics or HDF5 data file.")
    ],
    as_json: Json = False,
) -> Answer:
    """Tell what a model, statistics or data file holds."""
    kind = _kind(file)
    if kind == "model":
        figures = _model(load_model(file))
    elif kind == "statistics":
        figures = _statistics(load_statistics(file))
    else:
        figures = _data(file)
    figures = {"file": file, "kind": kind, "bytes": os.path.getsize(file)} | figures
    return Answer(figures, aligned(_story(figures)), as_json)


def statistics_info(statistics: StatisticsFile, as_json: Json = False) -> Answer:
    """Tell what a statistics file holds: rows, classes, map, and the row ranges counted."""
    figures = _statistics(load_statistics(statistics))
    kind = {"file": statistics, "kind": "statistics", "bytes": os.path.getsize(statistics)}
    return Answer(kind | figures, aligned(_story(kind | figures)), as_json)


def _kind(path: str) -> str:
    """Give "model", "statistics" or "data"."""
    try:
        return storage.read_kind(path)
    except FormatError:
        if not os.path.isfile(path):
            raise
        with open(path, "rb") as file:
            ours = file.read(9) == b"streamrf "
        if ours or not h5py.is_hdf5(path):  # HDF5 may begin after a header of another program
            raise
        return "data"


def _model(model: Model) -> dict[str, Any]:
    codes = None
    if model.book is not None:
        codes = {
            "n_bits": model.book.n_bits,
            "minimum_distance": model.book.minimum_distance,
            "decode": model.book.decode,
        }
    return {
        **_encoder(model.encoder),
        "labels": None if model.labels is None else model.labels.tolist(),
        "n_targets": len(model.intercept) if model.labels is None else None,
        "codes": codes,
        "alpha": model.alpha if np.ndim(model.alpha) == 0 else model.alpha.tolist(),
        "alphas": [list(tried) for tried in model.history],
        "has_deviations": model.posterior is not None,
        "has_probabilities": model.probabilities is not None,
        "n_rows": model.n_rows,
    }


def _statistics(statistics: Statistics) -> dict[str, Any]:
    labels = statistics.labels
    return {
        **_encoder(statistics.encoder),
        "labels": None if labels is None else labels.tolist(),
        "n_targets": len(statistics.class_sums) if labels is None else None,
        "n_folds": statistics.n_folds,
        "is_scaled": statistics.is_scaled,
        "weight": float(statistics.weight),
        "n_rows": statistics.n_rows,
        "n_rows_skipped": statistics.n_skipped,
        "n_entries_clipped": statistics.n_clipped,
        "stores": _stores(statistics.ledger),
    }


def _encoder(encoder: Encoder) -> dict[str, Any]:
    return {
        "map": _settings(encoder.features),
        "kernel": _settings(encoder.features.kernel_),
        "n_features": encoder.n_features,
        "n_components": encoder.n_components,
        "normalize": encoder.preprocessing.normalize,
        "precision": "exact" if encoder.calibration.exact else "float64",
    }


def _settings(value: Any) -> Any:
    """Give an object by its class and settings, and those of the objects inside it."""
    if not isinstance(value, BaseEstimator):
        return value
    params = value.get_params(deep=False)
    return {"class": type(value).__name__} | {k: _settings(v) for k, v in params.items()}


def _stores(ledger: Ledger) -> list[dict[str, Any]]:
    return [
        {"name": ledger.names[key], "key": key, "ranges": ranges.tolist()}
        for key, ranges in ledger.ranges.items()
    ]


def _data(path: str) -> dict[str, Any]:
    """Give the datasets of an HDF5 file."""
    datasets: list[dict[str, Any]] = []

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            datasets.append(
                {
                    "name": name,
                    "shape": item.shape,
                    "dtype": _dtype(item),
                    "chunks": item.chunks,
                    "compression": item.compression,
                }
            )

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    except (OSError, RuntimeError) as error:
        raise CorruptFileError(
            f"{path} cannot be opened as an HDF5 file ({error}); it is damaged or truncated: copy "
            "or write it again"
        ) from error
    return {"datasets": datasets}


def _dtype(dataset: h5py.Dataset) -> str:
    return "string" if h5py.check_string_dtype(dataset.dtype) else str(dataset.dtype)


def _story(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Tell the figures to a person."""
    yield "file", f"{figures['file']}: {figures['kind']}, {shown_bytes(figures['bytes'])}"
    if figures["kind"] == "data":
        for dataset in figures["datasets"]:
            yield dataset["name"], _told(dataset)
        return
    yield "map", f"{_called(figures['map'])}"
    yield "rows", f"{figures['n_rows']:,} of {figures['n_features']:,} columns"
    yield "features", f"{figures['n_components']:,}, {figures['precision']} sums"
    yield "normalize", figures["normalize"] or "none"
    if figures["labels"] is None:
        yield "targets", f"{figures['n_targets']:,}"
    else:
        yield "classes", f"{len(figures['labels']):,}: {_few(map(str, figures['labels']))}"
    if figures["kind"] == "model":
        if figures["codes"] is not None:
            yield (
                "codes",
                "{n_bits:,} bits, {minimum_distance} apart at least, {decode}".format(
                    **figures["codes"]
                ),
            )
        yield "alpha", _alphas(figures["alpha"])
        yield "predicts", _predicts(figures)
        return
    if figures["n_folds"]:
        yield "folds", f"{figures['n_folds']:,}"
    if figures["is_scaled"]:
        yield "scaled", "rows count with factors: exact to rounding only"
    yield "skipped", f"{figures['n_rows_skipped']:,} rows with NaN or infinity"
    yield "clipped", f"{figures['n_entries_clipped']:,} entries"
    for store in figures["stores"]:
        rows = _few(f"{start:,} to {stop - 1:,}" for start, stop in store["ranges"])
        yield "counted", f"rows {rows} of {store['name']}"


def _alphas(alpha: float | list[float]) -> str:
    """Tell one penalty, or those of all outputs."""
    if isinstance(alpha, float):
        return f"{alpha:.6g}"
    return _few(f"{one:.6g}" for one in alpha) + ", one for each output"


def _predicts(figures: dict[str, Any]) -> str:
    """Tell what a model gives of a row."""
    if figures["labels"] is None:
        return "values and deviations" if figures["has_deviations"] else "values"
    return (
        "labels, scores and probabilities"
        if figures["has_probabilities"]
        else ("labels and scores")
    )


def _told(dataset: dict[str, Any]) -> str:
    shape = "empty" if dataset["shape"] is None else " x ".join(f"{n:,}" for n in dataset["shape"])
    parts = [shape or "one value", dataset["dtype"]]
    if dataset["chunks"] is not None:
        parts.append("chunks of " + " x ".join(f"{n:,}" for n in dataset["chunks"]))
    if dataset["compression"] is not None:
        parts.append(dataset["compression"])
    return ", ".join(parts)


def _called(settings: Any) -> str:
    """Give an object as one would call it."""
    if not isinstance(settings, dict):
        return repr(settings)
    told = {k: v for k, v in settings.items() if k != "class" and v is not None}
    return f"{settings['class']}({', '.join(f'{k}={_called(v)}' for k, v in told.items())})"


def _few(words: Any) -> str:
    words = list(words)
    more = [f"and {len(words) - MOST_SHOWN:,} more"] if len(words) > MOST_SHOWN else []
    return ", ".join(words[:MOST_SHOWN] + more)
