"""Bad input is met with one sentence: where, what was expected, what came, what to do."""

import os
import pickle
import re
import shutil
from decimal import Decimal
from pathlib import Path

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import scipy.sparse

from cases import write_hdf5
from streamrf import (
    Identity,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    RandomFeatureClassifier,
    RandomFeatureKMeans,
    RandomFeaturePCA,
    RandomFeatureRegressor,
    RandomFourier,
    accumulate,
    moments,
    select,
)
from streamrf.errors import (
    BadRowError,
    ConsumedError,
    CorruptFileError,
    DataError,
    DatasetNotFoundError,
    EmptySourceError,
    ParameterError,
    ShapeError,
    SourceNotFoundError,
    StorageError,
    StreamrfError,
)
from streamrf.sources import (
    ArraySource,
    Block,
    HDF5Source,
    IteratorSource,
    as_labels,
    as_source,
    check_rows,
    join_labels,
    open_source,
)
from streamrf.sources.paths import decoding
from streamrf.sources.validation import as_matrix, as_targets, weight_column

X = np.random.default_rng(0).normal(size=(1000, 20)).astype(np.float32)
Y = np.arange(1000) % 3


def refuses(error, *parts):
    """Expect `error` with a message of one line that has all parts, in this order."""
    return pytest.raises(error, match="^[^\n]*" + "[^\n]*".join(map(re.escape, parts)))


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A sound file, data.h5, in the folder that the test stands in."""
    monkeypatch.chdir(tmp_path)
    with h5py.File("data.h5", "w") as file:
        file.create_dataset("train/X", data=X, chunks=(100, 20), compression="gzip")
        file["train/y"] = Y
        file["train/short"] = Y[:990]
        file["train/names"] = [f"name {i}" for i in range(1000)]
        file["train/cube"] = np.zeros((1000, 2, 2))
        file["train/complex"] = X.astype(np.complex64)
        file["train/none"] = h5py.Empty("f4")
        file["train/scalar"] = 1.0
        file["train/narrow"] = np.zeros((1000, 0))
        file["norows"] = np.zeros((0, 3))
    return "data.h5"


# Files


def test_missing_file_names_those_that_are_like_it(path):
    with refuses(SourceNotFoundError, "no file 'dat.h5'", os.getcwd(), "near names", "['data.h5']"):
        HDF5Source("dat.h5")
    with refuses(SourceNotFoundError, "no file '/", "qqqq' in", "no name there is like it"):
        HDF5Source(os.path.abspath("qqqq"))
    with pytest.raises(FileNotFoundError):
        HDF5Source("dat.h5")


def test_missing_folder(path):
    with refuses(SourceNotFoundError, "no file 'nowhere/data.h5'", "no folder", "nowhere"):
        HDF5Source("nowhere/data.h5")


def test_a_folder_is_not_a_file(path):
    os.mkdir("sets")
    with refuses(
        SourceNotFoundError, "'sets' is a folder; expected HDF5 files, such as 'sets/*.h5"
    ):
        HDF5Source("sets")


def test_what_is_no_file_is_told(path):
    os.mkfifo("pipe.h5")
    os.symlink("gone.h5", "link.h5")
    for name, what in (
        ("pipe.h5", "a pipe"),
        ("link.h5", "a link to 'gone.h5', which is not there"),
        ("/dev/null", "a device"),
    ):
        for open_ in (HDF5Source, open_source):
            with refuses(SourceNotFoundError, f"'{name}' is {what}; expected a file"):
                open_(name)
    os.mkdir("sets")
    os.mkfifo("sets/pipe.csv")
    with refuses(SourceNotFoundError, "'sets/pipe.csv' is a pipe; expected a file"):
        open_source("sets")
    with refuses(SourceNotFoundError, "the path '' is empty"):
        open_source("")


def raising(error):
    def raise_it(*arguments, **options):
        raise error

    return raise_it


@pytest.mark.parametrize("name", ["data.h5", "a.csv", "a.npy", "a.svm"])
def test_a_file_of_another_owner_is_told_so(name, path, monkeypatch):
    """By a mock: the tests may run as root, who may read all."""
    Path(name).touch()
    denied = raising(PermissionError(13, "Unable to open file (flags = 0, o_flags = 0)"))
    monkeypatch.setattr(h5py, "File", denied)
    monkeypatch.setattr(pyarrow, "OSFile", denied)
    monkeypatch.setattr(np, "load", denied)
    with refuses(StorageError, f"{name} cannot be read: permission denied; ask its owner"):
        open_source(name, y=None)


def test_a_folder_of_another_owner_is_told_so(path, monkeypatch):
    os.mkdir("sets")
    monkeypatch.setattr(os, "scandir", raising(PermissionError(13, "Permission denied", "sets")))
    with refuses(StorageError, "the folder 'sets' cannot be read: Permission denied"):
        open_source("sets")
    monkeypatch.setattr(os, "access", lambda *arguments: False)
    with refuses(StorageError, "the folder '", "sets' cannot be read: permission denied"):
        open_source("sets/a.csv")


def test_a_pattern_that_matches_nothing(path):
    with refuses(SourceNotFoundError, "no file matches 'day*.h5' (looked for '/", "day*.h5"):
        HDF5Source("day*.h5")


def test_a_pattern_does_not_pass_over_what_it_matches(path, caplog):
    """Rows of a share that is not mounted, or of a folder of parts, were left out in silence."""
    for name in ("day1.csv", "day2.parquet/part.0.csv", "sets/a.csv"):
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "w") as file:
            file.write("a,y\n1,0\n2,1\n")
    with refuses(SourceNotFoundError, "'day2.parquet', which '*.parquet' matches, is a folder"):
        open_source("*.parquet", y="y")
    assert open_source("day1*", y="y").n_rows == 2
    assert not caplog.records
    os.mkdir("day1")
    assert open_source("day1*", y="y").n_rows == 2
    assert not caplog.records  # an empty folder has no rows
    os.mkdir("day1/more")
    assert open_source("day1*", y="y").n_rows == 2
    assert "'day1*' also matches the folder 'day1', which is not read" in caplog.text
    os.symlink("/gone/day3.csv", "day3.csv")
    with refuses(SourceNotFoundError, "'day3.csv' is a link to '/gone/day3.csv', which is not"):
        open_source("day*.csv", y="y")
    with refuses(SourceNotFoundError, "'day3.csv' is a link"):
        open_source("**/*.csv", y="y")


@pytest.mark.parametrize(
    ("log", "kind"),
    [("_delta_log/0.json", "Delta Lake"), ("metadata/1.metadata.json", "Iceberg")],
)
def test_folders_of_tables_with_removed_files_are_refused(log, kind, path):
    os.makedirs(os.path.dirname(f"sets/{log}"))
    for name in (log, "a.csv"):
        with open(f"sets/{name}", "w") as file:
            file.write("a,y\n1,0\n2,1\n")
    with refuses(DataError, f"'sets' is a table of {kind}, in whose folder"):
        open_source("sets", y="y")
    os.makedirs("sets/data/p=1")
    pyarrow.parquet.write_table(pyarrow.table({"a": [1], "y": [0]}), "sets/data/p=1/a.parquet")
    with refuses(DataError, f"'sets' is a table of {kind}, in whose folder"):
        open_source("sets/data/*/*.parquet", y="y")
    with refuses(DataError, f"'sets' is a table of {kind}, in whose folder"):
        open_source("sets/data", y="y")
    os.remove(f"sets/{log}")
    assert open_source("sets/data/*/*.parquet", y="y").n_rows == 1
    shutil.rmtree("sets/data")
    assert open_source("sets", y="y").n_rows == 2


@pytest.mark.parametrize("pattern", ["d*/a.csv", "**/*.csv", "d2/*.csv", "**/a.csv", "d?/**"])
def test_a_pattern_does_not_pass_over_folders_of_another_owner(pattern, path, monkeypatch):
    for folder in ("d1", "d2"):
        os.mkdir(folder)
        with open(f"{folder}/a.csv", "w") as file:
            file.write("a,y\n1,0\n2,1\n")
    assert open_source(pattern, y="y").n_rows == (2 if pattern == "d2/*.csv" else 4)
    monkeypatch.setattr(os, "access", lambda name, mode: name != "d2")
    with refuses(StorageError, "the folder 'd2' cannot be read: permission denied; ask its owner"):
        open_source(pattern, y="y")


def test_no_files_at_all():
    with refuses(SourceNotFoundError, "no files were given"):
        HDF5Source([])
    with refuses(SourceNotFoundError, "no files were given"):
        open_source([])


def test_one_missing_file_of_a_list(path):
    with refuses(SourceNotFoundError, "no file 'b.h5'"):
        HDF5Source([path, "b.h5"], x="train/X", y=None)


@pytest.mark.parametrize("content", [b"", b"plain text, not HDF5"])
def test_not_an_hdf5_file(content, path):
    with open("text.h5", "wb") as file:
        file.write(content)
    with refuses(CorruptFileError, "text.h5 cannot be opened as an HDF5 file (", "signature"):
        HDF5Source("text.h5")


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("rows.dat", "its ending '.dat' is none of .h5, .hdf5, .hdf, .h5ad, .csv,"),
        ("rows.csv.xz", "its ending '.xz' is none of .h5,"),
        ("rows", "its name has no ending, such as .h5,"),
    ],
)
@pytest.mark.parametrize("content", [b"", b"a,y\n1,0\n", bytes(600)])
def test_a_format_that_the_ending_does_not_say(name, ending, content, path):
    """It was told as a damaged HDF5 file."""
    Path(name).write_bytes(content)
    for data in (name, [path, name]):
        with refuses(DataError, f"{name} is of no known format: {ending}", "no option names"):
            open_source(data, "train/X", "train/y")


@pytest.mark.parametrize("block", [0, 512, 4096])
def test_hdf5_has_any_ending(block, path):
    with h5py.File("rows.dat", "w", userblock_size=block) as file:
        file["X"] = X
    assert open_source("rows.dat").n_rows == len(X)
    os.truncate("rows.dat", os.path.getsize("rows.dat") // 2)
    with refuses(CorruptFileError, "rows.dat cannot be opened as an HDF5 file", "truncated"):
        open_source("rows.dat")


@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_a_truncated_file(share, path):
    os.truncate(path, int(os.path.getsize(path) * share))
    with refuses(CorruptFileError, "data.h5 cannot be opened", "truncated"):
        HDF5Source(path, x="train/X", y="train/y")


def damage(path, dataset, chunk):
    """Overwrite some bytes in the middle of a chunk."""
    with h5py.File(path) as file:
        info = file[dataset].id.get_chunk_info(chunk)
    with open(path, "r+b") as file:
        file.seek(info.byte_offset + info.size // 2)
        file.write(bytes(64))


@pytest.mark.parametrize("layout", [{"compression": "gzip"}, {"fletcher32": True}])
def test_a_damaged_chunk_is_named_and_the_rows_before_it_are_given(layout, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_hdf5("a.h5", X, Y, chunks=(100, 20), **layout)
    damage("a.h5", "X", 5)
    source = HDF5Source("a.h5")
    blocks = source.blocks(block_rows=100)
    for _ in range(5):
        next(blocks)
    with refuses(CorruptFileError, "a.h5, dataset 'X': rows 500 to 599 cannot be read (", "copy"):
        next(blocks)
    assert len(list(source.blocks(600))) == 1
    with pytest.raises(OSError, match="rows 500 to 599"):
        list(source.blocks(500, block_rows=100))


def test_damaged_targets_are_named(path):
    with h5py.File(path, "a") as file:
        file.create_dataset("t", data=X[:, 0], chunks=(100,), fletcher32=True)
    damage(path, "t", 2)
    with refuses(CorruptFileError, "data.h5, dataset 't': rows 200 to 299 cannot be read"):
        list(HDF5Source(path, x="train/X", y="t").blocks(block_rows=100))


def test_damaged_first_rows_are_found_at_once(path):
    damage(path, "train/X", 0)
    with refuses(CorruptFileError, "data.h5, dataset 'train/X': rows 0 to 63"):
        HDF5Source(path, x="train/X", y=None)


def test_a_file_that_goes_away_or_shrinks(path):
    write_hdf5("a.h5", X, Y, chunks=(100, 20), maxshape=(None, 20))
    source = HDF5Source("a.h5", y=None)
    with h5py.File("a.h5", "a") as file:
        file["X"].resize(500, axis=0)
    with refuses(CorruptFileError, "a.h5, dataset 'X' has 500 rows but had 1000 when the source"):
        next(source.blocks())
    os.remove("a.h5")
    with refuses(SourceNotFoundError, "no file 'a.h5'", "; it has ['data.h5']"):
        next(source.blocks())


# Datasets


def test_missing_dataset_names_those_there_are(path):
    with refuses(
        DatasetNotFoundError,
        "data.h5 has no dataset 'train/Z'; it has ['norows', 'train/X', ",
        "'train/y'] of shapes [(0, 3), (1000, 20), ",
        "; name it with x= (--x)",
    ):
        HDF5Source(path, x="train/Z", y=None)
    with refuses(DatasetNotFoundError, "data.h5 has no dataset 'y'; it has", "with y= (--y)"):
        HDF5Source(path, x="train/X")
    with refuses(
        DatasetNotFoundError, "data.h5 has no dataset 'w'; it has", "weights= (--weights)"
    ):
        HDF5Source(path, x="train/X", y=None, weights="w")
    h5py.File("empty.h5", "w").close()
    with refuses(DatasetNotFoundError, "empty.h5 has no dataset 'X'; it has no dataset; name it"):
        HDF5Source("empty.h5")


def test_a_missing_dataset_is_a_key_error(path):
    with pytest.raises(KeyError):
        HDF5Source(path, x="train/Z", y=None)


@pytest.mark.parametrize(
    ("x", "parts"),
    [
        ("train", ["data.h5: 'train' is a group, not a dataset; it has ['norows', 'train/X'"]),
        ("train/y", ["dataset 'train/y' has shape (1000,); expected 2-D", "X.reshape(-1, 1)"]),
        ("train/scalar", ["dataset 'train/scalar' has shape (); expected 2-D"]),
        ("train/none", ["dataset 'train/none' is empty, without a shape"]),
        ("train/narrow", ["dataset 'train/narrow': 0 feature(s) (shape=(1000, 0))"]),
        ("train/complex", ["Complex data not supported: data.h5, dataset 'train/complex'"]),
    ],
)
def test_x_that_is_not_a_matrix_of_numbers(x, parts, path):
    with refuses(ShapeError, *parts):
        HDF5Source(path, x=x, y=None)


def test_x_of_strings(path):
    with h5py.File(path, "a") as file:
        file["words"] = [["a", "b"], ["c", "d"]]
    with refuses(ShapeError, "data.h5, dataset 'words' has dtype object; expected numbers"):
        HDF5Source(path, x="words", y=None)


@pytest.mark.parametrize(
    ("y", "parts"),
    [
        ("train/short", ["data.h5, dataset 'train/short' has 990 rows but X has 1000"]),
        ("train/cube", ["dataset 'train/cube' has shape (1000, 2, 2); expected (n_rows,) or"]),
        ("train/scalar", ["dataset 'train/scalar' has shape ()"]),
        ("train/complex", ["Complex data not supported: data.h5, dataset 'train/complex'"]),
    ],
)
def test_targets_that_do_not_fit(y, parts, path):
    with refuses(ShapeError, *parts):
        HDF5Source(path, x="train/X", y=y)


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        ("train/short", ["dataset 'train/short' has 990 rows but X has 1000"]),
        ("train/X", ["dataset 'train/X' has shape (1000, 20); expected one weight a row"]),
        ("train/names", ["dataset 'train/names' has dtype object; expected numbers"]),
    ],
)
def test_weights_that_do_not_fit(weights, parts, path):
    with refuses(ShapeError, *parts):
        HDF5Source(path, x="train/X", y=None, weights=weights)


def test_files_that_do_not_fit_each_other(path):
    write_hdf5("a.h5", X, Y)
    write_hdf5("b.h5", X[:, :7], Y)
    with refuses(ShapeError, "b.h5, dataset 'X' has 7 features but a.h5 has 20; all files"):
        HDF5Source(["a.h5", "b.h5"])
    write_hdf5("c.h5", X, Y.astype(np.str_))
    with refuses(
        ShapeError,
        "c.h5, dataset 'y' has strings of shape (n_rows,) but a.h5 has numbers of shape (n_rows,);",
    ):
        HDF5Source(["a.h5", "c.h5"])


def test_no_rows(path):
    with refuses(EmptySourceError, "data.h5, dataset 'norows': 0 rows; expected at least 1"):
        HDF5Source(path, x="norows", y=None)
    with refuses(EmptySourceError, "X: 0 sample(s) (shape=(0, 3)) while a minimum of 1"):
        ArraySource(np.zeros((0, 3)))
    for blocks in ([], [np.zeros((0, 3))], lambda: iter([])):
        for first_use in ("blocks", "sample", "n_features"):
            with refuses(EmptySourceError, "iterator: 0 rows; expected at least 1"):
                use(IteratorSource(blocks), first_use)


def use(source, name):
    return source.n_features if name == "n_features" else getattr(source, name)(1)


# Arrays


@pytest.mark.parametrize(
    ("rows", "error", "parts"),
    [
        ([1.0, 2.0], ShapeError, ["X has shape (2,); expected 2-D", "Reshape your data"]),
        (3.0, ShapeError, ["X has shape (); expected 2-D"]),
        (np.zeros((3, 0)), ShapeError, ["X: 0 feature(s) (shape=(3, 0)) while a minimum of 1"]),
        ([[1, 2], [3]], ShapeError, ["X is not a matrix: its rows differ in length"]),
        ([["a", "b"]], ShapeError, ["X has dtype <U1; expected numbers"]),
        (np.zeros((2, 2), "M8[s]"), ShapeError, ["X has dtype datetime64[s]; expected numbers"]),
        (np.zeros((2, 2), complex), ShapeError, ["Complex data not supported: X is complex128"]),
        (np.array([[1, {}]]), DataError, ["X holds objects that are not numbers (", "dict"]),
        (np.array([[1, "a"]], object), DataError, ["X holds text (", "give a DataFrame"]),
        (scipy.sparse.eye_array(3).tocsr(), DataError, ["X is a sparse", "(3, 3)", "toarray()"]),
    ],
)
def test_x_that_cannot_be_a_matrix(rows, error, parts):
    for convert in (lambda: as_matrix(rows, "X"), lambda: ArraySource(rows)):
        with refuses(error, *parts):
            convert()


@pytest.mark.parametrize(
    ("y", "error", "parts"),
    [
        ([0, 1, 2], ShapeError, ["y has 3 rows but X has 2; they must have the same rows"]),
        (1.0, ShapeError, ["y has shape (); expected (n_rows,) or (n_rows, n_targets)"]),
        (np.zeros((2, 2, 2)), ShapeError, ["y has shape (2, 2, 2)"]),
        (np.zeros((2, 0)), ShapeError, ["y has shape (2, 0); expected (n_rows,) or"]),
        ([[0], [0, 1]], ShapeError, ["y is ragged"]),
        (np.array(["a", None]), DataError, ["y, row 1 is missing (None); take such rows out"]),
        (np.array([float("nan"), "a"], object), DataError, ["y, row 0 is missing (nan); take"]),
        (np.array(["a", np.float32("nan")], object), DataError, ["y, row 1 is missing (np.float"]),
        (np.array(["a", np.datetime64("NaT")], object), DataError, ["y, row 1 is missing"]),
        (np.array(["a", Decimal("sNaN")], object), DataError, ["y, row 1: Decimal('sNaN') is not"]),
        (np.array(["a", 1], object), DataError, ["y, row 1: 1 is not a string; expected all"]),
        (np.array([1, "a"], object), DataError, ["y, row 1: 'a' is not a number"]),
        (np.array([[1, 2], [3, None]]), DataError, ["y, row 1 is missing (None)"]),
        (np.array([None, "a"]), DataError, ["y, row 0 is missing (None)"]),
        (np.zeros(2, complex), DataError, ["y has dtype complex128; expected numbers or strings"]),
        (np.zeros(2, "M8[s]"), DataError, ["y has dtype datetime64[s]"]),
        (np.array([b"\xff", b"a"]), DataError, ["y holds strings that are not UTF-8 text"]),
        (["a", "\udc80"], DataError, ["y, row 1: '\\udc80' holds", "surrogate", "rename it"]),
        (np.array(["a", "\udc80"], object), DataError, ["y, row 1: '\\udc80' holds"]),
        (np.array(["\0a", "b"]), DataError, ["y, row 0: '\\x00a' holds"]),
        (np.array(["a", "a\0"], object), DataError, ["y, row 1: 'a\\x00' holds"]),
        (np.array(["a", b"a\0"], object), DataError, ["y, row 1: 'a\\x00' holds"]),
        (np.array([b"\xff", b"a"], object), DataError, ["y holds strings that are not UTF-8 text"]),
        (scipy.sparse.eye_array(2).tocsr(), DataError, ["y is a sparse matrix", "toarray()"]),
    ],
)
def test_targets_that_cannot_be_used(y, error, parts):
    for convert in (lambda: as_targets(y, 2, "y"), lambda: ArraySource(np.eye(2), y)):
        with refuses(error, *parts):
            convert()


def test_labels_that_no_file_can_hold_are_refused_as_classes():
    with refuses(DataError, "'\\ud800b' holds a lone surrogate"):
        as_labels(["a", "\ud800b"])
    assert as_labels(np.array(["ü", "\U0001f600", ""])).tolist() == ["ü", "\U0001f600", ""]
    assert not len(as_labels(np.empty(0, "U0")))


def test_labels_of_lists_keep_the_nul_that_they_are_refused_for():
    """Arrays of NumPy's strings lose it at the end, and two classes were one."""
    X, y = np.arange(6.0)[:, np.newaxis], ["a", "a\0", "b"] * 2
    message = "y, row 1: 'a\\x00' holds a lone surrogate or NUL"
    for use in (RandomFeatureClassifier(Identity()).fit, KernelRidgeClassifier().fit, ArraySource):
        with refuses(DataError, message):
            use(X, y)
    with refuses(DataError, message.replace("y, row", "classes, row")):
        RandomFeatureClassifier(Identity()).partial_fit(X, ["a", "b", "b"] * 2, classes=y[:3])


