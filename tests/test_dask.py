"""On a cluster of worker processes: the same sums to the last byte, read where the workers are."""

import functools
import pickle
import re
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import h5py
import numpy as np
import pytest
from distributed import Client, get_worker
from distributed.protocol import dumps

import clusters
import integers
import streamrf as srf
from clusters import processes, wait_until_released
from integers import assert_same_bytes
from passes import begin, job_of
from streamrf import engine
from streamrf.engine import Outlook
from streamrf.errors import (
    ClusterError,
    ConsumedError,
    DataError,
    MemoryBudgetError,
    ParameterError,
    StreamrfError,
)
from streamrf.jit.threads import computing
from streamrf.training import memory
from streamrf.training.calibration import Room

N, WIDTH, CHUNK = 3000, 8, 128

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Rows of classes, of values and with weights, two of them with NaN."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("rows") / "rows.h5"
    X = rng.normal(size=(N, WIDTH)).astype(np.float32)
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(CHUNK, WIDTH), compression="gzip")
        X[[5, 2999]] = np.nan
        file.create_dataset("bad", data=X, chunks=(CHUNK, WIDTH))
        labels = rng.integers(0, 5, N)
        labels[:2000] %= 3  # two of the labels come late
        file["y"] = labels
        file["words"] = [["ant", "bee", "crocodile", "dog", "emu"][label] for label in labels]
        file["values"] = rng.normal(size=(N, 2)) * (1.0, 1e6) + (0.0, 1e9)
        file["weights"] = rng.gamma(2.0, 50.0, N)
    return path


@pytest.fixture(scope="module")
def two_threads():
    with processes(1, 2) as client:
        yield client


@pytest.fixture(scope="module")
def four_workers():
    with processes(4) as client:
        yield client


@pytest.fixture(
    params=["two_workers", "two_threads", pytest.param("four_workers", marks=pytest.mark.slow)]
)
def client(request):
    return request.getfixturevalue(request.param)


