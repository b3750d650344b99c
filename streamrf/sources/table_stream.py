"""Tables that arrive once, block by block: chunks of a database, batches of Arrow."""

import logging
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import DataError, ParameterError, ShapeError
from streamrf.sources.arrivals import Form, check_alike
from streamrf.sources.base import Arrays, Block, joined
from streamrf.sources.columns import Columns
from streamrf.sources.fingerprints import FINGERPRINT_ROWS, fingerprint
from streamrf.sources.frames import FrameTable, is_dask_frame, is_table, is_tabular
from streamrf.sources.iterator import WHERE, IteratorSource, items_of
from streamrf.sources.plain_tables import as_frame, is_plain
from streamrf.sources.stream import Stream, windowed
from streamrf.sources.table_roles import Wanted
from streamrf.sources.tables import ARROW_BYTES, MIXED_ROWS, PEEK_ROWS, TableSource

logger = logging.getLogger("streamrf")

_ROLES = ("y", "weights")


class TableStream(IteratorSource):
    """Rows of an iterator of tables, each read once; see `open_source` and `IteratorSource`.

    What becomes of each column is learnt from the first 4,096 rows, unless `adapted` to columns
    learnt before. X is float64. Tables are kept whole until a pass reads them.

    Parameters
    ----------
    blocks : iterator, iterable, or function without arguments that makes one; of tables of pandas,
        polars or Arrow, arrays of records, dicts of columns, or lists of rows that are dicts; also
        of ``(table, y)`` and ``(table, y, weights)``
    x, y, weights : names of columns, see `TableSource`

    Raises
    ------
    DatasetNotFoundError, DataError, EmptySourceError
        See `TableSource`; when rows are first needed.
    ShapeError, DataError
        While reading: a block that is not like the first ones. Blocks are counted from 0.
    ConsumedError
        A second pass over an iterator.
    """

    def __init__(
        self, blocks: Any, x: Wanted = None, y: Wanted = None, weights: Wanted = None
    ) -> None:
        super().__init__(blocks)
        self._wanted = {"x": x, "y": y, "weights": weights}
        for role, names in self._wanted.items():
            _check_names(role, names)
        self._tables: TableSource | None = None  # says what becomes of columns
        self._first_table: FrameTable | None = None  # its first rows
        self._checked: FrameTable | None = None  # last found to be like the first ones
        self._seen: set[str] = set()  # names of columns so far, for adapted sources, too
        self._beside: set[str] = set()  # those called as what comes beside the tables

    @property
    def columns(self) -> Columns:
        """What the columns became; reads the first blocks, and keeps them."""
        return self._known.columns

    @property
    def buffer_bytes(self) -> int:
        """What pyarrow holds."""
        return ARROW_BYTES

    @property
    def settings(self) -> dict[str, str | None]:
        """Names of columns, and fingerprints of the targets and weights that come without one."""
        found = super().settings  # reads the first blocks
        assert self._first_table is not None
        beside = {role: found[role] for role in self._first_table.names}
        return self._known.settings | beside

    def adapted(self, columns: Columns | None, labels: NDArray[Any] | None = None) -> "TableStream":
        """Return the source with columns as learnt before; None means plain numbers.

        It has the same rows: one pass is for both.
        """
        adapted = object.__new__(TableStream)
        adapted.__dict__.update(self.__dict__)
        adapted._use(self._known.adapted(columns, labels))
        adapted._key = adapted._checked = None
        return adapted

    def sample(self, n_rows: int) -> Block:
        """Return the first `n_rows` rows; the first sample warns as that of `TableSource` does."""
        self._known.tell_doubts()
        return super().sample(n_rows)

    def keys_of(self, places: Sequence[int]) -> None:
        """Return None: columns are read by their names."""

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_checked": None}

    def _ahead(self, n_rows: int) -> Stream:
        stream = super()._ahead(max(n_rows, PEEK_ROWS))
        if self._tables is None:
            assert self._first_table is not None
            first = windowed(stream.head, 0, PEEK_ROWS)
            tables = [rows.table.head(rows.X.stop) for rows in first]
            learnt = TableSource(tables, **self._wanted | self._first_table.names, where=WHERE)
            self._use(learnt.of_table(self._first_table))
            self._seen.update(chain.from_iterable(table.types for table in tables))
        return stream

    @property
    def _known(self) -> TableSource:
        self._known_form()
        assert self._tables is not None
        return self._tables

    def _use(self, tables: TableSource) -> None:
        """Read tables as a source of the first of them does."""
        self._tables = tables
        first = next(tables.blocks(0, 1)).arrays
        self._form = Form.of(first, (tables.n_features,), None, None)

    def _part(self, item: Any, where: str) -> "_Rows":
        if _is_empty(item):
            return _Rows(None, range(0))
        given = _given(item, where)
        if not 0 < len(given) <= 3:
            raise DataError(
                f"{where} is a tuple of {len(given)}; expected a table, (table, y) or (table, y, "
                "weights)"
            )
        frame, extra = as_frame(given[0], where), dict(zip(_ROLES, given[1:], strict=False))
        if is_dask_frame(frame):
            raise DataError(
                f"{where} is a Dask data frame; give it whole, or compute its partitions"
            )
        if not is_table(frame):
            raise DataError(
                f"{where} is a {type(frame).__name__}, which has no names of columns, and the first"
                " was a table, or x=, y= or weights= name columns; give tables alone, or arrays "
                "(X, y) alone to IteratorSource"
            )
        extra = {role: values for role, values in extra.items() if values is not None}
        for role in [role for role in extra if self._wanted[role] is not None]:
            raise DataError(f"{where} has {role} of its own, and {role}= names a column; give one")
        if not frame.shape[0]:
            return _Rows(None, range(0))
        if self._first_table is not None and extra.keys() != self._first_table.names.keys():
            here, there = (" and ".join(x) or "a table" for x in (extra, self._first_table.names))
            raise ShapeError(f"{where} comes with {here}, but the first with {there}")
        # Copies, because tables wait here while the generator goes on, and it may reuse its memory.
        table = FrameTable(frame, extra, where, self._first_table).detached()
        if self._first_table is None:
            self._first_table = table.head(FINGERPRINT_ROWS).detached()
        return _Rows(table, range(table.n_rows))

    def _joined(self, parts: Sequence["_Rows"]) -> tuple[Arrays, int]:
        blocks = list(chain.from_iterable(map(self._encoded, parts)))
        return joined([block.arrays for block in blocks]), sum(b.n_unseen for b in blocks)

    def _encoded(self, rows: "_Rows") -> Iterator[Block]:
        """Yield the rows of a table as numbers."""
        first = self._known_form()
        self._check(rows.table)
        for block in self._known.blocks_of(rows.table, rows.X.start, rows.X.stop):
            check_alike(Form.of(block.arrays, first.row_shape, None, None), first, block.where)
            yield block

    def _check(self, table: FrameTable) -> None:
        """Raise ShapeError for a table that is not like the first ones; once, as it is read."""
        if table is not self._checked:
            self._known.check_alike(table)
            self._tell_more(table)
            self._checked = table

    def _tell_more(self, table: FrameTable) -> None:
        """Log columns that come with a later table for the first time, and are left out."""
        new = [name for name in table.types if name not in self._seen]
        self._seen.update(new)
        if new:
            self._known.tell_more(table, new)
        beside = [name for name in table.left_out if name not in self._beside]
        self._beside.update(beside)
        if beside and self._wanted["x"] is None:
            logger.warning(
                "%s has columns called as the targets or weights beside the tables are, which the "
                "first one lacks: %s; they are left out",
                table.where,
                beside,
            )

    def _read(
        self, stream: Stream, start: int, stop: int | None, block_rows: int, key: str
    ) -> Iterator[Block]:
        try:
            yield from super()._read(stream, start, stop, min(block_rows, MIXED_ROWS), key)
        finally:
            self._checked = None

    def _key_of(self) -> str:
        if self._key is None:
            parts = windowed(self._ahead(FINGERPRINT_ROWS).head, 0, FINGERPRINT_ROWS)
            raw = []
            for rows in parts:
                self._check(rows.table)
                raw.append(self._known.raw_of(rows.table, rows.X.start, rows.X.stop))
            self._key = fingerprint(np.concatenate(raw))
        return self._key

    def _block(self, parts: Sequence[Any], start: int, key: str) -> Block:
        return replace(super()._block(parts, start, key), names=self.columns.outputs)


