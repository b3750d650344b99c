"""Folders, links, patterns and URLs mean each file of rows once, and none is lost or replaced."""

import json
import os

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import streamrf as srf
from commands import answer, misused, refused
from streamrf.errors import (
    EmptySourceError,
    ParameterError,
    SourceNotFoundError,
    StreamrfError,
    StreamrfWarning,
)
from streamrf.sources import open_text

SUMS = ("--kernel", "gaussian", "--gamma", "0.5", "--components", "16", "--normalize", "standard")


@pytest.fixture
def days(tmp_path, rng, monkeypatch):
    """Three days of rows as CSV, in the working folder."""
    monkeypatch.chdir(tmp_path)
    for day in range(3):
        rows = [f"{a:.4f},{b:.4f},{'pq'[int(a > 0)]}" for a, b in rng.normal(size=(100, 2))]
        (tmp_path / f"d{day}.csv").write_text("\n".join(["a,b,y", *rows, ""]))
    return tmp_path


def test_linked_folders_are_read_and_each_folder_once(days):
    (days / "disk" / "2024").mkdir(parents=True)
    (days / "data" / "2023").mkdir(parents=True)
    (days / "d0.csv").rename("data/2023/d0.csv")
    (days / "d1.csv").rename("disk/2024/d1.csv")
    os.symlink("../disk/2024", "data/2024")
    os.symlink("2024", "data/again")
    os.symlink("..", "data/2023/around")  # which os.walk would follow for ever
    assert srf.open_source("data", y="y").n_rows == 200


@pytest.mark.parametrize("url", ["file://{}", "local://{}"])
def test_rows_of_a_url_of_this_machine_are_not_replaced(days, url):
    data = url.format(days / "d0.csv")
    answer("fit", data, *SUMS, "--model", "m.h5")
    before = (days / "d0.csv").read_bytes()
    line = refused("predict", "m.h5", data, "--output", "d0.csv")
    assert "is read from too" in line
    assert "is read from too" in refused("fit", data, *SUMS, "--statistics", "d0.csv")
    assert (days / "d0.csv").read_bytes() == before


def test_moments_count_no_file_twice(days):
    line = refused("moments", "d[01].csv", "d0.csv", "--out", "moments.h5")
    assert "rows 0 to 99 of d0.csv" in line
    assert answer("moments", "d*.csv", "--y", "y", "--out", "moments.h5")["n_rows"] == 300


@pytest.mark.parametrize(
    ("command", "option", "values"),
    [
        (("fit", "d0.csv", *SUMS, "--model", "m.h5"), "--class-weight", ("p=1", "q=2")),
        (("solve", "s.h5", "--model", "m.h5"), "--alpha", ("1", "100")),
        (("solve", "s.h5", "--model", "m.h5"), "--classes", ("p,q", "q,p")),
    ],
)
def test_lists_in_parts_are_refused(days, command, option, values):
    answer("fit", "d0.csv", *SUMS, "--statistics", "s.h5")
    given = [word for value in values for word in (option, value)]
    assert f"{option} is given 2 times" in misused(*command, *given)


def test_zarr_stores_in_folders_and_patterns_are_rows(days):
    zarr = pytest.importorskip("zarr")
    (days / "runs").mkdir()
    for name in "ab":
        group = zarr.open_group(f"runs/{name}.zarr", mode="w")
        group["X"], group["y"] = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50.0)
        group["X"][0, 0] = ord(name)
    for entry in ("runs", "runs/*.zarr", "runs/*"):
        assert srf.open_source(entry, x="X", y="y").n_rows == 100
    shown = answer("info", "runs/a.zarr")
    assert (shown["n_rows"], shown["n_features"]) == (50, 3)
    os.mkdir("empty.zarr")
    assert "No group found" in refused("info", "empty.zarr")
    (days / "d0.csv").rename("runs/d0.csv")
    with pytest.raises(ParameterError, match="of several formats"):
        srf.open_source("runs", y="y")


