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

from kem_pymc._jit.decorators import compiled
from kem_pymc._jit.simd import padded
from kem_pymc.gp.cholesky import forward_substitution
from kem_pymc.gp.covariance import covariance
from kem_pymc.gp.likelihood import add_upper, factorise, first_point, prefix_log_likelihood
from kem_pymc.sampler.state import (
    CompiledModel,
    State,
    active_candidates,
    allocate_slot,
    attach,
    candidate_log_prior,
    change_concentration,
    concentration_log_prior,
    draw_candidate,
    draw_kernel,
    draw_noise,
    empty_state,
    free_slot,
    inclusion_log_prior,
    noise_log_prior,
    pick,
    population_log_prior,
    process_above,
)

#: Smallest value of alpha, so that its log is finite.
SMALLEST = 1e-300


@compiled
def log_assignments(study, state):
    """Return the log probability of assignments and compositions, computed from scratch."""
    total = 0.0
    alpha = state.concentration[0]
    for p in range(state.used.shape[0]):
        members = 0
        for k in range(state.sizes[0]):
            slot = state.live[k]
            if state.process[slot] == p:
                members += state.occupants[slot]
                total += math.log(alpha) + math.lgamma(state.occupants[slot])
                total += inclusion_log_prior(study, state.parent[p], state.included[slot])
        total += math.lgamma(alpha) - math.lgamma(alpha + members)
    return total


@compiled
def log_kernels(study, state):
    """Return the log density of clusters' hyperparameters and noise, given their compositions."""
    total = 0.0
    for k in range(state.sizes[0]):
        slot = state.live[k]
        total += noise_log_prior(study, state.parent[state.process[slot]], state.log_noise[slot])
        for c in range(state.included.shape[1]):
            if state.included[slot, c]:
                total += candidate_log_prior(study, c, state.h[slot])
    return total


@compiled
def log_likelihoods(study, state):
    """Compute the log likelihoods (U, T) of all datasets from scratch; 0 where there is none."""
    users, steps = study.data.ends.shape
    out = np.zeros((users, steps))
    scratch = np.empty(steps)
    counts = np.zeros(2, dtype=np.int64)
    for d in range(state.assignment.shape[0]):
        slot, user, step = state.assignment[d], study.user[d], study.step[d]
        prefix_log_likelihood(
            study.kernels,
            study.layout,
            active_candidates(state.included[slot]),
            state.h[slot],
            state.log_noise[slot],
            study.data,
            user,
            step + 1,
            scratch,
            counts,
        )
        out[user, step] = scratch[step]
    return out


@compiled
def log_joint(study, state):
    """Compute the log joint density, with the likelihood power, from scratch."""
    total = concentration_log_prior(study, state.concentration[0]) + population_log_prior(study)
    total += log_assignments(study, state) + log_kernels(study, state)
    if study.power > 0.0:
        total += study.power * np.sum(log_likelihoods(study, state))
    return total


@compiled
def draw_gamma(shape, rate, rng):
    """Draw from a Gamma distribution; draws below `SMALLEST` are replaced by it."""
    return max(rng.gamma(shape, 1.0 / rate), SMALLEST)


@compiled
def draw_concentration(study, state, rng):
    """Draw alpha from its prior, if it is learned."""
    if study.concentration_shape > 0.0:
        alpha = draw_gamma(study.concentration_shape, study.concentration_rate, rng)
        change_concentration(study, state, alpha)


@compiled
def draw_population(study, state, rng):
    """Draw the population parameters from their priors, before any cluster is drawn."""
    priors = study.priors
    state.log_density[0] -= population_log_prior(study)
    for i in range(priors.population.shape[0]):
        v = priors.draw(priors.population_entry[i], rng, priors.population)
        priors.population[i] = math.exp(v) if priors.population_positive[i] else v
    state.log_density[0] += population_log_prior(study)


@compiled
def assign_from_prior(study, state, dataset, rng):
    """Assign a dataset by the Chinese restaurant process; the kernel of a new cluster is from G."""
    process = process_above(study, state, dataset)
    log_weights = np.empty(state.sizes[0] + 1)
    slots = np.empty(state.sizes[0] + 1, dtype=np.int64)
    n = 0
    for k in range(state.sizes[0]):
        slot = state.live[k]
        if state.process[slot] == process:
            log_weights[n] = math.log(state.occupants[slot])
            slots[n] = slot
            n += 1
    slots[n] = allocate_slot(state)
    log_weights[n] = math.log(state.concentration[0])
    chosen = pick(log_weights, n + 1, rng)
    if chosen == n:
        draw_kernel(study, state, process, slots[n], rng)
    else:
        free_slot(state, slots[n])
    attach(study, state, dataset, slots[chosen])


