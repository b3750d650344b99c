"""Products of 8-bit and 16-bit numbers by words: four or two rows of a feature in 32 bits.

The instructions of VNNI multiply the entries of two words and add the products to a sum of 32 bits.
A tile takes a word of each of a few features, repeats it over a vector, and multiplies it with the
words of as many features as vectors hold; so every sum has a place of its own, and none is left to
be added up at the end. `vpdpwssd` takes 16-bit numbers; LLVM makes it of a multiplication and an
addition. `vpdpbusd` takes 8-bit ones without a sign by others with one: words are kept with 128
added to each entry, which one side takes away again, and sums begin with what it adds on the other.
Sums wrap around 2^32 and do not saturate, so only the last has to be below 2^31.
"""

from collections.abc import Callable
from dataclasses import dataclass
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

PANEL = 48  # features of a panel: three vectors of 512 bits
HEAD = 1  # group of a panel of bytes, the first: what sums of products with each feature begin with
OFFSET = 128  # of 8-bit entries
BLOCK = 64  # features that a task multiplies with each panel: they stay in the cache behind
STRETCH = 64  # groups that a task lays out


@dataclass(frozen=True)
class Tile:
    """What is multiplied at a time: `features` by `vectors` of `lanes` features each.

    Parameters
    ----------
    entries : rows in a word: 2 of 16 bits, or 4 of 8
    lanes : words of a vector: 16, or 8 where vectors have 256 bits
    features, vectors : as many as fill the registers; both sides divide `PANEL`
    """

    entries: int
    lanes: int
    features: int
    vectors: int

    @property
    def head(self) -> int:
        """How many groups of a panel are not of rows."""
        return HEAD if self.entries == 4 else 0


# By names, which are literal types for Numba.
TILES = {
    "bytes-512": Tile(entries=4, lanes=16, features=8, vectors=3),
    "bytes-256": Tile(entries=4, lanes=8, features=6, vectors=2),
    "shorts-512": Tile(entries=2, lanes=16, features=8, vectors=3),
}


