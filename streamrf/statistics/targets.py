"""Sums of features times targets: by class, by bit of a code, or by value."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamrf.errors import MergeError, UnknownLabelError
from streamrf.jit import lanes
from streamrf.jit.threads import on_single_blas_threads
from streamrf.sources import as_labels, find_labels, join_labels, narrowed
from streamrf.storage import Fields

PRODUCT_COLUMNS = 256  # multiplied at a time
FEW_FACTORS = 10  # for which BLAS is no faster
EXACT = 2.0**53  # integers below it are exact in float64


class TargetSums(ABC):
    """Sums of features times targets.

    Attributes
    ----------
    sums : (n_outputs, n_components) float64
    labels : (n_classes,) sorted, or None where targets are values
    """

    sums: np.ndarray
    labels: Any

    @property
    @abstractmethod
    def total(self) -> float:
        """``sum root^2``, the weight of all rows."""

    @property
    @abstractmethod
    def feature_totals(self) -> np.ndarray:
        """``sum root q``, float64 (n_components,)."""

    @abstractmethod
    def moments(self, matrix: np.ndarray | None, root_scale: float) -> tuple:
        """Give ``sum t q`` (n_outputs, n_components) and ``sum root t`` (n_outputs,).

        Parameters
        ----------
        matrix : (n_classes, n_bits) code words; None where targets are values or bits agreed on
        root_scale : unit of the roots; targets t of a row are its code word times root / root_scale
        """

    @abstractmethod
    def squares_of(self, matrix: np.ndarray | None, root_scale: float) -> np.ndarray:
        """Give ``sum t^2`` of the targets t that `moments` speaks of, float64 (n_outputs,)."""

    def check(self, y: np.ndarray) -> None:  # noqa: B027 - most sums take any label
        """Refuse labels that `add` would refuse."""

    @abstractmethod
    def add(self, Q: np.ndarray, roots: np.ndarray, y: np.ndarray) -> None:
        """Add the rows Q with their roots and labels or rounded targets."""

    @abstractmethod
    def zero_like(self, exact: bool) -> "TargetSums":
        """Give sums of nothing, ready for the same kind of targets, rounded or not."""

    @abstractmethod
    def combined(self, other: "TargetSums", sign: float) -> "TargetSums":
        """Give ``self + sign * other`` as new sums."""

    @abstractmethod
    def select(self, picks: np.ndarray) -> "TargetSums":
        """Give the sums of some features alone, by their places."""

    @abstractmethod
    def scaled(self, factor: float) -> "TargetSums":
        """Give ``factor * self`` as new sums, no longer of whole numbers."""

    @classmethod
    @abstractmethod
    def from_fields(cls, fields: Fields, n_components: int, exact: bool) -> "TargetSums":
        """Rebuild from `to_tree`."""

    @abstractmethod
    def to_tree(self) -> dict:
        """Give the numbers as a tree."""


@dataclass
class ClassSums(TargetSums):
    """Sums of features by label; a new label may appear in any block.

    Parameters
    ----------
    labels : (n_classes,) sorted
    sums : (n_classes, n_components) float64, ``sum root q`` over the rows of a class
    weights : (n_classes,) float64, ``sum root^2`` over the rows of a class
    """

    labels: np.ndarray
    sums: np.ndarray
    weights: np.ndarray

    @classmethod
    def zero(cls, n_components: int, labels=()) -> "ClassSums":
        """Know the labels given, or none yet."""
        labels = np.unique(as_labels(np.asarray(labels))) if len(labels) else np.empty(0, np.int64)
        return cls(labels, np.zeros((len(labels), n_components)), np.zeros(len(labels)))

    def add(self, Q, roots, y):
        """Add rows with labels y (n,); a label whose rows weigh nothing is not learnt."""
        weighty = roots > 0
        if not weighty.all():
            Q, roots, y = Q[weighty], roots[weighty], y[weighty]
        found, index = np.unique(as_labels(y), return_inverse=True)
        self._learn(found)
        index = np.searchsorted(self.labels, found)[index]
        lanes.add_rows(Q, index, roots, self.sums)
        self.weights += np.bincount(index, roots * roots, minlength=len(self.labels))

    @property
    def total(self):
        """Weight of all rows."""
        return float(self.weights.sum())

    @property
    def feature_totals(self):
        """Sums of features."""
        return self.sums.sum(axis=0)

    def moments(self, matrix, root_scale):
        """Weigh the sums by the code words."""
        return matrix.T @ self.sums / root_scale, matrix.T @ self.weights / root_scale

    def squares_of(self, matrix, root_scale):
        """Weigh the classes by the squares of their code words."""
        return np.square(matrix).T @ self.weights / root_scale**2

    def class_means(self) -> np.ndarray:
        """Give ``sum root q / sum root^2`` of each class, (n_classes, n_components); 0 of none."""
        return self.sums / np.where(self.weights > 0, self.weights, 1.0)[:, np.newaxis]

    def zero_like(self, exact):
        """Know no label."""
        return ClassSums.zero(self.sums.shape[1])

    def _learn(self, found):
        """Make room for labels not seen before."""
        labels = join_labels(self.labels, found)
        if len(labels) == len(self.labels):
            return
        place = np.searchsorted(labels, self.labels.astype(labels.dtype))
        sums = np.zeros((len(labels), self.sums.shape[1]))
        weights = np.zeros(len(labels))
        sums[place], weights[place] = self.sums, self.weights
        self.labels, self.sums, self.weights = labels, sums, weights

    def combined(self, other, sign):
        """Join the labels; a class that subtraction leaves without weight disappears."""
        _check_numbers(self.labels, other.labels)
        both = ClassSums(self.labels, self.sums.copy(), self.weights.copy())
        both._learn(other.labels)
        place = np.searchsorted(both.labels, other.labels.astype(both.labels.dtype))
        both.sums[place] += sign * other.sums
        both.weights[place] += sign * other.weights
        if sign < 0:
            _check_left(both.weights[place], other.weights, other.labels)
            np.maximum(both.weights, 0.0, out=both.weights)
        keep = (both.weights > 0) | (sign > 0)
        keep |= both.sums.any(axis=1)
        return ClassSums(narrowed(both.labels[keep]), both.sums[keep], both.weights[keep])

    def select(self, picks):
        """Take columns."""
        return replace(self, sums=self.sums[:, picks])

    def relabelled(self, names: np.ndarray) -> "ClassSums":
        """Give the sums under other labels, a name for each label; equal names are added up."""
        labels, index = np.unique(names, return_inverse=True)
        sums, weights = np.zeros((len(labels), self.sums.shape[1])), np.zeros(len(labels))
        np.add.at(sums, index, self.sums)
        np.add.at(weights, index, self.weights)
        return ClassSums(labels, sums, weights)

    def scaled(self, factor):
        """Weigh the sums."""
        return ClassSums(self.labels, factor * self.sums, factor * self.weights)

    @classmethod
    def from_fields(cls, fields, n_components, exact):
        """Rebuild from `to_tree`."""
        labels = fields.labels("labels")
        n = len(labels)
        sums = fields.array("sums", np.float64, (n, n_components))
        return cls(labels, sums, fields.weights("weights", n))

    def to_tree(self):
        """Give the numbers as a tree."""
        return {"class": "ClassSums", **vars(self)}


@dataclass
class BitSums(TargetSums):
    """Sums of features by bit of an agreed code book: smaller than `ClassSums` for many classes.

    Parameters
    ----------
    labels : (n_classes,) sorted, all that may appear
    matrix : (n_classes, n_bits) float64 of +-1
    sums : (n_bits, n_components) float64, ``sum bit root q``
    weights : (n_classes,) float64, ``sum root^2`` over the rows of a class
    feature_sums : (n_components,) float64, ``sum root q``
    """

    labels: np.ndarray
    matrix: np.ndarray
    sums: np.ndarray
    weights: np.ndarray
    feature_sums: np.ndarray

    @classmethod
    def zero(cls, n_components: int, labels: np.ndarray, matrix: np.ndarray) -> "BitSums":
        """Agree on the labels and their code words."""
        n_bits = matrix.shape[1]
        zeros = np.zeros((n_bits, n_components))
        return cls(labels, matrix, zeros, np.zeros(len(labels)), np.zeros(n_components))

    def add(self, Q, roots, y):
        """Add rows with labels y (n,), each one of the book's."""
        index = self._places(y)
        products = _products(np.column_stack((self.matrix[index] * roots[:, np.newaxis], roots)), Q)
        self.sums += products[:-1]
        self.feature_sums += products[-1]
        self.weights += np.bincount(index, roots * roots, minlength=len(self.labels))

    def check(self, y):
        """Refuse a label that is not in the book."""
        self._places(y)

    def _places(self, y):
        y = as_labels(y)
        index, unknown = find_labels(self.labels, y)
        if unknown.any():
            raise UnknownLabelError(
                f"label {y[unknown][0].item()!r} is not in the code book made before the pass, "
                f"which has {len(self.labels)} labels; give all labels as classes="
            )
        return index

    @property
    def total(self):
        """Weight of all rows."""
        return float(self.weights.sum())

    @property
    def feature_totals(self):
        """Sums of features."""
        return self.feature_sums

    def moments(self, matrix, root_scale):
        """Weigh the sums by the code words."""
        return self.sums / root_scale, self.matrix.T @ self.weights / root_scale

    def squares_of(self, matrix, root_scale):
        """Weigh the classes by the squares of their code words."""
        return np.square(self.matrix).T @ self.weights / root_scale**2

    def zero_like(self, exact):
        """Agree on the same book."""
        return BitSums.zero(self.sums.shape[1], self.labels, self.matrix)

    def combined(self, other, sign):
        """Add; the code books must be the same."""
        if not (
            np.array_equal(self.labels, other.labels) and np.array_equal(self.matrix, other.matrix)
        ):
            raise MergeError("the two sides were summed by different code books")
        weights = self.weights + sign * other.weights
        if sign < 0:
            _check_left(weights, other.weights, other.labels)
            np.maximum(weights, 0.0, out=weights)
        return BitSums(
            self.labels,
            self.matrix,
            self.sums + sign * other.sums,
            weights,
            self.feature_sums + sign * other.feature_sums,
        )

    def select(self, picks):
        """Take columns."""
        return replace(self, sums=self.sums[:, picks], feature_sums=self.feature_sums[picks])

    def scaled(self, factor):
        """Weigh the sums."""
        return BitSums(
            self.labels,
            self.matrix,
            factor * self.sums,
            factor * self.weights,
            factor * self.feature_sums,
        )

    @classmethod
    def from_fields(cls, fields, n_components, exact):
        """Rebuild from `to_tree`."""
        labels = fields.labels("labels")
        n = len(labels)
        matrix = fields.array("matrix", np.float64, (n, None))
        if not (np.abs(matrix) == 1).all():
            raise fields.wrong("matrix", "holds numbers that are neither -1 nor 1")
        sums = fields.array("sums", np.float64, (matrix.shape[1], n_components))
        weights = fields.weights("weights", n)
        feature_sums = fields.array("feature_sums", np.float64, (n_components,))
        return cls(labels, matrix, sums, weights, feature_sums)

    def to_tree(self):
        """Give the numbers as a tree."""
        return {"class": "BitSums", **vars(self)}


