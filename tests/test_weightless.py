"""Rows of weight 0 do not count: penalties, probabilities and choices are of the other rows."""

import numpy as np
import pytest

import streamrf as srf
from passes import add, begin
from streamrf import storage
from streamrf.errors import DataError, StreamrfWarning
from streamrf.models import Probabilities
from streamrf.sources import uniform
from streamrf.training import holdout, peeking
from streamrf.training.evidence import MIN_EVIDENT
from streamrf.training.passes import Pass

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(1000, 3))
LABELS = (ROWS[:, 0] + 0.8 * RNG.normal(size=1000) > 0).astype(int)
VALUES = np.sin(ROWS[:, 0])
MAP = srf.RandomFourier(srf.Gaussian(0.3), 32, random_state=0)
IS_HELD = uniform(np.arange(1000)) < 0.2
FEW = (np.arange(1000) < 8) * 1.0


@pytest.mark.parametrize(
    ("kind", "y"), [(srf.RandomFeatureRegressor, VALUES), (srf.RandomFeatureClassifier, LABELS)]
)
@pytest.mark.parametrize("weights", [~IS_HELD * 1.0, FEW], ids=["none held", "eight rows"])
def test_too_few_weighted_rows_choose_no_penalty(kind, y, weights):
    fitted = kind(MAP, random_state=0).fit(ROWS, y, sample_weight=weights)
    sums = fitted.statistics_
    alphas = sums.alpha_grid()
    path = sums.path(alphas[alphas >= MIN_EVIDENT * sums.alpha_scale()])
    assert fitted.alpha_ == path.best_alpha("evidence")
    assert fitted.model_.history == ()
    (note,) = fitted.model_.notes
    assert "rows are held out, too few to choose alpha" in note
    if kind is srf.RandomFeatureClassifier:
        assert fitted.model_.probabilities == Probabilities.default()


def test_the_choice_on_rows_held_out_is_that_of_the_rows_that_weigh():
    weights = np.where(IS_HELD, np.arange(1000) % 2, 1.0)
    classifier = srf.RandomFeatureClassifier(MAP, random_state=0)
    wrong = np.where(weights > 0, LABELS, 1 - LABELS)
    first, other = (classifier.fit(ROWS, y, sample_weight=weights).model_ for y in (LABELS, wrong))
    assert (first.alpha, first.history) == (other.alpha, other.history)
    assert first.probabilities == other.probabilities
    assert first.probabilities.n_rows == np.count_nonzero(IS_HELD & (weights > 0))


def test_rows_are_held_out_of_those_that_weigh(monkeypatch):
    """Few rows that weigh among many others fill the hold-out, the same ones for any blocks."""
    monkeypatch.setattr(holdout, "MAX_ROWS", 50)
    weights = (np.arange(1000) % 7 == 3) * 2.0
    source = srf.ArraySource(ROWS, LABELS, weights)
    held = []
    for block_rows in (100, 1000):
        pass_ = begin(source, MAP, hold_out=True)
        held.append(add(source, pass_, block_rows=block_rows).held)
    for (rows,) in held:
        assert np.array_equal(rows.positions, np.flatnonzero(IS_HELD & (weights > 0)))
        assert (rows.weights > 0).all()


@pytest.mark.parametrize("n_others", [0, 570])
def test_probabilities_are_fitted_to_the_rows_that_weigh(n_others):
    model = srf.accumulate(srf.ArraySource(ROWS, LABELS), MAP).solve(1.0)
    expected = model.fit_probabilities(ROWS[:30], LABELS[:30]).probabilities
    n, weights = 30 + n_others, np.r_[np.full(30, 7.0), np.zeros(n_others)]
    found = model.fit_probabilities(ROWS[:n], LABELS[:n], weights=weights).probabilities
    assert found.n_rows == 30
    assert found.slope == pytest.approx(expected.slope, rel=1e-5)


