#!/usr/bin/env python
"""Seconds and bytes of a pass on a cluster, from rows, width, workers, network and storage.

The model, for W workers of t threads, n rows of d numbers, E features (P = E (E + 1) / 2 products
of them) and s shards:

    compute   n (a + b d E + c E^2 + r) / (W t e) and half a shard: the last worker is awaited
    shards    s / W times (u + v P): sums are made and joined; two of them are merged, m P
    read      n d bytes / min(storage, W network); hidden behind the rest where it is less
    start     the map's arrays, j d E bytes, reach every worker from the first that has them
    tree      log2(W) times 8 P bytes / network + m P, and 8 P bytes to the client
    pass      start + max(compute + shards, read, scheduler) + tree, where
    scheduler s q seconds of the one thread that the scheduler has

`--fit` measures a, b, c, u, v, m, j and q here in a minute or two and writes them to
docs/scaling.json; times are processor times of one thread, which other programs disturb little. The
efficiency e of a worker's threads, network and storage are of the cluster that is planned: options.
`--validate` compares the seconds of passes on two workers, which no constant was fitted to, with
those that the model gives: noise in a file, the rows of flights (of `STREAMRF_DATA`), ten million
made rows of 28 columns and deformed digits. What it takes to decompress or make a row, r, is
measured by reading some, since each worker here has one core for that too. Without either
the table is printed, or written where a page has a place for it.

    python scripts/scaling_model.py --fit
    python scripts/scaling_model.py --validate
    python scripts/scaling_model.py --rows 1e9 --components 16384 --workers 10 64 1000
    python scripts/scaling_model.py --write docs/cluster.md
"""

import argparse
import json
import math
import pickle
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import psutil
from distributed import Client, LocalCluster
from scipy.optimize import nnls

import streamrf as srf
from streamrf import engine
from streamrf.engine import Reading, StateStore
from streamrf.engine.worker import FoldTask
from streamrf.jit.threads import computing
from streamrf.preprocessing.rounding import ROOT_LEVELS, FineRounding
from streamrf.sources import Source
from streamrf.training import Job, Pass, begin
from streamrf.training.benchmark import circumstances
from streamrf.training.memory import Sizes, worker_plan

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "rivals")]
import made_rows  # noqa: E402
from shared import data_folder  # noqa: E402

FITTED = ROOT / "docs" / "scaling.json"
SHAPES = [
    (16, 512),
    (64, 1024),
    (784, 1024),
    (784, 2048),
    (784, 4096),
    (128, 2048),
    (128, 4096),
]  # d, E
ROWS = 1024
REPEATS = 3
N_CLASSES = 10
EXACT = 2**53
MARKS = ("<!-- table of scripts/scaling_model.py -->", "<!-- end of the table -->")


@dataclass(frozen=True)
class Constants:
    """What is fitted; seconds are of one thread.

    Parameters
    ----------
    row, row_map, row_gram : seconds a row: by itself, per d E and per E^2
    shard, shard_product : seconds a shard: by itself and per product of two features
    merge_product : seconds to merge two sums, per product
    task : seconds of the scheduler's and the client's thread, a shard and its merge
    job_byte : bytes of the map, per d E
    """

    row: float
    row_map: float
    row_gram: float
    shard: float
    shard_product: float
    merge_product: float
    task: float
    job_byte: float


@dataclass(frozen=True)
class Plan:
    """A pass and the cluster for it.

    Parameters
    ----------
    n_rows, n_features, n_components : n, d and E
    n_workers, n_threads : workers and threads of each
    efficiency : share of their speed alone that the threads of a worker keep together
    network : bytes/s of each worker
    storage : bytes/s of all reading together
    number_bytes : of one of the d numbers in storage, compression included
    row : r, processor seconds of a row before it is numbers; 0 where other threads see to it
    parts : shards; None means what the engine chooses
    """

    n_rows: int
    n_features: int
    n_components: int
    n_workers: int
    n_threads: int = 1
    efficiency: float = 1.0
    network: float = math.inf
    storage: float = math.inf
    number_bytes: float = 1.0
    row: float = 0.0
    parts: int | None = None

    @property
    def n_shards(self) -> int:
        """Shards."""
        return self.parts or engine.default_parts(self.n_rows, self.n_workers, self.n_threads)

    @property
    def sums_bytes(self) -> int:
        """Bytes of the sums that travel."""
        return 8 * packed(self.n_components)


def packed(n_components: int) -> int:
    """Return the number of products of two features."""
    return n_components * (n_components + 1) // 2


