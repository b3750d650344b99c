#!/usr/bin/env python
"""Table 1 of Random Feature Maps for Dot Product Kernels: accuracies, seconds and speed-ups.

Five random splits: 60 % of the rows, at most 20,000, train, all others test. The exact kernel
learns with LIBSVM, the paper's random features (RF) and those with the first two terms exact (H0/1)
with LIBLINEAR; beside them our one-pass ridge learns on the same features, and on three times as
many, which takes it about the time that LIBLINEAR takes. Penalties of the SVMs
are chosen once for each column by cross-validation on 2,000 training rows; ridge chooses its own
in the time measured. Seconds are a processor's, one thread for every learner.

    python scripts/reproduce/kar_karnick_table1.py --only split=0 --only dataset=nursery,spambase
    python scripts/reproduce/kar_karnick_table1.py --docs
"""

from functools import partial

import harness
from kar_karnick import TASKS, best_penalty, exact_trial, features_trial, on_one_thread, ridge_trial

SPLITS = 5
KERNELS = ("polynomial", "exponential")
FEATURES = ("exact", "rf", "h01")
WIDER = 3  # times D
FIGURES = ("accuracy", "train_s", "test_s")
METHODS = {  # column of the table: features, learner, column of the paper's CSV
    "K + LIBSVM": ("exact", "svm", "exact"),
    "RF + LIBLINEAR": ("rf", "svm", "rf"),
    "RF + ridge": ("rf", "ridge", "rf"),
    "RF + ridge, 3 D": ("rf", "wide", "rf"),
    "H0/1 + LIBLINEAR": ("h01", "svm", "h01"),
    "H0/1 + ridge": ("h01", "ridge", "h01"),
    "H0/1 + ridge, 3 D": ("h01", "wide", "h01"),
}
CSV = "kar-karnick-table1.csv"
PROTOCOL = """\
Accuracies are means over random splits: 60 % of the rows, at most 20,000, train and all others
test. Every learner has one thread, and seconds are the processor's. "RF" and "H0/1" are
`RandomMaclaurin(projection="rademacher")` with the paper's number of random features, LIBSVM is
scikit-learn's `SVC`, LIBLINEAR its `LinearSVC` after the map in a pipeline, stopped at LIBLINEAR's
own tolerance, and ridge is `RandomFeatureClassifier(alpha="auto")`, whose choice of a penalty is
part of its time.
Squared loss asks for more features than the SVM's where classes are nearly separable; "3 D" has
three times as many.

Where the paper is silent or the data differ:

- It names no penalty. C is chosen from 0.0001 to 1000 once for each column, by three folds of 2,000
  training rows of the first split.
- Vectors are divided by one constant, the greatest norm of a training row. Before, the columns of
  nursery, spambase, cod_rna and covtype are taken to [0, 1], as their units differ and a dot
  product of raw rows would see the largest column alone.
- nursery has five classes and covtype seven. The paper makes two of them at random and does not
  tell its draw. covtype is class 2 against the others, as on LIBSVM's page; nursery is (not_recom,
  recommend, very_recom) against (priority, spec_prior), as only ways to part it that keep these
  groups apart reach 98 to 99.9 %, which the paper has.
- covtype is a sample of 15,000 rows: 9,000 train and 6,000 test, where the paper trained on 20,000
  of 581,000. Its seconds are not comparable.
- The paper leaves the constant of H0/1 to the SVM's offset; here it is one more feature."""

MISSES = """\
Where LIBLINEAR differs by more than a point it is mostly more accurate than the paper's, whose
penalty is not known. Ridge minimises the squared loss, which an SVM's hinge loss does not share
where classes can nearly be parted (nursery), rows have far outliers (spambase) or one class in ten
is positive (ijcnn1): there it needs more features for the same accuracy, and with three times as
many comes nearer. On cod_rna, adult and covtype it is as accurate as LIBLINEAR at equal width."""


def paper():
    """Give the paper's rows by our data set and kernel."""
    rows = harness.read_csv(harness.PAPER / "kar-karnick-2012-table1.csv")
    ours = {"covtype": "covtype_sample15k"}
    return {(ours.get(row["dataset"], row["dataset"]), row["kernel"]): row for row in rows}


def cells():
    """Give the settings of every cell: split by split."""
    return [
        {"dataset": dataset, "kernel": kernel, "features": features, "split": split}
        for split in range(SPLITS)
        for dataset in TASKS
        for kernel in KERNELS
        for features in FEATURES
    ]


def width(cell):
    """Give the paper's D of a cell; None of the exact kernel."""
    return paper()[cell["dataset"], cell["kernel"]].get(f"{cell['features']}_D")


def tune(cell):
    """Give the penalty of the SVM in a column."""
    return best_penalty(cell["dataset"], cell["kernel"], cell["features"], width(cell))


def column_of(cell):
    """Give the settings that a penalty is for."""
    return {name: cell[name] for name in ("dataset", "kernel", "features")}


def work(cell, penalties):
    """Give the figures of a cell."""
    at = cell["dataset"], cell["kernel"]
    C = next(row["C"] for row in penalties if column_of(row) == column_of(cell))
    if cell["features"] == "exact":
        return exact_trial(*at, cell["split"], C)
    D, split = width(cell), cell["split"]
    wide = ridge_trial(*at, cell["features"], WIDER * D, split)
    figures = features_trial(*at, cell["features"], D, split, C)
    return figures | {f"wide_{name}": value for name, value in wide.items()}


