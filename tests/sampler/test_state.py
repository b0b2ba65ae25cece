"""The sampler's state: its books, and the density that it runs along."""

import numba
import numpy as np
import pytest
from scipy.special import logsumexp

from kem_pymc._jit.structs import Reference
from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.state import (
    CompiledModel,
    State,
    allocate_slot,
    attach,
    change_concentration,
    close_processes,
    dataset_log_likelihood,
    detach,
    draw_kernel,
    empty_state,
    free_slot,
    kernel_changed,
    log_sum_exp,
    pick,
    process_above,
    process_of_parent,
)
from tests.sampler.moves.by_hand import seated
from tests.states import copy_state


def test_a_study_and_a_state_are_single_pointers_in_compiled_code(engine):
    # What this is for: by value, a study and a state are some 300 words, in every call.
    study = numba.typeof(engine.study)
    assert isinstance(study, Reference)
    assert study.cls is CompiledModel
    assert all(isinstance(study.kinds[study.place(k)], Reference) for k in ("data", "fits"))
    state = numba.typeof(engine.load(engine.study, *engine.simplest()))
    assert isinstance(state, Reference)
    assert state.cls is State


def test_no_kernel_is_factored_again_before_it_changes(engine):
    """At most twice for a user: for the prefix that is asked for first, then for all of them."""
    study, rng = engine.study, np.random.default_rng(4)
    state = engine.load(study, *engine.simulate(rng))
    slots = state.live[: state.sizes[0]]
    pairs = [(slot, d) for slot in slots for d in range(len(study.user))]

    def ask(pairs) -> int:
        before = state.counts[0]
        for k in rng.permutation(len(pairs)):
            dataset_log_likelihood(study, state, *pairs[k])
        return state.counts[0] - before

    assert len(slots) * len(study.first) <= ask(pairs) <= 2 * len(slots) * len(study.first)
    assert ask(pairs) == 0
    state.log_noise[slots[0]] += 0.1
    kernel_changed(study, state, slots[0])
    assert ask([pair for pair in pairs if pair[0] != slots[0]]) == 0
    assert 1 <= ask(pairs) <= 2 * len(study.first)
    last = [
        (slots[0], first + steps - 1)
        for first, steps in zip(study.first, study.data.steps, strict=True)
    ]
    kernel_changed(study, state, slots[0])
    assert ask(last) == len(study.first)  # the longest prefix first: one for all
    assert ask(pairs) == 0


#: Books of a state: all arrays but caches of likelihoods and counts of computations.
BOOKS = tuple(name for name in State._fields if name not in ("log_likelihood", "valid", "counts"))


@pytest.fixture
def state(engine):
    """Four clusters in two processes; two of them have a single member each."""
    compositions = {"a": ["LIN0"], "b": [], "c": ["SE0"], "d": ["LIN0"]}
    return seated(engine, ["abc", "ab", "abd"], compositions)


@pytest.mark.parametrize("dataset", range(8))
def test_detaching_and_attaching_leaves_everything_as_it_was(engine, state, dataset):
    """Catches books that only one of the two keeps; a lone member's slot has to come back too."""
    before = copy_state(state)
    slot = detach(engine.study, state, dataset)
    assert slot == before.assignment[dataset]
    assert state.assignment[dataset] == -1
    assert state.occupants[slot] == before.occupants[slot] - 1
    assert state.members[state.process[slot]] == before.members[state.process[slot]] - 1
    attach(engine.study, state, dataset, slot)
    for name in BOOKS:
        found, expected = getattr(state, name), getattr(before, name)
        if name in ("live", "place"):
            continue
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9, err_msg=name)
    occupied = set(np.flatnonzero(state.occupants))
    assert set(state.live[: state.sizes[0]]) == occupied
    assert all(state.live[state.place[s]] == s for s in occupied)


def test_the_running_density_is_the_joint_density_after_every_attachment(engine, state):
    study, slots = engine.study, state.assignment.copy()
    assert state.log_density[0] == pytest.approx(log_joint(study, state), abs=1e-9)
    for dataset, slot in [(2, slots[0]), (7, slots[2]), (2, slots[7])]:  # all below WHITE
        detach(study, state, dataset)
        attach(study, state, dataset, slot)
        assert state.log_density[0] == pytest.approx(log_joint(study, state), abs=1e-9)


def test_without_likelihood_datasets_have_none(engine):
    study = engine.study._replace(power=0.0)
    state = engine.load(study, *engine.simulate(np.random.default_rng(1)))
    assert {dataset_log_likelihood(study, state, state.assignment[0], d) for d in range(3)} == {0.0}


