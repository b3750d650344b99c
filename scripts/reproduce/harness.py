"""What every reproduction shares: data, cells that resume, summaries, tables, plots.

A script lists its *cells*, dicts of settings such as ``{"dataset": "usps", "seed": 3}``, and has
one function that gives the figures of a cell. `Results.run` works them off and appends each to a
file as it ends, so that the same command goes on where it was interrupted. The script then
summarises over seeds (`summary`), lays the paper's figures beside (`beside`), prints a `table`, and
with ``--docs`` writes a CSV, a plot and its part of a page below docs/reproduction (`publish`).

    settings = harness.arguments(__doc__)
    results = harness.Results(settings.results / "usps.jsonl")
    results.run(harness.chosen(cells, settings.only), work, settings.minutes)
    rows = harness.summary(results.records, by=("dataset", "map"), figure="error_percent")
    print(harness.table(rows))
    if harness.asks_for_docs(settings, results.records):
        harness.publish("usps", harness.table(rows))
"""

import argparse
import csv
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    LogFormatterSciNotation,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

import streamrf as srf
from streamrf.training import benchmark

sys.path.append(str(Path(__file__).resolve().parents[1]))
from shared import ROOT, data_folder

BEGAN = time.monotonic()
PAPER = Path(__file__).parent / "paper"
DOCS = ROOT / "docs" / "reproduction"
PAGE = ROOT / "docs" / "reproduction.md"

NEAR = 1.10  # a figure within this factor of the paper's, either way, counts as reproduced

Row = dict[str, Any]  # settings and figures by name: strings, numbers, booleans or None


