"""``sum_i q_i q_i^T`` of rows of features, in LAPACK's rectangular full packed format."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, Self

import numpy as np

from streamrf.errors import ConsumedError, ParameterError, StreamrfError, check_choice
from streamrf.jit import lanes, packed
from streamrf.jit.arrays import Array, Features, Floats, Indices
from streamrf.jit.lapack import MAX_COLUMNS, add_product
from streamrf.jit.threads import computing
from streamrf.statistics.products import PRODUCTS, Products

PRODUCT_ROWS = 4096  # rows multiplied at a time
HEAVY_SHARE = 64  # of a block's rows, one at most is heavy; else the block is halved
SHORT_ROWS = 256  # fewer rows are multiplied in float64 rather than halved
WIDE_ROWS = 512  # multiplied in float64 at a time, to hold little memory
WRAPPED_SHARE = 8  # of the columns, one at most has products that wrap around 2^32
MIN_PRODUCT_ROWS = 2048  # rows multiplied at a time, at least, where more did not fit before
NARROW = 2048  # features, up to which half as many may be: totals are in the cache
GROWTH_MARGIN = 3  # times the squares of rows must fit, or no more are multiplied next


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
                "the memory of these sums was used up by solve(overwrite=True) or absorb; save "
                "the statistics before, or solve without overwrite and add by +"
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
    products : how to multiply, which several may share that are added to in turn; None means the
        fastest here. The totals are the same bytes.
    """

    exact = True
    partial_bytes = PRODUCTS.total_bytes

    def __init__(
        self, n_components: int, totals: Array | None = None, products: Products | None = None
    ) -> None:
        super().__init__(n_components, totals)
        self.products = PRODUCTS() if products is None else products

    def copy(self) -> Self:
        twin = super().copy()
        twin.products = self.products.fresh()  # which need not try 8 bits again
        return twin

    def add(self, Q: Features) -> None:
        """Add integers Q (n, n_components) float32, entries within +-32767; left as it is."""
        self.check(Q)
        for block in self._blocks(Q):
            self._add_block(block)

    def _blocks(self, Q: Features) -> Iterator[Features]:
        """Yield the rows, as many at a time as are to be multiplied together."""
        yield from _blocks(Q)

    @abstractmethod
    def _add_block(self, Q: Features) -> None:
        """Add rows of which one product is taken."""

    def release(self) -> None:
        self.products.release()


