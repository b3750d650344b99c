"""Maps of blocks, and their kernels weighed after the pass: next to refits and dense formulas."""

import numpy as np
import pytest
from scipy.special import factorial
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import Ridge

import streamrf as srf
from plain import plain_features
from streamrf.errors import FormatError, ParameterError
from streamrf.features import DESCRIBED
from streamrf.report import facts
from streamrf.solving import evidence
from streamrf.storage import describe

pytestmark = pytest.mark.usefixtures("one_thread")

DIGITS = load_digits(return_X_y=True)
WEIGHTS = [0.3, 2.0, 0.7]


def gaussians(width=20, gammas=(0.01, 0.1, 1.0), **settings):
    maps = [srf.RandomFourier(srf.Gaussian(gamma), width) for gamma in gammas]
    return srf.Concatenate(maps, random_state=0, **settings)


def diabetes(features=None, n_targets=1, weighted=False, **settings):
    X, y = load_diabetes(return_X_y=True)
    y = np.stack((y, np.sin(y)), axis=1)[:, :n_targets]
    weights = np.random.default_rng(0).uniform(0.5, 2, len(X)) if weighted else None
    source = srf.ArraySource(10 * X, y, weights)
    features = gaussians() if features is None else features
    return srf.accumulate(source, features, regression=True, **settings), 10 * X, y, weights


def digits(features, **settings):
    X, y = DIGITS
    return srf.accumulate(srf.ArraySource(X[:1200], y[:1200]), features, **settings)


def error(model):
    X, y = DIGITS
    return np.mean(model.predict(X[1200:]) != y[1200:])


def test_the_features_are_those_of_the_maps_next_to_each_other(rng):
    X = rng.normal(size=(40, 5))
    maps = [srf.RandomFourier(n_components=7, random_state=1), srf.TensorSketch(random_state=2)]
    both = srf.Concatenate(maps, [4.0, 0.25]).fit(X)
    parts = [clone(map_).fit(X).transform(X) for map_ in maps]
    np.testing.assert_array_equal(both.transform(X), np.hstack((2 * parts[0], parts[1] / 2)))
    assert both.n_components == 107
    assert both.blocks.tolist() == [0] * 7 + [1] * 100
    assert not hasattr(maps[0], "kernel_")
    kernels = [map_.kernel_(X) for map_ in both.maps_]
    np.testing.assert_allclose(both.kernel_(X), 4 * kernels[0] + kernels[1] / 4)


def test_settings_of_the_maps_have_names():
    features = gaussians()
    params = features.get_params()
    assert params["1__kernel__gamma"] == 0.1
    assert params["0"] is features.maps[0]
    features.set_params(**{"1__kernel__gamma": 0.5, "2": srf.TreeSketch(), "weights": [1, 2, 3]})
    assert features.maps[1].kernel.gamma == 0.5
    assert isinstance(features.maps[2], srf.TreeSketch)
    assert clone(features).get_params()["1__kernel__gamma"] == 0.5
    features.set_params(maps=features.maps[:2], **{"0__n_components": 3})
    assert features.n_components == 23
    with pytest.raises(ValueError, match="no setting '5'"):
        features.set_params(**{"5__n_components": 3})


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (srf.Concatenate([]), r"maps must be a list of feature maps, got \[\]"),
        (srf.Concatenate(srf.RandomFourier()), "maps must be a list"),
        (srf.Concatenate([srf.RandomFourier(n_components=0)]), "n_components must be an integer"),
        (gaussians(weights=[1, 2]), r"weights must be 3 numbers, .* got \[1, 2\]"),
        (gaussians(weights=[1, 2, -1]), "none below 0"),
        (gaussians(weights="auto"), "weights must be 3 numbers"),
    ],
)
def test_what_is_no_list_of_maps_is_refused(rng, features, message):
    with pytest.raises(ParameterError, match=message):
        features.fit(rng.normal(size=(5, 3)))


