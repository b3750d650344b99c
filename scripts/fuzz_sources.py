"""Files of rows of every format, for `fuzz.py --sources`: written, and read to the end."""

import gzip
import json
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import pandas
import pyarrow
import pyarrow.ipc
import zarr
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import streamrf as srf
from streamrf.sources import Source, check_rows

N_ROWS, N_FEATURES = 300, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
Y = RNG.integers(0, 3, N_ROWS)


def write_originals(folder: Path) -> list[Path]:
    """Write the same rows in every format, and tables with words, holes and dates."""
    written: list[Path] = []

    def place(suffix: str) -> Path:
        path = folder / f"original{len(written):03}{suffix}"
        written.append(path)
        return path

    filters: list[dict] = [
        {},
        {"chunks": (64, N_FEATURES), "compression": "gzip", "shuffle": True},
        {"chunks": (64, N_FEATURES), "compression": "lzf", "fletcher32": True},
        {"chunks": (64, N_FEATURES), **hdf5plugin.Zstd()},
        {"chunks": (64, N_FEATURES), **hdf5plugin.Blosc()},
    ]
    for options in filters:
        with h5py.File(place(".h5"), "w") as file:
            file.create_dataset("X", data=X, **options)
            file["y"] = Y
    with h5py.File(place(".h5"), "w", libver="latest") as file:
        file.create_dataset("X", data=X, chunks=(10, N_FEATURES), maxshape=(None, N_FEATURES))
        file["y"] = np.array([f"class {label}" for label in Y], dtype=h5py.string_dtype())
    numbers = pandas.DataFrame(X, columns=[f"c{j}" for j in range(N_FEATURES)]).assign(y=Y)
    words = numbers.assign(
        word=np.where(X[:, 0] > 1, None, np.array(["left", "right"])[(X[:, 1] > 0).astype(int)]),
        day=pandas.date_range("2024-01-01", periods=N_ROWS, freq="h"),
        c1=np.where(X[:, 2] > 1, np.nan, X[:, 1]),
    )
    for table in (numbers, words):
        table.to_csv(place(".csv"), index=False)
        place(".csv.gz").write_bytes(gzip.compress(table.to_csv(index=False).encode(), mtime=0))
        table.to_csv(place(".tsv"), index=False, sep="\t")
        table.to_parquet(place(".parquet"), row_group_size=100)
        table.to_feather(place(".feather"))
    levels = words.assign(level=pandas.Categorical(np.array(["red", "green"])[Y % 2]))
    schema = pyarrow.Schema.from_pandas(levels, preserve_index=False)
    for compression in (None, "zstd", "lz4"):
        named = "uncompressed" if compression is None else compression
        levels.to_parquet(place(".parquet"), row_group_size=100, compression=compression)
        levels.to_feather(place(".feather"), compression=named)
        packed = pyarrow.ipc.IpcWriteOptions(compression=compression)
        with pyarrow.ipc.new_stream(place(".arrow"), schema, options=packed) as stream:
            stream.write_table(pyarrow.Table.from_pandas(levels, schema), max_chunksize=100)
    np.save(place(".npy"), X)
    np.savez(place(".npz"), X=X, y=Y)
    sparse.save_npz(place(".npz"), sparse.csr_matrix(X * (X > 0)))
    dump_svmlight_file(X, Y, str(place(".svm")))
    for version in (2, 3):
        group = zarr.open_group(place(".zarr"), mode="w", zarr_format=version)
        group.create_array("X", data=X, chunks=(64, N_FEATURES))
        group.create_array("y", data=Y)
    return written


def load(path: Path) -> tuple[Source, tuple]:
    """Open a file as `streamrf fit` does, and say what is asked of its rows."""
    targets = None if path.suffix == ".npy" or _is_sparse(path) else "y"
    return srf.open_source(str(path), y=targets), (_sample, _read)


def _is_sparse(path: Path) -> bool:
    return path.suffix == ".npz" and b"indptr" in path.read_bytes()


def _sample(source: Source) -> None:
    source.sample(100)
    json.dumps(source.settings)


def _read(source: Source) -> None:
    for block in source.blocks(block_rows=128):
        check_rows(block, "skip")
