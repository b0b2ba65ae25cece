"""Sampling of chains in segments, by workers that need not share files with this process.

A segment of a chain is sent to a worker as a point and the state of its random generator. It is
returned as the bytes of a chunk, which this process writes to a file. Files are always sufficient
to continue, so if a worker dies, only its current segment has to be sampled again.
"""

import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

import numpy as np

from kem_pymc._system.executors import Workers
from kem_pymc.errors import WorkerError
from kem_pymc.model.step import EvolutionStep
from kem_pymc.runs.chains import Failure, reason_of
from kem_pymc.runs.folder import Plan, RunFolder
from kem_pymc.runs.interruption import Interruption
from kem_pymc.runs.progress import Bars
from kem_pymc.runs.storage import Chunk, Draw, encode

#: Seconds after which a segment ends, even if it has fewer draws than a file should have.
LONGEST = 10.0


@dataclass(frozen=True)
class Stretch:
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


@dataclass(frozen=True)
class Drawn:
    """Result of a segment.

    Attributes
    ----------
    chunk : bytes or None
        Draws, encoded as in a file; None if there are no draws.
    reason, trace : str or None
        Reason and traceback of the exception that ended the segment; None if there was none.
    """

    chunk: bytes | None
    reason: str | None = None
    trace: str | None = None


def draw_stretch(step: EvolutionStep, plan: Plan, stretch: Stretch) -> Drawn:
    """Sample a segment, which ends with the draws of one file, or after `LONGEST` seconds."""
    rng = np.random.default_rng()
    rng.bit_generator.state = dict(stretch.generator)
    step.setup_chain(rng, plan.tune, plan.draws, stretch.done)
    point = dict(step.start_point if stretch.point is None else stretch.point)
    draws: list[Draw] = []
    began = monotonic()
    reason = trace = None
    most = min(plan.chunk, plan.total - stretch.done)
    try:
        # At least one draw, however slow.
        while len(draws) < most and (not draws or monotonic() - began < LONGEST):
            point, (statistics,) = step.step(point)
            number = stretch.done + len(draws)
            draws.append(Draw(number, point, statistics, rng.bit_generator.state))
    except Exception as error:
        reason, trace = reason_of(error), traceback.format_exc()
    chunk = encode(Chunk.of(draws, monotonic() - began)) if draws else None
    return Drawn(chunk, reason, trace)


def run_on_workers(
    step: EvolutionStep,
    run: RunFolder,
    chains: Sequence[int],
    crew: Workers,
    bars: Bars,
    interruption: Interruption,
) -> list[Failure]:
    """Sample chains on workers, all at once if there are enough workers; return the failures."""
    done = {chain: run.length(chain) for chain in chains}
    failures: list[Failure] = []

    def fail(chain: int, reason: str) -> None:
        failures.append(Failure(chain, done[chain], reason))
        bars.fail(chain)

    def following(number: int, drawn: Drawn) -> Stretch | None:
        chain = chains[number]
        over = drawn.reason is not None or done[chain] == run.plan.total
        return None if over or interruption.happened else _beginning(run, chain)

    for chain in chains:
        run.chain(chain).clean()
    tasks = [] if interruption.happened else [_beginning(run, chain) for chain in chains]
    reported = False
    try:
        for number, drawn in crew.each(partial(draw_stretch, step, run.plan), tasks, following):
            chain = chains[number]
            if drawn.chunk is not None:
                chunk = run.chain(chain).add(done[chain], drawn.chunk)
                done[chain] += len(chunk)
                last = {name: values[-1] for name, values in chunk.statistics.items()}
                bars.update(chain, done[chain], last)
            if drawn.reason is not None:
                with suppress(OSError):
                    run.chain(chain).error.write_text(drawn.trace or "", "utf-8")
                fail(chain, drawn.reason)
            if interruption.happened and not reported:
                bars.stopping("segment")
                reported = True
    except WorkerError as error:
        failed = {failure.chain for failure in failures}
        for chain in chains:
            if chain not in failed and done[chain] < run.plan.total:
                fail(chain, reason_of(error))
    return failures


def _beginning(run: RunFolder, chain: int) -> Stretch:
    """Return the start of a chain's next segment."""
    last = run.chain(chain).last()
    if last is None:
        return Stretch(0, None, run.plan.generators()[chain].bit_generator.state)
    point = {name: values[-1] for name, values in last.points.items()}
    return Stretch(last.first + len(last), point, last.generator)