@dataclass(frozen=True)
class DataSet:
    """Rows in memory; without an official split all are in X and y.

    Parameters
    ----------
    name : that of the file
    X, y : (n_rows, n_features) of the file's dtype, (n_rows,)
    X_test, y_test : likewise, or None
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray | None = None
    y_test: np.ndarray | None = None


@cache
def load(name: str, x: str = "X") -> DataSet:
    """Read a data set, such as "mnist", from ``$STREAMRF_DATA/mnist.h5``, once; `x` is its rows."""
    path = data_folder() / f"{name}.h5"
    if not path.exists():
        raise SystemExit(f"no file {path}; data/README.md tells what STREAMRF_DATA should point at")
    with h5py.File(path) as file:
        if "train" not in file:
            return DataSet(name, file[x][()], file["y"][()])
        train, test = file["train"], file["test"]
        return DataSet(name, train[x][()], train["y"][()], test[x][()], test["y"][()])


class Results:
    """Figures of finished cells, one JSON line each, in a file that outlives interruptions.

    Parameters
    ----------
    path : made with its folder where it is missing; a last line cut short is dropped

    Attributes
    ----------
    records : list of rows: a cell's settings, its figures, "seconds", and "circumstances"
    """

    def __init__(self, path: Path):
        self.path = path
        self.records: list[dict] = []
        self._finished: set[str] = set()
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.read_bytes() if path.exists() else b""
        ended = whole[: whole.rfind(b"\n") + 1]
        if len(ended) < len(whole):
            path.write_bytes(ended)
        for line in ended.decode().splitlines():
            self._keep(json.loads(line))

    def _keep(self, line):
        if self.is_finished(line["cell"]):  # two runs at once may both have done it
            return
        self._finished.add(_key(line["cell"]))
        self.records.append(
            {**line["cell"], **line["figures"], "circumstances": line["circumstances"]}
        )

    def is_finished(self, cell: Row) -> bool:
        """Whether a cell with these very settings has its figures already."""
        return _key(cell) in self._finished

    def run(
        self, cells: Iterable[Row], work: Callable[[Row], Row], minutes: float = math.inf
    ) -> None:
        """Work off the cells that are not finished, in order.

        Parameters
        ----------
        cells : settings, JSON scalars
        work : gives the figures of a cell, JSON values; its wall time is added as "seconds"
        minutes : start no cell later than this after the beginning of the script
        """
        waiting = [cell for cell in cells if not self.is_finished(cell)]
        for number, cell in enumerate(waiting, start=1):
            if time.monotonic() - BEGAN > 60 * minutes:
                print(f"{len(waiting) - number + 1} cells wait for another run", flush=True)
                return
            start = time.perf_counter()
            figures = dict(work(cell))
            figures["seconds"] = round(time.perf_counter() - start, 3)
            line = {"cell": cell, "figures": figures, "circumstances": circumstances()}
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            self._keep(line)
            print(f"[{number}/{len(waiting)}]", json.dumps({**cell, **figures}), flush=True)


def _key(cell):
    return json.dumps(cell, sort_keys=True)


def chosen(cells: Iterable[Row], only: Iterable[str]) -> list[Row]:
    """Return the cells that agree with ``name=value[,value...]`` filters, as --only takes them.

    Where the whole text behind "=" is a value of some cell, it is that value, commas and all.

    Raises
    ------
    SystemExit
        If no cell has a setting of that name or with that value, or none agrees with all filters.
    """
    found = every = list(cells)
    texts = list(only)
    for text in texts:
        name, _, value = text.partition("=")
        known = dict.fromkeys(str(cell[name]) for cell in every if name in cell)
        if not known:
            names = ", ".join(dict.fromkeys(name for cell in every for name in cell))
            raise SystemExit(f"--only {text!r}: cells have no setting {name!r}, but {names}")
        wanted = [value] if value in known else value.split(",")
        for one in wanted:
            if one not in known:
                values = ", ".join(map(repr, known))
                raise SystemExit(f"--only {text!r}: no cell has {name} {one!r}; there are {values}")
        found = [cell for cell in found if name in cell and str(cell[name]) in wanted]
    if texts and not found:
        raise SystemExit(f"no cell agrees with all of --only {', '.join(map(repr, texts))}")
    return found


def asks_for_docs(settings: argparse.Namespace, records: Sequence[Row]) -> bool:
    """Whether --docs was given.

    Raises
    ------
    SystemExit
        If it was and no cell is finished: what docs/ holds is not to be replaced by nothing.
    """
    if settings.docs and not records:
        raise SystemExit(
            f"--docs has nothing to write: no cell is finished in {settings.results}; "
            "run the script without --minutes, or name the folder by --results"
        )
    return settings.docs


def summary(records: Iterable[Row], by: Sequence[str], figure: str) -> list[Row]:
    """Return mean and deviation of a figure over the records that agree in the settings `by`.

    Rows in order of first appearance, with `by`, "mean", "std" (of a sample; NaN for one record),
    "n" (records) and "seconds" (mean).
    """
    groups: dict[tuple, list[Row]] = {}
    for record in records:
        groups.setdefault(tuple(record[name] for name in by), []).append(record)
    rows = []
    for key, group in groups.items():
        values = [float(record[figure]) for record in group]
        row = dict(zip(by, key, strict=True))
        row["mean"] = statistics.fmean(values)
        row["std"] = statistics.stdev(values) if len(values) > 1 else math.nan
        row["n"] = len(values)
        row["seconds"] = statistics.fmean(float(record["seconds"]) for record in group)
        rows.append(row)
    return rows


def beside(
    rows: Iterable[Row], paper: Iterable[Row], keys: Sequence[str], figure: str
) -> list[Row]:
    """Lay the paper's figure beside each row that it has one for, as "paper", and "ratio".

    Parameters
    ----------
    rows : of `summary`
    paper : rows of `read_csv`
    keys : settings that both have and must agree in
    figure : the paper's column
    """
    known = {tuple(row[key] for key in keys): float(row[figure]) for row in paper}
    found = []
    for row in rows:
        value = known.get(tuple(row[key] for key in keys))
        both = {} if value is None else {"paper": value, "ratio": float(row["mean"]) / value}
        found.append({**row, **both})
    return found


def side(ratio: float) -> str:
    """Return where a figure is of the paper's, from their ratio: "near", "lower" or "higher"."""
    if ratio > NEAR:
        return "higher"
    return "lower" if ratio < 1 / NEAR else "near"


