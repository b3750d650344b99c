"""Losses of classes other than the squared one, as a Newton step needs them.

All are functions of the margin ``m = t f`` of a row with code t of +-1 and output f. The objective
is ``sum_i w_i loss(m_i) + alpha |c|^2``, with alpha as in ridge regression: of scikit-learn's
``C sum loss + |c|^2 / 2`` it is ``1 / (2 C)``.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import scipy

from streamrf.errors import check_choice
from streamrf.jit.arrays import Floats

SQUARED = "squared"  # the word of the loss that one pass solves
MAX_STEP, WHOLE = 4.0, 0.25  # of a Newton step; a step so close to 1 is 1
BISECTIONS = 30


class Loss(ABC):
    """A convex loss.

    Attributes
    ----------
    word : the word of ``loss=``, in files too
    greatest : the greatest half second derivative
    """

    word: ClassVar[str]
    greatest: ClassVar[float]

    @abstractmethod
    def value(self, margins: Floats) -> Floats:
        """Return the loss of margins."""

    @abstractmethod
    def half_slope(self, margins: Floats) -> Floats:
        """Return half of the derivative."""

    @abstractmethod
    def curvature(self, margins: Floats) -> Floats:
        """Return half of the second derivative over its `greatest`: from 0 to 1."""


class SquaredHinge(Loss):
    """``max(0, 1 - m)^2``: the squared loss of the rows whose margin is below 1, and no other."""

    word = "squared_hinge"
    greatest = 1.0

    def value(self, margins: Floats) -> Floats:
        return np.square(np.maximum(1 - margins, 0.0))

    def half_slope(self, margins: Floats) -> Floats:
        return -np.maximum(1 - margins, 0.0)

    def curvature(self, margins: Floats) -> Floats:
        return (margins < 1).astype(np.float64)


class Logistic(Loss):
    """``log(1 + exp(-m))``."""

    word = "logistic"
    greatest = 1 / 8

    def value(self, margins: Floats) -> Floats:
        return np.logaddexp(0.0, -margins)

    def half_slope(self, margins: Floats) -> Floats:
        return -scipy.special.expit(-margins) / 2

    def curvature(self, margins: Floats) -> Floats:
        return 4 * scipy.special.expit(margins) * scipy.special.expit(-margins)


LOSSES: dict[str, type[Loss]] = {kind.word: kind for kind in (SquaredHinge, Logistic)}


def check_loss(word: object) -> None:
    """Raise ParameterError for a word that names no loss."""
    check_choice("loss", word, (SQUARED, *LOSSES))


def line_step(
    margins: Floats,
    moves: Floats,
    weights: Floats,
    slope: float,
    bend: float,
    loss: Loss,
    longest: float = MAX_STEP,
) -> float:
    """Return the step t above 0 that minimises ``t slope + bend t^2 / 2 + remainder(t)``, about.

    A step is taken whole unless the sample is sure that another is better. The slope is that of all
    rows, and a sample gives only what is beyond it, so the noise of the sample shrinks with the
    step (as in Johnson and Zhang, Accelerating Stochastic Gradient Descent using Predictive
    Variance Reduction, NIPS 2013).

    Parameters
    ----------
    margins, moves : (n,) of a sample of rows, and by how much a whole step changes them
    weights : (n,) that make the sample stand for all rows
    slope : half of the derivative of the objective along the step, of all rows; below 0
    bend : half of the second derivative of the penalty
    loss : the loss
    longest : greatest t
    """
    pull = weights * moves

    def half_slope(t: float) -> float:
        apart = loss.half_slope(margins + t * moves) - loss.half_slope(margins)
        return slope + bend * t + float(pull @ apart)

    low, high = 0.0, longest
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if half_slope(middle) < 0 else (low, middle)
    return 1.0 if abs(high - 1) < WHOLE else high
