"""Work done here, in processes, in threads and on a cluster."""

import os
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from multiprocessing import get_context

import dask
import numpy as np
import pytest
from distributed import LocalCluster
from distributed.security import Security

from kem_pymc._system.executors import DaskPool, Pool, Processes, Serial, in_order, make_executor
from kem_pymc.errors import InputError, WorkerError

TASKS = list(range(12))


def drawn(task):
    """A task brings its own seed."""
    time.sleep(0.01 * (task % 3))
    return np.random.default_rng([7, task]).normal(size=3).tolist()


def dying_once(flag, task):
    if task == 5 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return drawn(task)


def dying(task):
    if task == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return drawn(task)


def failing(task):
    if task == 5:
        raise ZeroDivisionError("task five")
    return drawn(task)


CLUSTER = pytest.param("cluster", marks=pytest.mark.cluster)


@pytest.fixture(params=["processes", "threads", CLUSTER])
def executor(request):
    if request.param == "threads":
        with ThreadPoolExecutor(2) as pool:
            yield make_executor(cluster=pool)
        return
    cluster = request.param == "cluster"
    with closing(
        DaskPool(request.getfixturevalue("address")) if cluster else Processes(2)
    ) as executor:
        yield executor


#: Where the death of a worker isn't that of the tests.
APART = pytest.mark.parametrize("executor", ["processes", CLUSTER], indirect=True)


def done(executor, function):
    return in_order(executor, function, TASKS, lambda _: None)


@pytest.mark.integration
def test_the_same_comes_out_everywhere(executor):
    assert done(executor, drawn) == done(Serial(), drawn)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows")
def test_processes_leave_ctrl_c_to_the_one_that_waits_for_them():
    with closing(Processes(2)) as executor:
        blocked = done(executor, lambda _: signal.pthread_sigmask(signal.SIG_BLOCK, []))
    assert all(signal.SIGINT in own for own in blocked)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_functions_may_hold_things(executor):
    # Lambdas and closures can't be pickled by the standard library.
    offset = np.arange(4)
    assert done(executor, lambda task: int(offset[task % 4])) == [k % 4 for k in TASKS]


def second_first(flag, task):
    """The first task ends only after the second."""
    if task == 1:
        flag.touch()
    for _ in range(600):
        if flag.exists():
            break
        time.sleep(0.1)
    time.sleep(0.5 * (task == 0))


@pytest.mark.integration
def test_results_come_as_they_are_ready(executor, tmp_path):
    results = executor.map_unordered(partial(second_first, tmp_path / "second"), [0, 1])
    assert [number for number, _ in results] == [1, 0]


@pytest.mark.parametrize("here", [True, False])
def test_tasks_follow_from_results(executor, here):
    executor, seen = Serial() if here else executor, []

    def following(number, left):
        assert seen[-1] == (number, left)  # what follows is asked for after a result was yielded
        return left if left > 0 else None

    for number, left in executor.map_unordered(lambda left: left - 1, [3, 1, 2], following):
        seen.append((number, left))
    assert sorted(seen) == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1)]


@pytest.mark.faults
@APART
def test_a_dead_worker_costs_no_result(executor, tmp_path):
    flag = tmp_path / "died"
    assert done(executor, partial(dying_once, flag)) == done(Serial(), drawn)
    assert flag.exists()


@pytest.mark.faults
@APART
def test_workers_that_keep_dying_are_given_up(executor):
    with pytest.raises(WorkerError, match="died in a row"):
        done(executor, dying)
    assert done(executor, drawn) == done(Serial(), drawn)  # later calls start others


@pytest.mark.integration
def test_an_error_of_a_task_is_raised_here(executor):
    with pytest.raises(ZeroDivisionError, match="task five"):
        done(executor, failing)


@pytest.mark.integration
def test_each_result_is_reported(executor):
    message = []
    results = in_order(executor, drawn, TASKS, message.append)
    assert sorted(message) == sorted(results)


class Single:
    """Work that goes wrong where two threads are at it with one and the same object."""

    def __init__(self):
        self.task = None

    def __call__(self, task):
        self.task = task
        time.sleep(0.05)
        return self.task


def test_a_worker_with_several_threads():
    here = LocalCluster(n_workers=1, threads_per_worker=4, processes=False, dashboard_address=":0")
    with here, closing(DaskPool(here.scheduler_address)) as executor:
        assert done(executor, Single()) == TASKS


def test_nothing_to_do(executor):
    assert list(executor.map_unordered(drawn, [])) == []


def test_who_works():
    assert isinstance(make_executor(1), Serial)
    assert isinstance(make_executor(3), Processes)
    with pytest.raises(InputError, match="Give one of them"):
        make_executor(2, "tcp://127.0.0.1:1")


@pytest.mark.faults
def test_an_executor_that_is_broken_is_given_up():
    """The executor isn't ours to replace."""
    with (
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
        pytest.raises(WorkerError, match="died"),
    ):
        done(make_executor(cluster=pool), dying)


BEGUN = []


def slow(task):
    BEGUN.append(task)
    time.sleep(0.1)


def test_an_executor_is_left_running():
    """Fails where tasks that weren't awaited stay, or the executor is shut down."""
    with ThreadPoolExecutor(1) as pool:
        executor = make_executor(cluster=pool)
        assert isinstance(executor, Pool)
        assert executor.cores == 1
        results = executor.map_unordered(slow, TASKS)
        next(results)
        results.close()
        executor.close()
        assert pool.submit(int).result() == 0
        assert len(BEGUN) < len(TASKS)


# Other machines.


@pytest.mark.cluster
def test_certificates_are_those_of_the_configuration_of_dask():
    made = Security.temporary()
    parts = {"ca-file": made.tls_ca_file}
    parts |= {"client.cert": made.tls_client_cert, "client.key": made.tls_client_key}
    settings = {f"distributed.comm.tls.{name}": value for name, value in parts.items()}
    with (
        LocalCluster(
            n_workers=1, processes=False, security=made, protocol="tls://", dashboard_address=":0"
        ) as cluster,
        dask.config.set(settings),
        closing(make_executor(cluster=cluster.scheduler_address)) as executor,
    ):
        assert executor.cores >= 1
        assert done(executor, drawn) == done(Serial(), drawn)


def test_nobody_answers(monkeypatch):
    monkeypatch.setattr("kem_pymc._system.executors.PATIENCE_SECONDS", 0.3)
    with pytest.raises(InputError, match=r"No Dask scheduler responds at tcp://127\.0\.0\.1:9"):
        make_executor(cluster="tcp://127.0.0.1:9")


def test_dask_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"kem-pymc\[cluster\]"):
        make_executor(cluster="tcp://127.0.0.1:9")
