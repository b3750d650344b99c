"""Predictions and figures follow their definitions, in one block or in many."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from scipy.special import softmax
from scipy.stats import norm
from sklearn import metrics

import streamrf as srf
from integers import accumulate, features
from streamrf.errors import (
    BadRowError,
    DataError,
    ParameterError,
    ShapeError,
    StreamrfWarning,
    UnknownLabelError,
)
from streamrf.models import prediction
from streamrf.models.class_metrics import CACHED_ENTRIES, ClassErrors, log_odds
from streamrf.models.codes import CodeBook
from streamrf.models.decoders import Euclidean, Hamming
from streamrf.models.metrics import ValueErrors
from streamrf.models.model import Model
from streamrf.models.probabilities import Probabilities

pytestmark = pytest.mark.usefixtures("one_thread")

N = 700


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)).astype(np.float32)
    y = np.digitize(X[:, 0] * X[:, 1], [-0.5, 0, 0.7])
    values = np.stack((X[:, 0] ** 2, 1e4 + 300 * X[:, 1], X[:, 2]), axis=1)
    values += rng.normal(size=(N, 3)) * (0.5, 100.0, 2.0)
    weights = rng.uniform(0.1, 3.0, N)
    for array in (X, y, values, weights):
        array.flags.writeable = False
    return X, y, values, weights


NAMES = np.array(["zebra", "ox", "antelope", "bee"])
CODES = {
    "one-vs-rest": None,
    "euclidean": srf.ErrorCorrectingCodes(6),
    "hamming": srf.ErrorCorrectingCodes(6, decode="hamming"),
    "discriminant": srf.OneVsRest(decode="discriminant"),
}


def train(X, y, codes=None, **options):
    return accumulate(srf.ArraySource(X, y), features(40), **options).solve(0.1, codes)


@pytest.fixture(scope="module", params=CODES)
def classifier(request, rows):
    """A model with names for labels."""
    X, y, _, _ = rows
    return train(X, NAMES[y], CODES[request.param])


@pytest.fixture(scope="module")
def regressor(rows):
    X, _, values, _ = rows
    return train(X, values, regression=True)


def outputs_by_definition(model, X):
    """``coef (z - shift) / step + intercept`` in plain NumPy."""
    calibration = model.encoder.calibration
    Z = model.encoder.features.transform(model.encoder.preprocessing.apply(X)).astype(np.float64)
    scaled = (Z - calibration.shift) / calibration.step
    return scaled @ model.coef.T + model.intercept


def test_outputs_follow_their_definition(classifier, regressor, rows):
    X = rows[0]
    for model in (classifier, regressor):
        expected = outputs_by_definition(model, X)
        np.testing.assert_allclose(model.outputs(X), expected, rtol=1e-9, atol=1e-9)


def test_the_nearest_code_word_wins(classifier, rows):
    X = rows[0]
    outputs = outputs_by_definition(classifier, X)
    book = classifier.book
    if book.decode == "discriminant":  # nearest to the mean by another distance: test_codes.py
        scores = outputs @ book.decoder.slope.T + book.decoder.offset
        np.testing.assert_allclose(classifier.decision_function(X), scores, rtol=1e-8, atol=1e-8)
        return
    if book.decode == "hamming":
        outputs = np.where(outputs >= 0, 1.0, -1.0)
    distances = cdist(outputs, book.matrix)
    predicted = classifier.predict(X)
    index = np.searchsorted(classifier.labels, predicted)
    chosen = distances[np.arange(N), index]
    np.testing.assert_allclose(chosen, distances.min(axis=1), rtol=1e-12)
    scores = classifier.decision_function(X)
    assert scores.shape == (N, 4)
    np.testing.assert_array_equal(classifier.labels[scores.argmax(axis=1)], predicted)
    # nearer is higher: the squared distance falls by 2 for each 1 of the score
    order = np.argsort(scores, axis=1)
    ranked = np.take_along_axis(distances, order, axis=1)
    assert (np.diff(ranked, axis=1) <= 1e-9).all()


@pytest.mark.parametrize(
    "labels",
    [NAMES, np.arange(4) - 10, np.arange(4) * 2.0, np.arange(4, dtype=np.uint8), NAMES.astype("S")],
    ids=["str", "int", "float", "uint8", "bytes"],
)
def test_predictions_have_the_labels_that_were_given(rows, labels):
    X, y, _, _ = rows
    model = train(X, labels[y])
    labels = np.char.decode(labels) if labels.dtype.kind == "S" else labels
    predicted = model.predict(X)
    assert predicted.shape == (N,)
    assert predicted.dtype.kind == ("i" if labels.dtype.kind == "u" else labels.dtype.kind)
    assert np.mean(predicted == labels[y]) > 0.6


@pytest.mark.parametrize("labels", [[False, True], [-1, 1], ["no", "yes"], [3.0, 4.0]])
def test_two_classes_have_one_score_above_zero_for_the_second(rows, labels):
    X, y, _, _ = rows
    model = train(X, np.array(labels)[(y > 1).astype(int)])
    scores = model.decision_function(X)
    assert scores.shape == (N,)
    np.testing.assert_allclose(scores, outputs_by_definition(model, X)[:, 0], atol=1e-9)
    expected = np.array(labels)[(scores > 0).astype(int)]
    np.testing.assert_array_equal(model.predict(X), expected)
    report = model.evaluate(X, np.array(labels)[(y > 1).astype(int)])
    assert report["labels"] == labels
    assert np.shape(report["confusion_matrix"]) == (2, 2)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_the_figures_of_a_classifier_are_those_of_scikit_learn(classifier, rows, weighted):
    X, y, _, weights = rows
    truth, weights = NAMES[y], weights if weighted else None
    predicted = classifier.predict(X)
    report = classifier.evaluate(X, truth, weights=weights)
    accuracy = metrics.accuracy_score(truth, predicted, sample_weight=weights)
    confusion = metrics.confusion_matrix(truth, predicted, sample_weight=weights)
    assert 0.35 < accuracy < 1  # better than chance, and with errors to count
    assert report["accuracy"] == pytest.approx(accuracy, rel=1e-12)
    assert report["error"] == pytest.approx(1 - accuracy, rel=1e-12)
    np.testing.assert_allclose(report["confusion_matrix"], confusion, rtol=1e-12)
    assert report["labels"] == sorted(NAMES)
    assert report["n_rows"] == N


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_the_figures_of_a_regressor_are_those_of_scikit_learn(rows, weighted, n_targets):
    X, _, values, weights = rows
    truth, weights = values[:, :n_targets], weights if weighted else None
    model = train(X, truth, regression=True)
    report = model.evaluate(X, truth, weights=weights)
    predicted = model.predict(X)
    assert predicted.shape == ((N,) if n_targets == 1 else (N, n_targets))
    for name, metric in (
        ("rmse", metrics.root_mean_squared_error),
        ("mae", metrics.mean_absolute_error),
        ("r2", metrics.r2_score),
    ):
        expected = metric(truth, predicted, sample_weight=weights)
        assert report[name] == pytest.approx(expected, rel=1e-10), name
        if n_targets > 1:
            given = truth, predicted.reshape(truth.shape)
            each = metric(*given, sample_weight=weights, multioutput="raw_values")
            found = [one[name] for one in report["by_target"]]
            np.testing.assert_allclose(found, each, rtol=1e-10)
    assert ("by_target" in report) == (n_targets > 1)
    assert report["n_rows"] == N


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_figures_of_probabilities_are_those_of_scikit_learn(rows, weighted, n_classes):
    X, y, _, weights = rows
    y, weights = y % n_classes, weights if weighted else None
    half = slice(0, N // 2)
    model = train(X[half], y[half], CODES["discriminant"]).fit_probabilities(X[half], y[half])
    report = model.evaluate(X, y, weights=weights)
    likely = model.predict_proba(X)
    found = likely.argmax(axis=1)
    expected = {
        "balanced_error": 1 - metrics.balanced_accuracy_score(y, found, sample_weight=weights),
        "log_loss": metrics.log_loss(y, likely, sample_weight=weights),
        "brier": metrics.brier_score_loss(
            y, likely if n_classes > 2 else likely[:, 1], sample_weight=weights
        ),
        "calibration_error": calibration_error(likely.max(axis=1), found == y, weights),
    }
    for name, value in expected.items():
        assert report[name] == pytest.approx(value, abs=1e-7), name
    for k in range(2, n_classes):
        top = metrics.top_k_accuracy_score(y, likely, k=k, sample_weight=weights)
        assert report["top_k_accuracy"][k - 1] == pytest.approx(top, abs=1e-12)
    areas = [
        metrics.roc_auc_score(y == c, likely[:, c], sample_weight=weights) for c in range(n_classes)
    ]
    assert 0 < report["auc_error"] < 3e-4
    assert report["auc"] == pytest.approx(np.mean(areas), abs=report["auc_error"])
    if n_classes > 2:
        np.testing.assert_allclose(report["auc_by_class"], areas, rtol=0, atol=1e-3)


def calibration_error(sure, right, weights):
    """``sum_bins weight |mean confidence - share right| / total``, bins of a fifteenth."""
    weights = np.ones(len(sure)) if weights is None else weights
    total = 0.0
    for low in np.arange(15) / 15:
        inside = (sure > low) & (sure <= low + 1 / 15)
        total += abs(weights[inside] @ (sure - right)[inside])
    return total / weights.sum()


def test_areas_are_right_where_probabilities_round_to_one():
    """Sure rows are still ranked: in float64 their probabilities are all 1."""
    logits = np.stack((np.arange(40, 140.0), np.zeros(100), np.full(100, -3.0)), axis=1)
    np.testing.assert_allclose(np.diff(log_odds(logits)[:, 0]), 1.0, rtol=1e-12)
    exact = np.log(np.exp(logits[:, 1]) / (np.exp(logits[:, 0]) + np.exp(logits[:, 2])))
    np.testing.assert_allclose(log_odds(logits)[:, 1], exact, rtol=1e-12)
    errors = ClassErrors(np.arange(3))
    errors.add(np.where(np.arange(100) < 50, 1, 0), logits)
    report = errors.report()
    assert report["auc_by_class"] == [*[pytest.approx(1.0, abs=2e-3)] * 2, None]
    assert report["auc"] == pytest.approx(1.0, abs=report["auc_error"])


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_figures_of_many_classes_are_those_of_scikit_learn(weighted, rng):
    """Which are added up a few rows at a time."""
    n, k = 1000, 300
    logits, y = 3 * rng.normal(size=(n, k)), rng.integers(k, size=n)
    logits[np.arange(n), y] += 4
    weights = rng.random(n) if weighted else None
    errors = ClassErrors(np.arange(k), Probabilities(1.0, n))
    errors.add(y, logits, weights)
    assert logits.size > 10 * CACHED_ENTRIES
    report, likely = errors.report(), softmax(logits, axis=1)
    options = {"labels": np.arange(k), "sample_weight": weights}
    confusion = metrics.confusion_matrix(y, logits.argmax(axis=1), **options)
    np.testing.assert_allclose(report["confusion_matrix"], confusion, rtol=1e-12)
    assert report["log_loss"] == pytest.approx(metrics.log_loss(y, likely, **options), rel=1e-6)
    for places, share in enumerate(report["top_k_accuracy"], 1):
        expected = metrics.top_k_accuracy_score(y, logits, k=places, **options)
        assert share == pytest.approx(expected, rel=1e-12)
    others = (1 - likely).clip(1e-300)
    np.testing.assert_allclose(log_odds(logits), np.log(likely / others), rtol=1e-9, atol=1e-9)
    odds, own = log_odds(logits), y[:, np.newaxis] == np.arange(k)
    some = own.any(axis=0)
    areas = [
        metrics.roc_auc_score(own[:, c], odds[:, c], sample_weight=weights)
        for c in some.nonzero()[0]
    ]
    assert report["auc"] == pytest.approx(np.mean(areas), abs=report["auc_error"])


def test_models_without_probabilities_leave_their_figures_out(classifier, rows):
    report = classifier.evaluate(rows[0], NAMES[rows[1]])
    for name in ("log_loss", "brier", "calibration_error", "reliability"):
        assert report[name] is None
    assert 0.5 < report["auc"] < 1


@pytest.mark.parametrize(("n_bits", "are_outputs_first"), [(8, True), (30, False)])
def test_scores_of_codes_take_the_cheaper_way(n_bits, are_outputs_first, rng):
    """And a row has the same bits among any others."""
    X, y = rng.normal(size=(3000, 2)), np.arange(3000) % 40
    model = accumulate(srf.ArraySource(X, y), features(100)).solve(
        1.0, codes=srf.ErrorCorrectingCodes(n_bits)
    )
    assert (model._class_coef is None) == are_outputs_first
    scores = model.scores(X)
    np.testing.assert_allclose(scores, model.outputs(X) @ model.book.matrix.T, atol=1e-9)
    for some in (slice(0, 1), slice(7, 150), slice(2000, 2999)):
        np.testing.assert_array_equal(model.scores(X[some]), scores[some])


def test_many_bits_of_a_row_are_read_in_fewer_rows(rng, monkeypatch):
    X, y = rng.normal(size=(3000, 2)), np.arange(3000) % 12
    stats = accumulate(srf.ArraySource(X, y), features(8))
    models = [stats.solve(1.0, codes=srf.ErrorCorrectingCodes(n)) for n in (12, 900)]
    monkeypatch.setattr(prediction, "BLOCK_BYTES", 8 * 900 * 100)
    few, many = (max(len(scores) for _, scores in model.scored(X)) for model in models)
    assert many == 100 < few


def test_a_class_without_rows_has_no_area_and_no_recall(classifier, rows):
    X, y, _, _ = rows
    some = y != 0
    report = classifier.evaluate(X[some], NAMES[y[some]])
    assert report["auc_by_class"][sorted(NAMES).index(NAMES[0])] is None
    found = classifier.predict(X[some])
    recalls = [np.mean(found[y[some] == i] == NAMES[i]) for i in (1, 2, 3)]
    assert report["balanced_error"] == pytest.approx(1 - np.mean(recalls))
    assert classifier.evaluate(X[y == 0], NAMES[y[y == 0]])["auc"] is None


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_the_coverage_is_the_share_of_values_in_their_intervals(rows, weighted):
    X, _, values, weights = rows
    weights = weights if weighted else None
    source = srf.ArraySource(X[:300], values[:300])
    model = accumulate(source, features(40), regression=True).solve(0.1, uncertainty=True)
    report = model.evaluate(X, values, weights=weights, return_std=True)
    mean, deviation = model.predict(X, return_std=True)
    for level, share in report["coverage"].items():
        low, high = norm.interval(float(level), mean, deviation)
        inside = (low <= values) & (values <= high)
        assert share == pytest.approx(np.average(inside, axis=0, weights=weights).mean())
    assert report["mean_std"] == pytest.approx(
        np.average(deviation, axis=0, weights=weights).mean()
    )
    assert 0.85 < report["coverage"]["0.95"] < 0.99
    plain = model.evaluate(X, values, weights=weights)
    assert plain == {k: report[k] for k in report if k not in ("coverage", "mean_std")}


def test_rows_that_were_trained_on_are_counted(rows, tmp_path):
    X, y, values, _ = rows
    model = train(X[:300], y[:300])
    model.save(tmp_path / "model.h5")
    for one in (model, srf.load_model(tmp_path / "model.h5")):
        assert one.evaluate(X, y)["n_rows_trained_on"] == 300
        assert one.evaluate(X[300:], y[300:])["n_rows_trained_on"] == 0
    dirty = X.copy()
    dirty[70:80] = np.nan
    assert model.evaluate(dirty, y, on_bad_rows="skip")["n_rows_trained_on"] == 290
    some = srf.accumulate(
        srf.ArraySource(X, values), features(8), regression=True, rows=(100, 150), random_state=0
    )
    assert some.solve(1.0).evaluate(X, values)["n_rows_trained_on"] == 50


def test_one_column_of_targets_and_none_are_the_same(rows):
    X, _, values, _ = rows
    flat, column = (train(X, y, regression=True) for y in (values[:, 0], values[:, :1]))
    np.testing.assert_array_equal(flat.coef, column.coef)
    assert flat.evaluate(X, values[:, :1]) == flat.evaluate(X, values[:, 0])


def test_constant_targets_score_as_in_scikit_learn(regressor, rows):
    X = rows[0]
    truth = np.tile([1.0, 2.0, 3.0], (N, 1))
    expected = metrics.r2_score(truth, regressor.predict(X))
    assert regressor.evaluate(X, truth)["r2"] == expected == 0.0


def test_a_large_common_offset_costs_the_figures_no_digits(rng):
    truth = 1e9 + rng.normal(size=(500, 1))
    predicted = truth + 0.1 * rng.normal(size=(500, 1))
    errors = ValueErrors(1)
    for part in np.array_split(np.arange(500), 7):
        errors.add(truth[part], predicted[part])
    report = errors.report()
    assert report["r2"] == pytest.approx(metrics.r2_score(truth, predicted), rel=1e-9)
    assert report["rmse"] == pytest.approx(metrics.root_mean_squared_error(truth, predicted))


@pytest.fixture(params=[7, 64, 699, 4096])
def blocks_of(request, monkeypatch):
    """Predict in blocks of so many rows."""
    monkeypatch.setattr(Model, "_block_rows", request.param)
    return request.param


@pytest.mark.usefixtures("blocks_of")
def test_a_stream_gives_what_one_block_gives(classifier, regressor, rows):
    X, y, values, weights = rows
    whole = [model.scores(X) for model in (classifier, regressor)]
    np.testing.assert_allclose(classifier.decision_function(X), whole[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(regressor.predict(X), whole[1], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(classifier.predict(X), classifier.decide(whole[0]))
    truth = NAMES[y]
    confusion = metrics.confusion_matrix(truth, classifier.decide(whole[0]))
    assert classifier.evaluate(X, truth)["confusion_matrix"] == confusion.tolist()
    report = regressor.evaluate(X, values, weights=weights)
    assert report["r2"] == pytest.approx(metrics.r2_score(values, whole[1], sample_weight=weights))


def test_every_source_is_evaluated_alike(classifier, rows):
    X, y, _, weights = rows
    truth = NAMES[y]
    reports = [
        classifier.evaluate(X, truth, weights=weights),
        classifier.evaluate(srf.ArraySource(X, truth, weights)),
        classifier.evaluate(
            srf.IteratorSource(
                (X[i : i + 50], truth[i : i + 50], weights[i : i + 50]) for i in range(0, N, 50)
            )
        ),
    ]
    for report in reports[1:]:
        np.testing.assert_allclose(report["confusion_matrix"], reports[0]["confusion_matrix"])


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_evaluations_of_parts_add_up(kind, rng):
    y = rng.integers(0, 3, 100) if kind == "classes" else rng.normal(size=(100, 2))
    predicted = rng.normal(size=(100, 3 if kind == "classes" else 2))
    weights = rng.uniform(0, 2, 100)

    def errors_of(part):
        errors = ClassErrors(np.arange(3)) if kind == "classes" else ValueErrors(2)
        errors.add(y[part], predicted[part], weights[part])
        return errors

    def figures_of(errors):
        figures = errors.report()
        return figures | {"by_target": [[*one.values()] for one in figures.get("by_target", ())]}

    whole = figures_of(errors_of(slice(None)))
    parts = [errors_of(part) for part in np.array_split(np.arange(100), 4)]
    merged = figures_of(parts[3] + parts[1] + (parts[0] + parts[2]))
    assert merged.keys() == whole.keys()
    for name, value in whole.items():
        if value is None:
            assert merged[name] is None
        else:
            np.testing.assert_allclose(merged[name], value, rtol=1e-12)


def test_figures_of_several_targets_have_their_names(rows):
    X, _, values, _ = rows
    y = pd.DataFrame(values[:, :2], columns=["wind", "rain"])
    clf = srf.RandomFeatureRegressor(features(16), random_state=0).fit(X, y)
    found = clf.evaluate(X, y[["rain", "wind"]])["by_target"]
    assert [one["target"] for one in found] == ["wind", "rain"]
    expected = metrics.root_mean_squared_error(y["rain"], clf.predict(X)[:, 1])
    assert found[1]["rmse"] == pytest.approx(expected, rel=1e-10)


def test_a_label_of_another_kind_is_told(classifier, rows):
    with pytest.raises(UnknownLabelError, match="it is a number, and those are text"):
        classifier.evaluate(rows[0], np.zeros(N, int))


def test_an_unknown_label_is_named_with_those_that_are_known(classifier, rows):
    X, y, _, _ = rows
    truth = NAMES[y].astype("U10")
    truth[77] = "yak"
    expected = (
        r"label 'yak' is none that the model knows, which are \['antelope', 'bee', 'ox', 'zebra'\]"
    )
    with pytest.raises(UnknownLabelError, match=expected):
        classifier.evaluate(X, truth)
    with pytest.raises(UnknownLabelError, match="label 3 is none that the model knows"):
        classifier.evaluate(X, np.full(N, 3))


def test_many_labels_are_counted_and_not_listed():
    errors = ClassErrors(np.arange(100))
    with pytest.raises(
        UnknownLabelError, match=r"label 100 is none that the model knows, which are 100 labels"
    ):
        errors.add(np.array([5, 100]), np.ones((2, 100)), None)


def test_rows_of_another_width_are_refused(classifier, rows):
    X, y, _, _ = rows
    message = "has 3 features, but the model was trained on 4"
    for use in (classifier.predict, classifier.decision_function):
        with pytest.raises(ShapeError, match=message):
            use(X[:, :3])
    with pytest.raises(ShapeError, match=message):
        classifier.evaluate(X[:, :3], NAMES[y])


def test_a_model_has_a_coefficient_for_each_feature(classifier):
    """Others read beyond the array."""
    for change in ({"coef": np.ones((1, 3))}, {"intercept": np.zeros(9)}):
        with pytest.raises(ShapeError, match=r"coef has shape .* expected"):
            replace(classifier, **change)


@pytest.mark.parametrize(
    "made", [np.ndarray.tolist, lambda X: X.astype(">f8"), lambda X: X.astype(object)]
)
def test_outputs_take_the_arrays_that_predictions_take(classifier, rows, made):
    X = rows[0][:50]
    for method in (classifier.outputs, classifier.scores):
        np.testing.assert_array_equal(method(made(X)), method(X))


@pytest.mark.parametrize("wrong", [np.ones((2, 4), complex), np.ones(4), np.ones((2, 4), str)])
def test_outputs_refuse_the_arrays_that_predictions_refuse(classifier, wrong):
    for method in (classifier.outputs, classifier.scores, classifier.predict):
        with pytest.raises(ShapeError):
            method(wrong)


def test_outputs_do_not_guess_the_columns_of_tables(classifier, rows):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(DataError, match=r"X is a DataFrame.*give it to predict"):
        classifier.scores(pandas.DataFrame(rows[0]))


def test_targets_unlike_those_of_the_model_are_refused(classifier, regressor, rows):
    X, y, values, _ = rows
    with pytest.raises(ShapeError, match="rows have 2 targets, the model 3"):
        regressor.evaluate(X, values[:, :2])
    with pytest.raises(DataError, match="X has strings as targets; this model has values"):
        regressor.evaluate(X, NAMES[y])
    with pytest.raises(ShapeError, match=r"y has shape \(\d+, 2\); labels are one a row"):
        classifier.evaluate(X, np.stack((NAMES[y], NAMES[y]), axis=1))


def test_an_evaluation_needs_targets(classifier, rows):
    with pytest.raises(DataError, match="no targets to compare with; name the dataset: y="):
        classifier.evaluate(rows[0])


def test_a_regressor_has_no_decision_function(regressor, rows):
    with pytest.raises(ParameterError, match="no decision function; use predict"):
        regressor.decision_function(rows[0])


@pytest.mark.usefixtures("blocks_of")
def test_bad_rows_are_refused_or_left_out(classifier, rows):
    X, y, _, _ = rows
    dirty = X.copy()
    bad = np.r_[0:10, 300, 500:600]  # whole blocks of the smallest size, too
    dirty[bad, 1] = np.nan
    with pytest.raises(DataError, match="X, row 0: column 1 is NaN"):
        classifier.predict(dirty)
    good = np.setdiff1d(np.arange(N), bad)
    report = classifier.evaluate(dirty, NAMES[y], on_bad_rows="skip")
    assert report["n_rows"] == len(good)
    assert report == classifier.evaluate(X[good], NAMES[y][good])
    with pytest.warns(StreamrfWarning, match=f"^{len(bad)} rows were left out"):
        predicted = classifier.predict(dirty, on_bad_rows="skip")
    np.testing.assert_array_equal(predicted, classifier.predict(X[good]))


def test_hamming_and_euclidean_can_differ():
    """A sure wrong bit outweighs two unsure right ones by distance, but not by count."""
    matrix = np.array([[1, 1, 1], [-1, -1, -1]])
    outputs = np.array([[0.1, 0.1, -3.0]])
    assert CodeBook(matrix, Hamming()).scores(outputs).argmax() == 0
    assert CodeBook(matrix, Euclidean()).scores(outputs).argmax() == 1


def test_progress_counts_every_row(classifier, rows):
    seen = []
    classifier.predict(rows[0], progress=seen.append)
    assert sum(seen) == N


@pytest.mark.parametrize("k", [2, 3])
def test_scores_that_overflow_are_counted_all_the_same(k):
    scores = np.zeros((4, k))
    scores[0, 1], scores[1, 1], scores[2] = np.inf, -np.inf, np.inf
    errors = ClassErrors(np.arange(k))
    with np.errstate(invalid="ignore"):
        errors.add(np.array([1, 0, 1, 0]), scores)
    assert errors.n_rows == 4
    assert (errors.sums["odds"][0].sum(axis=1) == 4).all()


@pytest.mark.parametrize("regression", [False, True])
def test_a_row_whose_features_overflow_has_no_prediction(regression, rows):
    """It was of the first class, and right where that was the label."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = X[:, 0] if regression else (X[:, 0] > 0).astype(int)
    features = srf.RandomMaclaurin(srf.Polynomial(3), 16, random_state=0)
    model = srf.accumulate(srf.ArraySource(X, y), features, regression=regression).solve(0.1)
    X[7] = 1e30
    with pytest.raises(BadRowError, match="X, row 7: it is so large that its features overflow"):
        model.predict(X)
    with pytest.raises(BadRowError, match="X, row 7: it is so large"):
        model.evaluate(srf.ArraySource(X, y))


