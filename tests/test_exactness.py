"""Sums of rounded features are exact: the same bytes however the rows are added up."""

import os
import subprocess
import sys
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import integers
import streamrf as srf
from integers import accumulate, assert_same_bytes, rounded, rounded_targets, unpacked
from streamrf.errors import ParameterError, StreamrfError
from streamrf.jit import instructions
from streamrf.jit.packed import diagonal
from streamrf.statistics import gram as gram_module
from streamrf.statistics.gram import CompactGram, ExactGram, FloatGram, gram_class, packed_size
from streamrf.statistics.labelled import BitSums, ClassSums
from streamrf.statistics.products import PRODUCTS, FloatProducts, IntegerProducts
from streamrf.statistics.statistics import Statistics
from streamrf.statistics.sums import Sums, read_targets
from streamrf.statistics.values import ValueSums
from streamrf.storage import Fields

pytestmark = pytest.mark.usefixtures("one_thread")

N = 1500
CODES = {"codes": srf.ErrorCorrectingCodes(n_bits=3), "classes": range(7)}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 6)).astype(np.float32)
    y = rng.integers(0, 7, N)
    values = rng.normal(size=(N, 2)) * (1.0, 1e6) + (0.0, 1e9)
    weights = rng.gamma(2.0, 50.0, N)
    for array in (X, y, values, weights):
        array.flags.writeable = False
    return X, y, values, weights


CASES = {
    "classes": (False, False, {}),
    "classes-weighted": (False, True, {"normalize": "l2"}),
    "bits": (False, False, CODES),
    "bits-weighted": (False, True, CODES),
    "values": (True, False, {"regression": True}),
    "values-weighted": (True, True, {"regression": True, "normalize": "standard"}),
}


@pytest.fixture(scope="module", params=CASES)
def case(request, rows):
    """(source of some rows, X, y, weights, options, statistics of all rows)."""
    regression, weighted, options = CASES[request.param]
    X, labels, values, weights = rows
    y = values if regression else labels
    weights = weights if weighted else None

    def source(order=slice(None)):
        return srf.ArraySource(X[order], y[order], None if weights is None else weights[order])

    return source, X, y, weights, options, accumulate(source(), integers.features(), **options)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("block_rows", [64, 333, 4096])
def test_bytes_do_not_depend_on_threads_and_blocks(case, n_threads, block_rows):
    source, _, _, _, options, reference = case
    again = accumulate(
        source(), integers.features(), block_rows=block_rows, n_threads=n_threads, **options
    )
    assert_same_bytes(again.to_tree(), reference.to_tree())


def test_bytes_do_not_depend_on_threads_where_blas_uses_several(rows):
    X, y, _, _ = rows
    one, two = (
        accumulate(srf.ArraySource(X, y), integers.features(700), n_threads=n) for n in (1, 2)
    )
    assert_same_bytes(one.to_tree(), two.to_tree())


def test_bytes_do_not_depend_on_the_order_within_a_block(case, rng):
    source, _, _, _, options, reference = case
    order = np.concatenate(
        [start + rng.permutation(min(256, N - start)) for start in range(0, N, 256)]
    )
    again = accumulate(source(order), like=reference, block_rows=256, **options)
    assert_same_bytes(again.sums.to_tree(), reference.sums.to_tree())


def test_bytes_do_not_depend_on_the_order_of_shards(case):
    source, _, _, _, options, reference = case
    shards = [
        accumulate(source(), like=reference, window=window, **options)
        for window in source().split(4)
    ]
    assert len(shards) == 4
    for a, b, c, d in permutations(shards):
        assert_same_bytes((a + b + c + d).to_tree(), reference.to_tree())
        assert_same_bytes(((a + b) + (c + d)).to_tree(), reference.to_tree())


def test_the_gram_equals_its_integer_twin(case):
    _, X, _, weights, _, statistics = case
    twin = rounded(statistics.encoder, X, weights)
    np.testing.assert_array_equal(unpacked(statistics.gram, 24), twin.Q.T @ twin.Q)
    assert statistics.n_rows == N
    assert statistics.n_clipped == twin.n_clipped
    assert statistics.gram.dtype == np.float64


