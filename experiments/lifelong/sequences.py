"""Trials of optimisers on sequences of functions, stored as tables of values."""

import json
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.lifelong.problems import BraninSequence, ProblemSequence, RegistrySequence
from experiments.results import place_of
from experiments.settings import Sequences
from kem_pymc.comparison.code import slug
from kem_pymc.errors import InputError
from kem_pymc.lifelong.lbo import LBO
from kem_pymc.lifelong.optimizer import LifelongOptimizer, MethodName


@dataclass(frozen=True)
class SequenceTask:
    """One optimiser on one sequence.

    Attributes
    ----------
    sequence : ProblemSequence
        The functions.
    title : str
        Name of the method in the figure.
    method : str
        See :class:`kem_pymc.lifelong.LifelongOptimizer`.
    alpha, max_networks
        See there.
    evaluations : int
        Number of evaluations of each function.
    trial : int
        Trials differ in the functions and in the seed; methods share both.
    seed : int
        Seed of the experiment.
    """

    sequence: ProblemSequence
    title: str
    method: MethodName
    alpha: float
    max_networks: int
    evaluations: int
    trial: int
    seed: int

    def place(self, folder: Path) -> Path:
        """Return the file of the results in the folder of an experiment."""
        name = f"{slug(self.title)}-{self.trial:02d}"
        data = f"{self.sequence.key}-{self.sequence.setting:g}"
        return place_of(self, folder, data, name)

    def run(self) -> pd.DataFrame:
        """Return one row for each evaluation.

        Columns are the setting of the sequence (`noise` or `overlap`), `method`, `trial`,
        `function`, `evaluation`, `value`, `optimum` (of the function, if it is known), `seconds`
        (of asking) and, after the last evaluation of a function, `networks`: for "lbo" the
        correlations of networks with values, as JSON.
        """
        sequence = self.sequence
        rng = np.random.default_rng([self.seed, self.trial, round(1000 * sequence.setting)])
        self._compile()
        optimizer = self._optimizer()
        rows: list[dict[str, Any]] = []
        for number, problem in enumerate(sequence.problems(rng)):
            optimizer.next_task()
            for evaluation in range(self.evaluations):
                began = time.process_time()
                point = optimizer.ask()
                seconds = time.process_time() - began
                value = problem.evaluate(point)
                optimizer.tell(point, value)
                rows.append(
                    {
                        "function": number,
                        "evaluation": evaluation,
                        "value": value,
                        "optimum": problem.optimum,
                        "seconds": seconds,
                    }
                )
            if isinstance(optimizer.method, LBO):
                found = optimizer.method.correlations(optimizer.acquired())
                rows[-1]["networks"] = json.dumps([round(float(own), 4) for own in found])
        columns = {sequence.key: sequence.setting, "method": self.title, "trial": self.trial}
        return pd.DataFrame(rows).assign(**columns)

    def _optimizer(self) -> LifelongOptimizer:
        return LifelongOptimizer(
            self.sequence.space(),
            method=self.method,
            direction=self.sequence.direction,
            alpha=self.alpha,
            max_networks=self.max_networks,
            seed=1000 * self.seed + self.trial,
        )

    def _compile(self) -> None:
        """Let the method compile what it needs, outside the time."""
        optimizer = self._optimizer()
        optimizer.next_task()
        for value in range(optimizer.initial):
            optimizer.tell(optimizer.ask(), value)
        optimizer.ask()


def tasks_of(
    sequences: Sequences,
    *,
    trials: int | None = None,
    evaluations: int | None = None,
    quick: bool = False,
    seed: int = 0,
) -> list[SequenceTask]:
    """Return the tasks of a figure, by trial.

    Parameters
    ----------
    sequences : Sequences
    trials, evaluations : int, optional
        By default those of the settings.
    quick : bool
        Whether to use the smaller numbers for previews.
    seed : int
    """
    count = trials or (sequences.quick_trials if quick else sequences.trials)
    length = evaluations or (sequences.quick_evaluations if quick else sequences.evaluations)
    return [
        SequenceTask(
            sequence=sequence,
            title=title,
            method=own.method,
            alpha=own.alpha,
            max_networks=own.max_networks,
            evaluations=length,
            trial=trial,
            seed=seed,
        )
        for trial in range(count)
        for sequence in _sequences(sequences)
        for title, own in sequences.methods.items()
    ]


def _sequences(sequences: Sequences) -> list[ProblemSequence]:
    """Return the sequences of a figure."""
    own, count = sequences.registry, sequences.functions
    table: dict[str, str] = {}
    if own is not None:
        try:
            digest = sha256(Path(own.path).read_bytes()).hexdigest()[:8]
        except OSError as error:
            raise InputError(
                f"{own.path} can't be read: {error}. Give the path of a table as registry.path."
            ) from None
        table = {**own.model_dump(), "digest": digest}
    return [
        *(BraninSequence(noise, count) for noise in sequences.noises),
        *(RegistrySequence(overlap, count, **table) for overlap in sequences.overlaps),
    ]
