"""LZF, the quick compression of h5py: a chunk expanded without HDF5's lock."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

U8 = NDArray[np.uint8]

SHORT = 32  # control bytes below it begin so many literal bytes, and one more


@njit(nogil=True, cache=True)
def expand(data: Any, out: U8) -> int:
    """Fill `out` with what LZF `data` (uint8, may be read-only) holds; return the bytes filled.

    Returns -1 if the data are damaged or hold more. Format: M. Lehmann, liblzf, `lzf_d.c`.
    """
    n, size = len(data), len(out)
    i = filled = 0
    while i < n:
        control: Any = np.int64(data[i])
        i += 1
        if control < SHORT:
            length: Any = control + 1
            if i + length > n or filled + length > size:
                return -1
            for k in range(length):
                out[filled + k] = data[i + k]
            i += length
        else:  # a copy of what is `back` bytes before, which may reach into itself
            length = (control >> 5) + 2
            n_more = 2 if length == 9 else 1
            if i + n_more > n:
                return -1
            if n_more == 2:
                length += np.int64(data[i])
            back = ((control & 31) << 8) + np.int64(data[i + n_more - 1]) + 1
            i += n_more
            if back > filled or filled + length > size:
                return -1
            for k in range(filled, filled + length):
                out[k] = out[k - back]
        filled += length
    return filled
