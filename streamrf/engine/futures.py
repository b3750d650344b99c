"""The futures of one run on a Dask cluster: where they are sent, and sent anew."""

import logging
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import cloudpickle

from streamrf.engine.failures import Watch, address_of, cluster_errors, wake_all
from streamrf.engine.worker import (
    ShardTask,
    executing,
    merge,
    processing_at_paused,
    situation,
    summarise,
)
from streamrf.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client, Future

Shard = tuple[int, int]

logger = logging.getLogger("streamrf")

MERGE_FIRST = 10  # priority: sums that wait hold memory
LOOK_SECONDS = 5.0  # between two looks at how many workers there are, and whether some are paused
PATIENCE = 60.0  # seconds for a first worker
MAX_LOST = 20  # times that all tasks are sent anew, half a minute apart, and none is done


class Run:
    """The futures of one run; those left are released on leaving.

    Keys are ``("streamrf-KIND-RUN", number)``, which Dask's dashboard groups by kind.
    """

    def __init__(self, client: "Client", task: ShardTask, kind: str):
        self.client = client
        self._kind = kind
        self._name = uuid4().hex[:8]
        self._task = task
        self._future: Any = None
        self._numbers = count()
        self._counted = 0.0
        self._looked = self._seen = time.monotonic()  # when workers were last there
        self._told: float | None = None  # of which time it was told that there are none since
        self._addresses: list[str] = []
        self._paused: set[str] = set()
        self._watch = Watch(lambda: client.run(situation, self._name, on_error="ignore"))
        self._place_of: dict[Any, str] = {}  # of the shards that are not done, by key
        self._n_shards: Counter[str] = Counter()  # that are not done, by address
        self._calls: dict[Any, tuple] = {}  # of the tasks that are not done, by key
        self._n_lost = 0  # times in a row that all were sent anew
        self.alive: dict[Any, Future] = {}

    def __enter__(self) -> "Run":
        self._send_job()
        return self

    def _send_job(self) -> None:
        import dask

        # In the graph rather than scattered: what is scattered is gone with its last worker, and
        # the scheduler can send this again. It is one message, however large.
        blob = cloudpickle.dumps(self._task, protocol=5)  # functions of a script and lambdas too
        large = {"distributed.admin.large-graph-warning-threshold": len(blob) + (64 << 20)}
        with cluster_errors(self.client), dask.config.set(large):
            self._future = self.client.submit(
                pickle.loads,
                blob,
                key=f"streamrf-job-{self._name}-{next(self._numbers)}",
                pure=False,
            )

    def __exit__(self, *error: object) -> None:
        # By name, because the frames of an error may still hold them. Not `cancel`: the scheduler
        # stumbles over keys that are cancelled and released at a time.
        for future in (*self.alive.values(), self._future):
            future.release()

    def submit(self, shard: Iterable[int]) -> "Future":
        """Submit a shard."""
        return self._submit(self._kind, summarise, self._future, *shard)

    def _least_busy(self) -> str | None:
        """Return the address of the worker with the fewest shards.

        Dask would fill all threads of a worker that has the job before it sends it to another, and
        a worker computes one shard at a time.
        """
        self._count_workers()
        usable = [address for address in self._addresses if address not in self._paused]
        return min(usable or self._addresses, key=self._n_shards.__getitem__, default=None)

    def merge(self, a: "Future", b: "Future") -> "Future":
        """Submit the sum of two summaries, which are released when it is done."""
        return self._submit("merge", merge, a, b, priority=MERGE_FIRST)

    def _submit(self, kind: str, function: Callable, *args: Any, **options: Any) -> "Future":
        key = (f"streamrf-{kind}-{self._name}", next(self._numbers))
        if kind == self._kind and (place := self._least_busy()) is not None:
            self._place_of[key] = place
            self._n_shards[place] += 1
            options |= {"workers": [place], "allow_other_workers": True}
        with cluster_errors(self.client):
            future = self.client.submit(function, *args, key=key, pure=False, retries=0, **options)
        self.alive[future.key] = future
        self._calls[future.key] = (kind, function, *args), options
        return future

    def forget(self, future: "Future") -> None:
        """Release what a finished task was made from."""
        self._n_lost = 0
        (kind, _, *args), _ = self._pop(future.key)
        if kind == "merge":
            for part in args:
                del self.alive[part.key]

    def _pop(self, key: Any) -> tuple:
        """Return the call of a task, which is not waited for any more."""
        if key in self._place_of:
            self._n_shards[self._place_of.pop(key)] -= 1
        return self._calls.pop(key)

    def release(self, future: "Future") -> None:
        """Release a result that is here."""
        self.forget(future)
        self.alive.pop(future.key).release()

    def move(self) -> dict[Any, "Future"]:
        """Send anew what waits at some workers, every few seconds; return the futures by old key.

        At those that are paused, or cannot read what it waits for.

        Dask sends nothing to a worker that is paused for its memory, but what waits there waits
        until it goes on, which may be never; Dask's work stealing leaves the last task behind.
        """
        now = time.monotonic()
        if now < self._looked + LOOK_SECONDS:
            return {}
        self._looked = now
        wake_all(self.client)
        self._count_workers()
        wanted = [key for key in self._calls if not self.alive[key].done()]
        in_vain = self._watch.look(self._addresses, wanted)
        if in_vain is None:
            return self._all_again(wanted)
        with cluster_errors(self.client):
            paused = self.client.run_on_scheduler(processing_at_paused, self._name)
            self._paused = {*paused, *self._watch.shunned}
            begun = {}
            if paused:
                begun = self.client.run(executing, workers=list(paused), on_error="ignore")
        not_begun = [set(keys) - set(begun.get(a, keys)) for a, keys in paused.items()]
        moved = {}
        for key in set().union(*not_begun, *in_vain.values()):
            if key in self._calls and not self.alive[key].done():
                moved[key] = self._again(key)
        return moved

    def _all_again(self, keys: list) -> dict[Any, "Future"]:
        """Send anew tasks that Dask has lost, and the job that they may wait for.

        ClusterError where that was in vain for too long.
        """
        self._n_lost += 1
        if self._n_lost > MAX_LOST:
            raise ClusterError(
                f"the workers of {address_of(self.client)} are idle, and nothing that the client "
                "sends reaches them: make a new Client, or start the command again"
            )
        logger.warning(
            "the workers of %s have been idle for a while, though %d tasks are not done, which Dask"
            " seems to have lost; they are sent anew",
            *(address_of(self.client), len(keys)),
        )
        self._future.release()
        self._send_job()
        return {key: self._again(key) for key in keys}

    def _again(self, key: Any) -> "Future":
        """Submit a task under another key; a result of the first one is dropped."""
        (kind, function, *args), options = self._pop(key)
        self.alive.pop(key).release()
        if kind == self._kind:
            return self.submit(args[1:])
        return self._submit(kind, function, *args, **options)

    @property
    def n_workers(self) -> int:
        """Workers there are, counted every few seconds."""
        self._count_workers()
        return max(1, len(self._addresses))

    def _count_workers(self) -> None:
        now = time.monotonic()
        if now >= self._counted:
            with cluster_errors(self.client):
                here = list(self.client.nthreads())
            for address in set(self._addresses).difference(here):
                logger.info("the worker %s is gone; what no other holds is computed again", address)
            self._addresses = here
            self._counted = now + LOOK_SECONDS
            if self._addresses:
                self._seen = now
            elif now >= self._seen + PATIENCE and self._seen != self._told:
                self._told, address = self._seen, address_of(self.client)
                logger.warning(
                    "the scheduler %s has had no worker for %.0f s, and the run waits for one; "
                    "start some: dask worker %s",
                    *(address, PATIENCE, address),
                )

    def place(self, futures: list["Future"]) -> dict[Any, str | None]:
        """Return the address of a worker that holds each result, by key."""
        with cluster_errors(self.client):
            places = self.client.who_has(futures)
        return {future.key: next(iter(places.get(future.key, ())), None) for future in futures}
