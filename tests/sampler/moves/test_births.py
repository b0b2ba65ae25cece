"""Values of a candidate that enters: drawn with the density that is said."""

import math

import numpy as np
import pytest

from kem_pymc._jit.decorators import compiled
from kem_pymc.sampler.moves.births import draw_birth, log_birth
from kem_pymc.sampler.moves.sweep import (
    CUT,
    start,
    sweep,
)
from kem_pymc.sampler.state import (
    candidate_log_prior,
)


@compiled
def _prior_over_birth(study, state, candidate, own, rng, n):
    h = state.h[state.live[:1]].copy()
    changed = np.zeros(state.occupants.shape[0], dtype=np.bool_)
    changed[state.live[0]] = True
    out = np.empty(n)
    for i in range(n):
        draw_birth(study, state, candidate, own, changed, 0, h, 0, rng)
        log_q = log_birth(study, state, candidate, own, changed, 0, h, 0)
        out[i] = math.exp(candidate_log_prior(study, candidate, h[0]) - log_q)
    return out


@pytest.mark.parametrize("own", [[0, 0, 0], [1, 1, 0]], ids=["alone", "with a relative"])
def test_density_of_births_is_that_of_their_draws(engine, own):
    # E_q[p / q] = 1 for the normalised prior p: it fails if q isn't what is drawn from.
    rng = np.random.default_rng(3)
    state = start(engine.study, CUT, rng)
    while not state.included[state.live[1 : state.sizes[0]], 2].any():
        sweep(engine.study, state, CUT, rng)  # until another cluster has something to copy
    own = np.array(own, dtype=bool)
    ratios = _prior_over_birth(engine.study, state, 2, own, rng, 200_000)
    assert ratios.max() < 4  # the prior's share bounds it, so the mean is well behaved
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / math.sqrt(len(ratios))
