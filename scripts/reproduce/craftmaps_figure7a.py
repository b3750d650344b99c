#!/usr/bin/env python
"""Figure 7 (a) of Compact Random Feature Maps: error of the Gram matrix by polynomial degree.

Ten samples of 1,000 MNIST rows of unit length, D = 2^15 and E = 2^13 as in the caption, coef0 1;
each sample has draws of its own. The paper shows a plot alone, so there are no figures beside ours.

    python scripts/reproduce/craftmaps_figure7a.py --docs
"""

import harness
from craftmaps_reconstruction import nrmse, sample

import streamrf as srf

DEGREES = (2, 3, 4, 5, 7, 9, 11)
UP, DOWN = 2**15, 2**13
SEEDS = range(10)


def cells():
    """Return the settings of every cell."""
    return [
        {"degree": degree, "map": name, "seed": seed}
        for seed in SEEDS
        for degree in DEGREES
        for name in ("RFM", "CM RFM")
    ]


def work(cell, up=UP, down=DOWN):
    """Return the error of one draw on a sample of its own."""
    seed = cell["seed"]
    kernel = srf.Polynomial(degree=cell["degree"], coef0=1.0)
    wide = up if cell["map"] == "CM RFM" else down
    features = srf.RandomMaclaurin(kernel, wide, h01=True, random_state=seed)
    if cell["map"] == "CM RFM":
        features = srf.Craft(features, down, random_state=seed)
    return {"nrmse": nrmse(features, sample("mnist", seed))}


def compared(records):
    """Return mean errors."""
    return harness.summary(records, ("degree", "map"), "nrmse")


def write(rows, records):
    """Write CSV, plot and page."""
    harness.write_csv(harness.DOCS / "craftmaps_figure7a.csv", rows)
    with harness.plot(harness.DOCS / "craftmaps_figure7a.png") as (axis,):
        for name in ("RFM", "CM RFM"):
            here = [row for row in rows if row["map"] == name]
            columns = ([row[key] for row in here] for key in ("degree", "mean", "std"))
            axis.errorbar(*columns, label=name)
        axis.set(yscale="log", xlabel="degree", ylabel="NRMSE")
        axis.legend()
    table = harness.pivot(
        rows, "map", "degree", lambda row: f"{row['mean']:.3f} ± {row['std']:.3f}"
    )
    text = f"![Error by degree](craftmaps_figure7a.png)\n\n{harness.table(table)}"
    harness.publish("craftmaps figure 7a", f"{text}\n\n{harness.provenance(records)}")


def main():
    """Run cells, print the table, and with --docs write it."""
    harness.reproduce(__doc__, "craftmaps_figure7a", cells(), work, compared, write)


if __name__ == "__main__":
    main()
