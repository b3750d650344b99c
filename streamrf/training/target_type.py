"""Whether targets are classes or values, and what each class weighs: by a look at the rows."""

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from streamrf.errors import DataError, ParameterError, warn
from streamrf.jit.arrays import Array, Floats
from streamrf.preprocessing import CALIBRATION_ROWS
from streamrf.sources import (
    BALANCED,
    Block,
    ClassWeighted,
    Columns,
    Source,
    as_labels,
    check_named,
    class_factors,
    is_number,
    is_one_hot,
    named_factors,
    of_targets,
    without_gaps,
)
from streamrf.statistics import BitSums, ClassSums, Statistics
from streamrf.training.continuing import check_continues
from streamrf.training.peeking import peek
from streamrf.training.settings import AUTO, Settings

logger = logging.getLogger("streamrf")

MAX_NUMBERED = 100  # classes that are whole floats, or integers with gaps; more are like values
MANY, SOME, ROWS = 50, 20, 10  # classes that are numbers which are told, or with so few rows each
WHOLE = 2.0**53  # from which on every float is whole
MIN_NUMBERS, MAX_ODD = 10, 0.1  # texts that are numbers, and share of others, that look like dirt
MAX_SLIPS = 0.02  # of the rows, with another text beside fewer numbers, that look like dirt too
GAPS = 2  # numbers from the least to the greatest for each that occurs, with which they have gaps
ROUNDING = 1e-9  # of sums of floats, relative
MAX_CLASS_SHARE, MIN_TASK_ROWS = 0.9, 30  # classes of the rows, of at least so many


def settled(source: Source, settings: Settings, like: Statistics | None) -> tuple[Source, Settings]:
    """Return the source as sums of `like` read it, rows weighed by class; and the task decided.

    Raises
    ------
    ShapeError
        Columns or targets of other names than those of `like`.
    DataError
        Targets that could be of either task.
    ParameterError
        Weights of classes for values, of labels of another kind, or next to sums without weights;
        settings other than those of `like`.
    """
    if like is not None:
        check_continues(settings, like)
        given, source = source, like.encoder.adapted(source, like.labels)
        _warn_of_other_target(given, like.encoder.table)
        _warn_of_nameless(given, like)
        if source.is_unlabelled and (like.labels is not None or like.sums.targets.sums.any()):
            warn(
                f"{source.where}: these rows have no labels, and those of like= have; compare the "
                "sums with theirs (mmd), but do not add them"
            )
        _warn_of_other_labels(source, like.labels)
    task = settings.task
    if task == AUTO and like is not None:
        task = "regression" if like.labels is None else "classification"
    elif task == AUTO and settings.is_of_classes:
        task = "classification"
    elif task == AUTO:
        task = task_of(source)
    settings = replace(settings, task=task, regression=task == "regression")
    if settings.regression:
        source = source.of_values()
    if settings.class_weight is None:
        return source, settings
    if like is not None and like.encoder.calibration.mean_weight is None:
        raise ParameterError(
            "class_weight (--class-weight) gives weights to the rows, and those of like= (--like) "
            "have none; leave it out, or weigh the rows of both"
        )
    if like is not None and settings.class_weight == BALANCED:
        warn(
            "class_weight='balanced' (--class-weight balanced) weighs these rows by their own "
            "shares, and those of like= (--like) were weighed by theirs; give both the same: "
            "class_weight={label: number} (--class-weight LABEL=NUMBER,...)"
        )
    elif not (like is None or source.has_weights or _is_weighed(like, settings.class_weight)):
        warn(
            "class_weight (--class-weight) weighs rows by their labels, and those of like= "
            "(--like) were not weighed by this one; give both the same, unless others are meant"
        )
    return _weighed(source, settings.class_weight), settings


def _warn_of_nameless(source: Source, like: Statistics) -> None:
    """Warn that targets with names go by their places, as the sums to continue know no names."""
    names = source.target_names if source.columns is None else source.columns.targets
    if names is not None and len(names) > 1 and not like.encoder.target_names:
        warn(
            f"{source.where}: the sums of like= (--like) know no names of targets, so these are "
            f"taken for theirs in the order {', '.join(names)}"
        )


