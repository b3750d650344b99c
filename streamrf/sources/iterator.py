"""Rows that arrive once: a generator, a queue, a network stream."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import ConsumedError, EmptySourceError, ParameterError
from streamrf.sources.arrivals import (
    Form,
    as_rows,
    by_names,
    check_alike,
    like,
    targets_by_names,
)
from streamrf.sources.base import Arrays, Block, Source, Store, check_window, joined
from streamrf.sources.columns import Columns
from streamrf.sources.derived import columns_named, named_as
from streamrf.sources.fingerprints import FINGERPRINT_ROWS, column_fingerprint, fingerprint
from streamrf.sources.sparse import columns_of
from streamrf.sources.stream import Part, Stream, grouped, windowed

WHERE = "iterator"


class _Coming:
    """The pass that comes next; copies of a source share it, since rows come but once."""

    stream: Stream | None = None  # begun, and not yet given to a pass
    is_consumed = False


class IteratorSource(Source):
    """Rows of an iterator, each read once.

    What is read ahead of the pass, to know the width or for `sample`, is kept and becomes the
    beginning of the next `blocks()`: no row is lost or counted twice. Arrays are copied when they
    arrive, so a generator may fill one buffer again and again.

    Parameters
    ----------
    blocks : iterator, iterable, or function without arguments that makes one
        Yields ``(X, y)``, ``(X, y, weights)`` or bare ``X``, of any number of rows; X may be a
        SciPy matrix. Lists of two or three arrays of different shapes, as loaders of batches give
        them, are such tuples; up to three matrices of one shape are refused, more are rows. Of
        tables of numbers, later ones are read by the names of columns of the first; tables of all
        kinds of columns: `open_source`. An iterator can be read once; a list or a function again
        and again, a new iterator each time.
    position : index of the first row, if this continues a longer stream
    key : ledger key of that stream; None makes one from the first 64 rows

    Raises
    ------
    ParameterError
        `blocks` is no iterator, iterable or function.
    ShapeError, DataError
        While reading: a block that is not like the first one, or lacks a column. Blocks are
        counted from 0.
    EmptySourceError
        No rows at all, found when they are first needed.
    ConsumedError
        A second pass over an iterator.

    Notes
    -----
    Errors of the iterator itself pass through as they are. An iterator is closed when its pass
    ends or is abandoned. It stays in the thread that calls, to which its connection may be bound;
    what a function makes is begun there, and goes on in a thread that reads ahead.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> source = srf.IteratorSource(lambda: ((np.eye(3), [0, 1, 1]) for _ in range(4)))
    >>> source.n_features, [len(block.X) for block in source.blocks()]
    (3, [12])
    """

    n_rows = None
    seekable = False
    where = WHERE

    def __init__(self, blocks: Any, position: int = 0, key: str | None = None) -> None:
        self._blocks = blocks
        _check_blocks(blocks)
        if not isinstance(position, int | np.integer) or position < 0:
            raise ParameterError(f"position must be an integer of at least 0, got {position!r}")
        if not isinstance(key, str | None):
            raise ParameterError(f"key must be a text or None, got {key!r}")
        self._position = position
        self._key, self._key_is_given = key, key is not None
        self._form: Form | None = None
        self._coming = _Coming()

    def begin(self, items: Iterator) -> None:
        """Take items that are begun already for the pass that comes next."""
        self._coming.is_consumed = isinstance(self._blocks, Iterator)
        self._coming.stream = Stream(self._arriving(items))

    def card(self) -> dict[str, str]:
        """Return what a prompt shows; the stream is left alone."""
        if self._form is None:
            return {"rows": "not looked at", "from": self.where}
        return super().card()

    @property
    def row_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of a row of the first block."""
        return self._known_form().row_shape

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Width of the rows; reads the first block, and keeps it."""
        return self._known_form().n_features

    @property
    def has_targets(self) -> bool:  # type: ignore[override]
        """Whether the blocks have targets; reads the first block, and keeps it."""
        return self._known_form().target is not None

    @property
    def has_weights(self) -> bool:  # type: ignore[override]
        """Whether the blocks have weights; reads the first block, and keeps it."""
        return self._known_form().weighted

    @property
    def is_sparse(self) -> bool:
        """Whether the blocks are sparse, of many columns; reads the first one, and keeps it."""
        return self._known_form().is_sparse

    @property
    def row_values(self) -> int:
        """Numbers that a row of the first block holds; reads it, and keeps it."""
        return self._known_form().row_values

    @property
    def is_rereadable(self) -> bool:
        """Whether a list or a function makes a new iterator for each pass."""
        return not isinstance(self._blocks, Iterator)

    @property
    def columns(self) -> Columns | None:
        """The names of columns of the first block, if any; reads it, and keeps it."""
        form = self._known_form()
        return columns_named(form.names, form.target_names)

    @property
    def target_names(self) -> tuple[str, ...] | None:  # type: ignore[override]  # an attribute of others
        """The names of targets of the first block, if any; reads it, and keeps it."""
        return self._known_form().target_names

    def adapted(self, columns: Columns | None, labels: NDArray[Any] | None = None) -> Source:
        """Return the source with the columns that others had, by their names."""
        return named_as(self, columns)

    def keys_of(self, places: Sequence[int]) -> list[str] | None:
        """Return the fingerprint of the rows with some columns; None if the key was given."""
        if self._key_is_given:
            return None
        rows = self._first(FINGERPRINT_ROWS)
        return [fingerprint(columns_of(rows.X, places))]

    @property
    def stores(self) -> list[Store]:
        """The stream; reads its first blocks, and keeps them."""
        return [Store(self._key_of(), WHERE, None)]

    @property
    def settings(self) -> dict[str, str | None]:
        """Fingerprints of targets and weights; reads the first blocks, and keeps them."""
        rows = self._first(FINGERPRINT_ROWS)
        return {"y": column_fingerprint(rows.y), "weights": column_fingerprint(rows.weights)}

    def blocks(
        self, start: int = 0, stop: int | None = None, *, block_rows: int = 4096
    ) -> Iterator[Block]:
        """Return the rows ``[start, stop)``, counted from this iterator's first; once.

        Rows before `start` are read and dropped. Each block has `block_rows` rows but for the last:
        larger arrivals are cut, smaller ones joined. Its `position` and `row` count from the
        source's `position`.

        Raises
        ------
        ConsumedError
            A second pass over an iterator.
        """
        check_window(None, start, stop, block_rows)
        key = self._key_of()
        stream = self._ahead(1)
        self._coming.stream = None
        return self._read(stream, start, stop, block_rows, key)

    def split(self, parts: int) -> list[tuple[int, int]]:
        """Raise ParameterError: what is read once, in order, cannot be cut."""
        raise ParameterError(
            f"parts={parts}: an iterator cannot be split, because its rows come once and in order;"
            " read it in one part, or give an HDF5Source or arrays"
        )

    def sample(self, n_rows: int) -> Block:
        """Return the first `n_rows` rows, or all if there are fewer; the next pass has them too."""
        if n_rows < 1:
            raise ParameterError(f"a sample of {n_rows} rows; expected at least 1")
        stream = self._ahead(max(n_rows, FINGERPRINT_ROWS))
        return self._block(list(windowed(stream.head, 0, n_rows)), 0, self._key_of())

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self._blocks, Iterator):
            raise ParameterError(
                "an iterator cannot be sent to another process; give IteratorSource a function that"
                " makes one"
            )
        # A pass that has begun stays behind: the copy can begin its own.
        return self.__dict__ | {"_coming": _Coming()}

    def _known_form(self) -> Form:
        if self._form is None:
            self._ahead(1)
        assert self._form is not None
        return self._form

    def _ahead(self, n_rows: int) -> Stream:
        """The pass that will come next, with its first `n_rows` rows at hand."""
        coming = self._coming
        if coming.stream is None:
            if coming.is_consumed:
                raise ConsumedError(
                    "this iterator has been read, and its rows come only once; make a new"
                    " IteratorSource, or give it a function that makes a new iterator for each pass"
                )
            self.begin(items_of(self._blocks))
        stream = coming.stream
        assert stream is not None
        try:
            stream.pull(n_rows)
        except BaseException:
            # A stream that broke must not be taken for one that ended: the next pass raises, or
            # begins anew.
            coming.stream = None
            raise
        if not stream.head:
            if self._form is not None:
                raise ConsumedError(
                    "the function gave an iterator without rows the second time; it must make a"
                    " new iterator at each call"
                )
            raise EmptySourceError(f"{WHERE}: 0 rows; expected at least 1")
        return stream

    def _first(self, n_rows: int) -> Arrays:
        """Return the first rows, which stay at hand."""
        return self._joined(list(windowed(self._ahead(n_rows).head, 0, n_rows)))[0]

    def _key_of(self) -> str:
        if self._key is None:
            self._key = fingerprint(self._first(FINGERPRINT_ROWS).X)
        return self._key

    def _arriving(self, items: Iterator) -> Generator[Part, None, None]:
        """The items that have rows, each as a part of the stream."""
        try:
            for number, item in enumerate(items):
                part = self._part(item, f"{WHERE}, block {number}")
                if len(part.X):
                    yield part
        finally:
            if isinstance(items, Generator):
                items.close()

    def _part(self, item: Any, where: str) -> Part:
        """Return an item as its rows, checked against the first that had some."""
        rows, row_shape, names, target_names = as_rows(item, where)
        if not len(rows.X):
            return rows
        if self._form is not None:
            rows = by_names(rows, names, self._form.names, where)
            rows = targets_by_names(rows, target_names, self._form, where)
        form = Form.of(rows, row_shape, names, target_names)
        if self._form is None:
            self._form = form
        check_alike(form, self._form, where)
        return rows._replace(X=like(rows.X, self._form.is_sparse))

    def _joined(self, parts: Sequence[Any]) -> tuple[Arrays, int]:
        """Return the rows of parts as arrays, and how many cells are unlike those learnt from."""
        return joined(parts), 0

    def _read(
        self, stream: Stream, start: int, stop: int | None, block_rows: int, key: str
    ) -> Iterator[Block]:
        try:
            for parts in grouped(windowed(stream.drain(), start, stop), block_rows):
                block = self._block(parts, start, key)
                yield block
                start += len(block.X)
        finally:
            stream.close()

    def _block(self, parts: Sequence[Any], start: int, key: str) -> Block:
        rows, n_unseen = self._joined(parts)
        position, n_rows = self._position + start, len(rows.X)
        return Block(*rows, position, key, position, n_rows, None, WHERE, (), n_unseen)


def items_of(blocks: Any) -> Iterator:
    """Return the blocks from their first one on; of an iterator, those that are left."""
    if isinstance(blocks, Iterable):
        return iter(blocks)
    made = blocks()
    _check_blocks(made, "what the function gave")
    return iter(made)


def _check_blocks(blocks: Any, name: str = "blocks") -> None:
    """Raise ParameterError for what cannot give blocks."""
    is_table = hasattr(blocks, "shape") and hasattr(blocks, "__arrow_c_stream__")
    if is_table or isinstance(blocks, np.ndarray | str | bytes | dict):
        raise ParameterError(
            f"{name} is a {type(blocks).__name__}; expected an iterator of (X, y) or a function"
            " that makes one (whole arrays go into an ArraySource, files into an HDF5Source)"
        )
    if not isinstance(blocks, Iterable) and not callable(blocks):
        raise ParameterError(
            f"{name} is a {type(blocks).__name__}; expected an iterator of (X, y) or a function"
            " that makes one"
        )
