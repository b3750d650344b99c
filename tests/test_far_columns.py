"""Columns that vary by little next to what they are, in single precision."""

import re
import warnings

import numpy as np
import pytest

import streamrf as srf
from streamrf.errors import StreamrfWarning

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


@pytest.mark.parametrize("size", [0.3, -7e5])
def test_floats_that_are_not_scaled_are_told(X, size):
    X[:, 1] = size * (1 + 2e-13 * X[:, 1])
    for estimator in fits("standard"):
        with pytest.warns(srf.errors.StreamrfWarning, match="column 1 of X: .* so little that"):
            estimator.fit(X, X[:, 0])


@pytest.mark.parametrize("value", [1e5, 0.1, -273.15])
def test_a_constant_column_is_seldom_far(X, value):
    X[:, 1] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        next(fits(None)).fit(X, X[:, 0])


@pytest.mark.parametrize("value", [1.7e9, -1e7])
@pytest.mark.parametrize("normalize", [None, "l2"])
def test_a_constant_next_to_which_the_other_columns_are_lost_is_told(X, value, normalize):
    """A time of 1.7e9 in all rows made labels a guess, without a word."""
    X[:, 1] = value
    for estimator in fits(normalize):
        told = re.escape(f"column 1 of X: the value is {value:g}") + " .* vary by 1.* out"
        with pytest.warns(srf.errors.StreamrfWarning, match=told):
            estimator.fit(X, X[:, 0])


@pytest.mark.parametrize("value", [1e21, -1e30, 9.96921e36, 0.1])
def test_a_constant_column_is_moved_to_0_whatever_its_size(X, value):
    """The mean of equal values is rounded, and the rest of 1e22 is millions."""
    X[:, 1] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = next(fits("standard")).fit(X, X[:, 0]).predict(X)
        X[:, 1] = 0.0
        np.testing.assert_array_equal(found, next(fits("standard")).fit(X, X[:, 0]).predict(X))


def ones(X):
    return np.ones((len(X), 64), dtype=np.float32)


@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_features_that_do_not_vary_are_told(X, precision):
    source, map_ = srf.ArraySource(X, X[:, 0]), srf.CallableMap(ones, 64)
    with pytest.warns(srf.errors.StreamrfWarning, match="no feature varies .* another gamma"):
        srf.accumulate(source, map_, precision=precision)


def test_a_gamma_so_small_that_the_model_is_linear_is_noted(rng):
    X = rng.normal(size=(2000, 3))
    map_ = srf.StructuredFourier(srf.Gaussian(1e-20), 64, random_state=0)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = srf.RandomFeatureClassifier(map_, random_state=0).fit(X, y).model_
    assert "the model guesses" in " ".join(model.notes)


def test_features_that_vary_next_to_themselves_are_not_told(X):
    map_ = srf.RandomFourier(srf.Gaussian(1e-20), 64, random_state=0)  # sines, though of 1e-10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = srf.RandomFeatureRegressor(map_, random_state=0).fit(X, X[:, 0])
    assert model.score(X, X[:, 0]) > 0.99


@pytest.mark.parametrize("value", [0.0, 1.0, 7.5])
def test_rows_that_are_all_equal_are_told(X, value):
    for estimator in fits(None):
        if not isinstance(estimator, srf.KernelRidgeRegressor):
            with pytest.warns(srf.errors.StreamrfWarning, match="the 300 rows of X .* all equal"):
                estimator.fit(np.full((300, 3), value), X[:, 0])


def test_some_features_that_do_not_vary_are_not_told(X):
    X[:, 1:] = 7.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        srf.accumulate(srf.ArraySource(X, X[:, 0]), srf.Identity())


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


@pytest.mark.parametrize("normalize", [None, "l2", "max"])
def test_columns_so_small_that_nothing_is_left_of_them_are_told(X, normalize):
    fit = next(fits(normalize)).fit
    match = r"columns 0, 1, 2.* of X: the values, at most \d.\d+e-300, are so small that they or"
    with pytest.warns(srf.StreamrfWarning, match=match):
        fit(1e-300 * X, X[:, 0])


