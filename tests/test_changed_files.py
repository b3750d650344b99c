"""A file that is written to while its rows are read is told, and no sums of it are kept."""

import os
import shutil

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet
from sklearn.datasets import dump_svmlight_file

import cases
import streamrf as srf
from integers import assert_same_bytes
from streamrf.engine import base
from streamrf.errors import ChangedFileError, CheckpointError, CorruptFileError, StreamrfError

N = 9000
PLAIN = srf.Identity()


def rows(seed):
    X = np.random.default_rng(seed).normal(size=(N, 3)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(np.int64)


def write_hdf5(folder, seed, **options):
    X, y = rows(seed)
    with h5py.File(folder / "rows.h5", "w") as file:
        file["y"] = y
        file.create_dataset("X", data=X, **options)
    return folder / "rows.h5"


def write_chunks(folder, seed):
    return write_hdf5(folder, seed, chunks=(500, 3))


def write_npy(folder, seed):
    for name, values in zip(("rows.npy", "y.npy"), rows(seed), strict=True):
        np.save(folder / name, values)
    return folder / "rows.npy"


def table(seed):
    """Numbers of four digits, so that files of them have one size."""
    values = np.random.default_rng(seed).integers(1000, 9999, (2, N))
    return pa.table({"a": values[0], "b": values[1], "y": values[0] // 5 % 2})


def write_csv(folder, seed):
    csv.write_csv(table(seed), folder / "rows.csv")
    return folder / "rows.csv"


def write_parquet(folder, seed):
    parquet.write_table(table(seed), folder / "rows.parquet", row_group_size=500)
    return folder / "rows.parquet"


def write_libsvm(folder, seed):
    dump_svmlight_file(*rows(seed), str(folder / "rows.svm"), zero_based=False)
    return folder / "rows.svm"


WRITERS = [write_hdf5, write_chunks, write_npy, write_csv, write_parquet, write_libsvm]


def opened(path):
    return srf.open_source(path, y="y.npy" if path.suffix == ".npy" else "y")


def once(change):
    """A progress that changes something after the first block."""
    calls = []

    def progress(_):
        calls.append(1)
        if len(calls) == 1:
            change()

    return progress


def touched(path):
    """Give a file the time of writing that another program would."""
    state = os.stat(path)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 10_000_000))


def refuses(path):
    return pytest.raises(
        ChangedFileError, match=f"^{path} was written to while it was read, [^\n]*$"
    )


@pytest.fixture
def path(tmp_path):
    return write_chunks(tmp_path, 0)


@pytest.mark.parametrize("write", WRITERS)
def test_a_file_written_to_while_it_is_read(write, tmp_path):
    path = write(tmp_path, 0)
    with refuses(path):
        srf.accumulate(opened(path), PLAIN, progress=once(lambda: touched(path)))


@pytest.mark.parametrize("write", [write_hdf5, write_chunks, write_csv, write_npy])
def test_other_rows_of_the_same_size(write, tmp_path):
    path = write(tmp_path, 0)
    other = tmp_path / "other"
    other.mkdir()
    new = write(other, 1).read_bytes()
    assert len(new) == path.stat().st_size

    def change():
        with open(path, "r+b") as file:  # in place: shorter files that are mapped end the process
            file.write(new)

    with refuses(path):
        srf.accumulate(opened(path), PLAIN, progress=once(change))


@pytest.mark.parametrize("options", [{}, {"chunks": (500, 3)}])
def test_a_file_cut_while_it_is_read(options, tmp_path):
    path = write_hdf5(tmp_path, 0, **options)
    cut = once(lambda: os.truncate(path, os.path.getsize(path) // 2))
    with refuses(path):
        srf.accumulate(srf.HDF5Source(path), PLAIN, progress=cut)


def test_a_file_that_grows_while_it_is_read(tmp_path):
    path = write_csv(tmp_path, 0)

    def grow():
        with open(path, "a") as file:
            file.write("1000,1000,0\n")

    with refuses(path):
        srf.accumulate(opened(path), PLAIN, progress=once(grow))
    assert srf.accumulate(opened(path), PLAIN).n_rows == N + 1


def test_a_file_that_can_no_longer_be_read(tmp_path):
    path = write_parquet(tmp_path, 0)
    whole = path.read_bytes()

    def spoil():
        with open(path, "r+b") as file:
            file.write(bytes(len(whole) // 2))

    with refuses(path):
        srf.accumulate(opened(path), PLAIN, progress=once(spoil))
    path.write_bytes(bytes(len(whole) // 2) + whole[len(whole) // 2 :])
    with pytest.raises(CorruptFileError, match="damaged"):  # before the pass, which is another case
        srf.accumulate(opened(path), PLAIN)


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_chunks_that_are_written_otherwise_after_the_file_was_opened(tmp_path, ending):
    path, rows_ = tmp_path / f"rows.{ending}", table(0)

    def write(n_rows, times=1):
        many = pa.concat_tables([rows_] * times)
        if ending == "parquet":
            parquet.write_table(many, path, row_group_size=n_rows)
        else:
            feather.write_feather(many, path, compression="uncompressed", chunksize=n_rows)

    write(500)
    source = opened(path)
    expected = srf.accumulate(source, PLAIN).gram
    write(500)
    assert_same_bytes(srf.accumulate(source, PLAIN).gram, expected)
    for n_rows, times in ((1000, 3), (1000, 2), (250, 1)):  # two of them in as many chunks
        write(n_rows, times)
        with pytest.raises(ChangedFileError, match="was written to after it was opened"):
            srf.accumulate(source, PLAIN)
    write(1000, 3)
    assert srf.accumulate(opened(path), PLAIN).n_rows == 3 * N


def test_a_file_of_labels_counts(tmp_path):
    path = write_npy(tmp_path, 0)
    labels = tmp_path / "y.npy"
    with refuses(labels):
        srf.accumulate(opened(path), PLAIN, progress=once(lambda: touched(labels)))


def test_a_file_written_before_the_pass_or_taken_away_is_no_matter(path):
    source = srf.HDF5Source(path)
    expected = srf.accumulate(source, PLAIN).gram
    touched(path)
    assert_same_bytes(srf.accumulate(source, PLAIN).gram, expected)
    gone = once(lambda: os.remove(path))
    assert_same_bytes(srf.accumulate(source, PLAIN, progress=gone).gram, expected)


def test_a_folder_of_zarr_has_no_time(tmp_path):
    group = pytest.importorskip("zarr").open_group(tmp_path / "rows.zarr", mode="w")
    for name, values in zip("Xy", rows(0), strict=True):
        group.create_array(name, data=values, chunks=(500, *values.shape[1:]))
    beside = once((tmp_path / "rows.zarr" / "notes").mkdir)
    source = srf.open_source(tmp_path / "rows.zarr", y="y")
    assert srf.accumulate(source, PLAIN, progress=beside).n_rows == N


@pytest.mark.parametrize("what", ["X/c/7", "y", "."])
def test_a_folder_of_zarr_that_loses_files(what, tmp_path):
    group = pytest.importorskip("zarr").open_group(tmp_path / "rows.zarr", mode="w")
    for name, values in zip("Xy", rows(0), strict=True):
        group.create_array(name, data=values, chunks=(500, *values.shape[1:]))
    lose = once(lambda: shutil.rmtree(tmp_path / "rows.zarr" / what))
    with pytest.raises(ChangedFileError, match=r"rows.zarr has lost [0-9]+ of its [0-9]+ files"):
        srf.accumulate(srf.open_source(tmp_path / "rows.zarr", y="y"), PLAIN, progress=lose)


def test_a_store_of_zarr_that_is_gone_before_the_pass(tmp_path):
    group = pytest.importorskip("zarr").open_group(tmp_path / "rows.zarr", mode="w")
    for name, values in zip("Xy", rows(0), strict=True):
        group.create_array(name, data=values, chunks=(500, *values.shape[1:]))
    source = srf.open_source(tmp_path / "rows.zarr", y="y")
    shutil.rmtree(tmp_path / "rows.zarr")
    with pytest.raises(ChangedFileError, match="was taken away after it was opened"):
        srf.accumulate(source, PLAIN)


@pytest.mark.parametrize("when", ["before", "during", "at the moment"])
def test_a_part_of_a_virtual_dataset_that_is_taken_away(when, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "MAX_ROWS", 4096)
    X, y = rows(0)
    layouts = h5py.VirtualLayout(X.shape, X.dtype), h5py.VirtualLayout(y.shape, y.dtype)
    third = N // 3
    for i in range(3):
        here = slice(i * third, (i + 1) * third)
        with h5py.File(tmp_path / f"part{i}.h5", "w") as file:
            file["X"], file["y"] = X[here], y[here]
            for layout, name in zip(layouts, "Xy", strict=True):
                layout[here] = h5py.VirtualSource(file[name])
    with h5py.File(tmp_path / "all.h5", "w") as file:
        for layout, name in zip(layouts, "Xy", strict=True):
            file.create_virtual_dataset(name, layout)
    source = srf.HDF5Source(tmp_path / "all.h5")
    model = srf.accumulate(source, PLAIN).solve(0.1)
    last = tmp_path / "part2.h5"
    if when == "before":
        last.unlink()
    remove = once(lambda: last.unlink(missing_ok=True))

    def broken(self, *given):  # as libhdf5 finds a file that goes while it opens it
        last.unlink()
        raise CorruptFileError("cannot be read")

    if when == "at the moment":
        monkeypatch.setattr(srf.HDF5Source, "_arrays", broken)
    with pytest.raises(ChangedFileError, match=r"part2.h5, which was taken away"):
        model.predict(source, progress=remove)


def test_questions_to_a_model_are_told(path):
    source = srf.HDF5Source(path)
    model = srf.accumulate(source, PLAIN).solve(0.1)
    for ask in (model.predict, model.evaluate, model.score):
        with refuses(path):
            ask(source, progress=once(lambda: touched(path)))


def test_a_call_of_partial_fit_adds_nothing(path):
    class Meddled(srf.HDF5Source):
        def _read(self, ranges, block_rows):
            for block in super()._read(ranges, block_rows):
                yield block
                touched(path)

    fitted = srf.RandomFeatureClassifier(PLAIN, alpha=1.0)
    fitted.partial_fit(*rows(5), classes=[0, 1])
    before = fitted.coef_.copy()
    with refuses(path):
        fitted.partial_fit(Meddled(path))
    assert_same_bytes(fitted.coef_, before)


def test_the_checkpoint_is_not_written(path, tmp_path):
    file = tmp_path / "pass.checkpoint"
    with refuses(path):
        touch = once(lambda: touched(path))
        srf.accumulate(srf.HDF5Source(path), PLAIN, progress=touch, checkpoint=file)
    assert not file.exists()


def test_a_checkpoint_written_before_goes_on_if_its_rows_are_the_same(path, tmp_path):
    options = {"checkpoint": tmp_path / "pass.checkpoint", "checkpoint_every": 0}
    expected = srf.accumulate(srf.HDF5Source(path), PLAIN).gram
    with refuses(path):
        touch = once(lambda: touched(path))
        srf.accumulate(srf.HDF5Source(path), PLAIN, progress=touch, **options)
    assert_same_bytes(srf.accumulate(srf.HDF5Source(path), PLAIN, **options).gram, expected)
    write_chunks(tmp_path, 1)
    with pytest.raises(CheckpointError):
        srf.accumulate(srf.HDF5Source(path), PLAIN, **options)


def test_on_workers(path, two_workers):
    touch = once(lambda: touched(path))
    with refuses(path):
        srf.accumulate(srf.HDF5Source(path), PLAIN, engine=two_workers, parts=4, progress=touch)


def test_libsvm_text_that_ends_before_the_rows_asked_for(tmp_path):
    path = tmp_path / "rows.svm"
    dump_svmlight_file(np.ones((4000, 2)), np.arange(4000), str(path))
    source = srf.open_source(path, y="y")
    dump_svmlight_file(np.ones((200, 2)), np.arange(200), str(path))
    with pytest.raises(CorruptFileError, match="the file has changed"):
        list(source.blocks(3000, 3010))


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_text_that_ends_before_the_rows_asked_for(ending, tmp_path):
    path = tmp_path / f"rows.{ending}"
    table = pa.table(cases.columns_of(np.arange(4000.0), np.arange(4000)))
    source = cases.opened(cases.write_csv(path, table), y="y")
    cases.write_csv(path, table[:200])
    with pytest.raises(StreamrfError, match="the file has changed"):
        list(source.blocks(3000, 3010))
