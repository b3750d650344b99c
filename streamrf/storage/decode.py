"""A tree from the JSON document and the arrays in the file that it names."""

import io
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import FormatError
from streamrf.storage.base import DTYPES, MAX_DEPTH, USER_BLOCK, Tree


class Reader:
    """Reads the arrays that the JSON document names, within the file's length."""

    def __init__(self, file: io.BufferedReader, length: int) -> None:
        self._file = file
        self._length = length
        self._unclaimed = length  # arrays that overlap could need more memory than the file has

    def tree(self, offset: int, size: int) -> Tree:
        document = self._bytes(offset, (size,), np.dtype(np.uint8)).tobytes()
        text = document.decode("utf-8", "surrogatepass")
        tree = json.loads(text, parse_constant=_raise_constant)
        if not isinstance(tree, dict):
            raise FormatError("its outermost value is no object")
        return self._dict(tree, 0)

    def _dict(self, node: Tree, depth: int) -> Tree:
        if depth >= MAX_DEPTH:
            raise FormatError("it is nested too deep")
        tree = {}
        for key, value in node.items():
            if key.startswith("$") and not key.startswith("$$"):
                raise FormatError(f"it has an object {key!r} out of place")
            tree[key.removeprefix("$")] = self._value(value, depth)
        return tree

    def _value(self, node: Any, depth: int) -> Any:
        if isinstance(node, list):
            return [_decode_scalar(item) for item in node]
        if isinstance(node, dict) and node.keys() == {"$array"}:
            return self._array(**node["$array"])
        if isinstance(node, dict) and not node.keys() & {"$int", "$float"}:
            return self._dict(node, depth + 1)
        return _decode_scalar(node)

    def _array(self, dtype: str, shape: Any, offset: int, width: Any = None) -> NDArray[Any]:
        if not DTYPES.fullmatch(dtype):
            raise FormatError(f"it has an array of {dtype!r}")
        result_type = np.dtype(dtype)
        if result_type.kind == "U":
            return self._text(result_type, shape, offset, width)
        array = self._bytes(offset, shape, result_type)
        if result_type.kind == "b" and array.size and array.view(np.uint8).max() > 1:
            raise FormatError("it has a bool that is neither 0 nor 1")
        return array

    def _text(self, dtype: np.dtype[Any], shape: Any, offset: int, width: Any) -> NDArray[Any]:
        if not isinstance(width, int) or width < dtype.itemsize // 4:
            raise FormatError(f"it has texts of {dtype} in {width} bytes")
        stored = self._bytes(offset, shape, np.dtype(f"S{width}"))
        words = [word.decode("utf-8", "surrogatepass") for word in stored.ravel().tolist()]
        return np.array(words, dtype=dtype).reshape(stored.shape)

    def _bytes(self, offset: int, shape: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Read an array; nothing is allocated before its bytes are known to be in the file."""
        size = dtype.itemsize * math.prod(shape)
        if not (
            all(type(n) is int and 0 <= n <= self._length for n in (offset, *shape))
            and USER_BLOCK <= offset <= self._length - size
            and size <= self._unclaimed
        ):
            raise FormatError(f"it has an array {dtype} of shape {shape} at byte {offset}")
        self._unclaimed -= size
        array = np.empty(shape, dtype)
        if size:
            view = array.reshape(-1).view(np.uint8).data
            self._file.seek(offset)
            while view:
                count = self._file.readinto(view)
                if not count:
                    raise FormatError("it became shorter while it was read")
                view = view[count:]
        return array


def _decode_scalar(node: Any) -> Any:
    if isinstance(node, dict) and len(node) == 1:
        if "$int" in node:
            return int(node["$int"], 16)
        if "$float" in node and node["$float"] in ("nan", "inf", "-inf"):
            return float(node["$float"])
    if isinstance(node, dict | list):
        raise FormatError("it has a list or an object where a scalar belongs")
    return node


def _raise_constant(name: str) -> float:
    raise FormatError(f"it has the constant {name}")
