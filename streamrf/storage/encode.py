"""A tree as JSON's own types and a list of arrays."""

import math
from typing import Any
from urllib.parse import quote

import h5py
import numpy as np
from numpy.typing import NDArray

from streamrf.errors import ParameterError
from streamrf.storage.base import DTYPES, MAX_DEPTH, Keys, StoredArray, Tree

_MAX_RANK = 32  # of HDF5


def encode(value: Any, keys: Keys, arrays: list[StoredArray]) -> Any:
    """Return `value` as JSON's own types and `StoredArray`, each also appended to `arrays`."""
    if isinstance(value, dict):
        return _encode_dict(value, keys, arrays)
    if isinstance(value, np.ndarray):
        arrays.append(_encode_array(value, keys))
        return arrays[-1]
    if isinstance(value, list):
        return [_encode_scalar(item, keys) for item in value]
    return _encode_scalar(value, keys)


def _encode_dict(tree: Tree, keys: Keys, arrays: list[StoredArray]) -> Tree:
    if len(keys) >= MAX_DEPTH:
        raise ParameterError(f"{_path(keys)} lies deeper than {MAX_DEPTH} dicts; files do not")
    for key in tree:
        if not isinstance(key, str):
            raise ParameterError(f"{_path(keys)} has the key {key!r}; files hold only str keys")
    return {
        "$" + key if key.startswith("$") else key: encode(value, (*keys, key), arrays)
        for key, value in tree.items()
    }


def _encode_scalar(value: Any, keys: Keys) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        # Other readers of JSON take numbers for doubles, and Python bounds the digits it converts.
        return int(value) if abs(value) < 2**53 else {"$int": hex(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    raise ParameterError(
        f"{_path(keys)} is a {type(value).__name__}; files hold dicts, arrays, str, int, float, "
        "bool, None and lists of scalars"
    )


def _encode_array(array: NDArray[Any], keys: Keys) -> StoredArray:
    dtype = array.dtype.str
    if isinstance(array, np.ma.MaskedArray) or not DTYPES.fullmatch(dtype):
        raise ParameterError(
            f"{_path(keys)} is a {type(array).__name__} of {array.dtype}; files hold plain arrays "
            "of bool, integers, floats up to 64 bits and str"
        )
    if array.ndim > _MAX_RANK:
        raise ParameterError(f"{_path(keys)} has rank {array.ndim}; HDF5 ends at {_MAX_RANK}")
    stored = _utf8(array) if array.dtype.kind == "U" else array
    hdf5_type = stored.dtype
    if stored.dtype.kind == "S":
        hdf5_type = h5py.string_dtype("utf-8", stored.itemsize)
    return StoredArray("/".join(map(_link_name, keys)), dtype, stored, hdf5_type)


def _utf8(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of str as fixed-width UTF-8, at least one byte for each character."""
    # An array so needs at most four times its bytes in the file: a false dtype allocates no more.
    words = [word.encode("utf-8", "surrogatepass") for word in array.ravel().tolist()]
    width = max(array.dtype.itemsize // 4, max(map(len, words), default=0))
    return np.array(words, dtype=f"S{width}").reshape(array.shape)


def _link_name(key: str) -> str:
    """Return a key as an HDF5 link name, which has no slash and is neither empty nor a dot."""
    quoted = quote(key, safe=" ", errors="surrogatepass")
    return {"": "%", ".": "%2E"}.get(quoted, quoted)


def _path(keys: Keys) -> str:
    return "tree" + "".join(f"[{key!r}]" for key in keys)
