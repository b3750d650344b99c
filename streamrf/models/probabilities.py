"""Scores to probabilities: one slope, fitted on rows that the scores did not learn from.

``P(class c | x) = softmax(slope * scores(x) / margin)_c``, known as temperature scaling (Guo,
Pleiss, Sun and Weinberger, ICML 2017) and, for two classes, as Platt scaling without an offset. The
margin is that of the code, so that one slope means the same for all codes. One number keeps the
order of the classes, so the most probable class is the one predicted; an offset for each class
would not (design/0005-uncertainty.md).
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from streamrf.storage import Fields

USUAL_SLOPE = 6.0  # found on the papers' data: 3 to 5 for two classes, 9 to 12 for ten
PRIOR_DEVIATION = 1.0  # of the logarithm of the slope: 10 rows weigh as much, 1,000 drown it
WIDEST = 12.0  # of the logarithm, either side


@dataclass(frozen=True)
class Probabilities:
    """What turns scores into probabilities.

    Parameters
    ----------
    slope : float above 0, of scores in units of the code's margin
    n_rows : rows it was fitted on; 0 where there were too few, and the usual slope is taken
    """

    slope: float
    n_rows: int

    @classmethod
    def usual(cls) -> "Probabilities":
        """Give what is right within a factor of 2 on the papers' data."""
        return cls(USUAL_SLOPE, 0)

    @classmethod
    def fit(cls, scores: np.ndarray, index: np.ndarray, weights: np.ndarray) -> "Probabilities":
        """Fit the slope by the greatest posterior density.

        The prior, log-normal around the usual slope, decides where there are few rows or all of
        them are right, which alone would ask for an infinite slope.

        Parameters
        ----------
        scores : (n, n_classes) float64, in units of the margin
        index : (n,) true classes
        weights : (n,), only their proportions matter
        """
        own = scores[np.arange(len(index)), index]
        weights = weights * (len(weights) / (weights.sum() or 1.0))
        usual = np.log(USUAL_SLOPE)

        def loss(log_slope):
            slope = np.exp(log_slope)
            misfit = weights @ (logsumexp(slope * scores, axis=1) - slope * own)
            return misfit + 0.5 * ((log_slope - usual) / PRIOR_DEVIATION) ** 2

        bounds = (usual - WIDEST, usual + WIDEST)
        found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6})
        return cls(float(np.exp(found.x)), len(index))

    def of(self, scores: np.ndarray, margin: float) -> np.ndarray:
        """Give the probability of each class, float64 (n, n_classes), rows adding up to 1."""
        return softmax(self.slope / margin * scores, axis=1)

    def to_tree(self) -> dict:
        """Give the numbers as a tree."""
        return dict(vars(self))

    @classmethod
    def from_tree(cls, tree: dict | Fields) -> "Probabilities":
        """Rebuild from `to_tree`."""
        fields = Fields.of(tree)
        slope, n_rows = fields.number("slope", above=0.0), fields.integer("n_rows")
        fields.end()
        return cls(slope, n_rows)