def test_a_file_with_other_maps_than_its_weights_is_refused(rng):
    tree = describe.to_tree(gaussians().fit(rng.normal(size=(5, 3))))
    del tree["fitted"]["maps_"]["2"]
    features = describe.from_tree(tree, DESCRIBED)
    with pytest.raises(FormatError, match="scales_"):
        features.check_fitted(3, describe.Fields({}), "features")


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_weighed_blocks_are_features_scaled_by_the_roots(weighted):
    statistics, X, y, w = diabetes(n_targets=2, weighted=weighted)
    model = statistics.solve(0.5, block_weights=WEIGHTS)
    Z, w = plain_features(statistics.encoder, X, w)
    Z = Z * np.sqrt(np.repeat(WEIGHTS, 20))
    expected = Ridge(0.5).fit(Z, y, w)
    np.testing.assert_allclose(model.predict(X), expected.predict(Z), atol=2e-3 * y.std())


def test_weights_of_the_map_are_those_of_the_solve():
    of_map = diabetes(gaussians(weights=WEIGHTS))[0].solve(0.1)
    statistics, X, _, _ = diabetes()
    later = statistics.solve(0.1, block_weights=WEIGHTS)
    np.testing.assert_allclose(later.predict(X), of_map.predict(X), atol=1e-2)  # of targets of 77
    assert np.abs(statistics.solve(0.1).predict(X) - later.predict(X)).max() > 1
    once = statistics.solve(0.1, block_weights=[1, 1, 1])
    np.testing.assert_array_equal(once.coef, statistics.solve(0.1).coef)


def test_a_block_of_weight_0_is_left_out():
    statistics, X, _, _ = diabetes()
    model = statistics.solve(0.1, block_weights=[1.0, 0.0, 2.0])
    kept = statistics.select(np.r_[:20, 40:60]).solve(0.1, block_weights=[1.0, 5.0, 2.0])
    np.testing.assert_array_equal(model.predict(X), kept.predict(X))
    assert model.encoder.columns.tolist() == [*range(20), *range(40, 60)]
    with pytest.raises(ParameterError, match="leave out every feature that is summed"):
        statistics.select(np.arange(20)).solve(block_weights=[0, 1, 1])


def test_deviations_are_those_of_the_weighed_features():
    statistics, X, _, _ = diabetes()
    model = statistics.solve(0.1, block_weights=WEIGHTS, uncertainty=True)
    expected = diabetes(gaussians(weights=WEIGHTS))[0].solve(0.1, uncertainty=True)
    for found, right in zip(
        model.predict(X, return_std=True), expected.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, right, rtol=1e-4)


def test_paths_and_folds_take_weights():
    problem = diabetes(folds=3)[0].problem().weighted(WEIGHTS)
    expected = diabetes(gaussians(weights=WEIGHTS), folds=3)[0]
    alphas = [0.01, 1.0]
    np.testing.assert_allclose(problem.path(alphas).gcv, expected.path(alphas).gcv, rtol=1e-4)
    found = problem.cross_validate(alphas)
    np.testing.assert_allclose(found.mse, expected.cross_validate(alphas).mse, rtol=1e-4)
    assert found.model().block_weights.tolist() == WEIGHTS
    assert problem.alpha_scale == pytest.approx(expected.alpha_scale(), rel=1e-4)


MACLAURIN = {"h01": True, "projection": "complex", "random_state": 0}


@pytest.mark.parametrize(
    ("first", "second", "settings"),
    [
        (srf.Polynomial(7), srf.Polynomial(7, gamma=0.4, coef0=2.0), MACLAURIN),
        (srf.Polynomial(5), srf.DotProduct([1, 0.5, 2, 3, 0.1, 4]), {"projection": "rademacher"}),
        (
            srf.DotProduct([0.0, 1.0, 0.5]),
            srf.DotProduct([0.0, 0.2, 3.0]),
            {"inner": srf.RandomFourier(paired=False)},
        ),
    ],
)
def test_a_maclaurin_map_weighed_to_another_kernel_is_a_refit(first, second, settings):
    def of(kernel):
        map_ = srf.RandomMaclaurin(kernel, 101, **{"random_state": 0, **settings})
        return digits(map_, normalize="l2", precision="float64")

    statistics, refit = of(first), of(second)
    for alpha in (1e-3, 1.0):
        model = statistics.solve(alpha, block_weights=second)
        expected = refit.solve(alpha)
        X = DIGITS[0][1200:]
        found, right = (m.decision_function(X) for m in (model, expected))
        np.testing.assert_allclose(found, right, atol=2e-5)
    apart = statistics.solve(alpha).decision_function(X) - right
    assert np.abs(apart).max() > 1e-2


