"""Packed LAPACK by address: SciPy's own wrappers and dense formulas as twins."""

import numpy as np
import pytest
from scipy.linalg import lapack as scipy_lapack

import naive
from streamrf.jit import lapack

DTYPES = [np.float32, np.float64]


@pytest.fixture(params=[1, 2, 3, 30, 31])
def n(request):
    return request.param


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_added_as_scipy_adds_them(rng, n, dtype):
    Q = rng.integers(-9, 10, (40, n)).astype(dtype)
    before = rng.integers(-9, 10, n * (n + 1) // 2).astype(dtype)
    found = before.copy()
    lapack.add_product(Q, found)
    sfrk = scipy_lapack.ssfrk if dtype is np.float32 else scipy_lapack.dsfrk
    expected = sfrk(n, 40, 1.0, Q.T, 1.0, before, transr="N", uplo="L", trans="N")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_matrix_is_factored_and_solved_in_place(rng, n, dtype):
    A = rng.normal(size=(n, 2 * n))
    A = A @ A.T + n * np.eye(n)
    factor = naive.packed(A).astype(dtype)
    assert lapack.factor(factor, n)
    B = np.asfortranarray(rng.normal(size=(n, 4)), dtype=dtype)
    expected = np.linalg.solve(A, B)
    lapack.solve(factor, B)
    np.testing.assert_allclose(B, expected, rtol=0, atol=100 * np.finfo(dtype).eps)


def test_a_matrix_that_is_not_positive_definite_has_no_factor():
    packed = naive.packed(np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert not lapack.factor(packed, 2)


def test_arrays_of_other_layouts_or_dtypes_are_caught():
    with pytest.raises(AssertionError):
        lapack.add_product(np.ones((4, 3)).T, np.zeros(10))
    with pytest.raises(AssertionError):
        lapack.add_product(np.ones((4, 3)), np.zeros(6, np.float32))
    with pytest.raises(AssertionError):
        lapack.solve(np.ones(6), np.ones((3, 2)))
