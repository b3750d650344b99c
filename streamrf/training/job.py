"""What is to be done, checked before anything is read."""

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from streamrf.display import begin, clone
from streamrf.engine import (
    Checkpoint,
    Reading,
    Runner,
    RunOptions,
    ShardFolder,
    StateStore,
    first_file,
    fold,
    runner,
    state_of,
    window,
)
from streamrf.errors import CheckpointError, DataError, EmptySourceError, ParameterError
from streamrf.features import FeatureMap, check_names, check_ready
from streamrf.models import ErrorCorrectingCodes
from streamrf.preprocessing import WARPS, Moments, Warp, calibration_class
from streamrf.solving import SQUARED, BlockWeights, check_kept
from streamrf.sources import Source, check_named, known_by, require_source, reread
from streamrf.statistics import (
    TOTALS,
    BitSums,
    CompactGram,
    GramSum,
    Statistics,
    gram_class,
    load_statistics,
    packed_size,
)
from streamrf.storage import digest, loading, to_tree
from streamrf.training import memory
from streamrf.training.column_moments import scales_of
from streamrf.training.foresight import READING, counted
from streamrf.training.holdout import MAX_BYTES, most_rows
from streamrf.training.kernel_names import names_of
from streamrf.training.passes import Pass
from streamrf.training.peeking import sample_rows, suited, tried_rows
from streamrf.training.settings import AUTO, Settings
from streamrf.training.target_type import cures_of, settled
from streamrf.training.warping import learning_bytes


