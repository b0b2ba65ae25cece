"""Cores, memory and file systems, as a made-up kernel tells of them."""

import os
from functools import partial

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

from kem_pymc._system import resources
from kem_pymc._system.executors import Here, Processes, workers
from kem_pymc.datasets.simulate import draw_function
from kem_pymc.gp.draws import draw_functions


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Return what writes a file that the kernel tells by."""
    monkeypatch.setattr(resources, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(resources, "PROC", tmp_path / "proc")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)

    def tell(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return tell


@pytest.mark.usefixtures("kernel")
def test_without_limits():
    assert resources.usable_cores() == 8
    assert resources.cgroup_cores() is None
    assert resources.memory() is None
    assert resources.file_system(resources.PROC) == ""


def test_the_least_limit_of_all_groups_counts(kernel):
    kernel("proc/self/cgroup", "0::/a/b\n")
    kernel("cgroup/a/b/cpu.max", "max 100000\n")
    kernel("cgroup/a/cpu.max", "250000 100000\n")
    kernel("cgroup/cpu.max", "500000 100000\n")
    assert resources.cgroup_cores() == 2.5
    assert resources.usable_cores() == 3


def test_limits_of_the_first_version(kernel):
    kernel("proc/self/cgroup", "3:memory:/x\n2:cpu,cpuacct:/x\n")
    kernel("cgroup/cpu/x/cpu.cfs_quota_us", "50000\n")
    kernel("cgroup/cpu/x/cpu.cfs_period_us", "100000\n")
    kernel("cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    kernel("cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert resources.cgroup_cores() == 0.5
    assert resources.usable_cores() == 1


def test_workers_are_as_many_as_may_be_used(kernel):
    kernel("proc/self/cgroup", "0::/\n")
    kernel("cgroup/cpu.max", "300000 100000\n")
    crew = workers()
    assert isinstance(crew, Processes)
    assert crew.cores == 3


def test_memory_is_what_the_container_leaves(kernel):
    kernel("proc/meminfo", "MemTotal: 4000 kB\nMemFree: 10 kB\nMemAvailable: 3000 kB\n")
    assert resources.memory() == (3000 * 1024, 4000 * 1024)
    kernel("proc/self/cgroup", "0::/a\n")
    kernel("cgroup/a/memory.max", f"{2000 * 1024}\n")
    kernel("cgroup/a/memory.current", f"{500 * 1024}\n")
    assert resources.memory() == (1500 * 1024, 2000 * 1024)


def test_the_file_system_is_that_of_the_nearest_mount(kernel, tmp_path):
    mounts = {"/": "ext4", str(tmp_path): "nfs4", f"{tmp_path}/with\\040space": "tmpfs"}
    lines = [f"1 2 0:1 / {point} rw - {kind} server rw" for point, kind in mounts.items()]
    kernel("proc/self/mountinfo", "\n".join(lines))
    assert resources.file_system(tmp_path / "cache") == "nfs4"
    assert resources.file_system(tmp_path / "with space") == "tmpfs"
    assert resources.file_system(tmp_path.parent) == "ext4"


@pytest.mark.parametrize(
    ("kind", "remote"), [("nfs4", True), ("fuse.sshfs", True), ("ext4", False), ("", False)]
)
def test_which_file_systems_are_remote(kind, remote):
    assert resources.is_remote(kind) == remote


def threads_there():
    """Return the most threads that a library of linear algebra takes."""
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


class TestOneBlasThread:
    @pytest.fixture(autouse=True)
    def _several(self):
        scipy.linalg.eigh(np.eye(2))
        with threadpool_limits(2, user_api="blas"):
            yield

    def test_others_get_theirs_back(self):
        @resources.one_blas_thread()
        def fail():
            assert threads_there() == 1
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert threads_there() == 2

    @pytest.mark.parametrize("crew", [Here(), Processes(2)], ids=["here", "processes"])
    def test_workers_have_one(self, crew):
        done = [result for _, result in crew.each(lambda _: threads_there(), range(3))]
        assert done == [1, 1, 1]
        assert threads_there() == 2

    def test_a_seed_gives_the_same_functions(self):
        """Without it, they differ by rounding, and chains of them then by more."""
        x = np.linspace(0.0, 20.0, 203)
        theta = {"SE0.amplitude": 9.0, "SE0.lengthscale": 1.0}
        for draw in (partial(draw_function, "SE0", theta), partial(draws_of, theta)):
            drawn = []
            for count in (1, 2):
                with threadpool_limits(count, user_api="blas"):
                    drawn.append(draw(x, np.random.default_rng(3)))
            assert np.array_equal(*drawn)


def draws_of(theta, x, rng):
    return draw_functions("SE0", x, theta, draws=2, rng=rng)
