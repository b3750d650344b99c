"""Scoring of rows in a stream, in this process or on a cluster."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamrf.engine import Reading, RunOptions, fold, map_blocks, usual_rows
from streamrf.errors import BadRowError, DataError, ParameterError, ShapeError, check_choice
from streamrf.jit.arrays import Array, Floats
from streamrf.models.metrics import ErrorSums, Evaluation
from streamrf.models.oddities import Oddities, drifted, look, none_of, told
from streamrf.models.posterior import Posterior
from streamrf.preprocessing import Encoder, Moments
from streamrf.sources import (
    Block,
    Source,
    as_source,
    check_each_once,
    in_order,
    warn_of_unseen,
    without_targets,
)

SCORING = ("engine", "parts", "n_threads", "progress")  # of the options of a run
BLOCK_BYTES = 64 << 20  # rows, features or scores of a block
Rows = Source | ArrayLike  # to score: a source, or an array (n, n_features)


class Scorer(ABC):
    """What scores rows, block by block.

    Attributes
    ----------
    encoder : raw rows to features
    moments : of the columns of the rows that it was trained on, None where not known
    """

    encoder: Encoder
    moments: Moments | None = None

    @property
    def n_features(self) -> int:
        """Width of a raw row."""
        return self.encoder.n_features

    @property
    @abstractmethod
    def n_scores(self) -> int:
        """Scores of a row: classes or targets."""

    @property
    def n_outputs(self) -> int:
        """Outputs of a row, of which its scores are made."""
        return self.n_scores

    def scores(self, X: Array) -> Floats:
        """Return the closeness of rows X to each class (n, n_classes), or values (n, n_targets)."""
        return self._scores(self.encoder.raw(X))

    @abstractmethod
    def _scores(self, X: Array) -> Floats:
        """Return `scores` of the rows of a block, which were checked."""

    def reading(
        self,
        source: Rows,
        start: int = 0,
        stop: int | None = None,
        on_bad_rows: str = "raise",
        **options: Any,
    ) -> tuple[Reading, RunOptions]:
        """Return which rows to read and how; raise ShapeError for rows of another width."""
        labels = getattr(self, "labels", None)  # of what tells classes
        source = as_source(source).of_width(self.n_features).adapted(self.encoder.table, labels)
        if source.n_features != self.n_features:
            cure = "; leave out columns that are none of its features, such as targets (x=, --x)"
            raise ShapeError(
                f"{source.where} has {source.n_features} features, but the model was trained on "
                f"{self.n_features}{cure if source.n_features > self.n_features else ''}"
            )
        reading = Reading(source, start, stop, self._block_rows, on_bad_rows)
        return reading, RunOptions.of(options, SCORING)

    def reading_alone(self, source: Rows, *rows: Any, **options: Any) -> tuple[Reading, RunOptions]:
        """Return `reading` of rows whose targets and weights nobody asks for, whatever they are."""
        return self.reading(without_targets(as_source(source)), *rows, **options)

    @property
    def _block_rows(self) -> int:
        widths = self.encoder.n_components, self.n_features, self.n_scores, self.n_outputs
        row_bytes = 8 * max(widths)
        return int(np.clip(BLOCK_BYTES // row_bytes, 64, usual_rows(row_bytes)))

    def scored(
        self,
        source: Rows,
        start: int = 0,
        stop: int | None = None,
        *,
        compares_columns: bool = False,
        **options: Any,
    ) -> Generator[tuple[int, Floats], None, None]:
        """Yield the scores of blocks of rows in order, with the index of the first; few wait.

        Parameters
        ----------
        source : Source, or array (n, n_features)
        start, stop : rows ``[start, stop)``
        compares_columns : warn, in the end, of columns far from those of the rows trained on, for
            rows that should be like them all
        options : `on_bad_rows`, and `engine`, `parts`, `n_threads` and `progress` of `RunOptions`
        """
        reading, run = self.reading_alone(source, start, stop, **options)
        known = self.moments if compares_columns else None
        score = partial(self._score, known)
        return told(map_blocks(reading, score, run, 8 * self.n_scores), known)

    def _score(self, known: Moments | None, block: Block) -> tuple[Oddities, int, Floats]:
        return Oddities.of(block, known), block.position, self._scores_of(block)

    def _scores_of(self, block: Block) -> Floats:
        """Return the scores of a block; raise BadRowError where features or outputs overflow.

        Minus infinity is the score of a class that cannot be, so not all of a row are.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # which is told below
            scores = self._scores(block.X)
        bad = ~(scores < np.inf).all(axis=1) | (scores == -np.inf).all(axis=1)
        if bad.any():
            row = block.row + int(block.offsets[np.argmax(bad)])
            raise BadRowError(
                f"{block.where}, row {row}: it is so large that its features overflow, and has no"
                " score, or the model's numbers are; clean the data, or train with normalize="
                " (--normalize)"
            )
        return scores


