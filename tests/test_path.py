"""Many penalties from one reduction: beside definitions on small problems."""

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.stats import Covariance, multivariate_normal
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import Ridge

import streamrf as srf
from plain import hat_matrix, plain_features, plain_targets
from streamrf import storage
from streamrf.errors import DataError, FormatError, ParameterError, SolveError
from streamrf.solving import path
from streamrf.solving.tridiagonal import ROWS, Tridiagonal

ALPHAS = [1e-4, 1e-2, 1.0, 30.0]


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 130, ROWS + 100])
@pytest.mark.parametrize("alpha", [1e-6, 1.0])
def test_a_shifted_reduction_solves_as_the_matrix_does(n, alpha, rng):
    Z = rng.normal(size=(n + 5, n)) / np.arange(1, n + 1)
    A = Z.T @ Z
    M = rng.normal(size=(n, 3))
    form = Tridiagonal(A.copy())
    shifted = form.shifted(alpha)
    inverse = np.linalg.inv(A + alpha * np.eye(n))
    solution = form.from_basis(shifted.solve(form.to_basis(M)))
    np.testing.assert_allclose(solution, inverse @ M, atol=1e-9 * np.abs(inverse @ M).max())
    assert shifted.inverse_trace() == pytest.approx(np.trace(inverse), rel=1e-9)
    assert shifted.log_determinant() == pytest.approx(-np.linalg.slogdet(inverse)[1], rel=1e-9)


def test_the_basis_is_orthogonal(rng):
    A = rng.normal(size=(300, 300))
    form = Tridiagonal(A + A.T)
    Q = form.from_basis(np.eye(300))
    np.testing.assert_allclose(Q @ Q.T, np.eye(300), atol=1e-12)
    np.testing.assert_allclose(form.to_basis(Q), np.eye(300), atol=1e-12)


def test_a_reduction_that_is_not_positive_definite_says_so(rng):
    form = Tridiagonal(np.diag(np.full(100, -1.0)))
    with pytest.raises(SolveError, match="too small"):
        form.shifted(0.5)


def features(n_components):
    return srf.RandomMaclaurin(
        srf.Polynomial(degree=2), n_components=n_components, projection="rademacher", random_state=0
    )


def regression(weighted, precision="exact", n_targets=2):
    X, y = load_diabetes(return_X_y=True)
    y = np.stack((y, np.sin(y), 3 * X[:, 2]), axis=1)[:, :n_targets]
    weights = np.random.default_rng(0).uniform(0.5, 3, len(X)) if weighted else None
    statistics = srf.accumulate(
        srf.ArraySource(X, y, weights), features(40), regression=True, precision=precision
    )
    Z, w = plain_features(statistics.encoder, X, weights)
    return statistics, Z, plain_targets(statistics.encoder, y, weights), w


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_degrees_of_freedom_and_residuals_are_those_of_the_hat_matrix(weighted, precision):
    statistics, Z, y, w = regression(weighted, precision)
    path = statistics.path(ALPHAS)
    assert path.weight == pytest.approx(w.sum())
    for i, alpha in enumerate(ALPHAS):
        H = hat_matrix(Z, w, alpha)
        t = np.sqrt(w)[:, np.newaxis] * y
        residuals = ((t - H @ t) ** 2).sum(axis=0)
        assert path.dof[i] == pytest.approx(np.trace(H), rel=1e-7)
        np.testing.assert_allclose(path.residuals[i], residuals, rtol=1e-6)
        gcv = residuals / w.sum() / (1 - np.trace(H) / len(y)) ** 2
        np.testing.assert_allclose(path.gcvs[i], gcv, rtol=1e-6)
        variances = np.average((y - np.average(y, axis=0, weights=w)) ** 2, axis=0, weights=w)
        relative = (gcv / variances).mean() * variances.mean()
        assert path.gcv[i] == pytest.approx(relative, rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_the_evidence_is_the_density_of_the_targets_at_the_best_noise(weighted):
    """The flat intercept leaves ``n - 1`` directions, and ``1 / sqrt(weight)``."""
    statistics, Z, y, w = regression(weighted)
    path = statistics.path(ALPHAS)
    root = np.sqrt(w)
    basis = null_space(root[np.newaxis, :])  # directions that no intercept reaches
    features = basis.T @ (root[:, np.newaxis] * Z)
    squares, vectors = np.linalg.eigh(features @ features.T)
    for i, alpha in enumerate(ALPHAS):
        spread = 1 + squares.clip(0) / alpha
        for j in range(y.shape[1]):
            t = basis.T @ (root * y[:, j])
            noise = ((vectors.T @ t) ** 2 / spread).sum() / (len(y) - 1)
            densities = [
                multivariate_normal.logpdf(
                    t, cov=Covariance.from_eigendecomposition((s2 * spread, vectors))
                )
                - np.log(w.sum()) / 2
                for s2 in (0.9 * noise, noise, 1.1 * noise)
            ]
            assert max(densities) == densities[1]
            assert path.log_evidences[i, j] == pytest.approx(densities[1], rel=1e-8)
    np.testing.assert_allclose(path.log_evidence, path.log_evidences.sum(axis=1))


@pytest.mark.parametrize("folds", [None, 3])
@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_rows_of_weight_zero_say_nothing_of_penalties_and_noise(precision, folds, rng, tmp_path):
    """As if they were not there, also after saving, merging and subtraction."""
    X = rng.normal(size=(600, 3))
    y, w = np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=600), (np.arange(600) < 60) * 1.0
    source = srf.ArraySource(X, y, w)
    every = srf.accumulate(source, features(30), precision=precision, folds=folds)
    cuts = [slice(60), slice(60, None), slice(30), slice(30, None)]
    alone, none, some, others = (
        srf.accumulate(srf.ArraySource(X[s], y[s], w[s]), like=every) for s in cuts
    )
    every.save(tmp_path / "every.h5")
    read = srf.load_statistics(tmp_path / "every.h5")
    for statistics in (read, alone + none, alone + none - none, some + others):
        assert statistics.sums.n_weighted == 60
        path, expected = statistics.path(), alone.path()
        np.testing.assert_allclose(path.gcv, expected.gcv, rtol=1e-6)
        np.testing.assert_allclose(path.log_evidence, expected.log_evidence, rtol=1e-6)
        one, other = (s.solve(1.0, uncertainty=True).posterior for s in (statistics, alone))
        np.testing.assert_allclose(one.noise, other.noise, rtol=1e-6)
        assert statistics.rounding_alpha == alone.rounding_alpha
    with pytest.raises(DataError, match="at least 2 rows"):
        srf.accumulate(srf.ArraySource(X, y, w * (np.arange(600) == 7)), like=every).path()


