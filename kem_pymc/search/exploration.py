"""Exploration: evaluate what a strategy proposes, in this process or in others."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from textwrap import shorten
from typing import Protocol

from kem_pymc._system.executors import Serial, Workers, in_order, make_executor
from kem_pymc._system.progress import Progress
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.search.evaluation import Evaluated, best
from kem_pymc.search.record import Record

#: Largest number of characters of a model that are shown.
LONGEST = 60

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
    before: float = 0.0,
    record: Record[E] | None = None,
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

    def arrived(block: list[E]) -> None:
        for evaluation in block:
            callback(evaluation)

    evaluations: list[E] = []
    waiting = list(dict.fromkeys(first))
    began = time.perf_counter() - before
    while len(evaluations) < budget:
        proposed = [waiting.pop(0)] if waiting else strategy.propose()[: budget - len(evaluations)]
        if not proposed:
            break
        numbered = list(enumerate(proposed, len(evaluations)))
        stored = [] if record is None else [record.evaluation(*each) for each in numbered]
        generation = [evaluation for evaluation in stored if evaluation is not None]
        arrived(generation)
        if generation:  # the clock goes on where it stopped
            began = time.perf_counter() - generation[-1].elapsed
        tasks = [
            (model, procedure.context(model, number, evaluations))
            for number, model in numbered[len(generation) :]
        ]
        blocks = [tasks[i : i + BLOCK] for i in range(0, len(tasks), BLOCK)]
        new = in_order(executor, evaluate, blocks, arrived)
        elapsed = time.perf_counter() - began
        fresh = [replace(evaluation, elapsed=elapsed) for block in new for evaluation in block]
        if record is not None:
            record.add(fresh)
        evaluations += generation + fresh
        strategy.observe(generation + fresh)
    return evaluations


def best_so_far(
    progress: Progress, budget: int, title: str = "Search"
) -> Callable[[Evaluated], None]:
    """Return a function that shows the progress of a search with each of its evaluations.

    Parameters
    ----------
    progress : Progress
    budget : int
        Number of models to evaluate.
    title : str
        What is shown before the bar.
    """
    task, highest = progress.add(title, budget), list[Evaluated]()

    def show(evaluation: Evaluated) -> None:
        highest[:] = [best([*highest, evaluation])]
        model, score = highest[0].model, highest[0].score
        model = shorten(model, LONGEST, placeholder="...")
        progress.advance(task, text=f"best so far: {model} ({score:.1f})")

    return show
