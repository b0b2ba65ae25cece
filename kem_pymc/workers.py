"""Where independent pieces of work are done: in this process, in several, or on a Dask cluster.

A piece of work is a function of one task. What comes out depends on the task alone, so it is the
same wherever it is done: tasks bring their own seeds. A worker that dies costs time, not results:
its tasks are given to others. Linear algebra has one thread in each, here too: see
`machine.one_blas_thread`.
"""

import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

import cloudpickle

from kem_pymc.certificates import VARIABLE, given_certificates
from kem_pymc.errors import InputError, WorkerError
from kem_pymc.machine import one_blas_thread, one_blas_thread_from_now_on, usable_cores

#: Deaths of workers in a row, without a result between them, after which nothing is tried again.
PATIENCE = 3

#: How long to wait for a scheduler to answer.
PATIENCE_SECONDS = 10.0


#: Of a task's number and result: the task that follows, or None.
type Following[T, R] = Callable[[int, R], T | None]


def nothing_follows(number: int, result: Any) -> None:
    """Return None: the number's work is done."""


class Workers(Protocol):
    """Those who do the work.

    Attributes
    ----------
    width : int
        How many tasks to give them at a time so that nobody waits for the next.
    """

    @property
    def width(self) -> int: ...

    def close(self) -> None:
        """Let go of what connects to them; they aren't asked for anything afterwards."""
        ...

    def each[T, R](
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        following: Following[T, R] = nothing_follows,
    ) -> Iterator[tuple[int, R]]:
        """Yield each task's number and result, as they come.

        Parameters
        ----------
        function : callable
            Of one task. It is sent to other processes once, by value.
        tasks : sequence
            Each is sent alone.
        following : callable
            Called with a number and a result after it was yielded; returns the task that follows
            under the same number, or None.

        Raises
        ------
        WorkerError
            If workers keep dying.
        """
        ...


def workers(cores: int | None = None, cluster: str | None = None) -> Workers:
    """Return who does the work.

    Parameters
    ----------
    cores : int, optional
        Processes on this machine; 1 works in this process. By default one per core.
    cluster : str, optional
        Address of a Dask scheduler, like ``tcp://10.0.0.1:8786``; instead of processes here.

    Raises
    ------
    InputError
        If both are given, nobody answers at the address, or Dask isn't installed.
    """
    if cluster is not None:
        if cores is not None:
            raise InputError("Both cores and a cluster are given. Give one of them.")
        return Cluster(cluster)
    count = cores or usable_cores()
    return Here() if count == 1 else Processes(count)


def in_order[T, R](
    crew: Workers, function: Callable[[T], R], tasks: Sequence[T], tell: Callable[[R], Any]
) -> list[R]:
    """Return the results in the order of their tasks; `tell` is told each as it comes."""
    results: dict[int, R] = {}
    for number, result in crew.each(function, tasks):
        results[number] = result
        tell(result)
    return [results[number] for number in range(len(tasks))]


class Here:
    """Works in this process, one task after the other."""

    width = 1

    def close(self) -> None:
        """Do nothing."""

    def each[T, R](
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        following: Following[T, R] = nothing_follows,
    ) -> Iterator[tuple[int, R]]:
        """Yield each task's number and result."""
        for number, first in enumerate(tasks):
            task: T | None = first
            while task is not None:
                with one_blas_thread():
                    result = function(task)
                yield number, result
                task = following(number, result)


class Processes:
    """Works in processes of this machine.

    Parameters
    ----------
    cores : int
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.width = 2 * cores
        # Copies of this process, with everything compiled, where copies are safe.
        self._context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")

    def close(self) -> None:
        """Do nothing: processes end with each piece of work."""

    def each[T, R](
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        following: Following[T, R] = nothing_follows,
    ) -> Iterator[tuple[int, R]]:
        """Yield each task's number and result, as they come."""
        sent = cloudpickle.dumps(function)
        left = dict(enumerate(tasks))
        deaths = 0
        while left:
            pool = ProcessPoolExecutor(
                min(self.cores, len(left)), self._context, _take_function, (sent,)
            )
            try:
                futures: dict[Future, int] = {pool.submit(_do, task): n for n, task in left.items()}
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
                            again = pool.submit(_do, task)
                            futures[again] = number
                            waiting.add(again)
            except BrokenProcessPool:
                deaths += 1
                if deaths == PATIENCE:
                    raise WorkerError(_dead(deaths)) from None
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


class Cluster:
    """Works on a Dask cluster.

    Parameters
    ----------
    address : str
        Of its scheduler. For one that begins with ``tls://``, certificates are in the folder that
        the environment variable ``KEM_CERTIFICATES`` names.

    Raises
    ------
    InputError
        If no scheduler answers there, certificates are missing or others than the scheduler's, or
        Dask isn't installed.
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
                    f"No Dask scheduler with the same certificates answers at {address}. "
                    f"Name the folder that its `kem cluster` has in {VARIABLE}."
                ) from error
            raise InputError(
                f"No Dask scheduler answers at {address}. Start one with: kem cluster"
            ) from error

    @property
    def width(self) -> int:
        """Two tasks for every thread that is there now."""
        return 2 * max(1, sum(self._client.nthreads().values()))

    def close(self) -> None:
        """Close the connection to the scheduler."""
        self._client.close()

    def each[T, R](
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        following: Following[T, R] = nothing_follows,
    ) -> Iterator[tuple[int, R]]:
        """Yield each task's number and result, as they come."""
        from distributed import CancelledError, KilledWorker, as_completed

        # A result, unlike scattered data, is made again where all who held it have died. Everyone
        # has it at once, or tasks would go to the one who has it.
        shared = self._client.submit(bytes, cloudpickle.dumps(function), pure=False)
        self._client.replicate([shared])
        futures = {
            self._client.submit(_do_with, shared, task, pure=False): number
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
                    again = self._client.submit(_do_with, shared, task, pure=False)
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
    """In a worker: what it was given to do, and that as bytes.

    Every thread has its own: a function may hold things that change while it is at work.
    """

    sent = b""
    function: Callable[[Any], Any]


_given = _Given()


def _take_function(sent: bytes) -> None:
    one_blas_thread_from_now_on()
    _given.sent, _given.function = sent, cloudpickle.loads(sent)


def _do(task: Any) -> Any:
    return _given.function(task)


def _do_with(sent: bytes, task: Any) -> Any:
    if _given.sent != sent:
        _take_function(sent)
    return _given.function(task)
