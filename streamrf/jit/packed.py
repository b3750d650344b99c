"""Symmetric matrices in LAPACK's rectangular full packed format (TRANSR 'N', UPLO 'L').

The lower triangle of an n x n matrix as a vector of n (n + 1) / 2 numbers: a column-major array
whose columns hold the first half of the triangle's columns and, transposed above them, the rest
(Gustavson et al., ACM TOMS 37(2), 2010). `_place` is the whole of that layout.
"""

import numpy as np
from numba import njit, prange


@njit(nogil=True, cache=True)
def _shape(n):
    """Rows, columns and the offset of the diagonal in the packed array."""
    if n % 2 == 0:
        return n + 1, n // 2, 1
    return n, (n + 1) // 2, 0


@njit(nogil=True, cache=True)
def _place(row, column, n_columns, offset):
    """Indices (i, j) of the matrix entry at [row, column] of the packed array."""
    if row >= column + offset:
        return row - offset, column
    return n_columns + column - 1 + offset, n_columns + row


@njit(nogil=True, cache=True)
def _index(i, j, n_rows, n_columns, offset):
    """Place in the packed vector of the matrix entry (i, j), on whichever side of the diagonal."""
    if i < j:
        i, j = j, i
    if j < n_columns:
        return j * n_rows + i + offset
    return (i - n_columns + 1 - offset) * n_rows + j - n_columns


@njit(nogil=True, cache=True, parallel=True)
def flush(partial, totals):
    """``totals += partial; partial = 0``, any lengths that agree."""
    stretch = 65536
    for task in prange((totals.size + stretch - 1) // stretch):
        block = np.int64(task)
        for k in range(block * stretch, min((block + 1) * stretch, totals.size)):
            totals[k] += partial[k]
            partial[k] = 0


@njit(nogil=True, cache=True, parallel=True)
def centred(packed, sums, weight, scale, out):
    """``out = diag(scale) (G - sums sums^T / weight) diag(scale)``, packed to packed."""
    n = sums.size
    n_rows, n_columns, offset = _shape(n)
    for task in prange(n_columns):
        column = np.int64(task)  # prange counts in uint64, and uint64 + int64 is a float
        for row in range(n_rows):
            i, j = _place(row, column, n_columns, offset)
            k = column * n_rows + row
            out[k] = (packed[k] - sums[i] * sums[j] / weight) * scale[i] * scale[j]


@njit(nogil=True, cache=True)
def add_diagonal(packed, values):
    """``G += diag(values)``, in place."""
    n = values.size
    n_rows, n_columns, offset = _shape(n)
    for i in range(n):
        if i < n_columns:
            packed[i * n_rows + i + offset] += values[i]
        else:
            column = i - n_columns + 1 - offset
            packed[column * n_rows + i - n_columns] += values[i]


@njit(nogil=True, cache=True)
def diagonal(packed, out):
    """``out = diag(G)``."""
    n = out.size
    n_rows, n_columns, offset = _shape(n)
    for i in range(n):
        if i < n_columns:
            out[i] = packed[i * n_rows + i + offset]
        else:
            column = i - n_columns + 1 - offset
            out[i] = packed[column * n_rows + i - n_columns]


@njit(nogil=True, cache=True, parallel=True)
def unpack(packed, out):
    """``out = G`` as a full symmetric (n, n) matrix."""
    n = out.shape[0]
    n_rows, n_columns, offset = _shape(n)
    for task in prange(n_columns):
        column = np.int64(task)  # prange counts in uint64, and uint64 + int64 is a float
        for row in range(n_rows):
            i, j = _place(row, column, n_columns, offset)
            value = packed[column * n_rows + row]
            out[i, j] = value
            out[j, i] = value


@njit(nogil=True, cache=True)
def column(packed, j, out):
    """``out = G[:, j]``."""
    n = out.size
    n_rows, n_columns, offset = _shape(n)
    for i in range(n):
        out[i] = packed[_index(i, j, n_rows, n_columns, offset)]


@njit(nogil=True, cache=True, parallel=True)
def select(packed, n, picks, out):
    """``out = G[picks][:, picks]``, packed to packed.

    Parameters
    ----------
    packed : the packed (n, n) matrix
    n : its order
    picks : (m,) int64, rows and columns to keep, in any order
    out : the packed (m, m) matrix
    """
    n_rows, n_columns, offset = _shape(n)
    out_rows, out_columns, out_offset = _shape(picks.size)
    for task in prange(out_columns):
        out_column = np.int64(task)  # prange counts in uint64, and uint64 + int64 is a float
        for row in range(out_rows):
            i, j = _place(row, out_column, out_columns, out_offset)
            k = _index(picks[i], picks[j], n_rows, n_columns, offset)
            out[out_column * out_rows + row] = packed[k]
