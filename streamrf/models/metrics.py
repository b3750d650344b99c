"""Mergeable sums of errors: what an evaluation adds up."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
import scipy

from streamrf.engine import Summary
from streamrf.errors import DataError, MergeError, ShapeError
from streamrf.jit.arrays import Array, Floats
from streamrf.preprocessing import Moments, check_spread, combined_moments
from streamrf.sources import Block

LEVELS = np.array([0.5, 0.8, 0.9, 0.95])  # of the intervals whose coverage is counted


class ErrorSums(ABC):
    """Errors of the rows added so far; a commutative monoid like the sums of a pass.

    Attributes
    ----------
    n_rows : int, rows added
    n_trained : int, those of them that the model was trained on
    n_unseen : int, cells of tables unlike those that columns were learnt from
    moments : of the columns, where they are compared with those of the rows trained on, or None
    """

    n_rows: int
    n_trained: int
    n_unseen: int
    moments: Moments | None = None

    @abstractmethod
    def add(self, y: Array, predicted: Array, weights: Floats | None = None) -> None:
        """Add rows: truth, prediction, and weights or None for 1 each."""

    @abstractmethod
    def __add__(self, other: Self) -> Self:
        """Join two evaluations."""

    def _check_kind(self, other: "ErrorSums") -> None:
        if type(self) is not type(other):
            raise MergeError(
                f"one side holds {type(self).__name__}, the other {type(other).__name__}"
            )

    @abstractmethod
    def report(self) -> dict:
        """Return the figures by name."""


def check_weight(total: float) -> None:
    """Raise DataError if there is nothing to divide errors by."""
    if not total:
        raise DataError("there are no rows to judge by, or all their weights are zero")


class Evaluation(Summary):
    """The errors of a judge on the rows added.

    Parameters
    ----------
    judge : ``judge(block, errors)`` adds the errors of a block; picklable for a cluster
    errors : of no rows
    """

    is_ordered = True  # errors of values are sums of floats

    def __init__(self, judge: Callable[[Block, ErrorSums], None], errors: ErrorSums):
        self._judge = judge
        self.errors = errors

    def update(self, block: Block) -> None:
        """Add the errors of a block."""
        self._judge(block, self.errors)

    def fresh(self) -> "Evaluation":
        """Return an evaluation that goes on from here by itself."""
        return Evaluation(self._judge, copy.deepcopy(self.errors))

    def sealed(self) -> ErrorSums:
        """Return the errors."""
        return self.errors

    def absorb(self, total: ErrorSums) -> None:
        """Add the errors of other rows."""
        moments = combined_moments(self.errors.moments, total.moments, 1)
        self.errors = self.errors + total
        self.errors.moments = moments


class ValueErrors(ErrorSums):
    """Sums of errors of regression targets, each (n_targets,) float64.

    Means and deviations of the truth are merged by the formula of Chan, Golub and LeVeque (1979),
    so that a large common offset costs no digits.

    Parameters
    ----------
    n_targets : targets of a row
    has_deviations : whether rows come with the standard deviations of their predictions
    names : of the targets, or empty
    """

    def __init__(
        self, n_targets: int, has_deviations: bool = False, names: Sequence[str] = ()
    ) -> None:
        self._names = tuple(names)
        zeros = np.zeros(n_targets)
        self.n_rows = self.n_trained = self.n_unseen = 0
        self.weight = 0.0
        self.has_deviations = has_deviations
        self.covered, self.widths = np.zeros((len(LEVELS), n_targets)), zeros.copy()
        self.low, self.high = zeros + np.inf, zeros - np.inf  # of the truth
        self.squares, self.absolutes, self.means, self.deviations = (zeros.copy() for _ in range(4))

    def add(
        self,
        y: Array,
        predicted: Array,
        weights: Floats | None = None,
        deviations: Floats | None = None,
    ) -> None:
        """Add rows with truth, prediction and perhaps its deviation, each (n, n_targets)."""
        if y.shape[1] != predicted.shape[1]:
            raise ShapeError(f"rows have {y.shape[1]} targets, the model {predicted.shape[1]}")
        w = np.ones(len(y)) if weights is None else weights
        part = ValueErrors(len(self.squares), self.has_deviations, self._names)
        part.n_rows, part.weight = len(y), float(w.sum())
        if part.weight == 0:
            self.n_rows += part.n_rows
            return
        part.low, part.high = y[w > 0].min(axis=0), y[w > 0].max(axis=0)
        part.squares = w @ (predicted - y) ** 2
        part.absolutes = w @ np.abs(predicted - y)
        part.means = w @ y / part.weight
        part.deviations = w @ (y - part.means) ** 2
        if deviations is not None:
            reach = scipy.special.ndtri((1 + LEVELS) / 2)[:, None, None] * deviations
            inside = np.abs(predicted - y) <= reach
            part.covered, part.widths = w @ inside, w @ deviations
        vars(self).update(vars(self + part))

    def __add__(self, other: Self) -> Self:
        self._check_kind(other)
        if len(self.squares) != len(other.squares):
            raise MergeError(
                f"one side has {len(self.squares)} targets, the other {len(other.squares)}"
            )
        both = type(self)(len(self.squares), self.has_deviations, self._names)
        both.n_rows = self.n_rows + other.n_rows
        both.n_trained = self.n_trained + other.n_trained
        both.n_unseen = self.n_unseen + other.n_unseen
        both.weight = self.weight + other.weight
        if both.weight == 0:
            return both
        both.low = np.minimum(self.low, other.low)
        both.high = np.maximum(self.high, other.high)
        apart = other.means - self.means
        both.squares = self.squares + other.squares
        both.absolutes = self.absolutes + other.absolutes
        both.means = self.means + apart * (other.weight / both.weight)
        both.deviations = self.deviations + other.deviations
        both.deviations += apart**2 * (self.weight * other.weight / both.weight)
        both.covered, both.widths = self.covered + other.covered, self.widths + other.widths
        return both

    def report(self) -> dict:
        """Return the figures, see `Predictor.evaluate`."""
        check_weight(self.weight)
        check_spread(self.low, self.high)
        mean_square = self.squares / self.weight
        constant = (self.deviations == 0) | (self.low == self.high)  # a mean is rounded
        safe = np.where(constant, 1.0, self.deviations)
        r2 = np.where(constant, np.where(self.squares == 0, 1.0, 0.0), 1 - self.squares / safe)
        figures = {
            "rmse": np.sqrt(mean_square),
            "mae": self.absolutes / self.weight,
            "r2": r2,
        }
        names = [{"target": name} for name in self._names] or [{}] * len(r2)
        each = [
            {**named, **{name: float(figure[k]) for name, figure in figures.items()}}
            for k, named in enumerate(names)
        ]
        shares = (self.covered / self.weight).mean(axis=1).tolist()
        intervals = {
            "coverage": dict(zip(map(str, LEVELS), shares, strict=True)),
            "mean_std": float((self.widths / self.weight).mean()),
        }
        return {
            "n_rows": self.n_rows,
            "n_rows_trained_on": self.n_trained,
            "n_values_unseen": self.n_unseen,
            **{name: float(figure.mean()) for name, figure in figures.items()},
            **({"by_target": each} if len(each) > 1 else {}),
            **(intervals if self.has_deviations else {}),
        }