class ExactGram(IntegerGram):
    """Sums of integers in float64.

    While the squares of a block stay below the products' limit, it is multiplied in 32 bits and
    each sum joins its float64 total once. Above the limit, sums of 32 bits wrap around 2^32: those
    of two columns whose squares have a product of 2^62 or more. If such columns are few, their
    products are taken in float64 too, exact to 2^53, and the multiples of 2^32 are added. Else the
    block is split: a few rows with the greatest entries (outliers, border pixels) are gathered and
    multiplied in float64; where a few are not enough, the block is halved, and so are those that
    follow, until their squares are small again.
    """

    limit = 2.0**53
    dtype = np.float64

    def __init__(
        self, n_components: int, totals: Array | None = None, products: Products | None = None
    ) -> None:
        super().__init__(n_components, totals, products)
        self._heavy: list[Features] = []  # rows to multiply in float64
        self._n_rows = PRODUCT_ROWS  # to multiply at a time
        self._greatest = 0.0  # column sum of squares of the rows at hand

    @property
    def totals(self) -> Array:
        """The sums, of all rows."""
        self._flush()
        return super().totals

    def _blocks(self, Q: Features) -> Iterator[Features]:
        start = 0
        while start < len(Q):
            n_rows, self._greatest = self._n_rows, 0.0
            block = Q[start : start + n_rows]
            start += len(block)
            yield block
            is_whole = len(block) == n_rows
            if is_whole and GROWTH_MARGIN * self._greatest < self.products.limit:
                self._n_rows = min(2 * n_rows, PRODUCT_ROWS)

    def _add_block(self, Q: Features) -> None:
        if self.products.add_small(Q, super().totals):
            return
        squares = _column_squares(Q)
        self._greatest = max(self._greatest, squares.max(initial=0))
        if self._fits(squares):
            self._multiply(Q, squares)
            return
        self.n_splits += 1
        heavy = _heavy_rows(Q, squares, self._fits, len(Q) // HEAVY_SHARE)
        if len(heavy):
            self._multiply_light(Q, heavy, squares)
        elif len(Q) > SHORT_ROWS:
            least = MIN_PRODUCT_ROWS // 2 if self.n_components <= NARROW else MIN_PRODUCT_ROWS
            self._n_rows = min(self._n_rows, max(least, len(Q) // 2))
            for half in np.array_split(Q, 2):
                self._add_block(half)
        else:
            self._add_heavy(Q.copy())

    def _multiply_light(self, Q: Features, heavy: Indices, squares: Floats) -> None:
        """Multiply all rows but a few, in whose place are zeros meanwhile: a copy takes longer."""
        rows = Q[heavy]
        self._add_heavy(rows)
        if not Q.flags.writeable:
            Q = Q.copy()
        Q[heavy] = 0
        try:
            self._multiply(Q, squares - _column_squares(rows))
        finally:
            Q[heavy] = rows

    def _fits(self, squares: Floats) -> bool:
        """Return whether rows with these column squares can be multiplied at once."""
        if squares.max(initial=0) < self.products.limit:
            return True
        few = self.n_components // WRAPPED_SHARE
        return self.products.wraps and len(self._wrapping(squares)) <= few

    def _wrapping(self, squares: Floats) -> Indices:
        """Return the columns whose products with each other may reach the limit."""
        bound = self.products.limit**2 * (1 - 1e-12)  # a product of squares is rounded
        return np.flatnonzero(squares * squares.max(initial=0) >= bound)

    def _multiply(self, Q: Features, squares: Floats) -> None:
        totals = super().totals
        self.products.add(Q, totals)
        columns = self._wrapping(squares)
        if len(columns):
            product = _wide_product(np.ascontiguousarray(Q[:, columns]))
            wrap = 2 * self.products.limit
            lacking = np.floor(product / wrap + 0.5) * wrap
            packed.add_selected(lacking, columns, self.n_components, totals)

    def _add_heavy(self, Q: Features) -> None:
        self._heavy.append(Q)
        if sum(map(len, self._heavy)) >= WIDE_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._heavy:
            rows, self._heavy = np.concatenate(self._heavy), []
            add_product(rows.astype(np.float64), super().totals)

    def release(self) -> None:
        """Add the heavy rows and give back the memory of the products."""
        self._flush()
        super().release()


class CompactGram(IntegerGram):
    """Sums of integers in 32 bits: half the memory, for widths whose Gram is most of it.

    The products are added where they stay. No sum is greater than the greatest sum of squares, so
    rows are refused, with nothing added, before that reaches 2^31: after about two million rows of
    32 levels (`Rounding`). Factors are float32, in the same memory where the sums are given up for
    them.
    """

    limit = 2.0**31
    dtype = np.int32
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
        if not self.products.add_small(Q, self.totals):
            if squares.max(initial=0) < self.products.limit:
                self.products.add(Q, self.totals)
            else:  # only where BLAS multiplies
                self.n_splits += 1
                if len(Q) > 1:
                    for half in np.array_split(Q, 2):
                        self._add_block(half)
                    return
                packed.flush(_wide_product(Q), self.totals)
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
    check_choice("totals", totals, sorted(TOTALS))
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


def _wide_product(Q: Features) -> Floats:
    product = np.zeros(packed_size(Q.shape[1]))
    with computing(1):  # of few columns: threads of BLAS wait long where another has their core
        add_product(Q.astype(np.float64), product)
    return product


def _heavy_rows(
    Q: Features, squares: Floats, fits: Callable[[Floats], bool], max_rows: int
) -> Indices:
    """Return rows whose removal leaves squares that fit; none if over `max_rows`."""
    order = np.argsort(-np.maximum(Q.max(axis=1), -Q.min(axis=1)), kind="stable")
    count = 1
    while count <= max_rows:
        if fits(squares - _column_squares(Q[order[:count]])):
            return order[:count]
        count *= 2
    return order[:0]
