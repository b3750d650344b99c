"""What is chosen where nothing is named: scaling, kernel, setting and width."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import dask.array as da
import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

import streamrf as srf
from integers import assert_same_bytes
from streamrf.cli import app
from streamrf.display import Run
from streamrf.display.stages import following, now
from streamrf.errors import DataError, MemoryBudgetError, ParameterError, StreamrfWarning
from streamrf.preprocessing import CALIBRATION_ROWS
from streamrf.report import facts
from streamrf.training import calibration, peeking
from streamrf.training.candidates import Candidate, Recipe, ScaledRows, crossed, has_units
from streamrf.training.judging import Judge, Trial, planned_seconds
from streamrf.training.peeking import MIN_PEEK_ROWS
from streamrf.training.ranking import is_better, of_columns, order_of, proven
from streamrf.training.settings import BUDGET_SECONDS
from streamrf.training.tournament import Tournament, possible_widths

N = 1500


@pytest.fixture(scope="module")
def waves():
    """Classes by the sign of a product of waves in columns of very different scales."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 4))
    y = (np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) > 0).astype(int)
    return X * [1, 50, 0.1, 1], y


@pytest.fixture(scope="module")
def chosen(waves):
    return srf.select(srf.ArraySource(*waves), n_components=128, budget=3, random_state=0)


def test_the_winner_beats_a_fixed_choice(waves, chosen):
    X, y = waves
    train, test = slice(None, 1000), slice(1000, None)
    options = {"random_state": 0}
    options |= {"normalize": chosen.normalize, "warp": chosen.warp}
    best = srf.RandomFeatureClassifier(chosen.features, **options)
    fixed = srf.RandomFeatureClassifier(srf.RandomMaclaurin(srf.Polynomial(degree=2), 128))
    errors = [1 - one.fit(X[train], y[train]).score(X[test], y[test]) for one in (best, fixed)]
    assert chosen.normalize in ("standard", "asinh")
    assert errors[0] < 0.12
    assert 2 * errors[0] < errors[1]


def test_the_same_rows_and_seed_choose_the_same(waves, chosen):
    X, y = waves
    blocks = [(X[i : i + 400], y[i : i + 400]) for i in range(0, N, 400)]
    again = srf.select(srf.IteratorSource(iter(blocks)), n_components=128, budget=3, random_state=0)
    assert again.table() == chosen.table()
    assert repr(again.features) == repr(chosen.features)


def test_every_source_and_a_cluster_choose_the_same(waves, two_workers, tmp_path):
    X, y = (part[:600] for part in waves)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = X, y
    sources = [
        (srf.HDF5Source(tmp_path / "rows.h5"), None),
        (srf.IteratorSource((X[i : i + 256], y[i : i + 256]) for i in range(0, len(X), 256)), None),
        (srf.DaskArraySource(da.from_array(X, (200, 4)), y), None),
        (srf.HDF5Source(tmp_path / "rows.h5"), two_workers),
    ]
    settings = {"features": "auto", "n_components": 16, "random_state": 0}
    sums = [srf.accumulate(source, engine=engine, **settings) for source, engine in sources]
    assert len({repr(one.encoder.features) for one in sums}) == 1
    for one in sums[1:]:
        assert one.encoder.tried == sums[0].encoder.tried
        assert_same_bytes(one.sums.to_tree(), sums[0].sums.to_tree())


class CountingSource(srf.ArraySource):
    """Counts the times that each row is read by a pass, and the rows of samples."""

    def __init__(self, X, y):
        super().__init__(X, y)
        self.n_times, self.n_sampled = np.zeros(len(X), dtype=int), 0

    def blocks(self, start=0, stop=None, *, block_rows=4096):
        for block in super().blocks(start, stop, block_rows=block_rows):
            self.n_times[block.position : block.position + block.span] += 1
            yield block

    def sample(self, n_rows):
        sample = super().sample(n_rows)
        self.n_sampled += len(sample.X)
        return sample


def test_the_pass_reads_each_row_once(waves, monkeypatch):
    monkeypatch.setattr(peeking, "PEEK_ROWS", 600)
    source = CountingSource(*waves)
    srf.accumulate(source, "auto", n_components=16, random_state=0)
    assert source.n_times.min() == source.n_times.max() == 1
    assert 600 <= source.n_sampled <= 600 + CALIBRATION_ROWS


def test_an_iterator_is_not_consumed_by_the_choice(waves):
    X, y = waves
    source = srf.IteratorSource(iter([(X, y)]))
    settings = {"features": "auto", "n_components": 64, "random_state": 0}
    sums = srf.accumulate(source, **settings)
    assert sums.n_rows == N
    assert sums.gram.tobytes() == srf.accumulate(srf.ArraySource(X, y), **settings).gram.tobytes()


