"""What an evaluation of a classifier adds up: counts and histograms, no rows kept."""

from typing import Any, Self

import numpy as np

from streamrf.errors import MergeError, ShapeError, UnknownLabelError
from streamrf.jit.arrays import Array, Floats, Indices
from streamrf.models.metrics import ErrorSums, check_weight
from streamrf.models.probabilities import Probabilities
from streamrf.sources import as_labels, find_labels

MAX_TOP = 10  # of `top_k_accuracy`
CONFIDENCE_BINS = 15  # as in Guo et al. (2017)
UNIT = 2.0**24  # losses are summed in this share, as integers: exact for any order of the rows
MIN_LOG = float(np.log(np.finfo(np.float64).eps))  # least log probability, as in scikit-learn
MAX_POINTS = 400  # of a curve
ODDS_ENTRIES = 1 << 20  # of a histogram, over all classes
CACHED_ENTRIES = 1 << 14  # scores that are added up at a time, in arrays of which memory is kept
MIN_ODDS_BINS, MAX_ODDS_BINS = 256, 8192


def class_indices(labels: Array, y: Array) -> Indices:
    """Return the index in sorted `labels` of each true label; UnknownLabelError for others."""
    if np.ndim(y) != 1:
        raise ShapeError(f"y has shape {np.shape(y)}; labels are one a row, (n_rows,)")
    y = as_labels(y)
    index, unknown = find_labels(labels, y)
    if unknown.any():
        shown = labels.tolist() if len(labels) <= 20 else f"{len(labels)} labels"
        told = f"label {y[unknown][0].item()!r} is none that the model knows, which are {shown}"
        if (y.dtype.kind == "U") != (labels.dtype.kind == "U"):
            given, known = ("text", "numbers") if y.dtype.kind == "U" else ("a number", "text")
            told += f": it is {given}, and those are {known}; give labels as those trained on"
        raise UnknownLabelError(told)
    return index


