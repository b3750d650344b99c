#!/usr/bin/env python
"""streamrf next to what one would do otherwise, in turn, one JSON line a contest.

Each side runs in an environment of its own, which this makes under `.rivals/` the first time, and
each run in a process of its own. A side first chooses its settings on some of the training rows,
which is not timed; then all sides run in turn, several times. Seconds are those from the file on
disk to the trained model. Needs STREAMRF_DATA, and the network for the first time.

    scripts/rivals/run.py                        # every contest, about four hours on two cores
    scripts/rivals/run.py gaussian --repeats 3   # one of them
    scripts/rivals/run.py --quick                # few rows and features, to see that all is well

A contest goes on where it was stopped: its runs are kept in `.rivals/` until it is done.
"""

import argparse
import json
import statistics
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from streamrf.training import benchmark

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from shared import ROOT, data_folder, keep, lines  # noqa: E402

PLACE = ROOT / ".rivals"
RESULTS = ROOT / "docs" / "benchmarks" / "rivals.jsonl"
OURS = "streamrf"

ENVIRONMENTS = {
    "scikit-learn": ("scikit-learn==1.9.1", "h5py==3.16.0"),
    "scikit-learn-intelex": (
        "scikit-learn-intelex==2026.2.0",
        "scikit-learn==1.9.1",
        "h5py==3.16.0",
    ),
    "lightgbm": ("lightgbm==4.6.0", "scikit-learn==1.9.1", "h5py==3.16.0"),
    "xrfm": ("xrfm==0.4.5", "scikit-learn==1.9.1", "h5py==3.16.0"),
    "rfflearn": ("rfflearn==2024.10.28", "scikit-learn==1.9.1", "h5py==3.16.0"),
}


@dataclass(frozen=True)
class Side:
    """One way to do it.

    Parameters
    ----------
    script : in this folder
    environment : of `ENVIRONMENTS`, or `OURS`: the one that runs this
    settings : what the contest fixes
    most_rows : training rows, None for all
    most_runs : how often a slow side runs, None for every round
    """

    script: str
    environment: str
    settings: dict
    most_rows: int | None = None
    most_runs: int | None = None


@dataclass(frozen=True)
class Contest:
    """Sides on one data set; the first is ours."""

    data: str
    sides: dict[str, Side]


WIDTH = 4096
FLIGHTS = {"width": 1024, "tune_rows": 100_000}  # few rows choose too smooth a kernel for many
POLYNOMIAL = {"map": "polynomial", "scale": "l2", "width": WIDTH}
COLUMNS = FLIGHTS | {"scale": "standard"}


def trees(**fixed) -> dict[str, Side]:
    """Return the sides of gradient-boosted trees."""
    return {
        "trees, scikit-learn": Side(
            "boosted_trees.py", "scikit-learn", {"library": "scikit-learn"} | fixed
        ),
        "trees, LightGBM": Side("boosted_trees.py", "lightgbm", {"library": "lightgbm"} | fixed),
    }


def machine() -> dict[str, Side]:
    """Return the side of recursive feature machines, of two leaves of 10,000 rows.

    All rows of MNIST were stopped after ten minutes, 100,000 of the flights after fifteen.
    """
    settings = {"leaf": 10_000}
    return {"xRFM": Side("recursive_machine.py", "xrfm", settings, most_rows=20_000, most_runs=1)}


def beside_trees(data: str) -> Contest:
    """Return the contest with what tables are mostly left to."""
    return Contest(data, {OURS: Side("ours.py", OURS, {"map": "auto"}), **trees(), **machine()})


def stream(data: str) -> Contest:
    """Return the contest on millions of rows of columns."""
    return Contest(
        data,
        {
            OURS: Side("ours.py", OURS, {"map": "auto"}),
            "streamrf, gamma named": Side("ours.py", OURS, {"map": "structured"} | COLUMNS),
            "incremental ridge": Side(
                "incremental_ridge.py",
                "scikit-learn-intelex",
                {"map": "gaussian", "block": 4096} | COLUMNS,
            ),
            "stochastic gradient": Side("stochastic_gradient.py", "scikit-learn", FLIGHTS),
            **trees(tune_rows=FLIGHTS["tune_rows"]),
        },
    )


