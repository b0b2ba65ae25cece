"""Another composition with hyperparameters fitted to the members: Laplace's approximation.

For given members, composition and parent composition, a search that looks at nothing else finds a
mode of the cluster's conditional posterior, and the curvature there. Values are proposed from a
Student t around it, whatever the present ones are. A move evaluates this density in both
directions, each under its own composition, so it is an independence proposal and exact, however
good or bad the fit.

Since nothing of the present values is kept, the new composition may be any. Half of the proposals
copy that of a cluster outside the component (which the move doesn't change), the others add,
remove or swap a candidate; the probability of either counts in both directions.
"""

import math

import numpy as np

from kem_pymc.compiled import compiled
from kem_pymc.evolution.moves.component import (
    affected_slots,
    complete,
    component,
    move_processes,
)
from kem_pymc.evolution.moves.composition import neighbour, neighbour_probability
from kem_pymc.evolution.moves.kernel_change import member_reach
from kem_pymc.evolution.state import REFIT, active_candidates, close_processes, same_row
from kem_pymc.gp.likelihood import cholesky, covariance
from kem_pymc.gp.maximise import climb
from kem_pymc.gp.objective import Prior, Problem, evaluate

#: Share of proposals that copy another cluster's composition.
COPY_SHARE = 0.5

#: Degrees of freedom of the proposal: tails heavier than those of what it approximates.
DEGREES = 5.0

#: The search ends where it promises so little; it keeps coordinates within plus or minus `FAR`.
ENOUGH, FAR = 0.1, 25.0

#: Step of the differences that give the curvature.
STEP = 1e-3

#: Where searches start: priors' medians plus so many scales, and the log of the noise's share of
#: the targets' variance. Then values of so many other clusters. The best few are followed.
LEVELS = np.array([[0.0, -3.0], [0.0, -1.0], [1.5, -3.0], [1.5, -1.0], [-1.5, -3.0]])
COPIES, RUNS = 4, 2

#: Points on which a candidate's variance is looked up.
SAMPLE = 8

#: Least curvature of a coordinate, in units of its prior's scale; tenfold until that is enough.
RIDGE = 0.05


@compiled
def cluster_problem(study, state, slot, included, parent):
    """Return the conditional posterior of a slot's values under a composition, as a Problem."""
    layout = study.layout
    active = active_candidates(included)
    size = 0
    for c in active:
        size += layout.hyper_start[c + 1] - layout.hyper_start[c]
    places = np.empty(size, dtype=np.int64)
    k = 0
    for c in active:
        for p in range(layout.hyper_start[c], layout.hyper_start[c + 1]):
            places[k] = p
            k += 1
    x, y, weights, starts = _members(study, state, slot)
    priors = study.priors
    prior = Prior(
        np.zeros(size + 1),
        np.zeros(size + 1),
        priors.entry[places],
        parent.copy(),
        priors.log_density,
        priors.gradient,
        priors.noise_log_density,
        priors.noise_gradient,
        True,
    )
    return Problem(study.kernels, layout, active, places, x, y, weights, starts, prior)


@compiled
def _members(study, state, slot):
    """Return points, targets, weights and starts of a slot's members.

    Where datasets are prefixes of one another, all of a user's are one data set, whose points count
    as often as members hold them.
    """
    data = study.data
    reach = member_reach(study, state, slot)
    blocks, points = 0, 0
    for user in range(reach.shape[0]):
        for step in range(reach[user]):
            last = step == reach[user] - 1
            if last or (not data.nested and state.assignment[study.first[user] + step] == slot):
                blocks += 1
                points += data.ends[user, step]
    if study.power == 0.0:
        blocks, points = 0, 0
    x = np.empty((data.x.shape[1], points))
    y = np.empty(points)
    weights = np.empty(points)
    starts = np.zeros(blocks + 1, dtype=np.int64)
    if study.power == 0.0:
        return x, y, weights, starts
    b = 0
    for user in range(reach.shape[0]):
        for step in range(reach[user]):
            last = step == reach[user] - 1
            if not last and (data.nested or state.assignment[study.first[user] + step] != slot):
                continue
            n, start = data.ends[user, step], starts[b]
            x[:, start : start + n] = data.x[user, :, :n]
            y[start : start + n] = data.y[user, step, :n]
            weights[start : start + n] = 0.0 if data.nested else study.power
            if data.nested:
                for earlier in range(step + 1):
                    if state.assignment[study.first[user] + earlier] == slot:
                        weights[start : start + data.ends[user, earlier]] += study.power
            b += 1
            starts[b] = start + n
    return x, y, weights, starts


