"""Runs of rows whose products stay below 2^31 when they are summed, for each tile of a Gram.

By Cauchy and Schwarz a sum of products of two columns is at most the root of the product of their
sums of squares. The rows of a block are seen in parts; a tile sums as many parts at a time as are
bounded so for all its columns, and a part at least.
"""

import numpy as np
from numba import njit

from streamrf.jit.arrays import F64

PART = 64  # rows
LIMIT = 2.0**31 * (1 - 1e-12)  # bounds are rounded


@njit(nogil=True, cache=True)
def roots_of_greatest(squares: F64, size: int) -> F64:
    """Return the roots of the greatest of every `size` columns of squares.

    Parameters
    ----------
    squares : (n_parts, width) float64

    Returns
    -------
    roots : (ceil(width / size), n_parts) float64
    """
    n_parts, width = squares.shape
    roots = np.zeros(((width + size - 1) // size, n_parts))
    for p in range(n_parts):
        for t in range(roots.shape[0]):
            greatest = 0.0
            for j in range(t * size, min((t + 1) * size, width)):
                greatest = max(greatest, squares[p, j])
            roots[t, p] = np.sqrt(greatest)
    return roots


@njit(nogil=True, cache=True)
def run_end(left: F64, right: F64, start: int, stop: int) -> int:
    """Return one past the last part, up to `stop`, of a run that begins with `start`.

    Parameters
    ----------
    left, right : (n_parts,) float64, roots of the greatest squares of both sides of a tile
    """
    bound = 0.0
    for p in range(start, stop):
        bound += left[p] * right[p]
        if bound >= LIMIT and p > start:
            return p
    return stop
