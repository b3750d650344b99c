"""Whether columns are the pixels of images, and of which shape: by what varies together."""

import math

import numpy as np

from streamrf.errors import ParameterError
from streamrf.jit.arrays import Array, Floats
from streamrf.sources import SparseRows

MIN_SIDE = 8
MIN_SQUARE = 3  # as long as the least window, or as many as the cells along a side
CHANNELS = (1, 3)
MIN_TOGETHER = 0.2  # of neighbours, of the correlation that any two columns lack
MAX_NUMBERS = 1_000_000  # of the rows looked at
FAR_PAIRS = 1000


def image_shape(
    X: Array | SparseRows, row_shape: tuple[int, ...], must: bool
) -> tuple[int, ...] | None:
    """Return the shape of the images that rows (n, d) are, or None where they may be none.

    It is that of a row as it is stored, where it can be of an image, else `shape_of` the rows, else
    the square of d, if they `must` be images; ParameterError if they are stored otherwise.
    """
    is_image = len(row_shape) in (2, 3) and row_shape[2:] in ((), *((n,) for n in CHANNELS))
    if is_image and min(row_shape[:2]) >= MIN_SQUARE:
        return row_shape
    if must and len(row_shape) > 1:
        last = len(row_shape) == 3 and row_shape[0] in CHANNELS
        raise ParameterError(
            f"images are of shape (height, width), at least {MIN_SQUARE} each, or with 1 or 3 "
            f"channels at the end, and rows are stored as {row_shape}"
            + ("; put channels last: X.transpose(0, 2, 3, 1)" if last else "")
        )
    return shape_of(X) or (_square(X.shape[1]) if must else None)


def shape_of(X: Array | SparseRows) -> tuple[int, ...] | None:
    """Return the shape of the images that rows (n, d) are, or None where they seem to be none.

    Neighbours in an image vary together: a column and the next one, and a column and the one below,
    more than one and that half a row of the image away, which a series of values does not show. Of
    all shapes, (height, width) or (height, width, 3), it is the one where they do most.

    Examples
    --------
    >>> import numpy as np
    >>> noise = np.random.default_rng(0).normal(size=(500, 12, 16))
    >>> smooth = noise[:, :9] + noise[:, 1:10] + noise[:, 2:11]
    >>> smooth = smooth[..., :14] + smooth[..., 1:15] + smooth[..., 2:16]
    >>> shape_of(smooth.reshape(500, -1)), shape_of(noise.reshape(500, -1))
    ((9, 14), None)
    """
    shapes = _shapes(X.shape[1])
    if not shapes:
        return None
    columns = _standardised(X)
    far = _far(columns)
    best, found = 0.0, None
    for shape in shapes:
        n_channels = shape[2] if shape[2:] else 1
        below = shape[1] * n_channels
        along = [_together(columns, lag) for lag in (n_channels, below)]
        is_image = min(along) - far >= MIN_TOGETHER * (1 - far)
        if is_image and sum(along) > best and along[1] > _together(columns, below // 2):
            best, found = sum(along), shape
    return found


def _square(n_columns: int) -> tuple[int, ...] | None:
    """Return the shape of square images of so many numbers, or None if there is none."""
    for n_channels in CHANNELS:
        side = math.isqrt(n_columns // n_channels)
        if side >= MIN_SQUARE and side * side * n_channels == n_columns:
            return (side, side) if n_channels == 1 else (side, side, n_channels)
    return None


def _shapes(n_columns: int) -> list[tuple[int, ...]]:
    """Return the shapes that rows of so many columns may have."""
    shapes: list[tuple[int, ...]] = []
    for n_channels in CHANNELS:
        n_pixels, rest = divmod(n_columns, n_channels)
        for height in range(MIN_SIDE, n_pixels // MIN_SIDE + 1):
            if rest == 0 and n_pixels % height == 0:
                shape = (height, n_pixels // height)
                shapes.append(shape if n_channels == 1 else (*shape, n_channels))
    return shapes


def _standardised(X: Array | SparseRows) -> Floats:
    """Return columns (d, n) of some of the rows, of mean 0 and variance 1, or 0 if constant."""
    n_rows = max(2, MAX_NUMBERS // X.shape[1])
    rows = X[:: -(-len(X) // n_rows)]
    dense = rows.dense() if isinstance(rows, SparseRows) else np.asarray(rows)
    columns = dense.T.astype(np.float64)
    columns -= columns.mean(axis=1, keepdims=True)
    deviations = columns.std(axis=1, keepdims=True)
    return np.divide(columns, deviations, out=np.zeros_like(columns), where=deviations > 0)


def _together(columns: Floats, lag: int) -> float:
    """Return the mean correlation of a column and the one a lag further."""
    return _correlation(columns[lag:], columns[:-lag])


def _far(columns: Floats) -> float:
    """Return the mean correlation of any two columns."""
    pairs = np.random.default_rng(0).integers(0, len(columns), (2, FAR_PAIRS))
    return _correlation(columns[pairs[0]], columns[pairs[1]])


def _correlation(a: Floats, b: Floats) -> float:
    vary = a.any(axis=1) & b.any(axis=1)
    return float((a[vary] * b[vary]).mean()) if vary.any() else 0.0
