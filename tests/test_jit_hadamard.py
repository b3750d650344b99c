"""Walsh-Hadamard transforms and what is made of them do what their twins say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from streamrf.jit import hadamard
from streamrf.jit.lanes import LANES
from streamrf.jit.threads import computing

pytestmark = pytest.mark.usefixtures("one_thread")

LOG2_LENGTHS = range(15)  # 2^13 and 2^14 are beyond hadamard.MIDDLE and so cut once more
EPSILON = np.finfo(np.float32).eps


def whole_numbers(rng, shape, limit):
    """Float32 whole numbers, so that sums and products below 2^24 are exact in any order."""
    return rng.integers(-limit, limit + 1, size=shape).astype(np.float32)


def signs_of(rng, shape):
    return rng.choice(np.float32([-1, 1]), size=shape)


class Draw:
    """Settings of `hadamard.maclaurin` for rows of width d."""

    def __init__(self, rng, d, degrees):
        padded = 1 << (d - 1).bit_length()
        self.degrees = np.sort(np.asarray(degrees, dtype=np.int64))[::-1].copy()
        n_transforms = sum(self.degrees[start] for start in range(0, len(degrees), padded))
        self.signs = signs_of(rng, (n_transforms, d))
        self.picks = rng.integers(0, padded, size=self.degrees.sum()).astype(np.int32)
        self.scales = (2.0 ** rng.integers(-3, 4, size=len(degrees))).astype(np.float32)

    @property
    def settings(self):
        return self.signs, self.degrees, self.picks, self.scales

    def compiled(self, X, first=0, width=None):
        """The rows' features by the kernel, in an array of `width` features filled with -7."""
        x = naive.lanes(X)
        width = first + len(self.degrees) if width is None else width
        out = np.full((len(x), width, LANES), -7, dtype=np.float32)
        hadamard.maclaurin(x, *self.settings, first, out)
        return naive.rows(out, len(X))


