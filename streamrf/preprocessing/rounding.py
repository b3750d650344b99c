"""What the calibration rows fix: shift and step of each feature, target and weight.

`FineRounding` (``precision="exact"``) turns features into integers of 16 bits, with exact sums,
`CoarseRounding` (``"coarse"``) into integers of 8 bits; `Rounding` is what totals of 32 bits have
room for. `Centring` (``"float64"``) is the unrounded alternative. For a row of weight w all return
``root * (z - shift) / step`` with ``root = sqrt(w / mean weight)``, so that everything that is
summed later is a plain sum of products.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamrf.errors import BadRowError, DataError, check_choice
from streamrf.jit import lanes
from streamrf.jit.arrays import F32, F64, Unlocked
from streamrf.storage import Fields

CALIBRATION_ROWS = 4096  # read before the pass, at most
ROOT_LEVELS = 1 << 12  # steps of the square root of a mean weight
TARGET_LEVELS = 1 << 20  # steps a target's deviation spans
MIN_WEIGHT, MAX_WEIGHT = 1e-100, 1e150  # in the mean: of others squares would leave floats
FEW_LEVELS = 1 << 10  # steps that targets are to vary by
MAX_ROOT = 4  # of a relative weight: rows of 16 deviations fit, features of known span always
MIN_SPREAD = 1e-150  # of targets that are not constant
TARGET_LIMIT = 1 << 40  # greatest target, over a million deviations


@dataclass
class Cut:
    """What clipping has cut off: squares of features before it less those after, in steps.

    Parameters
    ----------
    columns : (n_components,) float64
    rows : (n,) float64, of the rows that are being encoded
    """

    columns: F64
    rows: F64

    def of_rows(self, rows: slice) -> "Cut":
        """Return a view of some rows."""
        return Cut(self.columns, self.rows[rows])


@dataclass(frozen=True)
class Calibration(Unlocked, ABC):
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
    usual_clipped: ClassVar[float] = 0.0
    usual_cut: ClassVar[tuple[float, float]] = (0.0, 0.0)
    dtype: ClassVar[type[np.floating]]

    @classmethod
    def learn(
        cls,
        mean: F64,
        deviation: F64,
        targets: F64 | None = None,
        weights: F64 | None = None,
        spans: F64 | None = None,
    ) -> Self:
        """Learn from calibration rows.

        Parameters
        ----------
        mean, deviation : (n_components,) of their features
        targets : (n, n_targets) for regression, or None
        weights : (n,), or None
        spans : (n_components,), by how much features can vary, infinite where unknown; None for all
        """
        _check_finite(deviation)
        mean_weight, greatest = None, 1.0
        if weights is not None:
            mean_weight = float(np.mean(weights, dtype=np.float64))
            mean_weight = min(mean_weight, MAX_WEIGHT) if mean_weight > 0 else 1.0
            if mean_weight < MIN_WEIGHT:
                raise DataError(
                    f"the rows looked at before the pass weigh {mean_weight:.3g} in the mean, "
                    "which is too little for floats; multiply all weights by one number"
                )
            greatest = float(np.clip(np.sqrt(np.max(weights) / mean_weight), 1.0, MAX_ROOT))
        target_shift, target_deviation = _target_moments(targets)
        if spans is None:
            spans = np.full(len(mean), np.inf)
        step, target_step = cls.steps(mean, deviation, spans, greatest, target_deviation)
        return cls(mean, step, target_shift, target_step, mean_weight)

    @classmethod
    @abstractmethod
    def steps(
        cls, mean: F64, deviation: F64, spans: F64, greatest: float, target_deviation: F64
    ) -> tuple[F64, F64]:
        """Return the steps of features and targets; `greatest` is the root of a relative weight."""

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
    def store(self, z: F32, roots: F64, out: NDArray[Any], cut: Cut | None = None) -> int:
        """Fill `out` (n, n_components) from lanes `z`; return the number of entries clipped.

        What clipping cuts off is added to `cut`.
        """

    @abstractmethod
    def targets(self, y: ArrayLike, roots: F64) -> F64:
        """Return ``root * (y - shift) / step``, float64 of shape (n, n_targets)."""

    def lost_targets(self, given: ArrayLike, rounded: F64) -> NDArray[np.bool_]:
        """Return which targets were constant at first and vary by a few steps only, (n_targets,).

        Parameters
        ----------
        given : (n, n_targets)
        rounded : what `targets` made of them
        """
        return np.zeros(len(self.target_shift), dtype=bool)

    @property
    def noise(self) -> F64:
        """Variances that the rounding adds to each feature, (n_components,)."""
        return np.zeros(len(self.step))

    def noise_alpha(self, n_rows: float) -> float:
        """Return the ridge penalty that the rounding of `n_rows` rows amounts to, as an alpha.

        With ``z' = z + noise``, ``E (sum r^2 (t - <c, z'>)^2)`` is that of z plus
        ``sum_j n noise_j c_j^2``, so no alpha has an effect below the mean of the factors.
        """
        unit = 1.0 if self.mean_weight is None else self.mean_weight
        return n_rows * unit * float(np.mean(self.noise))

    def advice(self) -> str:
        """Return what to do where `noise_alpha` is too much."""
        return ""

    def more_room(self, harm: bool) -> str:
        """Return what gives entries more room, where they were clipped; `harm` if it matters."""
        return "do not round (precision='float64', --precision float64), " if harm else ""

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
        if mean_weight is not None and not MIN_WEIGHT <= mean_weight <= MAX_WEIGHT:
            raise fields.wrong(
                "mean_weight", f"is {mean_weight:g}; expected {MIN_WEIGHT:g} to {MAX_WEIGHT:g}"
            )
        if not len(shift):
            raise fields.wrong("shift", "is empty; expected one number for each feature")
        for name, steps in (("step", step), ("target_step", target_step)):
            if not (steps > 0).all():
                raise fields.wrong(name, "holds a step that is not positive")
        return kind(shift, step, target_shift, target_step, mean_weight)


class Rounding(Calibration):
    """Features as integers: a deviation of the calibration rows is `levels` steps.

    The rounding is noise of ``step^2 / 12``, which a ridge penalty cannot be below; see
    `noise_alpha`. Each class has its own name in files, so the sums of one go on in its steps and
    limit. `Rounding` itself, of 32 levels, is for totals of 32 bits; earlier versions used it for
    all sums.

    Attributes
    ----------
    levels : int, steps that a deviation spans
    limit : int, greatest entry
    floor : float, share of the others' median deviation that a feature gets at least. One that
        hardly varies in the calibration rows (a border pixel) is not clipped when it does vary.
    span_levels : int, most steps from the least to the greatest value of a feature, where its map
        says these: a feature of few rows, the hat of a rare bin, is many deviations high in them
    usual_clipped : float, share of the entries that may be clipped without a warning
    usual_cut : shares of the squares of all features, and of one, that it may cut off likewise
    """

    exact = True
    dtype = np.float32
    levels: ClassVar[int] = 32
    limit: ClassVar[int] = 4095
    floor: ClassVar[float] = 1 / 64
    span_levels: ClassVar[int] = 1024
    usual_clipped: ClassVar[float] = 1e-4
    usual_cut: ClassVar[tuple[float, float]] = (0.05, 0.5)  # design/0028

    @classmethod
    def steps(
        cls, mean: F64, deviation: F64, spans: F64, greatest: float, target_deviation: F64
    ) -> tuple[F64, F64]:
        """Return shares of the deviations."""
        varying = deviation[deviation > 1e-7 * np.abs(mean)]
        floor = cls.floor * np.median(varying) if len(varying) else 1.0
        step = np.maximum(deviation, floor) / cls.levels
        known = np.where(np.isfinite(spans), spans, 0.0)
        least = known * max(1 / cls.span_levels, greatest / cls.limit)
        return np.maximum(step, least), target_deviation / TARGET_LEVELS

    @property
    def root_scale(self) -> float:
        """Steps of the root of a row of mean weight; 1 where rows carry no weights."""
        return 1.0 if self.mean_weight is None else float(ROOT_LEVELS)

    def roots(self, weights: F64 | None, n_rows: int) -> F64:
        """Return the square roots rounded to integers."""
        return np.rint(super().roots(weights, n_rows) * self.root_scale)

    def store(self, z: F32, roots: F64, out: NDArray[Any], cut: Cut | None = None) -> int:
        """Round lanes into rows; return the number of entries clipped."""
        clipped = np.empty(len(z), dtype=np.int64)
        invalid = np.empty_like(clipped)
        scaled = roots / self.root_scale
        lanes.store_rounded(z, self.shift, 1 / self.step, scaled, self.limit, out, clipped, invalid)
        if invalid.any():
            _check_finite(np.array(np.nan))
        if cut is not None:
            for g in np.flatnonzero(clipped).tolist():
                rows = slice(g * lanes.LANES, (g + 1) * lanes.LANES)
                self._look_again(z[g], scaled[rows], out[rows], cut.of_rows(rows))
        return int(clipped.sum())

    def _look_again(self, z: F32, roots: F64, out: NDArray[Any], cut: Cut) -> None:
        """Add what was cut off a group of lanes z (width, 16)."""
        # flat: eight times as fast as `nonzero` of rows and columns
        i, j = np.divmod(np.flatnonzero(np.abs(out) == self.limit), out.shape[1])
        whole = roots[i] * (z[j, i].astype(np.float64) - self.shift[j]) / self.step[j]
        lost = np.maximum(whole**2 - self.limit**2, 0.0)
        np.add.at(cut.rows, i, lost)
        np.add.at(cut.columns, j, lost)

    def targets(self, y: ArrayLike, roots: F64) -> F64:
        """Round targets to integers."""
        scaled = (roots / self.root_scale)[:, np.newaxis]
        y = (np.asarray(y, dtype=np.float64) - self.target_shift) / self.target_step
        return np.clip(np.rint(scaled * y), -TARGET_LIMIT, TARGET_LIMIT)

    def lost_targets(self, given: ArrayLike, rounded: F64) -> NDArray[np.bool_]:
        """Compare with the step that `learn` takes where there is no deviation."""
        size = np.maximum(np.abs(self.target_shift), 1.0)
        was_constant = self.target_step * TARGET_LEVELS == size
        apart = np.abs(np.asarray(given, dtype=np.float64) - self.target_shift).max(axis=0)
        few = np.abs(rounded).max(axis=0) < FEW_LEVELS
        return was_constant & few & (apart > 1e-14 * np.abs(self.target_shift))

    @property
    def noise(self) -> F64:
        """Return ``step^2 / 12``: an error is uniform within a step."""
        return self.step**2 / 12

    def advice(self) -> str:
        """Name the finer precision."""
        if self.limit == FineRounding.limit:
            return "precision='float64' (--precision float64) does not round"
        totals = " with totals='float64'" if type(self) is Rounding else ""
        finer = f"precision='exact' (--precision exact){totals}"
        return f"sum again by {finer}, which rounds to {FineRounding.levels}"


class FineRounding(Rounding):
    """Integers of 16 bits, so fine that the rounding does not bind.

    The square of an entry is at most 2^30, so a product of 32 bits holds 8,192 rows of one
    deviation: two blocks.
    """

    levels = 512
    limit = 32767  # not -32768: the sum of two products of 16 bits stays below 2^31
    floor = 1 / 32
    span_levels = 8192  # 32 rows of a block may have it: a product of 32 bits holds these


class CoarseRounding(Rounding):
    """Integers of 8 bits, for products that are twice as fast."""

    levels = 24
    limit = 127
    floor = 3 / 8
    span_levels = 127
    usual_clipped = 1e-3  # five deviations, which products of several factors do pass

    def more_room(self, harm: bool) -> str:
        """Name 16 bits."""
        return "round to 16 bits (precision='exact', --precision exact), "


class Centring(Calibration):
    """Features in float64, only shifted, so that a large common offset costs no digits."""

    exact = False
    dtype = np.float64

    @classmethod
    def steps(
        cls, mean: F64, deviation: F64, spans: F64, greatest: float, target_deviation: F64
    ) -> tuple[F64, F64]:
        """Return ones."""
        return np.ones_like(mean), np.ones_like(target_deviation)

    def store(self, z: F32, roots: F64, out: NDArray[Any], cut: Cut | None = None) -> int:
        """Shift lanes into rows; nothing is clipped."""
        lanes.store_scaled(z, self.shift, 1 / self.step, roots, out)
        _check_finite(out)
        return 0

    def targets(self, y: ArrayLike, roots: F64) -> F64:
        """Shift targets."""
        return roots[:, np.newaxis] * (np.asarray(y, dtype=np.float64) - self.target_shift)


TABLE: dict[str, type[Calibration]] = {
    cls.__name__: cls for cls in (Rounding, FineRounding, CoarseRounding, Centring)
}
PRECISIONS: dict[str, type[Calibration]] = {
    "exact": FineRounding,
    "coarse": CoarseRounding,
    "float64": Centring,
}


def calibration_class(precision: str, totals: str = "float64") -> type[Calibration]:
    """Return the class that a `precision` names.

    Totals of 32 bits hold 8,192 rows of 512 levels, and two million of 32: "exact" is 32 there.
    """
    check_choice("precision", precision, sorted(PRECISIONS))
    kind = PRECISIONS[precision]
    return Rounding if kind is FineRounding and totals == "int32" else kind


def precision_of(calibration: Calibration) -> str:
    """Return the `precision` that a calibration is of."""
    return next((p for p, kind in PRECISIONS.items() if type(calibration) is kind), "exact")


def _target_moments(targets: NDArray[Any] | None) -> tuple[F64, F64]:
    if targets is None:
        return np.empty(0), np.empty(0)
    check_spread(targets.min(axis=0), targets.max(axis=0))
    shift = targets.mean(axis=0, dtype=np.float64)
    deviation = targets.std(axis=0, dtype=np.float64)
    return shift, np.where(deviation > 0, deviation, np.maximum(np.abs(shift), 1.0))


def check_spread(low: NDArray[Any], high: NDArray[Any]) -> None:
    """Raise DataError for targets, (n_targets,) from `low` to `high`, whose squares vanish."""
    spread = np.asarray(high, dtype=np.float64) - low
    if ((spread > 0) & (spread < MIN_SPREAD)).any():
        raise DataError(
            f"the targets vary by {spread[spread > 0].min():.3g} only, and below {MIN_SPREAD:g} "
            "squares of floats vanish; multiply the targets by one number"
        )


def _check_finite(values: NDArray[Any]) -> None:
    if not np.isfinite(values).all():
        raise BadRowError(
            "the features overflow: rows are too large for the kernel; "
            "scale them (normalize='l2', 'max' or 'standard') or lower gamma or the degree"
        )
