#!/usr/bin/env python
"""What a newcomer gets: the estimators without any setting, next to gradient-boosted trees.

    STREAMRF_DATA=... scripts/selection.py [--sets pendigits usps] [--seeds 0 1 2]
        [--grid [--kept FOLDER]]

Trains `RandomFeatureClassifier(random_state=seed)`, or the regressor, and scikit-learn's
`HistGradientBoosting` with its defaults on the same training rows, and prints a JSON line a set and
seed: errors on test rows in % (RMSE for values), seconds, and what was chosen. Sets without a test
part are split at random, three quarters to train. No choice looks at the test rows.

With --grid also the error of the best of a grid over every default kernel, scaling and setting, at
the same width, chosen on a quarter of at most 20,000 training rows and fitted to all of them. With
--kept FOLDER a run that was lost, which may take hours, goes on from the trials that are there.
"""

import argparse
import json
import pickle
import time
from pathlib import Path

import h5py
import numpy as np
from shared import REGRESSION, SETS, data_folder
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import streamrf as srf
from streamrf.training.benchmark import circumstances
from streamrf.training.judging import Judge
from streamrf.training.tournament import grid

MAX_ROWS = 20_000  # of the training rows, in studies of what to choose


def rows_of(name: str, seed: int):
    """Return X, y of the training rows and of the test rows."""
    with h5py.File(data_folder() / f"{name}.h5") as file:
        if "train" in file:
            return tuple(file[key][:] for key in ("train/X", "train/y", "test/X", "test/y"))
        X, y = file["X"][:], file["y"][:]
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = np.split(order, [3 * len(X) // 4])
    return X[train], y[train], X[test], y[test]


def held_apart(name: str, seed: int):
    """Return at most `MAX_ROWS` training rows X, y, those held out and those kept, test X, y."""
    X, y, *test = rows_of(name, seed)
    order = np.random.default_rng(seed).permutation(len(X))[:MAX_ROWS]
    held, kept = np.split(np.arange(len(order)), [len(order) // 4])
    return X[order], y[order], held, kept, test


def estimators(regression: bool) -> tuple[type, type]:
    """Return our estimator of classes or values, and that of boosted trees."""
    if regression:
        return srf.RandomFeatureRegressor, HistGradientBoostingRegressor
    return srf.RandomFeatureClassifier, HistGradientBoostingClassifier


def error(found, y, regression: bool) -> float:
    """Return the error in %, or the RMSE of values."""
    if regression:
        return float(np.sqrt(np.mean((found - y) ** 2)))
    return float(100 * np.mean(found != y))


class Kept(dict):
    """Trials that a file keeps, by candidates."""

    def __init__(self, path: Path):
        super().__init__(pickle.loads(path.read_bytes()) if path.exists() else {})
        self.path = path

    def __setitem__(self, candidate, trial):
        super().__setitem__(candidate, trial)
        new = self.path.with_suffix(".new")
        new.write_bytes(pickle.dumps(dict(self)))
        new.replace(self.path)


def best_of_grid(X, y, width: int, seed: int, ours: type, kept: Path | None):
    """Return the best candidate of a grid, and its model of all rows."""
    order = np.random.default_rng(seed).permutation(len(X))[:MAX_ROWS]
    regression = ours is srf.RandomFeatureRegressor
    judge = Judge(X[order], y[order], regression=regression, seed=seed)
    best = grid(judge, width, {} if kept is None else Kept(kept)).candidate
    map_ = judge.feature_map(best, width, seed)
    fitted = ours(map_, normalize=best.normalize, random_state=seed).fit(srf.ArraySource(X, y))
    return best, fitted


def compared(
    name: str, seed: int, with_trees: bool, with_grid: bool, folder: Path | None = None
) -> dict:
    """Return the figures of one set and seed; trials of the grid are kept in a folder."""
    X, y, X_test, y_test = rows_of(name, seed)
    regression = name in REGRESSION
    ours, trees = estimators(regression)
    began = time.perf_counter()
    fitted = ours(random_state=seed).fit(srf.ArraySource(X, y))
    line = {"set": name, "seed": seed, "n_rows": len(X), "n_features": X.shape[1]}
    line["seconds"] = round(time.perf_counter() - began, 1)
    line["error"] = error(fitted.predict(X_test), y_test, regression)
    encoder = fitted.model_.encoder
    line["chosen"] = None if encoder.tried is None else encoder.tried["candidate"][0]
    line["n_components"] = encoder.n_components
    if with_grid:
        began = time.perf_counter()
        width = encoder.n_components
        kept = None if folder is None else folder / f"{name}-{seed}-{width}.pickle"
        best, other = best_of_grid(X, y, width, seed, ours, kept)
        line["grid_seconds"] = round(time.perf_counter() - began, 1)
        line["grid_error"] = error(other.predict(X_test), y_test, regression)
        line["grid_chosen"] = str(best)
    if with_trees:
        began = time.perf_counter()
        other = trees(random_state=seed).fit(X, y)
        line["trees_seconds"] = round(time.perf_counter() - began, 1)
        line["trees_error"] = error(other.predict(X_test), y_test, regression)
    return line


def main() -> None:
    """Print a line for each set and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--no-trees", action="store_true")
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--kept", type=Path)
    options = parser.parse_args()
    print(json.dumps({"circumstances": circumstances()}), flush=True)
    for seed in options.seeds:
        for name in options.sets:
            with_trees = not options.no_trees
            line = compared(name, seed, with_trees, options.grid, options.kept)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
