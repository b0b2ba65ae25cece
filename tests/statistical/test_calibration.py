"""Simulation-based calibration of the whole models, and of the sampler without PyMC around it.

``pm.sample`` compiles anew for every simulated data set, which is slow; the fast version therefore
drives the engine with the same schedule.
"""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.cluster_model import ClusterModel
from kem_pymc.model.engine import Engine
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.sampler.joint_density import log_joint
from kem_pymc.sampler.moves.sweep import JOINT, start, sweep
from tests.statistical.calibration import p_value, rank_among, rank_picture, ranks
from tests.statistical.geweke import CANDIDATES, TABLE
from tests.tiny_study import CONCENTRATION, make_cohort

pytestmark = pytest.mark.statistical

POOL = CandidatePool(list(CANDIDATES))
COHORT = make_cohort(((2, 4), (2, 4), (1, 3)))
SCHEDULE = JOINT._replace(n_mh=4, extensions=3, split_merge=3, particles=5)

MODELS = pytest.mark.parametrize(
    ("concentration", "sequential"),
    [(CONCENTRATION, False), (pm.Gamma.dist(3, 2), False), (CONCENTRATION, True)],
    ids=["fixed", "learned", "sequential"],
)

#: Level of a test of one quantity.
LEVEL = 1e-3
USER, STEP, CANDIDATE = 1, 1, 0


def by_sample(name, *place):
    """Return what reads one element of a variable from posterior draws."""
    return lambda draws: draws[name].transpose("sample", ...).to_numpy()[(slice(None), *place)]


EVOLUTION = {
    "clusters": by_sample("n_clusters"),
    "noise": by_sample("noise", USER, STEP),
    "inclusion": by_sample("inclusion", USER, STEP, CANDIDATE),
    "log joint": by_sample("log_joint"),
}


def quantities(engine, model, state):
    structure, _, noise, *concentration = engine.dump(state)
    return (
        float(state.sizes[0]),
        noise[USER, STEP],
        float(structure[USER, STEP, 1 + CANDIDATE]),
        log_joint(model, state),
        *concentration,
    )


def engine_ranks(concentration, sequential, simulations, draws, thin, seed):
    """Return ranks (simulations, 4 or 5) of the quantities of `EVOLUTION`, and a learned alpha."""
    engine = Engine(COHORT, POOL, TABLE, concentration, 1.0, sequential=sequential)
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(simulations):
        truth = engine.simulate(rng)
        model = engine.with_targets(engine.simulate_targets(truth, rng))
        true = quantities(engine, model, engine.load(model, *truth))
        state = start(model, SCHEDULE, rng)
        kept = []
        for i in range(thin * (draws + 3)):
            sweep(model, state, SCHEDULE, rng)
            if i >= 3 * thin and (i + 1) % thin == 0:
                kept.append(quantities(engine, model, state))
        columns = zip(np.array(kept).T, true, strict=True)
        found.append([rank_among(values, value, rng) for values, value in columns])
    return np.array(found)


def check_engine(concentration, sequential, simulations, draws, thin, figures):
    found = engine_ranks(concentration, sequential, simulations, draws, thin, seed=1)
    names = (*EVOLUTION, "concentration")
    values = {name: p_value(r, draws) for name, r in zip(names, found.T, strict=False)}
    figures(values)
    assert min(values.values()) > LEVEL, values


@MODELS
def test_calibration_of_the_sampler(concentration, sequential, figures):
    check_engine(concentration, sequential, 80, 9, thin=8, figures=figures)


@pytest.mark.slow
@MODELS
def test_calibration_of_the_sampler_at_length(concentration, sequential, figures):
    check_engine(concentration, sequential, 1000, 19, thin=15, figures=figures)


@pytest.mark.slow
def test_calibration_of_the_evolution_model(figures):
    model = EvolutionModel(
        COHORT, POOL, TABLE, CONCENTRATION, "joint", schedule=SCHEDULE, shared=None
    )
    found = ranks(model, EVOLUTION, simulations=60, draws=19, thin=15, tune=60, seed=1)
    values = {name: p_value(r, 19) for name, r in found.items()}
    figures(values)
    assert min(values.values()) > LEVEL, values


def cluster_model():
    return ClusterModel(COHORT, POOL, "LIN0 + SE0", parent="LIN0", priors=TABLE)