def test_integers_that_no_label_can_be_are_refused_and_not_wrapped():
    """2^64 - 1 was the label -1."""
    y = np.array([2**63, 2**64 - 1, 5], dtype=np.uint64)
    with refuses(DataError, "the label 18446744073709551615 is beyond 9223372036854775807", "str"):
        as_labels(y)
    assert as_labels(y[2:]).tolist() == [5]
    assert not len(as_labels(y[:0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble])
def test_floats_that_integers_were_lost_in_are_no_labels(dtype):
    y = np.array([5, -(2**60), -(2**60) - 1], dtype=dtype)
    with refuses(DataError, "labels such as -1.1529215", "are floats of 2^53 or beyond"):
        as_labels(y)
    assert as_labels(np.array([2**52, np.nan, np.inf], dtype))[0] == 2**52
    assert as_labels(np.array([0.5], np.float16))[0] == 0.5
    assert not len(as_labels(y[:0]))


@pytest.mark.parametrize("name", ["rows.svm", "rows.csv", "decimals", "rows.h5"])
def test_great_labels_are_refused_and_not_joined(name, tmp_path):
    """They were classes that no file had, -2^63 or the next float."""
    labels = [2**63, 2**63 + 1, 5] * 4
    if name == "decimals":
        y = pyarrow.array([Decimal(label) for label in labels])
        source = open_source(pyarrow.table({"x": np.arange(12.0), "y": y}), y="y")
    elif name == "rows.h5":
        y = np.array(labels, np.longdouble)
        path = write_hdf5(tmp_path / name, np.arange(12.0)[:, np.newaxis], y)
        source = open_source(path, x="X", y="y")
    else:
        is_csv = name == "rows.csv"
        lines = [f"{i},{y}" if is_csv else f"{y} 1:{i}" for i, y in enumerate(labels)]
        (tmp_path / name).write_text("\n".join([*["x,y"] * is_csv, *lines]))
        source = open_source(tmp_path / name, y="y")
    with refuses(DataError, "labels such as 9.22337203685477", "are floats of 2^53 or beyond"):
        RandomFeatureClassifier(Identity()).fit(source)
    assert RandomFeatureRegressor(Identity(), alpha=1.0).fit(source).predict(source).max() > 2**61


def test_great_integers_are_not_joined_with_floats():
    """Two of them were one label then, and the sums of one were lost."""
    ours = np.array([2**53, 2**53 + 1])
    with refuses(DataError, "labels such as 9007199254740993 are integers beyond 2^53"):
        join_labels(ours, np.array([0.5]))
    assert len(join_labels(ours, np.array([3]))) == 3


def test_targets_that_can_be_used():
    cases = [
        (np.array(["a", b"b"], object), ["a", "b"]),
        (np.array([b"a", "ü".encode()]), ["a", "ü"]),
        (np.array(["a", "b"], dtype=np.dtypes.StringDType()), ["a", "b"]),
        (np.array([1, 2.5], object), [1.0, 2.5]),
        (np.array([True, False], object), [True, False]),
    ]
    for given, wanted in cases:
        got = as_targets(given, 2, "y")
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == np.array(wanted).dtype


@pytest.mark.parametrize(
    ("weights", "error", "parts"),
    [
        ([1.0], ShapeError, ["weights has 1 rows but X has 2"]),
        ([[1.0], [2.0]], ShapeError, ["weights has shape (2, 1); expected one weight a row"]),
        (["a", "b"], ShapeError, ["weights has dtype <U1; expected numbers"]),
        ([1.0, -2.0], DataError, ["X, row 1: the weight is -2.0, and weights are finite"]),
        ([np.nan, 1.0], DataError, ["X, row 0: the weight is NaN"]),
        ([1.0, np.inf], DataError, ["X, row 1: the weight is inf"]),
    ],
)
def test_weights_that_cannot_be_used(weights, error, parts):
    with refuses(error, *parts):
        check_rows(next(ArraySource(np.ones((2, 3)), weights=weights).blocks()), "raise")


@pytest.mark.filterwarnings("ignore:the .* rows of X looked at before the pass are all equal")
def test_masks_are_not_dropped():
    """What was hidden was learnt from."""
    X, y = np.ones((4, 2)), np.arange(4) % 2
    hidden = np.ma.masked_array(X, mask=[[0, 0], [1, 0], [0, 0], [0, 0]])
    features = RandomFourier(n_components=4)
    clf = RandomFeatureClassifier(features, alpha=1).fit(np.ma.masked_array(X), y)
    uses = [
        lambda: ArraySource(hidden, y),
        lambda: RandomFeatureClassifier(features, alpha=1).fit(hidden, y),
        lambda: clf.predict(hidden),
        lambda: next(IteratorSource([(hidden, y)]).blocks()),
    ]
    for use in uses:
        with refuses(DataError, "1 masked entries", "filled"):
            use()
    for use in (lambda y: ArraySource(X, y), lambda y: clf.fit(X, y)):
        with refuses(DataError, "y is an array with 2 masked entries"):
            use(np.ma.masked_array(y, mask=y > 0))


def fitted():
    return RandomFeatureClassifier(RandomFourier(n_components=8), alpha=1.0).fit(X, Y)


MASKED = np.ma.masked_array(X[:50], mask=X[:50] > 2.5)


@pytest.mark.parametrize(
    "use",
    [
        lambda: KernelRidgeClassifier().fit(MASKED, Y[:50]),
        lambda: KernelRidgeRegressor().fit(MASKED, Y[:50]),
        lambda: KernelRidgeRegressor().fit(X[:50], MASKED),
        lambda: KernelRidgeClassifier().fit(X[:50], np.ma.masked_less(Y[:50], 1)),
        lambda: KernelRidgeRegressor().fit(X[:50], Y[:50]).predict(MASKED),
        lambda: (
            KernelRidgeRegressor().fit(X[:50], Y[:50]).score(X[:50], np.ma.masked_less(Y[:50], 1))
        ),
        lambda: KernelRidgeRegressor().fit(X[:50], Y[:50], np.ma.masked_less(Y[:50], 1)),
        lambda: RandomFeaturePCA().fit(MASKED),
        lambda: RandomFeaturePCA().fit(X[:50]).transform(MASKED),
        lambda: RandomFeatureKMeans(2).fit(MASKED),
        lambda: RandomFeatureKMeans(2).fit(X[:50]).predict(MASKED),
        lambda: RandomFourier().fit(MASKED),
        lambda: RandomFourier().fit(X[:50]).transform(MASKED),
        lambda: RandomFeatureRegressor().fit(X[:50], Y[:50], np.ma.masked_less(Y[:50], 1)),
        lambda: RandomFeatureClassifier().fit(X[:50], Y[:50], np.ma.masked_less(Y[:50], 1)),
        lambda: fitted().score(X, np.ma.masked_less(Y, 1)),
        lambda: fitted().score(X, Y, np.ma.masked_less(Y, 1)),
    ],
)
def test_masks_are_dropped_by_no_estimator_or_map(use):
    """What was hidden was learnt from."""
    with refuses(DataError, "masked entries", "filled"):
        use()


def test_a_column_called_mask_masks_nothing():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "_mask": X[:, 0] > 0})
    assert KernelRidgeRegressor(n_rows=20).fit(frame, X[:, 0]).n_features_in_ == 2


