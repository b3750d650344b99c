#!/usr/bin/env python
"""Four gammas in one pass, weighed after it, next to the best of four passes of one gamma each.

    STREAMRF_DATA=... scripts/blocks.py [--sets usps ijcnn1] [--seeds 0 1] [--criteria]

Prints a JSON line a set and seed: errors on test rows in % (RMSE for values) of `StructuredFourier`
of each gamma, and of `Concatenate` of four such maps of a quarter of the width, with equal weights
and with ``block_weights="auto"``. Penalties and weights are chosen on rows held out of the training
rows. `best` is the gamma of the least error held out, `least` the least of the four errors on test
rows, which no choice could know. `--criteria` adds errors of weights chosen from the sums alone, by
five folds and by the evidence. Gammas are in units of 1 / median squared distance of the rows,
scaled by `standard`.
"""

import argparse
import json
import time

import numpy as np
from selection import error, rows_of
from shared import REGRESSION

import streamrf as srf
from streamrf.jit.threads import computing
from streamrf.training.benchmark import circumstances
from streamrf.training.candidates import ScaledRows

SETS = (
    "pendigits", "usps", "nursery", "spambase", "cod_rna", "adult_a9a", "ijcnn1",
    "covtype_sample15k", "california_housing", "flights",
)  # fmt: skip
GAMMAS = (1 / 16, 1 / 4, 1.0, 4.0)
MAX_ROWS = 16_000  # of training; ten thousand of test


def by_sums(features, X, y, X_test, y_test, regression: bool, seed: int) -> dict:
    """Return the errors of weights chosen from the sums, penalties with them."""
    found = srf.accumulate(
        srf.ArraySource(X, y),
        features,
        normalize="standard",
        folds=5,
        regression=regression,
        random_state=seed,
    )
    ways = {"folds": found, "evidence": found.without_folds()}
    models = {way: sums.solve(1.0, block_weights="auto") for way, sums in ways.items()}
    return {way: error(model.predict(X_test), y_test, regression) for way, model in models.items()}


def compared(name: str, seed: int, width: int, criteria: bool) -> dict:
    """Return the figures of one set and seed."""
    rng = np.random.default_rng(seed)
    X, y, X_test, y_test = rows_of(name, seed)
    rows, test = (rng.permutation(len(a))[:n] for a, n in ((X, MAX_ROWS), (X_test, 10_000)))
    X, y, X_test, y_test = X[rows], y[rows], X_test[test], y_test[test]
    unit = ScaledRows(X, len(X), rng).unit("standard", "gaussian")
    regression = name in REGRESSION
    make = srf.RandomFeatureRegressor if regression else srf.RandomFeatureClassifier

    def one(features, weights=None):
        began = time.perf_counter()
        fitted = make(features, block_weights=weights, normalize="standard", random_state=seed)
        fitted.fit(X, y)
        seconds = time.perf_counter() - began
        held = min(figure for _, figure in fitted.model_.history)
        return fitted, held, error(fitted.predict(X_test), y_test, regression), seconds

    def gaussian(gamma, width):
        return srf.StructuredFourier(srf.Gaussian(gamma * unit), width)

    singles = [one(gaussian(gamma, width)) for gamma in GAMMAS]
    four = srf.Concatenate([gaussian(gamma, width // 4) for gamma in GAMMAS])
    equal, auto = one(four), one(four, "auto")
    best = int(np.argmin([held for _, held, _, _ in singles]))
    others = by_sums(four, X, y, X_test, y_test, regression, seed) if criteria else {}
    return others | {
        "set": name,
        "seed": seed,
        "n_rows": len(X),
        "width": width,
        "singles": [found for _, _, found, _ in singles],
        "best": singles[best][2],
        "least": min(found for _, _, found, _ in singles),
        "equal": equal[2],
        "auto": auto[2],
        "weights": auto[0].model_.block_weights.tolist(),
        "seconds": {"single": round(singles[best][3], 2), "auto": round(auto[3], 2)},
    }


def main() -> None:
    """Print a line for each set and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--criteria", action="store_true")
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    print(json.dumps({"circumstances": circumstances()}), flush=True)
    with computing(options.threads):
        for name in options.sets:
            for seed in options.seeds:
                print(json.dumps(compared(name, seed, options.width, options.criteria)), flush=True)


if __name__ == "__main__":
    main()
