"""Rows of a pass by which a later run knows whether those counted are still the same."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from streamrf.errors import StreamrfError
from streamrf.sources import Block, Source
from streamrf.storage import Fields

MAX_SAMPLES = 32  # kept; beyond, every second is let go
PIECE, ROWS = 128, 8  # a sample is of the first rows of a piece of a block


class Samples:
    """Digests of a few rows, spread evenly over the rows counted."""

    def __init__(self) -> None:
        self._windows: list[tuple[int, int]] = []  # start and stop in the whole source
        self._digests: list[str] = []
        self._every = 1  # pieces
        self._n_pieces = 0

    def add(self, block: Block) -> None:
        """Take samples of a block, of pieces whose turn it is, where no row of it was left out."""
        if block.kept is not None:
            return
        for first in range(0, len(block.X), PIECE):
            if self._n_pieces % self._every == 0:
                self._take(block, slice(first, min(first + ROWS, len(block.X))))
            self._n_pieces += 1

    def _take(self, block: Block, rows: slice) -> None:
        self._windows.append((block.position + rows.start, block.position + rows.stop))
        self._digests.append(_digest([block.arrays.take(rows)], ROWS))
        if len(self._digests) > MAX_SAMPLES:
            self._windows, self._digests = self._windows[::2], self._digests[::2]
            self._every *= 2

    def changed(self, source: Source) -> int | None:
        """Return the index of a row that is not what it was, None where all are."""
        for (start, stop), digest in zip(self._windows, self._digests, strict=True):
            try:
                parts = [block.arrays for block in source.blocks(start, stop)]
            except StreamrfError:  # not so many rows, or none that can be read
                return start
            if _digest(parts, stop - start) != digest:
                return start
        return None

    def to_tree(self) -> dict[str, Any]:
        """Return the samples as a tree."""
        return {
            "windows": np.array(self._windows, dtype=np.int64).reshape(-1, 2),
            "digests": self._digests,
            "every": self._every,
            "n_blocks": self._n_pieces,
        }

    @classmethod
    def from_tree(cls, tree: dict | Fields) -> "Samples":
        """Rebuild from `to_tree`."""
        fields, samples = Fields.of(tree), cls()
        samples._digests = fields.texts("digests")
        windows = fields.array("windows", np.int64, (len(samples._digests), 2))
        samples._every = fields.integer("every", minimum=1)
        samples._n_pieces = fields.integer("n_blocks")
        fields.end()
        if windows.size and not ((windows[:, 0] >= 0) & (windows[:, 0] < windows[:, 1])).all():
            raise fields.wrong("windows", "are not ranges of rows")
        if len(windows) > MAX_SAMPLES or (windows[:, 1] - windows[:, 0] > ROWS).any():
            raise fields.wrong("windows", f"are more than {MAX_SAMPLES} of {ROWS} rows")
        samples._windows = [(int(start), int(stop)) for start, stop in windows]
        return samples


def are_known(versions: Sequence[str]) -> bool:
    """Return whether every store of a source has a version, by which a change of it is seen."""
    return bool(versions) and all(versions)


def state_of(source: Source) -> list[str]:
    """Return what changes when rows of a source do: its versions, else a digest of samples."""
    if are_known(source.versions):
        return source.versions
    n_rows = MAX_SAMPLES * ROWS
    return [*source.versions, _digest([source.sample(n_rows).arrays], n_rows)]


def _digest(parts: Sequence[tuple[Any, ...]], n_rows: int) -> str:
    """Return a hash of the first rows, whatever parts they come in."""
    rows: list[Any] = []
    for part in parts:
        columns = [column for column in part if column is not None]
        rows += zip(*(column[:n_rows].tolist() for column in columns), strict=True)
    text = repr(rows[:n_rows]).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()
