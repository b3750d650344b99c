"""Columns by their ranks: what a value becomes depends on how many rows lie below it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from streamrf.jit import hats
from streamrf.jit.arrays import F32, F64, I64, Unlocked
from streamrf.sources import by_columns
from streamrf.storage import Fields

N_KNOTS = 129  # quantiles of a column, the least and the greatest value among them
FAR = float(np.finfo(np.float64).max)
TAIL = 0.005  # share of rows whose score the least value has; the greatest that of all but it

MOST, NORMAL_WIDTH = 0.75, 2.301  # of the rows, and the length in deviations that they are within
HEAVY = 3.0  # times the deviation of a normal column with most rows within the same length
HEAVY_SHARE = 0.2  # of the columns that vary
ALIKE = 1e-5  # of a deviation; a hundred steps of float32
SHOWN_ROWS = 5000  # looked at for that
END_SHARE, OTHERS_SHARE = 0.02, 0.1  # of them, least with the value at an end, and with others


@dataclass(frozen=True, eq=False)
class Quantiles(Unlocked):
    """Normal scores of columns: ``ndtri(share of rows below)``, linear between quantiles.

    A value that many rows have counts half of them as below. Beyond the least and the greatest
    quantile scores stay as they are there, so outliers are no farther than the greatest row, and
    values that stand for missing ones are next to the least.

    Parameters
    ----------
    ends : (n_features + 1,) int64, where the knots of each column begin, and the last end
    knots : (ends[-1],) float64, values of each column, ascending; two or more
    scores : (ends[-1],) float32
    """

    ends: I64
    knots: F64
    scores: F32

    @classmethod
    def learn(cls, X: Any) -> "Quantiles":
        """Return the scores of rows X (n, n_features), or sparse."""
        found = by_columns(X, _quantiles)  # (2, N_KNOTS, n_features)
        ends, knots, scores = [0], [], []
        for values, levels in found.transpose(2, 0, 1):
            own, first = np.unique(values, return_index=True)
            score = scipy.special.ndtri(levels[first].clip(TAIL, 1 - TAIL))
            if len(own) == 1:  # constant: other values are one unit away at most
                value = own[0]
                own = np.unique([value, value - 1, value + 1, *np.nextafter(value, (-FAR, FAR))])
                score = np.sign(own - value)
            knots.append(own)
            scores.append(score.astype(np.float32))
            ends.append(ends[-1] + len(own))
        return cls(np.array(ends), np.concatenate(knots), np.concatenate(scores))

    def load(self, X: Any, out: F32) -> None:
        """Lay the scores of rows X (n, n_features) out as lanes (groups, n_features, 16)."""
        hats.replace(X, self.ends, self.knots, self.scores, out)

    def to_tree(self) -> dict[str, Any]:
        """Return the arrays as a tree."""
        return dict(vars(self))

    @classmethod
    def from_tree(cls, tree: dict[str, Any] | Fields, n_features: int) -> "Quantiles":
        """Return what `to_tree` described, for rows of a width."""
        fields = Fields.of(tree)
        ends = fields.array("ends", np.int64, (n_features + 1,))
        knots = fields.array("knots", np.float64, (None,))
        scores = fields.array("scores", np.float32, knots.shape)
        fields.end()
        if ends[0] != 0 or ends[-1] != len(knots) or (np.diff(ends) < 2).any():
            raise fields.wrong("ends", f"do not split {len(knots)} knots in two or more a column")
        within = np.ones(len(knots), dtype=bool)
        within[ends[:-1]] = False
        if (knots[1:] < knots[:-1])[within[1:]].any():
            raise fields.wrong("knots", "do not ascend in every column")
        return cls(ends, knots, scores)


def _quantiles(X: Any) -> F64:
    """Return the quantiles of columns X (n, d), and their shares of rows, (2, N_KNOTS, d)."""
    n, ordered = len(X), np.sort(X, axis=0).astype(np.float64)
    places = np.rint(np.linspace(0, n - 1, N_KNOTS)).astype(np.int64)
    values = ordered[places]
    shares = [
        [np.searchsorted(column, at, side) for side in ("left", "right")]
        for column, at in zip(ordered.T, values.T, strict=True)
    ]
    return np.stack([values, np.mean(shares, axis=1).T / n])


def has_heavy_columns(X: Any) -> bool:
    """Return whether columns of X (n, d), not sparse, have heavy tails or values far from others.

    Of heavy tails: the deviation is several times that of a normal column whose shortest interval
    with three quarters of the rows is as long, in a fifth of the columns. Or in one, the least or
    the greatest value, as one for what is missing, is that of many rows and farther from the next
    than most others are from each other. Or a quarter of the rows differ by less than
    float32 tells apart next to a deviation, as in clusters far from each other.
    """
    if not isinstance(X, np.ndarray) or len(X) < 2:
        return False
    X = _ordered(X)
    n_most, n_quarter = int(MOST * len(X)), len(X) // 4
    with np.errstate(over="ignore"):
        lengths = (X[n_most:] - X[: len(X) - n_most]).min(axis=0)
        deviation = X.std(axis=0)
        heavy = deviation > HEAVY / NORMAL_WIDTH * lengths
        narrow = (X[n_quarter:] - X[: len(X) - n_quarter]).min(axis=0)
        alike = (narrow > 0) & (narrow < ALIKE * deviation)
    n_heavy, n_varying = np.count_nonzero(heavy & (lengths > 0)), np.count_nonzero(X[0] != X[-1])
    if alike.any() or 0 < HEAVY_SHARE * n_varying <= n_heavy:
        return True
    return any(_far_end(column) is not None for column in X.T)


def far_values(X: Any) -> dict[int, float]:
    """Return the value far from all others that many rows have, by column of X (n, d), not sparse.

    As a number that stands for what is missing.
    """
    found = {j: _far_end(column) for j, column in enumerate(_ordered(X).T)}
    return {j: value for j, value in found.items() if value is not None}


def _ordered(X: Any) -> F64:
    """Return the values of each column of some rows of X (n, d), ascending."""
    return np.sort(X[:: -(-len(X) // SHOWN_ROWS)].astype(np.float64), axis=0)


def _far_end(ordered: NDArray[np.float64]) -> float | None:
    """Return the least or the greatest value if many rows have it and it is far from others."""
    for sign in (1.0, -1.0):
        values = ordered if sign > 0 else -ordered[::-1]
        others = values[values > values[0]]
        n_end = len(values) - len(others)
        if n_end >= END_SHARE * len(values) and len(others) >= OTHERS_SHARE * len(values):
            low, high = np.quantile(others, ((1 - MOST) / 2, (1 + MOST) / 2))
            if others[0] - values[0] > high - low > 0:
                return float(sign * values[0])
    return None
