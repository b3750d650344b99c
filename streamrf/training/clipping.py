"""What clipping and wide steps take from the sums, and when that is worth a warning."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamrf.errors import warn
from streamrf.jit.arrays import Floats, Indices
from streamrf.preprocessing import Cut, Encoder
from streamrf.statistics import AbstractSums
from streamrf.storage import Fields

LOOKED_AT, MAX_LOST = 256, 0.2  # rows, and the share of features that steps may be too wide for
MAX_FEW = 100  # features of which one counts by itself; of many random ones it does not


@dataclass(frozen=True)
class Clipping:
    """Squares of features that clipping cut off the rows so far; parts of a pass add up.

    Parameters
    ----------
    columns : (n_components,) float64, in squared steps
    most : float, what was cut off one row at most
    row : int, index of that row in the source; -1 before there is one
    """

    columns: Floats
    most: float = 0.0
    row: int = -1

    @classmethod
    def of(cls, cut: Cut, positions: Indices) -> "Clipping":
        """Return what was cut off rows at some positions of the source."""
        i = int(cut.rows.argmax())
        return cls(cut.columns, float(cut.rows[i]), int(positions[i]))

    def __add__(self, other: "Clipping") -> "Clipping":
        most, row = max((self.most, self.row), (other.most, other.row))
        return Clipping(self.columns + other.columns, most, row)

    def harm(self, sums: AbstractSums, usual: tuple[float, float]) -> str:
        """Return what was cut off in words, or "" where it is no more than usual."""
        kept = sums.diagonal()
        whole = np.maximum(kept + self.columns, 1.0)
        share, shares = self.columns.sum() / whole.sum(), self.columns / whole
        j = int(shares.argmax())
        is_lost = len(whole) <= MAX_FEW and shares[j] > usual[1]
        if share <= usual[0] and not is_lost:
            return ""
        of = f"{100 * share:.1f} % off the squares of the features"
        if share <= usual[0]:
            of = f"{100 * shares[j]:.1f} % off the squares of feature {j:,}"
        return (
            f", which cuts {of}, most of it in row {self.row:,}, while the targets and weights of "
            "such rows count in full, so coefficients are not those of the rows"
        )

    def to_tree(self) -> dict[str, Any]:
        """Return the numbers as a tree."""
        return dict(vars(self))

    @classmethod
    def from_tree(cls, fields: Fields, n_components: int) -> "Clipping":
        """Return what `to_tree` described."""
        columns = fields.array("columns", np.float64, (n_components,))
        most, row = fields.number("most"), fields.integer("row")
        fields.end()
        return cls(columns, most, row)


def warn_of_wide_steps(encoder: Encoder, X: Any) -> None:
    """Warn if most calibration rows X (n, d) are rounded to one value in many features.

    A step is a share of a deviation, and one row in other units makes a deviation of its own. The
    least step may be a share of the deviation of other features, and is not looked at.
    """
    step = encoder.calibration.step
    own = (step > step.min()) | (step.max() == step.min())
    if not encoder.calibration.noise_alpha(1.0):
        return
    rows = X[:: max(1, len(X) // LOOKED_AT)]
    scaled = np.empty((len(rows), encoder.n_components), dtype=np.float32)
    encoder.scale(rows, scaled)
    middle = np.median(scaled, axis=0)
    is_lost = (np.rint(scaled) == np.rint(middle)) & (scaled != middle)
    share = float(np.mean(is_lost[:, own].mean(axis=0) > 0.5))
    if share > MAX_LOST:
        warn(
            f"in {share:.0%} of the features most rows are rounded to the same value, since a few "
            "rows are so much longer that they make the steps too wide for all others; take those "
            "out, or use normalize='asinh' (--normalize asinh) or precision='float64' "
            "(--precision float64)"
        )
