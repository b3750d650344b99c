"""The row ranges that a summary has counted, so that no row counts twice."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamrf.errors import MergeError
from streamrf.jit.arrays import Indices
from streamrf.sources.checksums import CHECKSUM_MASK
from streamrf.storage import Fields

_FINGERPRINT = re.compile(r"[0-9a-f]{32}")  # a key made of rows; others were given


@dataclass
class Ledger:
    """Disjoint, sorted, joined row ranges by store.

    Parameters
    ----------
    ranges : dict of ledger key to int64 array (n, 2) of ``[start, stop)``
    names : dict of ledger key to the store's name, for messages
    checksums : dict of ledger key to the sum of the `checksum` of all its rows counted, less that
        of those removed; none where it is not known, as in files of earlier versions
    """

    ranges: dict[str, Indices] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    checksums: dict[str, int] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Rows counted, skipped ones included."""
        return int(sum((r[:, 1] - r[:, 0]).sum() for r in self.ranges.values()))

    def same_rows(self, other: "Ledger") -> bool:
        """Return whether both have counted the same rows."""
        return self.ranges.keys() == other.ranges.keys() and all(
            np.array_equal(ranges, other.ranges[key]) for key, ranges in self.ranges.items()
        )

    def nameless(self) -> "Ledger":
        """Return the same ranges without the names of the stores."""
        return Ledger(dict(self.ranges))

    def without_checksums(self) -> "Ledger":
        """Return the same rows, of targets that are not known."""
        return replace(self, checksums={})

    def _combined_checksums(self, other: "Ledger", sign: int) -> dict[str, int]:
        """Return ``ours + sign * theirs`` by key, of those known on each side that has the rows."""
        keys = self.ranges.keys() | other.ranges.keys()
        for ledger in (self, other):
            keys -= ledger.ranges.keys() - ledger.checksums.keys()
        ours, theirs = self.checksums, other.checksums
        return {
            key: (ours.get(key, 0) + sign * theirs.get(key, 0)) & CHECKSUM_MASK
            for key in sorted(keys)
        }

    def counts(self, key: str, rows: Indices) -> int:
        """Return how many rows of a store, by their ascending indices (n,), have been counted."""
        ranges = self.ranges.get(key, np.empty((0, 2), dtype=np.int64))
        ends = np.searchsorted(rows, ranges)
        return int((ends[:, 1] - ends[:, 0]).sum())

    def __add__(self, other: "Ledger") -> "Ledger":
        """Join; raise MergeError for rows on both sides."""
        ranges = dict(self.ranges)
        for key, theirs in other.ranges.items():
            ours = ranges.get(key, np.empty((0, 2), dtype=np.int64))
            merged = np.concatenate((ours, theirs))
            merged = merged[np.argsort(merged[:, 0], kind="stable")]
            overlap = np.flatnonzero(merged[1:, 0] < merged[:-1, 1])
            if len(overlap):
                start = merged[overlap[0] + 1, 0]
                stop = min(merged[overlap[0], 1], merged[overlap[0] + 1, 1])
                raise MergeError(
                    f"rows {start} to {stop - 1} of {other.names.get(key, key)} are on both sides "
                    f"and would be counted twice; {_told_apart(key, merged[:, 1].max())}"
                    f"{_cure(stop, merged[:, 1].max())}"
                )
            ranges[key] = _joined(merged)
        checksums = self._combined_checksums(other, 1)
        return Ledger(ranges, {**other.names, **self.names}, checksums)

    def __sub__(self, other: "Ledger") -> "Ledger":
        """Remove; raise MergeError for rows never counted, or counted with other targets.

        The latter is found when no row of a store is left.
        """
        ranges = dict(self.ranges)
        for key, theirs in other.ranges.items():
            ours = ranges.get(key, np.empty((0, 2), dtype=np.int64))
            for start, stop in theirs:
                inside = (ours[:, 0] <= start) & (stop <= ours[:, 1])
                if not inside.any():
                    first, last = _uncounted(ours, start, stop)
                    raise MergeError(
                        f"rows {first} to {last - 1} of {other.names.get(key, key)} were never "
                        "counted here, so they cannot be removed"
                    )
                i = int(np.flatnonzero(inside)[0])
                pieces = np.array([[ours[i, 0], start], [stop, ours[i, 1]]])
                pieces = pieces[pieces[:, 0] < pieces[:, 1]]
                ours = np.concatenate((ours[:i], pieces, ours[i + 1 :]))
            ranges[key] = ours
        ranges = {key: r for key, r in ranges.items() if len(r)}
        checksums = self._combined_checksums(other, -1)
        for key in other.ranges.keys() - ranges.keys():
            if checksums.pop(key, 0):
                raise MergeError(
                    f"the rows of {other.names.get(key, key)} were summed with other targets or "
                    "weights than are taken away, so sums of no rows would be left; take away what "
                    "was added, with the same targets and weights (class_weight=, --class-weight)"
                )
        return Ledger(ranges, {k: v for k, v in self.names.items() if k in ranges}, checksums)

    def add(self, key: str, name: str, start: int, stop: int, checksum: int | None = None) -> None:
        """Count the rows ``[start, stop)`` of a store; `checksum` is of those not skipped."""
        last = self.ranges.get(key)
        if last is not None and last[-1, 1] == start:  # mostly: the next block
            if checksum is None:
                self.checksums.pop(key, None)
            elif key in self.checksums:
                self.checksums[key] = (self.checksums[key] + checksum) & CHECKSUM_MASK
            self.ranges[key] = np.concatenate((last[:-1], [[last[-1, 0], stop]]))
            return
        repeated = self._repeated(key, name, start, stop)
        if repeated is not None:
            what, end = repeated
            raise MergeError(
                f"{what}. Leave them out; if that file has more rows, read it by itself from row "
                f"{end} on: rows=({end}, None) (--rows {end}:)"
            )
        known = {} if checksum is None else {key: checksum}
        joined = self + Ledger({key: np.array([[start, stop]], dtype=np.int64)}, {key: name}, known)
        self.ranges, self.names, self.checksums = joined.ranges, joined.names, joined.checksums

    def _repeated(self, key: str, name: str, start: int, stop: int) -> tuple[str, int] | None:
        """Return which of some rows are counted already, and where those end; None for none."""
        ranges = self.ranges.get(key, np.empty((0, 2), dtype=np.int64))
        i = int(np.searchsorted(ranges[:, 1], start, side="right"))  # the first that ends later
        if i == len(ranges) or ranges[i, 0] >= stop:
            return None
        first, end = max(start, int(ranges[i, 0])), int(ranges[i, 1])
        what = (
            f"rows {first} to {min(stop, end) - 1} of {name} are in the sums already and would be "
            f"counted twice; {_told_apart(key, ranges[-1, 1])}"
        )
        return what, end

    def to_tree(self) -> dict:
        """Return the ranges as a tree."""
        keys = sorted(self.ranges)
        tree: dict[str, Any] = {
            "ranges": {key: self.ranges[key] for key in keys},
            "names": {key: self.names.get(key, key) for key in keys},
        }
        known = {key: self.checksums[key] for key in keys if key in self.checksums}
        return tree | {"checksums": known} if known else tree

    @classmethod
    def from_tree(cls, tree: dict | Fields) -> "Ledger":
        """Rebuild from `to_tree`."""
        fields = Fields.of(tree)
        ranges, names = fields.tree("ranges"), fields.tree("names")
        checksums = fields.tree("checksums") if "checksums" in fields.keys else None
        fields.end()
        ledger = cls()
        for key in ranges.keys:
            rows = ranges.array(key, np.int64, (None, 2))
            flat = rows.ravel()
            if not len(flat) or flat[0] < 0 or (flat[1:] <= flat[:-1]).any():
                raise ranges.wrong(key, "is not ranges of rows in order")
            ledger.ranges[key], ledger.names[key] = rows, names.text(key)
        names.end()
        if checksums is not None:
            known = [key for key in checksums.keys if key in ledger.ranges]
            ledger.checksums = {key: checksums.integer(key) for key in known}
            checksums.end()
        return ledger


