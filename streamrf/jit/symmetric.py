"""Products of packed symmetric matrices with a few columns, which read the matrix once."""

import numba
import numpy as np
from numba import njit

from streamrf.jit.arrays import Array, Floats, Numbers
from streamrf.jit.packed import Range, layout, strides
from streamrf.jit.strips import HAS_FMA, LANE_BYTES, ROWS, add
from streamrf.jit.threads import single_blas_threads

ACROSS = 24  # of a tile: a multiple of the numbers of rows that registers hold
ALONG = 960  # likewise; a tile lies in the second cache
N_PARTS = 16  # sums of their own, so that they have the same bits on any number of threads
MAX_GROUPS = 2  # of lanes, multiplied at a time: each part has a sum as large as these


def product(packed: Array, X: Floats) -> Floats:
    """Return ``G X``, float64.

    Parameters
    ----------
    packed : (n (n + 1) / 2,) of any real dtype, see `streamrf.jit.packed`
    X : (n, k) float64
    """
    n, k = X.shape
    if not k:
        return np.zeros(X.shape)
    if numba.config.DISABLE_JIT or not HAS_FMA:
        return _plain_product(packed, X)
    lanes = LANE_BYTES // 8
    padded = -(-k // lanes) * lanes
    groups = np.zeros((padded // lanes, n, lanes))
    for first in range(0, k, lanes):
        columns = X[:, first : first + lanes]
        groups[first // lanes, :, : columns.shape[1]] = columns
    out = [
        _group_products(packed, groups[first : first + MAX_GROUPS])
        for first in range(0, len(groups), MAX_GROUPS)
    ]
    return np.concatenate(out).transpose(1, 0, 2).reshape(n, padded)[:, :k]


def _group_products(packed: Array, X: Floats) -> Floats:
    """Return ``G X[g]`` of some groups of columns, (n_groups, n, lanes)."""
    n_groups, n, lanes = X.shape
    sums = np.zeros((N_PARTS, n_groups, n + ROWS, lanes))
    flat = np.ascontiguousarray(X).reshape(-1)

    def multiply(part: int) -> None:
        _add_tiles(packed, n, part, flat, sums[part].reshape(-1), lanes)

    with single_blas_threads() as each:
        each(multiply, range(N_PARTS))
    return sums.sum(axis=0)[:, :n]


@njit(nogil=True, cache=True)
def _add_tiles(packed: Numbers, n: int, part: int, X: Floats, sums: Floats, lanes: int) -> None:
    """Add the products of every `N_PARTS`-th stripe, each tile with its transpose.

    A stripe is some columns of the first half, or some rows of the triangle of the others: what
    lies next to each other in memory runs along it.

    Parameters
    ----------
    X : (n_groups n lanes,)
    sums : (n_groups (n + ROWS) lanes,)
    """
    half = layout(n)[1]
    n_left = (half + ACROSS - 1) // ACROSS
    n_stripes = n_left + (n - half + ACROSS - 1) // ACROSS
    tile = np.zeros(ACROSS * ALONG)
    for stripe in range(part, n_stripes, N_PARTS):
        is_left = stripe < n_left
        if is_left:
            start, stop = stripe * ACROSS, min((stripe + 1) * ACROSS, half)
            first, _, step = strides(n, start)
            begin, end = stop, n
        else:
            start = half + (stripe - n_left) * ACROSS
            stop = min(start + ACROSS, n)
            first, step, _ = strides(n, start)
            begin, end = half, start
        _load(packed, first + start * step, step, (start, stop), (start, stop), tile)
        for a in range(stop - start):  # the other side of the diagonal
            for b in range(a) if is_left else range(a + 1, stop - start):
                tile[a * ALONG + b] = 0
        _add_along(tile, n, (start, stop), (start, stop), X, sums, lanes)
        for a in range(stop - start):
            tile[a * ALONG + a] = 0
        _add_across(tile, n, (start, stop), (start, stop), X, sums, lanes)
        for along in range(begin, end, ALONG):
            run = (along, min(along + ALONG, end))
            _load(packed, first + start * step, step, (start, stop), run, tile)
            _add_along(tile, n, (start, stop), run, X, sums, lanes)
            _add_across(tile, n, (start, stop), run, X, sums, lanes)


@njit(nogil=True, cache=True)
def _load(packed: Numbers, first: int, step: int, stripe: Range, run: Range, tile: Floats) -> None:
    """Copy a tile, with zeros where it is not full."""
    if run[1] - run[0] < ALONG or stripe[1] - stripe[0] < ACROSS:
        tile[:] = 0
    for a in range(stripe[1] - stripe[0]):
        place, source = a * ALONG, first + a * step + run[0]
        tile[place : place + run[1] - run[0]] = packed[source : source + run[1] - run[0]]


@njit(nogil=True, cache=True)
def _add_along(
    tile: Floats, n: int, stripe: Range, run: Range, X: Floats, sums: Floats, lanes: int
) -> None:
    """Add products of a tile with the part of X across it to the sums along it."""
    for g in range(X.size // (n * lanes)):
        right, out = (g * n + stripe[0]) * lanes, (g * (n + ROWS) + run[0]) * lanes
        for b in range(0, run[1] - run[0], ROWS):
            add(tile, b, ALONG, 1, X, right, stripe[1] - stripe[0], sums, out + b * lanes)


@njit(nogil=True, cache=True)
def _add_across(
    tile: Floats, n: int, stripe: Range, run: Range, X: Floats, sums: Floats, lanes: int
) -> None:
    """Add products of a tile with the part of X along it to the sums across it."""
    for g in range(X.size // (n * lanes)):
        right, out = (g * n + run[0]) * lanes, (g * (n + ROWS) + stripe[0]) * lanes
        for a in range(0, stripe[1] - stripe[0], ROWS):
            place = a * ALONG
            add(tile, place, 1, ALONG, X, right, run[1] - run[0], sums, out + a * lanes)


def _plain_product(packed: Array, X: Floats) -> Floats:
    """Return ``G X`` by BLAS, in blocks of rows.

    The rectangle of the packed format is two ordinary matrices: the first half of the columns, a
    lower trapezoid, and the triangle of the others, transposed.
    """
    n = len(X)
    n_rows, half, offset = layout(n)
    rectangle = packed.reshape(half, n_rows).T
    out = np.zeros(X.shape)
    for A, first in ((rectangle[offset:], 0), (rectangle[: n - half, 1 - offset :].T, half)):
        left, right = out[first:], X[first:]
        for start in range(0, len(A), ALONG):
            stop = min(start + ALONG, len(A))
            block = A[start:stop, :stop].astype(np.float64)
            whole, square = block[:, :start], block[:, start:]
            rows, before = slice(start, stop), slice(whole.shape[1])
            here = slice(start, start + square.shape[1])
            left[rows] += whole @ right[before] + np.tril(square) @ right[here]
            left[before] += whole.T @ right[rows]
            left[here] += np.tril(square, -1).T @ right[rows]
    return out
