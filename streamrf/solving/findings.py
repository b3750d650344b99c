"""What a choice by rows held out should make a reader doubt, one sentence each."""

from collections.abc import Sequence

import numpy as np

from streamrf.display import listed
from streamrf.jit.arrays import Array, Floats, Indices

MIN_ROWS = 5  # of a class, held out: fewer may be missed by chance
MIN_WIDTH = 64  # narrower features are studies
CLEAR_GAIN = 0.1  # of the squared error, by twice as many features
MAX_NAMED = 5


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
            f"alpha={alpha:.3g} is the least penalty tried, so the features hold all they are "
            "given: more of them (n_components, --components) are likely to help"
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


def guess_finding() -> str:
    """Return a sentence on a model whose outputs do not go with the targets of rows held out."""
    return (
        "the model guesses: on the rows held out its outputs do not go with the targets; check "
        "that X tells anything of y, or try another scaling (normalize, --normalize), kernel or "
        "map, or let all be chosen (features='auto')"
    )
