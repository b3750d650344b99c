"""Classes that files have written one-hot."""

import json

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

import streamrf as srf
from integers import assert_same_bytes
from streamrf.cli import app
from streamrf.errors import BadRowError, DataError
from streamrf.sources import open_source

N, K = 300, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] > 0) * 2 + (X[:, 1] > 0)
MAP = srf.RandomFourier(srf.Gaussian(0.3), 32, random_state=0)


def write(folder, kind, y, name="rows"):
    path = folder / f"{name}.{kind}"
    if kind == "h5":
        with h5py.File(path, "w") as file:
            file["X"], file["y"] = X[: len(y)], y
        return open_source(path, y="y")
    if kind == "npz":
        np.savez(path, X=X[: len(y)], y=y)
        return open_source(path, y="y")
    if kind == "npy":
        np.save(folder / "rows_X.npy", X[: len(y)])
        np.save(folder / "rows_y.npy", y)
        return open_source(folder / "rows_X.npy", y="rows_y.npy")
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(path, mode="w")
    for key, values in {"X": X[: len(y)], "y": y}.items():
        group.create_array(key, data=values)
    return open_source(path, y="y")


KINDS = ("h5", "npz", "npy", "zarr")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["f4", "i8", "?"])
def test_the_sums_are_those_of_the_classes(tmp_path, kind, dtype, caplog):
    caplog.set_level("INFO", "streamrf")
    source = write(tmp_path, kind, np.eye(K, dtype=dtype)[Y])
    assert not caplog.messages
    a, b = (
        srf.accumulate(s, MAP, normalize="standard", random_state=0)
        for s in (source, srf.ArraySource(X, Y))
    )
    assert_same_bytes(a.to_tree(), b.to_tree() | {"ledger": a.ledger.to_tree()})
    assert sum("taken for classes" in message for message in caplog.messages) == 1
    model = a.solve(1e-3)
    assert model.evaluate(source)["error"] == model.evaluate(srf.ArraySource(X, Y))["error"]


@pytest.mark.parametrize("kind", KINDS)
def test_values_where_they_are_wanted(tmp_path, kind):
    source = write(tmp_path, kind, np.eye(K)[Y])
    a = srf.accumulate(source, MAP, regression=True, random_state=0)
    b = srf.accumulate(srf.ArraySource(X, np.eye(K)[Y]), MAP, regression=True, random_state=0)
    assert_same_bytes(a.to_tree(), b.to_tree() | {"ledger": a.ledger.to_tree()})
    assert a.solve(1e-3).predict(source).shape == (N, K)
    assert "rmse" in a.solve(1e-3).evaluate(source)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("odd", [[0, 0, 0, 0], [1, 1, 0, 0], [0, 2, 0, 0], [0.5, 0.5, 0, 0]])
def test_a_later_row_that_is_none(tmp_path, kind, odd):
    targets = np.eye(K)[Y]
    targets[170] = odd
    source = write(tmp_path, kind, targets)
    with pytest.raises(DataError, match=r"row 170: the targets are \[.*--task regression"):
        srf.accumulate(source, MAP)
    assert srf.accumulate(source, MAP, regression=True).n_rows == N


@pytest.mark.parametrize("odd", [[0, 0, 0, 0], [1, 1, 0, 0], [0, 2, 0, 0], [np.nan, 1, 0, 0]])
def test_an_early_row_that_is_none(tmp_path, odd):
    targets = np.eye(K)[Y]
    targets[3] = odd
    source = write(tmp_path, "h5", targets)
    assert not source.is_one_hot
    assert next(source.blocks()).y.shape == (N, K)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_classes_are_bad_rows(tmp_path, kind):
    targets = np.eye(K)[Y]
    targets[170] = np.nan
    source = write(tmp_path, kind, targets)
    with pytest.raises(BadRowError, match="row 170: the target is NaN"):
        srf.accumulate(source, MAP)
    stats = srf.accumulate(source, MAP, on_bad_rows="skip")
    assert stats.n_rows == N - 1
    np.testing.assert_array_equal(stats.labels, np.arange(K))


def test_arrays_that_are_there_are_what_they_are_said_to_be():
    xarray = pytest.importorskip("xarray")
    rows = xarray.DataArray(X, dims=("row", "column"))
    assert not open_source(rows, y=np.eye(K)[Y]).is_one_hot


def test_all_files_must_be_written_so(tmp_path):
    write(tmp_path, "h5", np.eye(K)[Y], "a")
    write(tmp_path, "h5", np.eye(K)[Y] * 2, "b")
    assert not open_source(str(tmp_path / "*.h5"), y="y").is_one_hot


def test_commands(tmp_path):
    write(tmp_path, "h5", np.eye(K)[Y])
    data, model = str(tmp_path / "rows.h5"), str(tmp_path / "m.h5")
    words = ("--map", "fourier", "--kernel", "gaussian", "--gamma", "0.3", "--components", "64")
    result = CliRunner().invoke(app, ["fit", data, "--y", "y", "--model", model, *words])
    assert result.exit_code == 0, result.output
    assert "classes   4" in result.stdout
    assert "taken for classes" in result.stderr
    result = CliRunner().invoke(app, ["evaluate", model, data, "--y", "y", "--json"])
    assert json.loads(result.stdout)["error"] < 0.1
    result = CliRunner().invoke(
        app, ["fit", data, "--y", "y", "--model", model, *words, "--task", "regression"]
    )
    assert "targets   4" in result.stdout
    assert "taken for classes" not in result.stderr
