#!/usr/bin/env python
"""The best of our maps at each width, beside the best of the paper's Table 1 at that width.

Any kernel and degree, rows of unit length; each map both as it is and pruned, that is drawn wider
and cut to the features that lower the training loss most (`Statistics.prune`), so that a model has
as many components as the paper's. A fifth of the training rows, at most 10,000, is held out: the
penalty is chosen by generalised cross-validation on the others, the map by its mean error on the
rows held out, over seeds; then these are joined, and the test rows are looked at.

    python scripts/reproduce/craftmaps_best.py --only part=usps --docs
"""

import harness
import numpy as np
from craftmaps_table1 import PARTS, paper

import streamrf as srf

SEEDS = range(3)
MOST_HELD = 10_000
PRUNING_ALPHA = 1e-6  # relative; of the loss by which features are chosen
WIDEST = {"pendigits": 2048, "usps": 8192, "mnist": 8192}  # to prune from
MAPS = {  # name: its kernel's setting
    "pendigits": (("StructuredFourier", 1.0), ("StructuredFourier", 2.0), ("TreeSketch", 4)),
    "usps": (("StructuredFourier", 1.0), ("StructuredFourier", 2.0), ("TreeSketch", 3)),
    "mnist": (("TreeSketch", 3), ("StructuredFourier", 0.8)),
}
WIDTHS = {
    "pendigits": (64, 128, 256, 512, 1024),
    "usps": (1024, 2048, 4096, 8192, 16384),
    "mnist": (4096,),
}


def cells():
    """Give the settings of every cell, narrow first; "up_components" is the width pruned from."""
    return [
        {
            "part": part,
            "n_components": width,
            "map": name,
            "setting": setting,
            "up_components": up,
            "seed": seed,
        }
        for part, widths in WIDTHS.items()
        for width in widths
        for seed in SEEDS
        for name, setting in MAPS[part]
        for up in (None, min(8 * width, WIDEST[part]))
        if up is None or up > width
    ]


def feature_map(name: str, setting: float, n_components: int) -> srf.features.FeatureMap:
    """Give a map; the setting is gamma or a degree."""
    if name == "StructuredFourier":
        return srf.StructuredFourier(srf.Gaussian(gamma=setting), n_components)
    return srf.TreeSketch(srf.Polynomial(degree=int(setting), coef0=1.0), n_components)


def split(data):
    """Give the rows to learn from and those held out, the same for every map and seed."""
    order = np.random.default_rng(0).permutation(len(data.X))
    n_held = min(MOST_HELD, len(order) // 5)
    parts = np.sort(order[n_held:]), np.sort(order[:n_held])
    return [srf.ArraySource(data.X[rows], data.y[rows]) for rows in parts]


def work(cell):
    """Give the errors of a map: on the rows held out, then on the test rows."""
    data = harness.load(PARTS[cell["part"]][0])
    rest, held = split(data)
    width, wide = cell["n_components"], cell["up_components"] or cell["n_components"]
    features = feature_map(cell["map"], cell["setting"], wide)
    first = srf.accumulate(rest, features, normalize="l2", random_state=cell["seed"])
    kept = first
    if wide > width:
        kept = first.prune(width, PRUNING_ALPHA * first.alpha_scale())
    alpha = kept.path(kept.alpha_grid()).best_alpha()
    held_out = kept.solve(alpha).evaluate(held)["error"]
    whole = first + srf.accumulate(held, like=first)
    if wide > width:
        whole = whole.select(kept.picks)
    test = srf.ArraySource(data.X_test, data.y_test)
    return {
        "error_percent": 100 * whole.solve(alpha).evaluate(test)["error"],
        "held_out_percent": 100 * held_out,
        "alpha": alpha,
    }


def chosen(records):
    """Give, for each width, the map of least error on the rows held out, beside the paper's best.

    Once among all maps, and once among those that are not pruned.
    """
    by = ("part", "n_components", "map", "setting", "up_components")
    tests = harness.summary(records, by, "error_percent")
    held = harness.summary(records, by, "held_out_percent")
    rows = [
        {**test, "held_out": other["mean"], "pruned": "yes" if test["up_components"] else "no"}
        for test, other in zip(tests, held, strict=True)
    ]
    best: dict[tuple, float] = {}
    for row in paper():
        column = row["part"], row["n_components"]
        best[column] = min(best.get(column, np.inf), row["test_error_percent"])
    found = []
    for column in dict.fromkeys((row["part"], row["n_components"]) for row in rows):
        here = [row for row in rows if (row["part"], row["n_components"]) == column]
        for among, candidates in (
            ("all maps", here),
            ("not pruned", [row for row in here if row["pruned"] == "no"]),
        ):
            if candidates:
                row = min(candidates, key=lambda row: row["held_out"])
                beaten = "yes" if row["mean"] < best[column] else "no"
                found.append({**row, "among": among, "paper": best[column], "beaten": beaten})
    return found


def verdict(rows):
    """Say at how many widths ours is below the paper's best."""
    lines = []
    for among in ("all maps", "not pruned"):
        here = [row for row in rows if row["among"] == among]
        n_beaten = sum(row["beaten"] == "yes" for row in here)
        lines.append(f"Among {among}: below the paper's best at {n_beaten} of {len(here)} widths.")
    return "\n".join(lines)


COLUMNS = {"part": "", "n_components": "", "among": "", "map": "", "setting": "g"}
COLUMNS |= {"up_components": "", "held_out": ".2f", "mean": ".2f", "std": ".2f", "n": ""}
COLUMNS |= {"paper": ".2f", "beaten": ""}


def write(rows, records):
    """Write CSV, plot and page."""
    harness.write_csv(harness.DOCS / "craftmaps_best.csv", rows)
    parts = list(dict.fromkeys(row["part"] for row in rows))
    path = harness.DOCS / "craftmaps_best.png"
    with harness.plot(path, len(parts), size=(3.2, 3)) as axes:
        for axis, part in zip(axes, parts, strict=True):
            for among, marker in (("all maps", "o"), ("not pruned", "s")):
                here = [row for row in rows if (row["part"], row["among"]) == (part, among)]
                columns = ([row[key] for row in here] for key in ("n_components", "mean", "std"))
                axis.errorbar(*columns, marker=marker, label=f"ours, {among}")
            axis.plot(
                [row["n_components"] for row in here],
                [row["paper"] for row in here],
                "k--",
                label="the paper's best",
            )
            axis.set(title=part, xscale="log", yscale="log", xlabel="components")
        axes[0].set_ylabel("test error, per cent")
        axes[0].legend(fontsize=7)
    text = (
        f"![Best errors](reproduction/craftmaps_best.png)\n\n{verdict(rows)}\n\n"
        f"{harness.table(rows, COLUMNS)}\n\n{harness.provenance(records)}"
    )
    harness.publish("craftmaps best", text)


def main():
    """Run cells, print the table, and with --docs write it."""
    settings = harness.arguments(__doc__)
    results = harness.Results(settings.results / "craftmaps_best.jsonl")
    results.run(harness.chosen(cells(), settings.only), work, settings.minutes)
    rows = chosen(results.records)
    print(harness.table(rows, COLUMNS))
    print(verdict(rows))
    if settings.docs:
        write(rows, results.records)


if __name__ == "__main__":
    main()
