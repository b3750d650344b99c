"""Coefficients are those of `sklearn.linear_model.Ridge` on the same features."""

import re

import numpy as np
import pytest
from scipy.linalg import lapack
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression, Ridge

import naive
import streamrf as srf
from integers import accumulate, features, packed, plain_problem, unpacked
from streamrf.errors import ParameterError, SolveError
from streamrf.jit.packed import add_diagonal
from streamrf.jit.threads import computing
from streamrf.preprocessing.rounding import Centring, Rounding
from streamrf.solving.normal import Normal
from streamrf.statistics.gram import ExactGram, FloatGram
from streamrf.statistics.sums import Sums
from streamrf.statistics.values import ValueSums

pytestmark = pytest.mark.usefixtures("one_thread")

N = 500


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    y = np.array(["red", "green", "blue"])[(np.abs(X[:, 0]) * 2).astype(int).clip(max=2)]
    values = np.stack((X[:, 0] ** 2 + X[:, 1], 1e5 + 1e3 * X[:, 2] * X[:, 3]), axis=1)
    weights = rng.gamma(1.0, 200.0, N)
    weights[::17] = 0
    for array in (X, y, values, weights):
        array.flags.writeable = False
    return X, y, values, weights


def assert_same_solution(model, ridge, rtol=1e-8):
    """Coefficients and intercepts of the features in their own units."""
    calibration = model.encoder.calibration
    coef = model.coef / calibration.step
    intercept = model.intercept - coef @ calibration.shift
    scale = np.linalg.norm(ridge.coef_, axis=-1, keepdims=True).reshape(-1, 1)
    assert (np.abs(coef - ridge.coef_.reshape(coef.shape)) <= rtol * scale).all()
    np.testing.assert_allclose(
        intercept,
        np.reshape(ridge.intercept_, intercept.shape),
        rtol=0,
        atol=rtol * (np.abs(ridge.intercept_).max() + np.abs(scale * calibration.shift).max()),
    )


