#!/usr/bin/env python
"""The figures that the library is held to on MNIST, one JSON line each.

Errors of one pass over the 60,000 rows (unit length, polynomial kernel of degree 7), peak resident
memory for the rows as they are and ten times over (case copies), and the time of the pass beside
that of the bare product. Each case runs in a process of its own. Needs STREAMRF_DATA, the folder of
`mnist.h5`.

    python scripts/figures.py                      # everything, half an hour on two cores
    python scripts/figures.py maclaurin speed      # some of it
    python scripts/figures.py --components 1024 --up-components 4096 --copies 2   # a quick look
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# No other imports here: a process that is started inherits the peak memory of the one that starts
# it, so that the parent has to stay small. Cases import what they need.

ERRORS = ("maclaurin", "craft", "bits", "float64")
CASES = (*ERRORS, "copies", "speed")
PASSES = 3  # of which the speed is the median


def main():
    """Run the cases that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--components", type=int, default=4096)
    parser.add_argument("--up-components", type=int, default=32768)
    parser.add_argument("--copies", type=int, default=10, help="of the rows, for the case copies")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    settings = parser.parse_args()
    unknown = set(settings.cases) - set(CASES)
    if unknown:
        parser.error(f"no case {min(unknown)!r}; cases are {', '.join(CASES)}")
    if not os.environ.get("STREAMRF_DATA"):
        parser.error("STREAMRF_DATA is not set; data/README.md tells what it should point at")
    if settings.inside:
        (case,) = settings.cases
        print(json.dumps({"case": case, **run(case, settings), **circumstances()}), flush=True)
        return
    for case in settings.cases or CASES:
        command = [sys.executable, __file__, "--inside", case]
        command += ["--components", str(settings.components)]
        command += ["--up-components", str(settings.up_components)]
        command += ["--copies", str(settings.copies)]
        subprocess.run(command, check=True)


def run(case, settings):
    """Give the figures of a case, in this process."""
    if case == "speed":
        return speed(settings)
    if case == "copies":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "copies.h5"
            # in a process of its own, whose memory does not count
            script = "import sys, figures; figures.write_copies(sys.argv[1], int(sys.argv[2]))"
            here = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
            command = [sys.executable, "-c", script, str(path), str(settings.copies)]
            subprocess.run(command, check=True, env=here)
            return fit(case, settings, path, x="X", y="y")
    return fit(case, settings, mnist(), x="train/X", y="train/y")


def mnist():
    """Give the path of the data."""
    return Path(os.environ["STREAMRF_DATA"]) / "mnist.h5"


def features_of(case, settings):
    """Give the map of a case; it takes its seed from the run's, as on the command line."""
    import streamrf as srf

    kernel = srf.Polynomial(degree=7, coef0=1.0)
    if case != "craft":
        return srf.RandomMaclaurin(kernel, settings.components, h01=True)
    up = srf.RandomMaclaurin(kernel, settings.up_components, h01=True)
    return srf.Craft(up, settings.components)


def fit(case, settings, path, **names):
    """Fit, and give the test error, the time and the peak memory."""
    import streamrf as srf

    model = srf.RandomFeatureClassifier(
        features_of(case, settings),
        alpha="auto",
        normalize="l2",
        codes=srf.ErrorCorrectingCodes(n_bits=200) if case == "bits" else None,
        precision="float64" if case == "float64" else "exact",
        random_state=0,
    )
    source = srf.HDF5Source(path, **names)
    start = time.perf_counter()
    model.fit(source)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # before the test rows are read
    report = model.evaluate(srf.HDF5Source(mnist(), x="test/X", y="test/y"))
    return {
        "error_percent": round(100 * report["error"], 2),
        "peak_mb": round(peak * (1 if sys.platform == "darwin" else 1024) / 1e6, 1),
        "seconds": round(seconds, 1),
        "n_rows": model.statistics_.n_rows,
        "n_components": settings.components,
        "n_clipped": model.statistics_.n_clipped,
        "alpha": model.alpha_,
    }


def write_copies(path, copies):
    """Write the training rows several times over, in the layout of the original."""
    import h5py

    with h5py.File(mnist()) as source, h5py.File(path, "w") as target:
        for name in ("X", "y"):
            rows = source["train"][name]
            n = len(rows)
            layout = {"chunks": rows.chunks, "compression": "gzip", "compression_opts": 1}
            shape = (copies * n, *rows.shape[1:])
            copied = target.create_dataset(name, shape, rows.dtype, shuffle=True, **layout)
            values = rows[()]
            for copy in range(copies):
                copied[copy * n : (copy + 1) * n] = values


def speed(settings):
    """Give the time of the pass over that of `ssfrk` on as many rows and columns, in turn."""
    import statistics

    import numpy as np
    from scipy.linalg import lapack

    import streamrf as srf
    from streamrf.compute import computing

    width = settings.components
    source = srf.HDF5Source(mnist(), x="train/X", y="train/y")
    rng = np.random.default_rng(0)
    block = np.rint(32 * rng.standard_normal((4096, width), dtype=np.float32))
    total = np.zeros(width * (width + 1) // 2, dtype=np.float32)

    def bare():
        start = time.perf_counter()
        with computing():
            for first in range(0, source.n_rows, len(block)):
                rows = block[: min(len(block), source.n_rows - first)]
                lapack.ssfrk(
                    width, len(rows), 1.0, rows.T, 0.0, total,
                    transr="N", uplo="L", trans="N", overwrite_c=1,
                )  # fmt: skip
        return time.perf_counter() - start

    def whole(rows=None):
        start = time.perf_counter()
        features = features_of("maclaurin", settings)
        srf.accumulate(source, features, normalize="l2", rows=rows, random_state=0)
        return time.perf_counter() - start

    whole(rows=(0, 256))  # loads what is compiled
    pairs = [(whole(), bare()) for _ in range(PASSES)]
    return {
        "ratio": round(statistics.median(a / b for a, b in pairs), 3),
        "ratios": [round(a / b, 3) for a, b in pairs],
        "pass_seconds": [round(a, 2) for a, _ in pairs],
        "ssfrk_seconds": [round(b, 2) for _, b in pairs],
        "n_rows": source.n_rows,
        "n_components": width,
    }


def circumstances():
    """Give versions, thread count, commit and load."""
    import numba
    import numpy as np
    import scipy

    import streamrf as srf

    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    modules = {"streamrf": srf, "numpy": np, "scipy": scipy, "numba": numba}
    return {
        "threads": numba.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),
        "commit": commit,
        "versions": {name: module.__version__ for name, module in modules.items()},
    }


if __name__ == "__main__":
    main()
