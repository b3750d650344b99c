#!/usr/bin/env python
"""Loads spoilt files, and uses those that load; prints a JSON line of what came of them.

Models, statistics and checkpoints, of every feature map, are mutated (tests/mutations.py): half of
them blindly, half with the digest made right again. A child process under a memory limit
(RLIMIT_AS) loads each, and what loads it uses: a model predicts, statistics solve, a checkpoint
gives its pass. A file must load or raise a `StreamrfError`. Whatever else happens is a bug, and the
file is kept in `--keep`: another exception, a child that dies (a crash), or one that takes longer
than `--seconds` (a hang).

    scripts/fuzz.py --files 10000

With `--sources` the files are those that rows come from instead, of every format, spoilt blindly
(fuzz_sources.py), and rows are read. With `--record FILE` the counts are kept, and the same command
goes on from them with other files.
"""

import argparse
import contextlib
import json
import os
import random
import resource
import selectors
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "fixtures")]

import numpy as np  # noqa: E402
from shared import record, recorded  # noqa: E402

import cases  # noqa: E402
import mutations  # noqa: E402
import streamrf as srf  # noqa: E402
from streamrf import storage  # noqa: E402
from streamrf.engine import Checkpoint  # noqa: E402
from streamrf.errors import CheckpointError, StreamrfError  # noqa: E402
from streamrf.jit.threads import computing  # noqa: E402
from streamrf.report import facts  # noqa: E402
from streamrf.storage.fields import Fields, loading  # noqa: E402
from streamrf.training import finish  # noqa: E402
from streamrf.training.passes import Pass  # noqa: E402

