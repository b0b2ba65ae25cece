"""Update a user's whole path of clusters at once by particle Gibbs (the `joint` target).

All datasets of one user are removed from their clusters. When a particle first reaches a process P,
one list of options is built for all particles and time steps: the occupied clusters O_P, and m
auxiliary clusters, of which those that only this user occupied come first and the rest are drawn
from G_P. There are as many auxiliary clusters as the user has time steps, so a path can always open
another cluster. With n_c the number of other users' datasets in cluster c, own_c and own_P the
numbers of visits of the path so far to c and P, and r the number of auxiliary clusters of P that
the path uses already, an option has weight

    (n_c + own_c) / (alpha + N_P + own_P) L_c(u, t)            if n_c + own_c > 0,
    alpha / (m - r) / (alpha + N_P + own_P) L_c(u, t)          for an unused auxiliary.

Summed over labels and with unused auxiliary clusters integrated out, the product of weights is the
Chinese restaurant predictive times G times L. Given the auxiliary clusters the path is discrete,
and a fully adapted conditional particle filter with ancestor sampling (Lindsten, Jordan, Schoen
2014) leaves its conditional invariant: an ancestor is drawn with probability proportional to the
sum of its option weights, so weights stay equal, and the new path is one particle drawn uniformly.
"""

import math

import numpy as np

from kem_pymc._jit.decorators import compiled
from kem_pymc.sampler.state import (
    PATH,
    allocate_slot,
    attach,
    close_processes,
    dataset_log_likelihood,
    detach,
    draw_kernel,
    free_slot,
    likelihood_upto,
    log_sum_exp,
    pick,
    process_of_parent,
    same_row,
)


@compiled
def _reach(study, state, user, process, kept, options, reached, rng):
    """Build the list of options of a process, unless the process has been reached before."""
    if reached[process] > 0:
        return
    steps = study.data.steps[user]
    n = 0
    for k in range(state.sizes[0]):
        slot = state.live[k]
        if state.process[slot] == process:
            options[process, n] = slot
            n += 1
    auxiliaries = 0
    for slot in kept:
        if state.process[slot] == process:
            options[process, n] = slot
            n += 1
            auxiliaries += 1
    while auxiliaries < steps:
        slot = allocate_slot(state)
        draw_kernel(study, state, process, slot, rng)
        options[process, n] = slot
        n += 1
        auxiliaries += 1
    for k in range(n):
        likelihood_upto(study, state, options[process, k], user, steps)
    reached[process] = n


@compiled
def _log_seats(state, path, upto, options, auxiliaries, out):
    """Write the log Chinese restaurant weights of options, given the first `upto` slots of a path.

    Parameters
    ----------
    options : (k,) int64
        Slots of one process.
    auxiliaries : int
        Number of auxiliary clusters of the process.
    out : (k,) float64
        Output: log weights.
    """
    process = state.process[options[0]]
    visits, used = 0, 0  # visits to the process, and auxiliary clusters of it in use
    for s in range(upto):
        if state.process[path[s]] == process:
            visits += 1
            if state.occupants[path[s]] == 0:
                first_visit = True
                for earlier in range(s):
                    if path[earlier] == path[s]:
                        first_visit = False
                used += first_visit
    alpha = state.concentration[0]
    log_total = math.log(alpha + state.members[process] + visits)
    for k in range(options.shape[0]):
        count = state.occupants[options[k]]
        for s in range(upto):
            count += path[s] == options[k]
        out[k] = math.log(count if count > 0 else alpha / (auxiliaries - used)) - log_total


@compiled
def _ancestor(state, paths, step, retained, rng):
    """Draw the particle whose history precedes the rest of the retained path.

    Only histories whose last composition is the parent of the retained path's next process are
    possible. Likelihoods cancel; the Chinese restaurant weights of the rest of the path don't.
    """
    particles, steps = paths.shape
    log_weights = np.empty(particles)
    joined = np.empty(steps, dtype=np.int64)
    log_seat = np.empty(1)
    needed = state.process[retained[step]]
    for i in range(particles):
        if process_of_parent(state, state.included[paths[i, step - 1]]) != needed:
            log_weights[i] = -math.inf
            continue
        joined[:step] = paths[i, :step]
        joined[step:] = retained[step:]
        total = 0.0
        for s in range(step, steps):
            _log_seats(state, joined, s, joined[s : s + 1], steps, log_seat)
            total += log_seat[0]
        log_weights[i] = total
    return pick(log_weights, particles, rng)


