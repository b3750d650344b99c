#!/usr/bin/env python
"""Figure 2 of Compact Random Feature Maps: spectra of Gram matrices, histograms of weights.

1,000 MNIST rows of unit length, degree 7, coef0 1, E = 2^12 and D = 2^14. (a) The eigenvalues of
the exact Gram matrix and of those of the maps. (b, c) The weights that ridge regression learns on
the rows for two divisions of the digits, plain map and compact map: how many do nothing. The paper
does not say whether H0/1 is used here, and it decides what the figure shows, so both are drawn.

    python scripts/reproduce/craftmaps_figure2.py --docs
"""

import harness
import numpy as np
from craftmaps_reconstruction import SAMPLE, sample
from scipy import linalg, stats

import streamrf as srf

E, D = 2**12, 2**14
MAPS = ("RFM", "RFM, no H0/1", "TS", "CM RFM", "CM RFM, no H0/1", "CM TS")
DIVISIONS = {"0-4 or 5-9": (0, 1, 2, 3, 4), "even or odd": (0, 2, 4, 6, 8)}
RANKS = np.unique(np.geomspace(1, SAMPLE, 60).astype(int)).tolist()
BINS = np.linspace(-1, 1, 82)
SMALL = 0.01  # of the greatest weight: such weights do next to nothing


def feature_map(name: str, width: int = E, up: int = D) -> srf.features.FeatureMap:
    """Return a map of the figure, seeded."""
    kernel = srf.Polynomial(degree=7, coef0=1.0)
    wide = up if name.startswith("CM ") else width
    if name.endswith("TS"):
        features = srf.TensorSketch(kernel, wide, random_state=0)
    else:
        h01 = not name.endswith("no H0/1")
        features = srf.RandomMaclaurin(kernel, wide, h01=h01, random_state=0)
    return srf.Craft(features, width, random_state=0) if name.startswith("CM ") else features


def cells():
    """Return the settings of every cell."""
    spectra = [{"panel": "spectrum", "map": name} for name in ("exact", *MAPS)]
    return spectra + [
        {"panel": "weights", "map": name, "division": division}
        for name in MAPS
        if "RFM" in name
        for division in DIVISIONS
    ]


def work(cell):
    """Return eigenvalues, or how weights are spread."""
    return spectrum(cell["map"]) if cell["panel"] == "spectrum" else weights(cell)


def spectrum(name, make=feature_map):
    """Return eigenvalues at some ranks, and how many are above rounding."""
    X = sample("mnist", 0)
    if name == "exact":
        gram = srf.Polynomial(degree=7, coef0=1.0)(X.astype(np.float64))
    else:
        Z = make(name).fit(X).transform(X).astype(np.float64)
        gram = Z @ Z.T
    values = np.maximum(linalg.eigvalsh(gram)[::-1], 0.0)
    return {
        "eigenvalues": values[np.array(RANKS) - 1].tolist(),
        "trace": float(values.sum()),
        "tail_percent": float(100 * values[SAMPLE // 2 :].sum() / values.sum()),
    }


def weights(cell, make=feature_map):
    """Return the histogram of the weights over the greatest, and how many are small."""
    X = sample("mnist", 0)
    data = harness.load("mnist")
    picks = np.sort(np.random.default_rng(0).permutation(len(data.X))[:SAMPLE])  # as in `sample`
    y = np.isin(data.y[picks], DIVISIONS[cell["division"]]).astype(int)
    model = srf.RandomFeatureClassifier(
        make(cell["map"]), alpha="auto", codes=srf.OneVsRest(), random_state=0
    )
    w = model.fit(X, y).coef_[-1]
    w = w / np.abs(w).max()
    return {
        "histogram": np.histogram(w, BINS)[0].tolist(),
        "small_percent": float(100 * np.mean(np.abs(w) < SMALL)),
        "kurtosis": float(stats.kurtosis(w)),
    }


def panels(records):
    """Return the records of the spectra and those of the weights."""
    return ([one for one in records if one["panel"] == name] for name in ("spectrum", "weights"))


def tables(records):
    """Return the table of the spectra and that of the weights."""
    spectra, learnt = panels(records)
    return (
        harness.table(spectra, {"map": "", "trace": ".0f", "tail_percent": ".2f"}),
        harness.table(
            learnt, {"map": "", "division": "", "small_percent": ".1f", "kurtosis": ".1f"}
        ),
    )


def write(records):
    """Write CSV, plot and page."""
    spectra, learnt = panels(records)
    values = np.array([record["eigenvalues"] for record in spectra]).T.tolist()
    rows = [
        {"rank": rank, **dict(zip((record["map"] for record in spectra), row, strict=True))}
        for rank, row in zip(RANKS, values, strict=True)
    ]
    harness.write_csv(harness.DOCS / "craftmaps_figure2.csv", rows)
    columns = 1 + len(DIVISIONS)
    with harness.plot(harness.DOCS / "craftmaps_figure2.png", columns, (3.6, 3)) as axes:
        for record in spectra:
            style = "--" if record["map"].startswith("CM ") else "-"
            axes[0].plot(RANKS, record["eigenvalues"], style, label=record["map"])
        axes[0].set(xscale="log", yscale="log", xlabel="rank", ylabel="eigenvalue")
        axes[0].legend(fontsize=7)
        for axis, division in zip(axes[1:], DIVISIONS, strict=True):
            for record in learnt:
                if record["division"] == division:
                    axis.stairs(record["histogram"], BINS, label=record["map"])
            axis.set(title=f"weights, {division}", yscale="log", xlabel="of the greatest")
            axis.legend(fontsize=7)
    of_spectra, of_weights = tables(records)
    text = (
        "![Spectra and weights](craftmaps_figure2.png)\n\n"
        f"Share of the trace in the lower half of the {SAMPLE:,} eigenvalues:\n\n"
        f"{of_spectra}\n\n"
        f"Weights below {SMALL:.0%} of the greatest, and excess kurtosis:\n\n"
        f"{of_weights}\n\n{harness.provenance(records)}"
    )
    harness.publish("craftmaps figure 2", text)


def main():
    """Run cells, print the tables, and with --docs write it."""
    settings = harness.arguments(__doc__)
    results = harness.Results(settings.results / "craftmaps_figure2.jsonl")
    results.run(harness.chosen(cells(), settings.only), work, settings.minutes)
    print("\n\n".join(tables(results.records)))
    if harness.asks_for_docs(settings, results.records):
        write(results.records)


if __name__ == "__main__":
    main()
