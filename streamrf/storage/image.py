"""The layout of a file by libhdf5, in memory and without the bytes of the arrays."""

import io
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from streamrf.storage.base import FORMAT_VERSION, USER_BLOCK, StoredArray

_PIECE_BYTES = 2**24


class Image(io.RawIOBase):
    """A file in memory that holds only the pages written to; the rest is zeros."""

    page_bytes = 2**14

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = defaultdict(lambda: bytearray(self.page_bytes))
        self._position = 0
        self._length = 0

    @property
    def length(self) -> int:
        """Bytes from the start of the file to its end, those never written included."""
        return self._length

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._length}[whence]
        self._position = origin + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def truncate(self, size: int | None = None) -> int:
        self._length = self._position if size is None else size
        return self._length

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for page, inside, outside in self._spans(len(view)):
            self._pages[page][inside] = view[outside]
        self._position += len(view)
        self._length = max(self._length, self._position)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        for page, inside, outside in self._spans(len(view)):
            view[outside] = self._pages[page][inside]
        self._position += len(view)
        return len(view)

    def _spans(self, count: int) -> Iterator[tuple[int, slice, slice]]:
        """Cut the next `count` bytes at page ends: page, slice of the page, slice of the bytes."""
        done = 0
        while done < count:
            page, start = divmod(self._position + done, self.page_bytes)
            size = min(self.page_bytes - start, count - done)
            yield page, slice(start, start + size), slice(done, done + size)
            done += size


def lay_out(kind: str, root: Any, arrays: list[StoredArray]) -> tuple[Image, StoredArray]:
    """Lay out the file: all of its bytes but those of the arrays, whose offsets are set."""
    image = Image()
    with h5py.File(image, "w", userblock_size=USER_BLOCK) as file:
        file.attrs["format"] = "streamrf"
        file.attrs["kind"] = kind
        file.attrs["format_version"] = FORMAT_VERSION
        file.attrs["streamrf_version"] = _version()
        for array in arrays:
            _allocate(file, f"/arrays/{array.name}", array)
        document = json.dumps(
            root, ensure_ascii=False, allow_nan=False, default=StoredArray.describe
        )
        stored = np.array(document.encode("utf-8", "surrogatepass"))
        text = StoredArray("tree", "", stored, h5py.string_dtype("utf-8", stored.itemsize))
        _allocate(file, "/tree", text)
    return image, text


def _allocate(file: h5py.File, name: str, array: StoredArray) -> None:
    offset = allocate(file, name, array.stored.shape, array.hdf5_type)
    array.offset = offset if array.stored.size else USER_BLOCK


def allocate(file: h5py.File, name: str, shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Make a contiguous dataset without filling it; return where its bytes will lie, 0 if empty."""
    folder, _, link = name.rpartition("/")
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_layout(h5py.h5d.CONTIGUOUS)
    plan.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    plan.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    plan.set_obj_track_times(False)  # the same tree gives the same bytes
    dataset = h5py.h5d.create(
        file.require_group(folder or "/").id,
        link.encode("utf-8"),
        h5py.h5t.py_create(dtype, logical=True),
        h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR),
        plan,
    )
    return dataset.get_offset() or 0


def _version() -> str:
    """Return the version that writes the file."""
    try:
        return metadata.version("streamrf")
    except metadata.PackageNotFoundError:  # run from a source tree
        return "unknown"


def payload(image: Image, arrays: list[StoredArray]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of the file after the user block in order, in pieces."""
    end = USER_BLOCK
    for array in sorted((a for a in arrays if a.stored.size), key=lambda a: a.offset):
        image.seek(end)
        yield image.read(array.offset - end)
        yield from _pieces(array.stored)
        end = array.offset + array.stored.nbytes
    image.seek(end)
    yield image.read(image.length - end)


def _pieces(array: NDArray[Any]) -> Iterator[memoryview]:
    """Yield the bytes of an array in C order; one that is not contiguous is copied in pieces."""
    if array.ndim == 0:
        array = array.reshape(1)
    rows = max(1, _PIECE_BYTES * len(array) // array.nbytes)
    for start in range(0, len(array), rows):
        yield np.ascontiguousarray(array[start : start + rows]).reshape(-1).view(np.uint8).data
