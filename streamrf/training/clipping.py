"""What clipping takes from the sums, and when that is worth a warning."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamrf.jit.arrays import Floats, Indices
from streamrf.preprocessing import Cut
from streamrf.statistics import AbstractSums
from streamrf.storage import Fields

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
