"""Scores on rows left out, from sums kept in folds: one pass trains the models of all folds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.engine import RunOptions, SideBySide, Summary, fold
from streamrf.errors import ParameterError, UnknownLabelError, check_choice
from streamrf.estimators.base import RandomFeatureEstimator, Rows, Values
from streamrf.models import ErrorSums, Model
from streamrf.solving import N_ALPHAS, SQUARED
from streamrf.sources import Block, Ledger, as_rows, as_source
from streamrf.statistics import MAX_FOLDS, KFoldSums, Statistics, kfold_index, packed_size
from streamrf.training import (
    INTERPRETER_BYTES,
    SolvePlan,
    accumulate,
    compared,
    is_auto_decode,
)

MIN_INNER = 3  # folds, of which two are left to choose a penalty by
CLEAR = 2.0  # standard errors, at most, of a difference of two counts of errors


def cross_val_score(
    source: Rows,
    estimator: RandomFeatureEstimator,
    y: Values = None,
    sample_weight: Values = None,
    *,
    cv: int = 5,
    scoring: str | None = None,
    engine: Any = None,
    parts: int | None = None,
) -> NDArray[np.float64]:
    """Return the score of each fold of the model trained on all others.

    The rows are read twice, for any number of folds: once to sum them by fold, and once to score
    each by the model that has not seen it. Exact: each model is that of the sums of its rows. With
    ``alpha="auto"`` each takes the penalty that is best by cross-validation on its own folds. What
    is learnt from a peek at the rows before a pass (scales, features="auto", a warp, the shares of
    classes for class_weight="balanced") is learnt once and shared by all folds. The fold of a row
    is a hash of its place in its store. Decoders that a fit compares are compared here, too: a fold
    takes the one that errs clearly less on the others.

    Parameters
    ----------
    source : Source with targets that can be read twice; array, table, see `fit`. It and the
        estimator may change places, as scikit-learn's function of this name has them
    estimator : `RandomFeatureClassifier` or `RandomFeatureRegressor`, fitted or not; not changed
    y, sample_weight : of the rows of an array or table
    cv : number of folds, 2 to 100, from 3 on with ``alpha="auto"``; each keeps sums of its own
    scoring : a figure of `Model.evaluate` such as "balanced_error", "auc" or "rmse", of those that
        are one number and need no probabilities; None means "accuracy" of classes, "r2" of values
    engine, parts : see `RunOptions`

    Returns
    -------
    float64 (cv,); NaN where the rows of a fold do not have the figure, as "auc" of one class

    Raises
    ------
    ParameterError
        A source that is read once, a figure that there is not, or settings without a model by fold.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> clf = srf.RandomFeatureClassifier(srf.TreeSketch(n_components=32), random_state=0)
    >>> scores = srf.cross_val_score(srf.ArraySource(X, X[:, 0] * X[:, 1] > 0), clf)
    >>> scores.shape, bool(scores.mean() > 0.85)
    ((5,), True)
    """
    if isinstance(source, RandomFeatureEstimator):
        source, estimator = estimator, source
    source = as_source(source, y, sample_weight)
    _check(source, estimator, cv)
    run = RunOptions(
        memory_limit=estimator.memory_limit,
        n_threads=estimator.n_threads,
        engine=engine,
        parts=parts,
    )
    settings = replace(estimator._settings(), hold_out=False, folds=cv)
    statistics = accumulate(source, settings=settings, run=run)
    _check_memory(statistics, estimator)
    codes = _compared(statistics, estimator)
    models = [_model(statistics, k, estimator, one) for one in codes for k in range(cv)]
    reading, _ = models[0].reading(source, on_bad_rows=estimator.on_bad_rows)
    scored = fold(reading, _Scoring(models, cv), _Scoring.update, run)
    reports = [errors.report() for errors in scored.errors]
    figures = _chosen([reports[start : start + cv] for start in range(0, len(reports), cv)])
    name = scoring
    if name is None:
        name = "r2" if models[0].book is None else "accuracy"
    known = [key for key in figures[0] if any(isinstance(one[key], float) for one in figures)]
    if isinstance(name, str) and name in set(figures[0]) - set(known):
        raise ParameterError(f"scoring={name!r}: no fold has it; there are {', '.join(known)}")
    check_choice("scoring", name, known)
    return np.array([figure[name] for figure in figures], dtype=np.float64)


def _check(source: Any, estimator: RandomFeatureEstimator, cv: int) -> None:
    """Raise ParameterError for what has no models by fold."""
    if not isinstance(estimator, RandomFeatureEstimator):
        raise ParameterError(
            f"estimator must be a RandomFeatureClassifier or RandomFeatureRegressor, got "
            f"{estimator!r}"
        )
    if not source.seekable:
        raise ParameterError(
            f"{source.where} gives its rows in order alone, and scores by fold read any of them"
            " again: give a source of files or arrays, or use accumulate(...,"
            " folds=5).cross_validate()"
        )
    if estimator.loss != SQUARED:
        raise ParameterError(
            f"loss={estimator.loss!r} reads the rows again for every model, and scores by fold come"
            " from one reading's sums; use cross_val_score of sklearn.model_selection, or leave "
            "loss out"
        )
    if estimator.prune is not None and estimator.block_weights is not None:
        raise ParameterError("prune= and block_weights= do not go together; leave one of them out")
    if not isinstance(cv, int | np.integer) or not 2 <= cv <= MAX_FOLDS:
        raise ParameterError(f"cv must be an integer from 2 to {MAX_FOLDS}, got {cv!r}")
    if isinstance(estimator.alpha, str) and cv < MIN_INNER:
        raise ParameterError(f"alpha='auto' needs cv={MIN_INNER} folds or more; name a penalty")


def _check_memory(statistics: Statistics, estimator: RandomFeatureEstimator) -> None:
    """Raise MemoryBudgetError if a fold's model outgrows the limit next to sums and Python."""
    is_auto, n_outputs = isinstance(estimator.alpha, str), len(statistics.sums.targets.sums)
    if statistics.labels is not None:
        n_outputs = getattr(estimator.codes, "n_bits", n_outputs)
    width, n_folds = statistics.sums.n_components, statistics.n_folds or 1
    sums = 8 * n_folds * (packed_size(width) + width * n_outputs)
    plan = SolvePlan(
        n_components=width,
        n_kept=estimator.prune,
        n_outputs=n_outputs,
        book_bytes=0,
        n_folds=statistics.n_folds or 0,
        n_left_out=N_ALPHAS if is_auto else 0,
        is_fixed=not is_auto,
        traces=False,
        uncertainty=False,
    )
    plan.check(estimator.memory_limit, INTERPRETER_BYTES + sums)


