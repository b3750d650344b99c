"""Objects with settings and fitted arrays as trees, and back by a closed table of classes.

An object is a scikit-learn parameter holder: its settings are its constructor's arguments, its
fitted state the attributes whose names end in "_". Drawn arrays are stored, not seeds: NumPy
promises a seed's stream only within a version.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from streamrf.display import Parametrized
from streamrf.storage.base import Tree
from streamrf.storage.fields import Fields


def to_tree(value: Any) -> Any:
    """Return `value` as a tree: an object by class name, settings and fitted state.

    A list of objects is a tree of them by their indices. A setting that is code is its name, as
    the object's `code_names` has it.
    """
    if isinstance(value, Parametrized):
        params = value.get_params(deep=False) | getattr(value, "code_names", {})
        if not isinstance(params.get("random_state"), int | np.integer | None):
            params["random_state"] = None
        fitted = {k: v for k, v in vars(value).items() if k.endswith("_") and not k.startswith("_")}
        return {
            "class": type(value).__name__,
            "params": {k: to_tree(v) for k, v in params.items()},
            "fitted": {k: to_tree(v) for k, v in fitted.items()},
        }
    if isinstance(value, list | tuple) and any(isinstance(v, Parametrized) for v in value):
        return {str(i): to_tree(v) for i, v in enumerate(value)}
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value


def from_tree(tree: Tree | Fields, table: Mapping[str, Any]) -> Any:
    """Return the object that `to_tree` described; `table` maps names to the classes allowed.

    The fitted state is not checked: the caller does so before it uses the object.
    """
    fields = Fields.of(tree)
    cls = table[fields.text("class", table)]
    params, fitted = fields.tree("params"), fields.tree("fitted")
    fields.end()
    unknown = sorted(set(params.keys) - set(cls._get_param_names()))
    if unknown:
        raise params.wrong(unknown[0], f"is no setting of {cls.__name__}")
    value = cls(**{key: _described(params, key, table) for key in params.keys})
    for key in fitted.keys:
        if not key.endswith("_") or key.startswith("_"):
            raise fitted.wrong(key, "is not the name of a fitted attribute")
        setattr(value, key, _described(fitted, key, table))
    return value


def _described(fields: Fields, key: str, table: Mapping[str, Any]) -> Any:
    if not fields.is_tree(key):
        return fields.value(key)
    inner = fields.tree(key)
    if "class" in inner.keys:
        return from_tree(inner, table)
    objects = [from_tree(inner.tree(str(i)), table) for i in range(len(inner.keys))]
    inner.end()
    return objects


def tree_bytes(tree: Any) -> int:
    """Return the bytes of all arrays of a tree."""
    if isinstance(tree, dict):
        return sum(map(tree_bytes, tree.values()))
    return tree.nbytes if isinstance(tree, np.ndarray) else 0


def digest(tree: Any) -> str:
    """Return a 128-bit fingerprint of a tree, the same in every process and version."""
    state = hashlib.blake2b(digest_size=16)
    _feed(state, tree)
    return state.hexdigest()


def _feed(state: Any, value: Any) -> None:
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
