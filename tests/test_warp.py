"""A warp of rows: learnt from gradients, applied with the same bits everywhere, kept in files."""

import json
import pickle
from dataclasses import replace

import h5py
import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import streamrf as srf
from streamrf.cli import app
from streamrf.errors import FormatError, ParameterError, ShapeError
from streamrf.jit.threads import computing
from streamrf.preprocessing import Preprocessing, Warp
from streamrf.report import facts
from streamrf.report.base import Findings
from streamrf.report.sections import sections
from streamrf.sources import Rows
from streamrf.training import warping
from streamrf.training.candidates import Candidate, Recipe
from streamrf.training.judging import Judge, Trial
from streamrf.training.ranking import is_better
from streamrf.training.tournament import Tournament

N, D = 900, 6


def rows_of(X, y, weights=None):
    index = np.arange(len(X))
    return Rows(np.asarray(X, dtype=np.float32), y, weights, index, index)


@pytest.fixture(scope="module")
def ridge_rows():
    """Classes by a wave along one direction of six columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    direction = np.array([3.0, 4.0, 0, 0, 0, 0]) / 5
    return X, (np.sin(3 * X @ direction) > 0).astype(int), direction


def made(kind, seed=0, d=D):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((d,) if kind == "diagonal" else (d, d)).astype(np.float32)
    return Warp(matrix, np.full(d, 1 / d))


def as_matrix(warp):
    return np.diag(warp.matrix) if warp.kind == "diagonal" else warp.matrix


# Applying.


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_a_row_has_the_same_bits_in_any_block_and_on_any_threads(rng, kind):
    X = rng.standard_normal((333, 37))
    preprocessing = Preprocessing.learn("standard", X, made(kind, d=37))
    whole = preprocessing.apply(X)
    expected = Preprocessing.learn("standard", X).apply(X) @ as_matrix(preprocessing.warp).T
    np.testing.assert_allclose(whole, expected, rtol=1e-4, atol=1e-4)
    for cut in (1, 16, 100):
        parts = [preprocessing.apply(X[i : i + cut]) for i in range(0, len(X), cut)]
        assert np.concatenate(parts).tobytes() == whole.tobytes()
    with computing(1):
        assert preprocessing.apply(X).tobytes() == whole.tobytes()


# Learning.


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", [srf.Gaussian(0.3), srf.Laplacian(0.3)], ids=["g", "l"])
@pytest.mark.parametrize("regression", [False, True])
def test_the_gradient_product_is_that_of_the_predictor(rng, kernel, regression, weighted):
    """Compared with central differences of `Model`'s outputs, row by row."""
    X = rng.standard_normal((300, 3)).astype(np.float32)
    weights = rng.integers(1, 4, 300).astype(float) if weighted else None
    y = np.c_[X[:, 0] ** 2, 5 * X[:, 1]] if regression else (X[:, 0] > X[:, 1] ** 2).astype(int)
    sums = srf.accumulate(
        srf.ArraySource(X, y, weights),
        srf.RandomFourier(kernel, 40, random_state=0),
        regression=regression,
    )
    model = sums.solve(1e-2)
    is_smooth = isinstance(kernel, srf.Gaussian)
    reach = np.full(3, 1e-2 if is_smooth else 0.4)

    def outputs(X):
        found = model.encoder.linear(X, model.coef, model.intercept)
        return found / model.encoder.calibration.target_step if regression else found

    steps = np.diag(reach).astype(np.float32)
    slopes = np.stack([outputs(X + h) - outputs(X - h) for h in steps], axis=2) / (2 * reach)
    expected = np.einsum("n,noi,noj->ij", weights if weighted else np.ones(300), slopes, slopes)
    expected /= 300 if weights is None else weights.sum()
    found = warping.gradient_product(sums, model, None if is_smooth else reach)
    alone = warping.gradient_product(sums, model, None if is_smooth else reach, alone=True)
    np.testing.assert_allclose(alone, np.diag(found), rtol=1e-9, atol=1e-12 * alone.max())
    np.testing.assert_allclose(found, expected, rtol=0.01, atol=0.01 * np.abs(expected).max())


