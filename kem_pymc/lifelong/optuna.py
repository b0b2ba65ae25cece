"""Sampler for Optuna, with which studies that follow each other are tasks of one optimiser."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from kem_pymc.errors import InputError
from kem_pymc.lifelong.optimizer import Direction, LifelongOptimizer
from kem_pymc.lifelong.space import (
    CategoricalDistribution,
    Distribution,
    FloatDistribution,
    IntDistribution,
    Space,
)

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


class LifelongSampler(BaseSampler):
    """Sampler for Optuna that learns from earlier studies.

    Every study is a task, which begins with its first trial and is named after the study. Trials
    that fail or are pruned count as failed evaluations. Parameters that aren't in the search space
    are sampled at random.

    Parameters
    ----------
    search_space : mapping of str to optuna.distributions.BaseDistribution
        Parameters that all studies have, without steps.
    seed : int
    **options
        Of :class:`kem_pymc.lifelong.LifelongOptimizer`, such as `method` and `out`.

    Attributes
    ----------
    optimizer : LifelongOptimizer or None
        The optimiser, from the first trial on.

    Raises
    ------
    InputError
        If a distribution has a step or a single value.

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
        self.search_space = dict(search_space)
        self.space = Space({name: _own(name, one) for name, one in self.search_space.items()})
        self.optimizer: LifelongOptimizer | None = None
        self._options = {"seed": seed, **options}
        self._others = RandomSampler(seed=seed)
        self._proposed: dict[tuple[str, int], dict[str, Any]] = {}
        self._lock = Lock()

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the search space."""
        return self.search_space

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the next point.

        Raises
        ------
        InputError
            If the study has several objectives or another direction than the first one, or other
            studies have begun since its last trial.
        """
        with self._lock:
            optimizer = self._of(study)
            point = optimizer.ask()
            self._proposed[study.study_name, trial.number] = point
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
        """Record the value of a trial."""
        with self._lock:
            proposed = self._proposed.pop((study.study_name, trial.number), None)
            if proposed is None or self.optimizer is None:
                return
            complete = state is TrialState.COMPLETE and values is not None
            value = values[0] if complete and values else None
            given = {
                name: own for name, own in trial.params.items() if name in self.space.dimensions
            }
            point = proposed | given
            if point == proposed:
                self.optimizer.tell(proposed, value)
            else:  # an enqueued trial
                self.optimizer.tell(proposed, None)
                self.optimizer.add(point, value)

    def reseed_rng(self) -> None:
        """Reseed the sampler of other parameters; points depend on the seed alone."""
        self._others.reseed_rng()

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
        if direction != self.optimizer.direction:
            raise InputError(
                f"The study {study.study_name} is to {direction}, the ones before to "
                f"{self.optimizer.direction}. Give all studies one direction."
            )
        names = [task.name for task in self.optimizer.tasks]
        if study.study_name not in names:
            self.optimizer.next_task(study.study_name)
            self._proposed.clear()
        elif study.study_name != names[-1]:
            raise InputError(
                f"The study {study.study_name} has ended, since {names[-1]} has begun. Finish one "
                "study before the next, or give them samplers of their own."
            )
        return self.optimizer


def _own(name: str, given: BaseDistribution) -> Distribution:
    """Return the distribution of this package for one of Optuna's."""
    if isinstance(given, optuna.distributions.CategoricalDistribution):
        return CategoricalDistribution(tuple(given.choices))
    if isinstance(given, optuna.distributions.FloatDistribution) and given.step is None:
        return FloatDistribution(given.low, given.high, log=given.log)
    if isinstance(given, optuna.distributions.IntDistribution) and given.step == 1:
        return IntDistribution(given.low, given.high, log=given.log)
    raise InputError(f"The parameter {name} has the distribution {given}. Give one without a step.")
