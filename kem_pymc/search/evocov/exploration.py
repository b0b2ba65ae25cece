"""Exploration: fit the kernels that a strategy proposes, in this process or in others."""

from collections.abc import Callable, Sequence

import numpy as np

from kem_pymc._system.executors import Executor, Serial, in_order
from kem_pymc.search.evocov.fitting import Fitter
from kem_pymc.search.evocov.individual import Individual, Offspring
from kem_pymc.search.evocov.strategies import Strategy

#: A kernel to fit, and the seed of its starts.
type Task = tuple[Offspring, list[int]]


def explore(
    strategy: Strategy,
    fitter: Fitter,
    budget: int,
    seed: int = 0,
    executor: Executor | None = None,
    callback: Callable[[Individual], object] = lambda _: None,
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
    executor : Executor, optional
        By default kernels are fitted in this process.
    callback : callable
        Called with every fitted kernel, on arrival.

    Returns
    -------
    list of Individual
        Kernels in the order of the proposals.

    Raises
    ------
    WorkerError
        If workers keep dying.
    """
    executor = Serial() if executor is None else executor

    def fit(task: Task) -> Individual:
        offspring, key = task
        return fitter.fit(offspring, np.random.default_rng(key))

    found: list[Individual] = []
    while len(found) < budget:
        proposed: Sequence[Offspring] = strategy.propose()[: budget - len(found)]
        if not proposed:
            break
        tasks = [(own, [seed, number]) for number, own in enumerate(proposed, len(found))]
        fitted = in_order(executor, fit, tasks, callback)
        strategy.observe(fitted)
        found += fitted
    return found
