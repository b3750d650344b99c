"""Base features of sites, and windows of rows: their twins."""

import numpy as np
import pytest

import naive
from streamrf.jit import patches, spaces
from streamrf.jit.lanes import LANES

pytestmark = pytest.mark.usefixtures("one_thread")


def filled(width):
    return np.full((width, LANES), -7, dtype=np.float32)


@pytest.fixture
def rows(rng):
    """A group of rows of small integers, some of them 0, so that sums are exact."""
    return rng.integers(-2, 3, (LANES, 12)).astype(np.float32)


@pytest.mark.parametrize("size", [1, 3])
def test_phases_are_those_of_the_definition(rng, rows, size):
    columns = np.array([0, 9, 4, 4], dtype=np.int32)
    frequencies = rng.integers(-4, 5, (4, size)).astype(np.float32)
    out = filled(4)
    spaces.phases(naive.lanes(rows)[0], columns, frequencies, out)
    np.testing.assert_array_equal(out.T, naive.phases(rows, columns, frequencies))


@pytest.mark.parametrize(("first", "size"), [(0, 1), (2, 2), (3, 9)])
def test_directions_are_those_of_the_definition(rng, rows, first, size):
    columns = np.sort(rng.integers(first, 12, 7)).astype(np.int32)
    scale, out = np.float32(np.sqrt(size)), filled(7)
    spaces.directions(naive.lanes(rows)[0], columns, first, size, scale, out)
    expected = naive.directions(rows, columns, first, size, scale)
    np.testing.assert_allclose(out.T, expected, rtol=3e-7)
    assert (rows[:, first : first + size] == 0).all(axis=1).any() == (size < 3)


def test_levels_are_those_of_the_definition(rng, rows):
    rows[0, 0], rows[1, 0] = 0.0, -0.0
    columns = rng.integers(0, 12, 40).astype(np.int32)
    columns[:8] = 0
    salts, out = rng.integers(0, 2**63, 40), filled(40)
    with np.errstate(over="ignore"):  # without the compiler, NumPy's words warn
        spaces.levels(naive.lanes(rows)[0], columns, salts, out)
    np.testing.assert_array_equal(out.T, naive.levels(rows, columns, salts))
    np.testing.assert_array_equal(out[:8, 0], out[:8, 1])


def test_windows_are_gathered_and_added(rng):
    X = rng.integers(-9, 10, (40, 12)).astype(np.float32)
    firsts, offsets = np.array([0, 3, 1, 8]), np.array([0, 1, 3])
    windows = np.empty((3 * 4, 3, LANES), dtype=np.float32)
    patches.gather(naive.lanes(X), firsts, offsets, windows)
    expected = naive.gather(X, firsts, offsets)
    for p in range(4):
        np.testing.assert_array_equal(naive.rows(windows[p::4], 40), expected[p])
    cells, scales = np.array([0, 0, 1, 0]), np.array([0.5, 2.0], dtype=np.float32)
    out = np.zeros((3, 7, LANES), dtype=np.float32)
    patches.add_windows(windows, cells, scales, out)
    found = naive.rows(out, 40)
    np.testing.assert_array_equal(found[:, :6], naive.add_windows(expected, cells, scales))
    assert (found[:, 6] == 0).all()
