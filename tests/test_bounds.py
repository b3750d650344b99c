"""The papers' bounds, from their chances, and on errors measured."""

import numpy as np
import pytest
from sklearn.preprocessing import normalize

import streamrf as srf
from streamrf.errors import ParameterError
from streamrf.features import fourier_width, hoeffding_width, maclaurin_width, products_width

pytestmark = pytest.mark.usefixtures("one_thread")


def test_widths_meet_the_chance_of_their_papers():
    """The chance at the width is the one asked for, by the formulas of the papers."""
    error, chance = 0.3, 0.01
    width = hoeffding_width(error, chance, 2.0, n_rows=20)
    assert 210 * 2 * np.exp(-width * error**2 / 8) == pytest.approx(chance, rel=0.02)
    width = fourier_width(error, chance, 7, 1.5, 2.0)
    found = 2**8 * (1.5 * 2 / error) ** 2 * np.exp(-width * error**2 / (4 * 9))
    assert found == pytest.approx(chance, rel=0.02)
    width = maclaurin_width(srf.Exponential(), error, chance, 1.0, n_features=3)
    largest, slope = 2 * np.exp(2), np.e + 4 * np.sqrt(3) * np.exp(2)
    found = np.log(2) + 6 * np.log(32 * slope / error) - width * error**2 / (8 * largest**2)
    assert found == pytest.approx(np.log(chance), abs=0.01)
    width = products_width(4, error, chance, n_rows=50)
    c = np.sqrt(2) * (2 / np.e) ** 2
    found = 1275 * c**4 * np.exp(-0.5 * (width * error**2 / 11) ** (1 / 10))
    assert found == pytest.approx(chance, rel=1e-6)


def test_errors_stay_within_the_bounds(rng):
    X = normalize(rng.standard_normal((15, 6)), norm="l1")
    for features, width in (
        (srf.RandomFourier(srf.Gaussian(0.5), paired=False), hoeffding_width(0.2, 0.01, 2.0, 15)),
        (
            srf.RandomMaclaurin(srf.Polynomial(2, gamma=1.0), projection="rademacher"),
            maclaurin_width(srf.Polynomial(2, gamma=1.0), 1.0, 0.01, n_rows=15),
        ),
    ):
        error = 0.2 if isinstance(features, srf.RandomFourier) else 1.0
        for seed in range(3):
            features.set_params(n_components=width, random_state=seed)
            Z = features.fit_transform(X)
            assert np.abs(Z @ Z.T - features.kernel_(X)).max() < error


def test_what_has_no_bound_is_refused():
    with pytest.raises(ParameterError, match="no value at p radius"):
        maclaurin_width(srf.VovkInfinite(), 0.1, 0.1)
    for error, chance in ((0, 0.1), (0.1, 1)):
        with pytest.raises(ParameterError, match="error must be above 0"):
            hoeffding_width(error, chance, 1.0)