def test_a_store_is_one_whatever_slashes_follow_its_name(days):
    """Where the first rows are equal, the name is part of what tells stores apart."""
    zarr = pytest.importorskip("zarr")
    for name in ("a.zarr", "b.zarr"):
        group = zarr.open_group(name, mode="w")
        group["X"], group["y"] = np.arange(200.0).reshape(100, 2), np.arange(100) % 2
        group["X"][:64] = 0.0
    features = srf.Identity()
    for entries in (["a.zarr", "a.zarr/"], ["a.zarr//", "a.zarr/."]):
        with pytest.raises(StreamrfError, match="counted twice"):
            srf.accumulate(srf.open_source(entries, x="X", y="y"), features)
    both = srf.open_source("*.zarr/", x="X", y="y")
    assert srf.accumulate(both, features).n_rows == 200


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz", "h5"])
def test_a_link_is_the_file_that_it_leads_to(days, ending):
    X, y = np.zeros((100, 2)), np.arange(100) % 2
    X[64:] = np.arange(72).reshape(36, 2)
    columns = {"a": X[:, 0], "b": X[:, 1], "y": y}
    if ending == "csv":
        np.savetxt("x.csv", np.column_stack([X, y]), "%g", ",", header="a,b,y", comments="")
    elif ending == "parquet":
        pyarrow.parquet.write_table(pyarrow.table(columns), "x.parquet")
    elif ending == "npz":
        np.savez("x.npz", X=X, y=y)
    else:
        with h5py.File("x.h5", "w") as file:
            file["X"], file["y"] = X, y
    os.symlink(f"x.{ending}", f"link.{ending}")
    with pytest.raises(StreamrfError, match="counted twice"):
        srf.accumulate(srf.open_source([f"x.{ending}", f"link.{ending}"], y="y"), srf.Identity())


def test_patterns_through_links_that_lead_back_are_refused(days):
    (days / "data" / "in").mkdir(parents=True)
    (days / "d0.csv").rename("data/in/d0.csv")
    assert srf.open_source("data/**/*.csv", y="y").n_rows == 100
    os.symlink("in", "data/also")
    os.symlink("..", "data/in/up")  # with two ways down, glob would never end
    with pytest.raises(StreamrfError, match="leads back to a folder above"):
        srf.open_source("data/**/*.csv", y="y")
    assert srf.open_source("data", y="y").n_rows == 100


def test_fits_and_figures_that_keep_no_sums_take_no_file_twice(days):
    os.symlink("d0.csv", "latest.csv")
    source = srf.open_source(["d0.csv", "d1.csv", "latest.csv"], y="y")
    model = srf.accumulate(srf.open_source("d[01].csv", y="y"), srf.Identity()).solve(1.0)
    for fit in (
        srf.KernelRidgeClassifier().fit,
        srf.RandomFeatureKMeans(2, srf.Identity()).fit,
        lambda rows: srf.refine(model, rows, loss="logistic"),
        model.evaluate,
        model.score,
    ):
        with pytest.raises(StreamrfError, match="would be counted twice"):
            fit(source)


def test_urls_of_outputs_and_models_show_no_passwords(days):
    url = "ftp://me:secret@host/m.h5"
    predict = ("predict", url, "d0.csv", "--output", "p.csv")
    lines = refused(*predict), refused("fit", "d0.csv", *SUMS, "--model", url)
    assert all("URL" in line for line in lines)
    assert "secret" not in "".join(lines)


def test_files_of_a_folder_that_are_left_out_are_told(days):
    (days / "data").mkdir()
    (days / "d0.csv").rename("data/d0.csv")
    (days / "d1.csv").rename("data/d1.csv.xz")
    (days / "data" / "README.txt").write_text("Two days.")
    with pytest.warns(StreamrfWarning, match=r"'d1.csv.xz' is left out of the folder") as caught:
        assert srf.open_source("data", y="y").n_rows == 100
    assert len(caught) == 1


@pytest.mark.parametrize("lines", [['{"a": 1, "b": 2}', "[1, 2]"], ["[1, 2]", '{"a": 1, "b": 2}']])
def test_arrays_and_objects_of_json_do_not_mix(tmp_path, lines):
    with pytest.raises(srf.errors.DataError, match=r"row 1 is an? .*, and rows before are"):
        open_text(lines, str(tmp_path / "rows.csv"))


def test_objects_within_objects_are_texts_that_no_model_needs(tmp_path):
    lines = ['{"a": 1, "more": {"b": [2, 3]}}', '{"a": 2, "more": null}']
    source = open_text(lines, str(tmp_path / "rows.csv"))
    learnt = srf.open_source(pyarrow.table({"a": [1.0, 2.0]})).columns
    (block,) = source.adapted(learnt).blocks(0, 2)
    np.testing.assert_array_equal(block.X, [[1], [2]])
    wanted = srf.open_source(pyarrow.table({"a": [1.0, 2.0], "more": ["x", "y"]})).columns
    with pytest.raises(srf.errors.DataError, match=r"row 0: 'more' is \{'b': \[2, 3\]\}; expected"):
        source.adapted(wanted)
    with pytest.raises(srf.errors.DataError, match=r"entry 1 is \[2\]; expected one value"):
        open_text(["[1, [2]]"], str(tmp_path / "rows.csv"))