def test_the_target_sums_equal_their_integer_twin(case):
    _, X, y, weights, _, statistics = case
    twin = rounded(statistics.encoder, X, weights)
    sums = statistics.sums.targets
    if isinstance(sums, ValueSums):
        t = rounded_targets(statistics.encoder, y, twin)
        np.testing.assert_array_equal(sums.sums, t.T @ twin.Q)
        np.testing.assert_array_equal(sums.totals, t.T @ twin.roots)
        assert sums.squares == [sum(int(v) ** 2 for v in column) for column in t.T]
        assert sums.weight == twin.roots @ twin.roots
        np.testing.assert_array_equal(sums.feature_sums, twin.roots @ twin.Q)
        return
    labels, by_class, class_weights = integers.class_sums(twin, y)
    np.testing.assert_array_equal(sums.labels, labels)
    np.testing.assert_array_equal(sums.weights, class_weights)
    if isinstance(sums, BitSums):
        np.testing.assert_array_equal(sums.sums, sums.matrix.T.astype(np.int64) @ by_class)
        np.testing.assert_array_equal(sums.feature_sums, by_class.sum(axis=0))
    else:
        np.testing.assert_array_equal(sums.sums, by_class)


@pytest.mark.filterwarnings("ignore:.*were clipped", "ignore:.*are rounded to the same value")
@pytest.mark.parametrize("weighted", [False, True])
def test_planted_outliers_split_the_block_and_are_clipped_and_counted(weighted, rng, monkeypatch):
    """A stream whose first rows, which calibrate, are unlike the later ones."""
    monkeypatch.setattr(gram_module, "PRODUCTS", FloatProducts)  # at 2^31 so few would not split
    n, calm = 6000, 4096
    X = rng.normal(size=(n, 6)).astype(np.float32)
    X[calm + rng.choice(n - calm, 25, replace=False)] *= 30
    y = rng.integers(0, 3, n)
    weights = rng.uniform(0.5, 2.0, n) if weighted else None

    def stream(size):
        parts = (slice(start, start + size) for start in range(0, n, size))
        return srf.IteratorSource(
            (X[p], y[p], weights[p]) if weighted else (X[p], y[p]) for p in parts
        )

    statistics = accumulate(stream(1000), integers.features(), block_rows=4096)
    twin = rounded(statistics.encoder, X, weights)
    assert statistics.sums.gram.n_splits > 0
    assert statistics.n_clipped == twin.n_clipped > 0
    assert np.abs(twin.Q).max() == statistics.encoder.calibration.limit
    np.testing.assert_array_equal(unpacked(statistics.gram, 24), twin.Q.T @ twin.Q)
    np.testing.assert_array_equal(statistics.class_sums, integers.class_sums(twin, y)[1])
    for block_rows in (100, 1999):
        again = accumulate(stream(1000), integers.features(), block_rows=block_rows)
        assert_same_bytes(again.to_tree(), statistics.to_tree())


GREATEST = 32767

# Squares of these add up to one below the limit, the most that a block may have.
FULL = {2**24: [4095, 90, 9, 3], 2**31: [32767, 32767, 362, 5]}


def ways():
    """Return every way to multiply that the processor has, by name; those of 8 bits need one."""
    shorts = tuple(row for row in instructions.AVAILABLE if row.limit == GREATEST)
    of_row = {row: ((row,) if row in shorts else (row, *shorts)) for row in instructions.AVAILABLE}
    found = {row.name: partial(IntegerProducts, rows) for row, rows in of_row.items()}
    return {"BLAS": FloatProducts, **found}


WAYS = ways()


@pytest.fixture(params=WAYS)
def products(request):
    return WAYS[request.param]


def gram_of(products, *blocks):
    gram = ExactGram(len(blocks[0][0]), products=products())
    for block in blocks:
        gram.add(np.array(block, dtype=np.float32))
    return gram


def twin_of(*blocks):
    rows = np.concatenate([np.array(block, dtype=np.int64) for block in blocks])
    return rows.T @ rows


