"""NumPy files: `.npy`, mapped into memory, and `.npz`, also SciPy's sparse ones."""

import glob
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import numpy as np
import scipy

from streamrf.errors import (
    DataError,
    DatasetNotFoundError,
    ParameterError,
    ShapeError,
    SourceNotFoundError,
    warn,
)
from streamrf.sources.base import Arrays
from streamrf.sources.paths import absolute, decoding, stand_ins
from streamrf.sources.sparse import as_csr
from streamrf.sources.stored import LazyMatrix, MatrixSource
from streamrf.sources.validation import how_to_name

OBJECTS = ("Python objects in dtype", "Object arrays cannot be loaded")  # what NumPy says of them

Name = str | None
Known = dict[str, tuple[str, ...] | None]  # files, and what wildcards stand for in their names


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
        with _decoding(self.where), np.load(self._path, allow_pickle=False) as file:
            for role, name in zip(("x", "y", "weights"), self._names, strict=True):
                if name is not None and name not in file.files:
                    raise DatasetNotFoundError(
                        f"{self.where} has no array {name!r}; it has {file.files}; "
                        + how_to_name(role)
                    )
            return Arrays(*(None if name is None else file[name] for name in self._names))


def open_npy(
    names: list[str], x: Name, y: Name, weights: Name, pattern: Name = None
) -> MatrixSource:
    """Return the rows of `.npy` files.

    Parameters
    ----------
    names : files; of those of a folder, x is a pattern of the names of the files of rows
    y, weights : file or pattern, as many as there are files of rows, found as named or beside them
    pattern : that names the files, if it is one
    """
    targets = {} if y is None else _companions(y, names, "y")
    weighting = {} if weights is None else _companions(weights, names, "weights")
    others = {absolute(path) for path in (*targets, *weighting)}
    rows = [name for name in names if absolute(name) not in others]
    known: Known = dict.fromkeys(rows)  # also where the pattern means files of targets
    if x is not None:
        called = {
            name: stand_ins(x.removesuffix(".npy") + ".npy", os.path.basename(name))
            for name in rows
        }
        known = {name: words for name, words in called.items() if words is not None}
    elif pattern is not None and len(rows) == len(names):
        known = {name: stand_ins(os.path.expanduser(pattern), name) for name in rows}
    rows = [name for name in rows if name in known]
    if not rows:
        raise SourceNotFoundError(f"none of {names[:5]} is a file of rows; name it with x= (--x)")
    beside = (_paired(rows, known, targets, "y"), _paired(rows, known, weighting, "weights"))
    stores = [NpyMatrix(*files) for files in zip(rows, *beside, strict=True)]
    return MatrixSource(stores, {"x": x, "y": y, "weights": weights})


def open_npz(
    names: list[str], x: Name, y: Name, weights: Name, pattern: Name = None
) -> MatrixSource:
    """Return the rows of `.npz` files of arrays, or of sparse ones with `.npy` files beside."""
    n_sparse = sum(map(_is_sparse, names))
    if n_sparse == len(names):
        return open_npy(names, None, y, weights, pattern)
    if n_sparse:
        raise ParameterError(
            f"of {len(names)} files, from {names[0]}, {n_sparse} are sparse matrices and the others"
            " arrays; read them by two sources"
        )
    stores = [NpzMatrix(name, x, y, weights) for name in names]
    return MatrixSource(stores, {"x": x, "y": y, "weights": weights})


def _paired(rows: list[str], known: Known, found: Known, argument: str) -> list[Name]:
    """Return the companion of each file of rows.

    Those in whose names wildcards stand for the same are pairs. Where not all are named by as many
    wildcards, those are whose names differ from the others' alike, else those at the same place in
    the order of names, with a warning.
    """
    if not found:
        return [None] * len(rows)
    counts = {len(words or ()) for words in (*known.values(), *found.values())}
    if len(counts) == 1 and counts != {0}:
        for files, others, role in ((known, found, argument), (found, known, "X")):
            for name, words in files.items():
                if words not in others.values():
                    raise ShapeError(
                        f"{name} has no partner: in no name of {role}, such as {next(iter(others))}"
                        f", do wildcards stand for {' and '.join(map(repr, words or ()))}; name "
                        f"both alike, or take it out with {argument}= (--{argument})"
                    )
        by_words = {words: name for name, words in found.items()}
        return [by_words[known[name]] for name in rows]
    if len(found) != len(rows):
        raise ShapeError(
            f"{len(rows)} files of rows, from {rows[0]}, but {len(found)} of {argument}; name"
            f" as many with {argument}= (--{argument})"
        )
    ours, theirs = _stems(rows), _stems(found)
    if {*ours.values()} != {*theirs.values()} or len({*ours.values()}) < len(rows):
        ours, theirs = ({n: str(i) for i, n in enumerate(sorted(f))} for f in (rows, found))
        warn(
            f"{min(rows)} to {max(rows)} are paired with {min(found)} to {max(found)} of {argument}"
            " in the order of names, which differ otherwise; name both alike to be sure"
        )
    by_stem = {stem: name for name, stem in theirs.items()}
    return [by_stem[ours[name]] for name in rows]


def _stems(names: Collection[str]) -> dict[str, str]:
    """Return what names have between what all of them begin and what all of them end with."""
    first = _n_alike(names)
    last = _n_alike([name[first:][::-1] for name in names])
    return {name: name[first : len(name) - last] for name in names}


def _n_alike(names: Iterable[str]) -> int:
    """Return the number of characters that all names begin with."""
    return sum(1 for _ in takewhile(lambda column: len({*column}) == 1, zip(*names, strict=False)))


def _companions(wanted: str, names: list[str], argument: str) -> Known:
    """Return the `.npy` files that a name or pattern means, here or in the folder of others."""
    folder = os.path.dirname(names[0])
    for place in ("", folder):
        path = os.path.join(place, os.path.expanduser(wanted))
        for file in (path, path + ".npy"):
            if os.path.isfile(file):
                return {file: ()}
        for pattern in (path + ".npy", path):  # so that a last wildcard stands for no ending
            if found := [file for file in sorted(glob.glob(pattern)) if os.path.isfile(file)]:
                return {file: stand_ins(pattern, file) for file in found}
    raise SourceNotFoundError(
        f"there is no file {wanted!r}, nor {wanted + '.npy'!r}, here or in {folder or '.'!r}; name"
        f" the file with {argument}= (--{argument})"
    )


@contextmanager
def _decoding(where: str) -> Iterator[None]:
    """Raise DataError of Python objects, CorruptFileError of what cannot be read."""
    with decoding(where):
        try:
            yield
        except ValueError as error:
            if not any(words in str(error) for words in OBJECTS):
                raise
            raise DataError(
                f"{where} holds Python objects, which are not read, as reading them could run any "
                "code; save numbers or text (array.astype(str)) with numpy.save"
            ) from error


def _is_sparse(name: str) -> bool:
    with decoding(name), np.load(name, allow_pickle=False) as file:
        return "format" in file.files and "shape" in file.files


def _rows(path: str, name: str) -> Any:
    """Return an array, mapped into memory, or a sparse matrix."""
    with _decoding(name):
        if name.lower().endswith(".npz"):
            return as_csr(scipy.sparse.load_npz(path), name)
        return np.load(path, mmap_mode="r", allow_pickle=False)
