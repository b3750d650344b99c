#!/usr/bin/env python
"""Write the tables of docs/benchmarks.md, and its plots, from the lines of the benchmarks.

    scripts/bench_docs.py            # from docs/benchmarks/bench.jsonl and rivals.jsonl
    scripts/bench_docs.py --check    # end with status 1 where the page is not up to date

What stands between ``<!-- table: NAME -->`` and ``<!-- end -->`` is replaced, and nothing else.
"""

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
PLACE = ROOT / "docs" / "benchmarks"
sys.path += [str(ROOT / "scripts"), str(ROOT / "scripts" / "rivals")]
from made_rows import bayes_error  # noqa: E402
from shared import processor  # noqa: E402

Lines = dict[str, dict]  # figures by the names of cases

AIMS = {
    "ratio-maclaurin-4096": 0.75,
    "ratio-structured-4096-coarse": 0.45,
    "ratio-craft-4096-coarse": 0.75,
    "ratio-maclaurin-16384": 0.62,
    "ratio-structured-16384-coarse": 0.33,
    "ratio-craft-16384-coarse": 0.45,
    "choice-maclaurin-4096": 1.25,
    "choice-maclaurin-16384": 1.5,
}
MAPS = {"maclaurin": "Maclaurin, H0/1", "craft": "Craft, D = 8E", "structured": "StructuredFourier"}
STAGES = ("read", "wait", "calibrate", "featurise", "targets", "gram", "pass", "solve")
COLOURS = {"maclaurin": "#0072b2", "craft": "#d55e00", "structured": "#009e73"}
MARKS = {"maclaurin": "o", "craft": "s", "structured": "^"}
OFFSETS = {"maclaurin": (4, 6), "craft": (7, 1), "structured": (-30, -9)}  # of labels, points
OTHER_MARKS = "xD*vP"
STREAMS = {
    "flights-stream": "flights, 1.9 million rows",
    "moons": "moons, 10 million rows",
    "moons-turned": "moons, turned",
}
STREAM_MARKS = "os^vDP"
STREAM_COLOURS = ("#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73", "#117733")
NOT_YET = "Not measured yet."


def main() -> None:
    """Write the page and the plots, or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing, compare the tables")
    parser.add_argument("--results", type=Path, default=PLACE, help="folder of the lines")
    settings = parser.parse_args()
    bench = read(settings.results / "bench.jsonl")
    rivals = read(settings.results / "rivals.jsonl")
    if not settings.check:
        plot(bench, rivals)
    old = PAGE.read_text()
    new = filled(old, bench, rivals)
    if settings.check:
        raise SystemExit(0 if new == old else f"{PAGE.relative_to(ROOT)} is not up to date")
    PAGE.write_text(new)


def plot(bench: Lines, rivals: Lines) -> None:
    """Draw what there are lines for."""
    for name, draw in PLOTS.items():
        figure = Figure(figsize=(8, 3.6), layout="constrained", dpi=120)
        FigureCanvasAgg(figure)
        if draw(figure, bench, rivals):
            PLACE.mkdir(exist_ok=True)
            figure.savefig(PLACE / f"{name}.png", metadata={"Software": None})


def read(path: Path) -> Lines:
    """Return the lines of a file by their cases, the later processors of a case by theirs too."""
    if not path.exists():
        return {}
    found: Lines = {}
    for line in sorted(map(json.loads, path.read_text().splitlines()), key=natural):
        name = line["case"]
        found[f"{name} on {processor(line)}" if name in found else name] = line
    return found


def natural(line: dict) -> list:
    """Return a key that sorts cases by the words and numbers of their names."""
    parts = re.split(r"(\d+)", line["case"])
    return [int(part) if part.isdigit() else part for part in parts]


def filled(page: str, bench: Lines, rivals: Lines) -> str:
    """Return the page with its tables made anew."""

    def made(match: re.Match) -> str:
        text = TABLES[match[1]](bench, rivals) or NOT_YET
        return f"<!-- table: {match[1]} -->\n{text}\n<!-- end -->"

    return re.sub(r"<!-- table: (\S+) -->\n.*?<!-- end -->", made, page, flags=re.DOTALL)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; nothing where there are no rows."""
    head, rows = list(head), [list(row) for row in rows]
    if not rows:
        return ""
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])


