"""LAPACK on symmetric matrices in rectangular full packed format (TRANSR 'N', UPLO 'L'), in place.

The functions that SciPy is linked with, called by their addresses: its wrappers check the length of
a packed matrix in 32 bits, which ends at order 46,340, while LAPACK itself goes on to 65,535.
"""

import ctypes
import functools
from typing import Any

import numpy as np
from numba.extending import get_cython_function_address

from streamrf.jit.arrays import Numbers

MAX_COLUMNS = 65_535  # beyond, LAPACK cannot count the numbers of a packed matrix in 32 bits

_LETTERS = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}
_SCALARS = {np.dtype(np.float32): ctypes.c_float, np.dtype(np.float64): ctypes.c_double}


def add_product(Q: Numbers, packed: Numbers) -> None:
    """``packed += Q^T Q`` (`ssfrk`, `dsfrk`).

    Parameters
    ----------
    Q : (n_rows, n) in C order, float32 or float64
    packed : (n (n + 1) / 2,) of the same dtype
    """
    assert Q.flags.c_contiguous
    n_rows, n = Q.shape
    one = _SCALARS[Q.dtype](1.0)
    _call("sfrk", b"N", b"L", b"N", n, n_rows, one, Q, n, one, packed)


def factor(packed: Numbers, n: int) -> bool:
    """Overwrite a matrix of order n by its Cholesky factor (`pftrf`); return whether it has one."""
    info = ctypes.c_int(0)
    _call("pftrf", b"N", b"L", n, packed, info)
    return info.value == 0


def solve(factor: Numbers, B: Numbers) -> None:
    """Overwrite B by ``(L L^T)^-1 B`` (`pftrs`).

    Parameters
    ----------
    factor : packed L, as `factor` leaves it
    B : (n, n_columns) in Fortran order, of the same dtype
    """
    assert B.flags.f_contiguous
    n, n_columns = B.shape
    info = ctypes.c_int(0)
    _call("pftrs", b"N", b"L", n, n_columns, factor, B, n, info)


def factor_square(square: Numbers) -> bool:
    """Overwrite the lower triangle of a square in C order by its Cholesky factor (`potrf`)."""
    n, info = len(square), ctypes.c_int(0)
    _call("potrf", b"U", n, square, n, info)
    return info.value == 0


def _call(name: str, *arguments: Any) -> None:
    """Call the routine of the arrays' dtype; every argument goes by its address."""
    arrays = [value for value in arguments if isinstance(value, np.ndarray)]
    dtype = arrays[0].dtype
    assert all(array.dtype == dtype for array in arrays), "one dtype for all"
    kept = [_by_address(value) for value in arguments]
    routine = _routine(_LETTERS[dtype] + name, len(arguments))
    routine(*[ctypes.cast(value, ctypes.c_void_p) for value in kept])


@functools.cache
def _routine(name: str, n_arguments: int) -> Any:
    """Return a routine that takes addresses; to look for it takes longer than a small product."""
    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


def _by_address(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, bytes):
        return ctypes.create_string_buffer(value)
    return ctypes.pointer(ctypes.c_int(value) if isinstance(value, int) else value)
