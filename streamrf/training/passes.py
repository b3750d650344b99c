"""One pass over a source: calibrate, add up, choose the penalty, solve."""

import functools
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from streamrf.encoding import CALIBRATION_ROWS, Encoder, as_columns, calibration_class
from streamrf.engine import fold
from streamrf.errors import (
    CheckpointError,
    DataError,
    EmptySourceError,
    ParameterError,
    ShapeError,
)
from streamrf.features import FeatureMap
from streamrf.jit.threads import computing
from streamrf.models import CodeBook, ErrorCorrectingCodes, Model, Probabilities, check_decode
from streamrf.solving import RELATIVE_ALPHAS, check_kept
from streamrf.sources import Block, Source, as_labels, check_rows
from streamrf.statistics import (
    TOTALS,
    BitSums,
    ClassSums,
    CompactGram,
    FoldedSums,
    GramSum,
    Ledger,
    Statistics,
    Sums,
    TargetSums,
    ValueSums,
    check_folds,
    gram_class,
    load_statistics,
    packed_size,
)
from streamrf.storage import Fields, loading, to_tree
from streamrf.training import memory, shards
from streamrf.training.checkpoint import EVERY, Keeper
from streamrf.training.holdout import MOST_BYTES, Holdout, Rows, as_rows
from streamrf.training.selection import FEWEST_HELD, best, fitted_probabilities, searched

FALLBACK_ALPHA = 1e-3  # relative; where too few rows are held out to choose one


