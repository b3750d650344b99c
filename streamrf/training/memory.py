"""Bytes a run will need, and the block size that fits a budget; said before the first read."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

import numpy as np
import psutil

from streamrf.display import format_bytes
from streamrf.errors import MemoryBudgetError, ParameterError
from streamrf.jit.cholesky import abreast_bytes, spare_bytes
from streamrf.preprocessing import CALIBRATION_ROWS
from streamrf.solving import JOINED_ROWS, max_kept
from streamrf.statistics import ExactGram, GramSum

INTERPRETER_BYTES = 300 << 20  # Python with numpy, scipy, numba, h5py and scikit-learn loaded
BUFFER_BYTES = 32 << 20  # lanes of a panel, HDF5's chunk cache, what threads keep
SPARSE_BYTES = 256 << 20  # pieces and the rows that a map is drawn from, while dense
MAX_ROWS = 4096  # larger blocks measured no faster
MIN_ROWS = 256
# How often the outputs of rows held out, and their scores by class, are there at once; and matrices
# of outputs by outputs, as discriminants have them. Measured with thousands of classes.
OUTPUT_COPIES, SCORE_COPIES, SQUARE_COPIES = 2, 2, 5
MODELS = 14  # of penalties that are compared on rows held out, and copies of one
SAMPLE_VALUE_BYTES = 16  # of the calibration rows: as they came, scaled, and once more meanwhile
# Of a tournament and of a second look, besides the rows of each, and a value of these; measured.
PEEK_BYTES, PEEK_VALUE_BYTES = 140 << 20, 40
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


def plan(
    n_components: int,
    n_features: int,
    n_outputs: int,
    *,
    n_classes: int = 0,
    gram: type[GramSum] = ExactGram,
    in_place: bool = False,
    n_folds: int = 0,
    held_bytes: int = 0,
    scored_rows: int = 0,
    other_bytes: int = 0,
    spare_totals: int = 0,
    memory_limit: int | str | None = None,
) -> Plan:
    """Choose the block size of a pass and its solve.

    Parameters
    ----------
    n_components, n_features : widths of features and raw rows
    n_outputs : of a model: classes, bits or targets
    n_classes : that targets are summed and rows are scored by, where they are; of bits more
    gram : how products are summed
    in_place : whether no memory is needed for a factor: there is no solve, or the factor takes the
        place of the sums
    n_folds : folds that the sums are kept in, each with totals and partial sums of its own
    held_bytes : raw rows held out for the choice of alpha
    scored_rows : rows held out whose features are kept to be scored, after the last block, and
        whose outputs are compared
    other_bytes : arrays of the map, lanes of its panels and the cache of a file, where they are
        more than `BUFFER_BYTES`
    spare_totals : totals of other sums that are held next to these
    memory_limit : bytes, or a string such as "2 GiB"; None means four fifths of what is free now

    Raises
    ------
    MemoryBudgetError
        If even the smallest block does not fit; names a width that would.
    """
    limit = parse_bytes(memory_limit)
    n_spare = spare_totals * max(n_folds, 1)

    sample_bytes = CALIBRATION_ROWS * SAMPLE_VALUE_BYTES * n_features  # before there are blocks
    compared = OUTPUT_COPIES * n_outputs + SCORE_COPIES * n_classes
    answers = 8 * (scored_rows * compared + bool(scored_rows) * SQUARE_COPIES * n_outputs**2)
    n_sums = max(n_outputs, n_classes)

    def fixed_bytes(width: int) -> int:
        total = np.dtype(gram.dtype).itemsize * width * (width + 1) // 2 + 8 * width * n_sums
        return (
            INTERPRETER_BYTES
            + n_spare * total
            + max(BUFFER_BYTES, other_bytes)
            + _sum_bytes(width, n_sums, gram, in_place, n_folds)
            + held_bytes
        )

    def row_bytes(width: int) -> int:
        return width * (6 if gram.exact else 8) + 4 * n_features * 8  # 4 as floats, 2 in panels

    def compared_bytes(width: int) -> int:
        factors = abreast_bytes(width, np.dtype(gram.factor_dtype).itemsize)
        factors -= BUFFER_BYTES  # of the panels, which are no longer there
        return 8 * MODELS * width * n_outputs + max(0, factors)

    def other_times(width: int) -> int:
        kept = min(max_kept(width), 4 * width * scored_rows)
        joined = min(JOINED_ROWS, scored_rows) * row_bytes(width)
        joined -= _factor_bytes(width, gram, in_place)  # there is none then
        models = compared_bytes(width) if scored_rows else 0
        return max(sample_bytes, kept + max(answers + models, joined))

    def least_bytes(width: int) -> int:
        return fixed_bytes(width) + max(other_times(width), MIN_ROWS * row_bytes(width))

    if least_bytes(n_components) > limit:
        width = n_components
        while width > 0 and least_bytes(width) > limit:
            width = int(width * 0.98)
        fits = (
            f"n_components={width} would fit"
            if width
            else f"no width fits: Python itself takes about {INTERPRETER_BYTES >> 20} MiB"
        )
        if not width and answers > BUFFER_BYTES:
            fits += f", and outputs of the rows held out, of {n_sums:,} classes, {shown(answers)}"
        if not width and other_bytes > BUFFER_BYTES:
            fits += f", and what is held of the source and the map at once {shown(other_bytes)}"
        raise MemoryBudgetError(
            f"{n_components} components need about {shown(least_bytes(n_components))}, "
            f"above the memory limit of {shown(limit)}; {fits}, or raise memory_limit "
            "(--memory-limit)"
        )
    fixed, per_row = fixed_bytes(n_components), row_bytes(n_components)
    rows = min(MAX_ROWS, (limit - fixed) // per_row)
    return Plan(int(rows), int(fixed + max(other_times(n_components), rows * per_row)))


def room_to_peek(n_features: int, memory_limit: int | str) -> int:
    """Return how many rows a tournament has memory for."""
    room = parse_bytes(memory_limit) - INTERPRETER_BYTES - PEEK_BYTES
    return max(0, room // (PEEK_VALUE_BYTES * n_features))


def look_rows(
    n_peeked: int, n_features: int, n_targets: int, memory_limit: int | str | None = None
) -> int:
    """Return how many rows a second look has memory for, after a tournament of so many."""
    each = LOOK_VALUE_BYTES * n_features + LOOK_TARGET_BYTES * n_targets
    peeked = PEEK_VALUE_BYTES * n_features + LOOK_TARGET_BYTES * n_targets
    held = PEEK_BYTES + n_peeked * peeked + LOOK_BYTES
    return max(0, (parse_bytes(memory_limit) - INTERPRETER_BYTES - held) // each)


def worker_plan(
    n_components: int,
    n_features: int,
    n_outputs: int,
    *,
    n_classes: int = 0,
    gram: type[GramSum] = ExactGram,
    n_folds: int = 0,
    held_bytes: int = 0,
    other_bytes: int = 0,
    limits: Mapping[str, int],
) -> Plan:
    """Choose the block size of a worker, and say what it is going to hold.

    Parameters
    ----------
    n_components, n_features, n_outputs, n_classes, gram, n_folds, held_bytes, other_bytes : see
        `plan`
    limits : bytes of the workers, by their addresses; `SAFE_SHARE` of the least are used

    Raises
    ------
    MemoryBudgetError
        If even the smallest block does not fit.
    """
    worker = min(limits, key=lambda name: limits[name], default=None)
    try:
        return plan(
            n_components,
            n_features,
            n_outputs,
            n_classes=n_classes,
            gram=gram,
            in_place=True,
            n_folds=n_folds,
            held_bytes=held_bytes + DASK_BYTES,
            other_bytes=other_bytes,
            spare_totals=SPARE_TOTALS,
            memory_limit=None if worker is None else int(SAFE_SHARE * limits[worker]),
        )
    except MemoryBudgetError as error:
        if worker is None:
            raise
        raise MemoryBudgetError(
            f"the worker {worker}, whose limit of {shown(limits[worker])} is the least: {error}"
        ) from error


def _sum_bytes(
    n_components: int, n_outputs: int, gram: type[GramSum], in_place: bool, n_folds: int
) -> int:
    """Bytes of totals, partial sums, the factor and target sums."""
    total = np.dtype(gram.dtype).itemsize
    adding = total + gram.partial_bytes
    each = adding if not n_folds else total + n_folds * adding
    totals = n_components * (n_components + 1) // 2 * each
    targets = (4 + n_folds) * 8 * n_components * n_outputs
    return totals + targets + _factor_bytes(n_components, gram, in_place)


def _factor_bytes(n_components: int, gram: type[GramSum], in_place: bool) -> int:
    """Bytes of a factor, and of what it takes next to it."""
    if in_place:
        return 0
    itemsize = np.dtype(gram.factor_dtype).itemsize
    size = itemsize * n_components * (n_components + 1) // 2
    return size + spare_bytes(n_components, itemsize)


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
