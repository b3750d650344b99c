"""Windows of grids: the sites of a line, an image or a volume that each node of a layer sees."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.errors import ParameterError

Grid = tuple[int, ...]
Lengths = int | Sequence[int]  # of a window or a stride; a number counts for the first two axes

N_AXES = 2  # along which a window slides, if one number says how far


def windows(
    grid: Grid, window: Lengths, stride: Lengths = 1
) -> tuple[Grid, NDArray[np.int64], NDArray[np.int64]]:
    """Return where windows lie: their own grid, the first site of each, and the others from there.

    Site ``firsts[w] + offsets[k]`` is the k-th of window w, in row-major order. Windows lie within
    the grid, and are no longer than it; of an axis past the second, where one number says how long
    they are, they have the whole.
    """
    spans = tuple(min(a, b) for a, b in zip(_lengths(window, grid, None), grid, strict=True))
    steps = _lengths(stride, grid, 1)
    sites = np.arange(np.prod(grid), dtype=np.int64).reshape(grid)
    firsts = sites[
        tuple(slice(0, n - a + 1, b) for n, a, b in zip(grid, spans, steps, strict=True))
    ]
    return firsts.shape, firsts.ravel(), sites[tuple(map(slice, spans))].ravel()


def cells(grid: Grid, n_cells: int) -> NDArray[np.int64]:
    """Return the cell of each site, int64 (n_sites,), of a grid cut in `n_cells` along each axis.

    Cells are as even as can be, and no more than sites.
    """
    found = np.zeros(grid, dtype=np.int64)
    for axis, length in enumerate(grid):
        count = min(n_cells, length)
        along = np.arange(length) * count // length
        found = found * count + np.expand_dims(along, [a for a in range(len(grid)) if a != axis])
    return found.ravel()


def grid_of(shape: Any, n_sites: int) -> Grid:
    """Return a shape of `n_sites` sites as a tuple, a line for None; raise ParameterError if not.

    Lists, which shapes are in files, are as good as tuples.
    """
    if shape is None:
        return (n_sites,)
    right = isinstance(shape, list | tuple) and 1 <= len(shape) <= 3 and all(map(_is_count, shape))
    if not right:
        raise ParameterError(f"shape must be one to three integers above 0, got {shape!r}")
    grid = tuple(int(length) for length in shape)
    if np.prod(grid) != n_sites:
        raise ParameterError(
            f"shape={shape!r} has {np.prod(grid)} sites, but rows have {n_sites}; set shape to "
            "that of a row"
        )
    return grid


def check_lengths(name: str, lengths: Any) -> None:
    """Raise ParameterError unless these are lengths of a window or a stride."""
    found = lengths if isinstance(lengths, list | tuple) else [lengths]
    if not found or not all(map(_is_count, found)):
        raise ParameterError(f"{name} must be an integer above 0, or one an axis, got {lengths!r}")


def check_count(name: str, count: Any) -> None:
    """Raise ParameterError unless this is an integer above 0."""
    if not _is_count(count):
        raise ParameterError(f"{name} must be an integer above 0, got {count!r}")


def _lengths(lengths: Lengths, grid: Grid, rest: int | None) -> Grid:
    """Return a length for each axis; past the second `rest`, or for None the whole of it."""
    if not isinstance(lengths, int | np.integer):
        if len(lengths) != len(grid):
            raise ParameterError(f"a window or stride of {lengths!r} does not fit a grid of {grid}")
        return tuple(lengths)
    return tuple(
        int(lengths) if axis < N_AXES else rest or whole for axis, whole in enumerate(grid)
    )


def _is_count(value: Any) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and bool(value > 0)
