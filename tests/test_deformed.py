"""Deformed images: each row against SciPy's warping, and rows that do not depend on the reading."""

import pickle

import numpy as np
import pytest
from scipy import ndimage

import naive
import streamrf as srf
from streamrf.errors import DataError, ParameterError, ShapeError
from streamrf.jit import deform as jit_deform
from streamrf.sources.hashing import uniform

rng = np.random.default_rng(0)
IMAGES = ndimage.gaussian_filter(rng.integers(0, 256, (20, 12, 9)).astype(float), (0, 1, 1))
IMAGES = (255 * (IMAGES - IMAGES.min()) / np.ptp(IMAGES)).astype(np.uint8)
HOW = srf.Deformation(rotation=25, shear=0.2, scale=0.3, shift=2, elastic=15, smoothing=2)


def source_of(n_rows=100, seed=3, how=HOW, images=IMAGES):
    flat = srf.ArraySource(images.reshape(len(images), -1), y=np.arange(len(images)))
    return srf.deformed_mnist(flat, n_rows, seed=seed, deformation=how, shape=images.shape[1:])


def rows(source, start=0, stop=None, block_rows=4096):
    blocks = list(source.blocks(start, stop, block_rows=block_rows))
    return np.concatenate([b.X for b in blocks]), np.concatenate([b.y for b in blocks])


def test_rows_are_those_of_scipy():
    X, y = rows(source_of(n_rows=60))
    np.testing.assert_array_equal(X[:20], IMAGES.reshape(20, -1))  # the images themselves first
    np.testing.assert_array_equal(y, np.arange(60) % 20)
    how = HOW.affine, HOW.elastic, HOW.taps
    expected = np.stack([naive.deform(IMAGES, row, 3, *how) for row in range(20, 60)])
    assert np.abs(X[20:] - expected).max() < 0.51
    assert np.abs(X[20:40].astype(float) - X[:20]).mean() > 10  # and they did move


def test_the_finalizer_is_that_of_the_hashes_of_rows():
    golden = 0x9E3779B97F4A7C15
    found = [naive.mixed((k + golden) % 2**64) / 2.0**64 for k in range(50)]
    np.testing.assert_array_equal(found, uniform(np.arange(50)))
    assert int(jit_deform._mixed(np.uint64(12345))) == naive.mixed(12345)


@pytest.mark.parametrize("block_rows", [1, 7, 33])
def test_a_row_is_the_same_wherever_reading_starts(block_rows):
    whole, _ = rows(source_of(n_rows=150))
    part, labels = rows(pickle.loads(pickle.dumps(source_of())), 37, 93, block_rows)
    np.testing.assert_array_equal(part, whole[37:93])
    np.testing.assert_array_equal(labels, np.arange(37, 93) % 20)


def test_seeds_and_settings_are_other_stores():
    mild = srf.Deformation(elastic=1)
    sources = [source_of(), source_of(seed=4), source_of(how=mild), source_of(how=None)]
    assert len({source.stores[0].key for source in sources}) == 4
    assert not np.array_equal(rows(sources[0], 20)[0], rows(sources[1], 20)[0])
    assert source_of(n_rows=500).stores[0].key == sources[0].stores[0].key  # the same, continued


def test_nothing_moves_without_distances():
    still = srf.Deformation(rotation=0, shear=0, scale=0, shift=0, elastic=0, smoothing=0)
    X, _ = rows(source_of(how=still))
    np.testing.assert_array_equal(X, np.tile(IMAGES.reshape(20, -1), (5, 1)))


def test_prefixes_are_differences_of_files():
    source, map_ = source_of(300), srf.TensorSketch(srf.Polynomial(2), 32, random_state=0)
    whole = srf.accumulate(source, map_, classes=np.arange(20), normalize="l2")
    rest = srf.accumulate(source, like=whole, rows=(120, 300))
    first = srf.accumulate(source, like=whole, rows=(0, 120))
    assert np.array_equal((whole - rest).gram, first.gram)


@pytest.mark.parametrize(
    ("error", "words", "make"),
    [
        (ShapeError, "not images of 10 x 10", lambda: srf.deformed_mnist(flat())),
        (ParameterError, "n_rows=0", lambda: source_of(n_rows=0)),
        (ParameterError, "seed=-1", lambda: source_of(seed=-1)),
        (ParameterError, "to 2.63", lambda: source_of(seed=2**63)),
        (ParameterError, "less than 180", lambda: srf.Deformation(rotation=180)),
        (ParameterError, "at most 100", lambda: srf.Deformation(smoothing=1e5)),
        (ParameterError, "shear=-0.1", lambda: srf.Deformation(shear=-0.1)),
        (ParameterError, "elastic=nan", lambda: srf.Deformation(elastic=float("nan"))),
        (DataError, "float64 pixels", lambda: source_of(images=IMAGES / 255)),
    ],
)
def test_slips(error, words, make):
    with pytest.raises(error, match=words):
        make()


def flat():
    return srf.ArraySource(IMAGES.reshape(20, -1))
