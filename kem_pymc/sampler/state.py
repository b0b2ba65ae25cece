"""The state of the sampler, and the basic operations from which moves are built.

A cluster has a composition, hyperparameters and noise, and belongs to the Dirichlet process (``dp``
in code) of a parent composition. Every dataset is assigned to a cluster. The arrays of a state have
a row for each cluster, occupied or free. The operations here keep counts, lists and the running log
density up to date, so that moves need little bookkeeping.

States are NamedTuples of arrays that moves change in place. A move depends only on the model, the
state, its arguments and a random generator.
"""

import math
from typing import NamedTuple

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc._system.jit.structs import by_reference
from kem_pymc.gp.likelihood import Data, prefix_log_likelihood
from kem_pymc.kernels.library import KernelPointers
from kem_pymc.kernels.pool import PoolLayout
from kem_pymc.priors.compiled_table import PriorTable
from kem_pymc.sampler.fit_cache import Fits


@by_reference
class CompiledModel(NamedTuple):
    """Kernels, priors, data and settings, fixed while sampling except for population parameters.

    Attributes
    ----------
    kernels, layout, priors : KernelPointers, PoolLayout, PriorTable
        One move changes ``priors.population`` in place, so states that are sampled side by side
        need models with separate arrays of these parameters.
    data : Data
    concentration : float
        alpha of every process; its initial value if it is learned.
    concentration_shape, concentration_rate : float
        Shape and rate of the Gamma prior of alpha; both zero if alpha is fixed.
    power : float
        Power of the likelihood; 1 is the paper's model, 0 gives the prior.
    user, time_step : (N,) int64
        User and time step of each dataset. Datasets are numbered user by user, and within a user
        time step by time step.
    first_dataset : (U,) int64
        Index of each user's first dataset.
    fits : Fits
        Cache of fits: it changes, but draws don't depend on it.
    """

    kernels: KernelPointers
    layout: PoolLayout
    priors: PriorTable
    data: Data
    concentration: float
    concentration_shape: float
    concentration_rate: float
    power: float
    user: np.ndarray
    time_step: np.ndarray
    first_dataset: np.ndarray
    fits: Fits


@by_reference
class State(NamedTuple):
    """State of the sampler, as arrays that moves change in place.

    Their shapes are given by N datasets, U users, T time steps, S clusters (occupied or free), P
    Dirichlet processes, C candidates and H hyperparameters.

    Attributes
    ----------
    assignment : (N,) int64
        Cluster of each dataset; -1 while it is detached.
    occupants : (S,) int64
        Number of datasets in each cluster.
    dp : (S,) int64
        Dirichlet process that each cluster belongs to.
    included : (S, C) bool
        Inclusion indicators of each cluster's composition.
    theta_unconstrained : (S, H) float64
        Logs of positive hyperparameters, values of the others; only those of candidates that are in
        have a meaning.
    log_noise : (S,) float64
        Log noise variance of each cluster.
    log_prior : (S,) float64
        log G_P of each cluster's kernel.
    log_likelihood : (S, U, T) float64
        Log likelihood of each dataset under each cluster's kernel.
    valid : (S, U) int64
        Number of leading time steps for which `log_likelihood` is up to date.
    parent : (P, C) bool
        Parent composition of each process; process 0 is that of the empty composition.
    used : (P,) bool
        Whether each process is open.
    members : (P,) int64
        Number of datasets in each process.
    live, place : (S,) int64
        ``live[:n_live]`` are the occupied clusters; ``live[place[s]] == s``.
    free : (S,) int64
        ``free[:n_free]`` are the clusters that are not in use.
    sizes : (2,) int64
        n_live, n_free.
    concentration : (1,) float64
        alpha of every process.
    log_density : (1,) float64
        Running log of the joint density.
    factorisations : (2,) int64
        Numbers of factorisations, and of failed ones.
    proposed, accepted : (len(MOVES),) int64
        Numbers of proposals and of acceptances by move.
    """

    assignment: np.ndarray
    occupants: np.ndarray
    dp: np.ndarray
    included: np.ndarray
    theta_unconstrained: np.ndarray
    log_noise: np.ndarray
    log_prior: np.ndarray
    log_likelihood: np.ndarray
    valid: np.ndarray
    parent: np.ndarray
    used: np.ndarray
    members: np.ndarray
    live: np.ndarray
    place: np.ndarray
    free: np.ndarray
    sizes: np.ndarray
    concentration: np.ndarray
    log_density: np.ndarray
    factorisations: np.ndarray
    proposed: np.ndarray
    accepted: np.ndarray


