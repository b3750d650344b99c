"""Maps of dot-product kernels: series, domains, degrees, and what each sketch promises alone."""

import itertools
import math

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.preprocessing import normalize

from draws import errors_over_draws
from streamrf.errors import BadRowError, DataError, ParameterError
from streamrf.features import (
    Craft,
    RandomFourier,
    RandomMaclaurin,
    TensorSketch,
    TreeSketch,
    degrees,
)
from streamrf.jit.threads import computing
from streamrf.kernels import (
    ArcCosine,
    Composed,
    DotProduct,
    Exponential,
    Gaussian,
    Polynomial,
    VovkInfinite,
    VovkReal,
)


def images(rng, n_rows, n_features=196, n_classes=10):
    """Unit rows like those of MNIST: not negative, a fifth not zero, products of 0.1 to 0.9."""
    strokes = rng.random((n_classes, n_features)) * (rng.random((n_classes, n_features)) < 0.2)
    rows = strokes[rng.integers(n_classes, size=n_rows)]
    noise = rng.random(rows.shape) * (rng.random(rows.shape) < 0.1)
    return normalize(0.1 + rows + noise)


def relative_error(features, X, n_draws=5):
    """Root mean square error over pairs of rows, relative to that of the kernel."""
    errors = errors_over_draws(features, X, n_draws)
    K = features.kernel(X)[np.triu_indices(len(X))]
    return np.sqrt(np.square(errors).mean() / np.square(K).mean())


# Series and their ends.


@pytest.mark.parametrize(
    ("kernel", "coefficient"),
    [
        (Exponential(sigma=1.5), lambda n: 1.5 ** (-2 * n) / math.factorial(n)),
        (VovkInfinite(gamma=0.7), lambda n: 0.7**n),
        (VovkReal(degree=40, gamma=0.7), lambda n: 0.7**n),
        (ArcCosine(order=0), lambda n: _arc_sine(n) / np.pi + (n == 0) / 2),
    ],
    ids=["exponential", "vovk-infinite", "vovk-real", "arc-cosine"],
)
def test_coefficients_are_those_of_the_definition(kernel, coefficient):
    expected = [coefficient(n) for n in range(30)]
    np.testing.assert_allclose(kernel.series(30), expected, rtol=1e-12)


def _arc_sine(n):
    """The Maclaurin coefficients of the arc sine."""
    k = n // 2
    return n % 2 * math.comb(2 * k, k) / (4**k * n) if n else 0.0


def test_the_rectifier_series_integrates_that_of_the_step():
    """``J_1' = J_0``, both over pi."""
    steps = ArcCosine(order=0).series(40)
    rectifier = ArcCosine(order=1).series(41)
    np.testing.assert_allclose(rectifier[1:] * np.arange(1, 41), steps, rtol=1e-12)
    assert rectifier[0] == pytest.approx(1 / np.pi)


@pytest.mark.parametrize("tolerance", [0.1, 1e-3, 1e-9])
@pytest.mark.parametrize("bound", [0.2, 1.0, 1.3])
def test_an_infinite_series_ends_where_its_tail_is_small_and_no_earlier(bound, tolerance):
    ratio = 0.7 * bound  # the tail from n on, over the whole: ratio^n
    n = len(VovkInfinite(gamma=0.7).maclaurin(bound, tolerance))
    assert ratio**n <= tolerance * (1 + 1e-6) < ratio ** (n - 1)


@pytest.mark.parametrize(
    "kernel", [Polynomial(degree=9), VovkReal(degree=10), DotProduct([1e-9] * 10)]
)
def test_a_finite_series_is_never_cut(kernel):
    assert len(kernel.maclaurin(0.01, 0.5)) == 10


@pytest.mark.parametrize(
    ("kernel", "bound"),
    [(ArcCosine(order=0), 1.0), (VovkInfinite(), 0.99999), (Exponential(sigma=0.01), 1.0)],
    ids=repr,
)
def test_a_series_that_does_not_end_says_what_to_do(kernel, bound):
    with pytest.raises(ParameterError, match=r"1000 terms .* raise the tolerance, got 0\.0001"):
        kernel.maclaurin(bound)


@pytest.mark.parametrize(
    "coefficients", [[], [0.0, 0.0], [1.0, -1.0], [np.nan], [[1.0]], "ab", [None, {}]]
)
def test_coefficients_without_a_kernel_are_refused(coefficients):
    with pytest.raises(ParameterError, match="coefficients must be"):
        DotProduct(coefficients).maclaurin()


# What is learnt from rows.


