"""A pass that was stopped goes on from its checkpoint and ends as if it had never been stopped."""

import json
import logging
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pyarrow as pa
import pytest
import scipy
from pyarrow import csv

import streamrf as srf
from cases import SOURCES, arrivals, write_hdf5
from commands import answer, streamrf
from integers import assert_same_bytes, features
from passes import job_of
from streamrf import storage
from streamrf.engine import base, checkpoint, samples
from streamrf.errors import (
    BadRowError,
    CheckpointError,
    EmptySourceError,
    FormatError,
    Interruption,
    ParameterError,
    StorageError,
    StreamrfError,
)
from streamrf.training import begin, calibration, finish, holdout, memory, peeking

ROOT = Path(__file__).resolve().parents[1]
N, D = 1300, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)).astype(np.float32)
WORDS = np.array(["red", "green", "blue", "ultramarine"])[(X[:, 0] > 0) + 2 * (X[:, 1] > 0.3)]
LABELS = (X[:, 0] > 0).astype(np.int64) + (X[:, 1] > 0.5)
VALUES = np.stack((X[:, 0] * X[:, 1], 1000 + X[:, 2]), axis=1).astype(np.float64)
WEIGHTS = RNG.random(N) + 0.01
FEW = srf.ErrorCorrectingCodes(n_bits=2)

# Kinds of sums: targets, weights, settings.
KINDS = {
    "words": (WORDS, None, {}),
    "weighted": (LABELS, WEIGHTS, {"normalize": "standard"}),
    "values": (VALUES, None, {"regression": True}),
    "bits": (WORDS, None, {"codes": FEW, "classes": np.unique(WORDS)}),
    "craft": (LABELS, None, {"features": srf.Craft(features(64), 16, random_state=1)}),
}


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pass.checkpoint"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    blocks_of(monkeypatch, 100)


def blocks_of(monkeypatch, n_rows):
    """Make blocks of a pass so long."""
    monkeypatch.setattr(base, "MAX_ROWS", n_rows)
    monkeypatch.setattr(memory, "MIN_ROWS", min(n_rows, 256))


def killed_after(n_rows):
    """A `progress` that ends the process, so to say, once so many rows are counted."""
    counted = 0

    def progress(more):
        nonlocal counted
        counted += more
        if counted >= n_rows:
            raise Killed

    return progress


def accumulate(source, path, n_rows=None, every=0, **settings):
    """Add up with a checkpoint; `n_rows` tells when the process is killed."""
    settings = {"features": features(16), "random_state": 0, "n_threads": 1, **settings}
    progress = None if n_rows is None else killed_after(n_rows)
    return srf.accumulate(
        source, checkpoint=path, checkpoint_every=every, progress=progress, **settings
    )


def stopped(source, path, n_rows, **settings):
    with pytest.raises(Killed):
        accumulate(source, path, n_rows, **settings)


def whole(source, **settings):
    return srf.accumulate(source, **{"features": features(16), "random_state": 0, **settings})


def arrays(n_rows=N, y=LABELS):
    return srf.ArraySource(X[:n_rows], y[:n_rows])


def n_done(path):
    return storage.read(path, "checkpoint")["n_done"]


# ---- the same bytes -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_rows", [1, 600, N])
def test_a_pass_killed_and_resumed_gives_the_same_bytes(kind, n_rows, path, monkeypatch):
    y, weights, settings = KINDS[kind]
    source = srf.ArraySource(X, y, weights)
    stopped(source, path, n_rows, n_threads=1, **settings)
    blocks_of(monkeypatch, 77)
    resumed = accumulate(source, path, n_threads=2, **settings)
    blocks_of(monkeypatch, 4096)
    assert_same_bytes(resumed.to_tree(), whole(source, **settings).to_tree())


@pytest.mark.parametrize("case", SOURCES, ids=lambda case: case.name)
def test_every_source_goes_on(case, path, tmp_path, monkeypatch):
    """A generator too, if it gives the rows counted once more."""
    (tmp_path / "data").mkdir()
    rows = slice(700)
    weights = case.weights(WEIGHTS)
    weights = None if weights is None else weights[rows]
    make = partial(case.make, tmp_path / "data", X[rows], LABELS[rows], weights)
    stopped(make(), path, 250)
    blocks_of(monkeypatch, 333)
    resumed = accumulate(make(), path, every=300)
    assert_same_bytes(resumed.to_tree(), whole(make()).to_tree())


