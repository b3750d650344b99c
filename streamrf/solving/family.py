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

MIN_WIDTH = 4096  # narrower, a factor for each penalty takes as little
WIDTH_OF_OUTPUT = 200  # and with fewer features for each output the space would be as large
MAX_GAIN = 1e-4  # of the loss by one more step, below which more would gain nothing
MAX_LEFT = 2.5e-4  # of the loss, what steps like the last two would still gain
MIN_STEPS = 4  # of a penalty, before it gets a factor
STEP_WIDTH = 1024  # a factor takes as long as a step for each so many features
REACH = 10 ** (5 / 6) * (1 + 1e-9)  # what factors at a penalty does at one smaller by so much
INDEPENDENT = 1e-6  # of a direction, the part outside the space that is worth adding


class Family:
    """The solutions of one set of normal equations for many penalties.

    Of wide equations they are Galerkin's, whose predictions err by a few thousandths of the squared
    error at most: enough to choose a penalty, which `Normal.ridge` then solves for. Others are
    direct.

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
        self._least = np.inf  # penalty that has had a factor
        self._settled: list[float] = []  # penalties whose solutions the space has

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
        if self._factor is not None and alpha >= self._least / REACH:  # so that it factors, too
            below = max((a for a in self._settled if a <= alpha), default=0.0)
            above = min((a for a in self._settled if a >= alpha), default=np.inf)
            if above <= below * REACH or self._settle(self._factor, alpha, space):
                return True
        self._factor = None  # its memory serves the next
        self._factor = self._normal.short_factor(alpha)
        if self._factor is None:
            return False
        self._least = min(self._least, alpha)
        self._settle(self._factor, alpha, space)
        return True

    def _settle(self, factor: Array, alpha: float, space: "_Space") -> bool:
        """Grow the space by steps for a penalty; return whether fewer do than a factor is worth.

        The gain falls by about the same share from step to step.
        """
        before = np.inf
        n_steps = max(MIN_STEPS, len(self._normal.step) // STEP_WIDTH)
        for n_left in reversed(range(n_steps)):
            gain = space.gain(factor, alpha)
            share = gain / before
            if gain < MAX_GAIN or (0 < share < 1 and gain * share < MAX_LEFT * (1 - share)):
                self._settled.append(alpha)
                return True
            if share and gain * share**n_left > MAX_LEFT:
                break
            before = gain
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

    def gain(self, factor: Array, alpha: float) -> float:
        """Grow by a solution's residual; return the gain in loss of the output that gains most.

        The penalised loss at a solution X is ``squares - <X, M>``, and no solution in a larger
        space has a greater one.
        """
        before = self._loss(alpha)
        self._grow(_applied(factor, self._residual(alpha)))
        after = self._loss(alpha)
        known = after > np.finfo(np.float64).eps * self._squares
        return float(((before - after)[known] / after[known]).max(initial=0.0))

    def solution(self, alpha: float) -> Floats:
        """Return X (n, n_outputs)."""
        return self._V @ self._inner(alpha)

    def _inner(self, alpha: float) -> Floats:
        return self._rotation @ (self._parts / (self._values + alpha)[:, np.newaxis])

    def _loss(self, alpha: float) -> Floats:
        explained = (self._parts**2 / (self._values + alpha)[:, np.newaxis]).sum(axis=0)
        return self._squares - explained

    def _residual(self, alpha: float) -> Floats:
        Y = self._inner(alpha)
        return self._moments - self._AV @ Y - alpha * (self._V @ Y)

    def _grow(self, X: Floats) -> None:
        """Add the directions of X (n, k) that the space lacks."""
        V = self._V
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
    """Return ``(L L^T)^-1 R`` with columns of length 1, or 0."""
    size = np.linalg.norm(R, axis=0)
    X = np.asfortranarray(R / np.where(size > 0, size, 1.0), dtype=factor.dtype)
    cholesky.solve(factor, X)
    found = X.astype(np.float64)
    size = np.linalg.norm(found, axis=0)
    return np.nan_to_num(found / np.where(size > 0, size, 1.0))
