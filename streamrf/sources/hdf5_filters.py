"""Filters of HDF5 chunks undone outside the library, whose lock lets one thread do it at a time.

What is not known here is left to the library, and so is every chunk that fails here: the library
reads it, or says what is wrong. Of a chunk that ends early it would read on in memory.
"""

import ctypes
import math
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from streamrf.jit.lzf import expand
from streamrf.sources.arrow_types import arrow

try:
    from isal.isal_zlib import decompress as inflate
except ImportError:  # an extra: 1.5 to 2.3 times as fast
    inflate = zlib.decompress

SHUFFLE = 2  # H5Z_FILTER_SHUFFLE


class ShortChunkError(ValueError):
    """A chunk holds fewer bytes than a chunk has."""


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

    def decode(self, mask: int, data: Any) -> NDArray[Any]:
        """Return a chunk, or raise any error; bits of `mask` are filters that were not applied.

        Raises
        ------
        ShortChunkError
            If it is decompressed without an error but ends early.
        """
        for index, code in reversed(list(enumerate(self.filters))):
            if mask >> index & 1:
                continue
            if code == SHUFFLE:
                data = _unshuffled(self._whole(data), self.dtype.itemsize)
            else:
                data = COMPRESSIONS[code](data, self.n_bytes)
        return np.frombuffer(self._whole(data), self.dtype).reshape(self.shape)

    def _whole(self, data: Any) -> Any:
        if memoryview(data).nbytes < self.n_bytes:
            raise ShortChunkError
        return data


def _unshuffled(data: Any, width: int) -> NDArray[np.uint8]:
    """Return the values of `width` bytes, of which `data` has all first bytes, all second ones."""
    planes = np.frombuffer(data, np.uint8).reshape(width, -1)
    out = np.empty((planes.shape[1], width), np.uint8)
    for byte, plane in enumerate(planes):
        out[:, byte] = plane  # 3.5 times as fast as a transposed copy
    return out


def _gunzipped(data: bytes, n_bytes: int) -> Any:
    return inflate(data, zlib.MAX_WBITS, n_bytes)


def _unzstd(data: bytes, n_bytes: int) -> Any:
    pa = arrow()  # whose `decompress` does not tell where the data end
    return pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(n_bytes + 1)


def _expanded(data: bytes, n_bytes: int) -> Any:
    out = np.empty(n_bytes, np.uint8)
    filled = expand(np.frombuffer(data, np.uint8), out)
    if filled < 0:
        raise ValueError("not LZF data of a chunk")
    return out[:filled]


def _unblosc(data: bytes, n_bytes: int) -> Any:
    out, size = np.empty(n_bytes, np.uint8), ctypes.c_size_t()
    is_bad = _blosc().blosc_cbuffer_validate(data, len(data), ctypes.byref(size))
    if is_bad or size.value > n_bytes:
        raise ValueError("not a Blosc buffer of a chunk")
    filled = _blosc().blosc_decompress_ctx(data, out.ctypes, n_bytes, 1)
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
    text, size = ctypes.c_char_p, ctypes.c_size_t
    library.blosc_cbuffer_validate.argtypes = (text, size, ctypes.c_void_p)
    library.blosc_decompress_ctx.argtypes = (text, ctypes.c_void_p, size, ctypes.c_int)
    return library


COMPRESSIONS: dict[int, Callable[[bytes, int], Any]] = {
    1: _gunzipped,
    32000: _expanded,
    32001: _unblosc,
    32015: _unzstd,
}
