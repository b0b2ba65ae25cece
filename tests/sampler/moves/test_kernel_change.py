"""Likelihoods of a cluster's members before and after a change of its kernel."""

import numpy as np
import pytest

from kem_pymc.model.engine import Engine
from kem_pymc.sampler.joint_density import log_likelihoods
from kem_pymc.sampler.moves.kernel_change import commit, member_reach, propose_likelihoods
from tests.sampler.moves.by_hand import included, seated
from tests.states import copy_state
from tests.tiny_study import CONCENTRATION

LABELS = ["abd", "aa", "cac"]
COMPOSITIONS = {"a": [], "b": ["SE0"], "c": [], "d": ["LIN0"]}


@pytest.fixture(params=[False, True], ids=["cumulative", "sequential"])
def setting(cohort, pool, table, request):
    """An engine, a study whose likelihood has a power, and a state."""
    engine = Engine(cohort, pool, table, CONCENTRATION, 0.7, sequential=request.param)
    return engine, engine.model, seated(engine, LABELS, COMPOSITIONS)


def test_the_reach_is_the_last_dataset_in_the_cluster(setting):
    _, model, state = setting
    a, b, c = (state.assignment[k] for k in (0, 1, 5))
    assert member_reach(model, state, a).tolist() == [1, 2, 2]
    assert member_reach(model, state, b).tolist() == [2, 0, 0]
    assert member_reach(model, state, c).tolist() == [0, 0, 3]


def test_the_change_is_that_of_the_members_there_and_back(setting):
    """All likelihoods from scratch: a dataset left out or counted twice, or no power, shows."""
    engine, model, state = setting
    power = model.power
    cluster = state.assignment[0]
    reach = member_reach(model, state, cluster)
    rng = np.random.default_rng(1)
    kernels = [
        (
            included(engine.pool, *names),
            rng.normal(size=state.theta_unconstrained.shape[1]),
            rng.normal(),
        )
        for names in (["LIN0"], ["SE0", "LIN0 x PER0"], [])
    ]
    kernels.append(
        (
            state.included[cluster].copy(),
            state.theta_unconstrained[cluster].copy(),
            state.log_noise[cluster],
        )
    )
    total = 0.0
    for own, theta, log_noise in kernels:
        before = copy_state(state)
        out = np.full(state.log_likelihood.shape[1:], np.nan)
        change = propose_likelihoods(model, state, cluster, own, theta, log_noise, reach, out)
        state.included[cluster], state.theta_unconstrained[cluster], state.log_noise[cluster] = (
            own,
            theta,
            log_noise,
        )
        new = log_likelihoods(model, state)
        assert change == pytest.approx(
            power * (new - log_likelihoods(model, before)).sum(), abs=1e-8
        )
        commit(state, cluster, reach, out)
        for d in np.flatnonzero(state.assignment == cluster):
            place = model.user[d], model.time_step[d]
            assert state.log_likelihood[cluster][place] == pytest.approx(new[place], abs=1e-10)
        np.testing.assert_array_equal(state.valid[cluster], reach)
        total += change
    assert abs(total) < 1e-8  # the last kernel is the first one
    assert abs(change) > 0.1


def test_without_likelihood_nothing_changes(setting):
    _, model, state = setting
    cluster = state.assignment[0]
    reach = member_reach(model, state, cluster)
    own, theta = state.included[cluster], state.theta_unconstrained[cluster]
    out = np.empty(state.log_likelihood.shape[1:])
    off = model._replace(power=0.0)
    assert propose_likelihoods(off, state, cluster, own, theta, 5.0, reach, out) == 0.0
