"""The rectangular full packed format is LAPACK's, and what is done in it what is done outside."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from streamrf.jit import packed
from streamrf.jit.threads import computing

pytestmark = pytest.mark.usefixtures("one_thread")

SIZES = [1, 2, 3, 4, 5, 8, 33, 64]


def symmetric(rng, n):
    """Standard normal numbers: rounding would show."""
    square = rng.standard_normal((n, n))
    return np.tril(square) + np.tril(square, -1).T


@pytest.mark.parametrize("n", SIZES)
def test_unpacking_gives_the_whole_matrix(rng, n):
    vector = rng.standard_normal(n * (n + 1) // 2)
    matrix = np.full((n, n), np.nan)
    packed.unpack(vector, matrix)
    np.testing.assert_array_equal(matrix, naive.unpack(vector, n))


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_unpacking_undoes_packing(n, seed):
    matrix = symmetric(np.random.default_rng(seed), n)
    back = np.empty((n, n))
    packed.unpack(naive.packed(matrix), back)
    np.testing.assert_array_equal(back, matrix)


@pytest.mark.parametrize("n", [n for n in SIZES if n > 3])
def test_strides_lead_to_the_entries_below_the_diagonal(rng, n):
    matrix = symmetric(rng, n)
    vector = naive.packed(matrix)
    for j in range(n):
        first, by_row, by_column = packed.strides(n, j)
        assert (first, by_row, by_column) == naive.strides(n, j)
        for i in range(j, n):
            assert vector[first + i * by_row + j * by_column] == matrix[i, j]


@pytest.mark.parametrize("n", SIZES)
def test_the_diagonal_is_read_and_added_to(rng, n):
    vector, values = rng.standard_normal(n * (n + 1) // 2), rng.standard_normal(n)
    out = np.full(n, np.nan)
    packed.diagonal(vector, out)
    np.testing.assert_array_equal(out, naive.diagonal(vector, n))
    expected = naive.add_diagonal(vector, values)
    packed.add_diagonal(vector, values)
    np.testing.assert_array_equal(vector, expected)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("n", SIZES)
def test_centring_is_that_of_the_full_matrix(rng, n, n_threads):
    vector, sums = rng.standard_normal(n * (n + 1) // 2), rng.standard_normal(n)
    scale, out = rng.uniform(0.1, 3, n), np.full(n * (n + 1) // 2, np.nan)
    expected = naive.centred(vector, sums, 7.5, scale)
    with computing(n_threads):
        packed.centred(vector, sums, 7.5, scale, out)
    # The same operations in the same order on each entry, so the same bits.
    np.testing.assert_array_equal(out, expected)


def test_centring_can_be_done_in_place(rng):
    vector, sums, scale = rng.standard_normal(45), rng.standard_normal(9), rng.uniform(0.1, 3, 9)
    expected = naive.centred(vector, sums, 3.0, scale)
    packed.centred(vector, sums, 3.0, scale, vector)
    np.testing.assert_array_equal(vector, expected)


@pytest.mark.parametrize("n", SIZES)
def test_every_column_can_be_read(rng, n):
    vector = rng.standard_normal(n * (n + 1) // 2)
    for j in range(n):
        out = np.full(n, np.nan)
        packed.column(vector, j, out)
        np.testing.assert_array_equal(out, naive.column(vector, n, j))


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_a_matrix_is_added_to_the_rows_and_columns_selected(rng, n):
    vector = rng.integers(-9, 10, n * (n + 1) // 2).astype(np.float64)
    columns = np.flatnonzero(rng.random(n) < 0.7)
    values = np.rint(9 * symmetric(rng, len(columns)))
    expected = naive.add_selected(values, columns, n, vector)
    packed.add_selected(values, columns, n, vector)
    np.testing.assert_array_equal(vector, expected)


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
@pytest.mark.parametrize("n", SIZES)
def test_tiles_add_every_entry_once(rng, n, dtype):
    before, added = (np.rint(100 * symmetric(rng, n)) for _ in range(2))
    vector, rows, columns = naive.packed(before).astype(dtype), 3, 4
    padded = np.full((n + rows, n + columns), 999, dtype=np.int32)
    padded[:n, :n] = added
    G = before.copy()
    for x in range(0, n, rows):
        for y in range(0, n, columns):
            tile = np.ascontiguousarray(padded[x : x + rows, y : y + columns])
            naive.add_tile(tile, x, y, n, G)
            packed.add_tile(tile, x, y, n, vector)
            np.testing.assert_array_equal(vector, naive.packed(G))
            sides = (x, min(x + rows, n)), (y, min(y + columns, n))
            assert packed.holds(n, *sides) == naive.holds(n, *sides)
    np.testing.assert_array_equal(vector, naive.packed(before + added))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_rows_and_columns_can_be_selected(rng, n, n_threads):
    vector = rng.standard_normal(n * (n + 1) // 2)
    for count in range(1, n + 1):
        picks = rng.permutation(n)[:count]
        out = np.full(count * (count + 1) // 2, np.nan)
        with computing(n_threads):
            packed.select(vector, n, picks, out)
        np.testing.assert_array_equal(out, naive.select(vector, n, picks))


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("length", [1, 1000, 65536, 65537, 150_001])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_flushing_moves_everything_into_the_totals(rng, length, n_threads, dtype):
    partial = rng.integers(-(2**24), 2**24, length).astype(dtype)
    totals = rng.integers(-(2**52), 2**52, length).astype(np.float64)
    expected_partial, expected_totals = naive.flush(partial, totals)
    with computing(n_threads):
        packed.flush(partial, totals)
    np.testing.assert_array_equal(partial, expected_partial, strict=True)
    np.testing.assert_array_equal(totals, expected_totals, strict=True)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 1024])
def test_the_layout_holds_the_triangle(n):
    assert packed.layout(n) == naive.layout(n)
    n_rows, n_columns, _ = packed.layout(n)
    assert n_rows * n_columns == n * (n + 1) // 2
