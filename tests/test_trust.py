"""HDF5 files that claim rows they do not store, or send their readers elsewhere."""

import os
import shutil
import warnings
from contextlib import nullcontext

import h5py
import numpy as np
import pytest

import streamrf as srf
from commands import answer, refused
from streamrf.errors import CorruptFileError, StreamrfWarning

ROWS = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
LABELS = np.arange(40) % 2


@pytest.fixture
def inside(tmp_path):
    """A folder with a whole file in it, and one next to it."""
    folder = tmp_path / "inside"
    for place in (folder, tmp_path / "outside"):
        (place / "deep").mkdir(parents=True)
        for path in (place / "whole.h5", place / "deep" / "whole.h5"):
            with h5py.File(path, "w") as file:
                file["X"], file["y"] = ROWS, LABELS
    return folder


def linked(path, target):
    """By an external link."""
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = h5py.ExternalLink(target, "X"), LABELS


def linked_twice(path, target):
    """By a link within the file to an external link."""
    linked(path, target)
    with h5py.File(path, "r+") as file:
        file.move("X", "there")
        file["X"] = h5py.SoftLink("/there")


def virtual(path, target):
    """By a virtual dataset."""
    layout = h5py.VirtualLayout(shape=ROWS.shape, dtype=ROWS.dtype)
    layout[:] = h5py.VirtualSource(target, "X", shape=ROWS.shape)
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("X", layout)
        file["y"] = LABELS


def virtual_of_linked(path, target):
    """By a virtual dataset of a file in the same folder, which only links."""
    linked(path.with_name("between.h5"), target)
    virtual(path, "between.h5")


def raw(path, target):
    """By bytes of another file that is none of HDF5."""
    place = (path.parent / target).with_suffix(".raw")
    ROWS.tofile(place)
    with h5py.File(path, "w") as file:
        external = [(os.fspath(place.resolve()), 0, ROWS.nbytes)]
        file.create_dataset("X", ROWS.shape, ROWS.dtype, external=external)
        file["y"] = LABELS


ways = pytest.mark.parametrize("way", [linked, linked_twice, virtual, virtual_of_linked, raw])


@ways
def test_rows_in_files_of_the_same_folder_are_read_and_named(way, inside):
    way(inside / "data.h5", "deep/whole.h5")
    source = srf.HDF5Source(inside / "data.h5")
    block = next(source.blocks())
    np.testing.assert_array_equal(block.X, ROWS)
    place = (inside / "deep" / "whole.h5").with_suffix(".raw" if way is raw else ".h5")
    assert f"(rows of {place}" in source.stores[0].where == block.where


@ways
def test_rows_elsewhere_are_refused_unless_allowed(way, inside):
    way(inside / "data.h5", "../outside/whole.h5")
    with pytest.raises(CorruptFileError, match=r"dataset 'X' is in another file, .*/outside/whole"):
        srf.HDF5Source(inside / "data.h5")
    source = srf.HDF5Source(inside / "data.h5", allow_external=True)
    np.testing.assert_array_equal(next(source.blocks()).X, ROWS)
    assert "outside/whole" in source.stores[0].where


def test_the_ledger_names_the_file_that_rows_came_from(inside):
    linked(inside / "data.h5", "whole.h5")
    source = srf.HDF5Source(inside / "data.h5")
    statistics = srf.accumulate(source, srf.RandomFourier(n_components=4, random_state=0))
    assert str(inside / "whole.h5") in next(iter(statistics.ledger.names.values()))


def test_a_linked_file_that_was_written_to_is_another_version(inside):
    linked(inside / "data.h5", "whole.h5")
    source = srf.HDF5Source(inside / "data.h5")
    before = source.versions
    os.utime(inside / "whole.h5", (1, 1))
    assert source.versions != before


