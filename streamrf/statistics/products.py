"""How rows of integers are multiplied: by the instructions of the processor, or by BLAS."""

from abc import ABC, abstractmethod
from copy import copy
from typing import ClassVar, Self

import numpy as np

from streamrf.jit import packed
from streamrf.jit.arrays import Array, Features, Floats
from streamrf.jit.instructions import (
    AVAILABLE,
    MAX_BYTE,
    MAX_SHORT,
    Instruction,
    aligned_buffer,
    fastest,
)
from streamrf.jit.lapack import add_product
from streamrf.jit.runs import PART


class Products(ABC):
    """A way to multiply integers that is exact for rows whose column squares are below `limit`.

    Attributes
    ----------
    total_bytes : int, held for each total
    wraps : bool, whether a sum beyond the limit is off by a multiple of twice the limit
    """

    limit: ClassVar[float]
    total_bytes: ClassVar[int]
    wraps: ClassVar[bool] = False

    @abstractmethod
    def add(self, Q: Features, totals: Array, squares: Floats) -> None:
        """Add the products of the rows Q (n, n_components) to packed totals.

        Parameters
        ----------
        squares : (n_parts, n_components), column squares of every `PART` rows, or of all at once;
            what passes the limit in one of them wraps, where products do
        """

    def add_small(self, Q: Features, totals: Array) -> bool:
        """Add the products if all entries are so small that none reaches the limit; or do nothing.

        Returns whether they were added.
        """
        return False

    @abstractmethod
    def release(self) -> None:
        """Give back the memory that is kept for the next block."""

    def fresh(self) -> Self:
        """Return products that know of the entries what these do, and keep no memory yet."""
        fresh = copy(self)
        fresh.release()
        return fresh


class FloatProducts(Products):
    """Float32 products of BLAS, exact below 2^24."""

    limit = 2.0**24
    total_bytes = 4

    def __init__(self) -> None:
        self._partial = np.empty(0, dtype=np.float32)

    def add(self, Q: Features, totals: Array, squares: Floats) -> None:
        if self._partial.size != totals.size:
            self._partial = np.zeros(totals.size, dtype=np.float32)
        start, bound = 0, np.zeros(Q.shape[1])
        for part, more in enumerate(squares):
            bound = bound + more
            if part and bound.max(initial=0) >= self.limit:
                self._flush(Q[start * PART : part * PART], totals)
                start, bound = part, more
        self._flush(Q[start * PART :], totals)

    def _flush(self, Q: Features, totals: Array) -> None:
        add_product(Q, self._partial)
        packed.flush(self._partial, totals)

    def release(self) -> None:
        self._partial = np.empty(0, dtype=np.float32)


class IntegerProducts(Products):
    """Products of 16 or 8 bits in 32 bits, exact below 2^31.

    A block is multiplied in 8 bits if its entries fit. The first block whose entries do not fit
    shows that the steps are finer, and later blocks are not tried.

    Parameters
    ----------
    instructions : of which the fastest are taken, one with room for 16 bits among them
    """

    limit = 2.0**31
    total_bytes = 0
    wraps = True

    def __init__(self, instructions: tuple[Instruction, ...] = AVAILABLE) -> None:
        shorts, small = fastest(MAX_SHORT, instructions), fastest(MAX_BYTE, instructions)
        assert shorts is not None
        assert small is not None
        self._shorts = shorts
        self._bytes = small if small.limit < MAX_SHORT else None
        self._buffer = aligned_buffer(0)

    def add(self, Q: Features, totals: Array, squares: Floats) -> None:
        panels = self._panels(self._shorts, Q)
        self._shorts.pack(Q, panels)
        self._shorts.add(panels, Q.shape[1], totals, squares)

    def add_small(self, Q: Features, totals: Array) -> bool:
        if self._bytes is None or len(Q) * MAX_BYTE**2 >= self.limit:
            return False
        panels = self._panels(self._bytes, Q)
        if self._bytes.pack(Q, panels) > MAX_BYTE:
            self._bytes = None
            return False
        self._bytes.add(panels, Q.shape[1], totals, np.zeros((1, Q.shape[1])))
        return True

    def _panels(self, instruction: Instruction, Q: Features) -> Array:
        """Return panels in memory that is used again."""
        panels = instruction.panels(Q, self._buffer)
        if panels.nbytes > self._buffer.size:
            self._buffer = panels.reshape(-1).view(np.uint8)
        return panels

    def release(self) -> None:
        self._buffer = aligned_buffer(0)


PRODUCTS: type[Products] = FloatProducts if fastest(MAX_SHORT) is None else IntegerProducts