class Pass:
    """A pass in progress: what `fold` adds blocks into.

    Parameters
    ----------
    statistics : where the rows go
    holdout : None, or what keeps some rows aside until `join`
    keeper : None, or what keeps the pass on disk while it runs
    """

    def __init__(
        self,
        statistics: Statistics,
        holdout: Holdout | None = None,
        keeper: Keeper | None = None,
    ):
        self.statistics = statistics
        self.holdout = holdout
        self.keeper = keeper
        self._n_skipped = statistics.n_skipped
        self._features = np.empty((0, statistics.encoder.n_components))

    def update(self, block: Block) -> None:
        """Add a block; rows held out are counted by the ledger now and summed by `join`."""
        misfit = _misfit(block, self.statistics)
        if misfit is not None:
            raise DataError(f"{block.where}, row {block.row}: {misfit}")
        self.statistics.sums.targets.check(block.y)  # now, as rows held out are summed much later
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
        with computing():
            sums.add(Q, roots, y, n_clipped, rows.places)

    def join(self) -> Statistics:
        """Add the rows held out and give the statistics."""
        if self.holdout is not None:
            for rows in self.holdout.release():
                self._sum(rows)
        return self.finished()

    def finished(self) -> Statistics:
        """Give the statistics of the rows summed so far."""
        with computing():
            self.statistics.sums.release()
            self.statistics.sums.check_exact()
        return replace(self.statistics, n_skipped=self._n_skipped)

    def absorb(self, statistics: Statistics, holdouts: Iterable[Holdout]) -> None:
        """Go on from what copies of this pass, when it was new, have added up of other rows."""
        self.statistics = Statistics(
            self.statistics.encoder,
            statistics.sums.writable(),  # what has come over a network may not be
            statistics.ledger,
        )
        self._n_skipped = statistics.n_skipped
        if self.holdout is not None:
            for rows in self.holdout.absorb(holdouts):
                self._sum(rows)

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

    def to_tree(self) -> dict:
        """Give the state between two blocks as a tree."""
        return {
            "statistics": replace(self.statistics, n_skipped=self._n_skipped).to_tree(),
            "holdout": None if self.holdout is None else self.holdout.to_tree(),
        }

    @classmethod
    def from_tree(cls, tree: dict | Fields, keeper: Keeper | None = None) -> "Pass":
        """Rebuild from `to_tree`."""
        fields = Fields.of(tree)
        statistics = Statistics.from_tree(fields.tree("statistics"))
        held = fields.maybe_tree("holdout")
        fields.end()
        holdout = None
        if held is not None:
            holdout = Holdout.from_tree(held, statistics.encoder.n_features)
            for rows in holdout.held:
                _check_held(held, rows, statistics)
        return cls(statistics, holdout, keeper)

    def finish(
        self,
        alpha="auto",
        codes=None,
        random_state: int = 0,
        *,
        prune: int | None = None,
        uncertainty: bool = False,
    ) -> tuple[Model, Statistics]:
        """Choose the penalty, join the rows held out, and solve on all rows.

        Parameters
        ----------
        alpha : float or (n_outputs,) floats, or "auto": the best of `RELATIVE_ALPHAS` on the rows
            held out, which also fit the probabilities of classes
        prune : features that the model keeps, see `Statistics.prune`; None means all. With "auto"
            the rows held out have no say in which, so that they choose the penalty fairly: first
            one to prune with, then one for the features kept.
        codes, random_state, uncertainty : see `Statistics.solve`

        Returns
        -------
        Model, and the Statistics of all features
        """
        settings: dict[str, Any] = {"uncertainty": uncertainty, "random_state": random_state}
        by = {"codes": codes, "random_state": random_state}
        if not (isinstance(alpha, str) and alpha == "auto"):
            statistics = self.join()
            kept = statistics
            if prune is not None:
                kept = statistics.prune(prune, float(np.mean(alpha)), **by)
            return kept.solve(alpha, codes, **settings), statistics
        held = self._held()
        kept = self.finished()
        trials = _trials(kept, held, **by)
        if trials and prune is not None:
            kept = kept.prune(prune, best(trials).model.alpha, **by)
            trials = _trials(kept, held, **by)
        probabilities = Probabilities.usual()
        if trials:
            leader = best(trials).model
            chosen = leader.alpha
            if leader.book is not None:
                probabilities = fitted_probabilities(leader, held)
        statistics = self.join()
        if not trials:
            scale = statistics.alpha_scale()
            chosen = FALLBACK_ALPHA * (scale if scale > 0 else 1.0)  # 0: features that never vary
        if prune is None:
            kept = statistics
        elif trials:
            kept = statistics.select(np.flatnonzero(np.isin(statistics.picks, kept.picks)))
        else:
            kept = statistics.prune(prune, chosen, **by)
        model = kept.solve(chosen, codes, **settings)
        history = tuple((trial.model.alpha, trial.figure) for trial in trials)
        fitted = None if model.book is None else probabilities
        return replace(model, history=history, probabilities=fitted), statistics

    def _held(self) -> list[Rows]:
        """Give the rows held out, joined as far as they can be."""
        if self.holdout is None:
            return []
        self.holdout.join()
        return self.holdout.held


def _trials(statistics, held, codes, random_state):
    """Give how every penalty fares on the rows held out; nothing where they are too few."""
    labels = statistics.labels
    n_held = sum(len(rows.X) for rows in held)
    enough = min(n_held, statistics.n_rows) >= FEWEST_HELD
    if not enough or (labels is not None and len(labels) < 2):
        return []
    book = statistics.book(codes, random_state)
    alphas = (RELATIVE_ALPHAS * statistics.alpha_scale()).tolist()
    if not alphas[-1] > 0:
        return []
    return searched(functools.partial(statistics.models, book=book), alphas, held)


def _check_held(fields: Fields, rows: Rows, statistics: Statistics) -> None:
    """Refuse rows of a file that are not of the kind that its statistics sum."""
    misfit = _misfit(rows, statistics)
    if misfit is not None:
        raise fields.wrong("held", f"has rows that the sums cannot take: {misfit}")


