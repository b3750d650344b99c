"""Odd places to run in: streams closed or full, few open files, forks, other pools of processes."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numba
import numpy as np
import pytest

from streamrf.jit import _forget_others, lanes

ROOT = Path(__file__).resolve().parents[1]
FIT = "fit data.h5 --map fourier --components 16 --seed 0 --alpha 1 --model m.h5 --json"


def shell(line, folder, **more):
    """Run a line of a shell in which ``$streamrf`` is the program."""
    program = f"{sys.executable} -m streamrf"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "streamrf": program, **more}
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["X"] = rng.normal(size=(60, 3)).astype(np.float32)
        file["y"] = np.arange(60) % 2
    return tmp_path


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        (f"$streamrf {FIT} 2>&-", 0, ""),
        (f"$streamrf {FIT} <&- 2>/dev/full", 0, ""),
        (f"$streamrf {FIT} >&-", 1, "streamrf: cannot write to standard output: Bad file desc"),
        (f"$streamrf {FIT} >&- 2>&- <&-", 1, ""),
        (f"$streamrf {FIT} >/dev/full", 1, "streamrf: cannot write to standard output: No space"),
        (f"ulimit -n 20; unset HOME; $streamrf {FIT}", 0, ""),
        pytest.param(f"${{streamrf/-m/-O -m}} {FIT}", 0, "", marks=pytest.mark.slow),
    ],
)
def test_streams_do_not_cost_the_model(line, status, message, folder):
    """What is written is kept; one sentence, where there is anybody to tell."""
    done = shell(line, folder)
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == (1 if message else 0)
    assert (folder / "m.h5").stat().st_size > 0
    assert done.stdout.startswith('{"') == (not status)


def test_compiled_loops_that_the_disk_has_no_place_for_are_told(folder):
    place = folder / "cache"
    done = shell(f"ulimit -f 8; export NUMBA_CACHE_DIR={place}; $streamrf {FIT}", folder)
    assert done.returncode == 1
    told = done.stderr.splitlines()[-1]
    assert told.startswith("streamrf: compiled loops could not be kept on disk: File too large; ")
    assert "NUMBA_CACHE_DIR" in told


def test_compiled_loops_that_a_crash_has_torn_are_told(folder):
    """An empty file ended every command in the word "Aborted!" alone."""
    place = folder / "torn"
    being_written = shutil.ignore_patterns("*.tmp.*", "*.pyc.*")
    shutil.copytree(ROOT / "streamrf", place / "streamrf", ignore=being_written)  # compiled, too
    line, ours = "$streamrf moments data.h5 --out moments.h5", {"PYTHONPATH": str(place)}
    assert shell(line, folder, **ours).returncode == 0
    indices = list(place.rglob("*.nbi"))
    assert indices
    for torn in (b"", b"\0" * 64):
        for index in indices:
            index.write_bytes(torn)
        done = shell(line, folder, **ours)
        assert done.returncode == 1
        (told,) = done.stderr.splitlines()[-1:]
        assert told.startswith("streamrf: the compiled loops on disk are damaged (")
        assert str(place) in told
        assert "Traceback" not in done.stderr


def test_an_error_is_not_printed_as_an_answer_where_there_is_no_standard_error(folder):
    """`print(file=None)` prints to standard output."""
    done = shell("$streamrf info missing.h5 2>&-", folder)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_a_version_that_cannot_be_printed_is_one_sentence(folder):
    done = shell("$streamrf --version >/dev/full", folder)
    sentence = "streamrf: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, sentence)


def test_a_reader_that_leaves_early_costs_nothing(folder):
    done = shell(f"$streamrf {FIT} | true; exit ${{PIPESTATUS[0]}}", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "m.h5").exists()


def test_an_interrupt_while_the_program_starts_prints_no_traceback(folder):
    """It was that of whatever is imported just then."""
    program = """if True:
        import builtins, os, signal, sys
        whole = builtins.__import__
        def stopped(name, *rest):
            if name == "typer":
                os.kill(os.getpid(), signal.SIGINT)
            return whole(name, *rest)
        builtins.__import__ = stopped
        from streamrf.cli import main
    """
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


SETUP = """
import hashlib, os, sys, threading, time, multiprocessing
import numpy as np
import streamrf as srf
X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
y = (X[:, 0] > 0).astype(int)
def work(task=0):
    features = srf.StructuredFourier(n_components=16, random_state=0)
    sums = srf.accumulate(srf.ArraySource(X, y), features, normalize=None, random_state=0)
    return hashlib.sha256(sums.gram.tobytes()).hexdigest()
