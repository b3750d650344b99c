#!/usr/bin/env python
"""The squared loss of one pass next to the squared hinge and logistic losses of a few more.

    STREAMRF_DATA=... scripts/losses.py [--sets ijcnn1 nursery spambase] [--seeds 0 1 2]
    STREAMRF_DATA=... scripts/losses.py --stretches

Prints a JSON line a set, loss and seed: % of the test rows right, seconds, passes, the penalty that
the rows held out of the training rows chose, and the objective found by each pass. Sets without a
test part are split at random, three quarters to train. With --stretches only training rows of
ijcnn1 are read: gamma, penalty and width by the last and the second fifth of them held out, since
they are a series in time, in which rows held out at random are too much like their neighbours.
"""

import argparse
import itertools
import json
import time

import numpy as np
from selection import rows_of

import streamrf as srf


def gaussian(width, gamma="median"):
    """Return features of the Gaussian kernel; gamma is a number, or learnt from the rows."""
    return srf.StructuredFourier(srf.Gaussian(gamma), width)


GAMMAS = (0.757, 1.51, 3.03)  # a quarter, half and all of 1 / median of rows of unit length

# Features, scaling, the greatest number of passes, and the penalty. "ijcnn1, chosen" was chosen by
# training rows held out in stretches of time (--stretches).
CASES = {
    "ijcnn1": (lambda: gaussian(2048), "standard", 10, "auto"),
    "ijcnn1, chosen": (lambda: gaussian(2048, 1.51), "l2", 10, 0.1),
    "nursery": (lambda: gaussian(1024), None, 5, "auto"),
    "spambase": (lambda: srf.AdditiveSampler(srf.Chi2()), None, 5, "auto"),
}


def stretches() -> None:
    """Print a line for each gamma, penalty and width: % of the rows of two stretches right."""
    X, y = rows_of("ijcnn1", 0)[:2]
    for width, gamma, alpha in itertools.product((1024, 2048), GAMMAS, (0.1, 0.3, 1.0)):
        right = []
        for fifth in (4, 1):
            held = np.arange(fifth * len(X) // 5, (fifth + 1) * len(X) // 5)
            clf = srf.RandomFeatureClassifier(
                gaussian(width, gamma),
                normalize="l2",
                loss="squared_hinge",
                alpha=alpha,
                max_passes=10,
                random_state=0,
            ).fit(srf.ArraySource(np.delete(X, held, axis=0), np.delete(y, held)))
            right.append(round(100 * clf.score(X[held], y[held]), 2))
        line = {"set": "ijcnn1", "width": width, "gamma": gamma, "alpha": alpha}
        print(json.dumps(line | {"last, second": right}), flush=True)


def main() -> None:
    """Print a line for each set, seed and loss."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(CASES))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--losses", nargs="*", default=["squared", "squared_hinge", "logistic"])
    parser.add_argument("--stretches", action="store_true")
    options = parser.parse_args()
    if options.stretches:
        return stretches()
    for name in options.sets:
        make, normalize, max_passes, alpha = CASES[name]
        for seed in options.seeds:
            X, y, X_test, y_test = rows_of(name.split(",")[0], seed)
            for loss in options.losses:
                began = time.perf_counter()
                fitted = srf.RandomFeatureClassifier(
                    make(),
                    normalize=normalize,
                    loss=loss,
                    alpha=alpha,
                    max_passes=max_passes,
                    random_state=seed,
                ).fit(X, y)
                found = fitted.model_.refinement
                line = {"set": name, "seed": seed, "loss": loss}
                line["seconds"] = round(time.perf_counter() - began, 1)
                line["right"] = round(100 * fitted.score(X_test, y_test), 2)
                line["passes"] = 1 if found is None else 1 + len(found.objectives)
                line["alpha"] = fitted.alpha_
                line["objectives"] = [] if found is None else found.objectives
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