def test_killed_again_and_again(path, monkeypatch):
    for turn in range(12):
        blocks_of(monkeypatch, 50 + 7 * turn)
        with pytest.raises(Killed):
            accumulate(arrays(), path, 1)
    blocks_of(monkeypatch, 100)
    assert_same_bytes(accumulate(arrays(), path).to_tree(), whole(arrays()).to_tree())


def test_rows_left_out_are_counted_once(path):
    dirty = X.copy()
    dirty[[5, 550, 1299], 2] = np.nan
    source = srf.ArraySource(dirty, LABELS)
    stopped(source, path, 600, on_bad_rows="skip")
    resumed = accumulate(source, path, on_bad_rows="skip")
    assert (resumed.n_rows, resumed.n_skipped) == (N - 3, 3)
    assert_same_bytes(resumed.to_tree(), whole(source, on_bad_rows="skip").to_tree())


def test_a_range_of_rows_goes_on(path):
    stopped(arrays(), path, 200, rows=(150, 1100))
    resumed = accumulate(arrays(), path, rows=(150, 1100))
    assert next(iter(resumed.ledger.ranges.values())).tolist() == [[150, 1100]]
    assert_same_bytes(resumed.to_tree(), whole(arrays(), rows=(150, 1100)).to_tree())


def test_the_map_comes_from_the_file(path):
    """So a job without a seed goes on too."""
    settings = {"features": features(16, random_state=None), "random_state": None}
    stopped(arrays(), path, 600, **settings)
    encoder = storage.read(path, "checkpoint")["state"]["statistics"]["encoder"]
    resumed = accumulate(arrays(), path, **settings)
    assert_same_bytes(resumed.encoder.to_tree(), encoder)
    assert_same_bytes(resumed.to_tree(), srf.accumulate(arrays(), like=resumed).to_tree())


def test_unrounded_sums_go_on_but_for_rounding(path):
    settings = {"precision": "float64"}
    stopped(arrays(), path, 600, **settings)
    resumed = accumulate(arrays(), path, **settings)
    expected = whole(arrays(), **settings)
    np.testing.assert_allclose(resumed.gram, expected.gram, rtol=0, atol=1e-9 * N)
    assert resumed.n_rows == N


def fit(source, path=None, n_rows=None, **settings):
    """A pass that chooses alpha on rows held out, and its model."""
    settings = {"normalize": "l2", "random_state": 0, "hold_out": True, **settings}
    job = job_of(
        source,
        features(16),
        checkpoint=path,
        checkpoint_every=0,
        progress=None if n_rows is None else killed_after(n_rows),
        **settings,
    )
    return finish(job.fold(begin(job)), "auto")


@pytest.mark.parametrize("known", [True, False], ids=["rows-known", "rows-unknown"])
@pytest.mark.parametrize("kind", ["words", "weighted", "values"])
def test_the_choice_of_alpha_is_that_of_a_pass_never_stopped(known, kind, path, monkeypatch):
    """Also where the share held out is halved on the way, before and after the kill."""
    monkeypatch.setattr(holdout, "MAX_ROWS", 60)
    y, weights, settings = KINDS[kind]

    def source():
        if known:
            return srf.ArraySource(X, y, weights)
        return srf.IteratorSource(partial(arrivals, X, y, weights))

    for turn, n_rows in enumerate((1, 300, 700)):
        with pytest.raises(Killed):
            fit(source(), path, n_rows, **settings)
        blocks_of(monkeypatch, 60 + 30 * turn)
    model, statistics = fit(source(), path, **settings)
    blocks_of(monkeypatch, 4096)
    expected_model, expected = fit(source(), **settings)
    assert_same_bytes(statistics.to_tree(), expected.to_tree())
    assert_same_bytes(model.to_tree(), expected_model.to_tree())
    assert len(model.history) > 3


# ---- data that grow -----------------------------------------------------------------------------


def test_a_finished_checkpoint_is_not_read_again(path, caplog):
    accumulate(arrays(), path)
    before = path.stat().st_mtime_ns
    again = accumulate(arrays(), path, 1)  # would be killed at the first row read
    assert again.n_rows == N
    assert path.stat().st_mtime_ns == before


def test_a_grown_source_goes_on_from_its_last_row(path, caplog):
    caplog.set_level(logging.INFO, "streamrf")
    first = accumulate(arrays(700), path)
    grown = accumulate(arrays(), path)
    assert caplog.messages == [f"{path}: goes on after the 700 rows counted already"]
    assert_same_bytes(grown.to_tree(), srf.accumulate(arrays(), like=first).to_tree())
    assert n_done(path) == N


