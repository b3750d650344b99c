"""Sources that are another one changed, such as numbers whose columns have names."""

import copy
import functools
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamrf.display import brief
from streamrf.errors import DataError, ShapeError
from streamrf.sources.base import Block, Source, Store
from streamrf.sources.columns import Columns
from streamrf.sources.sparse import columns_of


class Derived(Source):
    """A source whose blocks are those of another, changed.

    Parameters
    ----------
    source : the other
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.n_rows, self.n_features = source.n_rows, source.n_features
        self.row_shape = source.row_shape
        self.where, self.seekable = source.where, source.seekable
        self.has_targets, self.has_weights = source.has_targets, source.has_weights
        self.is_unlabelled = source.is_unlabelled

    @abstractmethod
    def _changed(self, block: Block) -> Block:
        """Return a block, changed."""

    @property
    def stores(self) -> list[Store]:
        return self._source.stores

    @property
    def where_targets(self) -> str:
        return self._source.where_targets

    @property
    def files(self) -> list[str]:
        return self._source.files

    @property
    def versions(self) -> list[str]:
        return self._source.versions

    @property
    def buffer_bytes(self) -> int:
        return self._source.buffer_bytes

    @property
    def is_sparse(self) -> bool:
        return self._source.is_sparse

    @property
    def row_values(self) -> int:
        return self._source.row_values

    @property
    def settings(self) -> dict[str, str | None]:
        return self._source.settings

    @property
    def is_rereadable(self) -> bool:
        return self._source.is_rereadable

    @property
    def columns(self) -> Columns | None:
        return self._source.columns

    @property
    def target_names(self) -> tuple[str, ...] | None:  # type: ignore[override]  # an attribute of others
        return self._source.target_names

    def adapted(self, columns: Columns | None, labels: NDArray[Any] | None = None) -> Self:
        adapted = copy.copy(self)
        adapted._source = self._source.adapted(columns, labels)
        adapted.n_features = adapted._source.n_features
        return adapted

    def of_width(self, n_features: int) -> Self:
        source = self._source.of_width(n_features)
        if source is self._source:
            return self
        changed = copy.copy(self)
        changed._source, changed.row_shape = source, source.row_shape
        changed.n_rows, changed.n_features = source.n_rows, source.n_features
        return changed

    @property
    def is_one_hot(self) -> bool:
        return self._source.is_one_hot

    def of_values(self) -> Self:
        changed = copy.copy(self)
        changed._source = self._source.of_values()
        return changed

    def blocks(
        self, start: int = 0, stop: int | None = None, *, block_rows: int = 4096
    ) -> Iterator[Block]:
        for block in self._source.blocks(start, stop, block_rows=block_rows):
            yield self._changed(block)

    def split(self, parts: int) -> list[tuple[int, int]]:
        return self._source.split(parts)

    def sample(self, n_rows: int) -> Block:
        return self._changed(self._source.sample(n_rows))


class RowsAlone(Derived):
    """The rows of a source without targets and weights, which may then be bad or missing."""

    target_names = None

    @property
    def columns(self) -> Columns | None:
        known = self._source.columns
        return None if known is None else replace(known, targets=())

    def __init__(self, source: Source) -> None:
        super().__init__(source.of_values())  # whose targets need not be classes
        self.has_targets = self.has_weights = False

    def adapted(self, columns: Columns | None, labels: NDArray[Any] | None = None) -> Self:
        if columns is not None and len(columns.targets) > 1:  # which may have other names here
            columns = replace(columns, targets=())
        return super().adapted(columns)

    def _changed(self, block: Block) -> Block:
        return replace(block, y=None, weights=None)


def without_targets(source: Source) -> Source:
    """Return the source without targets and weights, good or bad; itself if it has none."""
    return RowsAlone(source) if source.has_targets or source.has_weights else source


class Reread(Derived):
    """A source of a number of rows that is not known, read several times: as many each time.

    Copies that are `adapted` share what was read. Readings are compared where they begin at any row
    and end at the same one, and not on workers.

    Parameters
    ----------
    source : the other
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._ends: dict[int | None, int] = {}  # by the `stop` of readings

    def _changed(self, block: Block) -> Block:
        return block

    def blocks(
        self, start: int = 0, stop: int | None = None, *, block_rows: int = 4096
    ) -> Iterator[Block]:
        """Yield the blocks; DataError at their end if it is not that of an earlier reading."""
        end = start
        for block in self._source.blocks(start, stop, block_rows=block_rows):
            end += block.span
            yield block
        before = self._ends.setdefault(stop, end)
        if end != before:
            raise DataError(
                f"{self.where} gave {end:,} rows where a reading before gave {before:,}; what "
                "is read several times must give the same rows each time"
            )