@compiled
def _twin(paths, particle, step):
    """Return the first particle with the same history before a time step, perhaps itself."""
    for i in range(particle):
        if same_row(paths[i, :step], paths[particle, :step]):
            return i
    return particle


@compiled
def _left_empty(state, path):
    """Return the distinct slots on a path, in its order, that hold no dataset."""
    found = np.empty(path.shape[0], dtype=np.int64)
    n = 0
    for slot in path:
        if state.occupants[slot] == 0 and not np.any(found[:n] == slot):
            found[n] = slot
            n += 1
    return found[:n]


@compiled
def _weigh(study, state, user, paths, step, kept, options, reached, log_weights, where, rng):
    """Write the log weights of every particle's options at a time step, and their process.

    The weights are written to `log_weights`, the processes to `where`.
    """
    steps = study.data.steps[user]
    for i in range(paths.shape[0]):
        twin = _twin(paths, i, step)
        if twin < i:
            where[i] = where[twin]
            log_weights[i] = log_weights[twin]
            continue
        process = 0
        if step > 0:
            process = process_of_parent(state, state.included[paths[i, step - 1]])
        _reach(study, state, user, process, kept, options, reached, rng)
        where[i] = process
        own = options[process, : reached[process]]
        _log_seats(state, paths[i], step, own, steps, log_weights[i])
        for k in range(own.shape[0]):
            log_weights[i, k] += dataset_log_likelihood(
                study, state, own[k], study.first[user] + step
            )


@compiled
def _release(state, options, reached, kept):
    """Free the slots of auxiliary clusters that hold no dataset."""
    for process in range(reached.shape[0]):
        for slot in options[process, : reached[process]]:
            if state.occupants[slot] == 0:
                free_slot(state, slot)
    for slot in kept:
        # The process of such a slot may not have been reached again; `options` lacks the slot then.
        if state.occupants[slot] == 0 and reached[state.process[slot]] == 0:
            free_slot(state, slot)


@compiled
def redraw_path(study, state, user, particles, rng):
    """Redraw a user's path; return the number of the user's datasets that changed cluster."""
    steps = study.data.steps[user]
    first = study.first[user]
    retained = state.assignment[first : first + steps].copy()
    for step in range(steps):
        detach(study, state, first + step)
    kept = _left_empty(state, retained)

    processes = state.used.shape[0]
    options = np.empty((processes, state.sizes[0] + steps), dtype=np.int64)
    reached = np.zeros(processes, dtype=np.int64)
    paths = np.empty((particles, steps), dtype=np.int64)
    ancestors = np.empty((particles, steps), dtype=np.int64)
    log_weights = np.empty((particles, options.shape[1]))
    log_sums = np.empty(particles)
    where = np.zeros(particles, dtype=np.int64)
    for step in range(steps):
        _weigh(study, state, user, paths, step, kept, options, reached, log_weights, where, rng)
        for i in range(particles):
            log_sums[i] = log_sum_exp(log_weights[i], reached[where[i]])
        # Particle 0 carries the retained path; its history may be exchanged for another.
        ancestors[:, :step] = paths[:, :step]
        for i in range(particles):
            source = i
            if i > 0:
                source = pick(log_sums, particles, rng)
                process = where[source]
                chosen = pick(log_weights[source], reached[process], rng)
                paths[i, step] = options[process, chosen]
            else:
                if step > 0:
                    source = _ancestor(state, ancestors, step, retained, rng)
                paths[0, step] = retained[step]
            paths[i, :step] = ancestors[source, :step]
    path = paths[int(rng.random() * particles)]

    changes = 0
    for step in range(steps):
        attach(study, state, first + step, path[step])
        changes += path[step] != retained[step]
    _release(state, options, reached, kept)
    close_processes(state)
    state.counts[2 + 2 * PATH] += steps
    state.counts[3 + 2 * PATH] += changes
    return changes
