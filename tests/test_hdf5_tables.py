"""Tables in HDF5 files: records, frames of pandas, vaex, and columns that are each a dataset."""

import json
import pickle
import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy
from typer.testing import CliRunner

import streamrf as srf
from integers import assert_same_bytes
from streamrf.cli import app
from streamrf.errors import (
    BadRowError,
    ChangedFileError,
    CorruptFileError,
    DataError,
    DatasetNotFoundError,
    EmptySourceError,
    MergeError,
    ParameterError,
    ShapeError,
    StreamrfWarning,
)
from streamrf.sources import hdf5_chunks, open_source

N = 500
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(N, 3)).astype(np.float32), columns=["pt", "eta", "phi"])
FRAME["run"] = RNG.integers(1, 9, N).astype(np.int16)
FRAME["label"] = (FRAME.pt * FRAME.eta > 0).astype(np.int32)
MAP = srf.RandomFourier(srf.Gaussian(0.3), 16, random_state=0)

# --------------------------------------------------------------------- what libraries write


def write_records(path, frame, name="events", **layout):
    with h5py.File(path, "a") as file:
        file.create_dataset(name, data=frame.to_records(index=False), **layout)
    return str(path)


def write_loose(path, frame, name="events", **layout):
    with h5py.File(path, "a") as file:
        for column in frame:
            values = frame[column].to_numpy()
            if values.dtype.kind in "OUT":
                values = values.astype(object)
                layout = layout | {"dtype": h5py.string_dtype()}
            file.create_dataset(f"{name}/{column}", data=values, **layout)
    return str(path)


def bits(group, name, values):
    """Write true and false as PyTables does, which h5py has no word for."""
    space = h5py.h5s.create_simple(values.shape)
    made = h5py.h5d.create(group.id, name.encode(), h5py.h5t.STD_B8LE, space)
    made.write(space, space, np.ascontiguousarray(values, np.uint8), mtype=h5py.h5t.STD_B8LE)


def blocks_of(frame):
    """Yield the columns of a frame that have one type."""
    for dtype in dict.fromkeys(frame.dtypes):
        yield dtype, [name for name in frame if frame[name].dtype == dtype]


def write_fixed(path, frame, name="df", **layout):
    """Write a frame as `to_hdf(format="fixed")` does."""
    with h5py.File(path, "a") as file:
        group = file.create_group(name)
        group.attrs["pandas_type"], group.attrs["encoding"] = np.bytes_("frame"), np.bytes_("UTF-8")
        group["axis0"] = names_of(frame)
        for place, (dtype, names) in enumerate(blocks_of(frame)):
            group[f"block{place}_items"] = names_of(frame[names])
            values, key = frame[names].to_numpy(), f"block{place}_values"
            if dtype.kind in "OT":
                objects = group.create_dataset(key, (1,), h5py.vlen_dtype(np.uint8))
                objects.attrs["CLASS"] = np.bytes_("VLARRAY")
            elif dtype.kind == "b":
                bits(group, key, values)
            else:
                made = group.create_dataset(key, data=plain(values), **layout)
                if dtype.kind in "mM":
                    made.attrs["value_type"] = np.bytes_(str(dtype))
            group.attrs["nblocks"] = place + 1
    return str(path)


def write_table(path, frame, name="df", data_columns=False, **layout):
    """Write a frame as `to_hdf(format="table")` does."""
    fields, attributes = {"index": np.arange(len(frame))}, {"index_kind": np.bytes_("integer")}
    categories = {}
    blocks = [(frame[one].dtype, [one]) for one in frame] if data_columns else blocks_of(frame)
    for place, (dtype, names) in enumerate(blocks):
        field = names[0] if data_columns else f"values_block_{place}"
        values = frame[names]
        if isinstance(dtype, pd.CategoricalDtype):
            categories[field] = frame[names[0]].cat.categories
            stored = frame[names[0]].cat.codes.to_numpy().astype(np.int8)[:, None]
            attributes[f"{field}_meta"] = np.bytes_("category")
        elif dtype.kind in "OT":
            stored = values.fillna("nan").to_numpy().astype("S")
        else:
            stored = plain(values.to_numpy())
        attributes[f"{field}_kind"] = np.bytes_(pickle.dumps(names, 0))
        attributes[f"{field}_dtype"] = np.bytes_(str(dtype))
        fields[field] = stored[:, 0] if data_columns else stored
    records = np.empty(
        len(frame), [(key, values.dtype, values.shape[1:]) for key, values in fields.items()]
    )
    for key, values in fields.items():
        records[key] = values
    with h5py.File(path, "a") as file:
        group = file.create_group(name)
        group.attrs["pandas_type"] = np.bytes_("frame_table")
        group.attrs["nan_rep"] = np.bytes_(pickle.dumps(None, 0))  # which means "nan"
        group.attrs["levels"] = np.int64(1)
        made = group.create_dataset("table", data=records, **layout)
        made.attrs.update(attributes)
        group.create_dataset("_i_table/index/bounds", data=np.zeros((2, 3)))
        for field, levels in categories.items():
            known = np.array([text.encode() for text in levels])
            rows = np.empty(len(known), [("index", "i8"), ("values", known.dtype)])
            rows["values"] = known
            group[f"meta/{field}/meta/table"] = rows
    return str(path)


def names_of(frame):
    names = list(frame.columns)
    return np.array([name.encode() if isinstance(name, str) else name for name in names])


def plain(values):
    return values.astype(np.uint8) if values.dtype.kind == "b" else as_integers(values)


def as_integers(values):
    return values.view(np.int64) if values.dtype.kind in "mM" else values


def write_vaex(path, frame, name="table"):
    with h5py.File(path, "a") as file:
        file.create_group(name).attrs["type"] = "table"
        file.create_group(f"{name}/columns").attrs["column_order"] = ",".join(frame)
        for column in frame:
            group, values = file.create_group(f"{name}/columns/{column}"), frame[column]
            if isinstance(values.dtype, pd.Int64Dtype):
                group["mask"], values = values.isna().to_numpy(), values.fillna(0).astype(np.int64)
            group["data"] = as_integers(values.to_numpy())
            if values.dtype.kind in "mM":
                group["data"].attrs["dtype"] = str(values.dtype)
    return str(path)


WRITERS = {
    "records": write_records,
    "loose": write_loose,
    "fixed": write_fixed,
    "table": write_table,
    "data columns": lambda *args, **layout: write_table(*args, data_columns=True, **layout),
    "vaex": write_vaex,
}
GZIP = {"compression": "gzip", "shuffle": True}
CHUNKED = {"chunks": (70,), **GZIP}


def read(source, block_rows=64):
    blocks = list(source.blocks(block_rows=block_rows))
    targets = None if blocks[0].y is None else np.concatenate([block.y for block in blocks])
    return np.concatenate([block.X for block in blocks]), targets


def assert_same_rows(source, frame, **roles):
    """A source has the columns and rows of a frame in memory."""
    other = open_source(frame, **roles)
    assert source.columns.outputs == other.columns.outputs
    for found, expected in zip(read(source), read(other), strict=True):
        np.testing.assert_array_equal(found, expected)


# --------------------------------------------------------------------- rows


@pytest.mark.parametrize("layout", [{}, CHUNKED])
@pytest.mark.parametrize("kind", WRITERS)
def test_rows_are_those_of_the_frame(tmp_path, kind, layout, monkeypatch):
    monkeypatch.setattr(hdf5_chunks, "TASK_BYTES", 300)
    if layout and kind == "fixed":
        layout = layout | {"chunks": True}
    if layout and kind == "vaex":
        pytest.skip("vaex writes no chunks")
    path = WRITERS[kind](tmp_path / "rows.h5", FRAME, **layout)
    source = open_source(path, y="label")
    assert source.row_shape == () or source.n_features == 4
    order = sorted(FRAME) if kind == "loose" else list(FRAME)
    assert_same_rows(source, FRAME[order], y="label")
    a, b = (
        srf.accumulate(s, MAP, normalize="standard", random_state=0)
        for s in (source, open_source(FRAME[order], y="label"))
    )
    assert_same_bytes(a.to_tree(), b.to_tree() | {"ledger": a.ledger.to_tree()})
    some = [block.X for block in source.blocks(3, 90, block_rows=50)]
    np.testing.assert_array_equal(np.concatenate(some), read(source)[0][3:90])


