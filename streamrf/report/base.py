"""What a report is made of: what was measured, and the parts of the page that show it."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamrf.display import printable
from streamrf.models import Model
from streamrf.preprocessing import named_columns
from streamrf.solving import CrossValidation, Path
from streamrf.statistics import Statistics


@dataclass
class Widths:
    """What narrower choices of the features give, each at its own best penalty.

    Parameters
    ----------
    widths : (n_widths,) int64, ascending; the last is all features
    alphas, gcvs, dofs : (n_widths,) float64, least generalised cross-validation and where
    """

    widths: np.ndarray
    alphas: np.ndarray
    gcvs: np.ndarray
    dofs: np.ndarray


@dataclass
class ValueSample:
    """Some rows of the data with what was predicted of them.

    Parameters
    ----------
    truth, values : (n, n_targets) float64
    deviations : of the same shape, None of models without
    spread : standard deviation of the targets of these rows by weight, a mean over the targets
    """

    truth: np.ndarray
    values: np.ndarray
    deviations: np.ndarray | None
    spread: float

    @classmethod
    def of(cls, parts: Sequence[tuple[np.ndarray, ...]]) -> "ValueSample":
        """Join blocks of rows: targets, weights, values and, of models that have them, deviations.

        Targets are (n, n_targets) or (n,), weights (n,).
        """
        truth, weights, values, *deviations = map(np.concatenate, zip(*parts, strict=True))
        truth = truth.reshape(values.shape).astype(np.float64)
        shares = weights / (weights.sum() or 1.0)
        spread = np.sqrt(shares @ np.square(truth - shares @ truth)).mean()
        return cls(truth, values, deviations[0] if deviations else None, float(spread))


@dataclass
class Findings:
    """What was measured; None for what the files do not hold.

    Parameters
    ----------
    model : the model, given or solved from the statistics
    statistics : the sums
    path, folds : what each penalty gives
    spectrum : eigenvalues of the Gram of centred features, descending
    widths : what narrower choices give
    error : figures of the model on the data, `Model.evaluate`
    errors_by_alpha, errors_by_width : (x, figures) of the models of each penalty or width there
    is_weighted : whether the rows of the data carry weights
    curve : of two classes on the data, `ClassErrors.curve`
    sample : of values on the data, some rows
    seconds : time that each part took
    omitted : sentences on what could not be measured
    notes : sentences on what one should doubt
    """

    model: Model | None = None
    statistics: Statistics | None = None
    path: Path | None = None
    folds: CrossValidation | None = None
    spectrum: np.ndarray | None = None
    widths: Widths | None = None
    error: dict[str, Any] | None = None
    errors_by_alpha: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    errors_by_width: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    is_weighted: bool = False
    curve: np.ndarray | None = None
    sample: "ValueSample | None" = None
    seconds: dict[str, float] = field(default_factory=dict)
    omitted: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def drifted(self) -> str:
        """The columns of the data that are far from where they were in training, or ""."""
        columns = [] if self.error is None else self.error["columns_drifted"]
        if not columns:
            return ""
        assert self.model is not None
        assert self.model.moments is not None
        return named_columns(columns, self.model.moments.names)

    @property
    def is_refined(self) -> bool:
        """Whether the model minimises a loss other than the squared one, which the sums know."""
        return self.model is not None and self.model.refinement is not None

    def of_rows(self, n_rows: int) -> str:
        """Return what shares of errors are of: rows, or their weight."""
        return f"{'the weight of ' if self.is_weighted else ''}{n_rows:,} rows"

    @property
    def subject(self) -> Model | Statistics:
        """The statistics, which hold more, or else the model."""
        subject = self.statistics or self.model
        assert subject is not None
        return subject


@dataclass(frozen=True)
class Table:
    """Rows of text beneath names of columns; the first column names the row.

    Parameters
    ----------
    caption : what it holds
    columns, rows : text, not yet escaped
    shades : None, or a number from 0 to 1 for every cell but the first of a row
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    shades: np.ndarray | None = None

    def colour(self, i: int, j: int) -> str:
        """Return the colour behind a cell: blue where it should be, on the diagonal, or orange."""
        if self.shades is None or not self.shades[i, j] > 0:
            return ""
        colour = "63,127,214" if i == j else "214,128,47"
        return f"rgba({colour},{self.shades[i, j]:.2f})"


@dataclass(frozen=True)
class Picture:
    """A drawing and what it shows in words, for those who do not see it."""

    svg: str
    caption: str
    alt: str

    @property
    def encoded(self) -> str:
        """The drawing in base 64."""
        return base64.b64encode(self.svg.encode()).decode()


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    title: str
    text: Sequence[str]
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()


def shown(value: Any) -> Any:
    """Return a value of a page, `printable` if it is a text that is no markup."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return printable(value) if is_text else value


def percent(share: float) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> percent(0.02915)
    '2.92 %'
    """
    return f"{100 * share:.2f} %"


def number(value: float) -> str:
    """Return a number to five digits; a dash for none.

    Examples
    --------
    >>> number(0.0525731), number(float("nan")), number(60000.0)
    ('0.052573', '-', '60000')
    """
    return f"{value:.5g}" if np.isfinite(value) else "-"
