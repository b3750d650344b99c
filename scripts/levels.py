#!/usr/bin/env python
"""What the levels of the rounding cost and gain: errors, seconds, clipped entries, split blocks.

    python scripts/levels.py errors     # by levels, and without rounding
    python scripts/levels.py cost       # seconds of a pass at 512 levels over those at 32
    python scripts/levels.py heavy      # blocks beyond the bound of a product, and entries clipped

Prints one JSON line a case and then a table; data sets are found by STREAMRF_DATA. The tables of
design/0008-levels.md are made by it.
"""

import argparse
import json
import statistics
import time

import h5py
import numpy as np
from shared import data_folder

import streamrf as srf
from streamrf.preprocessing import rounding
from streamrf.preprocessing.rounding import Rounding
from streamrf.statistics import gram

SEEDS = range(3)
PRECISIONS = ("coarse", "32", "exact", "float64")
NAMES = {"coarse": "24", "32": "32", "exact": "512", "float64": "float64"}

rounding.PRECISIONS["32"] = Rounding  # what totals of 32 bits take, here for others too


def rows_of(name: str, seed: int, n_rows: int | None = None):
    """Return X, y and X_test, y_test; without an official split, a quarter is for the test."""
    with h5py.File(data_folder() / f"{name}.h5") as file:
        if "train" in file:
            parts = [(file[f"{part}/X"][:n_rows], file[f"{part}/y"][:n_rows]) for part in
                     ("train", "test")]  # fmt: skip
        else:
            X, y = file["X"][:], file["y"][:]
            order = np.random.default_rng(seed).permutation(len(X))
            cut = 3 * len(X) // 4 if n_rows is None else n_rows
            test = order[cut : cut + 100_000]
            parts = [(X[order[:cut]], y[order[:cut]]), (X[test], y[test])]
    (X, y), (X_test, y_test) = parts
    return X.astype(np.float32), y, X_test.astype(np.float32), y_test