def circumstances(bench: Lines, rivals: Lines) -> str:
    """Tell where the lines come from."""
    if not bench:
        return ""
    lines = list(bench.values())
    commits = sorted({str(line["commit"]) for line in lines})
    loads = [line["load"] for line in lines]
    last = lines[-1]
    versions = ", ".join(f"{name} {version}" for name, version in last["versions"].items())
    processors = sorted({line["processor"].split(" (")[0] for line in lines})
    return (
        f"{', '.join(processors)}, {last['threads']} threads; {versions}; commit "
        f"{', '.join(commits)}; load before a case {min(loads):.1f} to {max(loads):.1f} "
        f"(median {statistics.median(loads):.1f})."
    )


def beside_the_product(bench: Lines, rivals: Lines) -> str:
    """Tell the ratios."""
    rows = []
    for name, line in bench.items():
        if name.startswith("ratio-"):
            aim = AIMS.get(line["case"])
            rows.append([
                MAPS[name.split("-")[1]],
                "coarse" if line["case"].endswith("-coarse") else "exact",
                processor(line),
                f"{line['n_components']:,}",
                f"{line['n_rows']:,}",
                f"{statistics.median(line['pass_seconds']):.1f}",
                f"{statistics.median(line['ssfrk_seconds']):.1f}",
                spread(line),
                "" if aim is None else f"{aim:.2f}",
                f"{line['rows_per_second']:,.0f}",
                mib(line["peak_bytes"]),
                f"{100 * line['error']:.2f}",
            ])  # fmt: skip
    head = ["map", "precision", "processor", "E", "rows", "pass, s", "`ssfrk`, s", "ratio", "aim"]
    return table([*head, "rows/s", "peak, MiB", "error, %"], rows)


def spread(line: dict) -> str:
    """Return the median ratio of a line, the least and the greatest."""
    return f"**{line['ratio']:.2f}** ({min(line['ratios']):.2f} to {max(line['ratios']):.2f})"


def choice(bench: Lines, rivals: Lines) -> str:
    """Tell what fits that choose their penalty take, beside a pass alone."""
    rows = [
        [
            MAPS[line["map"]],
            processor(line),
            f"{line['n_components']:,}",
            f"{line['n_rows']:,}",
            f"{statistics.median(line['pass_seconds']):.1f}",
            f"{statistics.median(line['fit_seconds']):.1f}",
            spread(line),
            f"{AIMS[line['case']]:.2f}",
        ]
        for name, line in bench.items()
        if name.startswith("choice-")
    ]
    head = ["map", "processor", "E", "rows", "pass, s", "fit, s", "fit / pass", "aim"]
    return table(head, rows)


def stages(bench: Lines, rivals: Lines) -> str:
    """Tell seconds by stage of the median pass."""
    rows = [
        [name, f"{line['n_rows']:,}", *(f"{line['seconds'][stage]:.2f}" for stage in STAGES)]
        for name, line in bench.items()
        if name.startswith(("ratio-", "width-"))
    ]
    return table(["case", "rows", *STAGES], rows)


def wide(bench: Lines, rivals: Lines) -> str:
    """Tell what wide features cost."""
    rows = [
        [
            f"{line['n_components']:,}",
            f"{line['n_rows']:,}",
            f"{line['seconds']['pass']:,.0f}",
            f"{line['seconds']['solve']:,.0f}",
            f"{line['peak_bytes'] / 2**30:.1f}",
            f"{100 * line['error']:.2f}",
        ]
        for name, line in bench.items()
        if name.startswith("width-")
    ]
    return table(["E", "rows", "pass, s", "solve, s", "peak, GiB", "error, %"], rows)


def products(bench: Lines, rivals: Lines) -> str:
    """Tell what a block of rows costs the Gram, by step."""
    rows = [
        [
            f"{line['n_components']:,}",
            *(
                f"{1e3 * line['medians'][step]:.1f}"
                for step in ("check", "layout", "product", "flush", "ssfrk")
            ),
            f"{line['times_ssfrk']:.2f}",
            f"{100 * line['exactness_share']:.1f}",
        ]
        for name, line in bench.items()
        if name.startswith("product-")
    ]
    head = ["E", "check, ms", "layout, ms", "product, ms", "flush, ms", "`ssfrk`, ms"]
    return table([*head, "times as fast as `ssfrk`", "check and flush, %"], rows)


