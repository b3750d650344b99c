"""Sums kept in folds: as many sums as folds, which add up to those of all rows.

Whole numbers add up to the same total however they are grouped, so sums in folds are the sums of
the pass without folds to the last byte, and those of all rows but a fold are one subtraction away.
"""

import copy
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from streamrf.errors import MergeError, ParameterError
from streamrf.sources import find_labels, uniform
from streamrf.statistics.gram import GramSum, gram_class
from streamrf.statistics.sums import EXACT_FLOAT64, Sums, check_exact
from streamrf.statistics.targets import BitSums, TargetSums, read_targets
from streamrf.storage import Fields

MOST_FOLDS = 100
SALT = 1  # another hash than the one that holds rows out


def fold_of(places: np.ndarray, n_folds: int) -> np.ndarray:
    """Give the fold of each row, int64 (n,): a hash of its place in its store.

    Rows that the ledger knows by the same name are in the same fold in every pass, so what is
    subtracted is taken from the folds that it was added to.

    Examples
    --------
    >>> np.bincount(fold_of(np.arange(10_000), 5)).tolist()
    [1963, 2010, 1993, 2009, 2025]
    """
    return np.minimum(uniform(places, SALT) * n_folds, n_folds - 1).astype(np.int64)


def check_folds(n_folds: int | None) -> int:
    """Give the number of folds, 0 for none; refuse one fold, or too many."""
    if n_folds is None:
        return 0
    whole = isinstance(n_folds, Integral) and not isinstance(n_folds, bool)
    if not whole or not 2 <= n_folds <= MOST_FOLDS:
        raise ParameterError(
            f"folds must be None or a whole number from 2 to {MOST_FOLDS}, got {n_folds!r}"
        )
    return int(n_folds)


