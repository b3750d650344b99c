"""Piecewise-linear functions of columns and of pairs of columns, by hats between knots."""

from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.random import Generator

from streamrf.errors import ParameterError, check_flag
from streamrf.features.base import FeatureMap
from streamrf.jit import hats
from streamrf.jit.arrays import F32, F64, I64
from streamrf.kernels import FeatureProduct
from streamrf.storage import Fields

SHARE = 4  # one component in so many is for single columns
MAX_KNOTS = 2**31 - 1
MAX_PAIRED = 2000  # columns whose pairs are put in order: those that vary most


class PiecewiseLinear(FeatureMap):
    """Hats ``h_ja(x_j)`` of columns, and products ``h_ja(x_j) h_kb(x_k)`` of pairs of columns.

    A hat is 1 at a knot of its column, 0 at the others and linear between; past the last knot it
    stays as it is there. So a linear model of them is a function of each column that is linear
    between knots, and of pairs a bilinear one: an additive model with interactions, of columns of
    any scale. Knots are quantiles of the sample, where a value counts as often as a bin has rows at
    most. A hat for each column, the one of greatest mean, is left out: all of them add up to 1.

    A quarter of the components is for single columns, as many bins as fit. The others are for
    pairs, those of the columns that vary most first: one product for each, if they fit, then finer
    bins of all, and of as many as fit. Components that are left are 0.

    Parameters
    ----------
    n_components : int
    max_bins : int, of a column
    pairs : bool, False for single columns alone, which then have all components

    Attributes
    ----------
    kernel_ : `FeatureProduct` of the map
    columns_ : (n_grids,) int32, column of each grid
    ends_ : (n_grids + 1,) int64, where the knots of each grid begin, and the last end
    knots_ : (ends_[-1],) float32, ascending in each grid
    left_out_ : (n_grids,) int32, knot of each grid that has no hat
    terms_ : (n_terms, 2) int32, grids of each function: of a single column the second is -1

    Notes
    -----
    Pele, Taskar, Globerson and Werman, The Pairwise Piecewise-Linear Embedding for Efficient
    Non-Linear Classification, ICML 2013. Nothing is drawn, and no labels are read.

    Examples
    --------
    >>> import streamrf as srf
    >>> rows = [[0.0], [1.0], [3.0]]
    >>> srf.PiecewiseLinear(2).fit(rows).transform([[0.0], [2.0], [9.0]])
    array([[0. , 0. ],
           [0.5, 0.5],
           [0. , 1. ]], dtype=float32)
    """

    default_kernel = FeatureProduct

    def __init__(self, n_components: int = 100, *, max_bins: int = 32, pairs: bool = True) -> None:
        self.n_components = n_components
        self.max_bins = max_bins
        self.pairs = pairs

    @property
    def kernel_(self) -> FeatureProduct:  # type: ignore[override] # an attribute of others
        """The exact kernel."""
        return FeatureProduct(self)

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        if not _is_count(self.max_bins):
            raise ParameterError(f"max_bins must be an integer above 0, got {self.max_bins!r}")
        check_flag("pairs", self.pairs)
        if sample is None:
            raise ParameterError("PiecewiseLinear takes knots from rows, and none were given")
        columns = _Columns(sample, int(self.max_bins))
        singles, n_bins = self._singles(columns)
        n_left = self.n_components - int(columns.sizes(singles, n_bins).sum())
        pairs, paired_bins = self._pairs(columns, n_left if self.pairs else 0)
        asked = [(column, n_bins) for column in singles.tolist()]
        for pair, bins in zip(pairs.tolist(), paired_bins.tolist(), strict=True):
            asked += [(column, bins) for column in pair]
        grids = sorted(set(asked))
        place = {grid: i for i, grid in enumerate(grids)}
        which = np.array([place[grid] for grid in asked], dtype=np.int32)
        alone, paired = np.split(which, [len(singles)])
        alone = np.stack([alone, np.full_like(alone, -1)], axis=1)
        self.terms_ = np.concatenate([alone, paired.reshape(-1, 2)])
        self._set_grids(columns, grids)

    def _set_grids(self, columns: "_Columns", grids: list[tuple[int, int]]) -> None:
        """Set the arrays of grids, each by its column and its bins."""
        knots = [columns.knots(*grid) for grid in grids]
        self.columns_ = np.array([column for column, _ in grids], dtype=np.int32)
        self.ends_ = np.cumsum([0, *map(len, knots)], dtype=np.int64)
        self.knots_ = np.concatenate([np.empty(0, np.float32), *knots])
        fullest = map(columns.fullest, self.columns_, knots)
        self.left_out_ = np.fromiter(fullest, dtype=np.int32, count=len(grids))

    def _singles(self, columns: "_Columns") -> tuple[I64, int]:
        """Return the columns that have functions of their own, and the bins of each."""
        found = columns.varying[: self.n_components]
        share = SHARE if self.pairs and len(found) > 1 else 1
        if len(found) * share >= self.n_components:
            return np.sort(found), 1

        def n_hats(n_bins: int) -> int:
            return int(columns.sizes(found, n_bins).sum())

        tried = range(1, columns.max_bins + 1)
        return np.sort(found), bisect_right(tried, self.n_components // share, key=n_hats)

    def _pairs(self, columns: "_Columns", n_left: int) -> tuple[I64, I64]:
        """Return pairs of columns (n, 2), and the bins of each, whose products are at most so many.

        In order of the variance that a product has if its columns are independent.
        """
        found = columns.varying[:MAX_PAIRED]
        first, second = np.triu_indices(len(found), 1)
        scores = columns.deviations[found]
        order = _least(-scores[first] * scores[second], n_left)
        pairs = np.stack([found[first[order]], found[second[order]]], axis=1)
        n_bins = np.ones(len(pairs), dtype=np.int64)
        sizes = n_bins.copy()
        used, where = np.unique(pairs, return_inverse=True)
        for bins in range(2, columns.max_bins + 1):
            finer = columns.sizes(used, bins)[where].reshape(-1, 2).prod(axis=1)
            totals = sizes.sum() + np.cumsum(finer - sizes)
            fits = np.logical_and.accumulate(totals <= n_left)
            n_bins[fits], sizes[fits] = bins, finer[fits]
            if not fits.all():
                break
        return pairs, n_bins

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        columns = fitted.indices("columns_", np.int32, (None,), n_features)
        knots = fitted.array("knots_", np.float32, (None,))
        ends = fitted.indices("ends_", np.int64, (len(columns) + 1,), len(knots) + 1)
        n_knots = np.diff(ends)
        if ends[0] or ends[-1] != len(knots) or (n_knots < 2).any():
            raise fitted.wrong("ends_", "does not cut the knots into grids of two or more")
        if (np.delete(np.diff(knots), ends[1:-1] - 1) <= 0).any():
            raise fitted.wrong("knots_", "is not in ascending order")
        left_out = fitted.indices("left_out_", np.int32, (len(columns),), MAX_KNOTS)
        if (left_out >= n_knots).any():
            raise fitted.wrong("left_out_", "names knots that are not there")
        terms = fitted.array("terms_", np.int32, (None, 2))
        if terms.size and not (terms.min() >= -1 and terms[:, 0].min() >= 0):
            raise fitted.wrong("terms_", "holds numbers that are no grids")
        if terms.size and terms.max() >= len(columns):
            raise fitted.wrong("terms_", "names grids that are not there")
        sizes = np.append(n_knots - 1, 1)  # the last is of no second grid
        if sizes[terms].prod(axis=1, dtype=np.float64).sum() > self.n_components:  # may be vast
            raise fitted.wrong("terms_", "has more products than n_components")

    @property
    def spans(self) -> F64:
        return np.ones(self.n_components)

    def lane_width(self, n_features: int) -> int:
        return n_features + self.n_components + 3 * len(self.columns_)

    def map_lanes(self, x: F32, out: F32) -> None:
        z = out[:, : self.n_components]
        hats.interpolate(x, self.columns_, self.ends_, self.knots_, self.left_out_, self.terms_, z)


def _least(values: F64, n: int) -> I64:
    """Return the places of the n least values, in their order; of those alike the first."""
    places = np.arange(len(values))
    if n < len(values):
        places = np.flatnonzero(values <= np.partition(values, n)[n])
    return places[np.argsort(values[places], kind="stable")[:n]]


class _Columns:
    """The values of each column of a sample (n, d), and where to put knots."""

    def __init__(self, sample: F32, max_bins: int) -> None:
        self._sample = sample
        self.max_bins = min(max_bins, len(sample))  # more are no finer
        self._known: dict[int, tuple[F32, I64]] = {}
        low, high = sample.min(axis=0), sample.max(axis=0)
        wide = np.where(high > low, high.astype(np.float64) - low, 1.0)
        self.deviations: F64 = ((sample - low.astype(np.float64)) / wide).std(axis=0)
        order = np.argsort(-self.deviations, kind="stable")
        self.varying: I64 = order[: np.count_nonzero(high > low)]  # those that vary most first

    def _counted(self, column: int) -> tuple[F32, I64]:
        """Return the values of a column, ascending, and how often each is there."""
        if column not in self._known:
            self._known[column] = np.unique(self._sample[:, column], return_counts=True)
        return self._known[column]

    def knots(self, column: int, n_bins: int) -> F32:
        """Return the knots of a column for so many bins or fewer, ascending."""
        values, counts = self._counted(column)
        if len(values) <= n_bins + 1:
            return values
        weights = np.minimum(counts, counts.sum() / (n_bins + 1))
        middles = np.cumsum(weights) - weights / 2
        found = np.searchsorted(middles, np.linspace(middles[0], middles[-1], n_bins + 1))
        return values[np.unique(found)]

    def fullest(self, column: int, knots: F32) -> int:
        """Return the knot whose hat has the greatest mean over the column."""
        values, counts = self._counted(column)
        place = np.interp(values, knots, np.arange(len(knots)))
        low = np.minimum(place.astype(np.int64), len(knots) - 2)
        share, n = place - low, len(knots)
        sums = np.bincount(low, counts * (1 - share), n) + np.bincount(low + 1, counts * share, n)
        return int(sums.argmax())

    def sizes(self, columns: I64, n_bins: int) -> I64:
        """Return how many features a grid of each column has."""
        return np.array([len(self.knots(column, n_bins)) - 1 for column in columns], dtype=np.int64)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and value is not True and int(value) > 0
