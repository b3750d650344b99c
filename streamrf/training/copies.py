"""Rows that are copies of others: they are held out together, by a hash of their values.

A row held out of which a copy was learnt is known by heart. See design/0034.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamrf.jit.arrays import Array, Floats
from streamrf.sources import Rows, SparseRows, hashed, uniform
from streamrf.storage import Fields

SALT = 2  # of the factors of columns
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
PIECE = 1 << 16  # values hashed at a time, which stay in the cache

MIN_SHARE = 0.2  # of rows that have a twin
MIN_TWINS = 10
MAX_SHARE = 0.05  # of the sample; a row that is more of it is common
N_SPLITS = 8  # of the columns
MIN_AGREEING = 0.9  # of pairs of equal rows, whose targets are equal too
MAX_CHANCE = 0.25  # of distinct rows that equal another one in half of the columns

Keys = NDArray[np.uint64]


def row_keys(X: Array | SparseRows) -> Keys:
    """Return a hash of the values of each row, uint64 (n,).

    Rows of equal values have equal keys, of any dtype, dense or sparse. A key is a sum over
    columns modulo 2^64, to which zeros add nothing.
    """
    return _sums(X, _factors(X.shape[1])[:, np.newaxis])[:, 0]


@dataclass(frozen=True, eq=False)
class Copies:
    """How rows are hashed of which many are copies of others: by their values.

    Parameters
    ----------
    common : uint64 keys of rows that are too many to be held out together, such as blank images
    """

    common: Keys

    @classmethod
    def of(
        cls,
        X: Array | SparseRows,
        y: Array,
        n_rows: int | None = None,
        max_rows: float = np.inf,
    ) -> "Copies | None":
        """Return the hash for rows like those of a sample; None where few of them are copies.

        Parameters
        ----------
        X, y : (n, n_features) and (n,) or (n, n_targets), the sample
        n_rows : rows that it is spread over; None means that it is all there is to know
        max_rows : of the `n_rows`, that may be equal and not common
        """
        if min(X.shape) < 2:
            return None
        keys, scale = row_keys(X), max(1.0, (n_rows or 0) / len(X))
        values, first, counts = np.unique(keys, return_index=True, return_counts=True)
        is_common = (counts > MAX_SHARE * len(X)) | (counts * scale > max_rows)
        common = values[is_common & (counts > 1)]
        is_other = ~np.isin(keys, common)
        others = keys[is_other]
        if _n_twins(others) < max(MIN_TWINS, MIN_SHARE * len(X) / scale):
            return None
        if _n_twins_in_all(others, scale) < MIN_SHARE * scale * len(X):
            return None
        both = np.stack([keys, _target_keys(y)], axis=1)[is_other]
        if _n_pairs(both) < MIN_AGREEING * _n_pairs(both[:, :1]):
            return None
        return None if _equal_by_chance(X[np.sort(first)]) else cls(common)

    def uniform(self, rows: Rows) -> Floats:
        """Return the hash of each row in [0, 1): of its values, or of its position if common."""
        keys = row_keys(rows.X)
        found = uniform(keys)
        if len(self.common):
            is_common = np.isin(keys, self.common)
            found[is_common] = uniform(rows.positions[is_common])
        return found

    def shuffled(self, X: Array, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return an order of rows (n,) at random but for copies, which follow each other."""
        keys, group = np.unique(row_keys(X), return_inverse=True)
        is_common = np.isin(keys, self.common)[group]
        group[is_common] = len(keys) + np.arange(np.count_nonzero(is_common))
        places = rng.permutation(len(keys) + np.count_nonzero(is_common))
        return np.argsort(places[group], kind="stable")

    def to_tree(self) -> dict:
        """Return the keys as a tree."""
        return {"common": self.common}

    @classmethod
    def from_tree(cls, fields: Fields) -> "Copies":
        """Rebuild from `to_tree`."""
        common = fields.array("common", np.uint64, (None,))
        fields.end()
        return cls(common)