def count_sides(rows: Iterable[Row]) -> Row:
    """Return how many rows with a "ratio" are "near" the paper's figure, "lower" and "higher"."""
    sides = [side(row["ratio"]) for row in rows]
    return {
        "cells": len(sides),
        **{name: sides.count(name) for name in ("near", "lower", "higher")},
    }


def read_csv(path: Path) -> list[Row]:
    """Read a CSV: numbers as int or float, empty fields as None."""
    with path.open(newline="") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text or None


def write_csv(path: Path, rows: Sequence[Row], digits: int = 5) -> None:
    """Write rows, floats to `digits` significant digits; a column for every name in any row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _text(value, f".{digits}g") for name, value in row.items()})


def table(rows: Sequence[Row], formats: dict[str, str] | None = None) -> str:
    """Lay rows out as a Markdown table, which reads well in a terminal too.

    Parameters
    ----------
    rows : all with the columns that are shown; what a row lacks stays empty
    formats : the columns to show, in order, and the format of their floats (".2f"); None: all
    """
    if formats is None:
        formats = {name: ".4g" for row in rows for name in row}
    cells = [list(formats)]
    cells += [[_text(row.get(name), form) for name, form in formats.items()] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(formats))]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def pivot(rows: Iterable[Row], down: str, across: str, show: Callable[[Row], str]) -> list[Row]:
    """One row for each value of `down`, with a column for each of `across`: ``show(row)``."""
    found: dict[object, Row] = {}
    for row in rows:
        found.setdefault(row[down], {down: row[down]})[str(row[across])] = show(row)
    return list(found.values())


def _text(value, form):
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return format(value, form) if isinstance(value, float) else str(value)


@contextmanager
def plot(path: Path, columns: int = 1, size: tuple[float, float] = (4.5, 3.4)) -> Iterator:
    """Return axes side by side, (columns,), each of `size` inches; saves a small PNG on leaving.

    Log axes over less than four decades get plain numbers, where the caller has set no ticks.
    """
    width, height = size
    figure = Figure(figsize=(width * columns, height), dpi=80, layout="constrained")
    panels = figure.subplots(1, columns, squeeze=False)[0]
    yield panels
    for axis in (axis for panel in panels for axis in (panel.xaxis, panel.yaxis)):
        if isinstance(axis.get_major_formatter(), LogFormatterSciNotation):
            _label_plainly(axis)
    path.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure).print_png(path, metadata={"Software": None})


def _label_plainly(axis):
    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    if decades > 4:
        return
    if decades > 1:
        axis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2 else (1.0, 2.0, 5.0)))
    else:  # ticks at 1, 2 and 5 would be two at most
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def mark_widths(axes, widths: Sequence[int]) -> None:
    """Put a tick at each number of components on the log axis below a panel."""
    axes.set_xscale("log")
    axes.set_xticks(widths, map(str, widths), fontsize=7)
    axes.xaxis.set_minor_locator(NullLocator())
    if len(widths) == 1:
        axes.set_xlim(widths[0] / 2, widths[0] * 2)


@cache
def circumstances() -> dict:
    """Return commit, versions and machine."""
    found = benchmark.circumstances()
    versions = found["versions"]
    return {
        "commit": found["commit"],
        "python": versions["python"],
        "versions": {
            "streamrf": srf.__version__,
            "sklearn": versions["scikit-learn"],
            **{name: versions[name] for name in ("numpy", "scipy", "numba")},
        },
        "cpu": found["processor"],
        "cores": len(os.sched_getaffinity(0)),
    }


def provenance(records: Iterable[dict]) -> str:
    """Say in one line where and when in the history the records were made."""
    made = [record["circumstances"] for record in records]
    commits = ", ".join(dict.fromkeys(one["commit"] for one in made))
    machines = dict.fromkeys(f"{one['cores']} cores of {one['cpu']}" for one in made)
    libraries = dict.fromkeys(
        f"Python {one['python']}, NumPy {one['versions']['numpy']}, "
        f"scikit-learn {one['versions']['sklearn']}"
        for one in made
    )
    return f"Made at {commits} on {'; '.join(machines)} ({'; '.join(libraries)})."


def with_earlier(
    path: Path, rows: Sequence[Row], keys: Sequence[str], n: str | None = None
) -> list[Row]:
    """Return rows with those of a CSV that they do not replace.

    Parameters
    ----------
    path : may be missing
    rows : of this run
    keys : settings by which rows are the same
    n : a count; a row of the CSV with a larger one stays
    """
    earlier = read_csv(path) if path.exists() else []
    found = {tuple(row[key] for key in keys): row for row in earlier}
    for row in rows:
        key = tuple(row[name] for name in keys)
        if n is None or key not in found or row[n] >= found[key][n]:
            found[key] = row
    return list(found.values())


def with_earlier_provenance(name: str, records: Iterable[dict]) -> str:
    """Return the line of `provenance` below those that the page's part has already."""
    _, _, text, _ = _parted(name)
    made = [line for line in text.splitlines() if line.startswith("Made at ")]
    return "\n\n".join(dict.fromkeys([*made, provenance(records)]))


