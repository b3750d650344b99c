"""What a pass costs next to its floor, the bare product: seconds by stage, memory, error."""

import os
import platform
import subprocess
import time
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import h5py
import llvmlite.binding
import numba
import numpy as np
from numpy.typing import NDArray

from streamrf.display import peak_bytes, watching
from streamrf.errors import ParameterError
from streamrf.features import Craft, FeatureMap, RandomMaclaurin, StructuredFourier
from streamrf.jit.instructions import MAX_BYTE, MAX_SHORT, Instruction, fastest
from streamrf.jit.lapack import add_product
from streamrf.jit.threads import computing
from streamrf.kernels import Gaussian, Polynomial
from streamrf.models import Model
from streamrf.sources import Source
from streamrf.statistics import Statistics
from streamrf.training.accumulation import accumulate

FIRST_ROWS = 256  # of the pass before the others, which loads what is compiled
PRODUCT_ROWS = 4096  # multiplied at a time by the bare product
RATE_WIDTH = 4096  # features, at most, of the products whose rates are measured
RATE_RUNS = 3
RELATIVE_ALPHA = 1e-3
UP_FACTOR = 8
NEEDED = "calibrate", "read", "wait", "featurise", "targets", "gram", "pass", "solve"


def maclaurin(n_components: int) -> RandomMaclaurin:
    """Return the structured Maclaurin map with exact linear terms, of degree 7."""
    return RandomMaclaurin(Polynomial(degree=7, coef0=1.0), n_components, h01=True)


def craft(n_components: int) -> Craft:
    """Return the same, made eight times as wide and compacted."""
    return Craft(maclaurin(UP_FACTOR * n_components), n_components)


def structured_fourier(n_components: int) -> StructuredFourier:
    """Return Fourier features by Hadamard transforms."""
    return StructuredFourier(Gaussian(gamma="median"), n_components)