@pytest.mark.parametrize("kind", [None, "diagonal", "full"])
@pytest.mark.parametrize("weighted", [False, True])
def test_columns_of_two_values_count_by_the_difference_between_them(rng, kind, weighted):
    """Compared with the predictions of rows that have the other value."""
    plain = rng.standard_normal((200, 4)).astype(np.float32)
    plain[:, 1] = np.where(plain[:, 1] > 0.5, 3.0, -0.5)
    plain[:, 3] = plain[:, 3] > 0
    y = np.c_[plain[:, 0] * plain[:, 1], plain[:, 2] + plain[:, 3]]
    weights = rng.integers(1, 4, 200).astype(float) if weighted else None
    matrix = rng.standard_normal((4, 4)).astype(np.float32)
    matrix = np.abs(matrix[0]) if kind == "diagonal" else matrix + matrix.T
    warp = None if kind is None else Warp(matrix, np.full(4, 0.25))

    def warped(X):
        return X if warp is None else X @ as_matrix(warp)

    X = warped(plain)
    sums = srf.accumulate(
        srf.ArraySource(X, y, weights),
        srf.RandomFourier(srf.Gaussian(0.1), 60, random_state=0),
        regression=True,
    )
    model = sums.solve(1e-2)
    rows = Rows(X, y, weights, np.arange(200), np.arange(200))
    product = np.cov(rng.standard_normal((4, 9)))  # any that is positive definite
    found = warping.between_values(product, sums, model, rows, plain, warp)
    alone = warping.between_values(np.diag(product), sums, model, rows, plain, warp)
    np.testing.assert_allclose(alone, np.diag(found), rtol=1e-12)

    def outputs(X):
        found = model.encoder.linear(X, model.coef, model.intercept)
        return found / model.encoder.calibration.target_step

    for j, (low, high) in {1: (-0.5, 3.0), 3: (0.0, 1.0)}.items():
        other = plain.copy()
        other[:, j] = low + high - plain[:, j]
        slopes = np.square(outputs(warped(other)) - outputs(X)).sum(axis=1) / (high - low) ** 2
        assert found[j, j] == pytest.approx(np.average(slopes, weights=weights), rel=1e-3)
    correlation = product / np.sqrt(np.outer(np.diag(product), np.diag(product)))
    again = found / np.sqrt(np.outer(np.diag(found), np.diag(found)))
    np.testing.assert_allclose(again, correlation)
    np.testing.assert_array_equal(found[[0, 0, 2], [0, 2, 2]], product[[0, 0, 2], [0, 2, 2]])


def test_a_column_of_noise_with_two_values_has_no_importance(rng):
    X = np.c_[rng.standard_normal((1500, 3)), rng.integers(0, 2, 1500)]
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    features = srf.StructuredFourier(srf.Gaussian(0.3), 128, random_state=0)
    model = srf.RandomFeatureRegressor(
        features, warp="diagonal", normalize="standard", random_state=0
    ).fit(X, y)
    assert model.feature_importances_[[0, 1]].min() > 0.2
    assert model.feature_importances_[[2, 3]].max() < 0.02
    assert model.score(X, y) > 0.99


def test_importances_of_a_table_are_those_of_its_columns(rng):
    pandas = pytest.importorskip("pandas")
    x = rng.standard_normal(600)
    frame = pandas.DataFrame(
        {"c": rng.choice(list("abc"), 600), "x": x, "h": np.where(x > 1, np.nan, -x)}
    )
    features = srf.StructuredFourier(srf.Gaussian(0.3), 64, random_state=0)
    model = srf.RandomFeatureRegressor(features, warp="diagonal", random_state=0)
    shares = model.fit(frame, np.sin(x)).feature_importances_
    whole = model.model_.encoder.preprocessing.warp.importances
    assert shares.shape == (model.n_features_in_,) == (3,)
    np.testing.assert_allclose(shares, [whole[:3].sum(), whole[3], whole[4:].sum()])
    shown = dict(facts.summary(facts.of_model(model.model_)))["warp"]
    assert f"most important (columns are not scaled one by one): x {shares[1]:.1%}, " in shown


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_a_warp_finds_the_direction_that_matters(ridge_rows, kernel):
    X, y, direction = ridge_rows
    fitted, held = rows_of(X[:700], y[:700]), rows_of(X[700:], y[700:])
    full = warping.learn(Recipe("full", kernel, 1.0, 2), fitted, held)
    _, vectors = np.linalg.eigh(full.matrix.astype(float))
    np.testing.assert_allclose(full.matrix, full.matrix.T, atol=1e-5)
    assert abs(vectors[:, -1] @ direction) > (0.99 if kernel == "gaussian" else 0.95)
    diagonal = warping.learn(Recipe("diagonal", kernel, 1.0, 1), fitted, held)
    assert diagonal.importances.sum() == pytest.approx(1)
    assert diagonal.importances[:2].min() > 1.5 * diagonal.importances[2:].max()
    for warp in (full, diagonal):  # rows keep their mean squared distance
        spread = (X[:700] @ as_matrix(warp).T).var(axis=0).sum()
        assert spread == pytest.approx(X[:700].var(axis=0).sum(), rel=1e-3)


