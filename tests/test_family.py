"""Many penalties from few factors: SciPy's dense solutions as twins."""

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve

import naive
from streamrf.jit import cholesky, strips, symmetric
from streamrf.jit.threads import computing
from streamrf.solving import Family, Normal, family
from streamrf.solving import normal as normal_module
from streamrf.solving.normal import RELATIVE_ALPHAS

pytestmark = pytest.mark.usefixtures("one_thread")


def normal_of(Q, targets, step=1.0, dtype=np.float64):
    """The normal equations of rows that all count alike."""
    Q, targets = Q.astype(np.float64), targets.astype(np.float64)
    return Normal(
        naive.packed(Q.T @ Q).astype(dtype),
        Q.sum(axis=0),
        float(len(Q)),
        targets.T @ Q,
        targets.sum(axis=0),
        np.full(Q.shape[1], step),
        (targets**2).sum(axis=0),
        is_exact=True,
    )


def random_rows(rng, width=90, decades=3.0):
    """Integers whose Gram has eigenvalues over twice as many decades, and three outputs of them."""
    mix = np.linalg.qr(rng.normal(size=(width, width)))[0] * 10 ** -np.linspace(0, decades, width)
    Q = np.rint(4000 * rng.normal(size=(600, width)) @ mix @ rng.normal(size=(width, width)))
    scores = Q @ rng.normal(size=(width, 3)) / np.abs(Q).mean()
    return Q, np.rint(100 * (scores + 3 * rng.normal(size=scores.shape)))


@pytest.fixture
def narrow(monkeypatch):
    """Let families of every width share factors; return the penalties factored."""
    factored = []
    factor = Normal.short_factor

    def counted(self, alpha):
        factored.append(alpha)
        return factor(self, alpha)

    monkeypatch.setattr(family, "MIN_WIDTH", 0)
    monkeypatch.setattr(family, "WIDTH_OF_OUTPUT", 0)
    monkeypatch.setattr(Normal, "short_factor", counted)
    return factored


def losses(normal, coef):
    """``|targets - Z coef|^2`` of the centred rows, by output."""
    A, M = normal.full(), normal.centred_moments().T
    explained = 2 * np.einsum("jo,jo->o", coef, M) - np.einsum("jo,jo->o", coef, A @ coef)
    return normal.centred_squares() - explained


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.float32])
@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 15, 23, 24, 25, 47, 48, 49, 97, 1050])
def test_packed_products_are_dense_products(rng, monkeypatch, n, dtype):
    A = rng.integers(-99, 100, (n, n))
    A = A + A.T
    G = naive.packed(A).astype(dtype)
    X = rng.integers(-99, 100, (n, 37)).astype(np.float64)
    for k in (0, 1, 3, 16, 37):
        np.testing.assert_array_equal(symmetric.product(G, X[:, :k]), A @ X[:, :k])
    monkeypatch.setattr(strips, "HAS_FMA", False)
    np.testing.assert_array_equal(symmetric.product(G, X), A @ X)