def told():
    try:
        return work()
    except RuntimeError as error:
        return str(error)
def put(queue):
    queue.put(told())
def forked():
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.write(theirs, told().encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return os.read(ours, 10_000).decode()
"""


def python(script, folder, **more):
    """Run a script, whose standard output is a list of what its pieces of work gave."""
    (folder / "script.py").write_text(SETUP + script)
    done = shell(f"{sys.executable} -W ignore script.py", folder, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_a_fork_computes_alike_or_says_why_not(folder):
    """GNU OpenMP ended the child; a lock that another thread held made it wait for ever."""
    script = """
before = forked()
def keep():
    from streamrf.jit.threads import computing
    with computing():
        held.set()
        free.wait()
held, free = threading.Event(), threading.Event()
keeper = threading.Thread(target=keep)
keeper.start()
held.wait()
locked = forked()
free.set()
keeper.join()
ours = work()
import numba
print(before, locked, ours, sep="\\n")
print(numba.threading_layer(), forked())
"""
    (before, locked, ours, last), _ = python(script, folder)
    layer, _, after = last.partition(" ")
    assert before == ours
    for later in (locked, after):
        assert later == ours if layer != "omp" else "forked from one that has computed" in later


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "70"}, "70"), ({"OMP_WAIT_POLICY": "active"}, None)],
)
def test_threads_that_wait_sleep_soon_unless_told_otherwise(folder, monkeypatch, given, expected):
    """They kept the cores from a thread that another program had pushed aside."""
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"OMP_DISPLAY_ENV": "verbose", **given}.items():
        monkeypatch.setenv(name, value)
    script = "work(); import numba; print(numba.threading_layer(), os.getenv('GOMP_SPINCOUNT'))"
    (said,), shown = python(script, folder)
    layer, left = said.split()
    assert left == str(given.get("GOMP_SPINCOUNT"))
    if layer != "omp" or "GOMP_SPINCOUNT" not in shown:
        pytest.skip("not GNU OpenMP")
    found = re.search(r"GOMP_SPINCOUNT = '(\d+)'", shown)[1]
    assert found == expected if expected else int(found) > 1_000_000


FIRST = {  # what may be the first that a process computes
    "a fit without settings": "srf.RandomFeatureClassifier(n_components=32).fit(source(300))",
    "a choice": "srf.select(source(300), n_components=32, budget=0.1)",
    "a warp": "srf.accumulate(source(300), srf.Nystroem(srf.Gaussian(), 8), warp='full')",
    "deformed images": "srf.deformed_mnist(pixels(), 20).sample(3)",
}


@pytest.mark.parametrize(
    "first", [next(iter(FIRST)), *(pytest.param(f, marks=pytest.mark.slow) for f in [*FIRST][1:])]
)
def test_threads_sleep_soon_whatever_begins(folder, monkeypatch, first):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_DISPLAY_ENV", "verbose")
    script = f"""
def source(n):
    rows = np.random.default_rng(0).normal(size=(n, 3))
    return srf.ArraySource(rows, rows[:, 0] > 0)
def pixels():
    return srf.ArraySource(np.zeros((4, 784), np.uint8), np.arange(4))
{FIRST[first]}
print("done")
"""
    _, shown = python(script, folder)
    found = re.findall(r"GOMP_SPINCOUNT = '(\d+)'", shown)
    if not found:
        pytest.skip("not GNU OpenMP")
    assert "1000" in found  # scikit-learn has a library of its own, which tells too


@pytest.mark.slow
def test_pools_compute_alike(folder):
    script = """
if __name__ == "__main__":
    import joblib
    print(work())
    print(*joblib.Parallel(2, backend="loky")(joblib.delayed(work)(i) for i in range(2)), sep="\\n")
    threads = joblib.Parallel(3, backend="threading")
    print(*threads(joblib.delayed(work)(i) for i in range(3)), sep="\\n")
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=put, args=(queue,), daemon=True)
    process.start()
    print(queue.get())
    process.join()