def test_a_diagonal_warp_of_many_columns_has_no_matrix(rng, monkeypatch):
    """The same weights, but for rounding, as by the whole product."""
    X = rng.normal(size=(600, 30))
    y = X[:, 0] * X[:, 1]
    rows = rows_of(X[:400], y[:400]), rows_of(X[400:], y[400:])
    recipes = [warping.Recipe("diagonal", from_effects=effects) for effects in (False, True)]
    whole = [warping.learn(recipe, *rows, regression=True) for recipe in recipes]
    monkeypatch.setattr(warping, "MAX_FULL", 20)
    for recipe, expected in zip(recipes, whole, strict=True):
        found = warping.learn(recipe, *rows, regression=True)
        np.testing.assert_allclose(found.matrix, expected.matrix, rtol=1e-4)


def test_a_warp_is_the_root_of_the_gradient_product(ridge_rows):
    X, y, _ = ridge_rows
    fitted, held = rows_of(X[:700], y[:700]), rows_of(X[700:], y[700:])
    warp = warping.learn(Recipe("full"), fitted, held, seed=5)
    pairs = np.random.default_rng(5).integers(0, 700, (2, 2000))
    gamma = warping.gamma_unit(fitted.X, "gaussian", pairs)
    features = srf.RandomFourier(srf.Gaussian(gamma), warping.width(700), random_state=5)
    product = warping.gradient_product(*_solved(features, fitted, held))
    square = (warp.matrix @ warp.matrix).astype(float)
    ratio = np.trace(square) / np.trace(product)
    np.testing.assert_allclose(square, product * ratio, rtol=1e-3, atol=1e-3 * square.max())


def _solved(features, fitted, held):
    statistics, trial = warping.attempt(features, fitted, held, False, 5)
    return statistics, trial.model


def test_columns_on_other_scales_are_compared_by_what_they_explain(rng):
    X = rng.standard_normal((800, 3)) * [1, 100, 1]
    y = (X[:, 0] + X[:, 1] / 100 > 0).astype(int)
    fitted, held = rows_of(X[:600], y[:600]), rows_of(X[600:], y[600:])
    warp = warping.learn(Recipe("diagonal", "gaussian", 1.0, 1), fitted, held)
    assert warp.importances[1] > 0.3


def test_the_same_warp_is_learnt_on_any_number_of_threads(ridge_rows):
    X, y, _ = ridge_rows
    source = srf.ArraySource(X, y)
    found = [
        srf.accumulate(source, srf.RandomFourier(n_components=16), warp="full", n_threads=n,
                       random_state=0).encoder.digests
        for n in (1, 2)
    ]  # fmt: skip
    assert found[0] == found[1]


# Passes, models and files.


@pytest.fixture(scope="module")
def warped(ridge_rows):
    X, y, _ = ridge_rows
    settings = {"warp": "full", "random_state": 0, "normalize": "standard"}
    features = srf.RandomFourier(srf.Gaussian("median"), 64, random_state=1)
    return srf.accumulate(srf.ArraySource(X, y), features, **settings)


def test_a_pass_is_one_over_warped_rows(ridge_rows, warped):
    X, y, _ = ridge_rows
    rows = warped.encoder.preprocessing.apply(X)
    kernel = warped.encoder.features.kernel_
    assert kernel.gamma != srf.Gaussian("median").learn(X).gamma  # learnt from warped rows
    plain = srf.accumulate(srf.ArraySource(rows, y), srf.RandomFourier(kernel, 64, random_state=1))
    assert plain.gram.tobytes() == warped.gram.tobytes()


def test_parts_with_a_warp_add_up_and_come_apart(ridge_rows, warped):
    X, y, _ = ridge_rows
    parts = [
        srf.accumulate(srf.ArraySource(X[some], y[some]), like=warped)
        for some in (slice(None, 300), slice(300, None))
    ]
    assert (parts[0] + parts[1]).gram.tobytes() == warped.gram.tobytes()
    assert (warped - parts[0]).gram.tobytes() == parts[1].gram.tobytes()
    other = srf.accumulate(
        srf.ArraySource(X, y), srf.RandomFourier(srf.Gaussian("median"), 64, random_state=1)
    )
    with pytest.raises(srf.errors.MergeError, match="like"):
        warped + other


