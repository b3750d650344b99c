"""The section on errors on the data: what is confused, curves of two classes, values."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy

from streamrf.report.base import (
    Findings,
    Picture,
    Section,
    Table,
    ValueSample,
    number,
    percent,
)
from streamrf.report.facts import least_explained
from streamrf.report.pictures import Curve, curves, scatter, shades

MAX_CELLS = 12  # classes up to which the confusion matrix is a table; more are a drawing
MAX_NAMED = 40  # classes up to which the drawing names them
MAX_CLASSES = 100  # classes with a row of their own
MAX_MISTAKES = 20

MAX_TARGETS = 20  # in a table


def on_data(found: Findings, where: str) -> Section:
    """Return errors on the data: of classes, or of values."""
    assert found.error is not None
    section = _of_values if found.sample is not None else _of_classes
    text, pictures, tables = section(found, found.error)
    return Section("Errors on the data", [f"On {where}.", *text], pictures, tables)


def _doubts(found: Findings, error: dict[str, Any]) -> Iterator[str]:
    """Yield warnings of rows that the model has seen, and of those unlike any that it has."""
    if error["n_rows_trained_on"]:
        n_rows = error["n_rows_trained_on"]
        yield f"{n_rows:,} of these rows were trained on, so the figures are too good."
    if found.drifted:
        yield (
            f"{found.drifted[0].upper()}{found.drifted[1:]} drifted: the mean is more than a "
            "deviation away from that of the rows trained on, or the deviation ten times as great."
        )


Parts = tuple[list[str], list[Picture], list[Table]]


def _of_values(found: Findings, error: dict[str, Any]) -> Parts:
    """Return the errors of values, next to the spread of the targets."""
    sample = found.sample
    assert sample is not None
    rows = [
        ["root mean squared error", number(error["rmse"])],
        ["mean absolute error", number(error["mae"])],
        ["R2", f"{error['r2']:.4f}"],
        ["standard deviation of the targets", number(sample.spread)],
    ]
    text = [*_doubts(found, error)]
    tables = [Table(f"Of {found.of_rows(error['n_rows'])}", ["figure", "value"], rows)]
    if "by_target" in error:
        by_name = [
            [target, *(number(one[name]) for name in ("rmse", "mae", "r2"))]
            for target, one in least_explained(error["by_target"], MAX_TARGETS)
        ]
        of_many = len(error["by_target"]) > MAX_TARGETS
        which = f"The {MAX_TARGETS} targets of the least R2" if of_many else "Each target"
        heads = ["target", "root mean squared error", "mean absolute error", "R2"]
        title = f"{which}; the figures above are means over all"
        tables.append(Table(title, heads, by_name))
    n = f"{len(sample.truth):,} rows"
    truth, values = sample.truth[:, 0], sample.values[:, 0]
    if sample.truth.shape[1] > 1:
        text.append("The drawings are of the first target.")
    apart = truth - values
    alt = f"{n}: the correlation is {_correlation(truth, values):.3f}."
    about = f"{n}: residuals have mean {apart.mean():.4g} and standard deviation {apart.std():.4g}."
    pictures = [
        Picture(
            scatter(values, truth, ("predicted", "true"), "diagonal"), f"True values, {n}", alt
        ),
        Picture(
            scatter(values, apart, ("predicted", "true less predicted"), "zero"),
            "Residuals", about,
        ),
    ]  # fmt: skip
    if sample.deviations is not None:
        levels, covered = _coverage(sample)
        drawn = [Curve("found", levels, covered), Curve("as promised", levels, levels)]
        svg = curves(drawn, "interval (%)", "true values inside (%)", logarithmic="")
        both = zip(levels, covered, strict=True)
        told = [[f"{level:g} %", f"{share:.1f} %"] for level, share in both]
        pictures.append(Picture(svg, "Coverage", "Shares inside of intervals: see the table."))
        tables.append(Table(f"Intervals of {n}", ["interval", "true values inside"], told))
    return text, pictures, tables


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.corrcoef(x, y)[0, 1]) if len(x) > 1 else float("nan")


def _coverage(sample: ValueSample) -> tuple[np.ndarray, np.ndarray]:
    """Return levels of central intervals and the shares of true values inside, in percent."""
    assert sample.deviations is not None
    levels = np.array([50.0, 80.0, 90.0, 95.0, 99.0])
    reach = scipy.special.ndtri((1 + levels / 100) / 2)[:, np.newaxis, np.newaxis]
    inside = np.abs(sample.truth - sample.values) <= reach * sample.deviations
    return levels, 100 * inside.mean(axis=(1, 2))


def _of_classes(found: Findings, error: dict[str, Any]) -> Parts:
    """Return the errors of classes: figures, what is confused with what, curves."""
    labels = [str(label) for label in error["labels"]]
    confusion = np.array(error["confusion_matrix"])
    true = confusion.sum(axis=1)
    share = confusion / np.where(true > 0, true, 1)[:, np.newaxis]
    text = [
        f"{percent(error['error'])} of {found.of_rows(error['n_rows'])} "
        f"{'is' if found.is_weighted else 'are'} given the wrong label.",
        *_doubts(found, error),
    ]
    pictures, tables = list(_curves(found, error, labels)), [_class_figures(error)]
    if len(labels) <= MAX_CELLS:
        text.append("In the confusion matrix, rows are the true classes and columns those given.")
        depth = np.sqrt(share) * 0.85  # so that one mistake in a thousand is seen
        cells = [
            [name, *(f"{n:g}" if n else "" for n in row)]
            for name, row in zip(labels, confusion, strict=True)
        ]
        tables.append(Table("Confusion matrix", ["true", *labels], cells, depth))
    else:
        names = labels if len(labels) <= MAX_NAMED else []
        place = "" if names else "place of the "
        drawn = shades(share, f"{place}class given", f"{place}true class", names)
        alt = f"Confusion matrix of {len(labels):,} classes; {share.diagonal().mean():.1%} of a "
        pictures.append(Picture(drawn, "Confusion matrix", alt + "class are right on average."))
    unit = "weight" if found.is_weighted else "rows"
    tables += [*_mistakes(labels, confusion, unit), _classes(labels, confusion, unit)]
    return text, pictures, tables


def _mistakes(labels: list[str], confusion: np.ndarray, unit: str) -> Iterator[Table]:
    """Yield the pairs that are confused most, if any are."""
    mistakes = confusion - np.diag(np.diagonal(confusion))
    worst = np.argsort(-mistakes, axis=None, kind="stable")[:MAX_MISTAKES]
    pairs = [divmod(int(index), len(labels)) for index in worst]
    true = confusion.sum(axis=1)
    common = [
        [labels[i], labels[j], f"{mistakes[i, j]:g}", percent(mistakes[i, j] / true[i])]
        for i, j in pairs
        if mistakes[i, j]
    ]
    if common:
        columns = ["true", "given", unit, "of the class"]
        yield Table("Most frequent mistakes", columns, common)


def _curves(found: Findings, error: dict[str, Any], labels: list[str]) -> Iterator[Picture]:
    """Yield the curves of two classes, and the calibration of probabilities."""
    if found.curve is not None:
        wrong, recall, precision = 100 * found.curve
        first = int(np.argmax(recall > 0))
        drawn = [Curve("model", wrong, recall), Curve("chance", [0, 100], [0, 100])]
        of_others, found_of = "false positives (%)", "recall (%)"
        svg = curves(drawn, of_others, found_of, logarithmic="", points=False)
        yield Picture(
            svg, f"ROC curve of {labels[1]}", f"ROC curve; the area below is {error['auc']:.4f}."
        )
        drawn = [Curve("model", recall[first:], precision[first:])]
        svg = curves(drawn, found_of, "precision (%)", logarithmic="", points=False)
        at = float(np.interp(90.0, recall, precision))
        alt = f"Precision and recall: where 90 % are found, {at:.1f} % of those taken are right."
        yield Picture(svg, f"Precision and recall of {labels[1]}", alt)
    if error["reliability"]:
        sure, right, _ = 100 * np.array(error["reliability"]).T
        low = min(sure.min(), right.min())
        drawn = [Curve("model", sure, right), Curve("calibrated", [low, 100], [low, 100])]
        svg = curves(drawn, "probability of the class given (%)", "right (%)", logarithmic="")
        off = percent(error["calibration_error"])
        alt = f"Calibration: probabilities are {off} off on average."
        yield Picture(svg, "Calibration", alt)


def _class_figures(error: dict[str, Any]) -> Table:
    """Return the main figures of a classifier; those of probabilities where it has them."""
    top = error["top_k_accuracy"]
    rows = [
        ["error", percent(error["error"])],
        ["error, mean over the classes", percent(error["balanced_error"])],
        *([f"true class among the best {k}", percent(top[k - 1])] for k in (2, 5) if k < len(top)),
    ]
    if error["auc"] is not None:
        rows.append(["area under the ROC curve", f"{error['auc']:.4f}"])
    if error["log_loss"] is not None:
        rows.append(["log loss", number(error["log_loss"])])
        rows.append(["Brier score", number(error["brier"])])
        rows.append(["calibration error", percent(error["calibration_error"])])
    return Table("Figures", ["figure", "value"], rows)


def _classes(labels: list[str], confusion: np.ndarray, unit: str) -> Table:
    """Recall and precision of each class."""
    true, taken, right = confusion.sum(axis=1), confusion.sum(axis=0), np.diagonal(confusion)
    with np.errstate(invalid="ignore"):
        recall, precision = right / true, right / taken
    order = np.argsort(np.where(true > 0, recall, np.inf), kind="stable")[:MAX_CLASSES]
    rows = [
        [labels[i], f"{true[i]:g}"]
        + [percent(share[i]) if share[i] == share[i] else "-" for share in (recall, precision)]
        for i in order
    ]
    columns = ["class", unit, "found (recall)", "right when given (precision)"]
    return Table("Classes, the hardest first", columns, rows)
