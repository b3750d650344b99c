"""Benchmarks measure what they say, and kernels compiled ahead are used."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

import streamrf as srf
from streamrf.cli import app, benching
from streamrf.display import forget_peak, peak_bytes, stage, watching
from streamrf.features import TABLE
from streamrf.jit.instructions import AVAILABLE, MAX_BYTE, MAX_SHORT, fastest
from streamrf.training import benchmark
from streamrf.training.peeking import PEEK_ROWS

ROOT = Path(__file__).resolve().parents[1]
STAGES = {"calibrate", "read", "wait", "featurise", "targets", "gram", "pass", "solve"}


def streamrf(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    return done


@pytest.fixture
def rows_file(tmp_path):
    path = tmp_path / "rows.h5"
    benchmark.write_rows(path, 1500, n_features=20)
    return path


@pytest.fixture
def features():
    return srf.RandomMaclaurin(srf.Polynomial(degree=2), n_components=40)


def test_stages_are_counted_for_who_watches_alone():
    with stage("nobody"):
        pass
    with watching() as outer:
        with watching() as inner, stage("inside"):
            time.sleep(0.001)
        for _ in range(2):
            with stage("twice"):
                time.sleep(0.001)
    assert (set(inner), set(outer)) == ({"inside"}, {"twice"})
    assert outer["twice"] >= 0.002


@pytest.mark.filterwarnings("ignore:the .* rows of X looked at before the pass are all equal")
def test_a_pass_counts_the_seconds_of_the_reading_thread(features):
    def blocks():
        for _ in range(3):
            time.sleep(0.02)
            yield np.ones((PEEK_ROWS, 4), np.uint8), np.arange(PEEK_ROWS) % 2

    with watching() as seconds:
        srf.accumulate(srf.IteratorSource(blocks()), features)
    assert seconds["read"] >= 0.04  # the calibration took the first block
    assert set(seconds) == {"read", "wait", "moments", "featurise", "targets", "gram"}


def test_made_rows_are_sparse_bytes_that_compress_and_can_be_told_apart(rows_file, features):
    with h5py.File(rows_file) as file:
        X, y = file["X"][()], file["y"][()]
        assert file["X"].id.get_storage_size() < X.nbytes
    assert (X.dtype, X.shape, y.shape) == (np.uint8, (1500, 20), (1500,))
    assert 0.5 < np.mean(X == 0) < 0.8
    clf = srf.RandomFeatureClassifier(features, normalize="l2", alpha=1e-3, random_state=0)
    assert clf.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.8


def test_measure_gives_figures_of_the_pass_that_it_ran(rows_file, features):
    source = srf.HDF5Source(rows_file)
    found = benchmark.measure(
        source, features, test=source, n_pairs=3, rows=(100, 1400), normalize="l2"
    )
    assert (found["n_rows"], found["n_features"], found["n_components"]) == (1300, 20, 40)
    assert set(found["seconds"]) == STAGES
    whole, bare = np.array(found["pass_seconds"]), np.array(found["ssfrk_seconds"])
    assert len(whole) == len(bare) == 3
    np.testing.assert_allclose(found["ratios"], whole / bare)
    assert found["ratio"] == np.median(found["ratios"])
    names = {row.name for row in (fastest(MAX_SHORT), fastest(MAX_BYTE)) if row is not None}
    assert set(found["product_rates"]) == names | {"ssfrk"}
    assert min(found["product_rates"].values()) > 0
    seconds = found["seconds"]
    assert seconds["pass"] == np.median(whole)
    inside = [seconds[name] for name in ("calibrate", "wait", "featurise", "targets", "gram")]
    assert sum(inside) == pytest.approx(seconds["pass"])
    assert min(inside) > 0
    np.testing.assert_allclose(found["rows_per_second"], 1300 / np.median(whole))

    stats = srf.accumulate(source, features, rows=(100, 1400), normalize="l2", random_state=0)
    model = stats.solve(found["alpha"])
    assert found["error"] == model.evaluate(source)["error"]


def test_the_peak_of_memory_can_be_forgotten():
    forget_peak()
    before = peak_bytes()
    np.ones(4_000_000)
    assert peak_bytes() - before >= 16_000_000
    forget_peak()
    assert peak_bytes() - before < 16_000_000


def test_bench_needs_no_data(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = streamrf(
        "bench", "--components", 800, "--rows", 600, "--pairs", 2, "--threads", 1, "--json"
    )
    assert (done.exit_code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["map"], found["n_rows"], found["n_components"]) == ("maclaurin", 600, 800)
    assert (found["threads"], len(found["ratios"]), found["made_rows"]) == (1, 2, True)
    assert {"processor", "load", "versions", "commit", "peak_bytes"} <= set(found)
    assert 0 <= found["error"] < 0.1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ["maclaurin", "craft-maclaurin", "structured-fourier"])
def test_bench_reads_data_and_tells_a_person(rows_file, word):
    done = streamrf("bench", rows_file, "--map", word, "--components", 64, "--pairs", 1)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "1,500 of 20 values, 64 features" in done.stdout
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert set(names) == STAGES | {"processor", "rows", "product", "rates", "ratio", "memory"}


def test_bench_tells_the_error_on_rows_that_are_named(rows_file):
    names = ["--test-x", "test/X", "--test-y", "test/y"]
    done = streamrf("bench", rows_file, *names, "--components", 64, "--pairs", 1)
    assert (done.exit_code, done.stderr) == (0, "")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("error"))
    assert 0 <= float(line.split()[1]) < 50


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--test-x", "test/X"], 2, "goes with --test-y"),
        (["--test-x", "test/Z", "--test-y", "test/y"], 1, "'test/Z'"),
        (["--map", "fourier"], 2, "'fourier' is not one of maclaurin, craft-maclaurin"),
        (["--rows", 1501], 2, "has 1,500"),
        (["--components", 21], 2, "maclaurin takes at least 22 for rows of 20 values, got 21"),
        (["--map", "craft-maclaurin", "--components", 2], 2, "takes at least 3 for rows of 20"),
        (["--pairs", 0], 2, "greater than or equal to 1"),
        (["--y", "labels"], 1, "streamrf: "),
    ],
)
def test_bench_refuses_what_it_cannot_measure(rows_file, options, status, message):
    done = streamrf("bench", rows_file, *options)
    assert (done.exit_code, done.stdout) == (status, "")
    assert message in done.stderr


def test_measure_needs_a_pair(rows_file, features):
    with pytest.raises(ValueError, match="n_pairs=-1; expected at least 0"):
        benchmark.measure(srf.HDF5Source(rows_file), features, n_pairs=-1)


# In a process of its own, in which nothing else has loaded or compiled kernels.
COLD = """
import importlib, pkgutil
import streamrf.jit
from numba.core.dispatcher import Dispatcher
from streamrf.training.warmup import warm_up
place = warm_up(lambda name: print("told", name))
print("kept" if list(place.glob("*.nbi")) else "lost")
for module in pkgutil.iter_modules(streamrf.jit.__path__):
    for name, kernel in vars(importlib.import_module(f"streamrf.jit.{module.name}")).items():
        compiled = isinstance(kernel, Dispatcher) and not name.startswith("_")
        if compiled and not kernel.signatures:
            print(module.name, name)
