"""One reduction of a symmetric matrix, after which every shift of it costs next to nothing.

``A = Q T Q^T`` with Q orthogonal and T block tridiagonal. ``A + alpha I`` is then ``Q (T + alpha I)
Q^T`` for every alpha, and a block tridiagonal matrix of order n with blocks of order b is factored,
solved and its inverse's trace taken in n b^2 operations. The reduction is the first stage of the
two-stage eigenvalue algorithms (Bischof, Lang and Sun, ACM TOMS 26(4), 2000): 4/3 n^3 operations,
all in products of matrices. The second stage, and the memory-bound half of LAPACK's one-stage
`dsytrd`, are never needed. design/0003-penalties.md has the measurements.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import eig_banded, lapack, solve_triangular

from streamrf.errors import SolveError
from streamrf.jit.arrays import Floats
from streamrf.jit.threads import Each, computing, single_blas_threads

BLOCK = 64  # order of a block of T: 32, 64 and 128 took 7.0, 5.9 and 5.4 times one factorisation
ROWS = 256  # rows updated at once, of the lower triangle alone; each by one thread


class Tridiagonal:
    """``T = Q^T A Q``, block tridiagonal.

    Parameters
    ----------
    A : (n, n) float64, symmetric, C-contiguous; its memory is kept and holds the reflectors of Q
    """

    def __init__(self, A: Floats):
        self._reflectors = A
        self._factors: list[Floats] = []
        self._diagonal: list[Floats] = []
        self._below: list[Floats] = []
        n = len(A)
        with single_blas_threads() as each:
            for start in range(0, n, BLOCK):
                stop = min(start + BLOCK, n)
                lower = np.tril(A[start:stop, start:stop])
                self._diagonal.append(lower + np.tril(lower, -1).T)
                if stop < n:
                    self._reduce(A, start, stop, each)

    def _reduce(self, A: Floats, start: int, stop: int, each: Each) -> None:
        """Make the block column [start, stop) block tridiagonal; ``I - V F V^T`` does so."""
        panel, rest = A[stop:, start:stop], A[stop:, stop:]
        rank = min(panel.shape)
        packed, factor, _ = lapack.dgeqrt(rank, np.asfortranarray(panel), overwrite_a=1)
        self._below.append(np.triu(packed[:rank]))
        V = np.ascontiguousarray(np.tril(packed[:, :rank], -1))
        V[np.arange(rank), np.arange(rank)] = 1.0
        factor = np.triu(factor[:rank, :rank])
        W = _product(rest, V, each) @ factor
        W -= V @ (0.5 * (factor.T @ (V.T @ W)))
        _subtract(rest, np.hstack((V, W)), np.hstack((W, V)), each)
        panel[:, :rank] = V
        self._factors.append(factor)

    def to_basis(self, M: Floats) -> Floats:
        """Return ``Q^T M``, M (n, k)."""
        M = M.copy()
        with computing(1):  # more threads would sum in another order
            for (V, factor), part in zip(self._rotations(), self._parts(M), strict=True):
                part -= V @ (factor.T @ (V.T @ part))
        return M

    def from_basis(self, M: Floats) -> Floats:
        """Return ``Q M``, M (n, k)."""
        M = M.copy()
        rotations, parts = list(self._rotations()), list(self._parts(M))
        with computing(1):  # as in `to_basis`
            for (V, factor), part in zip(reversed(rotations), reversed(parts), strict=True):
                part -= V @ (factor @ (V.T @ part))
        return M

    def _rotations(self) -> Iterator[tuple[Floats, Floats]]:
        for i, factor in enumerate(self._factors):
            start = i * BLOCK
            yield self._reflectors[start + BLOCK :, start : start + len(factor)], factor

    def _parts(self, M: Floats) -> Iterator[Floats]:
        for i in range(len(self._factors)):
            yield M[(i + 1) * BLOCK :]

    def eigenvalues(self) -> Floats:
        """Return the eigenvalues of A, ascending, (n,): the second stage, 6 n^2 b operations.

        Those that are 0 but for rounding may be below it.
        """
        n = len(self._reflectors)
        band = np.zeros((BLOCK + 1, n))
        for i, diagonal in enumerate(self._diagonal):
            block = np.concatenate((diagonal, *self._below[i : i + 1]))
            for j in range(len(diagonal)):
                column = block[j : j + BLOCK + 1, j]
                band[: len(column), i * BLOCK + j] = column
        with computing(1):
            return eig_banded(band, lower=True, eigvals_only=True, check_finite=False)

    def shifted(self, alpha: float) -> "Shifted":
        """Factor ``T + alpha I = L L^T``; raise SolveError if it is not positive definite."""
        factors: list[Floats] = []
        links: list[Floats] = []
        for i, diagonal in enumerate(self._diagonal):
            block = diagonal + alpha * np.eye(len(diagonal))
            if i:
                links.append(solve_triangular(factors[-1], self._below[i - 1].T, lower=True).T)
                block -= links[-1] @ links[-1].T
            try:
                factors.append(np.asarray(np.linalg.cholesky(block), dtype=np.float64))
            except np.linalg.LinAlgError as error:
                raise SolveError(f"alpha={alpha:.3g} is too small to factor with") from error
        return Shifted(factors, links)


@dataclass(frozen=True)
class Shifted:
    """The Cholesky factor L of a block tridiagonal matrix.

    Parameters
    ----------
    factors : lower triangular diagonal blocks of L
    links : blocks of L below them
    """

    factors: list[Floats]
    links: list[Floats]

    def solve(self, M: Floats) -> Floats:
        """Return ``(L L^T)^-1 M``, M (n, k)."""
        parts = list(self._forward(M))
        for i in reversed(range(len(parts))):
            if i + 1 < len(parts):
                parts[i] -= self.links[i].T @ parts[i + 1]
            parts[i] = solve_triangular(self.factors[i], parts[i], lower=True, trans="T")
        return np.concatenate(parts)

    def _forward(self, M: Floats) -> Iterator[Floats]:
        """Yield ``L^-1 M`` block by block."""
        part = np.empty((0, M.shape[1]))
        for i, factor in enumerate(self.factors):
            right = M[i * BLOCK : (i + 1) * BLOCK]
            right = right - self.links[i - 1] @ part if i else right
            part = solve_triangular(factor, right, lower=True)
            yield part

    def inverse_diagonal(self, M: Floats) -> Floats:
        """Return the diagonal of ``M^T (L L^T)^-1 M``, (k,), M (n, k)."""
        return np.asarray(sum(np.square(part).sum(axis=0) for part in self._forward(M)))

    def log_determinant(self) -> float:
        """Return ``log det(L L^T)``."""
        return 2 * sum(float(np.log(np.diagonal(factor)).sum()) for factor in self.factors)

    def inverse_trace(self) -> float:
        """Return ``trace((L L^T)^-1)``, by its diagonal blocks from the last to the first.

        ``Z_i = L_i^-T (I + C^T Z_{i+1} C) L_i^-1`` with C the link from block i to i + 1 (Takahashi
        et al., 1973, for blocks).
        """
        trace = 0.0
        Z = np.empty((0, 0))
        for i in reversed(range(len(self.factors))):
            inner = np.eye(len(self.factors[i]))
            if i + 1 < len(self.factors):
                inner += self.links[i].T @ (Z @ self.links[i])
            inverse = lapack.dtrtri(self.factors[i], lower=1)[0]
            Z = inverse.T @ (inner @ inverse)
            trace += float(np.trace(Z))
        return trace


def _product(A: Floats, V: Floats, each: Each) -> Floats:
    """Return ``A V`` of a symmetric A of which only the lower triangle, by blocks, is right."""
    out = np.empty_like(V)

    def multiply(block: tuple[int, int]) -> None:
        start, stop = block
        np.matmul(A[start:stop, :stop], V[:stop], out=out[start:stop])
        out[start:stop] += A[stop:, start:stop].T @ V[stop:]

    each(multiply, _blocks(len(A)))
    return out


def _subtract(A: Floats, left: Floats, right: Floats, each: Each) -> None:
    """``A -= left right^T``, in the lower triangle by blocks."""

    def update(block: tuple[int, int]) -> None:
        start, stop = block
        A[start:stop, :stop] -= left[start:stop] @ right[:stop].T

    each(update, reversed(_blocks(len(A))))  # the longest first


def _blocks(n: int) -> list[tuple[int, int]]:
    """Cut rows into blocks counted from the end, the same for every trailing matrix."""
    return list(pairwise([0, *range(n % ROWS or ROWS, n + 1, ROWS)]))
