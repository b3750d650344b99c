"""Other losses than the squared one: Newton steps of a pass each, from exact sums."""

import json
import pickle
import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from typer.testing import CliRunner

import streamrf as srf
from integers import assert_same_bytes, rounded
from streamrf.cli import app
from streamrf.engine import Reading, RunOptions, fold
from streamrf.errors import (
    ConsumedError,
    DataError,
    MemoryBudgetError,
    ParameterError,
    UnknownLabelError,
)
from streamrf.solving import LOSSES, line_step
from streamrf.statistics import LossSums
from streamrf.training import begin, check_job, memory
from streamrf.training.job import Job
from streamrf.training.loss_pass import LEFT_BYTES, HeldRows, LossPass, encoder_plan, loss_plan
from streamrf.training.refining import refine
from streamrf.training.settings import Settings

pytestmark = pytest.mark.usefixtures("one_thread")

N = 900


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    latent = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=N)
    y, weights = np.digitize(latent, [-0.5, 0.7]), rng.uniform(0.2, 3.0, N)
    for array in (X, y, weights):
        array.flags.writeable = False
    return X, y, weights


def features(width=40):
    return srf.RandomFourier(srf.Gaussian(0.2), width, random_state=0)


def solved(X, y, weights=None, alpha=0.3, **options):
    source = srf.ArraySource(X, y, weights)
    return srf.accumulate(source, features(), random_state=0, **options).solve(alpha), source


def plain_features(model, X):
    """The features that a model is linear in, in their own units."""
    Z = np.empty((len(X), model.encoder.n_components))
    model.encoder.scale(X, Z)
    return Z * model.encoder.calibration.step


def objective(loss, Z, t, weights, coef, intercept, alpha):
    """``sum w loss(t f) + alpha |c|^2`` by its definition."""
    m = t * (Z @ coef + intercept)
    values = np.maximum(0, 1 - m) ** 2 if loss == "squared_hinge" else np.logaddexp(0, -m)
    return (weights * values).sum() + alpha * coef @ coef


def of_scikit_learn(loss, alpha):
    if loss == "logistic":
        return LogisticRegression(C=1 / (2 * alpha), tol=1e-8, max_iter=1000)
    return LinearSVC(C=1 / (2 * alpha), tol=1e-8, dual=False, intercept_scaling=300, max_iter=10000)


@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_and_curvatures_are_derivatives(loss):
    kind, m, h = LOSSES[loss](), np.array([-3.0, -0.4, 0.2, 0.9, 1.3, 4.0]), 1e-5
    slope = (kind.value(m + h) - kind.value(m - h)) / (2 * h)
    bend = (kind.half_slope(m + h) - kind.half_slope(m - h)) / (2 * h)
    np.testing.assert_allclose(kind.half_slope(m), slope / 2, atol=1e-8)
    np.testing.assert_allclose(kind.greatest * kind.curvature(m), bend, atol=1e-8)
    assert kind.curvature(np.linspace(-9, 9, 999)).max() <= 1


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("alpha", "weighted", "precision"),
    [(0.03, False, "exact"), (0.3, True, "exact"), (10.0, False, "exact"), (0.3, True, "float64")],
)
def test_the_objective_is_that_of_scikit_learn(rows, loss, alpha, weighted, precision):
    """One against the rest, to 1e-4 of the objective in five passes; ours rounds the features."""
    X, y, weights = rows
    weights = weights if weighted else None
    model, source = solved(X, y, weights, alpha, precision=precision)
    model = srf.refine(model, source, loss)
    assert 1 <= len(model.refinement.objectives) <= 4
    Z, coef = plain_features(model, X), model.coef / model.encoder.calibration.step
    weights = np.ones(N) if weights is None else weights
    for k in range(3):
        t = np.where(y == k, 1, -1)
        other = of_scikit_learn(loss, alpha).fit(Z, t, weights)
        theirs = objective(loss, Z, t, weights, other.coef_[0], other.intercept_[0], alpha)
        ours = objective(loss, Z, t, weights, coef[k], model.intercept[k], alpha)
        assert ours == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_passes_tell_the_objective_which_falls(rows, loss):
    X, y, weights = rows
    model, source = solved(X, y, weights, 0.3)
    found = srf.refine(model, source, loss, max_passes=3).refinement
    Z, coef = plain_features(model, X), model.coef / model.encoder.calibration.step
    first = sum(
        objective(loss, Z, np.where(y == k, 1, -1), weights, coef[k], model.intercept[k], 0.3)
        for k in range(3)
    )
    assert found.loss == loss
    assert found.objectives[0] == pytest.approx(first, rel=1e-4)
    assert np.all(np.diff(found.objectives) < 0)


