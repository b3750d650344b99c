"""Bytes a run will need, and the block size that fits a budget; said before the first read."""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
import psutil

from streamrf.display import format_bytes
from streamrf.engine import usual_rows
from streamrf.errors import MemoryBudgetError, ParameterError, warn
from streamrf.features import FeatureMap
from streamrf.jit.arrays import Array
from streamrf.jit.cholesky import abreast_bytes, spare_bytes
from streamrf.jit.threads import computing
from streamrf.models import Codes, OneVsRest, needs_class_sums
from streamrf.preprocessing import CALIBRATION_ROWS, DRAW_BYTES
from streamrf.solving import JOINED_ROWS, max_kept
from streamrf.statistics import ExactGram, GramSum

INTERPRETER_BYTES = 350 << 20  # Python with numpy, scipy, numba, h5py, scikit-learn and pandas
BUFFER_BYTES = 32 << 20  # lanes of a panel, HDF5's chunk cache, what threads keep
QUANTILE_BYTES = 4 << 10  # of each column, while its ranks are learnt and kept
SPARSE_BYTES = 256 << 20  # pieces and the rows that a map is drawn from, while dense
MIN_ROWS = 256  # of a block
# How often the outputs of rows held out, and their scores by class, are there at once; and matrices
# of outputs by outputs, as discriminants have them. Measured with thousands of classes.
OUTPUT_COPIES, SCORE_COPIES, SQUARE_COPIES = 2, 2, 5
WORD_BYTES = 10  # of a bit of a code book: a float64, and two bytes while the book is made
TARGET_COPIES = 6  # of the targets of a block, that are values: as they came, rounded, halved
LABEL_COPIES = 5  # of labels of a block that are text: as they came, sorted, looked for
SEARCHED_BYTES, DISCRIMINANT_BYTES = 40, 80  # of one of a book that is searched for, or learnt
BIT_COPIES = 4  # of the codewords of a block's rows, where sums are by bit
MODELS = 14  # of penalties that are compared on rows held out, and copies of one
SAMPLE_VALUE_BYTES = 16  # of the calibration rows: as they came, scaled, and once more meanwhile
LATER_VALUE_BYTES = 4  # of more than these: in the blocks that a stream keeps for the pass
# Of a tournament and of a second look, besides the rows of each, and a value of these; measured.
PEEK_BYTES, PEEK_VALUE_BYTES = 140 << 20, 40
CHOICE_BYTES = 40 << 20  # of compiled loops of the maps that are tried, which stay
PEEK_COLUMN_BYTES = 24 << 10  # of each column: maps of a tournament, where columns are many
LOOK_BYTES, LOOK_VALUE_BYTES, LOOK_TARGET_BYTES = 120 << 20, 8, 32
SAFE_SHARE = 0.6  # of a worker's memory, above which Dask may spill
DASK_BYTES = 100 << 20  # distributed itself, in a worker
# Totals that a worker holds next to those of the shard it adds up: two that are merged, the sum of
# them, and one on its way.
SPARE_TOTALS = 4


@dataclass(frozen=True)
class Plan:
    """What a run is going to hold.

    Parameters
    ----------
    block_rows : rows of a block
    total_bytes : estimate of the peak resident memory
    """

    block_rows: int
    total_bytes: int


