#!/usr/bin/env python
"""Kills `streamrf fit --checkpoint` again and again, and compares what it ends with.

A file of rows is trained on once without a checkpoint: the truth. Then the same command with a
checkpoint after every block is killed (SIGKILL) at a random moment, started again, killed again a
few times and at last let through, each time with other threads and another block size. Its
statistics file must be the same to the last byte. This is repeated until `--kills` kills are done.

A third of the kills fall in the start-up, which ends when the first checkpoint begins to be
written, a third between two writings, and a third inside a writing. What counts is where the
process died: a kill inside a writing leaves a temporary file behind. The next kill is aimed at the
place that has had the fewest.

    scripts/torture.py --kills 50

With `--record FILE` the counts are kept after every job, and the same command goes on from them, so
that the full length may take many sittings: `--kills 1000 --record kills.json`.

With `--forked` every run is a fork of this process, which has imported the library by then: more
kills an hour, and those in the start-up fall after the imports.

With `--dask` workers and schedulers of a cluster are killed instead, see `torture_dask.py`.
"""

import argparse
import glob
import importlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from streamrf.errors import MemoryBudgetError  # noqa: E402
from streamrf.training import memory  # noqa: E402
from streamrf.training.holdout import MAX_BYTES, most_rows  # noqa: E402

from shared import record, recorded  # noqa: E402  isort:skip

N_FEATURES = 20
PLACES = ("start_up", "block", "write")
POLL_SECONDS = 0.0002
WRITE_SECONDS = 0.002
BLOCK_SECONDS = 0.2
MOST_SECONDS = 600.0  # of one run, or it hangs


def main() -> int:
    if "--dask" in sys.argv:
        import torture_dask

        return torture_dask.main([word for word in sys.argv[1:] if word != "--dask"])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dask", action="store_true", help="kill workers of a cluster instead")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--components", type=int, default=512)
    parser.add_argument("--forked", action="store_true", help="do not import the library anew")
    parser.add_argument("--most-kills", type=int, default=4, help="of one job, before it may end")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--record", type=Path, help="file of counts, to go on from")
    options = parser.parse_args()
    seed = random.randrange(2**32) if options.seed is None else options.seed
    if options.forked:
        Forked.ready()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        counts = torture(Path(folder), random.Random(seed), options)
    print(json.dumps({**vars(options), "seed": seed, **counts}, default=str))
    return 1 if counts["differing"] or counts["failed"] else 0


def torture(folder: Path, draw: random.Random, options) -> dict[str, int]:
    """Kill until enough are killed, or a run fails by itself; count what happened."""
    write_data(folder / "data.h5", options.rows)
    truth = folder / "truth.stats.h5"
    began = time.monotonic()
    done = run(command(folder, truth, options, draw, checkpoint=False), options.forked)
    done.check_returncode()
    start_up = time.monotonic() - began - json.loads(done.stdout)["pass_seconds"]
    counts = Counter(kills=0, **{f"in_{place}": 0 for place in PLACES})
    counts.update(jobs=0, resumed=0, differing=0, failed=0)
    counts.update(recorded(options.record))
    while counts["kills"] < options.kills and not counts["failed"]:
        job_on_trial(folder, truth, start_up, draw, options, counts)
        record(options.record, counts)
        print(f"{dict(counts)}", file=sys.stderr, flush=True)
    return dict(counts)


def job_on_trial(folder, truth, start_up, draw, options, counts) -> None:
    """Take one job from its start to its end, with some kills on the way."""
    found = folder / "found.stats.h5"
    for path in [*glob.glob(str(folder / ".*.tmp")), folder / "job.checkpoint", found]:
        Path(path).unlink(missing_ok=True)
    for _ in range(min(draw.randint(1, options.most_kills), options.kills - counts["kills"])):
        ended = killed(folder, found, start_up, draw, options, counts)
        if ended is not None:
            counts["failed"] += ended != 0
            break
    done = run(command(folder, found, options, draw), options.forked)
    counts["jobs"] += 1
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        counts["failed"] += 1
        return
    counts["resumed"] += json.loads(done.stdout)["n_rows_resumed"] > 0
    counts["differing"] += found.read_bytes() != truth.read_bytes()