def factors(bench: Lines, rivals: Lines) -> str:
    """Tell the rates of Cholesky factors."""
    rows = []
    for name, line in bench.items():
        if not name.startswith("factor-"):
            continue
        work = line["n_components"] ** 3 / 3e9
        for where, times in line["times"].items():
            own, other = (statistics.median(times[way]) for way in ("own", "pftrf"))
            what = [f"{line['n_components']:,}", processor(line), *where.split(", ", 1)]
            rates = [f"{work / own:.0f}", f"{work / other:.0f}"]
            rows.append([*what, f"{1e3 * own:,.0f}", *rates, f"{other / own:.2f}"])
    head = ["E", "processor", "dtype", "threads", "own, ms", "own, GFLOP/s", "`pftrf`, GFLOP/s"]
    return table([*head, "times as fast"], rows)


def solves(bench: Lines, rivals: Lines) -> str:
    """Tell what a solution for one penalty costs."""
    rows = []
    for name, line in bench.items():
        if name.startswith("solve-"):
            own, other = (statistics.median(line["times"][way]) for way in ("own", "pftrf"))
            what = [f"{line['n_components']:,}", processor(line), f"{line['relative_alpha']:g}"]
            rows.append([*what, f"{own:.2f}", f"{other:.2f}", f"{other / own:.2f}"])
            rows[-1].append(f"{line['apart']:.0e}")
    head = ["E", "processor", "alpha", "own, s", "`pftrf`, s", "times as fast", "apart"]
    return table(head, rows)


def instructions(bench: Lines, rivals: Lines) -> str:
    """Tell what a block costs by every instruction."""
    rows = []
    for name, line in bench.items():
        if not name.startswith("instructions-"):
            continue
        least, work = line["least"], line["n_rows"] * line["n_components"] ** 2 / 1e9
        for way in [*line["instructions"], "ssfrk"]:
            steps = [least[way]] if way == "ssfrk" else [
                least[f"{way}, {step}"] for step in ("layout", "product")
            ]  # fmt: skip
            shown = [f"{1e3 * seconds:.1f}" for seconds in steps]
            rows.append(
                [
                    f"{way}, {line['cpu']}",
                    f"{line['n_components']:,}",
                    *([""] * (2 - len(shown)) + shown),
                    f"{work / sum(steps):.0f}",
                    f"{least['ssfrk'] / sum(steps):.2f}",
                ]
            )
    head = ["instructions", "E", "layout, ms", "product, ms", "GFLOP/s", "times `ssfrk`"]
    return table(head, rows)


def transforms(bench: Lines, rivals: Lines) -> str:
    """Tell the rates of transforms."""
    rows = [
        [
            f"2^{line['length'].bit_length() - 1}",
            f"{line['gadds_per_second']:.1f}",
            f"{min(line['rates']):.1f} to {max(line['rates']):.1f}",
        ]
        for name, line in bench.items()
        if name.startswith("hadamard-")
    ]
    return table(["length", "Gadd/s", "of the runs"], rows)


def rows_table(bench: Lines, rivals: Lines) -> str:
    """Tell time and memory against rows."""
    line = bench.get("rows")
    if line is None:
        return ""
    medians = [[statistics.median(runs) for runs in line[key]] for key in ("seconds", "peak_bytes")]
    rows = [
        [f"{n:,}", f"{seconds:.1f}", f"{1e6 * seconds / n:.1f}", mib(peak)]
        for n, seconds, peak in zip(line["n_rows"], *medians, strict=True)
    ]
    told = table(["rows", "pass, s", "us a row", "peak, MiB"], rows)
    low, high = min(line["time_ratios"]), max(line["time_ratios"])
    return (
        f"{told}\n\nTime a row, ten times the rows beside the rows: {line['time_ratio']:.3f} "
        f"({low:.3f} to {high:.3f}); memory: {line['memory_ratio']:.3f}."
    )


def paper(bench: Lines, rivals: Lines) -> str:
    """Tell projection and Gram together."""
    rows = []
    for name in ("ratio-maclaurin-4096", "ratio-craft-4096"):
        if name in bench:
            seconds = bench[name]["seconds"]
            both = seconds["featurise"] + seconds["gram"]
            rows.append([
                MAPS[name.split("-")[1]],
                f"{seconds['featurise']:.1f}",
                f"{seconds['gram']:.1f}",
                f"{both:.1f}",
            ])  # fmt: skip
    return table(["map", "featurise, s", "Gram, s", "together, s"], rows)


