"""A row of the table of what a selection can try, and the map that is wanted of one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from streamrf.features import FeatureMap
from streamrf.jit.arrays import Array, Floats
from streamrf.kernels import ShiftInvariantKernel
from streamrf.preprocessing import CHOICES

# "max" is None where gamma is relative; "quantile" for columns with heavy tails alone
SCALINGS = ("standard", "asinh", "l2", None, "quantile")

Shape = tuple[int, ...]  # of images


@dataclass(frozen=True)
class Wanted:
    """The map that is wanted of a kind.

    Parameters
    ----------
    setting : see `Kind`
    unit : of gamma, where it is relative
    n_features, width, seed : columns of a row; width of the features; of the draw
    shape : of the images that rows are, or None
    """

    setting: float
    unit: float
    n_features: int
    width: int
    seed: int
    shape: Shape | None = None

    @property
    def gamma(self) -> float:
        """The setting as a gamma of these rows."""
        return self.setting * self.unit


def _norm(x: Floats, y: Floats) -> np.floating:
    return np.square(x).sum(axis=1).mean()


def _none(setting: float) -> Sequence[float]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of candidates.

    Parameters
    ----------
    make : returns the unfitted map
    first, every : its settings in the first round, and in a full grid: gamma in units of 1 / median
        (squared) distance; the degree; the order; the bins of a column; the depth; the window
    label : what a candidate's name says of the setting, in place of ``{}``
    near : returns the settings next to one
    size : of pairs of rows (n, d); 1 over it is the unit of gamma
    cost : seconds of featurising, relative to a structured Gaussian; of ties the cheaper wins
    dense : multiplications a row beyond these, by width and columns
    once : operations of a draw, by width and columns
    width_of : width of the features, by the width that is asked for and the columns
    max_width : the widest that is chosen
    scalings : tried where none is named
    may_have : scalings that may be named
    limit : the greatest of `first` on images of a shape
    objection : why rows (n, d), of images of a shape or None, are none for it and what to do, or ""
    leads : whether the width of the pass may be sought with it
    teaches : the kernel of the ridge that a warp is learnt with, where it is one
    is_rough : whether it must win by more than noise and than others may gain by width
    n_kept : of its candidates at most go on to the second round, so that others do, too
    takes_negative : whether rows may have negative entries
    """

    make: Callable[[Wanted], FeatureMap]
    first: tuple[float, ...]
    every: tuple[float, ...]
    label: str = ""
    near: Callable[[float], Sequence[float]] = _none
    size: Callable[[Floats, Floats], np.floating] = _norm
    cost: float = 8.0
    dense: Callable[[int, int], int] = lambda width, d: 0
    once: Callable[[int, int], int] = lambda width, d: 0
    width_of: Callable[[int, int], int] = lambda width, d: width
    max_width: int = 8192
    scalings: tuple[str | None, ...] = SCALINGS
    may_have: tuple[str | None, ...] = CHOICES
    limit: Callable[[Shape], float] = lambda shape: np.inf
    objection: Callable[[Array, Shape | None], str] = lambda X, shape: ""
    leads: bool = True
    teaches: type[ShiftInvariantKernel] | None = None
    is_rough: bool = False
    n_kept: int = 4
    takes_negative: bool = True

    def begin(self, shape: Shape | None) -> tuple[float, ...]:
        """Return the settings of the first round on images of a shape, or on other rows."""
        return self.first if shape is None else tuple(min(s, self.limit(shape)) for s in self.first)

    def under(self, normalize: str | None) -> tuple[str | None, ...]:
        """Return the scalings to try: one that is named, if it may be, or of "auto" several."""
        if normalize == "auto":
            return self.scalings
        return (normalize,) if normalize in self.may_have else ()
