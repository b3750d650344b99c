"""Objects with settings and fitted arrays as trees, and back by a closed table of classes.

An object is a scikit-learn parameter holder: its settings are its constructor's arguments, its
fitted state the attributes whose names end in "_". Drawn arrays are stored, not seeds: NumPy
promises a seed's stream only within a version.
"""

import hashlib

import numpy as np
from sklearn.base import BaseEstimator

from streamrf.errors import FormatError


def to_tree(value):
    """Give `value` as a tree: an object by class name, settings and fitted state."""
    if isinstance(value, BaseEstimator):
        params = value.get_params(deep=False)
        if not isinstance(params.get("random_state"), int | np.integer | None):
            params["random_state"] = None
        fitted = {k: v for k, v in vars(value).items() if k.endswith("_") and not k.startswith("_")}
        return {
            "class": type(value).__name__,
            "params": {k: to_tree(v) for k, v in params.items()},
            "fitted": {k: to_tree(v) for k, v in fitted.items()},
        }
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value


def from_tree(tree, table):
    """Rebuild what `to_tree` described; classes come from `table` (name to class) alone."""
    if not (isinstance(tree, dict) and "class" in tree):
        return tree
    name = tree["class"]
    if name not in table:
        raise FormatError(f"the file holds a {name!r}; this version knows {sorted(table)}")
    cls = table[name]
    unknown = set(tree["params"]) - set(cls._get_param_names())
    if unknown:
        raise FormatError(f"{name} has no settings named {sorted(unknown)}")
    value = cls(**{k: from_tree(v, table) for k, v in tree["params"].items()})
    for key, fitted in tree["fitted"].items():
        if not key.endswith("_") or key.startswith("_"):
            raise FormatError(f"{name}: {key!r} is not the name of a fitted attribute")
        setattr(value, key, from_tree(fitted, table))
    return value


def digest(tree) -> str:
    """Give a 128-bit fingerprint of a tree, the same in every process and version."""
    state = hashlib.blake2b(digest_size=16)
    _feed(state, tree)
    return state.hexdigest()


def _feed(state, value):
    if isinstance(value, dict):
        state.update(b"{")
        for key in sorted(value):
            _feed(state, key)
            _feed(state, value[key])
        state.update(b"}")
    elif isinstance(value, np.ndarray):
        state.update(f"array {value.dtype.str} {value.shape}".encode())
        state.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, list | tuple):
        state.update(b"[")
        for item in value:
            _feed(state, item)
        state.update(b"]")
    else:
        state.update(f"{type(value).__name__} {value!r};".encode())