def test_a_block_at_the_bound_is_not_split_and_exact(products):
    full = FULL[products().limit]
    assert sum(q**2 for q in full) == products().limit - 1
    block = [[q, -q, q] for q in full]
    gram = gram_of(products, block)
    assert gram.n_splits == 0
    np.testing.assert_array_equal(unpacked(gram.totals, 3), twin_of(block))


def test_a_block_one_above_the_bound_is_split_and_exact(products):
    block = [[q, -q, q] for q in [*FULL[products().limit], 1]]
    gram = gram_of(products, block)
    assert gram.n_splits == 1
    np.testing.assert_array_equal(unpacked(gram.totals, 3), twin_of(block))


def test_sums_of_blocks_lose_no_unit(products):
    """2^24 + 1 is the first whole number that float32 does not have; int32 ends at 2^31 - 1."""
    blocks = [[[q, q] for q in FULL[products().limit]], *[[[1, 1]]] * 5]
    assert np.float32(2**24) + np.float32(1) == 2**24
    gram = gram_of(products, *blocks)
    assert gram.n_splits == 0
    np.testing.assert_array_equal(unpacked(gram.totals, 2), np.full((2, 2), products().limit + 4))


@pytest.mark.parametrize("n", [1, 2, 3, 17, 100, 5000])
def test_a_block_of_nothing_but_the_greatest_entries_is_exact(products, n):
    signs = np.where(np.arange(3 * n).reshape(n, 3) % 7 < 3, -1, 1)
    gram = gram_of(products, GREATEST * signs)
    np.testing.assert_array_equal(unpacked(gram.totals, 3), twin_of(GREATEST * signs))


@pytest.mark.parametrize("share", [0.0005, 0.01, 0.2])
def test_outliers_among_fine_entries_are_exact(products, rng, share):
    """Rows of 512 levels a deviation, of which some have entries of the greatest size."""
    Q = np.rint(rng.normal(0, 512, (9000, 5)))
    Q[rng.random(Q.shape) < share] = GREATEST
    gram = gram_of(products, Q[:5000], Q[5000:])
    assert gram.n_splits > 0
    np.testing.assert_array_equal(unpacked(gram.totals, 5), twin_of(Q))


@pytest.mark.parametrize("writeable", [True, False])
def test_rows_that_are_added_are_left_as_they_are(products, rng, writeable):
    Q = np.rint(rng.normal(0, 512, (4000, 5))).astype(np.float32)
    Q[rng.random(Q.shape) < 0.0005] = GREATEST
    before = Q.copy()
    Q.flags.writeable = writeable
    gram = ExactGram(5, products=products())
    gram.add(Q)
    assert gram.n_splits > 0
    np.testing.assert_array_equal(Q, before)
    np.testing.assert_array_equal(unpacked(gram.totals, 5), twin_of(before))


def test_usual_rows_of_512_levels_are_not_split(rng):
    if PRODUCTS is FloatProducts:
        pytest.skip("this processor has no AVX2")
    gram = gram_of(PRODUCTS, np.rint(rng.normal(0, 512, (3 * 4096, 3))))
    assert gram.n_splits == 0


@pytest.mark.parametrize("deviation", [25, 40, 512])
def test_every_way_to_multiply_gives_the_same_bytes(rng, deviation):
    """Widths and row counts that fill panels, groups and blocks, and that do not."""
    limit = 127 if deviation == 25 else GREATEST
    for width, n in [(1, 1), (2, 16), (3, 17), (50, 1000), (193, 333), (400, 5000)]:
        Q = np.rint(rng.normal(0, deviation, (n, width))).clip(-limit, limit).astype(np.float32)
        totals = [ExactGram(width, products=way()) for way in WAYS.values()]
        for gram in totals:
            gram.add(Q)
        assert len({gram.totals.tobytes() for gram in totals}) == 1


def test_blocks_of_small_and_great_entries_take_turns(products, rng):
    """A block beyond 8 bits is multiplied in 16, and so are those after it."""
    blocks = [rng.integers(-limit, limit + 1, (90, 50)) for limit in (127, 4095, 127, 128, 3)]
    for found in (gram_of(products, *blocks), compact_of(products, *blocks)):
        np.testing.assert_array_equal(unpacked(found.totals, 50), twin_of(*blocks))


