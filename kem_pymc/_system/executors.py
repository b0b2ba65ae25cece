"""Execution of independent tasks: in this process, or by an executor of `concurrent.futures`.

A function is called with each task. Its result depends on the task alone, which includes any seed,
so results are the same wherever tasks are executed. If a worker dies, its tasks are given to other
workers, so this takes time but no result is lost. Linear algebra uses one thread per worker, also
in this process: see `resources.one_blas_thread`.
"""

import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from multiprocessing import resource_tracker
from queue import SimpleQueue
from typing import Any

import cloudpickle
from loky import ProcessPoolExecutor, cpu_count
from loky.backend.context import LokyContext

from kem_pymc._system.options import check_whole
from kem_pymc._system.resources import one_blas_thread, one_blas_thread_from_now_on
from kem_pymc.errors import InputError, WorkerError

#: Number of consecutive deaths of workers, without a result in between, after which work stops.
DEATHS = 3

#: Largest number of processes on one machine.
MOST_CORES = 1000

#: Seconds to wait for the response of a scheduler.
PATIENCE_SECONDS = 10.0


#: Function of a task's number and result that returns the task that follows, or None.
type Following[T, R] = Callable[[int, R], T | None]


def nothing_follows(number: int, result: Any) -> None:
    """Return None: no task follows."""


class Executor(ABC):
    """Base class of executors, which execute independent tasks.

    Attributes
    ----------
    cores : int
        Number of tasks that are executed at the same time.
    local : bool
        Whether workers use the compiled code of this process.
    """

    cores: int
    local = False

    def close(self) -> None:  # noqa: B027
        """End the workers, or the connection to them, if they are those of this executor."""

    @abstractmethod
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
            Function of one task. It is sent to other processes by value.
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


#: Where tasks are executed: the address of a Dask scheduler, or any executor.
type Workers = str | futures.Executor | Executor


def make_executor(
    cores: int | None = None, cluster: Workers | None = None, at_most: int | None = None
) -> Executor:
    """Return an executor for this machine, for a Dask cluster, or of the given workers.

    Parameters
    ----------
    cores : int, optional
        Number of processes on this machine; with 1, tasks are executed in this process. By
        default, one per core.
    cluster : str or Executor, optional
        Address of a Dask scheduler, like ``tcp://10.0.0.1:8786``, or an executor of
        `concurrent.futures`, to use instead of processes on this machine. It isn't shut down.
    at_most : int, optional
        Number of processes on this machine above which more would be idle.

    Raises
    ------
    InputError
        If both are given, `cores` is below 1, no scheduler responds at the address, or Dask isn't
        installed.
    """
    if cluster is not None:
        if cores is not None:
            raise InputError("Both cores and a cluster are given. Give one of them.")
        if isinstance(cluster, str):
            return DaskPool(cluster)
        return Pool(cluster) if isinstance(cluster, futures.Executor) else cluster
    if cores is not None:
        check_whole(1, MOST_CORES, cores=cores)
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


class Serial(Executor):
    """Execute tasks in this process, one after the other."""

    cores = 1
    local = True

    def map_unordered[T, R](
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        following: Following[T, R] = nothing_follows,
    ) -> Iterator[tuple[int, R]]:
        for number, first in enumerate(tasks):
            task: T | None = first
            while task is not None:
                with one_blas_thread():
                    result = function(task)
                yield number, result
                task = following(number, result)