def _is_weighed(like: Statistics, class_weight: str | Mapping[Any, float]) -> bool:
    """Return whether the sums may be of rows that weigh what these weights make of their labels.

    The weights are not kept, but the sums of those of each class are: divided by what a row of the
    class is to weigh they are its rows, and those of all classes together are known.
    """
    targets, calibration = like.sums.targets, like.encoder.calibration
    if like.is_scaled or not isinstance(targets, BitSums | ClassSums) or not len(targets.labels):
        return True  # as far as is known
    factors = class_factors(class_weight, targets.labels, targets.weights)
    unit = calibration.roots(factors, len(factors)) ** 2
    weighty = unit > 0
    if targets.weights[~weighty].any():
        return False
    n_rows = float((targets.weights[weighty] / unit[weighty]).sum())
    return math.isclose(n_rows, like.sums.n_weighted, rel_tol=ROUNDING)


def cures_of(settings: Settings) -> dict[str, str]:
    """Return what to do where the rows of a checkpoint led to other settings, by their names."""
    if settings.class_weight != BALANCED:
        return {}
    return {
        "source/class_weight": "Balanced weights are of the shares of the classes in the rows, "
        "which have changed: begin anew with a checkpoint file of its own, and for rows that grow "
        "with weights that stay (class_weight={label: number}, --class-weight LABEL=NUMBER,...)"
    }


def task_of(source: Source) -> str:
    """Return "regression" for fractions or several targets a row, else "classification".

    Targets of files that look like classes written one-hot are classes, which is logged; others
    are values, and warned of. DataError if nearly
    every row has a class of its own, or if over 100 classes are whole floats or integers of which
    at most half occur, as prices are.
    """
    if source.is_unlabelled:
        return "regression"
    sample, where = source.sample(CALIBRATION_ROWS), source.where_targets
    y = np.asarray(sample.y)
    if source.is_one_hot:
        logger.info(
            "%s: the targets of each row have a single 1 and else zeros, so they are taken for "
            "classes, numbered from 0 on; values: task='regression' (--task regression)",
            where,
        )
        return "classification"
    if y.ndim > 1:
        if is_one_hot(y):
            warn(
                f"{where}: every row of the {y.shape[1]:,} targets has a single 1 and else "
                "zeros, as classes written one-hot have, and they are taken for values; if they "
                "are classes, give the number of the column with the 1 (y.argmax(axis=1)); if they "
                "are values, say so by task='regression' (--task regression)"
            )
        return "regression"
    if y.dtype.kind == "f" and _is_of_values(y[np.isfinite(y)]):
        return "regression"
    labels = of_targets(sample, as_labels)
    labels = without_gaps(labels)
    _look_for_dirt(sample, labels)
    n_classes, n = len(np.unique(labels)), len(labels)
    many = n_classes > MAX_NUMBERED and (y.dtype.kind == "f" or _has_gaps(y, n_classes))
    if many or (n >= MIN_TASK_ROWS and n_classes > MAX_CLASS_SHARE * n):
        what = "labels" if y.dtype.kind == "U" else "targets"
        between = "" if y.dtype.kind == "U" else f", from {labels.min():,} to {labels.max():,},"
        raise DataError(
            f"{where}: {n_classes:,} different {what}{between} in {n:,} rows are more like "
            "values than classes; say which they are by task='regression' or "
            "task='classification' (--task regression, --task classification)"
        )
    if y.dtype.kind in "iuf" and (n_classes > MANY or (n_classes > SOME and n < ROWS * n_classes)):
        warn(
            f"{where}: the {n_classes:,} different whole numbers of the targets are taken "
            "for classes; if they are values, say so by task='regression' (--task regression)"
        )
    return "classification"


