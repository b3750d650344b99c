"""Maps of one entry at a time: the sampled spectra of additive kernels."""

import math

import numpy as np
from numba import njit, prange

from streamrf.jit.arrays import F32, F64

LANES = 16


@njit(nogil=True, cache=True, parallel=True)
def homogeneous(x: F32, amplitudes: F64, interval: float, out: F32) -> None:
    """``sqrt(x) a_0``, then ``sqrt(x) a_k cos(k L log x)`` and ``sin``, in blocks as wide as x.

    Parameters
    ----------
    x : (groups, d, 16) float32, not negative; an entry 0 has features 0
    amplitudes : (n_steps,) float64, a
    interval : L
    out : (groups, >= (2 n_steps - 1) d, 16) float32: all entries for ``a_0``, then all cosines and
        all sines of ``k = 1``, and so on
    """
    d = x.shape[1]
    n_steps = amplitudes.size
    for task in prange(x.shape[0]):
        g = np.int64(task)
        for j in range(d):
            for lane in range(LANES):
                value = np.float64(x[g, j, lane])
                root = math.sqrt(value)
                out[g, j, lane] = np.float32(root * amplitudes[0])
                cosine, sine, c, s = 1.0, 0.0, 1.0, 0.0
                if value > 0.0 and n_steps > 1:
                    phase = interval * math.log(value)
                    c, s = math.cos(phase), math.sin(phase)
                for k in range(1, n_steps):
                    cosine, sine = cosine * c - sine * s, sine * c + cosine * s
                    factor = root * amplitudes[k]
                    out[g, (2 * k - 1) * d + j, lane] = np.float32(factor * cosine)
                    out[g, 2 * k * d + j, lane] = np.float32(factor * sine)


@njit(nogil=True, cache=True, parallel=True)
def shifted_log(x: F32, shift: float, out: F32) -> None:
    """``log(x + shift)``, entry by entry.

    Parameters
    ----------
    x, out : (groups, d, 16) float32; ``x + shift`` must be positive
    shift : added in float64
    """
    for task in prange(x.shape[0]):
        g = np.int64(task)
        for j in range(x.shape[1]):
            for lane in range(LANES):
                out[g, j, lane] = np.float32(math.log(np.float64(x[g, j, lane]) + shift))
