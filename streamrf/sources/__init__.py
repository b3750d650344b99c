"""Sources of rows."""

import os
from collections.abc import Iterator
from typing import Any

from streamrf.errors import ParameterError
from streamrf.sources.arrays import ArraySource
from streamrf.sources.base import Block, Source, Store, check_rows
from streamrf.sources.dask_array import DaskArraySource, is_dask_array
from streamrf.sources.hashing import uniform
from streamrf.sources.hdf5 import HDF5Source
from streamrf.sources.iterator import IteratorSource
from streamrf.sources.labels import as_labels, find_labels, join_labels, narrowed
from streamrf.sources.ledger import Ledger
from streamrf.sources.reader import read_ahead
from streamrf.sources.rows import Rows, as_rows
from streamrf.sources.weighted import (
    ClassWeight,
    ClassWeighted,
    check_class_weight,
    class_factors,
    named_factors,
)

__all__ = [
    "ArraySource",
    "Block",
    "ClassWeight",
    "ClassWeighted",
    "DaskArraySource",
    "HDF5Source",
    "IteratorSource",
    "Ledger",
    "Rows",
    "Source",
    "Store",
    "as_labels",
    "as_rows",
    "as_source",
    "check_class_weight",
    "check_rows",
    "class_factors",
    "find_labels",
    "is_dask_array",
    "join_labels",
    "named_factors",
    "narrowed",
    "read_ahead",
    "uniform",
]


def as_source(X: Any, y: Any = None, weights: Any = None) -> Source:
    """Return `X` itself if it is a source, else the source of the arrays.

    Parameters
    ----------
    X : Source, or array-like or Dask array of shape (n_rows, n_features)
    y : array-like of shape (n_rows,) or (n_rows, n_targets), or None
    weights : array-like of shape (n_rows,), or None

    Raises
    ------
    ParameterError
        Targets or weights with a source, which holds its own; a path; an iterator.
    ShapeError, DataError, EmptySourceError
        See `ArraySource`.
    """
    if isinstance(X, Source):
        if y is not None or weights is not None:
            name = "y" if y is not None else "weights"
            raise ParameterError(
                f"{name} was given with {X.where}; a source gives its own targets and weights,"
                f" so leave {name} out"
            )
        return X
    if isinstance(X, str | bytes | os.PathLike):
        raise ParameterError(f"X is the path {X!r}; use HDF5Source({X!r}, x=..., y=...)")
    if isinstance(X, Iterator) or (callable(X) and not isinstance(X, type)):
        raise ParameterError(f"X is a {type(X).__name__}; use IteratorSource(X)")
    if is_dask_array(X):
        return DaskArraySource(X, y, weights)
    return ArraySource(X, y, weights)
