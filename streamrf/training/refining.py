"""Other losses than the squared one: Newton steps from the one-pass solution, each a pass."""

import contextlib
import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamrf.engine import Reading, RunOptions, check_run, fold
from streamrf.errors import ConsumedError, ParameterError, SolveError, check_kind
from streamrf.jit.arrays import Floats
from streamrf.jit.threads import computing
from streamrf.models import (
    Model,
    OneVsRest,
    Probabilities,
    Refinement,
    make_decoder,
    needs_class_sums,
)
from streamrf.preprocessing import CALIBRATION_ROWS, ROOT_LEVELS
from streamrf.solving import (
    LOSSES,
    MAX_STEP,
    HeldOut,
    Loss,
    Trial,
    check_loss,
    held_scores,
    is_above,
    line_step,
    tried,
)
from streamrf.sources import (
    Source,
    as_rows,
    check_each_once,
    check_rows,
    require_source,
    reread,
    warn_of_unseen,
)
from streamrf.statistics import LossSums
from streamrf.training.copies import n_distinct
from streamrf.training.decoding import is_auto_decode
from streamrf.training.finishing import MIN_HELD, Codes
from streamrf.training.job import Job
from streamrf.training.loss_pass import (
    NOTHING_HELD,
    EncodedRows,
    HeldRows,
    LossPass,
    encoder_plan,
    loss_outputs,
)
from streamrf.training.passes import Pass
from streamrf.training.settings import check_rows_given

TOLERANCE = 1e-6  # of the objective, which a step must promise to be worth another pass
LONG_STEP = 0.05  # of the objective, which a step must promise to be made longer than Newton's
MAX_DECADES = 10  # that a step may move the penalty, where it is to be chosen

logger = logging.getLogger("streamrf")


@dataclass(frozen=True)
class _Newton:
    """Newton steps from the coefficients of a model.

    Parameters
    ----------
    model : at whose coefficients the sums were taken
    loss, sums : of all rows but those held out, or of all
    sample : rows that steps are measured by
    """

    model: Model
    loss: Loss
    sums: LossSums
    sample: EncodedRows

    @property
    def _step(self) -> Floats:
        """Return the unit of each coefficient, see `Normal`."""
        encoder = self.model.encoder
        scales = encoder.block_scales(self.model.block_weights)
        return encoder.calibration.step * np.sqrt(encoder.calibration.mean_weight or 1.0) * scales

    def objectives(self, alphas: Floats) -> Floats:
        """Return the objective of each output, in units of a row of mean weight."""
        coef = self.model.coef / self._step
        return self.sums.losses() + alphas * np.square(coef).sum(axis=1)

    def moved(self, alphas: Floats, tells: bool = False) -> tuple[Model, float]:
        """Return the model after a step, and the greatest share of an objective it promises.

        Parameters
        ----------
        alphas : a penalty for each output
        tells : whether to warn of digits that are not right, of the first output

        Raises
        ------
        SolveError
            If a penalised Gram does not factor.
        """
        model, step = self.model, self._step
        moves, shifts = np.empty_like(model.coef), np.empty_like(model.intercept)
        slopes = np.empty(len(shifts))
        for k, alpha in enumerate(alphas):
            normal = self.sums.newton(k, alpha, model.coef[k], step, self.loss)
            if not normal.weight:  # every row is beyond the margin: only the penalty is left
                moves[k], shifts[k] = -model.coef[k], 0.0
            else:
                v, b = normal.ridge(alpha / self.loss.greatest, tells=tells and k == 0)
                moves[k], shifts[k] = v[0], b[0] * ROOT_LEVELS
            downhill = normal.moments[0] @ moves[k] + normal.totals[0] * shifts[k] / ROOT_LEVELS
            slopes[k] = -downhill * self.loss.greatest
        promised = -slopes / self.objectives(alphas)
        bends = alphas * np.square(moves / step).sum(axis=1)
        longest = np.where(promised > LONG_STEP, MAX_STEP, 1.0)
        lengths = self._lengths(moves, shifts, np.stack((slopes, bends, longest)))
        coef = model.coef + lengths[:, np.newaxis] * moves
        moved = replace(model, coef=coef, intercept=model.intercept + lengths * shifts)
        return replace(moved, alpha=_as_alpha(alphas)), float(promised.max())

    def _lengths(self, moves: Floats, shifts: Floats, known: Floats) -> Floats:
        """Return how far to go along each output's step, by the sample and by what is `known`."""
        sample = self.sample
        margins = sample.signs * sample.outputs(self.model.coef, self.model.intercept)
        changes = sample.signs * sample.outputs(moves, shifts)
        squares = np.square(sample.roots)
        weights = squares * (self.sums.weight / squares.sum())
        columns = zip(margins.T, changes.T, *known, strict=True)
        return np.array(
            [line_step(m, c, weights, s, b, self.loss, longest) for m, c, s, b, longest in columns]
        )


