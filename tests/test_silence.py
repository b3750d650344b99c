"""Nothing wrong in silence: what hostile testers found, each mended."""

import csv
import errno
import json
import re
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy

import streamrf as srf
from cases import write_hdf5
from commands import answer, misused, refused, streamrf
from streamrf.errors import (
    BadRowError,
    CheckpointError,
    DataError,
    DatasetNotFoundError,
    MemoryBudgetError,
    MergeError,
    ParameterError,
    ShapeError,
    SolveError,
    StorageError,
    StreamrfError,
    StreamrfWarning,
    UnknownLabelError,
)
from streamrf.estimators import base
from streamrf.sources import Ledger, standard_input
from streamrf.statistics.kfold import kfold_index
from streamrf.training.passes import Pass

ROWS = np.random.default_rng(0).normal(size=(200, 3))
LABELS, VALUES = (ROWS[:, 0] > 0).astype(int), ROWS[:, 0] + ROWS[:, 1] ** 2
MAP = srf.RandomFourier(srf.Gaussian(0.1), 16, random_state=0)


def bytes_of(saved, path):
    saved.save(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    "maps",
    [
        pytest.param([MAP, srf.Identity()], id="parts"),
        pytest.param([srf.Concatenate([MAP]), MAP], id="inside another"),
    ],
)
def test_sums_of_seeded_parts_draw_no_seed_of_their_own(maps, tmp_path):
    source = srf.ArraySource(ROWS, LABELS)
    fits = [srf.accumulate(source, srf.Concatenate(maps)) for _ in range(2)]
    assert fits[0].encoder.features.random_state is None
    assert bytes_of(fits[0], tmp_path / "a") == bytes_of(fits[1], tmp_path / "b")


@pytest.mark.filterwarnings("ignore:the .* rows of X looked at before the pass are all equal")
def test_labels_that_cannot_be_told_apart_are_named_by_file_and_row(tmp_path):
    labels = np.where(np.arange(9000) % 2, 1.0, 2.0)
    labels[[8500, 8600]] = 2.0**60
    path = write_hdf5(tmp_path / "great.h5", np.ones((9000, 1)), labels)
    message = "great.h5.*, row 8500: labels such as 1.15.* 2.53 or beyond"
    for options in ({}, {"class_weight": {2: 3.0}}, {"hold_out": True}):
        with pytest.raises(DataError, match=message):
            srf.accumulate(srf.HDF5Source(path), MAP, task="classification", **options)


@pytest.mark.parametrize("made", [srf.ArraySource, lambda X, y: srf.IteratorSource([(X, y)])])
def test_a_source_with_a_label_that_is_none_of_the_classes_is_refused(made):
    classifier = srf.RandomFeatureClassifier(MAP, alpha=0.1)
    classifier.partial_fit(made(ROWS[:150], LABELS[:150]), classes=[1, 0])
    with pytest.raises(UnknownLabelError, match=r"row 3: the label 2 is none of classes=\[0, 1\]"):
        classifier.partial_fit(made(ROWS[150:], np.where(np.arange(50) == 3, 2, LABELS[150:])))


@pytest.mark.parametrize("begun", ["waiting", "drawn", "fitted"])
def test_classes_that_differ_from_those_before_are_refused(begun):
    classifier = srf.RandomFeatureClassifier(MAP, alpha=0.1)
    if begun == "fitted":
        classifier.fit(ROWS[:100], LABELS[:100])
    else:
        classifier.partial_fit(ROWS[:100], LABELS[:100])
    if begun == "drawn":
        classifier.predict(ROWS)
    with pytest.raises(UnknownLabelError, match=r"label 0 is none of classes=\[1, 2\]"):
        classifier.partial_fit(ROWS[100:], LABELS[100:] + 1, classes=[1, 2])
    classifier.partial_fit(ROWS[100:150], LABELS[100:150], classes=[0, 1, 2])
    with pytest.raises(ParameterError, match=r"classes=\[0, 1\] are not .*, \[0, 1, 2\]"):
        classifier.partial_fit(ROWS[150:], LABELS[150:], classes=[0, 1])
    classifier.partial_fit(ROWS[150:], LABELS[150:], classes=[2, 1, 0])


@pytest.mark.parametrize("n_rows", [1, 50, 199])
def test_exact_ridge_fits_as_many_rows_as_asked_for(n_rows):
    estimator = srf.KernelRidgeRegressor(srf.Gaussian(0.1), alpha=0.1, n_rows=n_rows)
    assert len(estimator.fit(ROWS, VALUES).X_fit_) == n_rows


def test_long_names_in_a_checkpoint_are_cut_and_printable(tmp_path):
    first, second = (srf.ArraySource(ROWS + i, LABELS) for i in range(2))
    path, name = tmp_path / "pass", "\x1b[2J" + 9999 * "x" + ".h5"
    first.where = name
    srf.accumulate(first, MAP, checkpoint=path)
    with pytest.raises(CheckpointError, match=r"where \\x1b.2Jx+\.\.\.x+\.h5 was") as told:
        srf.accumulate(second, MAP, checkpoint=path)
    assert len(str(told.value)) < 1000
    with pytest.raises(CheckpointError) as told:
        srf.accumulate(first, MAP, checkpoint=path, classes=[9999 * "\x1b", "a"])
    assert len(str(told.value)) < 1000
    assert "\x1b" not in str(told.value)


def test_standard_input_beyond_the_limit_of_files_says_so(tmp_path):
    full = OSError(errno.EFBIG, "File too large")
    with (
        patch.object(standard_input, "_write", side_effect=full),
        pytest.raises(StorageError, match=r"does not fit .* File too large; raise .*ulimit -f"),
    ):
        srf.sources.open_text(iter(["1,2"]), str(tmp_path / "rows.csv"))


@pytest.mark.parametrize("scaling", [None, "l2", "asinh"])
def test_the_scales_advised_are_taken_as_they_are_typed(scaling, tmp_path, capsys):
    rows = np.random.default_rng(0).normal(size=(20000, 3))
    rows[srf.ArraySource(rows).sample(4096).kept, 1] *= 1e-3
    path = write_hdf5(tmp_path / "d.h5", rows, (rows[:, 0] > 0).astype(int))
    begin = ["fit", path, "--map", "fourier", "--gamma", 0.1, "--components", 16]
    begin += ["--x", "X", "--y", "y", "--alpha", 1, "--model", tmp_path / "m.h5"]
    given = begin + ([] if scaling is None else ["--normalize", scaling])
    said = streamrf(*given).stderr
    typed = re.search(r"\(streamrf (moments) DATA (-o) FILE, then (.*) FILE\)", said)
    assert typed, said
    scales = tmp_path / "scales.h5"
    assert streamrf(typed[1], path, "--x", "X", "--y", "y", typed[2], scales).exit_code == 0
    again = begin if "--normalize" in typed[3] else given
    done = streamrf(*again, *typed[3].split(), scales)
    assert done.exit_code == 0, done.output


TINY = VALUES * 1e-165


@pytest.mark.parametrize(
    "ask",
    [
        lambda: srf.accumulate(srf.ArraySource(ROWS, TINY), MAP, task="regression"),
        lambda: srf.RandomFeatureRegressor(MAP).fit(ROWS, np.stack([VALUES, TINY], axis=1)),
        lambda: srf.KernelRidgeRegressor(srf.Gaussian(0.1)).fit(ROWS, TINY),
        lambda: srf.RandomFeatureRegressor(MAP, alpha=0.1).fit(ROWS, VALUES).evaluate(ROWS, TINY),
    ],
    ids=["accumulate", "one of two", "exact kernel", "evaluate"],
)
def test_targets_whose_squares_vanish_are_refused(ask):
    with pytest.raises(DataError, match=r"targets vary by .*e-16\d only, .*multiply the targets"):
        ask()


