"""Filters of HDF5 chunks undone outside the library, whose lock lets one thread do it at a time.

What is not known here is left to the library, and so is every chunk that fails here: the library
reads it, or says what is wrong. Of a chunk that ends early it would read on in memory.
"""

import ctypes
import math
import mmap
import os
import queue
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from streamrf.jit.lzf import expand
from streamrf.sources.arrow_types import arrow

try:
    from isal import isal_zlib as gzip
except ImportError:  # an extra: 1.5 to 2.3 times as fast
    gzip = zlib

SHUFFLE = 2  # H5Z_FILTER_SHUFFLE
LARGE_BYTES = 1 << 20  # of a chunk that is decompressed piece by piece
FED_BYTES, MADE_BYTES = 1 << 16, 1 << 18  # of such a piece


class ShortChunkError(ValueError):
    """A chunk holds fewer bytes than a chunk has."""


class Buffers:
    """Memory of one size, lent to as many as ask for it at once and used again.

    Much memory is asked of the system, as the C library keeps up to 64 MiB for each thread of what
    it had allocated; that is slow, so it is used again.

    Parameters
    ----------
    n_bytes : of each

    Attributes
    ----------
    is_large : whether that is much
    """

    def __init__(self, n_bytes: int) -> None:
        self._n_bytes = n_bytes
        self.is_large = n_bytes >= LARGE_BYTES
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def take(self) -> NDArray[np.uint8]:
        """Return memory that nobody else has until it is given back."""
        return np.frombuffer(self._pages(), np.uint8)

    def give(self, buffer: NDArray[np.uint8]) -> None:
        """Let others have what was taken."""
        self._free.put(buffer.base)

    @contextmanager
    def lent(self) -> Iterator[NDArray[np.uint8]]:
        """Yield memory that is given back at the end."""
        buffer = self.take()
        try:
            yield buffer
        finally:
            self.give(buffer)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return an array whose memory is given back when nothing refers to it any more."""
        if not self.is_large:
            return np.empty(shape, dtype)
        pages = self._pages()
        array: NDArray[Any] = np.ndarray(shape, dtype, pages)  # the base of its views
        weakref.finalize(array, self._free.put, pages).atexit = False
        return array

    def _pages(self) -> Any:
        try:
            return self._free.get_nowait()
        except queue.Empty:
            if not self.is_large:
                return bytearray(self._n_bytes)
            try:
                pages = mmap.mmap(-1, self._n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            except OSError as error:
                raise MemoryError(f"no memory for {self._n_bytes:,} bytes of a chunk") from error
            if hasattr(mmap, "MADV_HUGEPAGE"):
                with suppress(OSError):  # of a kernel without them
                    pages.madvise(mmap.MADV_HUGEPAGE)
            return pages


@dataclass(frozen=True)
class Pipeline:
    """How raw chunks of a dataset become arrays.

    Parameters
    ----------
    filters : their codes, in the order in which they were applied
    shape, dtype : of a chunk
    """

    filters: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, dataset: h5py.Dataset) -> "Pipeline | None":
        """Return that of a dataset; None if there is nothing to gain, or something not known."""
        if dataset.chunks is None or dataset.dtype.kind not in "biufSV":
            return None
        if dataset.dtype.hasobject:  # of texts elsewhere in the file
            return None
        if not dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype, logical=True)):
            return None  # the library converts it
        made = dataset.id.get_create_plist()
        found = [made.get_filter(index) for index in range(made.get_nfilters())]
        codes = tuple(code for code, *_ in found)
        known = [code in COMPRESSIONS for code in codes if code != SHUFFLE]
        widths = [values[0] for code, _, values, _ in found if code == SHUFFLE]
        if not codes or known not in ([True], []) or widths not in ([], [dataset.dtype.itemsize]):
            return None
        return cls(codes, dataset.chunks, dataset.dtype)

    @property
    def n_bytes(self) -> int:
        """Bytes of a chunk."""
        return math.prod(self.shape) * self.dtype.itemsize

    def buffers(self) -> Buffers:
        """Return what `fill` takes: a byte more than a chunk, to tell those that are too long."""
        return Buffers(self.n_bytes + 1)

    def fill(self, place: NDArray[Any], mask: int, data: Any, buffers: Buffers) -> None:
        """Fill `place` with the first entries of a chunk on each axis, or raise any error.

        Parameters
        ----------
        place : not larger than a chunk
        mask : whose bits are filters that were not applied
        data : the chunk as it is stored
        buffers : of `buffers`

        Raises
        ------
        ShortChunkError
            If it is decompressed without an error but ends early.
        """
        with buffers.lent() as one, buffers.lent() as other:
            for index, code in reversed(list(enumerate(self.filters))):
                if mask >> index & 1:
                    continue
                if code == SHUFFLE:
                    data = _unshuffled(self._whole(data), self.dtype.itemsize, other)
                else:
                    data = COMPRESSIONS[code](data, one)
            chunk = np.frombuffer(self._whole(data), self.dtype).reshape(self.shape)
            place[...] = chunk[tuple(map(slice, place.shape))]

    def _whole(self, data: Any) -> Any:
        if memoryview(data).nbytes < self.n_bytes:
            raise ShortChunkError
        return data


def _unshuffled(data: Any, width: int, out: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the values of `width` bytes, of which `data` has all first bytes, all second ones."""
    planes = np.frombuffer(data, np.uint8).reshape(width, -1)
    values = out[: planes.size].reshape(-1, width)
    for byte, plane in enumerate(planes):
        values[:, byte] = plane  # 3.5 times as fast as a transposed copy
    return values


