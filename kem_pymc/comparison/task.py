"""Tasks of an experiment: one study, one trial, and the methods that share a training."""

from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd

from kem_pymc.comparison.data import Folder, Users, held_out, load, split
from kem_pymc.comparison.settings import (
    DEFAULT_POOL,
    Learns,
    Method,
    Sampling,
    Shares,
    Study,
    Supposes,
)
from kem_pymc.comparison.training import (
    FEW,
    Training,
    options_of,
    priors_of,
    scaling_of,
    shared_by,
    supposed,
)
from kem_pymc.data.cohort import Cohort
from kem_pymc.datasets import pools
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.cluster_model import scaling_for
from kem_pymc.selection.online import select_online_for_user
from kem_pymc.selection.scores import judged_by, predictive_scores, row_of
from kem_pymc.selection.selector import Selector

#: Entries of a study that a training doesn't depend on; for priors the table is used instead.
UNSEEN = {"title", "judged", "trials", "priors", "users"}


@dataclass(frozen=True)
class Task:
    """A unit of work for one worker, independent of all other tasks.

    Attributes
    ----------
    name : str
        Name of the study.
    study : Study
    trial : int
        Number of the trial, from 0.
    learns : str
        What is learned from pilot users, see :data:`kem_pymc.comparison.settings.Learns`.
    methods : dict of str to Method
        Methods that use this training, by name.
    sampling : dict
        Numbers of chains and draws, by kind of posterior.
    seed : int
        Seed of the whole experiment. The users depend only on it, the study and the trial, so all
        methods have the same users.
    test_users, steps : int, optional
        Largest number of test users, and of steps of a Memoryless search.
    known : dict of str to Evolutions
        Evolutions that were learned earlier; if empty, they are learned.
    cohort : Cohort, optional
        Users who are split at random into pilot and test users; by default the study's loader
        returns both.
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.datasets.data_home`.
    folds : int, optional
        Number of folds in which pilot users are held out in turn: trials 0 to folds - 1 share the
        pilot users of one draw, the next `folds` trials those of the next draw, and so on.
    supposes : str
        Priors under which the methods learn, see :data:`kem_pymc.comparison.settings.Supposes`.
    shared : {"auto", "none"}
        Whether a mean process that users share is learned in addition.
    """

    name: str
    study: Study
    trial: int
    learns: Learns
    methods: dict[str, Method]
    sampling: dict[str, Sampling]
    seed: int = 0
    test_users: int | None = None
    steps: int = 10_000
    known: dict[str, Evolutions] = field(default_factory=dict)
    cohort: Cohort | None = None
    data_home: Folder = None
    folds: int | None = None
    supposes: Supposes = "study"
    shared: Shares = "none"

    def users(self) -> Users:
        """Return the pilot users and the test users of this trial."""
        if self.folds is None:
            return self._users_of(self.trial)
        drawn, part = divmod(self.trial, self.folds)
        pilot = self._users_of(drawn).pilot
        return held_out(pilot, part, self.folds, self._generator("folds", drawn))

    def _users_of(self, trial: int) -> Users:
        rng = self._generator("users", trial)
        if self.cohort is None:
            return load(self.study, rng, self.data_home)
        return split(self.cohort, rng)

    def candidates(self) -> list[str]:
        """Return the names of the candidates, without "CONST" for the priors "no-level"."""
        pool = self.study.pool
        if pool == DEFAULT_POOL:
            names = pools.default_pool(self.users().pilot).names
        else:
            names = list(pools.candidates(pool) if isinstance(pool, str) else pool)
        return [name for name in names if self.supposes != "no-level" or name != "CONST"]

    @property
    def judged(self) -> str:
        """Data against which predictions are scored: always "next" for held-out pilot users."""
        return self.study.judged if self.folds is None else "next"

    def generator(self, purpose: str) -> np.random.Generator:
        """Return a random number generator for a purpose, seeded by experiment, study and trial."""
        return self._generator(purpose, self.trial)

    def _generator(self, purpose: str, trial: int) -> np.random.Generator:
        return np.random.default_rng(
            [self.seed, crc32(self.name.encode()), trial, crc32(purpose.encode())]
        )

    def training(self) -> dict[str, Any]:
        """Return, as plain data, what a training depends on, except code and data files."""
        draws = "joint" if self.learns == "joint" else "cut"
        # Any pool will do here: the candidates have their own entry below.
        priors = priors_of(self.study.priors, CandidatePool(["SE0"]))
        if self.learns not in ("cut", "joint"):
            priors = priors.without_parent()  # the only noise prior that the others use
        changed = {} if self.supposes == "study" else {"supposes": self.supposes, "few": FEW}
        return changed | {
            "candidates": self.candidates(),
            "prior_table": priors.to_dict(),
            "data_home": None if self.data_home is None else str(self.data_home),
            "study": self.study.model_dump(exclude=UNSEEN),
            "trial": self.trial,
            "learns": self.learns,
            "shared": self.shared,
            "sampling": self.sampling[draws].model_dump(),
            "seed": self.seed,
            "folds": self.folds,
            "cohort": None if self.cohort is None else self.cohort.digest(),
        }

    def exercise(self, method: str) -> dict[str, Any]:
        """Return, as plain data, what selections of a method depend on besides the training."""
        return {
            "options": options_of(self.methods[method]),
            "single": self.methods[method].single,
            "judged": self.judged,
            "test_users": self.test_users,
            "steps": self.steps,
        }


