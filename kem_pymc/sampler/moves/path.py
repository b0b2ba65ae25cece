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

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.sampler.state import (
    PATH,
    attach,
    close_dps,
    dataset_log_likelihood,
    detach,
    dp_of_parent,
    free_cluster,
    likelihood_upto,
    log_sum_exp,
    new_cluster,
    pick,
    same_row,
)


@compiled
def _reach(model, state, user, dp, kept, options, reached, rng):
    """Build the list of options of a process, unless the process has been reached before."""
    if reached[dp] > 0:
        return
    n_steps = model.data.n_steps[user]
    n = 0
    for k in range(state.sizes[0]):
        cluster = state.live[k]
        if state.dp[cluster] == dp:
            options[dp, n] = cluster
            n += 1
    auxiliaries = 0
    for cluster in kept:
        if state.dp[cluster] == dp:
            options[dp, n] = cluster
            n += 1
            auxiliaries += 1
    while auxiliaries < n_steps:
        options[dp, n] = new_cluster(model, state, dp, rng)
        n += 1
        auxiliaries += 1
    for k in range(n):
        likelihood_upto(model, state, options[dp, k], user, n_steps)
    reached[dp] = n


@compiled
def _log_seats(state, path, upto, options, auxiliaries, out):
    """Write the log Chinese restaurant weights of options, given the first `upto` steps of a path.

    Parameters
    ----------
    options : (k,) int64
        Clusters of one process.
    auxiliaries : int
        Number of auxiliary clusters of the process.
    out : (k,) float64
        Output: log weights.
    """
    dp = state.dp[options[0]]
    visits, used = 0, 0  # visits to the process, and auxiliary clusters of it in use
    for s in range(upto):
        if state.dp[path[s]] == dp:
            visits += 1
            if state.occupants[path[s]] == 0:
                first_visit = True
                for earlier in range(s):
                    if path[earlier] == path[s]:
                        first_visit = False
                used += first_visit
    alpha = state.concentration[0]
    log_total = math.log(alpha + state.members[dp] + visits)
    for k in range(options.shape[0]):
        count = state.occupants[options[k]]
        for s in range(upto):
            count += path[s] == options[k]
        out[k] = math.log(count if count > 0 else alpha / (auxiliaries - used)) - log_total


@compiled
def _ancestor(state, paths, time_step, retained, rng):
    """Draw the particle whose history precedes the rest of the retained path.

    Only histories whose last composition is the parent of the retained path's next process are
    possible. Likelihoods cancel; the Chinese restaurant weights of the rest of the path don't.
    """
    particles, n_steps = paths.shape
    log_weights = np.empty(particles)
    joined = np.empty(n_steps, dtype=np.int64)
    log_seat = np.empty(1)
    needed = state.dp[retained[time_step]]
    for i in range(particles):
        if dp_of_parent(state, state.included[paths[i, time_step - 1]]) != needed:
            log_weights[i] = -math.inf
            continue
        joined[:time_step] = paths[i, :time_step]
        joined[time_step:] = retained[time_step:]
        total = 0.0
        for s in range(time_step, n_steps):
            _log_seats(state, joined, s, joined[s : s + 1], n_steps, log_seat)
            total += log_seat[0]
        log_weights[i] = total
    return pick(log_weights, particles, rng)


@compiled
def _twin(paths, particle, time_step):
    """Return the first particle with the same history before a time step, perhaps itself."""
    for i in range(particle):
        if same_row(paths[i, :time_step], paths[particle, :time_step]):
            return i
    return particle


@compiled
def _left_empty(state, path):
    """Return the distinct clusters on a path, in its order, that hold no dataset."""
    empty = np.empty(path.shape[0], dtype=np.int64)
    n = 0
    for cluster in path:
        if state.occupants[cluster] == 0 and not np.any(empty[:n] == cluster):
            empty[n] = cluster
            n += 1
    return empty[:n]


@compiled
def _weigh(model, state, user, paths, time_step, kept, options, reached, log_weights, where, rng):
    """Write the log weights of every particle's options at a time step, and their process.

    The weights are written to `log_weights`, the processes to `where`.
    """
    n_steps = model.data.n_steps[user]
    for i in range(paths.shape[0]):
        twin = _twin(paths, i, time_step)
        if twin < i:
            where[i] = where[twin]
            log_weights[i] = log_weights[twin]
            continue
        dp = 0
        if time_step > 0:
            dp = dp_of_parent(state, state.included[paths[i, time_step - 1]])
        _reach(model, state, user, dp, kept, options, reached, rng)
        where[i] = dp
        here = options[dp, : reached[dp]]
        _log_seats(state, paths[i], time_step, here, n_steps, log_weights[i])
        for k in range(here.shape[0]):
            log_weights[i, k] += dataset_log_likelihood(
                model, state, here[k], model.first_dataset[user] + time_step
            )


@compiled
def _release(state, options, reached, kept):
    """Free the auxiliary clusters that hold no dataset."""
    for dp in range(reached.shape[0]):
        for cluster in options[dp, : reached[dp]]:
            if state.occupants[cluster] == 0:
                free_cluster(state, cluster)
    for cluster in kept:
        # `options` lacks such a cluster if its process hasn't been reached again.
        if state.occupants[cluster] == 0 and reached[state.dp[cluster]] == 0:
            free_cluster(state, cluster)


@compiled
def redraw_path(model, state, user, particles, rng):
    """Redraw a user's path; return the number of the user's datasets that changed cluster."""
    n_steps = model.data.n_steps[user]
    first_dataset = model.first_dataset[user]
    retained = state.assignment[first_dataset : first_dataset + n_steps].copy()
    for time_step in range(n_steps):
        detach(model, state, first_dataset + time_step)
    kept = _left_empty(state, retained)

    dps = state.used.shape[0]
    options = np.empty((dps, state.sizes[0] + n_steps), dtype=np.int64)
    reached = np.zeros(dps, dtype=np.int64)
    paths = np.empty((particles, n_steps), dtype=np.int64)
    ancestors = np.empty((particles, n_steps), dtype=np.int64)
    log_weights = np.empty((particles, options.shape[1]))
    log_sums = np.empty(particles)
    where = np.zeros(particles, dtype=np.int64)
    for time_step in range(n_steps):
        _weigh(
            model, state, user, paths, time_step, kept, options, reached, log_weights, where, rng
        )
        for i in range(particles):
            log_sums[i] = log_sum_exp(log_weights[i], reached[where[i]])
        # Particle 0 carries the retained path; its history may be exchanged for another.
        ancestors[:, :time_step] = paths[:, :time_step]
        for i in range(particles):
            source = i
            if i > 0:
                source = pick(log_sums, particles, rng)
                dp = where[source]
                chosen = pick(log_weights[source], reached[dp], rng)
                paths[i, time_step] = options[dp, chosen]
            else:
                if time_step > 0:
                    source = _ancestor(state, ancestors, time_step, retained, rng)
                paths[0, time_step] = retained[time_step]
            paths[i, :time_step] = ancestors[source, :time_step]
    path = paths[int(rng.random() * particles)]

    changes = 0
    for time_step in range(n_steps):
        attach(model, state, first_dataset + time_step, path[time_step])
        changes += path[time_step] != retained[time_step]
    _release(state, options, reached, kept)
    close_dps(state)
    state.proposed[PATH] += n_steps
    state.accepted[PATH] += changes
    return changes
