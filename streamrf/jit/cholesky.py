"""Cholesky factors of packed symmetric matrices, in place, by tasks of one thread each.

LAPACK's `pftrf` waits for all threads after every small product, which takes three to twenty times
as long where another program has one of their cores; and OpenBLAS has no kernels for processors
newer than itself. Here a task is a strip of rows of one block of columns: it takes all products
with the columns before at once (left-looking), so that tasks are long and each reads and writes its
strip once. Shapes of tasks do not depend on the threads, so neither do the bits.
"""

from collections.abc import Sequence
from queue import SimpleQueue

import numba
import numpy as np
from numba import njit

from streamrf.jit import lapack, substitution
from streamrf.jit.arrays import Numbers
from streamrf.jit.packed import Range, add_diagonal, cut, layout, strides
from streamrf.jit.strips import LANE_BYTES, ROWS, add, are_compiled
from streamrf.jit.threads import Each, computing, one_by_one, single_blas_threads

MIN_COLUMNS = {4: 3072, 8: 2048}  # by bytes of a number; of fewer LAPACK on one thread takes less
FEW_COLUMNS = 32  # of a right-hand side
MAX_ABREAST = 64 << 20  # bytes of a matrix and the factors that are computed side by side
TOGETHER = 64  # columns of many that a thread solves for
MIN_ROWS = 2048  # of a factor, which they are substituted in by loops of our own
COLUMNS = 512  # of a block, and depth of the products that a strip takes at a time
WIDE = 8192  # columns, of which a block has `COLUMNS`; of fewer half
GAP = 16  # numbers between panels of rows, or those of a strip would share a few cache sets
GROUP = 32  # of a block's columns, solved one after the other before they go into products
STRIP = 128 // ROWS * ROWS  # rows of a task: sums and a block of factors lie in the second cache


@njit(nogil=True, cache=True)
def _scatter(values: Numbers, width: int, out: Numbers, step: int) -> None:
    """Copy every so many numbers, as many as fill a width, to places that are a step apart.

    The last that fill none, too. Unsigned indices, which cannot count from the end, take half of
    the time.
    """
    size, apart, n = np.uint64(width), np.uint64(step), np.uint64(values.size)
    whole = n // size
    for group in range(whole):
        for k in range(size):
            out[group * apart + k] = values[group * size + k]
    for k in range(n - whole * size):
        out[whole * apart + k] = values[whole * size + k]


@njit(nogil=True, cache=True)
def _panels(
    packed: Numbers,
    n: int,
    rows: Range,
    columns: Range,
    width: int,
    out: Numbers,
    start: int,
) -> None:
    """Lay rows of a block of columns out in panels (depth, width), the last filled up by zeros.

    Panels of `ROWS` have a gap behind them.
    """
    first, by_row, by_column = strides(n, columns[0])
    depth = columns[1] - columns[0]
    m = rows[1] - rows[0]
    size = depth * width + (GAP if width == ROWS else 0)
    if by_row == 1:
        for k in range(depth):
            source, place = first + rows[0] + (columns[0] + k) * by_column, start + k * width
            if width == ROWS:  # a constant, so that the loop is unrolled
                _scatter(packed[source : source + m], ROWS, out[place:], size)
            else:
                _scatter(packed[source : source + m], width, out[place:], size)
    else:
        for i in range(m):
            source = first + (rows[0] + i) * by_row + columns[0]
            place = start + i // width * size + i % width
            _scatter(packed[source : source + depth], 1, out[place:], width)
    if m % width:
        place = start + m // width * size
        for k in range(depth):
            for r in range(m % width, width):
                out[place + k * width + r] = 0


