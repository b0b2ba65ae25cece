"""The concentration: one step from the exact conditional, and the way back."""

import math

import numpy as np
import pymc as pm
import pytest

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.model.engine import Engine
from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.moves.concentration import redraw_concentration
from kem_pymc.sampler.moves.sweep import check_density
from kem_pymc.sampler.state import change_concentration
from tests.sampler.moves.by_hand import seated
from tests.sampler.moves.steps import inverse, reversible, stationary

#: Processes of five, two and one members, in three clusters and in one each.
LABELS = ["ade", "ad", "wwc"]
COMPOSITIONS = {"a": ["SE0"], "d": ["LIN0"], "e": [], "w": [], "c": ["LIN0"]}


@pytest.fixture(scope="module")
def learning(cohort, pool, table):
    return Engine(cohort, pool, table, pm.Gamma.dist(3, 2), likelihood_power=0.0)


@compiled
def _steps(model, state, starts, rng):
    out = np.empty_like(starts)
    for i in range(starts.shape[0]):
        change_concentration(model, state, math.exp(starts[i]))
        redraw_concentration(model, state, rng)
        out[i] = math.log(state.concentration[0])
    return out


def test_a_step_from_the_conditional_is_a_draw_from_it_and_reversible(learning):
    """Of the log of alpha, by the joint density on a grid.

    A cluster more or less in the conditional would move its mean by a fifth of its spread, and be
    noticed; so would a prior of another shape, or a process left out. A step the other way round
    without s or with another w isn't reversible.
    """
    model = learning.model
    state = seated(learning, LABELS, COMPOSITIONS)
    assert state.members[state.used].tolist() == [5, 2, 1]
    grid = np.linspace(-6, 4, 4001)
    log_density = np.empty(len(grid))
    for k, x in enumerate(grid):
        state.concentration[0] = math.exp(x)
        log_density[k] = log_joint(model, state)
    state.concentration[0] = model.concentration
    rng = np.random.default_rng(5)
    n = 40_000
    starts = inverse(grid, log_density, rng.random(n))
    ends = _steps(model, state, starts, rng)
    check_density(model, state)
    assert np.corrcoef(starts, ends)[0, 1] > 0.1  # not independent, so reversibility says more
    assert stationary(grid, log_density, ends) > 1e-3
    assert reversible(grid, log_density, starts, ends) > 1e-3
