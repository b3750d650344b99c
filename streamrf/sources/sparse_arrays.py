"""Sparse matrices of SciPy in memory."""

from typing import Any

from streamrf.errors import EmptySourceError
from streamrf.sources.sparse import as_csr
from streamrf.sources.stored import GivenMatrix, MatrixSource


def open_sparse(X: Any, y: Any, weights: Any) -> MatrixSource:
    """Return the rows of a sparse matrix."""
    if not X.shape[0]:
        raise EmptySourceError(
            f"X: 0 sample(s) (shape={X.shape}) while a minimum of 1 is required."
        )
    return GivenMatrix(as_csr(X, "X"), y, weights).source()
