"""Clusters of Dask for tests: real schedulers and worker processes."""

import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from socket import socket

import pytest
from distributed import Client, LocalCluster


@contextmanager
def processes(n_workers, n_threads=1):
    """A client of worker processes; it is nobody's default."""
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=n_threads,
            processes=True,
            dashboard_address=":0",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def by_hand(folder, n_workers=1, protocol="tcp", options=()):
    """A scheduler and workers as one starts them by hand.

    Yields the scheduler's address and the two processes.
    """
    with closing(socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"{protocol}://127.0.0.1:{port}"
    where = ["--host", "127.0.0.1", "--no-dashboard", *options]
    with (
        dask(folder, "scheduler", "--port", port, "--protocol", protocol, *where) as scheduler,
        dask(folder, "worker", address, "--nworkers", n_workers, "--nthreads", 1, *where) as worker,
    ):
        yield address, scheduler, worker


@contextmanager
def dask(folder, *arguments):
    """A command of Dask while it runs."""
    with open(folder / f"{arguments[0]}.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *map(str, arguments)],
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


def wait_until_released(client):
    """Nothing of a run stays on the cluster, nor is tried again."""
    for _ in range(100):
        if not [key for key in client.who_has() if "streamrf" in str(key)]:
            return
        time.sleep(0.1)
    pytest.fail(f"still there: {client.who_has()}")
