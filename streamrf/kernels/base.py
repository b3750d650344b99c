"""What every kernel is."""

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from streamrf.errors import ParameterError

DISTANCE_ROWS = 1000  # half a million distances say enough about their mean


class Kernel(BaseEstimator, ABC):
    """A positive definite function of two rows; settings as in scikit-learn."""

    @abstractmethod
    def __call__(self, X, Y=None) -> np.ndarray:
        """Give the kernel matrix, float64 of shape (n_rows of X, n_rows of Y); Y defaults to X."""

    def learn(self, sample: np.ndarray | None) -> "Kernel":
        """Give this kernel with every setting that is learnt from rows as a number.

        Parameters
        ----------
        sample : (n, n_features), rows as the kernel will see them
        """
        return self

    def check_settings(self) -> None:
        """Refuse settings that are no numbers, or none that the kernel takes.

        Raises
        ------
        ParameterError, TypeError, ValueError, ArithmeticError
        """
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Kernel):
                value.check_settings()
            elif isinstance(value, bool) or (np.ndim(value) == 0 and not is_finite(value)):
                raise ParameterError(f"{name} must be a finite number, got {value!r}")

    def diagonal(self, X) -> np.ndarray:
        """Give ``K(x, x)`` of each row, float64 (n_rows,)."""
        parts = [np.empty(0)]
        parts += [np.diag(self(X[start : start + 64])) for start in range(0, len(X), 64)]
        return np.concatenate(parts)


def is_finite(value: Any) -> bool:
    """Whether this is one number, neither infinite nor NaN."""
    return isinstance(value, Real) and -np.inf < float(value) < np.inf
