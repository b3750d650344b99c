"""Exact kernel ridge on few rows: scikit-learn's, the primal ridge, Nystroem of all rows."""

import pickle
from contextlib import nullcontext, suppress

import numpy as np
import pandas as pd
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import KernelCenterer
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamrf as srf
from cases import KERNELS, nonnegative
from streamrf.errors import (
    BadRowError,
    DataError,
    ParameterError,
    ShapeError,
    SolveError,
    StreamrfWarning,
)
from streamrf.kernels import Intersection
from streamrf.kernels.base import Expansion
from streamrf.solving import Dual

pytestmark = pytest.mark.usefixtures("one_thread")

ESTIMATORS = (srf.KernelRidgeClassifier, srf.KernelRidgeRegressor)


@pytest.fixture
def rows(rng):
    return rng.normal(size=(130, 4)).astype(np.float32)


def theirs(kernel, X, Y, alpha, rows, weights=None):
    """Predictions of scikit-learn's estimator, on the centred kernel where no row is heavier."""
    centerer = KernelCenterer().fit(kernel(X))
    fitted = KernelRidge(alpha=alpha, kernel="precomputed")
    fitted.fit(centerer.transform(kernel(X)), Y - Y.mean(axis=0))
    return fitted.predict(centerer.transform(kernel(rows, X))) + Y.mean(axis=0)


@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
def test_values_are_those_of_scikit_learn(rows, rng, case):
    kernel, X = case.make(), case.domain(rows).astype(np.float32)
    Y = rng.normal(size=(100, 2))
    ours = srf.KernelRidgeRegressor(kernel, alpha=0.1).fit(X[:100], Y)
    expected = theirs(kernel, X[:100], Y, 0.1, X[100:])
    np.testing.assert_allclose(ours.predict(X[100:]), expected, rtol=1e-5, atol=1e-6)
    assert ours.dual_coef_.shape == (100, 2)


def test_a_weight_of_two_is_a_row_twice(rows, rng):
    y, X, weights = rng.normal(size=100), rows[:100], np.ones(100)
    weights[:30], weights[30:40] = 2.0, 0.0
    twice = np.concatenate([np.arange(30), np.arange(30), np.arange(40, 100)])
    ours = srf.KernelRidgeRegressor(srf.Gaussian(0.5), alpha=0.1).fit(X, y, weights)
    expected = theirs(srf.Gaussian(0.5), X[twice], y[twice], 0.1, rows[100:])
    np.testing.assert_allclose(ours.predict(rows[100:]), expected, rtol=1e-6)
    assert len(ours.X_fit_) == 90


def test_scores_of_classes_are_values_of_their_codes(rows, rng):
    kernel, labels = srf.Laplacian(0.3), np.array(["a", "b", "c"])[rng.integers(0, 3, 130)]
    ours = srf.KernelRidgeClassifier(kernel, alpha=0.1).fit(rows[:100], labels[:100])
    codes = 2.0 * (labels[:100, np.newaxis] == ours.classes_) - 1
    expected = theirs(kernel, rows[:100], codes, 0.1, rows[100:])
    expected = srf.OneVsRest().book(3).scores(expected)
    np.testing.assert_allclose(ours.decision_function(rows[100:]), expected, atol=1e-6)
    assert (ours.predict(rows[100:]) == ours.classes_[expected.argmax(axis=1)]).all()