#: Moves whose proposals and acceptances are counted.
MOVES = (
    *("seating", "add", "remove", "swap", "extend", "refit"),
    *("hyperparameters", "split", "merge", "path"),
)
SEATING, ADD, REMOVE, SWAP, EXTEND, REFIT = range(6)
HYPERPARAMETERS, SPLIT, MERGE, PATH = range(6, len(MOVES))


def empty_state(model: CompiledModel, spare_clusters: int, spare_dps: int) -> State:
    """Return a state in which no dataset is assigned to a cluster.

    There is room for as many clusters as datasets, so that their number isn't truncated, and for
    spare ones: auxiliary clusters.
    """
    n = len(model.user)
    users, n_steps = model.data.ends.shape
    candidates = len(model.layout.factor_start) - 1
    clusters, dps = n + spare_clusters, n + 1 + spare_dps
    state = State(
        assignment=np.full(n, -1, dtype=np.int64),
        occupants=np.zeros(clusters, dtype=np.int64),
        dp=np.zeros(clusters, dtype=np.int64),
        included=np.zeros((clusters, candidates), dtype=np.bool_),
        theta_unconstrained=np.zeros((clusters, len(model.layout.positive))),
        log_noise=np.zeros(clusters),
        log_prior=np.zeros(clusters),
        log_likelihood=np.zeros((clusters, users, n_steps)),
        valid=np.zeros((clusters, users), dtype=np.int64),
        parent=np.zeros((dps, candidates), dtype=np.bool_),
        used=np.zeros(dps, dtype=np.bool_),
        members=np.zeros(dps, dtype=np.int64),
        live=np.zeros(clusters, dtype=np.int64),
        place=np.zeros(clusters, dtype=np.int64),
        free=np.arange(clusters)[::-1].copy(),
        sizes=np.array([0, clusters]),
        concentration=np.array([model.concentration]),
        log_density=np.array(
            [concentration_log_prior(model, model.concentration) + population_log_prior(model)]
        ),
        factorisations=np.zeros(2, dtype=np.int64),
        proposed=np.zeros(len(MOVES), dtype=np.int64),
        accepted=np.zeros(len(MOVES), dtype=np.int64),
    )
    state.used[0] = True
    return state


@compiled
def by_time_step(model):
    """Return all datasets (N,) time step by time step, and within a time step user by user."""
    return np.argsort(model.time_step, kind="mergesort")  # which is stable


@compiled
def hyperparameter_places(layout, included):
    """Return the indices (k,) of the hyperparameters of the candidates that are in."""
    places = np.empty(layout.positive.shape[0], dtype=np.int64)
    k = 0
    for c in range(included.shape[0]):
        if included[c]:
            for p in range(layout.hyper_start[c], layout.hyper_start[c + 1]):
                places[k] = p
                k += 1
    return places[:k]


@compiled
def value_log_prior(model, p, value):
    """Return the log prior of one hyperparameter, at the present population parameters."""
    priors = model.priors
    return priors.log_density(priors.entry[p], value, priors.population)


@compiled
def noise_log_prior(model, parent, log_noise):
    """Return the log prior density of a cluster's log noise, given the parent composition."""
    return model.priors.noise_log_density(parent, log_noise, model.priors.population)


@compiled
def draw_value(model, p, rng):
    """Draw one hyperparameter from its prior."""
    priors = model.priors
    return priors.draw(priors.entry[p], rng, priors.population)


@compiled
def draw_noise(model, parent, rng):
    """Draw the log noise from its prior, given the parent composition."""
    return model.priors.noise_draw(parent, rng, model.priors.population)


@compiled
def population_log_prior(model):
    """Return the log prior density of the unconstrained coordinates of population parameters."""
    total = 0.0
    for i in range(model.priors.population.shape[0]):
        total += population_term(model, i)
    return total


@compiled
def population_term(model, i):
    """Return the log prior density of the unconstrained coordinate of a population parameter."""
    priors = model.priors
    value = priors.population[i]
    coordinate = math.log(value) if priors.population_positive[i] else value
    return priors.log_density(priors.population_entry[i], coordinate, priors.population)


@compiled
def candidate_log_prior(model, c, theta):
    """Return the log prior of the hyperparameters of one candidate."""
    total = 0.0
    for p in range(model.layout.hyper_start[c], model.layout.hyper_start[c + 1]):
        total += value_log_prior(model, p, theta[p])
    return total


