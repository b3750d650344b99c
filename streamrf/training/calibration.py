"""The start of a pass: everything that the calibration rows fix."""

import logging
from dataclasses import replace

import numpy as np

from streamrf.display import begin
from streamrf.engine import runner
from streamrf.errors import (
    BadRowError,
    DataError,
    MemoryBudgetError,
    ParameterError,
    ShapeError,
)
from streamrf.features import FeatureMap
from streamrf.jit.arrays import Array
from streamrf.models import CodeBook, needs_class_sums
from streamrf.preprocessing import CALIBRATION_ROWS, MAX_ROOT, Encoder, Moments, Sample, Warp
from streamrf.solving import LOSSES
from streamrf.sources import Block, Ledger, SparseRows, as_labels, check_rows, is_number
from streamrf.statistics import (
    BitSums,
    ClassSums,
    KFoldSums,
    Statistics,
    Sums,
    TargetSums,
    ValueSums,
)
from streamrf.training.column_moments import column_names
from streamrf.training.copies import Copies
from streamrf.training.feature_choice import Selection, choose, learnt
from streamrf.training.holdout import Holdout, limit_of
from streamrf.training.job import Job
from streamrf.training.loss_pass import loss_outputs, loss_plan
from streamrf.training.odd_columns import warn_of_named_map
from streamrf.training.odd_targets import warn_of_long
from streamrf.training.passes import Pass
from streamrf.training.peeking import looks_far, peek, weighing
from streamrf.training.second_look import more_rows
from streamrf.training.settings import AUTO
from streamrf.training.tournament import WIDTHS
from streamrf.training.wide_steps import warn_of_equal_features, warn_of_wide_steps

GROUP_SHARE = 0.1  # of the rows held out, that may be copies of one
HUGE = 1e15  # of a value, from where on powers of it may overflow

logger = logging.getLogger("streamrf")


def calibrate(job: Job, rows: Block | None = None) -> Pass:
    """Return a pass without rows: map and rounding learnt from a peek at the source, or as before.

    Parameters
    ----------
    job : what the pass is of
    rows : the peek, where it has been taken

    Raises
    ------
    StreamrfError
        Bad calibration rows, targets of the other task, rows of another width than `like` has.
    """
    settings, source = job.settings, job.source
    chooses = job.like is None and settings.is_auto
    begin("looking at rows")
    if rows is None:
        limit = job.run.memory_limit if chooses else None
        far = looks_far(source, settings, job.like is None)
        rows = peek(source, limit) if far else source.sample(CALIBRATION_ROWS)
    sample = check_rows(rows, settings.on_bad_rows)[0]
    if not len(sample.X):
        raise DataError(f"{source.where}: every calibration row holds NaN or infinity")
    _check_task(sample, settings.regression, source.where_targets)
    if settings.regression:
        warn_of_long(sample.y)
    if job.like is not None:
        encoder, earlier = job.like.encoder, job.like.moments
        moments = None if earlier is None else Moments.zero(earlier.sample, earlier.names)
        if source.n_features != encoder.n_features:
            raise ShapeError(
                f"{source.where} has {source.n_features} features, "
                f"but the statistics to continue have {encoder.n_features}"
            )
        targets = job.like.sums.zero_like().targets
        if isinstance(targets, ClassSums) and settings.classes is not None:
            targets = targets.combined(ClassSums.zero(encoder.n_components, settings.classes), 1)
    else:
        if settings.features is None:
            raise ParameterError("accumulate needs a feature map, or like=, earlier statistics")
        chosen = _chosen(job, sample) if chooses else None
        learnt_from = weighing(sample)
        features = settings.features if chosen is None else chosen.features
        begin("calibrating")
        try:
            encoder = Encoder.calibrate(
                features,  # type: ignore[arg-type] # which it checks
                learnt_from,
                normalize=settings.scaling if chosen is None else chosen.normalize,
                warp=_warp(job, sample) if chosen is None else chosen.warp,
                precision=settings.precision,
                totals=settings.totals or "float64",
                regression=settings.regression,
                random_state=settings.random_state,
                moments=job.scales,
            )
        except BadRowError as error:
            raise BadRowError(f"{sample.where}{_huge_row(learnt_from)}: {error}") from error
        warn_of_wide_steps(encoder, learnt_from.X)
        if chosen is None:
            is_scaled = settings.normalize != AUTO
            warn_of_named_map(encoder, learnt_from.X, column_names(source), is_scaled)
        else:
            warn_of_equal_features(encoder, learnt_from.X)
        if settings.class_weight is not None:
            encoder = _with_room(encoder, sample)
        moments = Moments.zero(Sample.of(sample.X), column_names(source))
        if chosen is not None and chosen.trials:
            by = {"decode": chosen.decode} if chosen.decode == "discriminant" else {}
            encoder = replace(encoder, tried=chosen.table() | by)
        encoder = encoder.of_source(source)
        targets = _empty_targets(job, encoder)
    sums = Sums(job.gram(encoder.n_components), targets)
    in_folds = KFoldSums.zero(sums, job.n_folds) if job.n_folds else sums
    statistics = Statistics(encoder, in_folds, Ledger(), moments=moments)
    pass_ = Pass(statistics, _holdout(job, sample) if settings.hold_out else None)
    if not settings.regression:
        pass_.peeked = _labels(sample)
        if job.like is None and chosen is not None and chosen.trials:
            pass_.chosen_by = np.unique(as_labels(np.asarray(learnt_from.y)))
    return pass_