@pytest.mark.parametrize("scale", [1e-145, 1e148, 0.0])
def test_targets_of_other_sizes_have_the_same_figures(scale):
    model = srf.RandomFeatureRegressor(MAP, alpha=0.1)
    expected = model.fit(ROWS, VALUES).evaluate(ROWS, VALUES)["r2"] if scale else 1.0
    found = model.fit(ROWS, scale * VALUES).evaluate(ROWS, scale * VALUES)["r2"]
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("targets", [LABELS, VALUES])
def test_float_sums_that_no_file_could_be_loaded_from_are_refused(targets, tmp_path):
    light = srf.ArraySource(ROWS, targets, np.full(200, 1e-60))
    light = srf.accumulate(light, MAP, precision="float64")
    rows = np.random.default_rng(1).permutation(ROWS)
    with pytest.raises(StreamrfError, match=r"outgrown 1e\+150 after 200 rows.* in one unit"):
        srf.accumulate(srf.ArraySource(rows, targets, np.full(200, 1e120)), like=light)
    heavy = srf.accumulate(srf.ArraySource(rows, targets, np.full(200, 1e80)), like=light)
    (light + heavy).save(tmp_path / "both")
    assert srf.load_statistics(tmp_path / "both").n_rows == 400


@pytest.mark.parametrize("targets", [LABELS, VALUES])
@pytest.mark.parametrize("sign", [1, -1])
def test_answers_that_overflow_are_refused(targets, sign, tmp_path):
    model = srf.accumulate(srf.ArraySource(ROWS, targets), MAP).solve(0.1, uncertainty=True)
    replace(model, coef=np.full_like(model.coef, sign * 1e308)).save(tmp_path / "forged.h5")
    forged = srf.load_model(tmp_path / "forged.h5")
    far = np.array([[1.0, 2.0, 3.0]]) * 1e-3
    asks = [lambda: forged.predict(far), lambda: forged.evaluate(far, targets[:1])]
    if targets is VALUES:
        asks.append(lambda: forged.predict(far, return_std=True))
    for ask in asks:
        with pytest.raises(BadRowError, match=r"row 0: .*or the model's numbers are"):
            ask()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("options")
    write_hdf5(folder / "d.h5", ROWS, LABELS)
    sums = srf.accumulate(srf.ArraySource(ROWS, LABELS), MAP)
    sums.save(folder / "s.h5")
    sums.solve(0.1).save(folder / "m.h5")
    return folder


WITH_MAP = ["--map", "fourier", "--components", "16"]
IGNORED = [
    ("--warp-rounds", ["fit", "d.h5", *WITH_MAP, "--model", "o.h5", "--warp-rounds", "3"]),
    ("--bits", ["fit", "d.h5", *WITH_MAP, "--model", "o.h5", "--bits", "0"]),
    ("--bits", ["solve", "s.h5", "--model", "o.h5", "--bits", "0"]),
    ("--folds", ["fit", "d.h5", *WITH_MAP, "--model", "o.h5", "--folds", "3"]),
    ("--alpha", ["fit", "d.h5", *WITH_MAP, "--statistics", "o.h5", "--alpha", "1"]),
    ("--decode", ["fit", "d.h5", *WITH_MAP, "--statistics", "o.h5", "--decode", "discriminant"]),
    ("--codes", ["fit", "d.h5", *WITH_MAP, "--statistics", "o.h5", "--codes", "one-vs-rest"]),
    ("--decode", ["solve", "s.h5", "--path", "--decode", "discriminant"]),
    ("--criterion", ["solve", "s.h5", "--path", "--criterion", "gcv"]),
    ("--criterion", ["solve", "s.h5", "--alpha", "1", "--model", "o.h5", "--criterion", "gcv"]),
    ("--per-output", ["solve", "s.h5", "--path", "--per-output"]),
    *((name, ["report", "m.h5", "-o", "o.html", name, *value]) for name, value in (
        ("--weights", ["w"]), ("--x", ["X"]), ("--y", ["y"]), ("--on-bad-rows", ["skip"]),
        ("--allow-sparse", []), ("--allow-external", []),
    )),
    *((name, [*command, name, ""]) for command, names in (
        (["fit", "d.h5", *WITH_MAP, "--model", "o.h5"], ("--x", "--y", "--weights")),
        (["evaluate", "m.h5", "d.h5"], ("--x", "--y", "--weights")),
        (["predict", "m.h5", "d.h5", "-o", "o.csv"], ("--x",)),
        (["moments", "d.h5", "--out", "o.h5"], ("--x", "--y", "--weights")),
        (["select", "d.h5"], ("--x", "--y", "--weights")),
        (["report", "m.h5", "--data", "d.h5", "-o", "o.html"], ("--x", "--y", "--weights")),
    ) for name in names),
]  # fmt: skip


@pytest.mark.parametrize(("option", "arguments"), IGNORED)
def test_an_option_that_would_do_nothing_is_refused_by_name(option, arguments, files, monkeypatch):
    monkeypatch.chdir(files)
    told = misused(*arguments).replace("'", "")
    assert f"for {option}: " in told or f"Error: {option} " in told


def test_folds_without_statistics_may_choose_weights_of_blocks(files, monkeypatch):
    monkeypatch.chdir(files)
    blocks = ["--map", "fourier", "--gamma", "0.1,1", "--components", "16"]
    blocks += ["--block-weights", "auto", "--folds", "3", "--model", "b.h5"]
    assert streamrf("fit", "d.h5", *blocks).exit_code == 0


def test_sums_of_parts_without_a_seed_keep_the_one_that_was_drawn():
    free = srf.Concatenate([MAP, srf.RandomFourier(srf.Gaussian(1.0), 8)])
    features = srf.accumulate(srf.ArraySource(ROWS, LABELS), free).encoder.features
    assert isinstance(features.random_state, int)


@pytest.mark.parametrize("alpha", [-1.0, "autoo", np.nan, True, None, [], [1.0, -2.0], ["1"], "1"])
def test_a_wrong_penalty_is_refused_before_a_row_is_read(alpha):
    read = patch.object(srf.ArraySource, "sample", side_effect=AssertionError("rows were read"))
    with read, pytest.raises(ParameterError, match="alpha must be"):
        srf.RandomFeatureClassifier(MAP, alpha=alpha).fit(ROWS, LABELS)


def test_a_penalty_for_each_output_passes_the_check():
    values = np.stack([VALUES, -VALUES], axis=1)
    model = srf.RandomFeatureRegressor(MAP, alpha=np.array([1.0, 2.0])).fit(ROWS, values).model_
    assert model.alpha.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_scores_by_fold_of_a_refined_loss_are_refused(loss):
    with pytest.raises(ParameterError, match=rf"loss='{loss}' reads .*sklearn.model_selection"):
        srf.cross_val_score(ROWS, srf.RandomFeatureClassifier(MAP, loss=loss), LABELS)


BLOCKS = srf.Concatenate([MAP, srf.RandomFourier(srf.Gaussian(3.0), 16, random_state=1)])


@pytest.mark.parametrize("block_weights", [[1e-6, 1e-6], [1e-6, 1e-2], [1e6, 1e6], "auto"])
def test_scores_by_fold_choose_the_penalty_with_the_weights_of_blocks(block_weights):
    values = np.sin(2 * ROWS[:, 0])
    regressor = srf.RandomFeatureRegressor(BLOCKS, block_weights=block_weights, random_state=0)
    scores = srf.cross_val_score(ROWS, regressor, values, cv=4)
    assert scores.mean() > 0.25  # 0.37 without weights; 0.02 with the penalty that is best there
    with pytest.raises(ParameterError, match="prune= and block_weights= do not go together"):
        srf.cross_val_score(ROWS, regressor.set_params(prune=8), values, cv=4)