CONTESTS = {
    "gaussian": Contest(
        "mnist",
        {
            OURS: Side("ours.py", OURS, {"map": "structured", "scale": "l2", "width": WIDTH}),
            "incremental ridge": Side(
                "incremental_ridge.py",
                "scikit-learn-intelex",
                {"map": "gaussian", "scale": "pixels", "width": WIDTH, "block": 4096},
            ),
        },
    ),
    "polynomial": Contest(
        "mnist",
        {
            OURS: Side("ours.py", OURS, POLYNOMIAL),
            "streamrf, coarse": Side("ours.py", OURS, POLYNOMIAL | {"precision": "coarse"}),
            "incremental ridge": Side(
                "incremental_ridge.py",
                "scikit-learn-intelex",
                POLYNOMIAL | {"block": 10_000},
            ),
            "incremental ridge, small blocks": Side(
                "incremental_ridge.py",
                "scikit-learn-intelex",
                POLYNOMIAL | {"block": 512},
            ),
            "ridge in memory": Side(
                "ridge_in_memory.py", "scikit-learn", {"width": WIDTH, "block": 1024}
            ),
        },
    ),
    "flights": Contest(
        "flights",
        {
            OURS: Side("ours.py", OURS, {"map": "structured"} | COLUMNS),
            "stochastic gradient": Side("stochastic_gradient.py", "scikit-learn", FLIGHTS),
            "rfflearn": Side("in_memory_fourier.py", "rfflearn", FLIGHTS),
        },
    ),
    "trees": beside_trees("mnist"),
    "covtype": beside_trees("covtype_sample15k"),
    "flights-stream": Contest("flights", stream("flights").sides | machine()),
    "moons": stream("moons"),
    "moons-turned": stream("moons-turned"),
}


