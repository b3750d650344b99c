"""The sections of a report: text, drawings and tables of what was measured."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamrf.preprocessing import COLUMNWISE, Encoder, Warp
from streamrf.report.base import Findings, Picture, Section, Table, number, percent
from streamrf.report.measuring import MAX_SPECTRUM
from streamrf.report.on_data import on_data
from streamrf.report.pictures import Curve, curves

MAX_CLASSES = 100  # classes with a row of their own
MAX_COLUMNS = MAX_TRIED = 20
ROWS_OF_SPECTRUM = 12

PENALTY = "penalty alpha (in squared units of the features)"
COLUMN_TITLES = ("column", "importance")
TRIED = {
    "candidate": "candidate",
    "n_components": "features",
    "n_rows": "rows",
    "error": "error held out",
}
WIDTH = "features (random choices, each within the next)"
GCV = "generalised cross-validation"


@dataclass(frozen=True)
class _Loss:
    """How errors are shown: the figure of `Model.evaluate`, its column and the units of axes."""

    figure: str
    column: str
    unit: str
    square_unit: str
    held_out: str
    factor: float

    def shown(self, value: float) -> str:
        return percent(value) if self.figure == "error" else number(value)

    def curve(self, name: str, tried: Sequence[tuple[float, float]]) -> Curve:
        return Curve(name, [x for x, _ in tried], [self.factor * error for _, error in tried])

    def errors(self, reports: Sequence[tuple[float, dict[str, Any]]]) -> list[tuple[float, float]]:
        return [(x, report[self.figure]) for x, report in reports]


_WRONG = _Loss(
    "error", "error", "wrong labels (%)", "mean squared error (codes of ±1)", "wrong labels", 100
)
_SQUARED = _Loss(
    "rmse", "RMSE", "root mean squared error (units of y)", "mean squared error (y²)",
    "mean squared error", 1,
)  # fmt: skip


def sections(found: Findings, where: str) -> Iterator[Section]:
    """Return the sections that there are figures for.

    Parameters
    ----------
    found : what was measured
    where : names the data, if there are any
    """
    if found.error is not None:
        yield on_data(found, where)
    encoder = found.subject.encoder
    warp = encoder.preprocessing.warp
    if warp is not None:
        yield _columns(warp, encoder)
    if encoder.tried is not None:
        yield _tried(encoder.tried, percent if found.subject.labels is not None else number)
    if found.path is not None or (found.model is not None and found.model.history):
        yield _penalties(found)
    if found.spectrum is not None:
        yield _spectrum(found)
    if found.widths is not None:
        yield _widths(found)
    yield _rows(found)


def _marked(found: Findings) -> float | None:
    """Return the penalty of the model where it is one, of the loss that the sums know."""
    model = found.model
    if model is None or found.is_refined or np.ndim(model.alpha):
        return None
    return float(model.alpha)


def _not_its_loss(found: Findings) -> Iterator[str]:
    """Yield that what the sums tell is not of the loss of the model."""
    if found.statistics is not None and found.model is not None and found.model.refinement:
        loss = found.model.refinement.loss.replace("_", " ")
        yield (
            f"The model minimises the {loss} loss, by more passes; the figures here are those of "
            "the squared loss, which is all that the sums know, not of the model."
        )


def _loss(found: Findings) -> _Loss:
    assert found.model is not None
    return _SQUARED if found.model.book is None else _WRONG


def _penalties(found: Findings) -> Section:
    """Error, cross-validation, evidence and degrees of freedom against alpha."""
    assert found.model is not None
    path, folds, model, loss = found.path, found.folds, found.model, _loss(found)
    columns: dict[str, dict[float, str]] = {}
    tables = []
    alpha = _marked(found)
    errors: list[Curve] = []
    squares: list[Curve] = []
    if path is not None:
        squares.append(Curve(GCV, path.alphas, path.gcv))
    if model.history:
        held = loss.curve("held out of the fit", model.history)
        (errors if loss is _WRONG else squares).append(held)
        rows = [[f"{a:.5g}", loss.shown(figure)] for a, figure in model.history]
        tables.append(Table("On the rows held out of the fit", ["alpha", loss.held_out], rows))
    if found.errors_by_alpha:
        tried = loss.errors(found.errors_by_alpha)
        errors.append(loss.curve("data given", tried))
        columns[f"{loss.column}, data given"] = {a: loss.shown(error) for a, error in tried}
    if path is not None:
        figures = {
            "GCV": path.gcv, "log evidence": path.log_evidence, "degrees of freedom": path.dof
        }  # fmt: skip
        for name, values in figures.items():
            columns[name] = dict(zip(path.alphas, map(number, values), strict=True))
    if folds is not None:
        n_folds = len(folds.weights)
        squares.append(
            Curve(f"{n_folds}-fold cross-validation", folds.alphas, folds.mse, folds.standard_error)
        )
        pairs = zip(folds.alphas, folds.mse, folds.standard_error, strict=True)
        columns[f"{n_folds} folds ± standard error"] = {
            a: f"{number(mse)} ± {number(error)}" for a, mse, error in pairs
        }
    drawn: list[tuple[list[Curve], str, str, str]] = [
        (errors, loss.unit, "Error against the penalty", "lowest"),
        (squares, loss.square_unit, "Squared error against the penalty", "lowest"),
    ]
    if path is not None:
        evidence = np.where(np.isfinite(path.log_evidence), path.log_evidence, np.nan)
        dof = Curve("degrees of freedom", path.alphas, path.dof)
        drawn += [
            ([Curve("log evidence", path.alphas, evidence)], "log evidence (nats)",
             "Log evidence against the penalty", "greatest"),
            ([dof], "effective degrees of freedom", "Degrees of freedom against the penalty", ""),
        ]  # fmt: skip
        rows = [
            [f"{a:.5g}", *(column.get(a, "-") for column in columns.values())] for a in path.alphas
        ]
        tables.insert(0, Table("Every penalty", ["alpha", *columns], rows))
    pictures = [
        _against(some, PENALTY, unit, title, best, mark=alpha)
        for some, unit, title, best in drawn
        if some
    ]
    return Section("Error and penalty", list(_on_penalties(found, alpha)), pictures, tables)


def _on_penalties(found: Findings, alpha: float | None) -> Iterator[str]:
    yield from _not_its_loss(found)
    if alpha is not None:
        yield f"The dashed line is the penalty of the model, alpha = {alpha:.5g}."
    if found.path is not None:
        yield (
            f"Generalised cross-validation is least at alpha = {found.path.best_alpha():.5g}, the "
            f"evidence greatest at {found.path.best_alpha('evidence'):.5g}."
        )
    else:
        yield "Give the statistics of the fit as well for generalised cross-validation."
    if found.folds is not None:
        yield (
            f"Folds left out err least at alpha = {found.folds.best_alpha():.5g}; the greatest "
            f"within one standard error of that is {found.folds.simplest_alpha():.5g}."
        )


def _against(
    drawn: list[Curve],
    x: str,
    y: str,
    title: str,
    best: str,
    *,
    mark: float | None = None,
    ticks: Sequence[int] = (),
) -> Picture:
    """Draw curves, and say where each is best."""
    alt = [f"{title}."]
    for curve in drawn:
        values = np.asarray(curve.y, dtype=np.float64)
        if best and np.isfinite(values).any():
            index = int(np.nanargmin(values) if best == "lowest" else np.nanargmax(values))
            alt.append(f"{curve.name}: {best} at {curve.x[index]:.4g}, {values[index]:.5g}.")
        elif len(values):
            alt.append(f"{curve.name}: from {values[0]:.5g} to {values[-1]:.5g}.")
    logarithmic = "xy" if _spans(drawn) else "x"
    svg = curves(drawn, x, y, mark=mark, logarithmic=logarithmic, ticks=ticks)
    return Picture(svg, title, " ".join(alt))


def _spans(drawn: list[Curve]) -> bool:
    """Return whether curves are above 0 and span more than a decade."""
    values = np.concatenate([np.asarray(curve.y, dtype=np.float64) for curve in drawn])
    values = values[np.isfinite(values)]
    return bool(len(values) and values.min() > 0 and values.max() > 10 * values.min())


def _tried(tried: dict[str, list], shown: Callable[[float], str]) -> Section:
    """What the choice of the features tried."""
    figures = zip(*(tried[name] for name in TRIED), strict=True)
    rows = [[name, f"{width:,}", f"{n:,}", shown(error)] for name, width, n, error in figures]
    text = (
        f"Before the pass, {len(rows):,} candidates were tried on some of the rows: scaling, "
        "kernel, its setting in units that suit the rows, at ever greater widths. The first was "
        "taken. Errors are on rows held out of those looked at, comparable at the same width and "
        "rows; the best were compared further, on other splits of the rows, or by how their errors "
        "fall with more rows, so that of the first need not be the least."
    )
    table = Table("The best", list(TRIED.values()), rows[:MAX_TRIED])
    return Section("What was tried", [text], (), [table])


def _columns(warp: Warp, encoder: Encoder) -> Section:
    """Importance of columns."""
    names = () if encoder.table is None else encoder.table.outputs
    order = np.argsort(-warp.importances, kind="stable")[:MAX_COLUMNS].tolist()
    rows = [[names[j] if names else f"{j:,}", percent(warp.importances[j])] for j in order]
    text = (
        f"The {warp.kind} warp of rows was learnt from the gradients of a predictor on a peek at "
        "the rows. Importance is a column's share in their squares, each times the variance of the "
        "column as scaled."
    )
    if encoder.preprocessing.normalize not in COLUMNWISE:
        text += (
            " Columns were not scaled one by one here, so that one that varies little beside "
            "others may matter more than its share."
        )
    return Section("Columns", [text], (), [Table("The most important", COLUMN_TITLES, rows)])


def _spectrum(found: Findings) -> Section:
    """Eigenvalues of the Gram."""
    assert found.spectrum is not None
    assert found.statistics is not None
    values, width = found.spectrum, found.statistics.encoder.n_components
    shown = values[values > values[0] * 1e-15] if len(values) else values
    text = [
        "Eigenvalues of the Gram of the centred features, in squared units of the features. A "
        "penalty far above an eigenvalue leaves its direction out, one far below leaves it free. "
        f"{len(values):,} eigenvalues took {found.seconds['spectrum']:.2g} s."
    ]
    if width > MAX_SPECTRUM:
        text.append(
            f"They are those of {MAX_SPECTRUM:,} of the {width:,} features, chosen at random: "
            "the time grows as the third power of the width."
        )
    alt = (
        f"{len(values):,} eigenvalues from {values[0]:.4g} down to {values[-1]:.4g}, on "
        "logarithmic axes."
    )
    alpha = _marked(found)
    drawn = [Curve("eigenvalue", np.arange(1, len(shown) + 1), shown)]
    if alpha:
        drawn.append(Curve("penalty of the model", [1, len(shown)], [alpha] * 2))
        above = int((values > alpha).sum())
        text.append(f"{above:,} eigenvalues are above the penalty of the model.")
    svg = curves(drawn, "rank", "eigenvalue", logarithmic="xy", points=False)
    ranks = np.unique(np.geomspace(1, len(values), ROWS_OF_SPECTRUM).astype(int))
    share = np.cumsum(values) / (values.sum() or 1.0)
    rows = [[f"{n:,}", number(values[n - 1]), percent(share[n - 1])] for n in ranks]
    table = Table("Some of them", ["rank", "eigenvalue", "share of the variance so far"], rows)
    return Section("Spectrum", text, [Picture(svg, "Eigenvalues", alt)], [table])


def _widths(found: Findings) -> Section:
    """Error against width."""
    assert found.widths is not None
    widths, loss = found.widths, _loss(found)
    ticks = widths.widths.tolist()
    gcv = [Curve(GCV, widths.widths, widths.gcvs)]
    title = "Squared error against the width"
    pictures = [_against(gcv, WIDTH, loss.square_unit, title, "lowest", ticks=ticks)]
    columns = ["features", "alpha", "GCV", "degrees of freedom"]
    figures = zip(ticks, widths.alphas, widths.gcvs, widths.dofs, strict=True)
    rows = [[f"{n:,}", f"{alpha:.5g}", number(gcv), number(dof)] for n, alpha, gcv, dof in figures]
    if found.errors_by_width:
        tried = loss.errors(found.errors_by_width)
        drawn, title = [loss.curve("data given", tried)], "Error against the width"
        pictures.insert(0, _against(drawn, WIDTH, loss.unit, title, "lowest", ticks=ticks))
        columns.append(f"{loss.column}, data given")
        errors = {n: loss.shown(error) for n, error in tried}
        for row, n in zip(rows, ticks, strict=True):
            row.append(errors.get(n, ""))
    text = [
        *_not_its_loss(found),
        "Each width is a random choice of the features that holds the narrower ones, solved from "
        "the same sums at its own best penalty by generalised cross-validation. A curve that still "
        "falls at its end asks for more features. Statistics.prune chooses better than chance.",
    ]
    return Section("Error and width", text, pictures, [Table("Every width", columns, rows)])


def _rows(found: Findings) -> Section:
    """Rows counted, and time."""
    tables = []
    text = []
    if found.statistics is not None:
        ledger = found.statistics.ledger
        rows = [
            [ledger.names[key], f"{len(ranges):,}", f"{int(np.diff(ranges).sum()):,}"]
            for key, ranges in ledger.ranges.items()
        ]
        tables.append(Table("Ledger", ["store", "ranges", "rows counted"], rows))
        labels = found.statistics.labels
        weights = getattr(found.statistics.sums.targets, "weights", None)
        if labels is not None and weights is not None and weights.sum() > 0:
            shares = [
                [str(label), percent(share)]
                for label, share in zip(labels, weights / weights.sum(), strict=True)
            ][:MAX_CLASSES]
            columns = ["class", "share of the weight"]
            tables.append(Table("Classes of the rows summed", columns, shares))
        text.append(
            f"{found.statistics.n_rows:,} rows were summed and {found.statistics.n_skipped:,} left "
            "out. The file keeps no times, so that the same rows give the same bytes; these are "
            "the times of this report."
        )
    elif found.model is not None:
        text.append(
            f"The model was trained on {found.model.n_rows:,} rows. Give the statistics of the fit "
            "as well for the rows counted, the spectrum and the widths."
        )
    if found.seconds:
        times = [[name, f"{seconds:.1f}"] for name, seconds in found.seconds.items()]
        tables.append(Table("Times of this report", ["part", "seconds"], times))
    return Section("Rows and time", text, (), tables)
