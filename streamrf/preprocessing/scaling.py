"""What happens to a row before the map: one constant, column scales, unit length, a warp."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamrf.errors import check_choice
from streamrf.jit import lanes
from streamrf.jit.arrays import F32, F64, Unlocked, unlocked
from streamrf.jit.threads import computing
from streamrf.preprocessing.moments import Moments
from streamrf.preprocessing.quantiles import Quantiles
from streamrf.preprocessing.warp import Warp
from streamrf.sources import SparseRows, by_columns, dense_pieces
from streamrf.storage import Fields

BY_MOMENTS = ("standard", "asinh")  # scalings by means and deviations of columns
COLUMNWISE = (*BY_MOMENTS, "quantile")  # that move columns to 0, and under which they count alike
CHOICES = (None, "l2", "l1", "max", *COLUMNWISE)
NORMS = {"l2": 2, "l1": 1}
PIECE_BYTES = 4 << 20  # of rows in float64
LEAST = float(np.finfo(np.float64).tiny)
FAINT = 1e-12  # of its mean; a column that varies by no more is taken as constant, and rounded


@dataclass(frozen=True)
class Preprocessing(Unlocked):
    """Scaling of rows: ``(x - shift) * inverse_scale``, then what is asked for.

    Parameters
    ----------
    normalize : None, "l2" (each row to unit length; a zero row stays zero), "l1" (absolute entries
        of each row to sum 1), "max" (one constant, the greatest Euclidean norm of the calibration
        rows), "standard" (column means and deviations of the calibration rows; a constant column
        keeps its scale), "asinh" (asinh of the standardised columns: outliers have bounded
        influence) or "quantile" (normal scores of the ranks among the calibration rows)
    shift, inverse_scale : (n_features,) float64
    warp : a linear map of the scaled row, or None
    quantiles : of "quantile", else None
    """

    normalize: str | None
    shift: F64
    inverse_scale: F64
    warp: Warp | None = None
    quantiles: Quantiles | None = None

    @classmethod
    def learn(
        cls,
        normalize: str | None,
        X: Any,
        warp: Warp | None = None,
        moments: Moments | None = None,
    ) -> "Preprocessing":
        """Learn from calibration rows X (n, n_features) of any dtype, or sparse.

        Columns are scaled by `moments`, of more rows than these, where there are any.
        """
        check_choice("normalize", normalize, CHOICES)
        d = X.shape[1]
        if warp is not None:
            warp.check_width(d)
        shift, inverse, quantiles = np.zeros(d), np.ones(d), None
        if normalize == "quantile":
            quantiles = Quantiles.learn(X)
        elif normalize in BY_MOMENTS:
            if moments is None:
                shift = by_columns(X, _mean)
                deviation = by_columns(X, deviations)
            else:
                shift, deviation = moments.mean, moments.deviation
                deviation[moments.hidden_columns()] = 0.0  # not known: taken as constant
            constant = deviation <= FAINT * np.abs(shift)
            varying = np.maximum(deviation, LEAST)  # whose inverse is finite
            inverse = 1 / np.where(constant | (deviation == 0), 1.0, varying)
        elif normalize == "max":
            squares = [np.square(x, dtype=np.float64).sum(axis=1) for _, x in dense_pieces(X)]
            greatest = np.sqrt(np.concatenate(squares).max())
            inverse = np.full(d, 1 / greatest if greatest > 0 else 1.0)
        return cls(normalize, shift, inverse, warp, quantiles)

    @property
    def is_by_moments(self) -> bool:
        """Whether columns are scaled by means and deviations, which `scale_like` may give."""
        return self.normalize in BY_MOMENTS

    @property
    def n_features(self) -> int:
        """Width of a row."""
        return len(self.shift)

    def load(self, X: Any, out: F32) -> None:
        """Scale and warp rows X (n, n_features) into lanes out (groups, n_features, 16) float32.

        Sparse rows whose zeros stay zero are laid out by their entries, and others made dense a
        few groups at a time.
        """
        norm, compress = NORMS.get(self.normalize or "", 0), self.normalize == "asinh"
        moved = compress or self.quantiles is not None or self.shift.any()
        if isinstance(X, SparseRows) and not moved:
            lanes.load_entries(*X.entries, self.inverse_scale, norm, out)
        else:
            for rows, x in dense_pieces(X):
                groups = slice(rows.start // lanes.LANES, -(-rows.stop // lanes.LANES))
                part = out if len(x) == len(X) else out[groups]
                free = unlocked(np.ascontiguousarray(x))
                if self.quantiles is not None:
                    self.quantiles.load(free, part)
                else:
                    lanes.load(free, self.shift, self.inverse_scale, norm, compress, part)
        if self.warp is not None:
            self.warp.load(out)

    def loaded(self, X: Any) -> F32:
        """Return the scaled rows as lanes, float32 (groups, n_features, 16)."""
        x = np.empty((-(-len(X) // lanes.LANES), X.shape[1], lanes.LANES), dtype=np.float32)
        self.load(X, x)
        return x

    def apply(self, X: Any) -> F32:
        """Return rows scaled and warped, float32 (n, n_features); for samples, not for streams."""
        with computing():
            x = self.loaded(X)
            out = np.empty(X.shape, dtype=np.float32)
            lanes.store(x, out)
        return out

    def to_tree(self) -> dict[str, Any]:
        """Return settings and scales as a tree."""
        tree = dict(vars(self))
        for name in ("warp", "quantiles"):
            part = tree.pop(name)
            if part is not None:
                tree[name] = part.to_tree()
        return tree

    @classmethod
    def from_tree(cls, tree: dict[str, Any] | Fields) -> "Preprocessing":
        """Return what `to_tree` described."""
        fields = Fields.of(tree)
        normalize = fields.value("normalize")
        if normalize not in CHOICES:
            raise fields.wrong("normalize", f"is {normalize!r}; expected one of {CHOICES}")
        shift = fields.array("shift", np.float64, (None,))
        inverse_scale = fields.array("inverse_scale", np.float64, shift.shape)
        warp = None
        if fields.is_tree("warp"):
            warp = Warp.from_tree(fields.tree("warp"), len(shift))
        quantiles = None
        if normalize == "quantile":
            quantiles = Quantiles.from_tree(fields.tree("quantiles"), len(shift))
        fields.end()
        if not len(shift):
            raise fields.wrong("shift", "is empty; expected one number for each column")
        return cls(normalize, shift, inverse_scale, warp, quantiles)


def _mean(X: Any) -> F64:
    """Return the means of columns; that of equal values, which a sum rounds, is the value."""
    low = X.min(axis=0)
    return np.where(low == X.max(axis=0), low, X.mean(axis=0, dtype=np.float64))


def variances(X: Any) -> F64:
    """Return the variances of columns, float64, with a part of the rows in float64 at a time."""
    step = max(1, PIECE_BYTES // (8 * max(1, X.shape[1])))
    if not isinstance(X, np.ndarray) or len(X) <= step:
        return X.var(axis=0, dtype=np.float64)
    mean, total = X.mean(axis=0, dtype=np.float64), np.zeros(X.shape[1])
    for start in range(0, len(X), step):
        part = np.subtract(X[start : start + step], mean)
        np.square(part, out=part)
        part[0] += total  # so that rows are added one by one, in their order
        total = part.sum(axis=0)
    return total / len(X)


def deviations(X: Any) -> F64:
    """Return the standard deviations of columns, also of those whose squares underflow."""
    found = np.sqrt(variances(X))
    for j in np.flatnonzero(found == 0):
        column = X[:, j].astype(np.float64)
        size = np.abs(column).max()
        if column.min() != column.max():
            found[j] = (column / size).std() * size
    return found
