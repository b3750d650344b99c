"""Rows of tables: named columns of numbers, booleans, categories and dates, with holes."""

import copy
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import DataError, ParameterError, ShapeError, warn
from streamrf.sources.arrow_types import arrow, kind_of
from streamrf.sources.arrow_values import as_doubles, one_array
from streamrf.sources.base import Block
from streamrf.sources.columns import Column, Columns, raw_numbers
from streamrf.sources.derived import target_places
from streamrf.sources.doubts import doubts_of, named
from streamrf.sources.fingerprints import FINGERPRINT_ROWS, fingerprints
from streamrf.sources.seekable import Ranges, even_stretches
from streamrf.sources.stored import Stored, StoredSource
from streamrf.sources.table_kinds import check_columns, check_targets, joined_types, kinds_of
from streamrf.sources.table_parts import detached, in_one_chunk, one_table
from streamrf.sources.table_roles import Wanted, roles, warn_of_more
from streamrf.sources.table_targets import label_types, of_kind, target_of
from streamrf.sources.validation import weight_column

PEEK_ROWS = 4096  # that columns are learnt from
MIXED_ROWS = 4096  # of a block, at most, with text, which may be long and no plan of memory counts
ARROW_BYTES = 80 << 20  # pyarrow and its pools after a peek at a CSV file, measured


