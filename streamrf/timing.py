"""Where the seconds of a run go: named stages, measured only inside `watching`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
