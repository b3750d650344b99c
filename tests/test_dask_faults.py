"""Losing workers or the scheduler changes nothing; data that cannot be read fail once, by name."""

import functools
import logging
import os
import re
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import distributed
import h5py
import numpy as np
import pytest
from distributed import Client, get_worker
from distributed.comm import CommClosedError
from distributed.worker_state_machine import FreeKeysEvent

import integers
import streamrf as srf
from clusters import by_hand, processes, wait_until_released
from streamrf.engine import (
    ShardFolder,
    ShardTask,
    failures,
    futures,
    map_in_order,
    map_reduce,
    workers,
)
from streamrf.engine.options import Worker
from streamrf.engine.worker import Situation, check_sizes, summarise, versions
from streamrf.errors import (
    ChangedFileError,
    CheckpointError,
    ClusterError,
    CorruptFileError,
    Interruption,
    SourceNotFoundError,
)

N, WIDTH, CHUNK, PARTS = 4000, 8, 100, 20

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("rows") / "rows.h5"
    with h5py.File(path, "w") as file:
        X = rng.normal(size=(N, WIDTH)).astype(np.float32)
        file.create_dataset("X", data=X, chunks=(CHUNK, WIDTH), compression="gzip")
        file["y"] = rng.integers(0, 5, N)
    return path


@pytest.fixture(scope="module")
def accumulate(path):
    """``accumulate(source, **options)`` of one map and seed."""
    features = integers.features(200)
    return functools.partial(srf.accumulate, srf.HDF5Source(path), features, random_state=0)


@pytest.fixture(scope="module")
def alone(accumulate, tmp_path_factory):
    """The bytes of the statistics file of one process."""
    return saved(accumulate(), tmp_path_factory.mktemp("alone"))


def saved(statistics, folder) -> bytes:
    path = folder / "saved.h5"
    statistics.save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def client():
    """Of three workers, two of which are retired on the way by the tests."""
    with processes(3) as client:
        yield client


def after(n_shards, action):
    """A `progress` that acts once, when some shards are done."""
    seen = []

    def progress(n_rows):
        seen.append(n_rows)
        if len(seen) == n_shards:
            action()

    return progress