def publish(name: str, text: str) -> None:
    """Put text between the comments "begin name" and "end name" of the page that has them.

    Pages are docs/reproduction.md and those of docs/reproduction.

    Raises
    ------
    SystemExit
        If no page holds the two, in this order.
    """
    path, before, _, after = _parted(name)
    path.write_text(f"{before}\n{text.strip()}\n\n{after}")


def _parted(name):
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    for path in [PAGE, *sorted(DOCS.glob("*.md"))]:
        before, found, rest = path.read_text().partition(begin)
        text, closed, after = rest.partition(end)
        if found and closed:
            return path, before + begin, text, end + after
    raise SystemExit(
        f"neither {PAGE} nor a page of {DOCS} has lines {begin.strip()!r} and {end!r} to write "
        "between"
    )


def reproduce(
    doc: str,
    name: str,
    cells: Iterable[Row],
    work: Callable[[Row], Row],
    compared: Callable[[list[Row]], list[Row]],
    write: Callable[[list[Row], list[Row]], None],
) -> None:
    """Run cells, print the table of what they show, and with --docs write it.

    Parameters
    ----------
    doc : the script's docstring
    name : of the file of finished cells
    cells, work : see `Results.run`
    compared : gives the rows of the table from the records
    write : ``write(rows, records)``
    """
    settings = arguments(doc)
    results = Results(settings.results / f"{name}.jsonl")
    results.run(chosen(cells, settings.only), work, settings.minutes)
    rows = compared(results.records)
    print(table(rows))
    if asks_for_docs(settings, results.records):
        write(rows, results.records)


def parser(doc: str) -> argparse.ArgumentParser:
    """Return a parser with the arguments of every script; `doc` is its docstring."""
    words = argparse.ArgumentParser(description=doc.split("\n\n")[0])
    words.add_argument(
        "--results",
        type=Path,
        default=ROOT / "build" / "reproduce",
        metavar="FOLDER",
        help="where finished cells are kept; a run goes on from there (default: build/reproduce)",
    )
    words.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME=VALUE[,VALUE...]",
        help="run some of the cells, such as dataset=usps or 'part=mnist, E < d'",
    )
    words.add_argument("--minutes", type=float, default=math.inf, help="start no cell later")
    words.add_argument("--docs", action="store_true", help="write CSV, plot and page under docs/")
    return words


def arguments(doc: str) -> argparse.Namespace:
    """Parse the arguments that every script takes."""
    return parser(doc).parse_args()
