"""The figures of a report: all from the files, and one pass over the data if there are any."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamrf.engine import map_blocks
from streamrf.errors import DataError, ParameterError, SolveError
from streamrf.models import ClassErrors, CodeBook, ErrorSums, Model, Seed
from streamrf.report.base import Findings, ValueSample, Widths
from streamrf.solving import Tridiagonal, class_finding, nested, penalty_finding, width_finding
from streamrf.sources import Block, Source
from streamrf.statistics import RidgeProblem, Statistics, rounding_note

MIN_WIDTH, MAX_WIDTHS = 16, 7
MAX_POINTS = 1000  # rows of values that are drawn, about
MAX_SPECTRUM = 4096  # the time grows as the third power of the width


@dataclass(frozen=True)
class _Codes:
    """Target codes that are those of a model."""

    known: CodeBook

    @property
    def decode(self) -> str:
        return self.known.decode

    def book(self, n_classes: int, *, random_state: Seed = 0) -> CodeBook:
        """Return the model's own code book."""
        return self.known


def measure(
    model: Model | None,
    statistics: Statistics | None,
    source: Source | None,
    *,
    stage: Callable[[str], None],
    **options: Any,
) -> Findings:
    """Measure what a report shows.

    Parameters
    ----------
    model, statistics : one of them at least, of the same map if both; of statistics of more
        features than the model keeps, those of its features are measured
    source : rows with targets, or None
    stage : called with the name of what comes next
    options : of the pass over the source, see `Model.scored`
    """
    if model is None and statistics is None:
        raise ParameterError("a report needs a model, statistics, or both")
    if model is not None and statistics is not None:
        statistics = _of_features(model, statistics)
        _check_alike(model, statistics)
    if source is not None and not source.has_targets:
        raise DataError(f"{source.where} has no targets to compare with; name the dataset: y=")
    found = Findings(model, statistics)
    found.is_weighted = source is not None and source.has_weights
    narrow: list[tuple[int, Model]] = []
    if statistics is not None:
        try:
            narrow = _measure_sums(found, statistics, stage)
        except (DataError, SolveError) as error:  # a shard of one class is still worth a page
            found.omitted.append(f"These sums cannot be solved: {error}.")
    if source is not None and found.model is not None:
        with _timed(found, stage, "errors on the data"):
            _measure_errors(found, found.model, source, narrow, options)
    found.notes = list(_notes(found) if model is None else model.notes)
    if statistics is not None and found.path is not None and found.model is not None:
        tried: list[float] = found.path.alphas.tolist() if model is None else []
        found.notes += filter(None, [rounding_note(statistics, found.model, tried)])
    return found


def _notes(found: Findings) -> Iterator[str]:
    """Yield what one should doubt of the model of sums alone."""
    notes = []
    if found.path is not None:
        notes.append(penalty_finding(found.path.best_alpha(), found.path.alphas))
    if found.widths is not None and len(found.widths.widths) > 1:
        narrow, last = found.widths.widths[-2:].tolist()
        notes.append(width_finding(narrow, last, *found.widths.gcvs[-2:].tolist()))
    if found.error is not None and "confusion_matrix" in found.error:
        confusion = np.array(found.error["confusion_matrix"])
        labels = np.array(found.error["labels"])
        notes.append(class_finding(labels, confusion.sum(axis=1), confusion.sum(axis=0)))
    yield from filter(None, notes)


def _of_features(model: Model, statistics: Statistics) -> Statistics:
    """Return the statistics of the features that a pruned model keeps, if these hold them all."""
    index = {column: i for i, column in enumerate(statistics.encoder.columns.tolist())}
    kept = [index[column] for column in model.encoder.columns.tolist() if column in index]
    if not len(kept) == model.encoder.n_components < len(index):
        return statistics
    return statistics.select(kept)


def _check_alike(model: Model, statistics: Statistics) -> None:
    for name, digest in model.encoder.digests.items():
        if statistics.encoder.digests[name] != digest:
            raise ParameterError(
                f"the model and the statistics have different {name}, so they are not of one fit; "
                "report on each by itself"
            )
    ours, theirs = (
        None if side.labels is None else side.labels.tolist() for side in (model, statistics)
    )
    if ours != theirs:
        raise ParameterError("the model and the statistics have different labels")


@contextmanager
def _timed(found: Findings, stage: Callable[[str], None], name: str) -> Iterator[None]:
    stage(name)
    began = time.perf_counter()
    yield
    found.seconds[name] = time.perf_counter() - began


def _measure_sums(
    found: Findings, statistics: Statistics, stage: Callable[[str], None]
) -> list[tuple[int, Model]]:
    """Measure what the sums hold; return the models of narrower choices."""
    problem = _problem(statistics, found.model)
    with _timed(found, stage, "penalties"):
        path = problem.path()
        path.best_alpha()  # raises where there is none, before anything is told of the penalties
    if found.model is None:
        with _timed(found, stage, "model of the best penalty"):
            found.model = path.model()
    found.path = path
    if statistics.n_folds:
        try:
            with _timed(found, stage, "folds"):
                found.folds = problem.cross_validate()
        except (DataError, SolveError) as error:  # as of a fold without rows
            found.omitted.append(f"The folds cannot be left out in turn: {error}.")
    with _timed(found, stage, "spectrum"):
        found.spectrum = _spectrum(statistics, found.model)
    with _timed(found, stage, "narrower choices"):
        return _measure_widths(found, statistics)


