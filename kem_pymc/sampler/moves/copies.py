"""Propose the kernel of a new cluster from that of another cluster.

Values are drawn from the prior, or are a jittered copy at one of two scales. All values of a kernel
share this choice, so a copied kernel is about as plausible as its original.
"""

import math
from typing import NamedTuple

import numpy as np

from kem_pymc._jit.decorators import compiled
from kem_pymc.sampler.moves.births import LOG_SQRT_2PI
from kem_pymc.sampler.state import (
    active_candidates,
    draw_noise,
    draw_value,
    log_sum_exp,
    noise_log_prior,
    value_log_prior,
)


class Spread(NamedTuple):
    """Distribution of the values of a copy around those of its original.

    Attributes
    ----------
    prior : float
        Probability that values are drawn from the prior instead.
    fine, coarse : float
        The two scales of the jitter, equally probable, in units of min(prior sd, 1).
    """

    prior: float
    fine: float
    coarse: float


@compiled
def same_origins(study, included):
    """Return the origins (H,) of the values of a copy with the same candidates as its original.

    Each value of a candidate that is in is copied from the same index; the others have -1.
    """
    origins = np.full(study.layout.positive.shape[0], -1, dtype=np.int64)
    for c in active_candidates(included):
        for p in range(study.layout.hyper_start[c], study.layout.hyper_start[c + 1]):
            origins[p] = p
    return origins


@compiled
def log_copy(study, spread, origins, parent, h, log_noise, source, source_noise):
    """Return the log density of proposing hyperparameters and noise from those of another kernel.

    Parameters
    ----------
    spread : Spread
    origins : (H,) int64
        Index of the value of the other kernel that each value is a copy of; negative where a value
        isn't a copy.
    parent : (C,) bool
        Parent composition of the new cluster, on which the prior of its noise depends.
    h, source : (H,) float64
        Hyperparameters of the new cluster and of the other one.
    log_noise, source_noise : float
        Log noise variances of the new cluster and of the other one.
    """
    terms = np.empty(3)
    scales = (spread.fine, spread.coarse)
    terms[0] = math.log(spread.prior) + noise_log_prior(study, parent, log_noise)
    for k in range(2):
        z = (log_noise - source_noise) / scales[k]
        terms[k + 1] = math.log(0.5 * (1.0 - spread.prior)) - 0.5 * z * z
        terms[k + 1] -= math.log(scales[k]) + LOG_SQRT_2PI
    for p in range(origins.shape[0]):
        if origins[p] < 0:
            continue
        terms[0] += value_log_prior(study, p, h[p])
        for k in range(2):
            width = scales[k] * study.priors.scale[p]
            z = (h[p] - source[origins[p]]) / width
            terms[k + 1] -= 0.5 * z * z + math.log(width) + LOG_SQRT_2PI
    return log_sum_exp(terms, 3)


@compiled
def draw_copy(study, spread, origins, parent, h, source, source_noise, rng):
    """Draw hyperparameters into `h` and return the log noise; arguments are those of `log_copy`."""
    from_prior = rng.random() < spread.prior
    scale = spread.fine if rng.random() < 0.5 else spread.coarse
    for p in range(origins.shape[0]):
        if origins[p] >= 0:
            if from_prior:
                h[p] = draw_value(study, p, rng)
            else:
                h[p] = source[origins[p]] + scale * study.priors.scale[p] * rng.normal()
    if from_prior:
        return draw_noise(study, parent, rng)
    return source_noise + scale * rng.normal()