def measure(
    source: Source,
    features: FeatureMap,
    *,
    test: Source | None = None,
    n_pairs: int = 5,
    rows: tuple[int, int | None] | None = None,
    relative_alpha: float = RELATIVE_ALPHA,
    in_place: bool = False,
    n_threads: int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return what a pass, and the solve after it, cost next to the bare product.

    A pass begins with the file and ends with the statistics. The bare product is `ssfrk` of LAPACK
    on as many rows and columns of integers in float32. Both run in turn in this process, and
    ratios are of neighbours, so that a machine that slows down slows both.

    Parameters
    ----------
    source : with labels or values; read ``n_pairs + 1`` times
    features : an unfitted map
    test : rows to report the error on, or None
    n_pairs : passes, each with a bare product after it; 0: one pass, and nothing next to it
    rows : ``(start, stop)``, the only rows to add up
    relative_alpha : penalty of the solve, as a share of the mean square of a feature's sum
    in_place : solve in the memory of the sums
    n_threads, options : see `accumulate`

    Returns
    -------
    dict with ``seconds`` by stage, those of the median pass: ``read`` runs in a thread ahead, and
    ``wait`` is the part of it that the computation waited for; ``calibrate`` is what no other stage
    counts. ``peak_bytes`` is of the process before any bare product, the first pass and its solve
    included. ``product_rates``: see `product_rates`.
    """
    if n_pairs < 0:
        raise ParameterError(f"n_pairs={n_pairs}; expected at least 0")

    def one_pass(rows: tuple[int, int | None] | None) -> tuple[Statistics, dict[str, float]]:
        with watching() as seconds:
            began = time.perf_counter()
            found = accumulate(source, features, rows=rows, n_threads=n_threads, **options)
            seconds["pass"] = time.perf_counter() - began
        return found, seconds

    options = {"random_state": 0, **options}
    one_pass(_first_of(source, rows))
    found, seconds = one_pass(rows)
    solved, solve_seconds = _solve(found, relative_alpha, in_place, n_threads)
    peak = peak_bytes()
    figures: dict[str, Any] = {
        "n_rows": found.n_rows,
        "n_features": source.n_features,
        "n_components": found.encoder.n_components,
        "n_clipped": found.n_clipped,
        "alpha": solved.alpha,
        **({} if test is None else _error(solved, test)),
    }
    width, n_rows = found.encoder.n_components, found.n_rows
    del found, solved
    passes = [seconds]
    bare = [bare_seconds(n_rows, width, n_threads)] if n_pairs else []
    while len(passes) < n_pairs:
        passes.append(one_pass(rows)[1])
        bare.append(bare_seconds(n_rows, width, n_threads))
    whole = [seconds["pass"] for seconds in passes]
    ratios = np.array(whole) / np.array(bare) if bare else np.empty(0)
    median = passes[int(np.argsort(whole)[len(whole) // 2])]
    return figures | {
        "seconds": _by_stage(median) | {"solve": solve_seconds},
        "pass_seconds": whole,
        "ssfrk_seconds": bare,
        "product_rates": product_rates(width, n_threads) if bare else {},
        "ratio": float(np.median(ratios)) if bare else None,
        "ratios": ratios.tolist(),
        "rows_per_second": n_rows / float(np.median(whole)),
        "peak_bytes": peak,
    }


def _first_of(source: Source, rows: tuple[int, int | None] | None) -> tuple[int, int]:
    start, stop = (0, None) if rows is None else rows
    ends = [end for end in (stop, source.n_rows) if end is not None]
    return start, min([start + FIRST_ROWS, *ends])


def _solve(
    found: Statistics, relative_alpha: float, in_place: bool, n_threads: int | None
) -> tuple[Model, float]:
    """Return the model and the seconds."""
    alpha = relative_alpha * (found.alpha_scale() or 1.0)
    began = time.perf_counter()
    with computing(n_threads):
        solved = found.solve(alpha, overwrite=in_place)
    return solved, time.perf_counter() - began


def _error(model: Model, test: Source) -> dict[str, float]:
    report = model.evaluate(test)
    return {name: report[name] for name in ("error", "rmse", "r2") if name in report}


def _by_stage(seconds: dict[str, float]) -> dict[str, float]:
    """Return the stages in the order of a pass."""
    counted = sum(seconds.get(name, 0.0) for name in ("wait", "featurise", "targets", "gram"))
    seconds = seconds | {"calibrate": seconds["pass"] - counted}
    return {name: seconds[name] for name in NEEDED if name in seconds}


def product_rates(width: int, n_threads: int | None = None) -> dict[str, float]:
    """Return what a block of 4,096 rows is multiplied at, in GFLOP/s counted as n E^2, by name.

    The fastest instructions of this processor for 16 bits (``precision="exact"``) and for 8
    (``"coarse"``), the layout of their panels included, and `ssfrk`; the best of a few runs each,
    at the width given or 4,096.
    """
    width = min(width, RATE_WIDTH)
    rng = np.random.default_rng(0)
    block = rng.integers(-MAX_BYTE, MAX_BYTE + 1, (PRODUCT_ROWS, width)).astype(np.float32)
    totals, single = (
        np.zeros(width * (width + 1) // 2, dtype) for dtype in (np.float64, np.float32)
    )

    small = np.zeros((1, width))  # squares, so that all rows are summed at once

    def by(instruction: Instruction) -> None:
        panels = instruction.panels(block)
        instruction.pack(block, panels)
        instruction.add(panels, width, totals, small)

    found = [fastest(limit) for limit in (MAX_SHORT, MAX_BYTE)]
    steps = {row.name: partial(by, row) for row in found if row is not None}
    steps["ssfrk"] = partial(add_product, block, single)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    with computing(n_threads):
        for _ in range(1 + RATE_RUNS):
            for name, step in steps.items():
                began = time.perf_counter()
                step()
                seconds[name].append(time.perf_counter() - began)
    return {name: block.size * width / min(times[1:]) / 1e9 for name, times in seconds.items()}


def bare_seconds(n_rows: int, width: int, n_threads: int | None = None) -> float:
    """Return the seconds of `ssfrk` alone on integers (n_rows, width) in float32."""
    rng = np.random.default_rng(0)
    block = np.rint(32 * rng.standard_normal((min(PRODUCT_ROWS, n_rows), width), dtype=np.float32))
    total = np.zeros(width * (width + 1) // 2, dtype=np.float32)
    with computing(n_threads):
        began = time.perf_counter()
        for first in range(0, n_rows, len(block)):
            add_product(block[: n_rows - first], total)
        return time.perf_counter() - began


def write_rows(path: str | os.PathLike, n_rows: int, n_features: int = 784) -> None:
    """Write made rows as images are stored: bytes, two thirds of them 0, gzip by chunks.

    ``X`` is uint8 (n_rows, n_features): ten sparse patterns with noise; ``y`` names the pattern.
    ``test/X`` and ``test/y`` are a tenth as many more.
    """
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 256, (10, n_features)) * (rng.random((10, n_features)) < 1 / 3)
    with h5py.File(path, "w") as file:
        _write_patterns(file, patterns, n_rows, rng)
        _write_patterns(file.create_group("test"), patterns, max(1, n_rows // 10), rng)


def _write_patterns(
    group: h5py.Group, patterns: NDArray[np.int64], n_rows: int, rng: np.random.Generator
) -> None:
    n_classes, n_features = patterns.shape
    chunk = min(1024, n_rows)
    layout: Any = {"compression": "gzip", "compression_opts": 4, "shuffle": True}
    layout["chunks"] = (chunk, n_features)
    X = group.create_dataset("X", (n_rows, n_features), np.uint8, **layout)
    y = rng.integers(0, n_classes, n_rows)
    group["y"] = y
    for start in range(0, n_rows, chunk):
        rows = patterns[y[start : start + chunk]]
        noise = rng.integers(-60, 61, rows.shape)
        X[start : start + chunk] = np.where(rows > 0, np.clip(rows + noise, 0, 255), 0)


def circumstances() -> dict[str, Any]:
    """Return what figures depend on: processor, threads, load, versions and commit."""
    libraries = ("numpy", "scipy", "numba", "scikit-learn", "h5py")
    return {
        "processor": _processor(),
        "threads": numba.config.NUMBA_NUM_THREADS,  # to ask Numba itself would start them
        "load": round(os.getloadavg()[0], 2),
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in libraries},
        "commit": commit(),
    }


def _processor() -> str:
    """Return its model and, as names of models may hide it, the compiler's name of its kind."""
    kind = llvmlite.binding.get_host_cpu_name()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.partition(':')[2].strip()} ({kind})"
    return f"{platform.machine()} ({kind})"


def commit() -> str | None:
    """Return the commit of the checkout that this is run from; None where installed."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "streamrf", "scripts")  # results may have
    return (git("rev-parse", "--short", "HEAD") + "-dirty" * bool(changed)) or None
