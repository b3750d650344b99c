"""The engine of a Dask cluster: one task a shard, its sums merged on the workers.

The caller brings a `distributed.Client`. A task is a function of its range of rows and of a job
that every worker holds once, so a task that runs again, because its worker was lost, gives the same
sums, and the scheduler's graph sees to it that each shard's are added once. Neither rows nor
features are keys of the graph.
"""

import pickle
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import uuid4

from streamrf.errors import ClusterError, ConsumedError, ParameterError, StreamrfError
from streamrf.jit.threads import computing
from streamrf.sources import Source
from streamrf.timing import peak_bytes

S = TypeVar("S")
Client = Any  # distributed.Client: imported by who makes one, never by `import streamrf`
Future = Any

MERGE_FIRST = 10  # priority: sums that wait hold memory
SHARDS_A_WORKER = 8
# Of a shard, for each thread: one thread makes and merges its sums, for as long as it would take to
# add some hundred rows.
FEWEST_ROWS = 30_000
LOOK_SECONDS = 5.0  # between two looks at how many workers there are, and whether some are paused
MOST_ARRAY_BYTES = 256 << 20  # of arrays in memory, which every worker gets a copy of
ROWS_BYTES = 32 << 20  # of the results of a shard, where they are kept by row
WAIT_SECONDS = 1.0
PATIENCE = 60.0  # seconds for a first worker

_one_shard = threading.Lock()  # a worker of many threads computes one shard at a time, with all


class Job(ABC, Generic[S]):
    """What every worker holds: all that a shard needs but its range. Picklable."""

    @abstractmethod
    def summarise(self, start: int, stop: int, n_threads: int) -> S:
        """Give the summary of the rows ``[start, stop)``, the same whenever it is asked for."""


class Worker(NamedTuple):
    """A worker process: threads, bytes it may use (None: no limit) and has had in use at most."""

    n_threads: int
    memory_limit: int | None
    peak_bytes: int


def as_client(engine: Any) -> Client:
    """Give a client as it is, and refuse anything else."""
    distributed = sys.modules.get("distributed")  # imported already, if there is a client
    if distributed is None or not isinstance(engine, distributed.Client):
        raise ParameterError(
            f"engine must be None or a distributed.Client, got {type(engine).__name__}"
        )
    if engine.asynchronous:
        raise ParameterError("engine is an asynchronous client; make it with asynchronous=False")
    return engine


def workers(client: Client) -> dict[str, Worker]:
    """Give the workers by address; wait for the first one.

    Raises
    ------
    ClusterError
        If none comes, or one cannot import streamrf.
    """
    with _cluster_errors(client):
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise ClusterError(
                f"the scheduler {_address(client)} has had no worker for {PATIENCE:.0f} s; start "
                f"some: dask worker {_address(client)}"
            ) from None
        try:
            return client.run(describe)
        except ImportError as error:
            raise ClusterError(
                f"a worker of {_address(client)} cannot import streamrf ({error}); install it "
                "where the workers run"
            ) from error


def default_parts(n_rows: int, n_workers: int, n_threads: int = 1) -> int:
    """Give a number of shards: enough to even out workers, few enough to be worth their sums.

    It is a multiple of the workers, so that none waits for others with a last shard.

    Parameters
    ----------
    n_rows, n_workers : to share
    n_threads : of a worker

    Examples
    --------
    >>> default_parts(60_000, 2), default_parts(60_000, 1, 2), default_parts(10**9, 100, 16)
    (2, 1, 800)
    """
    n_workers = max(1, n_workers)
    most = n_rows // (FEWEST_ROWS * n_threads * n_workers)
    return n_workers * max(1, min(SHARDS_A_WORKER, most))