def pass_of(model, source, loss, block_rows=4096, n_threads=None, rows=(0, None), share=0.0):
    reading = Reading(source, *rows, block_rows)
    pass_ = LossPass(model, LOSSES[loss](), share)
    return fold(reading, pass_, LossPass.update, RunOptions(n_threads=n_threads)).sealed()


def tree(sums: LossSums):
    parts = [part.to_tree() for part in sums.curvatures]
    return {"slopes": sums.slopes.to_tree(), "values": sums.values, **dict(enumerate(parts))}


@pytest.mark.parametrize("loss", LOSSES)
def test_sums_are_a_monoid_whose_bytes_depend_on_the_rows_alone(rows, loss):
    X, y, weights = rows
    model, source = solved(X, y, weights)
    whole = tree(pass_of(model, source, loss))
    assert_same_bytes(tree(pass_of(model, source, loss, block_rows=37)), whole)
    assert_same_bytes(tree(pass_of(model, source, loss, n_threads=2)), whole)
    order = np.random.default_rng(1).permutation(N)
    other = srf.ArraySource(X[order], y[order], weights[order])
    assert_same_bytes(tree(pass_of(model, other, loss)), whole)
    parts = [pass_of(model, source, loss, rows=window) for window in ((0, 300), (300, 900))]
    assert_same_bytes(tree(parts[1] + parts[0].writable()), whole)
    zero = LossSums.zero(40, 3, exact=True)
    assert_same_bytes(tree(zero + parts[0]), tree(parts[0]))


def test_the_gram_of_the_hinge_is_of_the_rows_inside_the_margin(rows):
    X, y, weights = rows
    model, source = solved(X, y, weights)
    sums = pass_of(model, source, "squared_hinge")
    found = rounded(model.encoder, X, weights)
    outputs = found.Q @ model.coef.T * 2.0**12 / found.roots[:, None] + model.intercept
    for k in range(3):
        t = np.where(y == k, 1, -1)
        inside = t * outputs[:, k] < 1
        assert 0 < inside.sum() < N
        Q = found.Q[inside]
        gram = sums.curvatures[k].gram.totals
        np.testing.assert_array_equal(np.sort(gram), np.sort((Q.T @ Q)[np.tril_indices(40)]))
        slope = -(found.roots * t * (1 - t * outputs[:, k]))[inside] @ Q / 2.0**12
        np.testing.assert_allclose(
            sums.slopes.sums[k] / 2.0**20, slope, atol=1e-6 * np.abs(slope).max()
        )


def test_rows_held_out_are_left_out_and_chosen_by_position(rows):
    X, y, _ = rows
    model, source = solved(X, y)
    some = [pass_of(model, source, "logistic", share=0.2, block_rows=size) for size in (50, 900)]
    assert_same_bytes(tree(some[0]), tree(some[1]))
    assert 0.7 * N < some[0].weight < 0.9 * N


def test_workers_give_the_same_bytes(rows, two_workers):
    X, y, weights = rows
    model, source = solved(X, y, weights)
    here = srf.refine(model, source, max_passes=2)
    run = RunOptions(engine=two_workers, parts=3)
    there = srf.refine(model, source, max_passes=2, run=run)
    assert_same_bytes(here.to_tree(), there.to_tree())


