#!/usr/bin/env python
"""Speed of a pass on worker processes beside that of this process.

MNIST, 60,000 rows, `--components` features. Each round runs the pass here with one thread and with
two, on one worker process with one thread and with two, and on two workers with one thread each, in
turn; one JSON line a run, told where a cluster's time goes: seconds in shards and in merges, waits
for sums of other workers, and what is left, which is sending and waiting for the scheduler. The
last line has the medians, how many times as fast two workers are as one, and what the engine costs
beside the same threads here. Each run has a cluster of its own, started as `--workers` does: the
workers of others, idle, would take a tenth of two busy cores. A pass over fewer rows goes before
each, to load its kernels and, on a virtual machine, to have its memory backed by the host. Use a
machine that is quiet and has two cores or more. Needs STREAMRF_DATA, the folder of `mnist.h5`.

    python scripts/bench_dask.py --rounds 5
"""

import argparse
import json
import statistics
import time
from collections import defaultdict
from typing import Any, NamedTuple

from distributed import Client, get_task_stream
from shared import data_folder

import streamrf as srf
from streamrf.engine import ClusterAddress, connected
from streamrf.training import Job, begin
from streamrf.training.benchmark import circumstances

WARM_ROWS = 16_384


class Place(NamedTuple):
    """Where a pass runs; no workers means this process."""

    n_workers: int
    n_threads: int

    @property
    def name(self) -> str:
        """Return a short name."""
        here = "here" if not self.n_workers else f"{self.n_workers} worker"
        return f"{here} x {self.n_threads}"


PLACES = [Place(0, 1), Place(1, 1), Place(2, 1), Place(0, 2), Place(1, 2)]


def main() -> None:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--components", type=int, default=4096)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--parts", type=int, default=None)
    options = parser.parse_args()
    data_folder()
    seconds: dict[Place, list[float]] = defaultdict(list)
    for number in range(options.rounds):
        for place in PLACES:
            where = ClusterAddress(workers=place.n_workers or None)
            with connected(where, place.n_workers * place.n_threads) as client:
                one_pass(place, client, WARM_ROWS, options.components, 2 * max(place.n_workers, 1))
                row = one_pass(place, client, options.rows, options.components, options.parts)
            seconds[place].append(row["seconds"])
            print(json.dumps({"round": number, "place": place.name, **row}), flush=True)
    print(json.dumps({**summary(seconds), **vars(options), **circumstances()}))


def one_pass(
    place: Place, client: Client | None, n_rows: int, n_components: int, parts: int | None
) -> dict[str, Any]:
    """Run the pass; give its seconds and where they went."""
    source = srf.HDF5Source(data_folder() / "mnist.h5", x="train/X", y="train/y")
    features = srf.RandomMaclaurin(srf.Polynomial(degree=7), n_components, h01=True)
    rows = (0, n_rows)
    settings = srf.Settings(features=features, normalize="l2", rows=rows, random_state=0)
    n_threads = place.n_threads if client is None else None
    run = srf.RunOptions(n_threads=n_threads, engine=client, parts=parts)
    job = Job.of(source, settings, run)
    pass_ = begin(job)
    if client is None:
        began = time.perf_counter()
        job.fold(pass_)
        return {"seconds": time.perf_counter() - began}
    with get_task_stream(client) as tasks:
        began = time.perf_counter()
        job.fold(pass_)
        seconds = time.perf_counter() - began
    spent: dict[str, float] = defaultdict(float)
    for task in tasks.data:
        name = task["key"][0] if isinstance(task["key"], tuple) else task["key"]
        kind = name.split("-")[1]  # shard, merge or job
        for part in task["startstops"]:
            name = kind if part["action"] == "compute" else part["action"]
            spent[name] += (part["stop"] - part["start"]) / place.n_workers
    spent["rest"] = seconds - sum(spent.values())
    return {"seconds": seconds, "of_these": {name: round(s, 3) for name, s in spent.items()}}


def summary(seconds: dict[Place, list[float]]) -> dict[str, Any]:
    """Return medians and their ratios."""
    median = {place: statistics.median(values) for place, values in seconds.items()}
    return {
        "median_seconds": {place.name: round(value, 2) for place, value in median.items()},
        "two_workers_speed": round(median[Place(1, 1)] / median[Place(2, 1)], 3),
        "engine_overhead": {
            f"{n} threads": round(median[Place(1, n)] / median[Place(0, n)] - 1, 4) for n in (1, 2)
        },
    }


if __name__ == "__main__":
    main()
