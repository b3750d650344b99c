"""Raw rows to features ready to be summed: preprocessing, map and calibration as one."""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray

from streamrf.display import stage
from streamrf.errors import DataError, ShapeError
from streamrf.features import (
    DESCRIBED,
    FeatureMap,
    attach_code,
    check_map,
    clone_with_seed,
    panel_bytes,
    panels,
)
from streamrf.jit import lanes
from streamrf.jit.arrays import F32, F64, I64, unlocked
from streamrf.jit.lapack import MAX_COLUMNS
from streamrf.jit.threads import featurising
from streamrf.preprocessing.encoder_fields import read_targets, read_tried
from streamrf.preprocessing.moments import Moments
from streamrf.preprocessing.rounding import Calibration, Cut, calibration_class
from streamrf.preprocessing.scaling import Preprocessing
from streamrf.preprocessing.warp import Warp
from streamrf.sources import Block, Columns, Rows, Source, as_matrix, check_no_frame, in_order
from streamrf.storage import Fields, digest, from_tree, to_tree, tree_bytes

DRAW_BYTES = 64 << 20  # of the calibration rows that a map is drawn from


@dataclass(frozen=True)
class Encoder:
    """What turns a raw row into a row of (rounded) features, fixed before the pass begins.

    Parameters
    ----------
    preprocessing : scaling and warp of raw rows
    features : the fitted map
    calibration : shifts and steps
    selected : (n_components,) int64, the columns of the map that are used, or None for all
    tried : what a selection tried, the winner first, or None where nothing was chosen: columns of
        equal length by their names, "candidate", "n_components", "n_rows" and "error"; "decode"
        too, "discriminant", where errors were counted by it
    table : what the columns of a table became to be a raw row, or None for rows of numbers
    targets : names of several targets beside rows whose columns have none
    """

    preprocessing: Preprocessing
    features: FeatureMap
    calibration: Calibration
    selected: I64 | None = None
    tried: dict[str, Any] | None = None
    table: Columns | None = None
    targets: tuple[str, ...] = ()

    @classmethod
    def calibrate(
        cls,
        features: FeatureMap,
        sample: Block,
        *,
        normalize: str | None = None,
        warp: Warp | None = None,
        precision: str = "exact",
        totals: str = "float64",
        regression: bool = False,
        random_state: int | RandomState | None = None,
        moments: Moments | None = None,
    ) -> "Encoder":
        """Learn everything from the calibration rows.

        Parameters
        ----------
        features : an unfitted map; cloned, and seeded from `random_state` if it has no seed
        sample : the calibration rows
        normalize, warp : see `Preprocessing`
        precision, totals : see `calibration_class`
        regression : whether the targets are values
        random_state : int, RandomState or None
        moments : of all rows, where columns are to be scaled by them and not by the sample
        """
        check_map(features)
        kind = calibration_class(precision, totals)
        preprocessing = Preprocessing.learn(normalize, sample.X, warp, moments)
        features = clone_with_seed(features, np.random.default_rng(random_state))
        n, d = sample.X.shape
        with featurising():
            every = -(-n * d * 4 // DRAW_BYTES)
            features.draw_for(d, preprocessing.apply(sample.X[::every] if every > 1 else sample.X))
            mean, squares = np.zeros((2, features.n_components))
            for part, x, z in panels(features, n, d):
                preprocessing.load(sample.X[part], x)
                features.map_lanes(x, z)
                features.check_values(z, part.stop - part.start)
                lanes.add_moments(z, len(sample.X[part]), part.start, mean, squares)
        deviation = np.sqrt(squares / n)
        targets = as_columns(sample.y) if regression else None
        calibration = kind.learn(mean, deviation, targets, sample.weights, features.spans)
        return cls(preprocessing, features, calibration)

    def of_table(self, table: Columns | None) -> "Encoder":
        """Return the encoder of the columns of a table, whose names its warp has, too."""
        pre = self.preprocessing
        if table is not None and pre.warp is not None:
            pre = replace(pre, warp=replace(pre.warp, names=table.outputs))
        return replace(self, preprocessing=pre, table=table)

    def of_source(self, source: Source) -> "Encoder":
        """Return the encoder of the columns and targets of a source, by their names."""
        names = source.target_names if source.columns is None else None
        several = names if names is not None and len(names) > 1 else ()
        return replace(self.of_table(source.columns), targets=several)

    def card(self) -> dict[str, str]:
        """Return what a prompt shows of it: width and map, columns and their scaling."""
        warp = self.preprocessing.warp
        scaling = [self.preprocessing.normalize, None if warp is None else f"{warp.kind} warp"]
        return {
            "features": f"{self.n_components:,} of {type(self.features).__name__}",
            "columns": ", ".join([f"{self.n_features:,}", *filter(None, scaling)]),
        }

    @property
    def n_features(self) -> int:
        """Width of a raw row."""
        return self.preprocessing.n_features

    @property
    def n_columns(self) -> int:
        """Columns that a user gives: those of a table, or of a raw row."""
        return self.n_features if self.table is None else len(self.table.columns)

    @property
    def target_names(self) -> tuple[str, ...]:
        """Names of the targets that were learnt from; none where they had none."""
        return self.targets if self.table is None else self.table.targets

    def adapted(self, source: Source, labels: NDArray[Any] | None = None) -> Source:
        """Return a source read as that learnt from: columns and several targets by their names.

        `labels` are those known; see `Source.adapted`, also for errors.
        """
        return in_order(source.adapted(self.table, labels), self.target_names)

    @property
    def is_of_table(self) -> bool:
        """Whether columns were learnt from a table, and more is known of them than names."""
        return self.table is not None and not self.table.is_bare

    @property
    def n_components(self) -> int:
        """Width of the features."""
        return len(self.calibration.shift)

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays, and of the lanes that rows pass through on all threads."""
        return tree_bytes(self.to_tree()) + panel_bytes(self.features, self.n_features)

    @functools.cached_property
    def digests(self) -> dict[str, str]:
        """Fingerprints of the parts, by their names for messages."""
        tree = self.to_tree()
        features = tree["features"] if self.selected is None else [tree["features"], tree["picks"]]
        digests = {
            "feature maps": digest(features),
            "preprocessing": digest(tree["preprocessing"]),
            "calibrations": digest(tree["calibration"]),
        }
        return digests if self.table is None else digests | {"columns": self.table.digest}

    def has_map_of(self, other: "Encoder") -> bool:
        """Return whether both use features of the same map, though others of them."""
        return digest(to_tree(self.features)) == digest(to_tree(other.features))

    def encode(
        self,
        X: Any,
        roots: F64,
        out: NDArray[Any],
        cut: Cut | None = None,
        mapped: Iterable[F32] = (),
    ) -> int:
        """Fill `out` (n, n_components) with rounded features; return the number of entries clipped.

        Parameters
        ----------
        X : (n, n_features) raw rows
        roots : (n,) float64, roots of the rows' weights
        out : of the calibration's dtype
        cut : None, or what is told what clipping cuts off
        mapped : what `mapped` has returned of the first rows, one stretch after the other
        """
        n_clipped = 0
        with featurising(), stage("featurise"):
            for rows, z in self._mapped(X, mapped):
                lost = None if cut is None else cut.of_rows(rows)
                n_clipped += self.calibration.store(z, roots[rows], out[rows], lost)
        return n_clipped

    def mapped(self, X: Any) -> F32:
        """Return features as the map gives them, (groups, n_components, 16): rows as lanes."""
        self.check_width(X)
        out = np.empty((-(-len(X) // lanes.LANES), self.n_components, lanes.LANES), np.float32)
        with featurising(), stage("featurise"):
            for rows, z in self._mapped(X):
                first = rows.start // lanes.LANES
                out[first : first + len(z)] = z
        if n_more := len(X) % lanes.LANES:
            out[-1, :, n_more:] = 0  # what a map made of no rows may be infinite
        return out

    def count_too_long(self, X: Any) -> int:
        """Return the number of rows that are too long for the series of the map."""
        if self.features.longest == np.inf:
            return 0
        n_long = 0
        with featurising():
            for rows, x, _ in panels(self.features, len(X), self.n_features):
                self.preprocessing.load(X[rows], x)
                squares = self.features.squares(x)
                n_long += int(np.count_nonzero(squares > self.features.longest))
        return n_long

    def scale(self, X: Any, out: NDArray[Any]) -> None:
        """Fill `out` (n, n_components) of any float with ``(z - shift) / step``, not rounded."""
        self.check_width(X)
        shift, inverse_step = self.calibration.shift, 1 / self.calibration.step
        ones = np.ones(len(X))
        with featurising(), stage("featurise"):
            for rows, z in self._mapped(X):
                lanes.store_scaled(z, shift, inverse_step, ones[rows], out[rows])

    def linear(self, X: Any, coef: F64, intercept: F64) -> F64:
        """Return ``coef (z - shift) / step + intercept`` of rows, float64 (n, n_outputs).

        Parameters
        ----------
        X : (n, n_features) raw rows
        coef : (n_outputs, n_components) float64
        intercept : (n_outputs,) float64
        """
        self.check_width(X)
        shift, inverse_step = self.calibration.shift, 1 / self.calibration.step
        coef, intercept = unlocked(np.ascontiguousarray(coef.T)), unlocked(intercept)
        out, columns = np.empty((len(X), len(intercept))), np.arange(self.n_components)
        with featurising(), stage("featurise"):
            for rows, z in self._mapped(X):
                lanes.linear(z, columns, shift, inverse_step, coef, intercept, out[rows])
        return out

    def _mapped(self, X: Any, known: Iterable[F32] = ()) -> Iterator[tuple[slice, F32]]:
        """Yield the slices of panels of raw rows, each with the features used, as lanes.

        Those known of the first rows are not made again.
        """
        start = 0
        for z in known:
            stop = min(start + len(z) * lanes.LANES, len(X))
            yield slice(start, stop), z
            start = stop
        for rows, x, z in panels(self.features, len(X) - start, self.n_features):
            place = slice(start + rows.start, start + rows.stop)
            self.preprocessing.load(X[place], x)
            self.features.map_lanes(x, z)
            self.features.check_values(z, rows.stop - rows.start)
            yield place, (z if self.selected is None else z[:, self.selected])

    @property
    def columns(self) -> I64:
        """Columns of the map that are used, int64 (n_components,)."""
        return np.arange(self.n_components) if self.selected is None else self.selected

    @property
    def blocks(self) -> I64:
        """Block of the map that each feature used is of, int64 (n_components,)."""
        return self.features.blocks[self.columns]

    def block_scales(self, weights: F64 | None) -> F64:
        """Return what weights of the blocks (None: 1) multiply features by, (n_components,)."""
        return np.ones(self.n_components) if weights is None else np.sqrt(weights)[self.blocks]

    def select(self, columns: I64) -> "Encoder":
        """Return the encoder of some of the features, by their columns in what is used now."""
        calibration = replace(
            self.calibration,
            shift=self.calibration.shift[columns],
            step=self.calibration.step[columns],
        )
        return replace(self, calibration=calibration, selected=self.columns[columns])

    def attach(self, features: Any) -> None:
        """Let the map, read from a file, have the code that it names; see `load_model`."""
        if features is not None:
            attach_code(self.features, features)

    def raw(self, X: Any) -> Any:
        """Return rows of any array-like as `Block` has them.

        ShapeError if they have another width, DataError for a table.
        """
        check_no_frame(X, "predict or decision_function")
        X = as_matrix(X, "X")
        self.check_width(X)
        return X

    def check_coef(self, coef: F64, intercept: F64) -> None:
        """Raise ShapeError unless there is a coefficient for each feature of each output."""
        given, outputs = np.shape(coef), np.shape(intercept)
        if len(outputs) != 1 or given != (*outputs, self.n_components):
            raise ShapeError(
                f"coef has shape {given} and intercept {outputs}; expected (n_outputs, "
                f"{self.n_components}) and (n_outputs,)"
            )

    def check_width(self, X: Any) -> None:
        """Raise ShapeError if rows have another width."""
        if X.shape[1] != self.n_features:
            raise ShapeError(
                f"X has {X.shape[1]} features, but the model was made for {self.n_features}"
            )

    def misfit(self, rows: Block | Rows) -> str | None:
        """Return why sums cannot take rows, by the form of their targets and weights, or None."""
        n_targets = len(self.calibration.target_shift)  # 0 for classes
        if not n_targets:
            if rows.y.ndim != 1:
                return f"y has shape (n, {rows.y.shape[1]}); labels are one a row, (n,)"
        elif rows.y.dtype.kind == "U":
            return "the targets are strings; expected numbers"
        elif (n_given := as_columns(rows.y[:0]).shape[1]) != n_targets:
            return f"rows have {n_given} targets, the sums began with {n_targets}"
        if (rows.weights is None) != (self.calibration.mean_weight is None):
            now, then = ("no weights", "some") if rows.weights is None else ("weights", "none")
            return (
                f"rows have {now}, the sums began with {then}; give all rows weights, or none "
                "(those of classes, of class_weight=, are weights too)"
            )
        return None

    def to_tree(self) -> dict[str, Any]:
        """Return the parts as a tree."""
        tree = {
            "preprocessing": self.preprocessing.to_tree(),
            "features": to_tree(self.features),
            "calibration": self.calibration.to_tree(),
        }
        if self.selected is not None:
            tree["picks"] = self.selected
        if self.tried is not None:
            tree["tried"] = self.tried
        if self.targets:
            tree["targets"] = list(self.targets)
        return tree if self.table is None else tree | {"columns": self.table.to_tree()}

    @classmethod
    def from_tree(cls, tree: dict[str, Any] | Fields) -> "Encoder":
        """Return what `to_tree` described."""
        fields = Fields.of(tree)
        preprocessing = Preprocessing.from_tree(fields.tree("preprocessing"))
        features = from_tree(fields.tree("features"), DESCRIBED)
        calibration = Calibration.from_tree(fields.tree("calibration"))
        if not isinstance(features, FeatureMap):
            raise fields.wrong("features", f"is a {type(features).__name__}; expected a map")
        features.check_fitted(preprocessing.n_features, fields, "features")
        if not features.code:
            features.attach(iter(()))  # kernels that are products of features
        if features.n_components > MAX_COLUMNS:  # arrays of some maps do not grow with them
            raise fields.wrong("features", f"has over {MAX_COLUMNS} components, as no Gram can")
        width, selected = len(calibration.shift), None
        if fields.is_array("picks"):
            selected = fields.indices("picks", np.int64, (width,), features.n_components)
        elif features.n_components != width:
            raise fields.wrong(
                "calibration", f"is for {width} features; the map has {features.n_components}"
            )
        tried = read_tried(fields.tree("tried")) if fields.is_tree("tried") else None
        table = Columns.from_tree(fields.tree("columns")) if fields.is_tree("columns") else None
        if table is not None and len(table.outputs) != preprocessing.n_features:
            raise fields.wrong("columns", f"are not the {preprocessing.n_features} of a raw row")
        targets = read_targets(fields, len(calibration.target_shift))
        fields.end()
        encoder = cls(preprocessing, features, calibration, selected, tried, targets=targets)
        return encoder.of_table(table)


def as_columns(y: ArrayLike) -> F64:
    """Return targets, numbers, as float64 (n, n_targets); DataError for texts."""
    try:
        columns = np.asarray(y, dtype=np.float64)
    except ValueError as error:
        raise DataError(f"the targets are no numbers ({error})") from error
    return columns[:, np.newaxis] if columns.ndim == 1 else columns
