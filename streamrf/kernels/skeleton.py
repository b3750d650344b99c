"""Computation skeletons: kernels composed along a graph of layers."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from streamrf.errors import BadRowError, DataError, ParameterError, check_choice
from streamrf.kernels.arc_cosine import ArcCosine
from streamrf.kernels.base import Kernel, is_finite, rows_of
from streamrf.kernels.dot_product import (
    MAX_TERMS,
    UNIT_SLACK,
    DotProduct,
    DotProductKernel,
    Exponential,
    Floats,
)
from streamrf.kernels.grids import Grid, Lengths, check_count, check_lengths, grid_of, windows

SPACES = ("gaussian", "sphere", "circle", "binary", "categorical")
ACTIVATIONS: dict[str, DotProductKernel] = {
    "relu": ArcCosine(1),
    "step": ArcCosine(0),
    "exponential": Exponential(),
    "linear": DotProduct((0.0, 1.0)),
}

VALUES_BYTES = 32 << 20  # of the kernels of all sites, computed at once
MEDIAN_ROWS, MEDIAN_SITES = 250, 16


class Layer(Kernel):
    """Nodes on a grid, each with a kernel; the layer's own kernel is their mean."""

    @abstractmethod
    def grid(self, n_features: int) -> Grid:
        """Return the shape of the nodes for rows of `n_features` columns."""

    @abstractmethod
    def values(self, X: Floats, Y: Floats) -> Floats:
        """Return the kernels of all nodes, float64 (n_nodes, n_rows of X, n_rows of Y)."""

    @abstractmethod
    def spaces(self) -> "list[BaseSpace]":
        """Return the base spaces below, each once."""

    @abstractmethod
    def expected_cost(self, n_features: int) -> float:
        """Return the mean number of base features that are multiplied for one random feature.

        1 of a base space, ``f'(1)`` times the mean of its inputs of a `Skeleton` (Daniely et al.,
        section 5), with the series as `Skeleton.shares` cuts it.
        """

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        self.check_settings()
        rows = rows_of(X)
        others = rows if Y is None else rows_of(Y)
        _ = self.grid(rows.shape[1])
        for space in self.spaces():
            space.check_domain(rows)
            space.check_domain(others)
        step = max(1, VALUES_BYTES // (8 * rows.shape[1] * max(1, len(others))))
        parts = [np.empty((0, len(others)))]
        for start in range(0, len(rows), step):
            parts.append(self.values(rows[start : start + step], others).mean(axis=0))
        return np.concatenate(parts)


class BaseSpace(Layer):
    """``K(x, y) = mean_s k(x_s, y_s)`` over sites s: columns, or groups of neighbouring columns.

    Parameters
    ----------
    kind : what a site is a point of, and k
        "gaussian": numbers, ``exp(-gamma |x_s - y_s|^2)``; "sphere": directions, ``<x_s, y_s> /
        |x_s| |y_s|``, 0 where one is zero; "circle": an angle, ``cos(gamma (x_s - y_s))``;
        "binary": a number of -1 to 1, ``x_s y_s``; "categorical": a level, 1 where
        ``x_s = y_s``, else 0
    shape : of the sites, such as ``(28, 28)`` of an image; None means a line
    size : int, columns of a site, next to each other, more than 1 for "gaussian" and "sphere" only;
        None means 1, of a sphere all
    gamma : float, positive; of "gaussian" also "median", 1 over the median of ``|x_s - y_s|^2``
        over pairs of rows that differ there
    columns : (first, stop) of the row, or None for all

    Raises
    ------
    BadRowError
        If an entry of a "binary" space is not between -1 and 1.

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.BaseSpace("categorical")([[1, 2, 3, 4]], [[1, 2, 3, 5]])
    array([[0.75]])
    """

    def __init__(
        self,
        kind: str = "gaussian",
        shape: Sequence[int] | None = None,
        *,
        size: int | None = None,
        gamma: float | str = 1.0,
        columns: Sequence[int] | None = None,
    ) -> None:
        self.kind = kind
        self.shape = shape
        self.size = size
        self.gamma = gamma
        self.columns = columns

    def check_settings(self) -> None:
        check_choice("kind", self.kind, SPACES)
        if self.size is not None:
            check_count("size", self.size)
        if self.size not in (None, 1) and self.kind not in ("gaussian", "sphere"):
            raise ParameterError(
                f"a site of kind={self.kind!r} is one column, got size={self.size!r}"
            )
        if isinstance(self.gamma, str) and self.gamma == "median" and self.kind == "gaussian":
            raise ParameterError("gamma='median' is learnt from rows: call learn(X) first")
        if not (is_finite(self.gamma) and float(self.gamma) > 0):
            also = " or 'median'" if self.kind == "gaussian" else ""
            raise ParameterError(f"gamma must be a positive number{also}, got {self.gamma!r}")

    def bounds(self, n_features: int) -> tuple[int, int]:
        """Return the first of the columns and the one past the last."""
        if self.columns is None:
            return 0, n_features
        found = self.columns if isinstance(self.columns, list | tuple) else ()
        right = len(found) == 2 and all(isinstance(i, int | np.integer) for i in found)
        if not right or not 0 <= found[0] < found[1] <= n_features:
            raise ParameterError(
                f"columns must be (first, stop) of the {n_features} columns, got {self.columns!r}"
            )
        return int(found[0]), int(found[1])

    @property
    def key(self) -> tuple[Any, ...]:
        """What equal spaces have in common; lists, which shapes are in files, are as tuples."""
        shapes = (v if v is None else tuple(v) for v in (self.shape, self.columns))
        return (self.kind, self.size, self.gamma, *shapes)

    def size_for(self, n_features: int) -> int:
        """Return the columns of a site."""
        if self.size is not None:
            check_count("size", self.size)
            return int(self.size)
        first, stop = self.bounds(n_features)
        return stop - first if self.kind == "sphere" else 1

    def grid(self, n_features: int) -> Grid:
        first, stop = self.bounds(n_features)
        n_sites, rest = divmod(stop - first, self.size_for(n_features))
        if rest:
            raise ParameterError(
                f"size={self.size} does not divide the {stop - first} columns of the rows"
            )
        return grid_of(self.shape, n_sites)

    def sites(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the entries of each site, (n_rows, n_sites, size), as they are."""
        first, stop = self.bounds(X.shape[1])
        return X[:, first:stop].reshape(len(X), -1, self.size_for(X.shape[1]))

    def learn(self, sample: NDArray[Any] | None) -> Self:
        if not isinstance(self.gamma, str) or (self.kind, self.gamma) != ("gaussian", "median"):
            return self
        if sample is None:
            raise ParameterError("gamma='median' is learnt from rows, and none were given")
        _ = self.grid(sample.shape[1])
        sites = self.sites(np.asarray(sample[:: -(-len(sample) // MEDIAN_ROWS)], dtype=np.float64))
        apart = [np.zeros(0)]
        for s in range(0, sites.shape[1], -(-sites.shape[1] // MEDIAN_SITES)):
            apart.append(scipy.spatial.distance.pdist(sites[:, s], "sqeuclidean"))
        squares = np.concatenate(apart)
        if not (squares > 0).any():
            raise DataError(
                f"the {len(sites)} sample rows are alike at every site looked at, so "
                "gamma='median' cannot be learnt from them: set gamma to a number"
            )
        settings = self.get_params(deep=False)
        return type(self)(**settings | {"gamma": float(1 / np.median(squares[squares > 0]))})

    def check_domain(self, X: NDArray[Any]) -> None:
        """Raise BadRowError if a row (along axis 0) has an entry outside the space."""
        if self.kind != "binary":
            return
        sites = self.sites(X)
        greatest = float(np.max(np.abs(sites), initial=0.0))
        if not greatest <= 1 + UNIT_SLACK:
            raise BadRowError(
                f"an entry of a row is {greatest:.4g} in size, but a binary space has entries of "
                "-1 to 1: scale the rows, or use BaseSpace('gaussian')"
            )

    def values(self, X: Floats, Y: Floats) -> Floats:
        x, y = (self.sites(rows).transpose(2, 1, 0) for rows in (X, Y))  # (size, sites, rows)
        if self.kind == "sphere":
            x, y = (_directions(rows) for rows in (x, y))
        if self.kind in ("sphere", "binary"):
            return np.einsum("ksn,ksm->snm", x, y)
        apart = x[:, :, :, np.newaxis] - y[:, :, np.newaxis]
        if self.kind == "circle":
            return np.cos(float(self.gamma) * apart[0])
        if self.kind == "categorical":
            return (apart[0] == 0).astype(np.float64)
        return np.exp(-float(self.gamma) * np.square(apart).sum(axis=0))

    def spaces(self) -> "list[BaseSpace]":
        return [self]

    def expected_cost(self, n_features: int) -> float:
        return 1.0


class Skeleton(Layer):
    """``K_v(x, y) = f(mean_u K_u(x, y))`` of each node v, over the nodes u below that it sees.

    A layer of a computation skeleton; layers below are its inputs, down to the base spaces. Where
    the last layer has several nodes, the kernel is their mean.

    Parameters
    ----------
    activation : f, a dot-product kernel of numbers up to 1, divided by f(1): the dual of a unit; or
        a word for one: "relu" (``ArcCosine(1)``), "step" (``ArcCosine(0)``), "exponential"
        (``Exponential()``, which is ``exp(t - 1)``) or "linear" (a mean). Any normalised series is
        a `DotProduct`
    inputs : `BaseSpace`, `Skeleton`, or a list of these; None means ``BaseSpace()``
    window : int, or one for each axis: nodes see so many nodes along each axis of their inputs,
        which must then be on equal grids; None means all (a dense layer, of one node)
    stride : int, or one for each axis, from one window to the next; windows lie within the grid
        and are no longer than it

    Notes
    -----
    Daniely, Frostig, Gupta and Singer, Random Features for Compositional Kernels, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> pixels = srf.BaseSpace("circle", shape=(8, 8))
    >>> layer = srf.Skeleton("relu", pixels, window=3, stride=2)
    >>> skeleton = srf.Skeleton("exponential", layer)
    >>> skeleton(np.zeros((1, 64)), [[0.0] * 64, [1.0] * 64]).round(3), layer.grid(64)
    (array([[1.   , 0.695]]), (3, 3))
    """

    def __init__(
        self,
        activation: DotProductKernel | str = "exponential",
        inputs: "Layer | Sequence[Layer] | None" = None,
        *,
        window: Lengths | None = None,
        stride: Lengths = 1,
    ) -> None:
        self.activation = activation
        self.inputs = inputs
        self.window = window
        self.stride = stride

    @property
    def below(self) -> list[Layer]:
        """The inputs as a list."""
        if self.inputs is None:
            return [BaseSpace()]
        given: Any = self.inputs
        inputs = list(given) if isinstance(given, list | tuple) else [given]
        if not inputs or not all(isinstance(layer, Layer) for layer in inputs):
            raise ParameterError(
                f"inputs must be a BaseSpace, a Skeleton, or a list of these, got {self.inputs!r}"
            )
        return inputs

    @property
    def dual(self) -> DotProductKernel:
        """The dot-product kernel f, before it is divided by f(1)."""
        if isinstance(self.activation, DotProductKernel):
            return self.activation
        if not isinstance(self.activation, str) or self.activation not in ACTIVATIONS:
            raise ParameterError(
                f"activation must be a dot-product kernel or one of {tuple(ACTIVATIONS)}, "
                f"got {self.activation!r}"
            )
        return ACTIVATIONS[self.activation]

    def check_settings(self) -> None:
        self.dual.check_settings()
        radius = self.dual.radius
        if not (radius > 1 or (radius == 1 and self.dual.closed)):
            raise ParameterError(
                f"the series of an activation must converge at 1, got {self.dual!r}; lower its "
                "gamma"
            )
        if not self.shares().any():
            raise ParameterError(f"{self.dual!r} is no number at 1, so it is no activation")
        if self.window is not None:
            check_lengths("window", self.window)
        check_lengths("stride", self.stride)
        for layer in self.below:
            layer.check_settings()

    def learn(self, sample: NDArray[Any] | None) -> Self:
        settings = self.get_params(deep=False)
        inputs = [layer.learn(sample) for layer in self.below]
        if isinstance(self.activation, DotProductKernel):
            settings["activation"] = self.activation.learn(sample)
        return type(self)(**settings | {"inputs": inputs})

    def shares(self) -> Floats:
        """Return ``a_n / f(1)`` for each degree, float64 of sum 1.

        An infinite series is cut at `MAX_TERMS` terms, and the last has what follows it too: a
        share of 0.008 of "step", 3e-6 of "relu".
        """
        with np.errstate(all="ignore"):
            shares = self.dual.series(MAX_TERMS) / self.dual.function(np.ones(1))
            shares[-1] += max(0.0, 1 - shares.sum())
            shares /= shares.sum()
        return shares if np.isfinite(shares).all() else np.zeros(1)

    def children(self, n_features: int) -> NDArray[np.int64]:
        """Return the nodes that each node sees, int64 (n_nodes, n_children).

        Nodes of all inputs are counted on, in order.
        """
        grids = [layer.grid(n_features) for layer in self.below]
        ends = np.cumsum([0, *map(np.prod, grids)]).astype(np.int64)
        if self.window is None:
            return np.arange(ends[-1])[np.newaxis]
        if len(set(grids)) > 1:
            raise ParameterError(
                f"inputs of a layer with a window must be on equal grids, got {grids}; use "
                "window=None"
            )
        _, firsts, offsets = windows(grids[0], self.window, self.stride)
        return np.add.outer(firsts, np.add.outer(ends[:-1], offsets).ravel())

    def grid(self, n_features: int) -> Grid:
        below = [layer.grid(n_features) for layer in self.below]
        return (1,) if self.window is None else windows(below[0], self.window, self.stride)[0]

    def values(self, X: Floats, Y: Floats) -> Floats:
        below = np.concatenate([layer.values(X, Y) for layer in self.below])
        children = self.children(X.shape[1])
        total = np.zeros((len(children), len(X), len(Y)))
        for nodes in children.T:
            total += below[nodes]
        unit = self.dual.function(np.ones(1))
        return self.dual.function(total / children.shape[1]) / unit

    def spaces(self) -> list[BaseSpace]:
        found = {space.key: space for layer in self.below for space in layer.spaces()}
        return list(found.values())

    def expected_cost(self, n_features: int) -> float:
        shares = self.shares()
        grids = [np.prod(layer.grid(n_features)) for layer in self.below]
        weights = grids if self.window is None else np.ones(len(grids))
        costs = [layer.expected_cost(n_features) for layer in self.below]
        return float(shares @ np.arange(len(shares)) * np.average(costs, weights=weights))


def _directions(x: Floats) -> Floats:
    """``x / |x|`` along the first axis, zeros as they are."""
    lengths = np.sqrt(np.square(x).sum(axis=0))
    return x / np.where(lengths > 0, lengths, 1.0)
