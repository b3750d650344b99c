"""The stages of a run, their rates as measured, and the time left for all of them.

What works deep inside tells the run around it, if there is one: `begin` a stage, `advance` it, or
`foresee` the seconds of a stage that is to come.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from streamrf.display.timing import resident_bytes

FADE_SECONDS = 60.0  # a rate counts what is older by less and less
FEW_SECONDS = 5.0  # left, of which one more or less, such as the end of the program, is much
SETTLED_SECONDS = 3.0  # of a stage, until its rate is that of the rest
OVERDUE = 0.1  # of the time that a part has taken so far: left of it when it should have ended

_run: ContextVar["Run | None"] = ContextVar("run", default=None)


@dataclass
class Stage:
    """A part of a run, counted in units of its own.

    Parameters
    ----------
    name : such as "reading"
    began : seconds of the clock of the run
    unit : what it counts, such as "rows"; "" where that says nothing to a reader
    total : units to come, None where unknown
    done : units done; those done before it began say nothing about the rate
    foreseen : seconds that it was expected to take, None where unknown
    """

    name: str
    began: float
    unit: str = ""
    total: float | None = None
    done: float = 0.0
    foreseen: float | None = None
    last: float = field(init=False)  # when it last advanced
    _units: float = 0.0  # done lately, and the seconds they took
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        self.last = self.began

    def advance(self, units: float, now: float) -> None:
        """Count units as done since the last ones."""
        seconds = max(now - self.last, 1e-9)
        fade = math.exp(-seconds / FADE_SECONDS)
        self._units = fade * self._units + units
        self._seconds = fade * self._seconds + seconds
        self.done += units
        self.last = now

    @property
    def speed(self) -> float | None:
        """Units a second, lately."""
        return self._units / self._seconds if self._units else None

    def left(self, now: float) -> float | None:
        """Return the seconds left, by the rate or else as foreseen; None where unknown.

        What was foreseen is more than the rate of the first moments.
        """
        since, expected = now - self.began, self.foreseen
        is_settled = expected is None or since >= SETTLED_SECONDS
        if is_settled and self.speed is not None and self.total is not None:
            since, expected = now - self.last, (self.total - self.done) / self.speed
        return None if expected is None else max(expected - since, OVERDUE * since)


class Run:
    """What is going on, for those who show it.

    Parameters
    ----------
    n_rows : of the stages that count rows, None where unknown
    expected : names of stages that will come; the time left is unknown until each is foreseen
    clock : seconds, without those of compilation
    """

    def __init__(
        self,
        n_rows: int | None = None,
        expected: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ):
        self.n_rows = n_rows
        self.note = ""  # such as "compiling", which takes the place of the stage
        self._clock = clock
        self._paused = 0.0
        self._to_come: dict[str, float | None] = dict.fromkeys(expected)
        self._rows_to_come: dict[str, float] = {}  # at the rate of those being read
        self.began = clock()
        self.stage_now = Stage("starting", self.began)

    def stage(
        self, name: str, unit: str = "rows", total: float | None = None, done: float = 0.0
    ) -> None:
        """End the stage and begin the next one; the rows are those of the run if no others."""
        if unit == "rows" and total is None:
            total = self.n_rows
        foreseen = self.foreseen(name)
        self._to_come.pop(name, None)
        self._rows_to_come.pop(name, None)
        self.stage_now = Stage(name, self.now, unit, total, done, foreseen)

    def advance(self, units: float, stage: str | None = None) -> None:
        """Count units as done, of the stage of this name only if there is one."""
        if stage is None or stage == self.stage_now.name:
            self.stage_now.advance(units, self.now)

    def foresee(self, name: str, seconds: float, rows: float = 0.0) -> None:
        """Expect a stage to take some seconds, and those of rows at the rate of the stage now.

        Ignored where the stage is not to come.
        """
        if name in self._to_come:
            self._to_come[name], self._rows_to_come[name] = seconds, rows

    def foreseen(self, name: str) -> float | None:
        """Return the seconds that a stage to come is expected to take, None where unknown."""
        seconds = self._to_come.get(name)
        return None if seconds is None else seconds + self.row_seconds(name)

    def row_seconds(self, name: str) -> float:
        """Return what rows take in a stage to come, at the rate of the stage now if it has rows."""
        speed = self.stage_now.speed if self.stage_now.unit == "rows" else None
        return self._rows_to_come.get(name, 0.0) / speed if speed else 0.0

    def expect(self, total: float, stage: str) -> None:
        """Correct the units that the stage of this name is expected to have in all."""
        if stage == self.stage_now.name:
            self.stage_now.total = max(total, self.stage_now.done)

    def pause(self, seconds: float) -> None:
        """Leave out seconds that say nothing about rates."""
        self._paused += seconds

    @property
    def now(self) -> float:
        """Seconds of the clock."""
        return self._clock() - self._paused

    def left(self) -> float | None:
        """Return the seconds left of the whole run, None where a stage is not yet foreseen."""
        parts = [self.stage_now.left(self.now), *map(self.foreseen, self._to_come)]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    def share(self) -> float | None:
        """Return the share of the stage that is done, None where unknown."""
        total, done = self.stage_now.total, self.stage_now.done
        return min(1.0, done / total) if total else None

    def line(self) -> str:
        """Return in words how far the run is.

        Examples
        --------
        >>> run = Run(n_rows=6000, clock=lambda: 0.0)
        >>> run.stage("reading")
        >>> run.advance(1200)
        >>> run.line().partition(" rows")[0]
        'reading, 1,200 of 6,000'
        """
        stage = self.stage_now
        parts = [self.note or stage.name]
        if stage.unit and stage.done:
            speed = stage.speed if stage.unit == "rows" else None
            parts.append(pace(stage.done, stage.total, speed, None, stage.unit))
        left = self.left()
        if left is not None:
            parts.append(left_words(left))
        parts.append(f"{resident_bytes() / 2**20:,.0f} MiB")
        return ", ".join(parts)


def pace(
    done: float,
    total: float | None,
    speed: float | None = None,
    left: float | None = None,
    unit: str = "rows",
) -> str:
    """Return in words how far a stage is.

    Examples
    --------
    >>> pace(1200, 6000, 800.0, 6.0), pace(1200, None)
    ('1,200 of 6,000 rows, 800 rows/s, 0:06 left', '1,200 rows')
    """
    parts = [f"{done:,.0f} {unit}" if total is None else f"{done:,.0f} of {total:,.0f} {unit}"]
    if speed is not None:
        parts.append(f"{speed:,.0f} {unit}/s")
    if left is not None:
        parts.append(left_words(left))
    return ", ".join(parts)


def left_words(seconds: float) -> str:
    """Return in words what is left; of the last seconds nobody knows how many.

    Examples
    --------
    >>> left_words(5.9), left_words(1.2)
    ('0:06 left', 'a few seconds left')
    """
    return "a few seconds left" if seconds < FEW_SECONDS else f"{clock_words(seconds)} left"


def clock_words(seconds: float) -> str:
    """Return seconds as a clock shows them.

    Examples
    --------
    >>> clock_words(5.9), clock_words(9990.0)
    ('0:06', '2:46:30')
    """
    hours, rest = divmod(math.ceil(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    return (f"{hours}:{minutes:02}" if hours else f"{minutes}") + f":{rest:02}"


@contextmanager
def following(run: Run) -> Iterator[Run]:
    """Let what happens inside tell this run."""
    token = _run.set(run)
    try:
        yield run
    finally:
        _run.reset(token)


def now() -> Run | None:
    """Return the run around, or None."""
    return _run.get()


def begin(name: str, unit: str = "", total: float | None = None, done: float = 0.0) -> None:
    """Begin a stage of the run around, if there is one."""
    run = _run.get()
    if run is not None:
        run.stage(name, unit, total, done)


def advance(units: float, stage: str) -> None:
    """Count units as done, if the run around is at this stage."""
    run = _run.get()
    if run is not None:
        run.advance(units, stage)


def expect(total: float, stage: str) -> None:
    """Correct the units that the stage of the run around is expected to have in all."""
    run = _run.get()
    if run is not None:
        run.expect(total, stage)


def foresee(name: str, seconds: float, rows: float = 0.0) -> None:
    """Expect a stage to take some seconds, and those of rows at the rate of the stage now."""
    run = _run.get()
    if run is not None:
        run.foresee(name, seconds, rows)
