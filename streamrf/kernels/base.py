"""What every kernel is."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamrf.display import Parametrized
from streamrf.errors import ParameterError, ShapeError, check_readable, check_undated

BLOCK_BYTES = 64 << 20  # of kernel values at once
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

    def expansion(
        self, rows: NDArray[Any], coef: NDArray[np.float64]
    ) -> Callable[[ArrayLike], NDArray[np.float64]]:
        """Return the function ``f(x) = sum_i coef_i K(rows_i, x)`` of rows X, see `Expansion`.

        Parameters
        ----------
        rows : (m, n_features)
        coef : (m, n_outputs) float64
        """
        return Expansion(self, rows, coef)

    def diagonal(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return ``K(x, x)`` of each row, float64 (n_rows,)."""
        parts = [np.empty(0)]
        parts += [np.diag(self(X[start : start + 64])) for start in range(0, len(X), 64)]
        return np.concatenate(parts)


class Expansion:
    """``f(x) = sum_i coef_i K(rows_i, x)`` by kernel values, m for each x."""

    def __init__(self, kernel: Kernel, rows: NDArray[Any], coef: NDArray[np.float64]) -> None:
        self._kernel = kernel
        self._rows = rows
        self._coef = coef

    def __call__(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return f of each row, float64 (n_rows, n_outputs)."""
        found = np.asarray(X)
        step = max(1, BLOCK_BYTES // (8 * len(self._rows)))
        parts = [np.empty((0, self._coef.shape[1]))]
        for start in range(0, len(found), step):  # kernels of differences centre their first rows
            parts.append(self._kernel(self._rows, found[start : start + step]).T @ self._coef)
        return np.concatenate(parts)


def rows_of(X: ArrayLike) -> NDArray[np.float64]:
    """Return rows as float64; raise DataError for masks, dates and complex numbers."""
    check_readable(X, "X")
    check_undated(X, "X")
    rows = np.asarray(X)
    if rows.dtype.kind == "c":
        raise ShapeError(f"X has dtype {rows.dtype}; expected numbers (bool, integer or float)")
    return np.asarray(rows, dtype=np.float64)


def is_finite(value: Any) -> bool:
    """Return whether this is one number, neither infinite nor NaN."""
    return isinstance(value, Real) and -np.inf < float(value) < np.inf


def distance_sample(sample: NDArray[Any]) -> NDArray[np.float64]:
    """Return at most `DISTANCE_ROWS` rows, evenly spaced, as float64."""
    return np.asarray(sample[:: -(-len(sample) // DISTANCE_ROWS)], dtype=np.float64)