@pytest.mark.parametrize("layout", [{}, {"chunks": (1000, 3)}], ids=["contiguous", "chunked"])
def test_rows_that_are_claimed_and_not_stored_are_refused_unless_allowed(layout, tmp_path):
    n_rows = 10**9
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        X = file.create_dataset("X", (n_rows, 3), np.float32, **layout)
        if layout:
            X[:5000] = 1
        file.create_dataset("y", (n_rows,), np.int8, **dict.fromkeys(layout, (1000,)))
    with pytest.raises(CorruptFileError) as told:
        srf.HDF5Source(path)
    stored = "60,000" if layout else "0"
    assert f"claims 1,000,000,000 rows, 12 GB, and stores {stored} bytes" in str(told.value)
    assert "--allow-sparse" in str(told.value)
    assert srf.HDF5Source(path, allow_sparse=True).n_rows == n_rows


@pytest.mark.parametrize("version", [2, 3])
def test_chunks_that_a_zarr_store_claims_are_counted(version, tmp_path):
    """Chunks that are not there are read as the fill value, for ever."""
    zarr = pytest.importorskip("zarr")
    store = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    X = store.create_array("X", shape=(10**9, 3), chunks=(1000, 3), dtype="f4", fill_value=0.5)
    store.create_array("y", shape=(10**9,), chunks=(1000,), dtype="i1", fill_value=0)
    X[:5000] = 1
    with pytest.raises(CorruptFileError, match=r"a\.zarr claims 1,000,000,000 rows, 12 GB, and st"):
        srf.open_source(tmp_path / "a.zarr", y="y")
    assert srf.open_source(tmp_path / "a.zarr", y="y", allow_sparse=True).n_rows == 10**9


def test_chunks_that_were_never_written_are_told(tmp_path):
    with h5py.File(tmp_path / "half.h5", "w") as file:
        X = file.create_dataset("X", (3000, 2), chunks=(500, 2), dtype="f8")
        X[:1200] = 1.0
        file["y"] = np.arange(3000) % 2
    for name in ("half1.h5", "half2.h5"):
        shutil.copy(tmp_path / "half.h5", tmp_path / name)
    with pytest.warns(StreamrfWarning, match="3 of 6 chunks were never written") as told:
        srf.HDF5Source(sorted(tmp_path.iterdir()))
    assert len(told) == 1
    assert str(told[0].message).endswith("and so of 2 more")
    assert srf.HDF5Source(tmp_path / "half.h5", allow_sparse=True).n_rows == 3000


@pytest.mark.parametrize("lost", ["X", "y", "w"])
def test_a_dataset_in_one_piece_that_was_never_written_is_told(lost, tmp_path):
    n = 300
    for name, last in (("a", None), ("b", lost)):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            for key, array in (("X", np.ones((n, 2))), ("y", np.arange(n) % 2), ("w", np.ones(n))):
                dataset = file.create_dataset(key, array.shape, array.dtype)
                if key != last:
                    dataset[:] = array
    words = rf"b\.h5.*{lost}.*: all numbers were never written and are read as the fill value, 0"
    with pytest.warns(StreamrfWarning, match=words):
        srf.HDF5Source([tmp_path / "a.h5", tmp_path / "b.h5"], weights="w")


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("chunks", r"1\.part, dataset 'X': 3 of 5 chunks were never written"),
        ("whole", r"1\.part, dataset 'X': all numbers were never written"),
        ("gap", r"v\.h5, dataset 'X': 200 of 600 numbers are of no file"),
    ],
)
def test_parts_of_a_virtual_dataset_that_were_never_written_are_told(part, words, tmp_path):
    layout = h5py.VirtualLayout((300, 2), "f8")
    for i in range(3):
        with h5py.File(tmp_path / f"{i}.part", "w") as file:
            if i != 1 or part == "gap":
                file["X"] = np.ones((100, 2))
            else:
                chunks = (20, 2) if part == "chunks" else None
                dataset = file.create_dataset("X", (100, 2), "f8", chunks=chunks)
                dataset[: 40 if part == "chunks" else 0] = 1.0
        if i != 1 or part != "gap":
            layout[100 * i : 100 * i + 100] = h5py.VirtualSource(f"{i}.part", "X", (100, 2))
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_virtual_dataset("X", layout)
        file["y"] = np.arange(300) % 2
    with pytest.warns(StreamrfWarning, match=words):
        srf.HDF5Source(tmp_path / "v.h5")
    srf.HDF5Source(tmp_path / "v.h5", allow_sparse=True)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["X", "y"])
