"""Symmetric matrices in LAPACK's rectangular full packed format (TRANSR 'N', UPLO 'L').

The lower triangle of an n x n matrix as a vector of n (n + 1) / 2 numbers: a column-major array
whose columns hold the first half of the triangle's columns and, transposed above them, the rest
(Gustavson et al., ACM TOMS 37(2), 2010). `_entry` defines that layout.
"""

import numpy as np
from numba import njit, prange

from streamrf.jit.arrays import F64, I64, Numbers

Range = tuple[int, int]  # first, and one past the last


def cut(start: int, stop: int, size: int) -> list[Range]:
    """Return ``[start, stop)`` in ranges of one size, the last of what is left."""
    return [(first, min(first + size, stop)) for first in range(start, stop, size)]


@njit(nogil=True, cache=True)
def layout(n: int) -> tuple[int, int, int]:
    """Rows, columns and the offset of the diagonal in the packed array."""
    if n % 2 == 0:
        return n + 1, n // 2, 1
    return n, (n + 1) // 2, 0


@njit(nogil=True, cache=True)
def strides(n: int, column: int) -> tuple[int, int, int]:
    """Where (0, 0) would be, and the steps of a row and a column, on the side of a column."""
    n_rows, n_columns, offset = layout(n)
    if column < n_columns:
        return offset, 1, n_rows
    return (1 - offset - n_columns) * n_rows - n_columns, n_rows, 1


@njit(nogil=True, cache=True)
def _entry(row: int, column: int, n_columns: int, offset: int) -> tuple[int, int]:
    """Indices (i, j) of the matrix entry at [row, column] of the packed array."""
    if row >= column + offset:
        return row - offset, column
    return n_columns + column - 1 + offset, n_columns + row


@njit(nogil=True, cache=True)
def _index(i: int, j: int, n_rows: int, n_columns: int, offset: int) -> int:
    """Index in the packed vector of the matrix entry (i, j), on whichever side of the diagonal."""
    if i < j:
        i, j = j, i
    if j < n_columns:
        return j * n_rows + i + offset
    return (i - n_columns + 1 - offset) * n_rows + j - n_columns


