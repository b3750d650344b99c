"""What a pass computes, apart from how it is carried out."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.engine import RunOptions
from streamrf.errors import ParameterError, check_choice, check_flag, check_options, check_path
from streamrf.features import FeatureMap, check_map
from streamrf.models import ErrorCorrectingCodes, OneVsRest, check_codes
from streamrf.preprocessing import BY_MOMENTS, CHOICES, WARPS, Moments, Warp, calibration_class
from streamrf.sources import ClassWeight, as_labels, check_class_weight, without_gaps
from streamrf.statistics import TOTALS, Statistics, check_folds
from streamrf.training.kernel_names import check_scaling, names_of

ON_BAD_ROWS = ("raise", "skip")
AUTO = "auto"
TASKS = (AUTO, "classification", "regression")
BUDGET_SECONDS = 24.0  # of a choice, planned
WARP_ROUNDS = 2  # of learning a warp, each from the rows warped so far


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a pass computes. The sums depend on these, the source and nothing else.

    Parameters
    ----------
    features : an unfitted feature map; "auto": scaling, kernel, map and width chosen by `select`
        from a peek at the rows; a list of maps: for `accumulate` alone; not needed with `like`
    n_components : width of the features chosen; None means that it is chosen too. Only with "auto"
    kernels : names of the kernels and maps to choose from, see `select`; None means the default
        ones. Only with "auto"
    budget : planned seconds of the choice, see `select`; None means 24, or a quarter of the pass if
        that is more. Only with "auto"
    normalize : None, "l2" (rows to unit length), "l1" (to sum 1), "max" (one constant), "standard"
        (columns), "asinh" (of standardised columns) or "quantile" (normal scores of ranks in the
        columns); "auto": with the features, None before a map
    warp : a linear map of scaled rows, learnt from the gradients of a ridge fitted to a peek: None,
        "diagonal" (weights of columns), "full" (a matrix; up to 2,000 columns), a `Warp` that was
        learnt before, for a map; "auto": tried with the features, and None before a map
    warp_rounds : how often at least the warp is learnt from the rows warped so far; a diagonal one
        up to five times, while each takes a twentieth off the squared error of rows held out
    scale_like : moments of all rows, from an earlier reading (`streamrf.moments`), or their file;
        statistics do too. "standard" and "asinh" scale columns by them rather than by the rows
        looked at before the pass
    codes : target codes of the classes; None means `OneVsRest`, its decoder chosen by the rows held
        out, if any are
    classes : all labels, where they are known. Where a code has fewer bits than classes the sums
        are then kept by bit (unless decoded by discriminants); else they are kept by class, and any
        code can be chosen at the solve. Sums by class take labels that are not among them; sums by
        bit raise UnknownLabelError
    class_weight : factors of the rows' weights by label, "balanced" (so that all classes weigh the
        same, by their shares in arrays and HDF5 files of up to 8 million rows, else in a peek of up
        to 20,000 rows), or None. Rows are weighed as they are read, since one Gram is summed for
        all classes; give a dict where sums are to be added
    task : "classification", "regression" or "auto": classes, unless the first rows looked at have
        fractions or several targets. Over 100 classes of whole floats, or nearly one for every row,
        raise an error
    regression : True means task="regression"
    precision : "exact" (features rounded to integers, 512 levels a deviation, sums without error),
        "coarse" (24 levels, in 8 bits) or "float64" (unrounded features, half the speed, sums exact
        to rounding only)
    on_bad_rows : "raise" or "skip" rows with NaN or infinity
    hold_out : whether a share of the rows is kept aside for the choice of alpha
    folds : number of folds to keep the sums in, for `Statistics.cross_validate`; None means no
        folds, or with `like` as many as those statistics have. A row's fold is a hash of its
        place in its store. Needs as many Grams as folds next to the total
    totals : "float64", or "int32": half the memory for the sums, which are exact up to 2^31 (about
        two million rows of 32 levels; beyond, the pass ends with an error), and, with
        ``solve(alpha, overwrite=True)``, a quarter of it in all, for a float32 factor. None means
        float64, or with `like` as there
    like : earlier statistics, or their file: take their map and calibration, so that both can be
        added; map, `normalize`, `warp`, `precision` and task, if given too, must be theirs
    rows : ``(start, stop)``, the only rows to add up; stop None means to the end. The calibration
        still looks at the whole source, so parts of one source made with one seed and map can be
        added; features are chosen for as many rows as a part has, so others are `like` the first
    random_state : int, RandomState or None; seeds the map if it has no seed of its own

    Raises
    ------
    ParameterError
        If a setting is none of its choices.
    """

    features: FeatureMap | Sequence[FeatureMap] | str | None = None
    n_components: int | None = None
    kernels: str | Sequence[str] | None = field(
        default=None,
        metadata={"help": "What to choose from, such as default,chi2; a wrong name lists all."},
    )
    budget: float | None = field(
        default=None,
        metadata={
            "help": f"Planned seconds of the choice; {BUDGET_SECONDS:g}, or a quarter of the pass "
            "if that is more."
        },
    )
    normalize: str | None = field(
        default=AUTO,
        metadata={
            "help": "Scaling of rows before the map (default: chosen; none where a map is named)."
        },
    )
    warp: Warp | str | None = field(
        default=AUTO,
        metadata={
            "help": "Linear map of the scaled rows, learnt from a peek: weights of columns or a "
            "matrix (default: where it helps; none where a map is named)."
        },
    )
    warp_rounds: int = field(
        default=WARP_ROUNDS, metadata={"help": f"Least rounds of learning the warp; {WARP_ROUNDS}."}
    )
    scale_like: Moments | Statistics | str | os.PathLike | None = field(
        default=None,
        metadata={
            "help": "File of moments of all rows to scale columns by, which streamrf "
            "moments writes."
        },
    )
    codes: OneVsRest | ErrorCorrectingCodes | None = field(
        default=None, metadata={"help": "Target codes (default: one-vs-rest)."}
    )
    classes: Sequence | NDArray[Any] | None = None
    class_weight: ClassWeight | None = field(
        default=None,
        metadata={
            "help": "Weights of classes: balanced, or LABEL=NUMBER,... (default: all equal)."
        },
    )
    task: str = field(
        default=AUTO,
        metadata={"help": "Whether targets are classes or values (default: by their numbers)."},
    )
    regression: bool = field(
        default=False, metadata={"help": "Targets are values, not classes: --task regression."}
    )
    precision: str = field(
        default="exact",
        metadata={
            "help": "Features rounded for exact sums, finely or coarsely, or not (default: exact)."
        },
    )
    on_bad_rows: str = field(
        default="raise", metadata={"help": "What to do with rows that hold NaN or infinity."}
    )
    hold_out: bool = False
    folds: int | None = field(
        default=None,
        metadata={
            "help": "Folds to keep the sums in, so that solve can cross-validate (default: "
            "none); each takes as much memory as the sums."
        },
    )
    totals: str | None = field(
        default=None,
        metadata={
            "help": "Numbers of the sums (default: float64); int32: half the memory, up to about "
            "two million rows."
        },
    )
    like: Statistics | str | os.PathLike | None = field(
        default=None,
        metadata={"help": "Statistics whose map and scales to take, so that both add."},
    )
    rows: tuple[int, int | None] | None = field(
        default=None, metadata={"help": "Only these rows, counted from 0 (default: all)."}
    )
    random_state: Any = field(
        default=None, metadata={"help": "Seed of all that is random (default: 0)."}
    )

    def __post_init__(self) -> None:
        check_choice("normalize", self.normalize, (*CHOICES, AUTO))
        if isinstance(self.features, str) and self.features != AUTO:
            raise ParameterError(
                f"features must be a feature map or {AUTO!r}, got {self.features!r}"
            )
        if not (self.features is None or isinstance(self.features, str | list | tuple)):
            check_map(self.features)
        if self.n_components is not None:
            if not self.is_auto:
                raise ParameterError("n_components is for features='auto'; a map has its own")
            if not (isinstance(self.n_components, Integral) and self.n_components > 0):
                raise ParameterError(
                    f"n_components must be an integer of at least 1, got {self.n_components!r}"
                )
        if self.kernels is not None and not self.is_auto:
            raise ParameterError(
                "kernels (--kernels) is for features='auto'; leave it out where a map is named"
            )
        if self.budget is not None:
            if not self.is_auto:
                raise ParameterError(
                    "budget (--budget) is for features='auto'; leave it out where a map is named"
                )
            if not (isinstance(self.budget, Real) and 0 < self.budget < inf):
                raise ParameterError(f"budget must be seconds above 0, got {self.budget!r}")
        check_scaling(names_of(self.kernels), self.scaling, self.warping)
        check_choice("task", self.task, TASKS)
        check_flag("regression", self.regression)
        check_flag("hold_out", self.hold_out)
        if self.regression and self.task == "classification":
            raise ParameterError("task='classification' contradicts regression=True (--regression)")
        if self.regression:
            object.__setattr__(self, "task", "regression")
        check_class_weight(self.class_weight)
        if self.task == "regression" and self.class_weight is not None:
            raise ParameterError("class_weight (--class-weight) is for classes, not for values")
        if not isinstance(self.warp, Warp):
            check_choice("warp", self.warp, (None, *WARPS, AUTO))
        elif self.is_auto:
            raise ParameterError("a learnt warp is for a feature map; name one, or warp='auto'")
        if not (isinstance(self.warp_rounds, Integral) and self.warp_rounds > 0):
            raise ParameterError(
                f"warp_rounds must be an integer of at least 1, got {self.warp_rounds!r}"
            )
        if self.like is not None and not isinstance(self.like, Statistics):
            check_path(self.like, "like")
        if self.scale_like is not None and self.like is not None:
            raise ParameterError(
                "scale_like= (--scale-like): the statistics of like= (--like) have their scales "
                "already"
            )
        if self.scale_like is not None and self.scaling not in (*BY_MOMENTS, AUTO):
            raise ParameterError(
                "scale_like= (--scale-like) is for normalize= (--normalize) 'standard' or 'asinh', "
                f"which scale columns, not {self.scaling!r}"
            )
        check_choice("on_bad_rows", self.on_bad_rows, ON_BAD_ROWS)
        calibration_class(self.precision)
        check_folds(self.folds)
        if self.totals is not None:
            check_choice("totals", self.totals, sorted(TOTALS))
        if self.codes is not None:
            check_codes(self.codes)
        if self.classes is not None and np.ndim(self.classes) != 1:
            raise ParameterError(f"classes must be a list of labels, got {self.classes!r}")
        labels = self.labels
        if labels is not None and len(without_gaps(labels)) < len(labels):
            raise ParameterError(f"classes must be labels without NaN, got {self.classes!r}")
        if self.rows is not None:
            check_rows_given(self.rows)
        _check_seed(self.random_state)

    @property
    def is_auto(self) -> bool:
        """Whether features are to be chosen."""
        return isinstance(self.features, str)

    @property
    def is_of_classes(self) -> bool:
        """Whether some setting is for classes only."""
        return any(part is not None for part in (self.codes, self.classes, self.class_weight))

    @property
    def scaling(self) -> str | None:
        """The scaling asked for; "auto" only where it is to be chosen."""
        return None if self.normalize == AUTO and not self.is_auto else self.normalize

    @property
    def warping(self) -> Warp | str | None:
        """The warp asked for; "auto" only where it is to be chosen."""
        is_auto = isinstance(self.warp, str) and self.warp == AUTO
        return None if is_auto and not self.is_auto else self.warp

    @property
    def labels(self) -> NDArray[Any] | None:
        """All labels, sorted, or None where they are not known."""
        return None if self.classes is None else np.unique(as_labels(np.asarray(self.classes)))


