"""Search for the most probable kernel of one data set, without evolutions."""

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.gp.batched import of_one_user
from kem_pymc.gp.mean_process import MeanAtPoints
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.priors.compiled_table import PriorTable
from kem_pymc.sampler.fit_cache import no_fits
from kem_pymc.sampler.moves.composition import Odds
from kem_pymc.sampler.moves.local import local_step
from kem_pymc.sampler.moves.seating import open_cluster
from kem_pymc.sampler.state import CompiledModel, attach, empty_state

#: Probabilities that a step adds or removes a candidate; otherwise it changes values.
ODDS = Odds(add=0.2, remove=0.4, swap=0.0, edge=0.6)


def one_data_set(
    pool: CandidatePool,
    priors: PriorTable,
    x: np.ndarray,
    y: np.ndarray,
    shared: MeanAtPoints | None = None,
) -> CompiledModel:
    """Return the model of one user with one data set, below the empty composition.

    Parameters
    ----------
    pool : CandidatePool
    priors : PriorTable
        Compiled priors for this pool.
    x, y : ndarray, shapes (n, D) and (n,)
        Points, in scaled units.
    shared : MeanAtPoints, optional
        Mean function that all users share, at these inputs.
    """
    one = np.zeros(1, dtype=np.int64)
    return CompiledModel(
        kernels=kernels(),
        layout=pool.layout,
        priors=priors,
        data=of_one_user(x, y, shared),
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
    n_mh: int,
    rng: np.random.Generator,
) -> float:
    """Search for the kernel with the largest posterior density, starting from a given kernel.

    Parameters
    ----------
    model : CompiledModel
        Model with a single data set, from :func:`one_data_set`.
    included, theta : ndarray, shapes (C,) bool and (H,) float64
        Inclusion indicators and hyperparameters of the kernel to start from. They are overwritten
        with those of the best draw, if it has a larger density.
    log_noise : float
        Log noise variance to start from.
    n_mh : int
        Number of Metropolis-Hastings steps.
    rng : Generator

    Returns
    -------
    float
        Log noise variance of the best draw.
    """
    state = empty_state(model, 2, 1)
    return _search(model, state, included, theta, log_noise, n_mh, rng)


@compiled
def _search(model, state, included, theta, log_noise, n_mh, rng):
    cluster = open_cluster(model, state, 0, included, theta, log_noise)
    attach(model, state, 0, cluster)
    best = state.log_density[0]
    for _ in range(n_mh):
        local_step(model, state, cluster, False, ODDS, 0.0, rng)
        if state.log_density[0] > best:
            best = state.log_density[0]
            included[:] = state.included[cluster]
            theta[:] = state.theta_unconstrained[cluster]
            log_noise = state.log_noise[cluster]
    return log_noise
