"""``sum_i q_i q_i^T`` of rows of features, in LAPACK's rectangular full packed format."""

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from streamrf.errors import ConsumedError, ParameterError, StreamrfError
from streamrf.jit import gram, lanes, packed
from streamrf.jit.lapack import MOST_COLUMNS, add_product

PRODUCT_ROWS = 4096  # rows multiplied at a time
HEAVY_SHARE = 64  # of a block's rows, one at most is heavy; else the block is halved
SHORT_ROWS = 256  # fewer rows are multiplied in float64 rather than halved
WIDE_ROWS = 512  # multiplied in float64 at a time, to hold little memory


class Products(ABC):
    """A way to multiply integers that is exact for blocks whose column squares are below `limit`.

    Attributes
    ----------
    total_bytes : int, held for each total
    """

    limit: ClassVar[float]
    total_bytes: ClassVar[int]

    @abstractmethod
    def add(self, Q: np.ndarray, totals: np.ndarray) -> None:
        """Add the products of the rows Q (n, n_components) to packed totals."""


class FloatProducts(Products):
    """Float32 products of BLAS, exact below 2^24."""

    limit = 2.0**24
    total_bytes = 4

    def __init__(self):
        self._partial = np.empty(0, dtype=np.float32)

    def add(self, Q, totals):
        """Multiply by `ssfrk`."""
        if self._partial.size != totals.size:
            self._partial = np.zeros(totals.size, dtype=np.float32)
        add_product(Q, self._partial)
        packed.flush(self._partial, totals)


class IntegerProducts(Products):
    """Products of 16-bit numbers in 32 bits, exact below 2^31; see `streamrf.jit.gram`."""

    limit = 2.0**31
    total_bytes = 0

    def __init__(self):
        self._buffer = gram.aligned_buffer(0)

    def add(self, Q, totals):
        """Multiply panel by panel."""
        gram.add_products(self.layout(Q), Q.shape[1], totals)

    def layout(self, Q: np.ndarray) -> np.ndarray:
        """Lay Q out in panels, in memory that is used again."""
        shape = gram.panels_shape(*Q.shape)
        size = math.prod(shape)
        if self._buffer.size < size:
            self._buffer = gram.aligned_buffer(size)
        panels = self._buffer[:size].reshape(shape)
        gram.pack(Q, panels)
        return panels


PRODUCTS: type[Products] = IntegerProducts if gram.AVAILABLE else FloatProducts


class GramSum(ABC):
    """``sum_i q_i q_i^T`` in rectangular full packed format.

    Parameters
    ----------
    n_components : width of the features
    totals : packed sums to go on from, of `dtype`, used and not copied; None means zero
    """

    exact: ClassVar[bool]  # whether the features are whole numbers, and their sums too
    limit: ClassVar[float]  # whole numbers below it are exact totals
    dtype: ClassVar[type]  # of the totals
    partial_bytes: ClassVar[int]  # held for each total while rows are added
    factor_dtype: ClassVar[type] = np.float64  # that a solve takes

    def __init__(self, n_components: int, totals: np.ndarray | None = None):
        size = packed_size(n_components)
        self.n_components = n_components
        self._totals: np.ndarray | None = (
            np.zeros(size, dtype=self.dtype) if totals is None else totals
        )
        self.n_splits = 0

    def __reduce__(self):
        """Send the sums alone: how to multiply is for each machine to say, and zeros are known."""
        totals = self.totals
        return type(self), (self.n_components, totals if totals.any() else None)

    @property
    def totals(self) -> np.ndarray:
        """The sums, of shape (n_components (n_components + 1) / 2,) and `dtype`; not a copy."""
        if self._totals is None:
            raise ConsumedError(
                "the memory of these sums was used up by solve(overwrite=True); save the "
                "statistics before, or solve without overwrite"
            )
        return self._totals

    def copy(self) -> "GramSum":
        """Give the same sums in memory of their own, which is not touched where all are zero."""
        totals = self.totals
        return type(self)(self.n_components, totals.copy() if totals.any() else None)

    def surrender(self) -> np.ndarray:
        """Give the totals away for good, to be overwritten."""
        totals = self.totals
        self._totals = None
        return totals

    def check(self, Q: np.ndarray) -> None:  # noqa: B027 - most sums take any rows
        """Refuse rows Q (n, n_components) whose sums would not be exact, before any are added."""

    @abstractmethod
    def add(self, Q: np.ndarray) -> None:
        """Add the rows Q (n, n_components)."""

    @abstractmethod
    def release(self) -> None:
        """Give back the memory that only adding needs."""


def packed_size(n_components: int) -> int:
    """Give how many numbers a packed Gram has.

    Raises
    ------
    ParameterError
        If they are too many for LAPACK.
    """
    if n_components > MOST_COLUMNS:
        raise ParameterError(
            f"n_components={n_components} is too many: LAPACK factors a packed Gram of at most "
            f"{MOST_COLUMNS} components"
        )
    return n_components * (n_components + 1) // 2


