"""Change the compositions of a component of clusters together, with the acceptance ratio.

Under the `cut` target only the composition of one cluster changes: which process a dataset belongs
to is fixed during the move.

Under the `joint` target a cluster's composition is the parent of its members' next datasets, so
the change has to act on a closed component: S, the clusters whose composition changes together, and
D, the clusters that hold a dataset following one in S. S holds every predecessor of D, and D every
successor of S. All clusters of S get the new composition K', and all clusters of D move from
process K to process K'. The new state has the same closure, so the probability of choosing it
cancels, and so do alpha^C and (n_c - 1)!, which don't change. With
R(n) = lgamma(alpha + n) - lgamma(alpha), and m datasets in D,

    log ratio = sum over S of the change in log likelihood
              + sum over S and D of the change in log G
              + [R(N_K) - R(N_K - m)] - [R(N_K' + m) - R(N_K')]
              + log (reverse / forward choice) + log q(present values) - log q(proposed values).

The cut move is the special case S = {cluster}, D = {}.
"""

import math
from typing import NamedTuple

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.sampler.moves.kernel_change import commit, member_reach, propose_likelihoods
from kem_pymc.sampler.state import close_dps, dp_of_parent, kernel_log_prior


@compiled
def closure(model, state, cluster, changed, moved):
    """Mark the component of a cluster: S in `changed` and D in `moved`, both (S,) bool.

    Returns
    -------
    bool
        Whether the component can change: False if D holds a dataset of a first time step, whose
        process is always that of the empty composition.
    """
    n = state.assignment.shape[0]
    changed[cluster] = True
    growing = True
    while growing:
        growing = False
        for d in range(n):
            if model.time_step[d] == 0:
                continue
            before, after = state.assignment[d - 1], state.assignment[d]
            if changed[before] and not moved[after]:
                moved[after] = True
                growing = True
            if moved[after] and not changed[before]:
                changed[before] = True
                growing = True
    for d in range(n):
        if model.time_step[d] == 0 and moved[state.assignment[d]]:
            return False
    return True


@compiled
def rising(alpha, n):
    """Return the log of alpha (alpha + 1) ... (alpha + n - 1)."""
    return math.lgamma(alpha + n) - math.lgamma(alpha)


@compiled
def component(model, state, cluster, joint):
    """Return whether a cluster's component can change, and the indicators (S,) of S and D.

    Unless `joint`, S is the cluster alone and D is empty.
    """
    changed = np.zeros(state.included.shape[0], dtype=np.bool_)
    moved = changed.copy()
    changed[cluster] = True
    possible = not joint or closure(model, state, cluster, changed, moved)
    return possible, changed, moved


@compiled
def move_between_dps(state, moved, old, new):
    """Return the process that D moves to, and the resulting change in log probability.

    The process of K' (`new`) is opened if there is none.

    Returns
    -------
    target : int
        Process of K'; -1 where D is empty.
    log_assignments : float
        Change in the log probability of the assignments when D moves from the process of K.
    """
    migrants = np.sum(state.occupants[moved])
    if migrants == 0:
        return -1, 0.0
    source, target = dp_of_parent(state, old), dp_of_parent(state, new)
    if source == target:
        return target, 0.0
    alpha = state.concentration[0]
    n, m = state.members[source], state.members[target]
    log_assignments = rising(alpha, n) - rising(alpha, n - migrants)
    log_assignments -= rising(alpha, m + migrants) - rising(alpha, m)
    return target, log_assignments


class Change(NamedTuple):
    """A proposed change of a component with A clusters, for a pool with H hyperparameters.

    Attributes
    ----------
    clusters : (A,) int64
        Clusters of S and D in increasing order, so that both directions agree on the first.
    changed, moved : (S,) bool
        Indicators of S and of D.
    included : (C,) bool
        New composition K'.
    target : int
        Process of K', to which D moves; -1 where D is empty.
    log_assignments : float
        Change in the log probability of the assignments.
    first : int
        Index of the first of these clusters that is in S.
    theta, log_noise : (A, H), (A,) float64
        Values of the affected clusters: at first the present ones, which the move overwrites.
    """

    clusters: np.ndarray
    changed: np.ndarray
    moved: np.ndarray
    included: np.ndarray
    target: int
    log_assignments: float
    first: int
    theta: np.ndarray
    log_noise: np.ndarray


@compiled
def change_to(state, changed, moved, old, new):
    """Return the change of a component from K to K' that keeps all values."""
    clusters = np.flatnonzero(changed | moved)
    target, log_assignments = move_between_dps(state, moved, old, new)
    theta, log_noise = state.theta_unconstrained[clusters], state.log_noise[clusters]
    first = np.flatnonzero(changed[clusters])[0]
    return Change(clusters, changed, moved, new, target, log_assignments, first, theta, log_noise)


@compiled
def complete(model, state, proposal, log_ratio, rng):
    """Accept or reject a proposal for a component, apply it if accepted, and return acceptance.

    Parameters
    ----------
    proposal : Change
    log_ratio : float
        Log acceptance ratio without the change of the log density.
    """
    accepted = _decide(model, state, proposal, log_ratio, rng)
    close_dps(state)
    return accepted


@compiled
def _decide(model, state, proposal, log_ratio, rng):
    clusters, changed, moved = proposal.clusters, proposal.changed, proposal.moved
    theta, log_noise, target = proposal.theta, proposal.log_noise, proposal.target
    n = clusters.shape[0]
    log_prior = np.empty(n)
    change = proposal.log_assignments
    for i in range(n):
        cluster = clusters[i]
        included = proposal.included if changed[cluster] else state.included[cluster]
        parent = state.parent[target if moved[cluster] else state.dp[cluster]]
        log_prior[i] = kernel_log_prior(model, parent, included, theta[i], log_noise[i])
        change += log_prior[i] - state.log_prior[cluster]
    if change == -math.inf:
        return False
    users, n_steps = state.log_likelihood.shape[1:]
    reach = np.zeros((n, users), dtype=np.int64)
    proposed = np.empty((n, users, n_steps))
    for i in range(n):
        cluster = clusters[i]
        if changed[cluster]:
            reach[i] = member_reach(model, state, cluster)
            kernel = proposal.included, theta[i], log_noise[i]
            change += propose_likelihoods(model, state, cluster, *kernel, reach[i], proposed[i])
    if not math.log(rng.random()) < log_ratio + change:
        return False
    state.log_density[0] += change
    for i in range(n):
        cluster = clusters[i]
        state.log_prior[cluster] = log_prior[i]
        if moved[cluster]:
            source = state.dp[cluster]
            state.members[source] -= state.occupants[cluster]
            state.members[target] += state.occupants[cluster]
            state.dp[cluster] = target
        if changed[cluster]:
            state.included[cluster] = proposal.included
            state.theta_unconstrained[cluster] = theta[i]
            state.log_noise[cluster] = log_noise[i]
            commit(state, cluster, reach[i], proposed[i])
    return True
