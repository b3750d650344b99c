#!/usr/bin/env python
"""How close a tournament comes to the best of a whole grid, on rows never looked at.

    python scripts/tournament.py [--sets pendigits usps] [--width 512] [--peek 16000]

Both choose by rows held out of the same peek at the training rows; the winner is then fitted to all
of the peek at the same width and measured on test rows. Prints a JSON line a set; the trials go to
the file named by --log.
"""

import argparse
import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path

import h5py
import numpy as np
from shared import REGRESSION, SETS, data_folder

import streamrf as srf
from streamrf.training import tournament as t

TEST_ROWS = 10_000


def rows_of(name: str, n_peek: int, seed: int):
    """Return X, y of a peek at the training rows and X, y of test rows."""
    rng = np.random.default_rng(seed)
    with h5py.File(data_folder() / f"{name}.h5") as file:
        if "train" in file:
            X, y, X_test, y_test = (file[k][:] for k in ("train/X", "train/y", "test/X", "test/y"))
        else:
            X, y = file["X"][:], file["y"][:]
            order = rng.permutation(len(X))
            test, train = order[: len(X) // 4], order[len(X) // 4 :]
            X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    peek = rng.permutation(len(X))[:n_peek]
    test = rng.permutation(len(X_test))[:TEST_ROWS]
    return X[peek], y[peek], X_test[test], y_test[test]


def test_error(judge: t.Judge, trial: t.Trial, width: int, X, y, X_test, y_test) -> float:
    """Return the error on test rows of the winner fitted to the whole peek."""
    map_ = judge.feature_map(trial.candidate, width, judge.seed)
    settings = {"regression": judge.regression, "random_state": judge.seed}
    sums = srf.accumulate(
        srf.ArraySource(X, y), map_, normalize=trial.candidate.normalize, **settings
    )
    model = sums.solve(trial.alpha * len(y) / trial.n_rows, random_state=judge.seed)
    found = model.predict(X_test)
    if judge.regression:
        return float(np.sqrt(np.mean((found - y_test) ** 2)))
    return float(100 * np.mean(found != y_test))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--peek", type=int, default=16_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=20.0)
    parser.add_argument("--no-grid", action="store_true")
    parser.add_argument("--log", type=Path, default=Path(os.devnull))
    options = parser.parse_args()
    width, budget = options.width, options.budget
    for name in options.sets:
        X, y, X_test, y_test = rows_of(name, options.peek, options.seed)
        told = {"set": name, "n_peek": len(X), "width": options.width}
        ways = {"tournament": lambda judge: t.Tournament(judge, budget).winner(width)[0]}
        if not options.no_grid:
            ways["grid"] = lambda judge: t.grid(judge, options.width)
        for way, choose in ways.items():
            judge = t.Judge(X, y, regression=name in REGRESSION, seed=options.seed)
            began = time.perf_counter()
            winner = choose(judge)
            seconds = time.perf_counter() - began
            told[way] = {
                "winner": asdict(winner.candidate),
                "held_out": winner.error,
                "test": test_error(judge, winner, options.width, X, y, X_test, y_test),
                "seconds": round(seconds, 1),
                "n_trials": len(judge.trials),
            }
            with options.log.open("a") as file:
                for trial in judge.trials:
                    figures = asdict(replace(trial, losses=None))
                    print(json.dumps({"set": name, "way": way, **figures}), file=file)
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
