"""Components of clusters that change together, and the ratio with which they do."""

import math

import numpy as np
import pytest

from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.moves import component
from kem_pymc.sampler.moves.component import closure
from kem_pymc.sampler.moves.sweep import check_density
from tests.sampler.moves.by_hand import included, seated, unchanged
from tests.sampler.moves.decisions import Decisions
from tests.states import copy_state, memberships_agree
from tests.tiny_study import CONCENTRATION


def test_closure_joins_clusters_through_what_follows_them(engine):
    # a: c0 c1 c2   b: c0 c3   c: c4 c1 c2
    structure, hyperparameters, noise = engine.simplest()
    structure[..., 0] = [[0, 1, 2], [0, 4, -1], [6, 1, 2]]
    structure[..., 1] = engine.present  # LIN0 everywhere
    hyperparameters[..., :2] = np.where(engine.present[..., None], 1.0, np.nan)
    state = engine.load(engine.model, structure, hyperparameters, noise)
    cluster = dict(zip([0, 1, 2, 4, 6], state.assignment[[0, 1, 2, 4, 5]], strict=True))

    def component(label):
        changed = np.zeros(len(state.free), dtype=bool)
        moved = changed.copy()
        allowed = closure(engine.model, state, cluster[label], changed, moved)
        names = {s: k for k, s in cluster.items()}
        return (
            allowed,
            {names[s] for s in np.flatnonzero(changed)},
            {names[s] for s in np.flatnonzero(moved)},
        )

    # What follows c0 is c1 and c3; c1 also follows c4, which joins; nothing else does.
    assert component(0) == (True, {0, 6}, {1, 4})
    assert component(1) == (True, {1}, {2})
    assert component(2) == (True, {2}, set())


def test_a_first_dataset_cannot_change_process(engine):
    structure, hyperparameters, noise = engine.simplest()
    # White throughout, and one cluster holds first and later datasets: its process is the root's.
    state = engine.load(engine.model, structure, hyperparameters, noise)
    changed = np.zeros(len(state.free), dtype=bool)
    assert not closure(engine.model, state, state.assignment[0], changed, changed.copy())


#: The component of a has S = {a, e} and D = {b, d}; that of b has S = {b} and D = {c}.
LABELS = ["abc", "ad", "ebc"]
CLOSED = {"a": ["LIN0"], "e": ["LIN0"], "b": ["SE0"], "d": [], "c": ["LIN0", "SE0"]}
#: The parent of c changes from SE0 to LIN0, below which there are datasets already.
MEETING = {**CLOSED, "b": ["LIN0"], "c": ["LIN0"]}


@pytest.mark.parametrize("joint", [False, True], ids=["cut", "joint"])
@pytest.mark.parametrize("compositions", [CLOSED, MEETING], ids=["apart", "meeting"])
@pytest.mark.parametrize(
    ("label", "new"),
    [("a", ["SE0"]), ("a", ["LIN0", "LIN0 x PER0"]), ("b", ["LIN0"]), ("b", []), ("c", [])],
)
def test_ratios_are_those_of_the_joint_density_there_and_back(
    engine, model, interpret, joint, compositions, label, new
):
    """Also of the assignments: without R(n) of one process the ratio would be off by log 1.3."""
    if sorted(new) == sorted(compositions[label]):
        new = ["LIN0 x PER0"]
    interpret(component, state=True)
    state = seated(engine, LABELS, compositions, model=model)
    cluster = state.assignment["abcadebc".index(label)]
    old, new = state.included[cluster].copy(), included(engine.pool, *new)
    before = copy_state(state)
    ratios = []
    for own, other in ((old, new), (new, old)):
        here = copy_state(state)
        possible, changed, moved = component.component(model, state, cluster, joint)
        assert possible
        change = component.change_to(state, changed, moved, own, other)
        rng = Decisions(0)
        assert component.complete(model, state, change, 0.37, rng)
        check_density(model, state)
        # Under cut the process of what follows is brought in line later.
        assert memberships_agree(model, state) or not joint
        ratios += rng.log_ratios
        exact = log_joint(model, state) - log_joint(model, here)
        assert rng.log_ratios == pytest.approx([exact + 0.37], abs=1e-8)
        assert abs(exact) > 0.1
    assert sum(ratios) == pytest.approx(2 * 0.37, abs=1e-8)
    np.testing.assert_array_equal(
        state.included[state.assignment], before.included[state.assignment]
    )
    np.testing.assert_array_equal(state.members[state.used], before.members[before.used])


def test_members_of_processes_follow(engine, model, interpret):
    interpret(component, state=True)
    state = seated(engine, LABELS, MEETING, model=model)
    cluster = state.assignment[0]
    new = included(engine.pool, "SE0")
    old = state.included[cluster].copy()
    _, changed, moved = component.component(model, state, cluster, True)
    change = component.change_to(state, changed, moved, old, new)
    # Of the five datasets below LIN0 three follow a and e.
    alpha, rising = CONCENTRATION, lambda n: math.lgamma(CONCENTRATION + n)
    by_hand = rising(5) - rising(2) - rising(3) + math.lgamma(alpha)
    assert change.log_assignments == pytest.approx(by_hand, abs=1e-12)
    component.complete(model, state, change, 0.0, Decisions(0))
    sizes = {
        tuple(np.array(engine.pool.names)[state.parent[p]]): int(state.members[p])
        for p in np.flatnonzero(state.used)
    }
    assert sizes == {(): 3, ("LIN0",): 2, ("SE0",): 3}


def test_what_is_rejected_changes_nothing(engine, model, interpret):
    interpret(component, state=True)
    state = seated(engine, LABELS, CLOSED, model=model)
    before = copy_state(state)
    cluster = state.assignment[0]
    _, changed, moved = component.component(model, state, cluster, True)
    new = included(engine.pool, "LIN0 x PER0")
    change = component.change_to(state, changed, moved, state.included[cluster].copy(), new)
    assert state.used.sum() == before.used.sum() + 1  # the process of the new composition
    assert not component.complete(model, state, change, 0.0, Decisions(0, answers=[False]))
    assert unchanged(before, state)