class ExactGram(GramSum):
    """Sums of integers by short products that are proven exact.

    By Cauchy and Schwarz every sum of products of two columns, partial ones included, is bounded by
    the greatest column sum of squares. While that stays below the products' limit within a block,
    the block is multiplied in 32 bits and each sum joins its float64 total once. A block above the
    limit is split: a few rows with the greatest entries (outliers, border pixels) are gathered and
    multiplied in float64, which is exact to 2^53; where a few are not enough, the block is halved.

    Parameters
    ----------
    n_components, totals : see `GramSum`
    products : how to multiply; None means the fastest here. The totals are the same bytes.
    """

    exact = True
    limit = 2.0**53
    dtype = np.float64
    partial_bytes = PRODUCTS.total_bytes

    def __init__(
        self,
        n_components: int,
        totals: np.ndarray | None = None,
        products: Products | None = None,
    ):
        super().__init__(n_components, totals)
        self._products = PRODUCTS() if products is None else products
        self._heavy: list[np.ndarray] = []  # rows to multiply in float64

    @property
    def totals(self):
        """The sums, of all rows."""
        self._flush()
        return super().totals

    def add(self, Q):
        """Add integers Q (n, n_components) float32, entries within +-32767."""
        for block in _blocks(Q):
            self._add_block(block)

    def _add_block(self, Q):
        limit = self._products.limit
        squares = _column_squares(Q)
        if squares.max(initial=0) < limit:
            self._products.add(Q, self._totals_now())
            return
        self.n_splits += 1
        heavy = _heavy_rows(Q, squares, limit, len(Q) // HEAVY_SHARE)
        if len(heavy):
            self._add_heavy(Q[heavy])
            self._products.add(np.delete(Q, heavy, axis=0), self._totals_now())
        elif len(Q) > SHORT_ROWS:
            for half in np.array_split(Q, 2):
                self._add_block(half)
        else:
            self._add_heavy(Q.copy())

    def _totals_now(self):
        """Return the totals without the heavy rows."""
        return super().totals

    def _add_heavy(self, Q):
        self._heavy.append(Q)
        if sum(map(len, self._heavy)) >= WIDE_ROWS:
            self._flush()

    def _flush(self):
        if self._heavy:
            rows, self._heavy = np.concatenate(self._heavy), []
            add_product(rows.astype(np.float64), self._totals_now())

    def release(self):
        """Add the heavy rows and give back the memory of the products."""
        self._flush()
        self._products = type(self._products)()


class CompactGram(GramSum):
    """Sums of whole numbers in 32 bits: half the memory, for widths whose Gram is most of it.

    The products are added where they stay. By Cauchy and Schwarz no sum is greater than the
    greatest sum of squares, so rows are refused, with nothing added, before that reaches 2^31:
    after about two million rows of 32 levels (`Rounding`). Factors are float32, in the same memory
    where the sums are given up for them.

    Parameters
    ----------
    n_components, totals, products : see `ExactGram`
    """

    exact = True
    limit = 2.0**31
    dtype = np.int32
    partial_bytes = PRODUCTS.total_bytes
    factor_dtype = np.float32

    def __init__(
        self,
        n_components: int,
        totals: np.ndarray | None = None,
        products: Products | None = None,
    ):
        super().__init__(n_components, totals)
        self._products = PRODUCTS() if products is None else products
        self._squares = np.zeros(n_components)
        packed.diagonal(self.totals, self._squares)

    def check(self, Q):
        """Refuse rows that would take a total to 2^31."""
        squares = sum(_column_squares(block) for block in _blocks(Q))
        if (self._squares + squares).max(initial=0) >= self.limit:
            raise StreamrfError(
                "the sums would outgrow 2^31, so 32-bit totals would no longer be exact; use "
                "totals='float64', or sum parts of the rows"
            )

    def add(self, Q):
        """Add integers Q (n, n_components) float32, entries within +-32767."""
        self.check(Q)
        for block in _blocks(Q):
            self._add_block(block)

    def _add_block(self, Q):
        squares = _column_squares(Q)
        if squares.max(initial=0) >= self._products.limit:  # only where BLAS multiplies
            self.n_splits += 1
            if len(Q) == 1:
                packed.flush(_wide_product(Q), self.totals)
                self._squares += squares
                return
            for half in np.array_split(Q, 2):
                self._add_block(half)
            return
        self._products.add(Q, self.totals)
        self._squares += squares

    def release(self):
        """Give the memory of the product's operand back."""
        self._products = type(self._products)()


class FloatGram(GramSum):
    """Sums of float64 products, exact to rounding only."""

    exact = False
    limit = np.inf
    dtype = np.float64
    partial_bytes = 0

    def add(self, Q):
        """Add rows Q (n, n_components) float64."""
        add_product(np.ascontiguousarray(Q), self.totals)

    def release(self):
        """Nothing to give back."""


TOTALS: dict[str, type[GramSum]] = {"float64": ExactGram, "int32": CompactGram}


def gram_class(exact: bool, totals: str = "float64") -> type[GramSum]:
    """Find how to sum products: of whole numbers or not, and in what totals.

    Raises
    ------
    ParameterError
        If there are no such totals.
    """
    if totals not in TOTALS:
        raise ParameterError(f"totals must be one of {sorted(TOTALS)}, got {totals!r}")
    if exact:
        return TOTALS[totals]
    if totals != "float64":
        raise ParameterError(
            f"totals={totals!r} are for whole numbers; precision='float64' needs totals='float64'"
        )
    return FloatGram


def _blocks(Q):
    return [Q[start : start + PRODUCT_ROWS] for start in range(0, len(Q), PRODUCT_ROWS)]


def _column_squares(Q):
    squares = np.empty(Q.shape[1])
    lanes.column_squares(Q, squares)
    return squares


def _wide_product(Q):
    product = np.zeros(packed_size(Q.shape[1]))
    add_product(Q.astype(np.float64), product)
    return product


def _heavy_rows(Q, squares, limit, most):
    """Return indices of rows whose removal leaves squares below the limit; none if over `most`."""
    order = np.argsort(-np.maximum(Q.max(axis=1), -Q.min(axis=1)), kind="stable")
    count = 1
    while count <= most:
        if (squares - _column_squares(Q[order[:count]])).max() < limit:
            return order[:count]
        count *= 2
    return order[:0]
