"""Cores, memory and file systems, as a made-up kernel tells of them."""

import os

import pytest

from kem_pymc import machine
from kem_pymc.workers import Processes, workers


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Return what writes a file that the kernel tells by."""
    monkeypatch.setattr(machine, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "PROC", tmp_path / "proc")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)

    def tell(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return tell


@pytest.mark.usefixtures("kernel")
def test_without_limits():
    assert machine.usable_cores() == 8
    assert machine.cgroup_cores() is None
    assert machine.memory() is None
    assert machine.file_system(machine.PROC) == ""


def test_the_least_limit_of_all_groups_counts(kernel):
    kernel("proc/self/cgroup", "0::/a/b\n")
    kernel("cgroup/a/b/cpu.max", "max 100000\n")
    kernel("cgroup/a/cpu.max", "250000 100000\n")
    kernel("cgroup/cpu.max", "500000 100000\n")
    assert machine.cgroup_cores() == 2.5
    assert machine.usable_cores() == 3


def test_limits_of_the_first_version(kernel):
    kernel("proc/self/cgroup", "3:memory:/x\n2:cpu,cpuacct:/x\n")
    kernel("cgroup/cpu/x/cpu.cfs_quota_us", "50000\n")
    kernel("cgroup/cpu/x/cpu.cfs_period_us", "100000\n")
    kernel("cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    kernel("cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert machine.cgroup_cores() == 0.5
    assert machine.usable_cores() == 1


def test_workers_are_as_many_as_may_be_used(kernel):
    kernel("proc/self/cgroup", "0::/\n")
    kernel("cgroup/cpu.max", "300000 100000\n")
    crew = workers()
    assert isinstance(crew, Processes)
    assert crew.cores == 3


def test_memory_is_what_the_container_leaves(kernel):
    kernel("proc/meminfo", "MemTotal: 4000 kB\nMemFree: 10 kB\nMemAvailable: 3000 kB\n")
    assert machine.memory() == (3000 * 1024, 4000 * 1024)
    kernel("proc/self/cgroup", "0::/a\n")
    kernel("cgroup/a/memory.max", f"{2000 * 1024}\n")
    kernel("cgroup/a/memory.current", f"{500 * 1024}\n")
    assert machine.memory() == (1500 * 1024, 2000 * 1024)


def test_the_file_system_is_that_of_the_nearest_mount(kernel, tmp_path):
    mounts = {"/": "ext4", str(tmp_path): "nfs4", f"{tmp_path}/with\\040space": "tmpfs"}
    lines = [f"1 2 0:1 / {point} rw - {kind} server rw" for point, kind in mounts.items()]
    kernel("proc/self/mountinfo", "\n".join(lines))
    assert machine.file_system(tmp_path / "cache") == "nfs4"
    assert machine.file_system(tmp_path / "with space") == "tmpfs"
    assert machine.file_system(tmp_path.parent) == "ext4"


@pytest.mark.parametrize(
    ("kind", "remote"), [("nfs4", True), ("fuse.sshfs", True), ("ext4", False), ("", False)]
)
def test_which_file_systems_are_remote(kind, remote):
    assert machine.is_remote(kind) == remote