def test_an_empty_state_has_the_density_of_what_all_states_have(engine):
    state = empty_state(engine.study, 2, 1)
    n = len(engine.study.user)
    assert (state.assignment == -1).all()
    assert state.sizes.tolist() == [0, n + 2]
    assert sorted(state.free) == list(range(n + 2))
    assert np.flatnonzero(state.used).tolist() == [0]
    assert state.log_density[0] == 0.0  # a fixed alpha, and no population parameters


def test_slots_are_handed_out_once_and_come_back(engine):
    state = empty_state(engine.study, 0, 0)
    count = len(engine.study.user)
    taken = [allocate_slot(state) for _ in range(count)]
    assert sorted(taken) == list(range(count))
    with pytest.raises(RuntimeError, match=r"ran out of slots\. Increase"):
        allocate_slot(state)
    free_slot(state, 3)
    assert allocate_slot(state) == 3


def test_every_parent_has_one_process(engine):
    """Catches a process that stays open, one that is opened twice, and members of its past."""
    state = empty_state(engine.study, 0, 0)
    assert process_of_parent(state, np.zeros(3, dtype=np.bool_)) == 0
    rows = [np.array(row, dtype=np.bool_) for row in ([1, 0, 0], [0, 1, 0], [1, 1, 0])]
    opened = [process_of_parent(state, row) for row in rows]
    assert len({0, *opened}) == 4
    assert [process_of_parent(state, row) for row in rows] == opened
    for row, process in zip(rows, opened, strict=True):
        np.testing.assert_array_equal(state.parent[process], row)
    state.members[opened[1]] = 2
    close_processes(state)
    assert np.flatnonzero(state.used).tolist() == sorted([0, opened[1]])
    state.used[:] = True
    with pytest.raises(RuntimeError, match=r"ran out of processes\. Increase"):
        process_of_parent(state, np.ones(3, dtype=np.bool_))


def test_datasets_are_below_what_their_user_had_before(engine, state):
    study = engine.study
    for dataset in range(len(study.user)):
        process = process_above(study, state, dataset)
        assert process == state.process[state.assignment[dataset]]
        if study.step[dataset] > 0:
            previous = state.included[state.assignment[dataset - 1]]
            np.testing.assert_array_equal(state.parent[process], previous)


def test_another_concentration_changes_the_density_by_its_factors(engine, state):
    before = log_joint(engine.study, state)
    assert before == pytest.approx(state.log_density[0], abs=1e-9)
    change_concentration(engine.study, state, 3.7)
    assert state.concentration[0] == 3.7
    assert state.log_density[0] == pytest.approx(log_joint(engine.study, state), abs=1e-9)
    assert abs(state.log_density[0] - before) > 0.1


def test_kernels_are_drawn_with_the_probabilities_of_their_parents(engine):
    """Candidates stay with probability 0.9; LIN0, SE0 and LIN0 x PER0 enter with 0.1, 0.1, 0.02."""
    study, state = engine.study, empty_state(engine.study, 0, 0)
    rng, n = np.random.default_rng(0), 4000
    process = process_of_parent(state, np.array([True, False, False]))
    slot, counts = allocate_slot(state), np.zeros(3)
    for _ in range(n):
        draw_kernel(study, state, process, slot, rng)
        counts += state.included[slot]
    assert state.process[slot] == process
    assert state.valid[slot].max() == 0
    p = np.array([0.9, 0.1, 0.02])
    assert (np.abs(counts / n - p) < 4 * np.sqrt(p * (1 - p) / n)).all()


def test_indices_are_picked_with_their_weights():
    log_weights, rng = np.log([0.2, 0.5, 0.3, 9.0]) + 800, np.random.default_rng(0)
    counts = np.bincount([pick(log_weights, 3, rng) for _ in range(4000)], minlength=3) / 4000
    np.testing.assert_allclose(counts, [0.2, 0.5, 0.3], rtol=0, atol=0.032)
    log_weights[[0, 2]] = -np.inf
    assert {pick(log_weights, 3, rng) for _ in range(50)} == {1}
    assert {pick(np.full(3, -np.inf), 3, rng) for _ in range(50)} == {0, 1, 2}


def test_sums_of_exponentials_neither_overflow_nor_vanish():
    for shift in (0.0, 800.0, -800.0):
        log_weights = np.array([0.3, -1.0, 2.0, 99.0]) + shift
        assert log_sum_exp(log_weights, 3) == pytest.approx(logsumexp(log_weights[:3]), rel=1e-14)
    assert log_sum_exp(np.full(2, -np.inf), 2) == -np.inf
