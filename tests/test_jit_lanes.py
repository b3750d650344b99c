"""Rows to lanes and back, scaled or rounded: the kernels do what their twins say."""

import joblib
import numba
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import naive
import streamrf as srf
from streamrf.jit import columns, cosines, dense, hats, lanes, runs, target_sums
from streamrf.jit.arrays import unlocked
from streamrf.jit.lanes import LANES
from streamrf.jit.threads import computing

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPES = [(1, 1), (1, 40), (15, 3), (16, 16), (17, 5), (50, 33)]
DTYPES = [np.uint8, np.int16, np.float32, np.float64]
LIMIT = 4095


def raw_rows(rng, shape, dtype):
    """Rows over much of what a dtype holds, with a row and a column of zeros."""
    if np.dtype(dtype).kind == "f":
        X = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape[1])).astype(dtype)
    else:
        bounds = np.iinfo(dtype)
        X = rng.integers(bounds.min, bounds.max, shape, dtype=dtype, endpoint=True)
    X[shape[0] // 2] = 0
    X[:, shape[1] // 2] = 0
    return X


def load(X, shift, inverse_scale, norm, compress=False, groups=None):
    groups = -(-len(X) // LANES) if groups is None else groups
    out = np.full((groups, X.shape[1], LANES), np.nan, dtype=np.float32)
    lanes.load(X, shift, inverse_scale, norm, compress, out)
    return out


def store_scaled(Z, shift, inverse_step, root, dtype):
    out = np.empty((len(root), len(shift)), dtype=dtype)
    lanes.store_scaled(naive.lanes(Z), shift, inverse_step, root, out)
    return out


def store_rounded(Z, shift, inverse_step, root, limit=LIMIT):
    z = naive.lanes(Z)
    out = np.empty((len(root), len(shift)), dtype=np.float32)
    clipped, invalid = np.full(len(z), -1), np.full(len(z), -1)
    lanes.store_rounded(z, shift, inverse_step, root, limit, out, clipped, invalid)
    return out, clipped, invalid


def calibrated(rng, shape, dtype=np.float32):
    """Features with the shift, inverse step and root of each, some far beyond the limit."""
    Z = rng.standard_normal(shape).astype(dtype)
    Z[rng.random(shape) < 0.05] *= 1e4
    shift = rng.standard_normal(shape[1])
    return Z, shift, rng.uniform(1, 100, shape[1]), rng.uniform(0, 2, shape[0])


def assert_same(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_loaded_rows_are_shifted_and_scaled(rng, shape, dtype):
    X = raw_rows(rng, shape, dtype)
    shift, inverse_scale = rng.standard_normal(shape[1]), rng.uniform(0.1, 3, shape[1])
    expected = naive.load(X, shift, inverse_scale, 0)
    # The same float64 operations, rounded once: nothing may differ.
    np.testing.assert_array_equal(
        load(X, shift, inverse_scale, 0), naive.lanes(expected), strict=True
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", [1, 2])
def test_loaded_rows_have_a_norm_of_one_where_asked(rng, shape, dtype, norm):
    X = raw_rows(rng, shape, dtype)
    shift, inverse_scale = np.zeros(shape[1]), rng.uniform(0.1, 3, shape[1])
    actual = naive.rows(load(X, shift, inverse_scale, norm), len(X))
    expected = naive.load(X, shift, inverse_scale, norm)
    # The norms' sums are in float64 and may differ in order: one rounding to float32 apart.
    np.testing.assert_allclose(actual, expected, rtol=2**-23, atol=0)
    norms = np.linalg.norm(actual.astype(np.float64), norm, axis=1)
    np.testing.assert_allclose(norms[X.any(axis=1)], 1, rtol=1e-6)
    assert not actual[~X.any(axis=1)].any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_loaded_rows_are_compressed_where_asked(rng, dtype):
    X = raw_rows(rng, (35, 5), dtype)
    shift, inverse_scale = rng.standard_normal(5), rng.uniform(0.1, 3, 5)
    actual = naive.rows(load(X, shift, inverse_scale, 0, True), len(X))
    expected = naive.load(X, shift, inverse_scale, 0, True)
    np.testing.assert_allclose(actual, expected, rtol=2**-23, atol=0)


def test_lanes_past_the_last_row_are_zero(rng):
    X = raw_rows(rng, (18, 3), np.float32)
    x = load(X, np.ones(3), np.ones(3), 2, groups=4)
    assert not x[1, :, 2:].any()
    assert not x[2:].any()


@pytest.mark.parametrize("shape", SHAPES)
def test_stored_rows_are_the_loaded_ones(rng, shape):
    X = raw_rows(rng, shape, np.float32)
    z = load(X, np.zeros(shape[1]), np.ones(shape[1]), False)
    out = np.empty_like(X)
    lanes.store(z, out)
    np.testing.assert_array_equal(out, X)
    np.testing.assert_array_equal(out, naive.store(z, len(X)))


def test_store_leaves_out_rows_and_features_beyond_the_output(rng):
    z = rng.standard_normal((3, 8, LANES)).astype(np.float32)
    out = np.empty((20, 5), dtype=np.float32)
    lanes.store(z, out)
    np.testing.assert_array_equal(out, naive.store(z, 20)[:, :5])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaled_rows_are_those_of_the_definition(rng, shape, dtype):
    settings = calibrated(rng, shape)
    expected = naive.store_scaled(*settings).astype(dtype)
    np.testing.assert_array_equal(store_scaled(*settings, dtype), expected, strict=True)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_outputs", [1, 3, 40])
def test_linear_outputs_are_those_of_the_definition(rng, shape, n_outputs):
    Z, shift, inverse_step, _ = calibrated(rng, shape)
    columns = rng.permutation(shape[1])[: max(1, 3 * shape[1] // 4)]  # some, in any order
    Z[:, np.setdiff1d(np.arange(shape[1]), columns)] = np.inf  # of the others nothing is taken
    shift, inverse_step = shift[columns], inverse_step[columns]
    coef, intercept = rng.standard_normal((len(columns), n_outputs)), rng.standard_normal(n_outputs)
    out = np.empty((shape[0], n_outputs))
    lanes.linear(naive.lanes(Z), columns, shift, inverse_step, coef, intercept, out)
    expected = naive.linear(Z, columns, shift, inverse_step, coef, intercept)
    scale = np.abs(expected).max(initial=1.0)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12 * scale)
    for i in range(0, shape[0], 5):  # a row alone, in another lane, to the last bit
        alone = np.empty((1, n_outputs))
        one = naive.lanes(Z[i : i + 1])
        lanes.linear(one, columns, shift, inverse_step, coef, intercept, alone)
        np.testing.assert_array_equal(alone[0], out[i])


@pytest.mark.parametrize("shape", [*SHAPES, (100, 70)])
@pytest.mark.parametrize("offset", [0, 1e4])
def test_moments_are_those_of_the_definition(rng, shape, offset):
    Z = (rng.standard_normal(shape) * rng.uniform(0.1, 10, shape[1]) + offset).astype(np.float32)
    Z[:, 0] = 0.1  # never varies
    n, width = shape
    mean, squares = np.zeros((2, width))
    lanes.add_moments(naive.lanes(Z), n, 0, mean, squares)
    expected_mean, expected_deviation = naive.moments(Z)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.sqrt(squares / n)[1:], expected_deviation[1:], rtol=1e-10)
    assert squares[0] == 0
    for cut in range(LANES, n, LANES):  # in two calls, to the last bit
        again, again_squares = np.zeros((2, width))
        lanes.add_moments(naive.lanes(Z[:cut]), cut, 0, again, again_squares)
        twin = naive.add_moments(Z[cut:], cut, again, again_squares)
        lanes.add_moments(naive.lanes(Z[cut:]), n - cut, cut, again, again_squares)
        np.testing.assert_array_equal(again, mean)
        np.testing.assert_array_equal(again_squares, squares)
        np.testing.assert_allclose(again, twin[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(again_squares[1:], twin[1][1:], rtol=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_rounded_lanes_are_those_of_the_definition(rng, shape):
    settings = calibrated(rng, shape)
    assert_same(store_rounded(*settings), naive.store_rounded(*settings, LIMIT))


FLOATS = st.floats(width=32) | st.sampled_from([0.5, 1.5, 2.5, -0.5, 4095.5, -4095.5])


@given(st.lists(FLOATS, min_size=1, max_size=40), st.sampled_from([0.0, 0.5, 1.0]))
@example([0.5, 1.5, 2.5, -2.5], 1.0)  # halves go to even numbers
@example([4095.4, 4095.5, -4095.5, 4096.0], 1.0)
@example([np.nan, np.inf, -np.inf, -0.0], 1.0)
@example([np.inf, np.nan], 0.0)  # weight 0 times infinity is no number
def test_rounding_clips_and_counts_whatever_comes(values, root):
    Z = np.float32(values)[:, np.newaxis]
    settings = Z, np.zeros(1), np.ones(1), np.full(len(Z), root)
    with np.errstate(invalid="ignore"):  # 0 times infinity, in the twin
        expected = naive.store_rounded(*settings, LIMIT)
        assert_same(store_rounded(*settings), expected)
    assert (np.abs(expected[0]) <= LIMIT).all()


@pytest.mark.parametrize("shape", [(1, 1), (7, 255), (102, 257), (3, 600), (530, 70)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_column_squares_are_exact(rng, shape, dtype):
    Q = rng.integers(-LIMIT, LIMIT + 1, shape).astype(dtype)
    out = np.full((-(-len(Q) // runs.PART), shape[1]), np.nan)
    lanes.column_squares(Q, out)
    np.testing.assert_array_equal(out, naive.column_squares(Q))


@pytest.mark.parametrize("shape", [(1, 1), (20, 511), (7, 513), (3, 1100)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_added_to_their_groups_in_their_order(rng, shape, dtype):
    Q = rng.standard_normal(shape).astype(dtype)
    groups, factors = rng.integers(0, 4, shape[0]), rng.standard_normal(shape[0])
    out = rng.standard_normal((5, shape[1]))
    expected = naive.add_rows(Q, groups, factors, out)
    target_sums.add_rows(Q, groups, factors, out)
    # The products are rounded before they are added, as in the twin: the same bits.
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("shape", [(1, 1), (16, 40), (21, 600), (7, 1100)])
@pytest.mark.parametrize("n_outputs", [1, 3, 10])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_sums_in_the_order_of_the_rows(rng, shape, n_outputs, dtype):
    Q, factors = (
        rng.standard_normal(shape).astype(dtype),
        rng.standard_normal((shape[0], n_outputs)),
    )
    out = np.full((n_outputs, shape[1]), np.nan)
    target_sums.products(factors, Q, out)
    np.testing.assert_array_equal(out, naive.products(factors, Q))


@pytest.mark.parametrize("n", [257, 600])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_in_parts_of_the_rows_are_exact_sums_of_integers(rng, n, dtype):
    Q = rng.integers(-LIMIT, LIMIT + 1, (n, 5)).astype(dtype)
    factors = rng.integers(-1000, 1000, (n, 2)).astype(np.float64)
    out = np.full((2, 5), np.nan)
    target_sums.products(factors, Q, out)
    np.testing.assert_array_equal(out, naive.products(factors, Q))
    groups, sums = rng.integers(0, 3, n), rng.integers(-9, 9, (3, 5)).astype(np.float64)
    expected = naive.add_rows(Q, groups, factors[:, 0], sums)
    target_sums.add_rows(Q, groups, factors[:, 0].copy(), sums)
    np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize("shape", [(1, 1), (16, 40), (37, 600)])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_outputs_are_sums_in_the_order_of_the_features(rng, shape, n_outputs, dtype):
    Q = rng.standard_normal(shape).astype(dtype)
    coef = rng.standard_normal((shape[1], n_outputs))
    out = np.full((shape[0], n_outputs), np.nan)
    lanes.outputs(Q, coef, out)
    np.testing.assert_array_equal(out, naive.outputs(Q, coef))


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_rows_bits_do_not_depend_on_its_place_or_the_threads(rng, dtype, n_threads):
    X = raw_rows(rng, (45, 7), dtype)
    Z, *scales, root = calibrated(rng, (45, 7))
    shift, inverse_scale = rng.standard_normal(7), rng.uniform(0.1, 3, 7)

    def results(rows):
        loaded = naive.rows(load(X[rows], shift, inverse_scale, True), len(rows))
        scaled = store_scaled(Z[rows], *scales, root[rows], np.float64)
        rounded = store_rounded(Z[rows], *scales, root[rows])[0]
        return loaded, scaled, rounded

    alone = [
        np.concatenate(parts) for parts in zip(*(results([i]) for i in range(45)), strict=True)
    ]
    order = rng.permutation(45)
    with computing(n_threads):
        together = results(order)
    for one, other in zip(together, alone, strict=True):
        assert one.tobytes() == other[order].tobytes()


@pytest.mark.parametrize("n_threads", [1, 2])
def test_sums_have_the_same_bits_whatever_the_threads(rng, n_threads):
    Q = rng.standard_normal((30, 1500)).astype(np.float32)
    groups, factors = rng.integers(0, 3, 30), rng.standard_normal(30)
    squares, sums = np.empty((1, 1500)), np.zeros((3, 1500))
    with computing(n_threads):
        lanes.column_squares(Q, squares)
        target_sums.add_rows(Q, groups, factors, sums)
    np.testing.assert_array_equal(sums, naive.add_rows(Q, groups, factors, np.zeros((3, 1500))))
    terms = Q.astype(np.float64) ** 2
    fours = [(a + b) + (c + d) for a, b, c, d in terms[:28].reshape(7, 4, -1)]
    np.testing.assert_array_equal(squares[0], np.cumsum([*fours, *terms[28:]], axis=0)[-1])


def test_lanes_are_stretched_by_their_columns(rng):
    X, factors = rng.standard_normal((50, 33)).astype(np.float32), np.arange(33, dtype=np.float32)
    stretched = naive.lanes(X)
    lanes.stretch(stretched, factors)
    np.testing.assert_array_equal(naive.rows(stretched, len(X)), naive.stretch(X, factors))


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="compiles nothing")
def test_rows_that_are_locked_or_strided_take_the_loops_that_others_do(rng):
    X = rng.normal(size=(600, 5))  # more than are looked at again, every other row then
    y = X[:, 0] > 0
    locked = X.view()
    locked.flags.writeable = False
    others = locked, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]
    features = srf.StructuredFourier(n_components=64)
    loops = lanes.load, columns.add_columns

    def layouts():
        return {rows.layout for loop in loops for rows, *_ in loop.signatures}

    def used(rows):
        model = srf.RandomFeatureClassifier(features, alpha=0.1, random_state=0).fit(rows, y)
        answers = model.predict(rows), model.features_.transform(rows)
        return answers, [len(loop.signatures) for loop in loops]

    before = layouts()  # of other tests
    (labels, Z), known = used(X)
    for rows in others:
        (same_labels, same_Z), after = used(rows)
        assert after == known
        assert np.array_equal(same_labels, labels)
        assert np.array_equal(same_Z, Z)
    assert layouts() - before <= {"C"}


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="compiles nothing")
@pytest.mark.parametrize("normalize", ["standard", "quantile"])
def test_estimators_mapped_into_memory_take_the_loops_that_others_do(rng, tmp_path, normalize):
    X = rng.normal(size=(300, 5))
    y = X[:, 0] > 0
    loops = lanes.load, lanes.linear, lanes.store_rounded, cosines.structured_fourier
    loops += columns.add_columns, dense.project, hats.replace

    def used(model):
        answers = model.predict(X), model.partial_fit(X, y).predict(X)
        return answers, [len(loop.signatures) for loop in loops]

    estimator = srf.RandomFeatureClassifier(
        srf.StructuredFourier(n_components=64), normalize=normalize, warp="full", random_state=0
    ).fit(X, y)
    joblib.dump(estimator, tmp_path / "m.joblib")
    labels, known = used(estimator)
    same_labels, after = used(joblib.load(tmp_path / "m.joblib", mmap_mode="r"))
    assert after == known
    np.testing.assert_array_equal(same_labels, labels)


def test_an_unlocked_view_is_the_same_memory(rng):
    X = rng.normal(size=(20, 6))[::2, 1:]
    X.flags.writeable = False
    view = unlocked(X)
    assert view.flags.writeable
    assert np.shares_memory(view, X)
    assert view.strides == X.strides
    assert np.array_equal(view, X)
    assert unlocked(view) is view
