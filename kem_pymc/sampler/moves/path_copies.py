"""Copy all clusters on a user's path: compositions and values of the copies, and their density.

The composition of a copy is the symmetric difference of its original's composition and a set D of
candidates. All clusters on a path share D, so every copy lies in the process of the composition
before it on the path. Unless stated otherwise, `whole` (t,) are the slots that are copied, `leave`
(t,) the copies, and `visits` (k,) the time steps at which the path visits each slot for the first
time.
"""

import math

import numpy as np

from kem_pymc._jit.decorators import compiled
from kem_pymc.sampler.moves.births import draw_birth, log_birth
from kem_pymc.sampler.moves.copies import Spread, draw_copy, log_copy, same_origins
from kem_pymc.sampler.moves.extension import extensions, keep_shared
from kem_pymc.sampler.state import (
    active_candidates,
    allocate_slot,
    draw_value,
    inclusion_log_prior,
    kernel_changed,
    process_of_parent,
    value_log_prior,
)

#: Probabilities that D is empty, that it is one candidate, and that it is two candidates that
#: differ by a factor, one of which the first original has. Otherwise D is such that the composition
#: of the first copy is a draw from the prior.
SAME, ONE, FACTOR = 0.1, 0.4, 0.25

SPREAD = Spread(prior=0.2, fine=0.3, coarse=0.7)

#: Origin of the values of a factor that only the copy has.
NEW_FACTOR = -2


@compiled
def draw_difference(study, included, rng):
    """Draw the set D (C,) bool, given the composition of the first original."""
    candidates = included.shape[0]
    difference = np.zeros(candidates, dtype=np.bool_)
    u = rng.random()
    if u < SAME:
        return difference
    if u < SAME + ONE:
        difference[int(rng.random() * candidates)] = True
    elif u < SAME + ONE + FACTOR:
        active = active_candidates(included)
        if active.shape[0] > 0:
            candidate = active[int(rng.random() * active.shape[0])]
            partners = extensions(study.layout, included, candidate)[:, 0]
            if partners.shape[0] > 0:
                difference[candidate] = True
                difference[partners[int(rng.random() * partners.shape[0])]] = True
    else:
        for c in range(candidates):
            difference[c] = (rng.random() < study.priors.enter[c]) != included[c]
    return difference


@compiled
def log_difference(study, included, difference):
    """Return the log probability that `draw_difference` draws a set D."""
    size = np.sum(difference)
    active = active_candidates(included)
    root = np.zeros_like(included)
    log_prior = inclusion_log_prior(study, root, included != difference)
    probability = (1.0 - SAME - ONE - FACTOR) * math.exp(log_prior)
    if size == 0:
        probability += SAME
        if active.shape[0] == 0:
            probability += FACTOR
    elif size == 1:
        probability += ONE / included.shape[0]
    for candidate in active:
        partners = extensions(study.layout, included, candidate)[:, 0]
        share = 0.0
        if partners.shape[0] == 0:
            share += size == 0
        elif size == 2 and difference[candidate]:
            share += np.sum(difference[partners]) / partners.shape[0]
        probability += share * FACTOR / active.shape[0]
    return math.log(probability)


@compiled
def origins_of(study, own, included):
    """Return the origins of a copy's values, and the candidates that have no origin.

    Candidates that are in both compositions keep their values up to jitter. A new candidate that
    differs by a factor from one that the copy lacks takes over the values that they share, up to
    jitter; values of a factor that it adds are drawn from the prior.

    Parameters
    ----------
    own, included : (C,) bool
        Compositions of the original and of the copy.

    Returns
    -------
    origins : (H,) int64
        Index of the value of the original that each value is a copy of; negative for the others.
    new : (C,) bool
        Indicators of new candidates without values to copy.
    """
    layout = study.layout
    origins = same_origins(study, own & included)
    new = included & ~own
    for candidate in active_candidates(own & ~included):
        choices = extensions(layout, own, candidate)
        for k in range(choices.shape[0]):
            other, factor = choices[k]
            if new[other]:
                places = np.arange(origins.shape[0])
                keep_shared(layout, candidate, other, factor, places)
                for p in range(layout.hyper_start[other], layout.hyper_start[other + 1]):
                    origins[p] = places[p] if places[p] != p else NEW_FACTOR
                new[other] = False
                break
    return origins, new


