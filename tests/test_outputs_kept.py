"""Commands replace files of the kind that they write, and no others."""

import os

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

import streamrf as srf
from streamrf.cli import app, files
from streamrf.errors import ParameterError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = (X[:, 0] > 0).astype(int)
WORDS = ("--map", "fourier", "--components", "32")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.h5", "precious.h5"):
        with h5py.File(name, "w") as file:
            file["X"], file["y"] = X, Y
    statistics = srf.accumulate(srf.HDF5Source("a.h5"), srf.RandomFourier(n_components=8))
    statistics.save("s.h5")
    statistics.solve(1.0).save("m.h5")
    statistics.moments.save("c.h5")
    with open("notes.csv", "w") as file:
        file.write("a,b\n1,2\n")
    return tmp_path


def run(*words):
    result = CliRunner().invoke(app, [*words])
    return result.exit_code, " ".join((result.output + result.stderr).split())


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("fit", "a.h5", *WORDS, "--model"), "a model file of streamrf"),
        (("fit", "a.h5", *WORDS, "--statistics"), "a statistics file of streamrf"),
        (("solve", "s.h5", "--alpha", "1", "--model"), "a model file of streamrf"),
        (("stats", "subtract", "s.h5", "s.h5", "-o"), "a statistics file of streamrf"),
        (("moments", "a.h5", "-o"), "a moments file of streamrf"),
        (("predict", "m.h5", "a.h5", "-o"), "what this command writes there"),
    ],
)
def test_what_is_of_another_kind_is_kept(folder, words, kind):
    before = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
    own = {"model": "m.h5", "statistics": "s.h5", "moments": "c.h5"}.get(kind.split()[1])
    for name in sorted({"precious.h5", "m.h5", "s.h5", "c.h5"} - {own, words[1], words[2]}):
        code, told = run(*words, name)
        assert code == 1, told
        assert f"{name} exists and is not {kind}, so it is not replaced" in told
    assert before == {name: (folder / name).read_bytes() for name in os.listdir(folder)}


def test_what_is_of_the_same_kind_is_replaced(folder):
    (folder / "empty.h5").write_bytes(b"")
    for words in (
        ("fit", "a.h5", *WORDS, "--model", "m.h5", "--statistics", "s.h5"),
        ("fit", "a.h5", *WORDS, "--model", "empty.h5"),
        ("moments", "a.h5", "-o", "c.h5"),
        *[("predict", "m.h5", "a.h5", "--scores", "--probabilities", "-o", "p.h5")] * 2,
        ("predict", "m.h5", "a.h5", "-o", "notes.csv"),
    ):
        code, told = run(*words)
        assert code == 0, told


@pytest.mark.parametrize("name", ["notes", "notes.h5", "notes.npy", "notes.parquet", "notes.arrow"])
def test_predictions_replace_files_of_their_format(folder, name):
    (folder / name).write_text("all of my notes")
    code, told = run("predict", "m.h5", "a.h5", "-o", name)
    assert code == 1
    assert f"{name} exists and is not what this command writes there" in told
    (folder / name).unlink()
    for _ in range(2):
        assert run("predict", "m.h5", "a.h5", "-o", name)[0] == 0
    code, told = run("report", "m.h5", "-o", name if name == "notes" else "notes.csv")
    assert code == 1
    for _ in range(2):
        assert run("report", "m.h5", "-o", "page.html")[0] == 0


def test_text_does_not_replace_what_is_none(folder):
    (folder / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    code, told = run("predict", "m.h5", "a.h5", "-o", "picture.csv")
    assert code == 1
    assert "picture.csv exists and is not what this command writes there" in told


def test_damaged_files_are_kept(folder):
    (folder / "cut.h5").write_bytes((folder / "a.h5").read_bytes()[:600])
    assert run("predict", "m.h5", "a.h5", "-o", "cut.h5")[0] == 1
    assert run("fit", "a.h5", *WORDS, "--model", "cut.h5")[0] == 1
    code, told = run("fit", "a.h5", *WORDS, "--model", "notes.csv")
    assert code == 1
    assert "--model notes.csv exists and is not a model file" in told


def test_rows_to_evaluate_on_may_be_a_part(folder):
    whole = srf.load_model("m.h5")
    code, told = run("evaluate", "m.h5", "a.h5", "--rows", "100:250", "--json")
    assert code == 0, told
    expected = whole.evaluate(X[100:250], Y[100:250])["accuracy"]
    assert '"n_rows": 150, "n_rows_trained_on": 150' in told
    assert f'"accuracy": {expected}' in told
    assert "rows=(300, None) are no rows" in run("evaluate", "m.h5", "a.h5", "--rows", "300:")[1]


def test_a_saved_file_is_no_data(folder):
    code, told = run("fit", "s.h5", *WORDS, "--model", "new.h5")
    assert code == 1
    assert "s.h5 is a file that streamrf has saved, of no rows" in told


@pytest.mark.parametrize("kind", ["model", ""])
def test_what_cannot_be_read_is_kept(kind, tmp_path, monkeypatch):
    """A file of data that another user has closed was replaced by a model."""
    path = tmp_path / "secret"
    path.write_bytes(b"rows")

    def closed(*arguments, **options):
        raise PermissionError

    monkeypatch.setattr(files, "is_saved", closed)
    monkeypatch.setattr("builtins.open", closed)
    with pytest.raises(ParameterError, match="exists and cannot be read"):
        files._check_replaced("--model secret", str(path), kind, b"")
