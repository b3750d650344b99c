"""What is said of a run: stages, rates, the time left."""

import pathlib
import re
import sys
import time

import numba
import numpy as np
import pytest

import streamrf as srf
from streamrf.display import Run, advance, begin, foresee, pace, showing, shown
from streamrf.display.compiling import HINT
from streamrf.display.stages import Stage
from streamrf.estimators import base
from streamrf.training.foresight import n_factors


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


def test_time_left_is_that_of_the_stage_and_of_those_to_come(clock):
    run = Run(n_rows=1000, expected=["reading", "solving"], clock=clock)
    assert run.left() is None
    run.foresee("reading", 50.0)
    run.foresee("solving", 20.0)
    run.foresee("dreaming", 1000.0)  # not to come
    run.stage("reading")
    assert run.left() == 50.0 + 20.0
    clock.seconds += 10
    assert run.left() == 40.0 + 20.0
    run.advance(100)  # slower than foreseen: the rate counts
    assert run.left() == pytest.approx(90.0 + 20.0)
    clock.seconds += 5
    assert run.left() == pytest.approx(85.0 + 20.0)
    run.stage("solving", "")
    clock.seconds += 5
    assert run.left() == 15.0


def test_a_stage_that_is_overdue_never_says_that_nothing_is_left(clock):
    run = Run(expected=["solving"], clock=clock)
    run.foresee("solving", 10.0)
    run.stage("solving", "")
    clock.seconds += 40
    assert run.left() == 4.0


def test_rows_of_an_earlier_run_say_nothing_about_the_rate(clock):
    run = Run(clock=clock)
    run.stage("reading", total=1000, done=500)
    clock.seconds += 10
    run.advance(100)
    assert run.stage_now.speed == pytest.approx(10.0)
    assert run.left() == pytest.approx(40.0)


def test_a_rate_follows_a_change(clock):
    run = Run(n_rows=10**6, clock=clock)
    run.stage("reading")
    for rate, seconds in ((100, 300), (20, 300)):
        for _ in range(seconds):
            clock.seconds += 1
            run.advance(rate)
    assert run.stage_now.speed == pytest.approx(20.0, rel=0.05)


