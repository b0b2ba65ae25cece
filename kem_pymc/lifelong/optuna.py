"""Sampler for Optuna, with which studies that follow each other are tasks of one optimiser."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from kem_pymc.errors import InputError
from kem_pymc.lifelong.distributions import (
    CategoricalDistribution,
    Distribution,
    FloatDistribution,
    IntDistribution,
)
from kem_pymc.lifelong.optimizer import Direction, LifelongOptimizer
from kem_pymc.lifelong.space import Space, SpaceExhausted

try:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ImportError:
    raise InputError(
        "The sampler needs Optuna, which isn't installed. Install kem-pymc[optuna]."
    ) from None


#: States of trials that have ended.
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


class LifelongSampler(BaseSampler):
    """Sampler for Optuna that learns from earlier studies.

    Every study is a task, which is named after the study and begins when its first parameter is
    sampled, or with :meth:`learn`. Trials that fail or are pruned count as failed evaluations.
    Finished trials that were enqueued, added, or run by another process are learned from if they
    have values of all parameters. Parameters that aren't in the search space are sampled at random.
    A study is stopped when all points of the search space have been tried.

    Parameters
    ----------
    search_space : mapping of str to optuna.distributions.BaseDistribution
        Parameters that all studies have, without steps.
    seed : int
        Processes that share a study need different ones, or they propose the same points.
    **options
        Of :class:`kem_pymc.lifelong.LifelongOptimizer`, such as `method` and `out`, but not the
        direction, which is that of the studies.

    Attributes
    ----------
    optimizer : LifelongOptimizer or None
        The optimiser, once a task has begun.

    Raises
    ------
    InputError
        If a distribution has a step, all of them have a single value, or an option is invalid.

    Examples
    --------
    >>> rate = optuna.distributions.FloatDistribution(1e-4, 1, log=True)
    >>> sampler = LifelongSampler({"rate": rate})
    >>> for year in ("2023", "2024"):
    ...     study = optuna.create_study(sampler=sampler, study_name=year)
    ...     study.optimize(objectives[year], n_trials=50)
    """

    def __init__(
        self, search_space: Mapping[str, BaseDistribution], *, seed: int = 0, **options: Any
    ) -> None:
        if "direction" in options:
            raise InputError("The sampler has no direction. Give it to optuna.create_study.")
        if not isinstance(search_space, Mapping):
            raise InputError(
                f"The search space is {search_space!r}. Give a mapping of names to distributions."
            )
        for name, own in search_space.items():
            if not isinstance(own, BaseDistribution):
                raise InputError(
                    f"The parameter {name} has the distribution {own!r}. Give one of "
                    "optuna.distributions."
                )
        # Optuna gives parameters with a single value this one.
        self.search_space = {name: own for name, own in search_space.items() if not own.single()}
        self.space = Space({name: _own(name, one) for name, one in self.search_space.items()})
        self.optimizer: LifelongOptimizer | None = None
        self._options = {"seed": seed, **options}
        LifelongOptimizer(self.space, **(self._options | {"out": None}))  # invalid options raise
        self._others = RandomSampler(seed=seed)
        self._proposed: dict[int, dict[str, Any]] = {}
        self._recorded: set[int] = set()
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = Lock()

    def learn(self, study: Study) -> None:
        """Learn from the finished trials of a study, such as one that is loaded from a storage.

        It is needed only if no further trial of the study is asked for; then they are learned from
        without it.

        Parameters
        ----------
        study : optuna.Study

        Raises
        ------
        InputError
            If the study has several objectives or another direction than the first one, or other
            studies have begun since.
        """
        with self._lock:
            self._recorded_in(study)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the search space."""
        return self.search_space

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the next point, or nothing if all have been tried.

        Raises
        ------
        InputError
            If the study has several objectives or another direction than the first one, or other
            studies have begun since its last trial.
        """
        with self._lock:
            optimizer = self._recorded_in(study)
            try:
                point = optimizer.ask()
            except SpaceExhausted:
                with suppress(RuntimeError):  # outside of Study.optimize
                    study.stop()
                return {}
            self._proposed[trial.number] = point
        return dict(point)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return a random value of a parameter that isn't in the search space."""
        return self._others.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Record the value of a trial; one of a study that has ended is passed over."""
        with self._lock:
            earlier = self.optimizer.tasks[:-1] if self.optimizer is not None else []
            if study.study_name not in [task.name for task in earlier]:
                self._record(self._of(study), study, trial, state, values)

    def reseed_rng(self) -> None:
        """Reseed the sampler of other parameters; points depend on the seed alone."""
        self._others.reseed_rng()

    def _recorded_in(self, study: Study) -> LifelongOptimizer:
        """Return the optimiser, with all finished trials of a study."""
        optimizer = self._of(study)
        for own in study.get_trials(deepcopy=False, states=FINISHED):
            self._record(optimizer, study, own, own.state, own.values)
        return optimizer

    def _record(
        self,
        optimizer: LifelongOptimizer,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Record the value of a trial, unless it is recorded already."""
        # Another study of the same name may have a trial of the same number.
        if trial.number in self._recorded and trial.number not in self._proposed:
            return
        self._recorded.add(trial.number)
        proposed = self._proposed.pop(trial.number, {})
        value = values[0] if state is TrialState.COMPLETE and values else None
        point = proposed | self._given(trial)
        if not point:
            return
        if point != proposed and proposed and optimizer.task.awaits(proposed):
            optimizer.withdraw(proposed)  # other values were enqueued for some parameters
        try:
            # Another trial may have had the same point.
            record = optimizer.tell if optimizer.task.awaits(point) else optimizer.add
            record(point, value)
        except InputError as error:
            if value is not None:
                warnings.warn(
                    f"Trial {trial.number} of the study {study.study_name} isn't learned from. "
                    f"{error}",
                    stacklevel=2,
                )

    def _of(self, study: Study) -> LifelongOptimizer:
        """Return the optimiser, whose current task is a study."""
        if len(study.directions) > 1:
            raise InputError(
                f"The study {study.study_name} has {len(study.directions)} objectives. Give it one."
            )
        maximised = study.direction == StudyDirection.MAXIMIZE
        direction: Direction = "maximize" if maximised else "minimize"
        if self.optimizer is None:
            self.optimizer = LifelongOptimizer(self.space, direction=direction, **self._options)
            if [task.name for task in self.optimizer.tasks][-1:] == [study.study_name]:
                self._continue(self.optimizer, study)
        if direction != self.optimizer.direction:
            raise InputError(
                f"The study {study.study_name} is to {direction}, the ones before to "
                f"{self.optimizer.direction}. Give all studies one direction."
            )
        names = [task.name for task in self.optimizer.tasks]
        if study.study_name not in names:
            self.optimizer.next_task(study.study_name)
            self._proposed.clear()
            self._recorded.clear()
        elif study.study_name != names[-1]:
            raise InputError(
                f"The study {study.study_name} has ended, since {names[-1]} has begun. Finish one "
                "study before the next, or give them samplers of their own."
            )
        return self.optimizer

    def _continue(self, optimizer: LifelongOptimizer, study: Study) -> None:
        """Find which trials of a study the optimiser in a folder has learned from already.

        Points without a value were those of a process that has ended.
        """
        for point in list(optimizer.task.pending):
            optimizer.withdraw(point)
        known = list(optimizer.task.points)
        for trial in study.get_trials(deepcopy=False, states=FINISHED):
            given = self._given(trial)
            same = [i for i, point in enumerate(known) if given.items() <= point.items()]
            if given and same:
                del known[same[0]]
                self._recorded.add(trial.number)

    def _given(self, trial: FrozenTrial) -> dict[str, Any]:
        """Return a trial's parameters that are in the search space."""
        return {name: own for name, own in trial.params.items() if name in self.space.dimensions}


def _own(name: str, given: BaseDistribution) -> Distribution:
    """Return the distribution of this package for one of Optuna's."""
    if isinstance(given, optuna.distributions.CategoricalDistribution):
        return CategoricalDistribution(tuple(given.choices))
    if isinstance(given, optuna.distributions.FloatDistribution) and given.step is None:
        return FloatDistribution(given.low, given.high, log=given.log)
    if isinstance(given, optuna.distributions.IntDistribution) and given.step == 1:
        return IntDistribution(given.low, given.high, log=given.log)
    raise InputError(f"The parameter {name} has the distribution {given}. Give one without a step.")
