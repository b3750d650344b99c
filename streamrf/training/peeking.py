"""Rows that are looked at before a pass, to choose its features by."""

from dataclasses import replace

import numpy as np

from streamrf.errors import ParameterError
from streamrf.preprocessing import CALIBRATION_ROWS, WARPS
from streamrf.sources import Block, Source
from streamrf.training.memory import room_to_peek
from streamrf.training.settings import AUTO, Settings

PEEK_ROWS = 20_000
PEEK_BYTES = 64 << 20
FIRST_ROUND = 2000  # rows of the first trials, whatever the memory
MIN_PEEK_ROWS = 200  # fewer tell too little; a Gaussian of the median distance is taken
MAX_SPARSE = 100_000  # columns of sparse rows, of which some are made dense to choose by


def peek(source: Source, memory_limit: int | str | None = None) -> Block:
    """Return the rows that a selection looks at, fewer where a limit has no room for its trials.

    Without a limit they do not depend on what memory is free: the same rows choose the same.
    """
    n_rows, n_features = peek_rows(source.n_features), source.n_features
    if memory_limit is not None:
        room = room_to_peek(n_features, memory_limit, source.buffer_bytes, _n_targets(source))
        n_rows = min(n_rows, max(FIRST_ROUND, room))
    return source.sample(n_rows)


def _n_targets(source: Source) -> int:
    """Return how many targets a row has, if several, as far as that can be seen before a peek."""
    y = source.sample(1).y if source.seekable and source.has_targets else None
    return 0 if y is None or y.ndim == 1 else y.shape[1]


def peek_rows(n_features: int) -> int:
    """Return how many rows a selection looks at."""
    return int(np.clip(PEEK_BYTES // (8 * n_features), MIN_PEEK_ROWS, PEEK_ROWS))


def looks_far(source: Source, settings: Settings, is_new: bool) -> bool:
    """Return whether more rows are looked at than a map that is known is calibrated on.

    The first rows of a stream are all there is to look at; a file shows itself in fewer.
    """
    return is_new and (settings.is_auto or settings.warping in WARPS or not source.seekable)


def sample_rows(source: Source, settings: Settings, is_new: bool) -> int:
    """Return how many rows a map is calibrated on, at most."""
    far = looks_far(source, settings, is_new)
    return peek_rows(source.n_features) if far else CALIBRATION_ROWS


def suited(source: Source, settings: Settings) -> Settings:
    """Return the settings without the choice of a warp, which looks at dense rows, of sparse ones.

    ParameterError for a warp of sparse rows that is asked for, or for the choice of features of
    more columns than rows that are looked at have room for when they are dense.
    """
    if not source.is_sparse or (not settings.is_auto and settings.warping is None):
        return settings
    where = f"{source.where} has {source.n_features:,} columns of sparse rows"
    if settings.warping not in (None, AUTO):
        raise ParameterError(f"{where}, and warp= looks at dense ones: leave it out")
    if source.n_features > MAX_SPARSE:
        raise ParameterError(
            f"{where}, and features='auto' looks at dense ones of at most {MAX_SPARSE:,}: name a "
            "feature map (--map)"
        )
    return replace(settings, warp=None)


def tried_rows(source: Source) -> int:
    """Return how many rows features are tried on in little memory; 0 if there are too few."""
    is_few = source.n_rows is not None and source.n_rows < MIN_PEEK_ROWS
    return 0 if is_few else min(peek_rows(source.n_features), FIRST_ROUND)


def weighing(sample: Block) -> Block:
    """Return the rows of weight above 0; all where there are none, as more may come in a stream."""
    if sample.weights is None or not weighs(sample) or sample.weights.all():
        return sample
    return sample.take(np.flatnonzero(sample.weights))


def weighs(sample: Block) -> bool:
    return sample.weights is None or bool(sample.weights.any())
