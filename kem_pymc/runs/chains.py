"""Sampling of chains in segments, by workers that need not share files with this process.

A segment of a chain is sent to a worker as a point and the state of its random generator. It is
returned as the bytes of a chunk, which this process writes to a file. Files are always sufficient
to continue, so if a worker dies, only its current segment has to be sampled again. If a chain
fails, this is reported and the others continue.
"""

import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

import numpy as np

from kem_pymc._system.executors import Executor
from kem_pymc._system.progress import Progress
from kem_pymc.errors import WorkerError
from kem_pymc.model.step import EvolutionStep
from kem_pymc.runs.folder import Plan, Run
from kem_pymc.runs.interruption import Interruption
from kem_pymc.runs.storage import Chunk, Point, encode

#: Seconds after which a segment ends, even if it has fewer draws than a file should have.
LONGEST = 2.0


@dataclass(frozen=True)
class Failure:
    """Failure of a chain: its number, how many draws it had made, and the reason."""

    chain: int
    done: int
    reason: str

    def __str__(self) -> str:
        return f"chain {self.chain} failed at draw {self.done} ({self.reason})"


@dataclass(frozen=True)
class Segment:
    """Start of a segment of a chain.

    Attributes
    ----------
    done : int
        Number of draws before the segment.
    point : dict or None
        Point of the last of these draws; None at the start of a chain.
    generator : dict
        State of the bit generator after this draw.
    """

    done: int
    point: Mapping[str, np.ndarray] | None
    generator: Mapping[str, Any]


#: Result of a segment: draws, encoded as in a file, and the reason and traceback of the exception
#: that ended it; None if there are no draws, or was no exception.
type Drawn = tuple[bytes | None, tuple[str, str] | None]


def draw_segment(step: EvolutionStep, plan: Plan, longest: float, segment: Segment) -> Drawn:
    """Sample a segment, which ends with the draws of one file, or after `longest` seconds."""
    rng = np.random.default_rng()
    rng.bit_generator.state = dict(segment.generator)
    step.setup_chain(rng, plan.tune, plan.draws)
    point = dict(step.start_point if segment.point is None else segment.point)
    points: list[Point] = []
    statistics: list[Mapping[str, Any]] = []
    generator = segment.generator
    began, failure = monotonic(), None
    most = min(plan.chunk, plan.total - segment.done)
    try:
        # At least one draw, however slow.
        while len(points) < most and (not points or monotonic() - began < longest):
            point, (statistic,) = step.step(point)
            points.append(point)
            statistics.append(statistic)
            generator = rng.bit_generator.state
    except Exception as error:
        failure = reason_of(error), traceback.format_exc()
    if not points:
        return None, failure
    chunk = Chunk.of(segment.done, points, statistics, generator, monotonic() - began)
    return encode(chunk), failure


def run_chains(
    step: EvolutionStep,
    run: Run,
    chains: Sequence[int],
    executor: Executor,
    progress: Progress,
    interruption: Interruption,
) -> list[Failure]:
    """Sample chains from their last written draws to the end of the plan; return the failures."""
    done = {chain: run.length(chain) for chain in chains}
    failures: dict[int, Failure] = {}
    bars = {chain: progress.add(f"Chain {chain}", run.plan.total) for chain in chains}

    def fail(chain: int, reason: str, trace: str | None = None) -> None:
        failures[chain] = Failure(chain, done[chain], reason)
        progress.describe(bars[chain], f"Chain {chain} failed")
        with suppress(OSError):  # the disk may be full
            run.chain(chain).error.write_text(trace or reason, "utf-8")

    def following(number: int, _: Drawn) -> Segment | None:
        chain = chains[number]
        over = chain in failures or done[chain] == run.plan.total or interruption.happened
        return None if over else _beginning(run, chain)

    for chain in chains:
        run.chain(chain).clean()
    tasks = [] if interruption.happened else [_beginning(run, chain) for chain in chains]
    reported = False
    function = partial(draw_segment, step, run.plan, LONGEST)
    try:
        for number, (encoded, failure) in executor.map_unordered(function, tasks, following):
            chain = chains[number]
            if encoded is not None:
                try:
                    chunk = run.chain(chain).add(done[chain], encoded)
                except OSError as error:
                    fail(chain, reason_of(error), traceback.format_exc())
                    continue
                done[chain] += len(chunk)
                progress.update(bars[chain], done[chain], _state(chunk, run.plan))
            if failure is not None:
                fail(chain, *failure)
            if interruption.happened and not reported:
                progress.info("Stopping, after a few seconds at most.")
                reported = True
            if interruption.happened and executor.cores == 1:
                break  # no other segment is being sampled
    except WorkerError as error:
        for chain in chains:
            if chain not in failures and done[chain] < run.plan.total:
                fail(chain, reason_of(error))
    return list(failures.values())


def _beginning(run: Run, chain: int) -> Segment:
    """Return the start of a chain's next segment."""
    last = run.chain(chain).last()
    if last is None:
        return Segment(0, None, run.plan.generators()[chain].bit_generator.state)
    point = {name: values[-1] for name, values in last.points.items()}
    return Segment(last.first + len(last), point, last.generator)


def _state(chunk: Chunk, plan: Plan) -> str:
    """Return the state of a chain after a chunk, as text for the progress."""
    phase = "tuning" if chunk.first + len(chunk) < plan.tune else "sampling"
    clusters, density = (chunk.statistics[name][-1] for name in ("n_clusters", "log_density"))
    return f"{phase}, {clusters} clusters, log density {density:.1f}"


def reason_of(error: BaseException) -> str:
    """Return the type and message of an exception, up to the end of its first line."""
    first, *_ = f"{type(error).__name__}: {error}".splitlines()
    return first.rstrip(".: ")
