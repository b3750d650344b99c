#!/usr/bin/env python
"""What `select` gains when it chooses from more kernels than the default ones.

    STREAMRF_DATA=... scripts/kinds.py [--sets spambase] [--seeds 0 1] [--width 1024]

Prints a JSON line a set, seed and field: "default", "all" (all kinds that take such rows), and each
other kind by itself. A quarter of the training rows is held out, a field's winner is chosen and
fitted on the others, and its error on the quarter in % (RMSE for values) is shown; with --test also
that of the winner fitted to all training rows, on the test rows. At most 20,000 training rows.
"""

import argparse
import json
import time

from selection import error, held_apart
from shared import REGRESSION

import streamrf as srf
from streamrf.training.images import shape_of
from streamrf.training.kernel_names import DEFAULT
from streamrf.training.kinds import KINDS

SETS = ("spambase", "usps", "pendigits", "california_housing")


def fields(X) -> dict[str, list[str]]:
    """Return the fields to compare, by name, for rows X."""
    shape = shape_of(X)
    others = [n for n in KINDS if n not in DEFAULT and not KINDS[n].objection(X, shape)]
    alone = {name: [name] for name in others}
    return {"default": list(DEFAULT), "all": [*DEFAULT, *others], **alone}


def fitted_error(found, X, y, X_test, y_test, seed, regression):
    """Return the error of what was chosen, fitted to some rows."""
    kind = srf.RandomFeatureRegressor if regression else srf.RandomFeatureClassifier
    model = kind(found.features, normalize=found.normalize, warp=found.warp, random_state=seed)
    fitted = model.fit(srf.ArraySource(X, y))
    return round(error(fitted.predict(X_test), y_test, regression), 4)


def main() -> None:
    """Print a line for each set, seed and field."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1])
    parser.add_argument("--fields", nargs="*", help="all by default")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--test", action="store_true")
    options = parser.parse_args()
    for seed in options.seeds:
        for name in options.sets:
            X, y, held, kept, test = held_apart(name, seed)
            regression = name in REGRESSION
            for field, kernels in fields(X).items():
                if options.fields and field not in options.fields:
                    continue
                began = time.perf_counter()
                found = srf.select(
                    srf.ArraySource(X[kept], y[kept]),
                    n_components=options.width,
                    kernels=kernels,
                    warp=None,
                    task="regression" if regression else "classification",
                    random_state=seed,
                )
                line = {"set": name, "seed": seed, "field": field}
                line["seconds"] = round(time.perf_counter() - began, 1)
                rows = X[kept], y[kept], X[held], y[held]
                line["held"] = fitted_error(found, *rows, seed, regression)
                if options.test:
                    line["test"] = fitted_error(found, X, y, *test, seed, regression)
                line["chosen"] = str(found.winner.candidate)
                line["planned"] = round(sum(trial.seconds for trial in found.trials), 1)
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