def test_infinite_series_are_weighed_term_by_term(rng):
    features = srf.RandomMaclaurin(srf.Exponential(2.0), 100, random_state=0)
    weights = features.fit(rng.normal(size=(5, 3))).weights_for(srf.VovkInfinite(0.1))
    n = np.arange(len(weights))
    np.testing.assert_allclose(weights, 0.1**n * 4.0**n * factorial(n), rtol=1e-12)


def test_a_kernel_of_fewer_degrees_takes_no_more_features():
    features = srf.RandomMaclaurin(srf.Polynomial(4), 100, h01=True, random_state=0)
    model = digits(features, normalize="l2").solve(0.1, block_weights=srf.Polynomial(2))
    degrees = features.fit(DIGITS[0]).blocks
    assert model.encoder.columns.tolist() == np.flatnonzero(degrees <= 2).tolist()
    # (1 + t)^2 / (1 + t)^4, term by term
    np.testing.assert_allclose(model.block_weights[:3], [1, 2 / 4, 1 / 6])


@pytest.mark.parametrize("inner", [None, srf.RandomFourier(paired=False)])
@pytest.mark.parametrize("projection", ["hadamard", "complex"])
def test_blocks_of_a_maclaurin_map_are_the_degrees_of_its_features(rng, inner, projection):
    if inner is not None and projection == "complex":
        pytest.skip("not together")
    settings = {"inner": inner} if inner else {"projection": projection, "h01": True}
    features = srf.RandomMaclaurin(srf.Polynomial(3), 51, random_state=0, **settings)
    X = rng.normal(size=(6, 4))
    features.fit(X)
    if inner is None:  # twice the row, 2^n times the feature
        with np.errstate(divide="ignore", invalid="ignore"):
            powers = np.log2(features.transform(2 * X) / features.transform(X))
        np.testing.assert_allclose(np.nanmedian(powers, axis=0), features.blocks, atol=1e-4)
    else:
        assert features.blocks.tolist() == features.degrees_.tolist()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], "block_weights must be 3 numbers"),
        ("best", "block_weights must be numbers, 'auto' or a dot-product kernel, got 'best'"),
        (srf.Polynomial(2), "only the blocks of RandomMaclaurin.* and not those of Concatenate"),
        ([0, 0, 0], "not all 0"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights, message):
    with pytest.raises(ParameterError, match=message):
        diabetes()[0].solve(block_weights=weights)


def test_kernels_that_a_maclaurin_map_has_no_terms_for_are_refused():
    statistics = digits(srf.RandomMaclaurin(srf.Polynomial(3), 40), normalize="l2")
    with pytest.raises(ParameterError, match="has a term of degree 4, and the map, for Polynomial"):
        statistics.solve(block_weights=srf.Exponential())
    with pytest.raises(ParameterError, match="only the blocks of RandomMaclaurin"):
        statistics.solve(block_weights=srf.Gaussian())
    with pytest.raises(ParameterError, match="is for maps of blocks"):
        digits(srf.RandomFourier()).solve(block_weights="auto")
    with pytest.raises(ParameterError, match="needs an alpha above 0"):
        statistics.solve(0, block_weights="auto")


def test_the_evidence_of_a_search_is_the_log_density():
    statistics, X, y, _ = diabetes()
    problem = statistics.problem()
    score = evidence(problem.normal(), len(X))
    Z = plain_features(statistics.encoder, X)[0]
    Z, t = Z - Z.mean(axis=0), y[:, 0] - y.mean()
    densities, scores = [], []
    for weights in ([1, 1, 1], WEIGHTS, [5, 0.1, 1e-3]):
        scales = np.sqrt(np.repeat(weights, 20))
        K = np.eye(len(X)) + (Z * scales**2) @ Z.T
        variance = t @ np.linalg.solve(K, t) / (len(X) - 1)
        density = multivariate_normal(cov=variance * K).logpdf(t)
        densities.append(density + 0.5 * np.log(variance))  # less the direction of the mean
        scores.append(score(scales))
    np.testing.assert_allclose(np.diff(scores), -2 * np.diff(densities) / len(X), rtol=1e-4)