def seconds(plan: Plan, c: Constants) -> dict[str, float]:
    """Return the seconds of a pass and of what it is made of."""
    d, E, W = plan.n_features, plan.n_components, plan.n_workers
    row = thread_seconds(plan, c) / (plan.n_threads * plan.efficiency)
    waited = plan.n_rows / plan.n_shards / 2 if W > 1 else 0.0
    each = plan.n_shards / W
    merges = max(each - 1, 0) * c.merge_product * packed(E)
    rounds = math.ceil(math.log2(W))
    parts = {
        "start": (W - 1) * c.job_byte * d * E / plan.network,
        "compute": (plan.n_rows / W + waited) * row,
        "shards": each * (c.shard + c.shard_product * packed(E)) + merges,
        "read": plan.n_rows * d * plan.number_bytes / min(plan.storage, W * plan.network),
        "scheduler": plan.n_shards * c.task,
        "tree": rounds * (plan.sums_bytes / plan.network + c.merge_product * packed(E))
        + plan.sums_bytes / plan.network,
    }
    busy = max(parts["compute"] + parts["shards"], parts["read"], parts["scheduler"])
    return {"pass": parts["start"] + busy + parts["tree"], **parts}


def thread_seconds(plan: Plan, c: Constants) -> float:
    """Return the seconds that a row takes one thread."""
    d, E = plan.n_features, plan.n_components
    return c.row + c.row_map * d * E + c.row_gram * E * E + plan.row


def fit() -> dict[str, Any]:
    """Measure here, and give constants, what they were fitted to and how well."""
    matrix, found, job_bytes = [], [], []
    for d, E in SHAPES:
        pass_ = begun(d, E)
        job_bytes.append(len(pickle.dumps(pass_)) / (d * E))
        matrix.append([1.0, d * E, E * E])
        found.append(row_seconds(pass_))
    weights = 1 / np.array(found)
    rows, _ = nnls(np.array(matrix) * weights[:, np.newaxis], np.ones(len(found)))
    sizes = [1024, 2048, 4096]
    making = [shard_seconds(E) for E in sizes]
    shard = np.polynomial.Polynomial.fit([packed(E) for E in sizes], making, 1).convert().coef
    merging = [merge_seconds(E) / packed(E) for E in sizes[1:]]
    constants = Constants(
        *(float(value) for value in rows),
        *(max(0.0, float(value)) for value in shard),
        merge_product=float(np.median(merging)),
        task=task_seconds(),
        job_byte=float(np.median(job_bytes)),
    )
    return {
        "constants": asdict(constants),
        "row_microseconds": [
            {
                "features": d,
                "components": E,
                "measured": round(1e6 * measured, 2),
                "fitted": round(1e6 * float(np.dot(terms, rows)), 2),
            }
            for (d, E), terms, measured in zip(SHAPES, matrix, found, strict=True)
        ],
        "circumstances": circumstances(),
    }


def job_of(
    rows: Source, E: int, stop: int | None = None, task: str = "classification", **options: Any
) -> Job:
    """Return the job of adding up rows, all or those before `stop`."""
    settings = srf.Settings(
        features=srf.RandomMaclaurin(srf.Polynomial(degree=7), E),
        normalize="l2",
        random_state=0,
        rows=None if stop is None else (0, stop),
        task=task,
    )
    return Job.of(rows, settings, srf.RunOptions(**options))


def begun(d: int, E: int) -> Pass:
    """Return a pass without rows."""
    return begin(job_of(source(d, 4096), E))


