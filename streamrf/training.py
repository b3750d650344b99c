"""One pass over a source: calibrate, add up, choose the penalty, solve."""

import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from streamrf import memory
from streamrf.codes import CodeBook
from streamrf.encoder import CALIBRATION_ROWS, Encoder, as_columns
from streamrf.engine import fold
from streamrf.errors import DataError, ParameterError, ShapeError
from streamrf.features import FeatureMap
from streamrf.holdout import MOST_BYTES, Holdout, Rows, as_rows
from streamrf.labels import as_labels, find_labels
from streamrf.ledger import Ledger
from streamrf.model import Model
from streamrf.solve import RELATIVE_ALPHAS, check_alpha
from streamrf.sources import Source
from streamrf.sources.base import Block, check_rows
from streamrf.statistics import Statistics, load_statistics
from streamrf.sums import BitSums, ClassSums, ExactGram, FloatGram, Sums, TargetSums, ValueSums

FALLBACK_ALPHA = 1e-3  # relative; where too few rows are held out to choose one
FEWEST_HELD = 10
SCORED_ROWS = 1024


class Pass:
    """A pass in progress: what `fold` adds blocks into.

    Parameters
    ----------
    statistics : where the rows go
    holdout : None, or what keeps some rows aside until `join`
    """

    def __init__(self, statistics: Statistics, holdout: Holdout | None = None):
        self.statistics = statistics
        self.holdout = holdout
        self._n_skipped = statistics.n_skipped
        self._features = np.empty((0, statistics.encoder.n_components))

    def update(self, block: Block) -> None:
        """Add a block; rows held out are counted by the ledger now and summed by `join`."""
        self.statistics.ledger.add(block.key, block.where, block.row, block.row + block.span)
        self._n_skipped += block.span - len(block.X)
        if not len(block.X):
            return
        for rows in [as_rows(block)] if self.holdout is None else self.holdout.take(block):
            self._sum(rows)

    def _sum(self, rows: Rows):
        encoder, sums = self.statistics.encoder, self.statistics.sums
        n = len(rows.X)
        if not n:
            return
        encoder.check_width(rows.X)
        calibration = encoder.calibration
        if len(self._features) < n or self._features.dtype != calibration.dtype:
            self._features = np.empty((n, encoder.n_components), dtype=calibration.dtype)
        Q = self._features[:n]
        roots = calibration.roots(rows.weights, n)
        n_clipped = encoder.encode(rows.X, roots, Q)
        y = rows.y
        if isinstance(sums.targets, ValueSums):
            y = calibration.targets(as_columns(y), roots)
        sums.add(Q, roots, y, n_clipped)

    def join(self) -> Statistics:
        """Add the rows held out and give the statistics."""
        if self.holdout is not None:
            for rows in self.holdout.release():
                self._sum(rows)
        return self.finished()

    def finished(self) -> Statistics:
        """Give the statistics of the rows summed so far."""
        self.statistics.sums.gram.release()
        self.statistics.sums.check_exact()
        return replace(self.statistics, n_skipped=self._n_skipped)

    def copy(self) -> "Pass":
        """Give a pass that goes on from here by itself."""
        statistics = self.statistics
        statistics = Statistics(
            statistics.encoder,
            statistics.sums.copy(),
            statistics.ledger + Ledger(),
            self._n_skipped,
        )
        return Pass(statistics, None if self.holdout is None else self.holdout.copy())

    def finish(
        self, alpha: float | str = "auto", codes=None, random_state: int = 0
    ) -> tuple[Model, Statistics]:
        """Choose the penalty, join the rows held out, and solve on all rows.

        Parameters
        ----------
        alpha : float, or "auto": the best of `RELATIVE_ALPHAS` on the rows held out
        codes, random_state : see `Statistics.solve`
        """
        history = self._score_alphas(codes, random_state) if alpha == "auto" else ()
        statistics = self.join()
        if alpha != "auto":
            check_alpha(alpha)
            chosen = float(alpha)
        elif history:
            chosen = min(history, key=lambda row: row[1:])[0]  # least error, then squared error
        else:
            chosen = FALLBACK_ALPHA * statistics.alpha_scale()
        model = statistics.solve(chosen, codes, random_state=random_state)
        return replace(model, history=tuple((a, figure) for a, figure, _ in history)), statistics

    def _score_alphas(self, codes, random_state):
        """Give (alpha, figure, mean squared error) on the rows held out for every alpha."""
        statistics = self.finished()
        held = [] if self.holdout is None else self.holdout.held
        labels = statistics.labels
        if sum(len(rows.X) for rows in held) < FEWEST_HELD or statistics.n_rows < FEWEST_HELD:
            return ()
        if labels is not None and len(labels) < 2:
            return ()
        book = statistics.book(codes, random_state)
        alphas = list(RELATIVE_ALPHAS * statistics.alpha_scale())
        models = statistics.models(alphas, book) if alphas[-1] > 0 else []
        return tuple((m.alpha, *_score(m, held)) for m in models)


