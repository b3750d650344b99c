"""NumPy files: `.npy`, mapped into memory, and `.npz`, also SciPy's sparse ones."""

import fnmatch
import glob
import os

import numpy as np
import scipy

from streamrf.errors import DatasetNotFoundError, ShapeError, SourceNotFoundError
from streamrf.sources.base import Arrays
from streamrf.sources.paths import absolute, decoding, version
from streamrf.sources.sparse import as_csr
from streamrf.sources.stored import LazyMatrix, MatrixSource

Name = str | None


class NpyMatrix(LazyMatrix):
    """A `.npy` file of rows, and `.npy` files of their targets and weights."""

    def __init__(self, name: str, y: Name, weights: Name) -> None:
        self._paths = [(path, absolute(path)) for path in (name, y, weights) if path is not None]
        self._roles = [path is not None for path in (name, y, weights)]
        super().__init__(name)

    @property
    def version(self) -> str:
        """Sizes of the files, and when they were last written to."""
        return ", ".join(version(path) for _, path in self._paths)

    def _open(self) -> Arrays:
        mapped = (_mapped(path, name) for name, path in self._paths)
        return Arrays(*(next(mapped) if has_file else None for has_file in self._roles))


class NpzMatrix(LazyMatrix):
    """A `.npz` file, read into memory: arrays by name, or one sparse matrix.

    Targets and weights of a sparse matrix are `.npy` files.
    """

    def __init__(self, name: str, x: Name, y: Name, weights: Name) -> None:
        self._path = absolute(name)
        self._names = ("X" if x is None else x, y, weights)
        super().__init__(name)

    @property
    def version(self) -> str:
        """Size of the file, and when it was last written to."""
        return version(self._path)

    def _open(self) -> Arrays:
        with decoding(self.where), np.load(self._path, allow_pickle=False) as file:
            if "format" in file.files and "shape" in file.files:
                beside = [self._beside(name) for name in self._names[1:]]
                return Arrays(as_csr(scipy.sparse.load_npz(self._path), self.where), *beside)
            for name in self._names:
                if name is not None and name not in file.files:
                    raise DatasetNotFoundError(
                        f"{self.where} has no array {name!r}; it has {file.files}"
                    )
            return Arrays(*(None if name is None else file[name] for name in self._names))

    def _beside(self, name: Name) -> np.ndarray | None:
        if name is None:
            return None
        (path,) = _companions(name, [self._path], "y")
        return _mapped(path, path)


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
    for argument, found in (("y", targets), ("weights", weighting)):
        if found is not None and len(found) != len(rows):
            raise ShapeError(
                f"{len(rows)} files of rows, from {rows[0]}, but {len(found)} of {argument}; name"
                f" as many with {argument}= (--{argument})"
            )
    none: list[Name] = [None] * len(rows)
    files = zip(rows, targets or none, weighting or none, strict=True)
    return MatrixSource([NpyMatrix(*file) for file in files], {"x": x, "y": y, "weights": weights})


def open_npz(names: list[str], x: Name, y: Name, weights: Name) -> MatrixSource:
    """Return the rows of `.npz` files."""
    stores = [NpzMatrix(name, x, y, weights) for name in names]
    return MatrixSource(stores, {"x": x, "y": y, "weights": weights})


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


def _mapped(path: str, name: str) -> np.ndarray:
    with decoding(name):
        return np.load(path, mmap_mode="r", allow_pickle=False)
