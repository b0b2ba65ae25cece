"""Tasks of a comparison: one study, one trial, and the methods that share a training."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kem_pymc.comparison.costs import Metered
from kem_pymc.comparison.methods import UNSHARED, Method, Sampling, Training, cached
from kem_pymc.comparison.stored import code, digest
from kem_pymc.comparison.study import Study
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.cluster_model import scaling_for, to_explain
from kem_pymc.population.model import robust
from kem_pymc.population.shared_part import learn_shared
from kem_pymc.priors import Priors, Unexplained
from kem_pymc.selection.online import points_of, select_online_for_user
from kem_pymc.selection.scores import points_to_predict, predictive_scores, row_of
from kem_pymc.selection.selector import Selector


@dataclass(frozen=True)
class Scale:
    """How much is run: posterior draws by training, and at most how many trials and test users."""

    sampling: dict[str, Sampling]
    trials: int | None = None
    test_users: int | None = None


FULL = Scale({"cut": Sampling(2, 150, 100)})
QUICK = Scale({"cut": Sampling(2, 40, 40)}, trials=2, test_users=6)


@dataclass(frozen=True)
class ComparisonTask:
    """A unit of work for one worker, independent of all other tasks.

    Attributes
    ----------
    study : Study
    trial : int
        Number of the trial, from 0.
    methods : dict of str to Method
        Methods that share a training, by name.
    scale : Scale
    seed : int
        Seed of the whole comparison. The users depend only on it, the study and the trial, so all
        methods have the same users.
    """

    study: Study
    trial: int
    methods: dict[str, Method]
    scale: Scale = FULL
    seed: int = 0

    @property
    def method(self) -> Method:
        """The first method, whose training is that of all."""
        return next(iter(self.methods.values()))

    @property
    def title(self) -> str:
        """What is run, for people who wait for it."""
        return f"{self.study.title}, trial {self.trial + 1}: {', '.join(self.methods)}"

    def key(self) -> dict[str, Any]:
        """Return, as plain data, what the training depends on, except data files."""
        draws = {kind: vars(sampling) for kind, sampling in self.scale.sampling.items()}
        settings = {"trial": self.trial, "seed": self.seed, "draws": draws, "code": code()}
        return self.study.key() | self.method.training_key() | settings

    def file(self, out: Path) -> Path:
        """Return the file of the selections in the folder of the comparison."""
        methods = {name: [method.options, method.single] for name, method in self.methods.items()}
        key = [self.key(), methods, self.study.target, self.scale.test_users]
        name = f"{self.method.training}-{digest(key)}.csv"
        return out / "runs" / self.study.name / f"trial-{self.trial:02d}" / name

    def run(self) -> pd.DataFrame:
        """Learn from the pilot users, then select kernels for the test users at every time step.

        Returns
        -------
        DataFrame
            One row for every method, test user and time step: `study`, `trial`, `method`, what
            :func:`scored` returns, and of the training `learning` (seconds) and `r_hat` (the
            largest of all scalars, NaN without any).
        """
        study, method = self.study, self.method
        pilot, test = study.deal(self.trial, self.seed)
        pilot = robust(pilot)
        test = test.subset(test.users[: self.scale.test_users])
        names = [name for name in study.candidates(pilot) if name not in method.without]
        pool = CandidatePool(names, pilot.dimension)
        scaling = scaling_for(pilot, method.priors(study.priors, pool, Unexplained(), pilot.family))
        # Unit of scores, the same whatever the transform.
        unit = scaling.target_sd if scaling.family is None else scaling.target_unit
        if study.transform is not None:
            scaling = Scaling.unit(pilot, study.transform)
        shared, data = None, scaling.apply(pilot)
        if method.shared:
            shared = cached(data.digest(), lambda: learn_shared(data, progress=False))
        plain, priors = (
            method.priors(study.priors, pool, to_explain(data, part), pilot.family)
            for part in (None, shared)
        )
        training = Training(pilot, pool, priors, scaling, shared, self.scale.sampling, self.seed)
        self.learn(training, plain)
        rows = [
            {"study": study.name, "trial": self.trial, "method": name} | row
            for name, variant in self.methods.items()
            for row in scored(variant.selector(training), test, study.target, unit, variant.single)
        ]
        r_hat = max(training.r_hats, default=np.nan)
        return pd.DataFrame(rows).assign(learning=training.seconds, r_hat=r_hat)

    def learn(self, training: Training, plain: Priors) -> None:
        """Learn evolutions, with and without a part that users share.

        Parameters
        ----------
        training : Training
            Where evolutions are added.
        plain : Priors
            Priors for users who share nothing.
        """
        began, purpose = time.perf_counter(), self.method.training
        self.method.learn(training, self.study.generator(self.trial, self.seed, purpose))
        if training.shared is not None and not training.shared.nothing:
            rng = self.study.generator(self.trial, self.seed, UNSHARED)
            training.learn_unshared(plain, rng)
        training.seconds = time.perf_counter() - began


def tasks_of(
    study: Study, methods: dict[str, Method], trials: int, scale: Scale = FULL, seed: int = 0
) -> list[ComparisonTask]:
    """Return the tasks of a comparison on a study, one for each trial and training."""
    trainings: dict[str, dict[str, Method]] = {}
    for name, method in methods.items():
        trainings.setdefault(repr(method.training_key()), {})[name] = method
    number = min(trials, scale.trials or trials)
    return [
        ComparisonTask(study, trial, group, scale, seed)
        for trial in range(number)
        for group in trainings.values()
    ]


def r_hats(selections: pd.DataFrame) -> list[float]:
    """Return the largest R-hat of the scalars in each training; those without one are left out."""
    return list(selections.groupby(["study", "trial", "learning"])["r_hat"].max().dropna())


def scored(
    selector: Selector, cohort: Cohort, target: str, unit: float | None = None, single: bool = False
) -> list[dict[str, Any]]:
    """Select kernels for every user of a cohort at every time step, and score the selections.

    Parameters
    ----------
    selector : Selector
    cohort : Cohort
        Test users.
    target : {"truth", "next"}
        Data against which predictions are scored, see
        :func:`~kem_pymc.selection.scores.points_to_predict`.
    unit : float, optional
        Unit of scores, see :func:`~kem_pymc.selection.scores.predictive_scores`.
    single : bool
        Whether predictions use only the selected kernel, with its fitted values.

    Returns
    -------
    list of dict
        One row for every user and time step. Selections without data to score them have no scores.
        ``cpu`` is the CPU time of the selection in seconds, ``kilobytes`` the size of the user's
        state after the last time step (:class:`kem_pymc.comparison.costs.Metered`).
    """
    rows = []
    # A first selection is made so that compilation isn't part of the time that a selection takes.
    first = cohort.ends[0][0]
    selector.select(cohort.inputs[0][:first], cohort.targets[0][:first], **cohort.given(0, first))
    truth = getattr(cohort.truth, "compositions", None)
    for u, user in enumerate(cohort.users):
        previous, metered = None, Metered(selector)
        selections = select_online_for_user(metered, points_of(cohort, u))
        for step, selection in enumerate(selections):
            row = {"user": user, "time_step": step} | row_of(selection, previous)
            row["cpu"] = metered.seconds[step]
            if step == len(selections) - 1:
                row["kilobytes"] = metered.kilobytes(selection)
            row["truth"] = truth[u] if truth else ""
            against = points_to_predict(cohort, u, step, target)
            if against is not None:
                x, y, given = against
                row |= predictive_scores(selection, x, y, single=single, unit=unit, **given)
            rows.append(row)
            previous = selection
    return rows
