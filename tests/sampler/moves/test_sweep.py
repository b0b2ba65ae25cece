"""Sweeps: which moves they make, and what holds after each."""

import numpy as np
import pytest

from kem_pymc._system.jit.cache import is_cached
from kem_pymc._system.jit.decorators import compiled
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.engine import Engine
from kem_pymc.sampler.moves import sweep as moves
from kem_pymc.sampler.moves.composition import action_probabilities
from kem_pymc.sampler.moves.sweep import (
    CUT,
    EVERYWHERE,
    JOINT,
    PAPER,
    at_level,
    check_density,
    compile_move,
    short_dataset,
    start,
    sweep,
    uncompiled_moves,
)
from kem_pymc.sampler.state import MOVES
from tests.sampler.moves.by_hand import seated
from tests.states import memberships_agree
from tests.tiny_study import CONCENTRATION, make_cohort


@pytest.mark.parametrize(
    "schedule",
    [
        CUT._replace(n_mh=6, refits=3),
        JOINT._replace(n_mh=6, split_merge=20, refits=40),
        PAPER._replace(seating=2, n_mh=5),
    ],
    ids=["cut", "joint", "paper"],
)
@pytest.mark.parametrize("sequential", [False, True])
def test_running_density_stays_exact_after_every_move(cohort, pool, table, schedule, sequential):
    engine = Engine(cohort, pool, table, CONCENTRATION, 1.0, sequential=sequential)
    accepted = np.zeros(len(MOVES), dtype=int)
    for seed in range(4):  # a chain may stay where everything is noise, and no component can change
        rng = np.random.default_rng(seed)
        state = start(engine.model, schedule, rng)
        for _ in range(10):
            sweep(engine.model, state, schedule._replace(check=True), rng)
            assert memberships_agree(engine.model, state)
            assert state.sizes.sum() == len(state.free)
            assert sorted(np.unique(state.assignment)) == sorted(state.live[: state.sizes[0]])
            counts = np.bincount(state.assignment, minlength=len(state.free))
            assert (counts == state.occupants).all()
        accepted += state.accepted
        assert state.concentration[0] == CONCENTRATION  # which is fixed
    by_move = dict(zip(MOVES, accepted, strict=True))
    assert by_move["hyperparameters"] > 0
    assert (by_move["refit"] > 0) == (schedule.refits > 0)
    assert (by_move["extend"] > 0) == (schedule.extensions > 0)


@pytest.mark.parametrize(
    "schedule",
    [CUT, JOINT, PAPER, CUT._replace(seating=0, refits=0, extensions=1)],
    ids=["cut", "joint", "paper", "other"],
)
def test_what_is_compiled_ahead_is_what_a_sweep_calls(engine, schedule, monkeypatch):
    called = []
    with monkeypatch.context() as patch:
        patch.setattr(moves, "is_cached", lambda *_: False)
        names = uncompiled_moves(engine.model, schedule)
    ahead = [getattr(moves, name) for name in names]
    for function in (f for f in vars(moves).copy().values() if hasattr(f, "entry")):
        name = function.__name__
        monkeypatch.setattr(moves, name, lambda *_, function=function: called.append(function))
    sweep(engine.model, None, schedule, None)
    levels = {moves.at_level, *called}  # moves ask for it themselves
    assert {*ahead, moves.at_level} == levels
    assert len(ahead) == len(set(called)) >= 3


@pytest.mark.parametrize("n", [1, 2, 7, 300])
def test_a_permutation_is_that_of_the_generator(n):
    """Catches draws of `cut` that change with how users are shuffled."""
    expected = np.random.default_rng(n).permutation(n)
    assert moves.permutation(n, np.random.default_rng(n)).tolist() == expected.tolist()


def test_a_compiled_move_is_not_compiled_again(engine):
    compile_move(engine.model, CUT, "_update_parents")
    assert "_update_parents" not in uncompiled_moves(engine.model, CUT)
    types = moves._signature(engine.model, CUT)
    assert is_cached(moves._update_parents, types)
    assert not is_cached(moves._update_parents, types[:-1])


