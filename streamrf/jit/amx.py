"""Products of 8-bit and 16-bit numbers by AMX, Intel's unit for matrices.

Its eight tiles hold 16 rows of 64 bytes. An instruction multiplies a tile of 16 features by 64 rows
of bytes with one of 64 rows by 16 features, and adds the 256 products to a tile of 32-bit sums. Two
tiles a side give four products a step. Of 8-bit entries the two are 32 features. Of 16-bit entries
they are the low and the high bytes of 16 features, ``q = 256 h + l``, and the sums are added up as
``l l' + 256 (l h' + h l') + 65536 h h'``. Sums wrap around 2^32 and do not saturate, so only the
last has to be below 2^31.
"""

import ctypes
import platform
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import njit, prange
from numba.core import cgutils, types
from numba.extending import intrinsic

from streamrf.jit.arrays import F32, F64, I32, Numbers
from streamrf.jit.packed import add_tile, holds
from streamrf.jit.runs import PART, roots_of_greatest, run_end

SIDE = 16  # features of a tile, and words of a feature
ROWS = PART  # of a step, four in a word
BLOCK_BYTES = 1 << 20  # of features that a task multiplies with each panel: half of the cache
STRETCH = 4  # steps that a task lays out

# By names, which are literal types for Numba: features of a panel, two tiles of each step, and by
# what each of them is multiplied with each: signed or unsigned bytes.
FEATURES = {"bytes": 2 * SIDE, "shorts": SIDE}
SIGNS = {"bytes": ("ss", "ss", "ss", "ss"), "shorts": ("uu", "us", "su", "ss")}

_REQUEST, _TILE_DATA, _ARCH_PRCTL = 0x1023, 18, 158  # of Linux, for x86-64