def _make_multiply() -> Any:
    """Make ``f(name, panels, x, y, out)``: products of features from x on and those from y on.

    name : of a tile; panels : (panels, head + n_groups, 48) int32, n_groups > 0; out : int32 of
    the tile, (features, vectors x lanes)
    """
    if numba.config.DISABLE_JIT:

        def plain(name: str, panels: I32, x: int, y: int, out: I32) -> None:
            left, right = (
                panels[at // PANEL, :, at % PANEL :][:, :count]
                for at, count in zip((x, y), out.shape, strict=True)
            )
            if TILES[name].entries == 2:
                a, b, begin = *(_entries(side, np.int16) for side in (left, right)), 0
            else:
                a, begin = _entries(left[HEAD:], np.uint8), right[0]
                b = _entries(right[HEAD:], np.uint8) - OFFSET
            out[:] = begin + np.einsum("gne,gme->nm", a, b)

        return plain

    @intrinsic(prefer_literal=True)
    def compiled(typingctx: Any, name: Any, panels: Any, x: Any, y: Any, out: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            panels, out = (
                cgutils.create_struct_proxy(signature.args[k])(context, builder, value=args[k])
                for k in (1, 4)
            )
            n_groups = builder.extract_value(panels.shape, 1)
            panel_bytes = builder.extract_value(panels.strides, 0)
            sides = panels.data, n_groups, panel_bytes, args[2:4]
            _emit(builder, TILES[name.literal_value], sides, out.data)
            return context.get_dummy_value()

        return types.void(name, panels, types.intp, types.intp, out), codegen

    return compiled


def _entries(words: I32, dtype: type) -> Any:
    """Return the entries of words (..., n) as int64 (..., n, entries)."""
    words = np.ascontiguousarray(words)[..., np.newaxis]
    return words.view(dtype).astype(np.int64)


def _emit(builder: Any, tile: Tile, sides: Any, out: Any) -> None:
    """Emit the loop of a tile over the groups of panels.

    sides : where the panels are, their groups, bytes of each, and the two first features
    """
    data, n_groups, panel_bytes, starts = sides
    byte, number, index = ir.IntType(8), ir.IntType(32), ir.IntType(64)
    vector = ir.VectorType(number, tile.lanes)
    undefined = ir.Constant(vector, ir.Undefined)
    firsts = ir.Constant(vector, [0] * tile.lanes)
    base = builder.bitcast(data, byte.as_pointer())

    def feature(position: Any) -> Any:
        panel, column = (f(position, index(PANEL)) for f in (builder.udiv, builder.urem))
        offset = builder.add(builder.mul(panel, panel_bytes), builder.mul(column, index(4)))
        return builder.gep(base, [offset])

    def load(pointer: Any, group: Any, k: int, kind: Any) -> Any:
        offset = builder.add(builder.mul(group, index(4 * PANEL)), index(4 * k))
        pointer = builder.bitcast(builder.gep(pointer, [offset]), kind.as_pointer())
        return builder.load(pointer, align=4)

    left, right = map(feature, starts)
    begin = [ir.Constant(vector, [0] * tile.lanes)] * tile.vectors
    if tile.head:
        begin = [load(right, index(0), v * tile.lanes, vector) for v in range(tile.vectors)]
    multiply = _instruction(builder, tile)
    before, loop = builder.block, builder.append_basic_block("groups")
    builder.branch(loop)
    builder.position_at_end(loop)
    group = builder.phi(index)
    totals = [builder.phi(vector) for _ in range(tile.features * tile.vectors)]
    columns = [load(right, group, v * tile.lanes, vector) for v in range(tile.vectors)]
    if tile.entries == 4:  # with 128 added, entries have the sign bit turned
        flip = ir.Constant(vector, [0x80808080] * tile.lanes)
        columns = [builder.xor(column, flip) for column in columns]
    added: list[Any] = []
    for k in range(tile.features):
        word = builder.insert_element(undefined, load(left, group, k, number), number(0))
        word = builder.shuffle_vector(word, undefined, firsts)
        for column in columns:
            added.append(multiply(totals[len(added)], word, column))
    following = builder.add(group, index(1))
    group.add_incoming(index(tile.head), before)
    group.add_incoming(following, loop)
    for t, total in enumerate(totals):
        total.add_incoming(begin[t % tile.vectors], before)
        total.add_incoming(added[t], loop)
    after = builder.append_basic_block("after")
    builder.cbranch(builder.icmp_signed("<", following, n_groups), loop, after)
    builder.position_at_end(after)
    out = builder.bitcast(out, vector.as_pointer())
    for t, value in enumerate(added):
        builder.store(value, builder.gep(out, [index(t)]), align=4)


def _instruction(builder: Any, tile: Tile) -> Callable[[Any, Any, Any], Any]:
    """Return ``f(total, unsigned, signed)``, which adds the products of two vectors of words."""
    vector, bits = ir.VectorType(ir.IntType(32), tile.lanes), 32 * tile.lanes
    if tile.entries == 4:
        kind = ir.FunctionType(vector, [vector] * 3)
        function = cgutils.get_or_insert_function(
            builder.module, kind, f"llvm.x86.avx512.vpdpbusd.{bits}"
        )
        return lambda total, a, b: builder.call(function, [total, a, b])
    shorts = ir.VectorType(ir.IntType(16), 2 * tile.lanes)
    kind = ir.FunctionType(vector, [shorts] * 2)
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.pmaddw.d.512")

    def multiply(total: Any, a: Any, b: Any) -> Any:
        pair = [builder.bitcast(side, shorts) for side in (a, b)]
        return builder.add(total, builder.call(function, pair))

    return multiply


_multiply = _make_multiply()


def panels_shape(n_rows: int, n_components: int, entries: int) -> tuple[int, int, int]:
    """Return the shape of the panels of `n_rows` rows."""
    return (-(-n_components // PANEL), HEAD * (entries == 4) + -(-n_rows // entries), PANEL)


@njit(nogil=True, cache=True, parallel=True)
def pack_shorts(Q: F32, panels: I32) -> None:
    """Lay rows out in words of two 16-bit entries.

    Parameters
    ----------
    Q : (n, width) float32 of integers within +-32767
    panels : (ceil(width / 48), ceil(n / 2), 48) int32; zeros past row and column
    """
    n, width = Q.shape
    n_groups = panels.shape[1]
    for task in prange((n_groups + STRETCH - 1) // STRETCH):
        first = np.int64(task) * STRETCH  # prange counts in uint64, and uint64 + int64 is a float
        words = np.zeros(panels.shape[0] * PANEL, np.int32)
        nothing = np.zeros(width, np.float32)
        for g in range(first, min(first + STRETCH, n_groups)):
            a, b = Q[2 * g], (Q[2 * g + 1] if 2 * g + 1 < n else nothing)
            for j in range(width):
                words[j] = (np.int32(a[j]) & 0xFFFF) | (np.int32(b[j]) << 16)
            _store_words(words, g, panels)


@njit(nogil=True, cache=True, parallel=True)
def pack_bytes(Q: F32, panels: I32) -> float:
    """Lay rows out in words of four 8-bit entries, 128 added; return the greatest ``|Q[i, j]|``.

    The panels are of use only if that is at most 127.

    Parameters
    ----------
    Q : (n, width) float32 of integers within +-32767, n at most 2^17
    panels : (ceil(width / 48), 1 + ceil(n / 4), 48) int32; entries of 0 past the rows
    """
    n, width = Q.shape
    n_groups = panels.shape[1] - HEAD
    n_tasks = (n_groups + STRETCH - 1) // STRETCH
    parts = np.empty((n_tasks, width), np.float32)  # sums below 2^24, so exact
    greatest = np.empty((n_tasks, width), np.float32)
    for task in prange(n_tasks):
        first = np.int64(task) * STRETCH
        sums, most = parts[task], greatest[task]
        for j in range(width):
            sums[j] = most[j] = np.float32(0)
        words = np.zeros(panels.shape[0] * PANEL, np.int32)
        nothing = np.zeros(width, np.float32)
        for g in range(first, min(first + STRETCH, n_groups)):
            i = 4 * g
            a, b = Q[i], (Q[i + 1] if i + 1 < n else nothing)
            c, d = (Q[i + 2] if i + 2 < n else nothing), (Q[i + 3] if i + 3 < n else nothing)
            for j in range(width):  # a loop each: vectors need few arrays at a time
                low = np.int32(a[j] + np.float32(256) * b[j] + np.float32(257 * OFFSET))
                high = np.int32(c[j] + np.float32(256) * d[j] + np.float32(257 * OFFSET))
                words[j] = low | (high << 16)
            for j in range(width):
                sums[j] += (a[j] + b[j]) + (c[j] + d[j])
            for j in range(width):
                ab, cd = _greater(abs(a[j]), abs(b[j])), _greater(abs(c[j]), abs(d[j]))
                most[j] = _greater(most[j], _greater(ab, cd))
            _store_words(words, HEAD + g, panels)
    most_of_all = np.float32(0)
    for j in range(width):
        total = np.float32(0)
        for t in range(n_tasks):
            total += parts[t, j]
            most_of_all = _greater(most_of_all, greatest[t, j])
        panels[j // PANEL, 0, j % PANEL] = -OFFSET * np.int32(total)
    return float(most_of_all)


@njit(nogil=True, cache=True)
def _greater(a: float, b: float) -> float:
    """Return the greater of two, by one instruction; `max` asks for NaN first."""
    return a if a > b else b


@njit(nogil=True, cache=True)
def _store_words(words: I32, group: int, panels: I32) -> None:
    for p in range(panels.shape[0]):
        for k in range(PANEL):
            panels[p, group, k] = words[p * PANEL + k]


def _make_add(name: str) -> Callable[[I32, int, Numbers, F64], None]:
    """Make `add` for a tile, whose name is a constant in it."""
    tile = TILES[name]
    tall, wide = tile.features, tile.vectors * tile.lanes

    part_groups = PART // tile.entries

    @njit(nogil=True, cache=True, parallel=True)
    def add(panels: I32, width: int, totals: Numbers, squares: F64) -> None:
        """``totals += Q^T Q`` for the rows laid out in `panels`.

        Parameters
        ----------
        panels : (ceil(width / 48), head + n_groups, 48) int32
        width : features
        totals : float64 or int32, symmetric (width, width), packed as in `packed`
        squares : (n_parts, width) float64, column squares of every 64 rows; or (1, width), of all
            rows, to be summed at once, as those of 8 bits are
        """
        n_tiles = (width + tall - 1) // tall
        side = max(1, min(BLOCK // tall, n_tiles // 32))
        n_blocks = (n_tiles + side - 1) // side
        n_tasks = (n_blocks + 1) // 2
        n_parts, n_groups = squares.shape[0], panels.shape[1]
        left, right = roots_of_greatest(squares, tall), roots_of_greatest(squares, wide)
        for task in prange(n_tasks):
            sums = np.empty((tall, wide), np.int32)
            for block in range(np.int64(task), n_blocks, n_tasks):
                for y in range(0, width, wide):
                    for x in range(
                        block * side * tall, min((block + 1) * side * tall, width), tall
                    ):
                        rows = x, min(x + tall, width)
                        if holds(width, rows, (y, min(y + wide, width))):
                            first = 0
                            while first < n_parts:
                                last = run_end(left[x // tall], right[y // wide], first, n_parts)
                                stop = n_groups if last == n_parts else last * part_groups
                                run = panels[:, first * part_groups : stop]
                                _multiply(name, run, x, y, sums)
                                add_tile(sums, x, y, width, totals)
                                first = last

    return add


ADD = {name: _make_add(name) for name in TILES}
