#!/usr/bin/env python
"""Figure 6 of Compact Random Feature Maps: errors of Gram matrices on six data sets.

Degree 7, coef0 1, rows of unit length, D twice the greatest E, as in the caption; five draws of
each map on one sample of 1,000 rows. The paper's text names neither the six data sets nor their
figures, so there is nothing of the paper's beside ours; here they are six of the sets at hand.

    python scripts/reproduce/craftmaps_figure6.py --docs
"""

import harness
from craftmaps_reconstruction import nrmse, sample

import streamrf as srf

SETS = ("mnist", "usps", "coil20", "pendigits", "adult_a9a", "ijcnn1")
WIDTHS = tuple(2**k for k in range(8, 13))
UP = 2 * WIDTHS[-1]
SEEDS = range(5)


def cells():
    """Give the settings of every cell; H0/1 needs more components than the rows have columns."""
    return [
        {"dataset": name, "map": map_name, "n_components": width, "seed": seed}
        for name in SETS
        for seed in SEEDS
        for width in WIDTHS
        for map_name in ("RFM", "CM RFM")
    ]


def work(cell):
    """Return the error of one draw."""
    X, width, seed = sample(cell["dataset"], 0), cell["n_components"], cell["seed"]
    wide = UP if cell["map"] == "CM RFM" else width
    kernel = srf.Polynomial(degree=7, coef0=1.0)
    h01 = wide > 1 + X.shape[1]
    features = srf.RandomMaclaurin(kernel, wide, h01=h01, random_state=seed)
    if cell["map"] == "CM RFM":
        features = srf.Craft(features, width, random_state=seed)
    return {"nrmse": nrmse(features, X)}


def compared(records):
    """Return mean errors."""
    return harness.summary(records, ("dataset", "map", "n_components"), "nrmse")


def write(rows, records):
    """Write CSV, plot and page."""
    harness.write_csv(harness.DOCS / "craftmaps_figure6.csv", rows)
    names = [name for name in SETS if any(row["dataset"] == name for row in rows)]
    path = harness.DOCS / "craftmaps_figure6.png"
    with harness.plot(path, len(names), size=(2.6, 2.6)) as axes:
        for axis, name in zip(axes, names, strict=True):
            for map_name in ("RFM", "CM RFM"):
                here = [row for row in rows if (row["dataset"], row["map"]) == (name, map_name)]
                columns = ([row[key] for row in here] for key in ("n_components", "mean", "std"))
                axis.errorbar(*columns, label=map_name)
            axis.set(title=name, yscale="log", xlabel="E")
            harness.mark_widths(axis, WIDTHS)
            axis.tick_params(axis="y", which="both", labelsize=7)
        axes[0].set_ylabel("NRMSE")
        axes[0].legend(fontsize=7)
    table = harness.pivot(
        [{**row, "what": f"{row['dataset']}, {row['map']}"} for row in rows],
        "what",
        "n_components",
        lambda row: f"{row['mean']:.3f} ± {row['std']:.3f}",
    )
    text = f"![Errors on six sets](craftmaps_figure6.png)\n\n{harness.table(table)}"
    harness.publish("craftmaps figure 6", f"{text}\n\n{harness.provenance(records)}")


def main():
    """Run cells, print the table, and with --docs write it."""
    harness.reproduce(__doc__, "craftmaps_figure6", cells(), work, compared, write)


if __name__ == "__main__":
    main()