@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_weights_of_nothing_and_too_small_ones_are_refused(precision, rng):
    X, w = rng.normal(size=(200, 3)), np.arange(200.0)
    none = srf.accumulate(srf.ArraySource(X, X[:, 0], 0 * w), features(20), precision=precision)
    questions = [
        none.solve, none.path, lambda: none.prune(3), none.alpha_scale, none.alignment,
        lambda: none.principal_components(2), lambda: none.solve(uncertainty=True),
    ]  # fmt: skip
    for question in questions:
        with pytest.raises(DataError, match="or all their weights are zero"):
            question()
    for small in (5e-324, 1e-300):
        with pytest.raises(DataError, match="too little for floats; multiply all weights"):
            srf.accumulate(srf.ArraySource(X, X[:, 0], small * w), features(20))
    tree = none.to_tree()
    tree["encoder"]["calibration"]["mean_weight"] = 5e-324
    with pytest.raises(FormatError, match=r"mean_weight' is 4.9.*; expected 1e-100 to 1e"):
        srf.Statistics.from_tree(tree)


def test_files_without_rows_of_weight_zero_are_as_before(tmp_path):
    X, y = load_diabetes(return_X_y=True)
    statistics = srf.accumulate(
        srf.ArraySource(X, y, np.ones(len(y))), features(20), regression=True
    )
    assert "n_weightless" not in statistics.to_tree()["sums"]
    tree = statistics.to_tree()
    tree["sums"]["n_weightless"] = len(y) + 1
    storage.write(tmp_path / "more.h5", "statistics", tree)
    with pytest.raises(FormatError, match="'sums/n_weightless' is 443; expected an integer"):
        srf.load_statistics(tmp_path / "more.h5")


@pytest.mark.parametrize("codes", [None, srf.ErrorCorrectingCodes(n_bits=7)], ids=["ovr", "ecoc"])
def test_a_path_of_classes_is_over_the_bits_of_the_code(codes):
    X, y = load_digits(return_X_y=True)
    statistics = srf.accumulate(srf.ArraySource(X, y), features(60), normalize="l2")
    path = statistics.path(ALPHAS, codes)
    book = statistics.problem(codes).book
    T = book.matrix[y]
    Z, w = plain_features(statistics.encoder, X)
    for i, alpha in enumerate(ALPHAS):
        H = hat_matrix(Z, w, alpha)
        residuals = ((T - H @ T) ** 2).sum(axis=0)
        np.testing.assert_allclose(path.residuals[i], residuals, rtol=1e-8)
        assert path.gcv[i] == pytest.approx(
            residuals.mean() / len(y) / (1 - np.trace(H) / len(y)) ** 2, rel=1e-8
        )