from streamrf.jit.instructions import MAX_BYTE, MAX_SHORT, fastest
for row in filter(None, map(fastest, (MAX_BYTE, MAX_SHORT))):
    if not row.pack.signatures or len(row.add.signatures) < 2:  # totals of 64 and 32 bits
        print(row.name)
"""
# Inlined into others; those of slower instructions than the processor has; where products of
# integers are not available, or a row too great for 32 bits.
RARE = {f"{name} strides" for name in ("packed", "symmetric", "cholesky", "substitution")}
RARE |= {
    f"{name} {kernel}" for name in ("packed", "words", "amx") for kernel in ("holds", "add_tile")
}
RARE |= {
    f"{name} {kernel}"
    for name in ("hadamard", "cosines")
    for kernel in ("fwht", "signed_transform")
}
RARE |= {  # within those of products
    f"{name} {kernel}"
    for name in ("runs", "words", "amx", "gram")
    for kernel in ("roots_of_greatest", "run_end")
}
RARE |= {"hadamard fwht_groups"} | ({"packed flush"} if AVAILABLE else set())
RARE |= {  # and of sparse rows, losses, deformed images and fields in quotes
    "csv_quotes row_ends",
    "columns add_entries",
    "lanes load_entries",
    "lanes outputs",
    "deform deform",
    "packed add_selected",
    "gram pack",
    "gram add_products",
    "words pack_shorts",
    "words pack_bytes",
    "amx pack_shorts",
    "amx pack_bytes",
}


def test_warm_up_reaches_every_map_and_leaves_no_kernel_to_be_compiled_later():
    done = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    told = {line.removeprefix("told ") for line in lines if line.startswith("told ")}
    without_loops = {"CallableMap", "Identity", "TransformerMap"}
    assert set(TABLE) - without_loops | {"uint8 rows", "values", "codes"} <= told
    assert "kept" in lines
    assert {line for line in lines if not line.startswith("told ")} - {"kept"} <= RARE


def test_warmup_tells_how_long_it_took_and_where_the_kernels_lie(monkeypatch, tmp_path):
    (tmp_path / "kernel.nbi").write_bytes(bytes(1000))
    monkeypatch.setattr(benching, "warm_up", lambda progress: progress("Craft") or tmp_path)
    done = streamrf("warmup", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["cache"], found["cache_bytes"]) == (str(tmp_path), 1000)
    assert found["seconds"] >= 0
    assert str(tmp_path) in streamrf("warmup").stdout


def test_the_page_of_benchmarks_is_made_from_the_lines():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "bench_docs.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_case_gives_one_line_and_is_kept(tmp_path):
    if "STREAMRF_DATA" not in os.environ:
        pytest.skip("STREAMRF_DATA is not set")  # the folder of mnist.h5
    output = tmp_path / "lines.jsonl"
    command = [sys.executable, ROOT / "scripts" / "bench.py", "--quick", "--repeats", "1"]
    command += ["--output", output, "ratio-maclaurin-4096"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert json.loads(output.read_text()) == found
    assert (found["case"], found["n_rows"], found["n_components"]) == (
        "ratio-maclaurin-4096",
        3000,
        1024,
    )
    assert {"seconds", "ratio", "ssfrk_seconds", "peak_bytes", "error", "load"} <= set(found)
    again = subprocess.run(command, capture_output=True, text=True)
    assert (again.returncode, again.stdout) == (0, "")
    assert "already" in again.stderr
