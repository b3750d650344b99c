"""Which features to keep, by the sums alone.

Forward selection, known as orthogonal least squares (Chen, Cowan and Grant, IEEE Transactions on
Neural Networks 2(2), 1991), with a penalty: from none, the feature is added that lowers the
penalised training loss of those chosen so far the most. In terms of ``M = A + alpha I`` it is a
Cholesky factorisation that takes its pivots by the targets, so n of E features cost n^2 E
operations. design/0004-pruning.md has the measurements, other criteria included.
"""

from numbers import Integral
from typing import Any

import numpy as np

from streamrf.errors import ParameterError
from streamrf.jit import packed
from streamrf.jit.arrays import Indices
from streamrf.jit.threads import computing
from streamrf.solving.normal import Normal

ROUNDING = 1e-12  # a feature of which the others leave less than this share says nothing new


def check_kept(value: Any, width: int, name: str = "n_components") -> int:
    """Return the number of features to keep of `width`, checked."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not 1 <= value <= width:
        raise ParameterError(f"{name} must be an integer from 1 to {width}, got {value!r}")
    return int(value)


def most_useful(normal: Normal, n_components: int, alpha: float, standardise: bool) -> Indices:
    """Return the columns of the features that lower the loss the most, (n_components,) ascending.

    Parameters
    ----------
    normal : the normal equations
    n_components : features to keep, no more than there are
    alpha : penalty of the loss
    standardise : weigh each output's loss by the inverse of its variance, as values of different
        units need; outputs of classes are all of one unit
    """
    width = len(normal.step)
    gram = normal.centred()
    left = np.empty(width)  # squared norms of what the chosen features leave of each feature
    packed.diagonal(gram, left)
    left += alpha
    floor = ROUNDING * left
    moments = normal.centred_moments()
    if standardise:
        squares = normal.centred_squares()
        moments /= np.sqrt(np.where(squares > 0, squares, 1.0))[:, np.newaxis]
    factor = np.empty((n_components, width))
    column = np.empty(width)
    is_chosen = np.zeros(width, dtype=bool)
    with computing(1):  # so that ties are broken alike on any number of threads
        for k in range(n_components):
            free = ~is_chosen & (left > floor)
            if not free.any():  # the others are combinations of those chosen
                is_chosen[np.flatnonzero(~is_chosen)[: n_components - k]] = True
                break
            gains = np.einsum("oj,oj->j", moments, moments) / np.where(free, left, np.inf)
            j = int(np.where(free, gains, -1.0).argmax())
            is_chosen[j] = True
            packed.column(gram, j, column)
            column[j] += alpha
            factor[k] = (column - factor[:k, j] @ factor[:k]) / np.sqrt(left[j])
            moments -= np.outer(moments[:, j] / np.sqrt(left[j]), factor[k])
            left -= factor[k] ** 2
    return np.flatnonzero(is_chosen)
