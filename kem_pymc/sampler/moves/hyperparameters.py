"""Random-walk Metropolis updates of the hyperparameters and the noise of one cluster.

Steps are taken in unconstrained coordinates, in units of min(prior sd, 1). The scale of each step
is drawn from a log-uniform distribution, so no scale has to be tuned and nothing adapts. A schedule
may contain the paper's steps instead: all coordinates at once, with one standard deviation.
"""

import math

import numpy as np

from kem_pymc._jit.decorators import compiled
from kem_pymc.sampler.moves.kernel_change import commit, member_reach, propose_likelihoods
from kem_pymc.sampler.state import (
    HYPERPARAMETERS,
    active_candidates,
    kernel_log_prior,
)

SMALLEST_STEP, LARGEST_STEP = 0.03, 2.0

#: Probability that a proposal moves all coordinates at once.
JOINTLY = 0.3


@compiled
def random_scale(rng):
    """Return a step's scale, log-uniform between the smallest and the largest."""
    return SMALLEST_STEP * math.exp(rng.random() * math.log(LARGEST_STEP / SMALLEST_STEP))


@compiled
def random_walk(study, state, slot, step, rng):
    """Propose new hyperparameters or a new noise for an occupied slot; return acceptance.

    `step` is the standard deviation of the paper's steps; if it is zero, the scale is random.
    """
    layout = study.layout
    active = active_candidates(state.included[slot])
    places = 0
    for c in active:
        places += layout.hyper_start[c + 1] - layout.hyper_start[c]
    h = state.h[slot].copy()
    log_noise = state.log_noise[slot]
    scale, jointly = step, True
    if step == 0.0:
        scale = random_scale(rng)
        jointly = rng.random() < JOINTLY
        if jointly:
            scale /= math.sqrt(places + 1.0)
    chosen = int(rng.random() * (places + 1))
    k = 0
    for c in active:
        for p in range(layout.hyper_start[c], layout.hyper_start[c + 1]):
            if jointly or k == chosen:
                unit = study.priors.scale[p] if step == 0.0 else 1.0
                h[p] += scale * unit * rng.normal()
            k += 1
    if jointly or chosen == places:
        log_noise += scale * rng.normal()
    state.counts[2 + 2 * HYPERPARAMETERS] += 1

    parent = state.parent[state.process[slot]]
    log_prior = kernel_log_prior(study, parent, state.included[slot], h, log_noise)
    log_ratio = log_prior - state.log_prior[slot]
    threshold = math.log(rng.random())
    if log_ratio == -math.inf:
        return False
    reach = member_reach(study, state, slot)
    proposed = np.empty(state.log_likelihood.shape[1:])
    log_ratio += propose_likelihoods(
        study, state, slot, state.included[slot], h, log_noise, reach, proposed
    )
    if not threshold < log_ratio:
        return False
    state.log_density[0] += log_ratio
    state.h[slot] = h
    state.log_noise[slot] = log_noise
    state.log_prior[slot] = log_prior
    commit(state, slot, reach, proposed)
    state.counts[3 + 2 * HYPERPARAMETERS] += 1
    return True