def _problem(statistics: Statistics, model: Model | None) -> RidgeProblem:
    """Return the problem of sums with the code and the weights of blocks of the model."""
    codes = None if model is None or model.book is None else _Codes(model.book)
    return statistics.problem(codes).weighted(None if model is None else model.block_weights)


def _spectrum(statistics: Statistics, model: Model | None = None) -> np.ndarray:
    """Return the eigenvalues of the Gram of centred features, descending."""
    width = statistics.encoder.n_components
    if width > MAX_SPECTRUM:
        statistics = statistics.select(np.sort(nested(width)[:MAX_SPECTRUM]))
    gram = _problem(statistics, model).normal().full()
    return np.maximum(Tridiagonal(gram).eigenvalues()[::-1], 0.0)


def _measure_widths(found: Findings, statistics: Statistics) -> list[tuple[int, Model]]:
    """Judge nested choices of the features by generalised cross-validation."""
    width = statistics.encoder.n_components
    order = nested(width)
    widths = [w for w in 2 ** np.arange(31) if MIN_WIDTH <= w < width][1 - MAX_WIDTHS :]
    rows: list[tuple[float, ...]] = []
    models = []
    for n in map(int, widths):
        columns = np.sort(order[:n])
        path = _problem(statistics.select(columns), found.model).path()
        alpha = path.best_alpha()
        index = int(np.flatnonzero(path.alphas == alpha)[0])
        rows.append((n, alpha, path.gcv[index], path.dof[index]))
        models.append((n, _widened(path.solve(alpha), statistics, columns)))
    assert found.path is not None
    best = int(np.flatnonzero(found.path.alphas == found.path.best_alpha())[0])
    rows.append((width, found.path.alphas[best], found.path.gcv[best], found.path.dof[best]))
    found.widths = Widths(*(np.array(column) for column in zip(*rows, strict=True)))
    return models


def _widened(model: Model, statistics: Statistics, columns: np.ndarray) -> Model:
    """Return the model over all features, with coefficients of 0 for those it does not use."""
    coef = np.zeros((len(model.coef), statistics.encoder.n_components))
    coef[:, columns] = model.coef
    return replace(model, encoder=statistics.encoder, coef=coef)


def _measure_errors(
    found: Findings,
    model: Model,
    source: Source,
    narrow: list[tuple[int, Model]],
    options: dict[str, Any],
) -> None:
    """Try all models in one pass over the data."""
    penalised: list[Model] = []
    if found.path is not None and found.statistics is not None:
        alphas = found.path.alphas[np.isfinite(found.path.dof)]
        penalised = _problem(found.statistics, found.model).models(alphas)
    tried = [model, *(narrower for _, narrower in narrow), *penalised]
    sums, sample = _evaluated(tried, source, options)
    reports = [model.figures(sums[0]), *(one.report() for one in sums[1:])]
    if isinstance(sums[0], ClassErrors):
        found.curve = sums[0].curve()
    elif sample:
        found.sample = ValueSample.of(sample)
    found.error = reports[0]
    by_width = zip([n for n, _ in narrow], reports[1:], strict=False)
    found.errors_by_width = list(by_width)
    by_alpha = zip(penalised, reports[1 + len(narrow) :], strict=True)
    found.errors_by_alpha = [(solved.alpha, report) for solved, report in by_alpha]
    if found.widths is not None and found.errors_by_alpha:
        whole = dict(found.errors_by_alpha).get(float(found.widths.alphas[-1]))
        if whole is not None:
            found.errors_by_width.append((int(found.widths.widths[-1]), whole))


def _evaluated(
    models: Sequence[Model], source: Source, options: dict[str, Any]
) -> tuple[list[ErrorSums], list[tuple[np.ndarray, ...]]]:
    """Return the errors of models of one encoder, and some rows; each row is mapped once."""
    joint = replace(
        models[0],
        coef=np.concatenate([model.coef for model in models]),
        intercept=np.concatenate([model.intercept for model in models]),
        labels=None,
        book=None,
    )
    errors = [models[0].watching(), *(model.no_errors() for model in models[1:])]
    ends = np.cumsum([len(model.intercept) for model in models])[:-1]

    every = max(1, (source.n_rows or 0) // MAX_POINTS)
    sample: list[tuple[np.ndarray, ...]] = []

    def judge(block: Block) -> None:
        models[0].look(block, errors[0])
        parts = np.split(joint.outputs(block.X), ends, axis=1)
        some = block.positions % every == 0
        if models[0].book is None and some.any() and len(sample) < MAX_POINTS:
            assert block.y is not None
            weights = np.ones(len(block.X)) if block.weights is None else block.weights
            found = [block.y[some].copy(), weights[some].copy(), parts[0][some]]
            if models[0].posterior is not None:
                found.append(models[0].deviations(block.X[some]))
            sample.append(tuple(found))
        for model, part, sums in zip(models, parts, errors, strict=True):
            model.count(block, part if model.book is None else model.book.scores(part), sums)

    reading, run = joint.judging(source, **options)
    deque(map_blocks(reading, judge, run), maxlen=0)
    return errors, sample
