"""What a source offers: rows in a fixed order, in blocks, from any start to any stop."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamrf.display import Card
from streamrf.errors import BadRowError, ParameterError, check_choice
from streamrf.sources.columns import Columns
from streamrf.sources.sparse import SparseRows, stacked

MAX_VALUE = 1e150  # whose square float64 holds, also a sum of squares


class Arrays(NamedTuple):
    """X, y and weights of the same rows; y and weights may be None."""

    X: Any
    y: Any
    weights: Any

    def take(self, rows: slice | NDArray[Any]) -> "Arrays":
        """Return the arrays of some of the rows."""
        return Arrays(*(None if array is None else array[rows] for array in self))


def joined(parts: Sequence[Arrays]) -> Arrays:
    """Return the rows of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*parts, strict=True)
    return Arrays(*(None if column[0] is None else stacked(column) for column in columns))


@dataclass(frozen=True)
class Block:
    """Consecutive rows of one store.

    Parameters
    ----------
    X : ndarray of shape (n, n_features), C-contiguous, or `SparseRows`; uint8, int16, float32 or
        float64
    y : ndarray of shape (n,) or (n, n_targets), or None
    weights : float64 ndarray of shape (n,), or None
    position : index of the first row in the whole source
    key : ledger key, names the store that the rows came from
    row : index of the first row in that store
    span : rows of the store covered, ``[row, row + span)``; more than n where rows were skipped
    kept : int64 ndarray of shape (n,), offsets within the span of the rows kept; None means all
    where : the store, for messages
    names : names of the columns of X, for messages; empty where they have none
    n_unseen : cells unlike those that the columns of a table were learnt from, see `Columns`
    """

    X: Any  # an array or `SparseRows`
    y: Any
    weights: NDArray[np.float64] | None
    position: int
    key: str
    row: int
    span: int
    kept: NDArray[np.int64] | None
    where: str
    names: tuple[str, ...] = ()
    n_unseen: int = 0

    @property
    def arrays(self) -> Arrays:
        """X, y and weights."""
        return Arrays(self.X, self.y, self.weights)

    def take(self, rows: slice | NDArray[Any]) -> "Block":
        """Return some of the rows: a slice, a mask or indices."""
        X, y, weights = self.arrays.take(rows)
        return replace(self, X=X, y=y, weights=weights, kept=self.offsets[rows])

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Offsets of the rows within the span, int64 of shape (n,)."""
        return np.arange(len(self.X)) if self.kept is None else self.kept

    @property
    def positions(self) -> NDArray[np.int64]:
        """Indices of the rows in the whole source, int64 of shape (n,)."""
        return self.position + self.offsets


@dataclass(frozen=True)
class Store:
    """Where rows come from: a file, an array, a stream.

    Parameters
    ----------
    key : ledger key
    where : the store, for messages
    n_rows : its rows, None where unknown
    earlier : keys that it had while it had fewer rows than the 64 that make a key; those of a
        table with other columns, by which earlier versions have counted its rows
    """

    key: str
    where: str
    n_rows: int | None
    earlier: tuple[str, ...] = ()

    @classmethod
    def of(cls, keys: Sequence[str], where: str, n_rows: int) -> "Store":
        """Return the store of `fingerprints`."""
        return cls(keys[-1], where, n_rows, tuple(keys[:-1]))


class Source(Card, ABC):
    """Rows that can be read in blocks.

    Holds paths and bounds, never an open file, so that it pickles and is cheap to send.
    """

    n_rows: int | None
    n_features: int
    where: str
    seekable: bool
    has_targets: bool
    is_unlabelled: bool = False  # whether targets are 0 for want of any
    has_weights: bool
    row_shape: tuple[int, ...] = ()  # as it is stored, before it is flattened; () where unknown
    target_names: tuple[str, ...] | None = None  # of y, where it is a table beside X

    def card(self) -> dict[str, str]:
        """Return what a prompt shows; nothing is read for it."""
        rows = "unknown" if self.n_rows is None else f"{self.n_rows:,}"
        with_ = [name for name in ("targets", "weights") if getattr(self, f"has_{name}")]
        return {
            "rows": rows,
            "columns": f"{self.n_features:,}",
            "from": self.where,
            "with": " and ".join(with_) or "no targets",
        }

    @property
    def is_rereadable(self) -> bool:
        """Whether `blocks` can be called again; not of an iterator."""
        return True

    @property
    def columns(self) -> Columns | None:
        """What the columns of a table became; None for rows that are numbers already."""
        return None

    def adapted(self, columns: Columns | None, labels: NDArray[Any] | None = None) -> "Source":
        """Return the source with its columns read as others were; itself if it is no table.

        Parameters
        ----------
        columns : of the others, None for plain numbers
        labels : of their classes, of whose kind are those of a table where they can be; or None

        Raises
        ------
        ShapeError
            If a table lacks columns or their types changed; the message has the difference.
        """
        return self

    def of_width(self, n_features: int) -> Self:
        """Return the source with rows of so many columns, where its arrays have such; or itself."""
        return self

    @property
    def is_one_hot(self) -> bool:
        """Whether targets are stored one-hot, and read as classes unless `of_values`."""
        return False

    def of_values(self) -> "Source":
        """Return the source with targets read as values, where they might be labels; or itself."""
        return self

    @property
    def is_sparse(self) -> bool:
        """Whether rows come as `SparseRows`."""
        return False

    @property
    def row_values(self) -> int:
        """Numbers that a row holds in a block, for the plan of memory."""
        return self.n_features

    @property
    @abstractmethod
    def stores(self) -> list[Store]:
        """The stores in the order of their rows."""

    @property
    def where_targets(self) -> str:
        """Where the targets are, for messages."""
        return self.where

    @property
    def known_targets(self) -> tuple[NDArray[Any], NDArray[np.float64] | None] | None:
        """Targets and weights of all rows, where they are in memory or read for little; or None."""
        return None

    def keys_of(self, places: Sequence[int]) -> list[str] | None:
        """Return the `fingerprints` of the rows with some columns; None where keys are given."""
        return None

    @property
    def files(self) -> list[str]:
        """Absolute paths or URLs of all files that are read, of y and weights too; or folders."""
        return []

    @property
    def versions(self) -> list[str]:
        """What changes when a store, or a file of its y or weights, is written to; "" if unknown.

        Empty where there are no files.
        """
        return []

    @property
    def buffer_bytes(self) -> int:
        """Bytes held while reading, in addition to the blocks: a cache of chunks."""
        return 0

    @property
    @abstractmethod
    def settings(self) -> dict[str, str | None]:
        """What distinguishes this reading of the stores from another, by names for messages."""

    @abstractmethod
    def blocks(
        self, start: int = 0, stop: int | None = None, *, block_rows: int = 4096
    ) -> Iterator[Block]:
        """Return the rows ``[start, stop)`` in order, at most about `block_rows` at a time."""

    @abstractmethod
    def split(self, parts: int) -> list[tuple[int, int]]:
        """Cut all rows into at most `parts` disjoint ranges on chunk borders."""

    @abstractmethod
    def sample(self, n_rows: int) -> Block:
        """Return about `n_rows` rows for calibration, without consuming an iterator."""


def require_source(source: Any, name: str = "source") -> None:
    """Raise ParameterError for rows that are not given as a source."""
    if not isinstance(source, Source):
        raise ParameterError(
            f"{name} must be a source of rows, got {type(source).__name__}; give ArraySource(X, "
            "y), open_source(data, y=...) or, for rows as they come, IteratorSource(data)"
        )


def check_rows(block: Block, on_bad_rows: str) -> tuple[Block, int]:
    """Return the block without the rows that have NaN, infinity or a negative weight.

    Values beyond 1e150, whose squares overflow, are as bad as infinity.

    Parameters
    ----------
    block : rows as a source yields them; not changed
    on_bad_rows : "raise" or "skip"

    Returns
    -------
    block : Block
        The same block if all rows are good; else one without the bad rows, whose `kept` holds the
        offsets of the others in the same `span`. It may have no rows.
    n_skipped : int

    Raises
    ------
    BadRowError
        With "raise", at the first bad row; the message names the store, the row in the store, the
        column and the value.
    ParameterError
        Another `on_bad_rows`.
    """
    check_choice("on_bad_rows", on_bad_rows, ("raise", "skip"))
    bad = _bad_rows(block)
    n_bad = int(np.count_nonzero(bad))
    if not n_bad:
        return block, 0
    if on_bad_rows == "raise":
        raise BadRowError(_complaint(block, int(np.argmax(bad)), n_bad))
    return block.take(~bad), n_bad


def _bad_rows(block: Block) -> NDArray[np.bool_]:
    bad = np.zeros(len(block.X), dtype=bool)
    for values in block.arrays:
        if isinstance(values, SparseRows):
            if not _all_good(values.data):
                bad |= ~values.are_all(_are_good)
        elif values is not None and not _all_good(values):
            bad |= ~_are_good(values).reshape(len(values), -1).all(axis=1)
    if block.weights is not None:
        bad |= block.weights < 0
    return bad


def _limit(values: NDArray[Any]) -> float:
    return min(MAX_VALUE, float(np.finfo(values.dtype).max))


def _are_good(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are neither NaN nor too large."""
    if values.dtype.kind != "f":
        return np.ones(values.shape, dtype=bool)
    return np.abs(values) <= _limit(values)


