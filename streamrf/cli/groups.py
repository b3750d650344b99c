"""Options that several commands share, and what their words stand for."""

import csv
import logging
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

import typer

from streamrf.cli.options import (
    check_word,
    construct,
    help_of,
    misused,
    option,
    option_from,
    option_name,
    option_of,
    parameter,
    wrong,
)
from streamrf.engine import ClusterAddress, RunOptions, window
from streamrf.errors import DatasetNotFoundError, ParameterError, ShapeError, StreamrfError
from streamrf.models import DECODINGS, ErrorCorrectingCodes, OneVsRest
from streamrf.preprocessing import Encoder
from streamrf.solving import check_alpha
from streamrf.sources import SeekableSource, open_files
from streamrf.training import Settings

CODES: dict[str, type[OneVsRest] | type[ErrorCorrectingCodes]] = {
    "one-vs-rest": OneVsRest,
    "error-correcting": ErrorCorrectingCodes,
}

Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...",
        help="Files or folders of HDF5, CSV, Parquet, Arrow, npy, npz, libsvm or zarr, read one "
        "after the other; patterns such as 'day*.h5', quoted, too.",
        show_default=False,
    ),
]
StatisticsFile = Annotated[
    str, typer.Argument(metavar="STATS", help="Statistics file.", show_default=False)
]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="Model file that fit wrote.")]
Threads = Annotated[int | None, parameter(help_of(RunOptions, "n_threads"), "Run", min=1)]
MemoryLimit = Annotated[
    str | None, parameter(help_of(RunOptions, "memory_limit"), "Run", metavar="SIZE")
]
Seed = Annotated[int, parameter(help_of(Settings, "random_state"), "Run", min=0)]
ModelOutput = Annotated[str | None, parameter("Model file to write.", "Output", metavar="OUT")]


logger = logging.getLogger("streamrf")


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """Rows without targets."""

    panel: ClassVar = "Data"
    x: str | None = option(
        "Dataset of rows (default: X), or columns and patterns of a table, with commas; -NAME "
        "leaves one out.",
        "--x",
    )
    allow_sparse: bool = option(
        "Read rows that a file claims and does not store.", "--allow-sparse", default=False
    )
    allow_external: bool = option(
        "Follow links to files in other folders.", "--allow-external", default=False
    )

    def __post_init__(self) -> None:
        for item in fields(self):
            if getattr(self, item.name) == "":
                raise misused(option_name(item), "is empty; give a name, or leave it out")

    @property
    def given(self) -> list[str]:
        """The options that say anything."""
        return [option_name(i) for i in fields(self) if getattr(self, i.name) != i.default]

    def trust(self) -> dict[str, Any]:
        """Return what files are allowed."""
        return {"allow_sparse": self.allow_sparse, "allow_external": self.allow_external}


@dataclass(frozen=True, kw_only=True)
class TargetRowOptions(RowOptions):
    """Rows with targets."""

    y: str | None = option("Dataset or column of targets (default: y, or the model's).", "--y")


@dataclass(frozen=True, kw_only=True)
class WeightedRowOptions(TargetRowOptions):
    """Rows with targets and perhaps weights."""

    weights: str | None = option("Dataset or column of sample weights.")
    on_bad_rows: str = option_from(
        Settings, "on_bad_rows", words=("raise", "skip"), show_default=True
    )

    def source(self, data: list[str], encoder: Encoder | None = None) -> SeekableSource:
        """Return the rows of files, as those that an encoder was made of."""

        def named(y: str | list[str]) -> SeekableSource:
            return open_files(data, self.x, y, self.weights, width_of(encoder), **self.trust())

        if self.y:
            return named(self.y)
        if encoder is not None and encoder.table is not None:
            return named(list(encoder.table.targets) or "y")
        names = () if encoder is None else encoder.target_names
        group = posixpath.dirname(self.x or "")  # of a part of a file, as of test/X
        told: StreamrfError | None = None
        for own in _places_of(names, group):
            try:
                return named(own)
            except (DatasetNotFoundError, ParameterError, ShapeError) as error:
                told = told or error
        if isinstance(told, ShapeError):  # they are there
            raise told
        for y in dict.fromkeys(("y", posixpath.join(group, "y"))):
            try:
                source = named(y)
            except DatasetNotFoundError as error:
                told = told or error
                continue
            if names:
                logger.info("targets: dataset %r, in the order %s", y, ", ".join(names))
            return source
        assert told is not None
        raise told


