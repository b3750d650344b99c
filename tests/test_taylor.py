"""Sketches by degree, and constants drawn once: more of the width for what varies."""

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from draws import errors_over_draws
from streamrf.errors import ParameterError
from streamrf.features import RandomMaclaurin, TaylorSketch, TensorSketch
from streamrf.kernels import Polynomial

pytestmark = pytest.mark.usefixtures("one_thread")


def relative_error(features, X, n_draws=5):
    """Root mean square error over pairs of rows, relative to that of the kernel."""
    errors = errors_over_draws(features, X, n_draws)
    K = features.kernel(X)[np.triu_indices(len(X))]
    return np.sqrt(np.square(errors).mean() / np.square(K).mean())


def test_taylor_sketches_are_products_of_count_sketches(rng):
    """Each degree by its definition: circular convolutions of count sketches of x."""
    X = rng.standard_normal((20, 6))
    features = TaylorSketch(Polynomial(3, coef0=0.5), 40, random_state=0).fit(X)
    Z = features.transform(X)
    a = features.kernel_.maclaurin()
    np.testing.assert_allclose(Z[:, 0], np.sqrt(a[0]), rtol=1e-6)
    np.testing.assert_allclose(Z[:, 1:7], np.sqrt(a[1]) * X, rtol=1e-6)
    assert features.widths_[:2].tolist() == [0, 0]
    assert features.widths_.sum() == 33
    first, factor = 7, 0
    for degree in (2, 3):
        width = features.widths_[degree]
        sketches = np.zeros((degree, len(X), width))
        for sketched in sketches:
            for j in range(6):
                sketched[:, features.buckets_[factor, j]] += features.signs_[factor, j] * X[:, j]
            factor += 1
        expected = sketches[0]
        for sketched in sketches[1:]:
            expected = np.array(
                [
                    [sum(u[i] * v[(k - i) % width] for i in range(width)) for k in range(width)]
                    for u, v in zip(expected, sketched, strict=True)
                ]
            )
        found = Z[:, first : first + width]
        np.testing.assert_allclose(found, np.sqrt(a[degree]) * expected, atol=1e-4)
        first += width


def test_a_taylor_sketch_has_less_error_than_a_tensor_sketch(rng):
    X = normalize(rng.standard_normal((60, 20)))
    kernel = Polynomial(7)
    errors = [relative_error(kind(kernel, 512), X) for kind in (TaylorSketch, TensorSketch)]
    assert errors[0] < 0.8 * errors[1]


def test_degrees_of_a_taylor_sketch_are_weighed_and_its_width_is_checked(rng):
    X = normalize(rng.standard_normal((50, 5)))
    features = TaylorSketch(Polynomial(4), 3000, random_state=0).fit(X)
    weights = features.weights_for(Polynomial(4, coef0=0.5))
    scaled = features.transform(X) * np.sqrt(weights)[features.blocks]
    assert np.abs(scaled @ scaled.T - Polynomial(4, coef0=0.5)(X)).mean() < 0.2
    with pytest.raises(ParameterError, match="n_components must be at least 9"):
        TaylorSketch(Polynomial(4), 8).fit(X)
    with pytest.raises(ParameterError, match="n_components must be exactly 6"):
        TaylorSketch(Polynomial(1), 8).fit(X)
    linear = TaylorSketch(Polynomial(1), 6).fit(X)
    np.testing.assert_allclose(
        linear.transform(X) @ linear.transform(X).T, linear.kernel_(X), atol=1e-6
    )


def test_the_constant_alone_may_be_exact(rng):
    """Half of the draws of the geometric measure are constants, which are then other terms."""
    X = normalize(rng.standard_normal((40, 5)))
    kernel = Polynomial(3)
    errors = [
        relative_error(RandomMaclaurin(kernel, 128, h01=h01), X) for h01 in (False, "constant")
    ]
    assert errors[1] < 0.9 * errors[0]
    features = RandomMaclaurin(kernel, 128, h01="constant", random_state=0).fit(X)
    assert np.count_nonzero(features.blocks == 0) == 1
    with pytest.raises(ParameterError, match="h01 must be one of"):
        RandomMaclaurin(h01="linear").fit(X)