def test_files_and_pickles_keep_the_warp(ridge_rows, warped, tmp_path):
    X, _, _ = ridge_rows
    model = warped.solve(1e-3)
    warped.save(tmp_path / "s.h5")
    model.save(tmp_path / "m.h5")
    assert srf.load_statistics(tmp_path / "s.h5").encoder.digests == warped.encoder.digests
    expected = model.decision_function(X).tobytes()
    for again in (srf.load_model(tmp_path / "m.h5"), pickle.loads(pickle.dumps(model))):
        assert again.decision_function(X).tobytes() == expected
    in_blocks = [model.decision_function(X[i : i + 7]) for i in range(0, len(X), 7)]
    assert np.concatenate(in_blocks).tobytes() == expected


def test_rows_without_a_warp_have_the_files_they_had(rng):
    assert "warp" not in Preprocessing.learn("l2", rng.standard_normal((5, 3))).to_tree()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"matrix": np.ones((D, D + 1), np.float32)}, "matrix"),
        ({"matrix": np.ones(D + 1, np.float32)}, "matrix"),
        ({"matrix": np.full(D, np.nan, np.float32)}, "NaN"),
        ({"importances": np.ones(2)}, "importances"),
        ({"more": 1}, "not known"),
    ],
)
def test_a_tree_that_is_no_warp_is_refused(rng, change, message):
    preprocessing = Preprocessing.learn(None, rng.standard_normal((9, D)), made("full"))
    tree = preprocessing.to_tree()
    assert Preprocessing.from_tree(tree).to_tree().keys() == tree.keys()
    with pytest.raises(FormatError, match=message):
        Preprocessing.from_tree(tree | {"warp": tree["warp"] | change})


# Estimators.


def test_an_estimator_with_a_warp_errs_less(ridge_rows):
    X, y, _ = ridge_rows
    features = srf.RandomFourier(srf.Gaussian("median"), 64, random_state=0)
    plain = srf.RandomFeatureClassifier(features, random_state=0).fit(X[:700], y[:700])
    full = clone(plain).set_params(warp="full").fit(X[:700], y[:700])
    errors = [1 - one.score(X[700:], y[700:]) for one in (plain, full)]
    assert errors[1] < 0.5 * errors[0]
    assert full.feature_importances_.shape == (D,)
    assert set(np.argsort(-full.feature_importances_)[:2]) == {0, 1}
    assert not hasattr(plain, "feature_importances_")
    again = clone(plain).set_params(warp=full.model_.encoder.preprocessing.warp)
    assert again.fit(X[:700], y[:700]).statistics_.encoder.digests == (
        full.statistics_.encoder.digests
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"warp": "diag"}, ParameterError, "warp must be one of"),
        ({"warp_rounds": 0}, ParameterError, "at least 1"),
        ({"features": "auto", "warp": made("full")}, ParameterError, "is for a feature map"),
        ({"warp": made("full", d=3)}, ShapeError, "the warp is for 3"),
    ],
)
def test_wrong_settings_are_one_sentence(ridge_rows, options, error, message):
    X, y, _ = ridge_rows
    settings = {"features": srf.RandomFourier(n_components=8), **options}
    with pytest.raises(error, match=message):
        srf.accumulate(srf.ArraySource(X, y), **settings)


def test_a_matrix_is_not_learnt_for_very_wide_rows(rng):
    X = rng.standard_normal((20, warping.MAX_FULL + 1)).astype(np.float32)
    with pytest.raises(ParameterError, match="use warp='diagonal'"):
        srf.accumulate(
            srf.ArraySource(X, np.arange(20) % 2), srf.RandomFourier(n_components=8), warp="full"
        )


def test_one_class_teaches_no_warp(rng):
    X, y = rng.standard_normal((60, 3)), np.zeros(60, dtype=int)
    sums = srf.accumulate(srf.ArraySource(X, y), srf.RandomFourier(n_components=8), warp="full")
    assert sums.encoder.preprocessing.warp is None


# The tournament.


