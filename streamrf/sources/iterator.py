"""Rows that arrive once: a generator, a queue, a network stream."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from streamrf.errors import ConsumedError, DataError, EmptySourceError, ParameterError, ShapeError
from streamrf.sources.base import Arrays, Block, Source, Store, check_window, joined
from streamrf.sources.columns import Columns
from streamrf.sources.derived import columns_named, named_as, names_of, places_of, target_places
from streamrf.sources.fingerprints import FINGERPRINT_ROWS, column_fingerprint, fingerprint
from streamrf.sources.sparse import (
    Numbers,
    SparseRows,
    columns_of,
    is_scipy_sparse,
    sparse_or_dense,
    values_of_sparse,
)
from streamrf.sources.stream import Stream, regrouped, windowed
from streamrf.sources.validation import (
    as_matrix,
    as_targets,
    check_no_grid,
    check_rank,
    matrix_dtype,
    weight_column,
)

WHERE = "iterator"
Names = tuple[str, ...] | None  # of columns


class IteratorSource(Source):
    """Rows of an iterator, each read once.

    What is read ahead of the pass, to know the width or for `sample`, is kept and becomes the
    beginning of the next `blocks()`: no row is lost or counted twice. Arrays are copied when they
    arrive, so a generator may fill one buffer again and again.

    Parameters
    ----------
    blocks : iterator, iterable, or function without arguments that makes one
        Yields ``(X, y)``, ``(X, y, weights)`` or bare ``X``, of any number of rows; X may be a
        SciPy matrix. Of tables of numbers, later ones are read by the names of columns of the
        first. An iterator can be read once; a list or a function again and again, a new
        iterator each time.
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
    ends or is abandoned.

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
        self._open = _opener(blocks)
        if not isinstance(position, int | np.integer) or position < 0:
            raise ParameterError(f"position must be an integer of at least 0, got {position!r}")
        if not isinstance(key, str | None):
            raise ParameterError(f"key must be a text or None, got {key!r}")
        self._position = position
        self._key, self._key_is_given = key, key is not None
        self._form: _Form | None = None
        self._stream: Stream | None = None  # begun, and not yet given to a pass
        self._consumed = False

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

    def adapted(self, columns: Columns | None, labels: NDArray[Any] | None = None) -> Source:
        """Return the source with the columns that others had, by their names."""
        return named_as(self, columns)

    def keys_of(self, places: Sequence[int]) -> list[str] | None:
        """Return the fingerprint of the rows with some columns; None if the key was given."""
        if self._key_is_given:
            return None
        rows = _first(self._ahead(FINGERPRINT_ROWS))
        return [fingerprint(columns_of(rows.X, places))]

    @property
    def stores(self) -> list[Store]:
        """The stream; reads its first blocks, and keeps them."""
        return [Store(self._key_of(self._ahead(FINGERPRINT_ROWS)), WHERE, None)]

    @property
    def settings(self) -> dict[str, str | None]:
        """Fingerprints of targets and weights; reads the first blocks, and keeps them."""
        rows = _first(self._ahead(FINGERPRINT_ROWS))
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
        stream = self._ahead(FINGERPRINT_ROWS if self._key is None else 1)
        self._stream = None
        return self._read(stream, start, stop, block_rows, self._key_of(stream))

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
        return self._block(_first(stream, n_rows), 0, self._key_of(stream))

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self._blocks, Iterator):
            raise ParameterError(
                "an iterator cannot be sent to another process; give IteratorSource a function that"
                " makes one"
            )
        # A pass that has begun stays behind: the copy can begin its own.
        return self.__dict__ | {"_stream": None, "_open": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open = _opener(self._blocks)

    def _known_form(self) -> "_Form":
        if self._form is None:
            self._ahead(1)
        assert self._form is not None
        return self._form

    def _ahead(self, n_rows: int) -> "Stream":
        """The pass that will come next, with its first `n_rows` rows at hand."""
        if self._stream is None:
            if self._consumed:
                raise ConsumedError(
                    "this iterator has been read, and its rows come only once; make a new"
                    " IteratorSource, or give it a function that makes a new iterator for each pass"
                )
            self._consumed = isinstance(self._blocks, Iterator)
            self._stream = Stream(self._checked(self._open()))
        stream = self._stream
        try:
            stream.pull(n_rows)
        except BaseException:
            # A stream that broke must not be taken for one that ended: the next pass raises, or
            # begins anew.
            self._stream = None
            raise
        if not stream.head:
            if self._form is not None:
                raise ConsumedError(
                    "the function gave an iterator without rows the second time; it must make a"
                    " new iterator at each call"
                )
            raise EmptySourceError(f"{WHERE}: 0 rows; expected at least 1")
        return stream

    def _key_of(self, stream: "Stream") -> str:
        if self._key is None:
            self._key = fingerprint(_first(stream).X)
        return self._key

    def _checked(self, items: Iterator) -> Generator[Arrays, None, None]:
        """The items that have rows, each checked against the first."""
        try:
            for number, item in enumerate(items):
                where = f"{WHERE}, block {number}"
                rows, row_shape, names, target_names = _as_rows(item, where)
                if len(rows.X):
                    if self._form is not None:
                        rows = _by_names(rows, names, self._form.names, where)
                        rows = _targets_by_names(rows, target_names, self._form, where)
                    form = _Form.of(rows, row_shape, names, target_names)
                    if self._form is None:
                        self._form = form
                    _check_alike(form, self._form, where)
                    yield rows._replace(X=_like(rows.X, self._form.is_sparse))
        finally:
            if isinstance(items, Generator):
                items.close()

    def _read(
        self, stream: "Stream", start: int, stop: int | None, block_rows: int, key: str
    ) -> Iterator[Block]:
        try:
            for rows in regrouped(windowed(stream.drain(), start, stop), block_rows):
                yield self._block(rows, start, key)
                start += len(rows.X)
        finally:
            stream.close()

    def _block(self, rows: Arrays, start: int, key: str) -> Block:
        position = self._position + start
        return Block(*rows, position, key, position, len(rows.X), None, WHERE)


class _Form(NamedTuple):
    """What all blocks of a source have in common."""

    n_features: int
    target: tuple[bool, tuple[int, ...]] | None  # strings?, shape of one target
    weighted: bool
    is_sparse: bool  # as the first block is; others are made so
    row_values: int
    row_shape: tuple[int, ...]
    names: Names = None  # of columns
    target_names: Names = None

    @classmethod
    def of(
        cls, rows: Arrays, row_shape: tuple[int, ...], names: Names, target_names: Names
    ) -> "_Form":
        target = None if rows.y is None else (rows.y.dtype.kind == "U", rows.y.shape[1:])
        n_features, is_sparse = rows.X.shape[1], isinstance(rows.X, SparseRows)
        n_values = values_of_sparse(len(rows.X.data), len(rows.X)) if is_sparse else n_features
        has_weights = rows.weights is not None
        target_form = target, has_weights, is_sparse, n_values, row_shape
        return cls(n_features, *target_form, names, target_names)


def _opener(blocks: Any) -> Callable[[], Iterator]:
    if isinstance(blocks, np.ndarray | str | bytes | dict):
        raise ParameterError(
            f"blocks is a {type(blocks).__name__}; expected an iterator of (X, y) or a function"
            " that makes one (whole arrays go into an ArraySource, files into an HDF5Source)"
        )
    if isinstance(blocks, Iterable):
        return lambda: iter(blocks)
    if callable(blocks):
        return lambda: iter(blocks())
    raise ParameterError(
        f"blocks is a {type(blocks).__name__}; expected an iterator of (X, y) or a function that"
        " makes one"
    )


def _first(stream: Stream, n_rows: int = FINGERPRINT_ROWS) -> Arrays:
    """Return the first rows of a stream, which are at hand."""
    return joined(list(windowed(stream.head, 0, n_rows)))


def _as_rows(item: Any, where: str) -> tuple[Arrays, tuple[int, ...], Names, Names]:
    """The arrays of one item, checked and copied, the shape of a row, and names of X and of y."""
    if isinstance(item, tuple) and len(item) not in (2, 3):
        raise DataError(
            f"{where} is a tuple of {len(item)}; expected (X, y) or (X, y, weights), or bare X"
        )
    given = item if isinstance(item, tuple) else (item,)
    X, y, weights = (*given, None, None)[:3]
    names, target_names = names_of(X, where), names_of(y, f"{where}, y")
    # Copies, because rows wait here while the generator goes on, and it may reuse its buffers.
    if is_scipy_sparse(X):
        check_rank(X.shape, f"{where}, X")
        X = sparse_or_dense(X.copy(), matrix_dtype(X.dtype, f"{where}, X"))
    else:
        X = as_matrix(X, f"{where}, X").copy()
    y = None if y is None else as_targets(y, len(X), f"{where}, y").copy()
    check_no_grid(np.shape(given[0]), y, f"{where}, X")
    weights = None if weights is None else weight_column(weights, len(X), f"{where}, weights")
    arrays = Arrays(X, y, None if weights is None else weights.copy())
    return arrays, np.shape(given[0])[1:], names, target_names


def _by_names(rows: Arrays, names: Names, wanted: Names, where: str) -> Arrays:
    """Return rows with the columns of the first block, where both have names."""
    if names is None or wanted is None or (places := places_of(wanted, names, where)) is None:
        return rows
    return rows._replace(X=columns_of(rows.X, places))


def _targets_by_names(rows: Arrays, names: Names, first: _Form, where: str) -> Arrays:
    """Return rows with the targets of the first block in its order, where both have names."""
    places = target_places(first.target_names or (), names or (), where)
    return rows if places is None else rows._replace(y=np.ascontiguousarray(rows.y[:, places]))


def _like(X: Numbers, is_sparse: bool) -> Numbers:
    """Return rows as sparse or dense as the first ones."""
    if isinstance(X, SparseRows):
        return X if is_sparse else X.dense()
    return SparseRows(scipy.sparse.csr_array(X)) if is_sparse else X


def _check_alike(form: _Form, first: _Form, where: str) -> None:
    """Raise ShapeError if a block is not like the first one."""
    if form.n_features != first.n_features:
        raise ShapeError(
            f"{where} has {form.n_features} features but the first has {first.n_features}; all"
            " blocks must have the same columns"
        )
    if form.target != first.target:
        raise ShapeError(
            f"{where} has {_described(form.target)} but the first has {_described(first.target)};"
            " all blocks must have the same targets"
        )
    if form.weighted != first.weighted:
        has, had = ("weights", "none") if form.weighted else ("no weights", "some")
        raise ShapeError(f"{where} has {has} but the first has {had}; give all blocks weights")


def _described(target: tuple[bool, tuple[int, ...]] | None) -> str:
    if target is None:
        return "no y"
    text, shape = target
    return f"{'strings' if text else 'numbers'} of shape {('n', *shape)} as y".replace("'", "")