@dataclass(frozen=True)
class Sizes:
    """Sizes that the memory of a pass and its solve grows with.

    Parameters
    ----------
    n_components, n_features : widths of features and raw rows
    n_outputs : of a model: classes, bits or targets
    n_classes : that targets are summed and rows are scored by, where they are; of bits more
    n_rows : of the source, or an upper bound; None if unknown
    gram : how products are summed
    in_place : whether no memory is needed for a factor: there is no solve, or the factor takes the
        place of the sums
    n_folds : folds that the sums are kept in, each with totals and partial sums of its own
    held_bytes : raw rows held out for the choice of alpha
    scored_rows : rows held out whose features are kept to be scored, after the last block, and
        whose outputs are compared
    peeked_rows : rows that features are chosen by, at least; 0 where they are known
    drawing_bytes : while the map is drawn, before there are sums
    sample_rows : rows that the map is calibrated on
    other_bytes : arrays of the map, lanes of its panels and the cache of a file, where they are
        more than `BUFFER_BYTES`
    spare_totals : totals of other sums that are held next to these
    bit_bytes : of each bit of a code book while a model is made of the sums, 0 if none is; see
        `bit_bytes`
    label_bytes : of a label that is text
    """

    n_components: int
    n_features: int
    n_outputs: int
    n_classes: int = 0
    n_rows: int | None = None
    gram: type[GramSum] = ExactGram
    in_place: bool = False
    n_folds: int = 0
    held_bytes: int = 0
    scored_rows: int = 0
    peeked_rows: int = 0
    sample_rows: int = CALIBRATION_ROWS
    drawing_bytes: int = 0
    other_bytes: int = 0
    spare_totals: int = 0
    bit_bytes: int = 0
    label_bytes: int = 0

    @property
    def n_values(self) -> int:
        """Targets of a row that are values."""
        return 0 if self.n_classes else self.n_outputs

    @property
    def answer_bytes(self) -> int:
        """Bytes of outputs of rows held out and what decides on them, or of the code book alone."""
        most = max(self.n_classes, self.n_outputs) if self.n_classes else 0
        book = self.bit_bytes * self.n_outputs * most
        compared = OUTPUT_COPIES * self.n_outputs + SCORE_COPIES * self.n_classes
        squares = bool(self.scored_rows) * SQUARE_COPIES * self.n_outputs**2
        return max(book, 8 * (self.scored_rows * compared + squares))

    @property
    def fixed_bytes(self) -> int:
        """Bytes that are there all the time."""
        total = np.dtype(self.gram.dtype).itemsize * self._n_products
        spare = total + 8 * self.n_components * self._n_sums
        return (
            self.python_bytes
            + self.spare_totals * max(self.n_folds, 1) * spare
            + max(BUFFER_BYTES, self.other_bytes)
            + self._sum_bytes
            + self.held_bytes
        )

    @property
    def python_bytes(self) -> int:
        """Bytes of Python, of what it has loaded and of compiled loops."""
        return INTERPRETER_BYTES + (CHOICE_BYTES if self.peeked_rows else 0)

    @property
    def row_bytes(self) -> int:
        """Bytes of each row of a block."""
        features = self.n_components * (6 if self.gram.exact else 8)  # 4 as floats, 2 in panels
        n_bits = self.n_outputs if self.n_outputs < self.n_classes else 0
        targets = TARGET_COPIES * self.n_values + BIT_COPIES * n_bits
        labels = LABEL_COPIES * self.label_bytes
        return features + labels + 8 * (4 * self.n_features + targets)

    @property
    def most_rows(self) -> int:
        """Rows of the largest block."""
        return usual_rows(self.row_bytes)

    @property
    def blockless_bytes(self) -> int:
        """Bytes of the most that is there while there are no blocks."""
        value_bytes = SAMPLE_VALUE_BYTES + LATER_VALUE_BYTES * (self.sample_rows > CALIBRATION_ROWS)
        column = value_bytes * self.clipped(self.sample_rows)
        if self.peeked_rows:
            tried = PEEK_COLUMN_BYTES + PEEK_VALUE_BYTES * self.clipped(self.peeked_rows)
            column = max(column, tried)
        sample = column * self.n_features + max(0, self.drawing_bytes - self._sum_bytes)
        kept = min(max_kept(self.n_components), 4 * self.n_components * self.scored_rows)
        joined = min(JOINED_ROWS, self.scored_rows) * self.row_bytes
        if not self.in_place:  # of the factor, what a later one in float32 takes over stays
            joined -= self._factor_bytes - 4 * self._n_products
        models = self._compared_bytes if self.scored_rows else 0
        return max(sample, kept + max(self.answer_bytes + models, joined))

    @property
    def rows_bytes(self) -> int:
        """Bytes of rows: of the smallest block, or what is there without blocks if that is more."""
        return max(self.blockless_bytes, self.clipped(MIN_ROWS) * self.row_bytes)

    @property
    def min_bytes(self) -> int:
        """Bytes of a run with the smallest blocks."""
        return self.fixed_bytes + self.rows_bytes

    def of_width(self, width: int) -> "Sizes":
        """Return the sizes with fewer components, which are drawn by smaller matrices."""
        drawing_bytes = self.drawing_bytes * width**2 // self.n_components**2
        return replace(self, n_components=width, drawing_bytes=drawing_bytes)

    def clipped(self, n_rows: int) -> int:
        """Return so many rows, or as many as there are."""
        return n_rows if self.n_rows is None else min(n_rows, self.n_rows)

    @property
    def _n_products(self) -> int:
        return self.n_components * (self.n_components + 1) // 2

    @property
    def _n_sums(self) -> int:
        return max(self.n_outputs, self.n_classes)

    @property
    def _compared_bytes(self) -> int:
        """Bytes of models that are compared, and of factors side by side."""
        factors = abreast_bytes(self.n_components, np.dtype(self.gram.factor_dtype).itemsize)
        factors -= BUFFER_BYTES  # of the panels, which are no longer there
        return 8 * MODELS * self.n_components * self.n_outputs + max(0, factors)

    @property
    def _sum_bytes(self) -> int:
        """Bytes of totals, partial sums, the factor and target sums."""
        total = np.dtype(self.gram.dtype).itemsize
        adding = total + self.gram.partial_bytes
        each = adding if not self.n_folds else total + self.n_folds * adding
        targets = (4 + self.n_folds) * 8 * self.n_components * self._n_sums
        return self._n_products * each + targets + self._factor_bytes

    @property
    def _factor_bytes(self) -> int:
        """Bytes of a factor, and of what it takes next to it."""
        if self.in_place:
            return 0
        itemsize = np.dtype(self.gram.factor_dtype).itemsize
        return itemsize * self._n_products + spare_bytes(self.n_components, itemsize)


