"""Scoring of rows in a stream, in this process or on a cluster."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamrf.arrays import Array, Floats
from streamrf.encoding import Encoder
from streamrf.engine import Job, as_client, cut, map_in_order, stream, workers
from streamrf.errors import DataError, ParameterError, ShapeError
from streamrf.jit.threads import computing
from streamrf.models.scores import ErrorSums
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
        """Return the sums of errors of no rows, for `judge` to add to."""

    @abstractmethod
    def judge(self, block: Block, scores: Floats, errors: ErrorSums) -> None:
        """Add the errors of the scores of a block with targets."""

    def stream(self, source: Rows, **options: Any) -> Iterator[tuple[Block, Floats]]:
        """Return each block of a source or array with its scores; one more is read ahead.

        `options` are `start`, `stop`, `on_bad_rows` and `progress`, see `streamrf.engine.stream`.
        """
        source = as_source(source)
        self._check_width(source)
        for block in stream(source, block_rows=self._block_rows, **options):
            with computing():
                scores = self.scores(block.X)
            yield block, scores

    @property
    def _block_rows(self) -> int:
        width = max(self.encoder.n_components, self.n_features)
        return int(np.clip(BLOCK_BYTES // (8 * width), 64, 4096))

    def scored(
        self, source: Rows, *, engine: Any = None, parts: int | None = None, **options: Any
    ) -> Generator[tuple[int, Floats], None, None]:
        """Return the scores of rows in order, with the index of the first; holds few at a time.

        Parameters
        ----------
        source : Source, or array (n, n_features)
        engine : None, or a `distributed.Client` whose workers do it
        parts : shards on a cluster
        options : see `stream`
        """
        source = as_source(source)
        if engine is None:
            check_no_parts(parts)
            for block, scores in self.stream(source, **options):
                yield block.position, scores
            return
        yield from self._on_cluster(_ScoresJob, source, engine, parts, 8 * self.n_scores, options)

    def _on_cluster(
        self,
        kind: "type[_ModelJob]",
        source: Source,
        engine: Any,
        parts: int | None,
        row_bytes: int,
        options: dict,
    ) -> Iterator[Any]:
        """Return the summaries of shards in order."""
        self._check_width(source)
        client = as_client(engine)
        progress = options.pop("progress", None)
        window = options.pop("start", 0), options.pop("stop", None)
        shards = cut(source, window, parts, workers(client), row_bytes)
        yield from map_in_order(client, kind(self, source, options), shards, progress)

    def _check_width(self, source: Source) -> None:
        if source.n_features != self.n_features:
            raise ShapeError(
                f"{source.where} has {source.n_features} features, "
                f"but the model was trained on {self.n_features}"
            )

    def evaluate(
        self,
        source: Rows,
        y: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        engine: Any = None,
        parts: int | None = None,
        **options: Any,
    ) -> dict:
        """Return the errors on a source with targets, or on arrays X and y.

        Parameters
        ----------
        y, weights : of the rows of an array
        source, engine, parts, options : see `scored`

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
        if engine is None:
            check_no_parts(parts)
            return self._errors(source, options).report()
        errors = self.no_errors()
        for part in self._on_cluster(_ErrorsJob, source, engine, parts, 0, options):
            errors = errors + part
        return errors.report()

    def _errors(self, source: Source, options: dict) -> ErrorSums:
        errors = self.no_errors()
        for block, scores in self.stream(source, **options):
            self.judge(block, scores, errors)
        return errors


@dataclass(frozen=True)
class _ModelJob(Job):
    """What a worker needs to use a model."""

    model: Predictor
    source: Source
    options: dict

    def _window(self, start: int, stop: int) -> dict:
        return self.options | {"start": start, "stop": stop}


class _ScoresJob(_ModelJob):
    def summarise(self, start: int, stop: int, n_threads: int) -> tuple[int, Floats]:
        with computing(n_threads):
            scored = self.model.stream(self.source, **self._window(start, stop))
            return start, np.concatenate([scores for _, scores in scored])


class _ErrorsJob(_ModelJob):
    def summarise(self, start: int, stop: int, n_threads: int) -> ErrorSums:
        with computing(n_threads):
            return self.model._errors(self.source, self._window(start, stop))


def check_no_parts(parts: int | None) -> None:
    if parts is not None:
        raise ParameterError("parts is for a cluster: give engine=, or leave parts out")