@compiled
def _simulate(study, state, rng):
    draw_concentration(study, state, rng)
    if study.priors.population.shape[0] > 0:
        draw_population(study, state, rng)
    # Time step by time step, because a dataset's process depends on the time step before.
    for step in range(study.data.ends.shape[1]):
        for user in range(study.data.ends.shape[0]):
            if step < study.data.steps[user]:
                assign_from_prior(study, state, study.first[user] + step, rng)


def simulate(study: CompiledModel, rng: np.random.Generator) -> State:
    """Draw assignments and kernels of all datasets from the prior.

    alpha, if it is learned, and the population parameters are drawn first; the latter are written
    to the array of the study.

    Parameters
    ----------
    study : CompiledModel
        Model whose priors are used; its likelihood power is ignored.
    rng : numpy.random.Generator

    Returns
    -------
    State
        State with a single spare slot; its running log density doesn't contain the likelihood.
    """
    prior = study._replace(power=0.0)
    state = empty_state(prior, spare_slots=1, spare_processes=0)
    _simulate(prior, state, rng)
    return state


@compiled
def simulate_targets(study, state, rng):
    """Draw the targets (U, T, n) of every dataset given its kernel.

    The cumulative likelihood treats the datasets of a user as separate draws (paper, section 5.2).
    Under the sequential one a dataset begins with the targets of the one before, and the rest is
    drawn given these. The mean of the part that users share isn't included.
    """
    users, steps = study.data.ends.shape
    out = np.zeros((users, steps, study.data.x.shape[2]))
    counts = np.zeros(2, dtype=np.int64)
    for d in range(state.assignment.shape[0]):
        slot, user, step = state.assignment[d], study.user[d], study.step[d]
        n = study.data.ends[user, step]
        a = np.empty((n, padded(n)))
        active = active_candidates(state.included[slot])
        x = np.ascontiguousarray(study.data.x[user, :, :n])
        covariance(study.kernels, study.layout, active, state.h[slot], x, a, np.empty_like(a))
        if study.data.shared.shape[0] > 0:
            add_upper(a, study.data.shared[user])
        if factorise(a, state.log_noise[slot], counts) < n:
            raise RuntimeError("A covariance drawn from the prior is not positive definite.")
        # Targets are U' z. Known targets determine the first entries of z; the rest is normal.
        z = np.empty(n)
        known = first_point(study.data, user, step)
        forward_substitution(a, out[user, step - 1], known, z)
        for k in range(known, n):
            z[k] = rng.normal()
        for k in range(n):
            for j in range(max(k, known), n):
                out[user, step, j] += a[k, j] * z[k]
        out[user, step, :known] = out[user, step - 1, :known]
    return out


@compiled
def draw_kernels(study, state, rng):
    """Draw hyperparameters and noise of all clusters from the prior, given their compositions."""
    for k in range(state.sizes[0]):
        slot = state.live[k]
        for c in range(state.included.shape[1]):
            if state.included[slot, c]:
                draw_candidate(study, c, rng, state.h[slot])
        parent = state.parent[state.process[slot]]
        state.log_noise[slot] = draw_noise(study, parent, rng)


@compiled
def noise_draws(study, parent, rng, n):
    """Return n draws (n,) of the log noise from its prior, given the parent composition."""
    out = np.empty(n)
    for i in range(n):
        out[i] = draw_noise(study, parent, rng)
    return out


@compiled
def kernel_terms(study, state):
    """Return the log densities (2,) of all clusters' hyperparameters and of their noise.

    Both are densities of unconstrained coordinates.
    """
    out = np.zeros(2)
    for k in range(state.sizes[0]):
        slot = state.live[k]
        parent = state.parent[state.process[slot]]
        inclusion = inclusion_log_prior(study, parent, state.included[slot])
        noise = noise_log_prior(study, parent, state.log_noise[slot])
        out[0] += state.log_prior[slot] - inclusion - noise
        out[1] += noise
    return out
