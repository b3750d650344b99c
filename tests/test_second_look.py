"""The second look at more rows, where a pass is of many: width, setting and kernel for them."""

from dataclasses import replace

import numpy as np
import pytest

import streamrf as srf
from streamrf.training import feature_choice, memory, peeking, ranking, second_look, tournament
from streamrf.training.candidates import Candidate, Recipe
from streamrf.training.judging import Judge, Trial
from streamrf.training.second_look import SecondLook, foreseen
from streamrf.training.settings import Settings
from streamrf.training.tournament import Tournament, possible_widths

ONE = Candidate("standard", "gaussian", 1.0)


def trial(candidate, width, n_rows, error, n_held=50):
    losses = np.full((2, n_held), error)
    return Trial(candidate, width, n_rows, error, error, 1.0, 0.1, losses)


def test_an_error_that_falls_as_one_over_the_root_of_the_rows_is_foreseen():
    few, many, all_ = (trial(ONE, 64, n, 0.2 + 10 / np.sqrt(n)) for n in (2500, 10_000, 250_000))
    found = foreseen(few, many, 250_000)
    assert (found.error, found.mse) == pytest.approx((all_.error, all_.mse))
    np.testing.assert_allclose(found.losses, all_.losses)
    assert (found.n_rows, found.width) == (10_000, 64)  # what it was measured with


@pytest.mark.parametrize(
    ("few", "many", "n_rows", "expected"),
    [
        (0.2, 0.3, 10**6, 0.3),  # by chance
        (0.3, 0.1, 10**9, 0.0),  # not less than none
        (0.3, 0.2, 10_000, 0.2),  # no more rows are to come
        (np.inf, 0.2, 10**6, 0.2),  # too few to be computed
        (0.2, np.inf, 10**6, np.inf),
    ],
)
def test_nothing_is_foreseen_that_cannot_be(few, many, n_rows, expected):
    trials = [trial(ONE, 64, n, error) for n, error in ((2500, few), (10_000, many))]
    assert foreseen(*trials, n_rows).error == expected


class Known(Judge):
    """Trials whose errors are those of a function of candidate, width and rows."""

    def __init__(self, error, n=20_000):
        rng = np.random.default_rng(0)
        super().__init__(rng.standard_normal((n, 3)), rng.standard_normal(n), regression=True)
        self.error = error

    def try_(self, candidate, width, n_rows, n_held, split=0):
        self.spent += self.planned(candidate, width, n_rows)
        found = trial(candidate, width, n_rows, self.error(candidate, width, n_rows), n_held)
        self.trials.append(found)
        return found


WIDTHS = [512, 1024, 2048, 4096]


def look(error, finalists=(ONE,), n_rows=10**6, widths=WIDTHS, budget=1e6):
    judge = Known(error)
    return SecondLook(judge, n_rows, widths, budget, 0.01).winner(finalists), judge


