"""Walsh-Hadamard transforms and the maps made of them, on lanes.

Sixteen rows stand side by side, ``(length, 16)`` float32, so that a butterfly is a whole vector.
Loops have a fixed order and no fast-math, so a row's features do not depend on its neighbours, its
lane or the threads. All kernels that call the transform share this file, because Numba's cache does
not see a change in another file.
"""

import numba
import numpy as np
from llvmlite import ir
from numba import njit, prange
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 16

# Rows of 64 bytes: 256 of them fill half a 32 KiB first-level cache, 4096 half a 512 KiB second
# level. Measured on two cores at 2^10 to 2^17: 37 to 55 Gadd/s (plain radix-2 loops: 14).
INNER = 256
MIDDLE = 4096


def _butterfly(log2_radix):
    """Make ``f(a, first, stride)``: transform the rows ``first + r * stride`` of `a`, in place.

    Written as vector instructions because LLVM cannot prove that the rows of one array do not
    overlap and so leaves a plain loop scalar. Two halves of 8 lanes: radix 8 then fits the sixteen
    vector registers of AVX2.
    """
    radix = 1 << log2_radix

    if numba.config.DISABLE_JIT:

        def plain(a, first, stride):
            rows = a[first : first + (radix - 1) * stride + 1 : stride]
            for level in range(log2_radix):
                half = 1 << level
                pairs = rows.reshape(radix // (2 * half), 2, half, LANES)
                rows = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1)
                rows = rows.reshape(radix, LANES)
            a[first : first + (radix - 1) * stride + 1 : stride] = rows

        return plain

    @intrinsic
    def compiled(typingctx, a, first, stride):
        signature = types.void(a, types.intp, types.intp)

        def codegen(context, builder, signature, args):
            array = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=args[0])
            vector = ir.VectorType(ir.FloatType(), LANES // 2).as_pointer()
            lanes = ir.Constant(ir.IntType(64), LANES)
            for half in range(2):
                pointers = []
                for r in range(radix):
                    row = builder.add(args[1], builder.mul(args[2], ir.Constant(ir.IntType(64), r)))
                    index = builder.add(
                        builder.mul(row, lanes), ir.Constant(ir.IntType(64), half * LANES // 2)
                    )
                    pointers.append(builder.bitcast(builder.gep(array.data, [index]), vector))
                rows = [builder.load(pointer, align=4) for pointer in pointers]
                for level in range(log2_radix):
                    step = 1 << level
                    for r in range(radix):
                        if not r & step:
                            low, high = rows[r], rows[r + step]
                            rows[r] = builder.fadd(low, high)
                            rows[r + step] = builder.fsub(low, high)
                for pointer, row in zip(pointers, rows, strict=True):
                    builder.store(row, pointer, align=4)
            return context.get_dummy_value()

        return signature, codegen

    return compiled


def _row_product():
    """Make ``f(a, i, factor, out, k)``: ``out[k] = a[i] * factor``, as vector instructions.

    Sign flips by plain loops took longer than the transform that follows (5.8 against 3.8 us at
    1024; 1.7 us so).
    """
    if numba.config.DISABLE_JIT:

        def plain(a, i, factor, out, k):
            out[k] = a[i] * factor

        return plain

    @intrinsic
    def compiled(typingctx, a, i, factor, out, k):
        signature = types.void(a, types.intp, types.float32, out, types.intp)

        def codegen(context, builder, signature, args):
            vector = ir.VectorType(ir.FloatType(), LANES // 2)
            factors = ir.Constant(vector, ir.Undefined)
            for lane in range(LANES // 2):
                place = ir.Constant(ir.IntType(32), lane)
                factors = builder.insert_element(factors, args[2], place)
            pointers = []
            for array, row in ((0, 1), (3, 4)):
                proxy = cgutils.create_struct_proxy(signature.args[array])
                data = proxy(context, builder, value=args[array]).data
                first = builder.mul(args[row], ir.Constant(ir.IntType(64), LANES))
                pointers.append(builder.gep(data, [first]))
            sources, targets = (builder.bitcast(p, vector.as_pointer()) for p in pointers)
            for half in range(2):
                place = [ir.Constant(ir.IntType(32), half)]
                product = builder.fmul(builder.load(builder.gep(sources, place), align=4), factors)
                builder.store(product, builder.gep(targets, place), align=4)
            return context.get_dummy_value()

        return signature, codegen

    return compiled


_butterfly2 = _butterfly(1)
_butterfly4 = _butterfly(2)
_butterfly8 = _butterfly(3)
_scale_row = _row_product()


@njit(nogil=True, cache=True)
def _passes(a, first, n_rows, length, stop):
    """Split the stretches of `length` rows in ``a[first:first+n_rows]`` down to `stop` rows."""
    while length > stop:
        ratio = length // stop
        if ratio >= 8 and ratio != 16:
            stride = length // 8
            for block in range(first, first + n_rows, length):
                for i in range(block, block + stride):
                    _butterfly8(a, i, stride)
        elif ratio >= 4:
            stride = length // 4
            for block in range(first, first + n_rows, length):
                for i in range(block, block + stride):
                    _butterfly4(a, i, stride)
        else:
            stride = length // 2
            for block in range(first, first + n_rows, length):
                for i in range(block, block + stride):
                    _butterfly2(a, i, stride)
        length = stride


@njit(nogil=True, cache=True)
def fwht(a):
    """Transform `a` (length, 16) in place: ``a <- H a``, H unnormalised, in Sylvester order.

    Large strides first, over the whole; then depth first, so that each stretch of rows is finished
    while it lies in cache.
    """
    n = a.shape[0]
    middle = min(n, MIDDLE)
    inner = min(n, INNER)
    _passes(a, 0, n, n, middle)
    for i in range(0, n, middle):
        _passes(a, i, middle, middle, inner)
        for j in range(i, i + middle, inner):
            _passes(a, j, inner, inner, 1)


@njit(nogil=True, cache=True, parallel=True)
def fwht_groups(a):
    """Transform each ``a[g]`` of `a` (groups, length, 16) in place."""
    for g in prange(a.shape[0]):
        fwht(a[g])


@njit(nogil=True, cache=True)
def _signed_transform(x, signs, buffer):
    """``buffer = H diag(signs) x``, with x zero-padded to the length of the buffer."""
    d = x.shape[0]
    for j in range(d):
        _scale_row(x, j, signs[j], buffer, j)
    for j in range(d, buffer.shape[0]):
        for lane in range(LANES):
            buffer[j, lane] = 0.0
    fwht(buffer)


@njit(nogil=True, cache=True, parallel=True)
def maclaurin(x, signs, degrees, picks, scales, first, out):
    """Products of Hadamard projections: ``out[first+i] = scales[i] * prod_j (H D x)[picks]``.

    Features stand in blocks as long as the padded row; level j of a block is one transform with
    signs of its own, used by those features of the block whose degree exceeds j. Every factor of a
    feature so comes from another sign diagonal, which keeps the product unbiased, and a block's
    features stay in cache while their levels are multiplied.

    Parameters
    ----------
    x : (groups, d, 16) float32
    signs : (n_transforms, d) float32 of +-1, block by block and level by level
    degrees : (n_random,) int64, descending, all >= 1
    picks : (sum of degrees,) int32, row of the transform that each factor takes
    scales : (n_random,) float32
    first : row of `out` where the first feature goes
    out : (groups, >= first + n_random, 16) float32
    """
    d = x.shape[1]
    padded = 1
    while padded < d:
        padded *= 2
    n_random = degrees.shape[0]
    for g in prange(x.shape[0]):
        buffer = np.empty((padded, LANES), np.float32)
        transform = 0
        pick = 0
        for start in range(0, n_random, padded):
            stop = min(start + padded, n_random)
            for level in range(degrees[start]):
                _signed_transform(x[g], signs[transform], buffer)
                transform += 1
                for i in range(start, stop):
                    if degrees[i] <= level:
                        break
                    row = picks[pick]
                    pick += 1
                    if level == 0:
                        _scale_row(buffer, row, scales[i], out[g], first + i)
                    else:
                        for lane in range(LANES):
                            out[g, first + i, lane] *= buffer[row, lane]


@njit(nogil=True, cache=True, parallel=True)
def subsampled(z, signs, picks, scale, out):
    """``out[k] = scale * (H diag(signs) z)[picks[k]]``; z (groups, padded, 16) is overwritten.

    Rows of z beyond ``len(signs)`` count as zero, whatever they hold.
    """
    d = signs.shape[0]
    for g in prange(z.shape[0]):
        _signed_transform(z[g, :d], signs, z[g])
        for k in range(picks.shape[0]):
            _scale_row(z[g], picks[k], scale, out[g], k)
