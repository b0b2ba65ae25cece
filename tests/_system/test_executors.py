"""Work done here, in processes and on a cluster."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from distributed import LocalCluster
from typer.testing import CliRunner

from kem_pymc._system.certificates import make_certificates
from kem_pymc._system.executors import Cluster, Here, Processes, in_order, workers
from kem_pymc.cli.main import app
from kem_pymc.errors import InputError, WorkerError
from tests.conftest import running_cluster

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


@pytest.fixture(params=["processes", "cluster"])
def crew(request):
    if request.param == "processes":
        yield Processes(2)
        return
    with closing(Cluster(request.getfixturevalue("address"))) as crew:
        yield crew


def done(crew, function):
    return in_order(crew, function, TASKS, lambda _: None)


def test_the_same_comes_out_everywhere(crew):
    assert done(crew, drawn) == done(Here(), drawn)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows")
def test_processes_leave_ctrl_c_to_the_one_that_waits_for_them():
    with closing(Processes(2)) as crew:
        blocked = done(crew, lambda _: signal.pthread_sigmask(signal.SIG_BLOCK, []))
    assert all(signal.SIGINT in own for own in blocked)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_functions_may_hold_things(crew):
    # Lambdas and closures can't be pickled by the standard library.
    offset = np.arange(4)
    assert done(crew, lambda task: int(offset[task % 4])) == [k % 4 for k in TASKS]


def second_first(flag, task):
    """The first task ends only after the second."""
    if task == 1:
        flag.touch()
    for _ in range(600):
        if flag.exists():
            break
        time.sleep(0.1)
    time.sleep(0.5 * (task == 0))


def test_results_come_as_they_are_ready(crew, tmp_path):
    results = crew.each(partial(second_first, tmp_path / "second"), [0, 1])
    assert [number for number, _ in results] == [1, 0]


@pytest.mark.parametrize("here", [True, False])
def test_tasks_follow_from_results(crew, here):
    crew, seen = Here() if here else crew, []

    def following(number, left):
        assert seen[-1] == (number, left)  # what follows is asked for after a result was yielded
        return left if left > 0 else None

    for number, left in crew.each(lambda left: left - 1, [3, 1, 2], following):
        seen.append((number, left))
    assert sorted(seen) == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1)]


def test_a_dead_worker_costs_no_result(crew, tmp_path):
    flag = tmp_path / "died"
    assert done(crew, partial(dying_once, flag)) == done(Here(), drawn)
    assert flag.exists()


def test_workers_that_keep_dying_are_given_up(crew):
    with pytest.raises(WorkerError, match="died in a row"):
        done(crew, dying)
    assert done(crew, drawn) == done(Here(), drawn)  # the crew is as good as before


def test_an_error_of_a_task_is_raised_here(crew):
    with pytest.raises(ZeroDivisionError, match="task five"):
        done(crew, failing)


def test_each_result_is_told(crew):
    message = []
    results = in_order(crew, drawn, TASKS, message.append)
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
    with here, closing(Cluster(here.scheduler_address)) as crew:
        assert done(crew, Single()) == TASKS


def test_nothing_to_do(crew):
    assert list(crew.each(drawn, [])) == []


def test_who_works():
    assert isinstance(workers(1), Here)
    assert isinstance(workers(3), Processes)
    with pytest.raises(InputError, match="Give one of them"):
        workers(2, "tcp://127.0.0.1:1")


def test_ctrl_c_stops_a_cluster():
    # Whatever started the tests, Ctrl-C isn't ignored here.
    as_usual = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with running_cluster(preexec_fn=as_usual) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_a_place_whose_worker_died_is_filled_again(tmp_path):
    # As on a machine where a worker takes longer to start than Dask waits for it.
    slow = {**os.environ, "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "100ms"}
    with running_cluster(env=slow) as (_, found), closing(Cluster(found)) as crew:
        assert crew.width == 4
        assert done(crew, partial(dying_once, tmp_path / "died")) == done(Here(), drawn)
        for _ in range(1200):
            if crew.width == 4:
                break
            time.sleep(0.1)
        time.sleep(0.5)
        assert crew.width == 4


def test_a_port_that_is_taken(address):
    command = [str(Path(sys.executable).with_name("kem")), "cluster", "--port"]
    port = address.rsplit(":", 1)[1]
    result = subprocess.run([*command, port], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert f"The scheduler can't start at port {port}" in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


# Other machines.


@pytest.fixture
def pem(tmp_path):
    """A folder with certificates that others made."""
    make_certificates(tmp_path / "others")
    return tmp_path / "others"


def test_only_the_right_certificate_connects(tmp_path, pem, monkeypatch):
    own = tmp_path / "own"
    options = ("--host", "0.0.0.0", "--certificates", str(own))
    with running_cluster(*options) as (process, _):
        lines = [process.stdout.readline() for _ in range(3)]
        (found,) = re.findall(r"--cluster (tls://\S+)", lines[1])
        assert "can run code on this machine" in lines[0]
        assert f"dask worker {found} --tls-ca-file {own}/ca.pem" in lines[2]
        assert {path.name for path in own.iterdir()} == {"ca.pem", "cert.pem", "key.pem"}
        assert (own / "key.pem").stat().st_mode & 0o077 == 0
        found = f"tls://127.0.0.1:{found.rpartition(':')[2]}"
        monkeypatch.setattr("kem_pymc._system.executors.PATIENCE_SECONDS", 2.0)
        with pytest.raises(InputError, match="with the same certificates"):
            workers(cluster=found)
        monkeypatch.setenv("KEM_CERTIFICATES", str(pem))
        with pytest.raises(InputError, match="with the same certificates"):
            workers(cluster=found)
        with pytest.raises(InputError, match="No Dask scheduler responds"):
            workers(cluster=found.replace("tls://", "tcp://"))
        joining = subprocess.run(joins(found, pem), capture_output=True, timeout=120)
        assert joining.returncode != 0
        monkeypatch.setattr("kem_pymc._system.executors.PATIENCE_SECONDS", 30.0)
        monkeypatch.setenv("KEM_CERTIFICATES", str(own))
        with closing(workers(cluster=found)) as crew:
            assert crew.width == 4
            assert done(crew, drawn) == done(Here(), drawn)
            with subprocess.Popen(joins(found, own), stderr=subprocess.DEVNULL) as joining:
                try:
                    until = time.monotonic() + 60
                    while crew.width < 6 and time.monotonic() < until:
                        time.sleep(0.1)
                    assert crew.width == 6
                finally:
                    joining.terminate()


def joins(address, folder):
    """Return the command that lets a worker of one thread join a cluster."""
    program = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
    files = {"--tls-ca-file": "ca.pem", "--tls-cert": "cert.pem", "--tls-key": "key.pem"}
    own = [part for name, file in files.items() for part in (name, str(folder / file))]
    return [*program, "--no-nanny", "--no-dashboard", "--death-timeout", "5", *own]


def refused_cluster(*arguments):
    result = CliRunner().invoke(app, ["cluster", "--port", "0", *map(str, arguments)])
    assert result.exit_code == 2
    return result.stderr


def test_an_open_host_needs_certificates(tmp_path, pem):
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org"):
        assert "any program that connects to a cluster can run code" in refused_cluster(
            "--host", host
        )
    (pem / "key.pem").unlink()
    assert "has no key.pem" in refused_cluster("--certificates", pem)
    (pem / "key.pem").write_text("no key")
    assert "can't be used" in refused_cluster("--certificates", pem)
    (tmp_path / "file").touch()
    assert "has no ca.pem" in refused_cluster("--certificates", tmp_path / "file")


def test_nobody_answers(monkeypatch):
    monkeypatch.setattr("kem_pymc._system.executors.PATIENCE_SECONDS", 0.3)
    with pytest.raises(InputError, match="kem cluster"):
        workers(cluster="tcp://127.0.0.1:9")


def test_dask_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"kem-pymc\[cluster\]"):
        workers(cluster="tcp://127.0.0.1:9")
