"""The cluster or threads that do the work of a command, and the run that is shown."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from streamrf.cli.groups import ClusterOptions
from streamrf.display import Run, showing
from streamrf.engine import connected
from streamrf.jit.threads import computing


@contextlib.contextmanager
def working(
    cluster: ClusterOptions,
    n_threads: int | None,
    n_rows: int | None,
    expected: Sequence[str] = (),
) -> Iterator[tuple[Any, Run]]:
    """Return a Dask client, or None without a cluster, and the run that is shown.

    `expected` names the stages whose time is foreseen before they begin.
    """
    with (
        connected(cluster.address(), n_threads) as client,
        computing(n_threads),
        showing(n_rows, expected) as run,
    ):
        yield client, run
