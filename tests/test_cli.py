"""The command line: what it prints, writes and refuses, and how it ends."""

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from sklearn.datasets import load_digits

import streamrf as srf
from commands import answer, misused, refused, streamrf, told
from streamrf.cli import base, fitting, groups, maps
from streamrf.cli import files as checks
from streamrf.errors import CheckpointError
from streamrf.kernels import AdditiveKernel, DotProductKernel, Polynomial

ROOT = Path(__file__).resolve().parents[1]
X, Y = load_digits(return_X_y=True)
X = X[:900].astype(np.uint8)
Y = Y[:900]
NAMES = np.array([f"Ziffer {'ä' * (digit % 2)}{digit}" for digit in Y])
VALUES = X[:, :4].sum(axis=1) / 7.0

DOT_PRODUCTS = [word for word, kind in maps.KERNELS.items() if issubclass(kind, DotProductKernel)]
DOT_PRODUCTS.remove("linear")  # which has a map of its own
ADDITIVE = [word for word, kind in maps.KERNELS.items() if issubclass(kind, AdditiveKernel)]
SMALL = ("--map", "maclaurin", "--components", "100", "--degree", "2", "--normalize", "l2")


def command(*arguments) -> list[str]:
    return [sys.executable, "-m", "streamrf", *map(str, arguments)]


def environment(**more) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def start(*arguments, **options) -> subprocess.Popen:
    """Start as a program of its own."""
    return subprocess.Popen(command(*arguments), env=environment(), text=True, **options)


def run(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        command(*arguments), env=environment(), capture_output=True, text=True, **options
    )


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, files):
    """An empty folder to stand in, beside the files made once."""
    monkeypatch.chdir(tmp_path)
    for file in files.iterdir():
        os.link(file, file.name)
    return tmp_path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """data.h5, its halves, and models of classes, names and values trained on it."""
    place = tmp_path_factory.mktemp("files")
    write_data(place / "data.h5", slice(None))
    write_data(place / "part0.h5", slice(0, 400))
    write_data(place / "part1.h5", slice(400, None))
    before = os.getcwd()
    os.chdir(place)
    try:
        answer("fit", "data.h5", *SMALL, "--model", "m.h5", "--statistics", "s.h5")
        answer("fit", "data.h5", *SMALL, "--y", "names", "--model", "names.h5")
        answer("fit", "data.h5", *SMALL, "--y", "values", "--regression", "--model", "values.h5")
    finally:
        os.chdir(before)
    for file in place.iterdir():
        file.chmod(0o444)
    return place


def write_data(path, rows):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X[rows], chunks=(50, 64), compression="gzip")
        file["y"] = Y[rows]
        file["names"] = NAMES[rows].tolist()
        file["values"] = VALUES[rows]
        file["w"] = 1.0 + (Y[rows] == 3)
        file["narrow"] = X[rows, :9]
        file["odd"] = Y[rows] + (Y[rows] == 9)
        file["constant"] = np.zeros_like(Y[rows])
        file["short"] = Y[rows][:100]
        file["norows"] = np.zeros((0, 64))
        spoilt = X[rows].astype(np.float32)
        spoilt[[17, 30], 5] = np.nan
        file["spoilt"] = spoilt
        spoilt = X[rows].astype(np.float32)
        spoilt[41] *= 1e6
        file["wild"] = spoilt
        file["huge"] = X[rows] * 1e30


def left_behind(folder, files) -> set[str]:
    """Give the names in the folder that were not there at first."""
    return {path.name for path in folder.iterdir()} - {path.name for path in files.iterdir()}


# The way through


def test_fit_evaluate_predict_info(folder, files):
    fitted = answer("fit", "data.h5", *SMALL, "--model", "new.h5", "--statistics", "sums.h5")
    assert (fitted["n_rows"], fitted["n_features"], fitted["n_components"]) == (900, 64, 100)
    assert (fitted["model"], fitted["statistics"]) == ("new.h5", "sums.h5")
    assert fitted["labels"] == list(range(10))
    assert fitted["alpha"] in [alpha for alpha, _ in fitted["alphas"]]
    assert 100 < fitted["n_rows_held_out"] < 250
    model = srf.load_model("new.h5")
    assert model.alpha == fitted["alpha"]

    tested = answer("evaluate", "new.h5", "data.h5")
    expected = model.evaluate(srf.HDF5Source("data.h5"))
    assert {name: tested[name] for name in expected} == expected
    assert tested["error"] < 0.05

    answer("predict", "new.h5", "data.h5", "--output", "found.h5")
    with h5py.File("found.h5") as file:
        assert list(file) == ["y"]
        np.testing.assert_array_equal(file["y"], model.predict(X))
        assert np.mean(file["y"] != Y) == pytest.approx(tested["error"])

    assert answer("info", "new.h5")["n_rows"] == 900
    assert left_behind(folder, files) == {"new.h5", "sums.h5", "found.h5"}


def test_fit_is_the_estimator_in_words():
    told("fit", "data.h5", "--map", "craft-maclaurin", "--degree", "3", "--gamma", "2",
         "--coef0", "0.5", "--components", "80", "--up-components", "400", "--projection",
         "rademacher", "--p", "3", "--normalize", "standard", "--codes", "error-correcting",
         "--bits", "30", "--decode", "hamming", "--seed", "5", "--threads", "1",
         "--model", "new.h5")  # fmt: skip
    kernel = srf.Polynomial(degree=3, gamma=2.0, coef0=0.5)
    up = srf.RandomMaclaurin(kernel, n_components=400, projection="rademacher", h01=True, p=3.0)
    estimator = srf.RandomFeatureClassifier(
        srf.Craft(up, n_components=80),
        alpha="auto",
        codes=srf.ErrorCorrectingCodes(n_bits=30, decode="hamming", random_state=5),
        normalize="standard",
        random_state=5,
    )
    wanted = estimator.fit(srf.HDF5Source("data.h5")).model_
    found = srf.load_model("new.h5")
    assert found.alpha == wanted.alpha
    np.testing.assert_array_equal(found.coef, wanted.coef)
    np.testing.assert_array_equal(found.book.matrix, wanted.book.matrix)
    assert found.book.decode == "hamming"


def test_a_gamma_that_is_not_given_is_that_of_the_median_distance():
    for kernel in ("gaussian", "laplacian"):
        words = ("--kernel", kernel, "--components", "64", "--alpha", "1", "--model", "new.h5")
        answer("fit", "data.h5", *words)
        found = srf.load_model("new.h5").coef
        answer("fit", "data.h5", *words, "--gamma", "median")
        np.testing.assert_array_equal(found, srf.load_model("new.h5").coef)


