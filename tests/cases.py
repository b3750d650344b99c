"""Tables of implementations: the laws run over every row, and a new implementation is a new row."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import h5py
import numpy as np

import streamrf.sources as sources


@dataclass(frozen=True)
class SourceCase:
    """One way to keep rows.

    Parameters
    ----------
    name : for the test's id
    kind : the class
    make : ``make(folder, X, y, weights) -> Source``
    passes : "many", or "one" where a second pass is refused
    stores : number of ledger keys
    """

    name: str
    kind: type[sources.Source]
    make: Callable[..., sources.Source]
    passes: str = "many"
    stores: int = 1


def write_hdf5(path: Path, X, y=None, weights=None, **layout) -> Path:
    """An HDF5 file of datasets "X", "y" and "weights"; `layout` is that of X."""
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, **layout)
        if y is not None:
            text = np.asarray(y).dtype.kind == "U"
            file.create_dataset("y", data=y.tolist() if text else y)
        if weights is not None:
            file.create_dataset("weights", data=weights)
    return path


def _hdf5(folder, X, y=None, weights=None, **layout):
    path = write_hdf5(folder / "rows.h5", X, y, weights, **layout)
    return sources.HDF5Source(path, y=_name("y", y), weights=_name("weights", weights))


def _hdf5_side_by_side(folder, X, y=None, weights=None):
    chunks = (16, *(-(-size // 2) for size in X.shape[1:]))
    return _hdf5(folder, X, y, weights, chunks=chunks, compression="gzip", shuffle=True)


def _hdf5_files(folder, X, y=None, weights=None):
    cuts = [0, len(X) // 5, len(X) // 2, len(X)]
    for number, rows in enumerate(map(slice, cuts, cuts[1:])):
        parts = (None if part is None else part[rows] for part in (X, y, weights))
        layout = {"chunks": (7 + number, *X.shape[1:])}
        write_hdf5(folder / f"part{number}.h5", *parts, **layout)
    pattern = str(folder / "part*.h5")
    return sources.HDF5Source(pattern, y=_name("y", y), weights=_name("weights", weights))


def _array(folder, X, y=None, weights=None):
    return sources.ArraySource(X, y, weights)


def _memmap(folder, X, y=None, weights=None):
    np.save(folder / "X.npy", X)
    return sources.ArraySource(np.load(folder / "X.npy", mmap_mode="r"), y, weights)


def arrivals(X, y=None, weights=None, sizes=(3, 100, 1, 0, 40)) -> Iterator:
    """The rows in pieces of uneven size, as (X, y, weights), (X, y) or bare X."""
    low = 0
    turn = 0
    while low < len(X):
        rows = slice(low, low + sizes[turn % len(sizes)])
        if weights is not None:
            yield X[rows], None if y is None else y[rows], weights[rows]
        elif y is not None:
            yield X[rows], y[rows]
        else:
            yield X[rows]
        low, turn = rows.stop, turn + 1


def _generator(folder, X, y=None, weights=None):
    return sources.IteratorSource(arrivals(X, y, weights))


def _function(folder, X, y=None, weights=None):
    return sources.IteratorSource(partial(arrivals, X, y, weights))


def _list(folder, X, y=None, weights=None):
    return sources.IteratorSource(list(arrivals(X, y, weights)))


def _name(name, values):
    return None if values is None else name


def _chunked(rows):
    """Chunks of `rows` rows as wide as X."""

    def make(folder, X, y=None, weights=None):
        layout = {"chunks": (min(rows, len(X)), *X.shape[1:]), "compression": "gzip"}
        return _hdf5(folder, X, y, weights, **layout)

    return make


SOURCES = [
    SourceCase("hdf5-contiguous", sources.HDF5Source, _hdf5),
    SourceCase("hdf5-chunked", sources.HDF5Source, _chunked(10)),
    SourceCase("hdf5-one-chunk", sources.HDF5Source, _chunked(10**9)),
    SourceCase("hdf5-chunks-side-by-side", sources.HDF5Source, _hdf5_side_by_side),
    SourceCase("hdf5-files", sources.HDF5Source, _hdf5_files, stores=3),
    SourceCase("array", sources.ArraySource, _array),
    SourceCase("array-mapped", sources.ArraySource, _memmap),
    SourceCase("iterator-generator", sources.IteratorSource, _generator, passes="one"),
    SourceCase("iterator-function", sources.IteratorSource, _function),
    SourceCase("iterator-list", sources.IteratorSource, _list),
]
