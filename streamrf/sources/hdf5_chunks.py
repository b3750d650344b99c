"""Rows of HDF5 datasets: chunks fetched raw and decompressed by many threads, or by the library."""

import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import product
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from streamrf.errors import CorruptFileError
from streamrf.sources.hdf5_filters import SHUFFLE, Buffers, Pipeline, ShortChunkError
from streamrf.sources.seekable import Ranges

TASK_BYTES = 1 << 19  # that a thread decompresses at a time, or one chunk
MAX_TASK_CHUNKS = 256  # of which a few rows may want few
BANDS_IN_USE = 4  # by blocks that wait or are added, at most; measured
AHEAD_BYTES = 32 << 20  # of a dataset, decompressed ahead of their use


def read_rows(dataset: h5py.Dataset, low: int, high: int, where: str) -> NDArray[Any]:
    """Return rows ``[low, high)`` as the library reads them; raises as `read_slices` does."""
    return read_slices(dataset, slice(low, high), low, high, where)


def read_slices(
    dataset: h5py.Dataset, slices: Any, low: int, high: int, where: str
) -> NDArray[Any]:
    """Return what slices of a dataset mean, which are the rows ``[low, high)``.

    Raises
    ------
    CorruptFileError
        If the library cannot read them; `where` names the dataset.
    """
    try:
        return dataset[slices]
    except (OSError, RuntimeError) as error:
        raise CorruptFileError(
            f"{where}: rows {low} to {high - 1} cannot be read ({error}); the file is damaged or"
            " truncated there: copy or write it again"
        ) from error


