"""Trees from files, read key by key: what is missing, wrong or unknown is an error that names it.

A file's digest shows that it is whole, not that its values are valid. Whatever a tree holds, a
loader that reads every value through `Fields` returns objects that cannot make compiled loops leave
their arrays, or raises `FormatError`.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from streamrf.errors import FormatError
from streamrf.storage.base import Keys, Path, Shape, Tree

MAX_INTEGER = 2**63 - 1
MAX_TOTAL = 2**1000  # of sums of any size: a float holds their squares' sums
MAX_SHOWN = 60  # characters of a value in a message


@contextmanager
def loading(path: Path) -> Iterator[None]:
    """Raise `FormatError` for any other error that a wrong tree causes while it is loaded."""
    try:
        yield
    except FormatError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise FormatError(
            f"{os.fspath(path)} has a correct digest but does not describe what it should "
            f"({error}); it was not written by streamrf"
        ) from error


class Fields:
    """A tree whose keys are read one by one, each of them once.

    Every method raises `FormatError` if a key is missing or its value is not as asked for.

    Parameters
    ----------
    tree : what a file holds
    where : the file, for messages
    path : keys that lead from the file's root to the tree
    """

    def __init__(self, tree: Any, where: str = "the file", path: Keys = ()) -> None:
        self._where = where
        self._path = path
        if not isinstance(tree, dict):
            raise self._error(path, f"is {_shown(tree)}; expected a tree")
        self._left = dict(tree)

    @classmethod
    def of(cls, tree: "Tree | Fields") -> "Fields":
        """Return fields as they are, a tree as fields."""
        return tree if isinstance(tree, cls) else cls(tree)

    def tree(self, key: str) -> "Fields":
        """Return the tree at `key`."""
        return self.inside(key, self._take(key))

    def inside(self, key: str, tree: Any) -> "Fields":
        """Return the fields of a tree as if it were at `key`."""
        return Fields(tree, self._where, (*self._path, key))

    def maybe_tree(self, key: str) -> "Fields | None":
        """Return the tree at `key`, or None."""
        return None if self._is_none(key) else self.tree(key)

    @property
    def keys(self) -> list[str]:
        """The keys that have not been read."""
        return list(self._left)

    def trees(self, key: str) -> "list[tuple[str, Fields]]":
        """Return the trees in the tree at `key`, each with its key, in order."""
        fields = self.tree(key)
        return [(name, fields.tree(name)) for name in fields.keys]

    def is_tree(self, key: str) -> bool:
        """Return whether a tree is at `key`."""
        return isinstance(self._left.get(key), dict)

    def is_array(self, key: str) -> bool:
        """Return whether an array is at `key`."""
        return isinstance(self._left.get(key), np.ndarray)

    def length(self, key: str) -> int:
        """Return the length of the array at `key`, or 0 if it is none."""
        value = self._left.get(key)
        return len(value) if isinstance(value, np.ndarray) and value.ndim else 0

    def text(self, key: str, choices: Iterable[str] = ()) -> str:
        """Return the str at `key`, one of `choices` if there are any."""
        known = sorted(choices)
        expected = f"one of {known}" if known else "a text"
        return self._checked(key, expected, lambda v: isinstance(v, str) and v in (known or [v]))

    def flag(self, key: str) -> bool:
        """Return the bool at `key`."""
        return self._checked(key, "true or false", lambda v: isinstance(v, bool))

    def integer(self, key: str, minimum: int = 0, maximum: int = MAX_INTEGER) -> int:
        """Return the integer in ``[minimum, maximum]`` at `key`."""
        expected = f"an integer from {minimum} to {maximum}"
        return self._checked(key, expected, lambda v: _is_integer(v, minimum, maximum))

    def number(self, key: str, minimum: float = -np.inf, above: float = -np.inf) -> float:
        """Return the finite float at `key`, no less than `minimum` and more than `above`."""
        bound = "" if minimum == -np.inf else f" of at least {minimum:g}"
        bound += "" if above == -np.inf else f" above {above:g}"
        expected = f"a finite number{bound}"
        return self._checked(key, expected, lambda v: _is_finite(v) and v >= minimum and v > above)

    def maybe_number(self, key: str, above: float = -np.inf) -> float | None:
        """Return the finite float above `above` at `key`, or None."""
        return None if self._is_none(key) else self.number(key, above=above)

    def array(self, key: str, dtypes: DTypeLike, shape: Shape, finite: bool = True) -> NDArray[Any]:
        """Return the array at `key`, in native byte order.

        Parameters
        ----------
        dtypes : its dtype, in any byte order, or a str of the kinds allowed
        shape : its shape; None for any length, ... at the end for any rank
        finite : whether NaN and infinity are errors
        """
        what = "an" if isinstance(dtypes, str) else f"a {np.dtype(dtypes).name}"
        expected = f"{what} array of shape {_shown_shape(shape)}"
        array = self._checked(key, expected, lambda v: _is_array(v, dtypes, shape))
        if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise self.wrong(key, "holds NaN or infinity")
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def maybe_array(self, key: str, dtypes: DTypeLike, shape: Shape) -> NDArray[Any] | None:
        """Return the finite array at `key`, or None."""
        return None if self._is_none(key) else self.array(key, dtypes, shape)

    def scalars(
        self, key: str, length: int | None, is_right: Callable[[Any], bool], expected: str
    ) -> list[Any]:
        """Return the list of `length` scalars (None: any length) at `key`, each of them right."""

        def are_right(v: Any) -> bool:
            return isinstance(v, list) and length in (None, len(v)) and all(map(is_right, v))

        many = "" if length is None else f"{length} of "
        return self._checked(key, f"a list of {many}{expected}", are_right)

    def texts(self, key: str, length: int | None = None) -> list[str]:
        """Return the list of str at `key`."""
        return self.scalars(key, length, lambda v: isinstance(v, str), "texts")

    def counts(self, key: str, length: int | None = None) -> list[int | None]:
        """Return the list of integers from 0 on at `key`, None where unknown."""
        return self.scalars(key, length, lambda v: v is None or _is_integer(v), "counts or null")

    def labels(self, key: str, length: int | None = None) -> NDArray[Any]:
        """Return the class labels at `key`: int64, float64, bool or str, sorted, none twice."""
        labels = self.array(key, "biufU", (length,))
        right = labels.dtype.kind in "bU" or labels.dtype in (np.int64, np.float64)
        if not right or not (labels[1:] > labels[:-1]).all():
            raise self.wrong(key, "is not labels in ascending order")
        return labels

    def weights(self, key: str, length: int) -> NDArray[Any]:
        """Return the weights at `key`, float64 and none below 0."""
        weights = self.array(key, np.float64, (length,))
        if (weights < 0).any():
            raise self.wrong(key, "holds a weight below 0")
        return weights

    def totals(self, key: str, length: int, exact: bool) -> list[Any]:
        """Return the list of sums at `key`: integers of any size if `exact`, else finite floats."""
        if not exact:
            return self.scalars(key, length, _is_finite, "finite numbers")
        return self.scalars(
            key, length, lambda v: _is_integer(v, -MAX_TOTAL, MAX_TOTAL), "integers"
        )

    def indices(self, key: str, dtype: DTypeLike, shape: Shape, stop: int) -> NDArray[Any]:
        """Return the array of integers in ``[0, stop)`` at `key`."""
        array = self.array(key, dtype, shape)
        if array.size and not (array.min() >= 0 and array.max() < stop):
            raise self.wrong(key, f"holds indices outside 0 to {stop - 1}")
        return array

    def kind(self, key: str, kind: type) -> Any:
        """Return the object of a class at `key`."""
        return self._checked(key, f"a {kind.__name__}", lambda v: isinstance(v, kind))

    def value(self, key: str) -> Any:
        """Return the scalar, list of scalars or array at `key`."""
        return self._checked(key, "a value", lambda v: not isinstance(v, dict))

    def rest(self) -> Tree:
        """Return all keys that have not been read, with their values, unchecked."""
        left, self._left = self._left, {}
        return left

    def end(self) -> None:
        """Raise if a key has not been read."""
        if self._left:
            raise self.wrong(next(iter(self._left)), "is not known to this version of streamrf")

    def wrong(self, key: str, what: str) -> FormatError:
        """Return the error that says what is wrong with a key."""
        return self._error((*self._path, key), what)

    def wrong_here(self, what: str) -> FormatError:
        """Return the error that says what is wrong with the tree itself."""
        return self._error(self._path, what)

    def _is_none(self, key: str) -> bool:
        """Return whether None is at `key`, which then counts as read."""
        return self._left.get(key, key) is None and self._take(key) is None

    def _take(self, key: str) -> Any:
        if key not in self._left:
            raise self.wrong(key, "is missing")
        return self._left.pop(key)

    def _checked(self, key: str, expected: str, is_right: Callable[[Any], bool]) -> Any:
        value = self._take(key)
        if not is_right(value):
            raise self.wrong(key, f"is {_shown(value)}; expected {expected}")
        return value

    def _error(self, path: Keys, what: str) -> FormatError:
        return FormatError(f"{self._where}: {_shown_path(path)} {what}")


def _is_integer(value: Any, minimum: int = 0, maximum: int = MAX_INTEGER) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _is_array(value: Any, dtypes: DTypeLike, shape: Shape) -> bool:
    if not isinstance(value, np.ndarray):
        return False
    dtype = value.dtype
    right = dtype.kind in dtypes if isinstance(dtypes, str) else dtype.newbyteorder("=") == dtypes
    leading = shape[:-1] if shape[-1:] == (...,) else shape
    if not right or value.ndim < len(leading) or (leading == shape and value.ndim > len(shape)):
        return False
    return all(a in (None, b) for a, b in zip(leading, value.shape, strict=False))


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"a {value.dtype.name} array of shape {value.shape}"
    if isinstance(value, dict):
        return "a tree"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) >= 2**64:
        return f"an integer of {value.bit_length()} bits"  # Python bounds the digits it prints
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def _shown_shape(shape: Shape) -> str:
    words = {None: "any", ...: "..."}
    return "(" + ", ".join(words.get(n, str(n)) for n in shape) + ")"


def _shown_path(path: Keys) -> str:
    text = "/".join(path)
    text = text if len(text) <= 4 * MAX_SHOWN else "..." + text[3 - 4 * MAX_SHOWN :]
    return repr(text)
