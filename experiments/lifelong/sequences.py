"""Trials of optimisers on sequences of functions, stored as tables of values."""

import json
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
from optuna.study import Study
from optuna.trial import TrialState

from experiments.lifelong.problems import BraninSequence, ProblemSequence, RegistrySequence
from experiments.lifelong.samplers import sampler
from experiments.results import file_of, slug
from experiments.settings import MethodName, Sequences
from kem_pymc.errors import InputError
from kem_pymc.lifelong.sampler import LifelongSampler, StudySampler


@dataclass(frozen=True)
class SequenceTask:
    """One optimiser on one sequence.

    Attributes
    ----------
    sequence : ProblemSequence
        The functions.
    title : str
        Name of the method in the figure.
    method, warm_start
        See :func:`experiments.lifelong.samplers.sampler`.
    alpha, max_networks
        See :class:`kem_pymc.lifelong.LifelongSampler`.
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
    warm_start: bool
    alpha: float
    max_networks: int
    evaluations: int
    trial: int
    seed: int

    def file(self, out: Path) -> Path:
        """Return the file of the results in the folder of an experiment."""
        name = f"{slug(self.title)}-{self.trial:02d}"
        data = f"{self.sequence.key}-{self.sequence.setting:g}"
        return file_of(self, out, data, name)

    def run(self) -> pd.DataFrame:
        """Return one row for each evaluation.

        Columns are the setting of the sequence (`noise` or `overlap`), `method`, `trial`,
        `function`, `evaluation`, `value`, `optimum` (of the function, if it is known), `seconds`
        (of asking) and, after the last evaluation of a function, `networks`: for "lbo" the
        correlations of networks with values, as JSON.
        """
        sequence = self.sequence
        rng = np.random.default_rng([self.seed, self.trial, round(1000 * sequence.setting)])
        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)  # no line for each study
        try:
            self._compile()
            study_sampler = self._sampler()
            rows: list[dict[str, Any]] = []
            for number, problem in enumerate(sequence.problems(rng)):
                study = self._study(study_sampler, str(number))
                for evaluation in range(self.evaluations):
                    began = time.process_time()
                    trial = study.ask()
                    sequence.suggest(trial)
                    seconds = time.process_time() - began
                    value = problem.evaluate(trial.params)
                    _tell(study, trial, value)
                    rows.append(
                        {
                            "function": number,
                            "evaluation": evaluation,
                            "value": value,
                            "optimum": problem.optimum,
                            "seconds": seconds,
                        }
                    )
            if self.method == "lbo":
                assert isinstance(study_sampler, LifelongSampler)
                used = study_sampler.networks()
                values = used["correlation"].values.round(4)
                last = rows[self.evaluations - 1 :: self.evaluations]
                names = [str(row["function"]) for row in last]
                frame = pd.DataFrame(values, index=used["task"].values)
                frame = frame.reindex(names, fill_value=0.0)  # nothing is learned from constants
                for row, values in zip(last, frame.to_numpy(), strict=True):
                    row["networks"] = json.dumps(values.tolist())
        finally:
            optuna.logging.set_verbosity(before)
        columns = {sequence.key: sequence.setting, "method": self.title, "trial": self.trial}
        return pd.DataFrame(rows).assign(**columns)

    def _sampler(self) -> StudySampler:
        options: dict[str, Any] = {"alpha": self.alpha, "max_networks": self.max_networks}
        keywords = options if self.method == "lbo" else {}
        seed = 1000 * self.seed + self.trial
        return sampler(self.method, seed, warm_start=self.warm_start, **keywords)

    def _study(self, study_sampler: StudySampler, name: str) -> Study:
        direction = self.sequence.direction
        return optuna.create_study(sampler=study_sampler, study_name=name, direction=direction)

    def _compile(self) -> None:
        """Let the method compile what it needs, outside the time."""
        study_sampler = self._sampler()
        study = self._study(study_sampler, "compiled")
        for value in range(study_sampler.n_startup_trials + 1):
            trial = study.ask()
            self.sequence.suggest(trial)
            study.tell(trial, value)


def _tell(study: Study, trial: optuna.Trial, value: float) -> None:
    """Tell the value of a trial; NaN if it failed."""
    if np.isfinite(value):
        study.tell(trial, value)
    else:
        study.tell(trial, state=TrialState.FAIL)


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
            method=method.method,
            warm_start=method.warm_start,
            alpha=method.alpha,
            max_networks=method.max_networks,
            evaluations=length,
            trial=trial,
            seed=seed,
        )
        for trial in range(count)
        for sequence in _sequences(sequences)
        for title, method in sequences.methods.items()
    ]


def _sequences(sequences: Sequences) -> list[ProblemSequence]:
    """Return the sequences of a figure."""
    registry, count = sequences.registry, sequences.functions
    table: dict[str, str] = {}
    if registry is not None:
        try:
            digest = sha256(Path(registry.path).read_bytes()).hexdigest()[:8]
        except OSError as error:
            raise InputError(
                f"{registry.path} can't be read: {error}. "
                "Give the path of a table as registry.path."
            ) from None
        table = {**registry.model_dump(), "digest": digest}
    return [
        *(BraninSequence(noise, count) for noise in sequences.noises),
        *(RegistrySequence(overlap, count, **table) for overlap in sequences.overlaps),
    ]
