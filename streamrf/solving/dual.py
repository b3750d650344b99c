"""Kernel ridge regression on few rows, by the same factors as the ridge of sums."""

from collections.abc import Iterable

import numpy as np
from scipy.linalg.lapack import dtrttf

from streamrf.errors import SolveError
from streamrf.jit.arrays import Floats
from streamrf.jit.threads import computing
from streamrf.solving.normal import Normal
from streamrf.solving.path import as_alphas, target_shares
from streamrf.solving.tridiagonal import Tridiagonal

RELATIVE_ALPHAS = 10.0 ** np.linspace(-7, 3, 21)  # to the mean squared norm of a centred row

ROUNDING = 1e-14  # of a row's freedom, times the condition of the system


class Dual:
    """The model ``b + sum_i a_i K(x_i, x)`` of least ``sum w_i (y_i - f(x_i))^2 + alpha |f|^2``.

    The norm is that of the kernel, and the intercept b is not penalised. With S the kernel of
    centred rows, times the roots of their weights, and t the centred targets times them, ``a =
    sqrt(w) c`` of ``(S + alpha I) c = t``: normal equations with S in place of a Gram.

    Parameters
    ----------
    K : (n, n) float64, kernel of the rows
    targets : (n, n_outputs) float64
    weights : (n,) float64, above 0
    """

    def __init__(self, K: Floats, targets: Floats, weights: Floats) -> None:
        self._weight = float(weights.sum())
        self._shares = shares = weights / self._weight
        self._roots = np.sqrt(weights)[:, np.newaxis]
        self._target_means = shares @ targets
        self._kernel_means = shares @ K
        S = K - self._kernel_means - self._kernel_means[:, np.newaxis]
        S += shares @ self._kernel_means
        S *= self._roots
        S *= self._roots.T
        t = self._roots * (targets - self._target_means)
        n, n_outputs = t.shape
        packed = dtrttf(S, transr="N", uplo="L")[0]
        squares = np.square(t).sum(axis=0)
        of_none = np.zeros(n), 1.0, np.ascontiguousarray(t.T), np.zeros(n_outputs)
        self._normal = Normal(packed, *of_none, np.ones(n), squares)

    def solve(self, alpha: float) -> tuple[Floats, Floats]:
        """Return a (n, n_outputs) and b (n_outputs,); raise as `Normal.ridge` does."""
        c = self._normal.ridge(alpha)[0].T
        # The roots are a null vector of S, along which c is rounding over alpha, but not of K.
        mean = self._roots.T @ c / self._weight
        a = self._roots * (c - self._roots * mean)
        return a, self._target_means - self._kernel_means @ a

    def leave_one_out(self, alphas: Iterable[float] | None = None) -> tuple[Floats, Floats]:
        """Return penalties, and the squared error on rows left out one by one, of each.

        The row i of the model of all others errs by ``alpha c_i / (alpha G_ii - w_i / sum w)``,
        where ``G = (S + alpha I)^-1`` and both are in units of the roots of the weights.

        Parameters
        ----------
        alphas : None means 21 of them, over ten decades

        Returns
        -------
        alphas : (n_alphas,) float64
        errors : (n_alphas, n_outputs) float64, means over the rows by weight; infinite for a
            penalty that does not factor, or leaves no freedom

        Raises
        ------
        SolveError
            If this is so of all penalties.
        """
        if alphas is None:
            scale = self._normal.mean_diagonal()
            alphas = (scale if scale > 0 else 1.0) * RELATIVE_ALPHAS
        table = as_alphas(alphas)
        # The roots are a null vector of S, of which the rounding would drown the freedom of rows
        # that weigh much: it gets an eigenvalue of the size of the others' sum, in place of 0.
        own = float(self._normal.diagonal().clip(0.0).sum()) or 1.0
        form = Tridiagonal(self._normal.full() + own / self._weight * self._roots * self._roots.T)
        basis = form.to_basis(np.eye(len(self._roots)))
        t = basis @ self._normal.moments.T
        errors = np.full((len(table), t.shape[1]), np.inf)
        with computing(1):  # products of 64 x 64 blocks: threads would only wait for each other
            for i, alpha in enumerate(table):
                try:
                    shifted = form.shifted(alpha)
                except SolveError:
                    continue
                whole = alpha * shifted.inverse_diagonal(basis)
                free = whole - alpha / (own + alpha) * self._shares
                if (free > ROUNDING * (1 + own / alpha) * whole).all():
                    c = basis.T @ shifted.solve(t)
                    apart = alpha * c / free[:, np.newaxis]
                    errors[i] = np.square(apart).sum(axis=0) / self._weight
        if np.isinf(errors).all():
            raise SolveError(
                f"none of the {len(table)} penalties factors and leaves freedom to {len(t)} rows, "
                f"the greatest is {table.max():.3g}; give greater ones, more rows, or weights that "
                "spread less"
            )
        return table, errors

    def best_alpha(self, is_relative: bool) -> float:
        """Return the penalty of least error on rows left out, mean over the outputs, that factors.

        Parameters
        ----------
        is_relative : whether errors count relative to the variance of each output
        """
        alphas, errors = self.leave_one_out()
        if is_relative:
            errors = errors * target_shares(np.sqrt(self._normal.squares))
        order = np.argsort(errors.mean(axis=1), kind="stable")
        return next((a for a in alphas[order].tolist() if self._factors(a)), float(alphas.max()))

    def _factors(self, alpha: float) -> bool:
        """Return whether `solve` takes a penalty: weights that differ by 1e12 leave few digits."""
        return self._normal.factor(alpha) is not None