MIXED = FRAME.assign(
    when=pd.date_range("2020-01-01", periods=N, freq="37h"),
    took=pd.to_timedelta(np.arange(N), unit="s"),
    flag=RNG.random(N) < 0.5,
)
MIXED.loc[::9, "when"] = pd.NaT
MIXED.loc[::11, "pt"] = np.nan


@pytest.mark.parametrize("kind", ["fixed", "table", "data columns"])
def test_dates_flags_and_holes_of_pandas(tmp_path, kind):
    path = WRITERS[kind](tmp_path / "rows.h5", MIXED)
    assert_same_rows(open_source(path, y="label"), MIXED, y="label")


@pytest.mark.parametrize("kind", ["table", "data columns"])
def test_text_and_categories_of_pandas(tmp_path, kind):
    words = np.array(["muon", "jet", "tau"], object)[RNG.integers(0, 3, N)]
    frame = FRAME.assign(word=words, level=pd.Categorical(words, ["tau", "muon", "jet", "none"]))
    frame.loc[::7, ["word", "level"]] = None
    path = WRITERS[kind](tmp_path / "rows.h5", frame)
    assert_same_rows(open_source(path, y="label"), frame, y="label")
    whole = frame.dropna().reset_index(drop=True)
    path = WRITERS[kind](tmp_path / "whole.h5", whole)
    assert_same_rows(open_source(path, y="word"), whole, y="word")
    assert_same_rows(open_source(path, y="level"), whole, y="level")


def test_frames_that_pandas_wrote(tmp_path):
    pytest.importorskip("tables")
    words = np.array(["muon", "jet"], object)[RNG.integers(0, 2, N)]
    mixed = MIXED.assign(word=words, level=pd.Categorical(words))
    mixed.to_pickle(tmp_path / "mixed.pkl")
    write = (
        "import sys, pandas as pd; frame = pd.read_pickle('mixed.pkl')\n"
        "frame.drop(columns=['word', 'level']).to_hdf('fixed.h5', key='df', complevel=5)\n"
        "frame.to_hdf('table.h5', key='df', format='table')\n"
        "frame.to_hdf('columns.h5', key='df', format='table', data_columns=True, complevel=5)\n"
    )
    subprocess.run([sys.executable, "-c", write], check=True, cwd=tmp_path)  # with its own library
    for name in ("fixed", "table", "columns"):
        frame = mixed.drop(columns=["word", "level"]) if name == "fixed" else mixed
        assert_same_rows(open_source(tmp_path / f"{name}.h5", y="label"), frame, y="label")


def test_levels_of_an_index_are_left_out(tmp_path, caplog):
    path = write_table(tmp_path / "rows.h5", FRAME)
    with h5py.File(path, "a") as file:
        file["df"].attrs["levels"] = np.bytes_(pickle.dumps(["run"], 0))
    assert "run" not in open_source(path, y="label").columns.outputs
    assert "run, the index of pandas, is left out" in caplog.text
    assert open_source(path, x="run", y="label").columns.outputs == ("run",)


def test_records_in_records_and_several_values_in_a_field(tmp_path):
    dtype = np.dtype([("p", [("x", "f4"), ("y", ">f8")]), ("hits", "i2", (2, 2)), ("ok", "?")])
    rows = np.zeros(5, dtype)
    rows["p"]["y"], rows["hits"] = np.arange(5), np.arange(20).reshape(5, 2, 2)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["a/events"] = rows
    source = open_source(tmp_path / "rows.h5")
    names = ("p.x", "p.y", "hits_0", "hits_1", "hits_2", "hits_3", "ok")
    assert source.columns.outputs == names
    X, _ = read(source)
    np.testing.assert_array_equal(X[:, 1], np.arange(5))
    np.testing.assert_array_equal(X[:, 2:6], np.arange(20).reshape(5, 4))


@pytest.mark.parametrize("dtype", ["f2", ">f4", "f8", "g", "?", "i1", ">u2", "i8"])
def test_numbers_of_any_width(tmp_path, dtype):
    values = (np.arange(60) % 2 if dtype == "?" else np.arange(60)).astype(dtype)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["a"], file["b"] = values, np.arange(60)[:, None]
    X, _ = read(open_source(tmp_path / "rows.h5"))
    np.testing.assert_array_equal(X, np.c_[values.astype(float), np.arange(60)])


def test_loose_columns_of_the_most_frequent_length(tmp_path):
    path = write_loose(tmp_path / "rows.h5", FRAME, "g")
    with h5py.File(path, "a") as file:
        file["g/band"], file["g/scalar"] = np.arange(7.0), 3.0
        file["g/time"] = np.zeros(N)
        file["g/time"].attrs["NAME"] = np.bytes_("This is a netCDF dimension but not a netCDF v")
        file["g/lost"] = h5py.SoftLink("/nowhere")
        file["g/time"].attrs["NAME"] = np.bytes_(
            "This is a netCDF dimension but not a netCDF variable.       500"
        )
    assert_same_rows(open_source(path, y="label"), FRAME[sorted(FRAME)], y="label")


def test_the_numbers_of_rows_that_xarray_writes_are_no_column(tmp_path):
    path = write_loose(tmp_path / "rows.h5", FRAME, "")
    with h5py.File(path, "a") as file:
        file["index"], file["day"] = np.arange(N), np.arange(N) % 7
        for name in ("index", "day"):
            file[name].make_scale(name)
            file["eta"].dims[0].attach_scale(file[name])
    with_days = FRAME.assign(day=np.arange(N) % 7)
    assert_same_rows(open_source(path, y="label"), with_days[sorted(with_days)], y="label")
    assert open_source(path, x="index,eta", y="label").n_features == 2


def test_several_files_and_what_differs(tmp_path):
    first = write_records(tmp_path / "a.h5", FRAME[:200])
    write_fixed(tmp_path / "b.h5", FRAME[200:], "events")
    assert_same_rows(open_source(str(tmp_path / "*.h5"), y="label"), FRAME, y="label")
    write_records(tmp_path / "c.h5", FRAME.drop(columns="eta"))
    with pytest.raises(ShapeError, match=r"lacks the columns \['eta'\]"):
        open_source(str(tmp_path / "*.h5"), y="label")
    with pytest.raises(DatasetNotFoundError, match=r"d.h5.*has the tables \['others'\]"):
        open_source([first, write_records(tmp_path / "d.h5", FRAME, "others")], x="others")


# --------------------------------------------------------------------- names


@pytest.fixture
def file(tmp_path):
    path = write_records(tmp_path / "rows.h5", FRAME)
    with h5py.File(path, "a") as handle:
        handle["kinds"], handle["pairs"] = FRAME.label.to_numpy(), np.ones((N, 2))
        handle["images"] = RNG.normal(size=(N, 4, 4, 2))
        handle["short"] = np.arange(3)
    write_loose(path, FRAME[["pt", "eta"]], "loose")
    return path


COLUMNS = ("pt", "eta", "phi", "run")