def test_numbers_that_several_files_have_do_not_hide_those_of_none(name, seed, tmp_path):
    """An overlap, as of a wrong offset, made up for a gap, which became zeros in silence."""
    rng = np.random.default_rng(seed)
    shape = (40, 6) if name == "X" else (40,)
    lacking, layout = np.ones(shape, bool), h5py.VirtualLayout(shape, "f8")
    with h5py.File(tmp_path / "a.part", "w") as file:
        file["X"] = np.ones((40, 6) if name == "X" else (40,))
    for _ in range(6):
        ends = [sorted(rng.choice(n + 1, 2, replace=False).tolist()) for n in shape]
        box = tuple(slice(*pair) for pair in ends)
        layout[box] = h5py.VirtualSource(tmp_path / "a.part", "X", shape)[box]
        lacking[box] = False
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_virtual_dataset(name, layout)
        if name == "X":
            file["y"] = np.arange(40) % 2
        else:
            file["X"] = np.ones((40, 6))
    words = f"dataset '{name}': {lacking.sum()} of {lacking.size} numbers are of no file"
    with pytest.warns(StreamrfWarning, match=words) if lacking.any() else nullcontext():
        srf.HDF5Source(tmp_path / "v.h5")


def test_more_than_was_written_is_doubted_in_pieces_too(tmp_path):
    with h5py.File(tmp_path / "a.part", "w") as file:
        file.create_dataset("X", (100, 2), "f8", chunks=(20, 2))[80:] = 1.0
    layout = h5py.VirtualLayout((100, 2), "f8")
    for here, there in ((slice(50), slice(50, 100)), (slice(50, 100), slice(50))):
        layout[here] = h5py.VirtualSource(tmp_path / "a.part", "X", (100, 2))[there]
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_virtual_dataset("X", layout)
        file["y"] = np.arange(100) % 2
    with pytest.warns(StreamrfWarning, match="4 of 5 chunks were never written"):
        srf.HDF5Source(tmp_path / "v.h5")


def test_parts_of_which_a_virtual_dataset_takes_what_was_written_are_not_doubted(tmp_path):
    layout = h5py.VirtualLayout((40, 2), "f8")
    with h5py.File(tmp_path / "a.part", "w") as file:
        file.create_dataset("X", (100, 2), "f8", chunks=(20, 2))[:40] = 1.0
    layout[:] = h5py.VirtualSource(tmp_path / "a.part", "X", (100, 2))[:40]
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_virtual_dataset("X", layout)
        file["y"] = np.arange(40) % 2
    assert srf.HDF5Source(tmp_path / "v.h5").n_rows == 40


@pytest.mark.parametrize("version", [2, 3])
def test_what_is_no_chunk_of_a_zarr_store_does_not_stand_for_one(version, tmp_path):
    """As a copy leaves it that was stopped, or a desktop."""
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    group.create_array("X", shape=(500, 2), chunks=(100, 2), dtype="f8")[:] = 1.0
    folder = tmp_path / "a.zarr" / "X"
    srf.open_source(tmp_path / "a.zarr")
    chunk = folder / "3.0" if version == 2 else folder / "c" / "3" / "0"
    for name in (f".{chunk.name}.AbCdEf", ".DS_Store", "9.0"):
        (chunk.parent / name).write_bytes(chunk.read_bytes())
    chunk.unlink()
    with pytest.warns(StreamrfWarning, match="1 of 5 chunks of rows are not there"):
        srf.open_source(tmp_path / "a.zarr")


SHUFFLED = np.random.default_rng(0).permutation(500)


