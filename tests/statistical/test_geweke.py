"""Sweeps and single moves leave the distribution invariant that they are said to (Geweke's test).

About 50 statistics of 26 cases are compared, most of them correlated with others. If all were
independent, one |z| of the 1,300 would pass 4 with probability 0.08, and 3.5 with 0.45.
"""

import numpy as np
import pymc as pm
import pytest

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.model.concentration import Concentration
from kem_pymc.priors.population import population_parameter
from kem_pymc.sampler.moves.composition import Odds
from kem_pymc.sampler.moves.concentration import redraw_concentration
from kem_pymc.sampler.moves.extension import extend_or_contract
from kem_pymc.sampler.moves.local import local_step
from kem_pymc.sampler.moves.path import redraw_path
from kem_pymc.sampler.moves.population import redraw_population
from kem_pymc.sampler.moves.refit import refit_composition
from kem_pymc.sampler.moves.seating import gibbs_reassign
from kem_pymc.sampler.moves.split_merge import split_or_merge
from kem_pymc.sampler.moves.sweep import (
    CUT,
    EVERYWHERE,
    JOINT,
    PAPER,
    redraw_shared,
    sweep,
    within_dps,
)
from tests.statistical.geweke import TABLE, compare, largest, make_setting

pytestmark = pytest.mark.statistical

#: With swaps, which the default leaves out.
WITH_SWAPS = JOINT.odds._replace(swap=0.05)
JOINT_SWEEP = JOINT._replace(n_mh=4, odds=WITH_SWAPS, extensions=3, split_merge=3, particles=5)
CUT_SWEEP = CUT._replace(n_mh=6, seating=1, split_merge=4, refits=1)

#: Whether steps change compositions; the paper's probabilities depend on the size.
ALWAYS, NEVER = Odds(0.4, 0.4, 0.2, 1.0), Odds(0.0, 0.0, 0.0, 0.0)

#: Later datasets of all users are members of the process of LIN0, first ones of the empty one's.
STEPS = np.array([0, 1, 2, 0, 1, 0, 1, 2])
PARENTS = np.column_stack([STEPS > 0, np.zeros((8, 2), dtype=bool)])


def joint_sweep(model, state, rng):
    sweep(model, state, JOINT_SWEEP, rng)


def cut_sweep(model, state, rng):
    sweep(model, state, CUT_SWEEP, rng)


def processes_alone(model, state, rng):
    """A cut sweep that leaves memberships as they are."""
    within_dps(model, state, CUT_SWEEP, EVERYWHERE, rng)
    redraw_shared(model, state, CUT_SWEEP, rng)


@compiled
def paths(model, state, rng):
    for user in range(model.first_dataset.shape[0]):
        redraw_path(model, state, user, 5, rng)


@compiled
def seatings(model, state, rng):
    for dataset in range(state.assignment.shape[0]):
        gibbs_reassign(model, state, dataset, 3, rng)


@compiled
def splits(model, state, rng):
    for _ in range(6):
        split_or_merge(model, state, int(rng.random() * model.user.shape[0]), rng)


@compiled
def _steps(model, state, joint, odds, scale, rng):
    for cluster in state.live[: state.sizes[0]].copy():
        for _ in range(4):
            local_step(model, state, cluster, joint, odds, scale, rng)


def components(model, state, rng):
    _steps(model, state, True, ALWAYS, 0.0, rng)


def compositions(model, state, rng):
    _steps(model, state, False, ALWAYS, 0.0, rng)


def paper_steps(model, state, rng):
    _steps(model, state, False, PAPER.odds, PAPER.walk, rng)


def extensions(model, state, rng):
    _extensions(model, state, True, rng)


def extensions_of_clusters(model, state, rng):
    _extensions(model, state, False, rng)


@compiled
def _extensions(model, state, joint, rng):
    for cluster in state.live[: state.sizes[0]].copy():
        for _ in range(4):
            extend_or_contract(model, state, cluster, joint, rng)


@compiled
def _refits(model, state, joint, rng):
    for _ in range(3):
        dataset = int(rng.random() * state.assignment.shape[0])
        refit_composition(model, state, state.assignment[dataset], joint, ALWAYS, rng)


def refitted_components(model, state, rng):
    _refits(model, state, True, rng)