class Pool(Executor):
    """Execute tasks by an executor of `concurrent.futures`, of processes, threads or machines.

    Parameters
    ----------
    executor : concurrent.futures.Executor, optional
        Executor, which isn't shut down.
    """

    #: Errors by which the executor reports the death of a worker.
    deadly: tuple[type[BaseException], ...] = (futures.BrokenExecutor, futures.CancelledError)

    #: Number of consecutive deaths of workers, without a result in between, after which work stops.
    patience = 1

    def __init__(self, executor: futures.Executor) -> None:
        self._pool: futures.Executor | None = executor
        #: If the executor doesn't tell its number of workers, that of the cores of this machine.
        self.cores = getattr(executor, "_max_workers", None) or int(cpu_count())

    def _started(self) -> futures.Executor:
        """Return the executor, after starting it if it isn't running."""
        assert self._pool is not None
        return self._pool

    def map_unordered[T, R](
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        following: Following[T, R] = nothing_follows,
    ) -> Iterator[tuple[int, R]]:
        sent = cloudpickle.dumps(function)
        left = dict(enumerate(tasks))
        deaths = 0
        while left:
            numbers: dict[futures.Future, int] = {}
            done: SimpleQueue[futures.Future] = SimpleQueue()
            try:
                pool = self._started()
                with _without_interrupts():
                    numbers = {pool.submit(_do, sent, task): n for n, task in left.items()}
                for future in numbers:
                    future.add_done_callback(done.put)
                while numbers:
                    future = done.get()
                    number = numbers.pop(future)
                    result = future.result()
                    deaths = 0
                    del left[number]
                    yield number, result
                    task = following(number, result)
                    if task is not None:
                        left[number] = task
                        with _without_interrupts():
                            future = pool.submit(_do, sent, task)
                        numbers[future] = number
                        future.add_done_callback(done.put)
            except self.deadly:
                self._abandon()
                deaths += 1
                if deaths == self.patience:
                    raise WorkerError(
                        f"{DEATHS} workers died in a row without a result. "
                        "They may need more memory; use fewer at a time."
                    ) from None
            except BaseException:
                self._abandon()
                raise
            finally:
                for future in numbers:
                    future.cancel()

    def _abandon(self) -> None:
        """End tasks that are being executed, if that is possible."""


class Processes(Pool):
    """Execute tasks in processes on this machine.

    Processes are started when tasks are, not as copies of this one, so it takes some seconds until
    they have imported what they need. They are used again for later tasks.

    Parameters
    ----------
    cores : int
        Number of processes.
    """

    local = True
    patience = DEATHS

    def __init__(self, cores: int) -> None:
        self.cores, self._pool = cores, None

    def close(self) -> None:
        """End the processes. The next tasks start others."""
        if isinstance(self._pool, ProcessPoolExecutor):
            self._pool.shutdown(kill_workers=True)
            self._pool = None

    def _started(self) -> futures.Executor:
        if self._pool is None:
            # joblib has a copy of loky, which would replace the default context.
            self._pool = ProcessPoolExecutor(
                self.cores, context=LokyContext(), initializer=_begin_work
            )
        return self._pool

    def _abandon(self) -> None:
        self.close()  # processes may be in the middle of long tasks


class DaskPool(Pool):
    """Execute tasks on a Dask cluster.

    Parameters
    ----------
    address : str
        Address of the scheduler. Its TLS certificates, if it has any, are those of Dask's
        configuration.

    Raises
    ------
    InputError
        If no scheduler responds at the address, or Dask isn't installed.
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client, KilledWorker
        except ImportError:
            raise InputError(
                "A cluster needs Dask, which isn't installed. Install kem-pymc[cluster]."
            ) from None
        try:
            self._client = Client(address, timeout=PATIENCE_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:  # TypeError: TLS without certificates
            raise InputError(
                f"No Dask scheduler responds at {address} ({error or type(error).__name__}). Start "
                "one with `dask scheduler`; for tls://, set its certificates in Dask's "
                "configuration."
            ) from error
        super().__init__(self._client.get_executor(pure=False))
        self.cores = max(1, sum(self._client.nthreads().values()))
        self.deadly = (*Pool.deadly, KilledWorker)

    def close(self) -> None:
        """Close the connection to the scheduler."""
        self._client.close()


class _WorkerFunction(threading.local):
    """Function that a worker applies to tasks, and the bytes from which it was loaded.

    Every thread has a separate copy, because a function may have state that changes in a call.
    """

    sent = b""
    function: Callable[[Any], Any]


_worker = _WorkerFunction()


def _do(sent: bytes, task: Any) -> Any:
    """Apply a function, given as bytes, to a task; this is what workers execute."""
    if _worker.sent != sent:
        one_blas_thread_from_now_on()
        _worker.sent, _worker.function = sent, cloudpickle.loads(sent)
    return _worker.function(task)


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
