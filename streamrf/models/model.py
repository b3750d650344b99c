"""A trained model: encoder, code and coefficients; predicts and evaluates in a stream."""

import functools
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamrf import storage
from streamrf.display import Card
from streamrf.engine import Reading, RunOptions, map_blocks
from streamrf.errors import DataError, ParameterError, check_flag
from streamrf.jit.arrays import Array, Floats, Indices
from streamrf.models.class_metrics import ClassErrors, class_indices
from streamrf.models.codes import CodeBook
from streamrf.models.metrics import ErrorSums, ValueErrors, check_weight
from streamrf.models.oddities import Oddities, told
from streamrf.models.posterior import Posterior
from streamrf.models.prediction import Predictor, Rows, targets_card
from streamrf.models.probabilities import Probabilities
from streamrf.models.refinement import Refinement
from streamrf.preprocessing import Encoder, Moments, as_columns, known_moments
from streamrf.sources import Block, Ledger, as_labels, as_source, find_labels, known_by
from streamrf.storage import Fields, Tree, loading

KIND = "model"


@dataclass(frozen=True, repr=False)
class Model(Card, Predictor):
    """``outputs(x) = coef (z(x) - shift) / step + intercept``, decoded to labels or values.

    Parameters
    ----------
    encoder : raw rows to features
    coef : (n_outputs, n_components) float64, in steps of the calibration
    intercept : (n_outputs,) float64
    labels : (n_classes,) sorted, or None for regression
    book : code book of the labels, or None for regression
    alpha : penalty the coefficients were solved with, or (n_outputs,) of them
    n_rows : rows the model was trained on
    history : (alpha, figure on the held-out rows) of every penalty tried; empty if alpha was given
    posterior : covariance of the coefficients, or None unless solved with ``uncertainty=True``
    probabilities : what turns scores into probabilities, or None where no rows were held out
    block_weights : (n_blocks,) float64, weights of the kernels of the map's blocks that the model
        was solved with, or None for those of the map; the coefficients have them in already
    ledger : the rows it was trained on, without the names of their stores; None where not known
    notes : sentences on what the choice by rows held out should make one doubt
    estimator : settings of the estimator that it is the model of, a tree; None where it is of none
    refinement : how the coefficients came to be those of another loss, or None
    moments : of the columns of the rows it was trained on; None where not known, or too many

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> X = np.linspace(0, 3, 200)[:, None]
    >>> source = srf.ArraySource(X, X[:, 0] > 2)
    >>> model = srf.accumulate(source, srf.TreeSketch(n_components=16, random_state=0)).solve(0.01)
    >>> model.predict([[0.5], [2.9]]), model.evaluate(source)["accuracy"] > 0.9
    (array([False,  True]), True)
    """

    encoder: Encoder
    coef: Floats
    intercept: Floats
    labels: Any  # array or None, as `book` is
    book: CodeBook | None
    alpha: Any  # float or array
    n_rows: int
    history: tuple[tuple[float, float], ...] = ()
    posterior: Posterior | None = None
    probabilities: Probabilities | None = None
    block_weights: Floats | None = None
    ledger: Ledger | None = None
    notes: tuple[str, ...] = ()
    estimator: Tree | None = None
    refinement: Refinement | None = None
    moments: Moments | None = None

    def __post_init__(self) -> None:
        self.encoder.check_coef(self.coef, self.intercept)

    def card(self) -> dict[str, str]:
        """Return what a prompt shows: what is predicted, from how much."""
        is_one = np.ndim(self.alpha) == 0
        return {
            **self.encoder.card(),
            **targets_card(self.labels, len(self.intercept)),
            "rows": f"{self.n_rows:,}",
            "alpha": f"{float(self.alpha):.4g}" if is_one else "one for each output",
        }

    @property
    def n_scores(self) -> int:
        return self.n_outputs if self.labels is None else len(self.labels)

    @property
    def n_outputs(self) -> int:
        return len(self.intercept)

    def outputs(self, X: Array) -> Floats:
        """Return the raw outputs of rows X (n, n_features), float64 (n, n_outputs)."""
        return self._outputs(self.encoder.raw(X))

    def _outputs(self, X: Array) -> Floats:
        return self.encoder.linear(X, self.coef, self.intercept)

    def _scores(self, X: Array) -> Floats:
        if self.book is None:
            return self._outputs(X)
        if self._class_coef is None:
            return self.book.scores_by_row(self._outputs(X))
        return self.encoder.linear(X, *self._class_coef)  # once by classes, not twice by bits

    @functools.cached_property
    def _class_coef(self) -> tuple[Floats, Floats] | None:
        """Coefficients and intercepts of the scores, or None: not linear, or outputs cost less."""
        book, width = self.book, self.encoder.n_components
        if book is None or book.n_bits * (width + 2 * book.n_classes) < book.n_classes * width:
            return None
        return book.scoring(self.coef, self.intercept)

    def decide(self, scores: Floats) -> Array:
        if self.book is None:
            return scores[:, 0] if scores.shape[1] == 1 else scores
        return self.labels[scores.argmax(axis=1)]

    def restrict_classes(self, labels: ArrayLike) -> "Model":
        """Return the model that chooses from some of the classes only.

        The coefficients stay those learnt from all rows.

        Parameters
        ----------
        labels : two of the model's labels or more
        """
        if self.book is None:
            raise ParameterError("a regression model has no classes to choose from")
        wanted = np.unique(as_labels(np.asarray(labels)))
        if len(wanted) < 2:
            raise ParameterError(f"a choice takes two classes or more, got {wanted.tolist()}")
        index, unknown = find_labels(self.labels, wanted)
        if unknown.any():
            raise ParameterError(
                f"the model has no class {wanted[unknown][0].item()!r}; it knows "
                f"{self.labels.tolist()}"
            )
        book = self.book.restrict_classes(index)
        probabilities = self.probabilities
        if probabilities is not None:  # as steep for the scores themselves
            slope = probabilities.slope * book.margin / self.book.margin
            probabilities = replace(probabilities, slope=slope)
        return replace(self, labels=self.labels[index], book=book, probabilities=probabilities)

    def predict(
        self, source: Rows, *, return_std: bool = False, **options: Any
    ) -> Array | tuple[Floats, Floats]:
        """Return the label or value of each row of a source or array.

        Parameters
        ----------
        source : Source, or array (n, n_features)
        return_std : give the standard deviations of new targets of weight 1 as well, noise
            included: about 95 % of them lie within 2 deviations. Needs a model solved with
            ``uncertainty=True``; costs n_components^2 operations a row
        options : as in `scored`

        Returns
        -------
        (n,), or (n, n_targets) where there are several; with `return_std` two arrays of this shape
        """
        check_flag("return_std", return_std)
        if return_std:
            return self._with_deviations(source, **options)
        parts = [self.decide(scores) for _, scores in self.scored(source, **options)]
        return np.concatenate(parts)

    def _with_deviations(self, source: Rows, **options: Any) -> tuple[Floats, Floats]:
        """Return values and their standard deviations."""
        _, values, deviations = zip(*self.deviated(source, **options), strict=True)
        return np.concatenate(values), np.concatenate(deviations)

    def predict_proba(self, source: Rows, **options: Any) -> Floats:
        """Return the probability of each class, float64 (n, n_classes); `options` as in `scored`.

        The most probable class is the one that `predict` gives.

        Raises
        ------
        ParameterError
            If no probabilities were fitted, see `fit_probabilities`.
        """
        if self.book is None:
            raise ParameterError("a regression model has no probabilities; use return_std=True")
        if self.probabilities is None:
            raise ParameterError(
                "no rows were held out to fit probabilities on: fit with alpha='auto', or give "
                "rows that were not trained on to fit_probabilities(X, y)"
            )
        margin = self.book.margin
        scored = self.scored(source, **options)
        return np.concatenate([self.probabilities.of(scores, margin) for _, scores in scored])

    def fit_probabilities(
        self,
        source: Rows,
        y: ArrayLike | None = None,
        *,
        weights: ArrayLike | None = None,
        **options: Any,
    ) -> "Model":
        """Return the model with probabilities fitted on rows that it was not trained on.

        Parameters
        ----------
        source : Source with labels, or array (n, n_features); some hundred rows will do. Rows of a
            class that has no discriminant, for want of rows in training, are left out
        y, weights : of the rows of an array
        options : see `scored`; the scores of all rows are held

        Raises
        ------
        UnknownLabelError
            For a label that the model does not know.
        DataError
            If no row weighs anything.
        """
        if self.book is None:
            raise ParameterError("a regression model has no probabilities; use return_std=True")
        source = as_source(source, y, weights)
        if not source.has_targets:
            raise DataError(f"{source.where} has no labels to fit to; name the dataset: y=")
        book = self.book
        reading, run = self.reading(source, **options)

        def scored(block: Block) -> tuple[Oddities, Floats, Indices, Floats]:
            index = class_indices(self.labels, block.y)
            weight = np.ones(len(index)) if block.weights is None else block.weights
            known = ~book.is_absent[index]
            scores = self._scores(block.X)[known] / book.margin
            return Oddities(block.n_unseen), scores, index[known], weight[known]

        columns = zip(*told(map_blocks(reading, scored, run)), strict=True)
        scores, index, weight = (np.concatenate(column) for column in columns)
        check_weight(weight.sum())
        return replace(self, probabilities=Probabilities.fit(scores, index, weight))

    def score(self, source: Rows, y: ArrayLike | None = None, **options: Any) -> float:
        """Return the accuracy, or of values R2; the parameters are those of `evaluate`."""
        figures = self.evaluate(source, y, **options)
        return float(figures["r2" if self.book is None else "accuracy"])

    def decision_function(self, source: Rows, **options: Any) -> Floats:
        """Return scores by class, (n, n_classes); of two classes (n,), above 0 for the second."""
        if self.book is None:
            raise ParameterError("a regression model has no decision function; use predict")
        scores = np.concatenate([scores for _, scores in self.scored(source, **options)])
        return (scores[:, 1] - scores[:, 0]) / 2 if scores.shape[1] == 2 else scores

    def judging(self, source: Rows, **options: Any) -> tuple[Reading, RunOptions]:
        reading, run = super().judging(source, **options)
        if self.ledger is not None:
            reading = replace(reading, source=known_by(reading.source, self.ledger.ranges))
        return reading, run

    def no_errors(self, return_std: bool = False) -> ErrorSums:
        check_flag("return_std", return_std)
        if return_std:
            self._checked_posterior()
        if self.book is None:
            return ValueErrors(len(self.intercept), return_std, self.encoder.target_names)
        return ClassErrors(self.labels, self.probabilities, self.book.margin)

    def count(self, block: Block, scores: Floats, errors: ErrorSums) -> None:
        if self.ledger is not None:
            errors.n_trained += self.ledger.counts(block.key, block.row + block.offsets)
        if not isinstance(errors, ValueErrors):
            errors.add(block.y, scores, block.weights)
            return
        if block.y.dtype.kind == "U":
            raise DataError(f"{block.where} has strings as targets; this model has values")
        deviations = None
        if errors.has_deviations:
            deviations = self.deviations(block.X)
        errors.add(as_columns(block.y), scores, block.weights, deviations)

    def save(self, path: str | os.PathLike) -> None:
        """Write the model to an HDF5 file, atomically."""
        storage.write(path, KIND, self.to_tree())

    def to_tree(self) -> dict:
        """Return the model as a tree."""
        tree = {
            "encoder": self.encoder.to_tree(),
            "coef": self.coef,
            "intercept": self.intercept,
            "labels": self.labels,
            "book": None if self.book is None else self.book.to_tree(),
            "alpha": self.alpha,
            "n_rows": self.n_rows,
            "history": np.array(self.history, dtype=np.float64).reshape(-1, 2),
        }
        if self.posterior is not None:
            tree["posterior"] = self.posterior.to_tree()
        if self.probabilities is not None:
            tree["probabilities"] = self.probabilities.to_tree()
        if self.block_weights is not None:
            tree["block_weights"] = self.block_weights
        if self.ledger is not None:
            tree["ledger"] = self.ledger.to_tree()
        if self.notes:
            tree["notes"] = list(self.notes)
        if self.estimator is not None:
            tree["estimator"] = self.estimator
        if self.refinement is not None:
            tree["refinement"] = self.refinement.to_tree()
        if self.moments is not None:  # the encoder's table has the names
            tree["moments"] = replace(self.moments, names=()).to_tree()
        return tree

    @classmethod
    def from_tree(cls, tree: dict | Fields) -> "Model":
        """Rebuild from `to_tree`."""
        fields = Fields.of(tree)
        encoder = Encoder.from_tree(fields.tree("encoder"))
        inner = fields.maybe_tree("book")
        if inner is None:
            book, labels = None, fields.value("labels")
            if labels is not None:
                raise fields.wrong("labels", "are there without a book; expected null")
            n_outputs = len(encoder.calibration.target_shift)
        else:
            book = CodeBook.from_tree(inner)
            labels = fields.labels("labels", book.n_classes)
            n_outputs = book.n_bits
        coef = fields.array("coef", np.float64, (n_outputs, encoder.n_components))
        intercept = fields.array("intercept", np.float64, (n_outputs,))
        is_one = not fields.is_array("alpha")
        alpha: float | Floats = (
            fields.number("alpha", 0.0) if is_one else fields.weights("alpha", n_outputs)
        )
        n_rows = fields.integer("n_rows")
        history = tuple(map(tuple, fields.array("history", np.float64, (None, 2)).tolist()))
        posterior = probabilities = None
        if fields.is_tree("posterior"):
            inner = fields.tree("posterior")
            posterior = Posterior.from_tree(inner, encoder.n_components, n_outputs)
        if book is not None and fields.is_tree("probabilities"):
            probabilities = Probabilities.from_tree(fields.tree("probabilities"))
        weights = None
        if fields.is_array("block_weights"):
            weights = fields.weights("block_weights", int(encoder.features.blocks.max()) + 1)
        ledger = Ledger.from_tree(fields.tree("ledger")) if fields.is_tree("ledger") else None
        notes = tuple(fields.texts("notes")) if "notes" in fields.keys else ()
        estimator = fields.tree("estimator").rest() if fields.is_tree("estimator") else None
        refinement = None
        if fields.is_tree("refinement"):
            refinement = Refinement.from_tree(fields.tree("refinement"))
        moments = known_moments(fields, encoder) if fields.is_tree("moments") else None
        fields.end()
        model = cls(encoder, coef, intercept, labels, book, alpha, n_rows, history)
        return replace(
            model,
            posterior=posterior,
            probabilities=probabilities,
            block_weights=weights,
            ledger=ledger,
            notes=notes,
            estimator=estimator,
            refinement=refinement,
            moments=moments,
        )


def load_model(path: str | os.PathLike, features: Any = None) -> Model:
    """Read a model, also that of an estimator; raise FormatError if the file holds none.

    `features` is the code that the file names, if any; see `streamrf.load_model`.
    """
    tree = storage.read(path, KIND)
    with loading(path):
        model = Model.from_tree(Fields(tree, os.fspath(path)))
    model.encoder.attach(features)
    return model