def test_a_warp_is_chosen_where_it_helps(ridge_rows):
    X, y, _ = ridge_rows
    source = srf.ArraySource(X, y)
    options = {"n_components": 64, "normalize": "standard", "budget": 3, "random_state": 0}
    found = srf.select(source, **options)
    assert found.warp is not None
    assert found.table()["candidate"][0].endswith(f"{found.warp.kind} warp")
    plain = [trial.error for trial in found.trials if trial.candidate.warp is None]
    assert found.winner.error < min(plain)
    judge = Judge(X, y, regression=False, seed=0)
    field = [Candidate(None, "gaussian", 1.0)]
    forced, none = (
        Tournament(judge, 0.3, field, warp=warp, warp_rounds=1).winner(32)[0].candidate.warp
        for warp in ("diagonal", None)
    )
    assert (forced.kind, none) == ("diagonal", None)


def test_a_gain_within_its_noise_is_none():
    one = Candidate(None, "gaussian", 1.0)

    def trial(wrong):
        losses = np.array([wrong, np.add(wrong, 0.1)]) / len(wrong)
        return Trial(one, 64, 100, *losses.sum(axis=1).tolist(), 1.0, 0.1, losses)

    plain = trial([1] * 20 + [0] * 80)
    assert not is_better(plain, plain)
    assert not is_better(trial([0, 1] * 10 + [1] * 9 + [0] * 71), plain)  # 10 right, 9 wrong
    assert is_better(trial([0] * 10 + [1] * 10 + [0] * 80), plain)
    assert not is_better(plain, trial([0] * 10 + [1] * 10 + [0] * 80))
    better = trial([0] * 10 + [1] * 10 + [0] * 80)
    for unit in (1e-200, 1e200):  # of squared targets: squares of their squares are no floats
        small, large = (replace(t, losses=t.losses * unit) for t in (better, plain))
        assert is_better(small, large)
        assert not is_better(large, small)


def test_the_plan_counts_what_is_still_to_be_learnt(ridge_rows):
    X, y, _ = ridge_rows
    judge = Judge(X, y, regression=False)
    plain = Candidate("standard", "gaussian", 1.0)
    warped = replace(plain, warp=Recipe("diagonal", n_rounds=1))
    before = judge.planned(warped, 32, 200)
    assert before > judge.planned(plain, 32, 200)
    judge.try_(warped, 32, 200, 50)
    assert judge.planned(warped, 32, 200) == judge.planned(plain, 32, 200)


# The command line.


