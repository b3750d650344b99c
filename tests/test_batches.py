"""Calls of `partial_fit` are whole or not at all: what one that fails leaves behind."""

from unittest.mock import patch

import numpy as np
import pytest
from sklearn.base import clone

import streamrf as srf
from streamrf.engine import base
from streamrf.errors import BadRowError, DataError, MergeError, StreamrfError
from streamrf.sources import uniform
from streamrf.statistics.gram import ExactGram

ROWS = np.random.default_rng(0).normal(size=(10_000, 3))
LABELS = (ROWS[:, 0] > 0).astype(int)
MAP = srf.RandomFourier(srf.Gaussian(0.1), 16, random_state=0)
KINDS = [{"alpha": 0.1}, {"precision": "float64"}]


def state_of(model):
    """Return what a stream has summed and what it answers."""
    sums = model.statistics_
    ranges = {key: rows.tolist() for key, rows in sums.ledger.ranges.items()}
    return (
        sums.gram.tobytes(),
        sums.class_sums.tobytes(),
        sums.n_rows,
        ranges,
        model.coef_.tobytes(),
    )


def begun(how, features=MAP, **options):
    """Return an estimator of 400 rows, whose map is drawn."""
    model = srf.RandomFeatureClassifier(features, random_state=0, **options)
    source = srf.ArraySource(ROWS[:200] - 9, LABELS[:200])
    model = model.fit(source) if how == "fit" else model.partial_fit(source)
    return model.partial_fit(ROWS[200:400] + 9, LABELS[200:400])


@pytest.mark.parametrize("options", KINDS, ids=["exact", "float64"])
@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.parametrize("fault", ["row", "connection", "stop"])
@pytest.mark.parametrize("asked", [True, False])
def test_a_source_that_fails_midway_leaves_the_estimator_as_it_was(fault, how, asked, options):
    spoilt = ROWS[5000:].copy()
    spoilt[4000, 1] = np.nan
    is_well = []

    def blocks():
        yield ROWS[400:5000], LABELS[400:5000]
        if fault == "row":
            yield ROWS[5000:] if is_well else spoilt, LABELS[5000:]
        elif is_well:
            yield ROWS[5000:], LABELS[5000:]
        else:
            raise OSError("lost") if fault == "connection" else KeyboardInterrupt

    source = srf.IteratorSource(blocks)
    model, other = begun(how, **options), begun(how, **options)
    before = state_of(other)
    assert not asked or state_of(model) == before
    with pytest.raises((DataError, OSError, KeyboardInterrupt)):
        model.partial_fit(source)
    assert state_of(model) == before
    is_well.append(True)
    assert state_of(model.partial_fit(source)) == state_of(other.partial_fit(source))
    more = ROWS[:50] + 20, LABELS[:50]
    assert state_of(model.partial_fit(*more)) == state_of(other.partial_fit(*more))


def test_a_cure_that_a_failed_call_names_works():
    spoilt = ROWS.copy()
    spoilt[9000, 1] = np.nan
    source = srf.ArraySource(spoilt, LABELS)
    model = begun("fit")
    with pytest.raises(DataError, match=r"row 9000: .*on_bad_rows='skip'"):
        model.partial_fit(source)
    model.set_params(on_bad_rows="skip").partial_fit(source)
    assert model.statistics_.n_rows == 400 + 9999


@pytest.mark.parametrize("is_source", [True, False])
def test_an_interrupt_inside_the_sums_leaves_the_estimator_as_it_was(is_source, monkeypatch):
    monkeypatch.setattr(base, "MAX_ROWS", 4096)  # of two blocks
    batch = ROWS[400:], LABELS[400:]
    batch = (srf.ArraySource(*batch),) if is_source else batch
    model, other = begun("partial_fit", alpha=0.1), begun("partial_fit", alpha=0.1)
    add, calls = ExactGram.add, []

    def interrupted(gram, Q):
        add(gram, Q)
        calls.append(Q)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with patch.object(ExactGram, "add", interrupted), pytest.raises(KeyboardInterrupt):
        model.partial_fit(*batch)
    assert state_of(model) == state_of(other)
    assert state_of(model.partial_fit(*batch)) == state_of(other.partial_fit(*batch))


def waves(X):
    return np.where(X > 20, np.inf, np.concatenate([np.sin(X), np.cos(X)], axis=1)[:, :3])


