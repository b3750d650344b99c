"""Linear features of the regions of trees of hyperplanes."""

import numpy as np
from numpy.random import Generator

from streamrf.errors import ParameterError
from streamrf.features.base import FeatureMap
from streamrf.features.seeds import Seed
from streamrf.jit import gates
from streamrf.jit.arrays import F32, F64, I64
from streamrf.jit.threads import single_blas_threads
from streamrf.kernels import FeatureProduct
from streamrf.storage import Fields

MAX_DEPTH = 30


class TreeGated(FeatureMap):
    """``x``, and ``g_k(x)`` and ``g_k(x) x`` of nodes k of trees: functions linear by region.

    A node has a hyperplane, which cuts the rows that reach it in two, and the gate ``g_k(x) =
    tanh(sigma (<theta_k, x> - b_k) / s_k)`` for them, 0 for others. So a row has features that are
    not 0 for one node a level of each tree. Trees are learnt from the sample, without labels: theta
    is the difference of two rows that reach the node, b the median and s the deviation of the
    products of those rows with theta.

    Parameters
    ----------
    n_components : int; a node takes ``n_features + 1``, and the last is cut where the width ends
    depth : int, levels of a tree, of ``2^depth - 1`` nodes; there are as many trees as fit
    sigma : float, slope of the gates
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : `FeatureProduct` of the map
    directions_, offsets_ : (n_nodes, n_features) and (n_nodes,) float32, ``sigma theta_k / s_k``
        and ``sigma b_k / s_k``, the nodes of a tree level by level

    Notes
    -----
    Jose, Goyal, Aggrwal and Varma, Local Deep Kernel Learning for Efficient Non-linear SVM
    Prediction, ICML 2013, whose one tree is learnt with the labels.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> srf.TreeGated(4 + 7 * 5, depth=3, random_state=0).fit_transform(X).shape
    (100, 39)
    """

    default_kernel = FeatureProduct

    def __init__(
        self,
        n_components: int = 100,
        *,
        depth: int = 3,
        sigma: float = 1.0,
        random_state: Seed = None,
    ) -> None:
        self.n_components = n_components
        self.depth = depth
        self.sigma = sigma
        self.random_state = random_state

    @property
    def kernel_(self) -> FeatureProduct:  # type: ignore[override] # an attribute of others
        """The exact kernel."""
        return FeatureProduct(self)

    def _n_nodes(self, n_features: int) -> int:
        return max(0, -(-(self.n_components - n_features) // (n_features + 1)))

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        depth, sigma = self.depth, self.sigma
        if not isinstance(depth, int | np.integer) or not 0 < depth <= MAX_DEPTH:
            raise ParameterError(f"depth must be an integer of 1 to {MAX_DEPTH}, got {depth!r}")
        if not isinstance(sigma, int | float | np.integer | np.floating) or not 0 < sigma < np.inf:
            raise ParameterError(f"sigma must be a positive number, got {sigma!r}")
        if sample is None:
            raise ParameterError("TreeGated learns its trees from rows, and none were given")
        n_nodes, n_tree = self._n_nodes(n_features), 2**depth - 1
        self.directions_ = np.zeros((n_nodes, n_features), dtype=np.float32)
        self.offsets_ = np.zeros(n_nodes, dtype=np.float32)
        rows = np.asarray(sample, dtype=np.float64)
        with single_blas_threads():  # for bits that do not depend on the threads
            for first in range(0, n_nodes, n_tree):
                self._grow(rows, slice(first, min(first + n_tree, n_nodes)), rng)

    def _grow(self, rows: F64, nodes: slice, rng: Generator) -> None:
        """Set the nodes of a tree, level by level."""
        reaching: list[I64] = [np.arange(len(rows))]
        for k in range(nodes.stop - nodes.start):
            own = reaching[k] if len(reaching[k]) > 1 else reaching[0]
            one, other = rows[rng.choice(own, 2, replace=len(own) < 2)]
            theta = one - other
            if not theta.any():
                theta = rng.standard_normal(rows.shape[1])
            found = rows[own] @ theta
            scale = float(self.sigma) / (found.std() or 1.0)
            self.directions_[nodes.start + k] = scale * theta
            self.offsets_[nodes.start + k] = scale * np.median(found)
            is_second = rows[reaching[k]] @ theta >= np.median(found)
            reaching += [reaching[k][~is_second], reaching[k][is_second]]

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        if not isinstance(self.depth, int) or not 0 < self.depth <= MAX_DEPTH:
            raise fitted.wrong("offsets_", f"are of trees whose depth is {self.depth!r}")
        n_nodes = self._n_nodes(n_features)
        fitted.array("directions_", np.float32, (n_nodes, n_features))
        fitted.array("offsets_", np.float32, (n_nodes,))

    def map_lanes(self, x: F32, out: F32) -> None:
        n_tree = min(2**self.depth - 1, max(1, len(self.offsets_)))
        z = out[:, : self.n_components]
        gates.gated(x, self.directions_, self.offsets_, n_tree, z)
