"""The exact kernels: the specification that every feature map is tested against."""

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import comb
from sklearn.base import BaseEstimator

from streamrf.errors import ParameterError


class Kernel(BaseEstimator, ABC):
    """A positive definite function of two rows; settings as in scikit-learn."""

    @abstractmethod
    def __call__(self, X, Y=None) -> np.ndarray:
        """Give the kernel matrix, float64 of shape (n_rows of X, n_rows of Y); Y defaults to X."""


class DotProductKernel(Kernel):
    """A kernel ``f(<x, y>)`` whose Maclaurin series has no negative coefficient."""

    @abstractmethod
    def maclaurin(self) -> np.ndarray:
        """Give the coefficients ``a_0, a_1, ...`` of ``f(t) = sum_n a_n t^n``, float64."""


class Polynomial(DotProductKernel):
    """``K(x, y) = (gamma <x, y> + coef0)^degree``.

    Parameters
    ----------
    degree : int, at least 1
    gamma : float, positive
    coef0 : float, not negative
    """

    def __init__(self, degree=3, gamma=1.0, coef0=1.0):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def __call__(self, X, Y=None):
        X = np.asarray(X, dtype=np.float64)
        Y = X if Y is None else np.asarray(Y, dtype=np.float64)
        return (self.gamma * (X @ Y.T) + self.coef0) ** self.degree

    def maclaurin(self):
        """Give ``a_n = binom(degree, n) gamma^n coef0^(degree - n)`` for n up to the degree."""
        if int(self.degree) != self.degree or self.degree < 1:
            raise ParameterError(f"degree must be a whole number above 0, got {self.degree!r}")
        if not self.gamma > 0:
            raise ParameterError(f"gamma must be positive, got {self.gamma!r}")
        if not self.coef0 >= 0:
            raise ParameterError(
                f"coef0 must not be negative, got {self.coef0!r}: the series would have negative "
                "coefficients, and the kernel is not positive definite"
            )
        n = np.arange(int(self.degree) + 1)
        powers = float(self.gamma) ** n * float(self.coef0) ** (self.degree - n)
        return comb(self.degree, n) * powers


TABLE = {cls.__name__: cls for cls in (Polynomial,)}
