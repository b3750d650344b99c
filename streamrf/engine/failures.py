"""What Dask raises where a cluster fails, as errors of ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamrf.errors import ClusterError, StreamrfError, first_line

if TYPE_CHECKING:
    from distributed import Client

LASTING = 9.0  # seconds; before that, what a worker that leaves could not read may be sent anew


@contextmanager
def cluster_errors(client: "Client") -> Iterator[None]:
    """Raise ClusterError for what Dask raises where a cluster fails."""
    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    try:
        yield
    except StreamrfError:  # some are OSError or RuntimeError too
        raise
    except KilledWorker as error:
        raise ClusterError(
            f"the task {error.task!r} ended {error.allowed_failures + 1} workers, one after the "
            "other; see their logs. Most often memory ran out: use more parts, fewer components or "
            "workers with more memory"
        ) from error
    except (FutureCancelledError, CommClosedError, OSError, RuntimeError) as error:
        lost = isinstance(error, FutureCancelledError | CommClosedError)
        if not lost and client.status == "running":
            raise
        raise ClusterError(
            f"the scheduler {address_of(client)} was lost or gave up the run ({first_line(error)});"
            " start it again. With a spill folder the next run goes on from the shards finished"
        ) from error


class Unread:
    """What workers could not read of what a run has sent them, and since when."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}  # by address

    def check(self, reasons: dict[str, str | None], now: float) -> None:
        """Raise ClusterError for the first worker, by address, of which that has not passed."""
        why = {address: reason for address, reason in reasons.items() if reason is not None}
        self._since = {address: self._since.get(address, now) for address in why}
        for address, since in self._since.items():
            if now >= since + LASTING:
                raise ClusterError(
                    f"the worker {address} cannot read what the run sends it: {why[address]}; all "
                    "workers need the modules that the rows and the features are made of"
                )


def address_of(client: "Client") -> str:
    """Return the address of the scheduler, for messages."""
    scheduler = client.scheduler
    return str(scheduler.address) if scheduler is not None else "of this client"