@compiled
def own_scale(study, problem, candidate):
    """Return the log of a candidate's mean variance at unit amplitude, the rest at centre."""
    n = min(problem.y.shape[0], SAMPLE)
    covariances, scratch = np.empty((n, n)), np.empty((n, n))
    only = np.array([candidate])
    h = study.priors.centre.copy()
    h[study.layout.hyper_start[candidate]] = 0.0
    x = np.ascontiguousarray(problem.x[:, :n])
    covariance(study.kernels, study.layout, only, h, x, covariances, scratch)
    total = 1e-6
    for i in range(n):
        total += covariances[i, i] / n
    return math.log(total)


@compiled
def starting_points(study, state, problem, included, others):
    """Return points (s, d) from which to search.

    Priors' medians and above, with amplitudes and noise that share the targets' variance; and
    values of clusters outside the component that have the composition.
    """
    layout, places = study.layout, problem.places
    d = places.shape[0] + 1
    n_design = LEVELS.shape[0]
    points = np.empty((n_design + COPIES, d))
    variance = math.log(1e-3 + np.mean(problem.y * problem.y)) if problem.y.shape[0] > 0 else 0.0
    size = problem.active.shape[0]
    for s in range(n_design):
        points[s, :-1] = study.priors.centre[places] + LEVELS[s, 0] * study.priors.scale[places]
        points[s, -1] = variance + LEVELS[s, 1]
    k = 0
    for c in problem.active:
        if problem.y.shape[0] > 0:
            amplitude = variance - math.log(size) - own_scale(study, problem, c)
            points[:n_design, k] = amplitude
        k += layout.hyper_start[c + 1] - layout.hyper_start[c]
    n = n_design
    for slot in others:
        if n < points.shape[0] and same_row(state.included[slot], included):
            points[n, :-1] = state.h[slot][places]
            points[n, -1] = state.log_noise[slot]
            n += 1
    return points[:n]


@compiled
def approximate(study, state, problem, points):
    """Return mode (d,) and factor U (d, d) of the curvature U'U there: Laplace's approximation."""
    d = points.shape[1]
    n = points.shape[0]
    gradient = np.empty(d)
    heights = np.empty(n)
    for s in range(n):
        likelihood, density = evaluate(problem, points[s], gradient)
        heights[s] = likelihood + density
    evaluations = n + 1 + d
    low, high = np.full(d, -FAR), np.full(d, FAR)
    centre = points[0].copy()
    best = -math.inf
    for s in np.argsort(-heights, kind="mergesort")[:RUNS]:
        if heights[s] == -math.inf:
            break
        values = points[s].copy()
        height, used, _ = climb(problem, values, low, high, ENOUGH)
        evaluations += used
        if height > best:
            best = height
            centre[:] = values
    evaluate(problem, centre, gradient)
    curvature = np.empty((d, d))
    for i in range(d):
        shifted = centre.copy()
        shifted[i] += STEP
        evaluate(problem, shifted, curvature[i])
        curvature[i] = (gradient - curvature[i]) / STEP
    state.counts[0] += evaluations * (problem.starts.shape[0] - 1)
    factor = np.empty((d, d))
    ridge = RIDGE
    while True:
        for i in range(d):
            for j in range(d):
                factor[i, j] = 0.5 * (curvature[i, j] + curvature[j, i])
            scale = study.priors.scale[problem.places[i]] if i < d - 1 else 1.0
            factor[i, i] += ridge / (scale * scale)
        if cholesky(factor, d) == d:
            return centre, factor
        ridge *= 10.0


@compiled
def draw_values(centre, factor, rng):
    """Draw values (d,) from the Student t around an approximation."""
    d = centre.shape[0]
    stretch = math.sqrt(DEGREES / rng.chisquare(DEGREES))
    values = np.empty(d)
    for i in range(d):
        values[i] = stretch * rng.normal()
    for i in range(d - 1, -1, -1):
        for j in range(i + 1, d):
            values[i] -= factor[i, j] * values[j]
        values[i] /= factor[i, i]
    return values + centre


