"""A pass in progress: what blocks of rows are added into."""

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from streamrf.engine import State
from streamrf.errors import DataError
from streamrf.jit.threads import computing
from streamrf.preprocessing import Encoder, as_columns
from streamrf.sources import Block, Rows, as_rows
from streamrf.statistics import Ledger, Statistics, ValueSums
from streamrf.storage import Fields
from streamrf.training.holdout import Holdout


@dataclass(frozen=True)
class EncoderName:
    """Stands for the encoder in sums that travel: its fingerprints."""

    digests: dict[str, str]


@dataclass(frozen=True)
class Part:
    """What some shards add up to: a commutative monoid as `Statistics` is.

    Parameters
    ----------
    statistics : with an `EncoderName` for the encoder
    holdouts : the rows held out, one holdout a shard
    """

    statistics: Statistics
    holdouts: tuple[Holdout, ...]

    def __add__(self, other: "Part") -> "Part":
        return Part(self.statistics + other.statistics, self.holdouts + other.holdouts)


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
        self._features = np.empty((0, statistics.encoder.n_components))

    def update(self, block: Block) -> None:
        """Add a block; rows held out are counted by the ledger now and summed by `join`."""
        misfit = _misfit(block, self.statistics)
        if misfit is not None:
            raise DataError(f"{block.where}, row {block.row}: {misfit}")
        self.statistics.sums.targets.check(block.y)  # now, as rows held out are summed much later
        self.statistics.ledger.add(block.key, block.where, block.row, block.row + block.span)
        self._n_skipped += block.span - len(block.X)
        self._n_unseen += block.n_unseen
        if not len(block.X):
            return
        for rows in [as_rows(block)] if self.holdout is None else self.holdout.take(block):
            self._sum(rows)

    def _sum(self, rows: Rows) -> None:
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
            sums.add(Q, roots, y, n_clipped, rows.indices)

    def join(self) -> Statistics:
        """Add the rows held out and return the statistics."""
        if self.holdout is not None:
            for rows in self.holdout.release():
                self._sum(rows)
        return self.finished()

    def finished(self) -> Statistics:
        """Return the statistics of the rows summed so far."""
        with computing():
            self.statistics.sums.release()
            self.statistics.sums.check_exact()
        return self._counted

    @property
    def _counted(self) -> Statistics:
        return replace(self.statistics, n_skipped=self._n_skipped, n_unseen=self._n_unseen)

    def fresh(self) -> "Pass":
        """Return a pass that goes on from here by itself."""
        statistics = self.statistics
        statistics = Statistics(
            statistics.encoder,
            statistics.sums.copy(),
            statistics.ledger + Ledger(),
            self._n_skipped,
            self._n_unseen,
        )
        return Pass(statistics, None if self.holdout is None else self.holdout.copy())

    def sealed(self) -> "Part":
        """Return what this pass has added up, without the map; it is then used up."""
        statistics = self.finished()
        name = EncoderName(statistics.encoder.digests)
        held = () if self.holdout is None else (self.holdout,)
        return Part(replace(statistics, encoder=cast(Encoder, name)), held)

    def absorb(self, total: "Part") -> None:
        """Go on from what fresh copies of this pass, when it was new, have added up."""
        statistics = total.statistics
        self.statistics = Statistics(
            self.statistics.encoder,
            statistics.sums.writable(),  # what has come over a network may not be
            statistics.ledger,
        )
        self._n_skipped, self._n_unseen = statistics.n_skipped, statistics.n_unseen
        if self.holdout is not None:
            for rows in self.holdout.absorb(total.holdouts):
                self._sum(rows)

    @property
    def held(self) -> list[Rows]:
        """The rows held out, joined as far as they can be."""
        if self.holdout is None:
            return []
        self.holdout.join()
        return self.holdout.held

    def to_tree(self) -> dict:
        """Return the state between two blocks as a tree."""
        return {
            "statistics": self._counted.to_tree(),
            "holdout": None if self.holdout is None else self.holdout.to_tree(),
        }

    @classmethod
    def from_tree(cls, tree: dict | Fields) -> "Pass":
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
        return cls(statistics, holdout)


def _check_held(fields: Fields, rows: Rows, statistics: Statistics) -> None:
    """Raise FormatError if rows of a file are not of the kind that its statistics sum."""
    misfit = _misfit(rows, statistics)
    if misfit is not None:
        raise fields.wrong("held", f"has rows that the sums cannot take: {misfit}")


def _misfit(rows: Block | Rows, statistics: Statistics) -> str | None:
    """Return why the sums cannot take rows, by the form of their targets and weights."""
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
