"""Sparse matrices of SciPy in memory."""

from typing import Any

from streamrf.errors import EmptySourceError
from streamrf.sources.base import Arrays, column_fingerprint
from streamrf.sources.sparse import as_csr
from streamrf.sources.stored import LazyMatrix, MatrixSource
from streamrf.sources.validation import as_targets, weight_column


class SparseMatrix(LazyMatrix):
    """A sparse matrix, with arrays of targets and weights or None."""

    def __init__(self, X: Any, y: Any, weights: Any) -> None:
        n = X.shape[0]
        if not n:
            raise EmptySourceError(
                f"X: 0 sample(s) (shape={X.shape}) while a minimum of 1 is required."
            )
        self._given = Arrays(
            as_csr(X, "X"),
            None if y is None else as_targets(y, n, "y"),
            None if weights is None else weight_column(weights, n, "weights"),
        )
        super().__init__("X")

    def _open(self) -> Arrays:
        return self._given


def open_sparse(X: Any, y: Any, weights: Any) -> MatrixSource:
    """Return the rows of a sparse matrix."""
    store = SparseMatrix(X, y, weights)
    _, y, weights = store.read(0, store.n_rows)
    settings = {"y": column_fingerprint(y), "weights": column_fingerprint(weights)}
    return MatrixSource([store], settings)