def standardised(X, X_test):
    """Return both with the columns of X of mean 0 and deviation 1."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0] = 1
    return (X - mean) / deviation, (X_test - mean) / deviation


def compact(degree: int, width: int, seed: int) -> srf.Craft:
    """Return a compact Maclaurin map of eight times as many products."""
    up = srf.RandomMaclaurin(srf.Polynomial(degree=degree, coef0=1.0), 8 * width, h01=True)
    return srf.Craft(up, width, random_state=seed)


def case(name: str, seed: int):
    """Return rows, a map and the settings of a case."""
    settings = {"alpha": "auto", "random_state": seed}
    if name.startswith("pendigits"):
        rows = rows_of("pendigits", seed)
        return *rows, compact(int(name[-1]), 1024, seed), settings | {"normalize": "l2"}
    if name.startswith("california"):
        X, y, X_test, y_test = rows_of("california_housing", seed)
        X, X_test = standardised(X, X_test)
        return (
            X,
            y,
            X_test,
            y_test,
            compact(int(name[-1]), 1024, seed),
            settings | {"normalize": "l2"},
        )
    rows = rows_of("flights", seed, 300_000)
    map_ = srf.StructuredFourier(srf.Gaussian(gamma=0.003), 1024, random_state=seed)
    return *rows, map_, settings | {"normalize": "standard"}


def errors(only: str = "") -> None:
    """Print errors by levels: % of labels, or RMSE."""
    table = []
    names = ("pendigits 5", "pendigits 9", "california 5", "california 9", "flights 0.003")
    for name in (name for name in names if only in name):
        found: dict[str, list[float]] = {word: [] for word in PRECISIONS}
        for seed in SEEDS:
            X, y, X_test, y_test, map_, settings = case(name, seed)
            kind = srf.RandomFeatureClassifier
            if not name.startswith("pendigits"):
                kind = srf.RandomFeatureRegressor
            for word in PRECISIONS:
                model = kind(map_, precision=word, **settings).fit(X, y)
                if kind is srf.RandomFeatureClassifier:
                    error = 100 * (1 - model.score(X_test, y_test))
                else:
                    error = float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))
                found[word].append(error)
                told = {
                    "case": name,
                    "seed": seed,
                    "levels": NAMES[word],
                    "error": error,
                    "alpha": float(np.mean(model.model_.alpha)),
                    "rounding_alpha": model.statistics_.rounding_alpha,
                    "n_clipped": model.statistics_.n_clipped,
                }
                print(json.dumps(told), flush=True)
        table.append((name, [f"{np.mean(found[word]):.6g}" for word in PRECISIONS]))
    _print_table("set, degree or gamma", list(NAMES.values()), table)


def cost() -> None:
    """Print seconds of passes at 512 and 32 levels in turn, in one process."""
    table = []
    for name, n_rows, width, repeats in (
        ("mnist", 20_000, 1024, 7),
        ("mnist", 8_192, 4096, 5),
        ("flights", 65_536, 1024, 7),
        ("flights", 12_288, 4096, 5),
    ):
        with h5py.File(data_folder() / f"{name}.h5") as file:
            prefix = "train/" if "train" in file else ""
            X, y = file[f"{prefix}X"][:n_rows], file[f"{prefix}y"][:n_rows]
        if name == "mnist":
            map_ = compact(7, width, 0)
            settings = {"normalize": "l2"}
        else:
            map_ = srf.StructuredFourier(srf.Gaussian(gamma=0.01), width, random_state=0)
            settings = {"normalize": "standard", "regression": True}
        seconds: dict[str, list[float]] = {"32": [], "exact": []}
        for number in range(1 + repeats):
            for word in seconds:
                began = time.perf_counter()
                srf.accumulate(srf.ArraySource(X, y), map_, precision=word, **settings)
                if number:
                    seconds[word].append(time.perf_counter() - began)
        ratios = [b / a for a, b in zip(*seconds.values(), strict=True)]
        medians = {NAMES[word]: statistics.median(times) for word, times in seconds.items()}
        told = {"set": name, "n_rows": n_rows, "width": width, "seconds": medians, "ratios": ratios}
        print(json.dumps(told), flush=True)
        ratio = medians["512"] / medians["32"]
        row = [*(f"{value:.2f}" for value in medians.values()), f"{ratio:.3f}"]
        table.append((f"{name}, {n_rows:,} rows, E = {width:,}", row))
    _print_table("pass", ["s at 32", "s at 512", "ratio"], table)


def heavy() -> None:
    """Print the share of rows multiplied in float64 and of entries clipped."""
    counted = {"heavy": 0}
    add_heavy = gram.ExactGram._add_heavy

    def counting(self, Q):
        counted["heavy"] += len(Q)
        add_heavy(self, Q)

    gram.ExactGram._add_heavy = counting  # type: ignore[method-assign]
    table = []
    third, ninth = (srf.Polynomial(degree=degree, coef0=1.0) for degree in (3, 9))
    maps = {
        "Maclaurin 3": srf.RandomMaclaurin(third, 1024),
        "Maclaurin 9": srf.RandomMaclaurin(ninth, 1024),
        "Maclaurin 9, h01": srf.RandomMaclaurin(ninth, 1024, h01=True),
        "compact 9": compact(9, 1024, 0),
        "Fourier": srf.StructuredFourier(srf.Gaussian(), 1024),
    }
    for name, normalize in (
        ("mnist", "l2"),
        ("mnist", "standard"),
        ("pendigits", "l2"),
        ("adult_a9a", "l2"),
        ("spambase", "standard"),
        ("california_housing", "standard"),
    ):
        X, y = rows_of(name, 0)[:2]
        X, y = X[:16_384], y[:16_384]
        for label, map_ in maps.items():
            found = {}
            for word in ("32", "exact"):
                counted["heavy"] = 0
                settings = {"regression": name.startswith("cal"), "random_state": 0}
                began = time.perf_counter()
                sums = srf.accumulate(
                    srf.ArraySource(X, y), map_, normalize=normalize, precision=word, **settings
                ).sums
                found[word] = {
                    "seconds": time.perf_counter() - began,
                    "n_splits": sums.gram.n_splits,
                    "heavy_share": counted["heavy"] / len(X),
                    "clipped_share": sums.n_clipped / (len(X) * sums.n_components),
                }
            print(json.dumps({"set": name, "normalize": normalize, "map": label, **found}))
            old, new = found["32"], found["exact"]
            row = [
                f"{new['n_splits']}",
                f"{100 * new['heavy_share']:.2f}",
                f"{1e6 * old['clipped_share']:.2f}",
                f"{1e6 * new['clipped_share']:.2f}",
                f"{new['seconds'] / old['seconds']:.2f}",
            ]
            table.append((f"{name} ({normalize}), {label}", row))
    heads = ["splits", "heavy rows, %", "clipped at 32, 1e-6", "at 512", "seconds, ratio"]
    _print_table("rows, map", heads, table)


def _print_table(head, columns, rows):
    print("| " + " | ".join([head, *columns]) + " |")
    print("|---" * (1 + len(columns)) + "|")
    for name, cells in rows:
        print("| " + " | ".join([name, *cells]) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = {"errors": errors, "cost": cost, "heavy": heavy}
    parser.add_argument("what", choices=commands)
    parser.add_argument("--only", default="", help="of errors, a word that cases have")
    options = parser.parse_args()
    if options.what == "errors":
        errors(options.only)
    else:
        commands[options.what]()


if __name__ == "__main__":
    main()
