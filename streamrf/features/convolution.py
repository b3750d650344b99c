"""Features of images: those of patches, pooled over cells."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from streamrf.errors import ParameterError
from streamrf.features.base import FeatureMap, check_kernel, clone_with_seed
from streamrf.features.fourier import StructuredFourier
from streamrf.features.seeds import Seed
from streamrf.jit import patches as loops
from streamrf.jit.arrays import F32, I64
from streamrf.jit.lanes import LANES
from streamrf.kernels import Convolved, Gaussian, Lengths, patches_of
from streamrf.storage import Fields

SAMPLE_PATCHES = 20_000  # that the map of patches is fitted to
WIDTH = 4096  # numbers of patches and their features that a row has at once


class Convolution(FeatureMap):
    """``Z_c(x) = mean_(p in c) Z(x_p) / sqrt(n_cells)``: features of patches, averaged by cells.

    Windows of a row, such as an image, are mapped by one map, with equal draws everywhere; the
    features of the windows in a cell are averaged, and those of all cells stand next to each other.
    `kernel_` is a `Convolved` of the kernel of patches, unbiased if the map is.

    Parameters
    ----------
    patches : an unfitted map with `n_components`, which is set to n_components // n_cells; None
        means ``StructuredFourier(Gaussian("median"))``. It is cloned, and without a seed of its own
        takes one from `random_state`; it is fitted to patches of the sample
    n_components : int, at least the number of cells; what does not divide by it is 0
    shape, window, stride, cells : see `Convolved`
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : `Convolved`
    patches_ : the fitted map of patches

    Notes
    -----
    A row costs the map `patches` for each window: of 28 x 28 pixels with windows of 7 and stride 1,
    484 times. Mairal, Koniusz, Harchaoui and Schmid, Convolutional Kernel Networks, NIPS 2014, have
    such kernels; Coates, Lee and Ng, AISTATS 2011, such features of learnt patches, which
    `patches=Nystroem()` is near.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> waves = srf.RandomFourier(srf.Gaussian(1.0))
    >>> images = srf.Convolution(waves, 64, shape=(8, 8), window=3, random_state=0)
    >>> Z = images.fit_transform(np.eye(20, 64))
    >>> Z.shape, images.patches_.n_components
    ((20, 64), 16)
    """

    def __init__(
        self,
        patches: FeatureMap | None = None,
        n_components: int = 100,
        *,
        shape: Sequence[int] | None = None,
        window: Lengths = 7,
        stride: Lengths = 1,
        cells: int = 2,
        random_state: Seed = None,
    ) -> None:
        self.patches = patches
        self.n_components = n_components
        self.shape = shape
        self.window = window
        self.stride = stride
        self.cells = cells
        self.random_state = random_state

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        patches = StructuredFourier(Gaussian("median")) if self.patches is None else self.patches
        if not isinstance(patches, FeatureMap) or "n_components" not in patches.get_params(False):
            raise ParameterError(f"patches must be a map with n_components, got {patches!r}")
        firsts, offsets, cells = patches_of(self, n_features)
        n_cells = int(cells.max()) + 1
        if self.n_components < n_cells:
            raise ParameterError(
                f"n_components must be at least the {n_cells} cells of the windows, got "
                f"{self.n_components}; raise it, or lower cells={self.cells}"
            )
        found = clone_with_seed(patches, rng).set_params(n_components=self.n_components // n_cells)
        windows = None
        if sample is not None:
            rows = rng.integers(0, len(sample), SAMPLE_PATCHES)
            columns = np.add.outer(rng.choice(firsts, SAMPLE_PATCHES), offsets)
            windows = sample[rows[:, np.newaxis], columns]
        found.draw_for(len(offsets), windows)
        self.patches_ = found
        self._set_kernel()

    def _set_kernel(self) -> None:
        settings = {name: getattr(self, name) for name in ("shape", "window", "stride", "cells")}
        self.kernel_ = Convolved(self.patches_.kernel_, **settings)

    @property
    def code(self) -> list[Any]:
        return [] if self._map is None else self._map.code

    def attach(self, code: Iterator[Any]) -> None:
        if self._map is not None:
            self._map.attach(code)
        if self._map is not self.patches:
            self._set_kernel()

    @property
    def _map(self) -> FeatureMap | None:
        """The map of patches, fitted if this one is."""
        return vars(self).get("patches_", self.patches)

    def check_values(self, z: F32, n_rows: int) -> None:
        for first in range(0, self.n_components, self.patches_.n_components):
            self.patches_.check_values(z[:, first : self.n_components], n_rows)

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        check_kernel(fitted, Convolved)
        _, offsets, cells = patches_of(self, n_features)
        found = fitted.kind("patches_", FeatureMap)
        found.check_fitted(len(offsets), fitted, "patches_")
        if found.n_components * (int(cells.max()) + 1) > self.n_components:
            raise fitted.wrong("patches_", f"has {found.n_components} components, too many")

    def _n_windows(self, n_sites: int) -> int:
        """Return how many windows of a row are mapped at once."""
        return max(1, WIDTH // (n_sites + self.patches_.lane_width(n_sites)))

    def lane_width(self, n_features: int) -> int:
        n_sites = len(patches_of(self, n_features)[1])
        more = n_sites + self.patches_.lane_width(n_sites)
        return n_features + self.n_components + self._n_windows(n_sites) * more

    def map_lanes(self, x: F32, out: F32) -> None:
        firsts, offsets, cells = patches_of(self, x.shape[1])
        n_sites, width = len(offsets), self.patches_.n_components
        sizes: I64 = np.bincount(cells)
        scales = (1 / (sizes * np.sqrt(len(sizes)))).astype(np.float32)
        out[:, : self.n_components] = 0.0
        step = self._n_windows(n_sites)
        for start in range(0, len(firsts), step):
            part = firsts[start : start + step]
            rows = np.empty((len(x) * len(part), n_sites, LANES), dtype=np.float32)
            loops.gather(x, part, offsets, rows)
            z = np.empty((len(rows), width, LANES), dtype=np.float32)
            self.patches_.map_lanes(rows, z)
            loops.add_windows(z, cells[start : start + step], scales, out)