@pytest.mark.parametrize("precision", ["exact", "float64"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_outputs_that_never_vary_have_no_say_in_the_penalty(weighted, precision, rng):
    """Their density without noise is infinite: the least penalty was taken, whatever the others."""
    X = rng.normal(size=(400, 4))
    y = np.sin(X[:, 0]) + 0.5 * rng.normal(size=400)
    labels = (X[:, 0] > 0) * 1 + (X[:, 2] > 1)
    weights = rng.uniform(0.5, 3, 400) if weighted else None
    pairs = [
        ((y, {}), (np.stack((y, np.full(400, 1e6 + 0.1)), axis=1), {})),
        ((labels, {"classes": [0, 1, 2]}), (labels, {"classes": [0, 1, 2, 7]})),
    ]
    for pair in pairs:
        alone, beside = (
            srf.accumulate(
                srf.ArraySource(X, targets, weights), features(60), precision=precision, **settings
            ).path()
            for targets, settings in pair
        )
        np.testing.assert_allclose(beside.log_evidence, alone.log_evidence, rtol=1e-9)
        np.testing.assert_allclose(beside.gcvs.sum(axis=1), alone.gcvs.sum(axis=1), rtol=1e-9)
        for criterion in ("gcv", "evidence"):
            best = alone.best_alpha(criterion)
            assert alone.alphas[0] < best == beside.best_alpha(criterion)
            each = [*alone.best_alphas(criterion), alone.alphas.max()]
            assert beside.best_alphas(criterion).tolist() == each


def test_targets_that_never_vary_leave_the_greatest_penalty():
    X, _ = load_diabetes(return_X_y=True)
    source = srf.ArraySource(X, np.full(len(X), 3.0))
    path = srf.accumulate(source, features(20), regression=True).path([1.0, 9, 2])
    assert path.best_alpha() == path.best_alpha("evidence") == 9


def test_a_path_gives_the_model_of_any_penalty():
    statistics, *_ = regression(weighted=False)
    path = statistics.path(ALPHAS)
    np.testing.assert_array_equal(path.solve(ALPHAS[1]).coef, statistics.solve(ALPHAS[1]).coef)
    assert path.model().alpha == path.best_alpha() == ALPHAS[path.gcv.argmin()]
    best = ALPHAS[path.log_evidence.argmax()]
    assert path.model("evidence").alpha == path.best_alpha("evidence") == best
    with pytest.raises(ParameterError, match="criterion must be one of"):
        path.best_alpha("aic")


def test_without_alphas_the_path_spans_thirteen_decades():
    statistics, *_ = regression(weighted=False)
    alphas = statistics.path().alphas
    assert len(alphas) == 17
    assert alphas[-1] / alphas[0] == pytest.approx(10 ** (40 / 3))


def test_every_target_may_have_a_penalty_of_its_own():
    statistics, Z, y, w = regression(weighted=True, n_targets=3)
    alphas = np.array([1.0, 30.0, 1.0])
    model = statistics.solve(alphas)
    np.testing.assert_array_equal(model.alpha, alphas)
    for j, alpha in enumerate(alphas):
        ridge = Ridge(alpha=alpha).fit(Z, y[:, j], sample_weight=w)
        coef = model.coef[j] / statistics.encoder.calibration.step
        np.testing.assert_allclose(coef, ridge.coef_, rtol=1e-6, atol=1e-9)
        alone = statistics.solve(alpha)
        np.testing.assert_allclose(model.intercept[j], alone.intercept[j])
    path = statistics.path(ALPHAS)
    best = path.best_alphas()
    assert best.tolist() == [ALPHAS[i] for i in path.gcvs.argmin(axis=0)]
    assert path.solve(best).coef.shape == model.coef.shape


@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_the_best_penalty_of_several_targets_does_not_depend_on_their_units(precision):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    y = np.stack((np.sin(2 * X[:, 0]) + rng.normal(size=300), X[:, 1] ** 2, 0 * X[:, 0]), axis=1)
    features = srf.RandomFourier(srf.Gaussian(0.5), 64, random_state=0)
    found = []
    for unit in (1e-4, 1.0, 1e4):
        source = srf.ArraySource(X, y * [1, unit, 1])
        settings = {"precision": precision, "folds": 3, "regression": True, "random_state": 0}
        statistics = srf.accumulate(source, features, **settings)
        alphas, folds = statistics.alpha_grid(), statistics.cross_validate()
        path = statistics.path(alphas)
        best = path.best_alpha(), folds.best_alpha(), folds.simplest_alpha()
        assert best[:2] == (alphas[path.gcv.argmin()], alphas[folds.mse.argmin()])
        found.append([int(np.searchsorted(alphas, 0.99 * alpha)) for alpha in best])
    assert found[0] == found[1] == found[2]


def test_a_model_with_many_penalties_keeps_them_in_its_file(tmp_path):
    statistics, *_ = regression(weighted=False)
    statistics.solve(np.array([1.0, 2.0])).save(tmp_path / "two.model.h5")
    assert srf.load_model(tmp_path / "two.model.h5").alpha.tolist() == [1.0, 2.0]


def test_penalties_of_another_number_than_the_outputs_are_refused():
    statistics, *_ = regression(weighted=False)
    with pytest.raises(ParameterError, match=r"each of the 2 outputs, of at least 0, got \[1.0"):
        statistics.solve([1.0, 2.0, 3.0])
    with pytest.raises(ParameterError, match="at least 0, got -1"):
        statistics.solve([1.0, -1.0])


@pytest.mark.parametrize(("n", "width"), [(100, 512), (20, 64), (10, 64)])
@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_rounding_chooses_no_penalty_where_features_outnumber_rows(n, width, precision):
    """Both parts of the ratio vanish: the least was that of 1e-11, with 8,000 times the error."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
    features = srf.StructuredFourier(srf.Gaussian(0.5), width, random_state=0)
    source = srf.ArraySource(X, y)
    statistics = srf.accumulate(source, features, regression=True, precision=precision)
    path = statistics.path()
    Z = statistics.encoder.features.transform(X).astype(np.float64)
    U, S, _ = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
    shrunk = S**2 / (S**2 + path.alphas[:, np.newaxis])
    centred = y - y.mean()
    rss = np.square(centred - (shrunk * (U.T @ centred)) @ U.T).sum(axis=1)
    exact = n * rss / (n - 1 - shrunk.sum(axis=1)) ** 2
    known = np.isfinite(path.gcv)
    assert known.sum() >= 5
    assert path.gcv[known].min() > 0.8 * exact[known].min()
    best = exact[path.alphas == path.best_alpha()][0]
    assert best < 1.2 * exact[known].min()


def test_penalties_that_cannot_be_traced_are_refused():
    statistics, *_ = regression(weighted=False)
    with pytest.raises(ParameterError, match="alphas is empty"):
        statistics.path([])
    with pytest.raises(ParameterError, match="alphas must be a list of penalties"):
        statistics.path(0.1)
    with pytest.raises(ParameterError, match="alphas must be a list of penalties"):
        statistics.path(np.array(0.1))
    with pytest.raises(ParameterError, match="at least 0, got -2"):
        statistics.path([1.0, -2.0])


def test_a_penalty_that_does_not_factor_is_marked_and_never_the_best(rng):
    X = rng.normal(size=(20, 2))
    statistics = srf.accumulate(srf.ArraySource(X, X[:, 0]), features(60), regression=True)
    path = statistics.path([0.0, 1.0])
    assert np.isnan(path.dof[0])
    assert path.gcv[0] == np.inf
    assert path.log_evidence[0] == -np.inf
    assert path.best_alpha() == path.best_alpha("evidence") == 1.0
    with pytest.raises(SolveError, match="none of the 1 penalties factors"):
        statistics.path([0.0])


@pytest.mark.parametrize("n_rows", [3, 20])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_few_rows_have_the_path_of_the_reduction(rng, monkeypatch, n_rows, weighted, precision):
    X, y = rng.normal(size=(n_rows, 4)), rng.normal(size=(n_rows, 2))
    weights = rng.uniform(0.5, 3, n_rows) if weighted else None
    source = srf.ArraySource(X, y, weights)
    map_ = srf.RandomFourier(srf.Gaussian(0.3), 200, random_state=0)
    statistics = srf.accumulate(source, map_, regression=True, precision=precision)
    alphas = np.array([1e-2, 1.0, 100.0]) * statistics.alpha_scale()
    found = statistics.path(alphas)
    monkeypatch.setattr(path, "FEW", 1000)
    expected = statistics.path(alphas)
    for name in ("dof", "residuals", "log_evidences", "gcvs"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-5)
    assert found.best_alpha("evidence") == expected.best_alpha("evidence")


def test_a_penalty_lost_in_the_rounding_of_few_rows_does_not_factor(rng):
    source = srf.ArraySource(rng.normal(size=(20, 4)), rng.normal(size=20))
    map_ = srf.RandomFourier(srf.Gaussian(0.3), 200, random_state=0)
    statistics = srf.accumulate(source, map_, regression=True)
    found = statistics.path([0.0, 1e-30, 1.0])
    assert np.isnan(found.dof).tolist() == [True, True, False]
    assert found.best_alpha() == 1.0
