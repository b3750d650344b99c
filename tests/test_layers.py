"""Imports point down only."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

TABLE = ROOT / "design" / "0001-floors-and-contracts.md"
ROW = re.compile(r"\| (\d+) \| `(\w+)` \| ([\w`, ]*)\| ")


class House:
    """The floors of the rooms and the order of the files in each, as the design page has them."""

    def __init__(self, page: str):
        rows = [ROW.match(line) for line in page.splitlines()]
        self.floors = {row[2]: int(row[1]) for row in rows if row}
        self.files = {row[2]: re.findall(r"\w+", row[3]) for row in rows if row}

    def allows(self, importer: str, imported: str) -> bool:
        """Whether a module may import another: down a floor by the door, or back in the room."""
        (here, _, file), (there, _, other) = importer.partition("."), imported.partition(".")
        if here in ("__init__", "__main__"):
            return True
        if here == there:  # a door names all; nothing enters by its own door
            order = self.files[here]
            return bool(other) and (not file or order.index(other) < order.index(file))
        by_door = not other or there == "jit" or other in offered(there)
        return self.floors.get(there, 99) < self.floors[here] and by_door

    def knows(self, module: str) -> bool:
        """Whether the page names a module."""
        room, _, file = module.partition(".")
        if room in ("__init__", "__main__"):
            return not file
        return room in self.floors and (not file or file in self.files[room])


HOUSE = House(TABLE.read_text())


def module_name(path: Path) -> str:
    """Dotted name below streamrf: 'solve', 'features' (its __init__), 'features.base'."""
    parts = path.relative_to(ROOT / "streamrf").with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in sorted((ROOT / "streamrf").rglob("*.py"))}


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
        if base.partition(".")[0] != "streamrf":
            continue
        module = base.removeprefix("streamrf").removeprefix(".")
        deeper = f"{module}.{name}".removeprefix(".")
        if name and deeper in modules:  # `from streamrf import errors` names a module, not a value
            module = deeper
        yield module or "__init__"


def offered(room: str) -> set[str]:
    """The names in a room's `__all__`."""
    path = PATHS.get(room)
    for node in ast.parse(path.read_text()).body if path else []:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def is_import_by_name(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return ast.unparse(node.func).rpartition(".")[2] in ("__import__", "import_module")


def violations(importer: str, source: str, modules: set[str], house: House = HOUSE) -> list[str]:
    """One sentence for every import in `source` that the house does not allow."""
    if not house.knows(importer):
        return [f"{importer} is not in the table of {TABLE.name}"]
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
            if not house.knows(imported):
                found.append(f"{where}, which is not in the table of {TABLE.name}")
            elif not house.allows(importer, imported):
                found.append(f"{where}: not down, not by the door, or not before it in the room")
            elif id(node) in inside:
                found.append(f"{where} inside a function; move the import up or the code down")
    return found


@pytest.mark.parametrize("module", PATHS)
def test_imports_point_down(module):
    found = violations(module, PATHS[module].read_text(), set(PATHS))
    assert not found, "\n".join(found)


def test_the_table_names_every_file():
    named = {f"{room}.{file}" for room, files in HOUSE.files.items() for file in files}
    there = {module for module in PATHS if "." in module}
    assert named == there


def test_doors_name_what_they_offer():
    """What another room imports from a room is in its `__all__`."""
    for importer, path in PATHS.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("streamrf."):
                door = node.module.removeprefix("streamrf.")
                if HOUSE.files.get(door) and door not in ("jit", importer.partition(".")[0]):
                    missing = {alias.name for alias in node.names} - {"*"} - offered(door)
                    assert not missing, f"{importer} imports {missing} from {door}"


SMALL_PAGE = """
| 0 | `errors` | | |
| 0 | `jit` | `fwht` | |
| 1 | `kernels` | | |
| 2 | `features` | `base`, `craft`, `maclaurin` | |
| 3 | `codes` | | |
| 4 | `sums` | | |
| 5 | `model` | | |
| 6 | `estimators` | | |
| 7 | `cli` | | |
"""
SMALL_HOUSE = House(SMALL_PAGE)
SMALL_MODULES = {
    "__init__",
    *SMALL_HOUSE.floors,
    *(f"{room}.{file}" for room, files in SMALL_HOUSE.files.items() for file in files),
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
        ("model", "from streamrf.features.base import FeatureMap"),
        ("model", "def f():\n    from streamrf.codes import OneVsRest"),
        ("model", "import importlib\nimportlib.import_module('streamrf.cli')"),
        ("model", "from streamrf.attic import thing"),
        ("attic", "import numpy"),
        ("features.attic", ""),
    ],
)
def test_a_planted_violation_is_caught(importer, source):
    assert len(violations(importer, source, SMALL_MODULES, SMALL_HOUSE)) == 1


@pytest.mark.parametrize(
    ("importer", "source"),
    [
        ("model", "from streamrf.codes import OneVsRest\nfrom streamrf import errors, kernels"),
        ("model", "from . import codes\nfrom .features import FeatureMap"),
        ("features", "from streamrf.features.craft import Craft\nfrom . import maclaurin"),
        ("features", "from .base import FeatureMap\nfrom ..jit.fwht import fwht"),
        ("features.craft", "from streamrf.features.base import FeatureMap"),
        ("features.maclaurin", "from streamrf.features.craft import Craft"),
        ("features.craft", "from .base import FeatureMap\nfrom .. import kernels"),
        ("features.craft", "from streamrf.features import base"),
        ("cli", "def f():\n    import dask\n    from rich import print"),
        ("__init__", "from streamrf.estimators import A\nfrom .model import B\nfrom . import cli"),
    ],
)
def test_imports_that_point_down_pass(importer, source):
    assert violations(importer, source, SMALL_MODULES, SMALL_HOUSE) == []
