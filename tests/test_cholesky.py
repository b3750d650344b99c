"""Blocked packed factors: LAPACK and NumPy as twins."""

import numba
import numpy as np
import pytest

import naive
from streamrf.jit import cholesky, lapack, packed
from streamrf.jit.strips import are_compiled
from streamrf.jit.threads import computing

DTYPES = [np.float32, np.float64]
own_loops = pytest.mark.skipif(not are_compiled(), reason="LAPACK's bits depend on its threads")
EVEN = 128  # columns of a block here, for orders around halves and wholes of them


def positive(rng, n, dtype):
    """Return a packed matrix of order n whose eigenvalues are spread."""
    A = rng.normal(size=(n, 40)) * 3.0
    return naive.packed(A @ A.T + np.diag(rng.uniform(0.5, 2.0, n))).astype(dtype)


def lower(factor, n):
    """Return the lower triangle that a packed factor is."""
    return np.tril(naive.full(factor.astype(float), n))


@pytest.mark.parametrize("wide", [1, 1 << 20], ids=["wide blocks", "narrow blocks"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("n", "block"),
    [
        *((n, EVEN) for n in (1, 2, 7, 2 * EVEN - 1, 2 * EVEN, 2 * EVEN + 1, 2 * EVEN + 77)),
        (3 * EVEN + 130, EVEN),
        (300, cholesky.COLUMNS),
        (2 * cholesky.COLUMNS + 77, cholesky.COLUMNS),
    ],
)
def test_a_factor_is_that_of_lapack(rng, n, block, dtype, wide, monkeypatch):
    monkeypatch.setattr(cholesky, "WIDE", wide)
    monkeypatch.setattr(cholesky, "COLUMNS", block)
    monkeypatch.setattr(cholesky, "MIN_COLUMNS", {4: 1, 8: 1})
    given = positive(rng, n, dtype)
    expected, found = given.copy(), given.copy()
    assert lapack.factor(expected, n)
    assert cholesky.factor(found, n)
    eps, A, L = np.finfo(dtype).eps, naive.full(given.astype(float), n), lower(found, n)
    np.testing.assert_allclose(L @ L.T, A, rtol=0, atol=40 * eps * np.abs(A).max())
    L_lapack = lower(expected, n)
    np.testing.assert_allclose(L, L_lapack, rtol=0, atol=500 * eps * np.abs(L_lapack).max())


@pytest.mark.parametrize("n_columns", [1, 3, 4, 5, 8, 9, 16, 17, 31])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 23, 24, 47, 48, 49, 383, 384, 385, 397, 1000])
def test_a_solution_is_that_of_lapack(rng, n, dtype, n_columns, monkeypatch):
    monkeypatch.setattr(cholesky, "MIN_ROWS", 1)
    factor = positive(rng, n, dtype)
    assert lapack.factor(factor, n)
    before = factor.copy()
    B = np.asfortranarray(rng.normal(size=(n, n_columns)).astype(dtype))
    expected, found = B.copy(order="F"), B.copy(order="F")
    lapack.solve(factor, expected)
    cholesky.solve(factor, found)
    apart, size = np.abs(found - expected).max(), np.abs(expected).max()
    assert apart <= 200 * np.finfo(dtype).eps * size * np.linalg.cond(lower(factor, n))
    assert factor.tobytes() == before.tobytes()


@own_loops
def test_right_hand_sides_do_not_meet(rng, monkeypatch):
    """Each column has the bits that it has alone, on any number of threads."""
    monkeypatch.setattr(cholesky, "WIDE", 1)
    n = cholesky.MIN_ROWS + 500
    factor = positive(rng, n, np.float64)
    assert lapack.factor(factor, n)
    B = np.asfortranarray(rng.normal(size=(n, 20)))
    together = B.copy(order="F")
    with computing(2):
        cholesky.solve(factor, together)
    for k in (0, 7, 19):
        alone = B[:, k : k + 1].copy(order="F")
        with computing(1):
            cholesky.solve(factor, alone)
        np.testing.assert_array_equal(alone[:, 0], together[:, k])
    spoilt = B.copy(order="F")
    spoilt[:, 3] = np.nan
    cholesky.solve(factor, spoilt)
    np.testing.assert_array_equal(np.delete(spoilt, 3, axis=1), np.delete(together, 3, axis=1))
    assert np.isnan(spoilt[:, 3]).all()


