#!/usr/bin/env python
"""Figure 7 (b) of Compact Random Feature Maps: error by rows, up to the 8.1 million of MNIST8M.

That set cannot be fetched here, so `streamrf.deformed_mnist` makes its like: the 60,000 images and
then copies that are slightly rotated, sheared, shifted and elastically deformed, row by row as they
are read. One pass goes over all rows. Its sums are saved at each number of rows, and solved there,
so that a run that was killed goes on from the last file, within a stretch from a checkpoint.

Setting (gamma, degree or window), how far images are moved and the penalty, relative to the mean
squared feature, are chosen on training images alone: 250,000 rows made from the first 50,000, and
errors on the last 10,000 as they are.

    python scripts/reproduce/mnist8m.py --only map=structured --only n_components=4096 --docs
"""

from functools import cache
from pathlib import Path

import harness
import numpy as np

import streamrf as srf
from streamrf.training.benchmark import UP_FACTOR

BASE, HELD, CHOICE_ROWS = 60_000, 10_000, 250_000
PREFIXES = (60_000, 240_000, 960_000, 2_000_000, 4_000_000, 8_100_000)
WIDTHS = (4096, 8192)
PRECISIONS = ("coarse", "exact")
RELATIVE_ALPHAS = tuple(10.0 ** np.arange(-8, -1))
AMOUNTS = (0.5, 1.0)  # of the default deformation
MAPS = {
    "structured": (
        (0.3, 0.6, 1.2),
        lambda gamma, width: srf.StructuredFourier(srf.Gaussian(gamma), width, random_state=0),
    ),
    "craft": (
        (5, 7, 9),
        lambda degree, width: srf.Craft(
            srf.RandomMaclaurin(srf.Polynomial(degree), UP_FACTOR * width, h01=True),
            width,
            random_state=0,
        ),
    ),
    "tree": (
        (3, 4, 5),
        lambda degree, width: srf.TreeSketch(srf.Polynomial(degree), width, random_state=0),
    ),
    "convolution": (
        (7,),  # chosen on training images as they are (scripts/skeletons.py)
        lambda window, width: srf.Convolution(
            None, width, shape=(28, 28), window=window, cells=3, random_state=0
        ),
    ),
}
SETTINGS = {"normalize": "l2", "classes": np.arange(10)}


def cells():
    """Return the settings of every cell: choices first, then growing prefixes of the rows."""
    every = [
        {"map": name, "n_components": width, "precision": precision}
        for width in WIDTHS
        for name in MAPS
        for precision in PRECISIONS
    ]
    choices = [
        {"map": name, "n_components": WIDTHS[0], "setting": setting, "amount": amount}
        for name, (settings, _) in MAPS.items()
        for amount in (AMOUNTS[:1] if name == "convolution" else AMOUNTS)  # as it was published
        for setting in settings
    ]
    return choices + [{**cell, "n_rows": n_rows} for cell in every for n_rows in PREFIXES]


def with_choices(wanted):
    """Return cells after the choices that those of rows rest on."""
    names = {cell["map"] for cell in wanted if "n_rows" in cell}
    choices = [cell for cell in cells() if "setting" in cell and cell["map"] in names]
    return choices + [cell for cell in wanted if cell not in choices]