def _labels(sample: Block) -> Array:
    """Return the labels that rows show; none where the pass is going to refuse them, by the row."""
    try:
        return np.unique(as_labels(np.asarray(sample.y)))
    except DataError:
        return np.empty(0)


def _holdout(job: Job, sample: Block) -> Holdout:
    """Return a holdout for rows like those of a sample."""
    n_rows, X, y = None if job.stop is None else job.stop - job.start, sample.X, sample.y
    if sample.weights is not None:
        weighs = sample.weights > 0
        n_rows = None if n_rows is None else round(n_rows * float(np.mean(weighs)))
        X, y = (X, y) if weighs.all() else (X[weighs], y[weighs])
    row_bytes = sample.X.itemsize * sample.X.shape[1]
    spread_over = n_rows if job.source.seekable else None  # not the first rows of a stream
    copies = Copies.of(X, y, spread_over, GROUP_SHARE * limit_of(row_bytes))
    if copies is not None:
        logger.info("rows repeat: copies of a row are held out together")
    return Holdout(n_rows, row_bytes, copies)


def _huge_row(sample: Block) -> str:
    """Return which row has a huge value that overflows, for a message, or ""."""
    if isinstance(sample.X, SparseRows):
        return ""
    row, column = np.unravel_index(np.abs(sample.X).argmax(), sample.X.shape)
    value = sample.X[row, column]
    if abs(float(value)) < HUGE:
        return ""
    return f", row {sample.row + int(sample.offsets[row])}, column {column} is {value:g}"


def _with_room(encoder: Encoder, sample: Block) -> Encoder:
    """Return the encoder with a unit of weights at which those of rare classes do not clip."""
    calibration = encoder.calibration
    if sample.weights is None or calibration.mean_weight is None:
        return encoder
    greatest = float(sample.weights.max()) / MAX_ROOT**2
    mean_weight = max(calibration.mean_weight, greatest)
    return replace(encoder, calibration=replace(calibration, mean_weight=mean_weight))


