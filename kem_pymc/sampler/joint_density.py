"""The joint density of the Kernel Evolution Model, and its forward simulator.

    p(Z, K, theta, sigma^2) = prod_P [ alpha^C_P prod_c (n_c - 1)! / prod_{i < N_P} (alpha + i) ]
                              prod_c G_P(K_c, theta_c, sigma_c^2)
    p(y | ...)              = prod_{u,t} N(y_{u,t}; 0, K_c(X_{u,t}, X_{u,t}) + sigma_c^2 I)

under the cumulative likelihood, where y_{u,t} holds all of a user's targets so far; under the
sequential one the factor of (u, t) is the density of the last batch given the points before it,

    p(y_{u,t} | y_{u,t-1}) = N(y_{u,t}; 0, K_c + sigma_c^2 I) / N(y_{u,t-1}; 0, K_c + sigma_c^2 I)

with both densities under the kernel c of (u, t), and their product is a density of all targets.
There is one process for every parent composition P. Hyperparameters of candidates that are out are
integrated out. If alpha is learned, the prior of its log is a factor, too; if priors have
population parameters, so are the priors of their unconstrained coordinates. The sampler, the PyMC
model, ``prior_predictive`` and the tests all use this module.
"""

import math

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc._system.jit.simd import padded
from kem_pymc.gp.cholesky import forward_substitution
from kem_pymc.gp.covariance import covariance
from kem_pymc.gp.likelihood import add_upper, factorise, first_point
from kem_pymc.sampler.state import (
    CompiledModel,
    State,
    allocate_cluster,
    attach,
    by_time_step,
    candidate_log_prior,
    change_concentration,
    cluster_log_likelihood,
    concentration_log_prior,
    dp_above,
    draw_candidate,
    draw_kernel,
    draw_noise,
    empty_state,
    free_cluster,
    inclusion_log_prior,
    noise_log_prior,
    pick,
    population_log_prior,
)

#: Smallest value of alpha, so that its log is finite.
SMALLEST = 1e-300


@compiled
def log_assignments(model, state):
    """Return the log probability of assignments and compositions, computed from scratch."""
    total = 0.0
    alpha = state.concentration[0]
    for p in range(state.used.shape[0]):
        members = 0
        for k in range(state.sizes[0]):
            cluster = state.live[k]
            if state.dp[cluster] == p:
                members += state.occupants[cluster]
                total += math.log(alpha) + math.lgamma(state.occupants[cluster])
                total += inclusion_log_prior(model, state.parent[p], state.included[cluster])
        total += math.lgamma(alpha) - math.lgamma(alpha + members)
    return total


@compiled
def log_kernels(model, state):
    """Return the log density of clusters' hyperparameters and noise, given their compositions."""
    total = 0.0
    for k in range(state.sizes[0]):
        cluster = state.live[k]
        total += noise_log_prior(model, state.parent[state.dp[cluster]], state.log_noise[cluster])
        for c in np.flatnonzero(state.included[cluster]):
            total += candidate_log_prior(model, c, state.theta_unconstrained[cluster])
    return total


@compiled
def log_likelihoods(model, state):
    """Compute the log likelihoods (U, T) of all datasets from scratch; 0 where there is none."""
    users, n_steps = model.data.ends.shape
    out = np.zeros((users, n_steps))
    scratch = np.empty(n_steps)
    counts = np.zeros(2, dtype=np.int64)
    for d in range(state.assignment.shape[0]):
        cluster, user, time_step = state.assignment[d], model.user[d], model.time_step[d]
        cluster_log_likelihood(model, state, cluster, user, time_step + 1, scratch, counts)
        out[user, time_step] = scratch[time_step]
    return out


@compiled
def log_joint(model, state):
    """Compute the log joint density, with the likelihood power, from scratch."""
    total = concentration_log_prior(model, state.concentration[0]) + population_log_prior(model)
    total += log_assignments(model, state) + log_kernels(model, state)
    if model.power > 0.0:
        total += model.power * np.sum(log_likelihoods(model, state))
    return total


@compiled
def draw_gamma(shape, rate, rng):
    """Draw from a Gamma distribution; draws below `SMALLEST` are replaced by it."""
    return max(rng.gamma(shape, 1.0 / rate), SMALLEST)


@compiled
def draw_concentration(model, state, rng):
    """Draw alpha from its prior, if it is learned."""
    if model.concentration_shape > 0.0:
        alpha = draw_gamma(model.concentration_shape, model.concentration_rate, rng)
        change_concentration(model, state, alpha)


@compiled
def draw_population(model, state, rng):
    """Draw the population parameters from their priors, before any cluster is drawn."""
    priors = model.priors
    state.log_density[0] -= population_log_prior(model)
    for i in range(priors.population.shape[0]):
        v = priors.draw(priors.population_entry[i], rng, priors.population)
        priors.population[i] = math.exp(v) if priors.population_positive[i] else v
    state.log_density[0] += population_log_prior(model)