class Predictor(Scorer):
    """What scores rows, counts the errors of its scores, and may know how uncertain they are.

    Attributes
    ----------
    posterior : or None
    book : code book, None where values are predicted
    block_weights : weights of the blocks of the map, or None
    """

    posterior: Posterior | None
    book: Any
    block_weights: Floats | None

    def judging(self, source: Rows, **options: Any) -> tuple[Reading, RunOptions]:
        """Return `reading` of rows that are judged: targets in the order learnt from.

        Those trained on go by keys known then.
        """
        reading, run = self.reading(source, **options)
        return replace(reading, source=in_order(reading.source, self.encoder.target_names)), run

    @abstractmethod
    def no_errors(self, return_std: bool = False) -> ErrorSums:
        """Return the sums of errors of no rows, for `count` to add to."""

    @abstractmethod
    def count(self, block: Block, scores: Floats, errors: ErrorSums) -> None:
        """Add the errors of the scores of a block with targets."""

    def evaluate(
        self,
        source: Rows,
        y: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        return_std: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """Return the errors on a source with targets, or on arrays X and y, in one pass.

        Parameters
        ----------
        y, weights : of the rows of an array
        return_std : count how many values lie within their intervals, as well; needs a model
            solved with ``uncertainty=True``, and n_components^2 operations a row
        source, options : see `scored`

        Returns
        -------
        dict with n_rows and n_rows_trained_on, those of them that the model was trained on (0 where
        its file does not say), n_values_unseen, cells of tables unlike those that columns were
        learnt from (levels unknown then), columns_drifted, the places of columns far from those of
        the rows trained on (see `Moments.drifted_columns`), and the figures below, as of
        `sklearn.metrics`.

        For classes: accuracy and error; balanced_error, 1 less the mean recall; labels and
        confusion_matrix (rows: true classes); top_k_accuracy, for k of 1 to 10; auc, of two classes
        or the mean of auc_by_class, each against the others. Areas are of histograms of the log
        odds, and auc_error bounds what their bins may cost. Of models with probabilities: log_loss,
        brier, calibration_error (15 bins of the greatest probability) and reliability, (mean
        probability, share right, weight) of each bin; else None.

        For values, means over the targets: rmse, mae and r2, of several targets also by_target, a
        dict of these for each, with its name as "target" where it has one; with `return_std` also
        coverage, the share of targets in the central interval of each level, and mean_std.

        Raises
        ------
        UnknownLabelError
            For a label that the model does not know.
        MergeError
            Where rows of one file would count twice.
        """
        source = as_source(source, y, weights)
        check_each_once(source)
        if not source.has_targets:
            raise DataError(f"{source.where} has no targets to compare with; name the dataset: y=")
        reading, run = self.judging(source, **options)
        evaluation = Evaluation(self._judge, self.watching(return_std))
        return self.figures(fold(reading, evaluation, Evaluation.update, run).errors)

    def _judge(self, block: Block, errors: ErrorSums) -> None:
        self.look(block, errors)
        self.count(block, self._scores_of(block), errors)

    def watching(self, return_std: bool = False) -> ErrorSums:
        """Return `no_errors` for `look`, too, to add to."""
        errors = self.no_errors(return_std)
        if self.moments is not None:
            errors.moments = none_of(self.moments)
        return errors

    def look(self, block: Block, errors: ErrorSums) -> None:
        """Add what is odd of a block."""
        errors.n_unseen += block.n_unseen
        if errors.moments is not None:
            look(block, errors.moments)

    def figures(self, errors: ErrorSums) -> dict[str, Any]:
        """Return what `evaluate` does of these errors, after warnings of what was odd."""
        report = errors.report()
        warn_of_unseen(errors.n_unseen)
        return report | {"columns_drifted": drifted(errors.moments, self.moments)}

    @abstractmethod
    def decide(self, scores: Floats) -> Array:
        """Turn scores into labels (n,), or values (n, n_targets) into (n,) if there is one."""

    def deviated(
        self, source: Rows, *, compares_columns: bool = False, **options: Any
    ) -> Generator[tuple[int, Floats, Floats], None, None]:
        """Yield the index of the first row of each block, its values and their deviations.

        The parameters are those of `scored`; see `predict` for the deviations.
        """
        self._checked_posterior()
        reading, run = self.reading_alone(source, **options)
        if run.engine is not None:
            raise ParameterError("deviations are computed in this process; leave out engine")
        known = self.moments if compares_columns else None

        def both(block: Block) -> tuple[Oddities, int, Floats, Floats]:
            values, deviations = self._scores_of(block), self.deviations(block.X)
            odd = Oddities.of(block, known)
            return odd, block.position, self.decide(values), self.decide(deviations)

        return told(map_blocks(reading, both, run), known)

    def deviations(self, X: Array) -> Floats:
        """Return the standard deviations of new targets at rows X (n, n_features) of numbers.

        Float64 (n, n_targets); see `predict`.
        """
        return self._checked_posterior().deviations(self._scaled(X), self._step)

    def _scaled(self, X: Array) -> Floats:
        """Return features; once more: little next to what is done with them."""
        Z = np.empty((len(X), self.encoder.n_components))
        self.encoder.scale(X, Z)
        return Z

    def novelty(self, source: Rows, kind: str = "leverage", **options: Any) -> Floats:
        """Return how unlike the rows summed each row is, by its features, float64 (n_rows,).

        Parameters
        ----------
        source : Source, or array (n, n_features); n_components^2 operations a row
        kind : "leverage", ``h = 1 / weight + (z - mean)^T (A + alpha I)^-1 (z - mean)`` with A the
            Gram of the centred features, for a row summed from 0 to 1, on average
            ``posterior.dof / weight``; or "mahalanobis", ``sqrt(weight h - 1)``, the distance to
            the mean in the metric of their covariance, penalised by ``alpha / weight``
        options : as in `scored`

        Raises
        ------
        ParameterError
            Another kind, or a model that was not solved with ``uncertainty=True``.
        """
        check_choice("kind", kind, ("leverage", "mahalanobis"))
        posterior = self._kept_posterior()
        reading, run = self.reading_alone(source, **options)
        parts = told(map_blocks(reading, self._leverages, run, 8))
        found = np.concatenate([leverages for (leverages,) in parts])
        is_leverage = kind == "leverage"
        return found if is_leverage else np.sqrt(np.maximum(found * posterior.weight - 1, 0.0))

    def _leverages(self, block: Block) -> tuple[Oddities, Floats]:
        found = self._kept_posterior().leverages(self._scaled(block.X), self._step)
        return Oddities.of(block), found

    @property
    def coef_variances(self) -> Floats:
        """Variances of the coefficients, in the units of `coef`, float64 (n_outputs, n)."""
        posterior = self._checked_posterior()
        own = np.outer(posterior.noise, posterior.inverse_diagonal)
        return own * self._step**2

    @property
    def _step(self) -> Floats:
        """Steps of the calibration in the unit that coefficients were penalised in."""
        return self.encoder.calibration.step * self.encoder.block_scales(self.block_weights)

    def _checked_posterior(self) -> Posterior:
        if self.book is not None:
            raise ParameterError(
                "return_std (--return-std) is for values, and this model predicts classes; how "
                "sure it is tells predict_proba (predict --probabilities)"
            )
        return self._kept_posterior()

    def _kept_posterior(self) -> Posterior:
        if self.posterior is None:
            raise ParameterError(
                "this model does not keep the covariance of its coefficients: solve its statistics "
                "with uncertainty=True (streamrf solve --uncertainty), or fit a "
                "RandomFeatureRegressor with it"
            )
        return self.posterior


def targets_card(labels: Array | None, n_targets: int) -> dict[str, str]:
    """Return what is predicted, for a `Card`."""
    if labels is None:
        return {"targets": f"{n_targets:,}"}
    return {"classes": f"{len(labels):,}"}