class Room:
    """The memory for a pass whose features are to be chosen, here and on the workers of now."""

    def __init__(self, job: Job, sample: Block) -> None:
        self._job, self._limits = job, runner(job.run).memory_limits
        # Other losses have a Gram of each output, in later passes over rows that are read again.
        refines = job.loss in LOSSES and not job.settings.regression and job.source.is_rereadable
        self._n_outputs = loss_outputs(job.settings, sample.y) if refines else 0

    def check(self, width: int) -> None:
        """Raise MemoryBudgetError if there is none for a pass of this width."""
        settings = replace(self._job.settings, features=AUTO, n_components=width)
        replace(self._job, settings=settings).plan(limits=self._limits)
        if self._n_outputs:
            job = self._job
            holds_out = job.settings.hold_out
            more = 0, holds_out, self._limits, job.gram.exact
            loss_plan(width, self._n_outputs, job.source, job.run, *more)

    def fits(self, width: int) -> bool:
        """Return whether there is memory for a pass of this width."""
        try:
            self.check(width)
        except MemoryBudgetError:
            return False
        return True


def _chosen(job: Job, sample: Block) -> Selection:
    """Return the features that suit the rows."""
    n_rows = None if job.stop is None else job.stop - job.start
    room = Room(job, sample)
    least = 1 if job.settings.kernels is not None else WIDTHS[0]  # of some, columns tell the width
    room.check(job.settings.n_components or least)  # before anything is tried
    selection = choose(
        sample,
        n_rows,
        job.settings,
        more=more_rows(job.source, n_rows, job.settings.on_bad_rows, job.run.memory_limit),
        fits=room.fits,
        moments=job.scales,
        row_shape=job.source.row_shape,
    )
    if selection.winner is not None:
        logger.info(
            "chose %s, %s features, of %s candidates by %s rows held out",
            selection.winner.candidate,
            f"{selection.n_components:,}",
            len(selection.table()["candidate"]),
            f"{selection.n_held:,}",
        )
    return selection


def _warp(job: Job, sample: Block) -> Warp | None:
    """Return the warp of rows before a map that was named."""
    settings, features = job.settings, job.settings.features
    warp = settings.warping
    if isinstance(warp, Warp):
        return warp.of_columns(column_names(job.source), job.source.where)
    if warp is None or not isinstance(features, FeatureMap):
        return None
    return learnt(
        features,
        sample,
        settings.scaling,
        warp,
        settings.warp_rounds,
        settings.regression,
        settings.random_state,
        job.scales,
    )


def _check_task(sample: Block, regression: bool, where: str) -> None:
    """Raise DataError for strings as values and fractions as labels: signs of the other task."""
    y = np.asarray(sample.y)
    if regression and y.dtype.kind == "U":
        texts = y.reshape(len(y), -1).tolist()
        rows, odd = zip(*((i, t) for i, row in enumerate(texts) for t in row), strict=True)
        first = next((k for k, text in enumerate(odd) if not is_number(text)), 0)
        raise DataError(
            f"{sample.where}, row {sample.row + int(sample.offsets[rows[first]])}: the target "
            f"{odd[first]!r} is a text, not a number; correct it, or take the row out; for classes "
            "use RandomFeatureClassifier, or leave out regression=True (--regression, --task)"
        )
    if not regression and y.dtype.kind == "f" and (y != np.floor(y)).any():
        odd = y[y != np.floor(y)][0].item()
        raise DataError(
            f"{where}: targets such as {odd!r} are not class labels; for values use "
            "RandomFeatureRegressor or regression=True (--regression, or without --task)"
        )


def _empty_targets(job: Job, encoder: Encoder) -> TargetSums:
    """Return how targets are summed: by value, by bit of an agreed book, or by class."""
    settings, width = job.settings, encoder.n_components
    if settings.regression:
        n_targets = len(encoder.calibration.target_shift)
        return ValueSums.zero(width, n_targets, encoder.calibration.exact)
    codes, labels = settings.codes, settings.labels
    if codes is not None and labels is not None:
        fewer = codes.n_outputs(len(labels)) < len(labels) and len(labels) > 2
        if fewer and not needs_class_sums(codes.decode):
            book: CodeBook = codes.book(len(labels), random_state=settings.random_state or 0)
            return BitSums.zero(width, labels, book.matrix)
    return ClassSums.zero(width, () if settings.classes is None else settings.classes)
