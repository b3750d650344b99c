"""Sums to coefficients: ridge regression by packed Cholesky factors.

Everything here is in units of the rounded features: for a row with root r, features q and target t,
the model minimises ``sum (r b + <v, q> - t)^2 + alpha sum (v_j / step_j)^2`` over b and v; the
intercept b is not penalised. The coefficient of the feature itself is ``v_j / step_j``.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real

import numpy as np

from streamrf.display import advance
from streamrf.errors import ParameterError, SolveError
from streamrf.jit import cholesky, packed, symmetric
from streamrf.jit.arrays import Array, Floats, Indices, Mask
from streamrf.jit.threads import computing
from streamrf.solving.accuracy import (
    REFINED_DIGITS,
    SURE_DIGITS,
    digits_left,
    refined,
    warn_of_digits,
)
from streamrf.solving.workspace import lent

STILL = 1e-13  # share of a constant target's squares that its rounding may leave about the mean
UNEVEN = 1e6  # a feature that varies so many times as much as the least tenth drowns them
N_ALPHAS = 17  # of `Normal.alpha_grid`
MIN_SHORT = 4096  # features from which a factor in float32 and steps of refinement take less time
# Relative to the mean squared norm of a centred feature. The best on the papers' data lie between
# 1e-7 and 1e-3.
RELATIVE_ALPHAS = np.asarray(10.0 ** np.linspace(-10, 0, 25), dtype=np.float64)


@dataclass(frozen=True)
class Normal:
    """The normal equations.

    Parameters
    ----------
    gram : packed float64 or int32, ``sum q q^T``
    feature_sums : (n_components,) float64, ``sum r q``
    weight : float, ``sum r^2``
    moments : (n_outputs, n_components) float64, ``sum t q``
    totals : (n_outputs,) float64, ``sum r t``
    step : (n_components,) float64, size of one unit of each rounded feature; where rows carry
        weights, times the root of their unit, so that alpha means what it does for plain weights
    squares : (n_outputs,) float64, ``sum t^2``; empty where no residuals are asked for
    is_exact : whether these are sums of integers without error
    """

    gram: Array
    feature_sums: Floats
    weight: float
    moments: Floats
    totals: Floats
    step: Floats
    squares: Floats = field(default_factory=lambda: np.empty(0))
    is_exact: bool = False

    @property
    def factor_dtype(self) -> type:
        """Of a factor: float64, or as short as 32-bit sums, so that it fits in their memory."""
        return np.float32 if self.gram.dtype == np.int32 else np.float64

    def outputs(self, which: Mask | Indices) -> "Normal":
        """Return the equations of some outputs: a mask or indices."""
        return replace(
            self,
            moments=self.moments[which],
            totals=self.totals[which],
            squares=self.squares[which] if len(self.squares) else self.squares,
        )

    def __sub__(self, other: "Normal") -> "Normal":
        """Return the equations of our rows without those of `other`, summed in the same steps."""
        return Normal(
            self.gram - other.gram,
            self.feature_sums - other.feature_sums,
            self.weight - other.weight,
            self.moments - other.moments,
            self.totals - other.totals,
            self.step,
            self.squares - other.squares,
            self.is_exact and other.is_exact,
        )

    def centred(self, out: Array | None = None) -> Array:
        """Return the packed Gram of the centred features in their own units, float64 or in `out`.

        `out` may be the memory of the Gram itself.
        """
        out = np.empty(self.gram.shape) if out is None else out
        packed.centred(self.gram, self.feature_sums, self.weight, self.step, out)
        return out

    def full(self) -> Floats:
        """Return the Gram of the centred features in their own units as a full matrix."""
        n = len(self.step)
        out = np.empty((n, n))
        packed.unpack(self.centred(), out)
        return out

    def scaled(self, scales: Floats) -> "Normal":
        """Return the equations of features multiplied by `scales` (n_components,), above 0."""
        return replace(self, step=self.step * scales)

    def diagonal(self) -> Floats:
        """Return the squared norms of the centred features in their own units."""
        diagonal = np.empty(len(self.step))
        packed.diagonal(self.gram, diagonal)
        return (diagonal - self.feature_sums**2 / self.weight) * self.step**2

    def mean_diagonal(self) -> float:
        """Return the mean squared norm of a centred feature, which a relative alpha refers to."""
        return float(self.diagonal().mean())

    def alpha_grid(self) -> Floats:
        """Return `N_ALPHAS` penalties, over 13 decades, that suit the size of the features."""
        return (self.mean_diagonal() or 1.0) * 10.0 ** (np.arange(N_ALPHAS) * 10 / 12 - 10)

    def ridge(
        self, alpha: float, work: Array | None = None, tells: bool = True
    ) -> tuple[Floats, Floats]:
        """Return v (n_outputs, n_components) and b (n_outputs,) of the model ``b r + <v, q>``.

        Parameters
        ----------
        alpha : penalty on the squared coefficients of the features in their own units
        work : packed, to factor in; None means a new one of `factor_dtype`. May be the memory of
            the Gram itself, which is lost then
        tells : whether to warn of digits that are not right

        Raises
        ------
        SolveError
            If the penalised Gram is not positive definite to the factor's precision.
        """
        if work is None and (found := self._by_short_factor(alpha)) is not None:
            return found
        factor, digits = self._factored(alpha, work)
        v, b = self.solved(factor)
        settled, is_long = False, self.is_exact and factor.dtype == np.float64
        if is_long and digits < REFINED_DIGITS and not np.may_share_memory(factor, self.gram):
            coef, settled = refined((v / self.step).T, factor, partial(self._residual, alpha))
            v, b = self.unscaled(coef)
        if tells and not settled:
            warn_of_digits(digits, alpha, len(self.step))
        return v, b

    def _by_short_factor(self, alpha: float) -> tuple[Floats, Floats] | None:
        """Return what `ridge` does by a factor in float32, where it is worth it and settles.

        Refinement settles only where the factor has a right digit, and one in float64 nine.
        """
        check_alpha(alpha)
        if len(self.step) < MIN_SHORT or self.factor_dtype is np.float32:
            return None
        factor = self._float32_factor(alpha)
        if factor is None:
            return None
        moments, units = self._moments_in_units()

        def residual(coef: Array) -> Array:
            found = coef.astype(np.float64)
            return moments - self.product(found) - alpha * found

        first = np.asfortranarray(moments, dtype=np.float32)
        cholesky.solve(factor, first)
        rounding = np.sqrt(len(self.step)) * np.finfo(np.float64).eps  # of the residual
        coef, settled = refined(first, factor, residual, float(rounding))
        return self.unscaled(coef * units) if settled else None

    def factored(self, alpha: float, work: Array | None = None) -> Array:
        """Return the packed Cholesky factor of the penalised Gram, or raise as `ridge` does."""
        factor, digits = self._factored(alpha, work)
        warn_of_digits(digits, alpha, len(self.step))
        return factor

    def _factored(self, alpha: float, work: Array | None) -> tuple[Array, float]:
        """Return the factor, and how many digits of what it solves are sure."""
        check_alpha(alpha)
        work = self._work() if work is None else work
        diagonal = self.diagonal()
        overwritten = np.may_share_memory(work, self.gram)
        factor = self._factor(alpha, self.centred(work))
        if factor is not None:
            return factor, digits_left(factor, np.maximum(diagonal + alpha, 0.0), alpha)
        singular = f"the Gram of {len(self.step)} features is singular to working precision"
        uneven = _uneven(diagonal)
        if uneven:
            raise SolveError(f"{singular}, and not for alpha={alpha:.3g}: {uneven}")
        advice = "use a larger one"
        if not overwritten:
            advice = f"alpha={self._safe_alpha(alpha):.3g} factors, so use that, a larger one"
        raise SolveError(f"alpha={alpha:.3g} is too small: {singular}; {advice}, or alpha='auto'")

    def _residual(self, alpha: float, coef: Array) -> Array:
        """Return ``m - (A + alpha I) coef`` of coef (n_components, n_outputs), long doubles."""
        step, sums = (
            np.array(s, coef.dtype)[:, np.newaxis] for s in (self.step, self.feature_sums)
        )
        v = step * coef
        found = (self.moments - self.totals[:, np.newaxis] * sums.T / self.weight).T
        found += sums * (sums.T @ v) / self.weight
        column = np.empty(len(step))
        for j, row in enumerate(v):
            packed.column(self.gram, j, column)
            found -= np.multiply.outer(column, row)
        return step * found - alpha * coef

    def factor(self, alpha: float) -> Array | None:
        """Return the packed Cholesky factor of the penalised Gram, or None where there is none."""
        return self._factor(alpha, self.centred(self._work()))

    def short_factor(self, alpha: float) -> Array | None:
        """Return a factor in float32, or in float64 where only that has one, or None."""
        factor = self._float32_factor(alpha)
        if factor is not None or self.factor_dtype is np.float32:
            return factor
        return self.factor(alpha)

    def _float32_factor(self, alpha: float) -> Array | None:
        """Return a factor in float32, or None."""
        factor = self._factor(alpha, self.centred(lent(self.gram.size, np.float32)))
        return factor if factor is not None and np.isfinite(factor.sum()) else None

    def product(self, X: Floats) -> Floats:
        """Return ``A X``, X (n_components, k), with A the centred Gram in the features' units."""
        step, sums = self.step[:, np.newaxis], self.feature_sums[:, np.newaxis]
        V = step * X
        with computing(1):  # so that no thread of BLAS waits for more while other loops need a core
            means = sums.T @ V
        return step * (symmetric.product(self.gram, V) - sums * means / self.weight)

    def path(self, alphas: Iterable[float]) -> Iterator[tuple[float, Floats, Floats]]:
        """Return (alpha, v, b) for each penalty; one that does not factor is left out.

        Those of few features are solved for side by side, each by one thread.
        """
        alphas, work, n = [check_alpha(alpha) for alpha in alphas], self._work(), len(self.step)
        is_few = len(self.totals) < cholesky.FEW_COLUMNS  # the solutions are all there at once
        if is_few and len(alphas) > 1 and cholesky.n_abreast(n, work.itemsize) > 1:
            moments, units = self._moments_in_units()
            found = cholesky.shifted_solutions(self.centred(work), alphas, moments)
            for alpha, solution in zip(alphas, found, strict=True):
                advance(n**3, "solving")
                if solution is not None:
                    yield alpha, *self._in_units(solution, units)
            return
        for alpha in alphas:
            factor = self._factor(alpha, self.centred(work))
            if factor is not None:
                yield alpha, *self.solved(factor)

    def solved(self, factor: Floats) -> tuple[Floats, Floats]:
        """Return v and b by the factor of the penalised Gram."""
        moments, units = self._moments_in_units()
        solution = np.asfortranarray(moments, dtype=factor.dtype)
        cholesky.solve(factor, solution)
        return self._in_units(solution, units)

    def _in_units(self, solution: Array, units: Floats) -> tuple[Floats, Floats]:
        """Return v and b of a solution for `_moments_in_units`."""
        check_finite(solution)
        return self.unscaled(solution.astype(np.float64, copy=False) * units)

    def _moments_in_units(self) -> tuple[Floats, Floats]:
        """Return centred moments (n_components, n_outputs) below 1, and the power of 2 of each.

        So that those of any target are numbers in float32; float64 loses and gains nothing.
        """
        moments = self.centred_moments().T
        exponents = np.frexp(np.abs(moments).max(axis=0, initial=0.0))[1]
        return np.ldexp(moments, -exponents), np.ldexp(1.0, exponents)

    def centred_moments(self) -> Floats:
        """Return the moments of centred features in their own units, (n_outputs, n_components).

        SolveError if they overflow.
        """
        moments = self.moments - np.outer(self.totals / self.weight, self.feature_sums)
        moments *= self.step
        check_finite(moments)
        return moments

    def centred_squares(self) -> Floats:
        """Return the squares of the centred targets, (n_outputs,)."""
        return self.squares - self.totals**2 / self.weight

    def varying(self) -> Mask:
        """Return which targets vary by more than rounding, (n_outputs,)."""
        return self.centred_squares() > STILL * self.squares

    def scatter(self, alpha: float | Floats, v: Floats) -> Floats:
        """Return the squares and products of outputs about their means, (n_outputs, n_outputs).

        ``W^T A W = W^T (M - W alpha)`` for the Gram A of centred features, their moments M and the
        solution W of ``(A + alpha I) W = M``: the Gram itself may be lost.

        Parameters
        ----------
        alpha : of the solution, one for all outputs or one for each
        v : (n_outputs, n_components), as `ridge` returns it
        """
        coef = v / self.step
        found = coef @ (self.centred_moments() - np.reshape(alpha, (-1, 1)) * coef).T
        return (found + found.T) / 2

    def unscaled(self, coef: Floats) -> tuple[Floats, Floats]:
        """Return v and b of coefficients (n_components, n_outputs) of the centred features."""
        v = np.ascontiguousarray(coef.T) * self.step
        with computing(1):  # more threads would sum in another order
            return v, (self.totals - v @ self.feature_sums) / self.weight

    def _work(self) -> Array:
        return np.empty(self.gram.shape, dtype=self.factor_dtype)

    def _factor(self, alpha: float, work: Array) -> Array | None:
        """Return the packed Cholesky factor of ``work + alpha I`` in the same memory, or None."""
        n = len(self.step)
        packed.add_diagonal(work, np.full(n, float(alpha)))
        is_factor = cholesky.factor(work, n)
        advance(n**3, "solving")
        return work if is_factor else None

    def _safe_alpha(self, alpha: float) -> float:
        """Try greater penalties, decade by decade, until one factors and leaves digits."""
        scale = self.mean_diagonal()
        if not scale > 0:  # features that never vary
            return 1.0
        work, diagonal = self._work(), self.diagonal()
        trial = max(float(alpha) * 10, 1e-14 * scale)
        while trial < scale:
            trial = float(f"{trial:.2e}")  # as the message will show it
            factor = self._factor(trial, self.centred(work))
            if factor is not None:
                digits = digits_left(factor, np.maximum(diagonal + trial, 0.0), trial)
                if digits >= SURE_DIGITS:
                    return trial
            trial *= 10
        return scale


