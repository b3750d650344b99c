"""Rows of one or many HDF5 files, read in blocks that end where the storage chunks end."""

import copy
import logging
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import CorruptFileError, EmptySourceError, ShapeError
from streamrf.sources.base import Arrays, Block, Store
from streamrf.sources.hdf5_chunks import steps
from streamrf.sources.hdf5_columns import ColumnReader, readers
from streamrf.sources.hdf5_files import (
    File,
    Names,
    Trust,
    datasets,
    inspect,
    opened,
    where_of,
)
from streamrf.sources.hdf5_names import listed_names
from streamrf.sources.hdf5_trust import check_there, warn_of_lacking
from streamrf.sources.labels import places_of_ones
from streamrf.sources.paths import Paths, expand, version
from streamrf.sources.seekable import Ranges, SeekableSource
from streamrf.sources.sparse import MAX_DENSE, total_entries
from streamrf.sources.urls import check_no_urls
from streamrf.sources.validation import as_matrix, check_names, check_roles, targets_and_weights

logger = logging.getLogger("streamrf")

MAX_PARTS = 1000  # files of a virtual dataset that are looked for after every block
MAX_KNOWN = 1 << 23  # rows whose targets are read before a pass, where all are to be known


class HDF5Source(SeekableSource):
    """Rows of the datasets of one HDF5 file or of many, one file after the other.

    Sizes, dtypes and the first rows are read when the source is made; a file is open only while
    its blocks are read.

    Parameters
    ----------
    path : path or glob pattern, or an iterable of them
        A pattern means the files that match it, sorted by name. ``~`` is the home folder.
    x : name of the dataset of rows, shape (n_rows, ...)
        Any dtype of numbers; rank above 2 is flattened row by row. Or of a group of sparse rows, as
        AnnData keeps them.
    y : name of the dataset of labels or targets, shape (n_rows,) or (n_rows, n_targets), or None
        Several targets may be a dataset each, of shape (n_rows,): a list, or a text with commas.
        Labels are integers, floats without fractions or strings of fixed or variable length.
        Of AnnData a column of `obs` too, by its own name. Where it has an entry for each place on
        all axes of X but the last, as a map of labels beside an image of many bands, these places
        are the rows. Classes that are written one-hot, as far as the first 64 rows of each file
        tell, are read as integers, unless values are wanted.
    weights : name of the dataset of sample weights, shape (n_rows,), or None
    allow_sparse : read rows that are not stored as the fill value: those of a dataset of over 1 GiB
        of which less than a thousandth is stored, and those in files that are missing or too short
        (virtual datasets, external raw storage)
    allow_external : follow external links, virtual datasets and external raw storage to files
        outside the folder of the file that was given

    Raises
    ------
    ParameterError
        If a file is at a URL, or a name is no text.
    SourceNotFoundError
        A path or pattern without a file.
    DatasetNotFoundError
        A file without the dataset; the message lists those it has.
    CorruptFileError
        Not an HDF5 file, or a truncated or damaged one, or one that is not allowed what it claims.
    ShapeError
        A group, a dataset of the wrong rank or dtype, y or weights of another length than X, files
        of different width.
    EmptySourceError
        No rows in any file.

    Notes
    -----
    The ledger key of a file is the `fingerprint` of its rows, so it does not depend on the path.

    Each chunk is decompressed once in a pass, those of known filters by many threads ahead of their
    use. A block ends on a chunk border, and where a chunk is longer than a block, it is kept until
    its last piece is read, with all chunks that lie side by side over the columns: of other filters
    by HDF5's chunk cache. So a file of huge chunks needs that much memory.

    Examples
    --------
    >>> import tempfile
    >>> import h5py
    >>> import streamrf as srf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with h5py.File(f"{folder}/rows.h5", "w") as file:
    ...         file["X"], file["y"] = [[1.0], [2.0]], [0, 1]
    ...     source = srf.HDF5Source(f"{folder}/rows.h5", x="X", y="y")
    >>> source.n_rows, source.n_features
    (2, 1)
    """

    def __init__(
        self,
        path: Paths,
        x: str = "X",
        y: str | Sequence[str] | None = "y",
        weights: str | None = None,
        *,
        allow_sparse: bool = False,
        allow_external: bool = False,
    ) -> None:
        names = expand(path)
        check_no_urls(names)
        check_names(names[0], x=x, y=y, weights=weights)
        check_roles(y, weights, names[0])
        wanted = tuple(map(str, y)) if isinstance(y, list | tuple) else y
        y = wanted[0] if isinstance(wanted, tuple) and len(wanted) == 1 else wanted
        given: Any = (x, y, weights)
        plain = (str(name) if isinstance(name, str) else name for name in given)
        self._names = Names(*plain)  # not NumPy's texts
        self._trust = Trust(allow_sparse, allow_external)
        self._look_at(names)

    def _look_at(self, names: Sequence[str]) -> None:
        """Learn what is known of the files before their rows are read."""
        x, y, weights = self._names
        files: list[File] = []
        n_rows = 0
        for name in names:
            file = inspect(name, self._names, n_rows, self._trust)
            _check_alike(file, files[0] if files else file, self._names)
            files.append(file)
            n_rows += file.n_rows
        self._files = files
        self.n_rows = n_rows
        self.n_features, self.row_shape = files[0].n_features, files[0].row_shape
        self.names, target = files[0].columns, files[0].target
        if self.names is not None and isinstance(y, str) and target is not None and not target[1]:
            self.target_names = (y,)
        if files[0].targets:
            self.target_names = files[0].targets
        self.has_targets = y is not None
        self.has_weights = weights is not None
        several = f"{len(files)} files, {files[0].name} to {files[-1].name}"
        self._of_files = files[0].name if len(files) == 1 else several
        self.where = where_of(self._of_files, x)
        if not n_rows:
            raise EmptySourceError(f"{self.where}: 0 rows; expected at least 1")
        warn_of_lacking(file.lacking for file in files)
        self._is_one_hot = y is not None and all(file.is_one_hot for file in files if file.n_rows)
        *grid, n_features = files[0].stored_shape
        if len(grid) > 1 and self.row_shape == (n_features,):
            logger.info(
                "%s: each of the %s places of an array is a row of %s columns",
                *(self.where, " x ".join(f"{size:,}" for size in grid), f"{n_features:,}"),
            )

    def of_width(self, n_features: int) -> Self:
        """Return the source with pixels as rows where those have as many columns, or itself."""
        shape = self._files[0].stored_shape
        if n_features == self.n_features or len(shape) < 3 or shape[-1] != n_features:
            return self
        changed = copy.copy(self)
        changed._trust = self._trust._replace(pixels=True)
        changed._look_at([file.name for file in self._files])
        changed._is_one_hot &= self._is_one_hot
        return changed

    @property
    def where_targets(self) -> str:
        y = self._names.y
        return self.where if y is None else where_of(self._of_files, y)

    @property
    def stores(self) -> list[Store]:
        """The files."""
        return [file.store(self._names.x) for file in self._files]

    @property
    def files(self) -> list[str]:
        """The files, and those that their datasets are really in."""
        return [path for file in self._files for path in (file.path, *file.others)]

    @property
    def versions(self) -> list[str]:
        """Sizes of the files, and when they were last written to."""
        return [version(path) for path in self.files if os.path.exists(path)]

    @property
    def known_targets(self) -> tuple[NDArray[Any], NDArray[np.float64] | None] | None:
        """Those of the datasets, unless there are more than are read for the asking."""
        if not self.has_targets or self.n_rows > MAX_KNOWN:
            return None
        parts = [self._targets_of(file) for file in self._files if file.n_rows]
        y, weights = zip(*parts, strict=True)
        return np.concatenate(y), np.concatenate(weights) if self.has_weights else None

    def _targets_of(self, file: File) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
        """Read the targets and weights of all rows of a file."""
        wheres = [where_of(file.name, dataset) for dataset in self._names[1:]]
        with opened(file.path, file.name) as handle:
            found = datasets(handle, file.name, self._names, self._trust.pixels)[1:]
            with readers(found, [(0, file.n_rows)], wheres) as columns:
                return self._targets(columns, wheres, 0, file.n_rows)

    @property
    def n_entries(self) -> int | None:
        return total_entries(self._files)

    @property
    def buffer_bytes(self) -> int:
        """The cache of chunks, and those decompressed ahead; one file is open at a time."""
        return max(file.cache_bytes + file.ahead_bytes for file in self._files)

    @property
    def settings(self) -> dict[str, str | None]:
        """Names of the datasets."""
        y = self._names.y
        if self._files[0].targets:  # however they were written
            y = ",".join(listed_names(y))
        return self._names._asdict() | {"y": y}

    def _read(self, ranges: Ranges, block_rows: int) -> Iterator[Block]:
        """Read disjoint ranges of rows in ascending order, each file opened once."""
        for file in self._files:
            inside = [
                (max(start, file.first) - file.first, min(stop, file.stop) - file.first)
                for start, stop in ranges
                if start < file.stop and stop > file.first
            ]
            if inside:
                yield from self._read_file(file, inside, block_rows)

    def _read_file(self, file: File, ranges: Ranges, block_rows: int) -> Iterator[Block]:
        where = file.where(self._names.x)
        # rdcc_w0 stays at HDF5's 0.75: at 1 a chunk read in part is never let go, and a sample of
        # a file of big chunks would hold them all
        cache = {"rdcc_nbytes": file.cache_bytes, "rdcc_nslots": file.cache_slots}
        with opened(file.path, file.name, **cache) as handle:
            found = datasets(handle, file.name, self._names, self._trust.pixels)
            if len(found.x) < file.n_rows:
                raise CorruptFileError(
                    f"{where} has {len(found.x)} rows but had {file.n_rows} when the source was"
                    " made; make the source again"
                )
            wheres = [where_of(file.name, dataset) for dataset in self._names]
            with readers(found, ranges, wheres) as rows:
                for start, stop in ranges:
                    for low, high in steps(start, stop, file.chunk_rows, block_rows):
                        try:
                            arrays = self._arrays(rows, wheres, low, high)
                        except CorruptFileError:
                            check_there(file.parts, where)  # one that goes cannot be read either
                            raise
                        if high == stop or len(file.parts) <= MAX_PARTS:
                            check_there(file.parts, where)  # after it: so they were there
                        yield Block(
                            *arrays,
                            position=file.first + low,
                            key=file.keys[-1],
                            row=low,
                            span=high - low,
                            kept=None,
                            where=where,
                        )

    def _arrays(
        self, rows: list[ColumnReader | None], wheres: list[str], low: int, high: int
    ) -> Arrays:
        """Read the rows ``[low, high)`` of a file."""
        x, *columns = rows
        assert x is not None
        X = as_matrix(x.read(low, high), wheres[0])
        return Arrays(X, *self._targets(columns, wheres[1:], low, high))

    def _targets(
        self, columns: Sequence[ColumnReader | None], wheres: list[str], low: int, high: int
    ) -> tuple[Any, Any]:
        """Read targets and weights of the rows ``[low, high)``, None where there are none."""
        y, weights = (None if column is None else column.read(low, high) for column in columns)
        y, weights = targets_and_weights(y, weights, high - low, *wheres)
        return places_of_ones(y, wheres[0], low) if self._is_one_hot else y, weights

    def _sampled_from(self, row: int) -> int:
        """Return the border of a chunk, so that a range of a sample decodes no part of another."""
        return self._chunk(row)[0]

    def _chunk(self, row: int) -> tuple[int, int]:
        file = self._files[bisect_right(self._files, row, key=lambda file: file.first) - 1]
        before = row - (row - file.first) % file.chunk_rows
        return before, min(before + file.chunk_rows, file.stop)