def reread(source: Source) -> Source:
    """Return a source that checks later readings, where rows may be others at each of them."""
    may_change = source.n_rows is None and source.is_rereadable
    return Reread(source) if may_change and not isinstance(source, Reread) else source


class Named(Derived):
    """A source of numbers, not sparse unless all are kept, whose columns have names.

    Parameters
    ----------
    source : the other, of as many columns
    given : the names of its columns, and of its targets where they have any
    wanted : those kept, in order; None means all

    Raises
    ------
    ShapeError
        A name wanted that is not there.
    """

    def __init__(self, source: Source, given: Columns, wanted: Columns | None = None) -> None:
        super().__init__(source)
        self._given = given
        self._wanted = given if wanted is None else wanted
        if not self._wanted.are_as_given and not {*self._wanted.outputs} <= {*given.outputs}:
            raise _wants_table(self._wanted, source.where)
        self._places = places_of(self._wanted.outputs, given.outputs, source.where)
        self._target_places = target_places(self._wanted.targets, given.targets, source.where)
        self._keys = None if self._places is None else source.keys_of(self._places)
        self.n_features = len(self._wanted.outputs)

    @property
    def columns(self) -> Columns | None:
        return self._wanted

    @property
    def known_targets(self) -> tuple[NDArray[Any], NDArray[np.float64] | None] | None:
        """Those of the source, unless others are wanted."""
        return self._source.known_targets if self._target_places is None else None

    @property
    def stores(self) -> list[Store]:
        """The stores, by their rows with the columns kept; also by the rows as given."""
        stores = super().stores
        if self._keys is None:
            return stores
        *earlier, key = self._keys
        return [replace(s, key=key, earlier=(*s.earlier, s.key, *earlier)) for s in stores]

    def adapted(self, columns: Columns | None, labels: NDArray[Any] | None = None) -> "Named":
        return self if columns is None else Named(self._source, self._given, columns)

    def _changed(self, block: Block) -> Block:
        if self._places is not None:
            block = replace(block, X=columns_of(block.X, self._places))
        if self._target_places is not None:
            block = replace(block, y=np.ascontiguousarray(block.y[:, self._target_places]))
        key = block.key if self._keys is None else self._keys[-1]
        return replace(block, key=key, names=self._wanted.outputs)


def named(
    source: Source, names: Iterable[str] | None, targets: tuple[str, ...] | None = None
) -> Source:
    """Return the source with names for its columns, if it has none, and for targets without."""
    if source.columns is not None:
        return source
    if names is not None:
        return Named(source, Columns.named(tuple(names), source.target_names or targets or ()))
    return InOrder(source, targets, None) if targets and not source.target_names else source


