"""Weights of blocks of features, by coordinate search on what the sums know of each choice.

A block of weight w has its features scaled by ``sqrt(w)``: one Gram answers for every weighted sum
of the blocks' kernels, by ``S A S``. At penalty alpha that is a penalty of ``alpha / w`` for the
block, so the search is over the logarithms of the penalties, on a lattice of half decades. It
begins where the best penalty for all blocks is, goes downhill block by block and with all blocks
together, first by decades and then by halves, tries to leave each block out, which small penalties
may be on a plateau far from, and takes no step that gains less than `MIN_GAIN`: so it ends soon,
and rounding cannot turn it.
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from streamrf.jit import cholesky, packed
from streamrf.jit.arrays import Floats, Indices
from streamrf.kernels import Kernel
from streamrf.solving.crossvalidation import squared_errors
from streamrf.solving.normal import Normal
from streamrf.solving.path import log_evidence
from streamrf.solving.reduced import Fit

# Of penalties, in half decades relative to the mean squared norm of a centred feature. A block that
# the greatest leaves next to nothing of is left out.
LEAST, GREATEST = -20, 6
STARTS = range(-16, 1, 4)
MIN_GAIN = 1e-3  # of the logarithm of an error

Score = Callable[[Floats], float]  # of the scales of the features; less is better
BlockWeights = ArrayLike | Kernel | str  # as users give them
Pairs = Callable[[], Iterable[tuple[Normal, Normal]]]


def left_out(pairs: Pairs, unit: Floats) -> Score:
    """Return the logarithm of the squared error on rows left out, by the scales of the features.

    Parameters
    ----------
    pairs : returns the normal equations of rows to learn from and of rows to predict, once or more
    unit : (n_outputs,), what a squared error of 1 counts
    """

    def score(scales: Floats) -> float:
        total = 0.0
        for learnt, held in pairs():
            solution = next(learnt.scaled(scales).path([1.0]), None)
            if solution is None:
                return np.inf
            _, v, b = solution
            total += float(squared_errors(held, held.full(), v, b) @ unit)
        return float(np.log(total)) if total > 0 else -np.inf

    return score


def evidence(normal: Normal, n_rows: float) -> Score:
    """Return minus twice the mean log evidence of rows and outputs, by the scales of features.

    Outputs that never vary are left out.
    """
    moments, squares = normal.centred_moments(), normal.centred_squares()
    varies = normal.varying()

    def score(scales: Floats) -> float:
        scaled = normal.scaled(scales)
        factor = scaled.factor(1.0)
        if factor is None:
            return np.inf
        m = np.asfortranarray((moments * scales).T, dtype=factor.dtype)
        solution = m.copy(order="F")
        cholesky.solve(factor, solution)
        diagonal = np.empty(len(scales))
        packed.diagonal(factor, diagonal)
        explained = np.einsum("jo,jo->o", m, solution, dtype=np.float64)
        norms = np.einsum("jo,jo->o", solution, solution, dtype=np.float64)
        fit = Fit(1.0, np.nan, 2 * float(np.log(diagonal).sum()), explained, norms)
        losses = np.maximum(squares - explained, 0.0)
        found = log_evidence(fit, losses, varies, n_rows, 1.0, len(scales))
        return -2 * float(found.sum()) / max(1, int(varies.sum())) / n_rows

    return score


def searched_weights(score: Score, normal: Normal, blocks: Indices) -> Floats:
    """Return the weights of least score at a penalty of 1, float64 (n_blocks,); 0 leaves one out.

    Parameters
    ----------
    score : `left_out` or `evidence`
    normal : whose features are weighed
    blocks : (n_components,) block of each feature
    """
    n_blocks, unit = int(blocks.max()) + 1, normal.mean_diagonal() or 1.0
    sizes = np.bincount(blocks, normal.diagonal(), n_blocks)
    varying = np.flatnonzero(sizes > 1e-12 * sizes.max())
    scores: dict[tuple[int, ...], float] = {}

    def weights(point: Indices) -> Floats:
        return 1 / (unit * 10.0 ** (point / 2))

    def of(point: Indices) -> float:
        key = tuple(point.tolist())
        if key not in scores:
            is_inside = min(key) >= LEAST and max(key) <= GREATEST
            scores[key] = score(np.sqrt(weights(point)[blocks])) if is_inside else np.inf
        return scores[key]

    point = min((np.full(n_blocks, start) for start in STARTS), key=of)
    directions = [np.ones(n_blocks, dtype=np.int64), *np.eye(n_blocks, dtype=np.int64)[varying]]
    step = 2
    while step:
        before = point
        for direction in directions:
            for move in (step * direction, -step * direction):
                while of(point + move) < of(point) - MIN_GAIN:
                    point = point + move
            without = np.where(direction, GREATEST, point)
            if of(without) < of(point) - MIN_GAIN:
                point = without
        if point is before:
            step //= 2
    found = weights(point)
    return found if (point == GREATEST).all() else np.where(point < GREATEST, found, 0.0)
