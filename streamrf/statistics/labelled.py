"""Sums of features by label, or by bit of an agreed code."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np

from streamrf.errors import DataError, MergeError, ParameterError, UnknownLabelError
from streamrf.jit import target_sums
from streamrf.jit.arrays import Array, Features, Floats, Indices
from streamrf.models import CodeBook, Codes, OneVsRest, Seed, make_decoder
from streamrf.sources import as_labels, find_labels, join_labels, narrowed
from streamrf.statistics.targets import TargetSums, products
from streamrf.storage import Fields

RESIDUE = 1e-12  # of sums of floats, what may be left where all is taken away


@dataclass
class ClassSums(TargetSums):
    """Sums of features by label; a new label may appear in any block.

    Parameters
    ----------
    labels : (n_classes,) sorted
    sums : (n_classes, n_components) float64, ``sum root q`` over the rows of a class
    weights : (n_classes,) float64, ``sum root^2`` over the rows of a class
    """

    labels: Array
    sums: Floats
    weights: Floats
    kind = "classes"

    @classmethod
    def zero(cls, n_components: int, labels: Sequence[Any] | Array = ()) -> Self:
        """Start with the labels given, or none yet."""
        labels = np.unique(as_labels(np.asarray(labels))) if len(labels) else np.empty(0, np.int64)
        return cls(labels, np.zeros((len(labels), n_components)), np.zeros(len(labels)))

    def add(self, Q: Features, roots: Floats, y: Array) -> None:
        """Add rows with labels y (n,); a label whose rows weigh nothing is not learnt."""
        weighty = roots > 0
        if not weighty.all():
            Q, roots, y = Q[weighty], roots[weighty], y[weighty]
        found, index = np.unique(as_labels(y), return_inverse=True)
        self._learn(found)
        index = np.searchsorted(self.labels, found)[index]
        target_sums.add_rows(Q, index, roots, self.sums)
        self.weights += np.bincount(index, roots * roots, minlength=len(self.labels))

    def check(self, y: Array) -> None:
        """Raise DataError for labels that cannot be told apart."""
        as_labels(y)

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    @property
    def feature_totals(self) -> Floats:
        return self.sums.sum(axis=0)

    def moments(self, matrix: Floats, root_scale: float) -> tuple[Floats, Floats]:
        return matrix.T @ self.sums / root_scale, matrix.T @ self.weights / root_scale

    def squares_of(self, matrix: Floats, root_scale: float) -> Floats:
        return np.full(matrix.shape[1], self.total / root_scale**2)  # of -1 and 1

    def book(self, codes: Codes, random_state: Seed = 0) -> CodeBook:
        if not len(self.labels):
            raise DataError("there are no rows, or all their weights are zero: no classes to learn")
        if len(self.labels) < 2:
            raise DataError(
                f"a classifier needs at least two classes, got 1 class: {self.labels.tolist()}; "
                "one whose rows weigh nothing is none"
            )
        codes = OneVsRest() if codes is None else codes
        if isinstance(codes, type) or not hasattr(codes, "book"):
            raise ParameterError(
                f"codes must be OneVsRest() or ErrorCorrectingCodes(n_bits), got {codes!r}"
            )
        return codes.book(len(self.labels), random_state=random_state)

    def zero_like(self, exact: bool) -> Self:
        """Start without labels."""
        return self.zero(self.sums.shape[1])

    def _learn(self, found: Array) -> None:
        """Make room for labels not seen before."""
        labels = join_labels(self.labels, found)
        if len(labels) == len(self.labels):
            return
        index = np.searchsorted(labels, self.labels.astype(labels.dtype))
        sums = np.zeros((len(labels), self.sums.shape[1]))
        weights = np.zeros(len(labels))
        sums[index], weights[index] = self.sums, self.weights
        self.labels, self.sums, self.weights = labels, sums, weights

    def combined(self, other: Self, sign: int) -> Self:
        """Join the labels; a class that subtraction leaves without weight disappears."""
        _check_numbers(self.labels, other.labels)
        both = replace(self, sums=self.sums.copy(), weights=self.weights.copy())
        both._learn(other.labels)
        index = np.searchsorted(both.labels, other.labels.astype(both.labels.dtype))
        both.sums[index] += sign * other.sums
        both.weights[index] += sign * other.weights
        keep = np.ones(len(both.labels), dtype=bool)
        if sign < 0:
            _check_left(both.weights[index], other.weights, other.labels)
            np.maximum(both.weights, 0.0, out=both.weights)
            removed = np.zeros((len(keep), 2))
            removed[index] = _sizes(other)
            left = _sizes(both) > np.minimum(RESIDUE * removed, 0.5)  # a count is 1
            keep = left[:, 0] | left[:, 1]
        return type(self)(narrowed(both.labels[keep]), both.sums[keep], both.weights[keep])

    def select(self, columns: Indices) -> Self:
        return replace(self, sums=self.sums[:, columns])

    def check_names(self, names: Mapping[Any, Any]) -> None:
        known = self.labels.tolist()
        unknown = [label for label in names if label not in known]
        if unknown:
            raise ParameterError(f"there is no label {unknown[0]!r} to rename; there are {known}")
        for label in names.values():
            if not _is_label(label):
                raise ParameterError(
                    f"the new label {label!r} is neither a finite number nor a string"
                )
        if len({isinstance(names.get(label, label), str) for label in known}) > 1:
            raise ParameterError("the new labels are numbers and strings; give all of one kind")
        for label in names.values():
            as_labels(np.array([label]))  # raises for integers beyond those of NumPy
        _joined([names.get(label, label) for label in known])

    def relabelled(self, names: Mapping[Any, Any]) -> Self:
        if not len(self.labels):
            return self
        renamed = [names.get(label, label) for label in self.labels.tolist()]
        every = _joined([*names.values(), *renamed])  # so that all folds have labels of one dtype
        index = np.searchsorted(every, np.array(renamed, every.dtype))
        present, index = np.unique(index, return_inverse=True)
        labels = narrowed(every[present])
        sums, weights = np.zeros((len(labels), self.sums.shape[1])), np.zeros(len(labels))
        np.add.at(sums, index, self.sums)
        np.add.at(weights, index, self.weights)
        return type(self)(labels, sums, weights)

    def scaled(self, factor: float) -> Self:
        return replace(self, sums=factor * self.sums, weights=factor * self.weights)

    def is_part_of(self, whole: TargetSums) -> bool:
        return isinstance(whole, ClassSums) and not find_labels(whole.labels, self.labels)[1].any()

    @classmethod
    def from_fields(cls, fields: Fields, n_components: int, exact: bool) -> Self:
        labels = fields.labels("labels")
        n = len(labels)
        sums = fields.array("sums", np.float64, (n, n_components))
        return cls(labels, sums, fields.weights("weights", n))


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

    labels: Array
    matrix: Floats
    sums: Floats
    weights: Floats
    feature_sums: Floats
    kind = "the bits of an agreed code"

    @classmethod
    def zero(cls, n_components: int, labels: Array, matrix: Floats) -> Self:
        """Agree on the labels and their code words."""
        zeros = np.zeros((matrix.shape[1], n_components))
        return cls(labels, matrix, zeros, np.zeros(len(labels)), np.zeros(n_components))

    def add(self, Q: Features, roots: Floats, y: Array) -> None:
        index = self._indices(y)
        factors = np.column_stack((self.matrix[index] * roots[:, np.newaxis], roots))
        found = products(factors, Q)
        self.sums += found[:-1]
        self.feature_sums += found[-1]
        self.weights += np.bincount(index, roots * roots, minlength=len(self.labels))

    def check(self, y: Array) -> None:
        """Raise UnknownLabelError for a label that is not in the book."""
        self._indices(y)

    def _indices(self, y: Array) -> Indices:
        y = as_labels(y)
        index, unknown = find_labels(self.labels, y)
        if unknown.any():
            raise UnknownLabelError(
                f"label {y[unknown][0].item()!r} is not in the code book made before the pass, "
                f"which has {len(self.labels)} labels; give all labels as classes="
            )
        return index

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    @property
    def feature_totals(self) -> Floats:
        return self.feature_sums

    def moments(self, matrix: Floats, root_scale: float) -> tuple[Floats, Floats]:
        return self.sums / root_scale, self.matrix.T @ self.weights / root_scale

    def squares_of(self, matrix: Floats, root_scale: float) -> Floats:
        return np.full(self.matrix.shape[1], self.total / root_scale**2)  # of -1 and 1

    def book(self, codes: Codes, random_state: Seed = 0) -> CodeBook:
        n_bits, wanted = self.matrix.shape[1], getattr(codes, "n_bits", None)
        if isinstance(codes, OneVsRest):
            wanted = "one class against the rest"
        if wanted not in (None, n_bits):
            raise ParameterError(
                f"these are sums of the {n_bits} bits of a code agreed before the pass, not of "
                f"{wanted}; leave codes out to take those"
            )
        decoder = make_decoder("euclidean" if codes is None else codes.decode)
        if decoder.needs_class_sums:
            raise ParameterError(
                f"decode={decoder.word!r} needs sums by class; these are sums by bit of a code "
                "agreed before the pass, so leave it out, or sum without codes"
            )
        return CodeBook(self.matrix, decoder)

    def zero_like(self, exact: bool) -> Self:
        """Agree on the same book."""
        return self.zero(self.sums.shape[1], self.labels, self.matrix)

    def combined(self, other: Self, sign: int) -> Self:
        """Add; the code books must be the same."""
        if not (
            np.array_equal(self.labels, other.labels) and np.array_equal(self.matrix, other.matrix)
        ):
            raise MergeError("the two sides were summed by different code books")
        weights = self.weights + sign * other.weights
        if sign < 0:
            _check_left(weights, other.weights, other.labels)
            np.maximum(weights, 0.0, out=weights)
        return replace(
            self,
            sums=self.sums + sign * other.sums,
            weights=weights,
            feature_sums=self.feature_sums + sign * other.feature_sums,
        )

    def select(self, columns: Indices) -> Self:
        return replace(self, sums=self.sums[:, columns], feature_sums=self.feature_sums[columns])

    def scaled(self, factor: float) -> Self:
        return replace(
            self,
            sums=factor * self.sums,
            weights=factor * self.weights,
            feature_sums=factor * self.feature_sums,
        )

    @classmethod
    def from_fields(cls, fields: Fields, n_components: int, exact: bool) -> Self:
        labels = fields.labels("labels")
        n = len(labels)
        matrix = fields.array("matrix", np.float64, (n, None))
        if n < 2 or not matrix.shape[1]:
            raise fields.wrong(
                "matrix", f"has shape {matrix.shape}; expected two classes and a bit"
            )
        if not (np.abs(matrix) == 1).all():
            raise fields.wrong("matrix", "holds numbers that are neither -1 nor 1")
        sums = fields.array("sums", np.float64, (matrix.shape[1], n_components))
        weights = fields.weights("weights", n)
        feature_sums = fields.array("feature_sums", np.float64, (n_components,))
        return cls(labels, matrix, sums, weights, feature_sums)


def _is_label(name: Any) -> bool:
    """Return whether a name is a string, or a number of NumPy's that is finite."""
    if not isinstance(name, str | Real | np.bool_):
        return False
    label = np.array(name)
    return label.dtype.kind in "biuU" or (label.dtype.kind == "f" and bool(np.isfinite(label)))