class Table(Stored):
    """A store of named columns.

    Attributes
    ----------
    types : Arrow types of the columns, by their names
    is_text : whether the types are only guessed from text
    codes : columns whose types were guessed to be of integers and that hold texts such as "01", by
        their names, with such a text
    levels : all levels of columns of text, of which they are known without a look at the rows
    unnamed : columns that came without a name, from arrays
    titles : names that columns came with, where others of the table have them
    index : columns that are no data unless they are named, such as the index of pandas
    """

    types: dict[str, Any]
    is_text: bool = False
    codes: dict[str, str] = {}  # noqa: RUF012 - of a store that has none
    levels: dict[str, list[str | None]] = {}  # noqa: RUF012 - of a store that has none
    unnamed: tuple[str, ...] = ()
    titles: dict[str, str] = {}  # noqa: RUF012 - of a store that has none
    index: tuple[str, ...] = ()

    def type_name(self, name: str) -> str:
        """Return the type of a column in words."""
        return str(self.types[name])

    def can_be(self, name: str, kind: str) -> bool:
        """Return whether a column can be read as of another kind than that of its type."""
        return self.is_text

    def check_wanted(self, names: Iterable[str]) -> None:
        """Raise DataError for columns to learn from or predict by that hold more than values."""

    def missing_words(self, name: str, values: Any) -> list[str]:
        """Return the words among labels (Arrow strings) of a column that may mean a missing one."""
        return []

    @abstractmethod
    def read(
        self, ranges: Ranges, types: dict[str, Any], block_rows: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield Arrow tables of the rows of ascending ranges, with the index of the first row.

        Parameters
        ----------
        ranges : of rows, disjoint
        types : the columns wanted, and for text the types they are read as
        block_rows : rows of a table, about; more are cut, fewer are left as they are
        """


class TableSource(StoredSource[Table]):
    """Rows of tables, one after the other; see `open_source`.

    What becomes of each column is learnt from a peek at the rows, unless `adapted` to columns
    learnt before. X is float64.

    Parameters
    ----------
    tables : with the same columns
    x : names or patterns of columns, a list or one text with commas, those after "-" left out; None
        means all others
    y : names of targets, likewise, or None
    weights : name of the column of weights, or None
    where : the source, for messages; None means the tables

    Raises
    ------
    DatasetNotFoundError
        A column that is not there.
    ShapeError
        A file whose columns differ from those of the first.
    DataError
        A column of a type that has no numbers.
    EmptySourceError
        No rows.
    """

    _label_kind: str | None = None  # of the labels that others had
    _doubts: tuple[str, ...] = ()  # of columns learnt here, until they are told

    def __init__(
        self,
        tables: Sequence[Table],
        x: Wanted = None,
        y: Wanted = None,
        weights: Wanted = None,
        *,
        where: str | None = None,
    ) -> None:
        first = tables[0]
        self._wanted_x = x
        x_names, self._targets, self._weights = roles(first, x, y, weights)
        self.has_targets = bool(self._targets)
        self.has_weights = bool(self._weights)
        self._joined = joined_types(tables, [*x_names, *self._targets, *self._weights])
        check_targets(tables, self._targets)
        self._joined |= label_types(tables, self._targets, self._joined)
        warn_of_more(tables, x, (*x_names, *self._targets, *self._weights))
        self._columns = Columns(tuple(_blank(name, self._joined[name]) for name in x_names))
        names = {"x": x_names, "y": self._targets, "weights": self._weights}
        settings = {key: ", ".join(value) or None for key, value in names.items()}
        super().__init__(tables, settings, where)  # asks for keys, before anything is learnt
        self._columns = self._learnt()

    @property
    def columns(self) -> Columns:
        """What the columns became."""
        return self._columns

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Width of X, which is more than the columns where there are categories, dates or holes."""
        return len(self._columns.outputs)

    @property
    def buffer_bytes(self) -> int:
        """What pyarrow holds, and the reading of one table."""
        return ARROW_BYTES + super().buffer_bytes

    def sample(self, n_rows: int) -> Block:
        """Return a fair sample; the first warns of columns that may not be what they seem.

        Columns that are read as others were are no longer in doubt: only who learns is warned.
        """
        self.tell_doubts()
        return super().sample(n_rows)

    def tell_doubts(self) -> None:
        """Warn, once, of columns learnt here that may not be what they seem."""
        doubts, self._doubts = self._doubts, ()
        for doubt in doubts:
            warn(doubt)

    def of_table(self, table: Table) -> "TableSource":
        """Return the source of another table, whose columns are read as those of this one."""
        self.check_alike(table)
        other = copy.copy(self)
        StoredSource.__init__(other, [table], self._settings, self.where)
        return other

    def check_alike(self, table: Table) -> None:
        """Raise ShapeError for a table that cannot be read as these are."""
        check_columns(self._columns, table)
        joined_types([self._list[0], table], [*self._targets, *self._weights])
        check_targets([self._list[0], table], self._targets)

    def tell_more(self, table: Table, new: Sequence[str]) -> None:
        """Log which new columns of a later table would be in X if these had them, too."""
        names = [column.name for column in self._columns.columns]
        used = (*names, *self._targets, *self._weights)
        types = {name: table.types[name] for name in new}
        later = SimpleNamespace(types=types, index=table.index, where=table.where)
        warn_of_more([self._list[0], later], self._wanted_x, used)

    def blocks_of(self, table: Table, start: int, stop: int) -> Iterator[Block]:
        """Yield rows of a table that is like these."""
        return self._blocks(table, [(start, stop)], stop - start, 0, "")

    def raw_of(self, table: Table, start: int, stop: int) -> NDArray[np.float64]:
        """Return rows of a table that is like these as numbers that nothing learnt changes."""
        types, columns = self._x_types(), self._columns.columns
        parts = [
            raw_numbers(part, columns, table.where)
            for _, part in table.read([(start, stop)], types, stop - start)
        ]
        return np.concatenate(parts)

    def adapted(self, columns: Columns | None, labels: NDArray[Any] | None = None) -> "TableSource":
        """Return the source with columns as learnt before; None means plain numbers."""
        if columns is not None and (columns.is_bare or self._has_places_of(columns)):
            columns = self._as_here(columns)
        if columns is None:
            if not self._columns.is_plain:
                odd = next(c for c in self._columns.columns if c.kind not in ("number", "boolean"))
                raise ShapeError(
                    f"{self.where}: column {odd.name!r} is a {odd.kind}, but the model was made for"
                    " plain numbers; leave it out with x='-NAME' (--x=-NAME)"
                )
            columns = self._columns.plain()
        for table in self._list:
            check_columns(columns, table)
        both = [column.name for column in columns.columns if column.name in self._targets]
        if both:
            raise ParameterError(
                f"{self.where}: the target {both[0]!r} is one of the columns learnt from; name the "
                "target that was meant: y= (--y)"
            )
        places = target_places(columns.targets, self._target_names, self.where)
        here = {column.name: column.kind for column in self._columns.columns}
        unused = [
            column.name
            for column in columns.columns
            if column.kind == "empty" and here.get(column.name, "empty") != "empty"
        ]
        if unused:
            have = "has" if len(unused) == 1 else "have"
            warn(
                f"{self.where}: {named(unused)} {have} values, but had none in the rows that the "
                "columns were learnt from, so they are not used; train anew on rows that have some"
            )
        adapted = copy.copy(self.of_values() if labels is None else self._of_numbers(labels))
        adapted._columns, adapted._doubts = columns, ()
        if places is not None:
            adapted._targets = [self._targets[place] for place in places]
        if labels is not None and len(labels) and len(self._targets) == 1:
            adapted._label_kind = labels.dtype.kind
            if labels.dtype.kind == "U" and self._list[0].is_text:
                adapted._joined = self._joined | {self._targets[0]: arrow().string()}
        if _read_as(columns) != _read_as(self._columns):  # keys as chosen may be known from before
            pairs = zip(self._keys, self._list, strict=True)
            adapted._keys = [[*keys, *adapted._keys_of(table)] for keys, table in pairs]
        return adapted

    def of_values(self) -> "TableSource":
        """Return the source with targets read as values: integers guessed from text as floats."""
        types = joined_types(self._list, self._targets)
        integers = [name for name, type_ in types.items() if arrow().types.is_integer(type_)]
        if not integers or not self._list[0].is_text:
            return self
        changed = copy.copy(self)
        changed._joined = self._joined | dict.fromkeys(integers, arrow().float64())
        return changed

    def _of_numbers(self, labels: NDArray[Any]) -> "TableSource":
        """Return the source with labels such as 01 read as numbers, where others were; warn."""
        for name in self._targets if len(labels) and labels.dtype.kind in "if" else ():
            text = next((t.codes[name] for t in self._list if name in t.codes), None)
            if text is not None:
                warn(
                    f"{self.where}: labels such as {text!r} of column {name!r} are read as numbers,"
                    " as those learnt from were; train anew if they are others without the zeros"
                )
                return self.of_values()
        return self

    def _has_places_of(self, columns: Columns) -> bool:
        """Return whether here are no names, and the numbers of columns are as they came."""
        here = [*self._list[0].types]
        is_counted = here == [str(i) for i in range(len(here))]
        return is_counted and columns.are_as_given and not {*here} & {*columns.outputs}

    def _as_here(self, columns: Columns) -> Columns | None:
        """Return columns of known names as what they hold here; None if here are only places."""
        if self._has_places_of(columns):
            return None
        kinds = [kinds_of(table) for table in self._list]
        flags = {name for name in kinds[0] if all(k.get(name) == "boolean" for k in kinds)}
        words = ((name, "boolean" if name in flags else "number") for name in columns.outputs)
        return Columns(tuple(Column(*pair) for pair in words), columns.targets)

    def _learnt(self) -> Columns:
        """Return what suits a peek at the rows."""
        types = self._x_types()
        ranges = even_stretches(self.n_rows, PEEK_ROWS, lambda row: row)
        parts = [
            detached(part.select(list(types)))
            for _, table, inside in self._inside(ranges)
            for _, part in table.read(inside, types, PEEK_ROWS)
        ]
        peek = in_one_chunk(one_table(parts, self.where))
        levels = self._list[0].levels
        columns = []
        for name in types:
            values = peek.column(name)
            if name in levels:  # each once, also where the peek has none
                known = arrow().array(levels[name], values.type)
                values = arrow().chunked_array([*values.chunks, known])
            columns.append(Column.learn(name, values, self.where))
        is_text = self._list[0].is_text
        learnt = (
            (column, one_array(peek.column(column.name)))
            for column in columns
            if column.name not in levels
        )
        self._doubts = doubts_of(self.where, learnt, is_text)
        return Columns(tuple(columns), self._target_names, next(iter(self._weights), None))

    @property
    def _target_names(self) -> tuple[str, ...]:
        """Names of the targets, none where they came without."""
        first = self._list[0]
        if {*self._targets} & {*first.unnamed}:
            return ()
        return tuple(first.titles.get(name, name) for name in self._targets)

    def _x_types(self) -> dict[str, Any]:
        return {column.name: self._types([column])[column.name] for column in self._columns.columns}

    def _types(self, columns: Iterable[Column]) -> dict[str, Any]:
        """Return the types that text is read as: those of the columns, of targets and weights."""
        pa = arrow()
        of_kinds = {
            "number": pa.float64(),
            "boolean": pa.bool_(),
            "category": pa.string(),
            "date": pa.timestamp("us"),
        }
        types = {c.name: of_kinds.get(c.kind) or self._guessed(c.name) for c in columns}
        for name in self._targets:
            types[name] = self._joined[name]
        return types | dict.fromkeys(self._weights, pa.float64())

    def _guessed(self, name: str) -> Any:
        """Return the type of a column of which nothing was learnt: as it is here."""
        type_ = self._joined.get(name, self._list[0].types[name])
        return arrow().float64() if kind_of(type_) in ("empty", "number") else type_

    def _keys_of(self, store: Table) -> list[str]:
        """Return the fingerprints of the columns as stored, whatever was learnt of them."""
        n_rows = min(FINGERPRINT_ROWS, store.n_rows)
        return fingerprints(self.raw_of(store, 0, n_rows), store.name)

    def _blocks(
        self, store: Table, ranges: Ranges, block_rows: int, first: int, key: str
    ) -> Iterator[Block]:
        types = self._types(self._columns.columns)
        if not all(kind_of(type_) in ("number", "boolean", "empty") for type_ in types.values()):
            block_rows = min(block_rows, MIXED_ROWS)
        for start, table in store.read(ranges, types, block_rows):
            for row in range(start, start + len(table), block_rows):
                part = table.slice(row - start, block_rows)
                try:
                    X, n_unseen = self._columns.encode(part)
                except DataError as error:
                    last = row + len(part) - 1
                    raise type(error)(f"{store.where}, rows {row} to {last}: {error}") from error
                yield Block(
                    X,
                    self._y(store, part, row),
                    self._row_weights(store, part),
                    position=first + row,
                    key=key,
                    row=row,
                    span=len(X),
                    kept=None,
                    where=store.where,
                    names=self._columns.outputs,
                    n_unseen=n_unseen,
                )

    def _y(self, store: Table, part: Any, row: int) -> NDArray[Any] | None:
        if not self._targets:
            return None
        columns = [target_of(store, part, row, name) for name in self._targets]
        if len(columns) > 1:
            return np.stack(columns, axis=1)
        return of_kind(columns[0], self._label_kind)

    def _row_weights(self, store: Table, part: Any) -> NDArray[np.float64] | None:
        for name in self._weights:
            values = as_doubles(part.column(name)).to_numpy()
            return weight_column(values, len(part), f"{store.where}, column {name!r}")
        return None


def _read_as(columns: Columns) -> list[tuple[str, str]]:
    """Return what keys depend on: which columns are read, in which order, as of which kinds."""
    return [(column.name, column.kind) for column in columns.columns]


def _blank(name: str, type_: Any) -> Column:
    kind = kind_of(type_)
    return Column(name, "number" if kind in (None, "empty") else str(kind))
