"""Resources of this machine: cores, BLAS threads, memory, file systems and file locks."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

#: Folders in which Linux describes control groups, and processes and memory.
CGROUPS, PROC = Path("/sys/fs/cgroup"), Path("/proc")

#: Parts of the names of network file systems.
REMOTE = ("nfs", "cifs", "smb", "afs", "sshfs", "lustre", "gpfs", "beegfs", "ceph", "9p", "gluster")


def usable_cores() -> int:
    """Return the number of cores that this process may use.

    They are fewer than the machine's if the process is bound to some of them, or its container is
    limited to a share of their time.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota = cgroup_cores()
    return max(1, min(bound or 1, math.ceil(quota) if quota else bound or 1))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit linear algebra to one thread, as a context manager or decorator.

    Sums are rounded differently by several threads than by one, so the same seed would give
    different results on machines with different numbers of cores. As matrices are small, more
    threads wouldn't be faster, and would take cores from other workers.
    """
    with _linear_algebra().limit(limits=1, user_api="blas"):
        yield


def one_blas_thread_from_now_on() -> None:
    """Limit linear algebra to one thread permanently, in a worker process."""
    _linear_algebra().limit(limits=1, user_api="blas")


def cgroup_cores() -> float | None:
    """Return the number of cores that the process's control groups allow; None without limit."""
    quotas = []
    for folder in _groups("cpu"):
        words = _words(folder / "cpu.max") or [
            *_words(folder / "cpu.cfs_quota_us"),
            *_words(folder / "cpu.cfs_period_us"),
        ]
        if len(words) == 2 and words[0] not in ("max", "-1"):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def memory() -> tuple[int, int] | None:
    """Return the available and the total memory in bytes; None if the system doesn't report it."""
    entries = (line.split() for line in _lines(PROC / "meminfo"))
    kilobytes = {words[0].rstrip(":"): int(words[1]) for words in entries if len(words) > 1}
    if not {"MemAvailable", "MemTotal"} <= set(kilobytes):
        return None
    available, total = 1024 * kilobytes["MemAvailable"], 1024 * kilobytes["MemTotal"]
    for folder in _groups("memory"):
        most = _words(folder / "memory.max") or _words(folder / "memory.limit_in_bytes")
        used = _words(folder / "memory.current") or _words(folder / "memory.usage_in_bytes")
        if most and used and most[0] != "max" and int(most[0]) < total:
            total = int(most[0])
            available = min(available, total - int(used[0]))
    return max(available, 0), total


def file_system(path: Path) -> str:
    """Return the type of the file system that a path is on, like ``ext4``; "" if unknown."""
    place, best, kind = path.resolve(), -1, ""
    for line in _lines(PROC / "self/mountinfo"):
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4].replace("\\040", " "))
        if place.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split()[0]
    return kind


def is_remote(kind: str) -> bool:
    """Return whether a type of file system is a network file system."""
    return any(name in kind for name in REMOTE)


def lock(descriptor: int, forks: bool) -> bool:
    """Lock an open file against other processes, and return whether this succeeded.

    True is also returned if the system or the file system can't lock files.

    Parameters
    ----------
    descriptor : int
        Descriptor of the file, or if `forks` is True also of a folder; it is locked until it is
        closed.
    forks : bool
        Whether processes that are forked meanwhile also hold the lock, until they end.
    """
    if fcntl is None:
        return True
    take = fcntl.flock if forks else fcntl.lockf
    try:
        take(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True


@cache
def _linear_algebra() -> "ThreadpoolController":
    # A controller finds the libraries that are loaded when it is created, and both load one.
    import numpy as np  # noqa: F401
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _groups(controller: str) -> Iterator[Path]:
    """Yield the control groups of this process, from its own to the root (versions 2 and 1)."""
    for line in _lines(PROC / "self/cgroup"):
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        root = CGROUPS / controller if names else CGROUPS
        own = Path(path.lstrip("/"))
        yield from (root / group for group in (own, *own.parents))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", errors="replace").splitlines()
    except OSError:  # another operating system, or no permission to read
        return []


def _words(path: Path) -> list[str]:
    return " ".join(_lines(path)).split()