@dataclass(frozen=True)
class _Step:
    """What a reading and a Newton step have given.

    Parameters
    ----------
    model : after the step, of all rows
    fair : one that the rows held out had no part in, where they choose
    objective : before the step
    is_last : whether another step promises next to nothing
    n_unseen : cells of tables unlike those that columns were learnt from
    """

    model: Model
    fair: Model
    objective: float
    is_last: bool
    n_unseen: int


def refine(
    model: Model,
    source: Source,
    loss: str = "squared_hinge",
    *,
    max_passes: int = 4,
    held: HeldRows = NOTHING_HELD,
    rows: tuple[int, int | None] = (0, None),
    on_bad_rows: str = "raise",
    run: RunOptions | None = None,
) -> Model:
    """Refine a classifier to another loss, by Newton steps of one pass each.

    Each output k minimises ``sum_i w_i loss(t_ik f_k(x_i)) + alpha |c_k|^2``, with the codes t of
    +-1 and the intercept not penalised: with `alpha` of ``1 / (2 C)`` what `LinearSVC` and
    `LogisticRegression` minimise one against the rest. A pass sums slopes, and for each output the
    Gram of the rows inside the margin ("squared_hinge") or weighed by their curvature ("logistic"),
    in integers: the same bytes for any blocks, threads and workers.

    Parameters
    ----------
    model : of classes, as a one-pass fit solves it, on the same rows; outputs of another loss teach
        no discriminants, so the nearest codeword names the class
    source : the rows, with labels; read up to `max_passes` times
    loss : "squared_hinge", ``max(0, 1 - m)^2``, or "logistic", ``log(1 + exp(-m))``
    max_passes : readings at most; fewer where a step promises less than a millionth
    held : rows held out, by which the penalty is chosen anew at every step where 10 or more of
        them weigh; they then join
    rows : ``(start, stop)``, the only rows to read
    on_bad_rows : "raise" or "skip" rows with NaN or infinity
    run : how it is done: threads, memory, cluster

    Returns
    -------
    Model, with `refinement`: the loss, and the objective found by each pass; without the history
    and the notes of the choice by the squared loss, but that too few rows are held out to choose by

    Raises
    ------
    ParameterError
        A model of values, or a loss that does not exist.
    DataError
        Rows with weights where the model was summed without, or the other way round; a reading
        of more or fewer rows than one before.
    ConsumedError
        A source that can be read once.
    MemoryBudgetError
        If the Grams of all outputs do not fit.
    """
    refined, n_unseen = _refined(model, source, loss, max_passes, held, rows, on_bad_rows, run)
    warn_of_unseen(n_unseen)
    return refined


def _refined(
    model: Model,
    source: Source,
    loss: str,
    max_passes: int,
    held: HeldRows,
    rows: tuple[int, int | None],
    on_bad_rows: str,
    run: RunOptions | None,
) -> tuple[Model, int]:
    """Return the model of `refine`, and the cells that are unlike those its columns know."""
    require_source(source)
    check_each_once(source)
    check_rows_given(rows)
    check_kind("held", held, HeldRows, "HeldRows")
    check_run(run)
    kind, model = _checked(model, source, loss), _by_outputs(model)
    _check_passes(max_passes)
    run = run or RunOptions()
    source = model.encoder.adapted(reread(source), model.labels)
    sampled = check_rows(source.sample(CALIBRATION_ROWS), on_bad_rows)[0]
    encoder, n_outputs, holds_out = model.encoder, len(model.coef), bool(held.rows)
    planned = encoder_plan(encoder, n_outputs, source, run, holds_out, model.labels)
    reading = Reading(source, *rows, planned.block_rows, on_bad_rows, planned.total_bytes)
    with computing(run.n_threads):
        sample = EncodedRows.of(model, as_rows(sampled), sampled.where)
    held_out = HeldOut(held.rows, model.encoder, n_distinct(held.rows, held.copies))
    chooses = held_out.n_rows >= MIN_HELD and not held_out.is_of_one_class
    found: list[float] = []

    def step(model: Model) -> _Step:
        """Read the rows once and take a Newton step; the sums are gone before the next."""
        empty = LossPass(model, kind, held.share, held.copies)
        pass_ = fold(reading, empty, LossPass.update, run)
        with computing(run.n_threads):
            newton = _Newton(model, kind, pass_.sums, sample)
            alphas = np.broadcast_to(model.alpha, len(model.coef)).astype(np.float64)
            before, fair = alphas, model
            if chooses:
                fair = _chosen(newton, float(alphas.mean()), held_out).model
                alphas = np.full(len(alphas), float(fair.alpha))
            for part in held.rows:
                pass_.add(part, "the rows held out")
            unit = model.encoder.calibration.mean_weight or 1.0
            objective = unit * float(newton.objectives(alphas).sum())
            moved, promised = newton.moved(alphas, tells=True)
        is_last = np.array_equal(alphas, before) and promised < TOLERANCE
        return _Step(moved, fair, objective, is_last, pass_.sums.n_unseen)

    for _ in range(max_passes):
        taken = step(model)
        model = taken.model
        found.append(taken.objective)
        logger.info("%s loss: objective %.8g, alpha %s", loss, found[-1], model.alpha)
        if taken.is_last:
            break
    has_too_few = model.probabilities is not None and model.probabilities.n_rows == 0
    notes = model.notes if has_too_few and not chooses else ()
    refinement = Refinement(loss, tuple(found))
    model = replace(model, refinement=refinement, history=(), notes=notes)  # none of the squared
    if chooses:
        model = replace(model, probabilities=_probabilities(taken.fair, held_out))
    return model, taken.n_unseen


