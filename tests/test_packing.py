"""Numbers of zarr stores that attributes of netCDF pack, as xarray writes them."""

import numpy as np
import pytest

import streamrf as srf
from streamrf.errors import BadRowError, CorruptFileError
from streamrf.sources.packing import Attributes, Packing

RNG = np.random.default_rng(0)


def rows_of(path, name="X", **options):
    (block,) = srf.open_source(path, x=name, **options).blocks()
    return block


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "encoding",
    [
        {"dtype": "i2", "scale_factor": 0.001, "add_offset": 1.0, "_FillValue": -32768},
        {"dtype": "i4", "_FillValue": -1},
        {"dtype": "f4", "_FillValue": 7.5},
        {"dtype": "f8"},
        {"dtype": "i1", "_Unsigned": "true", "_FillValue": -1},
    ],
)
def test_what_xarray_writes_is_read_as_xarray_reads_it(encoding, version, tmp_path):
    xarray = pytest.importorskip("xarray")
    values = RNG.integers(0, 9, (60, 3)) + (0.25 if encoding["dtype"].startswith("f") else 0.0)
    values[7, 1] = np.nan
    made = xarray.Dataset({"X": (("row", "column"), values), "y": ("row", np.arange(60) % 2)})
    path = tmp_path / "a.zarr"
    options = {"zarr_format": version, "consolidated": False, "encoding": {"X": encoding}}
    made.to_zarr(path, **options)
    expected = xarray.open_zarr(path, consolidated=False)["X"].values
    source = srf.open_source(path, y="y")
    (block,) = source.blocks()
    np.testing.assert_allclose(block.X, expected, rtol=1e-6)
    assert np.isnan(block.X[7, 1])
    np.testing.assert_array_equal(block.y, np.arange(60) % 2)
    features = srf.RandomFourier(srf.Gaussian(0.1), n_components=8, random_state=0)
    with pytest.raises(BadRowError, match="row 7: column 1 is NaN"):
        srf.accumulate(source, features)
    from_store, from_array = (
        srf.accumulate(rows, features, on_bad_rows="skip")
        for rows in (source, srf.ArraySource(block.X, block.y))
    )
    np.testing.assert_array_equal(from_store.solve(0.1).coef, from_array.solve(0.1).coef)


@pytest.mark.parametrize("version", [2, 3])
def test_labels_that_are_packed_stay_integers(version, tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    group.create_array("X", data=np.ones((60, 2)))
    labels = group.create_array("y", data=np.arange(60) % 3)
    labels.attrs["_FillValue"] = -9
    block = rows_of(tmp_path / "a.zarr", y="y")
    assert block.y.dtype.kind == "i"
    np.testing.assert_array_equal(block.y, np.arange(60) % 3)


def test_bounds_are_those_of_what_is_stored(tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    stored = np.arange(256, dtype="u1").view("i1").reshape(64, 4)
    array = group.create_array("X", data=stored)
    array.attrs.update({"_Unsigned": "true", "valid_range": [0, -56]})  # 0 to 200
    X = rows_of(tmp_path / "a.zarr").X.ravel()
    np.testing.assert_array_equal(X, np.where(np.arange(256) > 200, np.nan, np.arange(256)))


def test_an_array_of_which_nothing_is_told_is_as_it_is(tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    stored = np.arange(120, dtype="i4").reshape(60, 2) % 3
    group.create_array("X", data=stored, fill_value=0)
    np.testing.assert_array_equal(rows_of(tmp_path / "a.zarr").X, stored)


@pytest.mark.parametrize(
    "attributes",
    [
        {"_FillValue": "NaN"},
        {"_FillValue": "-Infinity"},
        {"_FillValue": "not base64"},
        {"scale_factor": "2", "add_offset": "5"},
        {"valid_range": [[1], [2, 3]]},
        {"missing_value": {"a": 1}, "scale_factor": "none"},
        {"valid_min": True},
    ],
)
def test_attributes_that_change_nothing(attributes, tmp_path):
    zarr = pytest.importorskip("zarr")
    rows = RNG.normal(size=(60, 2))
    array = zarr.create_array(tmp_path / "a.zarr", data=rows)
    array.attrs.update(attributes)
    np.testing.assert_array_equal(next(srf.open_source(tmp_path / "a.zarr").blocks()).X, rows)


@pytest.mark.parametrize("name", ["_FillValue", "missing_value"])
def test_great_integers_are_compared_as_such(name):
    great = 2**62 + 1  # float64 has it not
    stored = np.array([great, great + 1, great - 1, 5])
    told = {name: np.int64(great), ("missing_value", "_FillValue")[name > "a"]: np.float64(np.nan)}
    packing = Packing(Attributes(stored.dtype, told), "here", keeps_integers=True)
    np.testing.assert_array_equal(np.isnan(packing.decoded(stored)), [True, False, False, False])
    for fill in 1e300, 0.5, np.uint64(2**64 - 1):  # which the array cannot have
        packing = Packing(Attributes(stored.dtype, {name: fill}), "here", keeps_integers=True)
        np.testing.assert_array_equal(packing.decoded(stored), stored)


def test_fills_of_others_are_numbers(tmp_path):
    zarr = pytest.importorskip("zarr")
    rows = np.array([[65535, 1], [2, 3]], "u2")
    for version in 2, 3:
        path = tmp_path / f"{version}.zarr"
        zarr.create_array(path, data=rows, zarr_format=version, fill_value=65535)
        np.testing.assert_array_equal(next(srf.open_source(path).blocks()).X, rows)


def test_rows_of_which_none_is_missing_keep_their_key(tmp_path):
    zarr = pytest.importorskip("zarr")
    rows = RNG.integers(0, 9, (60, 2)).astype("i2")
    array = zarr.create_array(tmp_path / "a.zarr", data=rows)
    array.attrs["_FillValue"] = -1
    assert srf.open_source(tmp_path / "a.zarr").stores[0].key == srf.ArraySource(rows).stores[0].key


def test_halves_are_scaled_in_single_precision(tmp_path):
    zarr = pytest.importorskip("zarr")
    rows = RNG.normal(size=(60, 2)).astype("f2")
    array = zarr.create_array(tmp_path / "a.zarr", data=rows)
    array.attrs.update({"scale_factor": 1e-20, "add_offset": 0.0})
    X = next(srf.open_source(tmp_path / "a.zarr").blocks()).X
    np.testing.assert_allclose(X, rows.astype(float) * 1e-20, rtol=1e-6)


def test_a_scale_of_two_numbers_is_told(tmp_path):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(tmp_path / "a.zarr", data=np.ones((60, 2)))
    array.attrs["scale_factor"] = [1.0, 2.0]
    assert isinstance(srf.open_source(array), srf.ArraySource)
    with pytest.raises(CorruptFileError, match=r"'scale_factor' is \[1.0, 2.0\], not a number"):
        srf.open_source(tmp_path / "a.zarr")