@own_loops
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_factor_has_the_same_bits_on_any_number_of_threads(rng, dtype):
    n = cholesky.MIN_COLUMNS[np.dtype(dtype).itemsize] + 30
    given = positive(rng, n, dtype)
    found = []
    for n_threads in (1, 2):
        factor = given.copy()
        with computing(n_threads):
            assert cholesky.factor(factor, n)
        found.append(factor.tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("at", [0, 700, -1])
def test_a_matrix_that_is_not_positive_definite_has_no_factor(rng, at, monkeypatch):
    monkeypatch.setattr(cholesky, "MIN_COLUMNS", {4: 1, 8: 1})
    n = 2 * cholesky.COLUMNS + 300
    given = positive(rng, n, np.float64)
    values = np.zeros(n)
    values[at] = -1e6
    packed.add_diagonal(given, values)
    assert not cholesky.factor(given, n)


def test_nan_spreads(rng, monkeypatch):
    """OpenBLAS factors a matrix with NaN; who solves looks at the result."""
    monkeypatch.setattr(cholesky, "MIN_COLUMNS", {4: 1, 8: 1})
    n = 2 * cholesky.COLUMNS
    given = positive(rng, n, np.float64)
    values = np.zeros(n)
    values[3] = np.nan
    packed.add_diagonal(given, values)
    if cholesky.factor(given, n):
        diagonal = np.empty(n)
        packed.diagonal(given, diagonal)
        assert np.isfinite(diagonal[:3]).all()
        assert np.isnan(diagonal[3:]).all()


@pytest.mark.parametrize("n_columns", [1, 40])
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(("n", "least"), [(60, 1 << 20), (2 * cholesky.COLUMNS + 50, 1)])
def test_shifted_solutions_are_those_of_one_after_the_other(
    rng, n, least, n_threads, n_columns, monkeypatch
):
    """By LAPACK and by loops of our own, to the last bit; one that has no factor is None."""
    monkeypatch.setattr(cholesky, "MIN_COLUMNS", {4: least, 8: least})
    monkeypatch.setattr(cholesky, "MIN_ROWS", least)
    given = positive(rng, n, np.float64)
    before = given.copy()
    B = rng.normal(size=(n, n_columns))
    shifts = [1e-3, -1e6, 1.0, 1e3, 10.0]
    with computing(n_threads):
        found = cholesky.shifted_solutions(given, shifts, B)
    assert given.tobytes() == before.tobytes()
    assert found[1] is None
    for shift, X in zip(shifts, found, strict=True):
        if X is None:
            continue
        factor, expected = given.copy(), B.copy(order="F")
        packed.add_diagonal(factor, np.full(n, shift))
        with computing(1):
            assert cholesky.factor(factor, n)
            cholesky.solve(factor, expected)
        assert np.abs((naive.full(given, n) + shift * np.eye(n)) @ X - B).max() < 1e-8
        if are_compiled():
            np.testing.assert_array_equal(X, expected)


def test_more_threads_than_memory_wait_for_it(rng, monkeypatch):
    n = 50
    given = positive(rng, n, np.float64)
    monkeypatch.setattr(cholesky, "n_abreast", lambda *order: 1)
    with computing(2):
        found = cholesky.shifted_solutions(given, [1.0] * 9, np.eye(n))
    assert len({X.tobytes() for X in found}) == 1


@own_loops
def test_as_many_factors_side_by_side_as_memory_and_threads_allow(monkeypatch):
    def fitting(n, n_threads=2):
        with computing(n_threads):
            return cholesky.n_abreast(n, 8)

    assert [fitting(n) for n in (10, 1024, 2047, 2048, 2400, 40_000)] == [2, 2, 2, 2, 1, 1]
    assert fitting(1024, 1) == 1
    n = 2047  # of more there are loops of many threads
    assert (1 + fitting(n)) * 4 * n * (n + 1) <= cholesky.MAX_ABREAST
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 2)
    assert cholesky.abreast_bytes(n, 8) == 2 * 4 * n * (n + 1)
    assert cholesky.abreast_bytes(2800, 4) == 2 * 2 * 2800 * 2801
    assert cholesky.abreast_bytes(2800, 8) == 0
    monkeypatch.setattr(cholesky, "MAX_ABREAST", 1)
    assert fitting(1024) == 1


@pytest.mark.parametrize("n_columns", [31, 32, 33, 150])
def test_many_right_hand_sides_have_the_same_bits_on_any_number_of_threads(rng, n_columns):
    n = 1500
    factor = positive(rng, n, np.float64)
    assert lapack.factor(factor, n)
    B = np.asfortranarray(rng.normal(size=(n, n_columns)))
    found = []
    for n_threads in (1, 2):
        X = B.copy(order="F")
        with computing(n_threads):
            cholesky.solve(factor, X)
        found.append(X.tobytes())
    assert found[0] == found[1]
