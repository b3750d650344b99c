#!/usr/bin/env python
"""Exact kernel ridge on spambase, and the time of predictions with the intersection kernel.

    STREAMRF_DATA=... scripts/kernel_ridge.py [--seeds 0 1]

Prints a JSON line a kernel and seed: penalty chosen, error on test rows in %, seconds of the fit;
then one for each number of rows fitted: microseconds of a prediction by search, and by kernel
values (the least of five, 2,000 rows of 50 columns).
"""

import argparse
import json
import time

import numpy as np
from selection import error, rows_of

import streamrf as srf
from streamrf.kernels.base import Expansion

CASES = (
    (srf.Intersection(), None),
    (srf.Intersection(), "l1"),
    (srf.Chi2(), None),
    (srf.Chi2(), "l1"),
    (srf.Gaussian("median"), "asinh"),
)


def microseconds(function, rows) -> float:
    """Return the least time of a row."""
    found = []
    for _ in range(5):
        began = time.perf_counter()
        function(rows)
        found.append(time.perf_counter() - began)
    return round(1e6 * min(found) / len(rows), 1)


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    for seed in parser.parse_args().seeds:
        X, y, X_test, y_test = rows_of("spambase", seed)
        for kernel, normalize in CASES:
            began = time.perf_counter()
            model = srf.KernelRidgeClassifier(kernel, normalize=normalize).fit(X, y)
            line = {"seed": seed, "kernel": repr(kernel), "normalize": normalize}
            line |= {"alpha": model.alpha_, "seconds": round(time.perf_counter() - began, 1)}
            line["error"] = round(error(model.predict(X_test), y_test, regression=False), 3)
            print(json.dumps(line), flush=True)
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(2000, 50))
    for n_rows in (250, 1000, 4000):
        rows, coef = rng.exponential(size=(n_rows, 50)), rng.normal(size=(n_rows, 1))
        kernel, line = srf.Intersection(), {"n_rows": n_rows}
        line["search"] = microseconds(kernel.expansion(rows, coef), X)
        line["kernel values"] = microseconds(Expansion(kernel, rows, coef), X)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
