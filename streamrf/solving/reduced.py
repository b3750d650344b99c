"""Normal equations reduced once, after which one more penalty costs next to nothing."""

from dataclasses import dataclass

import numpy as np

from streamrf.jit.arrays import Floats
from streamrf.solving.normal import Normal, check_alpha, check_finite
from streamrf.solving.tridiagonal import Tridiagonal


@dataclass(frozen=True)
class Fit:
    """What one penalty gives on the rows summed: all except the coefficients w.

    Parameters
    ----------
    alpha : float
    dof : float, trace of the hat matrix without the intercept, ``trace((A + alpha I)^-1 A)``
    log_determinant : float, ``log det(A + alpha I)``
    explained : (n_outputs,) float64, ``<w, m>`` with m the centred moments: the penalised loss is
        ``centred squares - explained``
    norms : (n_outputs,) float64, ``|w|^2``
    """

    alpha: float
    dof: float
    log_determinant: float
    explained: Floats
    norms: Floats


class Reduced:
    """Normal equations in a basis in which one more penalty costs next to nothing.

    The reduction costs five to six factorisations and a full matrix of n_components^2 numbers.
    """

    def __init__(self, normal: Normal):
        self._normal = normal
        gram = normal.full()
        check_finite(gram)
        self._form = Tridiagonal(gram)
        self._moments = self._form.to_basis(normal.centred_moments().T)

    def fit(self, alpha: float) -> Fit:
        """Return what is known of a penalty without its coefficients; raise as `ridge` does."""
        check_alpha(alpha)
        shifted = self._form.shifted(alpha)
        coef = shifted.solve(self._moments)
        return Fit(
            float(alpha),
            len(coef) - alpha * shifted.inverse_trace(),
            shifted.log_determinant(),
            np.einsum("jo,jo->o", coef, self._moments),
            np.einsum("jo,jo->o", coef, coef),
        )

    def ridge(self, alpha: float) -> tuple[Floats, Floats]:
        """Return v and b as `Normal.ridge` does, by factors in float64."""
        check_alpha(alpha)
        coef = self._form.shifted(alpha).solve(self._moments)
        return self._normal.unscaled(self._form.from_basis(coef))
