#!/usr/bin/env python
"""Kills workers and schedulers of a Dask cluster, and compares what the runs end with.

`dask scheduler` and `dask worker` run as one starts them by hand. A file of rows is added up once
by this process alone: the truth. Then the workers add it up again and again, and in each run one
of them is killed (SIGKILL) at a random moment. Its nanny starts another, and the statistics file
must be the same to the last byte. This is repeated until `--kills` workers have died in the middle
of a task: each worker keeps the name of the task that it computes in a file, and the file that a
killed worker leaves behind is the witness.

Then the scheduler is killed in the middle of runs that spill their shards. The run must end by a
`ClusterError`; scheduler and workers are started again, and the same call must take the shards
finished as they are and end with the same bytes.

    scripts/torture.py --dask --kills 20
"""

import argparse
import contextlib
import json
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
from distributed import Client
from distributed.diagnostics.plugin import WorkerPlugin

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import streamrf as srf  # noqa: E402
from streamrf.errors import ClusterError, StreamrfError  # noqa: E402

N_FEATURES = 20
N_WORKERS = 2
POLL_SECONDS = 0.0005
LONGEST_DELAYS = {"shard": 0.1, "merge": 0.004}  # seconds from a task's beginning to the kill
PATIENCE = 120.0  # seconds for workers to come
MOST_RUNS = 5  # a kill wanted, before the script gives up


def main(arguments: list[str] | None = None) -> int:
    """Torture, print one JSON line, and give the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="of workers in the middle of a task")
    parser.add_argument("--scheduler-kills", type=int, default=3)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--components", type=int, default=1024)
    parser.add_argument("--parts", type=int, default=24)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    if options.seed is None:
        options.seed = random.randrange(2**32)
    logging.disable()  # of Dask: what is lost is told by the counts
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="torture-dask-") as folder:
        torture = Torture(Path(folder), options, counts)
        torture.kill_workers()
        torture.kill_schedulers()
    print(json.dumps({**vars(options), **counts}))
    return 1 if counts["differing"] or counts["failed"] else 0


class Torture:
    """Runs of one job on clusters that lose what they run on.

    Parameters
    ----------
    folder : for the rows, what is made of them, and logs
    options : of the command line
    counts : of what happened
    """

    def __init__(self, folder: Path, options: argparse.Namespace, counts: Counter[str]):
        self._folder = folder
        self._options = options
        self._counts = counts
        self._draw = random.Random(options.seed)
        self._watched = folder / "watched"
        self._watched.mkdir()
        write_rows(folder / "rows.h5", options.rows, options.parts)
        self._truth = self._saved(None)

    def kill_workers(self) -> None:
        """Kill a worker in each run until enough have died in the middle of a task."""
        wanted = self._options.kills
        count(self._counts, "kills_in_shard", "kills_in_merge", "kills_between", "too_late")
        with cluster(self._folder) as (client, _):
            client.register_plugin(Watch(str(self._watched)))
            for _ in range(MOST_RUNS * wanted):
                if self._counts["kills_in_shard"] + self._counts["kills_in_merge"] >= wanted:
                    return
                client.wait_for_workers(N_WORKERS, timeout=PATIENCE)
                self._one_worker(client)
                self._tell()
        if wanted:
            print(f"fewer than {wanted} kills in {MOST_RUNS * wanted} runs", file=sys.stderr)
            self._counts["failed"] += 1

    def kill_schedulers(self) -> None:
        """Kill the scheduler in a run that spills; start the cluster and the run again."""
        count(self._counts, "scheduler_kills", "resumed", "shards_kept", "shards_computed_again")
        for number in range(self._options.scheduler_kills):
            spill = self._folder / f"spill-{number}"
            if not self._until_lost(spill):
                continue
            finished = modified(spill)
            with cluster(self._folder) as (client, _):
                self._compare(client, spill=spill)
            kept = sum(modified(spill)[file] == moment for file, moment in finished.items())
            self._counts["resumed"] += 0 < kept < self._options.parts
            self._counts["shards_kept"] += kept
            self._counts["shards_computed_again"] += len(finished) - kept
            self._tell()

    def _one_worker(self, client):
        """Kill one worker during one run."""
        victim = self._draw.choice(sorted(client.run(os.getpid).values()))
        done = Done()
        after = self._draw.randrange(self._options.parts - N_WORKERS)
        kind, longest = self._draw.choice(list(LONGEST_DELAYS.items()))
        delay = self._draw.uniform(0, longest)
        killing = threading.Thread(target=self._kill, args=(victim, done, after, kind, delay))
        killing.start()
        self._compare(client, progress=done.add)
        done.over = True
        killing.join()

    def _kill(self, victim, done, after, kind, delay):
        """Kill a process a moment after it has begun a task, when enough shards are done."""
        mark = self._watched / str(victim)
        while done.n_shards < after or kind_of(mark) != kind:
            if done.over:
                self._counts["too_late"] += 1
                return
            time.sleep(POLL_SECONDS)
        time.sleep(delay)
        os.kill(victim, signal.SIGKILL)
        while alive(victim):
            time.sleep(POLL_SECONDS)
        found = kind_of(mark)
        self._counts["kills_between" if found is None else f"kills_in_{found}"] += 1

    def _until_lost(self, spill):
        """Run with a scheduler that is killed on the way; tell whether that ended the run."""
        after = self._draw.randrange(1, self._options.parts - N_WORKERS)
        with cluster(self._folder) as (client, scheduler):
            done = Done(after, scheduler.kill)
            try:
                self._saved(client, spill=spill, progress=done.add)
            except ClusterError as error:
                told = "With a spill folder the next run goes on" in str(error)
            else:
                told = False
        self._counts["scheduler_kills"] += 1
        if not told:
            print("a run without its scheduler did not end as it should", file=sys.stderr)
            self._counts["failed"] += 1
        return told

    def _compare(self, client, **options):
        """Run on the cluster, and count a result that is not the truth."""
        count(self._counts, "runs", "differing", "failed")
        self._counts["runs"] += 1
        try:
            self._counts["differing"] += self._saved(client, **options) != self._truth
        except StreamrfError as error:
            print(error, file=sys.stderr)
            self._counts["failed"] += 1

    def _saved(self, client, **options):
        """Return the bytes of the statistics file of a run."""
        features = srf.RandomMaclaurin(srf.Polynomial(degree=3), self._options.components)
        if client is not None:
            options = {"engine": client, "parts": self._options.parts, **options}
        source = srf.HDF5Source(self._folder / "rows.h5")
        statistics = srf.accumulate(source, features, folds=2, random_state=0, **options)
        path = self._folder / "statistics.h5"
        statistics.save(path)
        return path.read_bytes()

    def _tell(self):
        print(dict(self._counts), file=sys.stderr, flush=True)


class Done:
    """Shards done, counted as they end; may act once, when some are.

    Parameters
    ----------
    after : shards
    action : called when so many are done, or None
    """

    def __init__(self, after=None, action=None):
        self.n_shards = 0
        self.over = False
        self._after = after
        self._action = action

    def add(self, n_rows: int) -> None:
        """Count a shard."""
        self.n_shards += 1
        if self.n_shards == self._after:
            self._action()


class Watch(WorkerPlugin):
    """Keeps the key of the task that a worker computes in a file named by its process.

    Parameters
    ----------
    folder : where the files are
    """

    name = "watch"

    def __init__(self, folder: str):
        self._folder = folder

    def transition(self, key, start, finish, **rest) -> None:
        """Write the file when a task begins to be computed, and delete it when it has ended."""
        path = Path(self._folder, str(os.getpid()))
        if start == "executing":
            path.unlink(missing_ok=True)
        if finish == "executing":
            path.write_text(str(key))


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[Client, subprocess.Popen]]:
    """A client of a scheduler and workers with one thread each, and the scheduler's process."""
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    at = ["--host", "127.0.0.1", "--no-dashboard"]
    with contextlib.ExitStack() as stack:
        scheduler = stack.enter_context(dask(folder, "scheduler", "--port", port, *at))
        address = f"tcp://127.0.0.1:{port}"
        each = ["--nthreads", "1", "--nworkers", str(N_WORKERS), "--memory-limit", "0"]
        stack.enter_context(dask(folder, "worker", address, *each, *at))
        client = stack.enter_context(Client(address, timeout=PATIENCE))
        client.wait_for_workers(N_WORKERS, timeout=PATIENCE)
        yield client, scheduler


