"""The model of a cluster in one draw of a posterior."""

from collections.abc import Hashable

import numpy as np
from xarray import DataTree

from kem_pymc.kernels.composition import Composition
from kem_pymc.model.cluster_model import ClusterModel
from kem_pymc.model.evolution_model import EvolutionModel


def cluster_of(
    model: EvolutionModel, idata: DataTree, chain: int, draw: int, user: Hashable, time_step: int
) -> ClusterModel:
    """Return the model of the cluster of a dataset, given by its user's label and time step.

    Population parameters are fixed at their values in that draw.
    """
    posterior = idata["posterior"].isel(chain=chain, draw=draw)
    assignment, inclusion = (posterior[n].to_numpy() for n in ("assignment", "inclusion"))
    pool, users = model.pool, model.cohort.users
    u = users.index(user)
    members = np.argwhere(assignment == assignment[u, time_step])
    return ClusterModel(
        model.cohort,
        pool,
        pool.composition(inclusion[u, time_step]),
        parent=pool.composition(inclusion[u, time_step - 1]) if time_step else Composition(),
        members=[(users[i], int(t)) for i, t in members],
        priors=model.priors.at({p.name: float(posterior[p.name]) for p in model.engine.population}),
        scaling=model.scaling,
        likelihood=model.likelihood,
        shared=model.shared,
    )
