"""Fixtures that every test may ask for."""

import os
import signal
import sys
from pathlib import Path

import hypothesis
import numpy as np
import pytest

import streamrf.display  # noqa: F401  which is silenced below
from streamrf.jit.threads import computing

# The same examples in every run, and no deadline: a kernel's first call compiles it.
hypothesis.settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
hypothesis.settings.load_profile("repeatable")

REPRODUCTION = Path(__file__).resolve().parents[1] / "scripts" / "reproduce"

# A suite that was started in the background inherits an ignored Ctrl-C, and so would its children.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def quiet():
    """No lines on the progress of runs that a busy machine makes long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["streamrf.display.showing"], "QUIET_SECONDS", np.inf)
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the real data sets (data/README.md)."""
    place = os.environ.get("STREAMRF_DATA")
    if not place:
        pytest.skip("STREAMRF_DATA is not set; data/README.md tells what it should point at")
    path = Path(place).resolve()
    if not path.is_dir():
        pytest.fail(f"STREAMRF_DATA is {place!r}, which is not a folder")
    return path


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that gives the same numbers in every test and every run."""
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def one_thread():
    """One thread unless a test asks for more: waking two costs more than a small array is worth."""
    with computing(1):
        yield


@pytest.fixture(scope="session")
def two_workers():
    """A client of two worker processes with one thread each, for tests that leave them whole."""
    import clusters  # not above: distributed takes long to import

    with clusters.processes(2) as client:
        yield client


@pytest.fixture(scope="module")
def reproduction():
    """The scripts that reproduce the papers, to be imported by a test of theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(REPRODUCTION))
        yield
