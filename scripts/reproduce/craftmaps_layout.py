#!/usr/bin/env python
"""The structured projection of Compact Random Feature Maps, section 3.5, beside the library's own.

The paper takes as few sign-flipped Hadamard transforms as have a row for every factor of every
feature, and permutes all rows ("permuted"); the library gives every factor of a feature a transform
of its own ("hadamard"). Two factors of one transform are not independent, so the paper's layout has
a bias. Measured are that bias on 50 pendigits rows over many draws, for t^2, where a formula is
known, and for Table 1's (1 + t)^9 with H0/1; NRMSE as in Figure 5 on MNIST; and the test errors of
the rows RFM and CM RFM of Table 1 on pendigits, of the latter also on MNIST.

    python scripts/reproduce/craftmaps_layout.py --docs
"""

import harness
import numpy as np
from craftmaps_maps import UP, fit
from craftmaps_reconstruction import nrmse, sample

import streamrf as srf

LAYOUTS = ("hadamard", "permuted")
KERNELS = {"t^2": (2, 0.0), "(1 + t)^7": (7, 1.0), "(1 + t)^9": (9, 1.0)}  # degree, coef0
PANELS = {  # panel: kernel, data set, random features or components, draws
    "bias": (("t^2", "pendigits", (8, 64, 512), 2000), ("(1 + t)^9", "pendigits", (64, 512), 2000)),
    "nrmse": (("(1 + t)^7", "mnist", (1024, 4096), 4),),
    "error": (("(1 + t)^9", "pendigits", (64, 128, 256, 512, 1024), 5),),
    "compact": (
        ("(1 + t)^9", "pendigits", (64, 128, 256, 512, 1024), 5),
        ("(1 + t)^7", "mnist", (500,), 2),
    ),
}
TABLES = {  # panel: figure, format
    "nrmse": ("nrmse", ".3f"),
    "error": ("error_percent", ".2f"),
    "compact": ("error_percent", ".2f"),
}
N_ROWS = 50


def cells():
    """Return the settings of every cell; the draws of a bias are one cell."""
    return [
        {"panel": panel, "kernel": kernel, "dataset": dataset, "width": width, "layout": layout}
        | {"seed": None if panel == "bias" else seed}
        for panel, settings in PANELS.items()
        for kernel, dataset, widths, draws in settings
        for width in widths
        for layout in LAYOUTS
        for seed in range(1 if panel == "bias" else draws)
    ]


def feature_map(cell, seed):
    """Return the map of a cell, H0/1 where the kernel has terms of degree 0 and 1."""
    degree, coef0 = KERNELS[cell["kernel"]]
    is_compact = cell["panel"] == "compact"
    plain = srf.RandomMaclaurin(
        srf.Polynomial(degree=degree, coef0=coef0),
        cell["width"] * (UP if is_compact else 1),
        projection=cell["layout"],
        h01=coef0 > 0,
        random_state=seed,
    )
    return srf.Craft(plain, cell["width"], random_state=seed) if is_compact else plain


def work(cell):
    """Return the figures of a cell."""
    if cell["panel"] == "bias":
        draws = next(row[3] for row in PANELS["bias"] if row[0] == cell["kernel"])
        return bias(cell, sample(cell["dataset"], 0)[:N_ROWS], draws)
    if cell["panel"] == "nrmse":
        return {"nrmse": nrmse(feature_map(cell, cell["seed"]), sample(cell["dataset"], 0))}
    return fit(harness.load(cell["dataset"]), feature_map(cell, None), cell["seed"])


def bias(cell, X, draws):
    """Return the mean error over draws and pairs of different rows, and what a draw varies by.

    "bias" and its standard error "bias_se" are of the deviation of the kernel over these pairs, as
    "nrmse", the root mean square of a draw's errors, is. "formula" is the bias of t^2, where two
    factors of one transform are expected to miss by ``(2 sum_i x_i^2 y_i^2 - |x|^2 |y|^2 -
    <x,y>^2) / (rows - 1)``, rows those of all transforms.
    """
    pairs = np.triu_indices(len(X), 1)
    means, squares = [], []
    for seed in range(draws):
        features = feature_map(cell, seed).fit(X)
        Z = features.transform(X).astype(np.float64)
        exact = features.kernel_(X.astype(np.float64))[pairs]
        errors = ((Z @ Z.T)[pairs] - exact) / exact.std()
        means.append(errors.mean())
        squares.append(np.mean(errors**2))
    found = {
        "bias": float(np.mean(means)),
        "bias_se": float(np.std(means, ddof=1) / np.sqrt(draws)),
        "nrmse": float(np.sqrt(np.mean(squares))),
    }
    if KERNELS[cell["kernel"]] == (2, 0.0):
        found["formula"] = 0.0
        if cell["layout"] == "permuted":
            padded = 1 << (X.shape[1] - 1).bit_length()
            rows = -(-2 * cell["width"] // padded) * padded
            gap = 2 * np.square(X) @ np.square(X).T - 1 - np.square(X @ X.T)
            found["formula"] = float(np.mean(gap[pairs]) / (rows - 1) / exact.std())
    return found


def of_panel(records, panel):
    """Return the records of a panel."""
    return [record for record in records if record["panel"] == panel]


def tables(records):
    """Return the tables of bias, of NRMSE and of test errors, Markdown."""
    columns = {"kernel": "", "width": "", "layout": "", "bias": ".4f", "bias_se": ".4f"}
    columns |= {"formula": ".4f", "nrmse": ".3f"}
    found = [harness.table(of_panel(records, "bias"), columns)]
    for panel, (figure, form) in TABLES.items():
        rows = harness.summary(of_panel(records, panel), ("layout", "dataset", "width"), figure)
        rows = [{**row, "at": f"{row['dataset']}, {row['width']}"} for row in rows]

        def both(row, form=form):
            return f"{row['mean']:{form}} ± {row['std']:{form}}"

        laid = harness.pivot(rows, "layout", "at", both)
        found.append(harness.table(laid))
    return found


def write(records):
    """Write CSV and page."""
    rows = [{k: v for k, v in record.items() if k != "circumstances"} for record in records]
    harness.write_csv(harness.DOCS / "craftmaps_layout.csv", rows)
    of_bias, of_nrmse, of_errors, of_compact = tables(records)
    text = [
        f"Mean error over {PANELS['bias'][0][3]:,} draws and the pairs of {N_ROWS} pendigits rows "
        "of unit length, its standard error, the formula for t^2, and the root mean square error "
        f"of one draw, all over the kernel's deviation:\n\n{of_bias}",
        "NRMSE of 1,000 MNIST rows, (1 + t)^7, H0/1, by components (mean ± deviation over "
        f"{PANELS['nrmse'][0][3]} draws):\n\n{of_nrmse}",
        "Test error in per cent of the row RFM of Table 1 in a run of its own, pendigits, by "
        f"components (mean ± deviation over {PANELS['error'][0][3]} seeds):\n\n{of_errors}",
        f"Likewise of the row CM RFM, D = {UP} E, and with {PANELS['compact'][1][3]} seeds on "
        f"MNIST:\n\n{of_compact}",
        harness.provenance(records),
    ]
    harness.publish("craftmaps layout", "\n\n".join(text))


def main():
    """Run cells, print the tables, and with --docs write it."""
    settings = harness.arguments(__doc__)
    results = harness.Results(settings.results / "craftmaps_layout.jsonl")
    results.run(harness.chosen(cells(), settings.only), work, settings.minutes)
    print("\n\n".join(tables(results.records)))
    if harness.asks_for_docs(settings, results.records):
        write(results.records)


if __name__ == "__main__":
    main()
