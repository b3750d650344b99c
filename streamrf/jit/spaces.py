"""Base features of single sites, for 16 rows side by side."""

import numpy as np
from numba import njit

from streamrf.jit.arrays import F32, I32, I64

LANES = 16
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@njit(nogil=True, cache=True)
def phases(x: F32, columns: I32, frequencies: F32, out: F32) -> None:
    """``out[i] = sum_k frequencies[i, k] x[columns[i] + k]``, in the order of k.

    Parameters
    ----------
    x : (d, 16) float32
    columns : (n,) int32
    frequencies : (n, size) float32
    out : (n, 16) float32
    """
    for i in range(columns.size):
        for lane in range(LANES):
            out[i, lane] = 0.0
        for k in range(frequencies.shape[1]):
            factor = frequencies[i, k]
            for lane in range(LANES):
                out[i, lane] += factor * x[columns[i] + k, lane]


@njit(nogil=True, cache=True)
def directions(x: F32, columns: I32, first: int, size: int, scale: float, out: F32) -> None:
    """``out[i] = scale x[columns[i]] / |site of the column|``, 0 where the site is zero.

    Parameters
    ----------
    x : (d, 16) float32
    columns : (n,) int32, ascending
    first, size : where sites begin, and the columns of each
    scale : float32
    out : (n, 16) float32
    """
    lengths = np.zeros(LANES, np.float32)
    site = -1
    for i in range(columns.size):
        j = columns[i]
        own = (j - first) // size
        if own != site:
            site = own
            lengths[:] = 0.0
            for k in range(first + site * size, first + (site + 1) * size):
                for lane in range(LANES):
                    lengths[lane] += x[k, lane] * x[k, lane]
        for lane in range(LANES):
            length = np.sqrt(lengths[lane])
            out[i, lane] = scale * x[j, lane] / length if length > 0.0 else np.float32(0.0)


@njit(nogil=True, cache=True)
def levels(x: F32, columns: I32, salts: I64, out: F32) -> None:
    """``out[i]``: 1 or -1 by a hash of ``x[columns[i]]`` and ``salts[i]``, equal for equal numbers.

    Parameters
    ----------
    x : (d, 16) float32; zeros of either sign are one level
    columns : (n,) int32
    salts : (n,) int64
    out : (n, 16) float32
    """
    for i in range(columns.size):
        salt = np.uint64(salts[i])
        for lane in range(LANES):
            value = x[columns[i], lane] + np.float32(0.0)
            bits = np.uint64(np.float32(value).view(np.uint32))
            word = _mixed(_mixed(bits * GOLDEN + salt) + salt)
            out[i, lane] = 1.0 if word >> np.uint64(63) else -1.0


@njit(nogil=True, cache=True)
def _mixed(x: np.uint64) -> np.uint64:
    """Return the finalizer of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * FIRST
    x = (x ^ (x >> np.uint64(27))) * SECOND
    return x ^ (x >> np.uint64(31))
