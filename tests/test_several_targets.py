"""Targets of HDF5 files that are a dataset each, and datasets that a model knows by their width."""

import json

import h5py
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import streamrf as srf
from integers import assert_same_bytes
from streamrf.cli import app
from streamrf.errors import (
    DataError,
    DatasetNotFoundError,
    ParameterError,
    ShapeError,
    StreamrfWarning,
)
from streamrf.sources import open_files

N = 5000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype(np.float32)
WIND, RAIN = X[:, 0] * 3, (X[:, 1] ** 2 * 1000).astype(np.float64)
MAP = srf.RandomFourier(srf.Gaussian(0.3), 16, random_state=0)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["spectra"], file["both"] = X, np.stack([WIND, RAIN], axis=1)
        file["wind"] = WIND
        file.create_dataset("rain", data=RAIN, chunks=(700,), compression="gzip")
        file["group/small"], file["short"] = (X[:, 2] > 0).astype(np.int8), WIND[:-1]
        file["name"], file["wind,"] = np.array([b"a"] * N), -WIND
        file["wind1"], file["row"], file["scalar"] = WIND[:, None], WIND[None], 3.0
        file["wind,rain"], file["rows"] = RAIN, X[:, :3].astype(float)
        file["kind"] = (X[:, 3] > 0).astype(int)
    return path


@pytest.mark.parametrize(
    "y", ["wind, rain", ["wind", "rain"], ["wind1", "rain"], ["row.T", "rain"], "row.T,rain"]
)
def test_several_datasets_are_the_columns_of_one(path, y):
    several, whole = (srf.open_source(path, "spectra", names) for names in (y, "both"))
    assert several.target_names in {("wind", "rain"), ("wind1", "rain"), ("row", "rain")}
    for some, all_ in zip(
        several.blocks(block_rows=900), whole.blocks(block_rows=900), strict=True
    ):
        np.testing.assert_array_equal(some.y, all_.y)
    ours, theirs = (srf.accumulate(s, MAP, regression=True) for s in (several, whole))
    assert_same_bytes(ours.sums.to_tree(), theirs.sums.to_tree())
    np.testing.assert_array_equal(several.known_targets[0], np.stack([WIND, RAIN], axis=1))


def test_targets_are_the_same_however_they_are_written(path):
    written = ("wind,rain2", "wind, rain2", ["wind", "rain2"])
    with h5py.File(path, "a") as file:
        file["rain2"] = RAIN
    one, *others = (srf.HDF5Source(path, "spectra", y).settings for y in written)
    assert others == [one, one]


def test_they_are_read_from_any_row_on_and_by_several_files(path):
    source = srf.HDF5Source([path, path], "spectra", "rain,group/small")
    (block,) = source.blocks(N + 10, N + 20)
    np.testing.assert_array_equal(block.y, np.stack([RAIN, X[:, 2] > 0], axis=1)[10:20])
    assert source.target_names == ("rain", "small")


def test_zeros_and_ones_that_have_names_are_no_classes_written_one_hot(tmp_path):
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["X"], file["a"], file["b"] = X, (X[:, 0] > 0) * 1.0, (X[:, 0] <= 0) * 1.0
        file["ab"] = np.stack([file["a"][:], file["b"][:]], axis=1)
    assert srf.HDF5Source(tmp_path / "b.h5", y="ab").is_one_hot
    assert not srf.HDF5Source(tmp_path / "b.h5", y="a,b").is_one_hot


def test_a_name_with_a_comma_is_one_dataset(path):
    np.testing.assert_array_equal(
        srf.HDF5Source(path, "spectra", "wind,rain").known_targets[0], RAIN
    )
    both = srf.open_source(path, "spectra", ["wind,rain", "wind,"])
    assert both.target_names == ("wind,rain", "wind,")
    np.testing.assert_array_equal(both.known_targets[0], np.stack([RAIN, -WIND], axis=1))
    source = srf.HDF5Source(path, "spectra", "wind,")
    np.testing.assert_array_equal(source.known_targets[0], -WIND)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        ("wind,storm", DatasetNotFoundError, "no dataset 'storm'"),
        ("wind,short", ShapeError, r"'short' is of shape \(4999,\)"),
        ("wind,both", ShapeError, r"'both' is of shape \(5000, 2\)"),
        ("wind,name", ShapeError, "'name' is of text"),
        ("wind,row", ShapeError, r"'row' is of shape \(1, 5000\)"),
        ("scalar,wind", ShapeError, r"'scalar' is of shape \(\)"),
        ("wind,wind", ParameterError, "name one dataset twice"),
        ("wind,/wind", ParameterError, "name one dataset twice"),
        (["wind", 3], ParameterError, "y of files is the name"),
    ],
)
def test_targets_that_are_none_are_told(path, y, error, message):
    with pytest.raises(error, match=message):
        srf.open_source(path, "spectra", y)


