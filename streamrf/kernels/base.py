"""What every kernel is."""

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamrf.display import Parametrized
from streamrf.errors import ParameterError

DISTANCE_ROWS = 1000  # half a million distances say enough about their mean


class Kernel(Parametrized, ABC):
    """A positive definite function of two rows; settings as in scikit-learn."""

    @abstractmethod
    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the kernel matrix, float64 (n_rows of X, n_rows of Y); None for Y means X."""

    def learn(self, sample: NDArray[Any] | None) -> Self:
        """Return this kernel with every setting as a number, those learnt from rows too.

        Parameters
        ----------
        sample : (n, n_features), rows as the kernel will see them, or None
        """
        return self

    def check_settings(self) -> None:
        """Raise ParameterError, TypeError, ValueError or ArithmeticError if a setting is wrong."""
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Kernel):
                value.check_settings()
            elif isinstance(value, bool) or (np.ndim(value) == 0 and not is_finite(value)):
                raise ParameterError(f"{name} must be a finite number, got {value!r}")

    def diagonal(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return ``K(x, x)`` of each row, float64 (n_rows,)."""
        parts = [np.empty(0)]
        parts += [np.diag(self(X[start : start + 64])) for start in range(0, len(X), 64)]
        return np.concatenate(parts)


def is_finite(value: Any) -> bool:
    """Return whether this is one number, neither infinite nor NaN."""
    return isinstance(value, Real) and -np.inf < float(value) < np.inf


def distance_sample(sample: NDArray[Any]) -> NDArray[np.float64]:
    """Return at most `DISTANCE_ROWS` rows, evenly spaced, as float64."""
    return np.asarray(sample[:: -(-len(sample) // DISTANCE_ROWS)], dtype=np.float64)
