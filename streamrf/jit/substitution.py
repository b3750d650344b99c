"""Solutions by packed Cholesky factors for a few right-hand sides, by tasks of one thread each.

LAPACK's `pftrs` copies the factor to multiply with few columns, and its threads wait for each other
after every small product. Here numbers are read once from where they lie. What lies side by side in
memory runs along a line: a column of the first half, or a row of the triangle of the others; so one
half subtracts what a line is worth from all along it, and the other gathers it.
"""

import numpy as np
from numba import njit

from streamrf.jit.arrays import Numbers
from streamrf.jit.packed import Range, cut, layout, strides
from streamrf.jit.strips import LANE_BYTES, ROWS, add, add_few
from streamrf.jit.threads import Each

LINES = 192  # of a block, whose own triangle one thread solves
ACROSS = 24  # lines that a product takes at a time: a multiple of the rows that registers hold
ALONG = 960  # numbers of each that a task takes: their rows of B lie in the second cache


def solve(factor: Numbers, B: Numbers, each: Each) -> None:
    """Overwrite B by ``(L L^T)^-1 B``; never called where loops are not compiled.

    Parameters
    ----------
    factor : packed L
    B : (n, n_columns), of the same dtype
    each : see `single_blas_threads`
    """
    n, max_lanes = len(B), LANE_BYTES // factor.itemsize
    for first, stop in cut(0, B.shape[1], max_lanes):
        lanes = max_lanes if stop - first > max_lanes // 2 else max_lanes // 2
        X = np.zeros((n, lanes), factor.dtype)
        X[:, : stop - first] = B[:, first:stop]
        _substitute(factor, n, X.reshape(-1), lanes, each)
        B[:, first:stop] = X[:, : stop - first]


def _substitute(packed: Numbers, n: int, X: Numbers, lanes: int, each: Each) -> None:
    half = layout(n)[1]
    left, right = cut(0, half, LINES), cut(half, n, LINES)

    def spread(lines: Range, along: Range) -> None:
        def task(part: Range) -> None:
            _spread(packed, n, lines, part, X, lanes)

        each(task, cut(*along, ALONG))

    def gather(lines: Range, along: Range) -> None:
        def task(some: Range) -> None:
            _gather(packed, n, some, along, X, lanes)

        each(task, cut(*lines, ACROSS))

    for lines in left:
        _solve_block(packed, n, lines, False, X, lanes)
        spread(lines, (lines[1], n))
    for lines in right:
        gather(lines, (half, lines[0]))
        _solve_block(packed, n, lines, False, X, lanes)
    for lines in reversed(right):
        _solve_block(packed, n, lines, True, X, lanes)
        spread(lines, (half, lines[0]))
    for lines in reversed(left):
        gather(lines, (lines[1], n))
        _solve_block(packed, n, lines, True, X, lanes)


@njit(nogil=True, cache=True)
def _line(n: int, line: int) -> tuple[int, int]:
    """Return where entry 0 of a line would lie, and the step to the next line."""
    first, by_row, by_column = strides(n, line)
    step = by_column if by_row == 1 else by_row
    return first + line * step, step


@njit(nogil=True, cache=True)
def _add(
    a: Numbers,
    i: int,
    by_depth: int,
    by_row: int,
    b: Numbers,
    j: int,
    depth: int,
    sums: Numbers,
    k: int,
    lanes: int,
) -> None:
    """Do what `add` does, for all lanes or for half of them."""
    if lanes * a.itemsize == LANE_BYTES:
        add(a, i, by_depth, by_row, b, j, depth, sums, k)
    else:
        add_few(a, i, by_depth, by_row, b, j, depth, sums, k)


@njit(nogil=True, cache=True)
def _spread(packed: Numbers, n: int, lines: Range, along: Range, X: Numbers, lanes: int) -> None:
    """``X[t] -= sum_a L[a, t] X[a]`` for lines a, and t along them."""
    rows = along[1] - along[0]
    whole = rows - rows % ROWS
    for start in range(lines[0], lines[1], ACROSS):
        depth = min(ACROSS, lines[1] - start)
        place, step = _line(n, start)
        negative = -X[start * lanes : (start + depth) * lanes]
        for t in range(along[0], along[0] + whole, ROWS):
            _add(packed, place + t, step, 1, negative, 0, depth, X, t * lanes, lanes)
        for t in range(along[0] + whole, along[1]):
            for a in range(depth):
                value = packed[place + a * step + t]
                _subtract(value, X[(start + a) * lanes :], X[t * lanes : (t + 1) * lanes])


@njit(nogil=True, cache=True)
def _gather(packed: Numbers, n: int, lines: Range, along: Range, X: Numbers, lanes: int) -> None:
    """``X[a] -= sum_t L[a, t] X[t]`` for lines a, and t along them."""
    place, step = _line(n, lines[0])
    n_lines = lines[1] - lines[0]
    sums = np.zeros(n_lines * lanes, X.dtype)
    whole = n_lines - n_lines % ROWS
    for start in range(along[0], along[1], ALONG):
        depth = min(ALONG, along[1] - start)
        for a in range(0, whole, ROWS):
            left = place + a * step + start
            _add(packed, left, 1, step, X, start * lanes, depth, sums, a * lanes, lanes)
        for a in range(whole, n_lines):
            for t in range(start, start + depth):
                value = packed[place + a * step + t]
                _subtract(-value, X[t * lanes :], sums[a * lanes : (a + 1) * lanes])
    _subtract(1, sums, X[lines[0] * lanes : lines[1] * lanes])


@njit(nogil=True, cache=True)
def _solve_block(
    packed: Numbers, n: int, lines: Range, is_back: bool, X: Numbers, lanes: int
) -> None:
    """Solve for the lines of a block, from which all others have been taken."""
    is_left = lines[0] < layout(n)[1]
    n_parts = (lines[1] - lines[0] + ACROSS - 1) // ACROSS
    for count in range(n_parts):
        start = lines[0] + (n_parts - 1 - count if is_back else count) * ACROSS
        some = (start, min(start + ACROSS, lines[1]))
        along = (some[1], lines[1]) if is_left else (lines[0], start)
        if is_left == is_back:
            _gather(packed, n, some, along, X, lanes)
        _solve_triangle(packed, n, some, is_back, X, lanes)
        if is_left != is_back:
            _spread(packed, n, some, along, X, lanes)


@njit(nogil=True, cache=True)
def _solve_triangle(
    packed: Numbers, n: int, lines: Range, is_back: bool, X: Numbers, lanes: int
) -> None:
    """Solve for some lines, one by one, from which all others have been taken."""
    place, step = _line(n, lines[0])
    is_left = lines[0] < layout(n)[1]
    for count in range(lines[1] - lines[0]):
        a = lines[1] - 1 - count if is_back else lines[0] + count
        line = place + (a - lines[0]) * step
        row = X[a * lanes : (a + 1) * lanes]
        start, stop = (a + 1, lines[1]) if is_left else (lines[0], a)
        if is_left == is_back:  # gather
            for t in range(start, stop):
                _subtract(packed[line + t], X[t * lanes :], row)
        row /= packed[line + a]
        if is_left != is_back:  # spread
            for t in range(start, stop):
                _subtract(packed[line + t], row, X[t * lanes : (t + 1) * lanes])


@njit(nogil=True, cache=True)
def _subtract(factor: float, values: Numbers, out: Numbers) -> None:
    """``out -= factor values``, of as many as there are in `out`."""
    for k in range(out.size):
        out[k] -= factor * values[k]
