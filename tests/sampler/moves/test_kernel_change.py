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
    return engine, engine.study, seated(engine, LABELS, COMPOSITIONS)


def test_the_reach_is_the_last_dataset_in_the_slot(setting):
    _, study, state = setting
    a, b, c = (state.assignment[k] for k in (0, 1, 5))
    assert member_reach(study, state, a).tolist() == [1, 2, 2]
    assert member_reach(study, state, b).tolist() == [2, 0, 0]
    assert member_reach(study, state, c).tolist() == [0, 0, 3]


def test_the_change_is_that_of_the_members_there_and_back(setting):
    """All likelihoods from scratch: a dataset left out or counted twice, or no power, shows."""
    engine, study, state = setting
    power = study.power
    slot = state.assignment[0]
    reach = member_reach(study, state, slot)
    rng = np.random.default_rng(1)
    kernels = [
        (included(engine.pool, *names), rng.normal(size=state.h.shape[1]), rng.normal())
        for names in (["LIN0"], ["SE0", "LIN0 x PER0"], [])
    ]
    kernels.append((state.included[slot].copy(), state.h[slot].copy(), state.log_noise[slot]))
    total = 0.0
    for own, h, log_noise in kernels:
        before = copy_state(state)
        out = np.full(state.log_likelihood.shape[1:], np.nan)
        change = propose_likelihoods(study, state, slot, own, h, log_noise, reach, out)
        state.included[slot], state.h[slot], state.log_noise[slot] = own, h, log_noise
        new = log_likelihoods(study, state)
        assert change == pytest.approx(
            power * (new - log_likelihoods(study, before)).sum(), abs=1e-8
        )
        commit(state, slot, reach, out)
        for d in np.flatnonzero(state.assignment == slot):
            place = study.user[d], study.step[d]
            assert state.log_likelihood[slot][place] == pytest.approx(new[place], abs=1e-10)
        np.testing.assert_array_equal(state.valid[slot], reach)
        total += change
    assert abs(total) < 1e-8  # the last kernel is the first one
    assert abs(change) > 0.1


def test_without_likelihood_nothing_changes(setting):
    _, study, state = setting
    slot = state.assignment[0]
    reach = member_reach(study, state, slot)
    own, h = state.included[slot], state.h[slot]
    out = np.empty(state.log_likelihood.shape[1:])
    off = study._replace(power=0.0)
    assert propose_likelihoods(off, state, slot, own, h, 5.0, reach, out) == 0.0