def test_several_gammas_are_blocks_that_can_be_weighed():
    words = ("--kernel", "gaussian", "--gamma", "0.5,median", "--components", "61")
    files = ("--model", "new.h5", "--statistics", "sums.h5")
    fitted = answer("fit", "data.h5", *words, "--block-weights", "auto", *files)
    four = [srf.StructuredFourier(srf.Gaussian(g), n) for g, n in ((0.5, 30), ("median", 31))]
    estimator = srf.RandomFeatureClassifier(
        srf.Concatenate(four), block_weights="auto", normalize=None, random_state=0
    ).fit(srf.HDF5Source("data.h5"))
    model = srf.load_model("new.h5")
    np.testing.assert_array_equal(model.coef, estimator.model_.coef)
    assert fitted["block_weights"] == model.block_weights.tolist()
    assert [part["n_components"] for part in answer("info", "new.h5")["map"]["maps"]] == [30, 31]
    assert re.search(r"blocks +weights ", told("info", "new.h5"))
    for given in ("1,2", "auto"):
        weights = ("--block-weights", given)
        said = misused("fit", "data.h5", *words, *weights, "--statistics", "new.h5")
        assert "--block-weights is for a model; give --model, or give it to solve" in said
        said = misused("fit", "data.h5", *words, *weights, "--prune", "9", "--model", "new.h5")
        assert "--block-weights is for a model that is not pruned; leave it or --prune out" in said
    said = misused("fit", "data.h5", *words, "--components", "1", "--model", "new.h5")
    assert "--components: 1 do not part among the 2 of --gamma; give 2" in said


def test_a_model_is_pruned_and_its_statistics_are_not():
    for penalty in ("auto", "0.01"):
        fitted = answer("fit", "data.h5", *SMALL, "--alpha", penalty, "--prune", "30", "--model",
                        "new.h5", "--statistics", "sums.h5", "--seed", "0")  # fmt: skip
        assert (fitted["n_components"], fitted["n_components_kept"]) == (100, 30)
        alpha = penalty if penalty == "auto" else float(penalty)
        features = srf.RandomMaclaurin(srf.Polynomial(degree=2), n_components=100, h01=True)
        estimator = srf.RandomFeatureClassifier(
            features, alpha=alpha, prune=30, normalize="l2", random_state=0
        ).fit(srf.HDF5Source("data.h5"))
        np.testing.assert_array_equal(srf.load_model("new.h5").coef, estimator.model_.coef)
        sums = srf.load_statistics("sums.h5")
        assert sums.gram.tobytes() == estimator.statistics_.gram.tobytes()
    text = told("fit", "data.h5", *SMALL, "--prune", "30", "--model", "new.h5")
    assert "100, RandomMaclaurin, pruned to 30" in text


def test_components_before_compacting_are_eight_times_as_many_by_default():
    told("fit", "data.h5", "--components", "70", "--degree", "2", "--model", "new.h5")
    assert answer("info", "new.h5")["map"]["up"]["n_components"] == 560


@pytest.mark.parametrize(
    ("option", "word"),
    [
        *(("--map", word) for word in maps.MAP_WORDS),
        *(("--kernel", word) for word in maps.KERNELS),
        *(("--projection", word) for word in maps.PROJECTIONS),
        *(("--landmarks", word) for word in maps.LANDMARKS),
        *(("--normalize", word) for word in maps.NORMALIZE),
        *(("--precision", word) for word in maps.PRECISIONS),
        *(("--codes", word) for word in groups.CODES),
        *(("--decode", word) for word in groups.DECODINGS),
    ],
)
def test_every_word_of_the_tables_trains(option, word):
    words = dict(zip(SMALL[::2], SMALL[1::2], strict=True))
    if word == "error-correcting" or option == "--decode":
        words |= {"--codes": "error-correcting", "--bits": "20"}
    if option == "--landmarks":
        words |= {"--map": "nystroem"}
    words |= {option: word}
    of_counts = "additive" in word or "skewed" in word
    if word.endswith(("fourier", "fastfood")) and not of_counts:
        words |= {"--kernel": "gaussian", "--gamma": "median"}
    elif word == "coarse":  # five deviations are clipped: waves of all phases have none
        words |= {"--map": "fourier", "--kernel": "gaussian", "--gamma": "9"}
    elif option == "--kernel" and word not in DOT_PRODUCTS:
        words.pop("--map")
    if word in ("additive-sampler", "identity", "linear", *ADDITIVE):
        words.pop("--components")  # its width follows from the columns
    made_for = maps.MAPS[words.get("--map", "maclaurin").removeprefix(maps.CRAFT)].default_kernel
    if "--kernel" in words or made_for is not Polynomial:
        words.pop("--degree", None)
        words.pop("--coef0", None)
    if word == "vovk-infinite":
        words["--gamma"] = "0.5"
    told("fit", "data.h5", *(part for pair in words.items() for part in pair), "--model", "new.h5")
    words |= {option: "nonsense"}
    given = (part for pair in words.items() for part in pair)
    assert word in misused("fit", "data.h5", *given, "--model", "new.h5")


def test_an_additive_map_is_as_wide_as_its_columns_say():
    words = ("--map", "additive-sampler", "--kernel", "chi2", "--sample-steps", "3")
    told("fit", "data.h5", *words, "--model", "new.h5")
    told("fit", "data.h5", *words, "--model", "again.h5", "--threads", "1")
    assert Path("new.h5").read_bytes() == Path("again.h5").read_bytes()
    figures = answer("info", "new.h5")
    assert (figures["map"]["class"], figures["map"]["sample_steps"]) == ("AdditiveSampler", 3)
    assert figures["n_components"] == 5 * 64
    asked = ("fit", "data.h5", *words, "--normalize", "standard", "--model", "no.h5")
    assert "takes no negative ones: use normalize='l1'" in refused(*asked)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("exponential", "Craft"),
        ("gaussian", "StructuredFourier"),
        ("laplacian", "RandomFourier"),
        ("cauchy", "RandomFourier"),
    ],
)
def test_a_kernel_alone_takes_its_fast_map(kernel, name):
    words = ("--kernel", kernel, "--components", "70", "--normalize", "l2")
    told("fit", "data.h5", *words, "--model", "new.h5")
    assert answer("info", "new.h5")["map"]["class"] == name


def test_the_order_of_the_arc_cosine_and_the_tolerance_of_its_series_can_be_set():
    words = ("--kernel", "arc-cosine", "--order", "0", "--components", "70", "--normalize", "l2")
    told("fit", "data.h5", *words, "--tolerance", "0.02", "--model", "new.h5")
    up = answer("info", "new.h5")["map"]["up"]
    assert (up["kernel"]["order"], up["tolerance"]) == (0, 0.02)
    assert "raise the tolerance" in refused("fit", "data.h5", *words, "--model", "other.h5")


def test_scales_learnt_from_rows_are_for_kernels_of_distances():
    words = ("--kernel", "polynomial", "--gamma", "median", "--model", "new.h5")
    assert "got 'median': only the Gaussian" in refused("fit", "data.h5", *words)