def test_balanced_weights_of_rows_that_grew_are_named_with_a_cure_that_works(path):
    accumulate(arrays(700), path, class_weight="balanced")
    message = r"source/class_weight was .*Balanced weights .* which have changed: .*LABEL=NUMBER"
    with pytest.raises(CheckpointError, match=message) as refusal:
        accumulate(arrays(), path, class_weight="balanced")
    assert "same settings" not in str(refusal.value)
    path.unlink()
    numbers = {label: 1.0 + label for label in np.unique(LABELS).tolist()}
    first = accumulate(arrays(700), path, class_weight=numbers)
    grown = accumulate(arrays(), path, class_weight=numbers)
    both = srf.accumulate(arrays(), like=first, class_weight=numbers)
    assert_same_bytes(grown.to_tree(), both.to_tree())
    with pytest.raises(CheckpointError, match="Go on with the same settings"):
        accumulate(arrays(), path, class_weight=dict.fromkeys(numbers, 1.0))


def test_files_may_be_added_at_the_end(path, tmp_path):
    for name, rows in (("a", slice(0, 500)), ("b", slice(500, 900)), ("c", slice(900, N))):
        write_hdf5(tmp_path / f"{name}.h5", X[rows], LABELS[rows])
    two, three = (
        srf.HDF5Source([tmp_path / f"{name}.h5" for name in names]) for names in ("ab", "abc")
    )
    first = accumulate(two, path)
    assert_same_bytes(
        accumulate(three, path).to_tree(), srf.accumulate(three, like=first).to_tree()
    )


def resized(folder, name, n_rows):
    with h5py.File(folder / f"{name}.h5", "w") as file:
        file["X"], file["y"] = X[:n_rows] + ord(name), LABELS[:n_rows]


