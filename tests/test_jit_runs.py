"""Runs of rows whose sums stay below 2^31 are those of their twins."""

import numpy as np
import pytest

import naive
from streamrf.jit import runs


@pytest.mark.parametrize("shape", [(1, 1), (3, 8), (64, 9), (5, 47), (2, 200)])
@pytest.mark.parametrize("size", [3, 8, 48])
def test_roots_are_of_the_greatest_columns(rng, shape, size):
    squares = rng.integers(0, 2**33, shape).astype(np.float64)
    found = runs.roots_of_greatest(squares, size)
    np.testing.assert_array_equal(found, naive.roots_of_greatest(squares, size), strict=True)


def test_a_run_is_the_longest_that_is_below_the_limit_and_one_part_at_least(rng):
    left, right = (10 ** rng.uniform(3, 5.2, 64) for _ in range(2))
    ends = [runs.run_end(left, right, start, 64) for start in range(64)]
    assert ends == [naive.run_end(left, right, start, 64) for start in range(64)]
    lengths = np.array(ends) - np.arange(64)
    assert lengths.min() == 1
    assert lengths.max() > 3
    assert runs.run_end(left / 1e3, right, 5, 40) == 40
