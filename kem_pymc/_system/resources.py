"""Resources of this machine: BLAS threads and file locks."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


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


def lock(descriptor: int) -> bool:
    """Lock an open file or folder against other processes, and return whether this succeeded.

    It is locked until it is closed. True is also returned if the system or the file system can't
    lock files.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
