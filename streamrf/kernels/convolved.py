"""Kernels of images by their patches: a kernel of small windows, pooled."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamrf.errors import ParameterError
from streamrf.kernels.base import Kernel, rows_of
from streamrf.kernels.dot_product import Floats
from streamrf.kernels.grids import Lengths, cells, check_count, check_lengths, grid_of, windows

SAMPLE_PATCHES = 20_000  # that settings are learnt from
VALUES_BYTES = 32 << 20  # of the kernels of all pairs of patches, computed at once


class Convolved(Kernel):
    """``K(x, y) = mean_c mean_(p, q in c) patch(x_p, y_q)``: cells c of windows p and q.

    With as many cells as windows it is the mean over windows of the kernel of their patches, a
    convolutional layer of a `Skeleton`. A cell of several windows pools: a patch is compared with
    all of the other row's patches in its cell, so that it may move there.

    Parameters
    ----------
    patch : kernel of patches, rows of as many columns as a window has sites
    shape : of a row, such as ``(28, 28)``, or ``(32, 32, 3)`` with channels last; None means a line
    window : int, or one for each axis: sites of a patch along each, at most those there are;
        channels are in it all
    stride : int, or one for each axis, from one window to the next
    cells : int, cells along each axis, as even as can be

    Examples
    --------
    >>> import streamrf as srf
    >>> kernel = srf.Convolved(srf.Gaussian(1.0), window=2, cells=1)
    >>> kernel([[0, 0, 0, 9]], [[0, 0, 9, 0], [5, 5, 5, 5]]).round(2)
    array([[0.33, 0.  ]])
    """

    def __init__(
        self,
        patch: Kernel,
        shape: Sequence[int] | None = None,
        *,
        window: Lengths = 7,
        stride: Lengths = 1,
        cells: int = 2,
    ) -> None:
        self.patch = patch
        self.shape = shape
        self.window = window
        self.stride = stride
        self.cells = cells

    def check_settings(self) -> None:
        self._kernel().check_settings()

    def _kernel(self) -> Kernel:
        """Return the kernel of patches, or raise ParameterError."""
        if not isinstance(self.patch, Kernel):
            raise ParameterError(f"patch must be a kernel, got {self.patch!r}")
        return self.patch

    def learn(self, sample: NDArray[Any] | None) -> Self:
        if sample is not None:
            firsts, offsets, _ = patches_of(self, sample.shape[1])
            rows = sample[:: -(-len(sample) * len(firsts) // SAMPLE_PATCHES)]
            sample = np.concatenate([rows[:, first + offsets] for first in firsts])
        return type(self)(**self.get_params(deep=False) | {"patch": self._kernel().learn(sample)})

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        self.check_settings()
        rows = rows_of(X)
        others = rows if Y is None else rows_of(Y)
        firsts, offsets, own = patches_of(self, rows.shape[1])
        n_cells = int(own.max()) + 1
        total = np.zeros((len(rows), len(others)))
        for cell in range(n_cells):
            sites = np.add.outer(firsts[own == cell], offsets)
            size = len(sites)
            step = max(1, VALUES_BYTES // (8 * size * size * max(1, len(others))))
            there = others[:, sites].reshape(-1, sites.shape[1])
            for start in range(0, len(rows), step):
                here = rows[start : start + step, sites].reshape(-1, sites.shape[1])
                values = self.patch(here, there).reshape(len(here) // size, size, len(others), size)
                total[start : start + step] += values.mean(axis=(1, 3))
        return total / n_cells


def patches_of(
    settings: Any, n_features: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the first column of each window, the others from there, and the cell of each window.

    `settings` has the shape, window, stride and cells of a `Convolved`; raise ParameterError if
    these are none.
    """
    check_lengths("window", settings.window)
    check_lengths("stride", settings.stride)
    check_count("cells", settings.cells)
    grid = grid_of(settings.shape, n_features)
    own, firsts, offsets = windows(grid, settings.window, settings.stride)
    return firsts, offsets, cells(own, settings.cells)
