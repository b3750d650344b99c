"""What h5py and zarr have open is read by its path."""

import pickle
import shutil

import dask.array
import h5py
import numpy as np
import pytest

import streamrf as srf
from streamrf.errors import DataError, ParameterError, ShapeError

ROWS = np.random.default_rng(0).normal(size=(3000, 4, 3))
LABELS = np.where(ROWS[:, 0, 0] > 0, "up", "down")


@pytest.fixture(params=["h5py", "zarr"])
def handle(request, tmp_path):
    """Return an open group with X, the texts y, and weights."""
    arrays = {"X": ROWS, "w": np.arange(3000) + 1.0}
    if request.param == "zarr":
        zarr = pytest.importorskip("zarr")
        group = zarr.open_group(tmp_path / "a.zarr", mode="w")
        for name, array in (arrays | {"y": LABELS.astype("T")}).items():
            chunks = (70, *array.shape[1:])
            group.create_array(name, shape=array.shape, dtype=array.dtype, chunks=chunks)[:] = array
        yield group
        return
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, array in (arrays | {"y": LABELS.astype("S")}).items():
            file.create_dataset(name, data=array, chunks=(70, *array.shape[1:]), compression="gzip")
    with h5py.File(tmp_path / "a.h5") as file:
        yield file


def rows_of(source):
    blocks = list(source.blocks(block_rows=64))
    return [np.concatenate([getattr(b, name) for b in blocks]) for name in ("X", "y", "weights")]


def test_an_array_is_read_in_blocks_beside_targets_that_are_arrays(handle):
    source = srf.open_source(handle["X"], y=LABELS, weights=np.arange(3000) + 1)
    assert not isinstance(source, srf.ArraySource)
    assert source.stores[0].n_rows == 3000
    assert source.files
    assert (source.row_shape, source.has_targets, source.has_weights) == ((4, 3), True, True)
    assert max(len(block.X) for block in source.blocks(block_rows=64)) < 100
    for opened in source, pickle.loads(pickle.dumps(source)):
        X, y, weights = rows_of(opened)
        np.testing.assert_array_equal(X, ROWS.reshape(3000, 12))
        np.testing.assert_array_equal(y, LABELS)
        np.testing.assert_array_equal(weights, np.arange(3000) + 1)
    sample = source.sample(100)
    np.testing.assert_array_equal(sample.y, LABELS[sample.kept])
    np.testing.assert_array_equal(sample.X, ROWS.reshape(3000, 12)[sample.kept])
    (block,) = source.blocks(2990, 2995)
    np.testing.assert_array_equal(block.y, LABELS[2990:2995])


def test_a_group_is_read_by_the_names_of_its_arrays(handle):
    X, y, weights = rows_of(srf.open_source(handle, y="y", weights="w"))
    np.testing.assert_array_equal(X, ROWS.reshape(3000, 12))
    np.testing.assert_array_equal(y, LABELS)
    np.testing.assert_array_equal(weights, np.arange(3000) + 1)


def test_estimators_do_with_what_is_open_as_with_arrays(handle):
    features = srf.RandomFourier(srf.Gaussian(0.1), n_components=64)
    given, opened, streamed = (
        srf.RandomFeatureClassifier(features, alpha=1e-3, normalize=None, random_state=0)
        for _ in range(3)
    )
    flat = ROWS.reshape(3000, 12)
    given.fit(flat, LABELS)
    for fitted in (opened.fit(handle["X"], LABELS), streamed.partial_fit(handle["X"], LABELS)):
        np.testing.assert_array_equal(fitted.predict(handle["X"]), given.predict(flat))
        np.testing.assert_array_equal(fitted.predict(handle), given.predict(flat))
        assert fitted.score(handle["X"], LABELS) == given.score(flat, LABELS)
        assert fitted.evaluate(handle["X"], LABELS)["error"] == 1 - given.score(flat, LABELS)
    assert opened.fit(handle, "y").n_features_in_ == 12
    regressor = srf.KernelRidgeRegressor(srf.Gaussian(0.1), alpha=1e-3, normalize=None, n_rows=3000)
    regressor.fit(handle["X"], flat[:, 1])
    np.testing.assert_allclose(
        regressor.predict(handle["X"]), regressor.predict(flat), rtol=1e-6, atol=1e-9
    )


def test_a_chunk_that_was_lost_is_told(tmp_path):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(tmp_path / "a.zarr", data=ROWS, chunks=(70, 4, 3))
    (tmp_path / "a.zarr" / "c" / "7" / "0" / "0").unlink()
    with pytest.warns(UserWarning, match="1 of 43 chunks of rows are not there"):
        srf.open_source(array, y=LABELS)
    srf.open_source(array, y=LABELS, allow_sparse=True)


