"""A component of clusters whose compositions change together, and what that does to the density.

Under the `cut` target the composition of one cluster changes, and nothing else: who belongs to
which process is fixed meanwhile.

Under the `joint` target a cluster's composition is the parent of its members' next datasets, so
the change has to act on a closed component: S, clusters whose composition changes together, and
D, clusters that hold a dataset following one in S. S holds every predecessor of D, D every
successor of S. All of S gets the new composition K', all of D moves whole from process K to
process K'. The new state has the same closure, so choosing it cancels, and so do alpha^C and
(n_c - 1)!, which don't change. With R(n) = lgamma(alpha + n) - lgamma(alpha), and m datasets in D,

    log ratio = sum over S of the change in log likelihood
              + sum over S and D of the change in log G
              + [R(N_K) - R(N_K - m)] - [R(N_K' + m) - R(N_K')]
              + log (reverse / forward choice) + log q(present values) - log q(proposed values).

The cut move is the special case S = {cluster}, D = {}.
"""

import math

import numpy as np

from kem_pymc.compiled import compiled
from kem_pymc.evolution.moves.kernel_change import commit, member_reach, propose_likelihoods
from kem_pymc.evolution.state import kernel_log_prior, process_of_parent


@compiled
def closure(study, state, slot, changed, moved):
    """Mark the component of a slot: S in `changed`, D in `moved` (S_slots,) bool.

    Returns
    -------
    bool
        False if D holds a first dataset, whose process is that of the empty composition for good.
    """
    n = state.assignment.shape[0]
    changed[slot] = True
    growing = True
    while growing:
        growing = False
        for d in range(n):
            if study.step[d] == 0:
                continue
            before, after = state.assignment[d - 1], state.assignment[d]
            if changed[before] and not moved[after]:
                moved[after] = True
                growing = True
            if moved[after] and not changed[before]:
                changed[before] = True
                growing = True
    for d in range(n):
        if study.step[d] == 0 and moved[state.assignment[d]]:
            return False
    return True


@compiled
def rising(alpha, n):
    """Return log of alpha (alpha + 1) ... (alpha + n - 1)."""
    return math.lgamma(alpha + n) - math.lgamma(alpha)


@compiled
def component(study, state, slot, joint, changed, moved):
    """Mark a slot's component, of itself alone unless joint; return whether it can change."""
    changed[slot] = True
    return not joint or closure(study, state, slot, changed, moved)


@compiled
def affected_slots(changed, moved):
    """Return the slots of S and D in order of slot, so that both directions agree on the first."""
    return np.flatnonzero(changed | moved)


@compiled
def move_processes(study, state, moved, old, new):  # noqa: ARG001
    """Say what it means that all of D moves from the process of K to that of K'.

    Returns
    -------
    target : int
        The process of K'; -1 where D is empty.
    log_seating : float
        Change in the log probability of the seating.
    """
    migrants = 0
    for k in range(state.sizes[0]):
        if moved[state.live[k]]:
            migrants += state.occupants[state.live[k]]
    if migrants == 0:
        return -1, 0.0
    source, target = process_of_parent(state, old), process_of_parent(state, new)
    if source == target:
        return target, 0.0
    alpha = state.concentration[0]
    n, m = state.members[source], state.members[target]
    log_seating = rising(alpha, n) - rising(alpha, n - migrants)
    log_seating -= rising(alpha, m + migrants) - rising(alpha, m)
    return target, log_seating


@compiled
def complete(
    study, state, affected, changed, moved, new, target, h, log_noise, log_ratio, log_seating, rng
):
    """Complete the ratio of a proposal for a component, and apply it if it is accepted.

    Parameters
    ----------
    affected : (n,) int64
        From `affected_slots`.
    new : (C,) bool
        K'.
    target : int
        Process of K', to which D moves.
    h, log_noise : (n, H), (n,) float64
        Proposed values of the affected slots.
    log_ratio : float
        Everything of the ratio that isn't a change of the density.
    log_seating : float
    """
    n = affected.shape[0]
    log_prior = np.empty(n)
    change = log_seating
    for i in range(n):
        slot = affected[i]
        included = new if changed[slot] else state.included[slot]
        parent = state.parent[target if moved[slot] else state.process[slot]]
        log_prior[i] = kernel_log_prior(study, parent, included, h[i], log_noise[i])
        change += log_prior[i] - state.log_prior[slot]
    if change == -math.inf:
        return False
    users, steps = state.log_likelihood.shape[1:]
    reach = np.zeros((n, users), dtype=np.int64)
    proposed = np.empty((n, users, steps))
    for i in range(n):
        slot = affected[i]
        if changed[slot]:
            reach[i] = member_reach(study, state, slot)
            change += propose_likelihoods(
                study, state, slot, new, h[i], log_noise[i], reach[i], proposed[i]
            )
    if not math.log(rng.random()) < log_ratio + change:
        return False
    state.log_density[0] += change
    for i in range(n):
        slot = affected[i]
        state.log_prior[slot] = log_prior[i]
        if moved[slot]:
            source = state.process[slot]
            state.members[source] -= state.occupants[slot]
            state.members[target] += state.occupants[slot]
            state.process[slot] = target
        if changed[slot]:
            state.included[slot] = new
            state.h[slot] = h[i]
            state.log_noise[slot] = log_noise[i]
            commit(state, slot, reach[i], proposed[i])
    return True
