"""The ARD baseline: one fixed kernel, refitted at every time step (paper, section 6.1)."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from kem_pymc._system.options import check_whole, checked
from kem_pymc.data.categories import number_features, smooth_function
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import LONE_SPREAD, Cluster, KernelSummary, summarise
from kem_pymc.gp.coordinates import NOISE_FLOOR
from kem_pymc.gp.fit import fit
from kem_pymc.gp.posterior import PopulationFunction
from kem_pymc.kernels.composition import Candidate, Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.population.shared_part import SharedPart
from kem_pymc.selection.scored_kernel import ScoredKernel
from kem_pymc.selection.scorer import Proposal, Scorer
from kem_pymc.selection.selector import PoolSelector, Previous, ScaledPoints

if TYPE_CHECKING:
    from kem_pymc.priors import Priors

#: Starting lengthscales, as fractions of each feature's range in the user's data.
LENGTHSCALES = (0.1, 0.3, 1.0)

#: Starting noise variances, as fractions of the targets' mean square.
NOISES = (0.5, 0.05)


@checked
class ARDSelector(PoolSelector):
    """Selector that always uses the product of SE over all dimensions, and only refits its values.

    Parameters
    ----------
    dimension : int
        Number of features D. If it is 1, the kernel is SE0.
    fit : {"ml", "map", "pilot"}
        How hyperparameters are fitted: by maximum likelihood; with the study's priors; or with
        independent normal priors on the coordinates, which have the centre and spread of fits under
        the study's priors to each pilot user's complete data.
    scaling : Scaling, optional
        Scaling applied to the user's data; by default data aren't scaled. It should be learned from
        the pilot users, as for KEM.
    priors : Priors, optional
        Priors for ``fit="map"`` and ``"pilot"``, of which the noise prior is the one without a
        parent. For every `fit` their `noise_floor` is the smallest noise variance of a fit,
        which is 0.01 without priors.
    pilot : Cohort, optional
        Pilot users for ``fit="pilot"``, in their own units. The kernel then leaves out their
        categorical features.
    shared : SharedPart, optional
        Mean function that pilot users share, in scaled units. The kernel then describes each user's
        deviation from it.
    runs : int
        Number of starting points, out of 6 or more, from which the objective is maximised: those
        with the largest objective. The values of the previous selection, if any, are one of them.

    Raises
    ------
    InputError
        If the fit is unknown, the priors or pilot users that it needs are missing, its priors
        depend on population parameters, or `dimension` or `runs` is below 1.
    """

    def __init__(
        self,
        dimension: int,
        fit: Literal["ml", "map", "pilot"] = "ml",
        *,
        scaling: Scaling | None = None,
        priors: "Priors | None" = None,
        pilot: Cohort | None = None,
        shared: SharedPart | None = None,
        runs: int = 7,
    ) -> None:
        check_whole(dimension=dimension)
        if fit == "pilot" and (pilot is None or priors is None):
            raise InputError(
                "{fit} needs pilot users and priors. Pass them as pilot= and priors=.", fit=fit
            )
        numbers = range(dimension) if pilot is None else number_features(pilot)
        self.pool = CandidatePool(smooth_function(numbers) or [Candidate()], dimension)
        self.composition = Composition(self.pool.candidates)
        self.fit = fit
        self.scaling = Scaling.identity(dimension) if scaling is None else scaling
        self.shared = None if shared is None or shared.nothing else shared.process
        self.noise_floor = NOISE_FLOOR if priors is None else priors.noise_floor
        priors = None if fit == "ml" or priors is None else priors.without_parent()
        criterion = "bic" if fit == "ml" else "laplace"
        self._scorer = Scorer(self.pool, fit, criterion, runs, self.noise_floor, priors)
        self._summary: KernelSummary | None = None
        if fit == "pilot" and pilot is not None:
            of_study = Scorer(self.pool, "map", criterion, runs, self.noise_floor, priors)
            functions: Sequence[PopulationFunction | None] = [None] * pilot.n_users
            if shared is not None and self.shared is not None:
                functions = shared.functions(pilot)
            clusters = [
                Cluster(
                    0,
                    Composition(),
                    self.composition,
                    1,
                    self._fitted(of_study, pilot, u, function),
                )
                for u, function in enumerate(functions)
            ]
            self._summary = summarise(clusters, self.noise_floor)

    def __repr__(self) -> str:
        return f"ARDSelector({self.pool.dimension}, fit={self.fit!r})"

    def _fitted(
        self, scorer: Scorer, pilot: Cohort, user: int, function: PopulationFunction | None
    ) -> tuple[float, ...]:
        """Return the coordinates of a fit to the complete data of one pilot user."""
        data = pilot.inputs[user], pilot.targets[user]
        points = ScaledPoints.of(self.scaling, *data, function, **pilot.given(user))
        problem = scorer.problem(self._proposal(points), Composition(), None, points)
        return tuple(fit(problem.objective, problem.starts, scorer.runs).values.tolist())

    def _consider(self, points: ScaledPoints, previous: Previous) -> Sequence[ScoredKernel]:
        return self._scorer.consider([self._proposal(points)], Composition(), previous, points)

    def _proposal(self, points: ScaledPoints) -> Proposal:
        """Return the kernel with starts at the scale of the data, and at pilot users' values."""
        mean = 0.0 if points.known is None else points.known.mean
        used = points.x[:, sorted(self.composition.dimensions)]
        starts = _starts(used, points.y - mean, self.noise_floor)
        summary = KernelSummary(starts[0], np.full(len(starts[0]), LONE_SPREAD), starts)
        if self._summary is not None:
            summary = replace(self._summary, starts=np.vstack([starts, self._summary.starts]))
        return Proposal(self.composition, "fixed", 1.0, summary)


def _starts(x: np.ndarray, y: np.ndarray, noise_floor: float) -> np.ndarray:
    """Return starting points (s, k + 1) that match the scale of the data.

    Their coordinates are the log amplitude, the log lengthscales and the log noise variance.
    """
    ranges = np.ptp(x, axis=0)
    ranges[ranges == 0] = 1.0
    square = max(float(np.mean(y**2)), noise_floor)
    return np.log(
        [
            [(1 - noise) * square, *(lengthscale * ranges), noise * square]
            for lengthscale, noise in itertools.product(LENGTHSCALES, NOISES)
        ]
    )
