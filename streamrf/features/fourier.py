"""Random Fourier features for shift-invariant kernels: dense, and by Hadamard transforms."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from streamrf.errors import check_flag
from streamrf.features.base import FeatureMap, check_kernel, learn_kernel
from streamrf.features.seeds import Seed, random_signs
from streamrf.jit import cosines, dense, hadamard
from streamrf.jit.arrays import F32
from streamrf.kernels import Gaussian, Kernel, ShiftInvariantKernel, SkewedChi2
from streamrf.storage import Fields

MIN_LENGTH = 256  # of a structured block: its frequencies are normal up to terms in 1/length
Waves = ShiftInvariantKernel | SkewedChi2  # kernels that have frequencies


class FourierMap(FeatureMap):
    """Waves of random frequencies: ``cos(<omega, x>)`` and ``sin``, or ``cos(<omega, x> + b)``.

    Phases are float32, so that they are known to 6e-8 of their own size: scale rows such that
    distances count and offsets do not (``normalize="standard"`` takes offsets away).
    """

    default_kernel: ClassVar[type[Kernel]] = Gaussian
    kind: type[Waves]
    kernel_: Waves

    def __init__(
        self,
        kernel: Waves | None = None,
        n_components: int = 100,
        *,
        paired: bool = True,
        random_state: Seed = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.paired = paired
        self.random_state = random_state

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        check_flag("paired", self.paired)
        self.kernel_ = learn_kernel(self, self.kind, sample)
        self.kernel_.check_settings()
        n_frequencies = self.n_components - self._n_sines
        offsets = rng.uniform(0, 2 * np.pi, size=n_frequencies)
        offsets[: self._n_sines] = 0
        self.offsets_ = offsets.astype(np.float32)
        self._draw_frequencies(n_features, n_frequencies, rng)

    @abstractmethod
    def _draw_frequencies(self, n_features: int, n_frequencies: int, rng: Generator) -> None:
        """Set the fitted arrays that make the frequencies."""

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        check_kernel(fitted, self.kind)
        n_frequencies = self.n_components - self._n_sines
        fitted.array("offsets_", np.float32, (n_frequencies,))
        self._check_frequencies(fitted, n_features, n_frequencies)

    @abstractmethod
    def _check_frequencies(self, fitted: Fields, n_features: int, n_frequencies: int) -> None:
        """Check the fitted arrays that make the frequencies."""

    @property
    def _n_sines(self) -> int:
        return self.n_components // 2 if self.paired else 0

    @property
    def _amplitude(self) -> np.float32:
        return np.float32(np.sqrt(2 / self.n_components))


class RandomFourier(FourierMap):
    """``sqrt(2/D) (cos(<omega, x>), sin(<omega, x>))``, omega from the kernel's spectrum.

    Parameters
    ----------
    kernel : `Gaussian`, `Laplacian` or `Cauchy`; None means ``Gaussian()``
    n_components : int, D
    paired : bool
        True: a cosine and a sine for each frequency, first all cosines, then all sines (for the
        Gaussian less variance at every distance); of an odd D the last frequency has, after the
        cosines, one wave with a random offset. False: D frequencies with such waves alone,
        ``sqrt(2/D) cos(<omega, x> + b)``
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : the kernel, gamma as a number
    frequencies_ : (n_frequencies, n_features) float32
    offsets_ : (n_frequencies,) float32, b; zero for pairs

    Notes
    -----
    Rahimi and Recht, Random Features for Large-Scale Kernel Machines, NIPS 2007; pairs against
    offsets: Sutherland and Schneider, On the Error of Random Fourier Features, UAI 2015.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> features = srf.RandomFourier(srf.Laplacian(0.5), 1000, random_state=0)
    >>> Z = features.fit_transform(np.eye(3))
    >>> Z.shape, bool(abs(Z @ Z.T - features.kernel_(np.eye(3))).max() < 0.2)
    ((3, 1000), True)
    """

    kind: type[Waves] = ShiftInvariantKernel

    @property
    def independent(self) -> bool:
        """Whether components are independent: not if in pairs."""
        return not self.paired

    @property
    def grain(self) -> int:
        return dense.TILE_GROUPS

    def _draw_frequencies(self, n_features: int, n_frequencies: int, rng: Generator) -> None:
        frequencies = self.kernel_.frequencies(rng, (n_frequencies, n_features))
        self.frequencies_ = frequencies.astype(np.float32)

    def _check_frequencies(self, fitted: Fields, n_features: int, n_frequencies: int) -> None:
        fitted.array("frequencies_", np.float32, (n_frequencies, n_features))

    def map_lanes(self, x: F32, out: F32) -> None:
        ones = np.ones_like(self.offsets_)
        dense.project(self.frequencies_, ones, x, 0, False, out)
        cosines.fourier(ones, self.offsets_, self._amplitude, self._n_sines, out)


class StructuredFourier(FourierMap):
    """Fourier features of the Gaussian with ``omega = sqrt(2 gamma p) H D_1 H D_2 H D_3``.

    H is the Walsh-Hadamard matrix of unit-length rows, of length p: the width of the row padded to
    a power of two, at least 256; each D flips signs. Blocks of p frequencies are stacked. Three
    transforms replace p products, and within a block frequencies are orthogonal, which leaves less
    variance than independent ones have.

    The frequencies are normal up to terms in 1/p: the mean of the features' products is within
    ``0.7 / p`` of the kernel, far below their deviation. `Fastfood` has no such bias.

    Parameters
    ----------
    kernel : a `Gaussian`; None means ``Gaussian()``
    n_components, paired, random_state : see `RandomFourier`

    Attributes
    ----------
    kernel_ : the kernel, gamma as a number
    signs_ : (blocks, 3, p) float32 of +-1, of D_3, D_2 and D_1: in the order of their use
    offsets_ : (n_frequencies,) float32, b; zero for pairs

    Notes
    -----
    Yu, Suresh, Choromanski, Holtmann-Rice and Kumar, Orthogonal Random Features, NIPS 2016,
    section 4.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> features = srf.StructuredFourier(srf.Gaussian(0.5), 1000, random_state=0)
    >>> Z = features.fit_transform(np.eye(3))
    >>> Z.shape, bool(abs(Z @ Z.T - features.kernel_(np.eye(3))).max() < 0.2)
    ((3, 1000), True)
    """

    kind = Gaussian
    kernel_: Gaussian

    def _draw_frequencies(self, n_features: int, n_frequencies: int, rng: Generator) -> None:
        self.signs_ = random_signs(rng, self._shape(n_features, n_frequencies))

    def _check_frequencies(self, fitted: Fields, n_features: int, n_frequencies: int) -> None:
        fitted.array("signs_", np.float32, self._shape(n_features, n_frequencies))

    @staticmethod
    def _shape(n_features: int, n_frequencies: int) -> tuple[int, int, int]:
        length = max(hadamard.padded_length(n_features), MIN_LENGTH)
        return -(-n_frequencies // length), 3, length

    def map_lanes(self, x: F32, out: F32) -> None:
        factor = np.sqrt(2 * self.kernel_.checked_gamma) / self.signs_.shape[2]
        scales = np.full_like(self.offsets_, factor)
        cosines.structured_fourier(
            x, self.signs_, scales, self.offsets_, self._amplitude, self._n_sines, out
        )


class Fastfood(FourierMap):
    """Fourier features of the Gaussian with ``omega = sqrt(2 gamma / p) S H G P H B``.

    H is the Walsh-Hadamard matrix (entries +-1) of length p, the width of the row padded to a power
    of two; B flips signs, P permutes, G is normal, S gives each row the length of a normal row.
    Blocks of p frequencies are stacked. Each frequency by itself is normal, so the features are
    unbiased; those of a block depend on each other.

    Parameters
    ----------
    kernel : a `Gaussian`; None means ``Gaussian()``
    n_components, paired, random_state : see `RandomFourier`

    Attributes
    ----------
    kernel_ : the kernel, gamma as a number
    signs_ : (blocks, n_features) float32 of +-1, B
    permutations_ : (blocks, p) int32, P
    normals_ : (blocks, p) float32, G
    scales_ : (n_frequencies,) float32, S with the factors that all frequencies share
    offsets_ : (n_frequencies,) float32, b; zero for pairs

    Notes
    -----
    Le, Sarlos and Smola, Fastfood: Approximating Kernel Expansions in Loglinear Time, ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> features = srf.Fastfood(srf.Gaussian(0.5), 1000, random_state=0)
    >>> Z = features.fit_transform(np.eye(3))
    >>> Z.shape, bool(abs(Z @ Z.T - features.kernel_(np.eye(3))).max() < 0.2)
    ((3, 1000), True)
    """

    kind = Gaussian
    kernel_: Gaussian

    def _draw_frequencies(self, n_features: int, n_frequencies: int, rng: Generator) -> None:
        length = hadamard.padded_length(n_features)
        blocks = -(-n_frequencies // length)
        self.signs_ = random_signs(rng, (blocks, n_features))
        order = np.tile(np.arange(length, dtype=np.int32), (blocks, 1))
        self.permutations_ = rng.permuted(order, axis=1)
        self.normals_ = rng.standard_normal((blocks, length), dtype=np.float32)
        norms = np.repeat(np.linalg.norm(self.normals_, axis=1), length)[:n_frequencies]
        lengths = np.sqrt(rng.chisquare(length, size=n_frequencies))
        factor = np.sqrt(2 * self.kernel_.checked_gamma / length)
        self.scales_ = (factor * lengths / norms).astype(np.float32)

    def _check_frequencies(self, fitted: Fields, n_features: int, n_frequencies: int) -> None:
        length = hadamard.padded_length(n_features)
        blocks = -(-n_frequencies // length)
        fitted.array("signs_", np.float32, (blocks, n_features))
        fitted.indices("permutations_", np.int32, (blocks, length), length)
        fitted.array("normals_", np.float32, (blocks, length))
        fitted.array("scales_", np.float32, (n_frequencies,))

    def map_lanes(self, x: F32, out: F32) -> None:
        cosines.fastfood(
            x,
            self.signs_,
            self.permutations_,
            self.normals_,
            self.scales_,
            self.offsets_,
            self._amplitude,
            self._n_sines,
            out,
        )
