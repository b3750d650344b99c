"""`streamrf predict`: labels or values of rows, streamed into a file."""

import contextlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar

import numpy as np

from streamrf.cli.base import Answer, aligned
from streamrf.cli.files import writing
from streamrf.cli.groups import ClusterOptions, Data, ModelFile, RowOptions, Threads, width_of
from streamrf.cli.options import option, wrong
from streamrf.cli.outputs import CSVOutput, Field, HDF5Output, Output, output_class
from streamrf.cli.progress import working
from streamrf.display import format_time
from streamrf.errors import ParameterError
from streamrf.models import Model, load_model
from streamrf.preprocessing import Encoder
from streamrf.sources import SeekableSource, is_url, open_files, open_text
from streamrf.storage import replacing

STANDARD = "-"  # input or output
Made = Callable[[np.ndarray], np.ndarray]  # of scores


@dataclass(frozen=True, kw_only=True)
class PredictOutput:
    """The file to write, and what it holds."""

    panel: ClassVar = "Output"
    output: str = option(
        "File to write, with y in the order of the rows: HDF5, or CSV, Parquet, Arrow or npy by "
        "its ending; - prints CSV.",
        "--output",
        "-o",
        default=MISSING,
        metavar="OUT",
        show_default=True,
    )
    scores: bool = option(
        "Also write scores, a column for each class; in HDF5 with the labels of the columns.",
        "--scores",
        default=False,
    )
    probabilities: bool = option(
        "Also write probabilities, a column for each class; for models of fit --alpha auto.",
        "--probabilities",
        default=False,
    )
    deviations: bool = option(
        "Also write standard deviations of new values; for models solved with --uncertainty.",
        "--deviations",
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
    """Write the label or value of each row of files, or of standard input (-), to a new file."""
    began = time.perf_counter()
    output, is_shown = wanted.output, wanted.output == STANDARD
    files = [model, *(name for name in data if name != STANDARD)]
    outputs = {"--output": None if is_shown else output}
    with contextlib.ExitStack() as stack:
        kind = HDF5Output if is_url(output) else output_class(output)  # URLs are refused next
        check = stack.enter_context(writing(outputs, files, start=kind.start))
        trained = load_model(model)  # before standard input, which is read once
        fields = _fields(trained, model, wanted)
        source = stack.enter_context(_rows(data, rows, trained.encoder))
        source = source.of_width(trained.n_features)
        check(source)
        with working(cluster, threads, source.n_rows) as (client, bar):
            bar.stage("predicting")
            predicted = _predicted(trained, source, fields, client, bar.advance)
            with contextlib.closing(predicted):
                if is_shown:
                    shown = io.BytesIO()
                    _fill(CSVOutput, shown, list(fields), source, trained, predicted)
                else:
                    _write(output, list(fields), source, trained, predicted)
    seconds = time.perf_counter() - began
    names = [field.name for field in fields]
    has_labels = kind is HDF5Output and len(names) > 1 and not is_shown
    names += ["labels"] * (has_labels and trained.labels is not None)
    figures: dict[str, Any] = {
        "n_rows": source.n_rows,
        "output": output,
        "datasets": names,
        "seconds": seconds,
        "rows_per_second": source.n_rows / seconds,
    }
    if is_shown:
        lines = shown.getvalue().decode().removesuffix("\n").split("\n")
        return Answer(figures | {"lines": lines}, lines, is_data=True)
    summary = [
        ("rows", f"{source.n_rows:,} ({source.where})"),
        ("time", f"{format_time(seconds)}, {figures['rows_per_second']:,.0f} rows/s"),
        ("written", f"{', '.join(names)} in {output}"),
    ]
    return Answer(figures, aligned(summary))


@contextlib.contextmanager
def _rows(data: list[str], rows: RowOptions, encoder: Encoder) -> Iterator[SeekableSource]:
    """Yield the rows of files, as those that an encoder was made of, or of standard input."""
    if STANDARD not in data:
        yield open_files(data, rows.x, width=width_of(encoder), **rows.trust())
        return
    if len(data) > 1:
        raise wrong("DATA", "- is standard input, and is read alone")
    if sys.stdin is None:
        raise wrong("DATA", "- is standard input, which is closed")
    # as it is, whatever the locale: UTF-8, perhaps after a mark of it, and lines end as they do
    stream = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
    with tempfile.TemporaryDirectory() as folder:
        source = open_text(stream, os.path.join(folder, "rows.csv"), rows.x)
        stream.detach()  # which is not ours to close
        yield source


def _fields(model: Model, where: str, wanted: PredictOutput) -> dict[Field, Made]:
    """Return what to write, each with what makes it out of scores."""
    number = np.dtype(np.float64)
    if model.labels is None or model.book is None:
        for name in ("scores", "probabilities"):
            if getattr(wanted, name):
                raise ParameterError(f"{where} gives values, not classes, and has no --{name}")
        names = _value_names(model)
        made: dict[Field, Made] = {Field("y", number, names, len(names) == 1): model.decide}
        if wanted.deviations:
            columns = tuple(f"deviation of {name}" for name in names)
            made[Field("deviations", number, columns, len(names) == 1)] = model.decide
        return made
    if wanted.deviations:
        raise ParameterError(f"{where} gives classes, not values: use --probabilities")
    labels, book, probabilities = model.labels, model.book, model.probabilities
    made = {Field("y", labels.dtype, ("y",), True): lambda scores: labels[scores.argmax(axis=1)]}
    if wanted.scores:
        names = tuple(f"score of {label}" for label in labels.tolist())
        made[Field("scores", number, names, False)] = lambda scores: scores
    if wanted.probabilities:
        if probabilities is None:
            raise ParameterError(
                f"{where} has no probabilities, which are fitted on rows held out: make it by fit "
                "--alpha auto, fit them to other rows in Python (also after solve: "
                "load_model(FILE).fit_probabilities(X, y).save(FILE)), or leave out --probabilities"
            )
        names = tuple(f"probability of {label}" for label in labels.tolist())
        made[Field("probabilities", number, names, False)] = lambda scores: probabilities.of(
            scores, book.margin
        )
    return made


def _value_names(model: Model) -> tuple[str, ...]:
    """Return names of the columns of values: those learnt from, or y, or y0, y1 and so on."""
    n_values, names = len(model.intercept), model.encoder.target_names
    if len(names) == n_values > 1:
        return names
    return ("y",) if n_values == 1 else tuple(f"y{place}" for place in range(n_values))


def _predicted(
    model: Model, source: SeekableSource, fields: dict[Field, Made], client: Any, progress: Any
) -> Generator[tuple[int, dict[str, np.ndarray]], None, None]:
    """Yield the index of the first row of blocks, and what is written of their rows."""
    options = {"engine": client, "progress": progress, "compares_columns": True}
    if any(field.name == "deviations" for field in fields):
        for row, values, deviations in model.deviated(source, **options):
            yield row, {"y": values, "deviations": deviations}
        return
    for row, scores in model.scored(source, **options):
        yield row, {field.name: made(scores) for field, made in fields.items()}


def _fill(
    kind: type[Output],
    file: Any,
    fields: list[Field],
    source: SeekableSource,
    model: Model,
    predicted: Iterator[tuple[int, dict[str, np.ndarray]]],
) -> None:
    output = kind(file, fields, source.n_rows, model.labels)
    try:
        for row, values in predicted:
            output.put(row, values)
        output.end()
    except BaseException:
        output.abandon()  # while its file is open
        raise


def _write(
    path: str,
    fields: list[Field],
    source: SeekableSource,
    model: Model,
    predicted: Iterator[tuple[int, dict[str, np.ndarray]]],
) -> None:
    """Write the file, whole or not at all."""
    kind = output_class(path)
    row_bytes = sum(
        max(field.dtype.itemsize, kind.text_bytes) * len(field.columns) for field in fields
    )
    with replacing(path, row_bytes * source.n_rows) as file:
        _fill(kind, file, fields, source, model, predicted)