def test_probabilities_of_rows_that_all_weigh_nothing_are_refused():
    model = srf.accumulate(srf.ArraySource(ROWS, LABELS), MAP).solve(1.0)
    with pytest.raises(DataError, match=r"no rows to judge by, or all their weights are zero"):
        model.fit_probabilities(ROWS, LABELS, weights=np.zeros(1000))


def test_a_selection_is_that_of_the_rows_that_weigh():
    kept = np.sort(np.random.default_rng(1).choice(1000, 600, replace=False))
    weights = np.zeros(1000)
    weights[kept] = 1
    options = {"n_components": 32, "budget": 0.1, "random_state": 0, "kernels": ["gaussian"]}
    options |= {"task": "regression"}
    found = srf.select(srf.ArraySource(ROWS, VALUES, weights), **options)
    alone = srf.select(srf.ArraySource(ROWS[kept], VALUES[kept], np.ones(600)), **options)
    assert found.n_held == alone.n_held == 150
    assert found.table() == alone.table()


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("alpha", [1.0, "auto"])
def test_a_loss_leaves_classes_out_that_weigh_nothing(loss, alpha):
    labels = np.where(np.arange(1000) % 50 == 7, 2, LABELS)
    weights = (labels < 2) * 1.0
    fitted = srf.RandomFeatureClassifier(MAP, alpha=alpha, loss=loss, random_state=0)
    fitted.fit(ROWS, labels, sample_weight=weights)
    assert fitted.classes_.tolist() == [0, 1]
    by_class = srf.RandomFeatureClassifier(
        MAP, alpha=alpha, loss=loss, random_state=0, class_weight={0: 1, 1: 1, 2: 0}
    ).fit(ROWS, labels)
    assert np.array_equal(by_class.model_.coef, fitted.model_.coef)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_a_loss_keeps_its_penalty_where_no_row_held_out_weighs(loss):
    fitted = srf.RandomFeatureClassifier(MAP, loss=loss, max_passes=4, random_state=0)
    fitted.fit(ROWS, LABELS, sample_weight=~IS_HELD * 1.0)
    squared = srf.RandomFeatureClassifier(MAP, random_state=0)
    squared.fit(ROWS, LABELS, sample_weight=~IS_HELD * 1.0)
    assert fitted.alpha_ == squared.alpha_
    assert fitted.model_.probabilities == Probabilities.default()


def test_a_class_whose_weights_round_to_nothing_is_told_with_the_cure():
    labels = np.where(np.arange(1000) < 3, 2, LABELS)
    weights = np.where(labels == 1, 1e-9, 1.0)
    faint = np.count_nonzero(labels == 1)
    message = rf"all {faint} rows of weight above 0 with the label 1 .*precision='float64'"
    source = srf.ArraySource(ROWS, labels, weights)
    for hold_out in (False, True):
        with pytest.warns(StreamrfWarning, match=message):
            sums = srf.accumulate(source, MAP, hold_out=hold_out)
        assert sums.labels.tolist() == [0, 2]
    whole = begin(source, MAP)
    parts = [add(source, whole.fresh(), start=i, stop=i + 500).sealed() for i in (0, 500)]
    whole.absorb(parts[0] + parts[1])
    with pytest.warns(StreamrfWarning, match=message):
        whole.join()
    exact = srf.accumulate(srf.ArraySource(ROWS, labels, weights), MAP, precision="float64")
    assert exact.labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize("names", [[0, 1, 2], [0.0, 1.0, 2.0], ["a", "b", "c"]])