def test_target_codes_of_values_are_refused_by_the_option_given():
    words = ("--regression", "--decode", "discriminant", "--model", "new.h5")
    assert "--decode" in misused("fit", "values.h5", *words)


def test_one_vs_rest_has_discriminants_and_no_hamming_distances():
    told("fit", "data.h5", *SMALL, "--decode", "discriminant", "--model", "new.h5")
    assert srf.load_model("new.h5").book.decode == "discriminant"
    said = misused("fit", "data.h5", *SMALL, "--decode", "hamming", "--model", "other.h5")
    assert "'hamming' is not one of euclidean, discriminant" in said


def test_no_h01_reaches_the_inner_map():
    words = ["--components", "60", "--no-h01", "--alpha", "1e6"]
    told("fit", "data.h5", *words, "--model", "new.h5")
    assert answer("info", "new.h5")["map"]["up"]["h01"] is False


def test_labels_of_strings_come_back_as_strings():
    tested = answer("evaluate", "names.h5", "data.h5", "--y", "names")
    assert tested["labels"] == sorted(set(NAMES))
    answer("predict", "names.h5", "data.h5", "--output", "found.h5", "--scores")
    with h5py.File("found.h5") as file:
        assert file["y"].dtype.kind == "S"
        assert h5py.check_string_dtype(file["y"].dtype).encoding == "utf-8"
        found = file["y"].asstr()[:]
        labels = file["labels"].asstr()[:]
        scores = file["scores"][:]
    np.testing.assert_array_equal(found, srf.load_model("names.h5").predict(X))
    np.testing.assert_array_equal(labels[scores.argmax(axis=1)], found)
    np.testing.assert_array_equal(labels, sorted(set(NAMES)))
    again = srf.HDF5Source("found.h5", x="scores", y="y")  # one may learn from them
    np.testing.assert_array_equal(np.concatenate([b.y for b in again.blocks()]), found)


def test_scores_are_those_of_the_model():
    told("predict", "m.h5", "data.h5", "--output", "found.h5", "--scores")
    with h5py.File("found.h5") as file:
        scores = file["scores"][:]
    wanted = srf.load_model("m.h5").decision_function(X)
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=1e-9)  # one block or several


def test_two_classes_have_two_scores():
    with h5py.File("two.h5", "w") as file:
        file["X"], file["y"] = X, Y > 4
    told("fit", "two.h5", *SMALL, "--model", "new.h5")
    told("predict", "new.h5", "two.h5", "--output", "found.h5", "--scores")
    with h5py.File("found.h5") as file:
        assert (file["y"].dtype, file["scores"].shape) == (bool, (900, 2))
        np.testing.assert_array_equal(file["scores"][:].argmax(axis=1), file["y"])


def test_regression():
    tested = answer("evaluate", "values.h5", "data.h5", "--y", "values")
    assert (tested["n_rows"], tested["n_rows_skipped"]) == (900, 0)
    assert tested["r2"] > 0.9
    told("predict", "values.h5", "data.h5", "--output", "found.h5")
    with h5py.File("found.h5") as file:
        root = np.sqrt(np.mean((file["y"][:] - VALUES) ** 2))
    assert root == pytest.approx(tested["rmse"])
    assert re.search(r"RMSE .*\nMAE .*\nR2 ", told("evaluate", "values.h5", "data.h5", "--y",
                                                   "values"))  # fmt: skip


def test_the_error_of_values_held_out_is_told_as_evaluate_tells_it():
    words = ("fit", "data.h5", *SMALL, "--y", "values", "--regression", "--model", "v.h5")
    found = answer(*words)
    mean_square = min(found["alphas"], key=lambda tried: abs(tried[0] - found["alpha"]))[1]
    assert found["mse_held_out"] == mean_square
    assert found["rmse_held_out"] == pytest.approx(mean_square**0.5)
    assert f"rows held out: RMSE {mean_square**0.5:.6g}\n" in told(*words)
    classes = answer("fit", "data.h5", *SMALL, "--model", "m2.h5")
    assert classes["rmse_held_out"] is None
    assert 0 <= classes["error_held_out"] <= 1


def test_several_targets():
    with h5py.File("many.h5", "w") as file:
        file["X"], file["y"] = X, X[:, 2:5].astype(float)
    assert answer("fit", "many.h5", *SMALL, "--regression", "--model", "new.h5")["n_targets"] == 3
    told("predict", "new.h5", "many.h5", "--output", "found.h5")
    with h5py.File("found.h5") as file:
        np.testing.assert_array_equal(file["y"], srf.load_model("new.h5").predict(X))


def test_weights_count_a_row_as_often():
    """Weight 2 of the digit 3 is as good as writing these rows twice."""
    threes = np.flatnonzero(Y == 3)
    rows = np.concatenate((np.arange(900), threes))
    with h5py.File("twice.h5", "w") as file:
        file["X"], file["y"] = X[rows], Y[rows]
    weighted = answer("evaluate", "m.h5", "data.h5", "--weights", "w")
    repeated = answer("evaluate", "m.h5", "twice.h5")
    assert weighted["error"] == pytest.approx(repeated["error"])
    assert weighted["n_rows"] == 900

    fit = ("fit", *SMALL, "--precision", "float64", "--alpha", "0.1", "--model", "new.h5")
    told(*fit, "data.h5", "--weights", "w")
    model = srf.load_model("new.h5")
    told(*fit, "twice.h5")
    # Two calibrations, so rounding differs; float64 sums of 900 rows agree to far more than 1e-6.
    np.testing.assert_allclose(
        model.decision_function(X), srf.load_model("new.h5").decision_function(X), atol=1e-6
    )


def test_files_and_patterns_are_one_source():
    fit = ("fit", *SMALL, "--statistics", "sums.h5")
    grams = []
    for data in (["data.h5"], ["part0.h5", "part1.h5"], ["part?.h5"]):
        answer(*fit, *data)
        grams.append(srf.load_statistics("sums.h5").gram.tobytes())
    assert grams[0] == grams[1] == grams[2]
    assert answer("evaluate", "m.h5", "part*.h5")["n_rows"] == 900
    told("predict", "m.h5", "part1.h5", "part0.h5", "--output", "found.h5")
    with h5py.File("found.h5") as file:
        wanted = srf.load_model("m.h5").predict(np.concatenate((X[400:], X[:400])))
        np.testing.assert_array_equal(file["y"], wanted)


def test_other_weights_of_classes_than_those_of_like_are_told():
    """They were added in silence."""
    answer("fit", "part0.h5", *SMALL, "--class-weight", "0=5,1=2", "--statistics", "a.h5")
    words = ("fit", "part1.h5", "--like", "a.h5", "--statistics", "b.h5", "--class-weight")
    answer(*words, "0=5,1=2")
    done = streamrf(*words, "0=2,1=5")
    assert done.exit_code == 0
    assert "those of like= (--like) were not weighed by this one; give both" in done.stderr


