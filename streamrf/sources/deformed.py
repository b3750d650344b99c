"""Images deformed at random: a source of any number of rows that needs no disk."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from numbers import Integral, Real

import numpy as np

from streamrf.errors import DataError, ParameterError, ShapeError, check_kind
from streamrf.jit.arrays import Array
from streamrf.jit.deform import deform
from streamrf.jit.threads import load_numba
from streamrf.sources.base import Arrays, Source, joined, require_source
from streamrf.sources.stored import LazyMatrix, MatrixSource

MAX_ROTATION = 180  # degrees
MAX_SMOOTHING = 100  # pixels; the weights of the Gaussian are six times as many
MAX_SEED = 2**63 - 1


@dataclass(frozen=True)
class Deformation:
    """How far images are moved, at most; each number is drawn uniformly from both sides.

    Of the rotation it is the tangent of half the angle that is drawn so.

    Parameters
    ----------
    rotation : degrees, below 180
    shear, scale : relative, along both axes
    shift : pixels, along both axes
    elastic : pixels, the factor of the smoothed fields of uniform noise in (-1, 1)
    smoothing : pixels, at most 100, the deviation of the Gaussian that smooths them

    Raises
    ------
    ParameterError
        A distance that is negative, not finite or too great.

    Examples
    --------
    >>> import streamrf as srf
    >>> srf.Deformation(rotation=10).shift
    0.5
    """

    rotation: float = 5.0
    shear: float = 0.05
    scale: float = 0.05
    shift: float = 0.5
    elastic: float = 20.0
    smoothing: float = 4.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (isinstance(value, Real) and 0 <= float(value) < math.inf):
                raise ParameterError(f"{name}={value!r}; expected a finite number, 0 or more")
        if not self.rotation < MAX_ROTATION:
            raise ParameterError(f"rotation={self.rotation!r}; expected less than {MAX_ROTATION}")
        if self.smoothing > MAX_SMOOTHING:
            raise ParameterError(f"smoothing={self.smoothing!r}; expected at most {MAX_SMOOTHING}")

    @property
    def affine(self) -> Array:
        """The limits as `streamrf.jit.deform` takes them."""
        turn = math.tan(math.radians(self.rotation) / 2)
        limits = [turn, self.shear, self.shear, self.scale, self.scale, self.shift, self.shift]
        return np.array(limits, np.float32)

    @property
    def taps(self) -> Array:
        """Weights of the Gaussian within three deviations; their sum is 1."""
        reach = math.ceil(3 * self.smoothing)
        distances = np.arange(-reach, reach + 1)
        weights = np.exp(-0.5 * (distances / max(self.smoothing, 1e-9)) ** 2)
        return (weights / weights.sum()).astype(np.float32)


class DeformedImages(LazyMatrix):
    """Rows made of the images of another source, which are read once in each process."""

    def __init__(
        self, images: Source, shape: tuple[int, int], n_rows: int, seed: int, how: Deformation
    ) -> None:
        self.images, self.shape, self.seed, self.how = images, shape, seed, how
        super().__init__(images.where)
        self.where, self.n_rows = f"{images.where}, deformed", n_rows

    def _open(self) -> Arrays:
        X, y, _ = joined([block.arrays for block in self.images.blocks()])
        if X.dtype != np.uint8:
            raise DataError(f"{self.where} holds {X.dtype} pixels; expected uint8, 0 to 255")
        return Arrays(X, y, None)

    def read(self, start: int, stop: int) -> Arrays:
        """Make some rows."""
        X, y, _ = self._arrays
        out = np.empty((stop - start, *self.shape), np.uint8)
        images = X.reshape(-1, *self.shape)
        load_numba()
        deform(images, start, self.seed, self.how.affine, self.how.elastic, self.how.taps, out)
        labels = None if y is None else y[np.arange(start, stop) % len(X)]
        return Arrays(out.reshape(len(out), -1), labels, None)

    @property
    def keys(self) -> list[str]:
        """Ledger key: the images, how they are moved, and the seed, whatever the number of rows."""
        made = (super().keys[-1], self.seed, asdict(self.how))
        return [blake2b(repr(made).encode(), digest_size=16).hexdigest()]


def deformed_mnist(
    images: Source,
    n_rows: int = 8_100_000,
    *,
    seed: int = 0,
    deformation: Deformation | None = None,
    shape: Sequence[int] | None = None,
) -> MatrixSource:
    """Return a source of images and of slightly deformed copies of them, made as they are read.

    Row r is image ``r % n`` of the n given: the images themselves first, then copies that are
    rotated, sheared, scaled, shifted, and moved along smooth random fields (Simard, Steinkraus and
    Platt, ICDAR 2003), as the tool of Loosli, Canu and Bottou (2007) made the 8.1 million rows of
    MNIST8M. A row is made from its number and the seed alone, with the same bytes on any processor,
    so the source splits, starts anywhere and needs no disk.

    Parameters
    ----------
    images : Source
        Images of one channel in uint8, for example ``open_source("mnist.h5", "train/X",
        "train/y")``; read into memory once in each process.
    n_rows : int
        Rows to make.
    seed : int
        Of the draws, 0 to 2^63 - 1.
    deformation : Deformation, optional
        How far images are moved.
    shape : (int, int), optional
        Height and width in pixels; needed where they are not square.

    Returns
    -------
    MatrixSource

    Raises
    ------
    ParameterError
        No rows, or a seed out of bounds.
    ShapeError
        A shape that does not have as many pixels as a row has columns.
    DataError
        Pixels that are not uint8.

    Examples
    --------
    >>> import numpy as np
    >>> import streamrf as srf
    >>> ten = srf.ArraySource(np.eye(10, 784, dtype=np.uint8), y=np.arange(10))
    >>> source = srf.deformed_mnist(ten, n_rows=1000)
    >>> source.n_rows, source.n_features
    (1000, 784)
    """
    require_source(images, "images")
    if not isinstance(n_rows, Integral) or n_rows < 1:
        raise ParameterError(f"n_rows={n_rows!r}; expected an integer of at least 1")
    if not isinstance(seed, Integral) or not 0 <= seed <= MAX_SEED:
        raise ParameterError(f"seed={seed!r}; expected an integer from 0 to 2^63 - 1")
    check_kind("deformation", deformation, Deformation | None, "a Deformation or None")
    side = math.isqrt(images.n_features)
    height, width = (side, side) if shape is None else _sides(shape)
    if height * width != images.n_features:
        raise ShapeError(
            f"{images.where} has {images.n_features} columns, which are not images of {height} x"
            f" {width} pixels; name their shape=(height, width)"
        )
    how = deformation or Deformation()
    store = DeformedImages(images, (height, width), int(n_rows), int(seed), how)
    return MatrixSource([store], {"x": None, "y": None, "weights": None})


def _sides(shape: Sequence[int]) -> tuple[int, int]:
    """Return height and width; raise ParameterError for what is not two integers."""
    is_pair = isinstance(shape, Sequence) and len(shape) == 2
    if not is_pair or not all(isinstance(side, Integral) for side in shape):
        raise ParameterError(f"shape must be (height, width), two integers, got {shape!r}")
    return int(shape[0]), int(shape[1])