def test_codes_with_more_bits_are_taken(rng):
    X = rng.normal(size=(200, 2))
    y = (np.arctan2(*X.T) // 0.8).astype(int)
    codes = srf.ErrorCorrectingCodes(15)
    clf = srf.KernelRidgeClassifier(srf.Gaussian(), codes=codes).fit(X[:150], y[:150])
    assert clf.dual_coef_.shape == (150, 15)
    assert clf.score(X[150:], y[150:]) > 0.8
    with pytest.raises(ParameterError, match="use decode='euclidean'"):
        srf.KernelRidgeClassifier(codes=srf.OneVsRest("discriminant")).fit(X, y)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_errors_are_those_of_models_without_each_row(rng, is_weighted):
    X, Y = rng.uniform(-1, 1, (70, 2)), rng.normal(size=(70, 2))  # more than a block of 64
    w = rng.uniform(0.5, 2, 70) if is_weighted else np.ones(70)
    kernel, alphas = srf.Gaussian(1.0), [0.01, 1.0, 30.0]
    _, found = Dual(kernel(X), Y, w).leave_one_out(alphas)
    expected = np.zeros((3, 2))
    for i, alpha in enumerate(alphas):
        for row in range(70):
            kept = np.delete(np.arange(70), row)
            a, b = Dual(kernel(X[kept]), Y[kept], w[kept]).solve(alpha)
            apart = Y[row] - b - kernel(X[[row]], X[kept])[0] @ a
            expected[i] += w[row] / w.sum() * apart**2
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("gamma", [0.05, 1.0])
def test_errors_without_a_row_hold_where_weights_spread_over_decades(rng, gamma):
    """Rounding drowned the freedom of rows that weigh much: 3.6 times the least error was best."""
    X, kernel = rng.normal(size=(60, 4)), srf.Laplacian(gamma)
    y, w = np.sin(X[:, :1]), np.exp(3 * rng.normal(size=60))
    alphas, found = Dual(kernel(X), y, w).leave_one_out()
    expected = np.zeros_like(found)
    for i, alpha in enumerate(alphas):
        for row in range(60):
            kept = np.delete(np.arange(60), row)
            border = np.ones((60, 60))
            border[:59, :59] = kernel(X[kept]) + alpha * np.diag(1 / w[kept])
            border[59, 59] = 0
            a = np.linalg.solve(border, np.append(y[kept], 0))
            apart = y[row] - a[59] - kernel(X[[row]], X[kept])[0] @ a[:59]
            expected[i] += w[row] / w.sum() * apart**2
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("heavy", [1e6, 1e9, 1e12])
def test_the_penalty_chosen_factors_whatever_one_row_weighs(seed, heavy):
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(40, 3)), np.ones(40)
    w[0] = heavy
    with suppress(SolveError) if heavy == 1e12 else nullcontext():  # which no penalty may suit
        model = srf.KernelRidgeRegressor(srf.Laplacian(0.3)).fit(X, np.sin(X[:, 0]), w)
        assert model.score(X, np.sin(X[:, 0])) > 0


def test_dates_are_no_targets(rng):
    y = np.array([np.datetime64("2024-01-01")] * 10, dtype=object)
    with pytest.raises(ShapeError, match="y has dtype datetime64; expected numbers"):
        srf.KernelRidgeRegressor().fit(rng.normal(size=(10, 2)), y)


def test_rows_that_are_repeated_do_not_choose_the_least_penalty(rng):
    """Each would be predicted by its copy."""
    X = rng.uniform(-1, 1, (60, 2))
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=60)
    once = srf.KernelRidgeRegressor(srf.Gaussian(9.0)).fit(X, y)
    twice = srf.KernelRidgeRegressor(srf.Gaussian(9.0)).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    np.testing.assert_allclose(twice.alpha_, 2 * once.alpha_, rtol=1e-6)
    np.testing.assert_allclose(twice.predict(X), once.predict(X), rtol=1e-6)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_tiny_penalty_leaves_no_rounding_along_the_weights(rng, is_weighted):
    """The coefficients add up to 0; by 1e-9 of them predictions were 40 deviations away."""
    X = np.abs(rng.normal(size=(800, 2)))
    y = np.sin(2 * X[:, :1]) + X[:, 1:]
    w = rng.uniform(0.5, 2, 800) if is_weighted else np.ones(800)
    K = srf.JensenShannon()(X)
    a, b = Dual(K, y, w).solve(3e-8)
    assert abs(a.sum()) <= 1e-12 * np.abs(a).sum()
    assert np.sqrt(np.square(K @ a + b - y).mean()) < 0.05