@pytest.mark.filterwarnings("ignore:The data type")  # of texts, which zarr may change
@pytest.mark.parametrize("role", ["y", "weights"])
@pytest.mark.parametrize("order", ["none", "ascending", "descending", "blocks"])
@pytest.mark.parametrize(
    "values",
    [
        np.arange(500) % 2,
        1 + np.arange(500) % 2,
        np.linspace(1, 2, 500),
        np.stack([np.arange(500) % 3, np.arange(500) % 2], axis=1),
        np.array(["a", "b"])[np.arange(500) % 2],
    ],
    ids=["0 and 1", "1 and 2", "numbers", "two columns", "texts"],
)
def test_targets_and_weights_that_a_zarr_store_lacks_are_told(role, order, values, tmp_path):
    """Where the others are in no order, so that no chunk is of the fill value alone."""
    zarr = pytest.importorskip("zarr")
    if role == "weights" and (values.ndim == 2 or values.dtype.kind == "U"):
        pytest.skip("not for weights")
    values = values[SHUFFLED] if order == "none" else np.sort(values, axis=0)
    if order == "descending":
        values = values[::-1]
    if order == "blocks":
        if len(np.unique(values)) > 3:
            pytest.skip("no blocks")
        values = np.roll(values, 130, axis=0)
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for name, array in (("X", np.ones((500, 2))), (role, values)):
        group.create_array(name, data=array, chunks=(100, *array.shape[1:]))
    srf.open_source(tmp_path / "a.zarr", **{role: role}, allow_sparse=True)
    shutil.rmtree(tmp_path / "a.zarr" / role / "c" / "4", ignore_errors=True)
    (tmp_path / "a.zarr" / role / "c" / "4").unlink(missing_ok=True)
    if order != "none":
        srf.open_source(tmp_path / "a.zarr", **{role: role})  # warnings are errors in these tests
        return
    with pytest.warns(StreamrfWarning, match=f"array '{role}': 1 of 5 chunks of rows are not th"):
        srf.open_source(tmp_path / "a.zarr", **{role: role})


@pytest.mark.parametrize(
    ("values", "chunks", "is_told"),
    [
        (np.r_[np.zeros(80), np.ones(70), np.full(350, np.nan)], (100,), False),  # unlabelled
        (np.r_[np.zeros((100, 3)), SHUFFLED[:400, np.newaxis] % [2, 3, 5]], (100, 1), True),
    ],
)
def test_targets_that_are_missing_or_lie_in_columns_are_looked_at(
    values, chunks, is_told, tmp_path
):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("X", data=np.ones((500, 2)), chunks=(100, 2))
    fill = np.nan if np.isnan(values).any() else -1.0
    group.create_array("y", shape=values.shape, chunks=chunks, dtype="f8", fill_value=fill)
    group["y"][:] = values
    if not is_told:
        srf.open_source(tmp_path / "a.zarr", y="y")  # warnings are errors in these tests
        return
    shutil.rmtree(tmp_path / "a.zarr" / "y" / "c" / "4")
    with pytest.warns(StreamrfWarning, match="3 of 15 chunks of rows are not there"):
        srf.open_source(tmp_path / "a.zarr", y="y")


