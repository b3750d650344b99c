"""What a pass computes, apart from how it is carried out."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamrf.engine import RunOptions
from streamrf.errors import ParameterError
from streamrf.features import FeatureMap
from streamrf.models import ErrorCorrectingCodes, OneVsRest, check_decode
from streamrf.preprocessing import CHOICES, calibration_class
from streamrf.sources import as_labels
from streamrf.statistics import TOTALS, Statistics, check_folds

ON_BAD_ROWS = ("raise", "skip")
AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a pass computes. The sums depend on these, the source and nothing else.

    Parameters
    ----------
    features : an unfitted feature map; "auto": scaling, kernel, map and width chosen by `select`
        from a peek at the rows; a list of maps: for `accumulate` alone; not needed with `like`
    n_components : width of the features chosen; None means that it is chosen too. Only with "auto"
    normalize : None, "l2" (rows to unit length), "l1" (to sum 1), "max" (one constant), "standard"
        (columns) or "asinh" (of standardised columns); "auto": with the features, None before a map
    codes : target codes of the classes; None means `OneVsRest`
    classes : all labels, where they are known. Where a code has fewer bits than classes the sums
        are then kept by bit (unless decoded by discriminants); else they are kept by class, and any
        code can be chosen at the solve
    regression : whether the targets are values rather than classes
    precision : "exact" (features rounded to integers, 512 levels a deviation, sums without error),
        "coarse" (24 levels, in 8 bits) or "float64" (unrounded features, half the speed, sums exact
        to rounding only)
    on_bad_rows : "raise" or "skip" rows with NaN or infinity
    hold_out : whether a share of the rows is kept aside for the choice of alpha
    folds : number of folds to keep the sums in, for `Statistics.cross_validate`; None means no
        folds, or with `like` as many as there. A row's fold is a hash of its place in its store.
        Needs as many Grams as folds next to the total
    totals : "float64", or "int32": half the memory for the sums, which are exact up to 2^31 (about
        two million rows of 32 levels; beyond, the pass ends with an error), and, with
        ``solve(alpha, overwrite=True)``, a quarter of it in all, for a float32 factor. None means
        float64, or with `like` as there
    like : earlier statistics, or their file: take their map and calibration, so that both can be
        added
    rows : ``(start, stop)``, the only rows to add up; stop None means to the end. The calibration
        still looks at the whole source, so parts of one source made with one seed can be added.
    random_state : int, RandomState or None; seeds the map if it has no seed of its own

    Raises
    ------
    ParameterError
        If a setting is none of its choices.
    """

    features: FeatureMap | Sequence[FeatureMap] | str | None = None
    n_components: int | None = None
    normalize: str | None = field(
        default=AUTO,
        metadata={"help": "Scaling of rows before the map; chosen, or none before a map named."},
    )
    codes: OneVsRest | ErrorCorrectingCodes | None = field(
        default=None, metadata={"help": "Target codes; one-vs-rest."}
    )
    classes: Sequence | NDArray[Any] | None = None
    regression: bool = field(default=False, metadata={"help": "Targets are values, not classes."})
    precision: str = field(
        default="exact",
        metadata={"help": "Features rounded for exact sums, finely or coarsely, or not; exact."},
    )
    on_bad_rows: str = field(
        default="raise", metadata={"help": "What to do with rows that hold NaN or infinity."}
    )
    hold_out: bool = False
    folds: int | None = field(
        default=None,
        metadata={
            "help": "Folds to keep the sums in, so that solve can cross-validate; none. Each takes "
            "as much memory as the sums."
        },
    )
    totals: str | None = field(
        default=None,
        metadata={
            "help": "Numbers of the sums; float64. int32: half the memory, up to about two million "
            "rows."
        },
    )
    like: Statistics | str | os.PathLike | None = field(
        default=None,
        metadata={"help": "Statistics whose map and scales to take, so that both add."},
    )
    rows: tuple[int, int | None] | None = field(
        default=None, metadata={"help": "Only these rows, counted from 0; all by default."}
    )
    random_state: Any = field(default=None, metadata={"help": "Seed of all that is random; 0."})

    def __post_init__(self) -> None:
        _check_choice("normalize", self.normalize, (*CHOICES, AUTO))
        if isinstance(self.features, str) and self.features != AUTO:
            raise ParameterError(
                f"features must be a feature map or {AUTO!r}, got {self.features!r}"
            )
        if self.n_components is not None:
            if not self.is_auto:
                raise ParameterError("n_components is for features='auto'; a map has its own")
            if not (isinstance(self.n_components, Integral) and self.n_components > 0):
                raise ParameterError(
                    f"n_components must be an integer of at least 1, got {self.n_components!r}"
                )
        _check_choice("on_bad_rows", self.on_bad_rows, ON_BAD_ROWS)
        calibration_class(self.precision)
        check_folds(self.folds)
        if self.totals is not None:
            _check_choice("totals", self.totals, sorted(TOTALS))
        if self.codes is not None:
            check_decode(self.codes)

    @property
    def is_auto(self) -> bool:
        """Whether features are to be chosen."""
        return isinstance(self.features, str)

    @property
    def scaling(self) -> str | None:
        """The scaling asked for; "auto" only where it is to be chosen."""
        return None if self.normalize == AUTO and not self.is_auto else self.normalize

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
    for name in options:
        if name not in names[0] | names[1]:
            known = ", ".join(sorted(names[0] | names[1]))
            raise ParameterError(f"there is no option {name!r}; the options are {known}")
    of_pass, of_run = ({k: v for k, v in options.items() if k in known} for known in names)
    return Settings(**of_pass), RunOptions(**of_run)


def _check_choice(name: str, value: Any, choices: Sequence) -> None:
    if value not in choices:
        raise ParameterError(f"{name} must be one of {tuple(choices)}, got {value!r}")