@pytest.mark.parametrize("names", [{"x": ["X"]}, {"y": ["wind", 3]}, {"y": []}, {"weights": 3}])
def test_a_dataset_is_named_by_text(path, names):
    (role,) = names
    with pytest.raises(ParameterError, match=f"{role} is the name of one dataset, as text"):
        srf.HDF5Source(path, **{"x": "spectra", "y": None} | names)


@pytest.mark.parametrize("weights", ["wind", "/wind"])
@pytest.mark.parametrize("y", ["wind, group/small", ["rain", "wind"]])
def test_targets_are_no_weights(path, y, weights):
    with pytest.raises(ParameterError, match="asked for both as targets and as weights"):
        srf.HDF5Source(path, "spectra", y, weights)


def test_a_dataset_with_a_comma_in_its_name_may_have_weights(path):
    assert srf.HDF5Source(path, "spectra", "wind,rain", "rows/0").has_weights
    assert srf.HDF5Source(path, "spectra", "wind,rain", "wind").has_weights


def test_columns_of_x_are_no_targets(path):
    with pytest.raises(ParameterError, match="would be in X, too"):
        srf.HDF5Source(path, "rows", ["rows/0", "wind"])


def test_of_targets_that_are_none_their_own_dataset_is_named(path):
    with pytest.raises(DataError, match=r"a\.h5, dataset 'wind': targets such as"):
        srf.RandomFeatureClassifier(MAP).fit(srf.HDF5Source(path, "spectra", "wind"))


def test_rows_of_a_model_are_those_of_its_width(path, caplog):
    with pytest.raises(DatasetNotFoundError, match="no dataset 'X'"):
        open_files(path)
    with caplog.at_level("INFO"):
        assert open_files(path, width=4).where.endswith("dataset 'spectra'")
    assert "X is the dataset 'spectra', the only one of 4 columns" in caplog.text
    assert open_files(path, y="wind", width=2).where.endswith("dataset 'both'")
    with pytest.raises(DatasetNotFoundError, match="no dataset 'X'"):
        open_files(path, width=5)


@pytest.mark.parametrize(
    ("others", "x"),
    [
        ({"centres": X[:5]}, "rows"),  # fewer rows are others
        ({"words": np.full((N, 4), b"a")}, "rows"),
        ({"rows2": X}, None),
        *[({name: X, "rows": X[:, :3]}, None) for name in ("y", "set/Targets", "labels", "W")],
        ({"image": np.ones((N, 3, 4)), "rows": X[:, :3]}, "image"),  # of bands
        ({"image": np.ones((N, 3, 4))}, None),
        ({"wide": np.ones((N + 1, 5))}, None),
        ({"image": np.ones((300, 3, 4)), "rows": X[:256], "more": X[:9, :2]}, "image"),
        ({"image": np.ones((200, 3, 4)), "rows": X[:256], "more": X[:9, :2]}, None),
        ({"table": np.zeros(N + 1, [("a", "f8"), ("b", "f8")])}, None),
    ],
)
def test_what_has_the_width_is_not_always_the_rows(tmp_path, others, x):
    with h5py.File(tmp_path / "b.h5", "w") as file:
        for name, values in ({"rows": X, "more": X[:, :2]} | others).items():
            file[name] = values
    if x is None:
        with pytest.raises(DatasetNotFoundError, match="no dataset 'X'"):
            open_files(tmp_path / "b.h5", width=4)
    else:
        assert open_files(tmp_path / "b.h5", width=4).where.endswith(f"dataset {x!r}")


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output + result.stderr
    return result


def by_target(model, path):
    return json.loads(run("evaluate", model, path, "--json").stdout)["by_target"]


