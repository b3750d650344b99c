#!/usr/bin/env python
"""Figure 5 of Compact Random Feature Maps: error of the Gram matrix of 1,000 MNIST rows.

Random Maclaurin features (H0/1) alone and compacted, degree 7 and coef0 1, rows of unit length; the
same rows throughout; four draws of each map, three of those compacted from 2^16 components on, of
which each takes minutes. Beside the paper's table, what the choice of degrees does to the plain
map: ``measure="geometric"`` (the paper's), "proportional" and "optimized".

    python scripts/reproduce/craftmaps_figure5.py --docs
"""

import harness
from craftmaps_reconstruction import nrmse, sample

import streamrf as srf

PLAIN = "RFM h01"
COMPACT = "CM RFM h01"
WIDTHS = tuple(2**k for k in range(10, 16))
UPS = (2**15, 2**16, 2**17)
COMPARED = (2**12, 2**13)  # widths at which measures are compared
MEASURES = ("geometric", "proportional", "optimized")
DRAWS = {None: 4, 2**15: 4, 2**16: 3, 2**17: 3}  # by D; of the widest each takes minutes


def cells():
    """Return the settings of every cell: draw by draw, the plain map before those compacted."""
    plain = [(PLAIN, width, None, "geometric") for width in WIDTHS]
    plain += [
        (name, width, None, measure)
        for width in COMPARED
        for name in (PLAIN, "RFM")
        for measure in MEASURES
    ]
    compact = [(COMPACT, width, up, "geometric") for up in UPS for width in WIDTHS[:4]]
    names = ("map", "n_components", "up_components", "measure")
    return [
        dict(zip(names, row, strict=True)) | {"seed": seed}
        for seed in range(max(DRAWS.values()))
        for row in dict.fromkeys(plain + compact)
        if seed < DRAWS[row[2]]
    ]


def work(cell):
    """Return the error of one draw."""
    kernel = srf.Polynomial(degree=7, coef0=1.0)
    width, up, seed = cell["n_components"], cell["up_components"], cell["seed"]
    plain = srf.RandomMaclaurin(
        kernel,
        up or width,
        h01=cell["map"] != "RFM",
        measure=cell["measure"],
        random_state=seed,
    )
    features = srf.Craft(plain, width, random_state=seed) if up else plain
    return {"nrmse": nrmse(features, sample("mnist", 0))}


def compared(records):
    """Return mean errors beside the paper's."""
    paper = [
        {**row, "measure": "geometric"}
        for row in harness.read_csv(harness.PAPER / "hamid-2014-figure5.csv")
    ]
    keys = ("map", "up_components", "measure", "n_components")
    return harness.beside(harness.summary(records, keys, "nrmse"), paper, keys, "nrmse")


def write(rows, records):
    """Write CSV, plot and page."""
    known = sorted(
        (row for row in rows if "paper" in row), key=lambda row: row["up_components"] or 0
    )
    table = harness.pivot(
        [{**row, "D": row["up_components"] or "plain"} for row in known],
        "D",
        "n_components",
        lambda row: f"{row['mean']:.3f} ± {row['std']:.3f} ({row['paper']:.3f})",
    )
    draws = [row["n"] for row in rows]
    asked = [row["ratio"] for row in known if row["map"] == COMPACT]
    gains = []
    for row in rows:
        if row["measure"] != "geometric":
            same = {name: row[name] for name in ("map", "n_components")}
            base = next(
                other
                for other in rows
                if other["measure"] == "geometric"
                and other["up_components"] is None
                and all(other[name] == value for name, value in same.items())
            )
            gains.append({**row, "gain": base["mean"] / row["mean"], "geometric": base["mean"]})
    columns = {"map": "", "n_components": "", "measure": "", "geometric": ".3f", "mean": ".3f"}
    text = (
        "![Error of the Gram matrix](craftmaps_figure5.png)\n\n"
        f"Mean ± deviation over {min(draws)} to {max(draws)} draws, and the paper's, by D (down) "
        "and E (across):\n\n"
        f"{harness.table(table)}\n\n"
        f"The compact map's errors are {min(asked):.2f} to {max(asked):.2f} "
        "times the paper's.\n\n"
        "Other choices of degrees, plain map; the gain is the error of the geometric choice over "
        f"theirs:\n\n{harness.table(gains, columns | {'gain': '.2f'})}\n\n"
        f"{harness.provenance(records)}"
    )
    harness.write_csv(harness.DOCS / "craftmaps_figure5.csv", rows)
    draw(known)
    harness.publish("craftmaps figure 5", text)


def draw(rows):
    """Plot errors by width, the paper's dashed."""
    with harness.plot(harness.DOCS / "craftmaps_figure5.png") as (axis,):
        for number, up in enumerate(dict.fromkeys(row["up_components"] for row in rows)):
            here = [row for row in rows if row["up_components"] == up]
            widths, colour = [row["n_components"] for row in here], f"C{number}"
            means, stds = ([row[name] for row in here] for name in ("mean", "std"))
            label = f"D = {up:,}" if up else "plain"
            axis.errorbar(widths, means, stds, color=colour, label=label)
            axis.plot(widths, [row["paper"] for row in here], "--", color=colour, lw=0.8)
        harness.mark_widths(axis, WIDTHS)
        axis.set(yscale="log", xlabel="E", ylabel="NRMSE (dashed: the paper's)")
        axis.legend(fontsize=7)


def main():
    """Run cells, print the table, and with --docs write it."""
    harness.reproduce(__doc__, "craftmaps_figure5", cells(), work, compared, write)


if __name__ == "__main__":
    main()
