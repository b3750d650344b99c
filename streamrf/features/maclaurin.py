"""Random Maclaurin features for dot-product kernels."""

import numpy as np

from streamrf.errors import ParameterError
from streamrf.features.base import FeatureMap, on_dense_tiles, random_signs
from streamrf.jit import hadamard
from streamrf.kernels import Polynomial


class RandomMaclaurin(FeatureMap):
    """``Z_i(x) = sqrt(a_N / P[N] / D) prod_(j<=N) <w_j, x>``, for kernels ``sum a_n <x,y>^n``.

    Each feature draws its degree N with ``P[N=n]`` proportional to ``p^-(n+1)`` over the degrees
    that the series has, and N random sign vectors ``w_j``.

    Parameters
    ----------
    kernel : a dot-product kernel; None means ``Polynomial()``
    n_components : int, width of the output, exact terms included
    projection : "hadamard" or "rademacher"
        "hadamard" takes rows of sign-flipped Walsh-Hadamard transforms, a factor of a feature never
        from the same transform as another of its factors; "rademacher" independent signs (dense)
    h01 : bool, compute the constant and the linear term of the series exactly (H0/1); they take
        ``(a_0 > 0) + n_features * (a_1 > 0)`` of the components
    p : float above 1, base of the distribution of degrees
    random_state : int, RandomState or None

    Attributes
    ----------
    degrees_ : (n_random,) int64, degree of each random feature, descending
    scales_ : (n_random,) float32, factor of each random feature
    signs_ : float32 of +-1, shape (n_transforms, n_features) or (sum of degrees, n_features)
    picks_ : int32 of shape (sum of degrees,) ("hadamard"), row of its transform for each factor
    constant_, linear_ : factors of the exact terms; 0 where there is none

    Notes
    -----
    Kar and Karnick, Random Feature Maps for Dot Product Kernels, AISTATS 2012, algorithm 1 and
    section 6 (H0/1); structured projections as in Hamid et al., ICML 2014, section 3.4, with sign
    diagonals of their own for every factor, which keeps the product unbiased.
    """

    def __init__(
        self,
        kernel=None,
        n_components=100,
        *,
        projection="hadamard",
        h01=False,
        p=2.0,
        random_state=None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.projection = projection
        self.h01 = h01
        self.p = p
        self.random_state = random_state

    def draw(self, n_features, rng, sample):
        """Draw degrees, signs and picks."""
        if self.projection not in ("hadamard", "rademacher"):
            raise ParameterError(
                f"projection must be 'hadamard' or 'rademacher', got {self.projection!r}"
            )
        if not self.p > 1:
            raise ParameterError(f"p must be above 1, got {self.p!r}")
        kernel = self.kernel_
        series = kernel.maclaurin()
        n_random = self._draw_exact_terms(series, n_features)
        self._draw_degrees(series, n_random, rng)
        count = int(self.degrees_.sum())
        if self.projection == "rademacher":
            self.signs_ = random_signs(rng, (count, n_features))
            self.picks_ = np.empty(0, dtype=np.int32)
            return
        padded = 1 << (n_features - 1).bit_length()
        starts = np.arange(0, np.count_nonzero(self.degrees_), padded)
        self.signs_ = random_signs(rng, (int(self.degrees_[starts].sum()), n_features))
        picks = [np.empty(0, dtype=np.int32)]
        for start in starts:
            degrees = self.degrees_[start : start + padded]
            for level in range(degrees[0]):
                picks.append(rng.permutation(padded)[: np.count_nonzero(degrees > level)])
        self.picks_ = np.concatenate(picks).astype(np.int32)

    @property
    def kernel_(self):
        """The kernel that the map approximates."""
        return Polynomial() if self.kernel is None else self.kernel

    def _draw_exact_terms(self, series, n_features):
        """Set the factors of the exact terms; give the number of components that are left."""
        self.constant_ = float(np.sqrt(series[0])) if self.h01 else 0.0
        self.linear_ = float(np.sqrt(series[1])) if self.h01 and len(series) > 1 else 0.0
        exact = (self.constant_ > 0) + n_features * (self.linear_ > 0)
        higher = self.h01 and not series[2:].any()
        if self.n_components < exact + (not higher) or (higher and self.n_components != exact):
            need = f"exactly {exact}" if higher else f"more than {exact}"
            raise ParameterError(
                f"h01=True keeps {exact} exact terms for rows of {n_features} features, so "
                f"n_components must be {need}, got {self.n_components}; raise n_components, set "
                f"h01=False, or wrap the map: Craft(RandomMaclaurin(..., n_components="
                f"{8 * max(self.n_components, exact)}, h01=True), n_components={self.n_components})"
            )
        return self.n_components - exact

    def _draw_degrees(self, series, n_random, rng):
        """Set degrees (descending) and factors of the random features."""
        allowed = series > 0
        allowed[: 2 if self.h01 else 0] = False
        n = np.flatnonzero(allowed)
        if n_random == 0:
            self.degrees_ = np.empty(0, dtype=np.int64)
            self.scales_ = np.empty(0, dtype=np.float32)
            return
        weights = float(self.p) ** -(n + 1.0 - n[0])
        probabilities = weights / weights.sum()
        drawn = rng.choice(len(n), size=n_random, p=probabilities)
        drawn = np.sort(drawn)[::-1]
        self.degrees_ = n[drawn].astype(np.int64)
        scales = np.sqrt(series[n] / probabilities / n_random)
        self.scales_ = scales[drawn].astype(np.float32)

    def map_lanes(self, x, out):
        """Fill `out`: constant, linear block, random features."""
        first = 0
        if self.constant_ > 0:
            out[:, 0] = self.constant_
            first = 1
        if self.linear_ > 0:
            d = x.shape[1]
            np.multiply(x, np.float32(self.linear_), out=out[:, first : first + d])
            first += d
        varying = np.count_nonzero(self.degrees_)
        out[:, first + varying : self.n_components] = self.scales_[varying:, np.newaxis]
        if self.projection == "hadamard":
            hadamard.maclaurin(
                x, self.signs_, self.degrees_[:varying], self.picks_, self.scales_, first, out
            )
        else:
            self._map_dense(x, first, out)

    def _map_dense(self, x, first, out):
        """Multiply dense projections."""
        levels = [np.count_nonzero(self.degrees_ > j) for j in range(self.degrees_.max(initial=0))]

        def work(groups, project):
            offset = 0
            for level, count in enumerate(levels):
                product = project(self.signs_[offset : offset + count]).transpose(1, 0, 2)
                offset += count
                target = out[groups, first : first + count]
                if level == 0:
                    np.multiply(product, self.scales_[:count, np.newaxis], out=target)
                else:
                    target *= product

        on_dense_tiles(x, work)
