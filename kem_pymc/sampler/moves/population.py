"""Update the population parameters of the priors by univariate slice sampling (Neal 2003).

Given the clusters, the parameters phi depend only on the kernels. With c over all occupied
clusters, p over the hyperparameters of the candidates that are in, and P_c the parent of c,

    p(phi | .) ~ prod_i p(phi_i) prod_c [ prod_p p(theta_cp | phi) ] p(sigma_c^2 | P_c, phi).

Every cluster counts once, however many datasets it holds. One parameter after the other is redrawn
from its conditional density f, which contains only the priors that depend on phi_i. In the
parameter's unconstrained coordinate x, with the Jacobian in f:

1. A height h = f(x) u is drawn, with u ~ U(0, 1).
2. An interval of width w is placed at random around x. It is extended by w at each end while f is
   above h there, up to a width of m w in all.
3. Points are drawn from the interval until one has f of at least h. Every other point becomes the
   end of the interval on its side.

Neal shows that this leaves f invariant for any w and m; w is the prior standard deviation of the
coordinate.
"""

import math

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.sampler.state import (
    cluster_log_prior,
    hyperparameter_places,
    noise_log_prior,
    population_log_prior,
    population_term,
    value_log_prior,
)

#: m: the largest width of an interval, in units of w.
MOST = 64


@compiled
def log_conditional(model, state, i):
    """Return the log of the factors of the joint density that depend on one parameter."""
    priors = model.priors
    total = population_term(model, i)
    for k in range(state.sizes[0]):
        cluster = state.live[k]
        if priors.noise_uses[i]:
            parent = state.parent[state.dp[cluster]]
            total += noise_log_prior(model, parent, state.log_noise[cluster])
        for p in hyperparameter_places(model.layout, state.included[cluster]):
            if priors.uses[priors.entry[p], i]:
                total += value_log_prior(model, p, state.theta_unconstrained[cluster, p])
    return total


@compiled
def log_conditional_at(model, state, i, x):
    """Set a parameter from its coordinate x, and return the log of its conditional density."""
    priors = model.priors
    priors.population[i] = math.exp(x) if priors.population_positive[i] else x
    return log_conditional(model, state, i)


@compiled
def redraw_parameter(model, state, i, rng):
    """Redraw one parameter, given the others and the clusters."""
    value, width = model.priors.population[i], model.priors.population_width[i]
    x = math.log(value) if model.priors.population_positive[i] else value
    height = log_conditional_at(model, state, i, x) + math.log1p(-rng.random())
    if not math.isfinite(height):  # no point would ever be above it
        model.priors.population[i] = value
        return
    low = x - width * rng.random()
    high = low + width
    below = int(MOST * rng.random())
    above = MOST - 1 - below
    while below > 0 and height < log_conditional_at(model, state, i, low):
        low -= width
        below -= 1
    while above > 0 and height < log_conditional_at(model, state, i, high):
        high += width
        above -= 1
    while True:
        proposed = low + rng.random() * (high - low)
        # At x itself the density is at least the height, so this ends.
        if height <= log_conditional_at(model, state, i, proposed):
            return
        if proposed < x:
            low = proposed
        else:
            high = proposed


@compiled
def redraw_population(model, state, rng):
    """Redraw all population parameters given the clusters, in place in the model's array."""
    before = population_log_prior(model)
    for i in range(model.priors.population.shape[0]):
        redraw_parameter(model, state, i, rng)
    change = population_log_prior(model) - before
    for k in range(state.sizes[0]):
        cluster = state.live[k]
        log_prior = cluster_log_prior(model, state, cluster)
        change += log_prior - state.log_prior[cluster]
        state.log_prior[cluster] = log_prior
    state.log_density[0] += change