def test_one_weight_for_all_blocks_changes_no_score_by_fold():
    scores = [
        srf.cross_val_score(ROWS, srf.RandomFeatureRegressor(
            BLOCKS, block_weights=weights, precision="float64", random_state=0
        ), VALUES)
        for weights in (None, [1e-5, 1e-5])
    ]  # fmt: skip
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-6)


@pytest.mark.parametrize("empty", [0, 2])
def test_a_fold_of_one_class_has_no_area_under_its_curve(empty):
    folds = kfold_index(np.arange(200), 5)
    labels = np.zeros(200, int)
    labels[np.flatnonzero(folds != empty)[::3]] = 1
    classifier = srf.RandomFeatureClassifier(MAP, alpha=1.0, random_state=0)
    scores = srf.cross_val_score(ROWS, classifier, labels, scoring="auc")
    assert scores.dtype == np.float64
    assert np.isnan(scores).tolist() == (np.arange(5) == empty).tolist()


@pytest.mark.parametrize("weight", [1e-8, 1e8])
def test_rounding_advice_is_of_the_penalty_over_the_weight_of_a_block(weight):
    sums = srf.accumulate(srf.ArraySource(ROWS, VALUES), BLOCKS, task="regression")
    noise = sums.rounding_alpha
    for factor in (0.5, 2.0):
        weights = [weight, weight / 10]
        told = sums.rounding_advice(factor * weight * noise, weights)
        assert (told is None) == (factor == 2.0)
    assert "divided by the greatest block weight" in sums.rounding_advice(0.0, weights)
    first = sums.select(np.arange(16))  # without the features of the second block
    assert first.rounding_advice(2 * first.rounding_alpha, [1.0, 1e6]) is None
    fitted = srf.RandomFeatureRegressor(BLOCKS, block_weights=[weight] * 2, random_state=0)
    plain = srf.RandomFeatureRegressor(BLOCKS, random_state=0).fit(ROWS, VALUES)
    assert fitted.fit(ROWS, VALUES).model_.notes == plain.model_.notes


def test_the_command_warns_of_rounding_by_the_weights_of_blocks(files, monkeypatch):
    monkeypatch.chdir(files)
    begin = ["fit", "d.h5", "--map", "fourier", "--gamma", "0.1,1", "--components", "16"]
    begin += ["--folds", "2", "--statistics", "w.s.h5", "--model", "w.h5"]
    for alpha, weight, warned in ((1e-9, 1e-8, False), (1e-2, 1e4, True), (1e-6, 1, True)):
        said = streamrf(*begin, "--alpha", alpha, "--block-weights", f"{weight},{weight}")
        assert ("the rounding decides" in said.stderr) == warned, (alpha, said.output)


def test_labels_renamed_in_folds_are_of_one_dtype(tmp_path):
    folds = kfold_index(np.arange(100), 3)
    for fold in range(3):
        labels = [LABELS[:100].copy(), LABELS[100:].copy()]
        for number, part in enumerate(labels):
            part[np.flatnonzero(folds == (fold + number) % 3)[:3]] = 2
        ours = srf.accumulate(srf.ArraySource(ROWS[:100], labels[0]), MAP, folds=3)
        theirs = srf.accumulate(srf.ArraySource(ROWS[100:], labels[1]), like=ours)
        for names in ({2: 2.5}, {0: "a", 1: "bcd", 2: "ef"}):
            both = (ours + theirs).relabel(names)
            parts = [sums.relabel(names) for sums in (ours, theirs)]
            merged = parts[0] + parts[1]
            assert merged.labels.tolist() == both.labels.tolist()
            np.testing.assert_array_equal(merged.class_sums, both.class_sums)
            assert (both - parts[1]).labels.tolist() == parts[0].labels.tolist()
        assert both.relabel({"ef": "a"}).labels.tolist() == ["a", "bcd"]
        floats = (ours + theirs).relabel({2: 2.5}).relabel({2.5: 2})
        assert {part.targets.labels.dtype.kind for part in floats.sums.parts} == {"f"}


def test_weights_of_classes_that_were_not_summed_are_told():
    sums, codes = srf.accumulate(srf.ArraySource(ROWS, LABELS), MAP), srf.OneVsRest("discriminant")
    for weights in ({7: 50.0}, {1: 50.0, 7: 2.0}):
        with pytest.warns(StreamrfWarning, match=r"names \[7\], which no label of the rows summed"):
            sums.solve(1.0, codes, class_weight=weights)
    sums.solve(1.0, codes, class_weight={1: 50.0, 7: 0.0})


def test_a_path_without_a_finite_criterion_has_no_best_penalty():
    wide = srf.RandomFourier(srf.Gaussian(0.3), 64, random_state=0)
    sums = srf.accumulate(srf.ArraySource(ROWS[:12], VALUES[:12]), wide, task="regression")
    path = sums.path([0.0, 1e-12, 1e-6])
    for ask in (path.best_alpha, path.best_alphas, path.model):
        with pytest.raises(SolveError, match=r"the gcv of all 3 penalties is infinite.*greater"):
            ask()
    assert path.best_alpha("evidence") > 0


@pytest.mark.parametrize("y", [LABELS, VALUES])
def test_a_batch_that_weighs_nothing_is_refused_in_a_sentence(y):
    kind = srf.RandomFeatureClassifier if y is LABELS else srf.RandomFeatureRegressor
    estimator = kind(MAP, alpha=1.0).partial_fit(ROWS[:100], y[:100], sample_weight=np.ones(100))
    with pytest.raises(DataError, match=r"sample_weight: .* all 100 rows are zero.*leave such"):
        estimator.partial_fit(ROWS[100:], y[100:], sample_weight=np.zeros(100))
    assert estimator.statistics_.n_rows == 100


@pytest.mark.parametrize(
    "features",
    [
        srf.RandomMaclaurin(srf.Polynomial(degree=4), 32, random_state=0),
        srf.TensorSketch(srf.Polynomial(degree=4), 32, random_state=0),
    ],
)
def test_features_that_overflow_are_refused_by_transform(features):
    features.fit(ROWS)
    with pytest.raises(BadRowError, match="the features overflow: rows are too large"):
        features.transform(np.vstack([ROWS, 1e30 * ROWS]))
    assert np.isfinite(features.transform(ROWS)).all()


@pytest.mark.parametrize("precision", ["exact", "coarse", "float64"])
def test_info_names_the_precision_of_sums(precision, tmp_path):
    sums = srf.accumulate(srf.ArraySource(ROWS, LABELS), MAP, precision=precision)
    sums.save(tmp_path / "s.h5")
    assert f"16, {precision} sums" in streamrf("info", tmp_path / "s.h5").stdout


LONG = np.random.default_rng(3).normal(size=(9000, 3))
LONG[8500] *= 200
LINE = LONG @ [1.0, 2.0, 3.0]
CUT = r"were clipped, which cuts .* % off the squares .* in row 8,500, .*precision='float64'"


@pytest.mark.parametrize("options", [{}, {"hold_out": True}, {"folds": 3}])
def test_a_row_far_longer_than_those_looked_at_is_told_by_its_effect(options):
    with pytest.warns(StreamrfWarning, match=CUT):
        sums = srf.accumulate(srf.IteratorSource([(LONG, LINE)]), srf.Identity(), **options)
    assert sums.n_clipped == 3
    in_float = srf.accumulate(srf.ArraySource(LONG, LINE), srf.Identity(), precision="float64")
    assert in_float.solve(1e-3).coef / in_float.encoder.calibration.step == pytest.approx(
        np.array([[1.0, 2.0, 3.0]]), rel=1e-3
    )


