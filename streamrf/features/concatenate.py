"""Maps next to each other: the features of several maps, for the sum of their kernels."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from streamrf.display import Parametrized
from streamrf.errors import ParameterError
from streamrf.features.base import FeatureMap, check_kernel, clone_with_seed
from streamrf.features.seeds import Seed
from streamrf.jit.arrays import F32, F64, I64
from streamrf.jit.lanes import LANES
from streamrf.kernels import KernelSum, check_weights
from streamrf.storage import Fields


class Concatenate(FeatureMap):
    """``Z(x) = (sqrt(w_0) Z_0(x), sqrt(w_1) Z_1(x), ...)``, for the kernel ``sum_i w_i K_i``.

    Each map is a block. A solve can weigh the blocks anew, ``Statistics.solve(alpha,
    block_weights=)``: one pass answers for every weighted sum of the kernels.

    Parameters
    ----------
    maps : list of unfitted feature maps, of any classes, kernels and widths; they are cloned, and
        those without a seed take one from `random_state`. The settings of the first are "0" (the
        map) and "0__NAME", and so on
    weights : (n_maps,) numbers, none below 0 and not all 0; None means 1 for each
    random_state : int, RandomState or None

    Attributes
    ----------
    n_components : int, the sum of the maps' own
    kernel_ : `KernelSum`
    maps_ : list of the fitted maps
    scales_ : (n_maps,) float32, roots of the weights

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> maps = [srf.StructuredFourier(srf.Gaussian(gamma), 40) for gamma in (0.1, 1.0)]
    >>> features = srf.Concatenate(maps, random_state=0)
    >>> features.fit_transform(np.eye(3)).shape
    (3, 80)
    """

    def __init__(
        self,
        maps: Sequence[FeatureMap],
        weights: ArrayLike | None = None,
        *,
        random_state: Seed = None,
    ) -> None:
        self.maps = maps
        self.weights = weights
        self.random_state = random_state

    @property
    def n_components(self) -> int:  # type: ignore[override] # a setting of other maps
        """Width of the features, the sum of the maps' own."""
        return sum(map_.n_components for map_ in vars(self).get("maps_") or self._checked())

    def width_for(self, n_features: int) -> int | None:
        widths = [map_.width_for(n_features) for map_ in self._checked()]
        return None if None in widths else sum(filter(None, widths))

    def check_width(self) -> None:
        self._checked()

    @property
    def wants_seed(self) -> bool:
        """Whether a part has no seed, and there is none for those."""
        return self.random_state is None and any(map_.wants_seed for map_ in self._checked())

    def _checked(self) -> list[FeatureMap]:
        """Return the maps; raise ParameterError if they are none."""
        maps = self.maps
        right = isinstance(maps, list | tuple) and len(maps) > 0
        if not right or not all(isinstance(map_, FeatureMap) for map_ in maps):
            raise ParameterError(f"maps must be a list of feature maps, got {maps!r}")
        for map_ in maps:
            map_.check_width()
        return list(maps)

    @property
    def _named(self) -> dict[str, FeatureMap]:
        maps = self.maps if isinstance(self.maps, list | tuple) else []
        return {str(i): map_ for i, map_ in enumerate(maps)}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings; if `deep` those of the maps too, by their indices."""
        params = super().get_params(deep)
        for name, map_ in self._named.items() if deep else ():
            params[name] = map_
            if isinstance(map_, Parametrized):
                params |= {f"{name}__{inner}": value for inner, value in map_.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set settings by the names that `get_params` returns."""
        self.maps = params.pop("maps", self.maps)
        if replaced := {name: params.pop(name) for name in self._named if name in params}:
            self.maps = list((self._named | replaced).values())
        return super().set_params(**params)

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        maps = [clone_with_seed(map_, rng) for map_ in self._checked()]
        weights = check_weights("weights", self.weights, len(maps))
        for map_ in maps:
            map_.draw_for(n_features, sample)
        self.maps_ = maps
        self.scales_ = np.sqrt(weights).astype(np.float32)
        self.kernel_ = KernelSum([map_.kernel_ for map_ in maps], weights.tolist())

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        maps = fitted.kind("maps_", list)
        if not maps or not all(isinstance(map_, FeatureMap) for map_ in maps):
            raise fitted.wrong("maps_", "is not a list of maps")
        for i, map_ in enumerate(maps):
            map_.check_fitted(n_features, fitted, f"maps_/{i}")
        fitted.array("scales_", np.float32, (len(maps),))
        check_kernel(fitted, KernelSum)

    @property
    def code(self) -> list[Any]:
        return [code for map_ in getattr(self, "maps_", self.maps) for code in map_.code]

    def attach(self, code: Iterator[Any]) -> None:
        maps = getattr(self, "maps_", self.maps)
        for map_ in maps:
            map_.attach(code)
        if maps is not self.maps:
            assert isinstance(self.kernel_, KernelSum)
            self.kernel_ = KernelSum([map_.kernel_ for map_ in maps], self.kernel_.weights)

    def check_values(self, z: F32, n_rows: int) -> None:
        first = 0
        for map_ in self.maps_:
            map_.check_values(z[:, first:], n_rows)
            first += map_.n_components

    @property
    def blocks(self) -> I64:
        """Index of the map of each component."""
        return np.repeat(np.arange(len(self.maps_)), [map_.n_components for map_ in self.maps_])

    @property
    def spans(self) -> F64:
        parts = zip(self.maps_, self.scales_.tolist(), strict=True)
        spans = [
            scale * map_.spans if scale else np.zeros(map_.n_components) for map_, scale in parts
        ]
        return np.concatenate(spans)

    @property
    def grain(self) -> int:
        return max(map_.grain for map_ in self.maps_)

    def lane_width(self, n_features: int) -> int:
        return self.n_components + max(map_.lane_width(n_features) for map_ in self.maps_)

    def map_lanes(self, x: F32, out: F32) -> None:
        first = 0
        for map_, scale in zip(self.maps_, self.scales_, strict=True):
            last = first + map_.n_components
            z = np.empty((len(x), map_.n_components, LANES), dtype=np.float32)
            map_.map_lanes(x, z)
            np.multiply(z, scale, out=out[:, first:last])
            first = last