def open_stream(blocks: Any, x: Wanted, y: Wanted, weights: Wanted) -> IteratorSource:
    """Return the source of blocks that are tables, or of arrays; the first block says which.

    It is read at once, and the first pass begins with it. Tables of numbers are read as other
    tables are, and so as one of them that is whole.

    Parameters
    ----------
    blocks : iterator, iterable, or function that makes one
    x, y, weights : names of columns, of which tables alone have some
    """
    if x is not None or y is not None or weights is not None:
        return TableStream(blocks, x, y, weights)
    items = items_of(blocks)
    first: list[Any] = []
    while (not first or _is_empty(first[-1])) and (more := list(islice(items, 1))):
        first += more
    where = f"{WHERE}, block {max(len(first) - 1, 0)}"
    given = (*_given(first[-1] if first else None, where), None)[0]
    is_of_tables = is_tabular(given) or is_dask_frame(given)  # which is refused
    source = (TableStream if is_of_tables else IteratorSource)(blocks)
    source.begin(_put_back(first, items))
    return source


def _put_back(first: list[Any], items: Iterator) -> Generator[Any, None, None]:
    """Yield the first items again and then the others; close them at the end."""
    try:
        while first:
            yield first.pop(0)
        yield from items
    finally:
        if isinstance(items, Generator):
            items.close()


def _given(item: Any, where: str) -> tuple[Any, ...]:
    """Return what a block is of: X, y and weights, of which a loader may give a list.

    DataError for a list of tables of one shape, which may be rows.
    """
    is_list = isinstance(item, list) and bool(item) and not is_plain(item)
    if not is_list or not is_tabular(item[0]):
        return item if isinstance(item, tuple) else (item,)
    shapes = [as_frame(part, where).shape for part in item if is_tabular(part)]
    if len(shapes) > 1 and len({*shapes}) == 1:
        raise DataError(
            f"{where} is a list of {len(shapes)} tables of the shape {shapes[0]}, which may be "
            "rows, or X and y: give one table, or a tuple (table, y)"
        )
    return tuple(item)


def _is_empty(item: Any) -> bool:
    """Return whether a block is a list of no rows, as a page of a query may be."""
    return isinstance(item, list) and not item


def _check_names(role: str, wanted: Any) -> None:
    """Raise ParameterError for what names no columns."""
    names = wanted if isinstance(wanted, list | tuple) else [wanted]
    if wanted is not None and not all(isinstance(name, str) for name in names):
        raise ParameterError(
            f"{role}= of rows that come in blocks names columns of tables, a text or a list of "
            f"texts, got a {type(wanted).__name__}; values come with each block: (table, y), (X, y)"
        )


class _Rows(NamedTuple):
    """Rows of a table of the stream; None where there are none."""

    table: Any
    X: range

    def take(self, rows: slice) -> "_Rows":
        return self._replace(X=self.X[rows])
