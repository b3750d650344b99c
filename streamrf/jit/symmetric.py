"""Products of packed symmetric matrices with a few columns, by threads with blocks of rows."""

import numpy as np

from streamrf.jit.arrays import Array, Floats
from streamrf.jit.threads import single_blas_threads

ROWS = 256  # of one task: a sum has the same bits on any number of threads


def product(packed: Array, X: Floats) -> Floats:
    """Return ``G X``, float64.

    The rectangle of the packed format (`streamrf.jit.packed`) is two ordinary matrices: the first
    half of the columns, a lower trapezoid, and the triangle of the others, transposed.

    Parameters
    ----------
    packed : (n (n + 1) / 2,) of any real dtype
    X : (n, k) float64
    """
    n = len(X)
    columns, is_even = (n + 1) // 2, 1 - n % 2
    rectangle = packed.reshape(columns, n + is_even).T
    triangle = rectangle[: n - columns, 1 - is_even :].T
    out = np.zeros(X.shape)
    _add(rectangle[is_even:], X, out)
    _add(triangle, X[columns:], out[columns:])
    return out


def _add(A: Array, X: Floats, out: Floats) -> None:
    """``out += G X`` of the rows and columns of G that a lower trapezoid A (n_rows, n) has."""
    n = A.shape[1]

    def add(rows: slice) -> None:
        if rows.start >= n:
            out[rows] += _float(A[rows]) @ X[:n]
            return
        square = np.tril(_float(A[rows, rows]))
        out[rows] += (square + np.tril(square, -1).T) @ X[rows]
        out[rows] += _float(A[rows, : rows.start]) @ X[: rows.start]
        out[rows] += _float(A[rows.stop :, rows]).T @ X[rows.stop :]

    with single_blas_threads() as each:
        each(add, [*_cut(0, n), *_cut(n, len(A))])


def _float(A: Array) -> Floats:
    return A.astype(np.float64, copy=False)


def _cut(start: int, stop: int) -> list[slice]:
    return [slice(first, min(first + ROWS, stop)) for first in range(start, stop, ROWS)]
