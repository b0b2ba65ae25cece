import math
from itertools import product

import numpy as np
import pytest

from kem_pymc._jit.decorators import compiled
from kem_pymc.data.cohort import Cohort
from kem_pymc.gp.likelihood import prefix_log_likelihood
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.engine import Engine
from kem_pymc.sampler.moves import sweep as moves
from kem_pymc.sampler.moves.births import draw_birth, log_birth
from kem_pymc.sampler.moves.component import closure
from kem_pymc.sampler.moves.composition import (
    Odds,
    action_probabilities,
    neighbour,
    neighbour_probability,
)
from kem_pymc.sampler.moves.local import local_step
from kem_pymc.sampler.moves.refit import (
    FEW,
    MOST,
    chance_of_fit_to_members,
    refit_composition,
)
from kem_pymc.sampler.moves.sweep import (
    CUT,
    JOINT,
    PAPER,
    check_density,
    compile_moves,
    short_dataset,
    start,
    sweep,
)
from kem_pymc.sampler.state import (
    MOVES,
    candidate_log_prior,
    detach,
    draw_noise,
    draw_value,
    kernel_log_prior,
)
from tests.states import copy_state, memberships_agree
from tests.tiny_study import CONCENTRATION, make_cohort


@pytest.mark.parametrize(
    "schedule",
    [
        CUT._replace(steps=6, refits=3),
        JOINT._replace(steps=6, split_merge=20, path_split_merge=20, refits=40),
        PAPER._replace(seating=2, steps=5),
    ],
    ids=["cut", "joint", "paper"],
)
@pytest.mark.parametrize("sequential", [False, True])
def test_running_density_stays_exact_after_every_move(cohort, pool, table, schedule, sequential):
    engine = Engine(cohort, pool, table, CONCENTRATION, 1.0, sequential=sequential)
    accepted = np.zeros(len(MOVES), dtype=int)
    for seed in range(4):  # a chain may stay where everything is noise, and no component can change
        rng = np.random.default_rng(seed)
        state = start(engine.study, schedule, rng)
        for _ in range(10):
            sweep(engine.study, state, schedule._replace(check=True), rng)
            assert memberships_agree(engine.study, state)
            assert state.sizes.sum() == len(state.free)
            assert sorted(np.unique(state.assignment)) == sorted(state.live[: state.sizes[0]])
            counts = np.bincount(state.assignment, minlength=len(state.free))
            assert (counts == state.occupants).all()
        accepted += state.counts[3::2]
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
    ahead, called = [], []
    with monkeypatch.context() as patch:
        patch.setattr(moves, "compile_side_by_side", lambda functions, *_: ahead.extend(functions))
        compile_moves(engine.study, schedule, 2)
    for function in (f for f in vars(moves).copy().values() if hasattr(f, "py_func")):
        name = function.__name__
        monkeypatch.setattr(moves, name, lambda *_, function=function: called.append(function))
    sweep(engine.study, None, schedule, None)
    levels = {moves.at_level, *called}  # moves ask for it themselves
    assert {*ahead, moves.at_level} == levels
    assert len(ahead) == len(set(called)) >= 3


def test_check_notices_a_wrong_density(engine):
    state = start(engine.study, CUT, np.random.default_rng(0))
    state.log_density[0] += 1e-4
    with pytest.raises(RuntimeError, match="running log density"):
        check_density(engine.study, state)


def test_the_same_generator_gives_the_same_sweeps(engine):
    results = []
    for _ in range(2):
        rng = np.random.default_rng(9)
        state = start(engine.study, JOINT, rng)
        for _ in range(5):
            sweep(engine.study, state, JOINT, rng)
        results.append(engine.dump(state))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_copies_of_a_state_share_nothing(engine):
    state = start(engine.study, CUT, np.random.default_rng(0))
    copy = copy_state(state)
    before = engine.dump(copy)
    sweep(engine.study, state, CUT, np.random.default_rng(1))
    for a, b in zip(before, engine.dump(copy), strict=True):
        np.testing.assert_array_equal(a, b)


