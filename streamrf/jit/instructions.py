"""The instructions that multiply small integers exactly: one table, and what this processor has.

All add products in 32 bits, so they give the same sums while none reaches 2^31. Multiply-adds a
cycle of a core of Zen 4, at their peak: 16 in float32, 32 of 16 bits, 64 of 8 bits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from numpy.typing import NDArray

from streamrf.jit import amx, gram, words
from streamrf.jit.arrays import F32, F64, Array, Numbers

MAX_BYTE = 127
MAX_SHORT = 32767  # not -32768: the sum of two products of 16 bits stays below 2^31


def _always() -> bool:
    return True


@dataclass(frozen=True)
class Instruction:
    """A way to multiply integers.

    Parameters
    ----------
    name : for people
    needs : features of the processor as LLVM calls them, all of one of these sets
    limit : greatest entry
    dtype : of panels
    shape : ``shape(n_rows, width)`` of panels
    pack : ``pack(Q, panels)`` lays rows (n, width) float32 out; of 8-bit entries it returns the
        greatest, and the panels are of use only if that is within the limit
    add : ``add(panels, width, totals, squares)`` adds ``Q^T Q`` to totals, packed as in `packed`;
        squares of columns, of parts of the rows, say how many are summed at a time (`runs`)
    permitted : asks the operating system, once the processor has what is needed
    """

    name: str
    needs: tuple[frozenset[str], ...]
    limit: int
    dtype: type
    shape: Callable[[int, int], tuple[int, ...]]
    pack: Callable[[F32, Any], Any]
    add: Callable[[Any, int, Numbers, F64], None]
    permitted: Callable[[], bool] = _always

    def panels(self, Q: F32, buffer: NDArray[np.uint8] | None = None) -> Array:
        """Return panels for rows Q, not filled: in memory of `buffer` if it is large enough."""
        shape = self.shape(*Q.shape)
        n_bytes = math.prod(shape) * np.dtype(self.dtype).itemsize
        if buffer is None or buffer.size < n_bytes:
            buffer = aligned_buffer(n_bytes)
        return buffer[:n_bytes].view(self.dtype).reshape(shape)


def aligned_buffer(n_bytes: int) -> NDArray[np.uint8]:
    """Return an array of bytes, aligned to 64 as the loads need it."""
    buffer = np.empty(n_bytes + 64, dtype=np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + n_bytes]


def _words(name: str, tile: str, *needs: str) -> Instruction:
    """Return a row of the table whose panels are words."""
    entries = words.TILES[tile].entries
    limit, pack = (MAX_BYTE, words.pack_bytes) if entries == 4 else (MAX_SHORT, words.pack_shorts)
    shape = partial(words.panels_shape, entries=entries)
    sets = tuple(frozenset(need.split()) for need in needs)
    return Instruction(name, sets, limit, np.int32, shape, pack, words.ADD[tile])


def _amx(name: str, kind: str) -> Instruction:
    """Return a row of the table whose panels are tiles."""
    limit, pack = (MAX_BYTE, amx.pack_bytes) if kind == "bytes" else (MAX_SHORT, amx.pack_shorts)
    shape = partial(amx.panels_shape, name=kind)
    needs = (frozenset({"amx-tile", "amx-int8"}),)
    return Instruction(name, needs, limit, np.int32, shape, pack, amx.ADD[kind], amx.permitted)


# The fastest first, of each limit.
TABLE = (
    _amx("AMX, 8 bits", "bytes"),
    _amx("AMX, 16 bits", "shorts"),
    _words("AVX-512 VNNI, 8 bits", "bytes-512", "avx512vnni avx512f"),
    _words("AVX-VNNI, 8 bits", "bytes-256", "avxvnni", "avx512vnni avx512vl"),
    _words("AVX-512 VNNI, 16 bits", "shorts-512", "avx512vnni avx512bw"),
    Instruction(
        "AVX2, 16 bits",
        (frozenset({"avx2"}),),
        MAX_SHORT,
        np.int16,
        gram.panels_shape,
        gram.pack,
        gram.add_products,
    ),
)


def cpu_features() -> frozenset[str]:
    """Return the names of what this processor can do, none if Numba compiles for another."""
    config = numba.config
    if config.CPU_NAME not in (None, "host") or config.CPU_FEATURES is not None:
        return frozenset()
    if not config.ENABLE_AVX:
        return frozenset()
    found = llvmlite.binding.get_host_cpu_features()
    return frozenset(name for name, is_there in found.items() if is_there)


def available() -> tuple[Instruction, ...]:
    """Return the rows that this processor has."""
    has = cpu_features()
    found = (row for row in TABLE if any(needs <= has for needs in row.needs))
    return tuple(row for row in found if row.permitted())


AVAILABLE = available()


def fastest(greatest: int, among: tuple[Instruction, ...] = AVAILABLE) -> Instruction | None:
    """Return the fastest instruction for entries up to `greatest`; None where BLAS is."""
    return next((row for row in among if row.limit >= greatest), None)
