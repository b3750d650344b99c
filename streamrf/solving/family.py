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
from streamrf.solving.normal import Normal, check_alpha

MIN_WIDTH = 8192  # narrower, a factor for each penalty takes as little
WIDTH_OF_OUTPUT = 200  # and with fewer features for each output the space would be as large
MAX_GAIN = 1e-4  # of the loss by one more step, below which a penalty needs no factor
MAX_NEAR_GAIN = 1e-3  # the same with a factor in reach, where a step leaves a fifth of the error
MAX_STEPS = 4
REACH = 10 ** (5 / 6) * (1 + 1e-9)  # a factor serves penalties so much greater or smaller
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
        self._covered: list[tuple[float, float]] = []  # penalties whose solutions the space has

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
        if self._factor is not None and self._least <= alpha:  # so that it factors, too
            if any(low <= alpha <= high for low, high in self._covered):
                return True
            if space.gain(self._factor, alpha) < MAX_GAIN:
                self._covered.append((alpha / REACH, alpha))
                return True
        self._factor = None  # its memory serves the next
        self._factor = self._normal.short_factor(alpha)
        if self._factor is None:
            return False
        self._least = min(self._least, alpha)
        self._covered.append((alpha / REACH, alpha * REACH))
        for near in (alpha, alpha * REACH, alpha / REACH):
            for _ in range(MAX_STEPS):
                if space.gain(self._factor, near) < MAX_NEAR_GAIN:
                    break
        return True


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
        new, triangle, _ = qr(X - V @ (V.T @ X), mode="economic", pivoting=True)
        new = new[:, np.abs(np.diag(triangle)) > INDEPENDENT]
        new = np.linalg.qr(new - V @ (V.T @ new))[0]
        self._V = np.hstack((V, new))
        self._AV = np.hstack((self._AV, self._normal.product(new)))
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
