"""The tasks of a run on a Dask cluster: one a shard, their sums merged on the workers.

A task is a function of its range of rows and of a `ShardTask` that every worker holds once, so a
task that runs again, because its worker was lost, gives the same sums, and the scheduler's graph
sees to it that each shard's are added once. Neither rows nor features are keys of the graph.
"""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from streamrf.engine import futures
from streamrf.engine.base import Progress
from streamrf.engine.failures import address_of, cluster_errors
from streamrf.engine.futures import Run, Shard
from streamrf.engine.options import Worker
from streamrf.engine.worker import ShardTask, describe, versions
from streamrf.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")

WAIT_SECONDS = 1.0


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
                client.wait_for_workers(1, timeout=futures.PATIENCE)
            except TimeoutError:
                raise ClusterError(
                    f"the scheduler {address_of(client)} has had no worker for "
                    f"{futures.PATIENCE:.0f} s; start some: dask worker {address_of(client)}"
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
    run = Run(client, task, "shard")
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
    run = Run(client, task, "rows")
    with run:
        ahead: deque = deque()
        for shard in shards:
            ahead.append((run.submit(shard), shard))
            if len(ahead) >= 2 * run.n_workers:
                yield _next(run, ahead, progress)
        while ahead:
            yield _next(run, ahead, progress)


def _next(run: "Run", ahead: deque, progress: Progress | None) -> Any:
    """Return the summary of the first shard, and count its rows."""
    while True:
        future, (start, stop) = ahead[0]
        with cluster_errors(run.client):
            try:
                summary = future.result(timeout=futures.LOOK_SECONDS)
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


def _merged(run: Run, shards: list[Shard], progress: Progress | None) -> "Future":
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
