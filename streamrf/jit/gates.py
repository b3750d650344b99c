"""Rows multiplied by the gates of trees of hyperplanes, for lanes."""

import math

import numpy as np
from numba import njit, prange

from streamrf.jit.arrays import F32

LANES = 16


@njit(nogil=True, cache=True, parallel=True)
def gated(x: F32, directions: F32, offsets: F32, n_tree: int, out: F32) -> None:
    """Fill out with x, then for each node with ``g_k`` and ``g_k x``, until it is full.

    The gate ``g_k = tanh(<theta_k, x> - b_k)`` is for rows on whose path node k is, 0 for others. A
    node sends rows whose gate is below 0 to its first child, and others to its second.

    Parameters
    ----------
    x : (groups, d, 16) float32
    directions, offsets : (n_nodes, d) and (n_nodes,) float32, theta and b
    n_tree : nodes of a tree, which stand level by level: the children of k are 2 k + 1 and 2 k + 2
    out : (groups, width, 16) float32, width at most ``d + n_nodes (d + 1)``
    """
    d, width = x.shape[1], out.shape[1]
    for task in prange(x.shape[0]):
        g = np.int64(task)
        gates = np.zeros((n_tree, LANES), np.float32)
        reached = np.zeros((n_tree, LANES), np.bool_)
        for j in range(min(d, width)):  # an assignment of slices takes seconds to compile
            for lane in range(LANES):
                out[g, j, lane] = x[g, j, lane]
        for i in range(offsets.size):
            k, first = i % n_tree, d + i * (d + 1)
            for lane in range(LANES):
                gates[k, lane] = -offsets[i]
            for j in range(d):
                for lane in range(LANES):
                    gates[k, lane] += directions[i, j] * x[g, j, lane]
            up, second = (k - 1) // 2, k % 2 == 0
            for lane in range(LANES):
                reached[k, lane] = k == 0 or (
                    reached[up, lane] and (gates[up, lane] >= 0.0) == second
                )
            for lane in range(LANES):
                gate = np.float32(math.tanh(gates[k, lane])) if reached[k, lane] else 0.0
                if first < width:
                    out[g, first, lane] = gate
                for j in range(min(d, width - first - 1)):
                    out[g, first + 1 + j, lane] = gate * x[g, j, lane]