def test_statistics_alone_and_like():
    first = answer("fit", "part0.h5", *SMALL, "--statistics", "a.h5")
    assert (first["model"], first["alpha"], first["alphas"]) == (None, None, [])
    assert first["n_rows_held_out"] == 0
    answer("fit", "part1.h5", "--like", "a.h5", "--statistics", "b.h5", "--model", "new.h5")
    both = srf.load_statistics("a.h5") + srf.load_statistics("b.h5")
    assert both.n_rows == 900
    assert answer("evaluate", "new.h5", "data.h5")["error"] < 0.2


def test_the_sums_are_kept_when_they_cannot_be_solved():
    line = refused("fit", "data.h5", "--y", "constant", *SMALL, "--model", "new.h5",
                   "--statistics", "sums.h5")  # fmt: skip
    assert "at least two classes" in line
    assert line.endswith("; sums.h5 was written")
    assert srf.load_statistics("sums.h5").n_rows == 900
    assert not os.path.exists("new.h5")


def test_control_characters_of_names_in_files_are_shown_and_not_obeyed():
    names = np.array(["\x1b[2Ja", "b\r\n\tc"])
    rows = np.random.default_rng(0).normal(size=(40, 2))
    source = srf.ArraySource(rows, names[np.arange(40) % 2])
    sums = srf.accumulate(source, srf.RandomFourier(n_components=4))
    sums.ledger.names = dict.fromkeys(sums.ledger.names, "\x1b]0;x\x07\u202ename")
    sums.save("s.h5")
    for words in (("info", "s.h5"), ("stats", "info", "s.h5")):
        text = told(*words)
        assert text.replace("\n", "").isprintable()
        assert all(part in text for part in (r"\x1b[2Ja", r"b\r\n\tc", r"\x1b]0;x\x07\u202ename"))
    assert answer("info", "s.h5")["labels"] == names.tolist()
    assert r"\x1b]0;x\x07" in refused("stats", "merge", "s.h5", "s.h5", "-o", "t.h5")


def test_skipped_rows_are_counted_and_told():
    done = streamrf("fit", "data.h5", "--x", "spoilt", *SMALL, "--on-bad-rows", "skip",
                    "--statistics", "sums.h5", "--json")  # fmt: skip
    assert done.exit_code == 0
    assert json.loads(done.stdout)["n_rows_skipped"] == 2
    assert done.stderr == (
        "streamrf: warning: 2 rows were left out: they hold NaN, infinity, values beyond 1e150 or "
        "negative weights\n"
    )
    assert "2 rows" in told("info", "sums.h5")
    done = streamrf("evaluate", "m.h5", "data.h5", "--x", "spoilt", "--on-bad-rows", "skip",
                    "--json")  # fmt: skip
    assert (json.loads(done.stdout)["n_rows"], json.loads(done.stdout)["n_rows_skipped"]) == (
        898,
        2,
    )
    assert "warning: 2 rows were left out" in done.stderr


def test_a_command_advises_only_what_it_has():
    table = ", or train on a table (CSV, a pandas frame), where missing values are filled in"
    advice = "leave such rows out where there is on_bad_rows='skip' (--on-bad-rows skip)" + table
    assert refused("evaluate", "m.h5", "data.h5", "--x", "spoilt").endswith(advice)
    line = refused("predict", "m.h5", "data.h5", "--x", "spoilt", "--output", "p.h5")
    assert line.endswith("clean the data" + table)


def test_info_shows_numbers_that_were_learnt():
    answer("fit", "data.h5", "--kernel", "gaussian", "--gamma", "scale", "--components", "64",
           "--statistics", "learnt.h5")  # fmt: skip
    gamma = srf.load_statistics("learnt.h5").encoder.features.kernel_.gamma
    text = told("info", "learnt.h5")
    assert f"Gaussian(gamma={gamma:.4g})" in text
    assert "scale" not in text


def test_clipped_entries_are_counted_and_told():
    answer("fit", "data.h5", "--map", "maclaurin", "--components", "80", "--statistics", "a.h5")
    done = streamrf("fit", "data.h5", "--x", "wild", "--like", "a.h5", "--statistics", "b.h5",
                    "--json")  # fmt: skip
    assert done.exit_code == 0
    assert json.loads(done.stdout)["n_entries_clipped"] > 0
    assert re.search(
        r"^streamrf: warning: [\d,]+ entries of features \(\S+ %\) were clipped(, which cuts "
        r"[\d.]+ % off .*)?: some rows are unlike the rows looked at before the pass; "
        r".*--normalize.*shuffle.*--like$",
        done.stderr,
        re.MULTILINE,
    )


def test_info_of_a_model():
    found = answer("info", "m.h5")
    assert (found["kind"], found["bytes"]) == ("model", os.path.getsize("m.h5"))
    assert found["kernel"]["class"] == "Polynomial"
    assert found["kernel"]["degree"] == 2
    assert found["map"]["class"] == "RandomMaclaurin"
    assert (found["map"]["n_components"], found["map"]["h01"]) == (100, True)
    assert (found["n_features"], found["n_components"], found["n_rows"]) == (64, 100, 900)
    assert (found["normalize"], found["precision"]) == ("l2", "exact")
    assert found["labels"] == list(range(10))
    assert found["codes"] == {"n_bits": 10, "minimum_distance": 2, "decode": "euclidean"}
    text = told("info", "m.h5")
    assert "RandomMaclaurin(" in text
    assert re.search(r"classes +10: 0, 1, 2", text)
    assert re.search(r"targets +1\n", told("info", "values.h5"))


@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet"])
def test_info_of_a_model_by_the_name_of_data(ending, tmp_path):
    shutil.copy("m.h5", name := str(tmp_path / f"model{ending}"))
    assert answer("info", name)["kind"] == "model"
    with open(name, "r+b") as file:
        file.truncate(3000)
    assert "is cut short" in refused("info", name)
    if ending == ".csv":
        Path(name).write_text("streamrf 2.5 speed,b\n1,2\n3,4\n")
        assert answer("info", name)["n_rows"] == 2


def test_info_of_statistics():
    found = answer("info", "s.h5")
    assert found["kind"] == "statistics"
    assert (found["n_rows"], found["n_rows_skipped"], found["n_entries_clipped"]) == (900, 0, 0)
    assert [store["ranges"] for store in found["stores"]] == [[[0, 900]]]
    assert re.search(r"counted +rows 0 to 899 of .*data.h5", told("info", "s.h5"))


def test_info_of_a_checkpoint():
    small = ("--map", "tree-sketch", "--components", "16", "--checkpoint", "run.checkpoint")
    told("fit", "data.h5", *small, "--statistics", "small.h5")
    found = answer("info", "run.checkpoint")
    assert (found["kind"], found["n_rows"]) == ("checkpoint", 900)
    assert re.search(r"counted +900 rows so far\n *of +data.h5", told("info", "run.checkpoint"))


