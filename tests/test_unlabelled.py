"""Answers without labels: components, distances of samples, novelty, clusters, alignment."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.spatial.distance import mahalanobis
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes, load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamrf as srf
from conventions import conventions
from integers import assert_same_bytes
from streamrf.errors import (
    ConsumedError,
    DataError,
    MergeError,
    ParameterError,
    ShapeError,
    StreamrfWarning,
)
from streamrf.statistics import two_sample
from streamrf.training import clustering

pytestmark = pytest.mark.usefixtures("one_thread")

X, Y = load_digits(return_X_y=True)
X = X[:600] / 16
Y = Y[:600]
FEATURES = srf.RandomFourier(srf.Gaussian(0.3), 60, random_state=0)


def summed(rows, y=None, weights=None, **options):
    y = np.zeros(len(rows), dtype=int) if y is None else y
    return srf.accumulate(srf.ArraySource(rows, y, weights), FEATURES, random_state=0, **options)


def mapped(stats, rows):
    """The features, rounded by no one, in their own units."""
    return stats.encoder.features.transform(rows).astype(np.float64)


@pytest.mark.parametrize("whiten", [False, True])
def test_components_are_those_of_scikit_learn(whiten):
    settings = {"whiten": whiten, "precision": "float64", "random_state": 0}
    pca = srf.RandomFeaturePCA(7, FEATURES, **settings).fit(X)
    Z = mapped(pca.statistics_, X)
    other = PCA(7, whiten=whiten, svd_solver="full").fit(Z)
    np.testing.assert_allclose(pca.explained_variance_, other.explained_variance_, rtol=1e-5)
    ratio = other.explained_variance_ratio_
    np.testing.assert_allclose(pca.explained_variance_ratio_, ratio, rtol=1e-5)
    signs = np.sign(np.sum(pca.components_ * other.components_, axis=1))
    np.testing.assert_allclose(pca.components_, signs[:, None] * other.components_, atol=1e-3)
    np.testing.assert_allclose(pca.mean_, other.mean_, atol=1e-4)
    scale = np.abs(other.transform(Z)).max()
    np.testing.assert_allclose(pca.transform(X), signs * other.transform(Z), atol=1e-3 * scale)
    assert (pca.components_[np.arange(7), np.abs(pca.components_).argmax(axis=1)] > 0).all()
    source = srf.ArraySource(X)
    np.testing.assert_array_equal(pca.transform(source), pca.transform(X))


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_sparse_rows_are_those_of_arrays(kind):
    weights = np.arange(len(X)) % 3
    settings = {"features": FEATURES, "random_state": 0}
    pairs = []
    for rows in (X, kind(X)):
        pca = srf.RandomFeaturePCA(3, **settings).fit(rows, sample_weight=weights)
        groups = srf.RandomFeatureKMeans(4, **settings).fit(rows, sample_weight=weights)
        assert pca.n_features_in_ == groups.n_features_in_ == X.shape[1]
        pairs.append((pca.transform(rows), groups.predict(rows)))
        with pytest.raises(ValueError, match=r"has 60 features, but .* is expecting 64"):
            pca.transform(rows[:, :60] if kind is scipy.sparse.csr_array else X[:, :60])
    np.testing.assert_array_equal(pairs[0][0], pairs[1][0])
    np.testing.assert_array_equal(pairs[0][1], pairs[1][1])


def test_components_are_of_merged_and_weighted_rows():
    stats = summed(X)
    a, b = (summed(part, like=stats) for part in (X[:250], X[250:]))
    ours, theirs = (s.principal_components(3).components for s in (a + b, stats))
    np.testing.assert_array_equal(ours, theirs)
    weights = np.where(np.arange(len(X)) < 100, 3.0, 1.0)
    weighted = summed(X, weights=weights).principal_components(3).explained_variance
    repeated = np.concatenate([X, X[:100], X[:100]])
    expected = PCA(3).fit(mapped(stats, repeated)).explained_variance_
    np.testing.assert_allclose(weighted, expected, rtol=1e-4)


@pytest.mark.parametrize("k", [0, 61, 2.5])
def test_there_are_as_many_components_as_features(k):
    with pytest.raises(ParameterError, match="k must be an integer from 1 to the 60"):
        summed(X).principal_components(k)


def test_components_have_a_coefficient_for_each_feature():
    """Others read beyond the array."""
    found = summed(X).principal_components(3)
    with pytest.raises(ShapeError, match=r"coef has shape \(3, 9\).*expected"):
        replace(found, components=np.ones((3, 9)))
    assert_same_bytes(found.scores(X[:9].tolist()), found.transform(X[:9]))


def test_there_are_no_more_components_than_rows():
    few = summed(X[:9])
    assert len(few.principal_components(9).components) == 9
    with pytest.raises(ParameterError, match="10 components of 9 rows"):
        few.principal_components(10)


@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=f"{type(estimator).__name__}-{check.func.__name__}")
        for estimator in (
            srf.RandomFeaturePCA(1, srf.RandomFourier(n_components=8), random_state=0),
            srf.RandomFeatureKMeans(2, srf.RandomFourier(n_components=8), random_state=0),
        )
        for estimator, check in conventions(estimator)
        if "sample_weight_equivalence" not in check.func.__name__  # of the peek
    ],
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("folds", [None, 4])
def test_the_distance_is_the_double_sum(folds):
    a = summed(X[:250], folds=folds)
    b = summed(X[250:] ** 2, like=a)
    found = srf.mmd(a, b)
    first, second = mapped(a, X[:250]), mapped(a, X[250:] ** 2)
    within = (first @ first.T).mean() + (second @ second.T).mean()
    expected = within - 2 * (first @ second.T).mean()
    assert found.distance**2 == pytest.approx(expected, rel=1e-4)
    assert found.p_value < 1e-6
    assert (found.fold_p_value is None) == (folds is None)
    assert folds is None or found.fold_p_value == 2**-3
    assert srf.mmd(a, a).distance == 0
    assert srf.mmd(a, a).p_value == 1


def test_the_chances_are_uniform_without_a_difference():
    rng = np.random.default_rng(0)
    like = summed(X, folds=6)
    found = []
    for _ in range(60):
        order = rng.permutation(len(X))[:240]
        a, b = (summed(X[part], folds=6, like=like) for part in (order[:150], order[150:]))
        found.append(srf.mmd(a, b))
    for name in ("p_value", "fold_p_value"):
        chances = np.array([getattr(one, name) for one in found])
        assert 0.3 < chances.mean() < 0.7
        assert (chances < 0.1).mean() < 0.25


@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_the_chances_are_those_of_rows_in_any_unit_of_their_weights(precision):
    """Rows of weight 0 are none."""
    found = []
    for unit in (None, 1.0, 10.0, 1e-6):
        rows, weights = X, None if unit is None else np.full(len(X), unit)
        if unit == 10.0:
            rows, weights = np.concatenate((X[-250:], X)), np.pad(weights, (250, 0))
        n = len(rows) - 350
        first = None if weights is None else weights[:n]
        a = summed(rows[:n], weights=first, precision=precision)
        b = summed(rows[n:] ** 1.05, weights=None if unit is None else weights[n:], like=a)
        found.append(srf.mmd(a, b).p_value)
    assert 1e-6 < found[0] < 0.9
    np.testing.assert_allclose(found[1:], found[0], rtol=0.02)  # of roundings that differ
    with pytest.raises(DataError, match="needs two rows of weight above 0 on each side"):
        srf.mmd(a, summed(X[:9], weights=1e-6 * np.eye(9)[0], like=a))


def test_signs_are_tried_all_or_at_random(monkeypatch):
    apart = np.random.default_rng(0).normal(size=(8, 3)) + 0.5
    every = two_sample._flipped(apart)
    monkeypatch.setattr(two_sample, "MAX_FLIPS", 100)
    assert two_sample._flipped(apart) == pytest.approx(every, abs=0.15)


def test_files_are_compared_and_other_maps_refused(tmp_path):
    a = summed(X[:300])
    a.save(tmp_path / "a.h5")
    summed(X[300:], like=a).save(tmp_path / "b.h5")
    assert 0 < srf.mmd(tmp_path / "a.h5", tmp_path / "b.h5").distance < 1
    other = srf.accumulate(srf.ArraySource(X, Y), srf.RandomFourier(n_components=60))
    with pytest.raises(MergeError, match="different feature maps"):
        srf.mmd(a, other)
    with pytest.raises(MergeError, match="mmd compares statistics"):
        srf.mmd(a, 3)


@pytest.mark.parametrize("targets", ["classes", "values"])
def test_novelty_is_leverage_and_distance(targets, tmp_path):
    y = Y if targets == "classes" else X[:, 30]
    stats = summed(X, y, regression=targets == "values")
    model = stats.solve(0.5, uncertainty=True)
    Z = mapped(stats, X)
    centred = Z - Z.mean(axis=0)
    inverse = np.linalg.inv(centred.T @ centred + 0.5 * np.eye(60))
    leverage = 1 / len(X) + np.einsum("ni,ij,nj->n", centred, inverse, centred)
    np.testing.assert_allclose(model.novelty(X), leverage, rtol=1e-3)
    assert model.novelty(X).sum() == pytest.approx(model.posterior.dof, rel=1e-3)
    covariance = np.linalg.inv(inverse) / len(X)
    expected = [mahalanobis(z, Z.mean(axis=0), np.linalg.inv(covariance)) for z in Z[:20]]
    np.testing.assert_allclose(model.novelty(X[:20], "mahalanobis"), expected, rtol=1e-3)
    assert np.median(model.novelty(1 - X)) > 1.5 * np.median(leverage)
    model.save(tmp_path / "model.h5")
    again = srf.load_model(tmp_path / "model.h5")
    np.testing.assert_array_equal(again.novelty(srf.ArraySource(X)), model.novelty(X))
    with pytest.raises(ParameterError, match="uncertainty=True"):
        stats.solve(0.5).novelty(X)
    with pytest.raises(ParameterError, match="'leverage', 'mahalanobis'"):
        model.novelty(X, "distance")


def plain_alignment(Z, T):
    """The cosine of two centred matrices."""
    K, L = Z @ Z.T, T @ T.T
    H = np.eye(len(K)) - 1 / len(K)
    K, L = H @ K @ H, H @ L @ H
    return (K * L).sum() / np.linalg.norm(K) / np.linalg.norm(L)


def test_alignment_is_the_cosine_of_kernel_and_labels():
    stats = summed(X, Y)
    Z = mapped(stats, X)
    assert stats.alignment() == pytest.approx(plain_alignment(Z, np.eye(10)[Y]), rel=1e-4)
    codes = srf.ErrorCorrectingCodes(5)
    bits = summed(X, Y, codes=codes, classes=np.arange(10))
    expected = plain_alignment(Z, bits.sums.targets.matrix[Y])
    assert bits.alignment() == pytest.approx(expected, rel=1e-4)
    rows, y = load_diabetes(return_X_y=True)
    y = np.column_stack((y, y**2))
    values = summed(rows, y, regression=True)
    Z = mapped(values, rows)
    expected = [plain_alignment(Z, column[:, None]) for column in y.T]
    np.testing.assert_allclose(values.alignment(), expected, rtol=1e-3)


def test_clusters_are_those_of_lloyd():
    found = srf.RandomFeatureKMeans(5, FEATURES, max_passes=50, random_state=0).fit(X)
    clusters = found.clusters_
    Z = (
        clusters.encoder.features.transform(X).astype(np.float64)
        - clusters.encoder.calibration.shift
    )
    first = KMeans(5, init=clusters.centres, n_init=1).fit(Z)  # they are a fixed point of Lloyd's
    np.testing.assert_allclose(first.cluster_centers_, clusters.centres, atol=1e-3)
    assert adjusted_rand_score(first.labels_, found.predict(X)) > 0.99
    assert clusters.weights.sum() == len(X)
    assert found.n_passes_ < 50
    assert adjusted_rand_score(Y, found.predict(srf.ArraySource(X))) > 0.15


def centres(clusters):
    return {"centres": clusters.centres, "weights": clusters.weights}


def test_clusters_of_workers_and_iterators_are_the_same(two_workers):
    weights = np.linspace(0.5, 2, len(X))
    source = srf.ArraySource(X, None, weights)
    kmeans = srf.RandomFeatureKMeans(4, FEATURES, max_passes=2, random_state=0)
    here = centres(kmeans.fit(source).clusters_)
    assert_same_bytes(centres(kmeans.fit(source, engine=two_workers).clusters_), here)
    blocks = [(X[:99], None, weights[:99]), (X[99:], None, weights[99:])]
    again = srf.IteratorSource(lambda: iter(blocks))
    assert_same_bytes(centres(kmeans.fit(again).clusters_), here)
    with pytest.raises(ConsumedError, match="set max_passes=1"):
        kmeans.fit(srf.IteratorSource(iter(blocks)))
    once = srf.RandomFeatureKMeans(4, FEATURES, max_passes=1, random_state=0)
    assert once.fit(srf.IteratorSource(iter(blocks))).n_passes_ == 1


def test_clusters_of_rows_that_become_fewer_are_refused(monkeypatch):
    monkeypatch.setattr(clustering, "SAMPLE_ROUNDS", 0)  # or the peek at all rows settles them
    calls = iter([300, 200])
    kmeans = srf.RandomFeatureKMeans(4, FEATURES, max_passes=2, random_state=0)
    with pytest.raises(ValueError, match="gave 200 rows where a reading before gave 300"):
        kmeans.fit(srf.IteratorSource(lambda: iter([X[: next(calls)]])))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"n_clusters": 0}, "n_clusters must be"), ({"max_passes": 0}, "max_passes must be")],
)
def test_settings_of_clusters_are_checked(options, message):
    with pytest.raises(ParameterError, match=message):
        srf.RandomFeatureKMeans(**options).fit(X)


def test_two_samples_of_fewer_rows_than_folds_have_a_distance():
    rng = np.random.default_rng(0)
    map_ = srf.RandomFourier(srf.Gaussian(0.3), 8, random_state=0)
    a = srf.accumulate(srf.ArraySource(rng.normal(size=(300, 2)), np.zeros(300)), map_, folds=8)
    b = srf.accumulate(srf.ArraySource(rng.normal(size=(5, 2)) + 0.9, np.zeros(5)), like=a)
    found = srf.mmd(a, b)
    assert found.fold_p_value is None
    joined = srf.mmd(a.without_folds(), b.without_folds())
    assert (found.distance, found.p_value) == (joined.distance, joined.p_value)


@pytest.mark.parametrize("precision", ["exact", "coarse", "float64"])
def test_whitened_components_without_variance_become_zero_and_are_told(precision):
    rng = np.random.default_rng(0)
    numbers, level = rng.normal(size=(600, 2)), rng.integers(0, 3, 600)
    rows = np.column_stack([numbers, np.eye(3)[level], numbers.sum(axis=1)])  # of rank 4
    settings = {"whiten": True, "precision": precision, "random_state": 0}
    with pytest.warns(srf.StreamrfWarning, match="2 of 6 components have no more variance"):
        pca = srf.RandomFeaturePCA(6, srf.Identity(), **settings).fit(rows)
    scores = pca.transform(rows)
    near = 2e-2 if precision == "coarse" else 2e-3
    np.testing.assert_allclose(scores[:, :4].std(axis=0, ddof=1), 1, rtol=near)
    assert not scores[:, 4:].any()


@pytest.mark.parametrize("precision", ["exact", "coarse", "float64"])
def test_whitened_components_of_a_smooth_kernel_have_variance_one_or_none(precision):
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    features = srf.StructuredFourier(srf.Gaussian(0.05), 64)
    settings = {"whiten": True, "precision": precision, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", srf.StreamrfWarning)
        pca = srf.RandomFeaturePCA(64, features, **settings).fit(rows)
    deviations = pca.transform(rows).std(axis=0, ddof=1)
    is_zero = deviations == 0
    assert not is_zero[:12].any()
    assert is_zero[-16:].all()
    off = {"exact": 0.2, "coarse": 0.5, "float64": 1e-3}[precision]  # near the rounding's variance
    np.testing.assert_allclose(deviations[~is_zero], 1, atol=off)


def test_components_of_wide_sparse_rows_cluster_as_dense_ones():
    rows = scipy.sparse.random_array((300, 5000), density=0.01, rng=0, format="csr")
    features = srf.TensorSketch(srf.Polynomial(2), 32)
    found = [
        srf.RandomFeatureKMeans(3, features, random_state=0).fit(source).clusters_.centres
        for source in (srf.open_source(rows), srf.ArraySource(rows.toarray()))
    ]
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-7)


def test_clusters_of_the_rows_fitted_in_one_call():
    kmeans = srf.RandomFeatureKMeans(4, FEATURES, max_passes=2, random_state=0)
    X = np.random.default_rng(0).normal(size=(300, 3))
    weights = np.arange(300) % 3
    found = kmeans.fit_predict(X, sample_weight=weights)
    assert np.array_equal(found, kmeans.fit(X, sample_weight=weights).predict(X))
    assert make_pipeline(StandardScaler(), kmeans).fit_predict(X).shape == (300,)


def test_rows_without_labels_are_summed_where_they_are_told_to_have_none(tmp_path):
    features = srf.StructuredFourier(srf.Gaussian(0.1), 64, random_state=0)
    day = srf.accumulate(srf.Unlabelled(X[:300]), features)
    labelled = srf.accumulate(srf.ArraySource(X[:300], np.zeros(300)), features, regression=True)
    assert_same_bytes(day.to_tree(), labelled.to_tree())
    stream = srf.IteratorSource(X[i : i + 60] for i in range(0, 300, 60))
    assert srf.accumulate(srf.Unlabelled(stream), features).weight == day.weight == 300
    other = srf.accumulate(srf.Unlabelled(srf.ArraySource(X[300:], Y[300:600])), like=day)
    day.save(tmp_path / "day.h5")
    both = srf.load_statistics(tmp_path / "day.h5") + other
    pca = srf.RandomFeaturePCA(2, features).fit(X)
    np.testing.assert_allclose(
        both.principal_components(2).explained_variance, pca.explained_variance_, rtol=1e-3
    )
    model = both.solve(0.1, uncertainty=True)
    assert model.novelty(X + 5).min() > np.median(model.novelty(X))
    named = srf.Unlabelled(
        srf.open_source(X[:300], y=pd.DataFrame(X[:300, :2], columns=["u", "v"]))
    )
    classes = srf.accumulate(srf.ArraySource(X[:300], Y[:300]), features)
    with pytest.warns(StreamrfWarning, match=r"no labels, and those of like= have; compare"):
        beside = srf.accumulate(srf.Unlabelled(X[300:]), like=classes)
    assert srf.mmd(classes, beside).distance == pytest.approx(srf.mmd(day, other).distance)
    nameless = srf.accumulate(named, features)
    assert nameless.encoder.target_names == ()
    assert_same_bytes(nameless.sums.to_tree(), day.sums.to_tree())
    assert nameless.solve(1.0).evaluate(named)["rmse"] == 0
    weighed = srf.Unlabelled(srf.ArraySource(X[:300], Y[:300], np.arange(300) % 3 + 1.0))
    assert srf.accumulate(weighed, features).weight == pytest.approx(600, rel=1e-3)
    with pytest.raises(DataError, match=r"X has no targets.* or give streamrf\.Unlabelled\("):
        srf.accumulate(srf.ArraySource(X), features)
