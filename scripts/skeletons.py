#!/usr/bin/env python
"""Skeletons and convolutions of MNIST.

    STREAMRF_DATA=... scripts/skeletons.py [CASE ...] [--components 1024] [--rows 10000] [--test]

Prints a JSON line a case: the error in %, the seconds of the fit, processor time of the features of
a row, and the expected cost of a feature of skeletons. The error is that of the last 5,000 training
rows, which are not fitted, on models of the first rows (`--rows`). `--test` fits all training rows
and takes the error of the test rows: for cases that are chosen already.
"""

import argparse
import json
import time

import h5py
import numpy as np
from selection import error
from shared import data_folder

import streamrf as srf

N_HELD = 5_000
PIXELS = srf.BaseSpace("circle", shape=(28, 28), gamma=np.pi / 2)


def relu(inputs):
    """Return a convolutional layer of rectifiers."""
    return srf.Skeleton("relu", inputs, window=5, stride=2)


def quadratic(inputs, window):
    """Return a convolutional layer of polynomials of degree 2."""
    return srf.Skeleton(srf.Polynomial(2, coef0=0.2), inputs, window=window)


def convolution(width, window, cells=3, patches=None):
    """Return a convolution of images of MNIST."""
    return srf.Convolution(patches, width, shape=(28, 28), window=window, cells=cells)


CASES = {
    "fourier": lambda width: srf.StructuredFourier(srf.Gaussian("median"), width),
    "dense": lambda width: srf.SkeletonFeatures(
        srf.Skeleton("exponential", srf.BaseSpace(shape=(28, 28))), width
    ),
    "relu relu exponential": lambda width: srf.SkeletonFeatures(
        srf.Skeleton("exponential", relu(relu(PIXELS))), width
    ),
    "quadratic quadratic": lambda width: srf.SkeletonFeatures(
        quadratic(quadratic(PIXELS, 4), 7), width
    ),
    **{
        f"window {window} cells {cells}": lambda width, window=window, cells=cells: convolution(
            width, window, cells
        )
        for window in (5, 7, 9, 11)
        for cells in (2, 3, 4)
    },
    "window 7 without pooling": lambda width: convolution(width, 7, cells=22),
    "windows 7 and 11": lambda width: srf.Concatenate(
        [convolution(width // 2, window) for window in (7, 11)]
    ),
    "windows 5, 9 and all": lambda width: srf.Concatenate(
        [
            convolution(3 * width // 8, 5),
            convolution(3 * width // 8, 9),
            srf.StructuredFourier(srf.Gaussian("median"), width // 4),
        ]
    ),
    "landmarks": lambda width: convolution(width, 7, patches=srf.Nystroem()),
}


def rows_of(part):
    """Return rows with entries of 0 to 1, and labels."""
    with h5py.File(data_folder() / "mnist.h5") as file:
        return file[f"{part}/X"][:] / np.float32(255), file[f"{part}/y"][:]


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--components", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test", action="store_true")
    asked = parser.parse_args()
    X, y = rows_of("train")
    held = rows_of("test") if asked.test else (X[-N_HELD:], y[-N_HELD:])
    stop = len(X) if asked.test else min(asked.rows, len(X) - N_HELD)
    for case in asked.cases or CASES:
        started = time.perf_counter()
        model = srf.RandomFeatureClassifier(
            CASES[case](asked.components), normalize=None, random_state=asked.seed
        ).fit(X[:stop], y[:stop])
        seconds = time.perf_counter() - started
        line = {"case": case, "components": asked.components, "rows": stop, "seed": asked.seed}
        line |= {"on": "test" if asked.test else "held", "seconds": round(seconds, 1)}
        kernel = model.features_.kernel_
        if isinstance(kernel, srf.Skeleton):
            line["expected_cost"] = round(kernel.expected_cost(X.shape[1]), 2)
        model.features_.transform(held[0][:16])  # compiled
        started = time.process_time()
        model.features_.transform(held[0][:1000])
        line["cpu_ms_a_row"] = round(time.process_time() - started, 3)
        found = error(model.predict(held[0]), held[1], regression=False)
        line["error"] = round(found, 2)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
