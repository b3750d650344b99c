"""Products of 16-bit numbers by AVX2: 32-bit sums, exact while no sum reaches 2^31.

AVX2 multiplies sixteen pairs of 16-bit numbers and adds neighbours in one instruction, twice what
it does in float32. Measured on Zen 3, per core: 120 to 124 GFLOP/s counted as n E^2, where OpenBLAS
`ssfrk` gives 91. The sums are the same numbers, so they are the same bytes.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import njit, prange
from numba.core import cgutils, types
from numba.extending import intrinsic

from streamrf.jit.arrays import F32, F64, I16, I32, Numbers
from streamrf.jit.runs import PART, roots_of_greatest, run_end

ROWS = 16  # rows of a group: one vector of 16-bit numbers
PANEL = 3  # features of a panel: 9 sums and 7 operands fill the sixteen registers of AVX2
DEPTH = 256  # groups multiplied at a time: a panel's 24 KiB stay in the first-level cache
PART_GROUPS = PART // ROWS
BLOCK = 64  # panels of a side of a block, at most: its 2 x 1.5 MiB come from the cache behind


def _make_tile() -> Any:
    """Make ``f(q, a, b, start, groups, out)``: ``out = sum over rows of panel a x panel b``.

    q : (panels, n_groups, 3, 16) int16; rows of ``[start, start + groups)``; out : (9,) int32
    """
    if numba.config.DISABLE_JIT:

        def plain(q: I16, a: int, b: int, start: int, groups: int, out: I32) -> None:
            left, right = q[[a, b], start : start + groups].astype(np.int64)
            out[:] = np.einsum("gik,gjk->ij", left, right).ravel()

        return plain

    @intrinsic
    def compiled(typingctx: Any, q: Any, a: Any, b: Any, start: Any, groups: Any, out: Any) -> Any:
        signature = types.void(q, types.intp, types.intp, types.intp, types.intp, out)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            panels = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=args[0])
            sums = cgutils.create_struct_proxy(signature.args[5])(context, builder, value=args[5])
            word = ir.IntType(64)
            shorts = ir.VectorType(ir.IntType(16), ROWS)
            longs = ir.VectorType(ir.IntType(32), ROWS // 2)
            multiply = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(longs, [shorts, shorts]),
                "llvm.x86.avx2.pmadd.wd",
            )
            base = builder.bitcast(panels.data, ir.IntType(8).as_pointer())
            group_bytes = 2 * ROWS * PANEL

            def panel(index: Any) -> Any:
                offset = builder.mul(index, builder.extract_value(panels.strides, 0))
                offset = builder.add(offset, builder.mul(args[3], word(group_bytes)))
                return builder.gep(base, [offset])

            def feature(pointer: Any, offset: Any, k: int) -> Any:
                address = builder.gep(pointer, [builder.add(offset, word(2 * ROWS * k))])
                return builder.load(builder.bitcast(address, shorts.as_pointer()), align=32)

            left, right = panel(args[1]), panel(args[2])
            before = builder.block
            loop = builder.append_basic_block("groups")
            after = builder.append_basic_block("after")
            builder.branch(loop)
            builder.position_at_end(loop)
            group = builder.phi(word)
            group.add_incoming(word(0), before)
            totals = [builder.phi(longs) for _ in range(PANEL * PANEL)]
            offset = builder.mul(group, word(group_bytes))
            rows = [feature(left, offset, k) for k in range(PANEL)]
            added: list[Any] = [None] * len(totals)
            for j in range(PANEL):
                column = feature(right, offset, j)
                for i in range(PANEL):
                    t = i * PANEL + j
                    product = builder.call(multiply, [rows[i], column])
                    added[t] = builder.add(totals[t], product)
            following = builder.add(group, word(1))
            group.add_incoming(following, loop)
            for total, value in zip(totals, added, strict=True):
                total.add_incoming(ir.Constant(longs, [0] * (ROWS // 2)), before)
                total.add_incoming(value, loop)
            builder.cbranch(builder.icmp_signed("<", following, args[4]), loop, after)
            builder.position_at_end(after)
            for t, value in enumerate(added):
                width = ROWS // 2
                while width > 1:
                    width //= 2
                    vector = ir.VectorType(ir.IntType(32), width)
                    halves = [list(range(start, start + width)) for start in (0, width)]
                    value = builder.add(
                        *(builder.shuffle_vector(value, value, vector(half)) for half in halves)
                    )
                total = builder.extract_element(value, ir.IntType(32)(0))
                builder.store(total, builder.gep(sums.data, [word(t)]))
            return context.get_dummy_value()

        return signature, codegen

    return compiled


_tile = _make_tile()


def panels_shape(n_rows: int, n_components: int) -> tuple[int, int, int, int]:
    """Return the shape of the panels of `n_rows` rows."""
    return (-(-n_components // PANEL), -(-n_rows // ROWS), PANEL, ROWS)


@njit(nogil=True, cache=True, parallel=True)
def pack(Q: F32, panels: I16) -> None:
    """Lay rows out in panels.

    Parameters
    ----------
    Q : (n, width) float32 of integers within +-32767
    panels : (ceil(width / 3), >= ceil(n / 16), 3, 16) int16; filled with zeros past row and column
    """
    n, width = Q.shape
    n_groups = panels.shape[1]
    stretch = 16  # panels of 192 bytes of a row: whole cache lines
    for task in prange((panels.shape[0] + stretch - 1) // stretch):
        first = np.int64(task) * stretch  # prange counts in uint64, and uint64 + int64 is a float
        last = min(first + stretch, panels.shape[0])
        for g in range(n_groups):
            count = min(ROWS, n - g * ROWS)
            for p in range(first, last):
                for k in range(PANEL):
                    j = p * PANEL + k
                    if count == ROWS and j < width:
                        for lane in range(ROWS):
                            panels[p, g, k, lane] = np.int16(np.int32(Q[g * ROWS + lane, j]))
                        continue
                    for lane in range(ROWS):
                        value = np.int32(0)
                        if lane < count and j < width:
                            value = np.int32(Q[g * ROWS + lane, j])
                        panels[p, g, k, lane] = np.int16(value)


@njit(nogil=True, cache=True, parallel=True)
def add_products(panels: I16, width: int, totals: Numbers, squares: F64) -> None:
    """``totals += Q^T Q`` for the rows laid out in `panels`.

    Each sum of a run joins its total once, whatever the type of the totals: 4,096 rows are at most
    `DEPTH` groups, and totals of 64 bits in the place of 32 took 0 to 4 % longer.

    Parameters
    ----------
    panels : (ceil(width / 3), n_groups, 3, 16) int16
    width : features
    totals : float64 or int32, symmetric (width, width), packed as in `packed`
    squares : (n_parts, width) float64, column squares of every 64 rows; or (1, width), of all rows,
        to be summed at once
    """
    n_panels, n_groups = panels.shape[0], panels.shape[1]
    if width % 2 == 0:
        n_rows, n_columns, offset = width + 1, width // 2, 1
    else:
        n_rows, n_columns, offset = width, (width + 1) // 2, 0
    side = max(4, min(BLOCK, n_panels // 16))
    n_blocks = (n_panels + side - 1) // side
    n_parts, roots = squares.shape[0], roots_of_greatest(squares, PANEL)
    for task in prange(n_blocks * (n_blocks + 1) // 2):
        index = np.int64(task)
        row = 0
        while (row + 1) * (row + 2) // 2 <= index:
            row += 1
        column = index - row * (row + 1) // 2
        sums = np.empty(PANEL * PANEL, np.int32)
        for start in range(0, n_groups, DEPTH):
            stop = min(start + DEPTH, n_groups)
            for a in range(row * side, min((row + 1) * side, n_panels)):
                for b in range(column * side, min((column + 1) * side, a + 1)):
                    first = start
                    while first < stop:
                        last = stop
                        if n_parts > 1:
                            part = run_end(roots[a], roots[b], first // PART_GROUPS, n_parts)
                            last = min(stop, part * PART_GROUPS)
                        _tile(panels, a, b, first, last - first, sums)
                        first = last
                        for t in range(PANEL * PANEL):
                            i = a * PANEL + t // PANEL
                            j = b * PANEL + t % PANEL
                            if j > i or i >= width:
                                continue
                            if j < n_columns:
                                totals[j * n_rows + i + offset] += sums[t]
                            else:
                                packed_column = i - n_columns + 1 - offset
                                totals[packed_column * n_rows + j - n_columns] += sums[t]
