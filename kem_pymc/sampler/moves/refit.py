"""Propose a composition with values from a Laplace approximation to the members' posterior.

Values are proposed from a Student t around a mode of the cluster's conditional posterior,
independently of the present values (see :mod:`~kem_pymc.sampler.moves.fits`). The move evaluates
this density in both directions, each under its own composition, so it is an independence proposal
and exact, however good the fit is.

Since the present values aren't kept, any composition may be proposed. Half of the proposals copy
the composition of a cluster outside the component (which the move doesn't change), the others add,
remove or swap a candidate; in both directions, the probability of choosing a composition is the sum
over the two ways. Fits of compositions of many candidates, or to many points, take longest and are
accepted least often. Proposals may therefore be dropped before any fit is made, with a probability
that depends on the larger of the two compositions and on the members, which are the same in both
directions.
"""

import math

import numpy as np

from kem_pymc._system.jit.decorators import compiled, inlined
from kem_pymc.sampler.moves.component import change_to, complete, component
from kem_pymc.sampler.moves.composition import exchanged, neighbour, neighbour_probability
from kem_pymc.sampler.moves.fits import draw_values, fit_cluster, log_density
from kem_pymc.sampler.moves.kernel_change import member_reach
from kem_pymc.sampler.state import REFIT, same_row

#: Probability that a proposal copies another cluster's composition.
COPY_SHARE = 0.5

#: Number of candidates up to which every proposal is fitted, and number beyond which none is.
FEW, MOST = 3, 8

#: Work of factorising all members, up to which every proposal is fitted: 20 users with 10 points.
LITTLE = 20 * 10.0**3


@compiled
def propose_values(places, centre, factor, theta, rng):
    """Draw values around a fit into `theta` (H,); return the log noise and the log density."""
    values = draw_values(centre, factor, rng)
    for k in range(places.shape[0]):
        theta[places[k]] = values[k]
    return values[-1], log_density(centre, factor, values)


@compiled
def log_present(state, cluster, places, centre, factor):
    """Return the log density of proposing a cluster's present values from a fit."""
    values = np.empty(centre.shape[0])
    for k in range(places.shape[0]):
        values[k] = state.theta_unconstrained[cluster, places[k]]
    values[-1] = state.log_noise[cluster]
    return log_density(centre, factor, values)


@compiled
def outsiders(state, changed):
    """Return the occupied clusters outside the changing component."""
    live = state.live[: state.sizes[0]]
    return live[~changed[live]]


@compiled
def log_probability_of_choice(state, others, included, wanted, odds):
    """Return the log probability of choosing `wanted` if the present composition is `included`."""
    copies = 0
    for cluster in others:
        copies += same_row(state.included[cluster], wanted)
    copy_share = COPY_SHARE if others.shape[0] > 0 else 0.0
    near = neighbour_probability(included, wanted, odds)
    return math.log((1.0 - copy_share) * near + copy_share * copies / max(others.shape[0], 1))


@compiled
def chance_of_fit(size):
    """Return the factor of the probability of a fit due to the size of the larger composition."""
    if size > MOST:
        return 0.0
    return (FEW / max(size, FEW)) ** 2


@compiled
def chance_of_fit_to_members(model, state, cluster):
    """Return the factor of the probability of a fit due to the number of points of members."""
    work = 0.0
    reach = member_reach(model, state, cluster)
    for user in np.flatnonzero(reach):
        work += float(model.data.ends[user, reach[user] - 1]) ** 3
    return LITTLE / max(work, LITTLE)


@inlined
def refit_composition(model, state, cluster, joint, odds, rng):
    """Propose any composition with fitted values for a cluster (and its component, if joint).

    A neighbour is always another composition, so only the ratios of the odds matter. Returns
    whether the proposal was accepted.
    """
    state.proposed[REFIT] += 1
    size = state.included[cluster].sum()
    threshold = rng.random() / chance_of_fit_to_members(model, state, cluster)
    if threshold >= chance_of_fit(size):
        return False
    possible, changed, moved = component(model, state, cluster, joint)
    if not possible:
        return False
    others = outsiders(state, changed)
    old = state.included[cluster].copy()
    if others.shape[0] > 0 and rng.random() < COPY_SHARE:
        new = state.included[others[int(rng.random() * others.shape[0])]].copy()
    else:
        removed, added, _ = neighbour(old, odds, rng)
        new = exchanged(old, removed, added)
    if threshold >= chance_of_fit(max(size, new.sum())):
        return False
    log_ratio = log_probability_of_choice(state, others, new, old, odds)
    log_ratio -= log_probability_of_choice(state, others, old, new, odds)
    change = change_to(state, changed, moved, old, new)
    for i in range(change.clusters.shape[0]):
        k = change.clusters[i]
        if changed[k]:
            # Fits are made here and passed on, because every caller of `fit_cluster` takes long to
            # compile.
            parent = state.parent[change.target if moved[k] else state.dp[k]]
            places, centre, factor = fit_cluster(model, state, k, new, parent)
            change.log_noise[i], log_q = propose_values(
                places, centre, factor, change.theta[i], rng
            )
            parent = state.parent[state.dp[k]]
            places, centre, factor = fit_cluster(model, state, k, state.included[k], parent)
            log_ratio += log_present(state, k, places, centre, factor) - log_q
    accepted = complete(model, state, change, log_ratio, rng)
    state.accepted[REFIT] += accepted
    return accepted
