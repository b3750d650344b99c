"""The head of a report: what a colleague would say of it."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from streamrf.report.base import Findings, number, percent

CLEAR, SLIGHT = 0.1, 0.02  # gains of squared error by the last doubling of the features
CLEAR_ROOT = 0.05  # gain of an error by another penalty; of a squared one it is twice that


def in_words(found: Findings) -> str:
    """Return a title: what is predicted, and how well."""
    error, model = found.error, found.model
    what = _what(found)
    if error is not None and "error" in error:
        return f"{what}, {percent(error['error'])} wrong"
    if error is not None:
        return f"{what}, R2 {error['r2']:.3f}"
    return f"{'Sums' if model is None else 'A model'} of {what[:1].lower()}{what[1:]}"


def lead(found: Findings, where: str) -> Iterator[str]:
    """Yield what matters most: a paragraph, then what to doubt, and what could not be measured."""
    yield " ".join(_said(found, where))
    yield from (f"{note[0].upper()}{note[1:]}." for note in found.notes)
    yield from found.omitted


def _what(found: Findings) -> str:
    labels = found.subject.labels
    return "Values" if labels is None else f"{len(labels):,} classes"


def _said(found: Findings, where: str) -> Iterator[str]:
    subject, error, sample = found.subject, found.error, found.sample
    if error is not None and "error" in error:
        rows = f"{found.of_rows(error['n_rows'])} ({where})"
        yield f"{_what(found)}: {percent(error['error'])} wrong of {rows}."
    elif error is not None:
        spread = "" if sample is None else f", where the targets vary by {number(sample.spread)}"
        rows = f"{error['n_rows']:,} rows ({where})"
        yield f"Values: off by {number(error['rmse'])} on {rows}{spread}."
    if found.drifted:
        yield (
            "These rows are unlike those that the model was trained on, and what it says of them "
            f"is a guess: look at {found.drifted}."
        )
    width, drawn = subject.encoder.n_components, subject.encoder.features.n_components
    kept = "" if width == drawn else f", kept of {drawn:,}"
    yield f"Learnt from {subject.n_rows:,} rows in {width:,} features{kept}."
    if found.drifted:
        return  # errors there tell nothing of width and penalty
    better = _better_penalty(found)
    if better is None:
        yield from _on_width(found, "The width is what limits")
        yield from _on_penalty(found)
    else:
        yield better
        yield from _on_width(found, "With the best penalty of each width, the width limits, too")


def _better_penalty(found: Findings) -> str | None:
    """Return a sentence if another penalty of the table errs clearly less than the model's own."""
    model = found.model
    if model is None or found.path is None or found.is_refined or np.ndim(model.alpha):
        return None
    better = _by_data(found) if found.errors_by_alpha else _by_sums(found, float(model.alpha))
    if better is None:
        return None
    alpha, gain = f"{better[0]:.3g}", better[1]
    others = ", and test that on other rows" if found.errors_by_alpha else ""
    return (
        f"The penalty is what limits: alpha={alpha} {gain}; solve or fit with it (alpha, --alpha "
        f"{alpha}){others}."
    )


def _by_data(found: Findings) -> tuple[float, str] | None:
    """Return a penalty that errs clearly less on the data, and by how much."""
    assert found.error is not None
    assert found.model is not None
    figure = "error" if "error" in found.error else "rmse"
    tried = {alpha: report[figure] for alpha, report in found.errors_by_alpha}
    alpha = min(filter(partial(_is_felt, found), tried), key=tried.__getitem__, default=None)
    own, n_rows = found.error[figure], found.error["n_rows"]
    if alpha is None or not (error := tried[alpha]) < (1 - CLEAR_ROOT) * own:
        return None
    if figure == "rmse":
        is_clear = 1 - (error / own) ** 2 > 2 * np.sqrt(2 / n_rows)  # deviations of a mean square
        name, was, now = "RMSE", number(own), number(error)
    else:
        is_clear = (own - error) * n_rows >= 2 * np.sqrt(own * n_rows)  # of a count
        name, was, now = "error", percent(own), percent(error)
    if not is_clear:
        return None
    return alpha, (
        f"has an {name} of {now} on these rows in place of {was} (alpha={found.model.alpha:.3g})"
    )


def _by_sums(found: Findings, own: float) -> tuple[float, str] | None:
    """Return a penalty of clearly less generalised cross-validation, and by how much.

    The model's own lies between two of the table, and is no better than the better of these unless
    the best is one of them. A penalty chosen on rows held out has been judged better than that.
    """
    assert found.path is not None
    assert found.model is not None
    if found.model.history:
        return None
    alphas, errors = found.path.alphas, found.path.gcv  # ascending
    above = int(np.searchsorted(alphas, own))
    near = errors[max(above - 1, 0) : above + 1].min()
    felt = [i for i, alpha in enumerate(alphas) if _is_felt(found, alpha)]
    best = min(felt, key=errors.__getitem__, default=None)
    if best is None or not (np.isfinite(near) and errors[best] < (1 - 2 * CLEAR_ROOT) * near):
        return None
    less = f"{100 * (1 - errors[best] / near):.0f} %"
    return float(alphas[best]), (
        f"has {less} less error by generalised cross-validation than alpha={own:.3g}, or better"
    )


def _is_felt(found: Findings, alpha: float) -> bool:
    """Return whether a penalty is at least that of the rounding, below which it has no effect."""
    assert found.statistics is not None
    assert found.model is not None
    return found.statistics.rounding_advice(alpha, found.model.block_weights) is None


def _on_width(found: Findings, limits: str) -> Iterator[str]:
    """Yield whether more features would help, as far as the sums tell.

    Parameters
    ----------
    limits : words for a width that clearly limits
    """
    told = any("width still limits" in note for note in found.notes)
    if told or found.widths is None or len(found.widths.widths) < 2:
        return
    narrow, wide = found.widths.gcvs[-2:]
    gain = 1 - wide / narrow if narrow > 0 else 0.0
    before, better = f"{int(found.widths.widths[-2]):,}", f"{100 * gain:.0f} %"
    if gain >= CLEAR:
        yield f"{limits}: the squared error is {better} below that of {before}."
    elif gain >= SLIGHT:
        yield f"More features may help a little: these are {better} better than {before}."
    else:
        yield f"More features would hardly help: {before} do as well."


def _on_penalty(found: Findings) -> Iterator[str]:
    """Yield whether the penalty lies inside of what was tried; its ends are notes of their own."""
    tried: list[float] = []
    if found.path is not None:
        tried = np.asarray(found.path.alphas).tolist()
    elif found.model is not None:
        tried = [alpha for alpha, _ in found.model.history]
    if found.is_refined or found.model is None or np.ndim(found.model.alpha) or len(tried) < 3:
        return
    inside = min(tried) < float(found.model.alpha) < max(tried)
    if inside and not any("penalty tried" in note for note in found.notes):
        yield "The penalty lies well inside its grid."
