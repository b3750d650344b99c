"""What Dask raises where a cluster fails, as errors of ours."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING

from streamrf.errors import ClusterError, StreamrfError, first_line

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("streamrf")


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
    """What workers could not read of what a run has sent them.

    A worker that does not answer, such as one that is stopped, keeps nobody waiting: a thread asks.

    Parameters
    ----------
    ask : returns by address why, and the keys of the tasks that wait for it, or None
    """

    def __init__(self, ask: Callable[[], dict[str, tuple[str, list] | None]]) -> None:
        self._ask = ask
        self._thread: Thread | None = None
        self._found: dict[str, tuple[str, list]] = {}
        self._times: Counter[str] = Counter()  # that a worker could not, by address
        self.shunned: set[str] = set()  # addresses that are to get no more

    def look(self, addresses: Iterable[str]) -> dict[str, list]:
        """Return the keys of tasks that wait in vain, by address; ask again.

        A worker that leaves may fail once; one that fails again is shunned, and ClusterError is
        raised where all `addresses` are.
        """
        if self._thread is not None and self._thread.is_alive():
            return {}
        found, self._found = self._found, {}
        self._times.update(found.keys())
        for address, (why, _) in found.items():
            if self._times[address] > 1 and address not in self.shunned:
                self.shunned.add(address)
                logger.warning("the worker %s cannot read what it is sent: %s", address, why)
            if self.shunned.issuperset(addresses):
                raise ClusterError(
                    f"the worker {address} cannot read what the run sends it, nor can others: {why}"
                    "; workers need the modules that the rows and the features are made of"
                )
        self._thread = Thread(target=self._look, daemon=True)
        self._thread.start()
        return {address: keys for address, (_, keys) in found.items()}

    def _look(self) -> None:
        with suppress(Exception):  # of a client that is lost or closed, which others will meet too
            answers = self._ask()
            self._found = {name: found for name, found in answers.items() if found is not None}


def address_of(client: "Client") -> str:
    """Return the address of the scheduler, for messages."""
    scheduler = client.scheduler
    return str(scheduler.address) if scheduler is not None else "of this client"
