"""``sum_i q_i q_i^T`` of rows of features, in LAPACK's rectangular full packed format."""

import math
from abc import ABC, abstractmethod

import numpy as np
from scipy.linalg import lapack

from streamrf.jit import gram, lanes, packed

PRODUCT_ROWS = 4096  # rows multiplied at a time
FEWEST_HEAVY_ROWS = 16
WIDE_ROWS = 512  # multiplied in float64 at a time, to hold little memory


class Products(ABC):
    """A way to multiply whole numbers that is exact while no sum reaches `limit`."""

    limit: float
    dtype: type

    @abstractmethod
    def prepare(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the column squares of Q, float64 (n_components,), and Q as `add` takes it."""

    @abstractmethod
    def add(self, operand: np.ndarray, partial: np.ndarray) -> None:
        """Add the product of the rows prepared to `partial`, packed and of `dtype`."""


class FloatProducts(Products):
    """Float32 products of BLAS, exact below 2^24."""

    limit = 2.0**24
    dtype = np.float32

    def prepare(self, Q):
        """Take Q as it is."""
        return _column_squares(Q), Q

    def add(self, operand, partial):
        """Multiply by `ssfrk`."""
        _add_product(lapack.ssfrk, operand, partial)


class IntegerProducts(Products):
    """Products of 16-bit numbers in 32 bits, exact below 2^31; see `streamrf.jit.gram`."""

    limit = 2.0**31
    dtype = np.int32

    def __init__(self):
        self._buffer = gram.aligned_buffer(0)

    def prepare(self, Q):
        """Lay Q out in panels, in memory that is used again."""
        shape = gram.panels_shape(*Q.shape)
        size = math.prod(shape)
        if self._buffer.size < size:
            self._buffer = gram.aligned_buffer(size)
        panels = self._buffer[:size].reshape(shape)
        squares = np.empty(Q.shape[1])
        gram.pack(Q, panels, squares)
        return squares, panels

    def add(self, operand, partial):
        """Multiply panel by panel."""
        width = int((np.sqrt(8 * len(partial) + 1) - 1) / 2)
        gram.add_products(operand, width, partial)


PRODUCTS: type[Products] = IntegerProducts if gram.AVAILABLE else FloatProducts


class GramSum(ABC):
    """``sum_i q_i q_i^T`` in rectangular full packed format."""

    @property
    @abstractmethod
    def totals(self) -> np.ndarray:
        """The sums, float64 of shape (n_components (n_components + 1) / 2,); not a copy."""

    @abstractmethod
    def add(self, Q: np.ndarray) -> None:
        """Add the rows Q (n, n_components)."""

    @abstractmethod
    def release(self) -> None:
        """Give back the memory that only adding needs."""


class ExactGram(GramSum):
    """Sums of whole numbers by short products that are proven exact.

    By Cauchy and Schwarz every sum of products of two columns, partial ones included, is bounded by
    the greatest column sum of squares. While that stays below the products' limit they add without
    error; before it would not, the partial sums join the float64 totals. A block too large by
    itself is split: its rows with the greatest entries are multiplied in float64, which is exact to
    2^53. (Halving such blocks until each part was small enough took 10 of 12 s on MNIST in float32,
    whose border pixels hardly ever vary.)

    Parameters
    ----------
    n_components : width of the features
    totals : float64 to go on from, used and not copied; None means zero
    products : how to multiply; None means the fastest here. The totals are the same bytes.
    """

    def __init__(
        self,
        n_components: int,
        totals: np.ndarray | None = None,
        products: Products | None = None,
    ):
        size = n_components * (n_components + 1) // 2
        self._totals = np.zeros(size) if totals is None else totals
        self._products = PRODUCTS() if products is None else products
        self._partial: np.ndarray | None = None
        self._bound = np.zeros(n_components)
        self.n_splits = 0

    def __reduce__(self):
        """Send the sums alone: how to multiply is for each machine to say, and zeros are known."""
        totals = self.totals
        return type(self), (len(self._bound), totals if totals.any() else None)

    @property
    def totals(self):
        """The sums, after the partial ones have joined them."""
        self._flush()
        return self._totals

    def add(self, Q):
        """Add whole numbers Q (n, n_components) float32, entries within +-4095."""
        for start in range(0, len(Q), PRODUCT_ROWS):
            self._add_block(Q[start : start + PRODUCT_ROWS])

    def _add_block(self, Q):
        limit = self._products.limit
        squares, operand = self._products.prepare(Q)
        if squares.max(initial=0) >= limit:
            self.n_splits += 1
            heavy = _heavy_rows(Q, squares, limit)
            for rows in np.array_split(np.flatnonzero(heavy), -(-heavy.sum() // WIDE_ROWS)):
                _add_product(lapack.dsfrk, Q[rows].astype(np.float64), self._totals)
            Q = Q[~heavy]
            if not len(Q):
                return
            squares, operand = self._products.prepare(Q)
        if (self._bound + squares).max(initial=0) >= limit:
            self._flush()
        if self._partial is None:
            self._partial = np.zeros(len(self._totals), dtype=self._products.dtype)
        self._bound += squares
        self._products.add(operand, self._partial)

    def _flush(self):
        if self._bound.any():
            packed.flush(self._partial, self._totals)
            self._bound[:] = 0.0

    def release(self):
        """Join the partial sums and give their memory back."""
        self._flush()
        self._partial = None
        self._products = type(self._products)()


class FloatGram(GramSum):
    """Sums of float64 products, exact to rounding only."""

    def __init__(self, n_components: int, totals: np.ndarray | None = None):
        size = n_components * (n_components + 1) // 2
        self._totals = np.zeros(size) if totals is None else totals
        self.n_splits = 0

    def __reduce__(self):
        """Send the sums; zeros are known."""
        width = int((np.sqrt(8 * len(self._totals) + 1) - 1) / 2)
        return type(self), (width, self._totals if self._totals.any() else None)

    @property
    def totals(self):
        """The sums."""
        return self._totals

    def add(self, Q):
        """Add rows Q (n, n_components) float64."""
        _add_product(lapack.dsfrk, Q, self._totals)

    def release(self):
        """Nothing to give back."""


def _add_product(syrk, Q, packed_sums):
    """``packed_sums += Q^T Q``, in place."""
    result = syrk(
        Q.shape[1], len(Q), 1.0, Q.T, 1.0, packed_sums,
        transr="N", uplo="L", trans="N", overwrite_c=1,
    )  # fmt: skip
    assert result is packed_sums, "the product must be added in place"


def _column_squares(Q):
    squares = np.empty(Q.shape[1])
    lanes.column_squares(Q, squares)
    return squares


def _heavy_rows(Q, squares, limit):
    """Mark rows with great entries, enough that the squares of the others stay below the limit."""
    order = np.argsort(-np.maximum(Q.max(axis=1), -Q.min(axis=1)), kind="stable")
    count = FEWEST_HEAVY_ROWS
    while count < len(Q):
        if (squares - _column_squares(Q[order[:count]])).max() < limit:
            break
        count *= 2
    heavy = np.zeros(len(Q), dtype=bool)
    heavy[order[:count]] = True
    return heavy