def permitted() -> bool:
    """Ask Linux for the tiles, as each process that uses them has to; return whether it may.

    Source: Documentation/arch/x86/xstate.rst of the kernel.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0


def _call(builder: Any, name: str, *arguments: Any) -> None:
    """Emit an instruction for tiles; integers of Python are the numbers of tiles."""
    byte = ir.IntType(8)
    values = [byte(value) if isinstance(value, int) else value for value in arguments]
    kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}")
    builder.call(function, values)


def _make_switch() -> Any:
    """Make ``f(on)``: say that all tiles are whole, or that none is used from here on."""
    if numba.config.DISABLE_JIT:
        return lambda on: None

    @intrinsic(prefer_literal=True)
    def compiled(typingctx: Any, on: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if on.literal_value:
                sizes = bytearray(
                    [1] + [0] * 15 + [4 * SIDE, 0] * 8 + [0] * 16 + [SIDE] * 8 + [0] * 8
                )
                place = cgutils.global_constant(builder, "tiles", cgutils.make_bytearray(sizes))
                _call(builder, "ldtilecfg", builder.bitcast(place, ir.IntType(8).as_pointer()))
            else:
                _call(builder, "tilerelease")
            return context.get_dummy_value()

        return types.void(on), codegen

    return compiled


def _make_multiply() -> Any:
    """Make ``f(name, left, x, panels, y, sums)``: products of features of two panels.

    name : of `FEATURES`; left : panels (.., n_steps, 2, 16 features, 16 words) int32, n_steps > 0;
    panels : panels (.., n_steps, 2, 16 words, 16 features) int32; x, y : which of each;
    sums : (features, features) int32
    """
    if numba.config.DISABLE_JIT:

        def plain(name: str, left: I32, x: int, panels: I32, y: int, sums: I32) -> None:
            kinds = {"s": np.int8, "u": np.uint8}
            a, b = left[x], panels[y].transpose(0, 1, 3, 2)
            parts = []
            for k, signs in enumerate(SIGNS[name]):
                sides = [
                    np.ascontiguousarray(side).view(kinds[sign]).astype(np.int64)
                    for side, sign in zip((a[:, k // 2], b[:, k % 2]), signs, strict=True)
                ]
                parts.append(np.einsum("sik,sjk->ij", *sides))
            if name == "bytes":
                sums[:] = np.block([parts[:2], parts[2:]])
            else:
                low, cross, mirrored, high = parts
                sums[:] = low + 256 * (cross + mirrored) + 65536 * high

        return plain

    @intrinsic(prefer_literal=True)
    def compiled(
        typingctx: Any, name: Any, left: Any, x: Any, panels: Any, y: Any, sums: Any
    ) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            left, panels, sums = (
                cgutils.create_struct_proxy(signature.args[k])(context, builder, value=args[k])
                for k in (1, 3, 5)
            )
            starts = [
                builder.gep(
                    builder.bitcast(side.data, ir.IntType(8).as_pointer()),
                    [builder.mul(index, builder.extract_value(side.strides, 0))],
                )
                for side, index in ((left, args[2]), (panels, args[4]))
            ]
            n_steps = builder.extract_value(panels.shape, 1)
            _emit(builder, name.literal_value, starts, n_steps, sums.data)
            return context.get_dummy_value()

        return types.void(name, left, types.intp, panels, types.intp, sums), codegen

    return compiled


def _emit(builder: Any, name: str, starts: Any, n_steps: Any, sums: Any) -> None:
    """Emit the loop over the steps of two panels, which begin at `starts`."""
    index, byte = ir.IntType(64), ir.IntType(8)
    line, tile = index(4 * SIDE), 4 * SIDE * SIDE  # bytes
    for total in range(4):
        _call(builder, "tilezero", total)
    before, loop = builder.block, builder.append_basic_block("steps")
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(index)
    offset = builder.mul(step, index(2 * tile))
    for number in range(4):  # tiles 4 and 5 of the left, 6 and 7 of the right
        place = builder.add(offset, index(number % 2 * tile))
        _call(builder, "tileloadd64", 4 + number, builder.gep(starts[number // 2], [place]), line)
    for total, signs in enumerate(SIGNS[name]):
        _call(builder, f"tdpb{signs}d", total, 4 + total // 2, 6 + total % 2)
    following = builder.add(step, index(1))
    step.add_incoming(index(0), before)
    step.add_incoming(following, loop)
    after = builder.append_basic_block("after")
    builder.cbranch(builder.icmp_signed("<", following, n_steps), loop, after)
    builder.position_at_end(after)
    out = builder.bitcast(sums, byte.as_pointer())
    if name == "bytes":
        for total in range(4):
            corner = index(total // 2 * 2 * tile + total % 2 * 4 * SIDE)
            _call(builder, "tilestored64", total, builder.gep(out, [corner]), index(8 * SIDE))
        return
    vector = ir.VectorType(ir.IntType(32), SIDE)
    parts = cgutils.alloca_once(builder, ir.ArrayType(byte, 4 * tile))
    parts = builder.bitcast(parts, byte.as_pointer())
    for total in range(4):
        _call(builder, "tilestored64", total, builder.gep(parts, [index(total * tile)]), line)
    for row in range(SIDE):
        found = []
        for total in range(4):
            place = builder.gep(parts, [index(total * tile + row * 4 * SIDE)])
            found.append(builder.load(builder.bitcast(place, vector.as_pointer()), align=4))
        low, cross, mirrored, high = found
        cross = builder.shl(builder.add(cross, mirrored), ir.Constant(vector, [8] * SIDE))
        high = builder.shl(high, ir.Constant(vector, [16] * SIDE))
        place = builder.bitcast(builder.gep(out, [index(row * 4 * SIDE)]), vector.as_pointer())
        builder.store(builder.add(low, builder.add(cross, high)), place, align=4)


_switch, _multiply = _make_switch(), _make_multiply()


def panels_shape(n_rows: int, n_components: int, name: str) -> tuple[int, int, int, int, int]:
    """Return the shape of the panels of `n_rows` rows."""
    return (-(-n_components // FEATURES[name]), -(-n_rows // ROWS), 2, SIDE, SIDE)


@njit(nogil=True, cache=True)
def _fill_words(Q: F32, first: int, shift: int, words: I32) -> None:
    """Gather the bytes above `shift` bits of four rows from `first` on, zeros past the last."""
    n, width = Q.shape
    nothing = np.zeros(width, np.float32)
    a, b = (Q[first] if first < n else nothing), (Q[first + 1] if first + 1 < n else nothing)
    c, d = (
        (Q[first + 2] if first + 2 < n else nothing),
        (Q[first + 3] if first + 3 < n else nothing),
    )
    for j in range(width):
        low = ((np.int32(a[j]) >> shift) & 255) | (((np.int32(b[j]) >> shift) & 255) << 8)
        high = ((np.int32(c[j]) >> shift) & 255) | (((np.int32(d[j]) >> shift) & 255) << 8)
        words[j] = low | (high << 16)


@njit(nogil=True, cache=True, parallel=True)
def pack_shorts(Q: F32, panels: I32) -> None:
    """Lay rows out in tiles of low and of high bytes.

    Parameters
    ----------
    Q : (n, width) float32 of integers within +-32767
    panels : (ceil(width / 16), ceil(n / 64), 2, 16, 16) int32: by low or high byte, word and
        feature; a word has four rows, the first in its lowest bits; zeros past row and column
    """
    n_steps = panels.shape[1]
    for task in prange((n_steps + STRETCH - 1) // STRETCH):
        first = np.int64(task) * STRETCH  # prange counts in uint64, and uint64 + int64 is a float
        words = np.zeros(panels.shape[0] * SIDE, np.int32)
        for step in range(first, min(first + STRETCH, n_steps)):
            for g in range(SIDE):
                for part in range(2):
                    _fill_words(Q, step * ROWS + 4 * g, 8 * part, words)
                    for p in range(panels.shape[0]):
                        for k in range(SIDE):
                            panels[p, step, part, g, k] = words[p * SIDE + k]


@njit(nogil=True, cache=True, parallel=True)
def pack_bytes(Q: F32, panels: I32) -> float:
    """Lay rows out in tiles of bytes; return the greatest ``|Q[i, j]|``.

    The panels are of use only if that is at most 127.

    Parameters
    ----------
    Q : (n, width) float32 of integers within +-32767
    panels : (ceil(width / 32), ceil(n / 64), 2, 16, 16) int32: by half of the features, word and
        feature; a word has four rows, the first in its lowest bits; zeros past row and column
    """
    width, n_steps = Q.shape[1], panels.shape[1]
    n_tasks = (n_steps + STRETCH - 1) // STRETCH
    greatest = np.zeros((n_tasks, width), np.float32)
    for task in prange(n_tasks):
        first = np.int64(task) * STRETCH
        words = np.zeros(panels.shape[0] * 2 * SIDE, np.int32)
        most = greatest[task]
        for i in range(first * ROWS, min((first + STRETCH) * ROWS, Q.shape[0])):
            for j in range(width):
                value = abs(Q[i, j])
                most[j] = value if value > most[j] else most[j]
        for step in range(first, min(first + STRETCH, n_steps)):
            for g in range(SIDE):
                _fill_words(Q, step * ROWS + 4 * g, 0, words)
                for p in range(panels.shape[0]):
                    for part in range(2):
                        for k in range(SIDE):
                            panels[p, step, part, g, k] = words[(2 * p + part) * SIDE + k]
    return greatest.max()


@njit(nogil=True, cache=True)
def _turn(panels: I32, first: int, left: I32) -> None:
    """Turn the tiles of panels from `first` on, as they are on the left: by feature, then word."""
    for p in range(min(left.shape[0], panels.shape[0] - first)):
        for step in range(panels.shape[1]):
            for part in range(2):
                for i in range(SIDE):
                    for j in range(SIDE):
                        left[p, step, part, i, j] = panels[first + p, step, part, j, i]


def _make_add(name: str) -> Callable[[I32, int, Numbers, F64], None]:
    """Make `add` for tiles of bytes or shorts, whose name is a constant in it."""
    tall = FEATURES[name]

    @njit(nogil=True, cache=True, parallel=True)
    def add(panels: I32, width: int, totals: Numbers, squares: F64) -> None:
        """``totals += Q^T Q`` for the rows laid out in `panels`.

        Parameters
        ----------
        panels : as `pack_bytes` or `pack_shorts` fills them
        width : features
        totals : float64 or int32, symmetric (width, width), packed as in `packed`
        squares : (n_parts, width) float64, column squares of every 64 rows; or (1, width), of all
            rows, to be summed at once, as those of 8 bits are
        """
        n_panels, n_steps = panels.shape[0], panels.shape[1]
        panel_bytes = n_steps * 8 * SIDE * SIDE
        side = max(1, min(BLOCK_BYTES // panel_bytes, n_panels // 32))
        n_blocks = (n_panels + side - 1) // side
        n_tasks = (n_blocks + 1) // 2
        n_parts, roots = squares.shape[0], roots_of_greatest(squares, tall)
        for task in prange(n_tasks):
            sums = np.empty((tall, tall), np.int32)
            left = np.empty((side, n_steps, 2, SIDE, SIDE), np.int32)
            _switch(True)
            for block in range(np.int64(task), n_blocks, n_tasks):
                start = block * side
                _turn(panels, start, left)
                for q in range(n_panels):
                    y = q * tall
                    for p in range(min(side, n_panels - start)):
                        x = (start + p) * tall
                        rows = x, min(x + tall, width)
                        if holds(width, rows, (y, min(y + tall, width))):
                            first = 0
                            while first < n_parts:
                                last = run_end(roots[start + p], roots[q], first, n_parts)
                                stop = n_steps if last == n_parts else last
                                lhs, rhs = left[:, first:stop], panels[:, first:stop]
                                _multiply(name, lhs, p, rhs, q, sums)
                                add_tile(sums, x, y, width, totals)
                                first = last
            _switch(False)

    return add


ADD = {name: _make_add(name) for name in FEATURES}
