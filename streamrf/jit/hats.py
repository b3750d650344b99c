"""Linear interpolation between knots, and products of its hats over pairs of columns, for lanes."""

import numpy as np
from numba import njit, prange

from streamrf.jit.arrays import F32, F64, I32, I64, Numbers

LANES = 16


@njit(nogil=True, cache=True, parallel=True)
def interpolate(
    x: F32, columns: I32, ends: I64, knots: F32, left_out: I32, terms: I32, out: F32
) -> None:
    """Fill out with the hats of grids, and with products of the hats of two.

    The hat of a knot is 1 there, 0 at the other knots and linear between; outside it goes on as it
    is at the end. A row has two hats of a grid that are not 0.

    Parameters
    ----------
    x : (groups, d, 16) float32
    columns : (n_grids,) int32, of each grid
    ends : (n_grids + 1,) int64, where the knots of each grid begin, and the last end
    knots : (ends[-1],) float32, ascending in each grid, two or more
    left_out : (n_grids,) int32, knot of each grid whose hat is none of the features
    terms : (n_terms, 2) int32, the grid of a term, and the grid that it is multiplied with, or -1
    out : (groups, >= width, 16) float32: the hats of each term, those of the second grid next to
        each other; 0 past the last
    """
    n_grids = columns.size
    for task in prange(x.shape[0]):
        g = np.int64(task)
        low = np.empty((n_grids, LANES), np.int64)
        shares = np.empty((n_grids, LANES), np.float32)
        for i in range(n_grids):
            for lane in range(LANES):
                place, share = _located(x[g, columns[i], lane], knots[ends[i] : ends[i + 1]])
                low[i, lane], shares[i, lane] = place, share
        out[g] = 0.0
        start = 0
        for t in range(terms.shape[0]):
            a, b = terms[t, 0], terms[t, 1]
            width = 1 if b < 0 else ends[b + 1] - ends[b] - 1
            for lane in range(LANES):
                for p in range(2):
                    knot = low[a, lane] + p
                    if knot == left_out[a]:
                        continue
                    hat = shares[a, lane] if p else np.float32(1.0) - shares[a, lane]
                    first = start + (knot - (knot > left_out[a])) * width
                    if b < 0:
                        out[g, first, lane] = hat
                        continue
                    for q in range(2):
                        other = low[b, lane] + q
                        if other != left_out[b]:
                            value = shares[b, lane] if q else np.float32(1.0) - shares[b, lane]
                            out[g, first + other - (other > left_out[b]), lane] = hat * value
            start += (ends[a + 1] - ends[a] - 1) * width


@njit(nogil=True, cache=True, parallel=True)
def replace(X: Numbers, ends: I64, knots: F64, values: F32, out: F32) -> None:
    """Lay rows out as lanes, each entry as the value at its place among the knots of its column.

    Parameters
    ----------
    X : (n, d) of any real dtype
    ends : (d + 1,) int64, where the knots of each column begin, and the last end
    knots : (ends[-1],) float64, ascending in each column, two or more
    values : (ends[-1],) float32, at the knots; linear between, and outside as at the end
    out : (groups, d, 16) float32 with ``16 * groups >= n``; lanes past the last row become zero
    """
    n, d = X.shape
    for task in prange(out.shape[0]):
        g = np.int64(task)
        for lane in range(LANES):
            i = g * LANES + lane
            for j in range(d):
                value = np.float32(0.0)
                if i < n:
                    first, last = ends[j], ends[j + 1]
                    place, share = _located(np.float64(X[i, j]), knots[first:last])
                    low, high = values[first + place], values[first + place + 1]
                    value = low + share * (high - low)
                out[g, j, lane] = value


@njit(nogil=True, cache=True)
def _located(value: float, knots: F32 | F64) -> tuple[int, np.float32]:
    """Return the knot below a value, never the last one, and the share of the way to the next."""
    low, high = 0, knots.size - 1
    if value <= knots[0]:
        return 0, np.float32(0.0)
    if value >= knots[high]:
        return high - 1, np.float32(1.0)
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= value:
            low = middle
        else:
            high = middle
    first, last = np.float64(knots[low]), np.float64(knots[high])
    if np.isinf(last - first):
        value, first, last = value / 2, first / 2, last / 2
    return low, np.float32((np.float64(value) - first) / (last - first))
