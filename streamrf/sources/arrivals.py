"""One block of a stream as arrays, and what all blocks of a stream have in common."""

from typing import Any, NamedTuple

import numpy as np
import scipy

from streamrf.errors import DataError, ShapeError
from streamrf.sources.base import Arrays
from streamrf.sources.derived import names_of, places_of, target_places
from streamrf.sources.sparse import (
    Numbers,
    SparseRows,
    columns_of,
    is_scipy_sparse,
    sparse_or_dense,
    values_of_sparse,
)
from streamrf.sources.validation import (
    as_matrix,
    as_targets,
    check_no_grid,
    check_rank,
    matrix_dtype,
    weight_column,
)

Names = tuple[str, ...] | None  # of columns


class Form(NamedTuple):
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
    ) -> "Form":
        target = None if rows.y is None else (rows.y.dtype.kind == "U", rows.y.shape[1:])
        n_features, is_sparse = rows.X.shape[1], isinstance(rows.X, SparseRows)
        n_values = values_of_sparse(len(rows.X.data), len(rows.X)) if is_sparse else n_features
        has_weights = rows.weights is not None
        target_form = target, has_weights, is_sparse, n_values, row_shape
        return cls(n_features, *target_form, names, target_names)


def as_rows(item: Any, where: str) -> tuple[Arrays, tuple[int, ...], Names, Names]:
    """The arrays of one item, checked and copied, the shape of a row, and names of X and of y."""
    if isinstance(item, list) and _are_arrays(item, where):
        item = tuple(item)
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


def _are_arrays(items: list[Any], where: str) -> bool:
    """Return whether a list is of X and y, as loaders of batches give them, and not of rows.

    DataError for one to three matrices of one shape, which may be either.
    """
    shapes = [tuple(getattr(item, "shape", ())) for item in items]
    if not 1 <= len(items) <= 3 or not all(shapes) or len(shapes[0]) < 2:
        return False
    if len({*shapes}) == 1:
        raise DataError(
            f"{where} is a list of {len(items)} arrays of the shape {shapes[0]}, which may be rows,"
            " or X, y and weights: give X, (X, y) or (X, y, weights), or one array of the rows"
        )
    return True


def by_names(rows: Arrays, names: Names, wanted: Names, where: str) -> Arrays:
    """Return rows with the columns of the first block, where both have names."""
    if names is None or wanted is None or (places := places_of(wanted, names, where)) is None:
        return rows
    return rows._replace(X=columns_of(rows.X, places))


def targets_by_names(rows: Arrays, names: Names, first: Form, where: str) -> Arrays:
    """Return rows with the targets of the first block in its order, where both have names."""
    places = target_places(first.target_names or (), names or (), where)
    return rows if places is None else rows._replace(y=np.ascontiguousarray(rows.y[:, places]))


def like(X: Numbers, is_sparse: bool) -> Numbers:
    """Return rows as sparse or dense as the first ones."""
    if isinstance(X, SparseRows):
        return X if is_sparse else X.dense()
    return SparseRows(scipy.sparse.csr_array(X)) if is_sparse else X


def check_alike(form: Form, first: Form, where: str) -> None:
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