def test_targets_of_two_groups_are_the_same_ones(tmp_path):
    path, model = tmp_path / "split.h5", tmp_path / "m.h5"
    with h5py.File(path, "w") as file:
        for group, some in ("train", slice(0, 2500)), ("test", slice(2500, N)):
            file[f"{group}/X"] = X[some]
            file[f"{group}/wind"], file[f"{group}/rain"] = WIND[some], RAIN[some]
    words = ("--map", "fourier", "--components", 64, "--regression", "--model", model)
    run("fit", path, "--x", "train/X", "--y", "train/wind,train/rain", *words)
    asked = run("evaluate", model, path, "--x", "test/X", "--y", "test/rain,test/wind", "--json")
    assert (
        json.loads(asked.stdout)["by_target"]
        == json.loads(run("evaluate", model, path, "--x", "test/X", "--json").stdout)["by_target"]
    )
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["X"], file["wind"], file["rain"] = X[2500:], WIND[2500:], RAIN[2500:]
    assert by_target(model, tmp_path / "other.h5") == json.loads(asked.stdout)["by_target"]
    told = CliRunner().invoke(app, ["evaluate", str(model), str(path), "--x", "test/rain"])
    assert told.exit_code == 1  # of other rows, and not judged by those of a group


@pytest.mark.parametrize(
    ("x", "y"),
    [("X.T", "wind.T,rain.T"), ("d/X", "d/a/wind,d/b/wind"), ("in/X", "wind,rain"), ("d/X", "d/y")],
)
def test_a_model_finds_the_targets_of_its_own_file(tmp_path, x, y):
    path, model = tmp_path / "a.h5", tmp_path / "m.h5"
    with h5py.File(path, "w") as file:
        file["X"], file["wind"], file["rain"] = X.T, WIND, RAIN
        if x == "X.T":
            del file["wind"], file["rain"]
            file["wind"], file["rain"] = WIND[None], RAIN[None]
        file["d/X"], file["d/a/wind"], file["d/b/wind"] = X, WIND, RAIN
        file["in/X"], file["d/y"], file["y"] = X, WIND, -WIND
    words = ("--map", "fourier", "--components", 64, "--regression", "--model", model)
    run("fit", path, "--x", x, "--y", y, *words)
    found, asked = (
        json.loads(run("evaluate", model, path, "--x", x, *more, "--json").stdout)
        for more in ((), ("--y", y))
    )
    assert (found["rmse"] == asked["rmse"]) == (y != "d/y")  # the name of one is not kept


def test_the_targets_beside_rows_in_a_group_need_no_name(tmp_path):
    path, model = tmp_path / "a.h5", tmp_path / "m.h5"
    labels = (X[:, 0] > 0).astype(int)
    with h5py.File(path, "w") as file:
        file["train/X"], file["train/y"] = X[:3000], labels[:3000]
        file["test/X"], file["test/y"] = X[3000:], labels[3000:]
    run("fit", path, "--x", "train/X", "--map", "fourier", "--components", 64, "--model", model)
    told = json.loads(run("evaluate", model, path, "--x", "test/X", "--json").stdout)
    assert told["n_rows"] == 2000
    assert told["error"] < 0.2
    with h5py.File(path, "a") as file:
        file["y"] = 1 - labels[:3000]  # where there is one, it is meant as ever
        del file["test/y"]
    run("fit", path, "--x", "train/X", "--map", "fourier", "--components", 64, "--model", model)
    whole = run("evaluate", model, path, "--x", "train/X", "--y", "train/y", "--json")
    assert json.loads(whole.stdout)["error"] > 0.8
    for words, name in (("--x", "nest/X"), "X"), (("--x", "test/X", "--y", "z"), "z"):
        refused = CliRunner().invoke(app, ["evaluate", str(model), str(path), *words])
        assert refused.exit_code == 1
        assert f"{name}'" in refused.stderr


def test_integers_beside_floats_are_told_where_they_are_rounded(tmp_path):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["X"], file["k"], file["a"] = X, 2**60 + np.arange(N), WIND
    source = srf.HDF5Source(tmp_path / "d.h5", y="k,a")
    with pytest.warns(srf.StreamrfWarning, match="1152921504606846977"):
        next(source.blocks())


