"""Copies of rows are held out together, and rows that are equal by chance are not copies."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import balanced_accuracy_score

import streamrf as srf
from passes import add, begin
from streamrf import storage
from streamrf.sources import SparseRows, as_rows, uniform
from streamrf.storage import Fields
from streamrf.training import Pass, holdout
from streamrf.training.copies import Copies, row_keys
from streamrf.training.holdout import Holdout
from streamrf.training.judging import HELD_SHARE, Judge
from streamrf.training.loss_pass import HeldRows, LossPass

N = 1500


def generator():
    return np.random.default_rng(7)


def rows(n=N, n_features=5):
    rng = generator()
    X = rng.normal(size=(n, n_features))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n)


def thrice(n=N // 3):
    X, y = rows(n)
    order = generator().permutation(np.repeat(np.arange(n), 3))
    return X[order], y[order]


def one_hot(levels, n_levels):
    return np.eye(n_levels)[levels]


# ---- keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
def test_equal_rows_have_equal_keys_in_every_dtype_and_form(dtype):
    X = generator().integers(0, 3, (200, 30))
    keys = row_keys(X.astype(dtype))
    np.testing.assert_array_equal(keys, row_keys(X.astype(np.float64)))
    np.testing.assert_array_equal(
        keys, row_keys(SparseRows(scipy.sparse.csr_array(X.astype(dtype))))
    )
    assert len(np.unique(keys)) == len(np.unique(X, axis=0))


def test_a_row_of_zeros_has_one_key_with_either_sign():
    X = np.array([[0.0, -0.0], [0.0, 0.0], [-0.0, 1.0], [0.0, 1.0]])
    keys = row_keys(X)
    assert keys[0] == keys[1] != keys[2] == keys[3]


def test_keys_do_not_depend_on_the_block():
    X = generator().normal(size=(100, 1000))  # more than a piece
    np.testing.assert_array_equal(row_keys(X), np.concatenate([row_keys(x[None]) for x in X]))


def test_small_integers_have_keys_of_their_own():
    grid = np.stack(np.meshgrid(*[np.arange(12.0)] * 4), axis=-1).reshape(-1, 4)
    assert len(np.unique(row_keys(grid))) == len(grid)


# ---- what are copies ----------------------------------------------------------------------------


def equal_by_chance():
    rng = generator()
    n = 5000
    binary = rng.integers(0, 2, (n, 10))
    return {
        "ten binary columns": binary,
        "doubled binary columns": np.hstack([binary, binary]),
        "binary columns four times": np.hstack([binary] * 4),
        "binary columns and their complements": np.hstack([binary, 1 - binary]),
        "one integer column": rng.integers(0, 50, (n, 1)),
        "a grid of two columns": rng.integers(0, 30, (n, 2)),
        "a grid of five columns": rng.integers(0, 5, (n, 5)),
        "a category": one_hot(rng.integers(0, 30, n), 30),
        "categories": np.hstack([one_hot(rng.integers(0, k, n), k) for k in (4, 4, 4, 10)]),
        "hours and days": np.hstack(
            [rng.integers(0, 24, (n, 1)), one_hot(rng.integers(0, 7, n), 7)]
        ),
        "counts": rng.poisson(0.3, (n, 12)),
        "blank rows": np.where(rng.random((n, 1)) < 0.6, 0, rng.normal(size=(n, 20))),
        "rows once": rng.normal(size=(n, 5)),
    }


@pytest.mark.parametrize("name", equal_by_chance())
def test_rows_equal_by_chance_are_not_copies(name):
    X = equal_by_chance()[name]
    assert Copies.of(X, np.zeros(len(X))) is None


def copied():
    rng = generator()
    X = rng.normal(size=(4000, 5))
    return {
        "each three times": np.repeat(X, 3, axis=0),
        "a file read twice": np.vstack([X, X]),
        "drawn with replacement": X[rng.integers(0, 4000, 4000)],
        "a rare class": X[np.r_[120:4000, rng.choice(120, 3760)]],
        "one column of many values": np.repeat(
            np.hstack([X[:, :1], rng.integers(0, 2, (4000, 4))]), 3, axis=0
        ),
        "two columns": np.repeat(X[:, :2], 3, axis=0),
        "and blank rows": np.vstack([np.zeros((1000, 5)), X, X]),
        "sparse": SparseRows(
            scipy.sparse.csr_array(np.repeat(X * (rng.random(X.shape) < 0.6), 3, axis=0))
        ),
    }


@pytest.mark.parametrize("name", copied())
def test_copies_are_found(name):
    X = copied()[name]
    found = Copies.of(X, np.zeros(len(X)))
    assert found is not None
    assert len(found.common) == (name == "and blank rows")


def test_measurements_repeated_are_not_copies():
    """Their targets have noise of their own, which no row held out shares with one learnt."""
    X, y = thrice()
    assert Copies.of(X, y) is not None
    assert Copies.of(X, y + generator().normal(size=len(y))) is None


def test_a_few_copies_are_none():
    X, y = rows()
    few = np.r_[np.arange(N), np.arange(N // 20)]
    assert Copies.of(X[few], y[few]) is None


def test_a_part_of_the_rows_tells_of_all():
    """In a tenth of a bootstrap sample few rows have a twin; each one has in all."""
    X, y = rows(30_000)
    drawn = generator().integers(0, 30_000, 60_000)
    X, y = X[drawn], y[drawn]
    assert Copies.of(X[::20], y[::20]) is None
    assert Copies.of(X[::20], y[::20], 60_000) is not None


def test_neighbours_that_repeat_are_as_many_in_all():
    X, y = rows(20_000)
    part = np.repeat(np.arange(2000), 1 + (np.arange(2000) % 15 == 0))
    assert Copies.of(X[part], y[part], 20_000) is None


def test_groups_too_large_to_be_held_are_common():
    X, y = thrice()
    assert not len(Copies.of(X, y, max_rows=3).common)
    assert Copies.of(X, y, max_rows=2) is None


# ---- a pass -------------------------------------------------------------------------------------


def features():
    return srf.RandomFourier(srf.Gaussian(0.3), 16, random_state=0)


def values(array):
    return {row.tobytes() for row in np.asarray(array)}


@pytest.fixture
def summed(monkeypatch):
    """The rows that passes have summed."""
    parts, sum_ = [], Pass._sum

    def record(self, rows):
        parts.append(rows.X)
        sum_(self, rows)

    monkeypatch.setattr(Pass, "_sum", record)
    return parts


def begun(X, y):
    return begin(srf.ArraySource(X, y), features(), hold_out=True, random_state=0)


@pytest.mark.parametrize("limit", [10_000, 100])
@pytest.mark.parametrize("block_rows", [7, 400, 4096])
def test_no_row_held_out_has_a_copy_among_those_summed(block_rows, limit, summed, monkeypatch):
    monkeypatch.setattr(holdout, "MAX_ROWS", limit)
    X, y = thrice()
    pass_ = add(srf.ArraySource(X, y), begun(X, y), block_rows=block_rows)
    held = np.concatenate([part.X for part in pass_.held])
    assert 20 < len(held) <= min(limit, 0.3 * len(X))
    assert not values(held) & values(np.concatenate(summed))
    assert len(held) + sum(len(part) for part in summed) == len(X)


def test_parts_hold_what_the_whole_holds(summed, monkeypatch):
    monkeypatch.setattr(holdout, "MAX_ROWS", 100)
    X, y = thrice()
    source, pass_ = srf.ArraySource(X, y), begun(X, y)
    first = add(source, pass_.fresh(), stop=1000)
    second = add(source, pass_.fresh(), start=1000)
    pass_.absorb(first.sealed() + second.sealed())
    held = np.concatenate([part.X for part in pass_.held])
    assert not values(held) & values(np.concatenate(summed))
    whole = add(source, begun(X, y))
    np.testing.assert_array_equal(held, np.concatenate([part.X for part in whole.held]))


def test_rows_without_copies_are_held_by_their_position():
    X, y = rows()
    pass_ = add(srf.ArraySource(X, y), begun(X, y))
    positions = np.concatenate([part.positions for part in pass_.held])
    np.testing.assert_array_equal(positions, np.flatnonzero(uniform(np.arange(N)) < holdout.SHARE))
    assert "copies" not in pass_.holdout.to_tree()


def test_common_rows_are_held_by_their_position():
    X, y = thrice()
    X, y = np.vstack([np.zeros((400, 5)), X]), np.r_[np.zeros(400), y]
    pass_ = add(srf.ArraySource(X, y), begun(X, y))
    positions = np.concatenate([part.positions for part in pass_.held])
    expected = np.flatnonzero(uniform(np.arange(400)) < pass_.holdout.share)
    np.testing.assert_array_equal(positions[positions < 400], expected)


def test_a_file_keeps_the_rule(tmp_path):
    X, y = thrice()
    X, y = np.vstack([np.zeros((400, 5)), X]), np.r_[np.zeros(400), y]
    path = tmp_path / "state.h5"
    storage.write(path, "checkpoint", add(srf.ArraySource(X, y), begun(X, y), stop=700).to_tree())
    again = Pass.from_tree(Fields.of(storage.read(path, "checkpoint")))
    again = add(srf.ArraySource(X, y), again, start=700)
    whole = add(srf.ArraySource(X, y), begun(X, y))
    for ours, theirs in zip(again.held, whole.held, strict=True):
        np.testing.assert_array_equal(ours.positions, theirs.positions)
    assert again.join().sums.to_tree().keys() == whole.join().sums.to_tree().keys()


def test_copies_and_fresh_passes_keep_the_rule():
    X, y = thrice()
    pass_ = add(srf.ArraySource(X, y), begun(X, y))
    kept, rule = pass_.holdout.copy(), pass_.holdout.rule
    reopened = Pass.reopened(pass_.join(), kept)
    for other in (reopened, reopened.fresh(), Pass.from_tree(reopened.to_tree())):
        assert other.holdout.rule == rule
        assert other.holdout.copies is not None
    assert Holdout(None, 1).rule == [holdout.MAX_ROWS, holdout.SHARE]


def test_rows_of_weight_0_are_no_copies():
    X, y = rows(300)
    X, y, weights = np.vstack([X] * 3), np.tile(y, 3), np.r_[np.ones(300), np.zeros(600)]
    pass_ = begin(srf.ArraySource(X, y, weights), features(), hold_out=True, random_state=0)
    assert pass_.holdout.copies is None


# ---- the tournament -----------------------------------------------------------------------------


def test_a_judge_has_copies_on_one_side():
    X, y = thrice()
    judge = Judge(X, y, regression=True)
    for split in range(4):
        fitted, held = judge._rows(judge.scaled.rows(None), split)
        assert len(held.X) == int(HELD_SHARE * len(X))
        assert len(values(fitted.X) & values(held.X)) <= 2


def test_large_groups_do_not_come_first():
    X, _ = rows(1000)
    index = np.r_[np.arange(1000), np.repeat(np.arange(100), 10)]
    order = Copies.of(X[index], np.zeros(2000)).shuffled(X[index], generator())
    assert sorted(order) == list(range(2000))
    assert 0.3 < np.mean(index[order][:1000] < 100) < 0.8  # 0.55 of all


def test_a_judge_without_copies_has_the_order_of_the_seed():
    X, y = rows()
    judge = Judge(X, y, regression=True, seed=3)
    np.testing.assert_array_equal(judge.y, y[np.random.default_rng(3).permutation(N)])


# ---- other losses -------------------------------------------------------------------------------


def test_a_later_pass_leaves_out_the_rows_held_before(monkeypatch):
    X, y = thrice()
    source = srf.ArraySource(X, y > 0)
    pass_ = begin(source, features(), hold_out=True, random_state=0)
    pass_ = add(source, pass_)
    held, seen = HeldRows.of(pass_), []
    monkeypatch.setattr(LossPass, "add", lambda self, rows, where: seen.append(rows.positions))
    model = pass_.join().solve(1.0)
    later = LossPass(model, None, held.share, held.copies)
    for block in source.blocks(block_rows=400):
        later.fresh().update(block)
    left_out = np.concatenate([part.positions for part in held.rows])
    assert len(left_out) > 100
    np.testing.assert_array_equal(np.sort(np.concatenate([*seen, left_out])), np.arange(len(X)))


def test_a_hinge_refined_on_copies_is_as_good_as_on_rows_once():
    rng = generator()
    X = rng.normal(size=(2500, 5))
    y = X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.normal(size=2500) > 0.7
    train = np.repeat(np.arange(500), 3)
    named = srf.RandomFourier(srf.Gaussian(0.3), 256, random_state=0)

    def error(train):
        clf = srf.RandomFeatureClassifier(named, loss="squared_hinge", random_state=0)
        return np.mean(clf.fit(X[train], y[train]).predict(X[500:]) != y[500:])

    assert error(train) < 1.2 * error(np.arange(500))


# ---- estimators ---------------------------------------------------------------------------------


def test_values_learnt_from_copies_are_as_good_as_from_rows_once():
    """An error of 3.2, for the 0.51 of the rows once, when copies were held out by position."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3500, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=3500)
    train = rng.permutation(np.repeat(np.arange(1500), 3))
    reg = srf.RandomFeatureRegressor(budget=4, random_state=0).fit(X[train], y[train])
    assert np.sqrt(np.mean((reg.predict(X[1500:]) - y[1500:]) ** 2)) < 0.6  # noise is 0.5


