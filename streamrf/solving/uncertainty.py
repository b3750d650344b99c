"""The covariance of a ridge solution, by the residuals that the sums know."""

import numpy as np

from streamrf.errors import DataError
from streamrf.jit.arrays import Floats
from streamrf.models import Posterior, inverse_diagonal
from streamrf.solving.normal import Normal


class NoFreedomError(DataError):
    """Coefficients that leave no degree of freedom to learn the noise from."""


def posterior(
    normal: Normal,
    alpha: float,
    factor: Floats,
    v: Floats,
    *,
    n_rows: float,
    weight: float,
    unit: Floats,
    root_scale: float,
) -> Posterior:
    """Return the covariance of a solution: noise from the residuals, the inverse's diagonal.

    Parameters
    ----------
    normal, alpha : what was solved
    factor, v : packed factor of the penalised Gram, and the solution by it
    n_rows, weight : rows summed of weight above 0, or what is left of faded ones, and their
        weights
    unit : (n_outputs,), what a sum of squares of 1 is worth
    root_scale : the root of a row of mean weight

    Raises
    ------
    NoFreedomError
        If the coefficients leave less than one degree of freedom for the noise.
    """
    width = len(normal.step)
    diagonal = inverse_diagonal(factor, width)
    dof = 1 + width - alpha * float(diagonal.sum())
    free = n_rows - dof
    if not free >= 1:
        raise NoFreedomError(
            f"{width} features take all degrees of freedom of {n_rows:,.0f} rows at "
            f"alpha={alpha:g}, which leaves none to learn the noise from; give a greater alpha or "
            "more rows"
        )
    coef = v / normal.step
    explained = np.einsum("oj,oj->o", coef, normal.centred_moments())
    residuals = normal.centred_squares() - explained - alpha * np.einsum("oj,oj->o", coef, coef)
    noise = np.maximum(residuals, 0.0) * unit / free
    mean = normal.feature_sums * (root_scale / normal.weight)
    return Posterior(factor, diagonal, mean, noise, weight, dof)