@njit(nogil=True, cache=True, parallel=True)
def flush(partial: Numbers, totals: Numbers) -> None:
    """``totals += partial; partial = 0``, any lengths that agree."""
    stretch = 65536
    for task in prange((totals.size + stretch - 1) // stretch):
        block = np.int64(task)
        stop = min((block + 1) * stretch, totals.size)
        for k in range(block * stretch, stop):  # type: ignore[call-overload]
            totals[k] += partial[k]
            partial[k] = 0


@njit(nogil=True, cache=True, parallel=True)
def centred(packed: Numbers, sums: F64, weight: float, scale: F64, out: F64) -> None:
    """``out = diag(scale) (G - sums sums^T / weight) diag(scale)``, packed to packed."""
    n_rows, n_columns, offset = layout(sums.size)
    for task in prange(n_columns):
        column = np.int64(task)  # prange counts in uint64, and uint64 + int64 is a float
        start, middle = column * n_rows, column * n_rows + column + offset
        i, stop = n_columns + column + offset - 1, start + n_rows
        here, there = packed[start:middle], out[start:middle]  # row i, from the second half on
        right, size = sums[n_columns : i + 1], scale[n_columns : i + 1]
        _centre_row(here, sums[i], right, weight, scale[i], size, there)
        here, there = packed[middle:stop], out[middle:stop]
        left, size = sums[column:], scale[column:]
        _centre_column(here, left, sums[column], weight, size, scale[column], there)


# The usual error model looks for a weight of 0 at every division, which takes 4 times as long.
@njit(nogil=True, cache=True, error_model="numpy")
def _centre_row(
    row: Numbers, left: float, right: F64, weight: float, factor: float, scale: F64, out: F64
) -> None:
    for j in range(row.size):
        out[j] = (row[j] - left * right[j] / weight) * factor * scale[j]


@njit(nogil=True, cache=True, error_model="numpy")
def _centre_column(
    column: Numbers, left: F64, right: float, weight: float, scale: F64, factor: float, out: F64
) -> None:
    for i in range(column.size):
        out[i] = (column[i] - left[i] * right / weight) * scale[i] * factor


@njit(nogil=True, cache=True)
def add_diagonal(packed: F64, values: F64) -> None:
    """``G += diag(values)``, in place."""
    n_rows, n_columns, offset = layout(values.size)
    for i in range(values.size):
        packed[_index(i, i, n_rows, n_columns, offset)] += values[i]


@njit(nogil=True, cache=True)
def diagonal(packed: Numbers, out: F64) -> None:
    """``out = diag(G)``."""
    n_rows, n_columns, offset = layout(out.size)
    for i in range(out.size):
        out[i] = packed[_index(i, i, n_rows, n_columns, offset)]


@njit(nogil=True, cache=True, parallel=True)
def unpack(packed: Numbers, out: F64) -> None:
    """``out = G`` as a full symmetric (n, n) matrix."""
    n = out.shape[0]
    n_rows, n_columns, offset = layout(n)
    for task in prange(n_columns):
        column = np.int64(task)  # prange counts in uint64, and uint64 + int64 is a float
        for row in range(n_rows):
            i, j = _entry(row, column, n_columns, offset)
            value = packed[column * n_rows + row]
            out[i, j] = value
            out[j, i] = value


@njit(nogil=True, cache=True)
def column(packed: Numbers, j: int, out: F64) -> None:
    """``out = G[:, j]``."""
    n_rows, n_columns, offset = layout(out.size)
    for i in range(out.size):
        out[i] = packed[_index(i, j, n_rows, n_columns, offset)]


@njit(nogil=True, cache=True, parallel=True)
def select(packed: Numbers, n: int, columns: I64, out: Numbers) -> None:
    """``out = G[columns][:, columns]``, packed to packed.

    Parameters
    ----------
    packed : the packed (n, n) matrix
    n : its order
    columns : (m,) int64, rows and columns to keep, in any order
    out : the packed (m, m) matrix
    """
    n_rows, n_columns, offset = layout(n)
    out_rows, out_columns, out_offset = layout(columns.size)
    for task in prange(out_columns):
        out_column = np.int64(task)  # prange counts in uint64, and uint64 + int64 is a float
        for row in range(out_rows):
            i, j = _entry(row, out_column, out_columns, out_offset)
            k = _index(columns[i], columns[j], n_rows, n_columns, offset)
            out[out_column * out_rows + row] = packed[k]


@njit(nogil=True, cache=True)
def add_selected(values: F64, columns: I64, n: int, packed: Numbers) -> None:
    """``G[columns][:, columns] += V``, in place.

    Parameters
    ----------
    values : (m, m) symmetric V
    columns : (m,) int64, rows and columns of G
    n : order of G
    packed : the packed (n, n) matrix
    """
    n_rows, n_columns, offset = layout(n)
    for i in range(columns.size):
        for j in range(i + 1):
            packed[_index(columns[i], columns[j], n_rows, n_columns, offset)] += values[i, j]


@njit(nogil=True, cache=True)
def holds(n: int, rows: Range, columns: Range) -> bool:
    """Whether `add_tile` adds anything of a tile: (first, one past the last) of each side."""
    middle = layout(n)[1]
    lower = rows[0] < middle and columns[1] > rows[0]
    return lower or (rows[1] > middle and columns[1] > middle and columns[0] < rows[1])


@njit(nogil=True, cache=True)
def add_tile(tile: Numbers, x: int, y: int, n: int, packed: Numbers) -> None:
    """``G[x:, y:] += tile``, of row i the entries that lie side by side in one packed column.

    Those are (i, j) from the diagonal on where i is in the first half, else those of j in the
    second half up to the diagonal. So over all tiles of G every entry of a triangle is added once,
    and rows weigh alike: i of the first half has a column with one of the second.

    Parameters
    ----------
    tile : (rows, columns), what lies outside of G is passed over
    x, y : its first row and column in G
    n : order of G
    packed : the packed (n, n) matrix
    """
    n_rows, middle, offset = layout(n)
    y_end = min(y + tile.shape[1], n)
    for i in range(x, min(x + tile.shape[0], n)):
        if i < middle:
            start, first, last = i * n_rows + offset, max(i, y), y_end
        else:
            start = (i - middle + 1 - offset) * n_rows - middle
            first, last = max(middle, y), min(y_end, i + 1)
        for k in range(last - first):
            packed[start + first + k] += tile[i - x, first - y + k]
