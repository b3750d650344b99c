"""Features of additive kernels: sampled spectra, exact but for the samples."""

import numpy as np
from numpy.random import Generator

from streamrf.errors import ParameterError
from streamrf.features.base import FeatureMap, check_kernel, learn_kernel
from streamrf.features.fourier import RandomFourier, StructuredFourier
from streamrf.features.seeds import Seed
from streamrf.jit import additive
from streamrf.jit.arrays import F32
from streamrf.jit.lanes import LANES
from streamrf.kernels import (
    AdditiveKernel,
    Chi2,
    ExpAdditive,
    ExpChi2,
    Gaussian,
    SkewedChi2,
)
from streamrf.storage import Fields

MAX_STEPS = 1000


class AdditiveSampler(FeatureMap):
    """``sqrt(x L s(0))``, then ``sqrt(2 x L s(kL)) cos(k L log x)`` and ``sin``, of each entry x.

    A deterministic map for the additive kernel of spectrum s: the error falls with `sample_steps`.

    Parameters
    ----------
    kernel : `Intersection`, `Chi2`, `JensenShannon` or `Hellinger`; None means ``Chi2()``
    sample_steps : int, samples of the spectrum; of `Hellinger` it is 1, whatever is given
    sample_interval : float, L; None means the one with the least mean squared error over pairs of
        entries uniform on the unit square

    Attributes
    ----------
    n_components : int, ``(2 sample_steps - 1) n_features``, known once fitted
    kernel_ : the exact kernel
    amplitudes_ : (sample_steps,) float64, ``sqrt(L s(0))``, then ``sqrt(2 L s(kL))``
    sample_interval_ : float

    Raises
    ------
    BadRowError
        If an entry is negative.

    Notes
    -----
    Vedaldi and Zisserman, Efficient Additive Kernels via Explicit Feature Maps, PAMI 2012.
    """

    default_kernel = Chi2
    takes_negative = False
    kernel_: AdditiveKernel

    def __init__(
        self,
        kernel: AdditiveKernel | None = None,
        sample_steps: int = 2,
        sample_interval: float | None = None,
    ) -> None:
        self.kernel = kernel
        self.sample_steps = sample_steps
        self.sample_interval = sample_interval

    @property
    def n_components(self) -> int:  # type: ignore[override] # a setting of other maps
        """Width of the features; AttributeError before the map is fitted."""
        return self.n_components_

    def width_for(self, n_features: int) -> int:
        self.check_width()
        return (2 * len(self._kernel(None).amplitudes(self.sample_steps, 1.0)) - 1) * n_features

    def _kernel(self, sample: F32 | None) -> AdditiveKernel:
        return learn_kernel(self, AdditiveKernel, sample)

    def check_width(self) -> None:
        check_samples(self.sample_steps, self.sample_interval)

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        self.kernel_ = self._kernel(sample)
        interval = self.sample_interval
        if interval is None:
            interval = self.kernel_.best_interval(self.sample_steps)
        self.sample_interval_ = float(interval)
        self.amplitudes_ = self.kernel_.amplitudes(self.sample_steps, self.sample_interval_)
        self.n_components_ = (2 * len(self.amplitudes_) - 1) * n_features

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        check_kernel(fitted, AdditiveKernel)
        fitted.number("sample_interval_", above=0)
        n_steps = len(fitted.array("amplitudes_", np.float64, (None,)))
        width = (2 * n_steps - 1) * n_features
        fitted.integer("n_components_", minimum=max(width, 1), maximum=width)

    def map_lanes(self, x: F32, out: F32) -> None:
        self.kernel_.check_domain(x)
        additive.homogeneous(x, self.amplitudes_, self.sample_interval_, out)


