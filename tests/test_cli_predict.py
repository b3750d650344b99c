"""`streamrf predict` writes by the ending of the file, and reads standard input."""

import gc
import io
import json
import os
import sys
from types import SimpleNamespace

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from typer import BadParameter
from typer.testing import CliRunner

import streamrf as srf
from commands import answer, misused, refused, told
from streamrf.cli import app, prediction
from streamrf.cli.outputs import Field, output_class
from streamrf.cli.prediction import _fill, _rows

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"age": RNG.integers(18, 80, 300), "city": RNG.choice(["Oslo", "Rome"], 300)})
FRAME["buys"] = np.where(FRAME["age"] + 30 * (FRAME["city"] == "Rome") > 60, "yes", "no")
ENDINGS = ["csv", "tsv", "parquet", "feather", "npy", "h5"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    features = srf.RandomFourier(srf.Gaussian(0.1), 32, random_state=0)
    settings = {"normalize": "standard", "random_state": 0}
    FRAME.to_csv(folder / "people.csv", index=False)
    people = srf.open_source(folder / "people.csv", y="buys")
    srf.RandomFeatureClassifier(features, **settings).fit(people).save(folder / "people.h5")
    X = RNG.normal(size=(300, 3))
    np.save(folder / "X.npy", X)
    for name, y in (("one", X[:, 0]), ("two", X[:, :2])):
        regressor = srf.RandomFeatureRegressor(features, alpha=1.0, uncertainty=True, **settings)
        regressor.fit(X, y).save(folder / f"{name}.h5")
    return folder


@pytest.fixture(autouse=True)
def folder(files, monkeypatch):
    monkeypatch.chdir(files)


def read(path):
    """The columns of a file, whatever its format."""
    ending = path.partition(".")[2]
    if ending in ("csv", "tsv"):
        return pd.read_csv(path, sep="," if ending == "csv" else "\t").to_dict("series")
    if ending in ("parquet", "feather"):
        frame = pd.read_parquet(path) if ending == "parquet" else pd.read_feather(path)
        return frame.to_dict("series")
    if ending == "npy":
        rows = np.load(path)
        return {name: rows[name] for name in rows.dtype.names or ()} or {"y": rows}
    with h5py.File(path) as file:
        return {name: file[name][()] for name in file}


@pytest.mark.parametrize("ending", ENDINGS)
def test_labels_scores_and_probabilities_in_every_format(ending):
    path = f"found.{ending}"
    told("predict", "people.h5", "people.csv", "-o", path, "--scores", "--probabilities")
    model, found = srf.load_model("people.h5"), read(path)
    people = srf.open_source("people.csv", y="buys")
    labels = [x.decode() if isinstance(x, bytes) else x for x in list(found["y"])]
    assert labels == model.predict(people).tolist()
    proba = model.predict_proba(people)
    if ending in ("npy", "h5"):
        np.testing.assert_allclose(found["probabilities"], proba, rtol=1e-12)
        assert found["scores"].shape == (300, 2)
    else:
        np.testing.assert_allclose(found["probability of yes"], proba[:, 1], rtol=1e-12)
        assert list(found)[:3] == ["y", "score of no", "score of yes"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", ["one", "two"])
def test_values_and_deviations_in_every_format(ending, name):
    path = f"{name}-found.{ending}"
    told("predict", f"{name}.h5", "X.npy", "-o", path, "--deviations")
    wanted = srf.load_model(f"{name}.h5").predict(np.load("X.npy"), return_std=True)
    found = read(path)
    if ending in ("npy", "h5"):
        parts = [found["y"], found["deviations"]]
    elif name == "one":
        parts = [found["y"], found["deviation of y"]]
    else:
        columns = [[f"{kind}{i}" for i in (0, 1)] for kind in ("y", "deviation of y")]
        parts = [np.stack([found[column] for column in pair], axis=1) for pair in columns]
    np.testing.assert_allclose(parts, wanted, rtol=1e-12)


def test_an_array_of_values_alone_is_plain():
    told("predict", "two.h5", "X.npy", "-o", "plain.npy")
    np.testing.assert_array_equal(
        np.load("plain.npy"), srf.load_model("two.h5").predict(np.load("X.npy"))
    )


def piped(text, *arguments):
    return CliRunner().invoke(app, ["predict", *arguments], input=text)


def lines_of(frame, kind):
    if kind == "csv":
        return frame.to_csv(index=False)
    return "\n".join(json.dumps(row) for row in frame.to_dict("records")) + "\n"


@pytest.mark.parametrize("kind", ["csv", "json"])
@pytest.mark.parametrize("n_rows", [1, 40])
def test_rows_of_standard_input_are_printed(kind, n_rows):
    rows = FRAME[["city", "age"]].iloc[:n_rows]  # in another order
    done = piped(lines_of(rows, kind), "people.h5", "-", "-o", "-")
    assert done.exit_code == 0, done.output
    found = pd.read_csv(io.StringIO(done.stdout))
    people = srf.open_source("people.csv", y="buys")
    assert found["y"].tolist() == srf.load_model("people.h5").predict(people)[:n_rows].tolist()


def test_predictions_are_printed_in_utf_8_whatever_the_locale(tmp_path):
    X, y = np.load("X.npy"), np.array(["Århus", "日本"])
    features = srf.RandomFourier(srf.Gaussian(0.1), 32, random_state=0)
    srf.RandomFeatureClassifier(features, alpha=1.0).fit(X, y[(X[:, 0] > 0) * 1]).save("towns.h5")
    told("predict", "towns.h5", "X.npy", "-o", tmp_path / "towns.csv")
    printed = CliRunner(charset="latin-1").invoke(app, ["predict", "towns.h5", "X.npy", "-o", "-"])
    assert printed.stdout_bytes == (tmp_path / "towns.csv").read_bytes()
    assert "日本" in printed.stdout_bytes.decode()


def test_holes_and_arrays_in_json_lines():
    done = piped('{"age": null, "city": "Rome"}\n\n{"city": "Oslo"}\n', "people.h5", "-", "-o", "-")
    assert len(done.stdout.splitlines()) == 3
    X = np.load("X.npy")[:5]
    text = "\n".join(json.dumps(row) for row in X.tolist())
    done = piped(text, "one.h5", "-", "-o", "-", "--json")
    found = json.loads(done.stdout)["lines"]
    wanted = srf.load_model("one.h5").predict(X)
    np.testing.assert_allclose([float(line) for line in found[1:]], wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "standard input has no rows"),
        ("age,city\n", "standard input: 0 rows below the names"),
        ('{"age": 3, "city": "Rome"}\n{"age":\n', 'standard input, row 1: \'{"age":'),
        ('{"age": [3], "city": "Rome"}\n', "standard input, row 0: 'age' is [3]; expected one"),
        ("[]\n", "standard input, row 0: '[]"),
        (
            "age,town\n3,Rome\n",
            "standard input has other columns than those learnt from: it lacks ['city']",
        ),
        ("age,city\nold,Rome\n", "standard input"),
        (b"age,city\n3,\xff\xfe\n", "standard input is not UTF-8 text; convert it"),
        ('{"age": 3, "city": "\\ud800"}\n', "standard input is not UTF-8 text; convert it"),
        ("[" * 100_000, "standard input, row 0: '[[["),
        ('[3, "Rome"]\n[4]\n', "row 1 has 1 entries, but rows before have 2; write null for a"),
    ],
)
def test_bad_rows_of_standard_input_are_one_line(text, message):
    done = piped(text, "people.h5", "-", "-o", "-")
    assert done.exit_code == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.h5", "-", "-o", "-"), "there is no file missing.h5"),
        (("people.h5", "-", "-o", "-", "--deviations"), "gives classes, not values"),
    ],
)
def test_standard_input_is_not_used_up_for_a_slip(arguments, message, monkeypatch):
    monkeypatch.setattr(prediction, "open_text", None)
    done = piped("age,city\n3,Rome\n", *arguments)
    assert done.exit_code == 1
    assert message in done.stderr