def test_what_is_in_no_file_is_an_array(tmp_path):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(zarr.storage.MemoryStore(), data=ROWS)
    with h5py.File(tmp_path / "a.h5", "w", driver="core", backing_store=False) as file:
        for array in stored, file.create_dataset("X", data=ROWS):
            source = srf.open_source(array, y=LABELS)
            assert isinstance(source, srf.ArraySource)
            np.testing.assert_array_equal(rows_of_first(source), ROWS[:5].reshape(5, 12))
        with h5py.File(tmp_path / "b.h5", "w") as written:
            written["X"] = ROWS
            assert isinstance(srf.open_source(written["X"], y=LABELS), srf.ArraySource)
        with pytest.raises(ParameterError, match="in no file that can be opened again"):
            srf.open_source(file, y="y")


def rows_of_first(source):
    return next(iter(source.blocks(0, 5))).X


@pytest.mark.parametrize("locking", [False, True, "best-effort", None])
def test_files_are_read_whatever_the_locking_of_the_handle(locking, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"], file["y"] = ROWS, np.arange(3000) % 2
    with h5py.File(tmp_path / "a.h5", locking=locking) as file:
        for source in (
            srf.open_source(file["X"], y=LABELS),
            srf.open_source(file, y="y"),
            srf.open_source(tmp_path / "a.h5", y="y"),
        ):
            np.testing.assert_array_equal(rows_of_first(source), ROWS[:5].reshape(5, 12))
            assert source.files


def test_classes_without_a_row_are_told(handle):
    labels = LABELS.copy()
    labels[100] = "rare"
    features = {"kernel": srf.Gaussian(0.1), "alpha": 1.0, "n_rows": 500}
    with pytest.warns(UserWarning, match="none of class 'rare'"):
        srf.KernelRidgeClassifier(**features).fit(handle["X"], labels)


def test_what_a_path_reads_otherwise_is_an_array_as_its_slices_are(tmp_path):
    zarr = pytest.importorskip("zarr")
    stored = np.arange(6000, dtype="i2").reshape(2000, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["packed"], file["plain"] = stored, stored
        file["packed"].attrs["scale_factor"] = 0.5
        file.create_dataset("large", data=stored, chunks=(2000, 3), scaleoffset=0)
    packed = zarr.create_array(tmp_path / "a.zarr", data=stored)
    packed.attrs["_FillValue"] = -1
    with h5py.File(tmp_path / "a.h5", rdcc_nbytes=1000) as file:
        kinds = {"packed": True, "plain": False, "large": True}
        for name, is_array in kinds.items():
            source = srf.open_source(file[name])
            assert isinstance(source, srf.ArraySource) == is_array
            (block,) = source.blocks()
            np.testing.assert_array_equal(block.X, stored)
        assert next(srf.open_source(file, x="packed").blocks()).X[1, 0] == 1.5
    with h5py.File(tmp_path / "a.h5") as file:
        assert not isinstance(srf.open_source(file["large"]), srf.ArraySource)
    assert isinstance(srf.open_source(packed), srf.ArraySource)


def test_a_file_that_was_replaced_is_not_read_by_its_path(tmp_path):
    for name, rows in {"a": ROWS, "b": -ROWS}.items():
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["X"] = rows
    with h5py.File(tmp_path / "a.h5") as file:
        (tmp_path / "b.h5").replace(tmp_path / "a.h5")
        source = srf.open_source(file["X"])
        np.testing.assert_array_equal(rows_of_first(source), ROWS[:5].reshape(5, 12))


@pytest.mark.parametrize("kind", ["handle", "dask", "xarray"])
def test_several_targets_keep_their_names(kind, handle, tmp_path):
    """They were taken by their places by all but fit."""
    pd, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    flat = ROWS.reshape(3000, 12)
    X = {
        "handle": handle["X"],
        "dask": dask.array.from_array(flat, (500, 12)),
        "xarray": xarray.DataArray(flat),
    }[kind]
    table = pd.DataFrame({"a": flat[:, 0], "b": flat[:, 1] - 5})
    turned = table[["b", "a"]]
    features = srf.RandomFourier(srf.Gaussian(0.01), n_components=64)
    forest = srf.RandomFeatureRegressor(features, alpha=1e-6, random_state=0)
    exact = srf.KernelRidgeRegressor(srf.Gaussian(0.01), alpha=1e-6, n_rows=500)
    for regressor in forest.fit(X, table), exact.fit(X, table):
        assert regressor.score(X, table) > 0.8
        np.testing.assert_allclose(regressor.score(X, turned), regressor.score(X, table))
    assert forest.evaluate(X, turned)["r2"] == forest.evaluate(X, table)["r2"]
    forest.save(tmp_path / "m.h5")
    loaded = srf.load_model(tmp_path / "m.h5")
    assert loaded.score(X, turned) == forest.score(X, table)
    begun = srf.RandomFeatureRegressor(features, alpha=1e-6, random_state=0)
    begun.partial_fit(X, table).partial_fit(flat[::-1], turned[::-1])
    assert begun.score(X, table) > 0.8
    other = dask.array.from_array(flat[::-1], (500, 12))
    assert begun.partial_fit(other, turned[::-1]).score(X, table) > 0.8


def test_rows_of_several_places_have_one_target_each(handle):
    features = srf.RandomFourier(srf.Gaussian(0.1), n_components=64)
    fitted = srf.RandomFeatureClassifier(features, random_state=0).fit(ROWS[:, 0], LABELS)
    with pytest.raises(ShapeError, match="has 12 features, but the model was trained on 3"):
        fitted.evaluate(handle["X"], LABELS)


def test_targets_of_a_group_are_named(handle):
    for y in (LABELS, handle["y"]):
        with pytest.raises(ParameterError, match="y of files is the name of a dataset"):
            srf.open_source(handle, y=y)
    with pytest.raises(ParameterError, match="weights of files is the name of a dataset"):
        srf.RandomFeatureClassifier().fit(handle, "y", np.ones(3000))
    features = srf.RandomFourier(srf.Gaussian(0.1), n_components=64)
    fitted = srf.RandomFeatureClassifier(features, random_state=0).fit(handle, ["y"], "w")
    assert fitted.score(handle, "y") == fitted.score(handle["X"], LABELS)


def test_slips_are_told(handle, tmp_path):
    with pytest.raises(ShapeError, match="y has 10 rows"):
        srf.open_source(handle["X"], y=LABELS[:10])
    with pytest.raises(ParameterError, match="x= names a dataset"):
        srf.open_source(handle["X"], x="X")
    with pytest.raises(DataError, match="has no targets"):
        srf.RandomFeatureClassifier().fit(handle["X"])
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["a/X"] = ROWS
    with h5py.File(tmp_path / "b.h5") as file:
        group, dataset = file["a"], file["a/X"]
        with pytest.raises(ParameterError, match="x='a/X'"):
            srf.open_source(group, y="y")
    for closed in file, group, dataset:
        with pytest.raises(ParameterError, match=r"Closed HDF5 .*; open its file again"):
            srf.open_source(closed)
    with pytest.raises(ParameterError, match=r"Closed HDF5 .*; open its file again"):
        srf.RandomFeatureClassifier().fit(file, "y")


@pytest.mark.parametrize("given", ["y", "weights"])
@pytest.mark.parametrize("as_view", [False, True])
def test_what_h5py_has_closed_is_told_beside_rows(given, as_view, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["y"] = [0, 1, 1, 0]
    with h5py.File(tmp_path / "a.h5") as file:
        closed = file["y"].astype("f4") if as_view else file["y"]
        assert closed.shape == (4,) == closed[:].shape  # which h5py remembers, and how it read
    others = {"y": [0, 1, 1, 0]} | {given: closed}
    X, told = np.eye(4), r"(y|weights?) is of an HDF5 file that is closed; open it again"
    with pytest.raises(srf.errors.StreamrfError, match=told):
        srf.open_source(X, **others)
    others["sample_weight"] = others.pop("weights", None)
    for kind in (srf.RandomFeatureClassifier(), srf.KernelRidgeRegressor()):
        with pytest.raises(srf.errors.StreamrfError, match=told):
            kind.fit(X, **others)


@pytest.mark.parametrize("given", ["y", "weights"])
def test_datasets_of_no_rows_or_shape_are_told_beside_rows(given, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        none = file.create_dataset("none", shape=(0,), maxshape=(4,), dtype="f8").astype("f4")
        empty = file.create_dataset("empty", data=h5py.Empty("f4"))
        for odd, told in (
            (none, "0"),
            (empty, "is an empty HDF5 dataset"),
            (h5py.Empty("f4"), "no shape"),
        ):
            with pytest.raises(srf.errors.StreamrfError, match=told):
                srf.open_source(np.eye(4), **({"y": [0, 1, 1, 0]} | {given: odd}))


def test_the_array_of_an_older_version_beside_a_newer_one_is_read(tmp_path):
    zarr = pytest.importorskip("zarr")
    old = zarr.create_array(tmp_path / "a.zarr", data=ROWS, zarr_format=2)
    zarr.create_array(tmp_path / "b.zarr", data=-ROWS, zarr_format=3)
    (tmp_path / "b.zarr" / "zarr.json").rename(tmp_path / "a.zarr" / "zarr.json")
    np.testing.assert_array_equal(rows_of_first(srf.open_source(old)), ROWS[:5].reshape(5, 12))


def test_an_array_of_zarr_whose_folder_is_gone_is_no_zeros(tmp_path):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(tmp_path / "a.zarr", data=np.ones((90, 3)))
    shutil.rmtree(tmp_path / "a.zarr")
    with pytest.raises(ParameterError, match=r"a\.zarr is gone; zarr reads it as zeros"):
        srf.open_source(array)
    with pytest.raises(ParameterError, match=r"a\.zarr is gone; zarr reads it as zeros"):
        srf.RandomFeatureRegressor().fit(array, np.ones(90))