@compiled
def inclusion_log_prior(model, parent, included):
    """Return the log probability of a composition, given the parent composition."""
    total = 0.0
    for c in range(included.shape[0]):
        p = model.priors.stay[c] if parent[c] else model.priors.enter[c]
        total += math.log(p) if included[c] else math.log1p(-p)
    return total


@compiled
def kernel_log_prior(model, parent, included, theta, log_noise):
    """Return log G_P of a kernel: inclusion, active hyperparameters, noise (paper, eqs. 3 to 6)."""
    total = inclusion_log_prior(model, parent, included)
    total += noise_log_prior(model, parent, log_noise)
    for c in range(included.shape[0]):
        if included[c]:
            total += candidate_log_prior(model, c, theta)
    return total


@compiled
def cluster_log_prior(model, state, cluster):
    """Compute the log prior of a cluster's kernel from scratch."""
    parent, included = state.parent[state.dp[cluster]], state.included[cluster]
    theta, log_noise = state.theta_unconstrained[cluster], state.log_noise[cluster]
    return kernel_log_prior(model, parent, included, theta, log_noise)


@compiled
def draw_candidate(model, c, rng, theta):
    """Draw the hyperparameters of one candidate from their prior."""
    for p in range(model.layout.hyper_start[c], model.layout.hyper_start[c + 1]):
        theta[p] = draw_value(model, p, rng)


@compiled
def draw_kernel(model, state, dp, cluster, rng):
    """Fill a cluster with a kernel drawn from the base distribution G of a process."""
    parent = state.parent[dp]
    for c in range(parent.shape[0]):
        p = model.priors.stay[c] if parent[c] else model.priors.enter[c]
        state.included[cluster, c] = rng.random() < p
        if state.included[cluster, c]:
            draw_candidate(model, c, rng, state.theta_unconstrained[cluster])
    state.log_noise[cluster] = draw_noise(model, parent, rng)
    state.dp[cluster] = dp
    kernel_changed(model, state, cluster)


@compiled
def kernel_changed(model, state, cluster):
    """Recompute an empty cluster's log prior, and invalidate its likelihoods."""
    state.valid[cluster] = 0
    state.log_prior[cluster] = cluster_log_prior(model, state, cluster)


@compiled
def allocate_cluster(state):
    """Remove a cluster from the list of free clusters, and return it."""
    if state.sizes[1] == 0:
        raise RuntimeError("The sampler has no free cluster left. Please report this fault.")
    state.sizes[1] -= 1
    return state.free[state.sizes[1]]


@compiled
def new_cluster(model, state, dp, rng):
    """Return a free cluster with a kernel drawn from the base distribution of a process."""
    cluster = allocate_cluster(state)
    draw_kernel(model, state, dp, cluster, rng)
    return cluster


@compiled
def free_cluster(state, cluster):
    """Return a cluster to the list of free clusters; it has to be empty."""
    state.free[state.sizes[1]] = cluster
    state.sizes[1] += 1


@compiled
def same_row(a, b):
    """Return whether two rows of inclusion indicators are equal."""
    for c in range(a.shape[0]):
        if a[c] != b[c]:
            return False
    return True


@compiled
def dp_of_parent(state, included):
    """Return the process of a parent composition, and open it if there is none."""
    vacant = -1
    for p in range(state.used.shape[0]):
        if state.used[p]:
            if same_row(state.parent[p], included):
                return p
        elif vacant < 0:
            vacant = p
    if vacant < 0:
        raise RuntimeError("The sampler has no free process left. Please report this fault.")
    state.used[vacant] = True
    state.parent[vacant] = included
    state.members[vacant] = 0
    return vacant


@compiled
def close_dps(state):
    """Close every process without members, except that of the empty composition."""
    for p in range(1, state.used.shape[0]):
        if state.members[p] == 0:
            state.used[p] = False


@compiled
def dp_above(model, state, dataset):
    """Return the process of a dataset, given its user's cluster one time step earlier."""
    if model.time_step[dataset] == 0:
        return 0
    return dp_of_parent(state, state.included[state.assignment[dataset - 1]])


@compiled
def cluster_log_likelihood(model, state, cluster, user, upto, out, counts):
    """Compute a user's first `upto` log likelihoods under a cluster, and count factorisations."""
    active, theta = np.flatnonzero(state.included[cluster]), state.theta_unconstrained[cluster]
    kernel = model.kernels, model.layout, active, theta, state.log_noise[cluster]
    prefix_log_likelihood(*kernel, model.data, user, upto, out, counts)


