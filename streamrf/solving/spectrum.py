"""What the Gram says by itself: principal components, and how far the labels lie along it."""

import numpy as np
from scipy.linalg import eigh

from streamrf.errors import ParameterError
from streamrf.jit import packed
from streamrf.jit.arrays import Floats
from streamrf.solving.normal import Normal, check_finite


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