def test_a_class_whose_weights_round_to_nothing_is_told_after_a_restart(names, tmp_path):
    index = np.where(np.arange(1000) % 3 == 2, 2, LABELS)
    weights = np.where(index == 1, 1e-9, 1.0)
    source = srf.ArraySource(ROWS, np.array(names)[index], weights)
    first, rest = (begin(source, MAP) for _ in range(2))
    add(source, first, stop=900)
    storage.write(tmp_path / "pass", "checkpoint", first.to_tree())  # as a shard that is kept
    tree = storage.read(tmp_path / "pass", "checkpoint")
    parts = Pass.from_tree(tree).sealed() + add(source, rest.fresh(), start=900).sealed()
    rest.absorb(parts)
    message = (
        f"all {np.count_nonzero(index == 1)} rows of weight above 0 with the label {names[1]!r} "
    )
    for resumed in (rest, add(source, Pass.from_tree(tree), start=900)):
        with pytest.warns(StreamrfWarning, match=message):
            resumed.join()
    del tree["faint"]  # a checkpoint of an earlier version
    assert not Pass.from_tree(tree)._faint


def spoilt(y):
    """Every other row a sentinel of weight 0."""
    X, targets = np.full((2000, 3), -999.0), np.repeat(y, 2)
    X[::2] = ROWS
    return X, targets, np.tile([1.0, 0.0], 1000)


@pytest.mark.parametrize("normalize", [None, "standard"])
@pytest.mark.parametrize("kernel", [srf.Gaussian("median"), srf.Polynomial(3)])
def test_scales_kernels_and_steps_are_of_the_rows_that_weigh(kernel, normalize):
    kind = srf.RandomFourier if isinstance(kernel, srf.Gaussian) else srf.RandomMaclaurin
    X, y, weights = spoilt(VALUES)
    settings = {"features": kind(kernel, 32, random_state=0), "alpha": 1.0, "normalize": normalize}
    plain = srf.RandomFeatureRegressor(**settings).fit(ROWS, VALUES, sample_weight=weights[::2])
    found = srf.RandomFeatureRegressor(**settings).fit(X, y, sample_weight=weights)
    assert found.model_.encoder.digests == plain.model_.encoder.digests
    np.testing.assert_allclose(found.coef_, plain.coef_, rtol=1e-9, atol=1e-9)


def test_clusters_are_of_the_rows_that_weigh():
    X, _, weights = spoilt(VALUES)
    clusters = [
        srf.RandomFeatureKMeans(3, MAP, normalize="standard", random_state=0).fit(*rows)
        for rows in ((ROWS, None, weights[::2]), (X, None, weights))
    ]
    one, other = (each.predict(ROWS) for each in clusters)
    np.testing.assert_array_equal(one, other)


def test_clusters_need_as_many_rows_that_weigh():
    with pytest.raises(srf.errors.ParameterError, match="the 8 rows looked at first that weigh"):
        srf.RandomFeatureKMeans(9, MAP, random_state=0).fit(ROWS, None, FEW)


@pytest.mark.parametrize("regression", [False, True])
def test_a_stream_may_begin_with_rows_that_do_not_weigh(rng, regression, monkeypatch):
    monkeypatch.setattr(peeking, "PEEK_BYTES", 8 * 2 * 400)
    X = rng.uniform(-1, 1, (1200, 2))
    y = np.sin(3 * X[:, 0]) if regression else (np.sin(3 * X[:, 0]) > 0).astype(int)
    weights = np.arange(1200) >= 500.0
    parts = [slice(i, i + 100) for i in range(0, 1200, 100)]
    kind = srf.RandomFeatureRegressor if regression else srf.RandomFeatureClassifier

    def source():
        return srf.IteratorSource((X[rows], y[rows], weights[rows]) for rows in parts)

    with pytest.warns(StreamrfWarning, match="400 rows looked at .* are rows of no weight, so no"):
        model = kind(n_components=64, random_state=0).fit(source())
    assert model.score(X, y) > 0.8
    gaussian = srf.RandomFourier(srf.Gaussian(1.0), 64, random_state=0)
    with pytest.warns(StreamrfWarning, match="so no warp can be learnt"):
        model = kind(gaussian, warp="diagonal", random_state=0).fit(source())
    assert model.score(X, y) > 0.8
