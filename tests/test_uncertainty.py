"""How sure a prediction is: beside dense formulas, other libraries and simulated truth."""

import tracemalloc

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import norm
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score

import streamrf as srf
from plain import hat_matrix, plain_features, plain_targets
from streamrf import storage
from streamrf.errors import DataError, FormatError, ParameterError, UnknownLabelError
from streamrf.models import probabilities
from streamrf.models.probabilities import DEFAULT_SLOPE, Probabilities
from streamrf.sources.hashing import uniform

DIGITS = load_digits(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)


def features(n_components=40):
    return srf.RandomMaclaurin(
        srf.Polynomial(degree=2), n_components=n_components, projection="rademacher", random_state=0
    )


def diabetes(weighted=False, precision="exact", n_targets=2):
    X, y = DIABETES
    y = np.stack((y, 100 * np.sin(y)), axis=1)[:, :n_targets]
    weights = np.random.default_rng(0).uniform(0.5, 3, len(X)) if weighted else None
    source = srf.ArraySource(X, y, weights)
    return srf.accumulate(source, features(), regression=True, precision=precision), weights


@pytest.mark.parametrize("alpha", [1e-2, 3.0])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_deviations_are_those_of_the_dense_formulas(precision, weighted, alpha):
    X, y = DIABETES
    statistics, weights = diabetes(weighted, precision)
    model = statistics.solve(alpha, uncertainty=True)
    Z, w = plain_features(statistics.encoder, X, weights)
    t = plain_targets(statistics.encoder, np.stack((y, 100 * np.sin(y)), axis=1), weights)
    H = hat_matrix(Z, w, alpha)
    root = np.sqrt(w)[:, np.newaxis]
    noise = ((root * t - H @ (root * t)) ** 2).sum(axis=0) / (len(X) - np.trace(H))
    np.testing.assert_allclose(model.posterior.noise, noise, rtol=1e-6)
    assert model.posterior.dof == pytest.approx(np.trace(H), rel=1e-6)

    D = np.column_stack((np.ones(len(Z)), Z))
    inverse = np.linalg.inv(D.T @ (w[:, np.newaxis] * D) + np.diag([0.0] + [alpha] * 40))
    new = statistics.encoder.features.transform(X[:50]).astype(np.float64)
    new = np.column_stack((np.ones(50), new - statistics.encoder.calibration.shift))
    variances = np.outer(1 + np.einsum("ni,ij,nj->n", new, inverse, new), noise)
    values, deviations = model.predict(X[:50], return_std=True)
    np.testing.assert_allclose(deviations, np.sqrt(variances), rtol=1e-6)
    np.testing.assert_array_equal(values, model.predict(X[:50]))
    np.testing.assert_array_equal(model.coef, statistics.solve(alpha).coef)

    step = statistics.encoder.calibration.step
    coef_variances = np.outer(noise, np.diag(inverse)[1:]) * step**2
    np.testing.assert_allclose(model.coef_variances, coef_variances, rtol=1e-6)


def test_deviations_are_those_of_bayesian_ridge():
    """Scikit-learn counts no uncertainty of the intercept, and its noise has one freedom more."""
    X, y = DIABETES
    statistics, _ = diabetes(precision="float64", n_targets=1)
    Z = statistics.encoder.features.transform(X).astype(np.float64)
    theirs = BayesianRidge(
        alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-10, max_iter=3000
    ).fit(Z, y)
    model = statistics.solve(theirs.lambda_ / theirs.alpha_, uncertainty=True)
    _, expected = theirs.predict(Z, return_std=True)
    _, deviations = model.predict(X, return_std=True)
    noise, dof = model.posterior.noise[0], model.posterior.dof
    one_less = (len(X) - dof) / (len(X) - dof + 1)
    np.testing.assert_allclose(noise * one_less, 1 / theirs.alpha_, rtol=1e-5)
    squares = (deviations**2 - noise / len(X)) * one_less
    np.testing.assert_allclose(np.sqrt(squares), expected, rtol=1e-5)
    variances = model.coef_variances / statistics.encoder.calibration.step**2
    np.testing.assert_allclose(variances[0] * one_less, np.diag(theirs.sigma_), rtol=1e-4)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_intervals_cover_new_targets_as_often_as_they_say(weighted, rng):
    """50 sets of rows of a function that the features can express, 1,000 new rows each."""
    covered = {0.5: [], 0.9: [], 0.99: []}
    for _ in range(50):
        X = rng.normal(size=(1150, 3))
        truth = X[:, 0] * X[:, 1] - X[:, 2]
        weights = rng.choice([0.25, 4.0], size=1150) if weighted else np.ones(1150)
        y = truth + 0.7 * rng.normal(size=1150) / np.sqrt(weights)
        source = srf.ArraySource(X[:150], y[:150], weights[:150] if weighted else None)
        statistics = srf.accumulate(source, features(30), regression=True)
        model = statistics.solve(1.0, uncertainty=True)
        values, deviations = model.predict(X[150:], return_std=True)
        fresh = truth[150:] + 0.7 * rng.normal(size=1000)  # of weight 1
        for share, hits in covered.items():
            hits.append(np.mean(np.abs(fresh - values) < norm.ppf(0.5 + share / 2) * deviations))
    for share, hits in covered.items():
        assert np.mean(hits) == pytest.approx(share, abs=0.02)