def hash_of(rows: Rows, copies: Copies | None) -> Floats:
    """Return what is compared with the share held out, float64 (n,) in [0, 1)."""
    return uniform(rows.positions) if copies is None else copies.uniform(rows)


def n_distinct(rows: Sequence[Rows], copies: Copies | None) -> int | None:
    """Return how many rows are no copies of others; None where there are no copies."""
    if copies is None:
        return None
    keys = np.concatenate([np.empty(0, np.uint64), *(row_keys(part.X) for part in rows)])
    is_common = np.isin(keys, copies.common)
    return len(np.unique(keys[~is_common])) + int(is_common.sum())


def _target_keys(y: Array) -> Keys:
    y = np.asarray(y)
    columns = y[:, np.newaxis] if y.ndim == 1 else y
    indices = [np.unique(column, return_inverse=True)[1] for column in columns.T]
    return row_keys(np.stack(indices, axis=1))


def _n_pairs(keys: Keys) -> float:
    """Return the pairs of equal rows of keys (n, k)."""
    counts = np.unique(keys, axis=0, return_counts=True)[1].astype(np.float64)
    return float(counts @ (counts - 1))


def _equal_by_chance(X: Array | SparseRows) -> bool:
    """Return whether distinct rows are so alike that some are equal by chance.

    Then far more are equal in half of the columns. Of two halves the one counts that tells more
    rows apart: it has the columns with many values.
    """
    n_features = X.shape[1]
    factors = _factors(n_features)
    if not isinstance(X, SparseRows):  # a column and its copies count once
        distinct = np.unique(row_keys(np.ascontiguousarray(X.T)), return_index=True)[1]
        factors = np.where(np.isin(np.arange(n_features), distinct), factors, np.uint64(0))
    columns = np.flatnonzero(factors)
    if len(columns) < 2:
        return True
    rng, shares = np.random.default_rng(0), []
    for _ in range(N_SPLITS):
        half = rng.permutation(columns)[: len(columns) // 2]
        first = np.where(np.isin(np.arange(n_features), half), factors, np.uint64(0))
        sums = _sums(X, np.stack([first, factors - first], axis=1))
        shares.append(min(_n_twins(part) for part in sums.T) / len(X))
    return bool(np.median(shares) > MAX_CHANCE)


def _n_twins(keys: Keys) -> int:
    """Return how many of some keys equal another one."""
    counts = np.unique(keys, return_counts=True)[1]
    return int(counts[counts > 1].sum())


def _n_twins_in_all(keys: Keys, scale: float) -> float:
    """Return about how many rows have a twin where there are `scale` times as many.

    Twins that are near are both in the sample or both not. The others are found the more often the
    larger the sample is, and half of it has half of their share.
    """
    half = len(keys) // 2
    n_all = _n_twins(keys)
    n_far = max(0, 2 * (n_all - _n_twins(keys[:half]) - _n_twins(keys[half:])))
    n_far = min(n_far, n_all)
    return scale * min(len(keys), n_all - n_far + scale * n_far)


def _factors(n_features: int) -> Keys:
    return hashed(np.arange(n_features), SALT) | np.uint64(1)


def _sums(X: Array | SparseRows, factors: Keys) -> Keys:
    """Return the sums over columns of mixed values times factors (n_features, k), (n, k)."""
    if isinstance(X, SparseRows):
        values, columns, ends = X.entries
        sums = np.zeros((len(values) + 1, factors.shape[1]), dtype=np.uint64)
        np.cumsum(_mixed(values)[:, np.newaxis] * factors[columns], axis=0, out=sums[1:])
        return sums[ends[1:]] - sums[ends[:-1]]
    found = np.empty((len(X), factors.shape[1]), dtype=np.uint64)
    step = max(1, PIECE // X.shape[1])
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        found[rows] = _mixed(X[rows]) @ factors
    return found


def _mixed(values: Array) -> Keys:
    """Return the bits of values as float64, mixed one to one: those of small integers are few."""
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    bits ^= bits >> np.uint64(32)
    bits *= GOLDEN
    bits ^= bits >> np.uint64(29)
    return bits