def cut(
    source: Source,
    window: tuple[int, int | None],
    parts: int | None,
    on: dict[str, Worker],
    row_bytes: int = 0,
) -> list[tuple[int, int]]:
    """Give the ranges of rows of the shards.

    Parameters
    ----------
    source : re-readable
    window : rows ``[start, stop)``
    parts : shards wanted; None means what suits rows and workers
    on : workers to share the shards, by address
    row_bytes : bytes of the result of a row, where results are kept by row

    Raises
    ------
    ConsumedError
        A source that can be read once only.
    ParameterError
        Fewer than one part, or arrays too large to send.
    """
    if not source.seekable or source.n_rows is None:
        raise ConsumedError(
            f"{source.where} can be read once, from its first row on, and workers read shards of "
            "rows each by itself; write the rows to HDF5 files, or leave out the cluster"
        )
    n_bytes = _bytes_sent(source)
    if n_bytes > MOST_ARRAY_BYTES:
        raise ParameterError(
            f"{source.where} holds {n_bytes >> 20} MiB in memory, which every worker would get a "
            f"copy of, and {MOST_ARRAY_BYTES >> 20} MiB are the most; write the rows to HDF5 files "
            "where the workers can read them, or leave out the cluster"
        )
    start, stop = window
    stop = source.n_rows if stop is None else min(stop, source.n_rows)
    n_rows = max(stop - start, 1)
    if parts is None:
        n_threads = max((worker.n_threads for worker in on.values()), default=1)
        parts = default_parts(n_rows, len(on), n_threads)
        parts = max(parts, -(-n_rows * row_bytes // ROWS_BYTES))
    of_all = -(-parts * source.n_rows // n_rows)
    ranges = [(max(low, start), min(high, stop)) for low, high in source.split(of_all)]
    return [(low, high) for low, high in ranges if low < high]


def _bytes_sent(source):
    """Give the bytes of a source on its way to a worker, without a copy of its arrays."""
    arrays: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(source, protocol=5, buffer_callback=arrays.append)
    return len(rest) + sum(array.raw().nbytes for array in arrays)


def map_reduce(
    client: Client,
    job: Job[S],
    shards: list[tuple[int, int]],
    progress: Callable[[int], None] | None = None,
) -> S:
    """Add up the summaries of shards with ``+``, on the workers where they lie.

    Two summaries on one worker are merged there; only when every shard is done are the totals of
    the workers merged over the network, in pairs, and the last one comes home.

    Parameters
    ----------
    client : of the cluster
    job : sent once
    shards : ranges of rows
    progress : called with the number of rows of each shard done

    Raises
    ------
    ClusterError
        The scheduler was lost, or shards end every worker that takes them.
    Exception
        The first error of a shard, which is not tried again.
    """
    run = _Run(client, job, "shard")
    with run:
        total = _merged(run, shards, progress)
        with _cluster_errors(client):
            return total.result()


def map_in_order(
    client: Client,
    job: Job[S],
    shards: list[tuple[int, int]],
    progress: Callable[[int], None] | None = None,
) -> Iterator[S]:
    """Give the summaries of shards in their order; few are kept waiting at a time.

    Parameters and errors are those of `map_reduce`.
    """
    run = _Run(client, job, "rows")
    with run:
        ahead: deque = deque()
        for shard in shards:
            ahead.append((run.submit(shard), shard))
            if len(ahead) >= 2 * run.n_workers:
                yield _next(run, ahead, progress)
        while ahead:
            yield _next(run, ahead, progress)


def _next(run, ahead, progress):
    """Give the summary of the first shard, and count its rows."""
    while True:
        future, (start, stop) = ahead[0]
        with _cluster_errors(run.client):
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

    def __init__(self, client: Client, job: Job, kind: str):
        self.client = client
        self._kind = kind
        self._name = uuid4().hex[:8]
        self._job = job
        self._future: Future = None
        self._numbers = count()
        self._counted = 0.0
        self._looked = time.monotonic()
        self._addresses: list[str] = []
        self._paused: set[str] = set()
        self._place_of: dict[Any, str] = {}  # of the shards that are not done, by key
        self._n_shards: Counter[str] = Counter()  # that are not done, by address
        self._calls: dict[Any, tuple] = {}  # of the tasks that are not done, by key
        self.alive: dict[Any, Future] = {}

    def __enter__(self) -> "_Run":
        import dask

        # In the graph rather than scattered: what is scattered is gone with its last worker, and
        # the scheduler can send this again. It is one message, however large.
        blob = pickle.dumps(self._job, protocol=5)
        large = {"distributed.admin.large-graph-warning-threshold": len(blob) + (64 << 20)}
        with _cluster_errors(self.client), dask.config.set(large):
            self._future = self.client.submit(
                pickle.loads, blob, key=f"streamrf-job-{self._name}", pure=False
            )
        return self

    def __exit__(self, *error: object) -> None:
        # By name, because the frames of an error may still hold them. Not `cancel`: the scheduler
        # stumbles over keys that are cancelled and released at a time.
        for future in (*self.alive.values(), self._future):
            future.release()

    def submit(self, shard: tuple[int, int]) -> Future:
        """Have a shard summarised."""
        return self._submit(self._kind, summarise, self._future, *shard)

    def _least_busy(self):
        """Give the address of the worker with the fewest shards.

        Dask would fill all threads of a worker that has the job before it sends it to another, and
        a worker computes one shard at a time.
        """
        self._count_workers()
        usable = [address for address in self._addresses if address not in self._paused]
        return min(usable or self._addresses, key=self._n_shards.__getitem__, default=None)

    def merge(self, a: Future, b: Future) -> Future:
        """Have two summaries added, and let go of them when they are."""
        return self._submit("merge", merge, a, b, priority=MERGE_FIRST)

    def _submit(self, kind, function, *args, **options):
        key = (f"streamrf-{kind}-{self._name}", next(self._numbers))
        if kind == self._kind and (place := self._least_busy()) is not None:
            self._place_of[key] = place
            self._n_shards[place] += 1
            options |= {"workers": [place], "allow_other_workers": True}
        with _cluster_errors(self.client):
            future = self.client.submit(function, *args, key=key, pure=False, retries=0, **options)
        self.alive[future.key] = future
        self._calls[future.key] = (kind, function, *args), options
        return future

    def forget(self, future: Future) -> None:
        """Let go of what a task that is done was made from."""
        (kind, _, *args), _ = self._pop(future.key)
        if kind == "merge":
            for part in args:
                del self.alive[part.key]

    def _pop(self, key):
        """Give the call of a task, which is not waited for any more."""
        if key in self._place_of:
            self._n_shards[self._place_of.pop(key)] -= 1
        return self._calls.pop(key)

    def release(self, future: Future) -> None:
        """Let go of a result that is here."""
        self.forget(future)
        self.alive.pop(future.key).release()

    def move(self) -> dict[Any, Future]:
        """Send anew what waits at paused workers, every few seconds; give the futures by old key.

        Dask sends nothing to a worker that is paused for its memory, but what waits there waits
        until it goes on, which may be never; Dask's work stealing leaves the last task behind.
        """
        now = time.monotonic()
        if now < self._looked + LOOK_SECONDS:
            return {}
        self._looked = now
        with _cluster_errors(self.client):
            paused = self.client.run_on_scheduler(processing_at_paused, self._name)
            self._paused = set(paused)
            if not paused:
                return {}
            begun = self.client.run(executing, workers=list(paused), on_error="ignore")
        moved = {}
        for address, keys in paused.items():
            for key in set(keys) - set(begun.get(address, keys)):
                if key in self._calls and not self.alive[key].done():
                    moved[key] = self._again(key)
        return moved

    def _again(self, key):
        """Have a task done by another future; the result of the first, if any comes, is dropped."""
        call, options = self._pop(key)
        self.alive.pop(key).release()
        return self._submit(*call, **options)

    @property
    def n_workers(self) -> int:
        """Workers there are, counted every few seconds."""
        self._count_workers()
        return max(1, len(self._addresses))

    def _count_workers(self):
        now = time.monotonic()
        if now >= self._counted:
            with _cluster_errors(self.client):
                self._addresses = list(self.client.nthreads())
            self._counted = now + LOOK_SECONDS

    def place(self, futures: list[Future]) -> dict[Any, str | None]:
        """Give the address of a worker that holds each result, by key."""
        with _cluster_errors(self.client):
            places = self.client.who_has(futures)
        return {future.key: next(iter(places.get(future.key, ())), None) for future in futures}


def _merged(run: _Run, shards, progress) -> Future:
    """Give the future of the sum of all shards."""
    from distributed import as_completed

    to_come = deque(shards)
    rows_of: dict[Any, int] = {}  # of the shards in progress, by key
    n_merging = 0
    waiting: dict[str | None, Future] = {}  # the one total of each worker
    done = as_completed(loop=run.client.loop)

    def send():
        # A second shard waits at each worker, so that none idles between two; not near the end,
        # where it had better be free for whichever worker is first to finish.
        most = (2 if len(to_come) >= run.n_workers else 1) * run.n_workers
        while to_come and len(rows_of) < most:
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


def _ready(done):
    """Give the futures that are done, after a short wait for the first."""
    with done.thread_condition:
        if done.queue.empty():
            done.thread_condition.wait(WAIT_SECONDS)
    return done.next_batch(block=False)


def _check(client, future):
    """Raise what a task has raised."""
    if future.status != "finished":
        with _cluster_errors(client):
            future.result()


@contextmanager
def _cluster_errors(client: Client) -> Iterator[None]:
    """Put what Dask raises for a cluster that fails in our words."""
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
            f"the scheduler {_address(client)} was lost or gave up the run ({_first_line(error)}); "
            "start it again. With a spill folder the next run goes on from the shards finished"
        ) from error


def _first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0]


def _address(client):
    scheduler = client.scheduler
    return scheduler.address if scheduler is not None else "of this client"


# What runs on the workers and, to find those that are paused, on the scheduler.


def summarise(job: Job[S], start: int, stop: int) -> S:
    """Summarise a shard with all threads of the worker, while no other shard computes here."""
    from distributed import get_worker

    with _one_shard:
        return job.summarise(start, stop, get_worker().state.nthreads)


def merge(a: Any, b: Any) -> Any:
    """Add two summaries; neither is changed, because either may be needed again."""
    with computing(1):
        return a + b


def describe(dask_worker: Any) -> Worker:
    """Tell of this worker."""
    limit = dask_worker.memory_manager.memory_limit
    return Worker(dask_worker.state.nthreads, limit, peak_bytes())


def executing(dask_worker: Any) -> list:
    """Give the keys of the tasks that this worker computes."""
    return [task.key for task in dask_worker.state.executing]


def processing_at_paused(run: str, dask_scheduler: Any) -> dict[str, list]:
    """Give the keys of a run's tasks at workers that are paused, by their addresses."""
    return {
        address: keys
        for address, worker in dask_scheduler.workers.items()
        if worker.status.name == "paused"
        and (keys := [task.key for task in worker.processing if run in str(task.key)])
    }
