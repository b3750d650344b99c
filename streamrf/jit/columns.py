"""Exact sums and sums of squares of the columns of raw rows.

A value, less its column's centre, is rounded to a grid that depends on nothing but the value and
the column. Its sums are then of integers on that grid: the same in any order.
"""

import math

import numpy as np
from numba import njit, prange

from streamrf.jit.arrays import F64, I64, Numbers

FINE_BITS = 20  # of a value on its column's own grid; the squares of `MAX_ROWS` stay below 2^53
MAX_ROWS = 4096
DIGITS = 41  # bits of a greater value, on the grid of its class of magnitude
LOWEST = -120  # values below 2^-120 count as 0
SPAN = 10  # binary orders of magnitude in a class
N_CLASSES = 25
GREATEST = 2.0 ** (LOWEST + SPAN * N_CLASSES) * (1 - 2.0**-53)  # what is greater counts as this
STRETCH = 256  # columns that a task takes


@njit(nogil=True, cache=True)
def _add_to_class(value: float, count: int, c: int, sums: I64, squares: I64) -> None:
    """Add a value of column c, which is there so often, to the sums of its class."""
    value = min(max(value, -GREATEST), GREATEST)
    exponent = math.frexp(value)[1] - 1
    if value == 0.0 or exponent < LOWEST:
        return
    k = (exponent - LOWEST) // SPAN
    end = LOWEST + SPAN * (k + 1)
    sums[c, k] += count * np.int64(np.rint(value * 2.0 ** (DIGITS - end)))
    squares[c, k] += count * np.int64(np.rint(value * value * 2.0 ** (DIGITS - 2 * end)))


@njit(nogil=True, cache=True)
def _add_coarse(
    x: Numbers, centre: F64, grid: F64, start: int, stop: int, sums: I64, squares: I64
) -> None:
    """Add the values of a row that are beyond the grids of their columns."""
    for c in range(start, stop):
        value = np.float64(x[c]) - centre[c]
        if np.abs(value) < grid[c] * 2.0**FINE_BITS:
            continue
        _add_to_class(value, 1, c, sums, squares)


@njit(nogil=True, cache=True)
def _add_stretch(
    X: Numbers,
    start: int,
    stop: int,
    centre: F64,
    reach: F64,
    grid: F64,
    fine: I64,
    sums: I64,
    squares: I64,
    outside: I64,
) -> None:
    """Add the columns ``[start, stop)``, at most `STRETCH`, as `add_columns` does."""
    n, width = len(X), stop - start
    # One array, so that the compiler sees that no part overlaps another: centre, reach, where
    # the grid ends, what rounds to it when added and subtracted (1.5 2^52 grids), the sums.
    work = np.zeros(7 * STRETCH)
    for j in range(width):
        work[j] = centre[start + j]
        work[STRETCH + j] = reach[start + j]
        work[2 * STRETCH + j] = grid[start + j] * 2.0**FINE_BITS
        work[3 * STRETCH + j] = grid[start + j] * 1.5 * 2.0**52
    for i in range(n):
        n_coarse = 0
        for j in range(width):
            value = np.float64(X[i, start + j]) - work[j]
            size = np.abs(value)
            is_fine = size < work[2 * STRETCH + j]
            rounded = (value + work[3 * STRETCH + j]) - work[3 * STRETCH + j]
            rounded = rounded if is_fine else 0.0
            work[4 * STRETCH + j] += rounded
            work[5 * STRETCH + j] += rounded * rounded
            work[6 * STRETCH + j] += 1.0 if size > work[STRETCH + j] else 0.0
            n_coarse += 1 if (size > 0.0) & (not is_fine) else 0
        if n_coarse > 0:
            _add_coarse(X[i], centre, grid, start, stop, sums, squares)
    for j in range(width):
        c = start + j
        outside[c] += np.int64(work[6 * STRETCH + j])
        if grid[c] > 0.0:
            fine[c, 0] += np.int64(work[4 * STRETCH + j] / grid[c])
            fine[c, 1] += np.int64(work[5 * STRETCH + j] / grid[c] ** 2)


@njit(nogil=True, cache=True, parallel=True)
def add_columns(
    X: Numbers,
    centre: F64,
    reach: F64,
    grid: F64,
    fine: I64,
    sums: I64,
    squares: I64,
    outside: I64,
) -> None:
    """Add ``u = X - centre`` and ``u^2``, rounded, to their sums; count ``|u| > reach``.

    Below ``2^20 grid`` u is rounded to the grid. Beyond, and where the grid is 0, it belongs to a
    class: class k is from ``2^(LOWEST + SPAN k)`` to an end of ``2^(LOWEST + SPAN (k + 1))``, u is
    rounded to 2^-41 of the end and ``u^2`` to 2^-41 of the end squared.

    Parameters
    ----------
    X : (n, d) finite, of any real dtype; n <= `MAX_ROWS`
    centre, reach : (d,) float64
    grid : (d,) float64, powers of two, or 0
    fine : (d, 2) int64, sums of u and u^2 on the grid, in units of `grid` and its square
    sums, squares : (d, N_CLASSES) int64, those of every class, in its units
    outside : (d,) int64, rows with ``|u| > reach``
    """
    d = X.shape[1]
    n_tasks = (d + STRETCH - 1) // STRETCH
    if n_tasks == 1:  # other threads would be woken for nothing
        _add_stretch(X, 0, d, centre, reach, grid, fine, sums, squares, outside)
        return
    for task in prange(n_tasks):
        start = np.int64(task) * STRETCH
        stop = min(start + STRETCH, d)
        _add_stretch(X, start, stop, centre, reach, grid, fine, sums, squares, outside)


@njit(nogil=True, cache=True)
def add_entries(
    values: Numbers,
    places: I64,
    counts: I64,
    centre: F64,
    reach: F64,
    grid: F64,
    fine: I64,
    sums: I64,
    squares: I64,
    outside: I64,
) -> None:
    """Add entries of sparse rows as `add_columns` does, each as often as it is there.

    Parameters
    ----------
    values : (m,) finite, of any real dtype
    places : (m,) int64, their columns
    counts : (m,) int64
    centre, reach, grid, fine, sums, squares, outside : see `add_columns`
    """
    for i in range(len(values)):
        c, n = places[i], counts[i]
        value = np.float64(values[i]) - centre[c]
        size = np.abs(value)
        outside[c] += n if size > reach[c] else 0
        if size < grid[c] * 2.0**FINE_BITS:
            big = grid[c] * 1.5 * 2.0**52
            steps = np.int64(((value + big) - big) / grid[c])
            fine[c, 0] += n * steps
            fine[c, 1] += n * steps * steps
            continue
        _add_to_class(value, n, c, sums, squares)