class AdditiveFourier(FeatureMap):
    """Fourier features of an `AdditiveSampler`, for the exponential of an additive distance.

    Parameters
    ----------
    kernel : `ExpChi2`, `ExpJensenShannon` or `ExpHellinger`; None means ``ExpChi2()``
    n_components : int
    sample_steps, sample_interval : of the sampler, see `AdditiveSampler`
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : the exact kernel, gamma as a number
    sampler_ : the fitted `AdditiveSampler`
    fourier_ : the fitted `StructuredFourier` of its features

    Notes
    -----
    Vempati, Vedaldi, Zisserman and Jawahar, Generalized RBF Feature Maps, BMVC 2010.
    """

    default_kernel = ExpChi2
    takes_negative = False
    kernel_: ExpAdditive

    def __init__(
        self,
        kernel: ExpAdditive | None = None,
        n_components: int = 100,
        *,
        sample_steps: int = 2,
        sample_interval: float | None = None,
        random_state: Seed = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.sample_steps = sample_steps
        self.sample_interval = sample_interval
        self.random_state = random_state

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        self.kernel_ = learn_kernel(self, ExpAdditive, sample)
        gamma = self.kernel_.checked_gamma
        additive_kernel = self.kernel_.additive()
        self.sampler_ = AdditiveSampler(additive_kernel, self.sample_steps, self.sample_interval)
        self.sampler_.draw_for(n_features, None)
        seed = int(rng.integers(2**31))
        self.fourier_ = StructuredFourier(Gaussian(gamma), self.n_components, random_state=seed)
        self.fourier_.draw_for(self.sampler_.n_components, None)

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        check_kernel(fitted, ExpAdditive)
        sampler = fitted.kind("sampler_", AdditiveSampler)
        sampler.check_fitted(n_features, fitted, "sampler_")
        fourier = fitted.kind("fourier_", StructuredFourier)
        fourier.check_fitted(sampler.n_components, fitted, "fourier_")
        if fourier.n_components != self.n_components:
            raise fitted.wrong("fourier_", f"has {fourier.n_components} components")

    @property
    def grain(self) -> int:
        return self.fourier_.grain

    def lane_width(self, n_features: int) -> int:
        return n_features + self.fourier_.lane_width(self.sampler_.n_components)

    def map_lanes(self, x: F32, out: F32) -> None:
        z = np.empty((len(x), self.sampler_.n_components, LANES), dtype=np.float32)
        self.sampler_.map_lanes(x, z)
        self.fourier_.map_lanes(z, out)


class SkewedFourier(RandomFourier):
    """Fourier features of ``log(x + c)``, for the skewed chi2 kernel, c its skewedness.

    Parameters
    ----------
    kernel : `SkewedChi2`; None means ``SkewedChi2()``
    n_components, paired, random_state : see `RandomFourier`

    Attributes
    ----------
    kernel_ : the exact kernel
    frequencies_, offsets_ : see `RandomFourier`

    Raises
    ------
    BadRowError
        If an entry is negative.

    Notes
    -----
    Li, Ionescu and Sminchisescu, Random Fourier Approximations for Skewed Multiplicative Histogram
    Kernels, DAGM 2010. scikit-learn has it as SkewedChi2Sampler.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> counts = np.array([[0.0, 3.0], [3.0, 3.0]])
    >>> Z = srf.SkewedFourier(srf.SkewedChi2(1.0), 2000, random_state=0).fit_transform(counts)
    >>> bool(abs(Z[0] @ Z[1] - 0.8) < 0.05)
    True
    """

    default_kernel = SkewedChi2
    kind = SkewedChi2
    takes_negative = False
    kernel_: SkewedChi2

    def map_lanes(self, x: F32, out: F32) -> None:
        self.kernel_.check_domain(x)
        logs = np.empty_like(x)
        additive.shifted_log(x, float(self.kernel_.skewedness), logs)
        super().map_lanes(logs, out)


def check_samples(steps: int, interval: float | None) -> None:
    """Raise ParameterError unless these are settings of an `AdditiveSampler`."""
    if not isinstance(steps, int | np.integer) or not 1 <= steps <= MAX_STEPS:
        raise ParameterError(f"sample_steps must be an integer of 1 to {MAX_STEPS}, got {steps!r}")
    right = interval is None or (isinstance(interval, int | float) and 0 < interval < np.inf)
    if not right:
        raise ParameterError(f"sample_interval must be positive or None, got {interval!r}")