def _check_passes(max_passes: Any) -> None:
    if not (isinstance(max_passes, int | np.integer) and max_passes > 0):
        raise ParameterError(f"max_passes must be an integer of at least 1, got {max_passes!r}")


def _checked(model: Model, source: Source, loss: str) -> Loss:
    """Return the loss, or raise what `refine` raises."""
    check_kind("model", model, Model, "a Model")
    check_loss(loss)
    check_source(source, loss)
    if loss not in LOSSES:
        raise ParameterError(f"loss={loss!r} is what one pass solves; there is nothing to refine")
    if model.book is None:
        raise ParameterError(f"loss={loss!r} is for classes, and this model has values")
    return LOSSES[loss]()


def _by_outputs(model: Model) -> Model:
    """Return the model without the discriminants that outputs of the squared loss taught it."""
    assert model.book is not None
    if not model.book.decoder.needs_class_sums:
        return model
    book = model.book.read_by(make_decoder("euclidean"))
    has_some = model.probabilities is not None
    return replace(model, book=book, probabilities=Probabilities.default() if has_some else None)


def check_source(source: Source, loss: str) -> None:
    """Raise ConsumedError for rows that come once, where the loss needs them again."""
    if loss in LOSSES and not source.is_rereadable:
        raise ConsumedError(
            f"{source.where} can be read once, and loss={loss!r} reads the rows up to max_passes "
            "times; write them to a file, give IteratorSource a function that makes an iterator, "
            "or leave out loss"
        )


def refine_job(job: Job, model: Model, held: HeldRows, max_passes: int) -> Model:
    """Return the model of a job's one pass refined by `max_passes` - 1 more; see `refine`."""
    loss = job.loss
    if loss not in LOSSES or max_passes < 2:
        return model
    rows = (job.start, job.stop)
    on_bad_rows, run = job.settings.on_bad_rows, job.run
    return _refined(model, job.source, loss, max_passes - 1, held, rows, on_bad_rows, run)[0]


def check_job(job: Job, pass_: Pass, max_passes: int) -> None:
    """Raise what `refine` would raise after the first pass, before it."""
    loss = job.loss
    check_loss(loss)
    _check_passes(max_passes)
    if loss not in LOSSES:
        return
    settings, encoder = job.settings, pass_.statistics.encoder
    if settings.regression:
        raise ParameterError(f"loss={loss!r} is for classes, not for values; leave it out")
    codes: Codes = OneVsRest() if settings.codes is None else settings.codes
    if is_auto_decode(codes) or needs_class_sums(codes.decode):
        raise ParameterError(
            f"loss={loss!r} does not go with decode={codes.decode!r}: discriminants are learnt "
            "from outputs of the squared loss; leave out decode"
        )
    check_source(job.source, loss)
    y = None if settings.labels is not None else job.source.sample(CALIBRATION_ROWS).y
    n_outputs = loss_outputs(settings, y)
    holds_out = pass_.holdout is not None
    encoder_plan(encoder, n_outputs, job.source, job.run, holds_out, pass_.peeked)


def _chosen(newton: _Newton, alpha: float, held: HeldOut) -> Trial:
    """Return a penalty, or a power of ten times it where the loss of rows held out is less.

    A tenth and ten times are tried, and on from the one that is clearly better while it gets less:
    the penalty of the squared loss may be far off where a class is rare.
    """
    value, found = newton.loss.value, dict[int, Trial]()

    def moved(decades: int) -> Model:
        return newton.moved(np.full(len(newton.model.coef), alpha * 10.0**decades))[0]

    def try_(*decades: int) -> None:
        models, kept = [], []
        for k in decades:
            with contextlib.suppress(SolveError):
                models.append(moved(k))
                kept.append(k)
        trials = tried(models, held, lambda outputs, signs: value(outputs * signs))
        found.update(zip(kept, trials, strict=True))

    def best() -> int:
        return min(found, key=lambda k: found[k].mse)

    try_(-1, 0, 1)
    if not found:
        return tried([moved(1)], held)[0]  # which raises why it does not factor
    if 0 in found and not is_above(found[0].squares - found[best()].squares):
        return found[0]
    for n_more in range(2, MAX_DECADES + 1):
        k = best()
        if abs(k) != n_more - 1:
            break
        try_(n_more if k > 0 else -n_more)
    return found[best()]


def _probabilities(model: Model, held: HeldOut) -> Probabilities:
    """Return the probabilities of scores on rows that the model did not learn from."""
    return Probabilities.fit(*held_scores(model, held.answers(model)))


def _as_alpha(alphas: Floats) -> float | Floats:
    """Return one penalty where all are the same."""
    return float(alphas[0]) if (alphas == alphas[0]).all() else alphas
