"""Moments of the columns of raw rows: exact sums that merge, and what they say of the sample."""

import math
import os
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf import storage
from streamrf.display import Card
from streamrf.errors import MergeError, ShapeError, check_kind
from streamrf.jit import columns
from streamrf.jit.arrays import F64, I64, Unlocked, unlocked
from streamrf.sources import Block, SparseRows, as_matrix, by_columns, check_no_frame, check_rows
from streamrf.storage import Fields

# Of the totals, which are integers of any size: those of the lowest class.
UNIT = columns.LOWEST + columns.SPAN - columns.DIGITS
SQUARE_UNIT = 2 * (columns.LOWEST + columns.SPAN) - columns.DIGITS
MAX_LOG = 200  # log2 of a bound of values: greater ones than 2^131 or so are summed as that
JOIN_ROWS = 512 * columns.MAX_ROWS  # whose partial sums stay below 2^63

MAX_NAMED = 10  # columns in a message
ROUNDED = 2.0**-24  # of a value, by which single precision may move it
MOVED_ROWS = 5  # at the end of what is known, that a mean must have moved as much as
TIMES_WIDER = 10.0  # than in the sample: such a column was not fairly seen
FAR = 30.0  # times the deviation, from where on a reach is that of an outlier
CHANCE = 20.0  # minus the logarithm of the chance that a fair sample is called unfair