def test_the_penalty_of_several_targets_does_not_depend_on_their_units(rng):
    X = rng.uniform(-1, 1, (120, 2))
    y = np.stack((np.sin(3 * X[:, 0]) + 0.5 * rng.normal(size=120), X[:, 1]), axis=1)
    found = [srf.KernelRidgeRegressor().fit(X, y * [1, unit]).alpha_ for unit in (1e-3, 1, 1e3)]
    np.testing.assert_allclose(found, found[0], rtol=1e-9)


def test_penalties_that_do_not_factor_are_left_out(rng):
    dual = Dual(np.ones((5, 5)), rng.normal(size=(5, 1)), np.ones(5))
    with pytest.raises(SolveError, match="none of the 1 penalties factors and leaves"):
        dual.leave_one_out([0.0])


def test_nystroem_of_all_rows_is_the_same_but_for_rounding(rng):
    """Landmarks that are all rows: the one-pass ridge is exact kernel ridge."""
    X = rng.uniform(-1, 1, (300, 3))
    y = np.sin(3 * X[:, 0]) * X[:, 1]
    exact = srf.KernelRidgeRegressor(srf.Gaussian(1.0), alpha=0.01).fit(X[:200], y[:200])
    features = srf.Nystroem(srf.Gaussian(1.0), 200, landmarks="uniform")
    passed = srf.RandomFeatureRegressor(features, alpha=0.01, normalize=None, random_state=0)
    passed.fit(X[:200], y[:200])
    np.testing.assert_allclose(passed.predict(X[200:]), exact.predict(X[200:]), atol=2e-3)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_intersections_by_search_are_those_by_kernel_values(rng, n_outputs):
    rows = np.round(nonnegative(rng.normal(size=(300, 5))), 2)  # with ties and zeros
    X = np.concatenate([nonnegative(rng.normal(size=(90, 5))), rows[:9], 3 * rows[:9]])
    coef = rng.normal(size=(300, n_outputs))
    kernel = Intersection()
    found = kernel.expansion(rows, coef)(X)
    np.testing.assert_allclose(found, Expansion(kernel, rows, coef)(X), atol=1e-11)
    np.testing.assert_allclose(found, kernel(X, rows) @ coef, atol=1e-11)
    with pytest.raises(BadRowError, match="takes no negative ones"):
        kernel.expansion(rows, coef)(-X)


def test_values_are_made_a_few_rows_at_a_time(rows, monkeypatch):
    coef = np.ones((100, 2))
    expected = srf.Gaussian(0.5)(rows, rows[:100]) @ coef
    monkeypatch.setattr("streamrf.kernels.base.BLOCK_BYTES", 8 * 100 * 7)
    found = srf.Gaussian(0.5).expansion(rows[:100], coef)(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_sources_and_tables_are_taken_and_many_rows_are_sampled(rng, tmp_path):
    X = rng.uniform(size=(1000, 3))
    y = X[:, 0] > X[:, 1]
    source = srf.ArraySource(X, y)
    clf = srf.KernelRidgeClassifier(n_rows=200, normalize="standard").fit(source)
    assert len(clf.X_fit_) == 200
    assert clf.score(X, y) > 0.9
    assert (clf.predict(source) == clf.predict(X)).all()
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "kind": np.where(y, "up", "down")})
    model = srf.KernelRidgeRegressor(n_rows=300).fit(frame, X[:, 1])
    assert model.score(frame, X[:, 1]) > 0.4
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_rows": 0}, "n_rows must be an integer above 0, got 0"),
        ({"n_rows": True}, "n_rows must be an integer above 0, got True"),
        ({"alpha": "best"}, "alpha must be a number or 'auto', got 'best'"),
        ({"alpha": -1.0}, "alpha"),
        ({"kernel": "rbf"}, r"kernel must be a kernel such as Gaussian\(\), got 'rbf'"),
    ],
)
def test_a_wrong_setting_is_named(rows, kind, settings, message):
    with pytest.raises(ParameterError, match=message):
        kind(**settings).fit(rows, np.arange(130) % 2)


