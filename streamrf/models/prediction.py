"""Scoring of rows in a stream, in this process or on a cluster."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamrf.engine import Reading, RunOptions, fold, map_blocks
from streamrf.errors import DataError, ShapeError
from streamrf.jit.arrays import Array, Floats
from streamrf.models.scores import ErrorSums, Evaluation
from streamrf.preprocessing import Encoder
from streamrf.sources import Block, Source, as_source

BLOCK_BYTES = 64 << 20  # rows or features of a block
Rows = Source | ArrayLike  # to score: a source, or an array (n, n_features)


class Predictor(ABC):
    """What scores rows, block by block.

    Attributes
    ----------
    encoder : raw rows to features
    """

    encoder: Encoder

    @property
    def n_features(self) -> int:
        """Width of a raw row."""
        return self.encoder.n_features

    @property
    @abstractmethod
    def n_scores(self) -> int:
        """Scores of a row: classes or targets."""

    @abstractmethod
    def scores(self, X: Array) -> Floats:
        """Return the closeness of rows X to each class (n, n_classes), or values (n, n_targets)."""

    @abstractmethod
    def no_errors(self) -> ErrorSums:
        """Return the sums of errors of no rows, for `count` to add to."""

    @abstractmethod
    def count(self, block: Block, scores: Floats, errors: ErrorSums) -> None:
        """Add the errors of the scores of a block with targets."""

    def reading(
        self,
        source: Rows,
        start: int = 0,
        stop: int | None = None,
        on_bad_rows: str = "raise",
        **options: Any,
    ) -> tuple[Reading, RunOptions]:
        """Return which rows to read and how; raise ShapeError for rows of another width."""
        source = as_source(source).adapted(self.encoder.table)
        if source.n_features != self.n_features:
            raise ShapeError(
                f"{source.where} has {source.n_features} features, "
                f"but the model was trained on {self.n_features}"
            )
        return Reading(source, start, stop, self._block_rows, on_bad_rows), RunOptions(**options)

    @property
    def _block_rows(self) -> int:
        width = max(self.encoder.n_components, self.n_features)
        return int(np.clip(BLOCK_BYTES // (8 * width), 64, 4096))

    def scored(
        self, source: Rows, start: int = 0, stop: int | None = None, **options: Any
    ) -> Generator[tuple[int, Floats], None, None]:
        """Yield the scores of blocks of rows in order, with the index of the first; few wait.

        Parameters
        ----------
        source : Source, or array (n, n_features)
        start, stop : rows ``[start, stop)``
        options : `on_bad_rows`, and `engine`, `parts`, `n_threads` and `progress` of `RunOptions`
        """
        reading, run = self.reading(source, start, stop, **options)
        return map_blocks(reading, self._score, run, 8 * self.n_scores)

    def _score(self, block: Block) -> tuple[int, Floats]:
        return block.position, self.scores(block.X)

    def evaluate(
        self,
        source: Rows,
        y: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Return the errors on a source with targets, or on arrays X and y.

        Parameters
        ----------
        y, weights : of the rows of an array
        source, options : see `scored`

        Returns
        -------
        dict with n_rows and, for classes, accuracy, error, labels and confusion_matrix (rows: true
        classes); for values, rmse, mae and r2

        Raises
        ------
        UnknownLabelError
            For a label that was not seen in training.
        """
        source = as_source(source, y, weights)
        if not source.has_targets:
            raise DataError(f"{source.where} has no targets to compare with; name the dataset: y=")
        reading, run = self.reading(source, **options)
        evaluation = Evaluation(self._judge, self.no_errors())
        return fold(reading, evaluation, Evaluation.update, run).errors.report()

    def _judge(self, block: Block, errors: ErrorSums) -> None:
        self.count(block, self.scores(block.X), errors)
