"""The tasks of a run on a Dask cluster: one a shard, their sums merged on the workers.

A task is a function of its range of rows and of a `ShardTask` that every worker holds once, so a
task that runs again, because its worker was lost, gives the same sums, and the scheduler's graph
sees to it that each shard's are added once. Neither rows nor features are keys of the graph.
"""

import logging
import pickle
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import cloudpickle

from streamrf.engine.base import Progress
from streamrf.engine.failures import Unread, address_of, cluster_errors
from streamrf.engine.options import Worker
from streamrf.engine.worker import (
    ShardTask,
    describe,
    executing,
    merge,
    processing_at_paused,
    summarise,
    undelivered,
    versions,
)
from streamrf.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")
Shard = tuple[int, int]

logger = logging.getLogger("streamrf")

MERGE_FIRST = 10  # priority: sums that wait hold memory
LOOK_SECONDS = 5.0  # between two looks at how many workers there are, and whether some are paused
WAIT_SECONDS = 1.0
PATIENCE = 60.0  # seconds for a first worker


def workers(client: "Client") -> dict[str, Worker]:
    """Return the workers by address; wait for the first one.

    Raises
    ------
    ClusterError
        If the client is closed, or no worker comes, or one cannot import streamrf, or has other
        versions than this process.
    """
    if client.status in ("closing", "closed"):  # its calls would end in errors of internals
        raise ClusterError("the client given as engine is closed; give one that is open")
    with cluster_errors(client):
        found: dict[str, Worker] = {}
        while not found:
            try:
                client.wait_for_workers(1, timeout=PATIENCE)
            except TimeoutError:
                raise ClusterError(
                    f"the scheduler {address_of(client)} has had no worker for {PATIENCE:.0f} s; "
                    f"start some: dask worker {address_of(client)}"
                ) from None
            found = _described(client)
        ours = versions()
        for address, worker in found.items():
            for name, version in ours:
                theirs = dict(worker.versions).get(name, "of an earlier time")
                if theirs != version:
                    raise ClusterError(
                        f"the worker {address} has {name} {theirs} and this process {version}, so "
                        "its sums may not be the same bytes; install the same versions in both"
                    )
        return found


def _described(client: "Client") -> dict[str, Worker]:
    """Return the workers that answer by address, without those that are lost meanwhile."""
    from distributed.comm import CommClosedError

    found = client.run(describe, on_error="return")
    lost = [name for name, answer in found.items() if isinstance(answer, CommClosedError | OSError)]
    for name in lost:
        del found[name]
    for answer in found.values():
        if isinstance(answer, ImportError):
            raise ClusterError(
                f"a worker of {address_of(client)} cannot import streamrf ({answer}); install it "
                "where the workers run"
            ) from answer
        if isinstance(answer, Exception):
            raise answer
    return found


def map_reduce(
    client: "Client",
    task: ShardTask[T],
    shards: list[Shard],
    progress: Progress | None = None,
) -> T:
    """Add up the summaries of shards with ``+``, on the workers where they lie.

    Two summaries on one worker are merged there; only when every shard is done are the totals of
    the workers merged over the network, in pairs, and the last one comes home.

    Parameters
    ----------
    client : of the cluster
    task : sent once
    shards : ranges of rows
    progress : called with the number of rows of each shard done

    Raises
    ------
    ClusterError
        The scheduler was lost, or shards end every worker that takes them.
    Exception
        The first error of a shard, which is not tried again.
    """
    run = _Run(client, task, "shard")
    with run:
        total = _merged(run, shards, progress)
        with cluster_errors(client):
            return total.result()


def map_in_order(
    client: "Client",
    task: ShardTask[T],
    shards: list[Shard],
    progress: Progress | None = None,
) -> Iterator[T]:
    """Yield the summaries of shards in their order; few are kept waiting at a time.

    Parameters and errors are those of `map_reduce`.
    """
    run = _Run(client, task, "rows")
    with run:
        ahead: deque = deque()
        for shard in shards:
            ahead.append((run.submit(shard), shard))
            if len(ahead) >= 2 * run.n_workers:
                yield _next(run, ahead, progress)
        while ahead:
            yield _next(run, ahead, progress)


def _next(run: "_Run", ahead: deque, progress: Progress | None) -> Any:
    """Return the summary of the first shard, and count its rows."""
    while True:
        future, (start, stop) = ahead[0]
        with cluster_errors(run.client):
            try:
                summary = future.result(timeout=LOOK_SECONDS)
            except TimeoutError:
                if future.status == "error":  # a file system may time out, too
                    raise
                moved = run.move()
                for i, (waiting, shard) in enumerate(ahead):
                    ahead[i] = (moved.get(waiting.key, waiting), shard)
                continue
        ahead.popleft()
        run.release(future)
        if progress is not None:
            progress(stop - start)
        return summary