def test_what_was_tried_is_kept_in_files(waves, tmp_path):
    sums = srf.accumulate(srf.ArraySource(*waves), "auto", n_components=64, random_state=0)
    tried = sums.encoder.tried
    assert tried["candidate"][0].startswith(("standard", "asinh", "none, piecewise-linear"))
    assert set(tried["n_components"]) >= {64}
    sums.save(tmp_path / "s.h5")
    sums.solve(1.0).save(tmp_path / "m.h5")
    assert srf.load_statistics(tmp_path / "s.h5").encoder.tried == tried
    assert srf.load_model(tmp_path / "m.h5").encoder.tried == tried
    named = srf.accumulate(
        srf.ArraySource(*waves),
        sums.encoder.features,
        normalize=sums.encoder.preprocessing.normalize,
    )
    assert named.encoder.tried is None


def test_statistics_chosen_once_go_on_by_like(waves):
    X, y = waves
    first = srf.accumulate(srf.ArraySource(X[:900], y[:900]), "auto", n_components=64)
    both = first + srf.accumulate(srf.ArraySource(X[900:], y[900:]), like=first)
    assert both.n_rows == N


def test_values_are_chosen_for_too():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((1200, 3))
    y = np.exp(-np.square(X[:, :2]).sum(axis=1)) + 0.01 * rng.standard_normal(1200)
    model = srf.RandomFeatureRegressor(random_state=0).fit(X[:900], y[:900])
    assert model.score(X[900:], y[900:]) > 0.97
    assert model.model_.encoder.tried is not None


def test_a_scaling_that_is_given_is_kept(waves):
    found = srf.select(srf.ArraySource(*waves), n_components=64, normalize="l2", budget=1)
    assert found.normalize == "l2"
    assert {name.split(",")[0] for name in found.table()["candidate"]} == {"l2"}


@pytest.mark.filterwarnings("ignore:.*rows of one class, 0, so no features can be compared")
@pytest.mark.parametrize("y", [np.arange(50) % 2, np.zeros(N, dtype=int)], ids=["few", "one"])
def test_where_there_is_nothing_to_choose_by_a_gaussian_is_taken(y):
    X = np.random.default_rng(0).standard_normal((len(y), 3))
    found = srf.select(srf.ArraySource(X, y), n_components=32)
    assert len(y) < MIN_PEEK_ROWS or len(np.unique(y)) == 1
    assert (found.normalize, found.features.n_components, found.trials) == ("standard", 32, ())


def test_a_width_is_chosen_within_the_rows():
    X = np.random.default_rng(0).standard_normal((700, 3))
    found = srf.select(srf.ArraySource(X, X[:, 0] > 0), budget=2)
    assert found.features.n_components == 512 or found.table()["candidate"][0].endswith("linear")


@pytest.mark.parametrize(
    ("gain", "n_rows", "width"),
    [
        (0.01, 50_000, 512),  # 1 % a doubling, four of them: not worth it
        (0.02, 50_000, 1024),  # a twentieth by four doublings, less by three
        (0.03, 50_000, 2048),
        (0.06, 1500, 1024),  # as many rows as features
        (0.2, 50_000, 8192),
    ],
)
def test_the_width_is_the_least_that_the_widest_hardly_beats(waves, gain, n_rows, width):
    class Falling(Judge):
        def try_(self, candidate, width, n_rows, n_held, split=0):
            error = (1 - gain) ** np.log2(width / 512)
            return Trial(candidate, width, n_rows, error, error, 1.0, 0.1)

    judge = Falling(*waves, regression=True, seed=0)
    one = Candidate("standard", "gaussian", 1.0)
    tournament = Tournament(judge, budget=1e6)
    assert tournament._width(one, possible_widths(n_rows, lambda width: True)) == width


def test_the_width_is_sought_again_with_what_wins_in_the_end(waves):
    """The leader of the first rounds gains nothing by width, and what beats it then gains much."""

    class Crossing(Judge):
        def try_(self, candidate, width, n_rows, n_held, split=0):
            error = 0.5
            if candidate.kernel == "laplacian":
                error = (0.6 if n_rows < self.n_fitted else 0.4) * 0.8 ** np.log2(width / 512)
            losses = np.full((2, n_held), error)
            return Trial(candidate, width, n_rows, error, error, 1.0, 0.1, losses)

    X, y = (np.resize(part, (9000, *part.shape[1:])) for part in waves)
    judge = Crossing(X, y, regression=True, seed=0)
    field = crossed(["gaussian", "laplacian"], "standard")
    tournament = Tournament(judge, 1e6, field)
    winner, width = tournament.winner(None, 50_000)
    assert (winner.candidate.kernel, width) == ("laplacian", 8192)
    tournament._left = 0.0
    assert tournament._wider(winner.candidate, 512, [512, 1024]) == 512