@pytest.mark.parametrize("n", [3, 300, 4096])
@pytest.mark.parametrize("columns", [[0], [17], [3, 16]])
def test_few_columns_beyond_the_bound_are_exact(products, rng, columns, n):
    """Products of such columns wrap around 2^32; those with others do not reach 2^31."""
    Q = rng.integers(-300, 301, (n, 17 + 1))
    Q[:, columns] = rng.choice([-GREATEST, GREATEST, 30_000], (n, len(columns)))
    gram = gram_of(products, Q)
    np.testing.assert_array_equal(unpacked(gram.totals, 18), twin_of(Q))


def test_a_block_is_multiplied_at_once_however_great(rng, monkeypatch):
    """Great columns take runs of their own, and few of them, or few rows, float64 for a part."""
    if PRODUCTS is FloatProducts:
        pytest.skip("products of BLAS end at 2^24")
    n_rows, add = [], PRODUCTS.add

    def counted(self, Q, totals, squares):
        n_rows.append(len(Q))
        add(self, Q, totals, squares)

    monkeypatch.setattr(PRODUCTS, "add", counted)
    for great, columns, rows, n_added in [
        (2000, [2], slice(None, None, 5), 1),
        (5000, slice(None), slice(None), 1),
        (GREATEST, [2], slice(None), 1),
        (GREATEST, [2, 7], slice(70, 130), 1),
        (GREATEST, slice(None), slice(0, 256), 1),
        (GREATEST, slice(None), slice(0, 258), 0),
    ]:
        Q = np.rint(rng.normal(0, 400, (4096, 16)))
        Q[rows, columns] = great
        n_rows.clear()
        gram = gram_of(PRODUCTS, Q)
        assert n_rows == [4096] * n_added
        assert gram.n_splits == 1
        np.testing.assert_array_equal(unpacked(gram.totals, 16), twin_of(Q))


@pytest.mark.parametrize("kind", [ExactGram, CompactGram])
def test_a_block_of_bytes_is_bounded_without_its_squares(kind, products):
    """4,096 rows of +-127 stay below 2^31; totals of 32 bits end at 133,143 such rows."""
    gram = kind(2, products=products())
    rows = np.full((4096, 2), 127, dtype=np.float32) * (1, -1)
    for _ in range(2):
        gram.add(rows.astype(np.float32))
    square = 2 * 4096 * 127**2
    np.testing.assert_array_equal(unpacked(gram.totals, 2), [[square, -square], [-square, square]])


ENTRIES = st.one_of(
    st.integers(-GREATEST, GREATEST),
    st.integers(-127, 127),
    st.sampled_from([-GREATEST, GREATEST, 4095, 2896, 127, -127]),
)


@settings(max_examples=30)
@given(
    st.integers(1, 5).flatmap(
        lambda width: st.lists(
            arrays(np.int64, st.tuples(st.integers(0, 40), st.just(width)), elements=ENTRIES),
            min_size=1,
            max_size=6,
        )
    )
)
@example([np.full((20, 1), GREATEST), np.ones((3, 1), dtype=np.int64)])
def test_any_blocks_of_whole_numbers_are_exact(blocks):
    for products in WAYS.values():
        gram = ExactGram(blocks[0].shape[1], products=products())
        for block in blocks:
            gram.add(block.astype(np.float32))
        np.testing.assert_array_equal(unpacked(gram.totals, blocks[0].shape[1]), twin_of(*blocks))


def compact_of(products, *blocks):
    gram = CompactGram(len(blocks[0][0]), products=products())
    for block in blocks:
        gram.add(np.array(block, dtype=np.float32))
    return gram


def test_totals_of_32_bits_are_the_same_numbers(products, rng):
    blocks = [np.rint(rng.normal(0, 200, (n, 7))) for n in (1, 40, 5000)]
    compact, wide = compact_of(products, *blocks), gram_of(products, *blocks)
    assert compact.totals.dtype == np.int32
    np.testing.assert_array_equal(compact.totals, wide.totals)
    np.testing.assert_array_equal(unpacked(compact.totals, 7), twin_of(*blocks))


