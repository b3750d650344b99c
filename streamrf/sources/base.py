"""What a source offers: rows in a fixed order, in blocks, from any start to any stop."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from streamrf.errors import BadRowError, ParameterError

FINGERPRINT_ROWS = 64


@dataclass(frozen=True)
class Block:
    """Consecutive rows of one store.

    Parameters
    ----------
    X : ndarray of shape (n, n_features), C-contiguous; uint8, int16, float32 or float64
    y : ndarray of shape (n,) or (n, n_targets), or None
    weights : float64 ndarray of shape (n,), or None
    position : place of the first row in the whole source
    key : ledger key, names the store that the rows came from
    row : place of the first row in that store
    span : rows of the store covered, ``[row, row + span)``; more than n where rows were skipped
    kept : int64 ndarray of shape (n,), offsets within the span of the rows kept; None means all
    where : the store, for messages
    """

    X: np.ndarray
    y: Any
    weights: np.ndarray | None
    position: int
    key: str
    row: int
    span: int
    kept: np.ndarray | None
    where: str

    @property
    def positions(self) -> np.ndarray:
        """Places of the rows in the whole source, int64 of shape (n,)."""
        offsets = np.arange(len(self.X)) if self.kept is None else self.kept
        return self.position + offsets


@dataclass(frozen=True)
class Store:
    """A place that rows come from: a file, an array, a stream.

    Parameters
    ----------
    key : ledger key
    where : the store, for messages
    n_rows : its rows, None where unknown
    """

    key: str
    where: str
    n_rows: int | None


class Source(ABC):
    """Rows that can be read in blocks.

    Holds paths and bounds, never an open file, so that it pickles and is cheap to send.
    """

    n_rows: int | None
    n_features: int
    where: str
    seekable: bool
    has_targets: bool
    has_weights: bool

    @property
    @abstractmethod
    def stores(self) -> list[Store]:
        """The stores in the order of their rows."""

    @property
    def versions(self) -> list[str]:
        """What changes when the stores are written to; nothing where nobody writes."""
        return []

    @property
    def buffer_bytes(self) -> int:
        """Bytes held while reading, beside the blocks given: a cache of chunks."""
        return 0

    @property
    @abstractmethod
    def settings(self) -> dict[str, str | None]:
        """What tells this reading of the stores from another, by names for messages."""

    @abstractmethod
    def blocks(
        self, start: int = 0, stop: int | None = None, *, block_rows: int = 4096
    ) -> Iterator[Block]:
        """Give the rows ``[start, stop)`` in order, at most about `block_rows` at a time."""

    @abstractmethod
    def split(self, parts: int) -> list[tuple[int, int]]:
        """Cut all rows into at most `parts` disjoint ranges on chunk borders."""

    @abstractmethod
    def sample(self, n_rows: int) -> Block:
        """Give about `n_rows` rows for calibration, without consuming an iterator."""


def check_rows(block: Block, on_bad_rows: str) -> tuple[Block, int]:
    """The block without the rows that cannot be used: NaN or infinity, or a negative weight.

    Parameters
    ----------
    block : rows as a source gives them; left as it is
    on_bad_rows : "raise" or "skip"

    Returns
    -------
    block : Block
        The same block where all rows are good; else one without the bad rows, whose `kept` tells
        the offsets of the others in the same `span`. It can be left without rows.
    n_skipped : int

    Raises
    ------
    BadRowError
        With "raise", at the first bad row; the message names the store, the row in the store, the
        column and the value.
    ParameterError
        Another `on_bad_rows`.
    """
    if on_bad_rows not in ("raise", "skip"):
        raise ParameterError(f"on_bad_rows={on_bad_rows!r}; expected 'raise' or 'skip'")
    bad = _bad_rows(block)
    n_bad = int(np.count_nonzero(bad))
    if not n_bad:
        return block, 0
    if on_bad_rows == "raise":
        raise BadRowError(_complaint(block, int(np.argmax(bad)), n_bad))
    good = ~bad
    offsets = np.arange(len(block.X)) if block.kept is None else block.kept
    return (
        replace(
            block,
            X=block.X[good],
            y=None if block.y is None else block.y[good],
            weights=None if block.weights is None else block.weights[good],
            kept=offsets[good].astype(np.int64, copy=False),
        ),
        n_bad,
    )


def fingerprint(X: np.ndarray, name: str = "") -> str:
    """A ledger key made of the content: a hash of the first 64 rows, the width and the dtype.

    A store has the same key under another path or grown by rows at its end; two stores that begin
    with different rows have different keys.

    Parameters
    ----------
    X : ndarray of shape (n, n_features), the first rows of a store, in a dtype of `as_matrix`
    name : the base name of the store; joins the hash where all those rows are equal (blank
        images), because such rows tell nothing apart

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    rows = np.ascontiguousarray(X[:FINGERPRINT_ROWS])
    digest = blake2b(f"{rows.dtype.name} {rows.shape[1]} ".encode(), digest_size=16)
    digest.update(rows.astype(rows.dtype.newbyteorder("<"), copy=False).tobytes())
    if (rows == rows[:1]).all():
        digest.update(name.encode())
    return digest.hexdigest()


