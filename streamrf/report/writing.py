"""A report: one page about a model, its statistics, or both, that needs nothing but itself.

`write` measures what the files tell and, in one pass, how the model does on data; it draws and
tables the figures and writes them as HTML with the drawings inside. Needs matplotlib, the extra
``plots``.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from streamrf.errors import StorageError
from streamrf.models import Model
from streamrf.report import facts
from streamrf.report.base import Findings, Picture, Section, Table, number, percent
from streamrf.report.measuring import WIDEST_SPECTRUM, measure
from streamrf.report.page import render
from streamrf.report.pictures import Curve, check_drawing, curves, shades
from streamrf.sources import as_source
from streamrf.statistics import Statistics
from streamrf.storage import replacing, unwritten

MOST_CELLS = 30  # classes up to which the confusion matrix is a table; more are a drawing
MOST_CLASSES = 100  # classes told one by one
MOST_MISTAKES = 10
ROWS_OF_SPECTRUM = 12

PENALTY = "penalty alpha (in squared units of the features)"


def write(
    path: str | os.PathLike,
    model: Model | None = None,
    statistics: Statistics | None = None,
    data=None,
    y=None,
    *,
    weights=None,
    title: str = "streamrf report",
    stage: Callable[[str], None] = lambda name: None,
    **options: Any,
) -> dict[str, Any]:
    """Write a report, atomically.

    Penalties and narrower choices are judged by generalised cross-validation, with folds by exact
    cross-validation, and with data by the errors there. The penalties cost about six solves, the
    spectrum as many and its second stage, the data one solve for each penalty.

    Parameters
    ----------
    path : HTML file to write
    model : a model, or None for that of the best penalty of the statistics
    statistics : its sums; without them there is nothing to tell of spectrum and width
    data : Source with targets, array (n, n_features), or None: rows not trained on
    y, weights : of the rows of an array
    title : of the page, any text
    stage : told the name of what comes next
    options : `on_bad_rows` and `progress` of the pass over the data

    Returns
    -------
    dict with alpha, the penalty of the model; gcv_alpha, the best by generalised cross-validation;
    n_rows; seconds by part; and error, the figures of `Model.evaluate`; None for what is not known

    Raises
    ------
    MissingPackageError
        If matplotlib is not installed.
    ParameterError
        If the model and the statistics are not of the same map and labels.
    StorageError
        If the page cannot be written. What was at `path` is then unchanged.
    """
    check_drawing()
    source = None if data is None else as_source(data, y, weights)
    found = measure(model, statistics, source, stage=stage, **options)
    stage("drawing")
    where = None if source is None else source.where
    text = render(title, list(_lead(found, where)), _facts(found), list(_sections(found, where)),
                  "Made by streamrf; the page holds all it shows.")  # fmt: skip
    _write(path, text)
    return {
        "alpha": None if found.model is None else np.asarray(found.model.alpha).tolist(),
        "gcv_alpha": None if found.path is None else found.path.best_alpha(),
        "n_rows": found.told.n_rows,
        "error": found.error,
        "seconds": found.seconds,
    }


def _write(path: str | os.PathLike, text: str) -> None:
    data = text.encode()
    try:
        with replacing(path) as file:
            file.write(data)
    except StorageError:
        raise
    except OSError as error:
        raise unwritten(path, error, len(data)) from error


def _lead(found: Findings, where: str | None) -> Iterator[str]:
    """Tell what matters most."""
    told = found.told
    what = "values" if told.labels is None else f"{len(told.labels):,} classes"
    width = told.encoder.n_components
    yield f"{told.n_rows:,} rows of {what}, in {width:,} features."
    if found.error is not None:
        rows = f"{found.error['n_rows']:,} rows ({where})"
        if "error" in found.error:
            yield f"Error on {rows}: {percent(found.error['error'])}."
        else:
            yield (
                f"On {rows}: root mean squared error {number(found.error['rmse'])}, R2 "
                f"{found.error['r2']:.4f}."
            )
    yield from found.omitted


def _facts(found: Findings) -> Table:
    """Tell what the files hold."""
    told = found.told
    rows: dict[str, str] = {}
    if found.model is not None:
        figures = facts.of_model(found.model)
        rows |= facts.summary(figures)
    if found.statistics is not None:
        figures = facts.of_statistics(found.statistics)
        rows |= facts.summary(figures)
    rows["kernel"] = facts.called(figures["kernel"])
    calibration = told.encoder.calibration
    steps = f"steps of {number(calibration.step.min())} to {number(calibration.step.max())}"
    weights = "rows without weights" if calibration.mean_weight is None else "rows with weights"
    rows["calibration"] = f"{steps}, {weights}"
    rows |= {f"digest of {name}": digest for name, digest in told.encoder.digests.items()}
    return Table("By their own figures", (), list(rows.items()))


def _sections(found: Findings, where: str | None) -> Iterator[Section]:
    if found.path is not None or (found.model is not None and found.model.history):
        yield _penalties(found)
    if found.error is not None:
        yield _errors(found, where or "")
    if found.spectrum is not None:
        yield _spectrum(found)
    if found.widths is not None:
        yield _widths(found)
    yield _rows(found)


def _penalties(found: Findings) -> Section:
    """Error, cross-validation, evidence and degrees of freedom against alpha."""
    assert found.model is not None
    path, folds, model = found.path, found.folds, found.model
    columns: dict[str, dict[float, str]] = {}
    pictures, tables = [], []
    is_classes = model.book is not None
    alpha = float(model.alpha) if np.ndim(model.alpha) == 0 else None
    wrong: list[Curve] = []
    squares: list[Curve] = []
    if model.history:
        alphas, figures = np.array(model.history).T
        held = Curve("held out of the fit", alphas, 100 * figures if is_classes else figures)
        (wrong if is_classes else squares).append(held)
        shown = percent if is_classes else number
        told = ["alpha", "wrong labels" if is_classes else "mean squared error"]
        rows = [[f"{a:.5g}", shown(figure)] for a, figure in model.history]
        tables.append(Table("On the rows held out of the fit", told, rows))
    if found.errors_by_alpha:
        name, factor, shown = ("error", 100, percent) if is_classes else ("rmse", 1, number)
        tried = [(a, report[name]) for a, report in found.errors_by_alpha]
        wrong.append(Curve("data given", [a for a, _ in tried], [factor * e for _, e in tried]))
        columns[f"{'error' if is_classes else 'RMSE'}, data given"] = {
            a: shown(e) for a, e in tried
        }
    if path is not None:
        squares.insert(0, Curve("generalised cross-validation", path.alphas, path.gcv))
        columns |= {
            "GCV": dict(zip(path.alphas, map(number, path.gcv), strict=True)),
            "log evidence": dict(zip(path.alphas, map(number, path.log_evidence), strict=True)),
            "degrees of freedom": dict(zip(path.alphas, map(number, path.dof), strict=True)),
        }
    if folds is not None:
        name = f"{len(folds.weights)}-fold cross-validation"
        squares.append(Curve(name, folds.alphas, folds.mse, folds.standard_error))
        pairs = zip(folds.mse, folds.standard_error, strict=True)
        told = [f"{number(mse)} ± {number(error)}" for mse, error in pairs]
        columns[f"{len(folds.weights)} folds ± standard error"] = dict(
            zip(folds.alphas, told, strict=True)
        )
    if wrong:
        unit = "wrong labels (%)" if is_classes else "root mean squared error (units of y)"
        pictures.append(
            _against(wrong, PENALTY, unit, "Error against the penalty", alpha, "lowest")
        )
    if squares:
        unit = "mean squared error (codes of ±1)" if is_classes else "mean squared error (y²)"
        title = "Squared error against the penalty"
        pictures.append(_against(squares, PENALTY, unit, title, alpha, "lowest"))
    if path is not None:
        evidence = np.where(np.isfinite(path.log_evidence), path.log_evidence, np.nan)
        pictures += [
            _against(
                [Curve("log evidence", path.alphas, evidence)], PENALTY, "log evidence (nats)",
                "Log evidence against the penalty", alpha, "greatest",
            ),
            _against(
                [Curve("degrees of freedom", path.alphas, path.dof)], PENALTY,
                "effective degrees of freedom", "Degrees of freedom against the penalty", alpha, "",
            ),
        ]  # fmt: skip
    if path is not None:
        rows = [
            [f"{a:.5g}", *(column.get(a, "-") for column in columns.values())] for a in path.alphas
        ]
        tables.insert(0, Table("Every penalty", ["alpha", *columns], rows))
    return Section("Error and penalty", list(_on_penalties(found, alpha)), pictures, tables)


def _on_penalties(found: Findings, alpha: float | None) -> Iterator[str]:
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


def _against(drawn, x, y, title, mark, best, ticks=()) -> Picture:
    """Draw curves, and say where each is best."""
    alt = [f"{title}."]
    for curve in drawn:
        values = np.asarray(curve.y, dtype=np.float64)
        if best and np.isfinite(values).any():
            place = int(np.nanargmin(values) if best == "lowest" else np.nanargmax(values))
            alt.append(f"{curve.name}: {best} at {curve.x[place]:.4g}, {values[place]:.5g}.")
        elif len(values):
            alt.append(f"{curve.name}: from {values[0]:.5g} to {values[-1]:.5g}.")
    logarithmic = "xy" if _spans(drawn) else "x"
    svg = curves(drawn, x, y, mark=mark, logarithmic=logarithmic, ticks=ticks)
    return Picture(svg, title, " ".join(alt))


def _spans(drawn) -> bool:
    """Tell whether curves are above 0 and span more than a decade."""
    values = np.concatenate([np.asarray(curve.y, dtype=np.float64) for curve in drawn])
    values = values[np.isfinite(values)]
    return bool(len(values) and values.min() > 0 and values.max() > 10 * values.min())


def _errors(found: Findings, where: str) -> Section:
    """Errors on the data: the confusion matrix, or those of values."""
    assert found.error is not None
    if "confusion_matrix" not in found.error:
        rows = [
            ["root mean squared error", number(found.error["rmse"])],
            ["mean absolute error", number(found.error["mae"])],
            ["R2", f"{found.error['r2']:.4f}"],
        ]
        table = Table(f"Of {found.error['n_rows']:,} rows", ["figure", "value"], rows)
        return Section("Errors on the data", [f"On {where}."], (), [table])
    labels = [str(label) for label in found.error["labels"]]
    confusion = np.array(found.error["confusion_matrix"])
    true, taken = confusion.sum(axis=1), confusion.sum(axis=0)
    right = np.diagonal(confusion)
    share = confusion / np.where(true > 0, true, 1)[:, np.newaxis]
    text = [
        f"On {where}: {percent(found.error['error'])} of {found.error['n_rows']:,} rows are given "
        "the wrong label."
    ]
    pictures, tables = [], []
    if len(labels) <= MOST_CELLS:
        text.append("In the table, rows are the true classes and columns those given.")
        depth = np.sqrt(share) * 0.85  # so that one mistake in a thousand is seen
        cells = [
            [name, *(f"{n:g}" if n else "" for n in row)]
            for name, row in zip(labels, confusion, strict=True)
        ]
        tables.append(Table("Confusion matrix", ["true", *labels], cells, depth))
    else:
        drawn = shades(share, "place of the class given", "place of the true class")
        alt = f"Confusion matrix of {len(labels):,} classes; {share.diagonal().mean():.1%} of a "
        pictures.append(Picture(drawn, "Confusion matrix", alt + "class are right on average."))
    with np.errstate(invalid="ignore"):
        recall, precision = right / true, right / taken
    order = np.argsort(np.where(true > 0, recall, np.inf), kind="stable")[:MOST_CLASSES]
    per_class = [
        [labels[i], f"{true[i]:g}", *(percent(s[i]) if s[i] == s[i] else "-"
                                      for s in (recall, precision))]
        for i in order
    ]  # fmt: skip
    told = ["class", "rows", "found (recall)", "right when given (precision)"]
    tables.append(Table("Classes, the hardest first", told, per_class))
    mistakes = confusion - np.diag(right)
    worst = np.argsort(-mistakes, axis=None, kind="stable")[:MOST_MISTAKES]
    pairs = [divmod(int(place), len(labels)) for place in worst]
    common = [[labels[i], labels[j], f"{mistakes[i, j]:g}"] for i, j in pairs if mistakes[i, j]]
    if common:
        tables.append(Table("Most frequent mistakes", ["true", "given", "rows"], common))
    return Section("Errors on the data", text, pictures, tables)


def _spectrum(found: Findings) -> Section:
    """Eigenvalues of the Gram."""
    assert found.spectrum is not None
    assert found.statistics is not None
    values, width = found.spectrum, found.statistics.encoder.n_components
    shown = values[values > values[0] * 1e-15] if len(values) else values
    rank = np.arange(1, len(shown) + 1)
    seconds = found.seconds["spectrum"]
    text = [
        "Eigenvalues of the Gram of the centred features, in squared units of the features. A "
        "penalty far above an eigenvalue leaves its direction out, one far below leaves it free. "
        f"{len(values):,} eigenvalues took {seconds:.2g} s."
    ]
    if width > WIDEST_SPECTRUM:
        text.append(
            f"They are those of {WIDEST_SPECTRUM:,} of the {width:,} features, chosen at random: "
            "the time grows as the third power of the width."
        )
    marked = (
        f"{len(values):,} eigenvalues from {values[0]:.4g} down to {values[-1]:.4g}, on "
        "logarithmic axes."
    )
    alpha = np.asarray(found.model.alpha) if found.model is not None else np.empty(0)
    drawn = [Curve("eigenvalue", rank, shown)]
    if alpha.ndim == 0 and alpha > 0:
        drawn.append(Curve("penalty of the model", [1, len(shown)], [float(alpha)] * 2))
        above = int((values > alpha).sum())
        text.append(f"{above:,} eigenvalues are above the penalty of the model.")
    svg = curves(drawn, "rank", "eigenvalue", logarithmic="xy", points=False)
    places = np.unique(np.geomspace(1, len(values), ROWS_OF_SPECTRUM).astype(int))
    share = np.cumsum(values) / (values.sum() or 1.0)
    rows = [[f"{n:,}", number(values[n - 1]), percent(share[n - 1])] for n in places]
    table = Table("Some of them", ["rank", "eigenvalue", "share of the variance so far"], rows)
    return Section("Spectrum", text, [Picture(svg, "Eigenvalues", marked)], [table])


def _widths(found: Findings) -> Section:
    """Error against width."""
    assert found.widths is not None
    assert found.model is not None
    widths = found.widths
    is_classes = found.model.book is not None
    x, ticks = "features (random choices, each within the next)", widths.widths.tolist()
    unit = "mean squared error (codes of ±1)" if is_classes else "mean squared error (y²)"
    gcv = [Curve("generalised cross-validation", widths.widths, widths.gcvs)]
    pictures = [_against(gcv, x, unit, "Squared error against the width", None, "lowest", ticks)]
    columns = ["features", "alpha", "GCV", "degrees of freedom"]
    errors = {}
    if found.errors_by_width:
        key, factor, shown = ("error", 100, percent) if is_classes else ("rmse", 1, number)
        drawn = Curve("data given", [n for n, _ in found.errors_by_width],
                      [factor * report[key] for _, report in found.errors_by_width])  # fmt: skip
        unit = "wrong labels (%)" if is_classes else "root mean squared error (units of y)"
        pictures.insert(
            0, _against([drawn], x, unit, "Error against the width", None, "lowest", ticks)
        )
        columns.append("error, data given" if is_classes else "RMSE, data given")
        errors = {n: shown(report[key]) for n, report in found.errors_by_width}
    rows = [
        [f"{n:,}", f"{alpha:.5g}", number(gcv), number(dof)]
        + ([errors.get(int(n), "")] if errors else [])
        for n, alpha, gcv, dof in zip(
            widths.widths, widths.alphas, widths.gcvs, widths.dofs, strict=True
        )
    ]
    text = [
        "Each width is a random choice of the features that holds the narrower ones, solved from "
        "the same sums at its own best penalty by generalised cross-validation. A curve that still "
        "falls at its end asks for more features. Statistics.prune chooses better than chance."
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
        weights = getattr(found.statistics.sums.targets, "weights", None)
        if found.statistics.labels is not None and weights is not None and weights.sum() > 0:
            total = weights.sum()
            shares = [
                [str(label), percent(weight / total)]
                for label, weight in zip(found.statistics.labels, weights, strict=True)
            ]
            tables.append(
                Table("Classes of the rows summed", ["class", "share of the weight"],
                      shares[:MOST_CLASSES])
            )  # fmt: skip
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
