"""Threads that multiply side by side: every task once, one BLAS thread each, errors told."""

import os
import signal
import subprocess
import sys
import threading
import time

import numba
import numpy as np
import pytest
import threadpoolctl

from streamrf.jit.threads import computing, on_single_blas_threads, single_blas_threads


def blas_threads():
    return {
        one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"
    }


@pytest.mark.parametrize("n_threads", [1, 2])
def test_every_task_is_done_once_by_one_blas_thread(n_threads):
    done, names, limits = [], set(), set()

    def work(task):
        done.append(task)
        names.add(threading.current_thread().name)
        limits.update(blas_threads())

    with computing(n_threads):
        on_single_blas_threads(work, range(50))
        on_single_blas_threads(work, ())
    assert sorted(done) == list(range(50))
    assert len(names) <= n_threads
    assert limits == {1}


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_error_is_raised_when_nothing_runs_any_more(n_threads):
    running = []

    def work(task):
        running.append(task)
        if task == 3:
            raise KeyError(task)
        time.sleep(0.01)
        running.remove(task)

    with computing(n_threads), pytest.raises(KeyError, match="3"):
        on_single_blas_threads(work, range(10))
    assert running == [3]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals for a thread")
@pytest.mark.parametrize("n_threads", [1, 2])
def test_after_ctrl_c_nothing_runs_any_more(n_threads):
    running, done = [], []
    # polars, where a test before has imported it, lets the kernel go on waiting
    signal.signal(signal.SIGINT, signal.getsignal(signal.SIGINT))

    def work(task):
        running.append(task)
        if task == 3:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.02)
        running.remove(task)
        done.append(task)

    with computing(n_threads), pytest.raises(KeyboardInterrupt):
        on_single_blas_threads(work, range(500))
    assert running == ([] if n_threads > 1 else [3])  # the caller's own thread left the task
    assert 3 <= len(done) < 500
    n_done = len(done)
    time.sleep(0.1)
    assert len(done) == n_done


@pytest.mark.parametrize("n_threads", [1, 2])
def test_threads_work_in_the_context_of_the_caller(n_threads):
    found = []
    with computing(n_threads), single_blas_threads() as each:
        for over in ("ignore", "raise"):
            with np.errstate(over=over):
                each(lambda _: found.append(np.geterr()["over"]), range(4))
    assert found == ["ignore"] * 4 + ["raise"] * 4


FORKED = """
import os, time, warnings
warnings.simplefilter("ignore")  # of forks beside threads
from streamrf.jit.threads import computing, on_single_blas_threads
done = []
def work(task):
    time.sleep(0.02)  # so that both threads have their share
    done.append(task)
with computing(2):
    on_single_blas_threads(work, range(5))
child = os.fork()
if not child:
    with computing(2):
        on_single_blas_threads(work, range(5))
    os._exit(len(done))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own():
    environment = {**os.environ, "NUMBA_THREADING_LAYER": "workqueue"}  # OpenMP's cannot be forked
    done = subprocess.run(
        [sys.executable, "-c", FORKED],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["10"]


def test_blas_has_the_threads_of_the_innermost_block():
    most = numba.config.NUMBA_NUM_THREADS
    before = blas_threads()
    with computing(most):
        assert blas_threads() == {most}
        with computing():
            assert blas_threads() == {most}
        with computing(1):
            assert blas_threads() == {1}
        with single_blas_threads():
            assert blas_threads() == {1}
            with computing():
                assert blas_threads() == {most}
            assert blas_threads() == {1}
        assert blas_threads() == {most}
    assert blas_threads() == before
