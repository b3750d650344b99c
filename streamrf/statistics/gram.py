"""``sum_i q_i q_i^T`` of rows of features, in LAPACK's rectangular full packed format."""

from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np

from streamrf.errors import ConsumedError, ParameterError, StreamrfError, check_choice
from streamrf.jit import lanes, packed
from streamrf.jit.arrays import Array, Features, Floats, Indices
from streamrf.jit.lapack import MAX_COLUMNS, add_product
from streamrf.jit.runs import PART
from streamrf.jit.threads import computing
from streamrf.statistics.products import PRODUCTS, Products

PRODUCT_ROWS = 4096  # rows multiplied at a time
WRAPPED_SHARE = 8  # of the columns, one at most has products that wrap around 2^32
HEAVY_SHARE = 16  # of a block's rows, one at most goes apart from the others
GREAT_SHARE = 4  # of the parts, one at most is great where they are summed in runs
WIDE_ROWS = 512  # multiplied in float64 at a time, to hold little memory


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
        for block in _blocks(Q):
            self._add_block(block)

    @abstractmethod
    def _add_block(self, Q: Features) -> None:
        """Add rows of which one product is taken."""

    def release(self) -> None:
        self.products.release()


class ExactGram(IntegerGram):
    """Sums of integers in float64.

    While the column squares of a block stay below the products' limit, it is multiplied in 32 bits
    and each sum joins its float64 total once. Above the limit it is summed in runs of parts of 64
    rows. Where a part alone is above it, its sums of two columns whose squares have a product of
    2^62 or more wrap around 2^32. If such columns are few, their products in the part are taken in
    float64 too, exact to 2^53, and the multiples of 2^32 are added; the whole block is one part
    then if many are. Else the rows with entries so great that 64 of them may pass the limit are
    multiplied in float64.
    """

    limit = 2.0**53
    dtype = np.float64

    def __init__(
        self, n_components: int, totals: Array | None = None, products: Products | None = None
    ) -> None:
        super().__init__(n_components, totals, products)
        self._heavy: list[Features] = []  # rows to multiply in float64

    @property
    def totals(self) -> Array:
        """The sums, of all rows."""
        self._flush()
        return super().totals

    def _add_block(self, Q: Features) -> None:
        totals, limit = super().totals, self.products.limit
        if self.products.add_small(Q, totals):
            return
        parts = _part_squares(Q)
        squares = parts.sum(axis=0, keepdims=True)
        if squares.max(initial=0) < limit:
            self.products.add(Q, totals, squares)
            return
        self.n_splits += 1
        few = self.n_components // WRAPPED_SHARE if self.products.wraps else 0
        great = np.flatnonzero(parts.max(axis=1) >= limit)
        if len(great) > len(parts) // GREAT_SHARE:  # most tiles would be cut at each part
            wrapped = _wrapped(squares, limit)
            if len(wrapped) <= few:
                self.products.add(Q, totals, squares)
                self._add_lacking([Q], wrapped)
                return
        wrapped = _wrapped(parts[great], limit)
        if len(wrapped) <= few:
            self.products.add(Q, totals, parts)
            self._add_lacking([_part(Q, part) for part in great.tolist()], wrapped)
        else:
            self._add_apart(Q, great)

    def _add_lacking(self, pieces: list[Features], columns: Indices) -> None:
        """Add multiples of 2^32 by which products of columns, summed by piece, are too small."""
        if not len(columns):
            return
        wrap, lacking = 2 * self.products.limit, np.zeros((len(columns), len(columns)))
        with computing(1):  # of few columns: threads of BLAS wait long where others have their core
            for piece in pieces:
                rows = piece[:, columns].astype(np.float64)
                lacking += np.floor(rows.T @ rows / wrap + 0.5) * wrap
        packed.add_selected(lacking, columns, self.n_components, super().totals)

    def _add_apart(self, Q: Features, great: Indices) -> None:
        """Add the rows of great parts that have great entries in float64, the others as usual."""
        least = np.sqrt(self.products.limit / PART)
        found = []
        for part in great:
            rows = _part(Q, part)
            found.append(part * PART + np.flatnonzero((np.abs(rows) >= least).any(axis=1)))
        heavy = np.concatenate(found)
        if len(heavy) > len(Q) // HEAVY_SHARE:
            for start in range(0, len(Q), WIDE_ROWS // 2):
                self._add_heavy(Q[start : start + WIDE_ROWS // 2].copy())
            return
        rows = Q[heavy]
        self._add_heavy(rows)
        if not Q.flags.writeable:
            Q = Q.copy()
        try:
            Q[heavy] = 0  # meanwhile: a copy of the others takes longer
            self.products.add(Q, super().totals, _part_squares(Q))
        finally:
            Q[heavy] = rows

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
                self.products.add(Q, self.totals, squares[np.newaxis])
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


def _part(Q: Features, part: int) -> Features:
    return Q[part * PART : (part + 1) * PART]


def _part_squares(Q: Features) -> Floats:
    """Return the column squares of every part of the rows."""
    squares = np.empty((-(-len(Q) // PART), Q.shape[1]))
    lanes.column_squares(Q, squares)
    return squares


def _column_squares(Q: Features) -> Floats:
    return _part_squares(Q).sum(axis=0)


def _wrapped(parts: Floats, limit: float) -> Indices:
    """Return the columns of which products with each other may reach the limit within a part."""
    bound = limit**2 * (1 - 1e-12)  # a product of squares is rounded
    return np.flatnonzero((parts * parts.max(axis=1, keepdims=True) >= bound).any(axis=0))


def _wide_product(Q: Features) -> Floats:
    product = np.zeros(packed_size(Q.shape[1]))
    add_product(Q.astype(np.float64), product)
    return product