def test_sigma_is_the_mean_distance_of_the_sample(rng):
    X = rng.standard_normal((200, 7))
    features = RandomMaclaurin(Exponential("mean_distance"), 64, random_state=0).fit(X)
    assert features.kernel_.sigma == pytest.approx(pdist(X).mean(), rel=1e-6)
    assert features.kernel.sigma == "mean_distance"
    many = rng.standard_normal((30_000, 7))
    assert Exponential("mean_distance").learn(many).sigma == pytest.approx(
        pdist(many[:3000]).mean(), rel=0.02
    )


def test_sigma_without_rows_to_learn_from_is_refused(rng):
    X = rng.standard_normal((5, 3))
    with pytest.raises(ParameterError, match=r"call learn\(X\) first"):
        Exponential("mean_distance")(X)
    with pytest.raises(ParameterError, match="learnt from rows, and none were given"):
        RandomMaclaurin(Exponential("mean_distance")).draw_for(3, None)
    with pytest.raises(DataError, match="the mean distance of the 5 sample rows is 0"):
        Exponential("mean_distance").learn(np.ones((5, 3)))
    with pytest.raises(
        ParameterError, match="sigma must be positive or 'mean_distance', got 'median'"
    ):
        Exponential("median").learn(X)


# Domains.


@pytest.mark.parametrize("kernel", [VovkInfinite(gamma=2.0), VovkInfinite(gamma=0.5), ArcCosine()])
def test_a_row_outside_the_domain_names_a_scale_that_fits(rng, kernel):
    X = normalize(rng.standard_normal((20, 6)))
    long = 3 * X
    features = RandomMaclaurin(kernel, 64, random_state=0).fit(0.6 * X)
    for use in (kernel, kernel.diagonal, features.fit, features.transform):
        with pytest.raises(BadRowError, match=r"a row x has <x, x> = 9, but .* scale rows by") as e:
            use(long)
        scale = float(str(e.value).split("scale rows by ")[1].split()[0])
        assert 0.95 < scale * 3 / np.sqrt(kernel.radius) < 1
        use(scale * long)
        features.fit(0.6 * X)
        assert ("normalize='l2'" in str(e.value)) == (kernel.radius > 1 or kernel.closed)


def test_rows_of_unit_length_lie_in_a_closed_domain_despite_rounding(rng):
    X = normalize(rng.standard_normal((500, 300)).astype(np.float32))
    assert np.square(X, dtype=np.float64).sum(axis=1).max() > 1
    RandomMaclaurin(ArcCosine(), 64, tolerance=0.01, random_state=0).fit(X).transform(X)


def test_the_domain_of_a_composed_map_is_that_of_the_inner_kernel(rng):
    X = normalize(rng.standard_normal((20, 4)))
    inner = RandomMaclaurin(Polynomial(degree=2, coef0=0), projection="rademacher")
    features = RandomMaclaurin(VovkInfinite(gamma=0.5), 64, inner=inner, random_state=0).fit(X)
    features.transform(1.15 * X)  # (1.15^2)^2 = 1.75
    for use in (features.transform, features.fit, features.kernel_):
        message = r"K\(x, x\) by Polynomial.* = 2\.07.* takes values below 2: set gamma to 0\.47"
        with pytest.raises(BadRowError, match=message):
            use(1.2 * X)
    smaller = RandomMaclaurin(VovkInfinite(gamma=0.473), 64, inner=inner, random_state=0)
    smaller.fit_transform(1.2 * X)  # the advice, followed


# Degrees.


def spread_of(counts, weights):
    return sum(w / c for w, c in zip(weights, counts, strict=True))


@pytest.mark.parametrize("total", [4, 5, 9, 16])
def test_optimized_counts_are_the_best_of_all(rng, total):
    for _ in range(20):
        series = rng.random(4) + 1e-3
        variances = rng.random(4) ** 4 * (rng.random(4) < 0.8)
        found, factors = degrees.optimized(series, series, variances, total)
        counts = np.bincount(found, minlength=4)
        assert len(found) == total
        assert counts.min() >= 1
        np.testing.assert_allclose(factors, np.sqrt(series / counts)[found])
        weights = series**2 * variances
        best = min(
            spread_of(c, weights)
            for c in itertools.product(range(1, total), repeat=4)
            if sum(c) == total
        )
        assert spread_of(counts, weights) == pytest.approx(best)