@dataclass(frozen=True)
class Job:
    """One pass over a source: its settings checked against the source and each other.

    Parameters
    ----------
    source : with targets
    settings : what to compute
    run : how to do it
    like : the statistics whose map and calibration are taken, or None
    gram : how products of features are summed
    n_folds : folds that the sums are kept in, 0 for none
    start, stop : rows to read; a stop of None means to the end, wherever that is
    scales : moments that columns are scaled by, or None
    loss : of the model, which others than the squared one read the rows again for
    solves : whether a model is made of the sums
    """

    source: Source
    settings: Settings
    run: RunOptions
    like: Statistics | None
    gram: type[GramSum]
    n_folds: int
    start: int
    stop: int | None
    scales: Moments | None = None
    loss: str = SQUARED
    solves: bool = False

    @classmethod
    def of(cls, source: Source, settings: Settings, run: RunOptions | None = None) -> "Job":
        """Return the job of a source and settings.

        Raises
        ------
        DataError
            If the source has no targets.
        ParameterError
            If there is no source, or settings contradict it, the earlier statistics or each other.
        """
        require_source(source)
        if not source.has_targets:
            raise DataError(
                f"{source.where} has no targets to learn from; name the dataset: y=, or give "
                "streamrf.Unlabelled(source) for what needs none (components, drift, novelty)"
            )
        like = settings.like
        if like is not None and not isinstance(like, Statistics):
            like = load_statistics(like)
        source, settings = settled(reread(source), settings, like)
        if like is None:
            settings = suited(source, settings)
        if source.columns is not None:
            check_names(settings.features, source.columns.outputs)
        start, stop = window(source, settings.rows)
        n_folds = _n_folds(settings.folds, like)
        gram = _gram_class(settings, n_folds, like)
        if like is not None and isinstance(like.sums.targets, BitSums):
            like.problem(settings.codes)  # raises for codes that these sums cannot answer
        if run is not None and (run.checkpoint, run.spill) != (None, None):
            check_ready(settings.features)
        scales = scales_of(settings.scale_like, source)
        return cls(source, settings, run or RunOptions(), like, gram, n_folds, start, stop, scales)

    @cached_property
    def runner(self) -> Runner:
        """What carries out the job."""
        return runner(self.run)

    @cached_property
    def checkpoint(self) -> Checkpoint[Pass] | None:
        """Where the state of the pass is kept, or where the calibration of shards is."""
        run = self.run
        path = run.checkpoint if run.spill is None else first_file(run.spill)
        if path is None:
            return None
        job, cures = self._tree(), cures_of(self.settings)
        return Checkpoint(path, run.checkpoint_every, job, self.source, self.start, cures)

    def restored(self) -> Pass | None:
        """Return the pass that an earlier run of the same job left, or None.

        Raises
        ------
        CheckpointError
            If the file is of another job, or of rows that this one does not read.
        """
        checkpoint = self.checkpoint
        if checkpoint is None or (state := checkpoint.read()) is None:
            return None
        with loading(checkpoint.path):
            pass_ = Pass.from_tree(state)
        encoder = pass_.statistics.encoder
        if encoder.features.code:
            given = self.settings if self.like is None else self.like.encoder
            encoder.attach(given.features)
        statistics = pass_.statistics
        checkpoint.check_rows(statistics.encoder.adapted(self.source, statistics.labels))
        if self.stop is not None and checkpoint.stop > self.stop:
            raise CheckpointError(
                f"the checkpoint {checkpoint.path} has counted the rows up to {checkpoint.stop:,}, "
                f"and this job ends before row {self.stop:,}; give it a checkpoint file of its own"
            )
        n_skipped = pass_.statistics.n_skipped
        if n_skipped and self.settings.on_bad_rows == "raise":
            raise CheckpointError(
                f"the checkpoint {checkpoint.path} has left out {n_skipped:,} rows with NaN or "
                "infinity, and on_bad_rows='raise' leaves out none; go on with "
                "on_bad_rows='skip', or give this job a checkpoint file of its own"
            )
        return pass_

    def plan(
        self,
        pass_: Pass | None = None,
        prune: int | None = None,
        more_bytes: int = 0,
        limits: dict[str, int] | None = None,
    ) -> memory.Plan | None:
        """Return what the run is going to hold: before and after the calibration, here or there.

        Parameters
        ----------
        pass_ : the pass, or None before the calibration
        prune : features that the model is going to keep, None for all
        more_bytes : held for other maps, or to choose weights with
        limits : bytes of workers; None means that those of a pass are asked, and none before it

        Raises
        ------
        MemoryBudgetError
            If it does not fit the memory of this process, or of a worker.
        """
        settings, encoder, drawing_bytes = self.settings, None, 0
        if pass_ is not None:
            encoder = pass_.statistics.encoder
        elif self.like is not None:
            encoder = self.like.encoder
        width: int | None = settings.n_components
        if encoder is not None:
            width = encoder.n_components
        elif isinstance(settings.features, FeatureMap):
            width = settings.features.width_for(self.source.n_features)
            shape = self.source.n_features, self.source.n_rows
            drawing_bytes = memory.drawing_bytes(settings.features, *shape, self.run.n_threads)
        if not isinstance(width, int | np.integer) or width < 1:
            return None  # which the calibration refuses
        packed_size(int(width))  # raises for what is too wide for any memory
        n_held = most_rows(self.source.n_rows) if self._holds_out(pass_) else 0
        held_bytes = min(MAX_BYTES, 8 * self.source.row_values * n_held)
        other_bytes = self.source.buffer_bytes + more_bytes
        other_bytes += memory.SPARSE_BYTES * self.source.is_sparse
        if encoder is None and settings.warping in (*WARPS, AUTO):
            other_bytes += learning_bytes(
                self.source.n_features, settings.warping, self.source.n_rows
            )
        if encoder is None and settings.normalize == "quantile":
            other_bytes += memory.QUANTILE_BYTES * self.source.n_features
        if pass_ is not None:
            other_bytes += pass_.statistics.encoder.n_bytes
        chooses = encoder is None and settings.is_auto
        sizes = memory.Sizes(
            int(width),
            self.source.n_features if chooses else self.source.row_values,  # some are made dense
            *self._n_outputs(pass_),
            n_rows=self.source.n_rows,
            gram=self.gram,
            n_folds=self.n_folds,
            peeked_rows=tried_rows(self.source) if chooses else 0,
            sample_rows=sample_rows(self.source, settings, encoder is None),
            drawing_bytes=drawing_bytes,
            other_bytes=other_bytes,
            bit_bytes=memory.bit_bytes(settings.codes, self.solves),
            label_bytes=memory.label_bytes(None if pass_ is None else pass_.peeked),
        )
        held_bytes += (8 * sizes.n_values + 2 * sizes.label_bytes) * n_held  # as they came, sorted
        sizes = replace(sizes, held_bytes=held_bytes)
        is_kept = pass_ is not None and self.checkpoint is not None  # copied to be written
        kept_bytes = 0 if prune is None else 8 * check_kept(prune, int(width), "prune") * int(width)
        own = replace(
            sizes,
            # sums of 32 bits are for widths at which the factor has to take their place
            in_place=self.gram is CompactGram and not n_held and not kept_bytes,
            held_bytes=(2 if is_kept else 1) * held_bytes + kept_bytes,
            scored_rows=n_held,
        )
        here = memory.plan(own, self.run.memory_limit)
        if limits is None and pass_ is not None:
            limits = self.runner.memory_limits
        return here if limits is None else memory.worker_plan(sizes, limits)

    def _holds_out(self, pass_: Pass | None) -> bool:
        return self.settings.hold_out if pass_ is None else pass_.holdout is not None

    def _n_outputs(self, pass_: Pass | None) -> tuple[int, int]:
        """Return the outputs and classes to plan for: more classes than are known may come."""
        codes, classes = self.settings.codes, self.settings.classes
        known = 0 if classes is None else len(classes)
        if pass_ is not None:
            known = max(len(pass_.peeked), len(pass_.statistics.sums.targets.sums))
        known = max(32, known)
        n_outputs = codes.n_bits if isinstance(codes, ErrorCorrectingCodes) else known
        return n_outputs, 0 if self.settings.regression else known

    def fold(
        self, pass_: Pass, prune: int | None = None, block_weights: BlockWeights | None = None
    ) -> Pass:
        """Add the rows into the pass, where it has not counted them, and return it.

        Parameters
        ----------
        pass_ : changed in place
        prune, block_weights : of the model that is going to be solved, for the memory
        """
        searched = 0
        if isinstance(block_weights, str):  # sums of the rows held out, and a full matrix of them
            searched = 3 * 8 * packed_size(pass_.statistics.encoder.n_components)
        planned = self.plan(pass_, prune, searched)
        assert planned is not None
        statistics = pass_.statistics  # which a restart has read
        source = statistics.encoder.adapted(self.source, statistics.labels)
        store, first = StateStore[Pass](), self.start
        if self.run.engine is not None:
            if self.checkpoint is not None and self.run.spill is not None:
                self.checkpoint.write_first(pass_.to_tree)
                store = ShardFolder(self._shard_prefix(pass_, source), Pass.from_tree)
        elif self.checkpoint is not None:
            store, first = self.checkpoint, self.checkpoint.stop
        counted_before = {} if self.like is None else self.like.ledger.ranges
        reading = Reading(
            known_by(source, pass_.statistics.ledger.ranges | counted_before),
            first,
            self.stop,
            planned.block_rows,
            self.settings.on_bad_rows,
            planned.total_bytes,
        )
        total = None if self.stop is None else self.stop - self.start
        begin(READING, "rows", total, first - self.start)
        fold(reading, pass_, Pass.update, counted(self.run), store)
        if self.like is not None:
            pass_.warn_of_drift(self.like.moments)
        if self.run.memory_limit is not None:  # which was for the classes known then
            with memory.only_told("more classes came than the rows looked at before had"):
                self.plan(pass_, prune, searched)
        self.check_read(pass_)
        check_named(self.settings.class_weight, pass_.labels_read, "the rows read", "some")
        return pass_

    def check_read(self, pass_: Pass) -> None:
        """Raise EmptySourceError if there were none of the rows asked for."""
        if self.settings.rows is not None and not pass_.statistics.ledger.n_rows:
            raise EmptySourceError(f"{self.source.where} has no rows from {self.start} on")

    def _tree(self) -> dict[str, Any]:
        """Return all that the sums depend on but the rows themselves, as a tree."""
        settings, labels = self.settings, self.settings.labels
        tree: dict[str, Any] = {
            "like": None if self.like is None else self.like.encoder.digests,
            "source": self.source.settings,
            "codes": to_tree(None if labels is None else settings.codes),
            "classes": labels,
            "regression": settings.regression,
            "hold_out": settings.hold_out,
            "folds": self.n_folds,
            "first_row": self.start,
        }
        if self.gram is CompactGram:
            tree["totals"] = "int32"
        if self.like is not None:
            return tree
        if settings.warping != (AUTO if settings.is_auto else None):
            warp = settings.warping
            tree["warp"] = warp.to_tree() if isinstance(warp, Warp) else warp
            tree["warp_rounds"] = settings.warp_rounds
        if self.scales is not None:
            tree["scale_like"] = digest(self.scales.to_tree())
        seed = settings.random_state
        return tree | {
            "features": _features_tree(settings),
            "normalize": settings.scaling,
            "precision": settings.precision,
            "random_state": int(seed) if isinstance(seed, int | np.integer) else None,
        }

    def _shard_prefix(self, pass_: Pass, source: Source) -> str:
        """Return the beginning of the paths of files that hold shards of this job."""
        holdout, statistics = pass_.holdout, pass_.statistics
        tree = {
            "encoder": statistics.encoder.digests,
            "targets": type(statistics.sums.targets).__name__,
            "folds": statistics.n_folds,
            "stores": [store.key for store in self.source.stores],
            "versions": state_of(source),
            "settings": self.source.settings,
            "on_bad_rows": self.settings.on_bad_rows,
            "holdout": None if holdout is None else holdout.rule,
        }
        assert self.run.spill is not None
        return os.path.join(os.path.abspath(self.run.spill), f"shard-{digest(tree)[:16]}")


