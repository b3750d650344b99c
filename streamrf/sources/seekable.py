"""Sources that can be read from any row on: how their rows are cut into blocks and ranges."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import ParameterError
from streamrf.sources.base import Arrays, Block, Source, check_window, joined
from streamrf.sources.columns import Columns
from streamrf.sources.derived import columns_named, named_as
from streamrf.sources.fingerprints import FINGERPRINT_ROWS, fingerprints
from streamrf.sources.ledger import check_once
from streamrf.sources.sparse import MAX_DENSE, columns_of, values_of_sparse
from streamrf.sources.validation import as_matrix

Ranges = list[tuple[int, int]]


class SeekableSource(Source):
    """Rows that can be read from any row on, in storage chunks.

    Attributes
    ----------
    names : of the columns, None where they have none
    """

    seekable = True
    n_rows: int
    names: tuple[str, ...] | None = None
    _is_one_hot = False

    @property
    def n_entries(self) -> int | None:
        """Entries that are kept of rows that are stored sparse; None of others."""
        return None

    @property
    def is_sparse(self) -> bool:
        return self.n_features > MAX_DENSE and self.n_entries is not None

    @property
    def row_values(self) -> int:
        """Numbers that a row holds: of a sparse one values and columns."""
        if not self.is_sparse:
            return self.n_features
        return values_of_sparse(self.n_entries or 0, self.n_rows)

    @property
    def columns(self) -> Columns | None:
        return columns_named(self.names, self.target_names)

    @property
    def is_one_hot(self) -> bool:
        return self._is_one_hot

    def of_values(self) -> "SeekableSource":
        if not self._is_one_hot:
            return self
        changed = copy.copy(self)
        changed._is_one_hot = False
        return changed

    def adapted(self, columns: Columns | None, labels: NDArray[Any] | None = None) -> Source:
        return named_as(self.of_values() if labels is None else self, columns)

    def keys_of(self, places: Sequence[int]) -> list[str]:
        rows = joined([block.arrays for block in self.blocks(0, FINGERPRINT_ROWS)])
        return fingerprints(columns_of(rows.X, places))

    def blocks(
        self, start: int = 0, stop: int | None = None, *, block_rows: int = 4096
    ) -> Iterator[Block]:
        """Return the rows ``[start, stop)`` in order.

        Parameters
        ----------
        start, stop : indices of rows in the whole source; None means the end
        block_rows : rows of a block at most

        Raises
        ------
        ParameterError
            Bounds outside the rows, or blocks without rows.
        CorruptFileError
            Rows of a file that cannot be read, or files that have become shorter.
        """
        start, end = check_window(self.n_rows, start, stop, block_rows)
        return self._read([(start, self.n_rows if end is None else end)], block_rows)

    def split(self, parts: int) -> Ranges:
        """Cut all rows into at most `parts` ranges of about the same length, on chunk borders.

        A few large chunks give fewer ranges.
        """
        return even_ranges(self.n_rows, parts, self._nearest_border)

    def sample(self, n_rows: int) -> Block:
        """Return about `n_rows` rows, the same each time, from 8 ranges spread over all rows.

        They are the same rows for any chunks, but for those of HDF5. The block's `kept` holds the
        indices of the rows in the whole source.
        """
        ranges = even_stretches(self.n_rows, n_rows, self._sampled_from)
        return join_sample(self._read(ranges, n_rows), self.n_rows, self.where)

    @abstractmethod
    def _read(self, ranges: Ranges, block_rows: int) -> Iterator[Block]:
        """Read disjoint ranges of rows in ascending order."""

    @abstractmethod
    def _chunk(self, row: int) -> tuple[int, int]:
        """Return the bounds of the chunk that holds a row."""

    def _sampled_from(self, row: int) -> int:
        """Return the row at or before one where a range of a sample may begin."""
        return row

    def _nearest_border(self, row: int) -> int:
        before, after = self._chunk(row)
        return before if row - before <= after - row else after


def cut(arrays: Arrays, first: int, block_rows: int, key: str, where: str) -> Iterator[Block]:
    """Yield arrays, of the rows from `first` on in the only store, `block_rows` at a time."""
    for start in range(0, len(arrays.X), block_rows):
        X, y, weights = arrays.take(slice(start, start + block_rows))
        row = first + start
        yield Block(as_matrix(X, where), y, weights, row, key, row, len(X), None, where)


def even_ranges(n_rows: int, parts: int, border: Callable[[int], int]) -> Ranges:
    """Cut ``[0, n_rows)`` into at most `parts` ranges of about the same length, none empty.

    The source may be cut where `border` returns, which is the border nearest to a row.

    Examples
    --------
    >>> even_ranges(100, 3, lambda row: (row + 5) // 10 * 10)
    [(0, 30), (30, 70), (70, 100)]
    """
    if parts < 1:
        raise ParameterError(f"parts={parts}; expected at least 1")
    parts = min(parts, n_rows)
    cuts = {0, n_rows} | {border(part * n_rows // parts) for part in range(1, parts)}
    return list(pairwise(sorted(cuts)))


def even_stretches(n_rows: int, wanted: int, border_before: Callable[[int], int]) -> Ranges:
    """Return 8 disjoint ranges, about `wanted` rows in all, from the first row to the last.

    Eight, because each may cost the decompression of a whole chunk. A range begins at the last
    chunk border before its row, unless the range before has not ended yet (a few huge chunks).
    """
    if wanted < 1:
        raise ParameterError(f"a sample of {wanted} rows; expected at least 1")
    if wanted >= n_rows:
        return [(0, n_rows)]
    count = min(8, wanted)
    length = -(-wanted // count)
    ranges = []
    end = 0
    for k in range(count):
        target = k * (n_rows - length) // max(1, count - 1)
        aligned = border_before(target)
        begin = aligned if aligned >= end else max(target, end)
        end = min(begin + length, n_rows)
        ranges.append((begin, end))
    return [(begin, end) for begin, end in ranges if begin < end]


def join_sample(blocks: Iterable[Block], n_rows: int, where: str) -> Block:
    """Join blocks of a source of `n_rows` rows; `kept` holds the indices of their rows."""
    blocks = list(blocks)
    kept = np.concatenate([block.positions for block in blocks])
    arrays = joined([block.arrays for block in blocks])
    key, names = blocks[0].key, blocks[0].names
    return Block(*arrays, 0, key, 0, n_rows, kept, where, names)


def check_each_once(source: Source) -> None:
    """Raise MergeError if a source that need not be read first has rows of one of its files twice.

    Where sums are kept, their ledger says so.
    """
    if source.seekable:
        check_once(source.stores)