ORIGINAL = "original"
OUTCOMES = ("loaded", "refused", "other_exception", "crash", "hang")
N, D = 80, 6
ROWS = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
LABELS = np.array(["a", "bc", "d"])[(ROWS[:, 0] > 0).astype(int) + (ROWS[:, 1] > 0)]
VALUES = ROWS[:, :2].astype(np.float64)
SOURCE = srf.ArraySource(ROWS, LABELS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", action="store_true", help="files of rows instead of ours")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=20.0, help="a file may take")
    parser.add_argument("--memory", type=int, default=256, help="MiB that a file may take")
    parser.add_argument("--keep", type=Path, help="folder for files that are bugs")
    parser.add_argument("--record", type=Path, help="file of counts, to go on from")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        return serve(options)
    seed = random.randrange(2**32) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        originals = kind_of(options).write_originals(Path(folder))
        counts = fuzz(originals, Path(folder), random.Random(seed), options)
    print(json.dumps({"seed": seed, "files": options.files, "originals": len(originals), **counts}))
    return 1 if any(counts[outcome] for outcome in OUTCOMES[2:]) else 0


def kind_of(options) -> Any:
    """Return what writes the files that are spoilt, and loads them: a module."""
    if not options.sources:
        return sys.modules[__name__]
    import fuzz_sources

    return fuzz_sources


def fuzz(originals: list[Path], folder: Path, draw: random.Random, options) -> dict[str, int]:
    """Spoil one file after the other; count what the child makes of them."""
    counts = Counter(dict.fromkeys(("blind", "sealed", *OUTCOMES, "refused_in_use"), 0))
    counts.update(recorded(options.record))
    child = Child(folder, options)
    for number in range(counts["blind"] + counts["sealed"], options.files):
        group = "blind" if options.sources else ("blind", "sealed")[number % 2]
        mutate = draw.choice(mutations.BLIND if group == "blind" else mutations.SEALED)
        path = spoilt(draw.choice(originals), folder, mutate, draw)
        outcome, told = child.load(path)
        counts[group] += 1
        counts[outcome] += 1
        counts["refused_in_use"] += told == "refused in use"
        if number % 1000 == 999:
            record(options.record, counts)
        if outcome not in ("loaded", "refused"):
            print(f"file {number} ({mutate.__name__}): {outcome}\n{told}", file=sys.stderr)
            if options.keep is not None:
                options.keep.mkdir(exist_ok=True)
                copy(path, options.keep / f"{number}-{outcome}{path.suffix}")
    child.end()
    record(options.record, counts)
    return dict(counts)


def spoilt(original: Path, folder: Path, mutate, draw: random.Random) -> Path:
    """Write a copy of a file that is mutated, or of a folder with one such file."""
    path = folder / f"spoilt{original.suffix}"
    shutil.rmtree(path, ignore_errors=True)
    copy(original, path)
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    chosen = draw.choice(files)
    chosen.write_bytes(mutate(chosen.read_bytes(), draw))
    return path


def copy(path: Path, to: Path) -> None:
    """Copy a file or a folder."""
    (shutil.copytree if path.is_dir() else shutil.copyfile)(path, to)


class Child:
    """The process that loads, started again after it has died or hung."""

    def __init__(self, folder: Path, options):
        self._folder = folder
        self._options = options
        self._start()

    def _start(self):
        words = ["--child", self._folder, "--memory", str(self._options.memory)]
        words += ["--sources"] * self._options.sources
        self._process = subprocess.Popen(
            [sys.executable, __file__, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        assert self._process.stdout.readline() == "ready\n"

    def load(self, path: Path) -> tuple[str, str]:
        """Return what came of a file, and what there is to tell."""
        self._process.stdin.write(f"{path}\n")
        self._process.stdin.flush()
        if not self._selector.select(self._options.seconds):
            self.end()
            self._start()
            return "hang", f"longer than {self._options.seconds} s"
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self.end()
            self._start()
            return "crash", f"the process ended with status {status}"
        return tuple(json.loads(line))

    def end(self):
        """Stop the process."""
        self._selector.close()
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


def serve(options) -> int:
    """Load the files named on standard input; answer by a line each."""
    load = kind_of(options).load
    if not options.sources:
        warnings.simplefilter("error")
    with computing(1):
        for path in sorted(options.child.glob(f"{ORIGINAL}*")):  # compiles what a file needs
            outcome, told = outcome_of(path, load)
            assert outcome == "loaded", told
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + (options.memory << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        print("ready", flush=True)
        for line in sys.stdin:
            print(json.dumps(outcome_of(Path(line.rstrip("\n")), load)), flush=True)
    return 0


def outcome_of(path: Path, load) -> tuple[str, str]:
    """Load a file, and use what it holds."""
    try:
        held, use = load(path)
    except StreamrfError:
        return "refused", ""
    except Exception:
        return "other_exception", traceback.format_exc()
    refused = ""
    for question in use:
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                question(held)
        except StreamrfError:
            refused = "refused in use"
        except Exception:
            return "other_exception", "in use: " + traceback.format_exc()
    return "loaded", refused


def load(path: Path):
    """Return what a file of any kind holds, and all that can be asked of it."""
    kind = storage.read_kind(path)
    if kind == "model":
        found = srf.load_model(path)
        return found if isinstance(found, srf.Model) else found.model_, MODEL_QUESTIONS
    if kind == "checkpoint":
        with contextlib.suppress(CheckpointError):  # of another job, which all are
            Checkpoint(path, 0.0, {}, SOURCE).read()
        with loading(path):
            fields = Fields(storage.read(path, "checkpoint"), str(path))
            return Pass.from_tree(fields.tree("state")), PASS_QUESTIONS
    return srf.load_statistics(path), STATISTICS_QUESTIONS


def rows_for(model) -> np.ndarray:
    return np.resize(ROWS, (20, model.n_features)) / 10


def evaluate(model) -> None:
    rows = rows_for(model)
    y = np.zeros((20, len(model.intercept))) if model.labels is None else model.predict(rows)
    model.evaluate(srf.ArraySource(rows, y))


MODEL_QUESTIONS = (
    lambda model: model.predict(rows_for(model)),
    lambda model: model.decision_function(rows_for(model)),
    lambda model: model.predict_proba(rows_for(model)),
    lambda model: model.predict(rows_for(model), return_std=True),
    lambda model: model.coef_variances,
    lambda model: model.restrict_classes([] if model.labels is None else model.labels[:2]),
    evaluate,
    facts.of_model,
)
STATISTICS_QUESTIONS = (
    lambda sums: sums.solve(1.0),
    lambda sums: sums.solve(0.0),
    lambda sums: sums.solve(1.0, uncertainty=True),
    lambda sums: sums.path([0.1, 1.0]),
    lambda sums: sums.path().model(),
    lambda sums: sums.cross_validate([0.1, 1.0]),
    lambda sums: sums.prune(2),
    lambda sums: sums.select([0]).solve(1.0),
    lambda sums: sums + sums,
    lambda sums: sums - sums,
    lambda sums: sums.scale(0.5).solve(1.0),
    lambda sums: sums.without_folds().solve(1.0),
    lambda sums: sums.with_totals("int32"),
    lambda sums: sums.relabel({}),
    lambda sums: (sums.weight, sums.rounding_alpha, sums.alpha_scale(), sums.alpha_grid()),
    facts.of_statistics,
)
PASS_QUESTIONS = (
    lambda pass_: finish(pass_.fresh(), "auto"),
    lambda pass_: finish(pass_.fresh(), 1.0),
    lambda pass_: pass_.fresh().join(),
    lambda pass_: pass_.fresh().sealed(),
)


def write_originals(folder: Path) -> list[Path]:
    """Write files of every kind and map, beside copies of the fixtures."""
    written: list[Path] = []

    def place() -> Path:
        written.append(folder / f"{ORIGINAL}{len(written):03}")
        return written[-1]

    for path in sorted((ROOT / "tests" / "fixtures").rglob("*.*")):
        if path.suffix in (".h5", ".checkpoint"):
            place().write_bytes(path.read_bytes())
    rows = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
    source = srf.ArraySource(rows, LABELS)
    for case in cases.MAPS:
        features = case.make(n_components=16, random_state=0)
        positive = srf.ArraySource(np.abs(rows), LABELS)  # additive kernels take no other
        srf.accumulate(positive, features, random_state=0).solve(1.0).save(place())
    bits = {"codes": srf.ErrorCorrectingCodes(2), "classes": np.unique(LABELS)}
    kinds: list[tuple[np.ndarray, dict[str, Any]]] = [
        (LABELS, {}),
        (LABELS, bits),
        (LABELS, {"totals": "int32"}),
        (VALUES, {"regression": True, "folds": 2}),
    ]
    for y, settings in kinds:
        source = srf.ArraySource(rows, y, 1 + rows[:, 0] ** 2)
        srf.accumulate(source, features, random_state=0, **settings).save(place())
        held = {"hold_out": True, "checkpoint": place(), "random_state": 0, **settings}
        srf.accumulate(source, features, **held)
    for precision in ("coarse", "float64"):
        settings = {"precision": precision, "regression": True, "random_state": 0}
        sums = srf.accumulate(srf.ArraySource(rows, VALUES), features, **settings)
        sums.save(place())
        sums.scale(0.5).select([3, 1]).save(place())
        sums.solve([0.5, 1.0]).save(place())
        sums.select([0, 2]).solve(1.0, uncertainty=True).save(place())
    classifier = srf.RandomFeatureClassifier(features, alpha="auto", random_state=0)
    classifier.fit(rows, LABELS).save(place())
    return written


if __name__ == "__main__":
    sys.exit(main())
