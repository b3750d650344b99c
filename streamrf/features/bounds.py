"""The papers' error bounds: widths that are enough for a target error, with a confidence.

All are for the error ``|<Z(x), Z(y)> - K(x, y)|`` and grow as ``1 / error^2``. They hold for the
worst rows, so measured errors are far below them (`scripts/bounds.py` plots both): to choose a
width, look at the error on rows held out.
"""

from math import ceil, exp, inf, log, sqrt

import numpy as np

from streamrf.errors import ParameterError
from streamrf.kernels import DotProductKernel

BASE = sqrt(2) * (2 * exp(-1)) ** 2  # of lemma 3.1 of Hamid et al.


def hoeffding_width(error: float, chance: float, bound: float, n_rows: int = 2) -> int:
    """Return the width for averages of independent products ``|D Z_i(x) Z_i(y)| <= bound``.

    By Hoeffding's inequality, ``2 exp(-D error^2 / (2 bound^2))`` for a pair, and the union of the
    pairs of `n_rows` rows. With bound 2 that is for Fourier features with an offset, and with
    ``C^2`` for C-bounded random features (Daniely, Frostig, Gupta and Singer 2017, theorem 3).

    Parameters
    ----------
    error : greatest error allowed, above 0
    chance : that it is exceeded at some pair, between 0 and 1
    bound : of the products
    n_rows : rows whose pairs are meant, a row with itself too

    Examples
    --------
    >>> hoeffding_width(0.1, 0.05, 2.0, n_rows=1000)
    13450
    """
    _check(error, chance)
    n_pairs = n_rows * (n_rows + 1) / 2
    return _whole(2 * (bound / error) ** 2 * log(2 * n_pairs / chance))


def maclaurin_width(
    kernel: DotProductKernel,
    error: float,
    chance: float,
    radius: float = 1.0,
    *,
    n_features: int | None = None,
    n_rows: int = 2,
    p: float = 2.0,
) -> int:
    """Return the width of a `RandomMaclaurin` with the geometric measure and without exact terms.

    The products of features of rows with ``|x|_1 <= radius`` are at most ``C = p / (p - 1) f(p
    radius^2)`` for the kernel ``f(<x, y>)``.

    Parameters
    ----------
    kernel : of the map
    error, chance : see `hoeffding_width`
    radius : greatest sum of absolute entries of a row
    n_features : columns, for all rows of the ball at once, by the Lipschitz constant of the error:
        ``2 (32 radius L / error)^(2 d) exp(-D error^2 / (8 C^2))`` with ``L = f'(radius^2) + p^2
        radius sqrt(d) f'(p radius^2)``; None: for `n_rows` rows
    n_rows : see `hoeffding_width`
    p : base of the measure

    Raises
    ------
    ParameterError
        If the series does not converge at ``p radius^2``.

    Notes
    -----
    Kar and Karnick 2012, lemma 4 and theorem 8, where C is ``p f(p radius^2)``, the same at p = 2;
    the measure here adds up to 1 for every p.

    Examples
    --------
    >>> import streamrf as srf
    >>> maclaurin_width(srf.Exponential(), 0.5, 0.05)
    8365
    """
    _check(error, chance)
    if not p * radius**2 < kernel.radius:
        raise ParameterError(
            f"{kernel!r} has no value at p radius^2 = {p * radius**2:.4g}, and its bound needs it; "
            "give a smaller radius or p"
        )
    largest = p / (p - 1) * float(kernel.function(np.array(p * radius**2)))
    if n_features is None:
        return hoeffding_width(error, chance, largest, n_rows)
    d, step = n_features, 1e-6
    slopes = [
        float(np.diff(kernel.function(np.array([t * (1 - step), t])))[0]) / (t * step)
        for t in (radius**2, p * radius**2)
    ]
    lipschitz = slopes[0] + p**2 * radius * sqrt(d) * slopes[1]
    grid = max(log(32 * radius * lipschitz / error), 0.0)
    return _whole(8 * (largest / error) ** 2 * (log(2 / chance) + 2 * d * grid))


def fourier_width(
    error: float, chance: float, n_features: int, deviation: float, diameter: float
) -> int:
    """Return the width of Fourier features for all rows of a set at once.

    The chance is ``2^8 (deviation diameter / error)^2 exp(-D error^2 / (4 (d + 2)))``, with D the
    number of frequencies.

    Parameters
    ----------
    error, chance : see `hoeffding_width`
    n_features : columns d
    deviation : root of the mean squared length of a frequency: ``sqrt(2 gamma d)`` of the Gaussian
        ``exp(-gamma |x - y|^2)``
    diameter : greatest distance of two rows

    Notes
    -----
    Rahimi and Recht, Random Features for Large-Scale Kernel Machines, NIPS 2007, claim 1.

    Examples
    --------
    >>> fourier_width(0.1, 0.05, n_features=10, deviation=3.0, diameter=2.0)
    80303
    """
    _check(error, chance)
    grid = 2 * log(deviation * diameter / error) + log(2**8 / chance)
    return _whole(4 * (n_features + 2) / error**2 * grid)


def products_width(degree: int, error: float, chance: float, n_rows: int = 2) -> float:
    """Return the width for ``<x, y>^degree`` by products of Gaussian projections of unit rows.

    It does not depend on the columns: ``c^r exp(-(D error^2 / 11)^(1 / (2 r + 2)) / 2)`` for a
    pair, c = sqrt(2) (2 / e)^2, from ``D >= 3 4^(r + 2) / error^2`` on.

    Parameters
    ----------
    degree : r
    error, chance, n_rows : see `hoeffding_width`

    Returns
    -------
    float, as it soon passes all integers that a width may be

    Notes
    -----
    Hamid, Xiao, Gittens and DeCoste 2014, lemma 3.1.

    Examples
    --------
    >>> f"{products_width(2, 0.5, 0.05):.3g}"
    '5.73e+06'
    """
    _check(error, chance)
    n_pairs = n_rows * (n_rows + 1) / 2
    root = max(2 * log(n_pairs * BASE**degree / chance), 0.0)
    return max(3 * 4.0 ** (degree + 2), 11 * root ** (2 * degree + 2)) / error**2


def _check(error: float, chance: float) -> None:
    if not 0 < error < inf or not 0 < chance < 1:
        raise ParameterError(
            f"error must be above 0 and chance between 0 and 1, got {error!r} and {chance!r}"
        )


def _whole(width: float) -> int:
    return max(1, ceil(width))
