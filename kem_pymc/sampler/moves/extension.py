"""Multiply a candidate by a factor, or remove one of its factors, and keep everything else.

LIN0 becomes LIN0 x PER0, or the other way round. The amplitude and the hyperparameters of factors
that both candidates have stay as they are; only those of the factor that enters are drawn. Where a
factor hardly varies, a product is the same function with and without it. But a swap, which draws
all values of the candidate that enters, seldom moves from one to the other where several clusters
change together.

The values that both have are mapped one to one with Jacobian 1, so the ratio contains only the
density of the factor that enters or leaves. In the first cluster of a component that density is the
prior, in the others a mixture of the prior and a jittered copy of the first cluster's values. The
candidate is drawn from those that are in the composition, and its replacement from all candidates
that differ from it by one factor and aren't in the composition.
"""

import math

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.sampler.moves.births import log_normal_step
from kem_pymc.sampler.moves.component import change_to, complete, component
from kem_pymc.sampler.moves.composition import exchanged
from kem_pymc.sampler.state import (
    EXTEND,
    draw_value,
    log_sum_exp,
    value_log_prior,
)

#: Probability that a factor's values in a later cluster of a component are copied from the first
#: cluster, and the standard deviation of the jitter, in units of min(prior sd, 1).
COPY_SHARE, JITTER = 0.5, 0.3


@compiled
def is_product(layout, longer, factor, shorter):
    """Return whether candidate `longer` without `factor` is candidate `shorter`."""
    start, stop = layout.factor_start[longer], layout.factor_start[longer + 1]
    other = layout.factor_start[shorter]
    if stop - start != layout.factor_start[shorter + 1] - other + 1:
        return False
    for f in range(start, stop):  # factors are sorted, so they can be compared in order
        if f == factor:
            continue
        if layout.factor_base[f] != layout.factor_base[other]:
            return False
        if layout.factor_dimension[f] != layout.factor_dimension[other]:
            return False
        other += 1
    return True


@compiled
def extensions(layout, included, candidate):
    """Return the possible replacements (k, 2) of a candidate that differ from it by a factor.

    Each row has the index of the replacement and that of the factor that enters or leaves.
    """
    candidates = included.shape[0]
    factors = layout.factor_start[candidate + 1] - layout.factor_start[candidate]
    pairs = np.empty((layout.factor_base.shape[0] + candidates * factors, 2), dtype=np.int64)
    n = 0
    for other in range(candidates):
        if included[other]:
            continue
        for longer, shorter in ((candidate, other), (other, candidate)):
            for f in range(layout.factor_start[longer], layout.factor_start[longer + 1]):
                if is_product(layout, longer, f, shorter):
                    pairs[n] = other, f
                    n += 1
    return pairs[:n]


@compiled
def keep_shared(layout, source, target, factor, values):
    """Copy the values that two candidates differing by a factor share from source to target.

    `values` (H,), which holds the values of both, is changed in place.
    """
    start = layout.factor_hyper[factor]
    stop = start + layout.factor_size[factor]
    here = np.arange(layout.hyper_start[source], layout.hyper_start[source + 1])
    there = np.arange(layout.hyper_start[target], layout.hyper_start[target + 1])
    here = here[(here < start) | (here >= stop)]
    values[there[(there < start) | (there >= stop)]] = values[here]


@compiled
def log_factor(model, factor, theta, first, row):
    """Return the log density of proposing the values of a factor in ``theta[row]``.

    ``theta[first]`` has the values of the first cluster of the component.
    """
    start = model.layout.factor_hyper[factor]
    stop = start + model.layout.factor_size[factor]
    terms = np.zeros(2)
    for p in range(start, stop):
        terms[0] += value_log_prior(model, p, theta[row, p])
    if row == first:
        return terms[0]
    terms[0] += math.log(1.0 - COPY_SHARE)
    terms[1] = math.log(COPY_SHARE)
    terms[1] += log_normal_step(model, start, stop, theta[row], theta[first], 0, JITTER)
    return log_sum_exp(terms, 2)


@compiled
def draw_factor(model, factor, theta, first, row, rng):
    """Draw values for a factor into ``theta[row]``; the arguments are those of `log_factor`."""
    start = model.layout.factor_hyper[factor]
    copied = row != first and rng.random() < COPY_SHARE
    for p in range(start, start + model.layout.factor_size[factor]):
        if copied:
            theta[row, p] = theta[first, p] + JITTER * model.priors.scale[p] * rng.normal()
        else:
            theta[row, p] = draw_value(model, p, rng)


@compiled
def extend_or_contract(model, state, cluster, joint, rng):
    """Propose to add or remove a factor of a candidate of a cluster (and its component, if joint).

    Returns whether the proposal was accepted.
    """
    layout = model.layout
    old = state.included[cluster].copy()
    active = np.flatnonzero(old)
    if active.shape[0] == 0:
        return False
    leaving = active[int(rng.random() * active.shape[0])]
    choices = extensions(layout, old, leaving)
    if choices.shape[0] == 0:
        return False
    state.proposed[EXTEND] += 1
    possible, changed, moved = component(model, state, cluster, joint)
    if not possible:
        return False
    chosen = int(rng.random() * choices.shape[0])
    entering, factor = choices[chosen, 0], choices[chosen, 1]
    longer = layout.factor_start[entering] <= factor < layout.factor_start[entering + 1]
    new = exchanged(old, leaving, entering)
    log_ratio = math.log(choices.shape[0] / extensions(layout, new, entering).shape[0])
    change = change_to(state, changed, moved, old, new)
    first = change.first
    for i in range(change.clusters.shape[0]):
        if not changed[change.clusters[i]]:
            continue
        keep_shared(layout, leaving, entering, factor, change.theta[i])
        if longer:
            draw_factor(model, factor, change.theta, first, i, rng)
            log_ratio -= log_factor(model, factor, change.theta, first, i)
        else:
            log_ratio += log_factor(model, factor, change.theta, first, i)
    accepted = complete(model, state, change, log_ratio, rng)
    state.accepted[EXTEND] += accepted
    return accepted