@pytest.mark.parametrize("loss", LOSSES)
def test_classifiers_choose_the_penalty_and_keep_what_they_did(rows, loss, tmp_path):
    X, y, _ = rows
    clf = srf.RandomFeatureClassifier(features(), loss=loss, random_state=0).fit(X, y)
    model = clf.model_
    assert model.refinement.loss == loss
    assert len(model.refinement.objectives) <= 4
    assert model.probabilities.n_rows > 0
    assert clf.score(X, y) > 0.75
    model.save(tmp_path / "model.h5")
    again = srf.load_model(tmp_path / "model.h5")
    assert again.refinement == model.refinement
    assert_same_bytes(again.to_tree(), model.to_tree())
    squared = srf.RandomFeatureClassifier(features(), loss=loss, max_passes=1, random_state=0)
    assert squared.fit(X, y).model_.refinement is None


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_a_penalty_far_off_is_left_by_more_than_a_decade_a_step(rows, factor):
    X, y, _ = rows
    noise = np.random.default_rng(1).integers(0, 3, N)
    y = np.where(np.random.default_rng(2).random(N) < 0.3, noise, y)
    job = Job.of(
        srf.ArraySource(X, y), Settings(features=features(), hold_out=True, random_state=0)
    )
    pass_ = job.fold(begin(job))
    held = HeldRows.of(pass_)
    model = pass_.join().solve(factor)
    steps = [
        refine(model, job.source, "logistic", max_passes=n, held=held).alpha for n in (1, 2, 6)
    ]
    assert abs(np.log10(steps[0] / factor)) > 1.5
    assert 1e-3 < steps[2] < 1e3


def test_codes_and_pruned_features_are_refined():
    X, y = load_digits(return_X_y=True)
    codes = srf.ErrorCorrectingCodes(15)
    for settings in ({"prune": 30}, {"alpha": 0.1}):
        clf = srf.RandomFeatureClassifier(
            features(60), codes=codes, loss="squared_hinge", random_state=0, **settings
        )
        assert clf.fit(X[:600] / 16, y[:600]).score(X[600:] / 16, y[600:]) > 0.6
        assert clf.coef_.shape == (15, settings.get("prune", 60))


def test_weights_of_blocks_stay(rows):
    """Two equal blocks of weights 1 and 0.01 are a wide and a narrow feature of one map."""
    X, y, _ = rows
    source = srf.ArraySource(X, y == 1)
    pair = srf.Concatenate([features(20), features(20)], weights=[1, 0.01])
    scaled = srf.accumulate(source, pair, random_state=0).solve(0.1)
    weighed = srf.accumulate(source, srf.Concatenate([features(20)] * 2), random_state=0)
    weighed = weighed.solve(0.1, block_weights=[1, 0.01])
    ours, theirs = (srf.refine(model, source).decision_function(X) for model in (weighed, scaled))
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_rows_all_beyond_the_margin_leave_the_penalty_alone():
    X = np.repeat([[-9.0], [9.0]], 50, axis=0)
    model, source = solved(X, X[:, 0] > 0, alpha=1e-3)
    found = srf.refine(model, source, max_passes=6)
    assert found.evaluate(source)["accuracy"] == 1
    assert found.refinement.objectives[-1] <= found.refinement.objectives[0]


def test_a_step_is_shorter_where_the_sample_says_so():
    """For one row of margin 0 and a move of 4 the logistic loss is least well before 1."""
    loss = LOSSES["logistic"]()
    one = np.ones(1)
    exact = [
        line_step(0 * one, move * one, one, move * loss.half_slope(0 * one)[0], 0.5 * move**2, loss)
        for move in (0.01, 4.0)
    ]
    t = np.linspace(0, 2, 20001)
    values = loss.value(4 * t) + 0.5 * 16 * t**2
    assert exact[1] == pytest.approx(t[values.argmin()], abs=1e-3)


def batches(X, y):
    for start in range(0, len(X), 200):
        yield X[start : start + 200], y[start : start + 200]


def test_rows_that_come_once_are_refused_and_others_read_again(rows):
    X, y, _ = rows
    clf = srf.RandomFeatureClassifier(features(), loss="logistic", random_state=0)
    with pytest.raises(ConsumedError, match="can be read once, and loss='logistic'"):
        clf.fit(srf.IteratorSource(batches(X, y)))
    clf.fit(srf.IteratorSource(partial(batches, X, y)))
    assert clf.model_.refinement.loss == "logistic"
    with pytest.raises(ParameterError, match="partial_fit sees"):
        srf.RandomFeatureClassifier(features(), loss="logistic").partial_fit(X, y)


