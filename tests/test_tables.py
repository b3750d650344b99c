"""Tables: what becomes of columns, the same in every format, and kept with a model."""

import bz2
import csv
import datetime
import decimal
import gzip
import hashlib
import io
import itertools
import math
import pickle
import shutil
from urllib.parse import quote

import h5py
import numpy as np
import pandas as pd
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamrf as srf
from cases import opened, write_csv
from commands import answer, refused, streamrf, told
from streamrf import storage
from streamrf.errors import (
    BadRowError,
    CorruptFileError,
    DataError,
    DatasetNotFoundError,
    MergeError,
    ShapeError,
    StreamrfWarning,
)
from streamrf.sources import check_rows, csv_files, tables
from streamrf.sources.cycles import CYCLES
from streamrf.sources.partitions import NULL, levels_of

N = 3000
CITIES = ["Oslo, N", "Paris", 'R"ome']


def some_rows(n=N, seed=0) -> pyarrow.Table:
    """Numbers, booleans, categories and dates, with holes, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    age, city = rng.normal(40, 10, n), rng.choice(CITIES, n)
    label = np.where(age + 8 * (city == "Paris") + rng.normal(0, 2, n) > 42, "yes", "no")
    start = np.datetime64("2020-01-01T00:00", "us")
    return pyarrow.table(
        {
            "age": pyarrow.array(age, mask=rng.random(n) < 0.1),
            "rooms": rng.integers(1, 9, n),
            "city": pyarrow.array(city, mask=rng.random(n) < 0.05),
            "user": [f"u{i}" for i in rng.integers(0, 200, n)],
            "when": start + rng.integers(0, 1000 * 1440, n) * np.timedelta64(60, "s"),
            "day": (start + rng.integers(0, 900, n) * np.timedelta64(1, "D")).astype("M8[D]"),
            "ok": rng.random(n) < 0.4,
            "label": label,
        }
    )


ROWS = some_rows()


def everything(source):
    """X and y of all blocks."""
    X, y = zip(*((block.X, block.y) for block in source.blocks(block_rows=700)), strict=True)
    return np.concatenate(X), None if y[0] is None else np.concatenate(y)


def accumulated(source, **options):
    features = srf.RandomFourier(srf.Gaussian(gamma=0.003), 64, random_state=0)
    options = {"normalize": "standard", "random_state": 0, **options}
    return srf.accumulate(source, features, **options)


def fingerprint(statistics) -> str:
    """A digest of all but the names of stores."""
    tree = statistics.to_tree()
    return storage.digest([tree["encoder"], tree["sums"], tree["ledger"]["ranges"]])


# What becomes of columns


def test_columns_become_what_their_definitions_say():
    table = ROWS.slice(0, 500)
    X, _ = everything(srf.open_source(table, y="label"))
    found = dict(zip(srf.open_source(table, y="label").columns.outputs, X.T, strict=True))
    rows = table.to_pylist()
    known = [row["age"] for row in rows if row["age"] is not None]
    expected = {
        "age": [np.median(known) if row["age"] is None else row["age"] for row in rows],
        "age missing": [row["age"] is None for row in rows],
        "rooms": [row["rooms"] for row in rows],
        "ok": [row["ok"] for row in rows],
        "city missing": [row["city"] is None for row in rows],
    }
    cities = [row["city"] for row in rows if row["city"] is not None]
    usual = max(sorted(set(cities)), key=cities.count)
    for city in set(cities):
        expected[f"city={city}"] = [(row["city"] or usual) == city for row in rows]
    hashed = np.zeros((500, 64))
    for place, row in enumerate(rows):
        bits = int.from_bytes(hashlib.blake2b(row["user"].encode(), digest_size=8).digest(), "big")
        hashed[place, bits % 64] = -1 if bits >> 63 else 1
    expected |= {f"user#{bucket}": hashed[:, bucket] for bucket in range(64)}
    for name in ("when", "day"):
        moments = [row[name] for row in rows]
        since = datetime.datetime(1970, 1, 1)
        if name == "day":
            moments = [datetime.datetime(m.year, m.month, m.day) for m in moments]
        expected[name] = [(m - since) / datetime.timedelta(days=1) for m in moments]
        turns = {
            "year": [(m.timetuple().tm_yday - 1) / 366 for m in moments],
            "week": [(m.weekday() + (m.hour * 60 + m.minute) / 1440) / 7 for m in moments],
            "day": [(m.hour * 60 + m.minute) / 1440 for m in moments],
        }
        for cycle, turn in turns.items():
            if (name, cycle) != ("day", "day"):  # dates have no time of day
                angles = 2 * math.pi * np.array(turn)
                expected[f"{name}, sine of {cycle}"] = np.sin(angles)
                expected[f"{name}, cosine of {cycle}"] = np.cos(angles)
    assert set(found) == set(expected)
    for name, column in expected.items():
        np.testing.assert_allclose(found[name], column, rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(
    ("days", "cycles"), [(0.5, ()), (1, ("day",)), (8, ("week", "day")), (500, (*CYCLES,))]
)
def test_dates_have_the_cycles_that_rows_have_seen(days, cycles):
    """Of a week a day shows a small part, and the sine of it was far away on the next one."""
    steps = np.linspace(0, 86400 * days, 50).astype("timedelta64[s]")
    when = pyarrow.array(np.datetime64("2024-01-01", "s") + steps)
    source = srf.open_source(pyarrow.table({"when": when, "n": np.arange(50.0)}))
    assert source.columns.columns[0].cycles == cycles


def test_a_week_of_dates_is_a_week_and_one_wrong_date_is_no_year():
    week = np.datetime64("2024-01-01") + np.arange(300) % 7
    wrong = np.where(np.arange(300) == 7, np.datetime64("1970-01-01"), np.datetime64("2024-01-01"))
    for days, cycles in ((week, ("week",)), (week[week < week.max()], ()), (wrong, ())):
        source = srf.open_source(pyarrow.table({"when": days, "n": np.arange(len(days)) / 2}))
        assert source.columns.columns[0].cycles == cycles


def test_fit_says_that_dates_are_not_known_beyond_those_of_the_rows(tmp_path):
    when = np.datetime64("2024-01-01", "s") + np.arange(60) * np.timedelta64(3600, "s")
    table = pyarrow.table({"when": when, "n": np.arange(60.0), "y": np.arange(60) % 2})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    fit = ("fit", tmp_path / "t.parquet", "--y", "y", "--model", tmp_path / "m.h5")
    assert "'when': of later days than those of these rows the model knows nothing" in told(*fit)
    assert answer(*fit)["columns_of_dates"] == ["when"]
    assert answer(*fit, "--x=-when")["columns_of_dates"] == []


def test_levels_and_holes_that_the_peek_did_not_have_are_counted():
    source = srf.open_source(pyarrow.table({"c": ["a", "b", "a"], "n": [1.0, 5.0, 2.0]}))
    later = pyarrow.table({"c": ["b", "z", None, "a"], "n": [None, 7.0, 8.0, math.nan]})
    (block,) = srf.open_source(later).adapted(source.columns).blocks()
    np.testing.assert_array_equal(block.X, [[0, 1, 2], [0, 0, 7], [1, 0, 8], [1, 0, 2]])
    assert block.n_unseen == 4


EMPTY = {
    "nulls": pyarrow.nulls(60),
    "floats": pyarrow.nulls(60, pyarrow.float64()),
    "NaN": pyarrow.array(np.full(60, np.nan)),
    "texts": pyarrow.nulls(60, pyarrow.string()),
    "flags": pyarrow.nulls(60, pyarrow.bool_()),
    "dates": pyarrow.nulls(60, pyarrow.timestamp("us")),
}


@pytest.mark.parametrize("later", ["floats", "words", "days", "nothing"])
@pytest.mark.parametrize("values", EMPTY)
def test_a_column_without_values_carries_nothing(values, later, tmp_path):
    """An indicator that was always 1 and a fill of 0 changed with values: R2 0.999 to -6313."""
    x = np.arange(60.0) % 7
    source = srf.open_source(pyarrow.table({"x": x, "z": EMPTY[values], "y": x % 2}), y="y")
    with pytest.warns(StreamrfWarning, match="column 'z' has no value in the 60 rows looked at"):
        model = accumulated(source).solve(1e-3)
    model.save(tmp_path / "m.h5")
    model = srf.load_model(tmp_path / "m.h5")
    assert model.encoder.table == source.columns
    plain = pyarrow.table({"x": x, "z": EMPTY["nulls"]})
    expected = model.scores(np.column_stack([x, np.zeros(60)]))
    np.testing.assert_array_equal(np.concatenate([s for _, s in model.scored(plain)]), expected)
    table = plain.set_column(1, "z", ALIKE[later])
    if later != "nothing":
        with pytest.warns(StreamrfWarning) as found:
            scores = [s for _, s in model.scored(table)]
        told = [str(warning.message) for warning in found]
        assert "column 'z' has values, but had none" in told[0]
        assert "60 values are unlike" in told[1]
        np.testing.assert_array_equal(np.concatenate(scores), expected)


def test_columns_that_had_no_values_before_share_a_warning():
    names = [f"z{k}" for k in range(7)]
    early = pyarrow.table({"x": np.arange(60.0), **{name: pyarrow.nulls(60) for name in names}})
    later = pyarrow.table({"x": np.arange(60.0), **{name: np.ones(60) for name in names}})
    with pytest.warns(StreamrfWarning) as found:
        srf.open_source(later).adapted(srf.open_source(early).columns)
    (told,) = found
    named = "Table: columns 'z0', 'z1', 'z2', 'z3', 'z4' and 2 more have values, but had none in"
    assert str(told.message).startswith(named)


def test_a_column_of_a_csv_that_was_empty_may_hold_anything_later(tmp_path):
    path, rows = tmp_path / "a.csv", range(60)
    path.write_text("x,z,y\n" + "".join(f"{i % 7},NA,{i % 2}\n" for i in rows))
    columns = srf.open_source(path, y="y").columns
    (same,) = srf.open_source(path, y="y").adapted(columns).blocks()
    assert same.n_unseen == 0
    path.write_text("x,z,y\n" + "".join(f"{i % 7},{'u' * (i % 2)},{i % 2}\n" for i in rows))
    with pytest.warns(StreamrfWarning, match="column 'z' has values, but had none"):
        adapted = srf.open_source(path, y="y").adapted(columns)
    (block,) = adapted.blocks()
    assert block.n_unseen == 30
    assert not block.X[:, 1].any()


def test_unseen_values_add_up_and_are_kept(tmp_path):
    table = ROWS.slice(0, 400)
    first = accumulated(srf.open_source(table, y="label"))
    cities = pyarrow.array(["Rome"] * 3 + table["city"].to_pylist()[3:])
    other = table.slice(0).set_column(2, "city", cities)
    with pytest.warns(StreamrfWarning, match="3 values are unlike those"):
        second = accumulated(srf.open_source(other, y="label"), like=first)
    assert (first.n_unseen, second.n_unseen) == (0, 3)
    both = first + second
    both.save(tmp_path / "s.h5")
    loaded = srf.load_statistics(tmp_path / "s.h5")
    assert (loaded.n_unseen, (loaded - second).n_unseen) == (3, 0)
    assert loaded.encoder.table == first.encoder.table


def test_bad_values_are_told_by_the_names_of_columns():
    table = pyarrow.table({"a": [1.0, 2.0, math.inf], "b": ["x", "y", "x"]})
    (block,) = srf.open_source(table.select(["b", "a"])).blocks()
    with pytest.raises(BadRowError, match=r"^Table, row 2: column 'a' is inf"):
        check_rows(block, "raise")


def test_columns_are_chosen_by_names_and_patterns():
    def names(x):
        return [c.name for c in srf.open_source(ROWS, x, "label").columns.columns]

    assert names("day,a*") == ["day", "age"]
    assert names(["rooms", "?ity"]) == ["rooms", "city"]
    assert names("-user, -w*") == ["age", "rooms", "city", "day", "ok"]
    assert names("*o*,-rooms,-label") == ["ok"]
    with pytest.raises(DatasetNotFoundError, match="near names there: \\['user'\\]"):
        names("usr")


# The same in every format


def formats(folder):
    """The rows in every format that has names."""
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    import dask.dataframe
    import pyarrow.feather
    import pyarrow.parquet

    (folder / "parts").mkdir()
    write_csv(folder / "rows.csv", ROWS)
    write_csv(folder / "rows.csv.gz", ROWS)
    (folder / "named").mkdir()  # as the other one
    shutil.copy(folder / "rows.csv.gz", folder / "named/packed.csv")
    shutil.copy(folder / "rows.csv", folder / "named/plain.csv.gz")
    for number in range(3):
        part = ROWS.slice(number * 1000, 1000)
        pyarrow.parquet.write_table(part, folder / f"parts/{number}.parquet", row_group_size=170)
    pyarrow.parquet.write_table(ROWS, folder / "rows.parquet", row_group_size=700)
    pyarrow.feather.write_feather(ROWS, str(folder / "rows.arrow"), chunksize=450)
    with pyarrow.ipc.new_stream(folder / "stream.arrow", ROWS.schema) as stream:
        stream.write_table(ROWS, max_chunksize=450)
    frame = ROWS.to_pandas()
    return {
        "csv": folder / "rows.csv",
        "csv.gz": folder / "rows.csv.gz",
        "csv.gz, named .csv": folder / "named/packed.csv",
        "csv, named .csv.gz": folder / "named/plain.csv.gz",
        "parquet": folder / "rows.parquet",
        "arrow": folder / "rows.arrow",
        "arrow stream": folder / "stream.arrow",
        "table": ROWS,
        "pandas": frame,
        "categories": frame.astype({"city": pandas.CategoricalDtype(CITIES[::-1])}),
        "polars": polars.from_arrow(ROWS),
        "dask": dask.dataframe.from_pandas(
            frame.astype({"day": "datetime64[us]"}),  # dates are objects to pandas, text to Dask
            npartitions=5,
        ),
    }


def test_every_format_gives_the_same_statistics(tmp_path):
    found = formats(tmp_path)
    sources = {name: opened(data, y="label", chunk_bytes=20_000) for name, data in found.items()}
    X, y = everything(sources["csv"])
    whole = accumulated(sources["csv"])
    prints = {name: fingerprint(accumulated(source)) for name, source in sources.items()}
    assert set(prints.values()) == {fingerprint(whole)}
    # and those of numbers: but for the table of columns
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    plain = srf.open_source(tmp_path / "X.npy", y="y")
    for source in (plain, srf.ArraySource(X, y)):
        sums = accumulated(source)
        assert storage.digest(sums.sums.to_tree()) == storage.digest(whole.sums.to_tree())


def test_two_workers_give_the_same_statistics(tmp_path, two_workers):
    write_csv(tmp_path / "rows.csv", ROWS)
    write_csv(tmp_path / "rows.csv.gz", ROWS)
    expected = fingerprint(accumulated(srf.open_source(ROWS, y="label")))
    for name in ("rows.csv", "rows.csv.gz"):
        source = opened(tmp_path / name, y="label", chunk_bytes=20_000)
        assert fingerprint(accumulated(source, engine=two_workers, parts=3)) == expected


def test_a_folder_is_all_its_files(tmp_path):
    formats(tmp_path)
    source = srf.open_source(tmp_path / "parts", y="label")
    np.testing.assert_array_equal(
        everything(source)[0], everything(srf.open_source(ROWS, y="label"))[0]
    )
    assert len(source.stores) == 3


@pytest.mark.parametrize("ending", ["csv", "parquet", "svm"])
def test_a_name_need_not_be_text(ending, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = f"\udcff.{ending}"
    if ending == "parquet":
        with open(name, "wb") as file:
            pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2], "y": [0, 1]}), file)
    else:
        with open(name, "w") as file:
            file.write("a,y\n1,0\n2,1\n" if ending == "csv" else "0 1:1\n1 1:2\n")
    for data in (name, [name]):
        X, y = everything(srf.open_source(data, y="y"))
        assert (X.tolist(), y.tolist()) == ([[1], [2]], [0, 1])


@pytest.mark.parametrize("first", ["BZh1", "\ufeffa", "größe", "\u0928\u093e\u092e", '"a"'])
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.bz2"])
def test_the_first_bytes_tell_whether_a_file_is_compressed(first, ending, tmp_path):
    text = f"{first},y\n1,0\n2,1\n".encode()
    skipped = b"\x50\x2a\x4d\x18\4\0\0\0abcd"  # a frame, as pzstd writes
    packed = (
        gzip.compress,
        bz2.compress,
        lambda data: skipped + pyarrow.compress(data, codec="zstd", asbytes=True),
    )
    for pack in (bytes, *packed):
        (tmp_path / f"a.{ending}").write_bytes(pack(text))
        X, y = everything(srf.open_source(tmp_path / f"a.{ending}", y="y"))
        assert (X.tolist(), y.tolist()) == ([[1], [2]], [0, 1])


@pytest.mark.parametrize(("between", "is_told"), [("\n1\n", True), ("1\n\n", False)])
@pytest.mark.parametrize("columns", ["a\n", "a,b\n"])
def test_empty_lines_of_one_column_are_told(between, is_told, columns, tmp_path, caplog):
    """polars and Arrow write missing values so, and predictions stood beside other rows."""
    if "," in columns:
        between = between.replace("1", "1,2")
    (tmp_path / "a.csv").write_text(columns + between.replace("1", "3", 0) + between * 2)
    source = srf.open_source(tmp_path / "a.csv")
    assert source.n_rows == 3
    told = "are no rows here" in caplog.text
    assert told == ("," not in columns)
    if told:
        assert ("(3)" if is_told else "(2)") in caplog.text


def test_an_empty_stream_of_bzip2_is_told(tmp_path):
    """`bzip2 -dc` reads it, and Arrow does not."""
    parts = (b"a,y\n1,0\n", b"", b"2,1\n")
    (tmp_path / "a.csv.bz2").write_bytes(b"".join(map(bz2.compress, parts)))
    with pytest.raises(CorruptFileError, match=r"an empty part lies between.*: unpack it first$"):
        srf.open_source(tmp_path / "a.csv.bz2", y="y")


def test_a_url_is_read_by_fsspec():
    import fsspec

    text = io.BytesIO()
    pyarrow.csv.write_csv(ROWS, text)
    for name, data in (("a.csv", text.getvalue()), ("a.csv.gz", gzip.compress(text.getvalue()))):
        with fsspec.open(f"memory://streamrf/{name}", "wb") as file:
            file.write(data)
        source = srf.open_source(f"memory://streamrf/{name}", y="label")
        X, y = everything(source)
        np.testing.assert_array_equal(X, everything(srf.open_source(ROWS, y="label"))[0])
        assert y.tolist() == ROWS["label"].to_pylist()


# Prediction


@pytest.fixture(scope="module")
def model():
    return accumulated(srf.open_source(ROWS, y="label")).solve(1e-3)


def test_a_model_reads_columns_by_name(model, tmp_path):
    expected = model.predict(srf.open_source(ROWS, y="label"))
    assert np.mean(expected == ROWS["label"].to_numpy()) > 0.65
    shuffled = ROWS.select(["when", "ok", "city", "label", "user", "age", "day", "rooms"])
    more = shuffled.append_column("more", [["?"] * N])
    for data in (ROWS, shuffled, more, write_csv(tmp_path / "rows.csv", more)):
        np.testing.assert_array_equal(model.predict(srf.open_source(data)), expected)
    model.save(tmp_path / "m.h5")
    loaded = srf.load_model(tmp_path / "m.h5")
    np.testing.assert_array_equal(loaded.predict(more), expected)
    assert loaded.to_tree()["encoder"]["columns"] == model.encoder.table.to_tree()
    assert loaded.evaluate(srf.open_source(ROWS, y="label"))["n_rows"] == N


def test_a_csv_of_many_columns_is_read_in_pieces_of_many_rows(tmp_path):
    X = np.arange(60.0)[:, np.newaxis] + np.arange(5000)
    names = ",".join(f"c{i}" for i in range(5000))
    np.savetxt(tmp_path / "wide.csv", X, "%.4f", ",", header=names, comments="")
    source = srf.open_source(tmp_path / "wide.csv")
    (block,) = source.blocks(0, 60)
    np.testing.assert_array_equal(block.X, X)


def test_one_row_of_a_csv_is_read_as_the_model_learnt(model, tmp_path):
    """Whose one age looks like an integer, and whose user like a number."""
    row = {**ROWS.to_pylist()[5], "age": 41, "user": "7", "city": None}
    with open(tmp_path / "one.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row)
    table = pyarrow.Table.from_pylist([row | {"age": 41.0}], ROWS.schema)
    one = model.predict(srf.open_source(tmp_path / "one.csv"))
    np.testing.assert_array_equal(one, model.predict(table))


def test_the_target_of_a_table_is_a_dataset_of_other_formats(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = (X[:, 0] > 0).astype(int)
    rows = pyarrow.table({"a": X[:, 0], "b": X[:, 1], "y": y, "z": X[:, 1]})
    with h5py.File("d.h5", "w") as file:
        file["X"], file["y"] = X, y
    np.savez("d.npz", X=X, y=y)
    for target in ("y", "y,z"):
        source = srf.open_source(rows, x="a,b", y=target)
        accumulated(source).solve(0.1).save(f"{target}.h5")
    for name, said in ("d.h5", "no dataset 'z'"), ("d.npz", "['y', 'z'] of a table, and"):
        assert answer("evaluate", "y.h5", name)["accuracy"] > 0.9
        assert said in refused("evaluate", "y,z.h5", name)


def test_columns_that_lack_or_changed_are_told(model):
    with pytest.raises(ShapeError, match="it lacks \\['age', 'day'\\]"):
        model.predict(ROWS.drop_columns(["age", "day"]))
    text = pyarrow.array(["9"] * N)
    with pytest.raises(ShapeError, match="'rooms' was number and is category"):
        model.predict(ROWS.set_column(1, "rooms", text))


def test_dates_that_came_as_text_are_told_how_to_become_dates(model):
    """`pd.read_csv` leaves them as text, and only the difference was told."""
    texts = pyarrow.array([str(day) for day in ROWS["day"].to_pylist()])
    rows = ROWS.set_column(ROWS.schema.get_field_index("day"), "day", texts)
    cure = r"'day' was date and is category; make dates of text: pd.to_datetime\(frame\['day'\]\)"
    with pytest.raises(ShapeError, match=cure):
        model.predict(rows)
    with pytest.raises(ShapeError, match=r"'rooms' was number and is category$"):  # no dates
        model.predict(ROWS.set_column(1, "rooms", pyarrow.array(["9"] * N)))


def test_statistics_of_other_columns_are_not_merged():
    first = accumulated(srf.open_source(ROWS.slice(0, 1500), y="label"))
    other = accumulated(srf.open_source(ROWS.slice(1500), y="label"))
    with pytest.raises(MergeError, match="different"):
        first + other
    alike = accumulated(srf.open_source(ROWS.slice(1500), y="label"), like=first)
    assert (first + alike).n_rows == N


def test_estimators_take_tables():
    pytest.importorskip("pandas")
    frame = ROWS.slice(0, 600).to_pandas()
    X, y = frame.drop(columns="label"), frame["label"]
    features = srf.RandomFourier(srf.Gaussian(gamma=0.003), 64, random_state=0)
    clf = srf.RandomFeatureClassifier(features, alpha=1e-3, normalize="standard")
    expected = accumulated(srf.open_source(ROWS.slice(0, 600), y="label")).solve(1e-3)
    np.testing.assert_array_equal(clf.fit(X, y).predict(X), expected.predict(X))
    assert clf.score(X, y) == clf.score(srf.open_source(frame, y="label")) > 0.65


def test_a_model_of_numbers_takes_a_table_of_numbers(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = accumulated(srf.ArraySource(X, X[:, 0] > 0)).solve(1e-3)
    table = pyarrow.table(dict(zip("abc", X.T, strict=True)))
    np.testing.assert_array_equal(model.predict(table), model.predict(X))
    holed = table.set_column(1, "b", pyarrow.array([None, *X[1:, 1]]))
    with pytest.raises(BadRowError, match="row 0: column 'b' is NaN"):
        model.predict(holed)
    with pytest.raises(ShapeError, match="column 'c' is a category"):
        model.predict(table.set_column(2, "c", pyarrow.array(["x"] * 200)))


def test_a_pass_goes_on_over_a_file_that_grew(tmp_path):
    """The columns stay those learnt first, though a new peek would learn others."""
    path, state = tmp_path / "rows.csv", tmp_path / "state"
    write_csv(path, ROWS.slice(0, 1000))
    first = accumulated(srf.open_source(path, y="label"), checkpoint=state)
    write_csv(path, ROWS)
    grown = accumulated(srf.open_source(path, y="label"), checkpoint=state)
    whole = accumulated(srf.open_source(ROWS, y="label"), like=first)
    assert grown.encoder.table == first.encoder.table
    assert fingerprint(grown) == fingerprint(whole)


# CSV


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.text('ab",;\n\r\t é', max_size=6), st.integers(-9, 9)), min_size=1, max_size=30
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(",;\t|"),
    st.booleans(),
    st.integers(5, 60),
)
def test_rows_are_found_as_the_csv_module_wrote_them(
    tmp_path_factory, rows, end, comma, ends, chunk_bytes
):
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=comma, lineterminator=end, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(["word", "number"])
    writer.writerows(rows)
    path.write_bytes((text.getvalue() if ends else text.getvalue().rstrip("\r\n")).encode())
    source = opened(path, "number", chunk_bytes=chunk_bytes)
    np.testing.assert_array_equal(everything(source)[0][:, 0], [number for _, number in rows])
    (table,) = source._list
    types = {"word": pyarrow.string()}
    words = [w for _, part in table.read([(0, len(rows))], types, 9) for w in part["word"]]
    normal = [word.replace("\r\n", "\n").replace("\r", "\n") for word, _ in rows]
    got = [(w.as_py() or "").replace("\r\n", "\n").replace("\r", "\n") for w in words]
    assert got == normal


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "names", [["a", "b\nc"], ["a\n\nb", "c"], ['a "b"\n,"', '"\n"'], ['5" a', "b"]]
)
def test_names_of_columns_may_have_several_lines(names, end, tmp_path):
    """They were told as a file that is damaged."""
    path = tmp_path / "a.csv"
    with open(path, "w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, lineterminator=end)
        writer.writerows([[*names, "y"], [1, 2, 0], [3, 4, 1]])
    source = srf.open_source(path, x=names, y="y")
    assert source.columns.outputs == tuple(names)
    np.testing.assert_array_equal(source.sample(2).X, [[1, 2], [3, 4]])


def test_quotes_inside_names_are_no_quotes(tmp_path):
    (tmp_path / "a.csv").write_text('a 5" b,c,y\n1,2,0\n3,"4",1\n')
    source = srf.open_source(tmp_path / "a.csv", y="y")
    assert source.columns.outputs == ('a 5" b', "c")


@pytest.mark.parametrize("chunk_bytes", [5, 1 << 20])
def test_quotes_inside_fields_are_no_quotes(chunk_bytes, tmp_path):
    sizes = ['5" pipe', 'a"b"c', '"a ""b"" c"', '"two\nlines"', '""', 'open"']
    rows = [f"{i},{sizes[i % 6]},{i % 2}\n" for i in range(60)]
    (tmp_path / "a.csv").write_text("a,size,y\n" + "".join(rows))
    source = opened(tmp_path / "a.csv", chunk_bytes=chunk_bytes, y="y")
    wanted = pytest.importorskip("pandas").read_csv(tmp_path / "a.csv")
    assert source.n_rows == len(wanted) == 60
    np.testing.assert_array_equal(everything(source)[0][:, 0], wanted["a"])
    assert source.columns.columns[1].levels == tuple(sorted(set(wanted["size"].dropna())))


def test_lines_that_are_empty_are_no_rows(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n\n1,2\n\r\n3,4\n\n\n5,6\n\n")
    source = opened(tmp_path / "a.csv", chunk_bytes=4)
    np.testing.assert_array_equal(everything(source)[0], [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("2024-03-01T12:00:00Z", 19783.5),
        ("2024-03-01 14:00:00.000+02:00", 19783.5),
        ("2024-03-01T12:00:00", 19783.5),
        ("13:00:30", 46830.0),
        ("13:00:30.25", 46830.25),
        ("13:00:30.000000001", 46830.0),
        ("2024-03-01T12:00:00.000000000", 19783.5),
        ("2024-03-01 14:00:00.000000000+02:00", 19783.5),
        ("2024-03-01 12:00:00.123456789", 19783.5 + 0.123456 / 86400),
    ],
)
def test_times_of_a_csv_are_read_with_and_without_a_zone(given, wanted, tmp_path):
    """Those with a zone or of nanoseconds, and times of day, were refused by every pass."""
    path = tmp_path / "times.csv"
    path.write_text("when,y\n" + 70 * f"{given},1\n{given},0\n")
    X, _ = everything(srf.open_source(path, y="y"))
    np.testing.assert_allclose(X[:, 0], wanted, atol=1e-6)


@pytest.mark.parametrize("odd", ["9999-12-31 23:59:59.997", "0001-01-01 00:00:00.5", ""])
def test_times_with_fractions_of_a_second_may_be_of_any_year(odd, tmp_path):
    """Arrow reads fractions as nanoseconds, which end in 2262: the column was text of 70 levels."""
    path = tmp_path / "times.csv"
    lines = [f"2024-03-01 12:00:{k:02}.25,{k},0\n" for k in range(60)]
    path.write_text("until,x,note\n" + "".join(lines) + f'{odd},60,0\n,61,""\n')
    source = srf.open_source(path, y="x")
    days = everything(source)[0][:60, 0]
    np.testing.assert_allclose(days, 19783.5 + (np.arange(60) + 0.25) / 86400, atol=1e-6)
    assert source.columns.columns[0].kind == "date"


@pytest.mark.parametrize("first", ["13:00:30", "13:00:30.5"])
@pytest.mark.parametrize(("other", "kind"), [("00:00:01.25", "number"), ("noon", "category")])
def test_times_of_day_with_and_without_fractions_are_seconds(first, other, kind, tmp_path):
    """Those with fractions were text, of thousands of levels, and numbers in Parquet."""
    path = tmp_path / "times.csv"
    path.write_text("when,y\n" + 30 * f"{first},1\n{other},0\n,1\n")
    source = srf.open_source(path, y="y")
    assert source.columns.columns[0].kind == kind
    if kind == "number":
        np.testing.assert_array_equal(everything(source)[0][1, 0], 1.25)


def test_labels_that_look_like_times_with_fractions_are_texts(tmp_path):
    path = tmp_path / "times.csv"
    path.write_text("a,when\n" + 30 * "1,10:20:30.1\n2,10:20:30.2\n")
    source = srf.open_source(path, y="when")
    assert everything(source)[1][:2].tolist() == ["10:20:30.1", "10:20:30.2"]
    model = srf.accumulate(source, srf.Identity(), task="classification").solve(0.1)
    assert model.evaluate(source)["accuracy"] == 1
    assert srf.accumulate(source, like=srf.accumulate(source, srf.Identity())).n_rows == 60
    (tmp_path / "whole.csv").write_text("a,when\n" + 30 * "1,10:20:30\n2,10:20:31\n")
    both = srf.open_source([path, tmp_path / "whole.csv"], y="when")
    assert sorted({*everything(both)[1]}) == ["10:20:30", "10:20:30.1", "10:20:30.2", "10:20:31"]
    (tmp_path / "numbers.csv").write_text("a,when\n" + 30 * "1,17\n2,18\n")
    for names in (["times.csv", "numbers.csv"], ["numbers.csv", "times.csv"]):
        source = srf.open_source([tmp_path / name for name in names], y="when")
        assert sorted({*everything(source)[1]}) == ["10:20:30.1", "10:20:30.2", "17", "18"]


def test_a_file_without_names_has_numbers_for_names(tmp_path):
    (tmp_path / "a.csv").write_text("1,0.5\n0,2\n")
    X, y = everything(srf.open_source(tmp_path / "a.csv", y="0"))
    np.testing.assert_array_equal(X, [[0.5], [2]])
    assert y.tolist() == [1, 0]


# Labels with leading zeros


def coded(path, labels, n=300, head=""):
    """A CSV file whose labels are as they are given, one row after the other."""
    x = np.random.default_rng(0).normal(size=n)
    rows = [f"{x[i]:.4f},{labels[i % len(labels)]}\n" for i in range(n)]
    path.write_text("a,zip\n" + head + "".join(rows))
    return path


@pytest.mark.parametrize(
    "labels",
    [["01234", "00501", "20001"], ["01", "02"], ['"00"', '"10"'], ["0x1F", "0X1f", "12"]],
    ids=" ".join,
)
def test_labels_of_a_csv_with_leading_zeros_are_text(labels, tmp_path):
    source = srf.open_source(coded(tmp_path / "a.csv", labels), y="zip")
    wanted = [label.strip('"') for label in labels]
    assert everything(source)[1].tolist() == wanted * (300 // len(labels))
    clf = srf.RandomFeatureClassifier(srf.TreeSketch(n_components=8), alpha=1.0).fit(source)
    assert clf.classes_.tolist() == sorted(wanted)
    assert clf.score(source) > 0
    beside = srf.open_source(tmp_path / "a.csv")  # labels are columns of X, too
    assert [*clf.predict(beside)] == [*clf.predict(source)]


@pytest.mark.parametrize("blank", ["", " "])
def test_hexadecimal_codes_of_a_csv_are_levels_of_text(tmp_path, blank):
    """They were refused as numbers, which Arrow takes them for."""
    rows = "".join(f"{k % 7},{blank}0x{k % 3:02X},{k % 2},1e{k % 2}\n" for k in range(60))
    (tmp_path / "a.csv").write_text(f"a,code,y,0xb\n{rows}")
    source = srf.open_source(tmp_path / "a.csv", x=["code", "0xb"], y="y")
    X, _ = everything(source)
    levels = np.eye(3)[np.arange(60) % 3]
    np.testing.assert_array_equal(X, np.c_[levels, 10.0 ** (np.arange(60) % 2)])


def test_numbers_without_leading_zeros_stay_numbers(tmp_path):
    source = srf.open_source(coded(tmp_path / "a.csv", ["0", "10", "100", "-5"]), y="zip")
    assert {*everything(source)[1].tolist()} == {0, 10, 100, -5}


def test_leading_zeros_of_other_columns_leave_labels_alone(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,y\n01,00:30,1\n02,00:40,2\n")
    X, y = everything(srf.open_source(tmp_path / "a.csv", x="a", y="y"))
    assert (X.ravel().tolist(), y.tolist()) == ([1, 2], [1, 2])


def test_labels_that_are_one_number_are_told(tmp_path):
    source = srf.open_source(coded(tmp_path / "a.csv", ["01", "1", "2"]), y="zip")
    with pytest.warns(StreamrfWarning, match="'01' and '1' are the same number"):
        statistics = srf.accumulate(source, srf.TreeSketch(n_components=8))
    assert statistics.labels.tolist() == ["01", "1", "2"]


def test_labels_that_are_written_in_another_way_than_those_before_are_told(tmp_path):
    """Days of 01 and 02 and of 1 and 2 had four classes, in silence."""
    sources = []
    for name, labels in (("zeros", ["01", "02"]), ("none", ["1", "2"]), ("blanks", [" 01", "x"])):
        rows = "".join(f"{k},{labels[k % 2]}\n" for k in range(40))
        (tmp_path / f"{name}.csv").write_text(f"a,y\n{rows}")
        sources.append(srf.open_source(tmp_path / f"{name}.csv", y="y"))
    first = srf.accumulate(sources[0], srf.TreeSketch(n_components=8))
    srf.accumulate(sources[0], like=first)
    for source, alike in zip(sources[1:], ("'01' and '1'", "'01' and ' 01'"), strict=True):
        with pytest.warns(StreamrfWarning, match=f"{alike} are the same number"):
            srf.accumulate(source, like=first)


def test_values_with_leading_zeros_are_numbers(tmp_path):
    source = srf.open_source(coded(tmp_path / "a.csv", ["007", "010", "100"]), y="zip")
    for estimator in (
        srf.RandomFeatureRegressor(srf.TreeSketch(n_components=8), alpha=1.0),
        srf.KernelRidgeRegressor(srf.Gaussian(1.0), alpha=1.0),
    ):
        predicted = estimator.fit(source).predict(source)
        assert 7 < predicted.mean() < 100
        assert -1 < estimator.score(source) < 1
    srf.select(source, regression=True, budget=1.0)


@pytest.mark.parametrize("text", ["01", " 01", "0x1F", " 0x1F"])
def test_a_leading_zero_beyond_the_rows_looked_at_is_refused(tmp_path, monkeypatch, text):
    path = coded(tmp_path / "a.csv", ["1", "2"], 4000)
    late = path.read_text().splitlines(keepends=True)
    late[3100] = f"0.5,{text}\n"
    path.write_text("".join(late))
    monkeypatch.setattr(csv_files, "MAX_SEEN", 2)
    source = opened(path, y="zip")
    told = f"row 3099: the label '{text.strip()}' of column 'zip' begins with 0, as none did"
    with pytest.raises(DataError, match=told) as error:
        everything(source)
    is_number = text.strip() == "01"
    assert ("would be the label 1;" in str(error.value)) is is_number
    assert ("say task='regression'" in str(error.value)) is is_number
    if is_number:
        assert everything(source.of_values())[1][3099] == 1
    else:
        with pytest.raises(DataError, match=r"row 3099: .* invalid value '0x1F'"):
            everything(source.of_values())


def test_files_with_and_without_leading_zeros_have_labels_of_text(tmp_path):
    files = [coded(tmp_path / "a.csv", ["1", "2"]), coded(tmp_path / "b.csv", ["01", "2"])]
    assert {*everything(srf.open_source(files, y="zip"))[1].tolist()} == {"1", "01", "2"}


def test_labels_learnt_as_numbers_stay_numbers_and_are_told(tmp_path):
    source = srf.open_source(coded(tmp_path / "a.csv", ["1", "2"]), y="zip")
    clf = srf.RandomFeatureClassifier(srf.TreeSketch(n_components=8), alpha=1.0).fit(source)
    same = srf.open_source(coded(tmp_path / "b.csv", ["01", "02"]), y="zip")
    with pytest.warns(StreamrfWarning, match="'01' of column 'zip' are read as numbers"):
        assert clf.score(same) == clf.score(source)


# libsvm


def test_libsvm_rows_are_those_of_scikit_learn(tmp_path):
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 9)) * (rng.random((60, 9)) < 0.3)
    X[0, 8] = 1.0
    for zero_based in (False, True):
        path = str(tmp_path / f"{zero_based}.svm")
        dump_svmlight_file(X, rng.integers(0, 3, 60), path, zero_based=zero_based, comment="hello")
        expected, y = load_svmlight_file(path, zero_based=zero_based)
        got, labels = everything(opened(path, y="y", chunk_bytes=100))
        np.testing.assert_array_equal(got, expected.toarray())
        np.testing.assert_array_equal(labels, y)
        assert labels.dtype == np.int64
        assert srf.open_source(path, x="20").n_features == 20


# The command line


def test_a_csv_with_categories_and_holes_becomes_a_model_in_three_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "train.csv", ROWS)
    write_csv(tmp_path / "test.csv", some_rows(500, seed=1))
    maps = ("--map", "fourier", "--kernel", "gaussian", "--gamma", "0.003", "--components", "64")
    scaled = (*maps, "--normalize", "standard", "--threads", "1")
    done = streamrf("fit", "train.csv", "--y", "label", *scaled, "--model", "m.h5")
    assert done.exit_code == 0, done.stderr
    assert "filled    missing values of 'age', 'city'; a column each says where\n" in done.stdout
    assert answer("evaluate", "m.h5", "test.csv")["accuracy"] > 0.65
    assert answer("predict", "m.h5", "test.csv", "-o", "p.h5")["n_rows"] == 500
    shown = told("info", "m.h5")
    assert "column age    number: passthrough, SimpleImputer(" in shown
    assert "column city   category: OneHotEncoder(3 levels), SimpleImputer(" in shown
    assert "column user   category: FeatureHasher(64)" in shown
    figures = answer("info", "train.csv")
    assert (figures["kind"], figures["n_rows"]) == ("rows", N)
    assert refused("fit", "train.csv", "--model", "n.h5") == (
        "train.csv has no column 'y'; it has ['age', 'rooms', 'city', 'user', 'when', 'day', 'ok',"
        " 'label']; name it with y= (--y)"
    )
    assert not (tmp_path / "n.h5").exists()


# Folders that are columns


@pytest.fixture
def hive(tmp_path):
    """The rows by year and town, and the same rows as one table in that order."""
    rng = np.random.default_rng(0)
    n, parts = 300, []
    for year, city in itertools.product((2019, 2020, 2021), ("Oslo", "São Paulo", None)):
        folder = tmp_path / "hive" / f"year={year}" / f"city={quote(city or NULL)}"
        folder.mkdir(parents=True)
        x = rng.normal(size=n // 9)
        part = pyarrow.table({"x": x, "y": (x * (year - 2020) > 0).astype(int)})
        pyarrow.parquet.write_table(part, folder / "part.parquet")
        names = pyarrow.array([city] * len(part), pyarrow.string())
        part = part.append_column("year", pyarrow.array([year] * len(part)))
        parts.append((folder, part.append_column("city", names)))
    whole = pyarrow.concat_tables(part for _, part in sorted(parts, key=lambda pair: pair[0]))
    return tmp_path / "hive", whole


@pytest.mark.parametrize("pattern", [None, "**/*.parquet", "year=*/*/part.parquet"])
def test_folders_of_a_partition_are_columns(hive, pattern):
    folder, whole = hive
    source = srf.open_source(folder if pattern is None else str(folder / pattern), y="y")
    expected = srf.open_source(whole, y="y")
    assert source.columns == expected.columns
    for ours, theirs in zip(everything(source), everything(expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    chosen = srf.open_source(folder, x="city", y="year")
    np.testing.assert_array_equal(
        everything(chosen)[1], everything(srf.open_source(whole, "city", "year"))[1]
    )


def test_levels_that_differ_by_a_last_nul_are_two(tmp_path):
    """They were one column of ones, which told nothing."""
    table = pyarrow.table({"c": ["a", "a\0"] * 30, "y": [0, 1] * 30})
    source = srf.open_source(table, y="y")
    assert source.columns.outputs == ("c=a", "c=a\0")
    X, y = everything(source)
    np.testing.assert_array_equal(X, np.eye(2)[y])
    model = srf.accumulate(source, srf.Identity()).solve(1e-3)
    model.save(tmp_path / "model.h5")
    assert srf.load_model(tmp_path / "model.h5").predict(source).tolist() == y.tolist()


def test_all_levels_of_a_partition_are_known_without_a_look(hive, monkeypatch):
    monkeypatch.setattr(tables, "PEEK_ROWS", 8)
    folder, _ = hive
    city = next(c for c in srf.open_source(folder, y="y").columns.columns if c.name == "city")
    assert (city.levels, city.has_indicator) == (("Oslo", "São Paulo"), True)


def test_a_column_that_some_files_have_beside_that_of_their_folder_is_refused(tmp_path):
    """It was that of the file or of the folder, as it came, in silence."""
    frame = pytest.importorskip("pandas").DataFrame({"a": np.zeros(60), "y": np.arange(60) % 2})
    for year in (2021, 2023):
        (tmp_path / f"year={year}").mkdir()
        frame.to_parquet(tmp_path / f"year={year}" / "p.parquet")
    frame.assign(year=5).to_parquet(tmp_path / "year=2021" / "p.parquet")
    told = r"year=2021.* has a column 'year' beside .*year=2023.* has none"
    with pytest.raises(DataError, match=told):
        srf.open_source(tmp_path, y="y")
    with pytest.raises(DataError, match=told):  # a model could ask for it
        srf.open_source(tmp_path, x="a", y="y")
    frame.assign(year=7).to_parquet(tmp_path / "year=2023" / "p.parquet")
    X, _ = everything(srf.open_source(tmp_path, y="y"))
    assert {*X[:, 1].tolist()} == {5, 7}


def test_levels_of_folders_are_all_texts_also_empty_ones():
    files = [{"year": "2024", "city": "b"}, {"year": None, "city": ""}, {"year": "-1", "city": "b"}]
    assert levels_of(dict(enumerate(files))) == {"year": None, "city": ["", "b"]}
    assert levels_of({"x": {"year": "2024"}, "y": {"year": None}, "z": {"year": "new"}}) == {
        "year": ["2024", "new", None]
    }


def test_a_model_of_partitions_predicts_one_of_them(hive):
    folder, whole = hive
    model = accumulated(srf.open_source(folder, y="y")).solve(1e-3)
    of_2019 = whole.filter(pyarrow.compute.equal(whole["year"], 2019))
    found = model.predict(srf.open_source(folder / "year=2019*" / "**" / "*.parquet"))
    np.testing.assert_array_equal(found, model.predict(of_2019))
    with pytest.raises(ShapeError, match=r"lacks .*year"):
        model.predict(srf.open_source(folder / "year=2019" / "city=Oslo" / "part.parquet"))


def test_a_column_of_the_file_goes_before_that_of_its_folder(tmp_path):
    for place in "ab":
        (tmp_path / f"x={place}").mkdir()
        write_csv(tmp_path / f"x={place}" / "rows.csv", pyarrow.table({"x": [1.5, 2.5]}))
    np.testing.assert_array_equal(
        everything(srf.open_source(tmp_path))[0].ravel(), [1.5, 2.5, 1.5, 2.5]
    )


# xarray


def test_a_data_array_of_a_file_is_not_loaded(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    X = np.random.default_rng(0).normal(size=(500, 3, 2))
    y = (X[:, 0, 0] > 0).astype(int)
    made = xarray.Dataset({"X": (("time", "row", "column"), X)})
    made.to_zarr(tmp_path / "x.zarr", consolidated=False)
    lazy = xarray.open_zarr(tmp_path / "x.zarr", chunks=None, consolidated=False)["X"]
    clf = srf.RandomFeatureClassifier(srf.Identity(), random_state=0)
    for array in (lazy, lazy.chunk(time=100), made["X"]):
        again = srf.RandomFeatureClassifier(srf.Identity(), random_state=0).fit(array, y)
        expected = clf.fit(X.reshape(500, 6), y)
        assert again.statistics_.gram.tobytes() == expected.statistics_.gram.tobytes()
        np.testing.assert_array_equal(again.predict(array), expected.predict(X.reshape(500, 6)))
    assert not lazy.variable._in_memory
    assert pickle.loads(pickle.dumps(srf.open_source(lazy, y=y))).sample(5).X.shape == (5, 6)
    with pytest.raises(ShapeError, match=r"y has 499 rows"):
        srf.open_source(lazy, y=y[1:])


def test_the_index_that_pandas_writes_to_a_csv_file_is_left_out_and_told(tmp_path, caplog):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.arange(9.0) ** 2, "y": np.arange(9) % 2})
    frame.to_csv(tmp_path / "rows.csv")
    source = srf.open_source(tmp_path / "rows.csv", y="y")
    assert source.columns.outputs == ("a",)
    assert "without a name, the index of pandas, is left out" in caplog.text
    caplog.clear()
    (-frame).set_index("a").rename_axis("").to_csv(tmp_path / "reals.csv")  # no index of pandas
    assert srf.open_source(tmp_path / "reals.csv").n_features == 2
    assert not caplog.text


TIMES = [datetime.datetime(2024, 1, 1 + k % 28, 10) for k in range(60)]
ALIKE = {
    "microseconds": pyarrow.array(TIMES, pyarrow.timestamp("us")),
    "zone": pyarrow.array(TIMES, pyarrow.timestamp("ns", "Europe/Rome")),
    "days": pyarrow.array([time.date() for time in TIMES]),
    "words": pyarrow.array([f"a{k % 3}" for k in range(60)]),
    "codes": pyarrow.array([f"a{k % 3}" for k in range(60)]).dictionary_encode(),
    "decimals": pyarrow.array([decimal.Decimal(k) for k in range(60)]),
    "floats": pyarrow.array(np.arange(60.0)),
    "durations": pyarrow.array([datetime.timedelta(seconds=k) for k in range(60)]),
    "nothing": pyarrow.nulls(60),
}
PAIRS = [
    *itertools.permutations(("microseconds", "zone", "days"), 2),
    *itertools.permutations(("words", "codes"), 2),
    *itertools.permutations(("decimals", "floats", "durations"), 2),
    *((name, "nothing") for name in ALIKE if name != "nothing"),
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_files_may_hold_a_column_in_types_that_count_as_alike(first, second, tmp_path):
    """They ended in tracebacks of Arrow."""
    for name, kind in (("a", first), ("b", second)):
        table = pyarrow.table({"x": np.arange(60) % 7, "t": ALIKE[kind], "y": np.arange(60) % 2})
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
    X, y = everything(srf.open_source([tmp_path / "a.parquet", tmp_path / "b.parquet"], y="y"))
    assert len(X) == len(y) == 120
    if {first, second} in ({"words", "codes"}, {"decimals", "floats"}, {"floats", "durations"}):
        np.testing.assert_array_equal(X[:60], X[60:])


def test_files_with_a_column_of_two_kinds_are_refused_in_a_sentence(tmp_path):
    for name, kind in (("a", "words"), ("b", "floats")):
        table = pyarrow.table({"t": ALIKE[kind], "y": np.arange(60) % 2})
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
    with pytest.raises(srf.errors.StreamrfError, match="t"):
        everything(srf.open_source([tmp_path / "a.parquet", tmp_path / "b.parquet"], y="y"))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('"a;b;c","d"\n1,2\n', ["a;b;c", "d"]),
        ('"a,b,c,d";b;y\n1;2;3\n', ["a,b,c,d", "b", "y"]),
        ('"a|b|c"\n1\n', ["a|b|c"]),
        ('"a""x;y;z",b\n1,2\n', ['a"x;y;z', "b"]),
        ('5" x;y,y\n1,2\n', ['5" x;y', "y"]),
    ],
)
def test_what_stands_in_quoted_names_separates_nothing(text, columns, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    source = srf.open_source(path)
    assert [column.name for column in source.columns.columns] == columns
    (block,) = source.blocks()
    np.testing.assert_array_equal(block.X, [range(1, len(columns) + 1)])


@pytest.mark.parametrize("where", [0, 3, 6])
def test_batches_of_arrow_may_be_empty(where, tmp_path):
    batches = [
        pyarrow.record_batch({"x": np.arange(float(start), stop), "y": np.arange(start, stop)})
        for start, stop in ((0, where), (where, where), (where, 6))
    ]
    with (
        pyarrow.OSFile(str(tmp_path / "rows.arrow"), "wb") as file,
        pyarrow.ipc.new_file(file, batches[0].schema) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)
    source = srf.open_source(tmp_path / "rows.arrow", y="y")
    for start in range(6):
        for stop in range(start + 1, 7):
            found = np.concatenate([block.y for block in source.blocks(start, stop)])
            np.testing.assert_array_equal(found, np.arange(start, stop))


@pytest.mark.parametrize("packed", [False, True])
def test_a_first_line_longer_than_is_read_at_once(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "HEAD_BYTES", 64)
    names = [f"{'c' * 40}{k}" for k in range(30)]
    table = pyarrow.table({name: np.arange(5.0) + k for k, name in enumerate(names)})
    source = opened(write_csv(tmp_path / f"rows.csv{'.gz' * packed}", table))
    assert [column.name for column in source.columns.columns] == names
    (block,) = source.blocks()
    np.testing.assert_array_equal(block.X, np.add.outer(np.arange(5.0), np.arange(30)))


def test_decimals_are_the_numbers_that_their_texts_are(tmp_path):
    """Arrow's cast is off by one in the last place for one in eight of these."""
    rng = np.random.default_rng(0)
    texts = [f"{number / 100:.2f}" for number in rng.integers(-(10**11), 10**11, 500)]
    values = pyarrow.array(texts).cast(pyarrow.decimal128(14, 2))
    table = pyarrow.table({"a": values, "y": values, "w": pyarrow.compute.abs(values)})
    (block,) = srf.open_source(table, y="y", weights="w").blocks()
    expected = np.array(list(map(float, texts)))
    assert np.array_equal(block.X[:, 0], expected)
    assert np.array_equal(block.y, expected)
    assert np.array_equal(block.weights, np.abs(expected))


