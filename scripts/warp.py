#!/usr/bin/env python
"""What a warp of the rows gains: the same tournament without one and with warp="auto".

    STREAMRF_DATA=... scripts/warp.py [--sets pendigits usps] [--seeds 0 1] [--width 1024]

Chooses scaling, kernel and gamma from a peek at the training rows, once without a warp and once
with the choice of one, fits both to the training rows and prints a JSON line a set and seed: errors
on test rows in % (RMSE for values), what was chosen, and processor seconds of learning the warp.
The best warped candidate is shown by its error on the rows held out even where it was not taken.
"""

import argparse
import json
import time

import numpy as np
from selection import error, rows_of
from shared import REGRESSION

import streamrf as srf
from streamrf.training.candidates import Candidate, crossed
from streamrf.training.judging import Judge
from streamrf.training.kernel_names import DEFAULT
from streamrf.training.kinds import KINDS
from streamrf.training.peeking import peek
from streamrf.training.ranking import order_of
from streamrf.training.tournament import Tournament

SETS = (
    "pendigits", "usps", "ijcnn1", "spambase", "covtype_sample15k", "adult_a9a", "cod_rna",
    "flights",
)  # fmt: skip


def compared(name: str, seed: int, width: int, n_rows: int, kernels: list[str]) -> dict:
    """Return the figures of one set and seed."""
    X, y, X_test, y_test = rows_of(name, seed)
    kept = np.random.default_rng(seed).permutation(len(X))[:n_rows]
    X, y, regression = X[kept], y[kept], name in REGRESSION
    sample = peek(srf.ArraySource(X, y))
    estimator = srf.RandomFeatureRegressor if regression else srf.RandomFeatureClassifier
    line = {"set": name, "seed": seed, "n_rows": len(X), "width": width}
    judge = Judge(sample.X, sample.y, regression=regression, seed=seed)
    chosen: dict[str | None, Candidate] = {}
    for warp in (None, "auto"):
        winner = Tournament(judge, field=crossed(kernels), warp=warp).winner(width)[0]
        best = chosen[warp] = winner.candidate
        word = warp or "plain"
        line[word], line[f"{word}_held"] = str(best), winner.error
        if warp == "auto" and best == chosen[None]:
            line["auto_error"] = line["plain_error"]
            continue
        fitted = estimator(
            judge.feature_map(best, width, seed),
            normalize=best.normalize,
            warp=judge.warp(best.normalize, best.warp),
            random_state=seed,
        ).fit(X, y)
        line[f"{word}_error"] = error(fitted.predict(X_test), y_test, regression)
    warped = [t for t in judge.trials if t.candidate.warp is not None]
    if warped:
        best = order_of(warped)[0].candidate
        line["best_warped"], line["best_warped_held"] = str(best), order_of(warped)[0].error
        fresh = Judge(sample.X, sample.y, regression=regression, seed=seed)
        fresh.scaled.rows(best.normalize)
        began = time.process_time()
        fresh.warp(best.normalize, best.warp)
        line["learning_seconds"] = round(time.process_time() - began, 2)
    return line


def main() -> None:
    """Print a line for each set and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1])
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=60_000, help="training rows at most")
    parser.add_argument("--kernels", nargs="*", choices=KINDS, default=list(DEFAULT))
    options = parser.parse_args()
    for seed in options.seeds:
        for name in options.sets:
            line = compared(name, seed, options.width, options.rows, options.kernels)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