@pytest.mark.parametrize(
    ("x", "y", "columns"),
    [
        ("events", "label", COLUMNS),
        ("/events/", "/events/label", COLUMNS),
        ("events,-run", "label", COLUMNS[:3]),
        (["events/pt", "events/run"], "label", ("pt", "run")),
        ("events/p*", "events/label", ("pt", "phi")),
        ("events/pt,run", "label", ("pt", "run")),
        ("events", "kinds", (*COLUMNS, "label")),
        ("events,-label", "kinds", COLUMNS),
        ("loose", "events/label", ("eta", "pt")),
        ("loose/pt", "events/label", ("pt",)),
        ("loose/pt", "loose/eta", ("pt",)),
        ("pairs", "pairs/0", ("1",)),
        ("pairs/1", "kinds", ("1",)),
        ("images", "kinds", None),
        ("images", "events/label", None),
        ("images", "pairs/0", None),
        ("images", "loose/pt", None),
    ],
)
def test_names_of_tables_and_columns(file, x, y, columns):
    source = open_source(file, x=x, y=y)
    assert (source.columns and source.columns.outputs) == columns
    X, found = read(source)
    table = y.strip("/").rpartition("/")[0]
    expected = (
        np.ones(N)
        if table == "pairs"
        else FRAME[y.strip("/").rpartition("/")[2].replace("kinds", "label")]
    )
    np.testing.assert_array_equal(found, expected)
    if columns is not None and set(columns) <= {*FRAME}:
        np.testing.assert_array_equal(X, FRAME[list(columns)])


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (None, None, DatasetNotFoundError, "no dataset 'X'"),
        (None, "kinds", DatasetNotFoundError, "no dataset 'X'"),
        ("events", "nix", DatasetNotFoundError, r"events' has no column 'nix'.*--y"),
        ("events", "short", CorruptFileError, "'short' has 3 rows, and others have 500"),
        ("events/nix", "label", DatasetNotFoundError, "has no column 'nix'.*--x"),
        ("nix", "label", DatasetNotFoundError, "has no dataset 'nix'"),
        ("events/pt", "events/pt", ParameterError, "both as X and as target"),
        ("images", "events", ShapeError, r"'events' is a table of the columns \['pt', 'eta'"),
        ("images", "events/nix", DatasetNotFoundError, "no dataset 'events/nix'"),
    ],
)
def test_names_that_mean_nothing(file, x, y, error, message):
    with pytest.raises(error, match=message):
        open_source(file, x=x, y=y)


def test_a_table_is_found_by_its_target(tmp_path):
    path = write_records(tmp_path / "rows.h5", FRAME)
    write_loose(path, FRAME[["pt", "eta"]], "loose")
    assert open_source(path, y="label").columns.outputs == COLUMNS
    assert open_source(path, y="loose/pt").columns.outputs == ("eta",)
    with pytest.raises(DatasetNotFoundError):  # both have it
        open_source(path, y="pt")


@pytest.mark.parametrize("y", [None, "labels", "meta/kind"])
def test_the_only_rows_need_no_name(tmp_path, y):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["images"], file["labels"] = np.ones((9, 2, 2)), np.arange(9)
        file["names"] = np.arange(9)
        file["meta/kind"], file["few"] = np.arange(9), np.ones((3, 2))
        if y is None:
            del file["few"]
    source = open_source(tmp_path / "rows.h5", y=y)
    assert source.where.endswith("dataset 'images'")
    assert source.row_shape == (2, 2)


