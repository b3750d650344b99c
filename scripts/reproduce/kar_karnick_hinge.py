#!/usr/bin/env python
"""A ladder beside Kar and Karnick's Table 1: LIBLINEAR, and the squared hinge loss in five passes.

Both learn the same features of the same splits, on one thread, seconds of the processor.
`RandomFeatureClassifier(loss="squared_hinge")` with its default of five passes is tried with
LIBLINEAR's penalty, which was chosen beforehand on 2,000 training rows, and once more choosing its
own within its time.

    python scripts/reproduce/kar_karnick_hinge.py --docs
"""

import warnings
from functools import partial

import harness
from kar_karnick import TASKS, feature_map, kernel_of, linear_svm, on_one_thread, split, trial
from kar_karnick_table1 import FEATURES, KERNELS, SPLITS, column_of, paper, tune, width
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

import streamrf as srf

LEARNERS = {"svm": "LIBLINEAR", "hinge": "hinge", "auto": "hinge, own penalty"}
CSV = "kar-karnick-hinge.csv"


def cells():
    """Return the settings of every cell: split by split."""
    return [
        {"dataset": dataset, "kernel": kernel, "features": features, "split": number}
        for number in range(SPLITS)
        for dataset in TASKS
        for kernel in KERNELS
        for features in FEATURES
        if features != "exact"
    ]


def hinge(features, alpha):
    """Return the classifier of the squared hinge loss; `alpha` of 1 / 2C is LIBLINEAR's C."""
    return srf.RandomFeatureClassifier(
        features, alpha=alpha, loss="squared_hinge", n_threads=1, random_state=0
    )


def work(cell, penalties):
    """Return accuracy and seconds of every learner on the same features, tried in turn."""
    C = next(row["C"] for row in penalties if column_of(row) == column_of(cell))
    rows = split(cell["dataset"], cell["split"])
    kernel = kernel_of(cell["kernel"], rows.X)
    Z = feature_map(kernel, cell["features"], width(cell), rows.X.shape[1], seed=cell["split"])
    learners = {
        "svm": make_pipeline(Z, linear_svm(C)),
        "hinge": hinge(Z, 1 / (2 * C)),
        "auto": hinge(Z, "auto"),
    }
    figures = {"C": C}
    for name in sorted(learners, reverse=cell["split"] % 2 == 0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what it has reached counts
            found = trial(learners[name], rows)
        figures |= {f"{name}_{figure}": value for figure, value in found.items()}
    return figures


def compared(records):
    """Return a row a data set, kernel and features: means over splits of every learner."""
    by = ("dataset", "kernel", "features")
    rows = []
    for dataset, kernel, features in dict.fromkeys(tuple(r[name] for name in by) for r in records):
        row = dict(zip(by, (dataset, kernel, features), strict=True))
        found = [record for record in records if column_of(record) == row]
        row |= {"D": paper()[dataset, kernel][f"{features}_D"], "C": found[0]["C"]}
        row["splits"] = len(found)
        for name in LEARNERS:
            for figure in ("accuracy", "train_s"):
                (of_splits,) = harness.summary(found, (), f"{name}_{figure}")
                row[f"{name}_{figure}"] = of_splits["mean"]
        rows.append(row)
    return rows


def verdict(rows):
    """Say in a sentence a learner how it compares with LIBLINEAR, without the sample of covtype."""
    same = [row for row in rows if "sample" not in row["dataset"]]
    lines = []
    for name, words in (
        ("hinge", "With LIBLINEAR's penalty"),
        ("auto", "With a penalty that it chooses itself, within its time"),
    ):
        if not same:
            break
        gains = [row[f"{name}_accuracy"] - row["svm_accuracy"] for row in same]
        speed = [row["svm_train_s"] / row[f"{name}_train_s"] for row in same]
        less = [
            f"{row['dataset']} {row['kernel']} {row['features']} {gain:+.2f}"
            for row, gain in zip(same, gains, strict=True)
            if gain < -1
        ]
        lines.append(
            f"- {words} it is within a point of LIBLINEAR or better in "
            f"{sum(gain >= -1 for gain in gains)} of {len(same)} cells"
            + (f" ({', '.join(less)})" if less else "")
            + f", {min(gains):+.2f} to {max(gains):+.2f} points, and trains faster in "
            f"{sum(ratio > 1 for ratio in speed)}, {min(speed):.2g} to {max(speed):.2g} times "
            "as fast."
        )
    return "\n".join(lines)


def write(rows, records):
    """Write CSV and page."""
    harness.write_csv(harness.DOCS / CSV, rows)
    shown = [
        {**{name: row[name] for name in ("dataset", "kernel", "features", "D", "C")}}
        | {
            words: f"{row[f'{name}_accuracy']:.2f}, {row[f'{name}_train_s']:.2g} s"
            for name, words in LEARNERS.items()
        }
        for row in rows
    ]
    counts = sorted({row["splits"] for row in rows})
    text = (
        f"Accuracy in % and seconds to train, means of {' or '.join(map(str, counts))} splits; all "
        f"figures: [{CSV}]({CSV}).\n\n{harness.table(shown)}\n\n"
        f"{verdict(rows)}\n\n{harness.provenance(records)}"
    )
    harness.publish("kar-karnick hinge", text)


def main():
    """Run cells, print the table, and with --docs write it."""
    settings = harness.arguments(__doc__)
    on_one_thread()
    wanted = harness.chosen(cells(), settings.only)
    tuning = harness.Results(settings.results / "kar_karnick_penalties.jsonl")
    tuning.run(list({str(column_of(cell)): column_of(cell) for cell in wanted}.values()), tune)
    results = harness.Results(settings.results / "kar_karnick_hinge.jsonl")
    results.run(wanted, partial(work, penalties=tuning.records), settings.minutes)
    rows = compared(results.records)
    print(harness.table(rows))
    print(verdict(rows))
    if harness.asks_for_docs(settings, results.records):
        write(rows, results.records)


if __name__ == "__main__":
    main()
