#!/usr/bin/env python
"""The estimators without any setting on sets that are made or bundled, next to boosted trees.

Smooth and rough functions, few and many columns, heavy tails, noise columns, waves, categories:
what the sets of scripts/selection.py have none of. For docs/selection.md; needs no data.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable

import numpy as np
from selection import error, estimators
from sklearn import datasets
from sklearn.model_selection import train_test_split

from streamrf.training.benchmark import circumstances

N_ROWS = 8000

Made = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]


def normal(rng: np.random.Generator, n_columns: int) -> np.ndarray:
    """Return rows of independent columns."""
    return rng.normal(size=(N_ROWS, n_columns))


def few_of_many(rng):
    """Three columns of 60 matter."""
    X = normal(rng, 60)
    return X, X[:, 0] * X[:, 1] + X[:, 2] > 0.2 * rng.normal(size=N_ROWS)


def checkerboard(rng):
    """Cells of length 1 in two of three columns, a twentieth of the labels wrong."""
    X = rng.uniform(-3, 3, size=(N_ROWS, 3))
    y = np.floor(X[:, :2]).sum(axis=1) % 2 > 0
    return X, y ^ (rng.random(N_ROWS) < 0.05)


def steps(rng):
    """Sums of jumps."""
    X = normal(rng, 12)
    y = 2.0 * (X[:, 0] > 0) + 3 * (X[:, 1] > 0.5) * (X[:, 2] < 0)
    return X, y + 0.5 * rng.normal(size=N_ROWS)


def heavy_tails(rng):
    """Columns whose logarithms are normal."""
    X = np.exp(2 * normal(rng, 10))
    y = np.log1p(X[:, 0] * X[:, 1]) + 0.3 * np.log(X[:, 2])
    return X, y + 0.2 * rng.normal(size=N_ROWS)


def units(rng):
    """Columns of sizes from 1e-4 to 1e3."""
    Z = normal(rng, 8)
    y = np.sin(2 * Z[:, 0]) + Z[:, 7] * Z[:, 3] + 0.3 * rng.normal(size=N_ROWS)
    return Z * 10.0 ** np.arange(-4, 4), y


def rare_class(rng):
    """A ball and the rest."""
    X = normal(rng, 10)
    return X, np.square(X[:, :5]).sum(axis=1) > 12


def waves(rng):
    """Four frequencies, any phase, as much noise as signal."""
    y = rng.integers(0, 4, N_ROWS)
    times = np.arange(64) + rng.uniform(0, 64, (N_ROWS, 1))
    return np.sin(2 * np.pi * times * (1 + y[:, np.newaxis]) / 32) + normal(rng, 64), y


def _categories(rng):
    codes, weights = rng.integers(0, 12, (N_ROWS, 6)), rng.normal(size=(6, 12))
    signal = sum(weights[j][codes[:, j]] for j in range(6)) + 2 * (codes[:, 0] == codes[:, 1])
    return codes, signal + 0.5 * rng.normal(size=N_ROWS) > 0


def indicators(rng):
    """Six categories of 12 levels as 72 columns of 0 and 1; two of them equal matters."""
    codes, y = _categories(rng)
    return np.eye(12)[codes].reshape(N_ROWS, -1), y


def codes_as_numbers(rng):
    """The same categories as six columns of numbers without an order."""
    codes, y = _categories(rng)
    return codes.astype(np.float64), y


def linear(rng):
    """200 columns, a linear function."""
    X = normal(rng, 200)
    return X, X @ rng.normal(size=200) + 5 * rng.normal(size=N_ROWS)


def counts(rng):
    """Targets of a Poisson distribution."""
    X = normal(rng, 8)
    return X, rng.poisson(np.exp(0.7 * X[:, 0] + 0.4 * X[:, 1] * X[:, 2])).astype(np.float64)


def outliers(rng):
    """One entry of 500 is ten thousand times too large."""
    X = normal(rng, 8)
    y = np.tanh(X[:, 0]) + np.abs(np.clip(X[:, 1], -3, 3)) + 0.2 * rng.normal(size=N_ROWS)
    return np.where(rng.random(X.shape) < 0.002, 1e4 * X, X), y


def repeated_columns(rng):
    """Five columns six times, nearly; the sign of a product."""
    X = np.hstack([normal(rng, 5)] * 6) + 0.01 * normal(rng, 30)
    return X, X[:, 0] * X[:, 1] > 0


def noise_columns(rng):
    """Four columns of 200 matter: a wave, a square and a product."""
    X = normal(rng, 200)
    y = np.sin(2 * X[:, 0]) + np.square(X[:, 1]) + X[:, 2] * X[:, 3]
    return X, y + 0.2 * rng.normal(size=N_ROWS)


def rules_on_a_grid(rng):
    """A band or a threshold, but not both, of columns in steps of a half."""
    X = np.round(2 * normal(rng, 9)) / 2
    return X, (np.abs(X[:, 0] + X[:, 1]) < 0.6) ^ (X[:, 2] > 0.9)


def rules(rng):
    """The same of columns without steps."""
    X = normal(rng, 9)
    return X, (np.abs(X[:, 0] + X[:, 1]) < 0.6) ^ (X[:, 2] > 0.9)


def missing_as_a_number(rng):
    """A seventh of the entries are -999, in place of what is not known."""
    X = normal(rng, 12)
    y = X[:, 0] * X[:, 1] + np.square(X[:, 2]) - 1 + np.sin(2 * X[:, 3]) > 0
    X = np.where(rng.random(X.shape) < 0.15, -999.0, X)
    return X, y ^ (rng.random(N_ROWS) < 0.03)


def jets(rng):
    """Momenta, angles, and what is -999 where there are fewer jets."""
    momenta, angles = np.exp(normal(rng, 6)), rng.uniform(-3, 3, (N_ROWS, 4))
    n_jets = rng.poisson(1, N_ROWS)
    own = np.where(n_jets[:, np.newaxis] > np.arange(2), np.exp(1 + normal(rng, 2)), -999.0)
    signal = np.log(momenta[:, 0] * momenta[:, 1]) + np.cos(angles[:, 0] - angles[:, 1])
    signal += (n_jets > 1) * 0.7 * np.log1p(np.abs(own[:, 1])) - 0.3
    return np.hstack([momenta, angles, own]), signal + 0.5 * rng.normal(size=N_ROWS) > 0


def of_scikit_learn(name: str, **settings) -> Made:
    """Return what makes a set of scikit-learn's."""
    return lambda rng: getattr(datasets, f"make_{name}")(
        random_state=int(rng.integers(2**31)), **({"n_samples": N_ROWS} | settings)
    )