@compiled
def log_density(centre, factor, values):
    """Return the log density that `draw_values` draws from."""
    d = centre.shape[0]
    total = math.lgamma(0.5 * (DEGREES + d)) - math.lgamma(0.5 * DEGREES)
    total -= 0.5 * d * math.log(DEGREES * math.pi)
    square = 0.0
    for i in range(d):
        z = 0.0
        for j in range(i, d):
            z += factor[i, j] * (values[j] - centre[j])
        square += z * z
        total += math.log(factor[i, i])
    return total - 0.5 * (DEGREES + d) * math.log1p(square / DEGREES)


@compiled
def propose_values(study, state, slot, included, parent, others, h, rng):
    """Write values for a slot under another composition to `h` (H,).

    Returns
    -------
    log_noise, log_q : float
        The proposed noise, and the log density of the proposal.
    """
    problem = cluster_problem(study, state, slot, included, parent)
    points = starting_points(study, state, problem, included, others)
    centre, factor = approximate(study, state, problem, points)
    values = draw_values(centre, factor, rng)
    for k in range(problem.places.shape[0]):
        h[problem.places[k]] = values[k]
    return values[-1], log_density(centre, factor, values)


@compiled
def log_present(study, state, slot, others):
    """Return the log density of proposing a slot's present values under its present composition."""
    parent = state.parent[state.process[slot]]
    included = state.included[slot]
    problem = cluster_problem(study, state, slot, included, parent)
    points = starting_points(study, state, problem, included, others)
    centre, factor = approximate(study, state, problem, points)
    values = np.empty(centre.shape[0])
    for k in range(problem.places.shape[0]):
        values[k] = state.h[slot, problem.places[k]]
    values[-1] = state.log_noise[slot]
    return log_density(centre, factor, values)


@compiled
def outsiders(state, changed):
    """Return the live slots outside the changing component."""
    found = np.empty(state.sizes[0], dtype=np.int64)
    n = 0
    for k in range(state.sizes[0]):
        if not changed[state.live[k]]:
            found[n] = state.live[k]
            n += 1
    return found[:n]


@compiled
def log_probability_of_choice(state, others, included, wanted, p_add, p_remove, p_swap):
    """Return the log probability of choosing a composition, given the present one."""
    copies = 0
    for slot in others:
        copies += same_row(state.included[slot], wanted)
    copy_share = COPY_SHARE if others.shape[0] > 0 else 0.0
    near = neighbour_probability(included, wanted, p_add, p_remove, p_swap)
    return math.log((1.0 - copy_share) * near + copy_share * copies / max(others.shape[0], 1))


@compiled
def refit_composition(study, state, slot, joint, p_add, p_remove, p_swap, rng):
    """Propose any composition, fitted, for a slot (and its component, if joint).

    `p_add`, `p_remove` and `p_swap` are relative. Returns acceptance.
    """
    state.counts[2 + 2 * REFIT] += 1
    changed = np.zeros(state.included.shape[0], dtype=np.bool_)
    moved = changed.copy()
    if not component(study, state, slot, joint, changed, moved):
        return False
    others = outsiders(state, changed)
    old = state.included[slot].copy()
    new = old.copy()
    if others.shape[0] > 0 and rng.random() < COPY_SHARE:
        new[:] = state.included[others[int(rng.random() * others.shape[0])]]
    else:
        removed, added, _ = neighbour(old, p_add, p_remove, p_swap, rng)
        if removed < 0 and added < 0:
            return False
        if removed >= 0:
            new[removed] = False
        if added >= 0:
            new[added] = True
    log_ratio = log_probability_of_choice(state, others, new, old, p_add, p_remove, p_swap)
    log_ratio -= log_probability_of_choice(state, others, old, new, p_add, p_remove, p_swap)
    target, log_seating = move_processes(study, state, moved, old, new)
    affected = affected_slots(changed, moved)
    h = state.h[affected]
    log_noise = state.log_noise[affected]
    for i in range(affected.shape[0]):
        k = affected[i]
        if changed[k]:
            parent = state.parent[target if moved[k] else state.process[k]]
            log_noise[i], log_q = propose_values(study, state, k, new, parent, others, h[i], rng)
            log_ratio += log_present(study, state, k, others) - log_q
    accepted = complete(
        study,
        state,
        affected,
        changed,
        moved,
        new,
        target,
        h,
        log_noise,
        log_ratio,
        log_seating,
        rng,
    )
    state.counts[3 + 2 * REFIT] += accepted
    close_processes(state)
    return accepted