def test_missing_values_that_a_dictionary_holds_are_missing():
    names = pyarrow.array(["a", None, "b", "a"] * 50)
    y = np.tile([0.0, 1.0, 2.0, 0.5], 50)
    columns = {"plain": names, "encoded": names.dictionary_encode(null_encoding="encode")}
    one, other = (
        srf.open_source(pyarrow.table({"c": column, "y": y}), y="y") for column in columns.values()
    )
    assert one.columns.outputs == other.columns.outputs
    assert "c missing" in other.columns.outputs
    np.testing.assert_array_equal(next(one.blocks()).X, next(other.blocks()).X)


def test_the_index_of_pandas_in_an_arrow_table_is_left_out(caplog):
    frame = pd.DataFrame({"a": np.arange(90.0), "y": np.arange(90) % 2})
    frame.index = pd.Index(np.arange(90.0) * 7, name="key")
    table = pyarrow.Table.from_pandas(frame)
    assert "key" in table.schema.names
    assert srf.open_source(table, y="y").columns.outputs == ("a",)
    assert "key, the index of pandas, is left out" in caplog.text
    assert srf.open_source(table, x="key,a", y="y").columns.outputs == ("key", "a")
    clf = srf.RandomFeatureClassifier(srf.RandomFourier(n_components=8), random_state=0)
    rows = table.select(["a", "key"])
    assert clf.fit(rows, frame["y"]).n_features_in_ == 1
    np.testing.assert_array_equal(clf.predict(rows), clf.predict(frame[["a"]]))