@compiled
def assign_from_prior(model, state, dataset, rng):
    """Assign a dataset by the Chinese restaurant process; the kernel of a new cluster is from G."""
    dp = dp_above(model, state, dataset)
    log_weights = np.empty(state.sizes[0] + 1)
    clusters = np.empty(state.sizes[0] + 1, dtype=np.int64)
    n = 0
    for k in range(state.sizes[0]):
        cluster = state.live[k]
        if state.dp[cluster] == dp:
            log_weights[n] = math.log(state.occupants[cluster])
            clusters[n] = cluster
            n += 1
    clusters[n] = allocate_cluster(state)
    log_weights[n] = math.log(state.concentration[0])
    chosen = pick(log_weights, n + 1, rng)
    if chosen == n:
        draw_kernel(model, state, dp, clusters[n], rng)
    else:
        free_cluster(state, clusters[n])
    attach(model, state, dataset, clusters[chosen])


@compiled
def _simulate(model, state, rng):
    draw_concentration(model, state, rng)
    if model.priors.population.shape[0] > 0:
        draw_population(model, state, rng)
    # Time step by time step, because a dataset's process depends on the time step before.
    for dataset in by_time_step(model):
        assign_from_prior(model, state, dataset, rng)


def simulate(model: CompiledModel, rng: np.random.Generator) -> State:
    """Draw assignments and kernels of all datasets from the prior.

    alpha, if it is learned, and the population parameters are drawn first; the latter are written
    to the array of the model.

    Parameters
    ----------
    model : CompiledModel
        Model whose priors are used; its likelihood power is ignored.
    rng : numpy.random.Generator

    Returns
    -------
    State
        State with a single spare cluster; its running log density doesn't contain the likelihood.
    """
    prior = model._replace(power=0.0)
    state = empty_state(prior, spare_clusters=1, spare_dps=0)
    _simulate(prior, state, rng)
    return state


@compiled
def simulate_targets(model, state, rng):
    """Draw the targets (U, T, n) of every dataset given its kernel.

    The cumulative likelihood treats the datasets of a user as separate draws (paper, section 5.2).
    Under the sequential one a dataset begins with the targets of the one before, and the rest is
    drawn given these. The mean of the part that users share isn't included.
    """
    users, n_steps = model.data.ends.shape
    out = np.zeros((users, n_steps, model.data.x.shape[2]))
    counts = np.zeros(2, dtype=np.int64)
    for d in range(state.assignment.shape[0]):
        cluster, user, time_step = state.assignment[d], model.user[d], model.time_step[d]
        n = model.data.ends[user, time_step]
        a = np.empty((n, padded(n)))
        active, theta = np.flatnonzero(state.included[cluster]), state.theta_unconstrained[cluster]
        x = np.ascontiguousarray(model.data.x[user, :, :n])
        covariance(model.kernels, model.layout, active, theta, x, a, np.empty_like(a))
        if model.data.known.shape[0] > 0:
            add_upper(a, model.data.known[user])
        factors = model.data.factors[user] if model.data.factors.shape[0] > 0 else np.empty(0)
        if factorise(a, state.log_noise[cluster], factors, counts) < n:
            raise RuntimeError("A covariance drawn from the prior is not positive definite.")
        # Targets are U' z. Known targets determine the first entries of z; the rest is normal.
        z = np.empty(n)
        first = first_point(model.data, user, time_step)
        forward_substitution(a, out[user, time_step - 1], first, z)
        for k in range(first, n):
            z[k] = rng.normal()
        for k in range(n):
            for j in range(max(k, first), n):
                out[user, time_step, j] += a[k, j] * z[k]
        out[user, time_step, :first] = out[user, time_step - 1, :first]
    return out


@compiled
def draw_kernels(model, state, rng):
    """Draw hyperparameters and noise of all clusters from the prior, given their compositions."""
    for k in range(state.sizes[0]):
        cluster = state.live[k]
        for c in np.flatnonzero(state.included[cluster]):
            draw_candidate(model, c, rng, state.theta_unconstrained[cluster])
        parent = state.parent[state.dp[cluster]]
        state.log_noise[cluster] = draw_noise(model, parent, rng)


@compiled
def kernel_terms(model, state):
    """Return the log densities (2,) of all clusters' hyperparameters and of their noise.

    Both are densities of unconstrained coordinates.
    """
    out = np.zeros(2)
    for k in range(state.sizes[0]):
        cluster = state.live[k]
        parent = state.parent[state.dp[cluster]]
        inclusion = inclusion_log_prior(model, parent, state.included[cluster])
        noise = noise_log_prior(model, parent, state.log_noise[cluster])
        out[0] += state.log_prior[cluster] - inclusion - noise
        out[1] += noise
    return out
