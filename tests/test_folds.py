"""Sums in folds: the sums of all rows to the last byte, and the errors of explicit refits."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import Ridge

import streamrf as srf
from passes import add, begin
from streamrf.errors import DataError, MergeError, ParameterError
from streamrf.solving.crossvalidation import CrossValidation
from streamrf.sources import uniform
from streamrf.statistics import ExactGram
from streamrf.statistics.kfold import kfold_index
from streamrf.training.memory import Sizes, plan

ALPHAS = [1e-3, 0.1, 3.0]
FOLDS = 4


def features(n_components=40):
    return srf.RandomMaclaurin(
        srf.Polynomial(degree=2), n_components=n_components, projection="rademacher", random_state=0
    )


def rows(n_targets, weighted=False):
    """A small regression (n_targets 1 or 2) or classification (0)."""
    X, y = load_digits(return_X_y=True) if not n_targets else load_diabetes(return_X_y=True)
    if n_targets == 2:
        y = np.stack((y, np.cos(y)), axis=1)
    weights = np.random.default_rng(0).uniform(0.3, 2, len(X)) if weighted else None
    return X, y, weights


def accumulated(X, y, weights=None, folds=FOLDS, **settings):
    settings = {"regression": y.dtype.kind == "f", **settings}
    if "like" not in settings:
        settings["features"] = features()
    return srf.accumulate(srf.ArraySource(X, y, weights), folds=folds, **settings)


def same(a, b):
    assert a.gram.tobytes() == b.gram.tobytes()
    assert a.class_sums.tobytes() == b.class_sums.tobytes()
    assert (a.n_rows, a.n_clipped, a.weight) == (b.n_rows, b.n_clipped, b.weight)
    assert a.sums.targets.to_tree().keys() == b.sums.targets.to_tree().keys()


@pytest.mark.parametrize("n_targets", [0, 1, 2])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_the_folds_add_up_to_the_sums_without_folds(n_targets, weighted):
    data = rows(n_targets, weighted)
    folded, plain = accumulated(*data), accumulated(*data, folds=None)
    assert (folded.n_folds, plain.n_folds) == (FOLDS, 0)
    same(folded, plain)
    same(folded.without_folds(), plain)
    assert folded.without_folds().n_folds == 0
    np.testing.assert_array_equal(folded.solve(1.0).coef, plain.solve(1.0).coef)


@pytest.mark.parametrize("n_targets", [0, 1])
def test_each_fold_holds_the_sums_of_its_rows(n_targets):
    X, y, _ = rows(n_targets)
    folded = accumulated(X, y)
    fold = kfold_index(np.arange(len(X)), FOLDS)
    for k, part in enumerate(folded.sums.parts):
        alone = accumulated(X[fold == k], y[fold == k], folds=None, like=folded.without_folds())
        assert part.gram.totals.tobytes() == alone.gram.tobytes()
        assert part.targets.sums.tobytes() == alone.class_sums.tobytes()


def test_folds_are_of_like_size_and_do_not_depend_on_blocks():
    counts = np.bincount(kfold_index(np.arange(100_000), 5))
    assert counts.min() > 0.98 * 20_000
    places = np.arange(1000)
    parts = [kfold_index(places[i : i + 7], 3) for i in range(0, 1000, 7)]
    np.testing.assert_array_equal(np.concatenate(parts), kfold_index(places, 3))
    assert kfold_index(np.array([2**62]), 100)[0] < 100


def test_which_rows_are_held_out_says_nothing_of_their_folds():
    """Each fold has its share of them, and a row's hash for the one does not tell the other."""
    indices = np.arange(100_000)
    held, fold = uniform(indices), kfold_index(indices, 5)
    table = np.histogram2d(held, fold, bins=(10, np.arange(6)))[0]
    # counts of a cell scatter by 44 around 2,000: none of the 50 is 5 deviations off
    np.testing.assert_allclose(table, 2000, atol=5 * 44)
    assert abs(np.corrcoef(held, fold)[0, 1]) < 5 / np.sqrt(len(indices))


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_errors_are_those_of_refits_of_a_regression(precision, weighted):
    """Beside scikit-learn's Ridge on unrounded features for float64, on our own sums for exact."""
    X, y, weights = rows(2, weighted)
    folded = accumulated(X, y, weights, precision=precision)
    validation = folded.cross_validate(ALPHAS)
    fold = kfold_index(np.arange(len(X)), FOLDS)
    Z = folded.encoder.features.transform(X).astype(np.float64)
    w = np.ones(len(X)) if weights is None else weights
    for k in range(FOLDS):
        out, kept = fold == k, fold != k
        for i, alpha in enumerate(ALPHAS):
            ridge = Ridge(alpha).fit(Z[kept], y[kept], sample_weight=w[kept])
            errors = np.average((ridge.predict(Z[out]) - y[out]) ** 2, axis=0, weights=w[out])
            # rounding to 32 levels is noise of 1e-4 of a feature's variance
            tolerance = 1e-6 if precision == "float64" else 2e-2
            np.testing.assert_allclose(validation.errors[i, k], errors, rtol=tolerance)
        assert validation.weights[k] == pytest.approx(w[out].sum(), rel=1e-3)