@pytest.mark.parametrize("codes", ["onevsrest", srf.OneVsRest])
@pytest.mark.parametrize("kind", [srf.KernelRidgeClassifier, srf.RandomFeatureClassifier])
def test_what_is_no_code_is_told(rows, kind, codes):
    with pytest.raises(ParameterError, match=r"codes must be OneVsRest\(\) or ErrorCorr"):
        kind(codes=codes).fit(rows, np.arange(130) % 2)


def test_rows_without_targets_or_weight_are_refused(rows):
    with pytest.raises(DataError, match="has no targets"):
        srf.KernelRidgeRegressor().fit(srf.ArraySource(rows))
    with pytest.raises(DataError, match="weights are zero"):
        srf.KernelRidgeRegressor().fit(srf.ArraySource(rows, np.ones(130), np.zeros(130)))


@parametrize_with_checks([kind(srf.Gaussian(0.5), alpha=0.1) for kind in ESTIMATORS])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_a_class_without_a_row_among_those_fitted_is_told():
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = np.arange(400) % 2
    y[30] = 7
    with pytest.warns(StreamrfWarning, match="n_rows=50 rows fitted have none of class 7"):
        srf.KernelRidgeClassifier(n_rows=50).fit(X, y)
    assert srf.KernelRidgeClassifier(n_rows=400).fit(X, y).classes_.tolist() == [0, 1, 7]


def test_scores_weigh_rows_as_their_source_does(rng):
    X, weights = rng.normal(size=(400, 3)), np.repeat([1e-3, 1.0], 200)
    y = (X[:, 0] > 0) ^ (weights < 1)
    source = srf.ArraySource(X, y, weights)
    clf = srf.KernelRidgeClassifier().fit(source)
    assert clf.score(source) == pytest.approx(np.average(clf.predict(X) == y, weights=weights))
    assert clf.score(source) == clf.score(X, y, weights) > 0.9
    regressor = srf.KernelRidgeRegressor().fit(source)
    assert regressor.score(source) == pytest.approx(regressor.score(X, y, weights))
    with pytest.raises(ParameterError, match="a source gives its own targets and weights"):
        clf.score(source, sample_weight=weights)


def test_scores_read_a_source_once(rng):
    """An iterator that comes once was "read already" by the score itself."""
    X = rng.normal(size=(300, 3))
    frame = pd.DataFrame(X, columns=[*"abc"]).assign(y=np.where(X[:, 0] > 0, "u", "v"))
    rows = [frame[i : i + 40] for i in range(0, 300, 40)]
    clf = srf.KernelRidgeClassifier().fit(frame, "y")
    assert clf.score(srf.open_source(iter(rows), y="y")) == clf.score(frame, "y") > 0.9
    targets = np.c_[X[:, 0], X[:, 1] ** 2]
    model = srf.KernelRidgeRegressor().fit(X, targets)
    stream = srf.IteratorSource(iter([(X[:100], targets[:100]), (X[100:], targets[100:])]))
    assert model.score(stream) == pytest.approx(model.score(X, targets))
    with pytest.raises(ShapeError, match="rows have 1 targets, the model 2"):
        model.score(srf.open_source(X, y=X[:, 0]))
    X[7] = np.nan
    with pytest.raises(BadRowError, match="row 7"):
        model.score(srf.open_source(X, y=targets))


@pytest.mark.parametrize("n_weighing", [20, 300])
@pytest.mark.parametrize("is_stream", [False, True])
def test_rows_of_no_weight_take_no_place_among_those_fitted(rng, n_weighing, is_stream):
    X, weights = rng.normal(size=(6000, 3)), np.zeros(6000)
    weighing = np.sort(rng.choice(6000, n_weighing, replace=False))
    weights[weighing] = 1.0
    given = X, X[:, 0], weights
    source = srf.IteratorSource([given]) if is_stream else srf.ArraySource(*given)
    found = srf.KernelRidgeRegressor(n_rows=50).fit(source).X_fit_
    places = np.flatnonzero((X[weighing, :1].astype(np.float32) == found[:, 0]).any(axis=1))
    assert len(places) == len(found) == min(n_weighing, 50)
    if is_stream:
        assert places.tolist() == list(range(len(places)))
    else:
        assert np.diff(places).max() <= n_weighing / 50 * 2 + 1
    regressor = srf.KernelRidgeRegressor(n_rows=50).fit(*given)
    assert len(regressor.X_fit_) == min(n_weighing, 50)