def _misfit(rows: Block | Rows, statistics: Statistics) -> str | None:
    """Say why the sums cannot take rows, by the form of their targets and weights."""
    targets = statistics.sums.targets
    if not isinstance(targets, ValueSums):
        if rows.y.ndim != 1:
            return f"y has shape {('n', *rows.y.shape[1:])}; labels are one a row, ('n',)"
    elif rows.y.dtype.kind == "U":
        return "the targets are strings; expected numbers"
    elif as_columns(rows.y[:0]).shape[1] != len(targets.sums):
        n_targets = as_columns(rows.y[:0]).shape[1]
        return f"rows have {n_targets} targets, the sums began with {len(targets.sums)}"
    if (rows.weights is None) != (statistics.encoder.calibration.mean_weight is None):
        now, then = ("no weights", "some") if rows.weights is None else ("weights", "none")
        return f"rows have {now}, the sums began with {then}; give all rows weights, or none"
    return None


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
    folds: int | None = None,
    totals: str | None = None,
    rows: tuple[int, int | None] | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: float = EVERY,
    spill: str | os.PathLike | None = None,
    memory_limit: int | str | None = None,
    random_state=None,
) -> Pass:
    """Calibrate on a peek at the source, or take the calibration of earlier statistics.

    Where `checkpoint` is the file of an earlier run of the same job, its pass goes on.

    Parameters
    ----------
    source : with targets
    features : an unfitted map; ignored with `like`
    normalize, precision, random_state : see `Encoder.calibrate`; ignored with `like`
    codes, classes : target codes and all labels; with fewer bits than classes, sum by bit (but by
        class for ``decode="discriminant"``)
    regression : whether targets are values rather than classes
    on_bad_rows : "raise" or "skip"
    like : statistics, or their file, whose map and calibration to take
    hold_out : keep a share of the rows aside for the choice of alpha
    folds, totals, rows, checkpoint, checkpoint_every, spill : see `accumulate`
    """
    if not source.has_targets:
        raise DataError(f"{source.where} has no targets to learn from; name the dataset: y=")
    if like is not None and not isinstance(like, Statistics):
        like = load_statistics(like)
    start, stop = window(source, rows)
    n_folds = _n_folds(folds, like)
    gram = _gram_class(precision, totals, n_folds, like)
    keeper = None
    if spill is not None:
        if checkpoint is not None:
            raise ParameterError("checkpoint and spill do the same; give one of them")
        checkpoint = shards.first_file(spill)
    if codes is not None:
        check_decode(codes)
    if like is not None and isinstance(like.sums.targets, BitSums):
        like.book(codes)  # refuses what these sums cannot answer
    if checkpoint is not None:
        job = _job(
            source,
            features,
            like,
            normalize=normalize,
            codes=None if classes is None else codes,
            classes=None if classes is None else np.unique(as_labels(np.asarray(classes))),
            regression=regression,
            precision=precision,
            hold_out=hold_out,
            folds=n_folds,
            totals=gram,
            first_row=start,
            random_state=random_state,
        )
        keeper = Keeper(checkpoint, checkpoint_every, job, source, start)
        state = keeper.read()
        if state is not None:
            with loading(keeper.path):
                pass_ = Pass.from_tree(state, keeper)
            _check_goes_on(pass_, keeper, stop, on_bad_rows)
            return pass_
    width = getattr(features, "n_components", None) if like is None else like.encoder.n_components
    if isinstance(width, int | np.integer) and width > 0:
        # before the calibration rows are mapped and room for the sums is made
        n_outputs = _n_outputs(codes, 0 if classes is None else len(classes))
        _plan(
            int(width),
            source,
            n_outputs=n_outputs,
            gram=gram,
            n_folds=n_folds,
            held_bytes=int(hold_out) * MOST_BYTES,
            map_bytes=0,
            memory_limit=memory_limit,
        )
    sample = check_rows(source.sample(CALIBRATION_ROWS), on_bad_rows)[0]
    if not len(sample.X):
        raise DataError(f"{source.where}: every calibration row holds NaN or infinity")
    _check_targets(sample, regression)
    if like is not None:
        encoder = like.encoder
        if source.n_features != encoder.n_features:
            raise ShapeError(
                f"{source.where} has {source.n_features} features, "
                f"but the statistics to continue have {encoder.n_features}"
            )
        targets = like.sums.zero_like().targets
    else:
        if features is None:
            raise ParameterError("accumulate needs a feature map, or like=, earlier statistics")
        encoder = Encoder.calibrate(
            features,
            sample,
            normalize=normalize,
            precision=precision,
            totals=totals or "float64",
            regression=regression,
            random_state=random_state,
        )
        targets = _empty_targets(encoder, source, codes, classes, regression, random_state)
    sums = Sums(gram(encoder.n_components), targets)
    in_folds = FoldedSums.zero(sums, n_folds) if n_folds else sums
    statistics = Statistics(encoder, in_folds, Ledger())
    holdout = None
    if hold_out:
        n_rows = None if stop is None else stop - start
        holdout = Holdout(n_rows, sample.X.itemsize * sample.X.shape[1])
    return Pass(statistics, holdout, keeper)