class InOrder(Derived):
    """A source with several targets by their names, which may be in another order.

    Parameters
    ----------
    source : the other
    names : of its targets, as they are here
    places : of the targets in it; None means all in order
    """

    def __init__(self, source: Source, names: tuple[str, ...], places: list[int] | None) -> None:
        super().__init__(source)
        self._names, self._places = names, places

    @property
    def columns(self) -> Columns | None:
        known = self._source.columns
        return None if known is None else replace(known, targets=self._names)

    @property
    def target_names(self) -> tuple[str, ...] | None:  # type: ignore[override]  # an attribute of others
        return self._names

    @property
    def known_targets(self) -> tuple[NDArray[Any], NDArray[np.float64] | None] | None:
        """Those of the source, unless their order is another."""
        return self._source.known_targets if self._places is None else None

    def _changed(self, block: Block) -> Block:
        if block.y is None or self._places is None:
            return block
        return replace(block, y=np.ascontiguousarray(block.y[:, self._places]))


def in_order(source: Source, wanted: tuple[str, ...]) -> Source:
    """Return a source with several targets in an order, itself where either side has no names.

    ShapeError for targets of other names.
    """
    names = source.target_names if source.columns is None else source.columns.targets
    places = target_places(wanted, names or (), source.where)
    return source if places is None else InOrder(source, wanted, places)


def named_as(source: Source, columns: Columns | None) -> Source:
    """Return a source of named columns with those that others had; itself where either has none.

    ShapeError for numbers in the place of a table whose columns became others.
    """
    here = source.columns
    if columns is None:
        return source
    if here is None:
        if not columns.are_as_given:
            raise _wants_table(columns, source.where)
        return source
    if columns.outputs == here.outputs and columns.targets == here.targets:
        return source
    return Named(source, here, columns)


def _wants_table(columns: Columns, where: str) -> ShapeError:
    """Return the error of numbers in the place of a table whose columns became others."""
    names = [column.name for column in columns.columns]
    return ShapeError(
        f"{where} is read as numbers alone, and columns of the table that was learnt from became "
        f"others; give a table with the columns {brief(repr(names))}"
    )


@functools.lru_cache(8)
def columns_named(
    names: tuple[str, ...] | None, targets: tuple[str, ...] | None = None
) -> Columns | None:
    """Return the columns of numbers that have names, None where they have none."""
    return None if names is None else Columns.named(names, targets or ())


def names_of(X: Any, where: str) -> tuple[str, ...] | None:
    """Return the names of the columns of a table of any library; None where it has none.

    Also the labels of a DataArray of xarray that are all texts, none twice. DataError if columns
    share a name.
    """
    dims, coords = getattr(X, "dims", ()), getattr(X, "coords", None)
    if isinstance(dims, tuple) and len(dims) == 2 and coords is not None:
        labels = coords[dims[1]].values.tolist() if dims[1] in coords else []
        are_names = all(isinstance(label, str) for label in labels)
        return tuple(labels) if labels and are_names and len({*labels}) == len(labels) else None
    found = getattr(X, "column_names", getattr(X, "columns", ()))
    names = tuple(found) if isinstance(found, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names):
        return None
    check_names(names, where)
    return names


def check_names(names: Sequence[str], where: str) -> None:
    """Raise DataError if columns share a name."""
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise DataError(f"{where} has several columns called {repeated}; rename them")


def places_of(wanted: tuple[str, ...], names: tuple[str, ...], where: str) -> list[int] | None:
    """Return the places of columns by their names, None for all in order, or raise ShapeError."""
    if wanted == names:
        return None
    places = {name: place for place, name in enumerate(names)}
    lacks = [name for name in wanted if name not in places]
    if lacks:
        raise ShapeError(
            f"{where} has other columns than those learnt from: it lacks {brief(repr(lacks))}"
        )
    return [places[name] for name in wanted]


def target_places(wanted: tuple[str, ...], names: tuple[str, ...], where: str) -> list[int] | None:
    """Return the places of several targets by their names; None for all in order, or no names.

    ShapeError for targets of other names.
    """
    if min(len(wanted), len(names)) < 2 or wanted == names:
        return None
    if sorted(wanted) != sorted(names):
        raise ShapeError(
            f"{where} has the targets {[*names]}, and learnt from were {[*wanted]}; name those, in"
            " any order: y= (--y)"
        )
    return [names.index(name) for name in wanted]
