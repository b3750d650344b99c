"""What a choice by rows held out should make a reader doubt, one sentence each."""

from collections.abc import Sequence

import numpy as np

from streamrf.display import listed
from streamrf.jit.arrays import Array, Floats, Indices
from streamrf.models import Model
from streamrf.preprocessing import as_columns
from streamrf.solving.held_out import Answers, weights_of
from streamrf.sources import as_labels, find_labels

MIN_ROWS = 5  # of a class, held out: fewer may be missed by chance
MIN_WIDTH = 64  # narrower features are studies
CLEAR_GAIN = 0.1  # of the squared error, by twice as many features
MAX_NAMED = 5
CHANCE, MIN_TELLING = 2.0, 100  # standard errors of no correlation, and rows that tell it
VALUES = 1 << 20  # of outputs that are computed with at a time


def nested(width: int) -> Indices:
    """Return the features in an order of which any beginning is a fair choice.

    Not the map's own: maps that put exact or high-degree features first would look worse.
    """
    return np.random.default_rng(0).permutation(width)


def penalty_finding(alpha: float, tried: Sequence[float] | Floats) -> str | None:
    """Return a sentence if a penalty chosen is the least or greatest of several tried."""
    if len(tried) < 2 or min(tried) < alpha < max(tried):
        return None
    if alpha <= min(tried):
        return (
            f"alpha={alpha:.3g} is the least penalty tried, so more features (n_components, "
            "--components) are likely to help, or a smaller one (alpha, --alpha)"
        )
    return (
        f"alpha={alpha:.3g} is the greatest penalty tried, so a greater one may do better (alpha, "
        "--alpha), or a smoother kernel or another scaling (normalize, --normalize)"
    )


def few_finding(n_held: int, n_others: int, is_auto: bool, of_classes: bool, one: str = "") -> str:
    """Return a sentence on rows held out that are too few to choose by.

    Parameters
    ----------
    n_held, n_others : rows held out, and the others that weigh
    one : which rows, though enough, are of one class: "20 rows" or "80 rows not"; or ""
    is_auto : whether the penalty was to be chosen, and not only a decoder
    of_classes : whether there are probabilities to fit
    """
    fitted, guess = "", ""
    if of_classes:
        fitted = " and fit probabilities"
        guess = "probabilities are a guess until fit_probabilities is given other rows"
    if not is_auto:
        chosen, taken, cure = "the decoder", f"the first is taken, and {guess}", "decode, --decode"
    else:
        rule = "alpha is that of the greatest evidence of their sums"
        taken = f"{rule}, and {guess}" if of_classes else rule
        chosen, cure = "alpha", "alpha, --alpha"
    few = f"{n_held:,} of {n_held + n_others:,} rows are held out, too few"
    if one:
        few = f"the {one} held out are of one class, too few"
    return (
        f"{few} to choose {chosen}{fitted} by, so {taken}: give more rows, or {chosen} itself "
        f"({cure})"
    )


def width_finding(n_narrow: int, n: int, narrow: float, error: float) -> str | None:
    """Return a sentence if squared errors of nested widths fall by a tenth with each doubling."""
    if n < MIN_WIDTH or not error < (1 - CLEAR_GAIN) ** np.log2(n / n_narrow) * narrow:
        return None
    return (
        f"{n:,} features have a squared error {100 * (1 - error / narrow):.0f} % below that of "
        f"{n_narrow:,} of them, so the width still limits: more (n_components, --components) are "
        "likely to help"
    )


def class_finding(labels: Array, true: Array, given: Array) -> str | None:
    """Return a sentence if classes are never predicted.

    Parameters
    ----------
    labels : (n_classes,)
    true, given : (n_classes,), rows of each class, and rows that were given its label
    """
    missed = np.flatnonzero((true >= MIN_ROWS) & (given == 0))
    if not len(missed):
        return None
    names = listed([repr(labels[i].item()) for i in missed], MAX_NAMED)
    which = f"class {names} is" if len(missed) == 1 else f"classes {names} are"
    return (
        f"{which} never predicted, of {true[missed].sum():,.0f} in {true.sum():,.0f} rows: "
        "class_weight='balanced' (--class-weight balanced) lets all classes weigh the same"
    )


def guess_finding(model: Model, answers: Answers) -> str | None:
    """Return a sentence if the outputs of a model do not go with the targets of rows held out."""
    if not _is_guess(model, answers):
        return None
    return (
        "the model guesses: on the rows held out its outputs do not go with the targets; check "
        "that X tells anything of y, or try another scaling (normalize, --normalize), kernel or "
        "map, or let all be chosen (features='auto')"
    )


def _is_guess(model: Model, answers: Answers) -> bool:
    """Return whether no output goes with the targets of rows held out by more than chance.

    That is a correlation below two standard errors of one of none, more for many outputs, whose
    greatest is looked at. Rows of classes that the model does not know are left out, and weights
    that make a hundred rows of all, or fewer, tell nothing.
    """
    parts = []  # outputs, rows of them that count, a table of true outputs, its row for each
    weighed = []
    for part, outputs in answers:
        if model.book is None:
            known = index = np.arange(len(part.y))
            table = as_columns(part.y)
        else:
            index, unknown = find_labels(model.labels, as_labels(part.y))
            known, table = np.flatnonzero(~unknown), model.book.matrix
        parts.append((outputs, known, table, index[known]))
        weighed.append(weights_of(part)[known, np.newaxis])
    weights, n_outputs = np.concatenate(weighed), len(model.intercept)
    if not len(weights):
        return False
    n_rows = weights.sum() ** 2 / (weights**2).sum()
    least = (CHANCE + np.sqrt(2 * np.log(n_outputs))) / np.sqrt(n_rows)
    tells, step = False, max(1, VALUES // len(weights))
    for of in (slice(i, i + step) for i in range(0, n_outputs, step)):  # outputs may be many
        outputs = np.concatenate([outputs[known, of] for outputs, known, _, _ in parts])
        truth = np.concatenate([table[rows, of] for _, _, table, rows in parts])
        truth = _standardised(truth.astype(np.float64), weights)
        if ((weights * _standardised(outputs, weights) * truth).sum(axis=0) > least).any():
            return False
        tells |= bool(truth.any())
    return tells and n_rows > MIN_TELLING


def _standardised(columns: Floats, weights: Floats) -> Floats:
    """Return columns (n, k) less their means, whose weighted squares sum to 1, or to 0."""
    size = np.abs(columns).max(axis=0)
    columns = columns / np.where(size > 0, size, 1.0)  # as squares might vanish
    columns = columns - (weights * columns).sum(axis=0) / weights.sum()
    norms = np.sqrt((weights * columns**2).sum(axis=0))
    return columns / np.where(norms > 0, norms, 1.0)
