#!/usr/bin/env python
"""The sums of Dask clusters beside those of this process: the same bytes, within the memory said.

MNIST (60,000 rows, 2,048 features) and all of flights (2,072,444 rows, regression, 512 features)
are added up here, and by clusters of 1, 2 and 4 worker processes with 1 and 2 threads, cut into
three numbers of shards. One JSON line a run gives the digest of its statistics file, and of a
cluster what its workers had in use at most beside what was said before the run. The case `traffic`
gives the bytes that the graph takes, and those that scheduler and client receive, for growing
numbers of rows and of shards. The last line sums up; the exit status is 1 if any claim is broken.
Needs STREAMRF_DATA, the folder of `mnist.h5` and `flights.h5`.

    python scripts/check_dask.py                                    # ten minutes on two cores
    python scripts/check_dask.py mnist --workers 2 --threads 1      # some of it
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from distributed import Client
from distributed.protocol import dumps
from shared import data_folder
from tornado.iostream import IOStream

import streamrf as srf
from streamrf import engine
from streamrf.engine import ClusterAddress, Outlook, connected
from streamrf.training.benchmark import circumstances

MOST_GRAPH_BYTES = 1024  # of a shard


class Case(NamedTuple):
    """A pass: file, names of rows and targets, map, and settings of `begin`."""

    file: str
    x: str
    y: str
    features: Any
    settings: dict[str, Any]


CASES = {
    "mnist": Case(
        "mnist.h5",
        "train/X",
        "train/y",
        srf.RandomMaclaurin(srf.Polynomial(degree=7), 2048, h01=True),
        {"normalize": "l2"},
    ),
    "flights": Case(
        "flights.h5",
        "X",
        "y",
        srf.RandomFourier(srf.Gaussian(gamma="median"), 512),
        {"normalize": "standard", "regression": True},
    ),
}


def main() -> int:
    """Run the cases that were asked for; give the exit status."""
    names = [*CASES, "traffic"]
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(names)}")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--parts", type=int, nargs="+", default=[3, 8, 29])
    options = parser.parse_args()
    unknown = set(options.cases) - set(names)
    if unknown:
        parser.error(f"no case {min(unknown)!r}; cases are {', '.join(names)}")
    data_folder()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    broken: list[str] = []
    for name in options.cases or names:
        broken += traffic() if name == "traffic" else same_bytes(name, CASES[name], options)
    say({"broken": broken, **circumstances()})
    return 1 if broken else 0


def same_bytes(name: str, case: Case, options: argparse.Namespace) -> list[str]:
    """Run a case here and on clusters; give the claims that are broken."""
    broken = []
    truth = None
    for n_threads in options.threads:
        began = time.perf_counter()
        found = digest(added_up(case, n_threads=n_threads))
        truth = truth or found
        seconds = time.perf_counter() - began
        here = {"case": name, "workers": 0, "threads": n_threads}
        say({**here, "digest": found, "same": found == truth, "seconds": round(seconds, 2)})
        if found != truth:
            broken.append(f"{here}: {found} is not {truth}")
    for n_workers, n_threads in itertools.product(options.workers, options.threads):
        with cluster(n_workers, n_threads) as client:
            for parts in options.parts:
                row = on_cluster(case, client, parts)
                there = {"case": name, "workers": n_workers, "threads": n_threads, "parts": parts}
                say({**there, **row, "same": row["digest"] == truth})
                if row["digest"] != truth:
                    broken.append(f"{there}: {row['digest']} is not {truth}")
                if max(row["worker_mib_peak"]) > row["worker_mib_planned"]:
                    broken.append(f"{there}: {row['worker_mib_peak']} MiB above the plan")
    return broken


def on_cluster(case: Case, client: Client, parts: int) -> dict[str, Any]:
    """Run a case on a cluster; give its digest, and memory planned and used at most in MiB."""
    told: list[Outlook] = []
    began = time.perf_counter()
    statistics = added_up(case, engine=client, parts=parts, outlook=told.append)
    seconds = time.perf_counter() - began
    peaks = [worker.peak_bytes for worker in engine.workers(client).values()]
    return {
        "shards": len(told[0].shards),
        "digest": digest(statistics),
        "seconds": round(seconds, 2),
        "worker_mib_planned": told[0].worker_bytes >> 20,
        "worker_mib_peak": [-(-peak >> 20) for peak in peaks],
    }


def traffic() -> list[str]:
    """Say what graph and scheduler take as rows and shards grow; give the claims broken."""
    broken = []
    received = Received()
    with tempfile.TemporaryDirectory() as folder, cluster(2, 1) as client:
        for n_rows, parts in itertools.product([65_536, 262_144, 1_048_576], [16, 64, 256]):
            path = Path(folder, f"{n_rows}.h5")
            if not path.exists():
                write_rows(path, n_rows)
            before = received.n_bytes
            with messages_measured() as messages:
                features = srf.RandomMaclaurin(srf.Polynomial(degree=2), 64)
                srf.accumulate(
                    srf.HDF5Source(path), features, random_state=0, engine=client, parts=parts
                )
            n_bytes = received.n_bytes - before
            (job, *tasks) = messages
            graph = sum(message.graph_bytes for message in tasks) / parts
            row = {
                "case": "traffic",
                "rows": n_rows,
                "shards": parts,
                "job_bytes": job.graph_bytes,
                "graph_bytes_a_shard": round(graph),
                "sent_bytes_a_shard": round(sum(message.n_bytes for message in tasks) / parts),
                "received_bytes_a_shard": round(n_bytes / parts),
            }
            say(row)
            if graph >= MOST_GRAPH_BYTES:
                broken.append(f"{graph:.0f} bytes a shard in the graph")
    return broken


def write_rows(path: Path, n_rows: int) -> None:
    """Narrow rows in chunks small enough for all the shards."""
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        X = rng.integers(0, 256, size=(n_rows, 4), dtype=np.uint8)
        file.create_dataset("X", data=X, chunks=(256, 4))
        file["y"] = X[:, 0] % 2


def added_up(case: Case, *, rows=None, **options) -> srf.Statistics:
    """Return the statistics of a case."""
    source = srf.HDF5Source(data_folder() / case.file, x=case.x, y=case.y)
    settings = case.settings | {"rows": rows, "random_state": 0}
    return srf.accumulate(source, case.features, **settings, **options)


def digest(statistics: srf.Statistics) -> str:
    """Return the beginning of the SHA-256 of the statistics file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "statistics.h5")
        statistics.save(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


@contextlib.contextmanager
def cluster(n_workers: int, n_threads: int) -> Iterator[Client]:
    """A client of worker processes here, as `--workers` starts them."""
    with connected(ClusterAddress(workers=n_workers), n_workers * n_threads) as client:
        client.wait_for_workers(n_workers)
        yield client


class Message(NamedTuple):
    """What the scheduler is sent for one task: of the graph, and with all that goes with it."""

    graph_bytes: int
    n_bytes: int


@contextlib.contextmanager
def messages_measured() -> Iterator[list[Message]]:
    """The messages that add to the scheduler's graph, in a list that grows."""
    sizes: list[Message] = []
    send = Client._send_to_scheduler

    def measured(self, message):
        if message["op"] == "update-graph":
            graph = sum(map(len, message["expr_ser"].frames))
            sizes.append(Message(graph, sum(map(len, dumps(message)))))
        return send(self, message)

    Client._send_to_scheduler = measured
    try:
        yield sizes
    finally:
        Client._send_to_scheduler = send


class Received:
    """Counts the bytes that this process, scheduler and client at once, receives."""

    def __init__(self) -> None:
        self.n_bytes = 0
        read = IOStream.read_from_fd

        def counted(stream, buffer):
            n_bytes = read(stream, buffer)
            self.n_bytes += n_bytes or 0
            return n_bytes

        IOStream.read_from_fd = counted


def say(row: dict[str, Any]) -> None:
    """Print a JSON line."""
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    sys.exit(main())
