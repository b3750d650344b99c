"""Walsh-Hadamard transforms and the products made of them, on lanes.

Loops have a fixed order and no fast-math, so a row's features do not depend on its neighbours, its
lane or the threads.
"""

import numpy as np
from numba import njit, prange
from numba.extending import register_jitable

from streamrf.jit.arrays import F32, I32, I64
from streamrf.jit.butterflies import (
    LANES,
    butterfly2,
    butterfly4,
    butterfly8,
    multiply_rows,
    scale_row,
    signed2,
    signed4,
    signed8,
)

# Rows of 64 bytes: 256 of them fill half a 32 KiB first-level cache, 4096 half a 512 KiB second
# level. Measured on two cores at 2^10 to 2^17: 37 to 55 Gadd/s (plain radix-2 loops: 14).
INNER = 256
MIDDLE = 4096


@register_jitable
def _radix(ratio: int) -> int:
    """Return the radix of the first pass of those that divide a length by `ratio`."""
    if ratio >= 8 and ratio != 16:
        return 8
    return 4 if ratio >= 4 else 2


@njit(nogil=True, cache=True)
def _passes(a: F32, first: int, n_rows: int, length: int, stop: int) -> None:
    """Split the stretches of `length` rows in ``a[first:first+n_rows]`` down to `stop` rows."""
    while length > stop:
        radix = _radix(length // stop)
        stride = length // radix
        for block in range(first, first + n_rows, length):
            if radix == 8:
                for i in range(block, block + stride):
                    butterfly8(a, i, stride)
            elif radix == 4:
                for i in range(block, block + stride):
                    butterfly4(a, i, stride)
            else:
                for i in range(block, block + stride):
                    butterfly2(a, i, stride)
        length = stride


@njit(nogil=True, cache=True)
def _rest(a: F32, length: int) -> None:
    """Finish a transform of `a` that has come to stretches of `length` rows, all alike.

    Large strides first, over the whole; then depth first, so that each stretch of rows is finished
    while it lies in cache.
    """
    n = a.shape[0]
    _passes(a, 0, n, length, min(n, MIDDLE))
    middle = min(length, MIDDLE)
    for i in range(0, n, middle):
        _passes(a, i, middle, middle, min(middle, INNER))
        inner = min(middle, INNER)
        for j in range(i, i + middle, inner):
            _passes(a, j, inner, inner, 1)


@njit(nogil=True, cache=True)
def fwht(a: F32) -> None:
    """Transform `a` (length, 16) in place: ``a <- H a``, H unnormalised, in Sylvester order."""
    _rest(a, a.shape[0])


@njit(nogil=True, cache=True, parallel=True)
def fwht_groups(a: F32) -> None:
    """Transform each ``a[g]`` of `a` (groups, length, 16) in place."""
    for g in prange(a.shape[0]):
        fwht(a[g])


@njit(nogil=True, cache=True)
def signed_transform(x: F32, signs: F32, buffer: F32) -> None:
    """``buffer = H diag(signs) x``, with x zero-padded to the length of the buffer.

    They may be the same rows. Flips and zeros belong to the first pass, which is as in `fwht`.
    """
    n = buffer.shape[0]
    stop = MIDDLE if n > MIDDLE else INNER if n > INNER else 1
    radix = _radix(n // stop)
    stride = n // radix
    if radix == 8:
        for i in range(stride):
            signed8(x, signs, buffer, i, stride)
    elif radix == 4:
        for i in range(stride):
            signed4(x, signs, buffer, i, stride)
    elif n > 1:
        for i in range(stride):
            signed2(x, signs, buffer, i, stride)
    else:
        scale_row(x, 0, signs[0], buffer, 0)
    _rest(buffer, max(stride, 1))


@register_jitable
def padded_length(length: int) -> int:
    """Return the smallest power of two that is not below `length`, for rows of a transform."""
    padded = 1
    while padded < length:
        padded *= 2
    return padded


@njit(nogil=True, cache=True, parallel=True)
def transforms(x: F32, signs: F32, out: F32) -> None:
    """Set ``out[g] = (H D_1 x[g], H D_2 x[g], ...)``, one below the other.

    Parameters
    ----------
    x : (groups, d, 16) float32
    signs : (n_transforms, d) float32 of +-1, the diagonals D
    out : (groups, n_transforms * padded, 16) float32, padded the power of two from d
    """
    padded = padded_length(x.shape[1])
    for g in prange(x.shape[0]):
        for t in range(signs.shape[0]):
            signed_transform(x[g], signs[t], out[g, t * padded : (t + 1) * padded])


@njit(nogil=True, cache=True, parallel=True)
def maclaurin(
    x: F32, signs: F32, degrees: I64, indices: I32, scales: F32, first: int, out: F32
) -> None:
    """Products of Hadamard projections: ``out[first+i] = scales[i] * prod_j (H D x)[indices]``.

    Features are in blocks as long as the padded row; level j of a block is one transform with
    signs of its own, used by those features of the block whose degree exceeds j. Every factor of a
    feature so comes from another sign diagonal, which keeps the product unbiased, and a block's
    features stay in cache while their levels are multiplied.

    Parameters
    ----------
    x : (groups, d, 16) float32
    signs : (n_transforms, d) float32 of +-1, block by block and level by level
    degrees : (n_random,) int64, descending, all >= 1
    indices : (sum of degrees,) int32, row of the transform that each factor takes
    scales : (n_random,) float32
    first : row of `out` where the first feature goes
    out : (groups, >= first + n_random, 16) float32
    """
    padded = padded_length(x.shape[1])
    n_random = degrees.shape[0]
    for g in prange(x.shape[0]):
        buffer = np.empty((padded, LANES), np.float32)
        transform = 0
        factor = 0
        for start in range(0, n_random, padded):
            stop = min(start + padded, n_random)
            for level in range(degrees[start]):
                signed_transform(x[g], signs[transform], buffer)
                transform += 1
                for i in range(start, stop):
                    if degrees[i] <= level:
                        break
                    row = indices[factor]
                    factor += 1
                    if level == 0:
                        scale_row(buffer, row, scales[i], out[g], first + i)
                    else:
                        multiply_rows(out[g], first + i, buffer, row, out[g], first + i)


@njit(nogil=True, cache=True, parallel=True)
def maclaurin_complex(
    x: F32, signs: F32, degrees: I64, indices: I32, scales: F32, first: int, out: F32
) -> None:
    """Products as in `maclaurin` with signs of {1, -1, i, -i}: two features for each.

    Parameters
    ----------
    x, degrees, indices : see `maclaurin`
    signs : (n_transforms, 2, d) float32, real and imaginary parts, +-1 or 0
    scales : (>= 2 n_products - 1,) float32, equal for the parts of a product
    first : row of `out` where the first product goes, its real part before its imaginary part
    out : (groups, >= first + 2 n_products - 1, 16) float32; the last imaginary part is left out if
        there is no scale for it
    """
    padded = padded_length(x.shape[1])
    n_products = degrees.shape[0]
    for g in prange(x.shape[0]):
        real = np.empty((padded, LANES), np.float32)
        imaginary = np.empty((padded, LANES), np.float32)
        product = np.empty((padded, 2, LANES), np.float32)
        transform = 0
        factor = 0
        for start in range(0, n_products, padded):
            stop = min(start + padded, n_products)
            for level in range(degrees[start]):
                signed_transform(x[g], signs[transform, 0], real)
                signed_transform(x[g], signs[transform, 1], imaginary)
                transform += 1
                for i in range(start, stop):
                    if degrees[i] <= level:
                        break
                    row = indices[factor]
                    factor += 1
                    if level == 0:
                        for lane in range(LANES):
                            product[i - start, 0, lane] = real[row, lane] * scales[2 * i]
                            product[i - start, 1, lane] = imaginary[row, lane] * scales[2 * i]
                        continue
                    for lane in range(LANES):
                        a = product[i - start, 0, lane]
                        b = product[i - start, 1, lane]
                        c = real[row, lane]
                        e = imaginary[row, lane]
                        product[i - start, 0, lane] = a * c - b * e
                        product[i - start, 1, lane] = a * e + b * c
            for i in range(start, stop):
                for part in range(min(2, scales.shape[0] - 2 * i)):
                    for lane in range(LANES):
                        out[g, first + 2 * i + part, lane] = product[i - start, part, lane]


@njit(nogil=True, cache=True, parallel=True)
def tensor_tree(
    x: F32, scale: float, constant: float, signs: F32, steps: I64, indices: I32, out: F32
) -> None:
    """Sketches of tensor products, node by node: ``(H D u)[i] * (H D' w)[j] / sqrt(length)``.

    Parameters
    ----------
    x : (groups, d, 16) float32
    scale, constant : float32; the row is ``(scale x, constant)``, without the constant if it is 0
    signs : (sum of the children's lengths,) float32 of +-1, node by node, left before right
    steps : (n_nodes, 6) int64: slots of the left and right child (-1: the row), their lengths, slot
        and length of the result; the last result goes to `out`
    indices : (sum of the results' lengths, 2) int32, node by node, the pair (i, j) of each number
    out : (groups, >= length of the last result, 16) float32
    """
    d = x.shape[1]
    n_nodes = steps.shape[0]
    length, n_slots = 0, 0
    for node in range(n_nodes):
        length = max(length, steps[node, 2], steps[node, 3])
        n_slots = max(n_slots, steps[node, 4] + 1)
    longest = padded_length(length)
    for g in prange(x.shape[0]):
        row = np.empty((d + 1, LANES), np.float32)
        for j in range(d):
            for lane in range(LANES):
                row[j, lane] = scale * x[g, j, lane]
        for lane in range(LANES):
            row[d, lane] = constant
        left = np.empty((longest, LANES), np.float32)
        right = np.empty((longest, LANES), np.float32)
        slots = np.empty((n_slots, longest, LANES), np.float32)
        sign = 0
        pair = 0
        for node in range(n_nodes):
            for side in range(2):
                slot = steps[node, side]
                length = steps[node, 2 + side]
                padded = padded_length(length)
                child = row[:length] if slot < 0 else slots[slot, :length]
                buffer = left[:padded] if side == 0 else right[:padded]
                signed_transform(child, signs[sign : sign + length], buffer)
                sign += length
            length = steps[node, 5]
            factor = np.float32(1 / np.sqrt(length))
            result = out[g] if node == n_nodes - 1 else slots[steps[node, 4]]
            for k in range(length):
                i = indices[pair, 0]
                j = indices[pair, 1]
                pair += 1
                multiply_rows(left, i, right, j, result, k)
                scale_row(result, k, factor, result, k)


@njit(nogil=True, cache=True, parallel=True)
def subsampled(z: F32, signs: F32, indices: I32, scale: float, out: F32) -> None:
    """``out[k] = scale * (H diag(signs) z)[indices[k]]``; z (groups, padded, 16) is overwritten.

    Rows of z beyond ``len(signs)`` count as zero, whatever they hold.
    """
    d = signs.shape[0]
    for g in prange(z.shape[0]):
        signed_transform(z[g, :d], signs, z[g])
        for k in range(indices.shape[0]):
            scale_row(z[g], indices[k], scale, out[g], k)