def test_a_rare_class_drawn_again_is_learnt_as_well_as_one_weighted():
    rng = np.random.default_rng(0)

    def made(n):
        y = (rng.random(n) < 0.03).astype(int)
        X = rng.normal(size=(n, 5))
        X[y == 1, :2] += 1.5
        return X, y

    (X, y), (X_test, y_test) = made(4000), made(10_000)
    rare = np.flatnonzero(y)
    train = rng.permutation(np.r_[np.flatnonzero(y == 0), rng.choice(rare, 4000 - 2 * len(rare))])
    clf = srf.RandomFeatureClassifier(budget=4, random_state=0).fit(X[train], y[train])
    assert balanced_accuracy_score(y_test, clf.predict(X_test)) > 0.78  # 0.84 when weighted


def test_a_block_is_hashed_as_its_rows():
    X, y = thrice()
    (block,) = srf.ArraySource(X, y).blocks()
    found = Copies.of(X, y).uniform(as_rows(block))
    np.testing.assert_array_equal(found, uniform(row_keys(X)))


def test_few_distinct_rows_held_out_are_too_few_to_choose_by(rng):
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    order = rng.permutation(np.repeat(np.arange(30), 60))
    features = srf.RandomFourier(srf.Gaussian(0.2), 32, random_state=0)
    model = srf.RandomFeatureRegressor(features, random_state=0).fit(X[order], y[order])
    (note,) = [note for note in model.model_.notes if "too few" in note]
    assert int(note.split(" of ")[0]) < 15
    once = srf.RandomFeatureRegressor(features, random_state=0).fit(X, y)
    assert any("too few" in note for note in once.model_.notes)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_rows_held_out_of_one_class_choose_nothing(loss):
    features = srf.RandomFourier(srf.Gaussian(0.2), 32, random_state=0)
    for seed in range(200):  # until no copy of the few is held out
        rng = np.random.default_rng(seed)
        X = np.r_[rng.normal(size=(300, 2)), np.repeat(rng.normal(1, 1, (12, 2)), 25, axis=0)]
        y, order = np.repeat([0, 1], 300), rng.permutation(600)
        source = srf.ArraySource(X[order], y[order])
        held = add(source, begin(source, features, hold_out=True, random_state=0)).held
        if len(np.unique(np.concatenate([part.y for part in held]))) == 1:
            break
    else:
        pytest.fail("every set has both classes among the rows held out")
    clf = srf.RandomFeatureClassifier(features, loss=loss, random_state=0)
    (note,) = clf.fit(X[order], y[order]).model_.notes
    assert "rows held out are of one class, too few to choose alpha" in note
    assert clf.score(X, y) > 0.7
