"""Exploration: evaluate what a strategy proposes, in this process or in others."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from kem_pymc._system.executors import Serial, Workers, make_executor
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.search.evaluation import Evaluated
from kem_pymc.search.record import Record

#: Number of models per task: a fit to few points takes as long as sending it to another process.
BLOCK = 8


class Strategy[P, E](Protocol):
    """Protocol of strategies.

    A strategy proposes models, and is then given their evaluations, in turns. It proposes the same
    models whenever it is given the same evaluations, so that a search can be continued. It may also
    be given evaluations of models that it didn't propose.
    """

    def propose(self) -> list[P]:
        """Return the next models, which may be evaluated in parallel; none if there are no more."""

    def observe(self, evaluations: Sequence[E]) -> None:
        """Take note of evaluations, in the order of the proposals."""


class Procedure[P, C, E](Protocol):
    """Protocol of the procedures that evaluate a model on one data set."""

    def context(self, proposed: P, number: int, before: Sequence[E]) -> C:
        """Return what an evaluation needs beside the model: its number, and those before it."""

    def evaluate(self, proposed: P, context: C, /) -> E:
        """Fit and score a model."""


@one_blas_thread()
def explore[P, C, E: Evaluated](
    strategy: Strategy[P, E],
    procedure: Procedure[P, C, E],
    budget: int,
    executor: Workers | None = None,
    callback: Callable[[E], object] = lambda _: None,
    *,
    first: Sequence[P] = (),
    seconds: float = math.inf,
    before: float = 0.0,
    record: Record[Any, P, E] | None = None,
) -> list[E]:
    """Evaluate what a strategy proposes until the budget is spent, or there is nothing new.

    Parameters
    ----------
    strategy : Strategy
    procedure : Procedure
    budget : int
        Number of models to evaluate.
    executor : concurrent.futures.Executor, optional
        By default models are evaluated in this process. Results don't depend on where they are.
    callback : callable
        Called with every evaluation, on arrival.
    first : sequence
        Models to evaluate one by one before those that the strategy proposes.
    seconds : float
        Time after which no more models are evaluated, but for the first ones.
    before : float
        Seconds that were spent before; times include them.
    record : Record, optional
        Files of the search. Evaluations that they contain aren't computed again.

    Returns
    -------
    list of Evaluation or Individual
        Evaluations in the order of the proposals.

    Raises
    ------
    InputError
        If the files contain other models than those that are proposed.
    WorkerError
        If workers keep dying.
    """
    executor = Serial() if executor is None else make_executor(cluster=executor)

    def evaluate(block: list[tuple[P, C]]) -> list[E]:
        return [procedure.evaluate(proposed, context) for proposed, context in block]

    evaluations: list[E] = []
    waiting = list(dict.fromkeys(first))
    began = time.perf_counter() - before
    while not evaluations or (len(evaluations) < budget and time.perf_counter() - began < seconds):
        proposed = [waiting.pop(0)] if waiting else strategy.propose()[: budget - len(evaluations)]
        if not proposed:
            break
        evaluated: dict[int, E] = {}
        for number, model in enumerate(proposed):
            stored = None if record is None else record.evaluation(len(evaluations) + number, model)
            if stored is not None:
                evaluated[number] = stored
                began = time.perf_counter() - stored.elapsed  # the clock goes on where it stopped
                callback(stored)
        start = len(evaluated)
        over = (evaluations or evaluated) and time.perf_counter() - began >= seconds
        tasks = [
            (model, procedure.context(model, len(evaluations) + number, evaluations))
            for number, model in enumerate([] if over else proposed[start:], start)
        ]
        blocks = [tasks[i : i + BLOCK] for i in range(0, len(tasks), BLOCK)]
        for number, block in executor.map_unordered(evaluate, blocks):
            elapsed = time.perf_counter() - began
            for i, evaluation in enumerate(block, start + number * BLOCK):
                evaluated[i] = replace(evaluation, elapsed=elapsed)
                callback(evaluated[i])
            if elapsed >= seconds and (evaluations or 0 in evaluated):
                break
        # Workers may have skipped models when the time was over.
        complete = next((i for i in range(len(proposed)) if i not in evaluated), len(proposed))
        generation = [evaluated[i] for i in range(complete)]
        if not generation:  # those that workers evaluated in time aren't the first ones
            break
        if record is not None:
            record.add(generation[start:])
        evaluations += generation
        strategy.observe(generation)
    return evaluations
