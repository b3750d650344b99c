"""Products of packed symmetric matrices with a few columns, which read the matrix once."""

import numpy as np
from numba import njit

from streamrf.jit.arrays import Array, Floats, Numbers
from streamrf.jit.packed import Range, layout, strides
from streamrf.jit.strips import LANE_BYTES, ROWS, add, are_compiled
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
    if not are_compiled():
        return _plain_product(packed, X)
    lanes = LANE_BYTES // 8
    padded = -(-k // lanes) * lanes
    wide = np.zeros((n, padded))
    wide[:, :k] = X
    groups = wide.reshape(n, -1, lanes).transpose(1, 0, 2)
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
        across = (start, stop)
        _load(packed, first + start * step, step, across, across, tile)
        for a in range(stop - start):  # the other side of the diagonal
            for b in range(a) if is_left else range(a + 1, stop - start):
                tile[a * ALONG + b] = 0
        _add_products(tile, 1, ALONG, across, across, n, X, sums, lanes)
        for a in range(stop - start):
            tile[a * ALONG + a] = 0
        _add_products(tile, ALONG, 1, across, across, n, X, sums, lanes)
        for top in range(begin, end, ALONG):
            along = (top, min(top + ALONG, end))
            _load(packed, first + start * step, step, across, along, tile)
            _add_products(tile, 1, ALONG, along, across, n, X, sums, lanes)
            _add_products(tile, ALONG, 1, across, along, n, X, sums, lanes)


@njit(nogil=True, cache=True)
def _load(
    packed: Numbers, first: int, step: int, across: Range, along: Range, tile: Floats
) -> None:
    """Copy a tile, with zeros where it is not full."""
    height, width = across[1] - across[0], along[1] - along[0]
    if width < ALONG or height < ACROSS:
        tile[:] = 0
    for a in range(height):
        place, source = a * ALONG, first + a * step + along[0]
        _copy(packed[source : source + width], tile[place : place + width])


@njit(nogil=True, cache=True)
def _copy(values: Numbers, out: Numbers) -> None:
    """``out = values``: an assignment of slices takes seconds to compile.

    Indices that are no sums take half of the time and less: none may count from the end.
    """
    for k in range(values.size):
        out[k] = values[k]


@njit(nogil=True, cache=True)
def _add_products(
    tile: Floats,
    by_row: int,
    by_column: int,
    rows: Range,
    columns: Range,
    n: int,
    X: Floats,
    sums: Floats,
    lanes: int,
) -> None:
    """Add the products of a tile with rows `columns` of X to rows `rows` of the sums.

    Its numbers lie `by_row` and `by_column` apart.
    """
    for g in range(X.size // (n * lanes)):
        right, out = (g * n + columns[0]) * lanes, (g * (n + ROWS) + rows[0]) * lanes
        for i in range(0, rows[1] - rows[0], ROWS):
            left, depth = i * by_row, columns[1] - columns[0]
            add(tile, left, by_column, by_row, X, right, depth, sums, out + i * lanes)


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