def window(source: Source, rows: tuple[int, int | None] | None) -> tuple[int, int | None]:
    """Give the first row to read and the one to stop before (None: unknown), or refuse `rows`."""
    start, stop = (0, None) if rows is None else rows
    if source.n_rows is not None:
        stop = source.n_rows if stop is None else min(stop, source.n_rows)
    if start < 0 or (stop is not None and start >= stop):
        raise ParameterError(
            f"rows={rows} are no rows of {source.where}, which has "
            f"{'an unknown number' if source.n_rows is None else source.n_rows}; "
            "give (start, stop) with 0 <= start < stop"
        )
    return start, stop


def _gram_class(precision, totals, n_folds, like) -> type[GramSum]:
    """Give how products are summed, as asked for or as in earlier statistics."""
    if like is not None:
        gram = like.sums.gram_class
        if totals is not None and gram is not TOTALS.get(totals):
            raise ParameterError(
                f"totals={totals!r}, but the statistics to continue have others; leave totals out "
                "to take theirs"
            )
        return gram
    gram = gram_class(calibration_class(precision).exact, totals or "float64")
    if gram is CompactGram and n_folds:
        raise ParameterError(f"sums in folds have totals='float64', not {totals!r}")
    return gram


def _plan(
    width, source, *, n_outputs, gram, n_folds, held_bytes, map_bytes, memory_limit
) -> memory.Plan:
    """Say what a pass is going to hold, `held_bytes` beside the sums and the map.

    Sums of 32 bits are there for widths at which the factor has to take their place.
    """
    packed_size(width)  # refuses what is too wide for any memory
    return memory.plan(
        width,
        source.n_features,
        n_outputs,
        gram=gram,
        in_place=gram is CompactGram and not held_bytes,
        n_folds=n_folds,
        held_bytes=held_bytes,
        other_bytes=map_bytes + source.buffer_bytes,
        memory_limit=memory_limit,
    )


def _n_outputs(codes, n_known: int) -> int:
    """Give the outputs that memory is planned for: of classes more than are known may come."""
    return max(codes.n_bits if isinstance(codes, ErrorCorrectingCodes) else 32, n_known)


def _n_folds(folds: int | None, like: Statistics | None) -> int:
    """Give the folds asked for, or those of earlier statistics."""
    n_folds = check_folds(folds)
    if like is None:
        return n_folds
    if n_folds not in (0, like.n_folds):
        raise ParameterError(
            f"folds={folds}, but the statistics to continue have {like.n_folds or 'none'}; leave "
            "folds out to take theirs"
        )
    return like.n_folds


def _job(
    source, features, like, *, normalize, codes, precision, totals, random_state, **settings
) -> dict:
    """Give all that the sums depend on but the rows themselves, as a tree."""
    if totals is CompactGram:
        settings["totals"] = "int32"
    settings = {
        "like": None if like is None else like.encoder.digests,
        "source": source.settings,
        "codes": to_tree(codes),
        **settings,
    }
    if like is not None:
        return settings
    seeded = isinstance(random_state, int | np.integer)
    return settings | {
        "features": to_tree(clone(features, safe=False)),
        "normalize": normalize,
        "precision": precision,
        "random_state": int(random_state) if seeded else None,
    }


