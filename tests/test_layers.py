"""Imports point down only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

FLOORS = {
    "errors": 0,
    "compute": 0,
    "lapack": 0,
    "stages": 0,
    "jit": 0,
    "validation": 1,
    "kernels": 1,
    "storage": 1,
    "code_search": 1,
    "degrees": 1,
    "gram": 1,
    "fields": 1,
    "labels": 1,
    "tridiagonal": 1,
    "hashing": 1,
    "preprocessing": 2,
    "features": 2,
    "sources": 2,
    "codes": 3,
    "describe": 2,
    "rounding": 2,
    "solve": 2,
    "sums": 3,
    "targets": 2,
    "scores": 2,
    "ledger": 2,
    "checkpoint": 3,
    "cluster": 3,
    "encoder": 3,
    "memory": 3,
    "holdout": 3,
    "path": 3,
    "posterior": 3,
    "probabilities": 2,
    "pruning": 3,
    "folds": 4,
    "crossvalidation": 4,
    "engine": 3,
    "model": 4,
    "shards": 4,
    "statistics": 5,
    "selection": 5,
    "facts": 6,
    "training": 6,
    "report": 7,
    "estimators": 7,
    "api": 8,
    "benchmark": 8,
    "warmup": 8,
    "cli": 9,
    "__init__": 10,
    "__main__": 10,
}


def module_name(path: Path) -> str:
    """Dotted name below streamrf: 'solve', 'features' (its __init__), 'features.base'."""
    parts = path.relative_to(ROOT / "streamrf").with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in sorted((ROOT / "streamrf").rglob("*.py"))}


def place(module: str) -> str:
    return module.split(".")[0]


def may_import(importer: str, imported: str) -> bool:
    """Down a floor; within a package, __init__ reads its siblings and they read base."""
    here, there = place(importer), place(imported)
    if here != there:
        return FLOORS[there] < FLOORS[here]
    if importer == here:
        return imported != here
    return imported == f"{here}.base" != importer


def targets(node: ast.AST, importer: str, packages: set[str], modules: set[str]) -> Iterator[str]:
    """The streamrf modules that one import statement names, dotted below streamrf."""
    if isinstance(node, ast.Import):
        bases = [(alias.name, None) for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parts = [] if importer == "__init__" else importer.split(".")
            if importer not in packages and parts:
                parts = parts[:-1]
            parts = ["streamrf", *parts]
            parts = parts[: len(parts) - node.level + 1]
            base = ".".join([*parts, base] if base else parts)
        bases = [(base, alias.name) for alias in node.names]
    else:
        return
    for base, name in bases:
        if place(base) != "streamrf":
            continue
        module = base.removeprefix("streamrf").removeprefix(".")
        deeper = f"{module}.{name}".removeprefix(".")
        if name and deeper in modules:  # `from streamrf import errors` names a module, not a value
            module = deeper
        yield module or "__init__"


def is_import_by_name(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return ast.unparse(node.func).rpartition(".")[2] in ("__import__", "import_module")


def violations(importer: str, source: str, modules: set[str]) -> list[str]:
    """One sentence for every import in `source` that the house does not allow."""
    if place(importer) not in FLOORS:
        return [f"{importer} has no floor in FLOORS"]
    packages = {module.rpartition(".")[0] for module in modules} | {"__init__"}
    tree = ast.parse(source)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    found = []
    for node in ast.walk(tree):
        if is_import_by_name(node) and importer != "__init__":  # which imports when asked
            found.append(f"{importer}:{node.lineno} imports by string")
        for imported in dict.fromkeys(targets(node, importer, packages, modules)):
            where = f"{importer}:{node.lineno} imports {imported}"
            if place(imported) not in FLOORS:
                found.append(f"{where}, which has no floor in FLOORS")
            elif not may_import(importer, imported):
                found.append(
                    f"{where}: floor {FLOORS[place(importer)]} may not import "
                    f"floor {FLOORS[place(imported)]}"
                )
            elif id(node) in inside:
                found.append(f"{where} inside a function; move the import up or the code down")
    return found


@pytest.mark.parametrize("module", PATHS)
def test_imports_point_down(module):
    found = violations(module, PATHS[module].read_text(), set(PATHS))
    assert not found, "\n".join(found)


SMALL_HOUSE = {
    "__init__",
    "cli",
    "codes",
    "errors",
    "estimators",
    "features",
    "features.base",
    "features.craft",
    "features.maclaurin",
    "jit",
    "jit.fwht",
    "kernels",
    "model",
    "sums",
}


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("kernels", "from streamrf.features import Craft"),
        ("kernels", "import streamrf.model"),
        ("kernels", "import streamrf"),
        ("kernels", "from streamrf import model"),
        ("kernels", "from streamrf import Polynomial"),
        ("kernels", "from . import model"),
        ("kernels", "from .model import Model"),
        ("sums", "from streamrf.estimators import RandomFeatureClassifier"),
        ("sums", "if TYPE_CHECKING:\n    from streamrf.model import Model"),
        ("features.base", "from streamrf.features.craft import Craft"),
        ("features.craft", "from streamrf.features.maclaurin import RandomMaclaurin"),
        ("features.craft", "from .maclaurin import RandomMaclaurin"),
        ("features.craft", "from . import maclaurin"),
        ("features.craft", "from streamrf.features import TABLE"),
        ("features.craft", "from ..model import Model"),
        ("jit.fwht", "from streamrf.errors import DataError"),
        ("model", "def f():\n    from streamrf.codes import OneVsRest"),
        ("model", "import importlib\nimportlib.import_module('streamrf.cli')"),
        ("model", "from streamrf.attic import thing"),
        ("attic", "import numpy"),
        ("attic.thing", ""),
    ],
)
def test_a_planted_violation_is_caught(importer, source):
    assert len(violations(importer, source, SMALL_HOUSE)) == 1


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("model", "from streamrf.codes import OneVsRest\nfrom streamrf import errors, kernels"),
        ("model", "from . import codes\nfrom .features.base import FeatureMap"),
        ("features", "from streamrf.features.craft import Craft\nfrom . import maclaurin"),
        ("features", "from .base import FeatureMap\nfrom ..jit.fwht import fwht"),
        ("features.craft", "from streamrf.features.base import FeatureMap"),
        ("features.craft", "from .base import FeatureMap\nfrom .. import kernels"),
        ("features.craft", "from streamrf.features import base"),
        ("cli", "def f():\n    import dask\n    from rich import print"),
        ("__init__", "from streamrf.estimators import A\nfrom .model import B\nfrom . import cli"),
    ],
)
def test_imports_that_point_down_pass(importer, source):
    assert violations(importer, source, SMALL_HOUSE) == []
