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

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.sampler.moves.births import LOG_SQRT_2PI
from kem_pymc.sampler.state import (
    MERGE,
    SPLIT,
    allocate_cluster,
    attach,
    dataset_log_likelihood,
    detach,
    draw_noise,
    draw_value,
    free_cluster,
    hyperparameter_places,
    kernel_changed,
    likelihood_upto,
    log_sum_exp,
    noise_log_prior,
    same_row,
    value_log_prior,
)

#: Probability that a user's datasets are allocated as one block.
BLOCK_SHARE = 0.7

#: Probability that the values of a split cluster are drawn from the prior, and the two standard
#: deviations, equally probable, of their jitter around those of the other cluster otherwise, in
#: units of min(prior sd, 1). All values share the choice, so a copy is about as plausible as its
#: original.
PRIOR_SHARE, FINE, COARSE = 0.3, 0.1, 0.6


@compiled
def log_copy(model, state, copy, original):
    """Return the log density of proposing the values of a cluster from those of another.

    Both have the same composition and belong to the same process.
    """
    theta, source = state.theta_unconstrained[copy], state.theta_unconstrained[original]
    log_noise = state.log_noise[copy]
    terms = np.empty(3)
    scales = (FINE, COARSE)
    terms[0] = math.log(PRIOR_SHARE)
    terms[0] += noise_log_prior(model, state.parent[state.dp[copy]], log_noise)
    for k in range(2):
        z = (log_noise - state.log_noise[original]) / scales[k]
        terms[k + 1] = math.log(0.5 * (1.0 - PRIOR_SHARE)) - 0.5 * z * z
        terms[k + 1] -= math.log(scales[k]) + LOG_SQRT_2PI
    for p in hyperparameter_places(model.layout, state.included[copy]):
        terms[0] += value_log_prior(model, p, theta[p])
        for k in range(2):
            width = scales[k] * model.priors.scale[p]
            z = (theta[p] - source[p]) / width
            terms[k + 1] -= 0.5 * z * z + math.log(width) + LOG_SQRT_2PI
    return log_sum_exp(terms, 3)


@compiled
def draw_copy(model, state, copy, original, rng):
    """Fill a cluster with the composition of another and values proposed from its values."""
    state.dp[copy] = state.dp[original]
    state.included[copy] = state.included[original]
    theta, source = state.theta_unconstrained[copy], state.theta_unconstrained[original]
    from_prior = rng.random() < PRIOR_SHARE
    scale = FINE if rng.random() < 0.5 else COARSE
    for p in hyperparameter_places(model.layout, state.included[copy]):
        if from_prior:
            theta[p] = draw_value(model, p, rng)
        else:
            theta[p] = source[p] + scale * model.priors.scale[p] * rng.normal()
    if from_prior:
        state.log_noise[copy] = draw_noise(model, state.parent[state.dp[copy]], rng)
    else:
        state.log_noise[copy] = state.log_noise[original] + scale * rng.normal()
    kernel_changed(model, state, copy)


@compiled
def members_in_order(model, state, i, j, blocks, rng):
    """Return the other members of the clusters of i and j in random order.

    With `blocks`, the members of a user follow one another in order of time.
    """
    n = state.assignment.shape[0]
    keys = np.full(n, math.inf)
    for d in range(n):
        cluster = state.assignment[d]
        if d in (i, j) or cluster not in (state.assignment[i], state.assignment[j]):
            continue
        keys[d] = rng.random()
        if blocks and d > model.first_dataset[model.user[d]]:
            for earlier in range(model.first_dataset[model.user[d]], d):
                if keys[earlier] < math.inf:
                    keys[d] = keys[earlier]
                    break
    return np.argsort(keys, kind="mergesort")[: np.sum(keys < math.inf)]


