#!/usr/bin/env python
"""What a pruned map of craftmaps_best.py costs beside one drawn at the same width.

A pruned map has the width of the drawn one when its coefficients are solved for and stored; its
pass, and every prediction, compute all features it was pruned from. One thread, seconds of the
processor.

    python scripts/reproduce/craftmaps_costs.py --docs
"""

import harness
from craftmaps_best import PRUNING_ALPHA, feature_map
from craftmaps_table1 import PARTS
from kar_karnick import on_one_thread, timed

import streamrf as srf

CELLS = (  # part, map, setting, components
    ("pendigits", "StructuredFourier", 2.0, 64),
    ("pendigits", "StructuredFourier", 2.0, 1024),
    ("usps", "StructuredFourier", 1.0, 1024),
)
UP = 8192
TIMES = 3  # predictions; the least counts


def cells():
    """Return the settings of every cell."""
    names = ("part", "map", "setting", "n_components")
    return [
        dict(zip(names, one, strict=True)) | {"up_components": up}
        for one in CELLS
        for up in (None, UP)
    ]


def work(cell):
    """Return the seconds of the pass, of pruning and of predicting the test rows."""
    data = harness.load(PARTS[cell["part"]][0])
    width, up = cell["n_components"], cell["up_components"]
    features = feature_map(cell["map"], cell["setting"], up or width)
    few = srf.ArraySource(data.X[:400], data.y[:400])
    srf.accumulate(few, features, normalize="l2", random_state=0)  # compiled
    rows = srf.ArraySource(data.X, data.y)
    found, pass_s = timed(
        lambda: srf.accumulate(rows, features, normalize="l2", random_state=0, n_threads=1)
    )
    prune_s = None
    if up:
        found, prune_s = timed(lambda: found.prune(width, PRUNING_ALPHA * found.alpha_scale()))
    model = found.solve(1e-4 * found.alpha_scale())
    seconds = min(timed(lambda: model.predict(data.X_test))[1] for _ in range(TIMES))
    return {
        "pass_s": round(pass_s, 3),
        "prune_s": prune_s and round(prune_s, 3),
        "predict_us": 1e6 * seconds / len(data.X_test),
    }


COLUMNS = {
    "part": "",
    "map": "",
    "n_components": "",
    "up_components": "",
    "pass_s": ".2f",
    "prune_s": ".2f",
    "predict_us": ".1f",
}


def compared(records):
    """Return the rows of the table."""
    return [{name: record[name] for name in COLUMNS} for record in records]


def write(rows, records):
    """Write CSV and page."""
    harness.write_csv(harness.DOCS / "craftmaps_costs.csv", rows)
    text = (
        "Seconds of the pass over the training rows and of pruning, and microseconds to predict a "
        "row, one thread; lines without up_components are maps as drawn.\n\n"
        f"{harness.table(rows, COLUMNS)}\n\n{harness.provenance(records)}"
    )
    harness.publish("craftmaps costs", text)


def main():
    """Run cells, print the table, and with --docs write it."""
    on_one_thread()
    harness.reproduce(__doc__, "craftmaps_costs", cells(), work, compared, write)


if __name__ == "__main__":
    main()
