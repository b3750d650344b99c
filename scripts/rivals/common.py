"""What every side shares: rows from the file, the choice of settings, one line of figures.

A side is a script that calls `main` with its way to train and the settings to choose among. Only
NumPy and h5py are needed here, so that it runs in every side's environment.
"""

import argparse
import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import h5py
import numpy as np

TUNE_ROWS, HELD_ROWS = 12_000, 4000
QUICK_ROWS = 8000
NOT_TOLD = ("memory", "classes", "tune_rows")
GAMMAS = (0.005, 0.01, 0.02, 0.03, 0.045)  # of pixels from 0 to 1
COLUMN_GAMMAS = (0.003, 0.01, 0.03, 0.1, 0.3)  # of columns with mean 0 and variance 1

Predict = Callable[[np.ndarray], np.ndarray]  # rows to labels or values


@dataclass(frozen=True)
class Rows:
    """Some rows of a part of a file.

    Parameters
    ----------
    path : HDF5 file
    part : "train" or "test"
    start, stop : rows of the part
    """

    path: str
    part: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def blocks(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Read `size` rows at a time."""
        with h5py.File(self.path) as file:
            X, y = file[self.part]["X"], file[self.part]["y"]
            for first in range(self.start, self.stop, size):
                last = min(first + size, self.stop)
                yield X[first:last], y[first:last]

    def all(self) -> tuple[np.ndarray, np.ndarray]:
        """Read everything at once."""
        return next(self.blocks(len(self)))


def main(train: Callable[[Rows, dict], Predict], grid: Callable[[dict], list[dict]]) -> None:
    """Choose settings, or train on all rows, be tested, and print figures.

    Parameters
    ----------
    train : ``train(rows, settings)`` returns ``predict(X)``
    grid : ``grid(settings)`` returns what to choose from, next to what the contest fixes
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--settings", type=json.loads, required=True)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--memory", type=float, required=True)
    given = parser.parse_args()
    n_bytes = int(given.memory * 2**30)
    given.settings |= {"memory": n_bytes, "classes": is_classes(given.data)}
    with h5py.File(given.data) as file:
        n_train, n_test = (len(file[part]["X"]) for part in ("train", "test"))
    n_train = min(n_train, given.rows or n_train)
    if given.quick:
        n_train = min(n_train, QUICK_ROWS)
    if given.tune:
        n_held = min(HELD_ROWS, n_train // 4)
        n_rows = min(given.settings.get("tune_rows", TUNE_ROWS), n_train - n_held)
        rows = Rows(given.data, "train", 0, n_rows)
        held = Rows(given.data, "train", n_rows, n_rows + n_held)
        tried = []
        for choice in grid(given.settings):
            figures = errors(train(rows, given.settings | choice), held)
            tried.append({"settings": choice, "error": figures["error"]})
        print(json.dumps({**min(tried, key=lambda one: one["error"]), "tried": tried}))
        return
    load = os.getloadavg()[0]
    imports = process_seconds()
    began = time.perf_counter()
    predict = train(Rows(given.data, "train", 0, n_train), given.settings)
    seconds = time.perf_counter() - began
    figures = {
        "seconds": seconds,
        "seconds_with_imports": seconds + imports,
        "peak_bytes": peak_bytes(),
        "n_rows": getattr(predict, "n_rows", n_train),
        **errors(predict, Rows(given.data, "test", 0, n_test)),
        "settings": {name: given.settings[name] for name in given.settings if name not in NOT_TOLD},
        "load": round(load, 2),
        "threads": len(os.sched_getaffinity(0)),
        "versions": versions(),
    }
    print(json.dumps(figures))


def errors(predict: Predict, rows: Rows) -> dict:
    """Return the share of wrong labels; of values the share of their variance not explained."""
    found, true = [], []
    for X, y in rows.blocks(4096):
        found.append(predict(X))
        true.append(y)
    found, true = np.concatenate(found), np.concatenate(true)
    if is_classes(rows.path):
        return {"error": float(np.mean(found != true))}
    residual = np.mean((found - true.astype(np.float64)) ** 2)
    return {"error": float(residual / np.var(true)), "rmse": float(np.sqrt(residual))}


def is_classes(path: str) -> bool:
    """Return whether the targets are labels, which are integers."""
    with h5py.File(path) as file:
        return file["test/y"].dtype.kind in "iu"


def labels(path: str) -> np.ndarray:
    """Return the classes, in order."""
    with h5py.File(path) as file:
        return np.unique(file["test/y"])


def codes(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return +1 in the column of the class, -1 elsewhere, (n, n_classes) float64."""
    return np.where(y[:, None] == classes, 1.0, -1.0)


def unit_length(X: np.ndarray) -> np.ndarray:
    """Return rows as float32 of unit length."""
    X = X.astype(np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def process_seconds() -> float:
    """Return the time since this process started."""
    ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    return now - int(ticks) / os.sysconf("SC_CLK_TCK")


def peak_bytes() -> int:
    """Return the most memory that this process has had resident."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    raise OSError("/proc/self/status names no VmHWM")


def limit_memory(n_bytes: int) -> None:
    """Let an allocation fail that would go beyond."""
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))


def versions() -> dict[str, str]:
    """Return the versions of what is installed and does the work."""
    names = (
        *("streamrf", "scikit-learn", "scikit-learn-intelex", "rfflearn", "lightgbm", "xrfm"),
        *("numpy", "scipy"),
    )
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