class _Run:
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
        self._unread = Unread(lambda: client.run(undelivered, self._name, on_error="ignore"))
        self._place_of: dict[Any, str] = {}  # of the shards that are not done, by key
        self._n_shards: Counter[str] = Counter()  # that are not done, by address
        self._calls: dict[Any, tuple] = {}  # of the tasks that are not done, by key
        self.alive: dict[Any, Future] = {}

    def __enter__(self) -> "_Run":
        import dask

        # In the graph rather than scattered: what is scattered is gone with its last worker, and
        # the scheduler can send this again. It is one message, however large.
        blob = cloudpickle.dumps(self._task, protocol=5)  # functions of a script and lambdas too
        large = {"distributed.admin.large-graph-warning-threshold": len(blob) + (64 << 20)}
        with cluster_errors(self.client), dask.config.set(large):
            self._future = self.client.submit(
                pickle.loads, blob, key=f"streamrf-job-{self._name}", pure=False
            )
        return self

    def __exit__(self, *error: object) -> None:
        # By name, because the frames of an error may still hold them. Not `cancel`: the scheduler
        # stumbles over keys that are cancelled and released at a time.
        for future in (*self.alive.values(), self._future):
            future.release()

    def submit(self, shard: Shard) -> "Future":
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
        self._count_workers()
        in_vain = self._unread.look(self._addresses)
        with cluster_errors(self.client):
            paused = self.client.run_on_scheduler(processing_at_paused, self._name)
            self._paused = {*paused, *self._unread.shunned}
            begun = {}
            if paused:
                begun = self.client.run(executing, workers=list(paused), on_error="ignore")
        not_begun = [set(keys) - set(begun.get(a, keys)) for a, keys in paused.items()]
        moved = {}
        for key in set().union(*not_begun, *in_vain.values()):
            if key in self._calls and not self.alive[key].done():
                moved[key] = self._again(key)
        return moved

    def _again(self, key: Any) -> "Future":
        """Submit a task under another key; a result of the first one is dropped."""
        call, options = self._pop(key)
        self.alive.pop(key).release()
        return self._submit(*call, **options)

    @property
    def n_workers(self) -> int:
        """Workers there are, counted every few seconds."""
        self._count_workers()
        return max(1, len(self._addresses))

    def _count_workers(self) -> None:
        now = time.monotonic()
        if now >= self._counted:
            with cluster_errors(self.client):
                self._addresses = list(self.client.nthreads())
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


def _merged(run: _Run, shards: list[Shard], progress: Progress | None) -> "Future":
    """Return the future of the sum of all shards."""
    from distributed import as_completed

    to_come = deque(shards)
    rows_of: dict[Any, int] = {}  # of the shards in progress, by key
    n_merging = 0
    waiting: dict[str | None, Future] = {}  # the one total of each worker
    done = as_completed(loop=run.client.loop)

    def send() -> None:
        # A second shard waits at each worker, so that none idles between two; not near the end,
        # where it had better be free for whichever worker is first to finish.
        limit = (2 if len(to_come) >= run.n_workers else 1) * run.n_workers
        while to_come and len(rows_of) < limit:
            start, stop = to_come.popleft()
            future = run.submit((start, stop))
            rows_of[future.key] = stop - start
            done.add(future)

    send()
    while not done.is_empty():
        for key, future in run.move().items():
            if key in rows_of:
                rows_of[future.key] = rows_of.pop(key)
            done.add(future)
        batch = [future for future in _ready(done) if future.key in run.alive]  # not those moved
        if not batch:
            continue
        for future in batch:
            _check(run.client, future)
            run.forget(future)
        places = run.place(batch)
        for future in batch:
            n_rows = rows_of.pop(future.key, None)
            if n_rows is None:
                n_merging -= 1
            elif progress is not None:
                progress(n_rows)
            partner = waiting.pop(places[future.key], None)
            if partner is None:
                waiting[places[future.key]] = future
            else:
                done.add(run.merge(partner, future))
                n_merging += 1
        send()
        if not rows_of and not n_merging:
            totals = list(waiting.values())
            if len(totals) == 1:
                return totals[0]
            waiting = {None: totals[-1]} if len(totals) % 2 else {}
            for a, b in zip(totals[::2], totals[1::2], strict=False):
                done.add(run.merge(a, b))
                n_merging += 1
    raise AssertionError("every shard ends in the total")


def _ready(done: Any) -> list["Future"]:
    """Return the futures that are done, after a short wait for the first."""
    with done.thread_condition:
        if done.queue.empty():
            done.thread_condition.wait(WAIT_SECONDS)
    return done.next_batch(block=False)


def _check(client: "Client", future: "Future") -> None:
    """Raise what a task has raised."""
    if future.status != "finished":
        with cluster_errors(client):
            future.result()
