"""Paths that split and merge: who may, and with what ratio."""

import numpy as np

from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.engine import Engine
from kem_pymc.sampler.moves.path_copies import first_visits
from kem_pymc.sampler.moves.path_split_merge import (
    path_of,
    same_pattern,
    split_or_merge_paths,
    who_begins,
    who_follows,
)
from kem_pymc.sampler.moves.sweep import JOINT, check_density, start
from kem_pymc.sampler.state import PATH_MERGE, PATH_SPLIT
from tests.sampler.moves.paths import NAMES, two_stories
from tests.states import copy_state, memberships_agree
from tests.tiny_study import make_cohort


def test_who_shares_a_path(four_users):
    study, state = four_users.study, two_stories(four_users, groups=(0, 1, 0, 0))
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


def test_splits_and_merges_keep_all_books(four_users):
    study = four_users.study
    rng = np.random.default_rng(3)
    splits, merges = 0, 0
    for _ in range(20):
        state = two_stories(four_users)
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