@compiled
def first_visits(path):
    """Return the time steps (k,) at which a path visits a slot for the first time."""
    found = np.empty(path.shape[0], dtype=np.int64)
    n = 0
    for t in range(path.shape[0]):
        if not np.any(path[:t] == path[t]):
            found[n] = t
            n += 1
    return found[:n]


@compiled
def open_path(state, path, visits, difference):
    """Return a path (t,) of new slots like those on a path, with compositions changed by D."""
    opened = np.empty(path.shape[0], dtype=np.int64)
    for t in visits:
        origin, slot = path[t], allocate_slot(state)
        opened[path == origin] = slot
        process = 0
        if t > 0:
            process = process_of_parent(state, state.parent[state.process[origin]] != difference)
        state.process[slot] = process
        state.included[slot] = state.included[origin] != difference
        state.h[slot] = state.h[origin]
        state.log_noise[slot] = state.log_noise[origin]
        state.log_prior[slot] = state.log_prior[origin]
        state.valid[slot] = state.valid[origin]
        state.log_likelihood[slot] = state.log_likelihood[origin]
    return opened


@compiled
def draw_values(study, state, whole, leave, visits, changed, rng):
    """Draw the values of copies.

    Parameters
    ----------
    changed : (S,) bool
        Indicators of the slots on the paths that the move changes, from which the values of new
        candidates aren't copied.
    """
    h = state.h[whole[visits]]
    for k in range(visits.shape[0]):
        slot, origin = leave[visits[k]], whole[visits[k]]
        parent, own = state.parent[state.process[slot]], state.included[origin]
        origins, new = origins_of(study, own, state.included[slot])
        source, noise = state.h[origin], state.log_noise[origin]
        state.log_noise[slot] = draw_copy(study, SPREAD, origins, parent, h[k], source, noise, rng)
        for p in np.flatnonzero(origins == NEW_FACTOR):
            h[k, p] = draw_value(study, p, rng)
        for c in active_candidates(new):
            draw_birth(study, state, c, own, changed, 0, h, k, rng)
        state.h[slot] = h[k]
        kernel_changed(study, state, slot)


@compiled
def log_copies(study, state, whole, leave, visits, changed):
    """Return the log density of proposing copies: D, and the values that `draw_values` draws."""
    included = state.included[whole[0]]
    total = log_difference(study, included, included != state.included[leave[0]])
    h = state.h[whole[visits]]
    for k in range(visits.shape[0]):
        slot, origin = leave[visits[k]], whole[visits[k]]
        parent, own = state.parent[state.process[slot]], state.included[origin]
        for c in active_candidates(state.included[slot]):
            start, stop = study.layout.hyper_start[c], study.layout.hyper_start[c + 1]
            h[k, start:stop] = state.h[slot, start:stop]
        origins, new = origins_of(study, own, state.included[slot])
        source, noise = state.h[origin], state.log_noise[origin]
        total += log_copy(
            study, SPREAD, origins, parent, h[k], state.log_noise[slot], source, noise
        )
        for p in np.flatnonzero(origins == NEW_FACTOR):
            total += value_log_prior(study, p, h[k, p])
        for c in active_candidates(new):
            total += log_birth(study, state, c, own, changed, 0, h, k)
    return total


@compiled
def shift(study, state, path, leave, visits, factors):
    """Move the values on a path by `factors` (k,) times the difference to those of their copies.

    Returns
    -------
    float
        Log Jacobian given the copies: the sum over clusters of d log(1 - factor), with d the number
        of values that move.
    """
    log_jacobian = 0.0
    for k in range(visits.shape[0]):
        slot, other, factor = path[visits[k]], leave[visits[k]], factors[k]
        if factor == 0.0:
            continue
        origins = origins_of(study, state.included[slot], state.included[other])[0]
        moved = 1
        for p in range(origins.shape[0]):
            if origins[p] >= 0:
                value = state.h[slot, origins[p]]
                state.h[slot, origins[p]] += factor * (state.h[other, p] - value)
                moved += 1
        state.log_noise[slot] += factor * (state.log_noise[other] - state.log_noise[slot])
        log_jacobian += moved * math.log1p(-factor)
        kernel_changed(study, state, slot)
    return log_jacobian
