"""Moves leave the distribution invariant that they are said to (Geweke's test)."""

import numpy as np
import pytest

from kem_pymc.evolution.engine import Engine
from kem_pymc.evolution.moves.local import local_steps
from kem_pymc.evolution.moves.path import redraw_path
from kem_pymc.evolution.moves.split_merge import split_or_merge
from kem_pymc.evolution.moves.sweep import CUT, JOINT, sweep
from tests.evolution.conftest import (  # noqa: F401  fixtures
    CONCENTRATION,
    cohort,
    make_cohort,
    pool,
    table,
)
from tests.statistical.joint_distribution import compare

JOINT_SWEEP = JOINT._replace(steps=4, split_merge=3, particles=5)
CUT_SWEEP = CUT._replace(steps=4, seating=1, split_merge=3)


def joint_sweep(study, state, rng):
    sweep(study, state, JOINT_SWEEP, rng)


def cut_sweep(study, state, rng):
    sweep(study, state, CUT_SWEEP, rng)


def paths(study, state, rng):
    for user in range(len(study.first)):
        redraw_path(study, state, user, 5, rng)


def compositions(study, state, rng):
    for slot in state.live[: state.sizes[0]].copy():
        local_steps(study, state, slot, 4, True, 0.4, 0.4, 0.2, rng)


def walks(study, state, rng):
    for slot in state.live[: state.sizes[0]].copy():
        local_steps(study, state, slot, 4, True, 0.0, 0.0, 0.0, rng)


def splits(study, state, rng):
    for _ in range(4):
        split_or_merge(study, state, rng)


def z_scores(ends, pool, table, schedule, move, seed, sweeps, restart):  # noqa: F811
    engine = Engine(make_cohort(ends), pool, table, CONCENTRATION, likelihood_power=1.0)
    study = engine.study._replace(data=engine.study.data._replace(nested=False))
    return compare(
        study,
        schedule,
        move,
        np.random.default_rng(seed),
        forward_draws=sweeps,
        sweeps=sweeps,
        restart=restart,
    )


RAGGED = ((2, 4, 6), (2, 4), (1, 3, 6))
ONE_STEP = ((4,), (3,), (4,), (2,))  # where cut and joint are the same

CASES = {
    "joint sweep": (RAGGED, JOINT_SWEEP, joint_sweep, None),
    "path": (RAGGED, JOINT_SWEEP, paths, None),
    "composition": (RAGGED, JOINT_SWEEP, compositions, 20),
    "walk": (RAGGED, JOINT_SWEEP, walks, 20),
    "split and merge": (RAGGED, JOINT_SWEEP, splits, 20),
    "cut sweep, one time step": (ONE_STEP, CUT_SWEEP, cut_sweep, None),
}


@pytest.mark.parametrize("case", ["joint sweep", "cut sweep, one time step"])
def test_sweeps_leave_the_joint_distribution_invariant(case, pool, table):  # noqa: F811
    ends, schedule, move, restart = CASES[case]
    z = z_scores(ends, pool, table, schedule, move, seed=1, sweeps=1500, restart=restart)
    assert np.abs(z).max() < 4


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_move_alone_at_length(case, pool, table):  # noqa: F811
    ends, schedule, move, restart = CASES[case]
    z = z_scores(ends, pool, table, schedule, move, seed=2, sweeps=20_000, restart=restart)
    assert np.abs(z).max() < 4
