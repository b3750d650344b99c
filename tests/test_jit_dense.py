"""Products of dense matrices and lanes do what their twins say, to the bit, wherever a row is."""

import numba
import numpy as np
import pytest

import naive
from streamrf.jit import dense
from streamrf.jit.threads import computing

DTYPES = [np.float32, np.float64]
SHAPES = [(1, 1, 1), (15, 3, 5), (17, 8, 8), (50, 33, 20), (300, 70, 9), (40, 13, 600)]


def projected(X, matrix, **options):
    """The products of rows and a matrix, as rows."""
    m = len(matrix)
    settings = {"scales": np.ones(m, X.dtype), "first": 0, "times": False, **options}
    out = settings.pop("out", None)
    if out is None:
        out = np.empty((-(-len(X) // dense.LANES), m, dense.LANES), X.dtype)
    x = naive.lanes(X, X.dtype)
    dense.project(matrix, settings["scales"], x, settings["first"], settings["times"], out)
    return naive.rows(out, len(X))


@pytest.fixture(params=DTYPES)
def draw(request, rng):
    """A function that draws an array of the dtype."""
    return lambda *shape: rng.standard_normal(shape).astype(request.param)


@pytest.mark.parametrize(("n", "d", "m"), SHAPES)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_projections_are_sums_in_the_order_of_the_columns(draw, n, d, m, n_threads):
    X, matrix = draw(n, d), draw(m, d)
    with computing(n_threads):
        found = projected(X, matrix)
    np.testing.assert_array_equal(found, naive.project(X, matrix))
    np.testing.assert_allclose(found, X.astype(float) @ matrix.T.astype(float), atol=1e-4)


def test_projections_are_scaled_and_multiply_what_is_there_if_asked(draw):
    X, matrix, scales = draw(37, 6), draw(11, 6), draw(11)
    out = np.full((3, 15, dense.LANES), -7, X.dtype)
    first = projected(X, matrix, scales=scales, first=2, out=out)
    expected = scales * naive.project(X, matrix)
    np.testing.assert_array_equal(first[:, 2:13], expected)
    other = draw(11, 6)
    both = projected(X, other, first=2, times=True, out=out)
    np.testing.assert_array_equal(both[:, 2:13], expected * naive.project(X, other))
    assert (both[:, [0, 1, 13, 14]] == -7).all()


def test_a_rows_bits_do_not_depend_on_its_place(draw):
    row, matrix = draw(1, 29), draw(53, 29)
    found = projected(np.repeat(row, 700, axis=0), matrix)
    assert (found == found[0]).all()


@pytest.mark.parametrize(("n", "d"), [(1, 1), (15, 3), (17, 8), (50, 33), (40, 70)])
def test_lanes_are_transformed_in_place(rng, n, d):
    X, matrix = (rng.standard_normal(shape).astype(np.float32) for shape in ((n, d), (d, d)))
    x = naive.lanes(X)
    dense.transform(x, matrix)
    np.testing.assert_array_equal(naive.rows(x, n), naive.project(X, matrix))


@pytest.mark.parametrize(
    ("n", "m", "d"), [(1, 1, 1), (5, 300, 7), (130, 129, 40), (0, 3, 2), (3, 4, 0)]
)
def test_inner_products_are_sums_in_the_order_of_the_columns(rng, n, m, d):
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((2 * m, d))[::2]
    found = dense.inner_products(X, Y)
    np.testing.assert_array_equal(found, naive.project(Y, X).T)
    square = dense.inner_products(Y, Y)
    np.testing.assert_array_equal(square, square.T)


def test_rows_of_other_widths_have_no_inner_products():
    with pytest.raises(ValueError, match="no inner products"):
        dense.inner_products(np.ones((2, 3)), np.ones((2, 4)))


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="compiles nothing")
@pytest.mark.parametrize("change", [np.asfortranarray, np.float32])
def test_a_matrix_in_another_order_or_dtype_is_refused_and_not_misread(rng, change):
    matrix = change(rng.standard_normal((4, 3)))
    with pytest.raises(numba.errors.TypingError, match="order of C"):
        dense.project(matrix, np.ones(4), np.ones((1, 3, 16)), 0, False, np.ones((1, 4, 16)))