def test_closure_joins_clusters_through_what_follows_them(engine):
    # a: c0 c1 c2   b: c0 c3   c: c4 c1 c2
    structure, hyperparameters, noise = engine.simplest()
    structure[..., 0] = [[0, 1, 2], [0, 4, -1], [6, 1, 2]]
    structure[..., 1] = engine.present  # LIN0 everywhere
    hyperparameters[..., :2] = np.where(engine.present[..., None], 1.0, np.nan)
    state = engine.load(engine.study, structure, hyperparameters, noise)
    slot = dict(zip([0, 1, 2, 4, 6], state.assignment[[0, 1, 2, 4, 5]], strict=True))

    def component(label):
        changed = np.zeros(len(state.free), dtype=bool)
        moved = changed.copy()
        allowed = closure(engine.study, state, slot[label], changed, moved)
        names = {s: k for k, s in slot.items()}
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
    state = engine.load(engine.study, structure, hyperparameters, noise)
    changed = np.zeros(len(state.free), dtype=bool)
    assert not closure(engine.study, state, state.assignment[0], changed, changed.copy())


@compiled
def _prior_over_birth(study, state, candidate, own, rng, n):
    h = state.h[state.live[:1]].copy()
    changed = np.zeros(state.occupants.shape[0], dtype=np.bool_)
    changed[state.live[0]] = True
    out = np.empty(n)
    for i in range(n):
        draw_birth(study, state, candidate, own, changed, 0, h, 0, rng)
        log_q = log_birth(study, state, candidate, own, changed, 0, h, 0)
        out[i] = math.exp(candidate_log_prior(study, candidate, h[0]) - log_q)
    return out


@pytest.mark.parametrize("own", [[0, 0, 0], [1, 1, 0]], ids=["alone", "with a relative"])
def test_density_of_births_is_that_of_their_draws(engine, own):
    # E_q[p / q] = 1 for the normalised prior p: it fails if q isn't what is drawn from.
    rng = np.random.default_rng(3)
    state = start(engine.study, CUT, rng)
    while not state.included[state.live[1 : state.sizes[0]], 2].any():
        sweep(engine.study, state, CUT, rng)  # until another cluster has something to copy
    own = np.array(own, dtype=bool)
    ratios = _prior_over_birth(engine.study, state, 2, own, rng, 200_000)
    assert ratios.max() < 4  # the prior's share bounds it, so the mean is well behaved
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / math.sqrt(len(ratios))


@compiled
def _evidence(study, state, slot, included, rng, n):
    """Return log p(members | composition) by averaging the likelihood over prior draws."""
    h = state.h[slot].copy()
    parent = state.parent[state.process[slot]]
    scratch = np.empty(study.data.ends.shape[1])
    counts = np.zeros(2, dtype=np.int64)
    active = np.flatnonzero(included)
    out = np.empty(n)
    for i in range(n):
        for c in active:
            for p in range(study.layout.hyper_start[c], study.layout.hyper_start[c + 1]):
                h[p] = draw_value(study, p, rng)
        log_noise = draw_noise(study, parent, rng)
        total = 0.0
        for d in range(state.assignment.shape[0]):
            prefix_log_likelihood(
                study.kernels,
                study.layout,
                active,
                h,
                log_noise,
                study.data,
                study.user[d],
                study.step[d] + 1,
                scratch,
                counts,
            )
            total += scratch[study.step[d]]
        out[i] = total
    return out


#: All different, so that a ratio that mixes them up is noticed.
ODDS = Odds(add=0.3, remove=0.2, swap=0.1, edge=0.45)


@compiled
def _visits(study, state, slot, rng, n, thin):
    out = np.empty(n, dtype=np.int64)
    for i in range(n):
        for _ in range(thin):
            local_step(study, state, slot, False, ODDS, 0.0, rng)
        code = 0
        for c in range(state.included.shape[1]):
            code += state.included[slot, c] << c
        out[i] = code
    return out


