"""The eigenvalues of the Gram: principal components, and solutions from a few of them."""

import numpy as np
from scipy.linalg import eigh

from streamrf.errors import ParameterError, SolveError
from streamrf.jit import packed
from streamrf.jit.arrays import Floats
from streamrf.solving.normal import Normal, check_alpha, check_finite
from streamrf.solving.reduced import Fit

SPARE = 8  # random directions more than the rank


class LowRank:
    """What `Reduced` tells of penalties, of a Gram of few rows, from its few eigenvalues.

    The range of the Gram is that of its products with as many random vectors as it has rows
    (Halko, Martinsson and Tropp, SIAM Review 53(2), 2011), exactly but for rounding.

    Parameters
    ----------
    normal : of at most `n_rows` rows, fewer than features
    n_rows : int
    """

    def __init__(self, normal: Normal, n_rows: int):
        width = len(normal.step)
        vectors = np.random.default_rng(0).normal(size=(width, min(n_rows + SPARE, width)))
        found = normal.product(vectors)
        check_finite(found)
        basis = np.linalg.qr(found)[0]
        inner = basis.T @ normal.product(basis)
        values, rotation = eigh((inner + inner.T) / 2)
        self._width = width
        self._values = np.maximum(values, 0.0)
        self._parts = rotation.T @ (basis.T @ normal.centred_moments().T)

    def fit(self, alpha: float) -> Fit:
        """Return what is known of a penalty; raise SolveError for one lost in the rounding."""
        check_alpha(alpha)
        values = self._values
        if not alpha > np.finfo(np.float64).eps * self._width * values.max():
            raise SolveError(f"alpha={alpha:.3g} is too small for sums of so few rows")
        shrunk = self._parts / (values + alpha)[:, np.newaxis]
        determinant = np.log(values + alpha).sum() + (self._width - len(values)) * np.log(alpha)
        return Fit(
            float(alpha),
            float((values / (values + alpha)).sum()),
            float(determinant),
            (shrunk * self._parts).sum(axis=0),
            np.square(shrunk).sum(axis=0),
        )


def principal(normal: Normal, n_kept: int) -> tuple[Floats, Floats, float]:
    """Return the greatest eigenvalues of the centred Gram, their vectors, and the trace.

    Parameters
    ----------
    normal : of the features, in their own units
    n_kept : eigenvalues, from 1 to the width

    Returns
    -------
    values : (n_kept,) float64, descending, none below 0
    vectors : (n_kept, n_components) float64, the entry of largest size of each above 0
    trace : float
    """
    width = len(normal.step)
    if not isinstance(n_kept, int | np.integer) or not 1 <= n_kept <= width:
        raise ParameterError(f"k must be an integer from 1 to the {width} features, got {n_kept!r}")
    gram = normal.full()
    check_finite(gram)
    trace = float(np.trace(gram))
    values, vectors = eigh(gram, overwrite_a=True, subset_by_index=(width - n_kept, width - 1))
    vectors = np.ascontiguousarray(vectors[:, ::-1].T)
    largest = np.abs(vectors).argmax(axis=1)
    vectors *= np.sign(vectors[np.arange(n_kept), largest])[:, np.newaxis]
    return np.maximum(values[::-1], 0.0), vectors, trace


def frobenius(matrix: Floats, width: int) -> float:
    """Return the Frobenius norm of a packed symmetric matrix.

    That of a centred Gram is also the norm of the centred kernel matrix of the rows.
    """
    diagonal = np.empty(width)
    packed.diagonal(matrix, diagonal)
    return float(np.sqrt(max(2 * np.square(matrix).sum() - np.square(diagonal).sum(), 0.0)))
