"""Search by lifelong Bayesian optimisation, whose earlier tasks are the pilot users' data."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

import numpy as np
from optuna.distributions import IntDistribution

from kem_pymc._system.options import check_whole
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import LONE_SPREAD, KernelSummary
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.lifelong.sampler import LifelongSampler
from kem_pymc.lifelong.space import Space
from kem_pymc.lifelong.tasks import Task
from kem_pymc.selection.scored_kernel import ScoredKernel
from kem_pymc.selection.scorer import Proposal, Scorer, ranked
from kem_pymc.selection.selector import PoolSelector, Previous, ScaledPoints, as_composition

if TYPE_CHECKING:
    from kem_pymc.priors import Priors

#: Number of starting points of a fit: the origin of the coordinates, and random ones around it.
STARTS = 6

#: Log noise variance of these.
LOG_NOISE = -1.5


class LifelongSelector(PoolSelector):
    """Selector that searches for a composition by lifelong Bayesian optimisation.

    A point of the space is whether each candidate is in the composition; its value is the log
    evidence per point, by Laplace's method under the study's priors. Every data set is a task: what
    was learned from the pilot users' data sets, see :meth:`learn`, is where a selection begins. The
    composition of the previous time step is evaluated first.

    Parameters
    ----------
    pool : CandidatePool
    priors : Priors
        Priors of hyperparameters and noise; that of the noise is the one without a parent.
    scaling : Scaling, optional
        Scaling applied to the user's data; by default data aren't scaled.
    budget : int
        Number of compositions that are evaluated for each data set.
    runs : int
        As for :class:`KEMSelector`.
    seed : int
        The same pilot users, data, previous selection and seed give the same selection.

    Raises
    ------
    InputError
        If an option is unknown or out of range, or priors depend on population parameters.
    """

    def __init__(
        self,
        pool: CandidatePool,
        priors: "Priors",
        *,
        scaling: Scaling | None = None,
        budget: int = 15,
        runs: int = 3,
        seed: int = 0,
    ) -> None:
        check_whole(2, budget=budget)
        self.pool, self.budget, self.seed = pool, budget, seed
        self.priors = priors.without_parent()
        self.scaling = Scaling.identity(pool.dimension) if scaling is None else scaling
        self.space = Space({str(candidate): IntDistribution(0, 1) for candidate in pool.candidates})
        self.sampler = LifelongSampler(
            model="lbo", seed=seed, n_startup_trials=min(3, budget - 1), warm_start=False
        )
        #: What is known about the pilot users' data sets.
        self.tasks: list[Task] = []
        self._scorer = Scorer(pool, "map", "laplace", runs, priors.noise_floor, self.priors)

    @classmethod
    def learn(cls, pilot: Cohort, pool: CandidatePool, priors: "Priors", **options: Any) -> Self:
        """Return a selector that has learned from all data of every pilot user.

        Parameters
        ----------
        pilot : Cohort
            Pilot users, in their own units.
        pool, priors
            See the class.
        **options
            Of the class. By default the scaling is learned from the pilot users.

        Returns
        -------
        LifelongSelector

        Raises
        ------
        InputError
            If the pool is of another dimension, or an option is invalid.
        """
        if pilot.dimension != pool.dimension:
            raise InputError(
                f"Pilot users have {pilot.dimension} features, and the pool {pool.dimension}. "
                "Make the pool with the dimension of the data."
            )
        selector = cls(pool, priors, **({"scaling": Scaling.unit(pilot)} | options))
        for x, y in zip(pilot.inputs, pilot.targets, strict=True):
            points = ScaledPoints(selector.scaling.inputs(x), selector.scaling.targets(y))
            selector.tasks.append(selector._search(points, None)[0])
        return selector

    def __repr__(self) -> str:
        return f"LifelongSelector(budget={self.budget})"

    def _consider(self, points: ScaledPoints, previous: Previous) -> Sequence[ScoredKernel]:
        return ranked([self._search(points, previous)[1]])

    def _search(self, points: ScaledPoints, previous: Previous) -> tuple[Task, list[ScoredKernel]]:
        """Return the evaluations of a data set, and its compositions."""
        included = self.pool.inclusion(as_composition(previous, self.pool.dimension))
        x, y = points.x, points.y
        rng = np.random.default_rng([self.seed, crc32(x.tobytes()), crc32(y.tobytes())])
        task, none = Task(np.empty((0, len(included))), np.empty(0)), np.empty((0, len(included)))
        rows: list[ScoredKernel] = []
        row = np.array(included, dtype=float)
        while len(rows) < min(self.budget, 2 ** len(included)):
            if rows:
                proposed = self.sampler.propose([*self.tasks, task], self.space, none, rng)
                assert proposed is not None  # there are points that weren't tried
                row = proposed
            proposal = self._proposal(self.pool.composition(row > 0.5), rng)
            rows += self._scorer.consider([proposal], Composition(), previous, points)
            values = np.append(task.values, -rows[-1].score / len(y))
            task = Task(np.vstack([task.rows, row]), values)
        return task, rows

    def _proposal(self, composition: Composition, rng: np.random.Generator) -> Proposal:
        """Return a composition with starting points of its fit."""
        size = len(Coordinates(self.pool, composition))
        starts = np.vstack([np.zeros(size), rng.normal(size=(STARTS - 1, size))])
        starts[:, -1] += LOG_NOISE
        summary = KernelSummary(starts[0], np.full(size, LONE_SPREAD), starts[1:])
        return Proposal(composition, "searched", 1.0, summary)