def prediction(bench: Lines, rivals: Lines) -> str:
    """Tell how fast rows are predicted."""
    rows = [
        [
            f"{line['n_components']:,}",
            f"{line['rows_per_second']:,.0f}",
            f"{line['featurise_rows_per_second']:,.0f}",
            f"{line['ratio']:.2f}",
            mib(line["peak_bytes_beyond_model"]),
        ]
        for name, line in bench.items()
        if name.startswith("predict-")
    ]
    head = ["E", "predicted, rows/s", "features alone, rows/s", "time ratio"]
    return table([*head, "memory beyond the model, MiB"], rows)


def start(bench: Lines, rivals: Lines) -> str:
    """Tell what a start costs."""
    line = bench.get("start")
    if line is None:
        return ""
    rows = [
        ("`import streamrf`", line["import_seconds"], "1"),
        (
            "`import sklearn.base`, which the first name used needs",
            line["sklearn_import_seconds"],
            "",
        ),
        ("`streamrf fit` of small data, kernels cached", line["cached_fit_seconds"], "2"),
        ("compilation in the first `streamrf fit`", line["compilation_seconds"], "20"),
        ("`streamrf warmup`, nothing cached", line["warmup_seconds"], ""),
        ("`streamrf fit` after it", line["fit_after_warmup_seconds"], ""),
    ]
    return table(["", "seconds", "aim"], [[what, f"{s:.2f}", aim] for what, s, aim in rows])


def first_prediction(bench: Lines, rivals: Lines) -> str:
    """Tell how long a process takes to its first prediction."""
    line = bench.get("first-prediction")
    if line is None:
        return ""
    ways = {
        "command": "`streamrf predict MODEL row.csv --output -`, to its end",
        "model": "`load_model` of the file of a `Model`",
        "model of an estimator": "`load_model(..., estimator=False)` of the file of an estimator",
        "estimator": "`load_model` of the file of an estimator",
    }
    rows = [
        [ways[way], f"{found[len(found) // 2]:.2f}", f"{found[0]:.2f} to {found[-1]:.2f}", "1.5"]
        for way, found in ((way, sorted(line["all_seconds"][way])) for way in ways)
    ]
    return table(["first row by", "seconds", "of the runs", "aim"], rows)


def fits(bench: Lines, rivals: Lines) -> str:
    """Tell time, memory and error of whole fits."""
    rows = [
        [
            name.removeprefix("fit-"),
            f"{line['n_rows']:,}",
            f"{line['n_components']:,}",
            f"{statistics.median(line['fit_seconds']):.1f}",
            mib(line["peak_bytes"]),
            f"{100 * line['error']:.2f}",
            f"{line['alpha']:.3g}",
        ]
        for name, line in bench.items()
        if name.startswith("fit-")
    ]
    return table(["case", "rows", "E", "seconds", "peak, MiB", "error, %", "alpha"], rows)


def contest(name: str) -> Callable[[Lines, Lines], str]:
    """Return what tells one contest."""

    def told(bench: Lines, rivals: Lines) -> str:
        line = rivals.get(name)
        if line is None:
            return ""
        rows = [
            [
                side,
                f"{run['n_rows']:,}",
                f"{run['seconds']:.1f}",
                f"{run['times_as_long']:.2f}",
                f"{run['seconds_with_imports']:.1f}" if "seconds_with_imports" in run else "",
                mib(run["peak_bytes"]),
                f"{run['times_the_memory']:.1f}",
                f"{100 * run['error']:.2f}",
                chosen(run["settings"]),
            ]
            for side, run in line["sides"].items()
        ]
        error = "variance left, %" if is_of_values(line) else "error, %"
        seconds = ["seconds", "times ours", "with imports"]
        head = ["side", "rows", *seconds, "peak, MiB", "times ours", error]
        versions = {}
        for run in line["sides"].values():
            versions |= run["versions"]
        shown = ", ".join(f"{package} {version}" for package, version in versions.items())
        if "commit" in line:
            shown += f"; commit {line['commit']}"
        if line.get("processor"):
            shown += f"; two threads of {line['processor']}; seed 0"
        runs = counted(line["n_repeats"]) + " each"
        for side, run in line["sides"].items():
            if len(run["all_seconds"]) < line["n_repeats"]:
                runs += f", {counted(len(run['all_seconds']))} of {side}"
        return f"{table([*head, 'settings'], rows)}\n\n{runs}; {shown}."

    return told