def test_compilation_is_told_and_left_out_of_rates(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    (tmp_path / "streamrf-compile-seconds").write_text("41.5\n")
    notes = []

    class Watched(Run):
        @property
        def note(self):
            return self._note

        @note.setter
        def note(self, text):
            self._note = text
            notes.append(text)

    with shown(Watched()) as run:
        run.stage("reading", total=10)
        before = time.monotonic() - run.now
        numba.njit(lambda x: x + 1)(1)
        if not numba.config.DISABLE_JIT:
            assert time.monotonic() - run.now > before
            assert "compiling; it took 42 s last time" in notes
    assert notes[-1] == ""


def test_the_first_compilation_of_a_machine_is_told_without_a_display(monkeypatch, capsys):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(pathlib.Path, "home", homeless)
    with shown(Run(), shows=False):
        for _ in range(2):
            numba.njit(lambda x: x + 1)(1)
    said = "" if numba.config.DISABLE_JIT else f"{HINT}\n"
    assert capsys.readouterr().err == said


def test_what_works_deep_inside_need_not_know_of_a_run(clock):
    begin("reading", "rows", 10)
    advance(5, "reading")
    foresee("solving", 1.0)


def test_units_count_for_the_stage_that_they_are_of(clock):
    run = Run(clock=clock)
    run.stage("choosing", "", 10)
    run.advance(3, "solving")
    assert run.stage_now.done == 0
    run.advance(3, "choosing")
    assert run.stage_now.done == 3


def test_without_a_terminal_stages_of_a_long_run_get_lines(capsys, monkeypatch):
    lines = sys.modules["streamrf.display.showing"]
    monkeypatch.setattr(lines, "QUIET_SECONDS", 0.3)
    monkeypatch.setattr(lines, "EVERY_SECONDS", 0.3)
    monkeypatch.setattr(lines, "WAKE_SECONDS", 0.05)
    with showing(6000, expected=["solving"]) as run:
        run.stage("reading")
        run.advance(1200)
        run.foresee("solving", 15.0)
        time.sleep(0.9)
        run.stage("solving", "")
        time.sleep(0.5)
    out = capsys.readouterr().err.splitlines()
    first = r"streamrf: reading, 1,200 of 6,000 rows, [\d,]+ rows/s, \d+:\d\d left, [\d,]+ MiB"
    assert re.fullmatch(first, out[0])
    assert 2 <= sum("reading" in line for line in out) <= 4
    assert re.fullmatch(r"streamrf: solving, 0:\d\d left, [\d,]+ MiB", out[-1])


def test_a_short_run_leaves_no_trace(capsys):
    with showing(10) as run:
        run.stage("reading")
    assert capsys.readouterr() == ("", "")


def test_every_stage_of_a_fit_is_told(monkeypatch):
    told = []

    class Told(Run):
        def stage(self, name, *more, **options):
            told.append((name, self.left() is not None))
            super().stage(name, *more, **options)

    monkeypatch.setattr(base, "Run", Told)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    counted = []
    regressor = srf.RandomFeatureRegressor(verbose=True, random_state=0, n_threads=1)
    regressor.fit(X[:, :3], np.sin(X[:, 0]), progress=counted.append)
    names = [name for name, _ in told]
    assert names == ["looking at rows", "choosing features", "calibrating", "reading", "solving"]
    assert dict(told)["solving"]
    assert sum(counted) == 900


def test_a_notebook_gets_one_line_that_changes(monkeypatch):
    shown_there = []

    class Handle:
        def update(self, thing):
            shown_there.append(thing)

    class Display:
        HTML = str

        def display(self, thing, display_id):
            shown_there.append(thing)
            return Handle()

    class Notebook:
        display = Display()

        def get_ipython(self):
            return type("Shell", (), {"kernel": None})()

    monkeypatch.setitem(sys.modules, "IPython", Notebook())
    with showing(10) as run:
        run.stage("reading")
    assert shown_there[0].startswith("<pre>starting")
    assert re.fullmatch(r"<pre>done in [\d.]+ s</pre>", shown_there[-1])


def test_rows_held_out_count_in_the_stage_of_solving(monkeypatch):
    stages = []

    class Told(Run):
        def stage(self, name, unit="rows", total=None, done=0.0):
            stages.append((name, total, self.foreseen("solving")))
            super().stage(name, unit, total, done)

    run = Told(expected=["reading", "solving"])
    monkeypatch.setattr(base, "Run", lambda **expected: run)
    X = np.random.default_rng(0).normal(size=(900, 3))
    features = srf.StructuredFourier(n_components=64)
    srf.RandomFeatureRegressor(features, verbose=True, random_state=0).fit(X, np.sin(X[:, 0]))
    (name, _, before), (last, total, after) = stages[-2:]
    assert (name, last) == ("reading", "solving")
    of_factors = n_factors(chooses=True, width=64) * 64**3
    of_held = total - of_factors
    assert of_held > 0
    summed = of_held / of_factors  # of the time of factors and of scores, which take as long
    assert 2 * summed / (1 - summed) == pytest.approx(after / before - 1)
    n_halves = (run.stage_now.done - of_held) / 32**3  # factors of half the width
    assert n_halves == pytest.approx(round(n_halves))


def test_of_the_last_seconds_no_number_is_told(clock):
    run = Run(expected=["solving"], clock=clock)
    run.foresee("solving", 9.5)
    run.stage("solving", "")
    assert ", 0:10 left, " in run.line()
    clock.seconds += 5
    assert ", a few seconds left, " in run.line()


def test_progress_in_words():
    assert pace(0, 6000) == "0 of 6,000 rows"
    assert pace(1200, 6000, 812.3, 5.91) == "1,200 of 6,000 rows, 812 rows/s, 0:06 left"
    hours = "1,000,000 of 1,000,000,000 rows, 100,000 rows/s, 2:46:30 left"
    assert pace(10**6, 10**9, 1e5, 9990.0) == hours
    assert pace(1200, None, 812.3) == "1,200 rows, 812 rows/s"


def test_what_was_foreseen_is_more_than_the_rate_of_the_first_moments():
    stage = Stage("reading", 0.0, "rows", 1000.0, foreseen=10.0)
    stage.advance(10.0, 1.0)  # slowly at first: 99 seconds by the rate
    assert stage.left(1.0) == 9.0
    stage.advance(390.0, 4.0)
    assert stage.left(4.0) < 7.0
    unforeseen = Stage("reading", 0.0, "rows", 1000.0)
    unforeseen.advance(10.0, 1.0)
    assert unforeseen.left(1.0) > 90
