"""Execution of independent tasks: in this process, in several processes, or on a Dask cluster.

A function is called with each task. Its result depends on the task alone, which includes any seed,
so results are the same wherever tasks are executed. If a worker dies, its tasks are given to other
workers, so this takes time but no result is lost. Linear algebra uses one thread per worker, also
in this process: see `resources.one_blas_thread`.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, Protocol

import cloudpickle
from loky import ProcessPoolExecutor, cpu_count
from loky.backend.context import LokyContext

from kem_pymc._system.certificates import VARIABLE, given_certificates
from kem_pymc._system.resources import one_blas_thread, one_blas_thread_from_now_on
from kem_pymc.errors import InputError, WorkerError

#: Number of consecutive deaths of workers, without a result in between, after which work stops.
PATIENCE = 3

#: Seconds to wait for the response of a scheduler.
PATIENCE_SECONDS = 10.0


#: Function of a task's number and result that returns the task that follows, or None.
type Following[T, R] = Callable[[int, R], T | None]


def nothing_follows(number: int, result: Any) -> None:
    """Return None: no task follows."""


class Executor(Protocol):
    """Interface of executors, which execute independent tasks.

    Attributes
    ----------
    cores : int
        Number of tasks that are executed at the same time.
    width : int
        Number of tasks to submit at a time so that no worker is idle.
    """

    @property
    def cores(self) -> int: ...

    @property
    def width(self) -> int: ...

    def close(self) -> None:
        """End the workers, or the connection to them."""
        ...

    def map_unordered[T, R](
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        following: Following[T, R] = nothing_follows,
    ) -> Iterator[tuple[int, R]]:
        """Yield each task's number and result, as results arrive.

        Parameters
        ----------
        function : callable
            Function of one task. It is sent to other processes once, by value.
        tasks : sequence
            Tasks, each of which is sent separately.
        following : callable
            Called with a number and a result after it was yielded; returns the task that follows
            under the same number, or None.

        Raises
        ------
        WorkerError
            If workers keep dying.
        """
        ...


def make_executor(
    cores: int | None = None, cluster: str | None = None, at_most: int | None = None
) -> Executor:
    """Return an executor for this machine or for a Dask cluster.

    Parameters
    ----------
    cores : int, optional
        Number of processes on this machine; with 1, tasks are executed in this process. By
        default, one per core.
    cluster : str, optional
        Address of a Dask scheduler, like ``tcp://10.0.0.1:8786``, to use instead of processes on
        this machine.
    at_most : int, optional
        Number of processes on this machine above which more would be idle.

    Raises
    ------
    InputError
        If both are given, `cores` is below 1, no scheduler responds at the address, its
        certificates are missing or different, or Dask isn't installed.
    """
    if cluster is not None:
        if cores is not None:
            raise InputError("Both cores and a cluster are given. Give one of them.")
        return Cluster(cluster)
    if cores is not None and cores < 1:
        raise InputError("{cores} isn't a valid number of processes. Give 1 or more.", cores=cores)
    count = cores or cpu_count()
    if at_most is not None:
        count = min(count, at_most)
    return Serial() if count == 1 else Processes(count)


def in_order[T, R](
    executor: Executor, function: Callable[[T], R], tasks: Sequence[T], callback: Callable[[R], Any]
) -> list[R]:
    """Return the results in the order of their tasks; `callback` is called with each on arrival."""
    results: dict[int, R] = {}
    for number, result in executor.map_unordered(function, tasks):
        results[number] = result
        callback(result)
    return [results[number] for number in range(len(tasks))]


class Serial:
    """Execute tasks in this process, one after the other."""

    cores = width = 1

    def close(self) -> None:
        """Do nothing."""

    def map_unordered[T, R](
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        following: Following[T, R] = nothing_follows,
    ) -> Iterator[tuple[int, R]]:
        """Yield each task's number and result; see :class:`Executor`."""
        for number, first in enumerate(tasks):
            task: T | None = first
            while task is not None:
                with one_blas_thread():
                    result = function(task)
                yield number, result
                task = following(number, result)