def test_good_weights_become_float64():
    got = weight_column([1, 0], 2, "weights")
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, [1.0, 0.0])


def test_one_dataset_is_not_both_targets_and_weights(tmp_path):
    path = write_hdf5(tmp_path / "a.h5", X, Y)
    for use in (
        lambda: HDF5Source(path, y="y", weights="y"),
        lambda: open_source(path, y="y", weights="/y"),
        lambda: HDF5Source(path, y="y", weights="/.//y"),
    ):
        with refuses(ParameterError, "a.h5: 'y' is asked for both as targets and as weights"):
            use()


class Loader:
    """Batches as a loader of a deep learning library gives them."""

    def __len__(self):
        return 1

    def __iter__(self):
        yield X, Y


def test_what_is_not_rows_is_sent_to_the_right_source():
    source = ArraySource(X, Y)
    with refuses(ParameterError, "y was given with X; a source gives its own targets"):
        as_source(source, Y)
    with refuses(ParameterError, "weights was given with X; a source gives its own"):
        as_source(source, weights=Y)
    with refuses(ParameterError, "X is the path 'data.h5'; use open_source('data.h5', y="):
        as_source("data.h5")
    for stream in ((x for x in [X]), lambda: iter([X]), Loader()):
        with refuses(ParameterError, "X is a", "use open_source(X)"):
            as_source(stream)
    with refuses(ParameterError, "X is a Loader; use open_source(X)"):
        RandomFeatureClassifier().fit(Loader())
    fitted = RandomFeatureClassifier(RandomFourier(n_components=8)).fit(X, Y)
    for use in (fitted.predict, fitted.decision_function):
        for given, cure in ((Loader(), "open_source(X)"), ("a.h5", "open_source('a.h5'")):
            with refuses(ParameterError, f"use {cure}"):
                use(given)
    with refuses(ParameterError, "source must be a source of rows, got Loader", "IteratorSource"):
        accumulate(Loader())


