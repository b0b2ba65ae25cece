"""Random variables of the model: their densities are the engine's, their draws its simulator's."""

import numpy as np
import pymc as pm
import pytest

from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.model.step import NAMES
from tests.model.conftest import QUICK, SAMPLING


def point_of(arrays):
    return dict(zip(NAMES, arrays, strict=True))


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        # Labels are numbers of datasets that open a cluster; these aren't, or don't exist.
        *(("structure", (0, 0, 0), label) for label in (-7, -1, 1, 10_000, 2**31 - 1)),
        *(("structure", (1, 1, 0), label) for label in (-1, 10_000)),
        *(("noise", ..., noise) for noise in (np.nan, np.inf, -1.0, 0.0)),
    ],
)
def test_what_is_impossible_has_no_density(model, name, place, value):
    logp, point = model.compile_logp(), model.initial_point()
    assert np.isfinite(logp(point))
    point[name][place] = value
    assert logp(point) == -np.inf


def test_log_density_equals_the_joint_density(model, engine):
    # Whose terms are compared with a computation by hand in test_joint_density.
    logp = model.compile_logp()
    for seed in range(3):
        structure, hyperparameters, noise = arrays = engine.simulate(np.random.default_rng(seed))
        expected = (
            engine.log_structure(structure)
            + engine.log_hyperparameters(structure, hyperparameters)
            + engine.log_noise(structure, noise)
            + engine.log_likelihood(arrays).sum()
        )
        assert logp(point_of(arrays)) == pytest.approx(expected, abs=1e-8)


@pytest.mark.integration
def test_other_targets_can_be_observed(engine):
    """As simulation-based calibration does: the model's own draws become the data."""
    y = engine.simulate_targets(engine.simplest(), np.random.default_rng(0))
    free = EvolutionModel(
        engine.cohort, engine.pool, engine.priors, schedule=QUICK, observed=False, shared=None
    )
    with pm.observe(free, {"targets": y}):
        idata = pm.sample(draws=3, tune=0, chains=1, random_seed=1, **SAMPLING)
    np.testing.assert_array_equal(idata["observed_data"]["targets"], y)
    last = idata["posterior"].isel(chain=0, draw=-1)
    arrays = [last[name].to_numpy() for name in NAMES]
    np.testing.assert_allclose(last["dataset_log_likelihood"], engine.log_likelihood(arrays, y))


def test_prior_predictive_draws_from_the_simulator(model, engine):
    with model:
        idata = pm.sample_prior_predictive(60, random_seed=3)
    prior = idata["prior"].isel(chain=0)
    structure = prior["structure"].to_numpy()
    assert all(np.isfinite(engine.log_structure(s)) for s in structure)
    noise = np.log(prior["noise"].to_numpy()[:, :, 0])
    assert abs(noise.mean() - 2) < 0.25  # LogNormal(2, 0.5) below the empty composition
    assert idata["prior_predictive"]["targets"].shape == (1, 60, *engine.targets.shape)