def test_commands_take_and_show_a_warp(ridge_rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with h5py.File("rows.h5", "w") as file:
        file["X"], file["y"] = ridge_rows[:2]
    run = CliRunner().invoke
    words = ["--map", "fourier", "--gamma", "median", "--components", "32"]
    words += ["--warp", "full", "--warp-rounds", "1"]
    fitted = run(app, ["fit", "rows.h5", "--model", "m.h5", *words])
    assert fitted.exit_code == 0, fitted.output
    warp = srf.load_model("m.h5").encoder.preprocessing.warp
    assert warp.kind == "full"
    shown = json.loads(run(app, ["info", "m.h5", "--json"]).stdout)
    assert shown["feature_importances"] == warp.importances.tolist()
    assert "warp" in run(app, ["info", "m.h5"]).stdout
    wrong = run(app, ["fit", "rows.h5", "--model", "m.h5", "--warp", "half"])
    assert wrong.exit_code == 2
    titles = [one.title for one in sections(Findings(model=srf.load_model("m.h5")), "")]
    assert "Columns" in titles


def test_few_columns_of_many_are_found_in_more_rounds(rng, monkeypatch):
    """Two rounds leave much of the columns that do not matter; of little noise more follow."""
    X = rng.normal(size=(3000, 40)).astype(np.float32)
    labels = np.where(X[:, 0] * X[:, 1] + X[:, 2] > 0, "a", "b")
    rows = rows_of(X, labels)
    fitted, held = rows.where(slice(2000)), rows.where(slice(2000, None))
    importances = []
    for most in (2, 5):
        monkeypatch.setattr(warping, "MAX_ROUNDS", most)
        warp = warping.learn(Recipe("diagonal", n_rounds=2), fitted, held)
        importances.append(warp.importances[:3].sum())
    assert importances[1] > 0.95 > importances[0]


def test_rounds_that_do_not_help_end_the_learning(rng, monkeypatch):
    fits = []
    attempt = warping.attempt
    monkeypatch.setattr(warping, "attempt", lambda *a: fits.append(a) or attempt(*a))
    X = rng.normal(size=(600, 3)).astype(np.float32)
    rows = rows_of(X, rng.normal(size=600))
    fitted, held = rows.where(slice(400)), rows.where(slice(400, None))
    warping.learn(Recipe("diagonal", n_rounds=2), fitted, held, regression=True)
    assert len(fits) == 2


# What columns explain alone.


def test_what_a_column_explains_is_the_correlation_ratio_beyond_chance(rng):
    X = rng.normal(size=(4000, 4)).astype(np.float32)
    X[:, 3] = X[:, 3] > 0
    y = np.square(X[:, 0]) + 2 * X[:, 3] + rng.normal(size=4000)
    found = warping.explained(rows_of(X, y), True)
    edges = np.quantile(X[:, 0], np.arange(1, 10) / 10)
    groups = [y[np.searchsorted(edges, X[:, 0], side="right") == k] for k in range(10)]
    between = sum(len(g) * (g.mean() - y.mean()) ** 2 for g in groups)
    total = ((y - y.mean()) ** 2).sum()
    np.testing.assert_allclose(found[0], between / total - 9 / 4000, rtol=1e-9)
    assert found[3] == pytest.approx(np.corrcoef(X[:, 3], y)[0, 1] ** 2 - 1 / 4000, rel=1e-9)
    np.testing.assert_array_equal(found[1:3], 0)


def test_copies_of_rows_weigh_as_weights_and_classes_as_their_indicators(rng):
    X, y = rng.normal(size=(500, 3)).astype(np.float32), rng.normal(size=500)
    X[:, 1] += y
    rows = rows_of(X, y)
    weights = rng.integers(1, 3, size=500).astype(float)
    bins = np.quantile(X, np.arange(1, 10) / 10, axis=0)
    weighted = warping.explained(replace(rows, weights=weights), True)
    T = y - np.average(y, weights=weights)
    which = np.searchsorted(bins[:, 1], X[:, 1], side="right")
    means = [np.average(T[which == k], weights=weights[which == k]) for k in range(10)]
    shares = [weights[which == k].sum() for k in range(10)]
    ratio = np.average(np.square(means), weights=shares) / np.average(T**2, weights=weights)
    np.testing.assert_allclose(weighted[1], ratio - 9 / 500, rtol=1e-9)
    names = np.where(y > 0, "up", "down")
    signs = warping.explained(rows_of(X, names), False)
    np.testing.assert_allclose(signs, warping.explained(rows_of(X, 1.0 * (y > 0)), True))


def test_columns_explain_nothing_of_targets_of_one_value(rng):
    X = rng.standard_normal((1000, 3))
    with np.errstate(all="raise"):
        assert not warping.explained(rows_of(X, np.full(1000, 3.7)), True).any()


def test_columns_whose_slopes_cancel_are_found_by_what_each_explains(rng):
    """A nearly linear ridge sees the first column alone, and none of the square."""
    X = rng.normal(size=(2500, 200)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + np.square(X[:, 1]) + 0.2 * rng.normal(size=2500)
    rows = rows_of(X, y)
    fitted, held = rows.where(slice(2000)), rows.where(slice(2000, None))
    plain = Recipe("diagonal", "gaussian", 0.5, 2)
    shares = [
        warping.learn(one, fitted, held, regression=True).importances[:2].min()
        for one in (plain, replace(plain, from_effects=True))
    ]
    assert shares[0] < 0.1
    assert shares[1] > 0.2


def test_no_start_is_made_of_what_explains_nothing(rng):
    X = rng.normal(size=(600, 3)).astype(np.float32)
    rows = rows_of(X, (X[:, 0] * X[:, 1] > 0).astype(int))
    fitted, held = rows.where(slice(400)), rows.where(slice(400, None))
    recipe = Recipe("diagonal", "gaussian", 1.0, 2)
    begun = warping.learn(replace(recipe, from_effects=True), fitted, held)
    np.testing.assert_array_equal(begun.matrix, warping.learn(recipe, fitted, held).matrix)


def test_rules_on_a_few_columns_are_found_whatever_kernel_leads_without_a_warp(rng):
    """Before any warp all kernels err alike here, and nearly linear ones led the warps."""
    X = np.round(rng.normal(size=(4000, 9)) * 2) / 2
    y = (np.abs(X[:, 0] + X[:, 1]) < 0.6) ^ (X[:, 2] > 0.9)
    found = srf.RandomFeatureClassifier(random_state=0, n_components=512).fit(X[:2500], y[:2500])
    assert found.model_.encoder.preprocessing.warp is not None
    assert np.mean(found.predict(X[2500:]) != y[2500:]) < 0.08  # 0.2 without