def likelihood_of_targets(model):
    """Return a compiled log likelihood of (free values..., targets...)."""
    targets = [pt.dvector() for _ in model.observed_RVs]
    pairs = zip(model.observed_RVs, targets, strict=True)
    (total,) = model.replace_rvs_by_values([sum(pm.logp(rv, y).sum() for rv, y in pairs)])
    return pytensor.function([*(model.rvs_to_values[rv] for rv in model.free_RVs), *targets], total)


def cluster_ranks(simulations, seed, power=1.0, bins=20):
    """Return ranks (simulations,) by parameter of what targets came from among prior draws.

    Of a truth and other draws of the prior, each is the truth with a probability proportional to
    its likelihood; so the share of that weight below the truth is uniform, however few draws.
    """
    model = cluster_model()
    likelihood = likelihood_of_targets(model)
    parameters = model.free_RVs
    rng = np.random.default_rng(seed)
    drawn = pm.draw([*parameters, *model.observed_RVs], simulations, random_seed=rng)
    columns, targets = drawn[: len(parameters)], drawn[len(parameters) :]
    logs = [model.rvs_to_transforms[rv] is not None for rv in parameters]
    truths = np.column_stack(
        [np.log(c) if log else c for c, log in zip(columns, logs, strict=True)]
    )
    found = np.empty(truths.shape, dtype=int)
    for i, truth in enumerate(truths):
        others = rng.choice(np.delete(np.arange(simulations), i), 40, replace=False)
        every = np.vstack([truth, truths[others]])
        heights = np.array([likelihood(*values, *(y[i] for y in targets)) for values in every])
        weights = np.exp(power * (heights - heights.max()))
        below = (weights[:, None] * (every < truth)).sum(0) + rng.random() * weights[0]
        found[i] = np.minimum(bins * below / weights.sum(), bins - 1)
    return {rv.name: column for rv, column in zip(parameters, found.T, strict=True)}


# PyMC's own triangular solve makes Numba warn of an array's layout.
slow_solve = pytest.mark.filterwarnings(r"ignore:np\.dot\(\) is faster on contiguous arrays")


@slow_solve
def test_calibration_of_the_cluster_model_by_weights(figures):
    values = {name: p_value(r, 19) for name, r in cluster_ranks(simulations=400, seed=3).items()}
    figures(values)
    assert min(values.values()) > LEVEL, values


@pytest.mark.slow
@slow_solve
def test_calibration_by_weights_notices_a_wrong_likelihood():
    found = cluster_ranks(simulations=400, seed=3, power=3.0)
    assert max(p_value(r, 19) for r in found.values()) < LEVEL


@pytest.mark.slow
def test_calibration_of_the_cluster_model(figures):
    model = cluster_model()
    names = [rv.name for rv in model.free_RVs]
    found = ranks(
        model,
        {name: by_sample(name) for name in names},
        **{"simulations": 60, "draws": 19, "thin": 10, "tune": 500, "seed": 2},
        target_accept=0.95,
    )
    values = {name: p_value(r, 19) for name, r in found.items()}
    figures(values)
    assert min(values.values()) > LEVEL, values


class TestCalibrationItself:
    def test_uniform_ranks_pass(self):
        rng = np.random.default_rng(0)
        values = np.array([p_value(rng.integers(20, size=100), 19, 500) for _ in range(200)])
        assert 0.02 < (values < 0.1).mean() < 0.2

    @pytest.mark.parametrize(
        "shape", [(1.5, 1), (0.6, 0.6), (2, 2)], ids=["bias", "narrow", "wide"]
    )
    def test_calibration_notices_ranks_that_are_not_uniform(self, shape):
        drawn = np.random.default_rng(1).beta(*shape, size=300)
        assert p_value((20 * drawn).astype(int), 19) < LEVEL

    def test_ties_are_broken_at_random(self):
        rng = np.random.default_rng(2)
        found = [rank_among(np.ones(9), 1.0, rng) for _ in range(2000)]
        assert p_value(np.array(found), 9) > LEVEL

    def test_the_picture_shows_every_quantity(self):
        found = np.random.default_rng(3).integers(20, size=50)
        figure = rank_picture({"noise": found, "clusters": found}, 19)
        assert [ax.get_title() for ax in figure.axes] == ["noise", "clusters"]