def test_a_row_that_weighs_far_more_than_those_looked_at_is_told_by_its_effect():
    weights = np.where(np.arange(9000) == 8500, 1e5, 1.0)
    rows = np.clip(LONG, -3, 3)
    with pytest.warns(StreamrfWarning, match=CUT):
        srf.accumulate(srf.ArraySource(rows, LINE, weights), MAP)
    srf.accumulate(srf.ArraySource(rows, LINE, np.minimum(weights, 100.0)), MAP)  # clips nothing


def test_what_is_cut_off_little_is_no_reason_to_warn():
    rows = np.clip(LONG, -3, 3)
    first = srf.accumulate(srf.ArraySource(rows[:8000], LINE[:8000]), srf.Identity())
    calibration = first.encoder.calibration
    rows[8500, 0] = calibration.shift[0] + 32775 * calibration.step[0]  # the limit is 32767
    more = srf.accumulate(srf.ArraySource(rows, LINE), like=first)
    assert more.n_clipped == 1


def test_what_is_cut_off_goes_on_in_checkpoints_and_parts():
    source = srf.ArraySource(LONG, LINE)
    whole = Pass(srf.accumulate(srf.ArraySource(LONG[:8000], LINE[:8000]), srf.Identity()))
    blocks = list(source.blocks(8000))
    for block in blocks:
        whole.update(block)
    again = Pass.from_tree(whole.to_tree())
    parts = whole.fresh().sealed()
    share = whole._clipping.columns
    expected = (np.abs(LONG[8500]) / whole.statistics.encoder.calibration.step) ** 2 - 32767.0**2
    np.testing.assert_allclose(share, np.maximum(expected, 0), rtol=1e-3)
    np.testing.assert_array_equal(again._clipping.columns, share)
    np.testing.assert_array_equal((parts.clipping + parts.clipping).columns, 2 * share)
    with pytest.warns(StreamrfWarning, match=CUT):
        again.join()


@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e-12])
def test_whitened_components_have_variance_one_in_any_unit(unit):
    rows = ROWS * unit
    found = srf.RandomFeaturePCA(2, srf.Identity(), whiten=True, random_state=0).fit(rows)
    np.testing.assert_allclose(found.transform(rows).var(axis=0, ddof=1), 1, rtol=1e-4)


@pytest.mark.parametrize("unit", [1.0, 1000.0, 1e-6])
def test_weights_of_clusters_are_in_the_unit_of_the_rows(unit):
    weights = unit * np.where(LABELS, 2.0, 5.0)
    found = srf.RandomFeatureKMeans(2, MAP, random_state=0).fit(ROWS, sample_weight=weights)
    expected = np.bincount(found.predict(ROWS), weights)
    np.testing.assert_allclose(found.clusters_.weights, expected, rtol=1e-3)


def test_moments_that_an_outlier_of_earlier_rows_hides_are_told():
    earlier, later = np.array(ROWS), ROWS / 2 + 0.3
    earlier[5, 0] = 1e9
    first = srf.accumulate(srf.ArraySource(earlier, LABELS), MAP, normalize=None)
    with pytest.warns(StreamrfWarning, match="column 0 had an outlier .* moments of these rows"):
        second = srf.accumulate(srf.ArraySource(later, LABELS), like=first)
    assert second.moments.hidden_columns().tolist() == [0]
    assert second.moments.deviation[0] > 0
    assert ((first + second) - first).moments.hidden_columns().tolist() == [0]
    np.testing.assert_allclose(second.moments.deviation[1:], later[:, 1:].std(axis=0), rtol=1e-3)
    with pytest.warns(StreamrfWarning, match=r"column 0 as constant.*streamrf.moments\(source\)"):
        srf.accumulate(srf.ArraySource(later, LABELS), MAP, normalize="standard", scale_like=second)
    assert not len(first.moments.hidden_columns())
    still = np.array(ROWS)
    still[:, 0] = 0.5  # constant, without an outlier before
    plain = srf.accumulate(srf.ArraySource(ROWS, LABELS), MAP)
    constant = srf.accumulate(srf.ArraySource(still, LABELS), like=plain)
    assert not len(constant.moments.hidden_columns())


@pytest.mark.parametrize("constant", [0.1, 1 / 3, 1e6 + 0.1])
def test_r2_of_a_constant_truth_is_0(constant):
    model = srf.accumulate(srf.ArraySource(ROWS, VALUES), MAP).solve(0.1)
    weights = np.where(np.arange(200) < 150, 0.7, 0.0)
    truth = np.where(weights > 0, constant, 5.0)
    assert model.evaluate(srf.ArraySource(ROWS, truth, weights))["r2"] == 0
    assert model.evaluate(ROWS[:10], np.full(10, constant))["r2"] == 0


def test_more_components_than_rows_are_refused_as_any_integer():
    sums = srf.accumulate(srf.ArraySource(ROWS[:10], LABELS[:10]), MAP)
    for k in (12, np.int64(12)):
        with pytest.raises(ParameterError, match="ask for at most 10"):
            sums.principal_components(k)


def test_targets_that_were_constant_at_first_and_are_rounded_away_are_told():
    constant, varying = np.full(200, 1.7e9), 1.7e9 + VALUES
    first = srf.accumulate(srf.ArraySource(ROWS, constant), MAP, task="regression")
    with pytest.warns(StreamrfWarning, match=r"target 0 was 1.7e\+09 .* steps of 1.62e\+03"):
        srf.accumulate(srf.ArraySource(ROWS, varying), like=first)
    srf.accumulate(srf.ArraySource(ROWS, constant), like=first)  # no warning
    options = {"task": "regression", "precision": "float64"}
    first = srf.accumulate(srf.ArraySource(ROWS, constant), MAP, **options)
    srf.accumulate(srf.ArraySource(ROWS, varying), like=first)


# ---- files beside each other --------------------------------------------------------------------


def saved_pairs(folder):
    for i, rows in enumerate((ROWS[:120], ROWS[120:]), 1):
        np.save(folder / f"X{i}.npy", rows)
        np.save(folder / f"y{i}.npy", rows[:, 0])
        scipy.sparse.save_npz(folder / f"X{i}.npz", scipy.sparse.csr_array(rows))


@pytest.mark.parametrize("ending", ["npy", "npz"])
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_rows_and_targets_of_files_beside_each_other_are_paired_by_name(order, ending, tmp_path):
    saved_pairs(tmp_path)
    files = [tmp_path / f"X{i}.{ending}" for i in order]
    blocks = list(srf.open_source(files, y=str(tmp_path / "y*.npy")).blocks())
    assert len(blocks[0].X) == (120 if order == (1, 2) else 80)
    for block in blocks:
        np.testing.assert_array_equal(block.y, block.X[:, 0])


@pytest.mark.parametrize("how", ["pattern", "list", "folder"])
@pytest.mark.parametrize("stems", [("run", "run_b"), ("1", "2", "10"), ("q_X", "q_y", "q")])
def test_files_of_rows_and_targets_are_paired_by_their_stems(stems, how, tmp_path):
    for stem, rows in zip(stems, np.split(ROWS[:180], len(stems)), strict=True):
        np.save(tmp_path / f"{stem}_X.npy", rows)
        np.save(tmp_path / f"{stem}_y.npy", rows[:, 0])
    data = {
        "pattern": tmp_path / "*_X.npy",
        "list": [tmp_path / f"{stem}_X.npy" for stem in stems],
        "folder": tmp_path,
    }
    x = "*_X" if how == "folder" else None
    for block in srf.open_source(data[how], x, str(tmp_path / "*_y.npy")).blocks():
        np.testing.assert_array_equal(block.y, block.X[:, 0])


