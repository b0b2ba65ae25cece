"""Log prior of every draw by term, for ArviZ's sensitivity analysis by power-scaling."""

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from kem_pymc._system.options import checked
from kem_pymc.diagnostics.prediction import arrays_of

if TYPE_CHECKING:
    from kem_pymc.model.evolution_model import EvolutionModel


@checked
def log_prior_group(idata: xr.DataTree, model: "EvolutionModel") -> xr.DataTree:
    """Return the posterior with a group ``log_prior``, for ``az.psense`` and ``az.psense_summary``.

    Together with :func:`kem_pymc.diagnostics.log_likelihood_group` it is used to estimate how the
    posterior would change if the prior, or the likelihood, were raised to a power (Kallioinen et
    al. 2024); ``prior_var_names=`` selects the terms of the prior. For a ``ClusterModel``, which is
    a plain PyMC model, use ``pm.compute_log_prior``.

    Power-scaling reweights draws from a joint density. Under ``feedback="cut"`` there is no joint
    density beyond the first time step, so the result is only approximate there; sample with
    ``feedback="joint"`` to avoid that. Compositions of different sizes have densities of different
    dimension, so scaling ``hyperparameters`` also changes the sizes, by an amount that depends on
    the units; refit the model with other priors instead.

    Parameters
    ----------
    idata : DataTree
        Posterior of `model`, with the variables that were sampled.
    model : EvolutionModel

    Returns
    -------
    DataTree
        Copy of `idata` with the group. Its variables have dims (chain, draw) and are log densities
        of natural values, like PyMC's: ``seating`` (assignment of datasets to clusters),
        ``inclusion`` (of candidates, eq. 4), ``hyperparameters``, ``noise``, and the parameters
        that all clusters share, if they are learned: ``concentration``, and population parameters
        by name. Together with the log likelihood they add up to ``log_joint``.

    Raises
    ------
    InputError
        If the posterior has other users, time steps or candidates than the model.
    """
    engine, learned = model.engine, model.engine.learned
    structure, hyperparameters, noise = arrays_of(idata, model)
    shape = structure.shape[:2]
    posterior = idata["posterior"]
    shared = {name: posterior[name].transpose("chain", "draw").values for name in learned}
    terms: dict[str, np.ndarray] = defaultdict(partial(np.zeros, shape))
    for k in np.ndindex(shape):
        here = {name: values[k] for name, values in shared.items()}
        alpha = here.pop("concentration", None)
        if alpha is not None:
            terms["concentration"][k] = engine.log_concentration(alpha)
        for name, term in zip(here, engine.log_population(*here.values()), strict=True):
            terms[name][k] = term
        included = _log_inclusion(model, structure[k])
        terms["seating"][k] = engine.log_structure(structure[k], alpha) - included
        terms["inclusion"][k] = included
        given = structure[k], hyperparameters[k], *here.values()
        terms["hyperparameters"][k] = engine.log_hyperparameters(*given)
        terms["noise"][k] = engine.log_noise(structure[k], noise[k], *here.values())
    made = idata.copy()
    made["log_prior"] = xr.DataTree(
        dataset=xr.Dataset(
            {name: (("chain", "draw"), values) for name, values in terms.items()},
            coords={name: posterior[name].values for name in ("chain", "draw")},
        )
    )
    return made


def _log_inclusion(model: "EvolutionModel", structure: np.ndarray) -> float:
    """Return the log probability of all clusters' compositions, given their parents' (eq. 4)."""
    table = model.engine.prior_table
    included = structure[..., 1:] > 0
    above = np.insert(included[:, :-1], 0, False, axis=1)
    label = structure[..., 0]
    first = label == np.arange(label.size).reshape(label.shape)
    p = np.where(above[first], table.stay, table.enter)
    return float(np.log(np.where(included[first], p, 1 - p)).sum())