@pytest.mark.parametrize(("n_rows", "width"), [(15_000, 512), (10**6, 4096)])
def test_a_width_that_many_rows_need_is_found_by_few(n_rows, width):
    """At 15,000 rows every width errs alike; what a wide one lacks are rows."""

    def error(candidate, width, n_rows):
        doublings = np.log2(width / 512)
        return 0.5 - doublings * (0.02 - 0.02 * np.sqrt(15_000 / n_rows)) + 9.0 * (candidate != ONE)

    (winner, found), judge = look(error, n_rows=n_rows)
    assert winner.candidate == ONE
    assert found == width
    assert max(t.width for t in judge.trials) == 4096
    assert {t.n_rows for t in judge.trials} == {judge.n_fitted // 4, judge.n_fitted}


def test_a_narrower_kernel_is_climbed_to():
    (winner, _), _ = look(lambda c, w, n: 0.3 + 0.01 * abs(np.log2(c.setting / 8.0)))
    assert winner.candidate == replace(ONE, setting=8.0)
    assert winner.error == pytest.approx(0.3)


def test_another_kernel_may_overtake_with_more_rows():
    other = Candidate("asinh", "laplacian", 0.5)

    def error(candidate, width, n_rows):
        return 0.3 if candidate.kernel == "gaussian" else 0.2 + 20 / np.sqrt(n_rows)

    (winner, _), judge = look(error, [ONE, other])
    assert winner.candidate.kernel == "laplacian"
    assert winner.error > 0.3 - 0.2 * 0.3  # as measured, not as foreseen
    (winner, _), _ = look(error, [ONE, other], n_rows=judge.n_fitted)
    assert winner.candidate.kernel == "gaussian"


def test_what_there_is_no_time_for_is_not_tried():
    found, judge = look(lambda *_: 0.3, budget=0.0)
    assert found is None
    assert judge.trials == []
    planned = judge.planned(ONE, 1024, judge.n_fitted) + judge.planned(ONE, 1024, 3750)
    (_, width), judge = look(lambda c, w, n: 0.3 * 512 / w, budget=1.1 * planned)
    assert {t.width for t in judge.trials} == {1024}
    assert judge.spent <= 1.1 * planned
    assert width in WIDTHS


@pytest.mark.parametrize("error", [lambda *_: 0.0, lambda c, w, n: 10 / n], ids=["no", "clamped"])
def test_no_errors_are_the_best_there_are(error):
    """Two settings without an error are not climbed between for ever."""
    (winner, width), judge = look(error)
    assert winner.candidate == ONE
    assert winner.width == width == 512
    assert len(judge.trials) < 20


def test_the_trial_told_is_of_the_width_chosen():
    (winner, width), judge = look(lambda c, w, n: 0.5 if w < 1024 else 0.3)
    assert max(t.width for t in judge.trials) == 4096
    assert winner.width == width == 1024
    (winner, width), _ = look(lambda c, w, n: 0.3 if w <= 1024 else np.inf)  # too wide to compute
    assert np.isfinite(winner.error)


def test_the_width_is_sought_again_for_a_setting_that_was_climbed_to():
    """The setting of the first needs no width, the one that is better needs all."""

    def error(candidate, width, n_rows):
        return 0.3 if candidate == ONE else 0.29 - 0.02 * np.log2(width / 512)

    (winner, width), _ = look(error)
    assert winner.candidate != ONE
    assert width == 4096


def test_a_rough_kernel_must_win_by_what_a_smooth_one_may_gain_by_width():
    rough = Candidate(None, "piecewise-linear", 1.0)
    for lead, expected in ((0.001, "gaussian"), (0.1, "piecewise-linear")):
        (winner, _), _ = look(lambda c, w, n, lead=lead: 0.3 - lead * (c == rough), [rough, ONE])
        assert winner.candidate.kernel == expected


def test_another_kernel_may_take_a_share_of_the_time_only():
    other = replace(ONE, kernel="laplacian")
    judge = Known(lambda *_: 0.3)
    each = sum(judge.planned(c, 1024, n) for c in (ONE,) for n in (3750, 15_000))
    for factor, kernels in ((4.0, {"gaussian"}), (8.0, {"gaussian", "laplacian"})):
        _, judge = look(lambda *_: 0.3, [ONE, other], budget=factor * each)
        assert {t.candidate.kernel for t in judge.trials} == kernels


def test_a_width_that_is_named_is_kept():
    (winner, width), judge = look(lambda c, w, n: max(0.1, 1.0 / c.setting), widths=[768])
    assert width == 768
    assert {t.width for t in judge.trials} == {768}
    assert winner.candidate.setting > 1.0


def test_a_width_beyond_those_of_the_choice_may_be_named():
    (_, width), _ = look(lambda c, w, n: 0.3, widths=[10_000])
    assert width == 10_000


def test_rows_that_no_finalist_can_be_computed_of_leave_the_choice_as_it_was():
    found, _ = look(lambda *_: np.inf)
    assert found is None


@pytest.fixture
def small(monkeypatch):
    """A peek of 600 rows, and a second look where a pass has 6,000 or more."""
    monkeypatch.setattr(peeking, "PEEK_ROWS", 600)
    monkeypatch.setattr(second_look, "TIME_SHARE", 1000.0)  # trials take a twentieth at least


def rows(n):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4))
    return X, np.sin(2 * X).sum(axis=1) + 0.1 * rng.standard_normal(n)


def first(source, n):
    return next(iter(source.blocks(0, n, block_rows=n)))


class Asked(srf.ArraySource):
    """Rows in memory that keep how many were asked for, and how many were read."""

    def __init__(self, *arrays):
        super().__init__(*arrays)
        self.asked, self.n_read = [], 0

    def sample(self, n_rows):
        self.asked.append(n_rows)
        return super().sample(n_rows)

    def blocks(self, start=0, stop=None, *, block_rows=4096):
        for block in super().blocks(start, stop, block_rows=block_rows):
            self.n_read += block.span
            yield block


SETTINGS = {"regression": True, "random_state": 0, "n_components": 64, "kernels": "gaussian"}


@pytest.mark.parametrize(("n", "n_asked"), [(5900, []), (6000, [1200]), (10_000, [2000])], ids=str)
def test_many_rows_are_looked_at_again(small, n, n_asked):
    source = Asked(*rows(n))
    found = srf.select(source, **SETTINGS)
    assert [k for k in source.asked if k > 600] == n_asked
    assert found.n_held == (n_asked[0] if n_asked else 600) // 4
    assert max(found.table()["n_rows"]) == 3 * found.n_held
    again = srf.select(srf.ArraySource(*rows(n)), **SETTINGS)
    assert again.table() == found.table()
    assert repr(again.features) == repr(found.features)


