"""Streams of tables: chunks of frames, batches, dicts and records."""

import collections
import csv
import io
import itertools
import threading
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy

import streamrf as srf
from integers import assert_same_bytes
from streamrf import storage
from streamrf.engine import base
from streamrf.errors import (
    BadRowError,
    CheckpointError,
    ConsumedError,
    DataError,
    DatasetNotFoundError,
    EmptySourceError,
    ParameterError,
    ShapeError,
)
from streamrf.training import calibration, memory, peeking

N_ROWS = 600
MAP = srf.RandomFourier(srf.Gaussian(0.3), 64, random_state=0)


def a_frame(seed=0, cities=("Rome", "Oslo", "Lima")):
    """Numbers with holes, text, flags, dates, and labels of two columns."""
    rng = np.random.default_rng(seed)
    area = rng.normal(size=N_ROWS)
    sold = np.where(area + rng.normal(size=N_ROWS) > 0, "yes", "no")
    area[::50] = np.nan
    return pd.DataFrame(
        {
            "area": area,
            "rooms": rng.integers(1, 6, N_ROWS),
            "city": rng.choice(cities, N_ROWS),
            "garden": rng.random(N_ROWS) < 0.5,
            "built": pd.Timestamp("2000-01-01")
            + pd.to_timedelta(rng.integers(0, 9000, N_ROWS), "D"),
            "sold": sold,
            "weight": rng.random(N_ROWS),
        }
    )


FRAME = a_frame()
X_NAMES = ["area", "rooms", "city", "garden", "built"]


def chunks(frame=FRAME, size=70):
    """The frame, a few rows at a time."""
    for start in range(0, len(frame), size):
        yield frame.iloc[start : start + size]


def table():
    return pa.Table.from_pandas(FRAME, preserve_index=False)