def counted(n_runs: int) -> str:
    """Tell a number of runs."""
    return "1 run" if n_runs == 1 else f"{n_runs} runs"


def is_of_values(contest: dict) -> bool:
    """Return whether a contest's targets are values rather than classes."""
    return any("rmse" in run for run in contest["sides"].values())


def chosen(settings: dict) -> str:
    """Tell a side's settings."""
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def mib(n_bytes: float) -> str:
    """Return bytes as MiB."""
    return f"{n_bytes / 2**20:,.0f}"


def image(name: str, what: str) -> Callable[[Lines, Lines], str]:
    """Return what shows a plot, once it is drawn."""

    def shown(bench: Lines, rivals: Lines) -> str:
        return f"![{what}](benchmarks/{name}.png)" if (PLACE / f"{name}.png").exists() else ""

    return shown


CONTESTS = ("gaussian", "polynomial", "flights", "trees", "covtype", *STREAMS)
TABLES: dict[str, Callable[[Lines, Lines], str]] = {
    "circumstances": circumstances,
    "ratios": beside_the_product,
    "stages": stages,
    "choice": choice,
    "wide": wide,
    "products": products,
    "factors": factors,
    "solves": solves,
    "instructions": instructions,
    "transforms": transforms,
    "rows": rows_table,
    "paper": paper,
    "prediction": prediction,
    "start": start,
    "first-prediction": first_prediction,
    "fits": fits,
    **{name: contest(name) for name in CONTESTS},
    "error-plot": image("error", "error against seconds"),
    "width-plot": image("width", "seconds and memory against width"),
    "rows-plot": image("rows", "seconds and memory against rows"),
    "streams-plot": image("streams", "error against seconds and memory"),
}


def sweep(bench: Lines, name: str) -> list[dict]:
    """Return the fits of a map to all rows, by width."""
    found = [line for case, line in bench.items() if re.fullmatch(rf"fit-{name}-\d+", case)]
    return sorted(found, key=lambda line: line["n_components"])


def label_few(axis: Axis, digits: tuple[int, ...] = (1, 2, 5)) -> None:
    """Label some numbers of each decade, in full."""
    axis.set_major_locator(LogLocator(subs=digits))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())


def error_against_seconds(figure: Figure, bench: Lines, rivals: Lines) -> bool:
    """Draw errors of fits, and of rivals, against their time."""
    axes = figure.subplots()
    drawn = False
    for name in MAPS:
        lines = sweep(bench, name)
        if lines:
            drawn = True
            seconds = [statistics.median(line["fit_seconds"]) for line in lines]
            errors = [100 * line["error"] for line in lines]
            axes.plot(seconds, errors, MARKS[name] + "-", color=COLOURS[name], label=MAPS[name])
            for line, x, y in zip(lines, seconds, errors, strict=True):
                axes.annotate(
                    f"{line['n_components']:,}", (x, y), OFFSETS[name], textcoords="offset points",
                    fontsize=7, color=COLOURS[name],
                )  # fmt: skip
    others = [
        (name, side, run)
        for name in ("gaussian", "polynomial")
        for side, run in rivals.get(name, {"sides": {}})["sides"].items()
        if not side.startswith("streamrf")
    ]
    for mark, (name, side, run) in zip(OTHER_MARKS, others, strict=False):
        drawn = True
        axes.plot(
            run["seconds"], 100 * run["error"], mark, color="#444444", markersize=8,
            label=f"{side} ({name}, {run['settings']['width']:,})",
        )  # fmt: skip
    axes.set(xscale="log", xlabel="seconds, file to model", ylabel="error on the test rows, %")
    axes.margins(0.1)
    label_few(axes.xaxis)
    axes.set_title("MNIST, 60,000 rows; numbers are features", fontsize=10)
    axes.grid(alpha=0.3)
    if drawn:
        figure.legend(loc="outside right upper", fontsize=8)
    return drawn


