"""Tensor sketches: polynomial features by fast Fourier transforms of count sketches."""

import numpy as np
import scipy
from numpy.random import Generator

from streamrf.features.base import PolynomialMap, check_kernel, learn_kernel
from streamrf.features.seeds import random_signs
from streamrf.jit import lanes, sketch
from streamrf.jit.arrays import F32
from streamrf.jit.threads import on_single_blas_threads
from streamrf.kernels import Polynomial
from streamrf.storage import Fields


class TensorSketch(PolynomialMap):
    """``Z(x) = IFFT(prod_j FFT(C_j v))`` with ``v = (sqrt(gamma) x, sqrt(coef0))``.

    ``C_j``, j up to the degree, are independent count sketches: entry i of v is added, with a
    random sign, to one random bucket of n_components.

    Parameters
    ----------
    kernel : Polynomial; None means ``Polynomial()``
    n_components : int, any width; fast where it has small prime factors only
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : the exact kernel
    buckets_ : (degree, n_features + 1) int32
    signs_ : (degree, n_features + 1) float32 of +-1

    Notes
    -----
    Pham and Pagh, Fast and Scalable Polynomial Kernels via Explicit Feature Maps, KDD 2013.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> features = srf.TensorSketch(srf.Polynomial(2, gamma=0.5), 1000, random_state=0)
    >>> Z = features.fit_transform(np.eye(3))
    >>> Z.shape, bool(abs(Z @ Z.T - features.kernel_(np.eye(3))).max() < 0.2)
    ((3, 1000), True)
    """

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        self.kernel_ = learn_kernel(self, Polynomial, sample)
        shape = len(self.kernel_.maclaurin()) - 1, n_features + 1
        self.buckets_ = rng.integers(0, self.n_components, size=shape, dtype=np.int32)
        self.signs_ = random_signs(rng, shape)

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        kernel = check_kernel(fitted, Polynomial)
        shape = int(kernel.degree), n_features + 1
        fitted.array("signs_", np.float32, shape)
        fitted.indices("buckets_", np.int32, shape, self.n_components)

    def map_lanes(self, x: F32, out: F32) -> None:
        """Transform one group of rows at a time, so that bits do not depend on the others."""
        scale, constant = self._roots()

        def group(g: int) -> None:
            entries = np.empty(x.shape[1], dtype=np.int64)
            entries = entries[: sketch.find_entries(x[g], entries)]
            spectrum = None
            for buckets, signs in zip(self.buckets_, self.signs_, strict=True):
                counts = np.empty((self.n_components, lanes.LANES), dtype=np.float32)
                sketch.count_sketch(x[g], entries, buckets, signs, scale, constant, counts)
                factor = scipy.fft.rfft(counts, axis=0, overwrite_x=True)
                spectrum = factor if spectrum is None else np.multiply(spectrum, factor, spectrum)
            z = scipy.fft.irfft(spectrum, self.n_components, axis=0, overwrite_x=True)
            out[g, : self.n_components] = z

        on_single_blas_threads(group, range(len(x)))
