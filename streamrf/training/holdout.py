"""Rows held out for the choice of alpha: a few, raw, chosen by a hash."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np

from streamrf.solving import JOINED_ROWS
from streamrf.sources import Block, Rows, SparseRows, as_rows, stacked
from streamrf.storage import Fields
from streamrf.training.copies import Copies, hash_of

SHARE = 0.2  # at most this share of the rows
MAX_ROWS = 10_000
MAX_BYTES = 64 << 20
RAW_DTYPES = ("uint8", "int16", "float32", "float64")


def limit_of(row_bytes: int) -> int:
    """Return the greatest number of rows to hold."""
    return max(1, min(MAX_ROWS, MAX_BYTES // max(row_bytes, 1)))


def most_rows(n_rows: int | None) -> int:
    """Return how many of some rows are held out, or hardly more; None: of any number."""
    return MAX_ROWS if n_rows is None else min(MAX_ROWS, n_rows, int(1.1 * SHARE * n_rows) + 100)


class Holdout:
    """A share of the rows, halved whenever it outgrows its bounds.

    A row of weight above 0 is held while the hash of its position is below the share, so which rows
    are held depends on positions and weights alone; among copies the hash is that of the values.
    Rows evicted when the share halves are yielded, to be summed.

    Parameters
    ----------
    n_rows : rows of the source that weigh, about; None where unknown
    row_bytes : bytes of a raw row
    copies : how rows are hashed of which many are copies of others, or None
    """

    def __init__(self, n_rows: int | None, row_bytes: int, copies: Copies | None = None):
        self.limit = limit_of(row_bytes)
        self.copies = copies
        self.share = SHARE
        while n_rows is not None and self.share * n_rows > 0.9 * self.limit:
            self.share /= 2
        self.held: list[Rows] = []

    @property
    def n_rows(self) -> int:
        """Rows held now."""
        return sum(len(rows.X) for rows in self.held)

    @property
    def rule(self) -> list[Any]:
        """What says which rows are held, for a fingerprint."""
        rule: list[Any] = [self.limit, self.share]
        return rule if self.copies is None else [*rule, "copies", *self.copies.common.tolist()]

    def copy(self) -> "Holdout":
        """Return a holdout that goes on from here by itself."""
        copy = Holdout(None, 1, self.copies)
        copy.limit, copy.share, copy.held = self.limit, self.share, list(self.held)
        return copy

    def take(self, block: Block) -> Iterator[Rows]:
        """Move a hashed share of the rows to the hold-out; yield the others, and those evicted."""
        rows = as_rows(block)
        picked = hash_of(rows, self.copies) < self.share
        if rows.weights is not None:
            picked &= rows.weights > 0
        if not picked.any():
            yield rows
            return
        yield rows.where(~picked)
        self.held.append(rows.where(picked))
        yield from self._evict()

    def absorb(self, others: Iterable["Holdout"]) -> Iterator[Rows]:
        """Take the rows of other holdouts, in the order of the rows; yield rows evicted."""
        others = list(others)
        parts = [rows for holdout in [self, *others] for rows in holdout.held if len(rows.X)]
        self.held = sorted(parts, key=lambda rows: int(rows.positions[0]))
        least = min([self.share, *(holdout.share for holdout in others)])
        while self.share > least:
            yield from self._halve()
        yield from self._evict()

    def _evict(self) -> Iterator[Rows]:
        while self.n_rows > self.limit:
            yield from self._halve()

    def _halve(self) -> Iterator[Rows]:
        self.share /= 2
        split = [(held, hash_of(held, self.copies) < self.share) for held in self.held]
        self.held = [held.where(mask) for held, mask in split if mask.any()]
        for held, mask in split:
            if not mask.all():
                yield held.where(~mask)

    def join(self) -> None:
        """Cut the rows of one form in parts that are the same for any blocks they came in."""
        forms = groupby(self.held, lambda rows: rows.form)
        self.held = [part for _, rows in forms for part in _recut(list(rows))]

    def to_tree(self) -> dict:
        """Return the bounds and the rows as a tree."""
        self.join()
        tree = {
            "limit": self.limit,
            "share": self.share,
            "held": {str(i): rows.to_tree() for i, rows in enumerate(self.held)},
        }
        return tree if self.copies is None else tree | {"copies": self.copies.to_tree()}

    @classmethod
    def from_tree(cls, tree: dict | Fields, n_features: int) -> "Holdout":
        """Rebuild from `to_tree`."""
        fields = Fields.of(tree)
        holdout = cls(None, 1)
        holdout.limit = fields.integer("limit", minimum=1, maximum=MAX_ROWS)
        holdout.share = fields.number("share", above=0.0)
        if holdout.share > SHARE:
            raise fields.wrong("share", f"is {holdout.share}; expected at most {SHARE}")
        holdout.held = [_as_rows(rows, n_features) for _, rows in fields.trees("held")]
        if "copies" in fields.keys:
            holdout.copies = Copies.from_tree(fields.tree("copies"))
        fields.end()
        return holdout

    def release(self) -> Iterator[Rows]:
        """Yield all rows, which are held no longer."""
        held, self.held = self.held, []
        yield from held


def _recut(parts: list[Rows]) -> list[Rows]:
    """Return rows of one form in parts of `JOINED_ROWS`, the last of what is left."""
    *before, last = (len(rows.X) for rows in parts)
    if all(n == JOINED_ROWS for n in before) and last <= JOINED_ROWS:
        return parts
    weights = None
    if parts[0].weights is not None:
        weights = np.concatenate([rows.weights for rows in parts])
    joined = Rows(
        stacked([rows.X for rows in parts]),
        np.concatenate([rows.y for rows in parts]),
        weights,
        np.concatenate([rows.positions for rows in parts]),
        np.concatenate([rows.indices for rows in parts]),
    )
    return joined.pieces(JOINED_ROWS)


def _as_rows(fields: Fields, n_features: int) -> Rows:
    positions = fields.array("positions", np.int64, (None,))
    n = len(positions)
    indices = fields.array("places", np.int64, (n,))
    X: Any
    if fields.is_tree("X"):
        X = SparseRows.from_tree(fields.tree("X"), (n, n_features))
    else:
        X = fields.array("X", "iuf", (n, n_features))
    y = fields.array("y", "biufU", (n, ...))
    weights = fields.maybe_array("weights", np.float64, (n,))
    if y.ndim > 2:
        raise fields.wrong("y", f"has rank {y.ndim}; expected 1 or 2")
    if y.shape[1:] == (1,):  # of files of earlier versions
        y = y.ravel()
    if X.dtype not in RAW_DTYPES:
        raise fields.wrong("X", f"is of {X.dtype}; rows are of {', '.join(RAW_DTYPES)}")
    if weights is not None and (weights < 0).any():
        raise fields.wrong("weights", "holds a weight below 0")
    fields.end()
    return Rows(X, y, weights, positions, indices)