def _score(model: Model, held: list[Rows]) -> tuple[float, float]:
    """Give the share of wrong labels (or the mean squared error) and the mean squared error."""
    wrong = squares = total = 0.0
    for rows in held:
        for start in range(0, len(rows.X), SCORED_ROWS):
            part = rows.where(slice(start, start + SCORED_ROWS))
            weights = np.ones(len(part.X)) if part.weights is None else part.weights
            outputs = model.outputs(part.X)
            if model.book is None:
                truth = as_columns(part.y)
            else:
                index, unknown = find_labels(model.labels, as_labels(part.y))
                found = model.book.scores(outputs).argmax(axis=1)
                wrong += weights @ ((found != index) | unknown)
                truth = model.book.matrix[index]
            squares += weights @ np.square(outputs - truth).mean(axis=1)
            total += weights.sum()
    total = total or 1.0
    figure = squares if model.book is None else wrong
    return float(figure / total), float(squares / total)


def begin(
    source: Source,
    features: FeatureMap | None,
    *,
    normalize: str | None = None,
    codes=None,
    classes=None,
    regression: bool = False,
    precision: str = "exact",
    on_bad_rows: str = "raise",
    like: Statistics | str | os.PathLike | None = None,
    hold_out: bool = False,
    random_state=None,
) -> Pass:
    """Calibrate on a peek at the source, or take the calibration of earlier statistics.

    Parameters
    ----------
    source : with targets
    features : an unfitted map; ignored with `like`
    normalize, precision, random_state : see `Encoder.calibrate`; ignored with `like`
    codes, classes : target codes and all labels; with fewer bits than classes, sum by bit
    regression : whether targets are values rather than classes
    on_bad_rows : "raise" or "skip"
    like : statistics, or their file, whose map and calibration to take
    hold_out : keep a share of the rows aside for the choice of alpha
    """
    if not source.has_targets:
        raise DataError(f"{source.where} has no targets to learn from; name the dataset: y=")
    if like is not None and not isinstance(like, Statistics):
        like = load_statistics(like)
    sample = check_rows(source.sample(CALIBRATION_ROWS), on_bad_rows)[0]
    if not len(sample.X):
        raise DataError(f"{source.where}: every calibration row holds NaN or infinity")
    _check_continuous(sample, regression)
    if like is not None:
        encoder = like.encoder
        if source.n_features != encoder.n_features:
            raise ShapeError(
                f"{source.where} has {source.n_features} features, "
                f"but the statistics to continue have {encoder.n_features}"
            )
        targets = like.sums.targets.zero_like()
    else:
        if features is None:
            raise ParameterError("accumulate needs a feature map, or like=, earlier statistics")
        encoder = Encoder.calibrate(
            features,
            sample,
            normalize=normalize,
            precision=precision,
            regression=regression,
            random_state=random_state,
        )
        targets = _empty_targets(encoder, source, codes, classes, regression, random_state)
    gram = (ExactGram if encoder.calibration.exact else FloatGram)(encoder.n_components)
    statistics = Statistics(encoder, Sums(gram, targets), Ledger())
    holdout = None
    if hold_out:
        holdout = Holdout(source.n_rows, sample.X.itemsize * sample.X.shape[1])
    return Pass(statistics, holdout)


