"""Several maps in one reading: the same bytes as a pass for each, from blocks read once."""

from collections import Counter

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits

import streamrf as srf
from integers import assert_same_bytes
from streamrf.engine import RunOptions, fold
from streamrf.errors import MemoryBudgetError, ParameterError, UnknownLabelError
from streamrf.training import Job, Settings, begin
from streamrf.training.several import Passes

DIGITS = load_digits(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)


def maps():
    return [
        srf.RandomFourier(srf.Gaussian(0.001), 24),
        srf.RandomMaclaurin(srf.Polynomial(3), 17, random_state=5),
        srf.Concatenate([srf.TensorSketch(n_components=8), srf.StructuredFourier(n_components=9)]),
    ]


class CountingSource(srf.ArraySource):
    """Counts how often each row is read."""

    def __init__(self, *arrays):
        super().__init__(*arrays)
        self.read = Counter()
        self.n_samples = 0

    def blocks(self, start=0, stop=None, *, block_rows=4096):
        for block in super().blocks(start, stop, block_rows=block_rows):
            self.read.update(range(block.position, block.position + block.span))
            yield block

    def sample(self, n_rows):
        self.n_samples += 1
        return super().sample(n_rows)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (DIGITS, {"normalize": "l2", "folds": 3}),
        (DIGITS, {"hold_out": True, "normalize": "standard"}),
        (DIABETES, {"regression": True, "rows": (100, 300)}),
    ],
)
def test_statistics_are_those_of_a_pass_for_each_map(data, options):
    source = CountingSource(*data)
    options = {"random_state": 3, **options}
    found = srf.accumulate(source, maps(), **options)
    start, stop = options.get("rows", (0, len(data[0])))
    assert source.read == Counter(range(start, stop))
    assert source.n_samples == (1 if "regression" in options else 2)  # the task; to calibrate
    for statistics, map_ in zip(found, maps(), strict=True):
        alone = srf.accumulate(srf.ArraySource(*data), map_, **options)
        assert_same_bytes(statistics.to_tree(), alone.to_tree())


def test_an_iterator_is_read_once():
    X, y = DIGITS
    blocks = ((X[i : i + 100], y[i : i + 100]) for i in range(0, len(X), 100))
    found = srf.accumulate(srf.IteratorSource(blocks), maps(), random_state=0)
    alone = srf.accumulate(
        srf.IteratorSource([(X[i : i + 100], y[i : i + 100]) for i in range(0, len(X), 100)]),
        maps()[0],
        random_state=0,
    )
    assert_same_bytes(found[0].to_tree(), alone.to_tree())


def test_settings_may_hold_the_maps():
    source = srf.ArraySource(*DIGITS)
    found = srf.accumulate(source, settings=Settings(features=maps(), random_state=0))
    again = srf.accumulate(source, maps(), random_state=0)
    assert_same_bytes(found[1].to_tree(), again[1].to_tree())


def test_workers_give_the_same_bytes(two_workers):
    X, y = DIGITS
    options = {"random_state": 0, "hold_out": True}
    here = srf.accumulate(srf.ArraySource(X, y), maps()[:2], **options)
    there = srf.accumulate(
        srf.ArraySource(X, y), maps()[:2], engine=two_workers, parts=3, **options
    )
    for a, b in zip(here, there, strict=True):
        assert_same_bytes(a.to_tree(), b.to_tree())


@pytest.mark.parametrize(
    ("features", "options", "message"),
    [
        ([], {}, r"a feature map or a list of them, got \[\]"),
        ([srf.RandomFourier(), "auto"], {}, "a feature map or a list of them"),
        ([srf.RandomFourier()], {"checkpoint": "pass.checkpoint"}, r"Concatenate\(\[...\]\)"),
        ([srf.RandomFourier(n_components=0)], {}, "n_components must be an integer above 0"),
    ],
)
def test_what_is_of_one_map_is_refused(features, options, message):
    with pytest.raises(ParameterError, match=message):
        srf.accumulate(srf.ArraySource(*DIGITS), features, **options)


def test_earlier_statistics_have_a_map_of_their_own():
    source = srf.ArraySource(*DIGITS)
    like = srf.accumulate(source, maps()[0])
    with pytest.raises(ParameterError, match="like= has a map of its own"):
        srf.accumulate(source, maps(), like=like)


def test_the_memory_of_all_maps_is_planned():
    wide = srf.StructuredFourier(n_components=4000)
    source, limit = srf.ArraySource(*DIGITS), "850 MiB"
    with pytest.raises(MemoryBudgetError, match="n_components="):
        srf.accumulate(source, [wide, wide, wide], memory_limit=limit)
    Job.of(
        source, Settings(features=wide), RunOptions(memory_limit=limit)
    ).plan()  # one of them fits


def test_a_block_that_is_refused_ends_the_pass():
    X, y = DIGITS
    with pytest.raises(UnknownLabelError):
        srf.accumulate(
            srf.ArraySource(X, y),
            maps(),
            classes=range(9),
            codes=srf.ErrorCorrectingCodes(5),
        )


def test_passes_are_a_monoid():
    X, y = DIGITS
    source = srf.ArraySource(X, y)

    def passes():
        return Passes([begin(Job.of(source, Settings(features=m, random_state=0))) for m in maps()])

    whole = passes()
    fold(source, whole, Passes.update)
    zero = passes()
    first, second = zero.fresh(), zero.fresh()
    for block in source.blocks(0, 700):
        first.update(block)
    for block in source.blocks(700):
        second.update(block)
    zero.absorb(first.sealed() + second.sealed())
    for a, b in zip(zero.passes, whole.passes, strict=True):
        assert_same_bytes(a.join().to_tree(), b.join().to_tree())
    assert np.array_equal(zero.passes[0].statistics.labels, np.arange(10))
