"""Log likelihoods for ArviZ, and predictive densities of the pilot users' next batches."""

import re
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from kem_pymc._system.options import checked
from kem_pymc.diagnostics.quantities import Draws
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from kem_pymc.model.evolution_model import EvolutionModel

ARRAYS = ("structure", "hyperparameters", "noise")


@checked
def log_likelihood_group(idata: xr.DataTree) -> xr.DataTree:
    """Return the posterior with a group ``log_likelihood`` of every dataset, for ``az.loo``.

    The variable ``targets`` of the group has dims (chain, draw, dataset), with coordinates ``user``
    and ``time_step`` of each dataset. Under the cumulative likelihood most points of a dataset that
    is left out are also in the user's other datasets. Under the sequential likelihood a batch is
    left out, but the user's later batches are still conditioned on it. Moreover, the kernel of a
    cluster with a single dataset depends strongly on that dataset, so large Pareto k are to be
    expected. To assess predictions, use :func:`next_batch` instead.

    Parameters
    ----------
    idata : DataTree
        Posterior of an ``EvolutionModel``; or of a ``ClusterModel`` with the group that
        ``pm.compute_log_likelihood`` adds, whose variables (one per member) are combined into one.

    Returns
    -------
    DataTree
        Copy of `idata` with the group.

    Raises
    ------
    InputError
        If `idata` is neither.
    """
    posterior = idata["posterior"].dataset
    if "log_likelihood" in idata.children and "dataset_log_likelihood" not in posterior:
        targets = _of_cluster(idata["log_likelihood"].to_dataset())
    else:
        draws = Draws.of(idata)
        if "dataset_log_likelihood" not in posterior:
            raise InputError(
                "The posterior lacks dataset_log_likelihood. Sample it with an EvolutionModel."
            )
        values = posterior["dataset_log_likelihood"].stack(dataset=("user", "time_step"))
        targets = values.isel(dataset=draws.present.ravel()).reset_index("dataset")
        labels = zip(targets["user"].values, targets["time_step"].values, strict=True)
        targets = targets.assign_coords(dataset=[f"{user}, {step}" for user, step in labels])
    targets = targets.transpose("chain", "draw", "dataset").rename("targets")
    made = idata.copy()
    made["log_likelihood"] = xr.DataTree(dataset=targets.to_dataset())
    return made


def _of_cluster(members: xr.Dataset) -> xr.DataArray:
    """Return the log likelihoods of all members of a ``ClusterModel`` in one array."""
    names = [str(name) for name in members]
    if not names or not all(re.fullmatch(r"y\[.*, \d+\]", name) for name in names):
        raise InputError(
            f"The log likelihood has the variables {', '.join(names) or '(none)'}, not those of a "
            "cluster. Compute it with a ClusterModel."
        )
    labels = [name[2:-1] for name in names]
    users, steps = zip(*(label.rsplit(", ", 1) for label in labels), strict=True)
    return xr.concat([members[name] for name in names], "dataset").assign_coords(
        dataset=labels, user=("dataset", [*users]), time_step=("dataset", [*map(int, steps)])
    )


@checked
def next_batch(idata: xr.DataTree, model: "EvolutionModel") -> xr.Dataset:
    """Return the log predictive density of each pilot user's next batch, in every draw.

    It is log p(y_{t+1} | y_{1:t}, kernel of dataset t), with the kernel of the cluster of dataset
    (u, t), both for the cumulative and the sequential likelihood.

    Parameters
    ----------
    idata : DataTree
        Posterior of `model`, with the variables that were sampled.
    model : EvolutionModel

    Returns
    -------
    Dataset
        Variables with dims (chain, draw, batch), and coordinates ``user`` and ``time_step`` t of
        each batch: ``log_density``, in scaled units, and ``seen``, whether the cluster of (u, t)
        also contains a later dataset of the user. The kernel of such a cluster was learned from the
        batch itself, so the density is too optimistic.

    Raises
    ------
    InputError
        If the posterior has other users, time steps or candidates than the model, or no user has
        two time steps.
    """
    draws = Draws.of(idata)
    engine = model.engine
    arrays = arrays_of(idata, model)
    follows = draws.present[:, 1:]
    if not follows.any():
        raise InputError(
            "No user has a second time step, so there is no next batch. "
            "Give users with two or more time steps."
        )
    shape = draws.n_chains, draws.n_draws
    log_density = np.empty((*shape, int(follows.sum())))
    for place in np.ndindex(shape):
        ahead = engine.log_density_of_batches(_handed_on(*(a[place] for a in arrays)))
        log_density[place] = ahead[:, 1:][follows]
    labels = draws.assignment
    later = np.triu(labels[..., :, None] == labels[..., None, :], 1)  # of (t, later time step)
    seen = later.any(axis=-1)[..., :-1][..., follows]
    u, t = np.nonzero(follows)
    dims = ("chain", "draw", "batch")
    return xr.Dataset(
        {"log_density": (dims, log_density), "seen": (dims, seen)},
        coords={name: idata["posterior"][name].values for name in ("chain", "draw")}
        | {
            "user": ("batch", [draws.users[i] for i in u]),
            "time_step": ("batch", [draws.steps[j] for j in t]),
        },
    )


def arrays_of(idata: xr.DataTree, model: "EvolutionModel") -> list[np.ndarray]:
    """Return structure, hyperparameters and noise of all draws (K, S, U, T, ...).

    Raises
    ------
    InputError
        If the posterior has other users, time steps or candidates than the model.
    """
    draws = Draws.of(idata)
    labels = [str(u) for u in model.cohort.users]
    same = [str(u) for u in draws.users] == labels and draws.pool.names == model.pool.names
    if not same or draws.present.shape != model.engine.shape:
        raise InputError(
            "The posterior has other users, time steps or candidates than the model. "
            "Give the model that it was sampled from."
        )
    order = ("chain", "draw", "user", "time_step")
    return [idata["posterior"][n].transpose(*order, ...).values for n in ARRAYS]


def _handed_on(*arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return arrays in which each dataset has the user's previous kernel, in a separate cluster."""
    structure, hyperparameters, noise = (array.copy() for array in arrays)
    present = arrays[0][..., 0] >= 0
    for new, array in zip((structure, hyperparameters, noise), arrays, strict=True):
        new[:, 1:][present[:, 1:]] = array[:, :-1][present[:, 1:]]
    structure[..., 0] = np.where(present, np.arange(present.size).reshape(present.shape), -1)
    return structure, hyperparameters, noise