def test_a_worker_killed_in_the_middle_changes_nothing(client, accumulate, alone, tmp_path):
    accumulate(engine=client, parts=3)  # so that all have compiled
    pids = client.run(os.getpid)
    assert len(pids) == 3
    victim = next(iter(pids.values()))
    kill = after(PARTS // 2, lambda: os.kill(victim, signal.SIGKILL))
    assert saved(accumulate(engine=client, parts=PARTS, progress=kill), tmp_path) == alone
    client.wait_for_workers(3, timeout=30)
    assert victim not in client.run(os.getpid).values()


def test_workers_lost_while_they_are_asked_are_not_there():
    here = Worker(1, None, 0, versions())
    answers = [
        {"tcp://a": CommClosedError("lost"), "tcp://b": ConnectionResetError("lost")},
        {"tcp://a": OSError("lost"), "tcp://b": here},
    ]
    client = Mock()
    client.run = Mock(side_effect=answers)
    assert workers(client) == {"tcp://b": here}
    assert client.wait_for_workers.call_count == 2
    client.run = Mock(side_effect=[{"tcp://a": ImportError("no streamrf"), "tcp://b": here}])
    with pytest.raises(ClusterError, match="cannot import streamrf"):
        workers(client)


def test_a_run_that_waits_for_workers_says_so_once_each_time(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "streamrf")
    monkeypatch.setattr(futures, "PATIENCE", 0.0)
    monkeypatch.setattr(futures, "LOOK_SECONDS", 0.0)
    client = Mock(run_on_scheduler=Mock(return_value={}), run=Mock(return_value={}))
    run = futures.Run(client, None, "shard")
    for there, n_told in [({}, 1), ({}, 1), ({"tcp://a": 1}, 1), ({}, 2), ({}, 2)]:
        client.nthreads = Mock(return_value=there)
        run.move()
        assert caplog.text.count("has had no worker for 0 s, and the run waits for one") == n_told
    assert (
        caplog.text.count("the worker tcp://a is gone; what no other holds is computed again") == 1
    )


@pytest.mark.slow
def test_all_workers_killed_at_once_change_nothing(client, accumulate, alone, tmp_path):
    """Not even the job is left then but in the scheduler's graph."""
    pids = client.run(os.getpid).values()

    def kill():
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    statistics = accumulate(engine=client, parts=PARTS, progress=after(PARTS // 2, kill))
    assert saved(statistics, tmp_path) == alone


@dataclass(frozen=True)
class _Unread(ShardTask):
    """Can be read once only, as by the one worker that has a module."""

    folder: Path

    def summarise(self, start, stop, n_threads):
        time.sleep(0.1)
        return np.array([stop - start])

    def __reduce__(self):
        return _read_once, (self.folder,)


def _read_once(folder):
    try:
        (folder / "read").mkdir()
    except FileExistsError:
        raise ImportError("no module named theirs") from None
    return _Unread(folder)


@pytest.mark.usefixtures("looking_often")
def test_a_worker_that_cannot_read_a_task_leaves_it_to_others(client, tmp_path, caplog):
    client.wait_for_workers(2, timeout=30)
    shards = [(i, i + 1) for i in range(20)]
    assert map_reduce(client, _Unread(tmp_path), shards).tolist() == [20]
    assert re.search("tcp://.* cannot read what it is sent: .*no module named theirs", caplog.text)


def watched(situations):
    """A function that looks with a watch, whose workers answer so, and waits for the answer."""
    watch = failures.Watch(lambda: dict(situations))

    def look(wanted=("one", "two")):
        found = watch.look({"a", "b"}, wanted)
        watch._thread.join()
        return found

    return watch, look


def test_workers_none_of_which_can_read_are_told():
    watch, look = watched(
        {
            "a": Situation(False, ("ImportError", ["one"])),
            "b": Situation(False, ("ImportError", ["two"])),
        }
    )
    assert (look(), look()) == ({}, {"a": ["one"], "b": ["two"]})
    with pytest.raises(ClusterError, match=r"cannot read .* nor can others: ImportError"):
        look()
    assert watch.shunned == {"a", "b"}


def test_tasks_are_lost_where_all_workers_are_idle_for_a_while():
    idle, busy = Situation(False, None), Situation(True, None)
    paused = Situation(False, None, paused=True)
    situations = {"a": idle, "b": idle}
    _, look = watched(situations)

    def n_looks(**others):
        """Looks that find nothing lost, from the next answer on."""
        situations.update(others)
        look()
        return next((i for i in range(20) if look() is None), None)

    assert n_looks() == failures.IDLE - 1
    assert n_looks(b=busy) is None
    assert n_looks(b=paused) == failures.IDLE - 1
    assert n_looks(a=paused) is None  # which nobody else can do
    assert n_looks(a=busy) is None
    assert n_looks(a=idle) == failures.IDLE - 1
    assert [look([f"{i}"]) for i in range(9)] == [{}] * 9  # others are wanted: it goes on
    del situations["b"]  # does not answer
    assert n_looks() is None


@dataclass(frozen=True)
class _Sums(ShardTask):
    """Takes a while."""

    def summarise(self, start, stop, n_threads):
        time.sleep(0.1)
        return np.array([stop - start])


def lose_tasks(dask_worker):
    """Let a worker drop the tasks that it has, which the scheduler is not told."""
    keys = [key for key in dask_worker.state.tasks if "streamrf-job" not in str(key)]
    dask_worker.handle_stimulus(FreeKeysEvent(keys=keys, stimulus_id="test"))
    return len(keys)


@pytest.mark.usefixtures("looking_often")
def test_tasks_that_dask_loses_are_sent_anew(client, caplog):
    client.wait_for_workers(2, timeout=30)
    n_lost = []
    lose = after(5, lambda: n_lost.extend(client.run(lose_tasks).values()))
    shards = [(i, i + 1) for i in range(20)]
    assert map_reduce(client, _Sums(), shards, lose).tolist() == [20]
    assert max(n_lost) > 0
    assert "they are sent anew" in caplog.text
    rows = map_in_order(client, _Sums(), shards)
    found = [next(rows).tolist()]
    assert max(client.run(lose_tasks).values()) > 0
    assert found + [row.tolist() for row in rows] == [[1]] * 20


@pytest.mark.usefixtures("looking_often")
def test_tasks_that_dask_loses_beside_a_paused_worker_are_sent_anew(client, caplog):
    client.wait_for_workers(2, timeout=30)
    paused = next(iter(workers(client)))
    shards = [(i, i + 1) for i in range(20)]
    with resumed_after(client):
        pause(client, paused)
        total = map_reduce(client, _Sums(), shards, after(5, lambda: client.run(lose_tasks)))
        assert client.run(_status, workers=[paused]) == {paused: "paused"}
    assert total.tolist() == [20]
    assert "they are sent anew" in caplog.text


def put_to_sleep(*streams):
    """Have streams of Dask wait for a timer that never comes."""
    for stream in streams:
        stream.next_deadline = 0.0


def put_worker_to_sleep(dask_worker):
    put_to_sleep(dask_worker.batched_stream)


def put_scheduler_to_sleep(dask_scheduler):
    put_to_sleep(*dask_scheduler.client_comms.values(), *dask_scheduler.stream_comms.values())


@pytest.mark.usefixtures("looking_often")
@pytest.mark.parametrize("side", ["client", "scheduler", "workers"])
def test_messages_that_dask_forgets_to_send_are_sent(client, side):
    """As seen on virtual machines: they lay in the buffer of a stream whose time was past."""
    client.wait_for_workers(2, timeout=30)
    time.sleep(0.2)  # nothing is sent, so the streams sleep until they are woken
    if side == "client":
        client.loop.add_callback(put_to_sleep, client.scheduler_comm)
    elif side == "scheduler":
        client.run_on_scheduler(put_scheduler_to_sleep)
    else:
        client.run(put_worker_to_sleep)
    time.sleep(0.1)
    assert map_reduce(client, _Sums(), [(0, 1), (1, 3)]).tolist() == [3]


def test_a_run_whose_tasks_are_lost_again_and_again_ends(client, monkeypatch):
    monkeypatch.setattr(futures, "MAX_LOST", 2)
    with futures.Run(client, _Sums(), "shard") as run:
        future = run.submit((0, 1))
        keys = [future.key]
        for _ in range(2):
            keys = [new.key for new in run._all_again(keys).values()]
        with pytest.raises(ClusterError, match=r"are idle, and nothing .* new Client"):
            run._all_again(keys)


@pytest.mark.usefixtures("looking_often")
def test_a_worker_that_does_not_answer_stops_no_other(client, tmp_path, monkeypatch):
    """A stopped process neither computes nor answers, until Dask gives it up or it goes on."""
    client.wait_for_workers(2, timeout=30)
    pid = next(iter(client.run(os.getpid).values()))
    done, at_once = [], threading.Event()

    def progress(n_rows):
        done.append(n_rows)
        if len(done) == 2:
            os.kill(pid, signal.SIGSTOP)
        if len(done) == 12:  # of the others
            at_once.set()

    def go_on():
        at_once.wait(20)
        os.kill(pid, signal.SIGCONT)

    helper = threading.Thread(target=go_on)
    helper.start()
    try:
        counted = map_reduce(
            client, _Count(tmp_path), [(i, i + 1) for i in range(20)], progress=progress
        )
    finally:
        helper.join()
    assert at_once.is_set()
    assert sorted(counted.shards) == [(i, i + 1) for i in range(20)]


def retire(client, address):
    client.retire_workers([address], close_workers=True)


def pause(client, address):
    """Have Dask itself find that the worker uses more memory than it may."""
    client.run(_limit_memory, 1.0, workers=[address])
    while client.run(_status, workers=[address]) != {address: "paused"}:
        time.sleep(0.01)


@contextmanager
def resumed_after(client):
    """Let workers that are paused go on in the end."""
    try:
        yield
    finally:
        client.run(_limit_memory, 100.0)


def _limit_memory(share, dask_worker):
    in_use = dask_worker.monitor.get_process_memory()
    dask_worker.memory_manager.memory_limit = int(share * in_use)


def _status(dask_worker):
    return dask_worker.status.name


@pytest.fixture
def looking_often(monkeypatch):
    monkeypatch.setattr(futures, "LOOK_SECONDS", 0.2)


@pytest.mark.usefixtures("looking_often")
@pytest.mark.parametrize("lose", [pause, retire])
def test_a_worker_that_leaves_while_others_merge_changes_no_count(client, tmp_path, lose):
    def lose_another():
        while not (merging := [mark.read_text() for mark in tmp_path.glob("merging-*")]):
            time.sleep(0.01)
        lose(client, next(a for a in workers(client) if a not in merging))

    shards = [(i, i + 1) for i in range(20)]
    with ThreadPoolExecutor(1) as pool, resumed_after(client):
        losing = pool.submit(lose_another)
        counted = map_reduce(client, _Count(tmp_path), shards)
        losing.result(timeout=0)  # it has ended before the run
    assert sorted(counted.shards) == shards


@dataclass(frozen=True)
class _Count(ShardTask):
    """Sums that say what they count, and keep a file in a folder while they are merged."""

    folder: Path

    def summarise(self, start, stop, n_threads):
        time.sleep(0.01 * (1 + start % 5))
        return _Counted(self.folder, ((start, stop),))


@dataclass(frozen=True)
class _Counted:
    folder: Path
    shards: tuple[tuple[int, int], ...]

    def __add__(self, other):
        part, mark = (self.folder / f"{name}-{os.getpid()}" for name in ("part", "merging"))
        part.write_text(get_worker().address)
        part.rename(mark)
        time.sleep(0.1)
        mark.unlink()
        return _Counted(self.folder, self.shards + other.shards)


@pytest.mark.usefixtures("looking_often")
def test_predictions_do_not_wait_for_a_paused_worker(client, tmp_path):
    shards = [(i, i + 1) for i in range(20)]
    rows = map_in_order(client, _Count(tmp_path), shards)
    with resumed_after(client):
        found = list(next(rows).shards)
        pause(client, next(iter(workers(client))))
        for counted in rows:
            found += counted.shards
    assert found == shards


@pytest.mark.usefixtures("looking_often")
def test_a_worker_paused_by_memory_changes_nothing(client, accumulate, alone, tmp_path):
    client.wait_for_workers(2, timeout=30)
    address = next(iter(workers(client)))
    pausing = after(PARTS // 2, lambda: pause(client, address))
    with resumed_after(client):
        statistics = accumulate(engine=client, parts=PARTS, progress=pausing)
        assert client.run(_status, workers=[address]) == {address: "paused"}
    assert saved(statistics, tmp_path) == alone


def test_a_worker_retired_in_the_middle_changes_nothing(client, accumulate, alone, tmp_path):
    address = next(iter(workers(client)))
    retiring = after(PARTS // 2, lambda: retire(client, address))
    statistics = accumulate(engine=client, parts=PARTS, progress=retiring)
    assert saved(statistics, tmp_path) == alone


def test_a_corrupt_chunk_fails_the_job_once_by_name(client, path, accumulate, tmp_path):
    damaged = tmp_path / "damaged.h5"
    damaged.write_bytes(path.read_bytes())
    with h5py.File(damaged, "r+") as file:
        chunk = file["X"].id.get_chunk_info(13)
    with open(damaged, "r+b") as file:
        file.seek(chunk.byte_offset)
        file.write(b"\xff" * chunk.size)
    source = with_sample(srf.HDF5Source(damaged), srf.HDF5Source(path))
    with pytest.raises(CorruptFileError, match=r"damaged.h5, dataset 'X': rows 1200 to 1399 "):
        srf.accumulate(source, like=accumulate(), engine=client, parts=PARTS)
    wait_until_released(client)


def test_an_error_comes_without_causes_that_cannot_be_pickled(monkeypatch):
    class Failing(ShardTask):
        def summarise(self, start, stop, n_threads):
            try:
                raise OSError(threading.Lock())
            except OSError as error:
                raise SourceNotFoundError("it cannot be reached") from error

    monkeypatch.setattr(distributed, "get_worker", Mock())
    with pytest.raises(SourceNotFoundError) as raised:
        summarise(Failing(), 0, 1)
    sent = distributed.protocol.pickle.loads(distributed.protocol.pickle.dumps(raised.value))
    assert isinstance(sent, SourceNotFoundError)
    assert str(sent) == "it cannot be reached"


def test_a_file_that_workers_cannot_see_is_named(client, path, accumulate, tmp_path):
    moved = tmp_path / "moved.h5"
    moved.write_bytes(path.read_bytes())
    source = with_sample(srf.HDF5Source(moved), srf.HDF5Source(path))
    moved.unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no file .*moved.h5"):
        srf.accumulate(source, like=accumulate(), engine=client, parts=4)


def with_sample(source, good):
    """The source with the calibration rows of another, so that only workers find what is wrong."""
    source.sample = functools.partial(_given, good.sample(4096))
    return source


def _given(sample, n_rows):
    return sample


def test_shards_spilled_are_not_computed_again(client, accumulate, alone, tmp_path, caplog):
    caplog.set_level(logging.INFO, "streamrf")
    spill = tmp_path / "spill"
    options = {"engine": client, "parts": PARTS, "spill": spill}
    assert saved(accumulate(**options), tmp_path) == alone
    files = {file: file.stat().st_mtime_ns for file in spill.glob("shard-*.h5")}
    assert len(files) == PARTS
    assert "done already" not in caplog.text
    damaged, *_ = files
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert saved(accumulate(**options), tmp_path) == alone
    changed = {file for file, time in files.items() if file.stat().st_mtime_ns != time}
    assert changed == {damaged}
    assert f"{PARTS} of {PARTS} shards are done already, and not read again" in caplog.text


def test_an_interruption_tells_of_the_shards_that_are_finished(client, accumulate, alone, tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    options = {"engine": client, "parts": PARTS, "spill": tmp_path / "spill"}
    with pytest.raises(
        Interruption, match=r"/spill holds \d+ finished shards so far: run the same again to go"
    ):
        accumulate(progress=after(PARTS // 2, interrupt), **options)
    store = ShardFolder(str(tmp_path / "other" / "shard"), dict)
    with pytest.raises(Interruption, match="/other keeps the map, and no shard is finished"):  # noqa: SIM117
        with store.guarding(None, None):
            interrupt()
    assert saved(accumulate(**options), tmp_path) == alone


def test_a_spill_folder_is_for_its_rows(client, accumulate, path, tmp_path):
    options = {"engine": client, "parts": PARTS, "spill": tmp_path / "spill"}
    mine = tmp_path / "rows.h5"
    shutil.copy(path, mine)
    source, features = srf.HDF5Source(mine), integers.features(200)
    srf.accumulate(source, features, random_state=0, **options)
    with h5py.File(mine, "r+") as file:
        file["y"][...] = file["y"][()][::-1]
    alone = srf.accumulate(source, features, random_state=0)
    again = srf.accumulate(source, features, random_state=0, **options)
    assert saved(again, tmp_path) == saved(alone, tmp_path)
    with h5py.File(mine, "r+") as file:
        file["X"][...] = -file["X"][()]
    with pytest.raises(CheckpointError, match=r"was calibrated on other rows: .*of its own"):
        srf.accumulate(srf.HDF5Source(mine), features, random_state=0, **options)


def test_a_spill_folder_keeps_a_map_without_a_seed(client, path, tmp_path):
    source, features = srf.HDF5Source(path), integers.features(random_state=None)
    options = {"engine": client, "parts": 4, "spill": tmp_path}
    first = srf.accumulate(source, features, **options)
    again = srf.accumulate(source, features, **options)
    assert saved(first, tmp_path) == saved(again, tmp_path)


def test_rows_held_out_are_spilled_too(client, path, tmp_path):
    source = srf.HDF5Source(path)
    options = {"engine": client, "parts": 4, "spill": tmp_path / "spill"}
    models = []
    for cluster in ({}, options, options):
        estimator = srf.RandomFeatureClassifier(integers.features(), random_state=0)
        models.append(saved(estimator.fit(source, **cluster), tmp_path))
    assert models[0] == models[1] == models[2]


@pytest.mark.slow
def test_a_scheduler_lost_is_told_and_the_next_run_goes_on(accumulate, alone, tmp_path):
    spill = tmp_path / "spill"
    options = {"parts": PARTS, "spill": spill}
    with by_hand(tmp_path) as (address, scheduler, _), Client(address) as client:
        kill = after(PARTS // 2, scheduler.kill)
        with pytest.raises(ClusterError, match=r"lost.*With a spill folder the next run goes on"):
            accumulate(engine=client, progress=kill, **options)
    finished = {file: file.stat().st_mtime_ns for file in spill.glob("shard-*.h5")}
    assert PARTS // 2 <= len(finished) < PARTS
    with by_hand(tmp_path) as (address, *_), Client(address) as client:
        assert saved(accumulate(engine=client, **options), tmp_path) == alone
    assert all(file.stat().st_mtime_ns == time for file, time in finished.items())


def test_a_worker_with_another_file_of_the_same_name_is_told(tmp_path, two_workers, monkeypatch):
    """Its sums were booked as rows of the file that the client sees."""
    path = tmp_path / "a.npy"
    np.save(path, np.arange(600.0).reshape(200, 3))
    np.save(tmp_path / "y.npy", np.arange(200) % 2)
    source = srf.open_source(path, y=tmp_path / "y.npy")
    fitted = {"engine": two_workers, "parts": 2}
    assert srf.accumulate(source, srf.Identity(), **fitted).ledger.n_rows == 200
    monkeypatch.setattr("streamrf.engine.dask.os.path.getsize", lambda file: 7)
    with pytest.raises(ChangedFileError, match=r"has 4,928 bytes on the worker .* and 7 where"):
        srf.accumulate(source, srf.Identity(), **fitted)
    check_sizes(((str(tmp_path / "gone.npy"), 7),))  # which reading it tells
