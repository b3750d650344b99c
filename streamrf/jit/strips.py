"""Products of strips of matrices that the registers hold, in float32 or float64."""

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from streamrf.jit.instructions import cpu_features

IS_WIDE = "avx512f" in cpu_features()
HAS_FMA = IS_WIDE or "fma" in cpu_features()
ROWS = 8 if IS_WIDE else 6  # of a strip, whose sums the registers hold
LANE_BYTES = 128 if IS_WIDE else 64  # of each, in two registers


def are_compiled() -> bool:
    """Return whether loops may take these products: they have no other form."""
    return HAS_FMA and not numba.config.DISABLE_JIT


@intrinsic
def add(
    typingctx: Any,
    a: Any,
    i: Any,
    by_depth: Any,
    by_row: Any,
    b: Any,
    j: Any,
    depth: Any,
    sums: Any,
    k: Any,
) -> Any:
    """``sums[k:] += a[i:]^T b[j:]`` of flat arrays; never called where loops are not compiled.

    With shapes (depth, ROWS), (depth, lanes) and (ROWS, lanes) from those places on: numbers of `a`
    lie `by_depth` and `by_row` apart, those of the others one after the other.
    """
    return _product(LANE_BYTES, a, b, sums)


@intrinsic
def add_few(
    typingctx: Any,
    a: Any,
    i: Any,
    by_depth: Any,
    by_row: Any,
    b: Any,
    j: Any,
    depth: Any,
    sums: Any,
    k: Any,
) -> Any:
    """Do what `add` does for half of the lanes, to the same bits: one register each."""
    return _product(LANE_BYTES // 2, a, b, sums)


def _product(lane_bytes: int, a: Any, b: Any, sums: Any) -> tuple[Any, Any]:
    """Return the signature and the code of `add` for lanes of so many bytes."""
    if {(array.layout, array.dtype) for array in (a, b, sums)} != {("C", a.dtype)}:
        raise TypingError("products of strips take arrays in the order of C, of one dtype")
    at = types.intp
    signature = types.void(a, at, at, at, b, at, at, sums, at)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        left, right, out = (
            builder.gep(
                cgutils.create_struct_proxy(signature.args[n])(
                    context, builder, value=args[n]
                ).data,
                [args[n + 1]],
            )
            for n in (0, 4, 7)
        )
        is_single = signature.args[0].dtype == types.float32
        number = ir.FloatType() if is_single else ir.DoubleType()
        align = 4 if is_single else 8
        lanes = lane_bytes // align
        word, vector = ir.IntType(64), ir.VectorType(number, lanes)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        fused = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(vector, [vector] * 3),
            f"llvm.fma.v{lanes}f{8 * align}",
        )
        right, out = (builder.bitcast(p, vector.as_pointer()) for p in (right, out))
        before = builder.block
        loop = builder.append_basic_block("depth")
        after = builder.append_basic_block("after")
        builder.branch(loop)
        builder.position_at_end(loop)
        step = builder.phi(word)
        step.add_incoming(word(0), before)
        totals = [builder.phi(vector) for _ in range(ROWS)]
        values = builder.load(builder.gep(right, [step]), align=align)
        following = builder.add(step, word(1))
        row = builder.gep(left, [builder.mul(step, args[2])])
        for r, total in enumerate(totals):
            factor = builder.load(builder.gep(row, [builder.mul(args[3], word(r))]))
            one = builder.insert_element(
                ir.Constant(vector, ir.Undefined), factor, ir.IntType(32)(0)
            )
            factors = builder.shuffle_vector(one, one, everywhere)
            added = builder.call(fused, [factors, values, total])
            total.add_incoming(ir.Constant(vector, [0.0] * lanes), before)
            total.add_incoming(added, loop)
        step.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, args[6]), loop, after)
        builder.position_at_end(after)
        for r, total in enumerate(totals):  # apart, so that errors grow by blocks, not by rows
            place = builder.gep(out, [word(r)])
            added = builder.fadd(builder.load(place, align=align), total.incomings[1][0])
            builder.store(added, place, align=align)
        return context.get_dummy_value()

    return signature, codegen