def _gunzipped(data: Any, out: NDArray[np.uint8]) -> Any:
    if len(out) <= LARGE_BYTES:  # one more than a chunk
        return gzip.decompress(data, zlib.MAX_WBITS, len(out))
    filled, stream = 0, gzip.decompressobj()
    for start in range(0, len(data), FED_BYTES):
        fed, made = memoryview(data)[start : start + FED_BYTES], b""
        while not stream.eof and (fed or len(made) == MADE_BYTES):
            made = stream.decompress(fed, MADE_BYTES)
            end = filled + len(made)
            if end > len(out):
                raise ValueError("more data than a chunk has")
            out[filled:end] = np.frombuffer(made, np.uint8)
            filled, fed = end, stream.unconsumed_tail
    if not stream.eof:
        raise ValueError("not all data of a chunk")
    return out[:filled]


def _unzstd(data: Any, out: NDArray[np.uint8]) -> Any:
    pa = arrow()  # whose `decompress` does not tell where the data end
    return out[: pa.CompressedInputStream(pa.BufferReader(data), "zstd").readinto(out)]


def _expanded(data: Any, out: NDArray[np.uint8]) -> Any:
    filled = expand(np.frombuffer(data, np.uint8), out[:-1])
    if filled < 0:
        raise ValueError("not LZF data of a chunk")
    return out[:filled]


def _unblosc(data: Any, out: NDArray[np.uint8]) -> Any:
    n_bytes, size = len(out) - 1, ctypes.c_size_t()
    stored = np.frombuffer(data, np.uint8).ctypes
    is_bad = _blosc().blosc_cbuffer_validate(stored, len(data), ctypes.byref(size))
    if is_bad or size.value > n_bytes:
        raise ValueError("not a Blosc buffer of a chunk")
    filled = _blosc().blosc_decompress_ctx(stored, out.ctypes, n_bytes, 1)
    if filled < 0:
        raise ValueError("damaged Blosc data")
    return out[:filled]


@cache
def register() -> str:
    """Let the HDF5 library know the common filters; return the folder of their libraries."""
    import hdf5plugin  # it loads a dozen libraries, for HDF5 files of rows alone

    return hdf5plugin.PLUGIN_PATH


@cache
def _blosc() -> Any:
    """Return the library of the Blosc filter; one of another make lacks what is asked for."""
    library = ctypes.CDLL(os.path.join(register(), "libh5blosc.so"))
    place, size = ctypes.c_void_p, ctypes.c_size_t
    library.blosc_cbuffer_validate.argtypes = (place, size, place)
    library.blosc_decompress_ctx.argtypes = (place, place, size, ctypes.c_int)
    return library


COMPRESSIONS: dict[int, Callable[[Any, NDArray[np.uint8]], Any]] = {
    1: _gunzipped,
    32000: _expanded,
    32001: _unblosc,
    32015: _unzstd,
}
