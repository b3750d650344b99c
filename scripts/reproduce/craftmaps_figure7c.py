#!/usr/bin/env python
"""Figure 7 (c) of Compact Random Feature Maps: seconds of features and Gram matrix by width.

All 60,000 MNIST rows at unit length, degree 7, coef0 1, the maps of Table 1 (compact ones from 8
times as many components). The paper's plot has random Maclaurin features, TensorSketch and compact
Maclaurin features on 40 cores; its caption gives the seconds of the last for five times without
their widths, 2^12 to 2^16 is our reading. 65,536 is 65,535 here, features of 8 bits summed in 32.

Run it with nothing beside: it measures seconds.

    python scripts/reproduce/craftmaps_figure7c.py --docs
"""

import statistics
import time
from functools import cache

import harness
from craftmaps_maps import feature_map
from craftmaps_table1 import MOST

import streamrf as srf
from streamrf.display import watching

KERNEL = srf.Polynomial(degree=7, coef0=1.0)
COMPACT = "CM RFM"
MAPS = ("RFM", "TS", COMPACT)
WIDTHS = tuple(2**k for k in range(12, 17))
FIRST_ROWS = 1024  # of the pass before, which compiles
STAGES = {"features_s": "featurise", "gram_s": "gram", "pass_s": "pass"}
PAPERS = {"features_s": "projection_s", "gram_s": "hessian_s"}
KEYS = ("map", "precision", "n_components")
NAME = "craftmaps figure 7c"


def n_runs(width):
    """Return the number of runs that a width is worth."""
    return 3 if width <= 2**14 else 1


def cells():
    """Return the settings of every cell, narrow ones first."""
    return [
        {"map": name, "precision": precision, "n_components": width, "run": run}
        for width in WIDTHS
        for run in range(n_runs(width))
        for name, precision in (*((name, "exact") for name in MAPS), (COMPACT, "coarse"))
        if precision == "coarse" or width <= MOST
    ]


def work(cell):
    """Return the seconds of the stages of one pass, what it compiles left out."""
    data = harness.load("mnist")
    width = cell["n_components"]
    features = feature_map(cell["map"], KERNEL, None, min(width, MOST), data.X.shape[1])
    how = {"normalize": "l2", "precision": cell["precision"], "random_state": cell["run"]}
    if width > MOST:
        how["totals"] = "int32"  # 8.6 GB instead of 17
    rows = srf.ArraySource(data.X, data.y)
    srf.accumulate(rows, features, rows=(0, FIRST_ROWS), **how)
    with watching() as seconds:
        began = time.perf_counter()
        srf.accumulate(rows, features, **how)
        seconds["pass"] = time.perf_counter() - began
    return {name: round(seconds[stage], 6) for name, stage in STAGES.items()}


def compared(records):
    """Return medians of the runs, the paper's seconds and the test error of Table 1 beside."""
    paper = {
        row["n_components"]: row for row in harness.read_csv(harness.PAPER / "hamid-2014-times.csv")
    }
    rows = harness.summary(sorted(records, key=lambda one: one["n_components"]), KEYS, "pass_s")
    for row in rows:
        here = [record for record in records if all(record[key] == row[key] for key in KEYS)]
        for name in ("mean", "std", "seconds"):
            del row[name]
        for name in STAGES:
            seconds = [record[name] for record in here]
            row[name] = statistics.median(seconds)
            if len(seconds) > 1:
                row[f"{name}_max_to_min"] = max(seconds) / min(seconds)
        if row["map"] == COMPACT:
            theirs = paper[row["n_components"]]
            row |= {f"paper_{name}": theirs[column] for name, column in PAPERS.items()}
        if row["precision"] == "exact" or row["n_components"] > MOST:
            row["error_percent"] = test_errors()[row["map"], row["n_components"]]
    return rows


@cache
def test_errors():
    """Return the mean test error of Table 1 by map and width, per cent."""
    return {
        (row["method"], row["n_components"]): row["mean"]
        for row in harness.read_csv(harness.DOCS / "craftmaps_table1.csv")
        if row["part"] == "mnist" and row["decode"] == "euclidean"
    }


def write(rows, records):
    """Write CSV, plot and page."""
    harness.write_csv(harness.DOCS / "craftmaps_figure7c.csv", rows)
    with harness.plot(harness.DOCS / "craftmaps_figure7c.png", columns=2) as (times, errors):
        for number, name in enumerate(MAPS):
            for precision, style in (("exact", "-"), ("coarse", "--")):
                here = [row for row in rows if (row["map"], row["precision"]) == (name, precision)]
                label = name if precision == "exact" else f"{name}, coarse"
                widths, seconds = ([*_column(here, key)] for key in ("n_components", "total"))
                if here:
                    times.plot(widths, seconds, style, marker=".", color=f"C{number}", label=label)
                here = [row for row in here if "error_percent" in row]
                seconds, percents = ([*_column(here, key)] for key in ("total", "error_percent"))
                if here:  # of 8 bits one, apart from the line
                    mark = "." if precision == "exact" else "x"
                    errors.plot(
                        seconds, percents, style, marker=mark, color=f"C{number}", label=label
                    )
        theirs = {row["n_components"]: row for row in rows if row["map"] == COMPACT}
        seconds = [row["paper_features_s"] + row["paper_gram_s"] for row in theirs.values()]
        times.plot([*theirs], seconds, "k:", marker=".", label="paper, CM RFM, 40 cores")
        times.set(yscale="log", xlabel="components", ylabel="seconds, features and Gram")
        harness.mark_widths(times, WIDTHS)
        errors.set(xscale="log", yscale="log", ylabel="test error, per cent")
        errors.set_xlabel("seconds, features and Gram")
        for axis in (times, errors):
            axis.legend(fontsize=7)
    formats = dict.fromkeys(KEYS, "") | {"n": ""}
    formats |= dict.fromkeys(STAGES, ".1f")
    formats |= {f"paper_{name}": ".1f" for name in PAPERS} | {"error_percent": ".2f"}
    text = f"![Seconds by width](craftmaps_figure7c.png)\n\n{harness.table(rows, formats)}"
    harness.publish(NAME, f"{text}\n\n{harness.provenance(records)}")


def _column(rows, key):
    """Yield a column; "total" is of features and Gram matrix."""
    for row in rows:
        yield row["features_s"] + row["gram_s"] if key == "total" else row[key]


def main():
    """Run cells, print the table, and with --docs write it."""
    harness.reproduce(__doc__, "craftmaps_figure7c", cells(), work, compared, write)


if __name__ == "__main__":
    main()
