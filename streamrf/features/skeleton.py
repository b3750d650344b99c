"""Random features of computation skeletons: products of features of single sites."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.random import Generator

from streamrf.features.base import FeatureMap, check_kernel, learn_kernel
from streamrf.features.seeds import Seed
from streamrf.jit import cosines, products, spaces
from streamrf.jit.arrays import F32, I32, I64
from streamrf.jit.lanes import LANES
from streamrf.jit.threads import on_single_blas_threads
from streamrf.kernels import MAX_TERMS, BaseSpace, Layer, Skeleton
from streamrf.storage import Fields

DRAWS = 16  # for each feature, at most: where there are few different ones
WAVES = ("gaussian", "circle")
Drawn = tuple[BaseSpace, I64, I64]  # base features: which product each is of, and its site
Fill = Callable[[F32, I32, F32], None]  # (d, 16), columns (n,), out (n, 16)
GOLDEN = (5**0.5 - 1) / 2
SERIAL_BIT, SPACE_BIT = 24, 56  # of a leaf's number: its entry is below, its base space above


class SkeletonFeatures(FeatureMap):
    """``sqrt(m_i / M) prod_j b_ij(x)``: products of base features, drawn down a skeleton.

    A draw starts at the last layer. A node draws a degree n with probability ``a_n`` of its
    activation, then n times one of the nodes that it sees, each of which draws in turn; a base
    space draws a feature of its site. The product of all is one random feature; equal ones of M
    draws, m_i of them, are merged, so that more draws than n_components fit. Drawing stops before
    the first feature that does not fit, which keeps the mean unbiased, and after 16 draws for each
    component; components that are then left are 0.

    Parameters
    ----------
    kernel : `Skeleton` or `BaseSpace`; None means ``Skeleton()``. ``kernel.expected_cost(d)`` is
        the mean number of base features in a product, for rows of d columns
    n_components : int
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : the exact kernel, with every setting a number
    degrees_ : (n_components,) int64, base features of each product, descending
    scales_ : (n_components,) float32, ``sqrt(m_i / M)``
    picks_ : (sum of degrees,) int32, base feature of each factor: first the first factors of all
        products, then the second factors of those that have one, and so on
    counts_ : (n_spaces,) int64, base features of each space; those of a space are next to each
        other
    columns_ : (n_base,) int32, first column of the site
    frequencies_, offsets_ : float32, of waves ``sqrt(2) cos(<omega, x_s> + b)`` of "gaussian" and
        "circle" spaces: all omega in one line, and every b
    salts_ : int64, of the random signs of "categorical" spaces' levels

    Notes
    -----
    Daniely, Frostig, Gupta and Singer, Random Features for Compositional Kernels, 2017, algorithm
    1. On "sphere" and "binary" spaces a base feature is an entry, ``sqrt(size) x_j / |x_s|`` and
    ``x_j``.
    """

    default_kernel = Skeleton
    kernel_: Layer

    def __init__(
        self,
        kernel: Layer | None = None,
        n_components: int = 100,
        *,
        random_state: Seed = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        self.kernel_ = learn_kernel(self, Layer, sample)
        self.kernel_.check_settings()
        merged, n_draws = _draw_products(self.kernel_, n_features, self.n_components, rng)
        factors = [_scattered(np.frombuffer(key, dtype=np.int64)) for key in merged]
        order = np.argsort([-len(leaves) for leaves in factors], kind="stable")
        counts = np.fromiter(merged.values(), dtype=np.float64, count=len(merged))[order]
        self.degrees_ = np.zeros(self.n_components, dtype=np.int64)
        self.degrees_[: len(order)] = [len(factors[i]) for i in order]
        self.scales_ = np.zeros(self.n_components, dtype=np.float32)
        self.scales_[: len(order)] = np.sqrt(counts / n_draws)
        levels = [
            [factors[i][level] for i in order if len(factors[i]) > level]
            for level in range(self.degrees_[0])
        ]
        picked = np.array([leaf for level in levels for leaf in level], dtype=np.int64)
        leaves, picks = np.unique(picked, return_inverse=True)
        self.picks_ = picks.astype(np.int32)
        self._draw_leaves(leaves, n_features, rng)

    def _draw_leaves(self, leaves: I64, n_features: int, rng: Generator) -> None:
        """Set the arrays of the base features that products are made of."""
        found = self.kernel_.spaces()
        self.counts_ = np.bincount(leaves >> SPACE_BIT, minlength=len(found)).astype(np.int64)
        entries = np.split(leaves & ((1 << SERIAL_BIT) - 1), np.cumsum(self.counts_)[:-1])
        columns, frequencies, offsets = [], [np.empty(0)], [np.empty(0)]
        n_levels = 0
        for space, own in zip(found, entries, strict=True):
            if space.kind == "gaussian":
                size = space.size_for(n_features)
                deviation = np.sqrt(2 * float(space.gamma))
                frequencies.append(rng.standard_normal(len(own) * size) * deviation)
                offsets.append(rng.uniform(0, 2 * np.pi, len(own)))
                own = own * size
            elif space.kind == "circle":
                frequencies.append(np.full(len(own), float(space.gamma)))
                offsets.append(np.where(own % 2, -np.pi / 2, 0.0))
                own = own // 2
            elif space.kind == "categorical":
                n_levels += len(own)
            columns.append(own + space.bounds(n_features)[0])
        self.columns_ = np.concatenate(columns).astype(np.int32)
        self.frequencies_ = np.concatenate(frequencies).astype(np.float32)
        self.offsets_ = np.concatenate(offsets).astype(np.float32)
        self.salts_ = rng.integers(0, 2**63, n_levels)

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        kernel = check_kernel(fitted, Layer)
        kernel.grid(n_features)
        found = kernel.spaces()
        fitted.array("scales_", np.float32, (self.n_components,))
        degrees = fitted.indices("degrees_", np.int64, (self.n_components,), 2**31)
        if (degrees[1:] > degrees[:-1]).any():
            raise fitted.wrong("degrees_", "is not in descending order")
        counts = fitted.indices("counts_", np.int64, (len(found),), 2**31)
        fitted.indices("picks_", np.int32, (int(degrees.sum()),), int(counts.sum()))
        columns = fitted.indices("columns_", np.int32, (int(counts.sum()),), n_features)
        sizes = [space.size_for(n_features) for space in found]
        pairs = list(zip(found, sizes, counts.tolist(), strict=True))
        parts = np.split(columns, np.cumsum(counts)[:-1])
        for (space, size, _), own in zip(pairs, parts, strict=True):
            first, stop = space.bounds(n_features)
            reach = size if space.kind == "gaussian" else 1
            if own.size and not (own.min() >= first and own.max() + reach <= stop):
                raise fitted.wrong("columns_", "holds columns outside their space")
        n_waves = sum(count for space, _, count in pairs if space.kind in WAVES)
        length = sum(count * size for space, size, count in pairs if space.kind in WAVES)
        n_levels = sum(count for space, _, count in pairs if space.kind == "categorical")
        fitted.array("frequencies_", np.float32, (length,))
        fitted.array("offsets_", np.float32, (n_waves,))
        fitted.array("salts_", np.int64, (n_levels,))

    def lane_width(self, n_features: int) -> int:
        return n_features + self.n_components + len(self.columns_)

    def map_lanes(self, x: F32, out: F32) -> None:
        for space in self.kernel_.spaces():
            space.check_domain(x)
        base = np.empty((len(x), len(self.columns_), LANES), dtype=np.float32)
        fills = self._fills(x.shape[1])

        def group(g: int) -> None:
            for own, fill in fills:
                fill(x[g], self.columns_[own], base[g, own])

        on_single_blas_threads(group, range(len(x)))
        varying = self.degrees_[self.degrees_ > 0]
        products.multiply(base, varying, self.picks_, self.scales_, np.float32(1), 0, out)
        out[:, len(varying) : self.n_components] = self.scales_[len(varying) :, np.newaxis]

    def _fills(self, n_features: int) -> list[tuple[slice, Fill]]:
        """Return for each space its base features, and what fills in those of 16 rows."""
        found: list[tuple[slice, Fill]] = []
        stop = wave = frequency = level = 0
        for space, count in zip(self.kernel_.spaces(), self.counts_.tolist(), strict=True):
            stop, size = stop + count, space.size_for(n_features)
            fill: Fill = _entries
            if space.kind in WAVES:
                omega = self.frequencies_[frequency : frequency + count * size].reshape(-1, size)
                fill = partial(_waves, omega, self.offsets_[wave : wave + count])
                wave, frequency = wave + count, frequency + count * size
            elif space.kind == "sphere":
                fill = partial(_directions, space.bounds(n_features)[0], size)
            elif space.kind == "categorical":
                fill = partial(_levels, self.salts_[level : level + count])
                level += count
            if count:
                found.append((slice(stop - count, stop), fill))
        return found


def _entries(x: F32, columns: I32, out: F32) -> None:
    out[:] = x[columns]


def _directions(first: int, size: int, x: F32, columns: I32, out: F32) -> None:
    spaces.directions(x, columns, first, size, np.float32(np.sqrt(size)), out)


def _levels(salts: I64, x: F32, columns: I32, out: F32) -> None:
    spaces.levels(x, columns, salts, out)


def _waves(frequencies: F32, offsets: F32, x: F32, columns: I32, out: F32) -> None:
    """Fill out with ``sqrt(2) cos(<omega, x_s> + b)``."""
    phases = np.empty((len(columns), LANES), dtype=np.float32)
    spaces.phases(x, columns, frequencies, phases)
    ones, amplitude = np.ones_like(offsets), np.float32(np.sqrt(2))
    cosines.waves(phases, ones, offsets, amplitude, 0, 0, out)


def _scattered(leaves: I64) -> I64:
    """Return sorted leaves with equal ones evenly apart, or parts of a product would overflow.

    A thousand factors of two entries have about the size of 1, five hundred of one do not. Orders
    by the golden section are even in every part.
    """
    return leaves[np.argsort(np.arange(len(leaves)) * GOLDEN % 1, kind="stable")]


def _draw_products(
    kernel: Layer, n_features: int, width: int, rng: Generator
) -> tuple[dict[bytes, int], int]:
    """Draw features until one does not fit any more; return how often each came, and all draws.

    That one is dropped: given how often each of the others came, all orders of them are equally
    likely, so that their mean is that of the first draw, without a bias.
    """
    counts: dict[bytes, int] = {}
    limit, n_draws, n_leaves, size = DRAWS * width, 0, 0, width
    nodes = int(np.prod(kernel.grid(n_features)))
    indices = {space.key: i for i, space in enumerate(kernel.spaces())}
    while True:
        sites = rng.integers(0, nodes, size)
        parts = _draw_below(kernel, np.arange(size), sites, n_features, rng)
        owners = np.concatenate([part[1] for part in parts])
        leaves = [np.empty(0, dtype=np.int64)]
        for space, _, own in parts:
            leaves.append(_numbers(space, indices[space.key], own, n_leaves, n_features, rng))
            n_leaves += len(own)
        found = np.concatenate(leaves)
        found = found[np.lexsort((found, owners))]
        ends = np.cumsum(np.bincount(owners, minlength=size)).tolist()
        for first, stop in pairwise([0, *ends]):
            key = found[first:stop].tobytes()
            if n_draws == limit or (len(counts) == width and key not in counts):
                return counts, n_draws
            counts[key] = counts.get(key, 0) + 1
            n_draws += 1
        size *= 2  # of few different features many are drawn


def _draw_below(
    layer: Layer, owners: I64, nodes: I64, n_features: int, rng: Generator
) -> list[Drawn]:
    """Draw a feature of each of the nodes, for the products `owners`, down to the base spaces."""
    if isinstance(layer, BaseSpace):
        return [(layer, owners, nodes)]
    assert isinstance(layer, Skeleton)
    degrees = np.searchsorted(np.cumsum(layer.shares()), rng.random(len(nodes)), side="right")
    degrees = np.minimum(degrees, MAX_TERMS - 1)
    owners, nodes = np.repeat(owners, degrees), np.repeat(nodes, degrees)
    children = layer.children(n_features)
    chosen = children[nodes, rng.integers(0, children.shape[1], len(nodes))]
    found: list[Drawn] = []
    for below in layer.below:
        n_nodes = int(np.prod(below.grid(n_features)))
        own = (chosen >= 0) & (chosen < n_nodes)
        found += _draw_below(below, owners[own], chosen[own], n_features, rng)
        chosen = chosen - n_nodes
    return found


def _numbers(
    space: BaseSpace, index: int, sites: I64, first: int, n_features: int, rng: Generator
) -> I64:
    """Draw a base feature of each site; equal numbers are equal features.

    Entries are few, and come again; a wave or a hash is another each time.
    """
    serial = np.zeros(len(sites), dtype=np.int64)
    if space.kind == "circle":
        sites = 2 * sites + rng.integers(0, 2, len(sites))
    elif space.kind == "sphere":
        size = space.size_for(n_features)
        sites = size * sites + rng.integers(0, size, len(sites))
    elif space.kind in ("gaussian", "categorical"):
        serial = np.arange(first, first + len(sites))
    return sites + (serial << SERIAL_BIT) + (index << SPACE_BIT)
