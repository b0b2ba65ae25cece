"""Split a cluster into two of the same composition, or merge two such clusters.

Two datasets i, j of one process are drawn. If they share a cluster, j gets a new one with the same
composition and hyperparameters theta' ~ 0.3 prior + 0.7 jitter, and the other members are allocated
one after the other in random order with probability proportional to n_k L_k (Dahl 2003). If they
don't share a cluster, and the compositions are equal, j's cluster is merged into i's. For a split

    log ratio = log alpha + log Gamma(n_1) + log Gamma(n_2) - log Gamma(n_1 + n_2)
              + change in log likelihood + log G(theta') - log q(theta') - log q(allocation)

and for a merge minus that. Compositions don't change, so no dataset changes process, and the move
can be used for both targets. In most proposals a user's datasets are allocated as one block.
"""

import math

import numpy as np

from kem_pymc._jit.decorators import compiled
from kem_pymc.sampler.moves.copies import Spread, draw_copy, log_copy, same_origins
from kem_pymc.sampler.state import (
    MERGE,
    SPLIT,
    allocate_slot,
    attach,
    dataset_log_likelihood,
    detach,
    free_slot,
    kernel_changed,
    likelihood_upto,
    log_sum_exp,
    same_row,
)

#: Probability that a user's datasets are allocated as one block.
BLOCK_SHARE = 0.7

SPREAD = Spread(prior=0.3, fine=0.1, coarse=0.6)


@compiled
def _log_kernel(study, state, slot, origin):
    """Return the log density of proposing a slot's values from those of `origin`."""
    return log_copy(
        study,
        SPREAD,
        same_origins(study, state.included[slot]),
        state.parent[state.process[slot]],
        state.h[slot],
        state.log_noise[slot],
        state.h[origin],
        state.log_noise[origin],
    )


@compiled
def _draw_kernel(study, state, slot, origin, rng):
    """Fill a slot with the composition of `origin` and values proposed from those of `origin`."""
    state.process[slot] = state.process[origin]
    state.included[slot] = state.included[origin]
    state.log_noise[slot] = draw_copy(
        study,
        SPREAD,
        same_origins(study, state.included[slot]),
        state.parent[state.process[slot]],
        state.h[slot],
        state.h[origin],
        state.log_noise[origin],
        rng,
    )
    kernel_changed(study, state, slot)


@compiled
def members_in_order(study, state, i, j, blocks, rng):
    """Return the other members of the clusters of i and j in random order.

    With `blocks`, the members of a user follow one another in order of time.
    """
    n = state.assignment.shape[0]
    keys = np.full(n, math.inf)
    for d in range(n):
        slot = state.assignment[d]
        if d in (i, j) or slot not in (state.assignment[i], state.assignment[j]):
            continue
        keys[d] = rng.random()
        if blocks and d > study.first[study.user[d]]:
            for earlier in range(study.first[study.user[d]], d):
                if keys[earlier] < math.inf:
                    keys[d] = keys[earlier]
                    break
    order = np.argsort(keys, kind="mergesort")
    size = 0
    for d in range(n):
        size += keys[d] < math.inf
    return order[:size]


@compiled
def split_or_merge(study, state, i, rng):
    """Propose one split or merge for dataset i and another of its process; return acceptance.

    The probability of choosing i may depend on the members of processes, which don't change.
    """
    n = state.assignment.shape[0]
    process = state.process[state.assignment[i]]
    if state.members[process] < 2:
        return False
    skip = int(rng.random() * (state.members[process] - 1))
    j = -1
    for d in range(n):
        if d != i and state.process[state.assignment[d]] == process:
            if skip == 0:
                j = d
                break
            skip -= 1
    blocks = rng.random() < BLOCK_SHARE
    if blocks and study.user[i] == study.user[j]:
        return False
    a, b = state.assignment[i], state.assignment[j]
    if a == b:
        return _split(study, state, i, j, blocks, rng)
    if same_row(state.included[a], state.included[b]):
        return _merge(study, state, i, j, blocks, rng)
    return False


