#!/usr/bin/env python
"""The same rows in ten formats give the same digest; and how fast a large CSV file is read.

    scripts/formats.py same --rows 200000           # here, and on two workers
    scripts/formats.py csv --rows 5000000 --repeat 1

Each prints one JSON line for each case.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

import streamrf as srf
from streamrf import storage
from streamrf.display import peak_bytes
from streamrf.training import Job, Settings, begin

COLUMNS = 28  # of the large file


def table(n_rows: int) -> pa.Table:
    """Rows with numbers, strings, dates, booleans and holes."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, n_rows)
    income = np.round(rng.lognormal(3, 1, n_rows), 2)
    city = rng.choice(["Oslo", "Paris", "Rome", "Łódź"], n_rows)
    day = np.datetime64("2015-01-01") + rng.integers(0, 3650, n_rows)
    holes = rng.uniform(size=(2, n_rows)) < 0.1
    label = np.where(age + 30 * (city == "Rome") > 60, "yes", "no")
    return pa.table(
        {
            "age": pa.array(age, mask=holes[0]),
            "income": income,
            "city": pa.array(city, mask=holes[1]),
            "day": pa.array(day),
            "member": age % 2 == 0,
            "label": label,
        }
    )


def tables(folder: Path, rows: pa.Table) -> dict:
    """The rows in every format with named columns."""
    import dask.dataframe
    import polars

    (folder / "parts").mkdir()
    for number in range(3):
        third = -(-len(rows) // 3)
        part = rows.slice(number * third, third)
        pyarrow.parquet.write_table(part, folder / f"parts/{number}.parquet", row_group_size=20_000)
    pyarrow.parquet.write_table(rows, folder / "rows.parquet", row_group_size=33_333)
    pyarrow.feather.write_feather(rows, str(folder / "rows.arrow"), chunksize=10_000)
    pyarrow.csv.write_csv(rows, folder / "rows.csv")
    with pa.CompressedOutputStream(str(folder / "rows.csv.gz"), "gzip") as file:
        pyarrow.csv.write_csv(rows, file)
    frame = rows.to_pandas().astype({"day": "datetime64[us]"})
    return {
        **{name: folder / f"rows.{name}" for name in ("parquet", "arrow", "csv", "csv.gz")},
        "pandas": frame,
        "polars": polars.from_arrow(rows),
        "dask": dask.dataframe.from_pandas(frame, npartitions=7),
    }


def numbers(folder: Path, source: srf.TableSource) -> dict:
    """The encoded rows in every format of numbers."""
    import zarr

    blocks = [(block.X, block.y) for block in source.blocks()]
    X, labels = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    y = (labels == "yes").astype(np.int64)
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    group = zarr.open_group(folder / "rows.zarr", mode="w")
    group.create_array("X", data=X, chunks=(7000, X.shape[1]))
    group.create_array("y", data=y, chunks=(7000,))
    with h5py.File(folder / "rows.h5", "w") as file:
        file["X"], file["y"] = X, y
    with open(folder / "rows.svm", "w") as file:
        for label, row in zip(y.tolist(), X.tolist(), strict=True):
            entries = " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row) if v)
            file.write(f"{label} {entries}\n")
    width = str(X.shape[1])
    return {
        "npy": srf.open_source(folder / "X.npy", y="y"),
        "zarr": srf.open_source(folder / "rows.zarr", y="y"),
        "hdf5": srf.open_source(folder / "rows.h5", y="y"),
        "libsvm": srf.open_source(folder / "rows.svm", x=width, y="label"),
        "array": srf.ArraySource(X, y),
    }


def same(n_rows: int, n_workers: int) -> bool:
    """Print the digest of each format, here and on workers; return whether all are alike."""
    from distributed import Client, LocalCluster

    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = tables(folder, table(n_rows))
        sources = {key: srf.open_source(rows, y="label") for key, rows in data.items()}
        sources |= numbers(folder, sources["parquet"])
        sources["folder"] = srf.open_source(folder / "parts", y="label")
        with (
            LocalCluster(n_workers, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            for engine in (None, client):
                for key, source in sources.items():
                    began = time.perf_counter()
                    digest = digest_of(source, engine)
                    seconds = round(time.perf_counter() - began, 2)
                    where = "here" if engine is None else f"{n_workers} workers"
                    line = {"case": key, "where": where, "rows": n_rows, "digest": digest}
                    print(json.dumps(line | {"seconds": seconds}), flush=True)
                    found.append(digest)
    return len(set(found)) == 1


def digest_of(source: srf.TableSource, engine: object) -> str:
    """The digest of the Gram, the class sums by order of the labels, and the counts."""
    features = srf.RandomFourier(srf.Gaussian(0.05), 128, random_state=0)
    sums = srf.accumulate(source, features, normalize="standard", random_state=0, engine=engine)
    tree = sums.sums.to_tree()
    tree["targets"] = {**tree["targets"], "labels": len(sums.labels)}
    return storage.digest(tree)


def write_large(path: Path, n_rows: int) -> None:
    """Write a CSV file of floats, a piece at a time."""
    rng = np.random.default_rng(0)
    with open(path, "wb") as file:
        for start in range(0, n_rows, 100_000):
            X = np.round(rng.normal(size=(min(100_000, n_rows - start), COLUMNS)), 5)
            columns = {f"c{j}": X[:, j] for j in range(COLUMNS)}
            columns["label"] = (X[:, 0] * X[:, 1] > 0).astype(np.int64)
            options = pyarrow.csv.WriteOptions(include_header=start == 0)
            pyarrow.csv.write_csv(pa.table(columns), file, options)


def large(n_rows: int, repeat: int) -> bool:
    """Print rows per second and memory of a pass over a CSV file; return whether it kept its plan.

    pyarrow.csv alone reads the file in turn with it, streamed and dropped.
    """
    kept = True
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "rows.csv"
        write_large(path, n_rows)
        for _ in range(repeat):
            source = srf.open_source(path, y="label")
            features = srf.StructuredFourier(srf.Gaussian(0.05), 512, random_state=0)
            job = Job.of(source, Settings(features=features, random_state=0))
            began = time.perf_counter()
            pass_ = begin(job)
            plan = job.plan(pass_)
            job.fold(pass_)
            seconds = time.perf_counter() - began
            peak = peak_bytes()  # before pyarrow reads by itself
            began = time.perf_counter()
            with pyarrow.csv.open_csv(path) as reader:
                n_read = sum(len(batch) for batch in reader)
            alone = time.perf_counter() - began
            kept &= plan is not None and peak <= plan.total_bytes
            line = {
                "case": "csv",
                "rows": n_read,
                "megabytes": path.stat().st_size // 10**6,
                "rows_per_second": round(n_rows / seconds),
                "pyarrow_rows_per_second": round(n_rows / alone),
                "peak_mib": peak >> 20,
                "planned_mib": 0 if plan is None else plan.total_bytes >> 20,
            }
            print(json.dumps(line), flush=True)
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=("same", "csv"))
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=1)
    given = parser.parse_args()
    if given.case == "same":
        return 0 if same(given.rows, given.workers) else 1
    return 0 if large(given.rows, given.repeat) else 1


if __name__ == "__main__":
    sys.exit(main())
