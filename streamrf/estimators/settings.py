"""Settings of estimators as trees, and back by a closed table of classes."""

import os
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from streamrf import storage
from streamrf.display import Parametrized, clone
from streamrf.errors import DataError, ParameterError
from streamrf.features import DESCRIBED
from streamrf.jit.arrays import Floats
from streamrf.models import ErrorCorrectingCodes, OneVsRest
from streamrf.preprocessing import Moments, Warp
from streamrf.sources import names_of, target_places
from streamrf.statistics import Statistics
from streamrf.storage import Fields, Tree

_CLASSES = {**DESCRIBED, "OneVsRest": OneVsRest, "ErrorCorrectingCodes": ErrorCorrectingCodes}

OF_SUMS = (
    "features", "n_components", "kernels", "normalize", "warp", "warp_rounds", "scale_like",
    "precision",
)  # fmt: skip


def of_sums(estimator: Any) -> dict[str, str]:
    """Return the parameters that sums are of, as they are shown."""
    return {name: repr(getattr(estimator, name)) for name in OF_SUMS}


def check_unchanged(estimator: Any, begun_with: dict[str, str]) -> None:
    """Raise ParameterError for a parameter set anew that sums have the old value of."""
    now = of_sums(estimator)
    for name, began in begun_with.items():
        if now[name] != began:
            raise ParameterError(
                f"{name} was set to {now[name]}, and the rows so far are summed with {began}: "
                "set it back, or begin anew by fit or a clone"
            )


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


def checked_weights(sample_weight: Any, X: Any) -> Floats:
    """Return weights, one for each row of X, as scikit-learn's conventions want them checked.

    DataError if all are zero.
    """
    given = np.asarray(sample_weight)
    if given.dtype.kind in "biuf" and given.size and not given.any():
        raise DataError(
            f"sample_weight: the weights of all {given.size:,} rows are zero, so they teach "
            "nothing; leave such a batch out"
        )
    weights: Floats = _check_sample_weight(sample_weight, X, dtype=np.float64)
    return weights