def _check_alike(file: File, first: File, names: Names) -> None:
    """Raise ShapeError if rows or targets are not like those of the first file."""
    if file.n_features != first.n_features:
        raise ShapeError(
            f"{where_of(file.name, names.x)} has {file.n_features} features but {first.name} has"
            f" {first.n_features}; all files must have the same columns"
        )
    is_sparse, was_sparse = (one.n_entries is not None for one in (file, first))
    if is_sparse != was_sparse and file.n_features > MAX_DENSE:
        raise ShapeError(
            f"{where_of(file.name, names.x)} is {'sparse' if is_sparse else 'dense'} and "
            f"{first.name} is not; read them by two sources, whose statistics can be added"
        )
    if file.columns != first.columns:
        raise ShapeError(
            f"{where_of(file.name, names.x)} has columns of other names, or in another order, than "
            f"{first.name}; all files must have the same columns"
        )
    if file.target != first.target and file.target is not None and first.target is not None:
        raise ShapeError(
            f"{where_of(file.name, names.y)} has {_described(file.target)} but {first.name} has"
            f" {_described(first.target)}; all files must have the same targets"
        )


def _described(target: tuple[bool, tuple[int, ...]]) -> str:
    text, shape = target
    return f"{'strings' if text else 'numbers'} of shape {('n_rows', *shape)}".replace("'", "")
