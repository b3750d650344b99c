"""How many digits of a solution are right, and the others by refinement."""

import logging
from collections.abc import Callable

import numpy as np

from streamrf.jit import cholesky
from streamrf.jit.arrays import Array, Floats

SURE_DIGITS = 2  # fewer are told
REFINED_DIGITS = 5  # with fewer, a solution of exact sums is refined
STEPS = 10  # of refinement; each gains as many digits as the factor has

logger = logging.getLogger("streamrf")


def inverse_norm(factor: Array, scale: Floats) -> float:
    """Return an estimate, from below, of the 1-norm of ``D (L L^T)^-1 D`` with D = diag(scale).

    A few solutions by the factor: Hager's method with Higham's last vector, as LAPACK's `dlacon`
    has it (Higham, Accuracy and Stability of Numerical Algorithms, algorithm 15.4).
    """
    n = len(scale)

    def apply(x: Floats) -> Floats:
        column = np.asfortranarray((scale * x)[:, np.newaxis], dtype=factor.dtype)
        cholesky.solve(factor, column)
        return scale * column[:, 0]

    x, norm = np.full(n, 1 / n), 0.0
    for _ in range(5):
        y = apply(x)
        norm = max(norm, float(np.abs(y).sum()))
        z = apply(np.where(y >= 0, 1.0, -1.0))
        j = int(np.abs(z).argmax())
        if abs(z[j]) <= z @ x:
            break
        x = np.zeros(n)
        x[j] = 1.0
    last = (1 + np.arange(n) / max(1, n - 1)) * np.where(np.arange(n) % 2, -1.0, 1.0)
    return max(norm, 2 * float(np.abs(apply(last)).sum()) / (3 * n))


def digits_left(factor: Array, diagonal: Floats, alpha: float) -> float:
    """Return about how many digits of a solution are right, by the norm of the inverse.

    Of the matrix scaled to a diagonal of ones, as Cholesky's errors do not depend on the scale of
    features (Demmel; Higham, theorem 10.6). Rounding errors of n terms grow as ``sqrt(n)``. The
    norm of the inverse is at most ``max diagonal / alpha``: where that leaves enough digits,
    nothing is estimated.

    Parameters
    ----------
    factor : packed Cholesky factor of ``A + alpha I``
    diagonal : (n,) float64, of ``A + alpha I``
    """
    unit = np.sqrt(len(diagonal)) * float(np.finfo(factor.dtype).eps) / 2
    if alpha > 0:
        bound = np.log10(alpha) - np.log10(unit * diagonal.max(initial=alpha))
        if bound >= REFINED_DIGITS:
            return float(bound)
    return float(-np.log10(unit * inverse_norm(factor, np.sqrt(diagonal))))


def warn_of_digits(digits: float, alpha: float, width: int) -> None:
    """Log a warning where fewer than `SURE_DIGITS` digits of the coefficients are right."""
    if digits < SURE_DIGITS:
        logger.warning(
            "alpha=%.3g is so small for these %s features that the coefficients may have %s; use a "
            "larger alpha, or alpha='auto'",
            *(alpha, f"{width:,}", "one correct digit" if digits >= 1 else "no correct digit"),
        )


def refined(
    solution: Array,
    factor: Array,
    residual: Callable[[Array], Array],
    rounding: float = float(np.finfo(np.float64).eps),
) -> tuple[Floats, bool]:
    """Return a solution (n, k) improved by the factor, and whether it has settled.

    ``x += (L L^T)^-1 (m - A x)`` with the residual in more digits, until nothing changes (Higham,
    section 12.1): right to the last digit or so while the condition number is below 1e15. Changes
    fall by about the same share from step to step, so that the next is known beforehand.

    Parameters
    ----------
    residual : ``m - A x`` of x (n, k), both of long doubles
    rounding : share of the solution; a step that would change less is not taken
    """
    x = solution.astype(np.longdouble)
    before = np.inf
    for _ in range(STEPS):
        change = np.asfortranarray(residual(x), dtype=factor.dtype)
        cholesky.solve(factor, change)
        size = float(np.abs(change).max(initial=0.0))
        if not size < before / 2:
            break
        share = size / before if before < np.inf else 1.0
        x, before = x + change, size
        if share * size <= rounding * float(np.abs(x).max(initial=0.0)):
            return x.astype(np.float64), True
    settled = before <= 1e-10 * float(np.abs(x).max(initial=0.0))
    return x.astype(np.float64), settled or before == 0