@dataclass(frozen=True)
class Sample(Unlocked):
    """The columns of the rows that a pass was calibrated on.

    Parameters
    ----------
    n_rows : how many
    centre : (d,) float64, means, rounded to the grid of the sums; the value of a constant column
    deviation : (d,) float64
    reach : (d,) float64, greatest distance from the centre; 0 for a constant column
    """

    n_rows: int
    centre: F64
    deviation: F64
    reach: F64

    @classmethod
    def of(cls, X: Any) -> "Sample":
        """Look at rows X (n, d) of any dtype, or sparse."""
        centre, deviation, low, high = by_columns(X, _shape)
        grid = _grid(np.maximum(high - centre, centre - low))
        steps = np.divide(centre, grid, out=np.zeros_like(centre), where=grid > 0)
        centre = np.where(grid > 0, np.rint(steps) * grid, centre)
        centre = np.where(low == high, low, centre)
        deviation = np.where(low == high, 0.0, deviation)
        return cls(len(X), centre, deviation, np.maximum(high - centre, centre - low))

    @property
    def grid(self) -> F64:
        """What values are rounded to, powers of two: 2^-16 of the reach, 0 for constant columns."""
        return _grid(self.reach)

    @property
    def is_far(self) -> NDArray[np.bool_]:
        """Whether the reach of each column is that of an outlier, (d,) bool.

        One among n rows is sqrt(n) deviations away.
        """
        return self.reach > min(FAR, 0.9 * math.sqrt(self.n_rows)) * self.deviation

    def equals(self, other: "Sample") -> bool:
        """Return whether both are of the same numbers."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(np.array_equal(ours, theirs) for ours, theirs in pairs)


@dataclass(repr=False)
class Moments(Card, Unlocked):
    """Count, mean and deviation of every column of raw rows, as sums that are exact and merge.

    A value less the sample's centre is rounded to a grid of its own (`streamrf.jit.columns`), so
    the sums are of integers: the same for any order, block size and number of threads.
    ``a + b - b`` is ``a``.

    Parameters
    ----------
    sample : the calibration rows, which fix the grids
    n_rows : rows counted
    sums, squares : (d,) objects, integers of any size, ``sum u`` in units of 2^-151 and ``sum u^2``
        of 2^-261, u a value less its centre
    outside : (d,) int64, rows farther from the centre than every row of the sample
    names : of the columns, where the rows are those of a table; else empty
    """

    sample: Sample
    n_rows: int
    sums: NDArray[Any]
    squares: NDArray[Any]
    outside: I64
    names: tuple[str, ...] = ()
    _partial: tuple[I64, I64, I64] | None = field(default=None, repr=False)
    _n_partial: int = 0

    @classmethod
    def zero(cls, sample: Sample, names: tuple[str, ...] = ()) -> "Moments":
        """Start with no rows."""
        d = len(sample.centre)
        sums, squares = np.full((2, d), 0, dtype=object)
        return cls(sample, 0, sums, squares, np.zeros(d, dtype=np.int64), names)

    def card(self) -> dict[str, str]:
        """Return what a prompt shows."""
        return {"rows": f"{self.n_rows:,}", "columns": f"{self.n_features:,}"}

    @property
    def n_features(self) -> int:
        """Columns."""
        return len(self.sample.centre)

    def add(self, X: Any) -> None:
        """Add rows X (n, d) of numbers, or sparse.

        Raises
        ------
        DataError
            A table, whose columns might be in another order.
        ShapeError
            Rows of another width.
        BadRowError
            NaN, infinity or a value beyond 1e150.
        """
        check_no_frame(X, "streamrf.moments")
        X = as_matrix(X, "X")
        if X.shape[1] != self.n_features:
            raise ShapeError(
                f"X has {X.shape[1]} features, but the moments are of {self.n_features}; give rows "
                "of the same columns"
            )
        self.count(check_rows(Block(X, None, None, 0, "", 0, len(X), None, "X"), "raise")[0].X)

    def count(self, X: Any) -> None:
        """Add rows X (n, d) of a `Block`, which were checked."""
        sample, d = self.sample, self.n_features
        scales = sample.centre, sample.reach, sample.grid
        for start in range(0, len(X), columns.MAX_ROWS):
            rows = X[start : start + columns.MAX_ROWS]
            if self._partial is None:  # at first, and since they were joined
                shapes = (d, 2), (d, columns.N_CLASSES), (d, columns.N_CLASSES)
                fine, sums, squares = (np.zeros(shape, dtype=np.int64) for shape in shapes)
                self._partial = fine, sums, squares
            if isinstance(rows, SparseRows):
                values, places, _ = rows.entries
                ones = np.ones_like(places)
                columns.add_entries(values, places, ones, *scales, *self._partial, self.outside)
                n_zeros = len(rows) - np.bincount(places, minlength=d)
                columns.add_entries(
                    np.zeros(d), np.arange(d), n_zeros, *scales, *self._partial, self.outside
                )
            else:
                columns.add_columns(
                    unlocked(np.ascontiguousarray(rows)), *scales, *self._partial, self.outside
                )
            self.n_rows += len(rows)
            self._n_partial += columns.MAX_ROWS
            if self._n_partial >= JOIN_ROWS:
                self.join()

    def join(self) -> "Moments":
        """Add the partial sums to the totals; return the moments."""
        if self._partial is not None:
            fine, *classes = self._partial
            grid = self.sample.grid
            exponents = [math.frexp(g)[1] - 1 if g else UNIT for g in grid.tolist()]
            units = np.array([e - UNIT for e in exponents], dtype=object)
            square_units = np.array(
                [2 * e - SQUARE_UNIT if g else 0 for e, g in zip(exponents, grid, strict=True)],
                dtype=object,
            )
            self.sums = self.sums + (fine[:, 0].astype(object) << units)
            self.squares = self.squares + (fine[:, 1].astype(object) << square_units)
            for name, part, span in zip(
                ("sums", "squares"), classes, (columns.SPAN, 2 * columns.SPAN), strict=True
            ):
                for k in np.flatnonzero(part.any(axis=0)).tolist():
                    more = part[:, k].astype(object) << (span * k)
                    setattr(self, name, getattr(self, name) + more)
            self._partial, self._n_partial = None, 0
        return self

    def copy(self) -> "Moments":
        """Return the same moments, to be added to."""
        return replace(self, outside=self.outside.copy(), _partial=deepcopy(self._partial))

    def take(self, indices: I64) -> "Moments":
        """Return the moments of some columns, by their indices (n,), without their names."""
        self.join()
        scales = (getattr(self.sample, name)[indices] for name in ("centre", "deviation", "reach"))
        sums = (getattr(self, name)[indices] for name in ("sums", "squares", "outside"))
        return Moments(Sample(self.sample.n_rows, *scales), self.n_rows, *sums)

    def combined(self, other: "Moments", sign: int) -> "Moments":
        """Return the moments of both sides' rows, or of ours without theirs for a `sign` of -1.

        MergeError if columns or samples differ, or more would be removed than was counted.
        """
        if not isinstance(other, Moments):
            raise MergeError(f"expected moments to merge with, got {type(other).__name__}")
        if self.names and other.names and self.names != other.names:
            raise MergeError("the moments of the two sides are of columns of other names")
        if not self.sample.equals(other.sample):
            raise MergeError("the moments of the two sides were summed on different grids")
        self.join(), other.join()
        found = Moments(
            self.sample,
            self.n_rows + sign * other.n_rows,
            self.sums + sign * other.sums,
            self.squares + sign * other.squares,
            self.outside + sign * other.outside,
            self.names or other.names,
        )
        if found.n_rows < 0 or (found.outside < 0).any() or (found.squares < 0).any():
            raise MergeError("the right side has columns of rows that the left side never counted")
        return found

    def __add__(self, other: "Moments") -> "Moments":
        return self.combined(other, 1)

    def __sub__(self, other: "Moments") -> "Moments":
        return self.combined(other, -1)

    @property
    def mean(self) -> F64:
        """Means, float64 (d,); the sample's centre before there are rows."""
        sums = self.join().sums.astype(np.float64)
        return self.sample.centre + sums / max(self.n_rows, 1) * 2.0**UNIT

    @property
    def deviation(self) -> F64:
        """Standard deviations, float64 (d,); those of `hidden_columns` are what rounding hides."""
        found = self._deviation(np.arange(self.n_features))
        hidden = self.hidden_columns()
        found[hidden] = np.maximum(found[hidden], self.sample.grid[hidden] / math.sqrt(12))
        return found

    def hidden_columns(self) -> I64:
        """Return the columns that an outlier of the sample hides, int64.

        It made their grid wider than their deviation in the rows counted, so that neither mean nor
        deviation is known any better than the grid. They may be constant, too.
        """
        if not self.n_rows:
            return np.empty(0, dtype=np.int64)
        found = np.flatnonzero((self.sample.grid > 0) & self.sample.is_far)
        return found[self._deviation(found) < self.sample.grid[found]] if len(found) else found

    def _deviation(self, which: I64) -> F64:
        n, unit = max(self.n_rows, 1), 2.0 ** (2 * UNIT)
        self.join()
        squares = self.squares[which] * (n << (SQUARE_UNIT - 2 * UNIT))
        variances = (squares - self.sums[which] ** 2).astype(np.float64) * unit / n / n
        return np.sqrt(np.maximum(variances, 0.0))

    def unfair_columns(self) -> I64:
        """Return the columns that the sample was no fair sample of, int64.

        Their deviation is above ten times the sample's, or above 0 where that is constant, and more
        rows are outside the sample's range than chance allows. Of `n` rows, as many of the stream
        as of a sample of ``n_0`` fair rows may lie anywhere, so a share s of them beyond all of the
        sample has a chance of ``(1 - s)^n_0``; it counts below ``exp(-20)``.
        """
        share = np.minimum(self.outside / max(self.n_rows, 1), 1 - 1e-12)
        found = np.flatnonzero(self.sample.n_rows * np.log1p(-share) < -CHANCE)
        if not len(found):
            return found
        return found[self._deviation(found) > TIMES_WIDER * self.sample.deviation[found]]

    def drifted_columns(self, earlier: "Moments") -> I64:
        """Return the columns that are far from earlier rows, int64.

        Their mean has moved by more than the deviation on either side and five standard errors, and
        by what five of the farthest rows known move it. Or their deviation is ten times as great,
        and shares outside of the sample's range differ by more than chance (likelihood ratio).
        """
        check_kind("earlier", earlier, Moments, "Moments")
        now, before = self.deviation, earlier.deviation
        n_now, n_before = max(self.n_rows, 1), max(earlier.n_rows, 1)
        widest = np.maximum(now, before)  # one row alone has no deviation
        error = 5 * np.hypot(widest / n_now**0.5, before / n_before**0.5)
        shift = np.abs(self.mean - earlier.mean) - ROUNDED * np.abs(earlier.mean)
        moved = (shift > widest + error) & (n_now * shift >= MOVED_ROWS * earlier.sample.reach)
        surprise = _surprise(self.outside, n_now, earlier.outside, n_before)
        wider = (now > TIMES_WIDER * before) & (surprise > CHANCE + math.log(self.n_features))
        return np.flatnonzero(moved | wider)

    def save(self, path: str | os.PathLike) -> None:
        """Write the moments to an HDF5 file, atomically; `streamrf.load_moments` reads it."""
        storage.write(path, "moments", self.to_tree())

    def to_tree(self) -> dict[str, Any]:
        """Return sample and sums as a tree."""
        self.join()
        tree = {
            "sample": dict(vars(self.sample)),
            "n_rows": self.n_rows,
            "sums": self.sums.tolist(),
            "squares": self.squares.tolist(),
            "outside": self.outside,
        }
        return tree | {"names": list(self.names)} if self.names else tree

    @classmethod
    def from_tree(cls, tree: dict[str, Any] | Fields) -> "Moments":
        """Return what `to_tree` described."""
        fields = Fields.of(tree)
        rows = fields.tree("sample")
        n_sample = rows.integer("n_rows")
        centre = rows.array("centre", np.float64, (None,))
        deviation = rows.array("deviation", np.float64, centre.shape)
        reach = rows.array("reach", np.float64, centre.shape)
        rows.end()
        if not len(centre) or (deviation < 0).any() or (reach < 0).any():
            raise fields.wrong("sample", "has no columns, or a deviation or a reach below 0")
        n_rows = fields.integer("n_rows")
        sums, squares = (
            np.array([*fields.totals(key, len(centre), exact=True), None], dtype=object)[:-1]
            for key in ("sums", "squares")
        )
        outside = fields.array("outside", np.int64, centre.shape)
        names = tuple(fields.texts("names", len(centre))) if "names" in fields.keys else ()
        fields.end()
        if (outside < 0).any() or (outside > n_rows).any() or (squares < 0).any():
            raise fields.wrong("outside", "and the squares are not those of the rows counted")
        greatest = n_rows << (MAX_LOG - UNIT), n_rows << (2 * MAX_LOG - SQUARE_UNIT)
        if np.abs(sums).max() > greatest[0] or squares.max() > greatest[1]:
            raise fields.wrong("sums", "or the squares are too great to be of rows")
        sample = Sample(n_sample, centre, deviation, reach)
        return cls(sample, n_rows, sums, squares, outside, names)