@pytest.mark.parametrize(
    ("error", "widest", "budget", "is_overtaken"),
    [
        (0.3, 2048, 1e6, True),
        (0.35, 2048, 1e6, False),
        (0.3, 512, 1e6, False),
        (0.3, 2048, 0, False),
    ],
)
def test_a_warp_must_be_ahead_where_it_was_tried_with_more_width_too(
    waves, error, widest, budget, is_overtaken
):
    """With 512 features it was ahead on nursery, and with 8,192 it erred seven times as much."""
    tried = []

    class Judged(Judge):
        def try_(self, candidate, width, n_rows, n_held, split=0):
            tried.append((candidate, width))
            return Trial(candidate, width, n_rows, error, error, 1.0, 0.1)

    judge = Judged(*waves, regression=True, seed=0)
    warped = Candidate("l2", "gaussian", 0.5, Recipe("full", "gaussian", 2.0))
    judge.trials = [Trial(warped, w, 500, e, e, 1.0, 0.1) for w, e in ((512, 0.4), (widest, 0.33))]
    tournament = Tournament(judge, budget, warp="auto")
    found = tournament._overtaking(judge.trials[0])
    plain = Candidate("l2", "gaussian", 2.0)
    assert (found is not None) == is_overtaken
    assert found is None or (found.candidate, found.width) == (plain, widest)
    assert tried == ([(plain, widest)] if budget and widest > 512 else [])


@pytest.fixture
def warped_gaussian(waves):
    """Trials in which a Gaussian errs as told, and less with a warp, beside an arc-cosine."""

    class Judged(Judge):
        error, warped, tried = 0.4, 0.05, ()

        def try_(self, candidate, width, n_rows, n_held, split=0):
            error = 0.1
            if candidate.kernel == "gaussian":
                error = self.error if candidate.warp is None else self.warped
            self.tried = (*self.tried, (candidate, width))
            losses = np.full((2, n_held), error)
            return Trial(candidate, width, n_rows, error, error, 1.0, 0.1, losses)

    X, y = (np.resize(part, (9000, *part.shape[1:])) for part in waves)
    return Judged(X, y, regression=True, seed=0)


FIELD = [Candidate("l2", "arc-cosine", 1.0), Candidate("standard", "gaussian", 1.0)]


@pytest.mark.parametrize(("warped", "is_hoped_for"), [(0.05, True), (0.14, True), (0.2, False)])
def test_warps_are_given_up_only_if_not_even_a_warp_brings_a_gaussian_near(
    warped_gaussian, warped, is_hoped_for
):
    """Where many columns say nothing, a Gaussian without a warp is far behind."""
    judge, budget = warped_gaussian, 100.0
    judge.warped = warped
    tournament = Tournament(judge, budget, FIELD, warp="auto")
    ranked = [judge.try_(candidate, 256, 500, judge.n_held) for candidate in FIELD]
    left, judge.tried = tournament._left, ()
    tournament._give_up_warps(ranked)
    (trial,) = judge.tried
    assert trial == (FIELD[1].warped("diagonal", 2), 256)
    assert (tournament._warp is not None) == is_hoped_for
    paid = judge.planned(trial[0], 256, 500)
    together = tournament._left + tournament._kept
    assert together == pytest.approx(budget - paid)
    assert (tournament._left == left) == is_hoped_for
    judge.error, judge.tried = 0.14, ()  # near without
    near = [judge.try_(candidate, 256, 500, judge.n_held) for candidate in FIELD]
    judge.tried = ()
    Tournament(judge, budget, FIELD, warp="auto")._give_up_warps(near)
    assert judge.tried == ()
    poor = Tournament(judge, 0.1, FIELD, warp="auto")  # no time for one
    poor._give_up_warps(ranked)
    assert (judge.tried, poor._warp) == ((), None)


def test_warps_are_compared_with_fewer_features_where_time_is_short(warped_gaussian):
    judge = warped_gaussian
    winner, _ = Tournament(judge, 1e6, FIELD, warp="auto").winner(2048)
    assert (winner.candidate.warp.kind, winner.width) == ("diagonal", 2048)
    narrow = [c.warped("diagonal", 2) for c in FIELD[1:]] * 2
    plain = [judge.planned(FIELD[0], w, 9000, split) for w in (512,) for split in (0, 1)]
    enough = sum(plain) + sum(judge.planned(c, 512, 9000) for c in narrow) * 3
    ranked = [judge.try_(FIELD[0], 2048, judge.n_fitted, judge.n_held)]
    ranked += [judge.try_(FIELD[1], 2048, judge.n_fitted, judge.n_held)]
    tournament = Tournament(judge, 1e6, FIELD, warp="auto")
    tournament._left, tournament._kept, judge.tried = 0.0, enough, ()
    found = tournament._warped(ranked, ranked[0])
    assert found.candidate.warp is not None
    assert found.width < 2048
    assert (FIELD[0], found.width) in judge.tried  # the best without a warp, as narrow
    tournament._left, tournament._kept, judge.tried = 0.0, 0.01, ()
    assert tournament._warped(ranked, ranked[0]) is ranked[0]


