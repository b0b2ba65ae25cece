"""The models behind Final and Stratified: one process each, no parent, the pilot users' scale."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from scipy.stats import norm

from kem_pymc import priors as prior_tables
from kem_pymc.data.families import Family
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.ablations import (
    final_model,
    final_model_of,
    stratified_models,
    unshared_model_of,
)
from kem_pymc.model.cluster_model import scaling_for, to_explain
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.population.shared_part import learn_shared
from kem_pymc.priors.population import population_parameter


def test_final_has_every_users_last_dataset(cohort, pool, table):
    model = final_model(cohort, pool, table, shared=None)
    assert model.cohort.users == cohort.users
    assert [int(e[0]) for e in model.cohort.ends] == [len(y) for y in cohort.targets]
    assert model.cohort.max_steps == 1


def test_strata_have_the_users_who_got_there(cohort, pool, table):
    models = stratified_models(cohort, pool, table, shared=None)
    assert [m.cohort.users for m in models] == [("a", "b", "c"), ("a", "b", "c"), ("a", "c")]
    assert [int(e[0]) for e in models[2].cohort.ends] == [6, 6]


def test_strata_have_values_of_population_parameters_of_their_own(cohort, pool, table):
    """Sweeps of one model write to its values in place."""
    median = population_parameter("stratum_median", pm.Normal.dist(0.3, 0.8))
    priors = table.replace(lengthscale=pm.LogNormal.dist(median, 0.5))
    models = stratified_models(cohort, pool, priors, shared=None)
    values = [model.engine.prior_table.population for model in models]
    values[0][:] = 7.0
    assert all(np.all(v != 7.0) for v in values[1:])


def test_units_are_those_of_the_whole_cohort(cohort, pool):
    table = prior_tables.paper()
    expected = scaling_for(cohort, table)
    for model in (
        final_model(cohort, pool, table, shared=None),
        *stratified_models(cohort, pool, table, shared=None),
    ):
        np.testing.assert_array_equal(model.scaling.feature_low, expected.feature_low)
        assert model.scaling.target_sd == expected.target_sd


def test_default_priors_are_those_of_the_family(cohort):
    """All models of a cohort have them, with and without what users share."""
    targets = tuple((y > np.median(y)).astype(float) for y in cohort.targets)
    binary = replace(cohort, targets=targets, family=Family.learn("binary", targets))
    pool = CandidatePool(["CONST", "LIN0"], cohort.dimension)
    shared = learn_shared(scaling_for(binary, prior_tables.default(pool)).apply(binary), "linear")
    model = EvolutionModel(binary, pool, shared=shared)
    unshared = unshared_model_of(model)
    for made in (model, final_model_of(model), unshared):
        assert made.priors.enter["CONST"] == 0.9
    assert model.priors.noise_floor == 1e-3 * shared.unexplained.within
    unexplained = to_explain(unshared.scaling.apply(binary))
    assert unexplained.total == 1
    whole = prior_tables.default(pool, unexplained, binary.family)
    assert unshared.priors.to_dict() == whole.without_parent().to_dict()
    given = EvolutionModel(binary, pool, model.priors, shared=shared)
    assert unshared_model_of(given).priors.to_dict() == model.priors.without_parent().to_dict()


def test_the_noise_knows_no_parent(cohort, pool, table):
    table = table.replace(noise_without_parent=pm.LogNormal.dist(-1, 0.5))
    for model, expected in (
        (final_model(cohort, pool, table, shared=None), norm(-1, 0.5)),
        (EvolutionModel(cohort.at(-1), pool, table, shared=None), norm(2, 0.5)),
    ):
        empty = pool.inclusion(Composition())
        priors = model.engine.prior_table
        for value in (-2.0, 0.5):
            density = priors.noise_log_density(empty, value, priors.population)
            assert density == pytest.approx(expected.logpdf(value), abs=1e-10)


def test_what_is_learned_has_one_parent(cohort, pool, table):
    with final_model(cohort, pool, table, concentration=2.0, shared=None) as model:
        posterior = pm.sample(
            draws=20, tune=5, chains=1, cores=1, random_seed=0, progressbar=False, quiet=True
        )
    evolutions = Evolutions.from_posterior(posterior)
    assert evolutions.parents == (Composition(),)
    assert evolutions.concentration == 2.0
    assert evolutions.priors == model.priors.to_dict()
    again = prior_tables.Priors.from_dict(evolutions.priors)
    assert again.to_dict() == evolutions.priors
