"""What holds of shift-invariant kernels and their Fourier features alone."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import kstest
from sklearn.base import clone
from sklearn.svm import SVC

from draws import errors_over_draws
from streamrf.errors import DataError, ParameterError
from streamrf.features import Craft, Fastfood, RandomFourier, StructuredFourier
from streamrf.kernels import Cauchy, Gaussian, Laplacian, Polynomial

pytestmark = pytest.mark.usefixtures("one_thread")

KINDS = [Gaussian, Laplacian, Cauchy]
MAPS = [RandomFourier, StructuredFourier, Fastfood]

every_kernel = pytest.mark.parametrize("kind", KINDS)
every_map = pytest.mark.parametrize("kind", MAPS)
every_rule = pytest.mark.parametrize("rule", ["scale", "median"])


def phases_of(features, X):
    """``<omega, x>`` of a fitted map without pairs, as long as they are within pi/2."""
    features.offsets_[:] = -np.pi / 2
    return np.arcsin(features.transform(X) * np.sqrt(features.n_components / 2))


def errors(features, X, n_draws):
    """Those of pairs of different rows: of a row with itself, pairs of waves have none."""
    return errors_over_draws(features, X, n_draws, diagonal=1)


# gamma


def test_scale_is_that_of_scikit_learn(rng):
    X = rng.standard_normal((50, 4)) * [1, 2, 3, 4] + 5
    svc = SVC(gamma="scale").fit(X, rng.integers(0, 2, 50))
    # The library's own attribute; its documentation defines it as 1 / (n_features * X.var()).
    assert Gaussian("scale").learn(X).gamma == pytest.approx(svc._gamma, rel=1e-12)
    assert Gaussian("scale").learn(X).gamma == pytest.approx(1 / (4 * X.var()), rel=1e-12)


def test_median_is_one_over_the_median_squared_distance(rng):
    X = rng.standard_normal((41, 3))
    expected = 1 / np.median(pdist(X) ** 2)
    assert Gaussian("median").learn(X).gamma == pytest.approx(expected, rel=1e-12)
    assert Cauchy("median").learn(X).gamma == pytest.approx(expected**0.5, rel=1e-12)
    expected = 1 / np.median(pdist(X, "cityblock"))
    assert Laplacian("median").learn(X).gamma == pytest.approx(expected, rel=1e-12)


def test_the_median_over_many_rows_is_that_of_some_always_the_same(rng):
    X = rng.standard_normal((3000, 3))
    gamma = Gaussian("median").learn(X).gamma
    assert gamma == Gaussian("median").learn(X).gamma
    assert gamma == pytest.approx(1 / np.median(pdist(X) ** 2), rel=0.1)  # 1000 of the 3000 rows


def test_the_median_looks_past_rows_that_are_equal():
    X = np.zeros((20, 2))
    X[:3] = [[1, 0], [0, 1], [1, 1]]
    # Of the pairs that differ, those with a zero row (17 each) have 1, 1 and 2.
    assert Gaussian("median").learn(X).gamma == 1


@every_kernel
@every_rule
def test_a_learnt_kernel_does_not_see_the_unit_of_the_rows(rng, kind, rule):
    X = rng.standard_normal((30, 6))
    K = kind(rule).learn(X)(X)
    np.testing.assert_allclose(kind(rule).learn(1000 * X)(1000 * X), K, rtol=1e-9)


@every_kernel
def test_rows_far_from_zero_have_the_same_kernel(rng, kind):
    X, Y = rng.standard_normal((2, 10, 4))
    np.testing.assert_allclose(kind(0.5)(X + 1e6, Y + 1e6), kind(0.5)(X, Y), rtol=1e-8)


def test_rows_without_spread(rng):
    X = np.full((5, 3), 7.0)
    assert Gaussian("scale").learn(X).gamma == 1  # as in scikit-learn
    with pytest.raises(
        DataError, match=r"the 5 sample rows are all equal in single precision, so gamma"
    ):
        Gaussian("median").learn(X)


@every_map
@every_rule
def test_a_map_learns_gamma_when_it_draws(rng, kind, rule):
    X = rng.standard_normal((30, 6)).astype(np.float32)
    features = kind(Gaussian(rule), 8, random_state=0).fit(X)
    assert features.kernel_.gamma == Gaussian(rule).learn(X).gamma
    assert features.kernel.gamma == rule
    fixed = kind(Gaussian(features.kernel_.gamma), 8, random_state=0).fit(X)
    np.testing.assert_array_equal(features.transform(X), fixed.transform(X))


@every_map
def test_gamma_as_a_number_needs_no_rows(rng, kind):
    features = kind(Gaussian(0.5), 8, random_state=0)
    features.draw_for(6, None)
    X = rng.standard_normal((30, 6))
    np.testing.assert_array_equal(features.transform(X), clone(features).fit(X).transform(X))


@every_map
def test_a_rule_for_gamma_without_rows_is_refused(kind):
    with pytest.raises(ParameterError, match=r"gamma='median' is learnt from rows, and none were"):
        kind(Gaussian("median"), 8).draw_for(6, None)


@every_map
@pytest.mark.parametrize("gamma", [0, -1.0, np.nan, np.inf, "auto", None])
def test_a_gamma_that_cannot_work_is_named(rng, kind, gamma):
    X = rng.standard_normal((5, 3))
    with pytest.raises(ParameterError, match=rf"gamma must be .*, got '?{gamma}"):
        kind(Gaussian(gamma), 8).fit(X)
    with pytest.raises(ParameterError, match=rf"gamma must be .*, got '?{gamma}"):
        Gaussian(gamma)(X)


@every_rule
def test_a_kernel_with_gamma_to_be_learnt_says_so(rng, rule):
    with pytest.raises(ParameterError, match=rf"gamma='{rule}' is learnt from rows: call learn"):
        Gaussian(rule)(rng.standard_normal((5, 3)))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (RandomFourier(Polynomial()), "must be a ShiftInvariantKernel kernel, got Polynomial"),
        (StructuredFourier(Laplacian()), "must be a Gaussian kernel, got Laplacian"),
        (Fastfood(Cauchy()), "must be a Gaussian kernel, got Cauchy"),
    ],
)
def test_a_kernel_that_a_map_does_not_approximate_is_refused(rng, features, message):
    with pytest.raises(ParameterError, match=message):
        features.fit(rng.standard_normal((5, 3)))


# Frequencies


@every_kernel
def test_the_mean_wave_of_the_spectrum_is_the_kernel(rng, kind):
    kernel = kind(gamma=0.7)
    X = rng.standard_normal((8, 3)) * np.geomspace(0.05, 3, 8)[:, np.newaxis]
    n = 100_000
    waves = np.cos(kernel.frequencies(rng, (n, 3)) @ X.T)
    deviation = waves.std(axis=0) / np.sqrt(n)
    error = waves.mean(axis=0) - kernel(X, np.zeros((1, 3)))[:, 0]
    assert (np.abs(error) < 4.5 * deviation).all()


@pytest.mark.parametrize(
    ("kind", "distribution"), [(Gaussian, "norm"), (Laplacian, "cauchy"), (Cauchy, "laplace")]
)
def test_spectra_are_those_of_the_kernels(rng, kind, distribution):
    scale = np.sqrt(2 * 0.3) if kind is Gaussian else 0.3
    draws = kind(gamma=0.3).frequencies(rng, (2000, 5)).ravel() / scale
    assert kstest(draws, distribution).pvalue > 1e-4


def test_each_frequency_of_fastfood_is_normal(rng):
    """One frequency of each block, at d below the padded width, where blocks are independent."""
    d, gamma, n_blocks = 6, 0.8, 4000
    features = Fastfood(Gaussian(gamma), 8 * n_blocks, paired=False, random_state=0)
    x = np.full((1, d), 0.05)
    phases = phases_of(features.fit(x), x)[0, ::8]
    assert kstest(phases / (np.sqrt(2 * gamma) * np.linalg.norm(x)), "norm").pvalue > 1e-4


def test_structured_frequencies_of_a_block_are_orthogonal(rng):
    features = StructuredFourier(Gaussian(0.5), 512, paired=False, random_state=0)
    x = 0.01 * rng.standard_normal((40, 256))
    phases = phases_of(features.fit(x), x)
    for block in (phases[:, :256], phases[:, 256:]):
        np.testing.assert_allclose(block @ block.T, 256 * x @ x.T, atol=1e-5)


# Variance


def test_variances_of_dense_features_are_those_of_theory(rng):
    """Sutherland and Schneider, section 2, where K(2 delta) = K^4 for the Gaussian."""
    X = rng.standard_normal((12, 5)) / 3
    K = Gaussian(0.5)(X)[np.triu_indices(12, 1)]
    for paired, expected in ((True, (1 - K**2) ** 2), (False, 1 + K**4 / 2 - K**2)):
        found = np.square(errors(RandomFourier(Gaussian(0.5), 64, paired=paired), X, 150))
        # 150 draws, whose pairs of rows share frequencies, know a mean square to about a tenth.
        assert found.mean() == pytest.approx(expected.mean() / 64, rel=0.3)


@every_map
def test_pairs_have_less_variance_than_offsets_for_the_gaussian(rng, kind):
    X = rng.standard_normal((12, 5)) / 3
    paired = np.square(errors(kind(Gaussian(0.5), 64), X, 100)).mean()
    single = np.square(errors(kind(Gaussian(0.5), 64, paired=False), X, 100)).mean()
    assert paired < 0.7 * single


def test_orthogonal_frequencies_have_less_variance_than_independent_ones(rng):
    X = rng.standard_normal((12, 16)) / 4
    structured = np.square(errors(StructuredFourier(Gaussian(0.5), 512), X, 60)).mean()
    dense = np.square(errors(RandomFourier(Gaussian(0.5), 512), X, 60)).mean()
    assert structured < 0.7 * dense


def test_the_bias_of_structured_frequencies_is_as_small_as_told(rng):
    """At 256 the bound is 0.003; rows of few entries are the worst case."""
    X = np.zeros((4, 3))
    X[1:, 0] = [1.0, 2.0, 3.0]
    features = StructuredFourier(Gaussian(0.5), 1 << 14, random_state=0)
    bias = errors(features, X, 60).mean(axis=0)
    assert np.abs(bias).max() < 0.7 / 256 + 4.5 * 0.7 / np.sqrt(60 * 2**13)


def test_the_square_of_paired_features_is_one(rng):
    X = rng.standard_normal((20, 5))
    for kind in MAPS:
        Z = kind(Gaussian(2.0), 64, random_state=0).fit_transform(X)
        np.testing.assert_allclose(np.square(Z, dtype=np.float64).sum(axis=1), 1, rtol=1e-5)


# Layout


@pytest.mark.parametrize("n_components", [1, 2, 5, 6])
@pytest.mark.parametrize("paired", [True, False])
def test_dense_features_are_those_of_the_definition(rng, n_components, paired):
    X = rng.standard_normal((20, 3))
    features = RandomFourier(Gaussian(0.5), n_components, paired=paired, random_state=0).fit(X)
    phases = X @ features.frequencies_.T.astype(np.float64)
    pairs = n_components // 2 if paired else 0
    assert phases.shape[1] == n_components - pairs
    assert (features.offsets_[:pairs] == 0).all()
    assert (features.offsets_[pairs:] > 0).all()
    cosines = np.cos(phases + features.offsets_)
    expected = np.sqrt(2 / n_components) * np.hstack((cosines, np.sin(phases[:, :pairs])))
    np.testing.assert_allclose(features.transform(X), expected, atol=1e-5)


# Large rows


@every_map
def test_an_offset_common_to_all_rows_costs_only_digits(rng, kind):
    X = rng.standard_normal((10, 8)) / 3
    features = kind(Gaussian(0.5), 512, random_state=0).fit(X)
    near, far = (Z.astype(np.float64) for Z in map(features.transform, (X, X + 100)))
    # Phases of about 100 sqrt(8) = 300, and rows at 100, are known to 2e-5 each.
    np.testing.assert_allclose(far @ far.T, near @ near.T, atol=1e-3)


@every_map
def test_waves_of_huge_rows_are_bounded(rng, kind):
    X = rng.standard_normal((10, 8)) * 10.0 ** np.arange(10, 30, 2)[:, np.newaxis]
    for paired in (True, False):
        features = kind(Gaussian(0.5), 64, paired=paired, random_state=0).fit(X[:1])
        assert np.abs(features.transform(X)).max() <= np.float32(np.sqrt(2 / 64))


# In other maps


def test_compact_fourier_features_approximate_the_gaussian(rng):
    X = rng.standard_normal((12, 5)) / 2
    found = errors(Craft(RandomFourier(Gaussian("scale"), 4096), 512), X, 20)
    assert np.sqrt(np.square(found).mean()) < 1.5 / np.sqrt(512)  # K <= 1: two parts below 1 each


def test_only_dense_offset_features_are_independent(rng):
    for kind in MAPS:
        for paired in (True, False):
            independent = kind is RandomFourier and not paired
            assert kind(paired=paired).independent == independent