def test_far_fewer_errors_are_better_whatever_the_squares():
    def trial(errors, squares):
        losses = np.array([np.arange(2000) < errors, np.full(2000, squares)], dtype=np.float64)
        return Trial(FIELD[0], 64, 100, *losses.mean(axis=1), 1.0, 0.1, losses)

    assert is_better(trial(20, 0.3), trial(100, 0.2))
    assert not is_better(trial(95, 0.3), trial(100, 0.2))
    assert is_better(trial(95, 0.2), trial(100, 0.3))


def test_rows_of_different_units_are_not_given_one_length(rng):
    X = rng.normal(size=(500, 4)) * [1, 20, 30_000, 0.3]
    assert has_units(X)
    assert not has_units(X * [1, 1, 1e-3, 1])
    assert not has_units(np.tile(X, 30))  # as words are
    assert not has_units(np.zeros((5, 3)))

    def trials(**errors):
        found = [
            Trial(replace(FIELD[1], normalize=scaling), 64, 100, error, error, 1.0, 0.1)
            for scaling, error in errors.items()
        ]
        return sorted(found, key=lambda trial: trial.error)

    def kept(**errors):
        return {trial.candidate.normalize for trial in of_columns(trials(**errors))}

    assert kept(l2=0.1, asinh=0.11, standard=0.2) == {"asinh", "standard"}
    assert kept(l2=0.09, asinh=0.21, standard=0.2) == {"l2", "asinh", "standard"}
    assert kept(l2=0.0, asinh=0.0) == {"asinh"}
    assert kept(l2=0.3, asinh=0.1) == {"asinh"}
    assert kept(l2=0.3) == {"l2"}
    source = srf.ArraySource(X, X[:, 0] + X[:, 1] / 20 > 0)
    found = srf.select(source, n_components=64, budget=0.3, random_state=0)
    assert found.normalize != "l2"


class Errors(Judge):
    """Trials of known errors: of linear features, which are tried last, the greatest."""

    def __init__(self, X, y):
        super().__init__(X, y, regression=True, seed=0)
        self.told = []  # of the pass, before each trial

    def try_(self, candidate, width, n_rows, n_held, split=0):
        self.told.append(now().foreseen("reading"))
        error = 1.0 if candidate.kernel == "linear" else 0.5
        losses = np.full((2, n_held), error)
        return Trial(candidate, width, n_rows, error, error, 1.0, 0.1, losses, slowness=2.0)


@pytest.mark.parametrize("warp", [None, "auto"])
def test_the_pass_is_foreseen_by_the_best_so_far_and_not_by_what_was_tried_last(waves, warp):
    field = [Candidate("standard", kernel, 1.0) for kernel in ("gaussian", "linear")]
    run = Run(expected=["reading", "solving"])
    judge = Errors(*waves)
    with following(run):
        tournament = Tournament(judge, 1e6, field, warp=warp)
        assert tournament.winner(64, 10**6)[0].candidate.kernel == "gaussian"
    one = Candidate("standard", "gaussian", 1.0)
    rows = [planned_seconds(one, 64, n, waves[0].shape[1]) for n in (0, 10**6)]
    later = [told for told in judge.told if told is not None]
    assert later
    assert judge.told[-len(later) :] == later  # not of the narrow rounds
    assert later == pytest.approx([2.0 * (rows[1] - rows[0])] * len(later))
    assert run.foreseen("solving") > 0


@pytest.mark.parametrize("n_rows", [800, 50_000, None])
def test_nothing_is_foreseen_of_a_pass_before_its_rows_and_width_are_known(waves, n_rows):
    run = Run(expected=["reading", "solving"])
    judge = Errors(*waves)
    with following(run):
        field = [Candidate("standard", "gaussian", gamma) for gamma in (0.5, 1.0)]
        Tournament(judge, 1e6, field).winner(None, n_rows)
    assert judge.told[0] is None
    assert (judge.told[-1] is None) == (run.foreseen("reading") is None) == (n_rows is None)


def test_ties_go_to_the_cheaper_candidate():
    cheap, dear = Candidate("l2", "gaussian", 1.0), Candidate("l2", "polynomial", 3.0)
    trials = [Trial(c, 64, 100, e, 0.0, 1.0, 0.1) for c, e in ((dear, 0.1), (cheap, 0.1002))]
    assert [trial.candidate for trial in order_of(trials)] == [cheap, dear]
    far = [trials[0], Trial(cheap, 64, 100, 0.11, 0.0, 1.0, 0.1)]
    assert order_of(far)[0].candidate == dear


