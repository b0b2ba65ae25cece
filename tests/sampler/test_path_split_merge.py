"""Paths that split and merge: who may, what copies are like, and with what density."""

import math
from itertools import pairwise, product

import numpy as np
import pytest

from kem_pymc._jit.decorators import compiled
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.engine import Engine
from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.moves.path_copies import (
    NEW_FACTOR,
    draw_difference,
    draw_values,
    first_visits,
    log_copies,
    log_difference,
    open_path,
    origins_of,
    shift,
)
from kem_pymc.sampler.moves.path_split_merge import (
    path_of,
    same_pattern,
    split_or_merge_paths,
    who_begins,
    who_follows,
)
from kem_pymc.sampler.moves.sweep import JOINT, check_density, heat, start
from kem_pymc.sampler.state import (
    PATH_MERGE,
    PATH_SPLIT,
    active_candidates,
    candidate_log_prior,
    noise_log_prior,
)
from tests.states import copy_state, memberships_agree
from tests.tiny_study import make_cohort

NAMES = ["LIN0", "PER0", "SE0", "PER0 x SE0"]


@pytest.fixture(scope="module")
def large(table):
    cohort = make_cohort(((2, 4, 6), (2, 4, 6), (1, 3), (2, 4, 5)), seed=5)
    return Engine(cohort, CandidatePool(NAMES), table, concentration=1.3, likelihood_power=1.0)


def included(pool, *names):
    return np.isin(pool.names, names)


def two_stories(engine, root=("SE0",), later=("SE0",), groups=(0, 0, 0, 0)):
    """Return a state: first datasets in one cluster, later ones in another, by group of users."""
    structure, hyperparameters, noise = engine.simplest()
    users, steps = engine.shape
    for u in range(users):
        leader = groups.index(groups[u]) * steps
        structure[u, :, 0] = np.where(engine.present[u], leader + (np.arange(steps) > 0), -1)
        structure[u, :1, 1:] = included(engine.pool, *root)
        structure[u, 1:, 1:] = included(engine.pool, *later) & engine.present[u, 1:, None]
    hyperparameters[:] = 0.8
    return engine.load(engine.study, structure, hyperparameters, noise, schedule=JOINT)


@compiled
def many_differences(study, own, n, rng):
    drawn = np.empty((n, own.shape[0]), dtype=np.bool_)
    for i in range(n):
        drawn[i] = draw_difference(study, own, rng)
    return drawn


@compiled
def many_weights(study, state, whole, leave, visits, changed, n, rng):
    """Return log p - log q (n,) of copies: p their prior, and q with the probability of D."""
    out = np.empty(n)
    for i in range(n):
        draw_values(study, state, whole, leave, visits, changed, rng)
        out[i] = -log_copies(study, state, whole, leave, visits, changed)
        for slot in leave[visits]:
            parent = state.parent[state.process[slot]]
            out[i] += noise_log_prior(study, parent, state.log_noise[slot])
            for c in active_candidates(state.included[slot]):
                out[i] += candidate_log_prior(study, c, state.h[slot])
    return out


@pytest.mark.parametrize("names", [[], ["SE0"], ["PER0", "PER0 x SE0"], NAMES])
def test_differences_are_drawn_with_the_probabilities_that_are_said(large, names):
    own = included(large.pool, *names)
    everything = [np.array(d) for d in product([False, True], repeat=len(NAMES))]
    exact = np.array([math.exp(log_difference(large.study, own, d)) for d in everything])
    assert exact.sum() == pytest.approx(1, abs=1e-12)
    rng = np.random.default_rng(0)
    draws = 40_000
    drawn = many_differences(large.study, own, draws, rng)
    seen = np.array([(drawn == d).all(1).mean() for d in everything])
    np.testing.assert_array_less(abs(seen - exact), 4.5 * np.sqrt(exact / draws) + 1e-9)


def test_a_product_keeps_what_it_shares_with_what_it_replaces(large):
    pool, layout = large.pool, large.pool.layout
    start_of = {name: int(layout.hyper_start[c]) for c, name in enumerate(pool.names)}
    own, copy = included(pool, "LIN0", "SE0"), included(pool, "LIN0", "PER0 x SE0")
    origins, new = origins_of(large.study, own, copy)
    names = [h.name for h in pool.hyperparameters]
    kept = {names[p]: names[o] for p, o in enumerate(origins) if o >= 0}
    lin = start_of["LIN0"]
    both = start_of["PER0 x SE0"]
    se = start_of["SE0"]
    assert kept == {
        **{names[lin + k]: names[lin + k] for k in range(2)},
        names[both]: names[se],
        names[both + 3]: names[se + 1],  # the lengthscale of SE comes after PER's two
    }
    assert np.flatnonzero(origins == NEW_FACTOR).tolist() == [both + 1, both + 2]
    assert not new.any()
    back, new = origins_of(large.study, copy, own)
    for p, o in enumerate(origins):
        if o >= 0:
            assert back[o] == p
    assert not new.any()


def test_a_newcomer_has_no_origin(large):
    origins, new = origins_of(
        large.study, included(large.pool, "LIN0"), included(large.pool, "LIN0", "SE0")
    )
    np.testing.assert_array_equal(new, included(large.pool, "SE0"))
    first = large.pool.layout.hyper_start[large.pool.names.index("SE0")]
    assert (origins[first : first + 2] == -1).all()


