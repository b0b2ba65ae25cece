"""Assign one dataset to a cluster within its process (Neal 2000, algorithm 8).

The dataset is removed from its cluster, and a number of auxiliary clusters are drawn from the base
distribution; if the cluster that it left is empty, that is the first of them. The dataset is then
assigned to an occupied cluster with weight n_c L_c, or to an auxiliary one with weight
(alpha / auxiliaries) L. This leaves the posterior of the process's Dirichlet-process mixture
invariant, given its members.
"""

import math

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.sampler.state import (
    SEATING,
    allocate_cluster,
    attach,
    by_time_step,
    close_dps,
    dataset_log_likelihood,
    detach,
    dp_above,
    free_cluster,
    kernel_changed,
    likelihood_upto,
    new_cluster,
    pick,
)


@compiled
def gibbs_assign(model, state, dataset, first_auxiliary, auxiliaries, rng):
    """Assign a detached dataset to a cluster of a process.

    Parameters
    ----------
    first_auxiliary : int
        First auxiliary cluster: the one that the dataset left empty, or a new one. Its process is
        that of the dataset. It is freed unless it is chosen.
    auxiliaries : int
        Number of auxiliary clusters, at least 1.

    Returns
    -------
    int
        Cluster that the dataset is assigned to.
    """
    dp = state.dp[first_auxiliary]
    n_live = state.sizes[0]
    clusters = np.empty(n_live + auxiliaries, dtype=np.int64)
    log_weights = np.empty(n_live + auxiliaries)
    n = 0
    user, time_step = model.user[dataset], model.time_step[dataset]
    # Likelihoods of the user's later datasets in the same process are needed next, so they are
    # computed from the same factorisation.
    upto = time_step + 1
    for later in range(time_step + 1, model.data.n_steps[user]):
        cluster = state.assignment[model.first_dataset[user] + later]
        if cluster >= 0 and state.dp[cluster] == dp:
            upto = later + 1
    for k in range(n_live):
        cluster = state.live[k]
        if state.dp[cluster] == dp:
            likelihood_upto(model, state, cluster, user, upto)
            clusters[n] = cluster
            log_weights[n] = math.log(state.occupants[cluster])
            log_weights[n] += dataset_log_likelihood(model, state, cluster, dataset)
            n += 1
    occupied = n
    for a in range(auxiliaries):
        cluster = first_auxiliary if a == 0 else new_cluster(model, state, dp, rng)
        clusters[n] = cluster
        log_weights[n] = math.log(state.concentration[0] / auxiliaries)
        log_weights[n] += dataset_log_likelihood(model, state, cluster, dataset)
        n += 1
    chosen = pick(log_weights, n, rng)
    for i in range(occupied, n):
        if i != chosen:
            free_cluster(state, clusters[i])
    attach(model, state, dataset, clusters[chosen])
    return clusters[chosen]


@compiled
def gibbs_reassign(model, state, dataset, auxiliaries, rng):
    """Redraw the cluster of a dataset within its process."""
    before = detach(model, state, dataset)
    empty = before
    if state.occupants[before] > 0:
        empty = new_cluster(model, state, state.dp[before], rng)
    after = gibbs_assign(model, state, dataset, empty, auxiliaries, rng)
    state.proposed[SEATING] += 1
    state.accepted[SEATING] += after != before


@compiled
def update_parents(model, state, auxiliaries, first_step, rng):
    """Update the parents of later time steps for the `cut` target, and move datasets accordingly.

    A dataset belongs to the process of the composition that its user had one time step earlier.
    Time step by time step, from `first_step` on, a dataset whose process has changed is removed
    from its cluster and assigned to a cluster of the new process by the same conditional
    distribution. Datasets before `first_step`, which is at least 1, have to be in the right process
    already.

    Returns
    -------
    int
        Number of datasets that changed process.
    """
    moved = 0
    for dataset in by_time_step(model):
        if model.time_step[dataset] < first_step:
            continue
        dp = dp_above(model, state, dataset)
        if state.dp[state.assignment[dataset]] != dp:
            cluster = detach(model, state, dataset)
            if state.occupants[cluster] == 0:
                free_cluster(state, cluster)
            empty = new_cluster(model, state, dp, rng)
            gibbs_assign(model, state, dataset, empty, auxiliaries, rng)
            moved += 1
    close_dps(state)
    return moved


@compiled
def assign_all(model, state, auxiliaries, rng):
    """Assign all datasets, one after the other, to clusters; none may be assigned yet."""
    for dataset in by_time_step(model):
        empty = new_cluster(model, state, dp_above(model, state, dataset), rng)
        gibbs_assign(model, state, dataset, empty, auxiliaries, rng)


@compiled
def open_cluster(model, state, dataset, included, theta, log_noise):
    """Return a cluster with a given kernel in the process that a dataset belongs to."""
    cluster = allocate_cluster(state)
    state.dp[cluster] = dp_above(model, state, dataset)
    state.included[cluster] = included
    state.theta_unconstrained[cluster] = theta
    state.log_noise[cluster] = log_noise
    kernel_changed(model, state, cluster)
    return cluster
