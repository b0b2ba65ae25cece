"""Random-walk Metropolis updates of the hyperparameters and the noise of one cluster.

Steps are taken in unconstrained coordinates, in units of min(prior sd, 1). The scale of each step
is drawn from a log-uniform distribution, so no scale has to be tuned and nothing adapts. A schedule
may contain the paper's steps instead: all coordinates at once, with one standard deviation.
"""

import math

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.sampler.moves.kernel_change import commit, member_reach, propose_likelihoods
from kem_pymc.sampler.state import (
    HYPERPARAMETERS,
    hyperparameter_places,
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
def random_walk(model, state, cluster, scale, rng):
    """Propose new hyperparameters or a new noise for an occupied cluster; return acceptance.

    `scale` is the standard deviation of the paper's steps; if it is zero, the scale is random.
    """
    places = hyperparameter_places(model.layout, state.included[cluster])
    size = places.shape[0]
    theta = state.theta_unconstrained[cluster].copy()
    log_noise = state.log_noise[cluster]
    paper, jointly = scale > 0.0, True
    if not paper:
        scale = random_scale(rng)
        jointly = rng.random() < JOINTLY
        if jointly:
            scale /= math.sqrt(size + 1.0)
    chosen = int(rng.random() * (size + 1))
    for k in range(size):
        if jointly or k == chosen:
            unit = 1.0 if paper else model.priors.scale[places[k]]
            theta[places[k]] += scale * unit * rng.normal()
    if jointly or chosen == size:
        log_noise += scale * rng.normal()
    state.proposed[HYPERPARAMETERS] += 1

    parent = state.parent[state.dp[cluster]]
    log_prior = kernel_log_prior(model, parent, state.included[cluster], theta, log_noise)
    log_ratio = log_prior - state.log_prior[cluster]
    threshold = math.log(rng.random())
    if log_ratio == -math.inf:
        return False
    reach = member_reach(model, state, cluster)
    proposed = np.empty(state.log_likelihood.shape[1:])
    log_ratio += propose_likelihoods(
        model, state, cluster, state.included[cluster], theta, log_noise, reach, proposed
    )
    if not threshold < log_ratio:
        return False
    state.log_density[0] += log_ratio
    state.theta_unconstrained[cluster] = theta
    state.log_noise[cluster] = log_noise
    state.log_prior[cluster] = log_prior
    commit(state, cluster, reach, proposed)
    state.accepted[HYPERPARAMETERS] += 1
    return True
