"""Samplers for Optuna with which studies are tasks, and later ones learn from earlier ones."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from threading import Lock
from typing import Any, Literal
from zlib import crc32

import numpy as np
import xarray as xr

from kem_pymc._system.options import check_seed, check_whole, checked
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.errors import InputError
from kem_pymc.lifelong.lbo import LBO
from kem_pymc.lifelong.residual import ResidualGP
from kem_pymc.lifelong.tasks import Task

try:
    import optuna
except ImportError:
    raise InputError(
        "Lifelong optimisation needs Optuna, which isn't installed. Install kem-pymc[optuna]."
    ) from None

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from kem_pymc.lifelong.maximise import Model, maximise
from kem_pymc.lifelong.space import Space, check_exact, learned_space

#: Attribute of a study with its number among the tasks, from 1 on.
TASK = "kem_pymc:task"

#: Held while a point is chosen, so that threads see each other's points.
ASKING = Lock()

#: States of trials that have a value, and of those that have ended.
COMPLETED = (TrialState.COMPLETE,)
FINISHED = (*COMPLETED, TrialState.PRUNED, TrialState.FAIL)

#: Number of random points, one of which is to be new.
DRAWS = 256

#: Largest number of points of a space that are looked through if all of these are known, and how
#: many times as many as the known ones they may be.
POINTS, SHARE = 4096, 16


@checked
class StudySampler(BaseSampler):
    """Base of samplers for which every study is a task; a model learns from all of them.

    A study becomes a task with its first trial, or by :meth:`learn`, and is numbered in a user
    attribute. What is proposed is a function of the seed, of the trials in the storage, and of the
    trial's number, so that a process that was killed can be replaced by another one.

    The search space is what all completed trials of the study have in common, or, before there is
    one, those of the last task, as far as the study's own parameters can have these values, and
    what trials have with some choices of a category only, such as the penalty of one of several
    classifiers; other parameters are drawn at random. Of earlier studies, trials with the same
    distributions are learned from. Pruned and failed trials are as
    bad as the worst one, so that points near them are avoided. Running trials count with the value
    that the model expects.

    Parameters
    ----------
    storage : str or optuna.storages.BaseStorage, optional
        Storage in which studies of other processes, and of earlier ones, are found. Without one,
        tasks are the studies that this sampler was used for.
    seed : int
    n_startup_trials : int
        Number of points with which a study begins, unless others are enqueued.
    warm_start : bool
        Whether a study begins with the best points of earlier studies, those of the last one first.
        Once they were tried, and without them, first points are random, or the model's if it has a
        prior mean that earlier studies taught (`prior_mean`).

    Raises
    ------
    InputError
        If an option isn't a whole number, or is too small. When a point is asked for: if a
        parameter has whole numbers beyond 2^53.
    """

    def __init__(
        self,
        storage: str | BaseStorage | None = None,
        *,
        seed: int = 0,
        n_startup_trials: int = 5,
        warm_start: bool = True,
    ) -> None:
        check_seed(seed=seed)
        check_whole(n_startup_trials=n_startup_trials)
        self.seed, self.n_startup_trials = seed, n_startup_trials
        self.warm_start = warm_start
        self._leaders: dict[int, tuple[tuple[Task, ...], np.ndarray]] = {}
        self.storage = None if storage is None else optuna.storages.get_storage(storage)
        self._studies: dict[tuple[int, str], Study] = {}
        self._tasks: dict[tuple[int, str], tuple[Any, Task]] = {}
        # Points of trials by study and number: Optuna stores a point only after it was chosen.
        self._proposed: dict[tuple[str, int], dict[str, Any]] = {}

    @abstractmethod
    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> Model | None:
        """Return a model of the last task's function; None to draw a point at random.

        Earlier tasks have values that differ; those of the last one do, too.
        """

    def normalised(self, tasks: Sequence[Task]) -> np.ndarray:
        """Return the values (n,) of the last task as its model has them."""
        return tasks[-1].y

    @property
    def prior_mean(self) -> bool:
        """Whether earlier tasks teach the model where good points are, before there are values."""
        return False

    def _next_leader(self, tasks: Sequence[Task], seen: np.ndarray) -> np.ndarray | None:
        """Return a point (D,) with which the last task begins; None if all were seen.

        It is where the model of an earlier task expects the best of the points tried there, the
        last task first.
        """
        tried = {row.tobytes() for row in seen}
        for count in range(len(tasks) - 1, 0, -1):
            row = self._leader(tasks[:count])
            if row.tobytes() not in tried:
                return row
        return None

    def _leader(self, tasks: Sequence[Task]) -> np.ndarray:
        """Return the point (D,) of the last of some tasks that its model expects to be the best.

        It is chosen once, as long as the tasks are the same objects.
        """
        number, task = len(tasks), tasks[-1]
        known, row = self._leaders.get(number, ((), task.rows[:0]))
        if [id(one) for one in known] != [id(one) for one in tasks]:
            rng = np.random.default_rng([self.seed, number, len(task.values), 2])
            model = self.fit(tasks, rng)
            expected = task.y if model is None else model.predict(task.rows)[0]
            row = task.rows[int(np.argmin(expected))]
            self._leaders[number] = tuple(tasks), row
        return row

    def learn(self, study: Study) -> None:
        """Make a study the next task, unless it is one.

        It is needed only for studies without trials that were asked for, such as last year's.

        Raises
        ------
        InputError
            If the study has several objectives.
        """
        if len(study.directions) > 1:
            raise InputError(
                f"The study {study.study_name} has {len(study.directions)} objectives. Give it one."
            )
        number = study.user_attrs.get(TASK)
        if number is None or (number, study.study_name) not in self._studies:
            self._find_studies()
        if number is None:
            number = 1 + max((task for task, _ in self._studies), default=0)
            study.set_user_attr(TASK, number)
        self._studies[number, study.study_name] = study

    def _find_studies(self) -> None:
        """Find the tasks in the storage."""
        if self.storage is None:
            return
        for summary in optuna.get_all_study_summaries(self.storage, include_best_trial=False):
            if TASK in summary.user_attrs:
                study = optuna.load_study(study_name=summary.study_name, storage=self.storage)
                self._studies.setdefault((summary.user_attrs[TASK], summary.study_name), study)

    def best(self, study: Study) -> tuple[dict[str, Any], float]:
        """Return the parameters that the model expects to be the best ones tried, and their value.

        Where evaluations are noisy, ``study.best_value`` is the luckiest of them, and better than
        the function is anywhere. The model's mean at a point takes account of all evaluations.

        Parameters
        ----------
        study : optuna.Study

        Returns
        -------
        parameters : dict
            Those of a completed trial.
        value : float
            Expected value there, as evaluations have it. If there is no model, since all
            evaluations are equal or trials have no parameters in common, it is the best value.

        Raises
        ------
        InputError
            If the study has several objectives, or no trial with a finite value.
        """
        self.learn(study)
        sign = self._sign(study)
        trials = [trial for trial in study.get_trials() if np.isfinite(_value(trial))]
        if not trials:
            raise InputError(
                f"No trial of the study {study.study_name} has a value. Optimise it first."
            )
        space = self._search_space([*self._earlier(study), study])
        known = [trial for trial in trials if _has_point(trial, space)]
        if known and space.distributions:
            with ASKING:
                tasks = _informative([self._task(s, space) for s in [*self._earlier(study), study]])
                model = self._model(tasks, self._rng(study, len(study.get_trials(deepcopy=False))))
            if model is not None:
                rows = space.encode([trial.params for trial in known])
                mean, _ = model.predict(rows)
                place = int(np.argmin(mean))
                value = tasks[-1].value_of(float(mean[place]), self.normalised(tasks))
                return known[place].params, sign * value
        lucky = min(trials, key=lambda trial: sign * _value(trial))
        return lucky.params, _value(lucky)

    # --- Optuna's interface -----------------------------------------------------------------------

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Make the study a task; see :meth:`learn`."""
        self.learn(study)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that are proposed together; none before a trial is complete.

        Optuna refuses a study that has other choices than those proposed, as it may have until
        then. First points are proposed parameter by parameter (:meth:`sample_independent`).
        """
        begun = study.get_trials(deepcopy=False, states=COMPLETED)
        return self._search_space([*self._earlier(study), study]).distributions if begun else {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the next point; nothing if all were tried, and the study stops with a warning.

        It doesn't stop if trials have other parameters, whose values differ at the same point.
        """
        if not search_space:
            return {}
        learned = self._search_space([*self._earlier(study), study]).conditions
        known = {n: c for n, c in learned.items() if {n, c[0]} <= search_space.keys()}
        space = Space(search_space, known)  # other workers' trials may have ended meanwhile
        others = any(
            name not in search_space and not one.single()
            for each in study.get_trials(deepcopy=False)
            for name, one in each.distributions.items()
        )
        with ASKING:
            tasks = [self._task(task, space) for task in [*self._earlier(study), study]]
            row = self.propose(
                tasks,
                space,
                space.encode(self._running(study, trial, space)),
                self._rng(study, trial.number),
                repeat=others,
            )
            if row is not None:
                point = space.decode(row)
                self._proposed[study.study_name, trial.number] = point
                return point
        warnings.warn(
            f"All points of {', '.join(search_space)} were tried in study {study.study_name}: this "
            "trial repeats one, and the study stops. Give larger ranges to go on.",
            stacklevel=2,
        )
        with suppress(RuntimeError):  # outside of Study.optimize
            study.stop()
        return {}

    def _running(self, study: Study, trial: FrozenTrial, space: Space) -> list[dict[str, Any]]:
        """Return the points of a study's running trials other than this one."""
        points = [
            other.params
            if _has_point(other, space)
            else self._proposed.get((study.study_name, other.number), {})
            for other in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
            if other.number != trial.number
        ]
        return [point for point in points if point and point.keys() >= space.used(point).keys()]

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return what was proposed for a parameter of a first point, or a random value."""
        check_exact(param_name, param_distribution)
        with suppress(ValueError, KeyError):  # of a choice that there isn't, or no such parameter
            value = param_distribution.to_internal_repr(self._first(study, trial)[param_name])
            if param_distribution._contains(value):
                return param_distribution.to_external_repr(value)
        place = [self.seed, study.user_attrs[TASK], trial.number, crc32(param_name.encode())]
        (seed,) = np.random.SeedSequence(place).generate_state(1).tolist()
        return RandomSampler(seed).sample_independent(study, trial, param_name, param_distribution)

    def _first(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        """Return the point proposed for a trial before any is complete; otherwise nothing."""
        key = study.study_name, trial.number
        if key not in self._proposed and not study.get_trials(deepcopy=False, states=COMPLETED):
            space = self._search_space(self._earlier(study)).distributions
            self._proposed[key] = self.sample_relative(study, trial, space)
        return self._proposed.get(key, {})

    # --- Tasks ------------------------------------------------------------------------------------

    def _earlier(self, study: Study) -> list[Study]:
        """Return the studies before a study, in their order."""
        number = study.user_attrs[TASK]
        return [self._studies[key] for key in sorted(self._studies) if key[0] < number]

    def _search_space(self, studies: Sequence[Study]) -> Space:
        """Return the space of the last study that has a completed trial; it may be empty."""
        return learned_space([s.get_trials(deepcopy=False, states=COMPLETED) for s in studies])

    def _task(self, study: Study, space: Space) -> Task:
        """Return the finished trials of a study; the same object as long as these are the same."""
        trials = [
            trial
            for trial in study.get_trials(deepcopy=False, states=FINISHED)
            if _has_point(trial, space)
        ]
        key = study.user_attrs[TASK], study.study_name
        content = space.distributions, space.conditions, [trial.number for trial in trials]
        stored, task = self._tasks.get(key, (None, None))
        if task is None or stored != content:
            values = self._sign(study) * np.array([_value(trial) for trial in trials], dtype=float)
            task = Task(space.encode([trial.params for trial in trials]), values)
            self._tasks[key] = content, task
        return task

    def _sign(self, study: Study) -> float:
        """Return -1 if a study is maximised, by which its values are multiplied."""
        return -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0

    def _rng(self, study: Study, number: int) -> np.random.Generator:
        """Return the generator for a trial of a study."""
        return np.random.default_rng([self.seed, study.user_attrs[TASK], number])

    @one_blas_thread()  # matrices are small
    def _model(self, tasks: Sequence[Task], rng: np.random.Generator) -> Model | None:
        """Return a model of the last task; None if its values are equal, or none is wanted."""
        return self.fit(tasks, rng) if tasks[-1].varies else None

    @one_blas_thread()  # matrices are small
    def propose(
        self,
        tasks: Sequence[Task],
        space: Space,
        running: np.ndarray,
        rng: np.random.Generator,
        *,
        repeat: bool = False,
    ) -> np.ndarray | None:
        """Return the point of the last task to evaluate next.

        Parameters
        ----------
        tasks : sequence of Task
        space : Space
        running : ndarray, shape (m, D)
            Encoded points whose values aren't known yet.
        rng : numpy.random.Generator
        repeat : bool
            Whether points are tried again once all were.

        Returns
        -------
        ndarray, shape (D,), or None
            None if all points of the space were tried.
        """
        tasks = _informative(tasks)
        seen = np.concatenate([tasks[-1].rows, running])
        excluded = seen
        if repeat and len({row.tobytes() for row in seen}) >= space.count:
            excluded = seen[:0]
        if len(seen) < self.n_startup_trials:
            leader = self._next_leader(tasks, excluded) if self.warm_start else None
            if leader is not None:
                return leader
            if not (self.warm_start and self.prior_mean and len(tasks) > 1):
                return new_point(space, excluded, rng)
        model = self._model(tasks, rng)
        if model is None:  # nothing is better than chance
            return new_point(space, excluded, rng)
        for row in running:
            expected, _ = model.predict(row[None])
            model = model.observe(row, float(expected[0]))
        best = maximise(model, space, seen, excluded, rng)
        return new_point(space, excluded, rng) if best is None else best


class LifelongSampler(StudySampler):
    """Sampler for Optuna that learns from earlier studies.

    Points are chosen by expected improvement under a model of the function. See
    :class:`StudySampler` for what a study's trials are taken for.

    Parameters
    ----------
    storage, seed, n_startup_trials, warm_start
        See :class:`StudySampler`.
    model : {"residual", "lbo"}
        The model of a study's function: what earlier ones had in common plus a residual, both
        Gaussian processes (:class:`kem_pymc.lifelong.residual.ResidualGP`), unless its values are
        far from all that came before; or lifelong Bayesian optimisation (LBO, Zhang et al. 2019), a
        sum of networks that studies share as far as it helps.
    alpha : float
        Expected number of networks that a task uses, for "lbo".
    max_networks : int
        Largest number of networks, for "lbo".

    Raises
    ------
    InputError
        If an option is out of range, or the model is unknown.

    Examples
    --------
    >>> sampler = LifelongSampler("sqlite:///studies.db", seed=1)
    >>> for year in ("2023", "2024"):
    ...     study = optuna.create_study(
    ...         storage="sqlite:///studies.db", study_name=year, sampler=sampler
    ...     )
    ...     study.optimize(objectives[year], n_trials=50)
    """

    def __init__(
        self,
        storage: Any = None,
        *,
        model: Literal["residual", "lbo"] = "residual",
        alpha: float = 2.0,
        max_networks: int = 10,
        **options: Any,
    ) -> None:
        super().__init__(storage, **options)
        check_whole(max_networks=max_networks)
        if not (isinstance(alpha, int | float) and 0 < alpha < np.inf):
            raise InputError(f"alpha is {alpha!r}. Give a positive number.")
        if model not in ("residual", "lbo"):
            raise InputError(f'model is {model!r}. Give "residual" or "lbo".')
        self.model: ResidualGP | LBO
        if model == "residual":
            self.model = ResidualGP(seed=self.seed)
        else:
            self.model = LBO(alpha=float(alpha), max_networks=max_networks, seed=self.seed)

    @property
    def prior_mean(self) -> bool:
        """Whether the model has a learned prior mean; see :class:`StudySampler`."""
        return isinstance(self.model, ResidualGP)

    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> Model:
        """Learn from the tasks; see :class:`StudySampler`."""
        return self.model.fit(tasks, rng)

    def normalised(self, tasks: Sequence[Task]) -> np.ndarray:
        """Return normalised values; see :class:`StudySampler`."""
        return self.model.y(tasks) if isinstance(self.model, ResidualGP) else tasks[-1].y

    def networks(self) -> xr.Dataset:
        """Return which networks every study used, after its last trial, with LBO.

        Returns
        -------
        xarray.Dataset
            A row for each study whose values differ: their number (`n_values`), the evidence lower
            bound (`elbo`), and the coefficient of the regulariser (`strength`). For each network
            the `probability` that the study uses it (the likeliest one is used in any case), its
            `weight`, the standard deviation of its output at the study's points, where that of the
            function is one, and the `correlation` of its output with the values (eq. 10).

        Raises
        ------
        InputError
            If the model has no networks, or there is nothing to learn from yet.
        """
        if isinstance(self.model, ResidualGP):
            raise InputError('There are no networks. Use model="lbo".')
        self._find_studies()
        studies = [self._studies[key] for key in sorted(self._studies)]
        space = self._search_space(studies)
        used = studies if space.distributions else []
        tasks = {study.study_name: self._task(study, space) for study in used}
        tasks = {name: task for name, task in tasks.items() if task.varies}
        if not tasks:
            raise InputError("No study has values that differ. Optimise one first.")
        rows = self.model.networks(list(tasks.values()))
        return xr.Dataset(
            {name: (("task", "network")[: values.ndim], values) for name, values in rows.items()},
            coords={"task": list(tasks)},
            attrs={
                "inference_library": "kem_pymc",
                "inference_library_version": version("kem-pymc"),
                "seed": self.seed,
            },
        )


def new_point(space: Space, seen: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """Return a random point (D,) that isn't among those seen (m, D); None if there is none."""
    evaluated = {row.tobytes() for row in seen}
    for row in space.draw(DRAWS, rng):
        if row.tobytes() not in evaluated:
            return row
    # Some points may be rare, as large numbers with a logarithm are, or nearly all are known.
    every = space.every(max(POINTS, SHARE * len(seen)))
    rows = space.draw(POINTS, rng) if every is None else rng.permutation(every)
    return next((row for row in rows if row.tobytes() not in evaluated), None)


@checked
def unfinished(study: Study) -> list[Trial]:
    """Return the trials of a study that were asked for and have no value.

    After a process was killed, evaluate these first, and tell their values: the study goes on as it
    would have done. Other processes that are at work have unfinished trials, too.

    Parameters
    ----------
    study : optuna.Study

    Examples
    --------
    >>> for trial in unfinished(study):
    ...     study.tell(trial, objective(trial))
    """
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    return [Trial(study, trial._trial_id) for trial in running]


def _informative(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks without the earlier ones whose values are equal."""
    return [*(task for task in tasks[:-1] if task.varies), tasks[-1]]


def _has_point(trial: FrozenTrial, space: Space) -> bool:
    """Return whether a trial has all parameters of a space, with the same distributions."""
    return all(
        trial.distributions.get(name) == distribution
        and distribution._contains(distribution.to_internal_repr(trial.params[name]))
        for name, distribution in space.used(trial.params).items()
    )


def _value(trial: FrozenTrial) -> float:
    """Return the value of a trial; NaN if it failed, was pruned, or has an infinite value."""
    if trial.state != TrialState.COMPLETE or trial.value is None or not np.isfinite(trial.value):
        return np.nan
    return trial.value
