"""A pass in progress: what blocks of rows are added into."""

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, cast

import numpy as np

from streamrf.display import stage
from streamrf.engine import State
from streamrf.errors import BadRowError, DataError, warn
from streamrf.jit.arrays import F32, Array, Features, Floats
from streamrf.jit.threads import computing
from streamrf.preprocessing import (
    Cut,
    Encoder,
    Moments,
    as_columns,
    combined_moments,
    named_columns,
    warn_of_drift,
)
from streamrf.solving import lent
from streamrf.sources import Block, Ledger, Rows, as_rows, checksum, of_targets, warn_of_unseen
from streamrf.statistics import AbstractSums, Statistics, ValueSums
from streamrf.storage import Fields
from streamrf.training.clipping import Clipping
from streamrf.training.column_moments import Variation
from streamrf.training.faint import (
    classes_tree,
    faint_rows,
    read_classes,
    warn_of_classes,
    with_faint,
)
from streamrf.training.holdout import Holdout
from streamrf.training.odd_targets import OddTargets
from streamrf.training.parts import EncoderName, Part

LOOK_AGAIN = 1.25  # times the rows of the last look at the columns


class Pass(State):
    """A pass in progress: what `fold` adds blocks into.

    Parameters
    ----------
    statistics : where the rows go
    holdout : None, or what keeps some rows aside until `join`
    """

    def __init__(self, statistics: Statistics, holdout: Holdout | None = None):
        self.statistics = statistics
        self.holdout = holdout
        self._n_skipped, self._n_unseen = statistics.n_skipped, statistics.n_unseen
        self._n_too_long = statistics.n_too_long
        self._told: set[int] = set()  # columns that were not fairly sampled
        self._odd_targets = OddTargets()
        self._faint: Counter[Any] = Counter()  # rows whose weights were rounded to 0, by label
        self._next_look: float = 0  # rows at which columns are looked at again
        self._clipping = Clipping(np.zeros(statistics.encoder.n_components))
        self.chosen_by: Array | None = None  # labels of the rows that features were chosen by
        labels = statistics.labels
        self.peeked = np.empty(0) if labels is None else labels  # those known, for the memory
        self._variation = None if statistics.moments is None else Variation(statistics.moments)
        self._features = np.empty((0, statistics.encoder.n_components))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the features of the last block, for pickles and copies."""
        return vars(self) | {"_features": self._features[:0].copy()}

    def update(self, block: Block) -> None:
        """Add a block; rows held out are counted by the ledger now and summed by `join`."""
        self.check(block)  # now, as rows held out are summed much later
        end, known = block.row + block.span, self._checksum(as_rows(block))
        self.statistics.ledger.add(block.key, block.where, block.row, end, known)
        self._n_skipped += block.span - len(block.X)
        self._n_unseen += block.n_unseen
        if not len(block.X):
            return
        try:
            parts = [as_rows(block)] if self.holdout is None else self.holdout.take(block)
            with computing():  # once, as setting the threads takes longer than small loops
                for rows in parts:
                    self._sum(rows)
        except BadRowError as error:
            raise BadRowError(f"{block.where}{self._bad_row(as_rows(block))}: {error}") from error
        self._look()

    def check(self, block: Block) -> None:
        """Raise DataError for a block whose targets or weights the sums cannot take."""
        misfit = self.statistics.encoder.misfit(block)
        if misfit is not None:
            raise DataError(f"{block.where}, row {block.row}: {misfit}")
        of_targets(block, self.statistics.sums.targets.check)

    def _checksum(self, rows: Rows) -> int:
        """Return the checksum of targets and weights as they enter the sums."""
        calibration, n = self.statistics.encoder.calibration, len(rows.X)
        roots, y = calibration.roots(rows.weights, n), rows.y
        if n and isinstance(self.statistics.sums.targets, ValueSums):
            y = calibration.targets(as_columns(y), roots)
        return checksum(rows.indices, y, roots) if n else 0

    def _bad_row(self, rows: Rows) -> str:
        """Return which of some rows has no features, for a message."""
        for i in range(len(rows.X)):
            try:
                self._encoded(rows.where(slice(i, i + 1)))
            except BadRowError:
                return f", row {rows.indices[i]}"
        return ""

    def _look(self, again: bool = False) -> None:
        """Warn of columns that the calibration rows do not show as they are, once of each."""
        moments = self.statistics.moments
        if moments is None or (moments.n_rows < self._next_look and not again):
            return
        self._next_look = LOOK_AGAIN * moments.n_rows
        found = [c for c in moments.unfair_columns().tolist() if c not in self._told]
        if found:
            self._told.update(found)
            scales = self.statistics.encoder.preprocessing.is_by_moments
            also = ("", "") if scales else ("normalize='standard', ", "--normalize standard ")
            warn(
                f"{named_columns(found, moments.names)} varied at most a tenth as much in the "
                f"{moments.sample.n_rows:,} rows looked at before the pass as in the "
                f"{moments.n_rows:,} rows so far, so scales, kernel and rounding do not suit the "
                "stream: shuffle the rows, or read them once for their scales and give "
                f"{also[0]}scale_like=streamrf.moments(source) (streamrf moments DATA -o FILE, "
                f"then {also[1]}--scale-like FILE)"
            )

    def warn_of_drift(self, earlier: Moments | None) -> None:
        """Warn of columns whose moments differ much from those of earlier statistics."""
        moments = self.statistics.moments
        if moments is not None and earlier is not None:
            warn_of_drift(
                moments,
                earlier,
                "of like= (--like); check the data, leave out columns that grow with time, as "
                "dates do, or train on the new rows alone",
            )

    def _warn(self) -> None:
        """Warn of unknown levels, of entries clipped, and of rows too long for the map."""
        warn_of_unseen(self._n_unseen)
        sums, n_too_long = self.statistics.sums, self._n_too_long
        n_entries = sums.n_rows * sums.n_components
        calibration = self.statistics.encoder.calibration
        harm = self._clipping.harm(sums, calibration.usual_cut) if self._clipping.most else ""
        if harm or sums.n_clipped > calibration.usual_clipped * n_entries:
            warn(
                f"{sums.n_clipped:,} entries of features ({100 * sums.n_clipped / n_entries:.2g} "
                f"%) were clipped{harm}: some rows are unlike the rows looked at before the pass; "
                f"{calibration.more_room(bool(harm))}"
                "scale the rows (normalize=, --normalize, scale_like=), shuffle them, or "
                "calibrate on a fair sample and give its statistics by like= or --like"
            )
        if self._variation is not None and self.statistics.moments is not None:
            self._variation.warn_of_hidden(self.statistics.moments)
        if n_too_long:
            longest = np.sqrt(self.statistics.encoder.features.longest)
            warn(
                f"{n_too_long:,} rows ({100 * n_too_long / sums.n_rows:.2g} %) are longer than "
                f"{longest:.4g}, up to where the series of the kernel, cut for the longest of the "
                "rows looked at before the pass, is right, so their features are wrong; scale the "
                "rows to unit length (normalize='l2', --normalize l2), or shuffle them"
            )

    def _encoded(
        self, rows: Rows, cut: Cut | None = None, mapped: Iterable[F32] = ()
    ) -> tuple[Features, Floats, int]:
        """Return features and roots, and how many entries were clipped; held until the next."""
        encoder, n = self.statistics.encoder, len(rows.X)
        encoder.check_width(rows.X)
        calibration = encoder.calibration
        if len(self._features) < n or self._features.dtype != calibration.dtype:
            size = n * encoder.n_components
            memory = lent(size, calibration.dtype, stays=False)
            self._features = memory.reshape(n, encoder.n_components)
        Q, roots = self._features[:n], calibration.roots(rows.weights, n)
        return Q, roots, encoder.encode(rows.X, roots, Q, cut, mapped)

    def _sum(self, rows: Rows, mapped: Iterable[F32] = ()) -> None:
        encoder, sums = self.statistics.encoder, self.statistics.sums
        if not len(rows.X):
            return
        calibration = encoder.calibration
        cut = Cut(np.zeros(encoder.n_components), np.zeros(len(rows.X)))
        Q, roots, n_clipped = self._encoded(rows, cut, mapped)
        if self.statistics.labels is not None:
            self._faint += faint_rows(rows, roots)
        if n_clipped:
            self._clipping = self._clipping + Clipping.of(cut, rows.positions)
        self._n_too_long += encoder.count_too_long(rows.X)
        y = rows.y
        if isinstance(sums.targets, ValueSums):
            given = as_columns(rows.y)
            y = calibration.targets(given, roots)
            self._odd_targets.look(encoder, given, y)
        with computing():
            sums.add(Q, roots, y, n_clipped, rows.indices)
            if self.statistics.moments is not None:
                with stage("moments"):
                    self.statistics.moments.count(rows.X)
            if self._variation is not None:
                self._variation.look(rows.X)

    def join(self, mapped: Sequence[Iterable[F32]] = ()) -> Statistics:
        """Add the rows held out and return the statistics.

        Parameters
        ----------
        mapped : of each part of `held`, what is known of its features, see `Encoder.encode`
        """
        if self.holdout is not None:
            for place, rows in enumerate(self.holdout.release()):
                self._sum(rows, mapped[place] if mapped else ())
        self._look(again=True)
        statistics = self.finished()
        self._warn()
        warn_of_classes(self._faint, self.chosen_by, statistics.sums.targets)
        return statistics

    @property
    def labels_read(self) -> Array | None:
        """Labels of the rows, also of those that are rounded to nothing; None of values."""
        labels = self.statistics.labels
        return None if labels is None else with_faint(labels, self._faint)

    def finished(self) -> Statistics:
        """Return the statistics of the rows summed so far."""
        self._close()
        if self.statistics.moments is not None:
            self.statistics.moments.join()
        return self._counted

    def _close(self) -> None:
        """Give back memory that only adding needs; raise StreamrfError for sums too great."""
        self._features = self._features[:0].copy()
        with computing():
            self.statistics.sums.release()
            self.statistics.sums.check_exact()

    @property
    def _counted(self) -> Statistics:
        return replace(
            self.statistics,
            n_skipped=self._n_skipped,
            n_too_long=self._n_too_long,
            n_unseen=self._n_unseen,
        )

    def copy(self) -> "Pass":
        """Return the same pass in memory of its own."""
        twin, statistics, moments = copy(self), self.statistics, self.statistics.moments
        twin.statistics = replace(
            statistics,
            sums=statistics.sums.copy(),
            ledger=statistics.ledger + Ledger(),
            moments=None if moments is None else moments.copy(),
        )
        twin.holdout = None if self.holdout is None else self.holdout.copy()
        twin._told, twin._faint = set(self._told), self._faint.copy()
        twin._odd_targets = copy(self._odd_targets)
        twin._variation = deepcopy(self._variation)
        return twin

    def fresh(self) -> "Pass":
        """Return a pass that goes on from here by itself, and leaves warnings of columns to us."""
        fresh = self.copy()
        fresh._next_look = np.inf
        return fresh

    def rest(self, tried: Sequence[Rows] = ()) -> "Pass":
        """End a call after which more rows may come; return the pass.

        Parameters
        ----------
        tried : parts of the rows held out that are known to have features

        Raises
        ------
        StreamrfError
            Sums that are too great, or a row held out that has no features.
        """
        self._close()
        known = {id(rows) for rows in tried}
        for rows in [] if self.holdout is None else self.holdout.held:
            try:
                if id(rows) not in known:
                    self._encoded(rows)
            except BadRowError as error:
                raise BadRowError(f"rows held out{self._bad_row(rows)}: {error}") from error
        return self

    def sealed(self) -> "Part":
        """Return what this pass has added up, without the map; it is then used up."""
        statistics = self.finished()
        encoder = statistics.encoder
        name = EncoderName(encoder.digests, encoder.target_names)
        held = () if self.holdout is None else (self.holdout,)
        named = replace(statistics, encoder=cast(Encoder, name))
        return Part(named, held, self._faint, self._clipping)

    def absorb(self, total: "Part") -> None:
        """Go on from what fresh copies of this pass, when it was new, have added up."""
        statistics = total.statistics
        self.statistics = Statistics(
            self.statistics.encoder,
            statistics.sums.writable(),  # what has come over a network may not be
            statistics.ledger,
            moments=None if statistics.moments is None else statistics.moments.copy(),
        )
        self._n_skipped, self._n_unseen = statistics.n_skipped, statistics.n_unseen
        self._n_too_long, self._clipping = statistics.n_too_long, total.clipping
        self._faint = total.faint.copy()
        if self.holdout is not None:
            for rows in self.holdout.absorb(total.holdouts):
                self._sum(rows)

    @property
    def held(self) -> list[Rows]:
        """The rows held out, in the parts of `Holdout.join`."""
        if self.holdout is None:
            return []
        self.holdout.join()
        return self.holdout.held

    def held_sums(self) -> AbstractSums:
        """Return the sums of the rows held out alone."""
        return self._of_held().sums

    def _of_held(self) -> Statistics:
        """Return the statistics of the rows held out alone; the ledger is that of all rows."""
        sums, moments = self.statistics.sums, self.statistics.moments
        empty = (sums.parts or (sums,))[0].zero_like()
        none = None if moments is None else Moments.zero(moments.sample, moments.names)
        other = Pass(replace(self.statistics, sums=empty, moments=none, n_too_long=0))
        for rows in self.held:
            other._sum(rows)
        return other.finished()

    @classmethod
    def reopened(cls, joined: Statistics, holdout: Holdout | None) -> "Pass":
        """Return a pass that goes on where `join` has ended one; both arguments stay as they are.

        Parameters
        ----------
        joined : what `join` returned, of sums that are not in folds
        holdout : a copy of the rows that were held out until then
        """
        pass_ = cls(joined, holdout).fresh()
        pass_._next_look = 0
        if pass_.holdout is None or not pass_.held:
            return pass_
        held, all_rows = pass_._of_held(), pass_.statistics
        pass_.statistics = replace(
            all_rows,
            sums=all_rows.sums.combined(held.sums, -1),
            moments=combined_moments(all_rows.moments, held.moments, -1),
        )
        pass_._n_too_long -= held.n_too_long
        return pass_

    def to_tree(self) -> dict:
        """Return the state between two blocks as a tree."""
        tree = {
            "statistics": self._counted.to_tree(),
            "holdout": None if self.holdout is None else self.holdout.to_tree(),
        }
        if self._clipping.most:
            tree["clipping"] = self._clipping.to_tree()
        return tree | classes_tree(self._faint, self.chosen_by)

    @classmethod
    def from_tree(cls, tree: dict | Fields) -> "Pass":
        """Rebuild from `to_tree`."""
        fields = Fields.of(tree)
        statistics = Statistics.from_tree(fields.tree("statistics"))
        held, n_components = fields.maybe_tree("holdout"), statistics.encoder.n_components
        clipping = Clipping(np.zeros(n_components))
        if "clipping" in fields.keys:
            clipping = Clipping.from_tree(fields.tree("clipping"), n_components)
        faint, chosen_by = read_classes(fields)
        fields.end()
        holdout = None
        if held is not None:
            holdout = Holdout.from_tree(held, statistics.encoder.n_features)
            for rows in holdout.held:
                misfit = statistics.encoder.misfit(rows)
                if misfit is not None:
                    raise held.wrong("held", f"has rows that the sums cannot take: {misfit}")
        pass_ = cls(statistics, holdout)
        pass_._clipping, pass_._faint, pass_.chosen_by = clipping, faint, chosen_by
        return pass_