def plan(sizes: Sizes, memory_limit: int | str | None = None) -> Plan:
    """Choose the block size of a pass and its solve.

    Parameters
    ----------
    sizes : that their memory grows with
    memory_limit : bytes, or a string such as "2 GiB"; None means four fifths of what is free now

    Raises
    ------
    MemoryBudgetError
        If even the smallest block does not fit; names a width that would.
    """
    limit = parse_bytes(memory_limit)
    if sizes.min_bytes > limit:
        raise MemoryBudgetError(_refusal(sizes, limit))
    rows = int(min(sizes.most_rows, (limit - sizes.fixed_bytes) // sizes.row_bytes))
    most = max(sizes.blockless_bytes, sizes.clipped(rows) * sizes.row_bytes)
    return Plan(max(rows, MIN_ROWS), sizes.fixed_bytes + most)


def drawing_bytes(
    features: FeatureMap, n_features: int, n_rows: int | None, n_threads: int | None
) -> int:
    """Return the bytes that a map takes while it is drawn from rows, as many as there are."""
    most = min(CALIBRATION_ROWS, DRAW_BYTES // (4 * n_features))
    with computing(n_threads):
        return features.draw_bytes(most if n_rows is None else min(most, n_rows), n_features)


def bit_bytes(codes: Codes, solves: bool) -> int:
    """Return the bytes of each bit of a book, and of what decides, whether or not a run solves.

    Books that are searched for may be made before the pass; see `BitSums`.
    """
    if codes is not None and needs_class_sums(codes.decode):
        return DISCRIMINANT_BYTES if solves else 0
    if codes is None or isinstance(codes, OneVsRest):
        return WORD_BYTES if solves else 0
    return SEARCHED_BYTES


def label_bytes(labels: Array | None) -> int:
    """Return the bytes of a label that is text; others are counted as numbers are."""
    return 0 if labels is None or labels.dtype.kind not in "SU" else labels.itemsize


@contextmanager
def only_told(why: str) -> Iterator[None]:
    """Warn of a plan that does not fit and say why, where it is too late to refuse."""
    try:
        yield
    except MemoryBudgetError as error:
        warn(f"{why}, so what follows may take more memory than is allowed: {error}")


def _refusal(sizes: Sizes, limit: int) -> str:
    """Return that a run does not fit, and the width or the limit that would."""
    width = sizes.n_components
    while width > 0 and sizes.of_width(width).min_bytes > limit:
        width = int(width * 0.98)
    fits = f"n_components={width} would fit"
    if not width:
        fits = f"no width fits, as Python itself takes about {sizes.python_bytes >> 20} MiB"
        if sizes.answer_bytes > BUFFER_BYTES:
            n_sums = max(sizes.n_outputs, sizes.n_classes)
            kind = "classes" if sizes.n_classes else "outputs"
            what = "outputs of the rows held out" if sizes.scored_rows else "codewords"
            fits += f", and {what}, of {n_sums:,} {kind}, "
            fits += shown(sizes.answer_bytes)
        of_rows = replace(sizes.of_width(1), n_outputs=1, n_classes=0).rows_bytes
        if of_rows > BUFFER_BYTES:
            fits += f", and rows of {sizes.n_features:,} columns {shown(of_rows)}"
        if sizes.other_bytes > BUFFER_BYTES:
            fits += ", and what is held of the source and the map at once "
            fits += shown(sizes.other_bytes)
    needed, before = shown(sizes.min_bytes), ", or" if width else ":"
    return (
        f"{sizes.n_components} components need about {needed}, above the memory limit of "
        f"{shown(limit)}; {fits}{before} raise memory_limit (--memory-limit)"
    )


def room_to_peek(
    n_features: int, memory_limit: int | str, buffer_bytes: int = 0, n_targets: int = 0
) -> int:
    """Return how many rows a tournament has memory for, next to what the source holds."""
    room = parse_bytes(memory_limit) - INTERPRETER_BYTES - PEEK_BYTES
    room -= max(0, buffer_bytes - BUFFER_BYTES)
    return max(0, room // (PEEK_VALUE_BYTES * n_features + LOOK_TARGET_BYTES * n_targets))


def look_rows(
    n_peeked: int, n_features: int, n_targets: int, memory_limit: int | str | None = None
) -> int:
    """Return how many rows a second look has memory for, after a tournament of so many."""
    each = LOOK_VALUE_BYTES * n_features + LOOK_TARGET_BYTES * n_targets
    peeked = PEEK_VALUE_BYTES * n_features + LOOK_TARGET_BYTES * n_targets
    held = PEEK_BYTES + n_peeked * peeked + LOOK_BYTES
    return max(0, (parse_bytes(memory_limit) - INTERPRETER_BYTES - held) // each)


def worker_plan(sizes: Sizes, limits: Mapping[str, int]) -> Plan:
    """Choose the block size of a worker, and say what it is going to hold.

    Parameters
    ----------
    sizes : of the run; a worker solves nothing, chooses no features and scores no rows
    limits : bytes of the workers, by their addresses; `SAFE_SHARE` of the least are used

    Raises
    ------
    MemoryBudgetError
        If even the smallest block does not fit.
    """
    worker = min(limits, key=lambda name: limits[name], default=None)
    own = replace(
        sizes,
        in_place=True,
        held_bytes=sizes.held_bytes + DASK_BYTES,
        scored_rows=0,
        peeked_rows=0,
        spare_totals=SPARE_TOTALS,
        bit_bytes=sizes.bit_bytes * (sizes.bit_bytes == SEARCHED_BYTES),  # in totals by bit
    )
    try:
        return plan(own, None if worker is None else int(SAFE_SHARE * limits[worker]))
    except MemoryBudgetError as error:
        if worker is None:
            raise
        raise MemoryBudgetError(
            f"the worker {worker}, whose limit of {shown(limits[worker])} is the least: {error}"
        ) from error


_SIZE = re.compile(r"\s*[-+]?\.?\d\S*\s*[a-zA-Z]*\s*")  # more than `dask.utils` asks for


def parse_bytes(limit: int | float | str | None) -> int:
    """Return a memory limit in bytes: of 900e6, "900MB", "2 GiB"; None is 4/5 of what is free."""
    if limit is None:
        return int(psutil.virtual_memory().available * 0.8)
    from dask.utils import parse_bytes as parsed  # not at the start of every program

    n_bytes: float
    try:
        if isinstance(limit, Real) and not isinstance(limit, bool):
            n_bytes = float(limit)
        elif isinstance(limit, str) and _SIZE.fullmatch(limit):
            n_bytes = parsed(limit)
        else:
            raise ValueError
    except (ValueError, OverflowError):
        raise ParameterError(
            f"memory_limit must be bytes or a string such as '900MB' or '2 GiB', got {limit!r}"
        ) from None
    if not 0 < n_bytes < math.inf:
        raise ParameterError(f"memory_limit must be positive and finite, got {limit!r}")
    return int(n_bytes)


def shown(n_bytes: float) -> str:
    """Return a size in words."""
    return format_bytes(int(n_bytes))