def _all_good(values: NDArray[Any]) -> bool:
    """Return whether all values are, without an array of answers."""
    if values.dtype.kind != "f" or not values.size:
        return True
    limit = _limit(values)
    with np.errstate(invalid="ignore"):  # of NaN, which is neither
        return bool(values.min() >= -limit and values.max() <= limit)


def _complaint(block: Block, index: int, n_bad: int) -> str:
    """What is wrong with the row at `index` of the block, and what to do."""
    row = block.row + int(block.offsets[index])
    X = block.X[index : index + 1]
    values = (X.dense() if isinstance(X, SparseRows) else X)[0]
    columns = np.flatnonzero(~_are_good(values))
    targets = columns if block.y is None else _not_good(block.y[index : index + 1])
    if len(columns):
        name = repr(block.names[columns[0]]) if block.names else columns[0]
        what = f"column {name} is {_shown(values[columns[0]])}"
    elif len(targets):
        what = f"the target is {_shown(targets[0])}"
    else:
        assert block.weights is not None
        shown = _shown(block.weights[index])
        what = f"the weight is {shown}, and weights are finite, not negative"
    more = f" ({n_bad} such rows in this block)" if n_bad > 1 else ""
    is_array = not block.names and len(columns) and np.isnan(values[columns[0]])
    table = ", or train on a table (CSV, a pandas frame), where missing values are filled in"
    return (
        f"{block.where}, row {row}: {what}{more}; clean the data, or leave such rows out where "
        f"there is on_bad_rows='skip' (--on-bad-rows skip){table if is_array else ''}"
    )


def _not_good(values: NDArray[Any]) -> NDArray[Any]:
    return values[~_are_good(values)] if values.dtype.kind == "f" else values[:0].ravel()


def _shown(value: float) -> str:
    if MAX_VALUE < abs(float(value)) < np.inf:
        return f"{value}, and beyond {MAX_VALUE:g} squares overflow"
    return "NaN" if np.isnan(value) else str(value)


def check_window(
    n_rows: int | None, start: int, stop: int | None, block_rows: int
) -> tuple[int, int | None]:
    """Return the bounds of a reading, `stop` cut to the rows there are, or raise ParameterError."""
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
