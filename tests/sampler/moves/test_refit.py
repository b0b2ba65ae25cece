"""Compositions with fitted values."""

import numpy as np
import pytest

from kem_pymc.data.cohort import Cohort
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.engine import Engine
from kem_pymc.sampler.moves.composition import Odds
from kem_pymc.sampler.moves.refit import FEW, MOST, chance_of_fit_to_members, refit_composition
from kem_pymc.sampler.state import copy_state, detach
from tests.tiny_study import make_cohort


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