@pytest.mark.skipif(not strips.are_compiled(), reason="the bits of BLAS depend on its threads")
def test_packed_products_have_the_same_bytes_on_any_threads(rng):
    A, X = rng.normal(size=(700 * 701 // 2)), rng.normal(size=(700, 5))
    found = []
    for n_threads in (1, 2):
        with computing(n_threads):
            found.append(symmetric.product(A, X))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("decades", [0.5, 3, 6], ids=["well", "ill", "singular"])
@pytest.mark.parametrize("step", [1e-6, 1.0, 1e3])
def test_every_penalty_predicts_as_its_own_factor_does(rng, narrow, decades, step):
    normal = normal_of(*random_rows(rng, decades=decades), step)
    scale = normal.mean_diagonal()
    alphas = scale * RELATIVE_ALPHAS
    solver = Family(normal)
    found = {a: v for some in (alphas[2::4], alphas) for a, v, _ in solver.solutions(some)}
    A, M = normal.full(), normal.centred_moments().T
    assert list(found)[-1] == alphas[-1]
    assert len(narrow) <= 12
    for alpha in alphas[alphas > 1e-9 * scale]:
        expected = cho_solve(cho_factor(A + alpha * np.eye(len(A))), M)
        apart = (found[alpha] / step).T - expected
        error = np.einsum("jo,jo->o", apart, A @ apart)
        assert (error <= 1e-4 * losses(normal, expected)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_a_penalty_factored_is_solved_to_the_digits_of_float32(rng, narrow, dtype):
    Q, targets = random_rows(rng, decades=1)
    normal = normal_of(np.rint(Q / 400), targets, dtype=dtype)
    alpha = 1e-3 * normal.mean_diagonal()
    _, v, b = next(Family(normal).solutions([alpha]))
    expected_v, expected_b = normal_of(np.rint(Q / 400), targets).ridge(alpha)
    condition = np.linalg.cond(normal.full() + alpha * np.eye(len(normal.step)))
    apart = np.linalg.norm(v - expected_v) / np.linalg.norm(expected_v)
    assert apart <= 10 * 6e-8 * condition <= 0.1
    np.testing.assert_allclose(b, expected_b, rtol=1e-3)


def test_a_solution_that_is_known_to_be_enough_is_not_asked_for_again(rng, narrow, monkeypatch):
    """By the factor of its own penalty: the next step would only tell that nothing is left."""
    asked, solve = [], family.cholesky.solve
    monkeypatch.setattr(family.cholesky, "solve", lambda *given: asked.append(solve(*given)))
    normal = normal_of(*random_rows(rng, decades=1))
    assert len(list(Family(normal).solutions([1e-2 * normal.mean_diagonal()]))) == 1
    assert len(asked) == 1


def test_no_penalty_does_not_divide_by_it(rng, narrow):
    normal = normal_of(*random_rows(rng, decades=0))
    assert [alpha for alpha, *_ in Family(normal).solutions([1.0, 0.0])] == [1.0, 0.0]


def test_one_factor_serves_penalties_far_below_the_least_eigenvalue(rng, narrow):
    normal = normal_of(*random_rows(rng, decades=0))
    alphas = normal.mean_diagonal() * RELATIVE_ALPHAS[:12]
    assert len(list(Family(normal).solutions(alphas))) == 12
    assert len(narrow) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_penalties_without_a_factor_are_left_out(rng, narrow, dtype):
    Q = rng.integers(-9, 10, (50, 12))
    normal = normal_of(np.hstack((Q, Q)), Q[:, :2], dtype=dtype)  # singular
    scale = normal.mean_diagonal()
    alphas = scale * np.array([0.0, 1e-18, 1e-3, 1.0])
    solver = Family(normal)
    assert [alpha for alpha, *_ in solver.solutions(alphas)] == list(alphas[2:])
    assert not list(solver.solutions(alphas[:2]))


def test_float64_factors_where_float32_has_none(rng, narrow):
    Q = rng.integers(-9, 10, (50, 12))
    normal = normal_of(np.hstack((Q, Q)), Q[:, :2])
    alpha = 1e-9 * normal.mean_diagonal()
    assert normal.short_factor(alpha).dtype == np.float64
    assert normal.short_factor(1e-3 * normal.mean_diagonal()).dtype == np.float32
    _, v, _ = next(Family(normal).solutions([alpha]))
    np.testing.assert_allclose(v[:, :12] + v[:, 12:], np.eye(2, 12), atol=1e-6)


def test_outputs_that_never_vary_or_depend_on_others_do_no_harm(rng, narrow):
    Q, targets = random_rows(rng, decades=1)
    targets = np.hstack((targets, targets[:, :1], np.ones((len(Q), 1))))
    normal = normal_of(Q, targets)
    alphas = normal.mean_diagonal() * RELATIVE_ALPHAS[10::4]
    for alpha, v, b in Family(normal).solutions(alphas):
        assert np.isfinite(v).all()
        np.testing.assert_allclose(v[3], v[0], atol=1e-12 * np.abs(v).max())
        assert np.abs(v[4]).max() <= 1e-9 * np.abs(v).max()
        assert b[4] == pytest.approx(1)
        assert alpha in alphas


def test_narrow_equations_are_solved_directly(rng):
    normal = normal_of(*random_rows(rng))
    alphas = normal.mean_diagonal() * RELATIVE_ALPHAS[10::4]
    for alpha, v, b in Family(normal).solutions(alphas):
        expected = normal.ridge(alpha)
        np.testing.assert_allclose(v, expected[0], rtol=1e-9)
        np.testing.assert_allclose(b, expected[1], rtol=1e-9)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_solutions_side_by_side_have_the_bits_of_those_one_by_one(rng, monkeypatch, n_threads):
    normal = normal_of(*random_rows(rng))
    alphas = [*normal.mean_diagonal() * RELATIVE_ALPHAS[::4], -0.0]
    with computing(n_threads):
        found = list(normal.path(alphas))
        monkeypatch.setattr(cholesky, "MAX_ABREAST", 0)
        expected = list(normal.path(alphas))
    assert [one[0] for one in found] == [one[0] for one in expected]
    for (_, *one), (_, *other) in zip(found, expected, strict=True):
        assert [part.tobytes() for part in one] == [part.tobytes() for part in other]


@pytest.mark.parametrize("relative", [1e-5, 1e-4, 1e-2, 1.0])
def test_a_short_factor_and_refinement_solve_to_the_digits_of_float64(rng, monkeypatch, relative):
    monkeypatch.setattr(normal_module, "MIN_SHORT", 0)
    normal = normal_of(*random_rows(rng, decades=1), step=1e-3)
    alpha = relative * normal.mean_diagonal()
    v, b = normal._by_short_factor(alpha)
    A, M = normal.full() + alpha * np.eye(len(normal.step)), normal.centred_moments().T
    expected = cho_solve(cho_factor(A), M)
    apart = np.abs((v / normal.step).T - expected).max() / np.abs(expected).max()
    assert apart <= 20 * 2.2e-16 * np.linalg.cond(A)
    np.testing.assert_array_equal(v, normal.ridge(alpha)[0])
    np.testing.assert_allclose(b, (normal.totals - v @ normal.feature_sums) / normal.weight)


def test_what_a_short_factor_cannot_solve_is_left_to_a_long_one(rng, monkeypatch):
    Q = rng.integers(-9, 10, (50, 12))
    normal = normal_of(np.hstack((Q, Q)), Q[:, :2])  # singular
    alpha = 1e-8 * normal.mean_diagonal()
    expected = normal.ridge(alpha)
    monkeypatch.setattr(normal_module, "MIN_SHORT", 0)
    assert normal._by_short_factor(alpha) is None
    for found, wanted in zip(normal.ridge(alpha), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_sums_of_32_bits_and_factors_in_their_memory_take_no_other(rng, monkeypatch):
    monkeypatch.setattr(normal_module, "MIN_SHORT", 0)
    Q, targets = random_rows(rng, decades=1)
    normal = normal_of(np.rint(Q / 400), targets, dtype=np.int32)
    assert normal._by_short_factor(normal.mean_diagonal()) is None
    normal = normal_of(Q, targets)
    monkeypatch.setattr(Normal, "_by_short_factor", None)  # would raise
    normal.ridge(normal.mean_diagonal(), normal.gram)


@pytest.mark.parametrize("unit", [1e-200, 1e-60, 1e40])
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_targets_in_any_unit_have_the_same_solution(rng, monkeypatch, unit, dtype):
    """As numbers in float32 they were all 0, or too large."""
    monkeypatch.setattr(normal_module, "MIN_SHORT", 0)
    Q, targets = random_rows(rng, decades=1)
    Q = np.rint(Q / 400)
    alpha = 1e-2 * normal_of(Q, targets).mean_diagonal()
    expected = normal_of(Q, targets, dtype=dtype).ridge(alpha)
    found = normal_of(Q, targets * [1.0, unit, 0.0], dtype=dtype).ridge(alpha)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours[0], theirs[0], rtol=0, atol=1e-4 * np.abs(theirs[0]).max())
        same = unit * theirs[1]
        np.testing.assert_allclose(ours[1], same, rtol=0, atol=1e-4 * np.abs(same).max())
        assert not ours[2].any()
