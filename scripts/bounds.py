#!/usr/bin/env python
"""The papers' error bounds and measured errors, as a picture.

    scripts/bounds.py [--draws 20] [--out docs/images/bounds.svg]

For 50 unit rows of 10 columns: the error at the worst pair of rows, which 95 % of draws stay below,
and the error that the bounds of `streamrf.features.bounds` allow for the same width at the same
chance. Prints a JSON line a kernel and width.
"""

import argparse
import json
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq

import streamrf as srf
from streamrf.features import (
    fourier_width,
    hoeffding_width,
    maclaurin_width,
    products_width,
)

N_ROWS, N_FEATURES, CHANCE, GAMMA, DEGREE = 50, 10, 0.05, 0.5, 3
WIDTHS = 2 ** np.arange(6, 15)
FREQUENCY = np.sqrt(2 * GAMMA * N_FEATURES)  # root of the mean squared length
GAUSSIAN, EXPONENTIAL = srf.Gaussian(GAMMA), srf.Exponential()
POWER = srf.Polynomial(DEGREE, gamma=1.0, coef0=0.0)

# Map by width, and bounds as widths by error.
CASES = {
    "RandomFourier, Gaussian": (
        lambda width: srf.RandomFourier(GAUSSIAN, width, paired=False),
        {
            "these pairs (Hoeffding)": lambda e: hoeffding_width(e, CHANCE, 2.0, N_ROWS),
            "all unit rows (Rahimi, Recht)": lambda e: fourier_width(
                e, CHANCE, N_FEATURES, FREQUENCY, 2.0
            ),
        },
    ),
    "RandomMaclaurin, exponential": (
        lambda width: srf.RandomMaclaurin(EXPONENTIAL, width, projection="rademacher"),
        {
            "these pairs (Kar, Karnick)": lambda e: maclaurin_width(
                EXPONENTIAL, e, CHANCE, 1.0, n_rows=N_ROWS
            ),
            "all rows (Kar, Karnick)": lambda e: maclaurin_width(
                EXPONENTIAL, e, CHANCE, 1.0, n_features=N_FEATURES
            ),
        },
    ),
    f"products, degree {DEGREE}": (
        lambda width: srf.RandomMaclaurin(POWER, width, projection="rademacher"),
        {
            "these pairs (Hamid et al.)": lambda e: products_width(DEGREE, e, CHANCE, N_ROWS),
            "these pairs (Kar, Karnick)": lambda e: maclaurin_width(
                POWER, e, CHANCE, np.sqrt(N_FEATURES), n_rows=N_ROWS
            ),
        },
    ),
}


def rows(norm: int) -> np.ndarray:
    """Return rows of length 1 in a norm, as the bounds have them."""
    X = np.random.default_rng(0).normal(size=(N_ROWS, N_FEATURES))
    return X / np.linalg.norm(X, ord=norm, axis=1, keepdims=True)


def measured(make, width: int, n_draws: int, X: np.ndarray) -> float:
    """Return the quantile over draws of the greatest error over pairs."""
    errors = []
    for seed in range(n_draws):
        features = make(int(width)).set_params(random_state=seed).fit(X)
        Z = features.transform(X).astype(np.float64)
        errors.append(np.abs(Z @ Z.T - features.kernel_(X)).max())
    return float(np.quantile(errors, 1 - CHANCE))


def allowed(bound, width: int) -> float:
    """Return the error for which a bound asks for a width."""
    return float(np.exp(brentq(lambda e: np.log(bound(np.exp(e)) / width), -12, 60)))


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    mpl.rcParams["svg.hashsalt"] = "streamrf"
    figure, axes = plt.subplots(1, len(CASES), figsize=(11, 3.6), layout="constrained")
    for axis, (name, (make, bounds)) in zip(axes, CASES.items(), strict=True):
        X = rows(1 if name.endswith("exponential") else 2)  # up to 1 in Kar and Karnick's norm
        found = [measured(make, width, options.draws, X) for width in WIDTHS]
        axis.loglog(WIDTHS, found, "o-", label="measured, worst pair")
        curves = {title: [allowed(b, width) for width in WIDTHS] for title, b in bounds.items()}
        for title, curve in curves.items():
            axis.loglog(WIDTHS, curve, "--", label=title)
        axis.set(title=name, xlabel="features")
        axis.legend(fontsize=7)
        for i, width in enumerate(WIDTHS.tolist()):
            line = {"case": name, "width": width, "measured": found[i]}
            print(json.dumps(line | {title: c[i] for title, c in curves.items()}), flush=True)
    axes[0].set(ylabel="error, 95 % of draws below")
    if options.out is not None:
        figure.savefig(options.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
