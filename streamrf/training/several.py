"""Several maps in one reading: each block is read once, and mapped and summed by every map."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from streamrf.display import Run, begin, shown
from streamrf.engine import Reading, RunOptions, SideBySide, Summary, fold
from streamrf.errors import ParameterError
from streamrf.features import FeatureMap
from streamrf.jit.threads import computing
from streamrf.preprocessing import CALIBRATION_ROWS
from streamrf.sources import Block, Source
from streamrf.statistics import Statistics
from streamrf.training import memory
from streamrf.training.calibration import calibrate
from streamrf.training.foresight import READING, counted
from streamrf.training.job import Job
from streamrf.training.passes import Pass
from streamrf.training.settings import Settings


class Passes(Summary):
    """Passes of several maps over the same rows: what `fold` adds blocks into."""

    def __init__(self, passes: Sequence[Pass]):
        self.passes = list(passes)

    def update(self, block: Block) -> None:
        """Add a block to every pass."""
        for pass_ in self.passes:
            pass_.update(block)

    def fresh(self) -> "Passes":
        """Return passes that go on from here by themselves."""
        return Passes([pass_.fresh() for pass_ in self.passes])

    def sealed(self) -> SideBySide:
        """Return what the passes have added up; they are then used up."""
        return SideBySide(tuple(pass_.sealed() for pass_ in self.passes))

    def absorb(self, total: SideBySide) -> None:
        """Go on from what fresh copies of the passes have added up."""
        for pass_, part in zip(self.passes, total.parts, strict=True):
            pass_.absorb(part)


def accumulate_each(
    source: Source, maps: Sequence[FeatureMap], settings: Settings, run: RunOptions
) -> list[Statistics]:
    """Return the statistics of every map, from one reading; see `accumulate`.

    Those of a map are the same bytes as those of a pass with this map alone.
    """
    _check(maps, settings, run)
    first = Job.of(source, replace(settings, features=maps[0]), run)
    jobs = [replace(first, settings=replace(first.settings, features=map_)) for map_ in maps]
    _plan(jobs, [None] * len(jobs))
    sample = first.source.sample(CALIBRATION_ROWS)
    passes = Passes([calibrate(job, sample) for job in jobs])
    planned = _plan(jobs, passes.passes)
    reading = Reading(
        first.source,
        first.start,
        first.stop,
        planned.block_rows,
        settings.on_bad_rows,
        planned.total_bytes,
    )
    with shown(Run(), run.verbose):
        begin(READING, "rows", None if first.stop is None else first.stop - first.start)
        fold(reading, passes, Passes.update, counted(run))
    first.check_read(passes.passes[0])
    with computing(run.n_threads):
        return [pass_.join() for pass_ in passes.passes]


def _check(maps: Sequence[Any], settings: Settings, run: RunOptions) -> None:
    """Raise ParameterError for what is of one map alone."""
    if not maps or not all(isinstance(map_, FeatureMap) for map_ in maps):
        raise ParameterError(f"features must be a feature map or a list of them, got {maps!r}")
    if settings.like is not None:
        raise ParameterError("like= has a map of its own; leave out the list of maps")
    if run.checkpoint is not None or run.spill is not None:
        raise ParameterError(
            "checkpoint= and spill= keep the sums of one map; sum the maps as one, "
            "Concatenate([...]), or leave it out"
        )


def _plan(jobs: Sequence[Job], passes: Sequence[Pass | None]) -> memory.Plan:
    """Return what all jobs are going to hold; raise MemoryBudgetError if it is too much."""
    plans = [job.plan(pass_) for job, pass_ in zip(jobs, passes, strict=True)]
    sizes = [0 if plan is None else plan.total_bytes - memory.INTERPRETER_BYTES for plan in plans]
    widest = max(range(len(jobs)), key=sizes.__getitem__)
    planned = jobs[widest].plan(passes[widest], more_bytes=sum(sizes) - sizes[widest])
    return planned or memory.Plan(memory.MIN_ROWS, 0)  # of no width, which is refused later