def test_gamma_is_in_units_of_the_median_distance():
    X = np.random.default_rng(0).standard_normal((400, 5))
    scaled = ScaledRows(X, 300, np.random.default_rng(0))
    apart = [np.square(a - b).sum() for a in X[:300] for b in X[:40]]
    assert 1 / scaled.unit(None, "gaussian") == pytest.approx(np.median(apart), rel=0.1)
    assert crossed()[0].neighbours()[1].setting == 2 * crossed()[0].setting


def test_one_wrong_entry_is_in_the_scales_that_are_tried():
    X = np.random.default_rng(0).standard_normal((400, 2))
    plain = ScaledRows(X, 300, np.random.default_rng(0)).rows("standard")
    X[350, 1] = 1e4  # among the rows held out
    spoilt = ScaledRows(X, 300, np.random.default_rng(0)).rows("standard")
    assert plain[:300].std(axis=0) == pytest.approx(1)  # learnt from the rows fitted alone
    assert spoilt.std(axis=0) == pytest.approx(1)
    assert spoilt[:300, 1].std() < 0.01


@pytest.mark.parametrize("n_rows", [199, 200, 490])
def test_few_rows_choose_what_is_clearly_better(n_rows):
    x = np.random.default_rng(0).uniform(0, 10, (n_rows, 1))
    y = np.sin(3 * x[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(n_rows)
    found = srf.select(srf.ArraySource(x, y), regression=True, random_state=0)
    if n_rows < 200:
        assert found.winner is None
        assert found.normalize == "standard"
        return
    assert found.winner.mse < 0.1 * y.var()  # the usual Gaussian has more than half of it


@pytest.mark.parametrize("options", [{}, {"normalize": "l2"}, {"warp": "diagonal"}])
def test_few_rows_of_noise_keep_the_usual_gaussian(options):
    rng = np.random.default_rng(0)
    source = srf.ArraySource(rng.standard_normal((240, 6)), rng.standard_normal(240))
    found = srf.select(source, regression=True, random_state=0, **options)
    winner = found.winner.candidate
    assert (winner.kernel, winner.setting) == ("gaussian", 1.0)
    assert winner.normalize == options.get("normalize", "standard")
    assert (winner.warp is not None) == ("warp" in options)


def test_few_rows_keep_the_first_kernel_named_unless_another_is_clearly_better():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 4))
    names = "laplacian,polynomial"
    noise = srf.select(
        srf.ArraySource(X, rng.standard_normal(240)), kernels=names, regression=True, random_state=0
    )
    square = srf.select(
        srf.ArraySource(X, X[:, 0] * X[:, 1]), kernels=names, regression=True, random_state=0
    )
    assert noise.winner.candidate.kernel == "laplacian"
    assert square.winner.candidate.kernel == "polynomial"


def test_the_plan_grows_with_width_rows_and_columns():
    one = Candidate(None, "laplacian", 0.5)
    plans = [planned_seconds(one, *size) for size in ((256, 10**4, 10), (512, 10**4, 10))]
    plans += [planned_seconds(one, 512, 10**5, 10), planned_seconds(one, 512, 10**5, 100)]
    assert plans == sorted(plans)
    assert len(set(plans)) == 4
    few, more = (planned_seconds(one, 512, 10**4, 10, n) for n in (10, 1000))
    assert few == planned_seconds(one, 512, 10**4, 10)
    assert more > 5 * few


def test_a_trial_is_the_pass_of_the_library(waves):
    """The error of a trial is that of the same map, fitted and measured by the public functions."""
    X, y = waves
    judge = Judge(X, y, regression=False, seed=3)
    trial = judge.try_(Candidate("standard", "gaussian", 1.0), 64, judge.n_fitted, judge.n_held)
    order = np.random.default_rng(3).permutation(N)
    X, y = judge.scaled.rows("standard"), y[order]
    fitted, held = slice(None, judge.n_fitted), slice(judge.n_fitted, None)
    map_ = judge.feature_map(trial.candidate, 64, 3)
    model = srf.accumulate(srf.ArraySource(X[fitted], y[fitted]), map_).solve(trial.alpha)
    assert np.mean(model.predict(X[held]) != y[held]) == pytest.approx(trial.error, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": "best"}, "a feature map or 'auto'"),
        ({"features": "auto", "n_components": 0}, "integer of at least 1"),
        ({"features": srf.RandomFourier(), "n_components": 8}, "a map has its own"),
        ({"features": "auto", "normalize": "log"}, "normalize must be one of"),
    ],
)
def test_wrong_settings_are_one_sentence(waves, options, message):
    with pytest.raises(ParameterError, match=message):
        srf.accumulate(srf.ArraySource(*waves), **options)


def test_rows_without_targets_or_time_choose_nothing(waves):
    with pytest.raises(DataError, match="no targets"):
        srf.select(srf.ArraySource(waves[0]))
    with pytest.raises(ParameterError, match="budget"):
        srf.select(srf.ArraySource(*waves), budget=0)