# Windows


def windows(source):
    yield lambda: source.blocks(-1), "start=-1, stop=1000 of 1000 rows; expected 0 <= start"
    yield lambda: source.blocks(5, 3), "start=5, stop=3 of 1000 rows"
    yield lambda: source.blocks(1001), "start=1001, stop=1000 of 1000 rows"
    yield lambda: source.blocks(block_rows=0), "block_rows=0; expected at least 1"
    yield lambda: source.split(0), "parts=0; expected at least 1"
    yield lambda: source.sample(0), "a sample of 0 rows; expected at least 1"


def test_impossible_windows_are_refused_at_once(path):
    for source in (ArraySource(X, Y), HDF5Source(path, x="train/X", y=None)):
        for call, message in windows(source):
            with refuses(ParameterError, message):
                call()


def test_impossible_windows_leave_an_iterator_whole():
    source = IteratorSource(iter([(X, Y)]))
    for call in (lambda: source.blocks(-1), lambda: source.blocks(5, 3), lambda: source.sample(0)):
        with pytest.raises(ParameterError):
            call()
    assert sum(block.span for block in source.blocks()) == 1000


# Iterators


@pytest.mark.parametrize("blocks", [X, "data.h5", b"data.h5", {"X": X}, 7, None])
def test_what_gives_no_blocks(blocks):
    with refuses(ParameterError, f"blocks is a {type(blocks).__name__}; expected an iterator of"):
        IteratorSource(blocks)


