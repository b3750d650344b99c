"""Rows to judge and to predict beside those that a model was trained on: columns that drifted."""

import json
from dataclasses import replace

import h5py
import numpy as np
import pandas as pd
import pytest

import streamrf as srf
from commands import streamrf
from streamrf.errors import FormatError, StreamrfWarning
from streamrf.models import Model
from streamrf.models.oddities import MAX_WATCHED

FEATURES = srf.StructuredFourier(srf.Gaussian(0.3), 64, random_state=0)
DRIFTED = r"column 3 drifted: the mean is .* as in the 3,000 rows that the model was tra"


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(4000, 6))
    return X, X[:, 0] * X[:, 1] + X[:, 2]


@pytest.fixture
def model(rows):
    X, y = rows
    return srf.accumulate(srf.ArraySource(X[:3000], y[:3000] > 0), FEATURES).solve(1.0)


def moved(X):
    X = X[3000:].copy()
    X[:, 3] += 3
    return X


def test_columns_far_from_those_trained_on_are_told_and_no_others(rows, model):
    X, y = rows
    assert model.evaluate(X[3000:], y[3000:] > 0)["columns_drifted"] == []
    assert model.evaluate(X[3000:3003], y[3000:3003] > 0)["columns_drifted"] == []
    with pytest.warns(StreamrfWarning, match=DRIFTED):
        assert model.evaluate(moved(X), y[3000:] > 0)["columns_drifted"] == [3]
    wider = X[3000:] * np.array([1, 1, 1, 1, 1, 30])
    with pytest.warns(StreamrfWarning, match="column 5 drifted"):
        assert model.evaluate(wider, y[3000:] > 0)["columns_drifted"] == [5]


def test_predictions_compare_columns_where_asked(rows, model):
    X = moved(rows[0])
    model.predict(X)  # of any rows, such as those of one class: warnings are errors here
    with pytest.warns(StreamrfWarning, match=DRIFTED):
        found = [*model.scored(X, compares_columns=True)]
    np.testing.assert_array_equal(found[0][1], next(iter(model.scored(X)))[1])
    [*model.scored(rows[0][3000:], compares_columns=True)]


def test_parts_of_rows_are_compared_together(rows, model, two_workers):
    X, y = rows
    X = np.concatenate([moved(X), X[3000:] - [0, 0, 0, 3, 0, 0]])  # each half is far, both are not
    y = np.concatenate([y[3000:], y[3000:]])
    for options in ({"n_threads": 1}, {"engine": two_workers, "parts": 3}):
        assert model.evaluate(X, y > 0, **options)["columns_drifted"] == []
        with pytest.warns(StreamrfWarning, match=DRIFTED):
            model.evaluate(X[:1000], y[:1000] > 0, **options)
        with pytest.warns(StreamrfWarning, match=DRIFTED):
            [*model.scored(X[:1000], compares_columns=True, **options)]


def test_files_keep_what_columns_were(rows, model, tmp_path):
    X, y = rows
    model.save(tmp_path / "m.h5")
    loaded = srf.load_model(tmp_path / "m.h5")
    assert loaded.moments.n_rows == 3000
    np.testing.assert_array_equal(loaded.moments.mean, model.moments.mean)
    with pytest.warns(StreamrfWarning, match=DRIFTED):
        loaded.evaluate(moved(X), y[3000:] > 0)
    with h5py.File(tmp_path / "m.h5") as file:
        tree = json.loads(file["tree"][()])
    assert "moments" in tree


def test_a_model_without_moments_compares_nothing(rows, model):
    X, y = rows
    plain = replace(model, moments=None)
    assert "moments" not in plain.to_tree()
    plain = Model.from_tree(plain.to_tree())
    assert plain.moments is None
    assert plain.evaluate(moved(X), y[3000:] > 0)["columns_drifted"] == []
    wide = np.zeros((20, MAX_WATCHED + 1), dtype=np.float32)
    wide[:, 0] = np.arange(20)
    source = srf.ArraySource(wide, np.arange(20) > 9)
    assert srf.accumulate(source, srf.Identity()).solve(1.0).moments is None


def test_moments_of_other_columns_are_refused(model):
    tree = model.to_tree()
    tree["moments"] = model.moments.take(np.arange(5)).to_tree()
    with pytest.raises(FormatError, match="'moments' are not of 6 columns"):
        Model.from_tree(tree)


def test_a_model_keeps_its_moments_when_the_sums_go_on(rows):
    X, y = rows
    clf = srf.RandomFeatureClassifier(FEATURES, alpha=1.0, random_state=0)
    clf.partial_fit(X[:3000], y[:3000] > 0, classes=[False, True])
    before = clf.model_
    clf.partial_fit(X[3000:], y[3000:] > 0)
    assert (before.moments.n_rows, clf.model_.moments.n_rows) == (3000, 4000)


def table(rng, day, n_rows=600):
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(day * 86400 + np.arange(n_rows), unit="s")
    a = rng.normal(size=n_rows)
    return pd.DataFrame({"a": a, "when": when, "y": np.where(a > 0.1, "yes", "no")})


def test_commands_tell_columns_that_drifted_by_name(rng, tmp_path):
    for day in (0, 3):
        table(rng, day).to_csv(tmp_path / f"{day}.csv", index=False)
    first, later, model = (str(tmp_path / name) for name in ("0.csv", "3.csv", "m.h5"))
    streamrf("fit", first, "--y", "y", "--map", "fourier", "--components", "64", "--model", model)
    told = "drifted: the mean is more than a deviation away"
    done = streamrf("evaluate", model, later, "--json")
    assert told in done.stderr
    assert "'when'" in done.stderr
    assert json.loads(done.stdout)["columns_drifted"]
    predict = ("predict", model, later, "--x", "a,when", "--output")
    assert told in streamrf(*predict, str(tmp_path / "p.csv")).stderr
    fair = streamrf("predict", model, first, "--x", "a,when", "--output", str(tmp_path / "q.csv"))
    assert "drifted" not in fair.stderr
    page = tmp_path / "page.html"
    done = streamrf("report", model, "--data", later, "--output", str(page))
    assert told in done.stderr
    text = page.read_text()
    assert "These rows are unlike those that the model was trained on" in text


@pytest.mark.parametrize("n_rows", [1, 10, 100, 2000])
@pytest.mark.parametrize("kind", ["rare", "levels", "cauchy", "rounded"])
def test_fair_rows_do_not_drift(rng, kind, n_rows):
    shares = 10 ** rng.uniform(-5, -1, 200)

    def drawn(n):
        if kind == "rare":
            return (rng.random((n, 200)) < shares).astype(float)
        if kind == "levels":
            return np.eye(200)[rng.choice(200, n, p=shares / shares.sum())]
        if kind == "cauchy":
            return rng.standard_cauchy((n, 10))
        return np.c_[rng.normal(size=n), np.full(n, 0.1)]

    X = drawn(20_000)
    features = srf.RandomFourier(srf.Gaussian(1.0), 8, random_state=0)
    model = srf.accumulate(srf.ArraySource(X, rng.integers(0, 2, len(X))), features).solve(1.0)
    for _ in range(5):
        rows = drawn(n_rows).astype(np.float32)
        assert model.evaluate(rows, np.arange(n_rows) % 2)["columns_drifted"] == []
