"""Polynomial features of high degree by a binary tree of small sketches."""

import numpy as np
from numpy.random import Generator

from streamrf.errors import ParameterError
from streamrf.features.base import MAX_COMPONENTS, PolynomialMap, check_kernel, learn_kernel
from streamrf.features.seeds import random_signs
from streamrf.jit import hadamard
from streamrf.jit.arrays import F32, I32
from streamrf.jit.hadamard import padded_length
from streamrf.kernels import Polynomial
from streamrf.storage import Fields

ROW = -1  # instead of a slot: the row itself

Step = tuple[int, int, int, int, int, int]


class TreeSketch(PolynomialMap):
    """A sketch of the tensor product of `degree` times ``v = (sqrt(gamma) x, sqrt(coef0))``.

    A binary tree, as even as it can be, of `degree` leaves that are v itself. A node sketches the
    tensor product of its children u and w to m numbers ``(H D u)_i (H D' w)_j / sqrt(m)``, where D
    and D' flip signs, H is the Walsh-Hadamard matrix of the padded length and every pair (i, j) is
    another. Every node keeps products of pairs, so that the error grows with the degree, not
    exponentially in it as that of one product of `degree` factors.

    Parameters
    ----------
    kernel : Polynomial of degree 2 or more; None means ``Polynomial()``
    n_components : int; the inner nodes are as wide, rounded up to a power of two
    random_state : int, RandomState or None

    Attributes
    ----------
    kernel_ : the exact kernel
    steps_ : (degree - 1, 6) int64, the nodes, children first: slots of the left and right child
        (-1: the row), their lengths, slot of the result, its length
    signs_ : float32 of +-1, node by node, left before right
    picks_ : (sum of lengths, 2) int32, node by node, the pair (i, j) of each number

    Notes
    -----
    Ahle et al., Oblivious Sketching of High-Degree Polynomial Kernels, SODA 2020. Leaves are not
    sketched here, which costs no time below n_components and no variance.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> features = srf.TreeSketch(srf.Polynomial(2, gamma=0.5), 1000, random_state=0)
    >>> Z = features.fit_transform(np.eye(3))
    >>> Z.shape, bool(abs(Z @ Z.T - features.kernel_(np.eye(3))).max() < 0.2)
    ((3, 1000), True)
    """

    def draw(self, n_features: int, rng: Generator, sample: F32 | None) -> None:
        self.kernel_ = learn_kernel(self, Polynomial, sample)
        degree = len(self.kernel_.maclaurin()) - 1
        if degree < 2:
            raise ParameterError(
                f"TreeSketch is for degrees of 2 and more, got {self.kernel_!r}; "
                "RandomMaclaurin takes degree 1"
            )
        row = n_features + (self.kernel_.coef0 > 0)
        steps = self._plan(degree, row)
        self.steps_ = np.array(steps, dtype=np.int64)
        self.signs_ = random_signs(rng, int(self.steps_[:, 2:4].sum()))
        picks = [_pairs(n, padded_length(a), padded_length(b), rng) for _, _, a, b, _, n in steps]
        self.picks_ = np.concatenate(picks).astype(np.int32)

    def _plan(self, degree: int, row: int) -> list[Step]:
        """Return the steps of a tree of `degree` leaves; the root has the length of the map."""
        steps, _, _ = self._plan_node(degree, row, 0)
        return [*steps[:-1], (*steps[-1][:-1], self.n_components)]

    def _plan_node(self, degree: int, row: int, slot: int) -> tuple[list[Step], int, int]:
        """Return the steps of an inner node, the slot of its result and its length."""
        if degree == 1:
            return [], ROW, row
        before, left, a = self._plan_node((degree + 1) // 2, row, slot)
        after, right, b = self._plan_node(degree // 2, row, slot + (left != ROW))
        # all pairs are the product itself
        length = min(padded_length(self.n_components), padded_length(a) * padded_length(b))
        return [*before, *after, (left, right, a, b, slot, length)], slot, length

    def check_drawn(self, fitted: Fields, n_features: int) -> None:
        kernel = check_kernel(fitted, Polynomial)
        steps = fitted.array("steps_", np.int64, (None, 6))
        row = n_features + (kernel.coef0 > 0)
        plan = self._plan(len(steps) + 1, row) if len(steps) else []
        if not len(steps) or steps.tolist() != [list(step) for step in plan]:
            raise fitted.wrong("steps_", "is not the plan of a tree of this width")
        fitted.array("signs_", np.float32, (int(steps[:, 2:4].sum()),))
        counts = steps[:, 5]
        picks = fitted.indices("picks_", np.int32, (int(counts.sum()), 2), MAX_COMPONENTS)
        ends = np.array([[padded_length(int(n)) for n in pair] for pair in steps[:, 2:4]])
        if (picks >= np.repeat(ends, counts, axis=0)).any():
            raise fitted.wrong("picks_", "holds indices outside the children of its node")

    def map_lanes(self, x: F32, out: F32) -> None:
        scale, constant = self._roots()
        hadamard.tensor_tree(x, scale, constant, self.signs_, self.steps_, self.picks_, out)


def _pairs(count: int, a: int, b: int, rng: Generator) -> I32:
    """Draw `count` pairs of range(a) and range(b), each number equally often, none twice if it can.

    Sorted by the first, so that one of the two is read in order.
    """
    k = np.arange(count)
    rounds = -(-count // a)
    shifts = np.concatenate([rng.permutation(b) for _ in range(-(-rounds // b))])
    first = rng.permutation(a)[k % a]
    second = rng.permutation(b)[(k % a + shifts[k // a]) % b]
    order = np.lexsort((second, first))
    return np.stack((first[order], second[order]), axis=1)
