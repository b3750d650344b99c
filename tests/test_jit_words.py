"""Products of 8 and 16 bits by every instruction do what their twins say, on any processor."""

from dataclasses import replace

import numba
import numpy as np
import pytest

import naive
from streamrf.jit import amx, instructions, words
from streamrf.jit.instructions import AVAILABLE, MAX_BYTE, MAX_SHORT, TABLE, fastest
from streamrf.jit.threads import computing

pytestmark = pytest.mark.usefixtures("one_thread")

PLAIN = bool(numba.config.DISABLE_JIT)
WAYS = TABLE if PLAIN else AVAILABLE

# One of everything; a word and one row more; a panel and one feature more; rows left over in a
# word; an odd and an even width of several panels; and, compiled, blocks of the greatest side.
SHAPES = [(1, 1), (2, 48), (5, 49), (6, 7), (33, 97), (47, 130), (4096, 9)]
SHAPES += [] if PLAIN else [(7, 2200), (258, 1031)]


@pytest.fixture(params=WAYS, ids=lambda way: way.name)
def way(request):
    return request.param


def entries(rng, shape, limit):
    return rng.integers(-limit, limit + 1, shape).astype(np.float32)


def laid_out(way, Q):
    panels = way.panels(Q)
    panels.view(np.uint8)[...] = 0xA5
    way.pack(Q, panels)
    return panels


def added(way, Q, totals, squares=None):
    squares = np.zeros((1, Q.shape[1])) if squares is None else squares
    way.add(laid_out(way, Q), Q.shape[1], totals, squares)
    return totals


def expected_products(Q):
    Q = Q.astype(np.float64)  # exact: the sums are below 2^53
    return naive.packed(Q.T @ Q)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(("n_rows", "limit"), [(2, MAX_SHORT), (4, MAX_BYTE)])
@pytest.mark.parametrize("shape", SHAPES[:-1])
def test_panels_of_words_are_those_of_the_definition(rng, shape, n_rows, limit, n_threads):
    Q = entries(rng, shape, limit)
    panels = np.full(words.panels_shape(*shape, n_rows), 7, dtype=np.int32)
    with computing(n_threads):
        greatest = (words.pack_shorts if n_rows == 2 else words.pack_bytes)(Q, panels)
    width = shape[1]
    found, expected = (
        p.transpose(1, 0, 2).reshape(p.shape[1], -1) for p in (panels, naive.pack_words(Q, n_rows))
    )
    np.testing.assert_array_equal(found[:, :width], expected[:, :width])
    assert greatest == (np.abs(Q).max() if n_rows == 4 else None)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(("kind", "limit"), [("shorts", MAX_SHORT), ("bytes", MAX_BYTE)])
@pytest.mark.parametrize("shape", SHAPES[:-1])
def test_panels_of_tiles_are_those_of_the_definition(rng, shape, kind, limit, n_threads):
    Q = entries(rng, shape, limit)
    panels = np.full(amx.panels_shape(*shape, kind), 7, dtype=np.int32)
    with computing(n_threads):
        greatest = (amx.pack_shorts if kind == "shorts" else amx.pack_bytes)(Q, panels)
    expected = (naive.amx_pack_shorts if kind == "shorts" else naive.amx_pack_bytes)(Q)
    np.testing.assert_array_equal(panels, expected, strict=True)
    assert greatest == (np.abs(Q).max() if kind == "bytes" else None)


@pytest.mark.parametrize(
    ("pack", "shape"),
    [
        (words.pack_bytes, words.panels_shape(600, 60, 4)),
        (amx.pack_bytes, amx.panels_shape(600, 60, "bytes")),
    ],
)
@pytest.mark.parametrize("value", [128, -128, 32767, -32767])
def test_an_entry_beyond_8_bits_is_found_wherever_it_is(rng, pack, shape, value):
    Q = entries(rng, (600, 60), MAX_BYTE)
    panels = np.empty(shape, dtype=np.int32)
    for i, j in ((0, 0), (3, 59), (147, 48), (300, 31), (599, 1)):
        Q[i, j], kept = value, Q[i, j]
        assert pack(Q, panels) == abs(value)
        Q[i, j] = kept
    assert pack(Q, panels) <= MAX_BYTE


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_added_to_the_totals(rng, way, shape, dtype, n_threads):
    Q = entries(rng, shape, min(way.limit, 300))
    totals = rng.integers(-(2**29), 2**29, shape[1] * (shape[1] + 1) // 2).astype(dtype)
    expected = totals + expected_products(Q).astype(dtype)
    with computing(n_threads):
        added(way, Q, totals)
    np.testing.assert_array_equal(totals, expected, strict=True)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, -1)])
def test_the_greatest_entries_do_not_saturate(way, n_rows, signs):
    """Sums of pairs and quadruples within an instruction; two of 32767 squared are below 2^31."""
    n_rows = n_rows if way.limit == MAX_BYTE else min(n_rows, 2)
    Q = way.limit * np.tile(np.array(signs, dtype=np.float32), (n_rows, 1))
    square = n_rows * way.limit**2
    expected = [square, square, signs[0] * signs[1] * square]
    np.testing.assert_array_equal(added(way, Q, np.zeros(3)), expected)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_whole_block_of_the_greatest_bytes_is_exact(way, sign):
    """With 128 added a sum passes over 255 x 127 x 4,096, and comes back."""
    Q = np.full((4096, 2), MAX_BYTE, dtype=np.float32)
    Q[:, 1] *= sign
    square = 4096 * MAX_BYTE**2
    np.testing.assert_array_equal(added(way, Q, np.zeros(3)), [square, square, sign * square])


