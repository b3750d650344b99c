"""What h5py and zarr have open is read by the path of its file: in blocks, and never whole."""

import os
import sys
from dataclasses import replace
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import NDArray

from streamrf.errors import CorruptFileError, ParameterError
from streamrf.sources.base import Block, Source
from streamrf.sources.derived import Derived, names_of
from streamrf.sources.fingerprints import column_fingerprint
from streamrf.sources.hdf5 import HDF5Source
from streamrf.sources.hdf5_chunks import Bands
from streamrf.sources.hdf5_columns import Plain
from streamrf.sources.hdf5_files import cache_of
from streamrf.sources.hdf5_groups import column_of
from streamrf.sources.seekable import SeekableSource
from streamrf.sources.validation import check_no_grid, targets_and_weights
from streamrf.sources.zarr_arrays import is_packed, open_zarr


class WithTargets(Derived):
    """The rows of a source that has no targets or weights, with those of arrays.

    Parameters
    ----------
    source : the other, which can be read from any row on
    y, weights : as of an `ArraySource`
    """

    def __init__(self, source: SeekableSource, y: Any, weights: Any) -> None:
        super().__init__(source)
        self.has_targets, self.has_weights = y is not None, weights is not None
        self._y, self._weights = targets_and_weights(y, weights, source.n_rows)
        check_no_grid((source.n_rows, *source.row_shape), self._y, source.where)

    @property
    def settings(self) -> dict[str, str | None]:
        """Those of the rows, and fingerprints of targets and weights."""
        given = {"y": self._y, "weights": self._weights}
        return super().settings | {name: column_fingerprint(given[name]) for name in given}

    @property
    def known_targets(self) -> tuple[NDArray[Any], NDArray[np.float64] | None] | None:
        """Those of the arrays."""
        return None if self._y is None else (self._y, self._weights)

    def of_width(self, n_features: int) -> Self:
        return self  # a row of several places has one target

    def _changed(self, block: Block) -> Block:
        rows = block.positions
        y, weights = (None if c is None else c[rows] for c in (self._y, self._weights))
        return replace(block, y=y, weights=weights)


def is_open_array(X: Any) -> bool:
    """Return whether X is a matrix that h5py or zarr has open, and is read as well by its path.

    That is one of numbers, in a file here, and as they are: slices of packed ones are those stored.
    """
    _check_open(X)
    if not (isinstance(X, h5py.Dataset) or _is_zarr(X, "Array")) or _path_of(X) is None:
        return False
    if X.ndim < 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        return False
    if not isinstance(X, h5py.Dataset):
        has_newer = os.path.exists(f"{_path_of(X)}/zarr.json")  # which a path opens first
        return not is_packed(X) and has_newer == (X.metadata.zarr_format == 3)
    try:
        is_plain = type(column_of(X, "X")) is Plain
    except CorruptFileError:  # of attributes that say nothing, which its slices have not
        return False
    return is_plain and _has_cache(X)


def _has_cache(dataset: h5py.Dataset) -> bool:
    """Return whether no chunk is read anew for each block: the cache is that of the first opening.

    It is where threads of ours read the chunks, or the cache holds them.
    """
    if dataset.chunks is None or Bands.of(dataset, 1) is not None:
        return True
    held = dataset.id.get_access_plist().get_chunk_cache()[1]
    return cache_of([Plain(dataset)])[0] <= held


def is_open_group(X: Any) -> bool:
    """Return whether X is a file or group that h5py or zarr has open."""
    return isinstance(X, h5py.Group) or _is_zarr(X, "Group")


def path_of_group(X: Any) -> str:
    """Return the path of a file or group that is open; ParameterError if it cannot be opened so."""
    _check_open(X)
    path = _path_of(X)
    if path is None:
        raise ParameterError(f"X is {X!r}, in no file that can be opened again; give arrays")
    if isinstance(X, h5py.Group) and X.name != "/":
        name = f"{X.name[1:]}/{'X' if 'X' in X else 'NAME'}"
        raise ParameterError(
            f"X is the group {X.name!r} of an HDF5 file; give the file, whose names have the group "
            f"before them: open_source({path!r}, x={name!r}, y=...)"
        )
    return path


def open_handle(X: Any, y: Any, weights: Any, allow_sparse: bool) -> Source:
    """Return the rows of an open array.

    Parameters
    ----------
    y, weights : arrays, as of `open_source`, or None
    allow_sparse : as of `open_source`. What h5py has opened may be in files of any folder
    """
    path = str(_path_of(X))
    source: SeekableSource
    if isinstance(X, h5py.Dataset):
        source = HDF5Source(
            [path], X.name[1:], None, allow_sparse=allow_sparse, allow_external=True
        )
    else:
        source = open_zarr([path], None, None, None, allow_sparse)
    source.names, source.target_names = None, names_of(y, "y")  # as those of its slices
    return source if y is None and weights is None else WithTargets(source, y, weights)


def _check_open(X: Any) -> None:
    """Raise ParameterError for what h5py had open and is closed, or zarr, and is gone."""
    if isinstance(X, h5py.Dataset | h5py.Group) and not X:
        raise ParameterError(f"X is {X!r}; open its file again, or give its path to open_source")
    is_zarr = _is_zarr(X, "Array") or _is_zarr(X, "Group")
    if is_zarr and (folder := _path_of(X)) is not None and not os.path.isdir(folder):
        raise ParameterError(f"X is {X!r}, whose folder {folder} is gone; zarr reads it as zeros")


def _is_zarr(X: Any, kind: str) -> bool:
    """Return whether X is of a class of zarr, without importing it."""
    zarr = sys.modules.get("zarr")
    return zarr is not None and isinstance(X, getattr(zarr, kind))


def _path_of(X: Any) -> str | None:
    """Return the path of the file, or folder, of what is open; None of what can be read by none."""
    if isinstance(X, h5py.Dataset | h5py.Group):
        return _file_of(X) if X and X.name else None  # if it is open, and has a name
    if _is_zarr(X, "Array") or _is_zarr(X, "Group"):
        root = getattr(X.store, "root", None)  # of a store in a folder
        return os.fspath(root / X.path) if isinstance(root, os.PathLike) else None
    return None


def _file_of(X: Any) -> str | None:
    """Return the path of an HDF5 file, if it is the one that is open, and open to read alone."""
    file = X.file
    path = os.fsdecode(file.filename)  # as it was given, for names in ledgers
    if file.driver != "sec2" or file.mode != "r" or file.swmr_mode or not os.path.isfile(path):
        return None
    return path if os.path.samestat(os.fstat(file.id.get_vfd_handle()), os.stat(path)) else None