def test_optimized_counts_follow_the_closed_form_and_no_seed(rng):
    series, variances = rng.random(6), rng.random(6)
    found, _ = degrees.optimized(series, series, variances, 100_000)
    roots = series * np.sqrt(variances)
    np.testing.assert_allclose(np.bincount(found), 100_000 * roots / roots.sum(), atol=2)
    X = images(rng, 50)
    maps = [RandomMaclaurin(measure="optimized", random_state=seed).fit(X) for seed in (0, 1)]
    np.testing.assert_array_equal(maps[0].degrees_, maps[1].degrees_)
    assert (maps[0].signs_ != maps[1].signs_).any()


@pytest.mark.parametrize(("signs", "units"), [("real", (1, -1)), ("complex", (1, -1, 1j, -1j))])
def test_variances_are_those_over_all_signs(rng, signs, units):
    X = rng.standard_normal((4, 3))
    W = np.array(list(itertools.product(units, repeat=3)))
    expected = np.zeros(4)
    for x, y in itertools.permutations(X, 2):
        single = (W @ x) * (W @ y).conj()
        estimates = np.ones(1)
        for n in range(1, 4):
            estimates = np.multiply.outer(estimates, single).ravel()
            expected[n] += np.var(estimates.real)
    found = degrees.product_variances(X, 4, signs)
    np.testing.assert_allclose(found, expected / 12, rtol=1e-9, atol=1e-12)


def test_variances_have_the_same_bits_for_any_threads(rng):
    X = rng.standard_normal((300, 40)).astype(np.float32)
    with computing(1):
        expected = degrees.product_variances(X, 6, "real")
    with computing(2):
        assert degrees.product_variances(X, 6, "real").tobytes() == expected.tobytes()


def test_too_few_components_for_the_degrees_are_refused(rng):
    features = RandomMaclaurin(Polynomial(degree=9), 9, measure="optimized")
    with pytest.raises(ParameterError, match="10 degrees need more than 9 random features"):
        features.fit(images(rng, 20))
    with pytest.raises(ParameterError, match="learns from rows, and none were given"):
        features.set_params(n_components=10).draw_for(196, None)


def test_proportional_degrees_follow_the_series_on_the_sample(rng):
    X = 2 * normalize(rng.standard_normal((10, 5)))  # <x, x> = 4
    features = RandomMaclaurin(DotProduct([0, 4, 1]), 20_000, measure="proportional").fit(X)
    share = (features.degrees_ == 2).mean()
    assert share == pytest.approx(0.5, abs=0.02)  # 4 * 4^1 = 1 * 4^2


def test_optimized_degrees_beat_geometric_ones(rng):
    X = images(rng, 300)
    geometric, optimized = (
        relative_error(RandomMaclaurin(Polynomial(degree=7), 1024, measure=measure), X)
        for measure in ("geometric", "optimized")
    )
    assert geometric > 1.3 * optimized  # 2.2 on MNIST


# Complex signs.


def test_complex_signs_leave_less_variance_at_high_degree(rng):
    X = images(rng, 200)
    kernel = Polynomial(degree=7, coef0=0.0)
    real, complex_ = (
        relative_error(RandomMaclaurin(kernel, 1024, projection=projection), X, 8)
        for projection in ("hadamard", "complex")
    )
    # Independent signs at <x, y> = t: ((1 + 2t^2)^7 / (1 + t^2)^7)^(1/2) = 1.6 at t = 0.42.
    assert real > 1.2 * complex_


# Trees.


@pytest.mark.parametrize("coef0", [0.0, 1.5])
@pytest.mark.parametrize(
    ("degree", "n_components"), [(2, 64), (2, 256), (2, 192), (3, 512), (3, 1024), (4, 4096)]
)
def test_a_tree_that_keeps_all_pairs_is_exact(rng, degree, n_components, coef0):
    X = rng.standard_normal((20, 8 - (coef0 > 0)))
    kernel = Polynomial(degree, gamma=0.3, coef0=coef0)
    Z = TreeSketch(kernel, n_components, random_state=0).fit_transform(X)
    K = kernel(X)
    np.testing.assert_allclose(Z @ Z.T, K, rtol=1e-4, atol=1e-5 * K.max())


def test_a_tree_errs_less_than_one_product_of_all_factors(rng):
    X = images(rng, 200)
    kernel = Polynomial(degree=7)
    tree = relative_error(TreeSketch(kernel, 1024), X)
    assert relative_error(RandomMaclaurin(kernel, 1024), X) > 1.5 * tree
    assert relative_error(TensorSketch(kernel, 1024), X) > 1.3 * tree