def _check_goes_on(pass_: Pass, keeper: Keeper, stop: int | None, on_bad_rows: str) -> None:
    """Refuse to go on where the rows counted already are not those that are asked for."""
    if stop is not None and keeper.stop > stop:
        raise CheckpointError(
            f"the checkpoint {keeper.path} has counted the rows up to {keeper.stop:,}, and this "
            f"job ends before row {stop:,}; give it a checkpoint file of its own"
        )
    n_skipped = pass_.statistics.n_skipped
    if n_skipped and on_bad_rows == "raise":
        raise CheckpointError(
            f"the checkpoint {keeper.path} has left out {n_skipped:,} rows with NaN or infinity, "
            "and on_bad_rows='raise' leaves out none; go on with on_bad_rows='skip', or give this "
            "job a checkpoint file of its own"
        )


def _check_targets(sample, regression):
    """Refuse words for values, and fractions for labels: signs of the other task."""
    y = np.asarray(sample.y)
    if regression and y.dtype.kind == "U":
        raise DataError(
            f"{sample.where}: targets such as {y.ravel()[0].item()!r} are not numbers; for classes "
            "use RandomFeatureClassifier, or leave out regression=True or --regression"
        )
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
        fewer = codes.n_outputs(len(labels)) < len(labels) and len(labels) > 2
        if fewer and codes.decode != "discriminant":  # which is learnt from sums by class
            book: CodeBook = codes.book(len(labels), random_state=random_state or 0)
            return BitSums.zero(width, labels, book.matrix)
    return ClassSums.zero(width, () if classes is None else classes)


def run(
    source: Source,
    pass_: Pass,
    *,
    codes=None,
    on_bad_rows: str = "raise",
    rows: tuple[int, int | None] | None = None,
    prune: int | None = None,
    memory_limit: int | str | None = None,
    n_threads: int | None = None,
    progress: Callable[[int], None] | None = None,
    engine=None,
    parts: int | None = None,
    spill: str | os.PathLike | None = None,
    outlook: Callable[[shards.Outlook], None] | None = None,
) -> None:
    """Fold the source into the pass; the memory needed is checked before the first read.

    `prune` says how many features `Pass.finish` is going to keep, and `outlook` is called with what
    a cluster is going to hold; for the others see `accumulate`.
    """
    start, stop = window(source, rows)
    keeper = pass_.keeper
    _check_engine(engine, parts, spill, keeper)
    n_held = 0 if pass_.holdout is None else 1 if keeper is None else 2  # copied to be written
    sums = pass_.statistics.sums
    held_bytes = n_held * MOST_BYTES
    if prune is not None:
        held_bytes += 8 * check_kept(prune, sums.n_components, "prune") * sums.n_components
    n_outputs = _n_outputs(codes, len(sums.targets.sums))
    map_bytes = pass_.statistics.encoder.n_bytes
    plan = _plan(
        sums.n_components,
        source,
        n_outputs=n_outputs,
        gram=sums.gram_class,
        n_folds=sums.n_folds,
        held_bytes=held_bytes,
        map_bytes=map_bytes,
        memory_limit=memory_limit,
    )

    if engine is not None:
        if keeper is not None:
            keeper.write_first(pass_.to_tree)
            pass_.keeper = None
        shards.run(
            engine,
            source,
            pass_,
            n_outputs=n_outputs,
            window=(start, stop),
            on_bad_rows=on_bad_rows,
            parts=parts,
            spill=spill,
            progress=progress,
            outlook=outlook,
        )
        return

    def read(first: int, update: Callable[[Pass, Block], None]) -> None:
        fold(
            source,
            pass_,
            update,
            start=first,
            stop=stop,
            block_rows=plan.block_rows,
            on_bad_rows=on_bad_rows,
            n_threads=n_threads,
            progress=progress,
        )

    if keeper is None:
        read(start, Pass.update)
    else:
        with keeper.keeping(pass_) as keeping:
            read(keeper.stop, keeping.update(Pass.update))
    if rows is not None and not pass_.statistics.ledger.n_rows:
        raise EmptySourceError(f"{source.where} has no rows from {start} on")


