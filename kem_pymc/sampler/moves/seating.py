"""Assign one dataset to a cluster within its process (Neal 2000, algorithm 8).

The dataset is removed from its cluster, and a number of auxiliary clusters are drawn from the base
distribution; if the cluster that it left is empty, that is the first of them. The dataset is then
assigned to an occupied cluster with weight n_c L_c, or to an auxiliary one with weight
(alpha / auxiliaries) L. This leaves the posterior of the process's Dirichlet-process mixture
invariant, given its members.
"""

import math

import numpy as np

from kem_pymc._jit.decorators import compiled
from kem_pymc.sampler.state import (
    SEATING,
    allocate_slot,
    attach,
    close_processes,
    dataset_log_likelihood,
    detach,
    draw_kernel,
    free_slot,
    kernel_changed,
    likelihood_upto,
    pick,
    process_above,
)


@compiled
def new_cluster(study, state, process, rng):
    """Return a slot with a kernel drawn from the base distribution of a process."""
    slot = allocate_slot(state)
    draw_kernel(study, state, process, slot, rng)
    return slot


@compiled
def gibbs_assign(study, state, dataset, first, auxiliaries, rng):
    """Assign a detached dataset to a cluster of a process.

    Parameters
    ----------
    first : int
        Slot of the first auxiliary cluster: the cluster that the dataset left empty, or a new one.
        Its process is that of the dataset. The slot is freed unless it is chosen.
    auxiliaries : int
        Number of auxiliary clusters, at least 1.

    Returns
    -------
    int
        Slot that the dataset is assigned to.
    """
    process = state.process[first]
    n_live = state.sizes[0]
    slots = np.empty(n_live + auxiliaries, dtype=np.int64)
    log_weights = np.empty(n_live + auxiliaries)
    n = 0
    user, step = study.user[dataset], study.step[dataset]
    # Likelihoods of the user's later datasets in the same process are needed next, so they are
    # computed from the same factorisation.
    upto = step + 1
    for later in range(step + 1, study.data.steps[user]):
        slot = state.assignment[study.first[user] + later]
        if slot >= 0 and state.process[slot] == process:
            upto = later + 1
    for k in range(n_live):
        slot = state.live[k]
        if state.process[slot] == process:
            likelihood_upto(study, state, slot, user, upto)
            slots[n] = slot
            log_weights[n] = math.log(state.occupants[slot])
            log_weights[n] += dataset_log_likelihood(study, state, slot, dataset)
            n += 1
    occupied = n
    for a in range(auxiliaries):
        slot = first if a == 0 else new_cluster(study, state, process, rng)
        slots[n] = slot
        log_weights[n] = math.log(state.concentration[0] / auxiliaries)
        log_weights[n] += dataset_log_likelihood(study, state, slot, dataset)
        n += 1
    chosen = pick(log_weights, n, rng)
    for i in range(occupied, n):
        if i != chosen:
            free_slot(state, slots[i])
    attach(study, state, dataset, slots[chosen])
    return slots[chosen]


@compiled
def gibbs_reassign(study, state, datasets, auxiliaries, rng):
    """Redraw the clusters of datasets within their process, one dataset after the other."""
    for dataset in datasets:
        before = detach(study, state, dataset)
        first = before
        if state.occupants[before] > 0:
            first = new_cluster(study, state, state.process[before], rng)
        after = gibbs_assign(study, state, dataset, first, auxiliaries, rng)
        state.counts[2 + 2 * SEATING] += 1
        state.counts[3 + 2 * SEATING] += after != before


@compiled
def update_parents(study, state, auxiliaries, first, rng):
    """Update the parents of later time steps for the `cut` target, and move datasets accordingly.

    A dataset belongs to the process of the composition that its user had one time step earlier.
    Time step by time step, from `first` on, a dataset whose process has changed is removed from its
    cluster and assigned to a cluster of the new process by the same conditional distribution.
    Datasets before `first`, which is at least 1, have to be in the right process already.

    Returns
    -------
    int
        Number of datasets that changed process.
    """
    moved = 0
    for step in range(first, study.data.ends.shape[1]):
        for user in range(study.data.ends.shape[0]):
            if step >= study.data.steps[user]:
                continue
            dataset = study.first[user] + step
            process = process_above(study, state, dataset)
            if state.process[state.assignment[dataset]] != process:
                slot = detach(study, state, dataset)
                if state.occupants[slot] == 0:
                    free_slot(state, slot)
                first = new_cluster(study, state, process, rng)
                gibbs_assign(study, state, dataset, first, auxiliaries, rng)
                moved += 1
    close_processes(state)
    return moved


@compiled
def assign_all(study, state, auxiliaries, rng):
    """Assign all datasets, one after the other, to clusters; none may be assigned yet."""
    for step in range(study.data.ends.shape[1]):
        for user in range(study.data.ends.shape[0]):
            if step < study.data.steps[user]:
                dataset = study.first[user] + step
                process = process_above(study, state, dataset)
                first = new_cluster(study, state, process, rng)
                gibbs_assign(study, state, dataset, first, auxiliaries, rng)


@compiled
def open_cluster(study, state, dataset, included, h, log_noise):
    """Return a slot with a given kernel in the process that a dataset belongs to."""
    slot = allocate_slot(state)
    state.process[slot] = process_above(study, state, dataset)
    state.included[slot] = included
    state.h[slot] = h
    state.log_noise[slot] = log_noise
    kernel_changed(study, state, slot)
    return slot
