"""Products of dense matrices with lanes: sixteen rows side by side, as in `lanes`.

BLAS gives a row other bits at another place of a product, by the kernels that it picks for the
processor (OpenBLAS's for AVX2 do, even in products of one shape). Here every sum is in the order of
the columns and without fused operations, so a row's bits depend on the row and the matrix alone, on
any processor. One that has pipes for sums beside those for products loses nothing by that.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import njit, prange
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from streamrf.jit.arrays import F32, F64, Features
from streamrf.jit.instructions import cpu_features

LANES = 16
TILE_GROUPS = 8  # of lanes that a task takes: rows of the matrix are read from memory once for all
ROWS = 8 if "avx512f" in cpu_features() else 4  # of the matrix, whose sums the registers hold
TASK_ROWS = 256  # of the matrix that a task takes


def _make_sums() -> Any:
    """Make ``f(matrix, i, x, g, sums)``: ``sums[r] = matrix[i + r] @ x[g]`` for `ROWS` rows.

    matrix : (m, d) float32 or float64; past its last row, the last row once more
    x, sums : (groups, d, 16) and (ROWS, 16) of the same dtype
    """
    if numba.config.DISABLE_JIT:

        def plain(matrix: Features, i: int, x: Features, g: int, sums: Features) -> None:
            sums[:] = 0
            rows = matrix[np.minimum(np.arange(i, i + ROWS), len(matrix) - 1)]
            for column, lanes in zip(rows.T, x[g], strict=True):
                sums += column[:, np.newaxis] * lanes

        return plain

    @intrinsic
    def compiled(typingctx: Any, matrix: Any, i: Any, x: Any, g: Any, sums: Any) -> Any:
        if {(array.layout, array.dtype) for array in (matrix, x, sums)} != {("C", matrix.dtype)}:
            raise TypingError("dense products take arrays in the order of C, of one dtype")
        signature = types.void(matrix, types.intp, x, types.intp, sums)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            a, lanes, out = (
                cgutils.create_struct_proxy(signature.args[k])(context, builder, value=args[k])
                for k in (0, 2, 4)
            )
            is_single = signature.args[0].dtype == types.float32
            number = ir.FloatType() if is_single else ir.DoubleType()
            word, vector = ir.IntType(64), ir.VectorType(number, LANES)
            last = builder.sub(builder.extract_value(a.shape, 0), word(1))
            d = builder.extract_value(a.shape, 1)
            rows = []
            for r in range(ROWS):
                row = builder.add(args[1], word(r))
                row = builder.select(builder.icmp_signed("<", row, last), row, last)
                rows.append(builder.gep(a.data, [builder.mul(row, d)]))
            group = builder.gep(lanes.data, [builder.mul(args[3], builder.mul(d, word(LANES)))])
            group = builder.bitcast(group, vector.as_pointer())
            before = builder.block
            loop = builder.append_basic_block("columns")
            after = builder.append_basic_block("after")
            builder.branch(loop)
            builder.position_at_end(loop)
            column = builder.phi(word)
            column.add_incoming(word(0), before)
            totals = [builder.phi(vector) for _ in rows]
            values = builder.load(builder.gep(group, [column]), align=4)
            following = builder.add(column, word(1))
            for total, row in zip(totals, rows, strict=True):
                factor = builder.load(builder.gep(row, [column]))
                one = builder.insert_element(
                    ir.Constant(vector, ir.Undefined), factor, ir.IntType(32)(0)
                )
                mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
                factors = builder.shuffle_vector(one, one, mask)
                added = builder.fadd(total, builder.fmul(factors, values))
                total.add_incoming(ir.Constant(vector, [0.0] * LANES), before)
                total.add_incoming(added, loop)
            column.add_incoming(following, loop)
            builder.cbranch(builder.icmp_signed("<", following, d), loop, after)
            builder.position_at_end(after)
            target = builder.bitcast(out.data, vector.as_pointer())
            for r, total in enumerate(totals):
                value = total.incomings[1][0]
                builder.store(value, builder.gep(target, [word(r)]), align=4)
            return context.get_dummy_value()

        return signature, codegen

    return compiled


_sums = _make_sums()


@njit(nogil=True, cache=True)
def _project(
    matrix: Features,
    scales: Features,
    x: Features,
    groups: tuple[int, int],
    rows: tuple[int, int],
    first: int,
    times: bool,
    out: Features,
) -> None:
    """Do what `project` says for some groups and some rows of the matrix."""
    sums = np.empty((ROWS, LANES), matrix.dtype)
    for i in range(rows[0], rows[1], ROWS):
        for g in range(groups[0], groups[1]):
            _sums(matrix, i, x, g, sums)
            for r in range(min(ROWS, rows[1] - i)):
                scale = scales[i + r]
                for lane in range(LANES):
                    value = scale * sums[r, lane]
                    if times:
                        value *= out[g, first + i + r, lane]
                    out[g, first + i + r, lane] = value


@njit(nogil=True, cache=True, parallel=True)
def project(
    matrix: Features, scales: Features, x: Features, first: int, times: bool, out: Features
) -> None:
    """``out[g, first + i] = scales[i] * (matrix[i] @ x[g])``, or ``*=`` that.

    Parameters
    ----------
    matrix : (m, d) float32 or float64, d of at least 1
    scales : (m,) of the same dtype
    x : (groups, d, 16) of the same dtype
    first : row of `out` where the first product goes
    times : bool, multiply what is there
    out : (groups, >= first + m, 16) float32 or float64
    """
    m, n_groups = matrix.shape[0], x.shape[0]
    n_tiles = (n_groups + TILE_GROUPS - 1) // TILE_GROUPS
    for task in prange(n_tiles * ((m + TASK_ROWS - 1) // TASK_ROWS)):
        row, group = np.int64(task) // n_tiles * TASK_ROWS, np.int64(task) % n_tiles * TILE_GROUPS
        groups = (group, min(group + TILE_GROUPS, n_groups))
        rows = (row, min(row + TASK_ROWS, m))
        _project(matrix, scales, x, groups, rows, first, times, out)


def inner_products(X: F64, Y: F64) -> F64:
    """Return ``X @ Y.T`` for X (n, d) and Y (m, d) float64, by the calling thread alone."""
    if X.ndim != 2 or X.shape[1:] != Y.shape[1:]:
        raise ValueError(f"rows of shapes {X.shape} and {Y.shape} have no inner products")
    found = np.zeros((len(X), len(Y)))
    if found.size and X.shape[1]:
        _multiply(np.ascontiguousarray(X), np.ascontiguousarray(Y), found)
    return found


@njit(nogil=True, cache=True)
def _multiply(X: F64, Y: F64, found: F64) -> None:
    n, m, d = X.shape[0], Y.shape[0], Y.shape[1]
    ones = np.ones(n)
    x, out = np.zeros((TILE_GROUPS, d, LANES)), np.empty((TILE_GROUPS, n, LANES))
    for start in range(0, m, TILE_GROUPS * LANES):
        stop = min(start + TILE_GROUPS * LANES, m)
        for i in range(start, stop):
            for j in range(d):
                x[(i - start) // LANES, j, (i - start) % LANES] = Y[i, j]
        n_groups = (stop - start + LANES - 1) // LANES
        _project(X, ones, x, (0, n_groups), (0, n), 0, False, out)
        for k in range(n):
            for i in range(start, stop):
                found[k, i] = out[(i - start) // LANES, k, (i - start) % LANES]


@njit(nogil=True, cache=True, parallel=True)
def transform(x: F32, matrix: F32) -> None:
    """``x[g] = matrix @ x[g]`` for lanes x (groups, d, 16) and a matrix (d, d), both float32."""
    d = matrix.shape[0]
    for g in prange(x.shape[0]):
        rows = np.empty((1, d, LANES), np.float32)
        for j in range(d):  # an assignment of slices takes seconds to compile
            for lane in range(LANES):
                rows[0, j, lane] = x[g, j, lane]
        sums = np.empty((ROWS, LANES), np.float32)
        for i in range(0, d, ROWS):
            _sums(matrix, i, rows, 0, sums)
            for r in range(min(ROWS, d - i)):
                for lane in range(LANES):
                    x[g, i + r, lane] = sums[r, lane]