def _look_for_dirt(sample: Block, labels: Array) -> None:
    """Raise DataError for texts that are ten numbers or more with fractions, but for a few; warn.

    One "n.a." makes texts of all numbers of a column. Whole numbers and few different ones may be
    classes.
    """
    levels = np.unique(labels).tolist() if labels.dtype.kind == "U" else []
    numbers = [float(level) for level in levels if is_number(level)]
    odd = [level for level in levels if not is_number(level)]
    _warn_of_alike(sample.where, levels)
    is_number_like = len(numbers) >= MIN_NUMBERS and len(odd) <= MAX_ODD * len(levels)
    is_slip = len(numbers) > 1 and np.isin(labels, odd).mean() <= MAX_SLIPS
    if not odd or not (is_number_like or is_slip):
        return
    i = int(np.flatnonzero(np.asarray(sample.y) == odd[0])[0])
    told = (
        f"{sample.where}, row {sample.row + int(sample.offsets[i])}: the target is {odd[0]!r}, and "
        f"{len(numbers):,} of {len(levels):,} different ones are numbers, so all are texts; "
        "correct it, or take the row out, if they are values"
    )
    has_fractions = any(np.isfinite(number) and number != np.floor(number) for number in numbers)
    if is_number_like and has_fractions:
        raise DataError(f"{told}; if they are classes, say task='classification' (--task)")
    warn(f"{told}; they are taken for classes")


def _warn_of_alike(where: str, levels: Iterable[str]) -> None:
    """Warn of labels that are the same integer, such as 01 and 1."""
    first: dict[int, str] = {}
    for level in levels:
        if level.strip().isdecimal() and first.setdefault(int(level), level) != level:
            warn(
                f"{where}: the labels {first[int(level)]!r} and {level!r} are the same number, and "
                "are taken for two classes; write them in one way if they are one"
            )
            return


def _is_of_values(y: Array) -> bool:
    """Return whether floats have fractions, or are many beyond those that could have."""
    if (y != np.floor(y)).any():
        return True
    return bool((np.abs(y) >= np.float64(WHOLE)).any() and len(np.unique(y)) > MAX_NUMBERED)


def _has_gaps(y: Array, n_classes: int) -> bool:
    """Return whether integers y leave out as many numbers as they have."""
    return y.dtype.kind in "iu" and int(y.max()) - int(y.min()) + 1 >= GAPS * n_classes


def _weighed(source: Source, class_weight: str | Mapping[Any, float]) -> Source:
    """Return the source with rows weighed by class.

    "balanced" by the shares of all rows where their targets are known, and else of those of a peek.
    """
    known = source.known_targets if isinstance(class_weight, str) else None
    if known is not None and known[0].ndim == 1:
        labels, weights = _class_sums(as_labels(known[0]), known[1])
        return ClassWeighted(source, labels, class_factors(class_weight, labels, weights))
    rows = peek(source) if isinstance(class_weight, str) else source.sample(CALIBRATION_ROWS)
    if np.ndim(rows.y) != 1:
        raise DataError(
            f"{source.where_targets}: class_weight (--class-weight) is for labels, one a row; y has"
            f" shape {np.shape(rows.y)}"
        )
    if isinstance(class_weight, str):
        labels, weights = _class_sums(of_targets(rows, as_labels), rows.weights)
        return ClassWeighted(source, labels, class_factors(class_weight, labels, weights), None)
    seen = np.unique(of_targets(rows, as_labels))
    labels, factors = named_factors(class_weight, seen)
    looked_at = f"the {len(rows.y):,} rows looked at before the pass"
    check_named(class_weight, seen, looked_at, "all")
    return ClassWeighted(source, labels, factors)


def _class_sums(y: Array, row_weights: Floats | None) -> tuple[Array, Floats]:
    """Return the labels of rows, and what those of each weigh together."""
    labels, index = np.unique(y, return_inverse=True)
    return labels, np.bincount(index, row_weights, minlength=len(labels)).astype(np.float64)


def _warn_of_other_labels(source: Source, known: Array | None) -> None:
    """Warn if labels are the same integers as known ones that are written in another way."""
    if known is None or known.dtype.kind != "U":
        return
    earlier = [label for label in known.tolist() if label.strip().isdecimal()]
    if earlier:
        labels = of_targets(source.sample(CALIBRATION_ROWS), as_labels)
        _warn_of_alike(source.where, [*earlier, *np.setdiff1d(labels, known).tolist()])


def _warn_of_other_target(source: Source, table: Columns | None) -> None:
    """Warn if the target has another name than that of the sums that are to go on."""
    columns = (source.columns, table)
    now, then = (() if known is None else known.targets for known in columns)
    if len(now) == len(then) == 1 and now != then:
        warn(
            f"the target of {source.where} is {now[0]!r}, and that of the rows summed before is "
            f"{then[0]!r}; if it is another, sum it by itself: without like= (--like)"
        )