@pytest.mark.parametrize("name", ["y", "w"])
@pytest.mark.parametrize("n_chunks", [1, 3])
def test_targets_of_which_nothing_is_there_are_told(name, n_chunks, tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("X", data=np.ones((300, 2)), chunks=(100, 2))
    for array in ("y", "w"):
        group.create_array(array, data=np.arange(1.0, 301.0), chunks=(300 // n_chunks,))
    shutil.rmtree(tmp_path / "a.zarr" / name / "c")
    found = f"array '{name}': {n_chunks} of {n_chunks} chunks of rows are not there"
    with pytest.warns(StreamrfWarning, match=found):
        srf.open_source(tmp_path / "a.zarr", y="y", weights="w")


@pytest.mark.parametrize("version", [2, 3])
def test_the_chunks_of_a_store_that_is_one_array_are_counted(version, tmp_path):
    zarr = pytest.importorskip("zarr")
    options = {"shape": (500, 2), "chunks": (100, 2), "dtype": "f8", "zarr_format": version}
    zarr.create_array(tmp_path / "a.zarr", **options)[:] = 1.0
    assert srf.open_source(tmp_path / "a.zarr").n_rows == 500
    if version == 2:
        (tmp_path / "a.zarr" / "3.0").unlink()
    else:
        shutil.rmtree(tmp_path / "a.zarr" / "c" / "3")
    with pytest.warns(StreamrfWarning, match="1 of 5 chunks of rows are not there"):
        srf.open_source(tmp_path / "a.zarr")


@pytest.mark.parametrize("shards", [None, (1000, 2)])
def test_chunks_that_a_zarr_store_lacks_are_told(shards, tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    X = np.ones((2700, 2))  # which neither chunks nor shards divide
    group.create_array("X", data=X, chunks=(500, 2), shards=shards)
    y = np.arange(2700) // 1350  # sorted, so that there are chunks of the fill value alone
    group.create_array("y", data=y, chunks=(500,))
    srf.open_source(tmp_path / "a.zarr", y="y")  # whole: warnings are errors in these tests
    last = tmp_path / "a.zarr" / "X" / "c" / ("2" if shards else "5")
    shutil.rmtree(last)
    n_all = 3 if shards else 6
    with pytest.warns(StreamrfWarning, match=f"1 of {n_all} chunks of rows are not there"):
        source = srf.open_source(tmp_path / "a.zarr", y="y")
    assert source.n_rows == 2700
    srf.open_source(tmp_path / "a.zarr", y="y", allow_sparse=True)


def test_a_virtual_dataset_of_files_that_are_not_there_is_refused(tmp_path):
    layout = h5py.VirtualLayout(shape=(10**12, 3), dtype=np.float32)
    layout[:40] = h5py.VirtualSource("missing.h5", "X", shape=ROWS.shape)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_virtual_dataset("X", layout)
    with pytest.raises(CorruptFileError, match=r"claims 1,000,000,000,000 rows, .* stores 0 bytes"):
        srf.HDF5Source(tmp_path / "data.h5", y=None)


def halves(folder, n_rows=20):
    """Two files of half of the rows each, and a virtual dataset of both."""
    layout = h5py.VirtualLayout(ROWS.shape, ROWS.dtype)
    for i in (0, 20):
        with h5py.File(folder / f"half{i}.h5", "w") as file:
            file["X"] = ROWS[i : i + n_rows]
        layout[i : i + 20] = h5py.VirtualSource(f"half{i}.h5", "X", (20, 3))[:20]
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_virtual_dataset("X", layout)
        file["y"] = LABELS


@pytest.mark.parametrize(
    ("spoil", "lack"),
    [
        (os.remove, "is not there"),
        (lambda path: path.write_bytes(b"no"), "cannot be read as HDF5"),
        (lambda path: h5py.File(path, "w").close(), "has no dataset 'X'"),
        (lambda path: halves(path.parent, 19), "has in '/X' the shape (19, 3)"),
    ],
)
def test_a_source_of_a_virtual_dataset_that_lacks_rows_is_refused(spoil, lack, inside):
    halves(inside)
    np.testing.assert_array_equal(next(srf.HDF5Source(inside / "data.h5").blocks()).X, ROWS)
    spoil(inside / "half20.h5")
    with pytest.raises(CorruptFileError) as told:
        srf.HDF5Source(inside / "data.h5")
    named = 0 if "19" in lack else 20
    assert f"dataset 'X' has rows in {inside / f'half{named}.h5'}, which {lack}" in str(told.value)


def test_rows_of_a_file_that_is_gone_are_read_if_allowed(inside):
    halves(inside)
    os.remove(inside / "half20.h5")
    source = srf.HDF5Source(inside / "data.h5", allow_sparse=True)
    np.testing.assert_array_equal(next(source.blocks()).X, [*ROWS[:20], *np.zeros((20, 3))])
    assert source.versions


def test_numbered_files_of_which_one_is_missing_are_refused(inside):
    end = h5py.h5s.UNLIMITED
    for i in range(4):
        with h5py.File(inside / f"block-{i}.h5", "w") as file:
            file["X"] = ROWS[10 * i : 10 * i + 10]
    space = h5py.h5s.create_simple((40, 3), (end, 3))
    space.select_hyperslab((0, 0), (end, 1), (10, 1), (10, 3))
    part = h5py.h5s.create_simple((10, 3))
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_virtual(space, b"block-%b.h5", b"X", part)
    with h5py.File(inside / "data.h5", "w") as file:
        kind = h5py.h5t.py_create(ROWS.dtype)
        h5py.h5d.create(file.id, b"X", kind, h5py.h5s.create_simple((40, 3), (end, 3)), made)
    np.testing.assert_array_equal(next(srf.HDF5Source(inside / "data.h5", y=None).blocks()).X, ROWS)
    os.remove(inside / "block-1.h5")
    with pytest.raises(CorruptFileError, match=r"rows in .*block-1\.h5, which is not there"):
        srf.HDF5Source(inside / "data.h5", y=None)


def test_sources_are_looked_for_where_the_library_finds_them(inside, monkeypatch):
    """By the last name of a path that is gone, and in the working folder."""
    virtual(inside / "moved.h5", "/gone/whole.h5")
    np.testing.assert_array_equal(
        next(srf.HDF5Source(inside / "moved.h5").blocks()).X, h5py.File(inside / "moved.h5")["X"]
    )
    monkeypatch.chdir(inside.parent / "outside")
    virtual(inside / "deep" / "data.h5", "there.h5")
    os.rename("whole.h5", "there.h5")
    with pytest.raises(CorruptFileError, match=r"is in another file, .*/outside/there\.h5"):
        srf.HDF5Source(inside / "deep" / "data.h5")


@pytest.mark.parametrize(
    ("spoil", "lack"),
    [(os.remove, "is not there"), (lambda path: os.truncate(path, 100), "has 100 bytes of 480")],
)
def test_raw_storage_that_lacks_rows_is_refused(spoil, lack, inside):
    raw(inside / "data.h5", "rows.h5")
    spoil(inside / "rows.raw")
    with pytest.raises(CorruptFileError, match=rf"rows in .*rows\.raw, which {lack}"):
        srf.HDF5Source(inside / "data.h5")


def test_equal_rows_that_compress_to_nothing_are_stored(tmp_path, monkeypatch):
    monkeypatch.setattr("streamrf.sources.hdf5_trust.SMALL_BYTES", 0)
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        X = np.zeros((100_000, 8))
        X[0] = 1
        chunks = {"chunks": (50_000, 8), "compression": "gzip", "shuffle": True}
        data = file.create_dataset("X", data=X, **chunks)
        file["y"] = np.zeros(100_000, dtype=np.int8)
        assert data.id.get_storage_size() < X.nbytes / 200
    assert srf.HDF5Source(path).n_rows == 100_000


def test_the_command_has_both_options(inside, monkeypatch):
    monkeypatch.chdir(inside)
    linked(inside / "data.h5", "../outside/whole.h5")
    words = ["data.h5", "--map", "fourier", "--components", "4", "--model", "m.h5"]
    assert "--allow-external" in refused("fit", *words)
    answer("fit", *words, "--allow-external")
    assert "--allow-external" in refused("predict", "m.h5", "data.h5", "-o", "p.h5")
    answer("predict", "m.h5", "data.h5", "-o", "p.h5", "--allow-external", "--allow-sparse")


@pytest.mark.parametrize("kept", [0.0, 0.2, 0.9])
@pytest.mark.parametrize("version", [2, 3])
def test_a_blosc_chunk_of_a_zarr_store_that_ends_early_is_refused(version, kept, tmp_path):
    """The codec reads on, in whatever is in memory."""
    zarr, numcodecs = pytest.importorskip("zarr"), pytest.importorskip("numcodecs")
    rows = np.random.default_rng(0).integers(0, 9, (2000, 4)).astype("i2")
    codec = numcodecs.Blosc() if version == 2 else zarr.codecs.BloscCodec()
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    group.create_array("X", data=rows, chunks=(100, 3), compressors=[codec])
    source = srf.open_source(tmp_path / "a.zarr", y=None)
    np.testing.assert_array_equal(np.concatenate([b.X for b in source.blocks()]), rows)
    name = "7.1" if version == 2 else "c/7/1"
    chunk = tmp_path / "a.zarr" / "X" / name
    os.truncate(chunk, int(kept * chunk.stat().st_size))
    with pytest.raises(CorruptFileError, match=f"the chunk X/{name} ends early"):
        list(source.blocks())


@pytest.mark.parametrize("codec", ["BloscCodec", "ZstdCodec", None])
def test_a_shard_with_its_index_at_the_start_that_ends_early_is_refused(codec, tmp_path):
    """zarr takes the chunks that lie beyond its end for such as are not there."""
    zarr = pytest.importorskip("zarr")
    codecs = getattr(zarr.codecs, codec)() if codec else None
    rows = np.random.default_rng(0).integers(0, 9, (2000, 6)).astype("i2")
    shards = {"shape": (500, 3), "index_location": "start"}
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    array = group.create_array(
        "X", shape=rows.shape, dtype=rows.dtype, chunks=(100, 3), shards=shards, compressors=codecs
    )
    array[:1400] = rows[:1400]
    source = srf.open_source(tmp_path / "a.zarr", y=None, allow_sparse=True)
    found = np.concatenate([block.X for block in source.blocks(block_rows=50)])
    np.testing.assert_array_equal(found, np.where(np.arange(2000)[:, None] < 1400, rows, 0))
    shard = tmp_path / "a.zarr" / "X" / "c" / "1" / "0"
    whole, n_bytes = shard.read_bytes(), shard.stat().st_size
    offsets = np.frombuffer(whole[:80], "<u8").reshape(5, 2)[:, 0]
    for end in {1, 79, *offsets.tolist(), n_bytes - 20, n_bytes - 1}:
        shard.write_bytes(whole[:end])
        for rows_of_block in 50, 4096:
            with pytest.raises(CorruptFileError, match="the chunk X/c/1/0 ends early"):
                list(source.blocks(block_rows=rows_of_block))


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("index", ["bare", "big", "checked", "turned"])
def test_shards_with_indices_of_all_kinds_are_read(index, location, tmp_path):
    """Those without a checksum, at the end, were read as other numbers where the end was lost."""
    zarr = pytest.importorskip("zarr")
    codecs = {
        "bare": [zarr.codecs.BytesCodec()],
        "big": [zarr.codecs.BytesCodec(endian="big")],
        "checked": [zarr.codecs.BytesCodec(), zarr.codecs.Crc32cCodec()],
        "turned": [zarr.codecs.TransposeCodec(order=(2, 1, 0)), zarr.codecs.BytesCodec()],
    }[index]
    sharding = zarr.codecs.ShardingCodec(
        chunk_shape=(100, 3), codecs=[zarr.codecs.BytesCodec()], index_codecs=codecs,
        index_location=location,
    )  # fmt: skip
    rows = np.random.default_rng(0).normal(size=(2000, 6))
    rows[500:600] = 0  # a chunk that is not stored
    path = tmp_path / "a.zarr"
    array = zarr.create(
        shape=rows.shape, dtype=rows.dtype, chunks=(500, 6), codecs=[sharding], store=path,
        zarr_format=3, config={"write_empty_chunks": False},
    )  # fmt: skip
    array[:] = rows
    source = srf.open_source(path, y=None)
    np.testing.assert_array_equal(np.concatenate([b.X for b in source.blocks()]), rows)
    if index != "turned":
        shard = path / "c" / "1" / "0"
        for lost in 1, 16, 160, 2400:
            os.truncate(shard, shard.stat().st_size - lost)
            with pytest.raises(CorruptFileError):
                list(source.blocks())


def test_blosc_after_other_codecs_is_looked_at(tmp_path):
    zarr, numcodecs = pytest.importorskip("zarr"), pytest.importorskip("numcodecs")
    rows = np.random.default_rng(0).integers(0, 9, (2000, 6)).astype("i2")
    two = [zarr.codecs.ZstdCodec(), zarr.codecs.BloscCodec()]
    stores = {
        "c/7/0": {"zarr_format": 3, "compressors": two},
        "7.0": {"zarr_format": 2, "filters": [numcodecs.Blosc()], "compressors": None},
    }
    for key, options in stores.items():
        path = tmp_path / key[0]
        array = zarr.create_array(path, data=rows, chunks=(100, 6), **options)
        np.testing.assert_array_equal(array[:], rows)
        source = srf.open_source(path.rename(path.with_suffix(".zarr")), y=None)
        chunk = path.with_suffix(".zarr") / key
        os.truncate(chunk, chunk.stat().st_size - 4)
        with pytest.raises(CorruptFileError, match=f"the chunk {key} ends early"):
            list(source.blocks())


@pytest.mark.parametrize("shards", [None, (500, 3)])
@pytest.mark.parametrize("name", ["X", "y"])
def test_an_empty_file_of_a_zarr_store_is_refused(name, shards, tmp_path):
    """zarr takes an empty shard for one that is not there."""
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    options = {"X": {"chunks": (100, 3), "shards": shards}, "y": {"chunks": (500,)}}
    if shards is not None:
        options["y"] = {"chunks": (100,), "shards": (500,)}
    for array, shape in (("X", (2000, 6)), ("y", (2000,))):
        group.create_array(array, data=np.ones(shape), **options[array])
    key = {"X": "c/2/0", "y": "c/2"}[name]
    source = srf.open_source(tmp_path / "a.zarr", y="y")
    assert sum(len(block.X) for block in source.blocks()) == 2000
    os.truncate(tmp_path / "a.zarr" / name / key, 0)
    source = srf.open_source(tmp_path / "a.zarr", y="y")
    with pytest.raises(CorruptFileError, match=f"the chunk {name}/{key} ends early"):
        list(source.blocks())
    with pytest.raises(CorruptFileError, match=f"the chunk {name}/{key} ends early"):
        source.sample(2000)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["X", "y"])
@pytest.mark.parametrize("kind", ["link", "folder", "other"])
def test_what_lies_in_the_place_of_a_zarr_chunk_is_no_chunk(kind, name, version, tmp_path):
    """Links of git-annex, say, or a chunk as another version calls it."""
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    y = np.random.default_rng(0).integers(1, 3, 2000)
    group.create_array("X", data=np.ones((2000, 3)), chunks=(500, 3))
    group.create_array("y", data=y, chunks=(500,))
    key, other = {"X": ("2.0", "c/2/0"), "y": ("2", "c/2")}[name]
    if version == 3:
        key, other = other, key
    chunk, folder = tmp_path / "a.zarr" / name / key, tmp_path / "a.zarr" / name
    chunk.unlink()
    if kind == "other":
        (folder / other).parent.mkdir(parents=True, exist_ok=True)
        (folder / other).write_bytes(b"x")
        with pytest.warns(StreamrfWarning, match="1 of 4 chunks of rows are not there"):
            srf.open_source(tmp_path / "a.zarr", y="y")
        return
    if kind == "link":
        chunk.symlink_to("../../objects/gone")
    else:
        chunk.mkdir()
    found = r"is a link to '\.\./\.\./objects/gone'" if kind == "link" else "is a folder"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamrfWarning)
        source = srf.open_source(tmp_path / "a.zarr", y="y")
    with pytest.raises(CorruptFileError, match=f"the chunk {name}/{key} {found}"):
        list(source.blocks())
