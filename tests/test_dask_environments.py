"""Clusters in odd places: reachable or not, of other versions, stopped, or left by their client."""

import logging
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
import h5py
import numpy as np
import psutil
import pytest
from distributed import Client

import streamrf as srf
from clusters import by_hand, processes
from integers import features
from streamrf.engine import ClusterAddress, cluster, connected, workers
from streamrf.errors import ClusterError

N, WIDTH, PARTS = 4000, 8, 20
ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("rows") / "rows.h5"
    with h5py.File(path, "w") as file:
        X = rng.normal(size=(N, WIDTH)).astype(np.float32)
        file.create_dataset("X", data=X, chunks=(100, WIDTH))
        file["y"] = rng.integers(0, 5, N)
    return path


def gram(path, client=None, **options):
    """The bytes of a pass."""
    source = srf.HDF5Source(path)
    parts = None if client is None else PARTS
    options = {"engine": client, "parts": parts, "random_state": 0, **options}
    return srf.accumulate(source, features(200), **options).gram.tobytes()


def test_workers_started_here_cannot_be_reached_from_elsewhere():
    """Every listening socket of this process and its children is bound to the loopback address."""
    before = listening()
    with connected(ClusterAddress(workers=1)) as client:
        client.wait_for_workers(1)
        hosts = {host for host, _ in listening() - before}
    assert hosts == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("own", "words"),
    [([], []), ("json", []), (["json"], [["--x"]]), ("json", ["--x"]), (None, None)],
)
def test_workers_leave_interruptions_to_the_command_that_began_them(own, words):
    """Ctrl-C, which a terminal sends to all processes, left a traceback of each."""
    settings = {"distributed.worker.preload": own, "distributed.worker.preload-argv": words}
    with dask.config.set(settings), connected(ClusterAddress(workers=1)) as client:
        found = client.run(lambda: signal.getsignal(signal.SIGINT))
        assert [*found.values()] == [signal.SIG_IGN]


def test_workers_that_do_not_start_are_told(monkeypatch):
    def fails(self, **options):
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr("distributed.LocalCluster.__init__", fails)
    with (
        pytest.raises(ClusterError, match=r"^--workers 2 could .*Nanny failed.*ulimit -n"),
        connected(ClusterAddress(workers=2)),
    ):
        pass


def test_a_start_that_is_interrupted_leaves_no_traceback_of_dask():
    program = """
from distributed import LocalCluster
from streamrf.engine import ClusterAddress, connected

def interrupted(*args, **options):
    raise KeyboardInterrupt

LocalCluster.sync = interrupted
try:
    with connected(ClusterAddress(workers=1)):
        pass
except KeyboardInterrupt as error:
    kept = error  # with all that was begun
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


def listening():
    ours = psutil.Process()
    return {
        tuple(connection.laddr)
        for process in (ours, *ours.children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }


@pytest.mark.parametrize(
    ("address", "is_told"),
    [("tcp://far.example:8786", True), ("tcp://127.0.0.1:1", False), ("tls://far:1", False)],
)
def test_a_scheduler_without_tls_is_warned_of(address, is_told, monkeypatch, caplog):
    monkeypatch.setattr("distributed.Client", lambda *_, **__: None)
    files = dict.fromkeys(("tls_ca", "tls_cert", "tls_key"), __file__)
    monkeypatch.setattr("distributed.Security", lambda **_: None)
    cluster._client(ClusterAddress(address, **(files if address[:3] == "tls" else {})))
    told = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert ["anyone who reaches its port" in record.getMessage() for record in told] == [
        True for _ in range(is_told)
    ]


def test_workers_of_another_version_are_refused_by_name(two_workers, monkeypatch):
    assert len(workers(two_workers)) == 2
    monkeypatch.setattr("numba.__version__", "0.1")
    with pytest.raises(ClusterError, match=r"worker tcp://.* has numba 0\.6\S+ and this process"):
        workers(two_workers)


@pytest.mark.slow
def test_a_worker_stopped_for_a_while_changes_nothing(path):
    with processes(2) as client:
        stopped = next(iter(client.run(os.getpid).values()))

        def wake():
            time.sleep(30)
            os.kill(stopped, signal.SIGCONT)

        with ThreadPoolExecutor(1) as pool:
            os.kill(stopped, signal.SIGSTOP)
            pool.submit(wake)
            assert gram(path, client) == gram(path)


@pytest.mark.slow
def test_two_clients_at_once_get_the_same_bytes(path):
    script = f"""
import sys
sys.path[:0] = [{str(ROOT / "tests")!r}, {str(ROOT)!r}]
from distributed import Client
import test_dask_environments as ours
with Client(sys.argv[1]) as client:
    print(ours.gram({str(path)!r}, client).hex())
"""
    with processes(2) as client:
        command = [sys.executable, "-c", script, client.scheduler.address]
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        found = [process.communicate(timeout=300)[0].strip() for process in both]
    assert found == [gram(path).hex()] * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"), [("NUMBA_CPU_NAME", "generic"), ("NUMBA_NUM_THREADS", "3")]
)
def test_workers_of_another_environment_give_the_same_bytes(
    name, value, path, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setenv(name, value)
        with by_hand(tmp_path) as (address, *_), Client(address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            assert gram(path, client) == gram(path)


@pytest.mark.slow
def test_a_client_killed_leaves_nothing_running_and_a_spill_that_resumes(path, tmp_path):
    spill = tmp_path / "spill"
    script = f"""
import os, signal, sys
sys.path[:0] = [{str(ROOT / "tests")!r}, {str(ROOT)!r}]
from distributed import Client
import test_dask_environments as ours
rows = 0
def progress(n):
    global rows
    rows += n
    if rows > {N // 4}:
        os.kill(os.getpid(), signal.SIGKILL)
with Client(sys.argv[1]) as client:
    ours.gram({str(path)!r}, client, spill={str(spill)!r}, progress=progress)
"""
    with by_hand(tmp_path) as (address, *_), Client(address, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        killed = subprocess.run([sys.executable, "-c", script, address], capture_output=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
        for _ in range(300):
            if not any(client.processing().values()):
                break
            time.sleep(0.1)
        assert not any(client.processing().values())
        kept = len(list(spill.glob("shard-*.h5")))
        assert kept >= PARTS // 4
        assert gram(path, client, spill=spill) == gram(path)