@pytest.mark.parametrize("userblock", [0, 512])  # MATLAB begins its files with 512 bytes of its own
def test_info_of_a_data_file(userblock):
    with h5py.File("other.h5", "w", userblock_size=userblock) as file:
        file.create_dataset("a/X", data=np.zeros((30, 4), np.float32), chunks=(10, 4))
        file["words"] = ["a", "b"]
        file["one"] = 3
        file["none"] = h5py.Empty("f4")
    found = answer("info", "other.h5")
    assert found["kind"] == "data"
    datasets = {dataset.pop("name"): dataset for dataset in found["datasets"]}
    assert datasets["a/X"] == {
        "shape": [30, 4], "dtype": "float32", "chunks": [10, 4], "compression": None
    }  # fmt: skip
    assert (datasets["words"]["dtype"], datasets["words"]["chunks"]) == ("string", None)
    assert (datasets["one"]["shape"], datasets["none"]["shape"]) == ([], None)
    assert re.search(r"a/X +30 x 4, float32, chunks of 10 x 4\n", told("info", "other.h5"))


def test_people_are_told_the_same_in_words():
    text = told("fit", "data.h5", *SMALL, "--model", "new.h5")
    assert re.search(r"rows +900 of 64 columns \(data.h5, dataset 'X'\)\n", text)
    assert re.search(r"alpha .*, chosen among \d+ on \d+ rows held out: error \d+\.\d\d %\n", text)
    assert re.search(r"time .* rows/s\nwritten +new.h5\n$", text)
    assert re.search(r"error +\d+\.\d\d %\nmostly +\d taken for \d \(", told(
        "evaluate", "m.h5", "data.h5"))  # fmt: skip


def test_the_memory_plan_and_threads_are_obeyed():
    told("fit", "data.h5", *SMALL, "--memory-limit", "2 GiB", "--threads", "2", "--statistics",
         "a.h5")  # fmt: skip
    told("fit", "data.h5", *SMALL, "--threads", "1", "--statistics", "b.h5")
    one, two = srf.load_statistics("a.h5"), srf.load_statistics("b.h5")
    assert one.gram.tobytes() == two.gram.tobytes()
    line = refused("fit", "data.h5", *SMALL, "--memory-limit", "100MB", "--statistics", "c.h5")
    assert "100 components need about" in line
    assert "above the memory limit of 95.37 MiB" in line


# Bad input: one line, status 1, nothing written


MODEL = ("--model", "new.h5")
FIT = ("fit", "data.h5", *SMALL, *MODEL)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("fit", "dota.h5", *MODEL), ["no file 'dota.h5'", "near names there: ['data.h5'"]),
        (("fit", "qqqq.h5", *MODEL), ["no file 'qqqq.h5'", "; it has ['", "data.h5'"]),
        (("fit", "no*.h5", *MODEL), ["no file matches 'no*.h5'"]),
        (
            ("fit", "m.txt", *MODEL),
            ["m.txt is of no known format: its ending '.txt' is none of .h5,"],
        ),
        (("fit", "cut.h5", *MODEL), ["cut.h5 cannot be opened", "truncated"]),
        (("fit", "hole.h5", *SMALL, *MODEL), ["hole.h5, dataset 'X': rows", "cannot be read"]),
        (
            (*FIT, "--x", "Z"),
            ["data.h5 has no dataset 'Z'; it has ['X',", "; name it with x= (--x)"],
        ),
        (
            (*FIT, "--y", "Z"),
            ["data.h5 has no dataset 'Z'; it has ['X',", "; name it with y= (--y)"],
        ),
        ((*FIT, "--weights", "Z"), ["no dataset 'Z'", "; name it with weights= (--weights)"]),
        ((*FIT, "--x", "/"), ["'/' is a group, not a dataset; it has", "; name it with x= (--x)"]),
        ((*FIT, "--x", "y"), ["column 'y' is asked for both as X and as target"]),
        ((*FIT, "--y", "short"), ["dataset 'short' has 100 rows but X has 900"]),
        ((*FIT, "--weights", "X"), ["dataset 'X' has shape (900, 64)", "one weight a row"]),
        ((*FIT, "--x", "spoilt"), ["dataset 'spoilt', row 17: column 5 is NaN", "clean the data"]),
        ((*FIT, "--x", "norows", "--y", "norows"), ["0 rows; expected at least 1"]),
        ((*FIT, "--y", "constant"), ["at least two classes, got 1 class"]),
        (
            (*FIT, "--y", "values", "--task", "classification"),
            [f"targets such as {VALUES[VALUES % 1 > 0][0]} are not class labels", "--regression"],
        ),
        (
            (*FIT, "--y", "names", "--regression"),
            ["'Ziffer 0' is a text, not a number", "--regression"],
        ),
        ((*FIT, "--x", "huge", "--normalize", "none"), ["the features overflow", "normalize='l2'"]),
        ((*FIT, "--alpha", "-1"), ["--alpha must be 'auto' or a number of at least 0, got -1.0"]),
        ((*FIT, "--degree", "0"), ["--degree must be an integer above 0, got 0"]),
        ((*FIT, "--p", "1"), ["p must be above 1, got 1.0"]),
        ((*FIT, "--components", "60"), ["65 exact terms", "n_components must be more than 65"]),
        (
            ("fit", "data.h5", "--components", "50", "--up-components", "60", *MODEL),
            ["65 exact terms", "n_components must be more than 65, got 60"],
        ),
        (
            (*FIT, "--map", "craft-maclaurin", "--up-components", "90"),
            ["Craft goes down from", "90"],
        ),
        ((*FIT, "--prune", "101"), ["--prune must be an integer from 1 to 100, got 101"]),
        ((*FIT, "--memory-limit", "little"), ["--memory-limit must be bytes or", "got 'little'"]),
        ((*FIT, "--memory-limit", "1e400"), ["--memory-limit must be bytes or", "got '1e400'"]),
        ((*FIT, "--codes", "error-correcting", "--bits", "2"), ["n_bits=2 cannot tell 10 classes"]),
        (
            ("fit", "data.h5", "data.h5", "--alpha", "1", *SMALL, *MODEL),
            ["rows 0 to 899 of data.h5", "twice"],
        ),
        (
            ("fit", "data.h5", "--like", "m.h5", *MODEL),
            ["m.h5 holds a model, not statistics; give the file of streamrf fit --statistics"],
        ),
        (("fit", "data.h5", "--like", "no.h5", *MODEL), ["no file no.h5"]),
        (("fit", "data.h5", "--x", "narrow", "--like", "s.h5", *MODEL), ["has 9 features, but"]),
        (
            ("fit", "data.h5", "--like", "s.h5", "--regression", "--y", "values", *MODEL),
            ["--like s.h5 holds sums of classes, not of values; leave out --regression"],
        ),
        (
            ("fit", "data.h5", "--like", "s.h5", "--class-weight", "balanced", *MODEL),
            ["(--class-weight) gives weights to the rows, and those of like= (--like) have none"],
        ),
        (
            (*FIT, "--class-weight", ",".join(f"{digit}=0" for digit in range(10))),
            ["there are no rows, or all their weights are zero"],
        ),
        (("evaluate", "no.h5", "data.h5"), ["no file no.h5"]),
        (
            ("evaluate", "values.h5", "data.h5", "--y", "values", "--return-std"),
            ["solve its statistics", "streamrf solve --uncertainty"],
        ),
        (("evaluate", "data.h5", "data.h5"), ["data.h5 is an HDF5 file but not one of streamrf"]),
        (
            ("evaluate", "s.h5", "data.h5"),
            ["s.h5 holds statistics, not a model; give the file of streamrf fit or solve --model"],
        ),
        (
            ("fit", "data.h5", "--checkpoint", "m.h5", *MODEL),
            ["m.h5 holds a model, not a checkpoint"],
        ),
        (("evaluate", "cutmodel.h5", "data.h5"), ["cutmodel.h5 is cut short"]),
        (("evaluate", "badmodel.h5", "data.h5"), ["badmodel.h5 is damaged", "SHA-256"]),
        (("evaluate", "m.txt", "data.h5"), ["m.txt is no file of streamrf"]),
        (("evaluate", "m.h5", "data.h5", "--x", "narrow"), ["'narrow' has 9 features", "on 64"]),
        (("evaluate", "m.h5", "data.h5", "--y", "odd"), ["label 10 is none that the model knows"]),
        (
            ("evaluate", "m.h5", "data.h5", "--y", "names"),
            ["label 'Ziffer 0' is none that the model"],
        ),
        (("evaluate", "values.h5", "data.h5", "--y", "names"), ["strings as targets"]),
        (("evaluate", "m.h5", "data.h5", "--x", "spoilt"), ["'spoilt', row 17: column 5 is NaN"]),
        (("predict", "m.h5", "data.h5", "--x", "narrow", "--output", "p.h5"), ["9 features"]),
        (("predict", "m.h5", "data.h5", "--x", "spoilt", "--output", "p.h5"), ["row 17"]),
        (("predict", "m.h5", "hole.h5", "--output", "p.h5"), ["hole.h5, dataset 'X': rows"]),
        (
            ("predict", "values.h5", "data.h5", "--output", "p.h5", "--scores"),
            ["values.h5 gives values, not classes, and has no --scores"],
        ),
        (("info", "no.h5"), ["no file no.h5"]),
        (("info", "m.txt"), ["m.txt is no file of streamrf"]),
        (("info", "cut.h5"), ["cut.h5 cannot be opened as an HDF5 file"]),
        (("info", "cutmodel.h5"), ["cutmodel.h5 is cut short"]),
        (("info", "."), [". is no regular file"]),
        (("info", "pipe"), ["pipe is no regular file"]),
    ],
)
def test_bad_input_gets_one_line(arguments, parts, folder, files):
    Path("m.txt").write_text("no model\n")
    Path("cutmodel.h5").write_bytes(Path("m.h5").read_bytes()[:9000])
    damage = bytearray(Path("m.h5").read_bytes())
    damage[20000] ^= 1
    Path("badmodel.h5").write_bytes(damage)
    Path("cut.h5").write_bytes(Path("data.h5").read_bytes()[:20000])
    Path("hole.h5").write_bytes(holed("data.h5"))
    os.mkfifo("pipe")
    before = left_behind(folder, files)
    line = refused(*arguments)
    assert re.search(".*".join(map(re.escape, parts)), line), line
    assert left_behind(folder, files) == before


