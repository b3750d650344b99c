"""Memory of a large array that the next one takes over, within a run.

The first touch of fresh memory costs more than what is done with it: half a second for the factor
of 16,384 features in float32, where filling it again takes a tenth.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

import numpy as np

from streamrf.jit.arrays import Array

_workspace: ContextVar["_Workspace | None"] = ContextVar("workspace", default=None)


@contextmanager
def reused_memory() -> Iterator[None]:
    """Keep the memory of what `lent` returns, until the end."""
    token = _workspace.set(_Workspace())
    try:
        yield
    finally:
        _workspace.reset(token)


def lent(size: int, dtype: Any, stays: bool = True) -> Array:
    """Return an array (size,) that is not filled.

    Within `reused_memory` it has the memory of the one before, unless that is still there, or was
    smaller. Where it is made anew, `stays` says whether its memory is kept for the next.
    """
    workspace = _workspace.get()
    if workspace is None:
        return np.empty(size, dtype)
    return workspace.lend(size, np.dtype(dtype), stays)


class _Workspace:
    def __init__(self) -> None:
        self._memory: Array = np.empty(0, np.uint8)
        self._last: weakref.ref[_Loan] | None = None
        self._lock = Lock()

    def lend(self, size: int, dtype: np.dtype[Any], stays: bool) -> Array:
        with self._lock:
            return self._lend(size, dtype, stays)

    def _lend(self, size: int, dtype: np.dtype[Any], stays: bool) -> Array:
        n_bytes = size * dtype.itemsize
        is_short = len(self._memory) < n_bytes
        if (self._last is not None and self._last() is not None) or (is_short and not stays):
            return np.empty(size, dtype)
        if is_short:
            self._memory = np.empty(0, np.uint8)  # so that only one is there at a time
            self._memory = np.empty(n_bytes, np.uint8)
        loan = _Loan(self._memory[:n_bytes].view(dtype))
        self._last = weakref.ref(loan)
        return np.asarray(loan)


class _Loan:
    """What an array and all its views refer to, so that it is gone when they are."""

    def __init__(self, memory: Array) -> None:
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__
