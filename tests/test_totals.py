"""Statistics in 32-bit totals: the same sums, half the memory, and a factor in their place."""

from dataclasses import replace

import h5py
import numpy as np
import pytest

import streamrf as srf
from commands import answer, misused
from integers import accumulate, assert_same_bytes, features
from streamrf.errors import CheckpointError, ConsumedError, MergeError, ParameterError, SolveError
from streamrf.statistics.gram import CompactGram, ExactGram
from streamrf.training import memory

WIDTH = 70


@pytest.fixture(scope="module")
def source():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 5))
    y = np.digitize(np.sin(2 * X[:, 0]) + X[:, 1], [-1, 0, 1])
    return srf.ArraySource(X, y)


@pytest.fixture
def compact(source):
    return accumulate(source, features(WIDTH), totals="int32")


def test_the_sums_are_those_of_float64_totals(source, compact):
    assert compact.encoder.calibration.levels == 32
    empty = compact.with_totals("float64")
    empty = type(empty)(empty.encoder, empty.sums.zero_like(), type(empty.ledger)())
    wide = accumulate(source, like=empty)
    assert compact.gram.dtype == np.int32
    wide = replace(wide, moments=compact.moments)  # `empty` has none of its own
    assert_same_bytes(compact.with_totals("float64").to_tree(), wide.to_tree())
    assert_same_bytes(wide.with_totals("int32").to_tree(), compact.to_tree())
    assert compact.with_totals("int32").gram is compact.gram


@pytest.mark.parametrize("width", [5, 69, 70])
@pytest.mark.parametrize("relative", [1e-5, 1e-2])
def test_solutions_agree_with_float64_to_the_digits_of_float32(source, width, relative):
    compact = accumulate(source, features(width), totals="int32")
    alpha = relative * compact.alpha_scale()
    expected = compact.with_totals("float64").solve(alpha)
    found = compact.solve(alpha)
    # the factor is rounded to 6e-8 and the condition number is width / relative at most
    error = np.abs(found.coef - expected.coef).max() / np.abs(expected.coef).max()
    assert error < 6e-8 * 10 * width / relative
    X = next(iter(source.blocks(0, 100))).X
    outputs = [model.decision_function(X) for model in (expected, found)]
    np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-3)


@pytest.mark.parametrize("totals", ["float64", "int32"])
@pytest.mark.parametrize("width", [1, 2, 69, 70])
def test_a_solve_in_the_memory_of_the_sums_is_the_same_and_uses_them_up(source, totals, width):
    statistics = accumulate(source, features(width), totals=totals)
    expected = statistics.solve(0.5)
    assert_same_bytes(statistics.solve(0.5, overwrite=True).coef, expected.coef)
    assert statistics.n_rows == 900
    for use in (lambda: statistics.gram, lambda: statistics.solve(0.5), statistics.to_tree):
        with pytest.raises(ConsumedError, match=r"used up by solve\(overwrite=True\)"):
            use()


def test_a_penalty_too_small_to_factor_in_place_is_said(source):
    statistics = accumulate(source, features(WIDTH), totals="int32", window=(0, 30))
    with pytest.raises(SolveError, match=r"too small: .* use a larger one, or alpha='auto'"):
        statistics.solve(0.0, overwrite=True)


@pytest.mark.parametrize("settings", [{"alpha": [1.0, 2.0, 3.0, 4.0]}, {"uncertainty": True}])
def test_what_needs_the_sums_afterwards_is_refused_and_leaves_them(compact, settings):
    with pytest.raises(ParameterError, match="one alpha, without uncertainty"):
        compact.solve(**settings, overwrite=True)
    with pytest.raises(ParameterError, match="alpha must be"):
        compact.solve(-1.0, overwrite=True)
    assert len(compact.gram) == WIDTH * (WIDTH + 1) // 2


def test_other_questions_are_answered_as_by_float64_totals(compact):
    wide = compact.with_totals("float64")
    np.testing.assert_allclose(compact.path().gcv, wide.path().gcv, rtol=1e-12)
    assert_same_bytes(compact.prune(9).columns, wide.prune(9).columns)
    pruned = compact.prune(9)
    assert pruned.gram.dtype == np.int32
    assert_same_bytes(pruned.with_totals("float64").gram, wide.select(pruned.columns).gram)
    assert compact.scale(0.5).gram.dtype == np.float64
    assert_same_bytes(compact.scale(0.5).gram, wide.scale(0.5).gram)


