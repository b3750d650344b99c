"""Walsh-Hadamard transforms and the maps made of them, on lanes.

Sixteen rows are side by side, ``(length, 16)`` float32, so that a butterfly is a whole vector.
Loops have a fixed order and no fast-math, so a row's features do not depend on its neighbours, its
lane or the threads. All kernels that call the transform share this file, because Numba's cache does
not see a change in another file.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import njit, prange
from numba.core import cgutils, types
from numba.extending import intrinsic, register_jitable

from streamrf.jit.arrays import F32, I32, I64

LANES = 16

# Rows of 64 bytes: 256 of them fill half a 32 KiB first-level cache, 4096 half a 512 KiB second
# level. Measured on two cores at 2^10 to 2^17: 37 to 55 Gadd/s (plain radix-2 loops: 14).
INNER = 256
MIDDLE = 4096

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


HALF_ROW = ir.VectorType(ir.FloatType(), LANES // 2)  # two fill the registers of AVX2 at radix 8


def _splat(builder: Any, number: Any) -> Any:
    """Return a vector of one number."""
    index = ir.VectorType(ir.IntType(32), LANES // 2)
    nothing = ir.Constant(HALF_ROW, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.IntType(32)(0))
    return builder.shuffle_vector(one, nothing, ir.Constant(index, None))


def _butterfly(log2_radix: int, signed: bool) -> Any:
    """Make ``f(a, first, stride)``: transform the rows ``first + r * stride`` of `a`, in place.

    Written as vector instructions because LLVM cannot prove that the rows of one array do not
    overlap and so leaves a plain loop scalar. Two halves of 8 lanes: radix 8 then fits the sixteen
    vector registers of AVX2.

    Parameters
    ----------
    log2_radix : of the number of rows
    signed : make ``f(x, signs, a, first, stride)`` instead, which takes rows of ``diag(signs) x``,
        zeros below its end, and writes those of `a`: flips that are no pass of their own
    """
    radix = 1 << log2_radix

    if numba.config.DISABLE_JIT:

        def plain(a: F32, first: int, stride: int) -> None:
            rows = a[first : first + (radix - 1) * stride + 1 : stride]
            for level in range(log2_radix):
                half = 1 << level
                pairs = rows.reshape(radix // (2 * half), 2, half, LANES)
                rows = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1)
                rows = rows.reshape(radix, LANES)
            a[first : first + (radix - 1) * stride + 1 : stride] = rows

        def flipped(x: F32, signs: F32, a: F32, first: int, stride: int) -> None:
            for row in range(first, first + radix * stride, stride):
                a[row] = x[row] * signs[row] if row < len(x) else 0
            plain(a, first, stride)

        return flipped if signed else plain

    word = ir.IntType(64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def data_of(n: int) -> Any:
            array = cgutils.create_struct_proxy(signature.args[n])(context, builder, value=args[n])
            return array.data, array.shape

        target, _ = data_of(len(args) - 3)
        first, stride = args[-2:]
        numbers = [builder.add(first, builder.mul(stride, word(r))) for r in range(radix)]
        inside, factors = [], []
        if signed:
            (source, shape), (signs, _) = data_of(0), data_of(1)
            end = builder.extract_value(shape, 0)
            for row in numbers:
                inside.append(builder.icmp_signed("<", row, end))
                sign = builder.load(builder.gep(signs, [builder.select(inside[-1], row, word(0))]))
                factors.append(_splat(builder, sign))
        for half in range(2):

            def pointer(array: Any, row: Any, half: int = half) -> Any:
                index = builder.add(builder.mul(row, word(LANES)), word(half * LANES // 2))
                return builder.bitcast(builder.gep(array, [index]), HALF_ROW.as_pointer())

            pointers = [pointer(target, row) for row in numbers]
            if signed:
                rows = []
                for row, is_row, flips in zip(numbers, inside, factors, strict=True):
                    safe = pointer(source, builder.select(is_row, row, word(0)))
                    value = builder.fmul(builder.load(safe, align=4), flips)
                    rows.append(builder.select(is_row, value, ir.Constant(HALF_ROW, None)))
            else:
                rows = [builder.load(each, align=4) for each in pointers]
            for level in range(log2_radix):
                step = 1 << level
                for r in range(radix):
                    if not r & step:
                        low, high = rows[r], rows[r + step]
                        rows[r] = builder.fadd(low, high)
                        rows[r + step] = builder.fsub(low, high)
            for each, row in zip(pointers, rows, strict=True):
                builder.store(row, each, align=4)
        return context.get_dummy_value()

    @intrinsic
    def in_place(typingctx: Any, a: Any, first: Any, stride: Any) -> Any:
        return types.void(a, types.intp, types.intp), codegen

    @intrinsic
    def from_rows(typingctx: Any, x: Any, signs: Any, a: Any, first: Any, stride: Any) -> Any:
        return types.void(x, signs, a, types.intp, types.intp), codegen

    return from_rows if signed else in_place


def _row_product(by_row: bool) -> Any:
    """Make ``f(a, i, factor, out, k)``, ``out[k] = a[i] * factor``, as vector instructions.

    By plain loops, which stay scalar as above, a product of rows took 8.3 ns; it takes 3.4.

    Parameters
    ----------
    by_row : make ``f(a, i, b, j, out, k)``, ``out[k] = a[i] * b[j]``, instead
    """
    if numba.config.DISABLE_JIT:

        def scaled(a: F32, i: int, factor: np.float32, out: F32, k: int) -> None:
            out[k] = a[i] * factor

        def multiplied(a: F32, i: int, b: F32, j: int, out: F32, k: int) -> None:
            out[k] = a[i] * b[j]

        return multiplied if by_row else scaled

    def halves(context: Any, builder: Any, array: Any, data: Any, row: Any) -> list[Any]:
        """Return pointers to the two halves of a row."""
        first = cgutils.create_struct_proxy(array)(context, builder, value=data).data
        start = builder.gep(first, [builder.mul(row, ir.IntType(64)(LANES))])
        start = builder.bitcast(start, HALF_ROW.as_pointer())
        return [builder.gep(start, [ir.IntType(32)(half)]) for half in range(2)]

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = [
            halves(context, builder, signature.args[n], args[n], args[n + 1])
            for n in ((0, 2, 4) if by_row else (0, 3))
        ]
        if by_row:
            factors = [builder.load(half, align=4) for half in rows[1]]
        else:
            factors = 2 * [_splat(builder, args[2])]
        values = [builder.load(half, align=4) for half in rows[0]]
        for value, factor, half in zip(values, factors, rows[-1], strict=True):
            builder.store(builder.fmul(value, factor), half, align=4)
        return context.get_dummy_value()

    @intrinsic
    def by_number(typingctx: Any, a: Any, i: Any, factor: Any, out: Any, k: Any) -> Any:
        return types.void(a, types.intp, types.float32, out, types.intp), codegen

    @intrinsic
    def by_rows(typingctx: Any, a: Any, i: Any, b: Any, j: Any, out: Any, k: Any) -> Any:
        return types.void(a, types.intp, b, types.intp, out, types.intp), codegen

    return by_rows if by_row else by_number


_butterfly2, _butterfly4, _butterfly8 = (_butterfly(n, signed=False) for n in (1, 2, 3))
_signed2, _signed4, _signed8 = (_butterfly(n, signed=True) for n in (1, 2, 3))
_scale_row = _row_product(by_row=False)
_multiply_rows = _row_product(by_row=True)


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
                    _butterfly8(a, i, stride)
            elif radix == 4:
                for i in range(block, block + stride):
                    _butterfly4(a, i, stride)
            else:
                for i in range(block, block + stride):
                    _butterfly2(a, i, stride)
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
def _signed_transform(x: F32, signs: F32, buffer: F32) -> None:
    """``buffer = H diag(signs) x``, with x zero-padded to the length of the buffer.

    They may be the same rows. Flips and zeros belong to the first pass, which is as in `fwht`.
    """
    n = buffer.shape[0]
    stop = MIDDLE if n > MIDDLE else INNER if n > INNER else 1
    radix = _radix(n // stop)
    stride = n // radix
    if radix == 8:
        for i in range(stride):
            _signed8(x, signs, buffer, i, stride)
    elif radix == 4:
        for i in range(stride):
            _signed4(x, signs, buffer, i, stride)
    elif n > 1:
        for i in range(stride):
            _signed2(x, signs, buffer, i, stride)
    else:
        _scale_row(x, 0, signs[0], buffer, 0)
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
            _signed_transform(x[g], signs[t], out[g, t * padded : (t + 1) * padded])


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
                _signed_transform(x[g], signs[transform], buffer)
                transform += 1
                for i in range(start, stop):
                    if degrees[i] <= level:
                        break
                    row = indices[factor]
                    factor += 1
                    if level == 0:
                        _scale_row(buffer, row, scales[i], out[g], first + i)
                    else:
                        _multiply_rows(out[g], first + i, buffer, row, out[g], first + i)


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
                _signed_transform(x[g], signs[transform, 0], real)
                _signed_transform(x[g], signs[transform, 1], imaginary)
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
                _signed_transform(child, signs[sign : sign + length], buffer)
                sign += length
            length = steps[node, 5]
            factor = np.float32(1 / np.sqrt(length))
            result = out[g] if node == n_nodes - 1 else slots[steps[node, 4]]
            for k in range(length):
                i = indices[pair, 0]
                j = indices[pair, 1]
                pair += 1
                _multiply_rows(left, i, right, j, result, k)
                _scale_row(result, k, factor, result, k)


@njit(nogil=True, cache=True, parallel=True)
def subsampled(z: F32, signs: F32, indices: I32, scale: float, out: F32) -> None:
    """``out[k] = scale * (H diag(signs) z)[indices[k]]``; z (groups, padded, 16) is overwritten.

    Rows of z beyond ``len(signs)`` count as zero, whatever they hold.
    """
    d = signs.shape[0]
    for g in prange(z.shape[0]):
        _signed_transform(z[g, :d], signs, z[g])
        for k in range(indices.shape[0]):
            _scale_row(z[g], indices[k], scale, out[g], k)


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
            _signed_transform(x[g], signs[block, 0], buffer)
            _signed_transform(buffer, signs[block, 1], buffer)
            _signed_transform(buffer, signs[block, 2], buffer)
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
            _signed_transform(x[g], signs[block], mixed)
            for j in range(padded):
                _scale_row(mixed, permutations[block, j], normals[block, j], buffer, j)
            fwht(buffer)
            start = block * padded
            count = min(padded, n_frequencies - start)
            waves(buffer[:count], scales, offsets, amplitude, n_sines, start, out[g])