def width_of(encoder: Encoder | None) -> int | None:
    """Return how many columns tell the rows of a model apart; None where names do."""
    return encoder.n_features if encoder is not None and encoder.table is None else None


def _places_of(names: Sequence[str], group: str) -> list[list[str]]:
    """Return where targets of these names may be: beside the rows of a group, turned, at the top.

    Examples
    --------
    >>> _places_of(["wind"], "test"), _places_of(["wind"], ""), _places_of([], "test")
    ([['test/wind'], ['wind.T'], ['wind']], [['wind'], ['wind.T']], [])
    """
    beside = [posixpath.join(group, name) for name in names]
    tried = [beside, [f"{name}.T" for name in names], [*names]]
    return tried[: len(tried) if group else 2] if names else []


def read_rows(text: str) -> tuple[int, int | None]:
    """Return a range of rows.

    Examples
    --------
    >>> read_rows("100:200"), read_rows("5000:")
    ((100, 200), (5000, None))
    """
    match = re.fullmatch(r"(\d*):(\d*)", text.strip())
    if not match:
        raise typer.BadParameter(f"{text!r} is no range of rows such as 0:15000 or 15000:")
    return int(match[1] or 0), int(match[2]) if match[2] else None


@dataclass(frozen=True, kw_only=True)
class PassRows(WeightedRowOptions):
    """The rows of a pass."""

    rows: tuple[int, int | None] | None = option_from(
        Settings, "rows", metavar="START:STOP", read=read_rows
    )

    def n_rows(self, source: SeekableSource) -> int:
        """Return the number of rows to read."""
        start, stop = self.window(source)
        return stop - start

    def window(self, source: SeekableSource) -> tuple[int, int]:
        """Return the first row to read and the one to stop before, or raise ParameterError."""
        start, stop = window(source, self.rows)
        assert stop is not None  # files tell it
        return start, stop


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The Dask cluster that does the work, if any."""

    panel: ClassVar = "Cluster"
    scheduler: str | None = option(
        "Scheduler of a Dask cluster whose workers do it, such as tcp://host:8786.",
        metavar="ADDRESS",
    )
    workers: int | None = option("Worker processes to start here, which do it.", min=1)
    tls_ca: str | None = option("Authority of a tls:// scheduler.", metavar="FILE")
    tls_cert: str | None = option("Certificate to show it.", metavar="FILE")
    tls_key: str | None = option("Key of the certificate.", metavar="FILE")

    def address(self) -> ClusterAddress:
        """Return where the cluster is."""
        return ClusterAddress(
            self.scheduler, self.workers, self.tls_ca, self.tls_cert, self.tls_key
        )


def number_or(words: Sequence[str]) -> Callable[[str], float | str]:
    """Return a reader of numbers, or words for numbers that are learnt from rows."""

    def read(text: str) -> float | str:
        if text in words:
            return text
        try:
            return float(text)
        except ValueError:
            known = f"neither a number nor one of {words}" if words else "no number"
            raise typer.BadParameter(f"{text!r} is {known}") from None

    return read


def read_weights(text: str) -> list[float] | str:
    """Return weights of blocks, or "auto".

    Examples
    --------
    >>> read_weights("1,0.5,0"), read_weights("auto")
    ([1.0, 0.5, 0.0], 'auto')
    """
    if text.strip() == "auto":
        return "auto"
    read = number_or(())
    return [float(read(word.strip())) for word in text.split(",")]


@dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """Weights of the blocks of a map."""

    panel: ClassVar = "Targets"
    block_weights: list[float] | str | None = option(
        "Factors of the kernels of the map's blocks, one for each --gamma or degree of maclaurin "
        "(default: 1); auto: the best on rows left out.",
        metavar="auto|NUMBER,...",
        read=read_weights,
    )


def words_of(text: str) -> list[str]:
    """Return words with commas between them; one with a comma or quotes is in double quotes."""
    try:
        return next(csv.reader([text], skipinitialspace=True))
    except csv.Error:
        raise typer.BadParameter(f"{text!r} is no list of words with commas, in one line") from None


def read_class_weight(text: str) -> str | dict[str, float]:
    """Return weights of classes.

    Examples
    --------
    >>> read_class_weight("balanced"), read_class_weight("spam=5, ham=1")
    ('balanced', {'spam': 5.0, 'ham': 1.0})
    """
    if text == "balanced":
        return text
    found = {}
    for part in words_of(text):
        label, equals, number = part.rpartition("=")
        if label in found:
            raise typer.BadParameter(f"{label!r} is given two weights; give one")
        try:
            found[label] = float(number)
        except ValueError:
            equals = ""
        if not equals or not 0 <= found[label] < float("inf"):
            raise typer.BadParameter(f"{part!r} is neither balanced nor a LABEL=NUMBER")
    return found


@dataclass(frozen=True, kw_only=True)
class CodeOptions:
    """Target codes of classes."""

    panel: ClassVar = "Targets"
    codes: str | None = option_from(Settings, "codes", words=CODES)
    bits: int | None = option("Bits of error-correcting codes.", min=1)
    decode: str | None = option(
        "How outputs name a class (default: euclidean); auto, of a pass: another where rows held "
        "out clearly err less by it.",
        words=DECODINGS,
    )
    class_weight: str | dict[str, float] | None = option_from(
        Settings, "class_weight", metavar="balanced|LABEL=NUMBER,...", read=read_class_weight
    )

    def made(self, regression: bool = False) -> OneVsRest | ErrorCorrectingCodes | None:
        """Return the codes, None where nothing was given.

        Raises
        ------
        typer.BadParameter
            If they are for values, or a setting is none of theirs.
        """
        given = [name for name in ("codes", "bits", "decode") if getattr(self, name) is not None]
        if not given:
            return None
        if regression:
            options = ", ".join(map(option_of, given))
            raise wrong(options, "target codes are for classes; leave them out with --regression")
        word = self.codes or "one-vs-rest"
        kind = CODES[word]
        if self.decode is not None:
            check_word(kind.decodings, self.decode, "--decode")
        make: Callable[..., OneVsRest | ErrorCorrectingCodes] = kind
        return construct(make, f"--codes {word}", {"n_bits": self.bits, "decode": self.decode})


def read_seconds(text: str) -> float:
    """Return the seconds that a text stands for.

    Examples
    --------
    >>> read_seconds("300s"), read_seconds("1.5 h"), read_seconds("0")
    (300.0, 5400.0, 0.0)
    """
    from dask.utils import parse_timedelta  # not at the start of every command

    try:
        seconds = float(parse_timedelta(text))
    except (ValueError, KeyError, IndexError, OverflowError):
        seconds = -1.0
    if seconds < 0:
        raise typer.BadParameter(f"{text!r} is no time such as 300s, 5m or 1h")
    return seconds


def read_penalty(text: str) -> float | str:
    """Return a penalty, or "auto"."""
    if text == "auto":
        return text
    try:
        alpha = float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither auto nor a number") from None
    check_alpha(alpha)  # now, not after the pass
    return alpha


def several(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader of one value, or of a tuple of values with commas between them."""

    def read_all(text: str) -> Any:
        values = tuple(read(word.strip()) for word in text.split(","))
        return values[0] if len(values) == 1 else values

    return read_all
