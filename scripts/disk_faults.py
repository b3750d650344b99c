#!/usr/bin/env python
"""Disks that fill up and power that fails while files are written; prints a JSON line of counts.

Full disks: `streamrf fit` with a checkpoint, statistics and a model runs under a limit of the size
of files (RLIMIT_FSIZE, whose error is that of a full disk in all but its number), at places spread
from nothing to the largest file. It must end in one sentence or well; every file must be missing or
whole, none half written may stay, and the same command without the limit must go on and end with
the bytes of a run that was never stopped. `--folder` on a small real disk tries that too.

Power cuts: every write, fsync and rename of such a run is recorded. A cut at a random moment leaves
of each file what was forced to disk and a random part of what was written since, and of the names a
random part of the changes since their folder was forced. The files found then must be whole, and a
pass that goes on from them must end with the same bytes. With `--spoil` nothing is forced to disk,
to see that the test finds what it looks for.

    scripts/disk_faults.py --places 200 --cuts 1000
"""

import argparse
import builtins
import contextlib
import errno
import io
import json
import os
import random
import resource
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from streamrf.cli import main as streamrf  # noqa: E402
from streamrf.storage import files as storage_files  # noqa: E402

OUTPUTS = ("job.checkpoint", "out.stats.h5", "out.model")
N_ROWS, N_FEATURES = 30_000, 10  # eight blocks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--places", type=int, default=200, help="at which the disk is full")
    parser.add_argument("--cuts", type=int, default=1000, help="of the power")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", help="where files are written; a temporary folder")
    parser.add_argument("--spoil", action="store_true", help="forget to force files to disk")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="disk-", dir=options.folder) as name:
        folder = Path(name)
        write_rows(folder / "rows.h5")
        truth, largest = whole_run(folder)
        counts = Counter(places=0, ended_well=0, told=0, half_written=0, unclear=0, differing=0)
        counts.update(cuts=0, torn=0, resumed=0, differing_after_cut=0)
        for place in range(options.places):
            full_disk(folder, truth, place * largest // max(1, options.places - 1), counts)
        trace, versions = recorded_run(folder, options.spoil)
        for _ in range(options.cuts):
            power_cut(folder, trace, versions, truth, draw, counts)
    print(json.dumps({"seed": options.seed, "spoil": options.spoil, **counts}))
    wrong = ("half_written", "unclear", "differing", "torn", "differing_after_cut")
    return 1 if any(counts[word] for word in wrong) else 0


def write_rows(path: Path) -> None:
    """Rows of three classes."""
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file["X"] = rng.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
        file["y"] = rng.integers(0, 3, N_ROWS)


def fit(folder: Path) -> tuple[int, str]:
    """Train with all outputs; return the exit status and what was said."""
    checkpoint, statistics, model = (str(folder / name) for name in OUTPUTS)
    words = ["fit", str(folder / "rows.h5"), "--kernel", "gaussian", "--components", "96"]
    words += ["--normalize", "standard", "--seed", "0"]
    words += ["--checkpoint", checkpoint, "--checkpoint-every", "0"]
    words += ["--statistics", statistics, "--model", model, "--json"]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        words, sys.argv = sys.argv, ["streamrf", *words]
        try:
            streamrf()
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
        finally:
            sys.argv = words
    return status, said.getvalue()


def clean(folder: Path) -> None:
    """Delete all but the rows."""
    for path in folder.iterdir():
        if path.name != "rows.h5":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def found(folder: Path) -> dict[str, bytes]:
    """Return the outputs that are there."""
    return {name: (folder / name).read_bytes() for name in OUTPUTS if (folder / name).exists()}


def whole_run(folder: Path) -> tuple[dict[str, bytes], int]:
    """Return the files that a run makes which nothing stops, and the bytes of the largest."""
    status, said = fit(folder)
    assert status == 0, said
    outputs = found(folder)
    clean(folder)
    largest = max(len(data) for data in outputs.values())
    return {name: outputs[name] for name in OUTPUTS[1:]}, largest  # a checkpoint tells the time


def full_disk(folder: Path, truth: dict[str, bytes], limit: int, counts: Counter) -> None:
    """Run once under a limit of the size of files, and once more without."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        status, said = fit(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    counts["places"] += 1
    counts["ended_well" if status == 0 else "told"] += 1
    left = [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]
    torn = any(data != truth.get(name, data) for name, data in found(folder).items())
    counts["half_written"] += bool(left) or torn
    lines = [line for line in said.splitlines() if line.strip()]
    if status and ("Traceback" in said or not any(os.strerror(errno.EFBIG) in x for x in lines)):
        counts["unclear"] += 1
        print(f"limit {limit}: {said}", file=sys.stderr)
    status, said = fit(folder)
    counts["differing"] += status != 0 or any(
        data != found(folder)[name] for name, data in truth.items()
    )
    clean(folder)


class RecordedFile(io.FileIO):
    """A file whose writes are put into a trace."""

    def __init__(self, path: str, mode: str, trace: list) -> None:
        super().__init__(path, mode)
        self._trace, self._path = trace, path

    def write(self, data) -> int:
        self._trace.append(("write", self._path, self.tell(), bytes(data)))
        return super().write(data)


class RecordedSystem:
    """The module `os`, with what changes names and forces files put into a trace."""

    def __init__(self, trace: list, spoil: bool) -> None:
        self._trace, self._spoil, self._open = trace, spoil, {}

    def __getattr__(self, name: str):
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if not self._spoil:
            self._trace.append(("fsync", path))
        os.fsync(descriptor)

    def replace(self, source: str, target: str) -> None:
        self._trace.append(("replace", source, target))
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        self._trace.append(("unlink", path))
        os.unlink(path)


def recorded_run(folder: Path, spoil: bool) -> tuple[list, dict[str, list[bytes]]]:
    """Return the trace of a run, and all whole versions of each output."""
    trace: list = []

    def opening(path, mode="r", *words, **named):
        if "x" not in mode:
            return builtins.open(path, mode, *words, **named)
        trace.append(("create", path))
        return io.BufferedWriter(RecordedFile(path, "x", trace))

    storage_files.os, storage_files.open = RecordedSystem(trace, spoil), opening
    try:
        status, said = fit(folder)
    finally:
        storage_files.os = os
        del storage_files.open
    assert status == 0, said
    clean(folder)
    versions: dict[str, list[bytes]] = {name: [] for name in OUTPUTS}
    written: dict[str, bytearray] = {}
    for event in trace:
        if event[0] == "create":
            written[event[1]] = bytearray()
        elif event[0] == "write":
            put(written[event[1]], *event[2:])
        elif event[0] == "replace":
            versions[os.path.basename(event[2])].append(bytes(written[event[1]]))
    return trace, versions


def put(file: bytearray, offset: int, data: bytes) -> None:
    """Write into the bytes of a file."""
    file.extend(bytes(max(0, offset - len(file))))
    file[offset : offset + len(data)] = data


def after_cut(trace: list, moment: int, draw: random.Random) -> dict[str, bytes]:
    """Return the names and contents of the files that a cut after some events may leave."""
    contents: dict[str, bytearray] = {}  # by the name at creation, forced to disk
    pending: dict[str, list[tuple[int, bytes]]] = {}
    changes: list[tuple] = []  # of names, in order, that the disk may not know yet
    known = 0  # of the changes that it does
    for event in trace[:moment]:
        kind, path = event[:2]
        if kind == "write":
            pending[path].append(event[2:])
        elif kind == "fsync" and path in contents:
            for offset, data in pending[path]:
                put(contents[path], offset, data)
            pending[path] = []
        elif kind == "fsync":  # of the folder
            known = len(changes)
        else:
            if kind == "create":
                contents[path], pending[path] = bytearray(), []
            changes.append(event)
    for path, writes in pending.items():
        for offset, data in writes:
            if draw.random() < 0.5:
                put(contents[path], offset, data[: draw.randint(0, len(data))])
    names: dict[str, str] = {}
    for kind, path, *target in changes[: draw.randint(known, len(changes))]:
        if kind == "create":
            names[path] = path
        elif kind == "unlink":
            names.pop(path, None)
        elif path in names:
            names[target[0]] = names.pop(path)
    return {name: bytes(contents[file]) for name, file in names.items()}


def power_cut(folder, trace, versions, truth, draw, counts) -> None:
    """Cut the power at a random moment, look at what is there, and go on."""
    counts["cuts"] += 1
    left = after_cut(trace, draw.randint(0, len(trace)), draw)
    for name, data in left.items():
        (folder / os.path.basename(name)).write_bytes(data)
    torn = [name for name, data in found(folder).items() if data not in versions[name]]
    if torn:
        counts["torn"] += 1
    else:
        counts["resumed"] += (folder / OUTPUTS[0]).exists()
        status, said = fit(folder)
        if status or any(data != found(folder)[name] for name, data in truth.items()):
            counts["differing_after_cut"] += 1
            print(said, file=sys.stderr)
    clean(folder)


if __name__ == "__main__":
    sys.exit(main())
