"""The head of a report: what a colleague would say of it."""

from collections.abc import Iterator

import numpy as np

from streamrf.report.base import Findings, number, percent

CLEAR, SLIGHT = 0.1, 0.02  # gains of squared error by the last doubling of the features


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
    width = subject.encoder.n_components
    yield f"Learnt from {subject.n_rows:,} rows in {width:,} features."
    yield from _on_width(found)
    yield from _on_penalty(found)


def _on_width(found: Findings) -> Iterator[str]:
    """Yield whether more features would help, as far as the sums tell."""
    told = any("width still limits" in note for note in found.notes)
    if told or found.widths is None or len(found.widths.widths) < 2:
        return
    narrow, wide = found.widths.gcvs[-2:]
    gain = 1 - wide / narrow if narrow > 0 else 0.0
    before, better = f"{int(found.widths.widths[-2]):,}", f"{100 * gain:.0f} %"
    if gain >= CLEAR:
        yield f"The width is what limits: the squared error is {better} below that of {before}."
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
