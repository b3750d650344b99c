#!/usr/bin/env python
"""What streamrf costs on MNIST, one JSON line a case; scripts/bench_docs.py makes tables of them.

Every case runs in a process of its own. Its line goes to standard output and to a file, and a case
that the file has of this processor is passed over: the same command goes on where it was stopped.
Needs STREAMRF_DATA, the folder of `mnist.h5`. Let nothing else run next to it: lines tell the load.

    scripts/bench.py                   # every case, about two hours on two cores
    scripts/bench.py ratio rows        # the cases whose names begin with one of these words
    scripts/bench.py --again start     # once more; the file keeps the newest line of a case
    scripts/bench.py --quick           # small widths and few rows, to see that all is well
"""

import argparse
import contextlib
import functools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import llvmlite.binding
import numpy as np
import psutil
from shared import ROOT, data_folder, keep, lines, processor

import streamrf as srf
from streamrf.display import forget_peak, peak_bytes, watching
from streamrf.jit import cholesky, hadamard, lanes, lapack, packed
from streamrf.jit.instructions import AVAILABLE, MAX_BYTE
from streamrf.jit.runs import PART
from streamrf.jit.threads import computing
from streamrf.statistics import gram
from streamrf.training import benchmark

RESULTS = ROOT / "docs" / "benchmarks" / "bench.jsonl"
SIDE, MAX_SHIFT = 28, 2  # pixels
TRANSFORM_BYTES = 8 << 20  # of rows in lanes, as in a pass
ADDITIONS = 1 << 34  # of a timed run of transforms
IN_A_ROW = 16  # transforms of the same rows, which grow by a root of the length at each


