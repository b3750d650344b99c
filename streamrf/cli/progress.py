"""Progress on standard error, and the cluster or threads that make it."""

import contextlib
import math
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from streamrf.cli.groups import ClusterOptions
from streamrf.engine import connected
from streamrf.jit.threads import computing


class Bar:
    """Progress bar: rows done, rows a second, time left; silent if there is no terminal.

    Parameters
    ----------
    n_rows : rows to come, None where unknown
    """

    def __init__(self, n_rows: int | None):
        self._progress = Progress(
            SpinnerColumn("line"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            _Pace(Column(no_wrap=True)),
            console=Console(stderr=True),
            transient=True,
            refresh_per_second=4,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._progress.add_task("", total=n_rows)

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def stage(self, description: str) -> None:
        """Name what is going on."""
        self._progress.update(self._task, description=description)

    def advance(self, n_rows: int) -> None:
        """Count rows as done."""
        self._progress.update(self._task, advance=n_rows)


class _Pace(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(pace(task.completed, task.total, task.speed, task.time_remaining))


def pace(done: float, total: float | None, speed: float | None, left: float | None) -> str:
    """Return in words how far a pass is.

    Examples
    --------
    >>> pace(1200, 6000, 800.0, 6.0), pace(1200, None, None, None)
    ('1,200 of 6,000 rows, 800 rows/s, 0:06 left', '1,200 rows')
    """
    parts = [f"{done:,.0f} rows" if total is None else f"{done:,.0f} of {total:,.0f} rows"]
    if speed is not None:
        parts.append(f"{speed:,.0f} rows/s")
    if left is not None:
        hours, seconds = divmod(math.ceil(left), 3600)
        minutes, seconds = divmod(seconds, 60)
        parts.append((f"{hours}:{minutes:02}" if hours else f"{minutes}") + f":{seconds:02} left")
    return ", ".join(parts)


@contextlib.contextmanager
def working(
    cluster: ClusterOptions, n_threads: int | None, n_rows: int | None
) -> Iterator[tuple[Any, Bar]]:
    """Return a Dask client, or None without a cluster, and the progress bar of its work."""
    with (
        connected(cluster.address(), n_threads) as client,
        computing(n_threads),
        Bar(n_rows) as bar,
    ):
        yield client, bar
