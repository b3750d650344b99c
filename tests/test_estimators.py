"""The estimators keep scikit-learn's conventions, on arrays, sources and batches alike."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamrf as srf
from conventions import check_convention, conventions
from streamrf.errors import (
    BadRowError,
    DataError,
    ParameterError,
    ShapeError,
    StreamrfWarning,
    UnknownLabelError,
)

# The only checks of scikit-learn that are expected to fail, and why.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "rows are rounded and held out by their position, so two copies of a row equal one of "
        "weight 2 only up to the rounding (tests/test_ridge.py shows equality on rounded features)"
    ),
}
EXPECTED_FAILURES["check_sample_weight_equivalence_on_sparse_data"] = EXPECTED_FAILURES[
    "check_sample_weight_equivalence_on_dense_data"
]

DIGITS = load_digits(return_X_y=True)


def classifier(**settings):
    features = srf.RandomMaclaurin(srf.Polynomial(degree=3), n_components=300, random_state=0)
    return srf.RandomFeatureClassifier(
        features, **{"normalize": "l2", "random_state": 0, **settings}
    )


@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=f"{type(estimator).__name__}-{check.func.__name__}")
        for estimator in (
            srf.RandomFeatureClassifier(budget=1, random_state=0),
            srf.RandomFeatureRegressor(budget=1, random_state=0),
        )
        for estimator, check in conventions(estimator)
    ],
)
def test_scikit_learn_conventions(estimator, check):
    if check.func.__name__ == "check_array_api_input":
        pytest.skip("streamrf computes with NumPy arrays only")
    check_convention(check, estimator, EXPECTED_FAILURES)


def test_arrays_and_a_file_of_them_give_the_same_model(tmp_path):
    X, y = DIGITS
    with h5py.File(tmp_path / "digits.h5", "w") as file:
        file["X"], file["y"] = X, y
    from_file = classifier().fit(srf.HDF5Source(tmp_path / "digits.h5"))
    from_arrays = classifier().fit(X, y)
    assert from_file.statistics_.gram.shape == (300 * 301 // 2,)
    assert from_file.n_features_in_ == 64
    assert from_file.score(srf.HDF5Source(tmp_path / "digits.h5")) > 0.97
    assert from_arrays.score(X, y) > 0.97


def test_coef_and_intercept_belong_to_the_features_themselves():
    X, y = load_diabetes(return_X_y=True)
    features = srf.RandomMaclaurin(srf.Polynomial(degree=2), n_components=40, random_state=0)
    model = srf.RandomFeatureRegressor(features, alpha=0.1, precision="float64").fit(X, y)
    Z = model.features_.transform(X).astype(np.float64)
    np.testing.assert_allclose(Z @ model.coef_[0] + model.intercept_[0], model.predict(X))
    ridge = Ridge(alpha=0.1).fit(Z, y)
    np.testing.assert_allclose(model.coef_[0], ridge.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.intercept_[0], ridge.intercept_, rtol=1e-6)


def test_coef_of_a_pruned_model_belong_to_its_picks():
    X, y = load_diabetes(return_X_y=True)
    features = srf.RandomMaclaurin(srf.Polynomial(degree=2), n_components=40, random_state=0)
    model = srf.RandomFeatureRegressor(features, alpha=0.1, prune=12, precision="float64")
    Z = model.fit(X, y).features_.transform(X)[:, model.columns_].astype(np.float64)
    assert Z.shape[1] == 12
    np.testing.assert_allclose(Z @ model.coef_[0] + model.intercept_[0], model.predict(X))
    np.testing.assert_allclose(model.coef_[0], Ridge(alpha=0.1).fit(Z, y).coef_, rtol=1e-6)
    whole = srf.RandomFeatureRegressor(features, alpha=0.1, precision="float64").fit(X, y)
    assert model.statistics_.gram.tobytes() == whole.statistics_.gram.tobytes()
    np.testing.assert_array_equal(whole.columns_, np.arange(40))


def test_a_pruned_model_beats_one_drawn_at_its_width():
    X, y = DIGITS
    drawn, pruned = (
        srf.RandomFeatureClassifier(
            srf.StructuredFourier(srf.Gaussian("median"), n_components, random_state=0),
            prune=64,
            normalize="l2",
            random_state=0,
        )
        for n_components in (64, 512)
    )
    batches = clone(pruned)
    for start in range(0, 1200, 600):
        batches.partial_fit(X[start : start + 600], y[start : start + 600])
    errors = [
        1 - model.score(X[1200:], y[1200:])
        for model in (drawn.fit(X[:1200], y[:1200]), pruned.fit(X[:1200], y[:1200]), batches)
    ]
    assert max(errors[1:]) < 0.8 * errors[0]
    assert batches.coef_.shape == pruned.coef_.shape == (10, 64)


@pytest.mark.parametrize("prune", [0, 301, 2.5, True])
def test_features_to_keep_are_checked_before_the_rows_are_read(prune):
    def batches():
        yield from [DIGITS] * 12  # calibration looks at 20,000 rows
        raise AssertionError("read on")

    message = f"prune must be an integer from 1 to 300, got {prune}"
    with pytest.raises(ParameterError, match=message):
        classifier(prune=prune).fit(srf.IteratorSource(batches()))


def test_partial_fit_in_batches_equals_one_pass_over_them():
    X, y = DIGITS
    batches = classifier(alpha=1e-3)
    for start in range(0, len(X), 500):
        if start == 1500:
            batches.predict(X[:1])  # which draws the map for the rows so far
        batches.partial_fit(X[start : start + 500], y[start : start + 500])
    stream = ((X[i : i + 500], y[i : i + 500]) for i in range(0, len(X), 500))
    first = srf.accumulate(
        srf.IteratorSource([(X[:1500], y[:1500])]), batches.features, normalize="l2", random_state=0
    )
    whole = srf.accumulate(srf.IteratorSource(stream), like=first)
    assert batches.statistics_.gram.tobytes() == whole.gram.tobytes()
    assert batches.statistics_.class_sums.tobytes() == whole.class_sums.tobytes()
    assert batches.score(X, y) > 0.95


def test_partial_fit_chooses_alpha_and_goes_on_afterwards():
    X, y = DIGITS
    model = classifier(alpha="auto").partial_fit(X[:900], y[:900])
    early = model.score(X[900:], y[900:])
    assert len(model.model_.history) > 3
    model.partial_fit(X[900:], y[900:])
    assert model.statistics_.n_rows == len(X)
    assert model.score(X[900:], y[900:]) > early


def test_partial_fit_knows_the_classes_it_was_told():
    X, y = DIGITS
    model = classifier(alpha=1e-3).partial_fit(X[y < 5], y[y < 5], classes=range(10))
    assert model.classes_.tolist() == list(range(10))
    model.partial_fit(X[y >= 5], y[y >= 5])
    assert model.score(X, y) > 0.95


def test_partial_fit_refuses_a_label_that_was_not_told():
    X, y = DIGITS
    with pytest.raises(UnknownLabelError, match=r"label 5 is none of classes=\[0, 1, 2, 3, 4\]; n"):
        classifier(alpha=1e-3).partial_fit(X, y, classes=range(5))
    model = classifier(alpha=1e-3).partial_fit(X[y < 5], y[y < 5], classes=range(5))
    with pytest.raises(ValueError, match="label 5 is none of classes"):
        model.partial_fit(X[y == 5], y[y == 5])


def test_a_fitted_estimator_pickles():
    X, y = DIGITS
    model = classifier().fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(X[:50]).tolist() == model.predict(X[:50]).tolist()


def test_settings_of_the_map_can_be_searched():
    X, y = DIGITS
    pipeline = make_pipeline(StandardScaler(), classifier(alpha=1e-2))
    search = GridSearchCV(
        pipeline, {"randomfeatureclassifier__features__kernel__degree": [1, 2]}, cv=2
    )
    search.fit(X[:400], y[:400])
    assert clone(search.best_estimator_).get_params()["randomfeatureclassifier__alpha"] == 1e-2


def test_several_targets_at_once():
    X, y = load_diabetes(return_X_y=True)
    two = np.stack((y, -2 * y + 1), axis=1)
    model = srf.RandomFeatureRegressor(alpha=1.0, precision="float64", random_state=0).fit(X, two)
    predicted = model.predict(X)
    assert predicted.shape == two.shape
    np.testing.assert_allclose(predicted[:, 1], -2 * predicted[:, 0] + 1, rtol=1e-6, atol=1e-6)


def test_string_labels_come_back():
    X, y = DIGITS
    names = np.array(["zero", "one", "two", "three", "four"])
    keep = y < 5
    model = classifier().fit(X[keep], names[y[keep]])
    assert sorted(model.classes_) == sorted(names)
    assert (model.predict(X[keep]) == names[y[keep]]).mean() > 0.97


def test_a_model_file_predicts_as_the_estimator_does(tmp_path):
    X, y = DIGITS
    model = classifier().fit(X, y)
    model.save(tmp_path / "digits.model.h5")
    loaded = srf.load_model(tmp_path / "digits.model.h5")
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_wrong_use_is_said_in_one_sentence():
    X, y = DIGITS
    with pytest.raises(NotFittedError):
        classifier().predict(X)
    with pytest.raises(ParameterError, match="gives its own targets"):
        classifier().fit(srf.ArraySource(X, y), y)
    with pytest.raises(DataError, match="no targets"):
        classifier().fit(srf.ArraySource(X))
    with pytest.raises(ParameterError, match="alpha must be 'auto' or a number"):
        classifier(alpha="best").fit(X, y)
    with pytest.raises(ParameterError, match="alpha must be 'auto' or a number"):
        classifier(alpha=10**400).fit(X, y)
    with pytest.raises(ParameterError, match="feature map"):
        srf.RandomFeatureClassifier(srf.RandomMaclaurin).fit(X, y)
    with pytest.raises(DataError, match="not class labels"):
        classifier().fit(srf.ArraySource(X, y + 0.5))


def test_threads_that_add_batches_to_one_estimator_lose_none():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 4))
    y = (X[:, 0] > 0).astype(int)
    batches = [slice(start, start + 100) for start in range(0, 1200, 100)]
    options = {"alpha": 0.1, "normalize": "standard", "random_state": 0}

    def added(n_threads):
        features = srf.RandomFourier(srf.Gaussian(0.1), 32)
        clf = srf.RandomFeatureClassifier(features, **options)
        source = srf.ArraySource(X[:600], y[:600])  # the map is drawn once, for all threads
        clf.partial_fit(source, classes=[0, 1])
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(lambda rows: clf.partial_fit(X[rows], y[rows]), batches))
        return clf.statistics_

    alone, together = added(1), added(4)
    assert together.n_rows == alone.n_rows == 1800
    assert np.array_equal(together.gram, alone.gram)


@pytest.mark.parametrize("before", [0, 600])
def test_bad_rows_of_a_batch_are_told_as_of_its_X(before):
    X, y = DIGITS
    batches = classifier(alpha=1e-3)
    if before:
        batches.partial_fit(X[:before], y[:before]).predict(X[:1])
    bad = X[before : before + 50].astype(float)
    bad[7, 3] = np.nan
    with pytest.raises(BadRowError, match=r"^X, row 7: column 3 is NaN"):
        batches.partial_fit(bad, y[before : before + 50])
    weights = np.ones(50)
    weights[9] = -1
    with pytest.raises(BadRowError, match=r"^X, row 9: the weight is -1"):
        classifier(alpha=1e-3).partial_fit(X[:50], y[:50], sample_weight=weights)


@pytest.mark.parametrize("begin", ["fit", "partial_fit"])
@pytest.mark.parametrize("change", [{"normalize": "l2"}, {"precision": "coarse"}])
def test_settings_of_the_sums_cannot_change_between_batches(begin, change, rng):
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    features = srf.RandomFourier(n_components=8, random_state=0)
    estimator = srf.RandomFeatureRegressor(features, alpha=1.0, normalize=None)
    getattr(estimator, begin)(X, y)
    estimator.set_params(alpha=2.0).partial_fit(X, y)
    with pytest.raises(ParameterError, match="and the rows so far are summed with"):
        estimator.set_params(**change).partial_fit(X, y)


def test_weights_of_classes_cannot_come_or_go_between_batches(rng):
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    clf = classifier(alpha=1.0).partial_fit(X, y)
    with pytest.raises(ParameterError, match=r"class_weight was set to \{0: 2.0\}.*with None: set"):
        clf.set_params(class_weight={0: 2.0}).partial_fit(X, y)
    clf = classifier(alpha=1.0, class_weight={0: 2.0}).partial_fit(X, y)
    assert clf.set_params(class_weight={0: 4.0}).partial_fit(X, y).statistics_.n_rows == 120
    with pytest.raises(ParameterError, match="class_weight was set to None"):
        clf.set_params(class_weight=None).partial_fit(X, y)
    assert clf.partial_fit(X, y, sample_weight=np.ones(60)).statistics_.n_rows == 180


@pytest.mark.parametrize("kind", [srf.RandomFeatureClassifier, srf.RandomFeatureRegressor])
def test_a_score_names_targets_of_another_length(kind, rng):
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    features = srf.RandomFourier(n_components=8, random_state=0)
    for estimator in (kind(features, alpha=1.0).fit(X, y), srf.KernelRidgeClassifier().fit(X, y)):
        for rows in (X, X.tolist()):
            with pytest.raises(ShapeError, match="y has 59 rows but X has 60"):
                estimator.score(rows, y[1:])


@pytest.mark.parametrize("kind", [srf.RandomFeatureClassifier, srf.KernelRidgeClassifier])
@pytest.mark.parametrize("dtype", ["Int64", "boolean", "UInt8", "string", "category"])
def test_nullable_labels_are_what_they_hold(kind, dtype, rng):
    pandas = pytest.importorskip("pandas")
    X = rng.normal(size=(60, 3))
    plain = {"boolean": X[:, 0] > 0, "string": np.where(X[:, 0] > 0, "up", "down")}
    y = plain.get(dtype, (X[:, 0] > 0) + 1)
    given = pandas.Series(y, dtype=dtype)
    settings = {"random_state": 0} if kind is srf.RandomFeatureClassifier else {}
    ours, theirs = (kind(alpha=1.0, **settings).fit(X, labels) for labels in (given, y))
    assert ours.classes_.dtype.kind == theirs.classes_.dtype.kind
    assert ours.predict(X).tolist() == theirs.predict(X).tolist()
    assert ours.score(X, given) == theirs.score(X, y)
    summed = srf.accumulate(srf.ArraySource(X, given), srf.RandomFourier(n_components=8))
    assert ours.classes_.dtype == summed.labels.dtype


def test_great_nullable_labels_are_kept_and_missing_ones_refused(rng):
    pandas = pytest.importorskip("pandas")
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2 + 2**60
    assert classifier(alpha=1.0).fit(X, pandas.Series(y, dtype="Int64")).classes_.tolist() == [
        2**60,
        2**60 + 1,
    ]
    missing = [True, False, None] * 20
    for dtype, error in (("Int64", ": the target is NaN"), ("boolean", " is missing")):
        with pytest.raises(DataError, match=f"row 2{error}"):
            classifier(alpha=1.0).fit(X, pandas.Series(missing, dtype=dtype))
    skipping = classifier(alpha=1.0, on_bad_rows="skip")
    assert skipping.fit(X, pandas.Series(missing, dtype="Int64")).statistics_.n_rows == 40
    with pytest.raises(DataError, match="row 2 is missing"):
        skipping.fit(X, pandas.Series(missing, dtype="boolean"))


@pytest.mark.parametrize(
    ("kind", "fit", "options"),
    [
        (srf.RandomFeatureClassifier, "fit", {}),
        (srf.RandomFeatureClassifier, "partial_fit", {}),
        (srf.RandomFeatureClassifier, "partial_fit", {"classes": [0, 1]}),
        (srf.RandomFeatureRegressor, "fit", {}),
        (srf.RandomFeatureRegressor, "partial_fit", {}),
    ],
)
def test_bad_rows_of_arrays_are_named_or_skipped_with_targets_and_weights(kind, fit, options, rng):
    X, weights = rng.normal(size=(600, 3)), rng.uniform(1, 2, 600)
    y = (X[:, 0] > 0).astype(float)
    features = srf.RandomFourier(n_components=16, random_state=0)
    estimator = kind(features, alpha=1.0, random_state=0)
    bad, rows = [500, 510, 520], np.delete(np.arange(600), [500, 510, 520])
    for array, row, value in zip((X, y, weights), bad, (np.inf, np.nan, np.nan), strict=True):
        kept, array[row] = array[row].copy(), value
        with pytest.raises(BadRowError, match=f"row {row}: .*on_bad_rows='skip'"):
            getattr(clone(estimator), fit)(X, y, sample_weight=weights, **options)
        array[row] = kept
    X[500, 1], y[510], weights[520] = np.inf, np.nan, np.nan
    estimator.set_params(on_bad_rows="skip")
    skipped = getattr(clone(estimator), fit)(X, y, sample_weight=weights, **options)
    source = srf.ArraySource(X, y, weights)
    assert skipped.statistics_.n_rows == 597
    if fit == "fit":
        assert np.array_equal(skipped.coef_, clone(estimator).fit(source).coef_)
    assert skipped.statistics_.weight == pytest.approx(weights[rows].sum(), rel=1e-3)
    with pytest.raises(BadRowError, match="row 500: column 1 is inf; clean the data"):
        skipped.predict(X)


def test_bad_rows_to_predict_are_told_as_those_to_fit_are(rng):
    X = rng.normal(size=(60, 3))
    y = np.arange(60) % 2
    bad = X[:5].copy()
    bad[2, 1] = np.nan
    features = srf.RandomFourier(n_components=8, random_state=0)
    clf = srf.RandomFeatureClassifier(features, random_state=0).fit(X, y)
    values = srf.RandomFeatureRegressor(features, alpha=1.0).fit(X, y)
    kernel = srf.KernelRidgeClassifier(alpha=1.0).fit(X, y)
    components = srf.RandomFeaturePCA(2, features=features).fit(X)
    clusters = srf.RandomFeatureKMeans(2, features=features, random_state=0).fit(X)
    for use in (
        *(clf.predict, clf.predict_proba, clf.decision_function, values.predict, kernel.predict),
        *(components.transform, clusters.predict, clone(components).fit),
        *(lambda rows: clf.score(rows, y[:5]), lambda rows: clf.evaluate(rows, y[:5])),
    ):
        with pytest.raises(BadRowError, match=r"^X, row 2: column 1 is NaN; clean the data"):
            use(bad)
    novel = srf.RandomFeatureRegressor(features, alpha=1.0, uncertainty=True).fit(X, y).model_
    for model, use in (
        *((clf.model_, name) for name in ("predict", "predict_proba")),
        *((novel, name) for name in ("predict", "novelty")),
    ):
        with pytest.warns(StreamrfWarning, match="^1 rows were left out"):
            found = getattr(model, use)(bad, on_bad_rows="skip")
        np.testing.assert_array_equal(found, getattr(model, use)(np.delete(bad, 2, axis=0)))


@pytest.mark.parametrize("kind", [srf.RandomFeatureClassifier, srf.KernelRidgeRegressor])
def test_a_score_without_targets_says_how_to_give_them(kind):
    X, y = DIGITS
    with pytest.raises(DataError, match=r"score needs y, .*: score\(X, y\), or a source that has"):
        kind(alpha=1.0).fit(X[:100], y[:100]).score(X)


@pytest.mark.parametrize("as_rows", [lambda *rows: rows, lambda *rows: (srf.ArraySource(*rows),)])
def test_labels_that_are_skipped_need_not_be_among_the_classes(as_rows, rng):
    X = rng.normal(size=(60, 3))
    y = np.where(np.arange(60) == 7, np.nan, np.arange(60) % 2)
    clf = classifier(alpha=1.0, on_bad_rows="skip").partial_fit(*as_rows(X, y))
    clf.partial_fit(*as_rows(X + 1, y), classes=[0, 1])
    assert clf.statistics_.n_rows == 118
    with pytest.raises(UnknownLabelError, match=r"the label 2\.0 is none of"):
        clf.partial_fit(*as_rows(X + 2, y + 1), classes=[0, 1])
