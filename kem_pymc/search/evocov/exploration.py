"""Exploration: fit the kernels that a strategy proposes, in this process or in others."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from kem_pymc._system.executors import Serial, Workers, make_executor
from kem_pymc.search.evocov.fitting import Fitter
from kem_pymc.search.evocov.individual import Individual, Offspring
from kem_pymc.search.evocov.record import EvolvedRecord
from kem_pymc.search.evocov.strategies import Strategy

#: Kernels to fit, each with the seed of its starts.
type Task = list[tuple[Offspring, list[int]]]

#: Number of kernels per task: a fit to few points takes as long as sending it to another process.
BLOCK = 8


def explore(
    strategy: Strategy,
    fitter: Fitter,
    budget: int,
    seed: int = 0,
    executor: Workers | None = None,
    callback: Callable[[Individual], object] = lambda _: None,
    *,
    seconds: float = math.inf,
    before: float = 0.0,
    record: EvolvedRecord | None = None,
) -> list[Individual]:
    """Fit what a strategy proposes until the budget is spent, or there is nothing new.

    Parameters
    ----------
    strategy : Strategy
    fitter : Fitter
    budget : int
        Number of kernels to fit.
    seed : int
        Seed of the starts of fits. Results don't depend on where kernels are fitted.
    executor : concurrent.futures.Executor, optional
        By default kernels are fitted in this process.
    callback : callable
        Called with every fitted kernel, on arrival.
    seconds : float
        Time after which no more kernels are fitted, but for the first ones.
    before : float
        Seconds that were spent before; times include them.
    record : EvolvedRecord, optional
        Files of the search. Kernels that they contain aren't fitted again.

    Returns
    -------
    list of Individual
        Kernels in the order of the proposals.

    Raises
    ------
    InputError
        If the files contain other kernels than those that are proposed.
    WorkerError
        If workers keep dying.
    """
    executor = Serial() if executor is None else make_executor(cluster=executor)
    record = EvolvedRecord() if record is None else record

    def fit(task: Task) -> list[Individual]:
        return [fitter.fit(offspring, np.random.default_rng(key)) for offspring, key in task]

    found: list[Individual] = []
    began = time.perf_counter() - before
    while not found or (len(found) < budget and time.perf_counter() - began < seconds):
        proposed: Sequence[Offspring] = strategy.propose()[: budget - len(found)]
        if not proposed:
            break
        fitted = {}
        for number, offspring in enumerate(proposed):
            known = record.evaluation(len(found) + number, offspring)
            if known is not None:
                fitted[number] = known
                began = time.perf_counter() - known.elapsed  # the clock goes on where it stopped
                callback(known)
        first = len(fitted)
        over = (found or fitted) and time.perf_counter() - began >= seconds
        rest = [] if over else proposed[first:]
        left = [(own, [seed, len(found) + first + i]) for i, own in enumerate(rest)]
        blocks = [left[i : i + BLOCK] for i in range(0, len(left), BLOCK)]
        for number, block in executor.map_unordered(fit, blocks):
            elapsed = time.perf_counter() - began
            for i, own in enumerate(block, first + number * BLOCK):
                fitted[i] = replace(own, elapsed=elapsed)
                callback(fitted[i])
            if elapsed >= seconds and (found or 0 in fitted):
                break
        # Workers may have skipped kernels when the time was over.
        complete = next((i for i in range(len(proposed)) if i not in fitted), len(proposed))
        generation = [fitted[i] for i in range(complete)]
        if not generation:  # those that workers fitted in time aren't the first ones
            break
        record.add(generation[first:])
        found += generation
        strategy.observe(generation)
    return found