def test_values_beyond_float32_are_chosen_for_without_warnings_of_numpy(waves):
    X, y = waves
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        clf = srf.RandomFeatureClassifier(n_components=64, budget=1, random_state=0)
        assert clf.fit(X[:500] * 1e140, y[:500]).score(X * 1e140, y) > 0.8


@pytest.mark.parametrize("names", [None, np.array(["a", "b", "c"])], ids=["numbers", "texts"])
@pytest.mark.parametrize("order", ["by class", "shuffled"])
def test_classes_that_come_after_the_rows_looked_at_are_told(rng, monkeypatch, order, names):
    monkeypatch.setattr(peeking, "PEEK_BYTES", 8 * 3 * 400)
    y = np.arange(600) // 200 if order == "by class" else np.arange(600) % 3
    X = rng.standard_normal((600, 3)) + y[:, np.newaxis]
    labels = y if names is None else names[y]
    blocks = ((X[i : i + 100], labels[i : i + 100]) for i in range(0, 600, 100))
    clf = srf.RandomFeatureClassifier(n_components=32, budget=0.1, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clf.fit(srf.IteratorSource(blocks))
    told = [str(one.message) for one in caught if "over a tenth of the rows" in str(one.message)]
    label = repr(2 if names is None else "c")
    assert told == [] if order == "shuffled" else f"have the label {label}, and none" in told[0]
    assert len(told) == (order == "by class")


def test_late_classes_are_told_by_a_pass_that_goes_on(rng, monkeypatch, tmp_path):
    monkeypatch.setattr(peeking, "PEEK_BYTES", 8 * 3 * 400)
    y = np.arange(600) // 200
    X = rng.standard_normal((600, 3)) + y[:, np.newaxis]

    def blocks(stop):
        for i in range(0, 600, 100):
            if i == stop:
                raise OSError("power cut")
            yield X[i : i + 100], y[i : i + 100]

    def passed(stop):
        source = srf.IteratorSource(lambda: blocks(stop), key="rows")
        options = {"n_components": 32, "budget": 0.1, "random_state": 0}
        path = tmp_path / "pass.checkpoint"
        return srf.accumulate(source, "auto", checkpoint=path, checkpoint_every=0, **options)

    with pytest.raises(OSError, match="power cut"):
        passed(500)
    with pytest.warns(StreamrfWarning, match="over a tenth of the rows have the label 2, and none"):
        assert passed(None).n_rows == 600


def test_why_nothing_was_tried_is_told(waves):
    X, y = waves
    with h5py.File("rows.h5", "w") as file:
        file["X"], file["y"] = X[:150], y[:150]
        file["more"], file["one"] = X[:250], np.zeros(250, dtype=int)
    said = CliRunner().invoke(app, ["select", "rows.h5", "--kernels", "laplacian,cauchy"]).stdout
    assert "chosen    RandomFourier(kernel=Laplacian(" in said
    assert ", untried: too few rows to choose by\n" in said
    said = CliRunner().invoke(app, ["select", "rows.h5", "--x", "more", "--y", "one"])
    assert "the 250 rows looked at before the pass are rows of one class, 0, so" in said.stderr
    assert "chosen    StructuredFourier(kernel=Gaussian(" in said.stdout
    assert ", untried: rows of one class, 0\n" in said.stdout


def test_a_fit_chooses_within_the_budget_given(waves):
    with h5py.File("rows.h5", "w") as file:
        file["X"], file["y"] = waves
    source = srf.ArraySource(*waves)
    usual, quick = (
        srf.select(source, n_components=64, budget=budget, random_state=0)
        for budget in (None, 0.01)
    )
    assert len(quick.table()["candidate"]) < len(usual.table()["candidate"])
    options = {"n_components": 64, "budget": 0.01, "random_state": 0}
    model = srf.RandomFeatureClassifier(**options).fit(*waves).model_
    assert model.encoder.tried == quick.table()
    words = ["fit", "rows.h5", "--components", "64", "--budget", "0.01", "--model", "m.h5"]
    CliRunner().invoke(app, words, catch_exceptions=False)
    assert srf.load_model("m.h5").encoder.tried == quick.table()
    named = CliRunner().invoke(app, [*words, "--map", "fourier"])
    assert "--budget is for features that are chosen" in named.output
    begun = srf.accumulate(source, "auto", **options)
    with pytest.raises(ParameterError, match=r"budget .* is for a choice of features"):
        srf.accumulate(source, "auto", like=begun, budget=1)
    with pytest.raises(ParameterError, match=r"budget .* is for features='auto'"):
        srf.accumulate(source, srf.RandomFourier(), budget=1)


def test_a_selection_is_what_a_fit_with_the_same_options_chooses(waves):
    X, y = waves
    values = X[:, 0] + 0.5 * X[:, 1] ** 2  # fractions: a regression, without a word
    source = srf.ArraySource(X * [1000.0] + 5.0, values)
    options = {"n_components": 64, "normalize": "standard", "warp": None, "random_state": 0}
    scales = srf.moments(srf.ArraySource(X))  # of other rows, so that the choice may differ
    found = srf.select(source, scale_like=scales, **options)
    fitted = srf.RandomFeatureRegressor(scale_like=scales, **options).fit(source)
    assert fitted.model_.encoder.tried == found.table()
    assert fitted.features_.n_components == 64
    told = srf.select(source, task="regression", **options).table()
    assert told == srf.select(source, **options).table() != found.table()
    with pytest.raises(DataError, match="more like values"):
        srf.select(srf.ArraySource(X, np.arange(len(X))), **options)
    with pytest.raises(ParameterError, match="a map has its own"):
        srf.RandomFeatureClassifier(srf.RandomFourier(), n_components=8).fit(X, y)


def test_the_shortest_command_chooses(waves, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with h5py.File("rows.h5", "w") as file:
        file["X"], file["y"] = waves
    run = CliRunner().invoke
    options = ["--components", "64", "--json"]
    shown = run(app, ["select", "rows.h5", *options])
    fitted = run(app, ["fit", "rows.h5", "--model", "m.h5", *options])
    assert (shown.exit_code, fitted.exit_code) == (0, 0), shown.output + fitted.output
    figures = json.loads(shown.stdout)
    tried = srf.load_model("m.h5").encoder.tried
    assert tried == figures["tried"]
    said = run(app, ["select", "rows.h5", "--components", "64", "--budget", "0.01"]).stdout
    assert "next      streamrf fit with the same rows, --budget 0.01, and seed chooses" in said
    lines = run(app, ["select", "rows.h5", "--components", "64"]).stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("candidate ")) + 1
    assert lines[start - 3].startswith(
        "The first is the winner. The best of these are compared further"
    )
    errors = [line.split("  ")[-1] for line in lines[start:]]
    assert errors == [f"{100 * error:.2f} %" for error in tried["error"][: len(errors)]]
    info = run(app, ["info", "m.h5"])
    chosen = f"{tried['candidate'][0]}; of {len(tried['candidate'])} tried, error"
    assert f"{chosen} {errors[0]} on rows held out\n" in info.stdout


def test_errors_of_values_are_shown_as_they_are(waves, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with h5py.File("rows.h5", "w") as file:
        file["X"], file["y"] = waves[0], waves[0][:, 0] ** 2
    words = ["rows.h5", "--components", "64", "--regression"]
    said = CliRunner().invoke(app, ["select", *words]).stdout
    fitted = CliRunner().invoke(app, ["fit", *words, "--model", "m.h5"])
    assert fitted.exit_code == 0, fitted.output
    error = f"{srf.load_model('m.h5').encoder.tried['error'][0] ** 0.5:.6g}"
    assert "  RMSE on rows held out\n" in said
    assert f"  {error}\n" in said
    assert "%" not in said
    info = CliRunner().invoke(app, ["info", "m.h5"]).stdout
    assert f"RMSE {error} on rows held out\n" in info


def test_errors_of_several_values_are_squares(waves):
    X = waves[0]
    found = srf.select(srf.ArraySource(X, X[:, :2] ** 2), n_components=64, budget=0.1)
    assert (found.n_targets, found.regression) == (2, True)
    assert facts.error_words(0.25, 2) == ("MSE", "0.25")
    assert facts.error_words(0.25, 1) == ("RMSE", "0.5")


def test_that_rows_are_not_scaled_does_not_read_as_that_nothing_was_chosen():
    assert facts.candidate_words("none, convolution, windows of 3").startswith("no scaling, convol")
    assert facts.candidate_words("l2, linear") == "l2, linear"


def test_features_of_earlier_statistics_are_not_told_as_chosen(waves, tmp_path, monkeypatch):
    """They were "chosen of 59" in a run that chose nothing."""
    monkeypatch.chdir(tmp_path)
    X, y = waves
    srf.accumulate(srf.ArraySource(X, y), "auto", n_components=64, random_state=0).save("s.h5")
    srf.accumulate(srf.ArraySource(X, y), srf.StructuredFourier(n_components=64)).save("named.h5")
    with h5py.File("rows.h5", "w") as file:
        file["X"], file["y"] = waves
    tried = srf.load_statistics("s.h5").encoder.tried
    fit = ["fit", "rows.h5", "--model", "m.h5", "--like"]
    said = [CliRunner().invoke(app, [*fit, name]).stdout for name in ("s.h5", "named.h5")]
    name = facts.candidate_words(tried["candidate"][0])
    assert f"features  64, as in s.h5: {name}\n" in said[0]
    assert "features  64, as in named.h5: StructuredFourier\n" in said[1]


def test_the_budget_is_told_as_it_is():
    plan = f"{BUDGET_SECONDS:g}"
    shown = CliRunner().invoke(app, ["select", "--help"], env={"COLUMNS": "200"}).stdout
    shown = " ".join(shown.split())
    assert f"Planned seconds of the choice; {plan}, or a quarter of the pass" in shown
    assert f"None means {plan}, or a quarter of the pass" in srf.select.__doc__
    for page in ("selection.md", "guides/data.md"):
        text = (Path(__file__).parents[1] / "docs" / page).read_text()
        assert f"{plan} seconds of one core, or a quarter of the pass" in text


@pytest.mark.parametrize(
    ("gain", "width", "is_first"),
    [
        (0.1, 512, True),
        (0.001, 512, False),
        (0.1, 1024, False),
        (0.3, 1024, True),
        (0.3, 8192, False),
        (0.6, 8192, True),
    ],
)
def test_piecewise_linear_functions_win_by_noise_and_by_what_width_may_gain(
    rng, gain, width, is_first
):
    noise = rng.normal(size=(2, 400))

    def trial(kernel, normalize, losses):
        candidate = Candidate(normalize, kernel, 1.0)
        return Trial(candidate, 512, 3000, losses[0].mean(), losses[1].mean(), 1.0, 1.0, losses)

    smooth = [trial("gaussian", name, 1 + 0.1 * rng.normal(size=(2, 400))) for name in ("l2", None)]
    smooth = order_of(smooth)
    rough = trial("piecewise-linear", None, smooth[0].losses - gain + 0.1 * noise)
    ranked = proven([rough, *smooth], width)
    assert (ranked[0] is rough) == is_first
    assert sorted(map(id, ranked)) == sorted(map(id, [rough, *smooth]))
    assert proven(smooth, width) == smooth


@pytest.mark.parametrize("width", [1, 4, 5])
def test_a_width_that_is_named_is_kept_by_what_follows_from_the_columns(width):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    y = X @ [1.0, 2.0, 3.0, 4.0]  # linear features are the best, and five
    found = srf.select(srf.ArraySource(X, y), n_components=width, random_state=0)
    assert found.n_components <= width
    assert ("none, linear" in found.table()["candidate"]) == (width == 5)
    named = srf.select(srf.ArraySource(X, y), kernels=["linear"], n_components=width)
    assert named.n_components == 5


@pytest.mark.parametrize(
    ("limit", "width", "message"),
    [
        (1, None, "no width fits"),
        ("1 KiB", None, "no width fits"),
        ("334 MiB", None, "512 components need"),
        ("334 MiB", 600, "600 components need"),
    ],
)
def test_memory_that_holds_no_features_is_told_before_any_are_tried(
    limit, width, message, monkeypatch
):
    X = np.random.default_rng(0).normal(size=(900, 4))
    clf = srf.RandomFeatureClassifier(n_components=width, memory_limit=limit, random_state=0)
    monkeypatch.setattr(calibration, "choose", pytest.fail)
    with pytest.raises(MemoryBudgetError, match=message):
        clf.fit(X, X[:, 0] > 0)


@pytest.mark.parametrize(("size", "column"), [(1e18, 2), (1e-15, slice(None)), (1e-44, slice(2))])
def test_rows_that_some_candidates_cannot_hold_are_for_the_others(size, column):
    """Numbers of tweets, farads: without a scaling the squares of such columns are no float32."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = X[:, 0] * X[:, 1] > 0
    X[:, column] *= size
    fitted = srf.RandomFeatureClassifier(n_components=16, random_state=0).fit(X[:600], y[:600])
    assert fitted.score(X[600:], y[600:]) > 0.85


def test_where_no_candidate_can_be_computed_the_first_says_why():
    X = 1e18 * np.random.default_rng(0).normal(size=(600, 2))
    with pytest.raises(srf.errors.ParameterError, match="gamma must be positive"):
        srf.select(srf.ArraySource(X, X[:, 0] > 0), kernels="polynomial", normalize=None)


def test_rows_that_are_all_equal_are_told_in_words_of_what_was_asked():
    constant = np.ones((300, 3))
    with pytest.raises(DataError, match="X: the 300 sample rows are all equal, so no features"):
        srf.RandomFeatureClassifier().fit(constant, np.arange(300) % 2)
    with pytest.raises(DataError, match="X: one sample row is too few to choose features by"):
        srf.RandomFeatureRegressor().fit(constant[:1], np.ones(1))


@pytest.mark.parametrize("n_rare", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_a_class_of_a_row_or_two_is_no_reason_to_fail(seed, n_rare):
    rng = np.random.default_rng(seed)
    y = np.zeros(500, dtype=int)
    y[rng.choice(500, n_rare, replace=False)] = 1
    source = srf.ArraySource(rng.normal(size=(500, 3)), y)
    chosen = srf.select(source, n_components=32, budget=0.02, random_state=seed)
    assert chosen.features.n_components == 32