FIRST = (X[:10], Y[:10])


@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        ((X[:5, :4], Y[:5]), ShapeError, "block 1 has 4 features but the first has 20; all blocks"),
        (X[:5], ShapeError, "block 1 has no y but the first has numbers of shape (n,) as y"),
        ((X[:5], Y[:5].astype(str)), ShapeError, "block 1 has strings of shape (n,) as y but"),
        ((X[:5], X[:5, :2]), ShapeError, "block 1 has numbers of shape (n, 2) as y but the first"),
        ((X[:5], Y[:5], Y[:5]), ShapeError, "block 1 has weights but the first has none"),
        ((X[:5], Y[:4]), ShapeError, "block 1, y has 4 rows but X has 5"),
        ((X[:5], Y[:5], Y[:3]), ShapeError, "block 1, weights has 3 rows but X has 5"),
        ((X[0], Y[:5]), ShapeError, "block 1, X has shape (20,); expected 2-D"),
        (([[1, 2], [3]], [0, 1]), ShapeError, "block 1, X is not a matrix: its rows differ"),
        ((X, Y, Y, Y), DataError, "block 1 is a tuple of 4; expected (X, y) or (X, y, weights)"),
        ((X[:5],), DataError, "block 1 is a tuple of 1; expected (X, y)"),
    ],
)
def test_a_block_unlike_the_first_is_named(item, error, message):
    blocks = IteratorSource(iter([FIRST, item])).blocks
    with refuses(error, "iterator, " + message):
        list(blocks(block_rows=10))


