"""Tensor sketches of the terms of a dot-product kernel's series, each of a width of its own."""

import numpy as np
import scipy
from numpy.random import Generator

from streamrf.errors import ParameterError
from streamrf.features import degrees
from streamrf.features.base import FeatureMap, check_kernel, learn_kernel
from streamrf.features.seeds import Seed, random_signs
from streamrf.jit import lanes, sketch
from streamrf.jit.arrays import F32, F64, I64
from streamrf.jit.threads import on_single_blas_threads
from streamrf.kernels import MAX_TERMS, DotProductKernel, Kernel
from streamrf.storage import Fields


class TaylorSketch(FeatureMap):
    """``Z(x) = (sqrt(a_0), sqrt(a_1) x, sqrt(a_2) S_2(x), ...)`` for kernels ``sum a_n <x, y>^n``.

    The constant and the linear term are exact. ``S_n = IFFT(prod_(j<=n) FFT(C_nj x))`` is a tensor
    sketch of degree n by count sketches of its own. Degree n has the width that minimises the
    variance of the kernel's estimate, summed over pairs of rows of the sample: the terms that weigh
    most get most, where a sketch of the whole polynomial spends itself on the highest.

    Parameters
    ----------
    kernel : a dot-product kernel; None means ``Polynomial()``
    n_components : int, width of the output, exact terms included: over d + 1, for d columns
    tolerance : float, the tail at which an infinite series is cut, relative to the kernel's
        greatest value on the sample; finite series are never cut
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : the exact kernel
    constant_, linear_ : factors of the exact terms; 0 where there is none
    widths_ : (n_degrees,) int64, width of each degree from 0 on; 0 for those that are exact, or
        missing in the series
    scales_ : (n_degrees,) float32, factor of the sketch of each degree
    buckets_ : (sum of degrees with a width, n_features + 1) int32, degree after degree; the last
        column, of a constant that no sketch here has, is 0
    signs_ : float32 of +-1, of the same shape
    longest_ : greatest ``<x, x>`` that a cut series is right for; only where it is cut

    Notes
    -----
    Pham and Pagh, Fast and Scalable Polynomial Kernels via Explicit Feature Maps, KDD 2013; the
    split of the width as `RandomMaclaurin` with "optimized", by the variance of independent signs,
    which that of a tensor sketch approaches.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> features = srf.TaylorSketch(srf.Exponential(), 1000, random_state=0)
    >>> Z = features.fit_transform(np.eye(3))
    >>> Z.shape, bool(abs(Z @ Z.T - features.kernel_(np.eye(3))).max() < 0.2)
    ((3, 1000), True)
    """

    kernel_: DotProductKernel

    def __init__(
        self,
        kernel: DotProductKernel | None = None,
        n_components: int = 100,
        *,
        tolerance: float = 1e-4,
        random_state: Seed = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.tolerance = tolerance
        self.random_state = random_state

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        kernel = learn_kernel(self, DotProductKernel, sample)
        degrees.check_tolerance(self.tolerance)
        rows = np.ones((1, n_features)) / np.sqrt(n_features) if sample is None else sample
        squares = np.square(rows, dtype=np.float64).sum(axis=1)
        kernel.check_domain(squares)
        self.kernel_ = kernel
        bound = float(squares.max(initial=0.0)) or min(1.0, kernel.radius / 2)
        series = kernel.maclaurin(bound, self.tolerance)
        self.__dict__.pop("longest_", None)
        if (longest := kernel.longest(series, bound, self.tolerance)) < np.inf:
            self.longest_ = longest
        self.constant_ = float(np.sqrt(series[0]))
        self.linear_ = float(np.sqrt(series[1])) if len(series) > 1 else 0.0
        exact = (self.constant_ > 0) + n_features * (self.linear_ > 0)
        self.widths_ = self._split(series, bound, self.n_components - exact, rows)
        self.scales_ = np.sqrt(np.where(self.widths_ > 0, series, 0.0)).astype(np.float32)
        factors = np.repeat(self.widths_, np.arange(len(series)) * (self.widths_ > 0))
        shape = len(factors), n_features + 1
        self.buckets_ = rng.integers(0, np.maximum(factors, 1)[:, np.newaxis], size=shape)
        self.buckets_ = self.buckets_.astype(np.int32)
        self.buckets_[:, -1] = 0
        self.signs_ = random_signs(rng, shape)

    def _split(self, series: F64, bound: float, width: int, rows: F32) -> I64:
        """Return the widths of the degrees, which add up to `width`."""
        higher = np.where(np.arange(len(series)) < 2, 0.0, series)
        n_terms = np.count_nonzero(higher)
        if width < n_terms or (not n_terms and width):
            exact = self.n_components - width
            need = f"at least {exact + n_terms}" if n_terms else f"exactly {exact}"
            raise ParameterError(
                f"TaylorSketch keeps {exact} exact terms, and a feature for each of {n_terms} "
                f"higher degrees, so n_components must be {need}, got {self.n_components}; raise "
                "n_components or the tolerance, or take TensorSketch"
            )
        if not width:
            return np.zeros(len(series), dtype=np.int64)
        variances = degrees.product_variances(rows / np.sqrt(bound), len(series), "real")
        masses = higher * bound ** np.arange(len(series))
        if not (masses * variances).any():  # rows that are all alike
            variances = np.ones(len(series))
        found, _ = degrees.optimized(higher, masses, variances, width)
        return np.bincount(found, minlength=len(series)).astype(np.int64)

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        check_kernel(fitted, DotProductKernel)
        constant = fitted.number("constant_", minimum=0.0)
        linear = fitted.number("linear_", minimum=0.0)
        if "longest_" in fitted.keys:
            fitted.number("longest_", above=0.0)
        widths = fitted.indices("widths_", np.int64, (None,), self.n_components + 1)
        if len(widths) > MAX_TERMS + 1:
            raise fitted.wrong("widths_", f"is of more than {MAX_TERMS + 1} degrees")
        exact = (constant > 0) + n_features * (linear > 0)
        if exact + int(widths.sum()) != self.n_components or widths[:2].any():
            raise fitted.wrong("widths_", f"does not add up to {self.n_components} components")
        fitted.array("scales_", np.float32, widths.shape)
        factors = np.repeat(widths, np.arange(len(widths)) * (widths > 0))
        shape = len(factors), n_features + 1
        fitted.array("signs_", np.float32, shape)
        buckets = fitted.indices("buckets_", np.int32, shape, self.n_components + 1)
        if (buckets >= factors[:, np.newaxis]).any():
            raise fitted.wrong("buckets_", "holds a bucket beyond the width of its degree")

    @property
    def blocks(self) -> I64:
        """Degree of each component."""
        exact = [0] * (self.constant_ > 0) + [1] * (self.n_features_in_ * (self.linear_ > 0))
        higher = np.repeat(np.arange(len(self.widths_)), self.widths_)
        return np.concatenate((np.array(exact, dtype=np.int64), higher))

    def weights_for(self, kernel: Kernel) -> F64:
        """Return ``b_n / a_n`` by degree, as `RandomMaclaurin.weights_for` does."""
        if not isinstance(kernel, DotProductKernel):
            return super().weights_for(kernel)
        return degrees.weights_of(self.kernel_, kernel, int(self.blocks.max()) + 1)

    @property
    def longest(self) -> float:
        return vars(self).get("longest_", np.inf)

    def map_lanes(self, x: F32, out: F32) -> None:
        """Transform one group of rows at a time, so that bits do not depend on the others."""
        if self.kernel_.radius < np.inf:
            self.kernel_.check_domain(self.squares(x))
        first = 0
        if self.constant_ > 0:
            out[:, 0], first = self.constant_, 1
        if self.linear_ > 0:
            d = x.shape[1]
            np.multiply(x, np.float32(self.linear_), out=out[:, first : first + d])
            first += d
        starts = first + np.cumsum(self.widths_) - self.widths_

        def group(g: int) -> None:
            entries = np.empty(x.shape[1], dtype=np.int64)
            entries = entries[: sketch.find_entries(x[g], entries)]
            factor = 0
            for degree in np.flatnonzero(self.widths_).tolist():
                width, start = int(self.widths_[degree]), starts[degree]
                part = slice(factor, factor + degree)
                z = _sketched(x[g], entries, self.buckets_[part], self.signs_[part], width)
                np.multiply(z, self.scales_[degree], out=out[g, start : start + width])
                factor += degree

        on_single_blas_threads(group, range(len(x)))


def _sketched(x: F32, entries: I64, buckets: np.ndarray, signs: F32, width: int) -> F32:
    """Return the tensor sketch of lanes x (d, 16), float32 (width, 16)."""
    spectrum = None
    for bucket, sign in zip(buckets, signs, strict=True):
        counts = np.empty((width, lanes.LANES), dtype=np.float32)
        sketch.count_sketch(x, entries, bucket, sign, np.float32(1), np.float32(0), counts)
        factor = scipy.fft.rfft(counts, axis=0, overwrite_x=True)
        spectrum = factor if spectrum is None else np.multiply(spectrum, factor, spectrum)
    return scipy.fft.irfft(spectrum, width, axis=0, overwrite_x=True)
