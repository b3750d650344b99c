"""NumPy files: `.npy`, mapped into memory, and `.npz`, also SciPy's sparse ones."""

import fnmatch
import glob
import os
from typing import Any

import numpy as np
import scipy

from streamrf.errors import (
    DatasetNotFoundError,
    ParameterError,
    ShapeError,
    SourceNotFoundError,
)
from streamrf.sources.base import Arrays
from streamrf.sources.paths import absolute, decoding
from streamrf.sources.sparse import as_csr
from streamrf.sources.stored import LazyMatrix, MatrixSource

Name = str | None


class NpyMatrix(LazyMatrix):
    """A `.npy` file of rows, or a `.npz` one of a sparse matrix; `.npy` of targets and weights."""

    def __init__(self, name: str, y: Name, weights: Name) -> None:
        self._paths = [(path, absolute(path)) for path in (name, y, weights) if path is not None]
        self._roles = [path is not None for path in (name, y, weights)]
        super().__init__(name)

    @property
    def files(self) -> list[str]:
        """Those of rows, targets and weights."""
        return [path for _, path in self._paths]

    def _open(self) -> Arrays:
        mapped = (_rows(path, name) for name, path in self._paths)
        return Arrays(*(next(mapped) if has_file else None for has_file in self._roles))


class NpzMatrix(LazyMatrix):
    """Arrays of a `.npz` file by their names, read into memory."""

    def __init__(self, name: str, x: Name, y: Name, weights: Name) -> None:
        self._path = absolute(name)
        self._names = ("X" if x is None else x, y, weights)
        super().__init__(name)

    @property
    def files(self) -> list[str]:
        """The file."""
        return [self._path]

    def _open(self) -> Arrays:
        with decoding(self.where), np.load(self._path, allow_pickle=False) as file:
            for name in self._names:
                if name is not None and name not in file.files:
                    raise DatasetNotFoundError(
                        f"{self.where} has no array {name!r}; it has {file.files}"
                    )
            return Arrays(*(None if name is None else file[name] for name in self._names))


def open_npy(names: list[str], x: Name, y: Name, weights: Name) -> MatrixSource:
    """Return the rows of `.npy` files.

    Parameters
    ----------
    names : files; of those of a folder, x is a pattern of the names of the files of rows
    y, weights : file or pattern, as many as there are files of rows, found as named or beside them
    """
    targets = None if y is None else _companions(y, names, "y")
    weighting = None if weights is None else _companions(weights, names, "weights")
    others = {absolute(path) for path in (*(targets or ()), *(weighting or ()))}
    rows = [name for name in names if absolute(name) not in others]
    if x is not None:
        rows = [name for name in rows if _is_called(name, x)]
    if not rows:
        raise SourceNotFoundError(f"none of {names[:5]} is a file of rows; name it with x= (--x)")
    beside = (_paired(rows, targets, "y"), _paired(rows, weighting, "weights"))
    stores = [NpyMatrix(*files) for files in zip(rows, *beside, strict=True)]
    return MatrixSource(stores, {"x": x, "y": y, "weights": weights})


def open_npz(names: list[str], x: Name, y: Name, weights: Name) -> MatrixSource:
    """Return the rows of `.npz` files of arrays, or of sparse ones with `.npy` files beside."""
    n_sparse = sum(map(_is_sparse, names))
    if n_sparse == len(names):
        return open_npy(names, None, y, weights)
    if n_sparse:
        raise ParameterError(
            f"of {len(names)} files, from {names[0]}, {n_sparse} are sparse matrices and the others"
            " arrays; read them by two sources"
        )
    stores = [NpzMatrix(name, x, y, weights) for name in names]
    return MatrixSource(stores, {"x": x, "y": y, "weights": weights})


def _paired(rows: list[str], found: list[str] | None, argument: str) -> list[Name]:
    """Return the companion of each file of rows: both in the order of their names."""
    if found is None:
        return [None] * len(rows)
    if len(found) != len(rows):
        raise ShapeError(
            f"{len(rows)} files of rows, from {rows[0]}, but {len(found)} of {argument}; name"
            f" as many with {argument}= (--{argument})"
        )
    beside: list[Name] = [None] * len(rows)
    for place, file in zip(sorted(range(len(rows)), key=rows.__getitem__), found, strict=True):
        beside[place] = file
    return beside


def _companions(wanted: str, names: list[str], argument: str) -> list[str]:
    """Return the `.npy` files that a name or pattern means, here or in the folder of others."""
    folder = os.path.dirname(names[0])
    for place in ("", folder):
        for ending in ("", ".npy"):
            path = os.path.join(place, os.path.expanduser(wanted) + ending)
            found = sorted(f for f in [path] * os.path.isfile(path) or glob.glob(path))
            if found := [file for file in found if os.path.isfile(file)]:
                return found
    raise SourceNotFoundError(
        f"there is no file {wanted!r}, nor {wanted + '.npy'!r}, here or in {folder or '.'!r}; name"
        f" the file with {argument}= (--{argument})"
    )


def _is_called(name: str, pattern: str) -> bool:
    base = os.path.basename(name)
    return fnmatch.fnmatch(base, pattern) or fnmatch.fnmatch(base, f"{pattern}.npy")


def _is_sparse(name: str) -> bool:
    with decoding(name), np.load(name, allow_pickle=False) as file:
        return "format" in file.files and "shape" in file.files


def _rows(path: str, name: str) -> Any:
    """Return an array, mapped into memory, or a sparse matrix."""
    with decoding(name):
        if name.lower().endswith(".npz"):
            return as_csr(scipy.sparse.load_npz(path), name)
        return np.load(path, mmap_mode="r", allow_pickle=False)
