"""What the calibration rows fix: shift and step of each feature, target and weight.

`Rounding` turns features into small integers, whose sums are exact; `Centring` is the
unrounded alternative (``precision="float64"``). Both return, for a row of weight w,
``root * (z - shift) / step`` with ``root = sqrt(w / mean weight)``, so that everything that is
summed later is a plain sum of products.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamrf.errors import BadRowError, ParameterError
from streamrf.jit import lanes
from streamrf.jit.arrays import F32, F64
from streamrf.storage import Fields

CALIBRATION_ROWS = 4096  # read before the pass, at most
LEVELS = 32  # steps a feature's deviation spans; the rounding adds 1/(12 LEVELS^2) of its variance
LIMIT = 4095  # greatest entry: its square is below 2^24, so one row alone is always exact
ROOT_LEVELS = 1 << 12  # steps of the square root of a mean weight
TARGET_LEVELS = 1 << 20  # steps a target's deviation spans
TARGET_LIMIT = 1 << 40  # greatest target, over a million deviations

# A feature that hardly varies in the calibration rows (a border pixel) gets at least this share of
# the others' median deviation, so that it is not clipped when it does vary.
FLOOR = 1 / 64


@dataclass(frozen=True)
class Calibration(ABC):
    """Shifts and steps.

    Parameters
    ----------
    shift, step : (n_components,) float64
    target_shift, target_step : (n_targets,) float64; empty for classification
    mean_weight : float, or None where rows carry no weights
    """

    shift: F64
    step: F64
    target_shift: F64
    target_step: F64
    mean_weight: float | None

    exact: ClassVar[bool]
    dtype: ClassVar[type[np.floating]]

    @classmethod
    def learn(
        cls, mean: F64, deviation: F64, targets: F64 | None = None, weights: F64 | None = None
    ) -> Self:
        """Learn from calibration rows: mean and deviation (n_components,) of their features.

        `targets` are (n, n_targets) for regression, `weights` (n,), or None.
        """
        _check_finite(deviation)
        mean_weight = None
        if weights is not None:
            mean_weight = float(np.mean(weights, dtype=np.float64))
            mean_weight = mean_weight if mean_weight > 0 else 1.0
        target_shift, target_deviation = _target_moments(targets)
        step, target_step = cls.steps(mean, deviation, target_deviation)
        return cls(mean, step, target_shift, target_step, mean_weight)

    @staticmethod
    @abstractmethod
    def steps(mean: F64, deviation: F64, target_deviation: F64) -> tuple[F64, F64]:
        """Return the steps of features and targets."""

    @property
    def root_scale(self) -> float:
        """The root of a row of mean weight: roots are in units of its inverse."""
        return 1.0

    def roots(self, weights: F64 | None, n_rows: int) -> F64:
        """Return the square roots of relative weights times `root_scale`, (n_rows,) float64."""
        if self.mean_weight is None:
            return np.ones(n_rows)
        assert weights is not None
        return np.sqrt(weights / self.mean_weight)

    @abstractmethod
    def store(self, z: F32, roots: F64, out: NDArray[Any]) -> int:
        """Fill `out` (n, n_components) from lanes `z`; return the number of entries clipped."""

    @abstractmethod
    def targets(self, y: ArrayLike, roots: F64) -> F64:
        """Return ``root * (y - shift) / step``, float64 of shape (n, n_targets)."""

    def to_tree(self) -> dict[str, Any]:
        """Return the numbers as a tree."""
        return {"class": type(self).__name__, **vars(self)}

    @staticmethod
    def from_tree(tree: dict[str, Any] | Fields) -> "Calibration":
        """Return what `to_tree` described."""
        fields = Fields.of(tree)
        kind = TABLE[fields.text("class", TABLE)]
        shift = fields.array("shift", np.float64, (None,))
        step = fields.array("step", np.float64, shift.shape)
        target_shift = fields.array("target_shift", np.float64, (None,))
        target_step = fields.array("target_step", np.float64, target_shift.shape)
        mean_weight = fields.maybe_number("mean_weight", above=0.0)
        fields.end()
        for name, steps in (("step", step), ("target_step", target_step)):
            if not (steps > 0).all():
                raise fields.wrong(name, "holds a step that is not positive")
        return kind(shift, step, target_shift, target_step, mean_weight)


class Rounding(Calibration):
    """Features as integers: a deviation of the calibration rows is `LEVELS` steps."""

    exact = True
    dtype = np.float32

    @staticmethod
    def steps(mean: F64, deviation: F64, target_deviation: F64) -> tuple[F64, F64]:
        """Return shares of the deviations."""
        varying = deviation[deviation > 1e-7 * np.abs(mean)]
        floor = FLOOR * np.median(varying) if len(varying) else 1.0
        return np.maximum(deviation, floor) / LEVELS, target_deviation / TARGET_LEVELS

    @property
    def root_scale(self) -> float:
        """Steps of the root of a row of mean weight; 1 where rows carry no weights."""
        return 1.0 if self.mean_weight is None else float(ROOT_LEVELS)

    def roots(self, weights: F64 | None, n_rows: int) -> F64:
        """Return the square roots rounded to integers."""
        return np.rint(super().roots(weights, n_rows) * self.root_scale)

    def store(self, z: F32, roots: F64, out: NDArray[Any]) -> int:
        """Round lanes into rows; return the number of entries clipped."""
        clipped = np.empty(len(z), dtype=np.int64)
        invalid = np.empty_like(clipped)
        scaled = roots / self.root_scale
        lanes.store_rounded(z, self.shift, 1 / self.step, scaled, LIMIT, out, clipped, invalid)
        if invalid.any():
            _check_finite(np.array(np.nan))
        return int(clipped.sum())

    def targets(self, y: ArrayLike, roots: F64) -> F64:
        """Round targets to integers."""
        scaled = (roots / self.root_scale)[:, np.newaxis]
        y = (np.asarray(y, dtype=np.float64) - self.target_shift) / self.target_step
        return np.clip(np.rint(scaled * y), -TARGET_LIMIT, TARGET_LIMIT)


class Centring(Calibration):
    """Features in float64, only shifted, so that a large common offset costs no digits."""

    exact = False
    dtype = np.float64

    @staticmethod
    def steps(mean: F64, deviation: F64, target_deviation: F64) -> tuple[F64, F64]:
        """Return ones."""
        return np.ones_like(mean), np.ones_like(target_deviation)

    def store(self, z: F32, roots: F64, out: NDArray[Any]) -> int:
        """Shift lanes into rows; nothing is clipped."""
        lanes.store_scaled(z, self.shift, 1 / self.step, roots, out)
        _check_finite(out)
        return 0

    def targets(self, y: ArrayLike, roots: F64) -> F64:
        """Shift targets."""
        return roots[:, np.newaxis] * (np.asarray(y, dtype=np.float64) - self.target_shift)


TABLE: dict[str, type[Calibration]] = {cls.__name__: cls for cls in (Rounding, Centring)}
PRECISIONS: dict[str, type[Calibration]] = {"exact": Rounding, "float64": Centring}


def calibration_class(precision: str) -> type[Calibration]:
    """Return the class that a `precision` names."""
    if precision not in PRECISIONS:
        raise ParameterError(f"precision must be one of {sorted(PRECISIONS)}, got {precision!r}")
    return PRECISIONS[precision]


def _target_moments(targets: NDArray[Any] | None) -> tuple[F64, F64]:
    if targets is None:
        return np.empty(0), np.empty(0)
    shift = targets.mean(axis=0, dtype=np.float64)
    deviation = targets.std(axis=0, dtype=np.float64)
    return shift, np.where(deviation > 0, deviation, np.maximum(np.abs(shift), 1.0))


def _check_finite(values: NDArray[Any]) -> None:
    if not np.isfinite(values).all():
        raise BadRowError(
            "the features overflow: rows are too large for the kernel; "
            "scale them (normalize='l2', 'max' or 'standard') or lower gamma or the degree"
        )