class ClassErrors(ErrorSums):
    """Sums of what a classifier gets right and wrong; of weights where rows carry them.

    Without weights every sum is an integer, so it is the same for any order of the rows.

    Parameters
    ----------
    labels : (n_classes,) sorted
    probabilities : of the scores, or None: then the figures of probabilities are None
    margin : of the code

    Attributes
    ----------
    sums : by name: confusion (n_classes, n_classes), true classes in rows; ranks, of the true class
        among the scores; losses, logarithmic and Brier; confidences, by bin the weight of all rows,
        of those right, and the sum of the greatest probabilities; odds (2, n_curves, n_bins),
        histograms of the log odds of a class, over all rows and over its own
    """

    def __init__(
        self, labels: Array, probabilities: Probabilities | None = None, margin: float = 1.0
    ) -> None:
        k = len(labels)
        n_bins = int(np.clip(ODDS_ENTRIES // k, MIN_ODDS_BINS, MAX_ODDS_BINS))
        self.labels = labels
        self.probabilities = probabilities
        self.margin = margin
        self.n_rows = self.n_trained = self.n_unseen = 0
        self.sums: dict[str, Floats] = {
            "confusion": np.zeros((k, k)),
            "ranks": np.zeros(MAX_TOP + 1),
            "losses": np.zeros(2),
            "confidences": np.zeros((3, CONFIDENCE_BINS)),
            "odds": np.zeros((2, 1 if k == 2 else k, n_bins)),
        }

    def add(self, y: Array, predicted: Array, weights: Floats | None = None) -> None:
        """Add rows with true labels y (n,) and scores by class (n, n_classes)."""
        index = class_indices(self.labels, y)
        n, step = len(index), max(1, CACHED_ENTRIES // len(self.labels))
        w = np.ones(n) if weights is None else weights
        for start in range(0, n, step):
            rows = slice(start, start + step)
            self._add(index[rows], predicted[rows], w[rows])
        self.n_rows += n

    def _add(self, index: Indices, predicted: Floats, w: Floats) -> None:
        """Add a few rows, by the indices (n,) of their true labels."""
        k, n = len(self.labels), len(index)
        found = predicted.argmax(axis=1)
        np.add.at(self.sums["confusion"].reshape(-1), index * k + found, w)
        own = predicted[np.arange(n), index][:, np.newaxis]
        before = (predicted == own) & (np.arange(k) < index[:, np.newaxis])  # as argmax decides
        ranks = np.minimum(((predicted > own) | before).sum(axis=1), MAX_TOP)
        self.sums["ranks"] += np.bincount(ranks, w, minlength=MAX_TOP + 1)
        if self.probabilities is not None:
            self._add_losses(self.probabilities.log_of(predicted, self.margin), index, found, w)
        slope = (self.probabilities or Probabilities.default()).slope
        self._add_odds(slope / self.margin * predicted, index, w)

    def _add_losses(self, logs: Floats, index: Indices, found: Indices, w: Floats) -> None:
        """Add the losses of logarithms of probabilities (n, n_classes)."""
        rows = np.arange(len(index))
        likely = np.exp(logs)
        squares = np.square(likely).sum(axis=1) + 1 - 2 * likely[rows, index]
        losses = np.stack((-np.maximum(logs[rows, index], MIN_LOG), squares))
        self.sums["losses"] += np.rint(losses * UNIT) @ w
        sure = likely[rows, found]
        bins = np.clip(np.ceil(sure * CONFIDENCE_BINS).astype(np.int64) - 1, 0, None)
        bins = np.minimum(bins, CONFIDENCE_BINS - 1)
        for i, part in enumerate((w, w * (found == index), w * np.rint(sure * UNIT))):
            self.sums["confidences"][i] += np.bincount(bins, part, minlength=CONFIDENCE_BINS)

    def _add_odds(self, logits: Floats, index: Indices, w: Floats) -> None:
        """Count the log odds of the classes; of two classes, those of the second."""
        _, n_curves, n_bins = self.sums["odds"].shape
        column: int | Indices  # of the class of each of the rows
        if n_curves == 1:
            odds, rows, column = logits[:, 1:] - logits[:, :1], np.flatnonzero(index), 0
        else:
            odds, rows, column = log_odds(logits), np.arange(len(index)), index
        np.nan_to_num(np.arcsinh(odds, out=odds), copy=False)  # finest at 0; scores may overflow
        odds /= 1 + np.abs(odds)  # new memory costs more than the arithmetic
        odds += 1
        odds *= n_bins / 2
        bins = np.minimum(odds, n_bins - 1, out=odds).astype(np.int64)
        bins += n_bins * np.arange(n_curves)
        of_all, of_own = self.sums["odds"].reshape(2, -1)
        np.add.at(of_all, bins.reshape(-1), np.repeat(w, n_curves))
        np.add.at(of_own, bins[rows, column], w[rows])

    def __add__(self, other: Self) -> Self:
        self._check_kind(other)
        if not np.array_equal(self.labels, other.labels):
            raise MergeError("the two sides are evaluations of models with different labels")
        if (self.probabilities, self.margin) != (other.probabilities, other.margin):
            raise MergeError("the two sides are evaluations of models of other probabilities")
        both = type(self)(self.labels, self.probabilities, self.margin)
        both.n_rows = self.n_rows + other.n_rows
        both.n_trained = self.n_trained + other.n_trained
        both.n_unseen = self.n_unseen + other.n_unseen
        both.sums = {name: ours + other.sums[name] for name, ours in self.sums.items()}
        return both

    def report(self) -> dict:
        """Return the figures, see `Predictor.evaluate`."""
        confusion = self.sums["confusion"]
        total, true = confusion.sum(), confusion.sum(axis=1)
        check_weight(total)
        right = np.diagonal(confusion)
        accuracy = float(right.sum() / total)
        top = np.cumsum(self.sums["ranks"][: min(MAX_TOP, len(self.labels))])
        return {
            "n_rows": self.n_rows,
            "n_rows_trained_on": self.n_trained,
            "n_values_unseen": self.n_unseen,
            "accuracy": accuracy,
            "error": 1 - accuracy,
            "balanced_error": float(1 - np.mean(right[true > 0] / true[true > 0])),
            **self._of_probabilities(total),
            **self._of_curves(),
            "top_k_accuracy": (top / total).tolist(),
            "labels": self.labels.tolist(),
            "confusion_matrix": confusion.tolist(),
        }

    def curve(self) -> Floats | None:
        """Return points of the curves of two classes, the surest first; None where there are none.

        Returns
        -------
        (3, n_points) float64: of thresholds of the second class's probability, the share of the
        first class's rows above, of the second's (recall), and the second's share there (precision)
        """
        counts, own = self.sums["odds"][:, 0, ::-1]
        others = counts - own
        if len(self.labels) != 2 or not own.sum() or not others.sum():
            return None
        right, wrong = np.cumsum(own)[counts > 0], np.cumsum(others)[counts > 0]
        points = np.stack((wrong / others.sum(), right / own.sum(), right / (right + wrong)))
        some = np.unique(np.linspace(0, len(right) - 1, MAX_POINTS).astype(int))
        return points[:, some]

    def _of_probabilities(self, total: float) -> dict[str, Any]:
        if self.probabilities is None:
            return dict.fromkeys(("log_loss", "brier", "calibration_error", "reliability"))
        losses = self.sums["losses"] / (UNIT * total)
        weights, right, sure = self.sums["confidences"] / [[1], [1], [UNIT]]
        some = weights > 0
        parts = np.stack((sure[some] / weights[some], right[some] / weights[some], weights[some]))
        return {
            "log_loss": float(losses[0]),
            "brier": float(losses[1]) / (2 if len(self.labels) == 2 else 1),
            "calibration_error": float(np.abs(right - sure).sum() / total),
            "reliability": parts.T.tolist(),
        }

    def _of_curves(self) -> dict[str, Any]:
        """Return areas under the curves, and the greatest error that the bins can make."""
        own, others = self.sums["odds"][1], self.sums["odds"][0] - self.sums["odds"][1]
        pairs = own.sum(axis=1) * others.sum(axis=1)
        some = pairs > 0
        below = np.cumsum(others, axis=1) - others / 2
        areas = np.einsum("cb,cb->c", own, below)[some] / pairs[some]
        within = np.einsum("cb,cb->c", own, others)[some] / (2 * pairs[some])
        by_class: list[float | None] = [None] * len(some)
        for i, area in zip(np.flatnonzero(some), areas.tolist(), strict=True):
            by_class[i] = area
        return {
            "auc": float(areas.mean()) if len(areas) else None,
            "auc_error": float(within.mean()) if len(within) else None,
            "auc_by_class": by_class if len(by_class) > 1 else None,
        }


def log_odds(logits: Floats) -> Floats:
    """Return ``log(p / (1 - p))`` of ``p = softmax(logits)``, (n, n_classes), without saturation.

    ``t_c - log sum_(j != c) exp(t_j)``. For the greatest logit of a row the sum over the others is
    taken by itself; for the rest it is the sum of all less their own share.
    """
    rows, top = np.arange(len(logits)), logits.argmax(axis=1)
    shifted = logits - logits[rows, top][:, np.newaxis]
    left = np.exp(shifted)
    np.subtract(left.sum(axis=1)[:, np.newaxis], left, out=left)
    left[rows, top] = 1.0
    odds: Floats = np.subtract(shifted, np.log(left, out=left), out=left)
    shifted[rows, top] = -np.inf
    second = np.nan_to_num(shifted.max(axis=1))
    shifted -= second[:, np.newaxis]
    with np.errstate(divide="ignore"):  # the others may be infinitely far
        odds[rows, top] = -second - np.log(np.exp(shifted, out=shifted).sum(axis=1))
    return odds
