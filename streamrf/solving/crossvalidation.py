"""Exact K-fold cross-validation of many penalties, from sums kept in folds.

The sums of all rows but a fold are the total less the fold's own, and the squared error on the fold
is a quadratic form in the fold's own sums. So every number here is that of K explicit refits, with
no second pass over the data.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic

import numpy as np

from streamrf.errors import DataError, SolveError
from streamrf.jit.arrays import Floats
from streamrf.jit.threads import computing
from streamrf.solving.normal import Normal
from streamrf.solving.path import Model, as_alphas
from streamrf.solving.reduced import Reduced


@dataclass(frozen=True)
class CrossValidation(Generic[Model]):
    """Mean squared errors on rows left out, of every penalty.

    A penalty that does not factor in float64 without some fold has NaN for its errors there, and
    is never the best.

    Parameters
    ----------
    alphas : (n_alphas,) float64, in the order asked for
    errors : (n_alphas, n_folds, n_outputs) float64, (weighted) mean squared error on the rows of
        each fold of the model of all others; outputs are targets, or bits of the code (+-1)
    weights : (n_folds,) float64, sum of the weights of each fold's rows
    shares : (n_outputs,) float64, see `Path`
    solve : ``solve(alpha)`` gives the model of a penalty, or of one for each output, on all rows
    """

    alphas: Floats
    errors: Floats
    weights: Floats
    shares: Floats
    solve: Callable[..., Model] = field(repr=False, compare=False)

    @property
    def mse(self) -> Floats:
        """Mean squared error over all rows and outputs, each row left out once, (n_alphas,).

        Several targets count relative to their variances, in units of the mean of these.
        """
        return self._by_fold @ (self.weights / self.weights.sum())

    @property
    def _by_fold(self) -> Floats:
        """Return the mean over the outputs, float64 (n_alphas, n_folds)."""
        return (self.errors * self.shares).mean(axis=2)

    @property
    def standard_error(self) -> Floats:
        """Standard error of `mse` by the spread of the folds, float64 (n_alphas,).

        ``sqrt(weighted variance of the folds' errors / (n_folds - 1))``, as in glmnet. Folds share
        training rows, so it is a guide and not a bound.
        """
        apart = self._by_fold - self.mse[:, np.newaxis]
        spread = apart**2 @ (self.weights / self.weights.sum())
        return np.sqrt(spread / (len(self.weights) - 1))

    def best_alpha(self) -> float:
        """Return the penalty of least `mse`."""
        return float(self.alphas[np.nanargmin(self.mse)])

    def best_alphas(self) -> Floats:
        """Return the best penalty of each output by itself, float64 (n_outputs,)."""
        errors = np.einsum("ako,k->ao", self.errors, self.weights / self.weights.sum())
        return self.alphas[np.nanargmin(errors, axis=0)]

    def simplest_alpha(self) -> float:
        """Return the greatest penalty whose `mse` is within one standard error of the least.

        The one-standard-error rule of Breiman et al., *Classification and Regression Trees*, 1984.
        """
        mse = self.mse
        best = np.nanargmin(mse)
        return float(self.alphas[mse <= mse[best] + self.standard_error[best]].max())

    def model(self) -> Model:
        """Return the model of `best_alpha` on all rows; ``solve(alpha)`` returns another."""
        return self.solve(self.best_alpha())


def cross_validate(
    whole: Normal,
    folds: Sequence[Normal],
    alphas: Iterable[float],
    weight_unit: float,
    unit: Floats,
    shares: Floats,
    solve: Callable[..., Model],
) -> CrossValidation[Model]:
    """Leave each fold out in turn.

    Parameters
    ----------
    whole, folds : normal equations of all rows and of each fold, with squares
    weight_unit : what a weight of 1 is worth
    unit : (n_outputs,), what a squared error of 1 is worth
    alphas, shares, solve : see `CrossValidation`

    Raises
    ------
    DataError
        If a fold has no rows, or all of them.
    SolveError
        If no penalty factors without every fold.
    """
    table = as_alphas(alphas)
    weights = np.array([fold.weight for fold in folds])
    if (weights <= 0).any() or (weights >= whole.weight).any():
        raise DataError(
            f"of the {len(folds)} folds, number {int(weights.argmin())} has no rows to predict; "
            "add rows, or keep fewer folds"
        )
    errors = np.full((len(table), len(folds), len(unit)), np.nan)
    for k, fold in enumerate(folds):
        solutions = _solutions(whole - fold, table)
        gram = fold.full()
        for i, (v, b) in solutions.items():
            errors[i, k] = squared_errors(fold, gram, v, b) * unit / fold.weight
    if np.isnan(errors).any(axis=(1, 2)).all():
        raise SolveError(
            f"none of the {len(table)} penalties factors, the greatest is {table.max():.3g}; "
            "give greater ones"
        )
    return CrossValidation(table, errors, weights * weight_unit, shares, solve)


def _solutions(normal: Normal, alphas: Floats) -> dict[int, tuple[Floats, Floats]]:
    """Return v and b by the index of the penalty; one that does not factor is left out."""
    reduced = Reduced(normal)
    found = {}
    with computing(1):  # products of 64 x 64 blocks: threads would only wait for each other
        for i, alpha in enumerate(alphas):
            with contextlib.suppress(SolveError):
                found[i] = reduced.ridge(alpha)
    return found


def squared_errors(fold: Normal, gram: Floats, v: Floats, b: Floats) -> Floats:
    """Return ``sum (r b + <v, q> - t)^2`` over a fold's rows, (n_outputs,).

    Around the fold's own means, so that offsets cost no digits; `gram` is its full centred Gram.
    """
    coef = v / fold.step
    linear = np.einsum("oj,oj->o", coef, fold.centred_moments())
    quadratic = np.einsum("oj,oj->o", coef @ gram, coef)
    offset = fold.totals - b * fold.weight - v @ fold.feature_sums
    squares = fold.centred_squares() - 2 * linear + quadratic
    return np.maximum(squares, 0.0) + offset**2 / fold.weight