def _check_engine(engine, parts, spill, keeper):
    """Refuse settings that are for a cluster, or for one process, alone."""
    if engine is None and (parts is not None or spill is not None):
        name = "parts" if parts is not None else "spill"
        raise ParameterError(
            f"{name} is for a cluster: give engine=, a distributed.Client, or leave {name} out"
        )
    if engine is not None and keeper is not None and spill is None:
        raise ParameterError(
            "checkpoint is for a pass of one process; for one on a cluster give spill=, a folder "
            "that the workers share"
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
    folds: int | None = None,
    totals: str | None = None,
    rows: tuple[int, int | None] | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: float = EVERY,
    memory_limit: int | str | None = None,
    n_threads: int | None = None,
    progress: Callable[[int], None] | None = None,
    random_state=None,
    engine=None,
    parts: int | None = None,
    spill: str | os.PathLike | None = None,
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
        are kept by bit (unless decoded by discriminants), else by class, and any code can be chosen
        at the solve
    regression : whether the targets are values rather than classes
    precision : "exact" or "float64" (unrounded features, half the speed, exact to rounding only)
    on_bad_rows : "raise" or "skip" rows with NaN or infinity
    like : earlier statistics, or their file: take their map and calibration, so that both can be
        added
    folds : number of folds to keep the sums in, for `Statistics.cross_validate`; None means no
        folds, or with `like` as many as there. A row's fold is a hash of its place in its store.
        Needs as many Grams as folds beside the total
    totals : "float64", or "int32": half the memory for the sums, which are exact up to 2^31 (about
        two million rows; beyond, the pass ends with an error), and, with
        ``solve(alpha, overwrite=True)``, a quarter of it in all, for a float32 factor. None means
        float64, or with `like` as there
    rows : ``(start, stop)``, the only rows to add up; stop None means to the end. The calibration
        still looks at the whole source, so parts of one source made with one seed can be added.
    checkpoint : file that keeps the state of the pass. The same call goes on from it after the last
        row counted, whether the pass was killed, was interrupted, or had ended and the source has
        grown; the sums are those of a pass never interrupted, to the last bit (on rounded
        features). Map and calibration come from the file. An iterator must give the rows counted
        once more; they are passed over. In the main thread, Ctrl-C and SIGTERM wait for the block
        in progress, write a last checkpoint and raise `KeyboardInterrupt`. What happens is logged
        by the logger "streamrf".
    checkpoint_every : seconds between two writings, stretched so that writing takes at most 2 % of
        the time; 0 writes after every block
    memory_limit : bytes or a string such as "2 GiB"; None means four fifths of what is free
    n_threads : None means all
    progress : called with the number of rows done after each block
    random_state : int, RandomState or None; seeds the map if it has no seed of its own
    engine : None (threads of this process), or a `distributed.Client`: the workers of its cluster
        read the rows, from where the source says, and add them up, each with all of its threads.
        The calibration is made here, so the sums are those of one process, to the last bit (on
        rounded features).
    parts : shards of rows, one task each, on a cluster; None means what suits rows and workers
    spill : folder that the workers of a cluster share. Each shard's sums are kept there, and the
        same call goes on from those if the run was lost. Delete it when the statistics are safe.

    Raises
    ------
    StreamrfError
        Bad rows, a source without targets or rows, a memory need above the limit, a checkpoint of
        another job.
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
        folds=folds,
        totals=totals,
        rows=rows,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        spill=spill,
        memory_limit=memory_limit,
        random_state=random_state,
    )
    run(
        source,
        pass_,
        codes=codes,
        on_bad_rows=on_bad_rows,
        rows=rows,
        memory_limit=memory_limit,
        n_threads=n_threads,
        progress=progress,
        engine=engine,
        parts=parts,
        spill=spill,
    )
    with computing(n_threads):
        return pass_.join()
