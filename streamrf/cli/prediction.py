"""`streamrf predict`: labels or values of rows, streamed into an HDF5 file."""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass
from typing import ClassVar

import h5py
import numpy as np
from dask.utils import format_time

from streamrf.cli.base import Answer, aligned
from streamrf.cli.files import writing
from streamrf.cli.groups import ClusterOptions, Data, ModelFile, RowOptions, Threads
from streamrf.cli.options import option
from streamrf.cli.progress import working
from streamrf.errors import ParameterError, StreamrfError
from streamrf.models import Model, load_model
from streamrf.sources import SeekableSource, open_source
from streamrf.storage import Datasets, replacing, unwritten

Columns = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class PredictOutput:
    """The file to write, and what it holds."""

    panel: ClassVar = "Output"
    output: str = option(
        "HDF5 file to write, with dataset y in the order of the rows.",
        "--output",
        "-o",
        default=MISSING,
        metavar="OUT",
        show_default=True,
    )
    scores: bool = option(
        "Also write scores, a column for each class, and the labels of the columns.",
        "--scores",
        default=False,
    )
    probabilities: bool = option(
        "Also write probabilities, a column for each class, and the labels of the columns; for "
        "models of fit --alpha auto.",
        "--probabilities",
        default=False,
    )


def predict(
    model: ModelFile,
    data: Data,
    wanted: PredictOutput,
    rows: RowOptions,
    *,
    threads: Threads = None,
    cluster: ClusterOptions,
) -> Answer:
    """Write the label or value of each row of files of data to a new HDF5 file."""
    began = time.perf_counter()
    output = wanted.output
    with writing({"--output": output}, [model, *data]):
        trained = load_model(model)
        source = open_source(data, rows.x, **rows.trust())
        columns = _columns(trained, model, wanted)
        with working(cluster, threads, source.n_rows) as (client, bar):
            bar.stage("predicting")
            scored = trained.scored(source, engine=client, progress=bar.advance)
            with contextlib.closing(scored):
                _predict(trained, source, columns, output, scored)
    seconds = time.perf_counter() - began
    names = ["y", *columns, "labels"] if columns else ["y"]
    figures = {
        "n_rows": source.n_rows,
        "output": output,
        "datasets": names,
        "seconds": seconds,
        "rows_per_second": source.n_rows / seconds,
    }
    summary = [
        ("rows", f"{source.n_rows:,} ({source.where})"),
        ("time", f"{format_time(seconds)}, {figures['rows_per_second']:,.0f} rows/s"),
        ("written", f"{', '.join(names)} in {output}"),
    ]
    return Answer(figures, aligned(summary))


def _columns(model: Model, where: str, options: PredictOutput) -> dict[str, Columns]:
    """Return the datasets of a column for each class, each with what makes it out of scores."""
    wanted = [name for name in ("scores", "probabilities") if getattr(options, name)]
    if not wanted:
        return {}
    if model.book is None:
        raise ParameterError(f"{where} gives values, not classes, and has no --{wanted[0]}")
    made: dict[str, Columns] = {"scores": lambda scores: scores}
    if "probabilities" in wanted:
        if model.probabilities is None:
            raise ParameterError(
                f"{where} has no probabilities, which are fitted on rows held out: make it by fit "
                "--alpha auto, or leave out --probabilities"
            )
        made["probabilities"] = functools.partial(model.probabilities.of, margin=model.book.margin)
    return {name: made[name] for name in wanted}


def _predict(
    model: Model,
    source: SeekableSource,
    columns: dict[str, Columns],
    output: str,
    scored: Iterator[tuple[int, np.ndarray]],
) -> None:
    """Fill the file by ranges of rows as they come."""
    n_rows, n_outputs = source.n_rows, len(model.intercept)
    labels = None if model.labels is None else _storable(model.labels)
    shapes: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
    if labels is None:
        shapes["y"] = ((n_rows, n_outputs) if n_outputs > 1 else (n_rows,), np.dtype(np.float64))
    else:
        shapes["y"] = ((n_rows,), labels.dtype)
        if columns:
            by_class = ((n_rows, len(labels)), np.dtype(np.float64))
            shapes |= dict.fromkeys(columns, by_class) | {"labels": (labels.shape, labels.dtype)}
    try:
        with replacing(output) as file:
            datasets = Datasets(file, shapes)
            if columns and labels is not None:
                datasets.put("labels", 0, labels)
            for row, closeness in scored:
                if labels is None:
                    datasets.put("y", row, model.decide(closeness))
                    continue
                datasets.put("y", row, labels[closeness.argmax(axis=1)])
                for name, made in columns.items():
                    datasets.put(name, row, made(closeness))
    except StreamrfError:
        raise
    except OSError as error:
        n_bytes = sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in shapes.values())
        raise unwritten(output, error, n_bytes) from error


def _storable(labels: np.ndarray) -> np.ndarray:
    """Return labels as HDF5 stores them: strings as UTF-8 of fixed width."""
    if labels.dtype.kind != "U":
        return labels
    words = [word.encode("utf-8", "surrogatepass") for word in labels.tolist()]
    return np.array(words, dtype=h5py.string_dtype("utf-8", max(1, *map(len, words))))
