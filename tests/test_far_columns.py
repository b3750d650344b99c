"""Columns that vary by little next to what they are, in single precision."""

import warnings

import numpy as np
import pytest

import streamrf as srf

OFFSET = np.array([0.0, 1e7, 0.0])


@pytest.fixture
def X(rng):
    return rng.normal(size=(300, 3))


def fits(normalize):
    kernel = srf.Gaussian(0.25)
    map_ = srf.RandomFourier(kernel, 32, random_state=0)
    yield srf.RandomFeatureRegressor(map_, alpha=1.0, normalize=normalize, random_state=0)
    yield srf.KernelRidgeRegressor(kernel, alpha=1.0, normalize=normalize)
    yield srf.RandomFeatureKMeans(2, map_, normalize=normalize, max_passes=2, random_state=0)


@pytest.mark.parametrize("normalize", [None, "l2"])
def test_columns_far_from_0_are_told(X, normalize):
    for estimator in fits(normalize):
        with pytest.warns(srf.errors.StreamrfWarning, match=r"column 1 of X: .*1e\+07.*standard"):
            estimator.fit(X + OFFSET, X[:, 0])


@pytest.mark.parametrize(("offset", "normalize"), [(1.0, "standard"), (1e-4, None), (0.0, None)])
def test_columns_that_are_scaled_or_near_are_not(X, offset, normalize):
    for estimator in fits(normalize):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            estimator.fit(X + offset * OFFSET, X[:, 0])


@pytest.mark.parametrize("normalize", ["standard", "asinh"])
def test_large_integers_that_are_not_scaled_are_told(X, normalize):
    keys = 256 * np.round(4 * X).astype(np.int64)  # floats hold them
    keys[:, 2] += 2**60
    for estimator in fits(normalize):
        match = r"column 2 of X: the values vary by .* around 1.15292e\+18, so little that"
        with pytest.warns(srf.errors.StreamrfWarning, match=match):
            estimator.fit(keys, X[:, 0])


@pytest.mark.parametrize("value", [1e7, 0.1, -273.15])
def test_a_constant_column_is_not_far(X, value):
    X[:, 1] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        next(fits(None)).fit(X, X[:, 0])


def test_a_column_that_varies_by_rounding_alone_is_constant(X):
    X[:, 1] = 0.3 * (1 + 2e-16 * np.sign(X[:, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = next(fits("standard")).fit(X, X[:, 0]).predict(X)
        X[:, 1] = 0.3
        np.testing.assert_allclose(found, next(fits("standard")).fit(X, X[:, 0]).predict(X))


@pytest.mark.parametrize("size", [1e-200, 1e-300])
def test_tiny_columns_are_no_constants(X, size):
    model = srf.RandomFeatureRegressor(random_state=0).fit(X * size, X[:, 0])
    assert model.score(X * size, X[:, 0]) > 0.9


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_that_floats_round_are_told(X, dtype):
    keys = np.round(100 * np.abs(X)).astype(dtype)
    fit = next(fits("standard")).fit
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(keys + dtype(2**52), X[:, 0])  # all of them are floats
    keys[:, 2] += dtype(2**60)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(keys, X[:, 0])
    assert any("integers such as 11529215" in str(one.message) for one in caught)
