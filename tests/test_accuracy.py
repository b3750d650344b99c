"""How many digits of a solution are right, and what is said where few are."""

import logging
import re
from fractions import Fraction

import numpy as np
import pytest

import naive
import streamrf as srf
from streamrf.errors import SolveError
from streamrf.jit import cholesky, lapack, packed
from streamrf.solving import accuracy
from streamrf.statistics import packed_size

pytestmark = pytest.mark.usefixtures("one_thread")

N = 600


def statistics(rng, precision="exact", n_components=40):
    """Sums of features that are nearly dependent: a wide Gaussian on few columns."""
    X = rng.normal(size=(N, 2)).astype(np.float32)
    source = srf.ArraySource(X, np.sin(X[:, 0]) + X[:, 1])
    features = srf.RandomFourier(srf.Gaussian(gamma=1e-3), n_components, random_state=0)
    return srf.accumulate(
        source, features, regression=True, precision=precision, normalize=None, random_state=0
    )


def exact_coefficients(sums, alpha):
    """The solution of the normal equations by fractions, without any rounding."""
    normal = sums.normal()
    n = len(normal.step)
    gram = np.empty((n, n))
    packed.unpack(normal.gram, gram)
    s, weight = [Fraction(x) for x in normal.feature_sums], Fraction(normal.weight)
    total, step = Fraction(normal.totals[0]), [Fraction(x) for x in normal.step]
    rows = []
    for i in range(n):
        row = [(Fraction(gram[i, j]) - s[i] * s[j] / weight) * step[i] * step[j] for j in range(n)]
        row[i] += Fraction(alpha)
        rows.append([*row, (Fraction(normal.moments[0, i]) - total * s[i] / weight) * step[i]])
    for i in range(n):  # Gauss: positive definite, so no pivots
        for k in range(i + 1, n):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    x = [Fraction(0)] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][j] * x[j] for j in range(i + 1, n))) / rows[i][i]
    return np.array([float(value) for value in x])


def error(sums, alpha):
    normal = sums.normal()
    found = (normal.ridge(alpha)[0] / normal.step)[0]
    expected = exact_coefficients(sums, alpha)
    return np.abs(found - expected).max() / np.abs(expected).max()


def test_exact_sums_are_solved_to_the_last_digits_at_any_penalty(rng, monkeypatch):
    sums = statistics(rng, n_components=12)
    alpha = 1e-16 * sums.alpha_scale()
    monkeypatch.setattr("streamrf.solving.normal.REFINED_DIGITS", 0)
    plain = error(sums, alpha)
    monkeypatch.setattr("streamrf.solving.normal.REFINED_DIGITS", 17)
    assert error(sums, alpha) < 1e-12 < plain / 100


def test_a_penalty_that_leaves_no_digits_is_told(rng, caplog):
    """Unrounded sums have errors of their own, which no refinement takes away."""
    sums = statistics(rng, "float64")
    for relative in 10.0 ** np.arange(-15, -9):
        try:
            sums.solve(alpha := relative * sums.alpha_scale())
            break
        except SolveError:
            continue
    assert f"alpha={alpha:.3g} is so small for these 40 features" in caplog.text
    assert "correct digit" in caplog.text


def test_a_penalty_that_leaves_digits_is_not(rng, caplog):
    for precision in ("exact", "float64"):
        sums = statistics(rng, precision)
        sums.solve(1e-6 * sums.alpha_scale())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("n", [1, 2, 7, 30])
@pytest.mark.parametrize("decades", [0, 6, 12])
def test_the_norm_of_the_inverse_is_estimated(n, decades, rng):
    """From below, and within a factor of 3 (Higham: nearly always)."""
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    A = Q * 10.0 ** np.linspace(0, -decades, n) @ Q.T
    A = (A + A.T) / 2
    vector, full = np.empty(packed_size(n)), np.empty((n, n))
    matrix_of = {}
    for k in range(len(vector)):  # the layout by the function that reads it
        vector[:] = 0
        vector[k] = 1
        packed.unpack(vector, np.copyto(full, 0) or full)
        matrix_of[k] = np.argwhere(full)[0]
    vector[:] = [A[i, j] for i, j in matrix_of.values()]
    assert lapack.factor(vector, n)
    scale = rng.uniform(0.5, 2, size=n)
    expected = np.abs(scale[:, None] * np.linalg.inv(A) * scale).sum(axis=0).max()
    found = accuracy.inverse_norm(vector, scale)
    assert expected / 3 < found < expected * 1.01


def test_features_of_heavy_tails_are_named(rng):
    """It said that alpha=10 was too small, and that alpha=2e8 was not."""
    X = rng.normal(size=(200, 4)).astype(np.float32)
    X[:, 2] *= 1e8
    source = srf.ArraySource(X, X[:, 0].astype(np.float64))
    features = srf.RandomMaclaurin(srf.Polynomial(2), 15, h01=True, random_state=0)
    sums = srf.accumulate(
        source, features, regression=True, normalize=None, precision="float64", random_state=0
    )
    with pytest.raises(SolveError, match=r"not for alpha=0\.001: \d+ of them \(columns ") as told:
        sums.solve(1e-3)
    diagonal = np.sqrt(sums.normal().diagonal())
    named = [int(j) for j in re.search(r"columns ([\d, ]*\d)", str(told.value))[1].split(",")]
    assert set(named) == set(np.argsort(-diagonal)[:5].tolist())
    assert "too small" not in str(told.value)


def test_a_step_that_would_change_nothing_is_not_taken(rng):
    n, n_asked = 400, []
    X = rng.normal(size=(n, 2 * n))
    A, expected = X @ X.T / n + 0.01 * np.eye(n), rng.normal(size=(n, 3))
    moments, factor = A @ expected, naive.packed(A).astype(np.float32)
    assert cholesky.factor(factor, n)

    def residual(x):
        n_asked.append(len(x))
        return moments - A.astype(np.longdouble) @ x

    first = np.asfortranarray(moments, dtype=np.float32)
    cholesky.solve(factor, first)
    for rounding, n_steps in ((0.0, accuracy.STEPS), (2.0**-52, 3), (1e-3, 1)):
        n_asked.clear()
        found, has_settled = accuracy.refined(first, factor, residual, rounding)
        assert has_settled
        assert len(n_asked) <= n_steps
        np.testing.assert_allclose(found, expected, rtol=0, atol=max(1e-13, rounding**2))
