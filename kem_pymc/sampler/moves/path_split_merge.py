"""Split a path, moving a group of users to copies of all its clusters; or merge two paths.

Users who share all their clusters are on one path: a cluster in the process of the empty
composition, a second one in the process that follows it, and so on. Two groups of users for whom
one path would be more probable stay apart under moves that change one thing at a time. To share a
cluster they need the same composition; and while both have it without sharing the cluster, the
Chinese restaurant prior of its process penalises two large clusters so much (by 15 nats for
clusters of 15 and 10 datasets) that such states are practically never visited. This move changes
users, compositions, hyperparameters and noise at once.

A user j is drawn, and whether to split or to merge. To split, a user i is drawn whose path begins
with that of j. Every cluster on j's path becomes two: the copy (see
:mod:`~kem_pymc.sampler.moves.path_copies`) has values b drawn around the values theta of the
original, and j moves to the copies. Each of the other users whose path is an initial part of j's is
assigned to one side, with probability proportional to (users there) x likelihood. The values of the
clusters of those who stay move in the opposite direction: they become a with
theta = (1 - w) a + w b, where w is the share of points of those who leave, or zero with a fixed
probability, separately for each cluster. To merge, a user i is drawn who has at least as many
datasets as j, and whose path doesn't begin with that of j. If both paths return to their clusters
at the same time steps, their compositions all differ by the same D, and j's clusters hold no users
other than those whose path is an initial part of j's, then all datasets on either path move to one
path with values theta. With d values in the copies that have an original,

    log ratio of a split = change of the log density - log q(D, b) - log q(sides) - d log(1 - w)
                         + log of the choice of the merge - log of the choice of the split,

and that of a merge is minus that. Most proposals are rejected, so acceptance is decided in two
stages, each with a ratio that the reverse move inverts: the first uses only the copies' prior and
proposal density and the likelihood of j (Christen and Fox 2005, Markov chain Monte Carlo using an
approximation).
"""

import math

import numpy as np

from kem_pymc._jit.decorators import compiled
from kem_pymc.gp.likelihood import first_point
from kem_pymc.sampler.moves.path_copies import (
    draw_difference,
    draw_values,
    first_visits,
    log_copies,
    open_path,
    shift,
)
from kem_pymc.sampler.state import (
    PATH_MERGE,
    PATH_SPLIT,
    attach,
    close_processes,
    dataset_log_likelihood,
    detach,
    free_slot,
    log_sum_exp,
    same_row,
)

#: Probability of proposing a split. Splits rarely propose good values for the copies, while merges
#: are easily accepted, so proposing splits more often makes both happen more often.
SPLIT_SHARE = 0.85

#: Probability that w of a cluster is zero.
STILL = 0.2


@compiled
def path_of(study, state, user):
    """Return the slots (t,) of a user's datasets, in order of time."""
    first = study.first[user]
    return state.assignment[first : first + study.data.steps[user]]


@compiled
def begins_with(path, other):
    """Return whether `path` begins with the path `other`, or equals it."""
    return other.shape[0] <= path.shape[0] and same_row(path[: other.shape[0]], other)


@compiled
def who_begins(study, state, path, j, same):
    """Return the users (k,) other than j whose path begins with a path, or doesn't if not `same`.

    Users who have fewer datasets than the path has time steps are left out.
    """
    found = np.empty(study.first.shape[0], dtype=np.int64)
    n = 0
    for user in range(study.first.shape[0]):
        own = path_of(study, state, user)
        if user != j and own.shape[0] >= path.shape[0] and begins_with(own, path) == same:
            found[n] = user
            n += 1
    return found[:n]


@compiled
def who_follows(study, state, path, i, j):
    """Return users (k,) other than i and j whose path is an initial part of a path or equals it."""
    found = np.empty(study.first.shape[0], dtype=np.int64)
    n = 0
    for user in range(study.first.shape[0]):
        if user not in (i, j) and begins_with(path, path_of(study, state, user)):
            found[n] = user
            n += 1
    return found[:n]


@compiled
def same_pattern(a, b):
    """Return whether two paths (t,) return to their slots at the same time steps."""
    for t in range(a.shape[0]):
        for s in range(t):
            if (a[s] == a[t]) != (b[s] == b[t]):
                return False
    return True


@compiled
def path_log_likelihood(study, state, user, path):
    """Return the log likelihood of a user's datasets in the slots of a path."""
    total = 0.0
    # From the last time step, so that one factorisation per slot serves all earlier ones.
    for t in range(study.data.steps[user] - 1, -1, -1):
        total += dataset_log_likelihood(study, state, path[t], study.first[user] + t)
    return total