def test_a_file_without_a_partner_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for day in (1, 2, 3):
        np.save(f"X_{day}.npy", ROWS)
        np.save(f"y_{(0, 1, 2, 4)[day]}.npy", LABELS)
    with pytest.raises(ShapeError, match=r"X_3.npy has no partner: in no name of y, such as y_1"):
        srf.open_source("X_*.npy", y="y_*.npy")
    with pytest.raises(ShapeError, match=r"y_2.npy has no partner: in no name of X, such as X_1"):
        srf.open_source("X_[1].npy", y="y_[12].npy")
    with pytest.warns(StreamrfWarning, match=r"X_1.npy to X_3.npy are paired with y_1.npy to y_4"):
        srf.open_source([f"X_{day}.npy" for day in (1, 2, 3)], y="y_*.npy")


def test_one_file_of_targets_is_not_that_of_two_of_sparse_rows(tmp_path):
    saved_pairs(tmp_path)
    with pytest.raises(ShapeError, match=r"2 files of rows, .* but 1 of y"):
        srf.open_source([tmp_path / "X1.npz", tmp_path / "X2.npz"], y="y1.npy")
    with pytest.raises(ShapeError, match=r"1 files of rows, .* but 2 of y"):
        srf.open_source(tmp_path / "X1.npz", y="y*.npy")


def test_missing_labels_in_folders_are_refused_as_in_files(tmp_path):
    folder = tmp_path / "k=1"
    folder.mkdir()
    (folder / "a.csv").write_text("a,y\n" + "1,yes\n2,no\n3,NA\n" * 30)
    for where, y in ((folder / "a.csv", "y"), (tmp_path, "y")):
        with pytest.raises(BadRowError, match="'y' is 'NA', which stands for a missing"):
            list(srf.open_source(where, y=y).blocks())
    (tmp_path / "k=1").rename(tmp_path / "k=NA")  # Namibia: a missing one has a name of its own
    assert set(next(srf.open_source(tmp_path, x="a", y="k").blocks()).y) == {"NA"}


# ---- batches whole or not at all ----------------------------------------------------------------


def test_a_batch_whose_map_does_not_fit_the_memory_is_counted_once_when_it_comes_again():
    many, labels = np.tile(ROWS, (100, 1)), np.tile(LABELS, 100)
    wide = srf.RandomFourier(srf.Gaussian(0.1), 512, random_state=0)
    model = srf.RandomFeatureClassifier(wide, alpha=1e-3, memory_limit="1MB")
    with pytest.raises(MemoryBudgetError):
        model.partial_fit(many, labels)
    model.set_params(memory_limit=None).partial_fit(many, labels)
    assert model.statistics_.n_rows == len(many)


def test_a_batch_interrupted_while_the_map_is_drawn_is_not_counted():
    model = srf.RandomFeatureClassifier(MAP, alpha=1e-3).partial_fit(ROWS[:50], LABELS[:50])
    many, labels = np.tile(ROWS, (100, 1)), np.tile(LABELS, 100)
    with (
        patch.object(base, "begin", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        model.partial_fit(many, labels)
    assert model.partial_fit(many, labels).statistics_.n_rows == 50 + len(many)


@pytest.mark.parametrize("alpha", [1e-3, "auto"])
@pytest.mark.parametrize("wrong", ["row", "label", "word"])
@pytest.mark.parametrize("n_before", [100, 20_000])  # the map is not drawn, and is
def test_a_batch_refused_leaves_the_estimator_as_it_was(n_before, wrong, alpha):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(n_before + 9000, 3))
    labels = (rows[:, 0] > 0).astype(int)
    model = srf.RandomFeatureClassifier(MAP, alpha=alpha)
    model.partial_fit(rows[:n_before], labels[:n_before], classes=[0, 1])
    batch, bad = rows[n_before:].copy(), labels[n_before:].astype(str if wrong == "word" else int)
    if wrong == "row":
        batch[6000, 1] = 1e200
    elif wrong == "label":
        bad[6000] = 2
    with pytest.raises(StreamrfError):
        model.partial_fit(batch, bad)
    model.partial_fit(rows[n_before:], labels[n_before:])
    once = srf.RandomFeatureClassifier(MAP, alpha=alpha)
    once.partial_fit(rows[:n_before], labels[:n_before], classes=[0, 1])
    once.partial_fit(rows[n_before:], labels[n_before:])
    assert model.statistics_.n_rows == len(rows)
    np.testing.assert_array_equal(model.coef_, once.coef_)


# ---- files that are written ---------------------------------------------------------------------


def test_files_in_folders_and_beside_rows_are_not_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "days").mkdir()
    lines = [f"{a},{b},{c},{int(a > 0)}" for a, b, c in ROWS]
    (tmp_path / "days" / "1.csv").write_text("a,b,c,y\n" + "\n".join(lines) + "\n")
    np.save("X.npy", ROWS)
    np.save("y.npy", LABELS)
    fit = ["--map", "fourier", "--kernel", "gaussian", "--gamma", 0.1, "--components", 16]
    assert streamrf("fit", "X.npy", "--y", "y.npy", *fit, "--model", "m.h5").exit_code == 0
    for words in (
        ("fit", "days", "--y", "y", *fit, "--model", "days/1.csv"),
        ("fit", "X.npy", "--y", "y.npy", *fit, "--statistics", "y.npy"),
        ("predict", "m.h5", "days", "--x", "a,b,c", "-o", "days/1.csv"),
        ("moments", "days", "--out", "days/1.csv"),
        ("report", "m.h5", "--data", "X.npy", "--y", "y.npy", "-o", "y.npy"),
    ):
        told = refused(*words)
        assert "is read from too; choose" in told or "so it is not replaced: choose" in told


