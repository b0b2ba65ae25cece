import json
from dataclasses import replace

import arviz as az
import numpy as np
import pymc as pm
import pytest

from kem_pymc import priors as prior_tables
from kem_pymc.data.families import Family
from kem_pymc.errors import InputError
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model import evolution_model
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.sampler.moves.sweep import JOINT
from tests.model.conftest import SAMPLING
from tests.refusals import refused
from tests.tiny_study import CONCENTRATION


def test_sampling_finds_the_step_and_names_the_dimensions(idata, cohort, pool):
    posterior = idata["posterior"]
    assert dict(posterior["inclusion"].sizes) == {
        "chain": 2,
        "draw": 40,
        "user": 3,
        "time_step": 3,
        "candidate": 3,
    }
    assert list(posterior["user"].values) == list(cohort.users)
    assert list(posterior["candidate"].values) == pool.names
    assert posterior["noise"].dims == ("chain", "draw", "user", "time_step")
    assert posterior["hyperparameters"].dims[-1] == "hyperparameter"
    assert idata["sample_stats"]["factorisations"].min() > 0
    assert (idata["sample_stats"]["failed_factorisations"] == 0).all()


def test_pilots_with_outliers_bring_no_variables_of_their_population_model(cohort, pool):
    heavy = EvolutionModel(replace(cohort, family=Family("student", (4.0, 0.5))), pool)
    more = {*heavy.named_vars} - {*EvolutionModel(cohort, pool).named_vars}
    assert more == {"known_latent", "known_latent_noise", "known_targets"}


def test_posterior_is_consistent_with_itself(idata, engine):
    posterior = idata["posterior"].isel(chain=0)
    for draw in (0, 17, 39):
        here = posterior.isel(draw=draw)
        structure = here["structure"].to_numpy()
        arrays = (structure, here["hyperparameters"].to_numpy(), here["noise"].to_numpy())
        assert np.isfinite(engine.log_structure(structure))
        assert (here["inclusion"].to_numpy() == structure[..., 1:]).all()
        labels = structure[..., 0][engine.present]
        assert here["n_clusters"] == len(np.unique(labels))
        np.testing.assert_allclose(here["dataset_log_likelihood"], engine.log_likelihood(arrays))
        active = np.isfinite(arrays[1])[..., 0]  # the amplitude of the first candidate
        assert (active == (structure[..., 1] == 1)).all()


@pytest.mark.filterwarnings("ignore:invalid value")  # of what never changes, R-hat is undefined
def test_diagnostics_come_out_of_summary(idata):
    table = az.summary(idata, var_names=["n_clusters", "log_joint"])
    assert np.isfinite(table["r_hat"].astype(float)).all()
    inclusion = az.summary(idata, var_names=["inclusion"])
    assert len(inclusion) == 27


def test_serial_and_parallel_chains_are_the_same(model, idata):
    with model:
        parallel = pm.sample(draws=40, tune=10, chains=2, cores=2, random_seed=11, **SAMPLING)
    for name in idata["posterior"].data_vars:
        np.testing.assert_array_equal(parallel["posterior"][name], idata["posterior"][name])


def test_joint_feedback_samples_too(cohort, pool, table):
    quick = JOINT._replace(n_mh=2, particles=4)
    with EvolutionModel(cohort, pool, table, feedback="joint", schedule=quick, shared=None):
        idata = pm.sample(draws=10, tune=0, chains=1, random_seed=1, **SAMPLING)
    assert idata["posterior"].sizes["draw"] == 10
    assert np.isfinite(idata["sample_stats"]["acceptance_path"]).all()


def test_settings_travel_with_the_posterior(idata, model):
    lines = [str(s) for s in idata["constant_data"]["setting"].values]
    settings = {line.split(": ", 1)[0]: json.loads(line.split(": ", 1)[1]) for line in lines}
    assert settings["pool"] == ["LIN0", "SE0", "LIN0 x PER0"]
    assert settings["feedback"] == "cut"
    assert settings["likelihood"] == "cumulative"
    assert settings["concentration"] == CONCENTRATION
    assert settings["scaling"] == model.scaling.to_dict()
    assert set(settings["versions"]) == {"kem-pymc", "pymc", "pytensor"}


def test_data_travel_with_the_posterior(idata, model):
    constant = idata["constant_data"]
    assert constant["inputs"].dims == ("user", "point", "feature")
    scaled = model.engine.cohort
    for u, (x, ends) in enumerate(zip(scaled.inputs, scaled.ends, strict=True)):
        own = constant["n_points"].values[u]
        np.testing.assert_array_equal(own[own > 0], ends)
        np.testing.assert_array_equal(constant["inputs"].values[u, : own.max()], x)


def test_unit_priors_scale_with_pilot_users_only(cohort, pool):
    scaled = EvolutionModel(cohort, pool, shared=None)
    assert scaled.priors.scaling == "unit"
    every = np.concatenate(scaled.engine.cohort.inputs)
    assert every.min() == 0
    assert every.max() == pytest.approx(1)
    raw = EvolutionModel(cohort, pool, prior_tables.synthetic(), shared=None)
    np.testing.assert_array_equal(raw.engine.cohort.inputs[0], cohort.inputs[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"concentration": 0.0}, "concentration"),
        ({"feedback": "both"}, "'cut' or 'joint'"),
        ({"likelihood_power": 2.0}, "power"),
        ({"likelihood": "batch"}, "'cumulative' or 'sequential'"),
        ({"schedule": JOINT}, "schedule isn't for"),
    ],
)
def test_bad_arguments(cohort, pool, arguments, message):
    with pytest.raises(InputError, match=message):
        EvolutionModel(cohort, pool, **arguments, shared=None)


def test_dimensions_must_agree(cohort):
    with pytest.raises(InputError, match="1 feature,"):
        EvolutionModel(cohort, CandidatePool(["SE0"], dimension=2), shared=None)


def test_more_candidates_than_draws_can_hold_are_refused(cohort, pool, monkeypatch):
    """Before anything is learned: 200 features with interactions had a minute of silence."""
    monkeypatch.setattr(evolution_model, "MOST_INDICATORS", 26)
    words = ("3 candidates for 3 users with 3 time steps", "fewer features=", "no interactions=")
    refused(lambda: EvolutionModel.from_cohort(cohort, pool), *words)
    refused(lambda: EvolutionModel(cohort, pool), *words)


# One cluster as a plain PyMC model.