def test_closed_standard_input_is_told(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with (
        pytest.raises(BadParameter, match="- is standard input, which is closed"),
        _rows(["-"], None, None),
    ):
        pass


@pytest.mark.parametrize("names", [["0", "1", "2"], ["2", "0", "1"], ["2014", "2015", "2016"]])
def test_names_of_json_that_are_numbers_are_names(names):
    """They were taken for a row, and the columns for others."""
    X = np.load("X.npy")[:2]
    places = range(3) if names[0] == "2014" else map(int, names)
    rows = [dict(zip(names, X[i, list(places)].tolist(), strict=True)) for i in (0,)]
    done = piped("".join(json.dumps(row) + "\n" for row in rows), "one.h5", "-", "-o", "-")
    assert done.exit_code == 0, done.output
    found = [float(line) for line in done.stdout.splitlines()[1:]]
    np.testing.assert_allclose(found, srf.load_model("one.h5").predict(X[:1]), rtol=1e-9)


def test_a_mark_of_utf_8_is_no_part_of_a_name():
    done = piped("\ufeff" + '{"age": 70, "city": "Rome"}\n', "people.h5", "-", "-o", "-")
    assert done.stdout.splitlines() == ["y", "yes"]


def test_the_level_na_is_no_missing_value_in_any_format(tmp_path):
    """NA is Namibia: it was the most frequent country in CSV and JSON, in silence."""
    frame = pd.DataFrame({"x": RNG.normal(size=600), "land": RNG.choice(["NA", "ZA", "BW"], 600)})
    frame["y"] = np.where(frame["land"] == "NA", "n", "o")
    frame.to_csv(tmp_path / "r.csv", index=False)
    frame.to_parquet(tmp_path / "r.parquet")
    features = srf.RandomFourier(srf.Gaussian(1.0), 32, random_state=0)
    sums = []
    for ending in ("csv", "parquet"):
        source = srf.open_source(tmp_path / f"r.{ending}", y="y")
        assert source.columns.outputs == ("x", "land=BW", "land=NA", "land=ZA")
        sums.append(srf.accumulate(source, features))
    np.testing.assert_array_equal(sums[0].gram, sums[1].gram)
    sums[0].solve(0.1).save(tmp_path / "m.h5")
    rows = frame[["x", "land"]].iloc[:20]
    for kind in ("csv", "json"):
        done = piped(lines_of(rows, kind), str(tmp_path / "m.h5"), "-", "-o", "-")
        assert done.stdout.splitlines()[1:] == frame["y"].tolist()[:20]


@pytest.mark.parametrize("label", ["u\u2028v", "u\x0bv", "u\x85v", "u\r\nv"])
def test_labels_are_printed_as_they_are_written(label, tmp_path):
    """Lines were cut where Python's `splitlines` sees an end."""
    X = np.load("X.npy")
    model = srf.RandomFeatureClassifier(
        srf.RandomFourier(srf.Gaussian(0.1), 16), alpha=1.0, random_state=0
    )
    path = str(tmp_path / "m.h5")
    model.fit(X, np.where(X[:, 0] > 0, label, "lo")).save(path)
    text = "a,b,c\n3,0,0\n"
    done = piped(text, path, "-", "-o", "-")
    (tmp_path / "rows.csv").write_text(text)
    answer("predict", path, str(tmp_path / "rows.csv"), "-o", str(tmp_path / "out.csv"))
    assert done.stdout_bytes == (tmp_path / "out.csv").read_bytes()
    assert label.encode() in done.stdout_bytes


def test_what_a_model_has_not_is_refused():
    message = "gives classes, not values: use --probabilities"
    assert message in refused("predict", "people.h5", "people.csv", "-o", "p.csv", "--deviations")
    assert "has no --scores" in refused("predict", "one.h5", "X.npy", "-o", "p.csv", "--scores")
    assert "is read alone" in misused("predict", "one.h5", "-", "X.npy", "-o", "p.csv")
    assert answer("predict", "one.h5", "X.npy", "-o", "q.csv")["datasets"] == ["y"]


@pytest.mark.parametrize("name", ["p.npz", "p.zarr", "p.csv.gz", "p.svm", "p.json", "p.xyz"])
def test_an_ending_that_is_not_written_is_refused(name):
    """An HDF5 file was written under that name, which nothing could read then."""
    line = refused("predict", "one.h5", "X.npy", "--output", name)
    assert line.startswith(f"--output {name}: predictions are not written in the format of this")
    assert "; use .h5, .hdf5, .hdf or none (HDF5), .csv, .tsv, .tab, .parquet, .pq, .arrow" in line
    assert not os.path.exists(name)


@pytest.mark.parametrize("name", ["p.HDF5", "p.hdf", "predicted"])
def test_a_name_without_an_ending_is_of_hdf5(name):
    answer("predict", "one.h5", "X.npy", "--output", name)
    with h5py.File(name) as file:
        assert list(file) == ["y"]


def test_a_url_that_is_refused_is_not_shown():
    line = refused("predict", "one.h5", "X.npy", "-o", "https://me:secret@host/p.xyz")
    assert "secret" not in line


@pytest.mark.parametrize("output", [*(f"bad.{ending}" for ending in ENDINGS), "-"])
def test_a_run_that_fails_prints_one_line(output, monkeypatch):
    """pyarrow's writer of Parquet closed itself after its file, and printed a traceback."""
    X = np.load("X.npy")
    X[200] = np.inf
    np.save("inf.npy", X)
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    assert "inf.npy, row 200" in refused("predict", "one.h5", "inf.npy", "-o", output)
    gc.collect()
    assert not printed
    assert not os.path.exists(output)


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_text_takes_no_more_than_a_full_disk_is_told_to_need(ending):
    values = -RNG.random(1000) * 1e-300
    fields = [Field("y", np.dtype(np.float64), ("y",), True)]
    rows = SimpleNamespace(n_rows=1000, labels=None)
    kind, file = output_class(f"p.{ending}"), io.BytesIO()
    _fill(kind, file, fields, rows, rows, [(0, {"y": values})])
    n_bytes = len(file.getvalue()) - len("y\n")
    assert 23 * 1000 < n_bytes <= kind.text_bytes * 1000


@pytest.mark.parametrize("ending", ENDINGS[:4])
def test_a_file_whose_end_fails_is_told_once(ending, monkeypatch):
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    fields = [Field("y", np.dtype(np.float64), ("y",), True)]
    rows = SimpleNamespace(n_rows=100, labels=None)
    parts = [(0, {"y": np.ones(100)})]
    with open("/dev/full", "wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        _fill(output_class(f"p.{ending}"), file, fields, rows, rows, parts)
    gc.collect()
    assert not printed


@pytest.mark.parametrize("ending", ENDINGS[:4])
def test_targets_that_are_called_like_deviations_keep_their_columns(ending):
    """Parquet and Arrow lost a column, and CSV had two of one name."""
    x = RNG.normal(size=100)
    targets = ["v", "deviation of v"]
    frame = pd.DataFrame({"a": x, targets[0]: x, targets[1]: 2 * x})
    model = srf.RandomFeatureRegressor(srf.Identity(), alpha=1.0, uncertainty=True)
    model.fit(srf.open_source(frame, y=targets)).save("named.h5")
    frame.to_csv("targets.csv", index=False)
    answer("predict", "named.h5", "targets.csv", "-o", f"named.{ending}", "--deviations")
    found = read(f"named.{ending}")
    assert [*found] == [*targets, "deviation of v_", "deviation of deviation of v"]
    values, deviations = model.predict(frame[["a"]], return_std=True)
    expected = np.concatenate((values, deviations), axis=1)
    assert np.array_equal(np.stack([*found.values()], axis=1), expected)


@pytest.mark.parametrize("command", ["evaluate", "report"])
def test_rows_to_judge_by_are_not_counted_twice(command):
    """They were, where `fit` refuses the same files."""
    words = "rows 0 to 299 of people.csv are in the sums already and would be counted twice"
    given = {
        "evaluate": ("people.csv", "people.csv"),
        "report": ("--data", "people.csv", "--data", "people.csv", "-o", "r.html"),
    }
    assert words in refused(command, "people.h5", *given[command], "--y", "buys")
    settings = ("--map", "identity", "--alpha", "1", "--model", "twice.h5")
    for others in (("fit", *settings), ("select",)):
        assert words in refused(*others, "people.csv", "people.csv", "--y", "buys")


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize(("n_bytes", "n_rows"), [(1 << 30, 65_536), (8 * 3 * 1000, 1000)])
def test_groups_of_rows_are_of_a_size(ending, n_bytes, n_rows, tmp_path, monkeypatch):
    """They were 65,536 rows however wide: 1.8 GiB for probabilities of 1,000 classes."""
    from streamrf.cli import outputs

    monkeypatch.setattr(outputs, "GROUP_BYTES", n_bytes)
    path, values = tmp_path / f"p.{ending}", np.arange(90_000.0).reshape(30_000, 3)
    fields = [Field("p", np.dtype(float), ("a", "b", "c"), False)]
    with open(path, "wb") as file:
        output = output_class(str(path))(file, fields, 90_000, None)
        for start in range(0, 90_000, 500):
            output.put(start, {"p": values[start % 30_000 :][:500]})
        output.end()
    if ending == "parquet":
        found = pq.ParquetFile(path)
        sizes = [found.metadata.row_group(k).num_rows for k in range(found.num_row_groups)]
    else:
        batches = pa.ipc.open_file(path)
        sizes = [batches.get_batch(k).num_rows for k in range(batches.num_record_batches)]
    assert sum(sizes) == 90_000
    assert max(sizes) == n_rows // 500 * 500
    table = pd.read_parquet(path) if ending == "parquet" else pd.read_feather(path)
    assert np.array_equal(table.to_numpy(), np.tile(values, (3, 1)))