def _compared(statistics: Statistics, estimator: RandomFeatureEstimator) -> list[Any]:
    """Return codes by the decoders that a fit compares, the one that leads first."""
    compares = isinstance(estimator.alpha, str) or is_auto_decode(estimator.codes)
    is_of_classes = statistics.labels is not None
    return (
        compared(estimator.codes, statistics) if compares and is_of_classes else [estimator.codes]
    )


def _chosen(figures: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the figures of each fold by the decoder that errs clearly less on the other folds.

    Parameters
    ----------
    figures : by decoder and fold
    """
    if len(figures) == 1:
        return figures[0]
    wrong = np.array([[one["error"] * one["n_rows"] for one in of_folds] for of_folds in figures])
    others = wrong.sum(axis=1, keepdims=True) - wrong
    clear = others[0] - others > CLEAR * np.sqrt(others[0] + others)
    best = np.where(clear, others, np.inf)
    best[0] = others[0]
    return [figures[c][k] for k, c in enumerate(best.argmin(axis=0).tolist())]


def _model(statistics: Statistics, k: int, estimator: RandomFeatureEstimator, codes: Any) -> Model:
    """Return the model of all rows but those of fold k, of codes."""
    sums = statistics.sums
    assert isinstance(sums, KFoldSums)
    rest = replace(statistics, sums=sums.without(k), ledger=Ledger(), moments=None)
    alpha, is_auto = estimator.alpha, isinstance(estimator.alpha, str)
    if estimator.prune is not None:
        rest = rest.prune(estimator.prune, None if is_auto else alpha, codes)
    problem = rest.problem(codes).weighted(estimator.block_weights, 1.0 if is_auto else alpha)
    if is_auto:
        alpha = problem.cross_validate().best_alpha()
    return problem.solve(alpha)


class _Scoring(Summary):
    """The errors of models, each on the rows of its fold.

    Parameters
    ----------
    models : of every fold, once or for each of several decoders
    n_folds : how many folds there are
    """

    is_ordered = True  # errors of values are sums of floats

    def __init__(self, models: Sequence[Model], n_folds: int) -> None:
        self._models, self._n_folds = models, n_folds
        self.errors: tuple[ErrorSums, ...] = tuple(model.no_errors() for model in models)

    def update(self, block: Block) -> None:
        """Add the errors of a block's rows."""
        folds = kfold_index(as_rows(block).indices, self._n_folds)
        for place, (model, errors) in enumerate(zip(self._models, self.errors, strict=True)):
            k = place % self._n_folds
            rows = np.flatnonzero(folds == k)
            if len(rows):
                part = block.take(rows)
                try:
                    model.count(part, model.scores(part.X), errors)
                except UnknownLabelError as error:
                    raise UnknownLabelError(
                        f"fold {k} has all rows of a class: {error}; give another number of folds "
                        "(cv=), or join rare classes"
                    ) from error

    def fresh(self) -> "_Scoring":
        """Return a scoring that begins anew."""
        return _Scoring(self._models, self._n_folds)

    def sealed(self) -> SideBySide:
        """Return the errors."""
        return SideBySide(self.errors)

    def absorb(self, total: SideBySide) -> None:
        """Add the errors of other rows."""
        self.errors = (SideBySide(self.errors) + total).parts