@dataclass(frozen=True)
class Outcome:
    """Results of a task.

    Attributes
    ----------
    selections : DataFrame
        Selections and their scores, one row for every method, test user and time step.
    evolutions : dict of str to Evolutions
        Learned evolutions by name, including those known before.
    seconds : float
        Time that learning took; zero if everything was known.
    r_hat : dict of str to dict
        R-hat of scalars, see :class:`kem_pymc.comparison.training.Training`.
    """

    selections: pd.DataFrame
    evolutions: dict[str, Evolutions]
    seconds: float
    r_hat: dict[str, dict[str, float | None]]


def run(task: Task) -> Outcome:
    """Learn from the pilot users, then select kernels for the test users at every time step."""
    users = task.users()
    test = users.test
    if task.test_users is not None:
        test = test.subset(test.users[: task.test_users])
    pool = CandidatePool(task.candidates(), users.pilot.dimension)
    plain = priors = supposed(task.study.priors, task.supposes, pool)
    scaling = scaling_of(users.pilot, plain, task.study.transform)
    shared = None
    if task.shared == "auto":
        shared = shared_by(scaling.apply(users.pilot), plain.noise_floor)
    if shared is not None:
        priors = supposed(task.study.priors, task.supposes, pool, shared.unexplained)
    training = Training(
        users.pilot,
        pool,
        priors,
        scaling,
        seed=task.seed,
        steps=task.steps,
        evolutions=task.known,
        shared=shared,
    )
    if not task.known:
        training.learn(task.learns, task.sampling, task.generator(task.learns))
        if training.departs:
            sampling = task.sampling["cut"]
            training.learn_unshared(plain, sampling, task.generator("unshared"))
    unit = scaling_for(users.pilot, plain).target_sd  # the same whatever the transform
    rows = [
        {"study": task.name, "trial": task.trial, "method": name} | row
        for name, method in task.methods.items()
        for row in judged(training.selector(method), test, task.judged, unit, method.single)
    ]
    return Outcome(pd.DataFrame(rows), training.evolutions, training.seconds, training.r_hat)


def judged(
    selector: Selector, cohort: Cohort, by: str, unit: float | None = None, single: bool = False
) -> list[dict[str, Any]]:
    """Select kernels for every user of a cohort at every time step, and score the selections.

    Parameters
    ----------
    selector : Selector
    cohort : Cohort
        Test users.
    by : {"truth", "next"}
        Data against which predictions are scored, see
        :func:`~kem_pymc.selection.scores.judged_by`.
    unit : float, optional
        Unit of scores, see :func:`~kem_pymc.selection.scores.predictive_scores`.
    single : bool
        Whether predictions use only the selected kernel, with its fitted values.

    Returns
    -------
    list of dict
        One row for every user and time step. Selections without data to score them have no scores.
    """
    rows = []
    # A first selection is made so that compilation isn't part of the time that a selection takes.
    first = cohort.ends[0][0]
    selector.select(cohort.inputs[0][:first], cohort.targets[0][:first])
    truth = getattr(cohort.truth, "compositions", None)
    for u, user in enumerate(cohort.users):
        points = cohort.inputs[u], cohort.targets[u], cohort.ends[u]
        previous = None
        for step, selection in enumerate(select_online_for_user(selector, points)):
            row = {"user": user, "time_step": step} | row_of(selection, previous)
            row["truth"] = truth[u] if truth else ""
            against = judged_by(cohort, u, step, by)
            if against is not None:
                row |= predictive_scores(selection, *against, single=single, unit=unit)
            rows.append(row)
            previous = selection
    return rows
