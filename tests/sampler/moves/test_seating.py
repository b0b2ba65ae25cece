"""Cluster assignment: weights of the options, one step from the exact conditional, parents."""

import math

import numpy as np
import pytest
from scipy import stats

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.moves import component, seating
from kem_pymc.sampler.moves.seating import assign_all, gibbs_reassign, update_parents
from kem_pymc.sampler.moves.sweep import CUT, check_density, spare_room
from kem_pymc.sampler.state import attach, detach, empty_state, kernel_changed, pick
from tests.sampler.moves.by_hand import included, seated
from tests.sampler.moves.decisions import Decisions
from tests.states import copy_state, memberships_agree
from tests.tiny_study import CONCENTRATION

#: Below the empty composition lie two clusters of two datasets and one of one; below SE0 d and e.
LABELS = ["ade", "ad", "wwc"]
COMPOSITIONS = {"a": ["SE0"], "d": ["SE0"], "e": ["LIN0"], "w": [], "c": ["LIN0"]}
AUXILIARIES = 3


@pytest.fixture
def options(interpret, monkeypatch):
    """Let assignments run in the interpreter; return log weights and clusters of their options."""
    interpret(seating)
    seen = []

    def spy(log_weights, n, rng):
        chosen = pick(log_weights, n, rng)
        seen.append((log_weights[:n].copy(), chosen))
        return chosen

    monkeypatch.setattr(seating, "pick", spy)
    return seen


@pytest.mark.parametrize("dataset", range(8))
def test_weights_are_those_of_the_joint_density(engine, options, monkeypatch, dataset):
    """For every option: an alpha, a count or a power that is missing would show.

    The joint density of a new cluster, without that of its kernel from which it is drawn, counts
    once for every auxiliary cluster.
    """
    model = engine.model._replace(power=0.7)
    state = seated(engine, LABELS, COMPOSITIONS, model=model)
    cluster = state.assignment[dataset]
    dp = state.dp[cluster]
    drawn = [cluster] if state.occupants[cluster] == 1 else []
    new = seating.new_cluster

    def remembered(*arguments):
        drawn.append(new(*arguments))
        return drawn[-1]

    monkeypatch.setattr(seating, "new_cluster", remembered)
    start = copy_state(state)
    seating.gibbs_reassign(model, state, dataset, AUXILIARIES, np.random.default_rng(dataset))
    check_density(model, state)
    ((log_weights, chosen),) = options
    assert len(drawn) == AUXILIARIES

    detach(model, start, dataset)
    # Occupied clusters come first, in the order of the list without the dataset.
    order = [s for s in start.live[: start.sizes[0]] if start.dp[s] == dp] + drawn
    exact = []
    for s in order:
        trial = copy_state(state)
        detach(model, trial, dataset)
        attach(model, trial, dataset, s)
        exact.append(log_joint(model, trial))
        if s in drawn:
            exact[-1] -= trial.log_prior[s] + math.log(AUXILIARIES)
    np.testing.assert_allclose(
        log_weights - log_weights[0], np.subtract(exact, exact[0]), atol=1e-8
    )
    assert np.ptp(exact) > 0.1
    assert state.assignment[dataset] == order[chosen]
    assert all(state.occupants[s] == 0 for s in state.free[: state.sizes[1]])
    assert state.sizes.sum() == len(state.free)


@compiled
def _sizes_met(model, state, dataset, n, rng):
    """Return how often a dataset is found alone, and with others by their number, in n steps."""
    counts = np.zeros(8, dtype=np.int64)
    for _ in range(n):
        gibbs_reassign(model, state, dataset, 3, rng)
        counts[state.occupants[state.assignment[dataset]] - 1] += 1
    return counts


@pytest.mark.integration
def test_without_likelihood_seats_are_those_of_the_restaurant(engine):
    """Steps are independent then. Another alpha, by 5 %, or a count off by one would show."""
    model = engine.prior_model
    state = seated(engine, LABELS, COMPOSITIONS, model=model)
    n = 40_000
    counts = _sizes_met(model, state, 7, n, np.random.default_rng(0))
    # Alone, or with the two of a, or with the two of w: nothing here distinguishes these.
    expected = n * np.array([CONCENTRATION, 4]) / (CONCENTRATION + 4)
    assert counts[[0, 2]].sum() == n
    assert stats.chisquare(counts[[0, 2]], expected).pvalue > 1e-3


def test_every_dataset_is_assigned_in_the_process_of_its_parent(engine):
    model = engine.model
    state = empty_state(model, *spare_room(model, CUT))
    assert (state.assignment < 0).all()
    assign_all(model, state, AUXILIARIES, np.random.default_rng(3))
    assert (state.assignment >= 0).all()
    clusters, counts = np.unique(state.assignment, return_counts=True)
    assert sorted(state.live[: state.sizes[0]]) == clusters.tolist()
    np.testing.assert_array_equal(state.occupants[clusters], counts)
    assert memberships_agree(model, state)
    check_density(model, state)


def test_parents_are_updated_and_nothing_else(engine, interpret):
    interpret(component)
    model = engine.model
    state = seated(engine, LABELS, COMPOSITIONS)
    cluster = state.assignment[3]
    new = included(engine.pool, "LIN0")
    changed = np.arange(len(state.free)) == cluster
    own = state.included[cluster].copy()
    change = component.change_to(state, changed, changed & False, own, new)
    component.complete(model, state, change, 0.0, Decisions(0))
    assert not memberships_agree(model, state)
    before = copy_state(state)
    assert update_parents(model, state, AUXILIARIES, 1, np.random.default_rng(0)) >= 2
    check_density(model, state)
    assert memberships_agree(model, state)
    kept = [0, 3, 5, 6, 7]
    np.testing.assert_array_equal(state.assignment[kept], before.assignment[kept])
    # The second datasets of users 0 and 1 have left the process of SE0 for that of LIN0.
    parents = state.parent[state.dp[state.assignment[[1, 4]]]]
    np.testing.assert_array_equal(parents, [new, new])


def test_weights_in_a_new_process_are_those_of_the_joint_density(engine, options):
    """A dataset that enters a process is assigned as one that lies there."""
    model = engine.model._replace(power=0.7)
    state = seated(engine, LABELS, COMPOSITIONS, model=model)
    detach(model, state, 2)
    exact = []
    clusters = [state.assignment[1], seating.new_cluster(model, state, 0, np.random.default_rng(0))]
    state.dp[clusters[1]] = state.dp[clusters[0]]
    kernel_changed(model, state, clusters[1])
    for s in clusters:
        trial = copy_state(state)
        attach(model, trial, 2, s)
        exact.append(log_joint(model, trial))
    exact[1] -= state.log_prior[clusters[1]]
    seating.gibbs_assign(model, state, 2, clusters[1], 1, np.random.default_rng(0))
    ((log_weights, _),) = options
    np.testing.assert_allclose(np.diff(log_weights), np.diff(exact), atol=1e-8)