def test_totals_of_32_bits_are_refused_one_above_the_bound_and_stay_as_they_were(products):
    full = [[q, -q] for q in FULL[2**31]]
    gram = compact_of(products, full)
    assert gram.totals.max() == 2**31 - 1
    before = gram.totals.copy()
    for more in ([[1, 0]], np.ones((5000, 2))):
        with pytest.raises(StreamrfError, match=r"outgrow 2\^31.*totals='float64'"):
            gram.add(np.array(more, dtype=np.float32))
        np.testing.assert_array_equal(gram.totals, before)
    gram.add(np.zeros((3, 2), dtype=np.float32))
    again = CompactGram(2, before.copy(), products())  # as from a file
    with pytest.raises(StreamrfError, match=r"outgrow 2\^31"):
        again.add(np.array([[1, 0]], dtype=np.float32))


def test_a_gram_too_wide_for_lapack_is_refused():
    assert packed_size(65_535) < 2**31 <= 65_536 * 65_537 // 2
    with pytest.raises(ParameterError, match=r"65536 is too many: .* at most 65535"):
        CompactGram(65_536)


def test_unknown_totals_are_refused():
    with pytest.raises(ParameterError, match=r"one of \('float64', 'int32'\), got 'int64'"):
        gram_class(True, "int64")
    with pytest.raises(ParameterError, match="precision='float64' needs totals='float64'"):
        gram_class(False, "int32")


def test_releasing_the_partial_sums_changes_nothing(products, rng):
    Q = rng.integers(-100, 100, size=(50, 4))
    gram = gram_of(products, Q)
    gram.release()
    gram.add(Q.astype(np.float32))
    gram.release()
    np.testing.assert_array_equal(unpacked(gram.totals, 4), 2 * twin_of(Q))


def test_a_block_longer_than_float32_could_hold_is_exact(products, rng):
    Q = rng.integers(-64, 65, size=(20_000, 3))
    assert (Q**2).sum(axis=0).max() > 2**24
    np.testing.assert_array_equal(unpacked(gram_of(products, Q).totals, 3), twin_of(Q))


@given(
    arrays(
        np.int64,
        st.tuples(st.integers(1, 30), st.just(2)),
        elements=st.one_of(
            st.integers(-(2**40), 2**40), st.sampled_from([2**40, -(2**40), 2**20 - 1])
        ),
    )
)
def test_squares_of_targets_are_exact_beyond_2_to_the_53(t):
    sums = ValueSums.zero(1, 2, exact=True)
    sums.add(np.zeros((len(t), 1)), np.ones(len(t)), t.astype(np.float64))
    assert sums.squares == [sum(int(v) ** 2 for v in column) for column in t.T]
    twice = sums.combined(sums, 1)
    assert twice.squares == [2 * square for square in sums.squares]
    assert twice.combined(sums, -1).squares == sums.squares


@given(
    arrays(np.int64, 20, elements=st.integers(0, 2**20)),
    arrays(np.int64, 20, elements=st.integers(-(2**40), 2**40)),
)
def test_totals_of_weighted_targets_are_exact_beyond_2_to_the_53(roots, t):
    sums = ValueSums.zero(1, 1, exact=True)
    sums.add(np.zeros((20, 1)), roots.astype(np.float64), t[:, np.newaxis].astype(np.float64))
    assert sums.totals == [sum(int(r) * int(v) for r, v in zip(roots, t, strict=True))]


@given(
    arrays(np.int64, (12, 2), elements=st.integers(-(2**40), 2**40)),
    arrays(np.int64, (12, 3), elements=st.integers(-GREATEST, GREATEST)),
    st.integers(0, 12),
)
@example(np.full((12, 2), 2**40), np.full((12, 3), GREATEST), 5)
@example(np.full((12, 2), 2**40 - 1), np.full((12, 3), -GREATEST), 12)
def test_sums_of_targets_times_features_are_exact_beyond_2_to_the_53(t, Q, cut):
    def sums_of(rows):
        sums = ValueSums.zero(3, 2, exact=True)
        sums.add(Q[rows].astype(np.float32), np.ones(len(Q[rows])), t[rows].astype(np.float64))
        return sums

    whole, left, right = sums_of(slice(None)), sums_of(slice(cut)), sums_of(slice(cut, None))
    expected = t.astype(object).T @ Q.astype(object)
    for sums in (whole, left.combined(right, 1), right.combined(left, 1)):
        found = [[int(a) + int(b) for a, b in zip(*rows, strict=True)]
                 for rows in zip(sums.sums, sums.rest, strict=True)]  # fmt: skip
        assert found == expected.tolist()
        assert_same_bytes(sums.to_tree(), whole.to_tree())
        assert_same_bytes(sums.combined(right, -1).to_tree(), left.to_tree())
        fields = Fields(sums.to_tree())
        assert_same_bytes(read_targets(fields, 3, exact=True).to_tree(), whole.to_tree())


