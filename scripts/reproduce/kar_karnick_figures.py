#!/usr/bin/env python
"""Figures 1 and 2 of Random Feature Maps for Dot Product Kernels.

Figure 1: the mean absolute error of the Gram matrix of 100 random rows of the unit ball against the
number D of random features, for three kernels and several widths d of the rows, five runs each.
Figure 2: accuracy, seconds to train and seconds to test against D on four tasks, with LIBLINEAR as
in the paper and with one-pass ridge, three splits each. The penalties of LIBLINEAR are those that
kar_karnick_table1.py has chosen, which has to run first.

    python scripts/reproduce/kar_karnick_figures.py --only figure=1
    python scripts/reproduce/kar_karnick_figures.py --docs
"""

from functools import partial

import harness
import numpy as np
from kar_karnick import DEGREE, feature_map, features_trial, on_one_thread
from kar_karnick_table1 import column_of

import streamrf as srf

N_ROWS = 100
RUNS = 5
ROW_WIDTHS = (10, 20, 50, 100, 200)
WIDTHS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
KERNELS = {
    "homogeneous": srf.Polynomial(degree=DEGREE, coef0=0.0),
    "polynomial": srf.Polynomial(degree=DEGREE, coef0=1.0),
    "exponential": srf.Exponential(1.0),  # "can take values up to 2.73" on the unit ball
}
TASKS = (
    ("spambase", "polynomial"),
    ("nursery", "polynomial"),
    ("ijcnn1", "exponential"),
    ("cod_rna", "exponential"),
)
TASK_WIDTHS = (10, 25, 50, 100, 200, 500, 1000)
SPLITS = 3
NAMES = {"rf": "RF", "h01": "H0/1"}
LEARNERS = {"svm": "LIBLINEAR", "ridge": "ridge"}
FIGURES = {
    "accuracy": "accuracy in per cent",
    "train_s": "seconds to train",
    "test_s": "seconds to test",
}


def cells():
    """Return the settings of every cell of both figures."""
    first = [
        {"figure": 1, "kernel": kernel, "features": features, "d": d, "D": D}
        for kernel in KERNELS
        for features in NAMES
        if (kernel, features) != ("homogeneous", "h01")  # it has no terms of degree 0 and 1
        for d in ROW_WIDTHS
        for D in WIDTHS
    ]
    second = [
        {
            "figure": 2,
            "dataset": dataset,
            "kernel": kernel,
            "features": features,
            "D": D,
            "split": split,
        }
        for split in range(SPLITS)
        for dataset, kernel in TASKS
        for features in NAMES
        for D in TASK_WIDTHS
    ]
    return first + second


def in_the_ball(n_rows, d, rng):
    """Draw rows uniformly from the unit ball."""
    rows = rng.standard_normal((n_rows, d))
    radii = rng.random((n_rows, 1)) ** (1 / d)
    return radii * rows / np.linalg.norm(rows, axis=1, keepdims=True)


def gram_error(kernel, features, d, D):
    """Return the mean absolute error of a Gram matrix, its mean and deviation over runs."""
    errors = []
    for run in range(RUNS):
        X = in_the_ball(N_ROWS, d, np.random.default_rng(run))
        Z = feature_map(KERNELS[kernel], features, D, d, run).fit_transform(X).astype(np.float64)
        errors.append(float(np.abs(Z @ Z.T - KERNELS[kernel](X)).mean()))
    return {"error": float(np.mean(errors)), "error_std": float(np.std(errors, ddof=1))}


def work(cell, penalties):
    """Return the figures of a cell."""
    if cell["figure"] == 1:
        return gram_error(*(cell[name] for name in ("kernel", "features", "d", "D")))
    chosen = [row["C"] for row in penalties if column_of(row) == column_of(cell)]
    if not chosen:
        raise SystemExit("run kar_karnick_table1.py first: it chooses the penalties of LIBLINEAR")
    at = (cell[name] for name in ("dataset", "kernel", "features", "D", "split"))
    return features_trial(*at, chosen[0])


