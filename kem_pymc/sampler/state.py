"""The state of the sampler, and the basic operations from which moves are built.

A *slot* holds a cluster: its composition, hyperparameters and noise, and the process (of a parent
composition) that it belongs to. Every dataset is assigned to a slot. The operations here keep
counts, lists and the running log density up to date, so that moves need little bookkeeping.

States are NamedTuples of arrays that moves change in place. A move depends only on the study, the
state, its arguments and a random generator.
"""

import math
from typing import NamedTuple

import numpy as np

from kem_pymc._jit.decorators import compiled
from kem_pymc._jit.structs import by_reference
from kem_pymc.gp.covariance_cache import Covariances
from kem_pymc.gp.likelihood import Data, prefix_log_likelihood
from kem_pymc.kernels.library import Kernels
from kem_pymc.kernels.pool import Layout
from kem_pymc.priors.compiled_table import PriorTable
from kem_pymc.sampler.fit_cache import Fits


@by_reference
class CompiledModel(NamedTuple):
    """Kernels, priors, data and settings, fixed while sampling except for population parameters.

    Attributes
    ----------
    kernels, layout, priors : Kernels, Layout, PriorTable
        One move changes ``priors.population`` in place, so states that are sampled side by side
        need studies with separate arrays of these parameters.
    data : Data
    concentration : float
        alpha of every process; its initial value if it is learned.
    concentration_shape, concentration_rate : float
        Shape and rate of the Gamma prior of alpha; both zero if alpha is fixed.
    power : float
        Power of the likelihood; 1 is the paper's model, 0 gives the prior.
    user, step : (N,) int64
        User and time step of each dataset. Datasets are numbered user by user, and within a user
        time step by time step.
    first : (U,) int64
        Index of each user's first dataset.
    fits, covariances : Fits, Covariances
        Caches of computations: they change, but draws don't depend on them.
    """

    kernels: Kernels
    layout: Layout
    priors: PriorTable
    data: Data
    concentration: float
    concentration_shape: float
    concentration_rate: float
    power: float
    user: np.ndarray
    step: np.ndarray
    first: np.ndarray
    fits: Fits
    covariances: Covariances


@by_reference
class State(NamedTuple):
    """State of the sampler, as arrays that moves change in place.

    Their shapes are given by N datasets, U users, T time steps, S slots, P processes, C candidates
    and H hyperparameters.

    Attributes
    ----------
    assignment : (N,) int64
        Slot of each dataset; -1 while it is detached.
    occupants : (S,) int64
        Number of datasets in each slot.
    process : (S,) int64
        Process that each slot belongs to.
    included : (S, C) bool
        Inclusion indicators of each slot's composition.
    h : (S, H) float64
        Logs of positive hyperparameters, values of the others; only those of candidates that are in
        have a meaning.
    log_noise : (S,) float64
        Log noise variance of each slot.
    log_prior : (S,) float64
        log G_P of each slot's kernel.
    log_likelihood : (S, U, T) float64
        Log likelihood of each dataset under each slot's kernel.
    valid : (S, U) int64
        Number of leading time steps for which `log_likelihood` is up to date.
    parent : (P, C) bool
        Parent composition of each process; process 0 is that of the empty composition.
    used : (P,) bool
        Whether each process is open.
    members : (P,) int64
        Number of datasets in each process.
    live, place : (S,) int64
        ``live[:n_live]`` are the occupied slots; ``live[place[s]] == s``.
    free : (S,) int64
        ``free[:n_free]`` are the slots that are not in use.
    sizes : (2,) int64
        n_live, n_free.
    concentration : (1,) float64
        alpha of every process.
    log_density : (1,) float64
        Running log of the joint density.
    counts : (2 + 2 len(MOVES),) int64
        Numbers of factorisations, of failed ones, then of proposals and acceptances by move (see
        `MOVES`).
    """

    assignment: np.ndarray
    occupants: np.ndarray
    process: np.ndarray
    included: np.ndarray
    h: np.ndarray
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
    counts: np.ndarray


#: Moves whose proposals and acceptances are counted, in ``counts[2 + 2 i]`` and ``[3 + 2 i]``.
MOVES = (
    *("seating", "add", "remove", "swap", "extend", "refit"),
    *("hyperparameters", "split", "merge", "path"),
)
SEATING, ADD, REMOVE, SWAP, EXTEND, REFIT = range(6)
HYPERPARAMETERS, SPLIT, MERGE, PATH = range(6, len(MOVES))


