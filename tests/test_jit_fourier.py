"""Waves are cosines and sines to float32 precision, of the phases that their twins say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from streamrf.jit import cosines
from streamrf.jit.lanes import LANES
from streamrf.jit.threads import computing

pytestmark = pytest.mark.usefixtures("one_thread")

EPSILON = np.finfo(np.float32).eps
ONE = np.float32(1)


def waves(phases):
    """Cosines and sines of float32 phases by the kernel."""
    m = -(-len(phases) // LANES)
    out = np.zeros((1, 2 * m, LANES), dtype=np.float32)
    out.reshape(-1)[: len(phases)] = phases
    ones = np.ones(m, dtype=np.float32)
    cosines.fourier(ones, 0 * ones, ONE, m, out)
    cosine, sine = out.reshape(2, -1)[:, : len(phases)]
    return cosine, sine


def phases_below(limit, rng):
    """Phases of every size: uniform, small, and about multiples of pi/4 where branches meet."""
    multiples = np.arange(-int(limit / (np.pi / 4)), int(limit / (np.pi / 4)) + 1) * np.pi / 4
    multiples = rng.choice(multiples, 10_000)
    near = [np.nextafter(np.float32(multiples), np.float32(end)) for end in (-np.inf, 0, np.inf)]
    powers = np.float32(2.0) ** np.arange(-149, int(np.log2(limit)))
    uniform = [rng.uniform(-bound, bound, 20_000) for bound in (1, 10, limit)]
    phases = np.concatenate([*near, *uniform, powers, -powers, [0, limit, -limit]])
    return phases.astype(np.float32)


def test_cosines_and_sines_are_within_1e7_of_float64(rng):
    phases = phases_below(float(cosines.FAR), rng)
    for wave, exact in zip(waves(phases), naive.cosine_sine(phases), strict=True):
        assert np.abs(wave - exact).max() <= 1e-7
        assert np.abs(wave).max() <= 1


def test_phases_too_large_for_float32_reduction_are_as_exact(rng):
    sizes = 10 ** rng.uniform(4, 8, 10_000)
    phases = (sizes * rng.choice([-1, 1], len(sizes))).astype(np.float32)
    for wave, exact in zip(waves(phases), naive.cosine_sine(phases), strict=True):
        assert np.abs(wave - exact).max() <= 3e-7  # pi is known to 1e-16: 4e-9 at 1e8


def test_waves_of_any_finite_phase_are_bounded():
    phases = np.float32([1e10, -1e20, 3e38, -3.4e38])
    for wave in waves(phases):
        assert np.abs(wave).max() <= 1


def test_a_phase_that_is_no_number_gives_none_and_leaves_others_alone():
    phases = np.float32([0.5, np.nan, 1e6, -0.5])
    for wave, exact in zip(waves(phases), naive.cosine_sine(phases), strict=True):
        np.testing.assert_array_equal(np.isnan(wave), [False, True, False, False])
        np.testing.assert_allclose(wave, exact, atol=1e-7)


def waves_settings(rng, n_frequencies, n_sines, scale):
    scales = (scale * rng.uniform(0.5, 2, n_frequencies)).astype(np.float32)
    offsets = rng.uniform(0, 6, n_frequencies).astype(np.float32)
    return scales, offsets, np.float32(0.3), n_sines


class Structured:
    """Settings of `cosines.structured_fourier`."""

    kernel = staticmethod(cosines.structured_fourier)
    twin = staticmethod(naive.structured_fourier)

    def __init__(self, rng, d, padded, n_frequencies, n_sines):
        blocks = -(-n_frequencies // padded)
        signs = rng.choice(np.float32([-1, 1]), size=(blocks, 3, padded))
        self.settings = (signs, *waves_settings(rng, n_frequencies, n_sines, 1 / padded))


class Fastfood:
    """Settings of `cosines.fastfood`."""

    kernel = staticmethod(cosines.fastfood)
    twin = staticmethod(naive.fastfood)

    def __init__(self, rng, d, padded, n_frequencies, n_sines):
        blocks = -(-n_frequencies // padded)
        signs = rng.choice(np.float32([-1, 1]), size=(blocks, d))
        order = np.array([rng.permutation(padded) for _ in range(blocks)], dtype=np.int32)
        normals = rng.standard_normal((blocks, padded)).astype(np.float32)
        scales = waves_settings(rng, n_frequencies, n_sines, 1 / padded)
        self.settings = (signs, order, normals, *scales)


def compiled(draw, X, width):
    """The rows' features by the kernel, in an array of `width` features filled with -7."""
    x = naive.lanes(X)
    out = np.full((len(x), width, LANES), -7, dtype=np.float32)
    draw.kernel(x, *draw.settings, out)
    return naive.rows(out, len(X))


@pytest.mark.parametrize("kind", [Structured, Fastfood])
@given(
    st.integers(1, 20),
    st.integers(1, 40),
    st.integers(0, 2),
    st.integers(1, 100),
    st.floats(0, 1),
    st.integers(0, 2**32 - 1),
)
def test_structured_waves_are_those_of_the_definition(kind, n, d, longer, m, share, seed):
    rng = np.random.default_rng(seed)
    n_sines = round(share * m)
    padded = 1 << (d - 1).bit_length() + longer
    draw = kind(rng, d, padded, m, n_sines)
    X = rng.standard_normal((n, d)).astype(np.float32)
    Z = compiled(draw, X, m + n_sines + 2)
    assert (Z[:, m + n_sines :] == -7).all()
    # A phase is a few of |x| here, and some thirty roundings in a row each move it by EPSILON.
    bound = 60 * EPSILON * (1 + np.linalg.norm(X, axis=1, keepdims=True))
    assert (np.abs(Z[:, : m + n_sines] - draw.twin(X, *draw.settings)) <= bound).all()


@pytest.mark.parametrize("n_sines", [0, 3, 7])
@pytest.mark.parametrize("groups", [1, 3])
def test_dense_waves_are_those_of_the_definition(rng, n_sines, groups):
    m = 7
    settings = waves_settings(rng, m, n_sines, 1.0)
    products = rng.standard_normal((groups, m, LANES)).astype(np.float32)
    out = np.full((groups, m + n_sines + 1, LANES), -7, dtype=np.float32)
    out[:, :m] = products
    cosines.fourier(*settings, out)
    expected = naive.fourier(naive.rows(products, groups * LANES), *settings)
    Z = naive.rows(out, groups * LANES)
    np.testing.assert_allclose(Z[:, :-1], expected, atol=10 * EPSILON)
    assert (Z[:, -1] == -7).all()


@pytest.mark.parametrize("kind", [Structured, Fastfood])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_rows_bits_do_not_depend_on_its_place_or_the_threads(rng, kind, n_threads):
    draw = kind(rng, 21, 32, 45, 20)
    X = rng.standard_normal((53, 21)).astype(np.float32)
    X[::7] *= 1e6  # phases that are reduced otherwise
    alone = np.concatenate([compiled(draw, x[np.newaxis], 65) for x in X])
    order = rng.permutation(len(X))
    with computing(n_threads):
        together = compiled(draw, X[order], 65)
    assert together.tobytes() == alone[order].tobytes()