def test_a_target_that_never_varies_has_no_say_in_the_weights_of_greatest_evidence():
    X, y = load_diabetes(return_X_y=True)
    found = []
    for targets in (y, np.stack((y, np.full(len(y), 7.0)), axis=1)):
        source = srf.ArraySource(10 * X, targets)
        statistics = srf.accumulate(source, gaussians(), regression=True)
        found.append(statistics.solve(block_weights="auto").block_weights)
    assert np.ptp(found[0]) > 0
    np.testing.assert_allclose(*found, rtol=1e-9)


def waves(n_rows, seed):
    """Rows whose target moves at one scale only, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_rows, 2))
    return X, np.sin(6 * X[:, 0]) * np.cos(6 * X[:, 1]) + 0.1 * rng.normal(size=n_rows)


@pytest.mark.parametrize("folds", [None, 3], ids=["evidence", "folds"])
def test_auto_finds_the_block_that_matters(folds):
    X, y = waves(600, 0)
    X_test, y_test = waves(2000, 1)
    features = gaussians(60, (1e-3, 4.0, 1e4))  # the last is noise
    statistics = srf.accumulate(srf.ArraySource(X, y), features, regression=True, folds=folds)
    model = statistics.solve(7.0, block_weights="auto")
    weights = model.block_weights
    assert weights[2] < 1e-5 * weights[1]
    found = np.mean((model.predict(X_test) - y_test) ** 2)
    plain = min(
        np.mean((m.predict(X_test) - y_test) ** 2)
        for m in statistics.problem().models(statistics.alpha_grid())
    )
    assert found < plain
    again = statistics.solve(1.0, block_weights="auto")  # alpha is but the unit
    np.testing.assert_allclose(again.block_weights, weights / 7)
    np.testing.assert_allclose(again.predict(X), model.predict(X), atol=1e-6)


def test_auto_of_an_estimator_is_chosen_on_the_rows_held_out():
    X, y = DIGITS
    features = gaussians(60, (5e-4, 1e-3, 0.1))
    plain, auto = (
        srf.RandomFeatureClassifier(features, block_weights=weights, random_state=0)
        for weights in (None, "auto")
    )
    for estimator in (plain, auto):
        estimator.fit(X[:1200], y[:1200])
    assert error(auto.model_) < error(plain.model_)
    weights = auto.model_.block_weights
    assert weights.max() == 1
    assert weights.argmin() == 2
    assert auto.model_.history
    assert auto.fit(X[:1200], y[:1200]).model_.block_weights.tolist() == weights.tolist()
    with pytest.raises(ParameterError, match="prune= and block_weights= do not go together"):
        clone(auto).set_params(prune=20).fit(X, y)


def test_a_model_keeps_its_weights(tmp_path):
    statistics, X, _, _ = diabetes()
    model = statistics.solve(0.1, block_weights=WEIGHTS, uncertainty=True)
    model.save(tmp_path / "model.h5")
    again = srf.load_model(tmp_path / "model.h5")
    assert again.block_weights.tolist() == WEIGHTS
    np.testing.assert_array_equal(again.coef_variances, model.coef_variances)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    lines = dict(facts.summary(facts.of_model(again)))
    assert lines["blocks"] == "weights 0.3, 2, 0.7"
    assert "Concatenate(maps=[RandomFourier(n_components=20" in lines["map"]
    assert "Gaussian(gamma=0.01)" in lines["kernel"]


def test_pruned_sums_are_weighed_by_the_blocks_of_what_is_left():
    statistics, X, y, _ = diabetes()
    pruned = statistics.prune(15, 0.1)
    model = pruned.solve(0.1, block_weights=WEIGHTS)
    Z = plain_features(pruned.encoder, X)[0] * np.sqrt(np.repeat(WEIGHTS, 20))[pruned.columns]
    np.testing.assert_allclose(model.predict(X), Ridge(0.1).fit(Z, y[:, 0]).predict(Z), atol=0.2)