@cache
def images(part: str, stop: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels."""
    data = harness.load("mnist")
    X, y = (data.X, data.y) if part == "train" else (data.X_test, data.y_test)
    return X[:stop], y[:stop]


def deformation(amount: float) -> srf.Deformation:
    """Return a share of the default deformation."""
    usual = srf.Deformation()
    moved = {name: amount * getattr(usual, name) for name in vars(usual) if name != "smoothing"}
    return srf.Deformation(**moved)


def choice(cell):
    """Return the error of a setting on images held out of the training part."""
    X, y = images("train")
    base = srf.ArraySource(X[:-HELD], y[:-HELD])
    source = srf.deformed_mnist(base, CHOICE_ROWS, deformation=deformation(cell["amount"]))
    map_ = MAPS[cell["map"]][1](cell["setting"], cell["n_components"])
    statistics = srf.accumulate(source, map_, precision="coarse", **SETTINGS)
    scale = statistics.alpha_scale()
    errors = [
        statistics.solve(alpha * scale).evaluate(X[-HELD:], y[-HELD:])["error"]
        for alpha in RELATIVE_ALPHAS
    ]
    best = int(np.argmin(errors))
    return {"relative_alpha": RELATIVE_ALPHAS[best], "error_percent": 100 * errors[best]}


def prefix(cell, folder: Path, chosen):
    """Return the test error after the rows of a prefix, whose sums go on from those before."""
    name = f"{cell['map']}-{cell['n_components']}-{cell['precision']}"
    path = folder / f"{name}.stats.h5"
    earlier = srf.load_statistics(path) if path.exists() else None
    done = 0 if earlier is None else earlier.n_rows
    source = srf.deformed_mnist(
        srf.ArraySource(*images("train")), PREFIXES[-1], deformation=deformation(chosen["amount"])
    )
    if done < cell["n_rows"]:
        if earlier is None:
            map_ = MAPS[cell["map"]][1](chosen["setting"], cell["n_components"])
            how = {"features": map_, "precision": cell["precision"], **SETTINGS}
        else:
            how = {"like": earlier}
        checkpoint = folder / f"{name}.checkpoint"
        found = srf.accumulate(source, rows=(done, cell["n_rows"]), checkpoint=checkpoint, **how)
        total = found if earlier is None else earlier + found
        total.save(path)
        checkpoint.unlink(missing_ok=True)
    else:
        total = earlier
    model = total.solve(chosen["relative_alpha"] * total.alpha_scale())
    error = model.evaluate(*images("test"))["error"]
    return {
        "error_percent": 100 * error,
        "setting": chosen["setting"],
        "amount": chosen["amount"],
        "n_clipped": total.n_clipped,
    }


def best_choice(records, name: str):
    """Return the setting of a map with the least error on images held out."""
    tried = [record for record in records if record["map"] == name and "relative_alpha" in record]
    if not tried:
        raise SystemExit(f"nothing is chosen for {name} yet: run it without --minutes")
    return min(tried, key=lambda record: record["error_percent"])


def compared(records):
    """Return the errors on test images, by rows."""
    return [record for record in records if "n_rows" in record]


def write(rows, records):
    """Write CSV, plot and page, with the rows of earlier runs."""
    keys = ("map", "n_components", "precision", "n_rows")
    kept = (*keys, "error_percent", "setting", "seconds")
    path = harness.DOCS / "mnist8m.csv"
    rows = harness.with_earlier(path, [{name: row[name] for name in kept} for row in rows], keys)
    harness.write_csv(path, rows)
    lines = dict.fromkeys((r["map"], r["n_components"], r["precision"]) for r in rows)
    with harness.plot(harness.DOCS / "mnist8m.png", size=(6.6, 3.4)) as (axis,):
        for line in lines:
            here = [r for r in rows if (r["map"], r["n_components"], r["precision"]) == line]
            label = f"{line[0]}, {line[1]:,}, {line[2]}"
            xs, ys = ([row[key] for row in here] for key in ("n_rows", "error_percent"))
            style = {
                "color": f"C{list(MAPS).index(line[0])}",
                "marker": "os"[WIDTHS.index(line[1])],
                "linestyle": ("-", "--")[PRECISIONS.index(line[2])],
            }
            axis.plot(xs, ys, **style, label=label)
        axis.axhline(0.91, color="grey", linestyle=":", label="paper, on MNIST8M: 65,536")
        axis.set(xscale="log", xlabel="rows", ylabel="test error, %")
        axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.02, 0.5))
    shown = [
        {**row, "n_rows": f"{row['n_rows']:,}", "error_percent": f"{row['error_percent']:.2f}"}
        for row in rows
    ]
    text = f"![Error by rows](mnist8m.png)\n\n{harness.table(shown)}"
    harness.publish("mnist8m", f"{text}\n\n{harness.with_earlier_provenance('mnist8m', records)}")


def main():
    """Run cells, print the table, and with --docs write it."""
    settings = harness.arguments(__doc__)
    results = harness.Results(settings.results / "mnist8m.jsonl")
    folder = settings.results / "mnist8m"
    folder.mkdir(parents=True, exist_ok=True)

    def work(cell):
        if "setting" in cell:
            return choice(cell)
        return prefix(cell, folder, best_choice(results.records, cell["map"]))

    results.run(with_choices(harness.chosen(cells(), settings.only)), work, settings.minutes)
    rows = compared(results.records)
    print(harness.table(rows))
    if harness.asks_for_docs(settings, rows):
        write(rows, results.records)


if __name__ == "__main__":
    main()