def test_compositions_of_one_cluster_are_visited_as_enumeration_says(table):
    cohort = make_cohort(ends=((4,), (3,)), seed=8)
    pool = CandidatePool(["LIN0", "SE0", "LIN0 x SE0"])
    table = table.replace(enter={"base kernel": 0.4, "interaction": 0.25})
    engine = Engine(cohort, pool, table, concentration=1.0, likelihood_power=1.0)
    study = engine.study
    state = engine.load(study, *engine.simplest())
    slot = state.assignment[0]
    rng = np.random.default_rng(12)
    log_posterior = np.empty(8)
    errors = np.empty(8)
    for code, bits in enumerate(product([False, True], repeat=3)):
        included = np.array(bits[::-1])
        draws = np.exp(_evidence(study, state, slot, included, rng, 60_000))
        prior = np.where(included, study.priors.enter, 1 - study.priors.enter).prod()
        log_posterior[code] = math.log(prior * draws.mean())
        errors[code] = draws.std() / draws.mean() / math.sqrt(len(draws))
    exact = np.exp(log_posterior - np.logaddexp.reduce(log_posterior))
    assert errors.max() < 0.02  # the enumeration itself is good to 2 %

    visits = _visits(study, state, slot, rng, 60_000, 3)
    batches = np.stack([np.bincount(b, minlength=8) / len(b) for b in np.split(visits, 40)])
    error = np.hypot(batches.std(0, ddof=1) / math.sqrt(40), exact * errors)
    z = (batches.mean(0) - exact) / error
    assert exact.max() < 0.6  # every composition matters
    assert np.abs(z).max() < 4, (exact, batches.mean(0))


def test_the_papers_schedule_is_the_papers():
    """Sections 10.2.4 and 10.3.3; a move that the paper doesn't make would be noticed, too."""
    odds = Odds(PAPER.p_add, PAPER.p_remove, PAPER.p_swap, PAPER.p_edge)
    by_size = [action_probabilities(size, 4, odds) for size in range(5)]
    assert by_size == [(0.5, 0.0, 0.0), *[(0.2, 0.4, 0.0)] * 3, (0.0, 0.5, 0.0)]
    assert (PAPER.seating, PAPER.steps, PAPER.walk) == (10, 100, 0.1)
    others = PAPER.extensions, PAPER.refits, PAPER.split_merge, PAPER.path_split_merge
    assert (*others, PAPER.particles, PAPER.heating, PAPER.joint) == (0,) * 7


def test_probabilities_of_neighbours_are_those_of_their_draws():
    included = np.array([True, False, False, True])
    odds = Odds(add=0.5, remove=0.3, swap=0.2, edge=1.0)
    counts: dict[tuple[bool, ...], int] = {}
    ratios = {}
    rng = np.random.default_rng(2)
    n = 20_000
    for _ in range(n):
        removed, added, log_choice = neighbour(included, odds, rng)
        wanted = included.copy()
        wanted[[c for c in (removed, added) if c >= 0]] ^= True
        counts[tuple(wanted)] = counts.get(tuple(wanted), 0) + 1
        ratios[tuple(wanted)] = log_choice
    total = 0.0
    for wanted, count in counts.items():
        there = neighbour_probability(included, np.array(wanted), odds)
        back = neighbour_probability(np.array(wanted), included, odds)
        assert ratios[wanted] == pytest.approx(math.log(back / there), abs=1e-12)
        assert abs(count / n - there) < 4.5 * math.sqrt(there / n)
        total += there
    assert total == pytest.approx(1)


def test_likelihood_off_leaves_the_prior(pool, table):
    engine = Engine(make_cohort(), pool, table, concentration=1.0, likelihood_power=0.0)
    rng = np.random.default_rng(5)
    state = start(engine.study, CUT, rng)
    sizes = []
    for _ in range(3000):
        sweep(engine.study, state, CUT._replace(steps=3, seating=1), rng)
        sizes.append([state.included[state.assignment[d]].sum() for d in engine.study.first])
    sizes = np.array(sizes).mean(1)
    batches = sizes.reshape(30, -1).mean(1)
    assert abs(sizes.mean() - 0.22) < 4 * batches.std(ddof=1) / math.sqrt(30)
    slot = state.live[0]
    fresh = kernel_log_prior(
        engine.study,
        state.parent[state.process[slot]],
        state.included[slot],
        state.h[slot],
        state.log_noise[slot],
    )
    assert fresh == pytest.approx(state.log_prior[slot], abs=1e-10)