def refits(model, state, rng):
    _refits(model, state, False, rng)


def random_walks(model, state, rng):
    _steps(model, state, True, NEVER, 0.0, rng)


#: All that may depend on population parameters does: hyperparameters and noise, on several.
MEDIAN = population_parameter("median", pm.Normal.dist(0.2, 0.7))
SPREAD = population_parameter("spread", pm.LogNormal.dist(-0.5, 0.4))
LEVEL = population_parameter("level", pm.Normal.dist(0, 0.5))


def noise_above(parent):
    return pm.LogNormal.dist(LEVEL + 0.5 - 0.4 * parent.size, SPREAD)


SHARED_BY_ALL = {
    "table": TABLE.replace(
        lengthscale=pm.LogNormal.dist(MEDIAN, SPREAD),
        period=pm.LogNormal.dist(1 + 0.5 * MEDIAN, 0.4),
        noise=noise_above,
    )
}
LEARNED = {"concentration": Concentration(1.5, shape=3.0, rate=2.0)}
SEQUENTIAL = {"sequential": True}
FREE = {"schedule": JOINT_SWEEP}
FIXED = {"schedule": CUT_SWEEP, "parents": PARENTS}
ONE_STEP = {"schedule": CUT_SWEEP, "ends": ((4,), (3,), (4,), (2,))}  # cut and joint are the same
PRIOR = {"schedule": JOINT_SWEEP, "power": 0.0}

# The move, its setting, draws of the fast version, moves after which it starts again.
CASES = {
    "joint sweep": (joint_sweep, FREE, 5000, None),
    "joint sweep, concentration learned": (joint_sweep, FREE | LEARNED, 5000, None),
    "joint sweep, likelihood off": (joint_sweep, PRIOR, 1500, None),
    "processes of the cut sweep": (processes_alone, FIXED, 2500, None),
    "cut sweep, one time step": (cut_sweep, ONE_STEP, 1500, None),
    "path": (paths, FREE, 5000, None),
    "seating": (seatings, FIXED, 5000, None),
    "composition of a component": (components, FREE, 8000, 10),
    "composition of a component, likelihood off": (components, PRIOR, 10_000, 10),
    "composition of a cluster": (compositions, FIXED, 6000, 10),
    "the paper's steps": (paper_steps, FIXED, 6000, 10),
    "extension of a component": (extensions, FREE, 4000, 10),
    "extension of a cluster": (extensions_of_clusters, FIXED, 4000, 10),
    "refit of a component": (refitted_components, FREE, 2000, 10),
    "refit of a cluster": (refits, FIXED, 2000, 10),
    "random walk": (random_walks, FREE, 6000, 10),
    "split and merge": (splits, FIXED, 6000, 10),
    "concentration": (redraw_concentration, FREE | LEARNED, 6000, 3),
    "population": (redraw_population, FREE | SHARED_BY_ALL, 6000, 3),
    "joint sweep, population": (joint_sweep, FREE | SHARED_BY_ALL, 5000, None),
    "processes of the cut sweep, population": (processes_alone, FIXED | SHARED_BY_ALL, 2500, None),
    "joint sweep, sequential": (joint_sweep, FREE | SEQUENTIAL, 5000, None),
    "processes of the cut sweep, sequential": (processes_alone, FIXED | SEQUENTIAL, 2500, None),
    "refit of a cluster, sequential": (refits, FIXED | SEQUENTIAL, 2000, 10),
    "joint sweep, with a shared mean and known noise": (
        joint_sweep,
        FREE | {"known": True},
        5000,
        None,
    ),
    "refit, with a shared mean and known noise": (refits, FIXED | {"known": True}, 2000, 10),
}


@pytest.mark.parametrize("case", CASES)
def test_geweke(case, figures):
    move, setting, draws, restart = CASES[case]
    scores = compare(make_setting(**setting), move, draws=draws, seed=1, restart=restart)
    figures(dict(list(scores.items())[:3]))
    assert largest(scores) < 4, scores


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_geweke_at_length(case, figures):
    move, setting, draws, restart = CASES[case]
    scores = compare(make_setting(**setting), move, draws=10 * draws, seed=2, restart=restart)
    figures(dict(list(scores.items())[:3]))
    assert largest(scores) < 3.5, scores