def check_once(stores: Iterable[Any]) -> None:
    """Raise MergeError if rows of a `Store` are rows of an earlier one, too."""
    ledger = Ledger()
    for store in stores:
        repeated = ledger._repeated(store.key, store.where, 0, store.n_rows)
        if repeated is not None:
            raise MergeError(f"{repeated[0]}. Leave that file out, or give it alone")
        if store.n_rows:
            ledger.add(store.key, store.where, 0, store.n_rows)


def _uncounted(ranges: Indices, start: int, stop: int) -> tuple[int, int]:
    """Return the first rows of ``[start, stop)`` that the ranges leave out; there are some."""
    for low, high in ranges.tolist():
        if low > start:
            return start, min(low, stop)
        start = max(start, high)
    return start, stop


def _told_apart(key: str, end: int) -> str:
    """Return why rows count as the same, where those of a key end at row `end`."""
    if _FINGERPRINT.fullmatch(key):
        return "stores are told apart by their first 64 rows"
    return (
        f"streams are told apart by their keys, and {key!r} is that of both; if these are other "
        f"rows, give them another key=, or position={end} if they go on the stream"
    )


def _cure(stop: int, end: int) -> str:
    """Return what to do where rows from `stop` to `end` follow those counted twice."""
    cure = f". Sum the rows after them alone: rows=({stop}, None) (--rows {stop}:)"
    return cure if end > stop else ""


def _joined(ranges: Indices) -> Indices:
    """Join sorted disjoint ranges that touch."""
    opens = np.concatenate(([True], ranges[1:, 0] > ranges[:-1, 1]))
    closes = np.concatenate((opens[1:], [True]))
    return np.stack((ranges[opens, 0], ranges[closes, 1]), axis=1).astype(np.int64)
