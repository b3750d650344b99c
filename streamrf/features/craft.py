"""Compact random feature maps: up by any map, down by a randomised Hadamard transform."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from streamrf.errors import ParameterError, check_kind
from streamrf.features.base import FeatureMap, check_kernel, clone_with_seed
from streamrf.features.seeds import Seed, random_signs
from streamrf.jit import hadamard
from streamrf.jit.arrays import F32, F64
from streamrf.jit.lanes import LANES
from streamrf.kernels import Kernel
from streamrf.storage import Fields


class Craft(FeatureMap):
    """``G(x) = S H D Z(x) / sqrt(E)``: the map `up` to D components, compacted to E < D.

    D flips signs, H is the Walsh-Hadamard matrix (entries +-1) of the width of Z padded to a power
    of two, S picks E of its rows without replacement.

    Parameters
    ----------
    up : an unfitted feature map; it is cloned, and without a seed of its own takes one from
        `random_state`
    n_components : int, E, at most the components of `up`
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : the exact kernel of the up-projection
    up_ : the fitted up-projection
    signs_ : (D,) float32 of +-1
    picks_ : (n_components,) int32, rows of H, ascending

    Notes
    -----
    Hamid et al., Compact Random Feature Maps, ICML 2014, algorithm 2 and section 3.4.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> wide = srf.RandomMaclaurin(srf.Polynomial(2), 1000)
    >>> srf.Craft(wide, 50, random_state=0).fit_transform(np.eye(3)).shape
    (3, 50)
    """

    def __init__(
        self, up: FeatureMap, n_components: int = 100, *, random_state: Seed = None
    ) -> None:
        self.up = up
        self.n_components = n_components
        self.random_state = random_state

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        check_kind("up", self.up, FeatureMap, "a feature map")
        up = clone_with_seed(self.up, rng)
        up.draw_for(n_features, sample)
        if up.n_components < self.n_components:
            raise ParameterError(
                f"Craft goes down from the {up.n_components} components of its up-projection, "
                f"so n_components must not exceed that, got {self.n_components}; "
                f"make it wider, such as {8 * self.n_components} (8 times is common)"
            )
        self.up_ = up
        self.kernel_ = up.kernel_
        self.signs_ = random_signs(rng, up.n_components)
        self.picks_ = np.sort(rng.permutation(self._padded)[: self.n_components]).astype(np.int32)

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        up = fitted.kind("up_", FeatureMap)
        up.check_fitted(n_features, fitted, "up_")
        check_kernel(fitted, Kernel)
        fitted.array("signs_", np.float32, (up.n_components,))
        fitted.indices("picks_", np.int32, (self.n_components,), self._padded)

    @property
    def code(self) -> list[Any]:
        return self._up.code

    def attach(self, code: Iterator[Any]) -> None:
        self._up.attach(code)
        if self._up is not self.up:
            self.kernel_ = self._up.kernel_

    @property
    def _up(self) -> FeatureMap:
        """The up-projection, fitted if the map is."""
        return vars(self).get("up_", self.up)

    def check_values(self, z: F32, n_rows: int) -> None:
        self.up_.check_values(z[:, : self.n_components], n_rows)  # a NaN is in all of them

    @property
    def _padded(self) -> int:
        return hadamard.padded_length(self.up_.n_components)

    @property
    def grain(self) -> int:
        return self.up_.grain

    @property
    def longest(self) -> float:
        return self.up_.longest

    def squares(self, x: F32) -> F64:
        return self.up_.squares(x)

    def lane_width(self, n_features: int) -> int:
        return self.up_.lane_width(n_features) + self._padded + self.n_components

    def map_lanes(self, x: F32, out: F32) -> None:
        z = np.empty((len(x), self._padded, LANES), dtype=np.float32)
        self.up_.map_lanes(x, z)
        scale = np.float32(1 / np.sqrt(self.n_components))
        hadamard.subsampled(z, self.signs_, self.picks_, scale, out)