@dataclass
class ValueSums(TargetSums):
    """Sums of features times regression targets.

    Parameters
    ----------
    sums : (n_targets, n_components) float64, ``sum t q``
    totals, squares : lists of n_targets numbers, ``sum root t`` and ``sum t^2``; whole numbers of
        any size when exact, because both pass 2^53 long before the other sums do
    feature_sums : (n_components,) float64, ``sum root q``
    weight : float, ``sum root^2``
    rest : (n_targets, n_components) float64, what exact sums have beyond the digits of `sums`:
        they are ``sums + rest``, `sums` the float64 next to that. Empty means 0.
    """

    sums: np.ndarray
    totals: list
    squares: list
    feature_sums: np.ndarray
    weight: float
    rest: np.ndarray = field(default_factory=lambda: np.empty(0))
    labels = None

    def __post_init__(self):
        if not self.rest.size:
            self.rest = np.zeros_like(self.sums)

    @classmethod
    def zero(cls, n_components: int, n_targets: int, exact: bool) -> "ValueSums":
        """Start for `n_targets` targets."""
        zero = [0 if exact else 0.0] * n_targets
        zeros = np.zeros((n_targets, n_components))
        return cls(zeros, zero, list(zero), np.zeros(n_components), 0.0)

    def add(self, Q, roots, y):
        """Add rows with targets y (n, n_targets), rounded to whole numbers when exact."""
        exact = isinstance(self.squares[0], int)
        greatest = np.abs(y).max(initial=0) * np.abs(Q).max(initial=0) * len(Q)
        parts = [(y, 0)] if not exact or greatest < EXACT else _halves(y)
        for part, shift in parts:
            products = _products(np.column_stack((part, roots)), Q)
            if exact:
                _add_exactly(self.sums, self.rest, products[:-1] * 2.0**shift)
            else:
                self.sums += products[:-1]
        self.feature_sums += products[-1]
        self.weight += float(roots @ roots)
        for j, t in enumerate(y.T):
            product = _exact_product if isinstance(self.squares[j], int) else _float_product
            self.totals[j] += product(roots, t)
            self.squares[j] += product(t, t)

    @property
    def total(self):
        """Weight of all rows."""
        return self.weight

    @property
    def feature_totals(self):
        """Sums of features."""
        return self.feature_sums

    def moments(self, matrix, root_scale):
        """Give the sums as they are: targets carry their root already."""
        return self.sums, np.array(self.totals, dtype=np.float64)

    def squares_of(self, matrix, root_scale):
        """Give the sums as they are."""
        return np.array(self.squares, dtype=np.float64)

    def zero_like(self, exact):
        """Start for as many targets."""
        return ValueSums.zero(self.sums.shape[1], len(self.squares), exact)

    def beside(self, other: "ValueSums") -> "ValueSums":
        """Give the sums of our targets and then those of `other`, of the same rows."""
        return replace(
            self,
            sums=np.concatenate((self.sums, other.sums)),
            rest=np.concatenate((self.rest, other.rest)),
            totals=self.totals + other.totals,
            squares=self.squares + other.squares,
        )

    def combined(self, other, sign):
        """Add; the numbers of targets must agree."""
        if len(self.squares) != len(other.squares):
            raise MergeError(
                f"one side has {len(self.squares)} targets, the other {len(other.squares)}"
            )
        squares = [a + int(sign) * b for a, b in zip(self.squares, other.squares, strict=True)]
        weight = self.weight + sign * other.weight
        if sign < 0:
            pairs = [(weight, other.weight), *zip(squares, other.squares, strict=True)]
            weight, *squares = (_left(left, removed) for left, removed in pairs)
        sums, rest = self.sums.copy(), self.rest.copy()
        if all(isinstance(square, int) for square in squares):
            _add_exactly(sums, rest, sign * other.sums)
            _add_exactly(sums, rest, sign * other.rest)
        else:
            sums += sign * other.sums
        return ValueSums(
            sums,
            [a + int(sign) * b for a, b in zip(self.totals, other.totals, strict=True)],
            squares,
            self.feature_sums + sign * other.feature_sums,
            weight,
            rest,
        )

    def select(self, picks):
        """Take columns."""
        return replace(
            self,
            sums=self.sums[:, picks],
            rest=self.rest[:, picks],
            feature_sums=self.feature_sums[picks],
        )

    def scaled(self, factor):
        """Weigh the sums."""
        return ValueSums(
            factor * self.sums,
            [factor * float(total) for total in self.totals],
            [factor * float(square) for square in self.squares],
            factor * self.feature_sums,
            factor * self.weight,
        )

    @classmethod
    def from_fields(cls, fields, n_components, exact):
        """Rebuild from `to_tree`."""
        sums = fields.array("sums", np.float64, (None, n_components))
        totals = fields.totals("totals", len(sums), exact)
        squares = fields.totals("squares", len(sums), exact)
        if any(square < 0 for square in squares):
            raise fields.wrong("squares", "holds a sum of squares below 0")
        feature_sums = fields.array("feature_sums", np.float64, (n_components,))
        rest = np.empty(0)
        if fields.is_array("rest"):
            rest = fields.array("rest", np.float64, sums.shape)
        weight = fields.number("weight", least=0.0)
        return cls(sums, totals, squares, feature_sums, weight, rest)

    def to_tree(self):
        """Give the numbers as a tree."""
        tree = {"class": "ValueSums", **vars(self)}
        if not self.rest.any():
            del tree["rest"]
        return tree


