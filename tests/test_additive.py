"""Maps of additive kernels: scikit-learn's sampler, steps, errors; the compiled twin."""

import h5py
import numpy as np
import pytest
from sklearn.kernel_approximation import AdditiveChi2Sampler, SkewedChi2Sampler

import naive
import streamrf as srf
from cases import nonnegative
from streamrf.errors import BadRowError, ParameterError
from streamrf.features import (
    AdditiveFourier,
    AdditiveSampler,
    Concatenate,
    Craft,
    RandomFourier,
    SkewedFourier,
)
from streamrf.jit import additive
from streamrf.kernels import Chi2, ExpChi2, Hellinger, Intersection, JensenShannon, SkewedChi2

SAMPLED = (Chi2(), Intersection(), JensenShannon())


@pytest.fixture
def rows(rng):
    return nonnegative(rng.standard_normal((60, 7)))


@pytest.mark.parametrize("n", [1, 33])
@pytest.mark.parametrize("n_steps", [1, 2, 5])
def test_the_compiled_map_is_that_of_its_twin(rng, n, n_steps):
    X = nonnegative(rng.standard_normal((n, 4))).astype(np.float32)
    amplitudes = rng.uniform(0.1, 1, n_steps)
    out = np.full((-(-n // 16), (2 * n_steps - 1) * 4 + 2, 16), np.nan, dtype=np.float32)
    additive.homogeneous(naive.lanes(X), amplitudes, 0.3, out)
    expected = naive.homogeneous(X, amplitudes, 0.3)
    np.testing.assert_allclose(naive.rows(out, n)[:, :-2], expected, rtol=1e-6, atol=1e-7)
    assert np.isnan(out[:, -2:]).all()


@pytest.mark.parametrize(("steps", "interval"), [(1, 0.8), (2, 0.5), (3, 0.4), (6, 0.2)])
def test_the_sampler_of_chi2_is_that_of_scikit_learn(rows, steps, interval):
    theirs = AdditiveChi2Sampler(sample_steps=steps, sample_interval=interval).fit_transform(rows)
    ours = AdditiveSampler(Chi2(), steps, interval).fit_transform(rows)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", SAMPLED, ids=repr)
def test_the_error_falls_with_the_steps(rows, kernel):
    errors = []
    for steps in (1, 2, 4, 8, 16):
        Z = AdditiveSampler(kernel, steps).fit_transform(rows).astype(np.float64)
        assert Z.shape[1] == (2 * steps - 1) * 7
        errors.append(np.sqrt(np.mean((Z @ Z.T - kernel(rows)) ** 2)))
    assert (np.diff(errors) < 0).all()
    # an exponential spectrum ends at once, that of the intersection as 1/steps
    assert errors[-1] < errors[0] * (0.2 if isinstance(kernel, Intersection) else 1e-3)


@pytest.mark.parametrize("kernel", SAMPLED, ids=repr)
def test_the_spectrum_is_the_fourier_transform_of_the_kernel(kernel):
    frequencies = np.arange(-4000, 4001) * 0.02
    for ratio in (0.02, 0.3, 1.0):
        waves = kernel.spectrum(frequencies) * np.cos(frequencies * np.log(ratio))
        exact = kernel.function(np.array(ratio), np.array(1.0)) / np.sqrt(ratio)
        assert abs(waves.sum() * 0.02 - exact) < 5e-3


def test_the_map_of_hellinger_is_exact_at_any_steps(rows):
    for steps in (1, 3):
        Z = AdditiveSampler(Hellinger(), steps).fit_transform(rows)
        np.testing.assert_allclose(Z, np.sqrt(rows), rtol=1e-6)


def test_the_width_is_known_before_the_fit(rows):
    sampler = AdditiveSampler(sample_steps=4)
    both = Concatenate([sampler, RandomFourier(n_components=6)])
    assert sampler.width_for(7) == 49
    assert both.width_for(7) == 55
    assert both.fit(rows).n_components == 55
    assert sampler.fit(rows).n_components == 49
    assert not hasattr(AdditiveSampler(), "n_components")
    assert Craft(sampler, 8).fit_transform(rows).shape == (60, 8)


@pytest.mark.parametrize("kernel", [*SAMPLED, Hellinger()], ids=repr)
def test_a_negative_entry_is_one_error_with_the_cure(rows, kernel):
    wrong = rows.copy()
    wrong[3, 2] = -0.25
    fitted = AdditiveSampler(kernel).fit(rows)
    for use in (kernel, kernel.diagonal, lambda X: kernel(rows, X), fitted.transform):
        with pytest.raises(BadRowError, match=r"-0\.25, but .* no negative ones: use"):
            use(wrong)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (AdditiveSampler(sample_steps=0), r"sample_steps must be an integer of 1 to 1000, got 0"),
        (AdditiveSampler(sample_steps=1.5), r"sample_steps must be an integer .* got 1\.5"),
        (AdditiveSampler(sample_interval=-1), r"sample_interval must be positive or None, got -1"),
        (AdditiveSampler(ExpChi2()), r"kernel must be a AdditiveKernel kernel, got ExpChi2"),
        (AdditiveFourier(ExpChi2(0)), r"gamma must be a positive number, or 'median' .* got 0"),
        (AdditiveFourier(sample_steps=0), r"sample_steps must be an integer of 1 to 1000, got 0"),
    ],
)
def test_a_setting_that_cannot_work_is_named(rows, features, message):
    with pytest.raises(ParameterError, match=message):
        features.fit(rows)


def test_shifted_logarithms_equal_their_twin(rows):
    X = rows.astype(np.float32)
    out = np.empty_like(naive.lanes(X))
    additive.shifted_log(naive.lanes(X), 0.7, out)
    found = naive.rows(out, len(X))
    np.testing.assert_allclose(found, naive.shifted_log(X, 0.7), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("skewedness", [0, -1.0, np.nan, True, "1"])
def test_a_skewedness_that_cannot_be_is_named(rows, skewedness):
    with pytest.raises(ParameterError, match="skewedness must be a positive number"):
        SkewedFourier(SkewedChi2(skewedness), 8).fit(rows)


def test_skewed_features_are_nearer_the_kernel_the_more_they_are(rows):
    """As near as those of scikit-learn's sampler of the same width."""
    K = SkewedChi2(0.5)(rows)
    errors = []
    for width in (200, 20_000):
        Z = SkewedFourier(SkewedChi2(0.5), width, random_state=0).fit_transform(rows)
        errors.append(np.sqrt(np.mean((Z @ Z.T - K) ** 2)))
    theirs = SkewedChi2Sampler(skewedness=0.5, n_components=200, random_state=0).fit_transform(rows)
    assert errors[1] < errors[0] / 5
    assert errors[0] < 2 * np.sqrt(np.mean((theirs @ theirs.T - K) ** 2))


def test_the_median_gamma_is_of_the_distances(rows):
    gamma = ExpChi2("median").learn(rows).checked_gamma
    K = ExpChi2(1.0)(rows)[np.triu_indices(60, 1)]
    assert gamma == pytest.approx(-1 / np.median(np.log(K)))


def test_spambase_is_learnt_by_one_deterministic_map(data_dir):
    """171 features of chi2; 500 Maclaurin features of an exponential kernel have 90.5 % right."""
    with h5py.File(data_dir / "spambase.h5") as file:
        X, y = file["X"][:], file["y"][:]
    train, test = np.split(np.random.default_rng(0).permutation(len(X)), [3 * len(X) // 4])
    clf = srf.RandomFeatureClassifier(AdditiveSampler(Chi2()), random_state=0)
    assert clf.fit(X[train], y[train]).score(X[test], y[test]) > 0.93
    assert clf.features_.n_components == 171