@pytest.mark.parametrize("alpha", [0.1, "auto"])
def test_a_row_that_the_map_refuses_leaves_the_estimator_as_it_was(alpha):
    model, other = (begun("partial_fit", srf.CallableMap(waves, 3), alpha=alpha) for _ in "ab")
    is_held = uniform(np.arange(400, 700)) < 0.2
    for row in (int(is_held.argmax()), int(is_held.argmin())):
        batch = ROWS[400:700].copy()
        batch[row] = 21
        with pytest.raises(BadRowError, match=f"row {400 + row}: "):
            model.partial_fit(batch, LABELS[400:700])
    assert state_of(model) == state_of(other)


def test_a_batch_whose_sums_would_not_be_exact_is_refused_and_the_next_is_not():
    def model_of():
        model = srf.RandomFeatureClassifier(MAP, alpha=0.1, random_state=0)
        model.fit(ROWS[:200], LABELS[:200], np.ones(200))
        return model

    model, other = model_of(), model_of()
    heavy = np.ones(200)
    heavy[7] = 1e12
    with pytest.raises(StreamrfError, match=r"outgrown 2\^53.* less weight.*precision='float64'"):
        model.partial_fit(ROWS[200:400], LABELS[200:400], sample_weight=heavy)
    light = ROWS[200:400], LABELS[200:400], None, np.ones(200)
    assert state_of(model.partial_fit(*light)) == state_of(other.partial_fit(*light))


def test_rows_counted_before_are_named_with_those_after_them():
    model = begun("fit", alpha=0.1).partial_fit(srf.ArraySource(ROWS[:9000], LABELS[:9000]))
    before = state_of(model)
    with pytest.raises(MergeError, match=r"counted twice.*rows=\(9000, None\)"):
        model.partial_fit(srf.ArraySource(ROWS, LABELS))
    assert state_of(model) == before


@pytest.mark.parametrize("how", ["fit", "partial_fit", "asked"])
def test_batches_may_have_weights_of_classes_when_the_map_is_drawn(how):
    weights = {0: 1.0, 1: 3.0}
    model = srf.RandomFeatureClassifier(MAP, alpha=0.1, class_weight=weights, random_state=0)
    given = srf.RandomFeatureClassifier(MAP, alpha=0.1, random_state=0)
    first = "fit" if how == "fit" else "partial_fit"
    getattr(model, first)(ROWS[:200], LABELS[:200])
    getattr(given, first)(ROWS[:200], LABELS[:200], sample_weight=1.0 + 2 * LABELS[:200])
    if how == "asked":
        model.predict(ROWS[:2]), given.predict(ROWS[:2])
    model.partial_fit(ROWS[200:400], LABELS[200:400])
    given.partial_fit(ROWS[200:400], LABELS[200:400], sample_weight=1.0 + 2 * LABELS[200:400])
    assert model.statistics_.n_rows == 400
    assert model.statistics_.gram.tobytes() == given.statistics_.gram.tobytes()
    np.testing.assert_array_equal(model.coef_, given.coef_)


@pytest.mark.parametrize(
    "estimator",
    [
        srf.RandomFeatureRegressor(srf.StructuredFourier(srf.Gaussian(0.05), 32), random_state=0),
        srf.RandomFeatureClassifier(srf.StructuredFourier(srf.Gaussian(0.05), 32), random_state=0),
        srf.KernelRidgeRegressor(),
        srf.KernelRidgeClassifier(),
        srf.RandomFeaturePCA(2, random_state=0),
        srf.RandomFeatureKMeans(2, random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.parametrize("is_table", [False, True])
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(rng, estimator, is_table):
    pandas = pytest.importorskip("pandas")
    estimator = clone(estimator)
    columns = {"a": rng.normal(size=60), "b": rng.normal(5, 1, 60), "y": np.arange(60) % 2}
    table = pandas.DataFrame(columns)
    estimator.fit(table[["a", "b"]], table["y"])
    before = dict(vars(estimator))
    other = table[["b", "a", "y"]]  # other names, and as many or more columns
    with pytest.raises(ValueError, match="weight"):
        estimator.fit(other, "y" if is_table else table["y"], sample_weight=np.full(60, -1.0))
    assert vars(estimator).keys() == before.keys()
    assert all(vars(estimator)[name] is before[name] for name in before)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_classes_that_are_no_labels_are_refused(rng, odd):
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    clf = srf.RandomFeatureClassifier(srf.RandomFourier(n_components=8), random_state=0)
    with pytest.raises(srf.errors.ParameterError, match="classes must be labels without NaN, got"):
        clf.partial_fit(X, y, classes=[0, 1, 2, odd])
    clf.partial_fit(X, y, classes=[0, 1, 2, 3])
    assert clf.classes_.tolist() == [0, 1, 2, 3]