def empty_state(study: CompiledModel, spare_slots: int, spare_processes: int) -> State:
    """Return a state in which no dataset is assigned to a slot.

    There are as many slots as datasets, so that the number of clusters isn't truncated, and spare
    slots for auxiliary clusters.
    """
    n = len(study.user)
    users, steps = study.data.ends.shape
    candidates = len(study.layout.factor_start) - 1
    slots, processes = n + spare_slots, n + 1 + spare_processes
    state = State(
        assignment=np.full(n, -1, dtype=np.int64),
        occupants=np.zeros(slots, dtype=np.int64),
        process=np.zeros(slots, dtype=np.int64),
        included=np.zeros((slots, candidates), dtype=np.bool_),
        h=np.zeros((slots, len(study.layout.positive))),
        log_noise=np.zeros(slots),
        log_prior=np.zeros(slots),
        log_likelihood=np.zeros((slots, users, steps)),
        valid=np.zeros((slots, users), dtype=np.int64),
        parent=np.zeros((processes, candidates), dtype=np.bool_),
        used=np.zeros(processes, dtype=np.bool_),
        members=np.zeros(processes, dtype=np.int64),
        live=np.zeros(slots, dtype=np.int64),
        place=np.zeros(slots, dtype=np.int64),
        free=np.arange(slots)[::-1].copy(),
        sizes=np.array([0, slots]),
        concentration=np.array([study.concentration]),
        log_density=np.array(
            [concentration_log_prior(study, study.concentration) + population_log_prior(study)]
        ),
        counts=np.zeros(2 + 2 * len(MOVES), dtype=np.int64),
    )
    state.used[0] = True
    return state


@compiled
def active_candidates(included):
    """Return the indices (k,) of the candidates that are in."""
    size = 0
    for c in range(included.shape[0]):
        size += included[c]
    active = np.empty(size, dtype=np.int64)
    k = 0
    for c in range(included.shape[0]):
        if included[c]:
            active[k] = c
            k += 1
    return active


@compiled
def value_log_prior(study, p, value):
    """Return the log prior of one hyperparameter, at the present population parameters."""
    priors = study.priors
    return priors.log_density(priors.entry[p], value, priors.population)


@compiled
def noise_log_prior(study, parent, log_noise):
    """Return the log prior density of a cluster's log noise, given the parent composition."""
    return study.priors.noise_log_density(parent, log_noise, study.priors.population)


@compiled
def draw_value(study, p, rng):
    """Draw one hyperparameter from its prior."""
    priors = study.priors
    return priors.draw(priors.entry[p], rng, priors.population)


@compiled
def draw_noise(study, parent, rng):
    """Draw the log noise from its prior, given the parent composition."""
    return study.priors.noise_draw(parent, rng, study.priors.population)


@compiled
def population_log_prior(study):
    """Return the log prior density of the unconstrained coordinates of population parameters."""
    total = 0.0
    for i in range(study.priors.population.shape[0]):
        total += population_term(study, i)
    return total


@compiled
def population_term(study, i):
    """Return the log prior density of the unconstrained coordinate of a population parameter."""
    priors = study.priors
    value = priors.population[i]
    coordinate = math.log(value) if priors.population_positive[i] else value
    return priors.log_density(priors.population_entry[i], coordinate, priors.population)


@compiled
def candidate_log_prior(study, c, h):
    """Return the log prior of the hyperparameters of one candidate."""
    total = 0.0
    for p in range(study.layout.hyper_start[c], study.layout.hyper_start[c + 1]):
        total += value_log_prior(study, p, h[p])
    return total


@compiled
def inclusion_log_prior(study, parent, included):
    """Return the log probability of a composition, given the parent composition."""
    total = 0.0
    for c in range(included.shape[0]):
        p = study.priors.stay[c] if parent[c] else study.priors.enter[c]
        total += math.log(p) if included[c] else math.log1p(-p)
    return total


@compiled
def kernel_log_prior(study, parent, included, h, log_noise):
    """Return log G_P of a kernel: inclusion, active hyperparameters, noise (paper, eqs. 3 to 6)."""
    total = inclusion_log_prior(study, parent, included)
    total += noise_log_prior(study, parent, log_noise)
    for c in range(included.shape[0]):
        if included[c]:
            total += candidate_log_prior(study, c, h)
    return total


@compiled
def draw_candidate(study, c, rng, h):
    """Draw the hyperparameters of one candidate from their prior."""
    for p in range(study.layout.hyper_start[c], study.layout.hyper_start[c + 1]):
        h[p] = draw_value(study, p, rng)


@compiled
def draw_kernel(study, state, process, slot, rng):
    """Fill a slot with a kernel drawn from the base distribution G of a process."""
    parent = state.parent[process]
    for c in range(parent.shape[0]):
        p = study.priors.stay[c] if parent[c] else study.priors.enter[c]
        state.included[slot, c] = rng.random() < p
        if state.included[slot, c]:
            draw_candidate(study, c, rng, state.h[slot])
    state.log_noise[slot] = draw_noise(study, parent, rng)
    state.process[slot] = process
    kernel_changed(study, state, slot)


@compiled
def kernel_changed(study, state, slot):
    """Recompute a slot's log prior and invalidate its likelihoods; the slot has to be empty."""
    state.valid[slot] = 0
    state.log_prior[slot] = kernel_log_prior(
        study,
        state.parent[state.process[slot]],
        state.included[slot],
        state.h[slot],
        state.log_noise[slot],
    )


@compiled
def allocate_slot(state):
    """Remove a slot from the list of free slots, and return it."""
    if state.sizes[1] == 0:
        raise RuntimeError("The sampler ran out of slots. Increase the number of spare ones.")
    state.sizes[1] -= 1
    return state.free[state.sizes[1]]


