"""Sums kept in folds: as many sums as folds, which add up to those of all rows.

Integers add up to the same total however they are grouped, so sums in folds are the sums of the
pass without folds to the last byte, and those of all rows but a fold are one subtraction away.
"""

import copy
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np

from streamrf.errors import MergeError, ParameterError
from streamrf.jit.arrays import Array, Features, Floats, Indices
from streamrf.sources import uniform
from streamrf.statistics.gram import GramSum, gram_class
from streamrf.statistics.sums import AbstractSums, Sums
from streamrf.statistics.target_kinds import read_targets
from streamrf.statistics.targets import EXACT_FLOAT64, TargetSums
from streamrf.storage import Fields

MAX_FOLDS = 100
SALT = 1  # another hash than the one that holds rows out


def kfold_index(indices: Indices, n_folds: int) -> Indices:
    """Return the fold of each row, int64 (n,): a hash of its index in its store.

    Rows that the ledger knows by the same name are in the same fold in every pass, so what is
    subtracted is taken from the folds that it was added to. Which rows are held out says nothing
    of their folds.

    Examples
    --------
    >>> np.bincount(kfold_index(np.arange(10_000), 5)).tolist()
    [1963, 2010, 1993, 2009, 2025]
    """
    return np.minimum(uniform(indices, SALT) * n_folds, n_folds - 1).astype(np.int64)


def check_folds(n_folds: Any) -> int:
    """Return the number of folds, 0 for None; raise ParameterError for one fold, or too many."""
    if n_folds is None:
        return 0
    whole = isinstance(n_folds, Integral) and not isinstance(n_folds, bool)
    if not whole or not 2 <= n_folds <= MAX_FOLDS:
        raise ParameterError(
            f"folds must be None or an integer from 2 to {MAX_FOLDS}, got {n_folds!r}"
        )
    return int(n_folds)