def bundled(name: str) -> Made:
    """Return what loads a set that scikit-learn bundles."""
    return lambda rng: getattr(datasets, f"load_{name}")(return_X_y=True)


SETS: dict[str, Made] = {
    **{name: bundled(name) for name in ("digits", "breast_cancer", "wine", "iris", "diabetes")},
    "friedman1": of_scikit_learn("friedman1", noise=1.0),
    "friedman2": of_scikit_learn("friedman2", noise=100.0),
    "friedman3": of_scikit_learn("friedman3", noise=0.1),
    "classification": of_scikit_learn("classification", n_informative=10),
    "classification, clusters": of_scikit_learn(
        "classification", n_features=40, n_informative=8, n_clusters_per_class=8
    ),
    "classification, 20 classes": of_scikit_learn(
        "classification", n_features=30, n_informative=15, n_classes=20, n_clusters_per_class=1
    ),
    "hastie": of_scikit_learn("hastie_10_2"),
    "gaussian quantiles": of_scikit_learn("gaussian_quantiles", n_features=6, n_classes=4),
    "moons": of_scikit_learn("moons", noise=0.25),
    "swiss roll": of_scikit_learn("swiss_roll", noise=0.3),
    "low rank": of_scikit_learn(
        "regression", n_features=300, effective_rank=20, n_informative=30, noise=1.0
    ),
    **{
        made.__name__.replace("_", " "): made
        for made in (
            *(few_of_many, checkerboard, steps, heavy_tails, units, rare_class, waves),
            *(indicators, codes_as_numbers, linear, counts, outliers, repeated_columns),
            *(noise_columns, rules_on_a_grid, rules, missing_as_a_number, jets),
        )
    },
}


def compared(name: str, seed: int) -> dict:
    """Return the test errors of one set, a quarter of it held for the test."""
    X, y = SETS[name](np.random.default_rng(seed))
    regression = y.dtype.kind == "f" and len(np.unique(y)) > 20
    if not regression:
        y = y.astype(np.int64)
    train, test, t, truth = train_test_split(X, y, test_size=0.25, random_state=seed)
    ours, trees = estimators(regression)
    line = {"set": name, "seed": seed, "n_rows": len(train), "n_features": X.shape[1]}
    for side, kind in (("streamrf", ours), ("trees", trees)):
        began = time.perf_counter()
        found = kind(random_state=seed).fit(train, t).predict(test)
        line[f"{side}_seconds"] = round(time.perf_counter() - began, 1)
        line[side] = error(found, truth, regression)
    return line


def run(purpose: str, sets: Iterable[str], compared: Callable[[str, int], dict]) -> None:
    """Print a line for each set and seed that the command line names."""
    parser = argparse.ArgumentParser(description=purpose.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=sets, choices=sets, metavar="SET")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    options = parser.parse_args()
    print(json.dumps({"circumstances": circumstances()}), flush=True)
    for seed in options.seeds:
        for name in options.sets:
            print(json.dumps(compared(name, seed)), flush=True)


if __name__ == "__main__":
    run(__doc__, SETS, compared)