def test_errors_of_the_generator_pass_through():
    class OwnError(Exception):
        pass

    def breaks():
        for low in range(0, 300, 100):
            yield X[low : low + 100], Y[low : low + 100]
        raise OwnError("the line went dead")

    blocks = IteratorSource(breaks()).blocks(block_rows=100)
    assert [next(blocks).position for _ in range(3)] == [0, 100, 200]
    with pytest.raises(OwnError, match="the line went dead"):
        next(blocks)


def test_a_stream_that_broke_does_not_pass_for_one_that_ended():
    def breaks():
        yield FIRST
        raise OSError("the line went dead")

    source = IteratorSource(breaks())
    with pytest.raises(OSError, match="the line went dead"):
        source.sample(1000)
    with pytest.raises(ConsumedError):
        source.blocks()


def test_a_second_pass_over_an_iterator_is_refused():
    source = IteratorSource(iter([FIRST]))
    source.blocks()
    with refuses(ConsumedError, "has been read, and its rows come only once", "a function that"):
        source.blocks()


def test_a_function_that_gives_the_same_iterator_again_is_found_out():
    items = iter([FIRST])
    source = IteratorSource(lambda: items)
    assert len(list(source.blocks())) == 1
    with refuses(ConsumedError, "without rows the second time; it must make a new iterator"):
        source.blocks()


