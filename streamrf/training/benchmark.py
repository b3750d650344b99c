"""What a pass costs beside its floor, the bare product: seconds by stage, memory, error."""

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import h5py
import numba
import numpy as np
import scipy
import sklearn

from streamrf.errors import ParameterError
from streamrf.features import FeatureMap
from streamrf.jit.lapack import add_product
from streamrf.jit.threads import computing
from streamrf.sources import Source
from streamrf.statistics import Statistics
from streamrf.timing import watching
from streamrf.training.accumulation import accumulate

FIRST_ROWS = 256  # of the pass before the others, which loads what is compiled
PRODUCT_ROWS = 4096  # multiplied at a time by the bare product
RELATIVE_ALPHA = 1e-3
NEEDED = "calibrate", "read", "wait", "featurise", "targets", "gram", "pass", "solve"


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
    """Give what a pass, and the solve after it, cost beside the bare product.

    A pass begins with the file and ends with the statistics. The bare product is `ssfrk` of LAPACK
    on as many rows and columns of whole numbers in float32. Both run in turn in this process, and
    ratios are of neighbours, so that a machine that slows down slows both.

    Parameters
    ----------
    source : with labels or values; read ``n_pairs + 1`` times
    features : an unfitted map
    test : rows to give the error on, or None
    n_pairs : passes, each with a bare product after it; 0: one pass, and nothing beside it
    rows : ``(start, stop)``, the only rows to add up
    relative_alpha : penalty of the solve, as a share of the mean square of a feature's sum
    in_place : solve in the memory of the sums
    n_threads : None means all
    options : see `accumulate`

    Returns
    -------
    dict with ``seconds`` by stage, those of the median pass: ``read`` runs in a thread ahead, and
    ``wait`` is what of it the computation waited for; ``calibrate`` is what no other stage counts.
    ``peak_bytes`` is of the process before any bare product, the first pass and its solve included.
    """
    if n_pairs < 0:
        raise ParameterError(f"n_pairs={n_pairs}; expected at least 0")

    def one_pass(rows):
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
        "ratio": float(np.median(ratios)) if bare else None,
        "ratios": ratios.tolist(),
        "rows_per_second": n_rows / float(np.median(whole)),
        "peak_bytes": peak,
    }


def _first_of(source: Source, rows: tuple[int, int | None] | None) -> tuple[int, int]:
    start, stop = (0, None) if rows is None else rows
    ends = [end for end in (stop, source.n_rows) if end is not None]
    return start, min([start + FIRST_ROWS, *ends])


def _solve(found: Statistics, relative_alpha: float, in_place: bool, n_threads: int | None):
    """Give the model and the seconds."""
    alpha = relative_alpha * (found.alpha_scale() or 1.0)
    began = time.perf_counter()
    with computing(n_threads):
        solved = found.solve(alpha, overwrite=in_place)
    return solved, time.perf_counter() - began


def _error(model, test: Source) -> dict[str, float]:
    report = model.evaluate(test)
    return {name: report[name] for name in ("error", "rmse", "r2") if name in report}


def _by_stage(seconds: dict[str, float]) -> dict[str, float]:
    """Give the stages in the order of a pass."""
    counted = sum(seconds.get(name, 0.0) for name in ("wait", "featurise", "targets", "gram"))
    seconds = seconds | {"calibrate": seconds["pass"] - counted}
    return {name: seconds[name] for name in NEEDED if name in seconds}


def bare_seconds(n_rows: int, width: int, n_threads: int | None = None) -> float:
    """Give the seconds of `ssfrk` alone on whole numbers (n_rows, width) in float32."""
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

    ``X`` is uint8 (n_rows, n_features): ten sparse patterns with noise; ``y`` tells the pattern.
    ``test/X`` and ``test/y`` are a tenth as many more.
    """
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 256, (10, n_features)) * (rng.random((10, n_features)) < 1 / 3)
    with h5py.File(path, "w") as file:
        _write_patterns(file, patterns, n_rows, rng)
        _write_patterns(file.create_group("test"), patterns, max(1, n_rows // 10), rng)


def _write_patterns(group, patterns, n_rows, rng):
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


def peak_bytes() -> int:
    """Give the most memory that this process has had resident.

    From the kernel's mark of this program: the mark of `getrusage` goes over from the process that
    starts another.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    raise OSError("/proc/self/status names no VmHWM")


def forget_peak() -> None:
    """Let `peak_bytes` count from what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def circumstances() -> dict[str, Any]:
    """Give what figures depend on: processor, threads, load, versions and commit."""
    modules = {"numpy": np, "scipy": scipy, "numba": numba, "scikit-learn": sklearn, "h5py": h5py}
    return {
        "processor": _processor(),
        "threads": numba.get_num_threads(),
        "load": round(os.getloadavg()[0], 2),
        "versions": {"python": platform.python_version()}
        | {name: module.__version__ for name, module in modules.items()},
        "commit": commit(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def commit() -> str | None:
    """Give the commit of the checkout that this is run from; None where installed."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None

    def git(*words):
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "streamrf", "scripts")  # results may have
    return (git("rev-parse", "--short", "HEAD") + "-dirty" * bool(changed)) or None
