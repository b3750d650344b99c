"""What must hold for the repository as a whole."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import streamrf
from streamrf import kernels

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """Every file of the project: tracked, or new and not ignored."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git repository")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


def test_no_place_of_one_machine_is_mentioned(files):
    private = [b"/wo" + b"rk/", b".." + b"/shared"]
    hits = [
        str(path.relative_to(ROOT))
        for path in files
        if path != ROOT / ".ci" / "run" and any(place in path.read_bytes() for place in private)
    ]
    assert hits == []


def test_scripts_are_executable(files):
    scripts = [path for path in files if path.read_bytes().startswith(b"#!")]
    assert {ROOT / ".ci/run", ROOT / "scripts/demo", ROOT / "scripts/test"} <= set(scripts)
    assert [str(path) for path in scripts if not os.access(path, os.X_OK)] == []


def test_one_version():
    assert PROJECT["version"] == streamrf.__version__


def test_the_changelog_tells_of_this_version():
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert headings[0] in ("Unreleased", PROJECT["version"])


def test_import_is_light():
    optional = {"dask", "distributed", "matplotlib", "pyarrow", "rich", "typer", "zarr"}
    slow = {"numba", "scipy", "sklearn", "h5py"}
    program = f"""
import sys, streamrf
print(sorted({optional | slow} & set(sys.modules)))
streamrf.Polynomial
print(sorted({optional} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.split("\n"), done.stderr) == (["[]", "[]", ""], "")


def test_names_come_when_they_are_asked_for():
    assert streamrf.Polynomial is kernels.Polynomial
    assert streamrf.kernels is kernels
    assert {"Polynomial", "accumulate", "__version__"} <= set(dir(streamrf))
    everything = {}
    exec("from streamrf import *", everything)
    assert set(streamrf.__all__) == set(everything) - {"__builtins__"}
    assert everything["Craft"] is streamrf.Craft
    for name in ("Kraft", "__kraft__", "np"):
        with pytest.raises(AttributeError, match=f"'streamrf' has no attribute '{name}'"):
            getattr(streamrf, name)
