"""What the scripts share: the folder of the data sets, files of JSON lines, and of counts."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNSET = "STREAMRF_DATA is not set; data/README.md tells what it should point at"

# The sets that studies of defaults run on, and those of them that hold values.
SETS = (
    "pendigits", "usps", "nursery", "spambase", "cod_rna", "adult_a9a", "ijcnn1",
    "covtype_sample15k", "california_housing", "coil20", "flights", "mnist",
)  # fmt: skip
REGRESSION = ("flights", "california_housing")


def data_folder() -> Path:
    """Return the folder of the data sets, or leave with a message."""
    folder = os.environ.get("STREAMRF_DATA")
    if not folder:
        raise SystemExit(UNSET)
    return Path(folder)


def lines(path: Path | None) -> list[dict]:
    """Return the lines of a file; none where there is no file."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def processor(line: dict) -> str:
    """Return the compiler's name of the processor of a line; early lines have none."""
    found = re.search(r"\((\w+)\)$", line.get("processor", ""))
    return found[1] if found else ""


def keep(line: dict, path: Path) -> None:
    """Put a line into a file in place of the older one of its case and processor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {(old["case"], processor(old)): old for old in lines(path)}
    kept.pop((line["case"], ""), None)
    kept[line["case"], processor(line)] = line
    new = path.with_name(path.name + ".new")
    new.write_text("".join(json.dumps(line) + "\n" for line in kept.values()))
    new.replace(path)


def recorded(path: Path | None) -> dict[str, int]:
    """Return the counts of earlier sittings; none where there is no file."""
    return {} if path is None or not path.exists() else json.loads(path.read_text())


def record(path: Path | None, counts: Mapping[str, int]) -> None:
    """Keep counts in a file, if one was named."""
    if path is not None:
        new = path.with_name(path.name + ".new")
        new.write_text(json.dumps(dict(counts)))
        new.replace(path)