def test_of_many_targets_the_worst_are_shown(tmp_path):
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["X"] = X
        file["y"] = np.stack([X[:, 0]] * 30 + [RNG.normal(size=N)] * 4, axis=1)
    model, words = tmp_path / "m.h5", ("--map", "fourier", "--components", 64, "--regression")
    run("fit", tmp_path / "c.h5", *words, "--model", model)
    shown = run("evaluate", model, tmp_path / "c.h5").stdout
    assert shown.count("  target") == 10
    assert "of 34 targets those of the least R2" in shown
    assert all(f"target {k} " in shown for k in (31, 32, 33, 34))
    run("report", model, "--data", tmp_path / "c.h5", "-o", tmp_path / "page.html")
    assert "The 20 targets of the least R2" in (tmp_path / "page.html").read_text()


def test_a_model_finds_rows_and_targets_by_what_it_learnt(path, tmp_path):
    model, words = tmp_path / "m.h5", ("--map", "fourier", "--components", 64, "--regression")
    run("fit", path, "--x", "spectra", "--y", "wind, rain", *words, "--model", model)
    told = run("evaluate", model, path, "--json")
    assert "left out" not in told.stderr
    assert "'spectra', the only one of 4 columns" in told.stderr
    found = json.loads(told.stdout)["by_target"]
    assert [one["target"] for one in found] == ["wind", "rain"]
    shown = run("evaluate", model, path).stdout
    assert f"rain   RMSE {found[1]['rmse']:.6g}" in shown
    with h5py.File(tmp_path / "b.h5", "w") as file:  # whose targets have no names
        file["spectra"], file["y"], file["more"] = X, np.stack([WIND, RAIN], axis=1), X[:, :3]
    assert by_target(model, tmp_path / "b.h5") == found
    np.savez(tmp_path / "b.npz", X=X, y=np.stack([WIND, RAIN], axis=1))
    assert (
        json.loads(run("evaluate", model, tmp_path / "b.npz", "--json").stdout)["by_target"]
        == found
    )
    said = run("evaluate", model, tmp_path / "b.h5").stderr
    assert "targets: dataset 'y', in the order wind, rain" in said
    with h5py.File(tmp_path / "b.h5", "a") as file:
        file["wind"], file["rain"] = WIND[:9], RAIN
    with h5py.File(tmp_path / "b.h5", "a") as file:
        del file["y"]
    told = CliRunner().invoke(app, ["evaluate", str(model), str(tmp_path / "b.h5")])
    assert "'wind' is of shape (9,)" in told.stderr or "'rain' is of shape (5000,)" in told.stderr
    with h5py.File(tmp_path / "b.h5", "a") as file:
        file["y"] = np.stack([RAIN, WIND], axis=1)  # which is not taken in silence
    told = CliRunner().invoke(app, ["evaluate", str(model), str(tmp_path / "b.h5")])
    assert told.exit_code == 1
    assert "is of shape" in told.stderr
    run("predict", model, path, "-o", tmp_path / "out.csv")
    with open(tmp_path / "out.csv") as file:
        assert file.readline() == "wind,rain\n"
    run("report", model, "--data", path, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Each target" in page
    assert "wind" in page


def test_names_that_sums_to_continue_lack_are_told_to_go_by_place(path):
    """Sums of the same targets in another order were added to these in silence."""

    def summed(y, start, like):
        source = srf.HDF5Source(path, x="spectra", y=y)
        return srf.accumulate(source, MAP, rows=(start, start + 500), like=like, regression=True)

    unnamed, named = summed("both", 0, None), summed(["wind", "rain"], 500, None)
    told = "know no names of targets, so these are taken for theirs in the order rain, wind"
    with pytest.warns(StreamrfWarning, match=told):
        one = summed(["rain", "wind"], 1000, unnamed)
    assert one.encoder.target_names == ()
    assert_same_bytes((unnamed + one).to_tree(), (one + unnamed).to_tree())
    summed("both", 1000, named)  # as do those without names beside others
    assert summed(["rain", "wind"], 1500, named).encoder.target_names == ("wind", "rain")
    frame = pd.DataFrame(X[:500], columns=list("abcd"))
    targets = pd.DataFrame({"wind": WIND[:500], "rain": RAIN[:500]})
    first = srf.accumulate(srf.open_source(frame, y=targets.to_numpy()), MAP)
    with pytest.warns(StreamrfWarning, match=told):
        srf.accumulate(srf.open_source(frame, y=targets[["rain", "wind"]]), like=first)
