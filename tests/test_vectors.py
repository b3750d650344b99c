"""Columns of lists of numbers, as embeddings come in tables."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from typer.testing import CliRunner

import streamrf as srf
from integers import assert_same_bytes
from streamrf.cli import app
from streamrf.errors import DataError, ShapeError, StreamrfWarning
from streamrf.sources import open_source

N, K = 200, 6
RNG = np.random.default_rng(0)
E = RNG.normal(size=(N, K)).astype(np.float32)
Z = RNG.normal(size=N)
Y = (E[:, 0] * E[:, 1] > 0).astype(np.int64)
MAP = srf.RandomFourier(srf.Gaussian(0.3), 32, random_state=0)
NAMES = (*(f"e_{place}" for place in range(K)), "z")


def of(lists):
    return pa.table({"e": lists, "z": Z, "y": Y})


FIXED = pa.FixedSizeListArray.from_arrays(pa.array(E.ravel()), K)
LISTS = {
    "fixed": FIXED,
    "lists": FIXED.cast(pa.list_(pa.float32())),
    "large": FIXED.cast(pa.large_list(pa.float64())),
    "half": FIXED.cast(pa.list_(pa.float32())).cast(pa.list_(pa.float64())),
}


@pytest.mark.parametrize("kind", LISTS)
def test_rows_are_those_of_the_numbers(tmp_path, kind):
    table = of(LISTS[kind])
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=70)
    feather.write_feather(table, str(tmp_path / "rows.arrow"), chunksize=50)
    table.to_pandas().assign(e=[json.dumps(row) for row in E.tolist()]).to_csv(
        tmp_path / "rows.csv", index=False
    )
    plain = srf.ArraySource(np.c_[E, Z], Y)
    expected = srf.accumulate(plain, MAP, normalize="standard", random_state=0)
    for data in (tmp_path / "rows.parquet", tmp_path / "rows.arrow", table, table.to_pandas()):
        source = open_source(data, y="y")
        assert source.columns.outputs == NAMES
        X = np.concatenate([block.X for block in source.blocks(block_rows=33)])
        np.testing.assert_array_equal(X, np.c_[E, Z])
        found = srf.accumulate(source, MAP, normalize="standard", random_state=0)
        assert found.gram.tobytes() == expected.gram.tobytes()


def test_frames_and_estimators():
    frame = pl.DataFrame({"e": E, "z": Z})
    clf = srf.RandomFeatureClassifier(MAP, normalize="standard", random_state=0).fit(frame, Y)
    other = pd.DataFrame({"z": Z, "e": list(E)})[["e", "z"]]
    np.testing.assert_array_equal(clf.predict(other), clf.predict(frame))
    np.testing.assert_array_equal(clf.predict(np.c_[E, Z]), clf.predict(frame))
    assert clf.score(frame, Y) > 0.7


def test_a_model_is_loaded_with_its_vectors(tmp_path):
    stats = srf.accumulate(open_source(of(FIXED), y="y"), MAP, normalize="standard")
    model = stats.solve(1e-3)
    model.save(tmp_path / "m.h5")
    loaded = srf.load_model(tmp_path / "m.h5")
    assert_same_bytes(loaded.to_tree(), model.to_tree())
    shown = CliRunner().invoke(app, ["info", str(tmp_path / "m.h5")]).stdout
    assert f"vector: {K} numbers" in shown
    for lines in (
        json.dumps({"z": Z[0], "e": E[0].tolist()}),
        "z,e\n" + f'{Z[0]},"{E[0].tolist()}"',
    ):
        result = CliRunner().invoke(
            app, ["predict", str(tmp_path / "m.h5"), "-", "-o", "-"], input=lines
        )
        assert result.exit_code == 0, result.stderr
        assert result.stdout.split() == ["y", str(model.predict(np.c_[E, Z][:1])[0])]


def test_missing_lists_and_numbers_are_filled_in():
    lists = E.astype(float).tolist()
    lists[3], lists[5][2] = None, None
    source = open_source(of(pa.array(lists, pa.list_(pa.float64()))), y="y")
    assert source.columns.outputs == (*NAMES[:K], "e missing", "z")
    (block,) = source.blocks()
    median = np.median([x for row in lists if row for x in row if x is not None])
    expected = np.c_[E.astype(float), np.isin(np.arange(N), [3, 5]), Z]
    expected[3, :K], expected[5, 2] = median, median
    np.testing.assert_array_equal(block.X, expected)


def test_later_missing_lists_are_told():
    stats = srf.accumulate(open_source(of(FIXED), y="y"), MAP, normalize="standard")
    lists = E.tolist()
    lists[3] = None
    rows = of(pa.array(lists, pa.list_(pa.float32()))).select(["e", "z"])
    with pytest.warns(StreamrfWarning, match="1 values are unlike .* missing"):
        assert stats.solve(1e-3).predict(rows).shape == (N,)


def test_lists_of_other_lengths_are_refused(tmp_path):
    lists = E.tolist()
    lists[7] = [1.0, 2.0]
    with pytest.raises(DataError, match="'e' has a list of 2 numbers, and the first one has 6"):
        open_source(of(pa.array(lists, pa.list_(pa.float32()))), y="y")
    model = srf.accumulate(open_source(of(FIXED), y="y"), MAP, normalize="standard").solve(1e-3)
    with pytest.raises(DataError, match="Table: column 'e' has a list of 2 numbers"):
        model.predict(of(pa.array(lists, pa.list_(pa.float32()))))
    source = open_source(of(pa.array([row[:2] for row in lists])), y="y")
    with pytest.raises(DataError, match=r"rows 0 to 199: column 'e' has a list of 2.*has 6"):
        model.predict(source)
    with pytest.raises(ShapeError, match="'e' was vector and is number"):
        model.predict(pa.table({"e": Z, "z": Z}))


@pytest.mark.parametrize(
    ("entry", "told"), [([1.0], "list of 1"), ({"a": 1}, "lists of numbers"), ("no", "lists of")]
)
def test_rows_of_standard_input_that_are_none(tmp_path, entry, told):
    stats = srf.accumulate(open_source(of(FIXED), y="y"), MAP, normalize="standard")
    stats.solve(1e-3).save(tmp_path / "m.h5")
    result = CliRunner().invoke(
        app,
        ["predict", str(tmp_path / "m.h5"), "-", "-o", "-"],
        input=json.dumps({"z": 1.0, "e": entry}),
    )
    assert result.exit_code == 1
    assert told in result.stderr


def test_lists_are_no_targets():
    with pytest.raises(DataError, match=r"column 'e' has type .*expected numbers, booleans or str"):
        open_source(of(FIXED), x="z", y="e")


def test_lists_of_text_or_of_lists_are_refused():
    for lists in (
        pa.array([["a"]] * N),
        pa.array([[[1.0]]] * N),
        pa.array([[1]] * N, pa.list_(pa.duration("s"))),
        pa.DictionaryArray.from_arrays(pa.array([0] * N), pa.array([[1.0]])),
    ):
        with pytest.raises(DataError, match=r"column 'e' has type (list|dictionary)"):
            open_source(of(lists), y="y")
    empty = of(pa.array([[]] * N, pa.list_(pa.float64())))
    assert open_source(empty, x="z", y="y").n_features == 1


def test_files_with_lists_of_several_types(tmp_path):
    parquet.write_table(of(LISTS["fixed"]), tmp_path / "a.parquet")
    parquet.write_table(of(LISTS["large"]), tmp_path / "b.parquet")
    source = open_source(str(tmp_path / "*.parquet"), y="y")
    X = np.concatenate([block.X for block in source.blocks()])
    np.testing.assert_array_equal(X, np.tile(np.c_[E, Z], (2, 1)))
    parquet.write_table(of(FIXED.cast(pa.list_(pa.float32()))), tmp_path / "c.parquet")
    parquet.write_table(of(pa.array(Z)), tmp_path / "d.parquet")
    with pytest.raises(ShapeError, match="column 'e' has type double"):
        open_source(str(tmp_path / "*.parquet"), y="y")


def test_lists_that_are_empty():
    lists = E.tolist()
    source = open_source(of(pa.array([[], *lists[1:]], pa.list_(pa.float64()))), x="z", y="y")
    assert source.n_features == 1
    with pytest.raises(DataError, match="has a list of 0 numbers, and the first one has 6"):
        open_source(of(pa.array([[], *lists[1:]], pa.list_(pa.float64()))), y="y")
    empty = open_source(of(pa.array([[]] * N, pa.list_(pa.float64()))), y="y")
    assert [column.kind for column in empty.columns.columns] == ["empty", "number"]


@pytest.mark.parametrize("values", [pa.nulls(N), pa.array(Z)])
def test_columns_that_were_lists(values, tmp_path):
    model = srf.accumulate(open_source(of(FIXED), y="y"), MAP, normalize="standard").solve(1e-3)
    rows = pa.table({"e": values, "z": Z})
    if pa.types.is_null(values.type):
        with pytest.warns(StreamrfWarning, match="missing"):
            assert model.predict(rows).shape == (N,)
        return
    rows.to_pandas().to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match="'e' has type double, and is to be lists of numbers"):
        model.predict(open_source(tmp_path / "rows.csv"))
