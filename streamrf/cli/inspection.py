"""`streamrf info`: what a file holds."""

import os
from collections.abc import Iterator
from typing import Annotated, Any

import h5py
import typer

from streamrf import storage
from streamrf.cli.base import Answer, aligned
from streamrf.cli.groups import StatisticsFile
from streamrf.display import format_bytes
from streamrf.errors import FormatError
from streamrf.models import load_model
from streamrf.report import facts
from streamrf.sources import (
    MAX_SHOWN,
    Entry,
    bare,
    browsed,
    entries_of,
    is_known,
    is_url,
    open_files,
    path_of,
)
from streamrf.statistics import load_statistics
from streamrf.storage import Fields
from streamrf.training import load_moments


def info(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Model, statistics, moments, checkpoint or data file."),
    ],
) -> Answer:
    """Show what a model, statistics, checkpoint or data file holds."""
    file = path_of(file)
    kind = _kind(file)
    if kind == "model":
        figures = facts.of_model(load_model(file))
    elif kind == "statistics":
        figures = facts.of_statistics(load_statistics(file))
    elif kind == "moments":
        figures = facts.of_moments(load_moments(file))
    elif kind == "rows":
        figures = _rows(file)
    elif kind == "checkpoint":
        figures = _checkpoint(file)
    else:
        figures = _data(file)
    return _answer(file, kind, figures)


def statistics_info(statistics: StatisticsFile) -> Answer:
    """Show what a statistics file holds: rows, classes, map, and the row ranges counted."""
    return _answer(statistics, "statistics", facts.of_statistics(load_statistics(statistics)))


def _answer(file: str, kind: str, figures: dict[str, Any]) -> Answer:
    n_bytes = figures.pop("bytes", None)
    n_bytes = os.path.getsize(file) if n_bytes is None else n_bytes
    figures = {"file": bare(file), "kind": kind, "bytes": n_bytes, **figures}
    return Answer(figures, aligned(_summary(figures)))


def _kind(path: str) -> str:
    """Return "model", "statistics", "moments", "data", or "rows" of other formats than HDF5.

    What we saved is that by whatever name, such as model.npz.
    """
    is_file = os.path.isfile(path)
    is_ours = is_file and storage.is_saved(path)
    if is_known(path) and not is_ours:
        return "rows"
    try:
        return storage.read_kind(path)
    except FormatError:
        # HDF5 may begin after a header of another program
        if is_ours or not is_file or not h5py.is_hdf5(path):
            raise
        return "data"


def _rows(path: str) -> dict[str, Any]:
    """Return the rows and columns of a file, and what becomes of them without targets."""
    source = open_files(path)
    columns = None if source.columns is None else facts.of_columns(source.columns)
    n_bytes = sum(_size(file) for file in source.files if not is_url(file))
    shape = {"n_rows": source.n_rows, "n_features": source.n_features}
    return {"bytes": n_bytes, **shape, "columns": columns}


def _size(path: str) -> int:
    """Return the bytes of a file, or of all in a folder."""
    inside = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
    return sum(map(os.path.getsize, inside or [path]))


def _checkpoint(path: str) -> dict[str, Any]:
    """Return how far a pass is."""
    fields = Fields(storage.read(path, "checkpoint"), path)
    with storage.loading(path):
        stores = fields.tree("stores").texts("names")
        return {"n_rows": fields.integer("n_done", minimum=0), "stores": stores}


def _data(path: str) -> dict[str, Any]:
    """Return the datasets of an HDF5 file."""
    with browsed(path) as file:
        return {"datasets": [_facts(name, entry) for name, entry in entries_of(file).items()]}


def _facts(name: str, entry: Entry) -> dict[str, Any]:
    """Return what is shown of a dataset, or of a group that is read as one."""
    kinds = {"sparse": f"{_dtype(entry.part)}, sparse", "categories": "categories"}
    if entry.kind == "table":
        n, shown = len(entry.columns), ", ".join(entry.columns[:MAX_SHOWN])
        kinds["table"] = f"table of {n:,} columns: {shown}{', ...' if n > MAX_SHOWN else ''}"
    return {
        "name": name,
        "shape": entry.shape if entry.kind != "table" else (entry.shape or ())[:1],
        "dtype": kinds.get(entry.kind, _dtype(entry.part)),
        "chunks": entry.part.chunks,
        "compression": entry.part.compression,
    }


def _dtype(dataset: h5py.Dataset) -> str:
    return "string" if h5py.check_string_dtype(dataset.dtype) else str(dataset.dtype)


def _summary(figures: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "file", f"{figures['file']}: {figures['kind']}, {format_bytes(figures['bytes'])}"
    if figures["kind"] == "data":
        for dataset in figures["datasets"]:
            yield dataset["name"], _described(dataset)
        return
    if figures["kind"] == "checkpoint":
        yield "counted", f"{figures['n_rows']:,} rows so far"
        yield "of", ", ".join(figures["stores"])
        return
    if figures["kind"] == "moments":
        yield from facts.moments_summary(figures)
        return
    if figures["kind"] == "rows":
        yield "rows", f"{figures['n_rows']:,} of {figures['n_features']:,} columns of numbers"
        if figures["columns"] is not None:
            yield from facts.columns_lines(figures["columns"])
        return
    yield from facts.summary(figures)


def _described(dataset: dict[str, Any]) -> str:
    shape = "empty" if dataset["shape"] is None else " x ".join(f"{n:,}" for n in dataset["shape"])
    parts = [shape or "one value", dataset["dtype"]]
    if dataset["chunks"] is not None:
        parts.append("chunks of " + " x ".join(f"{n:,}" for n in dataset["chunks"]))
    if dataset["compression"] is not None:
        parts.append(dataset["compression"])
    return ", ".join(parts)
