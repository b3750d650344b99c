"""Settings of estimators as trees, and back by a closed table of classes."""

import os
from typing import Any

import numpy as np

from streamrf import storage
from streamrf.display import Parametrized, clone
from streamrf.features import DESCRIBED
from streamrf.models import ErrorCorrectingCodes, OneVsRest
from streamrf.preprocessing import Moments, Warp
from streamrf.statistics import Statistics
from streamrf.storage import Fields, Tree

_CLASSES = {**DESCRIBED, "OneVsRest": OneVsRest, "ErrorCorrectingCodes": ErrorCorrectingCodes}


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
