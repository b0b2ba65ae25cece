"""The sampler's state: its books, and the density that it runs along."""

import numba
import numpy as np
import pytest
from scipy.special import logsumexp

from kem_pymc._system.jit.structs import Reference
from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.state import (
    CompiledModel,
    State,
    allocate_cluster,
    attach,
    change_concentration,
    close_dps,
    dataset_log_likelihood,
    detach,
    dp_above,
    dp_of_parent,
    draw_kernel,
    empty_state,
    free_cluster,
    kernel_changed,
    log_sum_exp,
    pick,
)
from tests.sampler.moves.by_hand import seated
from tests.states import copy_state


def test_a_study_and_a_state_are_single_pointers_in_compiled_code(engine):
    # What this is for: by value, a study and a state are some 300 words, in every call.
    model = numba.typeof(engine.model)
    assert isinstance(model, Reference)
    assert model.cls is CompiledModel
    assert all(isinstance(model.kinds[model.place(k)], Reference) for k in ("data", "fits"))
    state = numba.typeof(engine.load(engine.model, *engine.simplest()))
    assert isinstance(state, Reference)
    assert state.cls is State


def test_no_kernel_is_factored_again_before_it_changes(engine):
    """At most twice for a user: for the prefix that is asked for first, then for all of them."""
    model, rng = engine.model, np.random.default_rng(4)
    state = engine.load(model, *engine.simulate(rng))
    clusters = state.live[: state.sizes[0]]
    pairs = [(cluster, d) for cluster in clusters for d in range(len(model.user))]

    def ask(pairs) -> int:
        before = state.factorisations[0]
        for k in rng.permutation(len(pairs)):
            dataset_log_likelihood(model, state, *pairs[k])
        return state.factorisations[0] - before

    assert (
        len(clusters) * len(model.first_dataset)
        <= ask(pairs)
        <= 2 * len(clusters) * len(model.first_dataset)
    )
    assert ask(pairs) == 0
    state.log_noise[clusters[0]] += 0.1
    kernel_changed(model, state, clusters[0])
    assert ask([pair for pair in pairs if pair[0] != clusters[0]]) == 0
    assert 1 <= ask(pairs) <= 2 * len(model.first_dataset)
    last = [
        (clusters[0], first + steps - 1)
        for first, steps in zip(model.first_dataset, model.data.n_steps, strict=True)
    ]
    kernel_changed(model, state, clusters[0])
    assert ask(last) == len(model.first_dataset)  # the longest prefix first: one for all
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
    """Catches books that only one of the two keeps; a lone member's cluster comes back too."""
    before = copy_state(state)
    cluster = detach(engine.model, state, dataset)
    assert cluster == before.assignment[dataset]
    assert state.assignment[dataset] == -1
    assert state.occupants[cluster] == before.occupants[cluster] - 1
    assert state.members[state.dp[cluster]] == before.members[state.dp[cluster]] - 1
    attach(engine.model, state, dataset, cluster)
    for name in BOOKS:
        found, expected = getattr(state, name), getattr(before, name)
        if name in ("live", "place"):
            continue
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9, err_msg=name)
    occupied = set(np.flatnonzero(state.occupants))
    assert set(state.live[: state.sizes[0]]) == occupied
    assert all(state.live[state.place[s]] == s for s in occupied)


def test_the_running_density_is_the_joint_density_after_every_attachment(engine, state):
    model, clusters = engine.model, state.assignment.copy()
    assert state.log_density[0] == pytest.approx(log_joint(model, state), abs=1e-9)
    for dataset, cluster in [
        (2, clusters[0]),
        (7, clusters[2]),
        (2, clusters[7]),
    ]:  # all below WHITE
        detach(model, state, dataset)
        attach(model, state, dataset, cluster)
        assert state.log_density[0] == pytest.approx(log_joint(model, state), abs=1e-9)


def test_without_likelihood_datasets_have_none(engine):
    model = engine.model._replace(power=0.0)
    state = engine.load(model, *engine.simulate(np.random.default_rng(1)))
    assert {dataset_log_likelihood(model, state, state.assignment[0], d) for d in range(3)} == {0.0}


def test_an_empty_state_has_the_density_of_what_all_states_have(engine):
    state = empty_state(engine.model, 2, 1)
    n = len(engine.model.user)
    assert (state.assignment == -1).all()
    assert state.sizes.tolist() == [0, n + 2]
    assert sorted(state.free) == list(range(n + 2))
    assert np.flatnonzero(state.used).tolist() == [0]
    assert state.log_density[0] == 0.0  # a fixed alpha, and no population parameters


def test_clusters_are_handed_out_once_and_come_back(engine):
    state = empty_state(engine.model, 0, 0)
    count = len(engine.model.user)
    taken = [allocate_cluster(state) for _ in range(count)]
    assert sorted(taken) == list(range(count))
    with pytest.raises(RuntimeError, match=r"no free cluster left"):
        allocate_cluster(state)
    free_cluster(state, 3)
    assert allocate_cluster(state) == 3


def test_every_parent_has_one_process(engine):
    """Catches a process that stays open, one that is opened twice, and members of its past."""
    state = empty_state(engine.model, 0, 0)
    assert dp_of_parent(state, np.zeros(3, dtype=np.bool_)) == 0
    rows = [np.array(row, dtype=np.bool_) for row in ([1, 0, 0], [0, 1, 0], [1, 1, 0])]
    opened = [dp_of_parent(state, row) for row in rows]
    assert len({0, *opened}) == 4
    assert [dp_of_parent(state, row) for row in rows] == opened
    for row, dp in zip(rows, opened, strict=True):
        np.testing.assert_array_equal(state.parent[dp], row)
    state.members[opened[1]] = 2
    close_dps(state)
    assert np.flatnonzero(state.used).tolist() == sorted([0, opened[1]])
    state.used[:] = True
    with pytest.raises(RuntimeError, match=r"no free process left"):
        dp_of_parent(state, np.ones(3, dtype=np.bool_))


def test_datasets_are_below_what_their_user_had_before(engine, state):
    model = engine.model
    for dataset in range(len(model.user)):
        dp = dp_above(model, state, dataset)
        assert dp == state.dp[state.assignment[dataset]]
        if model.time_step[dataset] > 0:
            previous = state.included[state.assignment[dataset - 1]]
            np.testing.assert_array_equal(state.parent[dp], previous)


def test_another_concentration_changes_the_density_by_its_factors(engine, state):
    before = log_joint(engine.model, state)
    assert before == pytest.approx(state.log_density[0], abs=1e-9)
    change_concentration(engine.model, state, 3.7)
    assert state.concentration[0] == 3.7
    assert state.log_density[0] == pytest.approx(log_joint(engine.model, state), abs=1e-9)
    assert abs(state.log_density[0] - before) > 0.1


def test_kernels_are_drawn_with_the_probabilities_of_their_parents(engine):
    """Candidates stay with probability 0.9; LIN0, SE0 and LIN0 x PER0 enter with 0.1, 0.1, 0.02."""
    model, state = engine.model, empty_state(engine.model, 0, 0)
    rng, n = np.random.default_rng(0), 4000
    dp = dp_of_parent(state, np.array([True, False, False]))
    cluster, counts = allocate_cluster(state), np.zeros(3)
    for _ in range(n):
        draw_kernel(model, state, dp, cluster, rng)
        counts += state.included[cluster]
    assert state.dp[cluster] == dp
    assert state.valid[cluster].max() == 0
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