@compiled
def _log_newcomer(study, state, j, whole, leave, visits, log_q):
    """Return the log ratio of the first stage of a split, in which only j moves to the copies."""
    total = path_log_likelihood(study, state, j, leave) - log_q
    total -= path_log_likelihood(study, state, j, whole)
    for t in visits:
        total += state.log_prior[leave[t]]
    return total


@compiled
def _choose_sides(study, state, whole, leave, order, sides, given, rng):
    """Assign users to one of two paths, one after the other; return the log probability.

    Parameters
    ----------
    order : (k,) int64
        Users, in the order in which they are assigned.
    sides : (U,) bool
        Indicators of the users who leave: input if `given`, output otherwise.
    """
    weights, counts = np.empty(2), np.ones(2)
    log_q = 0.0
    for user in order:
        weights[0] = math.log(counts[0]) + path_log_likelihood(study, state, user, whole)
        weights[1] = math.log(counts[1]) + path_log_likelihood(study, state, user, leave)
        total = log_sum_exp(weights, 2)
        if not given:
            sides[user] = math.log(rng.random()) < weights[1] - total
        log_q += weights[int(sides[user])] - total
        counts[int(sides[user])] += 1.0
    return log_q


@compiled
def _shares(study, place, sides, visits, rng):
    """Return w (k,) of every cluster: the share of points of users who leave, or zero."""
    shares = np.zeros(visits.shape[0])
    for k in range(visits.shape[0]):
        if rng.random() < STILL:
            continue
        points = np.zeros(2)
        for d in range(place.shape[0]):
            if place[d] == visits[k]:
                user, step = study.user[d], study.step[d]
                own = study.data.ends[user, step] - first_point(study.data, user, step)
                points[int(sides[user])] += own
        shares[k] = points[1] / (points[0] + points[1])
    return shares


@compiled
def _places(state, a, b):
    """Return for each dataset (N,) the time step at which a or b first visits its slot, or -1."""
    place = np.full(state.assignment.shape[0], -1, dtype=np.int64)
    for d in range(place.shape[0]):
        for t in range(a.shape[0] - 1, -1, -1):
            if state.assignment[d] in (a[t], b[t]):
                place[d] = t
    return place


@compiled
def _on_either(state, a, b):
    """Return the indicators (S,) of the slots on either of two paths."""
    marked = np.zeros(state.included.shape[0], dtype=np.bool_)
    marked[a] = True
    marked[b] = True
    return marked


@compiled
def _log_choice(study, j, sides, together, eligible):
    """Return the log probability of choosing the reverse merge of a split, minus that of the split.

    Parameters
    ----------
    sides : (U,) bool
        Indicators of the users who leave.
    together : int
        Number of users other than j whose path begins with that of j while the paths are one.
    eligible : int
        Number of users other than j with at least as many datasets as j.
    """
    apart = eligible
    for user in range(sides.shape[0]):
        apart -= user != j and sides[user] and study.data.steps[user] == study.data.steps[j]
    log_choice = math.log(1.0 - SPLIT_SHARE) - math.log(SPLIT_SHARE)
    return log_choice + math.log(together) - math.log(apart)


@compiled
def _seat(study, state, assignment):
    """Assign every dataset to its slot in `assignment` (N,)."""
    # From the last dataset, so that one factorisation per slot and user serves all earlier ones.
    for dataset in range(assignment.shape[0] - 1, -1, -1):
        if state.assignment[dataset] != assignment[dataset]:
            detach(study, state, dataset)
            attach(study, state, dataset, assignment[dataset])


@compiled
def _decide(study, state, assignment, log_ratio, rng):
    """Make the proposed assignment, undo it unless it is accepted, and return acceptance."""
    before, log_density = state.assignment.copy(), state.log_density[0]
    _seat(study, state, assignment)
    if math.log(rng.random()) < state.log_density[0] - log_density + log_ratio:
        return True
    _seat(study, state, before)
    state.log_density[0] = log_density
    return False


@compiled
def _give(state, path, visits):
    for t in visits:
        free_slot(state, path[t])


@compiled
def split_or_merge_paths(study, state, rng):
    """Propose that a group of users leaves a path or joins one; return acceptance."""
    j = int(rng.random() * study.first.shape[0])
    path = path_of(study, state, j).copy()
    split = rng.random() < SPLIT_SHARE
    choices = who_begins(study, state, path, j, split)
    if choices.shape[0] == 0:
        return False
    i = choices[int(rng.random() * choices.shape[0])]
    if split:
        accepted = _split(study, state, i, j, path, rng)
    else:
        stay = path_of(study, state, i)[: path.shape[0]].copy()
        accepted = _merge(study, state, i, j, stay, path, rng)
    close_processes(state)
    return accepted


