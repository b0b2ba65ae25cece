"""Log likelihoods for ArviZ, and predictive densities of the pilot users' next batches."""

import re
from typing import TYPE_CHECKING, cast

import numpy as np
import xarray as xr

from kem_pymc.diagnostics.quantities import Draws
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from kem_pymc.model.evolution_model import EvolutionModel

ARRAYS = ("structure", "hyperparameters", "noise")


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
    if "log_likelihood" in idata.children and "dataset_log_likelihood" not in idata["posterior"]:
        return _of_cluster(idata)
    draws = Draws.of(idata)
    try:
        values = idata["posterior"]["dataset_log_likelihood"]
        values = values.transpose("chain", "draw", "user", "time_step")
    except (KeyError, ValueError) as error:
        raise InputError(
            "The posterior lacks dataset_log_likelihood. Sample it with an EvolutionModel."
        ) from error
    u, t = np.nonzero(draws.present)
    dataset = xr.Dataset(
        {"targets": (("chain", "draw", "dataset"), values.values[:, :, u, t])},
        coords={name: values.coords[name].values for name in ("chain", "draw")}
        | {"dataset": [f"{draws.users[i]}, {draws.steps[j]}" for i, j in zip(u, t, strict=True)]}
        | {
            "user": ("dataset", [draws.users[i] for i in u]),
            "time_step": ("dataset", [draws.steps[j] for j in t]),
        },
    )
    made = idata.copy()
    made["log_likelihood"] = xr.DataTree(dataset=dataset)
    return made


def _of_cluster(idata: xr.DataTree) -> xr.DataTree:
    """Return the posterior of a ``ClusterModel`` with all members in one variable."""
    members = idata["log_likelihood"].to_dataset()
    names = [str(name) for name in members]
    if not names or not all(re.fullmatch(r"y\[.*, \d+\]", name) for name in names):
        raise InputError(
            f"The log likelihood has the variables {', '.join(names) or '(none)'}, not those of a "
            "cluster. Compute it with a ClusterModel."
        )
    labels = [name[2:-1] for name in names]
    users, steps = zip(*(label.rsplit(", ", 1) for label in labels), strict=True)
    targets = xr.concat([members[name] for name in names], "dataset").rename("targets")
    targets = targets.transpose("chain", "draw", "dataset").assign_coords(
        dataset=labels,
        user=("dataset", list(users)),
        time_step=("dataset", [int(t) for t in steps]),
    )
    made = idata.copy()
    made["log_likelihood"] = xr.DataTree(dataset=targets.to_dataset())
    return made


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
    for k, s in np.ndindex(shape):
        structure, hyperparameters, noise = (a[k, s] for a in arrays)
        ahead = engine.log_density_of_batches(_handed_on(structure, hyperparameters, noise))
        log_density[k, s] = ahead[:, 1:][follows]
    u, t = np.nonzero(follows)
    coords = {name: idata["posterior"][name].values for name in ("chain", "draw")}
    dims = ("chain", "draw", "batch")
    return xr.Dataset(
        {"log_density": (dims, log_density), "seen": (dims, _seen(draws)[..., follows])},
        coords=coords
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


def _handed_on(
    structure: np.ndarray, hyperparameters: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return arrays in which each dataset has the user's previous kernel, in a separate cluster."""
    present = structure[..., 0] >= 0
    places = np.arange(present.size).reshape(present.shape)
    moved = []
    for array in (structure, hyperparameters, noise):
        new = array.copy()
        new[:, 1:][present[:, 1:]] = array[:, :-1][present[:, 1:]]
        moved.append(new)
    moved[0][..., 0] = np.where(present, places, -1)
    return cast(tuple[np.ndarray, np.ndarray, np.ndarray], tuple(moved))


def _seen(draws: Draws) -> np.ndarray:
    """Return whether a later dataset of the user is in the cluster of (u, t) (K, S, U, T - 1)."""
    labels = draws.assignment
    steps = labels.shape[-1]
    seen = np.zeros((*labels.shape[:-1], steps - 1), dtype=bool)
    for t in range(steps - 1):
        later = labels[..., t + 1 :]
        seen[..., t] = ((later == labels[..., t, None]) & (later >= 0)).any(axis=-1)
    return seen