class Tensor:
    """What has a shape and makes an array, and no more."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)

    def __len__(self):
        return len(self.values)


STREAMS = {
    "pandas": chunks,
    "batches": lambda: table().to_batches(max_chunksize=70),
    "reader": lambda: table().to_reader(70),
    "tables": lambda: [table().slice(start, 70) for start in range(0, N_ROWS, 70)],
    "dicts": lambda: ({name: c[name].to_numpy() for name in c} for c in chunks()),
    "rows": lambda: (chunk.to_dict("records") for chunk in chunks()),
    "list": lambda: [*chunks()],
    "function": lambda: chunks,
    "polars": lambda: pytest.importorskip("polars").from_arrow(table()).iter_slices(70),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_gives_the_sums_of_the_whole_table(name):
    settings = {"features": MAP, "normalize": "standard"}
    whole = srf.accumulate(srf.open_source(FRAME, y="sold", weights="weight"), **settings)
    source = srf.open_source(STREAMS[name](), y="sold", weights="weight")
    assert isinstance(source, srf.sources.TableStream)
    found = srf.accumulate(source, **settings)
    trees = found.to_tree(), whole.to_tree()
    for tree in trees:
        del tree["ledger"]["names"]  # of where the rows came from
    assert_same_bytes(*trees)
    with pytest.raises(srf.errors.MergeError):
        _ = found + whole


def test_tables_may_come_with_arrays_of_targets_and_weights():
    settings = {"features": MAP, "normalize": "standard"}
    whole = srf.accumulate(srf.open_source(FRAME, y="sold", weights="weight"), **settings)
    parts = ((c[X_NAMES], c["sold"], c["weight"].to_numpy()) for c in chunks())
    found = srf.accumulate(srf.open_source(parts), **settings)
    assert np.array_equal(found.gram, whole.gram)
    parts = ([c[X_NAMES], c["sold"], c["weight"]] for c in chunks())  # as a loader's list
    assert np.array_equal(srf.accumulate(srf.open_source(parts), **settings).gram, whole.gram)
    targets = ((c[X_NAMES], np.asarray(c[["area", "rooms"]].fillna(0))) for c in chunks())
    source = srf.open_source(targets)
    assert next(source.blocks()).y.shape == (N_ROWS, 2)


@pytest.mark.parametrize("form", [0, 1, 2])
def test_the_first_block_says_whether_a_stream_is_of_tables(form):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), rng.integers(0, 2, 100)
    pairs = [(X[i : i + 30], y[i : i + 30]) for i in range(0, 100, 30)]
    forms = [iter(pairs), lambda: iter(pairs), (pair for pair in pairs)]
    source = srf.open_source(forms[form])
    assert type(source) is srf.IteratorSource
    assert np.array_equal(np.concatenate([b.X for b in source.blocks(block_rows=7)]), X)
    numbers = srf.open_source(pd.DataFrame(x, columns=[*"abc"]) for x, _ in pairs)
    assert type(numbers) is srf.sources.TableStream
    assert numbers.columns.outputs == (*"abc",)
    pages = srf.open_source(iter([[], [], [{"a": 1, "b": "x"}], [], [{"a": 2, "b": "y"}]]))
    assert [len(block.X) for block in pages.blocks()] == [2]


@pytest.mark.parametrize("is_reverse", [False, True])
def test_a_column_called_y_is_not_what_comes_beside_the_table(is_reverse):
    y = np.array([0, 1, 1])
    plain = pd.DataFrame({"a": [1.0, 2.0, 3.0], "c": [*"xyx"]})
    odd = plain.assign(y=5, weights=7.0)
    frames = (odd, plain) if is_reverse else (plain, odd)
    source = srf.open_source(((f, y, np.ones(3)) for f in frames), x=["a", "c"])
    (block,) = source.blocks()
    assert block.y.tolist() == [0, 1, 1] * 2
    assert (block.weights == 1).all()
    assert block.names == ("a", "c=x", "c=y")
    several = (
        (f, pd.DataFrame({"p": y, "a": -y})[names])
        for f, names in zip(frames, (["p", "a"], ["a", "p"]), strict=True)
    )
    (block,) = srf.open_source(several, x=["c", "a"]).blocks()
    assert block.y.tolist() == [[0, 0], [1, -1], [1, -1]] * 2


@pytest.mark.parametrize(
    ("first", "later", "message"),
    [
        ((1,), (1, 1), "block 1 comes with y and weights, but the first with y"),
        ((1, 1), (1,), "block 1 comes with y, but the first with y and weights"),
        ((1,), (), "block 1 comes with a table, but the first with y"),
        ((2,), (3,), "block 1, y has 3 columns but the first 2"),
    ],
)
def test_what_comes_beside_tables_stays_the_same(first, later, message):
    frame = pd.DataFrame({"c": [*"xyx"]})

    def block(widths):
        return (frame, *(np.ones(3) if width == 1 else np.ones((3, width)) for width in widths))

    source = srf.open_source([block(first), block(later)])
    with pytest.raises(ShapeError, match=message):
        list(source.blocks())


def test_masked_entries_and_keys_that_rows_lack_are_missing():
    masked = np.ma.array([(1.0, 4), (-9.0, 5)], [("a", float), ("b", int)])
    masked["a"].mask = [False, True]
    expected = [[1, 0, 4], [1, 1, 5]]
    for given in (masked, {name: masked[name] for name in "ab"}, [{"a": 1.0, "b": 4}, {"b": 5}]):
        (block,) = srf.open_source(given).blocks()
        assert block.names == ("a", "a missing", "b")
        assert block.X.tolist() == expected
    (block,) = srf.open_source([{"a": 1}, {"a": 2, "y": 1}], y="y").blocks()
    assert block.y[1] == 1
    holes = {
        "a": [1, None],
        "b": ("x", float("nan")),
        "c": np.array(["x", np.nan], dtype=object),
        "d": pd.Series(["x", None], dtype="string"),
        "e": pd.Series([True, None], dtype="boolean"),
        "f": pd.Series([1.0, np.nan]).astype(">f8"),
    }
    assert srf.open_source(holes).columns.outputs[1::2] == tuple(
        f"{name} missing" for name in holes
    )
    rows = [collections.UserDict(a=1), collections.UserDict(a=2)]
    assert next(srf.open_source(rows).blocks()).X.tolist() == [[1], [2]]
    whole = {"X": pd.DataFrame({"p": [1, 2], "q": [3, 4]}), "y": [0, 1]}
    assert next(srf.open_source(whole, y="y").blocks()).X.tolist() == [[1, 3], [2, 4]]
    with pytest.raises(DataError, match="several columns called"):
        srf.open_source({1: [1], "1": [2]})
    with pytest.raises(DataError, match="column 'a' is no column of a table"):
        srf.open_source({"a": ("x", 1)})


def test_no_block_is_lost_to_a_look_at_the_first():
    for name in ("arrays", "tables"):
        made = (np.full((2, 3), float(i)) for i in range(4))
        items = iter([pd.DataFrame(X).astype(str) if name == "tables" else X for X in made])
        source = srf.open_source(lambda items=items: items)  # which goes on where it was
        assert sum(len(block.X) for block in source.blocks()) == 8


@pytest.mark.parametrize(
    ("made", "options"),
    [
        (chunks, {}),
        (chunks, {"y": "sold"}),
        (lambda: (c[["rooms"]].to_numpy() for c in chunks()), {}),
    ],
    ids=["tables", "named", "arrays"],
)
def test_a_stream_is_closed_when_its_pass_is_abandoned(made, options):
    is_closed = False

    def blocks():
        nonlocal is_closed
        try:
            yield from made()
        finally:
            is_closed = True

    source = srf.open_source(blocks(), **options)
    reading = source.blocks(block_rows=10)
    next(reading)
    reading.close()
    assert is_closed


def test_the_first_4096_rows_say_what_columns_become(monkeypatch):
    monkeypatch.setattr(srf.sources.table_stream, "PEEK_ROWS", 100)
    frame = FRAME.assign(city=np.where(np.arange(N_ROWS) < 100, "early", "late"))
    for size in (1, 30, 100, 170, N_ROWS):
        source = srf.open_source(chunks(frame, size), x=["area", "city"])
        assert source.columns.columns[1].levels == ("early",)
        assert source.columns.columns[0].fill == frame["area"][:100].median()


def test_a_stream_of_numbers_is_read_by_a_model_of_a_table_with_holes():
    frame = FRAME[["area", "rooms", "sold"]]
    clf = srf.RandomFeatureClassifier(MAP, normalize="standard", alpha=0.1)
    clf.fit(srf.open_source(chunks(frame), y="sold"))
    rows = frame.drop(columns="sold")
    later = (rows.iloc[i:j] for i, j in ((1, 30), (30, 90)))  # no hole in the first
    assert np.array_equal(clf.predict(srf.open_source(later)), clf.predict(rows.iloc[1:90]))


def test_first_blocks_of_types_that_count_as_alike():
    first = pd.DataFrame({"city": pd.Categorical([*"xy"]), "flag": [True, False]})
    later = pd.DataFrame({"city": [*"yz"], "flag": [None, None]})
    (block,) = srf.open_source([first, later]).blocks()
    assert block.names == ("city=x", "city=y", "city=z", "flag", "flag missing")
    assert block.X[:, 4].tolist() == [0, 0, 1, 1]
    assert block.X[:2, 3].tolist() == [1, 0]


@pytest.mark.parametrize("y", [5, np.zeros(4), [1, 2], pd.Series([1, 2])])
def test_names_of_columns_are_texts(y):
    for blocks in (chunks(), iter([(np.eye(2), np.zeros(2))])):
        with pytest.raises(ParameterError, match="y= of rows that come in blocks names columns"):
            srf.open_source(blocks, y=y)


def test_labels_of_xarray_are_no_table():
    xarray = pytest.importorskip("xarray")
    D = xarray.DataArray(np.arange(12.0).reshape(4, 3), dims=("row", "c"), coords={"c": [*"abc"]})
    for blocks in (iter([D, D]), [D, D]):
        assert not isinstance(srf.open_source(blocks), srf.sources.TableStream)
    (block,) = srf.open_source(iter([D, D])).blocks()
    assert block.X.shape == (8, 3)


def test_texts_are_not_cut_at_nul():
    texts = np.array(["a\0b", "a\0c"])
    frame = pd.DataFrame({"c": [1, 2]})
    assert len(srf.open_source({"c": texts}).columns.outputs) == 2
    for source in (
        srf.open_source({"c": [1, 2], "y": texts}, y="y"),
        srf.open_source(frame, y=texts),
        srf.open_source(frame, y=texts[:, None]),
        srf.open_source(iter([(frame, texts)])),
    ):
        with pytest.raises(DataError, match="NUL"):
            list(source.blocks())


@pytest.mark.parametrize("is_named_first", [False, True])
def test_several_targets_are_read_by_place_where_one_block_has_no_names(is_named_first):
    frame, Y = pd.DataFrame({"c": [*"xy"]}), np.array([[1, 2], [3, 4]])
    given = [Y, pd.DataFrame(Y, columns=["p", "q"])]
    blocks = [(frame, y) for y in (reversed(given) if is_named_first else given)]
    (block,) = srf.open_source(blocks).blocks()
    assert block.y.tolist() == [[1, 2], [3, 4]] * 2
    other = pd.DataFrame(Y, columns=["p", "r"])
    with pytest.raises(ShapeError, match="has the targets"):
        list(srf.open_source([(frame, given[1]), (frame, other)]).blocks())


def test_targets_beside_a_table_are_read_as_beside_arrays():
    frame = pd.DataFrame({"c": [*"xyx"]})
    for y, expected in (
        (np.array([b"u", b"v", b"u"]), [*"uvu"]),
        (np.array([[b"u"], [b"v"], [b"u"]]), [*"uvu"]),
        (np.array([0, 1, 1], ">i4"), [0, 1, 1]),
        (np.array([[0, 1], [1, 2], [1, 3]], ">i4"), [[0, 1], [1, 2], [1, 3]]),
    ):
        (block,) = srf.open_source(iter([(frame, y)])).blocks()
        assert block.y.tolist() == expected


@pytest.mark.parametrize("n_arrays", [1, 2, 3])
@pytest.mark.parametrize("made", [Tensor, np.array])
def test_a_few_matrices_of_one_shape_are_neither_rows_nor_targets(n_arrays, made):
    """A list [X] was one row, in silence."""
    batch = [made(np.arange(6.0).reshape(3, 2))] * n_arrays
    with pytest.raises(DataError, match=rf"a list of {n_arrays} arrays of the shape \(3, 2\)"):
        list(srf.IteratorSource([batch]).blocks())


@pytest.mark.parametrize("changed", [{"x": ["area", "city"]}, {"y": "garden"}])
def test_a_checkpoint_is_of_the_columns_named(changed, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "MAX_ROWS", 64)
    monkeypatch.setattr(memory, "MIN_ROWS", 64)
    monkeypatch.setattr(calibration, "CALIBRATION_ROWS", 100)
    monkeypatch.setattr(peeking, "PEEK_ROWS", 100)
    monkeypatch.setattr(srf.sources.table_stream, "PEEK_ROWS", 100)
    frame = FRAME.assign(sold=FRAME["garden"])
    settings = {"normalize": "standard", "task": "classification", "checkpoint_every": 0}
    settings |= {"checkpoint": tmp_path / "pass.checkpoint", "features": MAP}
    named = {"x": ["area", "city", "rooms"], "y": "sold"}

    def breaks():
        yield from itertools.islice(chunks(frame, 50), 8)
        raise OSError("the line is gone")

    with pytest.raises(OSError, match="the line is gone"):
        srf.accumulate(srf.open_source(breaks, **named), **settings)
    source = srf.open_source(partial(chunks, frame, 50), **named | changed)
    with pytest.raises(CheckpointError, match=f"source/{next(iter(changed))} was"):
        srf.accumulate(source, **settings)


@pytest.mark.parametrize("named", [{}, {"y": "sold"}])
def test_a_list_of_tables_of_one_shape_is_neither_rows_nor_targets(named):
    """The second was taken for two targets."""
    blocks = iter([[FRAME.iloc[:5], FRAME.iloc[5:10]]])
    with pytest.raises(DataError, match="block 0 is a list of 2 tables of the shape"):
        _ = srf.open_source(blocks, **named).n_features


def test_a_loader_may_give_a_list_of_any_table_and_targets():
    for table in ({"c": [*"xy"]}, [{"c": "x"}, {"c": "y"}], FRAME[["city"]].iloc[:2].to_records()):
        (block,) = srf.open_source(iter([[table, [0, 1]]] * 2)).blocks()
        assert block.y.tolist() == [0, 1] * 2


def test_settings_tell_targets_beside_tables_from_others():
    frame = pd.DataFrame({"c": [*"xyx"]})

    def settings(y, is_read=False):
        source = srf.open_source(iter([(frame, np.array(y), np.ones(3))]))
        _ = source.columns if is_read else None
        return source.settings

    assert settings([0, 1, 1]) == settings([0, 1, 1], is_read=True)
    assert settings([0, 1, 1])["x"] == "c"
    assert settings([0, 1, 1])["y"] != settings([0, 1, 0])["y"]


@pytest.mark.parametrize("is_function", [False, True])
def test_an_iterator_stays_in_the_thread_that_calls(is_function):
    threads = []

    def blocks():
        for chunk in chunks(pd.concat([FRAME] * 50, ignore_index=True), 100):
            threads.append(threading.get_ident())
            yield chunk

    source = srf.open_source(blocks if is_function else blocks(), x=X_NAMES, y="sold")
    srf.accumulate(source, MAP, normalize="standard")
    assert len({*threads}) == 1 + is_function


@pytest.mark.parametrize(
    "y", [3, np.array(1), iter([1]), "yn", b"yn", {1, 2}, np.empty((2, 0)), scipy.sparse.eye(2)]
)
def test_what_is_no_value_for_each_row_is_refused(y):
    with pytest.raises(DataError, match="block 0, y must be a value for each row"):
        _ = srf.open_source(iter([(pd.DataFrame({"c": [*"xy"]}), y)])).n_features


def test_a_matrix_of_scipy_that_is_a_dict_is_no_table():
    X = scipy.sparse.dok_array(np.eye(3))
    assert np.array_equal(next(srf.open_source(X, y=[0, 1, 1]).blocks()).X, np.eye(3))
    (block,) = srf.open_source(iter([(X, [0, 1, 1])])).blocks()
    assert block.X.shape == (3, 3)


def test_loaders_of_batches_give_lists_of_tensors():
    X = np.arange(60.0).reshape(20, 3)
    y, weights = np.arange(20) % 2, np.arange(1.0, 21)
    loader = ([Tensor(X[i : i + 8]), Tensor(y[i : i + 8])] for i in range(0, 20, 8))
    (block,) = srf.open_source(loader).blocks()
    assert np.array_equal(block.X, X)
    assert np.array_equal(block.y, y)
    (block,) = srf.IteratorSource([[X, y, weights]]).blocks()
    assert np.array_equal(block.weights, weights)
    (block,) = srf.IteratorSource([[X[0], X[1]], [[1, 2, 3], [4, 5, 6]]]).blocks()  # rows
    assert block.y is None
    assert block.X.shape == (4, 3)
    (block,) = srf.IteratorSource([[X[i : i + 2] for i in range(4)]]).blocks()  # of two lines
    assert block.X.shape == (4, 6)


def test_models_read_streams_by_the_columns_learnt_from():
    clf = srf.RandomFeatureClassifier(MAP, normalize="standard", alpha=0.1)
    clf.fit(srf.open_source(chunks(), x=X_NAMES, y="sold"))
    new = a_frame(1)
    expected = clf.predict(new)
    later = new[["built", "weight", "garden", "city", "rooms", "area"]]
    assert np.array_equal(clf.predict(srf.open_source(chunks(later, 33))), expected)
    error = (expected != new["sold"]).mean()
    scored = clf.model_.evaluate(srf.open_source(chunks(new), y="sold"))
    assert scored["accuracy"] == pytest.approx(1 - error)
    with pytest.raises(ShapeError, match=r"lacks \['city'\]"):
        clf.predict(srf.open_source(chunks(new.drop(columns="city"))))


def test_levels_of_later_rows_are_counted_once(tmp_path, monkeypatch):
    monkeypatch.setattr(srf.sources.table_stream, "PEEK_ROWS", 100)
    monkeypatch.setattr(calibration, "CALIBRATION_ROWS", 200)
    monkeypatch.setattr(peeking, "PEEK_ROWS", 200)
    rng = np.random.default_rng(3)
    frame = FRAME.assign(
        city=np.where(np.arange(N_ROWS) < 100, "Rome", rng.choice([*"ab"], N_ROWS))
    )
    settings = {"features": MAP, "normalize": "standard", "task": "classification"}
    source = srf.open_source(partial(chunks, frame, 50), x=X_NAMES, y="sold")
    with pytest.warns(srf.StreamrfWarning, match="500 values are unlike those"):
        found = srf.accumulate(source, **settings)
    assert found.n_unseen == 500
    assert found.encoder.table.columns[2].levels == ("Rome",)
    monkeypatch.setattr(base, "MAX_ROWS", 64)
    monkeypatch.setattr(memory, "MIN_ROWS", 64)
    settings |= {"checkpoint": tmp_path / "pass.checkpoint", "checkpoint_every": 0}

    def breaks():
        yield from itertools.islice(chunks(frame, 50), 8)
        raise OSError("the line is gone")

    with pytest.raises(OSError, match="the line is gone"):
        srf.accumulate(srf.open_source(breaks, x=X_NAMES, y="sold"), **settings)
    assert storage.read(settings["checkpoint"], "checkpoint")["n_done"] == 384
    with pytest.warns(srf.StreamrfWarning, match="500 values are unlike those"):
        again = srf.accumulate(source, **settings)
    assert_same_bytes(again.to_tree(), found.to_tree())


def test_a_generator_may_use_its_memory_again():
    buffer = np.empty((50, 3))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))

    def tables():
        for start in range(0, 300, 50):
            buffer[:] = X[start : start + 50]
            yield pa.table({name: pa.array(buffer[:, i]) for i, name in enumerate("abc")})

    def frames():
        for start in range(0, 300, 50):
            buffer[:] = X[start : start + 50]
            yield pd.DataFrame(buffer, columns=[*"abc"], copy=False)

    for made in (tables, frames):
        source = srf.open_source(made(), x="*")
        assert np.array_equal(np.concatenate([b.X for b in source.blocks()]), X)


def test_chunks_of_a_csv_file_are_read_once():
    text = FRAME.to_csv(index=False)
    settings = {"features": MAP, "normalize": "standard"}
    whole = srf.accumulate(srf.open_source(FRAME.drop(columns="built"), y="sold"), **settings)
    source = srf.open_source(pd.read_csv(io.StringIO(text), chunksize=64), x="-built", y="sold")
    found = srf.accumulate(source, **settings)
    assert np.array_equal(found.gram, whole.gram)
    with pytest.raises(ConsumedError, match="has been read"):
        srf.accumulate(source, **settings)


def test_a_stream_chooses_as_the_table_does():
    settings = {"budget": 2, "random_state": 0}
    whole = srf.select(srf.open_source(FRAME, x=X_NAMES, y="sold"), **settings)
    found = srf.select(srf.open_source(chunks(), x=X_NAMES, y="sold"), **settings)
    assert repr(found.features) == repr(whole.features)
    assert found.normalize == whole.normalize


def test_columns_in_doubt_are_told_by_the_first_sample():
    frame = FRAME.assign(code=[f"id{i}" for i in range(N_ROWS)])
    source = srf.open_source(chunks(frame), x=[*X_NAMES, "code"], y="sold")
    with pytest.warns(srf.StreamrfWarning, match="code"):
        source.sample(10)
    source.sample(10)  # once


def test_a_column_of_several_numbers_is_one_of_lists():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 4)), rng.integers(0, 2, 100)
    source = srf.open_source([{"X": X[:60], "y": y[:60]}, {"X": X[60:], "y": y[60:]}], y="y")
    assert np.array_equal(np.concatenate([b.X for b in source.blocks()]), X)
    records = np.zeros(100, [("p", ">f4", 4), ("name", "S3"), ("y", "<i2")])
    records["p"], records["y"], records["name"] = X, y, b"ab"
    (block,) = srf.open_source(records, x="p", y="y").blocks()
    assert np.array_equal(block.X, X.astype(np.float32))
    (block,) = srf.open_source(records, x="p", y="name").blocks()
    assert block.y.tolist() == ["ab"] * 100


FIRST = FRAME.iloc[:80]
UNLIKE = {
    "lacks": (FIRST.drop(columns="city"), ShapeError, r"block 1 has other columns.*'city'"),
    "kind": (FIRST.assign(rooms="many"), ShapeError, r"'rooms' was number and is category"),
    "no target": (FIRST.drop(columns="sold"), ShapeError, r"block 1 lacks the columns \['sold'\]"),
    "target": (FIRST.assign(sold=1), ShapeError, "'sold' has type int64"),
    "no weight": (FIRST.drop(columns="weight"), ShapeError, r"block 1 lacks.*'weight'"),
    "missing": (FIRST.assign(sold=None), ShapeError, "block 1 has numbers of shape"),
    "a label": (FIRST.assign(sold=["yes", None] * 40), BadRowError, "row 1: the target 'sold'"),
    "array": (np.zeros((4, 7)), DataError, "block 1 is a ndarray, which has no names"),
    "tuple": ((FIRST, 1, 2, 3), DataError, "block 1 is a tuple of 4"),
    "twice": ((FIRST, FIRST["sold"]), DataError, "block 1 has y of its own"),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_a_block_unlike_the_first_ones_is_refused(name, monkeypatch):
    monkeypatch.setattr(srf.sources.table_stream, "PEEK_ROWS", 20)
    block, error, message = UNLIKE[name]
    source = srf.open_source(iter([FIRST, block]), x=X_NAMES, y="sold", weights="weight")
    with pytest.raises(error, match=message):
        srf.accumulate(source, MAP)


@pytest.mark.parametrize("name", ["more", "y"])  # the second is that of the targets beside
@pytest.mark.parametrize("n_rows", [50, 5000])  # within the rows that columns are learnt from
def test_columns_that_come_later_are_told_once(name, n_rows, caplog):
    def blocks():
        for block in range(4):
            frame = pd.DataFrame({"a": np.arange(float(n_rows)), "y_": np.arange(n_rows) % 2})
            if block >= 2:
                frame[name] = 7.0
            yield frame, np.arange(n_rows) % 3

    stream = srf.open_source(blocks)
    for _ in range(2):
        assert {block.X.shape[1] for block in stream.blocks()} == {2}
    (record,) = caplog.records
    assert "block 2" in record.message
    assert f": ['{name}']" in record.message


def test_what_is_wrong_with_a_stream_is_told():
    with pytest.raises(DatasetNotFoundError, match="'price'"):
        _ = srf.open_source(chunks(), y="price").n_features
    with pytest.raises(EmptySourceError, match="0 rows"):
        _ = srf.open_source(iter([FIRST.iloc[:0]]), y="sold").n_features
    with pytest.raises(EmptySourceError, match="0 rows"):
        _ = srf.open_source(iter([])).n_features
    with pytest.raises(DataError, match="no table of columns"):
        srf.open_source({"a": [1, 2], "b": [1]})
    with pytest.raises(DataError, match="block 0 is a dict of one row; give lists of such rows"):
        _ = srf.open_source(csv.DictReader(io.StringIO("a,b\n1,x\n"))).n_features
    with pytest.raises(DataError, match="X is a dict of one row"):
        srf.open_source({"a": 1, "b": "x"})
    dask_frame = pytest.importorskip("dask.dataframe").from_pandas(FRAME, npartitions=2)
    for options in ({}, {"y": "sold"}):
        with pytest.raises(DataError, match="block 0 is a Dask data frame"):
            _ = srf.open_source(iter([dask_frame]), **options).n_features
    loader = type("Loader", (list,), {"shape": (2, 3)})([(np.eye(3), [0, 1, 1])])
    assert srf.IteratorSource(lambda: loader).n_features == 3
    for made in (lambda: FRAME, lambda: 5, lambda: "rows"):
        with pytest.raises(ParameterError, match="what the function gave is a"):
            _ = srf.open_source(made, y="sold").n_features
    clf = srf.RandomFeatureClassifier(MAP, normalize="standard", alpha=0.1)
    clf.fit(srf.open_source(FRAME[["rooms", "sold"]], y="sold"))
    short = iter([FRAME[["rooms", "area"]].iloc[:10], FRAME[["area"]].iloc[:90]])
    with pytest.raises(ShapeError, match="block 1 has other columns"):
        clf.predict(srf.open_source(short, x="area"))
    for call in (clf.predict, clf.evaluate, clf.model_.decision_function):
        with pytest.raises(ParameterError, match="there is no option 'sample_weight'; the opt"):
            call(srf.open_source(FRAME, y="sold"), sample_weight=1)
    with pytest.raises(DataError, match="no table of columns"):
        srf.open_source({"\ud800": [1, 2]})
    with pytest.raises(ParameterError, match="cannot be split"):
        srf.open_source(chunks(), y="sold").split(2)
    for given in ({"a": [1.0, 2]}, np.zeros(3, [("a", float)]), [{"a": 1}, {"a": 2}]):
        for call in (srf.RandomFeatureClassifier(MAP).fit, partial(srf.accumulate, features=MAP)):
            with pytest.raises(ParameterError, match="open_source"):
                call(given)


@pytest.mark.parametrize(
    "y",
    [
        np.array([1, "a"], dtype=object),
        np.array([1j, 2]),
        np.zeros(2, [("p", int)]),
        np.array([b"\xe9", b"a"]),
        np.array(["\ud800", "a"]),
        [2**70, 1],
    ],
    ids=lambda y: type(y).__name__,
)
def test_targets_that_are_no_column_are_told(y):
    frame = pd.DataFrame({"c": [*"xy"]})
    for blocks, given in ((frame, y), (iter([(frame, y)]), None)):
        with pytest.raises(DataError, match=r"^[^\n]*y"):
            _ = srf.open_source(blocks, y=given).n_features
