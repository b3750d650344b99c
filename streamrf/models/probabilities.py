"""Scores to probabilities: one slope, fitted on rows that the scores did not learn from.

``P(class c | x) = softmax(slope * scores(x) / margin)_c``, known as temperature scaling (Guo,
Pleiss, Sun and Weinberger, ICML 2017) and, for two classes, as Platt scaling without an offset. The
margin is that of the code, so that one slope means the same for all codes. One number keeps the
order of the classes, so the most probable class is the one predicted; an offset for each class
would not (design/0005-uncertainty.md).
"""

from dataclasses import dataclass

import numpy as np
import scipy

from streamrf.jit.arrays import Floats, Indices
from streamrf.storage import Fields

DEFAULT_SLOPE = 6.0  # found on the papers' data: 3 to 5 for two classes, 9 to 12 for ten
PRIOR_DEVIATION = 1.0  # of the logarithm of the slope: 10 rows weigh as much, 1,000 drown it
MAX_LOG_RATIO = 12.0  # of the slope to the default, either way
VALUES = 1 << 17  # that are computed with at a time


@dataclass(frozen=True)
class Probabilities:
    """What turns scores into probabilities.

    Parameters
    ----------
    slope : float above 0, of scores in units of the code's margin
    n_rows : rows of weight above 0 that it was fitted on; 0 where there were too few, and the
        default slope is taken
    """

    slope: float
    n_rows: int

    @classmethod
    def default(cls) -> "Probabilities":
        """Return what is right within a factor of 2 on the papers' data."""
        return cls(DEFAULT_SLOPE, 0)

    @classmethod
    def fit(cls, scores: Floats, index: Indices, weights: Floats) -> "Probabilities":
        """Fit the slope by the greatest posterior density.

        The prior, log-normal around the default slope, decides where there are few rows or all of
        them are right, which alone would ask for an infinite slope.

        Parameters
        ----------
        scores : (n, n_classes) float64, in units of the margin
        index : (n,) true classes
        weights : (n,), only their proportions matter; rows of weight 0 do not count
        """
        seen = weights > 0
        if not seen.all():
            scores, index, weights = scores[seen], index[seen], weights[seen]
        greatest = scores.max(axis=1)
        own = scores[np.arange(len(index)), index] - greatest
        weights = weights * (len(weights) / (weights.sum() or 1.0))
        default = np.log(DEFAULT_SLOPE)

        def loss(log_slope: float) -> float:
            slope = np.exp(log_slope)
            misfit = weights @ (_log_sums(slope, scores, greatest) - slope * own)
            return misfit + 0.5 * ((log_slope - default) / PRIOR_DEVIATION) ** 2

        bounds = (default - MAX_LOG_RATIO, default + MAX_LOG_RATIO)
        found = scipy.optimize.minimize_scalar(
            loss, bounds=bounds, method="bounded", options={"xatol": 1e-6}
        )
        return cls(float(np.exp(found.x)), len(index))

    def of(self, scores: Floats, margin: float) -> Floats:
        """Return the probability of each class, float64 (n, n_classes), rows adding up to 1."""
        return scipy.special.softmax(self.slope / margin * scores, axis=1)

    def log_of(self, scores: Floats, margin: float) -> Floats:
        """Return the logarithms of `of`, to full precision where a probability is close to 0."""
        return scipy.special.log_softmax(self.slope / margin * scores, axis=1)

    def to_tree(self) -> dict:
        """Return the numbers as a tree."""
        return dict(vars(self))

    @classmethod
    def from_tree(cls, tree: dict | Fields) -> "Probabilities":
        """Rebuild from `to_tree`."""
        fields = Fields.of(tree)
        slope, n_rows = fields.number("slope", above=0.0), fields.integer("n_rows")
        fields.end()
        return cls(slope, n_rows)


def _log_sums(slope: float, scores: Floats, greatest: Floats) -> Floats:
    """``log sum_c exp(slope * (scores_c - greatest))`` by row, a few at a time (many classes)."""
    n, n_classes = scores.shape
    n_rows = max(1, VALUES // n_classes)
    found = np.empty(n)
    for start in range(0, n, n_rows):
        rows = slice(start, start + n_rows)
        powers = np.exp(slope * (scores[rows] - greatest[rows, np.newaxis]))
        found[rows] = np.log(powers.sum(axis=1))
    return found
