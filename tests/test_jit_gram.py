"""Products of 16-bit numbers by AVX2 do what their twins say."""

import math

import numba
import numpy as np
import pytest

import naive
from streamrf.jit import gram, instructions
from streamrf.jit.threads import computing

pytestmark = pytest.mark.usefixtures("one_thread")

PLAIN = bool(numba.config.DISABLE_JIT)
LIMIT = 4095

needs_instruction = pytest.mark.skipif(
    instructions.TABLE[-1] not in instructions.AVAILABLE and not PLAIN,
    reason="the processor lacks AVX2; BLAS multiplies there",
)

# One of everything; a panel, a group and one more; several blocks; more groups than DEPTH; and,
# compiled, blocks of the greatest side.
SHAPES = [(1, 1), (16, 3), (17, 4), (5, 2), (40, 50), (33, 101), (4200, 7)]
SHAPES += [] if PLAIN else [(20, 3100)]


def whole_numbers(rng, shape, limit):
    return rng.integers(-limit, limit + 1, shape).astype(np.float32)


def aligned(shape):
    buffer = instructions.aligned_buffer(2 * math.prod(shape))
    return buffer.view(np.int16).reshape(shape)


def packed_panels(Q, spare_groups=0):
    """The panels by the kernel."""
    shape = gram.panels_shape(len(Q) + 16 * spare_groups, Q.shape[1])
    panels = aligned(shape)
    panels[:] = -7
    gram.pack(Q, panels)
    return panels


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_panels_are_those_of_the_definition(rng, shape, n_threads):
    Q = whole_numbers(rng, shape, LIMIT)
    with computing(n_threads):
        panels = packed_panels(Q)
    np.testing.assert_array_equal(panels, naive.pack(Q))


def test_groups_beyond_the_rows_are_zero(rng):
    Q = whole_numbers(rng, (20, 5), LIMIT)
    panels = packed_panels(Q, spare_groups=3)
    np.testing.assert_array_equal(panels[:, :2], naive.pack(Q))
    assert not panels[:, 2:].any()


@needs_instruction
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_added_to_the_totals(rng, shape, n_threads):
    Q = whole_numbers(rng, shape, 400)  # 4200 squares of 400 stay below 2^30
    panels = naive.pack(Q)
    copy = aligned(panels.shape)
    copy[:] = panels
    width = shape[1]
    totals = rng.integers(-(2**29), 2**29, width * (width + 1) // 2).astype(np.int32)
    expected = naive.add_products(panels, width, totals)
    with computing(n_threads):
        gram.add_products(copy, width, totals, np.zeros((1, width)))
    np.testing.assert_array_equal(totals, expected, strict=True)


@needs_instruction
@pytest.mark.parametrize("width", [1, 2, 7, 50])
def test_totals_of_float64_take_the_products_too(rng, width):
    panels = packed_panels(whole_numbers(rng, (4200, width), 700))
    totals = np.rint(rng.uniform(-(2.0**52), 2.0**52, width * (width + 1) // 2))
    expected = naive.add_products(panels, width, totals)
    gram.add_products(panels, width, totals, np.zeros((1, width)))
    np.testing.assert_array_equal(totals, expected, strict=True)


@needs_instruction
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, -1)])
def test_two_of_the_greatest_entries_fit_a_sum(signs):
    """An instruction adds two products, of the rows next to each other: 2^31 less 131,070."""
    Q = 32767 * np.array([signs, signs], dtype=np.float32)
    totals = np.zeros(3)
    gram.add_products(packed_panels(Q), 2, totals, np.zeros((1, 2)))
    square = 2 * 32767**2
    np.testing.assert_array_equal(totals, [square, square, signs[0] * signs[1] * square])


@needs_instruction
@pytest.mark.parametrize("sign", [1, -1])
def test_products_are_exact_up_to_the_last_number_of_32_bits(sign):
    """128 squares of 4095 are 2^31 less 1,048,448."""
    Q = np.full((128, 2), LIMIT, dtype=np.float32)
    Q[:, 1] *= sign
    square = 128 * LIMIT**2
    assert square < 2**31
    rest = 2**31 - 1 - int(square)
    totals = np.array([rest, sign * rest, rest], dtype=np.int32)
    expected = naive.add_products(naive.pack(Q), 2, totals)
    gram.add_products(packed_panels(Q), 2, totals, np.zeros((1, 2)))
    np.testing.assert_array_equal(totals, expected)
    assert np.abs(totals.astype(np.int64)).max() == 2**31 - 1
