"""Nystroem features: a row by its kernel values at landmarks, for any kernel."""

import numba
import numpy as np
from numpy.random import Generator
from scipy import linalg

from streamrf.errors import ParameterError, check_choice
from streamrf.features.base import FeatureMap, check_kernel, learn_kernel
from streamrf.features.seeds import Seed
from streamrf.jit import dense
from streamrf.jit.arrays import F32, F64, I64
from streamrf.jit.dense import LANES, TILE_GROUPS
from streamrf.jit.threads import on_single_blas_threads, single_blas_threads
from streamrf.kernels import Gaussian, Kernel, codes_of, name_of
from streamrf.storage import Fields

LANDMARKS = ("kmeans", "uniform", "leverage")
KMEANS_ROUNDS = 20
MIN_PIECE = 512  # rows whose distances to all centres are there at once, as many as centres if more
LEVERAGE_ROWS = 1000  # scored, or twice the landmarks if more: their matrix is decomposed
EIGH_BYTES = 25  # of each entry of a matrix, while it is decomposed or its root taken; measured
# Of each entry of a landmark: single, double, sums; and centred in double for each thread. Measured
LANDMARK_BYTES, CENTRED_BYTES = 20, 10
CUTOFF = 1e-12  # of the greatest eigenvalue; what is below is rounding


