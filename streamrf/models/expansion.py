"""An exact kernel model of few rows: their kernel values, weighed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamrf.jit.arrays import Array, Floats
from streamrf.models.codes import CodeBook
from streamrf.models.prediction import Rows, Scorer
from streamrf.preprocessing import Encoder


@dataclass(frozen=True)
class KernelExpansion(Scorer):
    """``outputs(x) = sum_i coef_i K(rows_i, x) + intercept``, decoded to labels or values.

    Parameters
    ----------
    encoder : raw rows to scaled ones
    function : the sum, see `Kernel.expansion`
    intercept : (n_outputs,) float64
    labels : (n_classes,) sorted, or None for regression
    book : code book of the labels, or None for regression
    """

    encoder: Encoder
    function: Callable[[Array], Floats]
    intercept: Floats
    labels: Any = None
    book: CodeBook | None = None

    @property
    def n_scores(self) -> int:
        return len(self.intercept if self.labels is None else self.labels)

    def _scores(self, X: Array) -> Floats:
        outputs = self.function(self.encoder.preprocessing.apply(X)) + self.intercept
        return outputs if self.book is None else self.book.scores(outputs)

    def all_scores(self, source: Rows) -> Floats:
        """Return the scores of all rows of a source or array, (n, n_scores)."""
        none = np.empty((0, self.n_scores))
        return np.concatenate([none, *(scores for _, scores in self.scored(source))])