# Rows


def bad(X=X, y=Y, weights=None, kept=None):
    return Block(X, y, weights, 5000, "key", 2000, 1000, kept, "data.h5, dataset 'X'")


def spoilt(values, place, value):
    values = values.astype(np.float64)
    values[place] = value
    return values


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (bad(spoilt(X, (17, 3), np.nan)), "row 2017: column 3 is NaN; clean the data, or leave"),
        (bad(spoilt(X, (17, 0), np.inf)), "row 2017: column 0 is inf;"),
        (bad(spoilt(X, (17, 0), -np.inf)), "row 2017: column 0 is -inf;"),
        (
            bad(spoilt(X, (17, 3), -1e151)),
            "row 2017: column 3 is -1e+151, and beyond 1e+150",
        ),
        (bad(y=spoilt(Y, 999, 1.7e308)), "row 2999: the target is 1.7e+308, and beyond 1e+150"),
        (bad(y=Y.astype(np.longdouble) * np.longdouble("1e400")), "row 2001: the target is"),
        (bad(weights=spoilt(Y, 4, 1e160)), "row 2004: the weight is 1e+160, and beyond 1e+150"),
        (bad(y=spoilt(Y, 999, np.nan)), "row 2999: the target is NaN;"),
        (bad(y=spoilt(X[:, :2], (4, 1), np.inf)), "row 2004: the target is inf;"),
        (bad(weights=spoilt(Y, 4, np.nan)), "row 2004: the weight is NaN, and weights are finite"),
        (bad(weights=spoilt(Y, 4, -1)), "row 2004: the weight is -1.0, and weights are finite"),
        (bad(spoilt(X, [8, 9, 11], np.nan)), "row 2008: column 0 is NaN (3 such rows in this"),
        (
            bad(spoilt(X[:2], (1, 0), np.nan), Y[:2], kept=np.array([3, 70])),
            "row 2070: column 0 is NaN;",
        ),
    ],
)
def test_a_bad_row_is_named(block, message):
    with refuses(BadRowError, "data.h5, dataset 'X', " + message, "on_bad_rows='skip'"):
        check_rows(block, "raise")


