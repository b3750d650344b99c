"""Nothing wrong in silence: what hostile testers found, each mended."""

import numpy as np
import pytest

import streamrf as srf
from streamrf.errors import DataError, ParameterError, StreamrfError

ROWS = np.random.default_rng(0).normal(size=(200, 3))
LABELS, VALUES = (ROWS[:, 0] > 0).astype(int), ROWS[:, 0] + ROWS[:, 1] ** 2
MAP = srf.RandomFourier(srf.Gaussian(0.1), 16, random_state=0)


def bytes_of(saved, path):
    saved.save(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    "maps",
    [
        pytest.param([MAP, srf.Identity()], id="parts"),
        pytest.param([srf.Concatenate([MAP]), MAP], id="inside another"),
    ],
)
def test_sums_of_seeded_parts_draw_no_seed_of_their_own(maps, tmp_path):
    source = srf.ArraySource(ROWS, LABELS)
    fits = [srf.accumulate(source, srf.Concatenate(maps)) for _ in range(2)]
    assert fits[0].encoder.features.random_state is None
    assert bytes_of(fits[0], tmp_path / "a") == bytes_of(fits[1], tmp_path / "b")


def test_sums_of_parts_without_a_seed_keep_the_one_that_was_drawn():
    free = srf.Concatenate([MAP, srf.RandomFourier(srf.Gaussian(1.0), 8)])
    features = srf.accumulate(srf.ArraySource(ROWS, LABELS), free).encoder.features
    assert isinstance(features.random_state, int)