@pytest.mark.parametrize("names", [["SE0"], ["SE0", "LIN0"], ["PER0 x SE0"], ["PER0", "LIN0"]])
def test_the_density_of_copies_is_that_of_their_draws(large, names):
    """The mean of p / q over draws from q is one, whatever the density p."""
    study = large.study
    state = two_stories(large)
    whole = path_of(study, state, 0).copy()
    visits = first_visits(whole)
    difference = included(large.pool, "SE0") != included(large.pool, *names)
    leave = open_path(state, whole, visits, difference)
    changed = np.isin(np.arange(len(state.occupants)), np.concatenate([whole, leave]))
    rng = np.random.default_rng(1)
    log_weights = many_weights(study, state, whole, leave, visits, changed, 20_000, rng)
    log_weights += log_difference(study, state.included[whole[0]], difference)
    weights = np.exp(log_weights)
    error = weights.std() / math.sqrt(len(weights))
    assert error < 0.05
    assert weights.mean() == pytest.approx(1, abs=4 * error)


def test_a_shift_is_undone(large):
    study, state = large.study, two_stories(large)
    rng = np.random.default_rng(2)
    whole = path_of(study, state, 0).copy()
    visits = first_visits(whole)
    difference = included(large.pool, "SE0") != included(large.pool, "PER0 x SE0", "LIN0")
    leave = open_path(state, whole, visits, difference)
    changed = np.isin(np.arange(len(state.occupants)), np.concatenate([whole, leave]))
    draw_values(study, state, whole, leave, visits, changed, rng)
    stay = open_path(state, whole, visits, np.zeros_like(difference))
    shares = np.array([0.25, 0.6])
    there = shift(study, state, stay, leave, visits, -shares / (1 - shares))
    assert not np.allclose(state.h[stay], state.h[whole])
    back = shift(study, state, stay, leave, visits, shares)
    np.testing.assert_allclose(state.h[stay], state.h[whole], atol=1e-12)
    np.testing.assert_allclose(state.log_noise[stay], state.log_noise[whole], atol=1e-12)
    # Two values of SE0 and the noise, in each of two clusters.
    assert there == pytest.approx(-3 * np.log1p(-shares).sum(), abs=1e-12)
    assert back == pytest.approx(-there, abs=1e-12)


def test_who_shares_a_path(large):
    study, state = large.study, two_stories(large, groups=(0, 1, 0, 0))
    path = path_of(study, state, 0).copy()
    assert who_begins(study, state, path, 0, True).tolist() == [3]  # user 2 has fewer datasets
    assert who_begins(study, state, path, 0, False).tolist() == [1]
    assert who_begins(study, state, path[:2], 2, True).tolist() == [0, 3]
    assert who_follows(study, state, path, 0, 1).tolist() == [2, 3]
    assert who_follows(study, state, path[:2], 0, 1).tolist() == [2]


def test_patterns():
    assert same_pattern(np.array([3, 5, 5]), np.array([1, 0, 0]))
    assert not same_pattern(np.array([3, 5, 5]), np.array([1, 0, 1]))
    assert not same_pattern(np.array([3, 5, 5]), np.array([1, 0, 2]))
    assert first_visits(np.array([3, 5, 3, 7])).tolist() == [0, 1, 3]


def test_splits_and_merges_keep_all_books(large):
    study = large.study
    rng = np.random.default_rng(3)
    splits, merges = 0, 0
    for _ in range(20):
        state = two_stories(large)
        for _ in range(400):
            before = copy_state(state)
            accepted = split_or_merge_paths(study, state, rng)
            check_density(study, state)
            assert memberships_agree(study, state)
            assert state.sizes.sum() == len(state.free)
            assert sorted(np.unique(state.assignment)) == sorted(state.live[: state.sizes[0]])
            assert len(set(state.free[: state.sizes[1]])) == state.sizes[1]
            members = np.bincount(state.process[state.assignment], minlength=len(state.used))
            np.testing.assert_array_equal(state.members, members)
            assert not state.used[1:][state.members[1:] == 0].any()
            if not accepted:
                np.testing.assert_array_equal(before.assignment, state.assignment)
                assert before.log_density[0] == state.log_density[0]
        splits += state.counts[3 + 2 * PATH_SPLIT]
        merges += state.counts[3 + 2 * PATH_MERGE]
    assert splits > 5
    assert merges > 5


def test_a_single_user_has_nobody_to_leave(table):
    engine = Engine(make_cohort(((2, 4),)), CandidatePool(NAMES), table, 1.0, 1.0)
    state = start(engine.study, JOINT, np.random.default_rng(0))
    for seed in range(20):
        assert not split_or_merge_paths(engine.study, state, np.random.default_rng(seed))


def test_heating_ends_at_the_posterior_and_forgets_the_start(engine):
    study, schedule = engine.study, JOINT._replace(heating=40, path_split_merge=5)
    rng = np.random.default_rng(4)
    state = start(study, schedule, rng)
    before = copy_state(state)
    heat(study, state, schedule, 0, 40, rng)
    assert state.log_density[0] == pytest.approx(log_joint(study, state), abs=1e-9)
    assert memberships_agree(study, state)
    assert not np.array_equal(before.log_noise, state.log_noise)


@pytest.mark.parametrize("heating", [7, 40])
def test_heating_in_parts_is_heating(engine, heating):
    schedule = JOINT._replace(heating=heating, path_split_merge=5)
    one, other = (start(engine.study, schedule, np.random.default_rng(4)) for _ in range(2))
    heat(engine.study, one, schedule, 0, heating, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    for first, last in pairwise([0, 1, 5, 6, heating]):
        heat(engine.study, other, schedule, first, last, rng)
    for name in ("assignment", "h", "log_noise", "included"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.log_density[0] == pytest.approx(other.log_density[0], abs=1e-9)
