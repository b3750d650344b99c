"""Pixels of images, and steps of series, as rows: X has one axis more than y."""

import dask.array
import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

import streamrf as srf
from cases import write_hdf5
from streamrf import sources
from streamrf.cli import app
from streamrf.errors import ShapeError
from streamrf.sources import hdf5_chunks


def grids(n_axes, dtype="f4"):
    """Rows of 5 columns on a grid, and labels and weights of each."""
    rng, grid = np.random.default_rng(0), (11, 7, 3)[:n_axes]
    X, y = rng.normal(size=(*grid, 5)).astype(dtype), rng.integers(0, 3, grid)
    return X, y, rng.uniform(0.5, 2, grid)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("chunks", [None, 1, 4])
@pytest.mark.parametrize("n_axes", [2, 3])
def test_pixels_of_hdf5_are_rows_where_each_has_a_target(
    tmp_path, n_axes, chunks, text, caplog, monkeypatch
):
    X, y, weights = grids(n_axes)
    y = np.array(["a", "b", "c"])[y] if text else y
    monkeypatch.setattr(hdf5_chunks, "TASK_BYTES", 300)
    layout = {} if chunks is None else {"chunks": (chunks, *X.shape[1:]), "compression": "gzip"}
    path = write_hdf5(tmp_path / "cube.h5", X, y, weights, **layout)
    with caplog.at_level("INFO", logger="streamrf"):
        source = sources.HDF5Source(path, weights="weights")
    shown = " x ".join(map(str, X.shape[:-1]))
    assert f"each of the {shown} places of an array is a row of 5 columns" in caplog.text
    plain = sources.ArraySource(X.reshape(-1, 5), y.ravel(), weights.ravel())
    assert (source.n_rows, source.n_features, source.row_shape) == (plain.n_rows, 5, (5,))
    line = X[0].nbytes + y[0].nbytes * (not text) + weights[0].nbytes  # of texts their references
    assert source.buffer_bytes >= 2 * line
    assert source.stores[0].key == plain.stores[0].key
    np.testing.assert_array_equal(source.known_targets[0], y.ravel())
    for bounds in ((0, None), (3, 5), (6, 15), (20, 61)):
        for block_rows in (1, 4, 50, 1000):
            blocks = list(source.blocks(*bounds, block_rows=block_rows))
            expected = next(iter(plain.blocks(*bounds, block_rows=1000)))
            for name in ("X", "y", "weights"):
                found = np.concatenate([getattr(block, name) for block in blocks])
                np.testing.assert_array_equal(found, getattr(expected, name))


def test_a_model_of_pixels_takes_arrays_of_them_without_targets(tmp_path):
    X, y, _ = grids(2)
    path = write_hdf5(tmp_path / "cube.h5", X, y)
    clf = srf.RandomFeatureClassifier(srf.RandomFourier(n_components=8, random_state=0))
    clf.fit(sources.HDF5Source(path))
    alone = sources.HDF5Source(write_hdf5(tmp_path / "alone.h5", X), y=None)
    assert alone.n_features == 35  # as images are
    found = clf.predict(alone)
    np.testing.assert_array_equal(found, clf.predict(X.reshape(-1, 5)))
    assert alone.of_width(35) is alone
    assert alone.of_width(7) is alone


@pytest.mark.parametrize("make", ["array", "dask", "npy", "zarr", "iterator"])
def test_grids_of_targets_are_refused_elsewhere(tmp_path, make):
    X, y, _ = grids(2)
    np.save(tmp_path / "rows.npy", X)
    np.save(tmp_path / "y.npy", y)
    made = {
        "array": lambda: sources.ArraySource(X, y),
        "dask": lambda: sources.DaskArraySource(*map(dask.array.from_array, (X, y))),
        "npy": lambda: sources.open_source(str(tmp_path / "rows.npy"), y=str(tmp_path / "y.npy")),
        "iterator": lambda: next(sources.IteratorSource([(X, y)]).blocks()),
    }
    if make == "zarr":
        zarr = pytest.importorskip("zarr")
        group = zarr.open_group(tmp_path / "rows.zarr", mode="w")
        group["X"], group["y"] = X, y
    made["zarr"] = lambda: sources.open_source(str(tmp_path / "rows.zarr"), y="y")
    with pytest.raises(ShapeError, match=r"y \(11, 7\), .*rows: X.reshape\(-1, 5\)"):
        made[make]()


def test_grids_without_places_are_no_rows(tmp_path):
    path = write_hdf5(tmp_path / "cube.h5", np.zeros((3, 0, 5)), np.zeros((3, 0)))
    with pytest.raises(ShapeError, match="0 feature"):
        sources.HDF5Source(path)


def test_commands_take_a_cube_with_and_without_its_map(tmp_path):
    X, y, _ = grids(2)
    cube, alone = write_hdf5(tmp_path / "cube.h5", X, y), write_hdf5(tmp_path / "alone.h5", X)
    model, out = tmp_path / "model.h5", tmp_path / "out.h5"
    fit = ("--map", "fourier", "--components", 16, "--kernel", "gaussian", "--gamma", 0.1)
    for words in (
        ("fit", cube, *fit, "--model", model, "--task", "classification"),
        ("predict", model, alone, "-o", out, "--scores"),
    ):
        found = CliRunner().invoke(app, [str(word) for word in words])
        assert found.exit_code == 0, found.output
    with h5py.File(out) as file:
        assert file["y"].shape == (77,)
        assert file["scores"].shape == (77, 3)