def test_files_keep_them(compact, tmp_path):
    compact.save(tmp_path / "compact.h5")
    loaded = srf.load_statistics(tmp_path / "compact.h5")
    assert_same_bytes(loaded.to_tree(), compact.to_tree())
    compact.with_totals("float64").save(tmp_path / "wide.h5")
    saved = [(tmp_path / name).stat().st_size for name in ("compact.h5", "wide.h5")]
    assert saved[1] - saved[0] >= 4 * len(compact.gram)


def test_a_checkpoint_goes_on_with_them_and_with_no_others(source, compact, tmp_path):
    path = tmp_path / "job.checkpoint"
    job = {"features": features(WIDTH), "checkpoint": path}
    srf.accumulate(source, rows=(0, 400), totals="int32", **job)
    whole = srf.accumulate(source, totals="int32", **job)
    assert_same_bytes(whole.to_tree(), compact.to_tree())
    with pytest.raises(CheckpointError, match="totals"):
        srf.accumulate(source, **job)


def test_sides_of_other_totals_are_not_added(compact):
    wide = compact.with_totals("float64")
    empty = type(wide)(wide.encoder, wide.sums.zero_like(), type(wide.ledger)())
    with pytest.raises(MergeError, match=r"CompactGram .* ExactGram"):
        compact + empty


def test_sides_that_together_reach_the_bound_are_not_added(compact):
    gram = CompactGram(WIDTH, np.full(len(compact.gram), 2**30, dtype=np.int32))
    sums = type(compact.sums)(gram, compact.sums.targets)
    with pytest.raises(MergeError, match=r"reach 2147483648.*with_totals\('float64'\)"):
        sums + sums
    assert (sums - sums).gram.totals.max() == 0
    wide = sums.with_totals("float64") + sums.with_totals("float64")
    with pytest.raises(ParameterError, match="integers below 2147483648; these sums reach"):
        wide.with_totals("int32")
    with pytest.raises(ParameterError, match="these sums were scaled"):
        compact.scale(0.5).with_totals("int32")


def test_folds_and_unrounded_features_keep_float64(source):
    with pytest.raises(ParameterError, match="sums in folds have totals='float64', not 'int32'"):
        accumulate(source, features(3), folds=3, totals="int32")
    with pytest.raises(ParameterError, match="sums in folds have totals='float64', not 'int32'"):
        accumulate(source, features(3), folds=3).with_totals("int32")
    with pytest.raises(ParameterError, match="precision='float64' needs totals='float64'"):
        accumulate(source, features(3), precision="float64", totals="int32")


def test_like_takes_the_totals_of_what_it_goes_on_from(source, compact):
    assert accumulate(source, like=compact).gram.dtype == np.int32
    with pytest.raises(ParameterError, match="leave totals out to take theirs"):
        accumulate(source, like=compact, totals="float64")


def test_the_memory_plan_counts_a_quarter():
    """4 bytes a number, or 16: float64 totals and a float64 factor."""

    def planned(width, **sizes):
        return memory.plan(memory.Sizes(width, 10, 10, **sizes), "1 TiB")

    small, wide = (planned(n, gram=CompactGram, in_place=True) for n in (10, 60_000))
    assert wide.total_bytes - small.total_bytes < 4.2 * 60_000**2 / 2 + 60_000 * 4096 * 6.1
    usual = planned(60_000, gram=ExactGram)
    assert usual.total_bytes - wide.total_bytes > 11.9 * 60_000**2 / 2


def test_the_command_line_sums_in_them_and_solves_in_place(source, tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        block = next(iter(source.blocks(0, 900)))
        file["X"], file["y"] = block.X, block.y
    words = ["fit", tmp_path / "data.h5", "--map", "craft-maclaurin", "--components", 32]
    outputs = {}
    for totals in ("int32", "float64"):
        model, statistics = tmp_path / f"{totals}.model", tmp_path / f"{totals}.stats"
        more = ["--totals", totals, "--alpha", 5, "--model", model, "--statistics", statistics]
        answer(*words, *more)
        found = srf.load_statistics(statistics)
        assert found.gram.dtype == totals
        trained = srf.load_model(model)
        assert_same_bytes(trained.coef, found.solve(5).coef)
        outputs[totals] = trained.decision_function(block.X)
    apart = outputs["int32"] - outputs["float64"]  # features of 32 levels and of 512
    assert np.sqrt(np.mean(apart**2)) < 0.01
    assert "--totals" in misused(*words, "--totals", "int64", "--model", tmp_path / "m")