@dataclass(frozen=True)
class Scale:
    """How large the cases are: as they are meant, or small.

    Parameters
    ----------
    quick : whether to shrink
    repeats : runs to take the median of; 0 means as many as a case has
    """

    quick: bool = False
    n_repeats: int = 0

    def width(self, n_components: int) -> int:
        """Shrink a number of components, to no less than what exact linear terms need."""
        return max(1024, n_components // 16) if self.quick else n_components

    def rows(self, n_rows: int) -> int:
        """Shrink a number of rows."""
        return max(2000, n_rows // 20) if self.quick else n_rows

    def repeats(self, default: int) -> int:
        """Return the number of runs."""
        return self.n_repeats or (min(2, default) if self.quick else default)


MAPS = {
    "maclaurin": benchmark.maclaurin,
    "craft": benchmark.craft,
    "structured": benchmark.structured_fourier,
}


def mnist(part: str = "train") -> srf.HDF5Source:
    """Return the rows as they lie on disk."""
    return srf.HDF5Source(data_folder() / "mnist.h5", x=f"{part}/X", y=f"{part}/y")


def ratio(name: str, n_components: int, n_rows: int, precision: str, scale: Scale) -> dict:
    """Return passes next to bare products."""
    return benchmark.measure(
        mnist(),
        MAPS[name](scale.width(n_components)),
        test=mnist("test"),
        n_pairs=scale.repeats(5),
        rows=(0, scale.rows(n_rows)),
        normalize="l2",
        precision=precision,
    )


def choice(name: str, n_components: int, n_rows: int, scale: Scale) -> dict:
    """Return fits that choose their penalty themselves next to passes that solve nothing."""
    features, source = MAPS[name](scale.width(n_components)), _rows(scale.rows(n_rows))
    clf = srf.RandomFeatureClassifier(features, normalize="l2", random_state=0)
    srf.accumulate(source, features, normalize="l2", rows=(0, benchmark.FIRST_ROWS))
    fits, passes = [], []
    for _ in range(scale.repeats(3)):
        began = time.perf_counter()
        srf.accumulate(source, features, normalize="l2", random_state=0)
        passes.append(time.perf_counter() - began)
        fits.append(_timed_fit(clf, source))
    ratios = [seconds["fit"] / whole for seconds, whole in zip(fits, passes, strict=True)]
    return {
        "map": name,
        "n_rows": scale.rows(n_rows),
        "n_components": features.n_components,
        "alpha": float(clf.alpha_),
        "fit_seconds": [seconds["fit"] for seconds in fits],
        "pass_seconds": passes,
        "seconds": _median_fit(fits),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
    }


def wide(n_components: int, n_rows: int, totals: str, scale: Scale) -> dict:
    """Return one pass and its solve, in the memory of the sums, at a width near the memory's end.

    A factor in float32 needs the greater penalty.
    """
    return benchmark.measure(
        mnist(),
        benchmark.maclaurin(scale.width(n_components)),
        test=mnist("test"),
        n_pairs=0,
        rows=(0, scale.rows(n_rows)),
        normalize="l2",
        totals=totals,
        relative_alpha=1e-4 if totals == "float64" else 1e-2,
        in_place=True,
    )


def fit(
    name: str,
    n_components: int,
    n_rows: int,
    scale: Scale,
    repeats: int = 3,
    **settings,
) -> dict:
    """Return the time, memory and test error of a fit that chooses its penalty itself.

    Bare products of as many rows and columns run in turn with it.
    """
    n_rows = scale.rows(n_rows)
    features = MAPS[name](scale.width(n_components))
    source = _rows(n_rows)
    clf = srf.RandomFeatureClassifier(features, normalize="l2", random_state=0, **settings)
    srf.accumulate(source, features, normalize="l2", rows=(0, benchmark.FIRST_ROWS))
    fits, bare, peak = [], [], 0
    for _ in range(scale.repeats(repeats)):
        fits.append(_timed_fit(clf, source))
        peak = peak or peak_bytes()
        bare.append(benchmark.bare_seconds(n_rows, clf.features_.n_components))
    whole = [seconds["fit"] for seconds in fits]
    ratios = [a / b for a, b in zip(whole, bare, strict=True)]
    return {
        "map": name,
        "n_rows": n_rows,
        "n_components": clf.features_.n_components,
        "error": clf.evaluate(mnist("test"))["error"],
        "alpha": float(clf.alpha_),
        "fit_seconds": whole,
        "seconds": _median_fit(fits),
        "ssfrk_seconds": bare,
        "ratio": statistics.median(ratios),
        "rows_per_second": n_rows / statistics.median(whole),
        "peak_bytes": peak,
        "n_clipped": clf.statistics_.n_clipped,
    }


def products(n_components: int, scale: Scale) -> dict:
    """Return what a block of features costs the Gram, by step, next to `ssfrk` on the same block.

    "check" sums the squares by column, "layout" prepares the operand, "product" multiplies into
    the totals; "flush" is what joining partial sums to them apart would take.
    """
    width, n_rows = scale.width(n_components), gram.PRODUCT_ROWS
    encoder = srf.accumulate(
        mnist(), benchmark.maclaurin(width), normalize="l2", rows=(0, n_rows), random_state=0
    ).encoder
    block = next(mnist().blocks(0, n_rows))
    Q = np.empty((len(block.X), width), dtype=np.float32)
    encoder.encode(block.X, np.ones(len(Q)), Q)
    size = gram.packed_size(width)
    totals, squares = np.zeros(size), np.empty((-(-len(Q) // PART), width))
    floats, row = gram.FloatProducts(), next(row for row in AVAILABLE if row.limit > MAX_BYTE)
    partial = np.zeros(size, np.int32)
    panels = row.panels(Q)
    steps = {
        "check": lambda: lanes.column_squares(Q, squares),
        "layout": lambda: row.pack(Q, panels),
        "product": lambda: row.add(panels, width, totals, np.zeros((1, width))),
        "flush": lambda: packed.flush(partial, totals),
        "ssfrk": lambda: floats.add(Q, totals, np.zeros((1, width))),
    }
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    with computing():
        for number in range(1 + scale.repeats(7)):
            for name, step in steps.items():
                began = time.perf_counter()
                step()
                if number:
                    seconds[name].append(time.perf_counter() - began)
            time.sleep(0.1)  # until the threads of BLAS sleep, which spin for a while
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    blocks = 60_000 / len(Q)
    keeping = blocks * medians["check"]
    adding = blocks * (medians["layout"] + medians["product"])
    return {
        "n_rows": len(Q),
        "n_components": width,
        "kind": row.name,
        "medians": medians,
        "times": seconds,
        "exactness_share": keeping / (adding + keeping),
        "times_ssfrk": medians["ssfrk"] / (medians["layout"] + medians["product"]),
    }


def factors(n_components: int, scale: Scale) -> dict:
    """Return seconds of Cholesky factors, our own and LAPACK's in turn, by dtype.

    On one thread, on all, and on all beside a process that keeps one core busy, as others do.
    """
    n = scale.width(n_components)
    settings = (
        ("one thread", 1, contextlib.nullcontext),
        ("all", None, contextlib.nullcontext),
        ("all, one busy", None, _busy_core),
    )
    seconds = {}
    for dtype in (np.float64, np.float32):
        given = np.full(n * (n + 1) // 2, 0.5, dtype)
        packed.add_diagonal(given, np.full(n, 1.0))
        for where, n_threads, beside in settings:
            with beside(), computing(n_threads):
                times = _factor_seconds(given, n, scale.repeats(3))
            seconds[f"{np.dtype(dtype).name}, {where}"] = times
    return {"n_components": n, "times": seconds}


def _factor_seconds(given: np.ndarray, n: int, n_repeats: int) -> dict[str, list[float]]:
    """Return seconds of factors of a packed matrix, our own and LAPACK's in turn."""
    ways = {"own": cholesky.factor, "pftrf": lapack.factor}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(1 + n_repeats):
        for name, way in ways.items():
            work = given.copy()
            began = time.perf_counter()
            way(work, n)
            if number:
                times[name].append(time.perf_counter() - began)
            time.sleep(0.1)  # until the threads of BLAS sleep
    return times


def solves(n_components: int, relative_alpha: float, scale: Scale) -> dict:
    """Return seconds of solutions for one penalty and ten classes, our own and LAPACK's in turn."""
    features, source = MAPS["maclaurin"](scale.width(n_components)), _rows(scale.rows(60_000))
    found = srf.accumulate(source, features, normalize="l2", random_state=0)
    normal = found.problem().normal()
    n, alpha = len(normal.step), relative_alpha * normal.mean_diagonal()

    def direct() -> np.ndarray:
        factor = normal.centred()
        packed.add_diagonal(factor, np.full(n, alpha))
        lapack.factor(factor, n)
        solution = np.asfortranarray(normal.centred_moments().T)
        lapack.solve(factor, solution)
        return solution.T * normal.step

    ways = {"own": lambda: normal.ridge(alpha)[0], "pftrf": direct}
    times: dict[str, list[float]] = {name: [] for name in ways}
    solutions = {}
    with computing():
        for number in range(1 + scale.repeats(3)):
            for name, way in ways.items():
                began = time.perf_counter()
                solutions[name] = way()
                if number:
                    times[name].append(time.perf_counter() - began)
    apart = np.abs(solutions["own"] - solutions["pftrf"]).max() / np.abs(solutions["own"]).max()
    return {
        "n_components": n,
        "relative_alpha": relative_alpha,
        "times": times,
        "apart": float(apart),
    }


@contextlib.contextmanager
def _busy_core() -> Iterator[None]:
    """Keep a core busy by another process."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def instructions(n_components: int, scale: Scale) -> dict:
    """Return the least seconds of a block's products by every instruction that there is.

    One thread and its processor time, so that other jobs count little: the check of the column
    squares, the layout and the product of each, and `ssfrk`, in turn, on entries within 8 bits.
    """
    width, n_rows = scale.width(n_components), gram.PRODUCT_ROWS
    Q = np.random.default_rng(0).normal(0, 24, (n_rows, width)).round().clip(-MAX_BYTE, MAX_BYTE)
    Q = Q.astype(np.float32)
    totals = np.zeros(gram.packed_size(width))
    squares = np.empty((-(-n_rows // PART), width))
    single = np.zeros(totals.size, np.float32)
    steps: dict[str, Callable[[], object]] = {
        "check": lambda: lanes.column_squares(Q, squares),
        "ssfrk": lambda: lapack.add_product(Q, single),
    }
    for row in AVAILABLE:
        panels = row.panels(Q)
        steps[f"{row.name}, layout"] = functools.partial(row.pack, Q, panels)
        steps[f"{row.name}, product"] = functools.partial(
            row.add, panels, width, totals, np.zeros((1, width))
        )
    least = dict.fromkeys(steps, math.inf)
    with computing(1):
        for _ in range(1 + scale.repeats(15)):
            for name, step in steps.items():
                began = time.process_time()
                step()
                least[name] = min(least[name], time.process_time() - began)
    return {
        "n_rows": n_rows,
        "n_components": width,
        "cpu": llvmlite.binding.get_host_cpu_name(),
        "instructions": [row.name for row in AVAILABLE],
        "least": least,
    }


def _timed_fit(
    clf: srf.RandomFeatureClassifier, source: srf.HDF5Source | srf.IteratorSource
) -> dict[str, float]:
    """Return the seconds of a fit by stage, with those of the whole as "fit"."""
    with watching() as seconds:
        began = time.perf_counter()
        clf.fit(source)
        seconds["fit"] = time.perf_counter() - began
    return seconds


def _median_fit(fits: list[dict[str, float]]) -> dict[str, float]:
    """Return the stages of the fit of median time."""
    return sorted(fits, key=lambda seconds: seconds["fit"])[len(fits) // 2]


def _rows(n_rows: int) -> srf.HDF5Source | srf.IteratorSource:
    """Return the first rows of the training set, from the file itself where that is all."""
    return mnist() if n_rows == mnist().n_rows else _first(n_rows)


def _first(n_rows: int) -> srf.IteratorSource:
    """Return the first rows of the training set, read anew for every pass."""

    def blocks():
        for block in mnist().blocks(0, n_rows):
            yield block.X, block.y

    return srf.IteratorSource(blocks)


def transforms(length: int, scale: Scale) -> dict:
    """Return additions a second of Walsh-Hadamard transforms."""
    n_groups = max(2, TRANSFORM_BYTES // (64 * length))
    rng = np.random.default_rng(0)
    rows = 1e-18 * rng.standard_normal((n_groups, length, hadamard.LANES), dtype=np.float32)
    a = rows.copy()
    additions = a.size * length.bit_length() - a.size
    count = max(1, (ADDITIONS >> (6 if scale.quick else 0)) // additions)
    rates = []
    with computing() as n_threads:
        hadamard.fwht_groups(a)
        for _ in range(scale.repeats(7)):
            seconds = 0.0
            for first in range(0, count, IN_A_ROW):
                a[:] = rows
                began = time.perf_counter()
                for _ in range(min(IN_A_ROW, count - first)):
                    hadamard.fwht_groups(a)
                seconds += time.perf_counter() - began
            rates.append(count * additions / seconds / 1e9)
    return {
        "length": length,
        "n_threads": n_threads,
        "gadds_per_second": statistics.median(rates),
        "rates": rates,
    }


def shifted_mnist(copies: int, n_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Return the training rows several times over, each image moved by a few pixels at random."""
    rng = np.random.default_rng(0)
    along = np.arange(SIDE)
    for _ in range(copies):
        for block in mnist().blocks(0, n_rows):
            n = len(block.X)
            margins = ((0, 0), (MAX_SHIFT, MAX_SHIFT), (MAX_SHIFT, MAX_SHIFT))
            padded = np.pad(block.X.reshape(n, SIDE, SIDE), margins)
            down, right = rng.integers(0, 2 * MAX_SHIFT + 1, (2, n, 1, 1))
            moved = padded[
                np.arange(n)[:, None, None], down + along[:, None], right + along[None, :]
            ]
            yield moved.reshape(n, -1), block.y


def one_length(copies: int, n_rows: int, n_components: int) -> dict:
    """Return the time and memory of one pass over some copies of the rows, in this process."""
    features = benchmark.maclaurin(n_components)
    srf.accumulate(mnist(), features, normalize="l2", rows=(0, benchmark.FIRST_ROWS))
    source = srf.IteratorSource(functools.partial(shifted_mnist, copies, n_rows))
    began = time.perf_counter()
    found = srf.accumulate(source, features, normalize="l2", random_state=0)
    seconds = time.perf_counter() - began
    assert found.n_rows == copies * n_rows
    return {"seconds": seconds, "peak_bytes": peak_bytes()}


def rows(scale: Scale) -> dict:
    """Return time and memory of ten times the rows next to those of the rows, in turn."""
    n_rows, width = scale.rows(60_000), scale.width(4096)
    found: dict[int, list[dict]] = {1: [], 10: []}
    for _ in range(scale.repeats(5)):
        for copies, runs in found.items():
            runs.append(_other_process("one_length", copies, n_rows, width))
    once, often = found[1], found[10]
    ratios = [b["seconds"] / a["seconds"] / 10 for a, b in zip(once, often, strict=True)]
    growth = [b["peak_bytes"] / a["peak_bytes"] for a, b in zip(once, often, strict=True)]
    return {
        "n_rows": [n_rows, 10 * n_rows],
        "n_components": width,
        "seconds": [[run["seconds"] for run in runs] for runs in (once, often)],
        "peak_bytes": [[run["peak_bytes"] for run in runs] for runs in (once, often)],
        "time_ratio": statistics.median(ratios),
        "time_ratios": ratios,
        "memory_ratio": statistics.median(growth),
    }


def _other_process(function: str, *arguments) -> dict:
    """Call a function of this file in a new process."""
    command = [sys.executable, __file__, "--call", json.dumps([function, *arguments])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def prediction(n_components: int, scale: Scale) -> dict:
    """Return rows a second of predictions next to those of the features alone, in turn."""
    width, n_rows = scale.width(n_components), scale.rows(60_000)
    features = benchmark.maclaurin(width)
    found = srf.accumulate(
        mnist(), features, normalize="l2", rows=(0, scale.rows(8192)), random_state=0
    )
    model = found.solve(benchmark.RELATIVE_ALPHA * found.alpha_scale())
    del found
    model.predict(_first(benchmark.FIRST_ROWS))
    before = psutil.Process().memory_info().rss
    forget_peak()
    predicting, featurising, stages = [], [], []
    peak = 0
    for _ in range(scale.repeats(5)):
        with watching() as seconds:
            began = time.perf_counter()
            for _ in model.scored(mnist(), stop=n_rows):
                pass
            predicting.append(time.perf_counter() - began)
        stages.append(seconds)
        peak = peak or peak_bytes()
        Z = np.empty((4096, width), dtype=np.float32)
        roots = np.ones(4096)
        began = time.perf_counter()
        with computing():
            for block in mnist().blocks(0, n_rows):
                n = len(block.X)
                model.encoder.encode(block.X, roots[:n], Z[:n])
        featurising.append(time.perf_counter() - began)
        del Z
    ratios = [a / b for a, b in zip(predicting, featurising, strict=True)]
    return {
        "n_rows": n_rows,
        "n_components": width,
        "rows_per_second": n_rows / statistics.median(predicting),
        "featurise_rows_per_second": n_rows / statistics.median(featurising),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "seconds": stages[0],
        "peak_bytes": peak,
        "peak_bytes_beyond_model": peak - before,
    }


def start(scale: Scale) -> dict:
    """Return the seconds of imports, and of small fits with and without compiled kernels."""
    with tempfile.TemporaryDirectory() as folder:
        data, model = f"{folder}/digits.h5", f"{folder}/model.h5"
        _write_digits(data)
        fitting = ["-m", "streamrf", "fit", data, "--components", "512", "--normalize", "l2"]
        fitting += ["--model", model, "--json"]
        several = range(scale.repeats(5))
        imports = [_seconds(["-c", "import streamrf"]) for _ in several]
        bare = [_seconds(["-c", "pass"]) for _ in several]
        sklearn = [_seconds(["-c", "import sklearn.base"]) for _ in several]
        _seconds(fitting)
        cached = [_seconds(fitting) for _ in several]
        empty = []
        for number in several:
            place = f"{folder}/kernels{number}"
            empty.append(_seconds(fitting, NUMBA_CACHE_DIR=place))
        warm = _seconds(["-m", "streamrf", "warmup"], NUMBA_CACHE_DIR=f"{folder}/warm")
        ready = _seconds(fitting, NUMBA_CACHE_DIR=f"{folder}/warm")
    return {
        "import_seconds": statistics.median(imports) - statistics.median(bare),
        "sklearn_import_seconds": statistics.median(sklearn) - statistics.median(bare),
        "interpreter_seconds": bare,
        "imports": imports,
        "cached_fit_seconds": statistics.median(cached),
        "cached_fits": cached,
        "first_fit_seconds": statistics.median(empty),
        "first_fits": empty,
        "compilation_seconds": statistics.median(empty) - statistics.median(cached),
        "warmup_seconds": warm,
        "fit_after_warmup_seconds": ready,
    }


PREDICT = """
import os, sys, time
import numpy as np
import streamrf as srf
model = srf.load_model(sys.argv[1], estimator=sys.argv[3] == "estimator")
model.predict(np.load(sys.argv[2]))
print(time.clock_gettime(time.CLOCK_BOOTTIME) - float(os.environ["BEGAN"]))
"""


def first_prediction(scale: Scale) -> dict:
    """Return the seconds from the start of a process to its first prediction, of one row.

    Python's bytecode and the compiled loops are on disk. Of the command it is the whole process.
    """
    with tempfile.TemporaryDirectory() as folder:
        data, model, estimator = (f"{folder}/{name}.h5" for name in ("digits", "model", "fitted"))
        row, text = f"{folder}/row.npy", f"{folder}/row.csv"
        X = _write_digits(data)
        np.save(row, X[:1])
        np.savetxt(text, X[:1], delimiter=",", header=",".join(map(str, range(64))), comments="")
        source = srf.HDF5Source(data)
        clf = srf.RandomFeatureClassifier(random_state=0).fit(source)
        clf.save(estimator)
        clf.model_.save(model)
        bytecode = {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode", "PYTHONDONTWRITEBYTECODE": ""}

        def library(path: str, as_: str) -> float:
            began = str(time.clock_gettime(time.CLOCK_BOOTTIME))
            done = subprocess.run(
                [sys.executable, "-c", PREDICT, path, row, as_],
                check=True,
                stdout=subprocess.PIPE,
                env={**os.environ, **bytecode, "BEGAN": began},
            )
            return float(done.stdout)

        command = ["-m", "streamrf", "predict", model, text, "--output", "-"]
        ways = {
            "command": lambda: _seconds(command, **bytecode),
            "model": lambda: library(model, "model"),
            "model of an estimator": lambda: library(estimator, "model"),
            "estimator": lambda: library(estimator, "estimator"),
        }
        for way in ways.values():
            way()
        found = {name: [way() for _ in range(scale.repeats(5))] for name, way in ways.items()}
    return {
        "seconds": {name: statistics.median(seconds) for name, seconds in found.items()},
        "all_seconds": found,
    }


def _write_digits(path: str) -> np.ndarray:
    import h5py
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = X.astype(np.uint8), y
    return X


def _seconds(arguments: list[str], **environment: str) -> float:
    """Return how long a Python process takes from its start to its end."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    return time.perf_counter() - began


WIDTHS = (1024, 2048, 4096, 8192)
ROWS = (7500, 15_000, 30_000, 60_000)

CASES: dict[str, Callable[[Scale], dict]] = {
    "start": start,
    "first-prediction": first_prediction,
    "hadamard-2^10": functools.partial(transforms, 1 << 10),
    "hadamard-2^15": functools.partial(transforms, 1 << 15),
    "hadamard-2^17": functools.partial(transforms, 1 << 17),
    **{
        f"ratio-{name}-{width}{suffix}": functools.partial(ratio, name, width, n_rows, precision)
        for width, n_rows in ((4096, 60_000), (16_384, 12_288))
        for precision, suffix in (("exact", ""), ("coarse", "-coarse"))
        for name in MAPS
    },
    **{
        f"choice-maclaurin-{width}": functools.partial(choice, "maclaurin", width, 60_000)
        for width in (4096, 16_384)
    },
    **{
        f"product-{width}": functools.partial(products, width)
        for width in (1024, 4096, 8192, 16384)
    },
    **{f"solve-{width}": functools.partial(solves, width, 1e-3) for width in (8192, 16384)},
    **{f"factor-{width}": functools.partial(factors, width) for width in (2048, 8192, 16384)},
    **{f"instructions-{width}": functools.partial(instructions, width) for width in (1024, 4096)},
    "predict-4096": functools.partial(prediction, 4096),
    "rows": rows,
    **{
        f"fit-{name}-{width}": functools.partial(fit, name, width, 60_000)
        for name in ("maclaurin", "craft", "structured")
        for width in WIDTHS
    },
    **{
        f"fit-rows-{n_rows}": functools.partial(fit, "maclaurin", 4096, n_rows)
        for n_rows in ROWS[:-1]
    },
    "fit-bits": functools.partial(
        fit, "maclaurin", 4096, 60_000, codes=srf.ErrorCorrectingCodes(n_bits=200)
    ),
    "fit-float64": functools.partial(fit, "maclaurin", 4096, 60_000, precision="float64"),
    "width-32768": functools.partial(wide, 32_768, 60_000, "float64"),
    "width-65000": functools.partial(wide, 65_000, 8_000, "int32"),
}
FUNCTIONS = {"one_length": one_length}


def main() -> None:
    """Run the cases that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*", metavar="CASE", help="beginnings of names; all")
    parser.add_argument("--output", type=Path, help=f"file of lines; {RESULTS.relative_to(ROOT)}")
    parser.add_argument("--again", action="store_true", help="measure what the file has already")
    parser.add_argument("--quick", action="store_true", help="small; writes no file of its own")
    parser.add_argument("--repeats", type=int, default=0, help="runs to take the median of")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--call", help=argparse.SUPPRESS)
    settings = parser.parse_args()
    scale = Scale(settings.quick, settings.repeats)
    if settings.call:
        function, *arguments = json.loads(settings.call)
        print(json.dumps(FUNCTIONS[function](*arguments)))
        return
    if settings.inside:
        before = benchmark.circumstances()  # the load, before this adds to it
        figures = CASES[settings.inside](scale)
        print(json.dumps({"case": settings.inside, **figures, **before}))
        return
    for word in settings.words:
        if not any(name.startswith(word) for name in CASES):
            parser.error(f"no case begins with {word!r}; there are {', '.join(CASES)}")
    names = [name for name in CASES if name.startswith(tuple(settings.words) or "")]
    if settings.list:
        print("\n".join(names))
        return
    output = settings.output or (None if settings.quick else RESULTS)
    failed = run_all(names, scale, output, settings.again)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def run_all(names: list[str], scale: Scale, output: Path | None, again: bool) -> list[str]:
    """Run cases, each in a process of its own; give the names of those that failed."""
    here = processor(benchmark.circumstances())
    done = set() if again else {
        line["case"] for line in lines(output) if processor(line) in ("", here)
    }  # fmt: skip
    failed = []
    for name in names:
        if name in done:
            print(f"{name}: in {output} already; --again measures once more", file=sys.stderr)
            continue
        command = [sys.executable, __file__, "--inside", name, "--repeats", str(scale.n_repeats)]
        command += ["--quick"] if scale.quick else []
        case = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if case.returncode:
            failed.append(name)
            continue
        print(case.stdout, end="", flush=True)
        if output is not None:
            keep(json.loads(case.stdout), output)
    return failed


if __name__ == "__main__":
    main()
