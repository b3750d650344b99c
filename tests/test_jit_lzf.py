"""LZF expanded as liblzf does, which h5py compresses with."""

import h5py
import numpy as np
import pytest

import naive
from streamrf.jit import lzf


def compressed(values):
    """LZF by h5py, of a chunk that it could compress."""
    with h5py.File("rows.h5", "w", driver="core", backing_store=False) as file:
        dataset = file.create_dataset("X", data=values, chunks=values.shape, compression="lzf")
        mask, data = dataset.id.read_direct_chunk((0,))
    assert mask == 0
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("n_kinds", [1, 2, 30])
@pytest.mark.parametrize("size", [40, 300, 9000])
def test_what_h5py_compressed_is_expanded(rng, n_kinds, size):
    values = np.repeat(rng.integers(0, n_kinds, size).astype(np.uint8), 5)
    out = np.zeros(values.size + 3, np.uint8)
    assert lzf.expand(compressed(values), out) == values.size
    np.testing.assert_array_equal(out[:-3], values)
    assert not out[-3:].any()


@pytest.mark.parametrize("missing", [1, 50])
def test_data_that_hold_more_or_end_early_are_damaged(rng, missing):
    values = np.repeat(rng.integers(0, 9, 100).astype(np.uint8), 5)
    data, out = compressed(values), np.zeros(values.size, np.uint8)
    assert lzf.expand(data, out[:-missing]) == -1
    assert lzf.expand(data[:-missing], out) < values.size


def test_any_bytes_are_taken_as_the_twin_takes_them(rng):
    for _ in range(300):
        data = rng.integers(0, rng.choice([40, 256]), rng.integers(0, 40)).astype(np.uint8)
        ours, theirs = np.zeros((2, 200), np.uint8)
        n = naive.expand(data, theirs)
        assert lzf.expand(data, ours) == n
        np.testing.assert_array_equal(ours[: max(n, 0)], theirs[: max(n, 0)])
