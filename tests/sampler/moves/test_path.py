"""Paths: weights of seats and of ancestors, and what a chain of path updates visits."""

import math
from itertools import product

import numpy as np
import pytest

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.moves import path
from kem_pymc.sampler.moves.path import redraw_path
from kem_pymc.sampler.moves.seating import new_cluster
from kem_pymc.sampler.moves.sweep import JOINT, check_density, start
from kem_pymc.sampler.state import attach, detach, kernel_log_prior
from tests.sampler.moves.by_hand import seated
from tests.states import copy_state, memberships_agree
from tests.statistical.enumeration import joint_posterior, visited, z_scores
from tests.statistical.test_enumeration import TWO_STEPS, make_problem

#: User 0 is to be seated below the empty composition, where all clusters of the others but d are.
LABELS = ["www", "wc", "wvd"]
COMPOSITIONS = {"w": [], "c": ["LIN0"], "v": ["SE0"], "d": []}
AUXILIARIES = 3


@pytest.fixture
def alone(engine):
    """A study without likelihood, a state without user 0, clusters of the root, and new ones."""
    model = engine.prior_model
    state = seated(engine, LABELS, COMPOSITIONS, model=model)
    for d in range(3):
        detach(model, state, d)
    rng = np.random.default_rng(0)
    occupied = [s for s in state.live[: state.sizes[0]] if state.dp[s] == 0]
    new = [new_cluster(model, state, 0, rng) for _ in range(AUXILIARIES)]
    return model, state, np.array(occupied), np.array(new)


def log_seats(model, state, new, clusters):
    """Return the log probability of the first seats of user 0, from the joint density.

    Without the kernels of new clusters, and with one of the equivalent ways to choose these among
    the auxiliary ones.
    """
    trial = copy_state(state)
    for step, cluster in enumerate(clusters):
        attach(model, trial, step, cluster)
    opened = list(dict.fromkeys(s for s in clusters if s in new))
    total = log_joint(model, trial) - log_joint(model, state)
    for r, s in enumerate(opened):
        parent, own = state.parent[state.dp[s]], state.included[s]
        total -= kernel_log_prior(
            model, parent, own, state.theta_unconstrained[s], state.log_noise[s]
        )
        total -= math.log(AUXILIARIES - r)
    return total


def test_seats_on_a_path_are_those_of_the_joint_density(alone):
    """Of every path: without own visits, or a count of unused clusters, it is off by .2 or more."""
    model, state, occupied, new = alone
    options = np.concatenate([occupied, new])
    out = np.empty(len(options))
    total = 0.0
    for choice in product(range(len(options)), repeat=3):
        clusters = options[list(choice)]
        log_weight = 0.0
        for step in range(3):
            path._log_seats(state, clusters, step, options, AUXILIARIES, out)
            log_weight += out[choice[step]]
        assert log_weight == pytest.approx(log_seats(model, state, new, clusters), abs=1e-8)
        total += math.exp(log_weight)
    assert total == pytest.approx(1, abs=1e-8)


def test_ancestors_are_drawn_by_the_seats_that_follow(alone, monkeypatch):
    """Histories of another composition are none; of the others the rest of the path decides."""
    model, state, occupied, new = alone
    state.included[new[0]] = state.included[new[1]] = False
    state.included[new[2], 1] = True
    seen = []
    monkeypatch.setattr(path, "pick", lambda log_weights, n, _: seen.append(log_weights[:n].copy()))
    w = next(s for s in occupied if state.occupants[s] == 2)
    for retained in ([w, w, new[0]], [new[0], new[1], new[0]], [new[1], w, w]):
        for step in (1, 2):
            rows = list(product([*occupied, *new], repeat=step))
            paths = np.array([[*row, *[-1] * (3 - step)] for row in rows])
            path._ancestor.py_func(state, paths, step, np.array(retained), None)
            log_weights = seen.pop()
            for row, log_weight in zip(rows, log_weights, strict=True):
                if state.included[row[-1]].any():
                    assert log_weight == -math.inf
                    continue
                joined = [*row, *retained[step:]]
                exact = log_seats(model, state, new, joined) - log_seats(model, state, new, row)
                assert log_weight == pytest.approx(exact, abs=1e-8)


@compiled
def _many(model, state, n, rng, assignments, compositions):
    for i in range(n):
        for user in range(model.first_dataset.shape[0]):
            redraw_path(model, state, user, 4, rng)
        assignments[i] = state.assignment
        compositions[i] = state.included


@pytest.mark.integration
def test_path_updates_alone_visit_what_enumeration_says():
    """Of two users at two time steps, with the noise of every cluster integrated out.

    Frequencies that are off by .01 are noticed. Likelihoods that aren't those of the option, or
    auxiliary clusters from another process, would be further off.
    """
    engine, problem = make_problem(*TWO_STEPS)
    rng = np.random.default_rng(6)
    model = engine.model
    state = start(model, JOINT, rng)
    n = 20_000
    assignments = np.empty((n, 4), dtype=np.int64)
    compositions = np.empty((n, *state.included.shape), dtype=np.bool_)
    _many(model, state, n, rng, assignments, compositions)
    check_density(model, state)
    assert memberships_agree(model, state)
    assert state.sizes.sum() == len(state.free)
    found = [visited(a, c) for a, c in zip(assignments, compositions, strict=True)]
    scores = z_scores(found, joint_posterior(problem))
    assert len(scores) > 20
    assert max(abs(z) for z in scores.values()) < 4, scores
