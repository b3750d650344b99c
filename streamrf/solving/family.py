"""Ridge solutions for many penalties from few factors, by Galerkin's method in one space.

``(A + alpha I) X = M`` is solved in a space of vectors that is the same for every alpha, so that
one more penalty costs next to nothing and every factor serves all of them. The space grows by
``(A + pole I)^-1 R`` with R what a solution leaves of the moments M (a rational Krylov space:
Ruhe, Linear Algebra and its Applications 58, 1984). Products with A are those of the exact sums,
so factors may be float32: twice as fast, half the memory. design/0018-factors.md compares.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from scipy.linalg import qr

from streamrf.jit import cholesky
from streamrf.jit.arrays import Array, Floats
from streamrf.jit.threads import computing
from streamrf.solving.normal import Normal, check_alpha

MIN_WIDTH = 2048  # narrower, a factor for each penalty takes as little
WIDTH_OF_OUTPUT = 200  # and with fewer features for each output the space would be as large
TOLERANCE = 1e-4  # of the loss, what a solution may be above the least
MIN_STEPS = 4  # of a penalty, before it gets a factor
STEP_WIDTH = 1024  # a factor takes as long as a step for each so many features
REACH = 10 ** (5 / 6) * (1 + 1e-9)  # what factors at a penalty does at one smaller by so much
INDEPENDENT = 1e-6  # of a direction, the part outside the space that is worth adding


class Family:
    """The solutions of one set of normal equations for many penalties.

    Of wide equations they are Galerkin's, whose penalised loss is above the least by `TOLERANCE` of
    it at most, as far as a factor in float32 tells: enough to choose a penalty, which
    `Normal.ridge` then solves for. Others are direct.

    Parameters
    ----------
    normal : with squares
    """

    def __init__(self, normal: Normal):
        width, n_outputs = len(normal.step), len(normal.totals)
        self._normal = normal
        self._space: _Space | None = None
        if width >= MIN_WIDTH and width >= WIDTH_OF_OUTPUT * n_outputs:
            self._space = _Space(normal)
        self._factor: Array | None = None
        self._pole = np.inf  # its penalty
        self._least = np.inf  # penalty that has had a factor

    def solutions(self, alphas: Iterable[float]) -> Iterator[tuple[float, Floats, Floats]]:
        """Return (alpha, v, b) for each penalty; one that does not factor is left out.

        Raise as `Normal.ridge` does for what is no penalty.
        """
        space = self._space
        if space is None:
            yield from self._normal.path(alphas)
            return
        for alpha in alphas:
            if self._is_covered(check_alpha(alpha), space):
                yield alpha, *self._normal.unscaled(space.solution(alpha))

    def _is_covered(self, alpha: float, space: "_Space") -> bool:
        """Grow the space until it has the solution; return whether the penalty factors."""
        factor = self._factor if alpha >= self._least / REACH else None  # so that it factors, too
        if factor is not None and self._settle(factor, alpha, space):
            return True
        factor = self._factor = None  # its memory serves the next
        self._factor = self._normal.short_factor(alpha)
        if self._factor is None:
            return False
        self._pole, self._least = alpha, min(self._least, alpha)
        self._settle(self._factor, alpha, space)
        return True

    def _settle(self, factor: Array, alpha: float, space: "_Space") -> bool:
        """Grow the space by steps for a penalty; return whether fewer do than a factor is worth.

        What is left falls by about the same share from step to step.
        """
        before = np.inf
        n_steps = max(MIN_STEPS, len(self._normal.step) // STEP_WIDTH)
        for n_more in reversed(range(n_steps)):
            left, directions = space.improvement(factor, self._pole, alpha)
            if left <= TOLERANCE:
                return True
            share = left / before
            if not n_more or left * share**n_more > TOLERANCE:
                break
            space.grow(directions)
            before = left
        return False


class _Space:
    """Vectors V (n, m) with orthonormal columns, and Galerkin's solutions ``V Y`` in them."""

    def __init__(self, normal: Normal):
        self._normal = normal
        self._moments = normal.centred_moments().T
        self._squares = normal.centred_squares()
        self._V = np.empty((len(normal.step), 0))
        self._AV = self._V
        self._values = np.empty(0)
        self._parts = np.empty((0, self._moments.shape[1]))
        self._rotation = np.empty((0, 0))

    def improvement(self, factor: Array, pole: float, alpha: float) -> tuple[float, Floats]:
        """Return a bound on what is left to gain, as a share of the loss, and where to find it.

        The penalised loss of a solution with residual r is above the least by ``r^T (A + alpha
        I)^-1 r``, which is at most ``r^T (A + pole I)^-1 r`` times ``pole / alpha``, if that is
        above 1. Of the output that has most left. No eigenvalue of ``(A + pole I)^-1`` is above
        ``1 / pole``: where that tells enough the factor is not asked, and there is no more to find.

        Parameters
        ----------
        factor : of ``A + pole I``
        """
        with computing(1):  # as in `grow`
            R = self._residual(alpha)
        least = np.finfo(np.float64).eps * self._squares
        losses = np.maximum(self._loss(alpha), least)
        ratio = 1.0 if pole <= alpha else pole / alpha if alpha else np.inf

        def left(X: Floats) -> float:
            above = ratio * np.einsum("jo,jo->o", R, X)
            shares = np.divide(above, losses, out=np.zeros(len(above)), where=losses > 0)
            return float(shares.max(initial=0.0))

        most = left(R / pole) if pole > 0 else np.inf
        if most <= TOLERANCE:
            return most, R
        X = _applied(factor, R)
        return left(X), X

    def solution(self, alpha: float) -> Floats:
        """Return X (n, n_outputs)."""
        with computing(1):  # as in `grow`
            return self._V @ self._inner(alpha)

    def _inner(self, alpha: float) -> Floats:
        return self._rotation @ (self._parts / (self._values + alpha)[:, np.newaxis])

    def _loss(self, alpha: float) -> Floats:
        explained = (self._parts**2 / (self._values + alpha)[:, np.newaxis]).sum(axis=0)
        return self._squares - explained

    def _residual(self, alpha: float) -> Floats:
        Y = self._inner(alpha)
        return self._moments - self._AV @ Y - alpha * (self._V @ Y)

    def grow(self, X: Floats) -> None:
        """Add the directions of X (n, k) that the space lacks."""
        V, size = self._V, np.linalg.norm(X, axis=0)
        X = np.nan_to_num(X / np.where(size > 0, size, 1.0))
        with computing(1):  # of few columns more threads wait for longer than they work
            new, triangle, _ = qr(X - V @ (V.T @ X), mode="economic", pivoting=True)
            new = new[:, np.abs(np.diag(triangle)) > INDEPENDENT]
            new = np.linalg.qr(new - V @ (V.T @ new))[0]
        products = self._normal.product(new)
        with computing(1):
            self._V = np.hstack((V, new))
            self._AV = np.hstack((self._AV, products))
            inner = self._V.T @ self._AV
            values, self._rotation = np.linalg.eigh((inner + inner.T) / 2)
            self._values = np.maximum(values, 0.0)
            self._parts = self._rotation.T @ (self._V.T @ self._moments)


def _applied(factor: Array, R: Floats) -> Floats:
    """Return ``(L L^T)^-1 R``; columns go through float32 with length 1."""
    size = np.linalg.norm(R, axis=0)
    X = np.asfortranarray(R / np.where(size > 0, size, 1.0), dtype=factor.dtype)
    cholesky.solve(factor, X)
    return X * size
