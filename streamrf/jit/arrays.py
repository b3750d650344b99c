"""Names of the types of arrays, for signatures; rows that nobody may write to."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

I16 = NDArray[np.int16]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Numbers = NDArray[Any]  # of any real dtype

Array = NDArray[Any]  # of any dtype
Floats = F64
Indices = I64
Mask = NDArray[np.bool_]
Features = NDArray[np.floating]  # float32 or float64


class _Lent:
    """The memory of an array, without its lock."""

    def __init__(self, x: Array) -> None:
        self._x = x
        self.__array_interface__ = x.__array_interface__ | {"data": (x.ctypes.data, False)}


def unlocked(x: Array) -> Array:
    """Return rows for a loop that only reads them, as a view without a lock against writing.

    For arrays that are locked, such as files mapped into memory, Numba would compile every loop
    once more, which takes seconds; so it would for rows that do not lie next to each other, which
    are copied first where they enter.
    """
    return x if x.flags.writeable else np.asarray(_Lent(x))


class Unlocked:
    """What gives arrays of its own to loops: unpickled, it holds none that is locked, but a copy.

    joblib maps the arrays of pickled objects into memory, with `mmap_mode` or for its workers.
    """

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            is_locked = isinstance(value, np.ndarray) and not value.flags.writeable
            vars(self)[name] = np.array(value) if is_locked else value