def test_far_from_the_rows_predictions_are_less_sure():
    X = np.linspace(-1, 1, 200)[:, np.newaxis]
    y = np.sin(3 * X[:, 0])
    model = srf.RandomFeatureRegressor(features(20), alpha=0.1, uncertainty=True).fit(X, y)
    _, near = model.predict(np.array([[0.0]]), return_std=True)
    _, far = model.predict(np.array([[30.0]]), return_std=True)
    assert far[0] > 10 * near[0]


def test_shapes_follow_the_targets():
    X, y = DIABETES
    one = srf.RandomFeatureRegressor(features(), alpha=1.0, uncertainty=True).fit(X, y)
    values, deviations = one.predict(X[:7], return_std=True)
    assert values.shape == deviations.shape == (7,)
    both = np.stack((y, 2 * y), axis=1)
    two = srf.RandomFeatureRegressor(features(), alpha=1.0, uncertainty=True).fit(X, both)
    values, deviations = two.predict(srf.ArraySource(X[:7]), return_std=True)
    assert values.shape == deviations.shape == (7, 2)
    np.testing.assert_allclose(deviations[:, 1], 2 * deviations[:, 0], rtol=1e-5)


def test_an_estimator_with_uncertainty_can_be_cross_validated():
    X, y = DIABETES
    estimator = srf.RandomFeatureRegressor(features(), uncertainty=True, random_state=0)
    assert np.mean(cross_val_score(estimator, X, y, cv=3)) > 0.3


def test_each_target_of_an_estimator_may_have_its_penalty():
    X, y = DIABETES
    both = np.stack((y, y), axis=1)
    model = srf.RandomFeatureRegressor(features(), alpha=[1e-3, 1e3]).fit(X, both)
    apart = np.abs(model.predict(X) - y.mean()).mean(axis=0)
    assert apart[1] < apart[0]
    assert model.alpha_.tolist() == [1e-3, 1e3]


