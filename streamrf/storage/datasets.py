"""Files of datasets that are filled a few rows at a time."""

import errno
import io
import os

import h5py
import numpy as np
from numpy.typing import ArrayLike

from streamrf.storage.image import Image, allocate


class Datasets:
    """HDF5 datasets of known shapes, filled a few rows at a time.

    As `write` does, libhdf5 lays the file out in memory and the bytes are written here,
    because a full disk makes libhdf5 end the process. The space is reserved first, so that a disk
    too small is known before the rows are read.

    Parameters
    ----------
    file : empty
    shapes : shape and dtype of each dataset
    """

    def __init__(
        self, file: io.BufferedWriter, shapes: dict[str, tuple[tuple[int, ...], np.dtype]]
    ):
        self._file = file
        self._shapes = shapes
        self._offsets: dict[str, int] = {}
        image = Image()
        with h5py.File(image, "w") as layout:
            for name, (shape, dtype) in shapes.items():
                self._offsets[name] = allocate(layout, name, shape, dtype)
        self._reserve(image.length)
        self._frame(image)

    def _reserve(self, n_bytes: int) -> None:
        try:
            os.posix_fallocate(self._file.fileno(), 0, n_bytes)
        except OSError as error:  # some file systems cannot
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise

    def _frame(self, image: Image) -> None:
        """Write all bytes but those of the datasets."""
        end = 0
        for name in sorted(self._offsets, key=self._offsets.__getitem__):
            self._copy(image, end, self._offsets[name])
            shape, dtype = self._shapes[name]
            end = self._offsets[name] + int(np.prod(shape)) * dtype.itemsize
        self._copy(image, end, image.length)

    def _copy(self, image: Image, start: int, stop: int) -> None:
        image.seek(start)
        self._file.seek(start)
        self._file.write(image.read(stop - start))

    def put(self, name: str, row: int, values: ArrayLike) -> None:
        """Write the rows of a dataset from `row` on."""
        shape, dtype = self._shapes[name]
        row_bytes = int(np.prod(shape[1:])) * dtype.itemsize
        self._file.seek(self._offsets[name] + row * row_bytes)
        self._file.write(np.ascontiguousarray(values, dtype=dtype).data.cast("B"))