def steps(start: int, stop: int, chunk_rows: int, block_rows: int) -> Iterator[tuple[int, int]]:
    """Cut ``[start, stop)`` into whole chunks, or a chunk longer than a block into equal pieces."""
    low = start
    while low < stop:
        high = (low + block_rows) // chunk_rows * chunk_rows
        if high <= low:
            left = min((low // chunk_rows + 1) * chunk_rows, stop) - low
            pieces = -(-left // block_rows)
            high = low + -(-left // pieces)
        yield low, min(high, stop)
        low = high


@dataclass(frozen=True)
class Bands:
    """How the rows of a dataset are cut for threads: a band is rows of whole chunks.

    Parameters
    ----------
    pipeline : how a chunk is decompressed
    n_rows : rows of a band: of as many chunks as make a task or, if those are longer, of one
    n_bytes : of a band
    n_ahead : bands that are decompressed ahead of the rows in use
    n_bands : in all
    """

    pipeline: Pipeline
    n_rows: int
    n_bytes: int
    n_ahead: int
    n_bands: int

    @classmethod
    def of(cls, dataset: h5py.Dataset, n_threads: int) -> "Bands | None":
        """Return those of a dataset; None where the library reads it."""
        pipeline = Pipeline.of(dataset)
        if pipeline is None:
            return None
        sizes = zip(dataset.shape[1:], dataset.chunks[1:], strict=True)
        n_across = math.prod(-(-size // chunk) for size, chunk in sizes)
        across = n_across * pipeline.n_bytes
        n_chunks = max(1, min(TASK_BYTES // across, MAX_TASK_CHUNKS // n_across))
        n_ahead = min(n_threads, AHEAD_BYTES // (n_chunks * across))
        rows = n_chunks * dataset.chunks[0]
        n_bands = -(-len(dataset) // rows)
        return cls(pipeline, rows, n_chunks * across, n_ahead, n_bands) if n_ahead else None

    @property
    def held_bytes(self) -> int:
        """Bytes of bands whose rows are in use, of one that is read and of those ahead.

        These are there as they are stored, decompressed, unshuffled and in place.
        """
        copies = 3 + (SHUFFLE in self.pipeline.filters)
        n_used, n_begun = (min(n, self.n_bands) for n in (BANDS_IN_USE, 1 + self.n_ahead))
        return (n_used + copies * n_begun) * self.n_bytes

    def inside(self, ranges: Ranges) -> Iterator[tuple[int, int]]:
        """Yield the bounds of the bands with rows of ascending ranges, each band once."""
        step, chunk, end = self.n_rows, self.pipeline.shape[0], ranges[-1][1]
        low = ranges[0][0] // chunk * chunk
        for start, stop in ranges:
            low = max(low, start // step * step)
            while low < stop:
                yield low, min(low // step * step + step, end)
                low = low // step * step + step


def held_bytes(dataset: h5py.Dataset, n_threads: int) -> int:
    """Return the bytes that are held of a dataset while it is read, besides the library's cache."""
    bands = Bands.of(dataset, n_threads)
    return library_bytes(dataset) if bands is None else bands.held_bytes


def library_bytes(dataset: h5py.Dataset) -> int:
    """Return the bytes that the library holds besides its cache, of a dataset that it reads.

    It has a chunk in its cache while it reads the next, and this as it is stored, too, while it is
    decompressed.
    """
    if dataset.chunks is None:
        return 0
    is_filtered = dataset.id.get_create_plist().get_nfilters() > 0
    n_bytes: int = math.prod(dataset.chunks) * dataset.dtype.itemsize
    return (is_filtered + any(map(int.__gt__, dataset.shape, dataset.chunks))) * n_bytes


class RowReader:
    """Rows of an open dataset, read in ascending order.

    Every call of the library is made by the thread that reads; those of `pool` only decompress.

    Parameters
    ----------
    dataset : stays open while it is read
    ranges : rows that will be read, disjoint and ascending
    where : the dataset, for messages
    pool, n_threads : threads that decompress, and how many there are
    """

    def __init__(
        self, dataset: h5py.Dataset, ranges: Ranges, where: str, pool: Executor, n_threads: int
    ) -> None:
        self._dataset, self._where, self._pool = dataset, where, pool
        self._bands = Bands.of(dataset, n_threads)
        self._bounds = iter(() if self._bands is None else self._bands.inside(ranges))
        self._begun: deque[_Band] = deque()
        if self._bands is not None:
            self._memory = _Memory(self._bands)

    def read(self, low: int, high: int) -> NDArray[Any]:
        """Return the rows ``[low, high)`` of a range, or raise CorruptFileError."""
        bands, begun = self._bands, self._begun
        if bands is None or low == high:
            return read_rows(self._dataset, low, high, self._where)
        while begun and begun[0].stop <= low:
            begun.popleft()
        while sum(band.start >= high for band in begun) < bands.n_ahead:
            bounds = next(self._bounds, None)
            if bounds is None:
                break
            if bounds[1] > low:
                given = self._dataset, bands.pipeline, *bounds, self._memory, self._pool
                begun.append(_Band(*given))
        try:
            parts = [band.rows(low, high) for band in begun if band.start < high]
        except ShortChunkError as error:
            raise CorruptFileError(
                f"{self._where}: a chunk of the rows {low} to {high - 1} holds fewer bytes than a "
                "chunk has; the file is damaged there: copy or write it again"
            ) from error
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):  # a chunk never written, or damaged: the library knows
            return read_rows(self._dataset, low, high, self._where)
        return found[0] if len(found) == 1 else np.concatenate(found, dtype=self._dataset.dtype)


class _Memory:
    """What chunks and bands are read into."""

    def __init__(self, bands: Bands) -> None:
        self.chunks, self.bands = bands.pipeline.buffers(), Buffers(bands.n_bytes)


class _Band:
    """Rows ``[start, stop)``, fetched raw now and decompressed meanwhile."""

    def __init__(
        self,
        dataset: h5py.Dataset,
        pipeline: Pipeline,
        start: int,
        stop: int,
        memory: _Memory,
        pool: Executor,
    ) -> None:
        self.start, self.stop = start, stop
        shape = stop - start, *dataset.shape[1:]
        self._rows = memory.bands.array(shape, dataset.dtype)
        columns = zip(dataset.shape[1:], pipeline.shape[1:], strict=True)
        steps = [range(0, size, chunk) for size, chunk in columns]
        offsets = product(range(start, stop, pipeline.shape[0]), *steps)
        fetch = dataset.id.read_direct_chunk
        self._is_whole = True
        chunks: list[tuple[NDArray[Any], int, Any, NDArray[np.uint8] | None]] = []
        for offset in offsets:
            raw = memory.chunks.take() if memory.chunks.is_large else None
            try:
                chunks.append((self._place(offset, pipeline.shape), *fetch(offset, out=raw), raw))
            except (OSError, RuntimeError, MemoryError, ValueError):
                self._is_whole = False  # not written, or truncated, or longer than a chunk
        size = max(1, TASK_BYTES // pipeline.n_bytes)
        parts = [chunks[first : first + size] for first in range(0, len(chunks), size)]
        self._tasks = [pool.submit(_fill, pipeline, part, memory.chunks) for part in parts]

    def _place(self, offset: tuple[int, ...], shape: tuple[int, ...]) -> NDArray[Any]:
        """Return where the chunk at an offset goes, which is cut at the edges."""
        first = (offset[0] - self.start, *offset[1:])
        return self._rows[tuple(slice(f, f + n) for f, n in zip(first, shape, strict=True))]

    def rows(self, low: int, high: int) -> NDArray[Any] | None:
        """Return the rows of ``[low, high)`` here; None if a chunk cannot be had in this way.

        Raises
        ------
        ShortChunkError
            If one of those that can ends early.
        """
        for task in self._tasks:
            try:
                task.result()
            except ShortChunkError:
                raise
            except Exception:  # any that a decompressor raises
                self._is_whole = False
        if not self._is_whole:
            return None
        return self._rows[max(low - self.start, 0) : high - self.start]


def _fill(
    pipeline: Pipeline,
    chunks: list[tuple[NDArray[Any], int, Any, NDArray[np.uint8] | None]],
    buffers: Buffers,
) -> None:
    """Decompress chunks: where each goes, which filters to skip, its bytes, and what has them."""
    for place, mask, data, raw in chunks:
        pipeline.fill(place, mask, data, buffers)
        if raw is not None:
            buffers.give(raw)
