"""The arc-cosine kernels of layers of infinitely many units."""

import numpy as np

from streamrf.errors import ParameterError
from streamrf.kernels.dot_product import DotProductKernel, Floats


class ArcCosine(DotProductKernel):
    """``K(x, y) = J_order(theta) / pi``, where theta is the angle between rows of unit length.

    ``J_0 = pi - theta`` and ``J_1 = sin(theta) + (pi - theta) cos(theta)``, with
    ``cos(theta) = <x, y>``: the kernels of infinite layers of steps and of rectifiers. Scale rows
    with ``normalize="l2"``; of shorter rows it is another kernel, of the same series.

    Parameters
    ----------
    order : 0 or 1

    Notes
    -----
    Cho and Saul, Kernel Methods for Deep Learning, NIPS 2009. At ``t = 1`` the tail of the series
    shrinks only as ``1/sqrt(N)`` (order 0) and ``N^(-3/2)`` (order 1), so order 0 needs a tolerance
    of 0.01 on rows of unit length.

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.ArcCosine(order=0)([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])
    array([[1. , 0.5]])
    """

    closed = True

    def __init__(self, order: int = 1) -> None:
        self.order = order

    @property
    def radius(self) -> float:
        """The series converges for ``|t| <= 1``."""
        return 1.0

    def function(self, t: Floats) -> Floats:
        t = np.clip(t, -1.0, 1.0)  # unit rows overshoot by rounding
        if self._checked_order == 0:
            return 1 - np.arccos(t) / np.pi
        return (np.sqrt(1 - t * t) + (np.pi - np.arccos(t)) * t) / np.pi

    def series(self, n_terms: int) -> Floats:
        """Return the coefficients, with ``c_k = binom(2k, k) / 4^k``.

        Order 0: ``1/2``, then ``c_k / ((2k+1) pi)`` at ``n = 2k + 1``. Order 1: ``1/pi``, ``1/2``,
        then ``c_(k-1) / ((2k-1) 2k pi)`` at ``n = 2k``.
        """
        k = np.arange(1.0, n_terms)
        c = np.cumprod(np.append(1.0, (2 * k - 1) / (2 * k)))
        k = np.arange(float(n_terms))
        series = np.zeros(2 * n_terms + 2)
        if self._checked_order == 0:
            series[0] = 1 / 2
            series[1:-1:2] = c / ((2 * k + 1) * np.pi)
        else:
            series[:2] = 1 / np.pi, 1 / 2
            series[2::2] = c / ((2 * k + 1) * (2 * k + 2) * np.pi)
        return series[:n_terms]

    @property
    def _checked_order(self) -> int:
        if not isinstance(self.order, int | np.integer) or self.order not in (0, 1):
            raise ParameterError(f"order must be 0 or 1, got {self.order!r}")
        return self.order
