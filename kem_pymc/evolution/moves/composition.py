"""Add, remove or swap a candidate of a cluster's composition (or its component's, if joint).

The candidates that stay keep their values; those of one that enters are proposed as in
:mod:`~kem_pymc.evolution.moves.births`. What changes together, and the ratio, are described in
:mod:`~kem_pymc.evolution.moves.component`.
"""

import math

from kem_pymc.compiled import compiled
from kem_pymc.evolution.moves.births import draw_birth, log_birth
from kem_pymc.evolution.moves.component import change_to, complete, component
from kem_pymc.evolution.state import ADD, REMOVE, SWAP, active_candidates

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
def neighbour(included, p_add, p_remove, p_swap, rng):
    """Choose a candidate to remove and one to add (-1: none) from a composition.

    Returns
    -------
    removed, added : int
        Both -1 where the composition is full or empty and what was drawn is impossible.
    log_choice : float
        Log probability of the reverse choice minus that of this one.
    """
    candidates = included.shape[0]
    active = active_candidates(included)
    size = active.shape[0]
    add, remove, swap = action_probabilities(size, candidates, p_add, p_remove, p_swap)
    u = rng.random() * (p_add + p_remove + p_swap)
    removed, added = -1, -1
    log_choice = 0.0
    if u < add:
        added = nth(included, False, int(rng.random() * (candidates - size)))
        back = action_probabilities(size + 1, candidates, p_add, p_remove, p_swap)[1]
        log_choice = math.log(back / (size + 1)) - math.log(add / (candidates - size))
    elif u < add + remove:
        removed = active[int(rng.random() * size)]
        back = action_probabilities(size - 1, candidates, p_add, p_remove, p_swap)[0]
        log_choice = math.log(back / (candidates - size + 1)) - math.log(remove / size)
    elif u < add + remove + swap:
        removed = active[int(rng.random() * size)]
        added = nth(included, False, int(rng.random() * (candidates - size)))
    return removed, added, log_choice


@compiled
def neighbour_probability(included, wanted, p_add, p_remove, p_swap):
    """Return the probability that `neighbour` leads from one composition to another."""
    candidates = included.shape[0]
    size, removed, added = 0, 0, 0
    for c in range(candidates):
        size += included[c]
        removed += included[c] and not wanted[c]
        added += wanted[c] and not included[c]
    add, remove, swap = action_probabilities(size, candidates, p_add, p_remove, p_swap)
    probability = 0.0
    if removed == 0 and added == 1:
        probability = add / (candidates - size)
    elif removed == 1 and added == 0:
        probability = remove / size
    elif removed == 1 and added == 1:
        probability = swap / (size * (candidates - size))
    return probability / (p_add + p_remove + p_swap)


@compiled
def change_composition(study, state, slot, joint, p_add, p_remove, p_swap, rng):
    """Propose another composition for a slot (and its component, if joint); return acceptance.

    `p_add`, `p_remove` and `p_swap` are relative: a proposal is always made, except where a
    full composition leaves some of them impossible.
    """
    old = state.included[slot].copy()
    removed, added, log_ratio = neighbour(old, p_add, p_remove, p_swap, rng)
    if removed < 0 and added < 0:
        return False
    move = SWAP if removed >= 0 and added >= 0 else (ADD if added >= 0 else REMOVE)
    state.counts[2 + 2 * move] += 1
    possible, changed, moved = component(study, state, slot, joint)
    if not possible:
        return False
    new = old.copy()
    if removed >= 0:
        new[removed] = False
    if added >= 0:
        new[added] = True
    change = change_to(state, changed, moved, old, new)
    h, first = change.h, -1
    for i in range(change.slots.shape[0]):
        if not changed[change.slots[i]]:
            continue
        first = i if first < 0 else first
        if added >= 0:
            draw_birth(study, state, added, old, changed, first, h, i, rng)
            log_ratio -= log_birth(study, state, added, old, changed, first, h, i)
        if removed >= 0:
            log_ratio += log_birth(study, state, removed, new, changed, first, h, i)
        if rng.random() < NOISE_SHARE:
            change.log_noise[i] += NOISE_STEP * rng.normal()
    accepted = complete(study, state, change, log_ratio, rng)
    state.counts[3 + 2 * move] += accepted
    return accepted
