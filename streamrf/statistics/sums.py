"""The mergeable sums: numbers, and nothing of where they came from.

A commutative monoid: `Sums.zero`, `add` for a block of rows, `+` and its inverse `-`. On rounded
features every sum is a sum of whole numbers below 2^53, so the result is the same to the last bit
for any order, block size, thread count or split.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from streamrf.errors import MergeError, ParameterError, StreamrfError
from streamrf.jit import packed
from streamrf.statistics.gram import CompactGram, GramSum, gram_class, packed_size
from streamrf.statistics.targets import TargetSums, ValueSums, read_targets
from streamrf.storage import Fields
from streamrf.timing import stage

EXACT_FLOAT64 = 2.0**53
EXACT_PAIR = 2.0**100  # of two float64


class Sums:
    """Gram, target sums and counts of the rows added so far.

    Parameters
    ----------
    gram : sums of products of features
    targets : ClassSums, BitSums or ValueSums
    n_rows : int, rows added
    n_clipped : int, entries clipped on the way
    is_scaled : whether rows count with factors, so that the sums are not of whole numbers
    """

    def __init__(
        self,
        gram: GramSum,
        targets: TargetSums,
        n_rows: int = 0,
        n_clipped: int = 0,
        is_scaled: bool = False,
    ):
        self.gram = gram
        self.targets = targets
        self.n_rows = n_rows
        self.n_clipped = n_clipped
        self.is_scaled = is_scaled

    @property
    def exact(self) -> bool:
        """Whether every sum is one of whole numbers."""
        return self.gram.exact and not self.is_scaled

    @property
    def gram_class(self) -> type[GramSum]:
        """How products of features are summed."""
        return type(self.gram)

    @property
    def n_folds(self) -> int:
        """Folds kept apart: none."""
        return 0

    @property
    def n_components(self) -> int:
        """Width of the features."""
        return self.targets.sums.shape[1]

    def add(
        self,
        Q: np.ndarray,
        roots: np.ndarray,
        y: np.ndarray,
        n_clipped: int = 0,
        places: np.ndarray | None = None,
    ) -> None:
        """Add a block.

        Parameters
        ----------
        Q : (n, n_components), whole numbers in float32, or float64
        roots : (n,) float64, roots of the rows' weights
        y : (n,) labels, or (n, n_targets) rounded targets
        n_clipped : entries of Q that were clipped
        places : (n,) of the rows in their store; only sums in folds ask for them
        """
        with stage("gram"):
            self.gram.check(Q)  # either may refuse the block, and then nothing has changed
        with stage("targets"):
            self.targets.add(Q, roots, y)
        with stage("gram"):
            self.gram.add(Q)
        self.n_rows += len(Q)
        self.n_clipped += n_clipped

    def __add__(self, other: "Sums") -> "Sums":
        return self._combined(other, 1.0, np.empty_like(self.gram.totals))

    def __sub__(self, other: "Sums") -> "Sums":
        return self._combined(other, -1.0, np.empty_like(self.gram.totals))

    def absorb(self, other: "Sums", sign: float) -> "Sums":
        """Give ``self + sign * other`` in the memory of our Gram, which is lost."""
        return self._combined(other, sign, self.gram.totals)

    def _combined(self, other, sign, out):
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
        combine = np.add if sign > 0 else np.subtract
        combine(self.gram.totals, other.gram.totals, out=out)
        return Sums(
            type(self.gram)(self.n_components, out),
            targets,
            self.n_rows + int(sign) * other.n_rows,
            self.n_clipped + int(sign) * other.n_clipped,
            self.is_scaled or other.is_scaled,
        )

    def _check_together(self, other):
        """Refuse sums whose total would not be exact."""
        if (self.diagonal() + other.diagonal()).max(initial=0) >= self.gram.limit:
            raise MergeError(
                f"together the two sides reach {self.gram.limit:.0f}, from where on their totals "
                "are not exact; add them as with_totals('float64')"
            )

    def with_totals(self, totals: str) -> "Sums":
        """Give the same sums in "float64" or "int32" totals."""
        kind = gram_class(self.gram.exact, totals)
        if kind is type(self.gram):
            return self
        greatest = self.diagonal().max(initial=0)
        if self.is_scaled or greatest >= kind.limit:
            raise ParameterError(
                f"totals={totals!r} hold whole numbers below {kind.limit:.0f}; these sums "
                + ("were scaled" if self.is_scaled else f"reach {greatest:.0f}")
            )
        gram = kind(self.n_components, self.gram.totals.astype(kind.dtype))
        return Sums(gram, self.targets, self.n_rows, self.n_clipped)

    def select(self, picks: np.ndarray) -> "Sums":
        """Give the sums of some features alone, by their places; `n_clipped` stays that of all."""
        totals: np.ndarray = np.empty(packed_size(len(picks)), dtype=self.gram.dtype)
        packed.select(self.gram.totals, self.n_components, picks, totals)
        gram = type(self.gram)(len(picks), totals)
        targets = self.targets.select(picks)
        return Sums(gram, targets, self.n_rows, self.n_clipped, self.is_scaled)

    def retargeted(self, change: Callable[[Any], TargetSums]) -> "Sums":
        """Give the sums of the same rows with ``change(targets)`` in place of their targets."""
        return Sums(self.gram, change(self.targets), self.n_rows, self.n_clipped, self.is_scaled)

    def beside(self, other: "Sums") -> "Sums":
        """Give the sums of our targets and then those of `other`; the rows must be the same."""
        ours, theirs = self.targets, other.targets
        if not isinstance(ours, ValueSums) or not isinstance(theirs, ValueSums):
            raise MergeError("only targets that are values can stand side by side, not classes")
        same = (
            self.n_rows == other.n_rows
            and ours.weight == theirs.weight
            and np.array_equal(ours.feature_sums, theirs.feature_sums)
            and np.array_equal(self.gram.totals, other.gram.totals)
        )
        if not same:
            raise MergeError(
                "the two sides are not sums of the same rows: their features add up to different "
                "totals; sum the other targets from the same rows, weights and map"
            )
        return self.retargeted(lambda targets: targets.beside(theirs))

    def scaled(self, factor: float) -> "Sums":
        """Give ``factor * self``: counts stay, whole numbers do not."""
        kind = gram_class(self.gram.exact)
        gram = kind(self.n_components, factor * self.gram.totals)
        return Sums(gram, self.targets.scaled(factor), self.n_rows, self.n_clipped, True)

    def copy(self) -> "Sums":
        """Give the same sums in memory of their own."""
        gram = self.gram.copy()
        targets = copy.deepcopy(self.targets)
        return Sums(gram, targets, self.n_rows, self.n_clipped, self.is_scaled)

    def writable(self) -> "Sums":
        """Give these sums to be added to, their Gram copied only where it is read-only."""
        if not self.gram.totals.flags.writeable:
            return self.copy()
        return self.retargeted(copy.deepcopy)

    def zero_like(self) -> "Sums":
        """Give sums of nothing, ready for the same kind of rows."""
        gram = type(self.gram)(self.n_components)
        return Sums(gram, self.targets.zero_like(gram.exact))

    def release(self) -> None:
        """Give the memory of partial sums back."""
        with stage("gram"):
            self.gram.release()

    def diagonal(self) -> np.ndarray:
        """Give the sums of squares of the features, float64 (n_components,)."""
        diagonal = np.empty(self.n_components)
        packed.diagonal(self.gram.totals, diagonal)
        return diagonal

    def check_exact(self) -> None:
        """Raise unless every total is a whole number that float64 holds exactly."""
        if self.exact:
            check_exact(self.diagonal(), self.targets, self.n_rows)

    def to_tree(self) -> dict:
        """Give the numbers as a tree."""
        return {
            "gram": self.gram.totals,
            "exact": self.gram.exact,
            "targets": self.targets.to_tree(),
            "n_rows": self.n_rows,
            "n_clipped": self.n_clipped,
            "scaled": self.is_scaled,
        }

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
        is_scaled = fields.flag("scaled")
        targets = read_targets(fields.tree("targets"), n_components, exact and not is_scaled)
        fields.end()
        diagonal = np.empty(n_components)
        packed.diagonal(totals, diagonal)
        if exact and (diagonal < 0).any():  # what subtraction leaves of floats may be
            raise fields.wrong("gram", "holds a sum of squares below 0")
        if not is_scaled and (diagonal >= kind.limit).any():
            raise fields.wrong("gram", "holds sums of squares too great to be exact")
        return cls(kind(n_components, totals), targets, n_rows, n_clipped, is_scaled)


def check_exact(diagonal: np.ndarray, targets: TargetSums, n_rows: int) -> None:
    """Raise unless sums of whole numbers, by their sums of squares, are ones that float64 holds."""
    square = diagonal.max(initial=0)
    too_great = max(square, targets.total) >= EXACT_FLOAT64
    if isinstance(targets, ValueSums):
        squares = float(max(targets.squares, default=0))
        too_great |= np.sqrt(square) * np.sqrt(squares) >= EXACT_PAIR  # bounds sum t q
    if too_great:
        raise StreamrfError(
            f"the sums have outgrown 2^53 after {n_rows} rows and are no longer exact; "
            "save parts of the rows in statistics files of their own"
        )