@contextlib.contextmanager
def dask(folder: Path, *arguments: str) -> Iterator[subprocess.Popen]:
    """A command of Dask that runs, with its log in the folder."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "scripts")])
    with open(folder / f"{arguments[0]}.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments],
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": paths},
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def alive(pid: int) -> bool:
    """Whether a process runs: a zombie that its parent has not taken leave of does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def kind_of(mark: Path) -> str | None:
    """Return what a worker computes by the file it keeps: "shard", "merge" or None."""
    try:
        return "merge" if "-merge" in mark.read_text() else "shard"
    except FileNotFoundError:
        return None


def modified(spill: Path) -> dict[Path, int]:
    """Return when each shard in a spill folder was written, in ns."""
    return {file: file.stat().st_mtime_ns for file in spill.glob("shard-*.h5")}


def count(counts: Counter[str], *names: str) -> None:
    """Have the names among the counts, even where nothing of theirs happens."""
    counts.update(dict.fromkeys(names, 0))


def write_rows(path: Path, n_rows: int, parts: int) -> None:
    """Rows of ten classes, in chunks small enough for all the parts."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, N_FEATURES))
    y = rng.integers(0, 10, size=n_rows)
    X = centres[y] + rng.normal(size=(n_rows, N_FEATURES))
    chunk = max(1, n_rows // (4 * parts))
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X.astype(np.float32), chunks=(chunk, N_FEATURES))
        file["y"] = y


if __name__ == "__main__":
    sys.exit(main())