def column_fingerprint(values: np.ndarray | None) -> str | None:
    """A hash of the first 64 targets or weights; None of none.

    Examples
    --------
    >>> column_fingerprint(np.zeros(100)) == column_fingerprint(np.zeros(64))
    True
    """
    if values is None:
        return None
    first = values[:FINGERPRINT_ROWS].tolist()  # not the dtype: it may widen with rows to come
    return blake2b(repr(first).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def check_window(
    n_rows: int | None, start: int, stop: int | None, block_rows: int
) -> tuple[int, int | None]:
    """The bounds of a reading, `stop` cut to the rows there are.

    Raises
    ------
    ParameterError
        A start outside the rows, a stop before the start, or blocks of no rows.
    """
    if block_rows < 1:
        raise ParameterError(f"block_rows={block_rows}; expected at least 1")
    if n_rows is not None:
        stop = n_rows if stop is None else min(stop, n_rows)
    if start < 0 or (stop is not None and start > stop):
        raise ParameterError(
            f"start={start}, stop={stop} of {'unknown' if n_rows is None else n_rows} rows;"
            " expected 0 <= start <= stop"
        )
    return start, stop


def even_ranges(n_rows: int, parts: int, border: Callable[[int], int]) -> list[tuple[int, int]]:
    """Cut ``[0, n_rows)`` into at most `parts` ranges of about one length, none empty.

    Parameters
    ----------
    n_rows : rows in all
    parts : ranges wanted; fewer come where there are not as many borders
    border : the border nearest to a row, where the source may be cut

    Raises
    ------
    ParameterError
        Fewer than one part.

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


def even_stretches(
    n_rows: int, wanted: int, border_before: Callable[[int], int]
) -> list[tuple[int, int]]:
    """About `wanted` rows in 8 disjoint ranges, spread evenly from the first row to the last.

    Eight, because each may cost the decompression of a whole chunk.

    Parameters
    ----------
    n_rows : rows in all
    wanted : rows to choose
    border_before : the last chunk border at or before a row; a stretch begins there unless the
        stretch before it has not ended yet (a file of a few huge chunks)

    Raises
    ------
    ParameterError
        Fewer than one row wanted.
    """
    if wanted < 1:
        raise ParameterError(f"a sample of {wanted} rows; expected at least 1")
    if wanted >= n_rows:
        return [(0, n_rows)]
    count = min(8, wanted)
    length = -(-wanted // count)
    stretches = []
    end = 0
    for k in range(count):
        target = k * (n_rows - length) // max(1, count - 1)
        aligned = border_before(target)
        begin = aligned if aligned >= end else max(target, end)
        end = min(begin + length, n_rows)
        stretches.append((begin, end))
    return [(begin, end) for begin, end in stretches if begin < end]


def join_sample(blocks: Iterable[Block], n_rows: int, where: str) -> Block:
    """Blocks from several places as one block over the whole source.

    Its position and row are 0, its span is all rows and `kept` holds the places of its rows, so
    that a message names the right row. Its key is the first store's.
    """
    blocks = list(blocks)
    first = blocks[0]
    return Block(
        X=np.concatenate([block.X for block in blocks]),
        y=None if first.y is None else np.concatenate([block.y for block in blocks]),
        weights=(
            None if first.weights is None else np.concatenate([block.weights for block in blocks])
        ),
        position=0,
        key=first.key,
        row=0,
        span=n_rows,
        kept=np.concatenate([block.positions for block in blocks]),
        where=where,
    )


def _bad_rows(block: Block) -> np.ndarray:
    bad = np.zeros(len(block.X), dtype=bool)
    for values in (block.X, block.y, block.weights):
        if values is not None and not _surely_finite(values):
            bad |= ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if block.weights is not None:
        bad |= block.weights < 0
    return bad


def _surely_finite(values: np.ndarray) -> bool:
    """True only if no value is NaN or infinite, because then their sum would not be finite.

    The sum reads the block once and writes nothing. Finite values can overflow it, so False says
    nothing.
    """
    if values.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


def _complaint(block: Block, index: int, n_bad: int) -> str:
    """What is wrong with the row at `index` of the block, and what to do."""
    row = block.row + (index if block.kept is None else int(block.kept[index]))
    columns = np.flatnonzero(~np.isfinite(block.X[index]))
    targets = columns if block.y is None else _not_finite(block.y[index : index + 1])
    if len(columns):
        what = f"column {columns[0]} is {_shown(block.X[index, columns[0]])}"
    elif len(targets):
        what = f"the target is {_shown(targets[0])}"
    else:
        assert block.weights is not None
        what = f"the weight is {_shown(block.weights[index])}, and weights are finite, not negative"
    more = f" ({n_bad} such rows in this block)" if n_bad > 1 else ""
    return (
        f"{block.where}, row {row}: {what}{more}; clean the data, or leave such rows out with"
        " on_bad_rows='skip' (--on-bad-rows skip)"
    )


def _not_finite(values: np.ndarray) -> np.ndarray:
    return values[~np.isfinite(values)] if values.dtype.kind == "f" else values[:0].ravel()


def _shown(value: float) -> str:
    return "NaN" if np.isnan(value) else str(value)
