"""The ARD baseline: one fixed kernel, refitted at every time step (paper, section 6.1)."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from kem_pymc.data.categories import number_features, smooth_function
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import Cluster, KernelSummary, summarise
from kem_pymc.gp.coordinates import NOISE_FLOOR, Coordinates
from kem_pymc.gp.evidence import laplace
from kem_pymc.gp.fit import Fit, bic, fit
from kem_pymc.gp.mean_process import MeanAtPoints
from kem_pymc.gp.objective import Objective
from kem_pymc.gp.posterior import MeanFunction
from kem_pymc.gp.problem import Prior, normal_prior
from kem_pymc.kernels.composition import Candidate, Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.priors.compiled_table import check_noise_floor
from kem_pymc.selection.priors import CompilesPriors, study_prior
from kem_pymc.selection.scored_kernel import ScoredKernel, draws_around
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import PoolSelector, Previous
from kem_pymc.shared.choice import SharedPart

if TYPE_CHECKING:
    from kem_pymc.priors import Priors

#: Starting lengthscales, as fractions of each feature's range in the user's data.
LENGTHSCALES = (0.1, 0.3, 1.0)

#: Starting noise variances, as fractions of the targets' mean square.
NOISES = (0.5, 0.05)


class ARDSelector(CompilesPriors, PoolSelector):
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
        parent. For every `fit` they provide the default of `noise_floor`.
    pilot : Cohort, optional
        Pilot users for ``fit="pilot"``, in their own units. The kernel then leaves out their
        categorical features.
    shared : SharedPart, optional
        Mean function that pilot users share, in scaled units. The kernel then describes each user's
        deviation from it.
    runs : int
        Number of starting points, out of 6 or more, from which the objective is maximised: those
        with the largest objective. The values of the previous selection, if any, are one of them.
    noise_floor : float, optional
        Smallest noise variance of a fit, in scaled units; by default that of `priors`, or 0.01
        without priors.

    Raises
    ------
    InputError
        If the fit is unknown, the priors or pilot users that it needs are missing, its priors
        depend on population parameters, `dimension` or `runs` is below 1, or the noise floor isn't
        positive and finite.
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
        noise_floor: float | None = None,
    ) -> None:
        if fit not in ("ml", "map", "pilot"):
            raise InputError(f"There is no fit {fit!r}. Use one of ml, map, pilot.")
        if runs < 1:
            raise InputError(f"runs={runs} is too small. Give 1 or more.")
        if dimension < 1:
            raise InputError(f"There is no ARD kernel on {dimension} dimensions. Give at least 1.")
        numbers = range(dimension) if pilot is None else number_features(pilot)
        self.pool = CandidatePool(smooth_function(numbers) or [Candidate()], dimension)
        self.fit = fit
        self.scaling = Scaling.identity(dimension) if scaling is None else scaling
        self.runs = runs
        self.shared = None if shared is None or shared.nothing else shared.process
        if fit != "ml" and priors is None:
            raise InputError(
                "{fit} needs priors. Add those of the study with {priors}.", fit=fit, priors=...
            )
        self.priors = None if fit == "ml" or priors is None else priors.without_parent()
        if noise_floor is None:
            noise_floor = NOISE_FLOOR if priors is None else priors.noise_floor
        self.noise_floor = check_noise_floor(noise_floor)
        if self.priors is not None:
            self.priors.check_values(self.pool)
        self._summary: KernelSummary | None = None
        if fit == "pilot":
            if pilot is None:
                raise InputError("{fit} needs pilot users. Pass them as pilot=.", fit=fit)
            self._summary = self._learned(pilot, None if self.shared is None else shared)

    def __repr__(self) -> str:
        return f"ARDSelector({self.pool.dimension}, fit={self.fit!r})"

    def _consider(self, x: np.ndarray, y: np.ndarray, previous: Previous) -> Sequence[ScoredKernel]:
        coordinates = Coordinates(self.pool, Composition(self.pool.candidates))
        objective = self._objective(coordinates, x, y, self.shared)
        starts = _starts(x, objective.problem.y, self.noise_floor)
        if self._summary is not None:
            starts += [self._summary.centre, *self._summary.starts]
        if isinstance(previous, Selection) and previous.composition == coordinates.composition:
            starts.append(coordinates.from_named(previous.hyperparameters, previous.noise))
        fitted, score = self._evidence(objective, fit(objective, starts, self.runs))
        kernel = ScoredKernel.of(
            objective,
            fitted,
            status="fixed",
            criterion=fitted.height,
            score=score,
            weight=1.0,
            probability=1.0,
            draws=draws_around(objective, fitted),
        )
        return [kernel]

    def _evidence(self, objective: Objective, fitted: Fit) -> tuple[Fit, float]:
        """Return a fit and its log evidence, for maximum likelihood approximated by -BIC / 2."""
        if self.fit == "ml":
            n_parameters = len(objective.coordinates)
            return fitted, bic(fitted.log_likelihood, n_parameters, objective.n_points).score
        fitted, evidence = laplace(objective, fitted)
        return fitted, evidence.score

    def _prior(self, coordinates: Coordinates) -> Prior | None:
        if self._summary is not None:
            return normal_prior(self._summary.centre, self._summary.spread)
        if self._table is not None:
            return study_prior(self._table, coordinates, Composition())
        return None

    def _learned(self, pilot: Cohort, shared: SharedPart | None) -> KernelSummary:
        """Summarise fits under the study's priors to each pilot user's complete data."""
        composition = Composition(self.pool.candidates)
        clusters = [
            Cluster(0, Composition(), composition, 1, self._pilot_fit(x, y, function))
            for x, y, function in zip(
                pilot.inputs,
                pilot.targets,
                [None] * pilot.n_users if shared is None else shared.functions(pilot),
                strict=True,
            )
        ]
        return summarise(clusters, self.noise_floor)

    def _pilot_fit(
        self, x: np.ndarray, y: np.ndarray, shared: MeanFunction | None
    ) -> tuple[float, ...]:
        coordinates = Coordinates(self.pool, Composition(self.pool.candidates))
        x, y = self.scaling.inputs(x), self.scaling.targets(y)
        objective = self._objective(coordinates, x, y, shared)
        fitted = fit(objective, _starts(x, objective.problem.y, self.noise_floor), self.runs)
        return tuple(fitted.values.tolist())

    def _objective(
        self, coordinates: Coordinates, x: np.ndarray, y: np.ndarray, shared: MeanFunction | None
    ) -> Objective:
        at_points = None if shared is None else MeanAtPoints(shared, x)
        prior = self._prior(coordinates)
        return Objective(coordinates, x, y, prior, self.noise_floor, at_points)


def _starts(x: np.ndarray, y: np.ndarray, noise_floor: float) -> list[np.ndarray]:
    """Return starting points that match the scale of the data.

    Their coordinates are the log amplitude, the log lengthscales and the log noise variance.
    """
    ranges = np.ptp(x, axis=0)
    ranges[ranges == 0] = 1.0
    square = max(float(np.mean(y**2)), noise_floor)
    return [
        np.log([(1 - noise) * square, *(lengthscale * ranges), noise * square])
        for lengthscale, noise in itertools.product(LENGTHSCALES, NOISES)
    ]