def main() -> None:
    """Run the contests that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("contests", nargs="*", metavar="CONTEST", help=f"of {', '.join(CONTESTS)}")
    parser.add_argument("--repeats", type=int, default=5, help="runs of every side; 5")
    parser.add_argument("--output", type=Path, help=f"file of lines; {RESULTS.relative_to(ROOT)}")
    parser.add_argument("--quick", action="store_true", help="small; writes no file of its own")
    parser.add_argument("--again", action="store_true", help="begin anew, settings included")
    parser.add_argument(
        "--memory", type=float, default=16.0, help="GiB that a side may use before it fails; 16"
    )
    settings = parser.parse_args()
    for name in settings.contests:
        if name not in CONTESTS:
            parser.error(f"no contest {name!r}; there are {', '.join(CONTESTS)}")
    data = data_folder()
    output = settings.output or (None if settings.quick else RESULTS)
    for name in settings.contests or CONTESTS:
        line = contest(name, data, settings)
        print(json.dumps(line), flush=True)
        if output is not None:
            keep(line, output)


def contest(name: str, folder: Path, settings: argparse.Namespace) -> dict:
    """Run one contest, or what is left of it, and sum it up."""
    journal = Journal(PLACE / f"{name}{'-quick' if settings.quick else ''}.jsonl", settings.again)
    rules = CONTESTS[name]
    data = prepared(rules.data, folder)
    chosen = {}
    for side in rules.sides:
        chosen[side] = journal.once(f"{side}: settings", tuned, rules, side, data, settings)
    rounds = []
    for number in range(settings.repeats):
        runs = {}
        for side, rule in rules.sides.items():  # in turn: a machine that slows down slows all
            if rule.most_runs is not None and number >= rule.most_runs:
                continue
            runs[side] = journal.once(
                f"{side}: run {number}", run, rules, side, chosen[side], data, settings
            )
        rounds.append(runs)
    return summary(name, rules, rounds)


class Journal:
    """What has been done of a contest, one line each.

    Parameters
    ----------
    path : of the file
    anew : forget what it holds
    """

    def __init__(self, path: Path, anew: bool):
        path.parent.mkdir(parents=True, exist_ok=True)
        if anew:
            path.unlink(missing_ok=True)
        self._path = path
        self._done = dict(lines(path))

    def once(self, what: str, work, *arguments):
        """Return what ``work(*arguments)`` gave, the first time it was called for."""
        if what not in self._done:
            print(f"{self._path.stem}, {what}", file=sys.stderr, flush=True)
            self._done[what] = work(*arguments)
            with self._path.open("a") as file:
                file.write(json.dumps([what, self._done[what]]) + "\n")
        return self._done[what]


def tuned(rules: Contest, name: str, data: Path, settings: argparse.Namespace) -> dict:
    """Let a side choose its settings on some of the training rows."""
    return call(rules.sides[name], data, ["--tune"], rules.sides[name].settings, settings)


def run(rules: Contest, name: str, chosen: dict, data: Path, settings: argparse.Namespace) -> dict:
    """Let a side train on all rows and be tested."""
    side = rules.sides[name]
    rows = [] if side.most_rows is None else ["--rows", str(side.most_rows)]
    figures = call(side, data, rows, side.settings | chosen["settings"], settings)
    made = benchmark.circumstances()
    return {**figures, "commit": made["commit"], "processor": made["processor"]}


def call(
    side: Side, data: Path, options: list[str], fixed: dict, settings: argparse.Namespace
) -> dict:
    """Start a side's script and return what it prints."""
    if settings.quick:
        fixed = fixed | {"width": 1024}
        options = [*options, "--quick"]
    command = [str(python(side.environment)), str(HERE / side.script), str(data), *options]
    command += ["--settings", json.dumps(fixed), "--memory", str(settings.memory)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def python(environment: str) -> Path:
    """Return the interpreter of an environment, made if missing or of other parts."""
    if environment == OURS:
        return Path(sys.executable)
    place = PLACE / environment
    interpreter, stamp = place / "bin" / "python", place / "stamp"
    parts = ENVIRONMENTS[environment]
    if not stamp.exists() or stamp.read_text().split() != list(parts):
        print(f"making {place}", file=sys.stderr, flush=True)
        venv.create(place, with_pip=True, clear=True)
        install = [str(interpreter), "-m", "pip", "install", "--quiet", *parts]
        subprocess.run(install, check=True, stdout=sys.stderr)
        stamp.write_text("\n".join(parts) + "\n")
    return interpreter


def prepared(name: str, folder: Path) -> Path:
    """Return the file of a set with train and test rows: shuffled and split, or made, for it."""
    scripts = {
        **{
            whole: ("split_rows.py", str(folder / f"{whole}.h5"))
            for whole in ("flights", "covtype_sample15k")
        },
        "moons": ("made_rows.py", "straight"),
        "moons-turned": ("made_rows.py", "turned"),
    }
    if name not in scripts:
        return folder / f"{name}.h5"
    target = PLACE / f"{name}.h5"
    if not target.exists():
        script, option = scripts[name]
        command = [str(python("scikit-learn")), str(HERE / script), option, str(target)]
        subprocess.run(command, check=True)
    return target


def summary(name: str, rules: Contest, rounds: list[dict]) -> dict:
    """Return medians by side, and ratios to ours, run by run."""
    sides = {}
    for side in rules.sides:
        own = [runs for runs in rounds if side in runs]
        runs = [runs[side] for runs in own]
        seconds = [run["seconds"] for run in runs]
        sides[side] = {
            **runs[0],
            "seconds": statistics.median(seconds),
            "all_seconds": seconds,
            "seconds_with_imports": statistics.median(r["seconds_with_imports"] for r in runs),
            "peak_bytes": statistics.median(run["peak_bytes"] for run in runs),
            "times_as_long": statistics.median(
                runs[side]["seconds"] / runs[OURS]["seconds"] for runs in own
            ),
            "times_the_memory": statistics.median(
                runs[side]["peak_bytes"] / runs[OURS]["peak_bytes"] for runs in own
            ),
        }
    ours = [runs[OURS] for runs in rounds]
    made = {
        name: ", ".join(dict.fromkeys(str(run[name]) for run in ours if name in run))
        for name in ("commit", "processor")
    }
    return {
        "case": name,
        "data": rules.data,
        "n_repeats": len(rounds),
        "sides": sides,
        **made,
    }


if __name__ == "__main__":
    main()