def test_deviations_survive_saving(tmp_path):
    X, _ = DIABETES
    model = diabetes()[0].solve(1.0, uncertainty=True)
    model.save(tmp_path / "sure.model.h5")
    again = srf.load_model(tmp_path / "sure.model.h5")
    for ours, theirs in zip(
        again.predict(X, return_std=True), model.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    diabetes()[0].solve(1.0).save(tmp_path / "unsure.model.h5")
    sizes = [(tmp_path / f"{name}.model.h5").stat().st_size for name in ("sure", "unsure")]
    assert sizes[0] - sizes[1] >= 8 * 40 * 41 // 2


@pytest.mark.parametrize("change", ["factor", "noise", "weight", "mean"])
def test_a_false_posterior_in_a_file_is_refused(change, tmp_path):
    tree = diabetes()[0].solve(1.0, uncertainty=True).to_tree()
    tree["posterior"][change] = -1.0 * tree["posterior"][change]
    if change == "mean":
        tree["posterior"]["mean"] = np.zeros(3)
    storage.write(tmp_path / "false.h5", "model", tree)
    with pytest.raises(FormatError, match=change):
        srf.load_model(tmp_path / "false.h5")


def test_a_model_without_uncertainty_says_what_to_do():
    X, y = DIABETES
    with pytest.raises(ParameterError, match="solve its statistics with uncertainty=True"):
        diabetes()[0].solve(1.0).predict(X, return_std=True)
    with pytest.raises(ParameterError, match="uncertainty=True"):
        srf.RandomFeatureRegressor(features(), alpha=1.0).fit(X, y).predict(X, return_std=True)
    with pytest.raises(ParameterError, match="uncertainty=True"):
        _ = diabetes()[0].solve(1.0).coef_variances


def test_uncertainty_that_cannot_be_is_refused():
    X, y = DIGITS
    classes = srf.accumulate(srf.ArraySource(X, y), features(), normalize="l2")
    for uncertainty in (False, True):
        with pytest.raises(ParameterError, match="is for values, and this model predicts classes"):
            classes.solve(1.0, uncertainty=uncertainty).predict(X, return_std=True)
    with pytest.raises(ParameterError, match="needs one alpha"):
        diabetes()[0].solve([1.0, 2.0], uncertainty=True)
    rng = np.random.default_rng(0)
    few = srf.ArraySource(rng.normal(size=(20, 5)), rng.normal(size=20))
    statistics = srf.accumulate(few, features(60), regression=True)
    with pytest.raises(DataError, match="60 features take all degrees of freedom of 20 rows"):
        statistics.solve(1e-9, uncertainty=True)


def digits_classifier(**settings):
    settings = {"normalize": "l2", "random_state": 0, **settings}
    return srf.RandomFeatureClassifier(features(300), **settings)


CODES = {
    "one-vs-rest": None,
    "error-correcting": srf.ErrorCorrectingCodes(n_bits=31),
    "hamming": srf.ErrorCorrectingCodes(n_bits=31, decode="hamming"),
    "discriminant": srf.OneVsRest(decode="discriminant"),
}


@pytest.mark.parametrize(
    ("n_classes", "codes"),
    [(2, None), *((10, codes) for codes in CODES.values())],
    ids=["two-classes", *CODES],
)
def test_probabilities_are_calibrated(codes, n_classes):
    X, y = DIGITS
    X, y = X[y < n_classes], y[y < n_classes]
    if n_classes == 2:
        X = X + np.random.default_rng(0).normal(size=X.shape) * 12  # else all are right
    half = len(X) // 2
    model = digits_classifier(codes=codes).fit(X[:half], y[:half])
    P = model.predict_proba(X[half:])
    assert P.shape == (len(X) - half, n_classes)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X[half:]))
    assert log_loss(y[half:], P) < 0.5 * np.log(n_classes)
    assert calibration_error(P, y[half:]) < 0.06


def calibration_error(P, y, n_bins=10):
    """Expected calibration error (Guo et al. 2017): mean gap between confidence and accuracy."""
    confidence, right = P.max(axis=1), P.argmax(axis=1) == y
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = [abs(confidence[bins == k].sum() - right[bins == k].sum()) for k in range(n_bins)]
    return sum(gaps) / len(y)


def test_the_slope_is_that_of_a_logistic_regression(rng):
    """Of two classes, with no offset and no penalty; the prior is worth a few rows."""
    x = rng.normal(size=20_000)
    y = (rng.random(20_000) < 1 / (1 + np.exp(-3 * x))).astype(int)
    weights = rng.uniform(0.5, 2, 20_000)
    theirs = LogisticRegression(C=np.inf, fit_intercept=False)
    theirs.fit(x[:, np.newaxis], y, sample_weight=weights)
    ours = Probabilities.fit(np.stack((np.zeros_like(x), x), axis=1), y, weights)
    assert ours.slope == pytest.approx(theirs.coef_[0, 0], rel=1e-3)
    assert ours.n_rows == 20_000


def test_the_slope_of_many_classes_is_found(rng):
    scores = rng.normal(size=(20_000, 5))
    P = softmax(2.0 * scores, axis=1)
    y = (P.cumsum(axis=1) > rng.random((20_000, 1))).argmax(axis=1)
    found = Probabilities.fit(scores, y, np.ones(20_000))
    assert found.slope == pytest.approx(2.0, rel=0.03)
    np.testing.assert_allclose(found.of(3 * scores, 3.0), P, atol=0.02)


def test_rows_of_many_classes_are_computed_with_a_few_at_a_time(rng, monkeypatch):
    scores = rng.normal(size=(2000, 300))
    index, weights = scores.argmax(axis=1) % 7, rng.uniform(0.5, 2, 2000)
    monkeypatch.setattr(probabilities, "VALUES", 2000 * 300)
    whole = Probabilities.fit(scores, index, weights)
    monkeypatch.setattr(probabilities, "VALUES", 7 * 300)
    tracemalloc.start()
    assert Probabilities.fit(scores, index, weights) == whole
    assert tracemalloc.get_traced_memory()[1] < scores.nbytes / 5
    tracemalloc.stop()


def test_where_all_rows_are_right_the_slope_stays_finite():
    scores = np.repeat(np.eye(3), 10, axis=0)
    found = Probabilities.fit(scores, scores.argmax(axis=1), np.ones(30))
    assert DEFAULT_SLOPE < found.slope < 5 * DEFAULT_SLOPE