"""
    found, _ = python(script, folder)
    assert len(found) == 7
    assert len(set(found)) == 1


def test_a_cache_that_cannot_be_written_is_told_once_and_done_without(folder):
    script = """
from numba.core import caching
locators = caching.UserWideCacheLocator, caching.InTreeCacheLocator
for locator in locators:  # as in a folder that belongs to another
    locator.from_function = classmethod(lambda cls, function, file: None)
from streamrf.jit import packed
out = np.empty(2)
packed.diagonal(np.array([1.0, 2.0, 3.0]), out)
print(sorted(out.tolist()))
"""
    (found,), told = python(script, folder, NUMBA_CACHE_DIR="")
    assert found == "[1.0, 2.0]"
    assert told.count("Numba can write its cache nowhere") == 1
    assert told.count("\n") == 1


def test_what_was_compiled_from_other_sources_is_forgotten(tmp_path):
    """As by an earlier version in the same place: Numba sees no change of loops that a loop calls.

    Removed are the index and the code of each loop, and nothing else.
    """
    compiled, other = tmp_path / "a.nbi", tmp_path / "a.pyc"
    (tmp_path / "a.1.nbc").touch()
    other.touch()
    compiled.touch()
    _forget_others(tmp_path)
    assert not list(tmp_path.glob("*.nb?"))
    compiled.touch()
    _forget_others(tmp_path)  # of these sources
    assert compiled.exists()
    (tmp_path / "streamrf-sources").write_bytes(b"\xff others")
    _forget_others(tmp_path)
    assert not compiled.exists()
    assert other.exists()
    _forget_others(tmp_path / "missing")


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="compiles nothing")
def test_the_cache_in_use_is_of_these_sources():
    stamp = Path(lanes.load.stats.cache_path) / "streamrf-sources"
    before = stamp.read_bytes()
    _forget_others(stamp.parent)
    assert stamp.read_bytes() == before


@pytest.mark.slow
def test_without_the_compiler_the_bytes_are_the_same(folder):
    (compiled,), _ = python("print(work())", folder)
    (plain,), _ = python("print(work())", folder, NUMBA_DISABLE_JIT="1")
    assert compiled == plain


@pytest.mark.parametrize("command", ["info x.h5", "--version", "demo"])
@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        ("rmdir ../gone", "the current directory is gone"),
        ("export NUMBA_NUM_THREADS=0", "NUMBA_NUM_THREADS=0 is no number"),
        ("export NUMBA_NUM_THREADS=1.5", "NUMBA_NUM_THREADS=1.5 is no number"),
        ("export NUMBA_NUM_THREADS=", "NUMBA_NUM_THREADS= is no number"),
        ("export NUMBA_DISABLE_JIT=abc", "NUMBA_DISABLE_JIT=abc is no switch"),
    ],
)
def test_surroundings_that_nothing_can_be_imported_in_are_one_sentence(
    command, spoil, expected, tmp_path
):
    folder = tmp_path / "gone"
    folder.mkdir()
    done = shell(f"{spoil}; $streamrf {command}", folder)
    assert done.returncode == 1
    assert done.stderr.startswith(f"streamrf: {expected}")
    assert done.stderr.count("\n") == 1
