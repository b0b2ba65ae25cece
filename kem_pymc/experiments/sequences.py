"""Trials of optimisers on sequences of Branin functions, stored as tables of values."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kem_pymc.datasets.branin import RANGES, branin_sequence
from kem_pymc.experiments.code import slug
from kem_pymc.experiments.results import place_of
from kem_pymc.experiments.settings import Sequences
from kem_pymc.lifelong.lbo import LBO
from kem_pymc.lifelong.optimizer import LifelongOptimizer, MethodName
from kem_pymc.lifelong.space import FloatDistribution, Space

SPACE = Space({name: FloatDistribution(*ends) for name, ends in RANGES.items()})


@dataclass(frozen=True)
class SequenceTask:
    """One optimiser on one sequence.

    Attributes
    ----------
    noise : float
        Standard deviation of the functions' parameters.
    title : str
        Name of the method in the figure.
    method : str
        See :class:`kem_pymc.lifelong.LifelongOptimizer`.
    alpha, max_networks
        See there.
    functions : int
        Length of the sequence.
    evaluations : int
        Number of evaluations of each function.
    trial : int
        Trials differ in the functions and in the seed; methods share both.
    seed : int
        Seed of the experiment.
    """

    noise: float
    title: str
    method: MethodName
    alpha: float
    max_networks: int
    functions: int
    evaluations: int
    trial: int
    seed: int

    def place(self, folder: Path) -> Path:
        """Return the file of the results in the folder of an experiment."""
        name = f"{slug(self.title)}-{self.trial:02d}"
        return place_of(self, folder, f"noise-{self.noise:g}", name)

    def run(self) -> pd.DataFrame:
        """Return one row for each evaluation.

        Columns are `noise`, `method`, `trial`, `function`, `evaluation`, `value`, `minimum` (of the
        function), `seconds` (of asking) and, after the last evaluation of a function, `networks`:
        for "lbo" the correlations of networks with values, as JSON.
        """
        rng = np.random.default_rng([self.seed, self.trial, round(1000 * self.noise)])
        optimizer = LifelongOptimizer(
            SPACE,
            method=self.method,
            alpha=self.alpha,
            max_networks=self.max_networks,
            seed=1000 * self.seed + self.trial,
        )
        rows: list[dict[str, Any]] = []
        for number, function in enumerate(branin_sequence(self.noise, self.functions, rng)):
            optimizer.next_task()
            for evaluation in range(self.evaluations):
                began = time.process_time()
                point = optimizer.ask()
                seconds = time.process_time() - began
                value = float(function(**point))
                optimizer.tell(point, value)
                rows.append(
                    {
                        "function": number,
                        "evaluation": evaluation,
                        "value": value,
                        "minimum": function.minimum,
                        "seconds": seconds,
                    }
                )
            if isinstance(optimizer.method, LBO):
                found = optimizer.method.correlations(optimizer.acquired())
                rows[-1]["networks"] = json.dumps([round(float(own), 4) for own in found])
        columns = {"noise": self.noise, "method": self.title, "trial": self.trial}
        return pd.DataFrame(rows).assign(**columns)


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
            noise=noise,
            title=title,
            method=own.method,
            alpha=own.alpha,
            max_networks=own.max_networks,
            functions=sequences.functions,
            evaluations=length,
            trial=trial,
            seed=seed,
        )
        for trial in range(count)
        for noise in sequences.noises
        for title, own in sequences.methods.items()
    ]
