"""`streamrf select`: which scaling, kernel and width suit some rows."""

import time
from dataclasses import dataclass
from typing import Any, ClassVar

from streamrf.cli.base import Answer, aligned
from streamrf.cli.groups import Data, Seed, WeightedRowOptions
from streamrf.cli.maps import WARP_WORDS, warp_settings
from streamrf.cli.options import option, option_from
from streamrf.display import format_time, showing
from streamrf.jit.threads import computing
from streamrf.report import facts
from streamrf.sources import check_each_once
from streamrf.training import TASKS, Selection, Settings, select

MAX_SHOWN = 12  # candidates shown to a person; --json has all
WON = (
    "The first is the winner. The best of these are compared further, on other splits of the rows, "
    "or by how their errors fall with more rows, so its error here need not be the least."
)


@dataclass(frozen=True, kw_only=True)
class SelectOptions:
    """What is to be chosen."""

    panel: ClassVar = "Features"
    task: str = option_from(Settings, "task", words=TASKS)
    regression: bool = option_from(Settings, "regression", "--regression")
    components: int | None = option("Width of the features (default: chosen too).", min=1)
    kernels: str | None = option_from(Settings, "kernels", metavar="NAME,...")
    warp: str | None = option_from(Settings, "warp", default=None, words=WARP_WORDS)
    warp_rounds: int | None = option_from(Settings, "warp_rounds", default=None, min=1)
    scale_like: str | None = option_from(Settings, "scale_like", metavar="FILE")
    budget: float | None = option_from(Settings, "budget", metavar="SECONDS")


def choose(data: Data, rows: WeightedRowOptions, options: SelectOptions, seed: Seed = 0) -> Answer:
    """Try scalings, kernels and widths on a peek at the rows; show what was tried."""
    began = time.perf_counter()
    source = rows.source(data)
    check_each_once(source)
    with computing(), showing():
        found = select(
            source,
            n_components=options.components,
            kernels=options.kernels,
            **warp_settings(options.warp, options.warp_rounds),
            scale_like=options.scale_like,
            task=options.task,
            regression=options.regression,
            on_bad_rows=rows.on_bad_rows,
            budget=options.budget,
            random_state=seed,
        )
    table = found.table()
    figures: dict[str, Any] = {
        "normalize": found.normalize,
        "warp": None if found.warp is None else found.warp.kind,
        "map": type(found.features).__name__,
        "n_components": found.n_components,
        "decode": found.decode,
        "n_rows_held_out": found.n_held,
        "tried": table,
        "seconds": time.perf_counter() - began,
    }
    summary = _summary(figures, source.where, options.budget, found)
    return Answer(figures, [*aligned(summary), "", *_lines(table, found.n_targets)])


def _summary(
    figures: dict[str, Any], where: str, budget: float | None, found: Selection
) -> list[tuple[str, str]]:
    given = "" if budget is None else f", --budget {budget:g},"
    fits = f"with the same rows{given} and seed chooses the same, if memory has room"
    chosen = f"{' '.join(repr(found.features).split())}, untried: {found.why}"
    if figures["tried"]["candidate"]:
        chosen = facts.candidate_words(figures["tried"]["candidate"][0])
    hidden = "discriminant, as the largest output hides classes between others"
    return [
        ("rows", f"a peek at {where}, {figures['n_rows_held_out']:,} of them held out"),
        ("chosen", chosen),
        ("features", f"{figures['n_components']:,}, {figures['map']}"),
        *([("decode", hidden)] if found.decode == "discriminant" else []),
        ("time", format_time(figures["seconds"])),
        ("next", "streamrf fit " + fits),
    ]


def _lines(table: dict[str, list], n_targets: int | None) -> list[str]:
    """Return how the winner won, and the table of candidates with that one first."""
    rows = list(zip(*table.values(), strict=True))[:MAX_SHOWN]
    width = max((len(row[0]) for row in rows), default=0)
    errors = [facts.error_words(row[-1], n_targets) for row in rows]
    kind = errors[0][0] if errors else ""
    head = f"{'candidate':<{width}}  {'features':>8}  {'rows':>7}  {kind} on rows held out"
    lines = [
        f"{name:<{width}}  {e:>8,}  {n:>7,}  {error}"
        for (name, e, n, _), (_, error) in zip(rows, errors, strict=True)
    ]
    return [*([WON, ""] if rows[1:] else []), head, *lines] if rows else []