@compiled
def _allocate(study, state, i, j, stay, leave, order, blocks, sides, rng):
    """Allocate members to `stay` or `leave` one after the other.

    If `leave` is occupied, as in a merge, the present allocation is kept and only its probability
    is computed.

    Parameters
    ----------
    order : (k,) int64
        Result of `members_in_order`.
    sides : (N,) bool
        True for members that leave: input if `leave` is occupied, output otherwise.

    Returns
    -------
    log_q : float
        Log probability of the allocation.
    gain : float
        Sum over the members that leave, including j, of the log likelihood under `leave` minus that
        under `stay`.
    """
    given = state.occupants[leave] > 0
    weights = np.zeros(2)
    counts = np.ones(2)
    log_q = 0.0
    gain = dataset_log_likelihood(study, state, leave, j)
    gain -= dataset_log_likelihood(study, state, stay, j)
    sides[i] = False
    sides[j] = True
    k = 0
    while k < order.shape[0]:
        end = k + 1
        user = study.user[order[k]]
        if blocks:
            while end < order.shape[0] and study.user[order[end]] == user:
                end += 1
        last = study.step[order[end - 1]] + 1
        likelihood_upto(study, state, stay, user, last)
        likelihood_upto(study, state, leave, user, last)
        # When users move as blocks, all datasets of the users of i and j are on the sides of these.
        tied = blocks and (user == study.user[i] or user == study.user[j])
        weights[0] = weights[1] = 0.0
        for m in range(k, end):
            weights[0] += dataset_log_likelihood(study, state, stay, order[m])
            weights[1] += dataset_log_likelihood(study, state, leave, order[m])
        difference = weights[1] - weights[0]
        if tied:
            side = user == study.user[j]
        else:
            for m in range(2):
                # The Chinese restaurant weight of a block of size s is n (n + 1) ... (n + s - 1).
                weights[m] += math.lgamma(counts[m] + end - k) - math.lgamma(counts[m])
            total = log_sum_exp(weights, 2)
            side = sides[order[k]] if given else math.log(rng.random()) < weights[1] - total
            log_q += weights[int(side)] - total
        for m in range(k, end):
            sides[order[m]] = side
        counts[int(side)] += end - k
        if side:
            gain += difference
        k = end
    return log_q, gain


@compiled
def _log_split(state, n_stay, n_leave, log_prior, log_q, gain):
    """Return the log ratio of a split without the proposal density of the new kernel."""
    change = math.log(state.concentration[0]) + math.lgamma(n_stay) + math.lgamma(n_leave)
    change -= math.lgamma(n_stay + n_leave)
    return change + log_prior + gain - log_q


@compiled
def _split(study, state, i, j, blocks, rng):
    state.counts[2 + 2 * SPLIT] += 1
    stay = state.assignment[i]
    leave = allocate_slot(state)
    _draw_kernel(study, state, leave, stay, rng)
    order = members_in_order(study, state, i, j, blocks, rng)
    sides = np.zeros(state.assignment.shape[0], dtype=np.bool_)
    log_q, gain = _allocate(study, state, i, j, stay, leave, order, blocks, sides, rng)
    n_leave = np.sum(sides)
    n_stay = state.occupants[stay] - n_leave
    log_ratio = _log_split(state, n_stay, n_leave, state.log_prior[leave], log_q, gain)
    log_ratio -= _log_kernel(study, state, leave, stay)
    if not math.log(rng.random()) < log_ratio:
        free_slot(state, leave)
        return False
    for d in range(sides.shape[0]):
        if sides[d]:
            detach(study, state, d)
            attach(study, state, d, leave)
    state.counts[3 + 2 * SPLIT] += 1
    return True


@compiled
def _merge(study, state, i, j, blocks, rng):
    state.counts[2 + 2 * MERGE] += 1
    stay, leave = state.assignment[i], state.assignment[j]
    sides = np.zeros(state.assignment.shape[0], dtype=np.bool_)
    for d in range(sides.shape[0]):
        sides[d] = state.assignment[d] == leave
    if blocks:
        # A split in blocks can't have put one user on both sides.
        for d in range(1, sides.shape[0]):
            for e in range(study.first[study.user[d]], d):
                both = state.assignment[d] in (stay, leave) and state.assignment[e] in (stay, leave)
                if both and sides[d] != sides[e]:
                    return False
    order = members_in_order(study, state, i, j, blocks, rng)
    log_q, gain = _allocate(study, state, i, j, stay, leave, order, blocks, sides, rng)
    log_ratio = -_log_split(
        state, state.occupants[stay], state.occupants[leave], state.log_prior[leave], log_q, gain
    )
    log_ratio += _log_kernel(study, state, leave, stay)
    if not math.log(rng.random()) < log_ratio:
        return False
    for d in range(sides.shape[0]):
        if sides[d]:
            detach(study, state, d)
            attach(study, state, d, stay)
    free_slot(state, leave)
    state.counts[3 + 2 * MERGE] += 1
    return True