def test_there_is_room_where_every_dataset_changes_process(table):
    pool = CandidatePool.from_base(["LIN", "PER", "SE"], interactions=True)
    restless = table.replace(enter={"base kernel": 0.5, "interaction": 0.5}, stay=0.5)
    cohort = make_cohort(ends=(tuple(range(1, 11)),) * 4)
    engine = Engine(cohort, pool, restless, concentration=50.0, likelihood_power=0.0)
    rng = np.random.default_rng(0)
    state = start(engine.study, CUT, rng)
    for _ in range(60):
        sweep(engine.study, state, CUT._replace(steps=2), rng)
    assert memberships_agree(engine.study, state)


@compiled
def _count_short(study, state, n, rng):
    counts = np.zeros(study.user.shape[0])
    for _ in range(n):
        counts[short_dataset(study, state, rng)] += 1
    return counts


def test_clusters_of_many_datasets_are_refitted_less_often(pool, table):
    engine = Engine(make_cohort(ends=[(2, 4)] * 31), pool, table, 1.0, 1.0)
    structure, hyperparameters, noise = engine.simplest()
    structure[0, :, 0] = [0, 1]  # the first user's datasets sit alone, 60 together
    structure[1:, :, 0] = 2
    state = engine.load(engine.study, structure, hyperparameters, noise)
    n = 20_000
    counts = _count_short(engine.study, state, n, np.random.default_rng(1))
    weights = 1 / np.array([2.0, 4.0]) ** 2
    expected = np.tile(weights / 9, (31, 1))  # (20 / 60)^2
    expected[0] = weights
    expected /= expected.sum()
    error = np.sqrt(n * expected * (1 - expected))
    assert (abs(counts.reshape(31, 2) - n * expected) < 4.5 * error).all()


def test_fits_to_many_points_are_proposed_less_often(pool, table):
    cohort = make_cohort(ends=((20, 50), (60,), (22,)))
    engine = Engine(cohort, pool, table, 1.0, 1.0)
    structure, hyperparameters, noise = engine.simplest()
    state = engine.load(engine.study, structure, hyperparameters, noise)

    def chance(dataset):
        return chance_of_fit_to_members(engine.study, state, state.assignment[dataset])

    # The first datasets of all are in one cluster, the second one of the first user with them.
    assert chance(0) == pytest.approx(20_000 / (50**3 + 60**3 + 22**3))
    assert chance(0) == chance(1) == chance(2) == chance(3)
    detach(engine.study, state, 2)
    assert chance(0) == pytest.approx(20_000 / (50**3 + 22**3))
    detach(engine.study, state, 1)
    assert chance(0) == 1.0


def test_compositions_of_many_candidates_are_refitted_less_often(table):
    pool = CandidatePool(["LIN0", *(f"SE{d}" for d in range(MOST + 1))], dimension=MOST + 1)
    rng = np.random.default_rng(0)
    x = [rng.uniform(size=(4, MOST + 1)) for _ in range(3)]
    y = [rng.normal(size=4) for _ in x]
    cohort = Cohort(range(3), x, y, [np.array([2, 4])] * 3, [f"x{d}" for d in range(MOST + 1)])
    engine = Engine(cohort, pool, table, 1.0, 1.0)
    structure, hyperparameters, noise = engine.simplest()
    n, odds = 400, Odds(add=0.0, remove=0.5, swap=0.5, edge=1.0)
    for size, fitted in ((FEW, 1.0), (2 * FEW, 0.25), (MOST + 1, 0.0)):
        structure[..., 1 : size + 1] = 1
        hyperparameters[..., : 2 * size] = 0.5
        state = engine.load(engine.study, structure, hyperparameters, noise)
        there, kept = copy_state(state), 0
        for _ in range(n):
            engine.study.fits.data[:] = 0.0
            before = state.counts[0]
            refit_composition(engine.study, state, state.assignment[0], False, odds, rng)
            kept += state.counts[0] > before
            for array, value in zip(state, there, strict=True):
                array[...] = value
        error = np.sqrt(fitted * (1 - fitted) * n)
        assert abs(kept - fitted * n) <= 4.5 * error, size
