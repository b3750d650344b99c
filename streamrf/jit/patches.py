"""Windows of rows on lanes: gathered as rows of their own, and their features pooled."""

import numpy as np
from numba import njit, prange

from streamrf.jit.arrays import F32, I64

LANES = 16


@njit(nogil=True, cache=True, parallel=True)
def gather(x: F32, firsts: I64, offsets: I64, out: F32) -> None:
    """``out[g m + p, k] = x[g, firsts[p] + offsets[k]]``: windows as groups of 16 rows.

    Parameters
    ----------
    x : (groups, d, 16) float32
    firsts, offsets : (m,) and (n_sites,) int64
    out : (groups m, n_sites, 16) float32
    """
    m, n_sites = firsts.size, offsets.size
    for task in prange(x.shape[0]):
        g = np.int64(task)
        for p in range(m):
            for k in range(n_sites):
                j = firsts[p] + offsets[k]
                for lane in range(LANES):
                    out[g * m + p, k, lane] = x[g, j, lane]


@njit(nogil=True, cache=True, parallel=True)
def add_windows(z: F32, cells: I64, scales: F32, out: F32) -> None:
    """``out[g, n cells[p] + k] += scales[cells[p]] z[g m + p, k]``, in the order of windows.

    Parameters
    ----------
    z : (groups m, n, 16) float32, features of windows
    cells : (m,) int64, the cell of each window
    scales : (n_cells,) float32
    out : (groups, >= n_cells n, 16) float32
    """
    m, n = cells.size, z.shape[1]
    for task in prange(z.shape[0] // m):
        g = np.int64(task)
        for p in range(m):
            first, scale = n * cells[p], scales[cells[p]]
            for k in range(n):
                for lane in range(LANES):
                    out[g, first + k, lane] += scale * z[g * m + p, k, lane]