def holed(path) -> bytes:
    """Give the bytes of a data file with zeros in the middle of a chunk of X."""
    with h5py.File(path) as file:
        chunk = file["X"].id.get_chunk_info(3)
    content = bytearray(Path(path).read_bytes())
    middle = chunk.byte_offset + chunk.size // 2
    content[middle : middle + 64] = bytes(64)
    return bytes(content)


@pytest.mark.parametrize(
    ("option", "path", "message"),
    [
        ("--model", "no/new.h5", "--model no/new.h5: there is no folder /"),
        ("--statistics", ".", "--statistics . exists and is no regular file"),
        ("--model", "data.h5", "--model data.h5 is read from too; choose another name"),
        ("--model", "link.h5", "--model link.h5 is read from too; choose another name"),
        ("--statistics", "./new.h5", "--statistics ./new.h5 is written to too"),
        ("--model", "pipe", "--model pipe exists and is no regular file"),
        ("--model", "", "--model '' is empty; expected the name of a file"),
        ("--model", "new/", "--model new/ is the name of a folder; expected that of a file"),
        ("--model", "~/a/new.h5", "--model ~/a/new.h5: ~ is not expanded here; write $HOME"),
        ("--checkpoint", 256 * "m", f"--checkpoint {256 * 'm'} is longer than names of files are"),
    ],
)
def test_outputs_are_checked_before_the_data_are_read(option, path, message, monkeypatch):
    monkeypatch.setattr(groups, "open_files", lambda *args, **kwargs: pytest.fail("was read"))
    os.symlink("data.h5", "link.h5")
    os.mkfifo("pipe")
    assert refused("fit", "da*.h5", *SMALL, "--model", "new.h5", option, path).startswith(message)


def test_a_folder_that_is_gone_is_told(folder):
    (folder / "gone").mkdir()
    os.chdir(folder / "gone")
    (folder / "gone").rmdir()
    line = refused("evaluate", folder / "m.h5", "data.h5")
    assert line == "the folder that this runs in has been deleted; change to another"


def test_what_the_system_says_is_told_without_its_number(monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(27, "File too large")

    monkeypatch.setattr(groups, "open_files", fail)
    assert refused(*FIT) == "a file could not be read or written: File too large"


@pytest.mark.parametrize("reason", ["Unable to allocate 7.69 MiB", ""])
def test_a_machine_out_of_memory_is_one_sentence(reason, monkeypatch):
    def fail(*args, **kwargs):
        raise MemoryError(*filter(None, [reason]))

    monkeypatch.setattr(groups, "open_files", fail)
    told = f"out of memory: {reason or 'none is left'}; free some, or ask for less"
    assert refused("fit", "data.h5", *SMALL, "--model", "new.h5") == told


def test_what_statistics_are_like_is_not_overwritten():
    before = Path("s.h5").read_bytes()
    assert "is read from too" in refused("fit", "data.h5", "--like", "s.h5", "--statistics", "s.h5")
    assert "is read from too" in refused("predict", "m.h5", "data.h5", "--output", "m.h5")
    assert "is read from too" in refused("predict", "m.h5", "data.h5", "--output", "data.h5")
    assert Path("s.h5").read_bytes() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_the_right_to_write():
    os.mkdir("locked", mode=0o555)
    assert "no right to write in the folder" in refused(*FIT, "--model", "locked/new.h5")


def test_a_disk_without_room_is_known_before_the_pass(monkeypatch):
    monkeypatch.setattr(
        checks.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 9000})
    )
    monkeypatch.setattr(fitting.Job, "fold", lambda *args: pytest.fail("was read"))
    line = refused("fit", "data.h5", *SMALL, "--statistics", "new.h5")
    assert line.startswith("new.h5 will need 51.01 kiB and its disk has 8.79 kiB free; make room")


