#!/usr/bin/env python
"""Piecewise-linear and tree-gated features next to a Gaussian, and to what `select` chooses.

    STREAMRF_DATA=... scripts/piecewise.py [--sets spambase] [--widths 512 2048] [--maps select]

Prints a JSON line a set, width, seed and map: errors in % (RMSE for values) on a quarter of the
training rows held out, and of the map fitted to all of them on the test rows. The Gaussian is the
best of scalings and gammas on rows held out, in the rounds of a tournament: all with 512 features
on 6,000 rows, then the best three and their neighbours at the width on all rows. Other choices are
those of the library. At most 20,000 training rows.
"""

import argparse
import json

from selection import error, held_apart
from shared import REGRESSION

import streamrf as srf
from streamrf.training.candidates import crossed
from streamrf.training.judging import Judge

SETS = ("adult_a9a", "covtype_sample15k", "spambase", "california_housing", "pendigits")


def gaussian(X, y, width, seed, regression):
    """Return the best Gaussian map and its scaling."""
    judge = Judge(X, y, regression=regression, seed=seed)
    found = [judge.try_(each, min(width, 512), 6000, 2000) for each in crossed(["gaussian"])]
    best = [trial.candidate for trial in sorted(found, key=lambda trial: trial.error)[:3]]
    last = dict.fromkeys([*best, *(near for each in best for near in each.neighbours())])
    trials = [judge.try_(each, width, len(X), len(X)) for each in last]
    winner = min(trials, key=lambda trial: trial.error).candidate
    return judge.feature_map(winner, width, seed), winner.normalize


def selected(X, y, width, seed, regression):
    """Return what `select` chooses of all kernels."""
    task = "regression" if regression else "classification"
    found = srf.select(
        srf.ArraySource(X, y), n_components=width, warp=None, task=task, random_state=seed
    )
    return found.features, found.normalize


MAPS = {
    "gaussian": gaussian,
    "select": selected,
    "piecewise": lambda X, y, width, *_: (srf.PiecewiseLinear(width), None),
    "tree-gated": lambda X, y, width, *_: (srf.TreeGated(width), "standard"),
    "columns": lambda X, y, width, *_: (srf.PiecewiseLinear(width, pairs=False), None),
}


def fitted_error(case, X, y, X_test, y_test, seed, regression):
    """Return the error of a map and a scaling."""
    kind = srf.RandomFeatureRegressor if regression else srf.RandomFeatureClassifier
    model = kind(case[0], normalize=case[1], random_state=seed).fit(srf.ArraySource(X, y))
    return error(model.predict(X_test), y_test, regression)


def main() -> None:
    """Print a line for each set, width, seed and map."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--widths", nargs="*", type=int, default=[512, 2048])
    parser.add_argument("--maps", nargs="*", default=list(MAPS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1])
    options = parser.parse_args()
    for seed in options.seeds:
        for name in options.sets:
            X, y, held, kept, test = held_apart(name, seed)
            regression = name in REGRESSION
            for width in options.widths:
                for map_ in options.maps:
                    line = {"set": name, "width": width, "seed": seed, "map": map_}
                    case = MAPS[map_](X[kept], y[kept], width, seed, regression)
                    parts = (X[kept], y[kept], X[held], y[held]), (X, y, *test)
                    for key, rows in zip(("held", "test"), parts, strict=True):
                        line[key] = round(fitted_error(case, *rows, seed, regression), 4)
                    line["chosen"] = " ".join(f"{case[1]} {case[0]!r}".split())
                    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
