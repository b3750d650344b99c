"""Sums of features times regression targets."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from streamrf.errors import MergeError, ParameterError
from streamrf.jit.arrays import Array, Features, Floats, Indices
from streamrf.jit.instructions import MAX_SHORT
from streamrf.models import Codes, Seed
from streamrf.statistics.targets import EXACT_FLOAT64, TargetSums, products
from streamrf.storage import Fields

EXACT_PAIR = 2.0**100  # integers below it are exact in two float64
TOGETHER = 16  # targets whose squares are summed at a time


@dataclass
class ValueSums(TargetSums):
    """Sums of features times regression targets.

    Parameters
    ----------
    sums : (n_targets, n_components) float64, ``sum t q``
    totals, squares : lists of n_targets numbers, ``sum root t`` and ``sum t^2``; integers of any
        size when exact, because both pass 2^53 long before the other sums do
    feature_sums : (n_components,) float64, ``sum root q``
    weight : float, ``sum root^2``
    rest : (n_targets, n_components) float64, what exact sums have beyond the digits of `sums`:
        they are ``sums + rest``, `sums` the float64 next to that
    """

    sums: Floats
    totals: list[float]  # int where exact, of any size
    squares: list[float]
    feature_sums: Floats
    weight: float
    rest: Floats
    labels = None
    kind = "values"

    @classmethod
    def zero(cls, n_components: int, n_targets: int, exact: bool) -> Self:
        """Start for `n_targets` targets."""
        zero = [0 if exact else 0.0] * n_targets
        sums, rest = np.zeros((2, n_targets, n_components))
        return cls(sums, zero, list(zero), np.zeros(n_components), 0.0, rest)

    @property
    def _is_exact(self) -> bool:
        return all(isinstance(square, int) for square in self.squares)

    def add(self, Q: Features, roots: Floats, y: Array) -> None:
        """Add rows with targets y (n, n_targets), rounded to integers when exact."""
        bound = EXACT_FLOAT64 / max(_greatest(y) * len(Q), 1.0)
        is_long = self._is_exact and bound <= MAX_SHORT and bound <= _greatest(Q)
        for part, shift in _halves(y) if is_long else ((y, 0),):
            found = products(np.column_stack((part, roots)), Q)
            if self._is_exact:
                _add_exactly(self.sums, self.rest, found[:-1] * 2.0**shift)
            else:
                self.sums += found[:-1]
        self.feature_sums += found[-1]
        self.weight += _float_product(roots, roots)
        multiplied = _exact_products if self._is_exact else _float_products
        for first in range(0, y.shape[1], TOGETHER):
            t = np.ascontiguousarray(y[:, first : first + TOGETHER])
            pairs = zip(multiplied(roots[:, np.newaxis], t), multiplied(t, t), strict=True)
            for j, (total, square) in enumerate(pairs, first):
                self.totals[j] += total
                self.squares[j] += square

    @property
    def total(self) -> float:
        return self.weight

    @property
    def feature_totals(self) -> Floats:
        return self.feature_sums

    def moments(self, matrix: Floats, root_scale: float) -> tuple[Floats, Floats]:
        """Return the sums as they are: targets carry their root already."""
        return self.sums, np.array(self.totals, dtype=np.float64)

    def squares_of(self, matrix: Floats, root_scale: float) -> Floats:
        return np.array(self.squares, dtype=np.float64)

    def is_exact(self, square: float) -> bool:
        squares = float(max(self.squares, default=0))
        bound = np.sqrt(square) * np.sqrt(squares)  # of sum t q
        return super().is_exact(square) and bool(bound < EXACT_PAIR)

    def book(self, codes: Codes, random_state: Seed = 0) -> None:
        if codes is not None:
            raise ParameterError("codes are for classes; these statistics hold target values")

    def zero_like(self, exact: bool) -> Self:
        """Start for as many targets."""
        return self.zero(self.sums.shape[1], len(self.squares), exact)

    def stack(self, other: Self) -> Self:
        if type(other) is not type(self):
            return super().stack(other)
        return replace(
            self,
            sums=np.concatenate((self.sums, other.sums)),
            rest=np.concatenate((self.rest, other.rest)),
            totals=self.totals + other.totals,
            squares=self.squares + other.squares,
        )

    def combined(self, other: Self, sign: int) -> Self:
        """Add; the numbers of targets must agree."""
        if len(self.squares) != len(other.squares):
            raise MergeError(
                f"one side has {len(self.squares)} targets, the other {len(other.squares)}"
            )
        squares = [a + sign * b for a, b in zip(self.squares, other.squares, strict=True)]
        weight = self.weight + sign * other.weight
        if sign < 0:
            pairs = [(weight, other.weight), *zip(squares, other.squares, strict=True)]
            weight, *squares = (_left(left, removed) for left, removed in pairs)
        sums, rest = self.sums.copy(), self.rest.copy()
        if self._is_exact and other._is_exact:
            _add_exactly(sums, rest, sign * other.sums)
            _add_exactly(sums, rest, sign * other.rest)
        else:
            sums, rest = sums + sign * other.sums, np.zeros_like(rest)
        return type(self)(
            sums,
            [a + sign * b for a, b in zip(self.totals, other.totals, strict=True)],
            squares,
            self.feature_sums + sign * other.feature_sums,
            weight,
            rest,
        )

    def select(self, columns: Indices) -> Self:
        return replace(
            self,
            sums=self.sums[:, columns],
            rest=self.rest[:, columns],
            feature_sums=self.feature_sums[columns],
        )

    def scaled(self, factor: float) -> Self:
        return type(self)(
            factor * self.sums,
            [factor * float(total) for total in self.totals],
            [factor * float(square) for square in self.squares],
            factor * self.feature_sums,
            factor * self.weight,
            np.zeros_like(self.rest),
        )

    @classmethod
    def from_fields(cls, fields: Fields, n_components: int, exact: bool) -> Self:
        sums = fields.array("sums", np.float64, (None, n_components))
        if not len(sums):
            raise fields.wrong("sums", "is of no targets; expected one or more")
        totals = fields.totals("totals", len(sums), exact)
        squares = fields.totals("squares", len(sums), exact)
        if any(square < 0 for square in squares):
            raise fields.wrong("squares", "holds a sum of squares below 0")
        feature_sums = fields.array("feature_sums", np.float64, (n_components,))
        has_rest = fields.is_array("rest")
        rest = fields.array("rest", np.float64, sums.shape) if has_rest else np.zeros_like(sums)
        weight = fields.number("weight", minimum=0.0)
        return cls(sums, totals, squares, feature_sums, weight, rest)

    def to_tree(self) -> dict:
        tree = super().to_tree()
        if not self.rest.any():
            del tree["rest"]
        return tree


def _left(left: float, removed: float) -> float:
    """Return what is left of a sum of squares; a difference just below 0 is rounding, and is 0."""
    if left < -1e-9 * removed:
        raise MergeError(
            "more would be removed than was counted: the right side was summed with other targets "
            "or weights"
        )
    return max(left, type(left)(0))


def _exact_products(s: Floats, t: Floats) -> list[int]:
    """Return ``sum_i s_ij t_ij`` of integers below 2^41 as ints of any size, without rounding.

    s (n, 1) or (n, m), t (n, m).
    """
    products = np.zeros(t.shape[1], dtype=object)
    for a, a_shift in _halves(s):
        for b, b_shift in _halves(t):
            products += (a * b).astype(np.int64).sum(axis=0).astype(object) << (a_shift + b_shift)
    return list(products)


def _float_products(s: Floats, t: Floats) -> list[float]:
    """Return ``sum_i s_ij t_ij``, s (n, 1) or (n, m) and t (n, m)."""
    columns = zip(np.broadcast_to(s, t.shape).T, t.T, strict=True)
    return [_float_product(one, other) for one, other in columns]


def _add_exactly(sums: Floats, rest: Floats, more: Floats) -> None:
    """Add integers to ``sums + rest`` without error, below 2^100; `sums` is the float64 nearest."""
    for total, left, part in zip(sums, rest, more, strict=True):  # a row at a time stays in cache
        high, low = _two_sum(total, part)
        total[:], left[:] = _two_sum(high, left + low)


def _greatest(values: Array) -> float:
    """Return the greatest absolute value, without an array of them all."""
    return float(max(values.max(initial=0), -values.min(initial=0)))


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return ``a + b`` rounded and what the rounding left (Knuth, TAOCP 4.2.2, Theorem B)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _halves(t: Floats) -> tuple[tuple[Floats, int], ...]:
    high = np.floor(t / 2.0**20)
    return (high, 20), (t - high * 2.0**20, 0)


def _float_product(s: Floats, t: Floats) -> float:
    """Return ``sum s t``; BLAS would take threads for it, which then wait for more in a loop."""
    return float((s * t).sum())