BITS = {"codes": srf.ErrorCorrectingCodes(n_bits=3), "classes": range(7)}
CASES = {
    "classes": ({}, {}),
    "words": ({"y": "words"}, {}),
    "classes-known": ({}, {"classes": range(9)}),
    "classes-weighted": ({"weights": "weights"}, {"normalize": "l2"}),
    "bits": ({}, BITS),
    "values": ({"y": "values"}, {"regression": True}),
    "skipped": ({"x": "bad"}, {"on_bad_rows": "skip"}),
    "folds": ({"weights": "weights"}, {"folds": 3}),
    "window": ({}, {"rows": (100, 2500)}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_bytes_are_those_of_one_process(client, path, tmp_path, case):
    names, options = CASES[case]
    source = srf.HDF5Source(path, **names)
    accumulate = functools.partial(
        srf.accumulate, source, integers.features(), random_state=0, **options
    )
    alone = accumulate()
    alone.save(tmp_path / "alone.h5")
    for parts in (1, 5, 23):
        accumulate(engine=client, parts=parts).save(tmp_path / "together.h5")
        assert (tmp_path / "together.h5").read_bytes() == (tmp_path / "alone.h5").read_bytes()


def test_the_order_of_the_shards_does_not_matter(two_workers, path, rng, monkeypatch):
    cut = engine.cut
    monkeypatch.setattr(engine, "cut", lambda *where: rng.permutation(cut(*where)).tolist())
    source = srf.HDF5Source(path, y="values")
    accumulate = functools.partial(
        srf.accumulate, source, integers.features(), regression=True, random_state=0
    )
    alone = accumulate().to_tree()
    for _ in range(3):
        assert_same_bytes(accumulate(engine=two_workers, parts=11).to_tree(), alone)


@pytest.mark.parametrize("kind", [srf.RandomFeatureClassifier, srf.RandomFeatureRegressor])
def test_the_penalty_and_the_model_are_those_of_one_process(client, path, tmp_path, kind):
    y = "y" if kind is srf.RandomFeatureClassifier else "values"
    source = srf.HDF5Source(path, y=y)
    kind(integers.features(), random_state=0).fit(source).save(tmp_path / "alone.h5")
    for parts in (2, 23):
        estimator = kind(integers.features(), random_state=0)
        estimator.fit(source, engine=client, parts=parts).save(tmp_path / "together.h5")
        assert (tmp_path / "together.h5").read_bytes() == (tmp_path / "alone.h5").read_bytes()


def test_predictions_and_errors_are_those_of_one_process(client, path):
    source = srf.HDF5Source(path)
    model = srf.RandomFeatureClassifier(integers.features(), random_state=0).fit(source).model_
    np.testing.assert_array_equal(model.predict(source, engine=client), model.predict(source))
    np.testing.assert_allclose(
        model.decision_function(source, engine=client, parts=7),
        model.decision_function(source),
        atol=1e-10,
    )
    assert model.evaluate(source, engine=client, parts=7) == model.evaluate(source)
    some = {"start": 100, "stop": 700}
    assert model.evaluate(source, engine=client, parts=3, **some) == model.evaluate(source, **some)


def test_errors_of_values_are_those_of_one_process(two_workers, path):
    source = srf.HDF5Source(path, y="values", weights="weights")
    model = srf.RandomFeatureRegressor(integers.features(), random_state=0).fit(source).model_
    together, alone = model.evaluate(source, engine=two_workers, parts=7), model.evaluate(source)
    assert together.keys() == alone.keys()
    assert together.pop("columns_drifted") == alone.pop("columns_drifted") == []
    for one, other in zip(together.pop("by_target"), alone.pop("by_target"), strict=True):
        assert one == pytest.approx(other, rel=1e-10)
    assert together == pytest.approx(alone, rel=1e-10)


def test_progress_tells_every_row_once(two_workers, path):
    seen = []
    source = srf.HDF5Source(path)
    srf.accumulate(source, integers.features(), engine=two_workers, parts=5, progress=seen.append)
    assert len(seen) == 5
    assert sum(seen) == N


def test_results_that_are_here_do_not_stay_on_the_cluster(two_workers):
    shards = [(i, i + 1) for i in range(40)]
    for number, row in enumerate(engine.map_in_order(two_workers, _Row(), shards)):
        assert row == number
    wait_until_released(two_workers)
    rows = engine.map_in_order(two_workers, _Row(), shards)
    for _ in range(30):
        next(rows)
    time.sleep(0.2)  # releasing takes a moment
    assert len([key for key in two_workers.who_has() if "streamrf-rows" in str(key)]) <= 5
    rows.close()


class _Row(engine.ShardTask):
    def summarise(self, start, stop, n_threads):
        return start


def test_arrays_go_along(two_workers, rng):
    X, y = rng.normal(size=(500, 4)), rng.integers(0, 3, 500)
    alone = srf.accumulate(srf.ArraySource(X, y), integers.features(), random_state=0)
    together = srf.accumulate(
        srf.ArraySource(X, y), integers.features(), random_state=0, engine=two_workers, parts=3
    )
    assert_same_bytes(together.to_tree(), alone.to_tree())


@pytest.mark.filterwarnings("ignore:the .* rows of X looked at before the pass are all equal")
def test_large_arrays_stay_at_home(two_workers, monkeypatch):
    monkeypatch.setattr(engine.shards, "MAX_ARRAY_BYTES", 1 << 20)
    source = srf.ArraySource(np.zeros((1 << 18, 8), np.uint8), np.arange(1 << 18) % 2)
    with pytest.raises(ParameterError, match=r"holds 4 MiB in memory.*write the rows to HDF5"):
        srf.accumulate(source, integers.features(), engine=two_workers)


def test_rows_of_a_window_are_cut_for_all_workers(path):
    on = {address: engine.Worker(1, None, 0) for address in "ab"}
    source = srf.HDF5Source(path)
    ranges = engine.cut(source, (N // 4, N // 2), None, on)
    assert len(ranges) >= len(on)
    assert [ranges[0][0], ranges[-1][1]] == [N // 4, N // 2]
    assert [stop for _, stop in ranges[:-1]] == [start for start, _ in ranges[1:]]


def test_what_is_read_once_is_refused(two_workers):
    source = srf.IteratorSource([(np.eye(4), np.arange(4))])
    with pytest.raises(
        ConsumedError, match=r"from its first row on alone.*write them to HDF5 files"
    ):
        srf.accumulate(source, integers.features(), engine=two_workers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "local"}, "engine must be None or a distributed.Client, got str"),
        ({"parts": 3}, "parts is for a cluster"),
        ({"spill": "folder"}, "spill is for a cluster"),
    ],
)
def test_settings_that_do_not_fit_are_refused(path, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=message):
        srf.accumulate(srf.HDF5Source(path), integers.features(), **options)


def test_a_checkpoint_is_refused(two_workers, path, tmp_path):
    source = srf.HDF5Source(path)
    with pytest.raises(ParameterError, match="give spill="):
        srf.accumulate(
            source, integers.features(), engine=two_workers, checkpoint=tmp_path / "state.h5"
        )


def test_a_bad_row_is_named_once(two_workers, path):
    source = srf.HDF5Source(path, x="bad")
    like = srf.accumulate(srf.HDF5Source(path), integers.features(), random_state=0)
    with pytest.raises(DataError, match=r"rows.h5, dataset 'bad', row (5|2999): column 0 is NaN"):
        srf.accumulate(source, like=like, engine=two_workers, parts=6)
    wait_until_released(two_workers)


def test_the_graph_is_small_however_many_rows(two_workers, path, monkeypatch):
    """Less than 1 KB a shard, its merge included; so is each message that brings a task."""
    graphs, messages = {}, {}
    send = Client._send_to_scheduler

    def measured(self, message):
        if message["op"] == "update-graph":
            (key,) = message["keys"]
            kind = (key[0] if isinstance(key, tuple) else key).split("-")[1]
            graphs.setdefault(kind, []).append(sum(map(len, message["expr_ser"].frames)))
            messages.setdefault(kind, []).append(sum(map(len, dumps(message))))
        return send(self, message)

    monkeypatch.setattr(Client, "_send_to_scheduler", measured)
    srf.accumulate(srf.HDF5Source(path), integers.features(), engine=two_workers, parts=9)
    assert {kind: len(sizes) for kind, sizes in graphs.items()} == {
        "job": 1,
        "shard": 9,
        "merge": 8,
    }
    assert sum(graphs["shard"] + graphs["merge"]) < 9 * 1024
    assert max(messages["shard"] + messages["merge"]) < 1024


def test_the_job_is_cheap_to_send(path):
    """Neither zeros of the sums nor rows travel with the map."""
    source = srf.HDF5Source(path)
    pass_ = begin(source, integers.features(2048), random_state=0)
    assert len(pickle.dumps(pass_)) < 1 << 20 < pass_.statistics.gram.nbytes


def test_the_memory_of_a_worker_is_told_before_and_kept(path, caplog):
    told: list[Outlook] = []
    source = srf.HDF5Source(path)
    pass_ = begin(source, integers.features(1024), random_state=0)
    with (
        clusters.processes(2) as client,  # new ones: a peak is of all that a process has done
        caplog.at_level("INFO", logger="streamrf"),
    ):
        on_cluster = {"engine": client, "parts": 12, "outlook": told.append}
        job_of(source, integers.features(1024), **on_cluster).fold(pass_)
        peaks = [worker.peak_bytes for worker in engine.workers(client).values()]
    (outlook,) = told
    ours = [record for record in caplog.records if record.name == "streamrf"]
    assert [record.getMessage() for record in ours] == [str(outlook)]
    assert re.match(
        r"12 shards on 2 workers, each of which will use up to [\d.]+ MiB", str(outlook)
    )
    assert len(peaks) == len(outlook.workers) == 2
    assert len(outlook.shards) == 12
    assert max(peaks) <= outlook.worker_bytes


def test_sums_that_no_worker_can_hold_are_refused(two_workers, path, monkeypatch):
    monkeypatch.setattr(memory, "SAFE_SHARE", 0.1)
    match = r"the worker tcp://\S+, whose limit of .* is the least: .*(would fit|no width fits)"
    with pytest.raises(MemoryBudgetError, match=match):
        srf.accumulate(srf.HDF5Source(path), integers.features(8192), engine=two_workers)


def test_a_width_is_chosen_that_workers_have_memory_for(two_workers, path, monkeypatch):
    job = job_of(srf.HDF5Source(path), "auto", engine=two_workers)
    limits = engine.runner(job.run).memory_limits
    monkeypatch.setattr(memory, "SAFE_SHARE", (1 << 30) / min(limits.values()))
    sample = job.source.sample(100)
    room, refined = Room(job, sample), Room(replace(job, loss="logistic"), sample)
    assert room.fits(512)
    assert not room.fits(8192)
    with pytest.raises(MemoryBudgetError, match=r"whose limit of .* is the least: 8192 ") as caught:
        replace(job, settings=replace(job.settings, n_components=8192)).plan(limits=limits)
    width = int(re.search(r"n_components=(\d+) would fit", str(caught.value))[1])
    assert 512 < width < 8192
    monkeypatch.setattr("streamrf.engine.dask.workers", None)  # asked once for all widths
    assert room.fits(width)
    assert refined.fits(512)
    assert not refined.fits(width)
    assert "runner" not in vars(job)  # whose workers are those that there are when the pass begins


def test_all_threads_of_a_worker_compute_whatever_the_environment_says(two_threads):
    """A nanny starts its worker with one thread for BLAS; the sums take those the worker has."""
    assert set(two_threads.run(_environment).values()) == {"1"}
    found = two_threads.submit(engine.worker.summarise, _Threads(), 0, 0).result()
    assert found == (2, 2, [2])


def _environment():
    import os

    return os.environ["OMP_NUM_THREADS"]


class _Threads(engine.ShardTask):
    def summarise(self, start, stop, n_threads):
        import numba
        from threadpoolctl import threadpool_info

        with computing(n_threads):
            blas = {i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"}
            return n_threads, numba.get_num_threads(), sorted(blas)


def test_two_tasks_of_a_process_take_turns(two_threads):
    """Numba's workqueue layer aborts the process when two threads enter it."""
    tasks = [two_threads.submit(engine.worker.summarise, _Turn(), i, 0) for i in range(4)]
    spans = sorted(two_threads.gather(tasks))
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_every_worker_gets_its_share():
    """Also of fewer shards than there are threads, which one worker would take all."""
    with processes(2, 4) as client:
        tasks = engine.map_in_order(client, _Where(), [(i, i + 1) for i in range(4)])
        assert sorted(Counter(tasks).values()) == [2, 2]


class _Where(engine.ShardTask):
    def summarise(self, start, stop, n_threads):
        time.sleep(0.1)
        return get_worker().address


class _Turn(engine.ShardTask):
    def summarise(self, start, stop, n_threads):
        began = time.monotonic()
        time.sleep(0.05)
        return began, time.monotonic()


def test_a_client_that_is_closed_is_told(two_workers, rng):
    X = rng.normal(size=(100, 3))
    source = srf.ArraySource(X, X[:, 0] > 0)
    model = srf.accumulate(source, integers.features()).solve(1.0)
    client = Client(two_workers.scheduler.address, set_as_default=False)
    client.close()
    for work in (
        lambda: srf.accumulate(source, integers.features(), engine=client),
        lambda: model.predict(source, engine=client),
    ):
        with pytest.raises(ClusterError, match="the client given as engine is closed"):
            work()


def test_a_cluster_without_workers_is_told(monkeypatch, path):
    monkeypatch.setattr(engine.futures, "PATIENCE", 0.5)
    with (
        processes(0) as client,
        pytest.raises(StreamrfError, match="no worker for 0 s; start some: dask worker tcp:"),
    ):
        srf.accumulate(srf.HDF5Source(path), integers.features(), engine=client)