def test_a_group_with_rows_and_targets_is_no_table(tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["train/X"], file["train/y"], file["train/w"] = (
            np.ones((9, 2)),
            np.arange(9),
            np.ones(9),
        )
    with pytest.raises(ShapeError, match="'train' is a group"):
        open_source(tmp_path / "rows.h5", x="train")
    with pytest.raises(ShapeError, match="'train' is a group"):
        srf.HDF5Source(tmp_path / "rows.h5", x="train")


def test_the_source_of_datasets_tells_of_tables(file):
    with pytest.raises(ShapeError, match=r"'events' is a table of the columns.*open_source"):
        srf.HDF5Source(file, "events", None)


# --------------------------------------------------------------------- models and commands


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output + result.stderr
    return result.stdout


def test_commands_need_no_name_of_the_table(tmp_path):
    train = write_fixed(tmp_path / "train.h5", FRAME[:400])
    test = write_records(tmp_path / "test.h5", FRAME[FRAME.columns[::-1]][400:])
    model, out = tmp_path / "m.h5", tmp_path / "out.csv"
    words = ("--map", "fourier", "--kernel", "gaussian", "--gamma", "0.3", "--components", 64)
    told = json.loads(run("fit", train, "--y", "label", *words, "--model", model, "--json"))
    assert told["n_rows"] == 400
    told = json.loads(run("evaluate", model, test, "--y", "label", "--json"))
    assert told["error"] < 0.3
    run("predict", model, test, "-o", out)
    clf = srf.load_model(model)
    np.testing.assert_array_equal(pd.read_csv(out).y, clf.predict(FRAME[list(COLUMNS)][400:]))
    shown = run("info", train)
    assert "df    400, table of 5 columns: pt, eta, phi, run, label" in shown


def test_a_model_of_a_table_refuses_another(tmp_path):
    path = write_records(tmp_path / "a.h5", FRAME)
    model = srf.accumulate(open_source(path, y="label"), MAP, normalize="standard").solve(1e-3)
    lacking = write_records(tmp_path / "b.h5", FRAME.drop(columns="phi"))
    with pytest.raises(ShapeError, match=r"lacks \['phi'\]"):
        model.predict(open_source(lacking, y="label"))


# --------------------------------------------------------------------- faults


@pytest.mark.parametrize("group", ["group/", ""])
@pytest.mark.parametrize(
    ("x", "columns"),
    [
        ("{0}pt,{0}p", ["pt", "p_0", "p_1"]),
        (["{0}p", "{0}u"], ["p_0", "p_1", "u"]),
        ("{0}u,p_1", ["u", "p_1"]),
        ("{0}u,pt", ["u", "pt"]),
        ("{0}p*,{0}u", ["p_0", "p_1", "pt", "u"]),
        ("-{0}u,-u", ["pt"]),  # rows of several numbers are no columns unless they are named
        ("{0}*,-p,-cls", ["pt", "u"]),
    ],
)
def test_columns_beside_rows_of_numbers(tmp_path, group, x, columns):
    names = [x.format(group)] if isinstance(x, str) else [name.format(group) for name in x]
    rows = {"pt": RNG.normal(size=N), "u": RNG.normal(size=N), "p": RNG.normal(size=(N, 2))}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file[f"{group}cls"] = RNG.integers(0, 2, N)
        for name, values in rows.items():
            file[f"{group}{name}"] = values
    source = open_source(tmp_path / "a.h5", x=",".join(names), y=f"{group}cls")
    rows |= {f"p_{j}": rows["p"][:, j] for j in range(2)}
    expected = np.stack([rows[name] for name in columns], axis=1)
    np.testing.assert_array_equal(next(source.blocks()).X, expected)


def test_a_field_of_several_values_is_named_as_one(tmp_path):
    records = np.zeros(N, [("pt", "f4"), ("hits", "f4", 3), ("label", "i4")])
    records["hits"], records["label"] = RNG.normal(size=(N, 3)), RNG.integers(0, 2, N)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["events"] = records
    source = open_source(tmp_path / "a.h5", x="events/hits,events/pt", y="label")
    np.testing.assert_array_equal(next(source.blocks()).X[:, :3], records["hits"])
    assert source.n_features == 4
    assert open_source(tmp_path / "a.h5", x="events,-hits", y="label").n_features == 1


def test_pickled_text_is_told(tmp_path):
    path = write_fixed(
        tmp_path / "rows.h5", FRAME.assign(word=np.array(["a", "b"] * (N // 2), object))
    )
    with pytest.raises(
        DataError, match=r"'word' has type Python objects.*format=\"table\".*--x=-NAME"
    ):
        open_source(path, y="label")
    assert open_source(path, x="-word", y="label").columns.outputs == COLUMNS


def laughs(depth):
    """A pickle of a list that holds the same one twice, and so on: small, and endless as text."""
    return b"(lp0\n" + b"(g0\ng0\nlp0\n" * depth + b"a."


CRAFTED = [
    laughs(40),
    b"(lr\x00\x00\x00\x7f.",
    b"cos\nsystem\n(S'touch x'\ntR.",
    b"\x80\x04\x8c",
    b"(lp0\nI1\na.",
    b"",
]


@pytest.mark.parametrize("pickled", CRAFTED)
def test_attributes_are_not_trusted(tmp_path, pickled, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_table(tmp_path / "rows.h5", FRAME)
    with h5py.File(path, "a") as file:
        file["df/table"].attrs["values_block_0_kind"] = np.bytes_(pickled)
    names = [f"values_block_0_{j}" for j in range(3)]
    assert open_source(path, y="label").columns.outputs == (*names, "run")
    assert not (tmp_path / "x").exists()


def test_damaged_frames_of_pandas(tmp_path):
    path = write_fixed(tmp_path / "rows.h5", FRAME)
    with h5py.File(path, "a") as file:
        del file["df/block1_values"]
    with pytest.raises(CorruptFileError, match="without its block 1"):
        open_source(path, y="label")
    frame = FRAME.assign(level=pd.Categorical(["a", "b"] * (N // 2)))
    path = write_table(tmp_path / "levels.h5", frame)
    with h5py.File(path, "a") as file:
        codes = file["df/table"][:]
        codes["values_block_3"][5] = 9
        file["df/table"][:] = codes
    with pytest.raises(CorruptFileError, match="a category has no name"):
        read(open_source(path, y="label"))
    with h5py.File(path, "a") as file:
        del file["df/meta"]
    with pytest.raises(CorruptFileError, match="lacks the categories"):
        open_source(path, y="label")


def test_text_that_is_no_utf8(tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["a"], file["b"] = np.array([b"\xff\xfe", b"x"]), np.arange(2)
    with pytest.raises(DataError, match="not UTF-8"):
        open_source(tmp_path / "rows.h5", y="b")


def test_a_file_that_lost_rows_after_it_was_opened(tmp_path):
    path = write_records(tmp_path / "rows.h5", FRAME)
    source = open_source(path, y="label")
    (tmp_path / "rows.h5").unlink()
    write_records(tmp_path / "rows.h5", FRAME[:100])
    with pytest.raises(ChangedFileError, match="fewer rows or columns"):
        read(source)


def test_rows_never_written_are_told(tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("a", (N,), "f4", chunks=(50,))[:50] = 1
        file["b"] = np.arange(N) % 2
    with pytest.warns(StreamrfWarning, match="dataset 'a': 9 of 10 chunks were never written"):
        open_source(tmp_path / "rows.h5", y="b")
    open_source(tmp_path / "rows.h5", y="b", allow_sparse=True)


def test_columns_in_other_folders_are_asked_about(tmp_path):
    (tmp_path / "far").mkdir()
    write_loose(tmp_path / "far" / "rows.h5", FRAME)
    (tmp_path / "near").mkdir()
    with h5py.File(tmp_path / "near" / "rows.h5", "w") as file:
        file["events"] = h5py.ExternalLink("../far/rows.h5", "/events")
    with pytest.raises(CorruptFileError, match="allow-external"):
        open_source(tmp_path / "near" / "rows.h5", x="events", y="label")
    source = open_source(tmp_path / "near" / "rows.h5", x="events", y="label", allow_external=True)
    assert len(source.files) == 2


# --------------------------------------------------------------------- packed numbers


def write_packed(path, values, **attributes):
    with h5py.File(path, "w") as file:
        file["X"] = values
        file["X"].attrs.update(attributes)
        file["y"] = np.arange(len(values)) % 2
    return str(path)


@pytest.mark.parametrize(
    ("attributes", "dtype"),
    [
        ({"scale_factor": 0.5, "add_offset": np.float32([2.0])}, np.float32),
        ({"scale_factor": 0.5, "_FillValue": np.int16([-9])}, np.float32),
        ({"_FillValue": np.int16(-9)}, np.float32),
        ({"scale_factor": 1.0, "add_offset": 0.0, "_FillValue": "none"}, np.int16),
    ],
)
def test_numbers_that_are_packed(tmp_path, attributes, dtype):
    stored = RNG.integers(0, 99, (40, 3)).astype(np.int16)
    path = write_packed(tmp_path / "rows.nc", stored, **attributes)
    expected = stored * float(attributes.get("scale_factor", 1))
    expected += float(np.ravel(attributes.get("add_offset", 0))[0])
    (block,) = open_source(path, y="y").blocks()
    assert block.X.dtype == dtype
    np.testing.assert_array_equal(block.X, expected.astype(dtype))


@pytest.mark.parametrize("name", ["_FillValue", "missing_value"])
@pytest.mark.parametrize("fill", [-9, -9.0])
def test_values_that_stand_for_missing_ones(tmp_path, name, fill):
    stored = RNG.integers(0, 5, (40, 3)).astype("f4" if isinstance(fill, float) else "i4")
    stored[7, 1] = fill
    path = write_packed(tmp_path / "rows.nc", stored, **{name: stored.dtype.type(fill)})
    (block,) = open_source(path, y="y").blocks()
    np.testing.assert_array_equal(np.argwhere(np.isnan(block.X)), [[7, 1]])
    with pytest.raises(BadRowError, match="row 7: column 1 is NaN"):
        srf.accumulate(open_source(path, y="y"), MAP)
    kept = srf.accumulate(open_source(path, y="y"), MAP, on_bad_rows="skip")
    assert kept.n_rows == 39


@pytest.mark.parametrize(
    ("attributes", "least", "greatest"),
    [
        ({"valid_range": np.int16([20, 80])}, 20, 80),
        ({"valid_min": np.int16(20)}, 20, 99),
        ({"valid_max": np.int16([80]), "scale_factor": 0.5}, 0, 80),
        ({"valid_range": np.float32([10, 40]), "scale_factor": 0.5}, 20, 80),  # of numbers
        ({"valid_range": np.float32([10, 40])}, 10, 40),
        ({"valid_range": np.float32([2, 8]), "scale_factor": np.float32(0.1)}, 20, 80),
        ({"valid_min": 0.3, "scale_factor": 0.1}, 3, 99),
        ({"valid_max": -0.3, "scale_factor": -0.1}, 3, 99),
        ({"valid_min": "none", "valid_range": np.int16([20])}, 0, 99),
    ],
)
def test_values_that_are_not_valid(tmp_path, attributes, least, greatest):
    stored = np.arange(100, dtype=np.int16).reshape(50, 2)
    path = write_packed(tmp_path / "rows.nc", stored, **attributes)
    (block,) = open_source(path, y="y").blocks()
    is_valid = (stored >= least) & (stored <= greatest)
    expected = np.where(is_valid, stored * attributes.get("scale_factor", 1), np.nan)
    np.testing.assert_array_equal(block.X, expected.astype(np.float32))


def test_floats_at_a_bound_are_valid(tmp_path):
    stored = np.float32([[0.1, -0.1], [0.2, 1e20], [np.nextafter(np.float32(0.1), 1), 0]])
    path = write_packed(tmp_path / "rows.nc", stored, valid_max=0.1, valid_min=-1e300)
    (block,) = open_source(path, y="y").blocks()
    np.testing.assert_array_equal(np.isnan(block.X), [[0, 0], [1, 1], [1, 0]])


@pytest.mark.parametrize("fill", [-999.9, 1e20])
def test_a_fill_value_of_more_digits_than_the_numbers(tmp_path, fill):
    stored = np.float32([[1, fill], [2, 3]])
    path = write_packed(tmp_path / "rows.nc", stored, _FillValue=fill)
    (block,) = open_source(path, y="y").blocks()
    np.testing.assert_array_equal(np.isnan(block.X), [[0, 1], [0, 0]])


@pytest.mark.parametrize(
    ("kind", "fill"),
    [("f4", 9.969209968386869e36), ("f8", 9.969209968386869e36), ("i2", -32767), ("u4", 2**32 - 1)],
)
@pytest.mark.parametrize("case", ["netCDF", "own", "other", "bytes", "h5py"])
def test_what_netcdf_has_not_written_is_missing(tmp_path, kind, fill, case):
    """Its own fill value has no attribute; libraries that fill with others have it as a number."""
    stored = RNG.integers(0, 5, (40, 3)).astype("i1" if case == "bytes" else kind)
    dtype, fill = stored.dtype, (-127 if case == "bytes" else fill)
    stored[7, 1] = fill
    with h5py.File(tmp_path / "rows.nc", "w") as file:
        file.create_dataset("X", data=stored, fillvalue=0 if case == "other" else fill)
        if case != "h5py":
            file.attrs["_NCProperties"] = b"version=2,netcdf=4.9.2"
        if case == "own":
            file["X"].attrs["_FillValue"] = dtype.type(4)
    (block,) = open_source(tmp_path / "rows.nc").blocks()
    expected = stored.astype(float)
    if case in ("netCDF", "own"):
        expected[stored == dtype.type(fill if case == "netCDF" else 4)] = np.nan
    np.testing.assert_array_equal(block.X, expected.astype(block.X.dtype))
    if case == "netCDF":  # rows of which all are there go by the key that they had
        with h5py.File(tmp_path / "rows.nc", "a") as file:
            file["X"][7, 1] = 3
        written = open_source(tmp_path / "rows.nc")
        stored[7, 1] = 3
        assert written.stores[0].key == srf.ArraySource(stored).stores[0].key


@pytest.mark.parametrize("text", ["true", np.array(["true"], object)])
def test_text_of_attributes_is_read_in_both_forms(tmp_path, text):
    stored = np.array([[200, 1], [3, 255]], np.uint8)
    path = write_packed(tmp_path / "rows.nc", stored.view(np.int8))
    with h5py.File(path, "a") as file:
        file["X"].attrs.create("_Unsigned", text, dtype=h5py.string_dtype())
    (block,) = open_source(path, y="y").blocks()
    np.testing.assert_array_equal(block.X, stored)


def test_unsigned_values_that_are_not_valid(tmp_path):
    stored = np.arange(200, dtype=np.uint8).reshape(100, 2)
    attributes = {"_Unsigned": "true", "valid_range": np.array([0, 150], np.uint8).view(np.int8)}
    path = write_packed(tmp_path / "rows.nc", stored.view(np.int8), **attributes)
    (block,) = open_source(path, y="y").blocks()
    np.testing.assert_array_equal(block.X, np.where(stored <= 150, stored, np.nan))


@pytest.mark.parametrize(
    ("attributes", "least", "greatest"),
    [
        ({"valid_range": np.int16([0, 300])}, 0, 255),
        ({"valid_min": np.int16(-1), "valid_max": np.int16(99)}, 0, 99),
        ({"valid_max": np.uint8(150)}, 0, 150),
    ],
)
def test_unsigned_values_with_wider_bounds(tmp_path, attributes, least, greatest):
    stored = np.arange(256, dtype=np.uint8).reshape(128, 2)
    path = write_packed(tmp_path / "rows.nc", stored.view(np.int8), _Unsigned="true", **attributes)
    (block,) = open_source(path, y="y").blocks()
    is_valid = (stored >= least) & (stored <= greatest)
    np.testing.assert_array_equal(block.X, np.where(is_valid, stored, np.nan))


def test_great_integers_at_a_bound_of_few_digits(tmp_path):
    scale = np.float32(0.1)
    stored = np.array([[10**9, 0], [10**9 + 10**6, -(10**6)]], np.int32)
    attributes = {"scale_factor": scale, "valid_range": np.float32([0, 1e9 * float(scale)])}
    path = write_packed(tmp_path / "rows.nc", stored, **attributes)
    (block,) = open_source(path, y="y").blocks()
    np.testing.assert_array_equal(np.isnan(block.X), [[0, 0], [1, 1]])


def test_bounds_of_both_units_and_a_scale_of_zero(tmp_path):
    stored = np.arange(100, dtype=np.int16).reshape(50, 2)
    attributes = {"scale_factor": 0.5, "valid_min": np.int16(20), "valid_max": np.float32(40)}
    path = write_packed(tmp_path / "rows.nc", stored, **attributes)
    (block,) = open_source(path, y="y").blocks()
    is_valid = (stored >= 20) & (stored <= 80)
    np.testing.assert_array_equal(block.X, np.where(is_valid, 0.5 * stored, np.nan))
    path = write_packed(tmp_path / "none.nc", stored, scale_factor=0.0, valid_max=1.0)
    (block,) = open_source(path, y="y").blocks()
    np.testing.assert_array_equal(block.X, np.zeros((50, 2)))


def test_labels_that_are_not_valid_are_missing(tmp_path):
    path = write_packed(tmp_path / "rows.nc", np.ones((4, 2), np.int16))
    with h5py.File(path, "a") as file:
        del file["y"]
        file["y"] = np.arange(4)
        file["y"].attrs["valid_range"] = np.array([0, 3])
    (block,) = open_source(path, y="y").blocks()
    assert block.y.dtype.kind == "i"
    with h5py.File(path, "a") as file:
        file["y"].attrs["valid_range"] = np.array([0, 2])
    with pytest.raises(BadRowError, match="row 3: the target is NaN"):
        srf.accumulate(open_source(path, y="y"), MAP)


def test_a_scale_that_is_no_number(tmp_path):
    path = write_packed(tmp_path / "rows.nc", np.ones((4, 2), np.int16), scale_factor=np.inf)
    with pytest.raises(CorruptFileError, match="its attribute 'scale_factor' is"):
        open_source(path, y="y")


def test_pixels_that_are_packed(tmp_path):
    stored = RNG.integers(0, 9, (6, 5, 3)).astype(np.int16)
    with h5py.File(tmp_path / "scene.nc", "w") as file:
        file["bands"], file["cover"] = stored, np.arange(30).reshape(6, 5) % 2
        file["bands"].attrs["scale_factor"] = 0.25
    source = open_source(tmp_path / "scene.nc", x="bands", y="cover")
    X = np.concatenate([block.X for block in source.blocks(block_rows=7)])
    np.testing.assert_array_equal(X, stored.reshape(30, 3) * 0.25)


# --------------------------------------------------------------------- axes that are turned


@pytest.mark.parametrize(
    "layout", [{}, {"chunks": True}, {"chunks": (2, 9), "compression": "gzip"}]
)
def test_rows_on_the_last_axis(tmp_path, layout):
    X, y = RNG.normal(size=(300, 5)), np.arange(300) % 3
    with h5py.File(tmp_path / "rows.mat", "w", userblock_size=512) as file:
        file.create_dataset("X", data=X.T, **layout)
        file["y"], file["flat"] = y[None], y
    for name in ("y.T", "flat"):
        source = open_source(tmp_path / "rows.mat", x="X.T", y=name)
        found = [block.X for block in source.blocks(block_rows=70)]
        np.testing.assert_array_equal(np.concatenate(found), X)
        expected = srf.accumulate(srf.ArraySource(X, y), MAP, random_state=0)
        stats = srf.accumulate(source, MAP, random_state=0)
        assert_same_bytes(stats.to_tree(), expected.to_tree() | {"ledger": stats.ledger.to_tree()})
        told = rf"--x X\.T --y {name}\)"
        with pytest.raises(ShapeError, match=told):
            open_source(tmp_path / "rows.mat", x="X", y=name.removesuffix(".T"))
    model = stats.solve(1e-3)
    alone = open_source(tmp_path / "rows.mat", x="X.T")
    np.testing.assert_array_equal(model.predict(alone), model.predict(X))
    some = [block.X for block in source.blocks(3, 90, block_rows=50)]
    np.testing.assert_array_equal(np.concatenate(some), X[3:90])


def test_all_axes_are_turned(tmp_path):
    images = RNG.normal(size=(20, 4, 3))
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["images"] = images.transpose(2, 1, 0)
    source = open_source(tmp_path / "rows.h5", x="images.T")
    assert source.row_shape == (4, 3)
    np.testing.assert_array_equal(next(source.blocks()).X, images.reshape(20, 12))
    with h5py.File(tmp_path / "rows.h5", "a") as file:
        file["images.T"] = np.ones((20, 2))
    assert open_source(tmp_path / "rows.h5", x="images.T").n_features == 2


def test_a_turned_dataset_keeps_a_row_of_chunks(tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("X", (512, 9000), "f8", chunks=(8, 3000))[:] = 1
    source = open_source(tmp_path / "rows.h5", x="X.T")
    assert source.buffer_bytes >= 512 * 3000 * 8
    assert [len(block.X) for block in source.blocks(block_rows=2000)] == [1500] * 6


def test_pixels_whose_axes_are_turned(tmp_path):
    bands, cover = RNG.normal(size=(6, 5, 3)), np.arange(30).reshape(6, 5) % 2
    with h5py.File(tmp_path / "scene.mat", "w") as file:
        file["bands"], file["cover"] = bands.T, cover.T
    with pytest.raises(ShapeError, match=r"--x bands\.T --y cover\.T"):
        open_source(tmp_path / "scene.mat", x="bands", y="cover")
    source = open_source(tmp_path / "scene.mat", x="bands.T", y="cover.T")
    blocks = list(source.blocks(block_rows=7))
    np.testing.assert_array_equal(np.concatenate([b.X for b in blocks]), bands.reshape(30, 3))
    np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), cover.ravel())


def test_targets_with_axes_of_one(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.ones((9, 4, 4, 3))
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["y"] = np.arange(9).reshape(9, 1, 1, 1)
    with h5py.File(tmp_path / "both.h5", "w") as file:
        file["X"], file["y"] = h5py.ExternalLink("x.h5", "x"), h5py.ExternalLink("y.h5", "y")
    (block,) = open_source(tmp_path / "both.h5", y="y").blocks()
    np.testing.assert_array_equal(block.y, np.arange(9))
    with h5py.File(tmp_path / "y.h5", "a") as file:
        del file["y"]
        file["y"] = np.ones((9, 2, 1))
    with pytest.raises(ShapeError, match=r"has shape \(9, 2, 1\)"):
        open_source(tmp_path / "both.h5", y="y")


# --------------------------------------------------------------------- what pandas leaves behind


def test_frames_without_rows_are_none(tmp_path):
    write_fixed(tmp_path / "a.h5", FRAME[:100])
    empty = write_fixed(tmp_path / "b.h5", FRAME[:1])
    with h5py.File(empty, "a") as file:
        for block in range(file["df"].attrs["nblocks"]):
            file[f"df/block{block}_values"].attrs["shape"] = np.bytes_(pickle.dumps((3, 0), 0))
    write_fixed(tmp_path / "c.h5", FRAME[100:])
    assert_same_rows(open_source(str(tmp_path / "*.h5"), y="label"), FRAME, y="label")
    with pytest.raises(EmptySourceError):
        open_source(empty, y="label")


def test_columns_of_one_name_are_not_lost(tmp_path):
    frame = pd.concat([FRAME[["pt", "eta"]], FRAME[["pt", "label"]]], axis=1)
    frame.columns = ["pt", "eta", "again", "label"]
    path = write_table(tmp_path / "rows.h5", frame)
    with h5py.File(path, "a") as file:
        names = np.bytes_(pickle.dumps(["pt", "eta", "pt"], 0))
        file["df/table"].attrs["values_block_0_kind"] = names
    with pytest.raises(DataError, match="'pt' has type of several columns of one name"):
        open_source(path, y="label")
    assert open_source(path, x="-pt", y="label").columns.outputs == ("eta",)


def test_columns_are_in_the_order_of_the_frame(tmp_path):
    frame = FRAME[["run", "pt", "label", "eta"]]
    path = write_table(tmp_path / "rows.h5", frame)
    with h5py.File(path, "a") as file:
        axes = [(1, list(frame))]
        file["df"].attrs["non_index_axes"] = np.bytes_(pickle.dumps(axes, 0))
    assert_same_rows(open_source(path, y="label"), frame, y="label")


@pytest.mark.parametrize("y", ["labels", "label", "labels/label"])
def test_rows_and_labels_in_two_frames(tmp_path, y):
    path = write_fixed(tmp_path / "rows.h5", FRAME.drop(columns="label"), "rows")
    write_fixed(path, FRAME[["label"]], "labels")
    assert_same_rows(open_source(path, y=y), FRAME, y="label")


def test_missing_labels_of_pandas_are_no_class(tmp_path):
    words = pd.Series(np.array(["a", None], object)[RNG.integers(0, 2, N)], dtype="str")
    path = write_table(tmp_path / "rows.h5", FRAME.assign(word=words))
    with pytest.raises(BadRowError, match="'word' is missing, and a missing label"):
        read(open_source(path, y="word"))
    with h5py.File(path, "a") as file:
        file["X"] = np.zeros((N, 2))
    with pytest.raises(BadRowError, match=r"row \d+: the target is missing"):
        read(open_source(path, x="X", y="df/word"))


@pytest.mark.parametrize("told", [None, "?"])
def test_the_text_of_missing_values_may_be_told_for_each_column(tmp_path, told):
    """As pandas 3.1 does, so that "nan" may be a text."""
    words = np.array(["a", "nan", "?"], object)[RNG.integers(0, 3, N)]
    path = write_table(tmp_path / "rows.h5", FRAME.assign(word=words), data_columns=True)
    with h5py.File(path, "a") as file:
        file["df"].attrs["data_col_nan_rep"] = np.uint8(1)
        if told is not None:
            file["df/table"].attrs["word_nan_rep"] = np.bytes_(told)
    expected = FRAME.assign(word=[None if word == told else word for word in words])
    assert_same_rows(open_source(path, y="label"), expected, y="label")


def test_dates_durations_and_holes_of_vaex(tmp_path):
    frame = FRAME.assign(
        day=pd.to_datetime(RNG.integers(0, 10**9, N), unit="s").astype("datetime64[ns]"),
        took=pd.to_timedelta(RNG.integers(0, 10**6, N), unit="ms").astype("timedelta64[ns]"),
        hits=pd.Series(RNG.integers(0, 9, N), dtype="Int64").where(RNG.random(N) < 0.9),
    )
    frame.loc[::9, "day"] = frame.loc[::7, "took"] = pd.NaT
    path = write_vaex(tmp_path / "rows.hdf5", frame)
    assert_same_rows(open_source(path, y="label"), frame, y="label")


def test_masks_of_astropy(tmp_path):
    """A field called `name.mask` says which values are missing; what lies there is no value."""
    there = RNG.random(N) < 0.9
    kinds = RNG.choice(["a", "b"], N)
    records = np.zeros(
        N,
        [
            ("pt", "f8"),
            ("flux", "f8"),
            ("flux.mask", "?"),
            ("two", "f4", 2),
            ("two.mask", "?", 2),
            ("kind", "S3"),
            ("kind.mask", "?"),
            ("run", "i4"),
            ("odd.mask", "i4"),
        ],
    )
    records["pt"], records["run"], records["odd.mask"] = FRAME.pt, FRAME.run, 5
    records["flux"], records["flux.mask"] = np.where(there, FRAME.eta, 1e20), ~there
    records["two"], records["two.mask"][:, 1] = FRAME[["eta", "phi"]], ~there
    records["kind"], records["kind.mask"] = kinds, ~there[::-1]
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["tab"] = records
        file["X"] = np.zeros((N, 2))
    frame = pd.DataFrame(
        {
            "pt": FRAME.pt.astype(np.float64),
            "flux": FRAME.eta.astype(np.float64).where(there),
            "two_0": FRAME.eta,
            "two_1": FRAME.phi.where(there),
            "kind": pd.Series(kinds).where(there[::-1]),
            "odd.mask": 5,
            "run": FRAME.run,
        }
    )
    source = open_source(tmp_path / "rows.h5", x="tab", y="tab/run")
    assert {column.name for column in source.columns.columns} == {*frame.columns} - {"run"}
    named = [column.name for column in source.columns.columns]
    assert_same_rows(source, frame, x=named, y="run")
    with pytest.raises(BadRowError, match="'kind' is missing, and a missing label"):
        read(open_source(tmp_path / "rows.h5", x="tab/pt", y="tab/kind"))
    with pytest.raises(BadRowError, match=r"row \d+: the target is missing"):
        read(open_source(tmp_path / "rows.h5", x="X", y="tab/kind"))


@pytest.mark.parametrize("kind", ["datetime64[D]", "datetime64[M]", "timedelta64[h]"])
def test_coarse_dates_and_durations_of_vaex(tmp_path, kind):
    ticks = RNG.integers(0, 500, N)
    values = ticks.astype(kind)
    values[::9] = "NaT"
    path = write_vaex(tmp_path / "rows.hdf5", FRAME)
    with h5py.File(path, "a") as file:
        file["table/columns/when/data"] = values.view(np.int64)
        file["table/columns/when/data"].attrs["dtype"] = kind
    expected = FRAME.assign(when=values.astype(kind.partition("[")[0] + "[s]"))
    assert_same_rows(open_source(path, y="label"), expected, y="label")


def test_durations_of_months_are_numbers(tmp_path):
    path = write_vaex(tmp_path / "rows.hdf5", FRAME)
    with h5py.File(path, "a") as file:
        file["table/columns/pt/data"].attrs["dtype"] = "timedelta64[M]"
    assert_same_rows(open_source(path, y="label"), FRAME, y="label")


def test_columns_that_share_a_name_with_a_place_are_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/p"], file["g/p_1"], file["g/pt"] = np.zeros((N, 3)), np.ones(N), np.ones(N)
    with pytest.raises(ParameterError, match="columns of 'p' are called as other datasets"):
        open_source(tmp_path / "a.h5", x="g/pt,g/p", y=None)
    assert open_source(tmp_path / "a.h5", x="g/p", y=None).n_features == 3


def test_columns_of_observations_with_holes(tmp_path):
    """As AnnData writes categories, text, flags and whole numbers of which some are missing."""
    there = RNG.random(N) < 0.9
    words = pd.Series(RNG.choice(["a", "b", "c"], N))
    frame = FRAME[["pt", "label"]].assign(
        kind=words.where(there).astype("category"),
        word=words.where(~there[::-1]),
        flag=pd.Series(RNG.random(N) < 0.5, dtype="boolean").where(there),
        count=pd.Series(RNG.integers(0, 9, N), dtype="Int64").where(there[::-1]),
        nothing=pd.Series([None] * N, dtype="category"),
    )
    with h5py.File(tmp_path / "cells.h5ad", "w") as file:
        obs = file.create_group("obs")
        obs.attrs.update({"encoding-type": "dataframe", "column-order": [*frame]})
        for name in ("pt", "label"):
            obs[name] = frame[name]
        for name in ("kind", "nothing"):
            obs[f"{name}/codes"] = frame[name].cat.codes
            levels = np.array([*frame[name].cat.categories], dtype=h5py.string_dtype())
            obs[f"{name}/categories"] = levels
        for name, kind in (("word", "string-array"), ("flag", "boolean"), ("count", "integer")):
            values = frame[name].fillna({"word": "", "flag": False, "count": 0}[name])
            dtype = {"word": object, "flag": bool, "count": np.int64}[name]
            obs[f"{name}/values"] = values.to_numpy().astype(dtype)
            obs[f"{name}/mask"] = frame[name].isna().to_numpy()
            obs[name].attrs["encoding-type"] = f"nullable-{kind}"
        for name in ("kind", "nothing"):
            obs[name].attrs["encoding-type"] = "categorical"
    named = [*frame.columns.drop("label")]
    found = open_source(tmp_path / "cells.h5ad", x=[f"obs/{name}" for name in named], y="label")
    assert_same_rows(found, frame, x=named, y="label")
    for name in ("kind", "word", "flag"):
        with pytest.raises(BadRowError, match="is missing, and a missing label"):
            read(open_source(tmp_path / "cells.h5ad", x="obs/pt", y=f"obs/{name}"))


def test_a_type_that_numpy_lacks_spoils_nothing_else(tmp_path):
    path = write_records(tmp_path / "rows.h5", FRAME)
    with h5py.File(path, "a") as file:
        space = h5py.h5s.create_simple((N,))
        file["more/pt"], file["more/eta"] = FRAME.pt, FRAME.eta
        for name in (b"when", b"more/when"):
            h5py.h5d.create(file.id, name, h5py.h5t.UNIX_D64LE, space)
    for x in (None, "events", "events/pt,events/run"):
        assert open_source(path, x=x, y="events/label").n_rows == N
    assert open_source(path, x="more/pt", y="events/label").n_features == 1
    assert CliRunner().invoke(app, ["info", path]).exit_code == 0
    with pytest.raises(DataError, match="'when' has values of a type that NumPy lacks"):
        open_source(path, x="when", y="events/label")


@pytest.mark.parametrize(
    "x", ["events/pt,events/phi", "events,-charge,events/eta", "events/pt,-/charge", "charge,pt"]
)
def test_a_dataset_of_the_name_of_a_column_is_not_meant(tmp_path, x):
    path = write_records(tmp_path / "rows.h5", FRAME.assign(charge=1.0))
    with h5py.File(path, "a") as file:
        file["charge"] = np.zeros(N)
    found = open_source(path, x=x, y="events/label")
    assert {column.name for column in found.columns.columns} <= {*FRAME, "charge"}


def test_the_text_of_missing_values_may_be_empty(tmp_path):
    words = np.array(["a", ""], object)[RNG.integers(0, 2, N)]
    path = write_table(tmp_path / "rows.h5", FRAME.assign(word=words))
    with h5py.File(path, "a") as file:
        file["df"].attrs["nan_rep"] = np.bytes_("")
    expected = FRAME.assign(word=[word or None for word in words])
    assert_same_rows(open_source(path, y="label"), expected, y="label")


# --------------------------------------------------------------------- claims


@pytest.mark.parametrize("kind", ["field", "block", "matrix"])
def test_no_table_is_so_wide(tmp_path, kind):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        if kind == "field":
            file.create_dataset("t", (3,), [("a", "u1", (200_000,)), ("label", "i4")])
        elif kind == "block":
            group = file.create_group("t")
            group.attrs["pandas_type"], group.attrs["nblocks"] = np.bytes_("frame"), 1
            group.create_dataset("block0_values", (3, 10**8), "u1", chunks=(1, 10**6))
        else:
            file.create_dataset("t", (3, 10**8), "u1", chunks=(1, 10**6))
    with pytest.raises(ShapeError, match="a table may have 100,000"):
        open_source(tmp_path / "rows.h5", x="t", y="t/0")


def test_wide_rows_beside_loose_columns_are_found_at_once(tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("genes", (4, 2_000_000), "u1", chunks=(1, 10**6))[:] = 1
        file["labels"], file["ids"] = np.arange(4) % 2, np.arange(4)
    assert open_source(tmp_path / "rows.h5", y="labels").n_features == 2_000_000


def test_unsigned_integers_of_netcdf(tmp_path):
    values = np.array([[0, 40_000], [65_535, 7], [100, 200]], np.uint16)
    attributes = {"_Unsigned": "true", "scale_factor": 0.5, "_FillValue": np.int16(-1)}
    path = write_packed(tmp_path / "rows.nc", values.view(np.int16), **attributes)
    (block,) = open_source(path, y="y").blocks()
    np.testing.assert_array_equal(block.X, [[0, 20_000], [np.nan, 3.5], [50, 100]])
    path = write_packed(tmp_path / "plain.nc", values.view(np.int16), _Unsigned="true")
    (block,) = open_source(path, y="y").blocks()
    np.testing.assert_array_equal(block.X, values)


@pytest.mark.parametrize("order", ["<", ">"])
def test_unsigned_integers_of_any_byte_order(tmp_path, order):
    values = np.array([[1, 2], [65_535, 3], [5, 65_534]], f"{order}u2")
    path = write_packed(tmp_path / "rows.nc", values.view(f"{order}i2"), _Unsigned="true")
    (block,) = open_source(path, y="y").blocks()
    np.testing.assert_array_equal(block.X, values)


def test_labels_with_a_fill_value_stay_integers(tmp_path):
    labels = (np.arange(N) % 3).astype(np.int16)
    with h5py.File(tmp_path / "rows.nc", "w") as file:
        file["X"], file["y"], file["z"] = RNG.normal(size=(N, 2)), labels, labels
        file["t/a"], file["t/y"], file["t/b"] = RNG.normal(size=N), labels, np.arange(N)
        labels[400] = -1
        file["odd"] = labels
        for name in ("y", "odd", "t/y"):
            file[name].attrs["_FillValue"] = np.int16(-1)
    path = tmp_path / "rows.nc"
    for x, y in (("X", "y"), ("t", "y"), ("X", "t/y")):
        stats = srf.accumulate(open_source(path, x=x, y=y), MAP)
        assert stats.labels.dtype == np.int64
    with pytest.raises(BadRowError, match="row 400: the target is NaN"):
        srf.accumulate(open_source(path, y="odd"), MAP)
    stats = srf.accumulate(open_source(path, y="odd"), MAP, on_bad_rows="skip")
    assert stats.n_rows == N - 1
    np.testing.assert_array_equal(stats.labels, [0, 1, 2])


def test_packed_numbers_whose_axes_are_turned(tmp_path):
    stored = RNG.integers(0, 9, (3, 20)).astype(np.int16)
    with h5py.File(tmp_path / "rows.nc", "w") as file:
        file["X"] = stored
        file["X"].attrs["scale_factor"], file["X"].attrs["_FillValue"] = 0.5, np.int16(4)
    (block,) = open_source(tmp_path / "rows.nc", x="X.T").blocks()
    np.testing.assert_array_equal(block.X, np.where(stored.T == 4, np.nan, stored.T * 0.5))


def test_a_dataset_of_one_column_is_a_dataset_with_and_without_its_name(tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = RNG.normal(size=(N, 1)).astype("f4"), np.arange(N) % 2
        file["w"] = np.ones(N)
    found = [open_source(tmp_path / "rows.h5", x=x, y="y") for x in (None, "X")]
    assert all(isinstance(source, srf.HDF5Source) for source in found)
    with pytest.raises(MergeError):
        srf.accumulate(found[0], MAP) + srf.accumulate(found[1], MAP)


@pytest.mark.parametrize("role", ["y", "weights"])
def test_targets_are_not_in_X(tmp_path, role):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"] = np.abs(RNG.normal(size=(N, 4)))
    with pytest.raises(ParameterError, match="open_source takes it out of X"):
        srf.HDF5Source(tmp_path / "rows.h5", **{"x": "X", "y": None, role: "X/0"})
    assert open_source(tmp_path / "rows.h5", x="X", **{role: "X/0"}).n_features == 3


# --------------------------------------------------------------------- links to other files


def write_linked(folder):
    """Write tables behind links whose paths in their own files mean something else in this one."""
    with h5py.File(folder / "other.h5", "w") as other:
        for j in range(3):
            other[f"g/c{j}"] = np.arange(40.0) + j
        other["g/y"] = np.arange(40) % 2
        other["run/events"] = np.rec.fromarrays(
            [np.arange(30.0), np.arange(30) % 2], names="energy,y"
        )
        other["Z"] = np.arange(60.0).reshape(20, 3)
    with h5py.File(folder / "main.h5", "w") as file:
        for j in range(3):
            file[f"g/c{j}"] = np.full(40, -1.0)
            file[f"mine/p{j}"] = h5py.ExternalLink("other.h5", f"/g/c{j}")
        file["mine/y"] = h5py.ExternalLink("other.h5", "/g/y")
        file["run/events"] = np.rec.fromarrays([np.zeros(5), np.zeros(5)], names="wrong,y")
        file["events"] = h5py.ExternalLink("other.h5", "/run/events")
        file["Z"] = np.zeros((20, 3))
        file["M"] = h5py.ExternalLink("other.h5", "/Z")
    return folder / "main.h5"


def test_columns_behind_links_are_those_that_the_links_lead_to(tmp_path):
    path = write_linked(tmp_path)
    source = open_source(path, x="mine", y="mine/y")
    (block,) = source.blocks()
    assert source.columns.outputs == ("p0", "p1", "p2")
    np.testing.assert_array_equal(block.X, np.arange(40.0)[:, np.newaxis] + np.arange(3))
    np.testing.assert_array_equal(block.y, np.arange(40) % 2)


def test_a_table_behind_a_link_is_that_one(tmp_path):
    path = write_linked(tmp_path)
    source = open_source(path, x="events", y="events/y")
    (block,) = source.blocks()
    assert source.columns.outputs == ("energy",)
    np.testing.assert_array_equal(block.X, np.arange(30.0)[:, np.newaxis])


def test_columns_of_a_dataset_behind_a_link(tmp_path):
    path = write_linked(tmp_path)
    (block,) = open_source(path, x="M", y="M/0").blocks()
    np.testing.assert_array_equal(block.X, np.arange(60.0).reshape(20, 3)[:, 1:])
    np.testing.assert_array_equal(block.y, np.arange(0, 60, 3))


@pytest.mark.parametrize("link", ["soft", "outer", "whole"])
def test_a_table_of_pandas_behind_a_link_keeps_its_categories(tmp_path, link):
    frame = pd.DataFrame(
        {"a": np.arange(40.0), "kind": pd.Categorical(list("xyzz") * 10), "y": np.arange(40) % 2}
    )
    write_table(tmp_path / "other.h5", frame, "df", data_columns=True)
    path = tmp_path / ("other.h5" if link == "soft" else "main.h5")
    with h5py.File(path, "a") as file:
        if link == "soft":
            file["in/soft"] = h5py.SoftLink("/df/table")
        else:
            where = "/df" if link == "whole" else "/df/table"
            file[f"in/{link}"] = h5py.ExternalLink("other.h5", where)
    (block,) = open_source(path, x=f"in/{link}", y="y").blocks()
    (expected,) = open_source(tmp_path / "other.h5", x="df", y="y").blocks()
    assert block.X.shape[1] == 4  # a, and three levels
    assert_same_bytes(block.X, expected.X)


# --------------------------------------------------------------------- what is left out


@pytest.fixture
def mixed(tmp_path):
    """Return a file of a group of columns and of a dataset of several, and its arrays."""
    columns = {"pt": RNG.normal(size=40), "eta": RNG.normal(size=40), "label": np.arange(40) % 2}
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        for name, values in columns.items():
            file[f"ev/{name}"] = values
        file["ev/p"] = RNG.normal(size=(40, 2))
        file["ev/other"] = np.arange(7)
    return tmp_path / "rows.h5"


def test_a_group_of_columns_and_of_rows_is_no_table_but_has_columns(mixed):
    with pytest.raises(ShapeError, match="'ev' is a group, not a dataset"):
        open_source(mixed, x="ev", y="ev/label")
    for x in (["ev/pt", "ev/p"], "ev/pt,ev/p"):
        source = open_source(mixed, x=x, y="ev/label")
        assert set(source.columns.outputs) == {"pt", "p_0", "p_1"}


def test_columns_beside_the_dataset_that_is_x_are_told(mixed, caplog):
    """They were left out without a word."""
    with caplog.at_level("INFO", "streamrf"):
        source = open_source(mixed, y="ev/label")
    assert (source.n_features, source.columns) == (2, None)
    told = "X is the dataset 'ev/p'; columns beside it are left out: ev/eta, ev/pt; name what is"
    assert told in caplog.text
    caplog.clear()
    with caplog.at_level("INFO", "streamrf"):
        open_source(mixed, x="ev/p", y="ev/label")
        open_source(mixed)
    assert "left out" not in caplog.text


def test_sparse_rows_beside_their_targets_are_read(tmp_path):
    """They are a group, which has no shape."""
    rows = scipy.sparse.random(40, 6, 0.4, "csr", random_state=0)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        group = file.create_group("counts")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", rows.shape
        group["data"], group["indices"], group["indptr"] = rows.data, rows.indices, rows.indptr
        file["y"] = np.arange(40) % 2
    (block,) = open_source(tmp_path / "rows.h5", y="y").blocks()
    np.testing.assert_array_equal(block.X, rows.toarray())
