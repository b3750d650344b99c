#!/usr/bin/env python
"""Why the random features of Kar and Karnick's Table 1 train slower than LIBSVM here.

One split of four data sets, polynomial kernel, RF: LIBSVM by penalty, with the support vectors it
keeps; the seconds of the map alone; LIBLINEAR on the same features by penalty. One thread, seconds
of the processor.

    python scripts/reproduce/kar_karnick_why.py --docs
"""

import warnings

import harness
from kar_karnick import exact_svm, feature_map, kernel_of, linear_svm, on_one_thread, split, timed
from kar_karnick_table1 import paper
from sklearn.exceptions import ConvergenceWarning

DATASETS = ("nursery", "spambase", "cod_rna", "ijcnn1")
PENALTIES = (0.01, 1.0, 100.0)
WARM_ROWS = 400


def cells():
    """Return the settings of every cell."""
    return [{"dataset": name, "C": C} for name in DATASETS for C in PENALTIES]


def work(cell):
    """Return seconds and accuracies of LIBSVM, of the map, and of LIBLINEAR on its features."""
    dataset, C = cell["dataset"], cell["C"]
    rows = split(dataset, 0)
    kernel = kernel_of("polynomial", rows.X)
    exact, train_s = timed(lambda: exact_svm(kernel, C).fit(rows.X, rows.y))
    D = paper()[dataset, "polynomial"]["rf_D"]
    features = feature_map(kernel, "rf", D, rows.X.shape[1], seed=0).fit(rows.X)
    features.transform(rows.X[:WARM_ROWS])
    Z, map_s = timed(lambda: features.transform(rows.X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        linear, linear_s = timed(lambda: linear_svm(C).fit(Z, rows.y))
    return {
        "rows": len(rows.X),
        "D": D,
        "svm_s": round(train_s, 3),
        "n_support": int(exact.n_support_.sum()),
        "svm_accuracy": 100 * float((exact.predict(rows.X_test) == rows.y_test).mean()),
        "map_s": round(map_s, 3),
        "linear_s": round(linear_s, 3),
        "iterations": int(linear.n_iter_),
        "linear_accuracy": 100
        * float((linear.predict(features.transform(rows.X_test)) == rows.y_test).mean()),
    }


COLUMNS = {
    "dataset": "",
    "rows": "",
    "C": "g",
    "svm_s": ".2f",
    "n_support": "",
    "svm_accuracy": ".2f",
    "D": "",
    "map_s": ".3f",
    "linear_s": ".2f",
    "iterations": "",
    "linear_accuracy": ".2f",
}


def compared(records):
    """Return the rows of the table."""
    return [{name: record[name] for name in COLUMNS} for record in records]


def write(rows, records):
    """Write CSV and page."""
    harness.write_csv(harness.DOCS / "kar-karnick-why.csv", rows)
    text = (
        "One split, polynomial kernel: LIBSVM's seconds, support vectors and accuracy; the seconds "
        "of the map of D features alone; LIBLINEAR's seconds, iterations and accuracy on them.\n\n"
        f"{harness.table(rows, COLUMNS)}\n\n{harness.provenance(records)}"
    )
    harness.publish("kar-karnick why", text)


def main():
    """Run cells, print the table, and with --docs write it."""
    on_one_thread()
    harness.reproduce(__doc__, "kar_karnick_why", cells(), work, compared, write)


if __name__ == "__main__":
    main()