def values(diagonal=1.0, square=0, weight=1.0, n_targets=1):
    """Sums of one feature with given greatest numbers."""
    targets = ValueSums.zero(1, n_targets, exact=True)
    targets.squares, targets.weight = [square] * n_targets, weight
    return Sums(ExactGram(1, np.array([diagonal])), targets)


def classes(diagonal, weight=1.0, gram=ExactGram):
    width = len(diagonal)
    targets = ClassSums(np.array([0]), np.zeros((1, width)), np.array([weight]))
    return Sums(gram(width, integers.packed(np.diag(diagonal))), targets)


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_a_gram_beyond_2_to_the_53_is_refused(width, place):
    entries = np.ones(width)
    entries[place % width] = 2.0**53 - 1
    classes(entries).check_exact()
    entries[place % width] = 2.0**53
    with pytest.raises(StreamrfError, match=r"outgrown 2\^53 after 0 rows"):
        classes(entries).check_exact()


def test_weights_and_targets_beyond_2_to_the_53_are_refused():
    classes([1.0], weight=2.0**53 - 1).check_exact()
    values(diagonal=2.0**50, square=2**149).check_exact()
    for sums in (
        classes([1.0], weight=2.0**53),
        values(weight=2.0**53),
        values(diagonal=2.0**50, square=2**150),  # a sum of products can reach 2^100
    ):
        with pytest.raises(StreamrfError, match=r"2\^53.*statistics files of their own"):
            sums.check_exact()


def test_five_hundred_million_rows_of_weighted_targets_stay_exact():
    """Rows of mean weight and targets of one deviation: root 2^12, target 2^20, feature 2^9."""
    n = 5 * 10**8
    values(diagonal=n * 2.0**18, square=n * 2**40, weight=n * 2.0**24).check_exact()


def test_more_than_ten_billion_rows_of_classes_stay_exact():
    classes([3 * 10.0**10 * 2**18]).check_exact()


def test_float64_sums_are_not_held_to_whole_numbers():
    classes([2.0**60], gram=FloatGram).check_exact()


def test_merging_beyond_2_to_the_53_is_refused(rows):
    X, y, _, _ = rows
    a = accumulate(srf.ArraySource(X[:100], y[:100]), integers.features(4))
    b = accumulate(srf.ArraySource(X[100:200], y[100:200]), like=a)
    for statistics in (a, b):
        statistics.gram[:] *= np.floor(2.0**53 / diagonal_of(statistics).max() - 1)
        statistics.sums.check_exact()
    with pytest.raises(StreamrfError, match=r"2\^53"):
        a + b


def diagonal_of(statistics: Statistics):
    out = np.empty(statistics.sums.n_components)
    diagonal(statistics.gram, out)
    return out


def test_passes_of_several_threads_take_turns():
    """Numba's "workqueue" layer aborts the process when two threads enter it."""
    code = """if True:
        import threading
        import numpy as np
        import streamrf as srf
        X = np.random.default_rng(0).standard_normal((2000, 20)).astype(np.float32)
        source = srf.ArraySource(X, X[:, 0] > 0)
        features = srf.RandomMaclaurin(srf.Polynomial(degree=3), 128, random_state=0)
        totals = []
        def several():
            for _ in range(8):
                totals.append(srf.accumulate(source, features, normalize="standard").gram)
        threads = [threading.Thread(target=several) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({total.tobytes() for total in totals}) == 1
        print(len(totals))
    """
    environment = {**os.environ, "NUMBA_THREADING_LAYER": "workqueue"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "24\n"), done.stderr
