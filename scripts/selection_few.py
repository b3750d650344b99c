#!/usr/bin/env python
"""A choice by few rows: the estimators without any setting next to the usual Gaussian.

    [STREAMRF_DATA=...] scripts/selection_few.py [--rows 100 200 400] [--seeds 0 1 2] [--sets ...]

Fits so many random training rows of the sets of scripts/selection_made.py, and of those of
scripts/selection.py where STREAMRF_DATA tells where they are, without settings and with what is
taken where rows say too little: 512 features of a Gaussian of the median distance, columns scaled
to unit deviation. Prints a JSON line for each with the errors on at most 4,000 other rows (in %, or
the squared error over the variance), then the geometric mean of their ratios by number of rows; a
percent is added to both sides, as errors of few test rows are noise below that.
"""

import argparse
import json
import os
import statistics
import time
from collections import defaultdict

import numpy as np
import selection
import selection_made
from shared import REGRESSION
from shared import SETS as REAL

import streamrf as srf
from streamrf.training.benchmark import circumstances

MADE = selection_made.SETS
MAX_TEST = 4000
FLOOR = 1.0  # percent, added to both errors of a ratio


def rows_of(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return X, y and whether y holds values."""
    if name in MADE:
        X, y = MADE[name](np.random.default_rng(seed))
        regression = y.dtype.kind == "f" and len(np.unique(y)) > 20
        return X, y if regression else y.astype(np.int64), regression
    X, y, *_ = selection.rows_of(name, seed)
    return X, y, name in REGRESSION


def compared(name: str, n_rows: int, seed: int) -> dict:
    """Return the errors of one set."""
    X, y, regression = rows_of(name, seed)
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[:n_rows], order[n_rows : n_rows + MAX_TEST]
    kind = srf.RandomFeatureRegressor if regression else srf.RandomFeatureClassifier
    usual = srf.StructuredFourier(srf.Gaussian("median"), 512)
    line = {"set": name, "n_rows": n_rows, "seed": seed}
    for side, options in (("chosen", {}), ("usual", {"features": usual, "normalize": "standard"})):
        began = time.perf_counter()
        fitted = kind(random_state=seed, **options).fit(X[train], y[train])
        line[f"{side}_seconds"] = round(time.perf_counter() - began, 2)
        found = fitted.predict(X[test])
        if regression:
            line[side] = float(100 * np.mean((found - y[test]) ** 2) / np.var(y[test]))
        else:
            line[side] = selection.error(found, y[test], False)
        if side == "chosen":
            tried = fitted.model_.encoder.tried
            line["winner"] = None if tried is None else tried["candidate"][0]
    return line


def main() -> None:
    """Print a line for each set, number of rows and seed, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*MADE, *(REAL if "STREAMRF_DATA" in os.environ else ())]
    parser.add_argument("--sets", nargs="*", default=known, choices=known, metavar="SET")
    parser.add_argument("--rows", nargs="*", type=int, default=[100, 200, 400])
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    print(json.dumps({"circumstances": circumstances()}), flush=True)
    errors = defaultdict(list)
    for name in options.sets:
        n_known = len(rows_of(name, 0)[0])
        for n_rows in options.rows:
            for seed in options.seeds if n_rows <= 0.7 * n_known else ():
                line = compared(name, n_rows, seed)
                print(json.dumps(line), flush=True)
                errors[n_rows, name].append((line["chosen"], line["usual"]))
    for n_rows in options.rows:
        means = [np.mean(pairs, axis=0) + FLOOR for (n, _), pairs in errors.items() if n == n_rows]
        ratios = [float(chosen / usual) for chosen, usual in means]
        if ratios:
            figures = {"n_rows": n_rows, "sets": len(ratios)}
            figures["ratio"] = round(statistics.geometric_mean(ratios), 3)
            figures |= {"least": round(min(ratios), 3), "greatest": round(max(ratios), 3)}
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
