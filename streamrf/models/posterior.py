"""What a ridge solution does not know: the covariance of its coefficients.

Bayesian linear regression (Bishop, *Pattern Recognition and Machine Learning*, section 3.3) of the
model ``y_i ~ N(b + <w, z_i>, s2 / weight_i)`` with ``w ~ N(0, s2 / alpha I)`` and every b alike,
of which ridge regression is the mean. With A the Gram of the centred features,

- ``cov(w) = s2 (A + alpha I)^-1``;
- the function's value at z has variance ``s2 h`` with ``h = 1 / weight + |L^-1 (z - mean)|^2``,
  where ``L L^T = A + alpha I``; a new target of weight 1 there has ``s2`` more;
- s2 is estimated by ``RSS / (n_rows - dof)``, of the rows of weight above 0; of
  faded rows as many are counted as their weights add up to.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from streamrf.jit import packed
from streamrf.jit.arrays import Floats
from streamrf.storage import Fields

COLUMNS = 512  # of the identity, solved for at a time


@dataclass(frozen=True)
class Posterior:
    """Covariance of the coefficients of a regression.

    Parameters
    ----------
    factor : packed float64 of n_components (n_components + 1) / 2, Cholesky factor of
        ``A + alpha I`` in the features' own units
    inverse_diagonal : (n_components,) float64, diagonal of ``(A + alpha I)^-1``
    mean : (n_components,) float64, means of the features in steps of the calibration
    noise : (n_outputs,) float64, variance of a target of weight 1, in units of the targets
    weight : float, sum of the weights of all rows
    dof : float, effective degrees of freedom, the intercept included
    """

    factor: Floats
    inverse_diagonal: Floats
    mean: Floats
    noise: Floats
    weight: float
    dof: float

    def leverages(self, Z: Floats, step: Floats) -> Floats:
        """Return ``h = 1 / weight + |L^-1 (z - mean)|^2`` of each row, float64 (n,).

        Z (n, n_components) holds features in the steps (n_components,) of the calibration.
        """
        centred = np.asfortranarray(((Z - self.mean) * step).T)
        return 1 / self.weight + _solved_norms(self.factor, centred)

    def deviations(self, Z: Floats, step: Floats) -> Floats:
        """Return the standard deviation of new targets of weight 1, float64 (n, n_outputs)."""
        return np.sqrt(np.outer(1 + self.leverages(Z, step), self.noise))

    def to_tree(self) -> dict:
        """Return the numbers as a tree."""
        return dict(vars(self))

    @classmethod
    def from_tree(cls, tree: dict | Fields, n_components: int, n_outputs: int) -> "Posterior":
        """Rebuild from `to_tree`."""
        fields = Fields.of(tree)
        factor = fields.array("factor", np.float64, (n_components * (n_components + 1) // 2,))
        diagonal = np.empty(n_components)
        packed.diagonal(factor, diagonal)
        if not (diagonal > 0).all():
            raise fields.wrong("factor", "is no Cholesky factor: its diagonal is not positive")
        posterior = cls(
            factor,
            fields.weights("inverse_diagonal", n_components),
            fields.array("mean", np.float64, (n_components,)),
            fields.weights("noise", n_outputs),
            fields.number("weight", above=0.0),
            fields.number("dof"),
        )
        fields.end()
        return posterior


def inverse_diagonal(factor: Floats, width: int) -> Floats:
    """Return the diagonal of the inverse, a few columns at a time.

    It takes 3 factorisations where `dpftri` takes 2 and the memory of another Gram.
    """
    diagonal = np.empty(width)
    for start in range(0, width, COLUMNS):
        columns = np.zeros((width, min(COLUMNS, width - start)), order="F")
        columns[np.arange(columns.shape[1]) + start, np.arange(columns.shape[1])] = 1.0
        diagonal[start : start + COLUMNS] = _solved_norms(factor, columns)
    return diagonal


def _solved_norms(factor: Floats, columns: Floats) -> Floats:
    """Return ``|L^-1 c|^2`` of columns c (n_components, n), which are overwritten."""
    solved = scipy.linalg.lapack.dtfsm(
        1.0, factor, columns,
        transr="N", side="L", uplo="L", trans="N", diag="N", overwrite_b=1,
    )  # fmt: skip
    return np.einsum("jn,jn->n", solved, solved)