def killed(folder, found, start_up, draw, options, counts) -> int | None:
    """Kill one run at a random moment; return its exit status if it was faster."""
    aim = min(PLACES, key=lambda place: (counts[f"in_{place}"], draw.random()))
    before = written(folder), half_written(folder)
    words, silent = command(folder, found, options, draw), subprocess.DEVNULL
    process = (Forked if options.forked else subprocess.Popen)(
        words, env=environment(), stdout=silent, stderr=silent
    )
    if aim == "start_up":
        early = draw.random()  # the first run was slower than those to come
        wait_until(process, time.monotonic() + early * draw.uniform(0, start_up))
    else:
        wait_for_writes(process, folder, before[1], draw.randint(0, options.rows // 5000))
        longest = WRITE_SECONDS if aim == "write" else BLOCK_SECONDS
        wait_until(process, time.monotonic() + draw.uniform(0, longest))
    process.send_signal(signal.SIGKILL)
    status = process.wait()
    if status != -signal.SIGKILL:
        return status
    if half_written(folder) - before[1]:
        place = "write"
    else:
        place = "start_up" if written(folder) == before[0] else "block"
    counts["kills"] += 1
    counts[f"in_{place}"] += 1
    return None


def written(folder) -> int | None:
    """Return what changes when the checkpoint is replaced."""
    path = folder / "job.checkpoint"
    return path.stat().st_mtime_ns if path.exists() else None


def half_written(folder) -> set[str]:
    """Return the temporary files of the checkpoint that are there."""
    return set(glob.glob(str(folder / ".job.checkpoint.*.tmp")))


def wait_until(process, moment) -> None:
    """Wait until the moment comes, or the end."""
    while process.poll() is None and time.monotonic() < moment:
        time.sleep(POLL_SECONDS)


def wait_for_writes(process, folder, seen, count) -> None:
    """Wait until the checkpoint has begun to be written more than `count` times, or the end."""
    deadline = time.monotonic() + MOST_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        new = half_written(folder) - seen
        if new and count <= 0:
            break
        count -= len(new)
        seen = seen | new
        time.sleep(POLL_SECONDS)


def command(folder, statistics, options, draw, checkpoint=True) -> list[str]:
    """Return a command whose threads and blocks differ each time, and whose sums may not."""
    words = [
        sys.executable, "-m", "streamrf", "fit", str(folder / "data.h5"),
        "--components", str(options.components), "--up-components", str(4 * options.components),
        "--normalize", "l2", "--alpha", "auto", "--seed", "0", "--json",
        "--statistics", str(statistics), "--model", str(statistics) + ".model",
        "--threads", str(draw.randint(1, 2)),
    ]  # fmt: skip
    if checkpoint:
        words += ["--checkpoint", str(folder / "job.checkpoint"), "--checkpoint-every", "0"]
        limit = memory_for(draw.randint(300, 4096), options.components, options.rows)
        words += ["--memory-limit", str(limit)]
    return words


def memory_for(block_rows: int, n_components: int, n_rows: int) -> int:
    """Return the least memory limit in bytes that lets blocks have so many rows."""
    n_held = most_rows(n_rows)
    held_bytes = 2 * min(MAX_BYTES, 8 * N_FEATURES * n_held)
    sizes = memory.Sizes(
        n_components, N_FEATURES, 32, 32, n_rows, held_bytes=held_bytes, scored_rows=n_held
    )
    low, high = 0, 1 << 36
    while high - low > 1:
        middle = (low + high) // 2
        try:
            plan = memory.plan(sizes, middle)
            enough = plan.block_rows >= block_rows
        except MemoryBudgetError:
            enough = False
        low, high = (low, middle) if enough else (middle, high)
    return high


def run(words, forked: bool) -> subprocess.CompletedProcess:
    """Return how a run ended that nobody disturbs, and what it printed."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = (Forked if forked else subprocess.Popen)(
            words, env=environment(), stdout=out, stderr=err
        )
        try:
            status = process.wait(MOST_SECONDS)
        finally:
            process.send_signal(signal.SIGKILL)  # one that hangs
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(words, status, out.read(), err.read())


class Forked:
    """A run in a fork of this process, with the methods of `subprocess.Popen` that are used."""

    def __init__(self, words, env, stdout, stderr):
        files = [os.open(os.devnull, os.O_WRONLY) if f is subprocess.DEVNULL else os.dup(f.fileno())
                 for f in (stdout, stderr)]  # fmt: skip
        fork = multiprocessing.get_context("fork")
        self._process = fork.Process(target=self._work, args=(words[3:], files))
        self._process.start()
        for file in files:
            os.close(file)

    @staticmethod
    def ready() -> None:
        """Import what runs import, and start no thread."""
        importlib.import_module("streamrf.cli")

    @staticmethod
    def _work(words, files) -> None:
        from streamrf.cli import main

        for number, file in enumerate(files, start=1):
            os.dup2(file, number)
        sys.argv = ["streamrf", *words]
        main()

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, or None."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status once there is one."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutError(f"a run has not ended after {timeout} seconds")
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal to the run."""
        if self._process.exitcode is None:
            os.kill(self._process.pid, number)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def write_data(path: Path, n_rows: int) -> None:
    """Rows of ten classes, in chunks that no block size divides."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, N_FEATURES))
    y = rng.integers(0, 10, size=n_rows)
    X = centres[y] + rng.normal(size=(n_rows, N_FEATURES))
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X.astype(np.float32), chunks=(77, N_FEATURES))
        file["y"] = y


if __name__ == "__main__":
    sys.exit(main())
