"""The Memoryless baseline: a search without pilot users, at every time step (section 6.1)."""

import math
from collections.abc import Sequence
from typing import Literal
from zlib import crc32

import numpy as np

from kem_pymc._system.options import check_whole
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import LONE_SPREAD, KernelSummary
from kem_pymc.gp.batched import of_one_user
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.known_part import KnownPart
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.population.mean_process import MeanProcess
from kem_pymc.priors import Priors
from kem_pymc.priors.compiled_table import PriorTable
from kem_pymc.sampler.fit_cache import no_fits
from kem_pymc.sampler.moves.composition import Odds
from kem_pymc.sampler.moves.local import local_step
from kem_pymc.sampler.moves.seating import open_cluster
from kem_pymc.sampler.state import CompiledModel, attach, empty_state
from kem_pymc.selection.scored_kernel import ScoredKernel
from kem_pymc.selection.scorer import Proposal, Scorer
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import PoolSelector, Previous, ScaledPoints

#: Probabilities that a step adds or removes a candidate; otherwise it changes values.
ODDS = Odds(add=0.2, remove=0.4, swap=0.0, edge=0.6)


class MemorylessSelector(PoolSelector):
    """Selector that searches for a kernel by Metropolis-Hastings, without pilot users.

    The spike-and-slab posterior given a single user's data is sampled, starting at the kernel of
    the previous time step if that was selected from the same pool, otherwise at WHITE (the empty
    composition). The composition of the draw with the largest density is selected, and
    fitted in the same way as by the other methods.

    Parameters
    ----------
    pool : CandidatePool
    priors : Priors
        Priors of the search. The noise prior is the one without a parent; every candidate has its
        inclusion probability below the empty composition. Their `noise_floor` is the smallest noise
        variance of the fit.
    fit : {"map", "ml"}
        How hyperparameters are fitted: with these priors, or by maximum likelihood. Fits based on
        pilot users aren't available.
    criterion : {"bic", "aic", "laplace", "loo"}
        Criterion that is reported for the selection. It has no effect on the selection, since only
        one composition is fitted.
    scaling : Scaling, optional
        Scaling applied to the user's data; by default data aren't scaled.
    shared : MeanProcess, optional
        Mean function that all users share, in scaled units.
    steps : int
        Number of Metropolis-Hastings steps of a search; 10,000 in the paper.
    seed : int
        The same data, previous selection and seed give the same selection.

    Raises
    ------
    InputError
        If an option is unknown or out of range, or priors depend on population parameters.
    """

    def __init__(
        self,
        pool: CandidatePool,
        priors: Priors,
        fit: Literal["map", "ml"] = "map",
        criterion: Literal["bic", "aic", "laplace", "loo"] = "bic",
        *,
        scaling: Scaling | None = None,
        shared: MeanProcess | None = None,
        steps: int = 10_000,
        seed: int = 0,
    ) -> None:
        if fit == "pilot" or criterion == "posterior":
            raise InputError(
                "The fit 'pilot' and the criterion 'posterior' need pilot users, which this method "
                "doesn't use. Use the fit 'map' or 'ml', and another criterion."
            )
        check_whole(steps=steps)
        self.pool = pool
        priors = priors.without_parent()
        priors.check_values(pool)
        self.scaling = Scaling.identity(pool.dimension) if scaling is None else scaling
        self.steps, self.seed, self.shared = steps, seed, shared
        self._scorer = Scorer(pool, fit, criterion, 3, priors.noise_floor, priors)

    def __repr__(self) -> str:
        return f"MemorylessSelector(fit={self._scorer.fit!r}, steps={self.steps})"

    def _consider(self, points: ScaledPoints, previous: Previous) -> Sequence[ScoredKernel]:
        table, x, y = self._scorer.table, points.x, points.y
        included, h, log_noise = self._start(previous, len(table.entry))
        # Every data set has its own stream of random numbers, so that the order doesn't matter.
        rng = np.random.default_rng([self.seed, crc32(x.tobytes()), crc32(y.tobytes())])
        study = one_data_set(self.pool, table, x, y, points.known)
        log_noise = best_kernel(study, included, h, log_noise, self.steps, rng)
        composition = self.pool.composition(included)
        coordinates = Coordinates(self.pool, composition)
        # The search has no noise floor, so that its draws are draws from the posterior.
        log_noise = max(log_noise, math.log(self._scorer.noise_floor))
        values = np.append(h[coordinates.places], log_noise)
        summary = KernelSummary(values, np.full(len(values), LONE_SPREAD), values[None])
        proposals = [Proposal(composition, "searched", 1.0, summary)]
        return self._scorer.consider(proposals, Composition(), previous, points)

    def _start(self, previous: Previous, length: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Return inclusion indicators (C,), hyperparameters (H,) and log noise to start from."""
        if isinstance(previous, Selection) and previous.pool == self.pool:
            coordinates = Coordinates(self.pool, previous.composition)
            values = coordinates.from_named(previous.hyperparameters, previous.noise)
            return coordinates.inclusion.copy(), *coordinates.expand(values)
        return np.zeros(len(self.pool), dtype=np.bool_), np.zeros(length), 0.0


def one_data_set(
    pool: CandidatePool,
    priors: PriorTable,
    x: np.ndarray,
    y: np.ndarray,
    known: KnownPart | None = None,
) -> CompiledModel:
    """Return the model of one user with one data set, below the empty composition.

    Parameters
    ----------
    pool : CandidatePool
    priors : PriorTable
        Compiled priors for this pool.
    x, y : ndarray, shapes (n, D) and (n,)
        Points, in scaled units.
    known : KnownPart, optional
        What is known of the targets at these inputs.
    """
    one = np.zeros(1, dtype=np.int64)
    return CompiledModel(
        kernels=kernels(),
        layout=pool.layout,
        priors=priors,
        data=of_one_user(x, y, known),
        concentration=1.0,
        concentration_shape=0.0,
        concentration_rate=0.0,
        power=1.0,
        user=one,
        time_step=one.copy(),
        first_dataset=one.copy(),
        fits=no_fits(1, len(pool)),
    )


def best_kernel(
    model: CompiledModel,
    included: np.ndarray,
    theta: np.ndarray,
    log_noise: float,
    steps: int,
    rng: np.random.Generator,
) -> float:
    """Search for the kernel with the largest posterior density, starting from a given kernel.

    Steps are called one by one from Python, which takes 50 microseconds each. A loop in compiled
    code takes 8, but Numba wouldn't notice that the moves that it calls have changed, since their
    code is in another package.

    Parameters
    ----------
    model : CompiledModel
        Model with a single data set, from :func:`one_data_set`.
    included, theta : ndarray, shapes (C,) bool and (H,) float64
        Inclusion indicators and hyperparameters of the kernel to start from. They are overwritten
        with those of the best draw, if it has a larger density.
    log_noise : float
        Log noise variance to start from.
    steps : int
        Number of Metropolis-Hastings steps.
    rng : Generator

    Returns
    -------
    float
        Log noise variance of the best draw.
    """
    state = empty_state(model, 2, 1)
    cluster = open_cluster(model, state, 0, included, theta, log_noise)
    attach(model, state, 0, cluster)
    best = state.log_density[0]
    for _ in range(steps):
        local_step(model, state, cluster, False, ODDS, 0.0, rng)
        if state.log_density[0] > best:
            best = state.log_density[0]
            included[:] = state.included[cluster]
            theta[:] = state.theta_unconstrained[cluster]
            log_noise = float(state.log_noise[cluster])
    return log_noise