def source(d: int, n_rows: int) -> srf.ArraySource:
    """Return images of noise."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, size=(n_rows, d), dtype=np.uint8)
    return srf.ArraySource(X, rng.integers(0, N_CLASSES, n_rows))


def least(action: Callable[[], Any]) -> float:
    """Return the least processor seconds of an action."""
    found = []
    for _ in range(REPEATS):
        began = time.process_time()
        action()
        found.append(time.process_time() - began)
    return min(found)


def row_seconds(pass_: Pass) -> float:
    """Give the seconds of a row, by two lengths of a pass, so that what a pass costs drops out."""
    width = pass_.statistics.encoder.n_components
    long, short = (source(pass_.statistics.encoder.n_features, n) for n in (3 * ROWS, ROWS))
    more, less = (
        least(lambda rows=rows: job_of(rows, width, n_threads=1).fold(pass_.fresh()))
        for rows in (long, short)
    )
    return (more - less) / (2 * ROWS)


def shard_job(E: int) -> FoldTask:
    """Return the task of shards of hardly any rows."""
    return FoldTask(Reading(source(16, 32)), begun(16, E), Pass.update, StateStore())


def shard_seconds(E: int) -> float:
    """Return the seconds of a shard but for its rows."""
    job = shard_job(E)
    return least(lambda: job.summarise(0, 16, 1))


def merge_seconds(E: int) -> float:
    """Return the seconds of a merge."""
    job = shard_job(E)
    a, b = job.summarise(0, 16, 1), job.summarise(16, 32, 1)
    with computing(1):
        return least(lambda: a + b)


class Nothing(engine.ShardTask):
    """Counts, and does nothing else."""

    def summarise(self, start: int, stop: int, n_threads: int) -> int:
        """Count the rows."""
        return stop - start


def task_seconds() -> float:
    """Return the seconds of scheduler and client for a shard and its merge."""
    ranges = [(i, i + 1) for i in range(500)]
    with cluster(2) as client:
        engine.map_reduce(client, Nothing(), ranges[:20])
        return least(lambda: engine.map_reduce(client, Nothing(), ranges)) / len(ranges)


@contextmanager
def cluster(n_workers: int) -> Iterator[Client]:
    """A client of one-thread workers here."""
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, memory_limit=0, dashboard_address=":0"
        ) as local,
        Client(local) as client,
    ):
        yield client


@dataclass(frozen=True)
class Stream:
    """Rows that the model is compared on.

    Parameters
    ----------
    name : for people
    n_components : E
    parts, task : shards, and what is learnt
    repeats : passes; the fastest counts
    make : ``make(folder)`` gives the source
    """

    name: str
    n_components: int
    make: Callable[[Path], Source]
    parts: int | None = None
    repeats: int = 1
    task: str = "classification"


def noise(folder: Path) -> Source:
    """Return a file of noise."""
    rows, path = source(784, 20_000), folder / "noise.h5"
    with h5py.File(path, "w") as file:
        block = next(rows.blocks(block_rows=rows.n_rows))
        file.create_dataset("X", data=block.X, chunks=(500, 784))
        file["y"] = block.y
    return srf.HDF5Source(path)


def flights(folder: Path) -> Source:
    """Return the rows of the flights."""
    return srf.HDF5Source(data_folder() / "flights.h5")


def made(folder: Path) -> Source:
    """Return ten million rows of 28 columns."""
    path = folder / "made.h5"
    made_rows.main("turned", str(path))
    return srf.HDF5Source(path, x="train/X", y="train/y")


def digits(folder: Path) -> Source:
    """Return deformed images of digits."""
    images = srf.HDF5Source(data_folder() / "mnist.h5", x="train/X", y="train/y")
    block = next(images.blocks(block_rows=60_000))
    return srf.deformed_mnist(srf.ArraySource(block.X, block.y), 240_000)


STREAMS = [
    Stream("noise in a file", 3072, noise, parts=10, repeats=REPEATS),
    Stream("flights", 512, flights, task="regression"),
    Stream("made rows", 512, made),
    Stream("deformed digits", 4096, digits),
]


def validate(c: Constants, stream: Stream) -> dict[str, Any]:
    """Compare the model with a pass on two workers that is none of the measurements of the fit."""
    E = stream.n_components
    with tempfile.TemporaryDirectory() as folder, cluster(2) as client:
        rows = stream.make(Path(folder))
        assert rows.n_rows is not None
        d, own = rows.n_features, reading_seconds(rows)
        job = job_of(rows, E, task=stream.task, engine=client, parts=stream.parts)
        empty = begin(job)
        job_of(rows, E, 4096, stream.task, engine=client, parts=2).fold(empty.fresh())  # compiles
        found = []
        for _ in range(stream.repeats):
            before = sum(client.run(processor_seconds).values())
            began = time.perf_counter()
            job.fold(empty.fresh())
            wall = time.perf_counter() - began
            found.append((wall, sum(client.run(processor_seconds).values()) - before))
    plan = Plan(rows.n_rows, d, E, n_workers=2, row=own, parts=stream.parts)
    model = seconds(plan, c)
    wall, processor = (min(values) for values in zip(*found, strict=True))
    work = plan.n_rows * thread_seconds(plan, c) + 2 * model["shards"]
    return {
        "stream": stream.name,
        "rows": plan.n_rows,
        "features": d,
        "components": E,
        "workers": 2,
        "shards": plan.n_shards,
        "reading_microseconds": round(1e6 * own, 2),
        "pass_seconds": {"model": round(model["pass"], 2), "measured": round(wall, 2)},
        "processor_seconds": {"model": round(work, 2), "measured": round(processor, 2)},
        "circumstances": circumstances(),
    }


def reading_seconds(rows: Source) -> float:
    """Return the processor seconds of decompressing or making a row."""
    assert rows.n_rows is not None
    n_rows = min(rows.n_rows, 100_000 if rows.n_features < 100 else 4096)
    with computing(1):
        return least(lambda: [None for _ in rows.blocks(0, n_rows)]) / n_rows


def processor_seconds() -> float:
    """Return the processor time of this process so far."""
    times = psutil.Process().cpu_times()
    return times.user + times.system


def table(options: argparse.Namespace, c: Constants) -> str:
    """Return the figures of each number of workers as a Markdown table."""
    plans = [
        Plan(
            int(options.rows),
            options.features,
            options.components,
            n_workers,
            options.threads,
            options.efficiency,
            1e9 * options.network,
            1e9 * options.storage,
        )
        for n_workers in options.workers
    ]
    worker = worker_plan(Sizes(options.components, options.features, N_CLASSES), {"any": 1 << 50})
    figures = [(plan, seconds(plan, c)) for plan in plans]
    rows: list[tuple[str, list[str]]] = [
        ("workers", [f"{plan.n_workers:,}" for plan in plans]),
        ("shards", [f"{plan.n_shards:,}" for plan in plans]),
        *(
            (name, [shown(found[key]) for _, found in figures])
            for name, key in {
                "**the pass**": "pass",
                "sending the map": "start",
                "computing": "compute",
                "making and merging sums": "shards",
                "reading": "read",
                "the scheduler's thread": "scheduler",
                "the tree of merges": "tree",
            }.items()
        ),
        (
            "read by a worker",
            [gb(plan.n_rows * plan.n_features / plan.n_workers) for plan in plans],
        ),
        ("sums sent, all workers", [gb(plan.n_workers * plan.sums_bytes) for plan in plans]),
        ("spilled, if it is", [gb(plan.n_shards * plan.sums_bytes) for plan in plans]),
        ("memory of a worker", [gb(worker.total_bytes)] * len(plans)),
    ]
    lines = ["| " + " | ".join([name, *cells]) + " |" for name, cells in rows]
    lines.insert(1, "|---" + "|---:" * len(plans) + "|")
    told = (
        f"{int(options.rows):,} rows of {options.features} bytes, {options.components:,} features; "
        f"workers of {options.threads} threads that keep {options.efficiency:.0%} of their speed, "
        f"{options.network:g} GB/s of network each; {options.storage:g} GB/s of storage in all."
    )
    bounds = (
        "Rows after which a total may reach 2^53, if they are like the calibration rows: "
        f"{EXACT // FineRounding.levels**2:,} with classes, "
        f"{EXACT // ROOT_LEVELS**2:,} with weights."
    )
    return "\n".join([told, "", *lines, "", bounds])


def shown(value: float) -> str:
    """Return seconds in words.

    Examples
    --------
    >>> shown(0.31), shown(200.0), shown(9000.0)
    ('0.31 s', '200 s', '2.5 h')
    """
    return f"{value / 3600:.1f} h" if value >= 3600 else f"{value:.{0 if value >= 10 else 2}f} s"


def gb(n_bytes: float) -> str:
    """Return bytes in words.

    Examples
    --------
    >>> gb(1.2e9), gb(7.84e11)
    ('1.2 GB', '784.0 GB')
    """
    return f"{n_bytes / 1e9:,.1f} GB"


def written(page: str, text: str) -> str:
    """Return a page with the text between its marks."""
    first, last = MARKS
    pattern = re.compile(f"{re.escape(first)}.*{re.escape(last)}", flags=re.S)
    return pattern.sub(lambda _: f"{first}\n\n{text}\n\n{last}", page)


def parser() -> argparse.ArgumentParser:
    """Return the command line; its defaults are those of the table in docs/cluster.md."""
    words = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    words.add_argument("--fit", action="store_true", help="measure, and write docs/scaling.json")
    words.add_argument("--validate", action="store_true", help="compare with a pass on two workers")
    words.add_argument("--write", metavar="PAGE", help="put the table in its place there")
    words.add_argument("--rows", type=float, default=1e9)
    words.add_argument("--features", type=int, default=784)
    words.add_argument("--components", type=int, default=16_384)
    words.add_argument("--workers", type=int, nargs="+", default=[10, 64, 1000])
    words.add_argument("--threads", type=int, default=16, help="of a worker")
    words.add_argument("--efficiency", type=float, default=0.9, help="of a worker's threads")
    words.add_argument("--network", type=float, default=1.25, help="GB/s of each worker")
    words.add_argument("--storage", type=float, default=5.0, help="GB/s, shared by all")
    return words


def main() -> None:
    """Fit, validate, or give the table."""
    options = parser().parse_args()
    if options.fit:
        FITTED.write_text(json.dumps(fit(), indent=2) + "\n")
    fitted = json.loads(FITTED.read_text())
    constants = Constants(**fitted["constants"])
    if options.validate:
        fitted["validation"] = []
        for stream in STREAMS:
            fitted["validation"].append(validate(constants, stream))
            print(json.dumps(fitted["validation"][-1]), flush=True)
        FITTED.write_text(json.dumps(fitted, indent=2) + "\n")
    elif options.fit:
        print(json.dumps(fitted, indent=2))
    elif options.write:
        page = Path(options.write)
        page.write_text(written(page.read_text(), table(options, constants)))
    else:
        print(table(options, constants))


if __name__ == "__main__":
    main()
