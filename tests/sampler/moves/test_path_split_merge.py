"""Paths that split and merge: who may, and with what ratio."""

import math

import numpy as np
import pytest

from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.engine import Engine
from kem_pymc.sampler.moves import path_split_merge
from kem_pymc.sampler.moves.path_copies import first_visits
from kem_pymc.sampler.moves.path_split_merge import (
    path_of,
    same_pattern,
    split_or_merge_paths,
    who_begins,
    who_follows,
)
from kem_pymc.sampler.moves.sweep import JOINT, check_density, start
from kem_pymc.sampler.state import PATH_MERGE, PATH_SPLIT, dataset_log_likelihood, kernel_log_prior
from tests.sampler.moves.by_hand import included, log_change, same_state, seated, unchanged
from tests.sampler.moves.decisions import Decisions
from tests.sampler.moves.paths import (
    NAMES,
    clusters,
    four_users_cohort,
    log_copies_by_hand,
    log_difference_by_hand,
    origins_by_hand,
    two_stories,
)
from tests.states import copy_state, memberships_agree
from tests.tiny_study import make_cohort


@pytest.mark.integration
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


@pytest.mark.integration
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


@pytest.mark.integration
def test_a_single_user_has_nobody_to_leave(table):
    engine = Engine(make_cohort(((2, 4),)), CandidatePool(NAMES), table, 1.0, 1.0)
    state = start(engine.study, JOINT, np.random.default_rng(0))
    for seed in range(20):
        assert not split_or_merge_paths(engine.study, state, np.random.default_rng(seed))


#: Who splits from whom: labels of users' paths, compositions, D, and users j and i.
SPLITS = {
    "one composition": (
        ["abb", "abb", "ab", "abb"],
        {"a": ["SE0"], "b": ["SE0"]},
        [],
        (0, 3),
    ),
    "a newcomer": (
        ["abe", "cdd", "ab", "abe"],
        {"a": ["SE0"], "b": ["LIN0"], "e": [], "c": ["LIN0"], "d": ["LIN0"]},
        ["LIN0"],
        (0, 3),
    ),
    "a factor": (
        ["abe", "cdd", "ab", "abe"],
        {"a": ["PER0 x SE0"], "b": ["LIN0"], "e": ["PER0 x SE0"], "c": NAMES, "d": NAMES},
        ["SE0", "PER0 x SE0"],
        (3, 0),
    ),
    "the first part of a path": (
        ["abb", "cdd", "ab", "abb"],
        {"a": ["SE0"], "b": ["SE0"], "c": ["LIN0"], "d": ["LIN0"]},
        [],
        (2, 3),
    ),
    "one cluster": (
        ["aaa", "aaa", "aa", "aaa"],
        {"a": []},
        [],
        (1, 0),
    ),
}