def split_options(options: dict[str, Any]) -> tuple[Settings, RunOptions]:
    """Return the settings and the options of the run that keyword arguments stand for.

    Raises
    ------
    ParameterError
        For a keyword that is neither.
    """
    names = [{field.name for field in fields(kind)} for kind in (Settings, RunOptions)]
    check_options(options, names[0] | names[1])
    of_pass, of_run = ({k: v for k, v in options.items() if k in known} for known in names)
    return Settings(**of_pass), RunOptions(**of_run)


def check_rows_given(rows: Any) -> None:
    """Raise ParameterError unless rows are a start and a stop, which may be None."""
    is_pair = isinstance(rows, Sequence) and len(rows) == 2
    if not is_pair or not (isinstance(rows[0], Integral) and isinstance(rows[1], Integral | None)):
        raise ParameterError(
            f"rows must be (start, stop), two integers, or None as stop, got {rows!r}"
        )


def _check_seed(seed: Any) -> None:
    """Raise ParameterError for what seeds no generator."""
    if seed is None or isinstance(seed, np.random.RandomState | np.random.Generator):
        return
    if not (isinstance(seed, Integral) and int(seed) >= 0):
        raise ParameterError(
            f"random_state must be an integer of at least 0, a RandomState or None, got {seed!r}"
        )
