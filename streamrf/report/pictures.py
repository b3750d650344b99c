"""Drawings, as SVG in the colours of the page they are shown on."""

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamrf.display import printable
from streamrf.errors import MissingPackageError

INK = "#0a0b0c"  # stands for the page's own colour of text
SERIES = ("#3f7fd6", "#d6802f", "#2f9e70", "#a561c4")  # seen on white and on black
MARKERS = ("o", "s", "^", "D")
SIZE = (5.6, 3.5)  # inches: text stays readable where the page is 480 pixels wide
MARGINS = {"left": 0.17, "right": 0.97, "bottom": 0.16, "top": 0.96}
MAX_NAME = 10  # signs of a class on an axis
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
STYLE = {
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.size": 11,
    "grid.alpha": 0.18,
    "grid.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "streamrf",  # the same drawing gives the same bytes
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
THEME = "<style>svg{color:#20242a}@media(prefers-color-scheme:dark){svg{color:#e6e8eb}}</style>"


@dataclass(frozen=True)
class Curve:
    """Points to draw; `spread` are half-lengths of error bars."""

    name: str
    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    spread: np.ndarray | None = None


def check_drawing() -> None:
    """Raise MissingPackageError if nothing can be drawn."""
    _matplotlib()


def _matplotlib() -> Any:
    """Import what draws when it is asked for: it takes a second, and is optional."""
    try:
        import matplotlib.figure
    except ImportError as error:
        raise MissingPackageError(
            "a report draws with matplotlib, which is not installed; install it with "
            "pip install 'streamrf[plots]'"
        ) from error
    return matplotlib


@contextmanager
def _axes(size: tuple[float, float], svg: list[str]) -> Iterator[Any]:
    """Return empty axes, and append the drawing to `svg` in the end."""
    matplotlib = _matplotlib()
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font without a sign is the browser's to mend
        figure = matplotlib.figure.Figure(figsize=size)
        figure.subplots_adjust(**MARGINS)  # a layout engine draws everything twice
        axes = figure.subplots()
        yield axes
        out = io.StringIO()
        none = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(out, format="svg", metadata=none)
    text = out.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    start = text.index(">") + 1
    svg.append(text[:start] + THEME + text[start:])


def curves(
    drawn: Sequence[Curve],
    x: str,
    y: str,
    *,
    mark: float | None = None,
    logarithmic: str = "x",
    points: bool = True,
    ticks: Sequence[int] = (),
) -> str:
    """Draw curves.

    Parameters
    ----------
    drawn : the curves, distinguished by colour and marker
    x, y : names of the axes, with units
    mark : value on the x axis to mark, such as the penalty chosen
    logarithmic : "x", "xy" or "": which axes
    points : whether each point has its marker
    ticks : values to name on the x axis; powers of ten if there are none
    """
    svg: list[str] = []
    with _axes(SIZE, svg) as axes:
        for curve, colour, marker in zip(drawn, SERIES, MARKERS, strict=False):
            shape = marker if points else ""
            axes.errorbar(
                curve.x, curve.y, yerr=curve.spread, label=curve.name, color=colour, marker=shape,
                capsize=3,
            )  # fmt: skip
        for letter in logarithmic:
            axes.set(**{f"{letter}scale": "log"})
            _label_powers(getattr(axes, f"{letter}axis"))
        if len(ticks):
            axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
            axes.set_xticks([], minor=True)
        if mark is not None and mark > 0:
            axes.axvline(mark, color=INK, linestyle="--", linewidth=1, alpha=0.6)
        axes.set(xlabel=x, ylabel=y)
        axes.grid(True)
        if len(drawn) > 1:
            axes.legend()
    return svg[0]


def power_of_ten(value: float, place: object = None) -> str:
    """Return the text of a tick, as matplotlib asks for it; its own formulas take far longer.

    Examples
    --------
    >>> power_of_ten(1e-3), power_of_ten(1000.0), power_of_ten(20.0)
    ('10⁻³', '10³', '20')
    """
    exponent = np.log10(value)
    if not np.isclose(exponent, round(exponent)):
        return f"{value:.3g}"
    return f"10{str(round(exponent)).translate(SUPERSCRIPTS)}"


def _label_powers(axis: Any) -> None:
    """Label the decades of a logarithmic axis, and more where there are fewer than two."""
    axis.set_major_formatter(power_of_ten)
    low, high = axis.get_view_interval()
    few = np.floor(np.log10(high)) - np.ceil(np.log10(low)) < 1
    axis.set_minor_formatter(power_of_ten if few else "")


def scatter(x: np.ndarray, y: np.ndarray, names: tuple[str, str], line: str) -> str:
    """Draw points, and the line ``y = x`` ("diagonal") or ``y = 0`` ("zero")."""
    svg: list[str] = []
    with _axes(SIZE, svg) as axes:
        axes.plot(x, y, ".", color=SERIES[0], markersize=4, alpha=0.5)
        if line == "diagonal":
            axes.axline((float(x.mean()),) * 2, slope=1, color=INK, linewidth=1, alpha=0.6)
        else:
            axes.axhline(0, color=INK, linewidth=1, alpha=0.6)
        axes.set(xlabel=names[0], ylabel=names[1])
        axes.grid(True)
    return svg[0]


def shades(matrix: np.ndarray, x: str, y: str, names: Sequence[str] = ()) -> str:
    """Draw a matrix of shares from 0 to 1, deeper for more: blue on the diagonal, else orange.

    The depth is the root of the share, so that one in a hundred is seen.
    """
    colours = np.empty((*matrix.shape, 4))
    colours[..., :3] = _rgb(SERIES[1])
    colours[np.arange(len(matrix)), np.arange(len(matrix)), :3] = _rgb(SERIES[0])
    colours[..., 3] = np.sqrt(matrix)
    svg: list[str] = []
    with _axes((5.6, 5.0), svg) as axes:
        axes.imshow(colours, interpolation="nearest")
        axes.set(xlabel=x, ylabel=y)
        if names:
            shown = [_short(printable(name)) for name in names]
            axes.set_xticks(range(len(names)), shown, rotation=90, fontsize=7, parse_math=False)
            axes.set_yticks(range(len(names)), shown, fontsize=7, parse_math=False)
            axes.figure.subplots_adjust(left=0.22, bottom=0.24)
    return svg[0]


def _rgb(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"