def _check_continuous(sample, regression):
    """Refuse to take fractions for class labels, the usual sign of a forgotten regression."""
    y = np.asarray(sample.y)
    if not regression and y.dtype.kind == "f" and (y != np.floor(y)).any():
        raise DataError(
            f"{sample.where}: targets such as {y[y != np.floor(y)][0]!r} are not class labels; "
            "for values use RandomFeatureRegressor, regression=True or --regression"
        )


def _empty_targets(encoder, source, codes, classes, regression, random_state) -> TargetSums:
    """Choose how targets are summed: by value, by bit of an agreed book, or by class."""
    width = encoder.n_components
    if regression:
        n_targets = len(encoder.calibration.target_shift)
        return ValueSums.zero(width, n_targets, encoder.calibration.exact)
    if codes is not None and classes is not None:
        labels = np.unique(as_labels(np.asarray(classes)))
        if codes.n_outputs(len(labels)) < len(labels) and len(labels) > 2:
            book: CodeBook = codes.book(len(labels), random_state=random_state or 0)
            return BitSums.zero(width, labels, book.matrix)
    return ClassSums.zero(width, () if classes is None else classes)


def run(
    source: Source,
    pass_: Pass,
    *,
    codes=None,
    on_bad_rows: str = "raise",
    memory_limit: int | str | None = None,
    n_threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Fold the source into the pass; the memory needed is checked before the first read."""
    encoder = pass_.statistics.encoder
    n_outputs = codes.n_bits if hasattr(codes, "n_bits") else 32
    plan = memory.plan(
        encoder.n_components,
        encoder.n_features,
        n_outputs,
        exact=encoder.calibration.exact,
        held_bytes=0 if pass_.holdout is None else MOST_BYTES,
        memory_limit=memory_limit,
    )
    fold(
        source,
        pass_,
        Pass.update,
        block_rows=plan.block_rows,
        on_bad_rows=on_bad_rows,
        n_threads=n_threads,
        progress=progress,
    )


def accumulate(
    source: Source,
    features: FeatureMap | None = None,
    *,
    normalize: str | None = None,
    codes=None,
    classes=None,
    regression: bool = False,
    precision: str = "exact",
    on_bad_rows: str = "raise",
    like: Statistics | str | os.PathLike | None = None,
    memory_limit: int | str | None = None,
    n_threads: int | None = None,
    progress: Callable[[int], None] | None = None,
    random_state=None,
) -> Statistics:
    """Add up a source's rows in one pass.

    The result depends on the source, the map and its calibration alone: the same bytes for any
    block size and thread count (on rounded features).

    Parameters
    ----------
    source : Source with targets
    features : an unfitted feature map; not needed with `like`
    normalize : None, "l2", "max" or "standard", see `Preprocessing`
    codes, classes : target codes and all labels; where there are fewer bits than classes the sums
        are kept by bit, else by class, and any code can be chosen at the solve
    regression : whether the targets are values rather than classes
    precision : "exact" or "float64" (unrounded features, half the speed, exact to rounding only)
    on_bad_rows : "raise" or "skip" rows with NaN or infinity
    like : earlier statistics, or their file: take their map and calibration, so that both can be
        added
    memory_limit : bytes or a string such as "2 GiB"; None means four fifths of what is free
    n_threads : None means all
    progress : called with the number of rows done after each block
    random_state : int, RandomState or None; seeds the map if it has no seed of its own

    Raises
    ------
    StreamrfError
        Bad rows, a source without targets or rows, a memory need above the limit.
    """
    pass_ = begin(
        source,
        features,
        normalize=normalize,
        codes=codes,
        classes=classes,
        regression=regression,
        precision=precision,
        on_bad_rows=on_bad_rows,
        like=like,
        random_state=random_state,
    )
    run(
        source,
        pass_,
        codes=codes,
        on_bad_rows=on_bad_rows,
        memory_limit=memory_limit,
        n_threads=n_threads,
        progress=progress,
    )
    return pass_.join()