@pytest.mark.parametrize("sign", [1, -1])
def test_products_are_exact_up_to_the_last_number_of_32_bits(way, sign):
    """128 squares of 4095 are 2^31 less 1,048,448."""
    if way.limit == MAX_BYTE:
        pytest.skip("a block has 4,096 rows")
    Q = np.full((128, 2), 4095, dtype=np.float32)
    Q[:, 1] *= sign
    rest = 2**31 - 1 - 128 * 4095**2
    totals = added(way, Q, np.array([rest, rest, sign * rest], dtype=np.int32))
    np.testing.assert_array_equal(totals, np.array([1, 1, sign]) * (2**31 - 1))


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 128, 1000, 4096])
def test_sums_beyond_32_bits_are_taken_in_runs_of_parts(rng, way, n_rows, n_threads):
    """Columns of any size, so that runs of all lengths come."""
    if way.limit == MAX_BYTE:
        pytest.skip("a block is summed at once")
    Q = np.rint(rng.normal(0, 1, (n_rows, 130)) * 10 ** rng.uniform(0, 3.2, 130)).clip(-5700, 5700)
    Q = Q.astype(np.float32)
    squares = naive.column_squares(Q)
    assert squares.max() < 2**31
    assert n_rows < 1000 or squares.sum(axis=0).max() > 2**31
    expected = expected_products(Q)
    with computing(n_threads):
        totals = added(way, Q, np.zeros(len(expected)), squares)
    np.testing.assert_array_equal(totals, expected, strict=True)


def test_products_of_a_part_that_is_too_great_wrap(way):
    """Other parts are not in its sum, so the multiple of 2^32 that is lacking is known."""
    if way.limit == MAX_BYTE:
        pytest.skip("a block is summed at once")
    Q = np.full((256, 2), 1000, dtype=np.float32)
    Q[64:128, 0] = MAX_SHORT
    total = added(way, Q, np.zeros(3), naive.column_squares(Q))
    square = 64 * MAX_SHORT**2
    wrapped = (square + 2**31) % 2**32 - 2**31
    assert wrapped != square
    rest, mixed = 192 * 1000**2, 192 * 1000**2 + 64 * 1000 * MAX_SHORT
    expected = [[rest + wrapped, mixed], [mixed, 256 * 1000**2]]
    np.testing.assert_array_equal(total, naive.packed(np.array(expected, dtype=np.float64)))


def test_every_way_gives_the_same_bytes(rng):
    Q = entries(rng, (101, 149), MAX_BYTE)
    Q[::5] = np.sign(Q[::5]) * MAX_BYTE
    totals = {added(way, Q, np.zeros(149 * 150 // 2)).tobytes() for way in WAYS}
    assert len(totals) == (1 if WAYS else 0)


def test_the_fastest_way_has_room_for_the_entries():
    for limit in (MAX_BYTE, MAX_SHORT):
        first = next((row for row in AVAILABLE if row.limit >= limit), None)
        assert fastest(limit) is first
    assert fastest(MAX_SHORT, ()) is None


@pytest.mark.parametrize(
    ("setting", "value"), [("CPU_NAME", "znver4"), ("CPU_FEATURES", "+avx2"), ("ENABLE_AVX", 0)]
)
def test_blas_multiplies_where_numba_is_to_compile_for_another_processor(
    monkeypatch, setting, value
):
    monkeypatch.setattr(numba.config, setting, value)
    assert instructions.available() == ()


def test_ways_that_the_system_does_not_permit_are_passed_over(monkeypatch):
    refused = replace(TABLE[-1], name="refused", permitted=lambda: False)
    needless = replace(refused, needs=(frozenset(),))
    lacking = replace(refused, needs=(frozenset({"none has this"}),), permitted=pytest.fail)
    monkeypatch.setattr(instructions, "TABLE", (needless, lacking, *TABLE))
    assert instructions.available() == AVAILABLE


@pytest.mark.parametrize(
    ("system", "machine"), [("Darwin", "x86_64"), ("Windows", "AMD64"), ("Linux", "aarch64")]
)
def test_tiles_are_asked_for_where_linux_has_them_alone(monkeypatch, system, machine):
    monkeypatch.setattr(amx.platform, "system", lambda: system)
    monkeypatch.setattr(amx.platform, "machine", lambda: machine)
    monkeypatch.setattr(amx.ctypes, "CDLL", pytest.fail)
    assert not amx.permitted()


@pytest.mark.parametrize("status", [0, -1])
def test_linux_says_whether_tiles_may_be_used(monkeypatch, status):
    asked = []

    class Library:
        def syscall(self, *arguments):
            asked.append(arguments)
            return status

    monkeypatch.setattr(amx.platform, "system", lambda: "Linux")
    monkeypatch.setattr(amx.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(amx.ctypes, "CDLL", lambda name: Library())
    assert amx.permitted() is (status == 0)
    assert asked == [(158, 0x1023, 18)]
