"""`streamrf predict`: labels or values of rows, streamed into an HDF5 file."""

import contextlib
import errno
import functools
import io
import os
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import h5py
import numpy as np
import typer

from streamrf.cli.base import (
    Answer,
    Bar,
    Data,
    Json,
    ModelFile,
    Scheduler,
    Threads,
    TlsCa,
    TlsCert,
    TlsKey,
    Workers,
    X,
    aligned,
    shown_bytes,
    writing,
)
from streamrf.engine import ClusterAddress, connected
from streamrf.errors import ParameterError, StorageError, StreamrfError
from streamrf.jit.threads import computing
from streamrf.models import Model, load_model
from streamrf.sources import HDF5Source
from streamrf.storage import Image, reason, replacing

Columns = Callable[[np.ndarray], np.ndarray]


def predict(
    model: ModelFile,
    data: Data,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="HDF5 file to write, with dataset y in the order of the rows.",
            rich_help_panel="Output",
        ),
    ],
    x: X = "X",
    scores: Annotated[
        bool,
        typer.Option(
            "--scores",
            help="Also write scores, a column for each class, and the labels of the columns.",
            rich_help_panel="Output",
        ),
    ] = False,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities",
            help="Also write probabilities, a column for each class, and the labels of the "
            "columns; for models of fit --alpha auto.",
            rich_help_panel="Output",
        ),
    ] = False,
    threads: Threads = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    as_json: Json = False,
) -> Answer:
    """Write the label or value of each row of HDF5 files to a new HDF5 file."""
    place = ClusterAddress(scheduler, workers, tls_ca, tls_cert, tls_key)
    began = time.perf_counter()
    with writing({"--output": output}, [model, *data]):
        trained = load_model(model)
        source = HDF5Source(data, x=x, y=None)
        labels = None if trained.labels is None else _storable(trained.labels)
        columns = _columns(trained, model, scores=scores, probabilities=probabilities)
        with (
            connected(place, threads) as client,
            computing(threads),
            Bar(source.n_rows) as bar,
        ):
            bar.stage("predicting")
            scored = trained.scored(source, engine=client, progress=bar.advance)
            with contextlib.closing(scored):
                _predict(trained, source, labels, columns, output, scored)
    seconds = time.perf_counter() - began
    names = ["y", *columns, "labels"] if columns else ["y"]
    figures = {
        "n_rows": source.n_rows,
        "output": output,
        "datasets": names,
        "seconds": seconds,
        "rows_per_second": source.n_rows / seconds,
    }
    story = [
        ("rows", f"{source.n_rows:,} ({source.where})"),
        ("time", f"{seconds:.1f} s, {figures['rows_per_second']:,.0f} rows/s"),
        ("written", f"{', '.join(names)} in {output}"),
    ]
    return Answer(figures, aligned(story), as_json)


def _columns(model: Model, where: str, **asked: bool) -> dict[str, Columns]:
    """Give the datasets of a column for each class, each with what makes it out of scores."""
    wanted = [name for name, is_asked in asked.items() if is_asked]
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
    source: HDF5Source,
    labels: np.ndarray | None,
    columns: dict[str, Columns],
    output: str,
    scored: Iterator[tuple[int, np.ndarray]],
) -> None:
    """Fill the file by ranges of rows as they come."""
    n_rows, n_outputs = source.n_rows, len(model.intercept)
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
            datasets = _Datasets(file, shapes)
            if columns:
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
        raise StorageError(
            f"cannot write {output}: {reason(error)}; it takes {shown_bytes(n_bytes)}, and any "
            "earlier file there is unchanged"
        ) from error


def _storable(labels: np.ndarray) -> np.ndarray:
    """Give labels as HDF5 stores them: strings as UTF-8 of fixed width."""
    if labels.dtype.kind != "U":
        return labels
    words = [word.encode("utf-8", "surrogatepass") for word in labels.tolist()]
    return np.array(words, dtype=h5py.string_dtype("utf-8", max(1, *map(len, words))))


class _Datasets:
    """HDF5 datasets of known shapes, filled a few rows at a time.

    As in `streamrf.storage`, libhdf5 lays the file out in memory and the bytes are written here,
    because a full disk makes libhdf5 end the process. The space is reserved first, so that a disk
    too small is known before the rows are read.

    Parameters
    ----------
    file : empty
    shapes : shape and dtype of each dataset
    """

    def __init__(
        self, file: io.BufferedWriter, shapes: dict[str, tuple[tuple[int, ...], np.dtype]]
    ):
        self._file = file
        self._shapes = shapes
        self._offsets: dict[str, int] = {}
        image = Image()
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_layout(h5py.h5d.CONTIGUOUS)
        plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        plan.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        with h5py.File(image, "w") as layout:
            for name, (shape, dtype) in shapes.items():
                dataset = layout.create_dataset(name, shape, dtype, dcpl=plan)
                self._offsets[name] = dataset.id.get_offset()
        self._reserve(image.length)
        self._frame(image)

    def _reserve(self, n_bytes: int) -> None:
        try:
            os.posix_fallocate(self._file.fileno(), 0, n_bytes)
        except OSError as error:  # some file systems cannot
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise

    def _frame(self, image: Image) -> None:
        """Write all bytes but those of the datasets."""
        end = 0
        for name in sorted(self._offsets, key=self._offsets.__getitem__):
            self._copy(image, end, self._offsets[name])
            shape, dtype = self._shapes[name]
            end = self._offsets[name] + int(np.prod(shape)) * dtype.itemsize
        self._copy(image, end, image.length)

    def _copy(self, image: Image, start: int, stop: int) -> None:
        image.seek(start)
        self._file.seek(start)
        self._file.write(image.read(stop - start))

    def put(self, name: str, row: int, values: Any) -> None:
        """Write the rows of a dataset from `row` on."""
        shape, dtype = self._shapes[name]
        row_bytes = int(np.prod(shape[1:])) * dtype.itemsize
        self._file.seek(self._offsets[name] + row * row_bytes)
        self._file.write(np.ascontiguousarray(values, dtype=dtype).data.cast("B"))
