"""What the parts of a file agree on."""

import os
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT_VERSION = 1
USER_BLOCK = 512  # bytes before HDF5 begins, the smallest that HDF5 allows
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
MAX_DEPTH = 32  # of dicts in dicts; ours need five
KIND = re.compile("[a-z][a-z0-9-]{0,39}")
DTYPES = re.compile(r"\|b1|\|[iu]1|[<>][iu][248]|[<>]f[248]|[<>]U[1-9]\d{0,8}")

Path = str | os.PathLike[str]
Tree = dict[str, Any]
Keys = tuple[str, ...]  # that lead from the root to a value
Shape = tuple[Any, ...]


@dataclass(eq=False)
class StoredArray:
    """An array of the tree and its offset in the file."""

    name: str  # of its dataset
    dtype: str  # of the array, the bytes stored may be another: see `stored`
    stored: NDArray[Any]
    hdf5_type: np.dtype[Any]
    offset: int = 0  # known once libhdf5 has laid out the file

    def describe(self) -> dict[str, Any]:
        """Return the entry of the array in the JSON document."""
        described = {"dtype": self.dtype, "shape": self.stored.shape, "offset": self.offset}
        if self.dtype[1] == "U":
            described["width"] = self.stored.itemsize
        return {"$array": described}