class Nystroem(FeatureMap):
    """``Z(x) = K_mm^(-1/2) k_m(x)``: kernel values at m landmarks, whitened.

    ``<Z(x), Z(y)>`` is the kernel, exactly where x or y is a landmark. Landmarks come from the
    sample that the map is fitted to, in a pass the calibration rows; where there are fewer than
    landmarks, rows repeat. Each row takes m kernel values and m^2 multiplications.

    Parameters
    ----------
    kernel : any kernel but those of own code (`FeatureProduct`); None means ``Gaussian()``
    n_components : int, m
    landmarks : "kmeans" (centres of the sample), "uniform" (rows of the sample) or "leverage" (rows
        drawn by their ridge leverage scores, whose penalty is a mean of the eigenvalues past m)
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : the kernel with every setting a number
    landmarks_ : (n_components, n_features) float32
    root_ : (n_components, n_components) float64, ``K_mm^(-1/2)``, the pseudo-inverse of a root

    Notes
    -----
    Williams and Seeger, Using the Nystroem Method to Speed Up Kernel Machines, NIPS 2000; k-means:
    Zhang, Tsang and Kwok, ICML 2008; leverage: Musco and Musco, NIPS 2017.
    """

    default_kernel = Gaussian

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 100,
        *,
        landmarks: str = "kmeans",
        random_state: Seed = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.landmarks = landmarks
        self.random_state = random_state

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        check_choice("landmarks", self.landmarks, LANDMARKS)
        if sample is None:
            raise ParameterError("Nystroem takes landmarks from rows, and none were given")
        if codes := codes_of(self.kernel):
            raise ParameterError(
                f"kernel: {name_of(codes[0])!r} is code of your own, which files of this map could "
                "not take again; use its features, CallableMap(function, n_components) or "
                "TransformerMap(transformer), and Craft of them for fewer"
            )
        self.kernel_ = learn_kernel(self, Kernel, sample)
        self.kernel_.check_settings()
        with single_blas_threads():  # for bits that do not depend on the threads
            self.landmarks_ = self._choose(sample, rng)
            values, vectors = _eigh(self.kernel_(self.landmarks_))
            kept = values > CUTOFF * values[-1]
            scaled = vectors[:, kept] * values[kept] ** -0.25
            self.root_ = scaled @ scaled.T

    def _choose(self, sample: F32, rng: Generator) -> F32:
        m = self.n_components
        if self.landmarks == "leverage":
            sample = sample[:: -(-len(sample) // max(LEVERAGE_ROWS, 2 * m))]
            keys = rng.exponential(size=len(sample)) / _leverage(self.kernel_(sample), m)
            order = np.argsort(keys)
        else:
            order = rng.permutation(len(sample))
        rows = sample[np.resize(order, m)]
        return _centres(sample, rows) if self.landmarks == "kmeans" else rows

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        check_kernel(fitted, Kernel)
        fitted.array("landmarks_", np.float32, (self.n_components, n_features))
        fitted.array("root_", np.float64, (self.n_components, self.n_components))

    def draw_bytes(self, n_rows: int, n_features: int) -> int:
        m = self.n_components
        if not isinstance(m, int | np.integer):
            return 0  # which is refused
        entry_bytes = LANDMARK_BYTES + CENTRED_BYTES * numba.get_num_threads()
        rows = n_features * (8 * n_rows + entry_bytes * m)
        scored = min(n_rows, max(LEVERAGE_ROWS, 2 * m)) if self.landmarks == "leverage" else 0
        return max(EIGH_BYTES * max(m, scored) ** 2, rows)

    @property
    def grain(self) -> int:
        return TILE_GROUPS

    def lane_width(self, n_features: int) -> int:
        return 3 * n_features + 5 * self.n_components  # tiles are float64

    def map_lanes(self, x: F32, out: F32) -> None:
        """Map tiles of rows, several at a time.

        Landmarks stand first: kernels of differences subtract the mean of their first rows.
        """
        values = np.empty((len(x), self.n_components, LANES))

        def tile(start: int) -> None:
            part = x[start : start + TILE_GROUPS]
            rows = part.transpose(0, 2, 1).reshape(-1, x.shape[1])
            found = self.kernel_(self.landmarks_, rows).reshape(self.n_components, -1, LANES)
            values[start : start + TILE_GROUPS] = found.transpose(1, 0, 2)

        on_single_blas_threads(tile, range(0, len(x), TILE_GROUPS))
        dense.project(self.root_, np.ones(self.n_components), values, 0, False, out)


def _eigh(K: F64) -> tuple[F64, F64]:
    """Return eigenvalues, ascending, and vectors of a symmetric matrix, which they take over."""
    values, vectors = linalg.eigh(K.T, overwrite_a=True, check_finite=False, driver="evd")
    return values, vectors


def _leverage(K: F64, n_landmarks: int) -> F64:
    """Return ridge leverage scores ``(K (K + lambda)^-1)_ii``, none of them 0."""
    values, vectors = _eigh(K)
    values = np.maximum(values, 0.0)
    penalty = values[: max(0, len(values) - n_landmarks)].sum() / n_landmarks
    penalty = max(penalty, CUTOFF * values[-1], np.finfo(np.float64).tiny)
    scores: F64 = np.square(vectors) @ (values / (values + penalty))
    return np.maximum(scores, CUTOFF)


def _centres(sample: F32, first: F32) -> F32:
    """Return centres of `sample` by Lloyd's rounds from `first`; one without rows stays."""
    rows, centres = np.asarray(sample, np.float64), np.array(first, np.float64)
    sums = np.empty_like(centres)
    piece = max(len(centres), MIN_PIECE)
    nearest: I64 | None = None
    for _ in range(KMEANS_ROUNDS):
        before, squares = nearest, np.square(centres, out=sums).sum(axis=1)
        nearest = np.empty(len(rows), np.int64)
        for part in (slice(start, start + piece) for start in range(0, len(rows), piece)):
            distances = rows[part] @ centres.T
            distances *= -2
            distances += squares  # squared, but for that of the row
            nearest[part] = np.argmin(distances, axis=1)
        if before is not None and (nearest == before).all():
            break
        counts = np.bincount(nearest, minlength=len(centres))
        sums.fill(0.0)
        np.add.at(sums, nearest, rows)
        sums /= np.maximum(counts, 1)[:, np.newaxis]
        np.copyto(centres, sums, where=counts[:, np.newaxis] > 0)
    return centres.astype(np.float32)
