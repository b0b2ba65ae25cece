"""Stacking weights for chains that don't mix, as in Yao, Vehtari & Gelman (2022).

In that paper weights are computed from data that are left out. Here they are computed from batches
that were also used for learning, see :func:`stack`.
"""

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from kem_pymc._system.options import checked
from kem_pymc.diagnostics.prediction import next_batch

if TYPE_CHECKING:
    from kem_pymc.model.evolution_model import EvolutionModel

#: Concentration of the Dirichlet prior on weights: large enough that no weight is exactly zero.
PRIOR = 1.001

TOLERANCE, ITERATIONS = 1e-10, 20_000


@checked
def stack(idata: xr.DataTree, model: "EvolutionModel") -> xr.DataArray:
    """Return the weights of chains that best predict pilot users' next batches, in sample.

    The weights can be passed to :meth:`kem_pymc.Evolutions.from_posterior`.

    A batch is predicted from the user's points before it, but with a kernel that the chain has
    learned from all users and all of their batches, including this one: nothing is held out. The
    weights therefore measure which chains explain the pilot users' steps from batch to batch, not
    which chains would predict new users best, and chains whose kernels overfit the pilot users are
    preferred. Users can't be left out by importance weights of draws, because clusters, and hence
    kernels, depend on their members. To weight chains by held-out users, sample without some users
    (:meth:`kem_pymc.Cohort.subset`) and compare the chains' evolutions on these.

    Parameters
    ----------
    idata : DataTree
        Posterior of `model`.
    model : EvolutionModel

    Returns
    -------
    DataArray
        Weights with dim (chain,), which sum to one. Attributes: ``log_score``, the summed log
        density of the batches under these weights; ``equal``, the same under equal weights; and
        ``seen``, the fraction of densities under kernels of clusters that contain a later dataset
        of the same user, and hence the batch itself (see
        :func:`kem_pymc.diagnostics.prediction.next_batch`). The other kernels depend on the batch
        too, through parameters that clusters share.

    Raises
    ------
    InputError
        If the posterior has other users, time steps or candidates than the model, or no user has
        two time steps.
    """
    batches = next_batch(idata, model)
    values = batches["log_density"].values
    by_chain = logsumexp(values, axis=1) - np.log(values.shape[1])  # (K, n)
    weights = stacking_weights(by_chain.T)
    equal = np.full(len(weights), 1 / len(weights))
    return xr.DataArray(
        weights,
        dims="chain",
        coords={"chain": batches["chain"].values},
        name="weight",
        attrs={
            "log_score": log_score(by_chain.T, weights),
            "equal": log_score(by_chain.T, equal),
            "seen": float(batches["seen"].mean()),
        },
    )


def log_score(log_density: np.ndarray, weights: np.ndarray) -> float:
    """Return sum_i log sum_k w_k p_ik from log densities (n, K) and weights (K,)."""
    with np.errstate(divide="ignore"):
        return float(logsumexp(log_density + np.log(weights), axis=1).sum())


def stacking_weights(log_density: np.ndarray, prior: float | np.ndarray = PRIOR) -> np.ndarray:
    """Return the weights that maximise the log score, under a Dirichlet prior.

    The objective is concave in the weights and is maximised by expectation-maximisation, which
    never decreases it: a chain's new weight is its mean responsibility for the observations.

    Parameters
    ----------
    log_density : ndarray, shape (n, K)
        Log densities of n observations under K chains.
    prior : float or ndarray, shape (K,)
        Concentration of the symmetric Dirichlet prior, or concentrations; 1 means no prior.

    Returns
    -------
    ndarray, shape (K,)
    """
    # Observations that are impossible under every chain don't affect the weights.
    possible = log_density[np.isfinite(log_density.max(axis=1))]
    weights = np.full(log_density.shape[1], 1 / log_density.shape[1])
    density = np.exp(possible - possible.max(axis=1, keepdims=True))
    for _ in range(ITERATIONS):
        mixture = density * weights
        new = (mixture / mixture.sum(axis=1, keepdims=True)).sum(axis=0) + (prior - 1)
        new /= new.sum()
        if np.abs(new - weights).max() < TOLERANCE:
            return new
        weights = new
    return weights
