"""What must hold for the repository as a whole."""

import ast
import hashlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

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
    assert PROJECT["version"] in headings


def test_messages_name_the_extras_there_are():
    sources = "".join(path.read_text() for path in (ROOT / "streamrf").rglob("*.py"))
    pages = "".join(path.read_text() for path in [ROOT / "README.md", *ROOT.glob("docs/*.md")])
    extras = set(PROJECT["optional-dependencies"])
    assert set(re.findall(r"streamrf\[(\w+)\]", sources)) == extras - {
        "fast"
    }  # which nothing needs
    assert set(re.findall(r"(?:streamrf|\.)\[(\w+)\]'", pages)) <= extras


def test_import_is_light():
    optional = {"dask", "distributed", "matplotlib", "pyarrow", "rich", "typer", "zarr"}
    slow = {"numba", "scipy", "sklearn", "h5py"}
    program = f"""
import sys, streamrf
print(sorted({optional | slow} & set(sys.modules)))
import sklearn.utils  # which imports pandas where it is installed, and pandas pyarrow
before = set(sys.modules)
streamrf.Polynomial
print(sorted({optional} & set(sys.modules) - before))
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


def test_the_citation_is_of_this_version():
    """So that both change together; `date-released` is the date in the changelog."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    heading = f"## [{citation['version']}] - {citation['date-released']}"
    assert heading in (ROOT / "CHANGELOG.md").read_text().splitlines()


def test_the_wheel_says_that_it_is_typed(tmp_path):
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="of the group `test`")
    (built,) = wheel.WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    names = zipfile.ZipFile(built).namelist()
    assert {"streamrf/py.typed", "streamrf/jit/gram.py"} <= set(names)
    assert f"streamrf-{PROJECT['version']}.dist-info/METADATA" in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"streamrf"}


def test_two_builds_have_the_same_bytes(tmp_path):
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="of the group `test`")
    sdist = pytest.importorskip("hatchling.builders.sdist")
    for kind in (wheel.WheelBuilder, sdist.SdistBuilder):
        digests = set()
        for number in range(2):
            (built,) = kind(str(ROOT)).build(directory=str(tmp_path / str(number)))
            digests.add(hashlib.sha256(Path(built).read_bytes()).hexdigest())
            time.sleep(1.1 * (number == 0))  # time stamps count seconds
        assert len(digests) == 1


def test_hooks_run_what_the_test_script_runs():
    """With the tools of .venv, which need no network."""
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local"
    commands = [shlex.split(hook["entry"]) for hook in local["hooks"]]
    assert {hook["language"] for hook in local["hooks"]} == {"system"}
    assert {program.rpartition("/")[0] for program, *_ in commands} == {".venv/bin"}
    script = (ROOT / "scripts" / "test").read_text().splitlines()
    for program, *arguments in commands:
        start = " ".join([program.rpartition("/")[2], *arguments[:1]])
        assert any(line.startswith(start) for line in script), start


def test_contributing_names_what_exists():
    """Every path in backticks, and every name that a table row says a file has."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    spans = re.findall(r"`([^`\n]+)`", text)
    paths = [span for span in spans if re.fullmatch(r"[\w.*/-]+(/|\.)[\w*-]+", span)]
    assert len(set(paths)) > 30
    assert [path for path in paths if not list(ROOT.glob(path))] == []
    tables = {
        "streamrf/features/base.py": ("FeatureMap", "draw", "map_lanes", "check_drawn"),
        "streamrf/kernels/dot_product.py": ("DotProductKernel", "function", "series"),
        "streamrf/kernels/shift_invariant.py": ("ShiftInvariantKernel", "frequencies"),
        "streamrf/sources/base.py": ("Source", "stores", "settings", "blocks", "split", "sample"),
        "streamrf/cli/maps.py": ("KERNELS",),
        "streamrf/training/warmup.py": ("_maps",),
        "tests/cases.py": ("MAPS", "KERNELS", "SOURCES"),
    }
    for path, names in tables.items():
        code = (ROOT / path).read_text()
        assert path in paths
        for name in names:
            assert f"`{name}`" in text, name
            assert re.search(rf"^ *(def |class |){name}\b", code, flags=re.M), (path, name)


@pytest.mark.parametrize("script", sorted((ROOT / "scripts").rglob("*.py")), ids=lambda p: p.stem)
def test_scripts_import_names_that_the_library_has(script):
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("streamrf"):
            module = importlib.import_module(node.module)
            for name in (alias.name for alias in node.names):
                is_there = hasattr(module, name) or importlib.util.find_spec(
                    f"{node.module}.{name}"
                )
                assert is_there, (node.module, name)