def test_an_iterator_is_looked_at_once(small):
    X, y = rows(6000)
    blocks = [(X[i : i + 500], y[i : i + 500]) for i in range(0, len(X), 500)]
    found = srf.select(srf.IteratorSource(blocks), **SETTINGS)
    assert found.n_held == 150


def test_the_pass_chooses_what_select_chooses_and_reads_the_rest_once(small):
    source = Asked(*rows(6000))
    found = srf.select(srf.ArraySource(*rows(6000)), **SETTINGS)
    sums = srf.accumulate(source, "auto", **SETTINGS)
    assert source.n_read == sums.n_rows == 6000
    assert sums.encoder.tried == found.table()
    assert repr(sums.encoder.features.kernel_) == repr(found.features.kernel)


def test_bad_rows_of_the_second_look_are_left_out_or_told(small):
    X, y = rows(6000)
    X[::7, 1] = np.nan
    found = srf.select(srf.ArraySource(X, y), on_bad_rows="skip", **SETTINGS)
    assert 200 < found.n_held < 300


def test_rows_of_no_weight_do_not_count(small):
    X, y = rows(6000)
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    found = srf.select(srf.ArraySource(X, y, weights), **SETTINGS)
    assert 150 < found.n_held < 250


@pytest.mark.parametrize(("n_features", "n_asked"), [(4, 160_000), (100, (64 << 20) // 800)])
def test_the_rows_of_a_look_are_bounded(n_features, n_asked):
    source = Asked(np.random.default_rng(0).normal(size=(2000, n_features)), np.arange(2000.0))
    assert len(second_look.more_rows(source, 10**8, "raise")(first(source, 600)).X) == 2000
    assert source.asked == [n_asked]


def test_no_more_rows_are_held_out_than_errors_need():
    assert (
        Judge(np.arange(100_000.0)[:, None], np.arange(100_000.0), regression=True).n_held == 20_000
    )


def test_widths_are_those_of_a_pass_of_two_minutes():
    assert possible_widths(2_000_000, lambda width: True) == [512, 1024, 2048]
    assert possible_widths(10_000_000, lambda width: True) == [512, 1024]
    assert possible_widths(2_000_000, lambda width: width < 2000) == [512, 1024]


@pytest.mark.parametrize("at_last", [True, False])
def test_a_look_is_by_discriminants_where_the_tournament_was(small, monkeypatch, at_last):
    """And what is told in the end is how the errors of the winner were counted."""
    asked, plain = [], Judge.try_

    def hiding(judge, *args):
        plain(judge, *args)
        judge.trials[-1] = replace(judge.trials[-1], hides=at_last or len(judge.y) == 600)
        return judge.trials[-1]

    monkeypatch.setattr(Judge, "judge_by_discriminants", lambda judge: asked.append(len(judge.y)))
    monkeypatch.setattr(Judge, "try_", hiding)
    X, y = rows(6000)
    found = srf.select(srf.ArraySource(X, y > 0), **SETTINGS | {"regression": False})
    assert asked == [600, 1200]
    assert found.by_discriminants is at_last


def test_the_table_has_trials_of_many_rows_first_then_wide_ones():
    others = [replace(ONE, setting=float(s)) for s in range(2, 6)]
    sizes = [(64, 600), (128, 600), (64, 1200), (128, 1200)]
    trials = [
        trial(c, w, n, 0.1 * i) for i, (c, (w, n)) in enumerate(zip(others, sizes, strict=True))
    ]
    trials += [trial(ONE, 64, 600, 0.9), trial(others[0], 512, 300, 0.0)]
    table = srf.Selection(srf.RandomFourier(), None, trials=trials, winner=trials[4]).table()
    assert list(zip(table["n_components"], table["n_rows"], strict=True)) == [
        (64, 600),
        (128, 1200),
        (64, 1200),
        (128, 600),
        (64, 600),
    ]
    assert table["error"][0] == 0.9


def test_no_second_look_is_taken_where_the_first_took_the_budget(small):
    source = srf.ArraySource(*rows(10_000))
    found = srf.select(source, budget=0.01, **SETTINGS)
    assert max(found.table()["n_rows"]) <= 450


def test_a_budget_holds_for_both_looks(small):
    X, y = rows(10_000)
    settings = Settings(features="auto", budget=0.5, **SETTINGS)
    source = srf.ArraySource(X, y)
    more = second_look.more_rows(source, len(y), "raise")
    found = feature_choice.choose(peeking.peek(source), len(y), settings, more=more)
    n_first = max(t.n_rows for t in found.trials if t.n_rows <= 450)
    assert n_first == 450
    assert sum(t.seconds for t in found.trials) < 0.5 + 0.2  # each at least once


def test_kernels_that_came_near_are_finalists_and_others_are_not(monkeypatch):
    """Rough ones are not, however near: their pass is slow."""
    rng = np.random.default_rng(0)
    judge = Judge(rng.standard_normal((800, 3)), rng.standard_normal(800), regression=True)
    warped = replace(ONE, setting=2.0, warp=Recipe("full", "gaussian", 1.0))
    others = [Candidate(None, kernel, 1.0) for kernel in ("arc-cosine", "laplacian", "linear")]
    errors = [(warped, 1.0), (ONE, 1.05), *zip(others, (0.8, 1.09, 1.2), strict=True)]
    judge.trials = [trial(c, 512, judge.n_fitted, error) for c, error in errors]
    judge.trials.append(trial(others[2], 256, 100, 0.1))  # of few rows
    rough = Candidate(None, "piecewise-linear", 1.0)
    judge.trials.append(trial(rough, 512, judge.n_fitted, 0.9))
    found = Tournament(judge).finalists(warped)
    assert found == [warped, replace(warped, warp=None), *others[:2]]
    assert Tournament(judge).finalists(ONE) == [ONE, *others[:2]]
    judge.trials += [
        trial(replace(ONE, kernel=f"k{i}"), 512, judge.n_fitted, 1.0) for i in range(5)
    ]
    monkeypatch.setattr(tournament, "is_rough", lambda trial: trial.candidate == rough)
    monkeypatch.setattr(ranking, "TIE", -1.0)  # kinds that are not there have no cost
    assert len(Tournament(judge).finalists(ONE)) == tournament.MAX_FINALISTS


def test_a_warp_that_was_asked_for_is_kept():
    rng = np.random.default_rng(0)
    judge = Judge(rng.standard_normal((800, 3)), rng.standard_normal(800), regression=True)
    warped, other = (replace(ONE, kernel=k, warp=Recipe("full", k)) for k in ("gaussian", "cauchy"))
    errors = [(warped, 1.0), (other, 1.05), (ONE, 0.9), (replace(other, warp=None), 0.9)]
    judge.trials = [trial(c, 512, judge.n_fitted, error) for c, error in errors]
    assert Tournament(judge, warp="full").finalists(warped) == [warped, other]


@pytest.mark.parametrize("seed", range(4))
def test_select_keeps_a_warp_that_was_asked_for(small, seed):
    found = srf.select(
        srf.ArraySource(*rows(6000)), **SETTINGS | {"random_state": seed}, warp="full"
    )
    assert max(found.table()["n_rows"]) == 900
    assert found.warp.kind == "full"


@pytest.mark.parametrize(("n", "share"), [(2400, 0.37), (3000, 0.5), (12_000, 0.5)])
def test_rows_of_no_weight_are_none_that_a_look_has_more_of(small, n, share):
    """Of the first two a fifth is twice the rows of weight in the peek, but has no more of them."""
    X, y = rows(n)
    weights = (np.random.default_rng(0).random(n) < share).astype(float)
    source = srf.ArraySource(X, y, weights)
    peek = peeking.weighing(peeking.peek(source))
    found = second_look.more_rows(source, n, "raise")(peek)
    assert (found is not None) == (n == 12_000)


def test_a_second_look_keeps_to_the_memory_limit(small):
    X, y = rows(10_000)
    source = srf.ArraySource(X, y)
    wanted = {
        limit: second_look.more_rows(source, len(y), "raise", limit)(first(source, 600))
        for limit in ("1 GiB", memory.INTERPRETER_BYTES + (260 << 20) + 211_200, "400 MiB")
    }
    sizes = [0 if block is None else len(block.X) for block in wanted.values()]
    assert sizes[0] == 2000
    assert sizes[2] == 0
    assert memory.look_rows(600, 4, 1, list(wanted)[1]) == 1500
    assert 1500 <= sizes[1] < 1508  # eight stretches of one length


@pytest.mark.parametrize("n_targets", [1, 50])
def test_the_rows_of_a_look_are_bounded_by_their_targets_too(n_targets):
    X, Y = np.zeros((2000, 4)), np.zeros((2000, n_targets))
    sizes = []
    for limit in ("650 MiB", "40 GiB"):
        source = Asked(X, Y)
        second_look.more_rows(source, 10**8, "raise", limit)(first(source, 600))
        sizes += source.asked
    few = memory.look_rows(600, 4, n_targets, "650 MiB")
    assert sizes[1] == min(160_000, (64 << 20) // (8 * (4 + n_targets - 1)))
    assert sizes[0] == min(few, sizes[1])
    assert (sizes[0] < sizes[1]) == (n_targets == 50)


def test_no_second_look_is_taken_where_most_rows_are_bad(small):
    X, y = rows(6000)
    source = srf.ArraySource(X, y)
    read = second_look.more_rows(source, len(y), "skip")
    peek = first(source, 500)
    assert len(read(peek).X) >= 1200
    X[10:] = np.nan
    assert read(peek) is None