def _check_numbers(ours, theirs):
    """Refuse labels of different kinds of numbers: their sum could not be taken apart again."""
    kinds = {labels.dtype.kind for labels in (ours, theirs) if len(labels)}
    if len(kinds) == 2 and "U" not in kinds:
        raise MergeError(
            f"one side has labels such as {ours[0].item()!r}, the other such as "
            f"{theirs[0].item()!r}; give both the same dtype"
        )


def _products(factors, Q):
    """Give ``factors.T @ Q`` in float64, some columns at a time on one BLAS thread each.

    After a product of many threads OpenBLAS's own spin for 25 ms, and take the cores from what
    comes next: where a block takes no longer, two threads were slower than one.
    """
    out = np.empty((factors.shape[1], Q.shape[1]))
    if len(out) <= FEW_FACTORS:
        lanes.products(np.ascontiguousarray(factors), Q, out)
        return out

    def multiply(start):
        columns = slice(start, start + PRODUCT_COLUMNS)
        out[:, columns] = factors.T @ Q[:, columns].astype(np.float64)

    on_single_blas_threads(multiply, range(0, Q.shape[1], PRODUCT_COLUMNS))
    return out


def _check_left(left, removed, labels):
    """Refuse to remove more of a class than there is; unrounded sums may miss 0 by rounding."""
    short = left < -1e-9 * removed
    if short.any():
        raise MergeError(
            f"more rows of class {labels[short][0].item()!r} would be removed than were counted: "
            "the right side was summed with other labels"
        )


