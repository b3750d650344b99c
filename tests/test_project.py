"""What must hold for the repository as a whole."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import streamrf

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
    heavy = {"dask", "distributed", "matplotlib", "pyarrow", "rich", "typer", "zarr"}
    program = f"import sys, streamrf; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