@pytest.mark.parametrize("codes", [None, srf.ErrorCorrectingCodes(n_bits=9)], ids=["ovr", "ecoc"])
@pytest.mark.parametrize("n_targets", [0, 1])
def test_errors_are_those_of_models_of_the_other_rows(codes, n_targets):
    """Refits by `accumulate` and `solve`, evaluated on the rounded rows left out."""
    X, y, _ = rows(n_targets)
    codes = codes if not n_targets else None
    folded = accumulated(X, y)
    validation = folded.cross_validate(ALPHAS, codes)
    fold = kfold_index(np.arange(len(X)), FOLDS)
    like = folded.without_folds()
    calibration = folded.encoder.calibration
    Q = np.empty((len(X), 40), dtype=np.float32)
    folded.encoder.encode(X, np.ones(len(X)), Q)
    for k in range(FOLDS):
        out, kept = fold == k, fold != k
        refit = accumulated(X[kept], y[kept], folds=None, like=like)
        for i, alpha in enumerate(ALPHAS):
            model = refit.solve(alpha, codes)
            outputs = Q[out].astype(np.float64) @ model.coef.T + model.intercept
            if n_targets:
                truth = calibration.targets(y[out][:, np.newaxis], np.ones(out.sum()))
                truth = truth * calibration.target_step + calibration.target_shift
            else:
                truth = model.book.matrix[y[out]]
            errors = ((outputs - truth) ** 2).mean(axis=0)
            np.testing.assert_allclose(validation.errors[i, k], errors, rtol=1e-6)


def test_a_class_that_lives_in_one_fold_alone_is_still_one_of_the_outputs():
    X, y, _ = rows(0)
    fold = kfold_index(np.arange(len(X)), FOLDS)
    keep = (y < 3) | ((y == 3) & (fold == 1))
    places = np.flatnonzero(keep)
    y = np.where(keep, y, 0)  # the others become noise of class 0
    folded = accumulated(X, y)
    assert set(y[places]) == {0, 1, 2, 3}
    validation = folded.cross_validate(ALPHAS)
    assert validation.errors.shape == (3, FOLDS, 4)
    assert np.isfinite(validation.errors).all()
    refit = accumulated(X[fold != 1], y[fold != 1], folds=None, like=folded.without_folds())
    assert refit.labels.tolist() == [0, 1, 2]  # without the fold the class is unknown: all -1
    truth = np.where(y[fold == 1] == 3, 1.0, -1.0)
    np.testing.assert_allclose(validation.errors[:, 1, 3], ((-1 - truth) ** 2).mean())


def test_the_summary_over_folds():
    X, y, _ = rows(1)
    validation = accumulated(X, y).cross_validate([1e-3, 0.1, 3.0, 1e6])
    by_fold = validation.errors[:, :, 0]
    weights = validation.weights / validation.weights.sum()
    np.testing.assert_allclose(validation.mse, by_fold @ weights)
    spread = ((by_fold - validation.mse[:, np.newaxis]) ** 2) @ weights / (FOLDS - 1)
    np.testing.assert_allclose(validation.standard_error, np.sqrt(spread))
    best = validation.mse.argmin()
    assert validation.best_alpha() == validation.alphas[best]
    assert validation.best_alphas().tolist() == [validation.alphas[best]]
    bound = validation.mse[best] + validation.standard_error[best]
    assert validation.simplest_alpha() == validation.alphas[validation.mse <= bound].max()
    assert validation.model().alpha == validation.alphas[best]


def test_the_standard_error_is_the_spread_of_the_mean_over_independent_folds(rng):
    """Of 2,000 simulated tables of squared errors, in folds of unequal weight."""
    weights = np.array([90.0, 100.0, 110.0, 95.0, 105.0])
    errors = rng.normal(size=(2000, 5, 1)) / np.sqrt(weights)[:, np.newaxis] + 3
    validation = CrossValidation(np.ones(2000), errors, weights, np.ones(1), solve=None)
    told = np.sqrt((validation.standard_error**2).mean())
    assert told == pytest.approx(validation.mse.std(), rel=0.05)


