"""AnnData files: sparse rows and labels in groups of HDF5, columns that are known by name."""

import json

import h5py
import numpy as np
import pytest
import scipy.sparse
from typer.testing import CliRunner

import streamrf as srf
from cases import write_anndata, write_categories, write_hdf5, write_sparse
from integers import assert_same_bytes
from streamrf.cli import app
from streamrf.errors import (
    BadRowError,
    CorruptFileError,
    DataError,
    DatasetNotFoundError,
    MergeError,
    ShapeError,
)
from streamrf.sources import SparseRows, hdf5_chunks, open_source

N, D = 300, 40
RNG = np.random.default_rng(0)
X = np.where(RNG.random((N, D)) < 0.1, RNG.integers(1, 9, (N, D)), 0).astype(np.float32)
X[::7] = 0  # rows without entries
KINDS = np.array(["B cell", "NK", "T cell"])[RNG.integers(0, 3, N)]
AGE = RNG.normal(size=N)
GENES = [f"gene {j}" for j in range(D)]
MAP = srf.RandomFourier(srf.Gaussian(0.1), 32, random_state=0)


@pytest.fixture
def file(tmp_path):
    return write_anndata(tmp_path / "cells.h5ad", X, {"kind": KINDS, "age": AGE}, GENES)


def rows_of(source, block_rows=64):
    return list(source.blocks(block_rows=block_rows))


def dense(X):
    return X.dense() if isinstance(X, SparseRows) else X