@pytest.mark.parametrize("kind", [srf.KernelRidgeClassifier, srf.KernelRidgeRegressor])
def test_no_penalty_is_chosen_by_rows_that_are_all_equal(kind):
    X, y = np.ones((300, 2)), np.arange(300) % 2
    with pytest.raises(DataError, match="the 300 rows are all equal, so that nothing can be learn"):
        kind(srf.Gaussian(0.3)).fit(X, y)
    kind(srf.Gaussian(0.3), alpha=0.1).fit(X, y)


def test_bad_weights_of_rows_that_are_not_fitted_are_refused(rng):
    X, weights = rng.normal(size=(6000, 3)), np.ones(6000)
    for value in (np.nan, -1.0):
        weights[17] = value
        for rows in ((X, X[:, 0], weights), (srf.ArraySource(X, X[:, 0], weights),)):
            with pytest.raises(BadRowError, match="X, row 17: the weight is"):
                srf.KernelRidgeRegressor(n_rows=50).fit(*rows)


def test_bad_weights_next_to_a_table_with_categories_are_refused(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": rng.normal(size=6000), "b": ["x", "y"] * 3000})
    weights = np.where(np.arange(6000) == 17, -1.0, 1.0)
    with pytest.raises(BadRowError, match="row 17: the weight is -1"):
        srf.KernelRidgeRegressor(n_rows=50).fit(frame, frame["a"].to_numpy(), weights)


def test_rows_of_no_weight_at_the_head_of_a_stream_are_not_kept(rng, monkeypatch):
    X, n_asked = rng.normal(size=(20_000, 3)), []
    sample = srf.IteratorSource.sample

    def counted(self, n_rows):
        n_asked.append(n_rows)
        return sample(self, n_rows)

    monkeypatch.setattr(srf.IteratorSource, "sample", counted)
    weights = (np.arange(20_000) >= 19_000) * 1.0
    blocks = (
        (X[i : i + 500], X[i : i + 500, 0], weights[i : i + 500]) for i in range(0, 20_000, 500)
    )
    fitted = srf.KernelRidgeRegressor(n_rows=50).fit(srf.IteratorSource(blocks))
    assert np.array_equal(fitted.X_fit_, X[19_000:19_050].astype(np.float32))
    assert max(n_asked) <= 50


def test_a_class_that_weighs_nothing_is_not_missed(rng):
    X, y = rng.normal(size=(100, 2)), np.arange(100) % 3
    clf = srf.KernelRidgeClassifier(n_rows=80).fit(X, y, (y > 0) * 1.0)
    assert clf.classes_.tolist() == [1, 2]


@pytest.mark.parametrize("value", [0.1, 1e9 / 3])
def test_a_constant_target_is_predicted_exactly(rng, value):
    X = np.repeat(rng.normal(size=(40, 3)), 3, axis=0)
    y = np.column_stack((np.full(120, value), X[:, 0]))
    fitted = srf.KernelRidgeRegressor().fit(X, y)
    assert (fitted.predict(X)[:, 0] == value).all()
    assert srf.KernelRidgeRegressor().fit(X, y[:, 0]).score(X, y[:, 0]) == 1.0


def test_rows_left_out_by_the_default_are_told(monkeypatch):
    X = np.random.default_rng(0).normal(size=(90, 2))
    monkeypatch.setattr("streamrf.estimators.kernel_ridge.N_ROWS", 50)
    with pytest.warns(StreamrfWarning, match="X: 50 of 90 rows are fitted, .* n_rows= takes more"):
        srf.KernelRidgeRegressor(n_rows=50).fit(X, X[:, 1])
    srf.KernelRidgeRegressor(n_rows=51).fit(X, X[:, 1])
    srf.KernelRidgeRegressor(n_rows=50).fit(X[:50], X[:50, 1])