class KFoldSums(AbstractSums):
    """Sums of rows in folds.

    Parameters
    ----------
    targets : of all rows
    parts : the sums of each fold
    n_clipped : int, entries clipped on the way; not counted by fold
    """

    def __init__(self, targets: TargetSums, parts: list[Sums], n_clipped: int = 0) -> None:
        self.targets = targets
        self.n_clipped = n_clipped
        self.n_rows = sum(part.n_rows for part in parts)
        self.n_weightless = sum(part.n_weightless for part in parts)
        self.n_faded = sum(part.n_left for part in parts) if parts[0].is_scaled else None
        self._parts = parts
        self._gram: GramSum | None = None

    @classmethod
    def zero(cls, empty: Sums, n_folds: int) -> "KFoldSums":
        """Start from sums without rows."""
        return cls(empty.targets, [empty.zero_like() for _ in range(n_folds)])

    @property
    def gram(self) -> GramSum:
        """Added up when asked for, and kept until rows are added."""
        if self._gram is None:
            totals = self.parts[0].gram.totals.copy()
            for part in self.parts[1:]:
                totals += part.gram.totals
            self._gram = self.gram_class(self.n_components, totals)
        return self._gram

    @property
    def gram_class(self) -> type[GramSum]:
        return self.parts[0].gram_class

    @property
    def parts(self) -> Sequence[Sums]:
        return self._parts

    def with_totals(self, totals: str) -> Self:
        """Return these sums: "float64" totals are the only ones that are kept in folds."""
        if gram_class(self.gram_class.exact, totals) is not self.gram_class:
            raise ParameterError(f"sums in folds have totals='float64', not {totals!r}")
        return self

    def add(
        self,
        Q: Features,
        roots: Floats,
        y: Array,
        n_clipped: int = 0,
        indices: Indices | None = None,
    ) -> None:
        assert indices is not None
        self.targets.add(Q, roots, y)  # first: it may refuse a label, and then nothing has changed
        self._gram = None
        folds = kfold_index(indices, self.n_folds)
        for k, part in enumerate(self.parts):
            rows = folds == k
            if rows.any():
                part.add(Q[rows], roots[rows], y[rows])
        self.n_rows += len(Q)
        self.n_weightless = sum(part.n_weightless for part in self.parts)
        self.n_clipped += n_clipped

    def combined(self, other: Self, sign: int, in_place: bool = False) -> Self:
        pairs = zip(self.parts, other.parts, strict=True)
        parts = [ours.combined(theirs, sign, in_place) for ours, theirs in pairs]
        if any(part.n_rows < 0 for part in parts):
            raise MergeError("the rows to remove were counted in other folds than here")
        targets = self.targets.combined(other.targets, sign)
        return type(self)(targets, parts, self.n_clipped + sign * other.n_clipped)

    def _changed(self, targets: TargetSums, change: Callable[[Sums], Sums]) -> Self:
        """Return other targets of all rows, with ``change(part)`` in place of every part."""
        return type(self)(targets, [change(part) for part in self.parts], self.n_clipped)

    def select(self, columns: Indices) -> Self:
        return self._changed(self.targets.select(columns), lambda part: part.select(columns))

    def retargeted(self, change: Callable[[TargetSums], TargetSums]) -> Self:
        return self._changed(change(self.targets), lambda part: part.retargeted(change))

    def stack_targets(self, other: Self) -> Self:
        pairs = zip(self.parts, other.parts, strict=True)
        parts = [ours.stack_targets(theirs) for ours, theirs in pairs]
        return type(self)(self.targets.stack(other.targets), parts, self.n_clipped)

    def scaled(self, factor: float) -> Self:
        return self._changed(self.targets.scaled(factor), lambda part: part.scaled(factor))

    def copy(self) -> Self:
        return self._changed(copy.deepcopy(self.targets), Sums.copy)

    def writable(self) -> Self:
        return self._changed(copy.deepcopy(self.targets), Sums.writable)

    def zero_like(self) -> Self:
        empty = self.parts[0].zero_like()
        return type(self)(empty.targets, [empty.zero_like() for _ in self.parts])

    def without_folds(self) -> Sums:
        counts = self.n_rows, self.n_clipped, self.n_weightless, self.n_faded
        return Sums(self.gram, self.targets, *counts)

    def diagonal(self) -> Floats:
        return np.sum([part.diagonal() for part in self.parts], axis=0)

    def release(self) -> None:
        for part in self.parts:
            part.release()

    def without(self, fold: int) -> AbstractSums:
        """Return the sums of all rows but a fold's, in the folds that are left if there are two.

        A class that has rows in this fold alone is not known to them.
        """
        parts = [*self.parts[:fold], *self.parts[fold + 1 :]]
        if len(parts) == 1:
            return parts[0]
        targets = self.targets.combined(self.parts[fold].targets, -1)
        return type(self)(targets, parts, self.n_clipped)

    def to_tree(self) -> dict:
        """Return the numbers of each fold, and the targets of all rows, as a tree."""
        return {
            "folds": {str(k): part.to_tree() for k, part in enumerate(self.parts)},
            "targets": self.targets.to_tree(),
            "n_clipped": self.n_clipped,
        }

    @classmethod
    def from_tree(cls, tree: dict | Fields, n_components: int, exact: bool) -> "KFoldSums":
        """Rebuild from `to_tree`, see `Sums.from_tree`."""
        fields = Fields.of(tree)
        parts = [Sums.from_tree(part, n_components, exact) for _, part in fields.trees("folds")]
        if not 2 <= len(parts) <= MAX_FOLDS:
            raise fields.wrong("folds", f"are {len(parts)}; expected 2 to {MAX_FOLDS}")
        targets = read_targets(fields.tree("targets"), n_components, parts[0].exact)
        n_clipped = fields.integer("n_clipped")
        fields.end()
        for part in parts:
            if part.gram_class.limit < EXACT_FLOAT64:
                raise fields.wrong("folds", "are summed in 32 bits; expected 64")
            if part.is_scaled != parts[0].is_scaled or not part.targets.is_part_of(targets):
                raise fields.wrong("folds", "and the targets of all rows do not agree")
        return cls(targets, parts, n_clipped)


def read_sums(fields: Fields, n_components: int, exact: bool) -> AbstractSums:
    """Rebuild sums, in folds or not, from their tree; see `Sums.from_tree`."""
    kind = KFoldSums if fields.is_tree("folds") else Sums
    return kind.from_tree(fields, n_components, exact)
