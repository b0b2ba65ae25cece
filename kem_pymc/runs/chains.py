"""Sampling of a run's chains: one after the other in this process, or in separate processes.

If a chain fails, this is reported and the others continue. Draws are written to files by the
process that makes them; they aren't sent to other processes.
"""

import multiprocessing
import os
import signal
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any

import cloudpickle
import numpy as np

from kem_pymc._jit.cache import FORKS
from kem_pymc.model.step import EvolutionStep
from kem_pymc.runs.folder import RunFolder
from kem_pymc.runs.interruption import Interruption
from kem_pymc.runs.progress import PERIOD, Bars
from kem_pymc.runs.storage import Chunk, Draw, Writer

#: Called after every draw, with the number of draws so far and the statistics of the last one;
#: returns whether to continue.
Report = Callable[[int, dict[str, Any]], bool]


@dataclass(frozen=True)
class Failure:
    """Failure of a chain: its number, how many draws it had made, and the reason."""

    chain: int
    done: int
    reason: str

    def __str__(self) -> str:
        return f"chain {self.chain} failed at draw {self.done} ({self.reason})"


def run_chain(step: EvolutionStep, run: RunFolder, chain: int, report: Report) -> None:
    """Sample one chain from its last written draw to the end of the plan.

    It ends earlier if `report` returns False or an exception is raised; the draws made until then
    are written in any case.
    """
    files = run.chain(chain)
    files.clean()
    done, point, rng = _beginning(step, run, chain, files.last())
    step.setup_chain(rng, run.plan.tune, run.plan.draws, done)
    writer = Writer(files, run.plan.chunk)
    going = True
    try:
        while going and done < run.plan.total:
            point, (statistics,) = step.step(point)
            writer.add(Draw(done, point, statistics, rng.bit_generator.state))
            done += 1
            going = report(done, statistics)
    except Exception:
        with suppress(OSError):  # the exception may be due to the disk
            files.error.write_text(traceback.format_exc(), "utf-8")
        raise
    finally:
        writer.flush()


def _beginning(
    step: EvolutionStep, run: RunFolder, chain: int, last: Chunk | None
) -> tuple[int, dict[str, np.ndarray], np.random.Generator]:
    """Return the number of written draws, the last point, and the random generator after it."""
    rng = run.plan.generators()[chain]
    if last is None:
        return 0, step.start_point, rng
    rng.bit_generator.state = last.generator
    return last.first + len(last), {name: a[-1] for name, a in last.points.items()}, rng


def run_serially(
    step: EvolutionStep,
    run: RunFolder,
    chains: Sequence[int],
    bars: Bars,
    interruption: Interruption,
) -> list[Failure]:
    """Sample chains one after the other in this process; return the failures."""
    failures = []
    for chain in chains:
        last = [run.length(chain), 0.0]

        def report(done: int, statistics: dict[str, Any], chain=chain, last=last) -> bool:
            if monotonic() - last[1] > PERIOD or done == run.plan.total:
                bars.update(chain, done, statistics)
                last[1] = monotonic()
            last[0] = done
            return not interruption.happened

        if interruption.happened:
            break
        try:
            run_chain(step, run, chain, report)
        except Exception as error:
            failures.append(Failure(chain, int(last[0]), reason_of(error)))
            bars.fail(chain)
    return failures


def run_in_processes(
    step: EvolutionStep,
    run: RunFolder,
    chains: Sequence[int],
    cores: int,
    bars: Bars,
    interruption: Interruption,
) -> list[Failure]:
    """Sample chains in separate processes, `cores` at a time; return the failures."""
    workers = _Workers(step, run, bars)
    waiting = deque(chains)
    stopping = False
    try:
        while waiting or workers.running:
            while waiting and len(workers.running) < cores:
                workers.start(waiting.popleft())
            workers.listen()
            if interruption.happened and not stopping:
                stopping = True
                waiting.clear()
                workers.stop()
                bars.stopping()
    finally:  # after an unexpected exception in this process, processes may still be running
        workers.stop()
        while workers.running:
            workers.listen()
    return workers.failures


class _Workers:
    """Running processes, and the progress and failures of their chains."""

    def __init__(self, step: EvolutionStep, run: RunFolder, bars: Bars) -> None:
        self.running: dict[Connection, tuple[int, Any]] = {}
        self.failures: list[Failure] = []
        self._run, self._bars = run, bars
        self._done: dict[int, int] = {}
        self._context: Any = multiprocessing.get_context("fork" if FORKS else "spawn")
        self._step = step if FORKS else cloudpickle.dumps(step)

    def start(self, chain: int) -> None:
        """Start the process of a chain."""
        self._done[chain] = self._run.length(chain)
        here, there = self._context.Pipe()
        arguments = (there, self._step, self._run, chain, os.getpid())
        process = self._context.Process(target=_work, args=arguments, name=f"chain {chain}")
        with warnings.catch_warnings():
            # A chain only computes and writes, so it needs no lock that another thread may hold.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded")
            process.start()
        there.close()  # so that the end of the process ends the connection
        self.running[here] = chain, process

    def stop(self) -> None:
        """Request all processes to stop after their current draw."""
        for connection in self.running:
            with suppress(OSError):  # it has ended already
                connection.send("stop")

    def listen(self) -> None:
        """Receive messages from processes, after waiting for them for at most `PERIOD`."""
        for connection in wait(list(self.running), timeout=PERIOD):
            assert isinstance(connection, Connection)
            chain, process = self.running[connection]
            try:
                what, *details = connection.recv()
            except (EOFError, OSError):
                process.join()
                self._end(connection, _death(process.exitcode))
                continue
            if what == "draw":
                self._done[chain] = details[0]
                self._bars.update(chain, *details)
            else:
                self._done[chain], reason = details
                process.join()
                self._end(connection, reason)

    def _end(self, connection: Connection, reason: str | None) -> None:
        chain, _ = self.running.pop(connection)
        connection.close()
        if reason is not None:
            self.failures.append(Failure(chain, self._done[chain], reason))
            self._bars.fail(chain)


def _work(
    connection: Connection, sent: EvolutionStep | bytes, run: RunFolder, chain: int, parent: int
) -> None:
    """Sample a chain; this is the target of a separate process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process
    step = cloudpickle.loads(sent) if isinstance(sent, bytes) else sent
    done, reported = 0, 0.0

    def report(number: int, statistics: dict[str, Any]) -> bool:
        nonlocal done, reported
        done = number
        try:
            if monotonic() - reported > PERIOD:
                shown = {name: statistics[name] for name in ("n_clusters", "log_density")}
                connection.send(("draw", done, shown))
                reported = monotonic()
            return not connection.poll() and os.getppid() == parent
        except OSError:  # the parent process has ended
            return False

    reason = None
    try:
        run_chain(step, run, chain, report)
    except Exception as error:
        reason = reason_of(error)
    with suppress(OSError):
        connection.send(("end", done, reason))


def reason_of(error: BaseException) -> str:
    """Return the type and message of an exception, up to the end of its first line."""
    first, *_ = f"{type(error).__name__}: {error}".splitlines()
    return first.rstrip(".: ")


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was killed by signal {-code}"
    return f"its process ended with code {code}"