def test_gcv_is_near_the_error_of_the_folds():
    X, y, _ = rows(1)
    folded = accumulated(X, y)
    np.testing.assert_allclose(folded.path(ALPHAS).gcv, folded.cross_validate(ALPHAS).mse, rtol=0.1)


@pytest.mark.parametrize("n_targets", [0, 2])
@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_folds_survive_saving(n_targets, precision, tmp_path):
    X, y, weights = rows(n_targets, weighted=True)
    folded = accumulated(X, y, weights, precision=precision)
    folded.save(tmp_path / "folded.stats.h5")
    again = srf.load_statistics(tmp_path / "folded.stats.h5")
    same(again, folded)
    np.testing.assert_array_equal(
        again.cross_validate(ALPHAS).errors, folded.cross_validate(ALPHAS).errors
    )


def test_folds_add_and_subtract_as_their_rows_do():
    X, y, _ = rows(0)
    whole = accumulated(X, y)
    first = accumulated(X[:900], y[:900], like=whole)
    second = srf.accumulate(srf.ArraySource(X, y), like=whole, rows=(900, None))
    assert second.n_folds == FOLDS
    same(whole - second, first)
    merged = (whole - second) + second
    same(merged, whole)
    for ours, theirs in zip(merged.sums.parts, whole.sums.parts, strict=True):
        assert ours.gram.totals.tobytes() == theirs.gram.totals.tobytes()
    np.testing.assert_array_equal(
        merged.cross_validate(ALPHAS).errors, whole.cross_validate(ALPHAS).errors
    )


def test_statistics_of_other_folds_do_not_merge():
    X, y, _ = rows(1)
    first = accumulated(X[:200], y[:200])
    plain = accumulated(X[200:], y[200:], folds=None, like=first.without_folds())
    with pytest.raises(MergeError, match="in 4 folds, the other in none; without_folds"):
        first + plain
    assert (first.without_folds() + plain).n_rows == len(X)
    with pytest.raises(ParameterError, match="folds=3, but the statistics to continue have 4"):
        accumulated(X, y, folds=3, like=first)


def test_scaled_folds_stay_folds():
    X, y, _ = rows(1)
    faded = accumulated(X, y).scale(0.5)
    assert faded.is_scaled
    assert faded.n_folds == FOLDS
    np.testing.assert_allclose(
        faded.cross_validate([0.5]).errors, accumulated(X, y).cross_validate([1.0]).errors
    )


@pytest.mark.parametrize("folds", [1, 0, 2.5, True, "5", 101])
def test_a_number_of_folds_that_cannot_be_is_refused(folds):
    X, y, _ = rows(1)
    with pytest.raises(ParameterError, match="folds must be None or an integer from 2 to 100"):
        accumulated(X, y, folds=folds)


def test_cross_validation_without_folds_says_what_to_do():
    X, y, _ = rows(1)
    with pytest.raises(ParameterError, match=r"accumulate\(..., folds=5\)"):
        accumulated(X, y, folds=None).cross_validate(ALPHAS)


def test_a_fold_without_rows_is_refused():
    X, y, _ = rows(1)
    with pytest.raises(DataError, match=r"of the 50 folds, number \d+ has no rows"):
        accumulated(X[:40], y[:40], folds=50).cross_validate(ALPHAS)


def test_the_memory_plan_counts_a_gram_for_each_fold():
    width = 4096
    gram = 8 * width * (width + 1) // 2
    without = plan(Sizes(width, 784, 10), "8 GiB").total_bytes
    with_five = plan(Sizes(width, 784, 10, n_folds=5), "8 GiB").total_bytes
    partial = gram * ExactGram.partial_bytes / 8  # where BLAS multiplies
    assert with_five - without == pytest.approx(5 * gram + 4 * partial, rel=0.01)


def test_rows_held_out_join_their_folds():
    X, y, _ = rows(0)
    source = srf.ArraySource(X, y)
    pass_ = begin(source, features(), hold_out=True, folds=FOLDS, random_state=0)
    add(source, pass_)
    assert pass_.holdout.n_rows
    joined = pass_.join()
    straight = srf.accumulate(source, features(), folds=FOLDS, random_state=0)
    same(joined, straight)
    for ours, theirs in zip(joined.sums.parts, straight.sums.parts, strict=True):
        assert ours.gram.totals.tobytes() == theirs.gram.totals.tobytes()