def test_with_too_few_rows_to_fit_the_usual_slope_is_taken():
    X, y = DIGITS
    model = digits_classifier().fit(X[:30], y[:30])
    assert (model.model_.probabilities.slope, model.model_.probabilities.n_rows) == (
        DEFAULT_SLOPE,
        0,
    )
    np.testing.assert_allclose(model.predict_proba(X[30:40]).sum(axis=1), 1)


def test_rows_given_later_calibrate_a_model_of_fixed_alpha():
    X, y = DIGITS
    model = digits_classifier(alpha=1e-2).fit(X[:900], y[:900])
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError) as caught:
        _ = model.predict_proba
    assert "fit_probabilities(X, y) takes them after fit" in str(caught.value.__cause__)
    with pytest.raises(ParameterError, match="rows that were not trained on to fit_probabilities"):
        model.model_.predict_proba(X)
    assert model.fit_probabilities(X[900:1300], y[900:1300]) is model
    assert model.model_.probabilities.n_rows == 400
    P = model.predict_proba(X[1300:])
    assert calibration_error(P, y[1300:]) < 0.06
    weighted = model.model_.fit_probabilities(
        srf.ArraySource(X[900:], y[900:], np.ones(len(X) - 900))
    )
    assert weighted.probabilities == model.model_.fit_probabilities(X[900:], y[900:]).probabilities


def test_calibration_that_cannot_be_is_refused():
    X, y = DIGITS
    model = digits_classifier(alpha=1e-2).fit(X[y < 5], y[y < 5]).model_
    with pytest.raises(UnknownLabelError, match="label 5 is none that the model"):
        model.fit_probabilities(X, y)
    with pytest.raises(DataError, match="no labels to fit to"):
        model.fit_probabilities(X)
    values = diabetes()[0].solve(1.0)
    for use in (values.fit_probabilities, values.predict_proba):
        with pytest.raises(ParameterError, match="regression model has no probabilities"):
            use(DIABETES[0])


def test_probabilities_survive_saving(tmp_path):
    X, y = DIGITS
    model = digits_classifier().fit(X, y)
    model.save(tmp_path / "digits.model.h5")
    again = srf.load_model(tmp_path / "digits.model.h5")
    assert again.model_.probabilities == model.model_.probabilities
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_among_some_classes_probabilities_keep_their_proportions():
    X, y = DIGITS
    model = digits_classifier(codes=srf.ErrorCorrectingCodes(n_bits=31)).fit(X, y).model_
    among = model.restrict_classes([1, 4, 7])
    P = model.predict_proba(X)[:, [1, 4, 7]]
    np.testing.assert_allclose(among.predict_proba(X), P / P.sum(axis=1, keepdims=True), rtol=1e-6)


def test_rows_held_out_of_a_class_not_summed_are_left_out(rng):
    """The class of the one held-out row is known only when it joins the others."""
    X, y = DIGITS
    held = np.flatnonzero(uniform(np.arange(len(X))) < 0.2)
    y = y.copy()
    y[held[0]] = 10
    model = digits_classifier().fit(X, y)
    assert model.classes_.tolist() == list(range(11))
    assert model.model_.probabilities.n_rows == len(held) - 1
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("n_rows", [100, 200])
def test_few_rows_without_noise_get_a_penalty_that_leaves_freedom(n_rows):
    """The one chosen on rows held out left none, and the fit was refused."""
    X = np.random.default_rng(0).uniform(-1, 1, (n_rows, 2))
    y = 2 * X[:, 0] + 1
    model = srf.RandomFeatureRegressor(uncertainty=True, random_state=0).fit(X, y)
    values, deviations = model.predict(X, return_std=True)
    assert np.abs(values - y).max() < 0.01
    assert (deviations > 0).all()
    plain = srf.RandomFeatureRegressor(random_state=0).fit(X, y)
    assert model.alpha_ > plain.alpha_
    with pytest.raises(DataError, match="leaves none to learn the noise from"):
        plain.statistics_.solve(plain.alpha_, uncertainty=True)


def test_two_rows_leave_no_freedom_whatever_the_penalty():
    X = np.random.default_rng(0).normal(size=(2, 2))
    map_ = srf.StructuredFourier(srf.Gaussian(0.4), 16, random_state=0)
    with pytest.raises(DataError, match="leaves none to learn the noise from"):
        srf.RandomFeatureRegressor(map_, uncertainty=True).fit(X, X[:, 0])
