"""Statistics made from statistics: fewer features, other labels, more targets."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits

import streamrf as srf
from streamrf.errors import DataError, MergeError, ParameterError
from streamrf.solving.pruning import most_useful

DIGITS = load_digits(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)


def features(n_components=40, seed=0):
    return srf.RandomMaclaurin(
        srf.Polynomial(degree=2),
        n_components=n_components,
        projection="rademacher",
        random_state=seed,
    )


def digits(rows=slice(None), y=None, **settings):
    X, labels = DIGITS
    y = labels if y is None else y
    if "like" not in settings:
        settings = {"features": features(), "normalize": "l2", **settings}
    return srf.accumulate(srf.ArraySource(X[rows], y[rows]), **settings)


def diabetes(y=None, weights=None, **settings):
    X, plain = DIABETES
    y = plain if y is None else y
    settings = {"features": features(), "regression": True, **settings}
    return srf.accumulate(srf.ArraySource(X, y, weights), **settings)


def assert_same(a, b):
    assert a.gram.tobytes() == b.gram.tobytes()
    assert a.class_sums.tobytes() == b.class_sums.tobytes()
    assert a.encoder.digests == b.encoder.digests
    assert (a.n_rows, a.n_folds) == (b.n_rows, b.n_folds)


def loss(statistics, picks, alpha, standardise):
    """Penalised training loss of some features, by the full matrices."""
    normal = statistics.normal(
        None if statistics.labels is None else statistics.problem().book.matrix
    )
    A, m = normal.full(), normal.centred_moments()
    if standardise:
        m = m / np.sqrt(normal.centred_squares())[:, np.newaxis]
    part = A[np.ix_(picks, picks)] + alpha * np.eye(len(picks))
    return -np.einsum("oj,jo->", m[:, picks], np.linalg.solve(part, m[:, picks].T))


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_features_are_chosen_by_the_greatest_fall_of_the_loss(kind):
    statistics = digits() if kind == "classes" else diabetes(np.stack((DIABETES[1],) * 2, axis=1))
    normal = statistics.problem().normal()
    chosen = []
    for _ in range(6):
        losses = {
            j: loss(statistics, [*chosen, j], 0.3, kind == "values")
            for j in range(40)
            if j not in chosen
        }
        chosen.append(min(losses, key=losses.get))
        picks = most_useful(normal, len(chosen), 0.3, kind == "values")
        assert picks.tolist() == sorted(chosen)


def test_the_first_features_are_nearly_the_best_pair_there_is():
    statistics = diabetes(features=features(15))
    greedy = statistics.prune(2, alpha=1e-3).columns
    best = min(
        loss(statistics, list(pair), 1e-3, True) for pair in itertools.combinations(range(15), 2)
    )
    assert loss(statistics, greedy, 1e-3, True) == pytest.approx(best, rel=0.02)


def test_copies_of_a_feature_are_left_out():
    """Hadamard features repeat themselves where rows have few columns."""
    X, y = DIABETES
    repeating = srf.RandomMaclaurin(
        srf.Polynomial(degree=2), n_components=256, projection="hadamard", random_state=0
    )
    statistics = srf.accumulate(srf.ArraySource(X, y), repeating, regression=True)
    rank = np.linalg.matrix_rank(statistics.normal().full(), rtol=1e-9)
    assert rank < 200
    kept = statistics.prune(rank, alpha=1e-9)
    all_alphas, alpha = statistics.path([1e-6]), 1e-6
    np.testing.assert_allclose(kept.path([alpha]).residuals, all_alphas.residuals, rtol=1e-3)


@pytest.mark.filterwarnings("ignore:the .* rows of X looked at before the pass are all equal")
def test_where_features_say_nothing_new_the_first_are_kept():
    X = np.zeros((50, 3))
    statistics = srf.accumulate(srf.ArraySource(X, np.arange(50.0)), features(8), regression=True)
    assert statistics.prune(3, alpha=0.0).columns.tolist() == [0, 1, 2]


def test_pruned_features_predict_better_than_as_many_at_random():
    X, y = DIGITS
    wide = digits(slice(0, 1200), features=features(400))
    kept, random = wide.prune(60), wide.select(np.arange(60))
    alpha = 1e-2 * wide.alpha_scale()
    errors = [s.solve(alpha).evaluate(X[1200:], y[1200:])["error"] for s in (kept, random)]
    assert errors[0] < 0.85 * errors[1]


@pytest.mark.parametrize("folds", [None, 3])
def test_selected_sums_are_those_of_the_features_selected(folds, rng):
    whole = digits(folds=folds)
    picks = rng.permutation(40)[:11]
    part = whole.select(picks)
    calibration = part.encoder.calibration
    np.testing.assert_array_equal(calibration.step, whole.encoder.calibration.step[picks])
    again = digits(like=part)  # a pass that maps all features and rounds some
    assert_same(part, again)
    assert part.n_folds == (folds or 0)


def test_selection_adds_up():
    whole = digits()
    source = srf.ArraySource(*DIGITS)
    first = srf.accumulate(source, like=whole, rows=(0, 800))
    second = srf.accumulate(source, like=whole, rows=(800, None))
    pruned = whole.prune(12, alpha=1.0)
    assert_same(first.select(pruned.columns) + second.select(pruned.columns), pruned)
    assert_same(pruned - second.select(pruned.columns), first.select(pruned.columns))
    with pytest.raises(MergeError, match="other features of one map; select or prune the same"):
        first.select(pruned.columns) + second
    with pytest.raises(MergeError, match="other features of one map; select or prune the same"):
        first.select(pruned.columns) + second.select(np.arange(12))


def test_a_selection_of_a_selection_names_the_map_s_features():
    whole = digits()
    twice = whole.select(np.array([3, 30, 7, 9])).select(np.array([2, 0]))
    assert twice.columns.tolist() == [7, 3]
    assert_same(twice, whole.select(np.array([7, 3])))
    assert whole.columns.tolist() == list(range(40))


def test_pruned_statistics_and_their_models_live_in_files(tmp_path):
    X, _ = DIGITS
    pruned = digits().prune(15)
    pruned.save(tmp_path / "pruned.stats.h5")
    again = srf.load_statistics(tmp_path / "pruned.stats.h5")
    assert_same(again, pruned)
    model = again.solve(1.0)
    model.save(tmp_path / "pruned.model.h5")
    loaded = srf.load_model(tmp_path / "pruned.model.h5")
    assert loaded.coef.shape == (10, 15)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    Z = pruned.encoder.features.transform(pruned.encoder.preprocessing.apply(X))
    scaled = (
        Z[:, pruned.columns] - model.encoder.calibration.shift
    ) / model.encoder.calibration.step
    np.testing.assert_allclose(model.outputs(X), scaled @ model.coef.T + model.intercept, rtol=1e-6)


@pytest.mark.parametrize("n", [0, 41, 2.0, True, None])
def test_a_width_that_cannot_be_is_refused(n):
    with pytest.raises(ParameterError, match="integer from 1 to 40, got"):
        digits().prune(n)


@pytest.mark.parametrize("picks", [[], [40], [-1], [0.5], [[1, 2]]])
def test_features_that_are_not_there_are_refused(picks):
    with pytest.raises(ParameterError, match="indices of features from 0 to 39"):
        digits().select(picks)
    with pytest.raises(ParameterError, match="twice"):
        digits().select([1, 1])


@pytest.mark.parametrize("folds", [None, 3])
def test_relabelled_sums_are_those_of_rows_labelled_so(folds):
    _, y = DIGITS
    odd = {label: "odd" if label % 2 else "even" for label in range(10)}
    relabelled = digits(folds=folds).relabel(odd)
    straight = digits(y=np.array([odd[label] for label in y]), folds=folds)
    assert relabelled.labels.tolist() == ["even", "odd"]
    assert_same(relabelled, straight)
    np.testing.assert_array_equal(relabelled.solve(1.0).coef, straight.solve(1.0).coef)
    if folds:
        ours, theirs = (s.cross_validate([1.0]).errors for s in (relabelled, straight))
        np.testing.assert_array_equal(ours, theirs)


def test_labels_that_are_not_named_stay():
    relabelled = digits().relabel({8: 3, 9: 4})
    assert relabelled.labels.tolist() == list(range(8))
    _, y = DIGITS
    assert_same(relabelled, digits(y=np.where(y == 8, 3, np.where(y == 9, 4, y))))


def test_new_labels_are_checked_as_those_of_rows_are(tmp_path):
    for label in (np.nan, np.inf, None, (1, 2), 1j, 2**64):
        with pytest.raises(ParameterError, match=r"label .* is neither a finite number nor a st"):
            digits().relabel({3: label})
    with pytest.raises(DataError, match="integers beyond 2\\^53, and others are floats"):
        digits().relabel({0: 2**60 + 1, 1: 0.5, 2: 2**60})
    with pytest.raises(DataError, match="as strings"):
        digits().relabel({0: 2**63})
    for names in ({0: 0.5, 1: np.float32(7)}, {0: True}, dict(enumerate("abcdefghij"))):
        renamed = digits().relabel(names)
        renamed.save(tmp_path / "renamed.h5")
        assert srf.load_statistics(tmp_path / "renamed.h5").labels.tolist() == sorted(
            {names.get(label, label) for label in range(10)}
        )


def test_what_is_no_code_is_refused():
    for codes in ("x", srf.OneVsRest):
        with pytest.raises(ParameterError, match="codes must be OneVsRest"):
            digits().solve(codes=codes)


def test_names_that_cannot_be_given_are_refused():
    with pytest.raises(ParameterError, match="no label 12 to rename"):
        digits().relabel({12: 1})
    for odd in ([1], None):
        with pytest.raises(ParameterError, match="is neither a finite number nor a string"):
            digits().relabel({3: odd})
    with pytest.raises(ParameterError, match="numbers and strings"):
        digits().relabel({3: "three"})
    with pytest.raises(ParameterError, match="sums of values, which have no labels"):
        diabetes().relabel({})
    codes = srf.ErrorCorrectingCodes(n_bits=4)
    with pytest.raises(ParameterError, match="bits of an agreed code"):
        digits(codes=codes, classes=range(10)).relabel({1: 2})


@pytest.mark.parametrize("decode", srf.models.DECODERS)
def test_a_model_can_choose_among_some_classes(decode):
    X, y = DIGITS
    codes = srf.ErrorCorrectingCodes(n_bits=15, decode=decode)
    model = digits().solve(1.0, codes)
    among = model.restrict_classes([8, 3, 5])
    assert among.labels.tolist() == [3, 5, 8]
    scores = model.decision_function(X)[:, [3, 5, 8]]
    np.testing.assert_allclose(among.decision_function(X), scores)
    keep = np.isin(y, [3, 5, 8])
    assert among.evaluate(X[keep], y[keep])["error"] <= model.evaluate(X[keep], y[keep])["error"]
    assert set(among.predict(X)) == {3, 5, 8}


def test_a_choice_among_unknown_classes_is_refused():
    with pytest.raises(ParameterError, match="no class 11; it knows"):
        digits().solve(1.0).restrict_classes([3, 11])
    with pytest.raises(ParameterError, match="two classes"):
        digits().solve(1.0).restrict_classes([3])
    with pytest.raises(ParameterError, match="no classes to choose from"):
        diabetes().solve(1.0).restrict_classes([1, 2])


@pytest.mark.parametrize("folds", [None, 3])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_targets_join_into_the_sums_of_both(folds, weighted):
    X, y = DIABETES
    more = np.stack((np.sin(y), 100 * X[:, 0]), axis=1)
    weights = np.linspace(0.5, 2, len(X)) if weighted else None
    settings = {"weights": weights, "folds": folds}
    joined = diabetes(**settings).with_targets(diabetes(more, **settings))
    straight = diabetes(np.column_stack((y, more)), **settings)
    assert_same(joined, straight)
    assert joined.sums.targets.squares == straight.sums.targets.squares
    np.testing.assert_array_equal(joined.solve(1.0).predict(X), straight.solve(1.0).predict(X))


def test_targets_of_other_rows_do_not_join():
    X, y = DIABETES
    ours = diabetes()
    fewer = srf.accumulate(srf.ArraySource(X, np.cos(y)), features(), regression=True, rows=(0, 99))
    with pytest.raises(MergeError, match="counted different rows"):
        ours.with_targets(fewer)
    with pytest.raises(MergeError, match="different feature maps; sum the same source"):
        ours.with_targets(diabetes(features=features(seed=1)))
    altered = X.copy()
    altered[200] += 0.1  # the ledger knows arrays by their first 64 rows
    same_steps = srf.accumulate(srf.ArraySource(altered, y), like=ours)
    with pytest.raises(MergeError, match="not sums of the same rows"):
        ours.with_targets(same_steps)
    with pytest.raises(MergeError, match="side by side"):
        digits().with_targets(digits())