class Processes:
    """Execute tasks in processes on this machine.

    Processes are started by the first call of :meth:`each`, not as copies of this one, so it takes
    some seconds until they have imported what they need. Later calls use them again.

    Parameters
    ----------
    cores : int
        Number of processes.
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.width = 2 * cores
        self._pool: ProcessPoolExecutor | None = None

    def close(self) -> None:
        """End the processes. The next call of :meth:`each` starts others."""
        if self._pool is not None:
            self._pool.shutdown(kill_workers=True)
            self._pool = None

    def map_unordered[T, R](
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        following: Following[T, R] = nothing_follows,
    ) -> Iterator[tuple[int, R]]:
        """Yield each task's number and result, as results arrive; see :class:`Executor`.

        Raises
        ------
        WorkerError
            If workers keep dying.
        """
        sent = cloudpickle.dumps(function)
        left = dict(enumerate(tasks))
        deaths = 0
        while left:
            if self._pool is None:
                # joblib has a copy of loky, which would replace the default context.
                context = LokyContext()
                self._pool = ProcessPoolExecutor(
                    self.cores, context=context, initializer=_begin_work
                )
            pool = self._pool
            futures: dict[Future, int] = {}
            try:
                with _without_interrupts():
                    futures = {pool.submit(_do, sent, task): n for n, task in left.items()}
                waiting = set(futures)
                while waiting:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in done:
                        result = future.result()
                        deaths = 0
                        number = futures.pop(future)
                        del left[number]
                        yield number, result
                        task = following(number, result)
                        if task is not None:
                            left[number] = task
                            with _without_interrupts():
                                again = pool.submit(_do, sent, task)
                            futures[again] = number
                            waiting.add(again)
            except BrokenProcessPool:
                self.close()
                deaths += 1
                if deaths == PATIENCE:
                    raise WorkerError(_dead(deaths)) from None
            except BaseException:
                self.close()  # processes may be in the middle of long tasks
                raise


class Cluster:
    """Execute tasks on a Dask cluster.

    Parameters
    ----------
    address : str
        Address of the scheduler. If it begins with ``tls://``, certificates are read from the
        folder that the environment variable ``KEM_CERTIFICATES`` names.

    Raises
    ------
    InputError
        If no scheduler responds at the address, certificates are missing or different from the
        scheduler's, or Dask isn't installed.
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise InputError(
                "A cluster needs Dask, which isn't installed. Install kem-pymc[cluster]."
            ) from None
        try:
            own = given_certificates() if address.startswith("tls://") else None
            self._client = Client(
                address, timeout=PATIENCE_SECONDS, set_as_default=False, security=own
            )
        except InputError:
            raise
        except (OSError, ValueError, TypeError) as error:  # TypeError: TLS without certificates
            if address.startswith("tls://"):
                raise InputError(
                    f"No Dask scheduler with the same certificates responds at {address}. "
                    f"Set {VARIABLE} to the folder of certificates that its `kem cluster` uses."
                ) from error
            raise InputError(
                f"No Dask scheduler responds at {address}. Start one with: kem cluster"
            ) from error

    @property
    def cores(self) -> int:
        """Number of threads that the cluster has at present."""
        return max(1, sum(self._client.nthreads().values()))

    @property
    def width(self) -> int:
        """Two tasks for every thread."""
        return 2 * self.cores

    def close(self) -> None:
        """Close the connection to the scheduler."""
        self._client.close()

    def map_unordered[T, R](
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        following: Following[T, R] = nothing_follows,
    ) -> Iterator[tuple[int, R]]:
        """Yield each task's number and result, as results arrive; see :class:`Executor`.

        Raises
        ------
        WorkerError
            If workers keep dying.
        """
        from distributed import CancelledError, KilledWorker, as_completed

        # Dask recomputes a result, unlike scattered data, if all workers that held it have died. It
        # is replicated to all workers at once, or Dask would prefer the worker that holds it.
        shared = self._client.submit(bytes, cloudpickle.dumps(function), pure=False)
        self._client.replicate([shared])
        futures = {
            self._client.submit(_do, shared, task, pure=False): number
            for number, task in enumerate(tasks)
        }
        try:
            coming = as_completed(futures, loop=self._client.loop)
            for future in coming:
                try:
                    result = future.result()
                except (KilledWorker, CancelledError):
                    raise WorkerError(_dead(PATIENCE)) from None
                number = futures.pop(future)
                future.release()
                yield number, result
                task = following(number, result)
                if task is not None:
                    again = self._client.submit(_do, shared, task, pure=False)
                    futures[again] = number
                    coming.add(again)
        finally:
            self._client.cancel(list(futures))


def _dead(deaths: int) -> str:
    return (
        f"{deaths} workers died in a row without a result. "
        "They may need more memory; use fewer at a time."
    )


class _Given(threading.local):
    """Function that a worker applies to tasks, and the bytes from which it was loaded.

    Every thread has a separate copy, because a function may have state that changes in a call.
    """

    sent = b""
    function: Callable[[Any], Any]


_given = _Given()


def _do(sent: bytes, task: Any) -> Any:
    """Apply a function, given as bytes, to a task; this is what workers execute."""
    if _given.sent != sent:
        one_blas_thread_from_now_on()
        _given.sent, _given.function = sent, cloudpickle.loads(sent)
    return _given.function(task)


def _begin_work() -> None:
    """End this worker process soon after its parent has ended, even if that was killed."""
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let processes that are started meanwhile ignore Ctrl-C, which this process handles."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # starting it would end the block (Python 3.13)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