def subsampled(Z, signs, picks, scale):
    """The rows' picks by the kernel; the padding holds what must not matter."""
    padded = 1 << (Z.shape[1] - 1).bit_length()
    z = np.full((-(-len(Z) // LANES), padded, LANES), np.nan, dtype=np.float32)
    z[:, : Z.shape[1]] = naive.lanes(Z)
    out = np.empty((len(z), len(picks), LANES), dtype=np.float32)
    hadamard.subsampled(z, signs, picks, np.float32(scale), out)
    return naive.rows(out, len(Z))


@pytest.mark.parametrize("log2_length", LOG2_LENGTHS)
def test_the_transform_of_whole_numbers_is_exact(rng, log2_length):
    a = whole_numbers(rng, (1 << log2_length, LANES), 1000)  # sums below 2^14 * 1000 < 2^24
    expected = naive.fwht(a)
    hadamard.fwht(a)
    np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("log2_length", LOG2_LENGTHS)
def test_the_transform_of_reals_is_as_close_as_its_sums_allow(rng, log2_length):
    a = rng.standard_normal((1 << log2_length, LANES)).astype(np.float32)
    expected = naive.fwht(a)
    # Each of the log2(n) levels rounds once: the bound of pairwise summation.
    bound = log2_length * EPSILON * np.abs(a).sum(axis=0)
    hadamard.fwht(a)
    assert (np.abs(a - expected) <= bound).all()


@given(st.integers(0, LOG2_LENGTHS[-1] // 2), st.integers(0, 2**32 - 1))
def test_the_transform_is_its_own_inverse_but_for_the_length(log2_length, seed):
    a = whole_numbers(np.random.default_rng(seed), (1 << log2_length, LANES), 1000)
    twice = a.copy()
    hadamard.fwht(twice)
    hadamard.fwht(twice)
    np.testing.assert_array_equal(twice, a * len(a))


def test_a_lane_does_not_see_its_neighbours(rng):
    a = rng.standard_normal((256, LANES)).astype(np.float32)
    whole = a.copy()
    hadamard.fwht(whole)
    for lane in (0, 7, 8, 15):
        alone = np.full_like(a, np.nan)
        alone[:, (lane + 5) % LANES] = a[:, lane]
        hadamard.fwht(alone)
        np.testing.assert_array_equal(alone[:, (lane + 5) % LANES], whole[:, lane])


@pytest.mark.parametrize("n_threads", [1, 2])
def test_groups_are_transformed_each_by_itself(rng, n_threads):
    a = whole_numbers(rng, (5, 64, LANES), 1000)
    expected = naive.fwht_groups(a)
    with computing(n_threads):
        hadamard.fwht_groups(a)
    np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize(("d", "length"), [(1, 1), (3, 4), (8, 8), (20, 64), (300, 512)])
def test_a_signed_transform_is_of_flipped_rows_filled_up_by_zeros(rng, d, length):
    x, signs = whole_numbers(rng, (d, LANES), 100), signs_of(rng, d)
    buffer = np.full((length, LANES), np.nan, dtype=np.float32)
    hadamard.signed_transform(x, signs, buffer)
    np.testing.assert_array_equal(buffer, naive.signed_transform(x, signs, length))


@pytest.mark.parametrize(("d", "n_transforms"), [(1, 3), (5, 1), (8, 4), (17, 3)])
def test_transforms_of_a_row_stand_one_below_the_other(rng, d, n_transforms):
    X, signs = whole_numbers(rng, (33, d), 100), signs_of(rng, (n_transforms, d))
    x = naive.lanes(X)
    out = np.empty((len(x), n_transforms << (d - 1).bit_length(), LANES), dtype=np.float32)
    hadamard.transforms(x, signs, out)
    np.testing.assert_array_equal(naive.rows(out, len(X)), naive.transforms(X, signs))


# Degrees are few and numbers small, so that every product stays a whole number below 2^24.
@pytest.mark.parametrize("n", [1, 15, 16, 33])
@pytest.mark.parametrize(
    ("d", "degrees"),
    [
        (1, [3, 2, 1]),
        (3, [1]),
        (5, [3, 3, 2, 2, 2, 1, 1, 1]),  # one block, exactly full
        (5, [4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1]),  # a second block, of lower degree
        (8, [2] * 30),
        (17, [2] * 5 + [1] * 40),
    ],
)
def test_maclaurin_products_are_those_of_the_definition(rng, n, d, degrees):
    draw = Draw(rng, d, degrees)
    X = whole_numbers(rng, (n, d), 2)
    np.testing.assert_array_equal(draw.compiled(X), naive.maclaurin(X, *draw.settings))


@given(
    st.integers(1, 20),
    st.integers(1, 40),
    st.lists(st.integers(1, 4), min_size=1, max_size=50),
    st.integers(0, 2**32 - 1),
)
def test_maclaurin_products_of_reals_are_close_to_the_definition(n, d, degrees, seed):
    rng = np.random.default_rng(seed)
    draw = Draw(rng, d, degrees)
    X = rng.standard_normal((n, d)).astype(np.float32)
    # A factor of at most |x|_1 errs by 6 levels of rounding, a product by the sum of its factors'.
    largest = np.abs(X).sum(axis=1, keepdims=True) ** draw.degrees * draw.scales
    bound = 8 * draw.degrees * EPSILON * largest
    error = np.abs(draw.compiled(X) - naive.maclaurin(X, *draw.settings))
    assert (error <= bound).all()


def test_maclaurin_writes_nothing_but_its_own_features(rng):
    draw = Draw(rng, 6, [2, 2, 1])
    X = whole_numbers(rng, (20, 6), 2)
    Z = draw.compiled(X, first=4, width=9)
    np.testing.assert_array_equal(Z[:, 4:7], naive.maclaurin(X, *draw.settings))
    assert (Z[:, :4] == -7).all()
    assert (Z[:, 7:] == -7).all()


def test_maclaurin_of_no_features_writes_nothing(rng):
    x = naive.lanes(whole_numbers(rng, (3, 4), 2))
    out = np.full((1, 2, LANES), -7, dtype=np.float32)
    hadamard.maclaurin(x, *Draw(rng, 4, []).settings, 2, out)
    assert (out == -7).all()


@pytest.mark.parametrize("n", [1, 16, 50])
@pytest.mark.parametrize("width", [1, 2, 13, 16, 1000])
def test_subsampled_rows_of_the_transform_are_those_of_the_definition(rng, n, width):
    Z = whole_numbers(rng, (n, width), 1000)
    signs = signs_of(rng, width)
    padded = 1 << (width - 1).bit_length()
    picks = np.sort(rng.permutation(padded)[: (padded + 1) // 2]).astype(np.int32)
    expected = naive.subsampled(Z, signs, picks, 0.25)
    np.testing.assert_array_equal(subsampled(Z, signs, picks, 0.25), expected)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_rows_bits_do_not_depend_on_its_place_or_the_threads(rng, n_threads):
    d = 21
    X = rng.standard_normal((53, d)).astype(np.float32)
    draw = Draw(rng, d, rng.integers(1, 5, size=45))
    signs, picks = signs_of(rng, d), np.arange(0, 32, 3, dtype=np.int32)
    alone = np.concatenate([draw.compiled(x[np.newaxis]) for x in X])
    alone_picked = np.concatenate([subsampled(x[np.newaxis], signs, picks, 0.3) for x in X])
    order = rng.permutation(len(X))
    with computing(n_threads):
        together = draw.compiled(X[order])
        picked = subsampled(X[order], signs, picks, 0.3)
    assert together.tobytes() == alone[order].tobytes()
    assert picked.tobytes() == alone_picked[order].tobytes()
