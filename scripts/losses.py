#!/usr/bin/env python
"""The squared loss of one pass next to the squared hinge and logistic losses of a few more.

    STREAMRF_DATA=... scripts/losses.py [--sets ijcnn1 nursery spambase] [--seeds 0 1 2]

Prints a JSON line a set, loss and seed: % of the test rows right, seconds, passes, the penalty that
the rows held out of the training rows chose, and the objective found by each pass. Sets without a
test part are split at random, three quarters to train.
"""

import argparse
import json
import time

from selection import rows_of

import streamrf as srf


def gaussian(width):
    """Return features of the Gaussian kernel; gamma is learnt from the rows."""
    return srf.StructuredFourier(srf.Gaussian("median"), width)


# Features, scaling and the greatest number of passes.
CASES = {
    "ijcnn1": (lambda: gaussian(2048), "standard", 10),
    "nursery": (lambda: gaussian(1024), None, 5),
    "spambase": (lambda: srf.AdditiveSampler(srf.Chi2()), None, 5),
}


def main() -> None:
    """Print a line for each set, seed and loss."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(CASES))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--losses", nargs="*", default=["squared", "squared_hinge", "logistic"])
    options = parser.parse_args()
    for name in options.sets:
        make, normalize, max_passes = CASES[name]
        for seed in options.seeds:
            X, y, X_test, y_test = rows_of(name, seed)
            for loss in options.losses:
                began = time.perf_counter()
                fitted = srf.RandomFeatureClassifier(
                    make(), normalize=normalize, loss=loss, max_passes=max_passes, random_state=seed
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
