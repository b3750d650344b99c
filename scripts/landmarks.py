#!/usr/bin/env python
"""Additive kernels on spambase, and landmarks of `Nystroem` on pendigits.

    STREAMRF_DATA=... scripts/landmarks.py [--seeds 0 1 2]

Prints a JSON line a set, width or map, and seed: what was chosen, and the error on test rows in %.
Kernel and scaling are those with the least mean error on two random quarters held out of the
training rows. A seed is of the draw, and for spambase of the split into training and test rows.
"""

import argparse
import json

import numpy as np
from selection import error, rows_of

import streamrf as srf

GAMMAS = (0.25, 0.5, 1.0, 2.0, 4.0)


def landmarks(kernel, width, how="kmeans"):
    """Return a Nystroem map without a seed, which the estimator sets."""
    return srf.Nystroem(kernel, width, landmarks=how)


def of_pendigits(width):
    """Return pairs of map and scaling; gammas are for rows of 16 columns."""
    found = [(landmarks(srf.Gaussian(g), width), "max") for g in GAMMAS]
    found += [(landmarks(srf.Gaussian(g / 16), width), "standard") for g in GAMMAS]
    return found + [(landmarks(srf.Polynomial(d), width), "l2") for d in (5, 9)]


def of_spambase():
    """Return pairs of map and scaling, by the kind of the map."""
    additive = (srf.Chi2(), srf.Intersection(), srf.JensenShannon(), srf.Hellinger())
    return {
        "chi2": [(srf.AdditiveSampler(srf.Chi2()), None)],
        "additive": [(srf.AdditiveSampler(kernel), None) for kernel in additive],
        "fourier of chi2": [
            (srf.AdditiveFourier(srf.ExpChi2(g / 100), 1024), None) for g in GAMMAS
        ],
    }


def fitted_error(case, X, y, X_test, y_test, seed):
    """Return the error of a map and a scaling, in %."""
    features, normalize = case
    model = srf.RandomFeatureClassifier(features, normalize=normalize, random_state=seed)
    return error(model.fit(X, y).predict(X_test), y_test, regression=False)


def chosen(cases, X, y, seed):
    """Return the case with the least mean error on rows held out."""
    means = []
    for case in cases if len(cases) > 1 else []:
        errors = []
        for split in range(2):
            held, fitted = np.split(np.random.default_rng(split).permutation(len(X)), [len(X) // 4])
            errors.append(fitted_error(case, X[fitted], y[fitted], X[held], y[held], seed))
        means.append(np.mean(errors))
    return cases[int(np.argmin(means))] if means else cases[0]


def main() -> None:
    """Run both trials."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    for seed in parser.parse_args().seeds:
        rows = rows_of("spambase", seed)
        for kind, cases in of_spambase().items():
            best = chosen(cases, *rows[:2], seed)
            line = {"set": "spambase", "seed": seed, "map": kind, "chosen": str(best)}
            print(json.dumps(line | {"error": fitted_error(best, *rows, seed)}), flush=True)
        rows = rows_of("pendigits", seed)
        for width in (64, 128, 512):
            best = chosen(of_pendigits(width), *rows[:2], seed)
            for how in ("kmeans", "uniform", "leverage"):
                case = landmarks(best[0].kernel, width, how), best[1]
                line = {"set": "pendigits", "seed": seed, "landmarks": how, "width": width}
                line |= {"chosen": str(best), "error": fitted_error(case, *rows, seed)}
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