def test_an_error_leaves_earlier_outputs_alone(folder, files):
    for path in ("new.h5", "p.h5"):
        Path(path).write_text("earlier")
    refused(*FIT, "--x", "spoilt")
    refused("predict", "m.h5", "data.h5", "--x", "spoilt", "--output", "p.h5")
    assert Path("new.h5").read_text() == Path("p.h5").read_text() == "earlier"
    assert left_behind(folder, files) == {"new.h5", "p.h5"}


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("fit",), ["Missing argument"]),
        (("fit", "data.h5"), ["--model", "give --model, --statistics or both"]),
        (("fit", "data.h5", "--block-weights", "auto"), ["--model", "give --model, or the pass"]),
        (("fit", "data.h5", "--prune", "9"), ["--model", "give --model, or the pass is for"]),
        (
            ("fit", "data.h5", "--prune", "9", "--statistics", "sums.h5"),
            ["--prune", "is for a mod"],
        ),
        ((*FIT, "--nonsense"), ["No such option"]),
        ((*FIT, "--degree", "x"), ["--degree", "valid integer"]),
        ((*FIT, "--alpha", "x"), ["--alpha", "'x' is neither auto nor a number"]),
        ((*FIT, "--map", "nystrom"), ["--map", "'nystrom' is not one of ", "mean nystroem?"]),
        ((*FIT, "--on-bad-rows", "drop"), ["--on-bad-rows", "'drop' is not one of raise, skip"]),
        ((*FIT[:2], "--map", "additive-sampler", "--components", "9", *MODEL), ["--components"]),
        ((*FIT, "--up-components", "900"), ["--up-components", "is for --map craft-maclaurin"]),
        ((*FIT, "--codes", "error-correcting"), ["--bits", "needs --bits"]),
        ((*FIT, "--bits", "30"), ["--bits", "is no setting of --codes one-vs-rest"]),
        (
            (*FIT, "--codes", "one-vs-rest", "--regression"),
            ["--codes", "leave them out with"],
        ),
        ((*FIT, "--like", "s.h5"), ["--like", "leave out --map, --degree, --components, --norm"]),
        ((*FIT, "--threads", "0"), ["--threads"]),
        (
            (*FIT, "--checkpoint-every", "5s"),
            ["--checkpoint-every", "is for --checkpoint; give"],
        ),
        ((*FIT, "--max-passes", "3"), ["--max-passes", "is for --loss squared_hinge or logistic"]),
        (
            (*FIT, "--loss", "logistic", "--max-passes", "1"),
            ["--max-passes", "--loss logistic takes 2 passes or more, got 1"],
        ),
        ((*FIT, "--warp", "none", "--warp-rounds", "3"), ["--warp-rounds", "is for a warp"]),
        ((*FIT, "--class-weight", "0=1,0=5"), ["--class-weight", "'0' is given two weights"]),
        ((*FIT, "--seed", "-1"), ["--seed"]),
        (("evaluate", "m.h5"), ["Missing argument"]),
        (("evaluate", "m.h5", "data.h5", "--on-bad-rows", "x"), ["'x' is not one of raise, skip"]),
        (("predict", "m.h5", "data.h5"), ["Missing option '--output'"]),
        (("trian",), ["No such command 'trian'"]),
    ],
)
def test_wrong_usage(arguments, parts, folder, files):
    text = misused(*arguments)
    assert re.search(".*".join(map(re.escape, parts)), text), text
    assert not left_behind(folder, files)


# How it ends


