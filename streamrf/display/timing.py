"""What a run costs: seconds of named stages, measured only inside `watching`, and memory."""

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_seconds: ContextVar[dict[str, float] | None] = ContextVar("seconds", default=None)


@contextmanager
def watching() -> Iterator[dict[str, float]]:
    """Yield a dict that collects the seconds of every stage run inside, by name.

    Examples
    --------
    >>> with watching() as seconds:
    ...     with stage("read"):
    ...         pass
    >>> list(seconds)
    ['read']
    """
    seconds: dict[str, float] = {}
    token = _seconds.set(seconds)
    try:
        yield seconds
    finally:
        _seconds.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Add the time spent inside to the dict of `watching`; a thread must run in its context."""
    seconds = _seconds.get()
    if seconds is None:
        yield
        return
    began = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - began


def peak_bytes() -> int:
    """Return the peak resident memory of this program, in bytes.

    On Linux from VmHWM of ``/proc/self/status``: ``ru_maxrss`` of `resource.getrusage` counts what
    the parent process held when it started this program.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)


def forget_peak() -> None:
    """Let `peak_bytes` count from what is resident now; Linux only."""
    Path("/proc/self/clear_refs").write_text("5")


def resident_bytes() -> int:
    """Return the memory that this program holds now, in bytes; on other systems its peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return peak_bytes()
    return pages * resource.getpagesize()