def test_check_notices_a_wrong_density(engine):
    state = start(engine.model, CUT, np.random.default_rng(0))
    state.log_density[0] += 1e-4
    with pytest.raises(RuntimeError, match="running log density"):
        check_density(engine.model, state)


def test_the_papers_schedule_is_the_papers():
    """Sections 10.2.4 and 10.3.3; a move that the paper doesn't make would be noticed, too."""
    by_size = [action_probabilities(size, 4, PAPER.odds) for size in range(5)]
    assert by_size == [(0.5, 0.0, 0.0), *[(0.2, 0.4, 0.0)] * 3, (0.0, 0.5, 0.0)]
    assert (PAPER.seating, PAPER.n_mh, PAPER.walk) == (10, 100, 0.1)
    others = PAPER.extensions, PAPER.refits, PAPER.split_merge
    assert (*others, PAPER.particles, PAPER.joint) == (0,) * 5


def test_there_is_room_where_every_dataset_changes_process(table):
    pool = CandidatePool.from_base(["LIN", "PER", "SE"], interactions=True)
    restless = table.replace(enter={"base kernel": 0.5, "interaction": 0.5}, stay=0.5)
    cohort = make_cohort(ends=(tuple(range(1, 11)),) * 4)
    engine = Engine(cohort, pool, restless, concentration=50.0, likelihood_power=0.0)
    rng = np.random.default_rng(0)
    state = start(engine.model, CUT, rng)
    for _ in range(60):
        sweep(engine.model, state, CUT._replace(n_mh=2), rng)
    assert memberships_agree(engine.model, state)


@compiled
def _count_short(model, state, n, rng):
    counts = np.zeros(model.user.shape[0])
    for _ in range(n):
        counts[short_dataset(model, state, rng)] += 1
    return counts


@pytest.mark.integration
def test_clusters_of_many_datasets_are_refitted_less_often(pool, table):
    engine = Engine(make_cohort(ends=[(2, 4)] * 31), pool, table, 1.0, 1.0)
    structure, hyperparameters, noise = engine.simplest()
    structure[0, :, 0] = [0, 1]  # the first user's datasets sit alone, 60 together
    structure[1:, :, 0] = 2
    state = engine.load(engine.model, structure, hyperparameters, noise)
    n = 20_000
    counts = _count_short(engine.model, state, n, np.random.default_rng(1))
    weights = 1 / np.array([2.0, 4.0]) ** 2
    expected = np.tile(weights / 9, (31, 1))  # (20 / 60)^2
    expected[0] = weights
    expected /= expected.sum()
    error = np.sqrt(n * expected * (1 - expected))
    assert (abs(counts.reshape(31, 2) - n * expected) < 4.5 * error).all()


@pytest.mark.parametrize(
    ("labels", "levels"),
    [
        # LIN0 is reached at the third time step, by user 0; or at the second, by user 1.
        (["abc", "ad", "www"], {0: [1, 0, 0], 1: [0, 1, 0], 2: [0, 0, 1]}),
        (["abc", "ec", "www"], {0: [1, 0, 0], 1: [0, 1, 1], 2: [0, 0, 0]}),
    ],
)
def test_levels_begin_with_the_first_members_of_processes(engine, labels, levels):
    kinds = {"a": ["SE0"], "b": ["LIN0"], "c": [], "d": [], "e": ["LIN0"], "w": []}
    state = seated(engine, labels, kinds)
    # Below the empty composition, SE0 and LIN0.
    dps = state.dp[state.assignment[[0, 1, 2]]]
    for level, there in {**levels, EVERYWHERE: [1, 1, 1]}.items():
        found = at_level(engine.model, state, level)
        np.testing.assert_array_equal(found[dps], np.array(there, dtype=bool))