@compiled
def split_or_merge(model, state, i, rng):
    """Propose one split or merge for dataset i and another of its process; return acceptance.

    The probability of choosing i may depend on the members of processes, which don't change.
    """
    dps = state.dp[state.assignment]
    members = np.flatnonzero(dps == dps[i])
    if members.shape[0] < 2:
        return False
    j = members[members != i][int(rng.random() * (members.shape[0] - 1))]
    blocks = rng.random() < BLOCK_SHARE
    if blocks and model.user[i] == model.user[j]:
        return False
    a, b = state.assignment[i], state.assignment[j]
    if a == b:
        return _split(model, state, i, j, blocks, rng)
    if same_row(state.included[a], state.included[b]):
        return _merge(model, state, i, j, blocks, rng)
    return False


@compiled
def _allocate(model, state, i, j, stay, leave, order, blocks, sides, rng):
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
    gain = dataset_log_likelihood(model, state, leave, j)
    gain -= dataset_log_likelihood(model, state, stay, j)
    sides[i] = False
    sides[j] = True
    k = 0
    while k < order.shape[0]:
        end = k + 1
        user = model.user[order[k]]
        if blocks:
            while end < order.shape[0] and model.user[order[end]] == user:
                end += 1
        last = model.time_step[order[end - 1]] + 1
        likelihood_upto(model, state, stay, user, last)
        likelihood_upto(model, state, leave, user, last)
        # When users move as blocks, all datasets of the users of i and j are on the sides of these.
        tied = blocks and (user == model.user[i] or user == model.user[j])
        weights[0] = weights[1] = 0.0
        for m in range(k, end):
            weights[0] += dataset_log_likelihood(model, state, stay, order[m])
            weights[1] += dataset_log_likelihood(model, state, leave, order[m])
        difference = weights[1] - weights[0]
        if tied:
            side = user == model.user[j]
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
def _split(model, state, i, j, blocks, rng):
    state.proposed[SPLIT] += 1
    stay = state.assignment[i]
    leave = allocate_cluster(state)
    draw_copy(model, state, leave, stay, rng)
    order = members_in_order(model, state, i, j, blocks, rng)
    sides = np.zeros(state.assignment.shape[0], dtype=np.bool_)
    log_q, gain = _allocate(model, state, i, j, stay, leave, order, blocks, sides, rng)
    n_leave = np.sum(sides)
    n_stay = state.occupants[stay] - n_leave
    log_ratio = _log_split(state, n_stay, n_leave, state.log_prior[leave], log_q, gain)
    log_ratio -= log_copy(model, state, leave, stay)
    if not math.log(rng.random()) < log_ratio:
        free_cluster(state, leave)
        return False
    for dataset in np.flatnonzero(sides):
        detach(model, state, dataset)
        attach(model, state, dataset, leave)
    state.accepted[SPLIT] += 1
    return True


@compiled
def _merge(model, state, i, j, blocks, rng):
    state.proposed[MERGE] += 1
    stay, leave = state.assignment[i], state.assignment[j]
    sides = state.assignment == leave
    if blocks:
        # A split in blocks can't have put one user on both sides.
        for d in range(1, sides.shape[0]):
            for e in range(model.first_dataset[model.user[d]], d):
                both = state.assignment[d] in (stay, leave) and state.assignment[e] in (stay, leave)
                if both and sides[d] != sides[e]:
                    return False
    order = members_in_order(model, state, i, j, blocks, rng)
    log_q, gain = _allocate(model, state, i, j, stay, leave, order, blocks, sides, rng)
    log_ratio = -_log_split(
        state, state.occupants[stay], state.occupants[leave], state.log_prior[leave], log_q, gain
    )
    log_ratio += log_copy(model, state, leave, stay)
    if not math.log(rng.random()) < log_ratio:
        return False
    for dataset in np.flatnonzero(sides):
        detach(model, state, dataset)
        attach(model, state, dataset, stay)
    free_cluster(state, leave)
    state.accepted[MERGE] += 1
    return True
