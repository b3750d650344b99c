"""Fourier features on lanes: cosines and sines of projections, and of Hadamard transforms.

Loops have a fixed order and no fast-math, as in `streamrf.jit.hadamard`.
"""

import numpy as np
from numba import njit, prange

from streamrf.jit.arrays import F32, I32
from streamrf.jit.butterflies import LANES, scale_row
from streamrf.jit.hadamard import fwht, signed_transform

# For `_cosine_sine`. Up to FAR a multiple of pi/2 has a factor below 2^13, so its product with the
# 11 bits of each of the first two parts of pi/2 is exact.
TWO_PI = 2 * np.pi
FAR = np.float32(12800.0)
TWO_OVER_PI = np.float32(2 / np.pi)
HALF_PI = np.float32(201 / 2**7), np.float32(2029 / 2**22), np.float32(7.549790126404332e-08)
TO_WHOLE = np.float32(3 << 22)  # adding it leaves an integer in the low bits
HALF, ONE = np.float32(0.5), np.float32(1.0)
COSINE = np.float32(4.1666645683e-2), np.float32(-1.3887316255e-3), np.float32(2.4433157118e-5)
SINE = np.float32(-1.6666654611e-1), np.float32(8.3321608736e-3), np.float32(-1.9515295891e-4)


@njit(cache=True)
def _cosine_sine(x: np.float32) -> tuple[np.float32, np.float32]:
    """Return cos(x) and sin(x) of a float32 up to FAR in size, each within 1e-7.

    Cody and Waite's reduction to [-pi/4, pi/4] by the nearest multiple of pi/2, then the
    polynomials of Cephes (cosf, sinf). It has no branch and no call, so that loops over it become
    vector loops: 0.5 ns a value in pairs, 1.0 for the cosine alone; with np.cos they stay scalar,
    3.5 ns.
    """
    shifted = x * TWO_OVER_PI + TO_WHOLE
    quadrant = np.float32(shifted).view(np.int32)
    multiple = shifted - TO_WHOLE
    rest = ((x - multiple * HALF_PI[0]) - multiple * HALF_PI[1]) - multiple * HALF_PI[2]
    square = rest * rest
    even = square * square * (COSINE[0] + square * (COSINE[1] + square * COSINE[2]))
    even = (ONE - HALF * square) + even
    odd = rest + rest * square * (SINE[0] + square * (SINE[1] + square * SINE[2]))
    swap = (quadrant & 1) != 0
    cosine = odd if swap else even
    sine = even if swap else odd
    cosine = -cosine if ((quadrant + 1) & 2) != 0 else cosine
    sine = -sine if (quadrant & 2) != 0 else sine
    return cosine, sine


@njit(nogil=True, cache=True)
def _wrap(phases: F32) -> None:
    """Reduce phases beyond FAR, each by itself, to (-2 pi, 2 pi) in float64; phases is flat."""
    n_far = 0
    for i in range(phases.size):
        n_far += np.abs(phases[i]) > FAR
    if n_far:
        for i in range(phases.size):
            if np.abs(phases[i]) > FAR:
                phases[i] = np.fmod(np.float64(phases[i]), TWO_PI)


@njit(nogil=True, cache=True)
def waves(
    phases: F32, scales: F32, offsets: F32, amplitude: float, n_sines: int, start: int, out: F32
) -> None:
    """Write the waves of consecutive frequencies, ``cos(scales * phases + offsets)``.

    Parameters
    ----------
    phases : (count, 16) float32, overwritten
    scales, offsets : (n_frequencies,) float32
    amplitude : float32
    n_sines : number of frequencies that have a sine too, `n_frequencies` rows below the cosine
    start : the first of the `count` frequencies
    out : (>= n_frequencies + n_sines, 16) float32
    """
    count = phases.shape[0]
    for i in range(count):
        scale, offset = scales[start + i], offsets[start + i]
        for lane in range(LANES):
            phases[i, lane] = phases[i, lane] * scale + offset
    flat = phases.reshape(-1)
    _wrap(flat)
    cosines = out[start : start + count].reshape(-1)
    n_paired = max(0, min(count, n_sines - start))
    start += scales.shape[0]
    sines = out[start : start + n_paired].reshape(-1)
    for i in range(sines.size):
        cosine, sine = _cosine_sine(flat[i])
        cosines[i] = amplitude * cosine
        sines[i] = amplitude * sine
    flat, cosines = flat[sines.size :], cosines[sines.size :]
    for i in range(flat.size):
        cosines[i] = amplitude * _cosine_sine(flat[i])[0]


@njit(nogil=True, cache=True, parallel=True)
def fourier(scales: F32, offsets: F32, amplitude: float, n_sines: int, out: F32) -> None:
    """Write the waves of the products that stand in their place, as `waves` does for each group.

    Parameters
    ----------
    scales, offsets, amplitude, n_sines : see `waves`
    out : (groups, >= n_components, 16) float32; ``<omega_i, x>`` in the first rows
    """
    for g in prange(out.shape[0]):
        phases = out[g, : scales.shape[0]].copy()
        waves(phases, scales, offsets, amplitude, n_sines, 0, out[g])


@njit(nogil=True, cache=True, parallel=True)
def structured_fourier(
    x: F32, signs: F32, scales: F32, offsets: F32, amplitude: float, n_sines: int, out: F32
) -> None:
    """Write the waves of ``H D_1 H D_2 H D_3 x``, block by block.

    Parameters
    ----------
    x : (groups, d, 16) float32
    signs : (blocks, 3, padded) float32 of +-1; D_3, D_2, D_1 of each block
    scales, offsets, amplitude, n_sines : see `waves`
    out : (groups, >= n_components, 16) float32
    """
    padded = signs.shape[2]
    n_frequencies = scales.shape[0]
    for g in prange(x.shape[0]):
        buffer = np.empty((padded, LANES), np.float32)
        for block in range(signs.shape[0]):
            signed_transform(x[g], signs[block, 0], buffer)
            signed_transform(buffer, signs[block, 1], buffer)
            signed_transform(buffer, signs[block, 2], buffer)
            start = block * padded
            count = min(padded, n_frequencies - start)
            waves(buffer[:count], scales, offsets, amplitude, n_sines, start, out[g])


@njit(nogil=True, cache=True, parallel=True)
def fastfood(
    x: F32,
    signs: F32,
    permutations: I32,
    normals: F32,
    scales: F32,
    offsets: F32,
    amplitude: float,
    n_sines: int,
    out: F32,
) -> None:
    """Write the waves of ``H G P H B x``, block by block.

    Parameters
    ----------
    x : (groups, d, 16) float32
    signs : (blocks, d) float32 of +-1, the diagonals B
    permutations : (blocks, padded) int32; row j of ``P a`` is row ``permutations[j]`` of a
    normals : (blocks, padded) float32, the diagonals G
    scales, offsets, amplitude, n_sines : see `waves`
    out : (groups, >= n_components, 16) float32
    """
    padded = normals.shape[1]
    n_frequencies = scales.shape[0]
    for g in prange(x.shape[0]):
        mixed = np.empty((padded, LANES), np.float32)
        buffer = np.empty((padded, LANES), np.float32)
        for block in range(signs.shape[0]):
            signed_transform(x[g], signs[block], mixed)
            for j in range(padded):
                scale_row(mixed, permutations[block, j], normals[block, j], buffer, j)
            fwht(buffer)
            start = block * padded
            count = min(padded, n_frequencies - start)
            waves(buffer[:count], scales, offsets, amplitude, n_sines, start, out[g])
