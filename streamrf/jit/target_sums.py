"""Sums of rows by label, and products of rows and targets."""

import numpy as np
from numba import njit, prange

from streamrf.jit.arrays import F64, I64, Numbers

TERMS = 8  # of a sum, added at a time
TASK_ROWS = 256  # read as they lie: jumps from row to row wait for memory
PART_SUMS = 1 << 21  # that tasks hold by themselves until all are done


@njit(nogil=True, cache=True)
def _n_parts(n: int, size: int) -> int:
    """Return in how many parts of the rows `size` sums are taken; the threads have no say in it."""
    return max(1, min((n + TASK_ROWS - 1) // TASK_ROWS, PART_SUMS // max(size, 1)))


@njit(nogil=True, cache=True, parallel=True)
def add_rows(Q: Numbers, groups: I64, factors: F64, out: F64) -> None:
    """``out[groups[i]] += factors[i] * Q[i]``: sums by label, of rows or columns a task.

    Parameters
    ----------
    Q : (n, width) float32 or float64
    groups : (n,) int64
    factors : (n,) float64
    out : (n_groups, width) float64
    """
    n, width = Q.shape
    n_parts = _n_parts(n, out.size)
    if n_parts > 1:
        n_rows = (n + n_parts - 1) // n_parts
        parts = np.empty((n_parts, out.shape[0], width))
        for task in prange(n_parts):
            p = np.int64(task)
            for t in range(out.shape[0]):
                for j in range(width):
                    parts[p, t, j] = 0.0
            for i in range(p * n_rows, min(p * n_rows + n_rows, n)):
                for j in range(width):
                    parts[p, groups[i], j] += factors[i] * np.float64(Q[i, j])
        _add_parts(parts, out)
        return
    stretch = 512
    for task in prange((width + stretch - 1) // stretch):
        block = np.int64(task)
        start = block * stretch
        stop = min(start + stretch, width)
        for i in range(n):
            group = groups[i]
            factor = factors[i]
            for j in range(start, stop):
                out[group, j] += factor * np.float64(Q[i, j])


@njit(nogil=True, cache=True)
def _add_parts(parts: F64, out: F64) -> None:
    """``out += parts[0]``, ``parts[1]``, and so on."""
    for part in parts:
        for t in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[t, j] += part[t, j]


@njit(nogil=True, cache=True, parallel=True)
def products(factors: F64, Q: Numbers, out: F64) -> None:
    """``out = factors^T Q``, every sum of a part in row order.

    Parameters
    ----------
    factors : (n, n_outputs) float64
    Q : (n, width) float32 or float64
    out : (n_outputs, width) float64
    """
    n, width = Q.shape
    n_outputs = out.shape[0]
    n_parts = _n_parts(n, out.size)
    n_rows = (n + n_parts - 1) // n_parts
    parts = np.empty((n_parts, n_outputs, width))
    for task in prange(n_parts):
        p = np.int64(task)
        for t in range(n_outputs):
            for j in range(width):
                parts[p, t, j] = 0.0
        stop = min(p * n_rows + n_rows, n)
        whole = stop - (stop - p * n_rows) % TERMS
        for i in range(p * n_rows, whole, TERMS):
            for t in range(n_outputs):
                for j in range(width):
                    for k in range(TERMS):
                        parts[p, t, j] += factors[i + k, t] * np.float64(Q[i + k, j])
        for i in range(whole, stop):
            for t in range(n_outputs):
                for j in range(width):
                    parts[p, t, j] += factors[i, t] * np.float64(Q[i, j])
    for t in range(n_outputs):
        for j in range(width):
            out[t, j] = 0.0
    _add_parts(parts, out)