@pytest.mark.parametrize("regression", [False, True])
def test_rows_that_all_weigh_nothing_judge_nothing(regression):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = X[:, 0] if regression else (X[:, 0] > 0).astype(int)
    features = srf.RandomFourier(n_components=8, random_state=0)
    model = srf.accumulate(srf.ArraySource(X, y), features, regression=regression).solve(0.1)
    with pytest.raises(DataError, match="no rows to judge by, or all their weights are zero"):
        model.evaluate(srf.ArraySource(X, y, np.zeros(60)))


@pytest.mark.parametrize("on_bad_rows", ["raise", "skip"])
def test_predictions_do_not_look_at_the_targets_and_weights_of_a_source(rng, on_bad_rows):
    X = rng.normal(size=(100, 3))
    y = X[:, 0].copy()
    statistics = srf.accumulate(srf.ArraySource(X, y), srf.Identity(), regression=True)
    model = statistics.solve(1.0, uncertainty=True)
    y[3], weights = np.nan, np.ones(100)
    weights[7] = -1
    source = srf.ArraySource(X, y, weights)
    np.testing.assert_array_equal(model.predict(source, on_bad_rows=on_bad_rows), model.predict(X))
    for own, others in zip(
        model.predict(source, return_std=True), model.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(own, others)
    with pytest.raises(DataError):
        model.evaluate(source)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_an_empty_range_has_no_predictions_and_judges_nothing(rng, is_sparse):
    """All of these ended in tracebacks of np.concatenate."""
    X, y = rng.normal(size=(100, 3)), rng.integers(0, 3, 100).astype(str)
    features = srf.RandomFourier(srf.Gaussian(0.3), 16, random_state=0)
    statistics = srf.accumulate(srf.ArraySource(X, y), features)
    model = statistics.solve(0.1, uncertainty=True).fit_probabilities(X, y)
    values = srf.accumulate(srf.ArraySource(X, X[:, :2]), features).solve(0.1, uncertainty=True)
    rows, none = csr_array(X) if is_sparse else X, {"start": 5, "stop": 5}
    assert model.predict(rows, **none).shape == (0,)
    assert model.predict_proba(rows, **none).shape == (0, 3)
    assert model.decision_function(rows, **none).shape == (0, 3)
    assert model.novelty(rows, **none).shape == (0,)
    assert [a.shape for a in values.predict(rows, return_std=True, **none)] == [(0, 2), (0, 2)]
    assert model.predict(rows, start=0, stop=0).shape == (0,)
    components = statistics.principal_components(2)
    assert components.transform(rows, **none).shape == (0, 2)
    for judge in (model.evaluate, model.fit_probabilities):
        with pytest.raises(DataError, match="no rows to judge by"):
            judge(rows, y, **none)


@pytest.mark.parametrize("option", ["memory_limit", "checkpoint", "checkpoint_every", "verbose"])
def test_options_that_mean_nothing_to_a_model_are_refused(classifier, rows, option):
    """A limit that nobody keeps was taken."""
    X, y = rows[0], rows[1]
    asked = {option: 1 if option == "checkpoint_every" else "1 KiB"}
    for call in (classifier.predict, classifier.decision_function):
        with pytest.raises(ParameterError, match=f"no option '{option}'; the options are engine"):
            call(X, **asked)
    for call in (classifier.evaluate, classifier.fit_probabilities):
        with pytest.raises(ParameterError, match=f"no option '{option}'"):
            call(X, y, **asked)
