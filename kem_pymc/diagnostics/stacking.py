"""Chains that stay apart, weighed as Yao, Vehtari & Gelman (2022) do, by batches they learned from.

Their weights are of data that are left out; these aren't, see :func:`stack`.
"""

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from kem_pymc.diagnostics.prediction import next_batch
from kem_pymc.evolution.from_posterior import spread_draws

if TYPE_CHECKING:
    from kem_pymc.evolution.model import EvolutionModel

#: Concentration of the Dirichlet prior on weights: just enough that none is exactly zero.
PRIOR = 1.001

TOLERANCE, ITERATIONS = 1e-10, 20_000


def stack(idata: xr.DataTree, model: "EvolutionModel") -> xr.DataArray:
    """Return the weights of chains that predict pilot users' next batches best, in sample.

    Hand them to :meth:`kem_pymc.Evolutions.from_posterior` or :func:`resample`.

    A batch is predicted from the user's points before it, but by a kernel that the chain has
    learned from all users and all of their batches, this one among them: nothing is held out. So
    the weights say which chains explain the pilot users' steps from batch to batch, not which
    would predict new users best, and a chain whose kernels follow the pilot users too closely is
    preferred. Leaving users out by importance weights of draws isn't possible: clusters, and so
    kernels, depend on who is in them. To weigh chains by users they haven't seen, sample without
    some users (:meth:`kem_pymc.Cohort.subset`) and compare the chains' evolutions on these.

    Parameters
    ----------
    idata : DataTree
        Posterior of `model`.
    model : EvolutionModel

    Returns
    -------
    DataArray
        With dim (chain,); they sum to one. Attributes: ``log_score``, the summed log density of
        the batches under these weights, ``equal``, the same under equal weights, and ``seen``, the
        share of densities by kernels of clusters that hold a later dataset of the same user, and so
        the batch itself (see :func:`kem_pymc.diagnostics.prediction.next_batch`). The others have
        learned from the batch too, through what clusters share.

    Raises
    ------
    InputError
        If the posterior isn't the model's, or no user has two time steps.
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


def stacking_weights(log_density: np.ndarray, prior: float = PRIOR) -> np.ndarray:
    """Return the weights that maximise the log score, under a weak Dirichlet prior.

    The objective is concave in the weights. Expectation-maximisation never decreases it: a
    chain's new weight is its mean responsibility for the observations.

    Parameters
    ----------
    log_density : ndarray, shape (n, K)
        Of n observations under K chains.
    prior : float
        Concentration of the symmetric Dirichlet prior; 1 is none.

    Returns
    -------
    ndarray, shape (K,)
    """
    # An observation that is impossible under every chain prefers none.
    possible = log_density[np.isfinite(log_density.max(axis=1))]
    chains = log_density.shape[1]
    weights = np.full(chains, 1 / chains)
    density = np.exp(possible - possible.max(axis=1, keepdims=True))
    for _ in range(ITERATIONS):
        mixture = density * weights
        responsibility = (mixture / mixture.sum(axis=1, keepdims=True)).sum(axis=0)
        new = responsibility + (prior - 1)
        total = new.sum()
        new = new / total if total > 0 else weights
        change, weights = np.abs(new - weights).max(), new
        if change < TOLERANCE:
            break
    return weights


def resample(idata: xr.DataTree, weights: xr.DataArray | np.ndarray) -> xr.DataTree:
    """Return a posterior of one chain, in which chains have draws in proportion to weights.

    Draws are picked evenly over each chain, as many in all as there were: nothing is random.
    Groups without chains stay as they are.

    Raises
    ------
    InputError
        If there isn't one weight for each chain, or they aren't weights.
    """
    sizes = idata["posterior"].sizes
    chains, draws = sizes["chain"], sizes["draw"]
    picked = spread_draws(chains, draws, chains * draws, np.asarray(weights))
    chain, draw = (xr.DataArray(p, dims="draw") for p in np.divmod(picked, draws))

    def one_chain(dataset: xr.Dataset) -> xr.Dataset:
        if "chain" not in dataset.dims:
            return dataset
        flat = dataset.isel(chain=chain, draw=draw).drop_vars(("chain", "draw"))
        flat = flat.expand_dims(chain=[0]).assign_coords(draw=np.arange(len(picked)))
        return flat.transpose("chain", "draw", ...)

    return xr.DataTree.from_dict(
        {name: one_chain(node.to_dataset()) for name, node in idata.children.items()}
    )