def combined_moments(ours: Moments | None, theirs: Moments | None, sign: int) -> Moments | None:
    """Return the moments of both sides, None where they are not known or on different grids."""
    if ours is None or theirs is None or not ours.sample.equals(theirs.sample):
        return None
    return ours.combined(theirs, sign)


def _surprise(k: I64, n: int, k_before: I64, n_before: int) -> F64:
    """Return the log likelihood ratio of two shares, k of n rows and as many before, to one."""
    both = (k + k_before) / (n + n_before)
    found = np.zeros(len(k))
    for size, share in ((n, k / n), (n_before, k_before / n_before)):
        for p, q in ((share, both), (1 - share, 1 - both)):
            found += size * p * np.log(np.where(p > 0, p, 1.0) / np.where(p > 0, q, 1.0))
    return found


def _shape(X: NDArray[Any]) -> F64:
    """Return means, deviations, least and greatest values of columns, (4, d)."""
    mean, deviation = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    return np.stack((mean, deviation, X.min(axis=0), X.max(axis=0)))


def _grid(reach: F64) -> F64:
    """Return 2^-16 of the power of two below each reach; 0 where that is of no use."""
    exponents = np.frexp(reach)[1] - 1
    usable = (reach > 0) & (exponents > -80) & (exponents < 100)
    return np.where(usable, np.exp2(np.where(usable, exponents - 16.0, 0.0)), 0.0)