def _features_tree(settings: Settings) -> Any:
    if settings.is_auto:
        names = {} if settings.kernels is None else {"kernels": list(names_of(settings.kernels))}
        planned = {} if settings.budget is None else {"budget": settings.budget}
        return {"class": "auto", "n_components": settings.n_components, **names, **planned}
    return to_tree(clone(settings.features))


def _gram_class(settings: Settings, n_folds: int, like: Statistics | None) -> type[GramSum]:
    """Return how products are summed, as asked for or as in earlier statistics."""
    totals = settings.totals
    if like is not None:
        gram = like.sums.gram_class
        if totals is not None and gram is not TOTALS.get(totals):
            raise ParameterError(
                f"totals={totals!r}, but the statistics to continue have others; leave totals out "
                "to take theirs"
            )
        return gram
    gram = gram_class(calibration_class(settings.precision).exact, totals or "float64")
    if gram is CompactGram and n_folds:
        raise ParameterError(f"sums in folds have totals='float64', not {totals!r}")
    return gram


def _n_folds(folds: int | None, like: Statistics | None) -> int:
    """Return the folds asked for, or those of earlier statistics."""
    if like is None:
        return folds or 0
    if folds not in (None, like.n_folds):
        raise ParameterError(
            f"folds={folds}, but the statistics to continue have {like.n_folds or 'none'}; leave "
            "folds out to take theirs"
        )
    return like.n_folds
