"""A linear map of scaled rows, before the feature map: weights of columns, or a matrix."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamrf.display import listed
from streamrf.errors import ParameterError, ShapeError
from streamrf.jit import dense, lanes
from streamrf.jit.arrays import F32, F64, Unlocked
from streamrf.preprocessing.moments import MAX_NAMED
from streamrf.storage import Fields

WARPS = ("diagonal", "full")


@dataclass(frozen=True, eq=False, repr=False)
class Warp(Unlocked):
    """``x -> matrix x`` of scaled rows, by compiled loops: a row's bits depend on the row alone.

    Parameters
    ----------
    matrix : (n_features, n_features) float32, or (n_features,), its diagonal
    importances : (n_features,) float64, share of each column in the squared gradients of the
        predictor that the warp was learnt from, each times the column's variance
    names : of the columns, if they have any; files keep them with the columns
    """

    matrix: F32
    importances: F64
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        d = len(self.matrix)
        if self.matrix.shape not in ((d,), (d, d)) or np.shape(self.importances) != (d,):
            raise ParameterError(
                "a warp has a matrix of shape (n_features,) or (n_features, n_features) and "
                f"importances of shape (n_features,), got {self.matrix.shape} and "
                f"{np.shape(self.importances)}"
            )

    def __repr__(self) -> str:
        return f"Warp({self.kind}, {self.n_features} columns)"

    @property
    def n_features(self) -> int:
        """Width of a row."""
        return len(self.matrix)

    @property
    def kind(self) -> str:
        """One of `WARPS`."""
        return WARPS[self.matrix.ndim - 1]

    def check_width(self, n_features: int) -> None:
        """Raise ShapeError if rows have another width."""
        if n_features != self.n_features:
            raise ShapeError(f"rows have {n_features} columns, the warp is for {self.n_features}")

    def of_columns(self, names: tuple[str, ...], where: str) -> "Warp":
        """Return the warp of rows whose columns have these names, in their order.

        It is itself where either side has none; ShapeError if the names are others. `where` is the
        rows, for messages.
        """
        if not names or not self.names or names == self.names:
            return self
        if sorted(names) != sorted(self.names):
            raise ShapeError(
                f"the warp was learnt of the columns {listed(self.names, MAX_NAMED)}, and those of "
                f"{where} are {listed(names, MAX_NAMED)}; give the same, in any order, or learn "
                "another"
            )
        places = [self.names.index(name) for name in names]
        return replace(
            self,
            matrix=np.ascontiguousarray(self.matrix[..., places]),
            importances=self.importances[places],
            names=names,
        )

    def load(self, x: F32) -> None:
        """Warp lanes x (groups, n_features, 16) where they are."""
        (lanes.stretch if self.matrix.ndim == 1 else dense.transform)(x, self.matrix)

    def to_tree(self) -> dict[str, Any]:
        """Return the arrays as a tree."""
        return {"matrix": self.matrix, "importances": self.importances}

    @classmethod
    def from_tree(cls, tree: dict[str, Any] | Fields, n_features: int) -> "Warp":
        """Return what `to_tree` described, for rows of a width."""
        fields = Fields.of(tree)
        matrix = fields.array("matrix", np.float32, (n_features, ...))
        if matrix.shape[1:] not in ((), (n_features,)):
            raise fields.wrong("matrix", f"has shape {matrix.shape}; expected one or two equal")
        importances = fields.array("importances", np.float64, (n_features,))
        fields.end()
        return cls(matrix, importances)
