#!/usr/bin/env python
"""Draw the picture of README.md and docs/index.md: .venv/bin/python scripts/pictures.py."""

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
ROWS, SUMS, MODEL = "#dce9f5", "#fde3c8", "#dff0dc"  # colours of the three kinds of box


def box(axis: Axes, x: float, y: float, text: str, colour: str, width: float = 2.3) -> None:
    style = {"boxstyle": "round,pad=0.05,rounding_size=0.12", "fc": colour, "ec": "#555555"}
    axis.add_patch(mpl.patches.FancyBboxPatch((x, y - 0.4), width, 0.8, **style))
    axis.text(x + width / 2, y, text, ha="center", va="center", fontsize=9)


def arrow(axis: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axis.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "#555555"})


def one_pass() -> plt.Figure:
    """Rows of three days, each read once; sums that add and subtract; models from the sums."""
    figure, axis = plt.subplots(figsize=(9, 3.6), layout="constrained")
    axis.set(xlim=(-0.1, 12.1), ylim=(-0.2, 4.5))
    axis.set_axis_off()
    for y, day in zip((3.2, 2.0, 0.8), ("Monday", "Tuesday", "Wednesday"), strict=True):
        box(axis, 0.1, y, f"{day}'s rows\nany number of them", ROWS)
        arrow(axis, (2.55, y), (3.45, y))
        box(axis, 3.55, y, f"{day}'s sums\na few MB, exact", SUMS)
    titles = [(1.25, "rows, read once"), (4.7, "statistics files"), (7.75, "added, subtracted")]
    for x, title in [*titles, (10.85, "models, no rows read")]:
        axis.text(x, 4.15, title, ha="center", fontsize=9, fontweight="bold")
    box(axis, 6.6, 2.9, "Mon + Tue + Wed", SUMS)
    box(axis, 6.6, 1.1, "all $-$ Mon = Tue + Wed\nto the last bit", SUMS)
    for y in (3.2, 2.0, 0.8):
        arrow(axis, (5.95, y), (6.5, 2.9))
    arrow(axis, (7.75, 2.42), (7.75, 1.6))
    for y, text in [
        (3.4, "any penalty"),
        (2.4, "fewer features"),
        (1.4, "classes joined"),
        (0.4, "deviations"),
    ]:
        box(axis, 9.7, y, text, MODEL)
        arrow(axis, (9.0, 2.9 if y > 2 else 1.1), (9.6, y))
    return figure


if __name__ == "__main__":
    mpl.rcParams["svg.hashsalt"] = "streamrf"  # the same bytes from every run
    mpl.rcParams["svg.fonttype"] = "path"
    IMAGES.mkdir(exist_ok=True)
    one_pass().savefig(IMAGES / "pass.svg", metadata={"Date": None}, facecolor="white")