@compiled
def _split(study, state, i, j, whole, rng):
    difference = draw_difference(study, state.included[whole[0]], rng)
    # Where the path returns to its first cluster, a copy of that would belong to two processes.
    if np.any(difference) and np.any(whole[1:] == whole[0]):
        return False
    state.counts[2 + 2 * PATH_SPLIT] += 1
    visits = first_visits(whole)
    leave = open_path(state, whole, visits, difference)
    changed = _on_either(state, whole, leave)
    draw_values(study, state, whole, leave, visits, changed, rng)
    log_q = log_copies(study, state, whole, leave, visits, changed)
    newcomer = _log_newcomer(study, state, j, whole, leave, visits, log_q)
    if not math.log(rng.random()) < newcomer:
        _give(state, leave, visits)
        return False

    together = who_begins(study, state, whole, j, True).shape[0]
    eligible = together + who_begins(study, state, whole, j, False).shape[0]
    sides = np.zeros(study.first.shape[0], dtype=np.bool_)
    sides[j] = True
    order = rng.permutation(who_follows(study, state, whole, i, j))
    log_q += _choose_sides(study, state, whole, leave, order, sides, False, rng)
    place = _places(state, whole, whole)
    shares = _shares(study, place, sides, visits, rng)
    stay = open_path(state, whole, visits, np.zeros_like(difference))
    log_q -= shift(study, state, stay, leave, visits, -shares / (1.0 - shares))
    assignment = state.assignment.copy()
    for d in range(assignment.shape[0]):
        if place[d] >= 0:
            assignment[d] = leave[place[d]] if sides[study.user[d]] else stay[place[d]]
    log_ratio = _log_choice(study, j, sides, together, eligible) - log_q - newcomer
    if not _decide(study, state, assignment, log_ratio, rng):
        _give(state, stay, visits)
        _give(state, leave, visits)
        return False
    _give(state, whole, visits)
    state.counts[3 + 2 * PATH_SPLIT] += 1
    return True


@compiled
def _can_merge(study, state, stay, leave, visits, sides):
    """Return whether a split could have led to two paths, with `sides` the users who left."""
    if not same_pattern(stay, leave):
        return False
    difference = state.included[stay[0]] != state.included[leave[0]]
    if np.any(difference) and np.any(stay[1:] == stay[0]):
        return False
    for t in visits:
        seated = 0
        for user in np.flatnonzero(sides):
            seated += np.sum(path_of(study, state, user) == leave[t])
        if seated < state.occupants[leave[t]]:
            return False
        if np.any((state.included[stay[t]] != state.included[leave[t]]) != difference):
            return False
    return True


@compiled
def _merge(study, state, i, j, stay, leave, rng):
    visits = first_visits(leave)
    sides = np.zeros(study.first.shape[0], dtype=np.bool_)
    sides[j] = True
    sides[who_follows(study, state, leave, i, j)] = True
    if not _can_merge(study, state, stay, leave, visits, sides):
        return False
    state.counts[2 + 2 * PATH_MERGE] += 1
    place = _places(state, stay, leave)
    shares = _shares(study, place, sides, visits, rng)
    whole = open_path(state, stay, visits, np.zeros_like(state.included[0]))
    log_jacobian = shift(study, state, whole, leave, visits, shares)
    log_q = log_copies(study, state, whole, leave, visits, _on_either(state, stay, leave))
    newcomer = _log_newcomer(study, state, j, whole, leave, visits, log_q)
    if not math.log(rng.random()) < -newcomer:
        _give(state, whole, visits)
        return False

    joined = who_begins(study, state, leave, j, True).shape[0]
    together = who_begins(study, state, stay, j, True).shape[0] + joined
    eligible = who_begins(study, state, leave, j, False).shape[0] + joined
    group = sides.copy()
    group[who_follows(study, state, stay, i, j)] = True
    group[j] = False
    order = rng.permutation(np.flatnonzero(group))
    log_q += _choose_sides(study, state, whole, leave, order, sides, True, rng)
    assignment = state.assignment.copy()
    for d in range(assignment.shape[0]):
        if place[d] >= 0:
            assignment[d] = whole[place[d]]
    log_ratio = log_q + log_jacobian + newcomer
    log_ratio -= _log_choice(study, j, sides, together, eligible)
    if not _decide(study, state, assignment, log_ratio, rng):
        _give(state, whole, visits)
        return False
    _give(state, stay, visits)
    _give(state, leave, visits)
    state.counts[3 + 2 * PATH_MERGE] += 1
    return True
