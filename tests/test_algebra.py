"""Statistics put together and taken apart give the very sums of one pass, as files too."""

import copy
import tracemalloc

import numpy as np
import pytest

import streamrf as srf
from integers import assert_same_bytes, features
from streamrf.errors import DataError, MergeError

N, D = 1200, 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)).astype(np.float32)
LABELS = (X[:, 0] > 0).astype(np.int64) + (X[:, 1] > 0.5)
WORDS = np.array(["red", "green", "blue"])[LABELS]
VALUES = np.stack((X[:, 0] * X[:, 1], 100 + X[:, 2]), axis=1).astype(np.float64)
WEIGHTS = RNG.random(N) + 0.01

# Kinds of sums: targets, weights, settings of the first pass.
KINDS = {
    "labels": (LABELS, None, {}),
    "words": (WORDS, WEIGHTS, {"normalize": "standard"}),
    "values": (VALUES, WEIGHTS, {"regression": True}),
    "bits": (LABELS, None, {"codes": srf.ErrorCorrectingCodes(2), "classes": [0, 1, 2]}),
    "folds": (LABELS, None, {"folds": 3}),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def pass_over(kind, rows=None, like=None, **changes):
    """Statistics of a range of rows; `changes` are other targets or weights."""
    y, weights, settings = KINDS[kind]
    y, weights = changes.get("y", y), changes.get("weights", weights)
    source = srf.ArraySource(X, y, weights)
    if like is not None:
        return srf.accumulate(source, like=like, rows=rows, regression=kind == "values")
    return srf.accumulate(source, features(20), random_state=0, rows=rows, **settings)


@every_kind
def test_what_was_added_is_removed_to_the_last_byte(kind, tmp_path):
    a = pass_over(kind, (0, 700))
    b = pass_over(kind, (700, None), like=a)
    whole = pass_over(kind, like=a)
    files = {"a": a, "back": a + b - b, "whole": whole, "both": b + a, "rest": whole - b}
    for name, statistics in files.items():
        statistics.save(tmp_path / name)
    found = {name: (tmp_path / name).read_bytes() for name in files}
    assert found["back"] == found["rest"] == found["a"]
    assert found["both"] == found["whole"] != found["a"]


@every_kind
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_absorb_others_as_the_operators_do(kind, sign):
    whole = pass_over(kind)
    b = pass_over(kind, (200, 500), like=whole)
    a = whole - b if sign > 0 else whole
    expected = a + b if sign > 0 else a - b
    before = copy.deepcopy(b.to_tree())
    assert_same_bytes(a.absorb(b, sign).to_tree(), expected.to_tree())
    assert_same_bytes(b.to_tree(), before)


@pytest.mark.parametrize("n_folds", [None, 2])
def test_to_absorb_takes_no_third_gram(n_folds):
    source, width = srf.ArraySource(X, LABELS), 800
    a = srf.accumulate(source, features(width), rows=(0, 700), folds=n_folds)
    b = srf.accumulate(source, like=a, rows=(700, None))
    tracemalloc.start()
    a.absorb(b)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * 8 * width * (width + 1) / 2


@every_kind
def test_rows_removed_with_other_targets_or_weights_are_refused(kind):
    """The ledger knows rows by their features; of targets the sums tell, if not all."""
    whole = pass_over(kind)
    other = {
        "labels": {"y": np.zeros_like(LABELS)},
        "words": {"weights": 2 * WEIGHTS},
        "values": {"y": 2 * VALUES},
        "bits": {"y": np.zeros_like(LABELS)},
        "folds": {"y": np.zeros_like(LABELS)},
    }[kind]
    message = {
        "words": "more rows of class 'blue' would be removed than were counted",
        "values": "more would be removed than was counted: .* other targets or weights",
    }.get(kind, "more rows of class 0 would be removed than were counted: .* other labels")
    wrong = pass_over(kind, like=whole, **other)
    with pytest.raises(MergeError, match=message):
        whole - wrong


def test_rows_left_out_on_one_side_alone_are_not_removed():
    dirty = X.copy()
    dirty[100, 0] = np.nan
    clean = srf.accumulate(srf.ArraySource(X, LABELS), features(20), random_state=0)
    other = srf.accumulate(
        srf.ArraySource(dirty, LABELS), like=clean, rows=(90, 110), on_bad_rows="skip"
    )
    with pytest.raises(MergeError, match=r"left out 1 of those .*not summed from the same data"):
        clean - other


def test_labels_of_another_kind_are_refused():
    a = pass_over("labels", (0, 700))
    for labels in (WORDS, LABELS.astype(np.float64)):
        b = pass_over("labels", (700, None), like=a, y=labels)
        with pytest.raises((MergeError, DataError), match="labels"):
            a + b


def test_unrounded_sums_of_which_nothing_is_left_can_be_saved(tmp_path):
    """Rounding leaves a little below 0 where nothing should be."""
    for y, settings in ((WORDS, {}), (VALUES, {"regression": True})):
        source = srf.ArraySource(X, y, WEIGHTS)
        a = srf.accumulate(source, features(20), precision="float64", rows=(0, 700), **settings)
        b = srf.accumulate(source, like=a, rows=(700, None), **settings)
        nothing = a + b - a - b
        nothing.save(tmp_path / "nothing.h5")
        assert srf.load_statistics(tmp_path / "nothing.h5").n_rows == 0
        assert np.abs(nothing.gram).max() < 1e-9 * np.abs(a.gram).max()