def slopes(records):
    """Return by kernel and map the power of D that the error of Figure 1 follows, for each d."""
    curves = {}
    for record in records:
        curve = curves.setdefault((record["kernel"], record["features"]), {})
        curve.setdefault(record["d"], []).append((record["D"], record["error"]))
    rows = []
    for (kernel, features), by_d in curves.items():
        row = {"kernel": kernel, "features": NAMES[features]}
        for d, curve in by_d.items():
            row[f"d = {d}"] = float(np.polyfit(*np.log(np.transpose(curve)), 1)[0])
        rows.append(row)
    return rows


def over_splits(records):
    """Return a row for each task, map, learner and D of Figure 2: means over splits."""
    by = ("dataset", "kernel", "features", "D")
    rows = []
    for learner in LEARNERS:
        summaries = {
            figure: harness.summary(records, by, f"{learner}_{figure}") for figure in FIGURES
        }
        for same in zip(*summaries.values(), strict=True):
            row = {name: same[0][name] for name in by} | {
                "learner": learner,
                "splits": same[0]["n"],
            }
            row |= {figure: one["mean"] for figure, one in zip(summaries, same, strict=True)}
            rows.append(row | {"accuracy_std": same[0]["std"]})
    return rows


def draw_errors(records):
    """Draw Figure 1: a panel for each kernel."""
    with harness.plot(harness.DOCS / "kar-karnick-figure1.png", len(KERNELS)) as panels:
        for axes, kernel in zip(panels, KERNELS, strict=True):
            for number, d in enumerate(ROW_WIDTHS):
                for features, width in (("rf", 1.0), ("h01", 2.2)):
                    curve = [
                        record
                        for record in records
                        if (record["kernel"], record["features"], record["d"])
                        == (kernel, features, d)
                    ]
                    axes.plot(
                        [record["D"] for record in curve],
                        [record["error"] for record in curve],
                        color=f"C{number}",
                        linewidth=width,
                        linestyle="-" if features == "h01" else "--",
                        label=f"d = {d}" if features == "rf" else None,
                    )
            axes.set(xscale="log", yscale="log", xlabel="random features D", title=kernel)
        panels[0].set_ylabel("mean absolute error")
        panels[0].legend(fontsize="small")


def draw_tasks(rows, figure):
    """Draw a row of Figure 2: a panel for each task."""
    name = f"kar-karnick-figure2-{figure.removesuffix('_s')}.png"
    with harness.plot(harness.DOCS / name, len(TASKS), size=(3.2, 2.8)) as panels:
        for axes, (dataset, kernel) in zip(panels, TASKS, strict=True):
            for color, features in enumerate(NAMES):
                for learner, style in (("svm", "-o"), ("ridge", "--s")):
                    curve = [
                        row
                        for row in rows
                        if (row["dataset"], row["features"], row["learner"])
                        == (dataset, features, learner)
                    ]
                    axes.plot(
                        [row["D"] for row in curve],
                        [row[figure] for row in curve],
                        style,
                        color=f"C{color}",
                        markersize=3,
                        label=f"{NAMES[features]} + {LEARNERS[learner]}",
                    )
            scale = "linear" if figure == "accuracy" else "log"
            axes.set(xscale="log", yscale=scale, xlabel="D", title=f"{dataset}, {kernel}")
        panels[0].set_ylabel(FIGURES[figure])
        panels[0].legend(fontsize="small")


def below(records):
    """Say at how many points of Figure 1 H0/1 errs less than RF, by kernel."""
    errors = {
        tuple(record[name] for name in ("kernel", "features", "d", "D")): record["error"]
        for record in records
    }
    counts = {}
    for (kernel, features, d, D), error in errors.items():
        if features == "h01":
            less, points = counts.get(kernel, (0, 0))
            counts[kernel] = less + (error < errors[kernel, "rf", d, D]), points + 1
    words = (f"{less} of {points} points ({kernel})" for kernel, (less, points) in counts.items())
    return f"Here H0/1 errs less than RF at {' and '.join(words)}."