def test_small_columns_of_which_something_is_left_are_not_told(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for normalize, size in (("l1", 1e-300), ("l2", 1e-150), ("max", 1e-150), (None, 1e-37)):
            next(fits(normalize)).fit(size * X, X[:, 0])


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


def test_integer_targets_that_floats_round_are_told_once(rng):
    X, y = rng.standard_normal((300, 3)), np.arange(300) + 2**62
    features = srf.StructuredFourier(srf.Gaussian(), n_components=16)
    with pytest.warns(StreamrfWarning, match=f"targets are integers such as {2**62 + 1}") as caught:
        srf.RandomFeatureRegressor(features).fit(X, y)
    assert len([one for one in caught if "targets are integers" in str(one.message)]) == 1


UNSEEN = "columns 0, 2 of X vary by less than a thousandth of what column 1 does"


def test_columns_that_a_kernel_hardly_sees_are_told(X):
    map_ = srf.StructuredFourier(srf.Gaussian("median"), 64, random_state=0)
    wide = X * [1, 1e5, 1]
    with pytest.warns(srf.errors.StreamrfWarning, match=f"{UNSEEN}.*normalize='standard'"):
        srf.accumulate(srf.ArraySource(wide, X[:, 0]), map_)
    piecewise = srf.PiecewiseLinear(64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for features, normalize in ((map_, None), (map_, "standard"), (piecewise, "auto")):
            srf.accumulate(srf.ArraySource(wide, X[:, 0]), features, normalize=normalize)
        srf.accumulate(srf.ArraySource(X * [1, 1e5, 1000], X[:, 0]), map_)  # one of three


@pytest.mark.parametrize("code", [-999.0, 9999.0, 9.96921e36, 2147483647.0])
def test_numbers_that_stand_for_what_is_missing_are_told(rng, code):
    X = rng.normal(size=(400, 3))
    y = X[:, 0].copy()
    X[:40, 2] = code
    map_ = srf.StructuredFourier(srf.Gaussian(0.3), 64, random_state=0)
    told = rf"column 2 of X: many rows have {code:.10g}".replace("+", r"\+")
    with pytest.warns(srf.errors.StreamrfWarning, match=told):
        srf.accumulate(srf.ArraySource(X, y), map_, normalize="standard")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        srf.accumulate(srf.ArraySource(X, y), map_, normalize="quantile")
        X[:40, 2] = 9.0  # no code, if far from the others
        srf.accumulate(srf.ArraySource(X, y), map_, normalize="standard")


@pytest.mark.parametrize("code", [-999.0, -9999.0, 99999.0])
def test_a_code_in_one_row_is_told_where_it_is_very_far_off(rng, code):
    X = rng.normal(size=(4000, 3))
    X[17, 1] = code
    map_ = srf.StructuredFourier(srf.Gaussian(0.3), 64, random_state=0)
    told = f"column 1 of X: 1 of 4,000 rows looked at are {code:.10g}, far from all others"
    with pytest.warns(srf.errors.StreamrfWarning, match=told):
        srf.accumulate(srf.ArraySource(X, X[:, 0]), map_, normalize="standard")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (98.0, 9998.0 if code > 0 else -9998.0):  # no codes
            X[17, 1] = value
            srf.accumulate(srf.ArraySource(X, X[:, 0]), map_, normalize="standard")
        X[17, 1] = 9.120962029e13  # of a heavy tail
        srf.accumulate(srf.ArraySource(X, X[:, 0]), map_, normalize="standard")
        X[:, 1] = rng.normal(size=4000) * abs(code) / 3  # of a column that comes so far
        X[17, 1] = code
        srf.accumulate(srf.ArraySource(X, X[:, 0]), map_, normalize="standard")