def test_status_and_streams_of_the_program():
    done = run("evaluate", "m.h5", "data.h5", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["n_rows"] == 900
    done = run("evaluate", "m.h5", "no.h5")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert run("evaluate").returncode == 2


def test_version_and_help():
    assert streamrf("--version").stdout == f"streamrf {srf.__version__}\n"
    text = streamrf("--help").stdout
    for name in ("fit", "evaluate", "predict", "info", "demo"):
        assert name in text
        assert streamrf(name, "--help").exit_code == 0


def test_an_error_that_was_not_foreseen_keeps_its_traceback(monkeypatch):
    class OddError(Exception):
        pass

    def breaks(*args, **kwargs):
        raise OddError("odd")

    monkeypatch.setattr(fitting, "begin", breaks)
    with pytest.raises(OddError, match="odd"):
        streamrf(*FIT)


def test_numbers_that_json_does_not_have_become_null(capsys):
    figures = {"a": [float("nan"), 1.5], "b": {"c": float("-inf")}, "d": (2, "NaN")}
    base.answering(lambda: base.Answer(figures, []))(as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "a": [None, 1.5], "b": {"c": None}, "d": [2, "NaN"]
    }  # fmt: skip


def test_a_reader_that_leaves_is_no_error():
    program = start("info", "data.h5", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    program.stdout.close()
    assert program.stderr.read() == ""
    assert program.wait(60) == 0
    program.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a file of Linux")
def test_an_answer_that_cannot_be_printed_is_an_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("info", "data.h5"), env=environment(), stdout=full, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == ("streamrf: cannot write to standard output: No space left on device\n")


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
sys.argv[0] = "streamrf"
from streamrf.cli import main
main()
"""


@pytest.mark.parametrize(
    "arguments",
    [
        (*FIT, "--alpha", "1"),
        ("predict", "m.h5", "data.h5", "--output", "new.h5"),
    ],
)
def test_a_full_disk_is_one_line(arguments, folder, files):
    """A limit on the size of files stands for the disk; the compiled loops are in the cache."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *arguments],
        env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(r"streamrf: cannot write new.h5: File too large.*\n", done.stderr)
    assert not left_behind(folder, files)


class Terminal:
    """A program whose standard error is a terminal."""

    def __init__(self, *arguments):
        self._master, slave = pty.openpty()
        self.program = start(*arguments, stdout=subprocess.PIPE, stderr=slave)
        os.close(slave)
        self.shown = ""

    def read_until(self, pattern, seconds=120):
        """Read what is shown until it matches, or to the end where there is no pattern."""
        end = time.monotonic() + seconds
        while pattern is None or not re.search(pattern, self.shown):
            assert time.monotonic() < end, self.shown
            try:
                piece = os.read(self._master, 4096)
            except OSError:  # the program has closed its side
                piece = b""
            if not piece:
                assert pattern is None, self.shown
                break
            self.shown += piece.decode()

    def close(self):
        """Read to the end and give the exit status and standard output."""
        self.read_until(None)
        out = self.program.stdout.read()
        self.program.stdout.close()
        os.close(self._master)
        return self.program.wait(60), out


@pytest.fixture
def long_run():
    """Words for a fit that takes minutes."""
    rng = np.random.default_rng(0)
    with h5py.File("long.h5", "w") as file:
        file["X"] = np.tile(rng.integers(0, 255, (2000, 64), dtype=np.uint8), (200, 1))
        file["y"] = np.tile(np.arange(2000) % 10, 200)
    return ("fit", "long.h5", "--map", "maclaurin", "--components", "3000", "--normalize", "l2")


def test_ctrl_c_in_a_fit(long_run, folder, files):
    outputs = ("--model", "new.h5", "--statistics", "sums.h5")
    terminal = Terminal(*long_run, *outputs)
    terminal.read_until(r"reading.*[1-9][\d,]* of 400,000 rows, [\d,]+ rows/s, [\d:]+ left")
    assert left_behind(folder, files) == {"long.h5"}
    terminal.program.send_signal(signal.SIGINT)
    status, out = terminal.close()
    assert (status, out) == (130, "")
    last = terminal.shown.replace("\r", "").splitlines()[-1]
    assert last.endswith("streamrf: interrupted; nothing was written")
    assert "Traceback" not in terminal.shown
    assert left_behind(folder, files) == {"long.h5"}


def test_ctrl_c_waits_until_llvm_has_its_code(monkeypatch):
    """An exception in what LLVM calls is lost, and so is the code, whose use ends the process."""
    names = {"interrupt": base._interrupt, "signal": signal}
    exec(
        "def _raw_object_cache_getbuffer():\n"
        "    interrupt(signal.SIGINT, __import__('sys')._getframe())\n"
        "    return 'code'",
        names,
    )
    sent = threading.Event()
    monkeypatch.setattr(base.os, "kill", lambda *_: sent.set())
    assert names["_raw_object_cache_getbuffer"]() == "code"
    assert sent.wait(10)
    with pytest.raises(KeyboardInterrupt):
        base._interrupt(signal.SIGINT, sys._getframe())


def test_what_another_run_writes_is_not_said_to_be_ours(monkeypatch):
    def refuse(*arguments):
        Path("run.checkpoint").write_text("of another run")
        raise CheckpointError("another run is writing it")

    monkeypatch.setattr(fitting, "begin", refuse)
    assert refused(*FIT, "--checkpoint", "run.checkpoint") == "another run is writing it"


def test_ctrl_c_tells_what_was_written(monkeypatch):
    def interrupted(self, path):
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting.Model, "save", interrupted)
    done = streamrf(*FIT, "--statistics", "sums.h5")
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr == "streamrf: interrupted; sums.h5 was written\n"
    monkeypatch.setattr(fitting, "begin", lambda *args, **kwargs: interrupted(None, None))
    assert streamrf(*FIT).stderr == "streamrf: interrupted; nothing was written\n"

    def importing(*args, **kwargs):
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr(fitting, "begin", importing)  # as compiled modules tell it
    done = streamrf(*FIT)
    assert (done.exit_code, done.stderr) == (130, "streamrf: interrupted\n")


@pytest.mark.parametrize(
    ("owner", "name", "told"),
    [
        ("typer.main", "get_command", "interrupted\n"),  # while Typer builds the commands
        ("streamrf.cli.help.Group", "resolve_command", "interrupted\n"),
        ("streamrf.cli.inspection", "load_model", "interrupted; nothing was written\n"),
    ],
)
def test_ctrl_c_ends_without_a_traceback_at_any_moment(owner, name, told, monkeypatch, capfd):
    monkeypatch.setattr(f"{owner}.{name}", lambda *a, **k: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(sys, "argv", ["streamrf", "info", "m.h5"])
    with pytest.raises(SystemExit) as end:
        base.main()
    assert end.value.code == 130
    assert capfd.readouterr() == ("", f"streamrf: {told}")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_bar_goes_away_and_leaves_the_answer():
    terminal = Terminal("evaluate", "m.h5", "data.h5", "--json")
    status, out = terminal.close()
    assert status == 0
    assert json.loads(out)["n_rows"] == 900


def test_what_is_told_stands_above_the_bar():
    terminal = Terminal("fit", "data.h5", *SMALL, "--workers", "1", "--model", "new.h5")
    status, _ = terminal.close()
    clear_line = "\r\x1b[2K"
    assert status == 0
    assert f"{clear_line}streamrf: 1 shard on 1 worker, which " in terminal.shown


FAT = """
import subprocess, sys
held = b"x" * 1_000_000_000
subprocess.run([sys.executable, "-m", "streamrf", *sys.argv[1:]], check=True)
"""


def test_the_peak_of_memory_is_of_the_program_itself():
    """Not what the process that started it held, which `ru_maxrss` counts."""
    arguments = ("fit", "data.h5", *SMALL, "--statistics", "sums.h5", "--json")
    done = subprocess.run(
        [sys.executable, "-c", FAT, *arguments], env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert 100_000_000 < json.loads(done.stdout)["peak_memory_bytes"] < 900_000_000


# The demonstration


def test_demo_and_its_commands():
    demo = answer("demo", "--folder", "there")
    assert demo["evaluate"]["error"] < 0.06
    assert demo["evaluate"]["n_rows"] == 597
    assert sorted(os.listdir("there")) == ["digits.h5", "digits.model.h5", "digits.stats.h5"]
    go, *commands = map(shlex.split, demo["commands"])
    assert go == ["cd", "there"]
    os.chdir("there")
    found = [answer(*words) for program, *words in commands if program == "streamrf"]
    assert [sorted(figures) for figures in found[:2]] == [
        sorted(demo["fit"]), sorted(demo["evaluate"])
    ]  # fmt: skip
    assert found[0]["alpha"] == demo["fit"]["alpha"]
    assert found[1]["error"] == demo["evaluate"]["error"]
    assert found[2]["n_rows"] == 1200


def test_demo_tells_a_person():
    text = told("demo", "--folder", "with space")
    assert re.search(r"trained +1,200 rows, 1,024 features, ", text)
    assert re.search(r"tested +597 rows, error \d\.\d\d %\n", text)
    assert "streamrf.load_statistics('with space/digits.stats.h5')" in text
    words = text[text.index("cd 'with space'") :].replace("\\\n", " ").splitlines()
    assert [shlex.split(line)[:2] for line in words] == [
        ["cd", "with space"], ["streamrf", "fit"], ["streamrf", "evaluate"], ["streamrf", "info"]
    ]  # fmt: skip
    assert max(map(len, text.splitlines())) <= 100
