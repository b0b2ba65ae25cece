"""Propose hyperparameters for a candidate that enters a composition, and evaluate their density.

The proposal is a mixture of three: the prior; a jittered copy of the same candidate in another
cluster; and jittered copies of factors with the same base kernel in the cluster's own composition
("relatives"), with the amplitude drawn from the prior. A mixture component that has nothing to copy
gives its weight to the prior.

The sources of copies must be the same in both directions of a move: clusters outside the component
that changes, the first cluster of that component, and the composition without the new candidate.
"""

import math

import numpy as np

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.sampler.state import (
    candidate_log_prior,
    draw_candidate,
    log_sum_exp,
    value_log_prior,
)

COPY_SHARE, RELATIVE_SHARE = 0.35, 0.35

#: Standard deviations of the jitter, in units of min(prior sd, 1): FINE or COARSE, with equal
#: probability, for copies of the candidate, RELATIVE for copies of relatives.
FINE, COARSE, RELATIVE = 0.1, 0.5, 0.3

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@compiled
def log_normal_step(model, start, stop, theta, source, offset, scale):
    """Return the log density of a jittered copy: theta[p] around source[p + offset]."""
    total = 0.0
    for p in range(start, stop):
        width = scale * model.priors.scale[p]
        z = (theta[p] - source[p + offset]) / width
        total -= 0.5 * z * z + math.log(width) + LOG_SQRT_2PI
    return total


@compiled
def sources(state, candidate, changed):
    """Return the occupied clusters outside the changing component that include a candidate."""
    live = state.live[: state.sizes[0]]
    return live[~changed[live] & state.included[:, candidate][live]]


@compiled
def relatives(model, composition, candidate, factor):
    """Return the factors in a composition, except in `candidate`, with the base of `factor`."""
    layout = model.layout
    factors = np.empty(layout.factor_base.shape[0], dtype=np.int64)
    n = 0
    for c in range(composition.shape[0]):
        if composition[c] and c != candidate:
            for f in range(layout.factor_start[c], layout.factor_start[c + 1]):
                if layout.factor_base[f] == layout.factor_base[factor]:
                    factors[n] = f
                    n += 1
    return factors[:n]


@compiled
def has_relatives(model, composition, candidate):
    """Return whether any factor of a candidate has a relative with hyperparameters."""
    layout = model.layout
    for f in range(layout.factor_start[candidate], layout.factor_start[candidate + 1]):
        if layout.factor_size[f] > 0 and relatives(model, composition, candidate, f).shape[0] > 0:
            return True
    return False


@compiled
def log_birth(model, state, candidate, composition, changed, first, theta, row):
    """Return the log density of proposing the values of a candidate in ``theta[row]``.

    Parameters
    ----------
    candidate : int
        Index of the candidate that enters.
    composition : (C,) bool
        Composition before the candidate enters (it may include one that leaves in the same move).
    changed : (S,) bool
        Indicators of the clusters of the component that changes.
    first : int
        Row of `theta` of the first cluster of that component; `row` for that cluster itself.
    theta : (n, H) float64
        Values of the affected clusters.
    row : int
        Row of `theta` of the cluster that the candidate enters.
    """
    layout = model.layout
    start, stop = layout.hyper_start[candidate], layout.hyper_start[candidate + 1]
    values = theta[row]
    others = sources(state, candidate, changed)
    copies = others.shape[0] + (first != row)
    related = has_relatives(model, composition, candidate)
    copy_share = COPY_SHARE if copies > 0 else 0.0
    relative_share = RELATIVE_SHARE if related else 0.0
    terms = np.empty(2 + 2 * copies)
    terms[0] = math.log(1.0 - copy_share - relative_share)
    terms[0] += candidate_log_prior(model, candidate, values)
    n = 1
    if copies > 0:
        weight = math.log(0.5 * copy_share / copies)
        for scale in (FINE, COARSE):
            for other in others:
                source = state.theta_unconstrained[other]
                terms[n] = weight + log_normal_step(model, start, stop, values, source, 0, scale)
                n += 1
            if first != row:
                source = theta[first]
                terms[n] = weight + log_normal_step(model, start, stop, values, source, 0, scale)
                n += 1
    if related:
        terms[n] = math.log(relative_share) + log_relatives(model, candidate, composition, values)
        n += 1
    return log_sum_exp(terms, n)


@compiled
def log_relatives(model, candidate, composition, values):
    """Return the log density of the mixture component that copies relatives."""
    layout = model.layout
    amplitude = layout.hyper_start[candidate]
    total = value_log_prior(model, amplitude, values[amplitude])
    for f in range(layout.factor_start[candidate], layout.factor_start[candidate + 1]):
        start = layout.factor_hyper[f]
        stop = start + layout.factor_size[f]
        kin = relatives(model, composition, candidate, f)
        if kin.shape[0] == 0:
            for p in range(start, stop):
                total += value_log_prior(model, p, values[p])
            continue
        terms = np.empty(kin.shape[0])
        for k in range(kin.shape[0]):
            offset = layout.factor_hyper[kin[k]] - start
            terms[k] = log_normal_step(model, start, stop, values, values, offset, RELATIVE)
        total += log_sum_exp(terms, kin.shape[0]) - math.log(kin.shape[0])
    return total


@compiled
def draw_birth(model, state, candidate, composition, changed, first, theta, row, rng):
    """Draw values for a candidate into ``theta[row]``; the arguments are those of `log_birth`."""
    layout = model.layout
    start, stop = layout.hyper_start[candidate], layout.hyper_start[candidate + 1]
    others = sources(state, candidate, changed)
    copies = others.shape[0] + (first != row)
    related = has_relatives(model, composition, candidate)
    u = rng.random()
    if copies > 0 and u < COPY_SHARE:
        chosen = int(rng.random() * copies)
        source = (
            state.theta_unconstrained[others[chosen]] if chosen < others.shape[0] else theta[first]
        )
        scale = FINE if rng.random() < 0.5 else COARSE
        for p in range(start, stop):
            theta[row, p] = source[p] + scale * model.priors.scale[p] * rng.normal()
    elif related and u > 1.0 - RELATIVE_SHARE:
        draw_candidate(model, candidate, rng, theta[row])
        for f in range(layout.factor_start[candidate], layout.factor_start[candidate + 1]):
            kin = relatives(model, composition, candidate, f)
            if kin.shape[0] > 0:
                offset = layout.factor_hyper[kin[int(rng.random() * kin.shape[0])]]
                for k in range(layout.factor_size[f]):
                    p = layout.factor_hyper[f] + k
                    jitter = RELATIVE * model.priors.scale[p] * rng.normal()
                    theta[row, p] = theta[row, offset + k] + jitter
    else:
        draw_candidate(model, candidate, rng, theta[row])