def first_figure(records):
    """Write Figure 1 and give its part of the page."""
    rows = [
        {name: value for name, value in record.items() if name != "circumstances"}
        for record in records
    ]
    harness.write_csv(harness.DOCS / "kar-karnick-figure1.csv", rows)
    draw_errors(records)
    parts = [
        f"{harness.provenance(records)} All figures: "
        "[kar-karnick-figure1.csv](kar-karnick-figure1.csv).",
        f"Mean absolute error over the Gram matrix of {N_ROWS} rows drawn uniformly from the unit "
        f"ball, mean of {RUNS} runs, kernels of degree {DEGREE} and exp(<x,y>). Thick lines are "
        "H0/1, thin dashed ones RF. The paper's text has no figures; it says that the error falls "
        f"quickly with D, and more sharply with H0/1. {below(records)}",
        "![Errors of Gram matrices](kar-karnick-figure1.png)",
        "The power of D that the error follows, fitted over all D. The root mean square falls as "
        "D^-0.5, to which the tests hold every map, and the mean absolute error of the "
        "exponential kernel nearly so. A product of ten factors has heavy tails: a few rare "
        "features carry most of the kernel's value, and as long as a draw is likely to lack them "
        "the mean absolute error falls more slowly, most of all with the homogeneous kernel, all "
        "of degree ten.",
        harness.table(slopes(records), dict.fromkeys(slopes(records)[0], ".2f")),
    ]
    return "\n\n".join(parts)


def second_figure(records):
    """Write Figure 2 and give its part of the page."""
    rows = over_splits(records)
    harness.write_csv(harness.DOCS / "kar-karnick-figure2.csv", rows)
    parts = [
        f"{harness.provenance(records)} All figures: "
        "[kar-karnick-figure2.csv](kar-karnick-figure2.csv).",
        f"Means of {rows[0]['splits']} splits; D counts random features only, as in the paper. The "
        "penalties of LIBLINEAR are those of Table 1 at every D.",
    ]
    for figure, title in FIGURES.items():
        draw_tasks(rows, figure)
        name = f"kar-karnick-figure2-{figure.removesuffix('_s')}.png"
        parts.append(f"![{title.capitalize()} against D]({name})")
    return "\n\n".join([*parts, told(rows)])


def told(rows):
    """Say what Figure 2 shows: H0/1 beside RF where features are few, ridge beside LIBLINEAR."""
    at = {(row["dataset"], row["features"], row["learner"], row["D"]): row for row in rows}
    fewest = [key for key in at if key[1:] == ("h01", "svm", TASK_WIDTHS[0])]
    gains = [at[key]["accuracy"] - at[(key[0], "rf", *key[2:])]["accuracy"] for key in fewest]
    ratios = [
        row["train_s"] / at[(*key[:2], "ridge", key[3])]["train_s"]
        for key, row in at.items()
        if key[2] == "svm"
    ]
    return (
        f"With {TASK_WIDTHS[0]} random features H0/1 is {min(gains):.1f} to {max(gains):.1f} "
        "points more accurate than RF (LIBLINEAR). On the same features ridge trains "
        f"{min(ratios):.1f} to {max(ratios):.1f} times as fast as LIBLINEAR, faster at "
        f"{sum(ratio > 1 for ratio in ratios)} of {len(ratios)} points."
    )


def main():
    """Run cells, print what they show, and with --docs write it."""
    settings = harness.arguments(__doc__)
    on_one_thread()
    penalties = harness.Results(settings.results / "kar_karnick_penalties.jsonl").records
    results = harness.Results(settings.results / "kar_karnick_figures.jsonl")
    wanted = harness.chosen(cells(), settings.only)
    results.run(wanted, partial(work, penalties=penalties), settings.minutes)
    first, second = (
        [record for record in results.records if record["figure"] == number] for number in (1, 2)
    )
    if first:
        print(harness.table(slopes(first)))
    if second:
        print(harness.table(over_splits(second)))
    if harness.asks_for_docs(settings, results.records):
        for number, records, write in ((1, first, first_figure), (2, second, second_figure)):
            if records:
                harness.publish(f"kar-karnick figure {number}", write(records))


if __name__ == "__main__":
    main()