def compared(records):
    """Give a row for each kernel, data set and method: means, deviations, speed-ups, the paper."""
    rows = []
    for (dataset, kernel), known in paper().items():
        exact = None
        for method, (features, learner, column) in METHODS.items():
            found = [
                record
                for record in records
                if column_of(record) == {"dataset": dataset, "kernel": kernel, "features": features}
            ]
            if not found:
                continue
            row = {"kernel": kernel, "dataset": dataset, "method": method}
            D = known.get(f"{features}_D")
            row |= {"D": WIDER * D if learner == "wide" else D, "splits": len(found)}
            for figure in FIGURES:
                (of_splits,) = harness.summary(found, (), f"{learner}_{figure}")
                row[figure] = of_splits["mean"]
                if figure == "accuracy":
                    row["accuracy_std"] = of_splits["std"]
            row["paper_accuracy"] = known[f"{column}_acc"]
            row["difference"] = row["accuracy"] - row["paper_accuracy"]
            exact = row if features == "exact" else exact
            for time in ("train", "test"):
                if exact is not None and row is not exact:
                    row[f"{time}_speedup"] = exact[f"{time}_s"] / row[f"{time}_s"]
                    ratio = known[f"exact_{time}_s"] / known[f"{column}_{time}_s"]
                    row[f"paper_{time}_speedup"] = ratio
            rows.append(row)
    return rows


def over_liblinear(rows, ridge="ridge"):
    """Give LIBLINEAR's seconds to train over those of ridge, by column."""
    seconds = {(row["kernel"], row["dataset"], row["method"]): row["train_s"] for row in rows}
    return {
        key: other / seconds[(*key[:2], key[2].replace("LIBLINEAR", ridge))]
        for key, other in seconds.items()
        if "LIBLINEAR" in key[2]
    }


def verdict(rows):
    """Say in a few lines what the table shows; covtype is but a sample of the paper's rows."""
    lines = []
    for method in METHODS:
        same = [row for row in rows if row["method"] == method and "sample" not in row["dataset"]]
        far = [row for row in same if abs(row["difference"]) > 1]
        if not same:
            continue
        lines.append(
            f"- {method}: accuracy within 1 point of the paper's in {len(same) - len(far)} of "
            f"{len(same)} cells of the same data"
            + ("; " if far else "")
            + ", ".join(f"{row['dataset']} {row['kernel']} {row['difference']:+.1f}" for row in far)
            + "."
        )
    for ridge, words in (
        ("ridge", "Ridge trains faster than LIBLINEAR on the same features"),
        ("ridge, 3 D", "With three times the features it trains faster than LIBLINEAR"),
    ):
        ratios = over_liblinear(rows, ridge).values()
        if ratios:
            faster = sum(ratio > 1 for ratio in ratios)
            lines.append(
                f"- {words} in {faster} of {len(ratios)} columns, {min(ratios):.1f} to "
                f"{max(ratios):.1f} times as fast."
            )
    return "\n".join(lines)


def coverage(rows):
    """Say how many splits the means are of."""
    counts = [row["splits"] for row in rows]
    n_cells = len(paper()) * len(METHODS)
    if counts == [SPLITS] * n_cells:
        return f"Every cell is the mean of {SPLITS} splits."
    words = [
        f"{counts.count(count)} are of {count} split{'s' * (count > 1)}"
        for count in sorted(set(counts), reverse=True)
    ]
    missing = n_cells - len(counts)
    told = f"Of {n_cells} cells {', '.join(words)}"
    told += f", and {missing} were not run: they are empty. " if missing else ". "
    return told + (
        "A cell without a deviation is one split. A speed-up is over the mean of LIBSVM's splits."
    )


def page(rows, records):
    """Give the part of the page: what was done, what came out, accuracies and seconds."""
    parts = [
        f"{harness.provenance(records)} All figures: [{CSV}](reproduction/{CSV}).",
        coverage(rows),
        PROTOCOL,
        verdict(rows),
        MISSES,
    ]
    for kernel in KERNELS:
        laid = partial(_laid, [row for row in rows if row["kernel"] == kernel])
        parts += [
            f"{kernel.capitalize()} kernel, accuracy in per cent, mean and deviation over splits, "
            "the paper's in brackets:",
            laid(_accuracy),
            "Seconds to train and speed-up over LIBSVM, the paper's speed-up in brackets:",
            laid(partial(_seconds, "train")),
            "Seconds to test, likewise:",
            laid(partial(_seconds, "test")),
        ]
    return "\n\n".join(parts)


def _laid(rows, show):
    return harness.table(harness.pivot(rows, "dataset", "method", show))


def _accuracy(row):
    deviation = "" if row["splits"] == 1 else f" ± {row['accuracy_std']:.2f}"
    return f"{row['accuracy']:.2f}{deviation} ({row['paper_accuracy']})"


def _seconds(name, row):
    seconds = f"{row[f'{name}_s']:.3g}"
    if f"{name}_speedup" not in row:
        return seconds
    return f"{seconds}, {row[f'{name}_speedup']:.3g}x ({row[f'paper_{name}_speedup']:.2g}x)"


def main():
    """Run cells, print the table, and with --docs write it."""
    settings = harness.arguments(__doc__)
    on_one_thread()
    wanted = harness.chosen(cells(), settings.only)
    tuning = harness.Results(settings.results / "kar_karnick_penalties.jsonl")
    columns = list({str(column_of(cell)): column_of(cell) for cell in wanted}.values())
    tuning.run(columns, tune)
    results = harness.Results(settings.results / "kar_karnick_table1.jsonl")
    results.run(wanted, partial(work, penalties=tuning.records), settings.minutes)
    rows = compared(results.records)
    print(harness.table(rows))
    print(verdict(rows))
    if harness.asks_for_docs(settings, results.records):
        harness.write_csv(harness.DOCS / CSV, rows)
        harness.publish("kar-karnick table 1", page(rows, results.records))


if __name__ == "__main__":
    main()