def _uneven(diagonal: Floats) -> str:
    """Return which features are so much larger than the others that these are lost, or ""."""
    size = np.sqrt(np.maximum(diagonal, 0.0))
    small = float(np.quantile(size[size > 0], 0.1)) if size.any() else np.inf
    large = np.flatnonzero(size > UNEVEN * small)
    if not len(large):
        return ""
    shown = ", ".join(map(str, large[np.argsort(-size[large], kind="stable")][:5]))
    return (
        f"{len(large)} of them (columns {shown}{', ...' if len(large) > 5 else ''}) vary up to "
        f"{size.max() / small:.1g} times as much as the others, which drown in their rounding; "
        "columns or rows with heavy tails do that: scale them (normalize='asinh' or 'l2') and sum "
        "them again"
    )


def check_finite(found: Floats) -> None:
    """Raise SolveError for what has left the range of floats."""
    if not np.isfinite(found.sum()):
        raise SolveError(
            "the sums overflow in the features' own units; scale the rows (normalize=) and sum "
            "them again"
        )


def check_alpha(alpha: object) -> float:
    """Return a penalty, checked to be a number of at least 0; raise ParameterError for another."""
    if isinstance(alpha, str) and alpha == "auto":
        raise ParameterError(
            "alpha='auto' chooses by rows held out of a pass, which sums do not keep: give a "
            "number, such as statistics.path().best_alpha(), or cross_validate().best_alpha() of "
            "sums in folds"
        )
    if isinstance(alpha, np.ndarray) and not alpha.ndim:
        alpha = alpha.item()
    number = -1.0
    if isinstance(alpha, Real) and not isinstance(alpha, bool):
        with contextlib.suppress(OverflowError):  # of a huge integer
            number = float(alpha)
    if not 0 <= number < np.inf:
        raise ParameterError(f"alpha must be 'auto' or a number of at least 0, got {alpha!r}")
    return number


def check_penalties(alpha: object) -> None:
    """Raise ParameterError for what is not "auto", a penalty, or one for each output."""
    if isinstance(alpha, str) and alpha == "auto":
        return
    alphas = alpha.tolist() if isinstance(alpha, np.ndarray) else alpha
    for one in alphas if isinstance(alphas, list | tuple) and alphas else [alphas]:
        check_alpha(one)
