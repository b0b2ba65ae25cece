"""Add, remove or swap a candidate of a cluster's composition.

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
              + log (reverse / forward choice) + log q(removed) - log q(added).

The cut move is the special case S = {cluster}, D = {}.
"""

import math

import numpy as np

from kem_pymc.compiled import compiled
from kem_pymc.evolution.moves.births import draw_birth, log_birth
from kem_pymc.evolution.moves.kernel_change import commit, member_reach, propose_likelihoods
from kem_pymc.evolution.state import (
    ADD,
    REMOVE,
    SWAP,
    active_candidates,
    close_processes,
    kernel_log_prior,
    process_of_parent,
)

#: Share of proposals that change the noise along with the composition, and by how much.
NOISE_SHARE, NOISE_STEP = 0.5, 0.5


@compiled
def action_probabilities(size, candidates, p_add, p_remove, p_swap):
    """Return the probabilities of adding, removing and swapping at a composition's size.

    An empty composition can only grow and a full one only shrink; the probability of what is
    impossible goes to doing nothing of the kind (paper, 10.3.3), but for an empty composition
    adding takes over what removing and swapping had.
    """
    if size == 0:
        return p_add + p_remove + p_swap, 0.0, 0.0
    if size == candidates:
        return 0.0, p_remove, 0.0
    return p_add, p_remove, p_swap


@compiled
def nth(included, value, n):
    """Return the index of the n-th candidate that is in (value True) or out (False)."""
    for c in range(included.shape[0]):
        if included[c] == value:
            if n == 0:
                return c
            n -= 1
    return -1


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
def change_composition(study, state, slot, joint, p_add, p_remove, p_swap, rng):
    """Propose another composition for a slot (and its component, if joint); return acceptance.

    `p_add`, `p_remove` and `p_swap` are relative: a proposal is always made, except where a
    full composition leaves some of them impossible.
    """
    candidates = state.included.shape[1]
    old = state.included[slot].copy()
    active = active_candidates(old)
    size = active.shape[0]
    add, remove, swap = action_probabilities(size, candidates, p_add, p_remove, p_swap)
    u = rng.random() * (p_add + p_remove + p_swap)
    removed, added = -1, -1
    log_choice = 0.0
    if u < add:
        move = ADD
        added = nth(old, False, int(rng.random() * (candidates - size)))
        back = action_probabilities(size + 1, candidates, p_add, p_remove, p_swap)[1]
        log_choice = math.log(back / (size + 1)) - math.log(add / (candidates - size))
    elif u < add + remove:
        move = REMOVE
        removed = active[int(rng.random() * size)]
        back = action_probabilities(size - 1, candidates, p_add, p_remove, p_swap)[0]
        log_choice = math.log(back / (candidates - size + 1)) - math.log(remove / size)
    elif u < add + remove + swap:
        move = SWAP
        removed = active[int(rng.random() * size)]
        added = nth(old, False, int(rng.random() * (candidates - size)))
    else:
        return False
    state.counts[2 + 2 * move] += 1

    slots = state.included.shape[0]
    changed = np.zeros(slots, dtype=np.bool_)
    moved = np.zeros(slots, dtype=np.bool_)
    changed[slot] = True
    if joint and not closure(study, state, slot, changed, moved):
        return False
    new = old.copy()
    if removed >= 0:
        new[removed] = False
    if added >= 0:
        new[added] = True

    source, target, migrants = -1, -1, 0
    for k in range(state.sizes[0]):
        if moved[state.live[k]]:
            migrants += state.occupants[state.live[k]]
    log_seating = 0.0
    if migrants > 0:
        alpha = study.concentration
        source, target = process_of_parent(state, old), process_of_parent(state, new)
        n, m = state.members[source], state.members[target]
        log_seating += rising(alpha, n) - rising(alpha, n - migrants)
        log_seating -= rising(alpha, m + migrants) - rising(alpha, m)

    accepted = _change(
        study, state, changed, moved, old, new, target, removed, added, log_choice, log_seating, rng
    )
    if accepted:
        if migrants > 0:
            state.members[source] -= migrants
            state.members[target] += migrants
        state.counts[3 + 2 * move] += 1
    close_processes(state)
    return accepted


@compiled
def _affected(state, changed, moved):
    """Return the slots of S and D in order of slot, so that both directions agree on the first."""
    found = np.empty(state.sizes[0], dtype=np.int64)
    n = 0
    for slot in range(changed.shape[0]):
        if changed[slot] or moved[slot]:
            found[n] = slot
            n += 1
    return found[:n]


@compiled
def _change(
    study, state, changed, moved, old, new, target, removed, added, log_choice, log_seating, rng
):
    """Draw what is new, complete the ratio, and apply the change if it is accepted."""
    affected = _affected(state, changed, moved)
    n = affected.shape[0]
    h = state.h[affected]
    log_noise = state.log_noise[affected]
    log_prior = np.empty(n)
    density_change = log_seating
    first = n
    for i in range(n):
        slot = affected[i]
        if changed[slot]:
            first = min(first, i)
            if added >= 0:
                draw_birth(study, state, added, old, changed, first, h, i, rng)
                log_choice -= log_birth(study, state, added, old, changed, first, h, i)
            if removed >= 0:
                log_choice += log_birth(study, state, removed, new, changed, first, h, i)
            if rng.random() < NOISE_SHARE:
                log_noise[i] += NOISE_STEP * rng.normal()
        included = new if changed[slot] else state.included[slot]
        process = target if moved[slot] else state.process[slot]
        parent = state.parent[process]
        log_prior[i] = kernel_log_prior(study, parent, included, h[i], log_noise[i])
        density_change += log_prior[i] - state.log_prior[slot]
    if density_change == -math.inf:
        return False
    users, steps = state.log_likelihood.shape[1:]
    reach = np.zeros((n, users), dtype=np.int64)
    proposed = np.empty((n, users, steps))
    for i in range(n):
        slot = affected[i]
        if changed[slot]:
            reach[i] = member_reach(study, state, slot)
            density_change += propose_likelihoods(
                study, state, slot, new, h[i], log_noise[i], reach[i], proposed[i]
            )
    if not math.log(rng.random()) < log_choice + density_change:
        return False
    state.log_density[0] += density_change
    for i in range(n):
        slot = affected[i]
        state.log_prior[slot] = log_prior[i]
        if moved[slot]:
            state.process[slot] = target
        if changed[slot]:
            state.included[slot] = new
            state.h[slot] = h[i]
            state.log_noise[slot] = log_noise[i]
            commit(state, slot, reach[i], proposed[i])
    return True
