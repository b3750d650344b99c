"""What sums of features times targets offer: by class, by bit of a code, or by value."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from streamrf.errors import MergeError, ParameterError
from streamrf.jit import target_sums
from streamrf.jit.arrays import Array, Features, Floats, Indices
from streamrf.jit.threads import on_single_blas_threads
from streamrf.models import CodeBook, Codes, Seed
from streamrf.storage import Fields

PRODUCT_COLUMNS = 256  # multiplied at a time
FEW_FACTORS = 10  # for which BLAS is no faster
EXACT_FLOAT64 = 2.0**53  # integers below it are exact in float64


class TargetSums(ABC):
    """Sums of features times targets.

    Attributes
    ----------
    sums : (n_outputs, n_components) float64
    labels : (n_classes,) sorted, or None where targets are values
    """

    sums: Floats
    labels: Array | None
    kind: ClassVar[str]  # of the targets, for messages

    @property
    @abstractmethod
    def total(self) -> float:
        """``sum root^2``, the weight of all rows."""

    @property
    @abstractmethod
    def feature_totals(self) -> Floats:
        """``sum root q``, float64 (n_components,)."""

    @abstractmethod
    def moments(self, matrix: Floats, root_scale: float) -> tuple[Floats, Floats]:
        """Return ``sum t q`` (n_outputs, n_components) and ``sum root t`` (n_outputs,).

        Parameters
        ----------
        matrix : (n_classes, n_bits) code words; only sums by class read it
        root_scale : unit of the roots; targets t of a row are its code word times root / root_scale
        """

    @abstractmethod
    def squares_of(self, matrix: Floats, root_scale: float) -> Floats:
        """Return ``sum t^2`` of the targets t of `moments`, float64 (n_outputs,)."""

    def is_exact(self, square: float) -> bool:
        """Return whether every total is, where no sum of squares of a feature is above `square`."""
        return max(square, self.total) < EXACT_FLOAT64

    @abstractmethod
    def book(self, codes: Codes, random_state: Seed = 0) -> CodeBook | None:
        """Return the code book to solve for, None for values; raise if `codes` do not fit."""

    def check(self, y: Array) -> None:  # noqa: B027 - most sums take any label
        """Raise for labels that `add` would refuse."""

    @abstractmethod
    def add(self, Q: Features, roots: Floats, y: Array) -> None:
        """Add the rows Q with their roots and labels (n,) or rounded targets (n, n_targets)."""

    @abstractmethod
    def zero_like(self, exact: bool) -> Self:
        """Return sums of nothing, ready for the same kind of targets, rounded or not."""

    def __add__(self, other: Self) -> Self:
        return self.combined(other, 1)

    @abstractmethod
    def combined(self, other: Self, sign: int) -> Self:
        """Return ``self + sign * other`` as new sums."""

    @abstractmethod
    def select(self, columns: Indices) -> Self:
        """Return the sums of some features alone."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """Return ``factor * self`` as new sums, no longer of integers."""

    def check_names(self, names: Mapping[Any, Any]) -> None:
        """Raise ParameterError unless `relabelled` takes these new labels by old ones."""
        raise ParameterError(f"these statistics hold sums of {self.kind}, which have no labels")

    def relabelled(self, names: Mapping[Any, Any]) -> Self:
        """Return the sums under other labels; classes given the same label become one."""
        self.check_names(names)
        return self

    def stack(self, other: Self) -> Self:
        """Return the sums of our targets and then those of `other`, of the same rows."""
        raise MergeError("only targets that are values can stand side by side, not classes")

    def is_part_of(self, whole: "TargetSums") -> bool:
        """Return whether `whole` can be the sums of our rows and others."""
        return type(self) is type(whole) and self.sums.shape == whole.sums.shape

    @classmethod
    @abstractmethod
    def from_fields(cls, fields: Fields, n_components: int, exact: bool) -> "TargetSums":
        """Rebuild from `to_tree`."""

    def to_tree(self) -> dict:
        """Return the numbers as a tree."""
        return {"class": type(self).__name__, **vars(self)}


def products(factors: Floats, Q: Features) -> Floats:
    """Return ``factors.T @ Q`` in float64, some columns at a time on one BLAS thread each.

    After a product of many threads OpenBLAS's own spin for 25 ms, and take the cores from what
    comes next: where a block takes no longer, two threads were slower than one.
    """
    out = np.empty((factors.shape[1], Q.shape[1]))
    if len(out) <= FEW_FACTORS:
        target_sums.products(np.ascontiguousarray(factors), Q, out)
        return out

    def multiply(start: int) -> None:
        columns = slice(start, start + PRODUCT_COLUMNS)
        out[:, columns] = factors.T @ Q[:, columns].astype(np.float64)

    on_single_blas_threads(multiply, range(0, Q.shape[1], PRODUCT_COLUMNS))
    return out