@compiled
def likelihood_upto(model, state, cluster, user, upto):
    """Compute a user's first `upto` log likelihoods under a cluster, unless they are valid."""
    if model.power == 0.0:
        state.log_likelihood[cluster, user, :upto] = 0.0
    elif state.valid[cluster, user] < upto:
        if state.valid[cluster, user] > 0:  # needed for more datasets a second time: compute all
            upto = model.data.n_steps[user]
        out = state.log_likelihood[cluster, user]
        cluster_log_likelihood(model, state, cluster, user, upto, out, state.factorisations)
    state.valid[cluster, user] = max(state.valid[cluster, user], upto)


@compiled
def dataset_log_likelihood(model, state, cluster, dataset):
    """Return the log likelihood of a dataset under a cluster, times the likelihood power."""
    user, time_step = model.user[dataset], model.time_step[dataset]
    likelihood_upto(model, state, cluster, user, time_step + 1)
    return (
        model.power * state.log_likelihood[cluster, user, time_step] if model.power > 0.0 else 0.0
    )


@compiled
def concentration_log_prior(model, alpha):
    """Return the log prior density of log alpha (with the Jacobian); zero if alpha is fixed."""
    shape, rate = model.concentration_shape, model.concentration_rate
    if shape == 0.0:
        return 0.0
    return shape * math.log(rate * alpha) - math.lgamma(shape) - rate * alpha


@compiled
def log_concentration_terms(model, state, alpha):
    """Return the log of the factors of the joint density that depend on alpha."""
    total = concentration_log_prior(model, alpha) + state.sizes[0] * math.log(alpha)
    for p in range(state.used.shape[0]):
        if state.members[p] > 0:
            total += math.lgamma(alpha) - math.lgamma(alpha + state.members[p])
    return total


@compiled
def change_concentration(model, state, alpha):
    """Set alpha of all processes, and update the running log density."""
    before = log_concentration_terms(model, state, state.concentration[0])
    state.log_density[0] += log_concentration_terms(model, state, alpha) - before
    state.concentration[0] = alpha


@compiled
def attach(model, state, dataset, cluster):
    """Assign a dataset to a cluster, and update counts, lists and the running log density.

    The density changes by the Chinese restaurant predictive, the base density of a new cluster and
    the likelihood of the dataset.
    """
    dp = state.dp[cluster]
    change = dataset_log_likelihood(model, state, cluster, dataset)
    change -= math.log(state.concentration[0] + state.members[dp])
    if state.occupants[cluster] == 0:
        change += math.log(state.concentration[0]) + state.log_prior[cluster]
        state.live[state.sizes[0]] = cluster
        state.place[cluster] = state.sizes[0]
        state.sizes[0] += 1
    else:
        change += math.log(state.occupants[cluster])
    state.occupants[cluster] += 1
    state.members[dp] += 1
    state.assignment[dataset] = cluster
    state.log_density[0] += change


@compiled
def detach(model, state, dataset):
    """Undo `attach`, and return the cluster; if it is empty, the caller has to use or free it."""
    cluster = state.assignment[dataset]
    dp = state.dp[cluster]
    state.occupants[cluster] -= 1
    state.members[dp] -= 1
    state.assignment[dataset] = -1
    change = dataset_log_likelihood(model, state, cluster, dataset)
    change -= math.log(state.concentration[0] + state.members[dp])
    if state.occupants[cluster] == 0:
        change += math.log(state.concentration[0]) + state.log_prior[cluster]
        state.sizes[0] -= 1
        last = state.live[state.sizes[0]]
        state.live[state.place[cluster]] = last
        state.place[last] = state.place[cluster]
    else:
        change += math.log(state.occupants[cluster])
    state.log_density[0] -= change
    return cluster


@compiled
def pick(log_weights, n, rng):
    """Return an index below `n` drawn with probability proportional to exp(log_weights)."""
    top = -math.inf
    for i in range(n):
        top = max(top, log_weights[i])
    if top == -math.inf:
        return int(rng.random() * n)
    total = 0.0
    for i in range(n):
        total += math.exp(log_weights[i] - top)
    threshold = rng.random() * total
    for i in range(n):
        threshold -= math.exp(log_weights[i] - top)
        if threshold < 0.0:
            return i
    return n - 1


@compiled
def log_sum_exp(log_weights, n):
    """Return the log of the sum of exp(log_weights[:n])."""
    top = -math.inf
    for i in range(n):
        top = max(top, log_weights[i])
    if top == -math.inf:
        return top
    total = 0.0
    for i in range(n):
        total += math.exp(log_weights[i] - top)
    return top + math.log(total)
