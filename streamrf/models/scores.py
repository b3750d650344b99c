"""Mergeable sums of errors: what an evaluation adds up."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

import numpy as np

from streamrf.engine import Summary
from streamrf.errors import MergeError, ShapeError, UnknownLabelError
from streamrf.jit.arrays import Array, Floats, Indices
from streamrf.sources import Block, as_labels, find_labels


class ErrorSums(ABC):
    """Errors of the rows added so far; a commutative monoid like the sums of a pass."""

    n_rows: int

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
        self.errors = self.errors + total


def class_indices(labels: Array, y: Array) -> Indices:
    """Return the index in sorted `labels` of each true label; UnknownLabelError for others."""
    if np.ndim(y) != 1:
        raise ShapeError(f"y has shape {np.shape(y)}; labels are one a row, (n_rows,)")
    y = as_labels(y)
    index, unknown = find_labels(labels, y)
    if unknown.any():
        shown = labels.tolist() if len(labels) <= 20 else f"{len(labels)} labels"
        raise UnknownLabelError(
            f"label {y[unknown][0].item()!r} was not seen in training; the model knows {shown}"
        )
    return index


class ClassErrors(ErrorSums):
    """Confusion counts (weights where rows carry them).

    Parameters
    ----------
    labels : (n_classes,) sorted
    confusion : (n_classes, n_classes) float64, rows are the true classes
    """

    def __init__(self, labels: Array, confusion: Floats | None = None, n_rows: int = 0) -> None:
        k = len(labels)
        self.labels = labels
        self.confusion = np.zeros((k, k)) if confusion is None else confusion
        self.n_rows = n_rows

    def add(self, y: Array, predicted: Array, weights: Floats | None = None) -> None:
        """Add rows with true labels y (n,) and predicted class indices (n,)."""
        index = class_indices(self.labels, y)
        k = len(self.labels)
        cells = np.bincount(index * k + predicted, weights, minlength=k * k)
        self.confusion += cells.reshape(k, k)
        self.n_rows += len(index)

    def __add__(self, other: Self) -> Self:
        self._check_kind(other)
        if not np.array_equal(self.labels, other.labels):
            raise MergeError("the two sides are evaluations of models with different labels")
        return type(self)(self.labels, self.confusion + other.confusion, self.n_rows + other.n_rows)

    def report(self) -> dict:
        """Return n_rows, accuracy, error, labels and the confusion matrix (rows: true classes)."""
        total = self.confusion.sum()
        accuracy = float(np.trace(self.confusion) / total)
        return {
            "n_rows": self.n_rows,
            "accuracy": accuracy,
            "error": 1 - accuracy,
            "labels": self.labels.tolist(),
            "confusion_matrix": self.confusion.tolist(),
        }


class ValueErrors(ErrorSums):
    """Sums of errors of regression targets, each (n_targets,) float64.

    Means and deviations of the truth are merged by the formula of Chan, Golub and LeVeque (1979),
    so that a large common offset costs no digits.
    """

    def __init__(self, n_targets: int) -> None:
        zeros = np.zeros(n_targets)
        self.n_rows = 0
        self.weight = 0.0
        self.squares, self.absolutes, self.means, self.deviations = (zeros.copy() for _ in range(4))

    def add(self, y: Array, predicted: Array, weights: Floats | None = None) -> None:
        """Add rows with truth and prediction (n, n_targets)."""
        if y.shape[1] != predicted.shape[1]:
            raise ShapeError(f"rows have {y.shape[1]} targets, the model {predicted.shape[1]}")
        w = np.ones(len(y)) if weights is None else weights
        part = ValueErrors(len(self.squares))
        part.n_rows, part.weight = len(y), float(w.sum())
        if part.weight == 0:
            self.n_rows += part.n_rows
            return
        part.squares = w @ (predicted - y) ** 2
        part.absolutes = w @ np.abs(predicted - y)
        part.means = w @ y / part.weight
        part.deviations = w @ (y - part.means) ** 2
        vars(self).update(vars(self + part))

    def __add__(self, other: Self) -> Self:
        self._check_kind(other)
        if len(self.squares) != len(other.squares):
            raise MergeError(
                f"one side has {len(self.squares)} targets, the other {len(other.squares)}"
            )
        both = type(self)(len(self.squares))
        both.n_rows = self.n_rows + other.n_rows
        both.weight = self.weight + other.weight
        if both.weight == 0:
            return both
        apart = other.means - self.means
        both.squares = self.squares + other.squares
        both.absolutes = self.absolutes + other.absolutes
        both.means = self.means + apart * (other.weight / both.weight)
        both.deviations = self.deviations + other.deviations
        both.deviations += apart**2 * (self.weight * other.weight / both.weight)
        return both

    def report(self) -> dict:
        """Return n_rows, RMSE, MAE and R2, means over the targets (R2 as in scikit-learn)."""
        mean_square = self.squares / self.weight
        constant = self.deviations == 0
        safe = np.where(constant, 1.0, self.deviations)
        r2 = np.where(constant, np.where(self.squares == 0, 1.0, 0.0), 1 - self.squares / safe)
        return {
            "n_rows": self.n_rows,
            "rmse": float(np.sqrt(mean_square).mean()),
            "mae": float((self.absolutes / self.weight).mean()),
            "r2": float(r2.mean()),
        }
