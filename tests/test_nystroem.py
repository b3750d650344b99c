"""Nystroem features: scikit-learn's, exact at landmarks, and how landmarks are chosen."""

import tracemalloc

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem as TheirNystroem

from streamrf import RandomFeatureClassifier
from streamrf.errors import ParameterError
from streamrf.features import LANDMARKS, Concatenate, Craft, Nystroem, StructuredFourier
from streamrf.jit.threads import computing
from streamrf.kernels import Cauchy, Chi2, Composed, Exponential, Gaussian, Laplacian, Polynomial

KERNELS = (Gaussian(0.5), Laplacian(0.3), Cauchy(), Chi2(), Polynomial(), Exponential())


@pytest.fixture
def rows(rng):
    return rng.uniform(0, 1, (200, 4)).astype(np.float32)


@pytest.mark.parametrize("kernel", [*KERNELS, Composed(Polynomial(2), Gaussian(0.5))], ids=repr)
def test_features_are_those_of_scikit_learn_at_the_same_landmarks(rows, kernel):
    ours = Nystroem(kernel, 12, random_state=0).fit(rows)
    theirs = TheirNystroem(lambda x, y: kernel(x[None], y[None])[0, 0], n_components=12)
    theirs.fit(ours.landmarks_)
    order = np.argsort(theirs.component_indices_)
    expected = theirs.transform(rows)[:, order]
    np.testing.assert_allclose(ours.transform(rows), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("landmarks", LANDMARKS)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_products_with_landmarks_are_exact(rows, kernel, landmarks):
    features = Nystroem(kernel, 30, landmarks=landmarks, random_state=0).fit(rows)
    Z, chosen = features.transform(rows), features.transform(features.landmarks_)
    np.testing.assert_allclose(Z @ chosen.T, kernel(rows, features.landmarks_), atol=1e-4)


@pytest.mark.parametrize("landmarks", ["uniform", "leverage"])
def test_landmarks_are_different_rows_of_the_sample(rows, landmarks):
    chosen = Nystroem(n_components=50, landmarks=landmarks, random_state=0).fit(rows).landmarks_
    assert len({row.tobytes() for row in chosen} & {row.tobytes() for row in rows}) == 50


@pytest.mark.parametrize("landmarks", ["kmeans", "leverage"])
def test_chosen_landmarks_err_less_than_uniform_ones(rng, landmarks):
    """Where most rows are alike, uniform landmarks hardly see the others."""
    rows = np.concatenate([rng.normal(0, 0.05, (380, 5)), rng.normal(0, 2, (20, 5))])
    kernel = Gaussian(0.1)
    errors = {
        how: np.mean(
            [
                np.linalg.norm(Z @ Z.T - kernel(rows))
                for seed in range(5)
                for Z in [
                    Nystroem(kernel, 16, landmarks=how, random_state=seed).fit_transform(rows)
                ]
            ]
        )
        for how in (landmarks, "uniform")
    }
    assert errors[landmarks] < 0.7 * errors["uniform"]


def test_more_landmarks_than_rows_are_exact(rows):
    for landmarks in LANDMARKS:
        few = rows[:10]
        Z = Nystroem(n_components=25, landmarks=landmarks, random_state=0).fit_transform(few)
        assert Z.shape == (10, 25)
        np.testing.assert_allclose(Z @ Z.T, Gaussian()(few), atol=1e-5)


@pytest.mark.parametrize("landmarks", LANDMARKS)
def test_the_draw_is_the_same_whatever_the_threads(rng, landmarks):
    rows = rng.standard_normal((1500, 20)).astype(np.float32)
    found = []
    for n_threads in (1, 2):
        with computing(n_threads):
            map_ = Nystroem(n_components=150, landmarks=landmarks, random_state=0).fit(rows)
        found.append(map_.landmarks_.tobytes() + map_.root_.tobytes())
    assert found[0] == found[1]


def test_a_wrong_choice_of_landmarks_is_named(rows):
    with pytest.raises(ParameterError, match=r"landmarks must be one of .*kmeans.* got 'random'"):
        Nystroem(landmarks="random").fit(rows)


@pytest.mark.parametrize("landmarks", LANDMARKS)
@pytest.mark.parametrize("kernel", [Gaussian(0.5), Laplacian(0.3), Polynomial()], ids=repr)
def test_what_drawing_takes_is_told(rng, kernel, landmarks):
    features = Nystroem(kernel, 700, landmarks=landmarks, random_state=0)
    sample = rng.uniform(0, 1, (2500, 4)).astype(np.float32)
    tracemalloc.start()
    try:
        features.draw(4, rng, sample)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.7 * peak < features.draw_bytes(len(sample), 4) < 1.6 * peak
    assert peak < 1.02 * features.draw_bytes(len(sample), 4) + (1 << 20)


@pytest.mark.parametrize("n_components", ["x", None, 2.5, -5])
@pytest.mark.parametrize("around", [lambda m: m, lambda m: Craft(m, 4), lambda m: Concatenate([m])])
def test_a_width_that_is_none_is_refused_before_its_memory_is_planned(rows, n_components, around):
    machine = RandomFeatureClassifier(around(Nystroem(n_components=n_components)), alpha=0.1)
    with pytest.raises(ParameterError, match="n_components must be an integer above 0, got"):
        machine.fit(rows, np.arange(len(rows)) % 2)


def test_what_drawing_takes_is_that_of_the_maps_inside():
    inner = Nystroem(n_components=500)
    maps = Concatenate([StructuredFourier(n_components=64), Craft(inner, 100)])
    assert maps.draw_bytes(4096, 9) == inner.draw_bytes(4096, 9) > 25 * 500**2 - 1
    assert StructuredFourier(n_components=64).draw_bytes(4096, 9) == 0
