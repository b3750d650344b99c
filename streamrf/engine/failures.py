"""What Dask raises where a cluster fails, as errors of ours."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING

from streamrf.engine.worker import Situation, wake, wake_scheduler
from streamrf.errors import ClusterError, StreamrfError, first_line

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger("streamrf")

IDLE = 6  # looks that find all workers idle, before what they should do is sent anew


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


class Watch:
    """What workers say of a run: what they could not read, and that all of them are idle.

    A worker that does not answer, such as one that is stopped, keeps nobody waiting: a thread asks.

    Parameters
    ----------
    ask : returns the situations of the workers that answer, by address
    """

    def __init__(self, ask: Callable[[], dict[str, Situation]]) -> None:
        self._ask = ask
        self._thread: Thread | None = None
        self._found: dict[str, Situation] = {}
        self._times: Counter[str] = Counter()  # that a worker could not read, by address
        self._wanted: set = set()
        self._n_idle = 0  # answers in a row of workers that were idle while the same was wanted
        self.shunned: set[str] = set()  # addresses that are to get no more

    def look(self, addresses: Iterable[str], wanted: Iterable) -> dict[str, list] | None:
        """Return the keys of tasks that wait in vain, by address; ask again.

        None once all workers have been idle for `IDLE` looks, not all of them paused, though the
        keys `wanted` are not done: then Dask has lost them, which it does where workers starve,
        and waits for ever.

        A worker that leaves may fail to read once; one that fails again is shunned, and
        ClusterError is raised where all `addresses` are.
        """
        if self._thread is not None and self._thread.is_alive():
            return {}
        found, self._found = self._found, {}
        here = found.values()
        idle = found.keys() >= set(addresses) and not any(one.busy for one in here)
        idle = idle and not all(one.paused for one in here)
        before, self._wanted = self._wanted, set(wanted)
        self._n_idle = self._n_idle + 1 if idle and before == self._wanted else 0
        unread = {name: one.undelivered for name, one in found.items() if one.undelivered}
        self._times.update(unread.keys())
        for address, (why, _) in unread.items():
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
        if self._n_idle >= IDLE and self._wanted and found:
            self._n_idle = 0
            return None
        return {address: keys for address, (_, keys) in unread.items()}

    def _look(self) -> None:
        with suppress(Exception):  # of a client that is lost or closed, which others will meet too
            self._found = self._ask()


def address_of(client: "Client") -> str:
    """Return the address of the scheduler, for messages."""
    scheduler = client.scheduler
    return str(scheduler.address) if scheduler is not None else "of this client"


def wake_all(client: "Client") -> None:
    """Have client and scheduler send the messages that have waited for seconds.

    Workers do when they are asked for their situation.
    """
    if client.loop is not None:
        client.loop.add_callback(wake, [client.scheduler_comm])
    with cluster_errors(client):
        client.run_on_scheduler(wake_scheduler)