@njit(nogil=True, cache=True)
def _update(
    packed: Numbers,
    n: int,
    rows: Range,
    columns: Range,
    blocks: Numbers,
    factors: Numbers,
    lanes: int,
) -> None:
    """Take from a strip the products with the columns before, laid out in `factors`."""
    n_strips = (rows[1] - rows[0] + ROWS - 1) // ROWS
    n_panels = (columns[1] - columns[0] + lanes - 1) // lanes
    size = ROWS * lanes
    deepest = blocks[0, 1] - blocks[0, 0]  # none of the others is wider
    strip = np.empty(n_strips * (ROWS * deepest + GAP), packed.dtype)
    sums = np.zeros(n_panels * n_strips * size, packed.dtype)
    for block in range(blocks.shape[0]):
        start, stop = blocks[block, 0], blocks[block, 1]
        depth = stop - start
        _panels(packed, n, rows, (start, stop), ROWS, strip, 0)
        for p in range(min(n_panels, (rows[1] - columns[0] + lanes - 1) // lanes)):  # others: above
            right = (start * n_panels + p * depth) * lanes
            for s in range(n_strips):
                left, out = s * (depth * ROWS + GAP), (p * n_strips + s) * size
                add(strip, left, ROWS, 1, factors, right, depth, sums, out)
    first, by_row, by_column = strides(n, columns[0])
    if by_row == 1:
        for j in range(columns[0], columns[1]):
            p, lane = (j - columns[0]) // lanes, (j - columns[0]) % lanes
            for s in range(n_strips):
                top = rows[0] + s * ROWS
                source = (p * n_strips + s) * size + lane
                target = first + top + j * by_column
                for r in range(max(0, j - top), min(ROWS, rows[1] - top)):
                    packed[target + r] -= sums[source + r * lanes]
    else:  # along rows, or every number would be of another cache line
        for i in range(rows[0], rows[1]):
            s, r = (i - rows[0]) // ROWS, (i - rows[0]) % ROWS
            target = first + i * by_row
            for p in range(n_panels):
                left = columns[0] + p * lanes
                source = (p * n_strips + s) * size + r * lanes
                for lane in range(min(lanes, columns[1] - left, i + 1 - left)):
                    packed[target + left + lane] -= sums[source + lane]


@njit(nogil=True, cache=True)
def _solve(
    packed: Numbers,
    n: int,
    rows: Range,
    columns: Range,
    square: Numbers,
    factors: Numbers,
    lanes: int,
) -> None:
    """Overwrite a strip S below a block's factor L by ``S L^-T``.

    Parameters
    ----------
    square : L
    factors : rows of L in groups of `GROUP`, each with the columns before it, as panels of lanes
    """
    width = columns[1] - columns[0]
    n_strips = (rows[1] - rows[0] + ROWS - 1) // ROWS
    by_strip = width * ROWS + GAP
    x = np.empty(n_strips * by_strip, packed.dtype)
    _panels(packed, n, rows, columns, ROWS, x, 0)
    sums = np.empty(ROWS * lanes, packed.dtype)
    group = np.empty((GROUP, n_strips * ROWS), packed.dtype)
    for start in range(0, width, GROUP):
        m = min(GROUP, width - start)
        for s in range(n_strips):
            place = s * by_strip + start * ROWS
            for k in range(m):
                for r in range(ROWS):
                    group[k, s * ROWS + r] = x[place + k * ROWS + r]
            for p in range((m + lanes - 1) // lanes if start else 0):
                sums[:] = 0
                right = _place(start) + p * start * lanes
                add(x, s * by_strip, ROWS, 1, factors, right, start, sums, 0)
                for k in range(p * lanes, min((p + 1) * lanes, m)):
                    for r in range(ROWS):
                        group[k, s * ROWS + r] -= sums[r * lanes + k - p * lanes]
        for j in range(m):
            inverse = 1 / square[start + j, start + j]
            for i in range(group.shape[1]):
                group[j, i] *= inverse
            for k in range(j + 1, m):
                value = square[start + k, start + j]
                for i in range(group.shape[1]):
                    group[k, i] -= value * group[j, i]
        for s in range(n_strips):
            place = s * by_strip + start * ROWS
            for k in range(m):
                for r in range(ROWS):
                    x[place + k * ROWS + r] = group[k, s * ROWS + r]
    first, by_row, by_column = strides(n, columns[0])
    if by_row == 1:
        for k in range(width):
            for s in range(n_strips):
                top = rows[0] + s * ROWS
                target = first + top + (columns[0] + k) * by_column
                for r in range(min(ROWS, rows[1] - top)):
                    packed[target + r] = x[s * by_strip + k * ROWS + r]
    else:
        for i in range(rows[1] - rows[0]):
            target = first + (rows[0] + i) * by_row + columns[0]
            source = i // ROWS * by_strip + i % ROWS
            for k in range(width):
                packed[target + k] = x[source + k * ROWS]


@njit(nogil=True, cache=True)
def _place(start: int) -> int:
    """Return where the factors of the group that begins there begin."""
    return start * (start - GROUP) // 2


@njit(nogil=True, cache=True)
def _lower(packed: Numbers, n: int, columns: Range, lanes: int) -> Numbers:
    """Return the factor of a block laid out for `_solve`."""
    width = columns[1] - columns[0]
    out = np.empty(_place((width + GROUP - 1) // GROUP * GROUP), packed.dtype)
    for start in range(GROUP, width, GROUP):
        rows = (columns[0] + start, columns[0] + min(start + GROUP, width))
        _panels(packed, n, rows, (columns[0], columns[0] + start), lanes, out, _place(start))
    return out


@njit(nogil=True, cache=True)
def _copy(packed: Numbers, n: int, columns: Range, out: Numbers, back: bool) -> None:
    """Copy the lower triangle of a block on the diagonal to a square, or back."""
    first, by_row, by_column = strides(n, columns[0])
    for j in range(columns[0], columns[1]):
        for i in range(j, columns[1]):
            place = first + i * by_row + j * by_column
            if back:
                packed[place] = out[i - columns[0], j - columns[0]]
            else:
                out[i - columns[0], j - columns[0]] = packed[place]


def factor(packed: Numbers, n: int) -> bool:
    """Overwrite a matrix of order n by its Cholesky factor; return whether it has one.

    Parameters
    ----------
    packed : (n (n + 1) / 2,) float32 or float64, see `streamrf.jit.packed`
    n : int
    """
    if not are_compiled():
        return lapack.factor(packed, n)
    if not _is_own(n, packed.itemsize):
        with computing(1):
            return lapack.factor(packed, n)
    with single_blas_threads() as each:
        return _factor(packed, n, each)


def n_abreast(n: int, itemsize: int) -> int:
    """Return how many factors of order n are computed side by side, each by one thread."""
    with computing() as n_threads:
        return _n_fitting(n, itemsize, n_threads)


def spare_bytes(n: int, itemsize: int) -> int:
    """Return the memory that a factor of order n takes next to the matrix."""
    return itemsize * n * _block_columns(n)


def abreast_bytes(n: int, itemsize: int) -> int:
    """Return the memory of factors side by side, by as many threads as may be started."""
    n_factors = _n_fitting(n, itemsize, numba.config.NUMBA_NUM_THREADS)
    return n_factors * _size(n, itemsize) if n_factors > 1 else 0


def _n_fitting(n: int, itemsize: int, n_threads: int) -> int:
    """Return how many factors are computed side by side by so many threads."""
    fitting = min(n_threads, MAX_ABREAST // max(1, _size(n, itemsize)) - 1)
    return max(1, fitting) if fitting == n_threads or not _is_own(n, itemsize) else 1


def shifted_solutions(matrix: Numbers, shifts: Sequence[float], B: Numbers) -> list[Numbers | None]:
    """Return ``(M + shift I)^-1 B`` for each shift, side by side; None if that has no factor.

    Each has the bits that `factor` and `solve` have with one thread.

    Parameters
    ----------
    matrix : packed M, of an order of which several factors fit, see `n_abreast`
    shifts : penalties
    B : (n, n_columns)
    """
    n = len(B)
    found: list[Numbers | None] = [None] * len(shifts)
    spare: SimpleQueue[Numbers] = SimpleQueue()
    for _ in range(n_abreast(n, matrix.itemsize)):
        spare.put(np.empty_like(matrix))

    def solve_one(number: int) -> None:
        work = spare.get()
        try:
            np.copyto(work, matrix)
            add_diagonal(work, np.full(n, float(shifts[number])))
            if _factor(work, n, one_by_one):
                X = np.array(B, dtype=matrix.dtype, order="F")
                _substitute(work, X, one_by_one)
                found[number] = X
        finally:
            spare.put(work)

    with single_blas_threads() as each:
        each(solve_one, range(len(shifts)))
    return found


def solve(factor: Numbers, B: Numbers) -> None:
    """Overwrite B by ``(L L^T)^-1 B``, to the same bits on any number of threads.

    Few columns by one thread, unless the factor is large: more would wait for each other.

    Parameters
    ----------
    factor : packed L
    B : (n, n_columns) in Fortran order, of the same dtype
    """
    n, n_columns = B.shape
    if n_columns < FEW_COLUMNS and n < WIDE:
        with computing(1):
            _substitute(factor, B, one_by_one)
    else:
        with single_blas_threads() as each:
            _substitute(factor, B, each)


def _substitute(factor: Numbers, B: Numbers, each: Each) -> None:
    """Do what `solve` does by tasks, LAPACK's of some columns each."""
    n, n_columns = B.shape
    if n_columns < FEW_COLUMNS and n >= MIN_ROWS and are_compiled():
        substitution.solve(factor, B, each)
        return

    def solve_part(columns: Range) -> None:
        lapack.solve(factor, B[:, slice(*columns)])

    each(solve_part, cut(0, n_columns, TOGETHER))


def _is_own(n: int, itemsize: int) -> bool:
    """Return whether loops of our own factor."""
    return are_compiled() and n >= MIN_COLUMNS[itemsize]


def _size(n: int, itemsize: int) -> int:
    return itemsize * n * (n + 1) // 2


def _block_columns(n: int) -> int:
    return COLUMNS if n >= WIDE else COLUMNS // 2


def _factor(packed: Numbers, n: int, each: Each) -> bool:
    """Do what `factor` does by tasks, or by LAPACK on the threads that it has."""
    if not _is_own(n, packed.itemsize):
        return lapack.factor(packed, n)
    half = layout(n)[1]  # beyond which columns are stored transposed
    width = _block_columns(n)
    blocks = [*cut(0, half, width), *cut(half, n, width)]
    factors = np.empty((n - 1) * width, packed.dtype)
    return all(
        _factor_block(packed, n, blocks[:number], columns, factors, each)
        for number, columns in enumerate(blocks)
    )


def _factor_block(
    packed: Numbers, n: int, before: list[Range], columns: Range, factors: Numbers, each: Each
) -> bool:
    """Factor a block of columns; those before it are factors already.

    Parameters
    ----------
    factors : memory for the rows of the factors before it
    each : see `single_blas_threads`
    """
    lanes = LANE_BYTES // packed.itemsize
    width = columns[1] - columns[0]
    padded = -(-width // lanes) * lanes
    earlier = np.array(before)

    def lay_out(block: Range) -> None:
        _panels(packed, n, columns, block, lanes, factors, block[0] * padded)

    def update(rows: Range) -> None:
        _update(packed, n, rows, columns, earlier, factors, lanes)

    def finish(rows: Range) -> None:
        _solve(packed, n, rows, columns, square, lower, lanes)

    if before:
        each(lay_out, before)
        each(update, cut(columns[0], n, STRIP))
    square = np.zeros((width, width), packed.dtype)
    _copy(packed, n, columns, square, False)
    if not lapack.factor_square(square):
        return False
    _copy(packed, n, columns, square, True)
    lower = _lower(packed, n, columns, lanes)
    each(finish, cut(columns[1], n, STRIP))
    return True