def test_missing_values_of_an_array_are_told_where_they_would_be_filled_in():
    pandas = pytest.importorskip("pandas")
    rows, cure = spoilt(X, (17, 3), np.nan), "or train on a table (CSV, a pandas frame), where"
    with refuses(BadRowError, cure):
        check_rows(bad(rows), "raise")
    for other in (bad(spoilt(X, (17, 3), np.inf)), bad(y=spoilt(Y, 9, np.nan))):
        with pytest.raises(BadRowError) as caught:  # which tables do not fill in
            check_rows(other, "raise")
        assert cure not in str(caught.value)
    frame = open_source(pandas.DataFrame(rows).rename(columns=str), y=Y)
    assert "3 missing" in frame.columns.outputs
    assert np.isfinite(np.concatenate([block.X for block in frame.blocks()])).all()


def test_a_bad_row_of_a_sample_is_named_by_its_place_in_the_file(path):
    with h5py.File(path, "a") as file:
        file["train/X"][995] = np.nan
    sample = HDF5Source(path, x="train/X", y=None).sample(900)
    with refuses(BadRowError, "data.h5, dataset 'train/X', row 995: column 0 is NaN"):
        check_rows(sample, "raise")


def test_another_policy_for_bad_rows_is_refused():
    with refuses(ParameterError, "on_bad_rows must be one of ('raise', 'skip'), got 'drop'"):
        check_rows(bad(), "drop")


def test_every_error_is_deliberate_and_survives_a_process_border(path):
    with pytest.raises(StreamrfError) as caught:
        HDF5Source(path, x="train/Z", y=None)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy)) == (type(caught.value), str(caught.value))


@pytest.mark.parametrize("name", ["X.npy", "y.npy", "both.npz"])
def test_python_objects_in_numpy_files_are_not_damage(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = np.eye(3), np.array(["a", "b", None], dtype=object)
    np.save("X.npy", y if name == "X.npy" else X, allow_pickle=True)
    np.save("y.npy", y if name == "y.npy" else X[0], allow_pickle=True)
    np.savez("both.npz", X=X, y=y)
    where, target = ("both.npz", "y") if name == "both.npz" else ("X.npy", "y.npy")
    with refuses(DataError, f"{name} holds Python objects, which are not read", "astype(str)"):
        open_source(where, y=target)


@pytest.mark.parametrize("error", [RuntimeError("bad header"), MemoryError("malloc of 2 PiB")])
def test_whatever_a_library_raises_of_damaged_bytes_is_one_error(error):
    with refuses(CorruptFileError, f"a.zarr cannot be read ({error})"), decoding("a.zarr"):
        raise error


def test_what_says_nothing_of_the_bytes_is_no_damage():
    with refuses(StorageError, "full"), decoding("a.zarr"):
        raise StorageError("full")
    with refuses(StorageError, "a.zarr cannot be read: another program"), decoding("a.zarr"):
        raise BlockingIOError("locked")


# Arguments of Python


@pytest.mark.parametrize("read", [accumulate, select, moments])
def test_rows_that_are_no_source_are_refused(read):
    more = [RandomFourier()] if read is accumulate else []
    with refuses(ParameterError, "source must be a source", "ndarray; give ArraySource(X, y), "):
        read(X, *more)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 5}, "rows must be (start, stop), two integers, or None as stop, got 5"),
        ({"rows": (0.0, 30.5)}, "rows must be (start, stop), two integers, or None as stop"),
        ({"rows": (1, 2, 3)}, "rows must be (start, stop)"),
        ({"n_threads": "2"}, "n_threads must be an integer of at least 1, got '2'"),
        ({"n_threads": 0}, "n_threads must be an integer of at least 1, got 0"),
        ({"checkpoint": 5}, "checkpoint must be a path, got 5"),
        ({"checkpoint_every": "5s"}, "checkpoint_every must be seconds, at least 0, got '5s'"),
        ({"progress": 3}, "progress must be a function, got 3"),
        ({"random_state": "a"}, "random_state must be an integer of at least 0, a RandomState or"),
        ({"random_state": -1}, "random_state must be an integer of at least 0"),
    ],
)
def test_options_of_another_kind_are_refused(options, message):
    with refuses(ParameterError, message):
        accumulate(ArraySource(X, Y), RandomFourier(), **options)


def test_a_path_may_be_bytes(path):
    for source in (HDF5Source(b"data.h5", "train/X", None), open_source(b"data.h5", "train/X")):
        assert (source.n_rows, source.where) == (1000, "data.h5, dataset 'train/X'")


@pytest.mark.parametrize("ending", ["npy", "npz", "csv", "parquet", "arrow"])
@pytest.mark.parametrize("wanted", [np.arange(3), 5, 3.5, True, ["y", 1]])
@pytest.mark.parametrize("role", ["x", "y", "weights"])
def test_what_is_no_name_of_a_part_of_files(ending, wanted, role, tmp_path):
    (tmp_path / f"rows.{ending}").touch()
    with pytest.raises(ParameterError, match=f"{role} of files is the name of"):
        open_source(tmp_path / f"rows.{ending}", **{role: wanted})


def test_a_path_names_the_file_beside(tmp_path):
    np.save(tmp_path / "X.npy", np.eye(3))
    np.save(tmp_path / "labels.npy", np.arange(3))
    source = open_source(tmp_path / "X.npy", y=tmp_path / "labels.npy")
    np.testing.assert_array_equal(next(source.blocks()).y, np.arange(3))
