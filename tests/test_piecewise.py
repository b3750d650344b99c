"""Piecewise-linear features: their twin, where knots lie, and how the width is shared."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import naive
import streamrf as srf
from streamrf.errors import FormatError, ParameterError
from streamrf.features import PiecewiseLinear
from streamrf.jit import hats
from streamrf.jit.lanes import LANES
from streamrf.storage import describe
from streamrf.storage.fields import Fields

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def rows(rng):
    """Columns of other scales: two of numbers, one of three levels, a constant, a binary one."""
    X = rng.normal(size=(400, 5))
    X[:, 1] = np.exp(3 * X[:, 1])
    X[:, 2], X[:, 3], X[:, 4] = rng.integers(0, 3, 400), 7.0, rng.integers(0, 2, 400)
    return X.astype(np.float32)


def test_hats_are_those_of_the_definition(rng):
    X = rng.integers(-9, 10, (2 * LANES, 3)).astype(np.float32)
    columns, left_out = np.array([0, 2, 2], dtype=np.int32), np.array([0, 3, 1], dtype=np.int32)
    ends = np.array([0, 2, 6, 9])
    knots = np.array([-3, 5, -8, -4, 0, 8, -2, 0, 2], dtype=np.float32)
    terms = np.array([[0, -1], [1, -1], [0, 1], [2, 0], [1, 2]], dtype=np.int32)
    expected = naive.interpolate(X, columns, ends, knots, left_out, terms)
    out = np.full((2, expected.shape[1] + 2, LANES), np.nan, dtype=np.float32)
    hats.interpolate(naive.lanes(X), columns, ends, knots, left_out, terms, out)
    found = naive.rows(out, len(X))
    np.testing.assert_allclose(found[:, :-2], expected, atol=3e-7)
    assert (found[:, -2:] == 0).all()


def test_a_linear_model_of_them_interpolates_at_the_knots(rng):
    """An additive function is met at every knot, and between them by straight lines."""
    X = rng.uniform(-1, 1, (500, 2)).astype(np.float32)
    features = PiecewiseLinear(24, max_bins=12, pairs=False).fit(X)
    knots = np.split(features.knots_, features.ends_[1:-1])
    values = [rng.normal(size=len(own)) for own in knots]
    y = sum(np.interp(X[:, j], knots[j], values[j]) for j in range(2))
    fitted = LinearRegression().fit(features.transform(X), y)
    np.testing.assert_allclose(fitted.predict(features.transform(X)), y, atol=1e-4)


def test_pairs_have_what_columns_alone_have_not(rng):
    X = rng.uniform(-1, 1, (500, 2)).astype(np.float32)
    y, errors = X[:, 0] * X[:, 1], {}
    for pairs in (False, True):
        Z = PiecewiseLinear(64, pairs=pairs).fit_transform(X)
        errors[pairs] = LinearRegression().fit(Z, y).score(Z, y)
    assert errors[False] < 0.3
    assert errors[True] > 0.98


@pytest.mark.parametrize("n_components", [1, 2, 7, 30, 200, 3000])
def test_the_width_is_kept_and_used(rows, n_components):
    features = PiecewiseLinear(n_components, max_bins=8).fit(rows)
    n_used = np.count_nonzero(features.transform(rows).any(axis=0))
    all_bins = 8 + 8 + 2 + 1
    most = all_bins + (all_bins**2 - 8**2 - 8**2 - 2**2 - 1) // 2
    assert min(n_components, most) * 0.7 <= n_used <= min(n_components, most)
    assert 3 not in features.columns_  # the constant
    hats_of = np.diff(features.ends_) - 1
    alone = features.terms_[features.terms_[:, 1] < 0, 0]
    assert hats_of[alone].sum() <= max(4, n_components // 4)
    if n_components >= 4 + 6:
        assert np.count_nonzero(features.terms_[:, 1] >= 0) == 6


def test_scales_of_columns_do_not_matter(rows):
    scaled = rows * np.float32([8, 0.25, 2, 1, 4])  # by powers of two, so that nothing is rounded
    expected = PiecewiseLinear(100).fit_transform(rows)
    np.testing.assert_array_equal(PiecewiseLinear(100).fit_transform(scaled), expected)


def test_a_value_of_many_rows_leaves_knots_for_the_others(rng):
    column = np.where(rng.uniform(size=1000) < 0.9, 0, rng.uniform(1, 2, 1000))
    knots = PiecewiseLinear(8, max_bins=8, pairs=False).fit(column[:, np.newaxis]).knots_
    assert len(knots) > 6
    assert np.count_nonzero(knots == 0) == 1


def test_zeros_of_counts_stay_zeros(rng):
    counts = rng.poisson(0.1, (300, 6))
    Z = PiecewiseLinear(40).fit_transform(counts)
    assert (Z[counts.sum(axis=1) == 0] == 0).all()


def test_interactions_of_a_source_are_learnt_in_one_pass(rng, tmp_path):
    X = rng.normal(size=(3000, 4)) * [1, 100, 0.1, 1]
    y = 3 * np.tanh(X[:, 0]) * np.tanh(X[:, 1] / 100) + X[:, 2]
    model = srf.RandomFeatureRegressor(PiecewiseLinear(128), normalize=None, random_state=0)
    assert model.fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]) > 0.9
    craft = srf.RandomFeatureRegressor(srf.Craft(PiecewiseLinear(128), 32), random_state=0)
    craft.fit(X, y).save(tmp_path / "model.h5")
    again = srf.load_model(tmp_path / "model.h5")
    np.testing.assert_array_equal(again.predict(X), craft.predict(X))
    np.testing.assert_array_equal(again.features_.kernel_(X[:3]), craft.features_.kernel_(X[:3]))


@pytest.mark.parametrize("precision", ["exact", "coarse"])
@pytest.mark.parametrize("is_block", [False, True])
def test_hats_of_rare_bins_are_neither_clipped_nor_summed_apart(rng, precision, is_block):
    """Those that rows looked at first hardly show, or not at all, are 1 in some of the others."""
    X = np.exp(rng.normal(size=(60_000, 3)) * 2)
    features = PiecewiseLinear(600)
    if is_block:
        gaussian = srf.StructuredFourier(srf.Gaussian(gamma=0.1), 16)
        features = srf.Concatenate([gaussian, features], weights=[1.0, 9.0], random_state=0)
    source = srf.ArraySource(X, X[:, 0])
    sums = srf.accumulate(source, features, normalize=None, precision=precision, regression=True)
    rare = sums.encoder.features.transform(X[:4096])[:, -600:].std(axis=0) < 1e-2
    assert rare.sum() > 20
    assert sums.n_clipped == 0
    assert sums.sums.gram.n_splits == 0


def test_where_8_bits_clip_16_are_named(rng):
    """Rows heavier than sixteen times the mean, whose hats have no room in 8 bits."""
    X = rng.normal(size=(9000, 2))
    weights = np.where(np.arange(9000) % 100, 1.0, 100.0)
    source = srf.ArraySource(X, X[:, 0], weights)
    settings = {"normalize": None, "regression": True}
    with pytest.warns(srf.errors.StreamrfWarning, match="were clipped.*precision='exact'"):
        srf.accumulate(source, PiecewiseLinear(64), precision="coarse", **settings)
    assert srf.accumulate(source, PiecewiseLinear(64), **settings).n_clipped < 10  # not told


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("columns_", 0, 5),
        ("ends_", 0, 1),
        ("ends_", 1, 1),
        ("ends_", -1, 3),
        ("knots_", 1, -1e9),
        ("knots_", 1, np.nan),
        ("left_out_", 0, 99),
        ("left_out_", 0, -1),
        ("terms_", (0, 0), -1),
        ("terms_", (0, 1), -2),
        ("terms_", (-1, 1), 99),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(rows, name, index, value):
    tree = describe.to_tree(PiecewiseLinear(12).fit(rows))
    array = tree["fitted"][name].copy()
    array[index] = value
    tree["fitted"][name] = array
    again = describe.from_tree(tree, {"PiecewiseLinear": PiecewiseLinear})
    with pytest.raises(FormatError, match=name.rstrip("_")):
        again.check_fitted(5, Fields({}), "features")


def test_more_products_than_components_are_refused(rows):
    tree = describe.to_tree(PiecewiseLinear(12).fit(rows))
    tree["fitted"]["terms_"] = np.repeat(tree["fitted"]["terms_"], 2, axis=0)
    again = describe.from_tree(tree, {"PiecewiseLinear": PiecewiseLinear})
    with pytest.raises(FormatError, match="more products than n_components"):
        again.check_fitted(5, Fields({}), "features")


def test_products_that_overflow_are_counted_all_the_same():
    """Their number was 2^64, which is 0, and a row was written far beyond its features."""
    tree = describe.to_tree(PiecewiseLinear(16).fit(np.eye(3)))
    n, fitted = 2**22, tree["fitted"]
    fitted |= {"columns_": np.zeros(1, np.int32), "left_out_": np.zeros(1, np.int32)}
    fitted |= {"ends_": np.array([0, n + 1]), "knots_": np.arange(n + 1, dtype=np.float32)}
    fitted["terms_"] = np.zeros((2**20, 2), np.int32)
    again = describe.from_tree(tree, {"PiecewiseLinear": PiecewiseLinear})
    with pytest.raises(FormatError, match="more products than n_components"):
        again.check_fitted(3, Fields({}), "features")


def test_counts_of_any_size_are_taken(rows):
    """More bins than rows are no finer, and widths of 8 bits overflowed."""
    rows, many = rows[:20], PiecewiseLinear(200, max_bins=20)
    for features in (
        PiecewiseLinear(200, max_bins=2**63),
        PiecewiseLinear(np.uint8(200), max_bins=np.int8(127)),
    ):
        assert features.fit_transform(rows).tobytes() == many.fit_transform(rows).tobytes()


@pytest.mark.parametrize("max_bins", [0, -1, 2.5, True, None])
def test_a_wrong_number_of_bins_is_named(rows, max_bins):
    with pytest.raises(ParameterError, match="max_bins must be an integer above 0, got"):
        PiecewiseLinear(max_bins=max_bins).fit(rows)