def against_width(figure: Figure, bench: Lines, rivals: Lines) -> bool:
    """Draw time and memory of fits against width."""
    time, memory = figure.subplots(1, 2)
    for name, label in MAPS.items():
        lines = sweep(bench, name)
        widths = [line["n_components"] for line in lines]
        seconds = [statistics.median(line["fit_seconds"]) for line in lines]
        peaks = [line["peak_bytes"] / 2**20 for line in lines]
        style = {"color": COLOURS[name], "marker": MARKS[name]}
        if lines:
            time.plot(widths, seconds, label=label, **style)
            memory.plot(widths, peaks, label=label, **style)
    for axes, label in ((time, "seconds, file to model"), (memory, "peak memory, MiB")):
        axes.set_xscale("log", base=2)
        axes.set(xlabel="features", ylabel=label)
        axes.grid(alpha=0.3, which="both")
    time.set_yscale("log")
    label_few(time.yaxis)
    memory.set_ylim(bottom=0)
    handles, labels = time.get_legend_handles_labels()
    if handles:
        time.legend(handles, labels, fontsize=8)
    figure.suptitle("MNIST, 60,000 rows", fontsize=10)
    return bool(handles)


def against_rows(figure: Figure, bench: Lines, rivals: Lines) -> bool:
    """Draw time and memory against rows: fits of MNIST, passes over its shifted copies."""
    time, memory = figure.subplots(1, 2)
    fitted = sorted(
        (line for case, line in bench.items()
         if case.startswith("fit-rows-") or case == "fit-maclaurin-4096"),
        key=lambda line: line["n_rows"],
    )  # fmt: skip
    if fitted:
        rows = [line["n_rows"] for line in fitted]
        seconds = [statistics.median(line["fit_seconds"]) for line in fitted]
        time.plot(rows, seconds, "o-", color=COLOURS["maclaurin"], label="fits")
        peaks = [line["peak_bytes"] / 2**20 for line in fitted]
        memory.plot(rows, peaks, "o-", color=COLOURS["maclaurin"], label="fits")
    line = bench.get("rows")
    if line is not None:
        seconds = [statistics.median(runs) for runs in line["seconds"]]
        peaks = [statistics.median(runs) / 2**20 for runs in line["peak_bytes"]]
        time.plot(line["n_rows"], seconds, "s--", color="#d55e00", label="passes, shifted copies")
        memory.plot(line["n_rows"], peaks, "s--", color="#d55e00", label="passes, shifted copies")
    for axes, label in ((time, "seconds"), (memory, "peak memory, MiB")):
        axes.set(xscale="log", xlabel="rows", ylabel=label)
        label_few(axes.xaxis, (1, 3))
        axes.grid(alpha=0.3, which="both")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8, loc="lower right")
    time.set_yscale("log")
    label_few(time.yaxis)
    memory.set_ylim(0, 1.1 * memory.get_ylim()[1])
    figure.suptitle("4,096 Maclaurin features", fontsize=10)
    return bool(fitted) or line is not None


def of_streams(figure: Figure, bench: Lines, rivals: Lines) -> bool:
    """Draw errors of all sides against their time and memory, a column for each stream."""
    found = {name: rivals[name] for name in STREAMS if name in rivals}
    if not found:
        return False
    figure.set_size_inches(4 * len(found), 6)
    columns = figure.subplots(2, len(found), squeeze=False).T
    for axes, (name, line) in zip(columns, found.items(), strict=True):
        for mark, colour, (side, run) in zip(
            STREAM_MARKS, STREAM_COLOURS, line["sides"].items(), strict=False
        ):
            measures = run["seconds"], run["peak_bytes"] / 2**30
            for axis, measure in zip(axes, measures, strict=True):
                axis.plot(measure, 100 * run["error"], mark, color=colour, markersize=8, label=side)
        for axis, label in zip(axes, ("seconds, file to model", "peak memory, GiB"), strict=True):
            kind = "variance left, %" if is_of_values(line) else "error, %"
            axis.set(xscale="log", xlabel=label, ylabel=kind)
            axis.grid(alpha=0.3, which="both")
            axis.margins(0.15)
            label_few(axis.xaxis)
            if line["data"].startswith("moons"):
                least = 100 * bayes_error()
                axis.axhline(least, color="grey", linestyle=":", label="least possible")
        axes[0].set_title(STREAMS[name], fontsize=10)
    entries = [axis.get_legend_handles_labels() for axis in columns.flat]
    handles = {label: handle for entry in entries for handle, label in zip(*entry, strict=True)}
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, fontsize=8)
    return True


PLOTS: dict[str, Callable[[Figure, Lines, Lines], bool]] = {
    "error": error_against_seconds,
    "width": against_width,
    "rows": against_rows,
    "streams": of_streams,
}


if __name__ == "__main__":
    main()
