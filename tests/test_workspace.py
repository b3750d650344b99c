"""Memory that a later array takes over."""

import gc
import weakref

import numpy as np
import pytest

import streamrf as srf
from integers import assert_same_bytes
from streamrf.solving import HeldOut, penalty, tried, workspace
from streamrf.solving.workspace import lent, reused_memory
from streamrf.sources import Rows


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_taken_over_when_the_array_is_gone():
    with reused_memory():
        first = lent(1000, np.float64)
        assert first.shape == (1000,)
        assert first.flags.writeable
        where = address(first)
        del first
        second = lent(1500, np.float32)
        assert address(second) == where
        assert second.dtype == np.float32


@pytest.mark.parametrize("view", [lambda a: a[5:9], lambda a: a.reshape(10, -1).T, np.asarray])
def test_it_is_not_while_a_view_is_there(view):
    with reused_memory():
        first = lent(1000, np.float64)
        first[:] = 7
        kept = view(first)
        del first
        gc.collect()
        second = lent(1000, np.float64)
        second[:] = 1
        assert (kept == 7).all()
        assert not np.may_share_memory(kept, second)


def test_a_larger_one_has_memory_of_its_own():
    with reused_memory():
        lent(10, np.float64)
        large = lent(2000, np.float64)
        large[:] = 3
        assert not np.may_share_memory(large, lent(10, np.float64))


def test_what_does_not_stay_takes_over_and_leaves_nothing():
    with reused_memory():
        large = lent(2000, np.float64, stays=False)
        large[:] = 3
        first = lent(1000, np.float64)
        where = address(first)
        assert not np.may_share_memory(large, first)
        del large, first
        small = lent(500, np.float32, stays=False)
        assert address(small) == where
        assert not np.may_share_memory(small, lent(1000, np.float64))
        del small
        larger = lent(1500, np.float64, stays=False)
        assert not np.may_share_memory(larger, lent(1000, np.float64))
        assert address(lent(1000, np.float64)) == where


def test_nothing_is_kept_afterwards():
    with reused_memory():
        first = lent(1000, np.float64)
        first[:] = 2
    memory = weakref.ref(first.base)
    other = lent(1000, np.float64)
    other[:] = 1
    assert (first == 2).all()
    del first
    assert memory() is None


def test_solutions_have_the_bytes_that_they_have_without(monkeypatch):
    rng = np.random.default_rng(0)
    source = srf.ArraySource(rng.normal(size=(1500, 4)), np.arange(1500) % 3)
    features = srf.RandomFourier(srf.Gaussian(0.5), 1024, random_state=0)
    stats = srf.accumulate(source, features)
    monkeypatch.setattr("streamrf.solving.normal.MIN_SHORT", 16)
    taken = []

    class Watched(workspace._Workspace):
        def lend(self, size, dtype, stays):
            found = super().lend(size, dtype, stays)
            taken.append(address(found))
            return found

    monkeypatch.setattr(workspace, "_Workspace", Watched)
    expected = [stats.solve(alpha) for alpha in (0.1, 3.0)]
    assert not taken
    with reused_memory():
        found = [stats.solve(alpha) for alpha in (0.1, 3.0)]
    for one, other in zip(found, expected, strict=True):
        assert_same_bytes(one.to_tree(), other.to_tree())
    assert len(taken) == 2
    assert len(set(taken)) == 1


def test_features_held_out_are_gone_once_they_have_joined():
    rng = np.random.default_rng(0)
    X, y, n = rng.normal(size=(1500, 4)), np.arange(1500) % 3, np.arange(1500)
    features = srf.RandomFourier(srf.Gaussian(0.5), 64, random_state=0)
    encoder = srf.accumulate(srf.ArraySource(X, y), features).encoder
    held = HeldOut([Rows(X, y, None, n, n)], encoder)
    found = [products for _, products in held.products(encoder, [np.ones((1, 64))])]
    assert len(found) == 2  # parts, which are kept
    kept = [weakref.ref(z) for z in held._kept]
    (given,) = held.surrender()
    gc.collect()
    assert all(z() is not None for z in kept)
    out, expected = np.empty((2, 1500, 64), np.float32)
    encoder.encode(X, np.ones(1500), out, mapped=given)
    gc.collect()
    assert all(z() is None for z in kept)
    encoder.encode(X, np.ones(1500), expected)
    assert_same_bytes(out, expected)


@pytest.mark.parametrize("n_distinct", [None, 3])
def test_outputs_of_trials_are_kept_where_they_are_few_with_all_copies(n_distinct, monkeypatch):
    rng = np.random.default_rng(0)
    X, y, n = rng.normal(size=(1500, 4)), np.arange(1500) % 3, np.arange(1500)
    features = srf.RandomFourier(srf.Gaussian(0.5), 64, random_state=0)
    stats = srf.accumulate(srf.ArraySource(X, y), features)
    held = HeldOut([Rows(X, y, None, n, n)], stats.encoder, n_distinct)
    model = stats.solve(1.0)
    n_bytes = 8 * 1500 * len(model.coef)
    for limit, is_kept in ((n_bytes, True), (n_bytes - 1, False)):
        monkeypatch.setattr(penalty, "MAX_ANSWERS", limit)
        (trial,) = tried([model], held)
        assert bool(trial.answers) is is_kept
        if is_kept:
            for (_, one), (_, other) in zip(trial.answers, held.answers(model), strict=True):
                assert_same_bytes(one, other)
