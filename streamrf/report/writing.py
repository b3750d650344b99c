"""A report: one page about a model, its statistics, or both, that needs nothing but itself.

`write` measures what the files hold and, in one pass, how the model does on data; it draws and
tables the figures and writes them as HTML with the drawings inside. Needs matplotlib, the extra
``plots``.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamrf.errors import check_kind
from streamrf.models import Model
from streamrf.report import facts
from streamrf.report.base import Findings, Table, number, shown
from streamrf.report.lead import in_words, lead
from streamrf.report.measuring import measure
from streamrf.report.pictures import check_drawing
from streamrf.report.sections import sections
from streamrf.sources import Source, as_source
from streamrf.statistics import Statistics
from streamrf.storage import replacing

TEMPLATE = Path(__file__).with_name("page.html")


def write(
    path: str | os.PathLike,
    model: Any = None,
    statistics: Statistics | None = None,
    data: Source | ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    weights: ArrayLike | None = None,
    title: str | None = None,
    names: Sequence[str] = (),
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
    model : a model, a fitted `RandomFeatureClassifier` or `RandomFeatureRegressor`, or None for the
        model of the statistics' best penalty
    statistics : its sums, or the estimator that has them; without them there is nothing to show of
        spectrum and width
    data : Source with targets, array (n, n_features), or None: rows not trained on
    y, weights : of the rows of an array
    title : of the page, any text; None for what matters most
    names : of the files, to be shown
    stage : called with the name of what comes next
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
    model = getattr(model, "model_", model)
    statistics = getattr(statistics, "statistics_", statistics)
    if model is not None:
        kinds = "a model, RandomFeatureClassifier or RandomFeatureRegressor, fitted"
        check_kind("model", model, Model, kinds)
    check_kind("statistics", statistics, Statistics | None, "Statistics or None")
    source = None if data is None else as_source(data, y, weights)
    found = measure(model, statistics, source, stage=stage, **options)
    stage("drawing")
    where = "" if source is None else source.where
    page = _template().render(
        title=title or in_words(found),
        lead=lead(found, where),
        sections=sections(found, where),
        facts=_facts(found, names),
    )
    content = page.encode()
    with replacing(path, len(content)) as file:
        file.write(content)
    return {
        "alpha": None if found.model is None else np.asarray(found.model.alpha).tolist(),
        "gcv_alpha": None if found.path is None else found.path.best_alpha(),
        "n_rows": found.subject.n_rows,
        "error": found.error,
        "seconds": found.seconds,
    }


def _template() -> Any:
    import jinja2  # not at the start of every command

    environment = jinja2.Environment(
        autoescape=True,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8"))


def _facts(found: Findings, names: Sequence[str]) -> Table:
    """Return what the files hold, two columns of words, digests last."""
    encoder = found.subject.encoder
    rows: dict[str, str] = {"files": ", ".join(names)} if names else {}
    if found.model is not None:
        figures = facts.of_model(found.model)
        rows |= facts.summary(figures)
    if found.statistics is not None:
        figures = facts.of_statistics(found.statistics)
        rows |= facts.summary(figures)
    calibration = encoder.calibration
    steps = f"steps of {number(calibration.step.min())} to {number(calibration.step.max())}"
    weights = "rows without weights" if calibration.mean_weight is None else "rows with weights"
    rows["calibration"] = f"{steps}, {weights}"
    rows |= {f"digest of {name}": digest for name, digest in encoder.digests.items()}
    return Table("By their own figures", (), list(rows.items()))
