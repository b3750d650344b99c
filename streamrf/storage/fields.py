"""Trees from files, taken key by key: what is missing, false or too much is refused by its name.

A file's digest tells that it is whole, not that it is true. Whatever a tree holds, a loader that
takes every value through `Fields` gives objects that cannot make compiled loops leave their arrays,
or raises `FormatError`.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Union

import numpy as np

from streamrf.errors import FormatError

MOST = 2**63 - 1
MOST_TOTAL = 2**1000  # of sums of any size: a float holds their squares' sums
MOST_SHOWN = 60  # characters of a value in a message


@contextmanager
def loading(path: str | os.PathLike) -> Iterator[None]:
    """Give `FormatError` for whatever else a false tree brings about while it is loaded."""
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
    """A tree whose keys are taken one by one.

    Parameters
    ----------
    tree : what a file holds
    where : the file, for messages
    path : keys that lead from the file's root to the tree
    """

    def __init__(self, tree: Any, where: str = "the file", path: tuple[str, ...] = ()):
        self._where = where
        self._path = path
        if not isinstance(tree, dict):
            raise self._error(path, f"is {_shown(tree)}; expected a tree")
        self._left = dict(tree)

    @classmethod
    def of(cls, tree: Union[dict, "Fields"]) -> "Fields":
        """Give fields as they are, a tree as fields."""
        return tree if isinstance(tree, cls) else cls(tree)

    def tree(self, key: str) -> "Fields":
        """Take a tree."""
        return self.inside(key, self._take(key))

    def inside(self, key: str, tree: Any) -> "Fields":
        """Give the fields of a tree as if it were at `key`."""
        return Fields(tree, self._where, (*self._path, key))

    def maybe_tree(self, key: str) -> "Fields | None":
        """Take a tree, or None."""
        if self._left.get(key, key) is None:
            return self._take(key)
        return self.tree(key)

    @property
    def keys(self) -> list[str]:
        """The keys that are there and not taken."""
        return list(self._left)

    def trees(self, key: str) -> "list[tuple[str, Fields]]":
        """Take a tree of trees: each key with its tree, in order."""
        fields = self.tree(key)
        return [(name, fields.tree(name)) for name in fields.keys]

    def is_tree(self, key: str) -> bool:
        """Tell whether a key holds a tree."""
        return isinstance(self._left.get(key), dict)

    def is_array(self, key: str) -> bool:
        """Tell whether a key holds an array."""
        return isinstance(self._left.get(key), np.ndarray)

    def text(self, key: str, choices: Iterable[str] = ()) -> str:
        """Take a str, one of `choices` if there are any."""
        known = sorted(choices)
        expected = f"one of {known}" if known else "a text"
        return self._checked(
            key, expected, lambda v: isinstance(v, str) and (not known or v in known)
        )

    def flag(self, key: str) -> bool:
        """Take a bool."""
        return self._checked(key, "true or false", lambda v: isinstance(v, bool))

    def integer(self, key: str, least: int = 0, most: int = MOST) -> int:
        """Take a whole number in ``[least, most]``."""
        return self._checked(
            key, f"a whole number from {least} to {most}", lambda v: _is_whole(v, least, most)
        )

    def number(self, key: str, least: float = -np.inf, above: float = -np.inf) -> float:
        """Take a finite float, at least `least` and more than `above`."""
        bound = "" if least == -np.inf else f" of at least {least:g}"
        bound += "" if above == -np.inf else f" above {above:g}"
        return self._checked(
            key,
            f"a finite number{bound}",
            lambda v: isinstance(v, float) and math.isfinite(v) and v >= least and v > above,
        )

    def maybe_number(self, key: str, least: float = -np.inf, above: float = -np.inf):
        """Take a finite float, or None."""
        if self._left.get(key, key) is None:
            return self._take(key)
        return self.number(key, least, above)

    def array(
        self, key: str, dtypes: Any, shape: tuple[Any, ...], finite: bool = True
    ) -> np.ndarray:
        """Take an array.

        Parameters
        ----------
        key : where it is
        dtypes : its dtype, in any byte order, or a str of the kinds that will do
        shape : its shape; None where any length will do, ... at the end where any rank will do
        finite : whether NaN and infinity are refused
        """
        what = "an" if isinstance(dtypes, str) else f"a {np.dtype(dtypes).name}"
        expected = f"{what} array of shape {_shown_shape(shape)}"
        array = self._checked(key, expected, lambda v: _is_array(v, dtypes, shape))
        if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise self.wrong(key, "holds NaN or infinity")
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def maybe_array(self, key: str, dtypes: Any, shape: tuple[Any, ...]) -> np.ndarray | None:
        """Take a finite array, or None."""
        if self._left.get(key, key) is None:
            return self._take(key)
        return self.array(key, dtypes, shape)

    def scalars(
        self, key: str, length: int | None, is_right: Callable[[Any], bool], expected: str
    ) -> list:
        """Take a list of `length` scalars (None: of any number) that are right each."""
        many = "" if length is None else f"{length} of "
        return self._checked(
            key,
            f"a list of {many}{expected}",
            lambda v: (
                isinstance(v, list)
                and (length is None or len(v) == length)
                and all(map(is_right, v))
            ),
        )

    def texts(self, key: str, length: int | None = None) -> list[str]:
        """Take a list of str."""
        return self.scalars(key, length, lambda v: isinstance(v, str), "texts")

    def counts(self, key: str, length: int | None = None) -> list[int | None]:
        """Take a list of whole numbers from 0 on, or None where unknown."""
        return self.scalars(
            key, length, lambda v: v is None or _is_whole(v, 0, MOST), "counts or null"
        )

    def labels(self, key: str, length: int | None = None) -> np.ndarray:
        """Take class labels: int64, float64, bool or str, sorted, none twice."""
        labels = self.array(key, "biufU", (length,))
        right = labels.dtype.kind in "bU" or labels.dtype in (np.int64, np.float64)
        if not right or not (labels[1:] > labels[:-1]).all():
            raise self.wrong(key, "is not labels in rising order")
        return labels

    def weights(self, key: str, length: int) -> np.ndarray:
        """Take a float64 array of weights, none below 0."""
        weights = self.array(key, np.float64, (length,))
        if (weights < 0).any():
            raise self.wrong(key, "holds a weight below 0")
        return weights

    def totals(self, key: str, length: int, exact: bool) -> list:
        """Take a list of sums: whole numbers of any size if `exact`, else finite floats."""
        if exact:
            return self.scalars(
                key, length, lambda v: _is_whole(v, -MOST_TOTAL, MOST_TOTAL), "whole numbers"
            )
        return self.scalars(
            key, length, lambda v: isinstance(v, float) and math.isfinite(v), "finite numbers"
        )

    def indices(self, key: str, dtype: Any, shape: tuple[Any, ...], stop: int) -> np.ndarray:
        """Take an array of whole numbers in ``[0, stop)``."""
        array = self.array(key, dtype, shape)
        if array.size and not (array.min() >= 0 and array.max() < stop):
            raise self.wrong(key, f"holds places outside 0 to {stop - 1}")
        return array

    def kind(self, key: str, kind: type) -> Any:
        """Take an object of a class."""
        return self._checked(key, f"a {kind.__name__}", lambda v: isinstance(v, kind))

    def value(self, key: str) -> Any:
        """Take a scalar, a list of scalars or an array, whatever it is."""
        return self._checked(key, "a value", lambda v: not isinstance(v, dict))

    def rest(self) -> dict:
        """Take all that is left, unchecked."""
        left, self._left = self._left, {}
        return left

    def end(self) -> None:
        """Refuse keys that were not taken."""
        if self._left:
            raise self.wrong(next(iter(self._left)), "is not known to this version of streamrf")

    def wrong(self, key: str, what: str) -> FormatError:
        """Give the error that tells what is wrong with a key."""
        return self._error((*self._path, key), what)

    def _take(self, key: str) -> Any:
        if key not in self._left:
            raise self.wrong(key, "is missing")
        return self._left.pop(key)

    def _checked(self, key: str, expected: str, is_right: Callable[[Any], bool]) -> Any:
        value = self._take(key)
        if not is_right(value):
            raise self.wrong(key, f"is {_shown(value)}; expected {expected}")
        return value

    def _error(self, path: tuple[str, ...], what: str) -> FormatError:
        return FormatError(f"{self._where}: {_shown_path(path)} {what}")


def _is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_array(value: Any, dtypes: Any, shape: tuple[Any, ...]) -> bool:
    if not isinstance(value, np.ndarray):
        return False
    if isinstance(dtypes, str):
        right = value.dtype.kind in dtypes
    else:
        right = value.dtype.newbyteorder("=") == dtypes
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
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."


def _shown_shape(shape: tuple[Any, ...]) -> str:
    words = {None: "any", ...: "..."}
    return "(" + ", ".join(words.get(n, str(n)) for n in shape) + ")"


def _shown_path(path: tuple[str, ...]) -> str:
    text = "/".join(path)
    text = text if len(text) <= 4 * MOST_SHOWN else "..." + text[3 - 4 * MOST_SHOWN :]
    return repr(text)