def _joined(names: list[Any]) -> Array:
    """Return names of classes as sorted labels; raise DataError for numbers that would change."""
    by_type: dict[type, list[Any]] = {}
    for name in names:
        by_type.setdefault(type(name), []).append(name)
    parts = [np.unique(as_labels(np.array(part))) for part in by_type.values()]
    return functools.reduce(join_labels, parts, np.empty(0, np.int64))


def _check_numbers(ours: Array, theirs: Array) -> None:
    """Raise for labels of different kinds of numbers: their sum could not be taken apart again."""
    kinds = {labels.dtype.kind for labels in (ours, theirs) if len(labels)}
    if len(kinds) == 2 and "U" not in kinds:
        raise MergeError(
            f"one side has labels such as {ours[0].item()!r}, the other such as "
            f"{theirs[0].item()!r}; give both the same dtype"
        )


def _sizes(sums: ClassSums) -> Floats:
    """Return the weight of each class and its greatest sum, (n_classes, 2)."""
    return np.stack((sums.weights, np.abs(sums.sums).max(axis=1, initial=0)), axis=1)


def _check_left(left: Floats, removed: Floats, labels: Array) -> None:
    """Raise if more of a class is removed than there is; unrounded sums may miss 0 by rounding."""
    short = left < -1e-9 * removed
    if short.any():
        raise MergeError(
            f"more rows of class {labels[short][0].item()!r} would be removed than were counted: "
            "the right side was summed with other labels"
        )
