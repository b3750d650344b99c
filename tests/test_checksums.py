"""The ledger notices that rows are taken away with other targets or weights than were added."""

import numpy as np
import pytest

import streamrf as srf
from integers import assert_same_bytes, features
from streamrf.errors import FormatError, MergeError, StreamrfWarning
from streamrf.sources import Ledger, checksum

N = 600
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
DAY = X[::-1].copy()
LABELS = np.where(X[:, 0] > 0, "yes", "no")
VALUES = np.sin(X[:, 0])
ROOTS = np.ones(N)
ROWS = np.arange(N)


def summed(X, y, weights=None, like=None, **settings):
    source = srf.ArraySource(X, y, weights)
    if like is not None:
        return srf.accumulate(source, like=like, **settings)
    return srf.accumulate(source, features(16), random_state=0, **settings)


def changed(y):
    other = y.copy()
    other[:2], other[2:4] = y[2:4], y[:2]
    other[5] = y[np.flatnonzero(y != y[5])[0]]
    return other


@pytest.mark.parametrize("y", [LABELS, LABELS == "yes", VALUES], ids=["words", "flags", "values"])
@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_rows_with_other_targets_are_not_taken_away(y, precision):
    monday = summed(X, y, precision=precision)
    week = monday + summed(DAY, y, like=monday)
    with pytest.raises(MergeError, match="other targets or weights than are taken away"):
        week - summed(DAY, changed(y), like=monday)
    assert (week - summed(DAY, y, like=monday)).ledger.checksums == monday.ledger.checksums


def test_rows_with_other_weights_are_not_taken_away():
    monday = summed(X, LABELS, class_weight={"no": 5})
    week = monday + summed(DAY, LABELS, like=monday, class_weight={"no": 5})
    with pytest.warns(StreamrfWarning, match="not weighed by this one"):
        other = summed(DAY, LABELS, like=monday, class_weight={"no": 1})
    with pytest.raises(MergeError, match="class_weight="):
        week - other
    weighted = summed(DAY, LABELS, np.where(LABELS == "no", 5.0, 1.0), like=monday)
    assert (week - weighted).ledger.checksums == monday.ledger.checksums


def test_parts_are_checked_when_the_last_of_them_goes():
    monday = summed(X, VALUES)
    week = monday + summed(DAY, VALUES, like=monday)
    left = week - summed(DAY, changed(VALUES), like=monday, rows=(0, 300))
    with pytest.raises(MergeError, match="other targets"):
        left - summed(DAY, VALUES, like=monday, rows=(300, None))
    again = left + summed(DAY, changed(VALUES), like=monday, rows=(0, 300))
    assert_same_bytes((again - summed(DAY, VALUES, like=monday)).to_tree(), monday.to_tree())


def test_relabelled_sums_are_taken_away():
    monday = summed(X, LABELS)
    week = (monday + summed(DAY, LABELS, like=monday)).relabel({"no": "never"})
    renamed = summed(DAY, np.where(LABELS == "no", "never", LABELS), like=monday)
    left = week - renamed
    assert left.n_rows == N
    assert not left.ledger.checksums


def test_files_without_checksums_are_merged_unchecked(tmp_path):
    monday = summed(X, VALUES)
    tree = monday.to_tree()
    del tree["ledger"]["checksums"]
    old = srf.Statistics.from_tree(tree)
    assert_same_bytes(old.to_tree(), tree)
    tuesday = summed(DAY, VALUES, like=monday)
    assert (old + tuesday).ledger.checksums == tuesday.ledger.checksums
    assert (old + tuesday - summed(X, changed(VALUES), like=monday)).n_rows == N
    (old + tuesday).save(tmp_path / "sums")
    read = srf.load_statistics(tmp_path / "sums")
    assert read.ledger.checksums == tuesday.ledger.checksums


@pytest.mark.parametrize("wrong", [{"key": -1}, {"key": 2**63}, {"key": 0.5}, {"other": 1}, 3])
def test_damaged_checksums_are_refused(wrong):
    ledger = Ledger()
    ledger.add("key", "name", 0, 5, 17)
    tree = ledger.to_tree()
    assert tree["checksums"] == {"key": 17}
    with pytest.raises(FormatError, match="checksums"):
        Ledger.from_tree(tree | {"checksums": wrong})


def test_checksums_add_up_in_any_order():
    order = RNG.permutation(N)
    parts = [checksum(ROWS[i], LABELS[i], ROOTS[i]) for i in (order[:100], order[100:])]
    assert sum(parts) % 2**63 == checksum(ROWS, LABELS, ROOTS)


def test_equal_labels_have_equal_checksums():
    ids = RNG.integers(-5, 5, N)
    kinds = [ids, ids.astype(np.int8), ids.astype(np.float32), ids + 0.0]
    assert len({checksum(ROWS, y, ROOTS) for y in kinds}) == 1
    words = ids.astype(str)
    assert (
        len({checksum(ROWS, y, ROOTS) for y in (words, words.astype("U9"), words.astype("O"))}) == 1
    )
    flags = ids > 0
    assert checksum(ROWS, flags, ROOTS) == checksum(ROWS, flags.astype(int), ROOTS)
    great = ids + 2**60
    assert checksum(ROWS, great, ROOTS) != checksum(ROWS, great + 1, ROOTS)
    assert checksum(ROWS[:1], np.array([""]), ROOTS[:1]) == checksum(
        ROWS[:1], np.zeros(1, "U0"), ROOTS[:1]
    )


def test_rows_of_weight_0_add_nothing():
    roots = np.where(ROWS < 9, 0.0, 1.0)
    assert checksum(ROWS, VALUES[:, None], roots) == checksum(ROWS[9:], VALUES[9:, None], roots[9:])


def test_swapped_targets_have_other_checksums():
    """Small integers are floats of few bits, which a plain sum of products would lose."""
    y = RNG.integers(0, 4, (N, 300)).astype(float)
    seen = {checksum(ROWS, y, ROOTS)}
    for j in range(1, 300):
        order = np.arange(300)
        order[[0, j]] = j, 0
        seen.add(checksum(ROWS, y[:, order], ROOTS))
    assert len(seen) == 300