@compiled
def free_slot(state, slot):
    """Return a slot to the list of free slots; it has to be empty."""
    state.free[state.sizes[1]] = slot
    state.sizes[1] += 1


@compiled
def same_row(a, b):
    """Return whether two rows of inclusion indicators are equal."""
    for c in range(a.shape[0]):
        if a[c] != b[c]:
            return False
    return True


@compiled
def process_of_parent(state, included):
    """Return the process of a parent composition, and open it if there is none."""
    vacant = -1
    for p in range(state.used.shape[0]):
        if state.used[p]:
            if same_row(state.parent[p], included):
                return p
        elif vacant < 0:
            vacant = p
    if vacant < 0:
        raise RuntimeError("The sampler ran out of processes. Increase the number of spare ones.")
    state.used[vacant] = True
    state.parent[vacant] = included
    state.members[vacant] = 0
    return vacant


@compiled
def close_processes(state):
    """Close every process without members, except that of the empty composition."""
    for p in range(1, state.used.shape[0]):
        if state.members[p] == 0:
            state.used[p] = False


@compiled
def process_above(study, state, dataset):
    """Return the process of a dataset, given its user's cluster one time step earlier."""
    if study.step[dataset] == 0:
        return 0
    return process_of_parent(state, state.included[state.assignment[dataset - 1]])


@compiled
def likelihood_upto(study, state, slot, user, upto):
    """Compute a slot's log likelihoods of a user's first `upto` datasets, unless they are valid."""
    if study.power == 0.0:
        state.log_likelihood[slot, user, :upto] = 0.0
    elif state.valid[slot, user] < upto:
        if state.valid[slot, user] > 0:  # needed for more datasets a second time: compute all
            upto = study.data.steps[user]
        prefix_log_likelihood(
            study.kernels,
            study.layout,
            active_candidates(state.included[slot]),
            state.h[slot],
            state.log_noise[slot],
            study.data,
            user,
            upto,
            state.log_likelihood[slot, user],
            state.counts,
        )
    state.valid[slot, user] = max(state.valid[slot, user], upto)


@compiled
def dataset_log_likelihood(study, state, slot, dataset):
    """Return the log likelihood of a dataset under a slot's kernel, times the likelihood power."""
    user, step = study.user[dataset], study.step[dataset]
    likelihood_upto(study, state, slot, user, step + 1)
    return study.power * state.log_likelihood[slot, user, step] if study.power > 0.0 else 0.0


@compiled
def concentration_log_prior(study, alpha):
    """Return the log prior density of log alpha (with the Jacobian); zero if alpha is fixed."""
    shape, rate = study.concentration_shape, study.concentration_rate
    if shape == 0.0:
        return 0.0
    return shape * math.log(rate * alpha) - math.lgamma(shape) - rate * alpha


@compiled
def log_concentration_terms(study, state, alpha):
    """Return the log of the factors of the joint density that depend on alpha."""
    total = concentration_log_prior(study, alpha) + state.sizes[0] * math.log(alpha)
    for p in range(state.used.shape[0]):
        if state.members[p] > 0:
            total += math.lgamma(alpha) - math.lgamma(alpha + state.members[p])
    return total


@compiled
def change_concentration(study, state, alpha):
    """Set alpha of all processes, and update the running log density."""
    before = log_concentration_terms(study, state, state.concentration[0])
    state.log_density[0] += log_concentration_terms(study, state, alpha) - before
    state.concentration[0] = alpha


@compiled
def attach(study, state, dataset, slot):
    """Assign a dataset to a slot, and update counts, lists and the running log density.

    The density changes by the Chinese restaurant predictive, the base density of a new cluster and
    the likelihood of the dataset.
    """
    process = state.process[slot]
    change = dataset_log_likelihood(study, state, slot, dataset)
    change -= math.log(state.concentration[0] + state.members[process])
    if state.occupants[slot] == 0:
        change += math.log(state.concentration[0]) + state.log_prior[slot]
        state.live[state.sizes[0]] = slot
        state.place[slot] = state.sizes[0]
        state.sizes[0] += 1
    else:
        change += math.log(state.occupants[slot])
    state.occupants[slot] += 1
    state.members[process] += 1
    state.assignment[dataset] = slot
    state.log_density[0] += change


@compiled
def detach(study, state, dataset):
    """Undo `attach`, and return the slot; if it is empty now, the caller has to use or free it."""
    slot = state.assignment[dataset]
    process = state.process[slot]
    state.occupants[slot] -= 1
    state.members[process] -= 1
    state.assignment[dataset] = -1
    change = dataset_log_likelihood(study, state, slot, dataset)
    change -= math.log(state.concentration[0] + state.members[process])
    if state.occupants[slot] == 0:
        change += math.log(state.concentration[0]) + state.log_prior[slot]
        state.sizes[0] -= 1
        last = state.live[state.sizes[0]]
        state.live[state.place[slot]] = last
        state.place[last] = state.place[slot]
    else:
        change += math.log(state.occupants[slot])
    state.log_density[0] -= change
    return slot


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
