"""``sum_i q_i q_i^T`` of rows of features, in LAPACK's rectangular full packed format."""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np

from streamrf.errors import ConsumedError, ParameterError, StreamrfError
from streamrf.jit import gram, lanes, packed
from streamrf.jit.arrays import Array, Features, Floats, Mask
from streamrf.jit.lapack import MAX_COLUMNS, add_product

PRODUCT_ROWS = 4096  # rows multiplied at a time
MIN_HEAVY_ROWS = 16
WIDE_ROWS = 512  # multiplied in float64 at a time, to hold little memory


class Products(ABC):
    """A way to multiply integers that is exact while no sum reaches `limit`."""

    limit: float
    dtype: type

    @abstractmethod
    def prepare(self, Q: Features) -> Array:
        """Return Q as `add` takes it."""

    @abstractmethod
    def add(self, operand: Array, partial: Array) -> None:
        """Add the product of the rows prepared to `partial`, packed and of `dtype`."""


class FloatProducts(Products):
    """Float32 products of BLAS, exact below 2^24."""

    limit = 2.0**24
    dtype = np.float32

    def prepare(self, Q: Features) -> Array:
        return Q

    def add(self, operand: Array, partial: Array) -> None:
        add_product(operand, partial)


class IntegerProducts(Products):
    """Products of 16-bit numbers in 32 bits, exact below 2^31; see `streamrf.jit.gram`."""

    limit = 2.0**31
    dtype = np.int32

    def __init__(self) -> None:
        self._buffer = gram.aligned_buffer(0)

    def prepare(self, Q: Features) -> Array:
        """Lay Q out in panels, in memory that is used again."""
        shape = gram.panels_shape(*Q.shape)
        size = math.prod(shape)
        if self._buffer.size < size:
            self._buffer = gram.aligned_buffer(size)
        panels = self._buffer[:size].reshape(shape)
        gram.pack(Q, panels)
        return panels

    def add(self, operand: Array, partial: Array) -> None:
        width = int((np.sqrt(8 * len(partial) + 1) - 1) / 2)
        gram.add_products(operand, width, partial)


PRODUCTS: type[Products] = IntegerProducts if gram.AVAILABLE else FloatProducts


class GramSum(ABC):
    """``sum_i q_i q_i^T`` in rectangular full packed format.

    Parameters
    ----------
    n_components : width of the features
    totals : packed sums to go on from, of `dtype`, used and not copied; None means zero
    """

    exact: ClassVar[bool]  # whether the features are integers, and their sums too
    limit: ClassVar[float]  # integers below it are exact totals
    dtype: ClassVar[type]  # of the totals
    partial_bytes: ClassVar[int]  # held for each total while rows are added
    factor_dtype: ClassVar[type] = np.float64  # that a solve takes

    def __init__(self, n_components: int, totals: Array | None = None) -> None:
        size = packed_size(n_components)
        self.n_components = n_components
        self._totals: Array | None = np.zeros(size, self.dtype) if totals is None else totals
        self.n_splits = 0

    def __reduce__(self) -> tuple:
        """Send the sums alone: how to multiply is for each machine to say, and zeros are known."""
        totals = self.totals
        return type(self), (self.n_components, totals if totals.any() else None)

    @property
    def totals(self) -> Array:
        """The sums, of shape (n_components (n_components + 1) / 2,) and `dtype`; not a copy."""
        if self._totals is None:
            raise ConsumedError(
                "the memory of these sums was used up by solve(overwrite=True); save the "
                "statistics before, or solve without overwrite"
            )
        return self._totals

    def copy(self) -> Self:
        """Return the same sums in memory of their own, which is not touched where all are zero."""
        totals = self.totals
        return type(self)(self.n_components, totals.copy() if totals.any() else None)

    def surrender(self) -> Array:
        """Give the totals away for good, to be overwritten."""
        totals = self.totals
        self._totals = None
        return totals

    def check(self, Q: Features) -> None:  # noqa: B027 - most sums take any rows
        """Raise for rows Q (n, n_components) whose sums would not be exact; none is added then."""

    @abstractmethod
    def add(self, Q: Features) -> None:
        """Add the rows Q (n, n_components)."""

    def release(self) -> None:  # noqa: B027 - most sums hold none
        """Give back the memory that only adding needs."""


def packed_size(n_components: int) -> int:
    """Return how many numbers a packed Gram has; raise ParameterError if too many for LAPACK."""
    if n_components > MAX_COLUMNS:
        raise ParameterError(
            f"n_components={n_components} is too many: LAPACK factors a packed Gram of at most "
            f"{MAX_COLUMNS} components"
        )
    return n_components * (n_components + 1) // 2


class IntegerGram(GramSum):
    """Sums of integers by short products that are proven exact.

    By Cauchy and Schwarz every sum of products of two columns, partial ones included, is bounded by
    the greatest column sum of squares.

    Parameters
    ----------
    n_components, totals : see `GramSum`
    products : how to multiply; None means the fastest here. The totals are the same bytes.
    """

    exact = True

    def __init__(
        self, n_components: int, totals: Array | None = None, products: Products | None = None
    ) -> None:
        super().__init__(n_components, totals)
        self._products = PRODUCTS() if products is None else products

    def add(self, Q: Features) -> None:
        """Add integers Q (n, n_components) float32, entries within +-4095."""
        self.check(Q)
        for block in _blocks(Q):
            self._add_block(block)

    @abstractmethod
    def _add_block(self, Q: Features) -> None:
        """Add rows of which one product is taken."""

    def release(self) -> None:
        self._products = type(self._products)()