@pytest.mark.parametrize("n_components", [5, 64, 100])
@pytest.mark.parametrize("degree", [2, 3, 7, 8])
def test_the_pairs_of_a_node_are_distinct_and_even(rng, degree, n_components):
    features = TreeSketch(Polynomial(degree), n_components, random_state=0)
    features.fit(rng.standard_normal((3, 13)))  # 14 entries, padded to 16
    assert len(features.steps_) == degree - 1
    picks = features.picks_
    for left, right, a, b, _, count in features.steps_:
        pairs, picks = picks[:count], picks[count:]
        assert len(np.unique(pairs, axis=0)) == count
        for entries, length, child in zip(pairs.T, (a, b), (left, right), strict=True):
            assert length == 14 if child == -1 else length <= 128
            padded = 1 << (int(length) - 1).bit_length()
            shares = np.bincount(entries, minlength=padded)
            assert len(shares) == padded
        assert np.ptp(np.bincount(pairs[:, 0], minlength=1 << (int(a) - 1).bit_length())) <= 1


def test_a_tree_of_one_leaf_is_refused(rng):
    with pytest.raises(ParameterError, match="TreeSketch is for degrees of 2 and more"):
        TreeSketch(Polynomial(degree=1)).fit(rng.standard_normal((3, 4)))


# Tensor sketches.


@pytest.mark.parametrize("coef0", [0, 1.5])
@pytest.mark.parametrize(("degree", "n_components"), [(1, 16), (2, 7), (3, 64), (7, 100)])
def test_a_tensor_sketch_is_that_of_scikit_learn(rng, degree, n_components, coef0):
    X = rng.standard_normal((40, 12)) * (rng.random((40, 12)) < 0.4)
    kernel = Polynomial(degree, gamma=0.5, coef0=coef0)
    features = TensorSketch(kernel, n_components, random_state=0).fit(X)
    other = PolynomialCountSketch(
        degree=degree, gamma=0.5, coef0=coef0, n_components=n_components, random_state=0
    ).fit(X)
    width = other.indexHash_.shape[1]  # without the constant where it is 0
    other.indexHash_ = features.buckets_[:, :width]
    other.bitHash_ = features.signs_[:, :width]
    expected = other.transform(X)
    np.testing.assert_allclose(
        features.transform(X), expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max()
    )


@pytest.mark.parametrize("kind", [TensorSketch, TreeSketch])
def test_sketches_of_polynomials_refuse_other_kernels(rng, kind):
    with pytest.raises(
        ParameterError, match=r"kernel must be a Polynomial kernel, got Exponential"
    ):
        kind(Exponential()).fit(rng.standard_normal((3, 4)))


# Compositions.


def test_a_composed_kernel_is_the_function_of_the_inner_one(rng):
    X = rng.standard_normal((10, 3))
    features = RandomMaclaurin(Polynomial(2), inner=RandomFourier(Gaussian(0.3), paired=False))
    features.fit(X)
    assert isinstance(features.kernel_, Composed)
    np.testing.assert_allclose(features.kernel_(X), (Gaussian(0.3)(X) + 1) ** 2)
    assert features.inner_.n_components == features.degrees_.sum()


@pytest.mark.parametrize(
    "inner",
    [
        RandomMaclaurin(),
        RandomMaclaurin(projection="complex"),
        RandomMaclaurin(projection="rademacher", h01=True),
        RandomMaclaurin(projection="rademacher", measure="optimized"),
        RandomMaclaurin(inner=RandomFourier()),
        RandomFourier(),
        TensorSketch(),
        TreeSketch(),
        Craft(RandomFourier(paired=False)),
        Gaussian(),
    ],
    ids=repr,
)
def test_an_inner_map_of_dependent_components_is_refused(rng, inner):
    with pytest.raises(ParameterError, match=r"inner must be .* independent components.* got"):
        RandomMaclaurin(Polynomial(2), inner=inner).fit(rng.standard_normal((3, 4)))


@pytest.mark.parametrize(
    "settings", [{"h01": True}, {"measure": "optimized"}, {"projection": "complex"}]
)
def test_what_needs_more_of_an_inner_map_is_refused(rng, settings):
    inner = RandomFourier(paired=False)
    with pytest.raises(ParameterError, match="inner goes with neither h01=True"):
        RandomMaclaurin(Polynomial(2), inner=inner, **settings).fit(rng.standard_normal((3, 4)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"measure": "uniform"}, r"measure must be one of .* got 'uniform'"),
        ({"tolerance": 0.0}, r"tolerance must lie between 0 and 1, got 0\.0"),
        ({"kernel": Gaussian()}, r"kernel must be a DotProductKernel kernel, got Gaussian\(\)"),
    ],
)
def test_a_setting_that_cannot_work_is_named(rng, settings, message):
    with pytest.raises(ParameterError, match=message):
        RandomMaclaurin(**settings).fit(rng.standard_normal((4, 3)))
