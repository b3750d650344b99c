"""Settings of estimators as trees, and back by a closed table of classes."""

import os
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from streamrf import storage
from streamrf.display import Parametrized, clone
from streamrf.errors import DataError, ParameterError, check_readable
from streamrf.features import DESCRIBED, RAW_DTYPES
from streamrf.jit.arrays import Array, Floats
from streamrf.models import ErrorCorrectingCodes, OneVsRest
from streamrf.preprocessing import Moments, Warp
from streamrf.sources import (
    Source,
    as_known,
    as_targets,
    names_of,
    target_places,
    weight_column,
    without_gaps,
)
from streamrf.statistics import Statistics
from streamrf.storage import Fields, Tree

_CLASSES = {**DESCRIBED, "OneVsRest": OneVsRest, "ErrorCorrectingCodes": ErrorCorrectingCodes}

OF_SUMS = (
    "features", "n_components", "kernels", "budget", "normalize", "warp", "warp_rounds",
    "scale_like", "precision",
)  # fmt: skip


def of_sums(estimator: Any) -> dict[str, str]:
    """Return the parameters that sums are of, as they are shown."""
    return {name: repr(getattr(estimator, name)) for name in (*OF_SUMS, "class_weight")}


def keep_columns(estimator: Any, source: Source) -> None:
    """Let an estimator keep the number of a source's columns, and their names and those of y."""
    vars(estimator).pop("feature_names_in_", None)
    estimator.n_features_in_, estimator._target_names = source.n_features, source.target_names
    if source.columns is not None:
        estimator._target_names = source.columns.targets
        names = [column.name for column in source.columns.columns]
        estimator.feature_names_in_ = np.array(names, dtype=object)
        estimator.n_features_in_ = len(names)


def check_unchanged(estimator: Any, has_weights: bool) -> None:
    """Raise ParameterError for a parameter set anew that sums have the old value of.

    Weights of classes may be others, but not come or go where rows have none of their own.
    """
    now = of_sums(estimator)
    for name, began in getattr(estimator, "_begun_with", {}).items():  # which old pickles lack
        if name == "class_weight" and (has_weights or _are_both_given(began, now[name])):
            continue
        if now[name] != began:
            raise ParameterError(
                f"{name} was set to {now[name]}, and the rows so far are summed with {began}: "
                "set it back, or begin anew by fit or a clone"
            )


def _are_both_given(began: str, now: str) -> bool:
    """Return whether a parameter was, and is, another than None, as they are shown."""
    return began != repr(None) and now != repr(None)


def described(settings: dict[str, Any]) -> Tree:
    """Return settings by name as a tree; a `RandomState` becomes None."""
    return {name: _described(name, value) for name, value in settings.items()}


def restored(fields: Fields) -> dict[str, Any]:
    """Return the settings by name that a tree describes."""
    return {name: _value(fields, name) for name in fields.keys}


def _described(name: str, value: Any) -> Any:
    if name == "random_state" and not isinstance(value, int | np.integer):
        return None
    if isinstance(value, Parametrized):
        return storage.to_tree(clone(value))
    if isinstance(value, Statistics):
        value = value.moments
    if isinstance(value, Warp | Moments):
        return {type(value).__name__: value.to_tree()}
    if isinstance(value, dict):
        return {"labels": list(value), "weights": list(value.values())}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return list(value) if isinstance(value, tuple) else value


def _value(fields: Fields, name: str) -> Any:
    if not fields.is_tree(name):
        return fields.value(name)
    inner = fields.tree(name)
    if "class" in inner.keys:
        return storage.from_tree(inner, _CLASSES)
    found: Any
    if "labels" in inner.keys:
        labels = inner.scalars("labels", None, lambda v: v is not None, "labels")
        factors = inner.scalars("weights", len(labels), lambda v: v is not None, "weights")
        found = dict(zip(labels, factors, strict=True))
    elif "Warp" in inner.keys:
        warp = inner.tree("Warp")
        found = Warp.from_tree(warp, warp.length("matrix"))
    else:
        found = Moments.from_tree(inner.tree("Moments"))
    inner.end()
    return found


def ordered(y: Any, wanted: tuple[str, ...] | None) -> Any:
    """Return several targets in the order of names learnt from, where both sides have names."""
    places = target_places(wanted or (), names_of(y, "y") or (), "y")
    return y if places is None else np.asarray(y)[:, places]


def compared(
    X: Any, y: Any, sample_weight: Any, wanted: tuple[str, ...] | None = None
) -> tuple[Any, Any]:
    """Return targets and weights of rows X that are scored, as `fit` reads them.

    Nullable targets of pandas are what they hold, several are in the order of `wanted`. Raise
    DataError for masked entries or no targets, ShapeError for targets of another length.
    """
    if y is None:
        raise DataError(
            "score needs y, the labels or values of rows: score(X, y), or a source that has them"
        )
    check_readable(sample_weight, "sample_weight")
    y = ordered(y, wanted)
    n_rows = _known_length(X)
    y = as_targets(y, len(np.atleast_1d(np.asarray(y))) if n_rows is None else n_rows, "y")
    return y, sample_weight


def _known_length(X: Any) -> int | None:
    """Return the number of rows of an array or table; None where it is known by reading them."""
    n_rows = len(X) if isinstance(X, list | tuple) else next(iter(getattr(X, "shape", ())), None)
    return int(n_rows) if isinstance(n_rows, int | np.integer) else None


def checked_rows(estimator: Any, X: Any, y: Any, **how: Any) -> Any:
    """Return X as scikit-learn's conventions want it checked; raise ValueError if y is None."""
    given = None if y is None else "no_validation"
    return validate_data(estimator, as_known(X), given, dtype=RAW_DTYPES, **how)


def rows_alone(estimator: Any, X: Any, reset: bool = False, **how: Any) -> Any:
    """Return rows without targets, checked but for NaN, which the reading of them names."""
    how |= {"dtype": RAW_DTYPES, "ensure_all_finite": False, "reset": reset}
    return validate_data(estimator, as_known(X), **how)


def checked_labels(y: Any, n_rows: int) -> Array:
    """Return labels (n_rows,), as scikit-learn's conventions want them checked but for NaN.

    Nullable ones of pandas become integers, booleans or strings, as `accumulate` has them.
    """
    check_readable(y, "y")
    if np.asarray(y).ndim == 2:
        column_or_1d(y, warn=True)
    labels = as_targets(y, n_rows, "y")
    known = without_gaps(labels)
    if len(known):
        check_classification_targets(known)
    return labels


def checked_weights(sample_weight: Any, n_rows: int) -> Floats:
    """Return weights, one for each row, from an array or a number; NaN and infinity are left in.

    DataError if all are zero, or some are masked.
    """
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_rows, sample_weight)
    weights: Floats = weight_column(sample_weight, n_rows, "sample_weight")
    if n_rows and not weights.any():
        raise DataError(
            f"sample_weight: the weights of all {n_rows:,} rows are zero, so they teach nothing; "
            "leave such a batch out"
        )
    return weights
