"""Rows apart from their source: kept for a while, and used by themselves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from streamrf.errors import DataError, warn
from streamrf.sources.base import Block
from streamrf.sources.sparse import SparseRows

T = TypeVar("T")


@dataclass(frozen=True)
class Rows:
    """Rows apart from their store.

    Parameters
    ----------
    X : (n, n_features), an array or `SparseRows`
    y : (n,) labels or targets, or (n, n_targets)
    weights : (n,) or None
    positions : (n,) int64, indices in the whole source
    indices : (n,) int64, indices in the store
    """

    X: Any
    y: Any
    weights: np.ndarray | None
    positions: np.ndarray
    indices: np.ndarray

    def where(self, mask: np.ndarray | slice) -> "Rows":
        """Return the rows that a mask (copied) or a slice (not copied) picks."""
        weights = None if self.weights is None else self.weights[mask]
        positions, indices = self.positions[mask], self.indices[mask]
        return Rows(self.X[mask], self.y[mask], weights, positions, indices)

    def pieces(self, n_rows: int) -> "list[Rows]":
        """Return the rows in pieces of so many, the last of what is left; none is copied."""
        starts = range(0, len(self.X), n_rows)
        return [self.where(slice(start, start + n_rows)) for start in starts]

    @property
    def form(self) -> tuple:
        """What rows must share to be joined without a change."""
        return isinstance(self.X, SparseRows), self.X.dtype, self.y.dtype.kind, self.weights is None

    def to_tree(self) -> dict[str, Any]:
        """Return the rows as a tree."""
        tree = dict(vars(self))
        tree["places"] = tree.pop("indices")
        if isinstance(self.X, SparseRows):
            tree["X"] = self.X.to_tree()
        return tree


def warn_of_unseen(n_unseen: int) -> None:
    """Warn of cells of a table that are unlike those which its columns were learnt from, if any."""
    if n_unseen:
        warn(
            f"{n_unseen:,} values are unlike those that the columns were learnt from: levels that "
            "are new, missing values in columns that had none, or values in columns that had none; "
            "they count as no level, as typical values and not at all: check how they are written"
        )


def as_rows(block: Block) -> Rows:
    """Return a block's rows."""
    indices = block.positions + (block.row - block.position)
    return Rows(block.X, block.y, block.weights, block.positions, indices)


def of_targets(block: Block, read: Callable[[Any], T]) -> T:
    """Return ``read(block.y)``; a DataError of it names the store and the first row it is of."""
    try:
        return read(block.y)
    except DataError as error:
        for i, offset in enumerate(block.offsets.tolist()):
            try:
                read(block.y[i : i + 1])
            except DataError as own:
                raise type(own)(f"{block.where}, row {block.row + offset}: {own}") from error
        raise
