"""Reading ahead changes when blocks are read, and nothing else."""

import subprocess
import sys
import threading
import time
import traceback
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest

from streamrf.engine.base import Reading
from streamrf.errors import ParameterError
from streamrf.jit.threads import n_granted
from streamrf.sources import ArraySource, read_ahead


def readers():
    return [t for t in threading.enumerate() if t.name.startswith("streamrf-reader")]


@pytest.fixture(autouse=True)
def _no_reader_is_left():
    yield
    assert readers() == []


def wait_until(claim):
    """Wait for another thread, a second at most."""
    for _ in range(200):
        if claim():
            return
        time.sleep(0.005)
    pytest.fail("waited a second")


class Watched:
    """A generator function that notes what is pulled and whether it was closed."""

    def __init__(self, n_items=10, fail_at=None):
        self.n_items, self.fail_at = n_items, fail_at
        self.pulled = []
        self.threads = set()
        self.closed = False

    def items(self):
        try:
            for number in range(self.n_items):
                if number == self.fail_at:
                    raise OSError(f"item {number} broke")
                self.pulled.append(number)
                self.threads.add(threading.current_thread())
                yield number
        finally:
            self.closed = True


@pytest.mark.parametrize("depth", [1, 2, 50])
@pytest.mark.parametrize("n_items", [0, 1, 10])
def test_items_come_in_order_from_one_other_thread(n_items, depth):
    watched = Watched(n_items)
    assert list(read_ahead(watched.items(), depth)) == list(range(n_items))
    assert watched.closed
    assert len(watched.threads) == min(n_items, 1)
    assert threading.current_thread() not in watched.threads


def test_blocks_of_a_source_pass_unchanged():
    X = np.arange(300.0).reshape(100, 3)
    blocks = read_ahead(ArraySource(X).blocks(block_rows=7))
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), X)


@pytest.mark.parametrize("depth", [1, 3])
def test_it_reads_just_depth_items_ahead(depth):
    watched = Watched()
    items = read_ahead(watched.items(), depth)
    assert watched.pulled == []
    for number in range(3):
        assert next(items) == number
        wait_until(lambda: len(watched.pulled) == number + 1 + depth)  # noqa: B023
        time.sleep(0.02)
        assert len(watched.pulled) == number + 1 + depth
    items.close()


@pytest.mark.parametrize("depth", [1, 3])
def test_no_more_than_depth_and_one_in_use_are_alive(depth):
    class Big:
        pass

    alive = weakref.WeakSet()
    most = []

    def items():
        for _ in range(12):
            item = Big()
            alive.add(item)
            most.append(len(alive))
            yield item
            del item

    for item in read_ahead(items(), depth):
        time.sleep(0.005)
        most.append(len(alive))
        del item
    assert max(most) <= depth + 1


@pytest.mark.parametrize("fail_at", [0, 1, 4])
def test_an_error_is_raised_in_turn_with_its_own_traceback(fail_at):
    watched = Watched(fail_at=fail_at)
    with pytest.raises(OSError, match=f"item {fail_at} broke") as caught:
        list(read_ahead(watched.items(), 2))
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "items"
    assert watched.pulled == list(range(fail_at))


def test_items_before_an_error_are_given():
    got = []

    def take():
        for item in read_ahead(Watched(fail_at=4).items(), 3):
            got.append(item)

    with pytest.raises(OSError, match="item 4 broke"):
        take()
    assert got == [0, 1, 2, 3]


def test_leaving_the_loop_ends_the_thread_and_closes_the_iterator():
    watched = Watched()
    for item in read_ahead(watched.items(), 3):
        if item == 2:
            break
    assert watched.closed
    assert readers() == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_in_the_loop_ends_the_thread_and_closes_the_iterator(error):
    watched = Watched()

    def use():
        for item in read_ahead(watched.items(), 3):
            if item == 2:
                raise error

    with pytest.raises(error):
        use()
    wait_until(lambda: watched.closed and not readers())


def test_closing_waits_for_the_item_being_read_and_no_longer():
    begun, release = threading.Event(), threading.Event()
    pulled = []

    def slow():
        yield 0
        begun.set()
        release.wait(5)
        pulled.append(1)
        yield 1
        pulled.append(2)
        yield 2

    items = read_ahead(slow(), 3)
    assert next(items) == 0
    assert begun.wait(5)
    threading.Timer(0.05, release.set).start()
    items.close()
    assert pulled == [1]


def test_a_reader_that_never_began_has_no_thread():
    items = read_ahead(Watched().items())
    assert readers() == []
    items.close()


def test_iterators_that_cannot_be_closed_are_read_too():
    assert list(read_ahead(iter([1, 2, 3]), 2)) == [1, 2, 3]


def test_depth_below_zero_is_refused_at_once():
    with pytest.raises(ParameterError, match="depth=-1; expected at least 0"):
        read_ahead(iter("abc"), -1)


def test_depth_of_zero_reads_each_item_when_it_is_asked_for_in_the_caller():
    watched = Watched(3)
    items = read_ahead(watched.items(), 0)
    assert (next(items), watched.pulled) == (0, [0])
    assert list(items) == [1, 2]
    assert watched.threads == {threading.current_thread()}


def test_depth_of_zero_leaves_no_grant_of_threads_and_closes_what_it_read():
    before, watched = n_granted(), Watched(3)
    items = read_ahead(watched.items(), 0, n_threads=1)
    next(items)
    items.close()
    assert n_granted() == before
    assert watched.closed


class Reads(ArraySource):
    """Rows that note the threads which read them."""

    threads: ClassVar[list] = []

    def blocks(self, *args, **kwargs):
        self.threads.append(threading.current_thread())
        yield from super().blocks(*args, **kwargs)


@pytest.mark.parametrize(("block_rows", "elsewhere"), [(20, False), (21, False), (19, True)])
def test_rows_of_one_block_are_read_without_a_thread(block_rows, elsewhere):
    Reads.threads.clear()
    reading = Reading(Reads(np.zeros((25, 2))), start=5, block_rows=block_rows)
    assert sum(len(block.X) for block in reading.blocks()) == 20
    assert (Reads.threads[0] is not threading.current_thread()) is elsewhere


def test_a_script_that_leaves_a_reader_half_read_still_ends():
    script = (
        "from streamrf.sources import read_ahead\n"
        "items = read_ahead(iter(range(100)), 2)\n"
        "print(next(items))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_a_generator_that_its_thread_is_still_in_is_closed(monkeypatch):
    """So it is where an interrupt comes while the thread starts: no one waits for it then."""
    is_closed, may_go = [], threading.Event()

    def items():
        try:
            yield 1
            may_go.wait(10)
            yield 2
        finally:
            is_closed.append(True)

    shutdown, left = ThreadPoolExecutor.shutdown, []

    def leave(executor, wait, cancel_futures):
        left.append(executor)
        threading.Timer(0.05, may_go.set).start()

    reading = read_ahead(items())
    assert next(reading) == 1
    with monkeypatch.context() as patch:
        patch.setattr(ThreadPoolExecutor, "shutdown", leave)
        reading.close()
    shutdown(left[0])
    assert is_closed == [True]


def test_an_error_of_a_generator_that_closes_is_raised():
    def items():
        try:
            yield from range(9)
        finally:
            raise ValueError("already executing, it says")

    reading = read_ahead(items())
    next(reading)
    with pytest.raises(ValueError, match="it says"):
        reading.close()