@pytest.mark.parametrize(("second", "third"), [(400, 600), (800, 400), (600, 400)])
def test_a_function_that_gives_other_rows_later_is_refused(rows, second, third):
    X, y, _ = rows
    calls = iter([600, second, third])
    X, y = np.tile(X, (4, 1))[:1000], np.tile(y, 4)[:1000]
    lengths = []

    def function():
        lengths.append(next(calls))
        return batches(X[: lengths[-1]], y[: lengths[-1]])

    clf = srf.RandomFeatureClassifier(features(), loss="logistic", alpha=0.1, random_state=0)
    odd = next(n for n in (second, third) if n != 600)
    told = f"gave {odd} rows where a reading before gave 600; .* the same rows each time"
    with pytest.raises(ValueError, match=told):
        clf.fit(srf.IteratorSource(function))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of"),
        ({"loss": "logistic", "max_passes": 0}, "max_passes must be an integer"),
        ({"loss": "logistic", "codes": srf.OneVsRest("auto")}, "does not go with decode='auto'"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_the_pass(rows, options, message):
    X, y, _ = rows
    with pytest.raises(ParameterError, match=message):
        srf.RandomFeatureClassifier(features(), **options).fit(X, y)


@pytest.mark.parametrize("began", [False, True])
def test_rows_of_other_weights_than_the_sums_began_with_are_refused(rows, began):
    X, y, weights = rows
    model, _ = solved(X, y, weights if began else None)
    source = srf.ArraySource(X, y, None if began else weights)
    with pytest.raises(DataError, match="give all rows weights, or none"):
        srf.refine(model, source, "logistic")
    with pytest.raises(DataError, match=r"y has shape .*labels are one a row"):
        srf.refine(model, srf.ArraySource(X, np.eye(3)[y], weights if began else None), "logistic")


def test_models_that_cannot_be_refined_are_refused(rows):
    X, y, _ = rows
    model, source = solved(X, y)
    with pytest.raises(ParameterError, match="max_passes must be"):
        srf.refine(model, source, max_passes=0)
    with pytest.raises(ParameterError, match="what one pass solves"):
        srf.refine(model, source, "squared")
    values = srf.accumulate(srf.ArraySource(X, X[:, 0]), features(), regression=True).solve(1.0)
    with pytest.raises(ParameterError, match="for classes"):
        srf.refine(values, source)
    with pytest.raises(UnknownLabelError, match="label 7 was not there"):
        srf.refine(model, srf.ArraySource(X, np.where(y == 2, 7, y)))


def test_the_grams_of_all_outputs_are_planned(rows):
    X, _, _ = rows
    y = np.arange(N) % 20
    clf = srf.RandomFeatureClassifier(
        features(2000), loss="squared_hinge", memory_limit="520 MiB", random_state=0
    )
    with pytest.raises(MemoryBudgetError, match=r"a Gram for each of 20 outputs.*loss='squared'"):
        clf.fit(X, y)


def test_the_command_line_refines_and_says_so(rows, tmp_path):
    X, y, _ = rows
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    words = ["fit", str(tmp_path / "rows.npz"), "--map", "fourier", "--components", "40"]
    words += ["--loss", "squared_hinge", "--max-passes", "3", "--json"]
    done = CliRunner().invoke(app, [*words, "--model", str(tmp_path / "model.h5")])
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    assert (figures["loss"], figures["n_passes"]) == ("squared_hinge", 3)
    assert srf.load_model(tmp_path / "model.h5").refinement.loss == "squared_hinge"
    done = CliRunner().invoke(app, ["info", str(tmp_path / "model.h5")])
    assert "squared hinge, by 3 passes" in done.output
    done = CliRunner().invoke(app, [*words, "--statistics", str(tmp_path / "sums.h5")])
    assert done.exit_code == 2
    assert "is for a model" in done.output


def test_a_width_without_room_for_the_loss_is_not_chosen():
    """A Gram of each class takes more than the one of the squared loss."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 4)).astype(np.float32)
    y = np.floor(2 * np.sin(3 * X[:, 0]) * X[:, 1] + 2 * X[:, 2]).astype(int) % 10
    options = {"memory_limit": "500 MiB", "budget": 2, "random_state": 0, "max_passes": 2}
    fit = {
        loss: srf.RandomFeatureClassifier(loss=loss, **options).fit(X, y)
        for loss in ("squared", "squared_hinge")
    }
    widths = {loss: fitted.features_.n_components for loss, fitted in fit.items()}
    assert widths["squared_hinge"] < widths["squared"]
    named = fit["squared_hinge"].set_params(n_components=widths["squared"])
    with pytest.raises(MemoryBudgetError, match="a Gram for each of 10 outputs"):
        named.fit(X, y)


@pytest.mark.parametrize("precision", ["exact", "float64"])
def test_a_refinement_keeps_to_its_plan(precision):
    """One set of Grams, and panels for one product, however many passes and outputs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 5))
    source = srf.ArraySource(X, np.digitize(X[:, 0] * X[:, 1], np.linspace(-2, 2, 15)))
    wide = srf.RandomFourier(srf.Gaussian(0.2), 1024, random_state=0)
    model = srf.accumulate(source, wide, precision=precision, random_state=0).solve(0.1)
    run = RunOptions(memory_limit="4 GiB")
    planned = encoder_plan(model.encoder, len(model.coef), source, run, holds_out=False)
    refine(model, source, "logistic", max_passes=1)  # compiles
    tracemalloc.start()
    try:
        refine(model, source, "logistic", max_passes=3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < planned.total_bytes - memory.INTERPRETER_BYTES - LEFT_BYTES


def test_rows_held_out_for_a_loss_are_planned_where_there_are_any():
    source = srf.ArraySource(np.zeros((100_000, 50), np.float32), np.arange(100_000) % 2)
    none, held = (
        loss_plan(2048, 1, source, RunOptions(memory_limit="4 GiB"), 0, holds_out)
        for holds_out in (False, True)
    )
    features, rows = 10_000 * 2048 * 4, 10_000 * 50 * 8
    assert held.total_bytes - none.total_bytes == features + rows


def test_sums_that_have_travelled_share_the_memory_of_products():
    sums = pickle.loads(pickle.dumps(LossSums.zero(8, 3, exact=True)))
    assert len({id(one.gram.products) for one in sums.curvatures}) == 3
    assert len({id(one.gram.products) for one in sums.writable().curvatures}) == 1


def test_workers_are_planned_nothing_that_stays_with_the_caller():
    source = srf.ArraySource(np.zeros((100_000, 50), np.float32), np.arange(100_000) % 2)
    width, run = 2048, RunOptions(memory_limit="4 GiB")
    found = loss_plan(width, 1, source, run, 0, True, {"any": 8 << 30})
    sizes = memory.Sizes(width, 50, 1, n_rows=100_000, n_folds=1)
    bare = memory.worker_plan(sizes, {"any": 8 << 30})
    assert found.total_bytes - bare.total_bytes == 4 * sizes.most_rows * width  # within the margin


def test_values_are_told_before_the_memory_for_a_loss_of_classes():
    X = np.random.default_rng(0).normal(size=(600, 2))
    settings = Settings(task="regression", features="auto", budget=0.1)
    job = replace(Job.of(srf.ArraySource(X, X[:, 0]), settings), loss="logistic")
    with pytest.raises(ParameterError, match="is for classes, not for values"):
        check_job(job, begin(job), 4)


def test_digits_are_told_of_the_last_step_alone(rows, caplog):
    X, y, _ = rows
    twice = np.hstack([X, X])
    source = srf.ArraySource(twice, y)
    model = srf.accumulate(source, srf.Identity(), precision="float64").solve(1e-10)
    caplog.clear()
    refine(replace(model, alpha=3e-12), source, max_passes=1)
    told = [record.message for record in caplog.records if "digit" in record.message]
    assert len(told) == 1  # of three classes