@pytest.mark.parametrize("layout", [{}, {"chunks": (37,), "compression": "gzip"}])
@pytest.mark.parametrize("n_columns", [D, 5000])
def test_sums_are_those_of_dense_rows(tmp_path, layout, n_columns, monkeypatch):
    monkeypatch.setattr(hdf5_chunks, "TASK_BYTES", 300)
    rows = np.zeros((N, n_columns), np.float32)
    rows[:, -D:] = X
    path = write_anndata(tmp_path / "cells.h5ad", rows, {"kind": KINDS, "w": AGE**2}, **layout)
    source = open_source(path, y="kind", weights="w")
    assert source.is_sparse == (n_columns > 4096)
    assert source.row_values == (n_columns if n_columns == D else 1 + 2 * -(-(X != 0).sum() // N))
    plain = srf.ArraySource(rows, KINDS, AGE**2)
    a, b = (srf.accumulate(s, MAP, normalize="l2", random_state=0) for s in (source, plain))
    assert_same_bytes(a.to_tree(), b.to_tree() | {"ledger": a.ledger.to_tree()})
    assert a.ledger.same_rows(b.ledger)
    some = [
        block
        for start, stop in ((3, 90), (90, 91), (250, 300))
        for block in source.blocks(start, stop, block_rows=50)
    ]
    kept = np.r_[3:91, 250:300]
    np.testing.assert_array_equal(np.concatenate([dense(block.X) for block in some]), rows[kept])
    np.testing.assert_array_equal(np.concatenate([block.y for block in some]), KINDS[kept])


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i4", "i8", "f2", "f8", "?"])
def test_rows_travel_as_dense_ones_do(tmp_path, dtype):
    rows = X.astype(dtype)
    path = tmp_path / "cells.h5ad"
    with h5py.File(path, "w") as file:
        write_sparse(file.create_group("layers/counts"), rows)
    found = rows_of(open_source(path, "layers/counts"))
    expected = rows_of(srf.HDF5Source(write_hdf5(tmp_path / "plain.h5", rows), y=None))
    assert [block.X.dtype for block in found] == [block.X.dtype for block in expected]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.X, b.X)


def masked(group, values, mask, kind):
    group.attrs["encoding-type"] = f"nullable-{kind}"
    group["values"], group["mask"] = values, mask


def test_columns_of_observations_are_targets(file):
    mask = np.arange(N) == 7
    with h5py.File(file, "r+") as handle:
        obs = handle["obs"]
        write_categories(obs.create_group("number"), np.arange(N) % 3 + 5)
        masked(obs.create_group("count"), np.arange(N), mask, "integer")
        masked(obs.create_group("is_ill"), np.arange(N) % 2 == 0, np.zeros(N, bool), "boolean")
        masked(obs.create_group("word"), KINDS.tolist(), mask, "string-array")
        masked(obs.create_group("flag"), np.arange(N) % 2 == 0, mask, "boolean")
        obs["text"] = KINDS.tolist()
        obs["__categories/old"] = ["x", "y"]
        obs["old"] = np.arange(N) % 2
        obs["old"].attrs["categories"] = obs["__categories/old"].ref
        write_categories(obs.create_group("holes"), KINDS)
        obs["holes/codes"][7] = -1
        handle["obsm/two"] = np.stack([AGE, -AGE], axis=1)
    expected = {
        "kind": KINDS,
        "obs/kind": KINDS,
        "number": np.arange(N) % 3 + 5,
        "count": np.where(mask, np.nan, np.arange(N)),
        "is_ill": np.arange(N) % 2 == 0,
        "text": KINDS,
        "old": np.array(["x", "y"])[np.arange(N) % 2],
        "age": AGE,
        "obsm/two": np.stack([AGE, -AGE], axis=1),
    }
    for name, values in expected.items():
        source = open_source(file, y=name)
        found = np.concatenate([block.y for block in rows_of(source)])
        assert found.dtype.kind == values.dtype.kind, name
        np.testing.assert_array_equal(found, values)
        np.testing.assert_array_equal(source.known_targets[0], values)
    for name in ("word", "flag", "holes"):
        with pytest.raises(BadRowError, match=rf"'{name}', row 7: the target is missing"):
            rows_of(open_source(file, y=name))
    with pytest.raises(DatasetNotFoundError) as error:
        open_source(file, y="nothing")
    listed = str(error.value)
    assert "'X'" in listed
    assert "'obs/holes'" in listed
    assert "(300, 40)" in listed
    assert "codes" not in listed
    assert "indptr" not in listed


def test_columns_are_known_by_their_names(file, tmp_path):
    clf = srf.RandomFeatureClassifier(MAP, random_state=0).fit(open_source(file, y="kind"))
    assert clf.feature_names_in_.tolist() == GENES
    order = RNG.permutation(D)
    other = write_anndata(
        tmp_path / "other.h5ad", X[:, order], {"kind": KINDS}, [GENES[j] for j in order]
    )
    np.testing.assert_array_equal(clf.predict(open_source(other)), clf.predict(open_source(file)))
    with pytest.raises(ShapeError, match="columns of other names, or in another order"):
        open_source([file, other], y="kind")
    fewer = write_anndata(tmp_path / "fewer.h5ad", X[:, 1:], {"kind": KINDS}, GENES[1:])
    with pytest.raises(ShapeError, match="gene 0"):
        clf.predict(open_source(fewer))
    with h5py.File(file, "r+") as handle:
        handle["raw/var/symbol"] = [f"raw {j}" for j in range(D)]
        handle["raw/var"].attrs["_index"] = "symbol"
        write_sparse(handle.create_group("raw/X"), X)
        handle["obsm/few"] = X[:, :3]
    assert open_source(file, "raw/X").names[0] == "raw 0"
    assert open_source(file, "obsm/few").names is None
    repeated = write_anndata(
        tmp_path / "again.h5ad", X, {"kind": KINDS}, ["one", *GENES[1:-1], "one"]
    )
    with pytest.raises(DataError, match=r"2 columns are called 'one', .*var_names_make_unique"):
        open_source(repeated)
    short = write_anndata(tmp_path / "short.h5ad", X, {"kind": KINDS}, GENES[1:])
    with pytest.raises(DataError, match="39 names of 40 columns"):
        open_source(short)


@pytest.mark.parametrize("values", [None, np.arange(D), [["a"] * D] * 2, "a"])
def test_names_of_columns_are_texts(file, values):
    def change(handle):
        del handle["var/gene"]
        if values is not None:
            handle["var/gene"] = values

    with pytest.raises(CorruptFileError, match="'gene' is to hold the names of columns"):
        open_source(spoilt(file, change))


def test_wide_sparse_and_dense_files_are_not_read_as_one(tmp_path):
    rows = np.zeros((N, 5000), np.float32)
    rows[:, :D] = X
    first = write_anndata(tmp_path / "a.h5ad", rows, {"kind": KINDS})
    with h5py.File(write_anndata(tmp_path / "b.h5ad", rows, {"kind": KINDS}), "r+") as handle:
        del handle["X"]
        handle["X"] = rows
    with pytest.raises(ShapeError, match=r"b.h5ad, dataset 'X' is dense and .*a.h5ad is not"):
        open_source([first, tmp_path / "b.h5ad"], y="kind")


def test_columns_of_sparse_rows_are_found_by_name(tmp_path):
    wide = scipy.sparse.random_array((N, 5000), density=0.01, rng=RNG, format="csr")
    names = [f"gene {j}" for j in range(5000)]
    order = RNG.permutation(5000)
    path = write_anndata(tmp_path / "a.h5ad", wide, {"kind": KINDS}, names)
    other = write_anndata(
        tmp_path / "b.h5ad", wide[:, order], {"kind": KINDS}, [names[j] for j in order]
    )
    clf = srf.RandomFeatureClassifier(MAP, random_state=0).fit(open_source(path, y="kind"))
    first, second = (clf.decision_function(open_source(p)) for p in (path, other))
    np.testing.assert_array_equal(first, second)
    with pytest.raises(MergeError):  # the same rows, by their columns
        clf.partial_fit(open_source(other, y="kind"))


def spoilt(path, change):
    with h5py.File(path, "r+") as handle:
        change(handle)
    return path


def test_what_is_no_matrix_is_refused(file):
    def at_once(handle):
        handle["X"].attrs["encoding-type"] = "csc_matrix"

    with pytest.raises(ShapeError, match="stored by columns"):
        open_source(spoilt(file, at_once))


@pytest.mark.parametrize(
    ("part", "values", "said"),
    [
        ("X/indptr", np.arange(N), "no sparse matrix"),
        ("X/indices", np.zeros(3, int), "no sparse matrix"),
        ("X/indices", np.zeros((2, 2), int), "no dataset 'indices' of one dimension"),
        ("X/data", None, "no dataset 'data'"),
        ("X/data", ["a"], "expected numbers"),
        ("obs/kind/codes", None, "no dataset 'codes'"),
        ("obs/kind/codes", np.full(N, 3), "of categories that there are none of"),
        ("obs/kind/codes", np.zeros(N), "no numbers of categories"),
        ("obs/kind/codes", np.zeros(N - 1, int), "must have the same rows"),
    ],
)
def test_damaged_groups_are_told(file, part, values, said):
    def change(handle):
        del handle[part]
        if values is not None:
            handle[part] = values

    with pytest.raises((CorruptFileError, ShapeError), match=said):
        rows_of(open_source(spoilt(file, change), y="kind"))


def test_damaged_entries_are_told(file):
    def backwards(handle):
        handle["X/indptr"][100] = 0

    def short(handle):
        handle["X/indptr"][-1] -= 1

    def outside(handle):
        handle["X/indptr"][0] = 0
        handle["X/indices"][-1] = D

    def around(handle):
        ends = handle["X/indptr"][:].astype(np.int64)
        ends[1:3] = 2**63 - 1, -(2**63)
        del handle["X/indptr"]
        handle["X/indptr"] = ends

    before = file.read_bytes()
    with pytest.raises(CorruptFileError, match="values that are of no row"):
        open_source(spoilt(file, short))
    file.write_bytes(before)
    for change in (around, backwards):
        with pytest.raises(CorruptFileError, match="end before they begin, or beyond the values"):
            rows_of(open_source(spoilt(file, change)))
    with h5py.File(file, "r+") as handle:
        del handle["X"]
        write_sparse(handle.create_group("X"), X)
    with pytest.raises(DataError, match="entries outside"):
        rows_of(open_source(spoilt(file, outside)))


@pytest.mark.parametrize("part", ["X", "X/data", "obs/kind", "obs/kind/categories", "var"])
def test_parts_in_other_folders_are_not_followed(file, tmp_path, part):
    (tmp_path / "away").mkdir()
    away = tmp_path / "away" / "cells.h5ad"
    write_anndata(away, X, {"kind": KINDS}, GENES)

    def move(handle):
        del handle[part]
        handle[part] = h5py.ExternalLink(str(away), f"/{part}")

    (tmp_path / "here").mkdir()
    here = tmp_path / "here" / "cells.h5ad"
    here.write_bytes(file.read_bytes())
    spoilt(here, move)
    with pytest.raises(CorruptFileError, match="outside the folder"):
        open_source(here, y="kind")
    source = open_source(here, y="kind", allow_external=True)
    np.testing.assert_array_equal(np.concatenate([b.y for b in rows_of(source)]), KINDS)


def test_commands_take_the_file(file, tmp_path):
    runner = CliRunner()

    def run(*words):
        found = runner.invoke(app, [str(word) for word in words])
        assert found.exit_code == 0, found.output
        return found.stdout

    (tmp_path / "cells").mkdir()
    file = file.rename(tmp_path / "cells" / "day.h5ad")
    model = tmp_path / "model.h5"
    fit = ("--map", "fourier", "--components", 64, "--kernel", "gaussian", "--gamma", 0.1)
    folder = tmp_path / "cells"  # whose files are found by their ending
    run("fit", folder, "--y", "kind", *fit, "--model", model)
    figures = json.loads(run("evaluate", model, file, "--y", "kind", "--json"))
    assert figures["n_rows"] == N
    listed = {d["name"]: d for d in json.loads(run("info", file, "--json"))["datasets"]}
    assert listed["X"]["shape"] == [N, D]
    assert listed["X"]["dtype"] == "float32, sparse"
    assert listed["obs/kind"]["dtype"] == "categories"
    assert listed["obs/age"]["dtype"] == "float64"
    assert "X/data" not in listed
    assert "300 x 40, float32, sparse" in run("info", file)
    with h5py.File(file, "r+") as handle:
        handle[b"obs/\xff"] = AGE
    assert "obs/" in run("info", file)


def test_many_lacking_columns_are_told_in_brief(tmp_path):
    names = [f"gene {j}" for j in range(5000)]
    rows = scipy.sparse.random_array((N, 5000), density=0.01, rng=RNG, format="csr")
    path = write_anndata(tmp_path / "a.h5ad", rows, {"kind": KINDS}, names)
    other = write_anndata(tmp_path / "b.h5ad", rows[:, :100], {}, names[:100])
    clf = srf.RandomFeatureClassifier(MAP, random_state=0).fit(open_source(path, y="kind"))
    with pytest.raises(ShapeError, match="it lacks") as error:
        clf.predict(open_source(other))
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("shape", ["abc", np.nan, h5py.Empty("i8"), [[2]], -1])
def test_shapes_that_are_none_are_told(file, shape):
    def change(handle):
        handle["X"].attrs["shape"] = shape

    with pytest.raises(CorruptFileError, match="no sparse matrix: of shape"):
        open_source(spoilt(file, change))
    found = CliRunner().invoke(app, ["info", str(file)])
    assert found.exit_code == 0, found.output


def test_masked_records_are_no_column(file):
    with h5py.File(file, "r+") as handle:
        records = np.zeros(N, dtype=[("a", "f4"), ("b", "f4")])
        masked(handle["obs"].create_group("odd"), records, np.zeros(N, bool), "integer")
    with pytest.raises(CorruptFileError, match="no mask of its values"):
        open_source(file, y="odd")


def test_a_model_remembers_the_name_of_its_target(file, tmp_path):
    model = tmp_path / "m.h5"
    words = ["--map", "fourier", "--gamma", "0.1", "--components", "32", "--model", str(model)]
    assert CliRunner().invoke(app, ["fit", str(file), "--y", "kind", *words]).exit_code == 0
    result = CliRunner().invoke(app, ["evaluate", str(model), str(file), "--json"])
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["n_rows"] == N