@pytest.mark.parametrize("sequential", [False, True], ids=["cumulative", "sequential"])
@pytest.mark.parametrize("leaving", [False, True], ids=["stay", "leave"])
@pytest.mark.parametrize("still", [False, True], ids=["moved", "still"])
@pytest.mark.parametrize("case", SPLITS)
def test_ratios_are_those_of_the_joint_density_there_and_back(
    table, interpret, monkeypatch, case, still, leaving, sequential
):
    """Both stages of both moves: a Jacobian, a choice or a side that is missing would show."""
    interpret(path_split_merge)
    labels, kinds, difference, (j, i) = SPLITS[case]
    engine = Engine(
        four_users_cohort(), CandidatePool(NAMES), table, 1.3, 0.7, sequential=sequential
    )
    study, users = engine.study, range(4)
    state = seated(engine, labels, kinds, seed=2)
    before = copy_state(state)
    steps = study.data.steps
    whole = path_of(study, before, j).copy()
    visits = first_visits(whole)
    difference = included(engine.pool, *difference)
    monkeypatch.setattr(path_split_merge, "draw_difference", lambda *_: difference)

    follow = [u for u in users if u not in (i, j) and labels[j].startswith(labels[u])]
    orders = [np.array(follow[::-1], dtype=np.int64)]
    together = [u for u in users if u != j and labels[u].startswith(labels[j])]
    coins = [0.1 if still else 0.9] * len(visits)
    draws = [(j + 0.5) / 4, 0.1, (together.index(i) + 0.5) / len(together)]
    sides = {u: leaving and k == 0 for k, u in enumerate(follow)}
    answers = [True, *(sides[u] for u in orders[0])]
    uniforms = [*draws, *[0.5] * len(answers), *coins]
    rng = Decisions(4, uniforms=uniforms, answers=answers, orders=orders.copy())
    assert path_split_merge.split_or_merge_paths(study, state, rng)
    after = copy_state(state)

    leave, stay = (path_of(study, after, u)[: steps[j]] for u in (j, i))
    assert not set(leave) & {*stay, *whole}
    assert [u for u in users if after.assignment[study.first[u]] == leave[0]] == sorted(
        [j, *(u for u in follow if sides[u])]
    )

    originals = clusters(before, whole[visits])
    copies = clusters(after, leave[visits])
    changed = {*whole}
    outside = [
        (before.included[s], before.h[s]) for s in np.unique(before.assignment) if s not in changed
    ]
    log_q = log_difference_by_hand(engine, originals[0][0], difference)
    log_q += log_copies_by_hand(engine, originals, copies, outside)

    def likelihood(there, user, path):
        trial = copy_state(there)
        return sum(
            dataset_log_likelihood(study, trial, path[t], study.first[user] + t)
            for t in range(steps[user])
        )

    newcomer = likelihood(after, j, leave) - likelihood(before, j, whole) - log_q
    for own, parent, h, log_noise in copies:
        newcomer += kernel_log_prior(study, parent, own, h, log_noise)
    assert rng.log_ratios[0] == pytest.approx(newcomer, abs=1e-8)

    counts = [1, 1]
    for u in orders[0]:
        weights = [
            math.log(counts[0]) + likelihood(before, u, whole),
            math.log(counts[1]) + likelihood(after, u, leave),
        ]
        log_q += weights[sides[u]] - np.logaddexp(*weights)
        counts[sides[u]] += 1

    expected = log_change(study, before, after) - log_q
    for k, t in enumerate(visits):
        points = np.zeros(2)
        for d in np.flatnonzero(before.assignment == whole[t]):
            u, s = study.user[d], study.step[d]
            n = study.data.ends[u, s] - (study.data.ends[u, s - 1] if sequential and s else 0)
            points[int(after.assignment[d] == leave[t])] += n
        w = 0.0 if still else points[1] / points.sum()
        origins, _, _ = origins_by_hand(engine, originals[k][0], copies[k][0])
        expected -= (len(origins) + 1) * math.log1p(-w)
        a, theta, b = after.h[stay[t]], originals[k][2], copies[k][2]
        for p, o in origins.items():
            assert theta[o] == pytest.approx((1 - w) * a[o] + w * b[p], abs=1e-10)
    eligible = [u for u in users if u != j and steps[u] >= steps[j]]
    begin = {u: tuple(path_of(study, after, u)[: steps[j]]) for u in eligible}
    apart = [u for u in eligible if begin[u] != tuple(leave)]
    expected += math.log(0.15 / len(apart)) - math.log(0.85 / len(together))
    assert rng.log_ratios[0] + rng.log_ratios[-1] == pytest.approx(expected, abs=1e-8)

    draws = [(j + 0.5) / 4, 0.9, (apart.index(i) + 0.5) / len(apart)]
    reverse = Decisions(0, uniforms=[*draws, *coins], orders=orders.copy())
    assert path_split_merge.split_or_merge_paths(study, state, reverse)
    assert log_change(study, after, state) == pytest.approx(-log_change(study, before, after))
    assert reverse.log_ratios == pytest.approx([-rng.log_ratios[0], -rng.log_ratios[-1]], abs=1e-8)
    assert same_state(before, state)
    counted = (state.counts - before.counts)[2:].reshape(-1, 2)
    assert counted[[PATH_SPLIT, PATH_MERGE]].tolist() == [[1, 1], [1, 1]]
    assert counted.sum() == 4
    for d in range(len(state.assignment)):
        own = np.repeat(before.included[before.assignment[d]], np.diff(study.layout.hyper_start))
        np.testing.assert_allclose(
            state.h[state.assignment[d]][own], before.h[before.assignment[d]][own], atol=1e-10
        )


@pytest.mark.parametrize("answers", [[False], [True, *[False] * 3]], ids=["first", "second"])
def test_a_split_rejected_at_either_stage_changes_nothing(four_users, interpret, answers):
    interpret(path_split_merge)
    study, state = four_users.study, two_stories(four_users)
    before = copy_state(state)
    rng = Decisions(1, uniforms=[0.1, 0.1], answers=answers)
    assert not path_split_merge.split_or_merge_paths(study, state, rng)
    assert len(rng.log_ratios) == len(answers)
    assert unchanged(before, state)


@pytest.mark.parametrize("answers", [[False], [True, False]], ids=["first", "second"])
def test_a_merge_rejected_at_either_stage_changes_nothing(four_users, interpret, answers):
    interpret(path_split_merge)
    study, state = four_users.study, two_stories(four_users, groups=(0, 1, 1, 1))
    before = copy_state(state)
    rng = Decisions(1, uniforms=[0.1, 0.9], answers=answers)
    assert not path_split_merge.split_or_merge_paths(study, state, rng)
    assert len(rng.log_ratios) == len(answers)
    assert unchanged(before, state)