class FoldedSums:
    """Sums of rows in folds, with the interface of `Sums`.

    Parameters
    ----------
    targets : of all rows
    parts : the sums of each fold
    n_clipped : int, entries clipped on the way; not told apart by fold
    """

    def __init__(self, targets: TargetSums, parts: list[Sums], n_clipped: int = 0):
        self.targets = targets
        self.parts = parts
        self.n_clipped = n_clipped
        self._gram: GramSum | None = None

    @classmethod
    def zero(cls, empty: Sums, n_folds: int) -> "FoldedSums":
        """Start from sums without rows."""
        return cls(empty.targets, [empty.zero_like() for _ in range(n_folds)])

    @property
    def gram(self) -> GramSum:
        """Sums of products of all rows: added up when asked for, and kept until rows are added."""
        if self._gram is None:
            totals = self.parts[0].gram.totals.copy()
            for part in self.parts[1:]:
                totals += part.gram.totals
            self._gram = type(self.parts[0].gram)(self.n_components, totals)
        return self._gram

    @property
    def gram_class(self) -> type[GramSum]:
        """How products of features are summed."""
        return self.parts[0].gram_class

    def with_totals(self, totals: str) -> "FoldedSums":
        """Give the same sums in "float64" totals, the only ones that are kept in folds."""
        if gram_class(self.gram_class.exact, totals) is not self.gram_class:
            raise ParameterError(f"sums in folds have totals='float64', not {totals!r}")
        return self

    @property
    def n_folds(self) -> int:
        """Folds."""
        return len(self.parts)

    @property
    def n_rows(self) -> int:
        """Rows added."""
        return sum(part.n_rows for part in self.parts)

    @property
    def n_components(self) -> int:
        """Width of the features."""
        return self.targets.sums.shape[1]

    @property
    def is_scaled(self) -> bool:
        """Whether rows count with factors."""
        return self.parts[0].is_scaled

    @property
    def exact(self) -> bool:
        """Whether every sum is one of whole numbers."""
        return self.parts[0].exact

    def add(self, Q, roots, y, n_clipped=0, places=None) -> None:
        """Add a block, see `Sums.add`; `places` decide on the folds."""
        self.targets.add(Q, roots, y)  # first: it may refuse a label, and then nothing has changed
        self._gram = None
        folds = fold_of(places, self.n_folds)
        for k, part in enumerate(self.parts):
            rows = folds == k
            if rows.any():
                part.add(Q[rows], roots[rows], y[rows])
        self.n_clipped += n_clipped

    def __add__(self, other: "FoldedSums") -> "FoldedSums":
        return self._combined(other, 1.0, [a + b for a, b in self._pairs(other)])

    def __sub__(self, other: "FoldedSums") -> "FoldedSums":
        return self._combined(other, -1.0, [a - b for a, b in self._pairs(other)])

    def absorb(self, other: "FoldedSums", sign: float) -> "FoldedSums":
        """Give ``self + sign * other`` in the memory of our Grams, which are lost."""
        return self._combined(other, sign, [a.absorb(b, sign) for a, b in self._pairs(other)])

    def _pairs(self, other):
        return zip(self.parts, other.parts, strict=True)

    def _combined(self, other, sign, parts):
        if any(part.n_rows < 0 for part in parts):
            raise MergeError("the rows to remove were counted in other folds than here")
        targets = self.targets.combined(other.targets, sign)
        return FoldedSums(targets, parts, self.n_clipped + int(sign) * other.n_clipped)

    def select(self, picks: np.ndarray) -> "FoldedSums":
        """Give the sums of some features alone, see `Sums.select`."""
        parts = [part.select(picks) for part in self.parts]
        return FoldedSums(self.targets.select(picks), parts, self.n_clipped)

    def retargeted(self, change: Callable[[Any], TargetSums]) -> "FoldedSums":
        """Give the sums of the same rows with other targets, see `Sums.retargeted`."""
        parts = [part.retargeted(change) for part in self.parts]
        return FoldedSums(change(self.targets), parts, self.n_clipped)

    def beside(self, other: "FoldedSums") -> "FoldedSums":
        """Give the sums of our targets and then those of `other`, see `Sums.beside`."""
        pairs = zip(self.parts, other.parts, strict=True)
        parts = [ours.beside(theirs) for ours, theirs in pairs]
        targets: Any = self.targets
        return FoldedSums(targets.beside(other.targets), parts, self.n_clipped)

    def scaled(self, factor: float) -> "FoldedSums":
        """Give ``factor * self``, see `Sums.scaled`."""
        parts = [part.scaled(factor) for part in self.parts]
        return FoldedSums(self.targets.scaled(factor), parts, self.n_clipped)

    def copy(self) -> "FoldedSums":
        """Give the same sums in memory of their own."""
        parts = [part.copy() for part in self.parts]
        return FoldedSums(copy.deepcopy(self.targets), parts, self.n_clipped)

    def writable(self) -> "FoldedSums":
        """Give these sums to be added to, see `Sums.writable`."""
        parts = [part.writable() for part in self.parts]
        return FoldedSums(copy.deepcopy(self.targets), parts, self.n_clipped)

    def zero_like(self) -> "FoldedSums":
        """Give sums of nothing in as many folds."""
        return FoldedSums.zero(self.parts[0].zero_like(), self.n_folds)

    def joined(self) -> Sums:
        """Give the sums of all rows, without the folds."""
        return Sums(self.gram, self.targets, self.n_rows, self.n_clipped, self.is_scaled)

    def check_exact(self) -> None:
        """Raise unless every total of all rows is a whole number that float64 holds exactly."""
        if self.exact:
            diagonal = np.sum([part.diagonal() for part in self.parts], axis=0)
            check_exact(diagonal, self.targets, self.n_rows)

    def release(self) -> None:
        """Give the memory of partial sums back."""
        for part in self.parts:
            part.release()

    def to_tree(self) -> dict:
        """Give the numbers of each fold, and the targets of all rows, as a tree."""
        return {
            "folds": {str(k): part.to_tree() for k, part in enumerate(self.parts)},
            "targets": self.targets.to_tree(),
            "n_clipped": self.n_clipped,
        }

    @classmethod
    def from_tree(cls, tree: dict | Fields, n_components: int, exact: bool) -> "FoldedSums":
        """Rebuild from `to_tree`, see `Sums.from_tree`."""
        fields = Fields.of(tree)
        parts = [Sums.from_tree(part, n_components, exact) for _, part in fields.trees("folds")]
        if not 2 <= len(parts) <= MOST_FOLDS:
            raise fields.wrong("folds", f"are {len(parts)}; expected 2 to {MOST_FOLDS}")
        targets = read_targets(fields.tree("targets"), n_components, parts[0].exact)
        n_clipped = fields.integer("n_clipped")
        fields.end()
        for part in parts:
            if part.gram_class.limit < EXACT_FLOAT64:
                raise fields.wrong("folds", "are summed in 32 bits; expected 64")
            if part.is_scaled != parts[0].is_scaled or not _is_part(part.targets, targets):
                raise fields.wrong("folds", "and the targets of all rows do not agree")
        return cls(targets, parts, n_clipped)


def _is_part(part: TargetSums, whole: TargetSums) -> bool:
    """Tell whether the targets of a fold are some of those of all rows."""
    if type(part) is not type(whole) or (part.labels is None) != (whole.labels is None):
        return False
    if part.labels is None or isinstance(part, BitSums):
        return part.sums.shape == whole.sums.shape
    return not find_labels(whole.labels, part.labels)[1].any()


def rebuilt(tree: dict | Fields, n_components: int, exact: bool) -> Sums | FoldedSums:
    """Rebuild sums, in folds or not, from their tree."""
    fields = Fields.of(tree)
    kind = FoldedSums if fields.is_tree("folds") else Sums
    return kind.from_tree(fields, n_components, exact)