def test_outputs_that_the_next_reading_of_a_folder_would_take_for_rows_are_refused(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for year in (2023, 2024):
        (tmp_path / "part" / f"year={year}").mkdir(parents=True)
        saved_table(tmp_path / "part" / f"year={year}" / "rows.csv", TABLE.slice(year - 2023, 99))
    (tmp_path / "part" / "_kept").mkdir()
    (tmp_path / "link").symlink_to("part")
    fit = ["--y", "y", "--map", "fourier", "--gamma", 0.1, "--components", 8]
    message = "would be one of the files read from part the next time; choose another folder"
    for words in (
        ("fit", "part", *fit, "--model", "part/year=2024/m.h5"),
        ("fit", "part", *fit, "--statistics", "link/s.h5"),
        ("moments", "part", "--out", "part/moments.h5"),
    ):
        assert message in refused(*words)
    for output in ("part/_kept/m.h5", "part/m.model", "m.h5"):
        assert streamrf("fit", "part", *fit, "--model", output).exit_code == 0
    assert message in refused("predict", "m.h5", "part", "-o", "part/year=2023/y.csv")


def test_predictions_quote_labels_with_a_carriage_return(tmp_path):
    labels = np.array(["a\rb", "c"])[LABELS]
    model = srf.accumulate(srf.ArraySource(ROWS, labels), MAP).solve(1e-3)
    model.save(tmp_path / "m.h5")
    np.save(tmp_path / "X.npy", ROWS)
    out = tmp_path / "out.csv"
    done = streamrf("predict", tmp_path / "m.h5", tmp_path / "X.npy", "-o", out)
    assert done.exit_code == 0, done.output
    with open(out, newline="") as file:
        read = [row[0] for row in csv.reader(file)][1:]
    assert read == model.predict(ROWS).tolist()
    assert b"\r\n" not in out.read_bytes()


def test_a_checkpoint_may_be_a_link_to_a_file_that_is_not_there_yet(tmp_path):
    link, rows = tmp_path / "link", srf.ArraySource(ROWS, LABELS)
    link.symlink_to(tmp_path / "pass.ck")
    for _ in range(2):
        assert srf.accumulate(rows, MAP, checkpoint=link).n_rows == len(ROWS)
    assert link.is_symlink()
    assert (tmp_path / "pass.ck").is_file()


# ---- indices, names and rows that are taken for others ------------------------------------------


def saved_libsvm(path, rows, first):
    with open(path, "w") as file:
        for row in rows:
            entries = [f"{j}:{value!r}" for j, value in enumerate(row.tolist(), first) if value]
            file.write(" ".join(["1", *entries]) + "\n")
    return path


@pytest.mark.parametrize("first", [0, 1])
def test_where_libsvm_indices_begin_is_seen_or_said_or_warned_of(first, tmp_path, caplog):
    inner = ROWS.copy()
    inner[:, 0 if first == 0 else 2] = 0
    seen = saved_libsvm(tmp_path / "seen.svm", ROWS, first)
    unseen = saved_libsvm(tmp_path / "unseen.svm", inner, first)

    def read(path, x):
        return next(srf.open_source(path, x=x, y="label").blocks()).X

    np.testing.assert_array_equal(read(seen, "3"), ROWS)
    np.testing.assert_array_equal(read(unseen, f"{first}-{first + 2}"), inner)
    assert not caplog.messages
    read(saved_libsvm(tmp_path / "none.svm", ROWS * [0, 1, 0], first), "3")
    assert ["x='1-3' or x='0-2' (--x)" in message for message in caplog.messages] == [True]


def test_libsvm_indices_outside_of_those_said_are_refused(tmp_path):
    path = saved_libsvm(tmp_path / "rows.svm", ROWS, 0)
    with pytest.raises(ShapeError, match="index 0, below those of x='1-3'"):
        srf.open_source(path, x="1-3", y="label")
    with pytest.raises(ShapeError, match="index 2, above the 2 columns of x= that begin at 0"):
        srf.open_source(path, x="0-1", y="label")
    with pytest.raises(ParameterError, match="no number of columns"):
        srf.open_source(path, x="1-0", y="label")


@pytest.mark.parametrize("names", [("y", "weights"), ("y", "y_")])
def test_columns_of_a_frame_may_have_the_names_of_roles(names):
    frame = pa.table({**dict(zip(names, ROWS.T, strict=False)), "c": ["u", "v"] * 100})
    source = srf.open_source(frame, y=LABELS, weights=ROWS[:, 0] ** 2)
    block = next(source.blocks())
    np.testing.assert_array_equal(block.X[:, :2], ROWS[:, :2])
    np.testing.assert_array_equal(block.y, LABELS)
    np.testing.assert_array_equal(block.weights, ROWS[:, 0] ** 2)
    model = srf.RandomFeatureClassifier(MAP).fit(frame, LABELS)
    assert model.predict(frame).shape == LABELS.shape


def test_sparse_and_dense_batches_are_one_stream():
    sketch = srf.TensorSketch(srf.Polynomial(2), 32, random_state=0)
    rng = np.random.default_rng(0)
    rows = np.zeros((2400, 4200))
    rows[:, :3] = rng.normal(size=(2400, 3))
    labels = (rows[:, 0] > 0).astype(int)

    def learnt(kinds):
        model = srf.RandomFeatureClassifier(sketch, alpha="auto", normalize="max")
        for i, kind in enumerate(kinds):
            part = slice(800 * i, 800 * i + 800)
            batch = scipy.sparse.csr_array(rows[part]) if kind == "s" else rows[part]
            model.partial_fit(batch, labels[part], classes=[0, 1])
        assert model.statistics_.n_rows == model.statistics_.sums.n_rows == 2400
        return model.coef_

    for kinds in ("sds", "dsd"):
        assert np.isfinite(learnt(kinds)).all()


# ---- the same rows of a table, read in another way ----------------------------------------------

TABLE = pa.table({"id": range(200), **dict(zip("abc", ROWS.T**2, strict=True)), "y": LABELS})


def saved_table(path, table=TABLE):
    """A file of the format of its name, or the table itself for none."""
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif path.suffix == ".arrow":
        pa.feather.write_feather(table, str(path))
    elif path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    elif path.suffix == ".hive":
        for year in (2023, 2024):
            (path / f"year={year}").mkdir(parents=True)
            part = table.slice(100 * (year - 2023), 100)
            pa.parquet.write_table(part, path / f"year={year}" / "part.parquet")
    return table if not path.suffix else path


def assert_known(sums, again):
    """Sums of the same rows are not added, and can be taken away."""
    with pytest.raises(MergeError, match="would be counted twice"):
        sums + again
    assert (sums - again).n_rows == 0


@pytest.mark.parametrize("ending", [".csv", ".arrow", ".parquet", ".hive", "", "dask"])
def test_rows_of_a_table_are_known_by_whatever_columns_are_chosen(ending, tmp_path):
    """They were counted twice where --x was left out, or named in another order."""
    if ending == "dask":
        frames = pytest.importorskip("dask.dataframe")
        data = other = frames.from_pandas(TABLE.to_pandas(), npartitions=3)
    else:
        data = saved_table(tmp_path / f"rows{ending}")
        other = saved_table(tmp_path / f"other{ending}", TABLE.select(["y", "c", "b", "a", "id"]))
    year = ",year" if ending == ".hive" else ""
    sums = srf.accumulate(srf.open_source(data, "a,b,c" + year, "y"), MAP)
    model = sums.solve(1.0)
    for rows in (data, other):
        for x in (None, "c,b,a" + year, "id"):
            source = srf.open_source(rows, x, "y")
            assert_known(sums, srf.accumulate(source, like=sums))
        weighted = srf.open_source(rows, y="y", weights="a")
        assert model.evaluate(weighted)["n_rows_trained_on"] == 200


def test_a_file_is_known_alone_and_next_to_one_whose_columns_are_text(tmp_path):
    """Its key was that of numbers, alone, and of texts in the list."""
    zips = {"a": ["1", "2"] * 100, "b": ["A1", "2"] * 100}
    for name, values in zips.items():
        pa.csv.write_csv(TABLE.append_column("zip", [values]), tmp_path / f"{name}.csv")
    sums = srf.accumulate(srf.open_source([tmp_path / "a.csv", tmp_path / "b.csv"], y="y"), MAP)
    alone = srf.open_source(tmp_path / "a.csv", y="y")
    part = srf.accumulate(alone, like=sums)
    with pytest.raises(MergeError, match="would be counted twice"):
        sums + part
    assert (sums - part).n_rows == 200
    assert sums.solve(1.0).evaluate(alone)["n_rows_trained_on"] == 200


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_folders_of_integers_are_texts_to_a_model_of_others(ending, tmp_path):
    """Their key was that of numbers; and of Parquet they were refused."""
    for folder in ("all/n=1", "all/n=new", "some/n=1", "text/n=new"):
        (tmp_path / folder).mkdir(parents=True)
        rows = TABLE.slice(100 if "new" in folder else 0, 100)
        saved_table(tmp_path / folder / f"part.{ending}", rows)
    whole, some, text = (srf.open_source(tmp_path / n, y="y") for n in ("all", "some", "text"))
    sums = srf.accumulate(whole, MAP)
    part = srf.accumulate(some, like=sums)
    with pytest.raises(MergeError, match="would be counted twice"):
        sums + part
    assert (sums - part).n_rows == 100
    with pytest.raises(ShapeError, match="'n' was number and is category"):
        srf.accumulate(text, like=srf.accumulate(some, MAP))


def test_a_file_that_has_grown_by_text_in_a_column_of_numbers_is_told_so(tmp_path):
    """It was said to begin with other rows."""
    path, state = saved_table(tmp_path / "rows.csv"), tmp_path / "state"
    srf.accumulate(srf.open_source(path, y="y"), MAP, checkpoint=state)
    with open(path, "a") as file:
        file.write("200,none,0,0,1\n")
    with (
        pytest.raises(BadRowError, match="row 200: column 'a' has invalid value 'none'"),
        pytest.warns(StreamrfWarning, match="column 'a' holds numbers, but also 'none'"),
    ):
        srf.accumulate(srf.open_source(path, y="y"), MAP, checkpoint=state)


def test_rows_that_an_earlier_version_counted_by_the_columns_chosen_are_known(tmp_path):
    """As it did with like= and other columns chosen."""
    sums = srf.accumulate(srf.open_source(TABLE, "a,b,c", "y"), MAP)
    source = srf.open_source(TABLE, y="y")
    ((ours, ranges),) = sums.ledger.ranges.items()
    (old,) = source.stores
    assert old.key != ours
    sums = replace(sums, ledger=Ledger({old.key: ranges}, {old.key: "rows"}))
    assert_known(sums, srf.accumulate(source, like=sums))
    assert sums.solve(1.0).evaluate(source)["n_rows_trained_on"] == 200


def test_a_short_file_that_has_grown_is_known_to_a_model(tmp_path):
    path = saved_table(tmp_path / "rows.csv", TABLE.slice(0, 50))
    model = srf.accumulate(srf.open_source(path, y="y"), MAP).solve(1.0)
    saved_table(path)
    assert model.evaluate(srf.open_source(path, y="y"))["n_rows_trained_on"] == 50


NAMED = pd.DataFrame(ROWS, columns=["a", "b", "c"])
MOVED = NAMED[["c", "a", "b"]]


@pytest.mark.parametrize("fitted", ["fit", "partial_fit"])
def test_a_model_of_a_frame_of_numbers_reads_columns_by_name(fitted, tmp_path):
    made = getattr(srf.RandomFeatureClassifier(MAP, alpha=0.1), fitted)(NAMED, LABELS)
    plain = srf.RandomFeatureClassifier(MAP, alpha=0.1).fit(ROWS, LABELS)
    assert made.coef_.tobytes() == plain.coef_.tobytes()
    made.save(tmp_path / "m.h5")
    csv = tmp_path / "moved.csv"
    MOVED.assign(y=LABELS, more="text").to_csv(csv, index=False)
    moved, wanted = srf.open_source(csv, y="y"), plain.score(ROWS, LABELS)
    saved = srf.load_model(tmp_path / "m.h5", estimator=False)
    assert saved.encoder.table.outputs == ("a", "b", "c")
    for model in (made.model_, saved):
        np.testing.assert_array_equal(model.predict(MOVED), plain.predict(ROWS))
        assert model.score(moved) == made.score(moved) == wanted
    evaluated = answer("evaluate", tmp_path / "m.h5", csv)
    assert evaluated["accuracy"] == wanted
    gram = np.array(made.statistics_.gram)
    np.testing.assert_array_equal(srf.accumulate(moved, like=made.statistics_).gram, gram)
    with pytest.raises(MergeError, match="would be counted twice"):
        made.partial_fit(srf.open_source(MOVED, y=LABELS))
    more = srf.open_source(MOVED / 2, y=LABELS)
    part = srf.accumulate(srf.ArraySource(ROWS / 2, LABELS), like=made.statistics_)
    made.partial_fit(more)
    np.testing.assert_array_equal(made.statistics_.gram, gram + part.gram)


def test_columns_of_other_names_are_refused_by_a_model_of_a_frame(tmp_path):
    made = srf.RandomFeatureClassifier(MAP, alpha=0.1).fit(NAMED, LABELS)
    others = NAMED.rename(columns={"b": "d"})
    for ask in (made.model_.predict, lambda X: made.score(srf.open_source(X, y=LABELS))):
        with pytest.raises(ShapeError, match=r"lacks \['b'\]"):
            ask(others)
    with pytest.raises(ValueError, match="feature names should match"):
        made.predict(MOVED)  # scikit-learn's rule of estimators


def test_rows_without_names_are_read_by_place_by_a_model_of_a_frame(tmp_path):
    made = srf.RandomFeatureClassifier(MAP, alpha=0.1).fit(NAMED.assign(b=LABELS > 0), LABELS)
    rows, path = np.column_stack([ROWS[:, 0], LABELS, ROWS[:, 2]]), tmp_path / "bare.csv"
    np.savetxt(path, rows, delimiter=",", fmt="%.17g")
    wanted = made.model_.predict(rows)
    np.testing.assert_array_equal(made.predict(srf.open_source(path)), wanted)
    NAMED.assign(b=LABELS > 0).to_csv(path, index=False)  # where b is True and False
    np.testing.assert_array_equal(made.predict(srf.open_source(path)), wanted)


@pytest.mark.parametrize(
    ("kind", "ask"), [(srf.RandomFeaturePCA, "transform"), (srf.RandomFeatureKMeans, "predict")]
)
def test_unsupervised_estimators_read_columns_by_name(kind, ask):
    made = kind(2, MAP, random_state=0).fit(NAMED)
    wanted = getattr(made, ask)(NAMED)
    np.testing.assert_array_equal(getattr(made, ask)(srf.open_source(MOVED)), wanted)
    with pytest.raises(ShapeError, match=r"lacks \['a'\]"):
        getattr(made, ask)(srf.open_source(NAMED[["c", "b"]].assign(d=1.0)))


def test_exact_kernel_ridge_reads_columns_by_name():
    made = srf.KernelRidgeRegressor().fit(NAMED, VALUES)
    np.testing.assert_array_equal(made.predict(srf.open_source(MOVED)), made.predict(NAMED))


def test_frames_of_an_iterator_are_read_by_the_names_of_the_first():
    def sums(*frames, **options):
        parts = np.split(LABELS, len(frames))
        made = srf.IteratorSource(list(zip(frames, parts, strict=True)))
        return srf.accumulate(made, **options)

    plain = sums(ROWS[:100], ROWS[100:], features=MAP)
    half, rest = NAMED[:100], MOVED[100:].assign(more=1.0)
    for frames in ([half, rest], [half, pa.table(rest)], [half, ROWS[100:]]):
        np.testing.assert_array_equal(sums(*frames, features=MAP).gram, plain.gram)
    with pytest.raises(ShapeError, match=r"block 1 has other columns .* lacks \['b'\]"):
        sums(half, rest.rename(columns={"b": "d"}), features=MAP)
    with pytest.raises(DataError, match=r"several columns called \['a'\]"):
        sums(half, NAMED[100:][["a", "b", "a"]], features=MAP)
    names = sums(half, rest, features=MAP)
    assert names.encoder.table.outputs == ("a", "b", "c")
    np.testing.assert_array_equal(sums(MOVED, like=names).gram, plain.gram)
    arrays = srf.ArraySource(MOVED, LABELS)
    np.testing.assert_array_equal(srf.accumulate(arrays, like=names).gram, plain.gram)
    with pytest.raises(ShapeError, match=r"lacks \['c'\]"):
        sums(NAMED[["a", "b"]].assign(d=0.0), like=names)


@pytest.mark.parametrize("kind", [list, tuple])
def test_texts_for_all_rows_beside_a_table_are_labels(kind):
    frame = NAMED.assign(c=np.where(LABELS, "x", "y"))
    labels = kind(np.where(ROWS[:, 1] > 0, "a", "p").tolist())  # of which one is a column
    made, wanted = (
        srf.RandomFeatureClassifier(MAP, alpha=0.1).fit(frame, y)
        for y in (labels, np.array(labels))
    )
    assert made.coef_.tobytes() == wanted.coef_.tobytes()
    assert made.evaluate(frame, labels) == wanted.evaluate(frame, np.array(labels))
    named = srf.open_source(frame[:2], y=kind(["a", "b"]))
    assert [column.name for column in named.columns.columns] == ["c"]
    with pytest.raises(DatasetNotFoundError, match="no column 'p'"):
        srf.open_source(frame, y=kind(["p", "c"]))


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("kind", ["date", "text", "category"])
def test_tables_with_more_than_numbers_are_no_arrays(library, kind):
    """Of which NumPy makes ticks of some unit, or numbers of texts, and another column others."""
    frame = NAMED.assign(t=pd.date_range("2020-01-01", periods=len(NAMED), unit="us"))
    if kind != "date":
        frame["t"] = pd.Series(["01", "2"] * (len(NAMED) // 2), dtype="str")
    if kind == "category":
        frame["t"] = frame["t"].astype("category")
    if library == "arrow":
        frame = pa.Table.from_pandas(frame)
    if library == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    told = "X: column 't' has dtype .*numbers"
    with pytest.raises((DataError, ShapeError), match=f"^{told}"):
        srf.ArraySource(frame, LABELS)
    with pytest.raises((DataError, ShapeError), match=f"^iterator, block 0, {told}"):
        srf.accumulate(srf.IteratorSource(lambda: iter([(frame, LABELS)])), MAP)
    assert srf.open_source(frame, y=LABELS).n_features > 3


def test_a_column_is_named_by_a_text():
    frame = pd.DataFrame(np.column_stack((ROWS, LABELS)))  # whose columns are numbers
    assert srf.open_source(frame, y="3").n_features == 3
    with pytest.raises(ParameterError, match=r"y must be the name of a column, a text, .* got 3$"):
        srf.open_source(frame, y=3)


@pytest.mark.parametrize("kind", ["Categorical", "Enum"])
def test_categories_of_polars_are_labels(tmp_path, kind):
    """Whose texts Arrow has as views."""
    pl = pytest.importorskip("polars")
    type_ = pl.Categorical if kind == "Categorical" else pl.Enum(["u", "v"])
    frame = pl.from_pandas(NAMED.assign(y=np.where(LABELS, "u", "v"))).cast({"y": type_})
    frame.write_ipc(tmp_path / "rows.arrow")
    for rows in (frame, tmp_path / "rows.arrow"):
        sums = srf.accumulate(srf.open_source(rows, y="y"), MAP)
        assert sums.labels.tolist() == ["u", "v"]


def test_dates_among_several_targets_are_refused():
    pl = pytest.importorskip("polars")
    dates = pd.date_range("2020-01-01", periods=len(ROWS), unit="us")
    targets = pl.from_pandas(pd.DataFrame({"t": dates, "z": VALUES}))
    for make in (
        lambda: srf.RandomFeatureRegressor(MAP).fit(ROWS, targets),
        lambda: srf.ArraySource(ROWS, targets),
        lambda: next(srf.IteratorSource([(ROWS, targets)]).blocks()),
    ):
        with pytest.raises(ShapeError, match=r"column 't' has dtype .*; expected numbers"):
            make()


def test_an_empty_chunk_of_an_arrow_table_is_none():
    parts = (ROWS[:100, 0], ROWS[:0, 0], ROWS[100:, 0])
    table = pa.table({"a": pa.chunked_array([pa.array(p) for p in parts]), "y": LABELS})
    found, wanted = (
        srf.accumulate(srf.open_source(rows, y="y"), MAP)
        for rows in (table, pd.DataFrame({"a": ROWS[:, 0], "y": LABELS}))
    )
    assert found.gram.tobytes() == wanted.gram.tobytes()


def test_levels_unknown_in_training_are_counted_and_told(tmp_path):
    frame = NAMED.assign(city=np.where(LABELS, "Oslo", "Rome"))
    other = frame.assign(city=frame.city.str.lower())
    made = srf.RandomFeatureClassifier(MAP, alpha=0.1).fit(frame, LABELS)
    made.save(tmp_path / "m.h5")
    other.assign(y=LABELS).to_csv(tmp_path / "other.csv", index=False)
    rows, predictions = srf.open_source(other, y=LABELS), srf.RandomFeaturePCA(2, MAP)
    regressor = srf.RandomFeatureRegressor(MAP, alpha=0.1, uncertainty=True).fit(frame, VALUES)
    asked = [
        lambda: made.predict(other),
        lambda: made.decision_function(other),
        lambda: made.score(rows),
        lambda: regressor.predict(other, return_std=True),
        lambda: predictions.fit(frame).transform(other),
        lambda: srf.accumulate(rows, like=made.statistics_),
        lambda: srf.refine(made.model_, rows),
        lambda: made.partial_fit(other, LABELS).coef_,
    ]
    for ask in asked:
        with pytest.warns(StreamrfWarning, match="^200 values are unlike those .* new") as told:
            ask()
        assert len(told) == 1
    done = streamrf("evaluate", tmp_path / "m.h5", tmp_path / "other.csv", "--json")
    assert "warning: 200 values are unlike those" in done.stderr
    assert json.loads(done.stdout)["n_values_unseen"] == 200
    names = ("predict", tmp_path / "m.h5", tmp_path / "other.csv", "-o", tmp_path / "p.csv")
    assert "warning: 200 values are unlike those" in streamrf(*names).stderr
    assert srf.load_model(tmp_path / "m.h5").evaluate(frame, LABELS)["n_values_unseen"] == 0


def test_statistics_say_what_chooses_their_penalty():
    sums = srf.accumulate(srf.ArraySource(ROWS, LABELS), MAP)
    with pytest.raises(ParameterError, match=r"number, such as statistics.path\(\).best_alpha\(\)"):
        sums.solve("auto")
    assert sums.solve(np.array(0.1)).coef.tobytes() == sums.solve(0.1).coef.tobytes()


@pytest.mark.parametrize("kind", [srf.RandomFeatureClassifier, srf.KernelRidgeClassifier])
def test_columns_of_one_name_are_named(kind):
    with pytest.raises(DataError, match=r"DataFrame has several columns called \['a'\]; rename"):
        kind().fit(NAMED[["a", "b", "a"]], LABELS)


def test_streams_of_one_key_are_told_apart_by_the_key():
    """Not by their first rows, which differ here."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = np.arange(200) % 2
    map_ = srf.RandomFourier(srf.Gaussian(0.3), 8, random_state=0)
    first = srf.accumulate(srf.IteratorSource([(X[:100], y[:100])], key="mine"), map_)
    other = srf.accumulate(srf.IteratorSource([(X[100:], y[100:])], key="mine"), like=first)
    match = r"streams are told apart by their keys, and 'mine' is that of both; .* position=100"
    with pytest.raises(MergeError, match=match) as caught:
        first + other
    assert "64 rows" not in str(caught.value)
    with pytest.raises(MergeError, match=match):
        first.ledger.add("mine", "iterator", 10, 20)
    moved = srf.IteratorSource([(X[100:], y[100:])], position=100, key="mine")
    assert (first + srf.accumulate(moved, like=first)).n_rows == 200


def test_labels_in_half_precision_are_classes(rng):
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 3, 200).astype(np.float16)
    found = srf.accumulate(srf.ArraySource(X, y), srf.Identity())
    assert found.labels.tolist() == [0, 1, 2]