def test_a_file_of_a_few_rows_may_grow(path, tmp_path):
    """Its key is of all its rows, which are less than the first 64 that it has then."""
    results = []
    for n_rows in (20, 50, N):
        resized(tmp_path, "a", n_rows)
        results.append(accumulate(srf.HDF5Source(tmp_path / "a.h5"), path))
    again = srf.accumulate(srf.HDF5Source(tmp_path / "a.h5"), like=results[0])
    assert_same_bytes(results[-1].to_tree(), again.to_tree())
    resized(tmp_path, "b", N)
    with pytest.raises(CheckpointError, match="begins with other rows"):
        accumulate(srf.HDF5Source(tmp_path / "b.h5"), path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: resized(folder, "a", 600), "had 500 rows and has 600, but rows after it"),
        (lambda folder: resized(folder, "a", 400), "had 500 rows and has 400"),
        (lambda folder: resized(folder, "b", 100), "had 400 rows and has 100"),
        (lambda folder: (folder / "b.h5").unlink(), r"b.h5, dataset 'X' is missing"),
        (lambda folder: write_hdf5(folder / "b.h5", X, LABELS), "begins with other rows"),
    ],
    ids=["grown-inside", "shrunk", "shrunk-where-it-stopped", "gone", "other"],
)
def test_other_rows_than_those_counted_are_refused(change, message, path, tmp_path):
    resized(tmp_path, "a", 500)
    resized(tmp_path, "b", 400)
    stopped(srf.HDF5Source(str(tmp_path / "*.h5")), path, 700)
    before = path.read_bytes()
    change(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        accumulate(srf.HDF5Source(str(tmp_path / "*.h5")), path)
    assert path.read_bytes() == before


def test_what_is_not_read_yet_may_change(path, tmp_path):
    for name in "abc":
        resized(tmp_path, name, 400)
    stopped(srf.HDF5Source(str(tmp_path / "*.h5")), path, 600)
    resized(tmp_path, "b", 500)
    (tmp_path / "c.h5").unlink()
    assert accumulate(srf.HDF5Source(str(tmp_path / "*.h5")), path).n_rows == 900


# ---- another job --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": features(17)}, "features/n_components was 16 and is 17"),
        ({"features": features(16, degree=4)}, "features/kernel/degree was 3 and is 4"),
        ({"features": srf.RandomFourier()}, "features was RandomMaclaurin and is RandomFourier"),
        ({"features": features(16, random_state=1)}, "features/random_state was 0 and is 1"),
        ({"normalize": "l2"}, "normalize was None and is 'l2'"),
        ({"precision": "float64"}, "precision was 'exact' and is 'float64'"),
        ({"random_state": 5}, "random_state was 0 and is 5"),
        ({"regression": True}, "regression was False and is True"),
        ({"classes": [0, 1, 2]}, "classes was None and is"),
        ({"rows": (10, None)}, "first_row was 0 and is 10"),
        ({"rows": (0, 300)}, "has counted the rows up to 600, and this job ends before row 300"),
        ({"y": 1 - LABELS}, "source/y was '.*' and is"),
        ({"weights": WEIGHTS}, "source/weights was None and is"),
        ({"X": X[::-1]}, "where X was, X begins with other rows"),
        ({"X": X[:500]}, "X had 1,300 rows and has 500"),
        ({"like": "other"}, "like was None and is given"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_checkpoint_of_another_job_is_refused_by_name(change, message, path):
    stopped(arrays(), path, 600)
    before = path.read_bytes()
    change = dict(change)
    rows = change.pop("X", X)
    source = srf.ArraySource(
        rows, change.pop("y", LABELS)[: len(rows)], change.pop("weights", None)
    )
    if "like" in change:
        change |= {"like": whole(arrays(), normalize="l2"), "features": None}
    with pytest.raises(CheckpointError, match=message) as caught:
        accumulate(source, path, **change)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_datasets_are_part_of_the_job(path, tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["X"], file["y"], file["z"] = X, LABELS, LABELS
    accumulate(srf.HDF5Source(tmp_path / "data.h5"), path)
    with pytest.raises(CheckpointError, match="source/y was 'y' and is 'z'"):
        accumulate(srf.HDF5Source(tmp_path / "data.h5", y="z"), path)


def test_a_file_may_move(path, tmp_path):
    """Rows are known by what they are, not by where they lie."""
    write_hdf5(tmp_path / "a.h5", X, LABELS)
    stopped(srf.HDF5Source(tmp_path / "a.h5"), path, 600)
    os.rename(tmp_path / "a.h5", tmp_path / "b.h5")
    assert accumulate(srf.HDF5Source(tmp_path / "b.h5"), path).n_rows == N


def test_rows_left_out_before_are_not_raised_later(path):
    dirty = X.copy()
    dirty[5, 0] = np.inf
    stopped(srf.ArraySource(dirty, LABELS), path, 600, on_bad_rows="skip")
    with pytest.raises(CheckpointError, match="has left out 1 rows with NaN or infinity"):
        accumulate(srf.ArraySource(dirty, LABELS), path)


def test_codes_may_change_where_the_sums_do_not_depend_on_them(path):
    stopped(arrays(), path, 600, codes=FEW)
    assert accumulate(arrays(), path).n_rows == N


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf")])
def test_a_time_is_a_time(bad, path):
    with pytest.raises(ParameterError, match="checkpoint_every must be seconds"):
        accumulate(arrays(), path, every=bad)


# ---- files that are no checkpoint ---------------------------------------------------------------


def test_other_files_are_not_overwritten(path):
    statistics = whole(arrays())
    statistics.save(path)
    before = path.read_bytes()
    with pytest.raises(
        FormatError, match="holds statistics, not a checkpoint; load it with"
    ) as told:
        accumulate(arrays(), path)
    assert "without it the run starts" not in str(told.value)
    path.write_bytes(b"notes")
    with pytest.raises(FormatError, match="is no file of streamrf") as told:
        accumulate(arrays(), path)
    assert "without it the run starts" not in str(told.value)
    assert path.read_bytes() == b"notes" != before


def test_a_damaged_checkpoint_is_not_overwritten(path):
    stopped(arrays(), path, 600)
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    told = r"is damaged or was changed by another .* without it the run starts from its beginning"
    with pytest.raises(FormatError, match=told):
        accumulate(arrays(), path)
    assert path.read_bytes() == bytes(data)


def test_a_checkpoint_is_no_model_and_no_statistics(path):
    accumulate(arrays(), path)
    for load in (srf.load_model, srf.load_statistics):
        with pytest.raises(FormatError, match=r"holds a checkpoint, not .* load it with the comm"):
            load(path)


def test_a_missing_folder_is_told_before_the_pass(tmp_path):
    with pytest.raises(StorageError, match=r"there is no folder .*none"):
        accumulate(arrays(), tmp_path / "none" / "x", 1)


# ---- when it is written -------------------------------------------------------------------------


class Clock:
    """Time that passes by `step` a block, and by `cost` while a checkpoint is written."""

    def __init__(self, monkeypatch, step, cost):
        self.now = 0.0
        self.writings = []
        real = storage.write

        def write(*arguments):
            self.writings.append(self.now)
            self.now += cost
            real(*arguments)

        monkeypatch.setattr(checkpoint.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(checkpoint.storage, "write", write)
        self.progress = lambda n_rows: setattr(self, "now", self.now + step)


def test_it_is_written_every_so_often_and_at_the_end(path, monkeypatch):
    clock = Clock(monkeypatch, step=100, cost=1)
    srf.accumulate(arrays(), features(16), checkpoint=path, progress=clock.progress)
    assert clock.writings == [300, 601, 902, 1203]  # of 13 blocks; the last at the end


def test_writing_takes_two_per_cent_of_the_time_at_most(path, monkeypatch):
    blocks_of(monkeypatch, 10)
    clock = Clock(monkeypatch, step=100, cost=30)
    srf.accumulate(arrays(), features(16), checkpoint=path, progress=clock.progress)
    *periodic, last = clock.writings
    assert np.diff(periodic).min() >= 30 / 0.02
    assert 30 * len(periodic) <= 0.02 * clock.now + 30
    assert last > periodic[-1]


def test_a_full_disk_leaves_the_old_checkpoint_whole_and_the_pass_going(path, caplog):
    stopped(arrays(), path, 600)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        statistics = accumulate(arrays(), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    assert_same_bytes(statistics.to_tree(), whole(arrays()).to_tree())
    assert re.fullmatch(
        r"cannot write .*pass\.checkpoint: File too large; make room for [\d,]+ bytes or choose "
        r"another folder; any earlier file there is unchanged; the pass goes on without this "
        r"checkpoint",
        caplog.messages[-1],
    )


def test_rows_before_an_error_are_kept(path, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(calibration, "CALIBRATION_ROWS", 100)  # that do not meet the bad row
    dirty = X.copy()
    dirty[750, 1] = np.nan
    write_hdf5(tmp_path / "data.h5", dirty, LABELS, chunks=(50, D))
    source = srf.HDF5Source(tmp_path / "data.h5")
    with pytest.raises(BadRowError, match="row 750"):
        accumulate(source, path, every=300)
    assert caplog.messages[-1] == f"{path} holds the 700 rows before the error"
    with h5py.File(tmp_path / "data.h5", "r+") as file:
        file["X"][750, 1] = 0.0
    assert accumulate(source, path).n_rows == N


def test_rows_before_an_error_of_an_iterator_are_kept(path, caplog, monkeypatch):
    monkeypatch.setattr(peeking, "PEEK_ROWS", 200)
    blocks_of(monkeypatch, 50)
    settings = {"task": "classification"}  # which more rows are looked at for

    def blocks(fails):
        for n_before, block in enumerate(arrivals(X, LABELS)):
            if fails and n_before == 20:
                raise OSError("the device is gone")
            yield block

    with pytest.raises(OSError, match="the device is gone"):
        accumulate(srf.IteratorSource(partial(blocks, True)), path, every=300, **settings)
    assert caplog.messages[-1] == f"{path} holds the {n_done(path)} rows before the error"
    assert n_done(path) > 200
    found = accumulate(srf.IteratorSource(partial(blocks, False)), path, **settings)
    expected = whole(srf.IteratorSource(partial(blocks, False)), **settings)
    assert_same_bytes(found.to_tree(), expected.to_tree())


def test_an_error_within_a_block_is_not_kept(path, caplog):
    """The ledger may count rows that the sums do not have."""
    labels = WORDS.copy()
    labels[650] = "pink"
    source = srf.ArraySource(X, labels)
    settings = {"codes": FEW, "classes": np.unique(WORDS)}
    with pytest.raises(StreamrfError, match="'pink' is not in the code book"):
        accumulate(source, path, **settings)
    assert n_done(path) == 600
    assert caplog.messages == []


def test_an_iterator_that_gives_fewer_rows_the_second_time(path):
    stopped(srf.IteratorSource(partial(arrivals, X, LABELS)), path, 600)
    shorter = srf.IteratorSource(partial(arrivals, X[:300], LABELS[:300]))
    assert accumulate(shorter, path).n_rows == 600


def test_rows_that_no_iterator_has(path):
    with pytest.raises(EmptySourceError, match="has no rows from 2000 on"):
        accumulate(srf.IteratorSource([(X, LABELS)]), path, rows=(2000, None))


# ---- signals ------------------------------------------------------------------------------------


def signalling(number, n_rows):
    """A `progress` that sends this process a signal after so many rows."""
    counted = 0

    def progress(more):
        nonlocal counted
        counted += more
        if counted == n_rows:
            signal.raise_signal(number)

    return progress


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_writes_a_last_checkpoint_after_the_block(number, path):
    handlers = [signal.getsignal(n) for n in checkpoint.SIGNALS]
    progress = signalling(number, 600)
    with pytest.raises(KeyboardInterrupt) as caught:
        srf.accumulate(arrays(), features(16), random_state=0, checkpoint=path, progress=progress)
    assert isinstance(caught.value, Interruption)
    assert caught.value.number == number
    assert str(caught.value) == (
        f"stopped after 700 rows; {path} holds 700 rows: run the same again to go on from there"
    )
    assert [signal.getsignal(n) for n in checkpoint.SIGNALS] == handlers
    assert n_done(path) == 700
    assert_same_bytes(accumulate(arrays(), path).to_tree(), whole(arrays()).to_tree())


def test_a_second_ctrl_c_does_not_wait(path):
    def progress(n_rows):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interruption, match="stopped at once; no checkpoint was written"):
        srf.accumulate(arrays(), features(16), checkpoint=path, progress=progress)
    assert not path.exists()


def test_a_signal_in_the_last_block_is_not_lost(path):
    with pytest.raises(Interruption, match="stopped after 1,300 rows"):
        srf.accumulate(
            arrays(), features(16), checkpoint=path, progress=signalling(signal.SIGINT, N)
        )
    assert n_done(path) == N


def test_a_signal_on_a_full_disk_tells_what_is_kept(path, monkeypatch):
    stopped(arrays(), path, 300)

    def full(*_):
        raise StorageError("cannot write: No space left on device")

    monkeypatch.setattr(checkpoint.storage, "write", full)
    with pytest.raises(Interruption, match=r"stopped after 500 rows; .* holds 300 rows"):
        srf.accumulate(
            arrays(),
            features(16),
            random_state=0,
            checkpoint=path,
            progress=signalling(signal.SIGINT, 100),
        )


def test_a_signal_that_is_ignored_stays_ignored(path):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        progress = signalling(signal.SIGINT, 600)
        statistics = srf.accumulate(arrays(), features(16), checkpoint=path, progress=progress)
    finally:
        signal.signal(signal.SIGINT, before)
    assert statistics.n_rows == N


def test_a_pass_in_another_thread_leaves_signals_alone(path):
    found = []
    thread = threading.Thread(target=lambda: found.append(accumulate(arrays(), path).n_rows))
    thread.start()
    thread.join()
    assert found == [N]


# ---- on the command line ------------------------------------------------------------------------


def command(*arguments):
    return [sys.executable, "-m", "streamrf", *map(str, arguments)]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_command_says_how_to_go_on(number, status, path, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(150_000, 20)).astype(np.float32)
    write_hdf5(tmp_path / "data.h5", rows, (rows[:, 0] > 0).astype(int), chunks=(100, 20))
    fit = command(
        "fit", tmp_path / "data.h5", "--map", "maclaurin", "--components", 300, "--seed", 1,
        "--checkpoint", path, "--statistics", tmp_path / "out.h5",
    )  # fmt: skip
    process = subprocess.Popen(
        [*fit, "--checkpoint-every", "0"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not path.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (status, "")
    match = re.fullmatch(
        rf"streamrf: stopped after ([\d,]+) rows; {re.escape(str(path))} holds \1 rows: run the "
        r"same again to go on from there\n",
        err,
    )
    assert match, err
    assert not (tmp_path / "out.h5").exists()
    blocks_of(monkeypatch, 4096)
    done = streamrf(*fit[3:], "--json")
    assert done.exit_code == 0, done.stderr
    assert done.stderr == f"streamrf: {path}: goes on after the {match[1]} rows counted already\n"
    figures = json.loads(done.stdout)
    assert figures["n_rows_resumed"] == int(match[1].replace(",", ""))
    assert figures["n_rows"] == 150_000


def test_a_file_that_has_grown_goes_on_on_the_command_line(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_hdf5(tmp_path / "data.h5", X[:700], LABELS[:700], chunks=(100, D), maxshape=(None, D))
    small = ("--map", "maclaurin", "--components", "16", "--alpha", "1")
    fit = ("fit", "data.h5", *small, "--checkpoint", path, "--statistics", "s.h5", "--model", "m")
    assert answer(*fit)["n_rows_resumed"] == 0
    with h5py.File(tmp_path / "data.h5", "r+") as file:
        file["X"].resize(N, axis=0)
        file["X"][700:] = X[700:]
        del file["y"]
        file["y"] = LABELS
    done = streamrf(*fit, "--json")
    assert done.stderr == f"streamrf: {path}: goes on after the 700 rows counted already\n"
    figures = json.loads(done.stdout)
    assert (figures["n_rows"], figures["n_rows_resumed"]) == (N, 700)
    answer("fit", "data.h5", "--like", "s.h5", "--statistics", "whole.h5")
    assert (tmp_path / "s.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("n_kills", [12])
def test_torture(n_kills):
    """`scripts/torture.py` in short: killed in the start-up, in a block and inside a writing."""
    done = subprocess.run(
        [
            sys.executable, ROOT / "scripts" / "torture.py", "--kills", str(n_kills),
            "--most-kills", "4", "--rows", "20000", "--components", "64", "--seed", "0",
        ],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert (counts["kills"], counts["differing"], counts["failed"]) == (n_kills, 0, 0)
    places = [counts[f"in_{place}"] for place in ("start_up", "block", "write")]
    assert sum(places) == n_kills
    assert sum(place > 0 for place in places) >= 2  # the next is aimed where fewest have fallen


@pytest.mark.parametrize("n_rows", [300, 200])
def test_a_file_may_lose_rows_that_are_not_counted_yet(n_rows, path, tmp_path):
    for name in "ab":
        resized(tmp_path, name, 400)
    stopped(srf.HDF5Source(str(tmp_path / "*.h5")), path, 600)
    assert n_done(path) == 600  # 200 of the second file
    resized(tmp_path, "b", n_rows)
    assert accumulate(srf.HDF5Source(str(tmp_path / "*.h5")), path).n_rows == 400 + n_rows


# ---- two runs, and rows that change -------------------------------------------------------------


def in_the_middle(path, act):
    """A pass whose `progress` acts once, after the first block."""
    acted = []

    def progress(n_rows):
        if not acted:
            acted.append(True)
            act()

    run = {"checkpoint": path, "checkpoint_every": 0, "progress": progress}
    return srf.accumulate(arrays(), features(16), random_state=0, n_threads=1, **run)


def test_a_second_run_is_refused_while_the_first_one_lives(path):
    def second():
        with pytest.raises(CheckpointError, match="another run is writing the checkpoint"):
            accumulate(arrays(), path)

    assert_same_bytes(in_the_middle(path, second).gram, whole(arrays()).gram)
    assert os.listdir(path.parent) == [path.name]  # no lock is left behind
    assert_same_bytes(accumulate(arrays(), path).gram, whole(arrays()).gram)


def test_a_lock_that_a_killed_run_left_behind_locks_nothing(path):
    (path.parent / f".{path.name}.lock").touch()
    accumulate(arrays(), path)
    assert os.listdir(path.parent) == [path.name]


def test_a_checkpoint_written_by_another_run_since_it_was_read_is_not_gone_on_from(path):
    stopped(arrays(), path, 600)
    job = job_of(arrays(), features(16), checkpoint=path, random_state=0)
    pass_ = begin(job)
    accumulate(arrays(), path)  # to its end
    with pytest.raises(CheckpointError, match="another run has written"):
        job.fold(pass_)


def test_rows_rewritten_between_stop_and_resume_are_told(path, tmp_path):
    """The first rows are the same, so the key of the file is; only samples of rows can tell."""
    file = tmp_path / "rows.h5"
    with h5py.File(file, "w") as h5:
        h5["X"], h5["y"] = X, LABELS
    stopped(srf.HDF5Source(file), path, 600)
    with h5py.File(file, "r+") as h5:
        h5["X"][200:450] += 1
    with pytest.raises(CheckpointError, match=r"written again since: row [2-4]\d\d is not"):
        accumulate(srf.HDF5Source(file), path)


def test_targets_rewritten_are_told(path):
    stopped(arrays(), path, 600)
    changed = LABELS.copy()
    changed[100:300] = 2 - changed[100:300]
    with pytest.raises(CheckpointError, match="written again since"):
        accumulate(arrays(y=changed), path)


def _linked(folder, y, is_new):
    """Rows of HDF5 whose targets are in a file of their own."""
    with h5py.File(folder / "labels.h5", "w") as h5:
        h5["y"] = y
    if is_new:
        with h5py.File(folder / "rows.h5", "w") as h5:
            h5["X"], h5["y"] = X, h5py.ExternalLink("labels.h5", "/y")
    return srf.HDF5Source(folder / "rows.h5")


def _sparse(folder, y, is_new):
    if is_new:
        scipy.sparse.save_npz(folder / "rows.npz", scipy.sparse.csr_array(X))
    np.save(folder / "y.npy", y)
    return srf.open_source(folder / "rows.npz", y="y")


def _zarr(folder, y, is_new):
    group = pytest.importorskip("zarr").open_group(folder / "rows.zarr", mode="w")
    for name, values in {"X": X, "y": y}.items():
        group.create_array(name, data=values, chunks=(100, *values.shape[1:]))
    return srf.open_source(folder / "rows.zarr", y="y")


def _frame(folder, y, is_new):
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": y})
    return srf.open_source(table, y="y")


def _url(folder, y, is_new):
    csv.write_csv(_frame(folder, y, is_new)._list[0]._table, folder / "rows.csv")
    return srf.open_source(f"file://{folder}/rows.csv", y="y")


REWRITTEN = [_linked, _sparse, _zarr, _frame, _url]


@pytest.mark.parametrize("make", REWRITTEN)
def test_targets_without_a_version_or_in_files_of_their_own_are_told(make, path, tmp_path):
    stopped(make(tmp_path, LABELS, True), path, 600)
    changed = np.r_[LABELS[:64], 2 - LABELS[64:]]
    with pytest.raises(CheckpointError, match="written again since"):
        accumulate(make(tmp_path, changed, False), path)


@pytest.mark.parametrize("make", REWRITTEN)
def test_shards_of_targets_rewritten_since_are_not_taken(make, tmp_path):
    pass_ = begin(job_of(arrays(), features(16), random_state=0))

    def prefix(source):
        job = replace(job_of(source, features(16)), run=SimpleNamespace(spill=tmp_path))
        return job._shard_prefix(pass_, source)

    source = make(tmp_path, LABELS, True)
    first = prefix(source)
    assert prefix(source) == first
    assert prefix(make(tmp_path, np.r_[LABELS[:64], 2 - LABELS[64:]], False)) != first


def test_a_file_touched_but_not_changed_goes_on(path, tmp_path):
    file = tmp_path / "rows.h5"
    with h5py.File(file, "w") as h5:
        h5["X"], h5["y"] = X, LABELS
    stopped(srf.HDF5Source(file), path, 600)
    os.utime(file, (1, 1))
    assert_same_bytes(accumulate(srf.HDF5Source(file), path).gram, whole(arrays()).gram)


def test_a_checkpoint_of_yesterday_gives_the_same_sums(path):
    stopped(arrays(), path, 300)
    yesterday = path.read_bytes()
    stopped(arrays(), path, 900)
    path.write_bytes(yesterday)
    assert_same_bytes(accumulate(arrays(), path).gram, whole(arrays()).gram)


def test_samples_of_one_block_are_spread_over_it():
    """They were of its first rows alone."""
    found = samples.Samples()
    for block in arrays().blocks(block_rows=N):
        found.add(block)
    again = samples.Samples.from_tree(found.to_tree())
    assert again.changed(arrays()) is None
    for first in range(0, N - samples.PIECE, 100):
        y = LABELS.copy()
        y[first : first + samples.PIECE + samples.ROWS] += 1
        row = again.changed(arrays(y=y))
        assert first - samples.ROWS < row < first + samples.PIECE + samples.ROWS
    kept = np.delete(np.arange(N), 100)
    assert again.changed(srf.ArraySource(X[kept], LABELS[kept])) is not None


def test_samples_are_few_and_spread(monkeypatch):
    monkeypatch.setattr(samples, "MAX_SAMPLES", 4)
    found = samples.Samples()
    for block in arrays().blocks(block_rows=50):
        found.add(block)
    starts = found.to_tree()["windows"][:, 0]
    assert len(starts) <= 5
    assert starts.max() > N / 2
    again = samples.Samples.from_tree(found.to_tree())
    assert again.changed(arrays()) is None
    assert again.changed(arrays(600)) is not None