@pytest.mark.parametrize("lines", [["[1, 2]", "[3, 4]"], ["1,2\n", "3,4\n"]])
def test_rows_without_names_are_read_by_place(tmp_path, lines):
    source = open_text(lines, str(tmp_path / "rows.csv"))
    learnt = srf.open_source(pyarrow.table({"b": [5.0, 2.0], "a": [1, 2]})).columns
    (block,) = source.adapted(learnt).blocks(0, 2)
    np.testing.assert_array_equal(block.X, [[1, 2], [3, 4]])
    of_words = srf.open_source(pyarrow.table({"b": [5.0, 2.0], "a": ["x", "y"]})).columns
    with pytest.raises(srf.errors.ShapeError, match=r"lacks \['b', 'a'\]"):
        source.adapted(of_words)


def test_texts_of_json_keep_their_line_ends(tmp_path):
    words = ["a\rb", "a\nb", "a\r\nb", 'a"b', "a,b", "x"]
    lines = [json.dumps({"n": i, "word": word}) + "\n" for i, word in enumerate(words * 5)]
    source = open_text(lines, str(tmp_path / "rows.csv"))
    assert source.n_rows == len(lines)
    assert sorted(source.columns.columns[1].levels) == sorted(words)


def test_records_are_told_as_records(tmp_path):
    with h5py.File(tmp_path / "p.h5", "w") as file:
        file["X"] = np.zeros(9, dtype=[("pt", "f8"), ("eta", "f8")])
    with pytest.raises(srf.errors.ShapeError, match=r"table of the columns .*pt.*open_source"):
        srf.HDF5Source(tmp_path / "p.h5", y=None)


def test_info_sizes_all_that_a_name_means(days):
    size = sum((days / f"d{day}.csv").stat().st_size for day in range(3))
    assert answer("info", "d*.csv")["bytes"] == size
    assert answer("info", f"file://{days}/d0.csv")["n_rows"] == 100


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz", "npy", "h5", "zarr"])
def test_what_is_no_file_in_a_folder_is_told_and_not_waited_for(tmp_path, ending):
    os.mkfifo(tmp_path / f"a.{ending}")
    with pytest.raises(SourceNotFoundError, match=rf"a\.{ending}' is a pipe; expected a file"):
        srf.open_source(tmp_path, y="y")
    os.unlink(tmp_path / f"a.{ending}")
    (tmp_path / f"b.{ending}").symlink_to("gone")
    with pytest.raises(SourceNotFoundError, match="is a link to 'gone', which is not there"):
        srf.open_source(tmp_path, y="y")


def test_a_file_of_names_alone_adds_no_rows_to_those_of_others(tmp_path):
    day = tmp_path / "day=1"
    day.mkdir()
    for name, rows in (("a", ""), ("b", "1,2\n3,4\n"), ("c", "")):
        (day / f"{name}.csv").write_text("x,y\n" + rows)
    for data in (tmp_path, [day / "a.csv", day / "b.csv"]):
        source = srf.open_source(data, y="y")
        assert source.n_rows == 2
        np.testing.assert_array_equal(source.sample(2).y, [2, 4])
    with pytest.raises(EmptySourceError, match="0 rows below the names of columns"):
        srf.open_source([day / "a.csv", day / "c.csv"], y="y")
    (day / "a.csv").write_text("x,y\n")
    (day / "b.csv").write_text("x,y,note\n1,2,3\n")  # of which not all is asked for
    assert srf.open_source(tmp_path, x="x", y="y").n_rows == 1
    (day / "a.csv").write_text("x,z\n")  # other names
    with pytest.raises(EmptySourceError, match=r"a\.csv: 0 rows below the names of columns"):
        srf.open_source(tmp_path, y="y")
    (day / "a.csv").write_bytes(b"x,y\r5,6\r")
    with pytest.raises(srf.errors.DataError, match=r"a\.csv has a carriage return"):
        srf.open_source(tmp_path, y="y")


def test_a_report_is_no_pdf(days):
    answer("fit", "d0.csv", *SUMS, "--model", "m.h5")
    assert "name it .html" in misused("report", "m.h5", "--output", "page.pdf")


def test_an_array_of_objects_is_told_as_such(tmp_path):
    with pytest.raises(srf.errors.DataError, match="array of objects; expected one object a line"):
        open_text(['[{"a": 1}, {"a": 2}]'], str(tmp_path / "rows.csv"))