def _left(left, removed):
    """Give what is left of a sum that cannot be below 0; unrounded it may be, by rounding."""
    if left < -1e-9 * removed:
        raise MergeError(
            "more would be removed than was counted: the right side was summed with other targets "
            "or weights"
        )
    return max(left, type(left)(0))


TARGETS = {cls.__name__: cls for cls in (ClassSums, BitSums, ValueSums)}


def read_targets(fields: Fields, n_components: int, exact: bool) -> TargetSums:
    """Rebuild sums of targets from their tree."""
    kind = TARGETS[fields.text("class", TARGETS)]
    targets = kind.from_fields(fields, n_components, exact)
    fields.end()
    return targets


def _exact_product(s, t):
    """Give ``sum s t`` of whole numbers below 2^41 as an int of any size, without rounding."""
    product = 0
    for a, a_shift in _halves(s):
        for b, b_shift in _halves(t):
            product += int((a * b).astype(np.int64).sum()) << (a_shift + b_shift)
    return product


def _add_exactly(sums, rest, more):
    """Add integers to ``sums + rest`` without error, below 2^100; `sums` is the float64 nearest."""
    high, low = _two_sum(sums, more)
    sums[:], rest[:] = _two_sum(high, rest + low)


def _two_sum(a, b):
    """Return ``a + b`` rounded and what the rounding left (Knuth, TAOCP 4.2.2, Theorem B)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _halves(t):
    high = np.floor(t / 2.0**20)
    return (high, 20), (t - high * 2.0**20, 0)


def _float_product(s, t):
    return float(s @ t)
