"""Add, remove or swap a candidate of a cluster's composition (or its component's, if joint).

Candidates that stay keep their values; values of a candidate that enters are proposed as in
:mod:`~kem_pymc.sampler.moves.births`. The clusters that change together, and the acceptance
ratio, are described in :mod:`~kem_pymc.sampler.moves.component`.
"""

import math
from typing import NamedTuple

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.sampler.moves.births import draw_birth, log_birth
from kem_pymc.sampler.moves.component import change_to, complete, component
from kem_pymc.sampler.state import ADD, REMOVE, SWAP

#: Probability that a proposal also changes the log noise of a cluster, and standard deviation of
#: that change.
NOISE_SHARE, NOISE_STEP = 0.5, 0.5


class Odds(NamedTuple):
    """Probabilities that a step changes a composition (paper, 10.3.3).

    Attributes
    ----------
    add, remove, swap : float
        Probabilities of the three changes where all of them are possible.
    edge : float
        Probability of adding to an empty composition, and of removing from a full one.
    """

    add: float
    remove: float
    swap: float
    edge: float


@compiled
def action_probabilities(size, candidates, odds):
    """Return the probabilities of adding, removing and swapping at a composition's size."""
    if size == 0:
        return odds.edge, 0.0, 0.0
    if size == candidates:
        return 0.0, odds.edge, 0.0
    return odds.add, odds.remove, odds.swap


@compiled
def probability_of_change(included, odds):
    """Return the probability that a step changes a composition."""
    add, remove, swap = action_probabilities(included.sum(), included.shape[0], odds)
    return add + remove + swap


@compiled
def exchanged(included, removed, added):
    """Return a composition without one candidate and with another; -1 stands for none."""
    new = included.copy()
    if removed >= 0:
        new[removed] = False
    if added >= 0:
        new[added] = True
    return new


@compiled
def neighbour(included, odds, rng):
    """Draw a change of a composition: a candidate to add, one to remove, or both.

    Returns
    -------
    removed, added : int
        Indices of the candidates; -1 if none is removed, or added.
    log_choice : float
        Log probability of the reverse step minus that of this one, both including the probability
        that a step changes the composition.
    """
    candidates = included.shape[0]
    inside, outside = np.flatnonzero(included), np.flatnonzero(~included)
    size = inside.shape[0]
    add, remove, swap = action_probabilities(size, candidates, odds)
    u = rng.random() * (add + remove + swap)
    removed, added = -1, -1
    log_choice = 0.0
    if u < add:
        added = outside[int(rng.random() * (candidates - size))]
        back = action_probabilities(size + 1, candidates, odds)[1]
        log_choice = math.log(back / (size + 1)) - math.log(add / (candidates - size))
    elif u < add + remove:
        removed = inside[int(rng.random() * size)]
        back = action_probabilities(size - 1, candidates, odds)[0]
        log_choice = math.log(back / (candidates - size + 1)) - math.log(remove / size)
    else:
        removed = inside[int(rng.random() * size)]
        added = outside[int(rng.random() * (candidates - size))]
    return removed, added, log_choice


@compiled
def neighbour_probability(included, wanted, odds):
    """Return the probability that `neighbour` changes `included` to the composition `wanted`."""
    candidates = included.shape[0]
    size, removed, added = included.sum(), (included & ~wanted).sum(), (wanted & ~included).sum()
    add, remove, swap = action_probabilities(size, candidates, odds)
    probability = 0.0
    if removed == 0 and added == 1:
        probability = add / (candidates - size)
    elif removed == 1 and added == 0:
        probability = remove / size
    elif removed == 1 and added == 1:
        probability = swap / (size * (candidates - size))
    return probability / (add + remove + swap)


@compiled
def change_composition(model, state, cluster, joint, odds, rng):
    """Propose another composition for a cluster (and its component, if joint); return acceptance.

    The acceptance ratio is correct if this function is called with the probability
    `probability_of_change`. It is also correct if neither the probability of the call nor
    `probability_of_change` under these odds depends on the composition.
    """
    old = state.included[cluster].copy()
    removed, added, log_ratio = neighbour(old, odds, rng)
    move = SWAP if removed >= 0 and added >= 0 else (ADD if added >= 0 else REMOVE)
    state.proposed[move] += 1
    possible, changed, moved = component(model, state, cluster, joint)
    if not possible:
        return False
    new = exchanged(old, removed, added)
    change = change_to(state, changed, moved, old, new)
    theta, first = change.theta, change.first
    for i in range(change.clusters.shape[0]):
        if not changed[change.clusters[i]]:
            continue
        if added >= 0:
            draw_birth(model, state, added, old, changed, first, theta, i, rng)
            log_ratio -= log_birth(model, state, added, old, changed, first, theta, i)
        if removed >= 0:
            log_ratio += log_birth(model, state, removed, new, changed, first, theta, i)
        if rng.random() < NOISE_SHARE:
            change.log_noise[i] += NOISE_STEP * rng.normal()
    accepted = complete(model, state, change, log_ratio, rng)
    state.accepted[move] += accepted
    return accepted
