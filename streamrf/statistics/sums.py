"""The mergeable sums: numbers, and nothing of where they came from.

On rounded features every sum is a sum of integers below 2^53, so the result is the same to the last
bit for any order, block size, thread count or split.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from streamrf.display import stage
from streamrf.errors import MergeError, ParameterError, StreamrfError
from streamrf.jit import packed
from streamrf.jit.arrays import Array, Features, Floats, Indices
from streamrf.statistics.gram import CompactGram, GramSum, gram_class, packed_size
from streamrf.statistics.target_kinds import MAX_FLOAT_SUM, are_too_great, read_targets
from streamrf.statistics.targets import EXACT_FLOAT64, TargetSums
from streamrf.storage import Fields


class AbstractSums(ABC):
    """Gram, target sums and counts of the rows added so far, kept in folds or not.

    A commutative monoid: `zero_like`, `add` for a block of rows, `+` and its inverse `-`.

    Attributes
    ----------
    targets : ClassSums, BitSums or ValueSums of all rows
    n_rows : int, rows added
    n_clipped : int, entries clipped on the way
    n_weightless : int, rows whose root is 0
    n_faded : what `scaled` has left of the other rows; None where it was not called
    """

    targets: TargetSums
    n_rows: int
    n_clipped: int
    n_weightless: int
    n_faded: float | None

    @property
    def is_scaled(self) -> bool:
        """Whether rows count with factors, so that the sums are not of integers."""
        return self.n_faded is not None

    @property
    def n_weighted(self) -> int:
        """Rows whose root is above 0: those that degrees of freedom are counted of."""
        return self.n_rows - self.n_weightless

    @property
    def n_left(self) -> float:
        """The same, each by the factor that it counts with; NaN in scaled sums of early files."""
        return self.n_weighted if self.n_faded is None else self.n_faded

    @property
    @abstractmethod
    def gram(self) -> GramSum:
        """Sums of products of features of all rows."""

    @property
    @abstractmethod
    def gram_class(self) -> type[GramSum]:
        """How products of features are summed."""

    @property
    @abstractmethod
    def parts(self) -> "Sequence[Sums]":
        """The sums of each fold; empty where no folds are kept."""

    @property
    def n_folds(self) -> int:
        """Folds kept apart; 0 for none."""
        return len(self.parts)

    @property
    def exact(self) -> bool:
        """Whether every sum is one of integers."""
        return self.gram_class.exact and not self.is_scaled

    @property
    def n_components(self) -> int:
        """Width of the features."""
        return self.targets.sums.shape[1]

    @abstractmethod
    def add(
        self,
        Q: Features,
        roots: Floats,
        y: Array,
        n_clipped: int = 0,
        indices: Indices | None = None,
    ) -> None:
        """Add a block.

        Parameters
        ----------
        Q : (n, n_components), integers in float32, or float64
        roots : (n,) float64, roots of the rows' weights
        y : (n,) labels, or (n, n_targets) rounded targets
        n_clipped : entries of Q that were clipped
        indices : (n,) of the rows in their store; they decide on the folds
        """

    def __add__(self, other: Self) -> Self:
        return self.combined(other, 1)

    def __sub__(self, other: Self) -> Self:
        return self.combined(other, -1)

    @abstractmethod
    def combined(self, other: Self, sign: int, in_place: bool = False) -> Self:
        """Return ``self + sign * other``; `in_place` in the memory of our Grams, which are lost."""

    @abstractmethod
    def with_totals(self, totals: str) -> Self:
        """Return the same sums in "float64" or "int32" totals."""

    @abstractmethod
    def select(self, columns: Indices) -> Self:
        """Return the sums of some features alone; `n_clipped` stays that of all."""

    @abstractmethod
    def retargeted(self, change: Callable[[TargetSums], TargetSums]) -> Self:
        """Return the sums of the same rows with ``change(targets)`` in place of their targets."""

    @abstractmethod
    def stack_targets(self, other: Self) -> Self:
        """Return the sums of our targets and then those of `other`; the rows must be the same."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """Return ``factor * self``: counts stay, integers do not."""

    @abstractmethod
    def copy(self) -> Self:
        """Return the same sums in memory of their own."""

    @abstractmethod
    def writable(self) -> Self:
        """Return these sums to be added to, a Gram copied only where it is read-only."""

    @abstractmethod
    def zero_like(self) -> Self:
        """Return sums of nothing, ready for the same kind of rows, in as many folds."""

    @abstractmethod
    def without_folds(self) -> "Sums":
        """Return the sums of all rows, without the folds."""

    @abstractmethod
    def diagonal(self) -> Floats:
        """Return the sums of squares of the features, float64 (n_components,)."""

    def check_exact(self) -> None:
        """Raise StreamrfError unless float64 holds all totals, those of integers exactly."""
        if not self.exact and are_too_great(self.targets, MAX_FLOAT_SUM):
            raise StreamrfError(
                f"the sums have outgrown {MAX_FLOAT_SUM:g} after {self.n_rows} rows, beyond which "
                "squares of floats overflow: some rows weigh far more than those looked at before "
                "the pass; give all weights in one unit"
            )
        if self.exact and not self.targets.is_exact(self.diagonal().max(initial=0)):
            raise StreamrfError(
                f"the sums have outgrown 2^53 after {self.n_rows} rows and are no longer exact; "
                "give heavy rows less weight, take precision='float64' (--precision float64), or "
                "save parts of the rows in statistics files of their own"
            )

    @abstractmethod
    def release(self) -> None:
        """Give the memory of partial sums back."""

    @abstractmethod
    def to_tree(self) -> dict:
        """Return the numbers as a tree."""


class Sums(AbstractSums):
    """Sums of rows without folds.

    Parameters
    ----------
    gram : sums of products of features
    targets, n_rows, n_clipped, n_weightless, n_faded : see `AbstractSums`
    """

    def __init__(
        self,
        gram: GramSum,
        targets: TargetSums,
        n_rows: int = 0,
        n_clipped: int = 0,
        n_weightless: int = 0,
        n_faded: float | None = None,
    ) -> None:
        self._gram = gram
        self.targets = targets
        self.n_rows = n_rows
        self.n_clipped = n_clipped
        self.n_weightless = n_weightless
        self.n_faded = n_faded

    @property
    def gram(self) -> GramSum:
        return self._gram

    @property
    def gram_class(self) -> type[GramSum]:
        return type(self.gram)

    @property
    def parts(self) -> "Sequence[Sums]":
        return ()

    def add(
        self,
        Q: Features,
        roots: Floats,
        y: Array,
        n_clipped: int = 0,
        indices: Indices | None = None,
    ) -> None:
        with stage("gram"):
            self.gram.check(Q)  # either may refuse the block, and then nothing has changed
        with stage("targets"):
            self.targets.add(Q, roots, y)
        with stage("gram"):
            self.gram.add(Q)
        self.n_rows += len(Q)
        self.n_weightless += len(roots) - int(np.count_nonzero(roots))
        self.n_clipped += n_clipped

    def combined(self, other: Self, sign: int, in_place: bool = False) -> Self:
        if type(self.gram) is not type(other.gram) or type(self.targets) is not type(other.targets):
            raise MergeError(
                f"one side holds {type(self.gram).__name__} and {type(self.targets).__name__}, "
                f"the other {type(other.gram).__name__} and {type(other.targets).__name__}"
            )
        if self.n_components != other.n_components:
            raise MergeError(
                f"one side has {self.n_components} features, the other {other.n_components}"
            )
        if sign > 0 and self.gram.limit < EXACT_FLOAT64:  # beyond, 32 bits would wrap around
            self._check_together(other)
        targets = self.targets.combined(other.targets, sign)
        ours = self.gram.surrender() if in_place else self.gram.totals
        out = ours if in_place else np.empty_like(ours)
        (np.add if sign > 0 else np.subtract)(ours, other.gram.totals, out=out)
        n_rows = self.n_rows + sign * other.n_rows
        return type(self)(
            type(self.gram)(self.n_components, out),
            targets,
            n_rows,
            self.n_clipped + sign * other.n_clipped,
            max(0, min(self.n_weightless + sign * other.n_weightless, n_rows)),  # early files: 0
            self.n_left + other.n_left if self.is_scaled or other.is_scaled else None,
        )

    def _check_together(self, other: "Sums") -> None:
        if (self.diagonal() + other.diagonal()).max(initial=0) >= self.gram.limit:
            raise MergeError(
                f"together the two sides reach {self.gram.limit:.0f}, from where on their totals "
                "are not exact; add them as with_totals('float64')"
            )

    def with_totals(self, totals: str) -> Self:
        kind = gram_class(self.gram.exact, totals)
        if kind is type(self.gram):
            return self
        greatest = self.diagonal().max(initial=0)
        if self.is_scaled or greatest >= kind.limit:
            raise ParameterError(
                f"totals={totals!r} hold integers below {kind.limit:.0f}; these sums "
                + ("were scaled" if self.is_scaled else f"reach {greatest:.0f}")
            )
        return self._with(kind(self.n_components, self.gram.totals.astype(kind.dtype)))

    def _with(self, gram: GramSum | None = None, targets: TargetSums | None = None) -> Self:
        """Return the sums of the same rows with another Gram, other targets, or both."""
        gram = self.gram if gram is None else gram
        targets = self.targets if targets is None else targets
        return type(self)(
            gram, targets, self.n_rows, self.n_clipped, self.n_weightless, self.n_faded
        )

    def select(self, columns: Indices) -> Self:
        totals: Array = np.empty(packed_size(len(columns)), dtype=self.gram.dtype)
        packed.select(self.gram.totals, self.n_components, columns, totals)
        return self._with(type(self.gram)(len(columns), totals), self.targets.select(columns))

    def retargeted(self, change: Callable[[TargetSums], TargetSums]) -> Self:
        return self._with(targets=change(self.targets))

    def stack_targets(self, other: Self) -> Self:
        ours, theirs = self.targets, other.targets
        both = ours.stack(theirs)
        same = (
            self.n_rows == other.n_rows
            and ours.total == theirs.total
            and np.array_equal(ours.feature_totals, theirs.feature_totals)
            and np.array_equal(self.gram.totals, other.gram.totals)
        )
        if not same:
            raise MergeError(
                "the two sides are not sums of the same rows: their features add up to different "
                "totals; sum the other targets from the same rows, weights and map"
            )
        return self._with(targets=both)

    def scaled(self, factor: float) -> Self:
        gram = gram_class(self.gram.exact)(self.n_components, factor * self.gram.totals)
        scaled = self._with(gram, self.targets.scaled(factor))
        scaled.n_faded = factor * self.n_left
        return scaled

    def copy(self) -> Self:
        return self._with(self.gram.copy(), copy.deepcopy(self.targets))

    def writable(self) -> Self:
        is_writable = self.gram.totals.flags.writeable
        return self.retargeted(copy.deepcopy) if is_writable else self.copy()

    def zero_like(self) -> Self:
        gram = type(self.gram)(self.n_components)
        return type(self)(gram, self.targets.zero_like(gram.exact))

    def without_folds(self) -> "Sums":
        return self

    def diagonal(self) -> Floats:
        diagonal = np.empty(self.n_components)
        packed.diagonal(self.gram.totals, diagonal)
        return diagonal

    def release(self) -> None:
        with stage("gram"):
            self.gram.release()

    def to_tree(self) -> dict:
        tree = {
            "gram": self.gram.totals,
            "exact": self.gram.exact,
            "targets": self.targets.to_tree(),
            "n_rows": self.n_rows,
            "n_clipped": self.n_clipped,
            "scaled": self.is_scaled,
        }
        if self.n_faded is not None and np.isfinite(self.n_faded):
            tree["n_faded"] = self.n_faded
        return tree | {"n_weightless": self.n_weightless} if self.n_weightless else tree

    @classmethod
    def from_tree(cls, tree: dict | Fields, n_components: int, exact: bool) -> "Sums":
        """Rebuild from `to_tree`.

        Parameters
        ----------
        tree : dict or Fields
        n_components : width of the encoder's features
        exact : whether it rounds them
        """
        fields = Fields.of(tree)
        totals = fields.array("gram", "fi", (packed_size(n_components),))
        kind = gram_class(exact)
        if exact and totals.dtype == CompactGram.dtype:
            kind = CompactGram
        if totals.dtype != kind.dtype:
            raise fields.wrong("gram", f"holds {totals.dtype.name}; expected {kind.dtype.__name__}")
        if fields.flag("exact") != exact:
            raise fields.wrong("exact", f"is {not exact}; the calibration says {exact}")
        n_rows, n_clipped = fields.integer("n_rows"), fields.integer("n_clipped")
        is_scaled, n_weightless = fields.flag("scaled"), 0
        if "n_weightless" in fields.keys:
            n_weightless = fields.integer("n_weightless", maximum=n_rows)
        n_faded = np.nan if is_scaled else None
        if is_scaled and "n_faded" in fields.keys:
            n_faded = fields.number("n_faded", minimum=0.0)
        targets = read_targets(fields.tree("targets"), n_components, exact and not is_scaled)
        fields.end()
        gram = kind(n_components, totals)
        sums = cls(gram, targets, n_rows, n_clipped, n_weightless, n_faded)
        diagonal = sums.diagonal()
        if exact and (diagonal < 0).any():  # what subtraction leaves of floats may be
            raise fields.wrong("gram", "holds a sum of squares below 0")
        if not is_scaled and (diagonal >= kind.limit).any():
            raise fields.wrong("gram", "holds sums of squares too great to be exact")
        return sums
