"""Rows of one or many HDF5 files, read in blocks that end where the storage chunks end."""

import difflib
import glob
import math
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import h5py
import hdf5plugin  # noqa: F401  registers the common filters (Blosc, LZ4, Zstandard, ...)
import numpy as np

from streamrf.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    EmptySourceError,
    ShapeError,
    SourceNotFoundError,
)
from streamrf.sources.base import (
    FINGERPRINT_ROWS,
    Block,
    Source,
    Store,
    check_window,
    even_ranges,
    even_stretches,
    fingerprint,
    join_sample,
)
from streamrf.sources.validation import (
    as_matrix,
    as_targets,
    check_rank,
    check_targets_shape,
    check_weights_shape,
    matrix_dtype,
    weight_column,
)

Paths = str | os.PathLike | Iterable[str | os.PathLike]


class HDF5Source(Source):
    """Rows of the datasets of one HDF5 file or of many, one file after the other.

    Sizes, dtypes and the first rows are read when the source is made; a file is open only while
    its blocks are read.

    Parameters
    ----------
    path : path or glob pattern, or an iterable of them
        A pattern stands for the files it matches, sorted by name. ``~`` is the home folder.
    x : name of the dataset of rows, shape (n_rows, ...)
        Any dtype of numbers; rank above 2 is flattened row by row.
    y : name of the dataset of labels or targets, shape (n_rows,) or (n_rows, n_targets), or None
        Labels are integers, floats or strings of fixed or variable length.
    weights : name of the dataset of sample weights, shape (n_rows,), or None

    Raises
    ------
    SourceNotFoundError
        A path or pattern without a file.
    DatasetNotFoundError
        A file without the dataset; the message lists those it has.
    CorruptFileError
        Not an HDF5 file, or a truncated or damaged one.
    ShapeError
        A group, a dataset of the wrong rank or dtype, y or weights of another length than X, files
        of different width.
    EmptySourceError
        No rows in any file.

    Notes
    -----
    The ledger key of a file is the `fingerprint` of its rows, so it does not depend on the path.

    Each chunk is decompressed once in a pass. A block ends on a chunk border, and where a chunk is
    longer than a block, HDF5's chunk cache, set to hold all chunks that lie side by side over the
    columns, keeps it until its last piece is read. So a file of huge chunks needs that much memory.
    """

    seekable = True

    def __init__(self, path: Paths, x: str = "X", y: str | None = "y", weights: str | None = None):
        self._names = _Names(x, y, weights)
        stores: list[_Store] = []
        n_rows = 0
        for name in _expand(path):
            store = _inspect(name, self._names, n_rows)
            _check_alike(store, stores[0] if stores else store, self._names)
            stores.append(store)
            n_rows += store.n_rows
        self._stores = stores
        self._first_rows = [store.first for store in stores]
        self.n_rows: int = n_rows
        self.n_features = stores[0].n_features
        self.has_targets = y is not None
        self.has_weights = weights is not None
        if len(stores) == 1:
            self.where = _where(stores[0].name, x)
        else:
            names = f"{len(stores)} files, {stores[0].name} to {stores[-1].name}"
            self.where = _where(names, x)
        if not n_rows:
            raise EmptySourceError(f"{self.where}: 0 rows; expected at least 1")

    @property
    def stores(self) -> list[Store]:
        """The files."""
        x = self._names.x
        return [Store(s.key, _where(s.name, x), s.n_rows) for s in self._stores]

    @property
    def versions(self):
        """Sizes of the files, and when they were last written to."""
        states = [os.stat(store.path) for store in self._stores]
        return [f"{state.st_size} {state.st_mtime_ns}" for state in states]

    @property
    def buffer_bytes(self):
        """The cache of chunks; one file is open at a time."""
        return max(store.cache_bytes for store in self._stores)

    @property
    def settings(self) -> dict[str, str | None]:
        """Names of the datasets."""
        return self._names._asdict()

    def blocks(
        self, start: int = 0, stop: int | None = None, *, block_rows: int = 4096
    ) -> Iterator[Block]:
        """Give the rows ``[start, stop)`` in order.

        Parameters
        ----------
        start, stop : places of rows in the whole source
        block_rows : rows a block at most; a block is as many whole chunks as fit, or an equal
            piece of a chunk that does not fit

        Raises
        ------
        CorruptFileError
            Rows that cannot be read, or files that have become shorter.
        """
        start, end = check_window(self.n_rows, start, stop, block_rows)
        return self._read([(start, self.n_rows if end is None else end)], block_rows)

    def split(self, parts: int) -> list[tuple[int, int]]:
        """Cut all rows into at most `parts` ranges of about one length, on chunk borders.

        Files of few large chunks give fewer ranges.
        """
        return even_ranges(self.n_rows, parts, self._nearest_border)

    def sample(self, n_rows: int) -> Block:
        """Give about `n_rows` rows, the same each time, in 8 stretches spread over all files.

        The block's `kept` holds the places of the rows in the whole source.
        """
        stretches = even_stretches(self.n_rows, n_rows, self._border_before)
        return join_sample(self._read(stretches, n_rows), self.n_rows, self.where)

    def _read(self, ranges: list[tuple[int, int]], block_rows: int) -> Iterator[Block]:
        """The rows of disjoint ranges in rising order, each file opened once."""
        for store in self._stores:
            inside = [
                (max(start, store.first) - store.first, min(stop, store.stop) - store.first)
                for start, stop in ranges
                if start < store.stop and stop > store.first
            ]
            if inside:
                yield from self._read_store(store, inside, block_rows)

    def _read_store(
        self, store: "_Store", ranges: list[tuple[int, int]], block_rows: int
    ) -> Iterator[Block]:
        where = _where(store.name, self._names.x)
        # rdcc_w0 stays at HDF5's 0.75: at 1 a chunk read in part is never let go, and a sample of
        # a file of big chunks would hold them all
        cache = {"rdcc_nbytes": store.cache_bytes, "rdcc_nslots": store.cache_slots}
        with _opened(store.path, store.name, **cache) as file:
            columns = _columns(file, store.name, self._names)
            if len(columns.x) < store.n_rows:
                raise CorruptFileError(
                    f"{where} has {len(columns.x)} rows but had {store.n_rows} when the source was"
                    " made; make the source again"
                )
            for start, stop in ranges:
                for low, high in _steps(start, stop, store.chunk_rows, block_rows):
                    yield Block(
                        *self._fetch(columns, store.name, low, high),
                        position=store.first + low,
                        key=store.key,
                        row=low,
                        span=high - low,
                        kept=None,
                        where=where,
                    )

    def _fetch(
        self, columns: "_Columns", name: str, low: int, high: int
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """X, y and weights of the rows ``[low, high)`` of a file."""
        X = _slice(columns.x, low, high, _where(name, self._names.x))
        y = weights = None
        if columns.y is not None:
            where = _where(name, self._names.y)
            y = as_targets(_slice(columns.y, low, high, where), high - low, where)
        if columns.weights is not None:
            where = _where(name, self._names.weights)
            weights = weight_column(_slice(columns.weights, low, high, where), high - low, where)
        return as_matrix(X, _where(name, self._names.x)), y, weights

    def _store_at(self, row: int) -> "_Store":
        return self._stores[bisect_right(self._first_rows, row) - 1]

    def _border_before(self, row: int) -> int:
        store = self._store_at(row)
        return row - (row - store.first) % store.chunk_rows

    def _nearest_border(self, row: int) -> int:
        store = self._store_at(row)
        before = self._border_before(row)
        after = min(before + store.chunk_rows, store.stop)
        return before if row - before <= after - row else after


class _Names(NamedTuple):
    """Names of the datasets."""

    x: str
    y: str | None
    weights: str | None


class _Columns(NamedTuple):
    """Open datasets."""

    x: h5py.Dataset
    y: h5py.Dataset | None
    weights: h5py.Dataset | None


@dataclass(frozen=True)
class _Store:
    """What is known of a file without opening it."""

    path: str  # absolute, because a worker may stand in another folder
    name: str  # the path as the user gave it
    first: int
    n_rows: int
    n_features: int
    chunk_rows: int
    cache_bytes: int
    cache_slots: int
    key: str
    target: tuple[bool, tuple[int, ...]] | None  # strings?, shape of one target

    @property
    def stop(self) -> int:
        return self.first + self.n_rows


def _where(name: str, dataset: str | None) -> str:
    return f"{name}, dataset {dataset!r}"


def _expand(path: Paths) -> list[str]:
    """The files that paths and patterns stand for."""
    entries = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not entries:
        raise SourceNotFoundError("no files were given; expected a path, a pattern or a list")
    return [name for entry in entries for name in _matches(os.path.expanduser(os.fsdecode(entry)))]


def _matches(name: str) -> list[str]:
    if os.path.isfile(name):  # first: a file's name may hold brackets
        return [name]
    if os.path.isdir(name):
        pattern = os.path.join(name, "*.h5")
        raise SourceNotFoundError(f"{name!r} is a folder; expected HDF5 files, such as {pattern!r}")
    if not glob.has_magic(name):
        _refuse_missing(name, os.path.abspath(name))
    found = sorted(match for match in glob.glob(name, recursive=True) if os.path.isfile(match))
    if not found:
        raise SourceNotFoundError(
            f"no file matches {name!r} (looked for {os.path.abspath(name)!r})"
        )
    return found


def _refuse_missing(name: str, path: str) -> NoReturn:
    folder, base = os.path.split(path)
    if not os.path.isdir(folder):
        raise SourceNotFoundError(f"there is no file {name!r}: no folder {folder!r}")
    near = difflib.get_close_matches(base, os.listdir(folder), n=5)
    hint = f"near names there: {near}" if near else "no name there is like it"
    raise SourceNotFoundError(f"there is no file {name!r} in {folder!r}; {hint}")


def _opened(path: str, name: str, **cache: Any) -> h5py.File:
    """The file, open for reading."""
    try:
        return h5py.File(path, "r", **cache)
    except FileNotFoundError:
        _refuse_missing(name, path)
    except (PermissionError, BlockingIOError):
        raise  # the file may be well: it belongs to another, or is being written
    except OSError as error:
        raise CorruptFileError(
            f"{name} cannot be opened as an HDF5 file ({error}); it is of another format, or"
            " truncated: copy or write it again"
        ) from error


def _inspect(name: str, names: _Names, first: int) -> _Store:
    """Read what can be known of a file before its rows are read."""
    path = os.path.abspath(name)
    with _opened(path, name) as file:
        columns = _columns(file, name, names)
        chunk_rows, cache_bytes, cache_slots = _chunk_layout(columns)
        where = _where(name, names.x)
        n_rows = len(columns.x)
        head = as_matrix(_slice(columns.x, 0, min(n_rows, FINGERPRINT_ROWS), where), where)
        return _Store(
            path=path,
            name=name,
            first=first,
            n_rows=n_rows,
            n_features=head.shape[1],
            chunk_rows=chunk_rows,
            cache_bytes=cache_bytes,
            cache_slots=cache_slots,
            key=fingerprint(head, os.path.basename(path)),
            target=None if columns.y is None else (_is_text(columns.y), columns.y.shape[1:]),
        )


def _columns(file: h5py.File, name: str, names: _Names) -> _Columns:
    """The datasets of a file, their shapes and dtypes checked."""
    x = _dataset(file, name, names.x)
    check_rank(x.shape, _where(name, names.x))
    matrix_dtype(x.dtype, _where(name, names.x))
    y = weights = None
    if names.y is not None:
        y = _dataset(file, name, names.y)
        where = _where(name, names.y)
        check_targets_shape(y.shape, len(x), where)
        if not _is_text(y):
            matrix_dtype(y.dtype, where)
    if names.weights is not None:
        weights = _dataset(file, name, names.weights)
        where = _where(name, names.weights)
        check_weights_shape(weights.shape, len(x), where)
        matrix_dtype(weights.dtype, where)
    return _Columns(x, y, weights)


def _is_text(dataset: h5py.Dataset) -> bool:
    return h5py.check_string_dtype(dataset.dtype) is not None


def _dataset(file: h5py.File, name: str, wanted: str) -> h5py.Dataset:
    found = file.get(wanted)
    if isinstance(found, h5py.Dataset):
        if found.shape is None:
            raise ShapeError(f"{_where(name, wanted)} is empty, without a shape; expected rows")
        return found
    shapes: dict[str, tuple[int, ...]] = {}
    file.visititems(
        lambda path, item: shapes.update(
            {path: item.shape} if isinstance(item, h5py.Dataset) else {}
        )
    )
    have = (
        f"it has {list(shapes)} of shapes {list(shapes.values())}"
        if shapes
        else "it has no dataset"
    )
    if found is None:
        raise DatasetNotFoundError(f"{name} has no dataset {wanted!r}; {have}")
    raise ShapeError(f"{name}: {wanted!r} is a group, not a dataset; {have}")


def _check_alike(store: _Store, first: _Store, names: _Names) -> None:
    """Refuse a file whose rows or targets cannot follow those of the first file."""
    if store.n_features != first.n_features:
        raise ShapeError(
            f"{_where(store.name, names.x)} has {store.n_features} features but {first.name} has"
            f" {first.n_features}; all files must have the same columns"
        )
    if store.target != first.target and store.target is not None and first.target is not None:
        raise ShapeError(
            f"{_where(store.name, names.y)} has {_described(store.target)} but {first.name} has"
            f" {_described(first.target)}; all files must have the same targets"
        )


def _described(target: tuple[bool, tuple[int, ...]]) -> str:
    text, shape = target
    return f"{'strings' if text else 'numbers'} of shape {('n_rows', *shape)}".replace("'", "")


def _chunk_layout(columns: _Columns) -> tuple[int, int, int]:
    """Rows of a chunk of X, and the bytes and slots of a cache that holds one row of chunks."""
    n_bytes = 1 << 20  # HDF5's default before version 2
    slots = 521  # HDF5's default
    for dataset in columns:
        if dataset is not None and dataset.chunks is not None:
            chunks = dataset.chunks
            beside = [
                -(-size // chunk) for size, chunk in zip(dataset.shape[1:], chunks[1:], strict=True)
            ]
            side = math.prod(beside)
            n_bytes = max(n_bytes, side * math.prod(chunks) * dataset.dtype.itemsize)
            # HDF5 gives each axis of the chunk grid its own bits of the hash: with as many slots as
            # the bits reach, chunks side by side never push each other out.
            reach = math.prod(1 << count.bit_length() for count in beside)
            slots = max(slots, reach + 1)
    return (columns.x.chunks[0] if columns.x.chunks else 1), n_bytes, slots


def _steps(start: int, stop: int, chunk_rows: int, block_rows: int) -> Iterator[tuple[int, int]]:
    """Cut ``[start, stop)`` into whole chunks, or a chunk longer than a block into equal pieces."""
    low = start
    while low < stop:
        high = (low + block_rows) // chunk_rows * chunk_rows
        if high <= low:
            left = min((low // chunk_rows + 1) * chunk_rows, stop) - low
            pieces = -(-left // block_rows)
            high = low + -(-left // pieces)
        yield low, min(high, stop)
        low = high


def _slice(dataset: h5py.Dataset, low: int, high: int, where: str) -> np.ndarray:
    try:
        return dataset[low:high]
    except (OSError, RuntimeError) as error:
        raise CorruptFileError(
            f"{where}: rows {low} to {high - 1} cannot be read ({error}); the file is damaged or"
            " truncated there: copy or write it again"
        ) from error
