"""Rows of a pass by which a later run knows whether those counted are still the same."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from streamrf.errors import StreamrfError
from streamrf.sources import Block, Source
from streamrf.storage import Fields

MAX_SAMPLES = 32  # kept; beyond, every second is let go
ROWS = 8  # of a sample, the first of a block


class Samples:
    """Digests of a few rows, spread evenly over the blocks counted."""

    def __init__(self) -> None:
        self._windows: list[tuple[int, int]] = []  # start and stop in the whole source
        self._digests: list[str] = []
        self._every = 1  # blocks
        self._n_blocks = 0

    def add(self, block: Block) -> None:
        """Take a sample of a block, where it is its turn and no row of it was left out."""
        turn = self._n_blocks % self._every == 0
        self._n_blocks += 1
        if not turn or block.kept is not None or not len(block.X):
            return
        n = min(ROWS, len(block.X))
        self._windows.append((block.position, block.position + n))
        self._digests.append(_digest([block], n))
        if len(self._digests) > MAX_SAMPLES:
            self._windows, self._digests = self._windows[::2], self._digests[::2]
            self._every *= 2

    def changed(self, source: Source) -> int | None:
        """Return the index of a row that is not what it was, None where all are."""
        for (start, stop), digest in zip(self._windows, self._digests, strict=True):
            try:
                blocks = list(source.blocks(start, stop))
            except StreamrfError:  # not so many rows, or none that can be read
                return start
            if _digest(blocks, stop - start) != digest:
                return start
        return None

    def to_tree(self) -> dict[str, Any]:
        """Return the samples as a tree."""
        return {
            "windows": np.array(self._windows, dtype=np.int64).reshape(-1, 2),
            "digests": self._digests,
            "every": self._every,
            "n_blocks": self._n_blocks,
        }

    @classmethod
    def from_tree(cls, tree: dict | Fields) -> "Samples":
        """Rebuild from `to_tree`."""
        fields, samples = Fields.of(tree), cls()
        samples._digests = fields.texts("digests")
        windows = fields.array("windows", np.int64, (len(samples._digests), 2))
        samples._every = fields.integer("every", minimum=1)
        samples._n_blocks = fields.integer("n_blocks")
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
    return [*source.versions, _digest([source.sample(MAX_SAMPLES * ROWS)], MAX_SAMPLES * ROWS)]


def _digest(blocks: Sequence[Block], n_rows: int) -> str:
    """Return a hash of the first rows, whatever blocks they come in."""
    rows: list[Any] = []
    for block in blocks:
        columns = [column for column in block.arrays if column is not None]
        rows += zip(*(column[:n_rows].tolist() for column in columns), strict=True)
    text = repr(rows[:n_rows]).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()