class ExactGram(IntegerGram):
    """Sums of integers in float64.

    While the squares stay below the products' limit partial sums add without error; before they
    would not, they join the totals. A block too large by itself is split: its rows with the
    greatest entries are multiplied in float64, which is exact to 2^53. (Halving such blocks until
    each part was small enough took 10 of 12 s on MNIST in float32, whose border pixels hardly ever
    vary.)
    """

    limit = 2.0**53
    dtype = np.float64
    partial_bytes = 4

    def __init__(
        self, n_components: int, totals: Array | None = None, products: Products | None = None
    ) -> None:
        super().__init__(n_components, totals, products)
        self._partial: Array | None = None
        self._bound = np.zeros(n_components)

    @property
    def totals(self) -> Array:
        """The sums, after the partial ones have joined them."""
        self._flush()
        return super().totals

    def _add_block(self, Q: Features) -> None:
        limit = self._products.limit
        squares = _column_squares(Q)
        if squares.max(initial=0) >= limit:
            self.n_splits += 1
            heavy = _heavy_rows(Q, squares, limit)
            for rows in np.array_split(np.flatnonzero(heavy), -(-heavy.sum() // WIDE_ROWS)):
                add_product(Q[rows].astype(np.float64), super().totals)
            Q = Q[~heavy]
            if not len(Q):
                return
            squares = _column_squares(Q)
        if (self._bound + squares).max(initial=0) >= limit:
            self._flush()
        if self._partial is None:
            self._partial = np.zeros(len(super().totals), dtype=self._products.dtype)
        self._bound += squares
        self._products.add(self._products.prepare(Q), self._partial)

    def _flush(self) -> None:
        if self._bound.any():
            packed.flush(self._partial, self._totals)
            self._bound[:] = 0.0

    def release(self) -> None:
        """Join the partial sums and give their memory back."""
        self._flush()
        self._partial = None
        super().release()


class CompactGram(IntegerGram):
    """Sums of integers in 32 bits: half the memory, for widths whose Gram is most of it.

    The products are added where they stay. No sum is greater than the greatest sum of squares, so
    rows are refused, with nothing added, before that reaches 2^31: after about two million rows of
    ordinary features. Factors are float32, in the same memory where the sums are given up for them.
    """

    limit = 2.0**31
    dtype = np.int32
    partial_bytes = 0 if PRODUCTS.dtype is np.int32 else 4
    factor_dtype = np.float32

    def __init__(
        self, n_components: int, totals: Array | None = None, products: Products | None = None
    ) -> None:
        super().__init__(n_components, totals, products)
        self._squares = np.zeros(n_components)
        packed.diagonal(self.totals, self._squares)

    def check(self, Q: Features) -> None:
        """Raise StreamrfError for rows that would take a total to 2^31."""
        squares = sum(_column_squares(block) for block in _blocks(Q))
        if (self._squares + squares).max(initial=0) >= self.limit:
            raise StreamrfError(
                "the sums would outgrow 2^31, so 32-bit totals would no longer be exact; use "
                "totals='float64', or sum parts of the rows"
            )

    def _add_block(self, Q: Features) -> None:
        squares = _column_squares(Q)
        if squares.max(initial=0) >= self._products.limit:  # only where BLAS multiplies
            self.n_splits += 1
            for half in np.array_split(Q, 2):
                self._add_block(half)
            return
        operand = self._products.prepare(Q)
        if self._products.dtype is self.dtype:
            self._products.add(operand, self.totals)
        else:
            partial: Array = np.zeros(len(self.totals), dtype=self._products.dtype)
            self._products.add(operand, partial)
            packed.flush(partial, self.totals)
        self._squares += squares


class FloatGram(GramSum):
    """Sums of float64 products, exact to rounding only."""

    exact = False
    limit = np.inf
    dtype = np.float64
    partial_bytes = 0

    def add(self, Q: Features) -> None:
        add_product(np.ascontiguousarray(Q), self.totals)


TOTALS: dict[str, type[GramSum]] = {"float64": ExactGram, "int32": CompactGram}


def gram_class(exact: bool, totals: str = "float64") -> type[GramSum]:
    """Return how to sum products: of integers or not, in what totals; raise for others."""
    if totals not in TOTALS:
        raise ParameterError(f"totals must be one of {sorted(TOTALS)}, got {totals!r}")
    if exact:
        return TOTALS[totals]
    if totals != "float64":
        raise ParameterError(
            f"totals={totals!r} are for integers; precision='float64' needs totals='float64'"
        )
    return FloatGram


def _blocks(Q: Features) -> list[Features]:
    return [Q[start : start + PRODUCT_ROWS] for start in range(0, len(Q), PRODUCT_ROWS)]


def _column_squares(Q: Features) -> Floats:
    squares = np.empty(Q.shape[1])
    lanes.column_squares(Q, squares)
    return squares


def _heavy_rows(Q: Features, squares: Floats, limit: float) -> Mask:
    """Mark rows with great entries, enough that the squares of the others stay below the limit."""
    order = np.argsort(-np.maximum(Q.max(axis=1), -Q.min(axis=1)), kind="stable")
    count = MIN_HEAVY_ROWS
    while count < len(Q):
        if (squares - _column_squares(Q[order[:count]])).max() < limit:
            break
        count *= 2
    heavy = np.zeros(len(Q), dtype=bool)
    heavy[order[:count]] = True
    return heavy