@pytest.mark.parametrize("precision", ["exact", "float64"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("kind", ["classes", "values"])
@pytest.mark.parametrize("relative_alpha", [1e-6, 1e-2])
def test_coefficients_equal_ridge_of_scikit_learn(rows, precision, weighted, kind, relative_alpha):
    X, labels, values, weights = rows
    weights = weights if weighted else None
    y = labels if kind == "classes" else values
    statistics = accumulate(
        srf.ArraySource(X, y, weights),
        features(40),
        precision=precision,
        regression=kind == "values",
    )
    Z, targets, plain_weights = plain_problem(statistics, X, y, weights)
    alpha = relative_alpha * N * (1 if weights is None else weights.mean())
    ridge = Ridge(alpha=alpha, solver="cholesky").fit(Z, targets, plain_weights)
    assert_same_solution(statistics.solve(alpha), ridge)


@pytest.mark.parametrize("n_components", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_every_width_is_solved(rows, n_components, precision):
    X, _, values, _ = rows
    source = srf.ArraySource(X, values[:, 0])
    map_ = features(n_components, random_state=3)
    statistics = accumulate(source, map_, regression=True, precision=precision)
    Z, targets, _ = plain_problem(statistics, X, values[:, 0], None)
    ridge = Ridge(alpha=2.5, solver="cholesky").fit(Z, targets)
    assert_same_solution(statistics.solve(2.5), ridge)


def test_two_classes_have_one_output(rows):
    X, _, _, weights = rows
    y = X[:, 0] > 0.3
    statistics = accumulate(srf.ArraySource(X, y, weights), features(20))
    Z, targets, plain_weights = plain_problem(statistics, X, y, weights)
    model = statistics.solve(10.0)
    assert model.coef.shape == (1, 20)
    assert_same_solution(model, Ridge(alpha=10.0).fit(Z, targets, plain_weights))


def test_bits_summed_equal_bits_of_the_class_sums(rows):
    X, y, _, weights = rows
    y = np.char.add(y, np.where(X[:, 3] > 0, "+", "-"))  # 6 classes
    codes = srf.ErrorCorrectingCodes(n_bits=4, random_state=1)
    by_bit = accumulate(
        srf.ArraySource(X, y, weights), features(20), codes=codes, classes=np.unique(y)
    )
    by_class = accumulate(srf.ArraySource(X, y, weights), features(20))
    assert by_bit.class_sums.shape == (4, 20)
    assert by_class.class_sums.shape == (6, 20)
    a, b = by_bit.solve(1.0, codes), by_class.solve(1.0, codes)
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-12)
    np.testing.assert_allclose(a.intercept, b.intercept, rtol=1e-12)


def solve_values(calibration, Z, y, weights, alpha):
    """Coefficients and intercepts in the features' own units, by `Sums` and `Normal`."""
    roots = calibration.roots(weights, len(Z))
    scaled = roots / calibration.root_scale
    Q = naive.store_scaled(Z, calibration.shift, 1 / calibration.step, scaled)
    if calibration.exact:
        Q = np.rint(Q).astype(calibration.dtype)
    gram = (ExactGram if calibration.exact else FloatGram)(Z.shape[1])
    sums = Sums(gram, ValueSums.zero(Z.shape[1], y.shape[1], calibration.exact))
    sums.add(Q, roots, calibration.targets(y, roots))
    targets = sums.targets
    normal = Normal(
        sums.gram.totals,
        targets.feature_totals,
        targets.total,
        *targets.moments(None, calibration.root_scale),
        calibration.step * np.sqrt(calibration.mean_weight or 1.0),
    )
    v, _ = normal.ridge(alpha)
    return v / calibration.step * calibration.target_step[:, np.newaxis], Q


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("kind", [Rounding, Centring])
def test_an_offset_of_a_million_deviations_costs_no_digits(kind, weighted, rng):
    """Beside Ridge on features and targets without the offset."""
    n, width = 2000, 30
    mixing = rng.normal(size=(width, width))
    plain = rng.normal(size=(n, width)) @ mixing
    plain -= plain.mean(axis=0)
    offset = 1e6 * plain.std(axis=0)
    Z = plain + offset
    y = plain[:, :2] @ rng.normal(size=(2, 2)) + rng.normal(size=(n, 2))
    weights = rng.uniform(0.5, 3, n) if weighted else None
    calibration = kind.learn(*naive.moments(Z), y, weights)
    coef, Q = solve_values(calibration, Z, y, weights, alpha=5.0)
    if kind is Rounding:  # what the whole numbers stand for, without the offset
        roots = calibration.roots(weights, n)
        plain = calibration.step * Q * (calibration.root_scale / roots)[:, np.newaxis]
        weights = (
            None
            if weights is None
            else (roots / calibration.root_scale) ** 2 * calibration.mean_weight
        )
    ridge = Ridge(alpha=5.0, solver="cholesky").fit(plain, y, weights)
    scale = np.linalg.norm(ridge.coef_, axis=1, keepdims=True)
    assert (np.abs(coef - ridge.coef_) < 1e-6 * scale).all()


def test_a_tiny_penalty_factors_where_rows_are_fewer_than_features():
    """700 digits in 2,048 features: exact sums are positive semidefinite to the last bit."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:700], y[:700]
    map_ = features(2048, degree=7)
    with computing(2):
        statistics = srf.accumulate(srf.ArraySource(X, y), map_, normalize="l2")
        alpha = 1e-10 * statistics.alpha_scale()
        model = statistics.solve(alpha)
    assert model.alpha == pytest.approx(alpha)
    assert model.evaluate(X, y)["error"] < 0.01  # next to no penalty: the rows are interpolated


@pytest.fixture(params=[None, 1000.0, 0.001], ids=["equal", "heavy", "light"])
def singular(request, rows):
    """Statistics of fewer rows than features; weights of any size must not change what works."""
    X, y, _, _ = rows
    weights = None if request.param is None else np.full(30, request.param)
    return accumulate(srf.ArraySource(X[:30], y[:30], weights), features(100), precision="float64")


@pytest.mark.parametrize("alpha", [0.0, 1e-30])
def test_a_penalty_too_small_is_refused_with_one_that_works(singular, alpha, caplog):
    with pytest.raises(SolveError, match=r"too small: .* of 100 features is singular") as caught:
        singular.solve(alpha)
    message = str(caught.value)
    assert message.startswith(f"alpha={alpha:.3g} is too small")
    assert "use that, a larger one, or alpha='auto'" in message
    safe = float(re.search(r"alpha=(\S+) factors", message)[1])
    assert safe < singular.alpha_scale()
    assert np.isfinite(singular.solve(safe).coef).all()
    assert not any("correct digit" in record.message for record in caplog.records)
    assert isinstance(caught.value, np.linalg.LinAlgError)


@pytest.mark.filterwarnings("ignore:the .* rows of X looked at before the pass are all equal")
def test_features_that_never_vary_are_refused_with_a_penalty_that_works():
    source = srf.ArraySource(np.ones((20, 3)), np.arange(20.0))
    statistics = accumulate(source, features(5), regression=True)
    with pytest.raises(SolveError) as caught:
        statistics.solve(0.0)
    safe = float(re.search(r"alpha=(\S+) factors", str(caught.value))[1])
    model = statistics.solve(safe)
    np.testing.assert_allclose(model.predict(np.ones((2, 3))), 9.5, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_no_penalty_is_least_squares(rows, weighted):
    X, _, values, weights = rows
    weights = weights if weighted else None
    source = srf.ArraySource(X, values, weights)
    cubic = srf.Polynomial(degree=3, coef0=0)  # without a constant, which is never of full rank
    map_ = srf.RandomMaclaurin(cubic, 12, projection="rademacher", random_state=0)
    statistics = accumulate(source, map_, regression=True)
    Z, targets, plain_weights = plain_problem(statistics, X, values, weights)
    rank = np.linalg.matrix_rank(Z - Z.mean(axis=0))
    assert rank == 12
    exact = LinearRegression().fit(Z, targets, plain_weights)
    assert_same_solution(statistics.solve(0), exact, rtol=1e-7)


def test_the_intercept_is_not_penalised(rows):
    X, _, values, weights = rows
    statistics = accumulate(srf.ArraySource(X, values, weights), features(20), regression=True)
    model = statistics.solve(1e30)
    _, targets, plain_weights = plain_problem(statistics, X, values, weights)
    mean = np.average(targets, axis=0, weights=plain_weights)
    np.testing.assert_allclose(model.predict(X), np.tile(mean, (N, 1)), rtol=1e-9)


def test_a_shift_of_the_targets_moves_the_intercept_alone(rows):
    X, _, values, _ = rows
    one, other = (
        accumulate(srf.ArraySource(X, values[:, 0] + c), features(20), regression=True).solve(0.1)
        for c in (0, 1024.0)
    )
    # targets are rounded to 2^-20 of their deviation
    np.testing.assert_allclose(other.coef, one.coef, atol=1e-6 * np.abs(one.coef).max())
    np.testing.assert_allclose(other.intercept, one.intercept + 1024.0, rtol=1e-6)


def test_weights_are_repetitions(rows):
    """A weight of k counts as k rows, up to the rounding of roots (2^-12) and features."""
    X, _, values, _ = rows
    times = np.arange(N) % 3
    weighted = accumulate(
        srf.ArraySource(X, values, times.astype(float)),
        features(20),
        regression=True,
        precision="float64",
    )
    repeated = accumulate(
        srf.ArraySource(X.repeat(times, axis=0), values.repeat(times, axis=0)),
        features(20),
        regression=True,
        precision="float64",
    )
    a, b = weighted.solve(0.3), repeated.solve(0.3)
    np.testing.assert_allclose(a.predict(X), b.predict(X), rtol=1e-8)


@pytest.mark.parametrize("alpha", [-1, -1e-300, np.nan, np.inf, "1", "best", True, None, [1.0]])
def test_an_alpha_that_is_no_penalty_is_refused(rows, alpha):
    X, y, _, _ = rows
    statistics = accumulate(srf.ArraySource(X, y), features(3))
    with pytest.raises(ParameterError, match=re.escape(f"at least 0, got {alpha!r}")):
        statistics.solve(alpha)


@pytest.mark.parametrize("alpha", [1, np.float32(1), np.int64(1)])
def test_any_number_is_a_penalty(rows, alpha):
    X, y, _, _ = rows
    statistics = accumulate(srf.ArraySource(X, y), features(3))
    np.testing.assert_array_equal(statistics.solve(alpha).coef, statistics.solve(1.0).coef)


def normal_of(Z, t, alpha_unit=1.0):
    """Normal equations of plain rows."""
    return Normal(
        packed(Z.T @ Z),
        Z.sum(axis=0),
        float(len(Z)),
        t.T @ Z,
        t.sum(axis=0),
        np.full(Z.shape[1], alpha_unit),
    )


@pytest.mark.parametrize("width", [1, 2, 3, 6, 7])
def test_the_centred_gram_is_that_of_centred_features(width, rng):
    Z = rng.normal(size=(30, width)) + 3
    normal = normal_of(Z, Z[:, :1])
    step = rng.uniform(0.1, 10, width)
    normal = Normal(**{**vars(normal), "step": step})
    centred = (Z - Z.mean(axis=0)) * step
    np.testing.assert_allclose(unpacked(normal.centred(), width), centred.T @ centred, atol=1e-9)
    assert normal.mean_diagonal() == pytest.approx((centred**2).sum() / width)


def test_solving_leaves_the_sums_alone(rng):
    normal = normal_of(rng.normal(size=(30, 4)), rng.normal(size=(30, 2)))
    before = {name: np.copy(value) for name, value in vars(normal).items()}
    normal.ridge(1.0)
    list(normal.path([1e-3, 1.0]))
    with pytest.raises(SolveError):
        normal_of(np.ones((3, 2)), np.ones((3, 1))).ridge(0)
    for name, value in vars(normal).items():
        np.testing.assert_array_equal(value, before[name])


def test_a_path_gives_what_single_solves_give_and_leaves_out_what_fails(rng):
    normal = normal_of(rng.normal(size=(3, 6)), rng.normal(size=(3, 2)))
    found = list(normal.path([0.0, 1e-3, 1.0]))
    assert [alpha for alpha, _, _ in found] == [1e-3, 1.0]
    for alpha, v, b in found:
        expected_v, expected_b = normal.ridge(alpha)
        np.testing.assert_array_equal(v, expected_v)
        np.testing.assert_array_equal(b, expected_b)


def test_the_penalty_goes_where_lapack_has_the_diagonal():
    for n in range(1, 9):
        matrix = np.arange(n * n, dtype=np.float64).reshape(n, n)
        vector = packed(matrix)
        add_diagonal(vector, np.arange(1.0, n + 1) * 1000)
        full, _ = lapack.dtfttr(n, vector, transr="N", uplo="L")
        expected = np.tril(matrix + np.diag(np.arange(1.0, n + 1) * 1000))
        np.testing.assert_array_equal(np.tril(full), expected)


@pytest.mark.parametrize("decode", ["discriminant", "euclidean"])
def test_models_of_many_classes_have_the_same_bits_on_any_number_of_threads(rng, decode):
    X, y = rng.normal(size=(3000, 5)), rng.integers(0, 40, 3000)
    map_ = srf.StructuredFourier(srf.Gaussian(0.3), 1300, random_state=0)
    statistics = srf.accumulate(srf.ArraySource(X, y), map_)
    found = []
    for n_threads in (1, 2):
        with computing(n_threads):
            model = statistics.solve(0.5, srf.OneVsRest(decode=decode))
        arrays = [model.coef, model.intercept, *model.book.decoder.to_tree().values()]
        found.append([np.asarray(array).tobytes() for array in arrays])
    assert found[0] == found[1]
