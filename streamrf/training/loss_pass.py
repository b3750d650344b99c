"""What a pass adds up of a loss at the coefficients of a model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamrf.engine import RunOptions, Summary, runner
from streamrf.errors import DataError, MemoryBudgetError, UnknownLabelError
from streamrf.jit import lanes
from streamrf.jit.arrays import Array, Features, Floats
from streamrf.jit.threads import computing
from streamrf.models import Model, OneVsRest
from streamrf.preprocessing import CALIBRATION_ROWS, Encoder
from streamrf.solving import Loss, max_kept
from streamrf.sources import Block, Rows, Source, as_labels, as_rows, find_labels
from streamrf.statistics import LossSums, gram_class
from streamrf.training import memory
from streamrf.training.copies import Copies, hash_of
from streamrf.training.evidence import Codes
from streamrf.training.holdout import MAX_BYTES, most_rows
from streamrf.training.passes import Pass
from streamrf.training.settings import Settings

LEFT_BYTES = 64 << 20  # that a process keeps of its choice of features and its first reading


@dataclass(frozen=True)
class EncodedRows:
    """Rows as they are summed.

    Parameters
    ----------
    Q : (n, n_components) features times their root
    roots : (n,) above 0, in units of a row of mean weight
    signs : (n, n_outputs) codes of +-1
    """

    Q: Features
    roots: Floats
    signs: Floats

    @classmethod
    def of(cls, model: Model, rows: Rows, where: str) -> "EncodedRows":
        """Encode the rows that weigh.

        DataError unless they have labels, and weights as those summed for the model;
        UnknownLabelError for a label that the first reading did not have.
        """
        encoder, calibration = model.encoder, model.encoder.calibration
        misfit = encoder.misfit(rows)
        if misfit is not None:
            raise DataError(f"{where}: {misfit}")
        roots = calibration.roots(rows.weights, len(rows.X))
        if not roots.all():  # a class of such rows alone is not learnt, so no label of the model
            rows, roots = rows.where(roots > 0), roots[roots > 0]
        labels = as_labels(rows.y)
        index, unknown = find_labels(model.labels, labels)
        if unknown.any():
            raise UnknownLabelError(
                f"{where}: label {labels[unknown][0].item()!r} was not there when the rows were "
                "read before; they must not change between passes"
            )
        encoder.check_width(rows.X)
        Q = np.empty((len(rows.X), encoder.n_components), dtype=calibration.dtype)
        encoder.encode(rows.X, roots, Q)
        assert model.book is not None
        return cls(Q, roots / calibration.root_scale, model.book.matrix[index])

    def outputs(self, coef: Floats, intercept: Floats) -> Floats:
        """Return the outputs of coefficients (n_outputs, n_components), float64 (n, n_outputs)."""
        found = np.empty(self.signs.shape)
        lanes.outputs(self.Q, np.ascontiguousarray(coef.T), found)
        return found / self.roots[:, np.newaxis] + intercept


@dataclass(frozen=True)
class HeldRows:
    """Rows held out of a pass, and of every other over the same rows.

    Parameters
    ----------
    rows : the rows
    share : of all rows that are held out, those whose hash is below it
    copies : how rows are hashed of which many are copies of others; None means by their position
    """

    rows: Sequence[Rows] = ()
    share: float = 0.0
    copies: Copies | None = None

    @classmethod
    def of(cls, pass_: Pass) -> "HeldRows":
        """Return those of a pass that has read all rows, before they join."""
        holdout = pass_.holdout
        return cls() if holdout is None else cls(pass_.held, holdout.share, holdout.copies)


NOTHING_HELD = HeldRows()


class LossPass(Summary):
    """The sums of a loss at the coefficients of a model.

    Parameters
    ----------
    model : with a code book
    loss : the loss
    share, copies : of the rows that are left out, see `Holdout`
    """

    def __init__(
        self, model: Model, loss: Loss, share: float = 0.0, copies: Copies | None = None
    ) -> None:
        self.model, self.loss, self.share, self.copies = model, loss, share, copies
        n_outputs, width = model.coef.shape
        self.sums = LossSums.zero(width, n_outputs, model.encoder.calibration.exact)

    def update(self, block: Block) -> None:
        """Add a block but for the rows held out."""
        rows = as_rows(block)
        self.sums.n_unseen += block.n_unseen
        if self.share:
            rows = rows.where(hash_of(rows, self.copies) >= self.share)
        self.add(rows, f"{block.where}, from row {block.row} on")

    def add(self, rows: Rows, where: str) -> None:
        """Add rows."""
        if not len(rows.X):
            return
        with computing():
            part = EncodedRows.of(self.model, rows, where)
            outputs = part.outputs(self.model.coef, self.model.intercept)
            self.sums.add(part.Q, part.roots, part.signs, outputs, self.loss)

    def fresh(self) -> "LossPass":
        return LossPass(self.model, self.loss, self.share, self.copies)

    def sealed(self) -> LossSums:
        self.sums.release()
        return self.sums

    def absorb(self, total: LossSums) -> None:
        self.sums = total.writable()


def loss_outputs(settings: Settings, y: Any) -> int:
    """Return how many outputs a model of a loss has, by the labels settled or else those of y."""
    codes: Codes = OneVsRest() if settings.codes is None else settings.codes
    labels = np.unique(as_labels(np.asarray(y))) if settings.labels is None else settings.labels
    return codes.n_outputs(max(2, len(labels)))


def loss_plan(
    n_components: int,
    n_outputs: int,
    source: Source,
    run: RunOptions,
    other_bytes: int,
    holds_out: bool,
    limits: dict[str, int] | None = None,
    exact: bool = True,
    label_bytes: int = 0,
) -> memory.Plan:
    """Return what a pass is going to hold; MemoryBudgetError if it does not fit.

    Parameters
    ----------
    n_components, n_outputs : widths; each output has a Gram of its own
    source, run : the rows, and how they are read
    other_bytes : of the encoder
    holds_out : whether rows held out, and their features, are there all the time
    limits : bytes of workers, None to ask them
    exact : whether features are rounded to integers
    label_bytes : of a label that is text
    """
    n_held = most_rows(source.n_rows) if holds_out else 0
    sizes = memory.Sizes(
        n_components,
        source.n_features,
        n_outputs,
        n_rows=source.n_rows,
        gram=gram_class(exact),
        n_folds=n_outputs,
        other_bytes=other_bytes + source.buffer_bytes,
        label_bytes=label_bytes,
    )
    features = (4 if exact else 8) * n_components
    within_margin = features * sizes.clipped(sizes.most_rows)  # of a block, once more
    held_bytes = LEFT_BYTES + features * sizes.clipped(CALIBRATION_ROWS)
    held_bytes += min(max_kept(n_components), 4 * n_components * n_held)
    held_bytes += min(MAX_BYTES, 8 * source.n_features * n_held)
    sizes = replace(sizes, held_bytes=within_margin)
    own = replace(sizes, held_bytes=within_margin + held_bytes)
    try:
        here = memory.plan(own, run.memory_limit)
        limits = runner(run).memory_limits if limits is None else limits
        if limits is None:
            return here
        return memory.worker_plan(sizes, limits)
    except MemoryBudgetError as error:
        raise MemoryBudgetError(
            f"a loss other than 'squared' sums a Gram for each of {n_outputs} outputs: {error}, "
            "or take loss='squared'"
        ) from error


def encoder_plan(
    encoder: Encoder,
    n_outputs: int,
    source: Source,
    run: RunOptions,
    holds_out: bool,
    labels: Array | None = None,
) -> memory.Plan:
    """Return `loss_plan` of the features of an encoder, for rows of labels such as those known."""
    return loss_plan(
        encoder.n_components,
        n_outputs,
        source,
        run,
        encoder.n_bytes,
        holds_out,
        exact=encoder.calibration.exact,
        label_bytes=memory.label_bytes(labels),
    )
